"""Variables and comprehensions of a function that is followed instruction by instruction.

A comprehension is a function of its own up to Python 3.11, and a loop from 3.12 on; a generator expression is always a function.
Its body is followed once, for any item of a list (``Loop``), or for each item of a display.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from types import CodeType, MappingProxyType
from typing import Any, TypeVar, cast

from funken.columnar.bytecode import Operation, UnknownBytecode, is_followed, is_generator, operations
from funken.columnar.callables import FunctionReader
from funken.columnar.calling import DISPLAY, Marker, Method, expression_on
from funken.columnar.expressions import (
    Argument,
    Constant,
    Expression,
    Invoke,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    Unpacked,
)
from funken.columnar.lists.calls import FIRST_ITEM
from funken.columnar.lists.results import appended_of, conditions_of, fold_of, gives_several, is_never, result_of
from funken.columnar.mutation.names import dict_of, names_of, view_of
from funken.columnar.mutation.tracked import changed, is_made
from funken.columnar.stack import Stack, State

UNSET = Marker("unset")
_ONCE = ("a generator", "a map", "a filter")
_CLOSURE = 8
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_BEGINS = [["SWAP", made, "SWAP"] for made in ("BUILD_LIST", "BUILD_SET", "BUILD_MAP")]
_Reader = TypeVar("_Reader", bound="VariablesReader")


class VariablesReader:
    """Follows the operations of one function, or of one of its comprehensions."""

    _code: CodeType
    _operations: list[Operation]
    _cells: frozenset[str]
    _free: frozenset[str] = frozenset()
    _steps: Any
    raises = True
    """Whether what raises an exception is followed; if not, the function is refused."""
    changes = True
    """Whether records that are changed are followed; if not, the function is refused."""

    methods: Mapping[tuple[Any, str], Any] = MappingProxyType({})
    """What methods without arguments return, by what they are of (the kind of a marker, or an argument) and their names."""

    def _follow(self, state: State, at: int | None = None, carried: tuple[str, ...] | None = None) -> Expression:
        raise NotImplementedError

    def _unknown(self, owner: Marker, method: str) -> str:
        """Return why a method of a marker is not followed."""
        return f"asks its {owner.kind} for {method}()"

    def names_of(self, found: Any) -> tuple[str, ...] | None:
        """Return the names of a dict; ``None`` if they are not known."""
        return names_of(found, self._steps.schema)

    def given(self) -> Sequence[Expression]:
        """Return what the function has given so far, and goes on behind it."""
        return ()

    # ---- variables

    def _step(self, operation: Operation, state: State) -> None:
        """Do what neither jumps nor gives results."""
        name, argument, stack, variables = operation.name, operation.argument, state.stack, state.variables
        if name in ("STORE_FAST", "STORE_DEREF"):
            if name == "STORE_DEREF" and argument not in self._cells:
                raise NotVectorizable(f"changes the variable {argument!r}, which an inner function uses")
            found = stack.pop()
            if found is UNSET:
                variables.pop(argument, None)
                return
            variables[argument] = found
            state.drop(found)
        elif name in ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF") and (name == "LOAD_FAST" or argument in variables):
            stack.push(self._load(variables, argument))
        elif name == "LOAD_CLOSURE":
            stack.push(Marker("cell", argument))
        elif name == "BUILD_TUPLE" and argument and stack.peek(1, "cell"):
            for _ in range(argument):
                stack.pop()
            stack.push(Marker("cells"))
        elif name == "LOAD_METHOD" and argument == "append" and stack.peek(1, "collected"):
            stack.push(Marker("append"))  # two, as a method that is called has
        elif name == "MAKE_FUNCTION" and stack.is_comprehension():
            self._make_function(stack, argument or 0)
        elif name == "GET_ITER":
            items = stack.pop()
            names = self.names_of(items) if isinstance(items, Expression) else None
            spend(items, variables)
            stack.push(Marker("iterator", value=items if names is None else view_of(items, names, "keys")))
        elif name == "RETURN_GENERATOR":
            stack.push(Constant(None))
        elif name == "LOAD_FAST_AND_CLEAR":
            stack.push(variables.pop(argument, UNSET))
        elif name == "SET_FUNCTION_ATTRIBUTE" and argument == _CLOSURE and stack.peek(1, "function"):
            function = stack.pop()
            stack.pop()
            stack.push(function)
        elif name not in ("MAKE_CELL", "END_SEND") and not (self.methods and self._asked(operation, stack)):
            if self.changes:
                given = self.given()
                evaluated = changed(operation, stack, variables, self._steps.own, given)
                if evaluated is not None:
                    self._steps.count(len(given))  # each was looked at
                    state.drop(evaluated)
                    return
            stack.step(operation)
            made = is_made(operation, stack)
            if made is not None:
                self._steps.own.append(made)

    def _asked(self, operation: Operation, stack: Stack) -> bool:
        """Do what asks a context, or the like, for something; return whether it was that."""
        name, argument, top = operation.name, operation.argument, stack.top()
        if name in ("LOAD_METHOD", "LOAD_ATTR") and isinstance(top, Marker | Argument):
            of = top.kind if isinstance(top, Marker) else top
            found = self.methods.get((of, argument))
            if found is None:
                if isinstance(top, Marker) and any(owner == of for owner, _ in self.methods):
                    raise NotVectorizable(self._unknown(top, argument))
                return False
            stack.pop()
            method = found if isinstance(found, Method) else Method("answer", "a method of its context", found)
            # A call of a method of what has the name of an imported module is one of an attribute, with NULL beside it.
            for _ in range(2 if name == "LOAD_METHOD" else 1):
                stack.push(method)
            return True
        if name == "PUSH_NULL" and isinstance(top, Method) and stack.item(2) is not top:  # above it, from 3.13 on
            stack.push(top)
            return True
        if name == "CALL" and argument == 0 and stack.peek(1, "answer"):
            answer = stack.pop().value
            stack.pop()
            stack.push(answer)
            return True
        return False

    @staticmethod
    def _make_function(stack: Stack, flags: int) -> None:
        code = stack.pop().value
        if flags & ~_CLOSURE:
            raise NotVectorizable("has an inner function")
        if flags:
            stack.pop()
        stack.push(Marker("function", value=code))

    def _load(self, variables: dict[str, Any], name: str) -> Any:
        if name not in variables:
            raise NotVectorizable(f"uses the variable {name!r} before it has a value")
        return variables[name]

    # ---- comprehensions

    def is_comprehension(self, here: int) -> bool:
        """Whether a loop is a comprehension: from 3.12 on, that is a loop in the function."""
        return [each.name for each in self._operations[max(0, here - 3) : here]] in _BEGINS

    def of_comprehension(self, here: int, loop: Any) -> Any:
        """Return what a comprehension that is a loop gives: a list, or a set of the same items."""
        made = self._operations[here - 2].name
        return a_set(loop) if made == "BUILD_SET" else self._a_dict(loop) if made == "BUILD_MAP" else loop

    def _a_dict(self, loop: Any) -> MakeRecord:
        if not isinstance(loop, Marker) or loop.kind != "list":
            raise NotVectorizable("makes a dict of items")
        made = dict_of(loop.value)
        self._steps.own.append(made)
        return made

    def comprehended(self, code: CodeType, iterator: Marker, variables: Mapping[str, Any]) -> Any:
        """Return what the function that a comprehension is gives; of a generator expression, what it would."""
        seen = self.seen_by(code, variables)
        if not is_followed(code.replace(co_flags=code.co_flags & ~_GENERATOR)):
            raise NotVectorizable("has an inner function")
        inner = self.reading(operations_of(code), code)
        loop = inner.loop_over(
            next(n for n, each in enumerate(inner._operations) if each.name == "FOR_ITER"), iterator, seen
        )
        if code.co_name == "<setcomp>":
            return a_set(loop)
        if code.co_name == "<dictcomp>":
            return self._a_dict(loop)
        return Marker("generator", "a generator", loop) if is_generator(code) and isinstance(loop, Expression) else loop

    def seen_by(self, code: CodeType, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables that the function of a comprehension uses."""
        seen = {name: found for name, found in variables.items() if name in code.co_freevars}
        for name in seen:
            if name not in self._cells and name not in self._free:
                raise NotVectorizable(f"changes the variable {name!r}, which an inner function uses")
        return seen

    def reading(self: _Reader, found: list[Operation], code: CodeType) -> _Reader:
        """Return what follows these operations, and shares all else."""
        inner = copy(self)
        inner._code, inner._operations, inner._cells = code, found, cells_of(code, found)
        inner._free = frozenset(code.co_freevars)  # of these, the function around it has looked after
        return inner

    def loop_over(self, here: int, iterator: Marker, variables: dict[str, Any], around: Stack | None = None) -> Any:
        """Return what the loop of a comprehension gives, which is followed once for any item, or for each of a display.

        ``around`` is the stack of the loop around it.
        """
        items = iterator.value
        if isinstance(items, Marker) and items.kind == "generator":
            items = items.value
        if isinstance(items, Marker) and items.kind == "list":
            items = Make(tuple(items.value))

        def body(item: Expression) -> Expression:
            stack = Stack(cast("FunctionReader", self), [Marker("comprehension")]) if around is None else around.copy()
            stack.push(iterator)
            stack.push(item)
            return self._follow(State(here + 1, stack, dict(variables)), here)

        if isinstance(items, Make):
            if any(isinstance(each, Unpacked) for each in items.items):
                raise NotVectorizable("loops over a display with *")
            trees = [tree for tree in map(body, items.items) if not is_never(tree)]
            if any(conditions_of(each) or gives_several(each) for each in trees):
                raise NotVectorizable("makes a list")
            return Marker("list", "a list", [result_of(each) for each in trees])
        self._steps.loops += 1
        number = FIRST_ITEM + self._steps.loops
        tree = body(Argument(number))
        loop = Loop(expression_on(items), number, conditions_of(tree), result_of(tree))
        return Invoke("chain", (loop,)) if gives_several(tree) else loop

    # ---- loops that are none

    def carry(self, here: int, stop: int, iterator: Marker, variables: dict[str, Any], depth: int) -> list[Expression]:
        """Follow the body of a loop, and assign what variables have behind it; return what is evaluated there.

        ``depth`` is how much the stack holds below the loop: what leaves it early takes that off, too.
        """
        inner = self._operations[here + 1 : stop]
        assigned = {each.argument for each in inner if each.name in ("STORE_FAST", "STORE_DEREF")}
        if isinstance(iterator.value, Marker | Make):
            raise NotVectorizable("has a loop")
        carried = tuple(sorted(name for name in assigned if name in variables))
        collected = [name for name in variables if self._is_appended(name, variables, here, inner)]
        number = FIRST_ITEM + self._steps.loops + 1
        self._steps.loops += 1 + len(carried)
        places = {name: Argument(number + 1 + place) for place, name in enumerate(carried)}
        before = {name: expression_on(variables[name]) for name in carried}
        body = {name: found for name, found in variables.items() if name not in assigned}
        body |= places | {name: Marker("collected", "a list") for name in collected}
        below = [Marker("below", "what is around a loop")] * depth
        stack = Stack(cast("FunctionReader", self), [*below, iterator, Argument(number)])
        tree = self._follow(State(here + 1, stack, body), here, carried)
        loop = Loop(expression_on(iterator.value), number, (), Constant(None))
        of_variables = frozenset(each.argument for each in places.values())
        for name in assigned:
            variables.pop(name, None)
        for place, name in enumerate(carried):
            variables[name] = fold_of(tree, place, loop, before[name], of_variables)
        for name in collected[:1]:
            found = appended_of(tree, loop, of_variables)
            if found is None or len(collected) > 1:
                raise NotVectorizable("makes a list")
            variables[name] = found
        if not carried and not collected:
            raise NotVectorizable("has a loop")
        return [variables[name] for name in (*carried, *collected)]

    def _is_appended(self, name: str, variables: Mapping[str, Any], here: int, inner: list[Operation]) -> bool:
        """Whether a variable is an empty list that nothing else has yet, and a loop does nothing with it but to append to it."""
        value = variables[name]
        if not isinstance(value, Marker) or value.kind != "list" or value.value:
            return False
        elsewhere = sum(each is value for each in variables.values()) > 1
        if elsewhere or any(
            each.name.startswith("LOAD_") and each.argument == name for each in self._operations[:here]
        ):
            return False
        uses = [at for at, each in enumerate(inner) if each.name.startswith("LOAD_FAST") and each.argument == name]
        return bool(uses) and all(
            (inner[at + 1].name, inner[at + 1].argument) == ("LOAD_METHOD", "append") for at in uses
        )


