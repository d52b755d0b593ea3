"""The way through a function: its operations in order, with one state wherever paths meet.

A branch makes two states, each under the condition of its side. States that come to the same operation become one: their
conditions are joined, and each variable becomes a ``Choose`` of its values (``expr/paths.py``). So what follows an ``if`` is read
once, and the expressions grow with the length of the function, not with the number of paths through it. States that cannot be
one (a variable is a list of two items here, and of three there) stay apart, up to the limit of steps.

States are taken in the order of their operations, and within a loop over a display item by item: all that can come to an
operation has come when it is its turn.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any

from funken.columnar.bytecode import Operation, always_raises, ends_loops_twice
from funken.columnar.calling.markers import Marker, expression_on
from funken.columnar.calling.steps import Steps
from funken.columnar.expressions import (
    Choose,
    Constant,
    Expression,
    IsNone,
    Make,
    NotVectorizable,
    Raises,
    Sequence,
    Unary,
    Unpacked,
)
from funken.columnar.lists.carried import CarriedVariables
from funken.columnar.lists.comprehensions import DISPLAY, VariablesReader, dropping, items_displayed
from funken.columnar.lists.results import ResultOfItem
from funken.columnar.mutation.names import known_truth
from funken.columnar.stack import Stack
from funken.columnar.typed.sharing import Sharing
from funken.dataclass import dataclass
from funken.expr.paths import ALWAYS, NEVER, Condition, Conditions

_LISTS = ("list", DISPLAY)


class _Apart(Exception):
    """Two values of a variable cannot become one."""


@dataclass(frozen=True)
class State:
    """Where a path is, and what it has there."""

    number: int
    stack: Stack
    variables: dict[str, Any]
    dropped: tuple[Expression, ...] = ()
    when: Condition = ALWAYS
    given: ResultOfItem | None = None
    """What the body of a loop has given for the item."""
    loops: tuple[tuple[int, int, int], ...] = ()
    """The loops over displays around it: where they begin, where they stop, and how many items they have behind them."""

    def place(self) -> tuple[int, ...]:
        """Return the place of the state in the order in which states are taken."""
        return (*(part for start, _, item in self.loops for part in (start, item)), self.number)

    def at(self, number: int) -> State:
        """Return the state at another operation: the next item of a loop that begins there, outside of those that end before."""
        inside = tuple(
            (start, stop, item + (start == number)) for start, stop, item in self.loops if start <= number < stop
        )
        return replace(self, number=number, loops=inside)


class Walk:
    """Follows a function to its returns, or the body of the loop ``at`` to its end.

    ``carried`` are the variables that a loop, which is no comprehension, carries from one item to the next.
    """

    def __init__(self, reader: VariablesReader, at: int | None = None, carried: tuple[str, ...] | None = None) -> None:
        self._reader = reader
        self._operations: list[Operation] = reader._operations
        self._steps: Steps = reader._steps
        self._at = at
        self._carried = carried
        self._labels = {each.argument for each in self._operations if "JUMP" in each.name}
        self._labels |= {each.argument for each in self._operations if each.name == "FOR_ITER"}
        self._pending: dict[tuple[int, ...], list[State]] = {}
        self._results: list[tuple[Condition, Expression]] = []
        self._conditions = Conditions[Expression]()
        self._sharing = Sharing()

    def run(self, begin: State) -> Expression:
        """Return what the function gives: its results, chosen by the conditions of their paths."""
        self._pending[begin.place()] = [begin]
        while self._pending:
            states = self._pending.pop(min(self._pending))
            for state in states if len(states) == 1 else self._met(states):
                self._go(state)
        found: Expression = self._conditions.choose(self._results, Choose)
        return found

    def _add(self, state: State, number: int) -> None:
        if state.when is not NEVER:
            state = state.at(number)
            self._pending.setdefault(state.place(), []).append(state)

    def _end(self, state: State, result: Expression) -> None:
        self._results.append((state.when, result))

    # ---- where paths meet

    def _met(self, states: list[State]) -> list[State]:
        """Return states at one operation, as few as possible."""
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
        return states[0] if len(states) == 1 else Meeting(self._conditions, self._steps.own, states).state()

    # ---- from one place to the next

    def _go(self, state: State) -> None:
        number = state.number
        if self._reader.raises and self._at is None and always_raises(self._operations, number):
            self._end(state, Raises())
            return
        stack, variables, dropped, given = state.stack.copy(), dict(state.variables), state.dropped, state.given

        def now() -> State:
            return replace(state, stack=stack, variables=variables, dropped=dropped, given=given)

        first = True
        while True:
            if number == self._at:
                end: Expression = given or ResultOfItem(None)
                if self._carried is not None:
                    values = tuple(expression_on(variables[each]) for each in self._carried)
                    end = CarriedVariables(values, given)
                self._end(state, Sequence(dropped, end) if dropped else end)
                return
            if number in self._labels and not first:
                self._add(now(), number)
                return
            first = False
            self._steps.count()
            operation = self._operations[number]
            name, argument = operation.name, operation.argument
            number += 1
            if name == "RETURN_VALUE":
                if self._at is not None:
                    raise NotVectorizable("leaves a loop early")
                value = expression_on(stack.pop())
                self._end(state, Sequence(dropped, value) if dropped else value)
                return
            if name.startswith(("POP_JUMP", "JUMP_IF")):
                self._branch(name, number, argument, now())
                return
            if name == "JUMP" or (
                name == "JUMP_BACKWARD" and (argument == self._at or self._goes_over(argument, stack))
            ):
                number = argument
            elif name == "FOR_ITER":
                self._begin_loop(number - 1, argument, now())
                return
            elif name == "END_FOR":  # the loop has taken what it would
                number += ends_loops_twice()
            elif self._gives(operation, stack):
                given = self._given(operation, stack, given)
            elif name == "CALL" and argument == 0 and stack.peek(2, "function"):
                iterator, function = stack.pop(), stack.pop()
                stack.push(self._reader.comprehended(function.value, iterator, variables))
            elif name == "POP_TOP":
                dropped = dropping(dropped, stack.pop())
            else:
                dropped = self._reader._step(operation, stack, variables, dropped)

    def _gives(self, operation: Operation, stack: Stack) -> bool:
        """Return whether an operation of the body of a loop gives a result for the item."""
        if operation.name == "CALL" and operation.argument == 1 and stack.peek(2, "append"):
            return True
        return self._at is not None and (operation.name == "YIELD_VALUE" or _appends(operation, stack))

    def _given(self, operation: Operation, stack: Stack, given: ResultOfItem | None) -> ResultOfItem:
        """Return what an operation gives for the item, which has ``given`` something perhaps."""
        appends = operation.name == "CALL"
        if given is not None or (appends and self._carried is None):
            raise NotVectorizable("makes a list" if appends else "has a loop in a loop")
        value = expression_on(stack.pop())
        if operation.name == "MAP_ADD":
            value = Make((expression_on(stack.pop()), value))
        if appends:
            stack.pop()
            stack.pop()
        if appends or operation.name == "YIELD_VALUE":
            stack.push(Constant(None))
        return ResultOfItem(value)

    def _begin_loop(self, here: int, stop: int, state: State) -> None:
        """Begin a loop, or go on with the next item of a display."""
        reader, stack, variables, given, dropped = (
            self._reader,
            state.stack,
            state.variables,
            state.given,
            state.dropped,
        )
        iterator = stack.pop()
        if reader.is_comprehension(here):
            stack.pop()
            stack.push(reader.of_comprehension(here, reader.loop_over(here, iterator, variables)))
            self._add(state, stop)
            return
        in_comprehension = self._at is not None and self._carried is None
        shown = None if in_comprehension else items_displayed(iterator)
        if shown and not (isinstance(iterator, Marker) and iterator.kind == DISPLAY):
            for each in shown:  # all of them are evaluated before the loop, which may leave some out
                dropped = dropping(dropped, each)
        if shown:
            stack.push(Marker(DISPLAY, "an iterator", shown[1:]))
            stack.push(shown[0])
            inside = any(start == here for start, _, _ in state.loops)
            loops = state.loops if inside else (*state.loops, (here, stop, 0))
            self._add(replace(state, dropped=dropped, loops=loops), here + 1)
            return
        if shown is None and self._at is None:
            dropped = (*dropped, *reader.carry(here, stop, iterator, variables))
        elif shown is None:
            if given is not None or self._carried is not None:
                raise NotVectorizable("has a loop in a loop")
            loop = expression_on(reader.loop_over(here, iterator, variables, stack))
            given = ResultOfItem(loop, several=True)
        self._add(replace(state, dropped=dropped, given=given), stop)

    def _goes_over(self, there: int, stack: Stack) -> bool:
        """Whether a jump back is to the next item of a display."""
        return self._operations[there].name == "FOR_ITER" and stack.peek(1, DISPLAY)

    def _branch(self, name: str, here: int, there: int, state: State) -> None:
        """Go on both ways, each under its condition; one way, if the condition is known."""
        stack = state.stack
        value = stack.pop()
        if there != self._at and (there < here or "BACKWARD" in name) and not self._goes_over(there, stack):
            raise NotVectorizable("has a loop")
        condition = expression_on(value)
        if isinstance(condition, Unary) and condition.op == "bool":
            condition = condition.operand  # 3.13 asks for the truth in an instruction of its own
        jumping = stack
        if name.endswith("OR_POP"):
            jumping = stack.copy()
            jumping.push(value)
        is_none = name.endswith("NONE")
        known = known_truth(IsNone(condition) if is_none else condition)
        jumps_if = not ("FALSE" in name or "NOT_NONE" in name)
        if known is not None:
            jumps = known == jumps_if
            self._add(replace(state, stack=jumping if jumps else stack), there if jumps else here)
            return
        test = self._sharing.of(IsNone(condition) if is_none else condition)
        while isinstance(test, Unary) and test.op == "not":
            test, jumps_if = test.operand, not jumps_if
        for number, items, holds in ((there, jumping, jumps_if), (here, stack, not jumps_if)):
            when = self._conditions.after(state.when, test, holds)
            self._add(replace(state, stack=items.copy(), variables=dict(state.variables), when=when), number)


class Meeting:
    """States at one operation, as one; raises ``_Apart`` if they cannot be."""

    def __init__(self, conditions: Conditions[Expression], own: list[Expression], states: list[State]) -> None:
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
        """Return what all have evaluated, and what some have, under their conditions."""
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


def _appends(operation: Operation, stack: Stack) -> bool:
    depth = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2}.get(operation.name)
    return depth is not None and stack.peek(operation.argument + depth, "comprehension")


__all__ = ["State", "Walk"]
