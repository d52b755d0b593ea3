"""Collected records as a table: which columns a record has, and what they are called.

Dicts, ``Row``s with names, named tuples and dataclasses have the columns that they name; tuples, and ``Row``s without names, have
``f0``, ``f1``, ... as in Flink; everything else is a column ``value``. Types are pyarrow's choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from funken.errors import InvalidProgram
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


def table_of(records: Sequence[object]) -> Any:
    """Return a ``pyarrow.Table`` of records; a column that a record lacks is null there.

    Raises ``InvalidProgram`` where values of a column have no type in common.
    """
    import pyarrow as pa

    rows = [columns_of(record) for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise InvalidProgram(
                f"column {name!r} of the records cannot be a column of a table: {error}. Give it values of one type, which Arrow "
                "has (numbers, text, bytes, times, lists and dicts of these), in a map() before."
            ) from error
    return pa.table(columns)
