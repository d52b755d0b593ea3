"""The rows of RocksDB-backed state: the bytes of their keys and values.

A row is ``group (2 bytes) | state | key | namespace | key of the map`` and a pickled value. Keys have the bytes of ``keys.py``.
An object with ``__stable_hash__`` has none of its own. It stands as its hash and a pickle: that of the equal object of which the
first row was written, which is looked up among the rows with that hash.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from math import inf
from typing import Any

from funken.errors import KeyNotHashable, StateError
from funken.io.shapes import ClassChanged, Find, dumps_by_value, load_state
from funken.state.key_forms import EXACT, NAN, Named, form_of, refusal
from funken.state.keygroups import one_nan, restored_key
from funken.state.rocksdb.database import Database

# ---- Keys as bytes: equal keys give equal bytes, whatever they were pickled as, and different keys give different
# ones.
#
# A dict finds ``1`` under ``1.0`` and ``True``, and a frozen set whatever the order of its items; so must a
# database that compares bytes. What is encoded is the key's form (``state/key_forms.py``). An object with
# ``__stable_hash__`` has none, and two that are equal may be pickled to different bytes: ``encode_key`` raises
# ``OwnHash``, and ``encode_with`` asks its caller for them.
#
# No encoding is the beginning of another, so several can be put one behind the other; numbers are in their order,
# and so are strings. *Plain* keys (``None``, ``int``, ``str``, ``bytes``, and tuples of them) can be read back.


_NONE, _INT, _RATIO, _INFINITE, _STR, _BYTES = b"\x01\x02\x03\x04\x10\x11"
_TUPLE, _SET, _NAMED, _OTHER, _OWN = b"\x20\x21\x22\x30\x31"
_END = b"\0"
_ZERO, _QUOTED, _STOP = b"\0", b"\0\xff", b"\0\0"
_POSITIVE, _NEGATIVE, _LONGEST = 0x80, 0x7F, 0x70
_MOST_DIGITS = 10_000
"""A decimal of more digits in front or behind its point is encoded by its digits and exponent: it may have millions of zeros."""
_PLAIN = frozenset({str, int, bytes, tuple, type(None)})


def encode_key(key: Any) -> bytes:
    """Return a key as bytes.

    >>> encode_key(1) == encode_key(1.0) == encode_key(True), encode_key(-0.0) == encode_key(0)
    (True, True)
    >>> encode_key("a") < encode_key("b"), encode_key(-3) < encode_key(2) < encode_key(300)
    (True, True)
    """
    kind = type(key)
    if kind is str:
        return b"".join((b"\x10", key.encode("utf-8", "surrogatepass").replace(_ZERO, _QUOTED), _STOP))
    if kind is int:
        return _integer(key)
    if kind is bytes:
        return b"".join((b"\x11", key.replace(_ZERO, _QUOTED), _STOP))
    if kind is tuple:
        return b"\x20" + b"".join(map(encode_key, key)) + _END
    if key is None:
        return b"\x01"
    return _of_form(form_of(key))


def _integer(number: int) -> bytes:
    length = (number.bit_length() + 7) >> 3
    if length > _LONGEST:
        return encode_pickled(number)
    if number >= 0:
        return bytes((_INT, _POSITIVE + length)) + number.to_bytes(length, "big")
    return bytes((_INT, _NEGATIVE - length)) + (number + (1 << 8 * length)).to_bytes(length, "big")


class OwnHash(Exception):
    """A key has an object in it whose equality only its class knows."""


def encode_with(before: bytes, key: Any, own: Callable[[bytes, Any], bytes]) -> bytes:
    """Return a prefix, and a key; ``own(before, object)`` returns the bytes of one with ``__stable_hash__``."""
    form = form_of(key)
    kind = type(form)
    if kind is tuple or kind is Named:
        before += b"\x20" if kind is tuple else bytes((_NAMED, _TUPLE))
        for item in form if kind is tuple else form.identity:
            before = encode_with(before, item, own)
        return before + _END
    try:
        return before + encode_key(form)
    except OwnHash:
        if kind is frozenset:
            raise refusal(key, "RocksDB keeps no frozen set of objects with __stable_hash__") from None
        return before + own(before, form)


def own_key(key: Any) -> tuple[bytes, bytes]:
    """Return the common beginning of the bytes of all objects with a ``__stable_hash__``, and the bytes of this one."""
    hashed = bytes((_OWN,)) + (int(key.__stable_hash__()) & 0xFFFFFFFF).to_bytes(4, "big")
    return hashed, hashed + pickle.dumps(key, 5).replace(_ZERO, _QUOTED) + _STOP


def _of_form(form: Any) -> bytes:
    kind = type(form)
    if kind is Named:
        return _tagged(*form.identity)
    if kind is frozenset:
        return b"\x21" + b"".join(sorted(set(map(encode_key, form)))) + _END
    if kind in _PLAIN:
        return encode_key(form)
    if kind is complex:
        return _tagged("complex", form.real, form.imag)
    if form is NAN:
        return b"\x05"
    if kind in EXACT:
        return _number(form)
    raise OwnHash(form)


def _number(number: Any) -> bytes:
    if number in (inf, -inf):
        return bytes((_INFINITE, number > 0))
    if type(number) is Decimal and number and abs(number.adjusted()) > _MOST_DIGITS:
        sign, digits, exponent = number.as_tuple()
        text = "".join(map(str, digits)).rstrip("0")
        return _tagged("decimal", sign, text, int(exponent) + len(digits) - len(text))
    above, below = number.as_integer_ratio()
    return _integer(above) if below == 1 else bytes((_RATIO,)) + _integer(above) + _integer(below)


def _tagged(*parts: Any) -> bytes:
    return bytes((_NAMED,)) + encode_key(parts)


def encode_pickled(key: Any) -> bytes:
    """Return a value as bytes that are alike for values that are pickled alike."""
    return bytes((_OTHER,)) + pickle.dumps(key, 5).replace(_ZERO, _QUOTED) + _STOP


def decodes_exactly(key: Any) -> bool:
    """Return True if decoding returns the identical value: of these types, and not of types that are equal to them."""
    kind = type(key)
    if kind is int:
        return bool(-(1 << 8 * _LONGEST) < key < 1 << 8 * _LONGEST)
    return kind is str or kind is bytes or key is None or (kind is tuple and all(map(decodes_exactly, key)))


def decode_key(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Return the plain key, or object with ``__stable_hash__``, that begins at an offset, and where it ends.

    >>> decode_key(encode_key(("a", -1, None)))[0]
    ('a', -1, None)
    """
    kind = data[at]
    if kind in (_STR, _BYTES):
        end = data.index(_STOP, at + 1)
        content = data[at + 1 : end].replace(_QUOTED, _ZERO)
        return content.decode("utf-8", "surrogatepass") if kind == _STR else content, end + 2
    if kind == _INT:
        length = data[at + 1] - _POSITIVE if data[at + 1] >= _POSITIVE else _NEGATIVE - data[at + 1]
        number = int.from_bytes(data[at + 2 : at + 2 + length], "big")
        return number if data[at + 1] >= _POSITIVE else number - (1 << 8 * length), at + 2 + length
    if kind == _TUPLE:
        items: list[Any] = []
        at += 1
        while data[at]:
            item, at = decode_key(data, at)
            items.append(item)
        return tuple(items), at + 1
    if kind == _NONE:
        return None, at + 1
    if kind == _OWN:
        end = data.index(_STOP, at + 5)
        return pickle.loads(data[at + 5 : end].replace(_QUOTED, _ZERO)), end + 2
    raise ValueError(f"{data[at:][:20]!r} is not the encoding of a plain key")


