"""The logical types of SQL: precision and nullability, their text both ways, their common type, their Arrow type.

A type is a frozen value: equal types are equal objects for ``==`` and ``hash``. ``str`` of a type is its summary
(``INT NOT NULL``), ``parse_type`` reads it back, ``arrow_type`` says what a column of it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Any, ClassVar, NoReturn, TypeVar

from funken.dataclass import dataclass
from funken.errors import FunkenError

MAX_LENGTH = 2147483647
MAX_PRECISION = 38
T = TypeVar("T", bound="LogicalType")


class InvalidType(FunkenError):
    """The text of a type, or its parameters, say nothing that exists."""


@dataclass(frozen=True)
class LogicalType:
    """A type with its nullability. Subclasses say the rest.

    >>> IntType(), IntType(is_nullable=False), IntType().not_null() == IntType(is_nullable=False)
    (INT, INT NOT NULL, True)
    """

    is_nullable: bool = field(default=True, kw_only=True)
    root: ClassVar[str] = ""
    family: ClassVar[str] = ""

    def summary(self) -> str:
        """Return the text without nullability."""
        return self.root

    def serializable(self) -> str:
        """Return the text that a statement says, without nullability: no ``STRING`` for ``VARCHAR(2147483647)``."""
        return self.summary()

    def sql(self) -> str:
        """Return the text that a statement says, nullability included."""
        return self.serializable() + ("" if self.is_nullable else " NOT NULL")

    def __str__(self) -> str:
        return self.summary() + ("" if self.is_nullable else " NOT NULL")

    __repr__ = __str__

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a type; in savepoints of before, the nullability has the name ``nullable``."""
        self.__dict__.update(state if "nullable" not in state else {"is_nullable": state["nullable"], **state})
        self.__dict__.pop("nullable", None)

    def not_null(self: T) -> T:
        """Return the type without NULL."""
        return self if not self.is_nullable else replace(self, is_nullable=False)

    def nullable(self: T, nullable: bool = True) -> T:
        """Return the type with or without NULL."""
        return self if self.is_nullable == nullable else replace(self, is_nullable=nullable)


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidType(message)


@dataclass(frozen=True, repr=False)
class NullType(LogicalType):
    """``NULL``."""

    root: ClassVar[str] = "NULL"


@dataclass(frozen=True, repr=False)
class BooleanType(LogicalType):
    """``BOOLEAN``."""

    root: ClassVar[str] = "BOOLEAN"
    family: ClassVar[str] = "BOOLEAN"


@dataclass(frozen=True, repr=False)
class NumericType(LogicalType):
    """Integers, decimals and floating point numbers."""

    family: ClassVar[str] = "NUMERIC"


@dataclass(frozen=True, repr=False)
class IntegralType(NumericType):
    """A whole number of ``bits`` bits that wraps around; ``digits`` is its precision as a decimal."""

    bits: ClassVar[int] = 0
    digits: ClassVar[int] = 0


@dataclass(frozen=True, repr=False)
class TinyIntType(IntegralType):
    """``TINYINT``."""

    root: ClassVar[str] = "TINYINT"
    bits: ClassVar[int] = 8
    digits: ClassVar[int] = 3


@dataclass(frozen=True, repr=False)
class SmallIntType(IntegralType):
    """``SMALLINT``."""

    root: ClassVar[str] = "SMALLINT"
    bits: ClassVar[int] = 16
    digits: ClassVar[int] = 5


@dataclass(frozen=True, repr=False)
class IntType(IntegralType):
    """``INT``."""

    root: ClassVar[str] = "INT"
    bits: ClassVar[int] = 32
    digits: ClassVar[int] = 10


@dataclass(frozen=True, repr=False)
class BigIntType(IntegralType):
    """``BIGINT``."""

    root: ClassVar[str] = "BIGINT"
    bits: ClassVar[int] = 64
    digits: ClassVar[int] = 19


@dataclass(frozen=True, repr=False)
class FloatType(NumericType):
    """``FLOAT``."""

    root: ClassVar[str] = "FLOAT"


