"""Columns on disk, cut by the hash of a key: what join and aggregation do with what does not fit.

Each level uses other bits of the hash, so that a partition which is too large can be cut again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.columns.keys import key_leaves
from funken.dataset.memory.blocks import weighed
from funken.dataset.memory.manager import Share
from funken.dataset.memory.partitions import FAN_OUT
from funken.dataset.memory.spill import Extent
from funken.dataset.plan.keys import Key

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

_GATHERED = 4
"""The partitions together gather at most one of so many parts of their share before they write."""


class SpilledColumns:
    """The columns of one partition in the spill file of a share; small parts are put together before they are written.

    >>> from funken.expr.types import INT
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> memory = MemoryManager(64 * 1024, 1, SpillSpace())
    >>> spilled = SpilledColumns(memory.share("join"))
    >>> for start in range(0, 1000, 10):
    ...     spilled.add(columns_of(list(range(start, start + 10)), INT))
    >>> spilled.flush()
    >>> [part.length for part in spilled.parts()][:3], spilled.records, memory.used
    ([80, 80, 80], 1000, 0)
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._most = max(256, share.own // (_GATHERED * FAN_OUT))
        self._waiting: list[Columns] = []
        self._size = 0
        self._extents: list[Extent] = []
        self.records = 0

    def add(self, columns: Columns) -> None:
        """Append columns, which have the schema of those before."""
        for part, size in weighed(block_of(columns), self._share.grain):
            own = columns_in(part)
            assert own is not None
            self._waiting.append(own)
            self._size += size
            self._share.reserve(size)
            self.records += own.length
            if self._size >= self._most:
                self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        from funken.columnar.kernels.columns import joined  # noqa: PLC0415 - loads NumPy

        if self._waiting:
            self._extents.append(self._share.file().write(block_of(joined(self._waiting))))
        self._waiting = []
        self._share.release(self._size)
        self._size = 0

    def parts(self) -> Iterator[Columns]:
        """Return everything, in the order in which it came."""
        self.flush()
        for block in self._share.file().blocks(self._extents) if self._extents else ():
            columns = columns_in(block)
            assert columns is not None
            yield columns


def cut_by_hash(columns: Columns, key: Key, level: int) -> list[Columns | None]:
    """Cut columns into the partitions of a level, by a key that they have; None for a partition without records."""
    from funken.columnar.keyed.relational import cut_up, partitions_of  # noqa: PLC0415 - loads NumPy

    leaves = key_leaves(columns, key)
    assert leaves is not None
    keys = [columns.leaves[leaf] for leaf in leaves]
    return cut_up(columns, partitions_of(keys, columns.length, level), FAN_OUT)
