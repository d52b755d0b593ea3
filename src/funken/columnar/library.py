"""Functions of Python and its library that depend on their arguments alone: their types, and the functions themselves.

What is here is computed by the function itself, value by value, over columns (``Rowwise`` in ``expressions.py``), so its
results and errors are Python's; ``kernels/`` has faster forms of some. A function whose type of result depends on a value is
given with one type: a block with a result of another falls back to rows.
"""

from __future__ import annotations

import base64
import builtins
import datetime as dates
import decimal
import functools
import hashlib
import itertools
import json
import math
import operator
import re
import zlib
from collections.abc import Callable
from typing import Any

from funken.columnar.writing.json_values import value_as_json
from funken.expr.types import BOOL, FLOAT, INT, NONE, STR, Atomic, ListOf, Object, Type, optional
from funken.types.convert import converter
from funken.types.info import Types

TEXTS = ListOf(STR)
BYTES, MATCH, HASH = Object("bytes"), Object("match"), Object("hash")
DATETIME, DATE, TIMEDELTA = Object("datetime"), Object("date"), Object("timedelta")
TIMEZONE, DECIMAL = Object("timezone"), Object("Decimal")
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
"""Kinds whose values stay Python objects."""

_Table = dict[str, dict[tuple[Type, ...], Atomic]]

_NO_ARGUMENT = {
    STR: ("lower", "upper", "strip", "lstrip", "rstrip", "title", "capitalize", "casefold", "swapcase"),
    BOOL: ("isdigit", "isalpha", "isalnum", "isspace", "isupper", "islower", "isnumeric", "isdecimal", "isascii", "istitle"),
}  # fmt: skip

METHODS: _Table = {f"str.{name}": {(STR,): kind} for kind, names in _NO_ARGUMENT.items() for name in names}
for _name in ("strip", "lstrip", "rstrip", "removeprefix", "removesuffix"):
    METHODS.setdefault(f"str.{_name}", {})[STR, STR] = STR
for _name in ("find", "rfind", "index", "rindex", "count"):
    METHODS[f"str.{_name}"] = {(STR, STR): INT, (STR, STR, INT): INT}
for _name in ("ljust", "rjust", "center"):
    METHODS[f"str.{_name}"] = {(STR, INT): STR, (STR, INT, STR): STR}
for _name in ("split", "rsplit"):
    METHODS[f"str.{_name}"] = {(STR,): TEXTS, (STR, STR): TEXTS, (STR, STR, INT): TEXTS}
METHODS |= {
    "str.replace": {(STR, STR, STR): STR, (STR, STR, STR, INT): STR},
    "str.zfill": {(STR, INT): STR},
    "str.splitlines": {(STR,): TEXTS},
    "str.startswith": {(STR, STR): BOOL},
    "str.endswith": {(STR, STR): BOOL},
    "str.join": {(STR, TEXTS): STR},
    "str.encode": {(STR,): BYTES, (STR, STR): BYTES},
    "bytes.decode": {(BYTES,): STR, (BYTES, STR): STR},
    "bytes.hex": {(BYTES,): STR},
    "hash.hexdigest": {(HASH,): STR},
    "hash.digest": {(HASH,): BYTES},
    "int.bit_length": {(INT,): INT},
    "int.bit_count": {(INT,): INT},
    "float.is_integer": {(FLOAT,): BOOL},
    "datetime.weekday": {(DATETIME,): INT},
    "datetime.isoweekday": {(DATETIME,): INT},
    "datetime.toordinal": {(DATETIME,): INT},
    "datetime.isoformat": {(DATETIME,): STR},
    "datetime.strftime": {(DATETIME, STR): STR},
    "datetime.timestamp": {(DATETIME,): FLOAT},
    "datetime.date": {(DATETIME,): DATE},
    "datetime.replace tzinfo": {(DATETIME, TIMEZONE): DATETIME, (DATETIME, NONE): DATETIME},
    "date.weekday": {(DATE,): INT},
    "date.isoweekday": {(DATE,): INT},
    "date.toordinal": {(DATE,): INT},
    "date.isoformat": {(DATE,): STR},
    "date.strftime": {(DATE, STR): STR},
    "timedelta.total_seconds": {(TIMEDELTA,): FLOAT},
    "Decimal.scaleb": {(DECIMAL, INT): DECIMAL},
}
"""By type and method: the kind of the result by those of the object and the arguments."""

