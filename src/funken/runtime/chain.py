"""A vertex at work: its operators wired output to input, one call per hop and block.

A chain is a tree: the head takes what the gate (or the source) gives; every operator's output goes to the operators
chained to it and to the writers of the edges that leave it, main and side outputs apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funken.ids import OperatorId
from funken.operators.base import Operator, Output, Timestamps, Values, as_lists
from funken.operators.context import OperatorContext
from funken.operators.stateless import CallOperator
from funken.plan.fusion import fused_runs
from funken.plan.physical import Edge, Vertex
from funken.runtime.fusion import Fused
from funken.runtime.outputs import HashWriter

Emit = Callable[[Values, Timestamps], None]


class EdgeEnd:
    """How a chain sees an outgoing edge, exchange or local alike."""

    __slots__ = ("barrier", "columnar", "edge", "emit", "end", "flush", "idle", "watermark", "writer")

    def __init__(
        self,
        edge: Edge,
        emit: Emit,
        watermark: Callable[[int], None],
        idle: Callable[[bool], None],
        barrier: Callable[[int], None],
        end: Callable[[bool], None],
        flush: Callable[[], None],
        writer: HashWriter | None = None,
        columnar: bool = False,
    ) -> None:
        self.columnar = columnar
        self.edge = edge
        self.emit = emit
        self.watermark = watermark
        self.idle = idle
        self.barrier = barrier
        self.end = end
        self.flush = flush
        self.writer = writer


def _nothing(values: Values, timestamps: Timestamps) -> None:
    """Drop a block that nobody reads."""


def _in_rows(emit: Emit) -> Emit:
    """Give lists to what takes no columns."""
    return lambda values, timestamps: emit(*as_lists(values, timestamps))


def _all(calls: list[Any]) -> Any:
    """Join calls into one; the common case of a single one costs nothing."""
    if len(calls) == 1:
        return calls[0]

    def call_all(*arguments: Any) -> None:
        for call in calls:
            call(*arguments)

    return call_all


class Chain:
    """The operators of one vertex, one subtask."""

    def __init__(
        self, vertex: Vertex, contexts: dict[OperatorId, OperatorContext], operators: dict[OperatorId, Operator],
        ends: list[EdgeEnd],
    ) -> None:  # fmt: skip
        self.vertex = vertex
        self.operators = operators
        self._order = [operators[node.id] for node in vertex.nodes]
        self.head = self._order[0]
        self._ends = ends
        children: dict[OperatorId, list[tuple[str | None, Operator]]] = {node.id: [] for node in vertex.nodes}
        for node in vertex.nodes[1:]:
            children[node.inputs[0].upstream].append((node.inputs[0].side, operators[node.id]))
        #: what takes the place of an operator's ``process``: the loop of the run that it begins
        self._process = {operator: operator.process for operator in self._order}
        for run in fused_runs(vertex, [end.edge for end in ends]):
            writer = next((end.writer for end in ends if end.edge is run.edge), None)
            found = [op for node in run.nodes if isinstance(op := operators[node.id], CallOperator)]
            loop = Fused(found, writer)
            self._process[operators[run.nodes[0].id]] = loop.process
        for node in vertex.nodes:
            leaving = [end for end in ends if end.edge.source_node == node.id]
            output = self._wire(children[node.id], leaving, operators[node.id].columnar)
            operators[node.id].setup(contexts[node.id], output)
        self._inputs_closed: set[int] = set()
        #: whether no operator calls a function per record, unless a kernel cannot compute a block
        self.columnar = all(operator.columnar for operator in self._order)
        self.snapshot: Callable[[int], None] = lambda checkpoint: None

    def _wire(self, children: list[tuple[str | None, Operator]], leaving: list[EdgeEnd], columnar: bool) -> Output:
        output = Output()
        takers: list[tuple[Emit, bool]] = [(self._process[op], op.columnar) for side, op in children if side is None]
        takers += [(end.emit, end.columnar) for end in leaving if end.edge.side is None]
        main: list[Emit] = [_in_rows(emit) if columnar and not takes else emit for emit, takes in takers]
        sides: dict[str, list[Emit]] = {}
        for side, op in children:
            if side is not None:
                sides.setdefault(side, []).append(self._process[op])
        for end in leaving:
            if end.edge.side is not None:
                sides.setdefault(end.edge.side, []).append(end.emit)
        routes = {side: _all(calls) for side, calls in sides.items()}
        output.emit = _all(main) if main else _nothing
        output.emit_side = lambda tag, values, timestamps: routes.get(tag, _nothing)(values, timestamps)
        output.watermark = _all([op.watermark for _, op in children] + [end.watermark for end in leaving])
        output.idle = _all([op.idle for _, op in children] + [end.idle for end in leaving])
        return output

    def open(self) -> None:
        """Open all operators, the last one first, as Flink does."""
        for operator in reversed(self._order):
            operator.open()

    def process(self, index: int, values: Values, timestamps: Timestamps) -> None:
        """Hand a block to the head."""
        if not self.head.columnar:
            values, timestamps = as_lists(values, timestamps)
        if index == 0:
            self._process[self.head](values, timestamps)
        else:
            self.head.process_second(values, timestamps)

    def watermark(self, watermark: int) -> None:
        """Hand a watermark to the head."""
        self.head.watermark(watermark)

    def watermark_input(self, index: int, watermark: int) -> None:
        """Tell the head about one input's watermark."""
        self.head.watermark_input(index, watermark)

    def idle(self, idle: bool) -> None:
        """Tell the head that all is idle, or that it is not any more."""
        self.head.idle(idle)

    def barrier(self, checkpoint: int) -> None:
        """Take the snapshot of every operator, then pass the barrier on; no record is handled between the two."""
        self.snapshot(checkpoint)
        for end in self._ends:
            end.barrier(checkpoint)

    def end_input(self, index: int) -> None:
        """Tell the head that an input ended."""
        self._inputs_closed.add(index)
        self.head.end_input(index)

    def drain(self, inputs: int) -> None:
        """Let every operator emit what it holds back, as if its ``inputs`` had ended; the edges stay open."""
        for index in range(inputs):
            if index not in self._inputs_closed:
                self.end_input(index)
        for operator in self._order:
            self._tick(operator, operator.context.processing_time())
            if operator is not self.head:
                operator.end_input(0)
            operator.finish()

    def finish(self) -> None:
        """End the chain: every operator emits what it holds back, then the edges end."""
        self.drain(0)
        for end in self._ends:
            end.end(False)

    def pause(self) -> None:
        """End the edges as they are: there is more to come in another micro-batch."""
        for operator in self._order:
            operator.pause()
        for end in self._ends:
            end.end(True)

    def next_tick(self) -> int | None:
        """When the first of the operators wants a tick."""
        due = [at for at in (op.next_tick() for op in self._order) if at is not None]
        return min(due) if due else None

    def tick(self, now: int) -> None:
        """Tell the operators whose time has come."""
        for operator in self._order:
            self._tick(operator, now)

    @staticmethod
    def _tick(operator: Operator, now: int) -> None:
        at = operator.next_tick()
        if at is not None and at <= now:
            operator.tick(now)

    def flush(self) -> None:
        """Send what the edges hold back."""
        for end in self._ends:
            end.flush()

    def close(self) -> list[BaseException]:
        """Close all operators; return what they raised, the first one first."""
        raised: list[BaseException] = []
        for operator in self._order:
            try:
                operator.close()
            except BaseException as error:  # noqa: BLE001 - every operator is closed, whatever another raised
                raised.append(error)
        return raised


__all__ = ["Chain", "EdgeEnd"]
