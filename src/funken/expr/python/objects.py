"""The types of values that stay Python objects, and constants in which something is looked up."""

from __future__ import annotations

import datetime as dates
import decimal
import hashlib
import re
from typing import Any

from funken.expr.types import NONE, OF_CLASSES, STR, Atomic, ListOf, Object

TEXTS = ListOf(STR)
BYTES, MATCH, HASH = Object("bytes"), Object("match"), Object("hash")
DATETIME, DATE, TIMEDELTA = Object("datetime"), Object("date"), Object("timedelta")
TIMEZONE, DECIMAL, PATTERN = Object("timezone"), Object("Decimal"), Object("Pattern")
HASH_TYPE: type = type(hashlib.md5(b"", usedforsecurity=False))

OBJECTS: dict[type, Atomic] = {
    dates.datetime: DATETIME,
    dates.date: DATE,
    dates.timedelta: TIMEDELTA,
    dates.timezone: TIMEZONE,
    decimal.Decimal: DECIMAL,
    bytes: BYTES,
    type(None): NONE,
}
"""Types whose values stay Python objects."""
CLASSES: dict[Atomic, type] = {kind: cls for cls, kind in (OF_CLASSES | OBJECTS).items()}
CLASSES |= {MATCH: re.Match, HASH: HASH_TYPE}
"""The exact class of the values of a type."""
_MOST_ITEMS = 1000


def kind_of_object(value: Any) -> Atomic | None:
    """Return the type of a constant that stays a Python object; ``None`` if it has none."""
    return OBJECTS.get(type(value))


def is_pattern(value: Any) -> bool:
    """Whether a value is a compiled regular expression of text."""
    return isinstance(value, re.Pattern) and isinstance(value.pattern, str)


def literal_of(pattern: Any) -> str | None:
    r"""Return the one text that a regular expression stands for; ``None`` if it is more than a text.

    >>> literal_of(re.compile("page 7")), literal_of(re.compile(r"\d")), literal_of(re.compile("a", re.IGNORECASE))
    ('page 7', None, None)
    """
    if pattern.flags != re.UNICODE or set(pattern.pattern) & set(r".^$*+?{}[]\|()"):
        return None
    text: str = pattern.pattern
    return text


def is_table(value: Any) -> bool:
    """Whether a value is a dict of texts or ints to values of one type, small enough to be compared once a block."""
    return type(value) is dict and 0 < len(value) <= _MOST_ITEMS and table_kinds(value) is not None


def table_kinds(table: dict[Any, Any]) -> tuple[Atomic, Atomic] | None:
    """Return the types of the keys and of the values of a dict; ``None`` if they are not of one type each.

    >>> table_kinds({"a": 1}), table_kinds({"a": 1, 2: 3})
    ((str, int), None)
    """
    keys, values = {type(key) for key in table}, {type(value) for value in table.values()}
    if len(keys) != 1 or len(values) != 1:
        return None
    key, value = keys.pop(), values.pop()
    return (OF_CLASSES[key], OF_CLASSES[value]) if key in (int, str) and value in OF_CLASSES else None


def table_of_items(values: list[Any]) -> dict[int, Any]:
    """Return the items of a tuple by their places, from the end too; without any, if they are too many to be compared.

    >>> table_of_items(["a", "b"])
    {0: 'a', 1: 'b', -2: 'a', -1: 'b'}
    """
    count = len(values)
    if 2 * count > _MOST_ITEMS:
        return {}
    return dict(enumerate(values)) | {place - count: value for place, value in enumerate(values)}


__all__ = [
    "BYTES", "CLASSES", "DATE", "DATETIME", "DECIMAL", "HASH", "HASH_TYPE", "MATCH", "OBJECTS", "PATTERN", "TEXTS", "TIMEDELTA",
    "TIMEZONE",    "is_pattern", "is_table", "kind_of_object", "literal_of", "table_kinds", "table_of_items",
]  # fmt: skip
