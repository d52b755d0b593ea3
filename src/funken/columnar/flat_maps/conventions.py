"""How functions are called that are no ``map`` or ``flat_map``: of joins, windows, process functions, sinks.

Each convention says what the arguments are, as fields of the one record that emissions are over, and what a context answers;
anything else that is asked of it has no kernel.
"""

from __future__ import annotations

from typing import Any

from funken.columnar.calling import Marker, Method
from funken.columnar.expressions import Argument, Binary, Constant, NotVectorizable, nodes_of
from funken.columnar.faults import reads
from funken.columnar.flat_maps.emissions import Emission, TracedFlatMap
from funken.columnar.flat_maps.tracing import Convention, FlatMapTracer, read_by
from funken.columnar.tracing import Traced, Tracer, function_of, function_of_method, with_method
from funken.dataclass import dataclass
from funken.expr.types import INT, NONE, Tuple, Type

_FIELDS = tuple(Argument(0, (number,)) for number in range(5))
_CONTEXT = Marker("context", "its context")
_STAMP = Argument(1)

_MAYBE = Convention((Argument(0),), gives="one or none")
_PAIRS = Convention(_FIELDS[:2])
_JOIN = Convention(
    (*_FIELDS[:2], _CONTEXT),
    {
        ("context", "get_left_timestamp"): _FIELDS[2],
        ("context", "get_right_timestamp"): _FIELDS[3],
        ("context", "get_timestamp"): _FIELDS[4],
        ("context", "timestamp"): _FIELDS[4],
    },
)
"""Of a record (left record, right record, and three times: of both, and of the pair)."""
_PROCESS = Convention(
    (_FIELDS[0], _CONTEXT),
    {("context", "timestamp"): _FIELDS[1], ("context", "output"): Method("output", "a method of its context")},
    sides=True,
)
"""Of a record (record, timestamp)."""
_KEY, _RESULT, _WINDOW = _FIELDS[:3]
"""Of a record (key, result, window), the window with a start and an end."""


def pair_schema(left: Type, right: Type) -> Type:
    """Return the schema of a pair: both records, their timestamps, and that of the pair."""
    return Tuple((left, right, INT, INT, INT))


@reads
def trace_maybe(target: Any, method: str | None, schema: Type | None = None) -> TracedFlatMap:
    """Return what a function of one record gives if it is not ``None``; raise ``NotVectorizable`` with the reason.

    Only filters see the ``None``: it gives one result or none.

    >>> found = trace_maybe(lambda n: (n, 10 // n) if n else None, None)
    >>> [each.guards for each in found.emissions if each.emits]
    [(Argument(argument=0, path=()),)]
    """
    return read_by(_MAYBE, target, method, schema, changes=True)


@reads
def drops_none(condition: Traced) -> bool:
    """Whether the condition of a filter is never true of ``None``, whatever happens to the variables that it uses.

    >>> from funken.columnar.tracing import trace
    >>> [drops_none(trace(each, None, 1)) for each in (lambda r: r is not None, lambda r: r, lambda r: r is None)]
    [True, True, False]
    """
    if any(each.kind not in ("method", "builtin") for each in condition.dependencies):
        return False
    try:
        return condition.condition(NONE).result == Constant(False)
    except NotVectorizable:
        return False


@reads
def trace_join_function(target: Any, method: str | None) -> TracedFlatMap:
    """Return what ``function(left, right, context)`` gives; raise ``NotVectorizable`` with the reason.

    >>> found = trace_join_function(lambda left, right, ctx: [left, ctx.get_right_timestamp()], None)
    >>> [each.result for each in found.emissions]
    [Argument(argument=0, path=(0,)), Argument(argument=0, path=(3,))]
    >>> trace_join_function(lambda left, right, ctx: ctx.output(None, left), None)
    Traceback (most recent call last):
    ...
    funken.columnar.expressions.NotVectorizable: asks its context for output()
    """
    return read_by(_JOIN, target, method)


@reads
def trace_pairs(target: Any, method: str | None, flat: bool) -> TracedFlatMap:
    """Return what ``function(left, right)`` gives: one result, or, if it is ``flat``, several.

    Raises ``NotVectorizable`` with the reason.

    >>> [each.result for each in trace_pairs(lambda left, right: right, None, flat=False).emissions]
    [Argument(argument=0, path=(1,))]
    """
    if flat:
        return read_by(_PAIRS, target, method)
    function = function_of(target, method)
    traced = Tracer(function, _PAIRS.arguments, method is not None, target=target).run()
    return with_method(TracedFlatMap((Emission(traced.result),), traced.dependencies), function, method)


@reads
def trace_process(target: Any, method: str | None) -> TracedFlatMap:
    """Return what a process function gives, also to side outputs; raise ``NotVectorizable`` with the reason.

    >>> found = trace_process(lambda value, ctx: [(value, ctx.timestamp())], None)
    >>> [each.result for each in found.emissions]
    [Make(items=(Argument(argument=0, path=(0,)), Argument(argument=0, path=(1,))))]
    """
    return read_by(_PROCESS, target, method)


@reads
def trace_window_function(
    target: Any, method: str | None, keyed: bool, context: bool, bounds: bool, many: bool = False
) -> TracedFlatMap:
    """Return what a window function gives; raise ``NotVectorizable`` with the reason.

    ``keyed``: its first argument is the key; ``context``: it gets a context, not the window; ``bounds``: the window has a start
    and an end; ``many``: it gets all records of the window, which are its result. Else it sees a list of the one result.

    >>> found = trace_window_function(lambda key, window, counts: [(key, n) for n in counts], None, True, False, True)
    >>> [each.result for each in found.emissions]
    [Make(items=(Argument(argument=0, path=(0,)), Argument(argument=0, path=(1,))))]
    """
    function = function_of(target, method)
    window: Any = _WINDOW if bounds else Marker("window", "its window")
    elements: Any = _RESULT if many else Marker("list", "a list", [_RESULT])
    arguments = (*[_KEY] * keyed, _CONTEXT if context else window, elements)
    last = Binary("-", Argument(0, (2, 1)), Constant(1))
    convention = Convention(arguments, {("context", "window"): window, (_WINDOW, "max_timestamp"): last})
    return with_method(FlatMapTracer(function, convention, method is not None).read(), function, method)


@dataclass(frozen=True)
class TracedWithContext:
    """A function of a record and its timestamp (ms), and whether it asks for the latter."""

    traced: Traced
    asks: bool


@reads
def trace_with_context(target: Any, method: str) -> TracedWithContext:
    """Return what a method of ``target`` makes of a record and a context; raise ``NotVectorizable`` with the reason.

    >>> class Hours:
    ...     def get_bucket_id(self, element, context):
    ...         return context.timestamp() // 3_600_000
    >>> found = trace_with_context(Hours(), "get_bucket_id")
    >>> found.traced.result, found.asks
    (Binary(op='//', left=Argument(argument=1, path=()), right=Constant(value=3600000)), True)
    """
    function = function_of_method(target, method)
    tracer = Tracer(function, (Argument(0), _CONTEXT), bound=True, target=target)
    tracer.methods = {("context", "timestamp"): _STAMP}
    traced = tracer.run()
    return TracedWithContext(with_method(traced, function, method), _STAMP in nodes_of(traced.result))


__all__ = [
    "TracedWithContext", "drops_none", "pair_schema", "trace_join_function", "trace_maybe", "trace_pairs", "trace_process",
    "trace_window_function", "trace_with_context",
]  # fmt: skip
