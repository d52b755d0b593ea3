"""Keys as bytes: equal keys give equal bytes, whatever they were pickled as, and different keys give different ones.

A dict finds ``1`` under ``1.0`` and ``True``, and a frozen set whatever the order of its items; so must a database that
compares bytes. What is encoded is the key's form (``state/keys/forms.py``). An object with ``__stable_hash__`` has none, and two
that are equal may be pickled to different bytes: ``encode_key`` raises ``OwnHash``, and ``encode_with`` asks its caller for them.

No encoding is the beginning of another, so several can be put one behind the other; numbers are in their order, and so are
strings. *Plain* keys (``None``, ``int``, ``str``, ``bytes``, and tuples of them) can be read back.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal
from math import inf
from typing import Any

from funken.state.keys.form import EXACT, NAN, Named, refusal
from funken.state.keys.forms import form_of

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
    """Return what comes before, and a key; ``own(before, object)`` gives the bytes of one with ``__stable_hash__``."""
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
    """Return what the bytes of all objects with the same ``__stable_hash__`` begin with, and those of this one."""
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
    """Return whether decoding gives the identical value: of these types, and not of types that are equal to them."""
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
