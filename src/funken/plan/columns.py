"""Functions, windows, joins and sinks with a form on columns: the decisions behind ``plan/rules/vectorize.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import repeat
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from funken.columnar.bytecode import names_changed
from funken.columnar.calling import FUNCTION, Dependency, same
from funken.columnar.declared import (
    EXTREME,
    FIRST,
    LAST,
    ORDERED,
    SUM,
    Aggregate,
    Conversion,
    Fold,
    How,
    aggregate_folds,
    all_records,
    bits_of_leaves,
    conversion_of,
    merge_folds,
    named_rows,
    named_rows_of_all,
    reduce_folds,
)
from funken.columnar.expressions import Argument, Constant, Expression, Make, NotVectorizable
from funken.columnar.flat_maps import (
    BUCKET,
    JOIN,
    MAYBE,
    PAIR,
    PAIRS,
    PROCESS,
    drops_none,
    pair_schema,
    trace_by,
    trace_flat_map,
    window_function,
)
from funken.columnar.recurrence import ALL, ListFold
from funken.columnar.stateful.changes import DeclaredState, TracedState, declared_states, renewals_of, with_floats
from funken.columnar.stateful.tracing import trace_with_state
from funken.columnar.stateful.typed import all_steps, fills_of, shared_parts, typed_states
from funken.columnar.tracing import Traced, trace
from funken.columnar.typed.calls import Parsed
from funken.columnar.typed.inference import TracedFlatMap, either
from funken.columnar.typed.values import changeable
from funken.connectors.base import declares
from funken.expr.types import (
    ARRAYS,
    INT,
    NAMED_TUPLE,
    STR,
    Atomic,
    ListOf,
    Record,
    Tuple,
    Type,
    atomic_fields,
    has_documents,
    is_key,
    types_in,
)
from funken.ids import OperatorId
from funken.operators.columnar.specs import (
    ColumnarJoin,
    ColumnarKeyed,
    ColumnarMap,
    ColumnarProcess,
    ColumnarReduce,
    ColumnarSink,
    ColumnarWindow,
    FunctionOnColumns,
    StatesOnColumns,
)
from funken.operators.join import CoGroup, IntervalJoinSpec, JoinPairs, WindowJoin
from funken.operators.process.one_input import KeyedProcess, Process, process_call
from funken.operators.process.two_inputs import CoFlatMap, CoMap, KeyedCoProcess
from funken.operators.rolling import RollingReduce
from funken.operators.sink import WriterSink
from funken.operators.stateless import Filter, FlatMap, KeyedMap, Map, ResultKind
from funken.operators.user_functions import UserFunction, call_of, declared_of, traits_of
from funken.operators.window.contents import Aggregated, CallStyle, Elements, Reduced, WindowCall
from funken.operators.window.spec import Strategy, WindowSpec
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan
from funken.timing.watermarks import BoundedOutOfOrdernessSpec, WatermarkStrategy
from funken.types.callables import codes_in, outer_values
from funken.types.convert import converter
from funken.types.info import TypeInformation
from funken.windowing.assigners import DynamicEventTimeSessionWindows
from funken.windowing.windows import TimeWindow


def declared_schema(node: Node, schema: Type | None) -> Type | None:
    """Return the schema of an operator's results behind its declared type, if it has one; raise ``NotVectorizable``."""
    if schema is None or node.output_type is None:
        return schema
    return conversion_of(schema, node.output_type).schema


def type_made(node: Node, nodes: Mapping[OperatorId, Node]) -> TypeInformation | None:
    """Return the declared type to which the records that an operator emits were converted; ``None``: to none."""
    if node.output_type is not None or not node.inputs or not traits_of(node.spec).keeps_type:
        return node.output_type
    return type_given(node, nodes)


def type_given(node: Node, nodes: Mapping[OperatorId, Node]) -> TypeInformation | None:
    """Return the declared type to which an operator's input records were converted; ``None``: to none."""
    if any(each.side is not None for each in node.inputs):
        return None
    types = [type_made(nodes[each.upstream], nodes) for each in node.inputs]
    return types[0] if types and all(each == types[0] for each in types) else None


