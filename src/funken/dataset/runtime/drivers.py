"""The drivers of operators with one input, and the table of all drivers.

A driver is a generator over blocks: it gets the task and an iterator per input, and yields blocks that are not empty.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from itertools import chain, groupby, islice, repeat, starmap
from operator import itemgetter, length_hint
from typing import Any
from weakref import WeakSet

from funken.dataset.columns.aggregation import ColumnReduce, ReduceFailed, aggregated, column_aggregation, combined
from funken.dataset.columns.block import ColumnFlatMap, ColumnFunction, columns_in, paired
from funken.dataset.columns.joins import Found, HashJoin, PiecewiseMerge, int_leaf
from funken.dataset.memory.manager import (
    BLOCK_RECORDS,
    Block,
    BlockCache,
    Blocks,
    PushBack,
    Share,
    blocks_of,
    records_of,
)
from funken.dataset.optimizer.costs import DriverStrategy, Temp
from funken.dataset.optimizer.physical import PhysicalNode
from funken.dataset.plan import nodes
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import Column, Key, KeyColumn
from funken.dataset.plan.nodes import JoinKind
from funken.dataset.runtime.context import DataSetRuntimeContext, TaskContext
from funken.errors import FUNCTION_ERRORS, FunkenError, InvalidProgram, OperatorFailed
from funken.operators.user_functions import hint_of
from funken.state.key_kinds import alike, kind_of_key, shown_key
from funken.types.callables import check_several

logger = logging.getLogger(__name__)

# ---- A task: one subtask of one physical operator, with its functions, its keys and what it keeps over supersteps.
#
# ``open`` and ``close`` are called once, ``run`` (in ``drivers``) once, or once per superstep. Whatever user code
# raises becomes ``OperatorFailed`` here, with operator, subtask and record.


class DriverTask:
    """One subtask."""

    def __init__(self, plan: PhysicalNode, context: TaskContext) -> None:
        self.plan = plan
        self.node: Any = plan.node
        self.context = context
        self.kept: dict[str, Any] = {}
        self._functions: dict[int, DataSetFunction] = {}
        self._columns: dict[int, KeyColumn] = {}
        self._opened: dict[int, DataSetFunction] = {}
        self._shares: list[Share] = []
        self._is_open = False

    # ---- life

    def open(self) -> None:
        """Open the operator's function; broadcast sets are there by now."""
        if self._is_open:
            return
        self._is_open = True
        node = self.plan.node
        if node.function is not None and not (self.plan.combiner and getattr(node, "combiner", None)):
            self._open(node.function)
        elif self.plan.combiner:
            self._open(self.node.combiner)

    def _open(self, function: DataSetFunction) -> DataSetFunction:
        own = self._functions.get(id(function))
        if own is None:
            own = self._functions[id(function)] = function.copy()
        if id(function) not in self._opened:
            self._opened[id(function)] = own
            try:
                own.open(DataSetRuntimeContext(self.context))
            except FUNCTION_ERRORS as error:
                raise self.failed(error, "was opened") from error
        return own

    def end_superstep(self) -> None:
        """Close the functions, which the next superstep opens again; kept records stay."""
        first = self._close_functions()
        self._is_open = False
        self._shares = [share for share in self._shares if share.in_use]
        if first is not None:
            raise first

    def _close_functions(self) -> FunkenError | None:
        first: FunkenError | None = None
        while self._opened:
            try:
                self._opened.popitem()[1].close()
            except FUNCTION_ERRORS as error:  # raised by the caller, once everything is closed
                first = first or self.failed(error, "was closed")
        return first

    def close(self) -> None:
        """Close the functions and drop kept records; the first error of a function is raised in the end."""
        first = self._close_functions()
        for share in self._shares:
            share.close()
        self._shares.clear()
        self.kept.clear()
        if first is not None:
            raise first

    # ---- what drivers use

    @property
    def name(self) -> str:
        """Return the operator's name."""
        return self.plan.name

    def function(self, function: DataSetFunction | None = None) -> Callable[..., Any]:
        """Return the operator's function, or another one of it, opened for this subtask."""
        return self._open(function or self.node.call).bind()

    def column(self, key: Key) -> KeyColumn:
        """Return a function that extracts a key."""
        selector = self._open(key.selector) if key.selector is not None else None
        if id(key) not in self._columns:
            self._columns[id(key)] = KeyColumn(Key(key.paths, selector), self.name)
        return self._columns[id(key)]

    def share(self) -> Share:
        """Return a share of memory that is released when the task is closed."""
        share = self.context.share()
        self._shares.append(share)
        return share

    def failed(self, error: BaseException, what: str, record: Any = None) -> FunkenError:
        """Return the error for a function's exception; Funken's own errors are passed on as they are."""
        if isinstance(error, ReduceFailed):
            return self.failed_at(error.__cause__ if error.__cause__ is not None else error, error.record)
        if isinstance(error, FunkenError):
            return error
        superstep = self.context.superstep
        where = f" in superstep {superstep.number}" if superstep is not None else ""
        text, said, hint = (
            "".join(traceback.format_exception(error)),
            str(error).removesuffix("."),
            hint_of(error, record),
        )
        failure = OperatorFailed(
            f"operator {self.name!r} (subtask {self.context.subtask}){where} {what}: {type(error).__name__}: {said}."
            f"{' ' * bool(hint)}{hint}\nThe traceback of the function follows.",
            self.name,
            self.context.subtask,
            text,
        )
        failure.__cause__ = error
        return failure

    def failed_at(self, error: BaseException, record: Any) -> FunkenError:
        """Return the error for a function's exception at a record."""
        text = repr(record)
        shown = text if len(text) <= 200 else text[:197] + "..."
        return self.failed(error, f"failed at the record {shown}", record)

    def over(self, block: Block, work: Callable[[Iterator[Any]], Any]) -> Any:
        """Return the result of ``work`` over the records of a block; if a function fails, the error names the record."""
        # Hot: the loop is in C, or in ``work``. A record that fails is found by how many the iterator has left.
        records = iter(block)
        try:
            return work(records)
        except FUNCTION_ERRORS as error:
            raise self.failed_at(error, block[len(block) - length_hint(records) - 1]) from error

    def results(self, function: Callable[..., Any], what: str, *arguments: Any) -> Iterator[Any]:
        """Return the records that a function returns or yields for groups or partitions; None is none."""
        try:
            found = function(*arguments)
        except FUNCTION_ERRORS as error:
            raise self.failed(error, f"failed at {what}") from error
        try:
            if found is None:
                return
            check_several(found, tuples=False)
            yield from found
        except GeneratorExit:
            raise
        except (Exception, SystemExit) as error:
            raise self.failed(error, f"failed at {what}") from error


