"""Values as users of tables see them (``datetime``, ``dict``, ``Row``), and columns of Arrow."""

from __future__ import annotations

import datetime
import json
import struct
import typing
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any

from funken.errors import ValueDoesNotFit
from funken.expr.sql.misc import contains, runs_of, size
from funken.expr.sql.texts import bitmap_text, truncated, zone_of
from funken.expr.sql.types import (
    BYTES,
    STRING,
    ArrayType,
    BigIntType,
    BitmapType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    RowType,
    TimeOfDayType,
    TimestampType,
    YearMonthIntervalType,
    is_bytes,
)
from funken.expr.sql.values import from_internal, to_internal
from funken.types.row import Row
from funken.types.text import _double, _float, _fraction, java_time

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()


class Bitmap(Set[int]):
    """A value of BITMAP: a set of unsigned 32-bit integers, kept as runs.

    >>> bitmap = Bitmap(((1, 3), (7, 7)))
    >>> len(bitmap), 2 in bitmap, sorted(bitmap), bitmap == {1, 2, 3, 7}, bitmap
    (4, True, [1, 2, 3, 7], True, {1,2,3,7})
    """

    def __init__(self, runs: tuple[tuple[int, int], ...] = ()) -> None:
        self.runs = tuple((first, last) for first, last in runs)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Bitmap:  # type: ignore[override]
        return cls(runs_of(it))

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and contains(self.runs, number)

    def __iter__(self) -> Iterator[int]:
        return (number for first, last in self.runs for number in range(first, last + 1))

    def __len__(self) -> int:
        return size(self.runs)

    def __eq__(self, other: object) -> bool:
        return self.runs == other.runs if isinstance(other, Bitmap) else super().__eq__(other)

    def __hash__(self) -> int:
        return self._hash() if len(self) <= 1 << 16 else hash(self.runs)

    def __repr__(self) -> str:
        return bitmap_text(self.runs)


def python_value(value: Any, type_: LogicalType) -> Any:
    """Return the user's form of an internal value."""
    if value is None:
        return None
    match type_:
        case DateType():
            return datetime.date.fromordinal(value + _FIRST_DAY)
        case TimeOfDayType():
            seconds, millis = divmod(value, 1000)
            return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, millis * 1000)
        case TimestampType():
            return _EPOCH + datetime.timedelta(microseconds=value // 1000)
        case LocalZonedTimestampType():
            return _UTC_EPOCH + datetime.timedelta(microseconds=value // 1000)
        case DayTimeIntervalType():
            return datetime.timedelta(milliseconds=value)
        case ArrayType(element=element):
            return [python_value(each, element) for each in value]
        case MapType(key=key, value=item):
            pairs = [(_hashable(python_value(k, key)), python_value(v, item)) for k, v in value]
            return dict(pairs)
        case MultisetType(element=element):
            return {_hashable(python_value(each, element)): count for each, count in value}
        case RowType(fields=fields):
            parts = [python_value(each, field.type) for each, field in zip(value, fields, strict=True)]
            return Row(*type_.names)(*parts) if fields else Row()
        case BitmapType():
            return Bitmap(value)
        case _:
            return value


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(each) for each in value)
    if isinstance(value, dict):
        return tuple((key, _hashable(each)) for key, each in value.items())
    return value


def internal_value(value: Any, type_: LogicalType) -> Any:
    """Return the internal form of a user's value; a value of another type raises ``TypeError`` or ``ValueError``."""
    if value is None or isinstance(type_, NullType):
        return None
    match type_:
        case DateType():
            return (value.date() if isinstance(value, datetime.datetime) else value).toordinal() - _FIRST_DAY
        case TimeOfDayType():
            if isinstance(value, datetime.timedelta):
                return value // datetime.timedelta(milliseconds=1)
            return (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000
        case TimestampType() | LocalZonedTimestampType():
            return _nanos(value, type_)
        case DayTimeIntervalType():
            return value if isinstance(value, int) else value // datetime.timedelta(milliseconds=1)
        case YearMonthIntervalType():
            return int(value)
        case DecimalType():
            return value if isinstance(value, Decimal) else Decimal(str(value))
        case DoubleType() | FloatType():
            return float(value)
        case BitmapType():
            return _runs(value)
        case _:
            return _nested_internal(value, type_)


def _nested_internal(value: Any, type_: LogicalType) -> Any:
    match type_:
        case ArrayType(element=element):
            return [internal_value(each, element) for each in value]
        case MapType(key=key, value=item):
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(internal_value(k, key), internal_value(v, item)) for k, v in pairs]
        case MultisetType(element=element):
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(internal_value(each, element), count) for each, count in pairs]
        case RowType(fields=fields):
            parts = _parts(value, type_)
            if len(parts) != len(fields):
                raise ValueDoesNotFit(
                    f"a row has {len(parts)} values, {value!r:.100}, but its type {type_} has {len(fields)} fields. Give one "
                    "value per field, or change the type."
                )
            return tuple(internal_value(each, of.type) for each, of in zip(parts, fields, strict=True))
        case IntegralType():
            return int(value) if isinstance(value, bool) else value
        case _:
            return bytes(value) if is_bytes(type_) else value


