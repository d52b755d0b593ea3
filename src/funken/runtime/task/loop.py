"""The task without I/O: blocks, ticks and commands in, blocks and events out.

A task hosts one subtask of every vertex of its stage. ``TaskLoop`` (``mailbox.py``) calls ``receive`` for each block that
arrived, ``step`` while there is ``work``, ``poll`` where there are sources, ``advance`` when time has passed, ``flush``
when records have waited long enough; and has ``outbox`` (target task of the next stage, bytes) carried away after each.
Nothing here blocks, reads a socket or starts a thread, so the same task runs in Spark and under simulated time.

Long blocks of slow records are split (``piece_size.py``), so that no call takes much longer than 20 ms because of
the number of records: commands, ticks and flushes are not delayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from funken.columnar.block import Block, RowBlock
from funken.connectors.dataframe import RowsReader
from funken.ids import MAX_WATERMARK, OperatorId
from funken.metrics.histogram import bucket_of
from funken.operators.strides import TaskTime
from funken.plan.physical import PhysicalPlan
from funken.runtime.chain.backends import TaskBackends
from funken.runtime.chain.contexts import OperatorContexts
from funken.runtime.chain.failures import FailureAttribution, attribute_failure, is_failure
from funken.runtime.chain.finished_chain import FinishedOperatorChain
from funken.runtime.exchange.wire import BlockHeader, BlockKind, decode_records, payload_of, read_header
from funken.runtime.exchange.writers import IngestionTime
from funken.runtime.flow_control.piece_size import PieceSize
from funken.runtime.flow_control.source_throttle import SourceThrottle
from funken.runtime.messages import (
    CheckpointAborted,
    CheckpointComplete,
    LoopEnd,
    LoopRound,
    MetricsReport,
    OperatorEvent,
    StartReading,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskId,
    Throttle,
    TriggerCheckpoint,
)
from funken.runtime.settings import TaskSettings
from funken.runtime.snapshot.task_state import TaskStateSnapshot
from funken.runtime.task.builder import SendBack, Subtask, TaskBuilder
from funken.runtime.task.checkpoint_events import SourceEnded, TimePassed
from funken.runtime.task.checkpoints import QueuedBlock, TaskCheckpoints
from funken.runtime.task.meter import TaskMeter
from funken.runtime.task.rounds import TaskRounds
from funken.timing.clock import Clock

_BEGIN_MILLIS, _NO_RECORDS = 100, RowBlock([])  # the second: of a control block


class Task:
    """Task ``index`` of a stage; operators call ``wake`` from other threads when ``advance`` has something to do."""

    def __init__(
        self, plan: PhysicalPlan, task: TaskId, settings: TaskSettings, clock: Clock, event: Callable[[TaskEvent], None],
        wake: Callable[[], None] | None = None, deliver: Callable[[TaskStateSnapshot], None] | None = None,
        send_back: SendBack | None = None,
    ) -> None:  # fmt: skip
        self.id = task
        self.outbox: list[tuple[int, bytes]] = []
        self.closed = False
        self._plan = plan
        self._clock = clock
        self._report = event
        self._now = clock.now()
        self._time = TaskTime(clock)
        self._ingestion_time = IngestionTime()
        #: throttles the sources
        self.throttle = SourceThrottle(plan, task, settings, clock)
        self._edges = plan.edges
        self._work: deque[QueuedBlock] = deque()
        self._pieces = PieceSize(clock, settings.piece_records)
        self._relayed_ends = 0
        self._reported_finished = False
        self._may_read = not settings.together
        self._backends = TaskBackends(settings.state, task.subtask)
        self._contexts = OperatorContexts(
            task, settings, self._backends, clock, self._time, event, wake, plan.stable_ids
        )
        builder = TaskBuilder(plan, task, settings, self.outbox, self._ingestion_time, clock, send_back)
        self.subtasks = builder.build(self._contexts.make)
        self.meter = TaskMeter(task, self.subtasks, clock.monotonic)
        self._live_sources = [subtask for subtask in self.subtasks.values() if subtask.source is not None]
        self._relays_expected = builder.relays()
        self.flushing = builder.flushing
        self._markers = builder.markers
        self._checkpoints = TaskCheckpoints(
            plan, settings.checkpoints, task.subtask, builder, self._work, self._time, clock, deliver
        )
        #: decides about checkpoints; to be read only
        self.machine = self._checkpoints.machine
        self._failures = FailureAttribution(task.subtask)
        self._rounds = TaskRounds(task, plan, self.subtasks, event, self._checkpoints.handle)

    # ---- life

    def open(self) -> None:
        """Open every operator, downstream ones first."""
        with self._failures:
            self._checkpoints.restore()
            for subtask in reversed(list(self.subtasks.values())):
                subtask.chain.open()
            self._checkpoints.restore_channel_state(self._take)

    @property
    def finished(self) -> bool:
        """Whether every vertex and every relayed channel has ended."""
        return (
            not self._work
            and not self._live_sources
            and self._relayed_ends >= self._relays_expected
            and all(subtask.gate is None or subtask.gate.finished for subtask in self.subtasks.values())
            and self._rounds.closed
        )

    @property
    def has_sources(self) -> bool:
        """Whether ``poll`` may give something."""
        return bool(self._live_sources)

    @property
    def work(self) -> bool:
        """Whether blocks are queued for ``step``."""
        return bool(self._work)

    @property
    def backlog(self) -> int:
        """How many blocks are queued for ``step``."""
        return len(self._work)

    @property
    def looks_ahead(self) -> bool:
        """Whether blocks are received although others are queued: an unaligned barrier overtakes these."""
        return self.machine.unaligned_after is not None

    @property
    def awaits_barriers(self) -> bool:
        """Whether an unaligned checkpoint waits for barriers."""
        return self.machine.awaits_barriers

    def close(self) -> None:
        """Close every operator; errors of user code surface here only if nothing failed before, Ctrl-C always."""
        if self.closed:
            return
        self.closed = True
        raised = [error for subtask in self.subtasks.values() for error in subtask.chain.close()]
        self._checkpoints.close()
        self._backends.close()
        for error in raised:
            if not is_failure(error):
                raise error
        if raised and self.finished:
            raise attribute_failure(raised[0], self.id.subtask) from raised[0]

    # ---- events

    def receive(self, data: bytes) -> None:
        """A block arrived from the stage before: queue it for ``step``, or relay it."""
        head = read_header(data)
        edge = self._edges[head.edge]
        if edge.target_stage != self.id.stage:
            hop = self._plan.widths[self.id.stage + 1]
            self.outbox.append((head.target if edge.target_stage == self.id.stage + 1 else head.target % hop, data))
            if head.kind == BlockKind.END:
                self._relayed_ends += 1
                self._check_finished()
            elif head.kind == BlockKind.BARRIER:
                self._checkpoints.receive_barrier(None, head, payload_of(data))
            return
        subtask = self.subtasks[edge.target]
        if head.kind == BlockKind.BARRIER:
            with self._failures:
                self._take(subtask, head, _NO_RECORDS)
                self._checkpoints.receive_barrier(subtask, head, payload_of(data))
            return
        is_data = head.kind == BlockKind.DATA
        subtask.metrics.bytes_in += len(data) if is_data else 0
        self._take(subtask, head, decode_records(data) if is_data else _NO_RECORDS)

    def _take(self, subtask: Subtask, head: BlockHeader, block: Block) -> None:
        self._work.append((subtask, head, block))
        if self._checkpoints.recording:
            self._checkpoints.record(subtask, head, block)

    def step(self) -> None:
        """Process one queued block, or the first piece of it."""
        subtask, head, block = self._work.popleft()
        if head.kind == BlockKind.DATA and len(block) > (size := self._pieces.records * subtask.factor):
            # Cut only now: a task begins with small pieces, and may have been sent a large block.
            self._work.appendleft((subtask, head, block[size:]))
            block = block[:size]
        self._time.read()
        assert subtask.gate is not None
        gate, channel = subtask.gate, (head.edge, head.upstream)
        begin = self._pieces.begin()
        try:
            self._tick_if_due(subtask)
            match head.kind:
                case BlockKind.DATA:
                    self._ingestion_time.at = head.ingested_at
                    gate.data(channel, block)
                    self._measure(subtask, len(block), begin)
                case BlockKind.WATERMARK:
                    gate.watermark(channel, head.number)
                case BlockKind.IDLE:
                    gate.idle(channel, bool(head.number))
                case BlockKind.BARRIER:
                    gate.barrier(channel, head.number)
                case BlockKind.END:
                    gate.end(channel, bool(head.number))
                case BlockKind.LATENCY:
                    self._markers.take(subtask, head.number, head.ingested_at)
                case BlockKind.ROUND:
                    gate.round(channel, head.number)
            if head.kind != BlockKind.DATA:
                subtask.metrics.busy += self._clock.monotonic() - begin
            if self._checkpoints.materializer.open:
                self._checkpoints.materialize(worked=True)
        except BaseException as error:  # Hot: as ``with self._failures``, without its two calls per block
            self._failures.attribute(error)
            raise
        if head.kind >= BlockKind.BARRIER:  # an end, or a barrier that lets one through that was held back
            self._check_finished()

    def _tick_if_due(self, subtask: Subtask) -> None:
        """Tick the operators of a vertex whose time has come by now, before they are given something else."""
        at = subtask.chain.next_tick()
        if at is not None and subtask.vertex.id not in self.machine.stopped and not self._has_finished(subtask):
            now = self._clock.now()
            if at <= now:
                subtask.chain.tick(now)

    def _measure(self, subtask: Subtask, records: int, begin: float) -> None:
        metrics = subtask.metrics
        subtask.worked(self._pieces.end(begin, records // subtask.factor), records)
        if self._ingestion_time.at:
            age = self._clock.wall() - self._ingestion_time.at
            latency = bucket_of(int(age * 1e6))
            metrics.latency[latency] = metrics.latency.get(latency, 0) + 1
            self.throttle.on_block(self._ingestion_time.at, age)

    def poll(self) -> int | None:
        """Poll every source once; return ms to wait (0: poll again at once), ``None`` if no source is left."""
        if self.machine.stopped or not self._may_read:
            return _BEGIN_MILLIS
        if pause := self.throttle.pause():
            self.meter.hold()
            if self.throttle.must_send(self.flushing.oldest):
                self._send_all()
            return pause
        self.meter.release()
        wait: int | None = None
        for subtask in list(self._live_sources):
            assert subtask.source is not None
            begin = self._pieces.begin()
            self._time.read()
            self._ingestion_time.at = self._clock.wall()
            with self._failures:
                room = self.throttle.room(self._ingestion_time.at, self._pieces.records * subtask.factor)
                before = subtask.source.records
                had_ended = isinstance(subtask.chain, FinishedOperatorChain)
                found = None if had_ended else subtask.source.poll(room, self._now)
                self.throttle.on_read(self._ingestion_time.at, read := subtask.source.records - before)
                if found == 0:
                    subtask.worked(self._pieces.end(begin, self._pieces.records), read)
                if found is None:
                    self._tick_if_due(subtask)
                    self._live_sources.remove(subtask)
                    if subtask.source.pauses:
                        subtask.chain.pause()
                    else:
                        subtask.chain.watermark(MAX_WATERMARK)
                        subtask.chain.finish()
                    self._checkpoints.handle(SourceEnded(subtask.vertex.id))
                    found = 0
            wait = found if wait is None else min(wait, found)
        self.throttle.on_poll(wait == 0)
        if self._checkpoints.materializer.open:
            with self._failures:
                self._checkpoints.materialize(worked=wait == 0)
        self._check_finished()
        return wait

    def feed(self, columns: list[Any] | None, done: Callable[[], None]) -> None:
        """Spark brought rows for the source that reads a DataFrame; ``None``: there no longer exist."""
        for subtask in self._live_sources:
            reader = subtask.source and subtask.source.reader
            if isinstance(reader, RowsReader):
                if columns is None:
                    reader.end()
                else:
                    reader.feed(columns, done)
                return
        done()

    def advance(self) -> int | None:
        """Read the clock and tick what is due; return when the next tick is (ms), ``None``: never."""
        self._now = now = self._time.read()
        due: int | None = None
        with self._failures:
            self._backends.watch(now)
            for subtask in self.subtasks.values():
                if subtask.vertex.id in self.machine.stopped:
                    continue
                at = subtask.chain.next_tick()
                if at is not None and at <= now:
                    if not self._has_finished(subtask):
                        begin = self._clock.monotonic()
                        subtask.chain.tick(now)
                        subtask.metrics.busy += self._clock.monotonic() - begin
                    at = subtask.chain.next_tick()
                if at is not None and not self._has_finished(subtask):
                    due = at if due is None else min(due, at)
            if (deadline := self.machine.deadline) is not None:
                if now >= deadline:
                    self._checkpoints.handle(TimePassed())
                    deadline = self.machine.deadline
                due = deadline if due is None else due if deadline is None else min(due, deadline)
            if self._checkpoints.materializer.open:
                self._checkpoints.materialize(worked=False)
            due = self._markers.advance(now, self._live_sources, due)
            at = self.flushing.advance(now)
        if self._checkpoints.materializer.open:
            return now
        return at if due is None else due if at is None else min(due, at)

    def _has_finished(self, subtask: Subtask) -> bool:
        return subtask not in self._live_sources if subtask.source is not None else bool(
            subtask.gate and subtask.gate.finished
        )  # fmt: skip

    def flush(self) -> None:
        """Flush all writers, except those whose operator has a timeout of its own."""
        with self._failures:
            for subtask in self.subtasks.values():
                subtask.chain.flush()

    def _send_all(self) -> None:
        """The sources have to pause until what they sent has come through: flush everything, without delay on the way."""
        self.flush()
        with self._failures:
            self.flushing.flush_timed()
        if self.outbox:
            self.flushing.request_urgent_flush()

    def take_urgent_flush(self) -> bool:
        """Return whether an urgent flush was requested since the last call."""
        return self.flushing.take_urgent_flush()

    def handle_command(self, command: TaskCommand) -> None:
        """Handle a command of the driver."""
        with self._failures:
            match command:
                case TriggerCheckpoint():
                    self._checkpoints.handle(command)
                case CheckpointComplete(checkpoint):
                    self._checkpoints.notify_complete(checkpoint, not self.closed)
                case CheckpointAborted():
                    self._checkpoints.abort(command, not self.closed)
                case OperatorEvent(operator, _, payload) if not self.closed:
                    for subtask in self.subtasks.values():
                        subtask.chain.handle_operator_event(OperatorId(operator), payload)
                case LoopRound() | LoopEnd():
                    self._rounds.handle(command)
                case StartReading():
                    self._may_read = True
                    self.throttle.on_start()
                case Throttle():
                    self.throttle.on_throttle(command)

    @property
    def materializing(self) -> bool:
        """Whether a snapshot is being materialized: ``advance`` continues it, as every step does."""
        return bool(self._checkpoints.materializer.open)

    # ---- reports

    def measured(self) -> MetricsReport:
        """Return a copy of the current metrics."""
        for subtask in self.subtasks.values():
            subtask.metrics.queued = 0
        for subtask, _, _ in self._work:
            subtask.metrics.queued += 1
        return self.meter.report(self._plan, self._contexts)

    def _check_finished(self) -> None:
        if not self._reported_finished and self.finished:
            self._reported_finished = True
            with self._failures:
                snapshot = self._checkpoints.final_snapshot()
            self.close()
            self._report(self.measured())
            if snapshot is not None:
                self._checkpoints.deliver(snapshot)
            else:
                self._report(TaskEnded(self.id))
