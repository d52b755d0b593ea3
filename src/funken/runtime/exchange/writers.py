"""Edge writers: spread records over the subtasks of a target, collect them into blocks, hand full blocks on.

One writer per exchange and upstream subtask. Its channels are FIFO: whatever is written to one target arrives in that
order, control blocks (watermark, barrier, end) included, because a control block first flushes the records before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from funken.columnar.block import Block, RowBlock
from funken.errors import InvalidProgram
from funken.operators.base import Timestamps, Values
from funken.plan.nodes import Custom, Global
from funken.plan.physical import Edge
from funken.runtime.exchange.wire import BlockKind, encode_records, pack_header
from funken.runtime.settings import PIECE_RECORDS

Send = Callable[[int, bytes], None]


class IngestionTime:
    """When the oldest record being processed entered the job (wall clock, s); shared by all writers of a task."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0


class EdgeWriter:
    """Buffers records per target; subclasses choose the targets in ``emit``."""

    def __init__(
        self, edge: Edge, subtask: int, operator: str, send: Send, ingested_at: IngestionTime, records: int, size: int
    ) -> None:
        self.edge = edge
        self.targets = edge.target_parallelism
        self._subtask = subtask
        self._operator = operator
        self._send = send
        self._ingestion_time = ingested_at
        self._max_records = max(1, records)
        #: how many records make a block; it grows while their bytes allow
        self._limit = min(self._max_records, PIECE_RECORDS)
        self._max_bytes = size
        self._stamped = False
        self.records = 0
        """How many records were sent."""
        self.bytes = 0
        """How many bytes of records were sent."""
        self._sequence = [0] * self.targets
        self._values: list[Values] = [[] for _ in range(self.targets)]
        self._stamps: list[list[int]] = [[] for _ in range(self.targets)]
        self._since: list[float] = [0.0] * self.targets
        #: latency markers that wait with the records
        self._markers: list[tuple[int, float]] = []

    @property
    def waiting(self) -> bool:
        """Whether records are buffered."""
        return any(self._values)

    @property
    def oldest(self) -> float:
        """When the oldest of the records that are buffered was ingested (wall clock, s), ``inf``: there is none."""
        return min((since for since in self._since if since), default=inf)

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Buffer a block of the operator's output."""
        raise NotImplementedError

    def emit_block(self, block: Block) -> None:
        """Buffer a block of the operator's output, in whatever form it comes."""
        self.emit(*block.rows())

    def _align(self, timestamps: Timestamps) -> list[int] | None:
        """Keep a buffer either with or without timestamps: flush it when that changes."""
        if (timestamps is not None) != self._stamped:
            self.flush()
            self._stamped = timestamps is not None
        return timestamps

    def _send_full(self) -> None:
        # Once per block and target: the record loop itself checks nothing.
        at, limit = self._ingestion_time.at, self._limit
        for target, values in enumerate(self._values):
            if values:
                if not self._since[target]:
                    self._since[target] = at
                if len(values) >= limit:
                    self._send_block(target)

    def _send_block(self, target: int) -> None:
        values = self._values[target]
        payload = encode_records(values, self._stamps[target] if self._stamped else None, self._operator, self._subtask)
        self._adapt(len(payload), len(values))
        self.records += len(values)
        self._send_data(target, payload, self._since[target] or self._ingestion_time.at)
        # Emptied, not replaced: bound append methods of these lists are cached per key.
        values.clear()
        self._stamps[target].clear()
        self._since[target] = 0.0

    def _adapt(self, size: int, count: int) -> None:
        if size > self._max_bytes and count > 1:
            self._limit = max(1, min(self._limit, count) * self._max_bytes // (2 * size))
        elif size < self._max_bytes // 4 and self._limit < self._max_records:
            self._limit = min(self._max_records, self._limit * 2)

    def _send_data(self, target: int, payload: bytes, ingested_at: float) -> None:
        block = pack_header(
            BlockKind.DATA, self.edge.id, self._subtask, target, self._sequence[target], 0, ingested_at, payload
        )
        self._sequence[target] += 1
        self.bytes += len(block)
        self._send(target, block)

    def flush(self) -> None:
        """Send every record that waits."""
        for target, values in enumerate(self._values):
            if values:
                self._send_block(target)
        if self._markers:
            self._send_markers()

    def latency(self, source: int, marked: float) -> None:
        """Send a latency marker of a source, made at a time (wall clock, s), to one target; it waits as records do."""
        self._markers.append((source, marked))
        if not self.waiting:
            self._send_markers()

    def _send_markers(self) -> None:
        for source, marked in self._markers:
            target = random.choice(self._reachable())
            kind, number = BlockKind.LATENCY, self._sequence[target]
            self._sequence[target] += 1
            self._send(target, pack_header(kind, self.edge.id, self._subtask, target, number, source, marked))
        self._markers.clear()

    def _reachable(self) -> Sequence[int]:
        """Return the targets that records may go to."""
        return range(self.targets)

    def control(self, kind: BlockKind, number: int, content: bytes = b"") -> None:
        """Send a control block to every target, after all records before it."""
        self.flush()
        self._send_control(kind, number, content)

    def overtaking_barrier(self, number: int, content: bytes) -> list[Block]:
        """Send a barrier to every target, ahead of the buffered records; return these, per target."""
        self._send_control(BlockKind.BARRIER, number, content)
        stamped = self._stamped
        return [
            RowBlock(list(values), list(stamps) if stamped else None)
            for values, stamps in zip(self._values, self._stamps, strict=True)
            if values
        ]

    def _send_control(self, kind: BlockKind, number: int, content: bytes) -> None:
        for target in range(self.targets):
            block = pack_header(kind, self.edge.id, self._subtask, target, self._sequence[target], number, 0.0, content)
            self._sequence[target] += 1
            self._send(target, block)


class RebalanceWriter(EdgeWriter):
    """Round robin, record by record, from a start that differs between upstream subtasks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._next = self._subtask % self.targets
        self._chosen: list[int] = list(range(self.targets))

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Deal a block out."""
        stamps = self._align(timestamps)
        chosen = self._chosen
        width = len(chosen)
        for offset in range(min(width, len(values))):
            target = chosen[(self._next + offset) % width]
            self._values[target].extend(values[offset::width])
            if stamps is not None:
                self._stamps[target].extend(stamps[offset::width])
        self._next = (self._next + len(values)) % width
        self._send_full()


class RescaleWriter(RebalanceWriter):
    """Round robin over this subtask's share of the targets."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        up, down = self.edge.source_parallelism, self.edge.target_parallelism
        if up >= down:
            self._chosen = [self._subtask * down // up]
        else:
            self._chosen = [t for t in range(down) if t * up // down == self._subtask]
        self._next = 0

    def _reachable(self) -> Sequence[int]:
        return self._chosen


class OneTargetWriter(EdgeWriter):
    """Everything to one target: forward over stages, or global."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._target = 0 if isinstance(self.edge.partitioning, Global) else self._subtask

    def _reachable(self) -> Sequence[int]:
        return (self._target,)

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Pass a block on."""
        stamps = self._align(timestamps)
        self._values[self._target].extend(values)
        if stamps is not None:
            self._stamps[self._target].extend(stamps)
        self._send_full()


class ShuffleWriter(EdgeWriter):
    """To a random target."""

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Scatter a block."""
        stamps = self._align(timestamps)
        for position, target in enumerate(random.choices(range(self.targets), k=len(values))):
            self._values[target].append(values[position])
            if stamps is not None:
                self._stamps[target].append(stamps[position])
        self._send_full()


class BroadcastWriter(EdgeWriter):
    """Every record to every target; pickled once."""

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Keep a block once, for all."""
        stamps = self._align(timestamps)
        self._values[0].extend(values)
        if stamps is not None:
            self._stamps[0].extend(stamps)
        self._send_full()

    def _send_data(self, target: int, payload: bytes, ingested_at: float) -> None:
        for each in range(self.targets):
            super()._send_data(each, payload, ingested_at)


class CustomWriter(EdgeWriter):
    """To the target that the user's partitioner names."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        partitioning = self.edge.partitioning
        assert isinstance(partitioning, Custom)
        self._key, self._partition = partitioning.key.bind(), partitioning.partitioner.bind()

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Call the partitioner for each record."""
        stamps = self._align(timestamps)
        for position, value in enumerate(values):
            target = self._partition(self._key(value), self.targets)
            if not 0 <= target < self.targets:
                raise InvalidProgram(
                    f"the partitioner after operator {self._operator!r} returned {target!r} for {value!r}; it must be "
                    f"from 0 to {self.targets - 1}, the parallelism of the next operator less one."
                )
            self._values[target].append(value)
            if stamps is not None:
                self._stamps[target].append(stamps[position])
        self._send_full()


__all__ = ["EdgeWriter", "IngestionTime"]
