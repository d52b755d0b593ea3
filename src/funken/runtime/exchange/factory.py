"""The writer of an edge: by its partitioning, and by columns or records."""

from __future__ import annotations

from funken.plan.nodes import Broadcast, Custom, Forward, Global, Hash, Rebalance, Rescale, Shuffle
from funken.plan.physical import Edge
from funken.runtime.exchange.writers import (
    BroadcastWriter,
    CustomWriter,
    EdgeWriter,
    HashWriter,
    IngestionTime,
    OneTargetWriter,
    RebalanceWriter,
    RescaleWriter,
    Send,
    ShuffleWriter,
)

_WRITERS: dict[type, type[EdgeWriter]] = {
    Hash: HashWriter,
    Rebalance: RebalanceWriter,
    Rescale: RescaleWriter,
    Forward: OneTargetWriter,
    Global: OneTargetWriter,
    Shuffle: ShuffleWriter,
    Broadcast: BroadcastWriter,
    Custom: CustomWriter,
}


def writer_for(
    edge: Edge, subtask: int, operator: str, send: Send, ingested_at: IngestionTime, records: int, size: int
) -> EdgeWriter:
    """Make the writer of an edge's partitioning; with a buffer timeout of 0, a block is full at one record."""
    kind = edge.partitioning.writer() or _WRITERS.get(type(edge.partitioning))
    if kind is None:
        from funken.runtime.exchange.columnar_writer import COLUMNAR  # noqa: PLC0415 - NumPy, only where there are columns

        kind = COLUMNAR[type(edge.partitioning)]
    records = 1 if edge.buffer_timeout == 0 else records
    return kind(edge, subtask, operator, send, ingested_at, records, size)
