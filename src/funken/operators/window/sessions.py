"""Sessions in event time, with the default trigger and no lateness: a short list of sessions per key.

A record nearly always extends the last session of its key, which needs one lookup and two comparisons. Ends are kept in
a heap that is not updated when a session grows: an entry that is due too early is put back with the session's true end.

Invariants: the sessions of a key are sorted and neither overlap nor touch; each has one entry in the heap, at or before
its true end; none is over, as seen from the current watermark. Snapshots have the sessions of each key, as ``(start, end,
contents)``, as keyed state.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.window.base import WindowOperator
from funken.operators.window.spec import Strategy
from funken.state.delta_tables import KeyedDeltaTable
from funken.state.descriptors import StateKind
from funken.windowing.windows import TimeWindow

if TYPE_CHECKING:
    from funken.operators.window.spec import WindowSpec


class OpenSession:
    """One session and its contents; ``end`` is exclusive, and ``MIN_TIMESTAMP`` once it was merged away."""

    __slots__ = ("contents", "end", "start")

    def __init__(self, start: int, end: int, contents: Any) -> None:
        self.start = start
        self.end = end
        self.contents = contents


class SessionWindows(WindowOperator):
    """Event-time sessions, with a fixed or dynamic gap."""

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        assigner: Any = spec.assigner
        self._gap: int | None = getattr(assigner, "gap", None)
        self._gap_of = assigner.gap_of
        self._sessions = KeyedDeltaTable(saved_sessions, self._revive)  # a list per key
        self._ends: list[tuple[int, int, Any, OpenSession]] = []
        self._pushes = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self.store.register(Strategy.SESSIONS.state_name, StateKind.VALUE, self._sessions)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block."""
        late: tuple[Values, list[int]] = ([], [])
        stamps = [MIN_TIMESTAMP] * len(values) if timestamps is None else timestamps
        new, old, fold = self._sessions.delta, self._sessions.base, self.contents.fold
        get, gap, gap_of = new.get, self._gap, self._gap_of
        # Hot: a lookup, two comparisons, the user's function.
        for key, value, at in zip(self.keys(values), values, stamps, strict=True):
            end = at + (gap_of(value) if gap is None else gap)
            sessions = get(key)
            if sessions is None and key in old:
                sessions = new[key] = old[key]
            if sessions is not None:
                session = sessions[-1]
                if session.start <= at <= session.end and session.contents is not None:
                    if end > session.end:
                        session.end = end if end < MAX_WATERMARK else MAX_WATERMARK
                    session.contents = fold(session.contents, value)
                    continue
            if not self._add(key, value, at, min(end, MAX_WATERMARK)):
                late[0].append(value)
                late[1].append(at)
        self.late(*late)

    def _add(self, key: Any, value: Any, start: int, end: int) -> bool:
        """Add a record that opens, joins or bridges sessions; return whether it was in time."""
        sessions: list[OpenSession] = self._sessions.get(key) or []
        touched = [session for session in sessions if session.start <= end and start <= session.end]
        if not touched:
            if end - 1 <= self.current_watermark:
                return False
            self._sessions.delta[key] = sessions
            self._insert(sessions, key, OpenSession(start, end, self.contents.start(value)))
            return True
        first = touched[0]
        first.start = min(first.start, start)
        first.end = max(end, touched[-1].end)
        for other in touched[1:]:
            first.contents = self._merge(first.contents, other.contents)
            other.end = MIN_TIMESTAMP
            sessions.remove(other)
        first.contents = (
            self.contents.start(value) if first.contents is None else self.contents.fold(first.contents, value)
        )
        return True

    def _merge(self, stored: Any, other: Any) -> Any:
        if stored is None or other is None:
            return other if stored is None else stored
        return self.contents.merge(stored, other)

    def _insert(self, sessions: list[OpenSession], key: Any, session: OpenSession) -> None:
        sessions.append(session)
        sessions.sort(key=_start)
        self._pushes += 1
        heappush(self._ends, (session.end, self._pushes, key, session))

    def advance_event_time(self, watermark: int) -> None:
        """Fire the sessions that end at or before the watermark, in the order of their ends."""
        ends = self._ends
        over: list[tuple[int, int, Any, OpenSession]] = []
        while ends and ends[0][0] - 1 <= watermark:
            _, order, key, session = heappop(ends)
            if session.end - 1 <= watermark and session.end != MIN_TIMESTAMP:
                over.append((session.end, order, key, session))
            elif session.end != MIN_TIMESTAMP:
                heappush(ends, (session.end, order, key, session))
        over.sort()
        for _, _, key, session in over:
            self._fire(key, session)

    def fire_all(self) -> None:
        """Fire all sessions."""
        self.advance_event_time(MAX_WATERMARK)

    def _fire(self, key: Any, session: OpenSession) -> None:
        sessions: list[OpenSession] = self._sessions.get(key)
        if len(sessions) == 1:
            self._sessions.remove(key)
        else:
            sessions.remove(session)
            self._sessions.delta[key] = sessions
        self.store.current_key = key
        window = TimeWindow(session.start, session.end)
        if session.contents is not None:
            self.emitter.fire(key, window, session.contents)
        self.emitter.clear(window)

    def _revive(self, key: Any, saved: list[tuple[int, int, Any]]) -> list[OpenSession]:
        sessions: list[OpenSession] = []
        for start, end, contents in saved:
            self._insert(sessions, key, OpenSession(start, end, contents))
        return sessions


def _start(session: OpenSession) -> int:
    return session.start


def saved_sessions(sessions: list[OpenSession]) -> list[tuple[int, int, Any]]:
    """Return the sessions of a key as they are in snapshots."""
    return [(session.start, session.end, session.contents) for session in sessions]
