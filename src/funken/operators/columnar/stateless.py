"""map, filter and sinks over columns."""

from __future__ import annotations

from typing import Any

from funken.columnar.block import Block
from funken.columnar.flat_maps.conventions import TracedWithContext
from funken.columnar.kernels.columns import Column, Columns
from funken.columnar.kernels.evaluation import FallBackToRows, computed, evaluate, mask_of
from funken.columnar.keyed.groups import Groups
from funken.columnar.keyed.keys import key_codes
from funken.expr.types import INT
from funken.ids import MIN_TIMESTAMP
from funken.operators.columnar.path import ColumnPath, TracedFunction, WatchedPath
from funken.operators.columnar.specs import ColumnarFilter, ColumnarMap, ColumnarSink
from funken.operators.sink import WriterSinkLogic
from funken.operators.stateless import FilterLogic, MapLogic
from funken.operators.user_functions import call_of


class ColumnarMapLogic(MapLogic):
    """Computes the results of a block at once."""

    columnar = True

    def __init__(self, spec: ColumnarMap) -> None:
        super().__init__(spec.function)
        result, schema = spec.traced.result, spec.schema
        functions = [TracedFunction(spec.function, spec.traced), *(TracedFunction(*guard) for guard in spec.guards)]
        path = ColumnPath(lambda block: computed(result, schema, block), *functions, of=self)
        self._mapped = WatchedPath(self, path, spec.traced.catches, schema)

    def process_block(self, block: Block) -> None:
        """Map a block."""
        self._mapped.take(block)


class ColumnarFilterLogic(FilterLogic):
    """Computes a mask."""

    columnar = True

    def __init__(self, spec: ColumnarFilter) -> None:
        super().__init__(spec.function)
        self._result = spec.traced.result
        path = ColumnPath(self._keep, TracedFunction(spec.function, spec.traced), of=self)
        self._kept = WatchedPath(self, path, spec.traced.catches, None)

    def process_block(self, block: Block) -> None:
        """Filter a block."""
        self._kept.take(block)

    def _keep(self, block: Columns) -> Columns:
        mask = mask_of(self._result, block)
        if type(mask) is bool:
            return block if mask else block[:0]
        return block.keep(mask)


class ColumnarSinkLogic(WriterSinkLogic):
    """Hands blocks to a writer that takes columns, as they are or in groups (``Sink.takes_columns``, ``Sink.grouped_by``)."""

    columnar = True

    def __init__(self, spec: ColumnarSink) -> None:
        super().__init__(spec.sink)
        self._groups: ColumnPath[list[tuple[Any, Any]]] | None = None
        if spec.grouped is not None:
            grouped = spec.grouped
            function = TracedFunction(call_of(spec.sink.grouped_by, ""), grouped.traced)
            self._groups = ColumnPath(lambda block: grouped_by(block, grouped), function)

    def process_block(self, block: Block) -> None:
        """Write a block."""
        columns: Any = block
        groups = None if self._groups is None else self._groups(block)
        if groups is not None:
            self.write_groups(groups)
        elif isinstance(block, Columns):
            self.process(columns, block.timestamps)
        else:
            self.process(*block.rows())


def grouped_by(block: Columns, of: TracedWithContext) -> list[tuple[Any, Columns]]:
    """Return the records of a block by what a function of them gives, in the order of first records; of each all in their order.

    Raises ``FallBackToRows``, also for a record without a timestamp if the function asks for it.
    """
    stamps = block.timestamps
    if not of.asks:
        stamps = None
    elif stamps is None or stamps.min() == MIN_TIMESTAMP:
        raise FallBackToRows("a record without a timestamp")
    times = Columns(INT, [Column(INT, 0, True) if stamps is None else Column(INT, stamps)], block.length)
    given = evaluate(of.traced.result, block.length, block, times)
    assert isinstance(given, Column)
    codes, values = key_codes(given, block.length)
    if len(values) == 1:
        return [(values[0], block)]
    groups = Groups(codes, len(values))
    # Records that come in the order of the groups, as those of times mostly do, are cut and not copied.
    together = block if bool((codes[1:] >= codes[:-1]).all()) else block.take(groups.order)
    parts = zip(groups.slots.tolist(), groups.begins.tolist(), groups.ends.tolist(), strict=True)
    return [(values[slot], together[begin : end + 1]) for slot, begin, end in parts]
