"""The operator behind a pattern stream: runs one automaton for each key.

Event time: events wait until the watermark has passed them, and are handled in the order of their timestamps. They wait in a
list; before a checkpoint, or where state is in files and they are many, the list is moved into keyed state (a map from
timestamp to events), with a timer for each timestamp that brings them back. A timer of each key's next deadline makes
time-outs come without a further event. In processing time events are handled at once, or, if they are to be sorted by a
comparator, one millisecond later. A comparator needs all events of a timestamp: where some may be
in keyed state, the others go there, too.
In ``BATCH`` everything happens at the end of a key, in the same order.

The state of a key is written only when it changed, and deleted when no partial match is left. It is an ``NfaState``, which nobody
changes, so it needs no copies; events that a function of the program could change are copied before they are given to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cmp_to_key, partial
from itertools import groupby, repeat
from typing import Any

from funken import InvalidProgram, MapStateDescriptor, OutputTag, RuntimeContext, ValueStateDescriptor
from funken.cep.nfa import DROP, NEVER, Match, Nfa, NfaState, compile_pattern, note
from funken.cep.pattern import OpenedConditions, Pattern
from funken.config import MAX_PARTIAL_MATCHES
from funken.errors import StateTooLarge
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import FEW_MS, OF_TODAY, in_ms
from funken.sdk import (
    KeyedOperator,
    Operator,
    OperatorContext,
    Output,
    SideOutput,
    Timestamps,
    UserFunction,
    Values,
    check_arguments,
    check_function,
    check_result,
    check_several,
    normal_key,
    normal_keys,
)
from funken.types.callables import Generic, IN_contra, OUT_co, S

# ---- What a program does with matches: the functions of a pattern stream, and their context.


class PatternContext:
    """The context of a function that handles a match: times, rule, and side outputs.

    >>> from funken import OutputTag
    >>> from funken.cep import CEP, Pattern, PatternProcessFunction
    >>> from funken.testing import local
    >>> class Report(PatternProcessFunction):
    ...     def process_match(self, match, ctx):
    ...         ctx.output(OutputTag("log"), ctx.current_processing_time() >= ctx.timestamp())
    ...         yield match["a"]
    >>> pattern = Pattern.begin("a").where(lambda n: n > 1)
    >>> found = CEP.pattern(local([1, 2]), pattern).in_processing_time().process(Report())
    >>> found.execute_and_collect(limit=2)
    [[2]]
    """

    __slots__ = ("_now", "_output", "_rule", "_timestamp")

    def __init__(
        self, output: Callable[[OutputTag, Any], None], timestamp: int, now: int, rule: str | None = None
    ) -> None:
        self._output = output
        self._timestamp = timestamp
        self._now = now
        self._rule = rule

    def timestamp(self) -> int:
        """Return the time of the match: its last event's, or when it timed out (ms)."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self._now

    def rule_id(self) -> str | None:
        """Return the id of the rule whose pattern it is, with ``CEP.dynamic_patterns``; else ``None``."""
        return self._rule

    def output(self, output_tag: OutputTag[S], value: S) -> None:
        """Send a value to a side output, as ``yield output_tag, value`` does."""
        self._output(output_tag, value)


