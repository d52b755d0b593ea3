"""Builds the subtasks of a task: one of every vertex of its stage, wired to the edges that enter and leave it.

Made once, before anything runs. An exchange ends in a writer that puts blocks into the task's outbox; an edge within the
stage ends in the gate of the other vertex, by a plain call.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from funken.checkpoint.machine import Stop
from funken.columnar.block import Block, RowBlock
from funken.ids import MAX_WATERMARK, CheckpointId, Millis, OperatorId
from funken.operators.base import OperatorContext, Timestamps, Values
from funken.operators.source import SourceOperator
from funken.operators.user_functions import TaskTime
from funken.plan.nodes import Node
from funken.plan.physical import Edge, PhysicalPlan, Vertex
from funken.runtime.chain.chain import EdgeOutput, FinishedOperatorChain, OperatorChain
from funken.runtime.exchange.gate import BlockHeader, BlockKind, ChannelId, InputGate, LoopGate
from funken.runtime.exchange.writers import EdgeWriter, FlushTimers, HashWriter, IngestionTime, writer_for
from funken.runtime.messages import CheckpointAborted, SubtaskCheckpoint, TaskId, VertexMetrics
from funken.runtime.settings import CheckpointPlan, LatencySettings, TaskSettings
from funken.runtime.task.checkpoint_machine import (
    AddChannelState,
    BarrierProcessed,
    BarrierReceived,
    BarrierRecorded,
    BarrierRelayed,
    ChannelEnded,
    CheckpointEvent,
    DeliverSnapshot,
    DropChannelState,
    DropSnapshot,
    ReleaseChannels,
    SealSnapshot,
    SnapshotSealed,
    SnapshotTaken,
    StateMaterialized,
    TakeSnapshot,
    TaskCheckpointMachine,
)
from funken.runtime.task.state_manager import (
    UNALIGNED,
    ChannelState,
    ChannelStateWriter,
    EdgeName,
    Materializer,
    TaskStateManager,
    TaskStateSnapshot,
    edge_names,
    may_overtake,
    no_such_edge,
    reassigned,
)
from funken.timing.clock import Clock

# ---- Latency markers, as in Flink: sources emit them at an interval, they queue with the records, and who gets one
# notes its age.
#
# A marker passes by the functions of operators, so that it measures exchanges, queues and the work of others before
# it, not the function at hand. At an exchange it goes to one subtask, at random. Of each source the newest ages are
# kept, per vertex; off by default, and then nothing of this runs.


_SUBTASKS = 1 << 16


class LatencyMarkers:
    """The markers of one task. ``names`` are the stable ids of operators by number; times are s of the wall clock."""

    __slots__ = ("_clock", "_due", "_names", "_settings", "_subtask")

    def __init__(self, settings: LatencySettings, subtask: int, names: Mapping[OperatorId, str], clock: Clock) -> None:
        self._clock = clock
        self._settings = settings
        self._subtask = subtask
        self._names = names
        self._due: int | None = None

    def advance(self, now: int, sources: Iterable[Subtask], due: int | None) -> int | None:
        """Emit the markers that are due (ms); return when the next thing is due, ``due`` being the next of all else."""
        if not self._settings.interval:
            return due
        if self._due is None or now >= self._due:
            self._due, wall = now + self._settings.interval, self._clock.wall()
            for subtask in sources:
                self._emit(subtask, subtask.vertex.nodes[0].id * _SUBTASKS + self._subtask, wall)
        return self._due if due is None else min(due, self._due)

    def take(self, subtask: Subtask, source: int, marked: float) -> None:
        """A marker arrived: note its age, and pass it on."""
        operator, number = divmod(source, _SUBTASKS)
        name = ""
        if self._settings.granularity != "single":
            name = f"source_id.{self._names[OperatorId(operator)]}."
            if self._settings.granularity == "subtask":
                name += f"source_subtask_index.{number}."
        ages = subtask.marker_ages.get(name)
        if ages is None:
            ages = subtask.marker_ages[name] = deque(maxlen=self._settings.history)
        ages.append(max(0.0, (self._clock.wall() - marked) * 1000))
        self._emit(subtask, source, marked)

    @staticmethod
    def _emit(subtask: Subtask, source: int, marked: float) -> None:
        for output in subtask.outputs:
            output.latency(source, marked)


def latency_statistics(ages: Iterable[float]) -> dict[str, float]:
    """Return Flink's figures of a histogram (ms).

    >>> latency_statistics([4.0, 1.0, 2.0, 3.0])["p99"], latency_statistics([1.0, 2.0, 3.0])["median"]
    (4.0, 2.0)
    """
    known = sorted(ages)
    count = len(known)
    if not count:
        return {}
    mean = sum(known) / count
    found = {
        "count": float(count),
        "min": known[0],
        "max": known[-1],
        "mean": mean,
        "stddev": (sum((age - mean) ** 2 for age in known) / count) ** 0.5,
    }
    for name, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
        found[name] = known[min(count - 1, int(share * count))]
    return {name: round(value, 3) for name, value in found.items()}


COLUMNS_FACTOR = 8
"""A vertex that works on columns is given so many times the records at once: a block costs it, a record hardly anything."""

MIXED_FACTOR, FAST_SECONDS = 4, 0.5e-6
"""One of which a part does so is given so many times the records while a record takes less than that.

