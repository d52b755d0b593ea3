"""Results of functions over whole blocks, as columns of the declared type, as records, or as a mask.

Taken are arrays of NumPy, Arrow, pandas and Polars, lists, and single values, which stand for all records; records of these, and
tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

import numpy as np

from funken.columnar.expressions import NotVectorizable, is_text, reads
from funken.columnar.kernels.columns import Array, Column, Columns, column_of, pa, values_of_leaves
from funken.columnar.records import field_getter, form_of, has_form
from funken.columnar.vectorized.functions import OBJECT, BatchFormat, structure, structure_of
from funken.errors import ValueDoesNotFit
from funken.expr.python.table import BYTES, CLASSES, DATE, DATETIME, DECIMAL, OBJECTS, TIMEDELTA
from funken.expr.types import (
    ARRAYS,
    BOOL,
    DICT,
    FLOAT,
    HIGHEST,
    INT,
    LOWEST,
    NONE,
    NUMBER,
    OF_CLASSES,
    ROW,
    STR,
    Atomic,
    Composite,
    ListOf,
    Record,
    Tuple,
    Type,
    atomic_fields,
    optional,
)
from funken.types.row import Row

# ---- Blocks as functions over whole blocks are given them.
#
# Of a record that is a single value a function gets one array, else a record of arrays, a ``RecordBatch`` or a
# ``DataFrame``. Which type an array has depends on the values of the block alone, whether they came as columns or
# as records: ints that fit into 64 bits, floats, bools and texts have one; anything else, also mixed, is an array
# of Python objects. Those of NumPy are read-only.


def columns_of_records(records: list[Any]) -> Columns:
    """Return columns of any records; raises ``ValueDoesNotFit`` if their fields differ.

    >>> [leaf.kind for leaf in columns_of_records([(1, "a", None), (2, "b", 3)]).leaves]
    [int, str, object]
    """
    structure = structure_of(records)
    leaves = [_by_content(values) for values in values_of_leaves(records, structure)]
    return Columns(structure, leaves, len(records))


def _by_content(values: list[Any]) -> Column:
    types = set(map(type, values))
    kind = OF_CLASSES.get(types.pop(), OBJECT) if len(types) == 1 else OBJECT
    if kind == INT and (min(values) < LOWEST or max(values) > HIGHEST):
        kind = OBJECT
    if kind == STR and not all(map(is_text, values)):
        kind = OBJECT
    return column_of(values, kind)


def argument_of(block: Columns, form: BatchFormat) -> Any:
    """Return a block in the form of a function's argument."""
    leaves = [
        leaf if leaf.kind in ARRAYS else _by_content(leaf.to_list(block.length)) for leaf in block.leaves
    ]  # fmt: skip
    if form is BatchFormat.NUMPY:
        return record_of(block.schema, (_array(leaf, block.length) for leaf in leaves))
    columns = list(_top(block.schema, iter(leaves), block.length))
    if form is BatchFormat.PANDAS:
        return _pandas(block.schema, columns, block.length)
    return _arrow(block.schema, columns, block.length, form)


def record_of(schema: Type, values: Iterator[Any]) -> Any:
    """Return a record whose atomic fields are these values."""
    if isinstance(schema, Atomic):
        return next(values)
    fields = [record_of(each, values) for each in schema]
    if not isinstance(schema, Record):
        return tuple(fields)
    if schema.form == DICT:
        return dict(zip(schema.names, fields, strict=True))
    if schema.form == ROW:
        return Row(**dict(zip(schema.names, fields, strict=True)))
    assert schema.cls is not None
    return schema.cls(*fields)


def _array(leaf: Column, length: int) -> Array:
    if leaf.kind == STR:
        # Text in NumPy's own types drops zeros at its end.
        found = np.full(length, leaf.data, np.object_) if leaf.constant else leaf.data.to_numpy(zero_copy_only=False)
    else:
        found = leaf.array(length).view()
    found.flags.writeable = False
    return found


