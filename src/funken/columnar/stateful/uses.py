"""The uses of states on a path through a function: what a call of a handle returns, and what it writes."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from funken.columnar.calling.markers import Marker, expression_on
from funken.columnar.declared.states import kept, seen
from funken.columnar.dependencies import Dependency, same
from funken.columnar.expressions import (
    Binary,
    Constant,
    Expression,
    Invoke,
    Listed,
    NotVectorizable,
    Unary,
    schema_of_value,
)
from funken.columnar.flat_maps.code import Code, Variables
from funken.columnar.flat_maps.emissions import Emission
from funken.columnar.flat_maps.tracing import FlatMapTracer, under
from funken.columnar.lists.comprehensions import dropping
from funken.columnar.stateful.opening import DeclaredState
from funken.columnar.stateful.traced import Access, Write, held, value_of
from funken.columnar.tracing import Tracer, function_of_method
from funken.state.descriptors import StateKind

_COMBINES = (StateKind.REDUCING, StateKind.AGGREGATING)
_OF_COMBINED = {"get": 0, "add": 1, "clear": 0}
_OF_VALUES = {"value": 0, "update": 1, "clear": 0}
_OF_LISTS = {"get": 0, "add": 1, "clear": 0, "update": 1}
_OF_MAPS = {"get": 1, "contains": 1, "put": 2, "remove": 1}


def current(state: int) -> str:
    """Return under which name the variables of a path have what a state has there: that of no variable of a program."""
    return f"state {state}"


def of_states(variables: Variables) -> Variables:
    """Return what the variables of a path have of states."""
    return {name: found for name, found in variables.items() if " " in name}


class StateUses(FlatMapTracer):
    """What a function does with its states."""

    raises = changes = meets = False

    def __init__(self, function: FunctionType, arguments: int, states: tuple[DeclaredState, ...]) -> None:
        super().__init__(function, arguments, bound=True)
        self._declared = states
        self.writes: list[Write] = []
        self.accesses: list[Access] = []
        self.map_keys: list[Expression | None] = [None] * len(states)
        self.used: set[int] = set()
        self.fills: list[Any] = [each.default for each in states]

    def _filled(self, code: Code, number: int, state: int, method: str) -> int | None:
        """Return where ``state or constant`` is through, if where there is no state the constant can stand in its place."""
        if method not in ("value", "get") or self._declared[state].kind not in (StateKind.VALUE, StateKind.MAP):
            return None
        operations = [each for each in code.operations[number : number + 5] if each.name != "TO_BOOL"]
        jumps = ["JUMP_IF_TRUE_OR_POP"] if operations[0].name != "COPY" else ["COPY", "POP_JUMP_IF_TRUE", "POP_TOP"]
        if [each.name for each in operations[: len(jumps)]] != jumps or len(operations) <= len(jumps):
            return None
        jump, load = operations[len(jumps) > 1], operations[len(jumps)]
        there: int = jump.argument
        if not isinstance(there, int) or code.operations[there - 1] is not load:
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

    def _read(self, state: int, method: str, given: list[Expression], at: Emission) -> None:
        """Note that a state, or of a map that at a key, is read."""
        self.used.add(state)
        self._access(state, at)
        if method == "get":
            if len(given) != 1 or self.map_keys[state] not in (None, given[0]):
                raise NotVectorizable(f"uses self.{self._declared[state].attribute} with several keys")
            self.map_keys[state] = given[0]

    def _access(self, state: int, at: Emission) -> None:
        """Note the first thing that a path does with a state, which is to read it, if values live longer by that."""
        declared = self._declared[state]
        if declared.lifetime is not None and declared.lifetime.read_renews:
            if at.items is not None:
                raise NotVectorizable(f"reads self.{declared.attribute}, which renews it, in a loop")
            self.accesses.append(Access(state, at.guards))

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
            if method == "put" and given == [Constant(None)]:
                raise NotVectorizable(f"puts None into self.{declared.attribute}")
            for each in (key, *given):
                dropped = dropping(dropped, key if each is key else kept(each, declared.type_info))
            method = {"put": "update", "remove": "clear", "get": "value"}.get(method, method)
        elif declared.kind in _COMBINES and len(given) == _OF_COMBINED.get(method, -1):
            self._use_combined(state, method, given, variables, dropped, at, go_on)
            return
        elif declared.kind is StateKind.LIST and len(given) == _OF_LISTS.get(method, -1):
            self._use_list(state, method, given, variables, dropped, at, go_on)
            return
        elif declared.kind is not StateKind.VALUE or len(given) != _OF_VALUES.get(method, -1):
            raise NotVectorizable(f"uses {what} of a {declared.kind.value} state")
        name = current(state)
        if method in ("update", "clear"):
            if at.items is not None:
                raise NotVectorizable("changes state in a loop")
            value = given[0] if given else None
            if value == Constant(None):
                value = None
            self.writes.append(Write(state, at.guards, self._kept(state, value)))
            go_on(Constant(None), {**variables, name: value}, dropped, at)
            return
        tests = method == "contains"
        if name in variables:
            known = variables[name]
            missing = Constant(declared.default)
            found = Constant(known is not None) if tests else missing if known is None else self._seen(state, known)
            go_on(found, variables, dropped, at)
            return
        self._access(state, at)
        if declared.default is not None:
            go_on(value_of(state), {**variables, name: value_of(state)}, dropped, at)
        else:
            with_value, without = {**variables, name: value_of(state)}, {**variables, name: None}
            there, missing = (Constant(True), Constant(False)) if tests else (value_of(state), Constant(None))
            go_on(there, with_value, dropped, under(at, held(state)))
            go_on(missing, without, dropped, under(at, Unary("not", held(state))))

    def _kept(self, state: int, value: Expression | None) -> Expression | None:
        """Return what is written of a value."""
        return value if value is None or value == value_of(state) else kept(value, self._declared[state].type_info)

    def _seen(self, state: int, value: Expression) -> Expression:
        """Return what is read of a value that a path has written, or that was there."""
        return value if value == value_of(state) else seen(value, self._declared[state].type_info)

    def _use_combined(
        self, state: int, method: str, given: list[Expression], variables: Variables, dropped: tuple[Expression, ...],
        at: Emission, go_on: Callable[..., None],
    ) -> None:  # fmt: skip
        """Follow the use of a state that combines what is added: it is read first, and then perhaps written."""
        declared = self._declared[state]
        name = current(state)
        if name not in variables and method != "clear":
            self._access(state, at)
            for there, value in ((held(state), value_of(state)), (Unary("not", held(state)), None)):
                self._use_combined(state, method, given, {**variables, name: value}, dropped, under(at, there), go_on)
            return
        found = variables.get(name)
        if method == "get":
            go_on(Constant(None) if found is None else self._result_of(declared, found), variables, dropped, at)
            return
        if at.items is not None:
            raise NotVectorizable("changes state in a loop")
        made = None if method == "clear" else self._combined(declared, found, given[0])
        self.writes.append(Write(state, at.guards, self._kept(state, made)))
        after = None if made is None else self._seen(state, made)
        go_on(Constant(None), {**variables, name: after}, dropped, at)

    def _combined(self, declared: DeclaredState, found: Expression | None, value: Expression) -> Expression:
        if declared.kind is StateKind.AGGREGATING:
            so_far = self._called(declared, "create_accumulator") if found is None else found
            return self._called(declared, "add", value, so_far)
        if found is None:
            return value
        value = seen(value, declared.type_info)
        for builtin in (max, min):
            if declared.function is builtin:
                return Invoke(builtin.__name__, (found, value))
        return self._called(declared, "reduce", found, value)

    def _result_of(self, declared: DeclaredState, found: Expression) -> Expression:
        return found if declared.kind is StateKind.REDUCING else self._called(declared, "get_result", found)

    def _called(self, declared: DeclaredState, method: str, *given: Expression) -> Expression:
        """Return what the function of a state makes of arguments."""
        function = declared.function
        owner = getattr(function, "__self__", None) if declared.kind is StateKind.REDUCING else function
        if owner is not None:
            function = function_of_method(owner, method)
        if type(function) is not FunctionType or function.__code__.co_freevars:
            raise NotVectorizable(f"has a state {declared.attribute!r} with a function that is not read")
        if function.__globals__ is not self._function.__globals__:
            raise NotVectorizable(f"has a state {declared.attribute!r} with a function of another module")
        try:
            inner = Tracer(function, len(given), bound=owner is not None, steps=self._steps)
            traced = inner.run(*([Marker("self", "self")] if owner is not None else []), *given)
        except NotVectorizable as refused:
            raise NotVectorizable(f"has a state {declared.attribute!r} with a function that {refused}") from None
        for each in traced.dependencies:  # of names that mean the same in both
            self.depend(each)
        return traced.result

    def _is_list(self, state: int) -> bool:
        return self._declared[state].kind is StateKind.LIST

    def _listed(self, state: int, variables: Variables) -> Any:
        """Return what is in a list that is a state."""
        self.used.add(state)
        known = variables.get(current(state), value_of(state))
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
        whole = method == "update"
        after = given[0] if given else None
        after = after if whole else self._kept(state, after)
        self.writes.append(Write(state, at.guards, after, whole))
        if after is not None and not whole:
            after = Binary("+", expression_on(self._listed(state, variables)), Listed((after,)))
        go_on(Constant(None), {**variables, current(state): after}, dropped, at)


__all__ = ["StateUses", "current", "of_states"]
