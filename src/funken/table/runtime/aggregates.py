"""The aggregate functions of an operator, driven row by row: arguments, FILTER, DISTINCT, accumulators as plain data.

An accumulator of several calls is a list with an entry per call; of a DISTINCT call the entry also has how often each value is
there, and the function sees a value when it comes and when its last copy goes. ``AggregateCalls`` knows no key and no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.keyed.groups import Groups
from funken.errors import InvalidProgram
from funken.expr.sql.decimals import of_unscaled, summed, unscaled
from funken.expr.sql.types import DecimalType
from funken.expr.sql.values import EXACT, fit
from funken.operators.base import OperatorContext
from funken.table.logical import AggregateCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.exchange import hashable
from funken.table.runtime.running import SUMS, GroupedRows, RunningCalls, SumResults

Tuple = tuple[Any, ...]


def accumulation_of(call: AggregateCall, schema: BlockSchema, context: OperatorContext, retracts: bool = True) -> Any:
    """Return the operations on the accumulators of a call; ``retracts``: rows may be taken back."""
    types = [schema.types[place] for place in call.args]
    if call.definition is not None:
        return call.definition.aggregate(call, types, context)
    from funken.expr.rules import AggregateRule  # noqa: PLC0415
    from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - the whole table, only where SQL runs

    rule = FUNCTIONS.get(call.function)
    if not isinstance(rule, AggregateRule):
        raise InvalidProgram(f"{call.function} is no aggregate function, but it is used as one.")
    return rule.make(types, {**dict(call.options), "retracting": retracts}, call.type)


class _Call:
    """One call: which columns it reads, and its function."""

    __slots__ = ("args", "distinct", "filter", "function")

    def __init__(self, call: AggregateCall, function: Any) -> None:
        self.args, self.filter, self.distinct, self.function = call.args, call.filter, call.distinct, function


class AggregateCalls:
    """The calls of an operator over rows of a schema."""

    def __init__(
        self, calls: Sequence[AggregateCall], schema: BlockSchema, context: OperatorContext, retracts: bool = True
    ) -> None:
        self._calls = [_Call(call, accumulation_of(call, schema, context, retracts)) for call in calls]

    def create(self) -> list[Any]:
        """Return accumulators without rows."""
        return [[{}, call.function.create()] if call.distinct else call.function.create() for call in self._calls]

    def accumulate(self, accumulators: list[Any], row: Tuple) -> None:
        """Add a row."""
        for place, call in enumerate(self._calls):
            if call.filter is not None and row[call.filter] is not True:
                continue
            args = [row[column] for column in call.args]
            if not call.distinct:
                accumulators[place] = call.function.accumulate(accumulators[place], *args)
                continue
            entry = accumulators[place]
            value = hashable(args)
            count = entry[0].get(value, 0) + 1
            if count == 0:
                del entry[0][value]
            else:
                entry[0][value] = count
            if count == 1:
                entry[1] = call.function.accumulate(entry[1], *args)

    def retract(self, accumulators: list[Any], row: Tuple) -> None:
        """Take a row back."""
        for place, call in enumerate(self._calls):
            if call.filter is not None and row[call.filter] is not True:
                continue
            args = [row[column] for column in call.args]
            if not call.distinct:
                accumulators[place] = call.function.retract(accumulators[place], *args)
                continue
            entry = accumulators[place]
            value = hashable(args)
            count = entry[0].get(value, 0) - 1
            if count == 0:
                del entry[0][value]
                entry[1] = call.function.retract(entry[1], *args)
            else:
                entry[0][value] = count

    def merge(self, accumulators: list[Any], others: list[Any]) -> None:
        """Add the rows of other accumulators, which are not used any more."""
        for place, call in enumerate(self._calls):
            if not call.distinct:
                accumulators[place] = call.function.merge(accumulators[place], others[place])
                continue
            entry = accumulators[place]
            for value, count in others[place][0].items():
                before = entry[0].get(value, 0)
                entry[0][value] = before + count
                if not before:
                    entry[1] = call.function.accumulate(entry[1], *value)

    def values(self, accumulators: list[Any]) -> Tuple:
        """Return the results."""
        return tuple(
            call.function.value(entry[1] if call.distinct else entry)
            for call, entry in zip(self._calls, accumulators, strict=True)
        )

    def close(self) -> None:
        """Close functions of the program."""
        for call in self._calls:
            close = getattr(call.function, "close", None)
            if close is not None:
                close()


# ---- Accumulators as columns: what some rows of each group come to, and what parts of a group come to together.
#
# Counts, sums and averages of numbers, least and greatest values. Unlike in ``running.py`` only the end of a group
# counts, so that its parts may be added in any order, and as late as somebody asks: ``RowRuns`` gathers parts, and
# adds them up now and then. As plain data, accumulators are those of the functions in ``expr.sql.aggregates``.


Array = Any
_FEWEST = 4096
"""So many rows ``RowRuns`` keeps at least before it adds them up."""


class _Count:
    """COUNT: a number."""

    def __init__(self, call: AggregateCall, schema: BlockSchema) -> None:
        self.args, self.filter = call.args, call.filter
        self.types = [pa.int64()]

    def of_rows(self, scan: GroupedRows) -> list[pa.Array]:
        """Return the accumulators of the rows of each group."""
        counts = scan.counted(self.args, self.filter)
        if scan.signs is None and bool(counts.all()):
            return [pa.array(scan.groups.counts.astype(np.int64))]
        return [_added(scan.signed(counts.astype(np.int64)), scan.groups)]

    def together(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return the accumulators of the parts of each group."""
        return [_added(columns[0].to_numpy(), groups)]

    def results(self, columns: list[pa.Array]) -> pa.Array:
        """Return the result of each group."""
        return columns[0]

    def stored(self, columns: list[pa.Array]) -> list[Any]:
        """Return accumulators as plain data."""
        return list(columns[0].to_pylist())

    def loaded(self, stored: list[Any]) -> list[pa.Array]:
        """Return accumulators as columns."""
        return [pa.array(stored, pa.int64())]


