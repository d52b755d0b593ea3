"""From a function with keyed state to what it gives and what it writes, by reading its bytecode: nothing of it runs.

The function has one record as its argument, with fields: the record itself, its key, its timestamp, the watermark, and of each
state whether it has a value (``held``) and which (``value_of``), as they are before the record. A path through the function that
reads a state without a default goes on in two: with a value, and with ``None``. What is read after it was written is what was
written. So all the function gives is emissions (``flat_maps/emissions.py``) over that record, and each change of a state is a
``Write`` with the conditions it is made under. A timer that is set or deleted is a ``TimerChange``. ``on_timer`` is such a
function too: its record is the time.
"""

from __future__ import annotations

from dataclasses import replace
from types import FunctionType
from typing import Any

from funken.columnar.bytecode import Operation, is_generator
from funken.columnar.calling import Marker, Method, constant_of, expression_on
from funken.columnar.dependencies import Dependency, attribute_of, fingerprint
from funken.columnar.expressions import Argument, Choose, Constant, NotVectorizable, Unary, nodes_of
from funken.columnar.faults import reads
from funken.columnar.flat_maps.tracing import Convention, EmissionWalk
from funken.columnar.stack import State
from funken.columnar.stateful.changes import KEY, RECORD, STAMP, WATERMARK, TimerChange, TracedState, value_of
from funken.columnar.stateful.opening import DeclaredState
from funken.columnar.stateful.uses import StateUses, current, of_states
from funken.columnar.tracing import function_of_method

_DEEPEST = 10
_TIMERS = "timer service"
_CONTEXT = {
    ("context", "get_current_key"): KEY,
    ("context", "timestamp"): STAMP,
    ("context", "timer_service"): Marker(_TIMERS, "its timer service"),
    (_TIMERS, "current_watermark"): WATERMARK,
    (_TIMERS, "register_event_time_timer"): Method("timer", "its timer service", False),
    (_TIMERS, "delete_event_time_timer"): Method("timer", "its timer service", True),
}
"""What a function may ask of its context; of what sets timers, whether it deletes one."""


@reads
def trace_with_state(
    target: Any, method: str, states: tuple[DeclaredState, ...], context: bool = True, gives: str = "several"
) -> TracedState:
    """Return what a method with state gives and writes; raise ``NotVectorizable`` with the reason.

    ``context``: it gets one besides its record; ``gives``: what it returns is ``several`` results, ``one``, ``one or none``, or a
    ``truth``.

    >>> from funken import KeyedProcessFunction, ValueStateDescriptor
    >>> from funken.columnar.stateful.opening import declared_states
    >>> class Count(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
    ...     def process_element(self, value, ctx):
    ...         self.count.update(self.count.value() + 1)
    >>> trace_with_state(Count(), "process_element", declared_states(Count())).writes[0].value
    Binary(op='+', left=Argument(argument=0, path=(4, 1)), right=Constant(value=1))
    """
    function = function_of_method(target, method)
    arguments = (RECORD, Marker("context", "its context"))[: 1 + context]
    tracer = _StateTracer(function, Convention(arguments, _CONTEXT, gives), target, states)
    given = tracer.read()
    known = Dependency("method", method, fingerprint(function.__code__))
    given = replace(given, dependencies=(*given.dependencies, known))
    all_parts: tuple[Any, ...] = (*given.emissions, *tracer.writes, *tracer.timers, *tracer.accesses)
    stamped = STAMP in nodes_of(*(part for each in all_parts for part in each.parts()))
    return TracedState(
        given, tuple(tracer.writes), tuple(tracer.map_keys), stamped, tuple(tracer.attributes.items()),
        tuple(tracer.methods_called.items()), frozenset(tracer.used), gives == "one or none", tuple(tracer.fills),
        tuple(tracer.timers), tuple(tracer.accesses),
    )  # fmt: skip


