"""A block whose records are columns.

It is read as any block is: operators that know nothing of columns iterate over it, take slices and its length, and get
tuples, which are made once. Those that do know take ``columns``. Nothing here loads NumPy.
"""

from __future__ import annotations

import contextlib
import marshal
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from funken.columnar.expressions import Argument, Make, NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.tracing import Traced, trace
from funken.columnar.typed.inference import TracedFlatMap
from funken.dataset.memory.manager import Block
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import Descending, Key, KeyColumn, Order, Path
from funken.expr.types import BOOL, FLOAT, INT, NONE, STR, Atomic, Composite, Tuple, Type, atomic_fields, is_plain
from funken.lazy import LoadedLater

if TYPE_CHECKING:
    from funken.columnar.kernels import columns as kernels
    from funken.columnar.kernels import evaluation
    from funken.columnar.kernels.columns import Column, Columns
    from funken.columnar.keyed import codec, relational
    from funken.operators.columnar import stateless
else:  # which load NumPy
    codec = LoadedLater("funken.columnar.keyed.codec")
    evaluation = LoadedLater("funken.columnar.kernels.evaluation")
    kernels = LoadedLater("funken.columnar.kernels.columns")
    relational = LoadedLater("funken.columnar.keyed.relational")
    stateless = LoadedLater("funken.operators.columnar.stateless")


class ColumnBlock:
    """Records as columns, in the place of a list.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> block = ColumnBlock(columns_of([("a", 1), ("b", 2), ("c", 3)], Tuple((STR, INT))))
    >>> len(block), list(block)[1], block[-1], list(block[::2])
    (3, ('b', 2), ('c', 3), [('a', 1), ('c', 3)])
    """

    __slots__ = ("_rows", "columns")

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._rows: list[Any] | None = None

    def __len__(self) -> int:
        return self.columns.length

    def rows(self) -> list[Any]:
        """Return the records as Python objects."""
        if self._rows is None:
            self._rows = self.columns.to_list()
        return self._rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows())

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            return self.rows()[at]
        return ColumnBlock(self.columns[at])

    def __reduce__(self) -> tuple[Any, ...]:
        return _decoded, (codec.encode_block(self.columns),)

    @property
    def size(self) -> int:
        """Return the bytes of the columns."""
        return relational.size_of(self.columns)


def _decoded(payload: bytes) -> ColumnBlock:
    return ColumnBlock(codec.decode_block(payload))


def block_of(columns: Columns) -> Block:
    """Return columns as a block."""
    return cast("Block", ColumnBlock(columns))


def columns_in(block: Any) -> Columns | None:
    """Return the columns of a block; None if it is a list."""
    return block.columns if type(block) is ColumnBlock else None


def records_at(block: Block, positions: Sequence[int]) -> list[Any]:
    """Return some records of a block; of columns, no others are made.

    >>> records_at(["a", "b", "c"], [2, 0])
    ['c', 'a']
    """
    columns = columns_in(block)
    if columns is None:
        return [block[at] for at in positions]
    return columns.take(positions).to_list()


def put_together(blocks: Sequence[Block]) -> Block:
    """Make one block of several: of columns, if all are columns of one schema.

    >>> put_together([[1, 2], [3]])
    [1, 2, 3]
    """
    if len(blocks) == 1:
        return blocks[0]
    found = [columns for block in blocks if (columns := columns_in(block)) is not None]
    if len(found) == len(blocks) and len({columns.schema for columns in found}) == 1:
        return block_of(kernels.joined(found))
    return [record for block in blocks for record in block]


# ---- Which columns of a block a key or an order is, and how blocks are dealt out by it.


OrderLeaves = list[tuple[int, bool]]
"""Numbers of columns, and whether each is descending."""

_TYPES: dict[Atomic, type] = {INT: int, FLOAT: float, BOOL: bool, STR: str}