# ---- Groups: runs of equal keys in sorted blocks, seen one after the other without holding any of them in memory.


_key, _record = itemgetter(0), itemgetter(1)


def groups(blocks: Iterator[Block], keys: Column) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Return the key and the records of each group; the records are read before the next group is.

    >>> [(key, list(group)) for key, group in groups(iter([[(1, "a"), (1, "b")], [(2, "c")]]), lambda b: [r[0] for r in b])]
    [(1, [(1, 'a'), (1, 'b')]), (2, [(2, 'c')])]
    """
    pairs = chain.from_iterable(zip(keys(block), block, strict=True) for block in blocks)
    for key, group in groupby(pairs, key=_key):
        yield key, map(_record, group)


Groups = Iterator[tuple[Any, Iterator[Any]]]


def merged(first: Groups, second: Groups) -> Iterator[tuple[Any, Iterator[Any], Iterator[Any]]]:
    """Return the groups of two sides by key, in order; a side without the key has an empty one.

    >>> left, right = iter([(1, iter("a")), (2, iter("b"))]), iter([(2, iter("x"))])
    >>> [(key, list(ones), list(others)) for key, ones, others in merged(left, right)]
    [(1, ['a'], []), (2, ['b'], ['x'])]
    """
    one, other = next(first, None), next(second, None)
    difference = None if one is None or other is None else _difference(one[0], other[0])
    if one is not None and other is not None and difference is not None:
        try:
            _ = one[0] < other[0]
        except TypeError:
            raise InvalidProgram(f"join or co_group: {difference}") from None
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            assert one is not None
            yield one[0], one[1], iter(())
            one = next(first, None)
        elif one is None or other[0] < one[0]:
            yield other[0], iter(()), other[1]
            other = next(second, None)
        else:
            yield one[0], one[1], other[1]
            one, other = next(first, None), next(second, None)


def reduced(task: DriverTask, blocks: Blocks, key: Key) -> Iterator[Any]:
    """Reduce the runs of equal keys of sorted records with the operator's function."""
    function = task.function()
    for _, group in groups(blocks, task.column(key)):
        result = next(group)
        for record in group:
            try:
                result = function(result, record)
            except FUNCTION_ERRORS as error:
                raise task.failed_at(error, record) from error
        yield result


