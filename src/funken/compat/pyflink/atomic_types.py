"""The data types of ``pyflink.table.types`` without parts: numbers, texts, bytes, times and intervals.

The engine's types are others: frozen, with the nullability in their text. ``DataType.logical_type`` is the engine's type of a
data type. A value of PyFlink's runtime is plain: the days of a date, the microseconds of a time.
"""

from __future__ import annotations

import datetime
from copy import copy
from enum import Enum
from typing import Any, ClassVar, Self

from funken.table import types as native
from funken.table.types import InvalidType, LogicalType

_DAY = datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH_HERE = (
    datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC).astimezone().utcoffset() or datetime.timedelta()
) // _MICROSECOND
"""The microseconds by which this machine's zone was ahead of UTC in 1970."""


class InvalidDataType(InvalidType, AssertionError):
    """A data type with a parameter out of its range, or of another class than a data type."""


def hold(holds: bool, message: str) -> None:
    """Raise ``InvalidDataType`` unless something holds."""
    if not holds:
        raise InvalidDataType(message)


# ---- types without parts


class DataType:
    """The type of a column or value, with its nullability.

    >>> IntType().not_null(), IntType(False).nullable(), str(VarCharType(3))
    (IntType(false), IntType(true), 'VARCHAR')
    """

    _parameters: ClassVar[tuple[str, ...]] = ()
    """The attributes that the engine's type takes, in its order; ``repr`` shows them as well."""
    _native: ClassVar[type[LogicalType] | None] = None

    def __init__(self, nullable: bool = True) -> None:
        self._nullable = nullable
        self._conversion_cls: Any = ""

    @property
    def logical_type(self) -> LogicalType:
        """The engine's type; raises ``InvalidType`` if there is none."""
        return self._engine_type().nullable(self._nullable)

    def _engine_type(self) -> LogicalType:
        if self._native is None:
            raise InvalidType(
                f"{self!r} is no type of a column. Use one that DataTypes makes, such as DataTypes.INT()."
            )
        return self._native(*(getattr(self, name) for name in self._parameters))

    def __repr__(self) -> str:
        shown = [repr(getattr(self, name)) for name in self._parameters]
        return f"{type(self).__name__}({', '.join([*shown, str(self._nullable).lower()])})"

    def __str__(self) -> str:
        return self.type_name()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def not_null(self) -> Self:
        """Return a copy without NULL."""
        return self._with_null(False)

    def nullable(self) -> Self:
        """Return a copy with NULL."""
        return self._with_null(True)

    def _with_null(self, nullable: bool) -> Self:
        found = copy(self)
        found._nullable = nullable
        return found

    @classmethod
    def type_name(cls) -> str:
        """Return the name of the class in capitals, without ``Type``."""
        return cls.__name__[:-4].upper()

    def bridged_to(self, conversion_cls: Any) -> Self:
        """Note a class of Java for values, which changes nothing; return this type."""
        self._conversion_cls = conversion_cls
        return self

    def need_conversion(self) -> bool:
        """Return True if PyFlink's runtime keeps other values."""
        return False

    def to_sql_type(self, obj: Any) -> Any:
        """Return a value as PyFlink's runtime keeps it."""
        return obj

    def from_sql_type(self, obj: Any) -> Any:
        """Return the Python object of a value that PyFlink's runtime keeps."""
        return obj


class AtomicType(DataType):
    """The base of types without parts."""


class NullType(AtomicType):
    """``NULL``."""

    _native = native.NullType

    def __init__(self) -> None:
        super().__init__()


class NumericType(AtomicType):
    """The base of numbers."""


class IntegralType(NumericType):
    """The base of whole numbers."""


class FractionalType(NumericType):
    """The base of numbers with digits behind the point."""


class BooleanType(AtomicType):
    """``BOOLEAN``."""

    _native = native.BooleanType


class TinyIntType(IntegralType):
    """``TINYINT``: 8 bits."""

    _native = native.TinyIntType


class SmallIntType(IntegralType):
    """``SMALLINT``: 16 bits."""

    _native = native.SmallIntType


class IntType(IntegralType):
    """``INT``: 32 bits."""

    _native = native.IntType


class BigIntType(IntegralType):
    """``BIGINT``: 64 bits."""

    _native = native.BigIntType


class FloatType(FractionalType):
    """``FLOAT``: 32 bits."""

    _native = native.FloatType


class DoubleType(FractionalType):
    """``DOUBLE``: 64 bits."""

    _native = native.DoubleType


class VariantType(AtomicType):
    """``VARIANT``, which PyFlink does not have."""

    _native = native.VariantType


class BitmapType(AtomicType):
    """``BITMAP``, which PyFlink does not have."""

    _native = native.BitmapType