class _Sum:
    """SUM and AVG: a sum, and the number of its values."""

    def __init__(self, call: AggregateCall, schema: BlockSchema) -> None:
        self.args, self.filter = call.args, call.filter
        self._sums = SumResults(call)
        self.types = [pa.int64() if self._sums.whole else pa.float64(), pa.int64()]

    def of_rows(self, scan: GroupedRows) -> list[pa.Array]:
        """Return the accumulators of the rows of each group."""
        counts = scan.counted(self.args, self.filter)
        column = pc.fill_null(scan.batch.column(self.args[0]), 0)
        values = column.to_numpy(zero_copy_only=False).astype(self._sums.dtype)
        if not counts.all():
            values = np.where(counts, values, self._sums.neutral)
        return [_added(scan.signed(each), scan.groups) for each in (values, counts.astype(np.int64))]

    def together(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return the accumulators of the parts of each group."""
        return [_added(each.to_numpy(), groups) for each in columns]

    def results(self, columns: list[pa.Array]) -> pa.Array:
        """Return the result of each group."""
        return self._sums(*(each.to_numpy() for each in columns))

    def stored(self, columns: list[pa.Array]) -> list[Any]:
        """Return accumulators as plain data."""
        sums = self._sums.wrapped(columns[0].to_numpy()).tolist()
        return [list(each) for each in zip(sums, columns[1].to_pylist(), strict=True)]

    def loaded(self, stored: list[Any]) -> list[pa.Array]:
        """Return accumulators as columns."""
        return [pa.array([each[place] for each in stored], type_) for place, type_ in enumerate(self.types)]


class _DecimalSum:
    """SUM and AVG of DECIMAL: an exact sum, and how many values are in it."""

    def __init__(self, call: AggregateCall, schema: BlockSchema) -> None:
        self.args, self.filter = call.args, call.filter
        self.type: Any = call.type
        self._average, self._zero = call.function == "AVG", call.function in ("SUM0", "$SUM0")
        self.scale: int = schema.types[call.args[0]].scale
        self.types = [pa.decimal256(76, self.scale), pa.int64()]
        self._result = BlockSchema(["value"], [call.type]).arrow.field(0).type

    def of_rows(self, scan: GroupedRows) -> list[pa.Array]:
        """Return what the rows of each group come to."""
        counts = scan.counted(self.args, self.filter)
        values = unscaled(scan.batch.column(self.args[0]))
        if not counts.all():
            values = np.where(counts, values, 0)
        return self._sums(scan.signed(values), scan.signed(counts.astype(np.int64)), scan.groups)

    def together(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return what the parts of each group come to."""
        return self._sums(unscaled(columns[0]), columns[1].to_numpy(), groups)

    def _sums(self, values: Array, counts: Array, groups: Groups) -> list[pa.Array]:
        found = summed(values, groups.order, groups.begins, int(groups.counts.max()))
        return [of_unscaled(found, self.types[0]), _added(counts, groups)]

    def results(self, columns: list[pa.Array]) -> pa.Array:
        """Return the result of each group; NULL if it has too many digits."""
        sums, counts = unscaled(columns[0]), columns[1].to_numpy()
        missing = None if self._zero else counts == 0
        factor = 10 ** max(0, self._result.scale - self.scale)
        most = factor * int(np.abs(sums).max()) if len(sums) else 0
        narrow = most < 1 << 60 and most < 10**self._result.precision
        if narrow and self._result.scale >= self.scale and int(counts.max(initial=0)) < 1 << 60:
            if not self._average:
                sums = sums * factor
            else:
                numbers = np.maximum(counts, 1)
                found = (np.abs(sums) * (2 * factor) + numbers) // (2 * numbers)  # half up, away from zero
                sums = np.where(sums < 0, -found, found)
            return of_unscaled(sums, self._result, missing)
        values: list[Any] = []
        for total, count in zip(columns[0].to_pylist(), counts.tolist(), strict=True):
            exact = EXACT.divide(total, Decimal(count)) if self._average and count else total
            values.append(None if not (count or self._zero) else fit(exact, self.type))
        return pa.array(values, self._result)

    def stored(self, columns: list[pa.Array]) -> list[Any]:
        """Return accumulators as plain data."""
        return [list(each) for each in zip(columns[0].to_pylist(), columns[1].to_pylist(), strict=True)]

    def loaded(self, stored: list[Any]) -> list[pa.Array]:
        """Return accumulators as columns."""
        return [pa.array([each[place] for each in stored], type_) for place, type_ in enumerate(self.types)]


class _Extreme:
    """MIN and MAX: a value, or NULL."""

    def __init__(self, call: AggregateCall, schema: BlockSchema) -> None:
        self.args, self.filter, self.schema = call.args, call.filter, schema
        self.greatest = call.function == "MAX"
        self.types = [schema.arrow.field(call.args[0]).type]
        self.result = BlockSchema(["value"], [call.type]).arrow.field(0).type

    def of_rows(self, scan: GroupedRows) -> list[pa.Array]:
        """Return the accumulators of the rows of each group."""
        column = scan.batch.column(self.args[0])
        if self.filter is not None:
            column = pc.if_else(pa.array(scan.passing(self.filter)), column, pa.scalar(None, column.type))
        return [self._most(column, scan.groups)]

    def together(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return the accumulators of the parts of each group."""
        return [self._most(columns[0], groups)]

    def _most(self, column: pa.Array, groups: Groups) -> pa.Array:
        encoded, kind = None, column.type
        if pa.types.is_decimal(kind):
            return self._most_decimal(column, groups)
        if not pa.types.is_integer(kind):
            encoded = column.dictionary_encode("mask")
            ranks = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy()
            codes = pc.fill_null(encoded.indices, 0).to_numpy()
            values = ranks.take(codes).astype(np.int64) if len(ranks) else np.zeros(len(column), np.int64)
        else:
            values = pc.fill_null(column, 0).to_numpy()
        missing = None
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            bounds = np.iinfo(values.dtype)
            values = np.where(missing, bounds.min if self.greatest else bounds.max, values)
            missing = np.logical_and.reduceat(missing.take(groups.order), groups.begins)
        most = (np.maximum if self.greatest else np.minimum).reduceat(values.take(groups.order), groups.begins)
        if encoded is None:
            return pa.array(most, mask=missing)
        of_rank = np.zeros(len(ranks) + 1, np.int64)
        of_rank[ranks] = np.arange(len(ranks))
        places = most if missing is None else np.where(missing, 0, most)
        return encoded.dictionary.take(pa.array(of_rank.take(places), mask=missing))

    def _most_decimal(self, column: pa.Array, groups: Groups) -> pa.Array:
        most, missing, values = np.maximum if self.greatest else np.minimum, None, unscaled(column)
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            bound = values.max() if len(values) and not self.greatest else values.min() if len(values) else 0
            values = np.where(missing, bound, values)
            missing = np.logical_and.reduceat(missing.take(groups.order), groups.begins)
        return of_unscaled(most.reduceat(values.take(groups.order), groups.begins), column.type, missing)

    def results(self, columns: list[pa.Array]) -> pa.Array:
        """Return the result of each group."""
        return columns[0].cast(self.result)

    def stored(self, columns: list[pa.Array]) -> list[Any]:
        """Return accumulators as plain data."""
        return [[] if each is None else [each] for each in self.schema.values(columns[0], self.args[0])]

    def loaded(self, stored: list[Any]) -> list[pa.Array]:
        """Return accumulators as columns."""
        return [self.schema.array([each[0] if each else None for each in stored], self.args[0])]


def _added(values: Array, groups: Groups) -> pa.Array:
    return pa.array(np.add.reduceat(values.take(groups.order), groups.begins))


class PartialCalls:
    """The accumulators of several calls, in columns side by side; the first column is the number of rows."""

    def __init__(self, calls: Sequence[AggregateCall], schema: BlockSchema) -> None:
        rows = _Count(AggregateCall("COUNT", (), None), schema)  # type: ignore[arg-type]
        self._calls: list[Any] = [rows, *(_partial(call, schema) for call in calls)]
        ends = np.cumsum([len(call.types) for call in self._calls]).tolist()
        self._parts = [slice(end - len(call.types), end) for call, end in zip(self._calls, ends, strict=True)]
        self.types: list[pa.DataType] = [type_ for call in self._calls for type_ in call.types]

    @staticmethod
    def serve(calls: Sequence[AggregateCall], schema: BlockSchema, retracts: bool) -> bool:
        """Return True if these calls have accumulators that are columns."""
        running = [call for call in calls if not _is_of_decimals(call, schema)]
        if len(running) < len(calls) and retracts:
            return False
        return not any(call.distinct for call in calls) and RunningCalls.serve(running, schema, retracts)

    def of_rows(self, batch: pa.RecordBatch, groups: Groups, signs: Array | None) -> list[pa.Array]:
        """Return the accumulators of the rows of each group."""
        scan = GroupedRows(batch, groups, signs)
        return [column for call in self._calls for column in call.of_rows(scan)]

    def together(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return the accumulators of the parts of each group."""
        return [each for call, part in self._each() for each in call.together(list(columns[part]), groups)]

    def results(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the results of each call."""
        return [call.results(list(columns[part])) for call, part in self._each()][1:]

    def stored(self, columns: Sequence[pa.Array]) -> list[tuple[int, list[Any]]]:
        """Return the number of rows of each group, and accumulators as plain data."""
        counts, *rest = (call.stored(list(columns[part])) for call, part in self._each())
        lists: Any = zip(*rest, strict=True) if rest else [()] * len(counts)
        return [(count, list(each)) for count, each in zip(counts, lists, strict=True)]

    def loaded(self, stored: Sequence[tuple[int, list[Any]]]) -> list[pa.Array]:
        """Return accumulators as columns."""
        given = [[count for count, _ in stored]]
        given += [[each[place] for _, each in stored] for place in range(len(self._calls) - 1)]
        return [column for call, values in zip(self._calls, given, strict=True) for column in call.loaded(values)]

    def _each(self) -> list[tuple[Any, slice]]:
        return list(zip(self._calls, self._parts, strict=True))


def _is_of_decimals(call: AggregateCall, schema: BlockSchema) -> bool:
    """Return True if a call is a sum or an extreme of DECIMALs."""
    if call.definition is not None or call.order or call.function not in (*SUMS, "MIN", "MAX"):
        return False
    return isinstance(schema.types[call.args[0]], DecimalType)


def _partial(call: AggregateCall, schema: BlockSchema) -> Any:
    if call.function == "COUNT":
        return _Count(call, schema)
    if call.function in SUMS and _is_of_decimals(call, schema):
        return _DecimalSum(call, schema)
    return _Sum(call, schema) if call.function in SUMS else _Extreme(call, schema)


class RowRuns:
    """Batches of rows, which ``merge`` makes fewer of when there are twice as many as it left the last time.

    >>> runs = RowRuns(lambda batch: batch.slice(0, 1))
    >>> for at in range(5000):
    ...     runs.add(pa.record_batch({"a": [at]}))
    >>> len(runs), runs.whole().num_rows
    (904, 1)
    """

    def __init__(self, merge: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self._merge = merge
        self._parts: list[pa.RecordBatch] = []
        self._rows = self._kept = 0
        self._merged = True

    def __len__(self) -> int:
        return self._rows

    def add(self, batch: pa.RecordBatch, merged: bool = False) -> None:
        """Add rows; ``merged``: they are the result of a merge."""
        self._merged = merged and not self._parts
        self._parts.append(batch)
        self._rows += batch.num_rows
        if self._rows > max(_FEWEST, 2 * self._kept):
            self.whole()

    def whole(self) -> pa.RecordBatch:
        """Return all rows, merged; there are some."""
        if not self._merged:
            self.replace(self._merge(joined(self._parts)))
        return self._parts[0]

    def replace(self, batch: pa.RecordBatch) -> None:
        """Let merged rows take the place of all."""
        self._parts, self._merged = [batch], True
        self._rows = self._kept = batch.num_rows


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema as one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