def items_displayed(iterator: Any) -> list[Any] | None:
    """Return the items that an iterator of a display has left; ``None`` if it is that of something else."""
    items = iterator.value if isinstance(iterator, Marker) else None
    if isinstance(iterator, Marker) and iterator.kind == DISPLAY:
        return list(iterator.value)
    if isinstance(items, Marker) and items.kind in ("list", "generator"):
        items = Make(tuple(items.value)) if items.kind == "list" else items.value
    if not isinstance(items, Make) or any(isinstance(each, Unpacked) for each in items.items):
        return None
    return list(items.items)


def spend(items: Any, variables: dict[str, Any]) -> None:
    """Note, on this path, that what is gone through gives its items once: a generator, a map or a filter."""
    if isinstance(items, Marker) and items.kind == "generator" and items.name in _ONCE:
        for name, found in variables.items():
            if found is items:
                variables[name] = Marker("spent", items.name)


def a_set(items: Any) -> Marker:
    """Return a set, as the list that it is made of."""
    return Marker("set", "a set", Invoke("list", (expression_on(items),)))


def operations_of(code: CodeType) -> list[Operation]:
    """Return the operations of a function; raise ``NotVectorizable`` if this Python is not known."""
    try:
        return operations(code)
    except UnknownBytecode as unknown:
        raise NotVectorizable(str(unknown)) from None


def cells_of(code: CodeType, found: list[Operation]) -> frozenset[str]:
    """Return the variables of a function that its comprehensions use, and that are assigned once at most."""
    stored = Counter(each.argument for each in found if each.name in ("STORE_FAST", "STORE_DEREF"))
    stored.update(code.co_varnames[: code.co_argcount])
    return frozenset(name for name in code.co_cellvars if stored[name] <= 1)


__all__ = ["UNSET", "VariablesReader", "cells_of", "items_displayed", "operations_of"]
