"""Operators of bounded queries over rows that are only inserted: they hold their input, and give each result once, at its end.

Groups hold accumulators, joins both sides, sorts and ranks the rows that may be among the result; all of it in columns where the
functions allow it. Snapshots have the form of the operators of streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Groups, Partners
from funken.expr.ir import input_refs
from funken.operators.base import OperatorContext, Output
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.state.descriptors import StateKind
from funken.table.logical import AggregateCall, JoinType, SortKey
from funken.table.runtime.aggregates import AggregateCalls, PartialCalls, RowRuns, joined
from funken.table.runtime.block import BlockSchema, TableBlock
from funken.table.runtime.exchange import key_tuples
from funken.table.runtime.join_rows import JoinRows
from funken.table.runtime.joins import JoinBase, padded_columns
from funken.table.runtime.keyed_blocks import KeyedRows, codes_of, dense, joint_codes, places_of, sort_key
from funken.table.runtime.operator import KeyedTableOperator
from funken.table.runtime.stateless import Expressions

Array = Any
Tuple = tuple[Any, ...]
_MANY = 1 << 16
"""So many rows are waited for before they are added up, and are emitted at a time."""


# ---- groups


class GroupedBatch:
    """An ``OperatorTable`` of groups whose accumulators are columns, behind those of the keys."""

    def __init__(self, keys: Sequence[int], calls: Sequence[AggregateCall], schema: BlockSchema) -> None:
        self._keys, self._calls = keys, PartialCalls(calls, schema)
        names, types = ([each[place] for place in keys] for each in (schema.names, schema.types))
        self._schema = BlockSchema(names, types)
        self._runs = RowRuns(self._merged)
        self._given: list[pa.RecordBatch] = []
        self._rows = 0

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a block."""
        self._given.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _MANY:
            self._settle()

    def _settle(self) -> None:
        if self._given:
            batch, self._given, self._rows = joined(self._given), [], 0
            rows = KeyedRows(batch, self._keys)
            self._runs.add(self._of_groups(batch, rows, self._keys, self._calls.of_rows(batch, rows.groups, None)))

    def _merged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        width = len(self._keys)
        rows = KeyedRows(batch, range(width))
        return self._of_groups(batch, rows, range(width), self._calls.together(batch.columns[width:], rows.groups))

    @staticmethod
    def _of_groups(
        batch: pa.RecordBatch, rows: KeyedRows, keys: Sequence[int], found: list[pa.Array]
    ) -> pa.RecordBatch:
        first = pa.array(rows.firsts)
        columns = [*(batch.column(place).take(first) for place in keys), *found]
        return pa.RecordBatch.from_arrays(columns, [str(place) for place in range(len(columns))])

    def results(self) -> list[pa.Array]:
        """Return keys and results; none, if there are no groups."""
        self._settle()
        if not len(self._runs):
            return []
        batch, width = self._runs.whole(), len(self._keys)
        return [*batch.columns[:width], *self._calls.results(batch.columns[width:])]

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of all groups."""
        self._settle()
        return TableSnapshot(self._written(self._runs.whole() if len(self._runs) else None), iter(()))

    def _written(self, batch: pa.RecordBatch | None) -> Iterator[StateRow]:
        if batch is not None:
            width = len(self._keys)
            keys = key_tuples(batch, range(width))
            for key, stored in zip(keys, self._calls.stored(batch.columns[width:]), strict=True):
                yield key, None, stored

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add groups of a snapshot."""
        found = [(key, stored) for key, _, stored in rows]
        if found:
            keys = self._schema.batch([key for key, _ in found]) if self._keys else None
            columns = [*([] if keys is None else keys.columns), *self._calls.loaded([stored for _, stored in found])]
            self._runs.add(pa.RecordBatch.from_arrays(columns, [str(place) for place in range(len(columns))]))


class GroupedRowsOfBatch:
    """An ``OperatorTable`` of groups whose accumulators are objects."""

    def __init__(self) -> None:
        self.groups: dict[Tuple, list[Any]] = {}
        """Of each key its values, how many rows there are, and accumulators."""

    def __len__(self) -> int:
        return len(self.groups)

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of all groups."""
        rows = [(key, None, (count, accumulators)) for key, (_, count, accumulators) in self.groups.items()]
        for row in rows:  # it is written later, when more rows may have come
            before_write(row)
        return TableSnapshot(iter(()), iter(()))

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add groups of a snapshot."""
        self.groups.update((key, [key, *stored]) for key, _, stored in rows)


