"""Jobs on display while they run: in a notebook a table below the cell that is replaced, elsewhere lines on stderr.

In a notebook every job is shown that runs for longer than ``notebook.progress-interval``; ``show_progress`` shows every job,
anywhere. A display costs a job what it costs to read the newest reports of its tasks, once per interval. One that cannot be
shown is given up with a warning; the job goes on.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from funken import config
from funken.api.jobs.results import ending, watch_jobs
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import in_words
from funken.lazy import LoadedLater
from funken.metrics.registry import merge, percentile
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.diagnosis import LATE_RECORDS
from funken.runtime.job.snapshot import CheckpointsSnapshot
from funken.runtime.job.states import JobStatus
from funken.runtime.messages import MetricsReport, TaskId
from funken.timing.clock import SystemClock
from funken.timing.instants import moment

if TYPE_CHECKING:
    import html

    from funken.api.jobs.client import JobClient
else:
    html = LoadedLater("html")  # 2 ms, and only notebooks need it


# ---- The figures of running jobs that a display shows: rate, watermark, lag, late records, latency; the job
# reports them anyway.
#
# Pure: metrics and time are arguments, so that a terminal, a notebook and a test read a job the same way.


RECENT_SECONDS = 5.0
"""The live numbers are about the last this many seconds."""

COLUMNS = ("records/s", "records", "late", "watermark", "lag", "latency p50/p99")

_DAY_MILLIS = 86_400_000
_RECENT_MILLIS = 30 * _DAY_MILLIS
"""A watermark that is further behind the clock is that of history, which has no lag."""


@dataclass(frozen=True)
class Reading:
    """Figures of a running job: records read by its sources, and ages of records at its last operators (ms)."""

    records: int
    rate: float | None
    watermark: int
    p50: float | None
    p99: float | None
    late: int = 0
    """Number of late records that were dropped."""
    lag: int | None = None
    """The lag (ms) of the watermark behind the wall clock, where it is of our time."""

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
    """The time of the first metrics, and the records read by then."""
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
    """A reader's view of a job's client."""

    @property
    def plan(self) -> PhysicalPlan:
        """The compiled plan; another one after a change of the parallelism."""

    @property
    def restarts(self) -> int:
        """Number of restarts of the job."""

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
        """The job's name, and its number of restarts."""
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


# ---- What can be seen of a batch program while it runs, and who is shown every batch program of this process.
#
# A ``BatchProgress`` is a picture of one moment: the operators, the supersteps of iterations, what was spilled.
# Counters are read twice a second where a program runs on Spark, so that watching costs a program nothing.


_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_SHOWN = 5
"""The newest supersteps that a table shows."""


def in_bytes(size: float) -> str:
    """Return a size in words.

    >>> in_bytes(900), in_bytes(34_500_000)
    ('900 bytes', '34.5 MB')
    """
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:,.1f} {_UNITS[unit]}" if unit else f"{size:,.0f} bytes"


def in_seconds(seconds: float) -> str:
    """Return a time in words.

    >>> in_seconds(0.25), in_seconds(1.31)
    ('250 ms', '1.3 s')
    """
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


@dataclass(frozen=True)
class OperatorProgress:
    """An operator: records in and out of all its subtasks so far, and its working time (s).

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> env.from_elements(1, 2, 3).filter(lambda n: n > 1).count()
    2
    >>> operator = env.get_last_job_execution_result().progress.operators[1]
    >>> operator.name, operator.strategy, operator.parallelism, operator.records_in, operator.records_out, operator.state
    ('filter', 'FILTER', 2, 3, 2, 'done')
    """

    name: str
    strategy: str
    parallelism: int
    records_in: int = 0
    records_out: int = 0
    seconds: float = 0.0
    state: str = "waiting"
    """``waiting``, ``running`` or ``done``; parts of an iteration begin again with every superstep."""


