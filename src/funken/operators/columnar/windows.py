"""Windows over columns: what all of them share, and aligned windows, whose panes have one array per field of the contents.

A pane is in arrays while only columns come for it, and becomes a dict, as in ``operators/window/aligned.py``, when records
come; when it fires without columns as results, and in a snapshot, it is a dict: a snapshot of one path is one of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.expressions import Constant
from funken.columnar.flat_maps.emissions import TracedFlatMap, paths_of
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of
from funken.columnar.kernels.evaluation import FallBackToRows, computed, evaluate
from funken.columnar.keyed.kept import grown
from funken.columnar.keyed.keys import Slots, coded, key_of
from funken.columnar.keyed.partials import Partials
from funken.columnar.records import fits
from funken.expr.types import INT, LOWEST, STR, Atomic, Tuple, Type, atomic_fields
from funken.operators.columnar.contents import ColumnPane, Contribution, KeyedArrays, ListPane, listed_records
from funken.operators.columnar.flat_map import given_of
from funken.operators.columnar.path import ColumnPath, TracedFunction, why_in_rows
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.user_functions import UserFunction
from funken.operators.window.aligned import AlignedWindows
from funken.operators.window.contents import Aggregated, Reduced
from funken.operators.window.driver import WindowDriver
from funken.state.delta_tables import DeltaTable, ExtendedDeltaTable, PaneTable, StateRow, TableSnapshot, snapshot_pane
from funken.windowing.windows import TimeWindow

_KEY_CLASSES: dict[Type, type] = {INT: int, STR: str}


class WindowArrays:
    """Base of the windows over columns: the way of a block into the arrays, and of results out of them."""

    most_returns = 8
    """So often what is in arrays goes back to objects; then the operator stays with these."""

    def __init__(self, driver: WindowDriver, spec: ColumnarWindow, partials: bool = False) -> None:
        self.driver = driver
        self.spec = spec
        self.returns = 0
        """How often what is in arrays went back to objects."""
        self._path = ColumnPath(self._add, *functions_of(spec), partials=partials, changes=True, of=driver)
        self._results = None if spec.results is None else WindowResults(spec)
        self._listed = None if spec.aggregate is None else spec.aggregate.listed

    def take(self, block: Block) -> bool:
        """Add a block; ``False``: nothing was changed, and its records have to be added one by one."""
        if self.returns >= self.most_returns:
            self._path.left(block, why_in_rows(batch=False))
            return False
        return self._path(block) is not None

    def _add(self, block: Columns) -> Any:
        """Add a block; raise ``FallBackToRows`` before anything is changed, and never return ``None``."""
        raise NotImplementedError

    def give_back(self) -> None:
        """Let records follow."""

    def close(self, watermark: int) -> None:
        """Fire the event-time windows that end at or before ``watermark``."""

    def contributions(self, block: Columns) -> list[Contribution]:
        """Return what a block adds to the fields of the contents."""
        return [contribution_of(self.spec, block, number) for number in range(len(self.spec.folds))]

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
        self.windows: Any = driver.windows
        self.table = self.windows.table = ExtendedDeltaTable(self, self.windows.save, self.windows.revive)
        self.clear()

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
            self.returns += 1
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
        self.panes: dict[int, DeltaTable | ColumnPane] = driver.windows.panes
        self.table = driver.windows.table = MixedPanes(self.panes)

    def _add(self, block: Columns) -> bool:
        """File the records that are in time; the others go to the record path, where each counts as late."""
        stamps, windows = block.timestamps, self.windows
        if stamps is None or not windows.event_time or int(stamps.min()) >= windows.open_from:
            self._file(block)
            return True
        in_time = stamps >= windows.open_from
        self._file(block.keep(in_time))
        windows.add(*block.keep(~in_time).rows())
        return True

    def _file(self, block: Columns) -> None:
        if not block.length:
            return
        key = key_of(self.spec.traced_key.result, block)
        contributions: list[Any] = [] if self._listed is None else [listed_records(self._listed, block)]
        contributions += self.contributions(block)
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
                self.table.saved[start] = len(pane.base)  # these keys come first
            pane = self.panes[start] = arrays
        self.table.changed.add(start)
        return pane

    def _empty(self) -> ColumnPane:
        if self._listed is not None:
            return ListPane(self._listed, self.spec.schema)
        return KeyedArrays(self.spec.contents_schema)

    def in_objects(self, start: int) -> DeltaTable:
        """Return a pane as dicts: records come for it."""
        self.returns += 1
        return self.table.in_objects(start)

    def fire(self, start: int, window: TimeWindow) -> bool:
        """Fire a pane of arrays, and remove it; ``False``: its results have to be made one by one."""
        pane: Any = self.panes[start]
        if self._results is None or not len(pane):
            return False
        results = self._results(pane.columns(), pane.keys, window.start, window.end)
        if results is None:
            return False
        self.table.drop(start)
        self.emit(results)
        return True


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


def contribution_of(spec: ColumnarWindow, block: Columns, number: int) -> Contribution:
    """Return what a block adds to one leaf of the contents."""
    fold = spec.folds[number]
    if spec.aggregate is None:
        of = evaluate(fold.of, block.length, block)
        assert isinstance(of, Column)
        return Contribution(fold.how, of.cast(fold.kind), block.leaves[number], bits=fold.bits)
    beginning = spec.aggregate.beginnings[number]
    if fold.how == "first":  # nothing of a record is added to what stays as it was
        return Contribution(fold.how, Column(fold.kind, beginning, True), None, beginning)
    of = evaluate(fold.of, block.length, block)
    assert isinstance(of, Column)
    if fold.how == "sum" and isinstance(fold.of, Constant) and isinstance(block, Partials):
        of = Column(of.kind, block.weights * of.data)  # once for each record that a partial stands for
    return Contribution(fold.how, of.cast(fold.kind), None, beginning)


class MixedPanes(PaneTable):
    """A ``PaneTable`` some of whose panes are arrays: of these, one that got a record is written whole."""

    __slots__ = ("_mixed", "changed", "saved")

    def __init__(self, panes: dict[int, DeltaTable | ColumnPane]) -> None:
        super().__init__(panes)  # type: ignore[arg-type]
        self._mixed = panes
        #: arrays that got a record since the last snapshot, and how many keys of them are in one
        self.changed: set[int] = set()
        self.saved: dict[int, int] = {}

    def in_objects(self, start: int) -> DeltaTable:
        """Turn arrays back into dicts, and return these."""
        pane = self._mixed[start]
        if isinstance(pane, DeltaTable):
            return pane
        layers = self._mixed[start] = DeltaTable()
        stored = dict(pane.copied())
        if self.saved.pop(start, 0):
            layers.base = stored
        if start in self.changed:
            layers.delta = dict(stored)
        self.changed.discard(start)
        return layers

    def drop(self, namespace: int) -> None:
        """Remove all entries of a window that is in arrays."""
        pane: Any = self._mixed.pop(namespace)
        if count := self.saved.pop(namespace, 0):  # the keys that are in a snapshot are removed there, one by one
            self._gone.append((namespace, tuple(pane.keys[:count])))
        self.changed.discard(namespace)

    def pop(self, namespace: int) -> dict[Any, Any]:
        """Remove all entries of a window, and return them."""
        if namespace in self._mixed:
            self.in_objects(namespace)
        return super().pop(namespace)

    def begin_snapshot(self, complete: bool, touched: Callable[[StateRow], None]) -> TableSnapshot:
        """Hold everything, or what was written or removed since the last time; arrays are copied."""
        rows: list[Iterator[StateRow]] = []
        for namespace, pane in self._mixed.items():
            if isinstance(pane, DeltaTable):
                rows.append(snapshot_pane(namespace, pane, complete, touched))
            elif complete or namespace in self.changed:
                rows.append(_rows(namespace, pane.copied()))
                self.saved[namespace] = len(pane)
        self.changed.clear()
        return self._snapshot(complete, rows)


def _rows(namespace: int, entries: Iterator[tuple[Any, Any]]) -> Iterator[StateRow]:
    return ((key, namespace, stored) for key, stored in entries)
