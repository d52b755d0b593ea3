"""Jobs on display while they run: in a notebook a table below the cell that is replaced, elsewhere lines on stderr.

In a notebook every job is shown that runs for longer than ``notebook.progress-interval``; ``show_progress`` shows every job,
anywhere. A display costs a job what it costs to read the newest reports of its tasks, once per interval. One that cannot be
shown is given up with a warning; the job goes on.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Protocol, TypeVar

from funken import config
from funken.api.jobs.batch import BatchProgress, WatchedJob, watch_batch_jobs
from funken.api.jobs.live import JobProgress, LiveJob
from funken.api.jobs.watching import ending, watch_jobs
from funken.config import Configuration

if TYPE_CHECKING:
    from funken.api.jobs.client import JobClient

logger = logging.getLogger(__name__)

_LINE_SECONDS = 5.0
_JOIN_SECONDS = 2.0

Picture = BatchProgress | JobProgress
P = TypeVar("P", BatchProgress, JobProgress)


class _Handle(Protocol):
    """What IPython returns for something on display."""

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
        """Show it, in the place of what was shown before."""
        if self._failed:
            return
        try:
            self._context.copy().run(self._replace, progress) if self._context is not None else self._replace(progress)
        except Exception as error:  # noqa: BLE001 - a kernel that cannot be reached raises anything, and must not fail the job
            self._failed = True
            logger.warning(
                "the progress of job %r cannot be shown in the notebook any more, the job goes on: %s: %s. "
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
    """Show what is read, every so often and at the end; without ``always`` only if something was shown before."""
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
    """Return what displays objects below a cell; None outside of notebooks."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    if python is None or getattr(shell, "kernel", None) is None:
        return None
    found: _Display = python.display.display
    return found


__all__ = ["display_of_notebook", "show_progress"]
