"""What an event does to a partial match, as decision trees: one per state, grown branch by branch as events ask for it.

A ``Branch`` names a condition and has one child for each result; a leaf is a tuple of ``Action``s, ``KEEP`` or ``DROP``. A path
asks for the conditions that following the automaton's edges asks for, in the same order, and for each of them once. So a
condition is evaluated only where the state of the match asks for it, and never twice.

Simple conditions that can be read are evaluated before, for a block of events: a bit mask per event (``masks``). Where a path
asks for these alone, its leaf is kept in ``tables`` by mask, and the next event with that mask is one lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from funken.cep.compiler import Automaton, State
from funken.cep.conditions import Test
from funken.sdk import BlockPredicates

FINAL = -1
"""The target of an action that only completes the match."""


class Action(NamedTuple):
    """The pattern that takes the event (``None``: it is skipped), the next state, and whether the match is complete."""

    name: str | None
    target: int
    complete: bool


KEEP: tuple[Action, ...] = (Action(None, -2, False),)
"""The partial match stays as it is."""

DROP: tuple[Action, ...] = ()
"""The partial match is gone; for the start state: the event begins no match."""

Leaf = tuple[Action, ...]


class Branch:
    """A condition, and what comes next where it does not hold and where it does; ``None``: not known yet."""

    __slots__ = ("bit", "function", "high", "iterative", "known", "low", "slot", "started", "state")

    def __init__(self, state: State, started: bool, test: Test, slot: int, bit: int, known: dict[Test, bool]) -> None:
        self.state = state
        self.started = started
        self.function: Callable[..., Any] = test.function
        self.iterative = test.iterative
        #: where the result of a simple condition is noted for an event
        self.slot = slot
        #: its bit in the mask of an event; 0 if it is not evaluated for a block
        self.bit = bit
        #: the conditions above this one, and this one
        self.known: dict[Test, bool] = {**known, test: False}
        self.low: Branch | Leaf | None = None
        self.high: Branch | Leaf | None = None


class _Unknown(Exception):
    """The result of a condition is needed."""

    def __init__(self, test: Test) -> None:
        self.test = test


class _Known:
    """What is assumed of conditions; to be evaluated as if it were an event."""

    def __init__(self, results: dict[Test, bool]) -> None:
        self.results = results

    def holds(self, test: Test) -> bool:
        """Return the result of a condition."""
        if test not in self.results:
            raise _Unknown(test)
        return self.results[test]


class Decisions:
    """The trees of an automaton."""

    def __init__(self, automaton: Automaton) -> None:
        self._slots: dict[Test, int] = {}
        simple = list(dict.fromkeys(test for test in _tests(automaton) if not test.iterative))
        predicates = BlockPredicates([test.function for test in simple])
        self._bits = dict(zip(simple, predicates.bits, strict=True))
        #: the bits of the conditions that are evaluated for a block
        self.known = predicates.known
        #: the mask of each event of a list; ``None`` if they are not known
        self.masks: Callable[[list[Any]], list[int] | None] = predicates.masks
        #: for each state, the leaves by mask
        self.tables: list[dict[int | None, Leaf]] = [{} for _ in automaton.states]
        #: the leaves of the start by mask
        self.starts: dict[int | None, Leaf] = {}
        #: for each state, what an event does to a partial match in it
        self.roots = [self._node(state, {}, started=True) for state in automaton.states]
        #: what an event does as the first of a match
        self.start = self._node(automaton.start, {}, started=False)

    def grow(self, branch: Branch, result: bool) -> Branch | Leaf:
        """Return the child of a branch, which is missing."""
        known = dict(branch.known)
        known[next(reversed(known))] = result
        child = self._node(branch.state, known, branch.started)
        if result:
            branch.high = child
        else:
            branch.low = child
        return child

    def _node(self, state: State, known: dict[Test, bool], started: bool) -> Branch | Leaf:
        try:
            return _outcome(state, _Known(known), started)
        except _Unknown as needed:
            slot = self._slots.setdefault(needed.test, len(self._slots))
            return Branch(state, started, needed.test, slot, self._bits.get(needed.test, 0), known)


def _tests(automaton: Automaton) -> Iterator[Test]:
    for state in automaton.states:
        for edge in (*state.takes, *state.ignores, *state.proceeds):
            yield from edge.condition.tests()


def _outcome(state: State, view: Any, started: bool) -> Leaf:
    """Follow the edges that are open; reaching stop discards all that came of them."""
    found: list[Action] = []
    taken: set[tuple[str, int]] = set()  # two ways to take the event by one pattern into one state are one match
    stack, seen = [state], {state.index}
    while stack:
        at = stack.pop()
        for edge in at.takes:
            if (at.name, edge.target.index) not in taken and edge.condition.evaluate(view):
                taken.add((at.name, edge.target.index))
                final = edge.target.kind == "final"
                found.append(Action(at.name, FINAL if final else edge.target.index, _reaches_final(edge.target, view)))
        if started:
            for edge in at.ignores:
                if edge.condition.evaluate(view):
                    final = edge.target.kind == "final"
                    found.append(Action(None, FINAL if final else edge.target.index, final))
        for edge in at.proceeds:
            target = edge.target
            if target.index not in seen and edge.condition.evaluate(view):
                if target.kind == "stop":
                    return DROP
                seen.add(target.index)
                stack.append(target)
    if not found:
        return DROP
    return KEEP if found == [Action(None, state.index, False)] else tuple(found)


def _reaches_final(state: State, view: Any) -> bool:
    """Return whether a match in this state is complete without a further event."""
    stack, seen = [state], {state.index}
    while stack:
        at = stack.pop()
        if at.kind == "final":
            return True
        for edge in at.proceeds:
            if edge.target.index not in seen and edge.condition.evaluate(view):
                seen.add(edge.target.index)
                stack.append(edge.target)
    return False
