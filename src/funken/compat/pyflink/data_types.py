"""The data types of ``pyflink.table.types`` with parts, ``DataTypes``, which makes all of them, and the way back.

``data_type_of`` returns the data type of an engine's type.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from funken.compat.pyflink.atomic_types import (
    BigIntType,
    BinaryType,
    BitmapType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    NullType,
    Resolution,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    VariantType,
    YearMonthIntervalType,
    hold,
)
from funken.errors import InvalidProgram
from funken.table import types as native
from funken.table.types import InvalidType, LogicalType
from funken.table.values import named_parts
from funken.types.row import Row, RowKind, make_row


class InvalidResolution(InvalidType, KeyError):
    """Two units of time that no interval lies between."""

    __str__ = Exception.__str__


def _typed(given: Any, parameter: str) -> Any:
    """Return a data type; raises ``InvalidDataType`` for anything else."""
    hold(isinstance(given, DataType), f"{parameter} is a data type such as DataTypes.INT(), but got {given!r}.")
    return given


# ---- types with parts


class _CollectionType(DataType):
    """The elements of one type."""

    _parameters = ("element_type",)

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type: DataType = _typed(element_type, "element_type")

    def _engine_type(self) -> LogicalType:
        kind: Any = self._native
        found: LogicalType = kind(self.element_type.logical_type)
        return found

    def need_conversion(self) -> bool:
        """Return True if PyFlink's runtime keeps other elements."""
        return self.element_type.need_conversion()

    def to_sql_type(self, obj: Any) -> Any:
        """Return the elements as PyFlink's runtime keeps them."""
        return [self.element_type.to_sql_type(each) for each in obj] if obj and self.need_conversion() else obj

    def from_sql_type(self, obj: Any) -> Any:
        """Return the Python objects of the elements."""
        return [self.element_type.from_sql_type(each) for each in obj] if obj and self.need_conversion() else obj


class ArrayType(_CollectionType):
    """``ARRAY``."""

    _native = native.ArrayType


class MultisetType(_CollectionType):
    """``MULTISET``."""

    _native = native.MultisetType


class MapType(DataType):
    """``MAP``."""

    _parameters = ("key_type", "value_type")

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type: DataType = _typed(key_type, "key_type")
        self.value_type: DataType = _typed(value_type, "value_type")

    def _engine_type(self) -> LogicalType:
        return native.MapType(self.key_type.logical_type, self.value_type.logical_type)

    def need_conversion(self) -> bool:
        """Return True if PyFlink's runtime keeps other keys or values."""
        return self.key_type.need_conversion() or self.value_type.need_conversion()

    def to_sql_type(self, obj: Any) -> Any:
        """Return keys and values as PyFlink's runtime keeps them."""
        if not obj or not self.need_conversion():
            return obj
        return {self.key_type.to_sql_type(key): self.value_type.to_sql_type(value) for key, value in obj.items()}

    def from_sql_type(self, obj: Any) -> Any:
        """Return the Python objects of keys and values."""
        if not obj or not self.need_conversion():
            return obj
        return {self.key_type.from_sql_type(key): self.value_type.from_sql_type(value) for key, value in obj.items()}


class _ViewType(DataType):
    """The type of a view in an accumulator."""

    def __init__(self) -> None:
        super().__init__(False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(getattr(self, name)) for name in self._parameters)})"

    def to_sql_type(self, obj: Any) -> NoReturn:
        """Raise: a view is no value."""
        raise InvalidProgram(f"{type(self).__name__} is a type of accumulators only; use ARRAY or MAP for values.")

    from_sql_type = to_sql_type


class ListViewType(_ViewType):
    """The type of a ``ListView`` in an accumulator."""

    _parameters = ("_element_type",)

    def __init__(self, element_type: DataType) -> None:
        super().__init__()
        self._element_type: DataType = _typed(element_type, "element_type")

    def _engine_type(self) -> LogicalType:
        return native.ArrayType(self._element_type.logical_type)


