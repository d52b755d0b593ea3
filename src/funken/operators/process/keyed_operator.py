"""The operator SDK for keyed streams: a base class with a method per record and per timer, and the spec that gives it its keys.

``KeyedOperator`` is what a library derives from: one or two inputs, keyed state, timers. One that handles whole blocks
overrides ``process`` and ``watermark`` as well, and sets ``current_key`` itself; without keys, it derives from ``Operator``.
``stream.transform(name, spec)`` runs either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import repeat
from typing import Any, NoReturn

from funken.dataclass import dataclass
from funken.errors import StateNotKeyed
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import OF_TODAY
from funken.operators.base import Operator, OperatorContext, Output, OutputTag, Timestamps, Values
from funken.operators.user_functions import OperatorTraits, Results, SpecWrapper, UserFunction
from funken.state.backend import FileSnapshotBackend
from funken.state.descriptors import StateDescriptor
from funken.state.keyed import NO_KEY
from funken.state.keygroups import PLAIN, normal_key
from funken.timing.instants import LIKE_SECONDS, checked_time, moment, timer_ms
from funken.types.callables import Generic, K_co, S

_SECONDS = (5, 10, 15, 20, 30, 45, 60)
"""Lengths of time that a timer waits for if its author thought of seconds."""
_FLUSH = 4096
"""Maximal number of results of timers that are held back."""


class KeyedOperator(Operator):
    """Base of an operator on one keyed stream, or on two.

    Override ``process_element``, with two inputs ``process_element2``, and ``on_event_time`` or ``on_processing_time``. State
    that ``state`` returned is that of the current key.

    >>> from dataclasses import dataclass
    >>> from funken import ValueStateDescriptor
    >>> from funken.testing import local
    >>> class CountLogic(KeyedOperator):
    ...     def open(self):
    ...         self.count = self.state(ValueStateDescriptor("count", default=0))
    ...     def process_element(self, value, timestamp):
    ...         self.count.update(self.count.value() + 1)
    ...         self.register_event_time_timer(100)
    ...     def on_event_time(self, timestamp):
    ...         self.emit((self.current_key, self.count.value()), timestamp)
    >>> @dataclass(frozen=True)
    ... class Count:
    ...     def build(self):
    ...         return CountLogic()
    >>> local(["a", "b", "a"]).key_by(str).transform("count", Count()).execute_and_collect(limit=2)
    [('a', 2), ('b', 1)]
    """

    keeps_output = True
    keys: tuple[Callable[[Any], Any], ...] = ()
    """The key selectors of the inputs; set before ``setup``."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        assert context.keyed is not None and context.timers is not None
        self.__store, self.__timers = context.keyed, context.timers
        self.__results = Results()
        self.__results.configure(context)
        self.__at = MIN_TIMESTAMP
        #: when event-time timers are due, the earliest first; always the same object
        self.event_times: Sequence[int] = context.timers.event_times

    # ---- to be overridden

    def process_element(self, value: Any, timestamp: int | None) -> None:
        """Handle a record of the first input."""
        raise NotImplementedError

    def process_element2(self, value: Any, timestamp: int | None) -> None:
        """Handle a record of the second input."""
        raise NotImplementedError

    def on_event_time(self, timestamp: int) -> None:
        """An event-time timer of the current key is due."""

    def on_processing_time(self, timestamp: int) -> None:
        """A processing-time timer of the current key is due."""

    # ---- to be called

    @property
    def current_key(self) -> Any:
        """The key of the record, or of the timer; an operator that handles whole blocks sets it before it uses state."""
        return self.__store.current_key

    @current_key.setter
    def current_key(self, key: Any) -> None:
        self.__store.current_key = key

    @property
    def state_in_files(self) -> bool:
        """True if the state backend has its state in files, so that state may be larger than memory."""
        return isinstance(self.__store.backend, FileSnapshotBackend)

    def state(self, descriptor: StateDescriptor) -> Any:
        """Return the handle of a keyed state; call it in ``open``."""
        return self.__store.state(descriptor)

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self.__timers.current_processing_time()

    def emit(self, value: Any, timestamp: int | None = None) -> None:
        """Emit a record, by default with the timestamp of the record or event-time timer that is handled."""
        self.__results.values.append(value)
        self.__results.stamps.append(self.__at if timestamp is None else timestamp)

    def emit_side(self, tag: OutputTag, value: Any, timestamp: int | None = None) -> None:
        """Emit a record to a side output."""
        self.__results.side((tag, value), self.__at if timestamp is None else timestamp)

    def emit_results(self, made: Iterable[Any] | None, timestamp: int | None = None) -> None:
        """Emit a function's results: records, and pairs of ``OutputTag`` and record to side outputs.

        A record that the function could change later is copied.
        """
        self.__results.take(made, self.__at if timestamp is None else timestamp)

    def emit_result(self, made: Any, timestamp: int | None = None) -> None:
        """Emit one record that a function of the program returned, as ``emit_results`` does."""
        self.__results.add(made, self.__at if timestamp is None else timestamp)

    def own(self, records: list[Any]) -> list[Any]:
        """Return records that a function of the program may change: copies of those that can be changed."""
        return self.__results.own_block(records)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Let ``on_event_time`` be called when the watermark reaches ``timestamp``."""
        self.__timers.register_event_time_timer(self.current_key, None, checked_time(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer of the current key."""
        self.__timers.delete_event_time_timer(self.current_key, None, checked_time(timestamp))

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Let ``on_processing_time`` be called when processing time reaches ``timestamp``."""
        self.__timers.register_processing_time_timer(self.current_key, None, checked_time(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer of the current key."""
        self.__timers.delete_processing_time_timer(self.current_key, None, checked_time(timestamp))

    # ---- the engine's side

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of the first input."""
        self.__each(self.process_element, self.keys[0], values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of the second input."""
        self.__each(self.process_element2, self.keys[1], values, timestamps)

    def __each(
        self, handle: Callable[[Any, int | None], None], key_of: Callable[[Any], Any], values: Values, timestamps: Timestamps
    ) -> None:  # fmt: skip
        store = self.__store
        self.context.next_time()
        stamps = repeat(MIN_TIMESTAMP, len(values)) if timestamps is None else timestamps
        for value, at in zip(values, stamps, strict=True):
            key = key_of(value)
            store.current_key = key if type(key) in PLAIN else normal_key(key)
            self.__at = at
            handle(value, None if at == MIN_TIMESTAMP else at)
        self.flush()

    def watermark(self, watermark: int) -> None:
        """Fire the event-time timers that are due, then pass the watermark on."""
        self.current_watermark = watermark
        if not self.context.batch:
            self.fire_event_time_timers(watermark)
        elif watermark == MAX_WATERMARK:
            self.__timers.drain(self.__fire_event_time, self.__fire_processing_time)
        self.flush()
        self.output.watermark(watermark)

    def fire_event_time_timers(self, timestamp: int) -> None:
        """Fire the event-time timers up to ``timestamp``; for an operator with a ``watermark`` of its own."""
        self.__timers.advance_watermark(timestamp, self.__fire_event_time)

    def fire_processing_time_timers(self, timestamp: int) -> None:
        """Fire the processing-time timers up to ``timestamp``; for an operator with a ``watermark`` of its own."""
        self.__timers.advance_processing_time(timestamp, self.__fire_processing_time)

    def next_tick(self) -> int | None:
        """Return the time of the next processing-time timer."""
        return None if self.context.batch else self.__timers.next_processing_time()

    def tick(self, now: int) -> None:
        """Fire the processing-time timers that are due."""
        self.fire_processing_time_timers(now)
        self.flush()

    def __fire_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self.context.next_time()
        self.__store.current_key, self.__at = key, timestamp
        self.on_event_time(timestamp)
        if len(self.__results.values) >= _FLUSH:
            self.__send()

    def __fire_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self.context.next_time()
        self.__store.current_key, self.__at = key, MIN_TIMESTAMP
        self.on_processing_time(timestamp)
        if len(self.__results.values) >= _FLUSH:
            self.__send()

    def flush(self, at_least: int = 0) -> None:
        """Send on emitted records, and leave the current key; with ``at_least``: only if there are as many records."""
        if len(self.__results.values) >= at_least:
            self.__store.current_key, self.__at = NO_KEY, MIN_TIMESTAMP
            self.__send()

    def __send(self) -> None:
        self.__results.emit(self.output, stamped=self.__results.stamped)


