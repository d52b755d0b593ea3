"""Hash aggregation: one accumulated record per key; larger data go to disk in partitions.

As long as blocks are columns whose reduction is exactly Python's, they are gathered and aggregated together, again when what is
left of them has doubled. Records of an opaque function are lifted into columns, if they are tuples of plain values: to group
arrays, with that, takes less than a table of tuples, which have to be pickled to know their weight. All else is in a table of
records, into which the columns are ``poured`` then. Its weight is bounded from above by what was measured last plus all that
came in since; only if the bound reaches the limit is the table measured again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, islice
from operator import length_hint
from typing import TYPE_CHECKING, Any

from funken.columnar.declared import FIRST, LAST, reduce_folds
from funken.columnar.expressions import (
    Argument,
    Choose,
    Expression,
    Invoke,
    Make,
    NotVectorizable,
    Rowwise,
    schema_of_value,
)
from funken.columnar.tracing import Traced, trace
from funken.dataset.columns.block import block_of, columns_in, key_leaves, leaf_at, lifted
from funken.dataset.columns.joins import FAN_OUT, MAX_LEVEL, SpilledBlocks, cut
from funken.dataset.memory.manager import Block, Share, blocks_of, weighed, weight
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import Column, Key
from funken.errors import FUNCTION_ERRORS, InvalidProgram
from funken.expr.types import FLOAT, Composite, Type, atomic_fields, is_plain, types_in
from funken.lazy import LoadedLater

if TYPE_CHECKING:
    from funken.columnar.kernels import columns as kernels
    from funken.columnar.kernels import evaluation
    from funken.columnar.kernels.columns import Columns
    from funken.columnar.keyed import relational
else:  # which load NumPy
    evaluation = LoadedLater("funken.columnar.kernels.evaluation")
    kernels = LoadedLater("funken.columnar.kernels.columns")
    relational = LoadedLater("funken.columnar.keyed.relational")


# ---- What becomes of each column when records are reduced: known of built-in aggregations, read of plain
# functions.
#
# A function is read once, and checked for each schema. Where each field of its result is the first, last, least,
# greatest or the sum, one pass computes it. Any other function that can be read is computed over pairs of
# neighbours, round by round, as it is associative; but not if it computes floats, whose sums would differ in the
# last digits.


Hows = tuple[str, ...]
"""One of first, last, sum, min, max per column."""


class ColumnReduce:
    """A function that makes one record of two, over columns; results are None where it has to be called instead.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> pairs = columns_of([("a", 1), ("b", 2), ("a", 3)], Tuple((STR, INT)))
    >>> added = ColumnReduce(DataSetFunction(lambda one, other: (one[0], one[1] + other[1])))
    >>> added.by_key(pairs, [0]).to_list(), added.of_all(pairs, ("z", 5))
    ([('a', 4), ('b', 2)], ('z', 11))
    >>> longer = ColumnReduce(DataSetFunction(lambda one, other: one if one[1] >= other[1] else other))
    >>> longer.by_key(pairs, [0]).to_list(), longer.of_all(pairs)
    ([('a', 3), ('b', 2)], ('a', 3))
    """

    def __init__(self, function: DataSetFunction) -> None:
        self._parts = getattr(function.target, "column_parts", None)
        self._target: Any = None if function.rich or function.method is not None else function.target
        self._hows: dict[Type, tuple[Traced, Hows] | None] = {}
        self._traced = _traced(self._target) if self._parts is None else None
        self._paired: dict[Type, Traced | None] = {}

    @property
    def can_be_read(self) -> bool:
        """True if reading columns is of use."""
        return self._parts is not None or self._traced is not None

    # ---- what it does

    def _folds(self, columns: Columns) -> Hows | None:
        schema = columns.schema
        if self._parts is not None:
            return self._built_in(columns)
        if schema not in self._hows:
            self._hows[schema] = self._read(schema)
        found = self._hows[schema]
        return found[1] if found is not None and found[0].holds(self._target) else None

    def _built_in(self, columns: Columns) -> Hows | None:
        assert self._parts is not None
        chosen, last = self._parts
        hows = [LAST if last else FIRST] * len(columns.leaves)
        seen = set()
        for how, path in chosen:
            leaf = leaf_at(columns, path)
            if leaf is None or leaf in seen:
                return None  # of two aggregates of one field, the second works on the result of the first
            seen.add(leaf)
            hows[leaf] = how
        return tuple(hows)

    def _read(self, schema: Type) -> tuple[Traced, Hows] | None:
        if self._traced is None:
            return None
        try:
            traced, folds = reduce_folds(self._target, None, schema)
        except NotVectorizable:
            return None
        own = [Argument(0, path) for path, _ in atomic_fields(schema)]
        if any(fold.of != argument for fold, argument in zip(folds, own, strict=True)):
            return None
        return traced, tuple(fold.how for fold in folds)

    def _pairs(self, schema: Type) -> Expression | None:
        if self._traced is None:
            return None
        if schema not in self._paired:
            self._paired[schema] = _typed(self._traced, schema)
        found = self._paired[schema]
        return found.result if found is not None and found.holds(self._target) else None

    # ---- results

    def by_key(self, columns: Columns, keys: list[int]) -> Columns | None:
        """Return one record per key, given as columns."""
        hows = self._folds(columns)
        try:
            if hows is not None and relational.can_aggregate(columns, keys, hows):
                return relational.aggregated(columns, keys, hows)
            return self._in_pairs(columns, keys)
        except kernels.FallBackToRows:
            return None

    def of_all(self, columns: Columns, so_far: Any = None) -> Any:
        """Return one record of a block, behind the one so far if there is one."""
        if so_far is not None and schema_of_value(so_far) != columns.schema:
            return None
        hows = self._folds(columns)
        try:
            if hows is not None and relational.can_aggregate(columns, (), hows):
                return relational.total(columns, hows, so_far)
            if self._pairs(columns.schema) is None:
                return None
            if so_far is not None:
                columns = kernels.joined([kernels.columns_of([so_far], columns.schema), columns])
            found = self._in_pairs(columns, [])
            return None if found is None else found.to_list()[0]
        except kernels.FallBackToRows:
            return None

    def _in_pairs(self, columns: Columns, keys: list[int]) -> Columns | None:
        expression = self._pairs(columns.schema)
        if expression is None:
            return None
        return relational.reduced_in_pairs(
            columns, keys, lambda one, other: evaluation.computed_of(expression, columns.schema, one, other)
        )


def _traced(target: Any) -> Traced | None:
    try:
        return trace(target, None, 2)
    except NotVectorizable:
        return None


def _typed(traced: Traced, schema: Type) -> Traced | None:
    try:
        made, found = traced.typed(schema, schema)
    except NotVectorizable:
        return None
    if found != schema or not is_plain(schema):
        return None
    return None if _computes_floats(made.result, schema) else made


def _computes_floats(expression: Expression, schema: Type) -> bool:
    """Return True if a float of the result is computed, and not just one of the arguments."""
    if FLOAT not in types_in(schema):
        return False
    match expression:
        case Make(items) if isinstance(schema, Composite):
            return any(_computes_floats(item, inner) for item, inner in zip(items, schema, strict=True))
        case Choose(_, then, otherwise):
            return _computes_floats(then, schema) or _computes_floats(otherwise, schema)
    return _computes(expression)


def _computes(expression: Any) -> bool:
    """Return True if an expression has more than choices among its arguments."""
    if isinstance(expression, Invoke | Rowwise):
        return True
    if isinstance(expression, tuple):
        return any(map(_computes, expression))
    if not isinstance(expression, Expression):
        return False
    return any(_computes(getattr(expression, field.name)) for field in dataclasses.fields(expression))


Reduce = Callable[[Any, Any], Any]

_MERGED_AT = 1 << 16
"""So many records, at least, are gathered before they are aggregated."""

_EMITTED = 1 << 14
"""Records of an emitted block."""

_LIFTED_FROM = 256
"""Lists are lifted if the first one has so many records."""


class ReduceFailed(Exception):
    """The function raised; ``record`` is the one that was to be added. The function's exception is the cause."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.record = record


