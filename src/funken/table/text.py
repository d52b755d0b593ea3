"""Rows as text: as ``print`` sinks write them (Java's ``toString``), and as results are displayed (SQL's casts to text)."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from funken.types.row import Row
from funken.types.text import _double, _float

_ONE_SECOND = datetime.timedelta(seconds=1)


def java_row(row: Row, types: Iterable[Any] = ()) -> str:
    """Return the text of a row as Flink's ``Row.toString()`` gives it; ``types`` tell FLOAT from DOUBLE.

    >>> java_row(Row("a", None, 1.0, [True], {"k": datetime.date(2024, 2, 3)}))
    '+I[a, null, 1.0, [true], {k=2024-02-03}]'
    """
    kinds = [*types]
    texts = [java_text(value, kinds[index] if index < len(kinds) else None) for index, value in enumerate(row)]
    return f"{row.get_row_kind()}[{', '.join(texts)}]"


def java_text(value: Any, type_: Any = None) -> str:
    """Return the text of a value as Java's ``toString`` gives it.

    >>> java_text(datetime.datetime(2024, 2, 3, 4, 5)), java_text(1e7), java_text(b"a")
    ('2024-02-03T04:05', '1.0E7', '[97]')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value) if type(type_).__name__ == "FloatType" else _zeroed(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, bytes | bytearray):
        return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
    if isinstance(value, Row):
        return java_row(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(java_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{java_text(key)}={java_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, frozenset):
        return f"{{{','.join(map(str, sorted(value)))}}}"
    if hasattr(value, "tree"):
        return variant_text(value)
    return _java_time(value)


def variant_text(value: Any) -> str:
    """Return a VARIANT as JSON."""
    if value.type == "OBJECT":
        return f"{{{','.join(f'{json.dumps(key, ensure_ascii=False)}:{variant_text(item)}' for key, item in value.value)}}}"
    if value.type == "ARRAY":
        return f"[{','.join(map(variant_text, value.value))}]"
    plain = value.value
    if plain is None or isinstance(plain, bool | int | float | Decimal):
        return java_text(plain)
    return json.dumps(plain if isinstance(plain, str) else java_text(plain), ensure_ascii=False)


def _java_time(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            return f"{value.date().isoformat()}T{_clock(value.time())}"
        utc = value.astimezone(datetime.UTC)
        return f"{utc:%Y-%m-%dT%H:%M:%S}{_fraction(utc.microsecond)}Z"
    if isinstance(value, datetime.time):
        return _clock(value)
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    return str(value)


def _zeroed(value: float) -> str:
    text = _double(value)
    return f"-{text}" if value == 0 and str(value).startswith("-") and not text.startswith("-") else text


def _decimal(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    return format(value, "f") if isinstance(exponent, int) and exponent <= 0 and value.adjusted() >= -6 else str(value)


def _clock(time: datetime.time) -> str:
    """Return ``LocalTime.toString()``: seconds only if there are any, the fraction in groups of three digits."""
    if time.microsecond or time.second:
        return f"{time:%H:%M:%S}{_fraction(time.microsecond)}"
    return f"{time:%H:%M}"


def _fraction(microsecond: int) -> str:
    if not microsecond:
        return ""
    return f".{microsecond // 1000:03d}" if microsecond % 1000 == 0 else f".{microsecond:06d}"


def _duration(value: datetime.timedelta) -> str:
    """Return ``Duration.toString()``.

    >>> _duration(datetime.timedelta(days=1, seconds=61)), _duration(datetime.timedelta(0))
    ('PT24H1M1S', 'PT0S')
    """
    micros = value // datetime.timedelta(microseconds=1)
    sign = -1 if micros < 0 else 1
    seconds, rest = divmod(abs(micros), 1_000_000)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    parts = f"{sign * hours}H" if hours else ""
    parts += f"{sign * minutes}M" if minutes else ""
    if seconds or rest or not parts:
        fraction = f".{rest:06d}".rstrip("0") if rest else ""
        parts += f"{'-' if sign < 0 and (seconds or rest) else ''}{seconds}{fraction}S"
    return f"PT{parts}"


# ---- SQL


def sql_text(value: Any, type_: Any = None, null: str = "<NULL>") -> str:
    """Return the text of a value as results show it: SQL's cast to text, with ``<NULL>`` on its own.

    >>> sql_text(True), sql_text([1, None]), sql_text(None), sql_text(Row(1, "a"))
    ('TRUE', '[1, NULL]', '<NULL>', '(1, a)')
    """
    return null if value is None else _sql(value, type_)


def _sql(value: Any, type_: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Row):
        return f"({', '.join(_sql(item, kind) for item, kind in zip(value, _field_types(type_, value), strict=False))})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_sql(item, _inner(type_, 'element')) for item in value)}]"
    if isinstance(value, dict):
        key_type, item_type = _inner(type_, "key"), _inner(type_, "value")
        return f"{{{', '.join(f'{_sql(key, key_type)}={_sql(item, item_type)}' for key, item in value.items())}}}"
    if isinstance(value, bytes | bytearray):
        return f"x'{bytes(value).hex()}'"
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}{_digits(value.microsecond, _precision(type_))}"
    if isinstance(value, datetime.time):
        return f"{value:%H:%M:%S}{_digits(value.microsecond, _precision(type_))}"
    if isinstance(value, datetime.timedelta):
        return _day_time(value)
    if type(type_).__name__ == "YearMonthIntervalType" and isinstance(value, int):
        return f"{'-' if value < 0 else '+'}{abs(value) // 12}-{abs(value) % 12:02d}"
    return java_text(value, type_)


def _precision(type_: Any) -> int | None:
    return getattr(type_, "precision", None)


def _digits(microsecond: int, precision: int | None) -> str:
    if precision is None:
        return _fraction(microsecond)
    return f".{microsecond:06d}".ljust(10, "0")[: precision + 1] if precision else ""


def _day_time(value: datetime.timedelta) -> str:
    micros = value // datetime.timedelta(microseconds=1)
    seconds, rest = divmod(abs(micros), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest // 1000:03d}"
    return f"{'-' if micros < 0 else '+'}{days} {clock}"


def _inner(type_: Any, name: str) -> Any:
    return getattr(type_, name, None)


def _field_types(type_: Any, value: Row) -> list[Any]:
    fields = getattr(type_, "fields", None)
    return [getattr(field, "type", None) for field in fields] if fields else [None] * len(value)


__all__ = ["java_row", "java_text", "sql_text"]
