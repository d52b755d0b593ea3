"""Keys as bytes: equal keys give equal bytes, whatever they were pickled as, and different keys give different ones.

A dict finds ``1`` under ``1.0`` and ``True``, and a frozen set whatever the order of its items; so must a database that
compares bytes. Everything that ``stable_hash`` takes as a key is encoded by what makes it equal. What is none of these is
pickled: there, two objects that are equal and pickled to different bytes count as two keys.

No encoding is the beginning of another, so several can be put one behind the other; numbers are in their order, and so are
strings. *Plain* keys (``None``, ``int``, ``str``, ``bytes``, and tuples of them) can be read back.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import ipaddress
import numbers
import pathlib
import pickle
import uuid
from math import inf
from typing import Any

from funken.types.row import Row

_NONE, _INT, _RATIO, _INFINITE, _STR, _BYTES, _TUPLE, _SET, _NAMED, _OTHER = b"\x01\x02\x03\x04\x10\x11\x20\x21\x22\x30"
_END = b"\0"
_ZERO, _QUOTED, _STOP = b"\0", b"\0\xff", b"\0\0"
_POSITIVE, _NEGATIVE, _LONGEST = 0x80, 0x7F, 0x70
_BY_TEXT = (
    datetime.date, datetime.time, pathlib.PurePath, uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address
)  # fmt: skip


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
    if isinstance(key, tuple):
        return b"\x20" + b"".join(map(encode_key, key)) + _END
    if key is None:
        return b"\x01"
    if isinstance(key, numbers.Number):
        return _number(key)
    return _named(key)


def _integer(number: int) -> bytes:
    length = (number.bit_length() + 7) >> 3
    if length > _LONGEST:
        return _other(number)
    if number >= 0:
        return bytes((_INT, _POSITIVE + length)) + number.to_bytes(length, "big")
    return bytes((_INT, _NEGATIVE - length)) + (number + (1 << 8 * length)).to_bytes(length, "big")


def _number(key: Any) -> bytes:
    if isinstance(key, numbers.Integral):
        return _integer(int(key))
    if isinstance(key, numbers.Complex) and not isinstance(key, numbers.Real):
        return _number(key.real) if key.imag == 0 else _tagged("complex", float(key.real), float(key.imag))
    if key in (inf, -inf):
        return bytes((_INFINITE, key > 0))
    try:
        above, below = key.as_integer_ratio()
    except (AttributeError, ValueError):  # a number of the user's own, or none at all (nan)
        return _other(key)
    return _integer(above) if below == 1 else bytes((_RATIO,)) + _integer(above) + _integer(below)


def _named(key: Any) -> bytes:
    """Encode values that are equal only to their own type; in the order of ``stable_hash``."""
    if isinstance(key, Row):
        return _tagged("row", key.comparable())
    if hasattr(key, "__stable_hash__"):
        return _other(key)
    if isinstance(key, enum.Enum):
        return _tagged("enum", type(key).__module__, type(key).__qualname__, key.name)
    if isinstance(key, str):
        return encode_key(str(key))
    if isinstance(key, bytes):
        return encode_key(bytes(key))
    if isinstance(key, frozenset):
        return b"\x21" + b"".join(sorted(map(encode_key, key))) + _END
    if isinstance(key, datetime.datetime):
        return _tagged("instant", key.timestamp()) if key.tzinfo else _tagged("datetime", key.isoformat())
    if isinstance(key, _BY_TEXT):
        return _tagged(type(key).__name__, str(key))
    if isinstance(key, datetime.timedelta):
        return _tagged("timedelta", key.days, key.seconds, key.microseconds)
    if dataclasses.is_dataclass(key) and type(key).__hash__ not in (None, object.__hash__):
        fields = (f for f in dataclasses.fields(key) if (f.compare if f.hash is None else f.hash))
        values = tuple(getattr(key, field.name) for field in fields)
        return _tagged("class", type(key).__module__, type(key).__qualname__, values)
    return _other(key)


def _tagged(*parts: Any) -> bytes:
    return bytes((_NAMED,)) + encode_key(parts)


def _other(key: Any) -> bytes:
    return bytes((_OTHER,)) + pickle.dumps(key, 5).replace(_ZERO, _QUOTED) + _STOP


def decodes_exactly(key: Any) -> bool:
    """Return whether decoding gives the identical value: of these types, and not of types that are equal to them."""
    kind = type(key)
    if kind is int:
        return bool(-(1 << 8 * _LONGEST) < key < 1 << 8 * _LONGEST)
    return kind is str or kind is bytes or key is None or (kind is tuple and all(map(decodes_exactly, key)))


def decode_key(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Return the plain key that begins at an offset, and where it ends.

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
    raise ValueError(f"{data[at:][:20]!r} is not the encoding of a plain key")


def successor(prefix: bytes) -> bytes:
    """Return the least bytes that are greater than everything that begins with a prefix."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))