class PatternProcessFunction(Generic[IN_contra, OUT_co]):
    """Handles matches; override ``process_match``. A match is a dictionary from pattern names to lists of events.

    >>> from funken.cep import CEP, Pattern
    >>> from funken.testing import local
    >>> class Lengths(PatternProcessFunction):
    ...     def process_match(self, match, ctx):
    ...         for name, events in match.items():
    ...             yield name, len(events)
    >>> pattern = Pattern.begin("up").where(lambda n: n > 0).times(2).consecutive().next("down").where(lambda n: n < 0)
    >>> found = CEP.pattern(local([1, 2, -1]), pattern).in_processing_time().process(Lengths())
    >>> found.execute_and_collect(limit=9)
    [('up', 2), ('down', 1)]
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare, before the first match."""

    def close(self) -> None:
        """Release the resources of ``open``."""

    def process_match(self, match: Match[IN_contra], ctx: PatternContext) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield records; ``(OutputTag, record)`` goes to a side output."""
        raise NotImplementedError


class TimedOutPartialMatchHandler(Generic[IN_contra]):
    """Added to a ``PatternProcessFunction``, it handles partial matches that timed out; for side outputs only.

    >>> from funken import OutputTag, WatermarkStrategy
    >>> from funken.cep import CEP, Pattern, PatternProcessFunction
    >>> from funken.testing import local
    >>> unpaid = OutputTag("unpaid")
    >>> class Orders(PatternProcessFunction, TimedOutPartialMatchHandler):
    ...     def process_match(self, match, ctx):
    ...         yield match["order"][0]
    ...     def process_timed_out_match(self, match, ctx):
    ...         yield unpaid, (match["order"][0], ctx.timestamp())
    >>> pattern = Pattern.begin("order").where(lambda e: e[0] == "order").followed_by("paid").within(10)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
    >>> events = local([("order", 5)]).assign_timestamps_and_watermarks(strategy)
    >>> orders = CEP.pattern(events, pattern).process(Orders())
    >>> orders.get_side_output(unpaid).execute_and_collect(limit=9)
    [(('order', 5), 15)]
    """

    def process_timed_out_match(self, match: Match[IN_contra], ctx: PatternContext) -> Iterable[SideOutput] | None:
        """Send to side outputs with ``ctx.output``, or yield ``(OutputTag, record)``."""
        raise NotImplementedError


class Selecting(PatternProcessFunction[Any, Any]):
    """``select`` and ``flat_select``: the match goes to a function, whose results are emitted."""

    def __init__(self, function: Callable[[Match], Any], flat: bool) -> None:
        self.function = function
        self.flat = flat

    def process_match(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None:
        """Emit the function's result."""
        found = self.function(match)
        if self.flat and found is not None:
            check_several(found, tuples=False)
        return (found if found is not None else ()) if self.flat else (found,)


