"""The source operator: reads splits through a reader, assigns timestamps, requests splits when it has none.

It has no input; the task calls ``poll`` when there is room downstream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from funken.columnar.block import Block
from funken.connectors.base import Batch, Boundedness, NeedSplits, Source, SourceReader, Wait, declares, split_id
from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, Timestamps, Values, connector_context
from funken.operators.codegen import LoopText, by_field
from funken.operators.coordinators import (
    AddSplits,
    AlignWatermark,
    OperatorCoordinatorContext,
    ReportWatermark,
    RequestSplits,
    SourceCoordinator,
    SplitsDiscovered,
)
from funken.operators.user_functions import LoopCall, OperatorTraits, call_of
from funken.timing.instants import check_range, timestamps_ms
from funken.timing.watermarks import BoundedOutOfOrdernessSpec, EventTimeChecks, WatermarkProgress, WatermarkStrategy
from funken.types.info import TypeInformation

# ---- Assigning timestamps and watermarks: in the middle of a stream, and the part that sources share.
#
# What comes from upstream as watermark is dropped, except ``MAX_WATERMARK``: a new assigner overrides the old.
# (Flink's ``TimestampsAndWatermarksOperator``.)


def _assigning(operator: Operator, assigner: Callable[[Any, int], Any]) -> Callable[[Values, Timestamps], list[Any]]:
    """Return a function that assigns the timestamps of a block: a loop with the assigner's body, if that can be read."""

    def called(values: Values, stamps: Timestamps) -> list[Any]:
        # Hot: a comprehension takes 42 ns, a loop 58.
        rest = iter(values)
        if stamps is None:
            return [assigner(value, MIN_TIMESTAMP) for value in rest]
        return [assigner(value, old) for value, old in zip(rest, stamps, strict=True)]

    text = LoopText("timestamps", "values, stamps", operator.context.inlining)
    step = text.step(operator, assigner, "value", "old", record="value")
    if not step.inlined:
        return called
    text.line("assigned = []")
    text.line("append = assigned.append")
    if by_field(step, "old", []) is not None:  # it does not ask for the timestamp so far
        text.line(f"old = {MIN_TIMESTAMP}")
        text.line("for value in values:")
    else:
        text.line(f"if stamps is None: stamps = {text.name('_repeat', repeat)}({MIN_TIMESTAMP}, len(values))")
        text.line(f"for value, old in {text.name('_zip', zip)}(values, stamps, strict=True):")
    text.line(f"append({step.expression})", step)
    text.close()
    text.line("return assigned")
    return text.compile()


class WatermarkEmitter:
    """Assigns timestamps and emits watermarks on an operator's output, by a strategy; one progress over all its splits."""

    def __init__(self, strategy: WatermarkStrategy, operator: Operator) -> None:
        self._strategy = strategy
        self._operator = operator
        self._interval = operator.context.auto_watermark_interval
        self.progress = WatermarkProgress(strategy)
        self._assign: Callable[[Values, Timestamps], list[Any]] | None = None
        if strategy.assigner is not None:
            self._assign = _assigning(operator, call_of(strategy.assigner, "extract_timestamp").bind())
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
        if self._assign is not None:
            timestamps = timestamps_ms(self._assign(values, timestamps), values)
        try:
            self._emit(split, values, timestamps)
        except OverflowError:
            check_range(timestamps, values)
            raise

    def _emit(self, split: str, values: Values, timestamps: Timestamps) -> None:
        strategy, output = self._strategy, self._operator.output
        if strategy.generator is None:
            self._hand_on(values, timestamps)
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
        start = 0
        for end in ends:
            self._hand_on(values[start:end], timestamps and timestamps[start:end])
            self.advance()
            start = end
        if start < len(values):
            self._hand_on(values[start:], timestamps and timestamps[start:])

    def _hand_on(self, values: Any, timestamps: Timestamps) -> None:
        """Emit records, or a block of a form of its own, which a reader has made: it travels without timestamps."""
        if isinstance(values, Block):
            self._operator.output.emit_block(values)
        else:
            self._operator.output.emit(values, timestamps)

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
        """Return the time at which the generators are due."""
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
        calls = assigner_calls(self.strategy)
        return OperatorTraits(keeps_type=True, stays_with_input=True, loop=calls or (), calls=calls)

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
        """Return the time at which the generator is due."""
        return self._emitter.next_tick()

    def tick(self, now: int) -> None:
        """Call the generator."""
        self._emitter.tick(now)


