"""Running an automaton: from the state of a key and an event to its next state and the matches.

``NfaState`` is immutable; if an event changes nothing, the same object is returned, and nothing need be written. The
start state is not part of it: every event may begin a match. Partial matches are in the order of their first events.
Positions number the events that are kept; an event that leaves no trace does not use one up.

The effect of an event on a partial match depends on its state and on the results of some conditions. ``Decisions``
keeps that as a tree per state, so a step is one evaluation per condition that matters, and a lookup. Events of a block have
masks with the results of simple conditions; where they decide, a step is a lookup alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from funken.cep.pattern import (
    ALWAYS,
    Condition,
    ConditionContext,
    Contiguity,
    Event,
    Node,
    Not,
    OpenedConditions,
    Packed,
    Part,
    Pattern,
    SkipKind,
    Test,
    both,
    pack,
    unpack,
)
from funken.errors import CheckpointIncompatible
from funken.ids import MAX_WATERMARK
from funken.sdk import BlockPredicates, check_kind, immutable
from funken.types.callables import T

# ---- From a pattern to its automaton: one state per occurrence of a pattern, and edges TAKE, IGNORE and PROCEED.
#
# The sequence is compiled from its first part; ``after`` compiles what follows, given the conditions of the
# ``not_followed_by`` parts that are still in force there. A part that takes an event ends those before it, so what
# follows is compiled once for each set of them that can reach it.
#
# Decisions where no document of Flink's is exact:
#
# * An event that is ignored before a repeated group's head decides that another round follows: the head has a copy
#   without the way out, so no match is emitted twice.
# * ``not_followed_by`` behind a loop is in force from the loop's first event on, in every state of the loop.
# * The duration of a quantifier bounds the wait for its first event and for each one that it needs, not for optional ones.
# * A loop before a terminal ``not_followed_by``: every length that the loop may have is a match.


@dataclass(eq=False)
class Edge:
    """A way to another state, open where the condition holds."""

    condition: Condition
    target: State


@dataclass(eq=False)
class State:
    """A state of the automaton of a pattern, with the edges that leave it."""

    index: int
    label: str
    name: str = ""
    kind: str = "normal"  # or "final", "stop", "pending"
    takes: list[Edge] = field(default_factory=list)
    ignores: list[Edge] = field(default_factory=list)
    proceeds: list[Edge] = field(default_factory=list)
    window: int = 0

    def take(self, condition: Condition, target: State) -> None:
        """Consume an event."""
        self.takes.append(Edge(condition, target))

    def ignore(self, condition: Condition, target: State) -> None:
        """Skip an event."""
        self.ignores.append(Edge(condition, target))

    def proceed(self, target: State, condition: Condition = ALWAYS) -> None:
        """Let the target handle the same event."""
        self.proceeds.append(Edge(condition, target))


@dataclass(frozen=True)
class Automaton:
    """The states of a pattern; the first events of all matches are tried in ``start``."""

    pattern: Pattern
    states: list[State]
    start: State
    window: int

    def explain(self) -> str:
        """Return the states and edges as text.

        >>> print(compile_pattern(Pattern.begin("a").followed_by("b")).explain())
        2 a (start)
            take -> 1 b
        1 b
            take -> 0 final
            ignore if not true -> 1 b
        0 final
        """
        lines = []
        for state in reversed(self.states):
            notes = [state.kind] if state.kind in {"stop", "pending"} else []
            notes += ["start"] if state is self.start else []
            notes += [f"within {state.window} ms of the event before"] if state.window else []
            lines.append(f"{state.index} {state.label}" + (f" ({', '.join(notes)})" if notes else ""))
            for action, edges in (("take", state.takes), ("ignore", state.ignores), ("proceed", state.proceeds)):
                for edge in edges:
                    when = "" if edge.condition == ALWAYS else f" if {edge.condition}"
                    lines.append(f"    {action}{when} -> {edge.target.index} {edge.target.label}")
        return "\n".join(lines)

    def dot(self) -> str:
        """Return the states and edges in the language of Graphviz, which draws them: ``dot -Tsvg``.

        >>> print(compile_pattern(Pattern.begin("a").followed_by("b")).dot())
        digraph pattern {
            rankdir=LR
            2 [label="a", style=bold]
            1 [label="b"]
            0 [label="final", shape=doublecircle]
            2 -> 1 [label="take"]
            1 -> 0 [label="take"]
            1 -> 1 [label="ignore if not true", style=dotted]
        }
        """
        lines = ["digraph pattern {", "    rankdir=LR"]
        for state in reversed(self.states):
            marks = ", style=bold" if state is self.start else ""
            marks += {"final": ", shape=doublecircle", "stop": ", shape=octagon", "pending": ", peripheries=2"}.get(
                state.kind, ""
            )
            lines.append(f"    {state.index} [label={_quoted(state.label)}{marks}]")
        for state in reversed(self.states):
            for action, edges, style in (
                ("take", state.takes, ""),
                ("ignore", state.ignores, ", style=dotted"),
                ("proceed", state.proceeds, ", style=dashed"),
            ):
                for edge in edges:
                    when = "" if edge.condition == ALWAYS else f" if {edge.condition}"
                    lines.append(f"    {state.index} -> {edge.target.index} [label={_quoted(action + when)}{style}]")
        return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


Nots = tuple[Part, ...]
After = Callable[[Nots], State]


@dataclass(frozen=True)
class _Place:
    """The surroundings of a part: contiguity, NOTs in force, ways past it, and the ``until`` of the groups around."""

    contiguity: Contiguity
    nots: Nots
    exits: tuple[Edge, ...] = ()
    untils: tuple[Condition, ...] = ()


def compile_pattern(pattern: Pattern) -> Automaton:
    """Return the automaton of a pattern; raise ``MalformedPattern`` if it contradicts itself."""
    pattern.validate()
    compiler = _Compiler()
    final = compiler.state("final", kind="final")
    pending = pattern.parts[-1].contiguity is Contiguity.NOT_FOLLOW

    def after(nots: Nots) -> State:
        return compiler.pending(nots) if pending else final

    start = compiler.sequence(pattern.parts, 0, _Place(Contiguity.STRICT, ()), after)
    compiler.fill_copies()
    compiler.mark_pending()
    return Automaton(pattern, _reachable(start), start, pattern.window)


def _reachable(start: State) -> list[State]:
    """Return the states that are in use, the last first, and number them."""
    found, stack = {start.index: start}, [start]
    while stack:
        state = stack.pop()
        for edge in (*state.takes, *state.ignores, *state.proceeds):
            if edge.target.index not in found:
                found[edge.target.index] = edge.target
                stack.append(edge.target)
    states = [found[index] for index in sorted(found)]
    for index, state in enumerate(states):
        state.index = index
    return states


class _Compiler:
    def __init__(self) -> None:
        self.states: list[State] = []
        self.stop: State | None = None
        self.copies: list[tuple[State, State, Condition]] = []

    def state(self, label: str, name: str = "", kind: str = "normal", window: int = 0) -> State:
        found = State(len(self.states), label, name, kind, window=window)
        self.states.append(found)
        return found

    def stops(self, state: State, nots: Nots) -> None:
        for part in nots:
            if self.stop is None:
                self.stop = self.state("stop", kind="stop")
            state.proceed(self.stop, part.test)

    def pending(self, nots: Nots) -> State:
        """Return the state in which a match waits for the end of the window of its NOTs."""
        gaps = [part.gap for part in nots if part.gap]
        pending = self.state(nots[-1].name, kind="pending", window=min(gaps, default=0))
        self.stops(pending, nots)
        pending.ignore(_unless(ALWAYS, tuple(part.test for part in nots)), pending)
        return pending

    def mark_pending(self) -> None:
        """A loop whose state may proceed to a pending one is complete too when it times out."""
        changed = True
        while changed:
            changed = False
            for state in self.states:
                takes = state.kind == "normal" and state.name  # a ``not_next`` needs an event
                if takes and any(edge.target.kind == "pending" for edge in state.proceeds):
                    state.kind, changed = "pending", True

    def sequence(self, parts: tuple[Part, ...], index: int, place: _Place, after: After) -> State:
        """Compile the parts from ``index`` on; ``place`` is where the first of them is entered."""
        if index == len(parts):
            return after(place.nots)
        part = parts[index]
        if part.contiguity.negative and place.untils:  # an event that ends the loop is what follows the loop's
            part = replace(part, condition=_unless(part.test, place.untils))
        if part.contiguity is Contiguity.NOT_FOLLOW:
            return self.sequence(
                parts, index + 1, _Place(place.contiguity, (*place.nots, part), (), place.untils), after
            )

        @cache
        def following(nots: Nots) -> State:
            return self.sequence(parts, index + 1, _Place(Contiguity.STRICT, nots, (), place.untils), after)

        if index:
            place = _Place(part.contiguity, place.nots, place.exits, place.untils)
        if part.contiguity is Contiguity.NOT_NEXT:
            return self.not_next(part, place, following(place.nots))
        return self.quantified(part, place, following, _nots_after(parts, index))

    def not_next(self, part: Part, place: _Place, target: State) -> State:
        state = self.state(part.name, window=part.gap)
        self.stops(state, (*place.nots, part))
        allowed = Not(part.test)
        if target.kind == "final":
            state.ignore(allowed, target)
        else:
            state.proceed(target, allowed)
        return state

    def quantified(self, part: Part, place: _Place, following: After, behind: Nots) -> State:
        """Compile a part with its quantifier: the loop if any, then its copies from the last to the first."""

        @cache
        def ways_past(nots: Nots) -> tuple[Edge, ...]:
            target = following(nots)
            if not part.greedy or part.minimum == part.maximum:
                return (Edge(ALWAYS, target),)
            # Until the loop has ended, what follows must not touch an event that the loop would take.
            if part.until is None:
                return (Edge(ALWAYS, self.guarded(target, Not(part.test))),)
            takeable = both(part.test, Not(part.until))
            return Edge(part.until, target), Edge(Not(part.until), self.guarded(target, Not(takeable)))

        past = ways_past(())
        inner = _Place(part.inner, behind, (), place.untils)
        optional_inner = _Place(part.inner, behind, past, place.untils)
        target = self.loop(part, optional_inner) if part.loop else past[-1].target
        # An optional event is not bounded: the match without it would time out too.
        for copy in range(part.maximum or part.minimum, 1, -1):
            if copy > part.minimum:
                target = self.round(part, optional_inner, target, 0, first=False)
            else:
                target = self.round(part, inner, target, part.inner_window, first=False)
        window = part.inner_window or part.gap
        exits = place.exits + (ways_past(place.nots) if part.optional else ())
        return self.round(part, _Place(place.contiguity, place.nots, exits, place.untils), target, window, first=True)

    def round(self, part: Part, place: _Place, target: State, window: int, first: bool) -> State:
        """Compile one occurrence of a part: it takes an event (or its group a sequence) and goes to the target."""
        if part.group:
            untils = place.untils + ((part.until,) if part.until is not None else ())
            group = _Place(place.contiguity, place.nots, place.exits, untils)
            return self.sequence(part.group, 0, group, lambda nots: target)
        own = () if part.until is None else (part.until,)
        take = _unless(part.test, place.untils + own)
        ignore = _ignored(part, place.contiguity, place.untils + (() if first else own))
        state = self.state(part.name, part.name, window=window)
        state.take(take, target)
        state.proceeds += place.exits
        if ignore is not None:
            stay = state
            if place.exits:  # whether to skip the part is decided once, at the first event
                stay = self.state(f"{part.name} (required)", part.name)
                stay.take(take, target)
                self.stops(stay, place.nots)
                stay.ignore(ignore, stay)
            state.ignore(ignore, stay)
        self.stops(state, place.nots)
        return state

    def loop(self, part: Part, place: _Place) -> State:
        """Compile the state in which a loop takes further events."""
        if part.group:
            between = self.state(f"{part.name} again")
            between.proceed(self.round(part, place, between, 0, first=False))
            return between
        own = () if part.until is None else (part.until,)
        take = _unless(part.test, place.untils + own)
        ignore = _ignored(part, place.contiguity, place.untils + own)
        state = self.state(f"{part.name} (loop)", part.name)
        state.take(take, state)
        state.proceeds += place.exits
        if ignore is not None:
            stay = self.state(f"{part.name} (loop, required)", part.name)
            stay.take(take, state)
            stay.ignore(ignore, stay)
            self.stops(stay, place.nots)
            state.ignore(ignore, stay)
        self.stops(state, place.nots)
        return state

    def guarded(self, state: State, condition: Condition) -> State:
        """Return a copy of a state whose edges are open only where the condition holds too."""
        if state.kind == "final":
            return state
        copy = self.state(f"{state.label} (guarded)", state.name, state.kind, state.window)
        self.copies.append((copy, state, condition))  # the state may yet get edges: the way back in a loop of a group
        return copy

    def fill_copies(self) -> None:
        """Give guarded copies the edges of their states, which have all of theirs now."""
        for copy, state, condition in self.copies:
            for own, edges in (
                (copy.takes, state.takes),
                (copy.ignores, state.ignores),
                (copy.proceeds, state.proceeds),
            ):
                own += [Edge(both(e.condition, condition), copy if e.target is state else e.target) for e in edges]


def _nots_after(parts: tuple[Part, ...], index: int) -> Nots:
    """Return the ``not_followed_by`` parts right behind a part."""
    found = []
    for part in parts[index + 1 :]:
        if part.contiguity is not Contiguity.NOT_FOLLOW:
            break
        found.append(part)
    return tuple(found)


def _unless(condition: Condition, untils: tuple[Condition, ...]) -> Condition:
    for each in untils:
        condition = both(condition, Not(each))
    return condition


def _ignored(part: Part, contiguity: Contiguity, untils: tuple[Condition, ...]) -> Condition | None:
    """Return a condition on events that may be skipped before the part takes one; ``None``: none."""
    if contiguity is Contiguity.STRICT:
        return None
    return _unless(ALWAYS if contiguity is Contiguity.ANY else Not(part.test), untils)


# ---- What an event does to a partial match, as decision trees: one per state, grown branch by branch as events ask
# for it.
#
# A ``Branch`` names a condition and has one child for each result; a leaf is a tuple of ``Action``s, ``KEEP`` or
# ``DROP``. A path asks for the conditions that following the automaton's edges asks for, in the same order, and for
# each of them once. So a condition is evaluated only where the state of the match asks for it, and never twice.
#
# Simple conditions that can be read are evaluated before, for a block of events: a bit mask per event (``masks``).
# Where a path asks for these alone, its leaf is kept in ``tables`` by mask, and the next event with that mask is
# one lookup.


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
    """A condition, and the branches where it does not hold and where it does; ``None``: not known yet."""

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
    """Assumed results of conditions; to be evaluated as if it were an event."""

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
    """Return True if a match in this state is complete without a further event."""
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


Match: TypeAlias = dict[str, list[T]]
NEVER: int = MAX_WATERMARK + 1
_MOST_LEAVES = 4096
"""Number of masks of a state that are looked up."""


class Partial:
    """A match that is not complete: the state it waits in, its last node and its first event."""

    __slots__ = ("first", "state", "tail")

    def __init__(self, state: int, tail: Node, first: Event) -> None:
        self.state = state
        self.tail = tail
        self.first = first


@immutable
class NfaState:
    """The state of one key: partial matches, and finished ones that a skip strategy holds back."""

    __slots__ = ("deadline", "finished", "next_position", "partials", "shape")

    def __init__(
        self, shape: int, next_position: int, partials: tuple[Partial, ...], finished: tuple[Node, ...]
    ) -> None:
        self.shape = shape
        self.next_position = next_position
        self.partials = partials
        self.finished = finished
        #: when the next partial match times out, ``NEVER`` if none does; ``None``: not known yet
        self.deadline: int | None = None

    @property
    def empty(self) -> bool:
        """True if only the start state is left, so that nothing need be kept."""
        return not self.partials and not self.finished

    def __reduce__(self) -> tuple[Any, ...]:
        table, tails = pack([*(each.tail for each in self.partials), *self.finished])
        return _restored, (self.shape, self.next_position, table, [each.state for each in self.partials], tails)


def _restored(shape: int, next_position: int, table: Packed, states: list[int], tails: list[int]) -> NfaState:
    nodes = unpack(table)
    firsts: list[Event] = []
    for node, (previous, _, _) in zip(nodes, table[2], strict=True):
        firsts.append(node.event if previous < 0 else firsts[previous])
    count = len(states)
    partials = tuple(Partial(s, nodes[at], firsts[at]) for s, at in zip(states, tails[:count], strict=True))
    return NfaState(shape, next_position, partials, tuple(nodes[at] for at in tails[count:]))


class Nfa:
    """An automaton, ready to run; it keeps none of its arguments from one call to the next."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.skip = automaton.pattern.skip
        self.names = automaton.pattern.names()
        self.window = automaton.window
        self.gaps = [state.window for state in automaton.states]
        self.any_gap = any(self.gaps)
        self.windowed = bool(self.window) or self.any_gap
        self._context = ConditionContext.of([each.name for part in automaton.pattern.parts for each in part.named()])
        self.decisions = Decisions(automaton)
        self._roots, self._tables, self.starts = self.decisions.roots, self.decisions.tables, self.decisions.starts
        self.known, self.masks = self.decisions.known, self.decisions.masks
        shape = [
            (s.label, s.kind, [[edge.target.index for edge in edges] for edges in (s.takes, s.ignores, s.proceeds)])
            for s in automaton.states
        ]
        self.shape = zlib.crc32(repr(shape).encode())
        self.initial = NfaState(self.shape, 0, (), ())
        self.initial.deadline = NEVER

    def process(
        self, state: NfaState, value: Any, timestamp: int, now: int, mask: int | None = None
    ) -> tuple[NfaState, list[Match]]:
        """Handle an event; time was advanced to its timestamp before. ``mask`` is the event's, if it is known."""
        if state.shape != self.shape:
            self._check(state)
        tables, begun = self._tables, self.starts.get(mask)
        if begun is DROP:
            leaf: Leaf | None = KEEP
            for partial in state.partials:
                leaf = tables[partial.state].get(mask)
                if leaf is not KEEP:
                    break
            if leaf is KEEP:
                return state, []
            if leaf is DROP and len(state.partials) == 1 and not state.finished:
                return self.initial, []
        event = Event(state.next_position, timestamp, value)
        results: dict[int, bool] = {}
        left: list[Partial] = []
        finished: list[Node] = []
        roots, changed = self._roots, False
        try:
            # Hot: once per partial match and event.
            for partial in state.partials:
                leaf = tables[partial.state].get(mask)
                if leaf is None:
                    root, table = roots[partial.state], tables[partial.state]
                    leaf = self._decide(root, table, value, partial.tail, timestamp, now, results, mask)
                if leaf is KEEP:
                    left.append(partial)
                    continue
                changed = True
                for name, target, complete in leaf:
                    if name is not None:
                        tail = Node(partial.tail, name, event)
                        if target != FINAL:
                            left.append(Partial(target, tail, partial.first))
                        if complete:
                            finished.append(tail)
                    elif complete:
                        finished.append(partial.tail)
                    else:
                        left.append(
                            partial if target == partial.state else Partial(target, partial.tail, partial.first)
                        )
            if begun is None:
                begun = self._start(value, timestamp, now, results, mask)
        except Exception as error:
            note(error, value)
            raise
        if begun is DROP and not changed:
            return state, []
        self._begin(begun, event, left, finished)
        return self._settle(state, left, finished)

    def gate(self) -> Branch | None:
        """Return the simple condition without which an event begins no match; ``None`` if there is no such condition."""
        first = self.decisions.start
        if not isinstance(first, Branch) or first.iterative:
            return None
        if first.low is None:
            self.decisions.grow(first, False)
        return first if first.low is DROP else None

    def begin(
        self, value: Any, timestamp: int, now: int, passed: Branch | None = None, mask: int | None = None
    ) -> tuple[NfaState, list[Match]] | None:
        """Handle an event where there is no partial match: ``process`` of ``initial``; ``None`` if it begins no match.

        ``passed`` is the gate, if it is known that the event passes it.
        """
        begun = self.starts.get(mask)
        if begun is None:
            try:
                begun = self._start(value, timestamp, now, {} if passed is None else {passed.slot: True}, mask)
            except Exception as error:
                note(error, value)
                raise
        if begun is DROP:
            return None
        left: list[Partial] = []
        finished: list[Node] = []
        self._begin(begun, Event(0, timestamp, value), left, finished)
        return self._settle(self.initial, left, finished)

    def _begin(self, actions: Any, event: Event, left: list[Partial], finished: list[Node]) -> None:
        for name, target, complete in actions:
            tail = Node(None, name, event)
            if target != FINAL:
                left.append(Partial(target, tail, event))
            if complete:
                finished.append(tail)

    def _start(self, value: Any, timestamp: int, now: int, results: dict[int, bool], mask: int | None) -> Leaf:
        """Return the effect of an event as the first of a match."""
        return self._decide(self.decisions.start, self.starts, value, None, timestamp, now, results, mask)

    def _decide(
        self, root: Branch | Leaf, table: dict[int | None, Leaf], value: Any, tail: Node | None, timestamp: int, now: int,
        results: dict[int, bool], mask: int | None,
    ) -> Leaf:  # fmt: skip
        """Go down a tree to its leaf, and let it grow where it ends; keep a leaf that the mask alone leads to."""
        at: Any = root
        known, by_mask = (0, False) if mask is None else (self.known, len(table) < _MOST_LEAVES)
        while type(at) is Branch:
            if at.bit & known:
                result = mask & at.bit != 0  # type: ignore[operator]  # nothing is known without a mask
            else:
                by_mask = False
                if at.iterative:
                    result = bool(at.function(value, self._context(tail, timestamp, now)))
                elif at.slot in results:
                    result = results[at.slot]
                else:
                    result = results[at.slot] = bool(at.function(value))
            child = at.high if result else at.low
            at = self.decisions.grow(at, result) if child is None else child
        if by_mask:
            table[mask] = at
        leaf: Leaf = at
        return leaf

    def advance(self, state: NfaState, timestamp: int) -> tuple[NfaState, list[Match], list[tuple[Match, int]]]:
        """Let time reach ``timestamp``; return the matches that this completes, and the time-outs with their times."""
        if state.shape != self.shape:
            self._check(state)
        if not self.windowed or self.deadline(state) > timestamp:
            return state, [], []
        partials: list[Partial] = []
        finished: list[Node] = []
        timed_out: list[tuple[int, Partial]] = []
        for partial in state.partials:
            deadline = self._deadline(partial)
            if deadline > timestamp:
                partials.append(partial)
            elif self.automaton.states[partial.state].kind == "pending":
                finished.append(partial.tail)
            else:
                timed_out.append((deadline, partial))
        timed_out.sort(key=lambda each: each[0])
        expired = [(self._match(partial.tail.path()), deadline) for deadline, partial in timed_out]
        state, matches = self._settle(state, partials, finished)
        return state, matches, expired

    def deadline(self, state: NfaState) -> int:
        """Return the time-out of the next partial match; ``NEVER`` if none has one."""
        found = state.deadline
        if found is None:
            partials = state.partials
            if not self.windowed or not partials:
                found = NEVER
            elif self.any_gap:
                found = min(map(self._deadline, partials))
            else:
                found = partials[0].first.timestamp + self.window  # they are in the order of their first events
            state.deadline = found
        return found

    def _deadline(self, partial: Partial) -> int:
        deadline = partial.first.timestamp + self.window if self.window else NEVER
        gap = self.gaps[partial.state]
        return min(deadline, partial.tail.event.timestamp + gap) if gap else deadline

    def _check(self, state: NfaState) -> None:
        if state.shape != self.shape:
            raise CheckpointIncompatible(
                "The state of a pattern was written by another pattern. Give the changed pattern's operator another "
                "uid, so that it starts without partial matches."
            )

    def _settle(self, state: NfaState, partials: list[Partial], finished: list[Node]) -> tuple[NfaState, list[Match]]:
        """Emit finished matches as the skip strategy allows, and return the state that is left."""
        if not finished and not state.finished:
            if not partials:
                return self.initial, []
            return NfaState(self.shape, state.next_position + 1, tuple(partials), ()), []
        matches = []
        if self.skip.kind is SkipKind.NONE:
            paths = [node.path() for node in finished]
            if len(paths) > 1:
                paths.sort(key=_positions)
            matches = [self._match(path) for path in paths]
            waiting: list[list[Node]] = []
        else:
            waiting = sorted((node.path() for node in (*state.finished, *finished)), key=_positions)
            while waiting and (not partials or waiting[0][0].event.position <= partials[0].first.position):
                path = waiting.pop(self._choose(waiting))
                matches.append(self._match(path))
                start = self.skip.start_of_search(path)
                if start is not None:
                    partials = [each for each in partials if each.first.position >= start]
                    waiting = [each for each in waiting if each[0].event.position >= start]
        left = NfaState(self.shape, state.next_position + 1, tuple(partials), tuple(path[-1] for path in waiting))
        return (self.initial if left.empty else left), matches

    def _choose(self, waiting: list[list[Node]]) -> int:
        """Return the index of the match to emit: the smallest positions first. Flink leaves this order undefined."""
        return 0

    def _match(self, path: list[Node]) -> Match:
        taken: Match = {}
        for node in path:
            taken.setdefault(node.name, []).append(node.event.value)
        return {name: taken[name] for name in self.names if name in taken}


