"""What a ``ProcessFunction`` gives for a record, also to side outputs: emissions over one record (record, timestamp).

Of its context it may ask for the timestamp, and give it values for side outputs; anything else has no kernel.
"""

from __future__ import annotations

from dataclasses import replace
from types import FunctionType
from typing import Any

from funken.columnar.bytecode import Operation
from funken.columnar.calling.markers import Marker, Outside, expression_on
from funken.columnar.dependencies import Dependency
from funken.columnar.expressions import Argument, Constant, Expression, NotVectorizable
from funken.columnar.faults import reads
from funken.columnar.flat_maps.code import Code, LoopAround, Variables
from funken.columnar.flat_maps.contexts import answered, push_answer
from funken.columnar.flat_maps.emissions import Emission, TracedFlatMap
from funken.columnar.flat_maps.tracing import FlatMapTracer
from funken.columnar.stack import Stack
from funken.columnar.tracing import function_of, with_method

RECORD, STAMP = (Argument(0, (number,)) for number in range(2))


@reads
def trace_process(target: Any, method: str | None) -> TracedFlatMap:
    """Return what a process function gives; raise ``NotVectorizable`` with the reason.

    >>> found = trace_process(lambda value, ctx: [(value, ctx.timestamp())], None)
    >>> [each.result for each in found.emissions]
    [Make(items=(Argument(argument=0, path=(0,)), Argument(argument=0, path=(1,))))]
    """
    function = function_of(target, method)
    traced = _ProcessTracer(function, bound=method is not None, target=target).read()
    return with_method(traced, function, method)


class _ProcessTracer(FlatMapTracer):
    """Follows one process function."""

    def __init__(self, function: FunctionType, bound: bool, target: Any) -> None:
        super().__init__(function, 2, bound, target=target)
        record, context = [*self._start][bound:][:2]
        self._start[record] = RECORD
        self._start[context] = Marker("context", "its context")

    def _step(
        self, operation: Operation, stack: Stack, variables: Variables, dropped: tuple[Expression, ...]
    ) -> tuple[Expression, ...]:
        name, argument = operation.name, operation.argument
        if name == "LOAD_METHOD" and stack.peek(1, "context"):
            stack.pop()
            if argument == "timestamp":
                push_answer(stack, STAMP, "a method of its context")
            elif argument == "output":
                for _ in range(2):
                    stack.push(Marker("output", "a method of its context"))
            else:
                raise NotVectorizable(f"asks its context for {argument}()")
        elif name == "BUILD_TUPLE" and argument == 2 and (tag := self._tag(stack.item(2))) is not None:
            value = stack.pop()
            stack.discard()
            stack.push(Marker("side", "a pair of a tag and a value", (tag, value)))
        elif not answered(operation, stack):
            return super()._step(operation, stack, variables, dropped)
        return dropped

    def _goes_elsewhere(
        self, code: Code, number: int, operation: Operation, stack: Stack, variables: Variables,
        dropped: tuple[Expression, ...], at: Emission, loop: LoopAround | None,
    ) -> bool:  # fmt: skip
        if operation.name != "CALL" or operation.argument != 2 or not stack.peek(3, "output"):
            return False
        tag = self._tag(stack.item(2))
        if tag is None:
            raise NotVectorizable("gives a side output whose tag is not constant")
        value = stack.pop()
        for _ in range(3):
            stack.discard()
        self._give_one(Marker("side", "", (tag, value)), at)
        stack.push(Constant(None))
        self._run(code, number, stack, variables, dropped, at, loop)
        return True

    def _give_one(self, value: Any, at: Emission) -> None:
        if isinstance(value, Marker) and value.kind == "side":
            tag, given = value.value
            self._emit(replace(at, result=expression_on(given), side=tag))
        else:
            super()._give_one(value, at)

    def _tag(self, found: Any) -> str | None:
        """Return the id of a tag that comes from outside of the function; ``None`` if it is something else."""
        if not isinstance(found, Outside) or not isinstance(tag := getattr(found.value, "tag_id", None), str):
            return None
        self.depend(Dependency(found.kind, found.name, found.value))
        return tag


__all__ = ["RECORD", "STAMP", "trace_process"]
