"""JSON objects whose fields are checked as they are read; an error names the field and the fault.

Every method raises ``Malformed``, whose text begins with the path of the field. Numbers are whole, and bounded.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

LARGEST = 2**63 - 1
_SHOWN = 60
_MISSING: Any = object()


class Malformed(ValueError):
    """JSON is not what it should be."""


def parse(data: bytes) -> Any:
    """Parse a JSON text; raises ``Malformed`` for what is none, is nested too deeply or has numbers like NaN.

    >>> parse(b'{"a": NaN}')
    Traceback (most recent call last):
    ...
    funken.checkpoint.store.fields.Malformed: it is no JSON: NaN is no number of JSON
    """
    try:
        return json.loads(data, parse_constant=_no_number)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"it is no JSON: {error}") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


class Fields:
    """A JSON object at a path; whatever it has besides the fields asked for is ignored.

    >>> fields = Fields({"length": "12"}, "parts[0]")
    >>> fields.number("length")
    Traceback (most recent call last):
    ...
    funken.checkpoint.store.fields.Malformed: parts[0].length: '12' is no whole number
    >>> fields.text("name")
    Traceback (most recent call last):
    ...
    funken.checkpoint.store.fields.Malformed: parts[0].name: it is missing
    """

    def __init__(self, value: Any, path: str = "") -> None:
        self.path = path
        if type(value) is not dict:
            raise Malformed(f"{path or 'the whole'}: {_shown(value)} is no object")
        self._value: dict[str, Any] = value

    def __contains__(self, name: str) -> bool:
        return name in self._value

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """Return a field whatever it is."""
        found = self._value.get(name, default)
        if found is _MISSING:
            raise Malformed(f"{self.at(name)}: it is missing")
        return found

    def text(self, name: str) -> str:
        """Return a string."""
        return as_text(self.get(name), self.at(name))

    def number(self, name: str, least: int = 0) -> int:
        """Return a whole number."""
        return as_number(self.get(name), self.at(name), least)

    def flag(self, name: str, default: Any = _MISSING) -> bool:
        """Return true or false."""
        found = self.get(name, default)
        if type(found) is not bool:
            raise Malformed(f"{self.at(name)}: {_shown(found)} is neither true nor false")
        return found

    def content(self, name: str, default: Any = _MISSING) -> bytes:
        """Return bytes, which are written in base 64."""
        return as_bytes(self.get(name, default), self.at(name))

    def fields(self, name: str) -> Fields:
        """Return an object."""
        return Fields(self.get(name), self.at(name))

    def items(self, name: str, default: Any = _MISSING) -> Iterator[tuple[str, Any]]:
        """Yield the items of a list, each with its path."""
        found = self.get(name, default)
        if type(found) is not list:
            raise Malformed(f"{self.at(name)}: {_shown(found)} is no list")
        for position, item in enumerate(found):
            yield f"{self.at(name)}[{position}]", item

    def entries(self, name: str, default: Any = _MISSING) -> Iterator[tuple[str, str, Any]]:
        """Yield the entries of an object: path, key, value."""
        found = self.get(name, default)
        if type(found) is not dict:
            raise Malformed(f"{self.at(name)}: {_shown(found)} is no object")
        for key, value in found.items():
            yield f"{self.at(name)}.{key}", key, value


def as_text(value: Any, path: str) -> str:
    """Return a string."""
    if type(value) is not str:
        raise Malformed(f"{path}: {_shown(value)} is no text")
    return value


def as_number(value: Any, path: str, least: int = 0) -> int:
    """Return a whole number from ``least`` to the largest of 64 bits."""
    if type(value) is not int:
        raise Malformed(f"{path}: {_shown(value)} is no whole number")
    if not least <= value <= LARGEST:
        raise Malformed(f"{path}: {_shown(value)} is not between {least} and {LARGEST}")
    return value


def as_bytes(value: Any, path: str) -> bytes:
    """Return what a text in base 64 stands for."""
    try:
        return base64.b64decode(as_text(value, path).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Malformed(f"{path}: {_shown(value)} is not in base 64") from None


def as_list(value: Any, path: str, length: int) -> list[Any]:
    """Return a list of so many items."""
    if type(value) is not list or len(value) != length:
        raise Malformed(f"{path}: {_shown(value)} is no list of {length} items")
    return value


def _shown(value: Any) -> str:
    """Return a value as an error shows it, however large it is or deep."""
    if type(value) in (dict, list):
        return f"{'an object' if type(value) is dict else 'a list'} of {len(value)}"
    if type(value) is int and value.bit_length() > 4 * _SHOWN:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
