"""What is seen of running jobs: a small table that refreshes itself on a terminal, else a line every few seconds.

``Progress.watch`` is for ``funken.api.jobs.watching.watch_jobs``. The numbers are those that tasks report twice a second anyway,
so watching costs a job nothing. All of it goes to stderr: stdout belongs to the program, and what it prints there
while a table is shown appears above the table.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from funken.api.jobs.client import JobClient
from funken.cli.failures import ending
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import in_words
from funken.metrics.histogram import merge, percentile
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.diagnosis import LATE_RECORDS
from funken.runtime.messages import MetricsReport, TaskId
from funken.timing.instants import moment

RECENT_SECONDS = 5.0
"""The live numbers are about the last this many seconds."""

_REFRESH_SECONDS = 0.25
_PATIENCE_SECONDS = 1.0
_DAY_MILLIS = 86_400_000
_RECENT_MILLIS = 30 * _DAY_MILLIS
"""A watermark that is further behind the clock is that of history, which has no lag."""
_COLUMNS = ("records/s", "records", "late", "watermark", "lag", "latency p50/p99")


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

    def cells(self) -> tuple[str, ...]:
        """Return the numbers as texts, by ``_COLUMNS``."""
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


@dataclass(eq=False)
class _Shown:
    """A job on display."""

    client: JobClient
    meter: JobMeter
    since: float
    reading: Reading | None = None
    announced: bool = False
    restarts: int = 0
    said: float = field(init=False)

    def __post_init__(self) -> None:
        self.said = self.since

    @property
    def name(self) -> str:
        """The job's name, and how many times it was restarted."""
        count = self.client.restarts
        return self.client.plan.name + (f" ({count} restart{'s' * (count > 1)})" if count else "")

    def read(self, now: float) -> None:
        """Read the metrics; after a restart they begin anew."""
        if self.client.restarts > self.restarts:
            self.restarts = self.client.restarts
            self.meter = JobMeter(self.client.plan)
        metrics = self.client.metrics()
        self.reading = self.noted(self.meter.read(metrics, now)) if metrics else None

    def noted(self, reading: Reading) -> Reading:
        """Add how far event time is behind the wall clock."""
        mark, wall = reading.watermark, time.time() * 1000
        lag = int(wall) - mark if wall - _RECENT_MILLIS < mark <= wall else None
        return replace(reading, lag=lag)


class Progress:
    """Shows every job that is watched, and says at its end how it went.

    ``below`` adds something under the table; ``every`` is the time (s) between lines where there is no terminal.
    """

    def __init__(
        self,
        console: Console | None = None,
        below: Callable[[], RenderableType | None] | None = None,
        every: float = 5.0,
    ) -> None:
        self._console = console or Console(stderr=True, soft_wrap=True)
        self._below = below
        self._every = every
        self._jobs: list[_Shown] = []
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._idle = threading.Event()

    @contextmanager
    def watch(self, client: JobClient) -> Iterator[None]:
        """Show a job while the ``with`` block lasts."""
        job = _Shown(client, JobMeter(client.plan), time.monotonic())
        with self._lock:
            self._jobs.append(job)
            if len(self._jobs) == 1:
                self._idle = threading.Event()
                threading.Thread(target=self._run, args=(self._idle,), name="funken-progress", daemon=True).start()
        try:
            with ending() as how:
                yield
        finally:
            self._end(job, how[0])

    def _end(self, job: _Shown, how: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._jobs.remove(job)
            if not self._jobs:
                self._idle.set()
                if self._live is not None:
                    self._live.stop()
                    self._live = None
            numbers = job.noted(job.meter.total(job.client.metrics(), now))
            line = f" {numbers.line()}" if job.meter.begin is not None or numbers.records else ""
            self._say(f"{job.name}: {how} after {now - job.since:.1f} s{':' * bool(line)}{line}")

    def _say(self, line: str) -> None:
        self._console.print(Text(line))

    def _run(self, idle: threading.Event) -> None:
        while not idle.wait(_REFRESH_SECONDS):
            with self._lock:
                if not idle.is_set():
                    self.show(time.monotonic())

    def show(self, now: float) -> None:
        """Read the metrics and show them, where it is time to."""
        for job in self._jobs:
            job.read(now)
            if job.reading is None and not job.announced and now - job.since > _PATIENCE_SECONDS:
                job.announced = True
                self._say(f"{job.name}: starting")
        if self._console.is_terminal:
            self._refresh(now)
            return
        for job in self._jobs:
            if job.reading is not None and now - job.said >= self._every:
                job.said = now
                self._say(f"{job.name}: {now - job.since:.0f} s, {job.reading.line()}")

    def _refresh(self, now: float) -> None:
        # Java and Spark may write a line of their own while they start: the table comes when they have started.
        if self._live is None:
            if not any(job.reading for job in self._jobs):
                return
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty()
            )
            self._live.start()
        self._live.update(self.render(now), refresh=True)

    def render(self, now: float) -> RenderableType:
        """Return the table, and what belongs below it."""
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), show_edge=False)
        table.add_column("job", no_wrap=True, overflow="ellipsis", style="bold")
        for column in ("time", *_COLUMNS):
            table.add_column(column, justify="right", no_wrap=True)
        for job in self._jobs:
            time_since = f"{now - job.since:.0f} s"
            table.add_row(job.name, time_since, *(job.reading.cells() if job.reading else ("", "starting")))
        below = self._below() if self._below is not None else None
        return table if below is None else Group(table, below)
