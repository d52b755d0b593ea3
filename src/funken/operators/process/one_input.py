"""Process functions: full access to records, time, state and timers.

Records are handled in the order of their block, and event-time timers between blocks, before the watermark that made
them due goes on. A processing-time timer fires before the next record once it is due: the clock is read after every
stride (``operators/strides.py``). A result carries the timestamp of its record, or of its event-time timer; that of a
processing-time timer has none. In ``BATCH``, timers wait for the end of the input: then each key fires its event-time
timers and after them the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from types import GeneratorType
from typing import Any

from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.process.contexts import KeyedContext, OnTimerContext, ProcessContext, TimeDomain
from funken.operators.process.dead_letters import guarded
from funken.operators.results import Results
from funken.operators.strides import FEW, MANY, Stride
from funken.operators.traits import OperatorTraits
from funken.operators.user_functions import UserFunction
from funken.state.keyed import NO_KEY
from funken.state.keys.normal import PLAIN, normal_key
from funken.types.callables import check_several
from funken.types.copying import IMMUTABLE

_FLUSH = 4096
"""How many results of timers are held back at most: one that registers itself again may never come to an end."""


class ProcessOperator(Operator):
    """Base of operators that call a process function: its life, and the loop over a block."""

    def __init__(self, function: UserFunction) -> None:
        self._function = function
        self._results = Results()
        #: when processing-time timers are due, the earliest first
        self._due: Sequence[int] = ()
        self._stride = Stride()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._results.configure(context)

    def open(self) -> None:
        """Open the user's function."""
        self._function.open(self.context)

    def close(self) -> None:
        """Close the user's function."""
        self._function.close()

    def _per_record(self) -> Callable[[Any, Any], Iterable[Any] | None]:
        """Return ``process_element`` of an object, or a plain function itself."""
        call: Any = getattr(self._function.target, "process_element", None)
        return call or self._function.bind()

    def _run(
        self,
        call: Callable[[Any, Any], Iterable[Any] | None],
        context: ProcessContext,
        values: Values,
        timestamps: Timestamps,
        key_of: Callable[[Any], Any] | None = None,
    ) -> None:
        """Call a function with each record of a block, and emit what it gives; fire timers in between."""
        results, store, due, stride = self._results, self.context.keyed, self._due, self._stride
        if store is None:
            self._loop(call, context, values, timestamps, key_of)
        else:
            next_time, watched, done = self.context.next_time, store.expires, 0
            now = next_time()
            while done < len(values):
                if due and now >= due[0]:
                    results.emit(self.output, stamped=timestamps is not None)
                    self.tick(now)
                end = done + stride.records
                if done or end < len(values):
                    some, stamps = values[done:end], None if timestamps is None else timestamps[done:end]
                    self._loop(call, context, some, stamps, key_of)
                else:
                    self._loop(call, context, values, timestamps, key_of)
                end = min(end, len(values))
                before, now = now, next_time()
                stride.took(end - done, now - before, FEW if watched or due else MANY)
                done = end
            store.current_key = NO_KEY
        results.emit(self.output, stamped=timestamps is not None)
        if due and now >= due[0]:
            self.tick(now)

    def _loop(
        self,
        call: Callable[[Any, Any], Iterable[Any] | None],
        context: ProcessContext,
        values: Values,
        timestamps: Timestamps,
        key_of: Callable[[Any], Any] | None,
    ) -> None:
        results, store, immutable, plain = self._results, self.context.keyed, IMMUTABLE, PLAIN
        append, stamp, add = results.values.append, results.stamps.append, results.add
        stamps = repeat(MIN_TIMESTAMP, len(values)) if timestamps is None else timestamps
        # Hot: once per record. The calls of key and function dominate; what tells tags, and records that can be changed,
        # from others costs 25 ns, and as much for each item of a tuple.
        for value, at in zip(values, stamps, strict=True):
            if key_of is not None:
                key = key_of(value)
                kind = type(key)
                if kind is tuple:
                    for item in key:
                        if type(item) not in plain:
                            key = normal_key(key)
                            break
                elif kind not in plain:
                    key = normal_key(key)
                store.current_key = key  # type: ignore[union-attr]
            context.at = at
            made = call(value, context)
            if made is not None:
                if type(made) is not list and type(made) is not GeneratorType:
                    check_several(made)
                for result in made:
                    kind = type(result)
                    if kind is tuple:
                        for item in result:
                            if type(item) not in immutable:
                                add(result, at)
                                break
                        else:
                            append(result)
                            stamp(at)
                    elif kind in immutable:
                        append(result)
                        stamp(at)
                    else:
                        add(result, at)


