"""Tables whose values are records: dicts of texts or ints to tuples, or to dicts with the same names, all of them alike.

To look something up in such a table is to look up each field that is used, in a table of that field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funken.columnar.expressions import Constant, Expression, Invoke, Make, MakeRecord, NotVectorizable, Rowwise
from funken.columnar.typed.values import Typed, after
from funken.expr.types import DICT, INT, OF_CLASSES, STR, Atomic, Record, Tuple, Type, atomic_fields

_MOST_ITEMS = 1000
_Of = Callable[[Expression], Typed]


def table_schema(table: Any) -> Type | None:
    """Return the schema of the records in a table, small enough to be compared once a block; ``None`` if it is no such table.

    >>> table_schema({"a": ("x", 1), "b": ("y", 2)}), table_schema({"a": {"n": 1.5}}), table_schema({"a": (1,), "b": (1, 2)})
    ((str, int), {n: float}, None)
    """
    if type(table) is not dict or not 0 < len(table) <= _MOST_ITEMS:
        return None
    values, keys = list(table.values()), set(map(type, table))
    first = values[0]
    if len(keys) > 1 or not keys <= {int, str} or {type(each) for each in values} not in ({tuple}, {dict}) or not first:
        return None
    if type(first) is tuple:
        rows: list[Any] = values if {len(each) for each in values} == {len(first)} else []
    else:
        alike = {tuple(each) for each in values} == {tuple(first)} and all(type(name) is str for name in first)
        rows = [tuple(each.values()) for each in values] if alike else []
    types = [set(map(type, field)) for field in zip(*rows, strict=True)]
    if not rows or any(len(each) > 1 or not each <= OF_CLASSES.keys() for each in types):
        return None
    schema = Tuple(OF_CLASSES[each.pop()] for each in types)
    return schema if type(first) is tuple else Record(schema, DICT, tuple(first))


def is_record_table(found: Any) -> bool:
    """Whether an expression is such a table."""
    return isinstance(found, Constant) and table_schema(found.value) is not None


def looked_up(table: Any, key: Typed, default: Typed | None = None) -> Typed:
    """Return the record of a key; where there is none the default, of the same schema, or without one an error."""
    schema = table_schema(table)
    assert schema is not None
    if default is not None and default[1] != schema:
        raise NotVectorizable(f"gives sometimes {schema} and sometimes {default[1]}")
    if key[1] not in (INT, STR):
        raise NotVectorizable(f"looks up {key[1]}")
    fields = []
    for number, (_, kind) in enumerate(atomic_fields(schema)):
        of_field = Constant({name: _values(record)[number] for name, record in table.items()})
        if default is None:
            fields.append(Rowwise("item", (of_field, key[0]), kind))
            continue
        made = default[0].items[number] if isinstance(default[0], Make) else None
        if not isinstance(made, Constant):
            raise NotVectorizable("looks up a record with a default that is computed")
        fields.append(Rowwise("get", (of_field, key[0], made), kind))
    # Without a default all fields raise for the same records: whichever is used shows it.
    result = Make(tuple(fields))
    return (result if default is not None else after([fields[0]], result)), schema


def field_looked_up(owner: Expression, given: tuple[Expression, ...], of: _Of) -> Typed | None:
    """Return ``table.get(key, {}).get(name, default)``; ``None`` if that is not what it is."""
    match owner:
        case Invoke(".get", (Constant(table), key, MakeRecord(form, (), ()))) if form == DICT:
            schema = table_schema(table)
        case _:
            return None
    name = given[0].value if given and isinstance(given[0], Constant) else None
    if not isinstance(schema, Record) or type(name) is not str or len(given) != 2:
        return None
    made, kind = of(key)
    default, of_default = of(given[1])
    position = schema.position(name)
    if position is None:
        return after([made], default), of_default
    of_field = schema[position]
    if of_default != of_field or kind not in (INT, STR) or not isinstance(of_field, Atomic):
        raise NotVectorizable(f"gives sometimes {of_field} and sometimes {of_default}")
    values = Constant({each: record[name] for each, record in table.items()})
    return Rowwise("get", (values, made, default), of_field), of_field


def _values(record: Any) -> tuple[Any, ...]:
    return tuple(record.values()) if isinstance(record, dict) else record


__all__ = ["field_looked_up", "is_record_table", "looked_up", "table_schema"]
