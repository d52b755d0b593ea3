"""Operations in expressions, once the types of their arguments are known: what the table of ``expr/python`` says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from funken.columnar.expressions import Binary, Constant, Expression, Invoke, Rowwise
from funken.expr.python.table import TABLE
from funken.expr.types import BOOL, INT, Atomic, Type

Typed = tuple[Expression, Type]
"""An expression as kernels compute it, and the type of its results."""


def as_int(operand: Typed) -> Typed:
    """Return bools as the ints that they are in arithmetic; anything else as it is."""
    made, schema = operand
    if schema != BOOL:
        return operand
    return (Constant(int(made.value)) if isinstance(made, Constant) else Invoke("int", (made,))), INT


def operated(name: str, found: Sequence[Typed], node: Callable[..., Expression] | None = None) -> Typed | None:
    """Return an operation of values, with bools as ints where it takes none; ``None`` if the table has no such types.

    ``node`` makes the expression of one that is computed on arrays without a call.

    >>> from funken.expr.types import FLOAT
    >>> operated("abs", [(Constant(-1.5), FLOAT)])
    (Invoke(name='abs', arguments=(Constant(value=-1.5),)), float)
    """
    row = TABLE.find(name)
    if row is None:
        return None
    made, types = tuple(each for each, _ in found), tuple(schema for _, schema in found)
    if types[0] in row.keeps and len(types) == 1:
        return found[0]
    kind = row.native.get(types)
    if kind is not None and (row.native_with is None or isinstance(made[row.native_with], Constant)):
        return (Invoke(name, made) if node is None else node(*made)), kind
    kind = row.result(types)
    if isinstance(kind, Atomic):
        return Rowwise(name, made, kind), kind
    return operated(name, [as_int(each) for each in found], node) if BOOL in types else None


def binary(name: str, left: Typed, right: Typed) -> Typed | None:
    """Return an arithmetic or bitwise operation of two values; ``None`` if the table has no such types."""
    return operated(name, [left, right], lambda one, other: Binary(name, one, other))


__all__ = ["Typed", "as_int", "binary", "operated"]
