"""Batch programs on display while they run: in a notebook a table that is replaced, elsewhere lines on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from funken.api.jobs.batch import BatchProgress, WatchedJob, watch_batch_jobs

_LINE_SECONDS = 5.0
_JOIN_SECONDS = 2.0


class _Handle(Protocol):
    """What IPython returns for something on display."""

    def update(self, progress: BatchProgress) -> object:
        """Show something else in its place."""


class _Display(Protocol):
    """IPython's ``display``."""

    def __call__(self, progress: BatchProgress, *, display_id: bool) -> _Handle:
        """Show something below the cell."""


@contextmanager
def show_progress(every: float | None = None) -> Iterator[None]:
    """Show every DataSet program that starts while the ``with`` block lasts, every so many seconds and at its end.

    In a notebook its operators and newest supersteps are a table below the cell, refreshed every second; elsewhere there is a
    line on stderr every five seconds.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> with show_progress():
    ...     env.from_elements(1, 2).count()
    2
    """
    display = _display_of_notebook()
    seconds = every if every is not None else (1.0 if display is not None else _LINE_SECONDS)

    @contextmanager
    def watch(job: WatchedJob) -> Iterator[None]:
        show = _Table(display) if display is not None else _line
        over = threading.Event()

        def run() -> None:
            while not over.wait(seconds):
                show(job.progress())

        thread = threading.Thread(target=run, name="funken-show-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(_JOIN_SECONDS)
            show(job.progress())

    with watch_batch_jobs(watch):
        yield


def _line(progress: BatchProgress) -> None:
    sys.stderr.write(f"{progress.name}: {progress.seconds:.1f} s, {progress.facts()}\n")


class _Table:
    """One display of a cell."""

    def __init__(self, display: _Display) -> None:
        self._display = display
        self._handle: _Handle | None = None

    def __call__(self, progress: BatchProgress) -> None:
        """Show it, in the place of what was shown before."""
        if self._handle is None:
            self._handle = self._display(progress, display_id=True)
        else:
            self._handle.update(progress)


def _display_of_notebook() -> _Display | None:
    """Return what displays objects below a cell; None outside of notebooks."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    if python is None or getattr(shell, "kernel", None) is None:
        return None
    found: _Display = python.display.display
    return found


__all__ = ["show_progress"]
