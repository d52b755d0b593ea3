"""SQL's values as Python has them inside functions, and Arrow's arrays of them.

Inside, a value is exact and plain: DATE is days since 1970, TIME milliseconds, TIMESTAMP and TIMESTAMP_LTZ nanoseconds,
intervals are milliseconds or months, DECIMAL is ``Decimal``, ARRAY a list, MAP and MULTISET a list of pairs, ROW a tuple,
BITMAP a tuple of runs ``(first, last)``, VARIANT a ``VariantValue``; NULL is ``None``. What users see is made at the edges.
"""

from __future__ import annotations

import datetime
import json
import math
import pickle
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import pairwise
from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import Literal
from funken.expr.rules import EvaluationError, InvalidCall
from funken.expr.sql.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BitmapType,
    BooleanType,
    CharType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    IntType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    RawType,
    RowType,
    StructuredType,
    SymbolType,
    TimeOfDayType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
    arrow_type,
    is_timestamp,
)

EXACT = Context(prec=100, rounding=ROUND_HALF_UP)


@dataclass(frozen=True)
class VariantValue:
    """A value with its own type: ``type`` is OBJECT (pairs), ARRAY (list), NULL, or the root of a type of SQL."""

    type: str
    value: Any = None

    def tree(self) -> Any:
        """Return a value that JSON can write."""
        if self.type == "OBJECT":
            return [self.type, [[key, each.tree()] for key, each in self.value]]
        if self.type == "ARRAY":
            return [self.type, [each.tree() for each in self.value]]
        value = self.value
        if isinstance(value, Decimal):
            value = str(value)
        elif isinstance(value, bytes):
            value = value.hex()
        return [self.type, value]

    @classmethod
    def of(cls, tree: Any) -> VariantValue:
        """Return the value of a tree."""
        kind, value = tree
        if kind == "OBJECT":
            return cls(kind, tuple((key, cls.of(each)) for key, each in value))
        if kind == "ARRAY":
            return cls(kind, tuple(cls.of(each) for each in value))
        if kind.startswith("DECIMAL"):
            value = Decimal(value)
        elif kind in {"BYTES", "BINARY"}:
            value = bytes.fromhex(value)
        return cls(kind, value)


def pack(value: Any, type_: LogicalType) -> bytes:
    """Return the bytes of a value whose column Arrow has no type for."""
    if isinstance(type_, BitmapType):
        return b"".join(struct.pack("<II", *run) for run in value)
    if isinstance(type_, VariantType):
        return json.dumps(value.tree()).encode()
    return pickle.dumps(value, 4)


def unpack(data: bytes, type_: LogicalType) -> Any:
    """Return the value of ``pack``."""
    if isinstance(type_, BitmapType):
        return tuple(struct.iter_unpack("<II", data))
    if isinstance(type_, VariantType):
        return VariantValue.of(json.loads(data))
    return pickle.loads(data)


def fit(value: Decimal, type_: DecimalType) -> Decimal | None:
    """Return a decimal rounded half up to the scale of a type; ``None`` if it has too many digits.

    >>> fit(Decimal("1.25"), DecimalType(2, 1)), fit(Decimal("12345"), DecimalType(3, 0))
    (Decimal('1.3'), None)
    """
    if not value.is_finite():
        return None
    if value.adjusted() >= MAX_DIGITS:
        return None
    rounded = value.quantize(_STEPS[type_.scale], context=EXACT)
    return None if rounded and rounded.adjusted() >= type_.precision - type_.scale else rounded


MAX_DIGITS = 60
_STEPS = [Decimal(1).scaleb(-scale) for scale in range(39)]


def wrap(value: int, bits: int) -> int:
    """Return an integer of so many bits, wrapped around as processors do.

    >>> wrap(2147483648, 32), wrap(300, 8)
    (-2147483648, 44)
    """
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def single(value: Any) -> float:
    """Return the nearest number of 32 bits.

    >>> single(0.1), single(1e39)
    (0.10000000149011612, inf)
    """
    number = float(value)
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


_SINGLE = struct.Struct("<f")


def shortest_single(value: float) -> str:
    """Return the fewest digits that only one number of 32 bits is nearest to.

    >>> shortest_single(single(0.1)), shortest_single(single(16777217))
    ('0.1', '16777216')
    """
    return next(
        (text for text in (f"{value:.{digits}g}" for digits in range(1, 9)) if single(text) == value), f"{value:.9g}"
    )


# -- Arrow


