"""The progress of running jobs: a small table that refreshes itself on a terminal, else a line every few seconds.

``Progress.watch`` is for ``funken.api.jobs.results.watch_jobs``. The numbers are those that tasks report twice a second anyway,
so watching costs a job nothing. All of it goes to stderr: stdout belongs to the program, and what it prints there
while a table is shown appears above the table.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from funken.api.jobs.client import JobClient
from funken.api.jobs.notebook import COLUMNS, BatchProgress, JobReader, Reading, WatchedJob
from funken.api.jobs.results import ending
from funken.dataclass import dataclass

_REFRESH_SECONDS = 0.25
_PATIENCE_SECONDS = 1.0


@dataclass(eq=False)
class _Shown:
    """A job on display."""

    client: JobClient
    since: float
    reading: Reading | None = None
    phase: str = ""
    """The step of its start that was said last."""
    said: float = field(init=False)

    def __post_init__(self) -> None:
        self.reader = JobReader(self.client)
        self.said = self.since

    @property
    def name(self) -> str:
        """The job's name, and its number of restarts."""
        return self.reader.name

    def read(self, now: float) -> None:
        """Read the metrics."""
        self.reading = self.reader.read(now, time.time() * 1000)

    def begun(self) -> str | None:
        """Return the step of its start that a job without figures is at, if it is another one than before."""
        step = self.client.snapshot().phase
        before, self.phase = self.phase, step
        return None if step.partition(" (")[0] == before.partition(" (")[0] else step


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
        job = _Shown(client, time.monotonic())
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
            numbers = job.reader.total(now, time.time() * 1000)
            line = "" if numbers is None else f" {numbers.line()}"
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
            if job.reading is None and now - job.since > _PATIENCE_SECONDS and (step := job.begun()) is not None:
                self._say(f"{job.name}: {step}")
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
        """Return the table, and the lines below it."""
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), show_edge=False)
        table.add_column("job", no_wrap=True, overflow="ellipsis", style="bold")
        for column in ("time", *COLUMNS):
            table.add_column(column, justify="right", no_wrap=True)
        for job in self._jobs:
            time_since = f"{now - job.since:.0f} s"
            table.add_row(job.name, time_since, *(job.reading.cells() if job.reading else ("", job.phase)))
        below = self._below() if self._below is not None else None
        return table if below is None else Group(table, below)


# ---- What is seen of running batch programs: a table of their operators on a terminal, else a line every few
# seconds.
#
# ``BatchProgressDisplay.watch`` is for ``funken.api.jobs.notebook.watch_batch_jobs``. All of it goes to stderr: stdout
# belongs to the program.


_RIGHT = {"x", "records in", "records out", "spilled", "time", "superstep", "workset", "records"}


class BatchProgressDisplay:
    """Shows the batch programs that are watched, and says at the end of each how it went.

    ``every`` is the time (s) between lines where there is no terminal.
    """

    def __init__(self, console: Console | None = None, every: float = 5.0) -> None:
        self._console = console or Console(stderr=True, soft_wrap=True)
        self._every = every

    @contextmanager
    def watch(self, job: WatchedJob) -> Iterator[None]:
        """Show a program while the ``with`` block lasts."""
        over = threading.Event()
        thread = threading.Thread(target=self._run, args=(job, over), name="funken-batch-progress", daemon=True)
        thread.start()
        try:
            with ending() as how:
                yield
        finally:
            over.set()
            thread.join(2 * _REFRESH_SECONDS)
            last = job.progress()
            self._say(f"{job.name}: {how[0]} after {last.seconds:.1f} s: {last.facts()}")

    def _say(self, line: str) -> None:
        self._console.print(Text(line))

    def _run(self, job: WatchedJob, over: threading.Event) -> None:
        if not self._console.is_terminal:
            while not over.wait(self._every):
                self._say(line_of(job.progress()))
            return
        if over.wait(_REFRESH_SECONDS):  # a program of no time needs no table
            return
        with Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty()
        ) as live:
            while not over.is_set():
                live.update(table_of(job.progress()), refresh=True)
                over.wait(_REFRESH_SECONDS)


def line_of(progress: BatchProgress) -> str:
    """Return a line about a running program: its progress, and the working operators."""
    busy = [each for each in progress.operators if each.state == "running"]
    shown = ", ".join(f"{each.name} {max(each.records_in, each.records_out):,}" for each in busy[-3:])
    return f"{progress.name}: {progress.seconds:.0f} s, {progress.facts()}" + (f"; at work: {shown}" if shown else "")


def table_of(progress: BatchProgress) -> RenderableType:
    """Return the table of operators, and that of the newest supersteps if there are any."""
    parts: list[RenderableType] = [Text(f"{progress.name}: {progress.seconds:.0f} s, {progress.facts()}", style="bold")]
    parts.append(_table(list(progress.rows())))
    if any(each.supersteps for each in progress.iterations):
        parts.append(_table(list(progress.superstep_rows())))
    return Group(*parts)


def _table(rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), show_edge=False)
    for name in rows[0]:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=True, overflow="ellipsis")
    for row in rows[1:]:
        table.add_row(*row, style="dim" if row[-1] in ("waiting", "done") else None)
    return table
