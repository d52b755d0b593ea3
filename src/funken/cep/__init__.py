"""Complex event processing: find sequences of events in a stream, with Flink's pattern API.

A library: may import the public surface, ``config``, ``errors``, ``ids`` and the durations of ``io``.

>>> from funken.cep import Pattern, matches_of
>>> pattern = Pattern.begin("small").where(lambda n: n < 10).next("large").where(lambda n: n > 500)
>>> matches_of(pattern, [3, 40, 5, 700])
[{'small': [5], 'large': [700]}]
"""

from funken.cep.match_recognize import match_recognize
from funken.cep.nfa import matches_of
from funken.cep.operator import PatternContext, PatternProcessFunction, TimedOutPartialMatchHandler
from funken.cep.pattern import (
    AfterMatchSkipStrategy,
    ConditionContext,
    IterativeCondition,
    Pattern,
    RichIterativeCondition,
    SimpleCondition,
    WithinType,
)
from funken.cep.stream import CEP, PatternRule, PatternStream

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "ConditionContext",
    "IterativeCondition",
    "Pattern",
    "PatternContext",
    "PatternProcessFunction",
    "PatternRule",
    "PatternStream",
    "RichIterativeCondition",
    "SimpleCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
    "match_recognize",
    "matches_of",
]
