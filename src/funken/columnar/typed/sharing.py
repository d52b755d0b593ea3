"""Expressions that are alike become one object: what computes them computes each object once.

The same part of a function is typed again under every condition, and its expression made anew. A text would be searched for the
condition, and again for what is below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from funken.columnar.expressions import Constant, Expression

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


__all__ = ["Sharing", "with_parts"]