def named_parts(row: Row, names: Sequence[str]) -> list[Any]:
    """Return the values of a row for fields: by name if the row has all the names, otherwise by position.

    >>> named_parts(Row(b=1, a="x"), ["a", "b"]), named_parts(Row("x", 1), ["a", "b"]), named_parts(Row(n=1), ["a"])
    (['x', 1], ['x', 1], [1])
    """
    given = row._fields
    if given is None or not set(names).issubset(given):
        return [*row]
    return row.get_fields_by_names(names)


def _parts(value: Any, type_: RowType) -> Sequence[Any]:
    """Return the values of a row: by the names of fields if it has them all, otherwise in its order."""
    if isinstance(value, Mapping):
        return [value.get(name) for name in type_.names]
    if isinstance(value, Row):
        return named_parts(value, type_.names)
    if isinstance(value, tuple | list):
        return value
    return [getattr(value, name) for name in type_.names]


def _nanos(value: Any, type_: TimestampType | LocalZonedTimestampType) -> int:
    """Return the nanoseconds of a time, without the digits that its type has not."""
    if isinstance(value, int):  # nanoseconds already
        return value
    if type(value).__name__ == "Timestamp":  # of pandas, with nanoseconds
        nanos = int(value.value)
    else:
        span = value - (_EPOCH if value.tzinfo is None else _UTC_EPOCH)
        nanos = (span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds) * 1000
    return truncated(nanos, type_.precision)


def _runs(value: Any) -> tuple[tuple[int, int], ...]:
    if isinstance(value, Bitmap):
        return value.runs
    if isinstance(value, bytes):
        return tuple(struct.iter_unpack("<II", value))
    return runs_of(value)


_AS_THEY_ARE = frozenset(
    {
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "CHAR", "VARCHAR", "BINARY",
        "VARBINARY", "INTERVAL_YEAR_MONTH",
    }
)  # fmt: skip
"""Types whose internal values are those that users see."""


def to_python(array: Any, type_: LogicalType) -> list[Any]:
    """Return the values of a column as users see them."""
    if type_.root in _AS_THEY_ARE:
        return to_internal(array, type_)
    return [python_value(each, type_) for each in to_internal(array, type_)]


_AS_GIVEN = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "CHAR", "VARCHAR"})
"""Types whose internal values are those that users pass."""


def from_python(values: Iterable[Any], type_: LogicalType) -> Any:
    """Return the column of users' values."""
    if type_.root in _AS_GIVEN:
        given = list(values)
        try:
            return from_internal(given, type_)
        except TypeError:  # of Arrow, for True and False among whole numbers
            return from_internal([internal_value(each, type_) for each in given], type_)
    return from_internal([internal_value(each, type_) for each in values], type_)


def in_precision(column: Any, type_: LogicalType) -> Any:
    """Return a column of times without the digits that their type has not; others as they are."""
    if not isinstance(type_, TimestampType | LocalZonedTimestampType) or type_.precision >= 6:
        return column
    import pyarrow.compute as pc  # noqa: PLC0415 - only where whole columns are made

    return pc.floor_temporal(column, 10 ** (6 - type_.precision), "microsecond")


# ---- Rows as text: as ``print`` sinks write them (Java's ``toString``), and as results are displayed (SQL's casts
# to text).


_ONE_SECOND = datetime.timedelta(seconds=1)


def java_row(row: Row, types: Iterable[Any] = ()) -> str:
    """Return the text of a row by Flink's ``Row.toString()``; ``types`` tell FLOAT from DOUBLE.

    >>> java_row(Row("a", None, 1.0, [True], {"k": datetime.date(2024, 2, 3)}))
    '+I[a, null, 1.0, [true], {k=2024-02-03}]'
    """
    kinds = [*types]
    texts = [java_text(value, kinds[index] if index < len(kinds) else None) for index, value in enumerate(row)]
    return f"{row.get_row_kind()}[{', '.join(texts)}]"


