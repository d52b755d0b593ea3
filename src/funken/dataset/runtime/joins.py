"""The drivers of operators with two inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from operator import length_hint
from typing import Any

from funken.dataset.memory.blocks import BLOCK_RECORDS, Block, blocks_of
from funken.dataset.memory.buffers import BlockCache
from funken.dataset.memory.hash_join import HybridHashJoin
from funken.dataset.optimizer.strategies import DriverStrategy
from funken.dataset.plan import nodes
from funken.dataset.plan.nodes import JoinKind
from funken.dataset.runtime.groups import groups, merged
from funken.dataset.runtime.task import Blocks, DriverTask

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
                        emitted.extend(results)
            except Exception as error:
                raise task.failed_at(error, pairs[len(pairs) - length_hint(remaining) - 1]) from error
            return emitted

        return flat

    def each(pairs: list[tuple[Any, Any]]) -> Block:
        remaining = iter(pairs)
        try:
            return [function(first, second) for first, second in remaining]
        except Exception as error:
            raise task.failed_at(error, pairs[len(pairs) - length_hint(remaining) - 1]) from error

    return each


def build_first(task: DriverTask, first: Blocks | None, second: Blocks) -> Blocks:
    """Join with a table of the first side."""
    node: nodes.Join = task.node
    make = joined(task)
    for pairs in _probed(task, 0, node.kind in _KEEP_SECOND, node.kind in _KEEP_FIRST, first, second):
        if block := make([(built, probed) for probed, built in pairs]):
            yield block


def build_second(task: DriverTask, first: Blocks, second: Blocks | None) -> Blocks:
    """Join with a table of the second side."""
    node: nodes.Join = task.node
    make = joined(task)
    for pairs in _probed(task, 1, node.kind in _KEEP_FIRST, node.kind in _KEEP_SECOND, second, first):
        if block := make(pairs):
            yield block


def _probed(
    task: DriverTask, side: int, keep_probe: bool, keep_build: bool, build: Blocks | None, probe: Blocks
) -> Iterator[list[tuple[Any, Any]]]:
    node: nodes.Join = task.node
    reusable = task.plan.driver in CACHED
    join: HybridHashJoin | None = task.kept.get("table")
    if join is None:
        build_keys, probe_keys = task.column(node.keys[side]), task.column(node.keys[1 - side])
        join = HybridHashJoin(task.share(), build_keys, probe_keys, keep_probe, keep_build, reusable)
        if build is not None:
            for block in build:
                join.build(block)
        if reusable:
            task.kept["table"] = join
    try:
        yield from join.probe(probe)
    finally:
        if not reusable:
            join.close()


def merge(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Join two sorted sides; of each key the second side's records are kept, on disk if they are many."""
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
                kept = BlockCache(share, blocks_of(chain([other], others)))
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
