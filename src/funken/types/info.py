"""``Types`` and its declarations: the types of records, fields and states.

A declaration is a value: it compares and prints as PyFlink's does (rows compare by the types of their fields, not by
their names), and holds no code. What it does to a record is in ``convert.py``, how it is written in ``text.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.types.callables import Generic, K, S, T, T_co, V
from funken.types.row import Row

if TYPE_CHECKING:
    from datetime import date, datetime, time
    from decimal import Decimal

    from funken.types.row import Instant


class TypeInformation(Generic[T_co]):
    """Base of all declarations; ``Types`` makes them. The type argument is that of the values, for type checkers.

    >>> isinstance(Types.INT(), TypeInformation), Types.INT() == Types.INT(), Types.LIST(Types.INT())
    (True, True, ListTypeInfo<Integer>)
    """

    def get_java_type_info(self) -> NoReturn:
        """Raise ``InvalidProgram``: there is no Java behind a type here.

        >>> Types.INT().get_java_type_info()
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: Integer has no Java counterpart: Funken runs no JVM of Flink's. Pass the type itself.
        """
        raise InvalidProgram(f"{self!r} has no Java counterpart: Funken runs no JVM of Flink's. Pass the type itself.")


TypeOf: TypeAlias = type[T] | TypeInformation[T]
"""The type of values: a class, which is for type checkers only, or a declaration, which converts them."""


class BasicType(enum.Enum):
    """The types of one value, with the names they print."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


@dataclass(frozen=True, repr=False)
class BasicTypeInfo(TypeInformation):
    """A single value; there is a function per type, as in ``BasicTypeInfo.STRING_TYPE_INFO()``.

    >>> BasicTypeInfo.STRING_TYPE_INFO() == Types.STRING(), BasicTypeInfo.BIG_INT_TYPE_INFO()
    (True, BigInteger)
    """

    basic_type: BasicType

    def __repr__(self) -> str:
        return self.basic_type.value


def _type_function(kind: BasicType) -> Callable[[], BasicTypeInfo]:
    def make() -> BasicTypeInfo:
        return BasicTypeInfo(kind)

    make.__doc__ = f"Return the type {kind.value}."
    return make


for _kind in BasicType:
    setattr(BasicTypeInfo, f"{_kind.name}_TYPE_INFO", staticmethod(_type_function(_kind)))


@dataclass(frozen=True, repr=False)
class DecimalTypeInfo(BasicTypeInfo):
    """A ``decimal.Decimal`` of so many digits, so many of them after the point, where a format knows about that: CSV.

    >>> DecimalTypeInfo(BasicType.BIG_DEC, precision=5, scale=2)
    Decimal(5, 2)
    """

    precision: int = 38
    scale: int = 18

    def __repr__(self) -> str:
        return f"Decimal({self.precision}, {self.scale})"


class TimeType(enum.Enum):
    """The types of dates and times of day, with the names they print."""

    DATE = "DateTypeInfo"
    TIME = "TimeTypeInfo"
    TIMESTAMP = "TimestampTypeInfo"


@dataclass(frozen=True, repr=False)
class SqlTimeTypeInfo(TypeInformation):
    """A ``datetime.date``, ``time`` or ``datetime``."""

    time_type: TimeType

    def __repr__(self) -> str:
        return self.time_type.value


@dataclass(frozen=True, repr=False)
class PickledBytesTypeInfo(TypeInformation):
    """Any Python object, as it is: the same as no declaration."""

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


@dataclass(frozen=True, repr=False)
class JavaTimeTypeInfo(PickledBytesTypeInfo):
    """A ``datetime`` or ``time`` of a table's column, which is written as ``java.time`` writes it."""


@dataclass(frozen=True, repr=False)
class OfElements(TypeInformation):
    """The base of the types of arrays and lists."""

    element_type: TypeInformation

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.element_type!r}>"


class PrimitiveArrayTypeInfo(OfElements):
    """A list whose elements are there, all of them."""


class BasicArrayTypeInfo(OfElements):
    """A list of single values, or ``None`` in their place."""


class ObjectArrayTypeInfo(OfElements):
    """A list of anything, or ``None`` in its place."""


class ListTypeInfo(OfElements):
    """A list of anything, or ``None`` in its place."""


@dataclass(frozen=True, repr=False)
class MapTypeInfo(TypeInformation):
    """A dict."""

    key_type: TypeInformation
    value_type: TypeInformation

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self.key_type!r}, {self.value_type!r}>"


@dataclass(frozen=True, repr=False)
class TupleTypeInfo(TypeInformation[tuple[Any, ...]]):
    """A tuple."""

    field_types: tuple[TypeInformation, ...]

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self.field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self.field_types))})"


