"""What can be seen of a batch program while it runs, and who is shown every batch program of this process.

A ``BatchProgress`` is a picture of one moment: the operators, the supersteps of iterations, what was spilled. Counters are read
twice a second where a program runs on Spark, so that watching costs a program nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from html import escape
from typing import Protocol

from funken.dataclass import dataclass

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
    """An operator: records in and out of all its subtasks so far, and for how long (s) it has been at work.

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
    """``waiting``, ``running`` or ``done``; what is part of an iteration begins again with every superstep."""


@dataclass(frozen=True)
class SuperstepProgress:
    """A superstep that has ended: how long it took (s), the records it has left for the next one, the bytes it has spilled.

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
        """Return where the iteration stands."""
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
        """How many bytes were written to disk because they did not fit."""
        return sum(self.spilled.values())

    @property
    def records_read(self) -> int:
        """How many records the sources have emitted."""
        return sum(each.records_out for each in self.operators if each.strategy == "SOURCE")

    def facts(self) -> str:
        """Return how far the program is, in a line."""
        done = sum(each.state == "done" for each in self.operators)
        parts = [f"{done} of {len(self.operators)} operators done", f"{self.records_read:,} records read"]
        parts += [each.line() for each in self.iterations if each.supersteps]
        if self.spilled_bytes:
            parts.append(f"{in_bytes(self.spilled_bytes)} spilled")
        if self.restarts:
            parts.append(f"{self.restarts} restart{'s' * (self.restarts > 1)}")
        return ", ".join(parts)

    def line(self) -> str:
        """Return the program, how long it has run, and how far it is."""
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
        return f"<b>{escape(self.name)}</b>: {self.seconds:.1f} s, {escape(self.facts())}" + "".join(tables)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _html(rows: list[tuple[str, ...]]) -> str:
    header, *others = rows
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in header)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in others]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


class WatchedJob(Protocol):
    """A batch program that runs."""

    @property
    def name(self) -> str:
        """The name of the job."""

    def progress(self) -> BatchProgress:
        """Return where it stands now."""

    def explain(self, as_json: bool = False) -> str:
        """Return its plan."""


BatchWatcher = Callable[[WatchedJob], AbstractContextManager[object]]
"""Called with each program; what it returns is entered before anything runs, and left when all is over, with the error."""

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
