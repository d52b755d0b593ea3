"""Running aggregates of a block: the value of each call behind every row, by scans over the rows of each group.

Counts, sums and averages of numbers, least and greatest values, and DISTINCT ones of them; rows that are taken back count
negatively in counts and sums of integers. Accumulators are those of the functions in ``expr.sql.aggregates``, so a group may be
changed row by row as well. What a group has before the block, and behind each of its rows, is a *state*: those of the groups come
first, then those of the rows, group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.keyed.groups import Groups, running_float_sum, running_most, running_sum
from funken.expr.sql.types import DoubleType, FloatType, IntegralType, LogicalType
from funken.table.logical import AggregateCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.keyed_blocks import codes_of, dense, firsts_of

Array = Any
SUMS = ("SUM", "SUM0", "$SUM0", "AVG")
_FAR = 1 << 62
"""Numbers up to here may be lifted without being too large for 64 bits."""


class GroupedRows:
    """A block in groups: which rows count, and in which direction."""

    def __init__(self, batch: pa.RecordBatch, groups: Groups, signs: Array | None) -> None:
        self.batch, self.groups, self.signs = batch, groups, signs
        self._codes: dict[Any, tuple[Array, int]] = {}
        self._passing: dict[int | None, Array] = {}
        self._values: dict[Any, tuple[list[Any], list[int]]] = {}

    def counted(self, columns: Sequence[int], filter_column: int | None) -> Array:
        """Return a mask of rows that have all of some values, and pass a filter; not to be changed."""
        mask = self.passing(filter_column)
        for place in columns:
            column = self.batch.column(place)
            if column.null_count:
                mask = mask & column.is_valid().to_numpy(zero_copy_only=False)
        return mask

    def passing(self, filter_column: int | None) -> Array:
        """Return a mask of rows that pass a filter; not to be changed."""
        found = self._passing.get(filter_column)
        if found is None:
            if filter_column is None:
                found = np.ones(self.batch.num_rows, np.bool_)
            else:
                found = pc.fill_null(self.batch.column(filter_column), False).to_numpy(zero_copy_only=False)
            self._passing[filter_column] = found
        return found

    def summed(self, initial: Array, values: Array) -> Array:
        """Return the states of a running sum."""
        values = values.take(self.groups.order)
        values[self.groups.begins] += initial
        sums = running_sum if values.dtype == np.int64 else running_float_sum
        return np.concatenate((initial, sums(values, self.groups)))

    def signed(self, values: Array) -> Array:
        """Return values, negative in rows that are taken back."""
        return values if self.signs is None else values * self.signs

    def last(self, states: Array) -> Array:
        """Return the state of each group behind its last row."""
        return states.take(self.groups.ends + len(self.groups.slots))

    def pairs(self, columns: tuple[int, ...]) -> tuple[Array, int]:
        """Return a number per group and value of some columns, of each row."""
        found = self._codes.get(columns)
        if found is None:
            codes, count = self.groups.of_records(), len(self.groups.slots)
            for place in columns:
                more, others = codes_of(self.batch.column(place))
                codes, count = dense(codes * others + more)
            found = self._codes[columns] = codes, count
        return found

    def pair_values(self, columns: tuple[int, ...], schema: BlockSchema) -> tuple[list[Any], list[int]]:
        """Return the values that each of these numbers stands for, and its group."""
        found = self._values.get(columns)
        if found is None:
            firsts = firsts_of(*self.pairs(columns))
            at = pa.array(firsts)
            values = [schema.values(self.batch.column(place).take(at), place) for place in columns]
            tuples = list(zip(*values, strict=True)) if values else [()] * len(firsts)
            found = self._values[columns] = tuples, self.groups.of_records().take(firsts).tolist()
        return found


class Running:
    """A call over whole blocks. Its state of a group is an item of each of some arrays, whose types are ``dtypes``."""

    dtypes: tuple[Any, ...] = (np.int64,)

    def __init__(self, call: AggregateCall, schema: BlockSchema) -> None:
        self.args, self.filter, self.type, self.schema = call.args, call.filter, call.type, schema
        self.distinct = call.distinct
        self.arrow = BlockSchema(["value"], [call.type]).arrow.field(0).type

    def states(self, scan: GroupedRows, held: list[Array], counts: Array | None = None) -> tuple[pa.Array, list[Array]]:
        """Return the result in each state, and the new state; ``counts``: the rows that count, if not all that may."""
        raise NotImplementedError

    def held(self, stored: list[Any]) -> list[Array]:
        """Return accumulators as arrays."""
        return [np.array(stored, np.int64)]

    def stored(self, held: list[Array]) -> list[Any]:
        """Return arrays as accumulators."""
        found: list[Any] = held[0].tolist()
        return found

    def load(self, held: list[Array], slot: int) -> Any:
        """Return an item of the arrays as an accumulator."""
        return held[0][slot].item()

    def save(self, held: list[Array], slot: int, accumulator: Any) -> None:
        """Make an accumulator an item of the arrays."""
        held[0][slot] = accumulator


class _RunningCount(Running):
    def states(self, scan: GroupedRows, held: list[Array], counts: Array | None = None) -> tuple[pa.Array, list[Array]]:
        counts = scan.counted(self.args, self.filter) if counts is None else counts
        found = scan.summed(held[0], scan.signed(counts.astype(np.int64)))
        return pa.array(found), [scan.last(found)]


class SumResults:
    """Makes the results of SUM and AVG of sums, and the number of values in each."""

    def __init__(self, call: AggregateCall) -> None:
        self.whole = isinstance(call.type, IntegralType)
        self.dtype: Any = np.int64 if self.whole else np.float64
        self._average, self._nullable = call.function == "AVG", call.function in ("SUM", "AVG")
        #: what may be added to a sum without changing it, also to -0.0, which SUM alone can be
        self.neutral: Any = 0 if self.whole else -0.0
        self._signed = call.function == "SUM"
        self._bits = call.type.bits if isinstance(call.type, IntegralType) and not self._average else 64
        self._type = BlockSchema(["value"], [call.type]).arrow.field(0).type

    def wrapped(self, sums: Array) -> Array:
        """Return sums as values of their type."""
        return sums if self._bits == 64 else sums.astype(f"int{self._bits}").astype(np.int64)

    def __call__(self, sums: Array, numbers: Array) -> pa.Array:
        """Return the results."""
        sums = self.wrapped(sums)
        if not (self.whole or self._signed):
            sums = sums + 0.0
        missing = numbers == 0
        if self._average:
            divisors = np.where(missing, 1, numbers)
            if self.whole:
                found = np.abs(sums) // np.abs(divisors)
                sums = np.where((sums < 0) == (divisors < 0), found, -found)
            else:
                sums = sums / divisors
        return pa.array(sums, mask=missing if self._nullable else None).cast(self._type, safe=False)


class _RunningSum(Running):
    """A sum and the number of its values; AVG, too."""

    def __init__(self, call: AggregateCall, schema: BlockSchema) -> None:
        super().__init__(call, schema)
        self.sums = SumResults(call)
        self.dtypes = (self.sums.dtype, np.int64)

    def states(self, scan: GroupedRows, held: list[Array], counts: Array | None = None) -> tuple[pa.Array, list[Array]]:
        counts = scan.counted(self.args, self.filter) if counts is None else counts
        column = pc.fill_null(scan.batch.column(self.args[0]), 0)
        values = np.where(counts, column.to_numpy(zero_copy_only=False), self.sums.neutral).astype(self.sums.dtype)
        sums = self.sums.wrapped(scan.summed(held[0], scan.signed(values)))
        numbers = scan.summed(held[1], scan.signed(counts.astype(np.int64)))
        return self.sums(sums, numbers), [scan.last(sums), scan.last(numbers)]

    def held(self, stored: list[Any]) -> list[Array]:
        """Return accumulators as arrays."""
        return [np.array([each[at] for each in stored], dtype) for at, dtype in enumerate(self.dtypes)]

    def stored(self, held: list[Array]) -> list[Any]:
        """Return arrays as accumulators."""
        return [list(each) for each in zip(*(each.tolist() for each in held), strict=True)]

    def load(self, held: list[Array], slot: int) -> Any:
        """Return an item of the arrays as an accumulator."""
        return [each[slot].item() for each in held]

    def save(self, held: list[Array], slot: int, accumulator: Any) -> None:
        """Make an accumulator an item of the arrays."""
        held[0][slot], held[1][slot] = accumulator


class _RunningExtreme(Running):
    """The least or the greatest value, as a place in the order of all that there are."""

    dtypes = (np.object_,)

    def __init__(self, call: AggregateCall, schema: BlockSchema) -> None:
        super().__init__(call, schema)
        self.greatest = call.function == "MAX"

    def states(self, scan: GroupedRows, held: list[Array], counts: Array | None = None) -> tuple[pa.Array, list[Array]]:
        place = self.args[0]
        before = self.schema.array(held[0].tolist(), place)
        every = pa.concat_arrays([before, scan.batch.column(place)])
        places, values_of, top = self._by_value(every, len(scan.groups.slots)) or self._by_rank(every)
        if every.null_count:
            places[every.is_null().to_numpy(zero_copy_only=False)] = 0
        count = len(before)
        initial, values = places[:count], places[count:]
        passing = scan.passing(self.filter) if counts is None else counts
        values = np.where(passing, values, 0).take(scan.groups.order)
        begins = scan.groups.begins
        values[begins] = np.maximum(values[begins], initial)
        most = running_most(values, scan.groups, 0, top)
        assert most is not None
        results = values_of(np.concatenate((initial, most)))
        left = np.empty(count, np.object_)
        left[:] = self.schema.values(results.take(pa.array(scan.groups.ends + count)), place)
        return results.cast(self.arrow), [left]

    def _by_rank(self, every: pa.Array) -> tuple[Array, Callable[[Array], pa.Array], int]:
        """Return the rank of each value in the order of all, from 1, a function back to values, and the last rank."""
        encoded = every.dictionary_encode("mask")
        order = "ascending" if self.greatest else "descending"
        ranks = pc.rank(encoded.dictionary, order, tiebreaker="dense").to_numpy()
        codes = pc.fill_null(encoded.indices, 0).to_numpy()
        places = ranks.take(codes).astype(np.int64) if len(ranks) else np.zeros(len(every), np.int64)
        of_rank = np.zeros(len(ranks) + 1, np.int64)
        of_rank[ranks] = np.arange(len(ranks))

        def values_of(places: Array) -> pa.Array:
            return encoded.dictionary.take(pa.array(of_rank.take(places), mask=places == 0))

        return places, values_of, len(ranks) + 1

    def _by_value(self, every: pa.Array, groups: int) -> tuple[Array, Callable[[Array], pa.Array], int] | None:
        """Return the same of whole numbers whose range is narrow enough, which need no order."""
        if not pa.types.is_integer(every.type) or every.null_count == len(every):
            return None
        bounds = pc.min_max(every).as_py()
        low, high = bounds["min"], bounds["max"]
        if (high - low + 3) * groups >= _FAR or max(-low, high) >= _FAR:
            return None
        numbers = pc.fill_null(every, low).to_numpy().astype(np.int64)
        places = numbers - (low - 1) if self.greatest else (high + 1) - numbers

        def values_of(places: Array) -> pa.Array:
            found = places + (low - 1) if self.greatest else (high + 1) - places
            return pa.array(found, mask=places == 0).cast(every.type, safe=False)

        return places, values_of, high - low + 2

    def held(self, stored: list[Any]) -> list[Array]:
        """Return accumulators as arrays."""
        found = np.empty(len(stored), np.object_)
        found[:] = [each[0] if each else None for each in stored]
        return [found]

    def stored(self, held: list[Array]) -> list[Any]:
        """Return arrays as accumulators."""
        return [[] if each is None else [each] for each in held[0].tolist()]

    def load(self, held: list[Array], slot: int) -> Any:
        """Return an item of the arrays as an accumulator."""
        value = held[0][slot]
        return [] if value is None else [value]

    def save(self, held: list[Array], slot: int, accumulator: Any) -> None:
        """Make an accumulator an item of the arrays."""
        held[0][slot] = accumulator[0] if accumulator else None


class DistinctRows:
    """The different values of some columns in each group of a block, for DISTINCT calls over rows that only come.

    Which values a group has seen is kept, not how often. Calls that differ in their filters only share a number per value, which
    has a bit for each of them.
    """

    def __init__(self, scan: GroupedRows, args: tuple[int, ...], schema: BlockSchema) -> None:
        self._scan, self._args = scan, args
        self._codes, self._count = scan.pairs(args)
        self._values, self._groups = scan.pair_values(args, schema)

    def new(self, maps: list[dict[Any, int]], filters: Sequence[int | None]) -> list[Array]:
        """Add values to the numbers of their groups; return of each call which rows have one that is new and no NULL."""
        # Hot: a look-up per different value of a block; of one group all at once.
        seen, values = [each.get for each in maps], self._values
        if len(maps) == 1:
            before = np.fromiter(map(seen[0], values, repeat(0)), np.int64, len(values))
        else:
            pairs = zip(self._groups, values, strict=True)
            before = np.fromiter((seen[group](value, 0) for group, value in pairs), np.int64, len(values))
        if len(filters) == 1:  # the number may be how often a value was there, where rows are counted one by one
            before = np.minimum(before, 1)
        bits, found = before.copy(), []
        there = self._scan.counted(self._args, None)
        for number, filter_column in enumerate(filters):
            rows = np.flatnonzero(self._scan.passing(filter_column))
            firsts = np.full(self._count, -1, np.int64)
            firsts[self._codes.take(rows[::-1])] = rows[::-1]
            counts = np.zeros(len(there), np.bool_)
            counts[firsts[(firsts >= 0) & (before >> number & 1 == 0)]] = True
            found.append(counts & there)
            bits |= (firsts >= 0).astype(np.int64) << number
        changed = np.flatnonzero(bits != before)
        for at, number in zip(changed.tolist(), bits.take(changed).tolist(), strict=True):
            maps[self._groups[at]][self._values[at]] = number
        return found


def _is_number(type_: LogicalType) -> bool:
    return isinstance(type_, IntegralType | FloatType | DoubleType)


def running(call: AggregateCall, schema: BlockSchema) -> Running:
    """Return the computation of a call; of a DISTINCT one, over the rows that count."""
    if call.function == "COUNT":
        return _RunningCount(call, schema)
    return _RunningSum(call, schema) if call.function in SUMS else _RunningExtreme(call, schema)


class RunningCalls:
    """The calls of an operator over whole blocks."""

    def __init__(self, calls: Sequence[AggregateCall], schema: BlockSchema) -> None:
        self._calls, self._schema = [running(call, schema) for call in calls], schema

    @staticmethod
    def serve(calls: Sequence[AggregateCall], schema: BlockSchema, retracts: bool) -> bool:
        """Return True if running aggregates can compute these calls."""
        return all(_serves(call, schema, retracts) for call in calls)

    def states(self, scan: GroupedRows, stored: list[list[Any]]) -> tuple[list[pa.Array], list[list[Any]]]:
        """Return the results of each call in each state, and the new accumulators of each group."""
        results, left = [], []
        for number, call in enumerate(self._calls):
            given, counts = [each[number] for each in stored], None
            if call.distinct:
                maps = [each[0] for each in given]
                counts = DistinctRows(scan, call.args, self._schema).new(maps, [call.filter])[0]
                given = [each[1] for each in given]
            found, held = call.states(scan, call.held(given), counts)
            accumulators = call.stored(held)
            results.append(found)
            if call.distinct:
                left.append([[seen, inner] for seen, inner in zip(maps, accumulators, strict=True)])
            else:
                left.append(accumulators)
        return results, [list(each) for each in zip(*left, strict=True)] if left else [[] for _ in stored]


def _serves(call: AggregateCall, schema: BlockSchema, retracts: bool) -> bool:
    if call.definition is not None or getattr(call, "order", None) or (call.distinct and retracts):
        return False
    types = [schema.types[place] for place in call.args]
    if call.function == "COUNT":
        return not call.distinct or not any(_hashed_otherwise(each) for each in types)
    if call.function in SUMS:
        served = _is_number(types[0]) and (not retracts or isinstance(types[0], IntegralType))
        return served and not (call.distinct and _hashed_otherwise(types[0]))
    if call.function in ("MIN", "MAX"):
        return not retracts and types[0].root not in _UNORDERED and not _hashed_otherwise(types[0])
    return False


_UNORDERED = ("BOOLEAN", "DECIMAL", "BINARY", "VARBINARY", "INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH")
_HASHED = (
    "FLOAT", "DOUBLE", "DECIMAL", "ARRAY", "MAP", "MULTISET", "ROW", "RAW", "VARIANT", "BITMAP", "STRUCTURED_TYPE", "NULL",
)  # fmt: skip


def _hashed_otherwise(type_: LogicalType) -> bool:
    """Return True if values of a type have another form as keys, or an order that Arrow does not know."""
    return type_.root in _HASHED
