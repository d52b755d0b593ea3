"""Records as columns: one array per leaf of their shape, and back to exactly the Python objects they stand for.

An int column carries *bounds*: no value is lower than ``low`` or greater than ``high``, though both may be further out than
need be. They show cheaply what cannot overflow. A column whose values are all equal keeps the one value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import chain, islice, pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.declared import Conversion, How, Leaf, conversion_of
from funken.columnar.expressions import NotVectorizable, schema_of_value
from funken.columnar.records import NOT_READ, field_getter, fits, has_form, made_of_fields
from funken.errors import FunkenError, ValueDoesNotFit
from funken.expr.python.table import CLASSES, TABLE, kind_of_object
from funken.expr.types import (
    ARRAYS,
    BOOL,
    FLOAT,
    HIGHEST,
    INT,
    LOWEST,
    NUMBER,
    ROW,
    STR,
    Atomic,
    Composite,
    ListOf,
    Optional,
    Record,
    Type,
    atomic_fields,
    optional,
)
from funken.lazy import LoadedLater
from funken.types.convert import converter
from funken.types.info import TypeInformation

# ---- Arrow, which is loaded when something of it is first used: that takes 0.1 s, and it is needed for text and
# many keys only.


pa: Any = LoadedLater("pyarrow")
pc: Any = LoadedLater("pyarrow.compute")


def mask_of_bits(bits: Any) -> Any:
    """Return an array of bools, none of them null, as one of NumPy."""
    return bits.to_numpy(zero_copy_only=False)


Array = Any
"""A NumPy array, or for text an Arrow array."""

_FEW = 8
"""Fewer than one record in so many are taken by their positions."""

_TYPES: dict[Atomic, Any] = {INT: np.int64, FLOAT: np.float64, BOOL: np.bool_}


class Column:
    """The values of one atomic field; ``data`` is an array, or one Python value if ``constant``."""

    __slots__ = ("constant", "data", "high", "kind", "low")

    def __init__(
        self, kind: Atomic, data: Any, constant: bool = False, low: int | None = None, high: int | None = None
    ) -> None:
        self.kind = kind
        self.data = data
        self.constant = constant
        self.low = low
        self.high = high

    def bounds(self) -> tuple[int, int]:
        """Return the bounds of an int column, which is not empty."""
        if self.low is None or self.high is None:
            return self.measured()
        return self.low, self.high

    def measured(self) -> tuple[int, int]:
        """Return the least and the greatest value as the bounds from now on; those that are carried grow with every sum."""
        low, high = (self.data, self.data) if self.constant else (int(self.data.min()), int(self.data.max()))
        self.low, self.high = low, high
        return low, high

    def take(self, positions: Array) -> Column:
        """Return the values at some positions."""
        if self.constant:
            return self
        return Column(self.kind, self.data.take(positions), False, self.low, self.high)

    def keep(self, mask: Array) -> Column:
        """Return the values where a mask is true."""
        if self.constant:
            return self
        kept = self.data.filter(pa.array(mask)) if self.kind == STR else self.data[mask]
        return Column(self.kind, kept, False, self.low, self.high)

    def cut(self, part: slice) -> Column:
        """Return a slice."""
        return self if self.constant else Column(self.kind, self.data[part], False, self.low, self.high)

    def cast(self, kind: Atomic) -> Column:
        """Return ints as floats, which have to hold them exactly; anything else as it is."""
        if self.kind == kind:
            return self
        return Column(kind, float(self.data), True) if self.constant else Column(kind, self.data.astype(np.float64))

    def array(self, length: int) -> Array:
        """Return the values as an array, also if they are all alike."""
        if not self.constant:
            return self.data
        if self.kind != STR:
            return np.full(length, self.data, _TYPES.get(self.kind, np.object_))
        return pa.repeat(pa.scalar(self.data, pa.string()), length)

    def begin(self, columns: list[Column], lengths: list[int]) -> Column:
        """Put columns together, of which this is the first."""
        arrays = [column.array(length) for column, length in zip(columns, lengths, strict=True)]
        if self.kind == STR:
            return Column(STR, pa.concat_arrays(arrays))
        low = high = None
        if self.kind == INT and all(lengths) and all(each.low is not None or each.constant for each in columns):
            bounds = [column.bounds() for column in columns]
            low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        return Column(self.kind, np.concatenate(arrays), False, low, high)

    def to_list(self, length: int) -> list[Any]:
        """Return the Python values."""
        if self.constant:
            return [self.data] * length
        # Hot: by way of NumPy a text costs a quarter of what ``to_pylist`` takes.
        values: list[Any] = (self.data.to_numpy(zero_copy_only=False) if self.kind == STR else self.data).tolist()
        return values


def arrow_operand(column: Column) -> Any:
    """Return a column of texts as functions of Arrow take it: an array, or a scalar if it is constant."""
    if not column.constant:
        return column.data
    return pa.scalar(column.data, pa.string())


class Columns(Block):
    """A block of records as columns; ``timestamps`` are an array of int64, or ``None``.

    >>> from funken.expr.types import Tuple
    >>> block = columns_of([("a", 1), ("b", 2)], Tuple((STR, INT)), [10, 20])
    >>> len(block), block.rows(), block[1:].rows()
    (2, ([('a', 1), ('b', 2)], [10, 20]), ([('b', 2)], [20]))
    """

    __slots__ = ("leaves", "length", "schema")

    def __init__(
        self, schema: Type, leaves: list[Column], length: int, timestamps: Array | None = None
    ) -> None:  # fmt: skip
        self.schema = schema
        self.leaves = leaves
        self.length = length
        self.timestamps = timestamps

    def __len__(self) -> int:
        return self.length

    @property
    def records(self) -> int:
        """Number of records that the block stands for."""
        return self.length

    def each(self) -> Columns:
        """Return the records that the block stands for."""
        return self

    def stamped(self, timestamps: Array | None) -> Columns:
        """Return the same records with other timestamps."""
        return Columns(self.schema, self.leaves, self.length, timestamps)

    def __getitem__(self, part: slice) -> Columns:
        length = len(range(*part.indices(self.length)))
        stamps = None if self.timestamps is None else self.timestamps[part]
        return Columns(self.schema, [leaf.cut(part) for leaf in self.leaves], length, stamps)

    def take(self, positions: Array) -> Columns:
        """Return the records at some positions."""
        stamps = None if self.timestamps is None else self.timestamps.take(positions)
        return Columns(self.schema, [leaf.take(positions) for leaf in self.leaves], len(positions), stamps)

    def keep(self, mask: Array) -> Columns:
        """Return the records where a mask is true."""
        count = int(np.count_nonzero(mask))
        if count == self.length:
            return self
        if count < self.length // _FEW:
            return self.take(np.flatnonzero(mask))
        stamps = None if self.timestamps is None else self.timestamps[mask]
        return Columns(self.schema, [leaf.keep(mask) for leaf in self.leaves], count, stamps)

    def to_list(self) -> list[Any]:
        """Return the records as Python objects."""
        return _records(self.schema, iter(self.leaves), self.length)

    def rows(self) -> tuple[list[Any], list[int] | None]:
        """Return the records that the block stands for as Python objects, and their timestamps."""
        block = self.each()
        return block.to_list(), None if block.timestamps is None else block.timestamps.tolist()


class MadeLater(Column):
    """A column whose ``data`` is made when it is first read: it has no value before, so who reads it comes to ``__getattr__``."""

    __slots__ = ()

    def __init__(self, kind: Atomic) -> None:
        self.kind = kind
        self.constant = False
        self.low = self.high = None

    def __getattr__(self, name: str) -> Any:
        if name != "data":
            raise AttributeError(name)
        self.data = self._data()
        return self.data

    def _data(self) -> Array:
        raise NotImplementedError


class Lists(MadeLater):
    """Lists: their items one after the other, as columns, and where each list begins; objects are made when they are read.

    >>> tags = column_of([["a", "b"], [], ["c"]], ListOf(STR))
    >>> tags.counts().tolist(), tags.take(np.array([2, 0])).to_list(2)
    ([2, 0, 1], [['c'], ['a', 'b']])
    """

    __slots__ = ("items", "offsets")

    def __init__(self, kind: ListOf, offsets: Array, items: Columns) -> None:
        super().__init__(kind)
        self.offsets = offsets
        self.items = items

    def _data(self) -> Array:
        return _objects(self.to_list(len(self.offsets) - 1))

    def counts(self) -> Array:
        """Return the number of items of each list."""
        return np.diff(self.offsets)

    def content(self) -> Columns:
        """Return the items of all lists, and no others."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        return self.items if last - first == self.items.length else self.items[first:last]

    def to_list(self, length: int) -> list[Any]:
        """Return the lists: new ones each time, for the caller may change it."""
        values = self.content().to_list()
        return [values[start:stop] for start, stop in pairwise((self.offsets - self.offsets[0]).tolist())]

    def take(self, positions: Array) -> Column:
        """Return the lists at some positions."""
        counts = self.counts().take(positions)
        offsets = offsets_of(counts)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets.take(positions) - offsets[:-1], counts)
        return Lists(_list_kind(self), offsets, self.items.take(places))

    def keep(self, mask: Array) -> Column:
        """Return the lists where a mask is true."""
        return self.take(np.flatnonzero(mask))

    def cut(self, part: slice) -> Column:
        """Return a slice."""
        start, stop, step = part.indices(len(self.offsets) - 1)
        if step != 1:
            return self.take(np.arange(start, stop, step))
        return Lists(_list_kind(self), self.offsets[start : max(start, stop) + 1], self.items)

    def begin(self, columns: list[Column], lengths: list[int]) -> Column:
        """Put columns together, of which this is the first."""
        if any(column.kind != self.kind or column.constant for column in columns):  # one that was not read is constant
            return super().begin(columns, lengths)
        lists = [lists_of(column, length) for column, length in zip(columns, lengths, strict=True)]
        items = [content for each in lists if (content := each.content()).length]
        counts = np.concatenate([each.counts() for each in lists])
        return Lists(_list_kind(self), offsets_of(counts), joined(items) if items else lists[0].content())


