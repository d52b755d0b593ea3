"""Kernels on text that are faster than Arrow's, by looking at the bytes of a whole block at once.

An Arrow array of text is one buffer of UTF-8 and the offsets of its values. UTF-8 tells the beginning of a letter from its
inside, so a text is in another exactly if its bytes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from funken.columnar.expressions import Constant, Expression, Rowwise
from funken.columnar.kernels import numbers as decimals
from funken.columnar.kernels.columns import (
    Array,
    Column,
    Columns,
    FallBackToRows,
    MadeLater,
    joined_columns,
    mask_of_bits,
    pa,
    pc,
)
from funken.columnar.kernels.numbers import Mask, both, either, is_decimal, is_digits
from funken.expr.types import BOOL, INT, STR, Atomic

_SCANNED = 4


def parts_of(array: Any) -> tuple[Array, Array]:
    """Return the offsets of an array's values, one more than there are values, and the bytes they point into."""
    _, offsets, text = array.buffers()
    content = np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4), content


def contains(array: Any, part: str) -> Array:
    """Return a mask of the values that contain a text, which is not empty.

    >>> contains(pa.array(["abc", "ab", "cab"]), "bc").tolist()
    [True, False, False]
    """
    found = np.zeros(len(array), np.bool_)
    places, owners = _found(array, part)
    if len(places):
        found[_owners(array, places) if owners is None else owners] = True
    return found


def places_of(array: Any, part: str) -> Array:
    """Return the places of a text, which is not empty, in the buffer of an array, in ascending order.

    >>> places_of(pa.array(["abab", "b", "ab"]), "ab").tolist()
    [0, 2, 5]
    """
    return _found(array, part)[0]


def _found(array: Any, part: str) -> tuple[Array, Array | None]:
    """Return the places of a text, and the values that have them, if these had to be computed."""
    pattern = part.encode()
    offsets, content = parts_of(array)
    first, last = int(offsets[0]), int(offsets[-1])
    size = last - first - len(pattern) + 1
    if size <= 0:
        return np.zeros(0, np.int64), None
    content = content[first:last]
    # Hot: a comparison of bytes is 32 of them an instruction, so four passes over the block and a look at the few places
    # left take a third of the time of Arrow's search, value by value (31 ns a line of 25 bytes).
    here = content[:size] == pattern[0]
    for index in range(1, min(_SCANNED, len(pattern))):
        here &= content[index : index + size] == pattern[index]
    places = np.flatnonzero(here)
    for index in range(_SCANNED, len(pattern)):
        places = places[content[places + index] == pattern[index]]
    places = places + first
    if len(pattern) == 1:
        return places, None
    owners = _owners(array, places)
    inside = places + len(pattern) <= offsets[owners + 1]
    return places[inside], owners[inside]


def _owners(array: Any, places: Array) -> Array:
    return np.searchsorted(parts_of(array)[0], places, side="right") - 1


def is_ascii(array: Any) -> bool:
    """Return True if all letters are ASCII."""
    offsets, content = parts_of(array)
    part = content[offsets[0] : offsets[-1]]
    return not len(part) or int(part.max()) < 128


def find(how: str, array: Any, text: str) -> Array | bool:
    """Return a mask of values that a text is ``in``, ``starts``, ``ends``, or ``is``; one bool if all are alike.

    >>> [find(how, pa.array(["abc", "bc", "ab"]), "bc").tolist() for how in ("in", "starts", "ends", "is")]
    [[True, True, False], [False, True, False], [True, True, False], [False, True, False]]
    """
    if how == "is":
        return mask_of_bits(pc.equal(array, pa.scalar(text, pa.string())))
    if not text:
        return True
    if how == "in":
        return contains(array, text)
    return mask_of_bits((pc.starts_with if how == "starts" else pc.ends_with)(array, pattern=text))


def places_in_order(array: Any) -> Array:
    """Return the place of each text in the order of the numbers of letters, which is Python's."""
    encoded = array.dictionary_encode()
    by_place = pc.sort_indices(encoded.dictionary).to_numpy()
    places = np.empty(len(by_place), np.int64)
    places[by_place] = np.arange(len(by_place))
    return places.take(encoded.indices.to_numpy(zero_copy_only=False))


def lines_of(data: bytes) -> Columns | None:
    r"""Return whole lines without their ends; ``None`` where Python's way with them has to be gone: a carriage return, no UTF-8.

    >>> lines_of("né\n\nlast".encode()).to_list(), lines_of(b"a\r\nb\n"), lines_of(b"\xff\n")
    (['né', '', 'last'], None, None)
    """
    if b"\r" in data or not _is_text(data):
        return None
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    # Without the line feeds, a line begins where the one before it has ended.
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    content = data.replace(b"\n", b"")
    texts = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets.tobytes()), pa.py_buffer(content))
    return Columns(STR, [Column(STR, texts)], len(ends))


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def lengths(array: Any) -> Array:
    """Return the number of letters of each value."""
    return pc.utf8_length(array).to_numpy(zero_copy_only=False).astype(np.int64)