def leaf_at(block: Any, path: Path) -> int | None:
    """Return the number of the column that a path leads to; None if it leads to none.

    >>> from funken.expr.types import Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> leaf_at(columns_of([(1, ("a", 2.0))], Tuple((INT, Tuple((STR, FLOAT))))), (1, 0))
    1
    """
    return next((leaf for leaf, (own, _) in enumerate(atomic_fields(block.schema)) if own == path), None)


def key_leaves(block: Any, key: Key) -> list[int] | None:
    """Return the numbers of the columns of a key; None unless all are ints or texts."""
    if not key.transparent:
        return None
    found = []
    for path in key.paths:
        leaf = leaf_at(block, path)
        if leaf is None or block.leaves[leaf].kind not in (INT, STR):
            return None
        found.append(leaf)
    return found


def order_leaves(block: Any, fields: Sequence[tuple[Path, bool]] | None) -> OrderLeaves | None:
    """Return the columns of a block that an order compares, one after the other; None if it needs the records.

    >>> from funken.expr.types import Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> pairs = columns_of([(1, ("a", 2.0)), (2, ("b", float("nan")))], Tuple((INT, Tuple((STR, FLOAT)))))
    >>> order_leaves(pairs, [((1,), True), ((0,), False)]), order_leaves(pairs[:1], [((1,), True), ((0,), False)])
    (None, [(1, True), (2, True), (0, False)])
    """
    found: OrderLeaves = []
    for path, descending in fields or ():
        inside = [leaf for leaf, (own, _) in enumerate(atomic_fields(block.schema)) if own[: len(path)] == path]
        if not inside:
            return None
        found += [(leaf, descending) for leaf in inside]
    if not found:
        return None
    try:
        relational.check_order(block, [leaf for leaf, _ in found])
    except kernels.FallBackToRows:
        return None
    return found


def ordered_columns(block: Block, order: Order) -> tuple[Columns, OrderLeaves] | None:
    """Return the columns of a block, and which of them an order compares; None if it needs the records."""
    columns = columns_in(block)
    leaves = None if columns is None else order_leaves(columns, order.fields())
    return None if columns is None or leaves is None else (columns, leaves)


def dealt_out(block: Block, column: Any, consumers: int, level: int | None = None) -> Sequence[Block] | None:
    """Cut a block of columns into one part per consumer, by the hash of a key; None if that needs its records.

    ``level``: other bits of the hash decide, as in ``joins.py``.
    """
    columns = columns_in(block)
    if columns is None or not isinstance(column, KeyColumn):
        return None
    leaves = key_leaves(columns, column.key)
    if not leaves:
        return None
    keys, length = [columns.leaves[leaf] for leaf in leaves], columns.length
    targets = (
        relational.targets_of(keys, length, consumers)
        if level is None
        else relational.partitions_of(keys, length, level)
    )
    return _parts(relational.cut_up(columns, targets, consumers))


def dealt_by_range(block: Block, order: Order, bounds: Sequence[Any], consumers: int) -> Sequence[Block] | None:
    """Cut a block of columns by the ranges of an order; None if that needs its records."""
    found = ordered_columns(block, order)
    if found is None:
        return None
    columns, leaves = found
    kinds = [_TYPES[columns.leaves[leaf].kind] for leaf, _ in leaves]
    plain = [_values(bound) for bound in bounds]
    if any(list(map(type, values)) != kinds for values in plain):
        return None  # the bounds are from records of other types
    return _parts(relational.cut_up(columns, relational.ranges_of(columns, leaves, plain), consumers))


def _values(bound: Any) -> list[Any]:
    """Return the values of a key as ``Order.keys`` has it."""
    if isinstance(bound, Descending):
        return _values(bound.key)
    return [value for part in bound for value in _values(part)] if type(bound) is tuple else [bound]


def _parts(parts: Sequence[Columns | None]) -> Sequence[Block]:
    return [[] if part is None else block_of(part) for part in parts]


