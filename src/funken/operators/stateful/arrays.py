"""States by key in arrays, in front of the tables that their handles have (``state/handles.py``).

A key, or a key and the key of a map, has a *slot* from its first record on. What is in the tables is looked up when a key comes
first; what has changed goes back by way of the handles, before a snapshot and before records go to the function itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise, repeat
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import (
    Array,
    Column,
    Columns,
    Lists,
    column_of,
    columns_of,
    joined,
    values_of_leaves,
)
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.keys import PairSlots, Slots
from funken.columnar.keyed.logs import LEAF_TYPES, ListLog, RecordLog, column_from, grown
from funken.columnar.records import fits
from funken.columnar.stateful.changes import FIRST_STATE
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, ListOf, Type, atomic_fields
from funken.state.backend import Table, may_hold
from funken.state.descriptors import StateKind
from funken.state.handles import State
from funken.timing.timers import InternalTimerService

_FEWEST = 64
_FEW_RECORDS, _AT_ONCE = 4096, 1 << 16
"""From how many records on a log is looked through for those that are kept no more, and how many are taken at a time."""
_EMPTY: dict[Atomic, Any] = {INT: 0, FLOAT: 0.0, BOOL: False, STR: ""}
Path = tuple[int, ...]


class StateArrays:
    """The states of one operator that have the same keys: values, or one map."""

    def __init__(
        self, numbers: Sequence[int], fills: Sequence[Any], kinds: Sequence[Type], whole: Sequence[bool],
        of_key: StateArrays | None = None, lifetimes: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        """``of_key``: the arrays of the keys, where these are those of a map; ``lifetimes`` (ms) of states that expire.

        Of a state that is ``whole``, records are in a log, and the array has their places there.
        """
        self.numbers = numbers
        self._lifetimes = {number: lifetimes[number] for number in numbers if lifetimes and number in lifetimes}
        self._of_key = of_key
        self._kinds = {number: kinds[number] for number in numbers}
        self._nothing = {number: record_of(kinds[number], fills[number]) for number in numbers if whole[number]}
        self._fills: dict[Path, Any] = {}
        self.kinds: dict[Path, Atomic] = {}
        for number in numbers:
            self._add((FIRST_STATE + number, 0), BOOL, False)
            if whole[number]:
                self._add((FIRST_STATE + number, 1), INT, 0)
                continue
            for path, kind in atomic_fields(kinds[number]):
                default = fills[number]
                for index in path if default is not None else ():
                    default = default[index]
                empty = "" if kind == STR else 0
                self._add((FIRST_STATE + number, 1, *path), kind, empty if default is None else default)
        self.clear()

    def _add(self, path: Path, kind: Atomic, fill: Any) -> None:
        self.kinds[path], self._fills[path] = kind, fill

    def clear(self) -> None:
        """Forget everything."""
        self._slots = Slots()  # of keys, or those of maps
        self._pairs = PairSlots()
        self._looked = 0
        self._room = 0
        self.logs = {number: _log_of(nothing) for number, nothing in self._nothing.items()}
        self._values: dict[Path, Array] = {path: np.empty(0, LEAF_TYPES[kind]) for path, kind in self.kinds.items()}
        self._touched: dict[int, Array] = {number: np.empty(0, np.bool_) for number in self.numbers}
        #: of states that expire, when they were last accessed
        self._accessed: dict[int, Array] = {number: np.empty(0, np.int64) for number in self._lifetimes}

    def __len__(self) -> int:
        return len(self._slots if self._of_key is None else self._pairs)

    def find(self, key: Column, length: int, tables: dict[int, Table], of_key: Array | None = None) -> Array:
        """Return the slot of each record; raises ``FallBackToRows`` if a table has values that no array can have.

        Of a map, ``key`` is that of the map, and ``of_key`` the slots of the keys that have it.
        """
        found: Array = self._slots.find(key, length)
        if of_key is not None:
            found = self._pairs.find(of_key, found)
        if len(self) > self._room:
            self._grow(max(_FEWEST, 2 * len(self)))
        begin, self._looked = self._looked, len(self)
        for number in self.numbers:
            if begin < self._looked and may_hold(tables[number]):
                self._load(number, tables[number], begin)
        return found

    def key(self, slot: int) -> Any:
        """Return the key of a slot; of a map, the key and that of the map."""
        if self._of_key is None:
            return self._slots.keys[slot]
        outer, inner = self._pairs.pair(slot)
        return self._of_key.key(outer), self._slots.keys[inner]

    def _grow(self, room: int) -> None:
        for path, values in self._values.items():
            larger = grown(values, room)
            larger[len(values) :] = self._fills[path]
            self._values[path] = larger
        self._touched = {number: grown(touched, room) for number, touched in self._touched.items()}
        self._accessed = {number: grown(accessed, room) for number, accessed in self._accessed.items()}
        self._room = room

    def _load(self, number: int, table: Table, begin: int) -> None:
        there, values = [], []
        for slot in range(begin, len(self)):
            key = self.key(slot)
            stored = table.get(key) if self._of_key is None else table.get(key[0], {}).get(key[1])
            if stored is not None:
                there.append(slot)
                values.append(stored)
        kind = self._kinds[number]
        times: list[int] = []
        if number in self._lifetimes and values:
            values, times = map(list, zip(*values, strict=True))
        if not all(fits(value, kind) for value in values):
            self._looked = begin
            raise FallBackToRows("a state of another type")
        if there:
            self._values[FIRST_STATE + number, 0][there] = True
            if times:
                self._accessed[number][there] = times
            if number in self.logs:
                begin = self.logs[number].append(columns_of(values, kind))
                self._values[FIRST_STATE + number, 1][there] = np.arange(begin, begin + len(there))
                return
            for (path, _), leaf in zip(atomic_fields(kind), values_of_leaves(values, kind), strict=True):
                self._values[(FIRST_STATE + number, 1, *path)][there] = leaf

    def expire(self, now: int, slots: Array | None = None) -> None:
        """Have nothing where values have expired, of some slots or of all."""
        for number, millis in self._lifetimes.items():
            held, accessed = self._values[FIRST_STATE + number, 0], self._accessed[number]
            some = np.flatnonzero(held[: len(self)]) if slots is None else slots[held.take(slots)]
            gone = some[accessed.take(some) <= now - millis]
            if len(gone):
                for path, values in self._values.items():
                    if path[0] == FIRST_STATE + number:
                        values[gone] = self._fills[path]
                self.touch(number, gone)

    def renew(self, number: int, slots: Array, now: int) -> None:
        """Let lives of a state begin anew."""
        self._accessed[number][slots] = now
        self.touch(number, slots)

    def live(self) -> int:
        """Return the number of slots with a state."""
        return int(self._held().sum())

    def _held(self) -> Array:
        held: Array = np.zeros(len(self), np.bool_)
        for number in self.numbers:
            held |= self._values[FIRST_STATE + number, 0][: len(self)]
        return held

    def mark_live(self, keys: Array) -> None:
        """Mark the slots of keys that have a state."""
        held = self._held()
        if self._of_key is None:
            keys |= held
        else:
            keys[self._pairs.firsts(np.flatnonzero(held))] = True

    def at(self, path: Path, slots: Array) -> Array:
        """Return a field at some slots."""
        return self._values[path].take(slots)

    def put(self, path: Path, slots: Array, values: Array) -> None:
        """Set a field at some slots."""
        self._values[path][slots] = values

    def put_records(self, number: int, slots: Array, records: Columns) -> None:
        """Set a state that is whole at some slots."""
        path, log = (FIRST_STATE + number, 1), self.logs[number]
        if len(log) > _FEW_RECORDS and len(log) > 2 * len(self):
            held = np.flatnonzero(self._values[FIRST_STATE + number, 0][: len(self)])
            places = self.at(path, held)
            self._values[path][:] = 0  # where there is nothing
            fresh = self.logs[number] = _log_of(self._nothing[number])
            for start in range(0, len(held), _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                begin = fresh.append(log.take(places[some]))
                self._values[path][held[some]] = np.arange(begin, len(fresh))
            log = fresh
        begin = log.append(records)
        self._values[path][slots] = np.arange(begin, len(log))

    def touch(self, number: int, slots: Array) -> None:
        """Remember that a state has changed."""
        self._touched[number][slots] = True

    def store(self, number: int, handle: State, set_key: Any) -> None:
        """Hand the changes of a state to its handle; ``set_key`` is called with each key before."""
        slots = np.flatnonzero(self._touched[number])
        if not len(slots):
            return
        self._touched[number][slots] = False
        held = self.at((FIRST_STATE + number, 0), slots).tolist()
        if number in self.logs:
            values = self.logs[number].take(self.at((FIRST_STATE + number, 1), slots)).to_list()
        else:
            leaves = []
            for path, kind in atomic_fields(self._kinds[number]):
                leaves.append(column_from(self.at((FIRST_STATE + number, 1, *path), slots), kind))
            values = Columns(self._kinds[number], leaves, len(slots)).to_list()
        target: Any = handle
        times: list[tuple[int, ...]] = [()] * len(slots)
        if number in self._lifetimes:
            times = [(at,) for at in self._accessed[number].take(slots).tolist()]
        for slot, there, value, at in zip(slots.tolist(), held, values, times, strict=True):
            key = self.key(slot)
            set_key(key if self._of_key is None else key[0])
            if self._of_key is not None:
                if there:
                    (target.put_at if at else target.put)(key[1], value, *at)
                else:
                    target.remove(key[1])
            elif not there:
                target.clear()
            elif handle.kind is StateKind.VALUE:
                (target.update_at if at else target.update)(value, *at)
            else:
                handle.table[key] = (value, *at) if at else value


def record_of(kind: Type, fill: Any) -> Columns:
    """Return the record that stands where there is none: ``fill``, or anything."""
    leaves = []
    for path, leaf in atomic_fields(kind):
        value = fill
        for index in path if fill is not None else ():
            value = value[index]
        leaves.append(column_of([_EMPTY[leaf] if fill is None else value], leaf))
    return Columns(kind, leaves, 1)


def _log_of(first: Columns) -> RecordLog:
    log = RecordLog(first.schema)
    log.append(first)
    return log


# ---- A list by key in columns, in front of the table that its handle has.


class StateLists:
    """A state that is a list; its slots are those of the operator's keys."""

    def __init__(self, kind: ListOf, keys: StateArrays) -> None:
        self.kind = kind
        self._keys = keys
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.log = ListLog(self.kind.element)
        self._looked = 0
        self._touched, self._emptied = np.zeros(0, np.bool_), np.zeros(0, np.bool_)

    def load(self, table: Table) -> None:
        """Take the lists of new keys out of the table; raises ``FallBackToRows`` for values that no column can have."""
        begin, end = self._looked, len(self._keys)
        if end > len(self._touched):
            self._touched, self._emptied = (
                np.concatenate((each, np.zeros(end, np.bool_))) for each in (self._touched, self._emptied)
            )
        self._looked = end
        if begin == end or not may_hold(table):
            return
        found = {slot: stored for slot in range(begin, end) if (stored := table.get(self._keys.key(slot)))}
        items = [item for stored in found.values() for item in stored]
        if not all(fits(item, self.kind.element) for item in items):
            self._looked = begin
            raise FallBackToRows("a state of another type")
        if found:
            counts = np.array(list(map(len, found.values())))
            self.log.append(np.array(list(found)), counts, columns_of(items, self.kind.element), stored=True)

    def change(self, emptied: Array, slots: Array, counts: Array, items: Columns) -> None:
        """Empty the lists at ``emptied``, then add items to those at ``slots``."""
        self.log.empty(emptied)
        self._emptied[emptied] = True
        self.log.append(slots, counts, items)
        self._touched[emptied] = True
        self._touched[slots] = True

    def __len__(self) -> int:
        """Return the number of items in memory."""
        return len(self.log)

    def mark_live(self, keys: Array) -> None:
        """Mark the slots of keys that have items."""
        keys |= self.log.lengths(np.arange(len(keys))) > 0

    def store(self, handle: Any, set_key: Any) -> None:
        """Hand the changes to the handle; ``set_key`` is called with each key before."""
        slots = np.flatnonzero(self._touched)
        for anew in (True, False):
            some = slots[self._emptied.take(slots) == anew]
            counts, items = self.log.lists(some, new=not anew)
            values, ends = items.to_list(), accumulate(counts.tolist(), initial=0)
            for slot, (start, stop) in zip(some.tolist(), pairwise(ends), strict=True):
                set_key(self._keys.key(slot))
                (handle.update if anew else handle.add_all)(values[start:stop])
        self.log.mark_stored(slots)
        self._touched[slots] = self._emptied[slots] = False