def split_texts(array: Any, separator: str) -> tuple[Any, Array]:
    """Return the parts of all values between a text that is not empty, one after the other, and the number for each.

    >>> texts, counts = split_texts(pa.array(["a,b", ""]), ",")
    >>> texts.to_pylist(), counts.tolist()
    (['a', 'b', ''], [2, 1])
    """
    return _flat(pc.split_pattern(array, pattern=separator))


def split_by_spaces(array: Any) -> tuple[Any, Array] | None:
    """Return the same for white space, without empty parts; ``None`` if that of Python may be another.

    >>> texts, counts = split_by_spaces(pa.array([" to  be", "", " "]))
    >>> texts.to_pylist(), counts.tolist()
    (['to', 'be'], [2, 0, 0])
    """
    offsets, content = parts_of(array)
    part = content[offsets[0] : offsets[-1]]
    if not len(part):
        return pa.array([], pa.string()), np.zeros(len(array), np.int64)
    # Beyond ASCII there are other spaces, and of ASCII Python takes four separators for white space, C does not.
    if int(part.max()) >= 128 or bool(((part >= 0x1C) & (part < 0x20)).any()):
        return None
    texts, counts = _flat(pc.ascii_split_whitespace(array))
    empty = np.diff(parts_of(texts)[0]) == 0
    if empty.any():
        owners = np.repeat(np.arange(len(array)), counts)
        counts = counts - np.bincount(owners[empty], minlength=len(array))
        texts = texts.filter(pa.array(~empty))
    return texts, counts


def _flat(lists: Any) -> tuple[Any, Array]:
    return lists.flatten(), pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)


class _Rows(NamedTuple):
    """Values of one length each: bytes somewhere in a buffer, always as far from one to the next (0: one for all)."""

    buffer: Any
    begin: int
    step: int
    width: int

    def of(self, length: int) -> Array:
        """Return the values, each as one number of so many bytes."""
        return np.ndarray(length, f"V{self.width}", self.buffer, self.begin, (self.step,))


def joined_text(parts: Sequence[str | Column], length: int) -> Any:
    """Put parts together, value by value; a part is one text for all, a column of text, or ints for their decimals.

    >>> from funken.expr.types import INT
    >>> from funken.columnar.kernels.columns import column_of
    >>> joined_text(["n", column_of([1, 2], INT), "!", column_of(["a", "b"], STR)], 2).to_pylist()
    ['n1!a', 'n2!b']
    """
    if not length:
        return pa.array([], pa.string())
    pieces = [_rows(part) for part in parts]
    fixed = [piece for piece in pieces if piece is not None]
    if len(fixed) < len(pieces):
        arrays = [_scalar_or_array(part) for part in parts]
        return pc.binary_join_element_wise(*arrays, "") if len(arrays) > 1 else arrays[0]
    # Hot: values of one length each are rows of bytes, and NumPy copies a row as one number faster than as many: half of
    # the time of Arrow's decimals and join.
    total = sum(piece.width for piece in fixed)
    made, at = np.empty(length * total, np.uint8), 0
    for piece in fixed:
        if piece.width:
            _Rows(made, at, total, piece.width).of(length)[:] = piece.of(length)
        at += piece.width
    offsets = np.arange(length + 1, dtype=np.int32) * np.int32(total)
    return pa.StringArray.from_buffers(length, pa.py_buffer(offsets), pa.py_buffer(made))


def _scalar_or_array(part: str | Column) -> Any:
    if isinstance(part, str):
        return pa.scalar(part, pa.string())
    return part.data if part.kind == STR else pa.array(part.data).cast(pa.string())


def _rows(part: str | Column) -> _Rows | None:
    """Return a part whose values have the same number of bytes; ``None`` if they differ."""
    if isinstance(part, str):
        text = part.encode()
        return _Rows(text, 0, 0, len(text))
    if part.kind != STR:
        return _digits(part)
    offsets, content = parts_of(part.data)
    width = int(offsets[1] - offsets[0])
    alike = int(offsets[-1] - offsets[0]) == width * (len(offsets) - 1) and bool((np.diff(offsets) == width).all())
    return _Rows(content, int(offsets[0]), width, width) if alike else None


