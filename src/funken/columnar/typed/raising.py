"""Which expressions may raise an exception, or are costly: they are computed for the records only that come to them."""

from __future__ import annotations

from funken.columnar.expressions import At, Binary, Constant, Expression, Loop, Rowwise, children
from funken.expr.python.table import TABLE


def may_raise(expression: Expression, known: dict[int, bool] | None = None) -> bool:
    """Whether evaluating an expression may raise something, or calls a function for each value.

    ``known`` is what was found before, by the numbers of expressions that are kept.

    >>> from funken.columnar.expressions import Argument
    >>> quotient = Binary("//", Argument(0), Argument(1))
    >>> may_raise(quotient), may_raise(Binary("//", Argument(0), Constant(2)))
    (True, False)
    """
    return _may_raise(expression, {} if known is None else known)


def _may_raise(expression: Expression, known: dict[int, bool]) -> bool:
    found = known.get(id(expression))
    if found is None:
        match expression:
            case Rowwise() | Loop() | At() | Expression(raises=True):
                found = True
            case Binary(op, _, right) if TABLE[op].raises and not (isinstance(right, Constant) and right.value):
                found = True
            case _:
                found = any(_may_raise(each, known) for each in children(expression))
        known[id(expression)] = found
    return found


__all__ = ["may_raise"]
