"""The edge writers for columns: blocks are cut up as the partitioning says, and sent as columns.

They take rows too, and send them as the writers of the record path do. Records of one target keep their order: what
waits in one form leaves before the other comes. In front of a pre-aggregated window, a block is folded before it is cut up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Column, Columns
from funken.columnar.keyed.codec import encode_block
from funken.columnar.keyed.groups import Combiner, joined_alike
from funken.columnar.keyed.keys import KeyTargets, key_of
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.path import ColumnPath, TracedFunction
from funken.plan.nodes import ColumnarHash, Forward, Global, Rebalance, Rescale
from funken.runtime.exchange.writers import EdgeWriter, HashWriter, RebalanceWriter

_FACTOR = 8
"""A block of columns for columns holds so many times the records of a piece, if the bytes allow."""
_TO_RECORDS = 2
"""The same of a block that becomes records where it arrives: they are worked off in one go, which others wait for."""
_FOLDED = 4
"""A block of partials stands for so many times the records again at most: it may be written down as records."""


class ColumnsWriter(EdgeWriter):
    """Buffers columns per target, beside the writer of the record path that comes behind it."""

    form: type[Block] = Columns
    """The form of the blocks that are buffered; others become rows."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        form = self.edge.partitioning.form
        assert form is not None
        self._max_records = self._limit
        self._factor = _TO_RECORDS if form.to_records else _FACTOR
        if self._max_records == 1:  # nothing waits
            self._factor = 1
        self._blocks: list[list[Any]] = [[] for _ in range(self.targets)]
        self._waiting = [0] * self.targets

    @property
    def waiting(self) -> bool:
        """True if records wait for their block to fill, in either form."""
        return any(self._blocks) or super().waiting

    def emit_block(self, block: Block) -> None:
        """Buffer a block."""
        if type(block) is not self.form:
            self.emit(*block.rows())
        elif len(block):
            self._flush_rows()
            self._buffer(block)

    def _joinable(self, first: Any, block: Any) -> bool:
        """Return True if a block can be sent together with one that waits."""
        stamped = block.timestamps is not None
        return type(first) is type(block) and (first.timestamps is not None) is stamped and first.schema == block.schema

    def _joined(self, waiting: list[Any]) -> tuple[Block, bytes]:
        """Return the blocks that wait as one, and as bytes."""
        block = joined_alike(waiting)
        return block, encode_block(block)

    def _buffer(self, block: Any) -> None:
        """Buffer columns for their targets."""
        raise NotImplementedError

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Spread rows."""
        self._flush_columns()
        super().emit(values, timestamps)

    def _put(self, target: int, block: Any) -> None:
        waiting = self._blocks[target]
        if waiting and not self._joinable(waiting[0], block):
            self._send_columns(target)
        if not self._since[target]:
            self._since[target] = self._ingestion_time.at
        waiting.append(block)
        self._waiting[target] += max(block.length, block.records // _FOLDED)
        if self._waiting[target] >= self._limit * self._factor:
            self._send_columns(target)

    def _send_columns(self, target: int) -> None:
        waiting = self._blocks[target]
        block, payload = self._joined(waiting)
        self._adapt(len(payload), max(1, len(block) // self._factor))
        self.records += block.records
        self._send_data(target, payload, self._since[target] or self._ingestion_time.at)
        waiting.clear()
        self._waiting[target] = 0
        self._since[target] = 0.0

    def _flush_rows(self) -> None:
        super().flush()

    def _flush_columns(self) -> None:
        for target, waiting in enumerate(self._blocks):
            if waiting:
                self._send_columns(target)

    def overtaking_barrier(self, number: int, content: bytes) -> list[Block]:
        """Send a barrier to every target, ahead of the records that wait; return these."""
        waiting: list[Block] = [block for blocks in self._blocks for block in blocks]
        return waiting + super().overtaking_barrier(number, content)

    def flush(self) -> None:
        """Send every record that waits."""
        self._flush_columns()
        super().flush()


class ColumnarRebalanceWriter(ColumnsWriter, RebalanceWriter):
    """Round robin, record by record, over the targets that this subtask reaches."""

    def _buffer(self, block: Any) -> None:
        width = len(self._chosen)
        for offset in range(min(width, block.length)):
            part = block if width == 1 else block.take(np.arange(offset, block.length, width))
            self._put(self._chosen[(self._next + offset) % width], part)
        self._next = (self._next + block.length) % width


class ColumnarHashWriter(ColumnsWriter, HashWriter):
    """Records with equal keys to one target, by key group."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        partitioning = self.edge.partitioning
        assert isinstance(partitioning, ColumnarHash)
        self._result = partitioning.traced.result
        self._keyed = ColumnPath(self._key_of, TracedFunction(partitioning.key, partitioning.traced))
        before = partitioning.pre_aggregation
        self._combiner: Combiner | None = None
        if before is not None:  # of a small block, the calls cost more than the records
            self._combiner = Combiner(before.roles, before.pane, before.offset, max(1, self._max_records // 2))
        self._folds = [] if before is None else [TracedFunction(*function) for function in before.functions]
        self._owners = KeyTargets(self.edge.target_max_parallelism, self.targets)

    def emit_block(self, block: Block) -> None:
        """Spread a block by key."""
        keyed = self._keyed(block)
        if keyed is None:
            self.emit(*block.rows())
            return
        self._flush_rows()
        columns, key = keyed
        if self._combiner is not None and all(fold.ready() for fold in self._folds):
            columns, key = self._combiner.combine(columns, key)
        self._spread(columns, self._owners.of(key, columns.length))

    def _key_of(self, block: Columns) -> tuple[Columns, Column]:
        return block, key_of(self._result, block)

    def _spread(self, block: Columns, owners: Array | int) -> None:
        if isinstance(owners, int):
            self._put(owners, block)
            return
        for target in range(self.targets):
            positions = np.flatnonzero(owners == target)
            if len(positions):
                self._put(target, block.take(positions))


WRITERS: dict[type, type[EdgeWriter]] = {
    ColumnarHash: ColumnarHashWriter,
    **dict.fromkeys((Rebalance, Rescale, Forward, Global), ColumnarRebalanceWriter),
}