class BatchGroupAggregate(KeyedTableOperator):
    """Results per key, each once."""

    def __init__(self, keys: Sequence[int], calls: Sequence[AggregateCall], result_of_nothing: bool = False) -> None:
        self._keys, self._calls, self._nothing = keys, calls, result_of_nothing

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Choose columns or objects."""
        super().setup(context, output)
        schema = self.inputs[0]
        self._columns: GroupedBatch | None = None
        self._objects = GroupedRowsOfBatch()
        if PartialCalls.serve(self._calls, schema, False):
            self._columns = GroupedBatch(self._keys, self._calls, schema)
        self.store.register("acc", StateKind.VALUE, self._objects if self._columns is None else self._columns)

    def open(self) -> None:
        """Open the functions."""
        self._aggregates = AggregateCalls(self._calls, self.inputs[0], self.context, False)

    def block(self, block: TableBlock) -> None:
        """Add the rows of a block."""
        if self._columns is not None:
            if len(block):
                self._columns.add(block.batch)
            return
        groups, aggregates = self._objects.groups, self._aggregates
        for key, row, _ in self.keyed_rows(block, self._keys):
            group = groups.get(key)
            if group is None:
                group = groups[key] = [tuple(row[place] for place in self._keys), 0, aggregates.create()]
            group[1] += 1
            aggregates.accumulate(group[2], row)

    def before_end(self) -> None:
        """Emit the results."""
        some = False
        if self._columns is not None:
            found = self._columns.results()
            if found:
                batch, some = pa.RecordBatch.from_arrays(found, schema=self.schema.arrow), True
                for begin in range(0, batch.num_rows, _MANY):
                    self.emit(TableBlock(batch.slice(begin, _MANY)))
        else:
            for key, _, accumulators in self._objects.groups.values():
                self.collect((*key, *self._aggregates.values(accumulators)))
                some = True
        if self._nothing and not some:
            self.collect(self._aggregates.values(self._aggregates.create()))

    def close(self) -> None:
        """Close the functions."""
        if hasattr(self, "_aggregates"):
            self._aggregates.close()


# ---- rows that are held


class RowsOfBatch:
    """An ``OperatorTable`` of rows by key, in the form of the sides of a regular join; ``merge`` may leave out rows."""

    def __init__(
        self,
        schema: BlockSchema,
        keys: Sequence[int],
        merge: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
    ) -> None:
        self._schema, self._keys = schema, keys
        self._parts: list[pa.RecordBatch] = []
        self._runs = None if merge is None else RowRuns(merge)
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        self._rows += batch.num_rows
        if self._runs is not None:
            self._runs.add(batch)
        else:
            self._parts.append(batch)

    def take(self) -> pa.Table:
        """Return all rows, which are not held any more; columns are of one chunk, unless texts are too large for that."""
        parts, self._parts, self._rows = self._all(), [], 0
        return pa.Table.from_batches(parts, self._schema.arrow).combine_chunks()

    def _all(self) -> list[pa.RecordBatch]:
        if self._runs is not None:
            return [self._runs.whole()] if len(self._runs) else []
        return self._parts

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of all rows."""
        rows = self._by_key()
        for batch in filter(len, self._all()):
            rows.add(KeyedRows(batch, self._keys), batch)
        return rows.begin_snapshot(True, before_write)

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add rows of a snapshot."""
        found = self._by_key()
        found.load(rows)
        if len(found):
            self.add(pa.RecordBatch.from_arrays(found.columns(np.arange(len(found))), schema=self._schema.arrow))

    def _by_key(self) -> JoinRows:
        return JoinRows(self._schema, self._keys, None, False)


def _taken(table: pa.Table, places: Array, read: set[int] | None = None) -> list[pa.Array]:
    """Return the columns of some rows; those that are not read are NULL."""
    at, found = pa.array(places), []
    for place, column in enumerate(table.columns):
        if read is not None and place not in read:
            found.append(pa.nulls(len(at), column.type))
        elif column.num_chunks == 1:
            found.append(column.chunk(0).take(at))
        else:
            chunks = column.take(at).combine_chunks()
            found.append(chunks if isinstance(chunks, pa.Array) else pa.concat_arrays(chunks.chunks))
    return found


# ---- joins


class BatchJoin(JoinBase):
    """Joins of two bounded inputs: rows of the larger one look up those of the smaller one, a block of pairs at a time."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Hold both sides."""
        super().setup(context, output)
        self._held = [RowsOfBatch(schema, keys) for schema, keys in zip(self.inputs, self._keys, strict=True)]
        for name, held in zip(("left", "right"), self._held, strict=True):
            self.store.register(name, StateKind.MAP, held)

    def open(self) -> None:
        """Prepare the condition."""
        super().open()
        if self._condition is not None:
            self._kept = Expressions([self._condition], self, self._parameters)
            width, read = len(self.inputs[0]), input_refs(self._condition)
            self._read = ({at for at in read if at < width}, {at - width for at in read if at >= width})

    def side(self, block: TableBlock, index: int) -> None:
        """Hold the rows of a block."""
        if len(block):
            self._held[index].add(block.batch)

    def before_end(self) -> None:
        """Join."""
        sides = [held.take() for held in self._held]
        kind = self._kind
        exists = kind in (JoinType.SEMI, JoinType.ANTI)
        met = [np.zeros(side.num_rows, np.bool_) for side in sides]
        for lefts, rights in self._pairs(sides):
            if not exists:
                self._emit([*_taken(sides[0], lefts), *_taken(sides[1], rights)])
            if exists or self.is_outer(0):
                met[0][lefts] = True
            if self.is_outer(1):
                met[1][rights] = True
        if exists:
            self._rest(sides, 0, met[0] if kind is JoinType.SEMI else ~met[0])
        for index in (0, 1):
            if not exists and self.is_outer(index):
                self._rest(sides, index, ~met[index])

    def _rest(self, sides: list[pa.Table], index: int, mask: Array) -> None:
        """Emit rows of one side, padded where the result has both."""
        places = np.flatnonzero(mask)
        for begin in range(0, len(places), _MANY):
            some = places[begin : begin + _MANY]
            columns = _taken(sides[index], some)
            if self._kind.keeps_right:
                pads = padded_columns(partial(_taken, sides[1 - index]), np.full(len(some), -1))
                columns = [*columns, *pads] if index == 0 else [*pads, *columns]
            self._emit(columns)

    def _emit(self, columns: list[pa.Array]) -> None:
        self.emit(TableBlock(pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)))

    def _pairs(self, sides: list[pa.Table]) -> Iterator[tuple[Array, Array]]:
        """Yield which rows of the left side meet which of the right one."""
        if not all(side.num_rows for side in sides):
            return
        codes, count = self._codes(sides)
        rows = [self._joinable(side, keys) for side, keys in zip(sides, self._keys, strict=True)]
        codes = [each.take(some) for each, some in zip(codes, rows, strict=True)]
        small = int(sides[1].num_rows <= sides[0].num_rows)
        numbers = codes[small]
        order = rows[small].take(np.argsort(numbers, kind="stable"))
        counts = np.bincount(numbers, minlength=count)
        ends = np.cumsum(counts)
        probing = rows[1 - small].take(np.flatnonzero(counts.take(codes[1 - small])))
        wanted = codes[1 - small].take(np.flatnonzero(counts.take(codes[1 - small])))
        if not len(wanted):
            return
        once = self._condition is None and self._kind in (JoinType.SEMI, JoinType.ANTI) and small == 1
        if once:  # which rows they meet makes no difference
            yield probing, np.empty(0, np.int64)
            return
        last = ends.take(wanted)
        for probed, places in Partners(order, last - counts.take(wanted), last).pairs(_MANY):
            pair = [probing.take(probed), places]
            lefts, rights = pair if small == 1 else pair[::-1]
            if self._kept is not None:
                both = _taken(sides[0], lefts, self._read[0]) + _taken(sides[1], rights, self._read[1])
                mask = self._kept.mask(pa.RecordBatch.from_arrays(both, schema=self._both.arrow))
                fit = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
                lefts, rights = lefts.take(fit), rights.take(fit)
            if len(lefts):
                yield lefts, rights

    def _codes(self, sides: list[pa.Table]) -> tuple[list[Array], int]:
        """Return a number per row of each side, equal for equal keys, and what all are below."""
        parts, length = [], sides[0].num_rows
        for places in zip(*self._keys, strict=True):
            columns = [side.column(place) for side, place in zip(sides, places, strict=True)]
            if columns[0].type == columns[1].type:
                parts.append(codes_of(pa.concat_arrays([chunk for column in columns for chunk in column.chunks])))
            else:
                known: dict[Any, int] = {}
                keys = [key for each in columns for key in key_tuples(_one(each), (0,))]
                parts.append((np.array([known.setdefault(key, len(known)) for key in keys], np.int64), len(known)))
        numbers, count = joint_codes(parts, length + sides[1].num_rows)
        if count > 2 * len(numbers) + _MANY:
            numbers, count = dense(numbers)
        return [numbers[:length], numbers[length:]], count

    def _joinable(self, side: pa.Table, keys: Sequence[int]) -> Array:
        """Return the rows whose keys may be equal to others."""
        there = np.ones(side.num_rows, np.bool_)
        for place in self._not_null:
            column = side.column(keys[place])
            if column.null_count:
                there &= column.is_valid().to_numpy()
        return np.flatnonzero(there)


