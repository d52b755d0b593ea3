"""Windows and joins on columns, and the cases in which merging, reordering and columns as results change nothing.

In ``BATCH`` the records of a key are sorted by time before they are folded, and sessions are folded in parts that merge: both
need folds that do not show the order of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

from funken.columnar.declared import (
    EXTREME,
    FIRST,
    LAST,
    ORDERED,
    SUM,
    Aggregate,
    Fold,
    aggregate_folds,
    all_records,
    merge_folds,
    named_rows_of_all,
)
from funken.columnar.expressions import Argument, Constant, Expression, Make, NotVectorizable
from funken.columnar.flat_maps import BUCKET, JOIN, PAIR, PAIRS, pair_schema, trace_by, window_function
from funken.columnar.recurrence import ALL, ListFold
from funken.columnar.tracing import Traced, trace
from funken.columnar.typed.inference import TracedFlatMap
from funken.connectors.base import declares
from funken.expr.types import (
    ARRAYS,
    INT,
    NAMED_TUPLE,
    STR,
    ListOf,
    Record,
    Tuple,
    Type,
    atomic_fields,
    is_key,
    types_in,
)
from funken.operators.columnar.specs import ColumnarJoin, ColumnarSink, ColumnarWindow
from funken.operators.join import CoGroup, IntervalJoinSpec, JoinPairs, WindowJoin
from funken.operators.sink import WriterSink
from funken.operators.user_functions import UserFunction, call_of
from funken.operators.window.contents import Aggregated, CallStyle, Elements, Reduced, WindowCall
from funken.operators.window.spec import Strategy, WindowSpec
from funken.plan.columns.declared import declared_folds
from funken.types.info import TypeInformation
from funken.windowing.assigners import DynamicEventTimeSessionWindows
from funken.windowing.windows import TimeWindow

VECTORIZED = "vectorized"
_FEW_COPIES = 4
"""In so many windows a record may be kept: each has a copy of it, where lists of objects share one."""

_TIME_WINDOW = Record((INT, INT), NAMED_TUPLE, TimeWindow._fields, TimeWindow)


def columnar_window(
    spec: WindowSpec, schema: Type, batch: bool, given: TypeInformation | None, made: TypeInformation | None
) -> tuple[ColumnarWindow, Type | None, str]:
    """Return the operator, the schema of its results if these are columns, and the text of ``explain()``.

    ``given`` and ``made`` are the declared types of the records and of the results, if they have one.
    """
    counts, sessions = spec.layout is Strategy.COUNTS, spec.layout is Strategy.SESSIONS
    if spec.layout is Strategy.GENERAL:
        raise NotVectorizable("windows with triggers, evictors or lateness have no vectorized form")
    if spec.general and batch:
        raise NotVectorizable("keeps windows in keyed state, whose records BATCH sorts by time")
    if counts and batch:
        raise NotVectorizable("sees its records one by one, which BATCH sorts by time")
    check_arrays(schema)
    key = traced_key(spec.key, schema)
    contents, aggregate = spec.contents, None
    if isinstance(contents, Reduced):
        traced, folds = declared_folds(contents.function, schema, given)
    else:
        aggregate = all_records(schema)
        if isinstance(contents, Aggregated):
            aggregate = aggregate_folds(contents.function.target, schema, made if spec.function is None else None)
        traced, folds = aggregate.added, aggregate.folds
    if aggregate is not None and aggregate.listed is not None:
        _check_lists(spec, aggregate.listed, batch)
    for fold in folds:
        if fold.how in EXTREME or fold.how in ORDERED:
            raise NotVectorizable(f"keeps whole records of a window by {fold.how}")
        if fold.kind == STR and not (fold.how in (FIRST, LAST) and isinstance(fold.of, Argument)):
            raise NotVectorizable("makes text of the records of a window")
    if batch and any(shows_order(fold, own, key) for fold, own in _with_own(folds, schema, aggregate)):
        raise NotVectorizable("shows the order of its records, which BATCH sorts by time")
    if sessions and (aggregate is None or aggregate.listed is None):
        _check_merges(spec, folds, schema, aggregate, key)
    function, results, path = _results(spec, schema, aggregate, made)
    if results is None and isinstance(contents, Elements):
        raise NotVectorizable(
            path.removeprefix(f"{VECTORIZED}; gives records: ")
        )  # its lists would become objects again
    fields = {name: getattr(spec, name) for name in WindowSpec.__dataclass_fields__}
    window = ColumnarWindow(
        **fields, traced_key=key, traced=traced, folds=folds, schema=schema, aggregate=aggregate, results=results,
        given=function, key_schema=_key_schema(spec, schema), gap=_gap(spec, schema),
    )  # fmt: skip
    return window, results, path


def _gap(spec: WindowSpec, schema: Type) -> tuple[UserFunction, Traced] | None:
    """Return a function from a record to its gap, if there is one; raise ``NotVectorizable`` if it is no int."""
    if type(spec.assigner) is not DynamicEventTimeSessionWindows:
        return None
    extractor = spec.assigner.extractor
    call = UserFunction(extractor, "extract") if hasattr(extractor, "extract") else call_of(extractor, "extract")
    try:
        traced, kind = trace(call.target, call.method, 1).typed(schema)
    except NotVectorizable as reason:
        raise NotVectorizable(f"its gap {reason}") from None
    if kind != INT:
        raise NotVectorizable(f"its gap is no int, but {kind}")
    return call, traced


def _check_lists(spec: WindowSpec, listed: ListFold, batch: bool) -> None:
    """Raise ``NotVectorizable`` unless windows can keep lists of their records."""
    if batch or not (spec.layout is Strategy.ALIGNED or listed == ListFold(ALL)):
        raise NotVectorizable("keeps a list of the records of a window, in their order")
    if spec.layout is not Strategy.ALIGNED:
        return
    overlap: Any = spec.assigner
    if listed == ListFold(ALL) and overlap.size > _FEW_COPIES * getattr(overlap, "slide", overlap.size):
        raise NotVectorizable("keeps each record in many windows")


def _check_merges(
    spec: WindowSpec, folds: tuple[Fold, ...], schema: Type, aggregate: Aggregate | None, key: Traced
) -> None:
    """Raise ``NotVectorizable`` unless merged sessions equal one session of their records, in any order."""
    for fold, own in _with_own(folds, schema, aggregate):
        if shows_order(fold, own, key) or (fold.how == LAST and own is not None and not is_of_key(fold.of, key)):
            raise NotVectorizable("shows the order of the records of a session")
    if aggregate is None:
        return
    assert isinstance(spec.contents, Aggregated)
    merges, found = trace(spec.contents.function.target, "merge", 2, changes=True).typed(
        aggregate.schema, aggregate.schema
    )
    if found != aggregate.schema:
        raise NotVectorizable(f"merges two {aggregate.schema} into {found}")
    for (path, kind), fold, merge, beginning in zip(
        atomic_fields(aggregate.schema), folds, merge_folds(merges, aggregate.schema), aggregate.beginnings, strict=True
    ):
        wanted = (FIRST, LAST) if fold.how in (FIRST, LAST) else (fold.how,)
        alike = merge.how == FIRST or merge.of == Argument(0, path)
        if merge.how not in wanted or not alike or (fold.how == SUM and (kind != INT or beginning != 0)):
            raise NotVectorizable("merges accumulators in another way than it adds to them")


def _results(
    spec: WindowSpec, schema: Type, aggregate: Aggregate | None, made: TypeInformation | None
) -> tuple[TracedFlatMap | None, Type | None, str]:
    """Return a window function's results, the schema of those that go on as columns, and ``explain()``'s text."""
    if aggregate is not None and aggregate.result is None:
        return None, None, f"{VECTORIZED}; gives records: {aggregate.reason}"
    contents = schema if aggregate is None else aggregate.result_schema
    assert contents is not None
    if spec.function is None:
        return None, contents, VECTORIZED
    try:
        given, results = _given(spec, spec.function, contents, _key_schema(spec, schema), made)
    except NotVectorizable as reason:
        return None, None, f"{VECTORIZED}; gives records: its window function {reason}"
    return given, results, VECTORIZED


def _given(
    spec: WindowSpec, function: WindowCall, contents: Type, key: Type, made: TypeInformation | None
) -> tuple[TracedFlatMap, Type]:
    """Return a window function's results for (key, contents, window), and their schema; raise ``NotVectorizable``."""
    target, style = function.call.target, function.style
    context = style in (CallStyle.PROCESS, CallStyle.PROCESS_ALL)
    if context and callable(getattr(target, "clear", None)):
        cleared = trace(target, "clear", 1)
        if cleared.result != Constant(None):
            raise NotVectorizable("does something in clear()")
    keyed, bounds = style in (CallStyle.PROCESS, CallStyle.APPLY), spec.layout is not Strategy.COUNTS
    many = isinstance(spec.contents, Elements)
    traced = trace_by(window_function(keyed, context, bounds, many), target, function.call.method)
    return named_rows_of_all(traced, made).typed(Tuple((key, contents, _TIME_WINDOW)))


