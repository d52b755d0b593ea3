"""Watermarks of tables: in the source, one per split, or by an operator behind it.

A source that takes a strategy is given ``RowtimeWatermarks``; ``SourceWatermarks`` stands where the assigner would. Behind
another source is a ``WatermarkAssigner``, which sees the rows of all splits of a subtask in one order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from funken.dataclass import dataclass
from funken.expr.evaluate import EvaluationContext, evaluate
from funken.expr.ir import Node
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import OperatorContext, Output
from funken.table.runtime.block import BlockSchema, TableBlock
from funken.table.runtime.operator import TableOperator, checked_rowtime, millis_array
from funken.table.runtime.stateless import Expressions
from funken.timing.watermarks import WatermarkGenerator, WatermarkOutput

_LOWEST = np.iinfo(np.int64).min


def _millis(marks: pa.Array) -> Any:
    """Return the milliseconds of a column; NULL is less than all."""
    if not marks.null_count:
        return millis_array(marks)
    found = np.full(len(marks), _LOWEST, np.int64)
    valid = marks.is_valid().to_numpy(zero_copy_only=False)
    found[valid] = millis_array(marks.drop_null())
    return found


# ---- in the source


@dataclass(frozen=True)
class RowtimeWatermarksSpec:
    """Makes the generators of a source: one per split.

    ``schema`` and ``places`` are the columns that ``expression`` reads, and where they are in a row of the source.
    """

    schema: BlockSchema
    places: tuple[int, ...]
    expression: Node
    per_record: bool
    parameters: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> RowtimeWatermarks:
        """Make the generator of a split."""
        return RowtimeWatermarks(self)

    def of_wider_rows(self, positions: Sequence[int]) -> RowtimeWatermarksSpec:
        """Return the same for rows of which these are at ``positions`` of others."""
        return replace(self, places=tuple(positions[place] for place in self.places))


class RowtimeWatermarks(WatermarkGenerator):
    """The running maximum of an expression over the rows of a split: emitted behind each row, or periodically."""

    def __init__(self, spec: RowtimeWatermarksSpec) -> None:
        from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - the whole table, only where SQL runs

        self._spec, self._reached = spec, int(MIN_TIMESTAMP)
        parameters = spec.parameters
        # Expressions of watermarks are deterministic: none asks for the time.
        zone = parameters.get("time_zone", "UTC")
        self._context = EvaluationContext(FUNCTIONS, zone, lambda: 0, lambda: None, parameters)

    def on_values(self, values: Sequence[Any] | TableBlock) -> Iterator[tuple[int, int]]:
        """See the rows of a block; yield the watermarks, as numbers of rows before them and values."""
        spec = self._spec
        if isinstance(values, TableBlock):
            arrays = [values.batch.column(place) for place in spec.places]
            batch = pa.RecordBatch.from_arrays(arrays, schema=spec.schema.arrow)
        else:
            batch = spec.schema.of_rows([[value[place] for place in spec.places] for value in values]).batch
        marks = evaluate([spec.expression], batch, self._context)[0]
        reached = np.maximum.accumulate(_millis(marks))
        if spec.per_record:
            before = np.concatenate(([self._reached], reached[:-1]))
            for place in np.flatnonzero(reached > np.maximum(before, self._reached)).tolist():
                self._reached = int(reached[place])
                yield place + 1, self._reached
        else:
            self._reached = max(self._reached, int(reached[-1]))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the maximum so far."""
        if self._reached > MIN_TIMESTAMP:
            output.emit_watermark(self._reached)


class SourceWatermarks(TableOperator):
    """Passes on the rows of a source with watermarks of its own, and refuses rows without a time."""

    def __init__(self, time: int) -> None:
        self._time = time

    def block(self, block: TableBlock) -> None:
        """Check a block."""
        checked_rowtime(block, self._time)
        self.emit(block)


# ---- behind the source


