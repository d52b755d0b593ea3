"""Many expressions over one block: what they share is computed once, also for the records that fulfil the same conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funken.columnar.expressions import Argument, Expression
from funken.columnar.kernels.columns import Array, Column, Columns, lists_of
from funken.columnar.kernels.evaluation import ExpressionEvaluation
from funken.columnar.kernels.rowwise import Value, value_of
from funken.expr.types import Atomic, Type, atomic_fields


class BlockEvaluation(ExpressionEvaluation):
    """Expressions over the one argument that a block is; leaves of it may be set before they are used."""

    def __init__(self, block: Columns) -> None:
        super().__init__(block.length, {})
        self.block = block
        self._leaves = {path: number for number, (path, _) in enumerate(atomic_fields(block.schema))}
        self._where: dict[tuple[int, ...], RecordsWhere] = {(): RecordsWhere(None, self)}

    def set(self, path: tuple[int, ...], column: Column) -> None:
        """Set a leaf."""
        self.block.leaves[self._leaves[path]] = column

    def where(self, guards: Sequence[Expression]) -> RecordsWhere:
        """Return the records for which guards hold, one after the other."""
        key: tuple[int, ...] = ()
        found = self._where[key]
        for guard in guards:
            key = (*key, id(guard))
            known = self._where.get(key)
            if known is None:
                known = self._where[key] = self._narrowed(found, guard)
            found = known
        return found

    def _narrowed(self, before: RecordsWhere, guard: Expression) -> RecordsWhere:
        if before.positions is not None and not len(before.positions):
            return before
        truth: Any = before.of(guard)
        if truth.constant:
            return before if truth.data else RecordsWhere(np.empty(0, np.int64), self)
        if truth.data.all():
            return before
        found = np.flatnonzero(truth.data)
        positions = found if before.positions is None else before.positions.take(found)
        return RecordsWhere(positions, self.at(positions))

    def _compute(self, expression: Expression) -> Value:
        if isinstance(expression, Argument) and expression.argument == 0:
            schema: Any = self.block.schema
            for index in expression.path:
                schema = schema[index]
            return self._value(expression.path, schema)
        return super()._compute(expression)

    def _value(self, path: tuple[int, ...], schema: Type) -> Value:
        if isinstance(schema, Atomic):
            return self.block.leaves[self._leaves[path]]
        return tuple(self._value((*path, index), inner) for index, inner in enumerate(schema))


class RecordsWhere:
    """Some records of a block, and expressions over them; ``positions`` is ``None``: all records."""

    __slots__ = ("_evaluation", "positions")

    def __init__(self, positions: Array | None, evaluation: ExpressionEvaluation) -> None:
        self.positions = positions
        self._evaluation = evaluation

    def of(self, expression: Expression) -> Value:
        """Compute an expression; there is one record at least."""
        with np.errstate(all="ignore"):
            return self._evaluation.of(expression)

    def items(self, items: Expression, number: int, conditions: Sequence[Expression]) -> tuple[Array, Array, Any]:
        """Go over to the items of lists, which are an argument: of which record each is, which item of it, and what computes.

        Only to those for which conditions hold, one after the other.
        """
        column: Any = self.of(items)
        lists = lists_of(column, self.length)
        counts, content = lists.counts(), lists.content()
        owners = np.repeat(np.arange(self.length), counts)
        numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        inner: Any = self._evaluation.at(owners, {number: value_of(content)})
        for condition in conditions:
            if not len(owners):
                break
            with np.errstate(all="ignore"):
                truth = inner.truth(inner.of(condition))
            if truth.constant and truth.data:
                continue
            kept = np.flatnonzero(truth.array(len(owners)))
            owners, numbers, inner = owners.take(kept), numbers.take(kept), inner.at(kept, {})
        return owners, numbers, inner

    @property
    def place(self) -> Any:
        """What takes the records out of an array."""
        return slice(None) if self.positions is None else self.positions

    @property
    def length(self) -> int:
        """How many records there are."""
        return self._evaluation.length if self.positions is None else len(self.positions)


__all__ = ["BlockEvaluation", "RecordsWhere"]
