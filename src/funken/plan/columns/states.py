"""Which functions with keyed state work on columns: those whose state is read and written in ways that are followed.

``columnar/stateful`` has these ways. In ``BATCH`` the records of a key are sorted by time, which columns are not brought into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from funken.columnar.declared.rows import named_rows_of_all
from funken.columnar.declared.states import bits_of_leaves
from funken.columnar.dependencies import same
from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps.emissions import either
from funken.columnar.stateful.floats import with_floats
from funken.columnar.stateful.lifetimes import renewals_of
from funken.columnar.stateful.opening import DeclaredState, declared_states
from funken.columnar.stateful.steps import all_steps
from funken.columnar.stateful.traced import TracedState
from funken.columnar.stateful.tracing import trace_with_state
from funken.columnar.stateful.typed import fills_of, shared_parts, typed_states
from funken.columnar.tracing import Traced, trace
from funken.expr.types import INT, Type
from funken.operators.base import OperatorSpec
from funken.operators.process.keyed_map import KeyedMap
from funken.operators.process.one_input import KeyedProcess
from funken.operators.process.two_inputs import CoFlatMap, CoMap, KeyedCoProcess
from funken.operators.stateful.specs import (
    ColumnarCoFlatMap,
    ColumnarCoMap,
    ColumnarKeyedCoProcess,
    ColumnarKeyedMap,
    ColumnarKeyedProcess,
    FunctionOnColumns,
    StatesOnColumns,
)
from funken.operators.stateless import ResultKind
from funken.operators.user_functions import UserFunction
from funken.plan.columns.windows import traced_key
from funken.types.convert import converter
from funken.types.info import TypeInformation

_GIVES = {ResultKind.MAP: "one", ResultKind.FLAT_MAP: "several", ResultKind.FILTER: "truth"}


def columnar_process(
    spec: KeyedProcess, schema: Type, declared: TypeInformation | None = None
) -> tuple[ColumnarKeyedProcess, Type | None]:
    """Return the operator of a ``KeyedProcessFunction``, and the schema of its results (``None``: it gives none)."""
    made = _made(spec.function, [("process_element", True, "several")], [spec.key], [schema], declared)
    return ColumnarKeyedProcess(spec.function, spec.key, made), made.results


def columnar_keyed_map(
    spec: KeyedMap, schema: Type, declared: TypeInformation | None = None
) -> tuple[ColumnarKeyedMap, Type | None]:
    """Return the operator of a function with ``open()``, and the schema of its results (``None``: it gives none)."""
    method = spec.function.method
    if method is None:
        raise NotVectorizable("calls a function with open(), which is no object with methods")
    made = _made(spec.function, [(method, False, _GIVES[spec.kind])], [spec.key], [schema], declared)
    return ColumnarKeyedMap(spec.function, spec.key, spec.kind, made), made.results


def columnar_of_two(
    spec: KeyedCoProcess | CoMap | CoFlatMap, schemas: Sequence[Type], declared: TypeInformation | None = None
) -> tuple[OperatorSpec, Type | None]:
    """Return the operator of a function over two keyed streams, and the schema of its results (``None``: it gives none)."""
    if spec.key1 is None or spec.key2 is None:
        raise NotVectorizable("has two inputs without keys")
    names, context, gives = _OF_TWO[type(spec)]
    keys = (spec.key1, spec.key2)
    made = _made(spec.function, [(name, context, gives) for name in names], keys, schemas, declared)
    given = made.results
    match spec:
        case KeyedCoProcess():
            return ColumnarKeyedCoProcess(spec.function, *keys, made), given
        case CoMap():
            return ColumnarCoMap(spec.function, *keys, made), given
    return ColumnarCoFlatMap(spec.function, *keys, made), given


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


def keys_of(keys: Sequence[UserFunction], schemas: Sequence[Type]) -> list[tuple[Traced, Type]]:
    """Return the keys of the inputs of an operator, and their schemas, all of which have to be alike."""
    known = [
        (traced_key(key, schema), trace(key.target, key.method, 1).typed(schema)[1])
        for key, schema in zip(keys, schemas, strict=True)
    ]
    if len({repr(kind) for _, kind in known}) > 1:
        raise NotVectorizable(f"has keys of two kinds: {' and '.join(str(kind) for _, kind in known)}")
    return known


__all__ = ["columnar_keyed_map", "columnar_of_two", "columnar_process", "keys_of"]
