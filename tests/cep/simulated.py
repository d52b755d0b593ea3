"""Programs of patterns for the simulation: what they find does not depend on the parallelism nor on who works first.

Every record has a timestamp of its own, so events of a key are in one order; at any moment most keys have partial matches
and events that wait for the watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from funken import (
    DataGeneratorSource,
    DataStream,
    KeyedStream,
    OutputTag,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    PatternRule,
    TimedOutPartialMatchHandler,
    match_recognize,
)
from tests.support.simulation.scenarios import Wide

EXPIRED = OutputTag("expired")
STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 7)
OUT_OF_ORDER = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=60)).with_timestamp_assigner(
    lambda n, _: n // 8 * 56 + (n * 5) % 8 * 7
)


def rises(n: int, ctx: Any) -> bool:
    earlier = ctx.get_events_for_pattern("up")
    return n * 7919 % 101 > (earlier[-1] * 7919 % 101 if earlier else 0)


def flat(match: dict[str, list[int]]) -> tuple[Any, ...]:
    return tuple((name, tuple(events)) for name, events in match.items())


def remainder(divisor: int) -> Pattern:
    pattern = Pattern.begin("a").where(lambda n: n % divisor == 0).followed_by("b")
    return pattern.where(lambda n: n % divisor == 1).within(70 * divisor)


class ByRule(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match: dict[str, list[int]], ctx: Any) -> Iterator[Any]:
        yield ctx.rule_id(), flat(match)

    def process_timed_out_match(self, match: dict[str, list[int]], ctx: Any) -> Iterator[Any]:
        yield EXPIRED, (ctx.rule_id(), flat(match), ctx.timestamp())


def keyed_numbers(env: StreamExecutionEnvironment, records: int, wide: Wide) -> KeyedStream:
    source = DataGeneratorSource(lambda i: i, records)
    numbers = env.from_source(source, STAMPED, "numbers").set_parallelism(wide()).uid("numbers")
    return numbers.key_by(lambda n: n % 4)


def patterns(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """A sequence with a window and what times out, a loop with a skip, a NOT at the end, a group."""
    keyed = keyed_numbers(env, records, wide)
    pair = Pattern.begin("a").where(lambda n: n % 3 == 0).followed_by("b").where(lambda n: n % 11 == 5).within(400)
    past = AfterMatchSkipStrategy.skip_past_last_event()
    rising = Pattern.begin("up", past).where(rises).times_or_more(2).greedy().next("down").within(900)
    silent = Pattern.begin("a").where(lambda n: n % 5 < 2).not_followed_by("b").where(lambda n: n % 7 == 2).within(150)
    groups = Pattern.begin(Pattern.begin("x").where(lambda n: n % 2 == 0).followed_by("y")).times(2).within(200)
    found = CEP.pattern(keyed, pair).flat_select(
        EXPIRED, lambda match, at: [(flat(match), at)], lambda match: [flat(match)]
    )
    return [
        found.set_parallelism(wide()),
        found.get_side_output(EXPIRED),
        CEP.pattern(keyed, rising).select(flat).set_parallelism(wide()),
        CEP.pattern(keyed, silent).select(flat).set_parallelism(wide()),
        CEP.pattern(keyed, groups).select(flat).set_parallelism(wide()),
    ]


def rules(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Patterns that come in a stream; events without keys, and out of order.

    Without watermarks of the rules, events are handled when all rules are there: which ones hold is certain.
    """
    keyed = keyed_numbers(env, records, wide)
    source = DataGeneratorSource(lambda i: PatternRule(f"rule {i % 3}", i, i % 4 + 2), 6)
    definitions = env.from_source(source, WatermarkStrategy.no_watermarks(), "rules").set_parallelism(1).uid("rules")
    by_rule = CEP.dynamic_patterns(keyed, definitions, remainder).process(ByRule()).set_parallelism(wide())
    strict = Pattern.begin("a").where(lambda n: n % 3 == 2).next("b").where(lambda n: n % 3 == 1)
    numbers = DataGeneratorSource(lambda i: i, records)
    shuffled = env.from_source(numbers, OUT_OF_ORDER, "shuffled").set_parallelism(wide()).uid("shuffled")
    return [
        by_rule,
        by_rule.get_side_output(EXPIRED),
        CEP.pattern(shuffled, strict).select(flat),
        CEP.pattern(shuffled.key_by(lambda n: n % 2), strict).select(flat).set_parallelism(wide()),
    ]


ZIGZAG = """
    MATCH_RECOGNIZE (
        PARTITION BY key ORDER BY number
        MEASURES CLASSIFIER() AS way, PREV(v) AS earlier, COUNT(*) AS n
        ALL ROWS PER MATCH
        PATTERN ((UP+ DOWN | FLAT){2,} {- UP -})
        DEFINE UP AS v > PREV(v), DOWN AS v < PREV(v) AND v > 20, FLAT AS v < PREV(v)
    )
"""
OPENING = """
    MATCH_RECOGNIZE (
        PARTITION BY key ORDER BY number
        MEASURES FIRST(S.v) AS first, LAST(S.v) AS last, COUNT(*) AS n
        AFTER MATCH SKIP TO NEXT ROW
        PATTERN (^ A+ B | A B{2}?) WITHIN INTERVAL '400' MILLISECOND
        SUBSET S = (A, B)
        DEFINE B AS v > AVG(A.v)
    )
"""


def clauses(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """MATCH_RECOGNIZE: groups, alternatives, rows before the match, the first row of a partition, all rows."""
    source = DataGeneratorSource(lambda i: i, records)
    numbers = env.from_source(source, STAMPED, "numbers").set_parallelism(wide()).uid("numbers")
    rows = numbers.map(lambda n: (n % 4, n, n * 7919 % 101)).set_parallelism(wide())
    return [
        match_recognize(clause, rows, ["key", "number", "v"]).set_parallelism(wide()).map(tuple).set_parallelism(wide())
        for clause in (ZIGZAG, OPENING)
    ]
