"""The build side of a join as columns: positions are looked up, and records made of whole columns.

The key is one column of ints. A build side of other keys, or of more than the share of memory holds, is ``poured`` into the
hybrid hash join, which works record by record and spills; ``matched`` is what that has to know of what was joined before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from funken.dataset.columns.block import columns_in
from funken.dataset.columns.keys import key_leaves
from funken.dataset.memory.blocks import Block
from funken.dataset.memory.manager import Share
from funken.dataset.plan.keys import Key

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

_EMITTED = 1 << 15
"""Pairs that are made at a time."""

_POURED = 1 << 13


class ColumnTable:
    """The records of a build side by key.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.columns.block import block_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> key = Key(((0,),))
    >>> table = ColumnTable(MemoryManager(8192, 1, SpillSpace()).share("join"), key, key)
    >>> table.add(block_of(columns_of([(1, "a"), (2, "b")], ("int", "str"))))
    True
    >>> probe = block_of(columns_of([(2, 0.5), (3, 0.5)], ("int", "float")))
    >>> table.can_probe(probe), [(one.to_list(), other.to_list()) for one, other in table.pairs(probe)]
    (True, [([(2, 'b')], [(2, 0.5)])])
    """

    def __init__(self, share: Share, build_key: Key, probe_key: Key, keep_build: bool = False) -> None:
        self._share = share
        self._keys = build_key, probe_key
        self._keep_build = keep_build
        self._matched: Any = None
        self._parts: list[Columns] = []
        self._whole: Columns | None = None
        self._index: Any = None

    def add(self, block: Block) -> bool:
        """Take a block of the build side; return False if it has to be joined record by record."""
        columns = columns_in(block)
        if columns is None or (self._parts and self._parts[0].schema != columns.schema):
            return False
        if _int_leaf(columns, self._keys[0]) is None:
            return False
        # The index has three ints per record, and the columns are there twice while it is made.
        size = 2 * block.size + 24 * columns.length  # type: ignore[attr-defined]
        if self._share.used + size > self._share.limit:
            return False
        self._share.reserve(size)
        self._parts.append(columns)
        return True

    def poured(self) -> Iterator[Block]:
        """Return the records so far, with the memory given back."""
        parts = self._parts if self._whole is None else [self._whole]
        self._parts, self._whole, self._index = [], None, None
        self._share.release()
        for part in parts:
            for at in range(0, part.length, _POURED):
                yield part[at : at + _POURED].to_list()

    def can_probe(self, block: Block) -> bool:
        """Whether the records of a block are joined as columns."""
        columns = columns_in(block)
        if columns is None or _int_leaf(columns, self._keys[1]) is None:
            return False
        return self._whole is not None or bool(self._parts)

    def begin(self) -> None:
        """Begin with a probe side: no record of the build side has a partner yet."""
        self._matched = None

    def pairs(self, block: Block) -> Iterator[tuple[Columns, Columns]]:
        """Return the build records and the probe records of all pairs, some at a time."""
        whole, (probe, keys) = self._made(), self._probed(block)
        for probed, built in self._index.find(keys).pairs(_EMITTED):
            if self._keep_build:
                self._mark(built)
            yield whole.take(built), probe.take(probed)

    def alone(self, block: Block) -> Columns | None:
        """Return the records of a block of the probe side that have no partner."""
        self._made()
        probe, keys = self._probed(block)
        positions = self._index.find(keys).alone()
        return probe.take(positions) if len(positions) else None

    def unmatched(self) -> Columns | None:
        """Return the build records that no probe record has matched."""
        if not self._parts and self._whole is None:
            return None
        whole = self._made()
        rest = whole if self._matched is None else whole.keep(~self._matched)
        return rest if rest.length else None

    def matched(self) -> set[int]:
        """Return the keys that had a partner so far."""
        if self._matched is None or self._whole is None:
            return set()
        whole = self._whole.keep(self._matched)
        leaf = _int_leaf(whole, self._keys[0])
        assert leaf is not None
        return set(whole.leaves[leaf].to_list(whole.length))

    def _mark(self, built: Any) -> None:
        if self._matched is None:
            self._matched = self._index.marks()
        self._matched[built] = True

    def _made(self) -> Columns:
        if self._whole is None:
            from funken.columnar.kernels.columns import joined  # noqa: PLC0415 - loads NumPy
            from funken.columnar.kernels.relational import JoinIndex  # noqa: PLC0415 - loads NumPy

            self._whole, self._parts = joined(self._parts), []
            leaf = _int_leaf(self._whole, self._keys[0])
            assert leaf is not None
            self._index = JoinIndex(self._whole.leaves[leaf].array(self._whole.length))
        return self._whole

    def _probed(self, block: Block) -> tuple[Columns, Any]:
        probe = columns_in(block)
        assert probe is not None
        leaf = _int_leaf(probe, self._keys[1])
        assert leaf is not None
        return probe, probe.leaves[leaf].array(probe.length)

    def close(self) -> None:
        """Drop everything."""
        self._parts, self._whole, self._index = [], None, None
        self._share.close()


def _int_leaf(columns: Columns, key: Key) -> int | None:
    leaves = key_leaves(columns, key)
    return leaves[0] if leaves and len(leaves) == 1 and columns.leaves[leaves[0]].kind == "int" else None
