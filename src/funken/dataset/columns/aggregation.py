"""Reductions by key over blocks of columns, in front of the hash table of records.

Each block is aggregated by itself, and what is left of several is put together when it has doubled. As long as ``add``
is true nothing is in the table; from then on whatever was aggregated so far is ``poured`` into it, as records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.columns.folding import ColumnReduce
from funken.dataset.columns.keys import key_leaves
from funken.dataset.memory.blocks import Block
from funken.dataset.memory.manager import Share
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import Key

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

_MERGED_AT = 1 << 16
"""Aggregates of at least so many keys are put together."""

_EMITTED = 1 << 14
"""Records of an emitted block."""


def column_aggregation(share: Share, key: Key, function: DataSetFunction) -> ColumnAggregation | None:
    """Return what aggregates columns by a key; None if the function cannot be read, or the key is a function."""
    reduce = ColumnReduce(function)
    return ColumnAggregation(share, key, reduce) if key.transparent and reduce.can_be_read else None


class ColumnAggregation:
    """One record per key, as columns.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.api.aggregations import Aggregations, FieldAggregator
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> share = MemoryManager(8192, 1, SpillSpace()).share("sum")
    >>> function = DataSetFunction(FieldAggregator(((Aggregations.SUM, (1,)),), "sum"))
    >>> sums = ColumnAggregation(share, Key(((0,),)), ColumnReduce(function))
    >>> sums.add(block_of(columns_of([("a", 1), ("b", 2), ("a", 3)], ("str", "int")))), sums.add([("a", 1)])
    (True, False)
    >>> [list(block) for block in sums.poured()]
    [[('a', 4), ('b', 2)]]
    """

    def __init__(self, share: Share, key: Key, reduce: ColumnReduce) -> None:
        self._share = share
        self._key = key
        self._reduce = reduce
        self._partials: list[Columns] = []
        self._rows = 0
        self._merge_at = _MERGED_AT
        self._exact = True

    def add(self, block: Block) -> bool:
        """Take a block; return False if it has to be aggregated record by record."""
        columns = columns_in(block)
        if columns is None or not self._exact or (self._partials and self._partials[0].schema != columns.schema):
            return False
        part = self._aggregated(columns)
        if part is None:
            return False
        self._keep(part)
        if self._rows >= self._merge_at or self.is_full:
            self._merge()
        return True

    @property
    def is_full(self) -> bool:
        """Whether the share of memory is used up."""
        return self._share.used > self._share.limit

    def _keep(self, part: Columns) -> None:
        self._partials.append(part)
        self._rows += part.length
        self._share.reserve(_size(part))

    def _aggregated(self, columns: Columns) -> Columns | None:
        keys = key_leaves(columns, self._key)
        return self._reduce.by_key(columns, keys) if keys else None

    def _merge(self) -> None:
        from funken.columnar.kernels.columns import joined  # noqa: PLC0415 - loads NumPy

        if len(self._partials) < 2:
            return
        whole = self._aggregated(joined(self._partials))
        if whole is None:
            self._exact = False
            return
        self._clear()
        self._keep(whole)
        self._merge_at = max(_MERGED_AT, 2 * whole.length)

    def _clear(self) -> None:
        self._partials = []
        self._rows = 0
        self._share.release()

    def poured(self) -> Iterator[Block]:
        """Return what was aggregated so far as blocks, with the memory given back; a key may come more than once."""
        if self._exact:
            self._merge()
        partials = self._partials
        self._clear()
        for part in partials:
            for at in range(0, part.length, _EMITTED):
                yield block_of(part[at : at + _EMITTED])

    @property
    def is_whole(self) -> bool:
        """Whether every key comes once; puts together what is not yet."""
        if self._exact:
            self._merge()
        return len(self._partials) < 2


def _size(columns: Columns) -> int:
    from funken.columnar.kernels.relational import size_of  # noqa: PLC0415 - loads NumPy

    return size_of(columns)
