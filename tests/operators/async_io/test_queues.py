"""The order in which results leave an asynchronous operator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.ids import MIN_TIMESTAMP
from funken.operators.async_io.operator import OrderedQueue, QueueEntry, UnorderedQueue
from funken.operators.base import Output, OutputTag


class Out(Output):
    """Writes down what leaves: values, and marks by name."""

    def __init__(self):
        self.left = []
        self.blocks = []
        self.emit = self._emit
        self.emit_side = lambda tag, values, timestamps: self.blocks.append((tag, values, timestamps))

    def _emit(self, values, timestamps):
        self.left += values
        self.blocks.append((values, timestamps))

    def mark(self, name):
        return lambda: self.left.append(name)


events = st.lists(st.one_of(st.just("add"), st.just("mark"), st.just("emit"), st.integers(0, 30)), max_size=40)
"""Records come, marks come, the n-th record without a result gets one, results leave."""


def play(queue, events):
    """Return what came and what left, records as numbers and marks as text; and the order of the results."""
    out, came, completed, waiting = Out(), [], [], []
    for event in [*events, *[0] * len(events), "emit"]:
        if event == "add":
            entry = QueueEntry(len(came))
            came.append(entry.value)
            waiting.append(entry)
            queue.add(entry)
        elif event == "mark":
            came.append(f"mark {len(came)}")
            queue.mark(out.mark(came[-1]))
        elif event == "emit":
            queue.emit(out)
            assert queue.size == sum(isinstance(item, int) for item in came) - sum(
                isinstance(item, int) for item in out.left
            )
        elif waiting:
            entry = waiting.pop(event % len(waiting))
            completed.append(entry.value)
            queue.complete(entry, [entry.value])
    return came, out.left, completed


@given(events)
def test_s84_an_ordered_queue_keeps_the_order(events):
    came, left, _ = play(OrderedQueue(), events)
    assert left == came


@given(events)
def test_s84_an_unordered_queue_keeps_the_order_of_marks_and_between_them_that_of_the_results(events):
    came, left, completed = play(UnorderedQueue(), events)

    def segments(items):
        found = [[]]
        for item in items:
            found[-1].append(item)
            if isinstance(item, str):
                found.append([])
        return found

    assert len(came) == len(left)
    for before, after in zip(segments(came), segments(left), strict=True):
        assert set(before) == set(after)
        assert [item for item in completed if item in after] == [
            item for item in after if item != after[-1] or item in completed
        ]


@pytest.mark.parametrize("make", [OrderedQueue, UnorderedQueue])
def test_results_leave_as_soon_as_they_may(make):
    queue, out = make(), Out()
    entries = [QueueEntry(n) for n in range(4)]
    for entry in entries[:2]:
        queue.add(entry)
    queue.mark(out.mark("mark"))
    for entry in entries[2:]:
        queue.add(entry)
    left = []
    for n in (1, 3, 0, 2):
        queue.complete(entries[n], [n])
        queue.emit(out)
        left.append(list(out.left))
    assert (
        left
        == {
            OrderedQueue: [[], [], [0, 1, "mark"], [0, 1, "mark", 2, 3]],
            UnorderedQueue: [[1], [1], [1, 0, "mark", 3], [1, 0, "mark", 3, 2]],
        }[make]
    )


@pytest.mark.parametrize("make", [OrderedQueue, UnorderedQueue])
def test_what_leaves_together_is_one_block_with_the_timestamps_of_the_records(make):
    queue, out = make(), Out()
    for n, at in ((1, 10), (2, MIN_TIMESTAMP), (3, 30)):
        entry = QueueEntry(n, at)
        queue.add(entry)
        queue.complete(entry, [n] * n)
    queue.emit(out)
    assert out.blocks == [([1, 2, 2, 3, 3, 3], [10, MIN_TIMESTAMP, MIN_TIMESTAMP, 30, 30, 30])]


@pytest.mark.parametrize("make", [OrderedQueue, UnorderedQueue])
def test_records_without_timestamps_and_side_outputs(make):
    queue, out = make(), Out()
    entry = QueueEntry("value")
    queue.add(entry)
    queue.complete(entry, [1, (OutputTag("side"), 2)])
    queue.emit(out)
    assert out.blocks == [([1], None), ("side", [2], None)]


@pytest.mark.parametrize("make", [OrderedQueue, UnorderedQueue])
def test_iterating_gives_every_record_that_has_not_left(make):
    queue, out = make(), Out()
    entries = [QueueEntry(n) for n in range(5)]
    for entry in entries[:3]:
        queue.add(entry)
    queue.mark(out.mark("mark"))
    for entry in entries[3:]:
        queue.add(entry)
    queue.complete(entries[0], [])
    queue.emit(out)
    queue.complete(entries[4], [])
    assert sorted(entry.value for entry in queue) == [1, 2, 3, 4]
    assert queue.size == 4