# ---- The drivers of operators with two inputs.


_KEEP_FIRST = {JoinKind.LEFT, JoinKind.FULL}
_KEEP_SECOND = {JoinKind.RIGHT, JoinKind.FULL}
CACHED = {DriverStrategy.HYBRIDHASH_BUILD_FIRST_CACHED, DriverStrategy.HYBRIDHASH_BUILD_SECOND_CACHED}


def joined(task: DriverTask) -> Callable[[list[tuple[Any, Any]]], Block]:
    """Return a function that makes records of (first, second) pairs."""
    if task.node.call is None:
        return list
    function = task.function()
    made: Callable[[Iterable[Any]], Block] = _emitted if getattr(task.node, "flat", False) else list
    return lambda pairs: task.over(pairs, lambda remaining: made(starmap(function, remaining)))


def _emitted(found: Iterable[Any]) -> Block:
    """Return the records that a function has returned or yielded for each of several; None is none."""
    emitted: Block = []
    for results in found:
        if results is not None:
            check_several(results)
            emitted.extend(results)
    return emitted


def hashed(side: int, task: DriverTask, first: Blocks | None, second: Blocks | None) -> Blocks:
    """Join with a table of one side."""
    build, probe = (second, first) if side else (first, second)
    assert probe is not None
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
        read = all(key.transparent for key in node.keys)  # the API has said it if the types of fields are known
        difference = None if read else _difference(*(task.column(key).first for key in node.keys))
        if difference is not None and node not in _said:
            _said.add(node)
            logger.warning("operator %r: %s", task.name, difference)
    finally:
        if not reusable:
            table.close()


def _difference(first: Any, second: Any) -> str | None:
    """Return the warning for keys of two inputs that are of different types; ``None`` for others."""
    if first is None or second is None or alike(kind_of_key(first), kind_of_key(second)):
        return None
    return (
        f"its inputs have keys of different types, so records of the two never meet: {shown_key(first)} of where(), "
        f"{shown_key(second)} of equal_to(). Convert one of them, as with str() or int()."
    )


_said: WeakSet[nodes.Join] = WeakSet()
"""The joins of which this process has said so, once for all subtasks and supersteps."""


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