class ListsBefore(Lists):
    """A list before each record of a block: former items, unless it was emptied, and the block's additions since.

    They are put together for those records only that are asked for.
    """

    __slots__ = ("_added", "_firsts", "_kept", "_lasts", "_log", "_slots")

    def __init__(
        self, kind: ListOf, log: ListLog, slots: Array, kept: Array, added: Columns, firsts: Array, lasts: Array
    ) -> None:  # fmt: skip
        """``kept``: it was not emptied; ``firsts`` and ``lasts``: the bounds of the added items in ``added``."""
        self.kind, self.constant = kind, False
        self.low = self.high = None
        self._log, self._slots, self._kept = log, slots, kept
        self._added, self._firsts, self._lasts = added, firsts, lasts

    def __getattr__(self, name: str) -> Any:
        if name not in ("offsets", "items"):
            return super().__getattr__(name)
        whole = self._made(np.arange(len(self._slots)))
        self.offsets, self.items = whole.offsets, whole.items
        return getattr(self, name)

    def take(self, positions: Array) -> Column:
        """Return the lists of some records."""
        return self._made(positions)

    def _made(self, positions: Array) -> Lists:
        kept = self._kept.take(positions)
        stored, items = self._log.lists(self._slots.take(positions)[kept])
        before = np.zeros(len(positions), np.int64)
        before[kept] = stored
        firsts = self._firsts.take(positions)
        since = self._lasts.take(positions) - firsts
        counts = before + since
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        assert isinstance(self.kind, ListOf)
        if not since.any():
            return Lists(self.kind, offsets, items)
        # First all that there was, then all that was added; and of each record one after the other.
        places = np.arange(int(since.sum())) - np.repeat(np.cumsum(since) - since, since) + np.repeat(firsts, since)
        both = joined([items, self._added.take(places)]) if items.length else self._added.take(places)
        owners = np.concatenate((np.repeat(np.arange(len(counts)), before), np.repeat(np.arange(len(counts)), since)))
        return Lists(self.kind, offsets, both.take(np.argsort(owners, kind="stable")))


