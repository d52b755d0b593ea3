"""What a task hosts: one subtask of every vertex of its level, wired to the edges that enter and leave it.

Made once, before anything runs. An exchange ends in a writer that puts blocks into the task's outbox; an edge within the
level ends in the gate of the other vertex, by a plain call.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping

from funken.operators.base import OperatorSpec, Timestamps, Values
from funken.operators.batch import key_by_key
from funken.operators.context import OperatorContext
from funken.operators.source import SourceOperator
from funken.operators.window_kept import in_keyed_state, was_in_keyed_state
from funken.plan.nodes import Node
from funken.plan.physical import Edge, PhysicalPlan, Vertex
from funken.runtime.chain import Chain, EdgeEnd
from funken.runtime.ended import EndedChain
from funken.runtime.flushing import Flushing
from funken.runtime.inflight import (
    OVERTAKES,
    Channel,
    EdgeName,
    InFlight,
    Recorder,
    edge_names,
    may_overtake,
    no_such_edge,
    rejoining,
)
from funken.runtime.inputs import Gate
from funken.runtime.messages import Savepoint, TaskId, VertexMetrics
from funken.runtime.outputs import Born, EdgeWriter, HashWriter, writer_for
from funken.runtime.settings import TaskSettings
from funken.runtime.wire import Header, Kind

COLUMNS_FACTOR = 8
"""A vertex that works on columns is given so many times the records at once: a block costs it, a record hardly anything."""

MakeContext = Callable[[Vertex, Node], OperatorContext]


class Hosted:
    """One vertex of a task, at work; ``gate`` is ``None`` for a vertex that begins with a source."""

    __slots__ = ("chain", "ends", "factor", "gate", "metrics", "recorder", "source", "vertex", "writers")

    def __init__(self, vertex: Vertex, chain: Chain, ends: list[EdgeEnd], writers: list[EdgeWriter]) -> None:
        self.vertex = vertex
        self.ends = ends
        self.writers = writers
        #: what the newest unaligned barrier overtakes here
        self.recorder: Recorder | None = None
        self.chain = chain
        self.gate: Gate | None = None
        self.source = chain.head if isinstance(chain.head, SourceOperator) else None
        self.metrics = VertexMetrics()
        self.factor = COLUMNS_FACTOR if chain.columnar else 1


class Hosting:
    """Builds the vertices of one task."""

    def __init__(
        self, plan: PhysicalPlan, task: TaskId, settings: TaskSettings, outbox: list[tuple[int, bytes]], born: Born
    ) -> None:
        self._plan = plan
        self._task = task
        self._settings = settings
        self._outbox = outbox
        self._born = born
        self._align = settings.checkpoints is None or settings.checkpoints.align
        self.hosted: dict[int, Hosted] = {}
        self.names = edge_names(plan)
        self.flushing = Flushing(settings.buffer_timeout)
        #: what is known of the checkpoints that are savepoints; their barriers pass it on
        self.savepoints: dict[int, Savepoint] = {}

    def build(self, make_context: MakeContext) -> dict[int, Hosted]:
        """Make every vertex, and the gates between them."""
        for vertex in self._plan.at(self._task.level):
            if self._task.subtask < vertex.parallelism:
                self.hosted[vertex.id] = self._host(vertex, make_context)
        for hosted in self.hosted.values():
            if hosted.source is None:
                hosted.gate = Gate(hosted.chain, self._channels(hosted.vertex), self._align)
        return self.hosted

    def relays(self) -> int:
        """Count the channels that pass through this task on their way to a higher level."""
        level, width = self._task.level, self._plan.widths[self._task.level]
        count = 0
        for edge in self._plan.edges:
            if edge.source_level < level < edge.target_level:
                mine = sum(1 for target in range(edge.target_parallelism) if target % width == self._task.subtask)
                count += mine * edge.source_parallelism
        return count

    def _host(self, vertex: Vertex, make_context: MakeContext) -> Hosted:
        writers: list[EdgeWriter] = []
        ends = [
            self._local_end(edge) if edge.local else self._exchange_end(edge, vertex, writers)
            for edge in self._plan.edges
            if edge.source == vertex.id
        ]
        operators = {node.id: self._spec(node).build() for node in vertex.nodes}
        if self._settings.batch:
            operators = {node.id: key_by_key(node.spec, operators[node.id], node.keyed) for node in vertex.nodes}
        contexts = {node.id: make_context(vertex, node) for node in vertex.nodes}
        kind = EndedChain if self._had_ended(vertex) else Chain
        return Hosted(vertex, kind(vertex, contexts, operators, ends), ends, writers)

    def _had_ended(self, vertex: Vertex) -> bool:
        """Whether a vertex had ended when the checkpoint was made that it starts from."""
        checkpoints, ids = self._settings.checkpoints, self._plan.stable_ids
        if checkpoints is None:
            return False
        found = [checkpoints.restores.get((ids[node.id], self._task.subtask)) for node in vertex.nodes]
        return all(restore is not None and restore.finished for restore in found)

    def _spec(self, node: Node) -> OperatorSpec:
        """Return what an operator is built from: where state is in files, or was when it was saved, windows are state too."""
        checkpoints, place = self._settings.checkpoints, (self._plan.stable_ids[node.id], self._task.subtask)
        saved = None if checkpoints is None else checkpoints.restores.get(place)
        if self._settings.state.in_files or (saved is not None and was_in_keyed_state(saved.states)):
            return in_keyed_state(node.spec)
        return node.spec

    def _exchange_end(self, edge: Edge, vertex: Vertex, writers: list[EdgeWriter]) -> EdgeEnd:
        name = next(node.name for node in vertex.nodes if node.id == edge.source_node)
        writer = writer_for(
            edge, self._task.subtask, name, self._sender(edge), self._born, self._settings.block_records,
            self._settings.block_bytes,
        )  # fmt: skip
        writers.append(writer)
        flush = self.flushing.add(writer)
        return EdgeEnd(
            edge,
            emit=writer.emit,
            watermark=lambda watermark: writer.control(Kind.WATERMARK, watermark),
            idle=lambda idle: writer.control(Kind.IDLE, int(idle)),
            barrier=lambda checkpoint: self._send_barrier(writer, checkpoint),
            end=lambda pauses: writer.control(Kind.END, int(pauses)),
            flush=flush,
            writer=writer if isinstance(writer, HashWriter) else None,
            columnar=writer.columnar,
        )

    def _send_barrier(self, writer: EdgeWriter, checkpoint: int) -> None:
        recorder = self._recorder(writer.edge, checkpoint)
        if recorder is None:
            savepoint = self.savepoints.get(checkpoint)
            writer.control(Kind.BARRIER, checkpoint, b"" if savepoint is None else pickle.dumps(savepoint))
        elif may_overtake(writer.edge.partitioning):
            recorder.sent += [(writer.edge, *records) for records in writer.overtake(checkpoint, OVERTAKES)]
        else:
            writer.control(Kind.BARRIER, checkpoint, OVERTAKES)

    def _recorder(self, edge: Edge, checkpoint: int) -> Recorder | None:
        """Return what writes down the records that a barrier overtakes at the source of an edge, if it does."""
        recorder = self.hosted[edge.source].recorder
        return recorder if recorder is not None and recorder.checkpoint == checkpoint else None

    def _sender(self, edge: Edge) -> Callable[[int, bytes], None]:
        outbox, level = self._outbox, self._task.level
        hop = edge.target_parallelism if edge.target_level == level + 1 else self._plan.widths[level + 1]
        if edge.buffer_timeout != 0:
            return lambda target, data: outbox.append((target % hop, data))

        def send(target: int, data: bytes) -> None:
            outbox.append((target % hop, data))
            self.flushing.press()

        return send

    def _local_end(self, edge: Edge) -> EdgeEnd:
        channel = (edge.id, self._task.subtask)

        def gate() -> Gate:
            found = self.hosted[edge.target].gate
            assert found is not None
            return found

        return EdgeEnd(
            edge,
            emit=lambda values, timestamps: gate().data(channel, values, timestamps),
            watermark=lambda watermark: gate().watermark(channel, watermark),
            idle=lambda idle: gate().idle(channel, idle),
            barrier=lambda checkpoint: gate().barrier(
                channel, checkpoint, self._recorder(edge, checkpoint) is not None
            ),
            end=lambda pauses: gate().end(channel, pauses),
            flush=lambda: None,
            columnar=True,  # the chain behind the gate turns them into lists if its head wants that
        )

    def firm(self, vertex: Vertex) -> list[Channel]:
        """Return the channels of a vertex whose records no barrier overtakes."""
        return [
            key
            for key, _ in self._channels(vertex)
            if self._plan.edges[key[0]].local or not may_overtake(self._plan.edges[key[0]].partitioning)
        ]

    def _channels(self, vertex: Vertex) -> list[tuple[Channel, int]]:
        """Return the channels of a vertex: every upstream subtask sends its control blocks to every target."""
        channels: list[tuple[Channel, int]] = []
        for edge in self._plan.edges:
            if edge.target == vertex.id:
                ups = [self._task.subtask] if edge.local else range(edge.source_parallelism)
                channels += [((edge.id, up), edge.index) for up in ups]
        return channels


def give_back(
    hosted: Hosted, plan: PhysicalPlan, names: Mapping[int, EdgeName], in_flight: Mapping[str, InFlight],
    take: Callable[[Hosted, Header, Values, Timestamps], None],
) -> None:  # fmt: skip
    """Put what was in flight at the operators of a vertex, by stable id, on its way again, before anything else.

    An edge that a change of parallelism has drawn into the chain is crossed at once.
    """
    if not in_flight:
        return
    edges = {name: plan.edges[number] for number, name in names.items()}
    ends = {end.edge.id: end for end in hosted.ends}
    for found in in_flight.values():
        for piece in [*found.received, *found.keyed]:
            edge = edges.get(piece.edge)
            if edge is None:
                if piece.kind == Kind.DATA:
                    _within(hosted, plan, piece.edge)(piece.values, piece.timestamps)
                continue
            context = hosted.chain.head.context
            again = rejoining(piece, edge, context.subtask)
            if again is not None:
                head = Header(again.kind, edge.id, again.upstream, context.subtask, 0, again.number, 0.0)
                take(hosted, head, again.values, again.timestamps)
        for sent in found.sent:
            edge = edges.get(sent.edge)
            emit = _within(hosted, plan, sent.edge) if edge is None else ends[edge.id].emit
            emit(sent.values, sent.timestamps)


def _within(hosted: Hosted, plan: PhysicalPlan, name: EdgeName) -> Callable[[Values, Timestamps], None]:
    """Return what takes the records of an edge that is inside a chain."""
    for node in hosted.vertex.nodes[1:]:
        (given,) = node.inputs
        if (plan.stable_ids[given.upstream], given.side, plan.stable_ids[node.id]) == (
            name.source,
            name.side,
            name.target,
        ):
            return hosted.chain.operators[node.id].process
    raise no_such_edge(name)
