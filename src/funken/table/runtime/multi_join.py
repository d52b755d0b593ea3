"""Joins of several relations by a key that they all have: one operator, with the rows of each relation and nothing between them.

The relations are joined from left to right, INNER or LEFT. A row that comes changes the combinations that it is part of: those of
the relations before it are its *prefixes*, and each is extended by the relations behind it. A prefix of a LEFT join that had no
partner is taken back with its NULLs when the first comes, and comes again when the last goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import eq
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Groups, JoinIndex, Partners, running_sum
from funken.expr.ir import Node
from funken.operators.base import OperatorContext, Output
from funken.table.logical import JoinType
from funken.table.runtime.block import DELETE, INSERT, BlockSchema, TableBlock, plain_values
from funken.table.runtime.exchange import hashable
from funken.table.runtime.join_rows import JoinRows, KeepsSides
from funken.table.runtime.joins import additions, columns_of, padded_columns
from funken.table.runtime.keyed_blocks import KeyedRows, codes_of
from funken.table.runtime.stateless import Expressions

Array = Any
Pair = tuple[int, int]
"""Equal columns: one of the prefix, one of the relation."""
Columns = list[pa.Array]
_PAIRS = 1 << 14
"""About so many pairs are computed at a time."""


class MultiJoin(KeepsSides):
    """Combinations of the rows of several relations with an equal key.

    ``schemas``, ``keys``, ``unique`` (a unique key or ``None``) and ``ttls`` are those of the relations; ``kinds``, ``pairs`` and
    ``conditions`` those of the joins, from the second relation on. Conditions are over the columns of all relations so far.
    """

    def __init__(
        self,
        schemas: Sequence[BlockSchema],
        keys: Sequence[Sequence[int]],
        kinds: Sequence[JoinType],
        pairs: Sequence[Sequence[Pair]],
        conditions: Sequence[Node | None],
        unique: Sequence[Sequence[int] | None],
        ttls: Sequence[int],
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self._schemas, self._keys, self._kinds = list(schemas), keys, (JoinType.INNER, *kinds)
        self._pairs, self._conditions = ((), *pairs), (None, *conditions)
        self._unique, self._ttls, self._parameters = unique, ttls, parameters or {}
        self._count = len(schemas)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Declare the state of each relation; blocks of all relations come by one input."""
        super().setup(context, output)
        self.inputs = tuple(self._schemas)
        self._rows: list[JoinRows] = []
        for place, ttl in enumerate(self._ttls):
            rows = JoinRows(self._schemas[place], self._keys[place], self._unique[place], False, ttl, numbered=False)
            self._rows.append(self.keep_side(f"input{place}", rows, self._schemas[place], ttl))

    def open(self) -> None:
        """Open the state of each relation."""
        self.open_kept()
        self._unknown = self.context.metrics.counter("numRetractionsOfUnknownRows")
        self._masks: list[tuple[Expressions, BlockSchema] | None] = []
        types: list[Any] = []
        for schema, condition in zip(self._schemas, self._conditions, strict=True):
            types += schema.types
            both = BlockSchema([f"c{place}" for place in range(len(types))], types)
            kept = None if condition is None else Expressions([condition], self, self._parameters)
            self._masks.append(None if kept is None else (kept, both))

    def process_block(self, block: Any) -> None:
        """Find out which relation a block is of, and handle its rows."""
        name = block.schema.names[0] if isinstance(block, TableBlock) else block.rows()[0][0]._fields[0]
        index = int(name.partition(":")[0])
        if not isinstance(block, TableBlock):
            block = self._schemas[index].of_rows(block.rows()[0])
        if len(block):
            self.let_expire()
            self._whole(block, index)
        self.flush()

    def _whole(self, block: TableBlock, index: int) -> None:
        batch = pa.RecordBatch.from_arrays(block.batch.columns, schema=self._schemas[index].arrow)
        keyed, adds = KeyedRows(batch, self._keys[index]), additions(block)
        groups: Array = keyed.groups.of_records()
        for place in self._keys[index]:
            if batch.column(place).null_count:  # it equals nothing
                groups = np.where(batch.column(place).is_null().to_numpy(zero_copy_only=False), -1, groups)
        outer = index > 0 and self._kinds[index] is JoinType.LEFT
        self._found = [rows.find(keyed) if place != index or outer else None for place, rows in enumerate(self._rows)]
        rows, of_prefix, prefixes, before = np.arange(len(block)), np.arange(len(block)), list[pa.Array](), None
        if index:
            owner: Array = np.arange(len(keyed.groups.slots))
            for depth in range(index):
                at, prefixes = self._extended(owner, prefixes, depth)
                owner = owner.take(at)
            own = partial(columns_of, batch)
            parts = [(rows[:0], rows[:0])]
            for probed, places in JoinIndex(owner).find(groups).pairs(_PAIRS):
                fit = self._fitting(taken(prefixes, places), own(probed), index)
                parts.append((probed.take(fit), places.take(fit)))
            rows, of_prefix = (np.concatenate(each) for each in zip(*parts, strict=True))
            if outer:
                before = np.bincount(self._partners(owner, prefixes, index)[0], minlength=len(owner))
        unknown = self._rows[index].change(keyed, batch, adds, None)
        if unknown:
            self._unknown.inc(len(unknown))
            self.context.warn("unknown retraction", "a row was taken back that a join does not have; it is ignored.")
            left = ~np.isin(rows, unknown)
            rows, of_prefix = rows[left], of_prefix[left]
        comes = np.ones(len(rows), np.bool_) if adds is None else adds.take(rows)
        alone = np.zeros(len(rows), np.bool_)
        if before is not None and len(rows):
            alone = self._alone(of_prefix, comes, before)
        kinds = np.zeros(len(block), np.int8) if block.kinds is None else block.kinds
        # of each combination: the pad that goes before it, itself, the pad that comes behind it
        which = np.flatnonzero(np.stack((alone & comes, np.ones_like(alone), alone & ~comes), 1).ravel())
        for begin in range(0, len(which), _PAIRS):
            some, part = which[begin : begin + _PAIRS] // 3, which[begin : begin + _PAIRS] % 3
            mine = rows.take(some)
            marks = np.where((alone & comes).take(some), INSERT, kinds.take(mine))
            marks = np.where(part == 1, marks, np.where(part == 0, DELETE, INSERT))
            columns = taken(prefixes, of_prefix.take(some))
            columns += padded_columns(partial(columns_of, batch), np.where(part == 1, mine, -1))
            self._emit(groups.take(mine), columns, marks, index)

    @staticmethod
    def _alone(of_prefix: Array, comes: Array, before: Array) -> Array:
        """Say which rows are the first or the last partner of their prefix, that had so many ``before``."""
        groups = Groups(of_prefix, len(before))
        changes = np.where(comes, 1, -1).take(groups.order)
        changes[groups.begins] += before.take(groups.slots)
        return groups.back(running_sum(changes, groups)) == comes

    def _emit(self, owner: Array, columns: Columns, kinds: Array, index: int) -> None:
        """Emit prefixes with the rows of the relations behind them; ``owner`` has the numbers of their keys, -1: of none."""
        for depth in range(index + 1, len(self._rows)):
            at, columns = self._extended(owner, columns, depth)
            owner, kinds = owner.take(at), kinds.take(at)
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
        self.emit(TableBlock(batch, kinds.astype(np.int8) if kinds.any() else None))

    def _extended(self, owner: Array, columns: Columns, depth: int) -> tuple[Array, Columns]:
        """Return prefixes with the rows of the next relation, and which prefix each has."""
        at, places = self._partners(owner, columns, depth)
        if depth and self._kinds[depth] is JoinType.LEFT:
            alone = np.ones(len(owner), np.bool_)
            alone[at] = False
            at = np.concatenate((at, np.flatnonzero(alone)))
            order = np.argsort(at, kind="stable")
            places = np.append(places, np.full(len(at) - len(places), -1)).take(order)
            at = at.take(order)
        return at, taken(columns, at) + padded_columns(self._rows[depth].columns, places)

    def _partners(self, owner: Array, columns: Columns, depth: int) -> tuple[Array, Array]:
        """Return which prefixes meet which rows of the next relation."""
        found = self._found[depth]
        assert found is not None
        ends = np.append(np.cumsum(found[0]), 0)  # who has no key has the last of them
        firsts = ends - np.append(found[0], 0)
        parts = [(ends[:0], ends[:0])]
        for at, places in Partners(found[1], firsts.take(owner), ends.take(owner)).pairs(_PAIRS):
            fit = self._fitting(taken(columns, at), self._rows[depth].columns(places), depth)
            parts.append((at.take(fit), places.take(fit)))
        rows, places = (np.concatenate(each) for each in zip(*parts, strict=True))
        return rows, places

    def _fitting(self, prefixes: Columns, rows: Columns, depth: int) -> Array:
        """Return which prefixes and rows fulfil what a join says beside the key."""
        count = len(rows[0])
        fit = np.ones(count, np.bool_)
        for left, right in ((prefixes[left], rows[right]) for left, right in self._pairs[depth]):
            if left.type == right.type:
                codes, _ = codes_of(pa.concat_arrays([left, right]))
                equal = codes[:count] == codes[count:]
            else:
                values = (map(hashable, plain_values(column)) for column in (left, right))
                equal = np.fromiter(map(eq, *values), np.bool_, count)
            fit &= equal & left.is_valid().to_numpy(zero_copy_only=False)
        masked = self._masks[depth]
        if masked is not None and count:
            kept, schema = masked
            mask = kept.mask(pa.RecordBatch.from_arrays(prefixes + rows, schema=schema.arrow))
            fit &= mask.to_numpy(zero_copy_only=False)
        return np.flatnonzero(fit)


def taken(columns: Columns, places: Array) -> Columns:
    """Return columns of some rows."""
    at = pa.array(places)
    return [column.take(at) for column in columns]