def _list_kind(column: Column) -> ListOf:
    assert isinstance(column.kind, ListOf)
    return column.kind


def offsets_of(counts: Array) -> Array:
    """Return the offsets of lists with so many items."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _objects(values: list[Any]) -> Array:
    return np.fromiter(values, np.object_, len(values))


def lists_of(column: Column, length: int) -> Lists:
    """Return a column of lists, none of them ``None``, with its items as columns."""
    if isinstance(column, Lists):
        return column
    made = column_of(column.to_list(length), _list_kind(column))
    assert isinstance(made, Lists)
    return made


def lists_with(element: Type, counts: Array, items: Columns) -> Lists:
    """Return lists with so many items each, one after the other."""
    return Lists(ListOf(element), offsets_of(counts), items)


def lists_or_none(there: Column, is_there: list[bool]) -> Column:
    """Return lists, and ``None`` where none is, as objects; ``there`` are those that are.

    >>> lists_or_none(column_of([[1]], ListOf(INT)), [False, True]).to_list(2)
    [None, [1]]
    """
    made = iter(there.to_list(sum(is_there)))
    values = [next(made) if each else None for each in is_there]
    return Column(Optional(ListOf(_list_kind(there).element)), _objects(values))


def _records(schema: Type, leaves: Iterator[Column], length: int) -> list[Any]:
    if isinstance(schema, Atomic):
        return _own(next(leaves), length)
    fields = [_records(inner, leaves, length) for inner in schema]
    return made_of_fields(schema, fields) if isinstance(schema, Record) else list(zip(*fields, strict=True))


def _own(column: Column, length: int) -> list[Any]:
    """Return values of a column; lists are in no other record or field then, although like expressions share a column.

    Hot: 60 ns for each list that is an object; lists with their items as columns are new ones already.
    """
    values = column.to_list(length)
    kind = column.kind.required
    if not isinstance(kind, ListOf) or isinstance(column, Lists) or column.constant:
        return values
    if isinstance(kind.element, Atomic) and not isinstance(kind.element.required, ListOf):
        return [each[:] if type(each) is list else each for each in values]
    items = list(chain.from_iterable(each for each in values if type(each) is list))
    kinds = [optional(kind) for _, kind in atomic_fields(kind.element)]  # objects: an int may have more than 64 bits
    leaves = map(Column, kinds, map(_objects, values_of_leaves(items, kind.element)))
    copies = iter(_records(kind.element, leaves, len(items)))
    return [list(islice(copies, len(each))) if type(each) is list else each for each in values]


def column_of(values: list[Any], kind: Atomic) -> Column:
    """Make a column of Python values, which have to be of the type exactly, or fields that were not read."""
    if values and values[0] is NOT_READ:
        return Column(kind, NOT_READ, True)
    if isinstance(kind, ListOf):
        counts = np.fromiter(map(len, values), np.int64, len(values))
        return lists_with(kind.element, counts, columns_of(list(chain.from_iterable(values)), kind.element))
    if kind not in ARRAYS:
        return Column(kind, _objects(values))
    if kind != STR:
        return Column(kind, np.fromiter(values, _TYPES[kind], len(values)))
    return Column(kind, pa.array(values, pa.string()))


def columns_of(values: list[Any], schema: Type, timestamps: list[int] | None = None) -> Columns:
    """Make columns of records, which have to be of the shape exactly."""
    kinds = [kind for _, kind in atomic_fields(schema)]
    leaves = [column_of(column, kind) for column, kind in zip(values_of_leaves(values, schema), kinds, strict=True)]
    return Columns(schema, leaves, len(values), None if timestamps is None else np.array(timestamps, np.int64))


def values_of_leaves(values: list[Any], schema: Type) -> Iterator[list[Any]]:
    """Take records apart: the values of each atomic field."""
    if isinstance(schema, Atomic):
        yield values
        return
    if isinstance(schema, Record) and schema.form == ROW:
        values = list(map(attrgetter("_values"), values))  # past the function that takes a field by its name, too
    for index, inner in enumerate(schema):
        yield from values_of_leaves(list(map(field_getter(schema, index), values)), inner)


def joined(blocks: list[Columns]) -> Columns:
    """Put blocks of one shape together, all of them with timestamps or none."""
    if len(blocks) == 1:
        return blocks[0]
    lengths = [block.length for block in blocks]
    leaves = [joined_columns(list(parts), lengths) for parts in zip(*[block.leaves for block in blocks], strict=True)]
    stamps = None if blocks[0].timestamps is None else np.concatenate([block.timestamps for block in blocks])
    return Columns(blocks[0].schema, leaves, sum(lengths), stamps)


def joined_columns(parts: list[Column], lengths: list[int]) -> Column:
    """Join columns of one type and these lengths."""
    first = parts[0]
    if first.constant and all(part.constant and _same(part.data, first.data) for part in parts):
        return first
    return first.begin(parts, lengths)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and repr(one) == repr(other)  # -0.0 == 0.0


# ---- Records that a function has made, as columns of a schema that is known: each field is tested at once, in C.


def packed(values: list[Any], schema: Type, timestamps: list[int] | None = None) -> Columns | None:
    """Return records as columns; ``None`` if one of them is not of the schema.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> packed([(1, "a"), (2, "b")], Tuple((INT, STR))).to_list(), packed([(1, "a"), (2, None)], Tuple((INT, STR)))
    ([(1, 'a'), (2, 'b')], None)
    """
    leaves: list[Column] = []
    try:
        fit = _pack(values, schema, leaves)
    except (OverflowError, UnicodeEncodeError):  # an int of more than 64 bits, a text that has no encoding
        return None
    stamps = None if timestamps is None else np.array(timestamps, np.int64)
    return Columns(schema, leaves, len(values), stamps) if fit else None


def _pack(values: list[Any], schema: Type, leaves: list[Column]) -> bool:
    """Add the columns of values, unless one is not of the schema."""
    if isinstance(schema.required, ListOf):
        fit = all(fits(each, schema) for each in values)
    elif isinstance(schema, Atomic):
        wanted = CLASSES[schema.required] if schema.required in ARRAYS else None
        fit = wanted is not None and set(map(type, values)) <= {wanted, type(None) if schema not in ARRAYS else wanted}
    else:
        return _pack_fields(values, schema, leaves)
    if fit:
        leaves.append(column_of(values, schema))
    return fit


def _pack_fields(values: list[Any], schema: Composite, leaves: list[Column]) -> bool:
    if isinstance(schema, Record):
        if not all(has_form(value, schema) for value in values):
            return False
    elif not set(map(type, values)) <= {tuple} or not set(map(len, values)) <= {len(schema)}:
        return False
    fields = [field_getter(schema, index) for index in range(len(schema))]
    return all(_pack(list(map(field, values)), each, leaves) for field, each in zip(fields, schema, strict=True))


# ---- Operators in Python, NumPy and Arrow, and the bounds of their results.
#
# A function of bounds takes the bounds of both sides, ``(low, high, low, high)``, and returns those of the result, in Python's
# unbounded ints; it raises ``FallBackToRows`` where the operator may raise.


_EXACT = 2**53
"""Ints up to this have a float."""


class FallBackToRows(FunkenError):
    """A block that the kernels cannot compute."""


class KernelFault(FallBackToRows):
    """A kernel failed, which is a defect of Funken: the function is not tried on columns again."""


def _corners(op: Callable[[int, int], int]) -> Callable[[int, int, int, int], tuple[int, int]]:
    def bounds(a: int, b: int, c: int, d: int) -> tuple[int, int]:
        found = (op(a, c), op(a, d), op(b, c), op(b, d))
        return min(found), max(found)

    return bounds


def _quotient(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    if c == d:
        return (a // c, b // c) if c > 0 else (b // c, a // c)
    # The divisors below zero, and those above: the caller has seen that none is zero.
    divisors = [each for each in ((c, min(d, -1)), (max(c, 1), d)) if each[0] <= each[1]]
    found = [_corners(operator.floordiv)(a, b, *each) for each in divisors]
    return min(low for low, _ in found), max(high for _, high in found)


def _remainder(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    low, high = _quotient(a, b, c, d)
    if low < LOWEST or high > HIGHEST:
        raise FallBackToRows("an overflow")
    return min(c + 1, 0), max(d - 1, 0)


def _bits(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    width = max(each.bit_length() for each in (a, b, c, d))
    return (0 if min(a, c) >= 0 else -(1 << width)), (1 << width) - 1


def _shifted(op: Callable[[int, int], int]) -> Callable[[int, int, int, int], tuple[int, int]]:
    def bounds(a: int, b: int, c: int, d: int) -> tuple[int, int]:
        if c < 0 or d > 63:
            raise FallBackToRows("a shift by less than 0 or more than 63")
        return _corners(op)(a, b, c, d)

    return bounds


RANGES: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "+": lambda a, b, c, d: (a + c, b + d),
    "-": lambda a, b, c, d: (a - d, b - c),
    "*": _corners(operator.mul),
    "//": _quotient,
    "%": _remainder,
    "&": _bits,
    "|": _bits,
    "^": _bits,
    "<<": _shifted(operator.lshift),
    ">>": _shifted(operator.rshift),
}
PYTHON: dict[str, Callable[[Any, Any], Any]] = {op: TABLE[op].function for op in (*RANGES, "/")}
NUMPY: dict[str, Callable[[Any, Any], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
}
FLOATS = {op: PYTHON[op] for op in ("+", "-", "*", "/")}
BITS = {op: PYTHON[op] for op in ("&", "|", "^")}
ARROW_COMPARE = {
    "<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {op: TABLE[op].function for op in ARROW_COMPARE}


def constant(value: Any) -> Column:
    """Return a value as a column; raise ``FallBackToRows`` if no column can hold it."""
    kind = schema_of_value(value) or kind_of_object(value)
    if not isinstance(kind, Atomic):
        raise FallBackToRows(f"{value!r} fits into no column")
    return Column(kind, value, True)


def folded(kind: Atomic, op: Callable[[Any, Any], Any], left: Column, right: Column) -> Column:
    """Apply a kernel that works on Python values as well."""
    if left.constant and right.constant:
        return constant(op(left.data, right.data))
    return Column(kind, op(left.data, right.data))


def as_float(column: Column) -> Column:
    """Return ints as floats; raise ``FallBackToRows`` if one has none."""
    if column.kind == FLOAT:
        return column
    if column.kind == NUMBER:
        try:
            floats = column.array(1 if column.constant else len(column.data)).astype(np.float64)
        except OverflowError:
            raise FallBackToRows("an int that is no float") from None
        if (np.abs(floats) > _EXACT).any():
            raise FallBackToRows("perhaps an int that a float cannot hold")
        return constant(float(floats[0])) if column.constant else Column(FLOAT, floats)
    low, high = column.bounds()
    if low < -_EXACT or high > _EXACT:
        raise FallBackToRows("an int that a float cannot hold")
    return constant(float(column.data)) if column.constant else Column(FLOAT, column.data.astype(np.float64))


def rounded(values: Array) -> Array:
    """Return numbers as the nearest floats of 32 bits.

    >>> rounded(np.array([0.1, 1e39])).tolist()
    [0.10000000149011612, inf]
    """
    with np.errstate(all="ignore"):
        return values.astype(np.float64).astype(np.float32).astype(np.float64)


def any_zero(column: Column) -> bool:
    """Return True if a column has a zero."""
    return not column.data if column.constant else not column.data.all()


# ---- Conversions of blocks: the results of the converter for their records, or ``FallBackToRows``.


def converted(block: Columns, conversion: Conversion) -> Columns:
    """Convert a block; raises ``FallBackToRows`` if a record may not fit.

    >>> from funken.expr.types import STR, Tuple
    >>> from funken.columnar.declared import conversion_of
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.types import Types
    >>> block = columns_of([("to", 2), ("be", 2**31)], Tuple((STR, INT)))
    >>> converted(block, conversion_of(block.schema, Types.ROW([Types.STRING(), Types.INT()]))).to_list()
    [Row(f0='to', f1=2), Row(f0='be', f1=-2147483648)]
    """
    leaves = [_converted(block.leaves[each.number], each, block.length) for each in conversion.leaves]
    return Columns(conversion.schema, leaves, block.length, block.timestamps)


class BlocksConverted:
    """Converts the blocks of an operator whose results have a declared type; most are of one schema."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = type_info
        self._schema: Type | None = None
        self._conversion: Conversion | None = None

    def __call__(self, block: Block) -> Columns | None:
        """Return a block as columns; ``None``: its records have to be converted."""
        if type(block) is not Columns:
            return None
        if self._schema is not block.schema:
            self._schema = block.schema
            try:
                self._conversion = conversion_of(block.schema, self._type_info)
            except NotVectorizable:
                self._conversion = None
        if self._conversion is None:
            return None
        try:
            return converted(block, self._conversion)
        except FallBackToRows:
            return None


