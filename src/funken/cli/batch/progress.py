"""What is seen of running batch programs: a table of their operators on a terminal, else a line every few seconds.

``BatchProgressDisplay.watch`` is for ``funken.api.jobs.batch.watch_batch_jobs``. All of it goes to stderr: stdout belongs to the
program.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from funken.api.jobs.batch import BatchProgress, WatchedJob
from funken.api.jobs.watching import ending

_REFRESH_SECONDS = 0.25
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
    """Return a line about a program that runs: how far it is, and which operators are at work."""
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


__all__ = ["BatchProgressDisplay", "line_of", "table_of"]
