"""Parts of texts, found for a whole block: slices, what is between separators, what is before or after a text.

A part is where it begins and where it ends among the bytes of the block. UTF-8 tells the beginning of a letter from its
inside, so separators are found as bytes; letters are counted as bytes only where all of them are ASCII.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funken.columnar.expressions import Constant, Expression, Rowwise
from funken.columnar.kernels.arithmetic import FallBackToRows
from funken.columnar.kernels.arrow import pa, pc
from funken.columnar.kernels.columns import Array, Column
from funken.columnar.kernels.text import is_ascii, parts_of, places_of, split_by_spaces
from funken.expr.types import INT, STR


def cut_texts(array: Any, starts: Array, stops: Array) -> Any:
    """Return the bytes of each value from one place to another, which are places in the buffer of the array.

    >>> cut_texts(pa.array(["abc", "de"]), np.array([1, 3]), np.array([3, 4])).to_pylist()
    ['bc', 'd']
    """
    # Hot: every other value of an array whose offsets are the starts and the stops in turn, 6 ns a value; Arrow's slices, which
    # have to be alike for all values, take 10 to 20.
    count = len(array)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2], offsets[1::2] = starts, stops
    offsets[-1] = offsets[-2] if count else 0
    content = array.buffers()[2]
    both = pa.StringArray.from_buffers(
        2 * count, pa.py_buffer(offsets), pa.py_buffer(b"") if content is None else content
    )
    return both.take(pa.array(np.arange(0, 2 * count, 2)))


class Separated:
    """Where a text, which is not empty, comes in the values of an array, and what is between.

    >>> parts = Separated(pa.array(["a,b,c", "d,e"]), ",")
    >>> parts.counts.tolist(), parts.part(1).to_pylist(), parts.part(-1).to_pylist()
    ([2, 1], ['b', 'e'], ['c', 'e'])
    """

    def __init__(self, array: Any, text: str) -> None:
        self._array = array
        self._width = len(text.encode())
        self._offsets = parts_of(array)[0].astype(np.int64)
        places = places_of(array, text)
        at = np.searchsorted(places, self._offsets)
        self._firsts, self._ends = at[:-1], at[1:]
        # An index beyond the last place is looked up too, for values that have none; its value is not used.
        self._places = np.append(places, self._offsets[-1])
        self.counts = self._ends - self._firsts

    def part(self, number: int, most: int | None = None, backwards: bool = False) -> Any:
        """Return a part of each value; raises ``FallBackToRows`` where one has not so many.

        ``most`` is how many separators count: the first ones, or the last ones if ``backwards``.
        """
        counts = self.counts if most is None else np.minimum(self.counts, most)
        firsts = self._ends - counts if backwards else self._firsts
        before, after, places = self._offsets[:-1], self._offsets[1:], self._places
        needed = number if number >= 0 else -number - 1
        if needed and len(counts) and int(counts.min()) < needed:
            raise FallBackToRows("an item that a list has not")
        if number >= 0:
            starts = places[firsts + (number - 1)] + self._width if number else before
            stops = np.where(counts == number, after, places[firsts + number])
        else:
            lasts = firsts + counts
            stops = places[lasts - needed] if needed else after
            starts = np.where(counts == needed, before, places[lasts - (needed + 1)] + self._width)
        return cut_texts(self._array, starts, stops)

    def after(self) -> Any:
        """Return what comes after the first of them; nothing where there is none."""
        stops = self._offsets[1:]
        starts = np.where(self.counts > 0, self._places[self._firsts] + self._width, stops)
        return cut_texts(self._array, starts, stops)

    def last(self) -> Array:
        """Return how many bytes come before the last of them, -1 where there is none."""
        return np.where(self.counts > 0, self._places[self._ends - 1] - self._offsets[:-1], -1)


def overlaps_itself(text: str) -> bool:
    """Whether a text may begin within itself, so that its places are not those at which ``split`` cuts.

    >>> overlaps_itself("aa"), overlaps_itself("aba"), overlaps_itself(", ")
    (True, True, False)
    """
    return any(text.startswith(text[cut:]) for cut in range(1, len(text)))


# ---- forms: ``None`` where the result may not be Python's


def sliced(text: Column, start: Column, stop: Column, step: Column) -> Column | None:
    """Return ``text[start:stop]``."""
    if not (_are_letters(text) and start.constant and stop.constant and step.constant and step.data in (None, 1)):
        return None
    offsets = parts_of(text.data)[0]
    begins = _bound(offsets, 0 if start.data is None else start.data)
    ends = offsets[1:] if stop.data is None else _bound(offsets, stop.data)
    return Column(STR, cut_texts(text.data, begins, np.maximum(begins, ends)))


def _bound(offsets: Array, at: int) -> Array:
    lows, highs = offsets[:-1], offsets[1:]
    at = max(-(2**30), min(at, 2**30))  # no text is longer
    return np.minimum(lows.astype(np.int64) + at, highs) if at >= 0 else np.maximum(highs.astype(np.int64) + at, lows)


def lettered(text: Column, index: Column) -> Column | None:
    """Return ``text[index]``."""
    if not (_are_letters(text) and index.constant and type(index.data) is int):
        return None
    offsets = parts_of(text.data)[0].astype(np.int64)
    at = index.data
    if len(text.data) and int(np.diff(offsets).min()) < (at + 1 if at >= 0 else -at):
        raise FallBackToRows("an item that a text has not")
    begins = offsets[:-1] + at if at >= 0 else offsets[1:] + at
    return Column(STR, cut_texts(text.data, begins, begins + 1))


def _without(end: str, text: Column, part: Column) -> Column | None:
    """Return a text without a part at its ``start`` or its ``end``."""
    if text.constant or not part.constant or not part.data:
        return None
    offsets, width = parts_of(text.data)[0], len(part.data.encode())
    test = pc.starts_with if end == "start" else pc.ends_with
    cut = test(text.data, pattern=part.data).to_numpy(zero_copy_only=False) * np.int32(width)
    if end == "start":
        return Column(STR, cut_texts(text.data, offsets[:-1] + cut, offsets[1:]))
    return Column(STR, cut_texts(text.data, offsets[:-1], offsets[1:] - cut))


def without_prefix(text: Column, part: Column) -> Column | None:
    """Return ``text.removeprefix(part)``."""
    return _without("start", text, part)


def without_suffix(text: Column, part: Column) -> Column | None:
    """Return ``text.removesuffix(part)``."""
    return _without("end", text, part)


def code_of(letter: Column) -> Column | None:
    """Return the number of a letter."""
    if not _are_letters(letter):
        return None
    offsets, content = parts_of(letter.data)
    if bool((np.diff(offsets) != 1).any()):
        return None
    return Column(INT, content[offsets[0] : offsets[-1]].astype(np.int64), False, 0, 127)


def _are_letters(text: Column) -> bool:
    return text.kind == STR and not text.constant and is_ascii(text.data)


# ---- what is taken of texts that are split, without the lists


_ColumnOf = Callable[[Expression], Column]


class Splits:
    """The texts of one block that are split: by one separator, in several places of a function, they are looked through once."""

    def __init__(self) -> None:
        self._separated: dict[tuple[int, str], Separated] = {}
        self._words: dict[int, tuple[Any, Array] | None] = {}

    def of(self, expression: Rowwise, column_of: _ColumnOf) -> Column | None:
        """Compute what is taken of a text that is split; ``None`` if it is not taken here.

        ``column_of`` computes an argument. It is not kept: it belongs to the evaluation that these are a part of, and only the
        cyclic collector would free the two, and the block.
        """
        match expression:
            case Rowwise("item", (Rowwise("str.split" | "str.rsplit") as split, Constant(int(number)))):
                return self._part(split, number, None, column_of)
            case Rowwise("len", (Rowwise("str.split" | "str.rsplit") as split,)):
                counts = self._counts(split, column_of)
                return None if counts is None else Column(INT, counts)
            case Rowwise("str.partition.0" | "str.partition.1" | "str.partition.2", (text, Constant(str(separator)))):
                separated = self._separate(text, separator, column_of)
                return (
                    None if separated is None else self._partitioned(int(expression.function[-1]), separated, separator)
                )
            case Rowwise("unpack", (Rowwise("str.split" | "str.rsplit") as split, Constant(count), Constant(place))):
                return self._part(split, place, count, column_of)
        return None

    def _part(self, split: Rowwise, number: int, of: int | None, column_of: _ColumnOf) -> Column | None:
        if of is not None:
            counts = self._counts(split, column_of)
            if counts is None:
                return None
            if bool((counts != of).any()):
                raise FallBackToRows("a list of another length to unpack")
        match split.arguments:
            case (text,):
                return self._word(text, number, column_of)
            case (text, Constant(str(separator)), *most):
                limit = _limit(most)
                separated = self._separate(text, separator, column_of)
                backwards = split.function == "str.rsplit"
                if separated is None or limit == -1 or (overlaps_itself(separator) and (limit != 1 or backwards)):
                    return None
                return Column(STR, separated.part(number, limit, backwards))
        return None

    def _counts(self, split: Rowwise, column_of: _ColumnOf) -> Array | None:
        """Return how many parts texts have."""
        match split.arguments:
            case (text,):
                words = self._words_of(text, column_of)
                return None if words is None else words[1]
            case (text, Constant(str(separator)), *most):
                limit = _limit(most)
                separated = self._separate(text, separator, column_of)
                if separated is None or (limit != 1 and overlaps_itself(separator)) or limit == -1:
                    return None
                return (separated.counts if limit is None else np.minimum(separated.counts, limit)) + 1
        return None

    def _separate(self, text: Expression, separator: str, column_of: _ColumnOf) -> Separated | None:
        column = column_of(text)
        if column.kind != STR or column.constant or not separator:
            return None
        key = id(text), separator
        if key not in self._separated:
            self._separated[key] = Separated(column.data, separator)
        return self._separated[key]

    @staticmethod
    def _partitioned(number: int, separated: Separated, separator: str) -> Column:
        if number == 0:
            return Column(STR, separated.part(0, 1))
        if number == 2:
            return Column(STR, separated.after())
        found = (separated.counts > 0).astype(np.int64)
        return Column(STR, pa.array(["", separator], pa.string()).take(pa.array(found)))

    def _word(self, text: Expression, number: int, column_of: _ColumnOf) -> Column | None:
        words = self._words_of(text, column_of)
        if words is None:
            return None
        texts, counts = words
        if int(counts.min()) < (number + 1 if number >= 0 else -number):
            raise FallBackToRows("an item that a list has not")
        ends = np.cumsum(counts)
        places = ends - counts + number if number >= 0 else ends + number
        return Column(STR, texts.take(pa.array(places)))

    def _words_of(self, text: Expression, column_of: _ColumnOf) -> tuple[Any, Array] | None:
        column = column_of(text)
        if column.kind != STR or column.constant:
            return None
        if id(text) not in self._words:
            self._words[id(text)] = split_by_spaces(column.data)
        return self._words[id(text)]


def _limit(most: list[Expression]) -> int | None:
    """Return how often a text is split at most; ``None``: always; -1: that is not known."""
    if not most:
        return None
    value = most[0].value if isinstance(most[0], Constant) else None
    if type(value) is not int or value == 0:
        return -1
    return None if value < 0 else value


__all__ = [
    "Separated", "Splits", "code_of", "cut_texts", "lettered", "overlaps_itself", "sliced", "without_prefix", "without_suffix",
]  # fmt: skip
