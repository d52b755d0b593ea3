"""Loops over lists, computed for all items of a block at once. Loads NumPy: import it late."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from funken.columnar.expressions import Expression, Listed, Loop
from funken.columnar.kernels.columns import Array, Column, Columns, Lists, column_of, joined, lists_of, lists_with
from funken.columnar.kernels.rowwise import Value, flattened, value_of
from funken.expr.types import Type, atomic_fields


class Computed(Protocol):
    """An expression over the records of a block, or over the items of their lists."""

    length: int

    def of(self, expression: Expression) -> Value:
        """Compute an expression."""
        ...

    def truth(self, value: Value) -> Column:
        """Compute whether values are true."""
        ...

    def at(self, positions: Array, items: dict[int, Value]) -> Computed:
        """Go over to some positions, each with an item of a list."""
        ...


def looped(loop: Loop, outer: Computed) -> Lists:
    """Return what a loop gives for each record."""
    column = outer.of(loop.items)
    assert isinstance(column, Column)
    lists = lists_of(column, outer.length)
    content, owners = lists.content(), np.repeat(np.arange(outer.length), lists.counts())
    inner = outer.at(owners, {loop.number: value_of(content)}) if content.length else None
    for condition in loop.conditions:
        if inner is None:
            break
        kept = _kept(inner.truth(inner.of(condition)))
        if kept is not None:
            owners = owners.take(kept)
            inner = inner.at(kept, {}) if len(kept) else None
    if inner is None:
        return _empty(loop.schema, outer.length)
    results = Columns(loop.schema, flattened(inner.of(loop.result)), inner.length)
    return lists_with(loop.schema, np.bincount(owners, minlength=outer.length), results)


def _empty(schema: Type, length: int) -> Lists:
    leaves = [column_of([], kind) for _, kind in atomic_fields(schema)]
    return lists_with(schema, np.zeros(length, np.int64), Columns(schema, leaves, 0))


def displayed(made: Listed, outer: Computed) -> Lists:
    """Return a display for each record."""
    count, length = len(made.items), outer.length
    if not count:
        return _empty(made.schema, length)
    blocks = [Columns(made.schema, flattened(outer.of(each)), length) for each in made.items]
    order = np.arange(count * length).reshape(count, length).T.ravel()
    return lists_with(made.schema, np.full(length, count), joined(blocks).take(order))


def _kept(truth: Column) -> Any:
    """Return the positions where a condition is true; ``None``: everywhere."""
    if truth.constant:
        return None if truth.data else np.empty(0, np.int64)
    return None if truth.data.all() else np.flatnonzero(truth.data)


__all__ = ["Computed", "displayed", "looped"]
