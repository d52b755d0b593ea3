"""The two seams to the world: sources in splits, sinks in two phases.

A *source* is a frozen spec. Its *enumerator* lives on the driver, knows the splits and hands them out; its *readers*
live in the tasks and read splits. A split is plain data that carries its position, so that a snapshot of a reader is
the list of its splits. A *sink* is a frozen spec whose writers live in the tasks; what they prepare becomes visible
only when the driver's committer commits it: at a completed checkpoint, or when the job has succeeded.

Nothing here reads a clock: ``now`` (ms, processing time) arrives as an argument.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from funken.types.generics import Generic, T_co, T_contra
from funken.types.info import TypeInformation


class Boundedness(enum.Enum):
    """Whether a source ends by itself; with ``AUTOMATIC`` mode a job of bounded sources runs as ``BATCH``.

    >>> from funken import DataGeneratorSource, NumberSequenceSource
    >>> NumberSequenceSource(1, 3).boundedness, DataGeneratorSource(lambda index: index).boundedness.name
    (<Boundedness.BOUNDED: 'bounded'>, 'CONTINUOUS_UNBOUNDED')
    """

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """Where a reader or writer runs: operator, subtask, parallelism, job, and how many attempts there were before.

    >>> ReaderContext("orders", subtask=1, parallelism=4, job_id="nightly")
    ReaderContext(operator='orders', subtask=1, parallelism=4, job_id='nightly', attempt=0)
    """

    operator: str
    subtask: int
    parallelism: int
    job_id: str = "local"
    attempt: int = 0


@dataclass(slots=True)
class Batch:
    """Records of one split, in order; ``timestamps`` (ms) only if the source itself has them.

    >>> Batch(["to", "be"], timestamps=[10, 20], split="hamlet.txt")
    Batch(values=['to', 'be'], timestamps=[10, 20], split='hamlet.txt')
    """

    values: list[Any]
    timestamps: list[int] | None = None
    split: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to read now; poll again in ``millis`` (a hint), or after new splits came."""

    millis: int = 5


class NeedSplits:
    """All splits of this reader are read: it wants more, or ends if there no longer exist."""


NEED_SPLITS = NeedSplits()


class SourceReader:
    """Reads splits inside a task. One instance per subtask; never blocks longer than a few ms.

    A split is plain data; one with an ``id`` has a watermark of its own until ``split_finished`` names it. (A reader that
    works through its splits one by one needs only ``poll``: ``QueuedReader`` in ``queued_reader.py`` has the rest.)

    >>> SHELVES = {"poems": ["Ode", "Sonnet", "Haiku"], "plays": ["Hamlet"]}  # stands for a service
    >>> class ShelfReader(SourceReader):  # a split is (shelf, position)
    ...     def open(self):
    ...         self.splits, self.ended = [], []
    ...     def add_splits(self, splits):
    ...         self.splits.extend(splits)
    ...     def poll(self, limit, now):
    ...         if not self.splits:
    ...             return NEED_SPLITS
    ...         shelf, position = self.splits.pop(0)
    ...         titles = SHELVES[shelf][position : position + limit]
    ...         if not titles:
    ...             self.ended.append(shelf)
    ...             return self.poll(limit, now)
    ...         self.splits.insert(0, (shelf, position + len(titles)))
    ...         return Batch(titles, split=shelf)
    ...     def split_finished(self):
    ...         ended, self.ended = self.ended, []
    ...         return ended
    ...     def snapshot(self):
    ...         return list(self.splits)
    ...     def close(self):
    ...         self.splits.clear()

    From a snapshot another reader goes on:

    >>> first, second = ShelfReader(), ShelfReader()
    >>> first.open(); first.add_splits([("poems", 0)])
    >>> first.poll(2, now=0).values
    ['Ode', 'Sonnet']
    >>> second.open(); second.add_splits(first.snapshot())
    >>> second.poll(2, now=0).values, second.poll(2, now=0) is NEED_SPLITS, second.split_finished()
    (['Haiku'], True, ['poems'])
    """

    def open(self) -> None:
        """Connect to whatever is read; raise ``SourceNotReadable`` if that fails."""

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these too, from the position they carry."""
        raise NotImplementedError

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return up to about ``limit`` records of one split, or why there are none.

        ``now`` is processing time (ms). ``Wait`` means that there may be some later, ``NEED_SPLITS`` that all splits are
        read; what is raised fails the job.
        """
        raise NotImplementedError

    def split_finished(self) -> list[str]:
        """Return the ids of splits that ended since the last call (their watermark stops counting)."""
        return []

    def snapshot(self) -> list[Any]:
        """Return the unfinished splits with their positions."""
        raise NotImplementedError

    def close(self) -> None:
        """Release everything; runs also after a failure."""


