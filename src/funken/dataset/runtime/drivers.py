"""The drivers of operators with one input, and the table of all drivers.

A driver is a generator over blocks: it gets the task and an iterator per input, and yields blocks that are not empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from operator import length_hint
from typing import Any

from funken.dataset.columns.aggregation import HashAggregation, ReduceFailed, column_aggregation, combined
from funken.dataset.columns.block import columns_in
from funken.dataset.columns.folding import ColumnReduce
from funken.dataset.columns.functions import ColumnFlatMap, ColumnFunction
from funken.dataset.memory.blocks import BLOCK_RECORDS, Block, Blocks, blocks_of, records_of
from funken.dataset.optimizer.strategies import DriverStrategy
from funken.dataset.plan import nodes
from funken.dataset.runtime import joins, lookups
from funken.dataset.runtime.groups import groups
from funken.dataset.runtime.task import DriverTask
from funken.errors import FUNCTION_ERRORS
from funken.types.callables import check_several

Run = Callable[..., Blocks]

_PIECE = 1 << 15
"""Records of a block of columns that flat_map emits, at most."""


def _source(task: DriverTask) -> Blocks:
    node: nodes.SourceNode = task.node
    at: Any = "its splits"
    try:
        splits = node.format.create_splits(task.context.parallelism)
        for place in range(task.context.subtask, len(splits), task.context.parallelism):
            at = f"the split {splits[place]!r}"
            yield from filter(None, node.format.blocks(splits[place]))
    except GeneratorExit:
        raise
    except Exception as error:
        raise task.failed(error, f"failed at {at}") from error


def _map(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function()
    whole: Callable[[Block], Block] | None = getattr(task.node.call.target, "block", None)
    by_column = ColumnFunction(task.node.call, 1)
    for block in blocks:
        if (columns := columns_in(block)) is not None and (made := by_column.mapped(columns)) is not None:
            yield made
            continue
        yield task.each(function, block) if whole is None else whole(block)


def _filter(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function()
    by_column = ColumnFunction(task.node.call, 1)
    for block in blocks:
        if (columns := columns_in(block)) is not None and (found := by_column.kept(columns)) is not None:
            if len(found):
                yield found
            continue
        records = iter(block)
        try:
            kept = [record for record in records if function(record)]
        except FUNCTION_ERRORS as error:
            raise task.failed_at(error, block[len(block) - length_hint(records) - 1]) from error
        if kept:
            yield kept


def _flat_map(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function()
    by_column = ColumnFlatMap(task.node.call)
    for block in blocks:
        if (columns := columns_in(block)) is not None and (made := by_column.given(columns)) is not None:
            yield from (made[at : at + _PIECE] for at in range(0, len(made), _PIECE))
            continue
        records = iter(block)
        emitted: Block = []
        extend = emitted.extend
        try:
            for record in records:
                results = function(record)
                if results is not None:
                    check_several(results)
                    extend(results)
        except FUNCTION_ERRORS as error:
            raise task.failed_at(error, block[len(block) - length_hint(records) - 1]) from error
        yield from blocks_of(emitted) if len(emitted) > 4096 else ([emitted] if emitted else [])


def _map_partition(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function()
    if hasattr(task.node.call.target, "map_blocks"):  # a built-in function that needs no records
        own: Any = function
        yield from blocks_of(own.__self__.map_blocks(blocks))
        return
    size = getattr(task.node.call.target, "block_records", BLOCK_RECORDS)  # less of records that are blocks themselves
    yield from blocks_of(task.results(function, "a partition", records_of(blocks)), size)


def _no_op(task: DriverTask, blocks: Blocks) -> Blocks:
    return blocks


def _union(task: DriverTask, *inputs: Blocks) -> Blocks:
    return chain.from_iterable(inputs)


def _all_reduce(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function()
    by_column = ColumnReduce(task.node.call)
    result: Any = None
    began = False
    for block in blocks:
        columns = columns_in(block)
        if columns is not None and (found := by_column.of_all(columns, result)) is not None:
            result, began = found, True
            continue
        records = iter(block)
        if not began:
            result, began = next(records), True
        try:
            for record in records:
                result = function(result, record)
        except FUNCTION_ERRORS as error:
            raise task.failed_at(error, block[len(block) - length_hint(records) - 1]) from error
    if began:
        yield [result]


def _all_group(task: DriverTask, blocks: Blocks) -> Blocks:
    first = next(blocks, None)
    if first is not None:
        function = task.function(task.node.combiner if task.plan.combiner else None)
        yield from blocks_of(task.results(function, "the group of all records", records_of(chain([first], blocks))))


def _hashed_reduce(task: DriverTask, blocks: Blocks) -> Blocks:
    share, function = task.share(), task.function()
    columns = column_aggregation(share, task.node.key, task.node.call, task.node.vectorized)
    table = HashAggregation(share, task.column(task.node.key), function, columns=columns)
    try:
        for block in blocks:
            table.add(block)
        yield from table.blocks()
    except ReduceFailed as error:
        raise task.failed(error, "failed") from error.__cause__
    finally:
        table.close()


def _hashed_combine(task: DriverTask, blocks: Blocks) -> Blocks:
    share = task.share()
    column, function = task.column(task.node.key), task.function()
    columns = column_aggregation(share, task.node.key, task.node.call, task.node.vectorized)
    try:
        yield from combined(blocks, share, column, function, columns)
    except ReduceFailed as error:
        raise task.failed(error, "failed") from error.__cause__
    finally:
        share.close()


def _sorted_reduce(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function()
    yield from blocks_of(_reduced(task, groups(blocks, task.column(task.node.key)), function))


def _reduced(
    task: DriverTask, found: Iterator[tuple[Any, Iterator[Any]]], function: Callable[[Any, Any], Any]
) -> Iterator[Any]:
    for _, group in found:
        result = next(group)
        for record in group:
            try:
                result = function(result, record)
            except FUNCTION_ERRORS as error:
                raise task.failed_at(error, record) from error
        yield result


def _sorted_group(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function(task.node.combiner if task.plan.combiner else None)
    yield from blocks_of(
        record
        for key, group in groups(blocks, task.column(task.node.key))
        for record in task.results(function, f"the group of the key {key!r}", group)
    )


def _sink(task: DriverTask, blocks: Blocks) -> Blocks:
    """Write everything; yields each block, emptied, so that the executor can take turns."""
    output = task.kept["output"]
    try:
        for block in blocks:
            try:
                output.write(block)
            except Exception as error:
                raise task.failed(error, f"could not write to {task.node.format}") from error
            yield []
    finally:
        output.close()


DRIVERS: dict[DriverStrategy, Run] = {
    DriverStrategy.SOURCE: _source,
    DriverStrategy.MAP: _map,
    DriverStrategy.FILTER: _filter,
    DriverStrategy.FLAT_MAP: _flat_map,
    DriverStrategy.MAP_PARTITION: _map_partition,
    DriverStrategy.NO_OP: _no_op,
    DriverStrategy.UNION: _union,
    DriverStrategy.ALL_REDUCE: _all_reduce,
    DriverStrategy.ALL_GROUP_REDUCE: _all_group,
    DriverStrategy.ALL_GROUP_COMBINE: _all_group,
    DriverStrategy.HASHED_REDUCE: _hashed_reduce,
    DriverStrategy.HASHED_PARTIAL_REDUCE: _hashed_combine,
    DriverStrategy.SORTED_REDUCE: _sorted_reduce,
    DriverStrategy.SORTED_PARTIAL_REDUCE: _sorted_reduce,
    DriverStrategy.SORTED_GROUP_REDUCE: _sorted_group,
    DriverStrategy.SORTED_GROUP_COMBINE: _sorted_group,
    DriverStrategy.SINK: _sink,
    DriverStrategy.MERGE: joins.merge,
    DriverStrategy.CO_GROUP: joins.co_group,
    DriverStrategy.HYBRIDHASH_BUILD_FIRST: joins.build_first,
    DriverStrategy.HYBRIDHASH_BUILD_SECOND: joins.build_second,
    DriverStrategy.HYBRIDHASH_BUILD_FIRST_CACHED: joins.build_first,
    DriverStrategy.HYBRIDHASH_BUILD_SECOND_CACHED: joins.build_second,
    DriverStrategy.SOLUTION_SET_LOOKUP_FIRST: lookups.look_up_first,
    DriverStrategy.SOLUTION_SET_LOOKUP_SECOND: lookups.look_up_second,
    DriverStrategy.SOLUTION_SET_CO_GROUP_FIRST: lookups.co_group_first,
    DriverStrategy.SOLUTION_SET_CO_GROUP_SECOND: lookups.co_group_second,
    DriverStrategy.NESTEDLOOP_BLOCKED_OUTER_FIRST: joins.cross_outer_first,
    DriverStrategy.NESTEDLOOP_BLOCKED_OUTER_SECOND: joins.cross_outer_second,
}