class HashTable:
    """A table of accumulated records by key, within a share."""

    def __init__(self, share: Share, keys: Column, reduce: Reduce) -> None:
        self._share = share
        self._keys = keys
        self._reduce = reduce
        self.table: dict[Hashable, Any] = {}

    def add(self, block: Block) -> None:
        """Add records to those of their keys."""
        # Hot: once per block; per record a lookup and the user's function.
        table, reduce = self.table, self._reduce
        get, absent = table.get, _ABSENT
        keys = self._keys(block)
        records = iter(block)
        fold_for = getattr(reduce, "fold_for", None)
        fold = fold_for(block) if fold_for is not None else None
        try:
            if fold is not None:
                fold(table, keys, records)
                return
            for key, record in zip(keys, records, strict=True):
                so_far = get(key, absent)
                table[key] = record if so_far is absent else reduce(so_far, record)
        except FUNCTION_ERRORS as error:
            raise ReduceFailed(block[len(block) - length_hint(records) - 1]) from error

    def has_space_for(self, size: int) -> bool:
        """Reserve for ``size`` bytes more; if they do not fit, measure, and say whether they do then."""
        share = self._share
        if share.used + size > share.limit:
            share.measure(sum(weight(block) for block in blocks_of(self.table.values())))
            if self.table and share.used + size > share.limit // 2 and not share.fits(share.used + 2 * size):
                return False
        share.reserve(size)
        return True

    def blocks(self) -> Iterator[Block]:
        """Return the accumulated records; raise ``InvalidProgram`` if one has another key than its group."""
        keys = iter(self.table)
        for block in blocks_of(self.table.values()):
            of_groups = list(islice(keys, len(block)))
            found = self._keys(block)
            if found != of_groups:
                key, own, record = next(
                    (key, own, record) for key, own, record in zip(of_groups, found, block, strict=True) if key != own
                )
                raise InvalidProgram(
                    f"operator {self._share.operator!r}: the function returned {record!r} for the group of the key {key!r}, "
                    f"but the key of that is {own!r}. Keep the key fields of the records that are reduced."
                )
            yield block

    def clear(self) -> None:
        """Drop everything."""
        self.table.clear()
        self._share.release()


