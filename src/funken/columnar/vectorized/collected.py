"""A list of records as columns, if they are all alike and their values are of types that columns hold.

The records that the columns give back are equal to those given, and of the same types to the last value. Values are looked at
field by field, never record by record.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import Any

from funken.columnar.expressions import NotVectorizable
from funken.columnar.faults import reads
from funken.columnar.kernels.columns import Column, Columns, column_of
from funken.columnar.records import field_getter, form_of, has_form
from funken.expr.python.objects import BYTES, DATE, DATETIME, DECIMAL, OBJECTS, TIMEDELTA
from funken.expr.types import (
    DICT,
    HIGHEST,
    INT,
    LOWEST,
    NONE,
    NUMBER,
    OF_CLASSES,
    ROW,
    Atomic,
    ListOf,
    Record,
    Tuple,
    Type,
    optional,
)
from funken.types.row import Row

_HELD = (BYTES, DATE, DATETIME, DECIMAL, TIMEDELTA)
_KINDS = OF_CLASSES | {cls: kind for cls, kind in OBJECTS.items() if kind in _HELD}
_NOTHING = type(None)


@reads
def columns_of_alike(records: list[Any]) -> Columns:
    """Return the columns of records, at least one; raise ``NotVectorizable`` with the reason if there are none.

    >>> block = columns_of_alike([{"word": "to", "n": 1}, {"word": "be", "n": None}])
    >>> block.schema, block.to_list()
    ({word: str, n: int?}, [{'word': 'to', 'n': 1}, {'word': 'be', 'n': None}])
    >>> columns_of_alike([(1, True), (1, 2)])
    Traceback (most recent call last):
        ...
    funken.columnar.expressions.NotVectorizable: has elements with values of the types bool, int in the same place
    """
    leaves: list[Column] = []
    return Columns(_taken(records, leaves), leaves, len(records))


def _taken(values: list[Any], leaves: list[Column]) -> Type:
    """Return the schema of values, and append their columns to ``leaves``."""
    types = set(map(type, values))
    kind = _kind(values, types)
    if kind is not None:
        leaves.append(_column(values, kind))
        return kind
    if len(types) > 1:
        names = ", ".join(sorted(cls.__qualname__ for cls in types))
        raise NotVectorizable(f"has elements with values of the types {names} in the same place")
    structure = _structure(values[0])
    named = isinstance(structure, Record)
    alike = all(has_form(value, structure) for value in values) if named else len(set(map(len, values))) == 1
    if not alike or not structure:
        raise NotVectorizable(f"has elements with {'different' if structure else 'no'} fields")
    fields = [field_getter(structure, number) if named else itemgetter(number) for number in range(len(structure))]
    schemas = [_taken(list(map(field, values)), leaves) for field in fields]
    return structure.with_fields(schemas) if named else Tuple(schemas)


def _kind(values: list[Any], types: set[type]) -> Atomic | None:
    """Return the kind of single values; ``None``: they are records, or of several types."""
    missing, types = _NOTHING in types, types - {_NOTHING}
    if not types:
        return NONE
    if types == {int, float} and not missing:
        return NUMBER
    if len(types) > 1:
        return None
    (cls,) = types
    there = [each for each in values if each is not None] if missing else values
    if cls is list:
        items = list(chain.from_iterable(there))
        if not items:
            raise NotVectorizable("has elements with lists, and nothing in them shows what they hold")
        lists = ListOf(_taken(items, []))
        return optional(lists) if missing else lists
    kind = _KINDS.get(cls)
    if kind is None:
        return None
    if kind == INT and not LOWEST <= min(there) <= max(there) <= HIGHEST:
        raise NotVectorizable("has elements with ints of more than 64 bits")
    return optional(kind) if missing else kind


def _column(values: list[Any], kind: Atomic) -> Column:
    try:
        return column_of(values, kind)
    except UnicodeEncodeError:
        raise NotVectorizable("has elements with text that has no encoding: a lone surrogate") from None


def _structure(record: Any) -> Any:
    """Return how a record is put together, without the types of its fields."""
    cls: Any = type(record)
    if cls is tuple:
        return record
    if cls is dict and all(type(name) is str for name in record):
        return Record((NONE,) * len(record), DICT, tuple(record))
    if cls is Row and record._fields:
        return Record((NONE,) * len(record._fields), ROW, tuple(record._fields))
    form = form_of(cls)
    if form is None:
        raise NotVectorizable(f"has elements with values of the type {cls.__qualname__}, of which there are no columns")
    return Record((NONE,) * len(form[1]), form[0], form[1], cls)


__all__ = ["columns_of_alike"]