@dataclass(frozen=True, repr=False)
class DoubleType(NumericType):
    """``DOUBLE``."""

    root: ClassVar[str] = "DOUBLE"


@dataclass(frozen=True, repr=False)
class DecimalType(NumericType):
    """A decimal of ``precision`` digits, ``scale`` of them behind the point."""

    precision: int = 10
    scale: int = 0
    root: ClassVar[str] = "DECIMAL"

    def __post_init__(self) -> None:
        _check(1 <= self.precision <= MAX_PRECISION, f"DECIMAL precision must be 1 to 38, not {self.precision}")
        _check(0 <= self.scale <= self.precision, f"DECIMAL scale must be 0 to {self.precision}, not {self.scale}")

    def summary(self) -> str:
        """Return the text without nullability."""
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, repr=False)
class SizedType(LogicalType):
    """A text or bytes of at most, or exactly, ``length``."""

    length: int = 1
    varying: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(0 <= self.length <= MAX_LENGTH, f"{self.root} length must be 1 to {MAX_LENGTH}, not {self.length}")

    def serializable(self) -> str:
        """Return the text that a statement says, without nullability."""
        return f"{self.root}({self.length})"

    def summary(self) -> str:
        """Return the text without nullability."""
        return self.serializable()


@dataclass(frozen=True, repr=False)
class CharType(SizedType):
    """``CHAR``."""

    root: ClassVar[str] = "CHAR"
    family: ClassVar[str] = "CHARACTER"


@dataclass(frozen=True, repr=False)
class VarCharType(SizedType):
    """``VARCHAR``."""

    root: ClassVar[str] = "VARCHAR"
    family: ClassVar[str] = "CHARACTER"
    varying: ClassVar[bool] = True

    def summary(self) -> str:
        """Return the text without nullability."""
        return "STRING" if self.length == MAX_LENGTH else self.serializable()


@dataclass(frozen=True, repr=False)
class BinaryType(SizedType):
    """``BINARY``."""

    root: ClassVar[str] = "BINARY"
    family: ClassVar[str] = "BINARY"


@dataclass(frozen=True, repr=False)
class VarBinaryType(SizedType):
    """``VARBINARY``."""

    root: ClassVar[str] = "VARBINARY"
    family: ClassVar[str] = "BINARY"
    varying: ClassVar[bool] = True

    def summary(self) -> str:
        """Return the text without nullability."""
        return "BYTES" if self.length == MAX_LENGTH else self.serializable()


@dataclass(frozen=True, repr=False)
class DateType(LogicalType):
    """``DATE``."""

    root: ClassVar[str] = "DATE"
    family: ClassVar[str] = "DATETIME"


@dataclass(frozen=True, repr=False)
class PreciseTimeType(LogicalType):
    """A type of times with ``precision`` digits of a second."""

    precision: int = 6
    family: ClassVar[str] = "DATETIME"

    def __post_init__(self) -> None:
        _check(0 <= self.precision <= 9, f"{self.root} precision must be 0 to 9, not {self.precision}")

    def summary(self) -> str:
        """Return the text without nullability."""
        return f"{self.root}({self.precision})"


@dataclass(frozen=True, repr=False)
class TimeOfDayType(PreciseTimeType):
    """``TIME``; milliseconds are kept."""

    precision: int = 0
    root: ClassVar[str] = "TIME"


@dataclass(frozen=True, repr=False)
class TimestampType(PreciseTimeType):
    """``TIMESTAMP``: a date and a time of day without a zone."""

    root: ClassVar[str] = "TIMESTAMP"


@dataclass(frozen=True, repr=False)
class LocalZonedTimestampType(PreciseTimeType):
    """``TIMESTAMP_LTZ``: a point in time, shown in the zone of the session."""

    root: ClassVar[str] = "TIMESTAMP_LTZ"