class SelectingTimeouts(Selecting, TimedOutPartialMatchHandler[Any]):
    """The same, and another function's results for time-outs go to a side output."""

    def __init__(self, function: Callable[[Match], Any], flat: bool, tag: OutputTag, timeout: Any) -> None:
        super().__init__(function, flat)
        self.tag = tag
        self.timeout = timeout

    def process_timed_out_match(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None:
        """Emit the function's result for the match and the time at which it timed out."""
        found = self.timeout(match, ctx.timestamp())
        for each in (found if found is not None else ()) if self.flat else (found,):
            ctx.output(self.tag, each)
        return None


def callable_of(function: Any, method: str, role: str) -> Callable[..., Any]:
    """Return the method of that name, or the callable itself; raise ``InvalidProgram`` if it is neither."""
    found = getattr(function, method, None)
    if found is None and callable(function):
        found = function
    if not callable(found) or isinstance(function, type):
        raise InvalidProgram(f"{role} needs a function, or an object with a method {method}(), but got {function!r}.")
    check_function(function, method, role, several=method == "flat_select")
    check_arguments(function, method, role)
    check_result(found, method, role)
    bound: Callable[..., Any] = found
    return bound


STATE, EVENTS = "cep-matches", "cep-events"
_MOST_WAITING = 100_000
"""Maximal number of events that wait in memory where state is in files."""
_FLUSH = 4096
"""Maximal number of results that are held back."""


@dataclass(frozen=True)
class Settings:
    """The settings of a pattern stream besides the pattern."""

    comparator: Callable[[Any, Any], int] | None = None
    event_time: bool = True
    late: OutputTag | None = None
    max_partial_matches: int = MAX_PARTIAL_MATCHES.default

    def in_order(self, events: list[Any]) -> list[Any]:
        """Return events of one time in their order."""
        return events if self.comparator is None else sorted(events, key=cmp_to_key(self.comparator))

    def sorted(self, times: list[int], events: list[Any], key_of: Callable[[Any], Any]) -> list[Any]:
        """Return events that are in the order of their times with those of one time and key in their order."""
        found: list[Any] = []
        for _, places in groupby(range(len(times)), key=times.__getitem__):
            by_key: dict[Any, list[Any]] = {}
            for place in places:
                by_key.setdefault(normal_key(key_of(events[place])), []).append(events[place])
            for same in by_key.values():
                found += same if len(same) == 1 else self.in_order(same)
        return found


@dataclass(frozen=True)
class MatchPattern:
    """Finds the matches of a pattern among the events of each key, and passes them to a ``PatternProcessFunction``."""

    function: PatternProcessFunction
    pattern: Pattern
    settings: Settings

    def build(self) -> Operator:
        """Make the logic."""
        return MatchPatternLogic(self)

    def machine(self) -> Any:
        """Return the machine that finds the matches, ready to run: an ``Nfa``, or an object with its methods."""
        return Nfa(compile_pattern(self.pattern))


class MatchPatternLogic(KeyedOperator):
    """One automaton, and a table from keys to the state of their events."""

    keeps_output = False

    def __init__(self, spec: MatchPattern) -> None:
        self._spec = spec
        self._settings = spec.settings
        self._user = spec.function
        self._handles_timeouts = isinstance(self._user, TimedOutPartialMatchHandler)
        self._opened = OpenedConditions()
        #: events that wait for the watermark, and their timestamps
        self._waiting: Values = []
        self._few_ms = 0 < spec.pattern.window <= FEW_MS
        self._times: list[int] = []
        #: the times of which events are in keyed state, in event time and since the operator was made
        self._stored: set[int] = set()
        #: the most partial matches that a key has had
        self.most = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Store the events that wait before every snapshot."""
        super().setup(context, output)
        context.before_snapshot.append(self._store_waiting)

    def open(self) -> None:
        """Open the conditions, compile the pattern, find the state, and open the function."""
        self._opened.open(self._spec.pattern.tests(), RuntimeContext(self.context))
        self._nfa = self._spec.machine()
        if self._few_ms and not self._settings.event_time:
            self._warn_of_units()
        self._states = self.state(ValueStateDescriptor(STATE)).table
        self._events = self.state(MapStateDescriptor(EVENTS))
        metrics = self.context.metrics
        self._dropped = metrics.counter("numLateRecordsDropped")
        metrics.gauge("maxPartialMatchesOfAKey", lambda: self.most)
        UserFunction(self._user, rich=True).open(self.context)

    def close(self) -> None:
        """Close the function and the conditions."""
        with closing(self._opened):
            self._user.close()

    # ---- events come

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Let the events of a block wait for their time; in processing time without a comparator it has come."""
        if not self._settings.event_time:
            super().process(values, timestamps)
            return
        first = MIN_TIMESTAMP if timestamps is None else min(timestamps, default=MAX_WATERMARK)
        if timestamps is None or first == MIN_TIMESTAMP:
            raise InvalidProgram(
                "a pattern in event time needs timestamps, but a record has none. Call "
                "assign_timestamps_and_watermarks(...) before, or in_processing_time() on the pattern stream."
            )
        if self._few_ms and first > OF_TODAY:
            self._warn_of_units()
        if first > self.current_watermark:
            self._times += timestamps
            self._waiting += values
        else:
            self._without_late(values, timestamps)
        if self.state_in_files and len(self._waiting) > _MOST_WAITING:
            self._store_waiting()

    def _warn_of_units(self) -> None:
        self._few_ms = False
        self.context.warn("units", in_ms("its matches are within", self._spec.pattern.window))

    def _without_late(self, values: Values, timestamps: list[int]) -> None:
        late = self._settings.late
        for value, at in zip(values, timestamps, strict=True):
            if at > self.current_watermark:
                self._times.append(at)
                self._waiting.append(value)
            elif late is not None:
                self.emit_side(late, value, at)
            else:
                self._dropped.inc()
        self.flush()

    def process_element(self, value: Any, timestamp: int | None) -> None:
        """Handle an event in processing time; with a comparator, one millisecond later."""
        now = self.current_processing_time()
        if self._settings.comparator is not None:
            self._put(now, value)
            self.register_processing_time_timer(now + 1)
        else:
            self._handle(now, (value,), MIN_TIMESTAMP if timestamp is None else timestamp)

    def _store_waiting(self) -> None:
        """Move the events that wait into keyed state."""
        times, waiting, self._times, self._waiting = self._times, self._waiting, [], []
        self._keep(times, waiting)

    def _keep(self, times: list[int], events: Values) -> None:
        for at, value in zip(times, events, strict=True):
            self.current_key = normal_key(self.keys[0](value))
            self._put(at, value)
            self.register_event_time_timer(at)
        self.flush()

    def _put(self, at: int, value: Any) -> None:
        if self._settings.event_time:
            self._stored.add(at)
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
            self.fire_processing_time_timers(MAX_WATERMARK)
        self.fire_event_time_timers(watermark)
        if self._stored:
            self._stored = {at for at in self._stored if at > watermark}
        self.flush()
        self.output.watermark(watermark)

    def _handle_waiting(self, watermark: int) -> None:
        """Handle the events in the list that are due, and the timers that are due before each."""
        times, events = self._times, self._waiting
        in_order = sorted(times)
        if in_order != times:
            events = [events[place] for place in sorted(range(len(times)), key=times.__getitem__)]
        count = bisect_right(in_order, watermark)
        self._times, self._waiting = in_order[count:], events[count:]
        del in_order[count:], events[count:]
        if self._settings.comparator is not None:
            if self.context.restored or not self._stored.isdisjoint(in_order):  # the others of a time may be in state
                self._keep(in_order, events)
                return
            events = self._settings.sorted(in_order, events, self.keys[0])
        nfa, find, due = self._nfa, self._states.get, self.event_times
        begin, process, deadline, gate, starts = nfa.begin, nfa.process, nfa.deadline, nfa.gate(), nfa.starts
        now, reached = self.current_processing_time(), MIN_TIMESTAMP
        masks = nfa.masks(events)
        if gate is not None and masks is not None and gate.bit:
            gate = None  # the mask knows
        passes = None if gate is None else gate.function
        keys = normal_keys(list(map(self.keys[0], events)))
        # Hot: once per event.
        for at, value, key, mask in zip(in_order, events, keys, masks or repeat(None), strict=False):
            if at != reached:
                reached = at
                if due and due[0] <= at:
                    self.fire_event_time_timers(at)
            state = find(key)
            if state is None:
                if starts.get(mask) is DROP:
                    continue
                if passes is not None:
                    try:
                        if not passes(value):
                            continue
                    except Exception as error:
                        note(error, value)
                        raise
                begun = begin(value, at, now, gate, mask)
                if begun is not None:
                    after, matches = begun
                    self._finish(key, None, after, matches, (), at, now, at)
            else:
                end = state.deadline
                if (deadline(state) if end is None else end) > at:
                    after, matches = process(state, value, at, now, mask)
                    if after is state:
                        continue
                    if len(after.partials) > self.most:
                        self._check_size(after, key)
                    self._finish(key, state, after, matches, (), at, now, at)
                else:
                    self._step(key, state, at, (value,), now, at)

    def on_event_time(self, timestamp: int) -> None:
        """Handle the events that were stored for this time, and the end of a window."""
        self._take_stored(timestamp, timestamp)

    def on_processing_time(self, timestamp: int) -> None:
        """Do the same in processing time, where both are due one millisecond later."""
        self._take_stored(timestamp - 1, MIN_TIMESTAMP)

    def _take_stored(self, due: int, stamp: int) -> None:
        events = None
        if due in self._stored or self.context.restored or not self._settings.event_time:
            events = self._events.get(due)
        if events is not None:
            self._events.remove(due)
            self._handle(due, self._settings.in_order(events), stamp)
            return
        state = self._states.get(self.current_key)
        if state is not None and self._nfa.deadline(state) <= due:  # else the timer is of a state that is gone
            self._handle(due, (), stamp)

    # ---- an event is handled

    def _handle(self, at: int, events: Iterable[Any], stamp: int) -> None:
        key = self.current_key
        self._step(key, self._states.get(key), at, events, self.current_processing_time(), stamp)

    def _step(self, key: Any, before: NfaState | None, at: int, events: Iterable[Any], now: int, stamp: int) -> None:
        """Let time reach ``at``, then handle its events in their order; results are stamped with ``stamp``."""
        nfa = self._nfa
        state = before or nfa.initial
        matches: list[Match] = []
        expired: list[tuple[Match, int]] = []
        if before is not None and nfa.deadline(before) <= at:
            state, matches, expired = nfa.advance(before, at)
        for event in events:
            if state is not nfa.initial:
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
        """Write the state if it changed, and pass matches and time-outs to the function."""
        if state is self._nfa.initial:
            if before is not None:
                del self._states[key]
        elif state is not before:
            self._states[key] = state
            deadline = self._nfa.deadline(state)
            if deadline != NEVER and (before is None or deadline != before.deadline):
                self.current_key = key
                if self._settings.event_time:
                    self.register_event_time_timer(deadline)
                else:
                    self.register_processing_time_timer(deadline + 1)
        if matches or expired:
            self._give(key, matches, expired, at, now, stamp, shared=state is not self._nfa.initial)

    def _give(
        self, key: Any, matches: list[Match], expired: Iterable[Any], at: int, now: int, stamp: int, shared: bool
    ) -> None:
        """Call the function; ``shared``: events of the matches are kept, so it gets copies of those it could change."""
        user, own = self._user, self.own if shared or len(matches) > 1 or expired else None
        self.current_key = key
        event_time = self._settings.event_time
        if self._handles_timeouts:
            for match, deadline in expired:
                ended = deadline if event_time else MIN_TIMESTAMP
                context = PatternContext(partial(self._side, ended), deadline, now)
                given = match if own is None else {name: own(events) for name, events in match.items()}
                made = user.process_timed_out_match(given, context)  # type: ignore[attr-defined]
                self.emit_results(side_outputs(made), ended)
        simple = user.function if type(user) is Selecting and not user.flat else None
        context = PatternContext(partial(self._side, stamp), at, now)
        for match in matches:
            given = match if own is None else {name: own(events) for name, events in match.items()}
            if simple is not None:
                self.emit_result(simple(given), stamp)
            else:
                made = user.process_match(given, context)
                if made is not None and not isinstance(user, Selecting):
                    check_several(made, tuples=False)
                self.emit_results(made, stamp)
        self.flush(_FLUSH)

    def _side(self, stamp: int, tag: OutputTag, value: Any) -> None:
        self.emit_side(tag, value, stamp)

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
        f"until(...) to the pattern (WITHIN to MATCH_RECOGNIZE), use a stricter contiguity, or raise {MAX_PARTIAL_MATCHES.key}."
    )


def side_outputs(made: Iterable[Any] | None) -> list[Any]:
    """Return the results of a time-out; raise ``InvalidProgram`` if they are not for side outputs."""
    found = list(made or ())
    for each in found:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], OutputTag)):
            raise InvalidProgram(
                f"process_timed_out_match() emitted {each!r:.200}, but has side outputs only: yield (tag, record)."
            )
    return found