_ASK_AGAIN_MILLIS = 100
"""The time (ms) after which a subtask requests splits again if there were none, and it has heard of none since."""

_WOKEN_MILLIS, _UNWOKEN_MILLIS = 1000, 5
"""The interval (ms) of polls of a reader that wakes the task; where nothing can wake the task, it is polled often."""


@dataclass(frozen=True)
class SourceSpec:
    """A source, the strategy for its event time, and the declared type of its records, if it has one."""

    source: Source
    strategy: WatermarkStrategy
    type_info: TypeInformation | None = None

    @property
    def bounded(self) -> bool:
        """True if the source ends by itself."""
        return self.source.boundedness is Boundedness.BOUNDED

    @property
    def traits(self) -> OperatorTraits:
        """The connector, and the type that it declares."""
        loop = assigner_calls(self.strategy) or ()
        return OperatorTraits(source=self.source, output_type=self.type_info, loop=loop, calls=self._calls())

    def _calls(self) -> tuple[LoopCall, ...] | None:
        """Return the functions that the readers and the strategy call; ``None`` if readers may wait."""
        declared = self.source.index_columns if declares(self.source, "index_columns", "reader") else None
        assigner = assigner_calls(self.strategy)
        if assigner is None or (declared is None and not self._never_waits()):
            return None
        if declared is None or declared.function is None:
            return assigner
        return (LoopCall(call_of(declared.function, "map")), *assigner)

    def _never_waits(self) -> bool:
        return self.source.never_waits and declares(self.source, "never_waits", "reader")

    def build(self) -> SourceOperator:
        """Make the logic of one subtask."""
        return SourceOperator(self)

    def coordinator(self, context: OperatorCoordinatorContext) -> SourceCoordinator:
        """Make the driver's half."""
        return SourceCoordinator(context, self.source, self.strategy.alignment)


