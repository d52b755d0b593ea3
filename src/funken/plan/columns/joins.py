"""Which joins work on columns: those whose function can be read, of records that arrays hold."""

from __future__ import annotations

from collections.abc import Sequence

from funken.columnar.expressions import NotVectorizable, RecordSchema
from funken.columnar.flat_maps.joins import pair_schema, trace_join_function
from funken.operators.join.interval_join import IntervalJoinSpec
from funken.operators.stateful.specs import ColumnarIntervalJoin
from funken.plan.columns.states import keys_of
from funken.plan.columns.windows import check_arrays

_WIDEST = 1 << 60
"""The widest interval, in ms: times and bounds are added up in 64 bits."""


def columnar_interval_join(
    spec: IntervalJoinSpec, schemas: Sequence[RecordSchema]
) -> tuple[ColumnarIntervalJoin, RecordSchema]:
    """Return the operator of an interval join, and the schema of its results."""
    for schema in schemas:
        check_arrays(schema)
    if not -_WIDEST < spec.lower <= spec.upper < _WIDEST:
        raise NotVectorizable("has bounds too wide")
    keys = keys_of((spec.key1, spec.key2), schemas)
    left, right = schemas
    given, results = trace_join_function(spec.function.target, spec.function.method).typed(pair_schema(left, right))
    made = ColumnarIntervalJoin(
        spec.function, spec.key1, spec.key2, spec.lower, spec.upper, spec.left_late, spec.right_late,
        (left, right), tuple(traced for traced, _ in keys), given, results,
    )  # fmt: skip
    return made, results


__all__ = ["columnar_interval_join"]