def _one(column: pa.ChunkedArray) -> pa.RecordBatch:
    return pa.record_batch([pa.concat_arrays(column.chunks)], ["key"])


# ---- order


_IN_ORDER = frozenset(
    {
        "TINYINT", "SMALLINT", "INT", "BIGINT", "CHAR", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "DECIMAL",
    }
)  # fmt: skip
"""Types that Arrow orders as SQL does."""


class BatchRank(KeyedTableOperator):
    """The rows of the positions ``start`` to ``end`` (``None``: all) of each partition; with ``number``, and the position."""

    def __init__(
        self,
        order: Sequence[SortKey],
        partition: Sequence[int] = (),
        start: int = 1,
        end: int | None = None,
        number: bool = False,
    ) -> None:
        self._order, self._partition = order, partition
        self._start, self._end, self._number = start, end, number

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Hold the rows."""
        super().setup(context, output)
        schema = self.inputs[0]
        self._in_columns = all(schema.types[key.index].root in _IN_ORDER for key in self._order)
        merge = None if self._end is None else self._first
        self._held = RowsOfBatch(schema, self._partition, merge)
        self.store.register("rows", StateKind.MAP, self._held)

    def block(self, block: TableBlock) -> None:
        """Hold the rows of a block."""
        if len(block):
            self._held.add(block.batch)

    def _first(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that may be among the result, as they came."""
        rows, positions = self._positions(pa.Table.from_batches([batch]))
        return batch.take(pa.array(np.sort(rows[positions <= self._end])))

    def _positions(self, table: pa.Table) -> tuple[Array, Array]:
        """Return the rows by partition and order, and the position of each."""
        parts = [codes_of(pa.concat_arrays(table.column(place).chunks)) for place in self._partition]
        codes, _ = joint_codes(parts, table.num_rows)
        if self._in_columns:
            columns = [pa.concat_arrays(table.column(key.index).chunks) for key in self._order]
            by_order = places_of(columns, self._order) if columns else np.zeros(table.num_rows, np.int64)
        else:
            rows = [row for batch in table.to_batches() for row in self.inputs[0].tuples(batch)]
            key_of = sort_key(self._order)
            keys = [key_of(row) for row in rows]
            by_order = np.empty(len(rows), np.int64)
            by_order[sorted(range(len(rows)), key=keys.__getitem__)] = np.arange(len(rows))
        found = np.lexsort((by_order, codes))
        groups = Groups(codes.take(found), int(codes.max()) + 1) if self._partition else None
        positions = np.arange(1, len(found) + 1)
        if groups is not None:
            positions -= groups.spread(groups.begins)
        return found, positions

    def before_end(self) -> None:
        """Emit the rows."""
        table = self._held.take()
        if not table.num_rows:
            return
        rows, positions = self._positions(table)
        wanted = positions >= self._start
        if self._end is not None:
            wanted &= positions <= self._end
        rows, positions = rows[wanted], positions[wanted]
        for begin in range(0, len(rows), _MANY):
            columns = _taken(table, rows[begin : begin + _MANY])
            if self._number:
                type_ = self.schema.arrow.field(len(columns)).type
                columns.append(pa.array(positions[begin : begin + _MANY], pa.int64()).cast(type_))
            self.emit(TableBlock(pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)))
