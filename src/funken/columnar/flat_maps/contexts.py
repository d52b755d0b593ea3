"""What a function makes of a record and a context that it may ask for the record's timestamp, and for nothing else."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from funken.columnar.bytecode import Operation
from funken.columnar.calling.markers import Marker
from funken.columnar.expressions import Argument, Expression, NotVectorizable
from funken.columnar.faults import reads
from funken.columnar.stack import Stack
from funken.columnar.tracing import Traced, Tracer, function_of_method, with_method
from funken.dataclass import dataclass

STAMP = Argument(1)


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
    tracer = _ContextTracer(function, target)
    traced = tracer.run()
    return TracedWithContext(with_method(traced, function, method), tracer.asks)


class _ContextTracer(Tracer):
    """Follows one method."""

    def __init__(self, function: FunctionType, target: Any) -> None:
        super().__init__(function, 2, bound=True, target=target)
        self._start[list(self._start)[2]] = Marker("context", "its context")
        self.asks = False

    def _step(
        self, operation: Operation, stack: Stack, variables: dict[str, Any], dropped: tuple[Expression, ...]
    ) -> tuple[Expression, ...]:
        name, argument = operation.name, operation.argument
        if name == "LOAD_METHOD" and stack.peek(1, "context"):
            if argument != "timestamp":
                raise NotVectorizable(f"asks its context for {argument}()")
            self.asks = True
            stack.pop()
            push_answer(stack, STAMP, "a method of its context")
        elif not answered(operation, stack):
            return super()._step(operation, stack, variables, dropped)
        return dropped


def push_answer(stack: Stack, value: Any, name: str) -> None:
    """Leave on the stack what a method without arguments returns when it is called."""
    for _ in range(2):
        stack.push(Marker("answer", name, value))


def answered(operation: Operation, stack: Stack) -> bool:
    """Call such a method; return whether it was one."""
    if operation.name != "CALL" or operation.argument != 0 or not stack.peek(1, "answer"):
        return False
    found = stack.pop().value
    stack.pop()
    stack.push(found)
    return True


__all__ = ["TracedWithContext", "answered", "push_answer", "trace_with_context"]
