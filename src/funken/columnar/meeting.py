"""States on the paths through a function, and where paths meet: one state again.

A branch makes two states, each under the condition of its side. States that come to the same operation become one: their
conditions are joined, and each variable becomes a ``Choose`` of its values (``expr/paths.py``). States that cannot be one stay
apart: a variable is a list of two items here, and of three there.

States are taken in the order of their operations, and within a loop over a display item by item: all that can come to an
operation has come when it is its turn.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any

from funken.columnar.bytecode import Operation
from funken.columnar.calling.markers import DISPLAY, Marker, dropping, expression_on
from funken.columnar.calling.steps import Steps
from funken.columnar.expressions import Choose, Constant, Expression, IsNone, Make, Sequence, Unary, Unpacked
from funken.columnar.lists.results import ResultOfItem
from funken.columnar.mutation.names import known_truth
from funken.columnar.stack import Stack
from funken.columnar.typed.sharing import Sharing
from funken.dataclass import dataclass
from funken.expr.paths import ALWAYS, NEVER, PathCondition, PathConditions

_LISTS = ("list", DISPLAY)


class _Apart(Exception):
    """Two values of a variable cannot become one."""


@dataclass
class State:
    """Where a path is, and what it has there; it changes as the path is followed."""

    number: int
    stack: Stack
    variables: dict[str, Any]
    dropped: tuple[Expression, ...] = ()
    when: PathCondition = ALWAYS
    given: ResultOfItem | None = None
    """What the body of a loop has given for the item."""
    loops: tuple[tuple[int, int, int], ...] = ()
    """The loops over displays around it: where they begin, where they stop, and how many items they have behind them."""

    def copy(self) -> State:
        """Return the same state, for another path."""
        return replace(self, stack=self.stack.copy(), variables=dict(self.variables))

    def drop(self, value: Any) -> None:
        """Note that a value was evaluated, and that the path goes on without it."""
        self.dropped = dropping(self.dropped, value)

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
        if isinstance(condition, Unary) and condition.op == "bool":
            condition = condition.operand  # 3.13 asks for the truth in an instruction of its own
        jumping = stack
        if name.endswith("OR_POP"):
            jumping = stack.copy()
            jumping.push(value)
        if name.endswith("NONE"):
            condition = IsNone(condition)
        known = known_truth(condition, self._steps.present)
        jumps_if = not ("FALSE" in name or "NOT_NONE" in name)
        if known is not None:
            jumps = known == jumps_if
            self.add(replace(state, stack=jumping if jumps else stack), there if jumps else here)
            return
        test = self._sharing.of(condition)
        while isinstance(test, Unary) and test.op == "not":
            test, jumps_if = test.operand, not jumps_if
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


__all__ = ["Agenda", "State", "labels_of"]
