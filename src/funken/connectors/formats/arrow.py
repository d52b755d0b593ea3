"""Values and batches of Arrow, as records or columns, and the way back.

Batches of Arrow: readers of them, as records or as columns (positions count rows, alike for both), and the way back.
"""

from __future__ import annotations

import datetime
import importlib
import itertools
import math
import numbers
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Protocol

from funken import extras
from funken.columnar.records import NOT_READ
from funken.connectors.formats.arrow_columns import columns_of_batch, has_fields
from funken.connectors.formats.record_types import RecordShape, has_other_values, names_of
from funken.expr.python.table import DATE
from funken.expr.types import (
    ARRAYS,
    BOOL,
    DICT,
    FLOAT,
    INT,
    ROW,
    STR,
    Atomic,
    Composite,
    ListOf,
    Record,
    Type,
    atomic_fields,
    name_of,
    outer_fields,
)
from funken.types.convert import python_values
from funken.types.info import RowTypeInfo, TupleTypeInfo
from funken.types.text import shown, without_zone

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns


# ---- Values as arrays of Arrow, without a loss: Arrow by itself cuts 1.5 down to 1, a ``datetime`` to its date,
# and drops zones.
#
# A column is looked at by the types of its values, before Arrow converts them; what would come back as another
# value is refused.


_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}
"""Microseconds in a unit of time; those of nanoseconds are all kept."""


def array_of(values: Sequence[Any], kind: Any) -> Any:
    """Return values as an array; raises ``ValueError``, or Arrow's error, for one that the type has no place for.

    >>> import pyarrow as pa
    >>> array_of([1, None], pa.int8()).to_pylist()
    [1, None]
    >>> array_of([1.5], pa.int8())
    Traceback (most recent call last):
    ...
    ValueError: 1.5 is no int8
    """
    check_values(values, kind)
    return extras.load("pyarrow").array(values, kind)


def check_values(values: Iterable[Any], kind: Any) -> None:
    """Raise ``ValueError`` for a value that would come back as another one."""
    of = extras.load("pyarrow").types
    there = [value for value in values if value is not None]
    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        _refuse(there, lambda value: isinstance(value, str | bytes | dict), kind)
        check_values(itertools.chain.from_iterable(there), kind.value_type)
    elif of.is_map(kind):
        pairs = [value.items() if isinstance(value, Mapping) else value for value in there]
        check_values([key for each in pairs for key, _ in each], kind.key_type)
        check_values([item for each in pairs for _, item in each], kind.item_type)
    elif of.is_struct(kind):
        for field in kind:
            check_values([value.get(field.name) for value in there if isinstance(value, Mapping)], field.type)
    else:
        _check_singles(there, kind, of)


def _refuse(values: Iterable[Any], is_wrong: Callable[[Any], bool], kind: Any) -> None:
    for value in values:
        if is_wrong(value):
            raise ValueError(f"{shown(value)} is no {kind}")


def _check_singles(values: list[Any], kind: Any, of: Any) -> None:
    # Hot: the types of values are few, and looked at once.
    types = set(map(type, values))
    if of.is_integer(kind):
        if any(not issubclass(each, numbers.Integral) or issubclass(each, bool) for each in types):
            _refuse(values, lambda value: isinstance(value, bool) or not isinstance(value, numbers.Integral), kind)
    elif of.is_floating(kind):
        if of.is_float32(kind):
            _refuse(values, _is_beyond_single, kind)
    elif of.is_string(kind) or of.is_large_string(kind):
        if any(not issubclass(each, str) for each in types):
            _refuse(values, lambda value: not isinstance(value, str), kind)
    elif of.is_binary(kind) or of.is_large_binary(kind):
        if any(issubclass(each, str) for each in types):
            _refuse(values, lambda value: isinstance(value, str), kind)
    elif of.is_date(kind):
        if any(issubclass(each, datetime.datetime) for each in types):
            _refuse(values, lambda value: isinstance(value, datetime.datetime), kind)
    elif of.is_timestamp(kind) or of.is_time(kind):
        _check_times([each for each in values if isinstance(each, datetime.datetime | datetime.time)], kind, of)


def _is_beyond_single(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) >= 3.4028235677973366e38


def check_singles(numbers: Any) -> None:
    """Raise ``ValueError`` for an array of NumPy with a number that is infinite in 32 bits only."""
    numpy = extras.load("numpy")
    with numpy.errstate(over="ignore"):
        beyond = numpy.isinf(numbers.astype("float32")) & numpy.isfinite(numbers)
    if beyond.any():
        raise ValueError(f"{numbers[beyond][0]} is beyond numbers of 32 bits")