@dataclass(frozen=True, repr=False)
class RowTypeInfo(TypeInformation[Row]):
    """A ``Row``; without names its fields are ``f0``, ``f1`` and so on."""

    field_types: tuple[TypeInformation, ...]
    field_names: tuple[str, ...] | None = field(default=None, compare=False)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self.field_types)

    def get_field_names(self) -> list[str]:
        """Return the names of the fields.

        >>> Types.ROW([Types.INT(), Types.STRING()]).get_field_names()
        ['f0', 'f1']
        """
        return list(self.field_names or (f"f{i}" for i in range(len(self.field_types))))

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field; -1 for a row type that was declared without names."""
        return self.field_names.index(field_name) if self.field_names else -1

    def __repr__(self) -> str:
        if self.field_names is None:
            return f"RowTypeInfo({', '.join(map(repr, self.field_types))})"
        pairs = zip(self.field_names, self.field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {of!r}' for name, of in pairs)})"


def _checked(kind: str, types: Sequence[Any]) -> tuple[TypeInformation, ...]:
    for one in types:
        if not isinstance(one, TypeInformation):
            raise TypeError(f"Types.{kind}() takes types such as Types.STRING(), but got {one!r}")
    return tuple(types)


class Types:
    """The types of declarations (PyFlink's ``Types``).

    A function's declared output converts its values as Flink's serializers would: numbers wrap and round, tuples become
    rows, and a value that does not fit fails the job with ``ValueDoesNotFit``.

    >>> from funken.testing import local
    >>> def declared_as(type_info, *values):
    ...     return local(values).map(lambda value: value, output_type=type_info).execute_and_collect(limit=len(values))
    >>> for numbers in (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT()):
    ...     numbers, declared_as(numbers, 1, 2**7, 2**63)
    (Byte, [1, -128, 0])
    (Short, [1, 128, 0])
    (Integer, [1, 128, 0])
    (Long, [1, 128, -9223372036854775808])
    (BigInteger, [1, 128, 9223372036854775808])
    >>> declared_as(Types.FLOAT(), 0.1), declared_as(Types.DOUBLE(), 0.1, 1), declared_as(Types.BOOLEAN(), True, 0)
    ([0.10000000149011612], [0.1, 1.0], [True, False])

    Text, decimals and points in time stay as they are; a ``datetime`` becomes the date of its day:

    >>> from datetime import date, datetime, time
    >>> from decimal import Decimal
    >>> from funken.types import Instant
    >>> declared_as(Types.STRING(), "to be", None), declared_as(Types.CHAR(), "t"), declared_as(Types.BIG_DEC(), Decimal("0.1"))
    (['to be', None], ['t'], [Decimal('0.1')])
    >>> declared_as(Types.SQL_DATE(), datetime(2026, 5, 1, 12)), declared_as(Types.SQL_TIME(), time(12, 30))
    ([datetime.date(2026, 5, 1)], [datetime.time(12, 30)])
    >>> declared_as(Types.SQL_TIMESTAMP(), datetime(2026, 5, 1)), declared_as(Types.INSTANT(), Instant(1))
    ([datetime.datetime(2026, 5, 1, 0, 0)], [Instant<1, 0>])
    >>> declared_as(Types.PICKLED_BYTE_ARRAY(), {"any", "object"}) == [{"any", "object"}]
    True

    Of several values, those within are declared too:

    >>> declared_as(Types.TUPLE([Types.STRING(), Types.BYTE()]), ("to", 200)), declared_as(Types.LIST(Types.BYTE()), [200])
    ([('to', -56)], [[-56]])
    >>> declared_as(Types.ROW([Types.STRING(), Types.INT()]), ("to", 2))
    [Row(f0='to', f1=2)]
    >>> declared_as(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()]), ("to", 2))
    [Row(word='to', n=2)]
    >>> declared_as(Types.MAP(Types.STRING(), Types.BYTE()), {"to": 200})
    [{'to': -56}]
    >>> declared_as(Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2]), declared_as(Types.BASIC_ARRAY(Types.INT()), [1, None])
    ([[1, 2]], [[1, None]])
    >>> declared_as(Types.PRIMITIVE_ARRAY(Types.BYTE()), b"to")
    [b'to']
    >>> declared_as(Types.OBJECT_ARRAY(Types.TUPLE([Types.INT()])), [(1,), None])
    [[(1,), None]]
    """

    @staticmethod
    def STRING() -> TypeInformation[str]:
        """Return the type of ``str``."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation[int]:
        """Return the type of 8-bit integers."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:
        """Return the type of ``bool``."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation[int]:
        """Return the type of 16-bit integers."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation[int]:
        """Return the type of 32-bit integers."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation[int]:
        """Return the type of 64-bit integers."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation[float]:
        """Return the type of 32-bit floating point numbers."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:
        """Return the type of ``float``."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation[str]:
        """Return the type of a ``str`` of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:
        """Return the type of ``int`` without bounds."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:
        """Return the type of ``decimal.Decimal``."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:
        """Return the type of ``Instant``."""
        return BasicTypeInfo(BasicType.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation[date]:
        """Return the type of ``datetime.date``."""
        return SqlTimeTypeInfo(TimeType.DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation[time]:
        """Return the type of ``datetime.time``, in seconds."""
        return SqlTimeTypeInfo(TimeType.TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[datetime]:
        """Return the type of ``datetime.datetime``."""
        return SqlTimeTypeInfo(TimeType.TIMESTAMP)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Return the type of any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Return the type of rows with the fields ``f0``, ``f1`` and so on; raises ``TypeError`` for other objects."""
        return RowTypeInfo(_checked("ROW", field_types))

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Return the type of rows with named fields; raises ``ValueError`` unless there is a name for each type."""
        types = _checked("ROW_NAMED", field_types)
        if len(field_names) != len(types):
            raise ValueError(
                f"{len(field_names)} names {list(field_names)} were given for {len(types)} types. Give a name for each type, as "
                "in Types.ROW_NAMED(['item', 'n'], [Types.STRING(), Types.INT()])."
            )
        return RowTypeInfo(types, tuple(field_names))

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        """Return the type of tuples."""
        return TupleTypeInfo(_checked("TUPLE", field_types))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return the type of lists of numbers, truth values or characters, without ``None``; of ``BYTE``, of ``bytes`` too."""
        return PrimitiveArrayTypeInfo(*_checked("PRIMITIVE_ARRAY", [element_type]))

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[S]) -> TypeInformation[list[S | None]]:
        """Return the type of lists of single values, or ``None``."""
        return BasicArrayTypeInfo(*_checked("BASIC_ARRAY", [element_type]))

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[S]) -> TypeInformation[list[S | None]]:
        """Return the type of lists of anything, or ``None``."""
        return ObjectArrayTypeInfo(*_checked("OBJECT_ARRAY", [element_type]))

    @staticmethod
    def LIST(element_type_info: TypeInformation[S]) -> TypeInformation[list[S]]:
        """Return the type of lists."""
        return ListTypeInfo(*_checked("LIST", [element_type_info]))

    @staticmethod
    def MAP(key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]) -> TypeInformation[dict[K, V]]:
        """Return the type of dicts."""
        return MapTypeInfo(*_checked("MAP", [key_type_info, value_type_info]))


def declared(type_info: Any) -> TypeInformation | None:
    """Return a declaration as one ``TypeInformation``: a list means a row; ``None`` if nothing is declared by it.

    >>> declared([Types.INT()]), declared(None), declared(Types.PICKLED_BYTE_ARRAY())
    (RowTypeInfo(Integer), None, None)
    """
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return None
    if isinstance(type_info, list | tuple):
        return Types.ROW(list(type_info))
    if not isinstance(type_info, TypeInformation):
        name = getattr(type_info, "__qualname__", "")
        remedy = f" Call it: {name}()." if name.startswith("Types.") else ""
        raise TypeError(f"a type is declared with Types, such as Types.STRING(), but {type_info!r} was given.{remedy}")
    return type_info


# ---- Records as columns: which columns a record has, and what they are called.
#
# Dicts, ``Row``s with names, named tuples and dataclasses have the columns that they name; tuples, and ``Row``s
# without names, have ``f0``, ``f1``, ... as in Flink; everything else is a column ``value``.


def columns_of(record: object) -> dict[str, object]:
    """Return a record as columns by name.

    >>> columns_of({"word": "to"}), columns_of(("to", 2)), columns_of("to")
    ({'word': 'to'}, {'f0': 'to', 'f1': 2}, {'value': 'to'})
    """
    if isinstance(record, Mapping):
        return {str(name): value for name, value in record.items()}
    if isinstance(record, Row):
        names = getattr(record, "_fields", None)
        return record.as_dict() if names else {f"f{position}": value for position, value in enumerate(record)}
    if is_dataclass(record) and not isinstance(record, type):
        return {each.name: getattr(record, each.name) for each in fields(record)}
    if isinstance(record, tuple):
        names = getattr(record, "_fields", None) or [f"f{position}" for position in range(len(record))]
        return dict(zip(names, record, strict=True))
    return {"value": record}
