"""The drivers of operators with two inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat
from operator import length_hint
from typing import Any

from funken.dataset.columns.block import columns_in
from funken.dataset.columns.functions import ColumnFunction, paired
from funken.dataset.columns.hash_join import HashJoin
from funken.dataset.columns.joining import Found, int_leaf
from funken.dataset.columns.merging import PiecewiseMerge
from funken.dataset.memory.blocks import BLOCK_RECORDS, Block, Blocks, PushBack, blocks_of
from funken.dataset.memory.buffers import BlockCache
from funken.dataset.optimizer.strategies import DriverStrategy, Temp
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import Key
from funken.dataset.plan.nodes import JoinKind
from funken.dataset.runtime.groups import groups, merged
from funken.dataset.runtime.task import DriverTask
from funken.errors import FUNCTION_ERRORS
from funken.types.callables import check_several

_KEEP_FIRST = {JoinKind.LEFT, JoinKind.FULL}
_KEEP_SECOND = {JoinKind.RIGHT, JoinKind.FULL}
CACHED = {DriverStrategy.HYBRIDHASH_BUILD_FIRST_CACHED, DriverStrategy.HYBRIDHASH_BUILD_SECOND_CACHED}


def joined(task: DriverTask) -> Callable[[list[tuple[Any, Any]]], Block]:
    """Return what makes records of (first, second) pairs."""
    node = task.node
    if node.call is None:
        return list
    function = task.function()
    if getattr(node, "flat", False):

        def flat(pairs: list[tuple[Any, Any]]) -> Block:
            emitted: Block = []
            remaining = iter(pairs)
            try:
                for first, second in remaining:
                    results = function(first, second)
                    if results is not None:
                        check_several(results)
                        emitted.extend(results)
            except FUNCTION_ERRORS as error:
                raise task.failed_at(error, pairs[len(pairs) - length_hint(remaining) - 1]) from error
            return emitted

        return flat

    def each(pairs: list[tuple[Any, Any]]) -> Block:
        remaining = iter(pairs)
        try:
            return [function(first, second) for first, second in remaining]
        except FUNCTION_ERRORS as error:
            raise task.failed_at(error, pairs[len(pairs) - length_hint(remaining) - 1]) from error

    return each


def build_first(task: DriverTask, first: Blocks | None, second: Blocks) -> Blocks:
    """Join with a table of the first side."""
    return _hashed(task, 0, first, second)


def build_second(task: DriverTask, first: Blocks, second: Blocks | None) -> Blocks:
    """Join with a table of the second side."""
    return _hashed(task, 1, second, first)


def _hashed(task: DriverTask, side: int, build: Blocks | None, probe: Blocks) -> Blocks:
    node: nodes.Join = task.node
    reusable = task.plan.driver in CACHED
    table: HashJoin | None = task.kept.get("table")
    if table is None:
        keys = task.column(node.keys[side]), task.column(node.keys[1 - side])
        keeps = (
            node.kind in (_KEEP_FIRST if side else _KEEP_SECOND),
            node.kind in (_KEEP_SECOND if side else _KEEP_FIRST),
        )
        table = HashJoin(task.share(), *keys, *keeps, reusable)
        for block in build or ():
            table.build(block)
        if reusable:
            task.kept["table"] = table
    pairs = _Pairs(task, side, joined(task))
    try:
        for found in table.probe(probe):
            yield from pairs.made(found)
    finally:
        if not reusable:
            table.close()


_PIECE = 1 << 14


class _Pairs:
    """Makes records of pairs that a join has found."""

    def __init__(self, task: DriverTask, side: int, make: Callable[[list[tuple[Any, Any]]], Block]) -> None:
        call = task.node.call
        self._side, self._make = side, make
        self._function = None if call is None else ColumnFunction(call, 2)

    def made(self, found: Found) -> Iterator[Block]:
        """Return the records of these pairs."""
        if isinstance(found, list):
            if records := self._make(found if self._side else [(built, probed) for probed, built in found]):
                yield records
            return
        built, probed = found
        first, second = (probed, built) if self._side else (built, probed)
        given = first if first is not None else second
        assert given is not None
        if given.length > _PIECE and (first is None or second is None):
            for at in range(0, given.length, _PIECE):
                part = given[at : at + _PIECE]
                yield from self.made((part, None) if built is not None else (None, part))
            return
        if self._function is not None:
            block = self._function.paired(first, second)
        else:
            block = None if first is None or second is None else paired(first, second)
        if block is not None:
            yield block
            return
        ones, others = (repeat(None, given.length) if each is None else each.to_list() for each in (first, second))
        for pairs in blocks_of(zip(ones, others, strict=True)):
            if by_record := self._make(pairs):
                yield by_record


def merge(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Join two sorted sides: piece by piece if they begin with columns whose keys are ints, else group by group."""
    node: nodes.Join = task.node
    sides = PushBack(first), PushBack(second)
    if node.kind is JoinKind.INNER and ("table" in task.kept or all(map(_begins_with_ints, sides, node.keys))):
        return _merged_in_pieces(task, *sides)
    return _merged_records(task, *sides)


