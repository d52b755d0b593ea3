"""Columns from a source on their way to the first operator."""

from types import SimpleNamespace

import pytest

from funken import WatermarkStrategy
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import INT
from funken.ids import MIN_TIMESTAMP
from funken.operators.columnar.stateless import ColumnarWatermarkEmitter


def test_columns_keep_the_timestamps_that_the_source_has_given_them():
    found = []
    context = SimpleNamespace(auto_watermark_interval=200, warn=None, batch=False, pausing=False)
    output = SimpleNamespace(emit_block=found.append)
    operator = SimpleNamespace(output=output, context=context, current_watermark=MIN_TIMESTAMP)
    emitter = ColumnarWatermarkEmitter(WatermarkStrategy.no_watermarks(), operator, None)

    emitter.emit("split", columns_of([1, 2], INT), [10, 20])
    emitter.emit("split", columns_of([3], INT), None)

    assert [block.rows() for block in found] == [([1, 2], [10, 20]), ([3], None)]


@pytest.mark.parametrize("columns", [True, False])
def test_a_micro_batch_with_records_is_not_idle(columns):
    """An idle subtask does not hold the watermark back: records that it still has in state would be late."""
    said = []
    context = SimpleNamespace(
        auto_watermark_interval=200, warn=None, batch=False, pausing=True, processing_time=lambda: 0
    )
    output = SimpleNamespace(
        emit_block=lambda block: None,
        emit=lambda values, timestamps: None,
        watermark=said.append,
        idle=lambda idle: said.append("idle" if idle else "active"),
    )
    operator = SimpleNamespace(output=output, context=context, current_watermark=MIN_TIMESTAMP)
    emitter = ColumnarWatermarkEmitter(WatermarkStrategy.for_monotonous_timestamps(), operator, None)
    emitter.progress.add("split", 0)

    emitter.emit("split", columns_of([1, 2], INT) if columns else [1, 2], [10, 20])
    emitter.settle()

    assert said == [19]
