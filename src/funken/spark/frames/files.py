"""Parquet files that a stream has written as DataFrames, and schemas of Spark as those of Arrow.

The session is the one given, else the running one of this process, else a new one of Funken's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from funken.config import default_configuration
from funken.errors import InvalidProgram
from funken.io.filesystem import locate
from funken.spark.session import existing, living, session_for


def session(given: Any = None) -> SparkSession:
    """Return a session of this process, which is started if there is none."""
    found = living(given) or existing()
    if found is None:
        session_for(default_configuration(), None, 0)  # which has settings for jobs; users get the one that it is from
        found = existing()
    assert found is not None
    return found


def is_local() -> bool:
    """Whether Spark runs on this machine only."""
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
    """Return files, or folders, as a DataFrame; without a schema of Arrow it has the columns of all files."""
    reader = session(given).read
    reader = reader.option("mergeSchema", "true") if schema is None else reader.schema(from_arrow_schema(schema))
    return reader.parquet(*map(_uri, paths))


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