The kernels that make texts take 28 us for a block and 8 ns a record: grep with a traced map and a filter that is called makes
34.7 in place of 25.0 million records/s on two cores, and its blocks take 0.5 ms. A source whose records leave for no other vertex
is given a whole block of theirs likewise: to grep such takes 0.93 of the CPU, for a piece costs as much as 400 of its records.
"""

MakeContext = Callable[[Vertex, Node], OperatorContext]
SendBack = Callable[[TaskId, bytes], None]
"""Sends a block to the task of a head, which takes it in any case."""


class LocalEdge:
    """An edge within the task: a call of the gate behind it."""

    def __init__(self, gate: Callable[[], InputGate], channel: ChannelId) -> None:
        self._gate = gate
        self._channel = channel
        self.records = 0

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Pass rows on."""
        self.records += len(values)
        self._gate().data(self._channel, RowBlock(values, timestamps))

    def emit_block(self, block: Block) -> None:
        """Pass a block on."""
        self.records += block.records
        self._gate().data(self._channel, block)


class Subtask:
    """One subtask of a vertex; ``gate`` is ``None`` if the vertex begins with a source."""

    __slots__ = (
        "_fast_factor",
        "chain",
        "factor",
        "gate",
        "marker_ages",
        "metrics",
        "outputs",
        "source",
        "state_writer",
        "vertex",
        "writers",
    )

    def __init__(
        self, vertex: Vertex, chain: OperatorChain, ends: list[EdgeOutput], writers: list[EdgeWriter],
        local: list[LocalEdge], pieces_of_block: int,
    ) -> None:  # fmt: skip
        self.vertex = vertex
        self.outputs = ends
        self.writers = writers
        #: the channel state of the newest unaligned barrier, while it is written
        self.state_writer: ChannelStateWriter | None = None
        self.chain = chain
        self.gate: InputGate | None = None
        self.source = chain.head if isinstance(chain.head, SourceOperator) else None
        self.metrics = VertexMetrics()
        #: the newest ages (ms) of latency markers, by where they come from
        self.marker_ages: dict[str, deque[float]] = {}
        self.factor = COLUMNS_FACTOR if chain.columnar else 1
        #: how many times the records it is given while they are fast; 1: that makes no difference
        self._fast_factor = MIXED_FACTOR if chain.mixed else 1
        if self.source is not None and not writers and not local and not chain.columnar:
            self._fast_factor = max(self._fast_factor, min(pieces_of_block, MIXED_FACTOR))

    def worked(self, seconds: float, records: int) -> None:
        """A piece of so many records has taken so long: count that, and choose the size of the next one."""
        self.metrics.busy += seconds
        if self._fast_factor > 1:
            self.factor = self._fast_factor if seconds < records * FAST_SECONDS else 1


