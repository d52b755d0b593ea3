"""The rows of one side of a regular join in columns, found by key a block at a time.

Rows stay in the order of arrival, in few batches. Those of a key in a block are a *run*, which knows the run of the key before
it: to add a block costs a pass over it, and a key is found by going back from its last run. In snapshots rows are keyed state: of
each key a dict of its rows by name, as ``RegularJoin`` keeps them where it goes row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Groups, running_sum
from funken.columnar.keyed.logs import grown
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.table.runtime.aggregates import joined
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.exchange import hashable
from funken.table.runtime.keyed_blocks import KeyedRows, KeyNumbers

Array = Any
Tuple = tuple[Any, ...]
Entry = list[Any]
"""A row, how often it is there, with how many rows of the other side it is joined."""
ROW, COUNT, PARTNERS = range(3)
PLAIN_KEYS = frozenset(
    {
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "CHAR", "VARCHAR", "BINARY", "VARBINARY", "DATE", "TIME",
        "TIMESTAMP", "TIMESTAMP_LTZ",
    }
)  # fmt: skip
"""Types whose plain values are keys as they are."""
_FEWEST = 64
_FEW_GONE = 4096
_PARTS = 4
"""So many batches of about one size become one."""
_LARGEST = 1 << 28
"""Batches of more bytes are left as they are: the offsets of texts have 32 bits."""
_DEEP = 32
"""The runs of a key become one if a search went back through more."""
_AT_ONCE = 1024


class RowNames:
    """What distinguishes the rows of a key: a unique key, or all of the row."""

    def __init__(self, schema: BlockSchema, unique: Sequence[int] | None) -> None:
        self.unique = unique
        self._plain = unique is None and all(each.root in PLAIN_KEYS for each in schema.types)

    def __call__(self, row: Tuple) -> Any:
        """Return the name of a row."""
        if self._plain:
            return row
        return hashable(row if self.unique is None else [row[place] for place in self.unique])


class JoinRows:
    """An ``OperatorTable``. ``counts``: whether rows know with how many of the other side they are joined."""

    def __init__(self, schema: BlockSchema, keys: Sequence[int], unique: Sequence[int] | None, counts: bool) -> None:
        self._schema, self._columns, self._counts = schema, keys, counts
        self._name = RowNames(schema, unique)
        self._keys = KeyNumbers(len(keys))
        #: of each slot: its last run (-1: none), whether it has changed since the last snapshot, and whether it is in one
        self._last: Array = np.empty(0, np.int64)
        self._changed, self._saved = (np.zeros(0, np.bool_) for _ in range(2))
        self._clear()

    def _clear(self) -> None:
        """Forget the rows."""
        self._parts: list[pa.RecordBatch] = []
        self._ends: Array = np.empty(0, np.int64)
        self._count = self._dead_count = 0
        #: of each row: its slot, whether it is gone, how many partners it has
        self._of_row, self._partners = (np.empty(0, np.int64) for _ in range(2))
        self._dead: Array = np.zeros(0, np.bool_)
        #: the rows of the runs; of each run, where its rows begin there, how many there are, and the run before it
        self._items, self._begins, self._lengths, self._before = (np.empty(0, np.int64) for _ in range(4))
        self._used = self._runs = 0
        #: where rows are, by slot and name; ``None`` as long as nobody has asked
        self._named: dict[Any, Any] | None = None

    def __len__(self) -> int:
        return self._count - self._dead_count

    # ---- rows that come and go

    def add(self, rows: KeyedRows, batch: pa.RecordBatch, partners: Array | None = None) -> None:
        """Add rows, all of which are others than those that are there."""
        slots = self._slots_of(rows)
        groups, first = rows.groups, self._count
        places = slice(first, first + batch.num_rows)
        self._count = places.stop
        self._reserve()
        self._of_row[places] = slots.take(groups.of_records())
        if self._counts:
            self._partners[places] = 0 if partners is None else partners
        self._extend(slots, groups.begins, groups.counts, groups.order + first)
        self._changed[slots] = True
        self._keep(batch)

    def change(self, rows: KeyedRows, batch: pa.RecordBatch, adds: Array | None, partners: Array | None) -> int:
        """Add rows, and remove those that are taken back; return how many of these are not there."""
        if adds is None and self._named is None and self._name.unique is None:
            self.add(rows, batch, partners)
            return 0
        named = self._names()
        first = self._count
        self.add(rows, batch, partners)  # those that take something back, too: they are gone at once
        unknown, gone, name = 0, list[int](), self._name
        signs: Iterable[bool] = repeat(True, batch.num_rows) if adds is None else adds.tolist()
        slots = self._of_row[first : self._count].tolist()
        # Hot, where rows are taken back or have a unique key: a look-up per row.
        for place, (row, slot, comes) in enumerate(zip(self._schema.tuples(batch), slots, signs, strict=True), first):
            known = slot, name(row)
            before = named.get(known)
            if comes:
                if before is None:
                    named[known] = place
                elif name.unique is not None:
                    gone.append(before)
                    named[known] = place
                elif type(before) is list:
                    before.append(place)
                else:
                    named[known] = [before, place]
                continue
            gone.append(place)
            if before is None:
                unknown += 1
            elif type(before) is list:
                gone.append(before.pop())
                if not before:
                    del named[known]
            else:
                gone.append(before)
                del named[known]
        self._remove(np.array(gone, np.int64))
        return unknown

    def count_partners(self, places: Array, changes: Array) -> Array:
        """Change the numbers of partners of rows, which may be given several times; return each number before its change."""
        if not len(places):
            return places
        groups = Groups(places, self._count)
        initial: Array = self._partners.take(groups.slots)
        changes = changes.take(groups.order)
        values = changes.copy()
        values[groups.begins] += initial
        after = running_sum(values, groups)
        before = after - changes
        if after.min() < 0:  # what never came was taken back
            starts = dict(zip(groups.begins.tolist(), initial.tolist(), strict=True))
            count = 0
            for at, change in enumerate(changes.tolist()):
                before[at] = starts.get(at, count)
                count = after[at] = max(0, int(before[at]) + change)
        self._partners[groups.slots] = after.take(groups.ends)
        self._changed[self._of_row.take(groups.slots)] = True
        return groups.back(before)

    def _slots_of(self, rows: KeyedRows) -> Array:
        """Return the slots of keys; new keys get new ones."""
        found = self._keys.numbers(rows)
        if len(self._keys) > len(self._last):
            size, room = len(self._last), max(_FEWEST, 2 * len(self._keys))
            self._last, self._changed, self._saved = (
                grown(each, room) for each in (self._last, self._changed, self._saved)
            )
            self._last[size:] = -1
        return found

    def _reserve(self) -> None:
        if self._count > len(self._of_row):
            room = max(_FEWEST, 2 * self._count)
            self._of_row, self._dead = grown(self._of_row, room), grown(self._dead, room)
            if self._counts:
                self._partners = grown(self._partners, room)

    def _extend(self, slots: Array, begins: Array, lengths: Array, items: Array) -> None:
        """Add a run to each slot."""
        used, runs = self._used + len(items), self._runs + len(slots)
        if used > len(self._items):
            self._items = grown(self._items, max(_FEWEST, 2 * used))
        if runs > len(self._begins):
            self._begins, self._lengths, self._before = (
                grown(each, max(_FEWEST, 2 * runs)) for each in (self._begins, self._lengths, self._before)
            )
        new = slice(self._runs, runs)
        self._items[self._used : used] = items
        self._begins[new] = begins + self._used
        self._lengths[new] = lengths
        self._before[new] = self._last.take(slots)
        self._last[slots] = np.arange(self._runs, runs)
        self._used, self._runs = used, runs

    def _keep(self, batch: pa.RecordBatch) -> None:
        parts = self._parts
        parts.append(batch)
        while len(parts) >= _PARTS:
            last = parts[-_PARTS:]
            if last[0].num_rows > _PARTS * last[-1].num_rows or sum(part.nbytes for part in last) > _LARGEST:
                break
            parts[-_PARTS:] = [joined(last)]
        self._ends = np.cumsum([part.num_rows for part in parts])

    def _names(self) -> dict[Any, Any]:
        if self._named is None:
            self._named = {}
            alive = np.flatnonzero(~self._dead[: self._count])
            rows = self._schema.tuples(pa.RecordBatch.from_arrays(self.columns(alive), schema=self._schema.arrow))
            for place, slot, row in zip(alive.tolist(), self._of_row.take(alive).tolist(), rows, strict=True):
                known = slot, self._name(row)
                before = self._named.get(known)
                if before is None:
                    self._named[known] = place
                elif type(before) is list:
                    before.append(place)
                else:
                    self._named[known] = [before, place]
        return self._named

    def _remove(self, places: Array) -> None:
        if not len(places):
            return
        self._dead[places] = True
        self._dead_count += len(places)
        self._changed[self._of_row.take(places)] = True
        if self._dead_count > max(_FEW_GONE, len(self)):
            self._compact()

    def _compact(self) -> None:
        """Leave out the rows that are gone, and the keys that nothing has to be said of any more."""
        alive = np.flatnonzero(~self._dead[: self._count])
        of_row, partners = self._of_row.take(alive), self._partners.take(alive) if self._counts else None
        batch = pa.RecordBatch.from_arrays(self.columns(alive), schema=self._schema.arrow)
        named, count = self._named is not None, len(self._keys)
        marks = self._changed[:count], self._saved[:count]
        wanted = marks[0] & marks[1]
        wanted[of_row] = True
        left = np.flatnonzero(wanted)
        self._keys = self._keys.some(left)
        self._changed, self._saved = (each.take(left) for each in marks)
        self._last = np.full(len(left), -1, np.int64)
        numbers = np.zeros(count, np.int64)
        numbers[left] = np.arange(len(left))
        self._clear()
        self._count = len(alive)
        self._reserve()
        self._of_row[: len(alive)] = numbers.take(of_row)
        if partners is not None:
            self._partners[: len(alive)] = partners
        if len(alive):
            groups = Groups(self._of_row[: len(alive)], len(left))
            self._extend(groups.slots, groups.begins, groups.counts, groups.order)
            self._keep(batch)
        if named:
            self._names()

    # ---- looking up

    def find(self, rows: KeyedRows) -> tuple[Array, Array]:
        """Return how many rows each key has, and the places of all of them, of each key in the order of arrival."""
        slots = self._keys.find(rows)
        nothing = np.empty(0, np.int64)
        owners, runs = [nothing], [nothing]
        owner = np.flatnonzero(slots >= 0)
        run = self._last.take(slots.take(owner))
        while True:
            there = run >= 0
            if not there.all():
                owner, run = owner[there], run[there]
            if not len(owner):
                break
            owners.append(owner)
            runs.append(run)
            run = self._before.take(run)
        of, found = (np.concatenate(each[::-1]) for each in (owners, runs))
        if len(runs) > 2:
            order = np.argsort(of, kind="stable")
            of, found = of.take(order), found.take(order)
        lengths = self._lengths.take(found)
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        places = self._items.take(np.arange(total) + np.repeat(self._begins.take(found) - ends + lengths, lengths))
        of_places = np.repeat(of, lengths)
        if self._dead_count:
            alive = ~self._dead.take(places)
            places, of_places = places[alive], of_places[alive]
        counts = np.bincount(of_places, minlength=len(slots))
        if len(runs) > _DEEP:
            self._straighten(slots, np.flatnonzero(np.bincount(of, minlength=len(slots)) > _DEEP), counts, places)
        return counts, places

    def _straighten(self, slots: Array, which: Array, counts: Array, places: Array) -> None:
        """Make one run of all that some keys have."""
        if not len(which):
            return
        ends = np.cumsum(counts)
        items = np.concatenate([places[ends[each] - counts[each] : ends[each]] for each in which.tolist()])
        some = counts.take(which)
        self._last[slots.take(which)] = -1
        self._extend(slots.take(which), np.cumsum(some) - some, some, items)

    def columns(self, places: Array, read: Iterable[int] | None = None) -> list[pa.Array]:
        """Return columns of the rows at some places; those that are not read are NULL."""
        wanted = range(len(self._schema)) if read is None else sorted(read)
        if not len(places):
            found = [pa.array([], self._schema.arrow.field(at).type) for at in wanted]
        elif len(self._parts) == 1:
            at_places = pa.array(places)
            found = [self._parts[0].column(at).take(at_places) for at in wanted]
        else:
            found = self._of_parts(places, wanted)
        if read is None:
            return found
        by_place = dict(zip(wanted, found, strict=True))
        return [
            by_place[at] if at in by_place else pa.nulls(len(places), field.type)
            for at, field in enumerate(self._schema.arrow)
        ]

    def _of_parts(self, places: Array, wanted: Sequence[int]) -> list[pa.Array]:
        numbers = np.searchsorted(self._ends, places, "right")
        there = np.flatnonzero(np.bincount(numbers))
        if len(there) == 1:
            part = self._parts[int(there[0])]
            at_places = pa.array(places - (self._ends[there[0]] - part.num_rows))
            return [part.column(at).take(at_places) for at in wanted]
        order = np.argsort(numbers.astype(np.uint16), kind="stable")
        back = np.empty(len(places), np.int64)
        back[order] = np.arange(len(places))
        found: list[list[pa.Array]] = [[] for _ in wanted]
        ordered, ends = places.take(order), np.cumsum(np.bincount(numbers))
        for number in there.tolist():
            part = self._parts[number]
            begin = 0 if number == 0 else int(ends[number - 1])
            at_places = pa.array(ordered[begin : ends[number]] - (self._ends[number] - part.num_rows))
            for arrays, at in zip(found, wanted, strict=True):
                arrays.append(part.column(at).take(at_places))
        to_back = pa.array(back)
        return [pa.concat_arrays(arrays).take(to_back) for arrays in found]

    # ---- snapshots

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the keys that have changed since the last one."""
        count = len(self._keys)
        changed, saved = self._changed[:count], self._saved[:count]
        wanted = np.ones(count, np.bool_) if complete else changed.copy()
        of_row = self._of_row[: self._count]
        chosen = np.flatnonzero(wanted.take(of_row) & ~self._dead[: self._count])
        chosen = chosen.take(np.argsort(of_row.take(chosen), kind="stable"))
        there = np.zeros(count, np.bool_)
        there[of_row.take(chosen)] = True
        gone = [] if complete else [self._keys[slot] for slot in np.flatnonzero(wanted & saved & ~there).tolist()]
        saved[wanted] = there[wanted]
        changed[:] = False
        return TableSnapshot(self._written(chosen), ((key, None) for key in gone))

    def _written(self, chosen: Array) -> Iterator[StateRow]:
        """Yield the keys of some rows, as they are now; batches do not change, and the rest is copied."""
        slots, keys, ends, parts = self._of_row.take(chosen), self._keys, self._ends, list(self._parts)
        partners = self._partners.take(chosen) if self._counts else np.zeros(len(chosen), np.int64)
        return self._entries(chosen, slots, keys, partners, ends, parts)

    def _entries(
        self, chosen: Array, slots: Array, keys: KeyNumbers, partners: Array, ends: Array, parts: list[pa.RecordBatch]
    ) -> Iterator[StateRow]:
        then = JoinRows(self._schema, self._columns, self._name.unique, False)
        then._parts, then._ends = parts, ends
        last, entries = -1, dict[Any, Entry]()
        for at in range(0, len(chosen), _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            rows = pa.RecordBatch.from_arrays(then.columns(chosen[some]), schema=self._schema.arrow)
            for slot, row, number in zip(
                slots[some].tolist(), self._schema.tuples(rows), partners[some].tolist(), strict=True
            ):
                if slot != last and entries:
                    yield keys[last], None, entries
                    entries = {}
                last, name = slot, self._name(row)
                if name in entries:
                    entries[name][COUNT] += 1
                else:
                    entries[name] = [row, 1, number]
        if entries:
            yield keys[last], None, entries

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add rows of a snapshot."""
        found: list[Tuple] = []
        partners: list[int] = []
        for _, _, entries in rows:
            for stored in entries.values():
                entry = (
                    stored[0] if type(stored) is tuple else stored
                )  # it had a lifetime, which this join does not give
                found += repeat(entry[ROW], entry[COUNT])
                partners += repeat(entry[PARTNERS], entry[COUNT])
        if found:
            batch = self._schema.batch(found)
            keyed = KeyedRows(batch, self._columns)
            self.add(keyed, batch, np.array(partners, np.int64))
            slots = self._slots_of(keyed)
            self._changed[slots], self._saved[slots] = False, True
