"""Sources and timestamps over columns."""

from __future__ import annotations

from types import MethodType
from typing import Any

import numpy as np

from funken.connectors.base import SourceReader
from funken.connectors.datagen import GeneratorReader, SequenceReader
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.calls import Call
from funken.operators.source import SourceOperator
from funken.operators.timestamps import Stamper, TimestampsAndWatermarksLogic
from funken.operators.vector_stateless import Kernel
from funken.operators.vectorized import VectorSource, VectorTimestamps
from funken.timing.watermarks import WatermarkStrategy
from funken.vector.columns import Array, Column, Columns, rows
from funken.vector.evaluation import Unfit, computed, evaluate
from funken.vector.expressions import HIGHEST, INT, LOWEST, Shape
from funken.vector.tracing import Traced


class VectorSourceOperator(SourceOperator):
    """Reads blocks of columns."""

    columnar = True

    def __init__(self, spec: VectorSource) -> None:
        super().__init__(spec)
        self._vector = spec

    def make_reader(self) -> SourceReader:
        """Make a reader whose records are columns."""
        reader = super().make_reader()
        if isinstance(reader, SequenceReader):
            reader.records = _indices  # type: ignore[method-assign]
        elif isinstance(reader, GeneratorReader) and self._vector.generated is not None:
            source: Any = self._vector.source
            generate = reader.records
            call = function_call(source.generator_function, "map")
            made = Generated(call, self._vector.generated, self._vector.shape)
            reader.records = lambda indices: made.records(indices, generate)  # type: ignore[method-assign]
        return reader

    def make_stamper(self) -> Stamper:
        """Make what stamps columns."""
        return VectorStamper(self._vector.strategy, self, self._vector.stamped)


def function_call(function: Any, method: str) -> Call:
    """Return a function, a bound method or an object with a method as a call whose method, if any, is named."""
    if isinstance(function, MethodType):
        return Call(function.__self__, function.__name__)
    return Call(function) if callable(function) else Call(function, method)


def _indices(indices: range) -> Any:
    if not LOWEST <= indices[0] <= indices[-1] <= HIGHEST:
        return list(indices)
    data = np.arange(indices.start, indices[-1] + 1, indices.step, dtype=np.int64)
    return Columns(INT, [Column(INT, data, False, indices[0], indices[-1])], len(data))


class Generated:
    """The records of indices, by a traced function."""

    def __init__(self, call: Call, traced: Traced, shape: Shape) -> None:
        self._result = traced.result
        self._shape = shape
        self._kernel = Kernel(call, traced)

    def records(self, indices: range, generate: Any) -> Any:
        """Compute a block; by ``generate`` if the kernels cannot."""
        block = _indices(indices)
        if type(block) is Columns and self._kernel.ready():
            try:
                return computed(self._result, self._shape, block)
            except Unfit:
                pass
        return generate(indices)


class VectorStamper(Stamper):
    """Stamps columns: timestamps are an array."""

    def __init__(self, strategy: WatermarkStrategy, operator: Operator, stamped: Traced | None) -> None:
        super().__init__(strategy, operator)
        self._assign = stamped
        self._kernel = None
        if stamped is not None:
            self._kernel = Kernel(function_call(strategy.assigner, "extract_timestamp"), stamped)

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
            except Unfit:
                super().emit(split, *rows(values, timestamps))
                return
        if self._strategy.generator is not None:
            self.wake()
            if stamps is not None:
                self.progress.on_block(split, [int(stamps.max())], self._operator.context.processing_time())
        self._operator.output.emit(values, stamps)

    def _ready(self) -> bool:
        return self._kernel is not None and self._kernel.ready()

    @staticmethod
    def _stamps(assign: Traced, block: Columns, stamps: Array | None) -> Array:
        old = Column(INT, MIN_TIMESTAMP, True) if stamps is None else Column(INT, stamps)
        made = evaluate(assign.result, block.length, block, Columns(INT, [old], block.length))
        assert isinstance(made, Column)
        return made.array(block.length)


class VectorTimestampsLogic(TimestampsAndWatermarksLogic):
    """One subtask, one generator."""

    columnar = True

    def __init__(self, spec: VectorTimestamps) -> None:
        super().__init__(spec.strategy)
        self._stamped = spec.stamped

    def make_stamper(self) -> Stamper:
        """Make what stamps columns."""
        return VectorStamper(self._strategy, self, self._stamped)
