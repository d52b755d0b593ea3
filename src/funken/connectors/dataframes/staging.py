"""Records as Parquet files that Spark is to read: hidden until a checkpoint is complete, as those of ``FileSink``.

A record has columns (``types/columns.py``). With a schema (Arrow's) they are the schema's: by name, or by position where a
record names none; a column that a record lacks is null, one that the schema lacks is an error. Without a schema each file has
the columns of its records.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from funken import extras
from funken.columnar.block import Block
from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.buckets import BucketAssigner
from funken.connectors.files.compaction import FileCommitter
from funken.connectors.files.part_files import OutputFileConfig, RollingPolicy
from funken.connectors.files.sink import FileSink, FileWriter
from funken.connectors.formats.record_types import shape_of
from funken.connectors.sink import Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import ValueDoesNotFit
from funken.types.columns import columns_of
from funken.types.info import RowTypeInfo, TupleTypeInfo, TypeInformation

_PREFIX = "rows"


def schema_of(schema: Any, who: str) -> Any:
    """Return a schema of Arrow for what describes records: one, a record type, or a schema of Spark (``StructType``, or text).

    A schema as text is parsed by Spark, which is started for it if there is no session. Raises ``InvalidProgram`` for anything
    else.

    >>> from funken import Types
    >>> schema_of(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()]), "an example").names
    ['word', 'n']
    """
    if schema is None:
        return None
    if isinstance(schema, str) or type(schema).__module__.startswith("pyspark."):
        extras.need("spark", f"the schema of {who}")
        return importlib.import_module("funken.spark.frames.files").arrow_schema(schema)
    return shape_of(schema, who).types()


def by_columns(names: list[str] | None, operator: str) -> Callable[[Any], dict[str, Any]]:
    """Return what makes columns of a record; with names, those columns. The function raises ``ValueDoesNotFit``.

    >>> convert = by_columns(["word", "n"], "out")
    >>> convert(("to", 2)), convert({"n": 1})
    ({'word': 'to', 'n': 2}, {'n': 1})
    >>> convert({"count": 1})
    Traceback (most recent call last):
    ...
    funken.errors.ValueDoesNotFit: operator 'out': the record {'count': 1} has columns that the schema lacks (word, n): ...
    """
    if names is None:
        return columns_of
    known, nameless = set(names), {(f"f{index}" if len(names) > 1 else "value") for index in range(len(names))}

    def convert(record: Any) -> dict[str, Any]:
        columns = columns_of(record)
        if columns.keys() <= known:
            return columns
        if columns.keys() in (nameless, {"f0"}) and len(columns) == len(names):
            return dict(zip(names, columns.values(), strict=True))
        raise ValueDoesNotFit(
            f"operator {operator!r}: the record {record!r} has columns that the schema lacks ({', '.join(names)}): convert it in "
            "a map() before, or declare another schema."
        )

    return convert


@dataclass(frozen=True)
class StagingSink(Sink):
    """Parquet files directly in a folder, a file per subtask and checkpoint."""

    folder: str
    schema: Any = None

    @property
    def files(self) -> FileSink:
        """The sink of the files."""
        return FileSink(
            self.folder, ParquetFormat(self.schema), BucketAssigner.base_path_bucket_assigner(),
            RollingPolicy.on_checkpoint_rolling_policy(), OutputFileConfig(_PREFIX, ".parquet"),
        )  # fmt: skip

    def of_type(self, type_info: TypeInformation | None) -> Sink:
        """Take the declared type for the schema, unless there is one."""
        if self.schema is None and isinstance(type_info, RowTypeInfo | TupleTypeInfo):
            return StagingSink(self.folder, shape_of(type_info, "to_spark()").types())
        return self

    def check(self) -> None:
        """Find out whether files can be written to the folder."""
        self.files.check()

    takes_columns = True

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return StagedRowsWriter(self.files, self.schema, context)

    def committer(self, context: CommitterContext) -> Committer:
        """Make what gives the files their names."""
        return FileCommitter(self.files.base_path)


class StagedRowsWriter(FileWriter):
    """Writes records by their columns."""

    def __init__(self, files: FileSink, schema: Any, context: ConnectorContext) -> None:
        super().__init__(files, context)
        self._names = None if schema is None else set(schema.names)
        self._columns = by_columns(None if schema is None else list(schema.names), context.operator)

    def write(self, values: Any, timestamps: Any, now: int) -> None:
        """Write a block, of records or of columns."""
        if isinstance(values, Block):
            names = getattr(getattr(values, "schema", None), "names", None)
            if names is not None and self._names in (None, set(names)):
                super().write(values, timestamps, now)
                return
            values, timestamps = values.rows()
        super().write([*map(self._columns, values)], timestamps, now)


def temporary_folder() -> str:
    """Make a folder that only this user can read; it is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="funken-rows-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
