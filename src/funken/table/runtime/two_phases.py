"""GROUP BY in two phases: the rows of a mini-batch come to accumulators where they are, and these travel, not the rows.

A local aggregate keeps nothing over a barrier; the state is that of the global one, and the same as that of an aggregate in one
phase. Where rows are taken back, a local accumulator may have less than nothing of a value, and of rows: what is missing is in
the state of the group.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import OperatorContext, Output
from funken.table.logical import AggregateCall
from funken.table.runtime.aggregates import AggregateCalls, PartialCalls, RowRuns
from funken.table.runtime.block import INSERT, UPDATE_AFTER, BlockSchema, TableBlock
from funken.table.runtime.exchange import key_tuples
from funken.table.runtime.group import Bundle, GroupAggregate
from funken.table.runtime.keyed_blocks import KeyedRows
from funken.table.runtime.operator import TableOperator, is_accumulate

Tuple = tuple[Any, ...]
_MANY = 256
"""Mini-batches of fewer rows are added up row by row."""


class MergedCalls(AggregateCalls):
    """The calls of an operator, whose accumulators may lack values of others."""

    def merge(self, accumulators: list[Any], others: list[Any]) -> None:
        """Add the rows of other accumulators, which are not used any more."""
        for place, call in enumerate(self._calls):
            if not call.distinct:
                accumulators[place] = call.function.merge(accumulators[place], others[place])
                continue
            entry = accumulators[place]
            counts = entry[0]
            for value, more in others[place][0].items():
                before = counts.get(value, 0)
                after = before + more
                if after:
                    counts[value] = after
                else:
                    counts.pop(value, None)
                if before <= 0 < after:
                    entry[1] = call.function.accumulate(entry[1], *value)
                elif after <= 0 < before:
                    entry[1] = call.function.retract(entry[1], *value)


class LocalGroupAggregate(TableOperator):
    """The rows of each group of a mini-batch as one row: its key, and the number of rows with their accumulators.

    ``bundle`` says when that is; without one it is with each block, for which the operator before has gathered rows. Where the
    functions allow it, a block is added at once (``MergedCalls``).
    """

    def __init__(
        self, keys: Sequence[int], calls: Sequence[AggregateCall], retracts: bool, bundle: Bundle | None = None
    ) -> None:
        self._keys, self._calls, self._retracts, self._bundle = keys, calls, retracts, bundle

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._groups: dict[Any, list[Any]] = {}
        self._partials: PartialCalls | None = None
        self._count = 0
        self._due: int | None = None
        context.before_snapshot.append(self.finish_bundle)

    def open(self) -> None:
        """Open the functions."""
        schema = self.inputs[0]
        self._aggregates = MergedCalls(self._calls, schema, self.context, self._retracts)
        if (
            self._bundle is not None
            and self._bundle.size >= _MANY
            and PartialCalls.serve(self._calls, schema, self._retracts)
        ):
            self._partials = PartialCalls(self._calls, schema)
            self._runs = RowRuns(self._merged)
            self._key_schema = BlockSchema(
                [schema.names[place] for place in self._keys], [schema.types[place] for place in self._keys]
            )

    def block(self, block: TableBlock) -> None:
        """Add the rows of a block to their groups."""
        self.context.next_time()
        if self._partials is not None:
            self._whole(block, self._partials)
        else:
            self._one_by_one(block)
        # the end of a block may be the begin of a mini-batch
        if self._bundle is not None and self._bundle.latency and self._count and self._due is None:
            self._due = self.context.processing_time() + self._bundle.latency

    def _whole(self, block: TableBlock, partials: PartialCalls) -> None:
        """Add a block at once, up to the end of the mini-batch."""
        assert self._bundle is not None
        begin = 0
        while begin < len(block):
            end = min(len(block), begin + self._bundle.size - self._count)
            batch = block.batch.slice(begin, end - begin)
            signs = None
            if block.kinds is not None:
                kinds = block.kinds[begin:end]
                signs = np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), 1, -1)
            rows = KeyedRows(batch, self._keys)
            first = pa.array(rows.firsts)
            keys = [batch.column(place).take(first) for place in self._keys]
            self._runs.add(_columns([*keys, *partials.of_rows(batch, rows.groups, signs)]))
            self._count += end - begin
            begin = end
            if self._count >= self._bundle.size:
                self.finish_bundle()

    def _merged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return partial accumulators, one row per key."""
        assert self._partials is not None
        width = len(self._keys)
        rows = KeyedRows(batch, range(width))
        first = pa.array(rows.firsts)
        keys = [batch.column(place).take(first) for place in range(width)]
        return _columns([*keys, *self._partials.together(batch.columns[width:], rows.groups)])

    def _one_by_one(self, block: TableBlock) -> None:
        size = 0 if self._bundle is None else self._bundle.size
        aggregates, groups = self._aggregates, self._groups
        rows = self.inputs[0].tuples(block.batch)
        for key, row, kind in zip(key_tuples(block.batch, self._keys), rows, block.kind_list(), strict=True):
            group = groups.get(key)
            if group is None:
                group = groups[key] = [tuple(row[place] for place in self._keys), 0, aggregates.create()]
            if is_accumulate(kind):
                group[1] += 1
                aggregates.accumulate(group[2], row)
            else:
                group[1] -= 1
                aggregates.retract(group[2], row)
            self._count += 1
            if 0 < size <= self._count:
                self.finish_bundle()
                groups = self._groups
        if self._bundle is None:
            self.finish_bundle()

    def finish_bundle(self) -> None:
        """Send on the accumulators of the rows."""
        groups, self._groups, self._count, self._due = self._groups, {}, 0, None
        for key, count, accumulators in groups.values():
            self.collect((*key, pickle.dumps((count, accumulators), 5)))
        if self._partials is not None and len(self._runs):
            batch, width = self._runs.whole(), len(self._keys)
            self._runs = RowRuns(self._merged)
            keys: Any = [()] * batch.num_rows
            if width:
                arrow = self._key_schema.arrow
                keys = self._key_schema.tuples(pa.RecordBatch.from_arrays(batch.columns[:width], schema=arrow))
            for key, stored in zip(keys, self._partials.stored(batch.columns[width:]), strict=True):
                self.collect((*key, pickle.dumps(stored, 5)))
        self.flush()

    def watermark(self, watermark: int) -> None:
        """End the bundle, then pass the watermark on."""
        self.finish_bundle()
        self.output.watermark(watermark)

    def next_tick(self) -> int | None:
        """Return the time at which the bundle is due."""
        return self._due

    def tick(self, now: int) -> None:
        """End the bundle."""
        if self._due is not None and self._due <= now:
            self.finish_bundle()

    def pause(self) -> None:
        """A micro-batch has come to its end."""
        self.finish_bundle()

    def close(self) -> None:
        """Close the functions."""
        if hasattr(self, "_aggregates"):
            self._aggregates.close()


