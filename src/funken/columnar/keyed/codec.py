"""Columns as bytes: narrow ints, text as its parts or as Arrow's two buffers, one value for records that are alike.

A payload begins with ``TAG``, which no pickle begins with. Bounds are included, so that they need not be computed again. In
payloads of the version before, types are texts, and the pickle follows the tag at once; unaligned checkpoints hold them.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array, Column, Columns, Lists, column_of, lists_with, pa
from funken.columnar.kernels.text import Rope, parts_of
from funken.columnar.kernels.times import Times
from funken.columnar.keyed.groups import Partials
from funken.expr.types import (
    ARRAYS,
    BOOL,
    FLOAT,
    HIGHEST,
    INT,
    LOWEST,
    NONE,
    NOTHING,
    NUMBER,
    STR,
    Atomic,
    Composite,
    ListOf,
    Object,
    Optional,
    Record,
    Tuple,
    Type,
)
from funken.io.shapes import dumps

# ---- Types in blocks that the version before has written: texts, tuples of these, and classes of other names.


_NAMED: dict[str, Atomic] = {each.name: each for each in (INT, FLOAT, BOOL, STR, NONE, NUMBER, NOTHING)}


def load_saved(data: Any) -> Any:
    """Unpickle the parts of a block, and make types of their placeholders."""
    length, schema, leaves, *rest = _Unpickler(io.BytesIO(data)).load()
    return length, type_of(schema), list(map(_leaf, leaves)), *rest


def type_of(saved: Any) -> Type:
    """Return a type as it is now.

    >>> type_of(("int", "str?")), type_of("datetime")
    ((int, str?), datetime)
    """
    if isinstance(saved, str):
        single = saved.removesuffix("?")
        found = _NAMED.get(single, Object(single))
        return Optional(found) if saved.endswith("?") else found
    return Tuple(map(type_of, saved)) if type(saved) is tuple else saved


def _leaf(written: tuple[Any, ...]) -> tuple[Any, ...]:
    kind, bounds, data = written
    if type(data) is list:  # the parts of a text
        data = [part if isinstance(part, str) else _leaf(part) for part in data]
    elif type(data) is tuple and data[0] == "L" and data[2] is not None:
        data = (*data[:2], list(map(_leaf, data[2])))
    return type_of(kind), bounds, data


def _list_of(element: Any, *, missing: bool = False, read: frozenset[int] | None = None) -> Atomic:
    found = ListOf(type_of(element), read=read)
    return Optional(found) if missing else found


def _record(types: Iterable[Any], form: str, names: tuple[str, ...], cls: type | None = None) -> Record:
    return Record(map(type_of, types), form, names, cls)


_CLASSES = {
    ("funken.columnar.expressions", "ListOf"): _list_of,
    ("funken.columnar.records", "NamedFields"): _record,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _CLASSES.get((module, name)) or super().find_class(module, name)


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
        return _decoded(load_saved(data[1:]))
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