def _check_times(values: list[Any], kind: Any, of: Any) -> None:
    if of.is_time(kind):
        _refuse(values, lambda value: value.tzinfo is not None, kind)
    elif kind.tz is None:
        for value in values:
            without_zone(value)
    step = _UNITS[kind.unit]
    if step > 1:
        for value in values:
            if value.microsecond % step:
                raise ValueError(f"{value.isoformat()} is finer than {kind}; round it")


_BATCH_ROWS = 8192
_COLUMN_ROWS = 32_768
"""Rows of a batch that becomes a block of columns."""


class RowGroup(Protocol):
    """Some rows of a file that are read together."""

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield batches of these columns (more may be there), of so many rows at most."""
        ...


class RowGroups:
    """The groups of rows of one split: the names of the file's columns, and of each group its rows (0: not known) and reader.

    ``types`` are the types of columns that may be asked for by some of their fields (``"user.id"``), ``paths`` what the values in
    these are called (``"items.list.element.n"``).
    """

    def __init__(
        self, names: Sequence[str], groups: Sequence[tuple[int, RowGroup]], types: Mapping[str, Any] | None = None,
        paths: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.names = names
        self.groups = groups
        self.types = types or {}
        self.paths = paths


class ArrowRecords:
    """The records of groups of rows, a batch at a time; positions count the rows of the split."""

    _rows = _BATCH_ROWS

    def __init__(self, groups: RowGroups, shape: RecordShape | None, fields: Sequence[str] | None, done: int) -> None:
        self._shape = shape
        wanted = groups.names if shape is None and fields is None else (shape.names if shape else fields or ())
        there = set(groups.names)
        missing = [name for name in wanted if name not in there and (shape is None or name in shape.required)]
        if missing:
            raise ValueError(f"it has no column {missing[0]!r}, but {', '.join(map(repr, groups.names))}")
        #: the columns that records are made of, and those of them that are read
        self._names = tuple(name for name in wanted if name in there)
        self._read: Sequence[str] = self._names
        #: what is asked for, to read them
        self._asked: Sequence[str] = self._names
        self._types: Any = None if shape is None else shape.types()
        self._row = done
        self._size = 0
        self._skip = done
        self._groups = list(groups.groups)
        while self._groups and 0 < self._groups[0][0] <= self._skip:  # whole groups that are done are not read again
            self._skip -= self._groups.pop(0)[0]
        self._batches: Iterator[Any] | None = None

    def next(self) -> Sequence[Any]:
        """Return the records of the next batch."""
        self._row += self._size
        self._size = 0
        if self._batches is None:
            self._batches = (batch for _, group in self._groups for batch in group.batches(self._asked, self._rows))
        for batch in self._batches:
            if self._skip >= batch.num_rows:
                self._skip -= batch.num_rows
                continue
            left, self._skip = batch.slice(self._skip), 0
            self._size = left.num_rows
            return self._made(left)
        return ()

    def _made(self, batch: Any) -> Sequence[Any]:
        return self._records(batch)

    def _records(self, batch: Any) -> Sequence[Any]:
        """Make records; fields that are not read are marked as such."""
        read, rows = set(self._read), batch.num_rows
        if self._shape is None:
            values = [python_values(batch.column(name)) if name in read else [NOT_READ] * rows for name in self._names]
            return [dict(zip(self._names, row, strict=True)) for row in zip(*values, strict=True)] or [{}] * rows
        columns: list[Sequence[Any]] = []
        for name, declared in zip(self._shape.names, self._types, strict=True):
            if name not in self._names:
                columns.append([self._shape.defaults(name)] * rows)
            elif name not in read:
                columns.append([NOT_READ] * rows)
            else:
                columns.append(python_values(_converted(name, batch.column(name), declared.type)))
        return [self._shape.make(values) for values in zip(*columns, strict=True)]

    def position(self, taken: int) -> int:
        """Return the number of finished rows of the split."""
        return self._row + taken


class ArrowColumns(ArrowRecords):
    """The same as blocks of columns, of the wanted fields; records where a batch has no such form."""

    _rows = _COLUMN_ROWS

    def __init__(
        self, groups: RowGroups, shape: RecordShape | None, fields: Sequence[str] | None, done: int, schema: Type,
        wanted: Sequence[int] | None,
    ) -> None:  # fmt: skip
        super().__init__(groups, shape, fields, done)
        assert isinstance(schema, Composite)
        self._schema = schema
        names = names_of(schema, shape)
        self._leaves = wanted
        self._wanted = names if wanted is None else [names[number] for number in outer_fields(schema, wanted)]
        #: whether the file has the columns that the schema names
        self._fits = names == self._names
        # Of a file with other columns all are read: a function may ask for those that the schema does not know.
        self._read = self._asked = [name for name in self._names if name in self._wanted or not self._fits]
        if shape is None and self._fits and wanted is not None:
            self._asked = list(_fields_of(schema, groups, set(wanted)))

    def _made(self, batch: Any) -> Any:
        pruned = self._asked != self._read
        if self._fits:
            read = set(self._read)
            arrays = [batch.column(name) if name in read else None for name in self._names]
            if self._types is not None:
                arrays = [
                    None if array is None else _converted(name, array, declared.type)
                    for name, array, declared in zip(self._names, arrays, self._types, strict=True)
                ]
            made = columns_of_batch(self._schema, arrays, batch.num_rows, self._leaves, pruned=pruned)
            if made is not None:
                return made
        records = self._records(batch)
        return [_completed(record, self._schema) for record in records] if pruned else records


def _completed(record: Any, schema: Type) -> Any:
    """Return a dict with the fields that were left out of it marked as not read, also in lists."""
    if isinstance(schema, ListOf) and isinstance(record, list):
        return [_completed(item, schema.element) for item in record]
    if not isinstance(schema, Record) or not isinstance(record, dict):
        return record
    fields = zip(schema.names, schema, strict=True)
    return {name: _completed(record[name], inner) if name in record else NOT_READ for name, inner in fields}


def _fields_of(schema: Composite, groups: RowGroups, wanted: Collection[int]) -> Iterator[str]:
    """Yield columns, or the fields within those that can be read without the others, of atomic fields."""
    found: dict[str, None] = {}
    for number, (path, kind) in enumerate(atomic_fields(schema)):
        if number in wanted:
            name = name_of(schema, path[:1])
            if name not in groups.types or not has_fields(schema[path[0]], groups.types[name]):
                found[name] = None
            else:
                found |= dict.fromkeys(_of_items(kind, name_of(schema, path), groups.paths))
    yield from found


def _of_items(kind: Atomic, name: str, paths: Sequence[str]) -> list[str]:
    """Return a column's name, or those of its list items' fields: two of the file's own are between the names."""
    if not isinstance(kind, ListOf) or kind.read is None or isinstance(kind.element, Atomic):
        return [name]
    leaves = [name_of(kind.element, path) for path, _ in atomic_fields(kind.element)]
    within = {path: path[len(name) + 1 :].split(".", 2)[-1] for path in paths if path.startswith(f"{name}.")}
    chosen = {leaves[number] for number in kind.read or [0]}
    found = [
        path for path, inner in within.items() if any(inner == one or inner.startswith(f"{one}.") for one in chosen)
    ]
    return found if len(found) >= len(chosen) else [name]


