"""The rows that are left of a changelog, as a table of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from funken.table.logical import RelationType
from funken.table.types import LogicalType, TimestampType, arrow_type
from funken.table.values import from_python
from funken.types.row import Row, RowKind

_TAKEN = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


def remaining(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that are left when all changes are applied, in the order in which they came.

    >>> remaining([Row(1), Row.of_kind(RowKind.UPDATE_BEFORE, 1), Row.of_kind(RowKind.UPDATE_AFTER, 2)])
    [<Row(2)>]
    """
    left: dict[int, Row] = {}
    places: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        values = repr(tuple(row))
        if row.get_row_kind() in _TAKEN:
            found = places.get(values)
            if found:
                del left[found.pop()]
        else:
            left[number] = Row(*row)
            places.setdefault(values, []).append(number)
    return list(left.values())


def arrow_of(rows: Iterable[Row], row_type: RelationType) -> pa.Table:
    """Return the rows that are left of changes as a table of Arrow."""
    left = remaining(rows)
    arrays = [from_python([row[place] for row in left], column.type) for place, column in enumerate(row_type)]
    fields = [pa.field(column.name, arrow_type(column.type)) for column in row_type]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


_UNITS = ("s", "ms", "us", "ns")


def in_units(table: pa.Table, types: Sequence[LogicalType]) -> pa.Table:
    """Return a table whose times without a zone are counted in the unit of their precision.

    >>> from funken.table.types import TimestampType
    >>> in_units(pa.table({"at": pa.array([0], pa.timestamp("us"))}), [TimestampType(3)]).schema.field("at").type
    TimestampType(timestamp[ms])
    """
    for place, type_ in enumerate(types):
        if isinstance(type_, TimestampType):
            table = table.set_column(place, table.schema.names[place], array_in_units(table.column(place), type_))
    return table


def array_in_units(array: Any, type_: LogicalType) -> Any:
    """Return a column whose times without a zone are counted in the unit of their precision."""
    return array.cast(pa.timestamp(_UNITS[(type_.precision + 2) // 3])) if isinstance(type_, TimestampType) else array
