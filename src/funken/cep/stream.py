"""``PatternStream``: a stream, a pattern, and the results of its matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, overload

from funken import DataStream, InvalidProgram, KeyedBroadcastProcessFunction, KeyedStream, MapStateDescriptor, OutputTag
from funken.cep.nfa import NEVER, Match, Nfa, NfaState, compile_pattern
from funken.cep.operator import (
    EVENTS,
    STATE,
    MatchPattern,
    PatternContext,
    PatternProcessFunction,
    Selecting,
    SelectingTimeouts,
    Settings,
    TimedOutPartialMatchHandler,
    callable_of,
    one_key,
    side_outputs,
    too_many,
)
from funken.cep.pattern import OpenedConditions, Pattern
from funken.config import MAX_PARTIAL_MATCHES
from funken.config.configuration import warn
from funken.ids import MAX_WATERMARK
from funken.sdk import OperatorSpec, check_methods, check_several, copied_block
from funken.types.callables import Generic, IN_contra, OUT_co, R, S, T, T_co, T_contra, V


class _Select(Protocol[T, OUT_co]):
    def select(self, match: Match[T], /) -> OUT_co: ...


class _FlatSelect(Protocol[T, OUT_co]):
    def flat_select(self, match: Match[T], /) -> Iterable[OUT_co]: ...


class _Timeout(Protocol[T, OUT_co]):
    def timeout(self, match: Match[T], timestamp: int, /) -> OUT_co: ...


class _Compare(Protocol[T_contra]):
    def compare(self, one: T_contra, other: T_contra, /) -> int: ...


class _Build(Protocol[IN_contra, OUT_co]):
    def build(self, definition: IN_contra, /) -> OUT_co: ...


Selects: TypeAlias = Callable[[Match[T]], V] | _Select[T, V]
SelectsSeveral: TypeAlias = Callable[[Match[T]], Iterable[V]] | _FlatSelect[T, V]
TimesOut: TypeAlias = Callable[[Match[T], int], V] | _Timeout[T, V]
Compares: TypeAlias = Callable[[T, T], int] | _Compare[T]


def _check_process(function: object) -> None:
    """Raise ``InvalidProgram`` unless it is an object of a ``PatternProcessFunction`` with its method."""
    if not isinstance(function, PatternProcessFunction):
        is_class = isinstance(function, type) and issubclass(function, PatternProcessFunction)
        remedy = f"Give an object: {function.__name__}()." if is_class else "select() takes a function of the match."  # type: ignore[attr-defined]
        raise InvalidProgram(f"process() needs a PatternProcessFunction, but got {function!r}. {remedy}")
    check_methods(function, PatternProcessFunction, "process()")


class PatternStream(Generic[T_co]):
    """A stream in which a pattern is looked for; made by ``CEP.pattern``, immutable."""

    def __init__(self, stream: DataStream[T_co], pattern: Pattern[T_co, Any], settings: Settings) -> None:
        self._stream = stream
        self._pattern = pattern
        self._settings = settings

    def in_event_time(self) -> PatternStream[T_co]:
        """Handle events in the order of their timestamps, once the watermark has passed them (the default)."""
        return self._with(event_time=True)

    def in_processing_time(self) -> PatternStream[T_co]:
        """Handle events as they come; windows are of processing time."""
        return self._with(event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag[T_co]) -> PatternStream[T_co]:
        """Send events that came behind the watermark to a side output; without it they are counted and dropped."""
        return self._with(late=late_data_output_tag)

    def process(self, pattern_process_function: PatternProcessFunction[T_co, R]) -> DataStream[R]:
        """Handle matches, and with a ``TimedOutPartialMatchHandler`` also time-outs."""
        _check_process(pattern_process_function)
        if isinstance(pattern_process_function, SelectingTimeouts) and not self._pattern.ends():
            warn(
                f"the pattern of {', '.join(self._pattern.names())} has no within(), so no partial match times out, and the "
                "function for time-outs is never called. Bound the pattern, as with within('10 s')."
            )
        keyed = isinstance(self._stream, KeyedStream)
        stream = self._stream if isinstance(self._stream, KeyedStream) else self._stream.key_by(one_key)
        bound = stream.get_execution_environment().get_configuration().get(MAX_PARTIAL_MATCHES)
        settings = replace(self._settings, max_partial_matches=bound)
        found = stream.transform("pattern", self._spec(pattern_process_function, settings))
        return found if keyed else found.set_parallelism(1)

    def _spec(self, function: PatternProcessFunction, settings: Settings) -> OperatorSpec:
        return MatchPattern(function, self._pattern, settings)

    @overload
    def select(self, function: Selects[T_co, R], /) -> DataStream[R]: ...
    @overload
    def select(self, tag: OutputTag[S], timeout: TimesOut[T_co, S], select: Selects[T_co, R], /) -> DataStream[R]: ...
    def select(self, *functions: object) -> DataStream[Any]:
        """Emit one record per match: ``select(select)``, or ``select(tag, timeout, select)``.

        ``select(match)`` returns the record; ``timeout(match, timestamp)`` that of a partial match that timed out,
        which goes to the side output ``tag``.
        """
        return self.process(_selecting("select", functions))

    @overload
    def flat_select(self, function: SelectsSeveral[T_co, R], /) -> DataStream[R]: ...
    @overload
    def flat_select(
        self, tag: OutputTag[S], timeout: TimesOut[T_co, Iterable[S]], flat_select: SelectsSeveral[T_co, R], /
    ) -> DataStream[R]: ...
    def flat_select(self, *functions: object) -> DataStream[Any]:
        """Emit any number of records per match; as ``select``, but the functions return iterables."""
        return self.process(_selecting("flat_select", functions))

    def explain(self, style: str = "text") -> str:
        """Return the automaton as ``text``, with possible costs in memory or parallelism, or in Graphviz's ``dot``.

        >>> from funken.cep import CEP
        >>> from funken.testing import local
        >>> print(CEP.pattern(local([1]), Pattern.begin("a").one_or_more()).explain())
        not keyed: one task handles all events
        loop 'a' has neither within() nor until(): its partial matches may grow without bound
        3 a (start)
            take -> 1 a (loop)
        2 a (loop, required)
            take -> 1 a (loop)
            ignore if not true -> 2 a (loop, required)
        1 a (loop)
            take -> 1 a (loop)
            ignore if not true -> 2 a (loop, required)
            proceed -> 0 final
        0 final
        """
        if style not in {"text", "dot"}:
            raise InvalidProgram(f"explain() returns 'text' or 'dot', but got {style!r}.")
        if style == "dot":
            return compile_pattern(self._pattern).dot()
        notes = [] if isinstance(self._stream, KeyedStream) else ["not keyed: one task handles all events"]
        notes += [
            f"loop {name!r} has neither within() nor until(): its partial matches may grow without bound"
            for name in self._pattern.unbounded()
        ]
        return "\n".join([*notes, compile_pattern(self._pattern).explain()])

    def _with(self, **changes: Any) -> PatternStream[T_co]:
        return PatternStream(self._stream, self._pattern, replace(self._settings, **changes))


def _selecting(method: str, functions: tuple[Any, ...]) -> PatternProcessFunction[Any, Any]:
    flat = method == "flat_select"
    if len(functions) == 1:
        return Selecting(callable_of(functions[0], method, f"{method}()"), flat)
    if len(functions) == 3 and isinstance(functions[0], OutputTag):
        tag, timeout, select = functions
        on_timeout = callable_of(timeout, "timeout", f"{method}()")
        return SelectingTimeouts(callable_of(select, method, f"{method}()"), flat, tag, on_timeout)
    raise InvalidProgram(f"{method}() needs a function, or an OutputTag, a function for time-outs and a function.")


# ---- Patterns that change while the job runs: rules come in a stream of their own, and every task has all of them.
#
# A rule has an id, a version and what the program makes a pattern of; of two rules with one id, that with the
# higher version counts, so it does not matter in which order tasks get them. State is kept for each key and rule:
# when a rule is replaced or withdrawn, its partial matches are dropped, without a time-out, and those of other
# rules stay as they are. A rule holds for the events that are handled after it came; in event time an event is
# handled when the watermark has passed it.
#
# Rules are kept in broadcast state, and are what a checkpoint holds: plain data, not patterns, whose conditions may
# be lambdas.


RULES = MapStateDescriptor("cep-rules")


@dataclass(frozen=True)
class PatternRule(Generic[V]):
    """An element of a stream of rules; without ``definition`` the rule is withdrawn.

    >>> PatternRule("large", 2, {"above": 500})
    PatternRule(id='large', version=2, definition={'above': 500})
    """

    id: str
    version: int
    definition: V | None = None


class DynamicPatternStream(PatternStream[T_co], Generic[T_co]):
    """A stream in which the patterns of a stream of rules are looked for; made by ``CEP.dynamic_patterns``, immutable."""

    def __init__(
        self, stream: DataStream[T_co], rules: DataStream, build: Callable[[Any], Pattern], settings: Settings
    ) -> None:
        super().__init__(stream, Pattern.begin("rules"), settings)
        self._rules = rules
        self._build = build

    def process(self, pattern_process_function: PatternProcessFunction[T_co, R]) -> DataStream[R]:
        """Handle matches; ``ctx.rule_id()`` tells of which rule. As with one pattern, time-outs can be handled, too."""
        _check_process(pattern_process_function)
        keyed = isinstance(self._stream, KeyedStream)
        stream = self._stream if keyed else self._stream.key_by(one_key)
        bound = stream.get_execution_environment().get_configuration().get(MAX_PARTIAL_MATCHES)
        operator = MatchRules(self._build, replace(self._settings, max_partial_matches=bound), pattern_process_function)
        found: DataStream = stream.connect(self._rules.broadcast(RULES)).process(operator).name("patterns")
        return found if keyed else found.set_parallelism(1)

    def explain(self, style: str = "text") -> str:
        """Return the facts that are known before there are rules."""
        notes = [] if isinstance(self._stream, KeyedStream) else ["not keyed: one task handles all events"]
        return "\n".join([*notes, "patterns of rules"])

    def _with(self, **changes: Any) -> PatternStream[T_co]:
        return DynamicPatternStream(self._stream, self._rules, self._build, replace(self._settings, **changes))


class MatchRules(KeyedBroadcastProcessFunction):
    """Finds the matches of all rules among the events of each key."""

    def __init__(self, build: Callable[[Any], Pattern], settings: Settings, function: PatternProcessFunction) -> None:
        self.build = build
        self.settings = settings
        self.function = function
        self.handles_timeouts = isinstance(function, TimedOutPartialMatchHandler)
        self.compiled: dict[tuple[str, int], Nfa] = {}
        self.opened: dict[str, OpenedConditions] = {}
        self.most = 0

    def open(self, runtime_context: Any) -> None:
        """Find the state, and open the function."""
        self.batch = runtime_context._context.batch  # there, timers cannot register others
        self.states = runtime_context.get_map_state(MapStateDescriptor(STATE))
        self.events = runtime_context.get_map_state(MapStateDescriptor(EVENTS))
        metrics = runtime_context.get_metrics_group()
        self.dropped = metrics.counter("numLateRecordsDropped")
        metrics.gauge("maxPartialMatchesOfAKey", lambda: self.most)
        self.runtime_context = runtime_context
        self.function.open(runtime_context)

    def close(self) -> None:
        """Close the function, and the conditions of all rules."""
        with ExitStack() as stack:
            for opened in self.opened.values():
                stack.callback(opened.close)
            self.function.close()

    # ---- rules come

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        """Take a rule, unless a newer one of its id is there; one that makes no pattern fails the job."""
        if not isinstance(value, PatternRule):
            raise InvalidProgram(
                f"a stream of rules consists of PatternRule(id, version, definition), but got {value!r:.200}."
            )
        rules = ctx.get_broadcast_state(RULES)
        known = rules.get(value.id)
        if known is None or known[0] < value.version:
            if value.definition is not None:
                self._nfa(value.id, value.version, value.definition)
            rules.put(value.id, (value.version, value.definition))

    def _nfa(self, name: str, version: int, definition: Any) -> Nfa:
        found = self.compiled.get((name, version))
        if found is None:
            pattern = self.build(definition)
            if not isinstance(pattern, Pattern):
                raise InvalidProgram(
                    f"the rule {name!r} has made no Pattern of {definition!r:.200}, but {pattern!r:.200}."
                )
            self.compiled = {key: nfa for key, nfa in self.compiled.items() if key[0] != name}
            if name in self.opened:
                self.opened.pop(name).close()
            opened = self.opened[name] = OpenedConditions()
            opened.open(pattern.tests(), self.runtime_context)
            found = self.compiled[name, version] = Nfa(compile_pattern(pattern))
        return found

    # ---- events come

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Keep the event until its time has come; in processing time without a comparator it has."""
        timers = ctx.timer_service()
        if self.batch:
            timers.register_event_time_timer(MAX_WATERMARK)  # all windows end with the input
        if not self.settings.event_time:
            now = timers.current_processing_time()
            if self.settings.comparator is None:
                return self._handle(now, [value], ctx)
            self._keep(now, value)
            timers.register_processing_time_timer(now + 1)
            return None
        at = ctx.timestamp()
        if at is None:
            raise InvalidProgram(
                "a pattern in event time needs timestamps, but a record has none. Call "
                "assign_timestamps_and_watermarks(...) before, or in_processing_time() on the pattern stream."
            )
        if at > timers.current_watermark():
            self._keep(at, value)
            timers.register_event_time_timer(at)
        elif self.settings.late is not None:
            ctx.output(self.settings.late, value)
        else:
            self.dropped.inc()
        return None

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Handle the events of this time, or the end of a window."""
        at = timestamp if self.settings.event_time else timestamp - 1
        events = self.events.get(at) or []
        if events:
            self.events.remove(at)
        return self._handle(at, self.settings.in_order(events), ctx)

    def _keep(self, at: int, value: Any) -> None:
        self.events.put(at, [*(self.events.get(at) or ()), value])

    def _handle(self, at: int, events: list[Any], ctx: Any) -> Iterator[Any]:
        now = ctx.timer_service().current_processing_time()
        rules = dict(ctx.get_broadcast_state(RULES).items())
        kept = dict(self.states.items())
        deadlines = set()
        for name in kept.keys() - {name for name, (_, definition) in rules.items() if definition is not None}:
            self.states.remove(name)
        for name, (version, definition) in rules.items():
            if definition is None:
                continue
            nfa = self._nfa(name, version, definition)
            known = kept.get(name)
            before = known[1] if known is not None and known[0] == version else nfa.initial
            state, matches, expired = nfa.advance(before, at)
            for event in events:
                state, found = nfa.process(state, event, at, now)
                matches = [*matches, *found]
            self._write(name, version, state, before, known, ctx)
            deadlines.add(nfa.deadline(state))
            yield from self._results(name, matches, expired, at, now, ctx)
        for deadline in () if self.batch else deadlines - {NEVER}:
            if self.settings.event_time:
                ctx.timer_service().register_event_time_timer(deadline)
            else:
                ctx.timer_service().register_processing_time_timer(deadline + 1)

    def _write(self, name: str, version: int, state: NfaState, before: NfaState, known: Any, ctx: Any) -> None:
        if len(state.partials) > self.most:
            self.most = len(state.partials)
            if self.most > self.settings.max_partial_matches:
                raise too_many(f"rule {name!r}", self.most, self.settings.max_partial_matches, ctx.get_current_key())
        if state.empty:
            if known is not None:
                self.states.remove(name)
        elif state is not before:
            self.states.put(name, (version, state))

    def _results(
        self, name: str, matches: list[Match], expired: list[tuple[Match, int]], at: int, now: int, ctx: Any
    ) -> Iterator[Any]:
        for match, deadline in expired if self.handles_timeouts else ():
            context = PatternContext(ctx.output, deadline, now, name)
            yield from side_outputs(self.function.process_timed_out_match(_own(match), context))  # type: ignore[attr-defined]
        for match in matches:
            made = self.function.process_match(_own(match), PatternContext(ctx.output, at, now, name))
            if made is not None:
                if not isinstance(self.function, Selecting):
                    check_several(made, tuples=False)
                yield from made


def _own(match: Match) -> Match:
    """Return a match whose events a function may change."""
    return {name: copied_block(events) for name, events in match.items()}


def dynamic_patterns(stream: DataStream[T], rules: DataStream, build: Any, comparator: Any) -> DynamicPatternStream[T]:
    """Return the pattern stream; see ``CEP.dynamic_patterns``."""
    compare = None if comparator is None else callable_of(comparator, "compare", "CEP.dynamic_patterns")
    make = callable_of(build, "build", "CEP.dynamic_patterns")
    return DynamicPatternStream(stream, rules, make, Settings(comparator=compare))


# ---- From a stream and a pattern to a pattern stream: ``CEP``.


class CEP:
    """Looks for patterns in streams.

    >>> from funken import WatermarkStrategy
    >>> from funken.cep import Pattern
    >>> from funken.testing import local
    >>> by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
    >>> payments = local([("ann", 1, 2), ("bob", 2, 3), ("ann", 3, 900), ("bob", 4, 4)])
    >>> payments = payments.assign_timestamps_and_watermarks(by_time).key_by(lambda e: e[0])
    >>> small_then_large = (
    ...     Pattern.begin("small").where(lambda e: e[2] < 10).next("large").where(lambda e: e[2] > 500).within(60_000)
    ... )
    >>> CEP.pattern(payments, small_then_large).select(lambda match: match["large"][0]).execute_and_collect(limit=9)
    [('ann', 3, 900)]
    """

    @staticmethod
    def pattern(
        stream: DataStream[T], pattern: Pattern[Any, Any], comparator: Compares[T] | None = None
    ) -> PatternStream[T]:
        """Return the pattern stream: per key of a keyed stream, else in one task for all events.

        ``comparator(a, b)`` below, equal to or above 0 orders events of one timestamp, as does an object with a method
        ``compare``; without one they are handled as they came.
        """
        if not isinstance(pattern, Pattern) or not isinstance(stream, DataStream):
            raise InvalidProgram(
                f"CEP.pattern() needs a stream, then a Pattern, but got {stream!r} and {pattern!r}. "
                "Pattern.begin('name') begins one."
            )
        compile_pattern(pattern)  # what is contradictory is refused here, not in the job
        compare = None if comparator is None else callable_of(comparator, "compare", "CEP.pattern")
        return PatternStream(stream, pattern, Settings(comparator=compare))

    @staticmethod
    def dynamic_patterns(
        stream: DataStream[T],
        rules: DataStream[PatternRule[V]],
        build: Callable[[V], Pattern[Any, Any]] | _Build[V, Pattern[Any, Any]],
        comparator: Compares[T] | None = None,
    ) -> PatternStream[T]:
        """Return a pattern stream whose patterns come in the stream ``rules``, and change while the job runs.

        ``rules`` consists of ``PatternRule(id, version, definition)``; ``build(definition)`` makes a pattern of plain data.
        Of two rules with one id the higher version counts; the partial matches of the other are dropped, those of other
        rules are not.

        >>> from funken import WatermarkStrategy
        >>> from funken.cep import CEP, Pattern, PatternProcessFunction, PatternRule
        >>> from funken.testing import local
        >>> class Report(PatternProcessFunction):
        ...     def process_match(self, match, ctx):
        ...         yield ctx.rule_id(), match["high"]
        >>> def above(limit):
        ...     return Pattern.begin("high").where(lambda price: price > limit)
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda price, _: price)
        >>> prices = local([3, 40, 600]).assign_timestamps_and_watermarks(strategy)
        >>> rules = prices.get_execution_environment().from_collection([PatternRule("much", 1, 500)])
        >>> CEP.dynamic_patterns(prices, rules, above).process(Report()).execute_and_collect(limit=9)
        [('much', [600])]
        """
        return dynamic_patterns(stream, rules, build, comparator)
