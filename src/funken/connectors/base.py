"""The contract of a source, second version: an enumerator on the driver, readers in the tasks, splits between them.

A *source* is a frozen spec. Its *enumerator* lives on the driver, knows the splits and assigns them; its *readers* live in the
tasks and read splits. A split is plain data that carries its position, so that a snapshot of a reader is the list of its
splits. The contract of a sink is in ``sink.py``.

Nothing here reads a clock: ``now`` (ms, processing time) arrives as an argument.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import field
from typing import Any, ClassVar
from zlib import crc32

from funken.columnar.expressions import NotVectorizable
from funken.dataclass import dataclass
from funken.errors import SinkNotWritable, SourceNotReadable
from funken.expr.types import Type
from funken.metrics.registry import MetricGroup
from funken.types.callables import Generic, T_co

# ---- What a connector knows of the job it runs in: one context for readers and writers, one for committers.
#
# The contexts are plain values and callables. A connector reads time from ``processing_time`` and from the
# arguments of its methods, never from a clock of its own, so that it can be tested under a manual clock.


def _zero() -> int:
    return 0


def _nothing() -> None:
    """Do nothing: no task waits for the reader."""


@dataclass(frozen=True, slots=True)
class ConnectorContext:
    """The context of a reader or writer.

    ``operator`` is the operator's name, ``operator_uid`` its stable id: its ``uid``, or one made of its place in the program.
    ``attempt`` counts the attempts of the job before this one. ``restored_checkpoint_id`` is the checkpoint that the attempt
    starts from, ``None`` if it starts from nothing. ``processing_time`` returns ms since the epoch. ``wake`` makes the task
    poll the reader at once; it may be called from any thread. ``checkpointing`` says whether the job takes checkpoints.

    >>> ConnectorContext("orders", subtask=1, parallelism=4, job_id="nightly", operator_uid="orders-v1")
    ConnectorContext(operator='orders', subtask=1, parallelism=4, job_id='nightly', operator_uid='orders-v1', attempt=0,
    restored_checkpoint_id=None)
    """

    operator: str
    subtask: int = 0
    parallelism: int = 1
    job_id: str = "local"
    operator_uid: str = ""
    attempt: int = 0
    restored_checkpoint_id: int | None = None
    metrics: MetricGroup = field(default_factory=MetricGroup, repr=False, compare=False)
    processing_time: Callable[[], int] = field(default=_zero, repr=False, compare=False)
    wake: Callable[[], None] = field(default=_nothing, repr=False, compare=False)
    checkpointing: bool = field(default=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """The context of a committer: it runs on the driver, one for each attempt of the job.

    ``checkpoint_interval`` is the time between checkpoints (ms), ``None`` if there are none.

    >>> CommitterContext("orders", job_id="nightly", operator_uid="orders-v1", attempt=2, restored_checkpoint_id=17)
    CommitterContext(operator='orders', parallelism=1, job_id='nightly', operator_uid='orders-v1', attempt=2,
    restored_checkpoint_id=17, checkpoint_interval=None)
    """

    operator: str
    parallelism: int = 1
    job_id: str = "local"
    operator_uid: str = ""
    attempt: int = 0
    restored_checkpoint_id: int | None = None
    checkpoint_interval: int | None = None


class Service:
    """The base of the address of a service, and who connects to it; define ``connect``, ``errors`` and ``problem``.

    >>> import os
    >>> class Shop(Service):
    ...     errors = (ConnectionError,)
    ...     def connect(self):
    ...         return open(os.devnull)
    ...     def problem(self, error):
    ...         return f"the shop says {str(error)!r}; open it."
    >>> with Shop().reached("orders", SourceNotReadable):
    ...     raise ConnectionError("closed")
    Traceback (most recent call last):
    ...
    funken.errors.SourceNotReadable: orders cannot be read: the shop says 'closed'; open it.
    """

    def connect(self) -> Any:
        """Return a client, which has ``close``."""
        raise NotImplementedError

    @property
    def errors(self) -> Any:
        """The exceptions of a client, of which ``problem`` knows."""
        raise NotImplementedError

    def problem(self, error: Exception) -> str:
        """Return an exception of a client as a sentence, with the remedy."""
        raise NotImplementedError

    @contextmanager
    def explained(self, what: str, fail: Callable[[str], Exception]) -> Iterator[None]:
        """Raise the exceptions of a client as ``fail`` makes them of a sentence: ``what``, the problem, and the remedy."""
        try:
            yield
        except self.errors as error:
            raise fail(f"{what}: {self.problem(error)}") from error

    @contextmanager
    def reached(self, place: str, kind: type[SourceNotReadable | SinkNotWritable], **options: Any) -> Iterator[Any]:
        """Yield a client, and close it; raise its exceptions as a ``kind`` of error that names the place."""
        verb = "written" if issubclass(kind, SinkNotWritable) else "read"
        with closing(self.connect(**options)) as client, self.explained(f"{place} cannot be {verb}", kind):
            yield client


def declares(connector: object, capability: str, method: str) -> bool:
    """Return True if a capability was declared with its method, or for it: not before the method was overridden."""
    found = next(vars(kind) for kind in type(connector).__mro__ if capability in vars(kind) or method in vars(kind))
    return capability in found


class Boundedness(enum.Enum):
    """The boundedness of a source; with ``AUTOMATIC`` mode a job of bounded sources runs as ``BATCH``.

    >>> from funken import DataGeneratorSource, NumberSequenceSource
    >>> NumberSequenceSource(1, 3).boundedness, DataGeneratorSource(lambda index: index).boundedness.name
    (<Boundedness.BOUNDED: 'bounded'>, 'CONTINUOUS_UNBOUNDED')
    """

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "unbounded"


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
    """No record is available now; the task polls again in ``millis``, or when new splits arrive.

    ``None``: the reader calls ``wake`` of its context when records are available, and is not polled meanwhile but about
    once a second.
    """

    millis: int | None = 5


class NeedSplits:
    """All splits of this reader are read: it wants more, or ends if there no longer exist."""


NEED_SPLITS = NeedSplits()


@dataclass(frozen=True, slots=True)
class IndexColumns:
    """Every record is computed of its index: by ``function`` (a callable, or an object with ``map``), or is the index itself.

    ``least`` and ``greatest`` are bounds of the indices.
    """

    least: int
    greatest: int
    function: Any = None


class SourceReader:
    """Reads splits inside a task. One instance per subtask; never blocks longer than a few ms.

    A split is plain data; one with an ``id`` has a watermark of its own until ``split_finished`` names it. (A reader that
    works through its splits one by one needs only ``poll``: ``QueuedReader`` has the rest. One whose service may keep it waiting
    derives from ``PolledReader``, which asks in a thread.)

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
    ...     def snapshot_state(self, checkpoint_id):
    ...         return list(self.splits)
    ...     def close(self):
    ...         self.splits.clear()

    From a snapshot another reader goes on:

    >>> first, second = ShelfReader(), ShelfReader()
    >>> first.open(); first.add_splits([("poems", 0)])
    >>> first.poll(2, now=0).values
    ['Ode', 'Sonnet']
    >>> second.open(); second.add_splits(first.snapshot_state(checkpoint_id=1))
    >>> second.poll(2, now=0).values, second.poll(2, now=0) is NEED_SPLITS, second.split_finished()
    (['Haiku'], True, ['poems'])
    """

    pauses_splits = False
    """True if it can hold single splits back; one that reads a split after the other has no use for that."""

    finished: Any = ()
    """A list of the ids of splits that ended, until the task has asked for them."""

    def __init__(self, context: ConnectorContext | None = None) -> None:
        self.context = context or ConnectorContext("source")
        self.bytes_in = self.context.metrics.counter("numBytesIn")
        """Bytes that were read; a reader adds to it."""
        self.finished = []

    def failure(self, problem: str) -> SourceNotReadable:
        """Return the error to raise; it names the operator and the subtask.

        >>> SourceReader(ConnectorContext("orders", subtask=2)).failure("the queue is gone; create it.")
        SourceNotReadable("operator 'orders': the queue is gone; create it.")
        """
        operator = self.context.operator
        return SourceNotReadable(f"operator {operator!r}: {problem}", operator, self.context.subtask)

    def open(self) -> None:
        """Connect to the source; raise ``SourceNotReadable`` if that fails."""

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these too, from the position they carry."""
        raise NotImplementedError

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return up to about ``limit`` records of one split, or why there are none.

        ``now`` is processing time (ms). ``Wait`` means that there may be some later, ``NEED_SPLITS`` that all splits are
        read; an exception fails the job.
        """
        raise NotImplementedError

    def split_finished(self) -> list[str]:
        """Return the ids of splits that ended since the last call (their watermark stops counting): those in ``finished``."""
        finished, self.finished = list(self.finished), []
        return finished

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the unfinished splits with their positions."""
        raise NotImplementedError

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Return no records of some splits, named by their ids, until they are resumed; their positions do not change.

        Called only if the reader ``pauses_splits``, where the watermark strategy has an alignment: a split whose watermark is too
        far ahead of the others waits for them. ``KafkaSource`` has such readers.

        >>> class Shelves(SourceReader):
        ...     pauses_splits = True
        ...     paused = frozenset()
        ...     def pause_or_resume_splits(self, pause, resume):
        ...         self.paused = (self.paused | set(pause)) - set(resume)
        >>> shelves = Shelves()
        >>> shelves.pause_or_resume_splits(pause=["poems", "plays"], resume=[])
        >>> shelves.pause_or_resume_splits(pause=[], resume=["plays"])
        >>> shelves.paused
        frozenset({'poems'})
        """
        raise NotImplementedError

    def read_columns(self, compute: Callable[[range], Any]) -> None:
        """Make records of a range of indices by ``compute``, which returns columns; see ``Source.index_columns``.

        >>> from funken import NumberSequenceSource
        >>> source = NumberSequenceSource(1, 3)
        >>> reader = source.reader(ConnectorContext("numbers"))
        >>> reader.add_splits(source.enumerator(parallelism=1).next_splits(subtask=0))
        >>> reader.read_columns(lambda indices: [float(index) for index in indices])
        >>> reader.poll(9, now=0).values
        [1.0, 2.0, 3.0]
        """
        raise NotImplementedError

    def read_record_columns(self, schema: Type, wanted: Sequence[int] | None) -> None:
        """Make blocks of columns of ``schema``, where records have that form; see ``Source.record_schema``.

        A ``Batch`` then has a block (``funken.columnar.kernels.columns.Columns``) as its values, or a list as ever. ``wanted``
        are numbers of the schema's leaves (fields, if it is flat) that are read, ``None``: all. It may be called again.

        >>> from funken.expr.types import INT, STR, Tuple
        >>> class Pairs(SourceReader):
        ...     def read_record_columns(self, schema, wanted):
        ...         self.schema, self.wanted = schema, wanted
        >>> pairs = Pairs()
        >>> pairs.read_record_columns(Tuple((INT, STR)), wanted=[0])
        >>> pairs.schema, pairs.wanted
        ((int, str), [0])
        """
        raise NotImplementedError

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, and the output of sinks for it is committed; no older one is restored any more.

        Not every checkpoint is notified: a later one includes those before it. Use it to acknowledge messages to a broker.

        >>> class Inbox(SourceReader):
        ...     def open(self):
        ...         self.read, self.upto = 7, {}
        ...     def snapshot_state(self, checkpoint_id):
        ...         self.upto[checkpoint_id] = self.read
        ...         return [self.read]
        ...     def notify_checkpoint_complete(self, checkpoint_id):
        ...         print("acknowledge messages up to", self.upto.pop(checkpoint_id))
        ...     def notify_checkpoint_aborted(self, checkpoint_id):
        ...         self.upto.pop(checkpoint_id, None)
        >>> inbox = Inbox()
        >>> inbox.open()
        >>> inbox.snapshot_state(1)
        [7]
        >>> inbox.notify_checkpoint_complete(1)
        acknowledge messages up to 7
        """

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint is aborted; the next one has later positions. The other notification's example defines it.

        >>> SourceReader().notify_checkpoint_aborted(1)
        """

    def close(self) -> None:
        """Release everything; runs also after a failure."""


class QueuedReader(SourceReader):
    """A reader that needs only ``poll``: it reads ``queue[0]``, keeps the position there and calls ``end_split``.

    A split is a frozen dataclass with an ``id``. It is reported as finished by the poll *after* the one that returned its last
    record, so that its watermark counts while that record is on its way.
    """

    def __init__(self, context: ConnectorContext | None = None) -> None:
        super().__init__(context)
        self.queue: deque[Any] = deque()

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these after those that are there."""
        self.queue.extend(splits)

    def end_split(self) -> None:
        """Drop the split at the front: it is read to its end."""
        self.finished.append(self.queue.popleft().id)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the splits with their positions."""
        return list(self.queue)


def split_id(split: Any) -> str:
    """Return the id of a split; an empty one if it has none, and shares its reader's watermark.

    >>> split_id(("poems", 7))
    ''
    """
    return str(getattr(split, "id", ""))


class SplitEnumerator:
    """Enumerates the splits of a source, on the driver.

    Its methods are called one at a time, with the driver's lock: they have to be quick. Only ``discover`` runs beside the
    others, in a thread of its own, and may take long; so it reads, returns what it found, and leaves it to ``add_discovered`` to
    take that over. A result that nobody took over is not in a snapshot, so it has to be found again after ``restore``.

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
        """Check the source's data; raises ``SourceNotReadable`` now rather than in a task."""

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return splits for a subtask that has none left: ``[]`` means not now, ``None`` means never again."""
        raise NotImplementedError

    def splits_read(self, subtask: int) -> None:
        """A subtask has read all its splits; called before it is asked for more.

        >>> StaticSplits([], parallelism=1).splits_read(subtask=0)
        """

    def unassigned_splits(self) -> int | None:
        """Return the number of splits that wait for a reader, for the metric of that name; ``None``: not known.

        >>> StaticSplits(["a", "b"], parallelism=1).unassigned_splits()
        2
        """
        return None

    def discover(self, now: int) -> Any:
        """Look for new splits (``now``: processing time, ms) and return them; ``None``: nothing.

        Runs beside the other methods, and must change nothing that they use. One look at a time: the next begins when what this
        one found has been taken over.
        """
        return None

    def add_discovered(self, found: Any) -> bool:
        """Take over the result of ``discover``; true if there are splits to hand out."""
        return bool(found)

    def snapshot(self) -> Any:
        """Return the splits not yet handed out, and further state of discovery."""
        return None

    def restore(self, snapshot: Any) -> None:
        """Restore the result of ``snapshot``, instead of ``start``."""


class StaticSplits(SplitEnumerator):
    """Splits known beforehand: subtask ``i`` gets ``splits[i::parallelism]`` at its first request, and then no more.

    The snapshot has the splits that were not handed out, so that they can be restored at another parallelism.

    >>> splits = StaticSplits(["a", "b", "c"], parallelism=2)
    >>> splits.next_splits(subtask=0), splits.next_splits(subtask=0), splits.snapshot()
    (['a', 'c'], None, [(1, 'b')])
    >>> again = StaticSplits(["a", "b", "c"], parallelism=1)
    >>> again.restore(splits.snapshot())
    >>> again.next_splits(subtask=0)
    ['b']
    """

    def __init__(self, splits: Sequence[Any], parallelism: int) -> None:
        self._shares: list[list[Any]] = [[] for _ in range(parallelism)]
        self.share(splits)

    def share(self, splits: Sequence[Any]) -> None:
        """Deal out these splits.

        >>> splits = StaticSplits([], parallelism=2)
        >>> splits.share("abc")
        >>> splits.next_splits(subtask=0)
        ['a', 'c']
        """
        count = len(self._shares)
        self._shares = [list(splits[subtask::count]) for subtask in range(count)]

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the subtask's share once."""
        share, self._shares[subtask] = self._shares[subtask], []
        return share or None

    def unassigned_splits(self) -> int:
        """Return the number of splits that wait for a reader."""
        return sum(map(len, self._shares))

    def snapshot(self) -> Any:
        """Return the splits not handed out, each with the subtask it is meant for."""
        return [(subtask, split) for subtask, share in enumerate(self._shares) for split in share]

    def restore(self, snapshot: Any) -> None:
        """Hand out only these; the readers have the others."""
        self._shares = [[] for _ in self._shares]
        for subtask, split in snapshot:
            self._shares[subtask % len(self._shares)].append(split)