@dataclass(frozen=True, repr=False)
class YearMonthIntervalType(LogicalType):
    """A number of months; ``resolution`` is the unit in the type's text: YEAR, MONTH or YEAR TO MONTH."""

    resolution: str = "MONTH"
    precision: int = 2
    root: ClassVar[str] = "INTERVAL_YEAR_MONTH"
    family: ClassVar[str] = "INTERVAL"

    def summary(self) -> str:
        """Return the text without nullability."""
        if self.resolution == "MONTH":
            return "INTERVAL MONTH"
        return f"INTERVAL YEAR({self.precision})" + (" TO MONTH" if self.resolution.endswith("MONTH") else "")


@dataclass(frozen=True, repr=False)
class DayTimeIntervalType(LogicalType):
    """A number of milliseconds; ``resolution`` is the unit in the type's text (``DAY TO SECOND``)."""

    resolution: str = "SECOND"
    day_precision: int = 2
    fraction: int = 3
    root: ClassVar[str] = "INTERVAL_DAY_TIME"
    family: ClassVar[str] = "INTERVAL"

    def summary(self) -> str:
        """Return the text without nullability."""
        text = self.resolution.replace("DAY", f"DAY({self.day_precision})")
        return "INTERVAL " + text.replace("SECOND", f"SECOND({self.fraction})")


@dataclass(frozen=True, repr=False)
class ArrayType(LogicalType):
    """``ARRAY``."""

    element: LogicalType
    root: ClassVar[str] = "ARRAY"

    def summary(self) -> str:
        """Return the text without nullability."""
        return f"ARRAY<{self.element}>"

    def serializable(self) -> str:
        """Return the text that a statement says, without nullability."""
        return f"ARRAY<{self.element.sql()}>"


@dataclass(frozen=True, repr=False)
class MultisetType(LogicalType):
    """``MULTISET``."""

    element: LogicalType
    root: ClassVar[str] = "MULTISET"

    def summary(self) -> str:
        """Return the text without nullability."""
        return f"MULTISET<{self.element}>"

    def serializable(self) -> str:
        """Return the text that a statement says, without nullability."""
        return f"MULTISET<{self.element.sql()}>"


@dataclass(frozen=True, repr=False)
class MapType(LogicalType):
    """``MAP``."""

    key: LogicalType
    value: LogicalType
    root: ClassVar[str] = "MAP"

    def summary(self) -> str:
        """Return the text without nullability."""
        return f"MAP<{self.key}, {self.value}>"

    def serializable(self) -> str:
        """Return the text that a statement says, without nullability."""
        return f"MAP<{self.key.sql()}, {self.value.sql()}>"


ROWTIME, PROCTIME = "ROWTIME", "PROCTIME"


@dataclass(frozen=True)
class RowField:
    """A column: name, type, and whether it is a time attribute (``ROWTIME``, ``PROCTIME`` or ``None``)."""

    name: str
    type: LogicalType
    description: str | None = field(default=None, compare=False)
    time_attribute: str | None = None

    def __str__(self) -> str:
        mark = f" *{self.time_attribute}*" if self.time_attribute else ""
        said = f" '{self.description}'" if self.description else ""
        return f"{quoted(self.name)} {self.type}{mark}{said}"


@dataclass(frozen=True, repr=False)
class RowType(LogicalType):
    """A row of named fields.

    >>> row = RowType((RowField("a", IntType()), RowField("b", VarCharType(3))))
    >>> row, row.names, row.index("b")
    (ROW<`a` INT, `b` VARCHAR(3)>, ['a', 'b'], 1)
    """

    fields: tuple[RowField, ...] = ()
    root: ClassVar[str] = "ROW"

    @classmethod
    def of(cls, *columns: tuple[str, LogicalType], nullable: bool = True) -> RowType:
        """Return a row type of pairs of name and type."""
        return cls(tuple(RowField(name, type_) for name, type_ in columns), is_nullable=nullable)

    @property
    def names(self) -> list[str]:
        """Return the names of the fields."""
        return [each.name for each in self.fields]

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """Return the types of the fields."""
        return tuple(each.type for each in self.fields)

    def index(self, name: str) -> int:
        """Return the position of a field; ``ValueError`` if there is none."""
        return self.names.index(name)

    def summary(self) -> str:
        """Return the text without nullability."""
        return f"ROW<{', '.join(map(str, self.fields))}>"

    def serializable(self) -> str:
        """Return the text that a statement says, without nullability."""
        return f"ROW<{', '.join(f'{quoted(each.name)} {each.type.sql()}' for each in self.fields)}>"