ATTRIBUTES: dict[Atomic, dict[str, Atomic]] = {
    DATETIME: dict.fromkeys(("year", "month", "day", "hour", "minute", "second", "microsecond"), INT),
    DATE: dict.fromkeys(("year", "month", "day"), INT),
    TIMEDELTA: dict.fromkeys(("days", "seconds", "microseconds"), INT),
}
"""Attributes of objects, and their kinds."""

_OWNERS: dict[str, type] = {
    "str": str,
    "int": int,
    "float": float,
    "datetime": dates.datetime,
    "date": dates.date,
    "timedelta": dates.timedelta,
    "Decimal": decimal.Decimal,
    "bytes": bytes,
    "hash": HASH_TYPE,
    "match": re.Match,
}

_ONE_FLOAT = (
    "sqrt", "exp", "expm1", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "degrees", "radians", "fabs", "erf",
)  # fmt: skip
FUNCTIONS: _Table = {f"math.{name}": {(FLOAT,): FLOAT, (INT,): FLOAT} for name in _ONE_FLOAT}
FUNCTIONS |= {f"math.{name}": {(FLOAT,): INT, (INT,): INT} for name in ("floor", "ceil", "trunc")}
FUNCTIONS |= {f"math.{name}": {(FLOAT,): BOOL, (INT,): BOOL} for name in ("isnan", "isinf", "isfinite")}
FUNCTIONS |= {
    f"math.{name}": {(one, other): FLOAT for one in (INT, FLOAT) for other in (INT, FLOAT)}
    for name in ("hypot", "atan2", "fmod", "pow", "copysign", "log")
}
FUNCTIONS["math.log"] |= {(FLOAT,): FLOAT, (INT,): FLOAT}
FUNCTIONS |= {
    "math.gcd": {(INT, INT): INT},
    "math.isqrt": {(INT,): INT},
    "int": {(STR,): INT, (FLOAT,): INT, (STR, INT): INT, (DECIMAL,): INT},
    "float": {(STR,): FLOAT, (DECIMAL,): FLOAT},
    "str": {(FLOAT,): STR, (BOOL,): STR, (DATETIME,): STR, (DATE,): STR, (TIMEDELTA,): STR, (DECIMAL,): STR, (NONE,): STR},
    "repr": {(kind,): STR for kind in (INT, FLOAT, BOOL, STR, DECIMAL)},
    "round": {(INT,): INT, (FLOAT,): INT, (FLOAT, INT): FLOAT},
    "ord": {(STR,): INT},
    "range": {(INT,): ListOf(INT), (INT, INT): ListOf(INT), (INT, INT, INT): ListOf(INT)},
    "hex": {(INT,): STR},
    "oct": {(INT,): STR},
    "bin": {(INT,): STR},
    "chr": {(INT,): STR},
    "len": {(TEXTS,): INT, (BYTES,): INT},
    "hashlib.md5": {(BYTES,): HASH},
    "hashlib.sha1": {(BYTES,): HASH},
    "hashlib.sha256": {(BYTES,): HASH},
    "zlib.crc32": {(BYTES,): INT},
    "base64.b64encode": {(BYTES,): BYTES},
    "base64.b64decode": {(BYTES,): BYTES, (STR,): BYTES},
    "format": {(kind, STR): STR for kind in (INT, FLOAT, STR, BOOL, DATETIME, DATE, DECIMAL)},
    "abs": {(DECIMAL,): DECIMAL, (TIMEDELTA,): TIMEDELTA},
    "datetime.fromtimestamp": {(kind, *zone): DATETIME for kind in (INT, FLOAT) for zone in ((), (TIMEZONE,))},
    "datetime.fromisoformat": {(STR,): DATETIME},
    "datetime.strptime": {(STR, STR): DATETIME},
    "date.fromisoformat": {(STR,): DATE},
    "Decimal": {(INT,): DECIMAL, (STR,): DECIMAL, (FLOAT,): DECIMAL},
}  # fmt: skip
"""By name: the kind of the result by those of the arguments. Time zone, locale and context are those of the task."""