class SplitEnumerator:
    """Enumerates the splits of a source, on the driver.

    Its methods are called one at a time, with the driver's lock: they have to be quick. Only ``discover`` runs beside the
    others, in a thread of its own, and may take long; so it reads, returns what it found, and leaves it to ``add_discovered`` to
    take that over. What it found and nobody took over is not in a snapshot, so it has to be found again after ``restore``.

    ``StaticSplits`` is one for splits that are known beforehand. This one finds new ones as they come:

    >>> SHELVES = ["poems"]  # stands for a service
    >>> class Shelves(SplitEnumerator):
    ...     discovery_interval = 1000
    ...     def __init__(self):
    ...         self.seen, self.new = set(), []
    ...     def start(self):
    ...         self.add_discovered(self.discover(now=0))
    ...     def discover(self, now):
    ...         return [shelf for shelf in SHELVES if shelf not in self.seen]
    ...     def add_discovered(self, found):
    ...         self.seen.update(found)
    ...         self.new += found
    ...         return bool(found)
    ...     def next_splits(self, subtask):
    ...         return [self.new.pop()] if self.new else []
    ...     def snapshot(self):
    ...         return sorted(self.seen), list(self.new)
    ...     def restore(self, snapshot):
    ...         self.seen, self.new = set(snapshot[0]), snapshot[1]
    >>> shelves = Shelves()
    >>> shelves.start()
    >>> shelves.next_splits(subtask=0), shelves.next_splits(subtask=1), shelves.discover(now=1000)
    (['poems'], [], [])
    >>> SHELVES.append("plays")
    >>> again = Shelves()
    >>> again.restore(shelves.snapshot())
    >>> again.add_discovered(again.discover(now=2000)), again.next_splits(subtask=1)
    (True, ['plays'])
    """

    discovery_interval: int | None = None
    """Call ``discover`` this often (ms); ``None``: never."""

    def start(self) -> None:
        """Check what is to be read; raises ``SourceNotReadable`` now rather than in a task."""

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return splits for a subtask that has none left: ``[]`` means not now, ``None`` means never again."""
        raise NotImplementedError

    def discover(self, now: int) -> Any:
        """Look for new splits (``now``: processing time, ms) and return what was found; ``None``: nothing.

        Runs beside the other methods, and must change nothing that they use. One look at a time: the next begins when what this
        one found has been taken over.
        """
        return None

    def add_discovered(self, found: Any) -> bool:
        """Take over what ``discover`` returned; true if there are splits to hand out."""
        return bool(found)

    def snapshot(self) -> Any:
        """Return the splits not yet handed out, and what else discovery needs."""
        return None

    def restore(self, snapshot: Any) -> None:
        """Take back what ``snapshot`` returned, instead of ``start``."""


class StaticSplits(SplitEnumerator):
    """Splits known beforehand: subtask ``i`` gets ``splits[i::parallelism]`` at its first request, and then no more.

    The snapshot is what was not handed out, so that it can be restored at another parallelism.

    >>> splits = StaticSplits(["a", "b", "c"], parallelism=2)
    >>> splits.next_splits(subtask=0), splits.next_splits(subtask=0), splits.snapshot()
    (['a', 'c'], None, [(1, 'b')])
    >>> again = StaticSplits(["a", "b", "c"], parallelism=1)
    >>> again.restore(splits.snapshot())
    >>> again.next_splits(subtask=0)
    ['b']
    """

    def __init__(self, splits: Sequence[Any], parallelism: int) -> None:
        self._shares = [list(splits[subtask::parallelism]) for subtask in range(parallelism)]

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the subtask's share once."""
        share, self._shares[subtask] = self._shares[subtask], []
        return share or None

    def snapshot(self) -> Any:
        """Return the splits not handed out, each with the subtask it is meant for."""
        return [(subtask, split) for subtask, share in enumerate(self._shares) for split in share]

    def restore(self, snapshot: Any) -> None:
        """Hand out only these; the readers have the others."""
        self._shares = [[] for _ in self._shares]
        for subtask, split in snapshot:
            self._shares[subtask % len(self._shares)].append(split)


