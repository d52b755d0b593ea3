"""Channel state: the records that an unaligned barrier has overtaken at a subtask, as part of its snapshot, and restored from it.

An unaligned barrier does not wait for the records before it. What it overtakes is written to the snapshot, which is then the
same as if it had waited: blocks that wait in the task or arrive on a channel before that channel's own barrier, and
records in the edge writers, which the operators have emitted and which were not sent. Watermarks and idleness count as
records here. What Spark holds between two tasks cannot be overtaken; it is received and written too.

Not every edge takes unaligned barriers (``may_overtake``): where the target of a record depends on more than key or chance,
barriers are aligned, as in Flink. Broadcast state must be the same in every subtask, pointwise edges keep an order that
only their parallelism guarantees, and a user's partitioner cannot be called again with another number of targets.

The same is done with what comes back to the head of a loop between its snapshot and the return of the barrier, with any barrier.

A snapshot names an edge by the stable ids of its two operators. With other parallelisms than before, records of a keyed edge
go to the subtask that owns their key now, the others to any; watermarks are left out, since the channels they were of
no longer exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from funken.checkpoint.store.blobs import SubtaskState
from funken.columnar.block import Block, RowBlock, TupleBlock
from funken.dataclass import dataclass
from funken.errors import CheckpointIncompatible
from funken.operators.base import Timestamps, Values
from funken.plan.nodes import Custom, Global, Hash, Partitioning, Rebalance, Shuffle
from funken.plan.physical import Edge, PhysicalPlan
from funken.runtime.exchange.wire import BlockHeader, BlockKind
from funken.state.keygroups import KeyRouter
from funken.types.copying import copied_block

_DEALT = 100
"""How many records that came back are dealt out together to the subtasks of another parallelism."""

UNALIGNED = b"!"
"""What an unaligned barrier's block contains."""


def may_overtake(partitioning: Partitioning) -> bool:
    """Whether a barrier may overtake the records of an edge.

    >>> may_overtake(Rebalance())
    True
    """
    return isinstance(partitioning, Hash | Rebalance | Shuffle | Global)


class EdgeName(NamedTuple):
    """An edge as a snapshot identifies it; ``again`` numbers edges that are alike."""

    source: str
    side: str | None
    target: str
    input: int
    again: int = 0


class BufferedBlock(NamedTuple):
    """An overtaken block, or a part of one, with its channel; ``number`` as in its header."""

    edge: EdgeName
    sources: int
    targets: int
    upstream: int
    kind: int
    number: int
    values: Values
    timestamps: Timestamps


class UnsentRecords(NamedTuple):
    """Records that an edge writer had not sent."""

    edge: EdgeName
    values: Values
    timestamps: Timestamps


@dataclass
class ChannelState:
    """The channel state of one operator subtask; ``keyed`` blocks belong to the subtasks that own their keys.

    ``dealt`` are parts of blocks that came back in a loop, which may go to any subtask.
    """

    received: list[BufferedBlock] = field(default_factory=list)
    keyed: list[BufferedBlock] = field(default_factory=list)
    sent: list[UnsentRecords] = field(default_factory=list)
    dealt: list[BufferedBlock] = field(default_factory=list)

    def to_state(self) -> SubtaskState:
        """Return it as plain data; what is not keyed is one element, so that it all goes to the same subtask, in order.

        Of what is dealt out, each part is an element.
        """
        received, keyed, sent, dealt = (
            [(tuple(entry[0]), *entry[1:]) for entry in entries]
            for entries in (self.received, self.keyed, self.sent, self.dealt)
        )
        together = [(received, sent)] if received or sent else []
        return SubtaskState(inflight=together + [([part], []) for part in dealt], inflight_keyed=keyed)

    def add(self, state: SubtaskState) -> None:
        """Add restored channel state."""
        for received, sent in state.inflight:
            self.received += [BufferedBlock(EdgeName(*entry[0]), *entry[1:]) for entry in received]
            self.sent += [UnsentRecords(EdgeName(*entry[0]), *entry[1:]) for entry in sent]
        self.keyed += [BufferedBlock(EdgeName(*entry[0]), *entry[1:]) for entry in state.inflight_keyed]


