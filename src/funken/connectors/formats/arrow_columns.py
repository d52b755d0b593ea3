"""Arrow's batches as blocks of columns, and back: without making records.

A field whose type has no column (maps, times, lists of these, 64 bits without a sign beyond an ``int``) has a kind that nothing
can be computed of, so whoever uses it is given records. Structs are records within records, lists have columns of their items. A
batch of which a wanted field is null, or of another type than the schema says, becomes records as well. Fields that no function
reads are not read: their place has ``NOT_READ``.

NumPy and Arrow are loaded where a batch is converted.
"""

from __future__ import annotations

import datetime
import decimal
import importlib
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from funken import extras
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import NOT_READ, have_fields
from funken.expr.python.table import BYTES, DATE, DATETIME, DECIMAL, TIMEDELTA
from funken.expr.types import (
    ARRAYS,
    BOOL,
    DICT,
    FLOAT,
    HIGHEST,
    INT,
    NONE,
    NUMBER,
    STR,
    Atomic,
    Composite,
    ListOf,
    Object,
    Record,
    Type,
    as_documents,
    atomic_fields,
    optional,
)

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns

_PYTHON: dict[Atomic, set[type]] = {
    INT: {int}, FLOAT: {float}, BOOL: {bool}, STR: {str}, BYTES: {bytes}, DATE: {datetime.date}, DATETIME: {datetime.datetime},
    TIMEDELTA: {datetime.timedelta}, DECIMAL: {decimal.Decimal}, NUMBER: {int, float},
}  # fmt: skip
_DTYPES = {INT: "int64", FLOAT: "float64", BOOL: "bool"}


# ---- schemas


def kind_of_type(type_: Any) -> Atomic:
    """Return the type of the values of a type of Arrow; its own name, if there is none.

    >>> import pyarrow as pa
    >>> kind_of_type(pa.int32()), kind_of_type(pa.large_string()), kind_of_type(pa.list_(pa.int8())), kind_of_type(pa.time32("s"))
    (int, str, list of int, time32[s])
    """
    of = extras.load("pyarrow").types
    if of.is_dictionary(type_):
        return STR if of.is_string(type_.value_type) or of.is_large_string(type_.value_type) else Object(str(type_))
    if of.is_integer(type_):
        return INT
    if of.is_float32(type_) or of.is_float64(type_):
        return FLOAT
    if (of.is_timestamp(type_) or of.is_duration(type_)) and type_.unit != "ns":
        return DATETIME if of.is_timestamp(type_) else TIMEDELTA
    if _is_list(type_):
        element = kind_of_type(type_.value_type)
        return ListOf(element) if is_held(element) else Object(str(type_))
    for test, kind in (
        (of.is_boolean, BOOL), (of.is_string, STR), (of.is_large_string, STR), (of.is_date, DATE), (of.is_null, NONE),
        (of.is_decimal128, DECIMAL), (of.is_binary, BYTES), (of.is_large_binary, BYTES),
    ):  # fmt: skip
        if test(type_):
            return kind
    return Object(str(type_))


def _is_list(type_: Any) -> bool:
    of = extras.load("pyarrow").types
    return bool(of.is_list(type_) or of.is_large_list(type_))


def is_held(kind: Atomic) -> bool:
    """Return True if a column can hold values of a type.

    >>> is_held(optional(INT)), is_held(Object("time32[s]")), is_held(ListOf(INT)), is_held(ListOf(Object("time32[s]")))
    (True, False, True, False)
    """
    single = kind.required
    if isinstance(single, ListOf):
        return all(is_held(inner) for _, inner in atomic_fields(single.element))
    return kind == NUMBER or single in (*ARRAYS, NONE, DATETIME, TIMEDELTA, DATE, DECIMAL, BYTES)


def schema_of_type(type_: Any, nullable: Collection[str] = (), name: str = "") -> Type:
    """Return the schema of the values of a type of Arrow: of a struct that of dicts, also in lists.

    ``nullable`` are the fields that have nulls, by their names: those of this type begin with its ``name`` and a dot.

    >>> import pyarrow as pa
    >>> schema_of_type(pa.struct([("id", pa.int64()), ("name", pa.string())]), {"user.name"}, "user")
    {id: int, name: str?}
    """
    if extras.load("pyarrow").types.is_struct(type_):
        fields = [type_.field(index) for index in range(type_.num_fields)]
        names = tuple(each.name for each in fields)
        if names and len(set(names)) == len(names):
            return Record([schema_of_type(each.type, nullable, f"{name}.{each.name}") for each in fields], DICT, names)
    kind = kind_of_type(type_)
    if _is_list(type_) and not isinstance(kind, ListOf):
        of_dicts = ListOf(schema_of_type(type_.value_type))
        kind = of_dicts if is_held(of_dicts) else kind
    return optional(kind) if name in nullable and is_held(kind) else kind


