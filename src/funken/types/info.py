"""``Types`` and the declarations it makes: what a record, a field or a state is said to consist of.

A declaration is a value: it compares and prints as PyFlink's does (rows compare by the types of their fields, not by
their names), and holds no code. What it does to a record is in ``convert.py``, how it is written in ``text.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from funken.errors import InvalidProgram


class TypeInformation:
    """Base of all declarations."""

    def get_java_type_info(self) -> NoReturn:
        """Raise: there is no Java behind a type here."""
        raise InvalidProgram(f"{self!r} has no Java counterpart: Funken runs no JVM of Flink's. Pass the type itself.")


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
    """A single value."""

    basic_type: BasicType

    def __repr__(self) -> str:
        return self.basic_type.value


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
class OfElements(TypeInformation):
    """What all lists have in common."""

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
class TupleTypeInfo(TypeInformation):
    """A tuple."""

    field_types: tuple[TypeInformation, ...]

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self.field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self.field_types))})"


@dataclass(frozen=True, repr=False)
class RowTypeInfo(TypeInformation):
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
    """Where declarations come from (PyFlink's ``Types``).

    >>> Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()])
    RowTypeInfo(word: String, n: Integer)
    >>> Types.TUPLE([Types.INT()]) == Types.TUPLE([Types.INT()])
    True
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """Return the type of ``str``."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation:
        """Return the type of 8-bit integers."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """Return the type of ``bool``."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation:
        """Return the type of 16-bit integers."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation:
        """Return the type of 32-bit integers."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation:
        """Return the type of 64-bit integers."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation:
        """Return the type of 32-bit floating point numbers."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Return the type of ``float``."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation:
        """Return the type of a ``str`` of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """Return the type of ``int`` without bounds."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """Return the type of ``decimal.Decimal``."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation:
        """Return the type of ``Instant``."""
        return BasicTypeInfo(BasicType.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """Return the type of ``datetime.date``."""
        return SqlTimeTypeInfo(TimeType.DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """Return the type of ``datetime.time``, in seconds."""
        return SqlTimeTypeInfo(TimeType.TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """Return the type of ``datetime.datetime``."""
        return SqlTimeTypeInfo(TimeType.TIMESTAMP)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Return the type of any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Return the type of rows with the fields ``f0``, ``f1`` and so on."""
        return RowTypeInfo(_checked("ROW", field_types))

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Return the type of rows with named fields."""
        types = _checked("ROW_NAMED", field_types)
        if len(field_names) != len(types):
            raise ValueError(f"{len(field_names)} names {list(field_names)} were given for {len(types)} types")
        return RowTypeInfo(types, tuple(field_names))

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        """Return the type of tuples."""
        return TupleTypeInfo(_checked("TUPLE", field_types))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return the type of lists of numbers, truth values or characters, without ``None``."""
        return PrimitiveArrayTypeInfo(*_checked("PRIMITIVE_ARRAY", [element_type]))

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return the type of lists of single values, or ``None``."""
        return BasicArrayTypeInfo(*_checked("BASIC_ARRAY", [element_type]))

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return the type of lists of anything, or ``None``."""
        return ObjectArrayTypeInfo(*_checked("OBJECT_ARRAY", [element_type]))

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """Return the type of lists."""
        return ListTypeInfo(*_checked("LIST", [element_type_info]))

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
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
        raise TypeError(f"a type is declared with Types, such as Types.STRING(), but {type_info!r} was given")
    return type_info
