"""Count windows over columns: each block is cut into the windows of its keys, and all of them are filled at once.

A key is in arrays here, by *slot*, or in the table (``operators/window/counts.py``), never in both: it is taken out of the
table by its first block of columns, and all go back before a block that the kernels cannot compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Columns, joined
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import Groups
from funken.columnar.keyed.kept import LEAF_TYPES, grown
from funken.columnar.keyed.keys import key_of
from funken.columnar.loops.converting import wrapped
from funken.expr.types import INT, atomic_fields
from funken.expr.watch import StateWatch, Way
from funken.ids import MAX_WATERMARK
from funken.operators.columnar.contents import (
    Contribution,
    KeyedArrays,
    KeyedLists,
    joined_leaf,
    leaf_columns,
    listed,
    reach,
)
from funken.operators.columnar.path import why_in_rows
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.columnar.windows import KeyedWindowArrays
from funken.operators.window.counts import CountWindows
from funken.operators.window.driver import WindowDriver
from funken.windowing.windows import CountWindow, GlobalWindow

_FEW = 400
"""Of blocks that have fewer records on average, it is found out what they cost record by record.

A block costs 0.2 to 0.6 ms, however few records it has.
"""
_MANY = 1 << 16
"""From so many slots on keys without contents are forgotten."""
_AT_ONCE = 1 << 16
"""So many records the windows have, mostly, that are computed together."""

Fired = tuple[list[Any], Array, Any]
"""Of some windows the keys, numbers and contents: columns, or a list where the kernels cannot compute them."""


class CountArrays(KeyedWindowArrays):
    """A count and contents by slot."""

    windows: CountWindows

    def __init__(self, driver: WindowDriver, spec: ColumnarWindow) -> None:
        super().__init__(driver, spec)
        self._watch = StateWatch(_FEW)

    def clear(self) -> None:
        """Forget all that is in the arrays."""
        super().clear()
        self.contents: Any = self._empty()
        self.slots = self.contents.slots
        #: slots below this were looked for in the table
        self._looked = 0
        #: by slot: how many records there were, and whether there are contents
        self._counts: Array = np.empty(0, np.int64)
        self._filled: Array = np.empty(0, np.bool_)

    def _empty(self) -> KeyedArrays | KeyedLists:
        """Return where contents are kept by slot."""
        raise NotImplementedError

    def present(self) -> Array:
        """Return the slots that have an entry."""
        known = slice(len(self.slots))
        return np.flatnonzero(self._counts[known] if self.windows.numbered else self._filled[known])

    # ---- blocks

    def take(self, block: Block) -> bool:
        """Count off a block, and emit the results of windows that are full."""
        if not len(block):
            return False
        clock = self.driver.context.monotonic
        begun, way = clock(), self._watch.way(len(block))
        if way is Way.ROWS or self.returns >= self.most_returns:
            self._path.left(block, why_in_rows(batch=False, small=way is Way.ROWS))
            if way is Way.ROWS:
                self.driver.process(*block.rows())
                self._watch.took(way, len(block), clock() - begun)
            return way is Way.ROWS
        if not self._computed(block):
            return False
        self._watch.took(way, len(block), clock() - begun)
        return True

    def _computed(self, block: Block) -> bool:
        fired = self._path(block)
        if fired is None:
            return False
        made: list[Columns] = []
        for keys, numbers, contents in fired:
            results = self.results(contents, keys, 0, MAX_WATERMARK + 1) if isinstance(contents, Columns) else None
            if results is None:
                self._emit(made)
                each = contents.to_list() if isinstance(contents, Columns) else contents
                self.fire_each(keys, self._windows_of(numbers), each, over=False)
                self.driver.flush()
            elif results.length:
                made.append(results)
        self._emit(made)
        if len(self.slots) > _MANY and int(np.count_nonzero(self._counts)) < len(self.slots) // 4:
            self.store()  # keys whose windows are all full are forgotten
        return True

    def _emit(self, made: list[Columns]) -> None:
        """Emit results, as one block."""
        if made:
            self.driver.output.emit_block(joined(made))
            made.clear()

    def _windows_of(self, numbers: Array) -> Iterable[Any]:
        if self.windows.numbered:
            return map(CountWindow, numbers.tolist())
        return [GlobalWindow.get()] * len(numbers)

    def _found(self, block: Columns) -> Array:
        """Return the slot of each record; keys that are in the table are no longer there then."""
        slots = self.contents.find(key_of(self.spec.traced_key.result, block), block.length)
        room = self.contents.room
        if len(self._counts) < room:
            self._counts, self._filled = grown(self._counts, room), grown(self._filled, room)
            self.reserve(room)
        self._load()
        return slots

    def _counted(self, groups: Groups, total: Array) -> None:
        """Count the records of a block, of which none is left in a window that is purged when it is full."""
        windows, slots = self.windows, groups.slots
        self._counts[slots] = total if windows.numbered else total % windows.every
        self._filled[slots] = filled = total % windows.every > 0 if windows.slide is None else total > 0
        self.touched[slots] = True
        if windows.slide is None and not windows.numbered:
            self.forget(slots[~filled])

    # ---- between arrays and table

    def give_back(self) -> None:
        """Bring everything back into the table, for records follow."""
        if len(self.slots):
            self.returns += not self._watch.in_rows
            self.store()

    def _load(self) -> None:
        """Take the entries of new keys out of the table, if they are there."""
        keys, begin, table = self.slots.keys, self._looked, self.table
        if begin == len(keys) or not (table.delta or table.base):
            self._looked = len(keys)
            return
        found = {slot: entry for slot in range(begin, len(keys)) if (entry := table.get(keys[slot])) is not None}
        if self.windows.slide is not None and any(count >= self.windows.every for count, _ in found.values()):
            raise FallBackToRows("counts of another slide, which never fire")
        held = {slot: entry[1] for slot, entry in found.items() if entry[1] is not None}
        self.contents.put(list(held), list(held.values()))  # falls back if one is of another type
        self._looked = len(keys)
        for slot, (count, contents) in found.items():
            self._counts[slot], self._filled[slot] = count, contents is not None
            self.touched[slot], self.saved[slot] = table.take_out(keys[slot])

    def saved_entries(self, slots: Array) -> Iterator[tuple[Any, Any]]:
        """Return what gives out keys and entries as they are in snapshots, as of now."""
        known, revive, filled = self.slots.keys, self.windows.contents_of, self._filled.take(slots)
        keys, counts = [known[slot] for slot in slots.tolist()], self._counts.take(slots).tolist()
        entries = self.contents.entries(slots[filled])  # where nothing was ever kept, arrays have no text
        return (
            (key, (count, revive(next(entries)[1]) if has else None))
            for key, count, has in zip(keys, counts, filled.tolist(), strict=True)
        )

    def table_entries(self, slots: Array) -> Iterator[tuple[Any, Any]]:
        """Return keys and entries as the table has them."""
        return ((key, list(entry)) for key, entry in self.saved_entries(slots))


class FoldedCounts(CountArrays):
    """Tumbling windows whose contents are one value per field: what records were folded to."""

    def _empty(self) -> KeyedArrays | KeyedLists:
        return KeyedArrays(self.spec.contents_schema)

    def _add(self, block: Columns) -> Iterable[Fired]:
        """Return the windows that are full, in the order of their last records."""
        contributions, arrays, size = self.contributions(block), self.contents, self.windows.size
        slots = self._found(block)
        for number, contribution in enumerate(contributions):
            reach(arrays, number, contribution, min(block.length, size))
        groups = Groups(slots, len(arrays))
        before = self._counts.take(groups.slots)
        cut = _Windows(groups, before, self._filled.take(groups.slots), size)
        # Nothing has changed so far.
        full = np.flatnonzero(cut.full)
        full = full.take(np.argsort(cut.last.take(full), kind="stable"))
        slots_of = groups.slots.take(cut.group)
        leaves = [self._folded(cut, number, contribution) for number, contribution in enumerate(contributions)]
        left = np.flatnonzero(~cut.full)
        for number, (_, kind) in enumerate(arrays.leaves):
            arrays.state[number][slots_of.take(left)] = leaves[number].take(left)
            if kind == INT:
                arrays.widen(number, *reach(arrays, number, contributions[number], min(block.length, size)))
        contents = leaf_columns(arrays.leaves, [leaf.take(full) for leaf in leaves])
        self._counted(groups, before + groups.counts)
        keys = [self.slots.keys[slot] for slot in slots_of.take(full).tolist()]
        return [(keys, cut.number.take(full), Columns(arrays.schema, contents, len(full)))] if keys else []

    def _folded(self, cut: _Windows, number: int, contribution: Contribution) -> Array:
        """Return what one field of the contents of each window is."""
        array = self.contents.state[number]
        folded = np.zeros(cut.count, array.dtype)
        old, new = np.arange(cut.old), np.arange(cut.old, cut.count)
        folded[: cut.old] = array.take(cut.groups.slots.take(cut.group.take(old)))
        firsts = cut.first.take(new)
        joined_leaf(folded, contribution, cut.of_record, slice(cut.old, cut.count), firsts, cut.groups.length)
        return wrapped(folded, contribution.bits) if contribution.bits < 64 else folded


class _Windows:
    """The windows that the records of a block are in: first those that have contents already, then the others.

    Of each: ``group``, its ``number`` within the key, its ``first`` and ``last`` record in the block, and whether it is ``full``.
    """

    def __init__(self, groups: Groups, counts: Array, filled: Array, size: int) -> None:
        place = np.arange(groups.length) - groups.spread(groups.begins) + groups.spread(counts)
        begins = place % size == 0
        begins[groups.begins] = True
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], groups.length) - 1
        in_group = np.cumsum(np.bincount(groups.begins, minlength=groups.length)[: groups.length])[starts] - 1
        goes_on = (starts == groups.begins.take(in_group)) & filled.take(in_group)
        order = np.argsort(~goes_on, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.groups = groups
        self.old, self.count = int(np.count_nonzero(goes_on)), len(starts)
        self.group = in_group.take(order)
        self.number = (place.take(starts) // size).take(order)
        self.first = groups.order.take(starts).take(order)
        self.last = groups.order.take(ends).take(order)
        self.full = (place.take(ends) % size == size - 1).take(order)
        self.of_record: Array = groups.back(rank.take(np.cumsum(begins) - 1))


class ListedCounts(CountArrays):
    """Windows of records, tumbling or sliding: the last ones of each key are kept, and all windows of a block are made at once.

    A sliding window is a copy of its records: the cost is linear in its size, as in the record path, which folds them one after
    the other.
    """

    def _empty(self) -> KeyedArrays | KeyedLists:
        return KeyedLists(self.spec.schema)

    def _add(self, block: Columns) -> Iterator[Fired]:
        """Return the windows that are full, in the order of their last records."""
        slots_of_records, every = self._found(block), self.windows.every
        # Nothing has changed so far, and nothing can fail from here on.
        groups = Groups(slots_of_records, len(self.slots))
        slots, count = groups.slots, self._counts.take(groups.slots)
        before = count % every
        fires = (before + groups.counts) // every
        records = block.stamped(None).take(groups.order)
        firing = np.flatnonzero(fires)
        last = _Last(self.contents.log.lists(slots.take(firing)), records, groups, firing)
        self._keep(groups, fires, before, records, last)
        self._counted(groups, count + groups.counts)
        return self._fired(groups, fires.take(firing), count.take(firing), firing, last)

    def _keep(self, groups: Groups, fires: Array, before: Array, records: Columns, last: _Last) -> None:
        """Keep the records of each key that a later window has, or a few more."""
        log, size, every = self.contents.log, self.windows.size, self.windows.every
        firing = fires > 0
        slots, ends = groups.slots[firing], last.kept + last.added
        counts = (before + groups.counts)[firing] % every if self.windows.slide is None else np.minimum(ends, size)
        log.empty(slots)
        some = np.flatnonzero(counts)
        log.append(slots.take(some), counts.take(some), last.records(some, ends.take(some), counts.take(some)))
        slots = groups.slots[~firing]
        log.append(slots, groups.counts[~firing], records.keep(groups.spread(~firing)))
        long = slots[log.lengths(slots) > 2 * size]
        if len(long):
            lengths, kept = log.lists(long)
            places = np.arange(kept.length) - np.repeat(np.cumsum(lengths) - size, lengths)
            log.empty(long)
            log.append(long, np.full(len(long), size), kept.take(np.flatnonzero(places >= 0)))

    def _fired(self, groups: Groups, fires: Array, count: Array, firing: Array, last: _Last) -> Iterator[Fired]:
        every, size = self.windows.every, self.windows.size
        owner = np.repeat(np.arange(len(firing)), fires)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(fires) - fires, fires)
        #: which of the new records of its key is the last one
        newest = (number + 1) * every - (count % every).take(owner) - 1
        order = np.argsort(groups.order.take(groups.begins.take(firing.take(owner)) + newest))
        owner, newest = owner.take(order), newest.take(order)
        number = number.take(order) + (count // every).take(owner)
        ends = last.kept.take(owner) + newest + 1
        counts = np.minimum(ends, size)
        known = self.slots.keys
        keys = [known[slot] for slot in groups.slots.take(firing.take(owner)).tolist()]
        begin, reached = 0, np.cumsum(counts)
        while begin < len(keys):
            done = int(reached[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(reached, done + _AT_ONCE, "right")))
            part = slice(begin, end)
            records = last.records(owner[part], ends[part], counts[part])
            yield keys[part], number[part], self._contents(counts[part], records)
            begin = end

    def _contents(self, counts: Array, records: Columns) -> Any:
        """Return what the records of each window become."""
        if not self.spec.lists:
            try:
                return self._folded(counts, records)
            except FallBackToRows:
                lists = listed(self.spec.schema, counts, records).to_list()
                return list(map(self.windows.contents.compute, lists))
        return listed(self.spec.schema, counts, records)

    def _folded(self, counts: Array, records: Columns) -> Columns:
        schema, count, most = self.spec.contents_schema, len(counts), int(counts.max())
        of_record, firsts = np.repeat(np.arange(count), counts), np.cumsum(counts) - counts
        bounds, leaves, states = KeyedArrays(schema), atomic_fields(schema), []
        for number, contribution in enumerate(self.contributions(records)):
            reach(bounds, number, contribution, most)
            state: Array = np.zeros(count, LEAF_TYPES[leaves[number][1]])
            joined_leaf(state, contribution, of_record, slice(0, count), firsts, records.length)
            states.append(wrapped(state, contribution.bits) if contribution.bits < 64 else state)
        return Columns(schema, leaf_columns(leaves, states), count)


class _Last:
    """The records of the keys of which windows fire: those that were kept, and behind them those of the block."""

    def __init__(self, lists: tuple[Array, Columns], records: Columns, groups: Groups, firing: Array) -> None:
        self.kept, before = lists
        self.added = groups.counts.take(firing)
        self._all = joined([before, records]) if before.length else records
        self._kept_begin = np.cumsum(self.kept) - self.kept
        #: what has to be added to the place of a record of the block, among those of its key, to find it
        self._shift = before.length + groups.begins.take(firing) - self.kept

    def records(self, owner: Array, ends: Array, counts: Array) -> Columns:
        """Return so many records before each end, one after the other; ``owner`` are the numbers of the keys."""
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places, owner = np.repeat(ends - counts, counts) + within, np.repeat(owner, counts)
        shift = np.where(places < self.kept.take(owner), self._kept_begin.take(owner), self._shift.take(owner))
        return self._all.take(places + shift)


__all__ = ["FoldedCounts", "ListedCounts"]
