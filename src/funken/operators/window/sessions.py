"""Sessions in event time, with the default trigger and no lateness: a short list of sessions per key.

A record nearly always extends the last session of its key, which needs one lookup and two comparisons. Ends are kept in
a heap that is not updated when a session grows: an entry that is due too early is put back with the session's true end.

Invariants: the sessions of a key are sorted and neither overlap nor touch; each has one entry in the heap, at or before
its true end; none is over, as seen from the current watermark. Snapshots have the sessions of each key, as ``(start, end,
contents)``, as keyed state.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Timestamps, Values
from funken.operators.window.driver import WindowDriver, Windows
from funken.operators.window.spec import Strategy
from funken.state.delta_tables import KeyedDeltaTable
from funken.state.descriptors import StateKind
from funken.windowing.windows import TimeWindow

Saved = list[tuple[int, int, Any]]
"""The sessions of a key in snapshots: start, end and contents."""


class OpenSession:
    """One session and its contents; ``end`` is exclusive, and ``MIN_TIMESTAMP`` once it was merged away."""

    __slots__ = ("contents", "end", "start")

    def __init__(self, start: int, end: int, contents: Any) -> None:
        self.start = start
        self.end = end
        self.contents = contents


class SessionWindows(Windows):
    """Event-time sessions, with a fixed or dynamic gap."""

    def __init__(self, driver: WindowDriver) -> None:
        super().__init__(driver)
        assigner: Any = driver.spec.assigner
        self.gap: int | None = getattr(assigner, "gap", None)
        self._gap_of = assigner.gap_of
        self.table = KeyedDeltaTable(self.save, self.revive)  # a list per key
        #: a heap of ends, of each the session, its number and its key
        self.ends: list[tuple[int, int, Any, OpenSession]] = []
        self.opened = 0
        """How many sessions were opened so far: of sessions that end together, the one that was opened first fires first."""

    def setup(self) -> None:
        """Register the table."""
        self.driver.store.register(Strategy.SESSIONS.state_name, StateKind.VALUE, self.table)

    def add(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block."""
        late: tuple[Values, list[int]] = ([], [])
        stamps = [MIN_TIMESTAMP] * len(values) if timestamps is None else timestamps
        new, old, fold = self.table.delta, self.table.base, self.contents.fold
        get, gap, gap_of = new.get, self.gap, self._gap_of
        # Hot: a lookup, two comparisons, the user's function.
        for key, value, at in zip(self.driver.keys(values), values, stamps, strict=True):
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
        self.driver.late(*late)

    def _add(self, key: Any, value: Any, start: int, end: int) -> bool:
        """Add a record that opens, joins or bridges sessions; return whether it was in time."""
        sessions: list[OpenSession] = self.table.get(key) or []
        touched = [session for session in sessions if session.start <= end and start <= session.end]
        if not touched:
            if end - 1 <= self.driver.current_watermark:
                return False
            self.table.delta[key] = sessions
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
        self.opened += 1
        heappush(self.ends, (session.end, self.opened, key, session))

    def close(self, watermark: int) -> None:
        """Fire the sessions that end at or before the watermark, in the order of their ends."""
        ends = self.ends
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

    def close_all(self) -> None:
        """Fire all sessions."""
        self.close(MAX_WATERMARK)

    def _fire(self, key: Any, session: OpenSession) -> None:
        sessions: list[OpenSession] = self.table.get(key)
        if len(sessions) == 1:
            self.table.remove(key)
        else:
            sessions.remove(session)
            self.table.delta[key] = sessions
        self.driver.store.current_key = key
        window = TimeWindow(session.start, session.end)
        if session.contents is not None:
            self.driver.emitter.fire(key, window, session.contents)
        self.driver.emitter.clear(window)

    @staticmethod
    def save(sessions: list[OpenSession]) -> Saved:
        """Return the sessions of a key as they are in snapshots."""
        return [(session.start, session.end, session.contents) for session in sessions]

    def revive(self, key: Any, saved: Saved) -> list[OpenSession]:
        """Return them as they were."""
        sessions: list[OpenSession] = []
        for start, end, contents in saved:
            self._insert(sessions, key, OpenSession(start, end, contents))
        return sessions


def _start(session: OpenSession) -> int:
    return session.start