def cross(side: int, task: DriverTask, *inputs: Blocks) -> Blocks:
    """Pair each block of one side with all of the other."""
    outer, inner = inputs[side], inputs[1 - side]
    make = joined(task)
    kept = BlockCache(task.share(), inner)
    try:
        for block in outer:
            for other in kept:
                step = max(1, BLOCK_RECORDS // max(1, len(other)))
                for at in range(0, len(block), step):
                    part = block[at : at + step]
                    pairs = [(b, a) for a in part for b in other] if side else [(a, b) for a in part for b in other]
                    if made := make(pairs):
                        yield made
    finally:
        kept.close()


# ---- The drivers that look records up in the solution set of a delta iteration.


def look_up(side: int, task: DriverTask, *inputs: Blocks) -> Blocks:
    """Pair each record of one side with its entry, or with None if there is none."""
    make, find, keys = joined(task), task.kept["solution"].get, task.column(task.node.keys[side])
    for block in inputs[side]:
        entries = map(find, keys(block))
        if made := make(list(zip(entries, block, strict=True) if side else zip(block, entries, strict=True))):
            yield made


def co_group_entry(side: int, task: DriverTask, *inputs: Blocks) -> Blocks:
    """Call the function with each group of one side and its entry, if there is one."""
    function, find = task.function(), task.kept["solution"].get

    def sides(key: Any, group: Any) -> tuple[Any, Any]:
        entry = find(key)
        found = iter(() if entry is None else (entry,))
        return (found, group) if side else (group, found)

    yield from blocks_of(
        record
        for key, group in groups(inputs[side], task.column(task.node.keys[side]))
        for record in task.results(function, f"the groups of the key {key!r}", *sides(key, group))
    )


Run = Callable[..., Blocks]

_EMITTED_PIECE, _MOST_EMITTED = 1 << 15, 4096
"""Records of a block that flat_map emits, at most: of columns, and of a list."""


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


def _by_block(blocks: Blocks, by_column: Callable[[Any], Block | None], by_record: Callable[[Block], Block]) -> Blocks:
    """Return the results of a function: of columns where it can be computed over them, else record by record."""
    for block in blocks:
        columns = columns_in(block)
        found = None if columns is None else by_column(columns)
        if len(found := by_record(block) if found is None else found):
            yield found


def _map(task: DriverTask, blocks: Blocks) -> Blocks:
    function, call = task.function(), task.node.call
    whole: Callable[[Block], Block] | None = getattr(call.target, "block", None)
    by_record = partial(task.over, work=lambda records: list(map(function, records)))
    return _by_block(blocks, ColumnFunction(call, 1).mapped, whole or by_record)


def _filter(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function()
    by_record = partial(task.over, work=lambda records: list(filter(function, records)))
    return _by_block(blocks, ColumnFunction(task.node.call, 1).kept, by_record)


def _flat_map(task: DriverTask, blocks: Blocks) -> Blocks:
    function = task.function()
    by_record = partial(task.over, work=lambda records: _emitted(map(function, records)))
    for block in _by_block(blocks, ColumnFlatMap(task.node.call).given, by_record):
        most, size = (_MOST_EMITTED, BLOCK_RECORDS) if columns_in(block) is None else (_EMITTED_PIECE, _EMITTED_PIECE)
        yield from [block] if len(block) <= most else (block[at : at + size] for at in range(0, len(block), size))


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
    result: list[Any] = []
    for block in blocks:
        columns = columns_in(block)
        found = None if columns is None else by_column.of_all(columns, *result)
        result = [task.over(block, lambda records: reduce(function, records, *result)) if found is None else found]  # noqa: B023
    if result:
        yield result


def _all_group(task: DriverTask, blocks: Blocks) -> Blocks:
    first = next(blocks, None)
    if first is not None:
        function = task.function(task.node.combiner if task.plan.combiner else None)
        yield from blocks_of(task.results(function, "the group of all records", records_of(chain([first], blocks))))


def _hashed(run: Callable[..., Blocks], task: DriverTask, blocks: Blocks) -> Blocks:
    share, key, call = task.share(), task.node.key, task.node.call
    columns = column_aggregation(share, key, call, task.node.vectorized)
    try:
        yield from run(blocks, share, task.column(key), task.function(), columns)
    except ReduceFailed as error:
        raise task.failed(error, "failed") from error.__cause__
    finally:
        share.close()


def _sorted_reduce(task: DriverTask, blocks: Blocks) -> Blocks:
    return blocks_of(reduced(task, blocks, task.node.key))


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
    DriverStrategy.HASHED_REDUCE: partial(_hashed, aggregated),
    DriverStrategy.HASHED_PARTIAL_REDUCE: partial(_hashed, combined),
    DriverStrategy.SORTED_REDUCE: _sorted_reduce,
    DriverStrategy.SORTED_PARTIAL_REDUCE: _sorted_reduce,
    DriverStrategy.SORTED_GROUP_REDUCE: _sorted_group,
    DriverStrategy.SORTED_GROUP_COMBINE: _sorted_group,
    DriverStrategy.SINK: _sink,
    DriverStrategy.MERGE: merge,
    DriverStrategy.CO_GROUP: co_group,
    DriverStrategy.HYBRIDHASH_BUILD_FIRST: partial(hashed, 0),
    DriverStrategy.HYBRIDHASH_BUILD_SECOND: partial(hashed, 1),
    DriverStrategy.HYBRIDHASH_BUILD_FIRST_CACHED: partial(hashed, 0),
    DriverStrategy.HYBRIDHASH_BUILD_SECOND_CACHED: partial(hashed, 1),
    DriverStrategy.SOLUTION_SET_LOOKUP_FIRST: partial(look_up, 1),
    DriverStrategy.SOLUTION_SET_LOOKUP_SECOND: partial(look_up, 0),
    DriverStrategy.SOLUTION_SET_CO_GROUP_FIRST: partial(co_group_entry, 1),
    DriverStrategy.SOLUTION_SET_CO_GROUP_SECOND: partial(co_group_entry, 0),
    DriverStrategy.NESTEDLOOP_BLOCKED_OUTER_FIRST: partial(cross, 0),
    DriverStrategy.NESTEDLOOP_BLOCKED_OUTER_SECOND: partial(cross, 1),
}