class ListedSplits(StaticSplits):
    """The splits that a source lists when the job starts."""

    def __init__(self, source: Source, parallelism: int) -> None:
        super().__init__((), parallelism)
        self._source = source

    def start(self) -> None:
        """List the splits."""
        self.share(self._source.list_splits())


class DiscoveredSplits(SplitEnumerator):
    """Splits that are found at the start and later; each belongs to the same subtask in every run, by its ``owner``.

    Define ``start``, which calls ``add_discovered``, and ``discover``: both find names, and the splits of these that are not in
    ``known``. A bounded source finds none later.

    >>> class Shelves(DiscoveredSplits):
    ...     def start(self):
    ...         self.add_discovered((["plays", "poems"], ["plays"]))
    >>> shelves = Shelves(parallelism=1, discovery_interval=None)
    >>> shelves.start()
    >>> shelves.snapshot(), shelves.next_splits(subtask=0), shelves.next_splits(subtask=0)
    ((['plays', 'poems'], ['plays']), ['plays'], None)
    """

    def __init__(self, parallelism: int, discovery_interval: int | None) -> None:
        self.discovery_interval = discovery_interval
        self.known: set[Any] = set()
        self._parallelism = parallelism
        self._waiting: list[Any] = []

    def owner(self, split: Any) -> int:
        """Return a number of the split, which is the subtask's modulo the parallelism; by default of its id."""
        return crc32(split_id(split).encode())

    def add_discovered(self, found: tuple[Collection[Any], Sequence[Any]]) -> bool:
        """Take over new names and their splits."""
        names, splits = found
        self.known.update(names)
        self._waiting += splits
        return bool(splits)

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the subtask's splits."""
        share: list[Any] = []
        waiting, self._waiting = self._waiting, []
        for split in waiting:
            (share if self.owner(split) % self._parallelism == subtask else self._waiting).append(split)
        return share or (None if self.discovery_interval is None else [])

    def unassigned_splits(self) -> int:
        """Return the number of splits that wait for a reader."""
        return len(self._waiting)

    def snapshot(self) -> Any:
        """Return the names that are known, and the splits not handed out."""
        return sorted(self.known), list(self._waiting)

    def restore(self, snapshot: Any) -> None:
        """Resume from a snapshot."""
        known, waiting = snapshot
        self.known, self._waiting = set(known), list(waiting)


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
    ...     def snapshot_state(self, checkpoint_id):
    ...         return [self.number] if self.number else []
    >>> @dataclass(frozen=True)
    ... class Countdown(Source):
    ...     start: int
    ...     max_parallelism = 1
    ...     def list_splits(self):
    ...         return [self.start]
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
    never_waits: ClassVar[Any] = False
    """Whether ``poll`` never waits, for a disk or a service, so that other subtasks may share a worker, and its thread."""
    makes_blocks: ClassVar[Any] = False
    """Whether readers give blocks of a form of their own, for any program: then a record costs little, and a block much."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The files and folders that it reads.

        >>> from funken import CollectionSource
        >>> CollectionSource([1]).folders
        ()
        """
        return ()

    @property
    def index_columns(self) -> IndexColumns | None:
        """The range and function from which readers make columns, if they can; ``None``: they emit records only.

        A source that declares it has readers with ``read_columns``, which the plan calls where columns are of use.

        >>> from funken import CollectionSource, NumberSequenceSource
        >>> NumberSequenceSource(1, 9).index_columns, CollectionSource([1]).index_columns
        (IndexColumns(least=1, greatest=9, function=None), None)
        """
        return None

    def record_schema(self) -> Type:
        """Return the schema of the records, if the readers can make columns of them; raise ``NotVectorizable`` with the reason.

        A source that declares it has readers with ``read_record_columns``, which the plan calls where columns are of use. It
        is called on the driver, also by ``explain()``, and may look at the data.

        >>> from funken import CollectionSource
        >>> CollectionSource([1]).record_schema()
        Traceback (most recent call last):
            ...
        funken.columnar.expressions.NotVectorizable: has fewer than 200,000 elements
        """
        raise NotVectorizable(f"{type(self).__name__} produces no columns")

    def list_splits(self) -> Sequence[Any]:
        """Look at the data when the job starts, and return the splits; raise ``SourceNotReadable``.

        Splits that are found later, or depend on the parallelism, need an ``enumerator`` instead.
        """
        raise NotImplementedError

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator, on the driver; by default, one for the splits of ``list_splits``."""
        return ListedSplits(self, parallelism)

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make a reader, in a task."""
        raise NotImplementedError