class TimerOperator(ProcessOperator):
    """Base of process operators on keyed streams: fires the timers of the keys."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        assert context.keyed is not None
        assert context.timers is not None
        self._store, self._timers = context.keyed, context.timers
        if not context.batch:
            self._due = context.timers.processing_times
        self._on_timer = getattr(self._function.target, "on_timer", _no_timer)
        self._timer_context = OnTimerContext(self, self._results)

    def watermark(self, watermark: int) -> None:
        """Fire the event-time timers that are due, emit what they give, pass the watermark on."""
        self.current_watermark = watermark
        if not self.context.batch:
            self._timers.advance_watermark(watermark, self._fire_event_time)
        elif watermark == MAX_WATERMARK:
            self._timers.drain(self._fire_event_time, self._fire_processing_time)
        self._end_firing(stamped=True)
        self.output.watermark(watermark)

    def next_tick(self) -> int | None:
        """When the next processing-time timer is due."""
        return None if self.context.batch else self._timers.next_processing_time()

    def tick(self, now: int) -> None:
        """Fire the processing-time timers that are due."""
        self._timers.advance_processing_time(now, self._fire_processing_time)
        self._end_firing(stamped=False)

    def _fire_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._fire(timestamp, key, TimeDomain.EVENT_TIME, timestamp)

    def _fire_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._fire(timestamp, key, TimeDomain.PROCESSING_TIME, MIN_TIMESTAMP)

    def _fire(self, timestamp: int, key: Any, domain: TimeDomain, at: int) -> None:
        context, results = self._timer_context, self._results
        self.context.next_time()
        self._store.current_key = key
        context.at = timestamp
        context.domain = domain
        results.take(self._on_timer(timestamp, context), at)
        if len(results.values) >= _FLUSH:
            results.emit(self.output, stamped=True)

    def _end_firing(self, *, stamped: bool) -> None:
        self._store.current_key = NO_KEY
        self._results.emit(self.output, stamped=stamped)


def _no_timer(timestamp: int, context: OnTimerContext) -> None:
    """Stand in for a function without ``on_timer``."""


def process_call(function: UserFunction) -> UserFunction:
    """Return what is called for each record: ``process_element`` of an object, or a plain function itself."""
    named = getattr(type(function.target), "process_element", None) is not None
    return UserFunction(function.target, "process_element") if named else function


@dataclass(frozen=True)
class Process:
    """``process_element(value, ctx)`` of a ``ProcessFunction`` for each record; timers are refused."""

    function: UserFunction

    @property
    def traits(self) -> OperatorTraits:
        """A function per record."""
        return OperatorTraits(catching=lambda: self)

    def build(self) -> Operator:
        """Make the logic."""
        return ProcessLogic(self.function)


class ProcessLogic(ProcessOperator):
    """Calls the function, without a key."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._process = guarded(self._per_record(), context)
        self._context = ProcessContext(self, self._results)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block."""
        self._run(self._process, self._context, values, timestamps)


@dataclass(frozen=True)
class KeyedProcess:
    """``process_element(value, ctx)`` and ``on_timer(timestamp, ctx)`` of a ``KeyedProcessFunction``."""

    function: UserFunction
    key: UserFunction

    @property
    def traits(self) -> OperatorTraits:
        """The key."""
        return OperatorTraits(keys=(self.key,), catching=lambda: self)

    def build(self) -> Operator:
        """Make the logic."""
        return KeyedProcessLogic(self.function, self.key)


class KeyedProcessLogic(TimerOperator):
    """Calls the function with the key of each record current."""

    def __init__(self, function: UserFunction, key: UserFunction) -> None:
        super().__init__(function)
        self._key = key.bind()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._process = guarded(self._per_record(), context)
        self._context = KeyedContext(self, self._results)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block."""
        self._run(self._process, self._context, values, timestamps, self._key)
