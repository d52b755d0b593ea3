"""Which functions of single records work on columns: of maps, flat maps, filters, running reduces and timestamps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import repeat
from types import MethodType
from typing import Any

from funken.columnar.declared.rows import named_rows, named_rows_of_all
from funken.columnar.expressions import Argument, NotVectorizable
from funken.columnar.flat_maps.conventions import drops_none, trace_maybe, trace_process
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.columnar.flat_maps.tracing import trace_flat_map
from funken.columnar.folds import FIRST, LAST
from funken.columnar.records import has_documents
from funken.columnar.tracing import Traced, trace
from funken.columnar.typed.aliases import changeable
from funken.expr.types import INT, STR, Atomic, Tuple, Type, atomic_fields
from funken.operators.columnar.specs import (
    ColumnarFilter,
    ColumnarFlatMap,
    ColumnarMap,
    ColumnarMaybeMap,
    ColumnarProcess,
    ColumnarReduce,
)
from funken.operators.process.one_input import Process, process_call
from funken.operators.rolling import RollingReduce
from funken.operators.stateless import Filter, FlatMap, Map
from funken.operators.user_functions import UserFunction
from funken.plan.columns.declared import declared_folds
from funken.plan.columns.documents import gives_documents
from funken.plan.columns.windows import check_arrays, shows_order, traced_key
from funken.timing.watermarks import BoundedOutOfOrdernessSpec, WatermarkStrategy
from funken.types.info import TypeInformation

OTHER_FIELDS = (
    "which may have other fields than the documents looked at; declare the record type: JsonSchema(record_type)"
)


def columnar_map(
    spec: Map, schema: Type, filtered: Callable[[], bool], declared: TypeInformation | None = None
) -> tuple[ColumnarMap | ColumnarMaybeMap, Type]:
    """Return the operator and the schema of its results; ``filtered`` says whether all who get these drop ``None``.

    ``declared`` is the type to which they are converted, if it is declared: most types have no ``None``.
    """
    made: tuple[ColumnarMap | ColumnarMaybeMap, Type] | None = None
    refused: NotVectorizable | None = None
    try:
        call = spec.function
        traced, result = named_rows(trace(call.target, call.method, 1, changes=True, schema=schema), declared).typed(
            schema
        )
        _check_results(traced, result)
        made = ColumnarMap(spec.function, traced, result), result
    except NotVectorizable as reason:
        refused = reason
    missing = made is None or traced.catches or (made[1].is_optional)
    if missing and declared is None and filtered():
        with suppress(NotVectorizable):  # a handler, which is not read, may give None as well
            given, some = trace_maybe(spec.function.target, spec.function.method, schema).typed(schema)
            _check_results(given, some)
            return ColumnarMaybeMap(spec.function, given, some), some
    if made is None:
        assert refused is not None
        raise refused
    return made


def columnar_flat_map(
    spec: FlatMap, schema: Type, declared: TypeInformation | None = None
) -> tuple[ColumnarFlatMap, Type]:
    """Return the operator and the schema of its results, which may have a declared type."""
    traced = trace_flat_map(spec.function.target, spec.function.method, schema)
    given, result = named_rows_of_all(traced, declared).typed(schema)
    _check_results(given, result)
    return ColumnarFlatMap(spec.function, given, result), result


def columnar_process_function(
    spec: Process, schema: Type, declared: TypeInformation | None = None
) -> tuple[ColumnarProcess, Type | None]:
    """Return the operator of a function without a key, and the schema of its main output (``None``: it gives nothing to it)."""
    called = process_call(spec.function)
    given = named_rows_of_all(trace_process(called.target, called.method), declared)
    traced, result = given.typed_or_nothing(Tuple((schema, INT)))
    for each in (result, *(side for _, side in traced.sides)):
        if each is not None:
            check_documents(each)
    return ColumnarProcess(spec.function, traced, result), result


def columnar_filter(spec: Filter, schema: Type) -> ColumnarFilter:
    """Return the operator."""
    return ColumnarFilter(spec.function, _of_call(spec.function).condition(schema))


def drops_missing(spec: Any) -> bool:
    """Whether an operator is a filter that ``None`` never passes."""
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
    return ColumnarReduce(spec.key, spec.function, key, traced, folds, schema, any_order)


def _check_results(traced: Traced | TracedFlatMap, result: Type) -> None:
    """Raise ``NotVectorizable`` for documents, unless they are just parsed: the next functions say which fields they read."""
    if not gives_documents(traced):
        check_documents(result)


def check_documents(result: Type) -> None:
    """Raise ``NotVectorizable`` for records that may have fields that the schema does not know."""
    if has_documents(result):
        raise NotVectorizable(f"hands on whole records, {OTHER_FIELDS}")


def traced_function(function: Any, method: str, arguments: int) -> Traced:
    """Return what a function, or a method of an object, computes; raise ``NotVectorizable`` with the reason."""
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


__all__ = [
    "OTHER_FIELDS",
    "check_documents",
    "columnar_filter",
    "columnar_flat_map",
    "columnar_map",
    "columnar_process_function",
    "columnar_reduce",
    "drops_missing",
    "stamped",
    "traced_function",
]