def edge_names(plan: PhysicalPlan) -> dict[int, EdgeName]:
    """Name every edge of a plan."""
    names: dict[int, EdgeName] = {}
    seen: dict[EdgeName, int] = {}
    for edge in plan.edges:
        head = plan.vertices[edge.target].nodes[0].id
        name = EdgeName(plan.stable_ids[edge.source_node], edge.side, plan.stable_ids[head], edge.index)
        names[edge.id] = name._replace(again=seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return names


class ChannelStateWriter:
    """What one barrier has overtaken at one subtask; which blocks that are is decided by ``task/checkpoint_machine.py``."""

    def __init__(self) -> None:
        self.received: list[tuple[BlockHeader, Block]] = []
        self.sent: list[tuple[Edge, Block]] = []

    def add(self, head: BlockHeader, block: Block) -> None:
        """Add an overtaken block, in the order of arrival."""
        # Written down only later, when functions may have changed records in place; those of columns are made then.
        in_place = isinstance(block, RowBlock | TupleBlock)
        kept = RowBlock(copied_block(block.rows()[0]), block.timestamps) if in_place else block
        self.received.append((head, kept))

    def by_operator(self, edges: Sequence[Edge], names: Mapping[int, EdgeName]) -> dict[str, ChannelState]:
        """Return it all by the operator that it is restored with: receiver or sender."""
        found: dict[str, ChannelState] = {}
        for head, block in self.received:
            edge = edges[head.edge]
            piece = BufferedBlock(
                names[edge.id], edge.source_parallelism, edge.target_parallelism, head.upstream, head.kind, head.number,
                *block.rows(),
            )  # fmt: skip
            at = found.setdefault(names[edge.id].target, ChannelState())
            if isinstance(edge.partitioning, Hash) or (
                edge.feedback and isinstance(edge.partitioning, Custom | Global)
            ):
                at.keyed.append(piece)
            elif edge.feedback:
                at.dealt += _parts(piece)
            else:
                at.received.append(piece)
        for edge, block in self.sent:
            at = found.setdefault(names[edge.id].source, ChannelState())
            at.sent.append(UnsentRecords(names[edge.id], *block.rows()))
        return found


def _parts(piece: BufferedBlock) -> list[BufferedBlock]:
    values, stamps = piece.values, piece.timestamps
    return [
        piece._replace(values=values[at : at + _DEALT], timestamps=stamps and stamps[at : at + _DEALT])
        for at in range(0, len(values), _DEALT)
    ]


def reassigned(piece: BufferedBlock, edge: Edge, subtask: int) -> BufferedBlock | None:
    """Return the part of a block that a subtask receives after a restore, on an existing channel; ``None`` if there is none."""
    if (piece.sources, piece.targets) == (edge.source_parallelism, edge.target_parallelism):
        return piece
    if piece.kind != BlockKind.DATA:
        return None
    values, timestamps = piece.values, piece.timestamps
    owner = _owner(edge)
    if owner is not None:
        mine = [position for position, value in enumerate(values) if owner(value) == subtask]
        values, timestamps = [values[i] for i in mine], timestamps and [timestamps[i] for i in mine]
    upstream = subtask if edge.local else piece.upstream % edge.source_parallelism
    return piece._replace(upstream=upstream, values=values, timestamps=timestamps) if values else None


def _owner(edge: Edge) -> Callable[[Any], int] | None:
    """Return what says to which subtask a record of an edge goes, if that follows from the record."""
    match edge.partitioning:
        case Hash(key=by):
            key, owners = (
                by.bind(),
                KeyRouter(edge.target_max_parallelism, edge.target_parallelism, lambda target: target),
            )
            return lambda value: owners[key(value)]
        case Custom(partitioner=chosen, key=by) if edge.feedback:
            choose, key, width = chosen.bind(), by.bind(), edge.target_parallelism
            return lambda value: choose(key(value), width)
        case Global() if edge.feedback:
            return lambda value: 0
    return None


def no_such_edge(name: EdgeName) -> CheckpointIncompatible:
    """Make the error for records whose edge no longer exists."""
    return CheckpointIncompatible(
        f"records were on their way from operator {name.source!r} to {name.target!r} when the checkpoint was made, and the "
        "program does not join the two any more. Start it as it was, and change it by way of a savepoint: nothing is in "
        "flight in one, but what goes round in a loop."
    )