@dataclass(frozen=True, repr=False)
class StructuredType(RowType):
    """A row of a named class; one without a name cannot be."""

    class_name: str = ""
    root: ClassVar[str] = "STRUCTURED_TYPE"

    def summary(self) -> str:
        """Return the text without nullability."""
        fields = "".join(f", {quoted(each.name)} {each.type}" for each in self.fields)
        return f"STRUCTURED<'{self.class_name}'{fields}>"

    def serializable(self) -> str:
        """Return the text that a statement says, without nullability."""
        fields = "".join(f", {quoted(each.name)} {each.type.sql()}" for each in self.fields)
        return f"STRUCTURED<'{self.class_name}'{fields}>"


@dataclass(frozen=True, repr=False)
class RawType(LogicalType):
    """Values that SQL only hands on: any Python object, pickled in a column of bytes."""

    class_name: str = "object"
    serializer: str = "?"
    root: ClassVar[str] = "RAW"

    def summary(self) -> str:
        """Return the text without nullability."""
        return f"RAW('{self.class_name}', {self.serializer if self.serializer == '?' else repr(self.serializer)})"


@dataclass(frozen=True, repr=False)
class VariantType(LogicalType):
    """A value that carries its own type, as JSON does."""

    root: ClassVar[str] = "VARIANT"


@dataclass(frozen=True, repr=False)
class BitmapType(LogicalType):
    """A set of unsigned 32-bit integers."""

    root: ClassVar[str] = "BITMAP"


@dataclass(frozen=True, repr=False)
class SymbolType(LogicalType):
    """A word of the syntax: a unit of time, ``BOTH``, a behaviour of a JSON function."""

    root: ClassVar[str] = "SYMBOL"


@dataclass(frozen=True, repr=False)
class DescriptorType(LogicalType):
    """Names of columns: ``DESCRIPTOR(ts)``."""

    root: ClassVar[str] = "DESCRIPTOR"


STRING = VarCharType(MAX_LENGTH)
BYTES = VarBinaryType(MAX_LENGTH)
INTEGERS: tuple[type[IntegralType], ...] = (TinyIntType, SmallIntType, IntType, BigIntType)


def quoted(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def is_text(type_: LogicalType) -> bool:
    """Return True if a type is CHAR or VARCHAR."""
    return type_.family == "CHARACTER"


def is_bytes(type_: LogicalType) -> bool:
    """Return True if a type is BINARY or VARBINARY."""
    return type_.family == "BINARY"


def is_numeric(type_: LogicalType) -> bool:
    """Return True if a type is a number."""
    return isinstance(type_, NumericType)


def is_timestamp(type_: LogicalType) -> bool:
    """Return True if a type is TIMESTAMP or TIMESTAMP_LTZ."""
    return isinstance(type_, TimestampType | LocalZonedTimestampType)


# -- text to type


_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^']|'')*')|(\d+)|([A-Za-z_][\w$]*)|(\*\w+\*)|(.))")
_UNITS = {"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"}


_FOREIGN = {
    **dict.fromkeys(("LONG", "INT64", "SERIAL", "BIGSERIAL"), "BIGINT"),
    **dict.fromkeys(("TEXT", "STR", "UUID", "JSON", "OBJECT", "VARCHAR2", "NVARCHAR"), "STRING"),
    **dict.fromkeys(("DATETIME", "DATETIME64", "TIMESTAMPTZ"), "TIMESTAMP(3)"),
    **dict.fromkeys(("FLOAT64", "NUMBER"), "DOUBLE"),
    **{
        "FLOAT32": "FLOAT",
        "INT32": "INT",
        "BOOL": "BOOLEAN",
        "LIST": "ARRAY<INT>",
        "STRUCT": "ROW<n INT>",
        "DICT": "MAP<STRING, INT>",
    },
}
"""Types of other languages, with those that take their values."""