class TaskBuilder:
    """Builds the subtasks of one task."""

    def __init__(
        self,
        plan: PhysicalPlan,
        task: TaskId,
        settings: TaskSettings,
        outbox: list[tuple[int, bytes]],
        ingested_at: IngestionTime,
        clock: Clock,
        send_back: SendBack | None = None,
    ) -> None:
        self.markers = LatencyMarkers(settings.latency, task.subtask, plan.stable_ids, clock)
        self._plan = plan
        self._task = task
        self._settings = settings
        self._outbox = outbox
        self._born = ingested_at
        self._send_back = send_back
        self._roots = {head.vertex.id: head.root for head in plan.heads}
        self.subtasks: dict[int, Subtask] = {}
        self.names = edge_names(plan)
        self.flushing = FlushTimers(settings.buffer_timeout)

    def build(self, make_context: MakeContext) -> dict[int, Subtask]:
        """Build every subtask, and the input gates between them."""
        for vertex in self._plan.at(self._task.stage):
            if self._task.subtask < vertex.parallelism:
                self.subtasks[vertex.id] = self._build_subtask(vertex, make_context)
        for subtask in self.subtasks.values():
            if subtask.source is None:
                subtask.gate = self._gate(subtask)
        return self.subtasks

    def _gate(self, subtask: Subtask) -> InputGate:
        vertex = subtask.vertex
        if vertex.id not in self._roots:
            return InputGate(subtask.chain, self._channels(vertex))
        feedback = [key for key, _ in self._channels(vertex, feedback=True)]
        gate = LoopGate(subtask.chain, self._channels(vertex), feedback, self._roots[vertex.id])
        gate.over = isinstance(subtask.chain, FinishedOperatorChain)
        return gate

    def relays(self) -> int:
        """Count the channels that pass through this task on their way to a higher level."""
        stage, width = self._task.stage, self._plan.widths[self._task.stage]
        count = 0
        for edge in self._plan.edges:
            if edge.source_stage < stage < edge.target_stage:
                mine = sum(1 for target in range(edge.target_parallelism) if target % width == self._task.subtask)
                count += mine * edge.source_parallelism
        return count

    def _build_subtask(self, vertex: Vertex, make_context: MakeContext) -> Subtask:
        writers: list[EdgeWriter] = []
        local: list[LocalEdge] = []
        ends = [
            self._local_output(edge, local) if edge.local else self._exchange_output(edge, vertex, writers)
            for edge in self._plan.edges
            if edge.source == vertex.id
        ]
        operators = {node.id: node.spec.build() for node in vertex.nodes}
        contexts = {node.id: make_context(vertex, node) for node in vertex.nodes}
        kind = FinishedOperatorChain if self._had_finished(vertex) else OperatorChain
        pieces = self._settings.block_records // self._settings.piece_records
        return Subtask(vertex, kind(vertex, contexts, operators, ends), ends, writers, local, pieces)

    def _had_finished(self, vertex: Vertex) -> bool:
        """Return True if a vertex had ended in the checkpoint that it starts from."""
        checkpoints, ids = self._settings.checkpoints, self._plan.stable_ids
        if checkpoints is None:
            return False
        found = [checkpoints.restores.get((ids[node.id], self._task.subtask)) for node in vertex.nodes]
        return all(restore is not None and restore.finished for restore in found)

    def _exchange_output(self, edge: Edge, vertex: Vertex, writers: list[EdgeWriter]) -> EdgeOutput:
        name = next(node.name for node in vertex.nodes if node.id == edge.source_node)
        # What comes back has no age: it is meant to go round for as long as it does.
        born = IngestionTime() if edge.feedback else self._born
        writer = writer_for(
            edge, self._task.subtask, name, self._sender(edge), born, self._settings.block_records,
            self._settings.block_bytes,
        )  # fmt: skip
        writers.append(writer)
        flush = self.flushing.add(writer)
        return EdgeOutput(
            edge,
            emit=writer.emit,
            emit_block=writer.emit_block,
            watermark=_nothing if edge.feedback else lambda watermark: writer.control(BlockKind.WATERMARK, watermark),
            idle=_nothing if edge.feedback else lambda idle: writer.control(BlockKind.IDLE, int(idle)),
            barrier=partial(_send_barrier, writer),
            end=lambda pauses: writer.control(BlockKind.END, int(pauses)),
            flush=flush,
            latency=_nothing if edge.feedback else writer.latency,
            round=lambda number: writer.control(BlockKind.ROUND, number),
            records=lambda: writer.records,
            writer=writer if isinstance(writer, HashWriter) else None,
        )

    def _sender(self, edge: Edge) -> Callable[[int, bytes], None]:
        if edge.feedback:
            send_back, stage = self._send_back, edge.target_stage
            assert send_back is not None, "a loop where no block can be sent back"
            return lambda target, data: send_back(TaskId(stage, target), data)
        outbox, stage = self._outbox, self._task.stage
        hop = edge.target_parallelism if edge.target_stage == stage + 1 else self._plan.widths[stage + 1]
        if edge.buffer_timeout != 0:
            return lambda target, data: outbox.append((target % hop, data))

        def send(target: int, data: bytes) -> None:
            outbox.append((target % hop, data))
            self.flushing.request_urgent_flush()

        return send

    def _local_output(self, edge: Edge, local: list[LocalEdge]) -> EdgeOutput:
        channel = (edge.id, self._task.subtask)

        def gate() -> InputGate:
            found = self.subtasks[edge.target].gate
            assert found is not None
            return found

        found = LocalEdge(gate, channel)
        local.append(found)
        return EdgeOutput(
            edge,
            emit=found.emit,
            emit_block=found.emit_block,
            watermark=lambda watermark: gate().watermark(channel, watermark),
            idle=lambda idle: gate().idle(channel, idle),
            barrier=lambda checkpoint, details, state_writer: gate().barrier(
                channel, checkpoint, state_writer is not None
            ),
            end=lambda pauses: gate().end(channel, pauses),
            flush=lambda: None,
            round=lambda number: gate().round(channel, number),
            records=lambda: found.records,
            latency=lambda source, marked: self.markers.take(self.subtasks[edge.target], source, marked),
        )

    def aligned_only(self, vertex: Vertex) -> list[ChannelId]:
        """Return the channels of a vertex whose barriers are always aligned."""
        return [
            key
            for key, _ in self._channels(vertex)
            if self._plan.edges[key[0]].local or not may_overtake(self._plan.edges[key[0]].partitioning)
        ]

    def _channels(self, vertex: Vertex, feedback: bool = False) -> list[tuple[ChannelId, int]]:
        """Return the channels of a vertex: every upstream subtask sends its control blocks to every target."""
        channels: list[tuple[ChannelId, int]] = []
        for edge in self._plan.edges:
            if edge.target == vertex.id and edge.feedback is feedback:
                ups = [self._task.subtask] if edge.local else range(edge.source_parallelism)
                channels += [((edge.id, up), edge.index) for up in ups]
        return channels


