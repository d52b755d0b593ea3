"""The contexts of process functions, the timer service and the time domain.

One context object serves an operator for all its records: the operator writes ``at`` (and the store's current key)
before each call. So a context is valid during the call only; a function must not keep it.
"""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

from funken.errors import StateNotKeyed
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, OutputTag
from funken.operators.results import Results
from funken.timing.instants import timer_ms
from funken.types.callables import Generic, K_co, S


class TimeDomain(Enum):
    """Which time a timer waits for.

    >>> from funken import KeyedProcessFunction
    >>> from funken.testing import local
    >>> class Remind(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         ctx.timer_service().register_event_time_timer(1000)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield timestamp, ctx.time_domain().name
    >>> local(["milk"]).key_by(lambda word: word).process(Remind()).execute_and_collect(limit=9)
    [(1000, 'EVENT_TIME')]
    """

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService:
    """Time, and timers for the current key; all times in ms.

    >>> from funken import KeyedProcessFunction, ValueStateDescriptor
    >>> from funken.operators.user_functions import UserFunction
    >>> from funken.operators.process.one_input import KeyedProcess
    >>> from funken.testing import OperatorHarness
    >>> class Silence(KeyedProcessFunction):  # tells who has not been heard of for 100 ms
    ...     def open(self, runtime_context):
    ...         self.due = runtime_context.get_state(ValueStateDescriptor("due"))
    ...     def process_element(self, value, ctx):
    ...         timers = ctx.timer_service()
    ...         if self.due.value() is not None:
    ...             timers.delete_event_time_timer(self.due.value())
    ...         self.due.update(ctx.timestamp() + 100)
    ...         timers.register_event_time_timer(self.due.value())
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()
    >>> harness = OperatorHarness(KeyedProcess(UserFunction(Silence(), rich=True), key=UserFunction(str)), keyed=True)
    >>> harness.feed("ann", 10)
    >>> harness.feed("ann", 60)
    >>> harness.watermark(150)
    >>> harness.output
    []
    >>> harness.watermark(170)
    >>> harness.output
    [('ann', 160, 170)]

    The same by the clock:

    >>> class SilenceByTheClock(Silence):
    ...     def process_element(self, value, ctx):
    ...         timers = ctx.timer_service()
    ...         if self.due.value() is not None:
    ...             timers.delete_processing_time_timer(self.due.value())
    ...         self.due.update(timers.current_processing_time() + 100)
    ...         timers.register_processing_time_timer(self.due.value())
    >>> harness = OperatorHarness(KeyedProcess(UserFunction(SilenceByTheClock(), rich=True), key=UserFunction(str)), keyed=True)
    >>> harness.feed("ann")
    >>> harness.processing_time(60)
    >>> harness.feed("ann")
    >>> harness.processing_time(170)
    >>> harness.output == [("ann", 160, MIN_TIMESTAMP)]
    True
    """

    __slots__ = ("_store", "_timers")

    def __init__(self, operator: Operator) -> None:
        assert operator.context.keyed is not None
        assert operator.context.timers is not None
        self._store = operator.context.keyed
        self._timers = operator.context.timers

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        """Return how far event time has come; ``-2**63`` before the first watermark."""
        return self._timers.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for this key once the watermark reaches ``timestamp``; once, however often registered."""
        if type(timestamp) is not int or not MIN_TIMESTAMP <= timestamp <= MAX_WATERMARK:
            timestamp = timer_ms(timestamp)
        self._timers.register_event_time_timer(self._store.current_key, None, timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for this key once processing time reaches ``timestamp``."""
        if type(timestamp) is not int or not MIN_TIMESTAMP <= timestamp <= MAX_WATERMARK:
            timestamp = timer_ms(timestamp)
        self._timers.register_processing_time_timer(self._store.current_key, None, timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete this key's timer of that timestamp, if there is one."""
        if type(timestamp) is not int or not MIN_TIMESTAMP <= timestamp <= MAX_WATERMARK:
            timestamp = timer_ms(timestamp)
        self._timers.delete_event_time_timer(self._store.current_key, None, timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete this key's timer of that timestamp, if there is one."""
        if type(timestamp) is not int or not MIN_TIMESTAMP <= timestamp <= MAX_WATERMARK:
            timestamp = timer_ms(timestamp)
        self._timers.delete_processing_time_timer(self._store.current_key, None, timestamp)


class UnkeyedTimerService:
    """Time without timers, for streams without keys."""

    __slots__ = ("_operator",)

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self._operator.context.processing_time()

    def current_watermark(self) -> int:
        """Return how far event time has come; ``-2**63`` before the first watermark."""
        return self._operator.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Raise ``StateNotKeyed``."""
        self._refuse("Register")

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Raise ``StateNotKeyed``."""
        self._refuse("Register")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Raise ``StateNotKeyed``."""
        self._refuse("Delete")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Raise ``StateNotKeyed``."""
        self._refuse("Delete")

    def _refuse(self, action: str) -> NoReturn:
        raise StateNotKeyed(
            f"operator {self._operator.context.operator!r} used timers on a stream without keys. {action} timers is "
            "only supported on a keyed stream: call key_by(...) before this operator."
        )


class ProcessContext:
    """The context of a process function: timestamp, timer service and side outputs.

    >>> from funken import ProcessFunction
    >>> from funken.testing import local
    >>> class Split(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         if value < 0:
    ...             ctx.output(OutputTag("negative"), value)
    ...         else:
    ...             yield value, ctx.timestamp(), ctx.timer_service().current_watermark() == MIN_TIMESTAMP
    >>> split = local([1, -2]).process(Split())
    >>> split.execute_and_collect(limit=2), split.get_side_output(OutputTag("negative")).execute_and_collect(limit=2)
    ([(1, None, True)], [-2])
    """

    __slots__ = ("_results", "_timer_service", "at")

    def __init__(self, operator: Operator, results: Results) -> None:
        self.at: int = MIN_TIMESTAMP
        self._results = results
        keyed = operator.context.keyed is not None
        self._timer_service = TimerService(operator) if keyed else UnkeyedTimerService(operator)

    def timestamp(self) -> int | None:
        """Return the timestamp of the record, or of the timer in ``on_timer``; ``None`` if it has none."""
        return None if self.at == MIN_TIMESTAMP else self.at

    def timer_service(self) -> TimerService | UnkeyedTimerService:
        """Return the access to time and timers."""
        return self._timer_service

    def output(self, output_tag: OutputTag[S], value: S) -> None:
        """Send a value to a side output, as ``yield output_tag, value`` does."""
        self._results.side((output_tag, value), self.at)


class KeyedContext(ProcessContext, Generic[K_co]):
    """The same on a keyed stream, where there is a current key.

    >>> from funken import KeyedProcessFunction
    >>> from funken.testing import local
    >>> class WithKey(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield ctx.get_current_key(), value
    >>> local(["to", "be"]).key_by(lambda word: word[0]).process(WithKey()).execute_and_collect(limit=2)
    [('t', 'to'), ('b', 'be')]
    """

    __slots__ = ("_store",)

    def __init__(self, operator: Operator, results: Results) -> None:
        super().__init__(operator, results)
        assert operator.context.keyed is not None
        self._store = operator.context.keyed

    def get_current_key(self) -> K_co:
        """Return the key of the record or timer."""
        key: K_co = self._store.current_key
        return key


class OnTimerContext(KeyedContext[K_co]):
    """The context of ``on_timer``: as for a record, with the timer's timestamp and key.

    >>> from funken import KeyedProcessFunction
    >>> from funken.testing import local
    >>> class Remind(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         ctx.timer_service().register_event_time_timer(1000)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), ctx.timestamp(), ctx.time_domain().name
    ...         ctx.output(OutputTag("log"), f"reminded of {ctx.get_current_key()}")
    >>> reminded = local(["milk"]).key_by(lambda word: word).process(Remind())
    >>> reminded.execute_and_collect(limit=9)
    [('milk', 1000, 'EVENT_TIME')]
    >>> reminded.get_side_output(OutputTag("log")).execute_and_collect(limit=9)
    ['reminded of milk']
    """

    __slots__ = ("domain",)

    def __init__(self, operator: Operator, results: Results) -> None:
        super().__init__(operator, results)
        self.domain = TimeDomain.EVENT_TIME

    def time_domain(self) -> TimeDomain:
        """Return whether event time or processing time has come."""
        return self.domain

    def output(self, output_tag: OutputTag[S], value: S) -> None:
        """Send a value to a side output, as ``yield output_tag, value`` does."""
        self._results.side((output_tag, value), self.at if self.domain is TimeDomain.EVENT_TIME else MIN_TIMESTAMP)
