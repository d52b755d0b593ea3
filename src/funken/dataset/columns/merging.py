"""Merge join of two sides of columns that are sorted by their keys: piece by piece of one side, whatever its size.

A piece is a table of as many records as fit into the share. All of the other side up to the last key of the piece is looked up in
it: as both are sorted, so are the pairs. The next piece may begin with that key again, so what the other side has of it
is ``held`` (on disk, if it is much) and looked up once more.

Invariant: what was read of the probe side is at most the last key of the piece, which is the key of all that is held.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from funken.dataset.columns.joining import ColumnTable
from funken.dataset.memory.blocks import Block, Blocks, PushBack
from funken.dataset.memory.buffers import BlockCache
from funken.dataset.memory.manager import Share
from funken.dataset.plan.keys import Key, KeyColumn

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns


class ColumnMerge:
    """Joins by equal keys, in their order; ``by_record`` are the parts of both sides that are left as soon as one is no columns.

    ``whole`` is a table of the entire build side from an earlier merge; if the side fits, ``whole`` is one afterwards.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.columns.block import block_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> memory, keys = MemoryManager(8192, 2, SpillSpace()), (Key(((0,),)), Key(((0,),)))
    >>> def side(text):
    ...     return iter([block_of(columns_of([(n // 2, text) for n in range(1000)], Tuple((INT, STR))))])
    >>> merge = ColumnMerge(side("b"), side("p"), keys, memory.share("merge"), memory.share("merge"))
    >>> found = [pair for one, other in merge.pairs() for pair in zip(one.to_list(), other.to_list())]
    >>> len(found), found == sorted(found), found[1], merge.whole, list(merge.by_record(None))
    (2000, True, ((0, 'b'), (0, 'p')), None, [])
    """

    def __init__(
        self, build: Blocks, probe: Blocks, keys: tuple[Key, Key], share: Share, held: Share,
        whole: ColumnTable | None = None,
    ) -> None:  # fmt: skip
        self.whole = whole
        self._build, self._probe = PushBack(build), PushBack(probe)
        self._table = ColumnTable(share, *keys) if whole is None else whole
        self._held_in, self._held = held, BlockCache(held)
        self._held_key: Any = None
        self._is_last = whole is not None
        self._ended = False
        self._left = False

    def pairs(self) -> Iterator[tuple[Columns, Columns]]:
        """Return the build records and the probe records of the pairs, until all are joined or one side is no columns."""
        while self._piece():
            for block in self._held:
                yield from self._table.pairs(block)
            if not self._is_last and self._held_key != self._table.highest():
                self._drop_held()
            yield from self._probed()
            if self._left:
                return
            if self._is_last:
                break
            if self._ended and not self._held.records:
                break
        if not self._left:
            for rest in (self._probe, self._build if self.whole is None else ()):
                for _ in rest:  # as any join does: its inputs are read to their ends
                    pass

    def _piece(self) -> bool:
        """Fill the table with the next piece; return whether there is one."""
        if self.whole is not None:
            return True
        is_first = not self._table.records
        self._table.clear()
        self._table.fill(self._build)
        following = next(self._build, None)
        if following is not None:
            self._build.back([following])
        if not self._table.records:
            self._left = following is not None
            return False
        self._is_last = following is None
        if is_first and self._is_last:
            self.whole = self._table
        return True

    def _probed(self) -> Iterator[tuple[Columns, Columns]]:
        """Look the probe side up, up to the last key of the piece."""
        table, last = self._table, self._is_last
        high = None if last else table.highest()
        for block in self._probe:
            if not len(block):
                continue
            if not table.can_probe(block):
                self._probe.back([block])
                self._left = True
                return
            if last:
                yield from table.pairs(block)
                continue
            keys = table.keys_of(block)
            end = int(keys.searchsorted(high, "right"))
            if end:
                yield from table.pairs(block[:end])
                self._hold(block[int(keys.searchsorted(high, "left")) : end], high)
            if end < len(block):
                self._probe.back([block[end:]])
                return
        self._ended = True

    def _hold(self, block: Block, key: Any) -> None:
        if len(block):
            self._held_key = key
            self._held.add(block)

    def _drop_held(self) -> None:
        self._held.close()
        self._held = BlockCache(self._held_in)
        self._held_key = None

    def by_record(self, column: KeyColumn | None) -> Iterator[tuple[Blocks, Blocks]]:
        """Return what is left to be joined record by record, in this order; ``column`` has the keys of the probe side."""
        if not self._left:
            return
        if self._table.records:
            high = None if self._is_last else self._table.highest()
            below = self._below(high, column)
            yield self._table.blocks(), below
            for _ in below:
                pass
        if not self._is_last:
            yield self._build, chain(self._held, self._probe)

    def _below(self, high: Any, column: KeyColumn | None) -> Blocks:
        """Take from the probe side what is not above a key."""
        if high is None:
            yield from self._probe
            return
        assert column is not None
        for block in self._probe:
            keys = column(block)
            end = bisect_right(keys, high)
            records: list[Any] = list(block)
            if end:
                self._hold([record for record, key in zip(records[:end], keys, strict=False) if key == high], high)
                yield records[:end]
            if end < len(records):
                self._probe.back([records[end:]])
                return

    def drop(self) -> None:
        """Have no use for the whole."""
        self.whole = None

    def close(self) -> None:
        """Drop what is held, and the piece, unless it is the whole."""
        self._held.close()
        if self.whole is None:
            self._table.clear()
