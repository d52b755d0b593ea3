"""What functions over whole blocks return, as columns of the declared type, as records, or as a mask.

Taken are arrays of NumPy, Arrow, pandas and Polars, lists, and single values, which stand for all records; records of these, and
tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from funken.columnar.kernels.arrow import pa
from funken.columnar.kernels.columns import Array, Column, Columns, column_of
from funken.columnar.records import form_of
from funken.columnar.vectorized.arguments import columns_of_records, record_of
from funken.columnar.vectorized.schemas import OBJECT
from funken.errors import ValueDoesNotFit
from funken.expr.python.objects import CLASSES
from funken.expr.types import (
    BOOL,
    DICT,
    FLOAT,
    HIGHEST,
    INT,
    ROW,
    STR,
    Atomic,
    Composite,
    Record,
    Tuple,
    Type,
    atomic_fields,
)
from funken.types.row import Row

_INTEGERS, _BOOLS, _FLOATS = "iu", "b", "f"


def columns_made(made: Any, schema: Type, length: int | None) -> Columns:
    """Return what a function has made as columns; ``length``: so many records are expected, ``None``: any number.

    Raises ``ValueDoesNotFit`` for another length or type.

    >>> columns_made((np.array([1, 2]), 0.5), Tuple((INT, FLOAT)), 2).to_list()
    [(1, 0.5), (2, 0.5)]
    """
    parts = _taken_apart(_plain(made), schema, "the result")
    length = _length_of(parts, length)
    kinds = [kind for _, kind in atomic_fields(schema)]
    leaves = [_column(found, kind, where) for (where, found), kind in zip(parts, kinds, strict=True)]
    return Columns(schema, leaves, length)


def records_made(made: Any, length: int | None) -> list[Any]:
    """Return what a function has made as records: of tables dicts, of records of arrays such records.

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
    if isinstance(made, _Table) or (type(made) is dict and made and all(type(name) is str for name in made)):
        inner = [OBJECT if isinstance(made, _Table) else _structure_made(each) for each in made.values()]
        return Record(inner, DICT, tuple(made))
    if type(made) is tuple and made:
        return Tuple(map(_structure_made, made))
    if type(made) is Row and made._fields:
        return Record(map(_structure_made, made._values), ROW, tuple(made._fields))
    cls: Any = type(made)
    form = form_of(cls)
    if form is None:
        return OBJECT
    return Record((_structure_made(getattr(made, name)) for name in form[1]), form[0], form[1], type(made))


def _taken_apart(made: Any, schema: Type, where: str) -> list[tuple[str, Any]]:
    """Return the arrays of the leaves, each after what messages call it."""
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
    return record_of(inner.schema, (_array(leaf.to_list(inner.length)) for leaf in inner.leaves))


def _array(values: Sequence[Any]) -> Array:
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
        made = _array(made)
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
    return _array(
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
    return _array(made.to_pylist())


def _length_of(parts: list[tuple[str, Any]], expected: int | None) -> int:
    lengths = [(where, len(found)) for where, found in parts if _is_array(found)]
    if not lengths and expected is None:
        raise ValueDoesNotFit(
            "a function of map_batches() returned single values only, which do not tell how many records there are. Return an "
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


def _column(found: Any, kind: Atomic, where: str) -> Column:
    """Return a leaf as a column of a kind; raises ``ValueDoesNotFit``."""
    if not _is_array(found):
        one = _column(_array([found]), kind, where)
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
    return Column(OBJECT, _array(_as_list(found)))


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


__all__ = ["columns_made", "mask_made", "records_made"]
