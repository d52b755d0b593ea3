"""Kernels on text that are faster than Arrow's, by looking at the bytes of a whole block at once.

An Arrow array of text is one buffer of UTF-8 and the offsets of its values. UTF-8 tells the beginning of a letter from its
inside, so a text is in another exactly if its bytes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from funken.columnar.kernels.arrow import mask_of_bits, pa, pc
from funken.columnar.kernels.columns import Array, Column, Columns
from funken.expr.types import STR

_SCANNED = 4


def parts_of(array: Any) -> tuple[Array, Array]:
    """Return the offsets of an array's values, one more than there are values, and the bytes they point into."""
    _, offsets, text = array.buffers()
    content = np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4), content


def contains(array: Any, part: str) -> Array:
    """Return where values contain a text, which is not empty.

    >>> contains(pa.array(["abc", "ab", "cab"]), "bc").tolist()
    [True, False, False]
    """
    found = np.zeros(len(array), np.bool_)
    places, owners = _found(array, part)
    if len(places):
        found[_owners(array, places) if owners is None else owners] = True
    return found


def places_of(array: Any, part: str) -> Array:
    """Return where a text, which is not empty, is in the values of an array: its places in the buffer, in ascending order.

    >>> places_of(pa.array(["abab", "b", "ab"]), "ab").tolist()
    [0, 2, 5]
    """
    return _found(array, part)[0]


def _found(array: Any, part: str) -> tuple[Array, Array | None]:
    """Return where a text begins, and in which values that is, if this had to be found out."""
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
    """Whether all letters are ASCII."""
    offsets, content = parts_of(array)
    part = content[offsets[0] : offsets[-1]]
    return not len(part) or int(part.max()) < 128


def find(how: str, array: Any, text: str) -> Array | bool:
    """Return where a text is ``in`` values, ``starts`` or ``ends`` them, or ``is`` them; one bool if that is so of all.

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
    """Return how many letters values have."""
    return pc.utf8_length(array).to_numpy(zero_copy_only=False).astype(np.int64)


def split_texts(array: Any, separator: str) -> tuple[Any, Array]:
    """Return the parts of all values between a text that is not empty, one after the other, and how many each value has.

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


__all__ = [
    "contains", "find", "is_ascii", "joined_text", "lengths", "lines_of", "parts_of", "places_in_order", "places_of",
    "split_by_spaces", "split_texts",
]  # fmt: skip