class MapViewType(_ViewType):
    """The type of a ``MapView`` in an accumulator."""

    _parameters = ("_key_type", "_value_type")

    def __init__(self, key_type: DataType, value_type: DataType) -> None:
        super().__init__()
        self._key_type: DataType = _typed(key_type, "key_type")
        self._value_type: DataType = _typed(value_type, "value_type")

    def _engine_type(self) -> LogicalType:
        return native.MapType(self._key_type.logical_type, self._value_type.logical_type)


class RowField:
    """A field of a row: name, type and description."""

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        self.data_type: DataType = _typed(data_type, "data_type")
        hold(isinstance(name, str), f"the name of a field is a text, but got {name!r}.")
        hold(description is None or isinstance(description, str), f"a description is a text, but got {description!r}.")
        self.name = name
        self.description = "..." if description is None else description

    def __repr__(self) -> str:
        return f"RowField({self.name}, {self.data_type!r}, {self.description})"

    def __str__(self) -> str:
        return f"RowField({self.name}, {self.data_type})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # as in PyFlink: a field may change

    def need_conversion(self) -> bool:
        """Return True if PyFlink's runtime keeps other values."""
        return self.data_type.need_conversion()

    def to_sql_type(self, obj: Any) -> Any:
        """Return a value as PyFlink's runtime keeps it."""
        return self.data_type.to_sql_type(obj)

    def from_sql_type(self, obj: Any) -> Any:
        """Return the Python object of a value that PyFlink's runtime keeps."""
        return self.data_type.from_sql_type(obj)

    def _engine_field(self) -> native.RowField:
        description = None if self.description == "..." else self.description
        return native.RowField(self.name, self.data_type.logical_type, description)


class RowType(DataType):
    """``ROW``: a list of fields, by name, place and slice.

    >>> row = RowType([RowField("a", IntType())]).add("b", DateType())
    >>> row.field_names(), row["b"], row[0].data_type, [field.name for field in row]
    (['a', 'b'], RowField(b, DateType(true), ...), IntType(true), ['a', 'b'])
    """

    def __init__(self, fields: list[RowField] | None = None, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.fields: list[RowField] = fields or []
        known = isinstance(self.fields, list | tuple) and all(isinstance(each, RowField) for each in self.fields)
        hold(known, f"a ROW is made of a list of DataTypes.FIELD(name, type), but got {fields!r}.")
        self.names = [each.name for each in self.fields]

    def add(self, field: str | RowField, data_type: DataType | None = None) -> RowType:
        """Add a field, or the name and type of one; return this type."""
        if isinstance(field, str):
            if data_type is None:
                raise InvalidProgram(f"field {field!r} has no type; pass one as the second argument.")
            field = RowField(field, data_type)
        hold(isinstance(field, RowField), f"a field has a name and a type, but got {field!r}.")
        self.fields.append(field)
        self.names.append(field.name)
        return self

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, key: str | int | slice) -> Any:
        names = ", ".join(self.names)
        if isinstance(key, slice):
            return RowType(self.fields[key])
        if isinstance(key, int):
            if not -len(self) <= key < len(self):
                raise IndexError(f"the row has {len(self)} fields, but no field {key}: {names}.")
            return self.fields[key]
        if not isinstance(key, str):
            raise TypeError(f"a field of a row has a name, a place or a slice, but got {key!r}.")
        if key not in self.names:
            raise KeyError(f"the row has no field {key!r}, but {names}.")
        return self.fields[self.names.index(key)]

    def __repr__(self) -> str:
        return f"RowType({','.join(map(repr, self))})"

    def field_names(self) -> list[str]:
        """Return the names of the fields."""
        return list(self.names)

    def field_types(self) -> list[DataType]:
        """Return the types of the fields."""
        return [each.data_type for each in self.fields]

    def _engine_type(self) -> LogicalType:
        return native.RowType(tuple(each._engine_field() for each in self.fields))

    def need_conversion(self) -> bool:
        """Return True: PyFlink's runtime keeps tuples."""
        return True

    def to_sql_type(self, obj: Any) -> tuple[Any, ...] | None:
        """Return a row as PyFlink's runtime keeps it: the number of its kind of change, and its values."""
        if obj is None:
            return None
        kind = obj.get_row_kind() if isinstance(obj, Row) else RowKind.INSERT
        values = zip(self.fields, self._values(obj), strict=False)
        return kind.value, *(field.to_sql_type(value) for field, value in values)

    def _values(self, obj: Any) -> Sequence[Any]:
        if isinstance(obj, Row):
            return named_parts(obj, self.names)
        if isinstance(obj, tuple | list):
            return obj
        if not isinstance(obj, dict) and not hasattr(obj, "__dict__"):
            raise InvalidProgram(f"a row is a tuple, a dict, a Row or an object, but got {obj!r}.")
        by_name = obj if isinstance(obj, dict) else vars(obj)
        return [by_name.get(name) for name in self.names]

    def from_sql_type(self, obj: Any) -> Row | None:
        """Return the row of values."""
        if obj is None or isinstance(obj, Row):
            return obj
        values = zip(self.fields, obj, strict=False)
        return make_row(list(self.names), [field.from_sql_type(value) for field, value in values])


