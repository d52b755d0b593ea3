"""Top-N and its like: the rows at some positions of each partition, kept up to date; and rows in the order of event time.

State per partition: the rows in their order. Of an insert-only input no more than the last position are kept; a row that does not
get in can never come up. What is taken back may let a later row in, so all of them are kept then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import eq
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.keyed.groups import running_most
from funken.operators.base import OperatorContext, Output
from funken.table.logical import SortKey
from funken.table.runtime.block import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, BlockSchema, TableBlock
from funken.table.runtime.exchange import hashable
from funken.table.runtime.kept_rows import KeepsRows
from funken.table.runtime.keyed_blocks import KeyedRows, places_of, typed_sort_key
from funken.table.runtime.operator import KeyedTableOperator, is_accumulate

Tuple = tuple[Any, ...]
_NANOS = 1_000_000
_AT_ONCE = 1 << 14
_FEW = 32
"""Blocks of fewer rows are handled row by row."""
_CACHED = 100_000
"""The sort keys of about so many partitions are kept."""
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_ORDERED = _WHOLE | {"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "CHAR", "VARCHAR"}
"""Types whose values Arrow orders as ``sort_key`` does."""
_MOST = (1 << 63) - 1
_NOTHING = _MOST
"""The number of no row: the place was empty."""


class _Partition:
    """The rows of a partition, their sort keys, and what ``_Moves`` knows them by, in order; ``ties``: keys may be equal."""

    __slots__ = ("end", "keys", "numbers", "rows", "ties")

    def __init__(self, rows: list[Tuple], keys: list[Any], end: int | None, numbers: Sequence[int] = ()) -> None:
        self.rows, self.keys, self.end, self.numbers = rows, keys, end, list(numbers)
        self.ties = any(map(eq, keys, keys[1:]))


class _Moves:
    """The changes of a block in partitions that show positions: rows by their number in the block, or among those from before it.

    The numbers of these are negative. A row that moves through many positions is an int each time, and made columns at the end.
    """

    def __init__(self, start: int, before: bool) -> None:
        self._first, self._before = start - 1, before
        self.stored: list[Tuple] = []
        #: of each change the row that came to a place, and the one that went
        self._came: list[int] = []
        self._went: list[int] = []
        self._places: list[int] = []
        self._all_places: list[int] = []

    def load(self, rows: list[Tuple]) -> Sequence[int]:
        """Return the numbers of rows from before the block."""
        first = len(self.stored)
        self.stored += rows
        return range(-first - 1, -first - 1 - len(rows), -1)

    def add(self, part: _Partition, place: int, row: Tuple, key: Any, number: int) -> None:
        """Let a row come in at a place, which moves those behind it by one; the last may leave."""
        rows, keys, numbers, end = part.rows, part.keys, part.numbers, part.end
        if place and keys[place - 1] == key:
            part.ties = True
        rows.insert(place, row)
        keys.insert(place, key)
        numbers.insert(place, number)
        assert end is not None
        size, first = len(rows), place if place >= self._first else self._first
        stop = size if size <= end else end
        if first < stop:
            went = numbers[first + 1 : stop + 1]
            if size <= end:
                went.append(_NOTHING)
            if part.ties:  # where equal rows are, nothing changes
                at = [each for each in range(first, stop) if each + 1 == size or rows[each] != rows[each + 1]]
                self._came += [numbers[each] for each in at]
                self._went += [went[each - first] for each in at]
                self._places += [each + 1 for each in at]
            else:
                self._came += numbers[first:stop]
                self._went += went
                if len(self._all_places) < stop:
                    self._all_places = list(range(1, 2 * stop + 1))
                self._places += self._all_places[first:stop]
        if size > end:
            del rows[end:], keys[end:], numbers[end:]

    def changes(self, batch: pa.RecordBatch, schema: BlockSchema, output: BlockSchema) -> Iterator[TableBlock]:
        """Yield the changes, with the rows of the block."""
        every = pa.concat_batches([schema.batch(self.stored), batch]) if self.stored else batch
        for begin in range(0, len(self._came), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            came, went, places = (np.array(of[part], np.int64) for of in (self._came, self._went, self._places))
            fresh = went == _NOTHING
            wanted = np.stack((~fresh & self._before, np.ones(len(came), np.bool_)), 1).ravel()
            numbers = np.stack((went, came), 1).ravel()[wanted]
            at = pa.array(np.where(numbers < 0, -numbers - 1, numbers + len(self.stored)))
            shown = pa.array(np.repeat(places, 2)[wanted]).cast(output.arrow.field(len(schema)).type)
            made = pa.RecordBatch.from_arrays([*every.take(at).columns, shown], schema=output.arrow)
            yield TableBlock(made, _kinds_of(fresh, wanted))


def _kinds_of(fresh: Any, wanted: Any) -> Any:
    """Return the kinds of rows that came, each behind the one whose place it takes, of those that are wanted.

    ``fresh``: it takes the place of none.
    """
    after = np.where(fresh, INSERT, UPDATE_AFTER)
    marks = np.stack((np.full(len(fresh), UPDATE_BEFORE), after), 1).ravel()[wanted].astype(np.int8)
    return marks if marks.any() else None


class Rank(KeepsRows):
    """The rows of the positions ``start`` to ``end`` of each partition, as a changelog; with ``number``, and the position."""

    def __init__(
        self,
        partition: Sequence[int],
        order: Sequence[SortKey],
        start: int,
        end: int | None,
        number: bool,
        strategy: str,
        update_before: bool,
        end_column: int | None = None,
        unique_key: Sequence[int] = (),
        ttl: int = 0,
    ) -> None:
        self._columns, self._order = partition, order
        self._start, self._end, self._end_column = start, end, end_column
        self._number, self._strategy, self._before = number, strategy, update_before
        self._unique, self._ttl = tuple(unique_key), ttl

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Keep the best rows in columns, where they are all there is."""
        super().setup(context, output)
        bounded = self._strategy == "append" and self._end is not None and self._end_column is None
        roots = [self.inputs[0].types[key.index].root for key in self._order]
        self._top1 = self._strategy != "retract" and (self._start, self._end) == (1, 1)
        self._sifts = bounded and bool(roots) and roots[0] in _WHOLE and not self._ttl
        self._bests = bounded and self._top1 and bool(roots) and _ORDERED.issuperset(roots) and not self._ttl
        if self._bests:
            self.keep_rows("rows", self._columns, lambda row, _: ([row], self._end), lambda stored: (stored[0][0], 0))

    def open(self) -> None:
        """Open the state."""
        self._state = self.open_rows() if self._bests else self.value_state("rows", self._ttl)
        self._key_of = typed_sort_key(self._order, self.inputs[0].types)
        self._unknown = self.context.metrics.counter("numRetractionsOfUnknownRows")
        #: the sort keys of rows as they were stored last, so that they need not be made again
        self._sort_keys: dict[Any, tuple[list[Tuple], list[Any]]] = {}
        self._has_offset = self._start > 1 and not self._number
        #: whether rows only come, and are shown with their positions
        self._shifts = self._strategy == "append" and self._number and not self._top1
        self._shifts = self._shifts and (self._end is not None or self._end_column is not None)
        self._moves: _Moves | None = None

    def block(self, block: TableBlock) -> None:
        """Handle the rows of a block; a partition is read and written once."""
        if block.kinds is None and len(block) >= _FEW:
            if self._bests:
                self._best_rows(block)
                return
            if self._sifts:
                block = self._sifted(block)
        known: dict[Any, _Partition] = {}
        self._moves = _Moves(self._start, self._before) if self._shifts else None
        for number, (key, row, kind) in enumerate(self.keyed_rows(block, self._columns)):
            part = known.get(key)
            if part is None:
                self.store.current_key = key
                part = known[key] = self._load(row)
            if self._moves is not None:
                self._shift(part, row, number, self._moves)
            else:
                self._one(part, row, kind)
        if self._moves is not None:
            for changes in self._moves.changes(block.batch, self.inputs[0], self.schema):
                self.emit(changes)
        keeps = not self.in_files
        if len(self._sort_keys) > _CACHED:
            self._sort_keys.clear()
        for key, part in known.items():
            self.store.current_key = key
            if part.rows or self._end_column is not None:
                self._state.update((part.rows, part.end))
                if keeps:
                    self._sort_keys[key] = part.rows, part.keys
            else:
                self._state.clear()

    def _sifted(self, block: TableBlock) -> TableBlock:
        """Leave out the rows that come behind the last position of their partition, by the first column of the order."""
        assert self._end is not None
        rows, order = KeyedRows(block.batch, self._columns), self._order[0]
        limits: list[int] = []
        none = _MOST if order.ascending else -_MOST - 1
        for stored in map(self._state.table.get, rows.keys):
            kept = () if stored is None else stored[0]
            limit = kept[self._end - 1][order.index] if len(kept) >= self._end else None
            limits.append(none if limit is None else limit)
        column = block.batch.column(order.index)
        values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        of_rows = np.array(limits, np.int64).take(rows.groups.of_records())
        behind = values > of_rows if order.ascending else values < of_rows
        if column.null_count:
            behind &= column.is_valid().to_numpy(zero_copy_only=False)
        return block.take(np.flatnonzero(~behind)) if behind.any() else block

    def _best_rows(self, block: TableBlock) -> None:
        """Emit, of each partition, each row that comes before all that were there; of equal ones the first stays."""
        self.context.next_time()
        rows = KeyedRows(block.batch, self._columns)
        kept = self.kept
        slots, groups = kept.slots(rows), rows.groups
        bests = kept.places(slots)
        known = np.flatnonzero(bests >= 0)
        bests, count = bests.take(known), len(known)
        there = kept.columns(bests, {key.index for key in self._order})
        columns = [pa.concat_arrays([there[key.index], block.batch.column(key.index)]) for key in self._order]
        places = places_of(columns, self._order)
        # the greater, the better; 0: there is none
        values = (len(places) - places[count:]).take(groups.order)
        initial = np.zeros(len(groups.slots), np.int64)
        initial[known] = len(places) - places[:count]
        lifted = values.copy()
        lifted[groups.begins] = np.maximum(lifted[groups.begins], initial)
        most = running_most(lifted, groups, 0, len(places))
        assert most is not None
        before = np.concatenate((most[:1], most[:-1]))
        before[groups.begins] = initial
        wins = np.flatnonzero(values > before)
        if not len(wins):
            return
        of_wins = np.repeat(np.arange(len(groups.slots)), groups.counts).take(wins)
        # of each row that wins, the one whose place it takes: among the bests, then those of the block; -1: none
        of_groups = np.full(len(groups.slots), -1)
        of_groups[known] = np.arange(count)
        at = groups.order.take(wins)
        replaced = np.concatenate(([-1], at[:-1] + count))
        firsts = np.append(True, of_wins[1:] != of_wins[:-1])
        replaced[firsts] = of_groups.take(of_wins[firsts])
        in_order = np.argsort(at)
        self._emit_bests(block, bests, at.take(in_order), replaced.take(in_order))
        lasts = np.flatnonzero(np.append(firsts[1:], True))
        kept.put(slots.take(of_wins.take(lasts)), block.batch.take(pa.array(at.take(lasts))))

    def _emit_bests(self, block: TableBlock, bests: Any, came: Any, replaced: Any) -> None:
        """Emit rows of a block that take the places of others: of the bests, then of the block (-1: of none)."""
        count, batch, of_bests = len(bests), block.batch, np.flatnonzero((replaced >= 0) & (replaced < len(bests)))
        there = replaced >= 0
        if self._before and len(of_bests):  # only these are read
            some = self.kept.batch(bests.take(replaced.take(of_bests)))
            replaced = np.where(replaced >= count, replaced - count + len(of_bests), replaced)
            replaced[of_bests] = np.arange(len(of_bests))
            batch, came = pa.concat_batches([some, batch]), came + len(of_bests)
        else:
            replaced = replaced - count
        wanted = np.stack((there & self._before, np.ones(len(came), np.bool_)), 1).ravel()
        rows = np.stack((replaced, came), 1).ravel()[wanted]
        columns = batch.take(pa.array(rows)).columns
        if self._number:
            columns.append(pa.array(np.ones(len(rows), np.int64)).cast(self.schema.arrow.field(len(columns)).type))
        made = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
        self.emit(TableBlock(made, _kinds_of(~there, wanted)))

    def _load(self, row: Tuple) -> _Partition:
        stored = self._state.value()
        if stored is None:
            end = self._end if self._end_column is None else row[self._end_column]
            return _Partition([], [], end)
        rows = list(stored[0])
        known = self._sort_keys.pop(self.store.current_key, None)
        keys = known[1] if known is not None and known[0] is stored[0] else list(map(self._key_of, rows))
        return _Partition(rows, keys, stored[1], () if self._moves is None else self._moves.load(rows))

    def _shift(self, part: _Partition, row: Tuple, number: int, moves: _Moves) -> None:
        key = self._key_of(row)
        place = bisect_right(part.keys, key)
        if place < part.end:  # type: ignore[operator]
            moves.add(part, place, row, key, number)

    def _one(self, part: _Partition, row: Tuple, kind: int) -> None:
        if not is_accumulate(kind):
            self._remove(part, row)
        elif self._top1:
            self._best(part, row)
        elif self._strategy == "update":
            self._replace(part, row)
        else:
            self._add(part, row)

    # ---- changes

    def _best(self, part: _Partition, row: Tuple) -> None:
        key = self._key_of(row)
        if not part.rows:
            part.rows, part.keys = [row], [key]
            self._emit(row, 1, INSERT)
            return
        old = part.rows[0]
        same = self._strategy == "update" and self._same_key(old, row)
        if key < part.keys[0] or (same and old != row):
            part.rows, part.keys = [row], [key]
            if self._before:
                self._emit(old, 1, UPDATE_BEFORE)
            self._emit(row, 1, UPDATE_AFTER)

    def _same_key(self, one: Tuple, other: Tuple) -> bool:
        return all(hashable(one[place]) == hashable(other[place]) for place in self._unique)

    def _add(self, part: _Partition, row: Tuple) -> None:
        key = self._key_of(row)
        place = bisect_right(part.keys, key)
        limited = self._strategy != "retract" and part.end is not None
        if limited and place >= part.end:  # type: ignore[operator]
            return
        old = self._visible(part)
        part.rows.insert(place, row)
        part.keys.insert(place, key)
        self._emit_changes(old, self._visible(part), part)
        if limited:
            del part.rows[part.end :], part.keys[part.end :]

    def _replace(self, part: _Partition, row: Tuple) -> None:
        place = next((i for i, each in enumerate(part.rows) if self._same_key(each, row)), None)
        if place is None:
            self._add(part, row)
            return
        old, before = self._visible(part), part.rows[place]
        del part.rows[place], part.keys[place]
        key = self._key_of(row)
        at = bisect_right(part.keys, key)
        part.rows.insert(at, row)
        part.keys.insert(at, key)
        if self._number or self._has_offset:
            self._emit_changes(old, self._visible(part), part)
        elif before != row:
            if self._before:
                self._emit(before, 0, UPDATE_BEFORE)
            self._emit(row, 0, UPDATE_AFTER)

    def _remove(self, part: _Partition, row: Tuple) -> None:
        key = self._key_of(row)
        place = bisect_left(part.keys, key)
        wanted = hashable(row)
        while place < len(part.keys) and part.keys[place] == key and hashable(part.rows[place]) != wanted:
            place += 1
        if place == len(part.keys) or part.keys[place] != key:
            self._unknown.inc()
            return
        old = self._visible(part)
        del part.rows[place], part.keys[place]
        self._emit_changes(old, self._visible(part), part)

    def _visible(self, part: _Partition) -> list[Tuple]:
        return part.rows[self._start - 1 : part.end]

    def _emit_changes(self, old: list[Tuple], new: list[Tuple], part: _Partition) -> None:
        if self._has_offset:
            self._emit_window(old, new)
            return
        if not self._number:
            self._emit_difference(old, new)
            return
        for place in range(max(len(old), len(new))):
            before = old[place] if place < len(old) else None
            after = new[place] if place < len(new) else None
            number = self._start + place
            if before is None:
                assert after is not None
                self._emit(after, number, INSERT)
            elif after is None:
                self._emit(before, number, DELETE)
            elif before != after:
                if self._before:
                    self._emit(before, number, UPDATE_BEFORE)
                self._emit(after, number, UPDATE_AFTER)

    def _emit_window(self, old: list[Tuple], new: list[Tuple]) -> None:
        """Emit changes of positions that are not shown: all retractions first, so that no row is at two of them meanwhile.

        A join by the key of these rows takes two for one. Without rows before updates, those that leave are deleted.
        """
        if self._before:
            places = [place for place in range(min(len(old), len(new))) if old[place] != new[place]]
            left = [(old[place], UPDATE_BEFORE) for place in places] + [(row, DELETE) for row in old[len(new) :]]
            came = [(new[place], UPDATE_AFTER) for place in places] + [(row, INSERT) for row in new[len(old) :]]
        else:
            before, after = set(map(id, old)), set(map(id, new))
            left = [(row, DELETE) for row in old if id(row) not in after]
            came = [(row, INSERT) for row in new if id(row) not in before]
        for row, kind in (*left, *came):
            self._emit(row, 0, kind)

    def _emit_difference(self, old: list[Tuple], new: list[Tuple]) -> None:
        """Emit the row that leaves and the row that comes, of rows whose positions do not matter."""
        first = next((i for i in range(min(len(old), len(new))) if old[i] is not new[i]), min(len(old), len(new)))
        if len(new) > len(old):
            self._emit(new[first], 0, INSERT)
        elif len(new) < len(old):
            self._emit(old[first], 0, DELETE)
        elif first < len(old):
            came = first + 1 == len(old) or new[first + 1] is old[first]
            self._emit(old[-1] if came else old[first], 0, DELETE)
            self._emit(new[first] if came else new[-1], 0, INSERT)

    def _emit(self, row: Tuple, number: int, kind: int) -> None:
        self.collect((*row, number) if self._number else row, kind)


