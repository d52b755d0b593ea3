"""The interpreter's stack with expressions on it: the effect of each operation of ``bytecode.py``, or a refusal."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from types import CodeType, FunctionType
from typing import Any

from funken.columnar.bytecode import Operation, reason_of
from funken.columnar.calling import (
    DISPLAY,
    FunctionReader,
    Marker,
    Outside,
    Steps,
    attribute_in,
    cell_of,
    constant_of,
    dropping,
    expression_on,
    is_builtin,
    is_namespace,
    kept_attribute,
)
from funken.columnar.expressions import (
    ALWAYS,
    NEVER,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    PathCondition,
    PathConditions,
    Sequence,
    TypeTest,
    Unpacked,
    attribute_of_record,
    bare,
    children,
    nodes_of,
)
from funken.columnar.typed.operations import (
    CHANGED,
    SET,
    UPDATED,
    WITHOUT,
    Sharing,
    by_percent,
    converted,
    formatted,
    known_truth,
    text_of,
)
from funken.dataclass import dataclass
from funken.expr.python.table import TABLE
from funken.expr.types import DICT

_UNARY = {"UNARY_NEGATIVE": "negative", "UNARY_NOT": "not", "UNARY_INVERT": "inverted", "TO_BOOL": "bool"}


_NULL = Marker("null")


class Stack:
    """The stack of one path through a function."""

    def __init__(self, reader: FunctionReader, items: list[Any] | None = None) -> None:
        self._reader = reader
        self._items: list[Any] = [] if items is None else items
        self._keywords: tuple[str, ...] = ()

    def copy(self) -> Stack:
        """Return the same stack, for another path."""
        return Stack(self._reader, list(self._items))

    def push(self, value: Any) -> None:
        """Put something on the stack."""
        self._items.append(value)

    def pop(self) -> Any:
        """Take the top item; an object from outside is used by that."""
        return self._reader.used(self._items.pop())

    def depth(self) -> int:
        """Return the number of items on the stack."""
        return len(self._items)

    def top(self) -> Any:
        """Return the top item, and leave it there; ``None`` if there is nothing."""
        return self._items[-1] if self._items else None

    def item(self, depth: int) -> Any:
        """Return the item at a depth of the stack, as it is; ``None`` if there is nothing."""
        return self._items[-depth] if len(self._items) >= depth else None

    def put(self, depth: int, value: Any) -> None:
        """Replace the item at a depth of the stack."""
        self._items[-depth] = value

    def keywords(self, on_stack: bool) -> tuple[str, ...]:
        """Take the names of the last arguments of a call, which may be on top of the stack."""
        if on_stack:
            self._named_on_stack()
        names, self._keywords = self._keywords, ()
        return names

    def discard(self) -> None:
        """Remove the top item: nothing is known to use it."""
        self._items.pop()

    def peek(self, depth: int, kind: str) -> bool:
        """Return True if the stack has a marker of a type at this depth."""
        found = self.item(depth)
        return isinstance(found, Marker) and found.kind == kind

    def is_comprehension(self) -> bool:
        """Return True if the code of a comprehension is on top."""
        return self.peek(1, "code") and self._items[-1].value.co_name.endswith(("comp>", "<genexpr>"))

    def _expression(self) -> Expression:
        return expression_on(self.pop())

    def _several(self, count: int) -> tuple[Expression, ...]:
        return tuple(self._expression() for _ in range(count))[::-1]

    # ---- operations

    def step(self, operation: Operation) -> None:
        """Do one operation; raise ``NotVectorizable`` if it is not known."""
        name, argument = operation.name, operation.argument
        known = _OPERATIONS.get(name)
        if known is not None:
            known(self, argument)
        elif name in _UNARY:
            self.push(Invoke(_UNARY[name], (self._expression(),)))
        elif name in ("BINARY_OP", "COMPARE_OP"):
            self._operate(name, argument.removesuffix("=") if name == "BINARY_OP" else argument)
        elif name == "LOAD_GLOBAL":
            self._global(argument, operation.calls)
        else:
            raise NotVectorizable(reason_of(name, argument))

    def _operate(self, name: str, op: str) -> None:
        if TABLE.find(op) is None:
            raise NotVectorizable(f"uses the operator {op}")
        if name == "COMPARE_OP" and any(_is_type(each) for each in self._items[-2:]):
            if op not in ("==", "!="):
                raise NotVectorizable("compares types")
            self._is(op == "!=")
            return
        right, left = self._expression(), self._expression()
        if op == "%" and isinstance(left, Constant) and type(left.value) is str:
            self.push(by_percent(left.value, right))
            return
        self.push(Invoke(op, (left, right)))

    def _constant(self, value: Any) -> None:
        self.push(Marker("code", "an inner function", value) if isinstance(value, CodeType) else constant_of(value))

    def _function(self, flags: int | None) -> None:
        if flags or not self.peek(1, "code"):
            raise NotVectorizable("has an inner function")
        code = self._items.pop().value
        if code.co_freevars:  # which 3.13 gives to the function by an operation of its own
            raise NotVectorizable("has an inner function")
        self.push(Marker("inner", "an inner function", FunctionType(code, self._reader.function().__globals__)))

    def _deref(self, name: str) -> None:
        cell = cell_of(self._reader.function(), name)
        if cell is None:
            raise NotVectorizable(f"uses the variable {name!r} of an enclosing function, which has no value")
        self.push(Outside("closure", name, cell[0]))

    def _global(self, name: str, calls: bool) -> None:
        space = self._reader.function().__globals__
        if name in space:
            self.push(Outside("global", name, space[name]))
        elif is_builtin(self._reader.function(), name):
            self._reader.depend("builtin", name, None)
            found = getattr(builtins, name)
            self.push(Marker("builtin", name, found if isinstance(found, type) else None))
        else:
            raise NotVectorizable(f"calls {name}()" if calls else f"uses the global {name!r}")

    def _attribute(self, name: str) -> None:
        owner = self._items.pop()
        if isinstance(owner, Marker) and owner.kind == "self":
            self.push(Outside("attribute", name, kept_attribute(owner.value, name)))
            return
        if isinstance(owner, Outside) and is_namespace(owner.value):
            found = attribute_in(owner.value, name)
            if found is None:
                raise NotVectorizable(f"uses {owner.name}.{name}")
            self.push(Outside(owner.kind, f"{owner.name}.{name}", found[0]))
            return
        self.push(attribute_of_record(_owner(self._reader.used(owner), name), name))

    def _method(self, name: str) -> None:
        owner = self._items[-1]
        is_own = isinstance(owner, Marker) and owner.kind == "self"
        if is_own or (isinstance(owner, Outside) and is_namespace(owner.value)):
            self._attribute(name)
            self._items.insert(len(self._items) - 1, _NULL)
            return
        self._items.pop()
        if isinstance(owner, Outside):
            owner = self._reader.depended(owner, container=True)
        self._items += [Marker("method", name), _owner(owner, name)]

    def _is(self, inverted: int) -> None:
        right, left = self._items.pop(), self._items.pop()
        if isinstance(right, Constant) and right.value is None:
            found: Expression = Invoke("is None", (expression_on(self._reader.used(left)),))
        elif isinstance(left, Marker) and left.kind == "type":
            found = TypeTest(left.value, (self._reader.class_of(right),), exact=True)
        elif isinstance(right, Constant) and type(right.value) is bool:
            made = expression_on(self._reader.used(left))
            found = Choose(TypeTest(made, (bool,), exact=True), Invoke("==", (made, right)), Constant(False))
        else:
            raise NotVectorizable("compares identities")
        self.push(Invoke("not", (found,)) if inverted else found)

    def _subscript(self, _: Any) -> None:
        index, record = self._items.pop(), self._items.pop()
        if isinstance(index, Marker) and index.kind == "slice":
            self.push(Invoke("slice", (expression_on(self._reader.used(record)), *index.value)))
            return
        index, record = expression_on(self._reader.used(index)), self._reader.looked_into(record)
        self.push(GetItem(record, index.value if isinstance(index, Constant) else index))

    def _slice(self, count: int) -> None:
        parts = [*self._several(count), Constant(None)]
        self.push(Marker("slice", "a slice", tuple(parts[:3])))

    def _binary_slice(self, _: Any) -> None:
        start, stop = self._several(2)
        self.push(Invoke("slice", (self._expression(), start, stop, Constant(None))))

    def _unpack(self, count: int) -> None:
        if self.peek(1, "list") and len(self._items[-1].value) == count:
            items = self._items.pop().value
            if not any(isinstance(each, Unpacked) for each in items):
                self._items += reversed(items)
                return
            raise NotVectorizable("unpacks a display with *")
        record = self._reader.as_tuple(self._items.pop())
        shown = record.items if isinstance(record, Make) and len(record.items) == count else ()
        if shown and not any(isinstance(each, Unpacked) for each in shown):
            self._items += reversed(shown)
            return
        self._items += [GetItem(record, index, count) for index in reversed(range(count))]

    def _unpack_rest(self, counts: int) -> None:
        before, behind = counts & 255, counts >> 8
        if (before > 0) == (behind > 0):
            raise NotVectorizable("unpacks with * in the middle")
        record = self._reader.as_tuple(self._items.pop())
        rest = Invoke("rest", (record, Constant(before), Constant(-behind if behind else None)))
        self._items += [GetItem(record, -number) for number in range(1, behind + 1)]
        self._items += [rest, *(GetItem(record, number) for number in reversed(range(before)))]

    def _contains(self, inverted: int) -> None:
        container, needle = self._reader.looked_into(self._items.pop()), self._expression()
        found = Invoke("in", (needle, container))
        self.push(Invoke("not", (found,)) if inverted else found)

    # ---- displays

    def _map(self, count: int) -> None:
        pairs = self._several(2 * count)
        self._dict(pairs[::2], pairs[1::2])

    def _const_key_map(self, count: int) -> None:
        keys = self._expression()
        assert isinstance(keys, Make)
        self._dict(keys.items, self._several(count))

    def _dict(self, keys: tuple[Expression, ...], values: tuple[Expression, ...]) -> None:
        names = [text_of(key) for key in keys]
        if None in names:
            raise NotVectorizable("makes a dict with keys that are no constant texts")
        self.push(MakeRecord(DICT, tuple(names), values))

    def _dict_update(self, depth: int) -> None:
        added, into = self._expression(), self._items[-depth]
        if not isinstance(into, MakeRecord):
            raise NotVectorizable("adds to a dict that is one of several")
        if not isinstance(added, MakeRecord) or added.form != DICT:
            added = MakeRecord(DICT, (None,), (Unpacked(added),))
        self._items[-depth] = MakeRecord(DICT, (*into.names, *added.names), (*into.items, *added.items))

    def _list(self, count: int) -> None:
        self.push(Marker("list", "a list", list(self._several(count))))

    def _set(self, count: int) -> None:
        if count:
            raise NotVectorizable("makes a set")
        self._list(0)

    def _list_extend(self, depth: int) -> None:
        added = self._expression()
        into = self._items[-depth]
        items = list(added.items) if isinstance(added, Make) else [Unpacked(added)]
        self._items[-depth] = Marker("list", "a list", [*into.value, *items])

    def _list_append(self, depth: int) -> None:
        added = self._expression()
        into = self._items[-depth]
        self._items[-depth] = Marker("list", "a list", [*into.value, added])

    def _intrinsic(self, number: int) -> None:
        if number != 6:  # INTRINSIC_LIST_TO_TUPLE
            raise NotVectorizable("uses an operation without a kernel")
        self._list_to_tuple(None)

    def _list_to_tuple(self, _: Any) -> None:
        self.push(self._reader.as_tuple(self._items.pop()))

    def _format(self, form: tuple[int, bool]) -> None:
        conversion, with_spec = form
        spec = self._expression() if with_spec else None
        self.push(formatted(self._expression(), conversion, spec))

    def _convert(self, conversion: int) -> None:
        self.push(converted(self._expression(), conversion))

    # ---- calls

    def _named(self, names: tuple[str, ...]) -> None:
        self._keywords = names

    def _named_on_stack(self) -> None:
        names = self._expression()
        assert isinstance(names, Make)
        self._keywords = tuple(each.value for each in names.items if isinstance(each, Constant))

    def _call_with_names(self, count: int) -> None:
        self._named_on_stack()
        self._call(count)

    def _call(self, count: int) -> None:
        given, names = [self._items.pop() for _ in range(count)][::-1], self.keywords(on_stack=False)
        second, first = self._items.pop(), self._items.pop()
        if isinstance(first, Marker) and first.kind == "method":
            self.push(self._reader.method_called(first.name, expression_on(second), given, names))
            return
        called = first if first is not _NULL and isinstance(first, Marker) else second
        if isinstance(called, Marker) and called.kind == "builtin":
            self.push(self._reader.builtin_called(called.name, given, names))
        elif isinstance(called, Outside):
            self.push(self._reader.outside_called(called, given, names))
        else:
            raise NotVectorizable("calls a function")

    def _tuple(self, count: int) -> None:
        items = self._items[len(self._items) - count :]
        if count and all(_is_class(each) for each in items):
            del self._items[len(self._items) - count :]
            self.push(Marker("classes", "a tuple of classes", tuple(items)))
            return
        self.push(Make(self._several(count)))

    def _copy(self, depth: int) -> None:
        self.push(self._items[-depth])

    def _swap(self, depth: int) -> None:
        self._items[-1], self._items[-depth] = self._items[-depth], self._items[-1]


_OPERATIONS: dict[str, Callable[[Stack, Any], None]] = {
    "LOAD_CONST": Stack._constant,
    "MAKE_FUNCTION": Stack._function,
    "LOAD_DEREF": Stack._deref,
    "LOAD_ATTR": Stack._attribute,
    "LOAD_METHOD": Stack._method,
    "CALL": Stack._call,
    "CALL_KW": Stack._call_with_names,
    "KW_NAMES": Stack._named,
    "CONTAINS_OP": Stack._contains,
    "IS_OP": Stack._is,
    "BINARY_SUBSCR": Stack._subscript,
    "BUILD_SLICE": Stack._slice,
    "BINARY_SLICE": Stack._binary_slice,
    "UNPACK_SEQUENCE": Stack._unpack,
    "UNPACK_EX": Stack._unpack_rest,
    "BUILD_TUPLE": Stack._tuple,
    "BUILD_STRING": lambda stack, count: stack.push(Invoke("text", stack._several(count))),
    "BUILD_MAP": Stack._map,
    "BUILD_CONST_KEY_MAP": Stack._const_key_map,
    "DICT_UPDATE": Stack._dict_update,
    "BUILD_LIST": Stack._list,
    "LIST_EXTEND": Stack._list_extend,
    "BUILD_SET": Stack._set,
    "LIST_APPEND": Stack._list_append,
    "LIST_TO_TUPLE": Stack._list_to_tuple,
    "CALL_INTRINSIC_1": Stack._intrinsic,
    "FORMAT": Stack._format,
    "CONVERT_VALUE": Stack._convert,
    "COPY": Stack._copy,
    "SWAP": Stack._swap,
    "PUSH_NULL": lambda stack, _: stack.push(_NULL),
}


def _is_class(found: Any) -> bool:
    if isinstance(found, Outside):
        return isinstance(found.value, type)
    return isinstance(found, Marker) and found.kind == "builtin" and found.value is not None


def _is_type(found: Any) -> bool:
    return isinstance(found, Marker) and found.kind == "type"


def _owner(owner: Any, name: str) -> Expression:
    if isinstance(owner, Marker):
        raise NotVectorizable(f"uses {owner.name}.{name}" if owner.kind != "list" else "makes a list")
    return expression_on(owner)


# ---- States on the paths through a function, and where paths meet: one state again.
#
# A branch makes two states, each under the condition of its side. States that come to the same operation become
# one: their conditions are joined, and each variable becomes a ``Choose`` of its values (``columnar/expressions.py``). States
# that cannot be one stay apart: a variable is a list of two items here, and of three there.
#
# States are taken in the order of their operations, and within a loop over a display item by item: all that can
# come to an operation has come when it is its turn.


_LISTS = ("list", DISPLAY)


class _Apart(Exception):
    """Two values of a variable cannot become one."""


@dataclass
class State:
    """The state of a path: its position, stack and variables; it changes as the path is followed."""

    number: int
    stack: Stack
    variables: dict[str, Any]
    dropped: tuple[Expression, ...] = ()
    when: PathCondition = ALWAYS
    given: Expression | None = None
    """The result of the body of a loop for the item."""
    several: bool = False
    """True if it is a list of results, from an inner loop."""
    loops: tuple[tuple[int, int, int], ...] = ()
    """The loops over displays around it: where they begin, where they stop, and how many items they have behind them."""

    def copy(self) -> State:
        """Return the same state, for another path."""
        return replace(self, stack=self.stack.copy(), variables=dict(self.variables))

    def drop(self, value: Any) -> None:
        """Note that a value was evaluated, and that the path goes on without it."""
        self.dropped = dropping(self.dropped, value)

    def objects(self) -> tuple[Expression, ...]:
        """Return the objects that its variables and its stack have."""
        there = [*self.variables.values(), *(self.stack.item(depth) for depth in range(1, self.stack.depth() + 1))]
        return tuple(
            expression_on(each) for each in there if isinstance(each, Expression) or getattr(each, "kind", "") == "list"
        )

    def place(self) -> tuple[int, ...]:
        """Return the place of the state in the order in which states are taken."""
        return (*(part for start, _, item in self.loops for part in (start, item)), self.number)

    def at(self, number: int) -> State:
        """Return the state at another operation: the next item of a loop that begins there, outside of those that end before."""
        inside = tuple(
            (start, stop, item + (start == number)) for start, stop, item in self.loops if start <= number < stop
        )
        return replace(self, number=number, loops=inside)


def labels_of(operations: Several[Operation]) -> frozenset[int]:
    """Return the operations that others jump to."""
    return frozenset(each.argument for each in operations if "JUMP" in each.name or each.name == "FOR_ITER")


class Agenda:
    """The states that are yet to be followed. ``meets``: those that come to one operation become one.

    What a path tests is evaluated on it, whether its result needs that or not: it may raise. States of a function that is
    called have the conditions of the one ``around`` it.
    """

    def __init__(self, steps: Steps, meets: bool = True, around: Agenda | None = None) -> None:
        self.conditions: PathConditions[Expression] = PathConditions() if around is None else around.conditions
        self._sharing: Sharing = Sharing() if around is None else around._sharing
        self._steps = steps
        self._meets = meets
        self._pending: dict[tuple[int, ...], list[State]] = {}

    def key(self, expression: Expression) -> int:
        """Return a number that equal expressions share."""
        return id(self._sharing.of(expression))

    def add(self, state: State, number: int) -> None:
        """Add a state that goes on at an operation."""
        if state.when is not NEVER:
            state = state.at(number)
            self._pending.setdefault(state.place(), []).append(state)

    def take(self) -> list[State]:
        """Return the states at the first operation, as few as possible; an empty list if there are none."""
        states = self._pending.pop(min(self._pending)) if self._pending else []
        return states if len(states) < 2 or not self._meets else self._met(states)

    def _met(self, states: list[State]) -> list[State]:
        with suppress(_Apart):
            return [self._meeting(states)]
        groups: list[list[State]] = []
        for state in states:
            for place, group in enumerate(groups):
                with suppress(_Apart):
                    self._meeting([*group, state])
                    groups[place] = [*group, state]
                    break
            else:
                groups.append([state])
        return [self._meeting(group) for group in groups]

    def _meeting(self, states: list[State]) -> State:
        return states[0] if len(states) == 1 else _Meeting(self.conditions, self._steps.own, states).state()

    def forked(self, state: State, test: Expression) -> tuple[State, State]:
        """Return the states where a test holds, and where it does not."""
        test = self._sharing.of(test)
        one, other = (
            replace(state.copy(), when=self.conditions.after(state.when, test, holds)) for holds in (True, False)
        )
        return one, other

    def branch(self, name: str, here: int, there: int, state: State) -> None:
        """Add the states behind a branch, each under its condition; one only, if the condition is known."""
        stack = state.stack
        value = stack.pop()
        condition = expression_on(value)
        jumping = stack
        if name.endswith("OR_POP"):
            jumping = stack.copy()
            jumping.push(value)
        if name.endswith("NONE"):
            condition = Invoke("is None", (condition,))
        known = known_truth(condition, self._steps.present)
        jumps_if = not ("FALSE" in name or "NOT_NONE" in name)
        if known is not None:
            jumps = known == jumps_if
            self.add(replace(state, stack=jumping if jumps else stack), there if jumps else here)
            return
        condition, inverted = bare(condition)  # 3.13 asks for the truth in an instruction of its own
        jumps_if ^= inverted
        test = self._sharing.of(condition)
        state.drop(test)
        holds, fails = self.forked(state, test)
        stays, jumps_there = (fails, holds) if jumps_if else (holds, fails)
        self.add(stays, here)
        self.add(replace(jumps_there, stack=jumping.copy()), there)


class _Meeting:
    """States at one operation, as one; raises ``_Apart`` if they cannot be."""

    def __init__(self, conditions: PathConditions[Expression], own: list[Expression], states: list[State]) -> None:
        self._conditions = conditions
        self._own = own
        self._states = states
        self._known: dict[tuple[int, ...], Any] = {}

    def state(self) -> State:
        """Return the state."""
        first, *others = self._states
        if any(each.given is not first.given or each.stack.depth() != first.stack.depth() for each in others):
            raise _Apart
        made: list[Expression] = []
        stack = first.stack.copy()
        for depth in range(1, stack.depth() + 1):
            stack.put(depth, self._joined([each.stack.item(depth) for each in self._states], made))
        names = [name for name in first.variables if all(name in each.variables for each in others)]
        variables = {name: self._joined([each.variables[name] for each in self._states], made) for name in names}
        self._own += made
        when = reduce(self._conditions.either, (each.when for each in self._states))
        return replace(first, stack=stack, variables=variables, dropped=self._dropped(), when=when)

    def _dropped(self) -> tuple[Expression, ...]:
        """Return the expressions that all have evaluated, and those that some have, under their conditions."""
        found = [each.dropped for each in self._states]
        both = 0
        while both < min(map(len, found)) and all(each[both] is found[0][both] for each in found):
            both += 1
        if all(len(each) == both for each in found):
            return found[0]
        alone = [Sequence(each[both:], Constant(None)) if each[both:] else Constant(None) for each in found]
        return (*found[0][:both], self._choice(alone))

    def _choice(self, values: Several[Any]) -> Any:
        paths = [(each.when, value) for each, value in zip(self._states, values, strict=True)]
        return self._conditions.choose(paths, _choose)

    def _joined(self, values: Several[Any], made: list[Expression]) -> Any:
        """Return the values of one variable as one; ``made`` gets records that the function alone has."""
        if all(each is values[0] for each in values):
            return values[0]
        key = tuple(map(id, values))
        if key not in self._known:  # two variables that have one record still have one
            self._known[key] = self._join(values, made)
        return self._known[key]

    def _join(self, values: Several[Any], made: list[Expression]) -> Any:
        first, *others = values
        if all(isinstance(each, Expression) for each in values):
            owned = [any(each is mine for mine in self._own) for each in values]
            if any(owned) and not all(owned):
                raise _Apart  # it may be changed on one path, and not on another
            found = self._choice(values)
            made += [found] * all(owned)
            return found
        if not all(isinstance(each, Marker) and each.kind == first.kind for each in values):
            raise _Apart
        if first.kind in _LISTS and all(len(each.value) == len(first.value) for each in others):
            columns = list(zip(*(each.value for each in values), strict=True))
            if any(isinstance(item, Unpacked) for column in columns for item in column):
                raise _Apart
            return Marker(first.kind, first.name, [self._joined(column, made) for column in columns])
        if first.kind == "iterator":
            return Marker(first.kind, first.name, self._joined([each.value for each in values], made))
        if any(
            type(each) is not type(first) or each.name != first.name or each.value is not first.value for each in others
        ):
            raise _Apart
        return first


def _choose(test: Expression, one: Any, other: Any) -> Expression:
    """Return a choice of two values; of two tuples, or two constants that are the same, as plain as it can be."""
    match one, other:
        case Make(items), Make(others) if len(items) == len(others):
            if not any(isinstance(each, Unpacked) for each in (*items, *others)):
                return Make(tuple(a if a is b else _choose(test, a, b) for a, b in zip(items, others, strict=True)))
        case Constant(value), Constant(same) if value is same:
            return one
    return Choose(test, one, other)


# ---- Records that a function changes, as it is read: ``record["total"] = 1``, ``del``, ``pop``, ``update`` and
# attributes.
#
# An expression never changes. What a function changes becomes another expression, for every variable that has it;
# who was given the record before keeps what it was, as with records one by one (``types/copying.py``). So a record
# is changed only if it is known who has it: it is the argument of the function, or was made in it, and is in no
# other record.


_MAKING = ("BUILD_MAP", "BUILD_CONST_KEY_MAP", "DICT_UPDATE", "CALL", "CALL_KW")
_COPYING = (".copy", ".as_dict", "._asdict")
_METHODS = ("pop", "update")


def is_made(operation: Operation, stack: Stack) -> Expression | None:
    """Return the record that an operation has just made and nobody else has; ``None`` if there is none."""
    top = stack.top() if operation.name in _MAKING else None
    if operation.name == "DICT_UPDATE":
        top = stack.item(operation.argument)
    made = top.result if isinstance(top, Sequence) else top
    return top if isinstance(made, MakeRecord) or (isinstance(made, Invoke) and made.name in _COPYING) else None


def changed(
    operation: Operation, state: State, own: list[Expression], given: Iterable[Expression] = ()
) -> Expression | None:
    """Change a record, if an operation does that; return the changed record, ``None`` for other operations.

    That it can be changed is part of what the function does, also if its result does not show the record: it is evaluated.
    ``own`` are the records that the function alone has, ``given`` what it has given to others since.
    """
    before = len(own)
    evaluated = _changed(operation, state, own)
    if evaluated is not None:
        made = own[before]
        assert isinstance(made, MakeRecord)
        last = made.items[-1]
        parts = _parts(last.record, own) if isinstance(last, Unpacked) else []
        seen: list[set[int]] = [
            set() for _ in parts
        ]  # what is known not to have them: results share most of their parts
        if any(_has(each, part, known) for each in given for part, known in zip(parts, seen, strict=True)):
            raise NotVectorizable("changes a record after it was emitted")
    return evaluated


_STORES = {"STORE_SUBSCR": CHANGED, "STORE_ATTR": SET, "DELETE_SUBSCR": WITHOUT}


def _changed(operation: Operation, state: State, own: list[Expression]) -> Expression | None:
    name, argument, stack = operation.name, operation.argument, state.stack
    form = _STORES.get(name)
    if form is not None and _is_own(stack.item(1 if form == SET else 2), own):
        field = argument if form == SET else _name(stack.pop())
        record = stack.pop()
        value = () if form == WITHOUT else (expression_on(stack.pop()),)
        made = MakeRecord(form, (field, None)[: 1 + len(value)], (*value, Unpacked(record)))
        _replace(record, made, state, own)
        return made
    if name not in ("CALL", "CALL_KW"):
        return None
    count = argument + (name == "CALL_KW")
    method, record = stack.item(count + 2), stack.item(count + 1)
    if not isinstance(method, Marker) or method.kind != "method" or method.name not in _METHODS:
        return None
    return _called(method.name, count, name == "CALL_KW", state, own) if _is_own(record, own) else None


def _called(method: str, count: int, named: bool, state: State, own: list[Expression]) -> Expression:
    stack = state.stack
    names = stack.keywords(named)
    given = [expression_on(stack.pop()) for _ in range(count - named)][::-1]
    record = stack.pop()
    stack.discard()
    if method == "update":
        unnamed = len(given) - len(names)
        if unnamed > 1 or not given:
            raise NotVectorizable(f"calls update() {'in another way' if given else 'with nothing'}")
        parts = (*map(Unpacked, given[:unnamed]), *given[unnamed:], Unpacked(record))
        made = MakeRecord(UPDATED, (*([None] * unnamed), *names, None), parts)
        result: Expression = Constant(None)
    else:
        if names or len(given) not in (1, 2):
            raise NotVectorizable("calls pop() in another way")
        key = _name(given[0])
        optional = len(given) == 2
        made = MakeRecord(WITHOUT, (key, None)[: len(given)], (Unpacked(record),) * len(given))
        result = Invoke(".get", (record, given[0], given[1])) if optional else GetItem(record, key)
    _replace(record, made, state, own)
    stack.push(result)
    return made


def _is_own(found: Any, own: list[Expression]) -> bool:
    return any(found is each for each in own)


def _name(key: Any) -> str:
    name = text_of(key)
    if name is None:
        raise NotVectorizable("changes an item that is no constant text")
    return name


def _replace(record: Expression, made: Expression, state: State, own: list[Expression]) -> None:
    """Put the changed record where the record was; raise ``NotVectorizable`` if something else has it, too."""
    own.append(made)
    parts: list[tuple[Expression, set[int]]] = [(part, set()) for part in _parts(record, own)]
    known: dict[int, Any] = {}

    def replaced(found: Any) -> Any:
        if found is record:
            return made
        if id(found) in known:
            return known[id(found)]
        if isinstance(found, Choose) and _is_own(found, own):  # it is the record on some paths
            one, other = replaced(found.then), replaced(found.otherwise)
            if one is not found.then or other is not found.otherwise:
                known[id(found)] = Choose(found.condition, one, other)
                own.append(known[id(found)])
                return own[-1]
        elif any(_has(found, part, seen) for part, seen in parts):
            raise NotVectorizable("changes a record that is in another")
        return found

    for name, found in state.variables.items():
        state.variables[name] = replaced(found)
    for depth in range(1, state.stack.depth() + 1):
        state.stack.put(depth, replaced(state.stack.item(depth)))


def _parts(record: Expression, own: list[Expression]) -> list[Expression]:
    """Return a record, and the records that it is one of, where paths have met that have changed it or not."""
    found = [record]
    for each in found:
        if isinstance(each, Choose):
            found += [part for part in (each.then, each.otherwise) if _is_own(part, own)]
    return found


def _has(found: Any, record: Expression, seen: set[int] | None = None) -> bool:
    """Return True if an object is a record, or has it at any depth; a field taken out of the record does not count."""
    if found is record:
        return True
    seen = set() if seen is None else seen
    if id(found) in seen:
        return False
    seen.add(id(found))
    if isinstance(found, Marker):
        values = found.value if isinstance(found.value, list | tuple) else [found.value]
        return any(_uses(each, record) for each in values if isinstance(each, Expression | Marker))
    holding: tuple[Any, ...] = ()
    match found:
        case Make(items) | Listed(items):
            holding = items
        case MakeRecord():
            holding = found.items
        case Choose(_, then, otherwise):
            holding = then, otherwise
        case Sequence(_, result) | Loop(result=result):
            holding = (result,)
    if any(each is record for each in holding):
        return True
    # What is computed of the record itself has a copy, a field, or nothing of it.
    inner = children(found) if isinstance(found, Expression) else []
    return any(each is not record and _has(each, record, seen) for each in inner)


def _uses(found: Any, record: Expression) -> bool:
    """Return True if an object that is evaluated later, or has items, uses a record in any way."""
    if found is record:
        return True
    if isinstance(found, Marker):
        return _has(found, record)
    return any(each is record for each in nodes_of(found))