class _StateTracer(StateUses):
    """Follows one function and the methods of its object that it calls."""

    def __init__(
        self, function: FunctionType, convention: Convention, target: Any, states: tuple[DeclaredState, ...]
    ) -> None:  # fmt: skip
        super().__init__(function, convention, target, states)
        self._target = target
        self._states = {each.attribute: number for number, each in enumerate(states)}
        self.timers: list[TimerChange] = []
        self.attributes: dict[str, Any] = {}
        self.methods_called: dict[str, Any] = {}

    # ---- attributes of the object, and its context

    def _step(self, operation: Operation, state: State) -> None:
        name, argument, stack = operation.name, operation.argument, state.stack
        if name == "LOAD_ATTR" and stack.peek(1, "self"):
            stack.pop()
            stack.push(self._attribute(argument))
        elif name == "LOAD_METHOD" and stack.peek(1, "self"):
            own = stack.pop()
            stack.push(Marker("own method", f"self.{argument}", self._method(argument)))
            stack.push(own)
        elif name in ("LOAD_METHOD", "LOAD_ATTR") and stack.peek(1, "state"):
            handle = stack.pop()
            method = Method("state method", handle.name, (handle.value, argument))
            for _ in range(2 if name == "LOAD_METHOD" else 1):
                stack.push(method)
        elif name in ("LIST_EXTEND", "GET_ITER") and stack.peek(1, "state"):
            if not self._is_list(stack.top().value):
                raise NotVectorizable(f"uses {stack.pop().name} in a way that has no kernel")
            listed = self._listed(stack.pop().value, state.variables)
            if name == "GET_ITER":
                stack.push(Marker("iterator", value=listed))
            else:
                stack.push(listed)
                super()._step(operation, state)
        else:
            super()._step(operation, state)

    def _unknown(self, owner: Marker, method: str) -> str:
        return "uses timers, or the time, of the clock" if owner.kind == _TIMERS else f"uses ctx.{method}()"

    def _attribute(self, name: str) -> Any:
        if name in self._states:
            return Marker("state", f"self.{name}", self._states[name])
        kept = attribute_of(self._target, name)
        if kept is None:
            raise NotVectorizable(f"uses self.{name}")
        try:
            found = constant_of(kept[0])
        except NotVectorizable:
            raise NotVectorizable(f"uses self.{name}") from None
        self.attributes[name] = kept[0]
        return found

    def _method(self, name: str) -> FunctionType:
        if name in self._states:
            raise NotVectorizable(f"calls self.{name}")
        return function_of_method(self._target, name)

    # ---- the way through

    def leaves(self, walk: EmissionWalk, operation: Operation, state: State) -> list[State] | None:
        """Do what involves a state, a timer, or a method of the object; return the states behind it, ``None``: it is not that."""
        name, argument, stack = operation.name, operation.argument, state.stack
        if name == "CALL" and stack.peek(argument + 1, "state method"):
            given = [expression_on(stack.pop()) for _ in range(argument)][::-1]
            (number, method), _ = stack.pop().value, stack.pop()
            behind = None
            if current(number) not in state.variables:
                behind = self._filled(walk.operations, state.number, number, method)
            if behind is None:
                return self._use(number, method, given, state, walk)
            state.number = behind
            self._read(number, method, given, walk.at(state))
            stack.push(value_of(number))
            return [state]
        if name == "CALL" and argument == 1 and stack.peek(2, "timer"):
            at_time, at = expression_on(stack.pop()), walk.at(state)
            deletes, _ = stack.pop().value, stack.pop()
            if at.items is not None:
                raise NotVectorizable("sets timers in a loop")
            self.timers.append(TimerChange(at.guards, at_time, deletes))
            stack.push(Constant(None))
            return [state]
        if name == "CALL" and stack.peek(argument + 2, "own method"):
            return self._call_own(argument, state, walk)
        if name == "CONTAINS_OP" and stack.peek(1, "state"):
            number, key = stack.pop().value, expression_on(stack.pop())
            states = self._use(number, "contains", [key], state, walk)
            for each in states if argument else ():
                each.stack.push(Unary("not", each.stack.pop()))
            return states
        if name == "BINARY_SUBSCR" and stack.peek(2, "state"):
            key = expression_on(stack.pop())
            return self._use(stack.pop().value, "get", [key], state, walk)
        if name == "STORE_SUBSCR" and stack.peek(2, "state"):
            key, number, value = expression_on(stack.pop()), stack.pop().value, expression_on(stack.pop())
            states = self._use(number, "put", [key, value], state, walk)
            for each in states:
                each.stack.discard()
            return states
        return None

    def _call_own(self, count: int, state: State, walk: EmissionWalk) -> list[State]:
        """Follow a method of the object, which may use state too; return the states behind it, with what it returns."""
        given = [state.stack.pop() for _ in range(count)][::-1]
        own, called = state.stack.pop(), state.stack.pop()
        function: FunctionType = called.value
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        if is_generator(code):
            if walk.operations[state.number].name != "GET_YIELD_FROM_ITER":
                raise NotVectorizable(f"calls {called.name}(), which is a generator")
            state.number = walk.after_yield_from(state.number + 1)
        self._check(code)
        if code.co_freevars or len(names) != 1 + len(given):
            raise NotVectorizable(f"calls {called.name}(), which is no plain method")
        if function.__globals__ is not self._function.__globals__:
            raise NotVectorizable(f"calls {called.name}(), which is of another module")
        self._steps.depth += 1
        if self._steps.depth > _DEEPEST:
            raise NotVectorizable(f"calls {called.name}(), which calls others too deep")
        self.methods_called[called.name.removeprefix("self.")] = fingerprint(code)
        variables = {**dict(zip(names, [own, *given], strict=True)), **of_states(state.variables)}
        behind = []
        for end, value in walk.call(code, variables, state):
            after = replace(state.copy(), dropped=end.dropped, when=end.when)
            after.variables |= of_states(end.variables)
            after.stack.push(value)
            behind.append(after)
        self._steps.depth -= 1
        return behind

    def chooses(self, walk: EmissionWalk, name: str, there: int, state: State) -> bool:
        """Go over ``state or constant``, which is one value and not two paths."""
        value, operations, stack = state.stack.top(), walk.operations[state.number : there], state.stack.copy()
        value = value.operand if isinstance(value, Unary) and value.op == "bool" else value
        if not isinstance(value, Argument) or value not in self._steps.present:
            return False
        stack.pop()
        if name == "POP_JUMP_IF_TRUE" and operations and operations[0].name == "POP_TOP" and stack.top() is value:
            operations = operations[1:]
            stack.pop()
        elif name != "JUMP_IF_TRUE_OR_POP":
            return False
        if [each.name for each in operations] != ["LOAD_CONST"]:
            return False
        stack.push(Choose(value, value, constant_of(operations[0].argument)))
        walk.agenda.add(replace(state, stack=stack), there)
        return True


__all__ = ["trace_with_state"]
