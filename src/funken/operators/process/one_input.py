"""Process functions: full access to records, time, state and timers.

Records are handled in the order of their block, and event-time timers between blocks, before the watermark that made
them due goes on. A processing-time timer fires before the next record once it is due: the clock is read after every
stride (``operators/user_functions.py``). A result carries the timestamp of its record, or of its event-time timer; that of a
processing-time timer has none. In ``BATCH``, timers wait for the end of the input: then each key fires its event-time
timers and after them the others.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from types import GeneratorType
from typing import Any

from funken.dataclass import dataclass
from funken.errors import FunkenError, InvalidProgram
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, OperatorContext, Output, OutputTag, Timestamps, Values
from funken.operators.mistakes import source_mistakes
from funken.operators.process.keyed_operator import KeyedContext, OnTimerContext, ProcessContext, TimeDomain
from funken.operators.stateless import KeyedMap, ResultKind
from funken.operators.user_functions import (
    FEW,
    KIND,
    MANY,
    Conditions,
    OperatorTraits,
    Results,
    Stride,
    UserFunction,
    warnings_of,
    without_return,
)
from funken.state.keyed import NO_KEY
from funken.state.keygroups import PLAIN, normal_key
from funken.types.copying import IMMUTABLE

# ---- What becomes of a record whose function raises: the job fails, or the record is skipped, or it goes to a side
# output.
#
# A policy covers the call of the user's function with one record, and the results that it gives; not timers, not
# keys, and not errors of Funken itself (``FunkenError``), which are mistakes of the program. State that the
# function changed before it raised stays changed. Who sets no policy pays nothing; who does pays for a ``try`` per
# record, and for an operator that is neither vectorized nor fused.


FAILED_RECORDS = "numRecordsFailed"
"""The metric that counts records that were skipped because the function raised."""
DEAD_LETTERS = "numDeadLetters"
"""The metric that counts those that went to a side output instead."""


@dataclass(frozen=True)
class DeadLetter:
    """A record whose function raised, as ``on_error(tag)`` sends it to a side output.

    ``record`` is as the function left it, ``timestamp`` its event time (ms) or ``None``; ``traceback`` begins in the function.

    >>> from funken.testing import local
    >>> dead = OutputTag("dead")
    >>> numbers = local(["7", "seven"]).map(int).name("parse").on_error(dead)
    >>> letter, = numbers.get_side_output(dead).execute_and_collect(limit=1)
    >>> letter.record, letter.operator, letter.error, letter.message
    ('seven', 'parse', 'ValueError', "invalid literal for int() with base 10: 'seven'")
    """

    record: Any
    timestamp: int | None
    operator: str
    subtask: int
    error: str
    message: str
    traceback: str


@dataclass(frozen=True)
class ErrorPolicy:
    """The treatment of a record whose function raises; ``side_output`` is a tag's id, without one records are skipped.

    >>> ErrorPolicy.of("fail"), ErrorPolicy.of("skip"), ErrorPolicy.of(OutputTag("dead"))
    (ErrorPolicy(fails=True, side_output=None), ErrorPolicy(fails=False, side_output=None), ErrorPolicy(fails=False, ...
    """

    fails: bool = False
    side_output: str | None = None

    @staticmethod
    def of(action: str | OutputTag[Any]) -> ErrorPolicy:
        """Return the policy that a user names; raises ``InvalidProgram`` for anything else."""
        if isinstance(action, OutputTag):
            return ErrorPolicy(side_output=action.tag_id)
        if action not in ("fail", "skip"):
            raise InvalidProgram(
                f"on_error({action!r}) is unknown: give 'fail', 'skip' or the OutputTag of a side output."
            )
        return ErrorPolicy(fails=action == "fail")


def guarded(call: Callable[[Any, Any], Iterable[Any] | None], context: OperatorContext) -> Callable[[Any, Any], Any]:
    """Return a function of record and context that heeds the operator's policy; ``call`` itself, if failures fail the job."""
    policy = context.on_error
    if policy is None or policy.fails:
        return call
    failed = context.metrics.counter(FAILED_RECORDS if policy.side_output is None else DEAD_LETTERS)
    tag = None if policy.side_output is None else OutputTag[DeadLetter](policy.side_output)

    def process(value: Any, ctx: Any) -> Iterable[Any] | None:
        try:
            made = call(value, ctx)
            # A generator runs here, so that what it raises is caught and nothing of it is emitted.
            return made if made is None or type(made) is tuple else list(made)
        except FunkenError:
            raise
        except Exception as error:  # noqa: BLE001 - the policy is about whatever the user's function raises
            failed.inc()
            return None if tag is None else ((tag, _letter(value, ctx.timestamp(), context, error)),)

    return process


def _letter(record: Any, at: int | None, context: OperatorContext, error: Exception) -> DeadLetter:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("funken.operators."):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    stamp = None if at == MIN_TIMESTAMP else at
    return DeadLetter(record, stamp, context.operator, context.subtask, type(error).__name__, str(error), text)


_FLUSH = 4096
"""Maximal number of results of timers that are held back: one that registers itself again may never come to an end."""


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
        """Open the user's function; warn of one that changes objects of which workers have copies."""
        self._function.open(self.context)
        for kind, warning in self._warnings():
            self.context.warn(kind, warning)

    def _warnings(self) -> Iterable[tuple[str, str]]:
        return warnings_of(self._function.target, self._per_record())

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
        """Call a function with each record of a block, and emit its results; fire timers in between."""
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
                    results.check(made)
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
        """Fire the event-time timers that are due, emit their results, pass the watermark on."""
        self.current_watermark = watermark
        if not self.context.batch:
            self._timers.advance_watermark(watermark, self._fire_event_time)
        elif watermark == MAX_WATERMARK:
            self._timers.drain(self._fire_event_time, self._fire_processing_time)
        self._end_firing(stamped=True)
        self.output.watermark(watermark)

    def next_tick(self) -> int | None:
        """Return the time of the next processing-time timer."""
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
    """Return the function to call for each record: ``process_element`` of an object, or a plain function itself."""
    named = getattr(type(function.target), "process_element", None) is not None
    return UserFunction(function.target, "process_element") if named else function


@dataclass(frozen=True)
class Process:
    """``process_element(value, ctx)`` of a ``ProcessFunction`` for each record; timers are refused."""

    function: UserFunction

    @property
    def traits(self) -> OperatorTraits:
        """A function per record."""
        return OperatorTraits(catching=lambda: self, side_functions=(self.function,))

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
        return OperatorTraits(keys=(self.key,), catching=lambda: self, side_functions=(self.function,))

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


# ---- The head of a loop: what it is given it passes on, whether it comes for the first time or comes back.
#
# What it means that records come back is the runtime's (``runtime/exchange/gate.py``,
# ``runtime/task/task.py``).


class Iterate(Operator):
    """The head of a loop: passes blocks on as they are."""

    traits = OperatorTraits(loop_head=True, stays_with_input=True)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Pass a block on."""
        self.output.emit(values, timestamps)


# ---- map, flat_map and filter on a keyed stream with a function that has state: one key is current at each call.
#
# Functions without ``open`` cannot reach state, and are run by ``operators/stateless.py``.


class KeyedMapLogic(ProcessOperator):
    """Calls the function with each record, whose key is current if there is one."""

    def __init__(self, spec: KeyedMap) -> None:
        super().__init__(spec.function)
        self._kind = spec.kind
        self._key = None if spec.key is None else spec.key.bind()
        call = spec.function.bind()
        if spec.kind is ResultKind.FILTER:
            self._process = _filter(call, Conditions(call, self._warn))
        else:
            self._process = _ADAPTERS[spec.kind](call)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._process = guarded(self._process, context)
        self._context = ProcessContext(self, self._results)

    def _warnings(self) -> Iterable[tuple[str, str]]:
        call = self._function.bind()
        silent = without_return(call) if self._kind is ResultKind.MAP else None
        return [*([] if silent is None else [(KIND, silent)]), *source_mistakes(self._function.target, call)]

    def _warn(self, kind: str, text: str) -> None:
        self.context.warn(kind, text)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block."""
        self._run(self._process, self._context, values, timestamps, self._key)


ElementFunction = Callable[[Any, ProcessContext], Iterable[Any] | None]


def _map(call: Callable[[Any], Any]) -> ElementFunction:
    return lambda value, context: (call(value),)


def _flat_map(call: Callable[[Any], Any]) -> ElementFunction:
    return lambda value, context: call(value)


def _filter(call: Callable[[Any], Any], conditions: Conditions) -> ElementFunction:
    def kept(value: Any, context: ProcessContext) -> Iterable[Any] | None:
        found = call(value)
        if conditions.awaited:
            conditions.look_at(found)
        return (value,) if found else None

    return kept


_ADAPTERS = {ResultKind.MAP: _map, ResultKind.FLAT_MAP: _flat_map}
