"""Running an automaton: from the state of a key and an event to its next state and the matches.

``NfaState`` is immutable; if an event changes nothing, the same object is returned, and nothing need be written. The
start state is not part of it: every event may begin a match. Partial matches are in the order of their first events.
Positions number the events that are kept; an event that leaves no trace does not use one up.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from funken.cep.buffer import Event, Node, Packed, pack, unpack
from funken.cep.compiler import Automaton, State, compile_pattern
from funken.cep.conditions import View
from funken.cep.pattern import Pattern
from funken.cep.skip import SkipKind
from funken.errors import CheckpointIncompatible
from funken.ids import MAX_WATERMARK

Match = dict[str, list[Any]]


class Partial:
    """A match that is not complete: the state it waits in, its last node and its first event."""

    __slots__ = ("first", "state", "tail")

    def __init__(self, state: int, tail: Node, first: Event) -> None:
        self.state = state
        self.tail = tail
        self.first = first


class NfaState:
    """What is kept for one key: partial matches, and finished ones that a skip strategy holds back."""

    __slots__ = ("finished", "next_position", "partials", "shape")

    def __init__(
        self, shape: int, next_position: int, partials: tuple[Partial, ...], finished: tuple[Node, ...]
    ) -> None:
        self.shape = shape
        self.next_position = next_position
        self.partials = partials
        self.finished = finished

    @property
    def empty(self) -> bool:
        """Whether only the start state is left, so that nothing need be kept."""
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
    """An automaton, ready to run; it keeps nothing from one call to the next."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.skip = automaton.pattern.skip
        self.names = automaton.pattern.names()
        self.window = automaton.window
        self.windowed = bool(self.window) or any(state.window for state in automaton.states)
        shape = [
            (s.label, s.kind, [[edge.target.index for edge in edges] for edges in (s.takes, s.ignores, s.proceeds)])
            for s in automaton.states
        ]
        self.shape = zlib.crc32(repr(shape).encode())
        self.initial = NfaState(self.shape, 0, (), ())

    def process(self, state: NfaState, value: Any, timestamp: int, now: int) -> tuple[NfaState, list[Match]]:
        """Handle an event; time was advanced to its timestamp before."""
        self._check(state)
        event = Event(state.next_position, timestamp, value)
        view = View(value, timestamp, now)
        partials: list[Partial] = []
        finished: list[Node] = []
        states = self.automaton.states
        for partial in state.partials:
            self._step(states[partial.state], partial, event, view, partials, finished)
        view.look_from(None)
        self._step(self.automaton.start, None, event, view, partials, finished)
        same = len(partials) == len(state.partials) and all(map(_is, partials, state.partials))
        if same and not finished:
            return state, []
        return self._settle(state, partials, finished)

    def advance(self, state: NfaState, timestamp: int) -> tuple[NfaState, list[Match], list[tuple[Match, int]]]:
        """Let time reach ``timestamp``; return the matches that this completes, and what timed out and when."""
        self._check(state)
        if not self.windowed or not state.partials:
            return state, [], []
        partials: list[Partial] = []
        finished: list[Node] = []
        timed_out: list[tuple[int, Partial]] = []
        for partial in state.partials:
            deadline = self._deadline(partial)
            if deadline is None or deadline > timestamp:
                partials.append(partial)
            elif self.automaton.states[partial.state].kind == "pending":
                finished.append(partial.tail)
            else:
                timed_out.append((deadline, partial))
        if len(partials) == len(state.partials):
            return state, [], []
        timed_out.sort(key=lambda each: each[0])
        expired = [(self._match(partial.tail.path()), deadline) for deadline, partial in timed_out]
        state, matches = self._settle(state, partials, finished)
        return state, matches, expired

    def deadline(self, state: NfaState) -> int | None:
        """Return when the next partial match times out; ``None`` if none does."""
        if not self.windowed:
            return None
        found = [deadline for deadline in map(self._deadline, state.partials) if deadline is not None]
        return min(found, default=None)

    def _deadline(self, partial: Partial) -> int | None:
        gap = self.automaton.states[partial.state].window
        ends = [partial.first.timestamp + self.window] if self.window else []
        ends += [partial.tail.event.timestamp + gap] if gap else []
        return min(ends, default=None)

    def _check(self, state: NfaState) -> None:
        if state.shape != self.shape:
            raise CheckpointIncompatible(
                "The state of a pattern was written by another pattern. Give the changed pattern's operator another "
                "uid, so that it starts without partial matches."
            )

    def _step(
        self,
        state: State,
        partial: Partial | None,
        event: Event,
        view: View,
        partials: list[Partial],
        finished: list[Node],
    ) -> None:
        """Follow the edges that are open for the event; reaching stop discards all that came of them."""
        tail = partial.tail if partial else None
        first = partial.first if partial else event
        if partial:
            view.look_from(tail)
        kept: list[Partial] = []
        complete: list[Node] = []
        taken: set[tuple[str, int]] = set()  # two ways to take the event by one pattern into one state are one match
        stack, seen = [state], {state.index}
        while stack:
            at = stack.pop()
            for edge in at.takes:
                if (at.name, edge.target.index) not in taken and edge.condition.evaluate(view):
                    taken.add((at.name, edge.target.index))
                    node = Node(tail, at.name, event)
                    if edge.target.kind != "final":
                        kept.append(Partial(edge.target.index, node, first))
                    if _reaches_final(edge.target, view):
                        complete.append(node)
            if partial and tail:
                for edge in at.ignores:
                    if edge.condition.evaluate(view):
                        if edge.target.kind == "final":
                            complete.append(tail)
                        else:
                            stays = edge.target.index == partial.state
                            kept.append(partial if stays else Partial(edge.target.index, tail, first))
            for edge in at.proceeds:
                target = edge.target
                if target.index not in seen and edge.condition.evaluate(view):
                    if target.kind == "stop":
                        return
                    seen.add(target.index)
                    stack.append(target)
        partials += kept
        finished += complete

    def _settle(self, state: NfaState, partials: list[Partial], finished: list[Node]) -> tuple[NfaState, list[Match]]:
        """Emit finished matches as the skip strategy allows, and return the state that is left."""
        matches = []
        if self.skip.kind is SkipKind.NONE:
            paths = sorted((node.path() for node in finished), key=_positions) if len(finished) > 1 else None
            matches = [self._match(path) for path in paths or [node.path() for node in finished]]
            waiting: list[list[Node]] = []
        else:
            waiting = sorted((node.path() for node in (*state.finished, *finished)), key=_positions)
            while waiting and (not partials or waiting[0][0].event.position <= partials[0].first.position):
                path = waiting.pop(0)
                matches.append(self._match(path))
                start = self.skip.start_of_search(path)
                if start is not None:
                    partials = [each for each in partials if each.first.position >= start]
                    waiting = [each for each in waiting if each[0].event.position >= start]
        left = NfaState(self.shape, state.next_position + 1, tuple(partials), tuple(path[-1] for path in waiting))
        return (self.initial if left.empty else left), matches

    def _match(self, path: list[Node]) -> Match:
        taken: Match = {}
        for node in path:
            taken.setdefault(node.name, []).append(node.event.value)
        return {name: taken[name] for name in self.names if name in taken}


def _is(one: object, other: object) -> bool:
    return one is other


def _positions(path: list[Node]) -> list[int]:
    return [node.event.position for node in path]


def _reaches_final(state: State, view: View) -> bool:
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


def matches_of(pattern: Pattern, events: Iterable[Any], timestamps: Iterable[int] | None = None) -> list[Match]:
    """Return all matches of a pattern in a sequence of events, without a stream; to try a pattern and to test it.

    Timestamps are 0, 1, 2 ... if none are given. At the end, time advances for ever.

    >>> pattern = Pattern.begin("a").where(lambda n: n > 1).not_followed_by("b").where(lambda n: n < 0).within(3)
    >>> matches_of(pattern, [5, -1, 7, 1])
    [{'a': [7]}]
    """
    nfa = Nfa(compile_pattern(pattern))
    state, found = nfa.initial, []
    clock = iter(timestamps) if timestamps is not None else None
    for index, value in enumerate(events):
        timestamp = next(clock) if clock is not None else index
        state, matches, _ = nfa.advance(state, timestamp)
        found += matches
        state, matches = nfa.process(state, value, timestamp, timestamp)
        found += matches
    return found + nfa.advance(state, MAX_WATERMARK)[1]
