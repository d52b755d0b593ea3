"""Queues whose waits end in time."""

import queue
import threading

import pytest

from funken.timing.clock import TimedQueue

BOUND = 30


def test_items_come_in_order_from_each_thread():
    items, found = TimedQueue(), []
    threads = [threading.Thread(target=lambda n=n: [items.put((n, i)) for i in range(2000)]) for n in range(3)]
    for thread in threads:
        thread.start()
    while len(found) < 6000:
        found.append(items.get(timeout=BOUND))
    for thread in threads:
        thread.join(BOUND)
    assert [[i for n, i in found if n == at] for at in range(3)] == [list(range(2000))] * 3
    assert items.empty()


def test_a_wait_ends_although_an_item_was_taken_without_one():
    items, ended = TimedQueue(), threading.Event()

    def take() -> None:
        for i in range(20_000):
            items.put(i)
            assert items.get() == i
            with pytest.raises(queue.Empty):
                items.get(timeout=1e-6)
        ended.set()

    threading.Thread(target=take, daemon=True).start()
    assert ended.wait(BOUND)


def test_who_waits_gets_what_comes():
    items, found = TimedQueue(), queue.Queue()
    thread = threading.Thread(target=lambda: found.put(items.get()), daemon=True)
    thread.start()
    items.put("late")
    assert found.get(timeout=BOUND) == "late"
    with pytest.raises(queue.Empty):
        items.get_nowait()
