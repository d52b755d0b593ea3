"""Aligned windows over columns: one array per field of the contents and window, added to a block at a time.

A pane is in arrays while only columns come for it, and becomes a dict, as in ``operators/window/aligned.py``, when a
list comes; when it fires without columns as results, and in a snapshot, it is a dict: a snapshot of one path is one of the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.expressions import Constant
from funken.columnar.flat_maps.emissions import TracedFlatMap, paths_of
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of
from funken.columnar.kernels.evaluation import FallBackToRows, computed, evaluate
from funken.columnar.keyed.keys import coded, key_of
from funken.columnar.keyed.partials import Partials
from funken.columnar.records import fits
from funken.expr.types import INT, LOWEST, STR, Atomic, Tuple, Type, atomic_fields
from funken.operators.columnar.flat_map import given_of
from funken.operators.columnar.panes import ArrayPane, ColumnPane, Contribution, ListPane, listed_records
from funken.operators.columnar.path import ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.user_functions import UserFunction
from funken.operators.window.aligned import AlignedWindows
from funken.operators.window.contents import Aggregated, Reduced
from funken.state.delta_tables import DeltaTable, PaneTable, StateRow, TableSnapshot, snapshot_pane
from funken.windowing.windows import TimeWindow

_MOST_RETURNS = 8
_NONE = Columns(INT, [], 0)
_KEY_CLASSES: dict[Type, type] = {INT: int, STR: str}


class ColumnarWindows(AlignedWindows):
    """Panes of arrays, and of dicts where that cannot be."""

    columnar = True

    def __init__(self, spec: ColumnarWindow) -> None:
        super().__init__(spec)
        self._vector = spec
        self._path = ColumnPath(self._take_columns, *functions_of(spec), partials=True, changes=True)
        #: ``_panes`` under the type it has here; their order is that of the record path
        self._mixed: dict[int, DeltaTable | ColumnPane] = self._panes  # type: ignore[assignment]
        self._table = self._arrays = MixedPanes(self._mixed)
        self._returns = 0
        self._results = None if spec.results is None else WindowResults(spec)
        self._listed = None if spec.aggregate is None else spec.aggregate.listed

    def process_block(self, block: Block) -> None:
        """File a block away."""
        late = self._path(block) if self._returns < _MOST_RETURNS else None
        if late is None:
            self.process(*block.rows())
        elif late.length:
            self.process(*late.rows())  # one by one: each counts as late

    def _take_columns(self, block: Columns) -> Columns:
        """File the records that are in time; return the others."""
        stamps = block.timestamps
        if stamps is None or not self._event_time or int(stamps.min()) >= self._open_from:
            self._file_columns(block)
            return _NONE
        in_time = stamps >= self._open_from
        self._file_columns(block.keep(in_time))
        return block.keep(~in_time)

    def _file_columns(self, block: Columns) -> None:
        if not block.length:
            return
        key = key_of(self._vector.traced_key.result, block)
        listed, contributions = self._listed, list[Any]()
        if listed is not None:
            contributions.append(listed_records(listed, block))
        contributions += [contribution_of(self._vector, block, number) for number in range(len(self._vector.folds))]
        # Nothing is added before every pane has checked that it can take its part.
        steps = [(self._array(start), mask) for start, mask in self._parts(block)]
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

    def _parts(self, block: Columns) -> Iterator[tuple[int, Array | None]]:
        """Yield the windows that records of the block are in, with a mask of those records (``None``: all)."""
        if not self._event_time:
            now = self.context.processing_time()
            for start in self._windows_of(now - (now - self._offset) % self._slice):
                yield start, None
            return
        stamps = block.timestamps
        if stamps is None:
            raise FallBackToRows("no timestamps")  # the record path raises it
        earliest, latest = int(stamps.min()), int(stamps.max())
        first = earliest - (earliest - self._offset) % self._slice
        if latest < first + self._slice:
            for start in self._windows_of(first):
                yield start, None
            return
        slices, at = np.unique((stamps - self._offset) // self._slice, return_index=True)
        in_order = [number * self._slice + self._offset for number in slices[np.argsort(at)].tolist()]
        for start in dict.fromkeys(start for first in in_order for start in self._windows_of(first)):
            yield start, (stamps >= start) & (stamps < start + self._size)

    def _array(self, start: int) -> ColumnPane:
        """Return a pane as arrays; raise ``FallBackToRows`` if it is a dict of something else."""
        found = self._mixed.get(start)
        if found is not None and not isinstance(found, DeltaTable):
            self._arrays.changed.add(start)
            return found
        aggregate = self._vector.aggregate
        pane: ColumnPane
        if self._listed is not None:
            pane = ListPane(self._listed, self._vector.schema)
        else:
            pane = ArrayPane(self._vector.schema if aggregate is None else aggregate.schema)
        if found is None:
            self._expect(start)
        else:
            pane.load(found.whole())
            if found.base:
                self._arrays.saved.add(start)
        self._arrays.changed.add(start)
        self._mixed[start] = pane
        return pane

    def _fire(self, start: int, window: TimeWindow) -> None:
        pane = self._mixed.get(start)
        if self._results is not None and pane is not None and not isinstance(pane, DeltaTable) and len(pane):
            made = self._results(pane.columns(), pane.keys(), window.start, window.end)
            if made is not None:
                self.emitter.flush()  # of windows before this one
                self._arrays.drop(start)
                if made.length:
                    self.output.emit_block(made)
                return
        super()._fire(start, window)

    # ---- called by the record path

    def _pane(self, start: int) -> DeltaTable:
        if not isinstance(self._mixed.get(start), DeltaTable | None):
            self._returns += 1
            self._arrays.to_layers(start)
        return super()._pane(start)


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
        #: arrays that got a record since the last snapshot, and those that are in one
        self.changed: set[int] = set()
        self.saved: set[int] = set()

    def to_layers(self, start: int) -> None:
        """Turn arrays back into dicts."""
        pane = self._mixed[start]
        if not isinstance(pane, DeltaTable):
            layers = self._mixed[start] = DeltaTable()
            stored = pane.stored()
            if start in self.saved:
                layers.base = stored
            if start in self.changed:
                layers.delta = dict(stored)
            self.changed.discard(start)
            self.saved.discard(start)

    def drop(self, namespace: int) -> None:
        """Remove all entries of a window that is in arrays."""
        if namespace in self.saved:
            self.pop(namespace)  # the keys that are in a snapshot are removed there, one by one
            return
        del self._mixed[namespace]
        self.changed.discard(namespace)

    def pop(self, namespace: int) -> dict[Any, Any]:
        """Remove all entries of a window, and return them."""
        if namespace in self._mixed:
            self.to_layers(namespace)
        return super().pop(namespace)

    def begin_snapshot(self, complete: bool, touched: Callable[[StateRow], None]) -> TableSnapshot:
        """Hold everything, or what was written or removed since the last time; arrays are copied."""
        rows: list[Iterator[StateRow]] = []
        for namespace, pane in self._mixed.items():
            if isinstance(pane, DeltaTable):
                rows.append(snapshot_pane(namespace, pane, complete, touched))
            elif complete or namespace in self.changed:
                rows.append(_rows(namespace, pane.copied()))
        self.saved |= self.changed
        self.changed.clear()
        return self._snapshot(complete, rows)


def _rows(namespace: int, entries: Iterator[tuple[Any, Any]]) -> Iterator[StateRow]:
    return ((key, namespace, stored) for key, stored in entries)