@dataclass(frozen=True)
class KeyedTransform(SpecWrapper):
    """The spec of an operator on a keyed stream, and the key selectors of its inputs."""

    key1: UserFunction
    key2: UserFunction | None = None

    @property
    def traits(self) -> OperatorTraits:
        """The traits of the operator, and its keys."""
        keys = (self.key1,) if self.key2 is None else (self.key1, self.key2)
        return super().traits.but(keys=keys)

    def build(self) -> Operator:
        """Make the logic of one subtask; a ``KeyedOperator`` is given its keys."""
        operator = self.spec.build()
        if isinstance(operator, KeyedOperator):
            operator.keys = tuple(key.bind() for key in (self.key1, self.key2) if key is not None)
        return operator


# ---- The contexts of process functions, the timer service and the time domain.
#
# One context object serves an operator for all its records: the operator writes ``at`` (and the store's current
# key) before each call. So a context is valid during the call only; a function must not keep it.


class TimeDomain(Enum):
    """The time that a timer waits for.

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

    __slots__ = ("_new", "_store", "_timers", "_warn", "at")

    def __init__(self, operator: Operator) -> None:
        assert operator.context.keyed is not None
        assert operator.context.timers is not None
        self._new, self._warn = True, operator.context.warn
        self._store = operator.context.keyed
        self._timers = operator.context.timers
        #: returns the time of the record that a function handles (ms)
        self.at: Callable[[], int] = lambda: MIN_TIMESTAMP

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        """Return the present event time; ``-2**63`` before the first watermark."""
        return self._timers.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for this key once the watermark reaches ``timestamp``; once, however often registered."""
        if type(timestamp) is not int or not MIN_TIMESTAMP <= timestamp <= MAX_WATERMARK:
            timestamp = timer_ms(timestamp)
        if self._new:
            self._look_at_first(timestamp, self.at())
        self._timers.register_event_time_timer(self._store.current_key, None, timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for this key once processing time reaches ``timestamp``."""
        if type(timestamp) is not int or not MIN_TIMESTAMP <= timestamp <= MAX_WATERMARK:
            timestamp = timer_ms(timestamp)
        if self._new:
            self._look_at_first(timestamp, self._timers.current_processing_time())
        self._timers.register_processing_time_timer(self._store.current_key, None, timestamp)

    def _look_at_first(self, timestamp: int, now: int) -> None:
        """Warn of a first timer whose time looks like seconds, or like a length of time: it is due at once."""
        self._new = False
        if now > OF_TODAY and timestamp - now in _SECONDS:
            self._warn(
                "units",
                f"its first timer is due after {timestamp - now} ms: times of timers are milliseconds. Add "
                f"{timestamp - now}_000 for seconds.",
            )
        elif MIN_TIMESTAMP + 1000 <= timestamp < MIN_TIMESTAMP // 2:  # + 1 waits for the next watermark
            self._warn(
                "times of timers",
                "its first timer is set for a time before all times, so it is due at once: there is no watermark yet, and "
                "current_watermark() is the least number. Add the length of time to ctx.timestamp().",
            )
        elif now > OF_TODAY and 0 < timestamp < OF_TODAY and timestamp not in LIKE_SECONDS:
            self._warn(
                "times of timers",
                f"its first timer is set for {timestamp}, which is {moment(timestamp)}: a timer has a point in time, so it is "
                "due at once. Add the length of time to ctx.timestamp(), or to ctx.timer_service().current_processing_time().",
            )
        elif timestamp in LIKE_SECONDS:
            self._warn(
                "seconds in timers",
                f"the time of its first timer looks like seconds ({timestamp}), but times are in milliseconds: it is due at "
                f"{moment(timestamp)}, which is at once. Take ctx.timestamp() as it is, and add milliseconds, as in "
                "ctx.timestamp() + 60_000.",
            )

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
        """Return the present event time; ``-2**63`` before the first watermark."""
        return self._operator.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Raise ``StateNotKeyed``."""
        self._refuse("Register")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Raise ``StateNotKeyed``."""
        self._refuse("Delete")

    register_processing_time_timer = register_event_time_timer
    delete_processing_time_timer = delete_event_time_timer

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
        if isinstance(self._timer_service, TimerService):
            self._timer_service.at = lambda: self.at

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
        """Return True if event time or processing time has come."""
        return self.domain

    def output(self, output_tag: OutputTag[S], value: S) -> None:
        """Send a value to a side output, as ``yield output_tag, value`` does."""
        self._results.side((output_tag, value), self.at if self.domain is TimeDomain.EVENT_TIME else MIN_TIMESTAMP)
