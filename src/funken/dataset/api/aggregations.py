"""Built-in reductions: sums and extremes of fields, whole records with the least or greatest fields, the first of a key."""

from __future__ import annotations

import dataclasses
import enum
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice
from operator import add
from typing import Any

from funken import Row
from funken.dataset.memory.manager import Block
from funken.dataset.plan.functions import DataSetFunction, MapPartitionFunction, user_function
from funken.dataset.plan.keys import FieldColumn, Path, Step, getter_of
from funken.errors import InvalidProgram
from funken.state.keygroups import ordered_key


class Aggregations(enum.Enum):
    """A function that ``aggregate`` computes of a field.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> orders = env.from_elements((1, 5, 7), (1, 3, 9), (2, 8, 1))
    >>> sorted(orders.group_by(0).aggregate(Aggregations.SUM, 1).and_(Aggregations.MIN, 2).collect())
    [(1, 8, 7), (2, 8, 1)]
    """

    SUM = "sum"
    MIN = "min"
    MAX = "max"


_COMBINE: dict[Aggregations, Callable[[Any, Any], Any]] = {
    Aggregations.SUM: add,
    Aggregations.MIN: lambda a, b: min(a, b, key=ordered_key),
    Aggregations.MAX: lambda a, b: max(a, b, key=ordered_key),
}


Fold = Callable[[dict[Hashable, Any], Iterable[Hashable], Iterable[Any]], None]
"""Adds records to a table of one record per key."""

_SOURCES = {
    Aggregations.SUM: "a[{0}] + b[{0}]",
    Aggregations.MIN: "b[{0}] if a[{0}] != a[{0}] or (b[{0}] == b[{0}] and b[{0}] < a[{0}]) else a[{0}]",
    Aggregations.MAX: "b[{0}] if b[{0}] != b[{0}] or (a[{0}] == a[{0}] and b[{0}] > a[{0}]) else a[{0}]",
}
"""NaN is greatest, as in Java; decimals cannot even be asked whether they are less than NaN."""


@lru_cache(maxsize=64)
def _tuple_fold(parts: tuple[tuple[Aggregations, Path], ...], width: int) -> Fold:
    """Make the loop for tuples of one width: without a call, a list and a dispatch per record."""
    fields = [f"b[{place}]" for place in range(width)]
    for how, path in parts:
        fields[int(path[0])] = _SOURCES[how].format(path[0])
    source = (
        "def fold(table, keys, records):\n"
        "    get = table.get\n"
        "    for key, b in zip(keys, records):\n"
        "        a = get(key, absent)\n"
        f"        table[key] = b if a is absent else ({', '.join(fields)},)\n"
    )
    space: dict[str, Any] = {"absent": object()}
    exec(source, space)  # of positions and names of this module only
    fold: Fold = space["fold"]
    return fold


class FieldAggregator:
    """Aggregates fields in place; the other fields are those of the record that came last.

    >>> FieldAggregator(((Aggregations.SUM, (1,)),), "aggregate")((1, 5, "a"), (1, 3, "b"))
    (1, 8, 'b')
    """

    def __init__(self, parts: tuple[tuple[Aggregations, Path], ...], operator: str) -> None:
        self.parts = parts
        self._operator = operator
        self._positions = [
            (path[0], _COMBINE[how]) for how, path in parts if len(path) == 1 and isinstance(path[0], int)
        ]
        self._only_positions = len(self._positions) == len(parts)

    def __call__(self, so_far: Any, record: Any) -> Any:
        """Return the aggregate of two records."""
        if type(record) is tuple and self._only_positions:
            fields = list(record)
            for position, combine in self._positions:
                fields[position] = combine(so_far[position], record[position])
            return tuple(fields)
        return self._replaced(so_far, record)

    def fold_for(self, block: list[Any]) -> Fold | None:
        """Return a loop over the records of a block, if they are tuples of one width and the fields are positions.

        >>> sums, table = FieldAggregator(((Aggregations.SUM, (1,)),), "aggregate"), {}
        >>> sums.fold_for([("a", 1), ("a", 2)])(table, ["a", "a"], [("a", 1), ("a", 2)])
        >>> table
        {'a': ('a', 3)}
        """
        if not self._only_positions or set(map(type, block)) != {tuple}:
            return None
        widths = set(map(len, block))
        width = widths.pop()
        if widths or any(position >= width for position, _ in self._positions):
            return None
        if len({position for position, _ in self._positions}) < len(self._positions):
            return None  # of two aggregates of one field, the second works on the result of the first
        return _tuple_fold(self.parts, width)

    @property
    def column_parts(self) -> tuple[list[tuple[str, Path]], bool]:
        """The aggregate of each field; the other fields are those of the last record."""
        return [(how.value, path) for how, path in self.parts], True

    def _replaced(self, so_far: Any, record: Any) -> Any:
        for how, path in self.parts:
            get = getter_of(path, record, self._operator)
            record = replaced(record, path, _COMBINE[how](get(so_far), get(record)))
        return record


def replaced(record: Any, path: Path, value: Any) -> Any:
    """Return a copy of a record with another value in a field.

    >>> replaced((1, (2, 3)), (1, 0), 9)
    (1, (9, 3))
    """
    if not path:
        return value
    step, rest = path[0], path[1:]
    if rest:
        value = replaced(getter_of((step,), record, "aggregate")(record), rest, value)
    if isinstance(record, tuple):
        at = _place(step, getattr(record, "_fields", ()))
        fields = [*record[:at], value, *record[at + 1 :]]
        make = getattr(type(record), "_make", tuple)
        return make(fields)
    if isinstance(record, dict):
        return record | {step if isinstance(step, str) else list(record)[step]: value}
    if isinstance(record, Row):
        names = list(record._fields or ())
        values = list(record)
        values[_place(step, tuple(names))] = value
        row = Row.of_kind(record.get_row_kind(), *values)
        if names:
            row.set_field_names(names)
        return row
    name = step if isinstance(step, str) else dataclasses.fields(record)[step].name
    return dataclasses.replace(record, **{name: value})


