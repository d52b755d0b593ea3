"""Kernels that compute each value of a column once, however often it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funken.expr.sql.values import is_scalar

_FEW = 64
"""Of fewer rows each is computed."""
_NANOS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


class _Values:
    """An evaluator of the values of a column instead of its rows."""

    def __init__(self, evaluator: Any, rows: int) -> None:
        self.context = evaluator.context
        self.rows = rows


def once_per_value(kernel: Any, coarser: Callable[[Any, list[Any]], int] | None = None) -> Any:
    """Return a kernel that computes each value of its one column once; the other arguments are the same for all rows.

    ``coarser`` says in which steps, in nanoseconds, a column of times matters.
    """

    def of_values(call: Any, arguments: list[Any], evaluator: Any) -> Any:
        import pyarrow as pa

        places = [place for place, each in enumerate(arguments) if not is_scalar(each)]
        column = arguments[places[0]] if len(places) == 1 and evaluator.rows >= _FEW else None
        if column is None or pa.types.is_nested(column.type) or pa.types.is_null(column.type):
            return kernel(call, arguments, evaluator)
        if coarser is not None and pa.types.is_timestamp(column.type):
            column = _in_steps(column, coarser(call, arguments))
        encoded = column.dictionary_encode("encode")
        values = encoded.dictionary
        if 2 * len(values) > evaluator.rows:
            return kernel(call, arguments, evaluator)
        given = [*arguments]
        given[places[0]] = values
        return kernel(call, given, _Values(evaluator, len(values))).take(encoded.indices)

    of_values.__name__ = "kernel"
    return of_values


def _in_steps(column: Any, step: int) -> Any:
    """Return the times of a column, rounded down to multiples of some nanoseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = step // _NANOS[column.type.unit]
    if size <= 1:
        return column
    numbers = column.view(pa.int64())
    floors = pc.divide(numbers, size)  # towards zero
    exact = pc.equal(pc.multiply(floors, size), numbers)
    floors = pc.if_else(pc.and_(pc.less(numbers, 0), pc.invert(exact)), pc.subtract(floors, 1), floors)
    return pc.multiply(floors, size).view(column.type)


__all__ = ["once_per_value"]