_NUMBERS = (INT, FLOAT)
OPERATORS: _Table = {
    "%": {(one, other): FLOAT for one in _NUMBERS for other in _NUMBERS if FLOAT in (one, other)},
    "//": {(one, other): FLOAT for one in _NUMBERS for other in _NUMBERS if FLOAT in (one, other)},
    "**": {(one, other): FLOAT if FLOAT in (one, other) else INT for one in _NUMBERS for other in _NUMBERS},
    "+": {(DATETIME, TIMEDELTA): DATETIME, (TIMEDELTA, TIMEDELTA): TIMEDELTA, (DATE, TIMEDELTA): DATE},
    "-": {
        (DATETIME, TIMEDELTA): DATETIME, (DATETIME, DATETIME): TIMEDELTA, (DATE, DATE): TIMEDELTA,
        (TIMEDELTA, TIMEDELTA): TIMEDELTA, (DATE, TIMEDELTA): DATE,
    },
}  # fmt: skip
for _op in ("+", "-", "*", "/"):
    OPERATORS.setdefault(_op, {}).update(
        {pair: DECIMAL for pair in ((DECIMAL, DECIMAL), (DECIMAL, INT), (INT, DECIMAL))}
    )
OPERATORS["*"] |= {(STR, INT): STR, (INT, STR): STR}
"""Operators without a kernel for arrays: the kind of the result by those of the sides."""

AS_FLOAT_32 = "float of 32 bits"
AS_INTS = {bits: f"int of {bits} bits" for bits in (8, 16, 32)}
"""What declared types do with numbers."""
_CALLS: dict[str, Callable[..., Any]] = {
    AS_FLOAT_32: converter(Types.FLOAT()),
    AS_INTS[8]: converter(Types.BYTE()), AS_INTS[16]: converter(Types.SHORT()), AS_INTS[32]: converter(Types.INT()),
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
    "in": lambda needle, container: needle in container,
    "is None": functools.partial(operator.is_, None),
    "truth": bool,
    "item": operator.getitem,
    "get": lambda table, key, default: table.get(key, default),
    "total": lambda values, start: functools.reduce(operator.add, values, start),
    "fold max": lambda values, start: functools.reduce(lambda one, other: other if other > one else one, values, start),
    "fold min": lambda values, start: functools.reduce(lambda one, other: other if other < one else one, values, start),
    "joined": lambda one, other: one + other,
    "sorted by": lambda items, keys, reverse: [
        items[place] for place in sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)
    ],
    "enumerate": lambda items, start: list(enumerate(items, start)),
    "max at": lambda keys: max(range(len(keys)), key=keys.__getitem__),
    "min at": lambda keys: min(range(len(keys)), key=keys.__getitem__),
    "count distinct": lambda items: len(set(items)),
    "sorted distinct": lambda items: sorted(set(items)),
    "chain": lambda lists: list(itertools.chain.from_iterable(lists)),
    "slice": lambda values, start, stop, step: values[start:stop:step],
    "not none": lambda value: value,
    "datetime.replace tzinfo": lambda time, zone: time.replace(tzinfo=zone),
    "search": lambda pattern, text: pattern.search(text),
    "match": lambda pattern, text: pattern.match(text),
    "fullmatch": lambda pattern, text: pattern.fullmatch(text),
    "sub": lambda pattern, new, text: pattern.sub(new, text),
    "str.partition.0": lambda text, part: text.partition(part)[0],
    "str.partition.1": lambda text, part: text.partition(part)[1],
    "str.partition.2": lambda text, part: text.partition(part)[2],
    "json ascii": json.encoder.encode_basestring_ascii,
    "json text": json.encoder.encode_basestring,
    "json float": lambda number: repr(number) if math.isfinite(number) else json.dumps(number),
    "json value": value_as_json,
    "range": lambda *bounds: list(range(*bounds)),
    "Decimal": decimal.Decimal,
    "datetime.fromtimestamp": dates.datetime.fromtimestamp,
    "datetime.fromisoformat": dates.datetime.fromisoformat,
    "datetime.strptime": dates.datetime.strptime,
    "date.fromisoformat": dates.date.fromisoformat,
}  # fmt: skip
_MODULES: dict[str, Callable[..., Any]] = {
    "hashlib.md5": hashlib.md5, "hashlib.sha1": hashlib.sha1, "hashlib.sha256": hashlib.sha256, "zlib.crc32": zlib.crc32,
    "base64.b64encode": base64.b64encode, "base64.b64decode": base64.b64decode,
}  # fmt: skip
PATTERN_METHODS = {
    "search": (1, optional(MATCH)),
    "match": (1, optional(MATCH)),
    "fullmatch": (1, optional(MATCH)),
    "sub": (2, STR),
}
"""By method of a regular expression: how many texts it takes, and the kind of its result."""


