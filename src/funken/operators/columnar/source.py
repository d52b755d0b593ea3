"""Sources and timestamps over columns."""

from __future__ import annotations

from types import MethodType
from typing import Any

import numpy as np

from funken.columnar.expressions import HIGHEST, INT, LOWEST, RecordSchema
from funken.columnar.kernels.columns import Array, Column, Columns, rows
from funken.columnar.kernels.evaluation import FallBackToRows, computed, evaluate
from funken.columnar.tracing import Traced
from funken.connectors.base import SourceReader
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.columnar.specs import ColumnarSource, ColumnarTimestamps
from funken.operators.columnar.stateless import TracedFunction
from funken.operators.source import SourceOperator
from funken.operators.timestamps import TimestampsAndWatermarksLogic, WatermarkEmitter
from funken.operators.user_functions import UserFunction
from funken.timing.watermarks import WatermarkStrategy


class ColumnarSourceOperator(SourceOperator):
    """Reads blocks of columns."""

    columnar = True

    def __init__(self, spec: ColumnarSource) -> None:
        super().__init__(spec)
        self._vector = spec

    def make_reader(self) -> SourceReader:
        """Make a reader whose records are columns."""
        reader = super().make_reader()
        declared = self._vector.source.index_columns
        if declared is None:
            return reader
        if declared.function is None:
            reader.read_columns(_indices)
        elif self._vector.generated is not None:
            call = function_call(declared.function, "map")
            made = Generated(call, self._vector.generated, self._vector.schema)
            function = declared.function if callable(declared.function) else declared.function.map
            reader.read_columns(lambda indices: made.records(indices, function))
        return reader

    def make_watermark_emitter(self) -> WatermarkEmitter:
        """Make what stamps columns."""
        return ColumnarWatermarkEmitter(self._vector.strategy, self, self._vector.stamped)


def function_call(function: Any, method: str) -> UserFunction:
    """Return a function, a bound method or an object with a method as a call whose method, if any, is named."""
    if isinstance(function, MethodType):
        return UserFunction(function.__self__, function.__name__)
    return UserFunction(function) if callable(function) else UserFunction(function, method)


def _indices(indices: range) -> Any:
    if not LOWEST <= indices[0] <= indices[-1] <= HIGHEST:
        return list(indices)
    data = np.arange(indices.start, indices[-1] + 1, indices.step, dtype=np.int64)
    return Columns(INT, [Column(INT, data, False, indices[0], indices[-1])], len(data))


class Generated:
    """The records of indices, by a traced function."""

    def __init__(self, call: UserFunction, traced: Traced, schema: RecordSchema) -> None:
        self._result = traced.result
        self._shape = schema
        self._kernel = TracedFunction(call, traced)

    def records(self, indices: range, function: Any) -> Any:
        """Compute a block; by ``function`` for each index if the kernels cannot."""
        block = _indices(indices)
        if type(block) is Columns and self._kernel.ready():
            try:
                return computed(self._result, self._shape, block)
            except FallBackToRows:
                pass
        return [function(index) for index in indices]


class ColumnarWatermarkEmitter(WatermarkEmitter):
    """Stamps columns: timestamps are an array."""

    def __init__(self, strategy: WatermarkStrategy, operator: Operator, stamped: Traced | None) -> None:
        super().__init__(strategy, operator)
        self._assign = stamped
        self._kernel = None
        if stamped is not None:
            self._kernel = TracedFunction(function_call(strategy.assigner, "extract_timestamp"), stamped)

    def emit(self, split: str, values: Values, timestamps: Timestamps) -> None:
        """Give a block its timestamps and send it on."""
        block: Any = values
        if type(block) is not Columns or (self._strategy.assigner is not None and not self._ready()):
            super().emit(split, *rows(values, timestamps))
            return
        stamps: Any = timestamps
        if self._assign is not None:
            try:
                stamps = self._stamps(self._assign, block, stamps)
            except FallBackToRows:
                super().emit(split, *rows(values, timestamps))
                return
        if self._strategy.generator is not None:
            self.wake()
            if stamps is not None:
                highest = int(stamps.max())
                if split not in self.checks.seen:
                    self.checks.begin_split(split, int(stamps.min()), highest, self._operator.current_watermark)
                self.progress.on_block(split, [highest], self._operator.context.processing_time())
        self._operator.output.emit(values, stamps)

    def _ready(self) -> bool:
        return self._kernel is not None and self._kernel.ready()

    @staticmethod
    def _stamps(assign: Traced, block: Columns, stamps: Array | None) -> Array:
        old = Column(INT, MIN_TIMESTAMP, True) if stamps is None else Column(INT, stamps)
        made = evaluate(assign.result, block.length, block, Columns(INT, [old], block.length))
        assert isinstance(made, Column)
        return made.array(block.length)


class ColumnarTimestampsLogic(TimestampsAndWatermarksLogic):
    """One subtask, one generator."""

    columnar = True

    def __init__(self, spec: ColumnarTimestamps) -> None:
        super().__init__(spec.strategy)
        self._stamped = spec.stamped

    def make_watermark_emitter(self) -> WatermarkEmitter:
        """Make what stamps columns."""
        return ColumnarWatermarkEmitter(self._strategy, self, self._stamped)
