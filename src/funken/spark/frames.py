"""Parquet files that a stream has written as DataFrames, and schemas of Spark as those of Arrow.

The session is the one given, else the running one of this process, else a new one of Funken's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from funken.config import default_configuration
from funken.errors import InvalidProgram
from funken.io.filesystem import locate
from funken.spark.session import existing, living, session_for
from funken.types.convert import parquet_file


def session(given: Any = None) -> SparkSession:
    """Return a session of this process, which is started if there is none."""
    found = living(given) or existing()
    if found is None:
        session_for(default_configuration(), None, 0)  # which has settings for jobs; users get the one that it is from
        found = existing()
    assert found is not None
    return found


def is_local() -> bool:
    """Return True if Spark runs on this machine only."""
    master = str(session().sparkContext.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def arrow_schema(schema: str | StructType) -> Any:
    """Return a schema of Spark as Arrow's; text is parsed by Spark.

    >>> from pyspark.sql.types import LongType, StringType
    >>> arrow_schema(StructType().add("word", StringType()).add("n", LongType())).types
    [DataType(string), DataType(int64)]
    """
    if isinstance(schema, str):
        session()
        parsed = StructType.fromDDL(schema)
        if not isinstance(parsed, StructType):
            raise InvalidProgram(f"{schema!r} is no schema; write columns and their types: 'word string, n long'.")
        schema = parsed
    return to_arrow_schema(schema, timezone="UTC")


def frame_of_files(paths: Sequence[str], schema: Any, given: Any = None) -> DataFrame:
    """Return files, or folders, as a DataFrame; without a schema of Arrow it has the columns of all files.

    Types that differ from file to file become the wider one: one subtask had small numbers, and another large ones.
    """
    if schema is None:
        schema = _common_schema(paths)
    if any(_is_foreign(each.type) for each in schema):
        return _with_foreign_columns(paths, schema, given)
    return session(given).read.schema(from_arrow_schema(schema)).parquet(*map(_uri, paths))


def _common_schema(paths: Sequence[str]) -> pa.Schema:
    """Return the columns of all files; raises ``InvalidProgram`` for a column whose types have none in common."""
    columns: dict[str, pa.Field] = {}
    for path in paths:
        files, base = locate(path)
        for found in files.find(base):
            with files.open(found.path) as file:
                schema = parquet_file(file).schema_arrow.remove_metadata()
            for field in schema:
                columns[field.name] = _common_field(columns.get(field.name, field), field)
    return pa.schema(list(columns.values()))


def _common_field(field: pa.Field, other: pa.Field) -> pa.Field:
    try:
        return pa.unify_schemas([pa.schema([field]), pa.schema([other])], promote_options="permissive").field(0)
    except pa.ArrowException:
        raise InvalidProgram(
            f"to_spark(): column {field.name!r} has the types {field.type} and {other.type} in different records, and a "
            "column has one type. Convert the values with map() before, or give the schema."
        ) from None


def _is_foreign(kind: pa.DataType) -> bool:
    """Return True for a type that Spark does not read from Parquet: nothing but nulls, and spans of time."""
    return bool(pa.types.is_null(kind) or pa.types.is_duration(kind))


def _with_foreign_columns(paths: Sequence[str], schema: pa.Schema, given: Any) -> DataFrame:
    """Read spans of time as the numbers that Arrow makes of them, and no column of nulls at all; then make both."""
    read = pa.schema(
        [
            pa.field(each.name, pa.int64() if pa.types.is_duration(each.type) else each.type)
            for each in schema
            if not pa.types.is_null(each.type)
        ]
    )
    frame = session(given).read.schema(from_arrow_schema(read)).parquet(*map(_uri, paths))
    columns = []
    for each in schema:
        name = "`" + each.name.replace("`", "``") + "`"
        if pa.types.is_null(each.type):
            columns.append(functions.lit(None).alias(each.name))
        elif pa.types.is_duration(each.type):
            columns.append(functions.expr(f"timestamp_micros({name}) - timestamp_micros(0)").alias(each.name))
        else:
            columns.append(frame[name])
    return frame.select(columns)


def frame_of_folder(folder: str, schema: Any, given: Any = None) -> DataFrame:
    """Return the files of a folder as a DataFrame; raise ``InvalidProgram`` if there are none, and no schema."""
    files, base = locate(folder)
    if not files.exists(base) or not files.find(base):
        if schema is None:
            raise InvalidProgram("to_spark(): there is no record, so its columns are not known. Give the schema.")
        return session(given).createDataFrame([], from_arrow_schema(schema))
    return frame_of_files([folder], schema, given)


def stream_of_files(folder: str, schema: Any, given: Any = None) -> DataFrame:
    """Return the files of a folder, also those to come, as a streaming DataFrame."""
    files, base = locate(folder)
    if not files.exists(base):
        files.seal(files.create(f"{base.rstrip('/')}/.made"))  # Spark refuses a folder that is not there
    return session(given).readStream.schema(from_arrow_schema(schema)).parquet(_uri(folder))


def _uri(path: str) -> str:
    """Return a path in the spelling that Spark has for it.

    >>> _uri("/tmp/rows"), _uri("s3://bucket/rows")
    ('file:///tmp/rows', 's3a://bucket/rows')
    """
    if path.startswith("s3://"):
        return path.replace("s3://", "s3a://", 1)
    return f"file://{path}" if path.startswith("/") else path
