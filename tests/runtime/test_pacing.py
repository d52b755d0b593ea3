"""Sources and tasks with a pipe between them, in simulated time: how long records queue, and whether anybody starves."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pytest

from funken.plan.physical import Edge
from funken.runtime.flushing import all_soon
from funken.runtime.pacing import Pacing
from funken.runtime.queueing import Queueing, interval

TRANSIT, REPORT, TELL = 0.004, 0.004, 0.005
READ = 1e-6
"""What a record costs a source (s)."""


@dataclass
class Pipe:
    """``sources`` read as fast as they can, or ``rate`` records per second, for tasks that take ``cost`` s per record.

    ``buffer``: how many records fit between; ``skew``: by how much the tasks' clocks are ahead.
    """

    cost: Callable[[float], float]
    sources: int = 2
    tasks: int = 2
    rate: float = 0
    buffer: int = 200_000
    skew: float = 0.0
    windows: bool = True
    now: float = 0.0
    handled: list[tuple[float, int, float]] = field(default_factory=list)

    def run(self, seconds: float) -> Pipe:
        """Let time pass."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._queues: list[deque[tuple[float, int]]] = [deque() for _ in range(self.tasks)]
        self._sizes = [0] * self.tasks
        self._idle = [True] * self.tasks
        self._sources = [Pacing(self.windows) for _ in range(self.sources)]
        self._made = [0.0] * self.sources
        self._queueing = [Queueing(0.012) for _ in range(self.tasks)]
        self._told = [0.0] * self.tasks
        for source in range(self.sources):
            self._at(0.0, lambda source=source: self._poll(source))
        while self._events and self._events[0][0] <= seconds:
            self.now, _, happens = heapq.heappop(self._events)
            happens()
        return self

    def _at(self, when: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), happens))

    def _poll(self, source: int) -> None:
        pacing = self._sources[source]
        pause = pacing.pause(self.now) / 1000
        if not pause and max(self._sizes) > self.buffer:
            pause = 0.001
        records = 0
        if not pause:
            records = pacing.room(self.now, 2000)
            if self.rate:
                records = min(records, int(self.now * self.rate / self.sources - self._made[source]))
            pacing.saturated = records > 0
            pause = records * READ or 0.001
        if records:
            self._made[source] += records
            pacing.read(self.now, records)
            share = -(-records // self.tasks)
            for task in range(self.tasks):
                self._sizes[task] += share
                self._at(
                    self.now + TRANSIT, lambda task=task, block=(self.now, share): self._arrive(task, block)
                )  # fmt: skip
        self._at(self.now + pause, lambda: self._poll(source))

    def _arrive(self, task: int, block: tuple[float, int]) -> None:
        self._queues[task].append(block)
        if self._idle[task]:
            self._idle[task] = False
            self._handle(task, waited=True)

    def _handle(self, task: int, waited: bool) -> None:
        if not self._queues[task]:
            self._idle[task] = True
            return
        born, records = self._queues[task].popleft()
        cost = self.cost(self.now)
        piece = max(1, min(records, int(0.02 / cost)))
        if records > piece:
            self._queues[task].appendleft((born, records - piece))
        self._sizes[task] -= piece
        took = piece * cost
        age = self.now + took - born
        self.handled.append((self.now, piece, age))
        queueing = self._queueing[task]
        queueing.saw(born, age + self.skew, waited)
        if self.now + took > self._told[task] + TELL:
            self._told[task] = self.now + took
            late = queueing.take()
            if late is not None:
                self._at(self.now + took + REPORT, lambda: self._tell(task, *late))
        self._at(self.now + took, lambda: self._handle(task, waited=False))

    def _tell(self, task: int, born: float, excess: float) -> None:
        for pacing in self._sources:
            pacing.throttle(task, born, excess, self.now)

    def throughput(self, begin: float, end: float) -> float:
        """Return how many records were handled per second."""
        return sum(records for at, records, _ in self.handled if begin <= at < end) / (end - begin)

    def age(self, begin: float, end: float, quantile: float) -> float:
        """Return how old records were when they had been handled (s)."""
        ages = sorted((age, records) for at, records, age in self.handled if begin <= at < end)
        rest = quantile * sum(records for _, records in ages)
        for age, records in ages:
            rest -= records
            if rest <= 0:
                return age
        return ages[-1][0]


@pytest.mark.parametrize("cost", [2e-5, 1e-4, 1e-3, 0.01])
@pytest.mark.parametrize(("sources", "tasks"), [(1, 1), (2, 2), (3, 1), (1, 4)])
def test_behind_a_slow_function_records_do_not_queue_for_seconds(cost: float, sources: int, tasks: int) -> None:
    settled = 5 + 4000 * cost * sources  # until what was read before anybody knew is worked off
    pipe = Pipe(lambda now: cost, sources, tasks).run(settled + 10)
    assert pipe.throughput(settled, settled + 10) > 0.9 * tasks / cost
    assert pipe.age(settled, settled + 10, 0.99) < 0.25 + 10 * cost * sources


def test_without_windows_they_do() -> None:
    pipe = Pipe(lambda now: 1e-4, windows=False).run(20)
    assert pipe.age(10, 20, 0.5) > 2


def test_a_job_does_not_begin_with_a_full_buffer() -> None:
    pipe = Pipe(lambda now: 1e-4).run(4)
    assert pipe.age(0, 4, 1.0) < 2


@pytest.mark.parametrize("cost", [5e-7, 1.5e-6])
def test_fast_tasks_do_not_starve(cost: float) -> None:
    pipe = Pipe(lambda now: cost).run(6)
    most = min(2 / READ, 2 / cost)
    assert pipe.throughput(2, 6) > 0.9 * most
    assert pipe.age(2, 6, 0.99) < 0.08


def test_a_function_that_is_slow_for_a_while_leaves_nothing_behind() -> None:
    pipe = Pipe(lambda now: 2e-4 if 4 < now < 12 else 1e-6).run(18)
    assert pipe.throughput(14, 18) > 0.9 * min(2 / READ, 2 / 1e-6)
    assert pipe.age(14, 18, 0.99) < 0.05


def test_clocks_that_differ_starve_nobody() -> None:
    pipe = Pipe(lambda now: 1e-4, skew=0.3).run(40)
    assert pipe.throughput(20, 40) > 0.9 * 2 / 1e-4
    fast = Pipe(lambda now: 5e-7, skew=0.3).run(20)
    assert fast.throughput(12, 20) > 0.8 * 2 / READ


def test_a_paced_source_is_left_alone_where_nothing_queues() -> None:
    pipe = Pipe(lambda now: 1e-6, rate=100_000).run(5)
    assert pipe.throughput(1, 5) == pytest.approx(100_000, rel=0.02)
    assert all(pacing.patience(5.0) == 0 for pacing in pipe._sources)


def test_sources_that_wait_send_larger_blocks_while_tasks_are_late() -> None:
    pacing = Pacing(windows=True)
    pacing.read(0.0, 10)
    found = []
    for i in range(1, 8):
        pacing.throttle("busy", i / 5 - 0.05, 0.02, now=i / 5)
        found.append(pacing.patience(i / 5))
    assert found == [0.0005, 0.001, 0.002, 0.004, 0.005, 0.005, 0.005]
    late = [pacing.patience(1.4 + second * 1.1) for second in range(1, 100)]
    assert late == sorted(late, reverse=True)
    assert late[-1] == 0


def test_windows_are_for_records_that_do_not_wait_on_purpose() -> None:
    edge = Edge.__new__(Edge)
    for timeout, default, soon in ((None, 5, True), (None, -1, False), (-1, 5, False), (1000, 5, False), (0, -1, True)):
        object.__setattr__(edge, "buffer_timeout", timeout)
        assert all_soon([edge], default) is soon


def test_the_driver_is_not_told_more_than_it_can_pass_on() -> None:
    for widths in ((2, 2), (8, 8), (1, 1, 1), (12, 12), (1, 20)):
        orders = sum(widths) / interval(widths) * widths[0]
        assert orders <= 2001, widths
    assert interval((2, 2)) == 0.005
    assert interval((64, 64)) == 0.25
