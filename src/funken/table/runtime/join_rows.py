"""The rows of one side of a join in columns, found by key a block at a time.

Rows stay in the order of arrival, in few batches; their places are found by key (``SlotRuns``). In snapshots rows are keyed
state: of each key a dict of its rows by name, or of lists of them by time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Groups, Partners, running_sum
from funken.columnar.keyed.logs import SlotRuns, grown
from funken.ids import MIN_TIMESTAMP
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.state.descriptors import StateKind
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.exchange import hashable
from funken.table.runtime.kept_rows import KeepsColumns, RowBatches, TableInColumns
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
_MOST_CLEANED = 1024


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


class JoinRows(TableInColumns):
    """The rows of a side. ``counts``: whether rows know with how many of the other side they are joined.

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
        self._empty()

    def _empty(self) -> None:
        """Forget rows and keys."""
        self._keys = KeyNumbers(len(self._columns))
        #: of each slot: whether it has changed since the last snapshot, and whether it is in one
        self._changed, self._saved = (np.zeros(0, np.bool_) for _ in range(2))
        self._looked = 0
        self._clear()

    def _clear(self) -> None:
        """Forget the rows."""
        self._batches = RowBatches(self._schema)
        self._count = self._dead_count = 0
        #: of each row: its slot, whether it is gone, how many partners it has, when it was written
        self._of_row, self._partners, self._times = (np.empty(0, np.int64) for _ in range(3))
        self._dead: Array = np.zeros(0, np.bool_)
        #: 1: the state has it; more: the state may have it, but not as it is
        self._kept: Array = np.zeros(0, np.int8)
        self._runs = SlotRuns()
        #: the rows of the runs
        self._items: Array = np.empty(0, np.int64)
        self._used = 0
        #: where rows are, by slot and name; ``None`` as long as nobody has asked
        self._named: dict[Any, Any] | None = None

    def __len__(self) -> int:
        return self._count - self._dead_count

    # ---- the index: the rows of a key are in runs

    def _extend(self, slots: Array, begins: Array, lengths: Array, items: Array) -> None:
        """Add a run to each slot."""
        begin, self._used = self._used, self._used + len(items)
        if self._used > len(self._items):
            self._items = grown(self._items, max(_FEWEST, 2 * self._used))
        self._items[begin : self._used] = items
        self._runs.add(slots, begins + begin, lengths)

    def find(self, rows: KeyedRows) -> tuple[Array, Array]:
        """Return how many rows each key has, and the places of all of them, of each key in the order of arrival."""
        slots = self._known_slots(rows)
        found = self._runs.find(slots)
        places, owners = self._items.take(found.places), found.owners
        if self._dead_count or self._timed:
            alive = ~self._dead.take(places)
            if self._timed:
                alive &= self._lives(places)
            places, owners = places[alive], owners[alive]
        counts = np.bincount(owners, minlength=len(slots))
        if found.depth > _DEEP:
            which = np.flatnonzero(np.bincount(found.owners_of_runs, minlength=len(slots)) > _DEEP)
            self._straighten(slots, which, counts, places)
        return counts, places

    def partners(self, rows: KeyedRows, most: int) -> Iterator[tuple[Array, Array]]:
        """Yield which rows of a block meet which of these, in the order of the block; at most ``most`` at a time."""
        counts, found = self.find(rows)
        ends, of_rows = np.cumsum(counts), rows.groups.of_records()
        yield from Partners(found, (ends - counts).take(of_rows), ends.take(of_rows)).pairs(most)

    def _straighten(self, slots: Array, which: Array, counts: Array, places: Array) -> None:
        """Make one run of all that some keys have."""
        ends = np.cumsum(counts)
        items = np.concatenate([places[ends[each] - counts[each] : ends[each]] for each in which.tolist()])
        some = counts.take(which)
        self._runs.empty(slots.take(which))
        self._extend(slots.take(which), np.cumsum(some) - some, some, items)

    # ---- in front of state in files

    def store(self) -> None:
        """Put the entries that have changed into the state."""
        alive = ~self._dead[: self._count]
        differs = np.flatnonzero(self._kept[: self._count] != alive)
        slots: Any = self._of_row.take(differs).tolist()
        changed: dict[Tuple, dict[Any, None]] = {}
        for slot, name in zip(slots, self._names_at(differs), strict=True):
            changed.setdefault(self._keys[slot], {})[name] = None
        self._kept[: self._count] = alive
        entries = {key: entry for key, _, entry in self.begin_snapshot(False, lambda row: None).rows}
        table = self._state.table
        for key, names in changed.items():
            there, stored = entries.get(key, {}), table.get(key)
            stored = {} if stored is None else stored
            for name in names:
                if name in there:
                    stored[name] = there[name]
                    self._stored(key, name)
                else:
                    stored.pop(name, None)
            table[key] = stored

    def _names_at(self, places: Array) -> list[Any]:
        """Return the names of the entries of rows."""
        return list(map(self._name, self._schema.tuples(self._batches.batch(places))))

    def _stored(self, key: Tuple, name: Any) -> None:
        """An entry of a key was put into the state."""

    def knows(self, key: Tuple) -> bool:
        """Return True if the rows of a key are in columns."""
        return self._keys.number(key) >= 0

    def _known_slots(self, rows: KeyedRows) -> Array:
        """Return the slots of keys, -1 for those that have no rows."""
        return self._keys.find(rows) if self._state is None else self._slots_of(rows)

    # ---- rows that come and go

    def expire(self, now: int) -> None:
        """Let it be ``now`` (ms): what has expired is not there any more, and goes at most twice per lifetime."""
        self._now = now
        if self._renews and self._state is not None:
            self._state.life.clean(now, _MOST_CLEANED)
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
        slots = self._known_slots(rows).tolist()
        named = self._names()
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
        self._known_slots(rows)
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
                self._kept[places] |= 2
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
        self._kept[groups.slots] |= 2
        if self._renews:
            self._times[groups.slots] = self._now
        self._changed[self._of_row.take(groups.slots)] = True
        return groups.back(before)

    def _slots_of(self, rows: KeyedRows) -> Array:
        """Return the slots of keys; new keys get new ones."""
        found = self._keys.numbers(rows)
        if len(self._keys) > len(self._changed):
            room = max(_FEWEST, 2 * len(self._keys))
            self._changed, self._saved = grown(self._changed, room), grown(self._saved, room)
        first = self._count
        self.bring()
        if self._named is not None and first < self._count:
            self._enter_names(np.arange(first, self._count))
        return found

    def _reserve(self) -> None:
        if self._count > len(self._of_row):
            room = max(_FEWEST, 2 * self._count)
            self._of_row, self._dead, self._kept = (
                grown(each, room) for each in (self._of_row, self._dead, self._kept)
            )
            if self._counts:
                self._partners = grown(self._partners, room)
            if self._timed:
                self._times = grown(self._times, room)

    def _names(self) -> dict[Any, Any]:
        if self._named is None:
            self._named = {}
            self._enter_names(np.flatnonzero(~self._dead[: self._count]))
        return self._named

    def _enter_names(self, places: Array) -> None:
        named: Any = self._named
        rows = self._schema.tuples(self._batches.batch(places))
        slots: Any = self._of_row.take(places).tolist()
        for place, slot, row in zip(places.tolist(), slots, rows, strict=True):
            known = slot, self._name(row)
            before = named.get(known)
            if before is None:
                named[known] = place
            elif type(before) is list:
                before.append(place)
            else:
                named[known] = [before, place]

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
        if self._state is not None:
            self.store()
        alive = np.flatnonzero(~self._dead[: self._count])
        of_row, partners = self._of_row.take(alive), self._partners.take(alive) if self._counts else None
        written = self._times.take(alive) if self._timed else None
        batch = self._batches.batch(alive)
        named, count, kept = self._named is not None, len(self._keys), self._kept.take(alive)
        marks = self._changed[:count], self._saved[:count]
        wanted = marks[0] & marks[1]
        wanted[of_row] = True
        left = np.flatnonzero(wanted)
        self._keys, self._looked = self._keys.some(left), len(left)
        self._changed, self._saved = (each.take(left) for each in marks)
        numbers = np.zeros(count, np.int64)
        numbers[left] = np.arange(len(left))
        self._clear()
        self._count = len(alive)
        self._reserve()
        self._of_row[: len(alive)], self._kept[: len(alive)] = numbers.take(of_row), kept
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
            keyed, first = KeyedRows(batch, self._columns), self._count
            self.add(keyed, batch, partners, times)
            self._kept[first : self._count] = 1
            slots = self._slots_of(keyed)
            self._changed[slots], self._saved[slots] = False, True


