"""Rows of SQL as a block: an Arrow batch, the kind of change that each row is, and what rows are made of it at the edges.

Inside of table operators a row is a tuple of plain values: what ``pa.Array.to_pylist`` gives, but a TIMESTAMP is the nanoseconds
since 1970, a DATE days, a TIME milliseconds, a ROW a tuple, and a MAP a list of pairs. ``BlockSchema`` is the way there and back.
A block that has to become records becomes ``Row``s with names and kind, whose MAPs are dicts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.block import Block
from funken.errors import ValueDoesNotFit
from funken.expr.sql.types import arrow_type
from funken.types.row import Row, RowKind, make_row

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
"""The kinds of changes, as in ``RowKind``."""
KINDS = tuple(RowKind)
_BUFFERS = 5
"""The first protocol of pickle that knows buffers."""
Tuple = tuple[Any, ...]


class TableBlock(Block):
    """Rows of one row type. ``kinds`` is an array of int8, ``None`` if all rows are insertions.

    >>> block = TableBlock(pa.record_batch({"word": ["to", "be"], "count": [1, 2]}), np.array([0, 3], np.int8))
    >>> block.rows()
    ([Row(word='to', count=1), Row(word='be', count=2)], None)
    >>> [str(row.get_row_kind()) for row in block.rows()[0]]
    ['+I', '-D']
    >>> import pickle
    >>> pickle.loads(pickle.dumps(block[1:])).rows()
    ([Row(word='be', count=2)], None)
    """

    __slots__ = ("batch", "kinds")

    def __init__(self, batch: pa.RecordBatch, kinds: Any = None, timestamps: Any = None) -> None:
        self.batch = batch
        self.kinds = kinds
        self.timestamps = timestamps

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def length(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)

    @property
    def records(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return self.batch.schema

    def __getitem__(self, part: slice) -> TableBlock:
        start, stop, _ = part.indices(len(self))
        kinds = None if self.kinds is None else self.kinds[start:stop]
        stamps = None if self.timestamps is None else self.timestamps[start:stop]
        return TableBlock(self.batch.slice(start, max(0, stop - start)), kinds, stamps)

    def take(self, positions: Any) -> TableBlock:
        """Return the rows at some positions."""
        kinds = None if self.kinds is None else self.kinds[positions]
        stamps = None if self.timestamps is None else np.asarray(self.timestamps)[positions]
        return TableBlock(self.batch.take(pa.array(positions)), kinds, stamps)

    def with_columns(self, arrays: Sequence[pa.Array], schema: pa.Schema) -> TableBlock:
        """Return the same rows with other columns."""
        return TableBlock(pa.RecordBatch.from_arrays(list(arrays), schema=schema), self.kinds, self.timestamps)

    def kind_list(self) -> list[int]:
        """Return the row kinds as a list."""
        return [INSERT] * len(self) if self.kinds is None else self.kinds.tolist()

    def rows(self) -> tuple[list[Any], list[int] | None]:
        """Return ``Row``s with names and row kinds."""
        names = self.batch.schema.names
        columns = [edge_values(column) for column in self.batch.columns]
        values = zip(*columns, strict=True) if columns else [()] * len(self)
        stamps = None if self.timestamps is None else list(map(int, self.timestamps))
        kinds = self.kind_list()
        return [make_row(names, list(row), KINDS[kind]) for row, kind in zip(values, kinds, strict=True)], stamps

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        schema = _schema_bytes(self.batch.schema)
        kinds = None if self.kinds is None else self.kinds.tobytes()
        stamps = None if self.timestamps is None else np.asarray(self.timestamps, np.int64).tobytes()
        written = self.batch.serialize()
        # Hot: the fifth protocol takes the bytes as they are, which saves a copy of each block.
        data = pickle.PickleBuffer(written) if protocol >= _BUFFERS else written.to_pybytes()
        return read_block, (schema, data, kinds, stamps)


@cache
def _schema_bytes(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize().to_pybytes())


@cache
def _schema_of(written: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(written))


def read_block(schema: bytes, batch: bytes, kinds: bytes | None, stamps: bytes | None) -> TableBlock:
    """Make a block of the content of its pickle."""
    return TableBlock(
        pa.ipc.read_record_batch(pa.py_buffer(batch), _schema_of(schema)),
        None if kinds is None else np.frombuffer(kinds, np.int8),
        None if stamps is None else np.frombuffer(stamps, np.int64),
    )


def concatenated(blocks: Sequence[TableBlock]) -> TableBlock:
    """Return blocks of one schema as one.

    >>> parts = [TableBlock(pa.record_batch({"a": [1]})), TableBlock(pa.record_batch({"a": [2]}), np.array([3], np.int8))]
    >>> concatenated(parts).batch["a"].to_pylist(), concatenated(parts).kind_list()
    ([1, 2], [0, 3])
    """
    if len(blocks) == 1:
        return blocks[0]
    batch = pa.concat_batches([block.batch for block in blocks])
    kinds = stamps = None
    if any(block.kinds is not None for block in blocks):
        none = [np.zeros(len(block), np.int8) if block.kinds is None else block.kinds for block in blocks]
        kinds = np.concatenate(none)
    if blocks[0].timestamps is not None:
        stamps = np.concatenate([np.asarray(block.timestamps, np.int64) for block in blocks])
    return TableBlock(batch, kinds, stamps)


# ---- values inside of operators


def plain_values(column: pa.Array) -> list[Any]:
    """Return the values of a column in the form of table operators: ``funken.expr.sql.values`` calls them internal.

    >>> import datetime
    >>> plain_values(pa.array([datetime.datetime(1970, 1, 1, 0, 0, 1), None], pa.timestamp("us")))
    [1000000000, None]
    >>> plain_values(pa.array([{"a": datetime.date(1970, 1, 2), "b": [1]}]))
    [(1, [1])]
    """
    kind = column.type
    to_plain = _to_plain(kind)
    if to_plain is None:
        values: list[Any] = column.to_pylist()
        return values
    return list(to_plain(column))


@cache
def _to_plain(kind: pa.DataType) -> Callable[[pa.Array], list[Any]] | None:
    """Return a converter of a column's values to plain ones; ``None``: they are Python's."""
    if pa.types.is_timestamp(kind):
        factor = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[kind.unit]
        return lambda array: [None if n is None else n * factor for n in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return lambda array: list(array.cast(pa.int32()).to_pylist())
    if pa.types.is_struct(kind):
        return _plain_structs
    if pa.types.is_map(kind):
        return _plain_maps
    if pa.types.is_list(kind) and _to_plain(kind.value_type) is not None:
        return _plain_lists
    return None


def _plain_structs(array: pa.Array) -> list[Any]:
    fields = [plain_values(field) for field in array.flatten()]
    rows = zip(*fields, strict=True) if fields else [()] * len(array)
    return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


def _plain_lists(array: pa.Array) -> list[Any]:
    return _cut(array, plain_values(array.flatten()))


def _plain_maps(array: pa.Array) -> list[Any]:
    start, stop = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    keys, items = array.keys.slice(start, stop - start), array.items.slice(start, stop - start)
    return _cut(array, list(zip(plain_values(keys), plain_values(items), strict=True)))


def _cut(array: pa.Array, items: list[Any]) -> list[Any]:
    """Return lists of the items of ``flatten``: those of NULLs are not among them."""
    found: list[Any] = []
    at = 0
    maps = pa.types.is_map(array.type)
    offsets = array.offsets.to_pylist()
    base = offsets[0] if maps else 0
    for place, valid in enumerate(array.is_valid().to_pylist()):
        count = offsets[place + 1] - offsets[place]
        if maps:
            at = offsets[place] - base
        found.append(items[at : at + count] if valid else None)
        if valid and not maps:
            at += count
    return found


def plain_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of plain values.

    >>> plain_array([(1, 2_000_000_000), None], pa.struct({"a": pa.int64(), "b": pa.timestamp("us")})).to_pylist()
    [{'a': 1, 'b': datetime.datetime(1970, 1, 1, 0, 0, 2)}, None]
    """
    convert = _from_plain(kind)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, kind)