def schema_of_file(schema: Any, nullable: Collection[str] = ()) -> Record:
    """Return the schema of dicts with the fields of a schema of Arrow; ``nullable`` are those that have nulls.

    >>> import pyarrow as pa
    >>> schema_of_file(pa.schema([("item", pa.string()), ("n", pa.int64())]), {"n"})
    {item: str, n: int?}
    """
    names = tuple(schema.names)
    if not names or len(set(names)) < len(names):
        raise NotVectorizable("its files have no columns" if not names else "its files have two columns of one name")
    schemas = [schema_of_type(schema.field(index).type, nullable, name) for index, name in enumerate(names)]
    return Record(schemas, DICT, names)


# ---- from Arrow


def column_of_array(array: Any, kind: Atomic, pruned: bool = False) -> Column | None:
    """Return an array as a column; ``None`` if it has a null, or values that the type has no place for.

    ``pruned``: it is known that structs in lists have the fields of the kind, of which some that are not read may be left out.

    >>> import pyarrow as pa
    >>> column_of_array(pa.array([1, 2], pa.int8()), INT).to_list(2), column_of_array(pa.array([1, None]), INT)
    ([1, 2], None)
    """
    from funken.columnar.kernels.columns import Column, column_of  # noqa: PLC0415 - loads NumPy

    if pruned and isinstance(kind, ListOf) and kind.read is not None:
        return _lists_of_array(array, kind, pruned)
    if schema_of_type(array.type) not in (as_documents(kind.required), NONE if kind.is_optional else kind):
        return None
    if isinstance(kind, ListOf):
        return _lists_of_array(array, kind, pruned)
    if kind in (DATETIME, DATE) and not array.null_count:
        times: Column | None = importlib.import_module("funken.columnar.kernels.times").times_of(array)
        if times is not None:
            return times
    if isinstance(kind.required, ListOf):
        there = _lists_of_array(array.drop_null(), kind.required, pruned)
        columns = importlib.import_module("funken.columnar.kernels.columns")
        return None if there is None else columns.lists_or_none(there, array.is_valid().to_pylist())
    if kind not in ARRAYS:
        return column_of(array.to_pylist(), kind)
    if array.null_count:
        return None
    if kind == STR:
        return Column(STR, checked) if (checked := _text(array)) is not None else None
    data = array.to_numpy(zero_copy_only=False)
    if data.dtype == "uint64" and len(data) and int(data.max()) > HIGHEST:
        return None
    return Column(kind, data.astype(_DTYPES[kind], copy=False))


def _lists_of_array(array: Any, kind: ListOf, pruned: bool) -> Column | None:
    from funken.columnar.kernels.columns import lists_with  # noqa: PLC0415 - loads NumPy

    if array.null_count or not _is_list(array.type):
        return None
    items, read = array.flatten(), dict[int, Any]()
    leaves = enumerate(atomic_fields(kind.element))
    numbers = {path: number for number, (path, _) in leaves if kind.read is None or number in kind.read}
    if not _take_apart(kind.element, items, (), numbers, read, pruned) or len(read) < len(numbers):
        return None
    content = _block_of(kind.element, read, partial(column_of_array, pruned=pruned), len(items))
    counts = array.value_lengths().to_numpy(zero_copy_only=False)
    return None if content is None else lists_with(kind.element, counts, content)


def _text(array: Any) -> Any:
    """Return an array of text whose bytes are text; ``None`` if they are not."""
    arrow = extras.load("pyarrow")
    try:
        array.validate(full=True)
        return array if arrow.types.is_string(array.type) else array.cast(arrow.string())
    except arrow.ArrowInvalid:
        return None


def whole_array(column: Any) -> Any:
    """Return a column of a table as one array."""
    arrow = extras.load("pyarrow")
    return column.chunk(0) if column.num_chunks == 1 else arrow.concat_arrays(column.chunks)


def columns_of_batch(
    schema: Type, arrays: Sequence[Any | None], length: int, wanted: Collection[int] | None = None,
    *, pruned: bool = False,
) -> Columns | None:  # fmt: skip
    """Return a block of the arrays of a schema's fields (``None``: not read); ``None`` if they have other types.

    ``wanted`` are the leaves that are read, all of which have to be there; without it, it is those that are there. ``pruned``: it
    is known that structs have the fields of the schema, of which others than those that are read may be left out.

    >>> from funken.expr.types import Tuple
    >>> import pyarrow as pa
    >>> columns_of_batch(Tuple((STR, INT)), [None, pa.array([1, 2])], 2).to_list()
    [(<not read>, 1), (<not read>, 2)]
    """
    read: dict[int, Any] = {}
    chosen = None if wanted is None else set(wanted)
    numbers = {
        path: number for number, (path, _) in enumerate(atomic_fields(schema)) if chosen is None or number in chosen
    }
    assert isinstance(schema, Composite)
    parts = [_take_apart(inner, arrays[index], (index,), numbers, read, pruned) for index, inner in enumerate(schema)]
    if not all(parts):
        return None
    if chosen is not None and not read.keys() >= chosen:
        return None
    return _block_of(schema, read, partial(column_of_array, pruned=pruned), length)