def wrapped(values: Array, bits: int) -> Array:
    """Return ints as those of fewer bits, which may be only one: values beyond them come in from the other end.

    >>> wrapped(np.array([127, 128, -129]), 8).tolist(), wrapped(128, 8)
    ([127, -128, 127], -128)
    """
    half = 1 << (bits - 1)
    if isinstance(values, int):
        return ((values + half) & (2 * half - 1)) - half
    return values.astype(f"i{bits // 8}").astype(np.int64)


def narrowed(column: Column, bits: int) -> Column:
    """Return a column of ints, which is not empty, as one of those of fewer bits."""
    half = 1 << (bits - 1)
    low, high = column.bounds()
    if low < -half or high >= half:
        low, high = column.measured()  # those that are carried may be further out than need be
    return column if -half <= low and high < half else _mapped(column, INT, lambda data: wrapped(data, bits))


def _converted(column: Column, leaf: Leaf, length: int) -> Column:
    if leaf.how is How.SAME:
        return column
    if leaf.how is How.ONE_BY_ONE:
        return _one_by_one(column, leaf, length)
    if leaf.how is How.ITEMS:
        assert leaf.items is not None
        assert isinstance(leaf.kind, ListOf)
        lists = lists_of(column, length)
        return Lists(leaf.kind, lists.offsets, converted(lists.items, leaf.items))
    if leaf.how is How.WRAP:
        return narrowed(column, leaf.bits) if length else column
    of_one, of_all = _SIMPLE[leaf.how]
    return _mapped(column, leaf.kind, of_one if column.constant else of_all)


def _mapped(column: Column, kind: Atomic, of: Callable[[Any], Any]) -> Column:
    return Column(kind, of(column.data), column.constant)


_SIMPLE: dict[How, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    How.AS_INT: (int, lambda values: values.astype(np.int64)),
    How.AS_BOOL: (bool, lambda values: values != 0),
    How.AS_FLOAT: (float, lambda values: values.astype(np.float64)),
    How.ROUND: (lambda value: float(rounded(np.array(value))), rounded),
}
"""The conversion of one value, and of an array."""


def _one_by_one(column: Column, leaf: Leaf, length: int) -> Column:
    assert leaf.type_info is not None
    convert = converter(leaf.type_info)
    try:
        values = [None if each is None and leaf.nullable else convert(each) for each in column.to_list(length)]
        return column_of(values, leaf.kind)
    except (ValueDoesNotFit, ArithmeticError, TypeError, ValueError) as error:
        raise FallBackToRows("a value that does not fit") from error
