"""Functions over whole blocks: ``@funken.vectorized`` functions in ``map`` and ``filter``, and ``map_batches``.

Columns are handed over as they are, and records as columns. Results go on as columns if their type is declared and the plan wants
it, else as records.
"""

from __future__ import annotations

from itertools import compress
from typing import Any

import numpy as np

from funken.columnar.block import Block, RowBlock
from funken.columnar.kernels.columns import Columns
from funken.columnar.vectorized.arguments import argument_of, columns_of_records
from funken.columnar.vectorized.results import columns_made, mask_made, records_made
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.specs import BatchResult, VectorizedCall
from funken.operators.stateless import UserFunctionOperator


class VectorizedLogic(UserFunctionOperator):
    """Calls the function once per block."""

    columnar = True

    def __init__(self, spec: VectorizedCall) -> None:
        super().__init__(spec.function)
        self._spec = spec

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of records."""
        self.process_block(RowBlock(values, timestamps))

    def process_block(self, block: Block) -> None:
        """Handle a block."""
        if not block.records:
            return
        if isinstance(block, Columns):
            block = columns = block.each()
        else:
            columns = columns_of_records(block.rows()[0])
        made = self.call(argument_of(columns, self._spec.batch_format))
        if self._spec.result is BatchResult.FILTER:
            self._filter(block, made)
            return
        length = len(columns) if self._spec.result is BatchResult.MAP else None
        if self._spec.schema is None:
            records = records_made(made, length)
            if records:
                stamps = _listed(block.timestamps) if isinstance(block, Columns) else block.rows()[1]
                self.output.emit(records, stamps if len(records) == len(columns) else None)
            return
        results = columns_made(made, self._spec.schema, length)
        if not results.length:
            return
        stamps = block.timestamps if results.length == len(columns) else None
        if self._spec.gives_columns:
            self.output.emit_block(results.stamped(None if stamps is None else np.asarray(stamps, np.int64)))
        else:
            self.output.emit(results.to_list(), _listed(stamps))

    def _filter(self, block: Block, made: Any) -> None:
        mask = mask_made(made, len(block))
        if not mask.any():
            return
        if isinstance(block, Columns):
            self.output.emit_block(block.keep(mask))
            return
        values, timestamps = block.rows()
        kept = mask.tolist()
        self.output.emit(list(compress(values, kept)), None if timestamps is None else list(compress(timestamps, kept)))


def _listed(stamps: Any) -> Timestamps:
    listed: Timestamps = stamps.tolist() if isinstance(stamps, np.ndarray) else stamps
    return listed
