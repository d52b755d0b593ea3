"""Assigning timestamps and watermarks: in the middle of a stream, and the part that sources share.

What comes from upstream as watermark is dropped, except ``MAX_WATERMARK``: a new assigner overrides the old.
(Flink's ``TimestampsAndWatermarksOperator``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.traits import LoopCall, OperatorTraits
from funken.operators.user_functions import call_of
from funken.timing.instants import check_range, timestamps_ms
from funken.timing.watermarks import BoundedOutOfOrdernessSpec, EventTimeChecks, WatermarkProgress, WatermarkStrategy


def _assigned(assigner: Callable[[Any, int], Any], values: Values, stamps: Timestamps) -> list[Any]:
    # Hot: a comprehension takes 42 ns, a loop 58.
    rest = iter(values)
    if stamps is None:
        return [assigner(value, MIN_TIMESTAMP) for value in rest]
    return [assigner(value, old) for value, old in zip(rest, stamps, strict=True)]


class WatermarkEmitter:
    """Assigns timestamps and emits watermarks on an operator's output, by a strategy; one progress over all its splits."""

    def __init__(self, strategy: WatermarkStrategy, operator: Operator) -> None:
        self._strategy = strategy
        self._operator = operator
        self._interval = operator.context.auto_watermark_interval
        self.progress = WatermarkProgress(strategy)
        self._assigner = strategy.assigner
        self.checks = EventTimeChecks(strategy, operator.context.warn, operator.context.batch)
        self.progress.watermark = operator.current_watermark  # of a snapshot, if the operator starts from one
        self._emitted_idle = False
        #: whether there was a record since the start: set by whatever emits records
        self._saw = False
        self._pausing = operator.context.pausing
        self._due: int | None = None
        if strategy.generator is not None and self._interval > 0 and not self._pausing:
            self._due = operator.context.processing_time() + self._interval

    def emit(self, split: str, values: Values, timestamps: Timestamps) -> None:
        """Assign timestamps to a block and emit it; a punctuated watermark is emitted right after its record."""
        if self._assigner is not None:
            timestamps = timestamps_ms(_assigned(self._assigner, values, timestamps), values)
        try:
            self._emit(split, values, timestamps)
        except OverflowError:
            check_range(timestamps, values)
            raise

    def _emit(self, split: str, values: Values, timestamps: Timestamps) -> None:
        strategy, output = self._strategy, self._operator.output
        if strategy.generator is None:
            output.emit(values, timestamps)
            return
        self._saw = True
        now = self._operator.context.processing_time()
        stamps = timestamps if timestamps is not None else [MIN_TIMESTAMP] * len(values)
        self.wake()
        if self.progress.reads_values(split):
            self._emit_parts(values, timestamps, self.progress.on_values(split, values, now))
            return
        if timestamps and split not in self.checks.seen:
            self.begin_split(split, min(timestamps), max(timestamps))
        if not self.progress.punctuated(split):
            if timestamps is not None:
                self.progress.on_block(split, stamps, now)
            output.emit(values, timestamps)
            return
        on_event = self.progress.on_event
        rises = (place + 1 for place, value in enumerate(values) if on_event(split, value, stamps[place], now))
        self._emit_parts(values, timestamps, rises)

    def _emit_parts(self, values: Values, timestamps: Timestamps, ends: Iterable[int]) -> None:
        """Emit a block in parts, behind each of which the watermark has risen."""
        output, start = self._operator.output, 0
        for end in ends:
            output.emit(values[start:end], timestamps and timestamps[start:end])
            self.advance()
            start = end
        if start < len(values):
            output.emit(values[start:], timestamps and timestamps[start:])

    def begin_split(self, split: str, lowest: int, highest: int) -> None:
        """Check the timestamps of the first block of a split."""
        self.checks.begin_split(split, lowest, highest, self._operator.current_watermark, self.progress.reached)

    def wake(self) -> None:
        """Emit the active status, if all was idle."""
        if self._emitted_idle:
            self._emitted_idle = False
            self._operator.output.idle(False)

    def advance(self) -> None:
        """Emit the combined watermark; that of a micro-batch waits for its end."""
        if self._pausing:
            return
        self._operator.current_watermark = self.progress.watermark
        self._operator.output.watermark(self.progress.watermark)

    def next_tick(self) -> int | None:
        """Return when the generators are due."""
        return self._due

    def tick(self, now: int) -> None:
        """Call the generators."""
        self._due = now + self._interval
        self.checks.periodic(self.progress.live(), now)
        self._emit_periodic(now)

    def settle(self) -> None:
        """The micro-batch has ended: emit its watermark, or the idle status if there was no record."""
        self._pausing = False
        before = self._operator.current_watermark
        self._emit_periodic(self._operator.context.processing_time())
        if self.progress.watermark > before == self._operator.current_watermark:
            self.advance()  # of a generator that emitted during the batch
        elif self._strategy.generator is not None and not self._saw:
            self._operator.output.idle(True)

    def _emit_periodic(self, now: int) -> None:
        if self.progress.periodic(now):
            self.advance()
        if self.progress.idle != self._emitted_idle:
            self._emitted_idle = self.progress.idle
            self._operator.output.idle(self._emitted_idle)


def assigner_calls(strategy: WatermarkStrategy) -> tuple[LoopCall, ...] | None:
    """Return the functions of a strategy; ``None`` if it has a generator of the program's own."""
    if strategy.generator is not None and not isinstance(strategy.generator, BoundedOutOfOrdernessSpec):
        return None
    if strategy.assigner is None:
        return ()
    return (LoopCall(call_of(strategy.assigner, "extract_timestamp"), 2, label="the timestamp assigner"),)


@dataclass(frozen=True)
class TimestampsAndWatermarks:
    """Spec of ``assign_timestamps_and_watermarks``."""

    strategy: WatermarkStrategy

    @property
    def traits(self) -> OperatorTraits:
        """Records pass as they are, in the order of the input: a watermark is a statement about that order."""
        return OperatorTraits(keeps_type=True, stays_with_input=True, calls=assigner_calls(self.strategy))

    def build(self) -> Operator:
        """Make the logic."""
        return TimestampsAndWatermarksLogic(self.strategy)


class TimestampsAndWatermarksLogic(Operator):
    """One subtask, one generator."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy
        self._emitter: WatermarkEmitter

    def open(self) -> None:
        """Make the generator."""
        self._emitter = self.make_watermark_emitter()
        self._emitter.progress.add("", self.context.processing_time())

    def make_watermark_emitter(self) -> WatermarkEmitter:
        """Make the watermark emitter."""
        return WatermarkEmitter(self._strategy, self)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Assign timestamps to a block."""
        self._emitter.emit("", values, timestamps)

    def watermark(self, watermark: int) -> None:
        """Only the end of event time is passed on."""
        if watermark == MAX_WATERMARK:
            super().watermark(watermark)

    def idle(self, idle: bool) -> None:
        """Not passed on: this operator determines idleness itself."""

    def pause(self) -> None:
        """Emit the watermark of the micro-batch."""
        self._emitter.settle()

    def next_tick(self) -> int | None:
        """Return when the generator is due."""
        return self._emitter.next_tick()

    def tick(self, now: int) -> None:
        """Call the generator."""
        self._emitter.tick(now)