def java_text(value: Any, type_: Any = None) -> str:
    """Return the text of a value by Java's ``toString``.

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
    return java_time(value)


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


def _zeroed(value: float) -> str:
    text = _double(value)
    return f"-{text}" if value == 0 and str(value).startswith("-") and not text.startswith("-") else text


def _decimal(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    return format(value, "f") if isinstance(exponent, int) and exponent <= 0 and value.adjusted() >= -6 else str(value)


# ---- annotations


_OF_PYTHON: dict[Any, LogicalType] = {
    int: BigIntType(), float: DoubleType(), str: STRING, bytes: BYTES, bool: BooleanType(),
    datetime.datetime: TimestampType(6), datetime.date: DateType(), datetime.time: TimeOfDayType(0), Decimal: DecimalType(38, 18),
}  # fmt: skip


def type_of_annotation(annotation: Any) -> LogicalType | None:
    """Return the type of an annotation of Python; ``None`` if it says nothing.

    >>> print(type_of_annotation(list[int]))
    ARRAY<BIGINT>
    """
    if annotation in _OF_PYTHON:
        return _OF_PYTHON[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, Sequence, Iterable, Iterator) and args:
        element = type_of_annotation(args[0])
        return None if element is None else ArrayType(element)
    if origin is dict and len(args) == 2:
        key, value = map(type_of_annotation, args)
        return None if key is None or value is None else MapType(key, value)
    if args and type(None) in args:
        [inner] = [arg for arg in args if arg is not type(None)][:1] or [None]
        return type_of_annotation(inner)
    return None


# ---- SQL


def sql_text(value: Any, type_: Any = None, null: str = "<NULL>", zone: str = "UTC") -> str:
    """Return the text of a value as results show it: SQL's cast to text, with ``<NULL>`` on its own.

    ``zone`` is the session's time zone, in which instants are shown.

    >>> sql_text(True), sql_text([1, None]), sql_text(None), sql_text(Row(1, "a"))
    ('TRUE', '[1, NULL]', '<NULL>', '(1, a)')
    """
    return null if value is None else _sql(value, type_, zone)


def _sql(value: Any, type_: Any, zone: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Row):
        types = _field_types(type_, value)
        return f"({', '.join(_sql(item, kind, zone) for item, kind in zip(value, types, strict=False))})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_sql(item, _inner(type_, 'element'), zone) for item in value)}]"
    if isinstance(value, dict):
        kinds = _inner(type_, "key"), _inner(type_, "value")
        return f"{{{', '.join('='.join(map(_sql, pair, kinds, (zone, zone))) for pair in value.items())}}}"
    if isinstance(value, bytes | bytearray):
        return f"x'{bytes(value).hex()}'"
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(zone_of(zone))
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


# ---- Views: lists and maps as parts of accumulators, with the names of Flink's methods.


class ListView(list):  # type: ignore[type-arg]
    """A list as part of an accumulator.

    >>> view = ListView()
    >>> view.add(1)
    >>> view.get()
    [1]
    """

    def add(self, value: Any) -> None:
        """Append a value."""
        self.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append values."""
        self.extend(values)

    def get(self) -> list[Any]:
        """Return the values."""
        return list(self)

    def clear(self) -> None:
        """Remove all values."""
        del self[:]


class _Removable(Iterator[Any]):
    """Goes over a map as it was at first; what it gave last may be removed from the map."""

    def __init__(self, data: dict[Any, Any], given: Iterable[Any]) -> None:
        self._data = data
        self._pairs = iter(list(zip(data, given, strict=True)))
        self._key: Any = None

    def __next__(self) -> Any:
        self._key, found = next(self._pairs)
        return found

    def remove(self) -> None:
        """Remove what was given last."""
        self._data.pop(self._key, None)


class MapView(UserDict[Any, Any]):
    """A map as part of an accumulator.

    >>> view = MapView()
    >>> view.put("a", 1)
    >>> view.contains("a"), view.is_empty()
    (True, False)
    """

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self[key] = value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key."""
        return self.data.get(key, default)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set several values."""
        self.update(dict_value)

    def items(self) -> Any:
        """Return the keys with their values."""
        return _Removable(self.data, self.data.items())

    def keys(self) -> Any:
        """Return the keys; ``remove()`` of their iterator removes the last one that it gave."""
        return _Removable(self.data, self.data)

    def values(self) -> Any:
        """Return the values."""
        return _Removable(self.data, self.data.values())

    def clear(self) -> None:
        """Remove all keys."""
        self.data.clear()

    def remove(self, key: Any) -> None:
        """Remove a key."""
        self.pop(key, None)

    def contains(self, key: Any) -> bool:
        """Return True if a key is there."""
        return key in self

    def is_empty(self) -> bool:
        """Return True if there is no key."""
        return not self
