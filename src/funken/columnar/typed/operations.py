"""Operations in expressions, once the types of their arguments are known: what the table of ``expr/python`` says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from funken.columnar.expressions import At, Binary, Constant, Expression, Invoke, Loop, Rowwise, children
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


# ---- Which expressions may raise an exception, or are costly: they are computed for the records only that come to
# them.


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


# ---- Expressions that are alike become one object: what computes them computes each object once.
#
# The same part of a function is typed again under every condition, and its expression made anew. A text would be
# searched for the condition, and again for what is below it.


_PLAIN = (int, float, bool, str, type(None))


class Sharing:
    """The expressions met so far."""

    def __init__(self) -> None:
        self._shared: dict[Any, Expression] = {}
        self._known: dict[int, tuple[Expression, Expression]] = {}

    def of(self, expression: Expression) -> Expression:
        """Return an expression, with the objects that were met before for all parts that are like them.

        >>> from funken.columnar.expressions import Argument, Binary
        >>> shared = Sharing().of(Binary("*", Binary("+", Argument(0), Constant(1)), Binary("+", Argument(0), Constant(1))))
        >>> shared.left is shared.right, Sharing().of(Binary("+", Constant(1), Constant(True)))
        (True, Binary(op='+', left=Constant(value=1), right=Constant(value=True)))
        """
        known = self._known.get(id(expression))
        if known is None:
            # The expression is kept with its replacement: another one might get its number.
            known = self._known[id(expression)] = expression, self._made(expression)
        return known[1]

    def _made(self, expression: Expression) -> Expression:
        made, key = expression, list[Any]([type(expression)])
        if isinstance(expression, Constant):
            key += _alike(expression.value)
        else:
            made = with_parts(expression, self.of)
            for value in vars(made).values():
                if isinstance(value, Expression):
                    key.append(id(value))
                elif isinstance(value, tuple) and any(isinstance(each, Expression) for each in value):
                    key.append(tuple(map(id, value)))
                else:
                    key.append((type(value), value))
        try:
            return self._shared.setdefault(tuple(key), made)
        except TypeError:  # a part that has no hash
            return made


def _alike(value: Any) -> tuple[Any, ...]:
    """Return what is equal for constants that are alike: 1, True and 1.0 are equal, and so are 0.0 and -0.0."""
    known = type(value), repr(value)
    if type(value) in _PLAIN or type(value).__hash__ is None:  # the text of a table of such values says all
        return known
    return *known, value  # that of a long regular expression does not


def with_parts(expression: Expression, of: Callable[[Expression], Expression]) -> Expression:
    """Return an expression with what a function makes of each of its parts; the same object if they stay as they are."""
    changed: dict[str, Any] = {}
    for name, value in vars(expression).items():
        if isinstance(value, Expression):
            made: Any = of(value)
            if made is not value:
                changed[name] = made
        elif isinstance(value, tuple) and any(isinstance(each, Expression) for each in value):
            made = tuple(of(each) if isinstance(each, Expression) else each for each in value)
            if any(one is not other for one, other in zip(made, value, strict=True)):
                changed[name] = made
    return replace(expression, **changed) if changed else expression


__all__ = ["Sharing", "Typed", "as_int", "binary", "may_raise", "operated", "with_parts"]
