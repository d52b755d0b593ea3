"""Records as columns: which columns a record has, and what they are called.

Dicts, ``Row``s with names, named tuples and dataclasses have the columns that they name; tuples, and ``Row``s without names, have
``f0``, ``f1``, ... as in Flink; everything else is a column ``value``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from funken.types.row import Row


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