def _top(schema: Type, leaves: Iterator[Column], length: int) -> Iterator[Column]:
    """Yield the columns of a table: a field that is a record itself is one of Python objects."""
    for each in [schema] if isinstance(schema, Atomic) else schema:
        if isinstance(each, Atomic):
            yield next(leaves)
        else:
            inner = [next(leaves) for _ in atomic_fields(each)]
            yield column_of(Columns(each, inner, length).to_list(), OBJECT)


def _names(schema: Type) -> list[str]:
    if isinstance(schema, Record):
        return list(schema.names)
    return ["value"] if isinstance(schema, Atomic) else [f"f{number}" for number in range(len(schema))]


def _pandas(schema: Type, columns: list[Column], length: int) -> Any:
    import pandas as pd  # noqa: PLC0415 - takes 0.5 s, and is needed by few programs

    arrays = [np.array(_array(each, length)) for each in columns]
    if isinstance(schema, Atomic):
        return pd.Series(arrays[0], name="value")
    return pd.DataFrame(dict(zip(_names(schema), arrays, strict=True)))


def _arrow(schema: Type, columns: list[Column], length: int, form: BatchFormat) -> Any:
    arrays = []
    for name, each in zip(_names(schema), columns, strict=True):
        try:
            data = each.array(length)
            arrays.append(data if each.kind == STR else pa.array(data.tolist() if each.kind == OBJECT else data))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise ValueDoesNotFit(
                f"the field {name!r} has values that are not of one type of Arrow: {error}. Use the batch format 'numpy' or "
                "'pandas', which have Python objects for them"
            ) from error
    if form is BatchFormat.POLARS:
        import polars as pl  # noqa: PLC0415 - not a dependency of Funken

        if isinstance(schema, Atomic):
            return pl.Series("value", pl.from_arrow(arrays[0]))
        return pl.from_arrow(pa.Table.from_arrays(arrays, _names(schema)))
    return arrays[0] if isinstance(schema, Atomic) else pa.RecordBatch.from_arrays(arrays, _names(schema))


_INTEGERS, _BOOLS, _FLOATS = "iu", "b", "f"


def columns_made(made: Any, schema: Type, length: int | None) -> Columns:
    """Return a function's result as columns; ``length``: so many records are expected, ``None``: any number.

    Raises ``ValueDoesNotFit`` for another length or type.

    >>> columns_made((np.array([1, 2]), 0.5), Tuple((INT, FLOAT)), 2).to_list()
    [(1, 0.5), (2, 0.5)]
    """
    parts = _taken_apart(_plain(made), schema, "the result")
    length = _length_of(parts, length)
    kinds = [kind for _, kind in atomic_fields(schema)]
    leaves = [_result_column(found, kind, where) for (where, found), kind in zip(parts, kinds, strict=True)]
    return Columns(schema, leaves, length)


def records_made(made: Any, length: int | None) -> list[Any]:
    """Return a function's result as records: of tables dicts, of records of arrays such records.

    >>> records_made({"x": np.array([1, 2]), "y": ["a", "b"]}, None)
    [{'x': 1, 'y': 'a'}, {'x': 2, 'y': 'b'}]
    """
    made = _plain(made)
    structure = _structure_made(made)
    parts = _taken_apart(made, structure, "the result")
    length = _length_of(parts, length)
    leaves = [_objects(found) for _, found in parts]
    return Columns(structure, leaves, length).to_list()


def mask_made(made: Any, length: int) -> Array:
    """Return a mask; raises ``ValueDoesNotFit`` for anything but so many bools."""
    found = _values(_plain(made), "the mask")
    if isinstance(found, np.ndarray) and found.dtype.kind == "O" and {type(each) for each in found.tolist()} <= {bool}:
        found = found.astype(np.bool_)
    if not isinstance(found, np.ndarray) or found.dtype.kind != _BOOLS:
        raise ValueDoesNotFit(
            f"a vectorized filter returns a mask of bools, but this one returned {_told(found)}. Compare, as in values > 0"
        )
    _length_of([("the mask", found)], length)
    return found


def _plain(made: Any) -> Any:
    """Return tables as dicts of arrays; anything else as it is."""
    name = f"{type(made).__module__.partition('.')[0]}.{type(made).__name__}"
    if name in ("pyarrow.RecordBatch", "pyarrow.Table"):
        return _Table(zip(made.schema.names, made.columns, strict=True))
    if name in ("pandas.DataFrame", "polars.DataFrame"):
        return _Table((str(column), made[column]) for column in made.columns)
    return made


