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

from funken.columnar.bytecode import Operation, ends_loops_twice, is_generator
from funken.columnar.calling.constants import constant_of
from funken.columnar.calling.markers import Marker, expression_on
from funken.columnar.dependencies import Dependency, attribute_of, fingerprint
from funken.columnar.expressions import Constant, Expression, NotVectorizable, Unary
from funken.columnar.faults import reads
from funken.columnar.flat_maps.code import Code, LoopAround, Variables
from funken.columnar.flat_maps.emissions import Emission
from funken.columnar.flat_maps.tracing import under
from funken.columnar.lists.comprehensions import dropping
from funken.columnar.meeting import State
from funken.columnar.stack import Stack
from funken.columnar.stateful.branches import known_jump, or_constant
from funken.columnar.stateful.opening import DeclaredState
from funken.columnar.stateful.traced import (
    KEY,
    RECORD,
    STAMP,
    WATERMARK,
    TimerChange,
    TracedState,
    value_of,
)
from funken.columnar.stateful.uses import StateUses, current, of_states
from funken.columnar.tracing import function_of_method

_DEEPEST = 10
_ASKED = {"get_current_key": KEY, "timestamp": STAMP}
_SETS_TIMERS = {"register_event_time_timer": False, "delete_event_time_timer": True}
"""What is called of the timer service, and whether it deletes a timer."""
_METHODS = ("state method", "context method", "timer method")
_NOTHING = object()


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
    tracer = _StateTracer(function, 1 + context, target, states, gives)
    given = tracer.read()
    known = Dependency("method", method, fingerprint(function.__code__))
    return TracedState(
        replace(given, dependencies=(*given.dependencies, known)), tuple(tracer.writes), tuple(tracer.map_keys),
        "timestamp" in tracer.asked, tuple(tracer.attributes.items()), tuple(tracer.methods.items()),
        frozenset(tracer.used), gives == "one or none", tuple(tracer.fills), tuple(tracer.timers),
        tuple(tracer.accesses),
    )  # fmt: skip