class SourceOperator(Operator):
    """One subtask of a source."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self.columnar = self.columnar or spec.source.makes_blocks
        self._reader: SourceReader
        self._emitter: WatermarkEmitter
        self._opened = False
        #: whether a request is under way, or was answered by "none now" and is not yet to be repeated
        self._asked = False
        self._ask_again: int | None = None
        self._no_more = False
        self._restored: list[Any] = []
        self._waits = False
        self._allowed: int | None = None
        self._align_due: int | None = None
        self._paused: set[str] = set()
        self._checkpoint_id = 0
        self.records = 0
        """Number of records read."""

    def open(self) -> None:
        """Open the reader."""
        context = self.context
        self._reader = self.make_reader()
        self._emitter = self.make_watermark_emitter()
        if self._spec.strategy.alignment is not None:
            self._align_due = context.processing_time()
        self._opened = True
        self._waits = self._spec.strategy.waits_for_all_splits
        self._reader.open()
        if self._restored:
            self.add_splits(self._restored, no_more=False)
            # With fewer subtasks than before there may be splits that were not read yet: their records would be late.
            self._waits = True

    def make_reader(self) -> SourceReader:
        """Make the reader."""
        return self._spec.source.reader(connector_context(self.context))

    def make_watermark_emitter(self) -> WatermarkEmitter:
        """Make the watermark emitter."""
        return WatermarkEmitter(self._spec.strategy, self)

    def add_splits(self, splits: Sequence[Any], no_more: bool) -> None:
        """Read these splits; ``no_more``: there will be none after these."""
        now = self.context.processing_time()
        self._asked = not splits and not no_more and not self._waits
        self._ask_again = now + _ASK_AGAIN_MILLIS if self._asked else None
        self._waits = self._spec.strategy.waits_for_all_splits and bool(splits) and not no_more
        self._no_more = no_more
        if splits:
            for split in splits:
                self._emitter.progress.add(split_id(split), now)
            self._reader.add_splits(splits)

    def poll(self, limit: int, now: int) -> int | None:
        """Read and emit up to about ``limit`` records.

        Returns 0 if there may be more at once, a number of ms to wait if not, ``None`` if the source has ended.
        """
        if self._allowed is not None and self._emitter.progress.watermark > self._allowed:
            return 5
        if self._waits:
            self._ask(all_read=False)
            return 5
        found = self._reader.poll(limit, now)
        if isinstance(found, Batch):
            self.records += len(found.values)
            self._emitter.progress.add(found.split, now)
            self._emitter.emit(found.split, found.values, found.timestamps)
            self._drop_finished()
            return 0
        self._drop_finished()
        if isinstance(found, Wait):
            if found.millis is None:
                return _WOKEN_MILLIS if self.context.wake is not None else _UNWOKEN_MILLIS
            return found.millis
        assert isinstance(found, NeedSplits)
        if self._no_more:
            self._report_watermark(MAX_WATERMARK)
            return None
        if self._ask_again is not None and now >= self._ask_again:
            self._asked, self._ask_again = False, None
        self._ask(all_read=True)
        return 0 if not self._asked else 5

    def _ask(self, all_read: bool) -> None:
        if not self._asked:
            self._asked = True
            self.context.send_event(RequestSplits(all_read))

    def _drop_finished(self) -> None:
        finished = self._reader.split_finished()
        for split in finished:
            self._emitter.progress.remove(split)
            self._paused.discard(split)
        if finished and self._emitter.progress.combine():
            self._emitter.advance()

    @property
    def pauses(self) -> bool:
        """True if there is more to come in another micro-batch, although this subtask has read all there is."""
        return self.context.pausing and not self._spec.bounded

    def pause(self) -> None:
        """Emit the watermark of the micro-batch."""
        self._emitter.settle()

    @property
    def reader(self) -> SourceReader:
        """Return the reader; there is one from ``open`` on."""
        return self._reader

    def handle_operator_event(self, payload: Any) -> None:
        """Take splits, request those that were discovered, or wait for others of the watermark alignment group."""
        match payload:
            case AddSplits(splits, no_more):
                self.add_splits(splits, no_more)
            case SplitsDiscovered():
                self._asked, self._ask_again = False, None
            case AlignWatermark(allowed):
                self._allowed = allowed
                self._pause_splits()

    def _pause_splits(self) -> None:
        """Hold back the splits that are too far ahead of the alignment group, and those no more that are not."""
        if self._allowed is None or not self._reader.pauses_splits:
            return
        ahead = self._emitter.progress.ahead_of(self._allowed)
        if ahead != self._paused:
            self._reader.pause_or_resume_splits(sorted(ahead - self._paused), sorted(self._paused - ahead))
            self._paused = ahead

    def _report_watermark(self, watermark: int) -> None:
        if self._spec.strategy.alignment is not None:
            self.context.send_event(ReportWatermark(watermark))

    def next_tick(self) -> int | None:
        """Return the time at which watermarks are due, to be emitted or reported to the alignment group."""
        dues = [due for due in (self._emitter.next_tick(), self._align_due) if due is not None]
        return min(dues) if dues else None

    def tick(self, now: int) -> None:
        """Emit watermarks, and report to the alignment group (an idle subtask is left out)."""
        due = self._emitter.next_tick()
        if due is not None and due <= now:
            self._emitter.tick(now)
        if self._align_due is not None and self._align_due <= now:
            assert self._spec.strategy.alignment is not None
            self._align_due = now + self._spec.strategy.alignment[2]
            progress = self._emitter.progress
            self._report_watermark(MAX_WATERMARK if progress.idle else progress.watermark)
        self._pause_splits()

    def prepare_snapshot(self, checkpoint_id: int) -> Sequence[Any]:
        """Remember which checkpoint the reader is to be snapshotted for."""
        self._checkpoint_id = checkpoint_id
        return ()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the reader."""
        if self._opened:
            self._reader.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the reader."""
        if self._opened:
            self._reader.notify_checkpoint_aborted(checkpoint_id)

    def snapshot(self) -> Any:
        """Return the unfinished splits with their positions."""
        return self._reader.snapshot_state(self._checkpoint_id)

    def restore(self, snapshot: Any) -> None:
        """Read these splits first."""
        self._restored = list(snapshot)

    def close(self) -> None:
        """Close the reader."""
        if self._opened:
            self._reader.close()
