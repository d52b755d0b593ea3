"""Sources and tasks with a pipe between them, in simulated time: how long records queue, and whether anybody starves."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from funken.runtime.flow_control import Beginning, InFlightWindow, QueueDelayMonitor

TRANSIT, REPORT = 0.004, 0.004
READ = 1e-6
"""What a record costs a source (s)."""


@dataclass
class Pipe:
    """``sources`` read as fast as they can, or ``rate`` records per second, for tasks that take ``cost`` s per record.

    ``buffer``: how many records fit between; ``skew``: by how much the tasks' clocks are ahead; ``first_alone``: how long the
    first source reads before the others begin; ``every``: how often a task reports at most; ``transit``: how long (s) a
    block that is sent now is on its way; ``begins``: whether tasks say what comes through when the job begins.
    """

    cost: Callable[[float], float]
    sources: int = 2
    tasks: int = 2
    rate: float = 0
    buffer: int = 200_000
    skew: float = 0.0
    windows: bool = True
    first_alone: float = 0.0
    every: float = 0.01
    transit: Callable[[float], float] = lambda now: TRANSIT
    begins: bool = True
    now: float = 0.0
    handled: list[tuple[float, int, float]] = field(default_factory=list)
    _planned: list[tuple[float, int, float]] = field(default_factory=list)

    def run(self, seconds: float) -> Pipe:
        """Let time pass."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._queues: list[deque[tuple[float, int]]] = [deque() for _ in range(self.tasks)]
        self._sizes = [0] * self.tasks
        self._idle = [True] * self.tasks
        self.pacings = [
            InFlightWindow(self.windows, self.sources, self.every, self.tasks if self.begins else 0)
            for _ in range(self.sources)
        ]
        self.read: list[list[tuple[float, int]]] = [[] for _ in range(self.sources)]
        self._made = [0.0] * self.sources
        self._arrives = [0.0] * self.tasks
        self._queueing = [QueueDelayMonitor(0.012) for _ in range(self.tasks)]
        self._told = [0.0] * self.tasks
        self._newest = [0.0] * self.tasks
        self._beginnings = [Beginning() for _ in range(self.tasks)]
        for task in range(self.tasks) if self.begins else ():
            self._beginnings[task].start(self.now)
            self._at(self.every, lambda task=task: self._say(task))
        self._mean_rate = 0.0
        self._at(0.5, lambda: self._measure([0] * self.sources))
        for source in range(self.sources):
            self._at(self.first_alone + source * 0.0037 if source else 0.0, lambda source=source: self._poll(source))
        for when, task, late in self._planned:
            self._at(when, lambda task=task, late=late: self._tell(task, self.now - late, late - TRANSIT))
        while self._events and self._events[0][0] <= seconds:
            self.now, _, happens = heapq.heappop(self._events)
            happens()
        return self

    def _at(self, when: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), happens))

    def _poll(self, source: int) -> None:
        pacing = self.pacings[source]
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
            pacing.on_read(self.now, records)
            self.read[source].append((self.now, records))
            share = -(-records // self.tasks)
            for task in range(self.tasks):
                self._sizes[task] += share
                self._arrives[task] = arrives = max(self._arrives[task], self.now + self.transit(self.now))
                self._at(arrives, lambda task=task, block=(self.now, share): self._arrive(task, block))
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
        queueing.on_block(born, age + self.skew, waited)
        self._newest[task] = born
        self._beginnings[task].on_block(self.now)
        begins = self.begins and self._beginnings[task].lasts(self.now)
        if self.now + took > self._told[task] + (self.every if begins else self._queueing[task].interval(self.every)):
            self._told[task] = self.now + took
            late = queueing.take_excess()
            if late is not None:
                self._at(self.now + took + REPORT, lambda: self._tell(task, *late))
        self._at(self.now + took, lambda: self._handle(task, waited=False))

    def _say(self, task: int) -> None:
        if self._beginnings[task].lasts(self.now):
            born = self.now if self._idle[task] else self._newest[task]
            if born and self.now >= self._told[task] + self.every:
                self._at(self.now + REPORT, lambda: self._tell(task, born, 0.0))
            self._at(self.now + self.every, lambda: self._say(task))

    def _measure(self, before: list[int]) -> None:
        counts = [sum(records for _, records in read) for read in self.read]
        self._mean_rate = (sum(counts) - sum(before)) / self.sources / 0.5
        self._at(self.now + 0.5, lambda: self._measure(counts))

    def _tell(self, task: int, born: float, excess: float, waited: float = 0.0) -> None:
        for pacing in self.pacings:
            pacing.on_throttle(task, born, excess, self.now, waited, self._mean_rate)

    def tell(self, task: int, when: float, late: float) -> None:
        """Have a task report at a time, before ``run``, that records which were born ``late`` s before were too late."""
        self._planned.append((when, task, late))

    def share(self, source: int, begin: float, end: float) -> float:
        """Return what part of all records a source read."""
        found = [sum(records for at, records in read if begin <= at < end) for read in self.read]
        return found[source] / sum(found)

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