def _columns(arrays: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, [str(place) for place in range(len(arrays))])


class GlobalGroupAggregate(GroupAggregate):
    """Results per key, as a changelog, of accumulators. ``source`` is the schema of the rows that these are of."""

    def __init__(self, source: BlockSchema, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._source = source

    def open(self) -> None:
        """Open the functions, which are those of the rows, and the state."""
        self._aggregates = MergedCalls(self._calls, self._source, self.context, self._retracts)
        self._state = self.value_state("acc", self._ttl)
        self._ignored = self.context.metrics.counter("numRetractionsOfUnknownRows")
        self._any, self._running = False, None

    def block(self, block: TableBlock) -> None:
        """Gather the accumulators of a local mini-batch; it is not torn apart."""
        assert self.bundle is not None
        if self._count and self._count + len(block) > self.bundle.size:
            self.finish_bundle()
        if self._due is None and self.bundle.latency:
            self._due = self.now() + self.bundle.latency
        for key, row, kind in self.keyed_rows(block, self._keys):
            self._gathered.setdefault(key, []).append((row, kind))
        self._count += len(block)
        if 0 < self.bundle.size <= self._count:
            self.finish_bundle()

    def many(self, key: Tuple, rows: list[tuple[Tuple, int]]) -> None:
        """Change a group by accumulators of its rows, and emit the change."""
        group = self._load(key)
        first = group[1] is None
        count, accumulators = pickle.loads(rows[0][0][-1])
        for row, _ in rows[1:]:
            more, others = pickle.loads(row[-1])
            count += more
            self._aggregates.merge(accumulators, others)
        if first:
            if self._retracts and count <= 0:
                if count:
                    self._ignored.inc(-count)
                return
            group[0], group[1] = count, accumulators
        else:
            group[0] += count
            self._aggregates.merge(group[1], accumulators)
        self._emit(group, rows[0][0][:-1], first)
        self._save(key, group)


class RowtimeMarks(TableOperator):
    """Holds watermarks back to multiples of an interval, so that fewer mini-batches end."""

    def __init__(self, interval: int) -> None:
        self._interval, self._sent = interval, MIN_TIMESTAMP

    def block(self, block: TableBlock) -> None:
        """Pass rows on."""
        self.emit(block)

    def watermark(self, watermark: int) -> None:
        """Pass the watermark of the last whole interval on."""
        if watermark < MAX_WATERMARK:
            watermark = (watermark + 1) // self._interval * self._interval - 1
        if watermark > self._sent:
            self._sent = watermark
            self.output.watermark(watermark)
