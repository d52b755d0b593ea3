"""The uses of states on a path through a function: what a call of a handle returns, and what it writes."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from funken.columnar.bytecode import Operation
from funken.columnar.calling import Marker, expression_on
from funken.columnar.declared import kept, seen
from funken.columnar.dependencies import Dependency, same
from funken.columnar.expressions import (
    Binary,
    Constant,
    Expression,
    Invoke,
    Listed,
    NotVectorizable,
    schema_of_value,
)
from funken.columnar.flat_maps.emissions import Emission
from funken.columnar.flat_maps.tracing import Convention, EmissionWalk, FlatMapTracer
from funken.columnar.stack import State
from funken.columnar.stateful.changes import Access, Write, held, value_of
from funken.columnar.stateful.opening import DeclaredState
from funken.columnar.tracing import function_of_method
from funken.state.descriptors import StateKind

_COMBINES = (StateKind.REDUCING, StateKind.AGGREGATING)
_METHODS = {
    StateKind.VALUE: {"value": 0, "update": 1, "clear": 0},
    StateKind.LIST: {"get": 0, "add": 1, "clear": 0, "update": 1},
    StateKind.MAP: {"get": 1, "contains": 1, "put": 2, "remove": 1},
    **{kind: {"get": 0, "add": 1, "clear": 0} for kind in _COMBINES},
}
"""How many arguments the methods of handles have."""


def current(state: int) -> str:
    """Return under which name the variables of a path have what a state has there: that of no variable of a program."""
    return f"state {state}"


def of_states(variables: dict[str, Any]) -> dict[str, Any]:
    """Return what the variables of a path have of states."""
    return {name: found for name, found in variables.items() if " " in name}


class StateUses(FlatMapTracer):
    """What a function does with its states."""

    raises = changes = meets = False

    def __init__(
        self, function: FunctionType, convention: Convention, target: Any, states: tuple[DeclaredState, ...]
    ) -> None:  # fmt: skip
        super().__init__(function, convention, True, target)
        self._declared = states
        self._steps.present = frozenset(map(value_of, range(len(states))))
        self.writes: list[Write] = []
        self.accesses: list[Access] = []
        self.map_keys: list[Expression | None] = [None] * len(states)
        self.used: set[int] = set()
        self.fills: list[Any] = [each.default for each in states]

    def _filled(self, followed: list[Operation], number: int, state: int, method: str) -> int | None:
        """Return where ``state or constant`` is through, if where there is no state the constant can stand in its place."""
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
            self._dependencies["global", load.argument] = Dependency("global", load.argument, value)
        self.fills[state] = value
        return there

    def _read(self, number: int, method: str, given: list[Expression], at: Emission) -> None:
        """Note that a state, or of a map that at a key, is read."""
        self.used.add(number)
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
            self.accesses.append(Access(number, at.guards))

    def _use(self, number: int, method: str, given: list[Expression], state: State, walk: EmissionWalk) -> list[State]:
        """Follow the use of a state; return the states behind it, with what it returns on their stacks."""
        declared, kind = self._declared[number], self._declared[number].kind
        self.used.add(number)
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
        """Note that a state is set, or a list added to; return what is written."""
        if at.items is not None:
            raise NotVectorizable("changes state in a loop")
        written = value if whole else self._kept(number, value)
        self.writes.append(Write(number, at.guards, written, whole))
        return written

    def _kept(self, state: int, value: Expression | None) -> Expression | None:
        """Return what is written of a value."""
        return value if value is None or value == value_of(state) else kept(value, self._declared[state].type_info)

    def _seen(self, state: int, value: Expression) -> Expression:
        """Return what is read of a value that a path has written, or that was there."""
        return value if value == value_of(state) else seen(value, self._declared[state].type_info)

    def _use_combined(
        self, number: int, method: str, given: list[Expression], state: State, walk: EmissionWalk
    ) -> list[State]:
        """Follow the use of a state that combines what is added: it is read first, and then perhaps written."""
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
        """Return what the function of a state makes of arguments."""
        function = declared.function
        owner = getattr(function, "__self__", None) if declared.kind is StateKind.REDUCING else function
        if owner is not None:
            function = function_of_method(owner, method)
        if type(function) is not FunctionType or function.__code__.co_freevars:
            raise NotVectorizable(f"has a state {declared.attribute!r} with a function that is not read")
        if function.__globals__ is not self._function.__globals__:
            raise NotVectorizable(f"has a state {declared.attribute!r} with a function of another module")
        what = f"has a state {declared.attribute!r} with a function that"
        traced = self._called(function, given, what, bound=owner is not None)
        for each in traced.dependencies:  # of names that mean the same in both
            self.depend(each)
        return traced.result

    def _is_list(self, state: int) -> bool:
        return self._declared[state].kind is StateKind.LIST

    def _listed(self, state: int, variables: dict[str, Any]) -> Any:
        """Return what is in a list that is a state."""
        self.used.add(state)
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
            after = Binary("+", expression_on(self._listed(number, state.variables)), Listed((after,)))
        return _behind(state, Constant(None), name, after)


def _behind(state: State, result: Any, name: str, value: Expression | None) -> list[State]:
    """Return a state in which a call has returned something, and a state of the program has a value."""
    state.variables[name] = value
    state.stack.push(result)
    return [state]


__all__ = ["StateUses", "current", "of_states"]
