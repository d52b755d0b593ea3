"""Running an automaton: from the state of a key and an event to its next state and the matches.

``NfaState`` is immutable; if an event changes nothing, the same object is returned, and nothing need be written. The
start state is not part of it: every event may begin a match. Partial matches are in the order of their first events.
Positions number the events that are kept; an event that leaves no trace does not use one up.

What an event does to a partial match depends on the state it waits in and on the results of some conditions. ``decisions.py``
keeps that as a tree per state, so a step is one evaluation per condition that matters, and a lookup. Events of a block have
masks with the results of simple conditions; where they decide, a step is a lookup alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from funken.cep.buffer import Event, Node, Packed, pack, unpack
from funken.cep.compiler import Automaton, compile_pattern
from funken.cep.conditions import ConditionContext, OpenedConditions
from funken.cep.decisions import DROP, FINAL, KEEP, Branch, Decisions, Leaf
from funken.cep.pattern import Pattern
from funken.cep.skip import SkipKind
from funken.errors import CheckpointIncompatible
from funken.ids import MAX_WATERMARK
from funken.sdk import immutable

Match = dict[str, list[Any]]
NEVER: int = MAX_WATERMARK + 1
_MOST_LEAVES = 4096
"""How many masks of a state are looked up."""


class Partial:
    """A match that is not complete: the state it waits in, its last node and its first event."""

    __slots__ = ("first", "state", "tail")

    def __init__(self, state: int, tail: Node, first: Event) -> None:
        self.state = state
        self.tail = tail
        self.first = first


@immutable
class NfaState:
    """What is kept for one key: partial matches, and finished ones that a skip strategy holds back."""

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
    """An automaton, ready to run; of what it was given it keeps nothing from one call to the next."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.skip = automaton.pattern.skip
        self.names = automaton.pattern.names()
        self.window = automaton.window
        self.gaps = [state.window for state in automaton.states]
        self.any_gap = any(self.gaps)
        self.windowed = bool(self.window) or self.any_gap
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
        """Return what an event does as the first of a match."""
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
                    result = bool(at.function(value, ConditionContext(tail, timestamp, now)))
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
        """Let time reach ``timestamp``; return the matches that this completes, and what timed out and when."""
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
        """Return when the next partial match times out; ``NEVER`` if none does."""
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


def matches_of(pattern: Pattern, events: Iterable[Any], timestamps: Iterable[int] | None = None) -> list[Match]:
    """Return all matches of a pattern in a sequence of events, without a stream; to try a pattern and to test it.

    Timestamps are 0, 1, 2 ... if none are given. At the end, time advances for ever. Conditions are opened without a runtime
    context.

    >>> pattern = Pattern.begin("a").where(lambda n: n > 1).not_followed_by("b").where(lambda n: n < 0).within(3)
    >>> matches_of(pattern, [5, -1, 7, 1])
    [{'a': [7]}]
    """
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