# ---- Tuples that functions have made, as columns.
#
# Invariant: what comes of it gives the same records again, types included, so only ``int``, ``float`` and ``str``
# are lifted, and no subclass of them. Nothing here loads NumPy before there is a block that can be lifted.


_LIFTED = {int: INT, float: FLOAT, str: STR}
"""Kinds of fields that become columns; an array of bools would not be smaller."""
_VERSION = 2
"""Of marshal's format: every value is written where it is used, floats as eight bytes."""
_WIDE = 1 << 31


def lifted(block: Block) -> Columns | None:
    """Return records of a list as columns; None unless they are tuples of one width whose fields are of one plain type each.

    >>> lifted([(1, 0.5, "a"), (2, 1.5, "b")]).to_list()
    [(1, 0.5, 'a'), (2, 1.5, 'b')]
    >>> [lifted(block) for block in ([(1, 2), (1, 2.0)], [(1,), (1, 2)], [(2**63,)], [(True,)], [[1]], [(1, None)])]
    [None, None, None, None, None, None]
    """
    # Hot: once per block, all loops are in C; see ``benchmarks/columns.py --only lifted``.
    first = block[0] if block else ()
    if type(first) is not tuple or not first:
        return None
    kinds = Tuple(_LIFTED[type(value)] for value in first if type(value) in _LIFTED)
    if len(kinds) < len(first):
        return None
    leaves = _of_numbers(block, first, kinds) or _of_fields(block, kinds)
    if leaves is None:
        return None
    return kernels.Columns(kinds, leaves, len(block))


def _of_numbers(block: Block, first: tuple[Any, ...], kinds: Composite) -> list[Column] | None:
    """Return columns of floats and of ints of 32 bits, which ``marshal`` writes at once; None if there is anything else."""
    if type(block) is not list or not all(map(_is_short, first)):
        return None
    try:
        data = marshal.dumps(block, _VERSION)
    except ValueError:  # something that is no plain value
        return None
    return codec.marshalled_numbers(data, kinds, len(block))


def _is_short(value: Any) -> bool:
    return type(value) is float or (type(value) is int and -_WIDE <= value < _WIDE)


def _of_fields(block: Block, kinds: Composite) -> list[Column] | None:
    """Return the columns of tuples with such fields; None if there is anything else."""
    if set(map(type, block)) != {tuple} or set(map(len, block)) != {len(kinds)}:
        return None
    fields = [list(map(itemgetter(place), block)) for place in range(len(kinds))]
    if any(set(map(type, field)) != {type(field[0])} for field in fields):
        return None
    try:
        return [kernels.column_of(field, _LIFTED[type(field[0])]) for field in fields]
    except (OverflowError, UnicodeEncodeError):  # more than 64 bits, or a text that has no encoding
        return None


# ---- Functions of a program, computed over blocks of columns.
#
# A function is read once (``columnar/tracing.py``), and checked for each schema that its blocks have. Where it
# cannot be read, has no kernel with exactly Python's results, or a block is outside of what the kernel is exact
# for, the answer is None: the operator then calls the function for each record.


class _Read:
    """A function that was read, if it could be, and its forms for blocks of some schemas."""

    def __init__(self, target: Any, traced: Traced | TracedFlatMap | None) -> None:
        self._target = target
        self._traced = traced
        self._typed: dict[tuple[Type, ...], tuple[Any, Type] | None] = {}

    def _of(self, *schemas: Type) -> tuple[Any, Type] | None:
        traced: Any = self._traced
        if traced is None:
            return None
        if schemas not in self._typed:
            self._typed[schemas] = None
            with contextlib.suppress(NotVectorizable):
                made, result = traced.typed(*schemas)
                self._typed[schemas] = (made, result) if is_plain(result) else None
        return self._typed[schemas] if traced.holds(self._target) else None


