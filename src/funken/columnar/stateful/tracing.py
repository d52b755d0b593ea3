"""From a function with keyed state to its emitted records and its writes, by reading its bytecode: nothing of it runs.

The function has one record as its argument, with fields: the record itself, its key, its timestamp, the watermark, and of each
state whether it has a value (``held``) and which (``value_of``), as they are before the record. A path through the function that
reads a state without a default goes on in two: with a value, and with ``None``. What is read after it was written is what was
written. So all the function gives is emissions (``columnar/flat_maps.py``) over that record, and each change of a state is a
``Effect`` with the conditions it is made under, as is a timer that is set or deleted. ``on_timer`` is such a function too: its
record is the time.
"""

from __future__ import annotations

from dataclasses import replace
from types import FunctionType
from typing import Any

from funken.columnar.bytecode import Operation, is_generator
from funken.columnar.calling import (
    Dependency,
    Marker,
    Method,
    Outside,
    attribute_of,
    constant_of,
    expression_on,
    fingerprint,
    same,
)
from funken.columnar.declared import kept, seen
from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    Invoke,
    Listed,
    NotVectorizable,
    bare,
    nodes_of,
    reads,
    schema_of_value,
)
from funken.columnar.flat_maps import EmissionWalk, FlatMapTracer
from funken.columnar.stack import State
from funken.columnar.stateful.changes import (
    KEY,
    RECORD,
    STAMP,
    WATERMARK,
    DeclaredState,
    Effect,
    TracedState,
    held,
    value_of,
)
from funken.columnar.tracing import Convention, function_of_method
from funken.columnar.typed.inference import Emission
from funken.state.descriptors import StateKind

# ---- The uses of states on a path through a function: what a call of a handle returns, and what it writes.


_COMBINES = (StateKind.REDUCING, StateKind.AGGREGATING)
_COMBINING = {"get": 0, "add": 1, "clear": 0}
_METHODS = {
    StateKind.VALUE: {"value": 0, "update": 1, "clear": 0},
    StateKind.LIST: {"get": 0, "add": 1, "clear": 0, "update": 1},
    StateKind.MAP: {"get": 1, "contains": 1, "put": 2, "remove": 1},
    StateKind.REDUCING: _COMBINING,
    StateKind.AGGREGATING: _COMBINING,
}
"""Numbers of arguments of the methods of handles."""


def current(state: int) -> str:
    """Return the name under which the variables of a path have a state's value: that of no variable of a program."""
    return f"state {state}"


def of_states(variables: dict[str, Any]) -> dict[str, Any]:
    """Return the values of states among the variables of a path."""
    return {name: found for name, found in variables.items() if " " in name}