def _key_schema(spec: WindowSpec, schema: Type) -> Type:
    return trace(spec.key.target, spec.key.method, 1).typed(schema)[1]


def check_arrays(schema: Type) -> None:
    """Raise ``NotVectorizable`` unless all fields have types that arrays hold."""
    others = types_in(schema) - set(ARRAYS)
    if others:
        raise NotVectorizable(f"keeps fields of another type: {', '.join(sorted(map(str, others)))}")


def _with_own(
    folds: tuple[Fold, ...], schema: Type, aggregate: Aggregate | None
) -> list[tuple[Fold, tuple[int, ...] | None]]:
    """Return each aggregate with the field of the first record that it begins with; ``None``: with a constant."""
    if aggregate is not None:
        return [(fold, None) for fold in folds]
    return [(fold, path) for fold, (path, _) in zip(folds, atomic_fields(schema), strict=True)]


def shows_order(fold: Fold, own: tuple[int, ...] | None, key: Traced) -> bool:
    """Return True if an aggregate may depend on the order of a key's records; ``own``: the field it begins with."""
    if fold.how in EXTREME or fold.how in ORDERED:
        return True
    if fold.how == FIRST:
        return own is not None and not is_of_key(Argument(0, own), key)
    if fold.how == LAST:
        return not isinstance(fold.of, Constant) and not is_of_key(fold.of, key)
    return fold.kind != INT or (own is not None and fold.of != Argument(0, own))