class ColumnFunction(_Read):
    """A function of one or two records.

    >>> from funken.expr.types import INT, STR
    >>> from funken.columnar.kernels.columns import columns_of
    >>> pairs = columns_of([("a", 1), ("b", 2)], Tuple((STR, INT)))
    >>> list(ColumnFunction(DataSetFunction(lambda pair: (pair[1] * 2, pair[0])), 1).mapped(pairs))
    [(2, 'a'), (4, 'b')]
    >>> list(ColumnFunction(DataSetFunction(lambda pair: pair[1] > 1), 1).kept(pairs))
    [('b', 2)]
    >>> ColumnFunction(DataSetFunction(lambda pair: print(pair)), 1).mapped(pairs) is None
    True
    """

    def __init__(self, function: DataSetFunction, arguments: int) -> None:
        super().__init__(function.target, _traced(function, arguments))

    def mapped(self, *blocks: Columns) -> Block | None:
        """Return the results for the records of blocks of one length."""
        found = self._of(*(block.schema for block in blocks))
        if found is None:
            return None
        try:
            return block_of(evaluation.computed_of(found[0].result, found[1], *blocks))
        except kernels.FallBackToRows:
            return None

    def paired(self, first: Columns | None, second: Columns | None) -> Block | None:
        """Return the results for pairs of records, of which one side may be None everywhere."""
        given = first if first is not None else second
        assert given is not None
        return self.mapped(*(_nothing(given.length) if each is None else each for each in (first, second)))

    def kept(self, block: Columns) -> Block | None:
        """Return the records for which the function is true, which may be none."""
        found = self._of(block.schema)
        if found is None or not isinstance(found[1], Atomic):
            return None
        try:
            mask = evaluation.mask_of(found[0].result, block)
        except kernels.FallBackToRows:
            return None
        if isinstance(mask, bool):
            return block_of(block) if mask else []
        return block_of(block.keep(mask))


class ColumnFlatMap(_Read):
    """A function that returns or yields the results of a record.

    >>> from funken.expr.types import STR
    >>> from funken.columnar.kernels.columns import columns_of
    >>> lines = columns_of(["to be", "", "or"], STR)
    >>> list(ColumnFlatMap(DataSetFunction(str.split)).given(lines))
    ['to', 'be', 'or']
    >>> list(ColumnFlatMap(DataSetFunction(lambda line: (line, line + "!"))).given(lines[2:]))
    ['or', 'or!']
    >>> ColumnFlatMap(DataSetFunction(lambda line: reversed(line))).given(lines) is None
    True
    """

    def __init__(self, function: DataSetFunction) -> None:
        target: Any = _split if function.target is str.split else function.target
        traced = None
        if not function.rich and function.method is None:
            with contextlib.suppress(NotVectorizable):
                traced = trace_flat_map(target, None)
        super().__init__(target, traced)

    def given(self, block: Columns) -> Block | None:
        """Return the results for all records of a block, in order; None if it has to be called for each record."""
        found = self._of(block.schema)
        if found is None:
            return None
        try:
            return block_of(stateless.given_of(found[0].emissions, found[1], block))
        except kernels.FallBackToRows:
            return None


def _split(text: str) -> list[str]:
    return text.split()


def _traced(function: DataSetFunction, arguments: int) -> Traced | None:
    paths = getattr(function.target, "column_paths", None)
    if paths is not None:
        return Traced(Make(tuple(Argument(side, path) for side, path in paths)))
    if function.rich or function.method is not None:
        return None
    try:
        return trace(function.target, None, arguments)
    except NotVectorizable:
        return None


def _nothing(length: int) -> Columns:
    return kernels.Columns(NONE, [kernels.Column(NONE, None, True)], length)


def paired(first: Columns, second: Columns) -> Block:
    """Return pairs of the records of two blocks."""
    return block_of(
        kernels.Columns(Tuple((first.schema, second.schema)), [*first.leaves, *second.leaves], first.length)
    )
