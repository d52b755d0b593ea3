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
from typing import IO, Any

from funken import extras
from funken.columnar.block import Block
from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.files.arrow_files import ArrowWriter, ParquetFormat
from funken.connectors.files.buckets import BucketAssigner
from funken.connectors.files.compaction import FileCommitter
from funken.connectors.files.file_format import BulkWriter
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
class StagedFormat(ParquetFormat):
    """Parquet files whose columns keep the types of ``known``, by name, where the values are of that kind.

    So rows of a ``DataFrame`` come back with its types: an int column stays one, and a map is no struct, though both are dicts.
    """

    known: Any = None

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Write a new file."""
        return StagedFile(self, file, self._shape(), self.known)


class StagedFile(ArrowWriter):
    """Finds types in the values, and then prefers those that are known."""

    def __init__(self, format: ParquetFormat, file: IO[bytes], shape: Any, known: Any) -> None:
        super().__init__(format, file, shape)
        self._known = {} if known is None else {each.name: each.type for each in known}

    def _batch_of_documents(self, documents: list[Any]) -> Any:
        if self._schema is not None or not self._known:
            return super()._batch_of_documents(documents)
        arrow = extras.load("pyarrow")
        names = list(dict.fromkeys(name for document in documents for name in document))
        arrays = [
            preferred([document.get(name) for document in documents], self._known.get(name), arrow) for name in names
        ]
        return arrow.RecordBatch.from_arrays(arrays, names=names)

    def _batch_of(self, block: Any) -> Any:
        batch = super()._batch_of(block)
        if batch is None or self._schema is not None:
            return batch
        arrow = extras.load("pyarrow")
        arrays = []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            kind = self._known.get(name)
            try:
                arrays.append(array.cast(kind) if kind is not None and of_one_kind(array.type, kind, arrow) else array)
            except arrow.ArrowException:
                arrays.append(array)
        return arrow.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def preferred(values: list[Any], kind: Any, arrow: Any) -> Any:
    """Return values as an array of a type, if they are of that kind and fit; else of the type that Arrow finds in them.

    >>> import pyarrow as pa
    >>> preferred([1, None], pa.int8(), pa).type, preferred([1000], pa.int8(), pa).type, preferred([0.5], pa.int8(), pa).type
    (DataType(int8), DataType(int64), DataType(double))
    >>> preferred([{"a": 1}], pa.map_(pa.string(), pa.int32()), pa).type
    MapType(map<string, int32>)
    """
    try:
        found = arrow.array(values)
    except (arrow.ArrowException, TypeError, OverflowError):
        if kind is None:
            raise
        return arrow.array([_pairs(value, kind, arrow) for value in values], kind)
    if kind is None or found.type == kind or not of_one_kind(found.type, kind, arrow):
        return found
    try:
        return arrow.array([_pairs(value, kind, arrow) for value in values], kind)
    except (arrow.ArrowException, TypeError, OverflowError, AttributeError):
        return found


_KINDS = ("integer", "floating", "decimal", "string", "binary", "boolean", "date", "time", "duration")


def of_one_kind(found: Any, known: Any, arrow: Any) -> bool:
    """Return True if values of a type that was found may be of a known one: other bits, digits or units, or a map of a struct.

    >>> import pyarrow as pa
    >>> of_one_kind(pa.int64(), pa.int8(), pa), of_one_kind(pa.float64(), pa.int8(), pa), of_one_kind(pa.null(), pa.date32(), pa)
    (True, False, True)
    """
    of = arrow.types
    if of.is_null(found):
        return True
    if of.is_timestamp(found) and of.is_timestamp(known):
        return (found.tz is None) == (known.tz is None)
    if of.is_list(known):
        return bool(of.is_list(found)) and of_one_kind(found.value_type, known.value_type, arrow)
    if of.is_map(known):
        return bool(of.is_struct(found)) and all(of_one_kind(each.type, known.item_type, arrow) for each in found)
    if of.is_struct(known):
        types = {each.name: each.type for each in known}
        fits = of.is_struct(found) and all(each.name in types for each in found)
        return fits and all(of_one_kind(each.type, types[each.name], arrow) for each in found)
    return any(getattr(of, f"is_{name}")(found) and getattr(of, f"is_{name}")(known) for name in _KINDS)


def _pairs(value: Any, kind: Any, arrow: Any) -> Any:
    """Return a value for a type of Arrow, whose maps are lists of pairs."""
    if value is None:
        return None
    if arrow.types.is_map(kind) and isinstance(value, dict):
        return [(name, _pairs(item, kind.item_type, arrow)) for name, item in value.items()]
    if arrow.types.is_list(kind) and isinstance(value, list):
        return [_pairs(item, kind.value_type, arrow) for item in value]
    if arrow.types.is_struct(kind) and isinstance(value, dict):
        return {each.name: _pairs(value.get(each.name), each.type, arrow) for each in kind}
    return value


@dataclass(frozen=True)
class StagingSink(Sink):
    """Parquet files directly in a folder, a file per subtask and checkpoint; ``known``: types of columns by their names."""

    folder: str
    schema: Any = None
    known: Any = None

    @property
    def files(self) -> FileSink:
        """The sink of the files."""
        return FileSink(
            self.folder, StagedFormat(self.schema, known=self.known), BucketAssigner.base_path_bucket_assigner(),
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