def _digits(column: Column) -> _Rows | None:
    """Return the decimals of ints that have the same number of digits, and no sign."""
    low, high = column.bounds()
    width = len(str(high))
    if low < 0 or len(str(low)) != width:
        return None
    kind = np.uint32 if high < 2**32 else np.uint64
    rest, count, fours = column.data.astype(kind), -(-width // 4), _fours()
    made = np.empty((len(rest), count), np.uint32)
    for place in reversed(range(1, count)):
        upper = rest // kind(10_000)
        made[:, place] = fours.take(rest - upper * kind(10_000), mode="clip")
        rest = upper
    made[:, 0] = fours.take(rest, mode="clip")
    return _Rows(made, 4 * count - width, 4 * count, width)


@cache
def _fours() -> Array:
    """Return the decimals of numbers of four digits."""
    return np.frombuffer("".join(f"{number:04}" for number in range(10_000)).encode(), np.uint32)


# ---- Parts of texts, found for a whole block: slices, what is between separators, what is before or after a text.
#
# A part is where it begins and where it ends among the bytes of the block. UTF-8 tells the beginning of a letter
# from its inside, so separators are found as bytes; letters are counted as bytes only where all of them are ASCII.


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
    """The places of a text, which is not empty, in the values of an array, and the parts between them.

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
        """Return the text after the first of them; nothing where there is none."""
        stops = self._offsets[1:]
        starts = np.where(self.counts > 0, self._places[self._firsts] + self._width, stops)
        return cut_texts(self._array, starts, stops)

    def last(self) -> Array:
        """Return the number of bytes before the last of them, -1 where there is none."""
        return np.where(self.counts > 0, self._places[self._ends - 1] - self._offsets[:-1], -1)


def overlaps_itself(text: str) -> bool:
    """Return True if a text may begin within itself, so that its places are not those at which ``split`` cuts.

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
        """Compute a part of a text that is split; ``None`` if it is not taken here.

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
        """Return the number of parts of each text."""
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
    """Return the highest number of splits of a text; ``None``: no limit; -1: it is not known."""
    if not most:
        return None
    value = most[0].value if isinstance(most[0], Constant) else None
    if type(value) is not int or value == 0:
        return -1
    return None if value < 0 else value


# ---- Tests of a concatenation, as tests of its parts.
#
# A text is in ``one + other`` if it is in one of them, or begins at the end of ``one`` and goes on at the beginning
# of ``other``. Cut at every place where that can be, and with parts that are passed through as a whole, this gives
# alternatives, each of them some tests of single parts that all have to hold. What constants and the letters of a
# number decide is decided here, once for a pattern; what is left is asked of the records.


TextPart: TypeAlias = tuple[Atomic | str, str]
"""A part of a concatenation: ``(CONSTANT, its text)``, or ``(kind, "")`` of a column."""
TextTest: TypeAlias = tuple[int, str, str]
"""The part, the test, and the text to find there: ``in``, ``starts``, ``ends``, or ``is``."""
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
    """Return the condition of ``text`` for a concatenation (``in``, ``starts``, ``ends``, ``is``), or ``None``.

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
    """The pieces, and the results so far for the rest of the text from a piece on."""

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
        """Return the condition for a text that begins in a piece, and ends in it or in a later one."""
        yield self._test(number, "in", text)
        for cut in range(1, len(text)):
            yield self._both(self._test(number, "ends", text[:cut]), "starts", number + 1, text[cut:])

    def _both(self, test: Alternatives, how: str, number: int, rest: str) -> Alternatives:
        """Return the condition for a test, and the rest of the text at its place."""
        if not test:
            return ()
        return _or((left | right,) for left in test for right in self._rest(how, number, rest))

    def _rest(self, how: str, number: int, text: str) -> Alternatives:
        """Return the condition for pieces from one on (``ends``: up to one) that begin or end with a text, or equal it."""
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
    """Return the disjunction of some conditions."""
    made: dict[frozenset[TextTest], None] = {}
    for each in found:
        made.update(dict.fromkeys(each))
        if frozenset() in made:
            return _TRUE
        if len(made) > _MOST:
            raise _TooManyError
    return tuple(made)


# ---- Text that is not made before its bytes are needed: a concatenation stays the list of its parts.
#
# A ``Rope`` is a column like others: reading its ``data`` makes the text, once. What the parts can answer is
# computed of them: whether a text is in it, begins or ends it, or equals it, how long it is, and which of its
# records are kept. Making the text cannot fail (``concatenated`` has checked that it fits), so it does not matter
# when it is made.


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
        """The parts of the text, without the values."""
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
        """Return a mask of values that a text is ``in``, ``starts``, ``ends``, or ``is``; ``None``: look for it."""
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
        """Return the number of letters of each value; one number if they are alike."""
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
    """Return an upper bound of the bytes of a text of parts."""
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
    """Compute the number of letters of each text."""
    found = text.lengths() if isinstance(text, Rope) and not text.made else lengths(text.data)
    return Column(INT, found, True) if isinstance(found, int) else Column(INT, found)


TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "in": lambda text, part: part in text,
    "starts": str.startswith,
    "ends": str.endswith,
}
"""The tests of two texts."""