def successor(prefix: bytes) -> bytes:
    """Return the least bytes that are greater than everything that begins with a prefix."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))


Parts = tuple[Any, ...]
"""A key, its namespace if the state has them, and the key of the map if it is one."""


class Layout:
    """The places of the rows of one state."""

    __slots__ = ("_database", "_group_of", "_tail", "_unwritten", "mapped", "name", "namespaced")

    def __init__(
        self, name: str, namespaced: bool, mapped: bool, group_of: Callable[[Any], int], database: Database
    ) -> None:
        self._database = database
        #: the bytes of objects with a hash of their own that are in no row yet, by what comes before
        self._unwritten: dict[tuple[bytes, Any], bytes] = {}
        self.name = name
        self.namespaced = namespaced
        self.mapped = mapped
        self._tail = encode_key(name) + (b"\1" if namespaced else b"\0")
        self._group_of = group_of

    def prefix(self, group: int) -> bytes:
        """Return the common beginning of all rows of a key group."""
        return group.to_bytes(2, "big") + self._tail

    def row(self, parts: Parts, writes: bool = False) -> bytes:
        """Return the place of a row; ``writes``: it will be written before ``written`` is called."""
        place = self.prefix(self._group_of(parts[0]))
        try:
            return place + b"".join(map(encode_key, parts))
        except OwnHash:
            pass
        except KeyNotHashable:
            if not self.namespaced:
                raise
        for at, part in enumerate(parts):
            try:
                place = encode_with(place, part, partial(self._own, writes))
            except KeyNotHashable:
                if at != 1 or not self.namespaced:
                    raise
                place += encode_pickled(part)  # a window of the program, which is no key
        return place

    def _own(self, writes: bool, before: bytes, key: Any) -> bytes:
        """Return the bytes of an object with a hash of its own: those that an equal one has in the database."""
        found = self._unwritten.get((before, key))
        if found is not None:
            return found
        hashed, own = own_key(key)
        start, stop = before + hashed, successor(before + hashed)
        while (row := next(self._database.scan(start, stop), None)) is not None:
            other, end = decode_key(row[0], len(before))
            if other in {key}:
                return row[0][len(before) : end]
            start = successor(row[0][:end])
        if writes:
            self._unwritten[before, key] = own
        return own

    def written(self) -> None:
        """Take notice that all rows that were asked for are in the database."""
        self._unwritten.clear()

    def parts(self, row: bytes, value: bytes) -> Parts:
        """Return the key and namespace of a row."""
        return row_parts(row, value, 2 + len(self._tail))


def pack_row(parts: Parts, stored: Any, name: str, dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """Return the content of a row; objects that cannot be read out of its key are in it too."""
    content, mark = (stored, b"\0") if all(map(decodes_exactly, parts)) else ((parts, stored), b"\1")
    try:
        return mark + dumps(content)
    except Exception:  # noqa: BLE001 - what ``pickling.dumps`` does, without a call for each row
        return mark + dumps_by_value(content, _not_kept, parts[0], name)


def _not_kept(error: Exception, key: Any, name: str) -> StateError:
    return StateError(
        f"state {name!r} of key {key!r} cannot be kept in RocksDB: {type(error).__name__}: {error}. Keep plain data in "
        "state, and open files, locks and connections in open()."
    )


def unpack_row(value: bytes, name: str, find: Find | None = None) -> Any:
    """Return the value of a row; ``find`` finds classes in place of Python."""
    try:
        content = load_state(memoryview(value)[1:], find)
    except ClassChanged as error:
        raise StateError(f"state {name!r}: {error}") from error
    except Exception as error:
        raise StateError(
            f"state {name!r} was stored as an object that cannot be made again: {type(error).__name__}: {error}. Start with "
            "the code, and the packages, that define its class."
        ) from error
    return content[1] if value[0] else content


def row_parts(row: bytes, value: bytes, at: int, find: Find | None = None) -> Parts:
    """Return the key and namespace of a row; the key begins at an offset."""
    if value[0]:
        return tuple(map(one_nan, load_state(memoryview(value)[1:], find)[0]))
    found = []
    while at < len(row):
        part, at = decode_key(row, at)
        found.append(part)
    return tuple(found)


def renamed(
    rows: Iterable[tuple[bytes, bytes]], layout_of: Callable[[str, bool], Layout], max_parallelism: int
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield rows that an earlier version has written: where each was, where it belongs, and its content.

    Raises ``CheckpointIncompatible`` for a key that is in another key group by now.
    """
    layouts: dict[tuple[str, bool], Layout] = {}
    for row, value in rows:
        if not value[0]:
            yield row, row, value
            continue
        name, at = decode_key(row, 2)
        about = (name, bool(row[at]))
        if about not in layouts:
            layouts[about] = layout_of(*about)
        key, *rest = row_parts(row, value, at + 1)
        key = restored_key(key, int.from_bytes(row[:2], "big"), max_parallelism)
        yield row, layouts[about].row((key, *rest), writes=True), value