@dataclass(frozen=True)
class SuperstepProgress:
    """A superstep that has ended: its duration (s), the records left for the next one, the spilled bytes.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> start = env.from_elements(1, 2).iterate(3)
    >>> start.close_with(start.map(lambda n: n * 2)).collect()
    [8, 16]
    >>> (iteration,) = env.get_last_job_execution_result().progress.iterations
    >>> [(superstep.number, superstep.records, superstep.spilled) for superstep in iteration.supersteps]
    [(1, 2, 0), (2, 2, 0), (3, 2, 0)]
    """

    number: int
    seconds: float
    records: int
    spilled: int
    workset: int | None = None
    """The records of the workset that it began with; None in a bulk iteration."""


@dataclass(frozen=True)
class IterationProgress:
    """An iteration: its supersteps so far, of at most ``maximum``; ``reason`` says why it has ended.

    >>> IterationProgress("iterate", 30, (SuperstepProgress(12, 0.25, 5000, 0),)).line()
    'iterate: superstep 13 of at most 30, the last one took 250 ms'
    """

    name: str
    maximum: int
    supersteps: tuple[SuperstepProgress, ...] = ()
    reason: str = ""

    def line(self) -> str:
        """Return the progress of the iteration."""
        if not self.supersteps:
            return f"{self.name}: superstep 1 of at most {self.maximum:,}"
        last = self.supersteps[-1]
        if self.reason:
            whole = sum(each.seconds for each in self.supersteps)
            return f"{self.name}: {last.number:,} supersteps in {whole:.1f} s, {self.reason}"
        took = in_seconds(last.seconds)
        return f"{self.name}: superstep {last.number + 1:,} of at most {self.maximum:,}, the last one took {took}"


@dataclass(frozen=True)
class BatchProgress:
    """A batch program at one moment; ``spilled`` has the bytes by the operator that has written them.

    >>> progress = BatchProgress("count", 1.5, (OperatorProgress("text", "SOURCE", 2, 0, 10, 1.2, "done"),), spilled={"text": 5})
    >>> print(progress)
    count: 1.5 s, 1 of 1 operators done, 10 records read, 5 bytes spilled
    operator  strategy  x  records in  records out  spilled  time   state
    text      SOURCE    2  0           10           5 bytes  1.2 s  done
    >>> progress.facts(), progress.records_read, progress.spilled_bytes
    ('1 of 1 operators done, 10 records read, 5 bytes spilled', 10, 5)
    >>> progress.line()
    'count: 1.5 s, 1 of 1 operators done, 10 records read, 5 bytes spilled'
    >>> list(progress.rows())[1][:3], len(list(progress.superstep_rows()))
    (('text', 'SOURCE', '2'), 1)
    """

    name: str
    seconds: float
    operators: tuple[OperatorProgress, ...]
    iterations: tuple[IterationProgress, ...] = ()
    spilled: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0

    @property
    def spilled_bytes(self) -> int:
        """Number of bytes written to disk because they did not fit."""
        return sum(self.spilled.values())

    @property
    def records_read(self) -> int:
        """Number of records that the sources have emitted."""
        return sum(each.records_out for each in self.operators if each.strategy == "SOURCE")

    def facts(self) -> str:
        """Return the progress of the program, in a line."""
        done = sum(each.state == "done" for each in self.operators)
        parts = [f"{done} of {len(self.operators)} operators done", f"{self.records_read:,} records read"]
        parts += [each.line() for each in self.iterations if each.supersteps]
        if self.spilled_bytes:
            parts.append(f"{in_bytes(self.spilled_bytes)} spilled")
        if self.restarts:
            parts.append(f"{self.restarts} restart{'s' * (self.restarts > 1)}")
        return ", ".join(parts)

    def line(self) -> str:
        """Return the program, its running time, and its progress."""
        return f"{self.name}: {self.seconds:.1f} s, {self.facts()}"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Return the table of operators, with its header."""
        yield "operator", "strategy", "x", "records in", "records out", "spilled", "time", "state"
        left = dict(self.spilled)
        for each in self.operators:
            spilled = left.pop(each.name, 0)
            yield (
                each.name, each.strategy, str(each.parallelism), f"{each.records_in:,}", f"{each.records_out:,}",
                in_bytes(spilled) if spilled else "", f"{each.seconds:.1f} s" if each.seconds else "", each.state,
            )  # fmt: skip
        for name, size in left.items():
            yield name, "", "", "", "", in_bytes(size), "", ""

    def superstep_rows(self) -> Iterator[tuple[str, ...]]:
        """Return the table of the newest supersteps of iterations, with its header."""
        yield "iteration", "superstep", "time", "workset", "records", "spilled"
        for iteration in self.iterations:
            for each in iteration.supersteps[-_SHOWN:]:
                workset = "" if each.workset is None else f"{each.workset:,}"
                time = in_seconds(each.seconds)
                spilled = in_bytes(each.spilled) if each.spilled else ""
                yield iteration.name, f"{each.number:,}", time, workset, f"{each.records:,}", spilled

    def __str__(self) -> str:
        lines = [self.line(), *_aligned(list(self.rows()))]
        if any(each.supersteps for each in self.iterations):
            lines += _aligned(list(self.superstep_rows()))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = [_html(list(self.rows()))]
        if any(each.supersteps for each in self.iterations):
            tables.append(_html(list(self.superstep_rows())))
        return f"<b>{html.escape(self.name)}</b>: {self.seconds:.1f} s, {html.escape(self.facts())}" + "".join(tables)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _html(rows: list[tuple[str, ...]]) -> str:
    header, *others = rows
    lines = ["".join(f"<th>{html.escape(cell)}</th>" for cell in header)]
    lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in others]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


class WatchedJob(Protocol):
    """A batch program that runs."""

    @property
    def name(self) -> str:
        """The name of the job."""

    def progress(self) -> BatchProgress:
        """Return the present progress."""

    def explain(self, as_json: bool = False) -> str:
        """Return its plan."""


BatchWatcher = Callable[[WatchedJob], AbstractContextManager[object]]
"""Called with each program; its result is entered before anything runs, and left when all is over, with the error."""

_watchers: list[BatchWatcher] = []


@contextmanager
def watch_batch_jobs(watcher: BatchWatcher) -> Iterator[None]:
    """Show ``watcher`` every DataSet program that starts while the ``with`` block lasts, in the thread that runs it.

    >>> from funken.dataset import ExecutionEnvironment
    >>> @contextmanager
    ... def tell(job):
    ...     yield
    ...     print(job.name, "has read", job.progress().records_read)
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> with watch_batch_jobs(tell):
    ...     env.from_elements(1, 2).collect()
    collect() has read 2
    [1, 2]
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def batch_watchers() -> tuple[BatchWatcher, ...]:
    """Return those who are shown the programs that begin now."""
    return tuple(_watchers)