class _Table(dict[str, Any]):
    """The columns of a table by name."""


def _structure_made(made: Any) -> Type:
    return Record((OBJECT,) * len(made), DICT, tuple(made)) if isinstance(made, _Table) else structure(made)


def _taken_apart(made: Any, schema: Type, where: str) -> list[tuple[str, Any]]:
    """Return the arrays of the fields, each with its name for messages."""
    if isinstance(schema, Atomic):
        if isinstance(made, _Table):
            if len(made) != 1:
                raise _unlike(where, schema, f"a table of the columns {', '.join(map(repr, made))}")
            (made,) = made.values()
        return [(where, _values(made, where))]
    fields = _fields_of(made, schema)
    if fields is None:
        told = f"a table of the columns {', '.join(map(repr, made))}" if isinstance(made, _Table) else _told(made)
        raise _unlike(where, schema, told)
    found = []
    names = schema.names if isinstance(schema, Record) else range(len(schema))
    for name, field, inner in zip(names, fields, schema, strict=True):
        found += _taken_apart(_nested(field, inner), inner, f"the field {name!r} of {where}")
    return found


def _fields_of(made: Any, schema: Composite) -> list[Any] | None:
    """Return the fields of a record or table in the order of a schema; ``None`` if there are other fields."""
    names = schema.names if isinstance(schema, Record) else None
    if isinstance(made, _Table) and names is None:
        return list(made.values()) if len(made) == len(schema) else None
    if type(made) is Row:
        made = made.as_dict() if made._fields else tuple(made._values)
    if isinstance(made, dict):
        if names is None or set(made) != set(names):
            return None
        return [made[name] for name in names]
    if names is not None and isinstance(schema, Record) and type(made) is schema.cls:
        return [getattr(made, name) for name in names]
    if type(made) is tuple and (names is None or getattr(schema, "form", DICT) == ROW) and len(made) == len(schema):
        return list(made)
    return None


def _nested(field: Any, schema: Type) -> Any:
    """Return a column of records, as tables have it, as a record of columns."""
    cls: Any = type(field)
    if isinstance(schema, Atomic) or isinstance(field, dict | Row) or cls is tuple or form_of(cls):
        return field
    records = _values(field, "a field")
    listed = records.tolist() if isinstance(records, np.ndarray) else records.to_pylist()
    if not listed:
        return record_of(schema, repeat(np.empty(0, np.object_)))
    inner = columns_of_records(listed)
    return record_of(inner.schema, (_object_array(leaf.to_list(inner.length)) for leaf in inner.leaves))


def _object_array(values: Sequence[Any]) -> Array:
    """Return values as an array of objects, also those that are arrays themselves."""
    return np.fromiter(values, np.object_, len(values))


def _values(made: Any, where: str) -> Any:
    """Return values as an array of one dimension, of NumPy or of text of Arrow; a single value as it is."""
    module = type(made).__module__.partition(".")[0]
    if module == "pandas":
        made = _from_pandas(made)
    elif module == "polars":
        made = made.to_arrow()
        module = "pyarrow"
    if module == "pyarrow":
        return _from_arrow(made)
    if isinstance(made, list | range):
        made = _object_array(made)
    if isinstance(made, np.ndarray):
        if made.ndim == 0:
            return made.item()
        if made.ndim > 1:
            raise ValueDoesNotFit(
                f"{where} is an array of {made.ndim} dimensions, where a record needs one value. Return its columns as fields, "
                "as in tuple(array.T)"
            )
        if made.dtype.kind in "mM":
            made = made.astype(f"{made.dtype.kind}8[us]")
        return made if made.dtype.kind in "iufbUOT" else made.astype(np.object_)
    return made.item() if isinstance(made, np.generic) else made


