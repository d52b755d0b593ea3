"""The schema of records that is declared with types, and the one that records have.

A declaration is a ``TypeInformation``, or Python types: a class of values, ``X | None``, a tuple or a dict of declarations, an
annotated dataclass or named tuple.
"""

from __future__ import annotations

import types
import typing
from typing import Any

from funken.columnar.records import field_getter, form_of, has_form
from funken.errors import ValueDoesNotFit
from funken.expr.python.table import DATE, DATETIME, DECIMAL, OBJECTS
from funken.expr.types import (
    BOOL,
    DICT,
    FLOAT,
    INT,
    OF_CLASSES,
    ROW,
    STR,
    Atomic,
    Object,
    Record,
    Tuple,
    Type,
    optional,
)
from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimeType,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from funken.types.row import Row

OBJECT = Object("object")
"""The type of values of which nothing is known."""

_VALUES: dict[type, Atomic] = OF_CLASSES | OBJECTS
_BASIC = {
    BasicType.LONG: INT, BasicType.DOUBLE: FLOAT, BasicType.BOOLEAN: BOOL, BasicType.STRING: STR, BasicType.BIG_DEC: DECIMAL
}  # fmt: skip
_TIMES = {TimeType.DATE: DATE, TimeType.TIMESTAMP: DATETIME}


def schema_declared(declared: Any) -> Type | None:
    """Return the schema of a declaration; ``None``: there are no columns of that type. Raises ``TypeError`` for no type.

    >>> schema_declared((str, float | None)), schema_declared({"x": int}), schema_declared(Types.TUPLE([Types.LONG()]))
    ((str, float?), {x: int}, (int,))
    >>> schema_declared(Types.SHORT())
    """
    if isinstance(declared, list):
        return schema_declared(Types.ROW(declared))
    if isinstance(declared, TypeInformation):
        return _of_type_information(declared)
    return _of_python(declared)


def _of_type_information(declared: TypeInformation) -> Type | None:
    match declared:
        case BasicTypeInfo(basic):
            return _BASIC.get(basic)
        case SqlTimeTypeInfo(time):
            return _TIMES.get(time)
        case TupleTypeInfo(fields) | RowTypeInfo(fields) if fields:
            found = [_of_type_information(each) for each in fields]
            schemas = Tuple(each for each in found if each is not None)
            if len(schemas) < len(found):
                return None
            if isinstance(declared, RowTypeInfo):
                return Record(schemas, ROW, tuple(declared.get_field_names()))
            return schemas
    return None


def _of_python(declared: Any) -> Type:
    if isinstance(declared, type) and declared in _VALUES:
        return _VALUES[declared]
    origin, given = typing.get_origin(declared), typing.get_args(declared)
    if origin in (types.UnionType, typing.Union) and len(given) == 2 and type(None) in given:
        kind = _of_python(given[0] if given[1] is type(None) else given[1])
        if isinstance(kind, Atomic):
            return optional(kind)
    elif origin is tuple and given and ... not in given:
        return Tuple(map(_of_python, given))
    elif isinstance(declared, tuple) and declared:
        return Tuple(map(_of_python, declared))
    elif isinstance(declared, dict) and declared and all(type(name) is str for name in declared):
        return Record(map(_of_python, declared.values()), DICT, tuple(declared))
    elif isinstance(declared, type):
        return _of_class(declared)
    raise TypeError(
        f"the type of results is declared with Types, or with Python types such as (str, float), but {declared!r} was given"
    )


def _of_class(cls: type) -> Type:
    if typing.is_typeddict(cls):
        hints = typing.get_type_hints(cls)
        return Record(map(_of_python, hints.values()), DICT, tuple(hints))
    form = form_of(cls)
    if form is None:
        raise TypeError(
            f"the class {cls.__qualname__} was given as the type of results, which can be a dataclass or named tuple that does "
            "nothing but keep its fields"
        )
    kind, names = form
    hints = typing.get_type_hints(cls)
    if missing := [name for name in names if name not in hints]:
        raise TypeError(f"the field {missing[0]!r} of {cls.__qualname__} has no annotation, which would be its type")
    return Record((_of_python(hints[name]) for name in names), kind, names, cls)


def structure_of(records: list[Any]) -> Type:
    """Return the common structure of records: a schema whose fields are ``OBJECT``.

    Raises ``ValueDoesNotFit`` with the first record that is made of other fields.

    >>> structure_of([{"x": 1, "y": (2, 3)}])
    {x: object, y: (object, object)}
    """
    first = structure(records[0])
    if not isinstance(first, Atomic):
        for number, record in enumerate(records):
            if not _has(record, first):
                other = str(structure(record))
                raise ValueDoesNotFit(
                    f"a vectorized function takes columns, but record {number} of the block, {other}, has other fields than the "
                    f"first, {first}. Give all records the same fields in the function before"
                )
    return first


def structure(record: Any) -> Type:
    """Return the structure of a record, or of a record of columns: a schema whose fields are ``OBJECT``."""
    cls: Any = type(record)
    if cls is tuple and record:
        return Tuple(map(structure, record))
    if cls is dict and record and all(type(name) is str for name in record):
        return Record(map(structure, record.values()), DICT, tuple(record))
    if cls is Row and record._fields and len(record._fields) == len(record._values):
        return Record(map(structure, record._values), ROW, tuple(record._fields))
    form = form_of(cls) if cls not in _VALUES else None
    if form is None:
        return OBJECT
    kind, names = form
    return Record((structure(getattr(record, name)) for name in names), kind, names, cls)


def _has(record: Any, structure: Type) -> bool:
    if isinstance(structure, Atomic):
        return True
    if not isinstance(structure, Record):
        return type(record) is tuple and len(record) == len(structure) and all(map(_has, record, structure))
    if structure.form == DICT:
        same = type(record) is dict and len(record) == len(structure) and all(map(record.__contains__, structure.names))
    else:
        same = has_form(record, structure)
    return same and all(_has(field_getter(structure, index)(record), each) for index, each in enumerate(structure))
