"""Columns as bytes: narrow ints, text as its parts or as Arrow's two buffers, one value for records that are alike.

A payload begins with ``TAG``, which no pickle begins with. Bounds are included, so that they need not be computed again. In
payloads of the version before, types are texts, and the pickle follows the tag at once; unaligned checkpoints hold them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from funken.columnar.kernels.arrow import pa
from funken.columnar.kernels.columns import Array, Column, Columns, Lists, column_of, lists_with
from funken.columnar.kernels.ropes import Rope
from funken.columnar.kernels.text import parts_of
from funken.columnar.kernels.times import Times
from funken.columnar.keyed import saved_types
from funken.columnar.keyed.groups import Partials
from funken.expr.types import (
    ARRAYS,
    BOOL,
    FLOAT,
    HIGHEST,
    INT,
    LOWEST,
    NONE,
    NUMBER,
    STR,
    Atomic,
    Composite,
    ListOf,
    Tuple,
    Type,
)
from funken.io.shapes import dumps

TAG = 0xC0
_VERSION, _PICKLE = 1, 0x80
_TAG = bytes([TAG, _VERSION])
_NARROW = [(np.dtype(kind), int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in ("i1", "i2", "i4")]


def encode_block(block: Columns, write: Callable[..., bytes] = dumps) -> bytes:
    """Write a block; ``write`` pickles its parts."""
    leaves, timestamps = [_written(leaf, block.length) for leaf in block.leaves], block.timestamps
    stamps = None if timestamps is None else _narrowed(timestamps, int(timestamps.min()), int(timestamps.max()))
    folded = (
        (_narrowed(block.weights, 0, int(block.weights.max())), block.sums) if isinstance(block, Partials) else None
    )
    return _TAG + write((block.length, _coded(block.schema), leaves, stamps, folded), _unchanged)


_CODES: dict[Type, Any] = {each: code for code, each in enumerate((INT, STR, FLOAT, BOOL, NONE, NUMBER))}
_CONSTANTS = list(_CODES)
_INT, _STR = _CODES[INT], _CODES[STR]


def _coded(of: Type) -> Any:
    """Return a number for a type without parts, and a tuple of these for one of tuples: a name costs a µs to pickle."""
    if type(of) is Tuple:
        return tuple(map(_coded, of))
    return _CODES.get(of, of)


def _type_of(code: Any) -> Any:
    if type(code) is tuple:
        return Tuple(map(_type_of, code))
    return _CONSTANTS[code] if type(code) is int else code


def _unchanged(error: Exception) -> Exception:
    return error


def decode_block(payload: Any) -> Columns:
    """Read a block, ``TAG`` included."""
    data = memoryview(payload)
    if data[1] == _PICKLE:
        return _decoded(saved_types.loads(data[1:]))
    return _decoded(pickle.loads(data[2:]))


def _decoded(written: tuple[Any, ...]) -> Columns:
    length, schema, leaves, stamps, folded = written
    columns = [_read(leaf, length) for leaf in leaves]
    timestamps = None if stamps is None else _widened(stamps)
    if folded is None:
        return Columns(_type_of(schema), columns, length, timestamps)
    return Partials(_type_of(schema), columns, length, _widened(folded[0]), folded[1], timestamps)


def _written(column: Column, length: int) -> tuple[Any, ...]:
    if column.constant:
        return _coded(column.kind), None, column.data
    if column.kind == INT:
        return _INT, column.bounds(), _narrowed(column.data, *column.bounds())
    if isinstance(column, Rope) and not column.made:
        return _STR, None, [part if isinstance(part, str) else _written(part, length) for part in column.parts]
    if column.kind == STR:
        return _STR, None, _text(column.data)
    if isinstance(column, Times):
        return _coded(column.kind), None, ("T", column.zone, column.micros.tobytes())
    if isinstance(column, Lists):
        content, counts = column.content(), column.counts()
        leaves = [_written(leaf, content.length) for leaf in content.leaves] if content.length else None
        return _coded(column.kind), None, ("L", _narrowed(counts, int(counts.min()), int(counts.max())), leaves)
    if column.kind not in ARRAYS:
        return _coded(column.kind), None, ("O", 0, column.data.tolist())
    return _coded(column.kind), None, (column.data.dtype.str, 0, column.data.tobytes())


def _read(written: tuple[Any, ...], length: int) -> Column:
    kind, bounds, data = written
    kind = _type_of(kind)
    if type(data) is list:
        return Rope(tuple(part if isinstance(part, str) else _read(part, length) for part in data))
    if type(data) is not tuple:
        return Column(kind, data, True)
    if kind == STR:
        offsets, text = (pa.py_buffer(part) for part in data)
        return Column(STR, pa.StringArray.from_buffers(length, offsets, text))
    if kind == INT:
        return Column(INT, _widened(data), False, *bounds)
    if data[0] == "T":
        return Times(kind, np.frombuffer(data[2], np.int64), data[1])
    if data[0] == "L":
        return _read_lists(kind, _widened(data[1]), data[2])
    if kind not in ARRAYS:
        return Column(kind, np.fromiter(data[2], np.object_, length))
    return Column(kind, np.frombuffer(data[2], np.dtype(data[0])))


def _read_lists(kind: ListOf, counts: Array, leaves: Any) -> Column:
    if leaves is None:
        return column_of([[]] * len(counts), kind)
    length = int(counts.sum())
    return lists_with(kind.element, counts, Columns(kind.element, [_read(leaf, length) for leaf in leaves], length))


def _narrowed(numbers: Array, low: int, high: int) -> tuple[str, int, bytes]:
    """Return ints in as few bytes as their range needs, less the lowest of them."""
    span = high - low
    for kind, least, most in _NARROW:
        base = low - least  # the lowest number becomes the lowest of the narrow type: its whole range is used
        if span <= most - least and LOWEST <= base <= HIGHEST:
            return kind.str, base, (numbers - base).astype(kind).tobytes()
    return "<i8", 0, numbers.tobytes()


def _widened(written: tuple[str, int, bytes]) -> Array:
    kind, base, data = written
    numbers = np.frombuffer(data, np.dtype(kind)).astype(np.int64)
    if base:
        numbers += base
    return numbers


def _text(array: Any) -> tuple[bytes, bytes]:
    """Return offsets, from 0, and the text they point into, of an array that may be a slice of a longer one."""
    offsets, content = parts_of(array)
    first, last = int(offsets[0]), int(offsets[-1])
    return (offsets - np.int32(first)).tobytes(), content[first:last].tobytes()


__all__ = ["TAG", "decode_block", "encode_block"]


# ---- tuples of numbers, as marshal writes them

_MARSHALLED: dict[Type, tuple[bytes, str]] = {INT: (b"i", "<i4"), FLOAT: (b"g", "<f8")}
_HEAD = 5
"""Bytes of the tag and the length of a list or a tuple."""


def marshalled_numbers(data: bytes, kinds: Composite, length: int) -> list[Column] | None:
    """Return columns of a list (marshal's format 2) of ``length`` tuples of numbers, ints of 32 bits and floats; or None.

    Each value is behind a tag of its exact type, and as long as that says. So if all tags are right where they should be, from
    the first record on, nothing else was there.

    >>> from funken.expr.types import Tuple
    >>> import marshal
    >>> data = marshal.dumps([(1, 0.5), (2, 1.5)], 2)
    >>> [column.data.tolist() for column in marshalled_numbers(data, Tuple((INT, FLOAT)), 2)]
    [[1, 2], [0.5, 1.5]]
    >>> marshalled_numbers(marshal.dumps([(1, 0.5), (True, 1.5)], 2), Tuple((INT, FLOAT)), 2) is None
    True
    """
    fields = [
        field
        for place, kind in enumerate(kinds)
        for field in ((f"tag{place}", "S1"), (f"value{place}", _MARSHALLED[kind][1]))
    ]
    layout = np.dtype([("head", "S1"), ("width", "<i4"), *fields])
    if len(data) != _HEAD + layout.itemsize * length:
        return None
    found = np.frombuffer(data, layout, length, _HEAD)
    if not ((found["head"] == b"(").all() and (found["width"] == len(kinds)).all()):
        return None
    made = []
    for place, kind in enumerate(kinds):
        if not (found[f"tag{place}"] == _MARSHALLED[kind][0]).all():
            return None
        assert isinstance(kind, Atomic)
        made.append(Column(kind, found[f"value{place}"].astype(np.int64 if kind == INT else np.float64)))
    return made