def _from_pandas(made: Any) -> Array:
    missing = made.isna().to_numpy()
    if not isinstance(made.dtype, np.dtype) and missing.any():
        made = made.astype(object)  # as an array of NumPy, it has NaN for what is missing
    found = made.to_numpy()
    if found.dtype.kind != "O":
        return found
    times = [each.to_pydatetime() if hasattr(each, "to_pydatetime") else each for each in found.tolist()]
    return _object_array(
        [None if none and type(each) is not float else each for each, none in zip(times, missing, strict=True)]
    )


def _from_arrow(made: Any) -> Any:
    if isinstance(made, pa.Scalar):
        return made.as_py()
    if isinstance(made, pa.ChunkedArray):
        made = made.combine_chunks()
    if pa.types.is_string(made.type) and not made.null_count:
        return made
    if not made.null_count and (
        pa.types.is_integer(made.type) or pa.types.is_floating(made.type) or pa.types.is_boolean(made.type)
    ):
        return made.to_numpy(zero_copy_only=False)
    return _object_array(made.to_pylist())


def _length_of(parts: list[tuple[str, Any]], expected: int | None) -> int:
    lengths = [(where, len(found)) for where, found in parts if _is_array(found)]
    if not lengths and expected is None:
        raise ValueDoesNotFit(
            "a function of map_batches() returned single values only, so the number of records is unknown. Return an "
            "array for one field at least"
        )
    length = lengths[0][1] if expected is None else expected
    for where, other in lengths:
        if other != length:
            if expected is None:
                fact = f"{where} has {_count(other, 'value')}, but {lengths[0][0]} has {length}"
                raise ValueDoesNotFit(f"{fact}. Return arrays of one length")
            raise ValueDoesNotFit(
                f"{where} has {_count(other, 'value')}, but the block has {_count(length, 'record')}. A vectorized function of "
                "map() and filter() returns a value for each record; map_batches() takes any number"
            )
    return length


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _is_array(found: Any) -> bool:
    return isinstance(found, np.ndarray) or type(found).__module__.partition(".")[0] == "pyarrow"


def _result_column(found: Any, kind: Atomic, where: str) -> Column:
    """Return a field as a column of a type; raises ``ValueDoesNotFit``."""
    if not _is_array(found):
        one = _result_column(_object_array([found]), kind, where)
        return Column(kind, one.to_list(1)[0], True)
    if isinstance(found, np.ndarray):
        # A copy: the function may go on with its array.
        if (
            kind == INT
            and found.dtype.kind in _INTEGERS
            and (found.dtype.kind == "i" or not len(found) or found.max() <= HIGHEST)
        ):
            return Column(INT, np.array(found, np.int64))
        if kind == FLOAT and found.dtype.kind in _FLOATS + _INTEGERS:
            return Column(FLOAT, np.array(found, np.float64))
        if kind == BOOL and found.dtype.kind == _BOOLS:
            return Column(BOOL, np.array(found))
        if kind in (INT, FLOAT, BOOL) and found.dtype.kind != "O":
            raise _unlike(where, kind, _told(found))
    elif kind == STR:
        return Column(STR, found)
    return _of_objects(_as_list(found), kind, where)


def _of_objects(values: list[Any], kind: Atomic, where: str) -> Column:
    wanted = CLASSES[kind.required]
    allowed = {wanted, type(None)} if kind.is_optional else {wanted}
    if wanted is float:
        values = [float(each) if type(each) is int else each for each in values]
    for each in values:
        if type(each) not in allowed:
            raise _unlike(where, kind, f"the value {each!r}")
    try:
        return column_of(values, kind)
    except Exception as error:  # an int of more than 64 bits, half of a surrogate pair
        raise ValueDoesNotFit(f"{where} has a value that no column of {kind} can hold: {error}") from error


def _objects(found: Any) -> Column:
    if not _is_array(found):
        return Column(OBJECT, found, True)
    return Column(OBJECT, _object_array(_as_list(found)))


def _as_list(found: Any) -> list[Any]:
    listed: list[Any] = found.tolist() if isinstance(found, np.ndarray) else found.to_pylist()
    return listed