def traced_key(call: UserFunction, schema: Type) -> Traced:
    """Return the key of records as an expression; raise ``NotVectorizable`` if it is no int or text, nor a tuple of these."""
    traced, kind = trace(call.target, call.method, 1).typed(schema)
    if not is_key(kind):
        raise NotVectorizable(f"the key is no int or str, nor a tuple of these, but {kind}")
    return traced


def is_of_key(expression: Expression, key: Traced) -> bool:
    """Return True if an expression is the key, or an item of it: all records of a key have the same."""
    result = key.result
    return expression == result or (isinstance(result, Make) and expression in result.items)


# ---- A sink that takes columns, and by what it wants them grouped.


def columnar_sink(spec: WriterSink, schema: Type) -> ColumnarSink:
    """Return the spec; raise ``NotVectorizable`` if the groups cannot be computed of columns: the sink needs records then."""
    sink = spec.sink
    function = sink.grouped_by if declares(sink, "grouped_by", "writer") else None
    if function is None:
        return ColumnarSink(spec)
    if not isinstance(function, MethodType):
        raise NotVectorizable(f"is grouped by {function!r}, which is no method")
    owner, name = function.__self__, function.__name__
    try:
        traced, kind = trace(owner, name, BUCKET).typed(schema, INT)
    except NotVectorizable as reason:
        raise NotVectorizable(f"its {type(owner).__qualname__}.{name} {reason}") from None
    if kind != STR:
        raise NotVectorizable(f"its {type(owner).__qualname__}.{name} gives no text")
    return ColumnarSink(spec, traced)


def keys_of(keys: Sequence[UserFunction], schemas: Sequence[Type]) -> list[tuple[Traced, Type]]:
    """Return the keys of the inputs of an operator, and their schemas, all of which have to be alike."""
    known = [
        (traced_key(key, schema), trace(key.target, key.method, 1).typed(schema)[1])
        for key, schema in zip(keys, schemas, strict=True)
    ]
    if len({repr(kind) for _, kind in known}) > 1:
        raise NotVectorizable(f"has keys of two kinds: {' and '.join(str(kind) for _, kind in known)}")
    return known


# ---- Which joins work on columns: those whose function can be read, of records that arrays hold.


_WIDEST = 1 << 60
"""The widest interval, in ms: times and bounds are added up in 64 bits."""


def columnar_interval_join(
    spec: IntervalJoinSpec, schemas: Sequence[Type], declared: TypeInformation | None = None
) -> tuple[ColumnarJoin, Type]:
    """Return the operator of an interval join, and the schema of its results."""
    for schema in schemas:
        check_arrays(schema)
    if not -_WIDEST < spec.lower <= spec.upper < _WIDEST:
        raise NotVectorizable("has bounds too wide")
    keys = keys_of((spec.key1, spec.key2), schemas)
    left, right = schemas
    traced = trace_by(JOIN, spec.function.target, spec.function.method)
    given, results = _typed(traced, pair_schema(left, right), declared)
    return ColumnarJoin(spec, (left, right), tuple(traced for traced, _ in keys), given, results), results


def columnar_window_join(
    spec: WindowJoin, schemas: Sequence[Type], declared: TypeInformation | None = None
) -> tuple[ColumnarJoin, Type]:
    """Return the operator of a join or co-group in windows, and the schema of its results."""
    window = spec.window
    assert window.function is not None
    groups: CoGroup = window.function.call.target
    if window.layout is not Strategy.ALIGNED or not window.assigner.is_event_time():
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
    given, results = _typed(trace_by(PAIRS if flat else PAIR, function.target, function.method), seen, declared)
    return ColumnarJoin(spec, (left, right), tuple(traced for traced, _ in keys), given, results), results


def _typed(traced: TracedFlatMap, schema: Type, declared: TypeInformation | None) -> tuple[TracedFlatMap, Type]:
    if any(each.side is not None for each in traced.emissions):
        raise NotVectorizable("gives side outputs")
    return named_rows_of_all(traced, declared).typed(schema)