class Source(Generic[T_co]):
    """A declared source; subclasses are frozen dataclasses.

    >>> class CountdownReader(SourceReader):  # a split is the next number
    ...     number = 0
    ...     def add_splits(self, splits):
    ...         [self.number] = splits
    ...     def poll(self, limit, now):
    ...         if self.number == 0:
    ...             return NEED_SPLITS
    ...         numbers = list(range(self.number, max(0, self.number - limit), -1))
    ...         self.number -= len(numbers)
    ...         return Batch(numbers)
    ...     def snapshot(self):
    ...         return [self.number] if self.number else []
    >>> @dataclass(frozen=True)
    ... class Countdown(Source):
    ...     start: int
    ...     max_parallelism = 1
    ...     def enumerator(self, parallelism):
    ...         return StaticSplits([self.start], parallelism)
    ...     def reader(self, context):
    ...         return CountdownReader()
    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> env.from_source(Countdown(3)).execute_and_collect(limit=9)
    [3, 2, 1]
    """

    boundedness: Boundedness = Boundedness.BOUNDED
    max_parallelism: int | None = None
    """The most subtasks that can read it (1 for a collection); ``None``: any number."""

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator, on the driver."""
        raise NotImplementedError

    def reader(self, context: ReaderContext) -> SourceReader:
        """Make a reader, in a task."""
        raise NotImplementedError


class SinkWriter:
    """Writes the records of one subtask.

    >>> from uuid import uuid4
    >>> class Staged(SinkWriter):  # a committable is an id and rows
    ...     def open(self):
    ...         self.rows = []
    ...     def write(self, values, timestamps, now):
    ...         self.rows += values
    ...     def flush(self):
    ...         pass  # nothing lies in between
    ...     def prepare_commit(self, end_of_input):
    ...         rows, self.rows = self.rows, []
    ...         return [(str(uuid4()), rows)] if rows else []
    ...     def close(self):
    ...         self.rows.clear()
    >>> writer = Staged()
    >>> writer.open()
    >>> writer.write(["a", "b"], timestamps=None, now=0)
    >>> [rows for _, rows in writer.prepare_commit(end_of_input=False)], writer.prepare_commit(end_of_input=True)
    ([['a', 'b']], [])
    """

    def open(self) -> None:
        """Connect; raise ``SinkNotWritable`` if that fails."""

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Write a block; ``timestamps`` (ms) are the records', ``now`` is processing time (ms)."""
        raise NotImplementedError

    def flush(self) -> None:
        """Make what was written safe from a crash of this process, as far as the system can."""

    def prepare_commit(self, end_of_input: bool) -> list[Any]:
        """Close the current transaction and return what is to be committed, as plain data."""
        return []

    def close(self) -> None:
        """Release everything, keep what is prepared; runs also after a failure."""


class Sink(Generic[T_contra]):
    """A declared sink; subclasses are frozen dataclasses.

    What its writers prepare is committed when the job has succeeded and, with checkpoints, at each of them. A commit may
    be repeated after a failure, so what is committed carries an id:

    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from uuid import uuid4
    >>> class Rows(SinkWriter):
    ...     def open(self):
    ...         self.rows = []
    ...     def write(self, values, timestamps, now):
    ...         self.rows += [(str(uuid4()), value) for value in values]
    ...     def prepare_commit(self, end_of_input):
    ...         rows, self.rows = self.rows, []
    ...         return rows
    >>> @dataclass(frozen=True)
    ... class Table(Sink):
    ...     path: str
    ...     def check(self):
    ...         with closing(sqlite3.connect(self.path)) as db:
    ...             db.execute("CREATE TABLE IF NOT EXISTS words (id PRIMARY KEY, word)")
    ...     def writer(self, context):
    ...         return Rows()
    ...     def commit(self, committables):
    ...         with closing(sqlite3.connect(self.path)) as db, db:
    ...             db.executemany("INSERT OR IGNORE INTO words VALUES (?, ?)", committables)
    ...     def abort(self, committables):
    ...         pass  # nothing was written before
    >>> from funken.testing import local
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     words = local(["to", "be"])
    ...     _ = words.sink_to(Table(folder + "/words.db"))
    ...     _ = words.get_execution_environment().execute()
    ...     with closing(sqlite3.connect(folder + "/words.db")) as db:
    ...         db.execute("SELECT word FROM words").fetchall()
    [('to',), ('be',)]
    """

    def of_type(self, type_info: TypeInformation | None) -> Sink:
        """Return the sink for records of a declared type (``None``: any); it matters to those that write text.

        >>> from dataclasses import replace
        >>> from funken import Types
        >>> @dataclass(frozen=True)
        ... class Csv(Sink):
        ...     columns: tuple[str, ...] = ()
        ...     def of_type(self, type_info):
        ...         return replace(self, columns=tuple(type_info.get_field_names()))
        >>> Csv().of_type(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()]))
        Csv(columns=('word', 'n'))
        """
        return self

    def check(self) -> None:
        """Look, on the driver and before anything runs, whether the sink can work; raise ``SinkNotWritable``."""

    def writer(self, context: ReaderContext) -> SinkWriter:
        """Make a writer, in a task."""
        raise NotImplementedError

    def commit(self, committables: Sequence[Any]) -> None:
        """Make prepared data visible, on the driver; committing twice must be harmless."""

    def abort(self, committables: Sequence[Any]) -> None:
        """Drop prepared data of an attempt that failed."""