def _nothing(*arguments: object) -> None:
    """Do not send events without a part in feedback: watermarks, idleness, latency markers."""


def _send_barrier(
    writer: EdgeWriter, checkpoint: int, details: bytes, state_writer: ChannelStateWriter | None
) -> None:  # fmt: skip
    """Send a barrier with its details; one that overtakes records leaves them to the channel state."""
    if state_writer is None:
        writer.control(BlockKind.BARRIER, checkpoint, details)
    elif may_overtake(writer.edge.partitioning):
        overtaken = writer.overtaking_barrier(checkpoint, UNALIGNED)
        state_writer.sent += [(writer.edge, block) for block in overtaken]
    else:
        writer.control(BlockKind.BARRIER, checkpoint, UNALIGNED)


def restore_channel_state(
    subtask: Subtask, plan: PhysicalPlan, names: Mapping[int, EdgeName], in_flight: Mapping[str, ChannelState],
    take: Callable[[Subtask, BlockHeader, Block], None],
) -> None:  # fmt: skip
    """Restore the channel state of the operators of a subtask, by stable id, before any other record.

    An edge that a change of parallelism has drawn into the chain is crossed at once.
    """
    if not in_flight:
        return
    edges = {name: plan.edges[number] for number, name in names.items()}
    ends = {end.edge.id: end for end in subtask.outputs}
    for found in in_flight.values():
        for piece in [*found.received, *found.keyed]:
            edge = edges.get(piece.edge)
            if edge is None:
                if piece.kind == BlockKind.DATA:
                    _within(subtask, plan, piece.edge)(piece.values, piece.timestamps)
                continue
            context = subtask.chain.head.context
            again = reassigned(piece, edge, context.subtask)
            if again is not None:
                head = BlockHeader(again.kind, edge.id, again.upstream, context.subtask, 0, again.number, 0.0)
                take(subtask, head, RowBlock(again.values, again.timestamps))
        for sent in found.sent:
            edge = edges.get(sent.edge)
            emit = _within(subtask, plan, sent.edge) if edge is None else ends[edge.id].emit
            emit(sent.values, sent.timestamps)


