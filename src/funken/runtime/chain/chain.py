"""The operators of one subtask, wired output to input: one call per operator and block.

A chain is a tree: the head takes what the gate (or the source) gives; every operator's output goes to the operators
chained to it and to the writers of the edges that leave it, main and side outputs apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from funken.columnar.block import Block, RowBlock
from funken.dataclass import dataclass
from funken.ids import OperatorId
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.stateless import MapLogic, UserFunctionOperator
from funken.plan.columnar_edges import wants_columns
from funken.plan.physical import Edge, Vertex
from funken.runtime.chain.fused import FusedOperators
from funken.runtime.exchange.hash_writer import HashWriter
from funken.runtime.messages import RecordCounts
from funken.types.copying import can_change, copies_of

Emit = Callable[[Values, Timestamps], None]
EmitBlock = Callable[[Block], None]


class EdgeOutput:
    """An outgoing edge as a chain calls it, whether exchange or local."""

    __slots__ = (
        "barrier", "edge", "emit", "emit_block", "end", "flush", "idle", "latency", "records", "round", "watermark", "writer"
    )  # fmt: skip

    def __init__(
        self,
        edge: Edge,
        emit: Emit,
        emit_block: EmitBlock,
        watermark: Callable[[int], None],
        idle: Callable[[bool], None],
        barrier: Callable[[int, bytes, Any], None],
        end: Callable[[bool], None],
        flush: Callable[[], None],
        latency: Callable[[int, float], None],
        round: Callable[[int], None],
        records: Callable[[], int],
        writer: HashWriter | None = None,
    ) -> None:
        self.edge = edge
        self.emit = emit
        self.emit_block = emit_block
        self.watermark = watermark
        self.idle = idle
        self.barrier = barrier
        self.end = end
        self.flush = flush
        self.latency = latency
        self.round = round
        #: how many records the edge has taken
        self.records = records
        self.writer = writer


def _discard(values: Values, timestamps: Timestamps) -> None:
    """Discard a block that has no consumer."""


def _in_rows(emit: Emit) -> EmitBlock:
    """Return what takes blocks for an operator that takes rows."""
    return lambda block: emit(*block.rows())


@dataclass(frozen=True)
class _Taker:
    """What takes the blocks of an output: an operator, another chain of the task, or a writer."""

    emit: Emit
    emit_block: EmitBlock
    changes: bool
    """Whether it may change the records."""
    columns: bool
    """Whether it is better off with columns."""
    keeps: bool = False
    """Whether it keeps them as they are: a writer does until they are pickled."""


def _share_out(takers: list[_Taker], kept: bool, reuse: bool) -> Emit:
    """Return what gives a block to every taker, so that nobody sees what another one does to the records.

    A taker that may change them gets copies if the operator keeps them (``kept``), a writer has them, or others are yet to
    take them.
    """
    if not takers:
        return _discard
    kept = kept or any(taker.keeps for taker in takers)
    last = len(takers) - 1
    copies = [taker.changes and (kept or position < last) for position, taker in enumerate(takers)]
    if reuse or not any(copies):
        every: Emit = _all([taker.emit for taker in takers])
        return every
    pairs = [(taker.emit, copied) for taker, copied in zip(takers, copies, strict=True)]

    def emit_all(values: Values, timestamps: Timestamps) -> None:
        changeable = can_change(values)
        for emit, copied in pairs:
            emit(copies_of(values) if changeable and copied else values, timestamps)

    return emit_all


def _share_out_blocks(takers: list[_Taker], emit: Emit) -> EmitBlock:
    """Return what gives columns to every taker as they are: each makes records of its own of them. Rows go to ``emit``."""
    every: EmitBlock = _all([taker.emit_block for taker in takers])

    def emit_block(block: Block) -> None:
        if type(block) is RowBlock:
            emit(block.values, block.timestamps)
        else:
            every(block)

    return emit_block


def _all(calls: list[Any]) -> Any:
    """Combine calls into one; a single one is returned as it is."""
    if len(calls) == 1:
        return calls[0]

    def call_all(*arguments: Any) -> None:
        for call in calls:
            call(*arguments)

    return call_all


class _Emitted:
    """How many records an operator has given to those chained to it, by side; counted once per block."""

    __slots__ = ("sides",)

    def __init__(self) -> None:
        self.sides: dict[str | None, int] = {None: 0}

    def count(self, output: Output) -> None:
        """Count what goes through an output from now on."""
        sides, emit, emit_block, emit_side = self.sides, output.emit, output.emit_block, output.emit_side

        def counted(values: Values, timestamps: Timestamps) -> None:
            sides[None] += len(values)
            emit(values, timestamps)

        def counted_block(block: Block) -> None:
            sides[None] += block.records
            emit_block(block)

        def counted_side(tag: str, values: Values, timestamps: Timestamps) -> None:
            sides[tag] = sides.get(tag, 0) + len(values)
            emit_side(tag, values, timestamps)

        output.emit, output.emit_block, output.emit_side = counted, counted_block, counted_side


class OperatorChain:
    """The operators of one vertex, one subtask."""

    def __init__(
        self, vertex: Vertex, contexts: dict[OperatorId, OperatorContext], operators: dict[OperatorId, Operator],
        ends: list[EdgeOutput],
    ) -> None:  # fmt: skip
        self.vertex = vertex
        self.operators = operators
        self._order = [operators[node.id] for node in vertex.nodes]
        #: Hot: asked once per block; most operators wait for no time
        self._timed = [operator for operator in self._order if type(operator).next_tick is not Operator.next_tick]
        self.head = self._order[0]
        self._outputs = ends
        children: dict[OperatorId, list[tuple[str | None, Operator]]] = {node.id: [] for node in vertex.nodes}
        for node in vertex.nodes[1:]:
            children[node.inputs[0].upstream].append((node.inputs[0].side, operators[node.id]))
        #: what takes the place of an operator's ``process``: the loop of the run that it begins
        self._process = {operator: operator.process for operator in self._order}
        #: of the operators that others are chained to; of the last ones the edges count
        self._emitted = {number: _Emitted() for number, chained in children.items() if chained}
        for run in vertex.fused:
            writer = next((end.writer for end in ends if end.edge.id == run.edge), None)
            found = [operators[number] for number in run.operators]
            loop = FusedOperators(cast(list[UserFunctionOperator], found), writer, contexts[run.operators[0]].inlining)
            self._process[found[0]] = loop.process
        for node in vertex.nodes:
            leaving = [end for end in ends if end.edge.source_node == node.id]
            output = self._wire(children[node.id], leaving, operators[node.id], contexts[node.id].object_reuse)
            if node.id in self._emitted:
                self._emitted[node.id].count(output)
            operators[node.id].setup(contexts[node.id], output)
        self._first = self._takes_block(self.head)
        self._inputs_closed: set[int] = set()
        #: whether no operator calls a function per record, unless a kernel cannot compute a block
        self.columnar = all(operator.columnar for operator in self._order)
        #: whether some do so, and some do not
        self.mixed = not self.columnar and any(operator.columnar for operator in self._order)

    def _wire(
        self, children: list[tuple[str | None, Operator]], leaving: list[EdgeOutput], operator: Operator, reuse: bool
    ) -> Output:
        takers: dict[str | None, list[_Taker]] = {None: []}
        for side, child in children:
            taker = _Taker(self._process[child], self._takes_block(child), child.changes_records, child.columnar)
            takers.setdefault(side, []).append(taker)
        for end in leaving:
            columns = end.edge.local or wants_columns(end.edge.partitioning)
            taker = _Taker(end.emit, end.emit_block, end.edge.local, columns, not end.edge.local)
            takers.setdefault(end.edge.side, []).append(taker)
        output, main = Output(), takers.pop(None)
        output.emit = _share_out(main, operator.keeps_output, reuse)
        output.emit_block = _share_out_blocks(main, output.emit)
        output.takes_columns = any(taker.columns for taker in main)
        routes = {side: _share_out(found, False, reuse) for side, found in takers.items()}
        output.emit_side = lambda tag, values, timestamps: routes.get(tag, _discard)(values, timestamps)
        output.watermark = _all([op.watermark for _, op in children] + [end.watermark for end in leaving])
        output.idle = _all([op.idle for _, op in children] + [end.idle for end in leaving])
        return output

    def _takes_block(self, operator: Operator) -> EmitBlock:
        by_block = operator.columnar or operator.takes_fields
        return operator.process_block if by_block else _in_rows(self._process[operator])

    def open(self) -> None:
        """Open all operators, the last one first, as Flink does."""
        for operator in reversed(self._order):
            operator.open()

    def process(self, index: int, block: Block) -> None:
        """Hand a block to the head."""
        if index == 0:
            self._first(block)
        else:
            self.head.process_second_block(block)

    def watermark(self, watermark: int) -> None:
        """Hand a watermark to the head."""
        self.head.watermark(watermark)

    def watermark_input(self, index: int, watermark: int) -> None:
        """Pass one input's watermark to the head."""
        self.head.watermark_input(index, watermark)

    def idle(self, idle: bool) -> None:
        """Pass the idle status to the head."""
        self.head.idle(idle)

    def end_input(self, index: int) -> None:
        """Notify the head that an input ended."""
        self._inputs_closed.add(index)
        self.head.end_input(index)

    def drain(self, inputs: int) -> None:
        """Let every operator emit what it buffers, as if its ``inputs`` had ended; the edges stay open."""
        for index in range(inputs):
            if index not in self._inputs_closed:
                self.end_input(index)
        for operator in self._order:
            self._tick(operator, operator.context.processing_time())
            if operator is not self.head:
                operator.end_input(0)
            operator.finish()

    def finish(self) -> None:
        """End the chain: every operator emits what it buffers, then the edges end."""
        self.drain(0)
        for end in self._outputs:
            end.end(False)

    def pause(self) -> None:
        """End the edges as they are: there is more to come in another micro-batch."""
        for operator in self._order:
            operator.pause()
        for end in self._outputs:
            end.end(True)

    def awaits_results(self) -> bool:
        """Whether results of some operator come later by themselves."""
        return any(operator.awaits_results() for operator in self._order)

    def next_tick(self) -> int | None:
        """Return when the first operator is due for a tick."""
        due: int | None = None
        for operator in self._timed:
            at = operator.next_tick()
            if at is not None and (due is None or at < due):
                due = at
        return due

    def tick(self, now: int) -> None:
        """Tick the operators that are due."""
        for operator in self._timed:
            self._tick(operator, now)

    @staticmethod
    def _tick(operator: Operator, now: int) -> None:
        at = operator.next_tick()
        if at is not None and at <= now:
            operator.tick(now)

    def handle_operator_event(self, number: OperatorId, payload: Any) -> None:
        """Hand an event of a coordinator to its operator, if that is in the chain."""
        operator = self.operators.get(number)
        if operator is not None:
            operator.handle_operator_event(payload)

    def notify_checkpoint_complete(self, checkpoint: int) -> None:
        """Notify every operator that a checkpoint is complete."""
        for operator in self._order:
            operator.notify_checkpoint_complete(checkpoint)

    def notify_checkpoint_aborted(self, checkpoint: int) -> None:
        """Notify every operator that a checkpoint is aborted."""
        for operator in self._order:
            operator.notify_checkpoint_aborted(checkpoint)

    def record_counts(self, read: int) -> dict[OperatorId, RecordCounts]:
        """Return how many records each operator has read and emitted, if the first one has read so many."""
        found: dict[OperatorId, RecordCounts] = {}
        for node in self.vertex.nodes:
            if node is not self.vertex.nodes[0]:
                (given,) = node.inputs
                read = self._emitted[given.upstream].sides.get(given.side, 0)
            found[node.id] = RecordCounts(read, self._emitted_by(node.id))
        for run in self.vertex.fused:
            found |= self._within(run.operators, found)
        return found

    def _emitted_by(self, operator: OperatorId) -> int:
        """Count each record once, to however many readers it goes."""
        if operator in self._emitted:
            return sum(self._emitted[operator].sides.values())
        sides: dict[str | None, int] = {}
        for end in self._outputs:
            if end.edge.source_node == operator:
                sides[end.edge.side] = max(sides.get(end.edge.side, 0), end.records())
        return sum(sides.values())

    def _within(
        self, run: tuple[OperatorId, ...], found: dict[OperatorId, RecordCounts]
    ) -> dict[OperatorId, RecordCounts]:
        """Return the counts of operators that run as one loop, of which the two ends are counted.

        A map emits as many records as it reads, which gives all others but those between two that do not: there a count would
        cost a step per record, and is not taken.
        """
        keeps = [isinstance(self.operators[number], MapLogic) for number in run]
        read, emitted = found[run[0]].read, found[run[-1]].emitted
        counts: dict[OperatorId, RecordCounts] = {}
        for place, number in enumerate(run):
            after = read if all(keeps[: place + 1]) else emitted if all(keeps[place + 1 :]) else None
            before = read if not place else counts[run[place - 1]].emitted
            counts[number] = RecordCounts(before, after)
        return counts

    def flush(self) -> None:
        """Flush the edges."""
        for end in self._outputs:
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


__all__ = ["EdgeOutput", "OperatorChain"]
