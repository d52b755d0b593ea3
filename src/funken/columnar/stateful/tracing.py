"""From a function with keyed state to what it gives and what it writes, by reading its bytecode: nothing of it runs.

The function has one record as its argument, with fields: the record itself, its key, its timestamp, and of each state whether it
has a value (``held``) and which (``value_of``), as they are before the record. A path through the function that reads a state
without a default goes on in two: with a value, and with ``None``. What is read after it was written is what was written. So all
the function gives is emissions (``flat_maps/emissions.py``) over that record, and each change of a state is a ``Write`` with the
conditions it is made under.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

from funken.columnar.bytecode import Operation, is_generator
from funken.columnar.callables import Marker, constant_of, expression_on
from funken.columnar.dependencies import Dependency, fingerprint, same
from funken.columnar.expressions import Argument, Choose, Constant, Expression, IsNone, NotVectorizable, Unary
from funken.columnar.flat_maps.emissions import Emission, TracedFlatMap
from funken.columnar.flat_maps.tracing import Code, FlatMapTracer, LoopAround, Variables, under
from funken.columnar.lists.comprehensions import dropping
from funken.columnar.stack import Stack
from funken.columnar.stateful.opening import DeclaredState
from funken.columnar.tracing import function_of_method
from funken.dataclass import dataclass
from funken.state.descriptors import StateKind

RECORD, KEY, STAMP = (Argument(0, (number,)) for number in range(3))
FIRST_STATE = 3
"""The number of the field with the first state."""
_DEEPEST = 10
_ASKED = {"get_current_key": KEY, "timestamp": STAMP}


def held(number: int) -> Argument:
    """Return whether a state has a value."""
    return Argument(0, (FIRST_STATE + number, 0))


def value_of(number: int) -> Argument:
    """Return the value of a state."""
    return Argument(0, (FIRST_STATE + number, 1))


@dataclass(frozen=True)
class Write:
    """A change of a state, where the ``guards`` hold, one after the other; ``value`` is ``None``: it has none from then on."""

    state: int
    guards: tuple[Expression, ...]
    value: Expression | None
    """Of a list: what is added to it."""


@dataclass(frozen=True)
class TracedState:
    """A function with state: what it gives, and its ``writes`` in order: of two that are made, the later one counts."""

    given: TracedFlatMap
    writes: tuple[Write, ...]
    map_keys: tuple[Expression | None, ...]
    """Of states that are maps, the one key that the function uses of them."""
    stamped: bool
    """Whether it uses the timestamps of records."""
    attributes: tuple[tuple[str, Any], ...]
    """The attributes of its object that it uses as constants."""
    methods: tuple[tuple[str, Any], ...]
    """The methods of its object that it calls, and what they were."""
    used: frozenset[int]
    """The states that it uses."""
    drops_none: bool
    """Whether a result that is ``None`` is none."""

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Whether everything the function uses is still what it was when it was traced."""
        kept = getattr(target, "__dict__", {})
        if not all(name in kept and same(kept[name], value) for name, value in self.attributes):
            return False
        own = ((getattr(type(target), name, None), known) for name, known in self.methods)
        if not all(type(each) is FunctionType and fingerprint(each.__code__) == known for each, known in own):
            return False
        return self.given.holds(target, method)


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
    Binary(op='+', left=Argument(argument=0, path=(3, 1)), right=Constant(value=1))
    """
    function = function_of_method(target, method)
    tracer = _StateTracer(function, 1 + context, target, states, gives)
    given = tracer.read()
    known = Dependency("method", method, fingerprint(function.__code__))
    return TracedState(
        replace(given, dependencies=(*given.dependencies, known)), tuple(tracer.writes), tuple(tracer.map_keys),
        "timestamp" in tracer.asked, tuple(tracer.attributes.items()), tuple(tracer.methods.items()),
        frozenset(tracer.used), gives == "one or none",
    )  # fmt: skip


def _current(state: int) -> str:
    """Return under which name the variables of a path have what a state has there: that of no variable of a program."""
    return f"state {state}"


def _of_states(variables: Variables) -> Variables:
    return {name: found for name, found in variables.items() if " " in name}


class _StateTracer(FlatMapTracer):
    """Follows one function and the methods of its object that it calls."""

    def __init__(
        self, function: FunctionType, arguments: int, target: Any, states: tuple[DeclaredState, ...], gives: str
    ) -> None:  # fmt: skip
        super().__init__(function, arguments, bound=True)
        _, record, *context = [*self._start]
        self._start[record] = RECORD
        if context:
            self._start[context[0]] = Marker("context", "its context")
        self._target, self._gives = target, gives
        self._states = {each.attribute: number for number, each in enumerate(states)}
        self._declared = states
        self.writes: list[Write] = []
        self.map_keys: list[Expression | None] = [None] * len(states)
        #: what of its context the function asks for
        self.asked: set[str] = set()
        self.attributes: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}
        self.used: set[int] = set()

    # ---- attributes of the object, and its context

    def _step(
        self, operation: Operation, stack: Stack, variables: Variables, dropped: tuple[Expression, ...]
    ) -> tuple[Expression, ...]:
        name, argument = operation.name, operation.argument
        if name == "LOAD_ATTR" and stack.peek(1, "self"):
            stack.pop()
            stack.push(self._attribute(argument))
        elif name == "LOAD_METHOD" and stack.peek(1, "self"):
            own = stack.pop()
            stack.push(Marker("own method", f"self.{argument}", self._method(argument)))
            stack.push(own)
        elif name == "LOAD_METHOD" and stack.peek(1, "state"):
            state = stack.pop()
            for _ in range(2):
                stack.push(Marker("state method", state.name, (state.value, argument)))
        elif name == "LOAD_METHOD" and stack.peek(1, "context"):
            stack.pop()
            if argument not in _ASKED:
                raise NotVectorizable(
                    "uses timers, or time" if argument == "timer_service" else f"uses ctx.{argument}()"
                )
            for _ in range(2):
                stack.push(Marker("context method", "its context", argument))
        elif name == "CALL" and argument == 0 and stack.peek(1, "context method"):
            asked = stack.pop().value
            stack.pop()
            stack.push(self._asked(asked))
        elif name == "GET_ITER" and stack.peek(1, "state") and self._is_list(stack.top().value):
            stack.push(Marker("iterator", value=self._listed(stack.pop().value, variables)))
        elif name in ("GET_ITER", "LOAD_METHOD", "LOAD_ATTR") and stack.peek(1, "state"):
            raise NotVectorizable(f"uses {stack.pop().name} in a way that has no kernel")
        else:
            return super()._step(operation, stack, variables, dropped)
        return dropped

    def _attribute(self, name: str) -> Any:
        if name in self._states:
            return Marker("state", f"self.{name}", self._states[name])
        kept = getattr(self._target, "__dict__", {})
        if name not in kept:
            raise NotVectorizable(f"uses self.{name}")
        try:
            found = constant_of(kept[name])
        except NotVectorizable:
            raise NotVectorizable(f"uses self.{name}") from None
        self.attributes[name] = kept[name]
        return found

    def _method(self, name: str) -> FunctionType:
        if name in self._states:
            raise NotVectorizable(f"calls self.{name}")
        return function_of_method(self._target, name)

    def _asked(self, name: str) -> Expression:
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
            self._use(state, method, list(map(expression_on, given)), variables, dropped, at, go_on)
        elif name == "CALL" and stack.peek(argument + 2, "own method"):
            given = [stack.pop() for _ in range(argument)][::-1]
            own, called = stack.pop(), stack.pop()
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
        if is_generator(code) or code.co_freevars or len(names) != len(given):
            raise NotVectorizable(f"calls {called.name}(), which is no plain method")
        if function.__globals__ is not self._function.__globals__:
            raise NotVectorizable(f"calls {called.name}(), which is of another module")
        self._steps.depth += 1
        if self._steps.depth > _DEEPEST:
            raise NotVectorizable(f"calls {called.name}(), which calls others too deep")
        self.methods[called.name.removeprefix("self.")] = fingerprint(code)

        def back(value: Any, there: Variables, dropped: tuple[Expression, ...], at: Emission) -> None:
            self._steps.depth -= 1
            go_on(value, {**variables, **_of_states(there)}, dropped, at)
            self._steps.depth += 1

        inner = replace(self._code(code), back=back)
        self._run(
            inner, 0, Stack(self), {**dict(zip(names, given, strict=True)), **_of_states(variables)}, dropped, at, None
        )
        self._steps.depth -= 1

    # ---- states

    def _use(
        self, state: int, method: str, given: list[Expression], variables: Variables, dropped: tuple[Expression, ...],
        at: Emission, go_on: Callable[..., None],
    ) -> None:  # fmt: skip
        """Follow the use of a state, and go on with what it returns."""
        declared = self._declared[state]
        self.used.add(state)
        what = f"self.{declared.attribute}.{method}()"
        if declared.kind is StateKind.MAP:
            if method not in _OF_MAPS or len(given) != _OF_MAPS[method]:
                raise NotVectorizable(f"uses {what} of a map")
            key = given.pop(0)
            if self.map_keys[state] not in (None, key):
                raise NotVectorizable(f"uses self.{declared.attribute} with several keys")
            self.map_keys[state] = key
            for each in (key, *given):
                dropped = dropping(dropped, each)
            method = {"put": "update", "remove": "clear", "get": "value"}.get(method, method)
        elif declared.kind is StateKind.LIST and len(given) == _OF_LISTS.get(method, -1):
            self._use_list(state, method, given, variables, dropped, at, go_on)
            return
        elif declared.kind is not StateKind.VALUE or len(given) != _OF_VALUES.get(method, -1):
            raise NotVectorizable(f"uses {what} of a {declared.kind.value} state")
        name = _current(state)
        if method in ("update", "clear"):
            if at.items is not None:
                raise NotVectorizable("changes state in a loop")
            value = given[0] if given else None
            if value == Constant(None):
                value = None
            self.writes.append(Write(state, at.guards, value))
            go_on(Constant(None), {**variables, name: value}, dropped, at)
            return
        tests = method == "contains"
        if name in variables:
            known = variables[name]
            missing = Constant(declared.default)
            found = Constant(known is not None) if tests else missing if known is None else known
            go_on(found, variables, dropped, at)
        elif declared.default is not None:
            go_on(value_of(state), {**variables, name: value_of(state)}, dropped, at)
        else:
            with_value, without = {**variables, name: value_of(state)}, {**variables, name: None}
            there, missing = (Constant(True), Constant(False)) if tests else (value_of(state), Constant(None))
            go_on(there, with_value, dropped, under(at, held(state)))
            go_on(missing, without, dropped, under(at, Unary("not", held(state))))

    def _is_list(self, state: int) -> bool:
        return self._declared[state].kind is StateKind.LIST

    def _listed(self, state: int, variables: Variables) -> Any:
        """Return what is in a list that is a state."""
        self.used.add(state)
        known = variables.get(_current(state), value_of(state))
        if known is _ADDED:
            raise NotVectorizable(f"reads self.{self._declared[state].attribute} after it has added to it")
        return Marker("list", "a list", []) if known is None else known

    def _use_list(
        self, state: int, method: str, given: list[Expression], variables: Variables, dropped: tuple[Expression, ...],
        at: Emission, go_on: Callable[..., None],
    ) -> None:  # fmt: skip
        if method == "get":
            go_on(self._listed(state, variables), variables, dropped, at)
            return
        if at.items is not None:
            raise NotVectorizable("changes state in a loop")
        self.writes.append(Write(state, at.guards, given[0] if given else None))
        go_on(Constant(None), {**variables, _current(state): _ADDED if given else None}, dropped, at)

    def _fork(
        self, code: Code, name: str, here: int, there: int, stack: Stack, variables: Variables,
        dropped: tuple[Expression, ...], at: Emission, loop: LoopAround | None,
    ) -> None:  # fmt: skip
        behind = _or_constant(code, name, here, there, stack)
        if behind is not None:
            self._run(code, there, behind, variables, dropped, at, loop)
            return
        value = stack.pop()
        known = _known(expression_on(value), name)
        if known is None or (known and name.endswith("OR_POP")):
            stack.push(value)
        if known is None:
            super()._fork(code, name, here, there, stack, variables, dropped, at, loop)
            return
        self._run(code, there if known else here, stack, variables, dropped, at, loop)

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


def _known(condition: Expression, jump: str) -> bool | None:
    """Return whether a jump is taken, where that is known; of a state that has a value, it is known that it is not ``None``."""
    if "NONE" in jump:
        missing = _is_none(condition)
        return missing if missing is None else missing != ("NOT_NONE" in jump)
    inverted = "FALSE" in jump
    while isinstance(condition, Unary) and condition.op in ("not", "bool"):
        inverted ^= condition.op == "not"
        condition = condition.operand
    truth = bool(condition.value) if isinstance(condition, Constant) else None
    if isinstance(condition, IsNone):
        truth = _is_none(condition.operand)
    return None if truth is None else truth != inverted


def _is_none(operand: Expression) -> bool | None:
    if isinstance(operand, Constant):
        return operand.value is None
    return False if isinstance(operand, Argument) and _is_value(operand) else None


def _is_value(argument: Argument) -> bool:
    return len(argument.path) == 2 and argument.path[0] >= FIRST_STATE and argument.path[1] == 1


def _or_constant(code: Code, name: str, here: int, there: int, stack: Stack) -> Stack | None:
    """Return the stack behind ``state or constant``, which is one value and not two paths; ``None`` if that is not what comes."""
    value, operations, behind = stack.top(), code.operations[here:there], stack.copy()
    value = value.operand if isinstance(value, Unary) and value.op == "bool" else value
    if not isinstance(value, Argument) or not _is_value(value):
        return None
    behind.pop()
    if name == "POP_JUMP_IF_TRUE" and operations and operations[0].name == "POP_TOP" and behind.top() is value:
        operations = operations[1:]
        behind.pop()
    elif name != "JUMP_IF_TRUE_OR_POP":
        return None
    if [each.name for each in operations] != ["LOAD_CONST"]:
        return None
    behind.push(Choose(value, value, constant_of(operations[0].argument)))
    return behind


_NOTHING = object()
_OF_VALUES = {"value": 0, "update": 1, "clear": 0}
_ADDED = object()
_OF_LISTS = {"get": 0, "add": 1, "clear": 0}
_OF_MAPS = {"get": 1, "contains": 1, "put": 2, "remove": 1}


__all__ = ["FIRST_STATE", "KEY", "RECORD", "STAMP", "TracedState", "Write", "held", "trace_with_state", "value_of"]