def whole(array: Any) -> Any:
    """Return one array of possible chunks."""
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
        if hasattr(array, "chunks"):  # an older PyArrow leaves the chunks of an empty column
            import pyarrow as pa

            return pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def is_scalar(column: Any) -> bool:
    """Return True if a computed node is one value for all rows."""
    import pyarrow as pa

    return isinstance(column, pa.Scalar)


def scalar_of(value: Any, type_: LogicalType) -> Any:
    """Return the Arrow scalar of a value."""
    return from_internal([value], type_)[0]


def broadcast(column: Any, rows: int, type_: LogicalType) -> Any:
    """Return a column of so many rows."""
    if not is_scalar(column):
        return column
    import pyarrow as pa

    if rows == 1 or not pa.types.is_nested(column.type):
        return pa.repeat(column, rows)
    return from_internal(to_internal(column, type_) * rows, type_)


def to_internal(column: Any, type_: LogicalType) -> list[Any]:
    """Return the values of a column; of a scalar, the one value."""
    import pyarrow as pa

    if isinstance(column, pa.Scalar):
        column = (
            pa.array([column.as_py()], column.type) if not pa.types.is_nested(column.type) else pa.repeat(column, 1)
        )
    column = whole(column)
    if isinstance(type_, NullType) or pa.types.is_null(column.type):
        return [None] * len(column)
    reader = _READERS.get(type(type_))
    if reader is not None:
        found: list[Any] = reader(column, type_)
        return found
    if is_timestamp(type_):
        factor = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[column.type.unit]
        values = column.view("int64").to_pylist()
        return values if factor == 1 else [each if each is None else each * factor for each in values]
    plain: list[Any] = column.to_pylist()
    return plain


def _days(column: Any, type_: LogicalType) -> list[Any]:
    return column.view("int32").to_pylist()  # type: ignore[no-any-return]


def _millis(column: Any, type_: LogicalType) -> list[Any]:
    import pyarrow as pa

    return column.cast(pa.time32("ms")).view("int32").to_pylist()  # type: ignore[no-any-return]


def _packed(column: Any, type_: LogicalType) -> list[Any]:
    return [each if each is None else unpack(each, type_) for each in column.to_pylist()]


def _normal(column: Any) -> Any:
    """Return a nested column that is no slice."""
    import pyarrow as pa

    return column if column.offset == 0 else column.take(pa.array(range(len(column)), pa.int64()))


def _list(column: Any, type_: LogicalType) -> list[Any]:
    assert isinstance(type_, ArrayType)
    column = _normal(column)
    values = to_internal(column.values, type_.element)
    offsets = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    return [values[offsets[row] : offsets[row + 1]] if there else None for row, there in enumerate(valid)]


def _pairs(column: Any, type_: LogicalType) -> list[Any]:
    from funken.expr.sql.types import IntType

    column = _normal(column)
    key, value = (type_.key, type_.value) if isinstance(type_, MapType) else (type_.element, IntType())  # type: ignore[attr-defined]
    pairs = list(zip(to_internal(column.keys, key), to_internal(column.items, value), strict=True))
    offsets = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    return [pairs[offsets[row] : offsets[row + 1]] if there else None for row, there in enumerate(valid)]


def _tuples(column: Any, type_: LogicalType) -> list[Any]:
    assert isinstance(type_, RowType)
    valid = column.is_valid().to_pylist()
    fields = [to_internal(each, of) for each, of in zip(column.flatten(), type_.types, strict=True)]
    rows = zip(*fields, strict=True) if fields else [()] * len(column)
    return [row if there else None for row, there in zip(rows, valid, strict=True)]


_READERS: dict[type, Callable[[Any, LogicalType], list[Any]]] = {
    DateType: _days,
    TimeOfDayType: _millis,
    BitmapType: _packed,
    VariantType: _packed,
    RawType: _packed,
    ArrayType: _list,
    MapType: _pairs,
    MultisetType: _pairs,
    RowType: _tuples,
    StructuredType: _tuples,
}