@cache
def _from_plain(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return a converter of plain values to ones that Arrow takes for a type; ``None``: it takes them as they are."""
    if pa.types.is_timestamp(kind):
        factor = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[kind.unit]
        return None if factor == 1 else (lambda value: value // factor)
    if pa.types.is_struct(kind):
        fields = [(field.name, _from_plain(field.type)) for field in kind]
        return lambda value: {
            name: _applied(convert, item) for (name, convert), item in zip(fields, value, strict=True)
        }
    if pa.types.is_map(kind):
        key, item = _from_plain(kind.key_type), _from_plain(kind.item_type)
        if key is None and item is None:
            return None
        return lambda value: [(_applied(key, k), _applied(item, v)) for k, v in value]
    if pa.types.is_list(kind):
        of_item = _from_plain(kind.value_type)
        return None if of_item is None else (lambda value: [_applied(of_item, each) for each in value])
    return None


class BlockSchema:
    """The columns of a table at work: names and SQL types, and how rows are made of batches and batches of rows.

    >>> from funken.expr.sql.types import BigIntType, TimestampType
    >>> schema = BlockSchema(["n", "at"], [BigIntType(), TimestampType(3)])
    >>> schema.tuples(schema.batch([(1, 2_000_000_000)]))
    [(1, 2000000000)]
    """

    def __init__(self, names: Sequence[str], types: Sequence[Any]) -> None:
        self.names = tuple(names)
        self.types = tuple(types)
        self.arrow = pa.schema([(name, arrow_type(each)) for name, each in zip(names, types, strict=True)])
        #: columns whose values only ``funken.expr.sql.values`` knows
        self._special = frozenset(place for place, each in enumerate(types) if _is_special(each))

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockSchema, (self.names, self.types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockSchema) and (self.names, self.types) == (other.names, other.types)

    def __hash__(self) -> int:
        return hash((self.names, self.types))

    def values(self, column: pa.Array, place: int) -> list[Any]:
        """Return the plain values of a column at a place."""
        if place in self._special:
            from funken.expr.sql.values import to_internal  # noqa: PLC0415 - only for types that are rare

            return list(to_internal(column, self.types[place]))
        return plain_values(column)

    def tuples(self, batch: pa.RecordBatch) -> list[Tuple]:
        """Return the rows of a batch as tuples of plain values."""
        columns = [self.values(column, place) for place, column in enumerate(batch.columns)]
        return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows

    def array(self, values: Sequence[Any], place: int) -> pa.Array:
        """Return a column of plain values."""
        if place in self._special:
            from funken.expr.sql.values import from_internal  # noqa: PLC0415 - only for types that are rare

            return from_internal(list(values), self.types[place])
        return plain_array(values, self.arrow.field(place).type)

    def batch(self, tuples: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """Return rows of plain values as a batch."""
        columns: Any = zip(*tuples, strict=True) if tuples else [()] * len(self)
        arrays = [self.array(values, place) for place, values in enumerate(columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def block(self, tuples: Sequence[Sequence[Any]], kinds: Sequence[int] | None = None) -> TableBlock:
        """Return rows of plain values as a block."""
        marks = None if kinds is None or not any(kinds) else np.array(kinds, np.int8)
        return TableBlock(self.batch(tuples), marks)

    def of_rows(self, rows: Sequence[Any]) -> TableBlock:
        """Return ``Row``s of a program, or tuples and lists, which are insertions, as a block; values are by position."""
        from funken.table.values import from_python  # noqa: PLC0415 - at the edges only

        kinds = [row._kind.value if type(row) is Row else INSERT for row in rows]
        marks = np.array(kinds, np.int8) if any(kinds) else None
        columns: Any = zip(*rows, strict=True) if rows else [()] * len(self)
        try:
            arrays = [from_python(list(values), each) for values, each in zip(columns, self.types, strict=True)]
        except ValueError:
            wrong = next((row for row in rows if len(row) != len(self)), None)
            if wrong is None:
                raise
            raise ValueDoesNotFit(
                f"a row has {len(wrong)} values, {wrong!r:.100}, but there are {len(self)} columns: "
                f"{', '.join(self.names)}. Give one value per column, or declare another type."
            ) from None
        return TableBlock(pa.RecordBatch.from_arrays(arrays, schema=self.arrow), marks)

    def rows(self, block: TableBlock) -> list[Row]:
        """Return the rows of a block as a program sees them."""
        from funken.table.values import to_python  # noqa: PLC0415 - at the edges only

        names = list(self.names)
        columns = [to_python(column, each) for column, each in zip(block.batch.columns, self.types, strict=True)]
        values = zip(*columns, strict=True) if columns else [()] * len(block)
        kinds = block.kind_list()
        return [make_row(names, list(row), KINDS[kind]) for row, kind in zip(values, kinds, strict=True)]


def _is_special(each: Any) -> bool:
    if each.root in ("VARIANT", "BITMAP", "RAW"):
        return True
    parts = [getattr(each, name, None) for name in ("element", "key", "value")]
    parts += [field.type for field in getattr(each, "fields", ())]
    return any(part is not None and _is_special(part) for part in parts)


# ---- values at the edges


def edge_values(column: pa.Array) -> list[Any]:
    """Return the values of a column as records carry them: ROWs as ``Row``s, MAPs as dicts."""
    convert = _to_edge(column.type)
    values: list[Any] = column.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


@cache
def _to_edge(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return a converter of plain values to a program's; ``None``: they are the same."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _to_edge(field.type)) for field in kind]
        names = [name for name, _ in fields]
        return lambda value: make_row(names, [_applied(convert, value[name]) for name, convert in fields])
    if pa.types.is_map(kind):
        key, item = _to_edge(kind.key_type), _to_edge(kind.item_type)
        return lambda value: {_hashable(_applied(key, k)): _applied(item, v) for k, v in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of_item = _to_edge(kind.value_type)
        return None if of_item is None else (lambda value: [_applied(of_item, item) for item in value])
    return None


def _applied(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@cache
def _from_edge(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return a converter of a program's values to plain ones; ``None``: they are the same, or Arrow takes them."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _from_edge(field.type)) for field in kind]
        return lambda value: {
            name: _applied(convert, item)
            for (name, convert), item in zip(fields, _fields_of(value, fields), strict=True)
        }
    if pa.types.is_map(kind):
        key, item = _from_edge(kind.key_type), _from_edge(kind.item_type)
        return lambda value: [
            (_applied(key, k), _applied(item, v)) for k, v in (value.items() if hasattr(value, "items") else value)
        ]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of_item = _from_edge(kind.value_type)
        return list if of_item is None else (lambda value: [_applied(of_item, each) for each in value])
    return None


def _fields_of(value: Any, fields: list[Any]) -> Iterable[Any]:
    if isinstance(value, dict):
        return [value.get(name) for name, _ in fields]
    if isinstance(value, Row) and value._fields is not None and set(value._fields) == {name for name, _ in fields}:
        return value.get_fields_by_names([name for name, _ in fields])
    return list(value)


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of values that records carried."""
    convert = _from_edge(kind)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, kind)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def block_of_rows(rows: Sequence[Any], schema: pa.Schema, timestamps: Any = None) -> TableBlock:
    """Return ``Row``s, or tuples and lists, which are insertions, as a block; values are by position.

    >>> block_of_rows([Row.of_kind(RowKind.DELETE, 1), (2,)], pa.schema({"n": pa.int64()})).kind_list()
    [3, 0]
    """
    kinds = [row._kind.value if type(row) is Row else INSERT for row in rows]
    marks = np.array(kinds, np.int8) if any(kinds) else None
    if not len(schema):
        return TableBlock(_empty(schema), marks, timestamps)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [array_of(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return TableBlock(pa.RecordBatch.from_arrays(arrays, schema=schema), marks, timestamps)


def as_table(block: Block, schema: pa.Schema) -> TableBlock:
    """Return a block of any form as rows of a schema: one that travelled as records is made columns again."""
    if isinstance(block, TableBlock):
        return block
    values, stamps = block.rows()
    return block_of_rows(values, schema, None if stamps is None else np.array(stamps, np.int64))
