"""Windows over columns: their common part, and aligned windows, whose panes have one array per field of the contents.

A pane is in arrays while only columns come for it (``contents.py``), and becomes dicts, as in ``operators/window/driver.py``,
when records come; when it fires without columns as results, and in a snapshot, it is a dict: a snapshot of one path is one of
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, joined
from funken.columnar.kernels.evaluation import FallBackToRows, computed
from funken.columnar.keyed.groups import Groups
from funken.columnar.keyed.keys import Slots, coded, key_of
from funken.columnar.keyed.logs import LEAF_TYPES, grown
from funken.columnar.records import fits
from funken.columnar.typed.inference import TracedFlatMap, paths_of
from funken.expr.types import INT, LOWEST, STR, Atomic, Tuple, Type, atomic_fields
from funken.ids import MAX_WATERMARK
from funken.operators.columnar.contents import (
    Contribution,
    KeyedArrays,
    KeyedLists,
    ListPane,
    contributions_of,
    folded_leaf,
    leaf_columns,
    listed,
    listed_records,
    reach,
)
from funken.operators.columnar.path import BlockGate, ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.columnar.stateless import given_of
from funken.operators.user_functions import UserFunction
from funken.operators.window.contents import Aggregated, Reduced
from funken.operators.window.driver import AlignedWindows, CountWindows, WindowDriver
from funken.state.delta_tables import DeltaTable, ExtendedDeltaTable
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow

_KEY_CLASSES: dict[Type, type] = {INT: int, STR: str}


class WindowArrays:
    """Base of the windows over columns: the way of a block into the arrays, and of results out of them."""

    gives_at_once = False
    """True if blocks have results, so that their costs decide which way is cheaper."""

    def __init__(self, driver: WindowDriver, spec: ColumnarWindow, partials: bool = False) -> None:
        self.driver = driver
        self.spec = spec
        self.gate = BlockGate(driver, self.gives_at_once, in_batch=True)
        self._path = ColumnPath(self._add, *functions_of(spec), partials=partials, changes=True, of=driver)
        self._results = None if spec.results is None else WindowResults(spec)
        self._listed = None if spec.aggregate is None else spec.aggregate.listed

    def open(self) -> None:
        """Go on with what was restored."""

    def take(self, block: Block, in_rows: Callable[[Block], None]) -> None:
        """Add a block, or give it in rows."""
        self.gate.take(block, self._path, in_rows, self.added)

    def added(self, given: Any) -> None:
        """Go on with what adding a block has given."""

    def _add(self, block: Columns) -> Any:
        """Add a block; raise ``FallBackToRows`` before anything is changed, and never return ``None``."""
        raise NotImplementedError

    def give_back(self) -> None:
        """Let records follow."""

    def close(self, watermark: int) -> None:
        """Fire the event-time windows that end at or before ``watermark``, before those in objects."""

    def close_at(self, time: int) -> None:
        """Fire the processing-time windows that end at or before ``time``, before those in objects."""

    def next_time(self) -> int | None:
        """Return when the next processing-time window ends that only the arrays have."""
        return None

    @property
    def fields(self) -> int:
        """The number of fields that are kept per key or record."""
        return len(atomic_fields(self.spec.schema if self.spec.lists else self.spec.contents_schema))

    def contributions(self, block: Columns) -> list[Contribution]:
        """Return what a block adds to the fields of the contents."""
        return contributions_of(self.spec.folds, block, self.spec.aggregate)

    def results(self, contents: Columns, keys: list[Any], start: Array | int, end: Array | int) -> Columns | None:
        """Return the results of windows by their contents, keys and bounds; ``None``: they have to be made one by one."""
        return None if self._results is None else self._results(contents, keys, start, end)

    def emit(self, results: Columns) -> None:
        """Emit results, behind those of windows before these."""
        self.driver.emitter.flush()
        if results.length:
            self.driver.output.emit_block(results)

    def fire_each(self, keys: Iterable[Any], windows: Iterable[Any], contents: Iterable[Any], over: bool) -> None:
        """Fire windows one by one; ``over``: for the last time."""
        store, emitter = self.driver.store, self.driver.emitter
        for key, window, stored in zip(keys, windows, contents, strict=True):
            store.current_key = key
            if stored is not None:
                emitter.fire(key, window, stored)
            if over:
                emitter.clear(window)


class KeyedWindowArrays(WindowArrays):
    """Entries by key in arrays, in front of the table that windows in objects have, whose snapshots have both.

    ``touched`` says by slot whether an entry has changed since the last snapshot, ``saved`` whether it is in one; ``gone`` are
    keys that are in one, and have no entry any more.
    """

    slots: Slots
    touched: Array
    saved: Array
    gone: list[Any]

    def __init__(self, driver: WindowDriver, spec: ColumnarWindow) -> None:
        super().__init__(driver, spec)
        self.windows: Any
        self.table: Any
        self.share(driver)
        self.clear()

    def share(self, driver: WindowDriver) -> None:
        """Be in front of the table that the driver's windows have."""
        self.windows = driver.windows
        self.table = self.windows.table = ExtendedDeltaTable(self, self.windows.save, self.windows.revive)

    def clear(self) -> None:
        """Forget all that is in the arrays."""
        self.slots = Slots()
        self.touched = self.saved = np.empty(0, np.bool_)
        self.gone = []

    def reserve(self, room: int) -> None:
        """Make room for so many slots."""
        if room > len(self.touched):
            self.touched, self.saved = grown(self.touched, room), grown(self.saved, room)

    def present(self) -> Array:
        """Return the slots that have an entry."""
        raise NotImplementedError

    def saved_entries(self, slots: Array) -> Iterator[tuple[Any, Any]]:
        """Return what gives out keys and entries as they are in snapshots, as of now."""
        raise NotImplementedError

    def table_entries(self, slots: Array) -> Iterator[tuple[Any, Any]]:
        """Return keys and entries as the table has them."""
        raise NotImplementedError

    def take_written(self, complete: bool) -> tuple[Iterator[tuple[Any, Any]], list[Any]]:
        """Return what gives out the entries that changed since the last time, or all; and keys that are gone."""
        slots = self.present()
        if not complete:
            slots = slots[self.touched.take(slots)]
        self.touched[:] = False
        self.saved[slots] = True
        gone, self.gone = self.gone, []
        return self.saved_entries(slots), gone

    def kept(self) -> int:
        """Return how many entries are in the arrays."""
        return len(self.present())

    def forget(self, slots: Array) -> None:
        """Remember that some keys have no entry any more."""
        keys = self.slots.keys
        self.gone += [keys[slot] for slot in slots[self.saved.take(slots)].tolist()]
        self.touched[slots] = self.saved[slots] = False

    def give_back(self) -> None:
        """Bring everything back into the table, for records follow."""
        if len(self.slots):
            self.gate.leave(len(self.slots))
            self.store()

    def store(self) -> None:
        """Bring everything back into the table."""
        slots = self.present()
        base, delta = self.table.finish_snapshot(), self.table.delta
        touched, saved = self.touched.take(slots).tolist(), self.saved.take(slots).tolist()
        for (key, entry), new, old in zip(self.table_entries(slots), touched, saved, strict=True):
            if old:
                base[key] = entry
            if new or not old:
                delta[key] = entry
        self.table.removed(self.gone)
        self.clear()


