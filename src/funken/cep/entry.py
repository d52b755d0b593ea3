"""From a stream and a pattern to a pattern stream: ``CEP``."""

from __future__ import annotations

from typing import Any

from funken import DataStream, InvalidProgram
from funken.cep.compiler import compile_pattern
from funken.cep.dynamic import dynamic_patterns
from funken.cep.functions import callable_of
from funken.cep.operator import Settings
from funken.cep.pattern import Pattern
from funken.cep.stream import PatternStream


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
        return dynamic_patterns(stream, rules, build, comparator)
