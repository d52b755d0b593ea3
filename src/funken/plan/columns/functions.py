"""Functions of single records on columns: maps, flat maps, filters, running reduces and timestamps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import repeat
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from funken.columnar.bytecode import names_changed
from funken.columnar.calling import FUNCTION, Dependency, same
from funken.columnar.declared import FIRST, LAST, bits_of_leaves, named_rows, named_rows_of_all
from funken.columnar.expressions import Argument, Expression, NotVectorizable
from funken.columnar.flat_maps import MAYBE, PROCESS, drops_none, trace_by, trace_flat_map
from funken.columnar.stateful.changes import DeclaredState, TracedState, declared_states, renewals_of, with_floats
from funken.columnar.stateful.tracing import trace_with_state
from funken.columnar.stateful.typed import all_steps, fills_of, shared_parts, typed_states
from funken.columnar.tracing import Traced, trace
from funken.columnar.typed.calls import Parsed
from funken.columnar.typed.inference import TracedFlatMap, either
from funken.columnar.typed.values import changeable
from funken.expr.types import INT, STR, Atomic, Tuple, Type, atomic_fields, has_documents
from funken.operators.columnar.specs import (
    ColumnarKeyed,
    ColumnarMap,
    ColumnarProcess,
    ColumnarReduce,
    FunctionOnColumns,
    StatesOnColumns,
)
from funken.operators.process.one_input import KeyedProcess, Process, process_call
from funken.operators.process.two_inputs import CoFlatMap, CoMap, KeyedCoProcess
from funken.operators.rolling import RollingReduce
from funken.operators.stateless import Filter, FlatMap, KeyedMap, Map, ResultKind
from funken.operators.user_functions import UserFunction
from funken.plan.columns.declared import declared_folds
from funken.plan.columns.windows import check_arrays, keys_of, shows_order, traced_key
from funken.plan.physical import PhysicalPlan
from funken.timing.watermarks import BoundedOutOfOrdernessSpec, WatermarkStrategy
from funken.types.convert import converter
from funken.types.info import TypeInformation

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
        for inner in _codes(code):
            self._look_into(inner, function.__qualname__)
        names = {name for inner in _codes(code) for name in inner.co_names}
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
        for called in [*(function.__globals__.get(name) for name in names), *cells]:
            if type(called) is FunctionType and not _is_ours(called):
                self._look_at(called, depth + 1)

    def _look_into(self, code: CodeType, function: str) -> None:
        assigned, changed = names_changed(code)
        for name in assigned:
            self._assigned.setdefault(name, function)
        for name in changed:
            self._changed.setdefault(name, function)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


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