class StateTracer(FlatMapTracer):
    """Follows one function and the methods of its object that it calls, and their uses of states."""

    raises = changes = meets = False

    def __init__(
        self, function: FunctionType, convention: Convention, target: Any, states: tuple[DeclaredState, ...]
    ) -> None:  # fmt: skip
        super().__init__(function, convention, True, target)
        self._declared = states
        self._steps.present = frozenset(map(value_of, range(len(states))))
        self.writes: list[Effect] = []
        self.accesses: list[Effect] = []
        self.map_keys: list[Expression | None] = [None] * len(states)
        self.touched: set[int] = set()
        self.fills: list[Any] = [each.default for each in states]
        self._target = target
        self._states = {each.attribute: number for number, each in enumerate(states)}
        self.timers: list[Effect] = []

    def _filled(self, followed: list[Operation], number: int, state: int, method: str) -> int | None:
        """Return the place behind ``state or constant``, if the constant can stand for a missing state."""
        if method not in ("value", "get") or self._declared[state].kind not in (StateKind.VALUE, StateKind.MAP):
            return None
        operations = [each for each in followed[number : number + 5] if each.name != "TO_BOOL"]
        jumps = ["JUMP_IF_TRUE_OR_POP"] if operations[0].name != "COPY" else ["COPY", "POP_JUMP_IF_TRUE", "POP_TOP"]
        if [each.name for each in operations[: len(jumps)]] != jumps or len(operations) <= len(jumps):
            return None
        jump, load = operations[len(jumps) > 1], operations[len(jumps)]
        there: int = jump.argument
        if not isinstance(there, int) or followed[there - 1] is not load:
            return None
        if load.name == "LOAD_GLOBAL" and not load.calls:
            space = self._function.__globals__
            value = space.get(load.argument)
        elif load.name == "LOAD_CONST":
            value = load.argument
        else:
            return None
        is_empty = type(value) in (int, bool, str) and not value
        if not is_empty and not (type(value) is tuple and value and schema_of_value(value) is not None):
            return None
        if self.fills[state] is not None and not same(self.fills[state], value):
            return None
        if load.name == "LOAD_GLOBAL":
            self.depend("global", load.argument, value)
        self.fills[state] = value
        return there

    def _read(self, number: int, method: str, given: list[Expression], at: Emission) -> None:
        """Note that a state, or of a map that at a key, is read."""
        self.touched.add(number)
        self._access(number, at)
        if method == "get":
            self._take_key(number, given)

    def _take_key(self, number: int, given: list[Expression]) -> Expression:
        """Take the key of a map, which is the only one that the function uses."""
        if not given or self.map_keys[number] not in (None, given[0]):
            raise NotVectorizable(f"uses self.{self._declared[number].attribute} with several keys")
        self.map_keys[number] = key = given.pop(0)
        return key

    def _access(self, number: int, at: Emission) -> None:
        """Note the first thing that a path does with a state, which is to read it, if values live longer by that."""
        declared = self._declared[number]
        if declared.lifetime is not None and declared.lifetime.read_renews:
            if at.items is not None:
                raise NotVectorizable(f"reads self.{declared.attribute}, which renews it, in a loop")
            self.accesses.append(Effect(at.guards, state=number))

    def _use(self, number: int, method: str, given: list[Expression], state: State, walk: EmissionWalk) -> list[State]:
        """Follow the use of a state; return the states behind it, with its results on their stacks."""
        declared, kind = self._declared[number], self._declared[number].kind
        self.touched.add(number)
        what = f"self.{declared.attribute}.{method}()"
        if len(given) != _METHODS[kind].get(method, -1):
            raise NotVectorizable(f"uses {what} of a {'map' if kind is StateKind.MAP else f'{kind.value} state'}")
        if kind in _COMBINES:
            return self._use_combined(number, method, given, state, walk)
        if kind is StateKind.LIST:
            return self._use_list(number, method, given, state, walk)
        if kind is StateKind.MAP:
            state.drop(self._take_key(number, given))
            if method == "put" and given == [Constant(None)]:
                raise NotVectorizable(f"puts None into self.{declared.attribute}")
            for each in given:
                state.drop(kept(each, declared.type_info))
            method = {"put": "update", "remove": "clear", "get": "value"}.get(method, method)
        name, at = current(number), walk.at(state)
        if method in ("update", "clear"):
            value = given[0] if given and given[0] != Constant(None) else None
            self._write(number, value, at)
            return _behind(state, Constant(None), name, value)
        tests = method == "contains"
        if name in state.variables:
            known = state.variables[name]
            missing = Constant(declared.default)
            found = Constant(known is not None) if tests else missing if known is None else self._seen(number, known)
            return _behind(state, found, name, known)
        self._access(number, at)
        if declared.default is not None:
            return _behind(state, value_of(number), name, value_of(number))
        there, missing = (Constant(True), Constant(False)) if tests else (value_of(number), Constant(None))
        holds, fails = walk.agenda.forked(state, held(number))
        return _behind(holds, there, name, value_of(number)) + _behind(fails, missing, name, None)

    def _write(self, number: int, value: Expression | None, at: Emission, whole: bool = False) -> Expression | None:
        """Note that a state is set, or a list added to; return the written value."""
        if at.items is not None:
            raise NotVectorizable("changes state in a loop")
        written = value if whole else self._kept(number, value)
        self.writes.append(Effect(at.guards, written, number, whole))
        return written

    def _kept(self, state: int, value: Expression | None) -> Expression | None:
        """Return the written form of a value."""
        return value if value is None or value == value_of(state) else kept(value, self._declared[state].type_info)

    def _seen(self, state: int, value: Expression) -> Expression:
        """Return the read form of a value that a path has written, or of the former one."""
        return value if value == value_of(state) else seen(value, self._declared[state].type_info)

    def _use_combined(
        self, number: int, method: str, given: list[Expression], state: State, walk: EmissionWalk
    ) -> list[State]:
        """Follow the use of a state that combines added values: it is read first, and then perhaps written."""
        declared, name, at = self._declared[number], current(number), walk.at(state)
        if name not in state.variables and method != "clear":
            self._access(number, at)
            states = walk.agenda.forked(state, held(number))
            for each, value in zip(states, (value_of(number), None), strict=True):
                each.variables[name] = value
            return [after for each in states for after in self._use_combined(number, method, given, each, walk)]
        found = state.variables.get(name)
        if method == "get":
            return _behind(state, Constant(None) if found is None else self._result_of(declared, found), name, found)
        made = None if method == "clear" else self._combined(declared, found, given[0])
        self._write(number, made, at)
        return _behind(state, Constant(None), name, None if made is None else self._seen(number, made))

    def _combined(self, declared: DeclaredState, found: Expression | None, value: Expression) -> Expression:
        if declared.kind is StateKind.AGGREGATING:
            so_far = self._made_by(declared, "create_accumulator") if found is None else found
            return self._made_by(declared, "add", value, so_far)
        if found is None:
            return value
        value = seen(value, declared.type_info)
        for builtin in (max, min):
            if declared.function is builtin:
                return Invoke(builtin.__name__, (found, value))
        return self._made_by(declared, "reduce", found, value)

    def _result_of(self, declared: DeclaredState, found: Expression) -> Expression:
        return found if declared.kind is StateKind.REDUCING else self._made_by(declared, "get_result", found)

    def _made_by(self, declared: DeclaredState, method: str, *given: Expression) -> Expression:
        """Return the result of a state's function for arguments."""
        function = declared.function
        owner = getattr(function, "__self__", None) if declared.kind is StateKind.REDUCING else function
        if owner is not None:
            function = function_of_method(owner, method)
        if type(function) is not FunctionType or function.__code__.co_freevars:
            raise NotVectorizable(f"has a state {declared.attribute!r} with a function that is not read")
        if function.__globals__ is not self._function.__globals__:
            raise NotVectorizable(f"has a state {declared.attribute!r} with a function of another module")
        what = f"has a state {declared.attribute!r} with a function that"
        return self.inner(function, given, what, bound=owner is not None)

    def _is_list(self, state: int) -> bool:
        return self._declared[state].kind is StateKind.LIST

    def _listed(self, state: int, variables: dict[str, Any]) -> Any:
        """Return the content of a list that is a state."""
        self.touched.add(state)
        known = variables.get(current(state), value_of(state))
        return Marker("list", "a list", []) if known is None else known

    def _use_list(
        self, number: int, method: str, given: list[Expression], state: State, walk: EmissionWalk
    ) -> list[State]:
        name = current(number)
        if method == "get":
            state.stack.push(self._listed(number, state.variables))
            return [state]
        whole = method == "update"
        after = self._write(number, given[0] if given else None, walk.at(state), whole)
        if after is not None and not whole:
            after = Invoke("+", (expression_on(self._listed(number, state.variables)), Listed((after,))))
        return _behind(state, Constant(None), name, after)

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
        return Outside("attribute", name, kept[0])

    def _method(self, name: str) -> FunctionType:
        if name in self._states:
            raise NotVectorizable(f"calls self.{name}")
        return function_of_method(self._target, name)

    # ---- the way through

    def leaves(self, walk: EmissionWalk, operation: Operation, state: State) -> list[State] | None:
        """Follow an operation on a state, a timer, or a method of the object; return the states behind it, if it is."""
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
            self.timers.append(Effect(at.guards, at_time, deletes=deletes))
            stack.push(Constant(None))
            return [state]
        if name == "CALL" and stack.peek(argument + 2, "own method"):
            return self._call_own(argument, state, walk)
        if name == "CONTAINS_OP" and stack.peek(1, "state"):
            number, key = stack.pop().value, expression_on(stack.pop())
            states = self._use(number, "contains", [key], state, walk)
            for each in states if argument else ():
                each.stack.push(Invoke("not", (each.stack.pop(),)))
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
        """Follow a method of the object, which may use state too; return the states behind it, with its results."""
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
        self.depend("own method", called.name.removeprefix("self."), fingerprint(code))
        variables = {**dict(zip(names, [own, *given], strict=True)), **of_states(state.variables)}
        behind = []
        with self._steps.within(code, called.name):
            ends = walk.call(code, variables, state)
        for end, value in ends:
            after = replace(state.copy(), dropped=end.dropped, when=end.when)
            after.variables |= of_states(end.variables)
            after.stack.push(value)
            behind.append(after)
        return behind

    def chooses(self, walk: EmissionWalk, name: str, there: int, state: State) -> bool:
        """Go over ``state or constant``, which is one value and not two paths."""
        value, operations, stack = state.stack.top(), walk.operations[state.number : there], state.stack.copy()
        value = bare(value)[0] if isinstance(value, Expression) else value
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


