"""Joins of blocks: by a hash table, by merging sorted sides, and their partitions on disk.

Hash partitions on disk: how aggregation and join cut what does not fit into parts that do, as columns or as records.

Each level uses other bits of the hash, so that a partition which is too large can be cut again. Both forms of a block have the
same partitions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from funken.dataset.columns.block import block_of, columns_in, dealt_out, key_leaves, lifted, put_together
from funken.dataset.memory.manager import (
    BLOCK_RECORDS,
    Block,
    BlockCache,
    Blocks,
    PushBack,
    Share,
    blocks_of,
    weighed,
    weight,
)
from funken.dataset.plan.keys import Column, Key, KeyColumn
from funken.expr.types import INT
from funken.io.spill import Extent
from funken.state.keygroups import stable_hash

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns


FAN_OUT = 16
MAX_LEVEL = 6
"""After so many levels the hashes have no bits left: records that are together then have equal keys, or nearly so."""

_GATHERED = 4
"""The partitions together gather at most one of so many parts of their share before they write."""


def partition_of(key: Hashable, level: int) -> int:
    """Return the partition of a key at a level, independent of the one that an exchange computes from the hash.

    >>> len({partition_of(n, 0) for n in range(1000)})
    16
    """
    mixed = ((stable_hash(key) ^ 0x9E3779B9) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return (mixed >> (36 + 4 * level)) & 15


def cut(block: Block, keys: Column, level: int) -> Sequence[Block]:
    """Cut a block into the partitions of a level, of which some are empty.

    >>> parts = cut(list(range(1000)), lambda block: block, 0)
    >>> len(parts), sum(map(len, parts)), all(map(len, parts))
    (16, 1000, True)
    """
    dealt = dealt_out(block, keys, FAN_OUT, level)
    if dealt is not None:
        return dealt
    parts: list[Block] = [[] for _ in range(FAN_OUT)]
    for record, key in zip(block, keys(block), strict=True):
        parts[partition_of(key, level)].append(record)
    return parts


class SpilledBlocks:
    """The blocks of one partition in the spill file of a share; small ones are put together before they are written.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
    >>> memory = MemoryManager(64 * 1024, 1, SpillSpace())
    >>> spilled = SpilledBlocks(memory.share("join"))
    >>> for start in range(0, 1000, 10):
    ...     spilled.add(list(range(start, start + 10)), 128)
    >>> [len(block) for block in spilled.blocks()][:3], spilled.records, memory.used
    ([80, 80, 80], 1000, 0)
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._most = max(256, share.own // (_GATHERED * FAN_OUT))
        self._waiting: list[Block] = []
        self._size = 0
        self._extents: list[Extent] = []
        self.records = 0

    def add(self, block: Block, estimate: int = 0) -> None:
        """Append a block; the weight of a list is estimated."""
        size: int = getattr(block, "size", estimate)
        self._waiting.append(block)
        self._size += size
        self._share.reserve(size)
        self.records += len(block)
        if self._size >= self._most:
            self.flush()

    def flush(self) -> None:
        """Write the gathered blocks."""
        if self._waiting:
            file, grain = self._share.file(), self._share.grain
            self._extents += [file.write(part) for part, _ in weighed(put_together(self._waiting), grain)]
        self._waiting = []
        self._share.release(self._size)
        self._size = 0

    def blocks(self) -> Iterator[Block]:
        """Return everything, in the order in which it came."""
        self.flush()
        return self._share.file().blocks(self._extents) if self._extents else iter(())


# ---- The build side of a join as columns: positions are looked up, and records made of whole columns.
#
# The key is one column of ints. ``ColumnTable`` is in memory; ``HashJoin`` partitions larger sides on disk,
# ``PiecewiseMerge`` merges sorted sides. Both go over to records for other build keys only, never for want of
# memory.


Found = list[tuple[Any, Any]] | tuple["Columns | None", "Columns | None"]
"""Pairs of probe and build records; or both sides' records of pairs. Records without a partner are with None."""

_EMITTED = 1 << 15
"""Pairs that are made at a time."""

_POURED = 1 << 13


class ColumnTable:
    """The records of a build side by key; ``size`` is its reservation of its share, which others may use, too.

    >>> from funken.expr.types import FLOAT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
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
        """Return True if a block has the columns of the blocks before, and a key of ints."""
        columns = columns_in(block)
        if columns is None or (self._parts and self._parts[0].schema != columns.schema):
            return False
        return int_leaf(columns, self._keys[0]) is not None

    def fits(self, block: Block) -> bool:
        """Return True if there is memory for a block of columns."""
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
        """Return True if the records of a block can be joined as columns."""
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
        """Return the pairs of a block, as columns if it has these; ``keep_probe``: also records without a partner."""
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
    """Return the memory that a table takes for a block of columns."""
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


# ---- Hybrid hash join: the build side in a table by key, in partitions once it is too large; the largest go to
# disk.
#
# A table indexes columns whose key is an int, or records in a dict; a block of another form makes records of the
# table that it comes for. Probe blocks of partitions in memory are joined at once. Those of spilled ones are
# written beside them, and each such pair is joined by itself in the end, with other bits of the hash. A partition
# that the hash cannot cut (one key has most of it) is joined in pieces that fit: its probe side is read once per
# piece.
#
# Invariant: partitions of columns in memory take at most half of the share, what is gathered for the disk a
# quarter.


_FEWER = 8
"""The side with that many times fewer records is the one that is indexed."""

Sides = tuple[Column, Column]
"""The extractors of the keys of the build side and of the probe side."""


class RowTable:
    """Records of a build side by key, in a dict; ``size`` is its reservation of its share."""

    def __init__(self, share: Share, build_keys: Column, keep_build: bool = False) -> None:
        self._share = share
        self._keys = build_keys
        self._keep_build = keep_build
        self._table: dict[Hashable, list[Any]] = {}
        self._matched: set[Hashable] = set()
        self.records = 0
        self.size = 0

    def takes(self, block: Block) -> bool:
        """Return True: blocks of columns become records."""
        return True

    def append(self, block: Block, cost: int) -> None:
        """Take a block."""
        self._share.reserve(cost)
        self.size += cost
        self.records += len(block)
        table = self._table
        get = table.get
        for record, key in zip(block, self._keys(block), strict=True):
            partners = get(key)
            if partners is None:
                table[key] = [record]
            else:
                partners.append(record)

    def fill(self, blocks: PushBack) -> None:
        """Take blocks as long as there is memory, but one part of a block in any case."""
        for block in blocks:
            parts = list(weighed(list(block), self._share.grain))
            for at, (part, size) in enumerate(parts):
                if self.records and not self._share.fits(size):
                    blocks.back(left for left, _ in parts[at:])
                    return
                self.append(part, size)

    def taken(self) -> list[Block]:
        """Remove and return the records so far, with the memory given back."""
        blocks = list(blocks_of(chain.from_iterable(self._table.values())))
        self.clear()
        return blocks

    def begin(self) -> None:
        """Begin with a probe side: no record of the build side has a partner yet."""
        self._matched = set()

    def highest(self) -> Any:
        """Return the last key, of records that came in its order."""
        return next(reversed(self._table))

    def joined(self, block: Block, keys: Column, keep_probe: bool = False) -> Iterator[Found]:
        """Return the pairs of a block; with ``keep_probe`` also records without a partner."""
        if not self.records:
            if keep_probe:
                columns = columns_in(block)
                yield [(record, None) for record in block] if columns is None else (None, columns)
            return
        # Hot: once per block; a lookup per probe record, an append per pair.
        get, keep_build, matched = self._table.get, self._keep_build, self._matched
        pairs: list[tuple[Any, Any]] = []
        for record, key in zip(block, keys(block), strict=True):
            partners = get(key)
            if partners is not None:
                if keep_build:
                    matched.add(key)
                if len(partners) == 1:
                    pairs.append((record, partners[0]))
                else:
                    for partner in partners:
                        pairs.append((record, partner))
                        if len(pairs) >= BLOCK_RECORDS:
                            yield pairs
                            pairs = []
            elif keep_probe:
                pairs.append((record, None))
        if pairs:
            yield pairs

    def unmatched(self) -> Iterator[Found]:
        """Return the build records that no probe record has matched."""
        alone = (records for key, records in self._table.items() if key not in self._matched)
        for block in blocks_of(chain.from_iterable(alone)):
            yield [(None, record) for record in block]

    def clear(self) -> None:
        """Drop the records."""
        self._table, self._matched = {}, set()
        self._share.release(self.size)
        self.records = self.size = 0


Table = RowTable | ColumnTable


def table_of(share: Share, sides: Sides, block: Block, keep_build: bool = False) -> Table:
    """Return a table that takes a block."""
    columns, keys = columns_in(block), [side.key for side in sides if isinstance(side, KeyColumn)]
    if columns is not None and len(keys) == 2 and int_leaf(columns, keys[0]) is not None:
        return ColumnTable(share, keys[0], keys[1], keep_build)
    return RowTable(share, sides[0], keep_build)


class _Partition:
    """One part of the build side: a table in memory, or blocks on disk and the probe records that wait for them."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.build: SpilledBlocks | None = None
        self.probe: SpilledBlocks | None = None


class HashJoin:
    """Joins by equal keys. ``keep_probe`` and ``keep_build`` emit records without a partner, paired with None.

    ``probe`` may be called again with other records, as long as ``reusable`` is set: the build side stays.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
    >>> memory = MemoryManager(16384, 1, SpillSpace())
    >>> keys = lambda block: [record[0] for record in block]
    >>> join = HashJoin(memory.share("join"), keys, keys, keep_probe=True)
    >>> for start in range(0, 10_000, 1000):
    ...     join.build([(n, "b") for n in range(start, start + 1000)])
    >>> pairs = [pair for block in join.probe([[(n, "p") for n in range(9_999, 10_002)]]) for pair in block]
    >>> sorted(pairs, key=str)
    [((10000, 'p'), None), ((10001, 'p'), None), ((9999, 'p'), (9999, 'b'))]
    >>> memory.space.files, memory.peak < 16384 * 1.2
    (2, True)
    """

    def __init__(
        self,
        share: Share,
        build_keys: Column,
        probe_keys: Column,
        keep_probe: bool = False,
        keep_build: bool = False,
        reusable: bool = False,
        level: int = 0,
    ) -> None:
        self._share = share
        self._sides: Sides = build_keys, probe_keys
        self._keep_probe, self._keep_build = keep_probe, keep_build
        self._reusable = reusable
        self._level = level
        self._whole = _Partition(RowTable(share, build_keys, keep_build))
        self._partitions: list[_Partition] = []
        self._records = 0

    # ---- build

    def build(self, block: Block) -> None:
        """Take a block of the build side; all of them come before the first probe."""
        for part, size in weighed(block, self._share.grain) if len(block) else ():
            cost = size if columns_in(part) is None else cost_of(part)
            self._records += len(part)
            if not self._partitions and not self._share.fits(cost):
                self._split()
            if not self._partitions:
                self._append(self._whole, part, cost)
                continue
            self._make_space(cost)
            for partition, own in zip(self._partitions, cut(part, self._sides[0], self._level), strict=True):
                if len(own):
                    self._append(partition, own, cost * len(own) // len(part) + 1)

    def _append(self, partition: _Partition, block: Block, cost: int) -> None:
        table = partition.table
        if partition.build is not None:
            partition.build.add(block, cost)
        elif table.records and not table.takes(block):
            self._to_records(partition)
            self._records -= len(block)
            self.build(block)
        else:
            if not table.records:
                table = partition.table = table_of(self._share, self._sides, block, self._keep_build)
            table.append(block, cost)

    def _to_records(self, partition: _Partition) -> None:
        """Make records of a partition in memory, for a block of another form comes."""
        parts = partition.table.taken()
        partition.table = RowTable(self._share, self._sides[0], self._keep_build)
        self._records -= sum(map(len, parts))
        for part in parts:
            columns = columns_in(part)
            for records in [part] if columns is None else poured([columns]):
                self.build(records)

    def _make_space(self, cost: int) -> None:
        share = self._share
        while True:
            largest = max(self._partitions, key=lambda partition: partition.table.size)
            kept = sum(each.table.size for each in self._partitions if isinstance(each.table, ColumnTable))
            if not largest.table.size or share.fits(cost if kept <= share.limit // 2 else cost + kept):
                return
            self._spill(largest)

    def _split(self) -> None:
        self._records -= self._whole.table.records
        parts = self._whole.table.taken()
        self._partitions = [_Partition(RowTable(self._share, self._sides[0])) for _ in range(FAN_OUT)]
        while parts:
            self.build(parts.pop(0))

    def _spill(self, partition: _Partition) -> None:
        size, records = partition.table.size, partition.table.records
        partition.build = SpilledBlocks(self._share)
        for block in partition.table.taken():
            partition.build.add(block, size * len(block) // records)

    # ---- probe

    def probe(self, blocks: Iterable[Block]) -> Iterator[Found]:
        """Join these records; with ``keep_build`` also emit, at the end, the build records that none of them matched."""
        every = self._partitions or [self._whole]
        spilled = [(each, each.build) for each in every if each.build is not None]
        # A file of their own: the build side may stay for many supersteps, the probe side is read once.
        scratch = self._share.part(2) if spilled else None
        for each in every:
            each.table.begin()
        for each, build in spilled:
            build.flush()
            assert scratch is not None
            each.probe = SpilledBlocks(scratch)
        lifts = any(isinstance(each.table, ColumnTable) for each in every)
        try:
            for block in blocks:
                columns = lifted(block) if lifts and columns_in(block) is None else None
                yield from self._probed(block if columns is None else block_of(columns))
            for each in every:
                if self._keep_build:
                    yield from each.table.unmatched()
                if not self._reusable:
                    each.table.clear()
            for each, _ in spilled:
                assert each.probe is not None
                each.probe.flush()
            for each, build in spilled:
                assert each.probe is not None
                if each.probe.records or self._keep_build:
                    yield from self._join_spilled(build, each.probe)
        finally:
            for each, _ in spilled:
                each.probe = None
            if scratch is not None:
                scratch.close()

    def _probed(self, block: Block) -> Iterator[Found]:
        keys, keep = self._sides[1], self._keep_probe
        if not self._partitions:
            yield from self._whole.table.joined(block, keys, keep)
            return
        whole = columns_in(block) is not None or not block
        for part, size in [(block, 0)] if whole else weighed(block, self._share.grain):
            for partition, own in zip(self._partitions, cut(part, keys, self._level), strict=True):
                if not len(own):
                    continue
                if partition.probe is not None:
                    partition.probe.add(own, size * len(own) // len(part))
                else:
                    yield from partition.table.joined(own, keys, keep)

    def _join_spilled(self, build: SpilledBlocks, probe: SpilledBlocks) -> Iterator[Found]:
        # A reusable table keeps its part of the share: what is left is for one spilled partition at a time.
        share = self._share
        left = Share(share._manager, share.operator, max(share.grain * 2, share.limit - share.used))
        try:
            if probe.records * _FEWER < build.records and not (self._keep_probe or self._keep_build):
                yield from self._the_other_way(left, build, probe)
                return
            if self._level + 1 >= MAX_LEVEL or build.records * 10 >= self._records * 9:
                yield from self._in_pieces(left, build, probe)
                return
            part = HashJoin(left, *self._sides, self._keep_probe, self._keep_build, level=self._level + 1)
            for block in build.blocks():
                part.build(block)
            yield from part.probe(probe.blocks())
        finally:
            left.close()

    def _pieces(self, share: Share, blocks: SpilledBlocks, sides: Sides) -> Iterator[Table]:
        """Return tables of parts that fit."""
        rest = PushBack(blocks.blocks())
        while (first := next(rest, None)) is not None:
            rest.back([first])
            piece = table_of(share, sides, first, self._keep_build)
            piece.fill(rest)
            yield piece
            piece.clear()

    def _the_other_way(self, share: Share, build: SpilledBlocks, probe: SpilledBlocks) -> Iterator[Found]:
        """Let the build side probe tables of the probe side: so it is read, but not indexed, in each superstep."""
        built, probed = self._sides
        for piece in self._pieces(share, probe, (probed, built)):
            for block in build.blocks():
                for found in piece.joined(block, built):
                    yield [(other, one) for one, other in found] if isinstance(found, list) else (found[1], found[0])

    def _in_pieces(self, share: Share, build: SpilledBlocks, probe: SpilledBlocks) -> Iterator[Found]:
        keep_probe = self._keep_probe
        # Few keys, or the hash would have cut it.
        known = {key for block in build.blocks() for key in keys_of(block, self._sides[0])} if keep_probe else set()
        for piece in self._pieces(share, build, self._sides):
            for block in probe.blocks():
                yield from piece.joined(block, self._sides[1])
                if keep_probe:
                    alone = [at for at, key in enumerate(keys_of(block, self._sides[1])) if key not in known]
                    columns = columns_in(block)
                    yield [(block[at], None) for at in alone] if columns is None else (None, columns.take(alone))
            if self._keep_build:
                yield from piece.unmatched()
            keep_probe = False

    def close(self) -> None:
        """Drop everything."""
        self._whole.table.clear()
        self._partitions = []
        self._share.close()


def keys_of(block: Block, keys: Column) -> Any:
    """Return the keys of a block, of which no records are made if they are a column of ints."""
    columns = columns_in(block)
    leaf = int_leaf(columns, keys.key) if columns is not None and isinstance(keys, KeyColumn) else None
    return keys(block) if columns is None or leaf is None else columns.leaves[leaf].array(columns.length)


# ---- Merge join of two sides that are sorted by their keys, piece by piece of one side, whatever its size.
#
# A piece is a table of as many records as fit into the share, of columns or of records. All of the other side up to
# the last key of the piece is looked up in it: as both are sorted, so are the pairs. The next piece may begin with
# that key again, so what the other side has of it is ``held`` (on disk, if it is much) and looked up once more.
#
# Invariant: what was read of the probe side is at most the last key of the piece, which is the key of all that is
# held.


class PiecewiseMerge:
    """Joins by equal keys, in their order; ``sides`` extracts the keys of the build side and of the probe side.

    ``whole`` is a table of the entire build side from an earlier merge; if the side fits, ``whole`` is one afterwards.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.columns.block import block_of
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
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
        """Drop the held records, and the piece, unless it is the whole."""
        self._held.close()
        if self.whole is None and self._table is not None:
            self._table.clear()