class TemporalSort(KeyedTableOperator):
    """Rows in the order of time, then of further keys, then of arrival; one that is not later than the last emitted is late."""

    def __init__(self, order: Sequence[SortKey], rowtime: bool) -> None:
        self._order, self._rowtime = order, rowtime

    def open(self) -> None:
        """Open the state."""
        self._waiting = self.map_state("waiting")
        self._last = self.value_state("last")
        self._key_of = typed_sort_key(self._order[1:], self.inputs[0].types)
        self._late = self.context.metrics.counter("numLateRecordsDropped")

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block until their time."""
        self.store.current_key = ()
        self.context.next_time()
        rows = self.inputs[0].tuples(block.batch)
        last = self._last.value()
        found: dict[int, list[Tuple]] = {}
        for row in rows:
            time = row[self._order[0].index] // _NANOS if self._rowtime else self.now()
            if self._rowtime and last is not None and time <= last:
                self._late.inc()
                continue
            found.setdefault(time, []).append(row)
        for time, some in found.items():
            self._waiting.put(time, [*(self._waiting.get(time) or ()), *some])
            if self._rowtime:
                self.timers.register_event_time_timer((), None, time)
            else:
                self.timers.register_processing_time_timer((), None, time + 1)

    def on_event_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a time."""
        rows: list[Tuple] = list(self._waiting.get(timestamp) or ())
        rows.sort(key=self._key_of)
        self.collect_all(rows)
        self._waiting.remove(timestamp)
        self._last.update(timestamp)

    def on_processing_time(self, timestamp: int, key: Tuple, namespace: Any) -> None:
        """Emit the rows of a time."""
        self.on_event_time(timestamp - 1, key, namespace)

    def before_end(self) -> None:
        """Emit the rows whose processing time has not passed when the input ends."""
        self.store.current_key = ()
        for time in sorted(self._waiting.keys()):
            self.on_event_time(time, (), None)