def _within(subtask: Subtask, plan: PhysicalPlan, name: EdgeName) -> Callable[[Values, Timestamps], None]:
    """Return the input of the operator behind an edge that is inside a chain."""
    for node in subtask.vertex.nodes[1:]:
        (given,) = node.inputs
        if (plan.stable_ids[given.upstream], given.side, plan.stable_ids[node.id]) == (
            name.source,
            name.side,
            name.target,
        ):
            return subtask.chain.operators[node.id].process
    raise no_such_edge(name)


# ---- A task's part in checkpoints: executes what ``checkpoint_machine.py`` decides.
#
# It turns barriers, ends and the driver's commands into events of the machine, takes and restores the state of the
# subtasks (``runtime/snapshot``), sends barriers on, and keeps the records that the machine has recorded. It
# decides nothing itself. Commands are executed depth first: a barrier that is sent over an edge within the task is
# an event of the next subtask before the first one reports its snapshot. Without checkpoints no barrier arrives,
# and nothing happens.
#
# It does not attribute failures: the task calls it where an exception is attributed to the operator that raised it.


QueuedBlock = tuple[Subtask, BlockHeader, Block]
"""A block, or a part of one, that is queued for its subtask."""


class TaskCheckpoints:
    """The checkpoints of one task; ``work`` are its queued blocks."""

    def __init__(
        self, plan: PhysicalPlan, checkpoints: CheckpointPlan | None, subtask: int, builder: TaskBuilder,
        work: Iterable[QueuedBlock], time: TaskTime, clock: Clock, deliver: Callable[[TaskStateSnapshot], None] | None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._subtasks = builder.subtasks
        self._names = builder.names
        self._work = work
        self._time = time
        self._clock = clock
        self._deliver = deliver
        #: sealed snapshots that are not delivered
        self._sealed: dict[int, TaskStateSnapshot] = {}
        #: the times of the subtasks that have taken their snapshot, by checkpoint
        self._times: dict[int, dict[int, SubtaskCheckpoint]] = {}
        self._state_manager: TaskStateManager | None = None
        self.materializer = Materializer()
        """Materializes the snapshots."""
        align, unaligned_after = True, None
        if checkpoints is not None:
            align, unaligned_after = checkpoints.align, checkpoints.unaligned_after
            self.materializer = Materializer(
                clock.monotonic, checkpoints.options.materialize_rows, lambda place: self.handle(StateMaterialized(place))
            )  # fmt: skip
            self._state_manager = TaskStateManager(checkpoints, plan.stable_ids, subtask, self.materializer)
        channels = {number: tuple(each.gate.channels) if each.gate else () for number, each in self._subtasks.items()}
        aligned_only = [key for each in self._subtasks.values() for key in builder.aligned_only(each.vertex)]
        feedback = {
            number: (each.gate.feedback, each.gate.root)
            for number, each in self._subtasks.items()
            if isinstance(each.gate, LoopGate)
        }
        self.machine = TaskCheckpointMachine(
            channels, aligned_only, align=align, unaligned_after=unaligned_after, feedback=feedback
        )
        """Decides."""
        #: subtasks whose channels are being recorded
        self.recording = self.machine.recording
        for number, hosted in self._subtasks.items():
            if hosted.gate is not None:
                hosted.gate.connect(number, self, self.machine.subtasks[number].blocked)

    # ---- at the start

    def restore(self) -> None:
        """Restore every operator; before they are opened."""
        for subtask in self._subtasks.values():
            if self._state_manager is not None:
                watermark = self._state_manager.restore(subtask.chain)
                if watermark is not None and subtask.gate is not None:
                    subtask.gate.combined = watermark

    def restore_channel_state(self, take: Callable[[Subtask, BlockHeader, Block], None]) -> None:
        """Restore the channel state; once all operators are open."""
        if self._state_manager is not None:
            for subtask in self._subtasks.values():
                restore_channel_state(
                    subtask, self._plan, self._names, self._state_manager.take_channel_state(subtask.chain), take
                )

    # ---- what becomes an event

    def receive_barrier(self, subtask: Subtask | None, head: BlockHeader, details: bytes) -> None:
        """A barrier was received and queued, or relayed (``None``); ``details`` is its content besides its number."""
        if self._plan.edges[head.edge].feedback:
            return
        if subtask is None:
            self.handle(BarrierRelayed(head.number, None if details in (b"", UNALIGNED) else pickle.loads(details)))
        elif details or self.machine.unaligned_after is not None:
            unaligned = details == UNALIGNED
            savepoint = pickle.loads(details) if details and not unaligned else None
            channel = head.edge, head.upstream
            self.handle(BarrierReceived(subtask.vertex.id, channel, head.number, unaligned, savepoint))

    def barrier(self, vertex: int, channel: ChannelId, checkpoint: int, unaligned: bool) -> None:
        """A barrier arrived at a gate."""
        self.handle(BarrierProcessed(vertex, channel, checkpoint, unaligned))

    def end(self, vertex: int, channel: ChannelId) -> None:
        """The end of a channel arrived at a gate."""
        self.handle(ChannelEnded(vertex, channel))

    def record(self, subtask: Subtask, head: BlockHeader, block: Block) -> None:
        """Record a block that was queued or received, if a barrier has overtaken it."""
        if head.kind >= BlockKind.LATENCY:  # or a marker of a round: neither is part of a snapshot
            return
        recording, channel = self.recording.get(subtask.vertex.id), (head.edge, head.upstream)
        if recording is None or channel not in recording.waiting:
            return
        if head.kind in (BlockKind.BARRIER, BlockKind.END):
            number = head.number if head.kind == BlockKind.BARRIER else None
            self.handle(BarrierRecorded(subtask.vertex.id, channel, number))
        else:
            assert subtask.state_writer is not None
            subtask.state_writer.add(head, block)

    def handle(self, event: CheckpointEvent) -> None:
        """Pass an event to the machine, and execute its commands."""
        for command in self.machine.handle(event, Millis(self._time.latest), self._clock.monotonic()):
            match command:
                case TakeSnapshot(vertex):
                    self._take_snapshot(self._subtasks[vertex], command)
                case ReleaseChannels(vertex):
                    gate = self._subtasks[vertex].gate
                    assert gate is not None
                    gate.release()
                case SealSnapshot():
                    self._seal(command)
                case DeliverSnapshot(checkpoint):
                    self.deliver(self._sealed.pop(checkpoint))
                case AddChannelState(vertex, checkpoint):
                    self._add_channel_state(self._subtasks[vertex], checkpoint)
                case DropChannelState(vertex):
                    self._subtasks[vertex].state_writer = None
                case DropSnapshot(checkpoint):
                    self._times.pop(checkpoint, None)
                    if self._state_manager is not None:
                        self._state_manager.abort(CheckpointId(checkpoint))

    # ---- what the machine commands

    def _take_snapshot(self, subtask: Subtask, command: TakeSnapshot) -> None:
        assert self._state_manager is not None
        checkpoint, savepoint = command.checkpoint, command.savepoint
        state_writer = None
        if command.overtaken is not None or command.logged:
            state_writer = subtask.state_writer = ChannelStateWriter()
            for other, head, block in self._work:
                if other is subtask:
                    self.record(subtask, head, block)
        if savepoint is not None and savepoint.stop is Stop.DRAIN:
            if subtask.gate is None:
                subtask.chain.watermark(MAX_WATERMARK)
            subtask.chain.drain(subtask.gate.inputs if subtask.gate else 0)
        begin = self._clock.monotonic()
        self._state_manager.snapshot(subtask.chain, CheckpointId(checkpoint))
        self._times.setdefault(checkpoint, {})[subtask.vertex.id] = SubtaskCheckpoint(
            command.since,
            0.0 if subtask.gate is None else (begin - command.began) * 1000,
            (self._clock.monotonic() - begin) * 1000,
            unaligned=command.overtaken is not None,
        )
        details = pickle.dumps(savepoint) if savepoint is not None else b""
        if command.overtaken is None:
            state_writer = None  # the barrier overtakes nothing: what is logged comes back later
        for output in subtask.outputs:
            output.barrier(checkpoint, details, state_writer)
        self.handle(SnapshotTaken(subtask.vertex.id, checkpoint))

    def _add_channel_state(self, subtask: Subtask, checkpoint: int) -> None:
        state_writer, subtask.state_writer = subtask.state_writer, None
        assert state_writer is not None and self._state_manager is not None
        found = state_writer.by_operator(self._plan.edges, self._names)
        self._state_manager.add_channel_state(subtask.chain, CheckpointId(checkpoint), found)

    def _seal(self, command: SealSnapshot) -> None:
        assert self._state_manager is not None
        checkpoint = CheckpointId(command.checkpoint)
        for vertex in command.ended:
            self._state_manager.snapshot(self._subtasks[vertex].chain, checkpoint, ended=True)
        times = self._times.pop(checkpoint, {})
        self._times = {later: found for later, found in self._times.items() if later > checkpoint}
        snapshot = self._state_manager.take(checkpoint, command.savepoint)
        self._sealed[checkpoint] = replace(snapshot, times=times, taken=self._clock.monotonic())
        self.handle(SnapshotSealed(checkpoint, snapshot.open if self.materializer.open else frozenset()))

    def deliver(self, snapshot: TaskStateSnapshot) -> None:
        """Pass a snapshot to its writer."""
        if self._deliver is not None:
            self._deliver(snapshot)

    # ---- besides

    def materialize(self, worked: bool) -> None:
        """Materialize one step; ``worked``: after records."""
        self.materializer.worked |= worked
        self.materializer.step()

    def notify_complete(self, checkpoint: int, is_open: bool = True) -> None:
        """A checkpoint is complete: the output of sinks is committed; notify the operators if they are open."""
        if self._state_manager is not None:
            self._state_manager.notify_complete(CheckpointId(checkpoint))
        for subtask in self._subtasks.values() if is_open else ():
            subtask.chain.notify_checkpoint_complete(checkpoint)

    def abort(self, command: CheckpointAborted, is_open: bool = True) -> None:
        """A checkpoint is aborted: abandon it, and notify the operators if they are open."""
        self.handle(command)
        if command.rewrite and self._state_manager is not None:
            self._state_manager.rewrite()
        for subtask in self._subtasks.values() if is_open else ():
            subtask.chain.notify_checkpoint_aborted(command.checkpoint)

    def final_snapshot(self) -> TaskStateSnapshot | None:
        """Take the final snapshot of every subtask, now that all have ended; ``None`` without checkpoints."""
        if self._state_manager is None:
            return None
        checkpoint = self._state_manager.last
        for subtask in self._subtasks.values():
            self._state_manager.snapshot(subtask.chain, checkpoint, final=True)
        self.materializer.finish()  # the task has no other work
        return self._state_manager.take(checkpoint, final=True)

    def close(self) -> None:
        """Drop undelivered snapshots: the task has ended."""
        self.materializer.cancel()
        self._sealed.clear()