def function_of(name: str) -> Callable[..., Any]:
    """Return the function that a name of the tables stands for.

    >>> function_of("str.lower")("ABC"), function_of("math.sqrt")(4), function_of("unpack 2 1")("ab")
    ('abc', 2.0, 'b')
    """
    known = _CALLS.get(name)
    if known is not None:
        return known
    if name.startswith("unpack "):
        _, count, number = name.split()
        return lambda values: _unpacked(values, int(count))[int(number)]
    if name in _MODULES:
        return _MODULES[name]
    owner, _, member = name.rpartition(".")
    if owner == "math":
        found: Callable[..., Any] = getattr(math, member)
    elif owner.startswith("@"):
        found = operator.attrgetter(member)
    else:
        found = getattr(_OWNERS[owner], member) if owner else getattr(builtins, name)
    return found


def bound_to(name: str, position: int, value: Any) -> Callable[..., Any] | None:
    """Return a function of the arguments but one, which is ``value`` for all records; ``None`` if that makes no difference.

    It is one that is compiled into the interpreter: ``get`` takes 15 ns a value then, called by a function of Python 37.

    >>> bound_to("item", 1, -1)("abc"), bound_to("item", 0, {"a": 1})("a"), bound_to("in", 1, {"a"})("b")
    ('c', 1, False)
    """
    if position == 0:
        if name == "item":
            bound: Callable[..., Any] = value.__getitem__
            return bound
        return getattr(value, name, None) if name in _OF_FIRST else None
    if position == 1 and name == "in":
        return functools.partial(operator.contains, value)
    return operator.itemgetter(value) if position == 1 and name == "item" else None


_OF_FIRST = {"get", "search", "match", "fullmatch", "sub"}


def _unpacked(values: Any, count: int) -> Any:
    if len(values) != count:
        raise ValueError(f"{len(values)} values to unpack, not {count}")
    return values


def _named() -> list[tuple[Any, str]]:
    named: list[tuple[Any, str]] = [(getattr(math, name[5:]), name) for name in FUNCTIONS if name.startswith("math.")]
    named += [(function_of(name), name) for name in FUNCTIONS if name.startswith(("datetime.", "date."))]
    named += [(getattr(re, name), f"re.{name}") for name in PATTERN_METHODS]
    named += [(function_of(name), name) for name in _MODULES]
    return [*named, (decimal.Decimal, "Decimal")]


_NAMES: dict[Any, str] = dict(_named())
_NAMES |= {json.loads: "json.loads", json.dumps: "json.dumps"}
FUNCTIONS["json.loads"] = {}  # it depends on what is known of the texts


def name_of(value: Any) -> str | None:
    """Return the name of a function of the library, as in ``FUNCTIONS`` or ``"re.search"``; ``None`` if it is not known.

    >>> name_of(math.sqrt), name_of(print)
    ('math.sqrt', None)
    """
    try:
        return _NAMES.get(value)
    except TypeError:  # it has no hash
        return None


def kind_of_object(value: Any) -> Atomic | None:
    """Return the kind of a constant that stays a Python object; ``None`` if it has none."""
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


_MOST_ITEMS = 1000


def is_table(value: Any) -> bool:
    """Whether a value is a dict of texts or ints to values of one kind, small enough to be compared once a block."""
    return type(value) is dict and 0 < len(value) <= _MOST_ITEMS and table_kinds(value) is not None


def table_kinds(table: dict[Any, Any]) -> tuple[Atomic, Atomic] | None:
    """Return the kinds of the keys and of the values of a dict; ``None`` if they are not of one kind each.

    >>> table_kinds({"a": 1}), table_kinds({"a": 1, 2: 3})
    ((str, int), None)
    """
    keys, values = {type(key) for key in table}, {type(value) for value in table.values()}
    if len(keys) != 1 or len(values) != 1:
        return None
    key, value = keys.pop(), values.pop()
    kinds = {int: INT, str: STR, float: FLOAT, bool: BOOL}
    return (kinds[key], kinds[value]) if key in (int, str) and value in kinds else None


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
    "AS_FLOAT_32", "AS_INTS", "ATTRIBUTES", "BYTES", "DATE", "DATETIME", "DECIMAL", "FUNCTIONS", "HASH", "HASH_TYPE", "MATCH",
    "METHODS", "OBJECTS", "OPERATORS", "PATTERN_METHODS", "TEXTS", "TIMEDELTA", "TIMEZONE", "bound_to", "function_of",
    "is_pattern", "is_table", "kind_of_object", "literal_of", "name_of", "table_kinds", "table_of_items",
]  # fmt: skip
