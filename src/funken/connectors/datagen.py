"""Sources that make their records: a sequence of numbers, and a function of an index, at a given rate if wanted.

Both rewind exactly: a split is a range of indices with a position. The subtasks share the indices and never overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, Protocol

from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    IndexColumns,
    NeedSplits,
    QueuedReader,
    Source,
    SplitEnumerator,
    StaticSplits,
    Wait,
)
from funken.connectors.context import ConnectorContext
from funken.connectors.rate_limit import Pace
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.types.generics import T_co

ENDLESS = 2**63 - 1
"""The end of an unbounded generator's indices, as in Flink."""


@dataclass(frozen=True, slots=True)
class IndexSplit:
    """The indices ``position``, ``position + step``, ... below ``end``."""

    id: str
    position: int
    end: int
    step: int = 1

    def take(self, count: int) -> range:
        """Return the next ``count`` indices, or what is left."""
        return range(self.position, min(self.end, self.position + count * self.step), self.step)

    def after(self, taken: range) -> IndexSplit:
        """Return the split without ``taken``."""
        return replace(self, position=self.position + len(taken) * self.step)


@dataclass(frozen=True)
class NumberSequenceSource(Source[int]):
    """The integers from ``start`` to ``end``, both included; each subtask reads a range of its own, in order.

    Raises ``InvalidProgram`` if ``start`` is above ``end``.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> env.from_source(NumberSequenceSource(1, 5)).execute_and_collect(limit=9)
    [1, 2, 3, 4, 5]

    Its readers ask for the ranges:

    >>> source = NumberSequenceSource(1, 10)
    >>> enumerator, reader = source.enumerator(parallelism=2), source.reader(ConnectorContext("numbers", 1, 2))
    >>> reader.add_splits(enumerator.next_splits(subtask=1))
    >>> reader.poll(100, now=0).values
    [6, 7, 8, 9, 10]
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        """Refuse a sequence that runs backwards."""
        if self.start > self.end:
            raise InvalidProgram(f"a number sequence from {self.start} to {self.end} is empty; pass start <= end.")

    @property
    def index_columns(self) -> IndexColumns:
        """The numbers themselves.

        >>> NumberSequenceSource(1, 9).index_columns
        IndexColumns(least=1, greatest=9, function=None)
        """
        return IndexColumns(self.start, self.end)

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Cut the sequence into one range per subtask."""
        count = self.end - self.start + 1
        parts = min(parallelism, count)
        borders = [self.start + count * part // parts for part in range(parts + 1)]
        splits = [IndexSplit(f"{low}..{high - 1}", low, high) for low, high in pairwise(borders)]
        return StaticSplits(splits, parallelism)

    def reader(self, context: ConnectorContext) -> SequenceReader:
        """Make a reader."""
        return SequenceReader()


class SequenceReader(QueuedReader):
    """Reads ranges of indices as they are."""

    def __init__(self) -> None:
        super().__init__()
        self._compute: Callable[[range], Any] = list

    def read_columns(self, compute: Callable[[range], Any]) -> None:
        """Return columns of indices."""
        self._compute = compute

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next indices."""
        while self.queue:
            split: IndexSplit = self.queue[0]
            indices = split.take(limit)
            if indices:
                self.queue[0] = split.after(indices)
                return Batch(self._compute(indices), split=split.id)
            self.end_split()
        return NEED_SPLITS


class GeneratorFunction(Protocol[T_co]):
    """Flink's generator as an object."""

    def map(self, index: int) -> T_co:
        """Return the record of an index."""
        ...


@dataclass(frozen=True)
class DataGeneratorSource(Source[T_co]):
    """The records ``generator_function(0)``, ``generator_function(1)``, ...: ``count`` of them, or without end.

    Subtask ``i`` of ``n`` makes the records ``i``, ``i + n``, ``i + 2n``, ..., so that timestamps derived from the
    index advance alike everywhere. ``rate_per_second`` is the rate of all subtasks together, kept by elapsed time: the
    first record comes at once, and a subtask that was held up makes up for at most one second.

    >>> source = DataGeneratorSource(lambda index: f"user-{index % 3}", count=5, rate_per_second=1000)
    >>> reader = source.reader(ConnectorContext("users", 0, 1))
    >>> reader.add_splits(source.enumerator(1).next_splits(0))
    >>> [reader.poll(100, now=now) for now in (0, 0, 3)]
    [Batch(values=['user-0'], timestamps=None, split='0/1'), Wait(millis=1),
     Batch(values=['user-1', 'user-2', 'user-0'], timestamps=None, split='0/1')]
    """

    generator_function: Callable[[int], T_co] | GeneratorFunction[T_co]
    count: int | None = None
    rate_per_second: float | None = None
    boundedness: Boundedness = field(init=False)

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not callable(self.generator_function) and not hasattr(self.generator_function, "map"):
            raise InvalidProgram(f"{self.generator_function!r} generates nothing; pass a function of an index.")
        if self.count is not None and self.count < 0:
            raise InvalidProgram(f"a generator cannot make {self.count} records; pass count >= 0, or None for no end.")
        if self.rate_per_second is not None and not 0 < self.rate_per_second < math.inf:
            raise InvalidProgram(f"{self.rate_per_second} records per second is no rate; pass a positive number.")
        bounded = Boundedness.CONTINUOUS_UNBOUNDED if self.count is None else Boundedness.BOUNDED
        object.__setattr__(self, "boundedness", bounded)

    @property
    def index_columns(self) -> IndexColumns:
        """What the function computes of 0, 1, 2, ...

        >>> DataGeneratorSource(str, count=9).index_columns
        IndexColumns(least=0, greatest=9, function=<class 'str'>)
        """
        return IndexColumns(0, ENDLESS if self.count is None else self.count, self.generator_function)

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Deal the indices out to the subtasks in turn."""
        end = ENDLESS if self.count is None else self.count
        parts = min(parallelism, end)
        return StaticSplits([IndexSplit(f"{part}/{parts}", part, end, parts) for part in range(parts)], parallelism)

    def reader(self, context: ConnectorContext) -> GeneratorReader:
        """Make a reader."""
        function = self.generator_function
        return GeneratorReader(function if callable(function) else function.map, self.rate_per_second)


class GeneratorReader(QueuedReader):
    """Calls the function for each index of its splits, turn by turn if it has several."""

    def __init__(self, function: Callable[[int], Any], rate: float | None) -> None:
        super().__init__()
        self._function = function
        self._rate = rate
        self._pace: Pace | None = None
        self._compute: Callable[[range], Any] = self.records

    def read_columns(self, compute: Callable[[range], Any]) -> None:
        """Return columns of what the function would return."""
        self._compute = compute

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these too; the reader's rate is the sum of its splits' shares."""
        super().add_splits(splits)
        self._pace = None

    def end_split(self) -> None:
        """Drop the split at the front, and its share of the rate."""
        super().end_split()
        self._pace = None

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the records that are due."""
        while self.queue:
            split: IndexSplit = self.queue[0]
            if not split.take(1):
                self.end_split()
                continue
            if self._rate is not None:
                if self._pace is None:
                    self._pace = Pace(self._rate * sum(1 / split.step for split in self.queue), now)
                limit = min(limit, self._pace.due(now))
                if limit <= 0:
                    return Wait(self._pace.wait(now))
            return self._generate(split, limit)
        return NEED_SPLITS

    def _generate(self, split: IndexSplit, count: int) -> Batch:
        indices = split.take(count)
        values = self._compute(indices)
        self.queue[0] = split.after(indices)
        self.queue.rotate(-1)
        if self._pace is not None:
            self._pace.spend(len(values))
        return Batch(values, split=split.id)

    def records(self, indices: range) -> list[Any]:
        """Return the records of some indices."""
        # Hot: map() would be as fast, but takes a StopIteration of the function for the end of the indices.
        function = self._function
        return [function(index) for index in indices]
