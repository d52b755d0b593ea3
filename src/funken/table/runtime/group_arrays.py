"""The groups of ``GroupAggregate`` in arrays: one item of each array per group, at the group's slot.

Of DISTINCT calls the values that a group has seen are in a dict of the group, one for calls that differ in their filters only.
In snapshots all of it is keyed state: of each key how many rows there are, and the accumulators of ``aggregates.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.logs import grown
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.table.logical import AggregateCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.running import DistinctRows, GroupedRows, running

Array = Any
Tuple = tuple[Any, ...]
Stored = tuple[int, list[Any]]
"""The number of rows of a group, and its accumulators."""
_FEWEST = 64
_AT_ONCE = 256


class _Seen:
    """The values that a DISTINCT call has seen, among those of several calls: each is there once."""

    def __init__(self, numbers: dict[Any, int], bit: int) -> None:
        self._numbers, self._bit = numbers, bit

    def get(self, value: Any, default: int) -> int:
        """Return the number of occurrences of a value."""
        return 1 if self._numbers.get(value, 0) & self._bit else default

    def __setitem__(self, value: Any, count: int) -> None:
        self._numbers[value] = self._numbers.get(value, 0) | self._bit


class GroupArrays:
    """An ``OperatorTable`` of the groups."""

    def __init__(self, calls: Sequence[AggregateCall], schema: BlockSchema, create: Callable[[], list[Any]]) -> None:
        self._calls, self._schema, self._create = [running(call, schema) for call in calls], schema, create
        self._slots: dict[Tuple, int] = {}
        self._keys: list[Tuple | None] = []
        self._free: list[int] = []
        #: of each slot: how many rows the group has, and what each call keeps of it
        self.counts: Array = np.empty(0, np.int64)
        self._held: list[list[Array]] = [[np.empty(0, dtype) for dtype in call.dtypes] for call in self._calls]
        #: what calls keep of a group without rows
        self._nothing = [
            [values[0] for values in call.held([each[1] if call.distinct else each])]
            for call, each in zip(self._calls, create(), strict=True)
        ]
        #: of DISTINCT calls: which see the same values, and by slot which have seen a value
        self._distinct: dict[tuple[int, ...], list[int]] = {}
        for number, call in enumerate(self._calls):
            if call.distinct:
                self._distinct.setdefault(call.args, []).append(number)
        self._seen: dict[tuple[int, ...], list[dict[Any, int]]] = {args: [] for args in self._distinct}
        #: of each slot: whether it has changed since the last snapshot, and whether it is in one
        self._changed, self._saved = (np.zeros(0, np.bool_) for _ in range(2))
        self._gone: dict[Tuple, None] = {}
        #: the slots that a snapshot still has to write, and what is called if one is touched before
        self._pending: dict[int, None] = {}
        self._before_write: Callable[[StateRow], None] = _ignore

    def __len__(self) -> int:
        return len(self._slots)

    # ---- a block

    def slots(self, keys: Sequence[Tuple]) -> Array:
        """Return the slots of keys, all different, which may be changed from now on; new keys get empty ones."""
        known = self._slots
        # Hot: keys that are known, all at once.
        found: list[Any] = list(map(known.get, keys))
        new = [at for at, slot in enumerate(found) if slot is None]
        if new:
            for at, slot in zip(new, self._new([keys[at] for at in new]), strict=True):
                found[at] = slot
        if self._pending:
            self._write_first(found)
        slots: Array = np.array(found, np.int64)
        self._changed[slots] = True
        return slots

    def states(self, scan: GroupedRows, slots: Array) -> list[pa.Array]:
        """Return the results of each call in each state, and keep the accumulators."""
        counts: dict[int, Array] = {}
        for args, numbers in self._distinct.items():
            seen = self._seen[args]
            maps = [seen[slot] for slot in slots.tolist()]
            filters = [self._calls[number].filter for number in numbers]
            new = DistinctRows(scan, args, self._schema).new(maps, filters)
            counts.update(zip(numbers, new, strict=True))
        results = []
        for number, (call, held) in enumerate(zip(self._calls, self._held, strict=True)):
            found, left = call.states(scan, [each.take(slots) for each in held], counts.get(number))
            for array, values in zip(held, left, strict=True):
                array[slots] = values
            results.append(found)
        return results

    def set_counts(self, slots: Array, counts: Array, forgets: bool) -> None:
        """Keep the numbers of rows of groups; ``forgets``: those without rows are no more."""
        self.counts[slots] = counts
        if forgets:
            self._forget(slots[counts == 0])

    # ---- one group

    def load_group(self, key: Tuple) -> Stored | None:
        """Return a group, to be given to ``save_group``."""
        slot = self._slots.get(key)
        if slot is None or not self.counts[slot]:
            return None
        if self._pending:
            self._write_first((slot,))
        found = []
        for number, (call, held) in enumerate(zip(self._calls, self._held, strict=True)):
            accumulator = call.load(held, slot)
            found.append([self._seen_by(number, slot), accumulator] if call.distinct else accumulator)
        return int(self.counts[slot]), found

    def save_group(self, key: Tuple, group: Stored | None) -> None:
        """Keep a group; ``None``: there is none."""
        if group is None:
            slot = self._slots.get(key)
            if slot is not None:
                self._write_first((slot,))
                self._forget(np.array([slot]))
            return
        slot = self._slot(key)
        self.counts[slot] = group[0]
        for call, held, accumulator in zip(self._calls, self._held, group[1], strict=True):
            call.save(held, slot, accumulator[1] if call.distinct else accumulator)

    def _slot(self, key: Tuple) -> int:
        """Return the slot of a key, which may be changed from now on; a new key gets an empty one."""
        slot = self._slots.get(key)
        if slot is None:
            (slot,) = self._new([key])
        if self._pending:
            self._write_first((slot,))
        self._changed[slot] = True
        return slot

    def create(self, key: Tuple) -> list[Any]:
        """Return the accumulators of a new group."""
        slot, found = self._slot(key), self._create()
        for numbers in self._distinct.values():
            for number in numbers:
                found[number] = [self._seen_by(number, slot), found[number][1]]
        return found

    def _seen_by(self, number: int, slot: int) -> _Seen:
        args = self._calls[number].args
        return _Seen(self._seen[args][slot], 1 << self._distinct[args].index(number))

    # ---- slots

    def _new(self, keys: list[Tuple]) -> list[int]:
        """Give new groups slots, all at once: free ones first."""
        first, gone = len(self._keys), self._gone
        slots = [self._free.pop() for _ in range(min(len(self._free), len(keys)))]
        for slot, key in zip(slots, keys, strict=False):
            self._keys[slot] = key
        more = keys[len(slots) :]
        self._keys += more
        for seen in self._seen.values():
            seen += [{} for _ in more]
        if len(self._keys) > len(self.counts):
            self._grow(max(_FEWEST, 2 * len(self._keys)))
        slots += range(first, len(self._keys))
        if gone:
            self._saved[slots] = [gone.pop(key, False) is None for key in keys]
        self._slots.update(zip(keys, slots, strict=True))
        return slots

    def _grow(self, room: int) -> None:
        size = len(self.counts)
        self.counts, self._changed, self._saved = (
            grown(each, room) for each in (self.counts, self._changed, self._saved)
        )
        for held in self._held:
            held[:] = [grown(each, room) for each in held]
        self._empty(slice(size, room))

    def _empty(self, slots: Any) -> None:
        """Let slots be those of groups without rows."""
        for held, nothing in zip(self._held, self._nothing, strict=True):
            for array, value in zip(held, nothing, strict=True):
                array[slots] = value

    def _forget(self, slots: Array) -> None:
        """Remove groups; where DISTINCT values are kept, none ends, since no row is taken back."""
        if not len(slots):
            return
        for slot, saved in zip(slots.tolist(), self._saved.take(slots).tolist(), strict=True):
            key = self._keys[slot]
            assert key is not None
            del self._slots[key]
            self._keys[slot] = None
            if saved:
                self._gone[key] = None
            self._free.append(slot)
        self._changed[slots] = self._saved[slots] = False
        self.counts[slots] = 0
        self._empty(slots)

    # ---- snapshots

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the groups that have changed since the last one."""
        self._write_first(list(self._pending))
        count = len(self._keys)
        slots = list(self._slots.values()) if complete else np.flatnonzero(self._changed[:count]).tolist()
        gone, self._gone = self._gone, {}
        self._changed[:count] = False
        self._saved[slots] = True
        self._pending, self._before_write = dict.fromkeys(slots), before_write
        return TableSnapshot(self._rest(self._pending), iter(()) if complete else ((key, None) for key in gone))

    def _rest(self, pending: dict[int, None]) -> Iterator[StateRow]:
        while pending:
            slots = list(islice(pending, _AT_ONCE))
            for slot in slots:
                del pending[slot]
            yield from self._rows(slots)

    def _write_first(self, slots: Iterable[int]) -> None:
        """Write the rows of some slots that a snapshot needs, before they change."""
        wanted = [slot for slot in slots if slot in self._pending]
        if wanted:
            for slot in wanted:
                del self._pending[slot]
            for row in self._rows(wanted):
                self._before_write(row)

    def _rows(self, slots: list[int]) -> list[StateRow]:
        at = np.array(slots, np.int64)
        columns = []
        for number, (call, held) in enumerate(zip(self._calls, self._held, strict=True)):
            found = call.stored([each.take(at) for each in held])
            if call.distinct:
                bit = 1 << self._distinct[call.args].index(number)
                maps = [self._seen[call.args][slot] for slot in slots]
                values = [{value: 1 for value, bits in seen.items() if bits & bit} for seen in maps]
                found = [list(each) for each in zip(values, found, strict=True)]
            columns.append(found)
        accumulators = [list(each) for each in zip(*columns, strict=True)] if columns else [[] for _ in slots]
        counts = self.counts.take(at).tolist()
        return [
            (self._keys[slot], None, each)
            for slot, each in zip(slots, zip(counts, accumulators, strict=True), strict=True)
        ]

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add groups of a snapshot."""
        for key, _, stored in rows:
            # one that had a lifetime, which these groups have not, is a pair of what was stored and its time
            count, accumulators = stored[0] if type(stored[0]) is tuple else stored
            self.save_group(key, (count, accumulators))
            slot = self._slots[key]
            for args, numbers in self._distinct.items():
                seen = self._seen[args][slot]
                for at, number in enumerate(numbers):
                    for value in accumulators[number][0]:
                        seen[value] = seen.get(value, 0) | 1 << at
            self._changed[slot], self._saved[slot] = False, True


def _ignore(row: StateRow) -> None:
    """No snapshot is under way."""
