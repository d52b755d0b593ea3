"""The task without I/O: blocks, ticks and commands in, blocks and events out.

A task hosts one subtask of every vertex of its stage. ``TaskLoop`` calls ``receive`` for each block that
arrived, ``step`` while there is ``work``, ``poll`` where there are sources, ``advance`` when time has passed, ``flush``
when records have waited long enough; and has ``outbox`` (target task of the next stage, bytes) carried away after each.
Nothing here blocks, reads a socket or starts a thread, so the same task runs in Spark and under simulated time.

Long blocks of slow records are split (``PieceSize``), so that no call takes much longer than 20 ms because of
the number of records: commands, ticks and flushes are not delayed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol

from funken.columnar.block import Block, RowBlock
from funken.connectors.dataframe import RowsReader
from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, OperatorId
from funken.metrics.registry import bucket_of
from funken.operators.user_functions import TaskTime
from funken.plan.physical import PhysicalPlan
from funken.runtime.chain.chain import (
    EdgeOutput,
    FailureAttribution,
    FinishedOperatorChain,
    OperatorContexts,
    TaskBackends,
    attribute_failure,
    is_failure,
)
from funken.runtime.exchange.gate import (
    BlockHeader,
    BlockKind,
    ChannelId,
    InputGate,
    LoopGate,
    decode_records,
    payload_of,
    read_header,
)
from funken.runtime.exchange.writers import IngestionTime
from funken.runtime.flow_control import PieceSize, SourceThrottle
from funken.runtime.messages import (
    CheckpointAborted,
    CheckpointComplete,
    LoopEnd,
    LoopReported,
    LoopRound,
    MetricsReport,
    OperatorEvent,
    OperatorMetrics,
    StartReading,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskId,
    Throttle,
    TriggerCheckpoint,
)
from funken.runtime.process import process_status
from funken.runtime.settings import TaskSettings
from funken.runtime.task.checkpoint_machine import CheckpointEvent, LoopEnded, LoopEnding, SourceEnded, TimePassed
from funken.runtime.task.state_manager import TaskStateSnapshot
from funken.runtime.task.subtasks import (
    QueuedBlock,
    SendBack,
    Subtask,
    TaskBuilder,
    TaskCheckpoints,
    latency_statistics,
)
from funken.timing.clock import Clock

# ---- The metrics of a task: counted per block, timed per block or per turn of its loop, never per record.
#
# Three kinds of time, as in Flink. *Busy*: operators work on a block, a watermark, a barrier or a timer; work of a
# vertex that is joined by an edge within the task counts for the vertex before it. *Back-pressured*: the task's
# output waits until Spark takes it, or its sources pause because records queue behind them. *Idle* is the rest,
# which the driver computes.


class TaskMeter:
    """Keeps the times of one task, and reports its metrics.

    >>> seconds = iter([1.0, 3.5])
    >>> meter = TaskMeter(TaskId(0, 0), {}, lambda: next(seconds))
    >>> meter.hold(); meter.hold(); meter.release(); meter.release()
    >>> meter.held
    2.5
    """

    __slots__ = ("_before", "_clock", "_since", "_subtasks", "_task", "blocked", "held")

    def __init__(self, task: TaskId, subtasks: Mapping[int, Subtask], clock: Callable[[], float]) -> None:
        self._task = task
        self._subtasks = subtasks
        self._clock = clock
        self._since: float | None = None
        #: for how long (s) the vertices had been busy when ``waited`` was last called
        self._before: dict[int, float] = {}
        self.blocked = 0.0
        """The time (s) that the output has waited until it was taken."""
        self.held = 0.0
        """The time (s) that the sources have paused because of the tasks behind them."""

    def hold(self) -> None:
        """The sources pause from now on, if they do not yet."""
        if self._since is None:
            self._since = self._clock()

    def release(self) -> None:
        """The sources read on."""
        if self._since is not None:
            self.held += self._clock() - self._since
            self._since = None

    def waited(self, seconds: float) -> None:
        """The task had something to do, but its thread turned other tasks for so long (s), since the last call.

        Its work since then took so much longer, as if the other tasks had had threads of their own.
        """
        before, self._before = self._before, {}
        grown = {number: each.metrics.busy - before.get(number, 0.0) for number, each in self._subtasks.items()}
        total = sum(grown.values())
        for number, subtask in self._subtasks.items():
            if total > 0:
                subtask.metrics.busy += seconds * grown[number] / total
            self._before[number] = subtask.metrics.busy

    def report(self, plan: PhysicalPlan, contexts: OperatorContexts) -> MetricsReport:
        """Return a copy of the current metrics."""
        now = self._clock()
        held = self.held if self._since is None else self.held + now - self._since
        for subtask in self._subtasks.values():
            metrics, gate, source = subtask.metrics, subtask.gate, subtask.source
            metrics.records_out = sum(end.records() for end in subtask.outputs)
            metrics.bytes_out = sum(writer.bytes for writer in subtask.writers)
            metrics.watermark_out = min(op.current_watermark for op in subtask.chain.operators.values())
            metrics.watermark = gate.combined if gate is not None else metrics.watermark_out
            metrics.back_pressured = self.blocked
            if gate is not None:
                metrics.records_in = gate.records
            if source is not None:
                metrics.records_in = source.records
                metrics.back_pressured += held
            counts = subtask.chain.record_counts(metrics.records_in)
            metrics.operators = {plan.stable_ids[number]: found for number, found in counts.items()}
            metrics.markers = {name: latency_statistics(ages) for name, ages in subtask.marker_ages.items()}
            for node in subtask.vertex.nodes:
                group = contexts.metrics[node.id]
                if user := group.snapshot():
                    found = OperatorMetrics(node.name, self._task.subtask, user, group.labels())
                    metrics.user[plan.stable_ids[node.id]] = found
        vertices = {number: subtask.metrics.copy() for number, subtask in self._subtasks.items()}
        return MetricsReport(self._task, vertices=vertices, at=now, process=process_status())


# ---- The rounds of loops, in one task: by them the driver finds out whether a loop is empty, without a clock.
#
# A round begins at the root heads of a loop, when all of their inputs have ended and the driver says so. Its marker
# follows the records: a vertex sends it on when it has come on every channel from within the loop that has not
# ended, and every channel from outside has ended. The tails send it back. When it has come back on all feedback
# channels of a head, the head reports how many records have come back since the round before. If that is none at
# every head, then no head has given the loop anything behind the marker, and what was before it has left the loop:
# it is empty. One exception is reported with the round: an operator may still wait for results
# (``Operator.awaits_results``).
#
# Channels are in order, and nothing is held back for a marker; one round of a loop is under way at a time.


@dataclass(slots=True)
class _Member:
    """A subtask that is in a loop; ``arrived`` and ``came_back``: the channels that have delivered the marker of the round."""

    subtask: Subtask
    gate: InputGate
    outputs: list[EdgeOutput]
    inside: set[ChannelId]
    arrived: set[ChannelId] = field(default_factory=set)
    came_back: set[ChannelId] = field(default_factory=set)
    round: int = 0
    busy: bool = False
    returns_busy: bool = False
    reported: bool = False
    closed: bool = False

    def all_arrived(self) -> bool:
        """Return True if the marker has come on all channels that can deliver it, and nothing else is to come."""
        ended = {key for key, channel in self.gate.channels.items() if channel.ended}
        return (
            bool(self.arrived)
            and self.inside - ended <= self.arrived
            and self.gate.channels.keys() - self.inside <= ended
        )


class TaskRounds:
    """The subtasks of one task that are in loops."""

    def __init__(
        self, task: TaskId, plan: PhysicalPlan, subtasks: Mapping[int, Subtask], report: Callable[[TaskEvent], None],
        checkpoints: Callable[[CheckpointEvent], None],
    ) -> None:  # fmt: skip
        self._task = task
        self._report = report
        self._checkpoints = checkpoints
        self._members: dict[int, _Member] = {}
        inside = {edge.id for edge in plan.edges if edge.loop is not None and not edge.feedback}
        looped = {vertex for edge in plan.edges if edge.loop is not None for vertex in (edge.source, edge.target)}
        for vertex, subtask in subtasks.items():
            if vertex in looped and subtask.gate is not None:
                outputs = [output for output in subtask.outputs if output.edge.loop is not None]
                channels = {key for key in subtask.gate.channels if key[0] in inside}
                self._members[vertex] = _Member(subtask, subtask.gate, outputs, channels)
                subtask.gate.connect_rounds(self)

    @property
    def closed(self) -> bool:
        """True if every head has ended, and all that could come back has."""
        return all(member.gate.closed for member in self._members.values() if isinstance(member.gate, LoopGate))

    # ---- the driver's commands

    def handle(self, command: LoopRound | LoopEnd) -> None:
        """Begin a round at a root, or end the loop."""
        member = self._members[command.vertex]
        assert isinstance(member.gate, LoopGate)
        if isinstance(command, LoopEnd):
            self._checkpoints(LoopEnding(command.vertex))
            member.gate.finish()
            return
        if command.ends_time:
            member.gate.end_event_time()
        self._send_on(member, command.round, busy=False)

    # ---- what the gates pass on

    def round(self, vertex: int, channel: ChannelId, number: int) -> None:
        """A marker has arrived, on an input or back."""
        member, (round_number, busy) = self._members[vertex], divmod(number, 2)
        if isinstance(member.gate, LoopGate) and channel not in member.gate.channels:
            member.came_back.add(channel)
            member.returns_busy |= bool(busy)
            self._look_back(vertex, member, round_number)
        else:
            member.arrived.add(channel)
            member.busy |= bool(busy)
            member.round = round_number
            self._look(member)

    def end(self, vertex: int) -> None:
        """A channel has ended."""
        member = self._members[vertex]
        if isinstance(member.gate, LoopGate):
            gate = member.gate
            if gate.inputs_ended and not member.reported:
                member.reported = True
                if gate.root:
                    self._report(LoopReported(self._task, subtask=self._task.subtask, vertex=vertex))
                else:
                    self._checkpoints(LoopEnding(vertex))
            if gate.closed and not member.closed:
                member.closed = True
                self._warn_of_late(member, gate)
                self._checkpoints(LoopEnded(vertex))
        self._look(member)

    def _look(self, member: _Member) -> None:
        if member.all_arrived():
            member.arrived.clear()
            busy, member.busy = member.busy, False
            self._send_on(member, member.round, busy)

    def _send_on(self, member: _Member, number: int, busy: bool) -> None:
        busy |= member.subtask.chain.awaits_results()
        for output in member.outputs:
            output.round(2 * number + busy)

    def _look_back(self, vertex: int, member: _Member, number: int) -> None:
        gate = member.gate
        assert isinstance(gate, LoopGate)
        if gate.waits_for() <= member.came_back:
            records, gate.came_back = gate.came_back, 0
            busy, member.returns_busy = member.returns_busy, False
            member.came_back.clear()
            self._report(LoopReported(self._task, -1, self._task.subtask, vertex, number, records, busy))

    @staticmethod
    def _warn_of_late(member: _Member, gate: LoopGate) -> None:
        if gate.too_late:
            member.subtask.chain.head.context.warn(
                "late feedback",
                f"dropped {gate.too_late:,} records that came back when the loop had ended: operators of the loop have emitted "
                "them at their own end, or by timers of processing time. What is to go round has to be emitted before.",
            )


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
        """True if every vertex and every relayed channel has ended."""
        return (
            not self._work
            and not self._live_sources
            and self._relayed_ends >= self._relays_expected
            and all(subtask.gate is None or subtask.gate.finished for subtask in self.subtasks.values())
            and self._rounds.closed
        )

    @property
    def has_sources(self) -> bool:
        """True if ``poll`` may return a block."""
        return bool(self._live_sources)

    @property
    def work(self) -> bool:
        """True if blocks are queued for ``step``."""
        return bool(self._work)

    @property
    def backlog(self) -> int:
        """Number of blocks that are queued for ``step``."""
        return len(self._work)

    @property
    def looks_ahead(self) -> bool:
        """True if blocks are received although others are queued: an unaligned barrier overtakes these."""
        return self.machine.unaligned_after is not None

    @property
    def awaits_barriers(self) -> bool:
        """True if an unaligned checkpoint waits for barriers."""
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
        """Tick the operators of a vertex whose time has come by now, before they process anything else."""
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
        """Spark has rows for the source that reads a DataFrame; ``None``: there no longer are any."""
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
        """Read the clock and fire due ticks; return the time of the next tick (ms), ``None``: never."""
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
        """The sources have to pause until their records have come through: flush all, without delay on the way."""
        self.flush()
        with self._failures:
            self.flushing.flush_timed()
        if self.outbox:
            self.flushing.request_urgent_flush()

    def take_urgent_flush(self) -> bool:
        """Return True if an urgent flush was requested since the last call."""
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
        """True if a snapshot is being materialized: ``advance`` continues it, as every step does."""
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


# ---- The loop around a task: in which order it advances, receives, works, polls, sends, flushes and reports.
#
# There is one such loop. Spark's worker, the local runner (and with it the test kit) and the simulation turn it;
# they differ in what they inject: the mailbox, where events go, the clock, and who takes what is sent. Nothing here
# blocks, sleeps or starts a thread. A turn is
#
# 1. ``advance``: tick what is due, become unaligned, materialize,
# 2. *receive* from the mailbox while no block is queued, or while a barrier that is received may overtake those that are,
# 3. *step*: process a queued block; 2 and 3 as many times as the turn is given blocks,
# 4. *poll* the sources if no block is queued,
# 5. *send* what came of it,
# 6. *flush* and send: when the buffer timeout has passed, or nothing else is to be done (sources: but not too often),
# 7. *report*: by how much records queued too long, or what comes through while the job begins, and the metrics.


IDLE_FLUSH_SECONDS = 0.001
"""Sources that have nothing more to read flush no more often than this,"""
_COSTS = 5
"""nor than so many times the time of a flush,"""
_DELAYS = 4
"""nor than so many times by how much they are woken too late: cores that are busy have no time for more blocks."""
_MOST_TIMEOUTS = 20
"""A task that is kept from its core flushes after so many buffer timeouts, whatever it had of them."""
MEASURE_SECONDS = 0.5
"""The interval (s) of a task's reports of its metrics."""


