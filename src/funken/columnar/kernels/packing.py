"""Records that a function has made, as columns of a schema that is known: each field is tested at once, in C."""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Column, Columns, column_of
from funken.columnar.records import field_getter, fits, has_form
from funken.expr.python.objects import CLASSES
from funken.expr.types import ARRAYS, Atomic, Composite, ListOf, Record, Type


def packed(values: list[Any], schema: Type, timestamps: list[int] | None = None) -> Columns | None:
    """Return records as columns; ``None`` if one of them is not of the schema.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> packed([(1, "a"), (2, "b")], Tuple((INT, STR))).to_list(), packed([(1, "a"), (2, None)], Tuple((INT, STR)))
    ([(1, 'a'), (2, 'b')], None)
    """
    leaves: list[Column] = []
    try:
        fit = _pack(values, schema, leaves)
    except (OverflowError, UnicodeEncodeError):  # an int of more than 64 bits, a text that has no encoding
        return None
    stamps = None if timestamps is None else np.array(timestamps, np.int64)
    return Columns(schema, leaves, len(values), stamps) if fit else None


def _pack(values: list[Any], schema: Type, leaves: list[Column]) -> bool:
    """Add the columns of values, unless one is not of the schema."""
    if isinstance(schema.required, ListOf):
        fit = all(fits(each, schema) for each in values)
    elif isinstance(schema, Atomic):
        wanted = CLASSES[schema.required] if schema.required in ARRAYS else None
        fit = wanted is not None and set(map(type, values)) <= {wanted, type(None) if schema not in ARRAYS else wanted}
    else:
        return _pack_fields(values, schema, leaves)
    if fit:
        leaves.append(column_of(values, schema))
    return fit


def _pack_fields(values: list[Any], schema: Composite, leaves: list[Column]) -> bool:
    if isinstance(schema, Record):
        if not all(has_form(value, schema) for value in values):
            return False
    elif not set(map(type, values)) <= {tuple} or not set(map(len, values)) <= {len(schema)}:
        return False
    fields = [field_getter(schema, index) for index in range(len(schema))]
    return all(_pack(list(map(field, values)), each, leaves) for field, each in zip(fields, schema, strict=True))


__all__ = ["packed"]
