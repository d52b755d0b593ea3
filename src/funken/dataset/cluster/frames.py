"""Spark DataFrames as inputs and as results: rows change sides as Parquet files.

An input is written once, when the program is built, so that every attempt and every execution reads the same rows. Its
folder is removed with the input, a result's when this process ends.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import weakref
from typing import Any

from funken import Row
from funken.config import Configuration
from funken.dataset.formats.inputs import ParquetInput
from funken.errors import InvalidProgram
from funken.spark.session import existing, living, session_for

_PREFIX = "funken-rows-"


def result_folder() -> str:
    """Make a folder for a result; it is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def rows_of(frame: Any, parent: str | None) -> ParquetInput:
    """Write the rows of a DataFrame, and return what reads them as ``Row``."""
    if not (hasattr(frame, "isStreaming") and hasattr(frame, "write")):
        raise InvalidProgram(f"from_spark() needs a DataFrame of pyspark.sql, but got {frame!r}.")
    if frame.isStreaming:
        raise InvalidProgram(
            "from_spark() got a streaming DataFrame, which never ends. Read it with a StreamExecutionEnvironment."
        )
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    path = os.path.join(folder, "rows")
    made = ParquetInput(path, target=Row)
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    frame.write.parquet(path)
    return made


def frame_of(path: str, schema: Any, configuration: Configuration, session: Any) -> Any:
    """Return the files of a Parquet sink as a DataFrame."""
    written = os.path.isfile(path) or bool(os.listdir(path))
    if not written and schema is None:
        raise InvalidProgram("to_spark(): there is no record, so its columns are not known. Give the schema.")
    spark = living(session) or existing() or session_for(configuration, None, 0)
    if not written:
        return spark.createDataFrame([], schema)
    return (spark.read if schema is None else spark.read.schema(schema)).parquet(path)