class Mailbox(Protocol):
    """The arrivals of a task: blocks and commands, in one order."""

    def empty(self) -> bool:
        """Return True if nothing has arrived."""

    def deliver(self) -> bool:
        """Deliver the oldest to the task; return whether the turn goes on, or the task is to advance first."""

    def processed(self) -> None:
        """A block was processed."""

    def flushes(self) -> bool:
        """Return True if the task flushes in this turn if no block is queued, with any buffer timeout."""


class TaskLoop:
    """Turns one task; ``timeout`` is the buffer timeout (s), negative: only full blocks are sent.

    ``reports_delay``: whether the driver is to throttle the sources by the queues here.
    """

    def __init__(
        self, task: Task, mailbox: Mailbox, report: Callable[[TaskEvent], None], clock: Clock, timeout: float,
        reports_delay: bool,
    ) -> None:  # fmt: skip
        self.task = task
        self.mailbox = mailbox
        self.wait = 0.0
        """For how long (ms) nothing is to be done after the last turn unless something arrives; ``inf``: there is no limit."""
        self._report = report
        self._clock = clock
        self._timeout = timeout
        self._reports_delay = reports_delay
        self._flushed = self._measured = self._told = clock.monotonic()
        #: how long (s) a flush takes, and by how much turns are late, on average
        self._cost = self._late = 0.0
        #: when the next turn is due, if nothing arrives
        self._due = math.inf
        #: when a busy task flushed, and how long (s) it had been kept from a core by then
        self._kept: tuple[float, float | None] = (0.0, None)
        #: when the last turn ended, if it was to wait; for how long (s) sources had to pause
        self._ended = self._paused = 0.0
        #: until when it is not looked at again
        self._fills = 0.0

    def turn(self, blocks: int = 1, may_poll: bool = True, seconds: float = math.inf) -> Iterator[bool]:
        """Turn once, with so many blocks and seconds at most. Sources are not polled unless they may be: their output is full.

        Yields when the task's ``outbox`` is to be taken: whether it must not be held back on its way.
        """
        task = self.task
        if self._due < math.inf:
            now = self._clock.monotonic()
            self._late += (max(0.0, now - self._due) - self._late) / 8
            if task.throttle.pausing:
                self._paused += now - self._ended
        self.wait = self._work(task.advance(), blocks, may_poll, seconds)
        if task.outbox:
            yield task.take_urgent_flush()
        now = self._clock.monotonic()
        if self._timeout >= 0 and self._flush_is_due(now):
            self._flushed = now
            task.flush()
            yield True
            self._cost += (self._clock.monotonic() - now - self._cost) / 8
        if self._reports_delay and now - self._told >= task.throttle.tells_after:
            self._told = now
            if (report := task.throttle.take_report(idle=self.wait > 0)) is not None:
                self._report(report)
        if now - self._measured >= MEASURE_SECONDS:
            self._measured = now
            self._report(task.measured())
        self._due = math.inf
        if self.wait > 0:
            if self._reports_delay and task.throttle.begins():
                self.wait = min(self.wait, round(1000 * max(task.throttle.every - (now - self._told), 0.001), 6))
            self._ended = self._clock.monotonic()
            self._due = self._ended + self.wait / 1000
            task.throttle.on_idle()

    def _work(self, due: int | None, blocks: int, may_poll: bool, seconds: float) -> float:
        """Receive, process and poll; return the idle time that follows (ms)."""
        task, mailbox = self.task, self.mailbox
        worked = 0
        until = self._clock.monotonic() + seconds if seconds < math.inf else math.inf
        while True:
            while not mailbox.empty() and (task.looks_ahead or not task.work):
                if not mailbox.deliver():
                    return 0.0
            if task.work and worked < blocks:
                task.step()
                worked += 1
                mailbox.processed()
                if until < math.inf and self._clock.monotonic() >= until:
                    break
            if worked >= blocks or (not task.work and mailbox.empty()):
                break
        wait = 0.0 if worked or task.work or task.materializing else math.inf
        if due is not None and wait:
            # What is overdue right after it was looked after is not due again before the clock moves.
            wait = max(round(due - self._clock.wall() * 1000, 6), 0.0) or 1.0
        if task.has_sources and not task.work:
            if not may_poll:
                task.meter.hold()
            else:
                found = task.poll()
                wait = 0.0 if found is None else min(wait, found)
        return wait

    def _flush_is_due(self, now: float) -> bool:
        task, timeout = self.task, self._timeout
        if not task.work and self.mailbox.flushes():
            return True
        if self.wait > 0 and task.has_sources and not task.throttle.pausing and task.flushing.waiting:
            timeout = min(timeout, max(IDLE_FLUSH_SECONDS, _COSTS * self._cost, _DELAYS * self._late))
        left = max(timeout, task.throttle.min_flush_delay()) - (now - self._flushed)
        if left <= 0 and (not self.wait or task.throttle.pausing):
            left = self._still_fills(now)
        if left > 0:
            self.wait = min(self.wait, round(left * 1000, 6))
        return left <= 0

    def _still_fills(self, now: float) -> float:
        """Return the time (s) for which a task that has work, but no core, or may not read on, still fills blocks.

        That time does not fill blocks, and there is the less of a core the more is spent on blocks.
        """
        at, before = self._kept
        if at != self._flushed:  # it was idle when it flushed last, and nothing is known of the time since
            self._kept = (now, self._kept_back())
            return 0.0
        if now < self._fills:
            return self._fills - now
        kept, past = self._kept_back(), now - self._flushed
        if before is not None and kept is not None:
            left = min(self._timeout - past + min(kept - before, past), _MOST_TIMEOUTS * self._timeout - past)
            if left > 0:
                self._fills = now + left
                return left
        self._kept = (now, kept)
        return 0.0

    def _kept_back(self) -> float | None:
        """Return the time (s) that the task had no core, or its sources paused; ``None``: nobody knows."""
        delay = self._clock.run_delay()
        return None if delay is None else delay + self._paused
