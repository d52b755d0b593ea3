"""Running a PATTERN clause: rows come one after the other, and each may begin a search.

A *search* begins at a row; it has threads in the order of preference of SQL:2016, and perhaps a match that all of them are
preferred to. It is decided when no thread is left. Searches are decided in the order of their first rows, and a match that
is found discards those that begin before the row to skip to. What has come to an end with the input, or with the window of
WITHIN, is decided then. Two threads in one state are one, the preferred one, unless a condition that they may come to can tell
them apart (``facts.py``). A thread for which the match ends if the partition does (``$``) outlives the window until the next row.

The same interface to the operator as ``funken.cep.nfa``: ``RowState`` is immutable, and the same object is returned where an
event changes nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from funken.cep.buffer import Event, Node, Packed, pack, unpack
from funken.cep.nfa import NEVER, Match, note
from funken.cep.skip import AfterMatchSkipStrategy, SkipKind
from funken.cep.sql.facts import Column, Fact, Facts, RowNode
from funken.cep.sql.row_program import RowProgram
from funken.cep.sql.rows import MatchedRows, RowsSoFar
from funken.errors import CheckpointIncompatible
from funken.ids import MAX_WATERMARK
from funken.sdk import immutable

END_OF_INPUT = MAX_WATERMARK - 1
"""When what waits for the end of the input is decided; a timer of either clock fires then."""
ROWS, NAMES, BEFORE = "rows", "names", "before"
"""What a match consists of: its rows, the variable of each, and rows before the first."""

Test = Callable[[MatchedRows], Any]
Thread = tuple[int, Node]
_Wait = tuple[int, str, str, bool, bool, bool, bool]
"""A state to come to: it, its variable, the name of the node, whether all threads have one result of the condition, whether a
thread goes on from there, whether the match may end there, and whether conditions to come tell threads in it apart."""


@dataclass(frozen=True)
class RowPlan:
    """A PATTERN clause with its conditions: ``own`` are those that look at their own row, and at rows before it in the partition.

    ``facts`` has what each of the others asks of the rows that its search has taken.
    """

    program: RowProgram
    own: dict[str, Test]
    others: dict[str, Test]
    facts: dict[str, tuple[Fact, ...]]
    column: Column
    skip: AfterMatchSkipStrategy
    targets: frozenset[str]
    subsets: dict[str, tuple[str, ...]]
    window: int
    #: how many rows before a row PREV looks at
    before: int
    shown: str

    def __repr__(self) -> str:
        return f"PATTERN ({self.shown})"


class Search:
    """The threads that began with one row, the preferred one first, and the match that ends if all of them fail."""

    __slots__ = ("before", "first", "found", "threads")

    def __init__(self, first: Event, threads: tuple[Thread, ...], found: Node | None, before: tuple[Any, ...]) -> None:
        self.first = first
        self.threads = threads
        self.found = found
        self.before = before


@immutable
class RowState:
    """What is kept of a partition: its searches, how many rows there were, and the last of them, if that matters."""

    __slots__ = ("deadline", "partials", "position", "recent", "searches", "shape")

    def __init__(self, shape: int, position: int, recent: tuple[Any, ...], searches: tuple[Search, ...]) -> None:
        self.shape = shape
        self.position = position
        self.recent = recent
        self.searches = searches
        self.partials: tuple[Thread, ...] = ()
        for search in searches:
            self.partials += search.threads
        #: when the next search ends for lack of time
        self.deadline: int = NEVER

    def __reduce__(self) -> tuple[Any, ...]:
        table, at = pack(
            node for s in self.searches for node in (*(tail for _, tail in s.threads), *([s.found] if s.found else ()))
        )
        tails = iter(at)
        searches = [
            ([(state, next(tails)) for state, _ in s.threads], next(tails) if s.found else -1, s.before)
            for s in self.searches
        ]
        return _restored, (self.shape, self.position, self.recent, table, searches, self.deadline)


def _restored(
    shape: int, position: int, recent: tuple[Any, ...], table: Packed, searches: list[Any], deadline: int
) -> RowState:
    nodes = unpack(table, RowNode)
    found = []
    for threads, end, before in searches:
        tails = tuple((state, nodes[at]) for state, at in threads)
        match = nodes[end] if end >= 0 else None
        any_of_them: Any = tails[0][1] if tails else match
        found.append(Search(any_of_them.path()[0].event, tails, match, before))
    state = RowState(shape, position, recent, tuple(found))
    state.deadline = deadline
    return state


def _with_a_chance(searches: list[Search]) -> list[Search]:
    """Leave out searches that ``SKIP PAST LAST ROW`` will discard whatever comes.

    They begin within a match that is decided. It will be emitted, or a match that ends with a later row discards both; unless
    an earlier search may yet fall back on a match that ends within it.
    """
    left, fallback, covered = [], -1, -1
    for search in searches:
        if search.first.position <= covered:
            continue
        left.append(search)
        if search.found is not None:
            end = search.found.event.position
            if search.threads:
                fallback = max(fallback, end)
            elif fallback < search.first.position:
                covered = max(covered, end)
    return left


class _Results(dict[str, bool]):
    """The results of the conditions that are the same for all threads, each evaluated when it is asked for."""

    __slots__ = ("_plan", "_row")

    def __init__(self, plan: RowPlan, value: Any, recent: tuple[Any, ...]) -> None:
        self._plan = plan
        self._row = MatchedRows(("",), (value,), recent)

    def own(self, name: str) -> bool:
        test = self._plan.own.get(name)
        self[name] = found = test is None or test(self._row) is True
        return found


class RowNfa:
    """A PATTERN clause, ready to run; of what it was given it keeps nothing from one call to the next."""

    known = 0

    def __init__(self, plan: RowPlan) -> None:
        self.plan = plan
        self.program = plan.program
        self.remembers = bool(plan.before) or plan.program.anchored
        self._facts = Facts(plan.program, plan.facts, plan.subsets, plan.column)
        self.shape = zlib.crc32(repr((self.program, plan.before)).encode())
        self.initial = RowState(self.shape, 0, (), ())
        first = {self.program.variables[state] for state in self.program.opening}
        program = plan.program
        self._waits = [self._after(waits) for waits in program.waits]
        self._first, self._opening = self._after(program.first), self._after(program.opening)
        self._closes = any(program.closes)
        #: the conditions of which one must hold for a row to begin a search, if all of them look at the row alone
        self._own_first = [plan.own[name] for name in first] if first <= plan.own.keys() else []
        #: no mask decides, and no condition alone
        self.starts: dict[int | None, Any] = {}

    def _after(self, waits: Sequence[int]) -> tuple[_Wait, ...]:
        program, found = self.program, []
        for state in waits:
            name = program.variables[state]
            label = f"-{name}" if program.excluded[state] else name
            goes_on = bool(program.waits[state]) or program.closes[state]
            shared, tells_apart = name not in self.plan.others, bool(self._facts.asked[state])
            found.append((state, name, label, shared, goes_on, program.accepts[state], tells_apart))
        return tuple(found)

    def masks(self, events: list[Any]) -> None:
        """Return that masks of events are not known."""

    def gate(self) -> None:
        """Return that there is no condition without which a row begins no search."""

    def deadline(self, state: RowState) -> int:
        """Return when the next search ends for lack of time."""
        return state.deadline

    def begin(self, value: Any, timestamp: int, now: int, passed: Any = None, mask: Any = None) -> Any:
        """Handle the first row of a partition that is known; ``None`` if it leaves no trace."""
        if self._own_first and not self.remembers:
            row = MatchedRows(("",), (value,))
            try:
                if not any(test(row) is True for test in self._own_first):
                    return None
            except Exception as error:
                note(error, value)
                raise
        state, matches = self.process(self.initial, value, timestamp, now)
        return None if state is self.initial and not matches else (state, matches)

    def process(
        self, state: RowState, value: Any, timestamp: int, now: int, mask: int | None = None
    ) -> tuple[RowState, list[Match]]:
        """Handle a row; time was advanced to its timestamp before."""
        if state.shape != self.shape:
            raise CheckpointIncompatible(
                "The state of a MATCH_RECOGNIZE clause was written by another one. Give the changed clause's operator "
                "another uid, so that it starts without partial matches."
            )
        event = Event(state.position, timestamp, value)
        results = _Results(self.plan, value, state.recent)
        searches: list[Search] = []
        try:
            for search in state.searches:
                after = self._step(search, event, results) if search.threads else search
                if after is not None:
                    searches.append(after)
            threads: list[Thread] = []
            first = self._first if state.position else self._opening
            found = self._take(first, None, event, state.recent, results, {}, threads)
        except Exception as error:
            note(error, value)
            raise
        if threads or found is not None:
            searches.append(Search(event, tuple(threads), found, state.recent))
        elif not searches and not state.searches and not self.remembers:
            return state, []
        recent = (*state.recent, value)[-self.plan.before :] if self.plan.before else ()
        return self._settle(state.position + 1, recent, searches, timestamp)

    def _step(self, search: Search, event: Event, results: _Results) -> Search | None:
        threads: list[Thread] = []
        found, seen = search.found, dict[int, Any]()
        over = self.plan.window and search.first.timestamp + self.plan.window <= event.timestamp
        for state, tail in () if over else search.threads:
            end = self._take(self._waits[state], tail, event, search.before, results, seen, threads)
            if end is not None:
                found = end
                break
        if not threads and found is None:
            return None
        return Search(search.first, tuple(threads), found, search.before)

    def _take(
        self, waits: Sequence[_Wait], tail: Node | None, event: Event, before: tuple[Any, ...], results: _Results,
        seen: dict[int, Any], threads: list[Thread],
    ) -> Node | None:  # fmt: skip
        """Add the threads that the row leads to; return the match that it ends, if any: nothing is preferred less than that.

        ``seen`` has, for each state that preferred threads have come to, the one thread, or the facts of several.
        """
        # Hot: once per row, search and thread.
        for state, name, label, shared, goes_on, accepts, tells_apart in waits:
            rivals = seen.get(state)
            if rivals is not None and not tells_apart:
                continue
            holds = results.get(name)
            if holds is None:
                holds = results.own(name) if shared else self._holds(name, tail, event, before)
            if not holds:
                continue
            node = RowNode(tail, label, event)
            if rivals is None:
                seen[state] = node
            elif not self._is_new(state, node, seen):
                continue
            if goes_on:
                threads.append((state, node))
            if accepts:
                return node
        return None

    def _is_new(self, state: int, node: Node, seen: dict[int, Any]) -> bool:
        """Return whether the facts of a thread differ from those of all that came to its state before."""
        rivals, facts = seen[state], self._facts
        if type(rivals) is not set:
            rivals = seen[state] = {facts.of(state, rivals)}
        own, count = facts.of(state, node), len(rivals)
        rivals.add(own)
        return len(rivals) > count

    def _holds(self, name: str, tail: Node | None, event: Event, before: tuple[Any, ...]) -> bool:
        rows = RowsSoFar(tail, name, event.value, before, self.plan.subsets)
        return self.plan.others[name](rows) is True

    def advance(self, state: RowState, timestamp: int) -> tuple[RowState, list[Match], list[tuple[Match, int]]]:
        """Let time reach ``timestamp``; what no longer has time is decided."""
        if state.deadline > timestamp:
            return state, [], []
        ended, window = timestamp >= END_OF_INPUT, self.plan.window
        searches = []
        for search in state.searches:
            if not ended and not (window and search.first.timestamp + window <= timestamp):
                searches.append(search)
                continue
            closing = tuple(thread for thread in search.threads if self.program.closes[thread[0]])
            found = search.found
            if ended and closing:
                found, closing = closing[0][1], ()
            if closing or found is not None:
                searches.append(Search(search.first, closing, found, search.before))
        state, matches = self._settle(state.position, state.recent, searches, timestamp)
        return state, matches, []

    def _settle(
        self, position: int, recent: tuple[Any, ...], searches: list[Search], now: int
    ) -> tuple[RowState, list[Match]]:
        """Emit what is decided, in the order of the first rows, and return the state that is left at the time ``now``."""
        matches: list[Match] = []
        while searches and not searches[0].threads:
            search = searches.pop(0)
            assert search.found is not None
            path = search.found.path()
            matches.append(
                {
                    ROWS: [node.event.value for node in path],
                    NAMES: [node.name for node in path],
                    BEFORE: list(search.before),
                }
            )
            start = self.plan.skip.start_of_search(path, self.plan.targets)
            if start is not None:
                searches = [each for each in searches if each.first.position >= start]
        if len(searches) > 2 and self.plan.skip.kind is SkipKind.PAST_LAST:
            searches = _with_a_chance(searches)
        if not searches and not self.remembers:
            return self.initial, matches
        state = RowState(self.shape, position, recent, tuple(searches))
        if self.plan.window:
            for each in searches:
                end = each.first.timestamp + self.plan.window
                if end > now and each.threads:
                    state.deadline = end
                    return state, matches
        for each in searches:
            if each.found is not None or (self._closes and any(self.program.closes[at] for at, _ in each.threads)):
                state.deadline = END_OF_INPUT
                break
        return state, matches