# ---- Event-time timers of operators on columns: many are set at once, and those that are due become blocks of
# times and keys.
#
# The timers themselves are where they always are (``timing/timers.py``): a snapshot knows nothing of columns.


AT_ONCE = 1 << 14
"""Maximal number of timers that fire in a block."""
_MOST_WAVES = 16
"""So many timers of a key may be due at once if timers set others: each is a block of its own."""
MOST_BLOCKS = 64
"""So many blocks are held back at one watermark if timers set others."""


class DueTimers:
    """The timers that are due at a watermark, in the order in which they fire."""

    def __init__(self, timers: InternalTimerService, watermark: int) -> None:
        self._timers, self._watermark = timers, watermark
        self._times: list[int] = []
        self._keys: list[Any] = []

    def take(self) -> bool:
        """Remove them from the service; return whether there are any."""
        times, keys = self._times, self._keys = [], []

        def fire(timestamp: int, key: Any, namespace: Any) -> None:
            times.append(timestamp)
            keys.append(key)

        self._timers.advance_watermark(self._watermark, fire)
        return bool(times)

    def take_firsts(self) -> bool:
        """Remove the first one of each key from the service; raise ``FallBackToRows`` if there are many of a key."""
        if not self.take():
            return False
        counts = Counter(self._keys)
        if max(counts.values()) > _MOST_WAVES:
            raise FallBackToRows("many timers of a key")
        if len(counts) < len(self._keys):
            seen: set[Any] = set()
            is_first = [not (key in seen or seen.add(key)) for key in self._keys]  # type: ignore[func-returns-value]
            firsts, others = (
                [(at, key) for at, key, first in zip(self._times, self._keys, is_first, strict=True) if first == wanted]
                for wanted in (True, False)
            )
            self._times, self._keys = [at for at, _ in others], [key for _, key in others]
            self.put_back()
            self._times, self._keys = [at for at, _ in firsts], [key for _, key in firsts]
        return True

    def put_back(self) -> None:
        """Return the timers to the service that were not fired."""
        set_timers(self._timers, zip(self._times, self._keys, repeat(False)))

    def __len__(self) -> int:
        return len(self._times)

    def block(self, kind: Type) -> tuple[Columns, list[Column]]:
        """Return the times of the next ones as a block, and the fields of their keys.

        Raises ``FallBackToRows`` if they are no columns.
        """
        keys, some = self._keys[:AT_ONCE], self._times[:AT_ONCE]
        if not all(fits(at, INT) for at in some) or not all(fits(key, kind) for key in keys):
            raise FallBackToRows("times or keys of another type")
        times = np.array(some, np.int64)
        return Columns(INT, [Column(INT, times)], len(times), times), columns_of(keys, kind).leaves

    def fired(self, count: int) -> None:
        """Forget the next ones."""
        del self._times[:count], self._keys[:count]


def set_timers(timers: InternalTimerService, changes: Iterable[tuple[int, Any, bool]]) -> None:
    """Register timers (a time, a key), or delete them where the third is true, one after the other."""
    register, delete = timers.register_event_time_timer, timers.delete_event_time_timer
    for at, key, deletes in changes:
        (delete if deletes else register)(key, None, at)


def check_later(block: Columns, records: Array, times: list[int], deletes: list[bool]) -> None:
    """Raise ``FallBackToRows`` if timers set others that are not later: these fire behind them, though their time is before."""
    if times and any(
        at <= now and not is_deleted
        for at, is_deleted, now in zip(times, deletes, block.leaves[0].data.take(records).tolist(), strict=True)
    ):
        raise FallBackToRows("a timer in the past")


def in_order_of_time(blocks: list[Columns]) -> Columns:
    """Return results of timers in the order of their times; of one time, in that of the blocks."""
    whole = joined([each for each in blocks if each.length])
    assert whole.timestamps is not None
    return whole.take(np.argsort(whole.timestamps, kind="stable"))