def _place(step: Step, names: tuple[str, ...]) -> int:
    return step if isinstance(step, int) else names.index(step)


class Extreme:
    """Keeps the record whose fields are least (or greatest), the first of equal ones.

    >>> Extreme(((1,),), greatest=False, operator="min_by")((1, 5), (1, 3))
    (1, 3)
    """

    def __init__(self, paths: tuple[Path, ...], greatest: bool, operator: str) -> None:
        self._paths = paths
        self._greatest = greatest
        self._operator = operator

    def __call__(self, so_far: Any, record: Any) -> Any:
        """Return one of two records."""
        getters = [getter_of(path, record, self._operator) for path in self._paths]
        old, new = (tuple(ordered_key(get(each)) for get in getters) for each in (so_far, record))
        return record if (new > old if self._greatest else new < old) else so_far


class KeepFirst:
    """Keeps the record of a key that came first.

    >>> KeepFirst()("a", "b")
    'a'
    """

    def __call__(self, so_far: Any, _: Any) -> Any:
        """Return the record that came first."""
        return so_far

    column_parts: tuple[list[tuple[str, Path]], bool] = [], False

    def fold_for(self, block: list[Any]) -> Fold:
        """Return a loop over the records of a block; all of it is in C."""
        return _set_defaults


def _set_defaults(table: dict[Hashable, Any], keys: Iterable[Hashable], records: Iterable[Any]) -> None:
    deque(map(table.setdefault, keys, records), maxlen=0)


# ---- The functions of built-in operators: projections, counts, numbering and samples.


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
        """Find the task, and the number of its bits."""
        self._task = runtime_context.get_index_of_this_subtask()
        self._bits = (runtime_context.get_number_of_parallel_subtasks() - 1).bit_length()

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Number them."""
        for count, value in enumerate(values):
            yield (count << self._bits) + self._task, value


class Sampled(MapPartitionFunction):
    """Draws from the records of a partition: ``draw(random, values)``, with a generator that is seeded by task."""

    def __init__(self, seed: int | None, draw: Callable[[random.Random, Iterable[Any]], Iterator[Any]]) -> None:
        self._seed = seed
        self._draw = draw

    def open(self, runtime_context: Any) -> None:
        """Seed the generator of this task."""
        task = runtime_context.get_index_of_this_subtask()
        self._random = random.Random(None if self._seed is None else f"{self._seed}/{task}")

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Draw."""
        return self._draw(self._random, values)


def _bernoulli(fraction: float, generator: random.Random, values: Iterable[Any]) -> Iterator[Any]:
    """Keep each record with the same probability."""
    draw = generator.random
    return (value for value in values if draw() < fraction)


def _poisson(fraction: float, generator: random.Random, values: Iterable[Any]) -> Iterator[Any]:
    """Keep each record as often as a Poisson process has events in ``fraction``."""
    for value in values:
        at = generator.expovariate(1.0)
        while at < fraction:
            yield value
            at += generator.expovariate(1.0)


def sampler(with_replacement: bool, fraction: float, seed: int | None) -> MapPartitionFunction:
    """Return the function of ``sample``."""
    if not fraction >= 0 or (fraction > 1 and not with_replacement):
        raise InvalidProgram(
            f"sample(): the fraction {fraction} has to be from 0 to 1, or at least 0 with replacement."
        )
    return Sampled(seed, partial(_poisson if with_replacement else _bernoulli, fraction))


def _weighed(size: int, generator: random.Random, values: Iterable[Any]) -> Iterator[Any]:
    """Return (weight, place, record) of the greatest random weights: a part of a global sample."""
    weighed = ((generator.random(), place, value) for place, value in enumerate(values))
    return iter(heapq.nlargest(size, weighed, key=_weight))


def _weighed_each(size: int, generator: random.Random, values: Iterable[Any]) -> Iterator[Any]:
    """Return (weight, draw, record) of ``size`` draws from all records: per draw the record with the greatest weight."""
    draw = generator.random
    best: list[tuple[float, int, Any]] = []
    for value in values:
        if not best:
            best = [(draw(), place, value) for place in range(size)]
            continue
        for place, (weight, _, _) in enumerate(best):
            mine = draw()
            if mine > weight:
                best[place] = (mine, place, value)
    return iter(best)


def _largest(size: int, drawn: Iterable[Any]) -> Iterator[Any]:
    """Return the records with the greatest weights."""
    return (value for _, _, value in heapq.nlargest(size, drawn, key=_weight))


def _largest_of_each(drawn: Iterable[Any]) -> Iterator[Any]:
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
        return Sampled(seed, partial(_weighed_each, size)), _largest_of_each
    return Sampled(seed, partial(_weighed, size)), partial(_largest, size)


def group_functions(function: Any, combine: Any) -> tuple[DataSetFunction, DataSetFunction | None]:
    """Return the function of ``reduce_group`` and its combiner, if it has one."""
    call = user_function(function, "reduce", "reduce_group")
    if combine is not None:
        return call, user_function(combine, "combine", "reduce_group")
    if call.method and hasattr(function, "combine"):
        return call, dataclasses.replace(call, method="combine")
    return call, None