_ABSENT = object()


class ColumnAggregation:
    """One record per key, as columns; ``is_exact``: they equal the function's results.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.dataset.api.aggregations import Aggregations, FieldAggregator
    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
    >>> share = MemoryManager(8192, 1, SpillSpace()).share("sum")
    >>> function = DataSetFunction(FieldAggregator(((Aggregations.SUM, (1,)),), "sum"))
    >>> sums = ColumnAggregation(share, Key(((0,),)), ColumnReduce(function))
    >>> sums.add(block_of(columns_of([("a", 1), ("b", 2), ("a", 3)], Tuple((STR, INT))))), sums.add([("a", 1)])
    (True, False)
    >>> [list(block) for block in sums.poured()]
    [[('a', 4), ('b', 2)]]
    """

    def __init__(self, share: Share, key: Key, reduce: ColumnReduce, lifts: bool = False) -> None:
        self._share = share
        self._lifts = lifts
        self._size = 0
        self._schema: Any = None
        self._key = key
        self._reduce = reduce
        self._partials: list[Columns] = []
        self._rows = 0
        self._merge_at = _MERGED_AT
        self._is_merged = True
        self.is_exact = True

    def following(self) -> ColumnAggregation:
        """Return an aggregation for the blocks of a partition."""
        return ColumnAggregation(self._share, self._key, self._reduce)

    def add(self, block: Block, spill: Callable[[], None] | None = None) -> bool:
        """Take a block; return False if it has to be aggregated record by record. ``spill`` makes space."""
        if not self.is_exact:
            return False
        columns, share = columns_in(block), self._share
        if columns is None and self._lifts and len(block) >= (1 if self._schema else _LIFTED_FROM):
            columns = lifted(block)
        if columns is None or self._schema not in (None, columns.schema) or not key_leaves(columns, self._key):
            return False
        self._schema = columns.schema
        for part, size in weighed(block_of(columns), share.own // 4):
            own = columns_in(part)
            assert own is not None
            self._keep(own, size)
            self._is_merged = False
            if self._rows >= self._merge_at or share.used > share.limit:
                self._merge()
                if spill is not None and self.is_exact and share.used > share.limit // 2 and not share.fits(share.used):
                    spill()
        return True

    def _keep(self, part: Columns, size: int) -> None:
        self._partials.append(part)
        self._rows += part.length
        self._size += size
        self._share.reserve(size)

    def _merge(self) -> None:
        """Make one record per key of the blocks in memory; if that cannot be done exactly, they stay as they are."""
        if self._is_merged or not self.is_exact:
            return
        whole = kernels.joined(self._partials)
        keys = key_leaves(whole, self._key)
        merged = self._reduce.by_key(whole, keys) if keys else None
        if merged is None:
            self.is_exact = False
            return
        self.taken()
        self._keep(merged, weight(block_of(merged)))
        self._merge_at = max(_MERGED_AT, 2 * merged.length)

    def taken(self) -> list[Columns]:
        """Remove and return the records aggregated so far, and release their memory; a key may come more than once."""
        partials, self._partials = self._partials, []
        self._is_merged = True
        self._rows = 0
        self._share.release(self._size)
        self._size = 0
        return partials

    def poured(self) -> Iterator[Block]:
        """Return the same as blocks."""
        self._merge()
        for part in self.taken():
            for at in range(0, part.length, _EMITTED):
                yield block_of(part[at : at + _EMITTED])

    @property
    def is_whole(self) -> bool:
        """True if every key comes once; first merges the parts that are not merged yet."""
        self._merge()
        return self._is_merged


def column_aggregation(
    share: Share, key: Key, function: DataSetFunction, lifts: bool = True
) -> ColumnAggregation | None:
    """Return an aggregation of columns by a key; None if the function cannot be read, or the key is a function.

    ``lifts``: lists of tuples become columns.
    """
    reduce = ColumnReduce(function)
    return ColumnAggregation(share, key, reduce, lifts) if key.transparent and reduce.can_be_read else None


class HashAggregation:
    """Reduces records by key; records that do not fit are aggregated in partitions, one after the other.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
    >>> memory = MemoryManager(8192, 1, SpillSpace())
    >>> add = lambda a, b: (a[0], a[1] + b[1])
    >>> keys = lambda block: [record[0] for record in block]
    >>> sums = HashAggregation(memory.share("sum"), keys, add)
    >>> for n in range(10):
    ...     sums.add([(key, n) for key in range(5000)])
    >>> result = [record for block in sums.blocks() for record in block]
    >>> sorted(result) == [(key, 45) for key in range(5000)], memory.space.files > 0, memory.peak < 8192 * 1.2
    (True, True, True)
    """

    def __init__(
        self, share: Share, keys: Column, reduce: Reduce, level: int = 0, columns: ColumnAggregation | None = None
    ) -> None:
        self._columns = columns
        self._share = share
        self._keys = keys
        self._reduce = reduce
        self._level = level
        self._table = HashTable(share, keys, reduce)
        self._spilled: list[SpilledBlocks] = []

    def add(self, block: Block) -> None:
        """Take a block."""
        columns, share = self._columns, self._share
        if columns is not None:
            # At the last level keys that differ have equal hashes: there is no smaller part, so they stay together.
            taken = columns.add(block, self._spill if self._level < MAX_LEVEL else None)
            if taken and (columns.is_exact or share.used <= share.limit):
                return
            self._pour()
            if taken:
                return
        self._add(block)

    def _pour(self) -> None:
        columns, self._columns = self._columns, None
        if columns is not None:
            for block in columns.poured():
                self._add(list(block))

    def _add(self, block: Block) -> None:
        share = self._share
        for part, size in weighed(block, share.grain) if len(block) else ():
            if not self._table.has_space_for(size):
                if self._level < MAX_LEVEL:
                    self._spill()
                share.reserve(size)
            self._table.add(part)

    def _spill(self) -> None:
        if not self._spilled:
            self._spilled = [SpilledBlocks(self._share) for _ in range(FAN_OUT)]
        partials = [] if self._columns is None else self._columns.taken()
        for block in chain(map(block_of, partials), blocks_of(self._table.table.values())):
            for part, spilled in zip(cut(block, self._keys, self._level), self._spilled, strict=True):
                if len(part):
                    spilled.add(part)
        for spilled in self._spilled:
            spilled.flush()
        self._table.clear()

    def blocks(self) -> Iterator[Block]:
        """Return one record per key; takes no more records afterwards."""
        columns = self._columns
        if not self._spilled:
            if columns is not None and columns.is_whole:
                yield from columns.poured()
                return
            self._pour()
        if not self._spilled:
            yield from self._table.blocks()
            return
        self._spill()
        for spilled in self._spilled:
            following = None if columns is None else columns.following()
            part = HashAggregation(self._share, self._keys, self._reduce, self._level + 1, following)
            for block in spilled.blocks():
                part.add(block)
            yield from part.blocks()
            part.drop()

    def drop(self) -> None:
        """Drop the table."""
        self._table.clear()

    def close(self) -> None:
        """Drop everything."""
        self._spilled = []
        self.drop()
        self._share.close()


def aggregated(
    blocks: Iterable[Block], share: Share, keys: Column, reduce: Reduce, columns: ColumnAggregation | None = None
) -> Iterator[Block]:
    """Reduce records by key."""
    table = HashAggregation(share, keys, reduce, columns=columns)
    for block in blocks:
        table.add(block)
    yield from table.blocks()
    table.drop()


def combined(
    blocks: Iterable[Block], share: Share, keys: Column, reduce: Reduce, columns: ColumnAggregation | None = None
) -> Iterator[Block]:
    """Reduce records by key as far as memory goes: when the table is full, it is emitted and begun anew."""
    table = HashTable(share, keys, reduce)
    for block in blocks:
        if columns is not None:
            if columns.add(block):
                if share.used > share.limit:
                    yield from columns.poured()
                continue
            yield from columns.poured()
            columns = None
        for part, size in weighed(block, share.grain) if len(block) else ():
            if not table.has_space_for(size):
                yield from table.blocks()
                table.clear()
                share.reserve(size)
            table.add(part)
    if columns is not None:
        yield from columns.poured()
    yield from table.blocks()
    table.clear()
