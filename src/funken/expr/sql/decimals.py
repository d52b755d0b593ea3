"""Columns of DECIMAL as integers: their unscaled values, in 64 bits where these are enough, and as Python's otherwise."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = Any


def unscaled(column: pa.Array) -> Array:
    """Return the unscaled values of a column, 0 for NULL: an array of int64, of Python's integers if one is too large for that.

    >>> from decimal import Decimal
    >>> unscaled(pa.array([Decimal("1.25"), None, Decimal("-2")], pa.decimal128(10, 2)))
    array([ 125,    0, -200])
    """
    column = pc.fill_null(column, pa.scalar(Decimal(0), column.type)) if column.null_count else column
    words = column.type.byte_width // 8
    data = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, words)[column.offset : column.offset + len(column)]
    low = data[:, 0]
    if bool((data[:, 1:] == (low >> 63)[:, None]).all()):
        return np.ascontiguousarray(low)
    found = np.empty(len(column), np.object_)
    found[:] = [int.from_bytes(row.tobytes(), "little", signed=True) for row in data]
    return found


def of_unscaled(values: Array, type_: pa.DataType, missing: Array | None = None) -> pa.Array:
    """Return a column of unscaled values; ``missing``: which are NULL.

    >>> of_unscaled(np.array([125, -200]), pa.decimal256(76, 2), np.array([False, True])).to_pylist()
    [Decimal('1.25'), None]
    """
    words = type_.byte_width // 8
    if values.dtype == np.object_:
        data = b"".join(int(each).to_bytes(8 * words, "little", signed=True) for each in values)
    else:
        rows = np.empty((len(values), words), np.int64)
        rows[:, 0] = values
        rows[:, 1:] = (values >> 63)[:, None]
        data = rows.tobytes()
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(data)])


def summed(values: Array, order: Array, begins: Array, most: int) -> Array:
    """Return the sums of runs of values, of which the longest has ``most``, exactly."""
    values = values.take(order)
    if values.dtype != np.object_ and len(values) and int(np.abs(values).max()) * most >= 1 << 62:
        values = values.astype(np.object_)
    return np.add.reduceat(values, begins)


def computed(name: str, one: Any, other: Any, result: pa.DataType) -> pa.Array | None:
    """Return ``+``, ``-`` or ``*`` of decimals, of which one may be a scalar, rounded half up; ``None`` if 64 bits are too few.

    >>> computed("*", pa.array([Decimal("1.50"), None]), pa.scalar(Decimal("0.3")), pa.decimal128(38, 3)).to_pylist()
    [Decimal('0.450'), None]
    >>> computed("-", pa.array([Decimal("1.50")]), pa.array([Decimal("0.3")]), pa.decimal128(38, 1)).to_pylist()
    [Decimal('1.2')]
    """
    values = [
        unscaled(pa.array([each.as_py()], each.type) if isinstance(each, pa.Scalar) else each) for each in (one, other)
    ]
    scales = [one.type.scale, other.type.scale]
    if any(each.dtype == np.object_ for each in values):
        return None
    factors = [1, 1] if name == "*" else [10 ** (max(scales) - scale) for scale in scales]
    bounds = [int(np.abs(each).max(initial=0)) * factor for each, factor in zip(values, factors, strict=True)]
    excess = (sum(scales) if name == "*" else max(scales)) - result.scale
    most = math.prod(bounds) if name == "*" else sum(bounds)
    if excess < 0 or max(most, *bounds) >= min(1 << 60, 10 ** (result.precision + excess)):
        return None
    left, right = (each if factor == 1 else each * factor for each, factor in zip(values, factors, strict=True))
    found = left * right if name == "*" else left + right if name == "+" else left - right
    if excess:
        step = 10**excess
        rounded = (np.abs(found) * 2 + step) // (2 * step)
        found = np.where(found < 0, -rounded, rounded)
    missing = None
    for each in (one, other):
        if isinstance(each, pa.Array) and each.null_count:
            nulls = each.is_null().to_numpy(zero_copy_only=False)
            missing = nulls if missing is None else missing | nulls
    return of_unscaled(found, result, missing)
