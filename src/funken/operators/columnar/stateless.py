"""map and filter over columns, and the sink that drops them."""

from __future__ import annotations

from typing import Any

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Columns
from funken.columnar.kernels.evaluation import computed, mask_of
from funken.operators.columnar.path import ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarFilter, ColumnarMap
from funken.operators.sink import WriterSinkLogic
from funken.operators.stateless import FilterLogic, MapLogic


class ColumnarMapLogic(MapLogic):
    """Computes the results of a block at once."""

    columnar = True

    def __init__(self, spec: ColumnarMap) -> None:
        super().__init__(spec.function)
        result, schema = spec.traced.result, spec.schema
        self._mapped = ColumnPath(
            lambda block: computed(result, schema, block), TracedFunction(spec.function, spec.traced)
        )

    def process_block(self, block: Block) -> None:
        """Map a block."""
        mapped = self._mapped(block)
        if mapped is None:
            self.process(*block.rows())
        else:
            self.output.emit_block(mapped)


class ColumnarFilterLogic(FilterLogic):
    """Computes a mask."""

    columnar = True

    def __init__(self, spec: ColumnarFilter) -> None:
        super().__init__(spec.function)
        self._result = spec.traced.result
        self._kept = ColumnPath(self._keep, TracedFunction(spec.function, spec.traced))

    def process_block(self, block: Block) -> None:
        """Filter a block."""
        kept = self._kept(block)
        if kept is None:
            self.process(*block.rows())
        elif kept.length:
            self.output.emit_block(kept)

    def _keep(self, block: Columns) -> Columns:
        mask = mask_of(self._result, block)
        if type(mask) is bool:
            return block if mask else block[:0]
        return block.keep(mask)


class ColumnarSinkLogic(WriterSinkLogic):
    """Hands blocks over as they are: the writer takes columns (``Sink.takes_columns``)."""

    columnar = True

    def process_block(self, block: Block) -> None:
        """Write a block."""
        columns: Any = block
        if isinstance(block, Columns):
            self.process(columns, block.timestamps)
        else:
            self.process(*block.rows())