def _behind(state: State, result: Any, name: str, value: Expression | None) -> list[State]:
    """Return a state in which a call has returned something, and a state of the program has a value."""
    state.variables[name] = value
    state.stack.push(result)
    return [state]


_TIMERS = "timer service"
_CONTEXT = {
    ("context", "get_current_key"): KEY,
    ("context", "timestamp"): STAMP,
    ("context", "timer_service"): Marker(_TIMERS, "its timer service"),
    (_TIMERS, "current_watermark"): WATERMARK,
    (_TIMERS, "register_event_time_timer"): Method("timer", "its timer service", False),
    (_TIMERS, "delete_event_time_timer"): Method("timer", "its timer service", True),
}
"""The questions of a function to its context; of setters of timers, whether they delete one."""


@reads
def trace_with_state(
    target: Any, method: str, states: tuple[DeclaredState, ...], context: bool = True, gives: str = "several"
) -> TracedState:
    """Return the results and writes of a method with state; raise ``NotVectorizable`` with the reason.

    ``context``: it gets one besides its record; ``gives``: what it returns is ``several`` results, ``one``, ``one or none``, or a
    ``truth``.

    >>> from funken import KeyedProcessFunction, ValueStateDescriptor
    >>> from funken.columnar.stateful.changes import declared_states
    >>> class Count(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
    ...     def process_element(self, value, ctx):
    ...         self.count.update(self.count.value() + 1)
    >>> trace_with_state(Count(), "process_element", declared_states(Count())).writes[0].value
    Invoke(name='+', arguments=(Argument(argument=0, path=(4, 1)), Constant(value=1)))
    """
    function = function_of_method(target, method)
    arguments = (RECORD, Marker("context", "its context"))[: 1 + context]
    tracer = StateTracer(function, Convention(arguments, _CONTEXT, gives), target, states)
    given = tracer.read()
    known = Dependency("method", method, fingerprint(function.__code__))
    given = replace(given, dependencies=(*given.dependencies, known))
    all_parts: tuple[Any, ...] = (*given.emissions, *tracer.writes, *tracer.timers, *tracer.accesses)
    stamped = STAMP in nodes_of(*(part for each in all_parts for part in each.parts()))
    return TracedState(
        given,
        tuple(tracer.writes),
        tuple(tracer.map_keys),
        stamped,
        frozenset(tracer.touched),
        gives == "one or none",
        tuple(tracer.fills),
        tuple(tracer.timers),
        tuple(tracer.accesses),
    )
