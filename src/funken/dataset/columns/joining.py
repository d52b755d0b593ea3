"""The build side of a join as columns: positions are looked up, and records made of whole columns.

The key is one column of ints. ``ColumnTable`` is in memory; ``hash_join.py`` has what to do with more than fits, ``merging.py``
what sorted sides make of it. Both go over to records for other build keys only, never for want of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from funken.dataset.columns.block import block_of, columns_in
from funken.dataset.columns.keys import key_leaves
from funken.dataset.memory.blocks import Block, PushBack, weighed, weight
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Column
from funken.dataset.plan.keys import Key
from funken.expr.types import INT

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

Found = list[tuple[Any, Any]] | tuple["Columns | None", "Columns | None"]
"""Pairs of probe and build records; or build records and probe records of pairs. What has no partner is with None."""

_EMITTED = 1 << 15
"""Pairs that are made at a time."""

_POURED = 1 << 13


class ColumnTable:
    """The records of a build side by key; ``size`` is what it has reserved of its share, which others may use, too.

    >>> from funken.expr.types import FLOAT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> key = Key(((0,),))
    >>> table = ColumnTable(MemoryManager(8192, 1, SpillSpace()).share("join"), key, key)
    >>> table.append(block_of(columns_of([(1, "a"), (2, "b")], Tuple((INT, STR)))))
    >>> probe = block_of(columns_of([(2, 0.5), (3, 0.5)], Tuple((INT, FLOAT))))
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
        self.records = 0
        self.size = 0

    # ---- build

    def takes(self, block: Block) -> bool:
        """Whether a block has the columns of those before, and a key of ints."""
        columns = columns_in(block)
        if columns is None or (self._parts and self._parts[0].schema != columns.schema):
            return False
        return int_leaf(columns, self._keys[0]) is not None

    def fits(self, block: Block) -> bool:
        """Whether there is memory for a block of columns."""
        return self._share.fits(cost_of(block))

    def append(self, block: Block, cost: int = 0) -> None:
        """Take a block of columns, whether there is memory or not."""
        columns, cost = columns_in(block), cost or cost_of(block)
        assert columns is not None
        self._share.reserve(cost)
        self.size += cost
        self.records += columns.length
        self._parts.append(columns)

    def fill(self, blocks: PushBack) -> None:
        """Take blocks as long as they are columns and there is memory, but one part of a block in any case."""
        for block in blocks:
            if not self.takes(block):
                blocks.back([block])
                return
            parts = list(weighed(block, self._share.grain))
            for at, (part, _) in enumerate(parts):
                if self.records and not self.fits(part):
                    blocks.back(left for left, _ in parts[at:])
                    return
                self.append(part)

    def taken(self) -> list[Block]:
        """Remove and return the records so far, with the memory given back."""
        parts = self._parts if self._whole is None else [self._whole]
        self.clear()
        return list(map(block_of, parts))

    def highest(self) -> int:
        """Return the key of the last record."""
        whole = self._made()
        leaf = int_leaf(whole, self._keys[0])
        assert leaf is not None
        return int(whole.leaves[leaf].array(whole.length)[-1])

    # ---- probe

    def can_probe(self, block: Block) -> bool:
        """Whether the records of a block are joined as columns."""
        columns = columns_in(block)
        return columns is not None and int_leaf(columns, self._keys[1]) is not None and self.records > 0

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

    def joined(self, block: Block, keys: Column, keep_probe: bool = False) -> Iterator[Found]:
        """Return the pairs of a block, as columns if it has these; with ``keep_probe`` also what has no partner."""
        if not self.can_probe(block):
            yield from self._of_records(block, keys, keep_probe)
            return
        yield from self.pairs(block)
        if keep_probe:
            probe, its_keys = self._probed(block)
            positions = self._index.find(its_keys).alone()
            if len(positions):
                yield None, probe.take(positions)

    def _of_records(self, block: Block, keys: Column, keep_probe: bool) -> Iterator[Found]:
        """Look records up whose keys may be of any type: those that equal an int of 64 bits may have partners."""
        from funken.columnar.kernels.columns import column_of  # noqa: PLC0415 - loads NumPy

        whole, numbers = self._made(), list(map(_number, keys(block)))
        records = [record for record, number in zip(block, numbers, strict=True) if number is not None]
        found = self._index.find(column_of([each for each in numbers if each is not None], INT).array(len(records)))
        for probed, built in found.pairs(_EMITTED):
            if self._keep_build:
                self._mark(built)
            yield list(zip(map(records.__getitem__, probed.tolist()), whole.take(built).to_list(), strict=True))
        if keep_probe:
            alone = [record for record, number in zip(block, numbers, strict=True) if number is None]
            yield [(record, None) for record in (*alone, *map(records.__getitem__, found.alone().tolist()))]

    def unmatched(self) -> Iterator[Found]:
        """Return the build records that no probe record has matched."""
        if self.records:
            whole = self._made()
            rest = whole if self._matched is None else whole.keep(~self._matched)
            if rest.length:
                yield rest, None

    def _mark(self, built: Any) -> None:
        if self._matched is None:
            self._matched = self._index.marks()
        self._matched[built] = True

    def _made(self) -> Columns:
        if self._whole is None:
            from funken.columnar.kernels.columns import joined  # noqa: PLC0415 - loads NumPy
            from funken.columnar.keyed.groups import JoinIndex  # noqa: PLC0415 - loads NumPy

            self._whole, self._parts = joined(self._parts), []
            leaf = int_leaf(self._whole, self._keys[0])
            assert leaf is not None
            self._index = JoinIndex(self._whole.leaves[leaf].array(self._whole.length))
        return self._whole

    def _probed(self, block: Block) -> tuple[Columns, Any]:
        probe = columns_in(block)
        assert probe is not None
        leaf = int_leaf(probe, self._keys[1])
        assert leaf is not None
        return probe, probe.leaves[leaf].array(probe.length)

    def clear(self) -> None:
        """Drop the records."""
        self._parts, self._whole, self._index, self._matched = [], None, None, None
        self._share.release(self.size)
        self.records = self.size = 0


def int_leaf(columns: Columns, key: Key) -> int | None:
    """Return the number of the column of ints that a key is; None if it is anything else."""
    leaves = key_leaves(columns, key)
    return leaves[0] if leaves and len(leaves) == 1 and columns.leaves[leaves[0]].kind == INT else None


def cost_of(block: Block) -> int:
    """Return what a table takes for a block of columns."""
    # The index has three ints per record, and the columns are there twice while it is made.
    return 2 * weight(block) + 24 * len(block)


def _number(key: Any) -> int | None:
    """Return the int of 64 bits that a key equals.

    >>> [_number(key) for key in (1, True, 2.0, 2.5, "2", None, 2**63, float("nan"))]
    [1, 1, 2, None, None, None, None, None]
    """
    try:
        number = int(key)
    except (TypeError, ValueError, ArithmeticError):
        return None
    return number if number == key and -(2**63) <= number < 2**63 else None


def poured(parts: Iterable[Columns]) -> Iterator[Block]:
    """Return columns as small blocks of records."""
    for part in parts:
        for at in range(0, part.length, _POURED):
            yield part[at : at + _POURED].to_list()
