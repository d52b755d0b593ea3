"""The figures of running jobs that a display shows: rate, watermark, lag, late records, latency; the job reports them anyway.

Pure: metrics and time are arguments, so that a terminal, a notebook and a test read a job the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Protocol

from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import in_words
from funken.metrics.histogram import merge, percentile
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.diagnosis import LATE_RECORDS
from funken.runtime.messages import MetricsReport, TaskId
from funken.timing.instants import moment

RECENT_SECONDS = 5.0
"""The live numbers are about the last this many seconds."""

COLUMNS = ("records/s", "records", "late", "watermark", "lag", "latency p50/p99")

_DAY_MILLIS = 86_400_000
_RECENT_MILLIS = 30 * _DAY_MILLIS
"""A watermark that is further behind the clock is that of history, which has no lag."""


@dataclass(frozen=True)
class Reading:
    """How a job does: records read by its sources, and how old records are when they reach its last operators (ms)."""

    records: int
    rate: float | None
    watermark: int
    p50: float | None
    p99: float | None
    late: int = 0
    """How many late records were dropped."""
    lag: int | None = None
    """How far the watermark is behind the wall clock (ms), where it is of our time."""

    def at(self, wall: float) -> Reading:
        """Return the reading with its lag at a time of the wall clock (ms).

        >>> now = 1_700_000_000_000
        >>> Reading(1, None, now - 90_000, None, None).at(now).lag, Reading(1, None, 90_000, None, None).at(now).lag
        (90000, None)
        """
        lag = int(wall) - self.watermark if wall - _RECENT_MILLIS < self.watermark <= wall else None
        return replace(self, lag=lag)

    def cells(self) -> tuple[str, ...]:
        """Return the numbers as texts, by ``COLUMNS``."""
        rate = "" if self.rate is None else f"{self.rate:,.0f}"
        lag = "-" if self.lag is None else in_words(self.lag)
        mark = moment(self.watermark)
        if self.lag is not None and self.lag < _DAY_MILLIS:
            mark = mark.partition(" ")[2]  # the date is today's or yesterday's
        latency = f"{_millis(self.p50)} / {_millis(self.p99)} ms"
        return rate, f"{self.records:,}", f"{self.late:,}", mark, lag, latency

    def line(self) -> str:
        """Return the numbers as a sentence."""
        parts = [f"{self.records:,} records"]
        if self.rate is not None:
            parts.append(f"{self.rate:,.0f} records/s")
        if MIN_TIMESTAMP < self.watermark < MAX_WATERMARK:
            parts.append(f"watermark {moment(self.watermark)}")
        if self.lag is not None:
            parts.append(f"lag {in_words(self.lag)}")
        if self.late:
            parts.append(f"{self.late:,} late record{'s' * (self.late > 1)} DROPPED")
        if self.p50 is not None:
            parts.append(f"latency p50 {_millis(self.p50)} ms, p99 {_millis(self.p99)} ms")
        return ", ".join(parts)


@dataclass
class JobMeter:
    """Turns the metrics of a job's tasks into readings; time (s) is an argument."""

    plan: PhysicalPlan
    begin: tuple[float, int] | None = None
    """When the first metrics came, and how many records had been read by then."""
    _samples: deque[tuple[float, int, dict[int, int]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Find where records come in and where they end."""
        feeding = {edge.source for edge in self.plan.edges}
        self._sources = {vertex.id for vertex in self.plan.vertices if vertex.source is not None}
        self._last = {vertex.id: vertex.parallelism for vertex in self.plan.vertices if vertex.id not in feeding}

    def read(self, metrics: Mapping[TaskId, MetricsReport], now: float) -> Reading:
        """Take a sample and return rate and latency since the oldest recent one."""
        records, watermark, latency, late = self._sum(metrics)
        samples = self._samples
        if self.begin is None:
            self.begin = now, records
            samples.append((now, records, {}))
        samples.append((now, records, latency))
        while len(samples) > 2 and samples[1][0] <= now - RECENT_SECONDS:
            samples.popleft()
        then, before, older = samples[0]
        recent = {bucket: count - older.get(bucket, 0) for bucket, count in latency.items()}
        rate = (records - before) / (now - then) if now > then else None
        return Reading(records, rate, watermark, percentile(recent, 0.5), percentile(recent, 0.99), late)

    def total(self, metrics: Mapping[TaskId, MetricsReport], now: float) -> Reading:
        """Return rate and latency over the whole run."""
        records, watermark, latency, late = self._sum(metrics)
        begin, before = self.begin or (now, 0)
        rate = (records - before) / (now - begin) if now - begin >= 2 else None
        return Reading(records, rate, watermark, percentile(latency, 0.5), percentile(latency, 0.99), late)

    def _sum(self, metrics: Mapping[TaskId, MetricsReport]) -> tuple[int, int, dict[int, int], int]:
        records = late = 0
        latency: dict[int, int] = {}
        watermarks = []
        for task in metrics.values():
            for vertex, numbers in task.vertices.items():
                if vertex in self._sources:
                    records += numbers.records_in
                late += sum(user.values.get(LATE_RECORDS, 0) for user in numbers.user.values())
                if vertex in self._last:
                    watermarks.append(numbers.watermark)
                    merge(latency, numbers.latency)
        complete = len(watermarks) == sum(self._last.values())
        return records, min(watermarks) if complete and watermarks else MIN_TIMESTAMP, latency, late


def _millis(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


class MeasuredJob(Protocol):
    """What a reader needs of a job's client."""

    @property
    def plan(self) -> PhysicalPlan:
        """The compiled plan; another one after a change of the parallelism."""

    @property
    def restarts(self) -> int:
        """How many times the job was restarted."""

    def metrics(self) -> dict[TaskId, MetricsReport]:
        """Return the newest metrics of each task."""


class JobReader:
    """Reads one job again and again; the numbers begin anew with another attempt, as those of its tasks do."""

    def __init__(self, job: MeasuredJob) -> None:
        self._job = job
        self._restarts = job.restarts
        self._meter = JobMeter(job.plan)

    @property
    def name(self) -> str:
        """The job's name, and how many times it was restarted."""
        count = self._job.restarts
        return self._job.plan.name + (f" ({count} restart{'s' * (count > 1)})" if count else "")

    def read(self, now: float, wall: float) -> Reading | None:
        """Return the figures of the last seconds, ``None`` before the first metrics; ``now`` in s, ``wall`` in ms."""
        if self._job.restarts > self._restarts or self._job.plan is not self._meter.plan:
            self._restarts = self._job.restarts
            self._meter = JobMeter(self._job.plan)
        metrics = self._job.metrics()
        return self._meter.read(metrics, now).at(wall) if metrics else None

    def total(self, now: float, wall: float) -> Reading | None:
        """Return the figures of the whole run, or of its last attempt; ``None`` if nothing was read or measured."""
        found = self._meter.total(self._job.metrics(), now).at(wall)
        return found if self._meter.begin is not None or found.records else None