# ---- A streaming job at one moment as a notebook shows it: a small table while it runs, a line when it is over.
#
# The size of a picture does not depend on how many tasks or operators the job has.


@dataclass(frozen=True, repr=False)
class JobProgress:
    """A streaming job at one moment: its age (s), its figures, its checkpoints; or its end.

    >>> reading = Reading(1200, 400.0, 75_000, None, None, late=2)
    >>> running = JobProgress("totals", 3.0, "RUNNING", reading, "2 completed")
    >>> running
    totals: 3 s, RUNNING: 1,200 records, 400 records/s, watermark 0:01:15, 2 late records DROPPED; checkpoints: 2 completed
    >>> JobProgress("totals", 3.2, "FINISHED", reading, "", ending="finished").line()
    'totals: finished after 3.2 s: 1,200 records, 400 records/s, watermark 0:01:15, 2 late records DROPPED'
    >>> list(running.rows())[0][:5]
    ('time', 'state', 'records/s', 'records', 'late')
    """

    name: str
    seconds: float
    state: str
    reading: Reading | None = None
    checkpoints: str = ""
    ending: str = ""
    """``finished``, ``cancelled``, ``failed`` or ``stopped``; empty while it runs."""
    url: str | None = None
    """The URL of its dashboard, if it has one."""

    def facts(self) -> str:
        """Return the figures as a sentence."""
        parts = [] if self.reading is None else [self.reading.line()]
        if self.checkpoints:
            parts.append(f"checkpoints: {self.checkpoints}")
        return "; ".join(parts)

    def line(self) -> str:
        """Return the job, its running time, and its figures."""
        facts = self.facts()
        how = f"{self.ending} after {self.seconds:.1f} s" if self.ending else f"{self.seconds:.0f} s, {self.state}"
        return f"{self.name}: {how}{': ' * bool(facts)}{facts}"

    def rows(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the table of a job that runs: its header and its line."""
        cells = ("",) * len(COLUMNS) if self.reading is None else self.reading.cells()
        header = ("time", "state", *COLUMNS, "checkpoints")
        return header, (f"{self.seconds:.0f} s", self.state, *cells, self.checkpoints or "-")

    __str__ = __repr__ = line

    def _repr_html_(self) -> str:
        name, line = f"<b>{html.escape(self.name)}</b>", self.line().removeprefix(self.name)
        if self.ending:
            return f"{name}{html.escape(line)}"
        link = "" if self.url is None else f' <a href="{html.escape(self.url)}" target="_blank">dashboard</a>'
        return f"{name}{link}{_html(list(self.rows()))}"


class LiveJob:
    """Takes pictures of a job, from the moment it is made."""

    def __init__(self, client: JobClient) -> None:
        self._client = client
        self._reader = JobReader(client)
        self._clock = SystemClock()
        self._since = self._clock.monotonic()

    def progress(self) -> JobProgress:
        """Return the state of the job; the figures are those of the last seconds."""
        now = self._clock.monotonic()
        return self._picture(self._reader.read(now, self._clock.now()), now, "")

    def over(self, how: str) -> JobProgress:
        """Return the final state of the job; the figures are those of the whole run."""
        now = self._clock.monotonic()
        return self._picture(self._reader.total(now, self._clock.now()), now, how)

    def _picture(self, reading: Reading | None, now: float, ending: str) -> JobProgress:
        client = self._client
        status, snapshot = client.get_job_status().result(), client.snapshot()
        return JobProgress(
            self._reader.name,
            now - self._since,
            snapshot.phase if reading is None and status is JobStatus.RUNNING else status.name,
            reading,
            checkpoints_in_words(snapshot.checkpoints),
            ending,
            client.get_web_interface_url(),
        )


def checkpoints_in_words(checkpoints: CheckpointsSnapshot) -> str:
    """Return the checkpoints of a job as words; nothing if there was none.

    >>> checkpoints_in_words(CheckpointsSnapshot()), checkpoints_in_words(CheckpointsSnapshot(completed=2, failed=1))
    ('', '2 completed, 1 FAILED')
    """
    parts = [f"{checkpoints.completed:,} completed"] if checkpoints.completed else []
    if checkpoints.in_progress:
        parts.append(f"{checkpoints.in_progress} in progress")
    if checkpoints.failed:
        parts.append(f"{checkpoints.failed:,} FAILED")
    last = checkpoints.latest_completed
    if last is not None and last.duration is not None:
        parts.append(f"the last one {in_seconds(last.duration / 1000)}, {in_bytes(last.size)}")
    return ", ".join(parts)


logger = logging.getLogger(__name__)

_LINE_SECONDS = 5.0
_JOIN_SECONDS = 2.0

Picture = BatchProgress | JobProgress
P = TypeVar("P", BatchProgress, JobProgress)


class _Handle(Protocol):
    """A handle of IPython for a displayed object."""

    def update(self, progress: Picture) -> object:
        """Show something else in its place."""


class _Display(Protocol):
    """IPython's ``display``."""

    def __call__(self, shown: object, *, display_id: bool) -> _Handle:
        """Show something below the cell."""


@contextmanager
def show_progress(every: float | None = None) -> Iterator[None]:
    """Show every job that starts while the ``with`` block lasts, every so many seconds and at its end.

    In a notebook it is a table below the cell, refreshed every second: of a streaming job rate, watermark, lag, late records
    and checkpoints, of a batch program its operators and newest supersteps. Elsewhere there is a line on stderr every five
    seconds.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> with show_progress():
    ...     env.from_elements(1, 2).count()
    2
    """
    display = display_of_notebook()
    seconds = every if every is not None else (1.0 if display is not None else _LINE_SECONDS)

    def shown() -> _Shown:
        return _Lines() if display is None else _Table(display)

    @contextmanager
    def watch(client: JobClient) -> Iterator[None]:
        with _job_on(shown(), client, seconds, always=True):
            yield

    @contextmanager
    def watch_batch(job: WatchedJob) -> Iterator[None]:
        with _batch_on(shown(), job, seconds, always=True):
            yield

    _explicit.append(watch)
    try:
        with watch_jobs(watch), watch_batch_jobs(watch_batch):
            yield
    finally:
        _explicit.remove(watch)


@contextmanager
def shown_in_notebook(client: JobClient, configuration: Configuration, context: Context) -> Iterator[None]:
    """Show a streaming job while the block lasts, if this is a notebook; ``context`` is that of the cell."""
    display, seconds = _automatic(configuration)
    if display is None:
        yield
        return
    with _job_on(_Table(display, context), client, seconds, always=False):
        yield


@contextmanager
def batch_shown_in_notebook(job: WatchedJob, configuration: Configuration) -> Iterator[None]:
    """Show a batch program while the block lasts, if this is a notebook."""
    display, seconds = _automatic(configuration)
    if display is None:
        yield
        return
    with _batch_on(_Table(display), job, seconds, always=False):
        yield


# ---- what shows


_explicit: list[object] = []
"""The blocks of ``show_progress``: while there is one, it shows all jobs."""


def _automatic(configuration: Configuration) -> tuple[_Display | None, float]:
    seconds = configuration.get(config.NOTEBOOK_INTERVAL) / 1000
    return (None if _explicit or not seconds else display_of_notebook()), seconds


class _Shown(Protocol):
    """One job on display; ``begun``: something of it can be seen."""

    begun: bool

    def show(self, progress: Picture) -> None:
        """Show where the job stands now."""


class _Lines:
    """A line on stderr, again and again."""

    begun = True

    def show(self, progress: Picture) -> None:
        """Write where the job stands."""
        sys.stderr.write(f"{progress.line()}\n")


class _Table:
    """One display of a cell."""

    def __init__(self, display: _Display, context: Context | None = None) -> None:
        self._display = display
        self._context = context
        self._handle: _Handle | None = None
        self._failed = False
        self.begun = False

    def show(self, progress: Picture) -> None:
        """Show a picture in the place of the last one."""
        if self._failed:
            return
        try:
            self._context.copy().run(self._replace, progress) if self._context is not None else self._replace(progress)
        except Exception as error:  # noqa: BLE001 - a kernel that cannot be reached raises anything, and must not fail the job
            self._failed = True
            logger.warning(
                "the progress of job %r cannot be shown in the notebook any more, the job continues: %s: %s. "
                "notebook.progress-interval: 0 shows none.",
                progress.name, type(error).__name__, error,
            )  # fmt: skip

    def _replace(self, progress: Picture) -> None:
        if self._handle is None:
            self._handle = self._display(progress, display_id=True)
            self.begun = True
        else:
            self._handle.update(progress)


@contextmanager
def _job_on(shown: _Shown, client: JobClient, seconds: float, always: bool) -> Iterator[None]:
    job, how = LiveJob(client), [""]
    with _refreshed(shown, job.progress, lambda: job.over(how[0]), seconds, always), ending() as ended:
        how = ended
        yield


@contextmanager
def _batch_on(shown: _Shown, job: WatchedJob, seconds: float, always: bool) -> Iterator[None]:
    with _refreshed(shown, job.progress, job.progress, seconds, always):
        yield


@contextmanager
def _refreshed(
    shown: _Shown, read: Callable[[], P], read_last: Callable[[], P], seconds: float, always: bool
) -> Iterator[None]:
    """Show new figures, every so often and at the end; without ``always`` only if something was shown before."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            shown.show(read())

    thread = threading.Thread(target=run, name="funken-show-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_JOIN_SECONDS)
        if not thread.is_alive() and (always or shown.begun):
            shown.show(read_last())


def display_of_notebook() -> _Display | None:
    """Return the function that displays objects below a cell; None outside of notebooks."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    if python is None or getattr(shell, "kernel", None) is None:
        return None
    found: _Display = python.display.display
    return found