class DecimalType(FractionalType):
    """``DECIMAL``: at most 38 digits, some of them behind the point."""

    _native = native.DecimalType
    _parameters = ("precision", "scale")

    def __init__(self, precision: int = 10, scale: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        hold(1 <= precision <= native.MAX_PRECISION, f"a DECIMAL has 1 to 38 digits, but got {precision}.")
        hold(
            0 <= scale <= precision,
            f"DECIMAL({precision}) has 0 to {precision} digits behind the point, but got {scale}.",
        )
        self.precision, self.scale = precision, scale
        self.has_precision_info = True


class _SizedType(AtomicType):
    """A text or bytes; a length out of range is refused where the type becomes that of a column."""

    _parameters = ("length",)

    def __init__(self, length: int = 1, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.length = length

    def _engine_type(self) -> LogicalType:
        if not isinstance(self.length, int) or not 1 <= self.length <= native.MAX_LENGTH:
            raise InvalidType(
                f"DataTypes.{self}() takes a length from 1 to {native.MAX_LENGTH}, but got {self.length!r}."
            )
        return super()._engine_type()


class CharType(_SizedType):
    """``CHAR``: a text of a length."""

    _native = native.CharType


class VarCharType(_SizedType):
    """``VARCHAR``: a text up to a length."""

    _native = native.VarCharType


class BinaryType(_SizedType):
    """``BINARY``: bytes of a length."""

    _native = native.BinaryType


class VarBinaryType(_SizedType):
    """``VARBINARY``: bytes up to a length."""

    _native = native.VarBinaryType


# ---- times


class DateType(AtomicType):
    """``DATE``; PyFlink's runtime keeps days since 1970.

    >>> DateType().to_sql_type(datetime.date(1970, 1, 3)), DateType().from_sql_type(2)
    (2, datetime.date(1970, 1, 3))
    """

    _native = native.DateType
    EPOCH_ORDINAL = _DAY.toordinal()

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_sql_type(self, d: Any) -> int | None:
        """Return the days of a date."""
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_sql_type(self, v: int | None) -> datetime.date | None:
        """Return the date of days."""
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class _PreciseType(AtomicType):
    """A time with some digits of a second."""

    _parameters = ("precision",)

    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        super().__init__(nullable)
        hold(0 <= precision <= 9, f"{self} has a precision of 0 to 9 digits of a second, but got {precision}.")
        self.precision = precision

    def need_conversion(self) -> bool:
        """Return True."""
        return True


class TimeType(_PreciseType):
    """``TIME``; PyFlink's runtime keeps microseconds, of UTC for a time with a zone."""

    _native = native.TimeOfDayType
    EPOCH_ORDINAL = _EPOCH_HERE

    def __init__(self, precision: int = 0, nullable: bool = True) -> None:
        super().__init__(precision, nullable)

    def to_sql_type(self, t: datetime.time | None) -> int | None:
        """Return the microseconds of a time; one without a zone is of this machine's."""
        if t is None:
            return None
        ahead = self.EPOCH_ORDINAL if t.tzinfo is None else (t.utcoffset() or datetime.timedelta()) // _MICROSECOND
        clock = datetime.timedelta(hours=t.hour, minutes=t.minute, seconds=t.second, microseconds=t.microsecond)
        return clock // _MICROSECOND - ahead

    def from_sql_type(self, t: int | None) -> datetime.time | None:
        """Return the time of microseconds, in this machine's zone."""
        if t is None:
            return None
        return (datetime.datetime.combine(_DAY, datetime.time()) + (t + self.EPOCH_ORDINAL) * _MICROSECOND).time()


class _MomentType(_PreciseType):
    """A date with a time; PyFlink's runtime keeps microseconds since 1970."""

    EPOCH_ORDINAL = 0

    def to_sql_type(self, dt: datetime.datetime | None) -> Any:
        """Return the microseconds of a moment; one without a zone is of this machine's."""
        if dt is None:
            return None
        return int(dt.replace(microsecond=0).timestamp()) * 1_000_000 + dt.microsecond + self.EPOCH_ORDINAL

    def from_sql_type(self, ts: Any) -> datetime.datetime | None:
        """Return the moment of microseconds, in this machine's zone."""
        if ts is None:
            return None
        seconds, micros = divmod(ts - self.EPOCH_ORDINAL, 1_000_000)
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone()
        return moment.replace(tzinfo=None, microsecond=micros)


class TimestampType(_MomentType):
    """``TIMESTAMP``: a date and a time of day without a zone."""

    _native = native.TimestampType


class LocalZonedTimestampType(_MomentType):
    """``TIMESTAMP_LTZ``: a point in time, shown in the zone of the session."""

    _native = native.LocalZonedTimestampType
    EPOCH_ORDINAL = _EPOCH_HERE


class ZonedTimestampType(_MomentType):
    """``TIMESTAMP WITH TIME ZONE``: values can be converted, but no column has the type."""

    def to_sql_type(self, dt: datetime.datetime | None) -> tuple[int, int] | None:
        """Return the microseconds of a moment in its own zone, and the zone's seconds ahead of UTC."""
        if dt is None:
            return None
        zoned = dt if dt.tzinfo else dt.astimezone()
        ahead = (zoned.utcoffset() or datetime.timedelta()) // datetime.timedelta(seconds=1)
        return (super().to_sql_type(zoned) or 0) + ahead * 1_000_000, ahead

    def from_sql_type(self, zoned_ts: tuple[int, int] | None) -> datetime.datetime | None:
        """Return the moment in its zone."""
        if zoned_ts is None:
            return None
        micros, ahead = zoned_ts
        zone = datetime.timezone(datetime.timedelta(seconds=ahead))
        return datetime.datetime(1970, 1, 1, tzinfo=zone) + micros * _MICROSECOND


class Resolution:
    """A unit of an interval, with its digits: ``DataTypes.DAY(2)``."""

    class IntervalUnit(Enum):
        """The units."""

        SECOND = 0
        MINUTE = 1
        HOUR = 2
        DAY = 3
        MONTH = 4
        YEAR = 5

    def __init__(self, unit: IntervalUnit, precision: int = -1) -> None:
        self._unit = unit
        self._precision = precision

    @property
    def unit(self) -> IntervalUnit:
        """The unit."""
        return self._unit

    @property
    def precision(self) -> int:
        """The digits; -1 for a unit without digits of its own."""
        return self._precision

    def __str__(self) -> str:
        return f"{self._unit}({self._precision})"


class YearMonthIntervalType(AtomicType):
    """Months, shown as years and months."""

    class YearMonthResolution:
        """The units in the type's text."""

        YEAR = 1
        MONTH = 2
        YEAR_TO_MONTH = 3

    DEFAULT_PRECISION = 2

    def __init__(self, resolution: int, precision: int = DEFAULT_PRECISION, nullable: bool = True) -> None:
        super().__init__(nullable)
        units = self.YearMonthResolution
        hold(resolution in (1, 2, 3), f"an interval of months has a YearMonthResolution, but got {resolution!r}.")
        hold(1 <= precision <= 4, f"the years of an interval have 1 to 4 digits, but got {precision}.")
        hold(
            resolution != units.MONTH or precision == self.DEFAULT_PRECISION,
            f"an interval of months has no digits of years, but got {precision}.",
        )
        self._resolution, self._precision = resolution, precision

    @property
    def resolution(self) -> int:
        """The unit, of ``YearMonthResolution``."""
        return self._resolution

    @property
    def precision(self) -> int:
        """The digits of years."""
        return self._precision

    def _engine_type(self) -> LogicalType:
        return native.YearMonthIntervalType(("YEAR", "MONTH", "YEAR TO MONTH")[self._resolution - 1], self._precision)


class DayTimeIntervalType(AtomicType):
    """Milliseconds, shown as days, hours, minutes and seconds; PyFlink's runtime keeps microseconds."""

    class DayTimeResolution(Enum):
        """The units in the type's text."""

        DAY = 1
        DAY_TO_HOUR = 2
        DAY_TO_MINUTE = 3
        DAY_TO_SECOND = 4
        HOUR = 5
        HOUR_TO_MINUTE = 6
        HOUR_TO_SECOND = 7
        MINUTE = 8
        MINUTE_TO_SECOND = 9
        SECOND = 10

    DEFAULT_DAY_PRECISION = 2
    DEFAULT_FRACTIONAL_PRECISION = 6

    def __init__(
        self,
        resolution: DayTimeResolution,
        day_precision: int = DEFAULT_DAY_PRECISION,
        fractional_precision: int = DEFAULT_FRACTIONAL_PRECISION,
        nullable: bool = True,
    ) -> None:
        super().__init__(nullable)
        known = isinstance(resolution, self.DayTimeResolution)
        hold(known, f"an interval of days has a DayTimeResolution, but got {resolution!r}.")
        units = resolution.name
        hold(
            units.startswith("DAY") or day_precision == self.DEFAULT_DAY_PRECISION,
            f"an interval of {units} has no digits of days, but got {day_precision}.",
        )
        hold(
            units.endswith("SECOND") or fractional_precision == self.DEFAULT_FRACTIONAL_PRECISION,
            f"an interval of {units} has no digits of a second, but got {fractional_precision}.",
        )
        hold(1 <= day_precision <= 6, f"the days of an interval have 1 to 6 digits, but got {day_precision}.")
        hold(
            0 <= fractional_precision <= 9,
            f"the seconds of an interval have 0 to 9 digits, but got {fractional_precision}.",
        )
        self._resolution = resolution
        self._day_precision, self._fractional_precision = day_precision, fractional_precision

    @property
    def resolution(self) -> DayTimeResolution:
        """The units."""
        return self._resolution

    @property
    def day_precision(self) -> int:
        """The digits of days."""
        return self._day_precision

    @property
    def fractional_precision(self) -> int:
        """The digits of a second."""
        return self._fractional_precision

    def _engine_type(self) -> LogicalType:
        units = self._resolution.name.replace("_", " ")
        fraction = self._fractional_precision if units.endswith("SECOND") else 3
        return native.DayTimeIntervalType(units, self._day_precision, fraction)

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_sql_type(self, timedelta: datetime.timedelta | None) -> int | None:
        """Return the microseconds of a span."""
        return None if timedelta is None else timedelta // _MICROSECOND

    def from_sql_type(self, ts: int | None) -> datetime.timedelta | None:
        """Return the span of microseconds."""
        return None if ts is None else ts * _MICROSECOND
