"""What becomes of each column when records are reduced: known of built-in aggregations, read of plain functions.

A function is read once, and checked for each schema. Where each field of its result is the first, last, least, greatest or the
sum, one pass computes it. Any other function that can be read is computed over pairs of neighbours, round by round, as it is
associative; but not if it computes floats, whose sums would differ in the last digits.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from funken.columnar.expressions import (
    Argument,
    Binary,
    Choose,
    Expression,
    Make,
    NotVectorizable,
    Rowwise,
    schema_of_value,
)
from funken.columnar.folds import FIRST, LAST, reduce_folds
from funken.columnar.tracing import Traced, trace
from funken.dataset.columns.keys import leaf_at
from funken.dataset.plan.functions import DataSetFunction
from funken.expr.types import FLOAT, Composite, Type, atomic_fields, is_plain, types_in

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

Hows = tuple[str, ...]
"""One of first, last, sum, min, max per column."""


class ColumnReduce:
    """A function that makes one record of two, over columns; results are None where it has to be called instead.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> pairs = columns_of([("a", 1), ("b", 2), ("a", 3)], Tuple((STR, INT)))
    >>> added = ColumnReduce(DataSetFunction(lambda one, other: (one[0], one[1] + other[1])))
    >>> added.by_key(pairs, [0]).to_list(), added.of_all(pairs, ("z", 5))
    ([('a', 4), ('b', 2)], ('z', 11))
    >>> longer = ColumnReduce(DataSetFunction(lambda one, other: one if one[1] >= other[1] else other))
    >>> longer.by_key(pairs, [0]).to_list(), longer.of_all(pairs)
    ([('a', 3), ('b', 2)], ('a', 3))
    """

    def __init__(self, function: DataSetFunction) -> None:
        self._parts = getattr(function.target, "column_parts", None)
        self._target: Any = None if function.rich or function.method is not None else function.target
        self._hows: dict[Type, tuple[Traced, Hows] | None] = {}
        self._traced = _traced(self._target) if self._parts is None else None
        self._paired: dict[Type, Traced | None] = {}

    @property
    def can_be_read(self) -> bool:
        """Whether there is any use in columns."""
        return self._parts is not None or self._traced is not None

    # ---- what it does

    def _folds(self, columns: Columns) -> Hows | None:
        schema = columns.schema
        if self._parts is not None:
            return self._built_in(columns)
        if schema not in self._hows:
            self._hows[schema] = self._read(schema)
        found = self._hows[schema]
        return found[1] if found is not None and found[0].holds(self._target) else None

    def _built_in(self, columns: Columns) -> Hows | None:
        assert self._parts is not None
        chosen, last = self._parts
        hows = [LAST if last else FIRST] * len(columns.leaves)
        seen = set()
        for how, path in chosen:
            leaf = leaf_at(columns, path)
            if leaf is None or leaf in seen:
                return None  # of two aggregates of one field, the second works on the result of the first
            seen.add(leaf)
            hows[leaf] = how
        return tuple(hows)

    def _read(self, schema: Type) -> tuple[Traced, Hows] | None:
        if self._traced is None:
            return None
        try:
            traced, folds = reduce_folds(self._target, None, schema)
        except NotVectorizable:
            return None
        own = [Argument(0, path) for path, _ in atomic_fields(schema)]
        if any(fold.of != argument for fold, argument in zip(folds, own, strict=True)):
            return None
        return traced, tuple(fold.how for fold in folds)

    def _pairs(self, schema: Type) -> Expression | None:
        if self._traced is None:
            return None
        if schema not in self._paired:
            self._paired[schema] = _typed(self._traced, schema)
        found = self._paired[schema]
        return found.result if found is not None and found.holds(self._target) else None

    # ---- results

    def by_key(self, columns: Columns, keys: list[int]) -> Columns | None:
        """Return one record per key, given as columns."""
        from funken.columnar.kernels.arithmetic import FallBackToRows  # noqa: PLC0415 - loads NumPy
        from funken.columnar.keyed.relational import aggregated, can_aggregate  # noqa: PLC0415 - loads NumPy

        hows = self._folds(columns)
        try:
            if hows is not None and can_aggregate(columns, keys, hows):
                return aggregated(columns, keys, hows)
            return self._in_pairs(columns, keys)
        except FallBackToRows:
            return None

    def of_all(self, columns: Columns, so_far: Any = None) -> Any:
        """Return one record of a block, behind the one so far if there is one."""
        from funken.columnar.kernels.arithmetic import FallBackToRows  # noqa: PLC0415 - loads NumPy
        from funken.columnar.kernels.columns import columns_of, joined  # noqa: PLC0415 - loads NumPy
        from funken.columnar.keyed.relational import can_aggregate, total  # noqa: PLC0415 - loads NumPy

        if so_far is not None and schema_of_value(so_far) != columns.schema:
            return None
        hows = self._folds(columns)
        try:
            if hows is not None and can_aggregate(columns, (), hows):
                return total(columns, hows, so_far)
            if self._pairs(columns.schema) is None:
                return None
            if so_far is not None:
                columns = joined([columns_of([so_far], columns.schema), columns])
            found = self._in_pairs(columns, [])
            return None if found is None else found.to_list()[0]
        except FallBackToRows:
            return None

    def _in_pairs(self, columns: Columns, keys: list[int]) -> Columns | None:
        from funken.columnar.kernels.evaluation import computed_of  # noqa: PLC0415 - loads NumPy
        from funken.columnar.keyed.relational import reduced_in_pairs  # noqa: PLC0415 - loads NumPy

        expression = self._pairs(columns.schema)
        if expression is None:
            return None
        return reduced_in_pairs(columns, keys, lambda one, other: computed_of(expression, columns.schema, one, other))


def _traced(target: Any) -> Traced | None:
    try:
        return trace(target, None, 2)
    except NotVectorizable:
        return None


def _typed(traced: Traced, schema: Type) -> Traced | None:
    try:
        made, found = traced.typed(schema, schema)
    except NotVectorizable:
        return None
    if found != schema or not is_plain(schema):
        return None
    return None if _computes_floats(made.result, schema) else made


def _computes_floats(expression: Expression, schema: Type) -> bool:
    """Whether a float of the result is more than one of the arguments'."""
    if FLOAT not in types_in(schema):
        return False
    match expression:
        case Make(items) if isinstance(schema, Composite):
            return any(_computes_floats(item, inner) for item, inner in zip(items, schema, strict=True))
        case Choose(_, then, otherwise):
            return _computes_floats(then, schema) or _computes_floats(otherwise, schema)
    return _computes(expression)


def _computes(expression: Any) -> bool:
    """Whether an expression has more than choices among its arguments."""
    if isinstance(expression, Binary | Rowwise):
        return True
    if isinstance(expression, tuple):
        return any(map(_computes, expression))
    if not isinstance(expression, Expression):
        return False
    return any(_computes(getattr(expression, field.name)) for field in dataclasses.fields(expression))