class RawType(DataType):
    """Values that SQL only hands on, pickled."""

    _native = native.RawType

    def from_sql_type(self, obj: bytes) -> Any:
        """Return the object of pickled bytes."""
        return pickle.loads(obj)


class UserDefinedType(DataType):
    """A type whose values are objects of a class; a column has its ``sql_type()`` instead.

    >>> class Point(UserDefinedType):
    ...     @classmethod
    ...     def sql_type(cls):
    ...         return DataTypes.ARRAY(DataTypes.DOUBLE())
    ...
    ...     def serialize(self, obj):
    ...         return [obj.real, obj.imag]
    >>> Point().to_sql_type(1 + 2j), Point.type_name()
    ([1.0, 2.0], 'point')
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = None  # type: ignore[assignment]  # as in PyFlink

    def _engine_type(self) -> LogicalType:
        found: LogicalType = self.sql_type().logical_type
        return found

    @classmethod
    def type_name(cls) -> str:
        """Return the name."""
        return cls.__name__.lower()

    @classmethod
    def sql_type(cls) -> DataType:
        """Return the type of the stored value."""
        raise NotImplementedError("a UserDefinedType has a method sql_type() for the type of its stored values.")

    @classmethod
    def module(cls) -> str:
        """Return the module of the class."""
        raise NotImplementedError("this UserDefinedType has no method module() for the module of its class.")

    @classmethod
    def java_udt(cls) -> str:
        """Return that there is no class of Java."""
        return ""

    def need_conversion(self) -> bool:
        """Return that values are converted."""
        return True

    def to_sql_type(self, obj: Any) -> Any:
        """Return the stored value of an object, as PyFlink's runtime keeps it."""
        return None if obj is None else self.sql_type().to_sql_type(self.serialize(obj))

    def from_sql_type(self, obj: Any) -> Any:
        """Return the object of a stored value."""
        found = self.sql_type().from_sql_type(obj)
        return None if found is None else self.deserialize(found)

    def serialize(self, obj: Any) -> Any:
        """Return the stored value of an object."""
        raise NotImplementedError("a UserDefinedType has a method serialize() for the stored value of an object.")

    def deserialize(self, datum: Any) -> Any:
        """Return the object of a stored value."""
        raise NotImplementedError("a UserDefinedType has a method deserialize() for the object of a stored value.")


# ---- names