def declared_folds(call: UserFunction, schema: Type, given: TypeInformation | None) -> tuple[Traced, tuple[Fold, ...]]:
    """Return the aggregates of a reduce function, whose results may have a declared type; raise ``NotVectorizable``.

    ``given`` is the declared type of the records. Sums wrap once per block, not with every record: it comes to the same.
    """
    function, type_info = declared_of(call)
    traced, folds = reduce_folds(function.target, function.method, schema, type_info)
    if type_info is None:
        return traced, folds
    made = conversion_of(schema, type_info)
    if made.schema != schema:
        raise NotVectorizable(f"declares {type_info!r} for records that are not of that type")
    narrow = {
        path: leaf
        for (path, _), leaf in zip(atomic_fields(schema), made.leaves, strict=True)
        if leaf.how is not How.SAME
    }
    if narrow and given != type_info:
        raise NotVectorizable(f"declares {type_info!r} for records that were not converted to that type")
    widths = _widths(schema, made)
    return traced, tuple(
        _narrowed(fold, path, widths) if path in narrow else fold for fold, path in zip(folds, widths, strict=True)
    )


def _widths(schema: Type, made: Conversion) -> dict[tuple[int, ...], tuple[Atomic, int]]:
    """Return the type of each field, and the number of bits of its values."""
    leaves = zip(atomic_fields(schema), made.leaves, strict=True)
    return {path: (kind, 32 if leaf.how is How.ROUND else leaf.bits) for (path, kind), leaf in leaves}


def _narrowed(fold: Fold, path: tuple[int, ...], widths: Mapping[tuple[int, ...], tuple[Atomic, int]]) -> Fold:
    """Return an aggregate of a field of few bits; raise ``NotVectorizable`` if its results may exceed them."""
    kind, bits = widths[path]
    if fold.how == FIRST or fold.how in EXTREME or fold.how in ORDERED:
        return fold
    if fold.how == SUM and kind == INT:
        return replace(fold, bits=bits)
    of: Any = fold.of
    alike = isinstance(of, Argument) and of.path in widths and widths[of.path][0] == kind and widths[of.path][1] <= bits
    small = isinstance(of, Constant) and type(of.value) is int and -1 << (bits - 1) <= of.value < 1 << (bits - 1)
    if fold.how != SUM and (alike or small):
        return fold
    what = "adds" if fold.how == SUM else "computes"
    raise NotVectorizable(f"{what} {kind}s of {bits} bits for the result so far")


# ---- Variables that functions of one program change: a function that uses one of them sees each change at once,
# record by record.
#
# On columns, a function is asked once for a block whether its variables are what they were. So what another
# function of the program assigns (a global, an attribute of a module or class, a variable of an enclosing function)
# or changes in place (a list, a dict) is not read as a constant. Functions are looked at, not run; what goes
# through ``setattr`` or another thread is not seen, and the change counts from the next block on.


_DEEPEST = 6


