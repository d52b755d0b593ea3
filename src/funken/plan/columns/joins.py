"""Which joins work on columns: those whose function can be read, of records that arrays hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.columnar.declared import named_rows_of_all
from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps.conventions import pair_schema, trace_join_function, trace_pairs
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.expr.types import ListOf, Tuple, Type
from funken.operators.join import CoGroup, IntervalJoinSpec, JoinPairs, WindowJoin
from funken.operators.stateful.specs import ColumnarIntervalJoin, ColumnarWindowJoin
from funken.operators.window.spec import Strategy
from funken.plan.columns.functions import keys_of
from funken.plan.columns.windows import check_arrays
from funken.types.info import TypeInformation

_FEW_COPIES = 4
"""A record is in so many windows at most."""
_WIDEST = 1 << 60
"""The widest interval, in ms: times and bounds are added up in 64 bits."""


def columnar_interval_join(
    spec: IntervalJoinSpec, schemas: Sequence[Type], declared: TypeInformation | None = None
) -> tuple[ColumnarIntervalJoin, Type]:
    """Return the operator of an interval join, and the schema of its results."""
    for schema in schemas:
        check_arrays(schema)
    if not -_WIDEST < spec.lower <= spec.upper < _WIDEST:
        raise NotVectorizable("has bounds too wide")
    keys = keys_of((spec.key1, spec.key2), schemas)
    left, right = schemas
    traced = trace_join_function(spec.function.target, spec.function.method)
    given, results = _typed(traced, pair_schema(left, right), declared)
    made = ColumnarIntervalJoin(
        spec.function, spec.key1, spec.key2, spec.lower, spec.upper, spec.left_late, spec.right_late,
        (left, right), tuple(traced for traced, _ in keys), given, results,
    )  # fmt: skip
    return made, results


def columnar_window_join(
    spec: WindowJoin, schemas: Sequence[Type], declared: TypeInformation | None = None
) -> tuple[ColumnarWindowJoin, Type]:
    """Return the operator of a join or co-group in windows, and the schema of its results."""
    window = spec.window
    assert window.function is not None
    groups: CoGroup = window.function.call.target
    if window.strategy is not Strategy.ALIGNED or not window.assigner.is_event_time():
        raise NotVectorizable("joins in other windows than tumbling and sliding ones of event time")
    assigner: Any = window.assigner
    if assigner.size > _FEW_COPIES * getattr(assigner, "slide", assigner.size):
        raise NotVectorizable("keeps each record in many windows")
    for schema in schemas:
        check_arrays(schema)
    keys = keys_of((spec.key1, spec.key2), schemas)
    left, right = schemas
    function, flat = groups.function, groups.flat if isinstance(groups, JoinPairs) else True
    seen = Tuple((left, right) if isinstance(groups, JoinPairs) else (ListOf(left), ListOf(right)))
    given, results = _typed(trace_pairs(function.target, function.method, flat), seen, declared)
    traced_keys = tuple(traced for traced, _ in keys)
    return ColumnarWindowJoin(spec.key1, spec.key2, window, (left, right), traced_keys, given, results), results


def _typed(traced: TracedFlatMap, schema: Type, declared: TypeInformation | None) -> tuple[TracedFlatMap, Type]:
    if any(each.side is not None for each in traced.emissions):
        raise NotVectorizable("gives side outputs")
    return named_rows_of_all(traced, declared).typed(schema)