class ColumnPanes(WindowArrays):
    """The panes of aligned windows: arrays, and dicts where that cannot be."""

    def __init__(self, driver: WindowDriver, spec: ColumnarWindow) -> None:
        super().__init__(driver, spec, partials=True)
        self.share(driver)

    def share(self, driver: WindowDriver) -> None:
        """Put panes of arrays where the driver's windows have theirs; their order is that of the record path."""
        assert isinstance(driver.windows, AlignedWindows)
        self.windows = driver.windows
        self.panes = driver.windows.panes

    def _add(self, block: Columns, side: int = 0) -> bool:
        """File the records of an input that are in time; the others go to the record path, where each counts as late."""
        stamps, windows = block.timestamps, self.windows
        if stamps is None or not windows.event_time or int(stamps.min()) >= windows.open_from:
            self._file(block, side)
            return True
        in_time = stamps >= windows.open_from
        self._file(block.keep(in_time), side)
        windows.add(*block.keep(~in_time).rows())
        return True

    def key(self, block: Columns, side: int) -> Column:
        """Return the keys of records of an input."""
        return key_of(self.spec.traced_key.result, block)

    def parts(self, block: Columns, side: int) -> list[Any]:
        """Return what records of an input add to panes."""
        lists = [] if self._listed is None else [listed_records(self._listed, block)]
        return [*lists, *self.contributions(block)]

    def _file(self, block: Columns, side: int) -> None:
        if not block.length:
            return
        key, contributions = self.key(block, side), self.parts(block, side)
        # Nothing is added before every pane has checked that it can take its part.
        steps = [(self.pane(start), mask) for start, mask in self.assign(block)]
        if len(steps) > 1 and any(mask is None for _, mask in steps):
            key = coded(key, block.length)  # sliding windows: of five, each would number the keys of its own
        for pane, mask in steps:
            pane.check(contributions, block.length if mask is None else int(np.count_nonzero(mask)))
        for pane, mask in steps:
            if mask is None:
                pane.add(key, contributions, block.length)
            else:
                cut = [contribution.keep(mask) for contribution in contributions]
                pane.add(key.keep(mask), cut, int(np.count_nonzero(mask)))

    def assign(self, block: Columns) -> Iterator[tuple[int, Array | None]]:
        """Yield the windows that records of the block are in, with a mask of those records (``None``: all)."""
        windows = self.windows
        offset, length = windows.offset, windows.slice
        if not windows.event_time:
            now = self.driver.context.processing_time()
            for start in windows.starts_around(now - (now - offset) % length):
                yield start, None
            return
        stamps = block.timestamps
        if stamps is None:
            raise FallBackToRows("no timestamps")  # the record path raises it
        earliest, latest = int(stamps.min()), int(stamps.max())
        first = earliest - (earliest - offset) % length
        if latest < first + length:
            for start in windows.starts_around(first):
                yield start, None
            return
        slices, at = np.unique((stamps - offset) // length, return_index=True)
        in_order = [number * length + offset for number in slices[np.argsort(at)].tolist()]
        for start in dict.fromkeys(start for first in in_order for start in windows.starts_around(first)):
            yield start, (stamps >= start) & (stamps < start + windows.size)

    def pane(self, start: int) -> Any:
        """Return a pane as arrays, which changes; raise ``FallBackToRows`` if it is a dict of something else."""
        pane = self.panes.get(start)
        if pane is None or isinstance(pane, DeltaTable):
            arrays = self._empty()
            if pane is None:
                self.windows.expect(start)
            else:
                arrays.load(pane.whole())
                arrays.saved = len(pane.base)  # these keys come first
            pane = self.panes[start] = arrays
        pane.changed = True
        return pane

    def _empty(self) -> Any:
        if self._listed is not None:
            return ListPane(self._listed, self.spec.schema)
        return KeyedArrays(self.spec.contents_schema)

    def in_objects(self, start: int) -> DeltaTable:
        """Return a pane as dicts: records come for it."""
        self.gate.leave(len(self.panes[start]))
        objects: DeltaTable = self.panes[start].in_objects()
        self.panes[start] = objects
        return objects

    def fire(self, start: int, window: TimeWindow) -> bool:
        """Fire a pane of arrays, and remove it; ``False``: its results have to be made one by one."""
        if not self.emit_pane(self.panes[start], window):
            return False
        self.windows.table.pop(start)
        return True

    def emit_pane(self, pane: Any, window: TimeWindow) -> bool:
        """Emit the results of a pane as columns; ``False``: they have to be made one by one."""
        if self._results is None or not len(pane):
            return False
        results = self._results(pane.columns(), pane.keys, window.start, window.end)
        if results is not None:
            self.emit(results)
        return results is not None


def functions_of(spec: ColumnarWindow) -> list[TracedFunction]:
    """Return the functions that filing a block stands for."""
    functions = [TracedFunction(spec.key, spec.traced_key)]
    if spec.gap is not None:
        functions.append(TracedFunction(*spec.gap))
    match spec.contents:
        case Aggregated(function) if spec.aggregate is not None:
            created = UserFunction(function.target, "create_accumulator")
            functions.append(TracedFunction(created, spec.aggregate.created))
            functions.append(TracedFunction(UserFunction(function.target, "add"), spec.traced))
        case Reduced(function):
            functions.append(TracedFunction(function, spec.traced))
    return functions


class WindowResults:
    """Makes the results of windows whose spec has ``results``."""

    def __init__(self, spec: ColumnarWindow) -> None:
        assert spec.results is not None
        self._schema: Type = spec.results
        self._spec = spec
        self._functions: list[TracedFunction] = []
        if spec.aggregate is not None and spec.aggregate.result is not None and isinstance(spec.contents, Aggregated):
            called = UserFunction(spec.contents.function.target, "get_result")
            self._functions.append(TracedFunction(called, spec.aggregate.result))
        self._needs_key = False
        if spec.given is not None and spec.function is not None:
            self._functions.append(TracedFunction(spec.function.call, spec.given))
            self._needs_key = _uses_key(spec.given)

    def __call__(self, contents: Columns, keys: list[Any], start: Array | int, end: Array | int) -> Columns | None:
        """Return the results of windows by their contents, keys and bounds; ``None``: they have to be made one by one."""
        return ColumnPath(partial(self._made, keys, start, end), *self._functions)(contents)

    def _made(self, keys: list[Any], start: Array | int, end: Array | int, contents: Columns) -> Columns:
        spec, count = self._spec, contents.length
        stamps = np.full(count, end - 1, np.int64) if isinstance(end, int) else end - 1
        if spec.aggregate is not None and isinstance(spec.contents, Aggregated):
            assert spec.aggregate.result is not None
            assert spec.aggregate.result_schema is not None
            contents = computed(spec.aggregate.result.result, spec.aggregate.result_schema, contents)
        if spec.given is None:
            return contents.stamped(stamps)
        if isinstance(start, int) and start < LOWEST:
            raise FallBackToRows("a window that begins before all time")
        bounds = [Column(INT, each, isinstance(each, int)) for each in (start, end)]
        schema = Tuple((spec.key_schema, contents.schema, Tuple((INT, INT))))
        block = Columns(schema, [*self._key_leaves(keys), *contents.leaves, *bounds], count, stamps)
        return given_of(spec.given.emissions, self._schema, block)

    def _key_leaves(self, keys: list[Any]) -> list[Column]:
        schema = self._spec.key_schema
        if not self._needs_key:
            return [Column(kind, None, True) for _, kind in atomic_fields(schema)]
        if {*map(type, keys)} != {_KEY_CLASSES.get(schema, tuple)}:  # of another program's state
            raise FallBackToRows("keys of another type")
        if not isinstance(schema, Atomic) and not all(fits(key, schema) for key in keys):
            raise FallBackToRows("keys of another type")
        return columns_of(keys, schema).leaves


def _uses_key(given: TracedFlatMap) -> bool:
    expressions = [part for each in given.emissions for part in (*each.guards, *each.conditions, each.result)]
    expressions += [each.items for each in given.emissions if each.items is not None]
    return any(not path or path[0] == 0 for path in paths_of(expressions, 0))


# ---- Count windows over columns: each block is cut into the windows of its keys, and all of them are filled at
# once.
#
# A key is in arrays here, by *slot*, or in the table (``operators/window/driver.py``), never in both: it is taken
# out of the table by its first block of columns, and all go back before a block that the kernels cannot compute.


_MANY = 1 << 16
"""From so many slots on keys without contents are forgotten."""
_AT_ONCE = 1 << 16
"""So many records the windows have, mostly, that are computed together."""

Fired = tuple[list[Any], Array, Any]
"""Of some windows the keys, numbers and contents: columns, or a list where the kernels cannot compute them."""


class CountArrays(KeyedWindowArrays):
    """A count and contents by slot."""

    windows: CountWindows
    gives_at_once = True

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

    def added(self, given: Iterable[Fired]) -> None:
        """Emit the results of windows that are full."""
        made: list[Columns] = []
        for keys, numbers, contents in given:
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

    def _load(self) -> None:
        """Take the entries of new keys out of the table, if they are there."""
        keys, begin, table = self.slots.keys, self._looked, self.table
        if begin == len(keys) or table.is_empty():
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
        old, firsts = slots_of[: cut.old], cut.first[cut.old :]
        leaves = [
            folded_leaf(array.take(old), contribution, cut.of_record, firsts, block.length)
            for array, contribution in zip(arrays.state, contributions, strict=True)
        ]
        left = np.flatnonzero(~cut.full)
        for number, (_, kind) in enumerate(arrays.leaves):
            arrays.state[number][slots_of.take(left)] = leaves[number].take(left)
            if kind == INT:
                arrays.widen(number, *reach(arrays, number, contributions[number], min(block.length, size)))
        contents = leaf_columns(arrays.leaves, [leaf.take(full) for leaf in leaves])
        self._counted(groups, before + groups.counts)
        keys = [self.slots.keys[slot] for slot in slots_of.take(full).tolist()]
        return [(keys, cut.number.take(full), Columns(arrays.schema, contents, len(full)))] if keys else []


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
            none = np.empty(0, LEAF_TYPES[leaves[number][1]])
            states.append(folded_leaf(none, contribution, of_record, firsts, records.length))
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
