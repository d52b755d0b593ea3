"""A stream in which a pattern is looked for, and what is made of its matches: ``PatternStream``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from funken import DataStream, InvalidProgram, KeyedStream, OutputTag
from funken.cep.compiler import compile_pattern
from funken.cep.functions import PatternProcessFunction, Selecting, SelectingTimeouts, callable_of
from funken.cep.operator import MatchPattern, Settings, one_key
from funken.cep.pattern import Pattern
from funken.config import MAX_PARTIAL_MATCHES
from funken.sdk import OperatorSpec, check_methods


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
        check_methods(pattern_process_function, PatternProcessFunction, "process()")
        keyed = isinstance(self._stream, KeyedStream)
        stream = self._stream if isinstance(self._stream, KeyedStream) else self._stream.key_by(one_key)
        bound = stream.get_execution_environment().get_configuration().get(MAX_PARTIAL_MATCHES)
        settings = replace(self._settings, max_partial_matches=bound)
        found = stream.transform("pattern", self._spec(pattern_process_function, settings))
        return found if keyed else found.set_parallelism(1)

    def _spec(self, function: PatternProcessFunction, settings: Settings) -> OperatorSpec:
        return MatchPattern(function, self._pattern, settings)

    def select(self, *functions: Any) -> DataStream:
        """Emit one record per match: ``select(select)``, or ``select(tag, timeout, select)``.

        ``select(match)`` returns the record; ``timeout(match, timestamp)`` that of a partial match that timed out,
        which goes to the side output ``tag``.
        """
        return self.process(_selecting("select", functions))

    def flat_select(self, *functions: Any) -> DataStream:
        """Emit any number of records per match; as ``select``, but the functions return iterables."""
        return self.process(_selecting("flat_select", functions))

    def explain(self, style: str = "text") -> str:
        """Return the automaton as ``text``, with what may cost memory or parallelism, or in the language of Graphviz (``dot``).

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
            raise InvalidProgram(f"explain() gives 'text' or 'dot', but was asked for {style!r}.")
        if style == "dot":
            return compile_pattern(self._pattern).dot()
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
