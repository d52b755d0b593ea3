"""What a program does with matches: the functions of a pattern stream, and their context."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from funken import InvalidProgram, OutputTag
from funken.cep.nfa import Match
from funken.sdk import check_function, check_several


class PatternContext:
    """What a function may ask while it handles a match, and its way to side outputs.

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

    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Send a value to a side output, as ``yield output_tag, value`` does."""
        self._output(output_tag, value)


class PatternProcessFunction:
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

    def open(self, runtime_context: Any) -> None:
        """Prepare, before the first match."""

    def close(self) -> None:
        """Release what ``open`` took."""

    def process_match(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None:
        """Return or yield records; ``(OutputTag, record)`` goes to a side output."""
        raise NotImplementedError


class TimedOutPartialMatchHandler:
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

    def process_timed_out_match(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None:
        """Send to side outputs with ``ctx.output``, or yield ``(OutputTag, record)``."""
        raise NotImplementedError


class Selecting(PatternProcessFunction):
    """``select`` and ``flat_select``: the match goes to a function, whose results are emitted."""

    def __init__(self, function: Callable[[Match], Any], flat: bool) -> None:
        self.function = function
        self.flat = flat

    def process_match(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None:
        """Emit what the function returns."""
        found = self.function(match)
        if self.flat and found is not None:
            check_several(found, tuples=False)
        return (found if found is not None else ()) if self.flat else (found,)


class SelectingTimeouts(Selecting, TimedOutPartialMatchHandler):
    """The same, and another function's results for what timed out go to a side output."""

    def __init__(self, function: Callable[[Match], Any], flat: bool, tag: OutputTag, timeout: Any) -> None:
        super().__init__(function, flat)
        self.tag = tag
        self.timeout = timeout

    def process_timed_out_match(self, match: Match, ctx: PatternContext) -> Iterable[Any] | None:
        """Emit what the function returns for the match and the time at which it timed out."""
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
    bound: Callable[..., Any] = found
    return bound
