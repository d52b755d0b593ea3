"""How values become the fields of delimited text, as Flink (Jackson) writes them, and back; `csv_schema.py` makes lines of them.

A value that its type has no place for, or that would be read as another one, is refused with ``ValueError``.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import functools
import numbers
import operator
import typing
from collections.abc import Callable
from typing import Any

from funken import extras
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.types import parsing
from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    DecimalTypeInfo,
    OfElements,
    RowTypeInfo,
    TupleTypeInfo,
    Types,
)
from funken.types.instants import Instant
from funken.types.parsing import shown
from funken.types.text import written


@dataclass(frozen=True)
class TextColumn:
    """A column of text: its type of Arrow, and what it was declared as (``None``: no more than that).

    >>> import pyarrow as pa
    >>> TextColumn(pa.list_(pa.int64()), list[int]).parts
    {'item': TextColumn(kind=DataType(int64), declared=<class 'int'>)}
    """

    kind: Any
    declared: Any = None

    @property
    def is_list(self) -> bool:
        """Whether values are lists."""
        return bool(extras.load("pyarrow.types").is_list(self.kind))

    @property
    def parts(self) -> dict[str, TextColumn]:
        """The columns within: of a list its elements, of a row its fields; none of a single value."""
        if not (self.is_list or extras.load("pyarrow.types").is_struct(self.kind)):
            return {}
        fields = [self.kind.field(number) for number in range(self.kind.num_fields)]
        declared = _declared_within(self.declared) or [None] * len(fields)
        return {each.name: TextColumn(each.type, of) for each, of in zip(fields, declared, strict=True)}

    @functools.cached_property
    def single(self) -> str:
        """Which single value it has: ``instant``, ``zoned``, or what Arrow calls it; nothing if it has no such."""
        if self.declared in (BasicTypeInfo(BasicType.INSTANT), Instant):
            return "instant"
        of = extras.load("pyarrow.types")
        names = ("string", "boolean", "integer", "floating", "decimal", "timestamp", "date", "time", "binary")
        found = next((name for name in names if getattr(of, f"is_{name}")(self.kind)), "")
        if found == "decimal" and self.declared == BasicTypeInfo(BasicType.BIG_INT):
            return "integer"
        return "zoned" if found == "timestamp" and self.kind.tz is not None else found

    @property
    def limits(self) -> tuple[int, int] | None:
        """The lowest and the highest whole number; ``None``: there are none."""
        of = extras.load("pyarrow.types")
        if self.declared is int or not of.is_integer(self.kind):
            return None
        return parsing.limits(self.kind.bit_width, of.is_signed_integer(self.kind))

    @property
    def digits(self) -> int | None:
        """How many digits decimals have after the point, if that is declared."""
        if isinstance(self.declared, DecimalTypeInfo):
            return self.declared.scale
        of_arrow = self.declared is None and extras.load("pyarrow.types").is_decimal(self.kind)
        return self.kind.scale if of_arrow and (self.kind.precision, self.kind.scale) != (38, 18) else None


def _declared_within(declared: Any) -> list[Any]:
    """Return what the parts of lists and rows are declared as; nothing if that cannot be told."""
    if isinstance(declared, OfElements):
        return [declared.element_type]
    if isinstance(declared, RowTypeInfo | TupleTypeInfo):
        return list(declared.field_types)
    return [typing.get_args(declared)[0]] if typing.get_origin(declared) is list else []


# ---- text as values


def parser_of(column: TextColumn) -> Callable[[str], Any]:
    """Return what makes values of text; raises ``InvalidProgram`` for a type that no text has.

    >>> import pyarrow as pa
    >>> parser_of(TextColumn(pa.int8()))("7"), parser_of(TextColumn(pa.bool_()))("TRUE"), parser_of(TextColumn(pa.string()))("a")
    (7, True, 'a')
    """
    single = column.single
    if single == "integer":
        if column.limits is None:
            return parsing.whole_number(None)
        of = extras.load("pyarrow.types")
        return parsing.whole_number(column.kind.bit_width, of.is_signed_integer(column.kind))
    if single == "floating":
        is_double = extras.load("pyarrow.types").is_float64(column.kind)
        return parsing.real_number if is_double else parsing.single_number
    if single == "decimal" and column.digits is not None:
        of_digits = rounded(column.digits)
        return lambda text: of_digits(parsing.decimal_number(text))
    if single == "timestamp" and column.declared is datetime.datetime:
        return parsing.datetime_of
    parse: Callable[[str], Any] | None = _PARSERS.get(single)
    if parse is None:
        raise InvalidProgram(
            f"CsvSchema: a field of text cannot be {column.kind}; declare numbers, text, dates, or lists or rows of them."
        )
    return parse


def _zoned(text: str) -> datetime.datetime:
    value = parsing.datetime_of(text)
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str, "boolean": parsing.boolean, "decimal": parsing.decimal_number, "timestamp": parsing.timestamp_of,
    "zoned": _zoned, "date": parsing.date_of, "time": parsing.time_of, "instant": parsing.instant_of,
    "binary": lambda text: base64.b64decode(text, validate=True),
}  # fmt: skip


# ---- values as text


@dataclass(frozen=True)
class ValueTexts:
    """How the values of a column are written: what is between the elements of lists and rows, and what stands for ``None``.

    >>> import pyarrow as pa
    >>> prices = ValueTexts(";", "-").writer(TextColumn(pa.list_(pa.float64())), quoted=repr)
    >>> prices([1e10, 0.5, None]), prices(None)
    ("'1.0E10;0.5;-'", '-')
    """

    delimiter: str
    literal: str | None

    @property
    def null(self) -> str:
        """What is written for ``None``."""
        return self.literal or ""

    def writer(self, column: TextColumn, quoted: Callable[[str], str]) -> Callable[[Any], str]:
        """Return what writes a value of a column; numbers, booleans and nulls are never quoted."""
        if column.parts:
            return self._joined(column, quoted)
        single, null = column.single, self.null
        if single == "string":

            def text(value: Any) -> str:
                return quoted(value) if type(value) is str else null if value is None else _as_text(value, quoted)

            return text
        if single == "integer":
            return self._whole(column)
        if single == "floating":
            return self._real(extras.load("pyarrow.types").is_float64(column.kind))
        write = _decimal_writer(column.digits) if single == "decimal" else _WRITERS[single]
        if single == "timestamp" and column.declared is datetime.datetime:
            write = _datetime_text
        if single in ("decimal", "boolean"):
            return lambda value: null if value is None else write(value)
        return lambda value: null if value is None else quoted(write(value))

    def _whole(self, column: TextColumn) -> Callable[[Any], str]:
        null, limits = self.null, column.limits
        low, high = limits or (0, -1)

        def number(value: Any) -> str:
            # Hot: what most values are.
            if type(value) is int and low <= value <= high:
                return str(value)
            if value is None:
                return null
            try:
                whole = None if isinstance(value, bool) else operator.index(value)
            except TypeError:
                whole = None
            if whole is None or not (limits is None or low <= whole <= high):
                raise ValueError(f"{shown(value)} is no whole number of {column.kind}")
            return str(whole)

        return number

    def _real(self, is_double: bool) -> Callable[[Any], str]:
        null, show = self.null, written(Types.DOUBLE() if is_double else Types.FLOAT())

        def number(value: Any) -> str:
            if is_double and type(value) is float and (1e-3 <= value < 1e7 or -1e7 < value <= -1e-3):
                return repr(value)  # as Java's; the others take ten times as long
            if value is None:
                return null
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise ValueError(f"{shown(value)} is no number")
            return show(float(value) if is_double else parsing.single(float(value)))

        return number

    def _joined(self, column: TextColumn, quoted: Callable[[str], str]) -> Callable[[Any], str]:
        writers, null, delimiter = [self.writer(each, str) for each in column.parts.values()], self.null, self.delimiter

        def joined(value: Any) -> str:
            if value is None:
                return null
            if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
                raise ValueError(f"{shown(value)} is no list")
            values = list(value.values() if isinstance(value, dict) else value)
            each = writers * len(values) if column.is_list else writers
            texts = [write(one) for write, one in zip(each, values, strict=True)]
            text = delimiter.join(texts)
            if text.count(delimiter) != max(0, len(texts) - 1):
                raise ValueError(
                    f"{shown(value)} has the delimiter {delimiter!r} within a part; choose another array_delimiter"
                )
            if text == null if texts else self.literal in (None, ""):
                raise ValueError(f"{shown(value)} would be read as None; set another null_literal")
            return quoted(text)

        return joined


def _as_text(value: Any, quoted: Callable[[str], str]) -> str:
    """Write a value of a column of text that is none: by what it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date | datetime.time):
        return quoted(value.isoformat())
    if isinstance(value, bytes | bytearray):
        return quoted(base64.b64encode(value).decode())
    return str(value) if isinstance(value, numbers.Number) else quoted(str(value))


