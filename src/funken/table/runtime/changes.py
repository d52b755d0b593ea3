"""Operators that keep the last row, or the rows, of a key: ChangelogNormalize, Deduplicate, the materializer before a sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import running_most
from funken.errors import InvalidProgram
from funken.expr.ir import Node
from funken.ids import MAX_WATERMARK
from funken.operators.base import OperatorContext, Output
from funken.table.runtime.block import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, TableBlock
from funken.table.runtime.exchange import hashable
from funken.table.runtime.group import Bundle, Bundled
from funken.table.runtime.kept_rows import KeepsRows
from funken.table.runtime.keyed_blocks import KeyedRows
from funken.table.runtime.operator import KeyedTableOperator, checked_rowtime, is_accumulate, millis_array, rowtimes
from funken.table.runtime.stateless import Expressions

Tuple = tuple[Any, ...]
_FEW = 32
"""Blocks of fewer rows are handled row by row."""


class ChangelogNormalize(Bundled):
    """Makes a stream of upserts one with -U and whole deletes, and drops void changes."""

    def __init__(
        self,
        keys: Sequence[int],
        update_before: bool,
        condition: Node | None = None,
        ttl: int = 0,
        bundle: Bundle | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self._keys, self._before, self._condition, self._ttl = keys, update_before, condition, ttl
        self.bundle, self._parameters = bundle, parameters or {}

    def open(self) -> None:
        """Open the state."""
        self._state = self.value_state("last", self._ttl)
        self._kept = None
        if self._condition is not None:
            self._kept = Expressions([self._condition], self, self._parameters)

    def block(self, block: TableBlock) -> None:
        """Handle the rows of a block. A row that the condition drops counts as the deletion of its key."""
        mask = [True] * len(block) if self._kept is None else self._kept.mask(block.batch).to_pylist()
        for (key, row, kind), passes in zip(self.keyed_rows(block, self._keys), mask, strict=True):
            if kind == UPDATE_BEFORE:
                continue
            change = kind if passes or kind == DELETE else DELETE
            if self.bundle is not None:
                self.gather(key, row, change)
            else:
                self.store.current_key = key
                self._one(row, change)

    def _one(self, row: Tuple, kind: int) -> None:
        last = self._state.value()
        if kind == DELETE:
            if last is not None:
                self.collect(last, DELETE)
                self._state.clear()
            return
        if last is None:
            self.collect(row, INSERT)
        elif last != row or self._ttl:
            if self._before:
                self.collect(last, UPDATE_BEFORE)
            self.collect(row, UPDATE_AFTER)
        else:
            return
        self._state.update(row)

    def many(self, key: Tuple, rows: list[tuple[Tuple, int]]) -> None:
        """Handle the last row of a key."""
        self._one(*rows[-1])


class DeduplicateByArrival(Bundled):
    """The first or the last row of a key, in the order of arrival."""

    def __init__(
        self,
        keys: Sequence[int],
        last: bool,
        insert_only: bool,
        update_before: bool,
        ttl: int = 0,
        bundle: Bundle | None = None,
    ) -> None:
        self._keys, self._last, self._insert_only = keys, last, insert_only
        self._before, self._ttl, self.bundle = update_before, ttl, bundle

    def open(self) -> None:
        """Open the state."""
        self._state = self.value_state("last" if self._last else "first", self._ttl)

    def block(self, block: TableBlock) -> None:
        """Handle the rows of a block."""
        for key, row, kind in self.keyed_rows(block, self._keys):
            if self.bundle is not None:
                self.gather(key, row, kind)
                continue
            self.store.current_key = key
            self._one(row, kind)

    def many(self, key: Tuple, rows: list[tuple[Tuple, int]]) -> None:
        """Handle the first or last row of a key."""
        self._one(*rows[-1 if self._last else 0])

    def _one(self, row: Tuple, kind: int) -> None:
        before = self._state.value()
        if not self._last:
            if before is None:
                self._state.update(True)
                self.collect(row, INSERT)
        elif kind in (INSERT, UPDATE_AFTER):
            self._state.update(row)
            self._replace(before, row)
        elif kind == DELETE and before is not None:
            self._state.clear()
            self.collect(before, DELETE)

    def _replace(self, before: Tuple | None, row: Tuple) -> None:
        if before is None:
            self.collect(row, INSERT)
        elif before != row or self._ttl:
            if self._before:
                self.collect(before, UPDATE_BEFORE)
            self.collect(row, UPDATE_AFTER)


class DeduplicateByTime(KeepsRows):
    """The first or the last row of a key in event time.

    The first is emitted when the watermark has passed it, since an earlier one may come; it is never replaced. The last is
    emitted at once, and again whenever a row comes that is not earlier.
    """

    def __init__(
        self, keys: Sequence[int], time: int, last: bool, insert_only: bool, update_before: bool, ttl: int = 0
    ) -> None:
        self._keys, self._time, self._last, self._insert_only = keys, time, last, insert_only
        self._before, self._ttl = update_before, ttl

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Keep the last rows in columns."""
        super().setup(context, output)
        self._in_columns = self._last and not self._ttl
        if self._in_columns:
            self.keep_rows("row", self._keys, lambda row, time: (time, row), lambda stored: (stored[1], stored[0]))

    def open(self) -> None:
        """Open the state."""
        self._state = self.open_rows() if self._in_columns else self.value_state("row", self._ttl)
        self._late = self.context.metrics.counter("numLateRecordsDropped")

    def block(self, block: TableBlock) -> None:
        """Handle the rows of a block."""
        if self._in_columns and block.kinds is None and len(block) >= _FEW:
            self._latest_of_block(block)
            return
        times = rowtimes(block, self._time)
        for (key, row, kind), time in zip(self.keyed_rows(block, self._keys), times, strict=True):
            if not is_accumulate(kind):
                continue
            self.store.current_key = key
            if self._last:
                self._latest(row, time)
            elif self._insert_only:
                self._earliest(key, row, time)
            else:
                self._earliest_so_far(row, time)

    def _latest_of_block(self, block: TableBlock) -> None:
        """Emit each row that is not earlier than the last of its key, and the row that it replaces."""
        self.context.next_time()
        times = millis_array(checked_rowtime(block, self._time))
        rows = KeyedRows(block.batch, self._keys)
        kept = self.kept
        slots, groups = kept.slots(rows), rows.groups
        stored = kept.places(slots)
        there = stored >= 0
        stored = stored[there]
        low = int(times.min())
        reached = np.where(there, kept.numbers(slots), low)
        ordered = times.take(groups.order)
        ordered[groups.begins] = np.maximum(ordered[groups.begins], reached)
        low, high = int(min(low, reached.min())), int(max(times.max(), reached.max()))
        highest = running_most(ordered, groups, low, high)
        if highest is None:
            highest = np.concatenate([np.maximum.accumulate(part) for part in np.split(ordered, groups.begins[1:])])
        taken = np.flatnonzero(times.take(groups.order) >= highest)
        if not len(taken):
            return
        # a row is known by its place behind those that were kept
        of_groups = groups.spread(np.arange(len(groups.slots))).take(taken)
        places = groups.order.take(taken) + len(stored)
        first = np.ones(len(taken), np.bool_)
        first[1:] = of_groups[1:] != of_groups[:-1]
        before = np.empty(len(taken), np.int64)
        before[1:] = places[:-1]
        of_state = np.where(there, np.cumsum(there) - 1, -1)
        before[first] = of_state.take(of_groups[first])
        lasts = np.append(np.flatnonzero(first)[1:], len(taken)) - 1
        order = np.argsort(places)
        self._emit_latest(block, kept.batch(stored), places.take(order), before.take(order))
        left = block.batch.take(pa.array(places.take(lasts) - len(stored)))
        kept.put(slots.take(of_groups.take(lasts)), left, highest.take(taken).take(lasts))

    def _emit_latest(self, block: TableBlock, stored: pa.RecordBatch, places: Any, before: Any) -> None:
        replaces = before >= 0
        wanted = np.flatnonzero(np.stack((replaces & self._before, np.ones(len(places), np.bool_)), 1).ravel())
        chosen = np.stack((before, places), 1).ravel().take(wanted)
        kinds = np.stack((np.full(len(places), UPDATE_BEFORE), np.where(replaces, UPDATE_AFTER, INSERT)), 1).ravel()
        batch = block.batch
        if stored.num_rows:
            batch = pa.concat_batches([stored, batch.cast(stored.schema)])
        marks = kinds.take(wanted).astype(np.int8)
        emitted = batch.take(pa.array(chosen))
        emitted = pa.RecordBatch.from_arrays(emitted.columns, schema=self.schema.arrow)
        self.emit(TableBlock(emitted, marks if marks.any() else None))

    def _latest(self, row: Tuple, time: int) -> None:
        before = self._state.value()
        if before is not None and time < before[0]:
            return
        self._state.update((time, row))
        if before is None:
            self.collect(row, INSERT)
            return
        if self._before:
            self.collect(before[1], UPDATE_BEFORE)
        self.collect(row, UPDATE_AFTER)

    def _earliest_so_far(self, row: Tuple, time: int) -> None:
        before = self._state.value()
        if before is not None and time >= before[0]:
            return
        self._state.update((time, row))
        if before is None:
            self.collect(row, INSERT)
            return
        if self._before:
            self.collect(before[1], UPDATE_BEFORE)
        self.collect(row, UPDATE_AFTER)

    def _earliest(self, key: Tuple, row: Tuple, time: int) -> None:
        if time <= self.current_watermark:
            self._late.inc()
            return
        before = self._state.value()
        if before is None or (before[1] is not None and time < before[0]):
            if before is not None:
                self.timers.delete_event_time_timer(key, None, before[0])
            self._state.update((time, row))
            self.timers.register_event_time_timer(key, None, time)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the first row of a key, once and for all."""
        before = self._state.value()
        if before is not None and before[1] is not None:
            self.collect(before[1], INSERT)
            self._state.update((before[0], None))


class SinkMaterializer(KeyedTableOperator):
    """The rows of a primary key in the order of arrival: the sink has the last of them.

    A row is taken back by the last equal one, or by that of its upsert key (``input_key``).
    """

    def __init__(self, keys: Sequence[int], input_key: Sequence[int] = (), ttl: int = 0) -> None:
        self._keys, self._input_key, self._ttl = keys, tuple(input_key), ttl

    def open(self) -> None:
        """Open the state."""
        self._state = self.value_state("rows", self._ttl)
        self._unknown = self.context.metrics.counter("numRetractionsOfUnknownRows")

    def block(self, block: TableBlock) -> None:
        """Handle the rows of a block."""
        for key, row, kind in self.keyed_rows(block, self._keys):
            self.store.current_key = key
            rows = list(self._state.value() or ())
            if is_accumulate(kind):
                self._add(rows, row)
            else:
                self._remove(rows, row)

    def _same(self, one: Tuple, other: Tuple) -> bool:
        if not self._input_key:
            return bool(hashable(one) == hashable(other))
        return all(hashable(one[place]) == hashable(other[place]) for place in self._input_key)

    def _add(self, rows: list[Tuple], row: Tuple) -> None:
        place = len(rows)
        if self._input_key:
            place = next((i for i, each in enumerate(rows) if self._same(each, row)), place)
        if place == len(rows):
            rows.append(row)
            self.collect(row, INSERT if len(rows) == 1 else UPDATE_AFTER)
        else:
            rows[place] = row
            self.collect(row, UPDATE_AFTER)
        self._state.update(rows)

    def _remove(self, rows: list[Tuple], row: Tuple) -> None:
        place = next((i for i in reversed(range(len(rows))) if self._same(rows[i], row)), None)
        if place is None:
            self._unknown.inc()
            self.context.warn(
                "unknown retraction",
                "a row was taken back that the materializer of the sink does not have; it is ignored.",
            )
            return
        removed = rows.pop(place)
        if not rows:
            self._state.clear()
            self.collect(removed, DELETE)
            return
        self._state.update(rows)
        if place == len(rows):
            self.collect(rows[-1], UPDATE_AFTER)


class WatermarkMaterializer(KeyedTableOperator):
    """Merges the changes of each primary key at a watermark: rows of several upsert keys are a conflict.

    ``nothing``: the first stays, and the others do not count; otherwise the job fails.
    """

    def __init__(self, keys: Sequence[int], input_key: Sequence[int], nothing: bool, table: str) -> None:
        self._keys, self._input_key, self._nothing, self._table = keys, tuple(input_key), nothing, table

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._changed: dict[Any, None] = {}

    def open(self) -> None:
        """Open the state."""
        self._rows = self.value_state("rows")
        self._emitted = self.value_state("emitted")

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block until the watermark."""
        for key, row, kind in self.keyed_rows(block, self._keys):
            self.store.current_key = key
            rows = list(self._rows.value() or ())
            name = hashable([row[place] for place in self._input_key]) if self._input_key else hashable(row)
            found = next((i for i, each in enumerate(rows) if each[0] == name), None)
            if is_accumulate(kind):
                if found is None or not self._input_key:
                    rows.append((name, row))
                else:
                    rows[found] = (name, row)
            elif found is not None:
                rows.pop(found)
            self._rows.update(rows)
            self.timers.register_event_time_timer(key, None, self.current_watermark + 1)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Decide the sink's row of a key."""
        rows = list(self._rows.value() or ())
        before = self._emitted.value()
        if len(rows) > 1 and not self._nothing:
            raise InvalidProgram(
                f"Primary key constraint violation in sink table {self._table}: rows with different upsert keys map to the "
                f"primary key {key!r}. Use ON CONFLICT DO NOTHING or DO DEDUPLICATE, or make the keys the same."
            )
        now = None
        if rows:
            now = next((row for name, row in rows if before is not None and name == before[0]), None)
            now = rows[0] if now is None else next(each for each in rows if each[1] is now)
        if now is None and before is not None:
            self.collect(before[1], DELETE)
            self._emitted.clear()
        elif now is not None and (before is None or before[1] != now[1]):
            self.collect(now[1], INSERT if before is None else UPDATE_AFTER)
            self._emitted.update(now)

    def watermark_after(self, watermark: int) -> int:
        """Return the watermark as it is."""
        return watermark if watermark <= MAX_WATERMARK else MAX_WATERMARK