class _StateTracer(StateUses):
    """Follows one function and the methods of its object that it calls."""

    def __init__(
        self, function: FunctionType, arguments: int, target: Any, states: tuple[DeclaredState, ...], gives: str
    ) -> None:  # fmt: skip
        super().__init__(function, arguments, states)
        _, record, *context = [*self._start]
        self._start[record] = RECORD
        if context:
            self._start[context[0]] = Marker("context", "its context")
        self._target, self._gives = target, gives
        self._states = {each.attribute: number for number, each in enumerate(states)}
        #: what of its context the function asks for
        self.asked: set[str] = set()
        self.timers: list[TimerChange] = []
        self.attributes: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}

    # ---- attributes of the object, and its context

    def _step(
        self, operation: Operation, stack: Stack, variables: Variables, dropped: tuple[Expression, ...]
    ) -> tuple[Expression, ...]:
        name, argument = operation.name, operation.argument
        # A call of a method of what has the name of an imported module is one of an attribute, with NULL beside it.
        loads = {"LOAD_METHOD": 2, "LOAD_ATTR": 1}.get(name, 0)
        if name == "LOAD_ATTR" and stack.peek(1, "self"):
            stack.pop()
            stack.push(self._attribute(argument))
        elif name == "LOAD_METHOD" and stack.peek(1, "self"):
            own = stack.pop()
            stack.push(Marker("own method", f"self.{argument}", self._method(argument)))
            stack.push(own)
        elif loads and stack.peek(1, "state"):
            state = stack.pop()
            self._push(stack, Marker("state method", state.name, (state.value, argument)), loads)
        elif loads and stack.peek(1, "context"):
            stack.pop()
            if argument not in (*_ASKED, "timer_service"):
                raise NotVectorizable(f"uses ctx.{argument}()")
            self._push(stack, Marker("context method", "its context", argument), loads)
        elif loads and stack.peek(1, "timer service"):
            stack.pop()
            if argument not in (*_SETS_TIMERS, "current_watermark"):
                raise NotVectorizable("uses timers, or the time, of the clock")
            self._push(stack, Marker("timer method", "its timer service", argument), loads)
        elif name == "CALL" and argument == 0 and (stack.peek(1, "context method") or stack.peek(1, "timer method")):
            asked = stack.pop().value
            stack.pop()
            stack.push(self._asked(asked))
        elif name == "LIST_EXTEND" and stack.peek(1, "state") and self._is_list(stack.top().value):
            stack.push(self._listed(stack.pop().value, variables))
            return super()._step(operation, stack, variables, dropped)
        elif name == "GET_ITER" and stack.peek(1, "state") and self._is_list(stack.top().value):
            stack.push(Marker("iterator", value=self._listed(stack.pop().value, variables)))
        elif name == "PUSH_NULL" and ends_loops_twice() and self._is_alone(stack):  # above it, from 3.13 on
            stack.push(stack.top())
        elif name == "GET_ITER" and stack.peek(1, "state"):
            raise NotVectorizable(f"uses {stack.pop().name} in a way that has no kernel")
        else:
            return super()._step(operation, stack, variables, dropped)
        return dropped

    @staticmethod
    def _push(stack: Stack, method: Marker, times: int) -> None:
        for _ in range(times):
            stack.push(method)

    @staticmethod
    def _is_alone(stack: Stack) -> bool:
        """Whether a method was loaded as an attribute, and is not there twice."""
        if not any(stack.peek(1, kind) for kind in _METHODS):
            return False
        below = stack.copy()
        method = below.pop()
        return not below.depth() or below.pop() is not method

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

    def _asked(self, name: str) -> Any:
        if name == "timer_service":
            return Marker("timer service", "its timer service")
        if name == "current_watermark":
            return WATERMARK
        if name not in _ASKED:
            raise NotVectorizable(f"calls {name}() without a time")
        self.asked.add(name)
        return _ASKED[name]

    # ---- the way through

    def _goes_elsewhere(
        self, code: Code, number: int, operation: Operation, stack: Stack, variables: Variables,
        dropped: tuple[Expression, ...], at: Emission, loop: LoopAround | None,
    ) -> bool:  # fmt: skip
        """Do what involves a state or a method of the object, and go on behind it; return whether it was such a thing."""
        name, argument = operation.name, operation.argument

        def go_on(value: Any, variables: Variables, dropped: tuple[Expression, ...], at: Emission) -> None:
            behind = stack.copy()
            if value is not _NOTHING:
                behind.push(value)
            self._run(code, number, behind, variables, dropped, at, loop)

        if name == "CALL" and stack.peek(argument + 1, "state method"):
            given = [stack.pop() for _ in range(argument)][::-1]
            (state, method), _ = stack.pop().value, stack.pop()
            behind = None if current(state) in variables else self._filled(code, number, state, method)
            if behind is not None:
                number = behind
                self._read(state, method, list(map(expression_on, given)), at)
                go_on(value_of(state), variables, dropped, at)
                return True
            self._use(state, method, list(map(expression_on, given)), variables, dropped, at, go_on)
        elif name == "CALL" and argument == 1 and stack.peek(2, "timer method"):
            at_time = expression_on(stack.pop())
            method, _ = stack.pop().value, stack.pop()
            if method not in _SETS_TIMERS:
                raise NotVectorizable(f"calls {method}() in a way that is not known")
            if at.items is not None:
                raise NotVectorizable("sets timers in a loop")
            self.timers.append(TimerChange(at.guards, at_time, _SETS_TIMERS[method]))
            go_on(Constant(None), variables, dropped, at)
        elif name == "CALL" and stack.peek(argument + 2, "own method"):
            given = [stack.pop() for _ in range(argument)][::-1]
            own, called = stack.pop(), stack.pop()
            if is_generator(called.value.__code__):
                if code.operations[number].name != "GET_YIELD_FROM_ITER":
                    raise NotVectorizable(f"calls {called.name}(), which is a generator")
                number = self._after_yield_from(code, number + 1)
            self._call_own(called, [own, *given], variables, dropped, at, go_on)
        elif name == "CONTAINS_OP" and stack.peek(1, "state"):
            state, key = stack.pop().value, expression_on(stack.pop())

            def tested(value: Any, *rest: Any) -> None:
                go_on(Unary("not", value) if argument else value, *rest)

            self._use(state, "contains", [key], variables, dropped, at, tested)
        elif name == "BINARY_SUBSCR" and stack.peek(2, "state"):
            key = expression_on(stack.pop())
            self._use(stack.pop().value, "get", [key], variables, dropped, at, go_on)
        elif name == "STORE_SUBSCR" and stack.peek(2, "state"):
            key, state, value = expression_on(stack.pop()), stack.pop().value, expression_on(stack.pop())
            self._use(state, "put", [key, value], variables, dropped, at, lambda _, *rest: go_on(_NOTHING, *rest))
        else:
            return False
        return True

    def _call_own(
        self, called: Marker, given: list[Any], variables: Variables, dropped: tuple[Expression, ...], at: Emission, go_on: Any
    ) -> None:  # fmt: skip
        """Follow a method of the object, which may use state too, and go on with what it returns."""
        function: FunctionType = called.value
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        self._check(code)
        if code.co_freevars or len(names) != len(given):
            raise NotVectorizable(f"calls {called.name}(), which is no plain method")
        if function.__globals__ is not self._function.__globals__:
            raise NotVectorizable(f"calls {called.name}(), which is of another module")
        self._steps.depth += 1
        if self._steps.depth > _DEEPEST:
            raise NotVectorizable(f"calls {called.name}(), which calls others too deep")
        self.methods[called.name.removeprefix("self.")] = fingerprint(code)

        def back(value: Any, there: Variables, dropped: tuple[Expression, ...], at: Emission) -> None:
            self._steps.depth -= 1
            go_on(value, {**variables, **of_states(there)}, dropped, at)
            self._steps.depth += 1

        inner = replace(self._code(code), back=back)
        self._run(
            inner, 0, Stack(self), {**dict(zip(names, given, strict=True)), **of_states(variables)}, dropped, at, None
        )
        self._steps.depth -= 1

    # ---- branches, and the end

    def _fork(self, run: Any, name: str, here: int, there: int, state: State) -> None:
        stack = state.stack
        behind = or_constant(run.code, name, here, there, stack)
        if behind is not None:
            run.agenda.add(replace(state, stack=behind), there)
            return
        value = stack.pop()
        known = known_jump(expression_on(value), name)
        if known is None or (known and name.endswith("OR_POP")):
            stack.push(value)
        if known is None:
            super()._fork(run, name, here, there, state)
        else:
            run.agenda.add(state, there if known else here)

    def _return(self, code: Code, value: Any, dropped: tuple[Expression, ...], at: Emission) -> None:
        if self._gives == "several" or code.comprehension:
            super()._return(code, value, dropped, at)
        elif self._gives == "one or none" and value == Constant(None):
            self._end(dropped, at)
        elif self._gives.startswith("one"):
            self._emit(replace(at, result=expression_on(value)))
            self._end(dropped, at)
        else:
            truth = expression_on(value)
            self._emit(replace(under(at, truth), result=RECORD))
            self._end(dropping(dropped, truth), at)


__all__ = ["trace_with_state"]
