"""Merge join of two sides that are sorted by their keys, piece by piece of one side, whatever its size.

A piece is a table of as many records as fit into the share, of columns or of records. All of the other side up to the last key
of the piece is looked up in it: as both are sorted, so are the pairs. The next piece may begin with that key again, so what the
other side has of it is ``held`` (on disk, if it is much) and looked up once more.

Invariant: what was read of the probe side is at most the last key of the piece, which is the key of all that is held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from funken.dataset.columns.hash_join import Sides, Table, keys_of, table_of
from funken.dataset.columns.joining import Found
from funken.dataset.memory.blocks import Block, Blocks, PushBack
from funken.dataset.memory.buffers import BlockCache
from funken.dataset.memory.manager import Share


class PiecewiseMerge:
    """Joins by equal keys, in their order; ``sides`` extracts the keys of the build side and of the probe side.

    ``whole`` is a table of the entire build side from an earlier merge; if the side fits, ``whole`` is one afterwards.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.columns.block import block_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> from funken.dataset.plan.keys import Key, KeyColumn
    >>> memory, key = MemoryManager(8192, 2, SpillSpace()), KeyColumn(Key(((0,),)), "merge")
    >>> def side(text):
    ...     return iter([block_of(columns_of([(n // 2, text) for n in range(1000)], Tuple((INT, STR))))])
    >>> merge = PiecewiseMerge(side("b"), side("p"), (key, key), memory.share("merge"), memory.share("merge"))
    >>> found = [pair for one, other in merge.pairs() for pair in zip(one.to_list(), other.to_list())]
    >>> len(found), found == sorted(found), found[1], merge.whole
    (2000, True, ((0, 'b'), (0, 'p')), None)
    """

    def __init__(
        self, build: Blocks, probe: Blocks, sides: Sides, share: Share, held: Share, whole: Table | None = None
    ) -> None:
        self.whole = self._table = whole
        self._build, self._probe = PushBack(build), PushBack(probe)
        self._sides, self._share = sides, share
        self._held_in, self._held = held, BlockCache(held)
        self._held_key: Any = None
        self._is_last = whole is not None
        self._ended = False

    def pairs(self) -> Iterator[Found]:
        """Return all pairs."""
        while (table := self._piece()) is not None:
            for block in self._held:
                yield from table.joined(block, self._sides[1])
            if not self._is_last and self._held_key != table.highest():
                self._drop_held()
            yield from self._probed(table)
            if self._is_last or (self._ended and not self._held.records):
                break
        for rest in (self._probe, self._build if self.whole is None else ()):
            for _ in rest:  # as any join does: its inputs are read to their ends
                pass

    def _piece(self) -> Table | None:
        """Return the next piece; None if there is none."""
        if self.whole is not None:
            return self.whole
        is_first = self._table is None
        if self._table is not None:
            self._table.clear()
        first = next(self._build, None)
        if first is None:
            return None
        self._build.back([first])
        table = self._table = table_of(self._share, self._sides, first)
        table.fill(self._build)
        following = next(self._build, None)
        if following is not None:
            self._build.back([following])
        self._is_last = following is None
        if is_first and self._is_last:
            self.whole = table
        return table

    def _probed(self, table: Table) -> Iterator[Found]:
        """Look the probe side up, up to the last key of the piece."""
        keys, last = self._sides[1], self._is_last
        high = None if last else table.highest()
        for block in self._probe:
            if not len(block):
                continue
            if last:
                yield from table.joined(block, keys)
                continue
            its_keys = keys_of(block, keys)
            end = bisect_right(its_keys, high)
            if end:
                yield from table.joined(block[:end], keys)
                self._hold(block[bisect_left(its_keys, high) : end], high)
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

    def drop(self) -> None:
        """Have no use for the whole."""
        self.whole = None

    def close(self) -> None:
        """Drop what is held, and the piece, unless it is the whole."""
        self._held.close()
        if self.whole is None and self._table is not None:
            self._table.clear()
