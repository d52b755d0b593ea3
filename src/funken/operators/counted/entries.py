"""What count windows over columns share: a count and contents by key, in arrays or in the table of the record path.

A key is in arrays here, by *slot*, or in the table (``operators/window/counts.py``), never in both: it is taken out of the
table by its first block of columns, and all go back before a block that the kernels cannot compute. A snapshot of one path is
a snapshot of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Array, Column, Columns
from funken.columnar.keyed.kept import grown
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.keyed_arrays import KeyedArrays
from funken.operators.columnar.path import ColumnPath
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.columnar.window import WindowResults, functions_of
from funken.operators.counted.lists import KeyedLists
from funken.operators.window.counts import CountOperator
from funken.state.delta_tables import ExtendedDeltaTable

_MOST_RETURNS = 8
"""So often everything goes back to the table; then the operator stays with it."""
_SMALL, _LARGE, _BLOCKS = 400, 800, 8
"""Records are counted one by one if blocks have fewer on average, over about so many blocks, until they have more.

A block costs 0.2 to 0.6 ms, however few records it has.
"""


class CountsInArrays(CountOperator):
    """Arrays in front of the table; comes before the logic of the record path among the bases of a class."""

    columnar = True

    def _begin(self, spec: ColumnarWindow) -> None:
        self._vector = spec
        self._schema = spec.schema if spec.aggregate is None else spec.aggregate.schema
        self._mixed = ExtendedDeltaTable(self, tuple, lambda key, saved: [saved[0], self.revive(saved[1])])
        self._entries = self._mixed
        self._path: ColumnPath[Any] = ColumnPath(self._take_columns, *functions_of(spec), changes=True)
        self._results = None if spec.results is None else WindowResults(spec)
        self._returns = 0
        #: how many records blocks have on average, and whether that is too few; the first blocks of a task are smaller
        self._size_of_blocks: float = _LARGE
        self._are_small = False
        self._gone: list[Any] = []
        self._clear()

    def _clear(self) -> None:
        self._arrays = self._empty()
        #: slots below this were looked for in the table
        self._looked = 0
        #: by slot: how many records there were, whether there are contents, whether the key is new since the last
        #: snapshot, and whether it is in one
        self._counts: Array = np.empty(0, np.int64)
        self._filled: Array = np.empty(0, np.bool_)
        self._touched: Array = np.empty(0, np.bool_)
        self._saved: Array = np.empty(0, np.bool_)

    def _empty(self) -> KeyedArrays | KeyedLists:
        """Return where contents are kept by key."""
        raise NotImplementedError

    def _take_columns(self, block: Columns) -> Any:
        """Count off a block; return what has fired."""
        raise NotImplementedError

    def _present(self) -> Array:
        """Return of which slots there is something to save."""
        return self._filled[: len(self._arrays)]

    def _taken(self, block: Block) -> Any:
        """Count off a block of columns; return what has fired. ``None``: its records have to be counted off one by one."""
        self._size_of_blocks += (len(block) - self._size_of_blocks) / _BLOCKS
        self._are_small = self._size_of_blocks < (_LARGE if self._are_small else _SMALL)
        return None if self._are_small or self._returns >= _MOST_RETURNS else self._path(block)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Count off records."""
        if len(self._arrays):
            self._returns += not self._are_small
            self._store()
        super().process(values, timestamps)

    def _found(self, key: Column, length: int) -> Array:
        """Return the slot of each record; keys that are in the table are no longer there then."""
        numbers = self._arrays.find(key, length)
        if len(self._counts) < self._arrays.room:
            for name in ("_counts", "_filled", "_touched", "_saved"):
                setattr(self, name, grown(getattr(self, name), self._arrays.room))
        self._load()
        return numbers

    # ---- between arrays and table

    def _load(self) -> None:
        """Take the entries of new keys out of the table, if they are there."""
        keys, begin = self._arrays.slots.keys, self._looked
        table = self._mixed
        if begin == len(keys) or not (table.delta or table.base):
            self._looked = len(keys)
            return
        found = {slot: entry for slot in range(begin, len(keys)) if (entry := table.get(keys[slot])) is not None}
        self._check_counts([count for count, _ in found.values()])
        held = {slot: entry[1] for slot, entry in found.items() if entry[1] is not None}
        self._arrays.put(list(held), list(held.values()))  # falls back if one is of another type
        self._looked = len(keys)
        for slot, (count, contents) in found.items():
            self._counts[slot], self._filled[slot] = count, contents is not None
            self._touched[slot], self._saved[slot] = table.take_out(keys[slot])

    def _check_counts(self, counts: list[int]) -> None:
        """Raise ``FallBackToRows`` for counts of another program's state that no array can go on from."""

    def rows(self, slots: Array) -> Iterator[tuple[Any, tuple[int, Any]]]:
        """Return what gives out keys and their entries, as they are now."""
        known, revive, filled = self._arrays.slots.keys, self.revive, self._filled.take(slots)
        keys, counts = [known[slot] for slot in slots.tolist()], self._counts.take(slots).tolist()
        entries = self._arrays.entries(slots[filled])  # where nothing was ever kept, arrays have no text
        return (
            (key, (count, revive(next(entries)[1]) if has else None))
            for key, count, has in zip(keys, counts, filled.tolist(), strict=True)
        )

    def take_written(self, complete: bool) -> tuple[Iterator[tuple[Any, tuple[int, Any]]], list[Any]]:
        """Return what gives out the entries that changed since the last time, or all; and keys that are gone."""
        present = self._present()
        slots = np.flatnonzero(present if complete else present & self._touched[: len(present)])
        self._touched[:] = False
        self._saved[slots] = True
        gone, self._gone = self._gone, []
        return self.rows(slots), gone

    def kept(self) -> int:
        """Return how many entries are in the arrays."""
        return int(np.count_nonzero(self._present()))

    def _store(self) -> None:
        """Bring everything back into the table."""
        slots = np.flatnonzero(self._present())
        base = self._entries.finish_snapshot()
        touched, saved = self._touched.take(slots).tolist(), self._saved.take(slots).tolist()
        for (key, (count, contents)), new, old in zip(self.rows(slots), touched, saved, strict=True):
            entry = [count, contents]
            if old:
                base[key] = entry
            if new or not old:
                self._entries.delta[key] = entry
        self._mixed.removed(self._gone)
        self._gone = []
        self._clear()


__all__ = ["CountsInArrays"]