class DataTypes:
    """The types of columns, by name; a class stands for its constructor.

    >>> DataTypes.ROW([DataTypes.FIELD("item", DataTypes.STRING()), DataTypes.FIELD("n", DataTypes.BIGINT(False))])
    RowType(RowField(item, VarCharType(2147483647, true), ...),RowField(n, BigIntType(false), ...))
    >>> DataTypes.INTERVAL(DataTypes.DAY(2), DataTypes.SECOND(3)).resolution
    <DayTimeResolution.DAY_TO_SECOND: 4>
    """

    NULL = NullType
    BOOLEAN = BooleanType
    TINYINT = TinyIntType
    SMALLINT = SmallIntType
    INT = IntType
    BIGINT = BigIntType
    FLOAT = FloatType
    DOUBLE = DoubleType
    DATE = DateType
    TIME = TimeType
    TIMESTAMP = TimestampType
    TIMESTAMP_LTZ = TIMESTAMP_WITH_LOCAL_TIME_ZONE = LocalZonedTimestampType
    VARIANT = VariantType
    BITMAP = BitmapType
    ARRAY = ArrayType
    LIST_VIEW = ListViewType
    MAP = MapType
    MAP_VIEW = MapViewType
    MULTISET = MultisetType
    FIELD = RowField

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> CharType:
        """Return the type CHAR."""
        return CharType(length, nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> VarCharType:
        """Return the type VARCHAR."""
        return VarCharType(length, nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> VarCharType:
        """Return the type STRING."""
        return VarCharType(native.MAX_LENGTH, nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> BinaryType:
        """Return the type BINARY."""
        return BinaryType(length, nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> VarBinaryType:
        """Return the type VARBINARY."""
        return VarBinaryType(length, nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> VarBinaryType:
        """Return the type BYTES."""
        return VarBinaryType(native.MAX_LENGTH, nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DecimalType:
        """Return the type DECIMAL."""
        return DecimalType(precision, scale, nullable)

    @staticmethod
    def ROW(row_fields: list[RowField] = [], nullable: bool = True) -> RowType:  # noqa: B006 - PyFlink's; none is kept
        """Return the type ROW."""
        return RowType(row_fields, nullable)

    @staticmethod
    def SECOND(precision: int = DayTimeIntervalType.DEFAULT_FRACTIONAL_PRECISION) -> Resolution:
        """Return the unit SECOND of an interval."""
        return Resolution(Resolution.IntervalUnit.SECOND, precision)

    @staticmethod
    def MINUTE() -> Resolution:
        """Return the unit MINUTE of an interval."""
        return Resolution(Resolution.IntervalUnit.MINUTE)

    @staticmethod
    def HOUR() -> Resolution:
        """Return the unit HOUR of an interval."""
        return Resolution(Resolution.IntervalUnit.HOUR)

    @staticmethod
    def DAY(precision: int = DayTimeIntervalType.DEFAULT_DAY_PRECISION) -> Resolution:
        """Return the unit DAY of an interval."""
        return Resolution(Resolution.IntervalUnit.DAY, precision)

    @staticmethod
    def MONTH() -> Resolution:
        """Return the unit MONTH of an interval."""
        return Resolution(Resolution.IntervalUnit.MONTH)

    @staticmethod
    def YEAR(precision: int = YearMonthIntervalType.DEFAULT_PRECISION) -> Resolution:
        """Return the unit YEAR of an interval."""
        return Resolution(Resolution.IntervalUnit.YEAR, precision)

    @staticmethod
    def INTERVAL(
        upper_resolution: Resolution, lower_resolution: Resolution | None = None
    ) -> DayTimeIntervalType | YearMonthIntervalType:
        """Return the type of intervals between two units."""
        given = [each for each in (upper_resolution, lower_resolution) if each is not None]
        hold(
            all(isinstance(each, Resolution) for each in given),
            f"an interval is of units such as DataTypes.DAY(), not of {given}.",
        )
        units = "_TO_".join(each.unit.name for each in given)
        digits = {each.unit.name: each.precision for each in given if each.precision != -1}
        months = YearMonthIntervalType.YearMonthResolution
        if hasattr(months, units):
            return YearMonthIntervalType(
                getattr(months, units), digits.get("YEAR", YearMonthIntervalType.DEFAULT_PRECISION)
            )
        if units not in DayTimeIntervalType.DayTimeResolution.__members__:
            raise InvalidResolution(
                f"there is no interval of {units}. DataTypes.INTERVAL() takes YEAR and MONTH, or units from DAY to SECOND, the "
                "larger one first: DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND())."
            )
        return DayTimeIntervalType(
            DayTimeIntervalType.DayTimeResolution[units],
            digits.get("DAY", DayTimeIntervalType.DEFAULT_DAY_PRECISION),
            digits.get("SECOND", DayTimeIntervalType.DEFAULT_FRACTIONAL_PRECISION),
        )


# ---- the way back


_PLAIN = (
    NullType, BooleanType, TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType, DecimalType, CharType,
    VarCharType, BinaryType, VarBinaryType, DateType, TimeType, TimestampType, LocalZonedTimestampType, VariantType, BitmapType,
    RawType,
)  # fmt: skip
_OF_NATIVE: dict[Any, type[DataType]] = {each._native: each for each in _PLAIN}


def data_type_of(logical_type: Any) -> Any:
    """Return the data type of an engine's type; anything else as it is.

    >>> data_type_of(native.parse_type("MAP<STRING NOT NULL, ARRAY<DECIMAL(5, 2)>> NOT NULL"))
    MapType(VarCharType(2147483647, false), ArrayType(DecimalType(5, 2, true), true), false)
    """
    if not isinstance(logical_type, LogicalType):
        return logical_type
    found = _data_type(logical_type)
    found._nullable = logical_type.is_nullable
    return found


def data_types_of(logical_types: Iterable[LogicalType]) -> list[DataType]:
    """Return the data types of the engine's types.

    >>> data_types_of([native.parse_type("INT")])
    [IntType(true)]
    """
    return [data_type_of(each) for each in logical_types]


def stored_elements(elements: Iterable[Any], schema: Any) -> Iterable[Any]:
    """Return the rows of a program with the stored values of its own types.

    >>> class Point(UserDefinedType):
    ...     def serialize(self, obj):
    ...         return [obj.real, obj.imag]
    >>> list(stored_elements([(1, 2j)], RowType().add("n", IntType()).add("p", Point())))
    [[1, [0.0, 2.0]]]
    """
    if isinstance(schema, UserDefinedType):
        return [_stored(schema, each) for each in elements]
    if not isinstance(schema, RowType) or not any(isinstance(each, UserDefinedType) for each in schema.field_types()):
        return elements
    return [
        [_stored(type_, value) for type_, value in zip(schema.field_types(), schema._values(each), strict=True)]
        for each in elements
    ]


def _stored(type_: DataType, value: Any) -> Any:
    return type_.serialize(value) if isinstance(type_, UserDefinedType) and value is not None else value


def _data_type(given: LogicalType) -> DataType:
    match given:
        case native.ArrayType():
            return ArrayType(data_type_of(given.element))
        case native.MultisetType():
            return MultisetType(data_type_of(given.element))
        case native.MapType():
            return MapType(data_type_of(given.key), data_type_of(given.value))
        case native.RowType():
            return RowType([RowField(each.name, data_type_of(each.type), each.description) for each in given.fields])
        case native.YearMonthIntervalType():
            units: int = getattr(YearMonthIntervalType.YearMonthResolution, given.resolution.replace(" ", "_"))
            return YearMonthIntervalType(units, given.precision)
        case native.DayTimeIntervalType():
            between = DayTimeIntervalType.DayTimeResolution[given.resolution.replace(" ", "_")]
            digits = (given.fraction,) if between.name.endswith("SECOND") else ()
            return DayTimeIntervalType(between, given.day_precision, *digits)
    kind = _OF_NATIVE.get(type(given))
    if kind is None:
        raise InvalidType(
            f"{given} is a type of SQL that PyFlink's Python API does not have. Cast the column to another type."
        )
    found: DataType = kind(*(getattr(given, name) for name in kind._parameters))
    return found
