"""Texts that are formatted: f-strings, ``"%s: %d" % (name, n)`` and ``"{}: {}".format(name, n)``, as they are traced.

Each becomes a ``Text`` of its parts, in which a value is a call of ``format`` where it has a format of its own.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence as Several

from funken.columnar.expressions import Constant, Expression, Invoke, Make, NotVectorizable, Sequence, Text, Unpacked

_CONVERSIONS = {1: "str", 2: "repr"}
_NAMED, _OTHER = {"s": 1, "r": 2}, 3
_PLACE = re.compile(r"%(?P<flags>[-+0]*)(?P<width>\d*)(?P<digits>\.\d+)?(?P<kind>[srdifFeEgGxXo%])")
INTEGER = "%d"
"""The function that makes ``%d`` of a number: it is no float from then on."""


def converted(value: Expression, conversion: int) -> Expression:
    """Return a value behind ``!s`` or ``!r``; raise ``NotVectorizable`` for ``!a``."""
    if conversion not in _CONVERSIONS:
        raise NotVectorizable("formats a value with !a")
    return Invoke(_CONVERSIONS[conversion], (value,))


def formatted(value: Expression, conversion: int, spec: Expression | None) -> Expression:
    """Return a value in an f-string."""
    if conversion:
        value = converted(value, conversion)
    if spec is not None and not isinstance(spec, Constant):
        raise NotVectorizable("formats a value in a way that is computed")
    return Text((value,)) if spec is None or not spec.value else Invoke("format", (value, spec))


def by_percent(pattern: str, given: Expression) -> Expression:
    """Return ``pattern % given``; raise ``NotVectorizable`` for what is not known in it.

    >>> from funken.columnar.expressions import Argument
    >>> by_percent("%s: %05.1f", Make((Argument(0), Argument(1)))).parts[2]
    Invoke(name='format', arguments=(Argument(argument=1, path=()), Constant(value='05.1f')))
    """
    values = list(given.items) if isinstance(given, Make) else [given]
    if any(isinstance(each, Unpacked) for each in values):
        raise NotVectorizable("formats a text with *")
    parts: list[Expression] = []
    end = 0
    for place in _PLACE.finditer(pattern):
        parts += _literal(pattern[end : place.start()])
        end = place.end()
        if place["kind"] == "%":
            parts.append(Constant("%"))
        elif not values:
            raise NotVectorizable("formats a text with too few values")
        else:
            parts.append(_in_place(place, values.pop(0)))
    parts += _literal(pattern[end:])
    if values:
        raise NotVectorizable("formats a text with too many values")
    return Text(tuple(parts))


def _literal(text: str) -> list[Expression]:
    if "%" in text:
        raise NotVectorizable(f"formats a text with {text[text.index('%') :][:6]!r}")
    return [Constant(text)] if text else []


def _in_place(place: re.Match[str], value: Expression) -> Expression:
    flags, width, digits, kind = place["flags"], place["width"], place["digits"] or "", place["kind"]
    if kind in "sr":
        if "0" in flags or "+" in flags:
            raise NotVectorizable(f"formats a text with {place[0]!r}")
        align = "<" if "-" in flags else ">"
        spec = f"{align}{width}" if width else ""
        if kind == "r" or spec or digits:
            value = Invoke("repr" if kind == "r" else "str", (value,))
        return Invoke("format", (value, Constant(spec + digits))) if spec or digits else Text((value,))
    if kind in "di":
        value, kind = Invoke(INTEGER, (value,)), "d"
        if digits:
            raise NotVectorizable(f"formats a text with {place[0]!r}")
        if not width and not flags.strip("-0"):
            return Text((value,))
    elif kind in "xXo" and digits:
        raise NotVectorizable(f"formats a text with {place[0]!r}")
    elif kind in "fFeEgG":
        digits = digits or ".6"
    left = "<" if "-" in flags and width else ""
    zero = "0" if "0" in flags and "-" not in flags and width else ""
    return Invoke("format", (value, Constant(f"{left}{'+' * ('+' in flags)}{zero}{width}{digits}{kind}")))


def by_format(pattern: str, given: Several[Expression], names: Several[str]) -> Expression:
    """Return ``pattern.format(...)``; ``names`` are those of the last values. Raise ``NotVectorizable`` for what is not known."""
    unnamed = len(given) - len(names)
    values = dict(zip([*map(str, range(unnamed)), *names], given, strict=True))
    parts: list[Expression] = []
    number, used = 0, set[str]()
    try:
        places = list(string.Formatter().parse(pattern))
    except ValueError as error:
        raise NotVectorizable(f"formats a text that is malformed: {error}") from None
    for text, name, spec, conversion in places:
        if text:
            parts.append(Constant(text))
        if name is None:
            continue
        if not name:
            name, number = str(number), number + 1  # noqa: PLW2901 - numbered as they come
        elif number and name.isdigit():
            raise NotVectorizable("formats a text that numbers some of its fields")
        if name not in values or "{" in (spec or ""):
            raise NotVectorizable(f"formats a text with the field {name!r}")
        used.add(name)
        how = _NAMED.get(conversion, _OTHER) if conversion else 0
        parts.append(formatted(values[name], how, Constant(spec or "")))
    unused = tuple(value for name, value in values.items() if name not in used)  # they are evaluated as well
    return Sequence(unused, Text(tuple(parts))) if unused else Text(tuple(parts))


__all__ = ["INTEGER", "by_format", "by_percent", "converted", "formatted"]
