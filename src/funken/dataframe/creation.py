"""Frames of a program's data: records, columns, pandas, Arrow, a range, a table."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from funken.dataframe.arguments import schema_names
from funken.dataframe.frame import DataFrame, col
from funken.dataframe.session import get_or_create_table_environment
from funken.table.conversions import marked_table
from funken.table.schema import Schema
from funken.table.table import Table
from funken.table.types import DataTypes, LocalZonedTimestampType, TimestampType, logical_type

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_TEXTS = (str, bytes, bytearray, memoryview)


def from_records(
    data: Sequence[Any], schema: Sequence[str] | None = None, watermark: tuple[str, str] | None = None
) -> DataFrame:
    """Return rows as a frame: mappings, named tuples, or sequences, named by ``schema``. Types are inferred.

    With a schema, further fields of mappings and named tuples are ignored; without one, each record has the fields of the first.
    ``watermark`` makes a column event time: ``("ts", "ts - INTERVAL '5' SECOND")``; digits below milliseconds are cut off.

    >>> from_records([{"id": 1, "name": "Ann"}, {"id": 2, "name": None}])
    <DataFrame (id BIGINT, name STRING)>
    """
    if not isinstance(data, Sequence) or isinstance(data, _TEXTS):
        raise TypeError(
            f"data must be a sequence of records, such as a list or tuple, but got a {type(data).__name__}."
        )
    if not data:
        raise ValueError(
            "data must not be empty, since types are inferred from it. Use from_arrow() with a typed table."
        )
    marked = _watermark_of_data(watermark)
    try:
        kind = _kind(data[0])
    except TypeError as error:
        raise TypeError(f"invalid record at index 0: {error}") from None
    if schema is None and kind == "sequence":
        raise ValueError("schema is required for sequence records: schema=['id', 'name'].")
    chosen = schema_names(_fields(data[0]) if schema is None else _checked(schema))
    rows = []
    for place, record in enumerate(data):
        try:
            rows.append(_values(record, chosen, kind, schema is None))
        except (TypeError, ValueError) as error:
            raise type(error)(f"invalid record at index {place}: {error}") from None
    return _held(rows, chosen, marked)


def from_dict(
    data: Mapping[str, Sequence[Any]], schema: Sequence[str] | None = None, watermark: tuple[str, str] | None = None
) -> DataFrame:
    """Return columns as a frame; ``schema`` chooses some and orders them.

    >>> from_dict({"name": ["Ann"], "id": [1]}, schema=["id", "name"]).collect()
    [<Row(1, 'Ann')>]
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be a mapping of columns, but was {type(data).__name__}.")
    if not data:
        raise ValueError("data must not be empty.")
    marked = _watermark_of_data(watermark)
    chosen = schema_names(list(data) if schema is None else _checked(schema))
    for name in chosen:
        if name not in data:
            raise ValueError(f"column {name!r} is not present in data, which has: {', '.join(data)}.")
        if not isinstance(data[name], Sequence) or isinstance(data[name], _TEXTS):
            raise TypeError(
                f"column {name!r} values must be a sequence, such as a list or tuple, but are a {type(data[name]).__name__}."
            )
    lengths = {len(data[name]) for name in chosen}
    if len(lengths) > 1:
        raise ValueError(f"columns must have equal lengths, but have {', '.join(map(str, sorted(lengths)))}.")
    if lengths == {0}:
        raise ValueError(
            "data must contain at least one row, since types are inferred. Use from_arrow() with a typed table."
        )
    return _held(list(zip(*(data[name] for name in chosen), strict=True)), chosen, marked)


def from_pandas(
    pdf: pd.DataFrame, schema: Sequence[str] | None = None, watermark: tuple[str, str] | None = None
) -> DataFrame:
    """Return a DataFrame of pandas as a frame, without its index; ``schema`` renames the columns."""
    import pandas as pd  # noqa: PLC0415 - only for data of pandas
    import pyarrow as pa  # noqa: PLC0415

    if not isinstance(pdf, pd.DataFrame):
        raise TypeError(f"data must be a pandas.DataFrame, but was {type(pdf).__name__}.")
    return from_arrow(pa.Table.from_pandas(pdf, preserve_index=False), schema, watermark)


