"""The operator behind a pattern stream: runs one automaton for each key.

Event time: events wait until the watermark has passed them, and are handled in the order of their timestamps. They wait in a
list; before a checkpoint, or where state is in files and they are many, the list is moved into keyed state (a map from
timestamp to events), with a timer for each timestamp that brings them back. A timer of each key's next deadline makes
time-outs come without a further event. In processing time events are handled at once, or, if they are to be sorted by a
comparator, one millisecond later. A comparator needs all events of a timestamp, so with one they go into keyed state at once.
In ``BATCH`` everything happens at the end of a key, in the same order.

The state of a key is written only when it changed, and deleted when no partial match is left. It is an ``NfaState``, which nobody
changes, so it needs no copies; events that a function of the program could change are copied before they are given to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cmp_to_key
from operator import itemgetter
from typing import Any

from funken import InvalidProgram, MapStateDescriptor, OutputTag, RuntimeContext, ValueStateDescriptor
from funken.cep.compiler import compile_pattern
from funken.cep.functions import PatternContext, PatternProcessFunction, Selecting, TimedOutPartialMatchHandler
from funken.cep.nfa import NEVER, Match, Nfa, NfaState, note
from funken.cep.pattern import Pattern
from funken.config import MAX_PARTIAL_MATCHES
from funken.errors import StateTooLarge
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.process.contexts import KeyedContext, TimeDomain
from funken.operators.process.one_input import KeyedProcess, TimerOperator
from funken.state.backend import FileSnapshotBackend
from funken.state.keyed import NO_KEY

STATE, EVENTS = "cep-matches", "cep-events"
_MOST_WAITING = 100_000
"""How many events wait in memory at most where state is in files."""
_FLUSH = 4096
"""How many results are held back at most."""
_at = itemgetter(0)


@dataclass(frozen=True)
class Settings:
    """What a pattern stream was told besides the pattern."""

    comparator: Callable[[Any, Any], int] | None = None
    event_time: bool = True
    late: OutputTag | None = None
    max_partial_matches: int = MAX_PARTIAL_MATCHES.default

    def in_order(self, events: list[Any]) -> list[Any]:
        """Return events of one time in their order."""
        return events if self.comparator is None else sorted(events, key=cmp_to_key(self.comparator))


@dataclass(frozen=True)
class MatchPattern(KeyedProcess):
    """Finds the matches of a pattern among the events of each key, and gives them to a ``PatternProcessFunction``."""

    pattern: Pattern
    settings: Settings

    def build(self) -> Operator:
        """Make the logic."""
        return MatchPatternLogic(self)


class MatchPatternLogic(TimerOperator):
    """One automaton, and a table from keys to what is kept of their events."""

    def __init__(self, spec: MatchPattern) -> None:
        super().__init__(spec.function)
        self._spec = spec
        self._settings = spec.settings
        self._key = spec.key.bind()
        self._user: PatternProcessFunction = spec.function.target
        self._handles_timeouts = isinstance(self._user, TimedOutPartialMatchHandler)
        self._waiting: list[tuple[int, Any]] = []
        #: the most partial matches that a key has had
        self.most = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._context = KeyedContext(self, self._results)
        self._in_files = isinstance(self._store.backend, FileSnapshotBackend)
        self._event_times = self._timers.event_times
        context.before_snapshot.append(self._store_waiting)

    def open(self) -> None:
        """Compile the pattern, find the state, and open the function."""
        self._nfa = Nfa(compile_pattern(self._spec.pattern))
        runtime_context = RuntimeContext(self.context)
        self._states = runtime_context.get_state(ValueStateDescriptor(STATE)).table
        self._events = runtime_context.get_map_state(MapStateDescriptor(EVENTS))
        metrics = self.context.metrics
        self._dropped = metrics.counter("numLateRecordsDropped")
        metrics.gauge("maxPartialMatchesOfAKey", lambda: self.most)
        super().open()

    # ---- events come

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Let the events of a block wait for their time; in processing time without a comparator it has come."""
        if not self._settings.event_time:
            self._run(self._take_by_the_clock, self._context, values, timestamps, self._key)
            return
        first = MIN_TIMESTAMP if timestamps is None else min(timestamps, default=MAX_WATERMARK)
        if timestamps is None or first == MIN_TIMESTAMP:
            raise InvalidProgram(
                "a pattern in event time needs timestamps, but a record has none. Call "
                "assign_timestamps_and_watermarks(...) before, or in_processing_time() on the pattern stream."
            )
        if first > self.current_watermark:
            self._waiting += zip(timestamps, values, strict=True)
        else:
            self._without_late(values, timestamps)
        if self._settings.comparator is not None or (self._in_files and len(self._waiting) > _MOST_WAITING):
            self._store_waiting()

    def _without_late(self, values: Values, timestamps: list[int]) -> None:
        late = self._settings.late
        for value, at in zip(values, timestamps, strict=True):
            if at > self.current_watermark:
                self._waiting.append((at, value))
            elif late is not None:
                self._results.side((late, value), at)
            else:
                self._dropped.inc()
        self._results.emit(self.output, stamped=True)

    def _take_by_the_clock(self, value: Any, context: Any) -> None:
        now = self._timers.current_processing_time()
        key = self._store.current_key
        if self._settings.comparator is not None:
            self._put(key, now, value)
            self._timers.register_processing_time_timer(key, None, now + 1)
        else:
            self._handle(key, now, (value,), context.at)

    def _store_waiting(self) -> None:
        """Move the events that wait into keyed state."""
        waiting, self._waiting = self._waiting, []
        for at, value in waiting:
            key = self._key(value)
            self._put(key, at, value)
            self._timers.register_event_time_timer(key, None, at)
        self._store.current_key = NO_KEY

    def _put(self, key: Any, at: int, value: Any) -> None:
        self._store.current_key = key
        self._events.put(at, [*(self._events.get(at) or ()), value])

    # ---- time passes

    def watermark(self, watermark: int) -> None:
        """Handle the events that are due, and the ends of windows."""
        if self.context.batch and watermark != MAX_WATERMARK:
            self.output.watermark(watermark)
            return
        self.current_watermark = watermark
        if self._waiting:
            self._handle_waiting(watermark)
        if self.context.batch:
            self._timers.advance_processing_time(MAX_WATERMARK, self._fire_processing_time)
        self._timers.advance_watermark(watermark, self._fire_event_time)
        self._end_firing(stamped=True)
        self.output.watermark(watermark)

    def _handle_waiting(self, watermark: int) -> None:
        """Handle the events in the list that are due, and the timers that are due before each."""
        waiting = self._waiting
        waiting.sort(key=_at)
        count = len(waiting)
        while count and waiting[count - 1][0] > watermark:
            count -= 1
        self._waiting = waiting[count:]
        del waiting[count:]
        nfa, key_of, find, due = self._nfa, self._key, self._states.get, self._event_times
        begin, process, deadline, gate = nfa.begin, nfa.process, nfa.deadline, nfa.gate()
        passes = None if gate is None else gate.function
        results, now, reached = self._results, self._timers.current_processing_time(), MIN_TIMESTAMP
        # Hot: once per event.
        for at, value in waiting:
            if at != reached:
                reached = at
                if due and due[0] <= at:
                    self._timers.advance_watermark(at, self._fire_event_time)
            key = key_of(value)
            state = find(key)
            if state is not None:
                if deadline(state) > at:
                    after, matches = process(state, value, at, now)
                    if after is state:
                        continue
                    if len(after.partials) > self.most:
                        self._check_size(after, key)
                    self._finish(key, state, after, matches, (), at, now, at)
                else:
                    self._step(key, state, at, (value,), now, at)
            else:
                if passes is not None:
                    try:
                        if not passes(value):
                            continue
                    except Exception as error:
                        note(error, value)
                        raise
                begun = begin(value, at, now, gate)
                if begun is not None:
                    self._finish(key, None, *begun, (), at, now, at)
            if len(results.values) >= _FLUSH:
                results.emit(self.output, stamped=True)

    def _fire(self, timestamp: int, key: Any, domain: TimeDomain, at: int) -> None:
        """Handle the events that were stored for this time, and the end of a window."""
        self.context.next_time()
        self._store.current_key = key
        due = timestamp if domain is TimeDomain.EVENT_TIME else timestamp - 1
        events = self._events.get(due)
        if events is None:
            events = ()
        else:
            self._events.remove(due)
            events = self._settings.in_order(events)
        self._handle(key, due, events, at)

    # ---- an event is handled

    def _handle(self, key: Any, at: int, events: Iterable[Any], stamp: int) -> None:
        self._step(key, self._states.get(key), at, events, self._timers.current_processing_time(), stamp)

    def _step(self, key: Any, before: NfaState | None, at: int, events: Iterable[Any], now: int, stamp: int) -> None:
        """Let time reach ``at``, then handle its events in their order; results are stamped with ``stamp``."""
        nfa = self._nfa
        state = before or nfa.initial
        matches: list[Match] = []
        expired: list[tuple[Match, int]] = []
        if before is not None and nfa.deadline(before) <= at:
            state, matches, expired = nfa.advance(before, at)
        for event in events:
            if state.partials or state.finished:
                state, found = nfa.process(state, event, at, now)
                matches += found
            else:
                begun = nfa.begin(event, at, now)
                if begun is not None:
                    state = begun[0]
                    matches += begun[1]
            if len(state.partials) > self.most:
                self._check_size(state, key)
        self._finish(key, before, state, matches, expired, at, now, stamp)

    def _finish(
        self, key: Any, before: NfaState | None, state: NfaState, matches: list[Match], expired: Iterable[Any], at: int,
        now: int, stamp: int,
    ) -> None:  # fmt: skip
        """Write the state if it changed, and give matches and what timed out to the function."""
        if not state.partials and not state.finished:
            if before is not None:
                del self._states[key]
        elif state is not before:
            self._states[key] = state
            deadline = self._nfa.deadline(state)
            if deadline != NEVER and (before is None or deadline != before.deadline):
                if self._settings.event_time:
                    self._timers.register_event_time_timer(key, None, deadline)
                else:
                    self._timers.register_processing_time_timer(key, None, deadline + 1)
        if matches or expired:
            self._give(key, matches, expired, at, now, stamp, shared=bool(state.partials or state.finished))

    def _give(
        self, key: Any, matches: list[Match], expired: Iterable[Any], at: int, now: int, stamp: int, shared: bool
    ) -> None:
        """Call the function; ``shared``: events of the matches are kept, so it is given copies of those it could change."""
        results, user, context = self._results, self._user, self._context
        own = results.own_block if shared or len(matches) > 1 or expired else None
        self._store.current_key = key
        event_time = self._settings.event_time
        if self._handles_timeouts:
            for match, deadline in expired:
                context.at = deadline if event_time else MIN_TIMESTAMP
                given = match if own is None else {name: own(events) for name, events in match.items()}
                made = user.process_timed_out_match(given, PatternContext(context, deadline, now))  # type: ignore[attr-defined]
                results.take(side_outputs(made), context.at)
        context.at = stamp
        if type(user) is Selecting and not user.flat:
            for match in matches:
                given = match if own is None else {name: own(events) for name, events in match.items()}
                results.add(user.function(given), stamp)
            return
        for match in matches:
            given = match if own is None else {name: own(events) for name, events in match.items()}
            results.take(user.process_match(given, PatternContext(context, at, now)), stamp)

    def _check_size(self, state: NfaState, key: Any) -> None:
        count = self.most = len(state.partials)
        if count > self._settings.max_partial_matches:
            raise too_many(f"pattern {self._spec.pattern!r}", count, self._settings.max_partial_matches, key)


def one_key(event: Any) -> int:
    """Return the key of all events of a stream without keys."""
    return 0


def too_many(what: str, count: int, bound: int, key: Any) -> StateTooLarge:
    """Return the error for a key that has more partial matches than it may."""
    return StateTooLarge(
        f"the {what} has {count} partial matches for the key {key!r}, more than the bound of {bound}. Add within(...) or "
        f"until(...) to the pattern, use a stricter contiguity, or raise {MAX_PARTIAL_MATCHES.key}."
    )


def side_outputs(made: Iterable[Any] | None) -> list[Any]:
    """Return what was made for a time-out; raise ``InvalidProgram`` if it is not for side outputs."""
    found = list(made or ())
    for each in found:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], OutputTag)):
            raise InvalidProgram(
                f"process_timed_out_match() emitted {each!r:.200}, but has side outputs only: yield (tag, record)."
            )
    return found
