"""The operator behind a pattern stream: a process function that runs one automaton for each key.

Event time: an event is kept until the watermark has passed it (a map from timestamp to events), then handled by a timer
of its timestamp: events that came out of order are sorted. A timer of each partial match's deadline makes time-outs
come without a further event. Processing time is the same, except that events are handled at once, or, if they are to be
sorted by a comparator, one millisecond later.

The state of the automaton is written only when it changed, and deleted when no partial match is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from funken import (
    InvalidProgram,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    RuntimeContext,
    ValueStateDescriptor,
)
from funken.cep.compiler import compile_pattern
from funken.cep.functions import PatternContext, PatternProcessFunction, TimedOutPartialMatchHandler
from funken.cep.nfa import Match, Nfa, NfaState
from funken.cep.pattern import Pattern
from funken.errors import StateTooLarge

STATE, EVENTS = "cep-matches", "cep-events"


@dataclass(frozen=True)
class Settings:
    """What a pattern stream was told besides the pattern."""

    sort_key: Callable[[Any], Any] | None = None
    event_time: bool = True
    late: OutputTag | None = None
    max_partial_matches: int = 100_000


class PatternOperator(KeyedProcessFunction):
    """Finds the matches of a pattern among the events of each key."""

    def __init__(self, pattern: Pattern, settings: Settings, function: PatternProcessFunction) -> None:
        self.pattern = pattern
        self.settings = settings
        self.function = function
        self.most = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        """Compile the pattern, and open the function."""
        self.nfa = Nfa(compile_pattern(self.pattern))
        self.state = runtime_context.get_state(ValueStateDescriptor(STATE))
        self.events = runtime_context.get_map_state(MapStateDescriptor(EVENTS))
        metrics = runtime_context.get_metrics_group()
        self.dropped = metrics.counter("numLateRecordsDropped")
        metrics.gauge("maxPartialMatchesOfAKey", lambda: self.most)
        self.function.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        self.function.close()

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Keep the event until its time has come; in processing time without a comparator it has."""
        timers = ctx.timer_service()
        if not self.settings.event_time:
            now = timers.current_processing_time()
            if self.settings.sort_key is None:
                return self._handle(now, [value], ctx)
            self._keep(now, value)
            timers.register_processing_time_timer(now + 1)
            return None
        timestamp = ctx.timestamp()
        if timestamp is None:
            raise InvalidProgram(
                "a pattern in event time needs timestamps, but a record has none. Call "
                "assign_timestamps_and_watermarks(...) before, or in_processing_time() on the pattern stream."
            )
        if timestamp > timers.current_watermark():
            self._keep(timestamp, value)
            timers.register_event_time_timer(timestamp)
        elif self.settings.late is not None:
            ctx.output(self.settings.late, value)
        else:
            self.dropped.inc()
        return None

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Handle the events of this time, or the end of a window."""
        at = timestamp if self.settings.event_time else timestamp - 1
        events = self.events.get(at)
        if events is None:
            events = []
        else:
            self.events.remove(at)
            if self.settings.sort_key is not None and len(events) > 1:
                events = sorted(events, key=self.settings.sort_key)
        return self._handle(at, events, ctx)

    def _keep(self, timestamp: int, value: Any) -> None:
        self.events.put(timestamp, [*(self.events.get(timestamp) or ()), value])

    def _handle(self, at: int, events: list[Any], ctx: Any) -> Iterator[Any]:
        """Let time reach ``at``, then handle its events in their order."""
        now = ctx.timer_service().current_processing_time()
        before: NfaState | None = self.state.value()
        state, matches, expired = self.nfa.advance(before or self.nfa.initial, at)
        outputs: list[tuple[Match, int | None]] = [*((match, deadline) for match, deadline in expired)]
        outputs += [(match, None) for match in matches]
        for event in events:
            state, matches = self.nfa.process(state, event, at, now)
            outputs += [(match, None) for match in matches]
            self._check_size(state, ctx)
        if state.empty:
            if before is not None:
                self.state.clear()
        elif state is not before:
            self.state.update(state)
            self._set_timer(state, ctx)
        for match, deadline in outputs:
            yield from self._results(match, deadline, PatternContext(ctx, at if deadline is None else deadline, now))

    def _set_timer(self, state: NfaState, ctx: Any) -> None:
        deadline = self.nfa.deadline(state)
        if deadline is None:
            return
        if self.settings.event_time:
            ctx.timer_service().register_event_time_timer(deadline)
        else:
            ctx.timer_service().register_processing_time_timer(deadline + 1)

    def _results(self, match: Match, deadline: int | None, ctx: PatternContext) -> Iterable[Any]:
        if deadline is None:
            return self.function.process_match(match, ctx) or ()
        if not isinstance(self.function, TimedOutPartialMatchHandler):
            return ()
        found = list(self.function.process_timed_out_match(match, ctx) or ())
        for each in found:
            if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], OutputTag)):
                raise InvalidProgram(
                    f"process_timed_out_match() emitted {each!r:.200}, but has side outputs only: yield (tag, record)."
                )
        return found

    def _check_size(self, state: NfaState, ctx: Any) -> None:
        count = len(state.partials)
        self.most = max(self.most, count)
        if count > self.settings.max_partial_matches:
            raise StateTooLarge(
                f"the pattern {self.pattern!r} has {count} partial matches for the key {ctx.get_current_key()!r}, more "
                f"than the bound of {self.settings.max_partial_matches}. Add within(...) or until(...) to the pattern, "
                "use a stricter contiguity, or raise the bound with set_max_partial_matches(...)."
            )
