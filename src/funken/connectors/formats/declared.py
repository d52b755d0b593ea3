"""The schema of records of a declared type, those within them included: what columns of their fields are.

What is within a record is made of its own type, also in lists: a data class, a named tuple, a row. A class whose objects may do
more than to keep values has no columns: a field of it has a kind that no column holds.
"""

from __future__ import annotations

import importlib
import types
import typing
from collections.abc import Callable
from typing import Any

from funken.columnar.expressions import ListOf, NotVectorizable, RecordSchema, optional
from funken.columnar.records import DICT, ROW, NamedFields, form_of
from funken.connectors.formats.arrow_columns import is_held, kind_of_type
from funken.connectors.formats.record_types import RecordShape, field_types, shape_of
from funken.types.info import OfElements, RowTypeInfo, TupleTypeInfo


def schema_of_records(
    record_type: Any, shape: RecordShape, of_type: Callable[[Any], RecordSchema] | None = None
) -> RecordSchema:
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
        return tuple(kinds)
    if isinstance(record_type, RowTypeInfo):
        if not record_type.field_names:
            raise NotVectorizable("reads rows whose fields have no names")
        return NamedFields(kinds, ROW, shape.names)
    if not isinstance(record_type, type):
        return NamedFields(kinds, DICT, shape.names)
    form = form_of(record_type)
    if form is None or form[1] != shape.names:
        raise NotVectorizable(f"an object of {record_type.__name__} may do more than to keep values")
    kinds = [
        optional(kind) if isinstance(kind, str) and is_held(kind) and _may_be_none(hint) else kind
        for hint, kind in zip(declared, kinds, strict=True)
    ]
    return NamedFields(kinds, form[0], shape.names, record_type)


def _may_be_none(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union) and type(None) in typing.get_args(hint)


def _schema_of_field(declared: Any, type_: Any) -> RecordSchema:
    """Return the schema of values of a declared type, which ``type_`` of Arrow has a place for."""
    kind = kind_of_type(type_)
    if _may_be_none(declared):
        there = [each for each in typing.get_args(declared) if each is not type(None)]
        return _schema_of_field(there[0], type_) if len(there) == 1 else kind
    of = importlib.import_module("pyarrow").types
    if declared is not None and of.is_list(type_) and not isinstance(kind, ListOf):
        element = declared.element_type if isinstance(declared, OfElements) else (*typing.get_args(declared), None)[0]
        found = ListOf(_schema_of_field(element, type_.value_type))
        return found if is_held(found) else kind
    if declared is None or not of.is_struct(type_):
        return kind  # of what a schema of Arrow has within a struct, nothing is made but dicts
    try:
        within = schema_of_records(declared, shape_of(declared, "a record within a record"))
    except NotVectorizable:
        return kind
    return within if isinstance(within, NamedFields) else kind


def names_of(schema: RecordSchema, shape: RecordShape | None) -> tuple[str, ...]:
    """Return the names of the columns that the fields of a schema are read from."""
    if isinstance(schema, NamedFields):
        return schema.names
    assert shape is not None
    return shape.names


__all__ = ["names_of", "schema_of_records"]