def _begins_with_ints(blocks: PushBack, key: Key) -> bool:
    first = next(blocks, None)
    if first is None:
        return False
    blocks.back([first])
    columns = columns_in(first)
    return columns is not None and int_leaf(columns, key) is not None


def _merged_in_pieces(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Merge; a side that is the same in all supersteps is the one in pieces, and stays a table if that is one piece."""
    constant = next((at for at, channel in enumerate(task.plan.inputs) if channel.temp is Temp.CACHED), None)
    side = 1 if constant is None else constant
    build, probe = (second, first) if side else (first, second)
    keys = task.column(task.node.keys[side]), task.column(task.node.keys[1 - side])
    merge = PiecewiseMerge(build, probe, keys, task.share(), task.share(), task.kept.get("table"))
    pairs = _Pairs(task, side, joined(task))
    try:
        for found in merge.pairs():
            yield from pairs.made(found)
    finally:
        if constant is None:
            merge.drop()
        elif merge.whole is not None:
            task.kept["table"] = merge.whole
        merge.close()


def _merged_records(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Merge by record; of each key the second side's records are kept, on disk if they are many."""
    node: nodes.Join = task.node
    make, share = joined(task), task.share()
    keep_first, keep_second = node.kind in _KEEP_FIRST, node.kind in _KEEP_SECOND

    def pairs() -> Iterator[tuple[Any, Any]]:
        for _, ones, others in merged(
            groups(first, task.column(node.keys[0])), groups(second, task.column(node.keys[1]))
        ):
            one, other = next(ones, _NONE), next(others, _NONE)
            if other is _NONE:
                if keep_first:
                    yield from ((record, None) for record in chain([one], ones))
            elif one is _NONE:
                if keep_second:
                    yield from ((None, record) for record in chain([other], others))
            else:
                few = [other, *islice(others, _FEW - 1)]
                if len(few) < _FEW:
                    for record in chain([one], ones):
                        for partner in few:
                            yield record, partner
                    continue
                kept = BlockCache(share, blocks_of(chain(few, others)))
                for record in chain([one], ones):
                    for block in kept:
                        yield from ((record, partner) for partner in block)
                kept.clear()

    try:
        for block in blocks_of(pairs()):
            if made := make(block):
                yield made
    finally:
        share.close()


_NONE = object()
_FEW = 64
"""Fewer partners than this are not counted as managed memory: to weigh them would take longer than to join them."""


def co_group(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Call the function with the groups of both sides."""
    node: nodes.CoGroupNode = task.node
    function = task.function()
    yield from blocks_of(
        record
        for key, ones, others in merged(
            groups(first, task.column(node.keys[0])), groups(second, task.column(node.keys[1]))
        )
        for record in task.results(function, f"the groups of the key {key!r}", ones, others)
    )


def cross_outer_first(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Pair each block of the first side with all of the second."""
    return _crossed(task, first, second, lambda outer, inner: [(one, other) for one in outer for other in inner])


def cross_outer_second(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Pair each block of the second side with all of the first."""
    return _crossed(task, second, first, lambda outer, inner: [(one, other) for other in outer for one in inner])


def _crossed(
    task: DriverTask, outer: Blocks, inner: Blocks, pairs: Callable[[Block, Block], list[tuple[Any, Any]]]
) -> Blocks:
    make = joined(task)
    kept = BlockCache(task.share(), inner)
    try:
        for block in outer:
            for other in kept:
                step = max(1, BLOCK_RECORDS // max(1, len(other)))
                for at in range(0, len(block), step):
                    if made := make(pairs(block[at : at + step], other)):
                        yield made
    finally:
        kept.close()
