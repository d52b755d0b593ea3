"""What the function of a join gives for a pair: emissions over one record, which has both records as its first fields.

In an interval join three times come behind them. Of its context the function may ask for these timestamps of the pair only;
anything else has no kernel.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from funken.columnar.bytecode import Operation
from funken.columnar.calling.markers import Marker
from funken.columnar.expressions import Argument, Expression, NotVectorizable
from funken.columnar.faults import reads
from funken.columnar.flat_maps.code import Variables
from funken.columnar.flat_maps.contexts import answered, push_answer
from funken.columnar.flat_maps.emissions import Emission, TracedFlatMap
from funken.columnar.flat_maps.tracing import FlatMapTracer
from funken.columnar.stack import Stack
from funken.columnar.tracing import Tracer, function_of, with_method
from funken.expr.types import INT, Tuple, Type

LEFT, RIGHT, LEFT_STAMP, RIGHT_STAMP, STAMP = (Argument(0, (number,)) for number in range(5))
_ASKED = {
    "get_left_timestamp": LEFT_STAMP, "get_right_timestamp": RIGHT_STAMP, "get_timestamp": STAMP, "timestamp": STAMP
}  # fmt: skip


def pair_schema(left: Type, right: Type) -> Type:
    """Return the schema of a pair: both records, their timestamps, and that of the pair."""
    return Tuple((left, right, INT, INT, INT))


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
    function = function_of(target, method)
    given = LEFT, RIGHT, Marker("context", "its context")
    return with_method(_JoinTracer(function, target, method is not None, given).read(), function, method)


@reads
def trace_pairs(target: Any, method: str | None, flat: bool) -> TracedFlatMap:
    """Return what ``function(left, right)`` gives: one result, or, if it is ``flat``, several.

    Raises ``NotVectorizable`` with the reason.

    >>> [each.result for each in trace_pairs(lambda left, right: right, None, flat=False).emissions]
    [Argument(argument=0, path=(1,))]
    """
    function = function_of(target, method)
    bound = method is not None
    if flat:
        return with_method(_JoinTracer(function, target, bound, (LEFT, RIGHT)).read(), function, method)
    traced = _PairTracer(function, target, bound).run()
    return with_method(TracedFlatMap((Emission(traced.result),), traced.dependencies), function, method)


def _begin(start: dict[str, Any], bound: bool, given: tuple[Any, ...]) -> None:
    start.update(zip([*start][bound:], given, strict=False))


class _PairTracer(Tracer):
    """Follows a function that gives one result."""

    def __init__(self, function: FunctionType, target: Any, bound: bool) -> None:
        super().__init__(function, 2, bound, target=target if bound else None)
        _begin(self._start, bound, (LEFT, RIGHT))


class _JoinTracer(FlatMapTracer):
    """Follows a function that gives several."""

    def __init__(self, function: FunctionType, target: Any, bound: bool, given: tuple[Any, ...]) -> None:
        super().__init__(function, len(given), bound, target=target if bound else None)
        _begin(self._start, bound, given)

    def _step(
        self, operation: Operation, stack: Stack, variables: Variables, dropped: tuple[Expression, ...]
    ) -> tuple[Expression, ...]:
        if operation.name == "LOAD_METHOD" and stack.peek(1, "context"):
            if operation.argument not in _ASKED:
                raise NotVectorizable(f"asks its context for {operation.argument}()")
            stack.pop()
            push_answer(stack, _ASKED[operation.argument], "a method of its context")
        elif not answered(operation, stack):
            return super()._step(operation, stack, variables, dropped)
        return dropped


__all__ = ["LEFT", "LEFT_STAMP", "RIGHT", "RIGHT_STAMP", "STAMP", "pair_schema", "trace_join_function", "trace_pairs"]
