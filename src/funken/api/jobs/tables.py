"""Collected records as a table; types are pyarrow's choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.errors import InvalidProgram
from funken.types.columns import columns_of


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
