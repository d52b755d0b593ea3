"""Records in flight: what a barrier has overtaken at a vertex, as a part of its snapshot, and back on their way after it.

An unaligned barrier does not wait behind the records before it. What it overtakes is written down, so that the cut is the
same as if it had waited: pieces that wait in the task or still come on a channel, up to that channel's own barrier; and
what waits in the edge writers, which the operators have emitted and nobody has received. Watermarks and idleness count as
records here. What Spark holds between two tasks cannot be overtaken; it is received and written down.

Not every edge lets its records be overtaken (``may_overtake``): where who gets a record is more than its key or chance,
barriers wait their turn as in Flink. Broadcast state must be the same in every subtask, pointwise edges keep an order that
only their parallelism guarantees, and a user's partitioner cannot be asked again with another number of targets.

A snapshot names an edge by the stable ids of its two operators. With other parallelisms than before, records of a keyed edge
go to whoever owns their key now, the others to any subtask; watermarks are left out, since the channels they were of
are no more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from funken.checkpoint.blobs import SubtaskState
from funken.errors import CheckpointIncompatible
from funken.operators.base import Timestamps, Values, as_lists
from funken.plan.nodes import Global, Hash, Partitioning, Rebalance, Shuffle
from funken.plan.physical import Edge, PhysicalPlan
from funken.runtime.wire import Header, Kind
from funken.state.keygroups import KeyRouter
from funken.types.copying import copied_block

OVERTAKES = b"!"
"""What an unaligned barrier's block contains."""

Channel = tuple[int, int]
"""An edge and an upstream subtask."""


def may_overtake(partitioning: Partitioning) -> bool:
    """Whether a barrier may overtake the records of an edge.

    >>> may_overtake(Rebalance())
    True
    """
    return isinstance(partitioning, Hash | Rebalance | Shuffle | Global)


class EdgeName(NamedTuple):
    """An edge as a snapshot knows it; ``again`` numbers those that are alike."""

    source: str
    side: str | None
    target: str
    input: int
    again: int = 0


class Piece(NamedTuple):
    """A block in flight, or a part of one, on its channel; ``number`` as in its header."""

    edge: EdgeName
    sources: int
    targets: int
    upstream: int
    kind: int
    number: int
    values: Values
    timestamps: Timestamps


class Sent(NamedTuple):
    """Records that an edge writer held."""

    edge: EdgeName
    values: Values
    timestamps: Timestamps


@dataclass
class InFlight:
    """What is in flight at one operator of one subtask; ``keyed`` pieces belong to whoever owns their keys."""

    received: list[Piece] = field(default_factory=list)
    keyed: list[Piece] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    def to_state(self) -> SubtaskState:
        """Return it as plain data; what is not keyed is one element, so that it all goes to the same subtask, in order."""
        received, keyed, sent = (
            [(tuple(entry[0]), *entry[1:]) for entry in entries] for entries in (self.received, self.keyed, self.sent)
        )
        return SubtaskState(inflight=[(received, sent)] if received or sent else [], inflight_keyed=keyed)

    def add(self, state: SubtaskState) -> None:
        """Take what was restored."""
        for received, sent in state.inflight:
            self.received += [Piece(EdgeName(*entry[0]), *entry[1:]) for entry in received]
            self.sent += [Sent(EdgeName(*entry[0]), *entry[1:]) for entry in sent]
        self.keyed += [Piece(EdgeName(*entry[0]), *entry[1:]) for entry in state.inflight_keyed]


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


class Recorder:
    """Writes down what one barrier overtakes at one vertex, until the barrier of every channel has come."""

    def __init__(self, checkpoint: int, waiting: Collection[Channel]) -> None:
        self.checkpoint = checkpoint
        #: the channels whose barrier is yet to come
        self.waiting = set(waiting)
        #: whether a later barrier came instead: then this checkpoint was given up somewhere upstream
        self.void = False
        self.received: list[tuple[Header, Values, Timestamps]] = []
        self.sent: list[tuple[Edge, Values, Timestamps]] = []

    def take(self, head: Header, values: Values, timestamps: Timestamps) -> None:
        """Look at something that the cut does not have yet, in the order in which it came."""
        channel = (head.edge, head.upstream)
        if channel not in self.waiting:
            return
        if head.kind == Kind.BARRIER:
            if head.number >= self.checkpoint:
                self.waiting.discard(channel)
                self.void |= head.number > self.checkpoint
        elif head.kind == Kind.END:  # no barrier follows, and whoever ended says so again
            self.waiting.discard(channel)
        else:
            records, stamps = as_lists(values, timestamps)
            # Written down only later, when functions may have changed them in place.
            self.received.append((head, copied_block(records), stamps))

    def by_operator(self, edges: Sequence[Edge], names: Mapping[int, EdgeName]) -> dict[str, InFlight]:
        """Return it all by the operator that it is restored with: receiver or sender."""
        found: dict[str, InFlight] = {}
        for block, values, timestamps in self.received:
            edge = edges[block.edge]
            piece = Piece(
                names[edge.id], edge.source_parallelism, edge.target_parallelism, block.upstream, block.kind, block.number,
                values, timestamps,
            )  # fmt: skip
            at = found.setdefault(names[edge.id].target, InFlight())
            (at.keyed if isinstance(edge.partitioning, Hash) else at.received).append(piece)
        for edge, values, timestamps in self.sent:
            at = found.setdefault(names[edge.id].source, InFlight())
            at.sent.append(Sent(names[edge.id], values, timestamps))
        return found


def rejoining(piece: Piece, edge: Edge, subtask: int) -> Piece | None:
    """Return what a subtask is to receive of a piece, on a channel that there is now; ``None``: nothing."""
    if (piece.sources, piece.targets) == (edge.source_parallelism, edge.target_parallelism):
        return piece
    if piece.kind != Kind.DATA:
        return None
    values, timestamps = piece.values, piece.timestamps
    if isinstance(edge.partitioning, Hash):
        key = edge.partitioning.key.bind()
        owner = KeyRouter(edge.target_max_parallelism, edge.target_parallelism, lambda target: target)
        mine = [position for position, value in enumerate(values) if owner[key(value)] == subtask]
        values, timestamps = [values[i] for i in mine], timestamps and [timestamps[i] for i in mine]
    upstream = subtask if edge.local else piece.upstream % edge.source_parallelism
    return piece._replace(upstream=upstream, values=values, timestamps=timestamps) if values else None


def no_such_edge(name: EdgeName) -> CheckpointIncompatible:
    """Make the error for records whose way is gone."""
    return CheckpointIncompatible(
        f"records were on their way from operator {name.source!r} to {name.target!r} when the checkpoint was made, and the "
        "program does not join the two any more. Start it as it was, and change it by way of a savepoint: nothing is in "
        "flight in one."
    )
