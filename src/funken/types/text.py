"""How records are written as text: the way Flink writes them, which follows from the declared type.

Without a declaration a record is written as Python writes it. ``print()`` and the sinks differ in one place only: a row
is ``+I[a,1]`` when printed, its values as Python writes them, and ``+I[a, 1]`` in a file, its values as Java does.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    OfElements,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimeType,
    TupleTypeInfo,
    TypeInformation,
)
from funken.types.instants import Instant

Show = Callable[[Any], str]

_FLOAT = struct.Struct("f")


def plain_text(value: Any) -> str:
    """Return how a record without a declared type is printed.

    >>> plain_text(("a", 1)), plain_text("a"), plain_text(None)
    ("('a', 1)", 'a', 'null')
    """
    return "null" if value is None else str(value)


def printed(type_info: TypeInformation | None) -> Show:
    """Return how ``print()`` writes records of a type.

    >>> from funken.types import Row, Types
    >>> printed(Types.TUPLE([Types.STRING(), Types.BOOLEAN()]))(("a", True))
    '(a,true)'
    >>> printed(Types.ROW([Types.STRING(), Types.BOOLEAN()]))(Row("a", True))
    '+I[a,True]'
    """
    if type_info is None:
        return plain_text
    if isinstance(type_info, RowTypeInfo):
        return lambda row: f"{row.get_row_kind()}[{','.join(map(str, row))}]"
    return written(type_info)


def written(type_info: TypeInformation | None) -> Show:
    """Return how sinks write records of a type as text.

    >>> from funken.types import Row, Types
    >>> written(Types.ROW([Types.FLOAT(), Types.LIST(Types.INT()), Types.STRING()]))(Row(0.10000000149011612, [1], None))
    '+I[0.1, [1], null]'
    """
    match type_info:
        case BasicTypeInfo(BasicType.FLOAT):
            show: Show = _float
        case BasicTypeInfo(BasicType.DOUBLE):
            show = _double
        case SqlTimeTypeInfo(TimeType.TIMESTAMP):
            show = _timestamp
        case TupleTypeInfo(fields):
            show = _joined([written(field) for field in fields], ",")
        case RowTypeInfo(fields):
            inner = _joined([written(field) for field in fields], ", ")
            show = lambda row: f"{row.get_row_kind()}[{inner(row)[1:-1]}]"  # noqa: E731
        case OfElements(element):
            one = written(element)
            show = lambda values: f"[{', '.join(map(one, values))}]"  # noqa: E731
        case MapTypeInfo(keys, values):
            key, item = written(keys), written(values)
            show = lambda entries: f"{{{', '.join(f'{key(k)}={item(v)}' for k, v in entries.items())}}}"  # noqa: E731
        case _:
            show = _java
    return lambda value: "null" if value is None else show(value)


def _joined(fields: list[Show], separator: str) -> Show:
    return lambda values: f"({separator.join(show(v) for show, v in zip(fields, values, strict=False))})"


def _java(value: Any) -> str:
    """Write a value whose Python type says enough."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray):
        return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
    if isinstance(value, Instant):
        return value.to_datetime().isoformat().replace("+00:00", "Z")
    return str(value)


def _timestamp(value: datetime.datetime) -> str:
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _double(value: float) -> str:
    """Write a number as ``Double.toString`` does.

    >>> _double(1e10), _double(0.001), _double(1.0), _double(1.5e-7)
    ('1.0E10', '0.001', '1.0', '1.5E-7')
    """
    return _scientific(value, repr(float(value)))


def _float(value: float) -> str:
    """Write a number as ``Float.toString`` does: as few digits as tell it from its neighbours."""
    for digits in range(1, 10):
        short = f"{value:.{digits}g}"
        if _same_float(float(short), value):
            return _scientific(value, short)
    return _scientific(value, repr(value))


def _same_float(a: float, b: float) -> bool:
    try:
        return _FLOAT.pack(a) == _FLOAT.pack(b)
    except OverflowError:
        return False


def _scientific(value: float, digits: str) -> str:
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    number = Decimal(digits).normalize()
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{number:f}"
        return text if "." in text else f"{text}.0"
    sign, figures, exponent = number.as_tuple()
    head, tail = str(figures[0]), "".join(map(str, figures[1:])) or "0"
    assert isinstance(exponent, int)
    return f"{'-' if sign else ''}{head}.{tail}E{exponent + len(figures) - 1}"
