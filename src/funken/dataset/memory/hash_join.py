"""Hybrid hash join: the build side in a table by key, in partitions once it is too large; the largest go to disk.

Probe records of partitions in memory are joined at once, those of spilled ones are written beside them, and each such pair
is joined by itself afterwards, with other bits of the hash. A partition that the hash cannot cut (one key has most of it)
is joined in pieces that fit: its probe side is read once per piece.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from funken.dataset.memory.blocks import BLOCK_RECORDS, Block, weighed
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Column
from funken.dataset.memory.partitions import FAN_OUT, MAX_LEVEL, SpilledPartition, partition_of, split

Pair = tuple[Any, Any]
"""A probe record and a build record; of outer joins one of them may be None."""

Table = dict[Hashable, list[Any]]


class _Partition:
    """One part of the build side: a table in memory, or blocks on disk and the probe records that wait for them."""

    __slots__ = ("build", "probe", "size", "table")

    def __init__(self) -> None:
        self.table: Table = {}
        self.size = 0
        self.build: SpilledPartition | None = None
        self.probe: SpilledPartition | None = None


class HybridHashJoin:
    """Joins by equal keys. ``keep_probe`` and ``keep_build`` emit records without a partner, paired with None.

    ``probe`` may be called again with other records, as long as ``reusable`` is set: the build side stays.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.dataset.memory.spill import SpillSpace
    >>> memory = MemoryManager(16384, 1, SpillSpace())
    >>> keys = lambda block: [record[0] for record in block]
    >>> join = HybridHashJoin(memory.share("join"), keys, keys, keep_probe=True)
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
        self._build_keys = build_keys
        self._probe_keys = probe_keys
        self._keep_probe = keep_probe
        self._keep_build = keep_build
        self._reusable = reusable
        self._level = level
        self._whole = _Partition()
        self._partitions: list[_Partition] = []
        self._records = 0

    # ---- build

    def build(self, block: Block) -> None:
        """Take a block of the build side; all of them come before the first probe."""
        share = self._share
        for part, size in weighed(block, share.grain) if block else ():
            self._records += len(part)
            if not share.fits(size):
                self._make_space(size)
            if not self._partitions:
                share.reserve(size)
                self._whole.size += size
                _insert(self._whole.table, part, self._build_keys(part))
                continue
            each = size / len(part)
            for partition, (records, keys) in zip(
                self._partitions, split(part, self._build_keys(part), self._level), strict=True
            ):
                if not records:
                    continue
                estimate = int(each * len(records)) + 1
                if partition.build is not None:
                    partition.build.add(records, estimate)
                else:
                    share.reserve(estimate)
                    partition.size += estimate
                    _insert(partition.table, records, keys)

    def _make_space(self, size: int) -> None:
        if not self._partitions:
            self._split()
        while not self._share.fits(size):
            largest = max(self._partitions, key=lambda partition: partition.size)
            if not largest.table:
                return
            self._spill(largest)

    def _split(self) -> None:
        whole = self._whole
        self._partitions = [_Partition() for _ in range(FAN_OUT)]
        each = whole.size / max(1, sum(map(len, whole.table.values())))
        for key, records in whole.table.items():
            partition = self._partitions[partition_of(key, self._level)]
            partition.table[key] = records
            partition.size += int(each * len(records))
        self._whole = _Partition()
        # Rounding: the partitions together are as heavy as the whole was.
        self._partitions[0].size += whole.size - sum(partition.size for partition in self._partitions)

    def _spill(self, partition: _Partition) -> None:
        spilled = SpilledPartition(self._share)
        for records in partition.table.values():
            spilled.add(records, int(partition.size * len(records) / max(1, self._records)))
        spilled.flush()
        partition.build = spilled
        partition.table = {}
        self._share.release(max(0, partition.size))
        partition.size = 0

    # ---- probe

    def probe(self, blocks: Iterable[Block], already: Iterable[Hashable] = ()) -> Iterator[list[Pair]]:
        """Join these records; with ``keep_build`` also emit, at the end, the build records that none of them matched.

        ``already``: keys that were matched before.
        """
        matched = set(already)
        if not self._partitions:
            for block in blocks:
                yield from self._join(self._whole.table, block, self._probe_keys(block), matched)
            if self._keep_build:
                yield from _unmatched(self._whole.table, matched)
            return
        # A file of their own: the build side may stay for many supersteps, the probe side is read once.
        scratch = self._share.part(1)
        try:
            yield from self._probe_partitions(blocks, matched, scratch)
        finally:
            scratch.close()

    def _probe_partitions(
        self, blocks: Iterable[Block], matched: set[Hashable], scratch: Share
    ) -> Iterator[list[Pair]]:
        for partition in self._partitions:
            partition.probe = None if partition.build is None else SpilledPartition(scratch)
        for block in blocks:
            for part, size in weighed(block, self._share.grain) if block else ():
                parts = split(part, self._probe_keys(part), self._level)
                for partition, (records, keys) in zip(self._partitions, parts, strict=True):
                    if partition.probe is not None:
                        partition.probe.add(records, size * len(records) // len(part))
                    elif records:
                        yield from self._join(partition.table, records, keys, matched)
        for partition in self._partitions:
            if self._keep_build and partition.build is None:
                yield from _unmatched(partition.table, matched)
        if not self._reusable:
            for partition in self._partitions:
                partition.table = {}
            self._share.release()
        for partition in self._partitions:
            if partition.build is not None and partition.probe is not None:
                yield from self._join_spilled(partition.build, partition.probe, matched)

    def _join(self, table: Table, block: Block, keys: list[Hashable], matched: set[Hashable]) -> Iterator[list[Pair]]:
        # Hot: once per block; a lookup per probe record, an append per pair.
        get, keep_probe, keep_build = table.get, self._keep_probe, self._keep_build
        pairs: list[Pair] = []
        for record, key in zip(block, keys, strict=True):
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

    def _join_spilled(
        self, build: SpilledPartition, probe: SpilledPartition, matched: set[Hashable]
    ) -> Iterator[list[Pair]]:
        build.flush()
        share = self._share
        if self._level + 1 >= MAX_LEVEL or build.records * 10 >= self._records * 9:
            yield from self._join_in_pieces(build, probe, matched)
            return
        # A reusable table keeps its part of the share: what is left is for one spilled partition at a time.
        left = Share(share._manager, share.operator, max(share.grain * 2, share.limit - share.used))
        part = HybridHashJoin(
            left, self._build_keys, self._probe_keys, self._keep_probe, self._keep_build, level=self._level + 1
        )
        try:
            for block in build.blocks():
                part.build(block)
            yield from part.probe(probe.blocks(), matched)
        finally:
            left.close()

    def _join_in_pieces(
        self, build: SpilledPartition, probe: SpilledPartition, matched: set[Hashable]
    ) -> Iterator[list[Pair]]:
        share = self._share
        held = 0
        table: Table = {}
        first = True
        probed = set(matched)
        built = {key for block in build.blocks() for key in self._build_keys(block)} if self._keep_probe else set()
        room = max(share.grain * 2, share.limit - share.used)

        def piece() -> Iterator[list[Pair]]:
            for block in probe.blocks():
                keys = self._probe_keys(block)
                if first and self._keep_build:
                    probed.update(keys)
                pairs = [
                    (record, partner) for record, key in zip(block, keys, strict=True) for partner in table.get(key, ())
                ]
                if first and self._keep_probe:
                    pairs += [(record, None) for record, key in zip(block, keys, strict=True) if key not in built]
                for at in range(0, len(pairs), BLOCK_RECORDS):
                    yield pairs[at : at + BLOCK_RECORDS]
            if self._keep_build:
                yield from _unmatched(table, probed)

        for block in build.blocks():
            for part, size in weighed(block, share.grain):
                if table and held + size > room:
                    yield from piece()
                    first = False
                    table = {}
                    share.release(held)
                    held = 0
                held += size
                share.reserve(size)
                _insert(table, part, self._build_keys(part))
        if table:
            yield from piece()
        share.release(held)

    def close(self) -> None:
        """Drop everything."""
        self._whole = _Partition()
        self._partitions = []
        self._share.close()


def _insert(table: Table, records: Block, keys: list[Hashable]) -> None:
    get = table.get
    for record, key in zip(records, keys, strict=True):
        partners = get(key)
        if partners is None:
            table[key] = [record]
        else:
            partners.append(record)


def _unmatched(table: Table, matched: set[Hashable]) -> Iterator[list[Pair]]:
    pairs: list[Pair] = []
    for key, records in table.items():
        if key not in matched:
            pairs += [(None, record) for record in records]
            if len(pairs) >= BLOCK_RECORDS:
                yield pairs
                pairs = []
    if pairs:
        yield pairs