class ProgramChanges:
    """The names that the functions of a plan assign, and the names of objects that they change in place."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._assigned: dict[str, str] = {}
        self._changed: dict[str, str] = {}
        self._seen: set[int] = set()
        self._kept: list[Any] = []
        for function in _functions([*(node.spec for node in plan.nodes), *(edge.partitioning for edge in plan.edges)]):
            self._look_at(function)

    def check(self, spec: Any) -> None:
        """Raise ``NotVectorizable`` if functions that were read use names that another one changes."""
        for each in _dependencies(spec, set()):
            self._check(each)

    def _check(self, used: Dependency) -> None:
        if used.how == FUNCTION:
            for each in used.value[1]:
                self._check(each)
        if used.kind not in ("global", "closure", "attribute"):
            return
        name = used.name.rpartition(".")[2]
        changes = self._assigned.get(name)
        if changes is None and type(used.value) in (list, dict, set):
            changes = self._changed.get(name)
        if changes is not None:
            raise NotVectorizable(f"uses {name!r}, which {changes}() changes")

    def _look_at(self, function: FunctionType, depth: int = 0) -> None:
        code = function.__code__
        if id(code) in self._seen or depth > _DEEPEST:
            return
        self._seen.add(id(code))
        self._kept.append(code)
        codes = list(codes_in(code))
        for inner in codes:
            self._look_into(inner, function.__qualname__)
        for _, called in outer_values(function, codes):
            if type(called) is FunctionType and not _is_ours(called):
                self._look_at(called, depth + 1)

    def _look_into(self, code: CodeType, function: str) -> None:
        assigned, changed = names_changed(code)
        for name in assigned:
            self._assigned.setdefault(name, function)
        for name in changed:
            self._changed.setdefault(name, function)


def _is_ours(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] == "funken"


def _functions(parts: Iterable[Any]) -> Iterator[FunctionType]:
    """Yield the functions of the program that specs have, and the methods of its objects."""
    seen: set[int] = set()
    todo = list(parts)
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, FunctionType):
            if not _is_ours(part):
                yield part
        elif isinstance(part, MethodType):
            todo += [part.__func__, part.__self__]
        elif isinstance(part, UserFunction):
            todo.append(part.target)
        elif isinstance(part, tuple | list):
            todo += part
        elif isinstance(part, type | ModuleType | BuiltinFunctionType | str | int | float | bytes) or part is None:
            continue
        elif type(part).__module__.partition(".")[0] == "funken":
            todo += getattr(part, "__dict__", {}).values()
        else:
            for cls in type(part).__mro__:
                if cls.__module__.partition(".")[0] not in ("funken", "builtins", "abc", "typing"):
                    todo += [
                        each
                        for name, each in vars(cls).items()
                        if isinstance(each, FunctionType) and name != "__init__"
                    ]
            todo += [each for each in getattr(part, "__dict__", {}).values() if callable(each)]


def _dependencies(part: Any, seen: set[int]) -> Iterator[Dependency]:
    """Yield the dependencies of the functions that were read for a spec."""
    if isinstance(part, Dependency):
        yield part
    elif isinstance(part, tuple | list):
        for each in part:
            yield from _dependencies(each, seen)
    elif type(part).__module__.startswith("funken.") and not isinstance(part, UserFunction) and id(part) not in seen:
        seen.add(id(part))
        for each in getattr(part, "__dict__", {}).values():
            yield from _dependencies(each, seen)


# ---- Which functions give the documents that ``json.loads`` makes of their argument, and of which fields these are
# made.


def gives_documents(traced: Traced | TracedFlatMap) -> bool:
    """Return True if the results of a function are such documents.

    >>> from funken.columnar.tracing import trace
    >>> gives_documents(trace(lambda record: record, None, 1))
    False
    """
    if isinstance(traced, Traced):
        return isinstance(traced.result, Parsed)
    return all(isinstance(each.result, Parsed) for each in traced.emissions if each.emits)


def with_fields(traced: Any, wanted: tuple[int, ...]) -> Any:
    """Return a function whose documents have these fields only, by their numbers."""

    def of(part: Expression) -> Expression:
        return replace(part, wanted=wanted) if isinstance(part, Parsed) else part

    if isinstance(traced, Traced):
        return replace(traced, result=of(traced.result))
    return replace(traced, emissions=tuple(each.replaced(of) for each in traced.emissions))


OTHER_FIELDS = (
    "which may have other fields than the documents looked at; declare the record type: JsonSchema(record_type)"
)


def columnar_map(
    spec: Map, schema: Type, filtered: Callable[[], bool], declared: TypeInformation | None = None
) -> tuple[ColumnarMap, Type]:
    """Return the operator and the schema of its results; ``filtered`` says whether all who get these drop ``None``.

    ``declared`` is the type to which they are converted, if it is declared: most types have no ``None``.
    """
    made: tuple[ColumnarMap, Type] | None = None
    refused: NotVectorizable | None = None
    try:
        call = spec.function
        traced, result = named_rows(trace(call.target, call.method, 1, changes=True, schema=schema), declared).typed(
            schema
        )
        _check_results(traced, result)
        made = ColumnarMap(spec, traced, result), result
    except NotVectorizable as reason:
        refused = reason
    missing = made is None or traced.catches or (made[1].is_optional)
    if missing and declared is None and filtered():
        with suppress(NotVectorizable):  # a handler, which is not read, may give None as well
            given, some = trace_by(MAYBE, spec.function.target, spec.function.method, schema).typed(schema)
            _check_results(given, some)
            return ColumnarMap(spec, given, some), some
    if made is None:
        assert refused is not None
        raise refused
    return made


def columnar_flat_map(spec: FlatMap, schema: Type, declared: TypeInformation | None = None) -> tuple[ColumnarMap, Type]:
    """Return the operator and the schema of its results, which may have a declared type."""
    traced = trace_flat_map(spec.function.target, spec.function.method, schema)
    given, result = named_rows_of_all(traced, declared).typed(schema)
    _check_results(given, result)
    return ColumnarMap(spec, given, result), result


def columnar_process_function(
    spec: Process, schema: Type, declared: TypeInformation | None = None
) -> tuple[ColumnarProcess, Type | None]:
    """Return the operator of a function without a key, and the schema of its main output (``None``: it is empty)."""
    called = process_call(spec.function)
    given = named_rows_of_all(trace_by(PROCESS, called.target, called.method), declared)
    traced, result = given.typed_or_nothing(Tuple((schema, INT)))
    for each in (result, *(side for _, side in traced.sides)):
        if each is not None:
            check_documents(each)
    return ColumnarProcess(spec, traced, result), result


def columnar_filter(spec: Filter, schema: Type) -> ColumnarMap:
    """Return the operator."""
    return ColumnarMap(spec, _of_call(spec.function).condition(schema))


def drops_missing(spec: Any) -> bool:
    """Return True if an operator is a filter that ``None`` never passes."""
    with suppress(NotVectorizable):
        return isinstance(spec, Filter) and drops_none(_of_call(spec.function))
    return False


def columnar_reduce(
    spec: RollingReduce, schema: Type, batch: bool, given: TypeInformation | None = None
) -> ColumnarReduce:
    """Return the operator, whose results have the schema of its records; ``given`` is their declared type, if they have one."""
    check_arrays(schema)
    if not isinstance(schema, Atomic) and any(map(changeable, schema)):
        raise NotVectorizable("keeps records with objects that can be changed, which its results share")
    key = traced_key(spec.key, schema)
    traced, folds = declared_folds(spec.function, schema, given)
    for fold, (path, kind) in zip(folds, atomic_fields(schema), strict=True):
        is_key = fold.of == Argument(0, path) == key.result and fold.how in (FIRST, LAST)
        if kind == STR and not is_key and fold.how == LAST and fold.of != Argument(0, path):
            raise NotVectorizable("makes text of the result so far")
    paths = [path for path, _ in atomic_fields(schema)]
    any_order = batch and not any(map(shows_order, folds, paths, repeat(key)))
    return ColumnarReduce(spec, key, traced, folds, schema, any_order)


def _check_results(traced: Traced | TracedFlatMap, result: Type) -> None:
    """Raise ``NotVectorizable`` for documents, unless they are just parsed: the next functions say which fields they read."""
    if not gives_documents(traced):
        check_documents(result)


def check_documents(result: Type) -> None:
    """Raise ``NotVectorizable`` for records that may have fields that the schema does not know."""
    if has_documents(result):
        raise NotVectorizable(f"hands on whole records, {OTHER_FIELDS}")


def traced_function(function: Any, method: str, arguments: int) -> Traced:
    """Return the result of a function, or a method of an object; raise ``NotVectorizable`` with the reason."""
    if isinstance(function, MethodType):
        owner, name = function.__self__, function.__name__
        if getattr(type(owner), name, None) is not function.__func__:
            raise NotVectorizable(f"{name} is no plain method")
        return trace(owner, name, arguments)
    return trace(function, None, arguments) if callable(function) else trace(function, method, arguments)


def stamped(strategy: WatermarkStrategy, schema: Type) -> Traced | None:
    """Return the timestamp assigner of a strategy; ``None`` if it has none."""
    if strategy.generator is not None and not isinstance(strategy.generator, BoundedOutOfOrdernessSpec):
        raise NotVectorizable("its watermark generator sees every record")
    if strategy.assigner is None:
        return None
    traced, kind = traced_function(strategy.assigner, "extract_timestamp", 2).typed(schema, INT)
    if kind != INT:
        raise NotVectorizable("its timestamps are no ints")
    return traced


def _of_call(call: UserFunction) -> Traced:
    return trace(call.target, call.method, 1)


# ---- Which functions with keyed state work on columns: those whose state is read and written in ways that are
# followed.
#
# ``columnar/stateful`` has these ways. In ``BATCH`` the records of a key are sorted by time, which columns are not
# brought into.


_GIVES = {ResultKind.MAP: "one", ResultKind.FLAT_MAP: "several", ResultKind.FILTER: "truth"}


def columnar_process(
    spec: KeyedProcess, schema: Type, declared: TypeInformation | None = None
) -> tuple[ColumnarKeyed, Type | None]:
    """Return the operator of a ``KeyedProcessFunction``, and the schema of its results (``None``: there are none)."""
    made = _made(spec.function, [("process_element", True, "several")], [spec.key], [schema], declared)
    return ColumnarKeyed(spec, made), made.results


def columnar_keyed_map(
    spec: KeyedMap, schema: Type, declared: TypeInformation | None = None
) -> tuple[ColumnarKeyed, Type | None]:
    """Return the operator of a function with ``open()``, and the schema of its results (``None``: there are none)."""
    method = spec.function.method
    assert spec.key is not None
    if method is None:
        raise NotVectorizable("calls a function with open(), which is no object with methods")
    made = _made(spec.function, [(method, False, _GIVES[spec.kind])], [spec.key], [schema], declared)
    return ColumnarKeyed(spec, made), made.results


def columnar_of_two(
    spec: KeyedCoProcess | CoMap | CoFlatMap, schemas: Sequence[Type], declared: TypeInformation | None = None
) -> tuple[ColumnarKeyed, Type | None]:
    """Return the operator of a function over two keyed streams, and the schema of its results (``None``: none)."""
    if spec.key1 is None or spec.key2 is None:
        raise NotVectorizable("has two inputs without keys")
    names, context, gives = _OF_TWO[type(spec)]
    methods = [(name, context, gives) for name in names]
    made = _made(spec.function, methods, (spec.key1, spec.key2), schemas, declared)
    return ColumnarKeyed(spec, made), made.results


_OF_TWO: dict[Any, tuple[tuple[str, str], bool, str]] = {
    KeyedCoProcess: (("process_element1", "process_element2"), True, "several"),
    CoMap: (("map1", "map2"), False, "one or none"),
    CoFlatMap: (("flat_map1", "flat_map2"), False, "several"),
}


def _made(
    function: UserFunction, methods: Sequence[tuple[str, bool, str]], keys: Sequence[UserFunction],
    schemas: Sequence[Type], declared: TypeInformation | None = None,
) -> StatesOnColumns:  # fmt: skip
    """Return the states of an object, its methods, one per input, and its ``on_timer()`` if it has one."""
    target = _object_of(function, methods[0][0])
    timed = _has_timers(target)
    called = [*methods, ("on_timer", True, "several")] if timed else methods
    traced, states = _traced(called, target, declared_states(target))
    traced = [replace(each, given=named_rows_of_all(each.given, declared)) for each in traced]
    known = keys_of(keys, schemas)
    records = [*schemas, INT] if timed else schemas  # a timer is its time
    given = [(each, schema, known[0][1]) for each, schema in zip(traced, records, strict=True)]
    typed, kinds = typed_states(given, states)
    fills = list(map(with_floats, fills_of(given, states), kinds))
    for each, fill in zip(states, fills, strict=True):
        if each.type_info is not None and fill is not None and not same(converter(each.type_info)(fill), fill):
            raise NotVectorizable(f"has a state {each.attribute!r} with a declared type, which converts values")
    bits = [bits_of_leaves(each.type_info) for each in states]
    typed = list(map(shared_parts, typed))
    whole, steps = all_steps(typed, kinds, fills, bits)
    lifetimes = [each.lifetime for each in states]
    renewals = [renewals_of(each.writes, each.accesses, lifetimes) for each in typed]
    of_key = [*zip(keys, [each for each, _ in known], strict=True), (None, None)][: len(called)]
    made = [
        FunctionOnColumns(method, key, traced_of, *of_function)
        for (method, _, _), (key, traced_of), of_function in zip(
            called, of_key, zip(traced, typed, steps, renewals, strict=True), strict=True
        )
    ]
    kept = tuple(replace(each, function=None) for each in states)  # which has been read
    functions, on_timer = tuple(made[: len(keys)]), made[-1] if timed else None
    return StatesOnColumns(kept, tuple(kinds), tuple(fills), whole, functions, on_timer, _results(made))


def _results(functions: Sequence[FunctionOnColumns]) -> Type | None:
    """Return the schema of all results; ``None``: there are none."""
    results = [each.typed.results for each in functions if each.typed.results is not None]
    return reduce(either, sorted(results, key=str)) if results else None


def _traced(
    methods: Sequence[tuple[str, bool, str]], target: Any, states: tuple[DeclaredState, ...]
) -> tuple[list[TracedState], tuple[DeclaredState, ...]]:
    """Return the methods of an object, and the states that they use; the others stay where they are."""

    def trace_all(states: tuple[DeclaredState, ...]) -> list[TracedState]:
        return [trace_with_state(target, method, states, context, gives) for method, context, gives in methods]

    traced = trace_all(states)
    used = {number for each in traced for number in each.used}
    if len(used) < len(states):
        states = tuple(states[number] for number in sorted(used))
        traced = trace_all(states)
    return traced, states


def _object_of(function: UserFunction, method: str) -> Any:
    target = function.target
    if getattr(type(target), method, None) is None:
        raise NotVectorizable(f"calls a function without {method}()")
    return target


def _has_timers(target: Any) -> bool:
    if "on_timer" in getattr(target, "__dict__", {}):
        raise NotVectorizable("has an on_timer() that is replaced on the object")
    found = getattr(type(target), "on_timer", None)
    return found is not None and not (found.__module__ or "").startswith("funken.api.")


# ---- Windows and joins on columns, and the cases in which merging, reordering and columns as results change nothing.
#
# In ``BATCH`` the records of a key are sorted by time before they are folded, and sessions are folded in parts that merge: both
# need folds that do not show the order of records.


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
    function, results, path = _window_results(spec, schema, aggregate, made)
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


def _window_results(
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
