"""Records that a function has made, as columns of a schema that is known: each field is tested at once, in C."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from funken.columnar.expressions import ARRAYS, ListOf, RecordSchema, without_none
from funken.columnar.kernels.columns import Column, Columns, column_of
from funken.columnar.records import NamedFields, fits

_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


def packed(values: list[Any], schema: RecordSchema, timestamps: list[int] | None = None) -> Columns | None:
    """Return records as columns; ``None`` if one of them is not of the schema.

    >>> packed([(1, "a"), (2, "b")], ("int", "str")).to_list(), packed([(1, "a"), (2, None)], ("int", "str"))
    ([(1, 'a'), (2, 'b')], None)
    """
    leaves: list[Column] = []
    try:
        fit = _pack(values, schema, leaves)
    except (OverflowError, UnicodeEncodeError):  # an int of more than 64 bits, a text that has no encoding
        return None
    stamps = None if timestamps is None else np.array(timestamps, np.int64)
    return Columns(schema, leaves, len(values), stamps) if fit else None


def _pack(values: list[Any], schema: RecordSchema, leaves: list[Column]) -> bool:
    """Add the columns of values, unless one is not of the schema."""
    if isinstance(schema, ListOf):
        fit = all(fits(each, schema) for each in values)
    elif isinstance(schema, str):
        wanted = _TYPES.get(without_none(schema))
        fit = wanted is not None and set(map(type, values)) <= {wanted, type(None) if schema not in ARRAYS else wanted}
    else:
        return _pack_fields(values, schema, leaves)
    if fit:
        leaves.append(column_of(values, schema))
    return fit


def _pack_fields(values: list[Any], schema: tuple[RecordSchema, ...], leaves: list[Column]) -> bool:
    if isinstance(schema, NamedFields):
        fields = [schema.field(index) for index in range(len(schema))]
        if not all(map(schema.holds, values)):
            return False
    else:
        fields = list(map(itemgetter, range(len(schema))))
        if not set(map(type, values)) <= {tuple} or not set(map(len, values)) <= {len(schema)}:
            return False
    return all(_pack(list(map(field, values)), each, leaves) for field, each in zip(fields, schema, strict=True))


__all__ = ["packed"]