def from_arrow(
    table: pa.Table, schema: Sequence[str] | None = None, watermark: tuple[str, str] | None = None
) -> DataFrame:
    """Return a table of Arrow as a frame; ``schema`` renames the columns.

    >>> import pyarrow as pa
    >>> from_arrow(pa.table({"id": pa.array([], pa.int32())}))
    <DataFrame (id INT)>
    """
    import pyarrow as pa  # noqa: PLC0415 - only for data of Arrow

    if not isinstance(table, pa.Table):
        raise TypeError(f"data must be a pyarrow.Table, but was {type(table).__name__}.")
    marked = _watermark_of_data(watermark)
    columns = table.column_names if schema is None else _checked(schema)
    if len(columns) != table.num_columns:
        raise ValueError(f"schema has {len(columns)} fields but data has {table.num_columns} columns.")
    columns = schema_names(columns)
    types = [logical_type(field.type) for field in table.schema]
    environment = get_or_create_table_environment()
    row = DataTypes.ROW([DataTypes.FIELD(name, type_) for name, type_ in zip(columns, types, strict=True)])
    return _marked(environment.from_arrow(table, row), marked)


def from_table(table: Table) -> DataFrame:
    """Return a table of the Table API as a frame."""
    if not isinstance(table, Table):
        raise TypeError(f"table must be a pyflink.table.Table, but from_table() got a {type(table).__name__}.")
    return DataFrame(table)


def range(start_or_end: int, end: int | None = None, step: int = 1) -> DataFrame:
    """Return whole numbers as a frame with the column ``id``, by the rules of Python's ``range``.

    >>> range(1, 6, 2).collect()
    [<Row(1)>, <Row(3)>, <Row(5)>]
    """
    for what, one in (("start_or_end", start_or_end), ("end", end), ("step", step)):
        if one is not None and (isinstance(one, bool) or not isinstance(one, int)):
            raise TypeError(f"{what} must be an integer, but got {one!r}.")
    if step == 0:
        raise ValueError("step must not be zero.")
    bounds = (0, start_or_end) if end is None else (start_or_end, end)
    rows = [(number,) for number in builtins.range(*bounds, step)]
    row = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT())])
    return DataFrame(get_or_create_table_environment().from_elements(rows, row))


# ---- records


def _checked(schema: Any) -> list[str]:
    if not isinstance(schema, list):
        raise TypeError(f"schema must be a list of strings, but got {schema!r}.")
    return schema


def _kind(record: Any) -> str:
    """Return the kind of a record: ``mapping``, ``named tuple`` or ``sequence``."""
    if isinstance(record, tuple) and isinstance(getattr(record, "_fields", None), tuple):
        return "named tuple"
    if isinstance(record, Mapping):
        return "mapping"
    if isinstance(record, Sequence) and not isinstance(record, _TEXTS):
        return "sequence"
    raise TypeError(f"record must be a mapping or a sequence of values, such as a list or tuple, but is {record!r}.")


def _fields(record: Any) -> list[str]:
    """Return the names of the fields of a record that has some."""
    return list(record) if isinstance(record, Mapping) else list(record._fields)


def _values(record: Any, schema: list[str], kind: str, exactly: bool) -> tuple[Any, ...]:
    own = _kind(record)
    if own != kind and (kind, own) != ("sequence", "named tuple"):
        raise TypeError(f"record must be a {kind} like the first one, but is {record!r}.")
    if kind == "sequence":
        if len(record) != len(schema):
            raise ValueError(f"record has {len(record)} values but schema has {len(schema)} fields.")
        return tuple(record)
    fields = _fields(record)
    for name in schema:
        if name not in fields:
            raise ValueError(f"record is missing schema field {name!r}; it has: {', '.join(map(str, fields))}.")
    if exactly and len(fields) != len(schema):
        extra = [name for name in fields if name not in schema]
        raise ValueError(f"record has fields not present in schema: {extra!r}. Pass schema= to leave them out.")
    return tuple(record[name] if isinstance(record, Mapping) else getattr(record, name) for name in schema)


