"""From a pattern to its automaton: one state per occurrence of a pattern, and edges TAKE, IGNORE and PROCEED.

The sequence is compiled from its first part; ``after`` compiles what follows, given the conditions of the
``not_followed_by`` parts that are still in force there. A part that takes an event ends those before it, so what
follows is compiled once for each set of them that can reach it.

Decisions where no document of Flink's is exact:

* An event that is ignored before a repeated group's head decides that another round follows: the head has a copy
  without the way out, so no match is emitted twice.
* ``not_followed_by`` behind a loop is in force from the loop's first event on, in every state of the loop.
* The duration of a quantifier bounds the wait for its first event and for each one that it needs, not for optional ones.
* A loop before a terminal ``not_followed_by``: every length that the loop may have is a match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

from funken.cep.conditions import ALWAYS, Condition, Not, both
from funken.cep.pattern import Contiguity, Part, Pattern


@dataclass(eq=False)
class Edge:
    """A way to another state, open where the condition holds."""

    condition: Condition
    target: State


@dataclass(eq=False)
class State:
    """What a partial match waits for."""

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
    """How a part is entered: contiguity, NOTs in force, and the ways past it; and the ``until`` of the groups around."""

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
    """Return which events may be skipped before the part takes one; ``None``: none."""
    if contiguity is Contiguity.STRICT:
        return None
    return _unless(ALWAYS if contiguity is Contiguity.ANY else Not(part.test), untils)
