"""Joins of several relations by a key that they all have: one operator, with the rows of each relation and nothing between them.

The relations are joined from left to right, INNER or LEFT. A row that comes changes the combinations that it is part of: those of
the relations before it are its *prefixes*, and each is extended by the relations behind it. A prefix of a LEFT join that had no
partner is taken back with its NULLs when the first comes, and comes again when the last goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from funken.expr.ir import Node
from funken.operators.base import OperatorContext, Output
from funken.table.logical import JoinType
from funken.table.runtime.block import DELETE, INSERT, BlockSchema, TableBlock
from funken.table.runtime.exchange import hashable
from funken.table.runtime.keyed_blocks import Predicate, predicate_of
from funken.table.runtime.operator import KeyedTableOperator, is_accumulate
from funken.table.runtime.stateless import Expressions

Tuple = tuple[Any, ...]
Entry = list[Any]
"""A row, and how often it is there."""
Pair = tuple[int, int]
"""Equal columns: one of the prefix, one of the relation."""


class MultiJoin(KeyedTableOperator):
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
        """Remember the surroundings; blocks of all relations come by one input."""
        super().setup(context, output)
        self.inputs = tuple(self._schemas)

    def open(self) -> None:
        """Open the state of each relation."""
        self._states = [self.map_state(f"input{place}", ttl) for place, ttl in enumerate(self._ttls)]
        self._unknown = self.context.metrics.counter("numRetractionsOfUnknownRows")
        self._pads = [(None,) * len(schema) for schema in self._schemas]
        self._predicates: list[Predicate | None] = []
        self._masks: list[tuple[Expressions, BlockSchema] | None] = []
        types: list[Any] = []
        for schema, condition in zip(self._schemas, self._conditions, strict=True):
            predicate = predicate_of(condition, len(types))
            types += schema.types
            self._predicates.append(predicate)
            if condition is None or predicate is not None:
                self._masks.append(None)
            else:
                both = BlockSchema([f"c{place}" for place in range(len(types))], types)
                self._masks.append((Expressions([condition], self, self._parameters), both))

    def process_block(self, block: Any) -> None:
        """Find out which relation a block is of, and handle its rows."""
        name = block.schema.names[0] if isinstance(block, TableBlock) else block.rows()[0][0]._fields[0]
        index = int(name.partition(":")[0])
        if not isinstance(block, TableBlock):
            block = self._schemas[index].of_rows(block.rows()[0])
        for key, row, kind in self.keyed_rows(block, self._keys[index], index):
            self.store.current_key = key
            self._row(index, row, kind, None not in key)
        self.flush()

    def _row(self, index: int, row: Tuple, kind: int, joins: bool) -> None:
        """Handle a row; ``joins``: whether its key equals others, which one with a NULL does not."""
        state, adds = self._states[index], is_accumulate(kind)
        unique = self._unique[index]
        name = hashable(row) if unique is None else hashable([row[place] for place in unique])
        before: Entry | None = state.get(name)
        if not adds:
            if before is None:
                self._unknown.inc()
                self.context.warn(
                    "unknown retraction", "a row was taken back that a join does not have; it is ignored."
                )
                return
            if before[1] > 1:
                state.put(name, [before[0], before[1] - 1])
            else:
                state.remove(name)
        self._combined(index, row, kind, joins)
        if adds:
            state.put(name, [row, 1 if before is None or unique is not None else before[1] + 1])

    def _combined(self, index: int, row: Tuple, kind: int, joins: bool) -> None:
        """Emit the combinations that come or go with a row, which its relation does not have now."""
        if index and not joins:
            return
        adds, outer = is_accumulate(kind), index > 0 and self._kinds[index] is JoinType.LEFT
        for prefix in self._combinations((), 0, index, joins):
            if index and not self._matching(index, prefix, [row])[0]:
                continue
            alone = outer and not self._partners(index, prefix, joins)
            if alone and adds:
                self._emit((*prefix, *self._pads[index]), index, DELETE, joins)
            self._emit((*prefix, *row), index, INSERT if alone and adds else kind, joins)
            if alone and not adds:
                self._emit((*prefix, *self._pads[index]), index, INSERT, joins)

    def _emit(self, prefix: Tuple, index: int, kind: int, joins: bool) -> None:
        for combination in self._combinations(prefix, index + 1, self._count, joins):
            self.collect(combination, kind)

    def _combinations(self, prefix: Tuple, depth: int, end: int, joins: bool) -> Iterator[Tuple]:
        """Yield a prefix extended by the relations from ``depth`` to ``end``."""
        if depth == end:
            yield prefix
            return
        found = self._partners(depth, prefix, joins)
        for row, count in found:
            for _ in range(count):
                yield from self._combinations((*prefix, *row), depth + 1, end, joins)
        if not found and depth and self._kinds[depth] is JoinType.LEFT:
            yield from self._combinations((*prefix, *self._pads[depth]), depth + 1, end, joins)

    def _partners(self, depth: int, prefix: Tuple, joins: bool) -> list[Entry]:
        """Return the rows of a relation that a prefix is joined with, and how often each is there."""
        if depth and not joins:
            return []
        entries: list[Entry] = list(self._states[depth].values())
        if not depth or not entries:
            return entries
        mask = self._matching(depth, prefix, [row for row, _ in entries])
        return [entry for entry, matches in zip(entries, mask, strict=True) if matches]

    def _matching(self, depth: int, prefix: Tuple, rows: Sequence[Tuple]) -> list[bool]:
        """Return which rows of a relation a prefix is joined with, beside the key."""
        pairs = self._pairs[depth]
        found = [True] * len(rows)
        if pairs:
            wanted = [hashable(prefix[left]) for left, _ in pairs]
            if None in wanted:
                return [False] * len(rows)
            found = [
                all(hashable(row[right]) == one for (_, right), one in zip(pairs, wanted, strict=True)) for row in rows
            ]
        predicate, masked = self._predicates[depth], self._masks[depth]
        if predicate is not None:
            return [is_equal and predicate(prefix, row) for is_equal, row in zip(found, rows, strict=True)]
        if masked is not None:
            expressions, schema = masked
            mask = expressions.mask(schema.batch([(*prefix, *row) for row in rows])).to_pylist()
            return [is_equal and fulfils for is_equal, fulfils in zip(found, mask, strict=True)]
        return found
