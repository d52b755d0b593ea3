"""How many records a task handles at a time, where the cores are busy and where functions are slow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import cycle

import pytest

from funken.runtime.flow_control import PIECE_SECONDS, PieceSize
from funken.timing.clock import ManualClock, SystemClock, ThreadUsage

MOST = 2000


class BusyClock(ManualClock):
    """A clock whose thread may have to wait for a core."""

    def __init__(self) -> None:
        super().__init__()
        self.at = self.delayed = self.used = 0.0
        self.waits = 0
        self.known = True

    def monotonic(self) -> float:
        return self.at

    def run_delay(self) -> float | None:
        return self.delayed if self.known else None

    def thread_usage(self) -> ThreadUsage | None:
        return ThreadUsage(self.used, self.waits) if self.known else None

    def work(self, seconds: float, waits: float = 0.0) -> None:
        self.at += seconds + waits
        self.used += seconds
        self.delayed += waits

    def wait(self, seconds: float, times: int = 1) -> None:
        self.at += seconds
        self.waits += times


def sizes_of(pieces: PieceSize, times: int, work: Callable[[int], None]) -> list[int]:
    sizes = []
    for _ in range(times):
        sizes.append(pieces.records)
        begin = pieces.begin()
        work(pieces.records)
        pieces.end(begin, pieces.records)
    return sizes


def run(clock: BusyClock, pieces: PieceSize, times: int, per_record: float, waits: float) -> list[int]:
    return sizes_of(pieces, times, lambda records: clock.work(records * per_record, waits))


def test_waiting_for_a_core_does_not_make_pieces_small() -> None:
    clock = BusyClock()
    pieces = PieceSize(clock, MOST)
    run(clock, pieces, 20, 1e-6, 0.0)
    assert pieces.records == MOST
    sizes = run(clock, pieces, 200, 1e-6, 0.03)
    assert min(sizes) >= MOST / 2
    assert sizes[-1] == MOST


@pytest.mark.parametrize("waits", [0.0, 0.03])
@pytest.mark.parametrize("per_record", [1e-4, 1e-3, 1e-2, 0.1])
def test_slow_functions_do(per_record: float, waits: float) -> None:
    clock = BusyClock()
    pieces = PieceSize(clock, MOST)
    sizes = run(clock, pieces, 60, per_record, waits)
    assert max(sizes[10:]) <= max(1, 1.01 * PIECE_SECONDS / per_record)
    assert min(sizes[10:]) >= max(1, 0.2 * PIECE_SECONDS / per_record)


def test_waiting_for_the_interpreters_lock_does_not() -> None:
    clock = BusyClock()
    pieces = PieceSize(clock, MOST)
    run(clock, pieces, 20, 1e-6, 0.0)
    times = cycle((1, 2, 3))

    def work(records: int) -> None:
        clock.work(records * 1e-6, 0.01)
        clock.wait(0.045, next(times))

    sizes = sizes_of(pieces, 200, work)
    assert min(sizes) >= MOST / 2
    assert sizes[-1] == MOST


def test_one_long_wait_for_all_records_of_a_piece_makes_them_small_where_cores_are_free() -> None:
    clock = BusyClock()
    pieces = PieceSize(clock, MOST)
    sizes = sizes_of(pieces, 60, lambda records: clock.wait(records * 1e-3))  # a model that others' threads work out
    assert 4 <= min(sizes[10:]) <= max(sizes[10:]) <= 20


@pytest.mark.parametrize("waits", [0.0, 0.03])
@pytest.mark.parametrize("per_record", [1e-3, 1e-2, 0.1])
def test_functions_that_wait_for_a_service_do(per_record: float, waits: float) -> None:
    clock = BusyClock()
    pieces = PieceSize(clock, MOST)

    def work(records: int) -> None:
        clock.wait(records * per_record, records)
        clock.work(0.0, waits)

    sizes = sizes_of(pieces, 60, work)
    assert max(1, 0.2 * PIECE_SECONDS / per_record) <= min(sizes[10:])
    assert max(sizes[10:]) <= max(1, 2 * PIECE_SECONDS / per_record)


def test_where_nobody_counts_all_time_does() -> None:
    clock = BusyClock()
    clock.known = False
    pieces = PieceSize(clock, MOST)
    sizes = run(clock, pieces, 60, 1e-6, 0.03)
    assert sizes[-1] == 1


def test_nothing_is_read_where_nothing_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = BusyClock()
    pieces = PieceSize(clock, MOST)
    for name in ("run_delay", "thread_usage"):
        monkeypatch.setattr(clock, name, lambda: pytest.fail("it was read"))
    run(clock, pieces, 100, 1e-6, 0.0)


def test_linux_counts_what_a_thread_waits_for_a_core() -> None:
    clock = SystemClock()
    before = clock.run_delay()
    if before is None:
        pytest.skip("this system does not count it")
    end = time.monotonic() + 0.2
    found: list[float | None] = []

    def spin() -> None:
        begin = clock.run_delay()
        while time.monotonic() < end:
            pass
        after = clock.run_delay()
        found.append(None if begin is None or after is None else after - begin)

    threads = [threading.Thread(target=spin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each is not None and 0 <= each < 1 for each in found)
    time.sleep(0.05)  # which is not waiting for a core
    assert clock.run_delay() is not None and clock.run_delay() - before < 0.05 + 0.5  # type: ignore[operator]
