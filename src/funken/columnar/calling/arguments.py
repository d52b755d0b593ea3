"""What calls of some functions are given: numbers of a range, patterns, iterators, keywords."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

from funken.columnar.calling.markers import Marker
from funken.columnar.expressions import Argument, Constant, Expression, GetItem, Invoke, Make, NotVectorizable, Unpacked
from funken.expr.python.objects import is_pattern

_MOST_NUMBERS = 16
"""A loop over so many constant numbers is followed for each of them."""


def numbers_of(bounds: list[Expression]) -> Marker:
    """Return the numbers of a range; few constant ones as a display."""
    constants = [each.value for each in bounds if isinstance(each, Constant) and type(each.value) is int]
    if len(constants) == len(bounds) and (len(constants) < 3 or constants[2]):
        numbers = range(*constants)
        if len(numbers) <= _MOST_NUMBERS:
            return Marker("generator", "a range", Make(tuple(map(Constant, numbers))))
    return Marker("generator", "a range", Invoke("range", tuple(bounds)))


def pattern_of(given: Expression) -> Expression:
    """Return a regular expression as the constant that it is."""
    if isinstance(given, Constant) and type(given.value) is str:
        try:
            return Constant(re.compile(given.value))
        except re.error as error:
            raise NotVectorizable(f"uses the regular expression {given.value!r}: {error}") from error
    if isinstance(given, Constant) and is_pattern(given.value):
        return given
    raise NotVectorizable("uses a regular expression that is not constant")


def iterated(name: str, given: Any) -> Any:
    """Return an iterator of a list, or the item that is the first of it: it is taken once at most."""
    if name == "iter" and isinstance(given, Marker) and given.kind == "list" and len(given.value) == 1:
        return Marker("items", "an iterator", given.value[0])
    if name == "iter" and isinstance(given, Argument):
        return Marker("items", "an iterator", GetItem(given, 0))
    if name == "next" and isinstance(given, Marker) and given.kind == "items" and isinstance(given.value, Expression):
        found, given.value = given.value, None
        if not isinstance(found, Unpacked):
            return found
    raise NotVectorizable(f"calls {name}()")


def in_order(
    function: FunctionType, given: tuple[Expression, ...], names: tuple[str, ...], name: str
) -> tuple[Expression, ...]:
    """Return the arguments of a call in the order of the parameters."""
    if not names:
        return given
    code = function.__code__
    parameters = code.co_varnames[code.co_posonlyargcount : code.co_argcount]
    positional = len(given) - len(names)
    wanted = code.co_varnames[positional : len(given)]
    if set(wanted) != set(names) or not set(names) <= set(parameters):
        raise NotVectorizable(f"calls {name}() with keywords that leave out others")
    by_name = dict(zip(names, given[positional:], strict=True))
    return (*given[:positional], *(by_name[each] for each in wanted))


__all__ = ["in_order", "iterated", "numbers_of", "pattern_of"]
