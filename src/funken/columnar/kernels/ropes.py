"""Text that is not made before its bytes are needed: a concatenation stays the list of its parts.

A ``Rope`` is a column like others: reading its ``data`` makes the text, once. What the parts can answer is computed
of them: whether a text is in it, begins or ends it, or equals it, how long it is, and which of its records are kept. Making
the text cannot fail (``concatenated`` has checked that it fits), so it does not matter when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from funken.columnar.kernels import numbers as decimals
from funken.columnar.kernels.arithmetic import FallBackToRows
from funken.columnar.kernels.columns import Array, Column, MadeLater, joined_columns
from funken.columnar.kernels.numbers import Mask, both, either
from funken.columnar.kernels.patterns import CONSTANT, TextPart, TextTest, alternatives
from funken.columnar.kernels.text import find, joined_text, lengths
from funken.expr.types import BOOL, INT, STR

_MOST_BYTES = 2**30
"""Offsets of text have 32 bits."""
_MOST_DIGITS = 20
_REPEATED = 2
"""Texts are made once for each number of a range if there are so many times as many records."""


class Rope(MadeLater):
    """Text put together of parts: a ``str`` for all records, an int column for its decimals, or a column of text.

    No part is empty, no two neighbours are constant, and one part at least is a column.
    """

    __slots__ = ("made", "parts")

    def __init__(self, parts: tuple[str | Column, ...]) -> None:
        super().__init__(STR)
        self.made = False
        self.parts = parts

    def _data(self) -> Any:
        length = next(len(part.data) for part in self.parts if not isinstance(part, str))
        few = self._few(length)
        self.made = True
        return few if few is not None else joined_text(self.parts, length)

    def _few(self, length: int) -> Array | None:
        """Make the text of every number once, if these are few enough."""
        column = self.variable
        if column is None or column.kind != INT or not length:
            return None
        low, high = column.bounds()
        if high - low >= length // _REPEATED:
            return None
        # Hot: 4 ns a record; to make texts of different lengths takes 38.
        texts = self.over(Column(INT, np.arange(low, high + 1), False, low, high))
        return texts.data.take(column.data - low)

    def take(self, positions: Array) -> Column:
        """Return the values at some positions."""
        return super().take(positions) if self.made else self._each(lambda part: part.take(positions))

    def keep(self, mask: Array) -> Column:
        """Return the values where a mask is true."""
        return super().keep(mask) if self.made else self._each(lambda part: part.keep(mask))

    def cut(self, part: slice) -> Column:
        """Return a slice."""
        return super().cut(part) if self.made else self._each(lambda each: each.cut(part))

    def begin(self, columns: list[Column], lengths: list[int]) -> Column:
        """Put columns together, of which this is the first; part by part if all are made up alike."""
        ropes = [column for column in columns if isinstance(column, Rope) and column.pieces == self.pieces]
        sizes = zip(ropes, lengths, strict=False)
        if (
            len(ropes) < len(columns)
            or all(rope.made for rope in ropes)
            or sum(_size(rope.parts, length) for rope, length in sizes) > _MOST_BYTES
        ):
            return super().begin(columns, lengths)
        parts = zip(*[rope.parts for rope in ropes], strict=True)
        return Rope(
            tuple(part[0] if isinstance(part[0], str) else joined_columns(list(part), lengths) for part in parts)
        )

    @property
    def pieces(self) -> tuple[TextPart, ...]:
        """Of what the text is made up, without the values."""
        return tuple((CONSTANT, part) if isinstance(part, str) else (part.kind, "") for part in self.parts)

    @property
    def variable(self) -> Column | None:
        """The only part that is a column: equal values of it are equal texts, others are other texts. ``None``: several."""
        columns = [part for part in self.parts if not isinstance(part, str)]
        return columns[0] if len(columns) == 1 else None

    def over(self, column: Column) -> Rope:
        """Return the texts of other values of ``variable``."""
        return Rope(tuple(part if isinstance(part, str) else column for part in self.parts))

    def _each(self, change: Callable[[Column], Column]) -> Rope:
        return Rope(tuple(part if isinstance(part, str) else change(part) for part in self.parts))

    def find(self, how: str, text: str) -> Mask | None:
        """Return where a text is ``in`` the values, ``starts`` or ``ends`` them, or ``is`` them; ``None``: look for it."""
        if self.made:
            return None
        found = alternatives(how, self.pieces, text)
        if found is None:
            return None
        known: dict[TextTest, Mask] = {}
        some: Mask = False
        for tests in found:
            every: Mask = True
            for test in tests:
                if every is False:
                    break
                if test not in known:
                    known[test] = self._test(*test)
                every = both(every, known[test])
            some = either(some, every)
        return some

    def _test(self, number: int, how: str, text: str) -> Mask:
        part = self.parts[number]
        assert isinstance(part, Column)
        if part.kind == INT:
            return _OF_NUMBERS[how](part, text)
        return find(how, part.data, text)

    def lengths(self) -> Array | int:
        """Return how many letters the values have; one number if they are alike."""
        total: Array | int = 0
        for part in self.parts:
            if isinstance(part, str):
                total = total + len(part)
            else:
                total = total + (decimals.lengths(part) if part.kind == INT else lengths(part.data))
        return total


_OF_NUMBERS: dict[str, Callable[[Column, str], Mask]] = {
    "in": decimals.has,
    "starts": decimals.starts,
    "ends": decimals.ends,
    "is": decimals.equals,
}


def concatenated(columns: list[Column], length: int) -> Column:
    """Put the texts of columns of ``length`` records together, one after the other; raises ``FallBackToRows``.

    >>> import numpy as np
    >>> concatenated([Column(STR, "n", True), Column(INT, np.array([1, -2]))], 2).to_list(2)
    ['n1', 'n-2']
    """
    parts: list[str | Column] = []
    for column in columns:
        if column.constant:
            parts.append(str(column.data))
        elif isinstance(column, Rope) and not column.made:
            parts += column.parts
        else:
            parts.append(column)
    joined: list[str | Column] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    if all(isinstance(part, str) for part in joined):
        return Column(STR, "".join(str(part) for part in joined), True)
    if len(joined) == 1 and isinstance(joined[0], Column) and joined[0].kind == STR:
        return joined[0]
    if _size(joined, length) > _MOST_BYTES:
        raise FallBackToRows("text too long for one array")
    return Rope(tuple(joined))


def _size(parts: Iterable[str | Column], length: int) -> int:
    """Return how many bytes the text of parts has at most."""
    return sum(
        len(part.encode()) * length
        if isinstance(part, str)
        else _MOST_DIGITS * length
        if part.kind == INT
        else int(part.data.nbytes)
        for part in parts
    )


def find_text(how: str, text: Column, part: str) -> Column:
    """Compute where a constant is in a column of text, by the test ``how``."""
    mask = text.find(how, part) if isinstance(text, Rope) else None
    if mask is None:
        mask = find(how, text.data, part)
    return Column(BOOL, mask, True) if isinstance(mask, bool) else Column(BOOL, mask)


def length_of(text: Column) -> Column:
    """Compute how many letters texts have."""
    found = text.lengths() if isinstance(text, Rope) and not text.made else lengths(text.data)
    return Column(INT, found, True) if isinstance(found, int) else Column(INT, found)


TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "in": lambda text, part: part in text,
    "starts": str.startswith,
    "ends": str.endswith,
}
"""The tests of two texts."""

__all__ = ["TEXT_TESTS", "Rope", "concatenated", "find_text", "length_of"]