def from_internal(values: Iterable[Any], type_: LogicalType) -> Any:
    """Return a column of these values."""
    import pyarrow as pa

    given = values if isinstance(values, list) else list(values)
    arrow = arrow_type(type_)
    if isinstance(type_, DecimalType):
        return pa.array([each if each is None else fit(each, type_) for each in given], arrow)
    if isinstance(type_, DateType | TimeOfDayType) or is_timestamp(type_):
        if getattr(arrow, "unit", "") == "us":
            given = [each if each is None else each // 1000 for each in given]
        try:
            return pa.array(given, f"int{arrow.bit_width}").view(arrow)
        except (pa.ArrowInvalid, OverflowError):
            nanos = ", to which nanoseconds are kept; take a precision of 6"
            years = f"1677 to 2262{nanos}" if getattr(arrow, "unit", "") == "ns" else "-290,000 to 290,000"
            raise EvaluationError(f"a {type_.nullable()} is outside of the years {years}") from None
    if isinstance(type_, BitmapType | VariantType | RawType):
        return pa.array([each if each is None else pack(each, type_) for each in given], arrow)
    if isinstance(type_, ArrayType):
        return _of_lists(given, type_)
    if isinstance(type_, MapType | MultisetType):
        return _of_pairs(given, type_)
    if isinstance(type_, RowType):
        return _of_tuples(given, type_, arrow)
    if isinstance(type_, FloatType):
        return pa.array([each if each is None else single(each) for each in given], arrow)
    try:
        return pa.array(given, arrow)
    except UnicodeEncodeError:  # half of a pair of UTF-16, which Java writes as a question mark
        return pa.array([each and each.encode("utf-8", "replace").decode() for each in given], arrow)


def _offsets(given: Sequence[Any]) -> tuple[Any, Any]:
    import pyarrow as pa

    offsets, total = [0], 0
    for each in given:
        total += len(each) if each is not None else 0
        offsets.append(total)
    return pa.array(offsets, pa.int32()), pa.array([each is None for each in given], pa.bool_())


def _of_lists(given: list[Any], type_: ArrayType) -> Any:
    import pyarrow as pa

    offsets, mask = _offsets(given)
    flat = [value for each in given if each is not None for value in each]
    return pa.ListArray.from_arrays(offsets, from_internal(flat, type_.element), mask=mask)


def _of_pairs(given: list[Any], type_: LogicalType) -> Any:
    import pyarrow as pa

    from funken.expr.sql.types import IntType

    key, value = (type_.key, type_.value) if isinstance(type_, MapType) else (type_.element, IntType())  # type: ignore[attr-defined]
    offsets, mask = _offsets(given)
    pairs = [pair for each in given if each is not None for pair in each]
    keys, items = from_internal([pair[0] for pair in pairs], key), from_internal([pair[1] for pair in pairs], value)
    if keys.null_count:  # a process that makes such a column aborts
        raise EvaluationError(f"a key of a {type_.nullable()} is NULL, which columns cannot hold; filter it out before")
    return pa.MapArray.from_arrays(offsets, keys, items, mask=mask)


def _of_tuples(given: list[Any], type_: RowType, arrow: Any) -> Any:
    import pyarrow as pa

    mask = pa.array([each is None for each in given], pa.bool_())
    children = [
        from_internal([None if each is None else each[position] for each in given], field.type)
        for position, field in enumerate(type_.fields)
    ]
    if not children:
        return pa.array([None if each is None else {} for each in given], arrow)
    return pa.StructArray.from_arrays(children, fields=list(arrow), mask=mask)


def integral_bounds(type_: IntegralType) -> tuple[int, int]:
    """Return the smallest and the largest integer of a type."""
    half = 1 << (type_.bits - 1)
    return -half, half - 1


def is_boolean(type_: LogicalType) -> bool:
    """Return True if a type is BOOLEAN."""
    return isinstance(type_, BooleanType)


def key_of(value: Any, type_: LogicalType) -> Any:
    """Return a key that is equal, and hashes alike, exactly for equal values: lists, pairs in any order, rows, NaN.

    >>> from funken.expr.sql.types import parse_type
    >>> type_ = parse_type("MAP<STRING, INT>")
    >>> key_of([("a", 1), ("b", 2)], type_) == key_of([("b", 2), ("a", 1)], type_)
    True
    """
    if value is None:
        return None
    if isinstance(type_, ArrayType):
        return tuple(key_of(each, type_.element) for each in value)
    if isinstance(type_, MapType):
        return frozenset((key_of(key, type_.key), key_of(each, type_.value)) for key, each in value)
    if isinstance(type_, MultisetType):
        return frozenset((key_of(key, type_.element), count) for key, count in value)
    if isinstance(type_, RowType):
        return tuple(key_of(each, of) for each, of in zip(value, type_.types, strict=True))
    if isinstance(value, float):
        return "NaN" if value != value else value
    return value


# ---- Constants of SQL: their texts, and the types that they have.


SECONDS = DayTimeIntervalType("SECOND", 2, 3)
"""The type of every interval of days and times in an expression."""
MONTHS = YearMonthIntervalType("MONTH")
"""The type of every interval of years and months in an expression."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_EPOCH_TIME = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
_DAY = 86_400_000_000_000
_DATE = re.compile(r"\s*(\d{1,9})-(\d{1,2})-(\d{1,2})\s*")
_TIME = re.compile(r"\s*(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?\s*")
MILLIS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970; a date that does not exist raises ``ValueError``."""
    return datetime.date(year, month, day).toordinal() - _EPOCH


def null(type_: LogicalType | None = None) -> Literal:
    """Return NULL, of a type if one is known."""
    return Literal(None, type=(type_ or NullType()).nullable())


def symbol(word: str) -> Literal:
    """Return a word of the syntax, as the unit of EXTRACT is."""
    return Literal(word.upper(), type=SymbolType(is_nullable=False))


def number_literal(text: str) -> Literal:
    """Return the constant of a number as it is written.

    >>> [str(number_literal(text).type) for text in ("5", "3000000000", "1.50", "1e3")]
    ['INT NOT NULL', 'BIGINT NOT NULL', 'DECIMAL(3, 2) NOT NULL', 'DOUBLE NOT NULL']
    """
    if re.search("[eE]", text):
        number = float(text) + 0.0  # no -0.0
        if math.isinf(number):
            raise InvalidCall(f"Numeric literal '{text}' out of range: the greatest DOUBLE is 1.8E308")
        return Literal(number, type=DoubleType(is_nullable=False))
    if "." in text:
        whole, fraction = text.split(".")
        if not fraction:
            return number_literal(whole)
        digits = len(whole.lstrip("-")) + len(fraction)
        if digits > 38:
            raise InvalidCall(f"Numeric literal '{text}' out of range: DECIMAL has 38 digits")
        return Literal(Decimal(text), type=DecimalType(digits, len(fraction), is_nullable=False))
    value = int(text)
    if -(2**31) <= value < 2**31:
        return Literal(value, type=IntType(is_nullable=False))
    if -(2**63) <= value < 2**63:
        return Literal(value, type=BigIntType(is_nullable=False))
    digits = len(text.lstrip("-"))
    if digits > 38:
        raise InvalidCall(f"Numeric literal '{text}' out of range: DECIMAL has 38 digits")
    return Literal(Decimal(text), type=DecimalType(digits, 0, is_nullable=False))


def literal(value: Any) -> Literal:
    """Return the constant of a Python value, as ``lit`` of the Table API does.

    >>> [str(literal(value).type) for value in (1, 2**40, "abc", True, None, Decimal("1.5"))]
    ['INT NOT NULL', 'BIGINT NOT NULL', 'CHAR(3) NOT NULL', 'BOOLEAN NOT NULL', 'NULL', 'DECIMAL(2, 1) NOT NULL']
    """
    match value:
        case None:
            return null()
        case bool():
            return Literal(value, type=BooleanType(is_nullable=False))
        case int():
            return number_literal(str(value))
        case float():
            return Literal(value, type=DoubleType(is_nullable=False))
        case str():
            return Literal(value, type=CharType(len(value), is_nullable=False))
        case bytes() | bytearray():
            return Literal(bytes(value), type=BinaryType(len(value), is_nullable=False))
        case Decimal():
            exponent = -int(value.as_tuple().exponent)
            scale = max(exponent, 0)
            precision = max(len(value.as_tuple().digits) - min(exponent, 0), scale, 1)
            return Literal(
                value.quantize(Decimal(1).scaleb(-scale), context=EXACT),
                type=DecimalType(precision, scale, is_nullable=False),
            )
        case _:
            return _time_value(value)


def _time_value(value: Any) -> Literal:
    match value:
        case datetime.datetime():
            aware = value.tzinfo is not None
            naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if aware else value
            span = naive - _EPOCH_TIME
            nanos = (span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds) * 1000
            kind: LogicalType = (
                LocalZonedTimestampType(6, is_nullable=False) if aware else TimestampType(6, is_nullable=False)
            )
            return Literal(nanos, type=kind)
        case datetime.date():
            return Literal(value.toordinal() - _EPOCH, type=DateType(is_nullable=False))
        case datetime.time():
            millis = (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000
            return Literal(millis, type=TimeOfDayType(3 if value.microsecond else 0, is_nullable=False))
        case datetime.timedelta():
            return Literal(value // datetime.timedelta(milliseconds=1), type=SECONDS.not_null())
        case _:
            raise InvalidCall(f"a {type(value).__name__} is no constant of SQL: {value!r}")


def date_literal(text: str) -> Literal:
    """Return ``DATE '2020-01-31'``."""
    match = _DATE.fullmatch(text)
    try:
        if match:
            return Literal(days_of(*map(int, match.groups())), type=DateType(is_nullable=False))
    except ValueError:
        pass
    raise InvalidCall(f"Illegal DATE literal '{text}': not in format 'yyyy-MM-dd'")


def _time_of(match: re.Match[str]) -> tuple[int, int]:
    """Return nanoseconds of the day and the digits of the fraction."""
    hour, minute, second = (int(each) for each in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(match.group())
    fraction = match.group(4) or ""
    return (hour * 3600 + minute * 60 + second) * 10**9 + int(fraction.ljust(9, "0") or 0), len(fraction)


def time_literal(text: str) -> Literal:
    """Return ``TIME '10:00:00'``; its precision is that of its digits."""
    match = _TIME.fullmatch(text)
    try:
        if match:
            nanos, digits = _time_of(match)
            return Literal(nanos // 1_000_000, type=TimeOfDayType(digits, is_nullable=False))
    except ValueError:
        pass
    raise InvalidCall(f"Illegal TIME literal '{text}': not in format 'HH:mm:ss'")


def timestamp_literal(text: str) -> Literal:
    """Return ``TIMESTAMP '2020-01-31 10:00:00.123'``; its precision is that of its digits. A day alone is its beginning."""
    day, _, time = text.strip().replace("T", " ").partition(" ")
    match, clock = _DATE.fullmatch(day), _TIME.fullmatch(time or "00:00:00")
    try:
        if match and clock:
            nanos, digits = _time_of(clock)
            return Literal(
                days_of(*map(int, match.groups())) * _DAY + nanos, type=TimestampType(digits, is_nullable=False)
            )
    except ValueError:
        pass
    raise InvalidCall(f"Illegal TIMESTAMP literal '{text}': not in format 'yyyy-MM-dd HH:mm:ss'")


_SEPARATORS = {("YEAR", "MONTH"): "-", ("DAY", "HOUR"): " ", ("HOUR", "MINUTE"): ":", ("MINUTE", "SECOND"): ":"}
_CHAIN = ("DAY", "HOUR", "MINUTE", "SECOND")


def interval_literal(text: str, first: str, last: str | None = None, negative: bool = False) -> Literal:
    """Return ``INTERVAL '10 00:00:00.004' DAY TO SECOND``.

    >>> interval_literal("1-2", "YEAR", "MONTH").value, interval_literal("1 02:03:04.5", "DAY", "SECOND").value
    (14, 93784500)
    """
    first, last = first.upper().removesuffix("S"), (last or first).upper().removesuffix("S")
    body = text.strip()
    sign = -1 if negative else 1
    if body[:1] in {"-", "+"}:
        sign, body = sign * (-1 if body[0] == "-" else 1), body[1:].strip()
    units: tuple[str, ...] = ("YEAR", "QUARTER", "MONTH") if first in {"YEAR", "MONTH", "QUARTER"} else _CHAIN
    if first == "WEEK":
        return Literal(sign * int(body) * 7 * MILLIS["DAY"], type=SECONDS.not_null())
    if first in {"YEAR", "MONTH", "QUARTER"} and last in {"YEAR", "MONTH", "QUARTER"}:
        named = ["YEAR", "MONTH"] if first != last else [first]
        parts = body.split("-") if len(named) == 2 else [body]
        factors = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
        if len(parts) == len(named) and all(part.strip().isdigit() for part in parts):
            months = sum(int(part) * factors[unit] for part, unit in zip(parts, named, strict=True))
            return Literal(sign * months, type=MONTHS.not_null())
        raise InvalidCall(f"Illegal interval literal format '{text}' for INTERVAL {first} TO {last}")
    if first not in units or last not in units:
        raise InvalidCall(
            f"Illegal interval qualifier {first} TO {last}: units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE and SECOND"
        )
    chain = _CHAIN[_CHAIN.index(first) : _CHAIN.index(last) + 1]
    pattern = r"(\d+)" + "".join(_SEPARATORS[pair].replace(" ", r"\s+") + r"(\d+)" for pair in pairwise(chain))
    match = re.fullmatch(pattern + (r"(?:\.(\d+))?" if last == "SECOND" else ""), body)
    if match is None:
        raise InvalidCall(f"Illegal interval literal format '{text}' for INTERVAL {first} TO {last}")
    millis = sum(int(part) * MILLIS[unit] for part, unit in zip(match.groups(), chain, strict=False))
    fraction = (match.group(len(chain) + 1) or "") if last == "SECOND" else ""
    return Literal(sign * (millis + int(fraction[:3].ljust(3, "0") or 0)), type=SECONDS.not_null())
