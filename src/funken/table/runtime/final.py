"""The ends of bounded queries: rows in order, and what is left of a changelog when all of it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.table.logical import SortKey
from funken.table.runtime.block import TableBlock
from funken.table.runtime.exchange import hashable
from funken.table.runtime.operator import KeyedTableOperator, is_accumulate
from funken.table.runtime.order import sort_key

Tuple = tuple[Any, ...]


class FinalRows(KeyedTableOperator):
    """Emits the rows that are left at the end of the input: by primary key the last one, otherwise as often as they were added.

    All of it is in one task.
    """

    def __init__(self, keys: Sequence[int]) -> None:
        self._keys = tuple(keys)

    def open(self) -> None:
        """Open the state: each row with how often it is there, in the order of arrival."""
        self._state = self.map_state("rows")

    def block(self, block: TableBlock) -> None:
        """Apply the changes of a block."""
        self.store.current_key = ()
        for row, kind in zip(self.inputs[0].tuples(block.batch), block.kind_list(), strict=True):
            name = hashable([row[place] for place in self._keys]) if self._keys else hashable(row)
            before = self._state.get(name)
            if self._keys:
                if is_accumulate(kind):
                    self._state.put(name, (row, 1))
                elif before is not None and (kind == 3 or before[0] == row):
                    self._state.remove(name)
                continue
            count = (0 if before is None else before[1]) + (1 if is_accumulate(kind) else -1)
            if count:
                self._state.put(name, (row, count))
            elif before is not None:
                self._state.remove(name)

    def before_end(self) -> None:
        """Emit what is left."""
        self.store.current_key = ()
        for row, count in self._state.values():
            for _ in range(count):
                self.collect(row)
        self._state.clear()


class Sort(KeyedTableOperator):
    """All rows of a bounded input in order, at its end."""

    def __init__(self, order: Sequence[SortKey]) -> None:
        self._order = order

    def open(self) -> None:
        """Open the state."""
        self._rows = self.list_state("rows")

    def block(self, block: TableBlock) -> None:
        """Keep the rows of a block."""
        self.store.current_key = ()
        self._rows.add_all(list(zip(self.inputs[0].tuples(block.batch), block.kind_list(), strict=True)))

    def before_end(self) -> None:
        """Emit the rows in order."""
        self.store.current_key = ()
        left: dict[Any, list[Any]] = {}
        for row, kind in self._rows.get():
            entry = left.setdefault(hashable(row), [row, 0])
            entry[1] += 1 if is_accumulate(kind) else -1
        key_of = sort_key(self._order)
        for row, count in sorted(left.values(), key=lambda entry: key_of(entry[0])):
            for _ in range(count):
                self.collect(row)
        self._rows.clear()


__all__ = ["FinalRows", "Sort"]
