"""From a stream and a pattern to a stream of results: ``CEP.pattern`` and ``PatternStream``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from funken import DataStream, InvalidProgram, KeyedStream, OutputTag
from funken.cep.compiler import compile_pattern
from funken.cep.functions import PatternProcessFunction, Selecting, SelectingTimeouts, callable_of
from funken.cep.operator import MatchPattern, Settings, one_key
from funken.cep.pattern import Pattern
from funken.config import MAX_PARTIAL_MATCHES
from funken.operators.calls import Call


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
    def pattern(stream: DataStream, pattern: Pattern, comparator: Any = None) -> PatternStream:
        """Return the pattern stream: per key of a keyed stream, else in one task for all events.

        ``comparator(a, b)`` below, equal to or above 0 orders events of one timestamp, as does an object with a method
        ``compare``; without one they are handled as they came.
        """
        if not isinstance(pattern, Pattern):
            raise InvalidProgram(f"CEP.pattern needs a Pattern, but got {pattern!r}.")
        compile_pattern(pattern)  # what is contradictory is refused here, not in the job
        compare = None if comparator is None else callable_of(comparator, "compare", "CEP.pattern")
        return PatternStream(stream, pattern, Settings(comparator=compare))

    @staticmethod
    def dynamic_patterns(stream: DataStream, rules: DataStream, build: Any, comparator: Any = None) -> PatternStream:
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
        from funken.cep.dynamic import dynamic_patterns  # noqa: PLC0415 - it derives from PatternStream

        return dynamic_patterns(stream, rules, build, comparator)


class PatternStream:
    """A stream in which a pattern is looked for; made by ``CEP.pattern``, immutable."""

    def __init__(self, stream: DataStream, pattern: Pattern, settings: Settings) -> None:
        self._stream = stream
        self._pattern = pattern
        self._settings = settings

    def in_event_time(self) -> PatternStream:
        """Handle events in the order of their timestamps, once the watermark has passed them (the default)."""
        return self._with(event_time=True)

    def in_processing_time(self) -> PatternStream:
        """Handle events as they come; windows are of processing time."""
        return self._with(event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream:
        """Send events that came behind the watermark to a side output; without it they are counted and dropped."""
        return self._with(late=late_data_output_tag)

    def process(self, pattern_process_function: PatternProcessFunction) -> DataStream:
        """Handle matches, and with a ``TimedOutPartialMatchHandler`` also what timed out."""
        if not isinstance(pattern_process_function, PatternProcessFunction):
            raise InvalidProgram(f"process() needs a PatternProcessFunction, but got {pattern_process_function!r}.")
        keyed = isinstance(self._stream, KeyedStream)
        stream = self._stream if isinstance(self._stream, KeyedStream) else self._stream.key_by(one_key)
        bound = stream.get_execution_environment().get_configuration().get(MAX_PARTIAL_MATCHES)
        settings = replace(self._settings, max_partial_matches=bound)
        spec = MatchPattern(Call(pattern_process_function, rich=True), stream.key, self._pattern, settings)
        found = stream._keyed("pattern", spec)
        return found if keyed else found.set_parallelism(1)

    def select(self, *functions: Any) -> DataStream:
        """Emit one record per match: ``select(select)``, or ``select(tag, timeout, select)``.

        ``select(match)`` returns the record; ``timeout(match, timestamp)`` that of a partial match that timed out,
        which goes to the side output ``tag``.
        """
        return self.process(_selecting("select", functions))

    def flat_select(self, *functions: Any) -> DataStream:
        """Emit any number of records per match; as ``select``, but the functions return iterables."""
        return self.process(_selecting("flat_select", functions))

    def explain(self) -> str:
        """Return the automaton as text, with what may cost memory or parallelism.

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
        notes = [] if isinstance(self._stream, KeyedStream) else ["not keyed: one task handles all events"]
        notes += [
            f"loop {name!r} has neither within() nor until(): its partial matches may grow without bound"
            for name in self._pattern.unbounded()
        ]
        return "\n".join([*notes, compile_pattern(self._pattern).explain()])

    def _with(self, **changes: Any) -> PatternStream:
        return PatternStream(self._stream, self._pattern, replace(self._settings, **changes))


def _selecting(method: str, functions: tuple[Any, ...]) -> PatternProcessFunction:
    flat = method == "flat_select"
    if len(functions) == 1:
        return Selecting(callable_of(functions[0], method, f"{method}()"), flat)
    if len(functions) == 3 and isinstance(functions[0], OutputTag):
        tag, timeout, select = functions
        on_timeout = callable_of(timeout, "timeout", f"{method}()")
        return SelectingTimeouts(callable_of(select, method, f"{method}()"), flat, tag, on_timeout)
    raise InvalidProgram(f"{method}() needs a function, or an OutputTag, a function for time-outs and a function.")