def note(error: Exception, value: Any) -> None:
    """Say at which event a condition has failed."""
    error.add_note(f"A condition of a pattern failed at the event {value!r:.200}.")


def _positions(path: list[Node]) -> list[int]:
    return [node.event.position for node in path]


def matches_of(
    pattern: Pattern[T, Any], events: Iterable[T], timestamps: Iterable[int] | None = None
) -> list[Match[T]]:
    """Return all matches of a pattern in a sequence of events, without a stream; to try a pattern and to test it.

    Timestamps are 0, 1, 2 ... if none are given. At the end, time advances for ever. Conditions are opened without a runtime
    context.

    >>> pattern = Pattern.begin("a").where(lambda n: n > 1).not_followed_by("b").where(lambda n: n < 0).within(3)
    >>> matches_of(pattern, [5, -1, 7, 1])
    [{'a': [7]}]
    """
    check_kind(pattern, Pattern, "matches_of()", "Give the pattern, then the events.")
    clock = iter(timestamps) if timestamps is not None else None
    with closing(OpenedConditions()) as opened:
        opened.open(pattern.tests(), None)
        nfa = Nfa(compile_pattern(pattern))
        state, found = nfa.initial, list[Match]()
        for index, value in enumerate(events):
            timestamp = next(clock) if clock is not None else index
            state, matches, _ = nfa.advance(state, timestamp)
            found += matches
            state, matches = nfa.process(state, value, timestamp, timestamp)
            found += matches
        return found + nfa.advance(state, MAX_WATERMARK)[1]
