"""What a task hosts: one subtask of every vertex of its level, wired to the edges that enter and leave it.

Made once, before anything runs. An exchange ends in a writer that puts blocks into the task's outbox; an edge within the
level ends in the gate of the other vertex, by a plain call.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

from funken.operators.base import OperatorSpec
from funken.operators.batch import key_by_key
from funken.operators.context import OperatorContext
from funken.operators.source import SourceOperator
from funken.operators.window_kept import in_keyed_state, was_in_keyed_state
from funken.plan.nodes import Node
from funken.plan.physical import Edge, PhysicalPlan, Vertex
from funken.runtime.chain import Chain, EdgeEnd
from funken.runtime.inputs import Gate
from funken.runtime.messages import Savepoint, TaskId, VertexMetrics
from funken.runtime.outputs import Born, EdgeWriter, writer_for
from funken.runtime.settings import TaskSettings
from funken.runtime.wire import Kind

MakeContext = Callable[[Vertex, Node], OperatorContext]


class Hosted:
    """One vertex of a task, at work; ``gate`` is ``None`` for a vertex that begins with a source."""

    __slots__ = ("chain", "gate", "metrics", "source", "vertex", "writers")

    def __init__(self, vertex: Vertex, chain: Chain, writers: list[EdgeWriter]) -> None:
        self.vertex = vertex
        self.writers = writers
        self.chain = chain
        self.gate: Gate | None = None
        self.source = chain.head if isinstance(chain.head, SourceOperator) else None
        self.metrics = VertexMetrics()


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
            operators = {node.id: key_by_key(node.spec, operators[node.id]) for node in vertex.nodes}
        contexts = {node.id: make_context(vertex, node) for node in vertex.nodes}
        return Hosted(vertex, Chain(vertex, contexts, operators, ends), writers)

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
        return EdgeEnd(
            edge,
            emit=writer.emit,
            watermark=lambda watermark: writer.control(Kind.WATERMARK, watermark),
            idle=lambda idle: writer.control(Kind.IDLE, int(idle)),
            barrier=lambda checkpoint: writer.control(Kind.BARRIER, checkpoint, self._details(checkpoint)),
            end=lambda: writer.control(Kind.END, 0),
            flush=writer.flush,
        )

    def _details(self, checkpoint: int) -> bytes:
        savepoint = self.savepoints.get(checkpoint)
        return b"" if savepoint is None else pickle.dumps(savepoint)

    def _sender(self, edge: Edge) -> Callable[[int, bytes], None]:
        outbox, level = self._outbox, self._task.level
        if edge.target_level == level + 1:
            return lambda target, data: outbox.append((target, data))
        hop = self._plan.widths[level + 1]
        return lambda target, data: outbox.append((target % hop, data))

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
            barrier=lambda checkpoint: gate().barrier(channel, checkpoint),
            end=lambda: gate().end(channel),
            flush=lambda: None,
        )

    def _channels(self, vertex: Vertex) -> list[tuple[tuple[int, int], int]]:
        """Return the channels of a vertex: every upstream subtask sends its control blocks to every target."""
        channels: list[tuple[tuple[int, int], int]] = []
        for edge in self._plan.edges:
            if edge.target == vertex.id:
                ups = [self._task.subtask] if edge.local else range(edge.source_parallelism)
                channels += [((edge.id, up), edge.index) for up in ups]
        return channels
