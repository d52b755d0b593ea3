"""Tests of a concatenation, as tests of its parts.

A text is in ``one + other`` if it is in one of them, or begins at the end of ``one`` and goes on at the beginning of
``other``. Cut at every place where that can be, and with parts that are passed through as a whole, this gives alternatives,
each of them some tests of single parts that all have to hold. What constants and the letters of a number decide is
decided here, once for a pattern; what is left is asked of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

from funken.columnar.kernels.numbers import is_decimal, is_digits
from funken.expr.types import INT, Atomic

TextPart: TypeAlias = tuple[Atomic | str, str]
"""A part of a concatenation: ``(CONSTANT, its text)``, or ``(kind, "")`` of a column."""
TextTest: TypeAlias = tuple[int, str, str]
"""Which part, how, and the text to find there: ``in``, ``starts``, ``ends``, or ``is``."""
Alternatives: TypeAlias = tuple[frozenset[TextTest], ...]
"""One of these has to hold, and of that one everything."""

CONSTANT = "constant"
_TRUE: Alternatives = (frozenset(),)
_MOST = 12
"""More alternatives cost more than to make the text and look into it."""
_LONGEST = 128
_MOST_PIECES = 16


class _TooManyError(Exception):
    """There are too many alternatives to test."""


@lru_cache(maxsize=512)
def alternatives(how: str, pieces: tuple[TextPart, ...], text: str) -> Alternatives | None:
    """Return when ``text`` is ``in`` a concatenation, ``starts`` or ``ends`` it, or ``is`` it; ``None``: better look.

    >>> line = ((CONSTANT, "line "), (INT, ""), (CONSTANT, " of"))
    >>> alternatives("in", line, "999 ")
    (frozenset({(1, 'ends', '999')}),)
    >>> alternatives("in", line, "ine"), alternatives("starts", line, "lime")
    ((frozenset(),), ())
    """
    if len(text) > _LONGEST or len(pieces) > _MOST_PIECES:
        return None
    try:
        return _Pattern(pieces).of(how, text)
    except _TooManyError:
        return None


class _Pattern:
    """The pieces, and what was found out about the rest of the text from a piece on."""

    def __init__(self, pieces: tuple[TextPart, ...]) -> None:
        self._pieces = pieces
        self._known: dict[tuple[str, int, str], Alternatives] = {}

    def of(self, how: str, text: str) -> Alternatives:
        last = len(self._pieces) - 1
        if how != "in":
            return self._rest(how, last if how == "ends" else 0, text)
        if not text:
            return _TRUE
        return _or(found for number in range(last + 1) for found in self._beginning_in(number, text))

    def _beginning_in(self, number: int, text: str) -> Iterator[Alternatives]:
        """Return when a text begins in a piece, and ends in it or in a later one."""
        yield self._test(number, "in", text)
        for cut in range(1, len(text)):
            yield self._both(self._test(number, "ends", text[:cut]), "starts", number + 1, text[cut:])

    def _both(self, test: Alternatives, how: str, number: int, rest: str) -> Alternatives:
        """Return when a test holds, and the rest of the text is where it has to be."""
        if not test:
            return ()
        return _or((left | right,) for left in test for right in self._rest(how, number, rest))

    def _rest(self, how: str, number: int, text: str) -> Alternatives:
        """Return when the pieces from one on (``ends``: up to one) begin with a text, end with it, or are it."""
        known = self._known.get((how, number, text))
        if known is None:
            known = self._known[how, number, text] = self._found(how, number, text)
        return known

    def _found(self, how: str, number: int, text: str) -> Alternatives:
        if not 0 <= number < len(self._pieces):
            return () if text else _TRUE
        cuts = range(len(text) + 1)
        if how == "is":
            return _or(self._both(self._test(number, "is", text[:at]), how, number + 1, text[at:]) for at in cuts)
        if not text:
            return _TRUE
        whole = self._test(number, how, text)
        if how == "starts":
            passed = (self._both(self._test(number, "is", text[:at]), how, number + 1, text[at:]) for at in cuts[:-1])
        else:
            passed = (self._both(self._test(number, "is", text[at:]), how, number - 1, text[:at]) for at in cuts[1:])
        return _or([whole, *passed])

    def _test(self, number: int, how: str, text: str) -> Alternatives:
        kind, constant = self._pieces[number]
        if kind == CONSTANT:
            return _TRUE if _OF_TEXT[how](constant, text) else ()
        if not text and how != "is":
            return _TRUE
        if kind == INT and not _OF_NUMBER[how](text):
            return ()
        return (frozenset({(number, how, text)}),)


def _begins_a_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return text == "-" or is_decimal(text) or (is_digits(digits) and digits[0] != "0" and len(digits) < 19)


_OF_TEXT: dict[str, Callable[[str, str], bool]] = {
    "in": lambda text, part: part in text,
    "starts": str.startswith,
    "ends": str.endswith,
    "is": str.__eq__,
}
_OF_NUMBER: dict[str, Callable[[str], bool]] = {
    "in": lambda text: _begins_a_number(text) or (is_digits(text) and len(text) <= 19),
    "starts": _begins_a_number,
    "ends": lambda text: is_decimal(text) or (is_digits(text) and len(text) <= 19),
    "is": is_decimal,
}


def _or(found: Iterable[Alternatives]) -> Alternatives:
    """Return when one of some holds."""
    made: dict[frozenset[TextTest], None] = {}
    for each in found:
        made.update(dict.fromkeys(each))
        if frozenset() in made:
            return _TRUE
        if len(made) > _MOST:
            raise _TooManyError
    return tuple(made)


__all__ = ["CONSTANT", "Alternatives", "TextPart", "TextTest", "alternatives"]
