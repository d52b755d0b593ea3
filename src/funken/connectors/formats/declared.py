"""The schema of records of a declared type, those within them included: what columns of their fields are.

What is within a record is made of its own type, also in lists: a data class, a named tuple, a row. A class whose objects may do
more than to keep values has no columns: a field of it has a kind that no column holds.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

from funken import extras
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import form_of
from funken.connectors.formats.arrow_columns import is_held, kind_of_type
from funken.connectors.formats.record_types import RecordShape, field_types, shape_of
from funken.expr.types import DICT, ROW, Atomic, Composite, ListOf, Object, Record, Tuple, Type, optional
from funken.types.info import OfElements, RowTypeInfo, TupleTypeInfo, Types

_OTHER_THAN_ARROWS = (Types.INSTANT(), Types.BIG_INT())
"""Types whose values are others than those of the type of Arrow that stands for them."""


def schema_of_records(record_type: Any, shape: RecordShape, of_type: Callable[[Any], Type] | None = None) -> Composite:
    """Return the schema of records of a declared type; raise ``NotVectorizable`` if they are no more than their fields.

    ``of_type`` returns the schema of the values of a type of Arrow, where that is what is declared.

    >>> from funken import Types
    >>> sale = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.INT()])
    >>> schema_of_records(sale, shape_of(sale, "an example"))
    Row(item: str, n: int)
    >>> sales = Types.ROW_NAMED(["first", "all"], [sale, Types.LIST(sale)])
    >>> schema_of_records(sales, shape_of(sales, "an example"))
    Row(first: Row(item: str, n: int), all: list of Row(item: str, n: int))
    """
    declared = field_types(record_type) or [None] * len(shape.names)
    kinds = [
        _schema_of_field(of, each.type) if of_type is None else of_type(each.type)
        for of, each in zip(declared, shape.types(), strict=True)
    ]
    if isinstance(record_type, TupleTypeInfo):
        return Tuple(kinds)
    if isinstance(record_type, RowTypeInfo):
        if not record_type.field_names:
            raise NotVectorizable("reads rows whose fields have no names")
        return Record(kinds, ROW, shape.names)
    if not isinstance(record_type, type):
        return Record(kinds, DICT, shape.names)
    form = form_of(record_type)
    if form is None or form[1] != shape.names:
        raise NotVectorizable(f"an object of {record_type.__name__} may do more than to keep values")
    kinds = [
        optional(kind) if isinstance(kind, Atomic) and is_held(kind) and _may_be_none(hint) else kind
        for hint, kind in zip(declared, kinds, strict=True)
    ]
    return Record(kinds, form[0], shape.names, record_type)


def _may_be_none(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union) and type(None) in typing.get_args(hint)


def _schema_of_field(declared: Any, type_: Any) -> Type:
    """Return the schema of values of a declared type, which ``type_`` of Arrow has a place for."""
    if declared in _OTHER_THAN_ARROWS:
        return Object(repr(declared))  # no column holds these
    kind = kind_of_type(type_)
    declared, of = without_null(declared), extras.load("pyarrow").types
    if declared is not None and of.is_list(type_) and not _is_plain_list(kind, declared):
        found = ListOf(_schema_of_field(element_declared(declared), type_.value_type))
        return found if is_held(found) else kind
    if of.is_list(type_) and element_declared(declared) in _OTHER_THAN_ARROWS:
        return Object(str(type_))
    if declared is None or not of.is_struct(type_):
        return kind  # of what a schema of Arrow has within a struct, nothing is made but dicts
    try:
        within = schema_of_records(declared, shape_of(declared, "a record within a record"))
    except NotVectorizable:
        return kind
    return within if isinstance(within, Record) else kind


def _is_plain_list(kind: Type, declared: Any) -> bool:
    return isinstance(kind, ListOf) and element_declared(declared) not in _OTHER_THAN_ARROWS


# ---- what has to be there


def without_null(declared: Any) -> Any:
    """Return a declared type without ``None``; ``None`` if it is not one type.

    >>> without_null(int | None), without_null(list[int])
    (<class 'int'>, list[int])
    """
    if not _may_be_none(declared):
        return declared
    there = [each for each in typing.get_args(declared) if each is not type(None)]
    return there[0] if len(there) == 1 else None


def element_declared(declared: Any) -> Any:
    """Return the declared type of the items of lists; ``None`` for any other."""
    if isinstance(declared, OfElements):
        return declared.element_type
    return typing.get_args(declared)[0] if typing.get_origin(declared) is list else None


def names_of(schema: Type, shape: RecordShape | None) -> tuple[str, ...]:
    """Return the names of the columns that the fields of a schema are read from."""
    if isinstance(schema, Record):
        return schema.names
    assert shape is not None
    return shape.names


__all__ = ["element_declared", "names_of", "schema_of_records", "without_null"]
