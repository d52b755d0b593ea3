"""The rows of one side of a join in columns, found by key a block at a time.

Rows stay in the order of arrival, in few batches. Those of a key in a block are a *run*, which knows the run of the key before
it: to add a block costs a pass over it, and a key is found by going back from its last run. In snapshots rows are keyed state: of
each key a dict of its rows by name, or of lists of them by time. State in files is just that, and what a block meets is made
columns of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, cast

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Groups, each_once, running_sum
from funken.columnar.keyed.logs import grown
from funken.ids import MIN_TIMESTAMP
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.exchange import hashable
from funken.table.runtime.kept_rows import RowBatches
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
_DEEP = 32
"""The runs of a key become one if a search went back through more."""
_AT_ONCE = 1024
_NEVER = 1 << 62


class RowNames:
    """Names that distinguish the rows of a key: a unique key, or all of the row.

    >>> from funken.expr.sql.types import BigIntType, VarCharType
    >>> schema = BlockSchema(["k", "n"], [VarCharType(9), BigIntType()])
    >>> [RowNames(schema, unique)(("a", 1)) for unique in (None, (1,), (1, 0), ())]
    [('a', 1), (1,), (1, 'a'), ()]
    """

    def __init__(self, schema: BlockSchema, unique: Sequence[int] | None) -> None:
        self.unique = unique
        places = range(len(schema)) if unique is None else unique
        self._plain = all(schema.types[place].root in PLAIN_KEYS for place in places)
        # with one value more: of one alone there would be no tuple
        self._of: Any = itemgetter(*unique, unique[0]) if unique else (lambda row: (None,))

    def __call__(self, row: Tuple) -> Any:
        """Return the name of a row."""
        # Hot, where rows are taken back or replaced: values that are keys as they are.
        name = row if self.unique is None else self._of(row)[:-1]
        return name if self._plain else hashable(name)


class JoinRows:
    """An ``OperatorTable``. ``counts``: whether rows know with how many of the other side they are joined.

    ``numbered``: whether this number is stored. ``ttl``: how long (ms) a row lives after it, an equal one or
    the number was written; 0: for ever.
    """

    def __init__(
        self, schema: BlockSchema, keys: Sequence[int], unique: Sequence[int] | None, counts: bool, ttl: int = 0,
        numbered: bool = True,
    ) -> None:  # fmt: skip
        self._schema, self._columns, self._counts, self._numbered = schema, keys, counts, numbered
        self._lifetime, self._timed, self._renews = ttl, ttl > 0, ttl > 0
        self._now = self._next_pass = 0
        self._name = RowNames(schema, unique)
        self._keys = KeyNumbers(len(keys))
        #: of each slot: its last run (-1: none), whether it has changed since the last snapshot, and whether it is in one
        self._last: Array = np.empty(0, np.int64)
        self._changed, self._saved = (np.zeros(0, np.bool_) for _ in range(2))
        self._clear()

    def _clear(self) -> None:
        """Forget the rows."""
        self._batches = RowBatches(self._schema)
        self._count = self._dead_count = 0
        #: of each row: its slot, whether it is gone, how many partners it has, when it was written
        self._of_row, self._partners, self._times = (np.empty(0, np.int64) for _ in range(3))
        self._dead: Array = np.zeros(0, np.bool_)
        #: the rows of the runs; of each run, where its rows begin there, how many there are, and the run before it
        self._items, self._begins, self._lengths, self._before = (np.empty(0, np.int64) for _ in range(4))
        self._used = self._runs = 0
        #: where rows are, by slot and name; ``None`` as long as nobody has asked
        self._named: dict[Any, Any] | None = None

    def __len__(self) -> int:
        return self._count - self._dead_count

    # ---- rows that come and go

    def expire(self, now: int) -> None:
        """Let it be ``now`` (ms): what has expired is not there any more, and goes at most twice per lifetime."""
        self._now = now
        if self._timed and now >= self._next_pass:
            self._next_pass = now + max(self._lifetime // 2, 1)
            expired = self._expired()
            if len(expired):
                self._named = None
                self._remove(expired)

    def _expired(self) -> Array:
        return np.flatnonzero(~self._dead[: self._count] & ~self._lives(slice(self._count)))

    def _lives(self, places: Any) -> Any:
        return self._times[places] > max(self._now - self._lifetime, MIN_TIMESTAMP)

    def held(self, rows: KeyedRows, batch: pa.RecordBatch) -> tuple[list[Any], dict[Any, Tuple | None]]:
        """Return names of rows that have a unique key, and the rows that there are under these names."""
        named, slots = self._names(), self._keys.find(rows).tolist()
        names = names_of(rows, batch, self._schema, self._name)
        places = {name: named.get((slots[name[0]], name[1]), -1) for name in names}
        there = {
            name: place for name, place in places.items() if place >= 0 and (not self._timed or self._lives(place))
        }
        columns = self.columns(np.array(list(there.values()), np.int64))
        found = self._schema.tuples(pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow))
        return names, dict(zip(there, found, strict=True))

    def add(
        self, rows: KeyedRows, batch: pa.RecordBatch, partners: Array | None = None, times: Array | None = None
    ) -> None:
        """Add rows, all of which are others than those that are there."""
        slots = self._slots_of(rows)
        groups, first = rows.groups, self._count
        places = slice(first, first + batch.num_rows)
        self._count = places.stop
        self._reserve()
        self._of_row[places] = slots.take(groups.of_records())
        if self._counts:
            self._partners[places] = 0 if partners is None else partners
        if self._timed:
            self._times[places] = self._now if times is None else times
        self._extend(slots, groups.begins, groups.counts, groups.order + first)
        self._changed[slots] = True
        self._batches.add(batch)

    def change(self, rows: KeyedRows, batch: pa.RecordBatch, adds: Array | None, partners: Array | None) -> list[int]:
        """Add rows, and remove those that are taken back; return which of these are not there."""
        if adds is None and self._named is None and self._name.unique is None and not self._renews:
            self.add(rows, batch, partners)
            return []
        named = self._names()
        first = self._count
        self.add(rows, batch, partners)  # those that take something back, too: they are gone at once
        unknown, gone, name = list[int](), list[int](), self._name
        renewed: dict[Any, None] = {}
        signs: Iterable[bool] = repeat(True, batch.num_rows) if adds is None else adds.tolist()
        slots = self._of_row[first : self._count].tolist()
        # Hot, where rows are taken back or have a unique key: a look-up per row.
        for place, (row, slot, comes) in enumerate(zip(self._schema.tuples(batch), slots, signs, strict=True), first):
            known = slot, name(row)
            before = named.get(known)
            if before is not None and self._renews:
                renewed[known] = None
                if not self._lives(before[0] if type(before) is list else before):
                    gone += before if type(before) is list else (before,)
                    del named[known]
                    before = None
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
                unknown.append(place - first)
            elif type(before) is list:
                gone.append(before.pop())
                if not before:
                    del named[known]
            else:
                gone.append(before)
                del named[known]
        for known in renewed:  # equal rows live as long as the last of them
            if type(places := named.get(known)) is list:
                self._times[places] = self._now
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
        if self._renews:
            self._times[groups.slots] = self._now
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
            if self._timed:
                self._times = grown(self._times, room)

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

    def _names(self) -> dict[Any, Any]:
        if self._named is None:
            self._named = {}
            alive = np.flatnonzero(~self._dead[: self._count])
            rows = self._schema.tuples(self._batches.batch(alive))
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
        written = self._times.take(alive) if self._timed else None
        batch = self._batches.batch(alive)
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
        if written is not None:
            self._times[: len(alive)] = written
        if len(alive):
            groups = Groups(self._of_row[: len(alive)], len(left))
            self._extend(groups.slots, groups.begins, groups.counts, groups.order)
            self._batches.add(batch)
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
        if self._dead_count or self._timed:
            alive = ~self._dead.take(places)
            if self._timed:
                alive &= self._lives(places)
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
        return self._batches.columns(places, read)

    # ---- snapshots

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the keys that have changed since the last one."""
        count = len(self._keys)
        changed, saved = self._changed[:count], self._saved[:count]
        wanted = np.ones(count, np.bool_) if complete else changed.copy()
        of_row = self._of_row[: self._count]
        there = wanted.take(of_row) & ~self._dead[: self._count]
        chosen = np.flatnonzero(there & self._lives(slice(self._count)) if self._timed else there)
        chosen = chosen.take(np.argsort(of_row.take(chosen), kind="stable"))
        there = np.zeros(count, np.bool_)
        there[of_row.take(chosen)] = True
        gone = [] if complete else [self._keys[slot] for slot in np.flatnonzero(wanted & saved & ~there).tolist()]
        saved[wanted] = there[wanted]
        changed[:] = False
        return TableSnapshot(self._written(chosen), ((key, None) for key in gone))

    def _written(self, chosen: Array) -> Iterator[StateRow]:
        """Yield the keys of some rows, as they are now; batches do not change, and the rest is copied."""
        slots, batches = self._of_row.take(chosen), self._batches.frozen()
        nothing = np.zeros(len(chosen), np.int64)
        partners = self._partners.take(chosen) if self._counts else nothing
        written = self._times.take(chosen) if self._timed else nothing
        return self._entries(chosen, slots, self._keys, (partners, written), batches)

    def _entries(
        self, chosen: Array, slots: Array, keys: KeyNumbers, numbers: tuple[Array, Array], batches: RowBatches
    ) -> Iterator[StateRow]:
        last, entries = -1, dict[Any, Any]()
        for at in range(0, len(chosen), _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            rows = batches.batch(chosen[some])
            for slot, row, partners, written in zip(
                slots[some].tolist(), self._schema.tuples(rows), *(each[some].tolist() for each in numbers), strict=True
            ):
                if slot != last and entries:
                    yield keys[last], None, entries
                    entries = {}
                last = slot
                self._enter(entries, row, partners, written)
        if entries:
            yield keys[last], None, entries

    def _enter(self, entries: dict[Any, Any], row: Tuple, partners: int, written: int) -> None:
        """Add a row to what a key has in a snapshot."""
        name = self._name(row)
        if name in entries:
            (entries[name][0] if self._timed else entries[name])[COUNT] += 1
        else:
            entry = [row, 1, partners] if self._numbered else [row, 1]
            entries[name] = (entry, written) if self._timed else entry

    def _entered(self, entries: dict[Any, Any]) -> Iterator[tuple[Tuple, int, int, int]]:
        """Yield the rows that a key has in a snapshot: each with its count, number of partners, and time."""
        for stored in entries.values():
            entry, at = stored if type(stored) is tuple else (stored, self._now)  # with a lifetime, or without one
            yield entry[ROW], entry[COUNT], entry[PARTNERS] if self._numbered else 0, at

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add rows of a snapshot."""
        found = [entered for _, _, entries in rows for entered in self._entered(entries)]
        if found:
            several, counts, *numbers = zip(*found, strict=True)
            whole = np.repeat(np.arange(len(found)), counts)
            partners, times = (np.array(each, np.int64).take(whole) for each in numbers)
            batch = self._schema.batch(several).take(pa.array(whole))
            keyed = KeyedRows(batch, self._columns)
            self.add(keyed, batch, partners, times)
            slots = self._slots_of(keyed)
            self._changed[slots], self._saved[slots] = False, True


class TimedRows(JoinRows):
    """The rows of one side of an interval join: each is there until ``keep`` ms after its time, and knows if it had a partner.

    In snapshots they are, of each key, lists by time.
    """

    def __init__(self, schema: BlockSchema, keys: Sequence[int], keep: int) -> None:
        super().__init__(schema, keys, None, True)
        self._lifetime, self._timed, self._now = keep, True, MIN_TIMESTAMP
        #: no row has an earlier time
        self.first = _NEVER

    def add(
        self, rows: KeyedRows, batch: pa.RecordBatch, partners: Array | None = None, times: Array | None = None
    ) -> None:
        """Add rows with times."""
        assert times is not None
        super().add(rows, batch, partners, times)
        self.first = min(self.first, int(times.min()))

    def within(self, places: Array, low: Array, high: Array) -> Array:
        """Return which rows have times from ``low`` to ``high``."""
        times = self._times.take(places)
        return (low <= times) & (times <= high)

    def had_partners(self, places: Array) -> None:
        """Remember that rows had a partner."""
        some = places[self._partners.take(places) == 0]
        self._partners[some] = 1
        self._changed[self._of_row.take(some)] = True

    def let_go(self, now: int) -> pa.RecordBatch:
        """Let it be ``now`` (ms), and remove what has expired; return the rows of these that had no partner, in order of time."""
        self._now = now
        expired = self._expired() if self.first + self._lifetime <= now else np.empty(0, np.int64)
        alone = expired[self._partners.take(expired) == 0]
        alone = alone.take(np.argsort(self._times.take(alone), kind="stable"))
        batch = self._batches.batch(alone)
        if len(expired):
            self._remove(expired)
            left = self._times[: self._count][~self._dead[: self._count]]
            self.first = int(left.min()) if len(left) else _NEVER
        return batch

    def _enter(self, entries: dict[Any, Any], row: Tuple, partners: int, written: int) -> None:
        entries.setdefault(written, []).append([row, partners > 0])

    def _entered(self, entries: dict[Any, Any]) -> Iterator[tuple[Tuple, int, int, int]]:
        for at, rows in entries.items():
            yield from ((row, 1, had, at) for row, had in rows)


class StoredJoinRows:
    """Rows in map state, of any backend: what a block meets is read for it, and what changes is written one by one."""

    def __init__(
        self, schema: BlockSchema, keys: Sequence[int], unique: Sequence[int] | None, counts: bool, store: Any, state: Any,
        numbered: bool = True,
    ) -> None:  # fmt: skip
        self._schema, self._columns, self._counts, self._numbered = schema, keys, counts, numbered
        self._name = RowNames(schema, unique)
        self._store, self._state = store, state
        self._found = self._nothing()
        self._entries: list[tuple[Tuple, Any, Entry]] = []

    def _nothing(self) -> JoinRows:
        return JoinRows(self._schema, self._columns, self._name.unique, self._counts, numbered=self._numbered)

    def expire(self, now: int) -> None:
        """The state sees to it."""

    def held(self, rows: KeyedRows, batch: pa.RecordBatch) -> tuple[list[Any], dict[Any, Tuple | None]]:
        """Return names of rows that have a unique key, and the rows that there are under these names."""
        names, found = names_of(rows, batch, self._schema, self._name), dict[Any, Tuple | None]()
        for name in dict.fromkeys(names):
            self._store.current_key = rows.keys[name[0]]
            entry = self._state.get(name[1])
            if entry is not None:
                found[name] = entry[ROW]
        return names, found

    def find(self, rows: KeyedRows) -> tuple[Array, Array]:
        """Return how many rows each key has, and the places of all of them."""
        self._found, self._entries = self._nothing(), []
        for key in rows.keys:
            self._store.current_key = key
            self._entries += [(key, name, stored) for name, stored in self._state.items()]
        self._found.load((None, None, {name: stored}) for _, name, stored in self._entries)
        return self._found.find(rows)

    def columns(self, places: Array, read: Iterable[int] | None = None) -> list[pa.Array]:
        """Return columns of the rows at some places; those that are not read are NULL."""
        return self._found.columns(places, read)

    def count_partners(self, places: Array, changes: Array) -> Array:
        """Change the numbers of partners of rows, which may be given several times; return each number before its change."""
        before = self._found.count_partners(places, changes)
        for name, entry, first in self._stored_at(places, [entry[COUNT] for _, _, entry in self._entries]):
            self._state.put(name, [entry[ROW], entry[COUNT], int(self._found._partners[first])])
        return before

    def _stored_at(self, places: Array, sizes: list[int]) -> Iterator[tuple[Any, Any, int]]:
        """Yield what is stored of rows at some places: its name, it, the place of its first row. Its key is the current one."""
        counts = np.array(sizes, np.int64)
        of_place, firsts = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts) - counts
        for at in each_once(of_place.take(places)).tolist():
            self._store.current_key, name, stored = self._entries[at]
            yield name, stored, int(firsts[at])

    def change(self, rows: KeyedRows, batch: pa.RecordBatch, adds: Array | None, partners: Array | None) -> list[int]:
        """Add rows, and remove those that are taken back; return which of these are not there."""
        unknown, state, unique = list[int](), self._state, self._name.unique is not None
        signs: Iterable[bool] = repeat(True, batch.num_rows) if adds is None else adds.tolist()
        numbers: Iterable[int] = repeat(0, batch.num_rows) if partners is None else partners.tolist()
        names = names_of(rows, batch, self._schema, self._name)
        changes = zip(names, self._schema.tuples(batch), signs, numbers, strict=True)
        for place, ((group, name), row, comes, number) in enumerate(changes):
            self._store.current_key = rows.keys[group]
            before = state.get(name)
            if comes:
                entry = [row, 1 if before is None or unique else before[COUNT] + 1]
                state.put(name, [*entry, number] if self._numbered else entry)
            elif before is None:
                unknown.append(place)
            elif before[COUNT] > 1:
                state.put(name, [before[ROW], before[COUNT] - 1, *before[PARTNERS:]])
            else:
                state.remove(name)
        return unknown


class StoredTimedRows(StoredJoinRows):
    """Lists of rows by time in map state; ``expect`` is called with the time of each row that comes, with its key current."""

    def __init__(
        self, schema: BlockSchema, keys: Sequence[int], keep: int, store: Any, state: Any, expect: Callable[[int], None]
    ) -> None:
        self._keep, self._expect = keep, expect
        super().__init__(schema, keys, None, True, store, state)

    def _nothing(self) -> JoinRows:
        return TimedRows(self._schema, self._columns, self._keep)

    def within(self, places: Array, low: Array, high: Array) -> Array:
        """Return which rows have times from ``low`` to ``high``."""
        return cast("TimedRows", self._found).within(places, low, high)

    def had_partners(self, places: Array) -> None:
        """Remember that rows had a partner."""
        some = places[self._found._partners.take(places) == 0]
        cast("TimedRows", self._found).had_partners(some)
        for time, rows, first in self._stored_at(some, [len(rows) for _, _, rows in self._entries]):
            had = self._found._partners[first : first + len(rows)] > 0
            self._state.put(time, [[row, is_met] for (row, _), is_met in zip(rows, had.tolist(), strict=True)])

    def add(self, rows: KeyedRows, batch: pa.RecordBatch, partners: Array, times: Array) -> None:
        """Add rows with times."""
        groups = rows.groups.of_records().tolist()
        for group, row, had, time in zip(
            groups, self._schema.tuples(batch), partners.tolist(), times.tolist(), strict=True
        ):
            self._store.current_key = rows.keys[group]
            self._state.put(time, [*(self._state.get(time) or ()), [row, had > 0]])
            self._expect(time)


def names_of(rows: KeyedRows, batch: pa.RecordBatch, schema: BlockSchema, name: RowNames) -> list[tuple[int, Any]]:
    """Return the number of the key and the name of each row."""
    return list(zip(rows.groups.of_records().tolist(), map(name, schema.tuples(batch)), strict=True))