def _take_apart(
    schema: Any, array: Any, path: tuple[int, ...], leaves: Mapping[Any, int], read: dict[int, Any], pruned: bool
) -> bool:
    """Put the arrays of a field's parts where they belong; false if it is no struct of these fields, or has nulls."""
    if isinstance(schema, Atomic):
        if array is not None and path in leaves:
            read[leaves[path]] = array
        return True
    if array is None or not any(leaf[: len(path)] == path for leaf in leaves):
        return True
    if array.null_count or not extras.load("pyarrow").types.is_struct(array.type):
        return False
    names = tuple(field.name for field in array.type)
    if schema.names != names and not (pruned and set(names) <= set(schema.names)):
        return False
    numbers = [schema.names.index(name) for name in names]
    within = zip(numbers, array.flatten(), strict=True)
    return all([_take_apart(schema[number], each, (*path, number), leaves, read, pruned) for number, each in within])


def has_fields(schema: Type, type_: Any) -> bool:
    """Return True if structs of Arrow have the fields of a schema, and so have those within them.

    >>> import pyarrow as pa
    >>> has_fields(Record((INT,), DICT, ("id",)), pa.struct([("id", pa.int64())])), has_fields(INT, pa.int64())
    (True, True)
    """
    if isinstance(schema.required, ListOf) and _is_list(type_):
        return has_fields(schema.required.element, type_.value_type)
    if isinstance(schema, Atomic):
        return True
    names = tuple(field.name for field in type_) if extras.load("pyarrow").types.is_struct(type_) else None
    if not isinstance(schema, Record) or schema.names != names:
        return False
    return all(has_fields(inner, field.type) for inner, field in zip(schema, type_, strict=True))


def _block_of(
    schema: Type, read: Mapping[int, Any], convert: Callable[[Any, Atomic], Column | None], length: int
) -> Columns | None:
    """Return a block of some read fields, with ``NOT_READ`` for the others; ``None`` if one does not fit."""
    from funken.columnar.kernels.columns import Column, Columns  # noqa: PLC0415 - loads NumPy

    leaves = []
    for number, (_, kind) in enumerate(atomic_fields(schema)):
        column = convert(read[number], kind) if number in read else Column(kind, NOT_READ, constant=True)
        if column is None:
            return None
        leaves.append(column)
    return Columns(schema, leaves, length)


# ---- from Python values


def column_of_values(values: list[Any], kind: Atomic, checked: bool = False) -> Column | None:
    """Return a column of the values of a field; ``None`` if their types differ. ``checked``: their types are right.

    >>> from funken.expr.types import Optional
    >>> column_of_values([1, 2], INT).to_list(2), column_of_values([1, 2.0], INT), column_of_values([1 << 70], INT)
    ([1, 2], None, None)
    >>> column_of_values([1, None], Optional(INT)).to_list(2), column_of_values([1, None], INT)
    ([1, None], None)
    """
    from funken.columnar.kernels.columns import column_of  # noqa: PLC0415 - loads NumPy

    if isinstance(kind.required, ListOf):
        return _lists_of_values(values, kind, kind.required, checked)
    expected = _PYTHON.get(kind.required)
    if expected is not None and not checked:
        found = set(map(type, values))
        if kind.is_optional:
            found.discard(type(None))
        if not found <= expected:
            return None
    try:
        return column_of(values, kind)
    except OverflowError:  # beyond 64 bits
        return None


def _lists_of_values(values: list[Any], kind: Atomic, lists: ListOf, checked: bool) -> Column | None:
    """Return lists; ``None`` if some are none, or have items of another schema."""
    from funken.columnar.kernels.columns import lists_or_none, lists_with, values_of_leaves  # noqa: PLC0415 - loads NumPy

    there = [each for each in values if each is not None] if kind.is_optional else values
    if not checked and not set(map(type, there)) <= {list}:
        return None
    items = list(itertools.chain.from_iterable(there))
    documents = as_documents(lists.element)  # what is read is made of these
    if not have_fields(items, documents):
        return None
    leaves = dict(enumerate(values_of_leaves(items, documents)))
    content = columns_of_values(lists.element, leaves, len(items), leaves if checked else ())
    if content is None:
        return None
    counts = extras.load("numpy").fromiter(map(len, there), "int64", len(there))
    found = lists_with(lists.element, counts, content)
    return lists_or_none(found, [each is not None for each in values]) if kind.is_optional else found


def columns_of_values(
    schema: Type, values: Mapping[int, list[Any] | Column], length: int, checked: Collection[int] = ()
) -> Columns | None:
    """Return a block of the values of some of a schema's atomic fields; ``None`` if their types differ.

    The types of ``checked`` fields are known to be those of their kinds. Some may be columns already.

    >>> from funken.expr.types import Tuple
    >>> columns_of_values(Tuple((STR, INT)), {1: [1, 2]}, 2).to_list()
    [(<not read>, 1), (<not read>, 2)]
    """
    given = {number: (each, number in checked) for number, each in values.items()}
    return _block_of(schema, given, _column_of_given, length)


def _column_of_given(given: tuple[Any, bool], kind: Atomic) -> Column | None:
    values, checked = given
    return column_of_values(values, kind, checked) if isinstance(values, list) else values
