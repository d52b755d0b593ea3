"""Blocks as functions over whole blocks are given them.

Of a record that is a single value a function gets one array, else a record of arrays, a ``RecordBatch`` or a ``DataFrame``.
Which type an array has depends on the values of the block alone, whether they came as columns or as records: ints that fit into
64 bits, floats, bools and texts have one; anything else, also mixed, is an array of Python objects. Those of NumPy are read-only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funken.columnar.expressions import is_text
from funken.columnar.kernels.arrow import pa
from funken.columnar.kernels.columns import Array, Column, Columns, column_of, values_of_leaves
from funken.columnar.vectorized.functions import BatchFormat
from funken.columnar.vectorized.schemas import OBJECT, structure_of
from funken.errors import ValueDoesNotFit
from funken.expr.types import (
    ARRAYS,
    DICT,
    HIGHEST,
    INT,
    LOWEST,
    OF_CLASSES,
    ROW,
    STR,
    Atomic,
    Record,
    Type,
    atomic_fields,
)
from funken.types.row import Row


def columns_of_records(records: list[Any]) -> Columns:
    """Return columns of records whatever they are; raises ``ValueDoesNotFit`` if their fields differ.

    >>> [leaf.kind for leaf in columns_of_records([(1, "a", None), (2, "b", 3)]).leaves]
    [int, str, object]
    """
    structure = structure_of(records)
    leaves = [_by_content(values) for values in values_of_leaves(records, structure)]
    return Columns(structure, leaves, len(records))


def _by_content(values: list[Any]) -> Column:
    types = set(map(type, values))
    kind = OF_CLASSES.get(types.pop(), OBJECT) if len(types) == 1 else OBJECT
    if kind == INT and (min(values) < LOWEST or max(values) > HIGHEST):
        kind = OBJECT
    if kind == STR and not all(map(is_text, values)):
        kind = OBJECT
    return column_of(values, kind)


def argument_of(block: Columns, form: BatchFormat) -> Any:
    """Return a block as a function is given it."""
    leaves = [
        leaf if leaf.kind in ARRAYS else _by_content(leaf.to_list(block.length)) for leaf in block.leaves
    ]  # fmt: skip
    if form is BatchFormat.NUMPY:
        return record_of(block.schema, (_array(leaf, block.length) for leaf in leaves))
    columns = list(_top(block.schema, iter(leaves), block.length))
    if form is BatchFormat.PANDAS:
        return _pandas(block.schema, columns, block.length)
    return _arrow(block.schema, columns, block.length, form)


def record_of(schema: Type, values: Iterator[Any]) -> Any:
    """Return a record whose leaves are these values."""
    if isinstance(schema, Atomic):
        return next(values)
    fields = [record_of(each, values) for each in schema]
    if not isinstance(schema, Record):
        return tuple(fields)
    if schema.form == DICT:
        return dict(zip(schema.names, fields, strict=True))
    if schema.form == ROW:
        return Row(**dict(zip(schema.names, fields, strict=True)))
    assert schema.cls is not None
    return schema.cls(*fields)


def _array(leaf: Column, length: int) -> Array:
    if leaf.kind == STR:
        # Text in NumPy's own types drops zeros at its end.
        found = np.full(length, leaf.data, np.object_) if leaf.constant else leaf.data.to_numpy(zero_copy_only=False)
    else:
        found = leaf.array(length).view()
    found.flags.writeable = False
    return found


def _top(schema: Type, leaves: Iterator[Column], length: int) -> Iterator[Column]:
    """Yield the columns of a table: a field that is a record itself is one of Python objects."""
    for each in [schema] if isinstance(schema, Atomic) else schema:
        if isinstance(each, Atomic):
            yield next(leaves)
        else:
            inner = [next(leaves) for _ in atomic_fields(each)]
            yield column_of(Columns(each, inner, length).to_list(), OBJECT)


def _names(schema: Type) -> list[str]:
    if isinstance(schema, Record):
        return list(schema.names)
    return ["value"] if isinstance(schema, Atomic) else [f"f{number}" for number in range(len(schema))]


def _pandas(schema: Type, columns: list[Column], length: int) -> Any:
    import pandas as pd  # noqa: PLC0415 - takes 0.5 s, and is needed by few programs

    arrays = [np.array(_array(each, length)) for each in columns]
    if isinstance(schema, Atomic):
        return pd.Series(arrays[0], name="value")
    return pd.DataFrame(dict(zip(_names(schema), arrays, strict=True)))


def _arrow(schema: Type, columns: list[Column], length: int, form: BatchFormat) -> Any:
    arrays = []
    for name, each in zip(_names(schema), columns, strict=True):
        try:
            data = each.array(length)
            arrays.append(data if each.kind == STR else pa.array(data.tolist() if each.kind == OBJECT else data))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise ValueDoesNotFit(
                f"the field {name!r} has values that are not of one type of Arrow: {error}. Use the batch format 'numpy' or "
                "'pandas', which have Python objects for them"
            ) from error
    if form is BatchFormat.POLARS:
        import polars as pl  # noqa: PLC0415 - not a dependency of Funken

        if isinstance(schema, Atomic):
            return pl.Series("value", pl.from_arrow(arrays[0]))
        return pl.from_arrow(pa.Table.from_arrays(arrays, _names(schema)))
    return arrays[0] if isinstance(schema, Atomic) else pa.RecordBatch.from_arrays(arrays, _names(schema))


__all__ = ["argument_of", "columns_of_records", "record_of"]