# ---- tables


def _held(rows: list[Any], columns: list[str], watermark: Any) -> DataFrame:
    return _marked(get_or_create_table_environment().from_elements(rows, columns), watermark)


def _marked(table: Table, watermark: Any) -> DataFrame:
    """Return a table as a frame, one of its columns event time if a watermark says so."""
    if watermark is None:
        return DataFrame(table)
    name, expression = watermark
    types = {column.name: column.type for column in table.plan.row_type}
    if name not in types:
        raise ValueError(f"watermark column {name!r} is not present in data, which has: {', '.join(types)}.")
    type_ = types[name]
    if not isinstance(type_, TimestampType | LocalZonedTimestampType):
        raise ValueError(f"watermark column {name!r} must have a timestamp type, but has {type_}.")
    if type_.precision != 3:
        milliseconds = col(name).cast(type(type_)(3, is_nullable=type_.is_nullable)).alias(name)
        table = table.add_or_replace_columns(milliseconds)
    return DataFrame(marked_table(table, name, expression))


def _watermark_of_data(watermark: Any) -> tuple[str, str] | None:
    """Return the watermark of data of the program, checked; an empty text is a ``TypeError``, as in PyFlink."""
    if watermark is None:
        return None
    if not isinstance(watermark, tuple) or len(watermark) != 2:
        raise TypeError(f"watermark must be a tuple of (column, expression), but got {watermark!r}.")
    if any(not isinstance(one, str) or not one.strip() for one in watermark):
        raise TypeError(f"watermark column and expression must be non-empty strings, but got {watermark!r}.")
    return watermark


def watermark_pair(watermark: Any) -> tuple[str, str]:
    """Return the column and the expression of a watermark."""
    if not isinstance(watermark, tuple) or len(watermark) != 2:
        raise TypeError(f"watermark must be a tuple of (column, expression), but got {watermark!r}.")
    if any(not isinstance(one, str) for one in watermark):
        raise TypeError(f"watermark column and expression must be strings, but got {watermark!r}.")
    if any(not one.strip() for one in watermark):
        raise ValueError("watermark column and expression must not be empty.")
    return watermark


def computed(columns: Any) -> dict[str, str]:
    """Return computed columns, SQL by name, checked."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise TypeError(f"computed_columns must be a dict of string keys and values, but got {columns!r}.")
    for name, expression in columns.items():
        if not isinstance(name, str):
            raise TypeError(f"computed column names must be strings, but got {name!r}.")
        if not name:
            raise ValueError("computed column names must not be empty.")
        if not isinstance(expression, str):
            raise TypeError(f"computed column {name!r} must use a string expression, but has {expression!r}.")
        if not expression.strip():
            raise ValueError(f"computed column {name!r} expression must not be empty.")
    return dict(columns)


def source_schema(
    schema: Mapping[str, Any], computed_columns: Mapping[str, str] | None, watermark: tuple[str, str] | None
) -> Schema:
    """Return the schema of a table to read."""
    from funken.dataframe.types import DataType  # noqa: PLC0415 - only to read tables

    if not isinstance(schema, Mapping):
        raise TypeError(f"schema must be a dict of column names and DataType values, but got {schema!r}.")
    if not schema:
        raise ValueError("schema must not be empty.")
    builder = Schema.new_builder()
    for name, dtype in schema.items():
        if not isinstance(name, str):
            raise TypeError(f"schema column names must be strings, but got {name!r}.")
        if not name:
            raise ValueError("schema column names must not be empty.")
        if not isinstance(dtype, DataType):
            raise TypeError(
                f"schema column {name!r} must use a DataType value, DataType.int64() say, but has {dtype!r}."
            )
        builder.column(name, dtype.logical_type)
    for name, expression in computed(computed_columns).items():
        if name in schema:
            raise ValueError(f"computed column {name!r} conflicts with a physical column. Choose another name.")
        builder.column_by_expression(name, expression)
    if watermark is not None:
        builder.watermark(*watermark_pair(watermark))
    return builder.build()