class WatermarkAssigner(TableOperator):
    """Emits the running maximum of an expression as watermark, and drops those that come from before it.

    ``per_record``: after every record. Otherwise behind the row with which it has risen by more than ``interval`` ms, and
    every ``interval`` ms of processing time if it has risen. A block is cut only where a row before the next watermark is late by
    this one; elsewhere the last watermark follows the block. ``touches``: rows right behind a watermark may touch a session that
    it closes. So that this depends on the rows alone, and not on where blocks end, a watermark within the interval is 1 ms less
    then. ``cuts``: every watermark is right behind its row. ``idle`` (ms): so long without a record, the source counts as idle;
    0: never.
    """

    def __init__(
        self,
        time: int,
        expression: Node,
        per_record: bool,
        interval: int,
        idle: int,
        parameters: dict[str, Any],
        touches: bool = True,
        cuts: bool = False,
    ) -> None:
        self._time, self._expression, self._parameters, self._touches = time, expression, parameters, touches
        self._cuts = cuts
        self._per_record, self._interval, self._idle_after = per_record, max(interval, 0), idle
        self._less = int(touches and not per_record and interval > 0)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._reached = int(MIN_TIMESTAMP)
        #: the last watermark, and from where the interval to the next one counts
        self._emitted = self._since = int(MIN_TIMESTAMP)
        self._due: int | None = None
        self._seen = 0
        self._is_idle = False
        #: the watermark that is due behind the block
        self._behind: int | None = None

    def open(self) -> None:
        """Start the clock."""
        self._computed = Expressions([self._expression], self, self._parameters)
        now = self.context.processing_time()
        self._seen = now
        if not self._per_record and self._interval > 0:
            self._due = now + self._interval
        elif self._idle_after:
            self._due = now + self._idle_after

    def block(self, block: TableBlock) -> None:
        """Pass a block on, and emit its watermarks."""
        times = checked_rowtime(block, self._time)
        self._seen = self.context.processing_time()
        if self._is_idle:
            self._is_idle = False
            self.output.idle(False)
        marks = self._computed.arrays(block.batch)[0]
        if not len(block):
            return
        reached = np.maximum(np.maximum.accumulate(_millis(marks)), self._reached)
        if self._per_record:
            before = np.concatenate(([self._reached], reached[:-1]))
            emissions = (np.flatnonzero(reached > before) + 1).tolist()
        else:
            emissions = self._emissions(reached, times)
        start = 0
        for end in emissions:
            self.emit(block[start:end])
            start = end
            self._advance(int(reached[end - 1]), self._less)
        self.emit(block[start:])
        if self._behind is not None:
            self._advance(self._behind, self._less)
        self._reached = int(reached[-1])

    def _emissions(self, reached: Any, times: pa.Array) -> list[int]:
        """Return behind which rows a watermark is due that later rows of the block are not ahead of."""
        marks, at, emitted = reached.tolist(), 0, max(self._since, 0)
        due = []
        while (at := bisect_right(marks, emitted + self._interval, at)) < len(marks):
            emitted = marks[at]
            at += 1
            due.append(at)
        self._behind = emitted if due else None
        ends = due[:-1] if due and due[-1] == len(marks) else due
        if not ends or self._cuts:
            return ends
        # The lowest time between an emission and the next.
        lowest = np.minimum.reduceat(millis_array(times), ends).tolist()
        ahead = self._touches - self._less
        return [end for end, low in zip(ends, lowest, strict=True) if low <= marks[end - 1] + ahead]

    def _advance(self, reached: int, less: int = 0) -> None:
        self._since = max(self._since, reached)
        if reached - less > self._emitted:
            self._emitted = self.current_watermark = reached - less
            self.output.watermark(self._emitted)

    def watermark(self, watermark: int) -> None:
        """Take the end of event time only."""
        if watermark == MAX_WATERMARK:
            self.current_watermark = watermark
            self.output.watermark(watermark)

    def idle(self, idle: bool) -> None:
        """Ignore the marker: the operator derives idleness from the records."""

    def next_tick(self) -> int | None:
        """Return the time of the next look."""
        return self._due

    def tick(self, now: int) -> None:
        """Emit the watermark."""
        if not self._per_record:
            self._advance(self._reached)
        if self._idle_after and not self._is_idle and now - self._seen >= self._idle_after:
            self._is_idle = True
            self.output.idle(True)
        period = self._interval if not self._per_record and self._interval > 0 else self._idle_after
        self._due = now + period

    def pause(self) -> None:
        """A micro-batch has come to its end."""
        self._advance(self._reached)