def _told(found: Any) -> str:
    if isinstance(found, np.ndarray):
        return f"an array of {found.dtype}"
    if _is_array(found):
        return f"an array of {found.type}"
    name = type(found).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _unlike(where: str, schema: Type, told: str) -> ValueDoesNotFit:
    return ValueDoesNotFit(
        f"{where} is declared as {schema}, but the function returned {told}. Convert it there, as in "
        ".astype(), or declare another output_type"
    )


# ---- A list of records as columns, if they are all alike and their values are of types that columns hold.
#
# The records that the columns give back are equal to those given, and of the same types to the last value. Values
# are looked at field by field, never record by record.


_HELD = (BYTES, DATE, DATETIME, DECIMAL, TIMEDELTA)
_KINDS = OF_CLASSES | {cls: kind for cls, kind in OBJECTS.items() if kind in _HELD}
_NOTHING = type(None)


@reads
def columns_of_alike(records: list[Any]) -> Columns:
    """Return the columns of records, at least one; raise ``NotVectorizable`` with the reason if there are none.

    >>> block = columns_of_alike([{"word": "to", "n": 1}, {"word": "be", "n": None}])
    >>> block.schema, block.to_list()
    ({word: str, n: int?}, [{'word': 'to', 'n': 1}, {'word': 'be', 'n': None}])
    >>> columns_of_alike([(1, True), (1, 2)])
    Traceback (most recent call last):
        ...
    funken.columnar.expressions.NotVectorizable: has elements with values of the types bool, int in the same place
    """
    leaves: list[Column] = []
    return Columns(_taken(records, leaves), leaves, len(records))


def _taken(values: list[Any], leaves: list[Column]) -> Type:
    """Return the schema of values, and append their columns to ``leaves``."""
    types = set(map(type, values))
    kind = _kind(values, types)
    if kind is not None:
        leaves.append(_column(values, kind))
        return kind
    if len(types) > 1:
        names = ", ".join(sorted(cls.__qualname__ for cls in types))
        raise NotVectorizable(f"has elements with values of the types {names} in the same place")
    structure = _structure(values[0])
    named = isinstance(structure, Record)
    alike = all(has_form(value, structure) for value in values) if named else len(set(map(len, values))) == 1
    if not alike or not structure:
        raise NotVectorizable(f"has elements with {'different' if structure else 'no'} fields")
    fields = [field_getter(structure, number) if named else itemgetter(number) for number in range(len(structure))]
    schemas = [_taken(list(map(field, values)), leaves) for field in fields]
    return structure.with_fields(schemas) if named else Tuple(schemas)


def _kind(values: list[Any], types: set[type]) -> Atomic | None:
    """Return the type of single values; ``None``: they are records, or of several types."""
    missing, types = _NOTHING in types, types - {_NOTHING}
    if not types:
        return NONE
    if types == {int, float} and not missing:
        return NUMBER
    if len(types) > 1:
        return None
    (cls,) = types
    there = [each for each in values if each is not None] if missing else values
    if cls is list:
        items = list(chain.from_iterable(there))
        if not items:
            raise NotVectorizable("has elements with lists, and no value in them shows their type")
        lists = ListOf(_taken(items, []))
        return optional(lists) if missing else lists
    kind = _KINDS.get(cls)
    if kind is None:
        return None
    if kind == INT and not LOWEST <= min(there) <= max(there) <= HIGHEST:
        raise NotVectorizable("has elements with ints of more than 64 bits")
    return optional(kind) if missing else kind


def _column(values: list[Any], kind: Atomic) -> Column:
    try:
        return column_of(values, kind)
    except UnicodeEncodeError:
        raise NotVectorizable("has elements with text that has no encoding: a lone surrogate") from None


def _structure(record: Any) -> Any:
    """Return the structure of a record, without the types of its fields."""
    cls: Any = type(record)
    if cls is tuple:
        return record
    if cls is dict and all(type(name) is str for name in record):
        return Record((NONE,) * len(record), DICT, tuple(record))
    if cls is Row and record._fields:
        return Record((NONE,) * len(record._fields), ROW, tuple(record._fields))
    form = form_of(cls)
    if form is None:
        raise NotVectorizable(f"has elements with values of the type {cls.__qualname__}, of which there are no columns")
    return Record((NONE,) * len(form[1]), form[0], form[1], cls)
