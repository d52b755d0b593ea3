"""Sources and timestamps over columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Column, Columns
from funken.columnar.kernels.evaluation import computed, evaluate
from funken.columnar.records import with_items_read
from funken.columnar.tracing import Traced
from funken.connectors.base import SourceReader
from funken.expr.types import HIGHEST, INT, LOWEST, Type
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Operator, Timestamps
from funken.operators.columnar.path import ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarSource, ColumnarTimestamps
from funken.operators.source import SourceOperator
from funken.operators.timestamps import TimestampsAndWatermarksLogic, WatermarkEmitter
from funken.operators.user_functions import UserFunction, call_of
from funken.timing.watermarks import WatermarkStrategy


class ColumnarSourceOperator(SourceOperator):
    """Reads blocks of columns."""

    columnar = True

    def __init__(self, spec: ColumnarSource) -> None:
        super().__init__(spec)
        self._vector = spec
        #: the functions that decide which fields are read; once one of them has changed, all are
        self._guards = [TracedFunction(*guard) for guard in spec.guards]

    def poll(self, limit: int, now: int) -> int | None:
        """Read and emit a block."""
        if self._guards and not all(guard.ready() for guard in self._guards):
            self._guards = []
            self.reader.read_record_columns(self._vector.schema, None)
        return super().poll(limit, now)

    def make_reader(self) -> SourceReader:
        """Make a reader whose records are columns."""
        reader = super().make_reader()
        if self._vector.of_records:
            schema = with_items_read(self._vector.schema, dict(self._vector.items))
            reader.read_record_columns(schema, self._vector.wanted)
            return reader
        declared = self._vector.source.index_columns
        if declared is None:
            return reader
        if declared.function is None:
            reader.read_columns(_indices)
        elif self._vector.generated is not None:
            call = call_of(declared.function, "map")
            made = Generated(call, self._vector.generated, self._vector.schema)
            function = declared.function if callable(declared.function) else declared.function.map
            reader.read_columns(lambda indices: made.records(indices, function))
        return reader

    def make_watermark_emitter(self) -> WatermarkEmitter:
        """Make what stamps columns."""
        return ColumnarWatermarkEmitter(self._vector.strategy, self, self._vector.stamped)


def _indices(indices: range) -> Any:
    """Return what a ``Batch`` has as its values: columns of indices, or a list of those that no column holds."""
    columns = _index_block(indices)
    return list(indices) if columns is None else columns


def _index_block(indices: range) -> Columns | None:
    if not LOWEST <= indices[0] <= indices[-1] <= HIGHEST:
        return None
    data = np.arange(indices.start, indices[-1] + 1, indices.step, dtype=np.int64)
    return Columns(INT, [Column(INT, data, False, indices[0], indices[-1])], len(data))


class Generated:
    """The records of indices, by a traced function."""

    def __init__(self, call: UserFunction, traced: Traced, schema: Type) -> None:
        self._path = ColumnPath(lambda block: computed(traced.result, schema, block), TracedFunction(call, traced))

    def records(self, indices: range, function: Any) -> Any:
        """Compute a block; by ``function`` for each index if the kernels cannot."""
        block = _index_block(indices)
        made = None if block is None else self._path(block)
        return [function(index) for index in indices] if made is None else made


class ColumnarWatermarkEmitter(WatermarkEmitter):
    """Stamps columns: timestamps are an array."""

    def __init__(self, strategy: WatermarkStrategy, operator: Operator, stamped: Traced | None) -> None:
        super().__init__(strategy, operator)
        #: ``None``: the assigner was not traced
        self._stamped: ColumnPath[Columns] | None = None
        if stamped is not None:
            function = TracedFunction(call_of(strategy.assigner, "extract_timestamp"), stamped)
            self._stamped = ColumnPath(lambda block: block.stamped(_stamps(stamped, block)), function)
        elif strategy.assigner is None:
            self._stamped = ColumnPath(lambda block: block)

    def emit(self, split: str, values: Any, timestamps: Timestamps) -> None:
        """Give what a reader has returned its timestamps and send it on."""
        if isinstance(values, Columns):
            self.emit_block(split, values if timestamps is None else values.stamped(np.asarray(timestamps, np.int64)))
        else:
            super().emit(split, values, timestamps)

    def emit_block(self, split: str, block: Block) -> None:
        """Give a block its timestamps and send it on."""
        stamped = None if self._stamped is None else self._stamped(block)
        if stamped is None:
            super().emit(split, *block.rows())
            return
        if self._strategy.generator is not None:
            self._saw = True
            self.wake()
            stamps = stamped.timestamps
            if stamps is not None:
                highest = int(stamps.max())
                if split not in self.checks.seen:
                    self.begin_split(split, int(stamps.min()), highest)
                self.progress.on_block(split, [highest], self._operator.context.processing_time())
        self._operator.output.emit_block(stamped)


def _stamps(assign: Traced, block: Columns) -> Array:
    """Return the timestamps that an assigner gives to the records of a block."""
    old = Column(INT, MIN_TIMESTAMP, True) if block.timestamps is None else Column(INT, block.timestamps)
    made = evaluate(assign.result, block.length, block, Columns(INT, [old], block.length))
    assert isinstance(made, Column)
    return made.array(block.length)


class ColumnarTimestampsLogic(TimestampsAndWatermarksLogic):
    """One subtask, one generator."""

    columnar = True

    _emitter: ColumnarWatermarkEmitter

    def __init__(self, spec: ColumnarTimestamps) -> None:
        super().__init__(spec.strategy)
        self._stamped = spec.stamped

    def make_watermark_emitter(self) -> WatermarkEmitter:
        """Make what stamps columns."""
        return ColumnarWatermarkEmitter(self._strategy, self, self._stamped)

    def process_block(self, block: Block) -> None:
        """Assign timestamps to a block."""
        self._emitter.emit_block("", block)