class _Parser:
    """A recursive descent over the text of a type."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [match.group().strip() for match in _TOKEN.finditer(text.strip())]
        self.at = 0

    def fail(self, expected: str) -> NoReturn:
        found = repr(self.tokens[self.at]) if self.at < len(self.tokens) else "the end"
        raise InvalidType(f"type '{self.text}': expected {expected}, found {found}")

    def peek(self) -> str:
        return self.tokens[self.at].upper() if self.at < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        wanted = [word.upper() for word in words]
        if [each.upper() for each in self.tokens[self.at : self.at + len(words)]] == wanted:
            self.at += len(words)
            return True
        return False

    def need(self, word: str) -> None:
        if not self.take(word):
            self.fail(f"'{word}'")

    def next(self, expected: str) -> str:
        if self.at >= len(self.tokens):
            self.fail(expected)
        self.at += 1
        return self.tokens[self.at - 1]

    def number(self) -> int:
        token = self.next("a number")
        if not token.isdigit():
            self.at -= 1
            self.fail("a number")
        return int(token)

    def numbers(self) -> list[int]:
        """Return the numbers in parentheses, if there are any."""
        if not self.take("("):
            return []
        found = [self.number()]
        while self.take(","):
            found.append(self.number())
        self.need(")")
        return found

    def type(self) -> LogicalType:
        found = self.base()
        while True:
            found = self.nullability(found)
            if self.take("ARRAY"):
                found = ArrayType(found)
            elif self.take("MULTISET"):
                found = MultisetType(found)
            else:
                return found

    def nullability(self, found: LogicalType) -> LogicalType:
        if self.take("NOT", "NULL"):
            return found.not_null()
        self.take("NULL")
        return found

    def base(self) -> LogicalType:
        word = self.next("a type").upper()
        simple = _SIMPLE.get(word)
        if simple is not None:
            return simple
        read = _READERS.get(word)
        if read is None:
            self.at -= 1
            near = _FOREIGN.get(word) or next(iter(get_close_matches(word, [*_SIMPLE, *_READERS], 1)), None)
            self.fail(f"a type, such as {near or 'STRING, BIGINT, DOUBLE or TIMESTAMP(3)'}")
        return read(self)

    def precision(self, default: int) -> int:
        found = self.numbers()
        return found[0] if found else default

    def timestamp(self) -> LogicalType:
        precision = self.precision(6)
        if self.take("WITH", "LOCAL", "TIME", "ZONE"):
            return LocalZonedTimestampType(precision)
        self.take("WITHOUT", "TIME", "ZONE")
        return TimestampType(precision)

    def time(self) -> LogicalType:
        precision = self.precision(0)
        self.take("WITHOUT", "TIME", "ZONE")
        return TimeOfDayType(precision)

    def decimal(self) -> LogicalType:
        found = self.numbers()
        return DecimalType(*(found or [10, 0]))

    def interval(self) -> LogicalType:
        first = self.next("a unit").upper()
        if first not in _UNITS:
            self.at -= 1
            self.fail("a unit of time")
        leading = self.numbers()
        last, trailing = first, leading
        if self.take("TO"):
            last = self.next("a unit").upper()
            trailing = self.numbers()
        resolution = first if first == last else f"{first} TO {last}"
        if first in {"YEAR", "MONTH"}:
            return YearMonthIntervalType(resolution, leading[0] if leading and first == "YEAR" else 2)
        fraction = trailing[-1] if trailing and last == "SECOND" else (6 if last == "SECOND" else 3)
        return DayTimeIntervalType(resolution, leading[0] if leading and first == "DAY" else 2, fraction)

    def angled(self) -> LogicalType:
        self.need("<")
        found = self.type()
        self.need(">")
        return found

    def map(self) -> LogicalType:
        self.need("<")
        key = self.type()
        self.need(",")
        value = self.type()
        self.need(">")
        return MapType(key, value)

    def name(self) -> str:
        token = self.next("a name")
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def fields(self, close: str) -> tuple[RowField, ...]:
        found: list[RowField] = []
        while not self.take(close):
            if found:
                self.need(",")
            name, type_ = self.name(), self.type()
            said = self.next("a text")[1:-1].replace("''", "'") if self.peek().startswith("'") else None
            found.append(RowField(name, type_, said))
        return tuple(found)

    def row(self) -> LogicalType:
        if self.take("<"):
            return RowType(self.fields(">"))
        self.need("(")
        return RowType(self.fields(")"))

    def structured(self) -> LogicalType:
        self.need("<")
        name = self.next("a class")[1:-1]
        fields: tuple[RowField, ...] = ()
        if self.take(","):
            fields = self.fields(">")
        else:
            self.need(">")
        return StructuredType(fields, class_name=name)

    def raw(self) -> LogicalType:
        self.need("(")
        name = self.next("a class")[1:-1]
        self.need(",")
        serializer = self.next("a serializer")
        self.need(")")
        return RawType(name, serializer.strip("'"))


_SIMPLE: dict[str, LogicalType] = {
    "BOOLEAN": BooleanType(),
    "TINYINT": TinyIntType(),
    "SMALLINT": SmallIntType(),
    "INT": IntType(),
    "INTEGER": IntType(),
    "BIGINT": BigIntType(),
    "FLOAT": FloatType(),
    "STRING": STRING,
    "BYTES": BYTES,
    "DATE": DateType(),
    "NULL": NullType(),
    "VARIANT": VariantType(),
    "BITMAP": BitmapType(),
    "SYMBOL": SymbolType(),
    "DESCRIPTOR": DescriptorType(),
}


def _double(parser: _Parser) -> LogicalType:
    parser.take("PRECISION")
    return DoubleType()


def _varying(parser: _Parser, fixed: type[SizedType], varying: type[SizedType]) -> LogicalType:
    kind = varying if parser.take("VARYING") else fixed
    return kind(parser.precision(MAX_LENGTH if kind.varying else 1))


_READERS: dict[str, Callable[[_Parser], LogicalType]] = {
    "DOUBLE": _double,
    "CHAR": lambda parser: _varying(parser, CharType, VarCharType),
    "CHARACTER": lambda parser: _varying(parser, CharType, VarCharType),
    "VARCHAR": lambda parser: VarCharType(parser.precision(MAX_LENGTH)),
    "BINARY": lambda parser: _varying(parser, BinaryType, VarBinaryType),
    "VARBINARY": lambda parser: VarBinaryType(parser.precision(MAX_LENGTH)),
    "DECIMAL": _Parser.decimal,
    "DEC": _Parser.decimal,
    "NUMERIC": _Parser.decimal,
    "TIME": _Parser.time,
    "TIMESTAMP": _Parser.timestamp,
    "TIMESTAMP_LTZ": lambda parser: LocalZonedTimestampType(parser.precision(6)),
    "INTERVAL": _Parser.interval,
    "ARRAY": lambda parser: ArrayType(parser.angled()),
    "MULTISET": lambda parser: MultisetType(parser.angled()),
    "MAP": _Parser.map,
    "ROW": _Parser.row,
    "STRUCTURED": _Parser.structured,
    "RAW": _Parser.raw,
}


def parse_type(text: str) -> LogicalType:
    """Return the type that a text names, as DDL and ``CAST`` write it.

    >>> parse_type("row<a int not null, b array<decimal(5, 2)>> not null")
    ROW<`a` INT NOT NULL, `b` ARRAY<DECIMAL(5, 2)>> NOT NULL
    >>> parse_type("DECIMAL(3")
    Traceback (most recent call last):
    funken.expr.sql.types.InvalidType: type 'DECIMAL(3': expected ')', found the end
    """
    parser = _Parser(text)
    found = parser.type()
    if parser.at < len(parser.tokens):
        parser.fail("the end of the type")
    return found


# -- the type that several types have in common


def decimal_of(type_: LogicalType) -> DecimalType:
    """Return a numeric type as a decimal."""
    if isinstance(type_, DecimalType):
        return type_
    return DecimalType(type_.digits) if isinstance(type_, IntegralType) else DecimalType(38, 18)


def adjusted_decimal(precision: int, scale: int) -> DecimalType:
    """Return a decimal type of a computed precision: beyond 38 the scale gives way, but to 6 digits at most.

    >>> adjusted_decimal(77, 20), adjusted_decimal(39, 2)
    (DECIMAL(38, 6), DECIMAL(38, 2))
    """
    if precision <= MAX_PRECISION:
        return DecimalType(precision, scale)
    whole = precision - scale
    return DecimalType(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))


def _common_numeric(one: LogicalType, other: LogicalType) -> LogicalType:
    if isinstance(one, IntegralType) and isinstance(other, IntegralType):
        return one if one.bits >= other.bits else other
    kinds = {type(one), type(other)}
    if DoubleType in kinds or (FloatType in kinds and DecimalType in kinds):
        return DoubleType()
    if FloatType in kinds:
        return FloatType()
    left, right = decimal_of(one), decimal_of(other)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return adjusted_decimal(whole + scale, scale)


def _common_sized(one: SizedType, other: SizedType) -> LogicalType | None:
    if one.family != other.family:
        return None
    length = max(one.length, other.length)
    if not one.varying and not other.varying and one.length == other.length:
        return one
    return (VarCharType if is_text(one) else VarBinaryType)(length)


def _common_time(one: LogicalType, other: LogicalType) -> LogicalType | None:
    kinds = {type(one), type(other)}
    precision = max(getattr(one, "precision", 0), getattr(other, "precision", 0))
    if len(kinds) == 1 and isinstance(one, PreciseTimeType):
        return type(one)(precision)
    if TimeOfDayType in kinds or DateType in kinds:
        return None
    if LocalZonedTimestampType in kinds:
        return LocalZonedTimestampType(precision)
    return TimestampType(precision)


_DAY_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")


def _common_interval(one: LogicalType, other: LogicalType) -> LogicalType | None:
    if isinstance(one, YearMonthIntervalType) and isinstance(other, YearMonthIntervalType):
        resolution = one.resolution if one.resolution == other.resolution else "YEAR TO MONTH"
        return YearMonthIntervalType(resolution, max(one.precision, other.precision))
    if not isinstance(one, DayTimeIntervalType) or not isinstance(other, DayTimeIntervalType):
        return None
    units = [unit for each in (one, other) for unit in each.resolution.split(" TO ")]
    first, last = min(units, key=_DAY_UNITS.index), max(units, key=_DAY_UNITS.index)
    days, fraction = max(one.day_precision, other.day_precision), max(one.fraction, other.fraction)
    return DayTimeIntervalType(first if first == last else f"{first} TO {last}", days, fraction)


def _common_nested(one: LogicalType, other: LogicalType) -> LogicalType | None:
    if isinstance(one, ArrayType | MultisetType) and type(one) is type(other):
        element = common_type([one.element, other.element])
        return element and type(one)(element)
    if isinstance(one, MapType) and isinstance(other, MapType):
        key, value = common_type([one.key, other.key]), common_type([one.value, other.value])
        return MapType(key, value) if key and value else None
    if isinstance(one, StructuredType) or isinstance(other, StructuredType):
        return None
    if isinstance(one, RowType) and isinstance(other, RowType) and len(one.fields) == len(other.fields):
        types = [common_type(pair) for pair in zip(one.types, other.types, strict=True)]
        if all(types):
            return RowType(tuple(RowField(name, each) for name, each in zip(one.names, types, strict=True)))  # type: ignore[arg-type]
    return None


def _common_of_two(one: LogicalType, other: LogicalType) -> LogicalType | None:
    nullable = one.is_nullable or other.is_nullable
    left, right = one.nullable(), other.nullable()
    if isinstance(left, NullType) or isinstance(right, NullType):
        return right if isinstance(left, NullType) else left
    found: LogicalType | None
    if left == right:
        found = left
    elif is_numeric(left) and is_numeric(right):
        found = _common_numeric(left, right)
    elif isinstance(left, SizedType) and isinstance(right, SizedType):
        found = _common_sized(left, right)
    elif left.family == right.family == "DATETIME":
        found = _common_time(left, right)
    elif left.family == right.family == "INTERVAL":
        found = _common_interval(left, right)
    else:
        found = _common_nested(left, right)
    return found and found.nullable(nullable)


def common_type(types: Iterable[LogicalType]) -> LogicalType | None:
    """Return the type to which all these types go without loss, or ``None``; NULL goes to every type.

    >>> common_type([parse_type("INT NOT NULL"), parse_type("DECIMAL(2, 1) NOT NULL")])
    DECIMAL(11, 1) NOT NULL
    >>> common_type([parse_type("INT"), parse_type("STRING")]) is None
    True
    """
    found: LogicalType | None = None
    for each in types:
        found = each if found is None else _common_of_two(found, each)
        if found is None:
            return None
    return found


# -- Arrow


def arrow_type(type_: LogicalType) -> Any:
    """Return the Arrow type of a column of this type."""
    import pyarrow as pa

    match type_:
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case TimestampType(precision=precision):
            return pa.timestamp("us" if precision <= 6 else "ns")
        case LocalZonedTimestampType(precision=precision):
            return pa.timestamp("us" if precision <= 6 else "ns", tz="UTC")
        case TimeOfDayType():
            return pa.time32("ms")
        case ArrayType(element=element):
            return pa.list_(arrow_type(element))
        case MapType(key=key, value=value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case MultisetType(element=element):
            return pa.map_(arrow_type(element), pa.int32())
        case RowType(fields=fields):
            return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in fields])
        case _:
            return getattr(pa, _ARROW[type_.root])()


_ARROW = {
    "NULL": "null",
    "BOOLEAN": "bool_",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date32",
    "INTERVAL_YEAR_MONTH": "int32",
    "INTERVAL_DAY_TIME": "int64",
    "RAW": "binary",
    "VARIANT": "binary",
    "BITMAP": "binary",
    "SYMBOL": "string",
    "DESCRIPTOR": "string",
}


def arrow_schema(row: RowType) -> Any:
    """Return the Arrow schema of a batch of these rows."""
    import pyarrow as pa

    return pa.schema([pa.field(each.name, arrow_type(each.type)) for each in row.fields])


def logical_type(arrow: Any) -> LogicalType:
    """Return the SQL type of an Arrow type: how a table of Arrow, pandas or polars is declared."""
    import pyarrow as pa

    plain = _LOGICAL.get(str(arrow))
    if plain is not None:
        return plain
    if pa.types.is_decimal(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit]
        return LocalZonedTimestampType(precision) if arrow.tz else TimestampType(precision)
    if pa.types.is_time(arrow):
        return TimeOfDayType({"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit])
    if pa.types.is_duration(arrow):
        return DayTimeIntervalType("DAY TO SECOND", 2, 3)
    if pa.types.is_fixed_size_binary(arrow):
        return BinaryType(arrow.byte_width)
    if pa.types.is_map(arrow):
        return MapType(logical_type(arrow.key_type).not_null(), logical_type(arrow.item_type))
    if pa.types.is_struct(arrow):
        return RowType(tuple(RowField(each.name, logical_type(each.type).nullable(each.nullable)) for each in arrow))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return ArrayType(logical_type(arrow.value_type))
    if pa.types.is_dictionary(arrow):
        return logical_type(arrow.value_type)
    raise InvalidType(f"the Arrow type {arrow} is none of SQL; cast the column before")


_LOGICAL: dict[str, LogicalType] = {
    "null": NullType(),
    "bool": BooleanType(),
    "int8": TinyIntType(),
    "int16": SmallIntType(),
    "int32": IntType(),
    "int64": BigIntType(),
    "uint8": SmallIntType(),
    "uint16": IntType(),
    "uint32": BigIntType(),
    "uint64": DecimalType(20, 0),
    "halffloat": FloatType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": STRING,
    "large_string": STRING,
    "string_view": STRING,
    "binary": BYTES,
    "large_binary": BYTES,
    "binary_view": BYTES,
    "date32[day]": DateType(),
    "date64[ms]": DateType(),
}
