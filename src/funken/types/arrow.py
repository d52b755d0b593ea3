"""Values of Arrow as Python's: a map is a dict, wherever it is within a column."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

ArrowTable: TypeAlias = Any
"""A ``pyarrow.Table``. PyArrow has no types, so a strict checker would report every method that names its class."""
ArrowSchema: TypeAlias = Any
"""A ``pyarrow.Schema``."""


def parquet_file(source: Any) -> Any:
    """Open a Parquet file.

    Timestamps of the type INT96 (Hive, Impala, Spark) are read in microseconds, which reach from year 1 to 9999 as Python's do.
    Arrow's nanoseconds end in 1677 and 2262, and those of other years become others without an error.

    >>> import datetime, io
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> file, never = io.BytesIO(), pa.array([datetime.datetime(9999, 12, 31)])
    >>> parquet.write_table(pa.table({"until": never}), file, use_deprecated_int96_timestamps=True, store_schema=False)
    >>> parquet_file(file).read().to_pylist()
    [{'until': datetime.datetime(9999, 12, 31, 0, 0)}]
    """
    from pyarrow import parquet  # noqa: PLC0415 - who reads Parquet loads it

    return parquet.ParquetFile(source, coerce_int96_timestamp_unit="us")


def in_micros(array: Any) -> Any:
    """Return an array whose times are in microseconds, as Python's are, if it has nanoseconds and none is finer than that.

    >>> import pyarrow as pa
    >>> in_micros(pa.array([1000], pa.timestamp("ns"))).type, in_micros(pa.array([1], pa.timestamp("ns"))).type
    (TimestampType(timestamp[us]), TimestampType(timestamp[ns]))
    """
    import pyarrow as pa  # noqa: PLC0415 - who has an array has loaded it

    if not pa.types.is_timestamp(array.type) or array.type.unit != "ns":
        return array
    try:
        return array.cast(pa.timestamp("us", array.type.tz))
    except pa.ArrowInvalid:
        return array


def python_values(array: Any) -> list[Any]:
    """Return the values of an array or chunked array; where a map has a key twice, the last value counts.

    >>> import pyarrow as pa
    >>> python_values(pa.array([[("to", 1), ("be", 2)], None], pa.map_(pa.string(), pa.int64())))
    [{'to': 1, 'be': 2}, None]
    >>> python_values(pa.array([1, None]))
    [1, None]
    """
    values: list[Any] = in_micros(array).to_pylist()
    convert = _conversion(array.type)
    return values if convert is None else [convert(value) for value in values]


def python_rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table or batch as dicts.

    >>> import pyarrow as pa
    >>> counts = pa.array([[("to", 1)]], pa.map_(pa.string(), pa.int64()))
    >>> python_rows(pa.table({"n": [7], "counts": counts}))
    [{'n': 7, 'counts': {'to': 1}}]
    """
    columns = [in_micros(column) for column in table.columns]
    if any(new is not old for new, old in zip(columns, table.columns, strict=True)):
        table = type(table).from_arrays(columns, names=table.schema.names)
    rows: list[dict[str, Any]] = table.to_pylist()
    for field in table.schema:
        convert = _conversion(field.type)
        if convert is not None:
            for row in rows:
                row[field.name] = convert(row[field.name])
    return rows


@lru_cache(1000)
def _conversion(kind: Any) -> Callable[[Any], Any] | None:
    """Return what makes dicts of the maps in a value of a type, ``None`` if there are none."""
    import pyarrow as pa  # noqa: PLC0415 - who has an array has loaded it

    if pa.types.is_map(kind):
        return _of_map(_conversion(kind.key_type) or _same, _conversion(kind.item_type) or _same)
    if pa.types.is_struct(kind):
        made = {field.name: convert for field in kind if (convert := _conversion(field.type)) is not None}
        return _of_struct(made) if made else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        convert = _conversion(kind.value_type)
        return None if convert is None else _of_list(convert)
    return None


def _same(value: Any) -> Any:
    return value


def _of_map(key: Callable[[Any], Any], item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda pairs: None if pairs is None else {key(name): item(value) for name, value in pairs}


def _of_list(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: None if values is None else [convert(value) for value in values]


def _of_struct(made: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value is not None:
            for name, of_field in made.items():
                value[name] = of_field(value[name])
        return value

    return convert


__all__ = ["ArrowSchema", "ArrowTable", "parquet_file", "python_rows", "python_values"]
