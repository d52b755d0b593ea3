"""Reductions by key over blocks of columns, in front of the hash table of records.

Records that an opaque function has made are lifted into columns, if they are tuples of plain values: to group arrays, with
that, takes less than a table of tuples, which have to be pickled to know their weight.

Blocks are gathered and aggregated together, again when what is left of them has doubled. What does not fit goes to
disk in partitions, which are aggregated one after the other. As long as ``add`` is true nothing is in the table; from then
on whatever was aggregated so far is ``poured`` into it, as records.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.columns.folding import ColumnReduce
from funken.dataset.columns.keys import key_leaves
from funken.dataset.columns.lifting import lifted
from funken.dataset.columns.partitions import SpilledColumns, cut_by_hash
from funken.dataset.memory.blocks import Block, weighed, weight
from funken.dataset.memory.manager import Share
from funken.dataset.memory.partitions import FAN_OUT, MAX_LEVEL
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import Key

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

_MERGED_AT = 1 << 16
"""So many records, at least, are gathered before they are aggregated."""

_EMITTED = 1 << 14
"""Records of an emitted block."""

_LIFTED_FROM = 256
"""Lists are lifted if the first one has so many records."""


def column_aggregation(
    share: Share, key: Key, function: DataSetFunction, spills: bool = False, lifts: bool = True
) -> ColumnAggregation | None:
    """Return what aggregates columns by a key; None if the function cannot be read, or the key is a function.

    ``lifts``: lists of tuples become columns.
    """
    reduce = ColumnReduce(function)
    if not key.transparent or not reduce.can_be_read:
        return None
    return ColumnAggregation(share, key, reduce, spills, lifts=lifts)


class ColumnAggregation:
    """One record per key, as columns; ``spills`` says whether what is too much goes to disk, or ``is_full`` is told.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.api.aggregations import Aggregations, FieldAggregator
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> share = MemoryManager(8192, 1, SpillSpace()).share("sum")
    >>> function = DataSetFunction(FieldAggregator(((Aggregations.SUM, (1,)),), "sum"))
    >>> sums = ColumnAggregation(share, Key(((0,),)), ColumnReduce(function))
    >>> sums.add(block_of(columns_of([("a", 1), ("b", 2), ("a", 3)], Tuple((STR, INT))))), sums.add([("a", 1)])
    (True, False)
    >>> [list(block) for block in sums.poured()]
    [[('a', 4), ('b', 2)]]
    """

    def __init__(
        self, share: Share, key: Key, reduce: ColumnReduce, spills: bool = False, level: int = 0, lifts: bool = False
    ) -> None:
        self._share = share
        self._lifts = lifts
        self._spills = spills
        self._level = level
        self._size = 0
        self._schema: Any = None
        self._spilled: list[SpilledColumns] = []
        self._key = key
        self._reduce = reduce
        self._partials: list[Columns] = []
        self._rows = 0
        self._merge_at = _MERGED_AT
        self._is_merged = True
        self._exact = True

    def add(self, block: Block) -> bool:
        """Take a block; return False if it has to be aggregated record by record."""
        if not self._exact:
            return False
        columns = columns_in(block)
        if columns is None and self._lifts and len(block) >= (1 if self._schema else _LIFTED_FROM):
            columns = lifted(block)
        if columns is None or self._schema not in (None, columns.schema) or not key_leaves(columns, self._key):
            return False
        self._schema = columns.schema
        for part, size in weighed(block_of(columns), self._share.own // 4):
            own = columns_in(part)
            assert own is not None
            self._keep(own, size)
            self._is_merged = False
            if self._rows >= self._merge_at or self.is_full:
                self._merge()
                self._make_space()
        return True

    @property
    def is_full(self) -> bool:
        """Whether the share of memory is used up."""
        # At the last level keys that differ have equal hashes: there is no smaller part, so they stay together.
        kept = self._spills and self._exact and self._level >= MAX_LEVEL
        return self._share.used > self._share.limit and not kept

    # ---- beyond memory

    def _make_space(self) -> None:
        share = self._share
        may_spill = self._spills and self._exact and self._level < MAX_LEVEL
        if may_spill and share.used > share.limit // 2 and not share.fits(share.used):
            self._write()

    def _write(self) -> None:
        if not self._spilled:
            self._spilled = [SpilledColumns(self._share) for _ in range(FAN_OUT)]
        partials = self._partials
        self._clear()
        for part in partials:
            for spilled, own in zip(self._spilled, cut_by_hash(part, self._key, self._level), strict=True):
                if own is not None:
                    spilled.add(own)
        for spilled in self._spilled:
            spilled.flush()

    def partitions(self) -> Iterator[tuple[ColumnAggregation, Iterator[Block]]]:
        """Return what is on disk, if anything is: partitions, each with what aggregates it; nothing is in memory then."""
        if self._spilled:
            self._write()
        for spilled in self._spilled:
            following = ColumnAggregation(self._share, self._key, self._reduce, True, self._level + 1)
            yield following, map(block_of, spilled.parts())

    def _keep(self, part: Columns, size: int) -> None:
        self._partials.append(part)
        self._rows += part.length
        self._size += size
        self._share.reserve(size)

    def _merge(self) -> None:
        """Make one record per key of what is in memory; if that cannot be done exactly, it stays as it is."""
        from funken.columnar.kernels.columns import joined  # noqa: PLC0415 - loads NumPy

        if self._is_merged:
            return
        whole = joined(self._partials)
        keys = key_leaves(whole, self._key)
        merged = self._reduce.by_key(whole, keys) if keys else None
        if merged is None:
            self._exact = False
            return
        self._clear()
        self._keep(merged, weight(block_of(merged)))
        self._merge_at = max(_MERGED_AT, 2 * merged.length)

    def _clear(self) -> None:
        self._partials = []
        self._is_merged = True
        self._rows = 0
        self._share.release(self._size)
        self._size = 0

    def poured(self) -> Iterator[Block]:
        """Return what was aggregated so far as blocks, with the memory given back; a key may come more than once."""
        if self._exact:
            self._merge()
        spilled, self._spilled = self._spilled, []
        partials = self._partials
        self._clear()
        for part in chain(*(each.parts() for each in spilled), partials):
            for at in range(0, part.length, _EMITTED):
                yield block_of(part[at : at + _EMITTED])

    @property
    def is_whole(self) -> bool:
        """Whether every key comes once; puts together what is not yet."""
        if self._exact:
            self._merge()
        return self._is_merged
