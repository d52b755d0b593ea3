"""Kinds of keys: keys of two kinds are never equal, so records of them never meet."""

from __future__ import annotations

from numbers import Number
from typing import Any


def kind_of_key(key: Any) -> Any:
    """Return an equal object for keys that may be equal: all numbers are of one kind, tuples by their parts.

    >>> kind_of_key(1) == kind_of_key(2.5), kind_of_key(("a", 1)) == kind_of_key((b"a", 1))
    (True, False)
    """
    if key is None or isinstance(key, Number):
        return None if key is None else Number
    if isinstance(key, tuple):
        return tuple(map(kind_of_key, key))
    return next((base for base in (str, bytes) if isinstance(key, base)), type(key))


def alike(one: Any, other: Any) -> bool:
    """Return True if keys of two kinds may belong to one program: ``None`` stands for a key of any type.

    >>> alike(kind_of_key("a"), kind_of_key(1)), alike(kind_of_key(None), kind_of_key(1))
    (False, True)
    >>> import datetime
    >>> import pandas
    >>> alike(datetime.datetime, pandas.Timestamp)
    True
    """
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, type) and isinstance(other, type):
        return issubclass(one, other) or issubclass(other, one)
    return one is None or other is None


def shown_key(key: Any) -> str:
    """Return a key with its type, for a message.

    >>> shown_key("a")
    "'a' (str)"
    """
    return f"{key!r:.80} ({type(key).__name__})"