class TimedRows(JoinRows):
    """The rows of one side of an interval join: each is there until ``keep`` ms after its time, and knows if it had a partner.

    In snapshots they are, of each key, lists by time. ``expect`` is called with key and time of rows that are stored in files.
    """

    def __init__(
        self, schema: BlockSchema, keys: Sequence[int], keep: int, expect: Callable[[Tuple, int], None] | None = None
    ) -> None:  # fmt: skip
        super().__init__(schema, keys, None, True)
        self._lifetime, self._timed, self._now, self._expect = keep, True, MIN_TIMESTAMP, expect

    def _empty(self) -> None:
        super()._empty()
        #: no row has an earlier time
        self.first = _NEVER

    def add(
        self, rows: KeyedRows, batch: pa.RecordBatch, partners: Array | None = None, times: Array | None = None
    ) -> None:
        """Add rows with times."""
        assert times is not None
        super().add(rows, batch, partners, times)
        self.first = min(self.first, int(times.min()))

    def near(self, rows: KeyedRows, low: Array, high: Array, most: int) -> Iterator[tuple[Array, Array]]:
        """Yield the same of those with times from ``low`` to ``high``."""
        for probed, places in self.partners(rows, most):
            times = self._times.take(places)
            fit = np.flatnonzero((low.take(probed) <= times) & (times <= high.take(probed)))
            yield probed.take(fit), places.take(fit)

    def had_partners(self, places: Array) -> None:
        """Remember that rows had a partner."""
        some = places[self._partners.take(places) == 0]
        self._partners[some] = 1
        self._kept[some] |= 2
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

    def _names_at(self, places: Array) -> list[Any]:
        found: Any = self._times.take(places).tolist()
        return list(found)

    def _stored(self, key: Tuple, name: Any) -> None:
        if self._expect is not None:
            self._expect(key, name)

    def _enter(self, entries: dict[Any, Any], row: Tuple, partners: int, written: int) -> None:
        entries.setdefault(written, []).append([row, partners > 0])

    def _entered(self, entries: dict[Any, Any]) -> Iterator[tuple[Tuple, int, int, int]]:
        for at, rows in entries.items():
            yield from ((row, 1, had, at) for row, had in rows)


class KeepsSides(KeepsColumns):
    """Base of the operators that keep the rows of their inputs."""

    def keep_side(self, name: str, rows: Any, schema: BlockSchema, ttl: int = 0) -> Any:
        """Declare the state of an input, in ``setup``; return its rows."""
        rows.expire(self.now())
        return self.keep(name, rows, StateKind.MAP, len(schema), ttl)

    def let_expire(self) -> None:
        """Let expired rows go, before a block is handled."""
        now = self.context.next_time()
        for rows, *_ in self._declared:
            rows.make_room()
            rows.expire(now)


def names_of(rows: KeyedRows, batch: pa.RecordBatch, schema: BlockSchema, name: RowNames) -> list[tuple[int, Any]]:
    """Return the number of the key and the name of each row."""
    return list(zip(rows.groups.of_records().tolist(), map(name, schema.tuples(batch)), strict=True))