def _decimal_writer(digits: int | None) -> Callable[[Any], str]:
    of_digits = None if digits is None else rounded(digits)

    def number(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, decimal.Decimal | int):
            raise ValueError(f"{shown(value)} is no decimal number")
        found = decimal.Decimal(value)
        return parsing.decimal_text(found if of_digits is None or not found.is_finite() else of_digits(found))

    return number


def _of(
    kind: type | tuple[type, ...], show: Callable[[Any], str], but: type | tuple[type, ...] = ()
) -> Callable[[Any], str]:
    """Return what writes values of a type, and refuses others."""
    name = kind.__name__ if isinstance(kind, type) else kind[0].__name__

    def write(value: Any) -> str:
        if not isinstance(value, kind) or isinstance(value, but):
            raise ValueError(f"{shown(value)} is no {name}")
        return show(value)

    return write


def _time_text(value: datetime.time) -> str:
    if value.tzinfo is not None:
        raise ValueError(f"{value!r} has a zone, and times of day have none; leave it out")
    return value.isoformat()


def _instant_text(value: Any) -> str:
    return parsing.instant_text(value if isinstance(value, Instant) else parsing.instant_of_datetime(value))


_datetime_text = _of(datetime.datetime, datetime.datetime.isoformat)
_WRITERS: dict[str, Callable[[Any], str]] = {
    "boolean": _of(bool, lambda value: "true" if value else "false"),
    "timestamp": _of(datetime.datetime, lambda value: parsing.without_zone(value).isoformat()),
    "zoned": _of(datetime.datetime, _instant_text),
    "date": _of(datetime.date, datetime.date.isoformat, but=datetime.datetime),
    "time": _of(datetime.time, _time_text),
    "instant": _of((Instant, datetime.datetime), _instant_text),
    "binary": _of((bytes, bytearray, memoryview), lambda value: base64.b64encode(value).decode()),
}


def rounded(digits: int) -> Callable[[Any], decimal.Decimal]:
    """Return what makes decimals with so many digits after the point, and rounds half up.

    >>> rounded(0)("1.5"), rounded(2)(3)
    (Decimal('2'), Decimal('3.00'))
    """
    step = decimal.Decimal(1).scaleb(-digits)
    context = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)

    def quantized(value: Any) -> decimal.Decimal:
        try:
            return decimal.Decimal(value).quantize(step, context=context)
        except decimal.InvalidOperation:
            raise ValueError(f"{shown(value)} is beyond decimal numbers of {digits} digits after the point") from None

    return quantized


__all__ = ["TextColumn", "ValueTexts", "parser_of", "rounded"]
