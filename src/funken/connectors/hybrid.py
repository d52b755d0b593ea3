"""Sources one after the other, as one source: history from files, then new records from a broker.

The first sources end, the last one need not. The enumerator runs that of one source at a time. When all subtasks have read what
that source has, the next one begins: it is there already, or a function makes it then, of where the one before it ended. So no
record of a source is read before the last one of the source before it. All subtasks have to run at the same time for that.

A split names its source by its number, and carries it if it was made at the switch. So readers, also of another attempt, know
how to read it; what was made at the switch is in the snapshot of the enumerator, too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    ConnectorContext,
    NeedSplits,
    Source,
    SourceReader,
    SplitEnumerator,
    Wait,
    split_id,
)
from funken.connectors.dataframe import RowsSource
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.io.shapes import dumps_by_value
from funken.types.callables import Generic, S, T_co

_SWITCH_MILLIS = 10
"""The delay (ms) between the end of a source and the next one."""


@dataclass(frozen=True, slots=True)
class SourceSwitchContext:
    """The argument of a function that makes the next source: the enumerator of the source that has been read.

    >>> from funken import NumberSequenceSource
    >>> switch = SourceSwitchContext(NumberSequenceSource(1, 3).enumerator(parallelism=1))
    >>> switch.get_previous_enumerator() is switch.previous_enumerator
    True
    """

    previous_enumerator: SplitEnumerator

    def get_previous_enumerator(self) -> SplitEnumerator:
        """Return that enumerator (Flink's name for it)."""
        return self.previous_enumerator


SourceFactory = Callable[[SourceSwitchContext], Source]


@dataclass(frozen=True, slots=True)
class HybridSplit:
    """A split of one of the sources; ``source``: that source, pickled, if it was made at the switch."""

    index: int
    split: Any
    source: bytes | None = None

    @property
    def id(self) -> str:
        """Return a name that no split of another source has."""
        return _named(self.index, split_id(self.split))


def _named(index: int, split: str) -> str:
    return f"{index}/{split}" if split else ""


@dataclass(frozen=True)
class HybridSource(Source[T_co]):
    """Several sources, each read to its end before the next; made by ``builder``.

    >>> from funken import NumberSequenceSource, StreamExecutionEnvironment
    >>> history = NumberSequenceSource(1, 3)
    >>> source = HybridSource.builder(history).add_source(NumberSequenceSource(4, 6)).build()
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> env.from_source(source).execute_and_collect(limit=9)
    [1, 2, 3, 4, 5, 6]

    Its enumerator hands out the splits of one source after the other:

    >>> splits, reader = source.enumerator(parallelism=1), source.reader(ConnectorContext("numbers"))
    >>> splits.start()
    >>> reader.add_splits(splits.next_splits(subtask=0))
    >>> reader.poll(9, now=0)
    Batch(values=[1, 2, 3], timestamps=None, split='0/1..3')
    """

    sources: tuple[Source | SourceFactory, ...]
    boundedness: Boundedness
    max_parallelism: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Check the sources that are there."""
        there = [source for source in self.sources if isinstance(source, Source)]
        for number, source in enumerate(there):
            if isinstance(source, RowsSource):
                raise InvalidProgram(
                    f"source {number} of a hybrid source is a DataFrame; read it with from_dataframe()."
                )
            if source.boundedness is not Boundedness.BOUNDED and source is not self.sources[-1]:
                raise InvalidProgram(
                    f"source {number} of a hybrid source, {type(source).__name__}, does not end, so the next one would never "
                    "begin; only the last source may be unbounded."
                )
        limits = [source.max_parallelism for source in there if source.max_parallelism is not None]
        object.__setattr__(self, "max_parallelism", min(limits, default=None))

    @staticmethod
    def builder(first_source: Source[S]) -> HybridSourceBuilder[S]:
        """Start with a source; it has to end, if another one follows.

        >>> from funken import CollectionSource
        >>> HybridSource.builder(CollectionSource([1])).build().boundedness.name
        'BOUNDED'
        """
        return HybridSourceBuilder(HybridSource((first_source,), first_source.boundedness))

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator."""
        return HybridEnumerator(self, parallelism)

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make a reader."""
        return HybridReader(self, context)


@dataclass(frozen=True)
class HybridSourceBuilder(Generic[T_co]):
    """Describes a hybrid source; each call returns a new builder.

    >>> from funken import NumberSequenceSource
    >>> builder = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(NumberSequenceSource(7, 9))
    >>> len(builder.build().sources)
    2
    """

    source: HybridSource[T_co]

    def add_source(
        self, source: Source[T_co] | SourceFactory, boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    ) -> HybridSourceBuilder[T_co]:
        """Read this one next: a source, or a function that makes it when all before it is read.

        ``boundedness`` is that of the source that a function makes. The function runs on the driver, beside the job, and may
        take its time. If an attempt fails at the switch, it is called again. Its result has to be picklable.

        >>> from funken import NumberSequenceSource, StreamExecutionEnvironment
        >>> def rest(switch):
        ...     before = switch.get_previous_enumerator()  # knows where the history has ended
        ...     return NumberSequenceSource(4, 5)
        >>> source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(rest, Boundedness.BOUNDED).build()
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> env.from_source(source).execute_and_collect(limit=9)
        [1, 2, 3, 4, 5]

        Raises ``InvalidProgram`` if the source before it has no end, or if ``source`` is none and makes none.
        """
        if not isinstance(source, Source) and not callable(source):
            raise InvalidProgram(
                f"{source!r} is no source and makes none; pass a source, or a function that returns one."
            )
        if self.source.boundedness is not Boundedness.BOUNDED:
            raise InvalidProgram(
                "the last source of the hybrid source does not end, so none can follow it; bound it, or leave the others out."
            )
        last = source.boundedness if isinstance(source, Source) else boundedness
        return HybridSourceBuilder(HybridSource((*self.source.sources, source), last))

    def build(self) -> HybridSource[T_co]:
        """Return the source."""
        return self.source


class HybridEnumerator(SplitEnumerator):
    """Runs the enumerator of one source at a time."""

    def __init__(self, source: HybridSource[Any], parallelism: int) -> None:
        self._sources = source.sources
        self._parallelism = parallelism
        #: the sources that were made at a switch, by number, as splits and snapshots carry them
        self._made: dict[int, bytes] = {}
        #: the subtasks that may have something left to read of the current source, and those that get nothing more of it
        self._unread = set(range(parallelism))
        self._exhausted: set[int] = set()
        self._index = 0
        self._current = self._source(0).enumerator(parallelism)

    def _source(self, index: int) -> Source:
        return _source_of(self._sources, self._made, index)

    @property
    def _switches(self) -> bool:
        """True if all of this source is read, and there is another."""
        last = self._index + 1 == len(self._sources)
        return not last and not self._unread and len(self._exhausted) == self._parallelism

    @property
    def discovery_interval(self) -> int | None:  # type: ignore[override]
        """The interval (ms) of the search for splits of this source, or, before another source, for its end."""
        return _SWITCH_MILLIS if self._index + 1 < len(self._sources) else self._current.discovery_interval

    def start(self) -> None:
        """Start the first source."""
        self._current.start()

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return splits of the current source."""
        splits = self._current.next_splits(subtask)
        if splits:
            self._unread.add(subtask)
        if splits is not None:
            return [HybridSplit(self._index, split, self._made.get(self._index)) for split in splits]
        self._exhausted.add(subtask)
        return None if self._index + 1 == len(self._sources) else []

    def unassigned_splits(self) -> int | None:
        """Return the number of waiting splits of the current source."""
        return self._current.unassigned_splits()

    def splits_read(self, subtask: int) -> None:
        """Note that a subtask has read its splits."""
        self._current.splits_read(subtask)
        self._unread.discard(subtask)

    def discover(self, now: int) -> Any:
        """Begin the next source if this one is read, else look for its splits."""
        if not self._switches:
            found = self._current.discover(now) if self._current.discovery_interval is not None else None
            return None if found is None else (self._index, found)
        following = self._sources[self._index + 1]
        source = following if isinstance(following, Source) else following(SourceSwitchContext(self._current))
        if not isinstance(source, Source):
            raise TypeError(f"the function that makes source {self._index + 1} returned {source!r}, which is no source")
        made = None if source is following else dumps_by_value(source, _not_picklable, self._index + 1)
        enumerator = source.enumerator(self._parallelism)
        enumerator.start()
        return _Begun(self._index + 1, made, enumerator)

    def add_discovered(self, found: Any) -> bool:
        """Take over the next source, or splits of the current one."""
        if isinstance(found, _Begun):
            self._index, self._current = found.index, found.enumerator
            if found.made is not None:
                self._made[found.index] = found.made
            self._unread, self._exhausted = set(range(self._parallelism)), set()
            return True
        index, splits = found
        return index == self._index and self._current.add_discovered(splits)

    def snapshot(self) -> Any:
        """Return the current source, the sources that were made, and the state of the current enumerator."""
        return self._index, dict(self._made), self._current.snapshot()

    def restore(self, snapshot: Any) -> None:
        """Go on with the source that was read; subtasks that have read it say so again."""
        self._index, self._made, state = snapshot
        if self._index >= len(self._sources):
            raise InvalidProgram(
                f"the snapshot is of source {self._index} of a hybrid source that has only {len(self._sources)}; leave the "
                "sources in the program as they were."
            )
        self._current = self._source(self._index).enumerator(self._parallelism)
        self._current.restore(state)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A source that was made and started, and is to be read next."""

    index: int
    made: bytes | None
    enumerator: SplitEnumerator


def _source_of(sources: Sequence[Source | SourceFactory], made: Mapping[int, bytes], index: int) -> Source:
    source = pickle.loads(made[index]) if index in made else sources[index]
    assert isinstance(source, Source)
    return source


def _not_picklable(error: Exception, index: int) -> Exception:
    return TypeError(
        f"the source that a function has made as source {index} of a hybrid source cannot be pickled ({error}); make "
        "it of values and functions that can."
    )


class HybridReader(SourceReader):
    """Reads with a reader of one source at a time, in their order."""

    def __init__(self, source: HybridSource[Any], context: ConnectorContext) -> None:
        self._sources = source.sources
        super().__init__(context)
        self._index = -1
        self._reader: SourceReader | None = None
        self._waiting: list[HybridSplit] = []
        self._made: dict[int, bytes] = {}
        #: readers that have read everything, until a checkpoint without their splits is complete
        self._past: list[SourceReader] = []
        self._past_since: int | None = None
        self._finished: list[str] = []

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these when their source's turn has come."""
        for split in splits:
            if split.source is not None:
                self._made[split.index] = split.source
        if self._reader is not None:
            mine = [split.split for split in splits if split.index == self._index]
            if mine:
                self._reader.add_splits(mine)
        self._waiting += [split for split in splits if split.index != self._index or self._reader is None]

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return records of the current source; go to the next one that there are splits of."""
        while True:
            if self._reader is not None:
                found = self._reader.poll(limit, now)
                if isinstance(found, Batch):
                    return replace(found, split=_named(self._index, found.split))
                if not isinstance(found, NeedSplits):
                    return found
            if not self._waiting:
                return NEED_SPLITS
            self._begin(min(split.index for split in self._waiting))

    def _begin(self, index: int) -> None:
        self._retire()
        source = _source_of(self._sources, self._made, index)
        mine = [split.split for split in self._waiting if split.index == index]
        self._waiting = [split for split in self._waiting if split.index != index]
        self._index, self._reader = index, source.reader(self.context)
        self._reader.open()
        self._reader.add_splits(mine)

    def _retire(self) -> None:
        if self._reader is not None:
            self._finished += self._ended()
            self._past.append(self._reader)
            self._past_since, self._reader = None, None

    def _ended(self) -> list[str]:
        assert self._reader is not None
        return [_named(self._index, split) for split in self._reader.split_finished()]

    def split_finished(self) -> list[str]:
        """Return the splits that the readers have finished."""
        finished, self._finished = self._finished, []
        return finished if self._reader is None else finished + self._ended()

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the splits of the current source, and those that wait."""
        for reader in self._past:
            reader.snapshot_state(checkpoint_id)
        if self._past and self._past_since is None:
            self._past_since = checkpoint_id
        mine = [] if self._reader is None else self._reader.snapshot_state(checkpoint_id)
        made = self._made.get(self._index)
        return [HybridSplit(self._index, split, made) for split in mine] + self._waiting

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the readers; those whose last records are in the checkpoint are closed."""
        for reader in self._readers():
            reader.notify_checkpoint_complete(checkpoint_id)
        if self._past_since is not None and checkpoint_id >= self._past_since:
            past, self._past, self._past_since = self._past, [], None
            for reader in past:
                reader.close()

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the readers."""
        for reader in self._readers():
            reader.notify_checkpoint_aborted(checkpoint_id)

    def _readers(self) -> list[SourceReader]:
        return self._past if self._reader is None else [*self._past, self._reader]

    def close(self) -> None:
        """Close the readers."""
        for reader in self._readers():
            reader.close()
        self._past, self._reader = [], None