def _converted(name: str, column: Any, wanted: Any) -> Any:
    if column.type == wanted:
        return column
    arrow = extras.load("pyarrow")
    try:
        return column.cast(wanted)
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
        raise ValueError(f"its column {name!r} is {column.type}, and was declared as {wanted} ({error})") from None


# ---- the other way


def places_of(schema: Type, record_type: Any, names: Sequence[str]) -> list[int] | None:
    """Return the field of a record for each column; ``None`` if that takes more than its schema.

    ``record_type`` is the declared type of the file's records; without one, columns have the names of fields.

    >>> from funken.expr.types import Tuple
    >>> from funken import Types
    >>> places_of(Tuple((STR, INT)), Types.TUPLE([Types.STRING(), Types.INT()]), ["f0", "f1"])
    [0, 1]
    >>> places_of(Record((INT, STR), DICT, ("n", "item")), None, ["item", "n"])
    [1, 0]
    """
    if isinstance(schema, Atomic) or any(not isinstance(kind, Atomic) for kind in schema):
        return None
    fields = list(schema.names) if isinstance(schema, Record) else []
    in_order = not fields and (
        isinstance(record_type, TupleTypeInfo | RowTypeInfo)
        or (_is_class(record_type) and not is_dataclass(record_type))
    )
    if in_order:
        return list(range(len(names))) if len(schema) == len(names) else None
    by_name = record_type is None or not (
        _is_class(record_type) or isinstance(record_type, TupleTypeInfo | RowTypeInfo)
    )
    same = isinstance(schema, Record) and schema.cls is not None and schema.cls is record_type
    row = isinstance(schema, Record) and schema.form in (ROW, DICT) and isinstance(record_type, RowTypeInfo)
    if not (by_name or same or row) or any(name not in fields for name in names):
        return None
    return [fields.index(name) for name in names]


