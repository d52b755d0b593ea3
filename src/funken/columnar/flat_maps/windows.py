"""What a window function gives for the result of a window: emissions over one record (key, result, window).

The function sees its elements as a list of one, which an aggregate or a reduce has made, or as the list of all records.
Of its context it may ask for the window
only, and of the window for its bounds; anything else has no kernel.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from funken.columnar.bytecode import Operation
from funken.columnar.calling.markers import Marker
from funken.columnar.expressions import Argument, Binary, Constant, Expression
from funken.columnar.faults import reads
from funken.columnar.flat_maps.code import Variables
from funken.columnar.flat_maps.contexts import answered, push_answer
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.columnar.flat_maps.tracing import FlatMapTracer
from funken.columnar.stack import Stack
from funken.columnar.tracing import function_of, with_method

KEY, RESULT, WINDOW = (Argument(0, (number,)) for number in range(3))
_END = Argument(0, (2, 1))
_METHOD = "a method of its window"


@reads
def trace_window_function(
    target: Any, method: str | None, keyed: bool, context: bool, bounds: bool, many: bool = False
) -> TracedFlatMap:
    """Return what a window function gives; raise ``NotVectorizable`` with the reason.

    ``keyed``: its first argument is the key; ``context``: it gets a context, not the window; ``bounds``: the window has a start
    and an end; ``many``: it gets all records of the window, which are its result.

    >>> found = trace_window_function(lambda key, window, counts: [(key, n) for n in counts], None, True, False, True)
    >>> [each.result for each in found.emissions]
    [Make(items=(Argument(argument=0, path=(0,)), Argument(argument=0, path=(1,))))]
    """
    function = function_of(target, method)
    window: Any = WINDOW if bounds else Marker("window", "its window")
    given = [KEY] * keyed + [Marker("context", "its context", window) if context else window]
    elements: Any = RESULT if many else Marker("list", "a list", [RESULT])
    traced = _WindowTracer(function, [*given, elements], bound=method is not None).read()
    return with_method(traced, function, method)


class _WindowTracer(FlatMapTracer):
    """Follows one window function."""

    def __init__(self, function: FunctionType, given: list[Any], bound: bool) -> None:
        super().__init__(function, len(given), bound)
        for name, value in zip([*self._start][bound:], given, strict=False):
            self._start[name] = value

    def _step(
        self, operation: Operation, stack: Stack, variables: Variables, dropped: tuple[Expression, ...]
    ) -> tuple[Expression, ...]:
        name, argument = operation.name, operation.argument
        if name == "LOAD_METHOD" and argument == "window" and stack.peek(1, "context"):
            push_answer(stack, stack.pop().value, _METHOD)
        elif name == "LOAD_METHOD" and argument == "max_timestamp" and stack.top() is WINDOW:
            stack.pop()
            push_answer(stack, Binary("-", _END, Constant(1)), _METHOD)
        elif not answered(operation, stack):
            return super()._step(operation, stack, variables, dropped)
        return dropped


__all__ = ["KEY", "trace_window_function"]
