"""The functions of built-in operators: projections, counts, numbering and samples."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from funken.dataset.memory.blocks import Block
from funken.dataset.plan.functions import DataSetFunction, MapPartitionFunction, user_function
from funken.dataset.plan.keys import FieldColumn
from funken.dataset.plan.record_type import Path
from funken.errors import InvalidProgram


class Projection:
    """Makes a tuple of fields.

    >>> Projection(((1,), (1,)))((5, 6))
    (6, 6)
    """

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self.column_paths = _positions([(0, path) for path in paths])
        self._columns = [FieldColumn((path,), "project") for path in paths]

    def __call__(self, record: Any) -> Any:
        """Return the fields of one record."""
        return tuple(column([record])[0] for column in self._columns)

    def block(self, records: Block) -> Block:
        """Return the fields of all records of a block."""
        return list(zip(*(column(records) for column in self._columns), strict=True))


class PairProjection:
    """Makes a tuple of fields of two records.

    >>> PairProjection(((1, (0,)), (0, ())))("a", (5, 6))
    (5, 'a')
    """

    def __init__(self, chosen: tuple[tuple[int, Path], ...]) -> None:
        self.column_paths = _positions(chosen)
        self._columns = [(side, FieldColumn((path,), "project")) for side, path in chosen]

    def __call__(self, first: Any, second: Any) -> Any:
        """Return the fields of two records."""
        pair = (first, second)
        return tuple(column([pair[side]])[0] for side, column in self._columns)


def _positions(chosen: Iterable[tuple[int, Path]]) -> list[tuple[int, tuple[int, ...]]] | None:
    """Return the fields as columns have them; None if some are named."""
    found = [(side, tuple(step for step in path if isinstance(step, int))) for side, path in chosen]
    return found if all(len(own) == len(path) for (_, own), (_, path) in zip(found, chosen, strict=True)) else None


class FirstN:
    """The first records of an iterable."""

    def __init__(self, n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InvalidProgram(f"first({n!r}): it has to be a whole number above 0.")
        self._n = n

    def __call__(self, values: Iterable[Any]) -> Iterator[Any]:
        """Return an iterator over the first ones."""
        return islice(iter(values), self._n)


class CountPartition(MapPartitionFunction):
    """Emits the task and the number of its records."""

    def open(self, runtime_context: Any) -> None:
        """Find the task."""
        self._task = runtime_context.get_index_of_this_subtask()

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Count."""
        yield self._task, sum(1 for _ in values)

    def map_blocks(self, blocks: Iterable[Block]) -> Iterator[Any]:
        """Count without making records of columns."""
        yield self._task, sum(map(len, blocks))


class WithIndex(MapPartitionFunction):
    """Numbers records from the number of those in the partitions before."""

    def open(self, runtime_context: Any) -> None:
        """Add up the partitions before this one."""
        task = runtime_context.get_index_of_this_subtask()
        counts = runtime_context.get_broadcast_variable("counts")
        self._start = sum(count for other, count in counts if other < task)

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Number them."""
        return enumerate(values, self._start)


class UniqueIds(MapPartitionFunction):
    """Numbers records by their place in the partition, with the task in the low bits."""

    def open(self, runtime_context: Any) -> None:
        """Find the task, and how many bits it takes."""
        self._task = runtime_context.get_index_of_this_subtask()
        self._bits = (runtime_context.get_number_of_parallel_subtasks() - 1).bit_length()

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Number them."""
        for count, value in enumerate(values):
            yield (count << self._bits) + self._task, value


class _Seeded(MapPartitionFunction):
    def __init__(self, seed: int | None) -> None:
        self._seed = seed

    def open(self, runtime_context: Any) -> None:
        """Seed the generator of this task."""
        task = runtime_context.get_index_of_this_subtask()
        self._random = random.Random(None if self._seed is None else f"{self._seed}/{task}")


class _Bernoulli(_Seeded):
    def __init__(self, fraction: float, seed: int | None) -> None:
        super().__init__(seed)
        self._fraction = fraction

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Keep each record with the same probability."""
        draw, fraction = self._random.random, self._fraction
        return (value for value in values if draw() < fraction)


class _Poisson(_Bernoulli):
    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Keep each record as often as a Poisson process has events in ``fraction``."""
        for value in values:
            at = self._random.expovariate(1.0)
            while at < self._fraction:
                yield value
                at += self._random.expovariate(1.0)


def sampler(with_replacement: bool, fraction: float, seed: int | None) -> MapPartitionFunction:
    """Return the function of ``sample``."""
    if not fraction >= 0 or (fraction > 1 and not with_replacement):
        raise InvalidProgram(
            f"sample(): the fraction {fraction} has to be from 0 to 1, or at least 0 with replacement."
        )
    return _Poisson(fraction, seed) if with_replacement else _Bernoulli(fraction, seed)


class _Draw(_Seeded):
    """Gives each record a random weight and keeps those with the greatest: a part of a global sample."""

    def __init__(self, size: int, seed: int | None) -> None:
        super().__init__(seed)
        self._size = size

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Return (weight, place, record) of the greatest weights."""
        draw = self._random.random
        weighed = ((draw(), place, value) for place, value in enumerate(values))
        return iter(heapq.nlargest(self._size, weighed, key=_weight))


class _DrawEach(_Draw):
    """Makes ``size`` draws, each from all records: one reservoir of size 1 per draw."""

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Return (weight, draw, record): per draw the record with the greatest weight."""
        draw = self._random.random
        best: list[tuple[float, int, Any]] = []
        for value in values:
            if not best:
                best = [(draw(), place, value) for place in range(self._size)]
                continue
            for place, (weight, _, _) in enumerate(best):
                mine = draw()
                if mine > weight:
                    best[place] = (mine, place, value)
        return iter(best)


class _Largest:
    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, drawn: Iterable[Any]) -> Iterator[Any]:
        """Return the records with the greatest weights."""
        return (value for _, _, value in heapq.nlargest(self._size, drawn, key=_weight))


class _LargestOfEach(_Largest):
    def __call__(self, drawn: Iterable[Any]) -> Iterator[Any]:
        """Return, for each draw, the record with the greatest weight."""
        best: dict[int, tuple[float, int, Any]] = {}
        for candidate in drawn:
            so_far = best.get(candidate[1])
            if so_far is None or candidate[0] > so_far[0]:
                best[candidate[1]] = candidate
        return (value for _, _, value in best.values())


def _weight(drawn: tuple[float, int, Any]) -> float:
    return drawn[0]


def sampler_with_size(with_replacement: bool, size: int, seed: int | None) -> tuple[MapPartitionFunction, Any]:
    """Return the functions of ``sample_with_size``: per task, and over all."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InvalidProgram(f"sample_with_size(): the size {size!r} has to be a whole number, 0 or more.")
    if with_replacement:
        return _DrawEach(size, seed), _LargestOfEach(size)
    return _Draw(size, seed), _Largest(size)


def group_functions(function: Any, combine: Any) -> tuple[DataSetFunction, DataSetFunction | None]:
    """Return the function of ``reduce_group`` and its combiner, if it has one."""
    call = user_function(function, "reduce", "reduce_group")
    if combine is not None:
        return call, user_function(combine, "combine", "reduce_group")
    if call.method and hasattr(function, "combine"):
        return call, DataSetFunction(function, "combine", call.rich)
    return call, None