def _is_class(record_type: Any) -> bool:
    return isinstance(record_type, type)


def batch_of_columns(block: Columns, record_type: Any, schema: Any) -> Any:
    """Return a block as a batch of a schema of Arrow (``None``: of its columns' types); ``None`` if records have to be made.

    Raises Arrow's errors for values that a type has no place for.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.columnar.records import DICT, Record
    >>> block = columns_of([{"n": 1}, {"n": 2}], Record((INT,), DICT, ("n",)))
    >>> batch_of_columns(block, None, None).to_pylist()
    [{'n': 1}, {'n': 2}]
    """
    if record_type is not None and has_other_values(record_type):
        return None
    arrow = extras.load("pyarrow")
    names = list(schema.names) if schema is not None else list(getattr(block.schema, "names", ()))
    places = places_of(block.schema, record_type, names) if names else None
    if places is None:
        return None
    if schema is None:
        if not isinstance(block.schema, Composite) or any(kind not in ARRAYS for kind in block.schema):
            return None  # the type of other values is found in more records than a block has
        arrays = [_array(arrow, block.leaves[place], block.length, None) for place in places]
        return arrow.RecordBatch.from_arrays(arrays, names=names)
    arrays = [
        _array(arrow, block.leaves[place], block.length, field.type)
        for place, field in zip(places, schema, strict=True)
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _array(arrow: Any, column: Column, length: int, wanted: Any) -> Any:
    kind, of, lists = column.kind, arrow.types, importlib.import_module("funken.columnar.kernels.columns")
    alike = wanted is None or (
        (kind == INT and (of.is_integer(wanted) or of.is_float64(wanted)))
        or (kind == FLOAT and (of.is_float64(wanted) or of.is_float32(wanted)))
        or (kind == BOOL and of.is_boolean(wanted))
        or (kind == STR and (of.is_string(wanted) or of.is_large_string(wanted)))
    )
    if wanted is not None and isinstance(column, lists.Lists):
        made = _array_of_lists(arrow, column, wanted)
        if made is not None:
            return made
    if not alike:
        times = None if wanted is None else array_of_times(column, wanted)
        if times is not None:
            return times
        return arrow.array(column.to_list(length)) if wanted is None else array_of(column.to_list(length), wanted)
    array = column.array(length)
    made = array if kind == STR else arrow.array(array)
    if wanted is not None and arrow.types.is_float32(wanted):
        check_singles(array)
    return made if wanted is None or made.type == wanted else made.cast(wanted)


def _array_of_lists(arrow: Any, column: Any, wanted: Any) -> Any:
    """Return lists as an array of a type of Arrow; ``None`` if records have to be made of them."""
    if not arrow.types.is_list(wanted):
        return None
    content = column.content()
    items = _array_of_items(arrow, content, content.schema, wanted.value_type, list(content.leaves))
    if items is None:
        return None
    offsets = arrow.array((column.offsets - column.offsets[0]).astype("int32"))
    return arrow.ListArray.from_arrays(offsets, items, type=wanted)


def _array_of_items(arrow: Any, block: Columns, schema: Type, wanted: Any, leaves: list[Column]) -> Any:
    if isinstance(schema, Atomic):
        return _array(arrow, leaves.pop(0), block.length, wanted)
    names = [field.name for field in wanted] if arrow.types.is_struct(wanted) else None
    if not isinstance(schema, Record) or list(schema.names) != names:
        return None
    arrays = [
        _array_of_items(arrow, block, inner, field.type, leaves) for inner, field in zip(schema, wanted, strict=True)
    ]
    return None if any(each is None for each in arrays) else arrow.StructArray.from_arrays(arrays, fields=list(wanted))


def array_of_times(column: Column, wanted: Any) -> Any:
    """Return times that are no objects yet as an array of a type of Arrow; ``None`` if that has no place for them as they are."""
    arrow, times = extras.load("pyarrow"), importlib.import_module("funken.columnar.kernels.times")
    if not isinstance(column, times.Times):
        return None
    if column.kind == DATE:
        return arrow.array(column.micros.view("M8[us]").astype("M8[D]")) if arrow.types.is_date32(wanted) else None
    if not arrow.types.is_timestamp(wanted) or wanted.unit != "us":
        return None
    if column.zone is not None and wanted.tz is None and len(column.micros):
        without_zone(column.to_list(1)[0])  # raises
    return arrow.array(column.micros.view("M8[us]")).cast(arrow.int64()).cast(wanted)
