"""A sink into Spark: the records of each checkpoint, as a DataFrame, for a function or for any format that Spark writes.

Writers write Parquet files, which are hidden. When the checkpoint is complete the committer, on the driver, reads those of all
subtasks as one DataFrame and passes it on, with the number of the checkpoint as that of the batch; it notes that in the folder
of the files, and then removes them. A batch that was passed on and not noted, since the driver died in between, is passed on
again: the same rows with the same number, as Spark's own ``foreachBatch`` does it.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import IO, Any, NoReturn
from uuid import uuid4

from funken import extras
from funken.columnar.block import Block
from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.files.arrow_files import ArrowWriter, ParquetFormat
from funken.connectors.files.compaction import FileCommitter
from funken.connectors.files.file_format import BulkWriter
from funken.connectors.files.part_files import OutputFileConfig, RollingPolicy
from funken.connectors.files.sink import BucketAssigner, FileSink, FileWriter
from funken.connectors.formats.record_types import shape_of
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import ValueDoesNotFit
from funken.io.filesystem import Files, locate
from funken.types.info import RowTypeInfo, TupleTypeInfo, TypeInformation, columns_of

# ---- Records as Parquet files that Spark is to read: hidden until a checkpoint is complete, as those of
# ``FileSink``.
#
# A record has columns (``types/info.py``). With a schema (Arrow's) they are the schema's: by name, or by position
# where a record names none; a column that a record lacks is null, one that the schema lacks is an error. Without a
# schema each file has the columns of its records.


_PREFIX = "rows"


def schema_of(schema: Any, who: str) -> Any:
    """Return a schema of Arrow for a description of records: one, a record type, or a schema of Spark or its text.

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
        return importlib.import_module("funken.spark.frames").arrow_schema(schema)
    return shape_of(schema, who).types()


def by_columns(names: list[str] | None, operator: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function from a record to columns; with names, those columns. It raises ``ValueDoesNotFit``.

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
    """Parquet files whose columns keep the types of ``known``, by name, where the values fit.

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
    """Return values as an array of a type, if they fit; else of the type that Arrow infers.

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
    """Return True if values of an inferred type may be of a known one: other bits, digits, units, or a map of a struct.

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
        """Make the committer that renames the files."""
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


Batch = Callable[[Any, int], object]
"""A consumer of the DataFrame of a batch, and its number."""


@dataclass(frozen=True)
class SparkSink(Sink):
    """Hands records to Spark, a batch per checkpoint; all of them at the end, if there are no checkpoints.

    Records have columns by the names of their fields (tuples: ``f0``, ``f1``, ...; else ``value``). ``schema`` fixes them: one
    of Spark (``StructType``, or text such as ``"word string, n long"``) or Arrow, or a record type; by default it is the declared
    type of the stream, else every batch has the columns of its records. ``staging`` is the folder, or URI, through which rows
    change sides; by default a temporary one of this machine. Name one that all machines reach on a cluster, and for a job that is
    to be resumed when its driver has died.

    Made by ``for_each_batch`` and ``for_format``. The session is the one of the job, else Funken's own.
    """

    batch: Batch
    schema: Any = None
    staging: str = ""
    temporary: bool = field(default=False)

    def __post_init__(self) -> None:
        """Describe the columns, and have a folder."""
        object.__setattr__(self, "schema", schema_of(self.schema, "SparkSink"))
        if not self.staging:
            object.__setattr__(self, "staging", temporary_folder())
            object.__setattr__(self, "temporary", True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the function out: it is called on the driver, and may have things that cannot travel, such as a session."""
        return SparkSink, (_stays_on_the_driver, self.schema, self.staging, self.temporary)

    @staticmethod
    def for_each_batch(func: Batch, schema: Any = None, staging: str = "") -> SparkSink:
        """Call ``func(frame, batch)`` on the driver for each batch that has records; numbers of batches rise.

        After a failure of the driver a batch may come again, with its number and rows: a function that writes where
        transactions are should keep the number with them.

        >>> SparkSink.for_each_batch(lambda frame, batch: frame.show(), schema="word string, n long")  # doctest: +SKIP
        """
        return SparkSink(func, schema, staging)

    @staticmethod
    def for_format(
        source: str, mode: str = "append", schema: Any = None, staging: str = "", **options: str
    ) -> SparkSink:
        """Write each batch in a format that Spark writes; ``options`` are those of ``DataFrameWriter``, ``path`` among them.

        >>> from funken import Types
        >>> row = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])
        >>> sink = SparkSink.for_format("jdbc", schema=row, url="jdbc:postgresql://db/shop", dbtable="words")
        >>> sink.schema.names
        ['word', 'n']
        """
        return SparkSink(functools.partial(_save, source, mode, dict(options)), schema, staging)

    def of_type(self, type_info: TypeInformation | None) -> Sink:
        """Take the declared type for the schema, unless there is one."""
        if self.schema is None and isinstance(type_info, RowTypeInfo | TupleTypeInfo):
            return replace(self, schema=shape_of(type_info, "SparkSink").types())
        return self

    @property
    def files(self) -> FileSink:
        """The sink of the files through which rows change sides."""
        return StagingSink(self.staging, self.schema).files

    def check(self) -> None:
        """Find out whether files can be written to the folder."""
        self.files.check()

    takes_columns = True

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return StagedRowsWriter(self.files, self.schema, context)

    def committer(self, context: CommitterContext) -> Committer:
        """Make the committer."""
        return SparkCommitter(self, context)


class SparkCommitter(Committer):
    """Passes on the files of checkpoints as DataFrames."""

    def __init__(self, sink: SparkSink, context: CommitterContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._files = FileCommitter(sink.files.base_path)

    def open(self) -> None:
        """Find out whether Spark's workers reach the folder."""
        if self._sink.temporary and not self._frames().is_local():
            raise self.failure("on a cluster SparkSink needs a folder that all machines reach; name it (staging=).")

    def _frames(self) -> Any:
        return importlib.import_module("funken.spark.frames")

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Pass on new records, a batch per checkpoint."""
        batches: dict[tuple[str, int], list[CommitRequest]] = {}
        for request in requests:
            batches.setdefault((request.job_id, request.checkpoint_id or 0), []).append(request)
        for (_, number), batch in sorted(batches.items(), key=lambda each: each[0][1]):
            self._pass_on(number, batch)

    def _pass_on(self, number: int, requests: list[CommitRequest]) -> None:
        files, _ = locate(self._sink.files.base_path)
        missing = [request for request in requests if not any(files.exists(path) for path in request.committable)]
        noted = self._note_of(requests[0].job_id)
        names = [request.committable.final.rpartition("/")[2] for request in requests]
        newest, passed = self._read(files, noted) if files.exists(noted) else (-1, [])
        is_noted = newest == number and passed == sorted(names)
        if is_noted or (missing and newest > number):
            for request in requests:
                request.already_committed()
        elif not missing:
            self._files.commit(requests)
            folder = self._sink.files.base_path.rstrip("/")
            frame = self._frames().frame_of_files([f"{folder}/{name}" for name in names], self._sink.schema)
            self._sink.batch(frame, number)
            self._write(files, noted, number, sorted(names))
        else:
            for request in missing:
                request.failed(
                    f"the rows of batch {number}, {request.committable.final}, are gone, and there is no note that Spark got "
                    "them. Keep the folder of a job that is to be resumed (staging=)."
                )
            return
        for request in requests:
            for path in request.committable:
                files.remove(path)

    def _note_of(self, job_id: str) -> str:
        name = hashlib.sha256(f"{job_id}/{self.operator}".encode()).hexdigest()[:16]
        return f"{locate(self._sink.files.base_path)[1].rstrip('/')}/.passed-{name}"

    @staticmethod
    def _read(files: Files, path: str) -> tuple[int, list[str]]:
        """Return the newest batch that was passed on, and its files: a later run with this job id has other ones."""
        with files.open(path) as file:
            number, *names = file.read().decode().split("\n")
        return int(number), names

    @staticmethod
    def _write(files: Files, path: str, number: int, names: Sequence[str]) -> None:
        written = f"{path}.{uuid4().hex}"
        file = files.create(written)
        file.write("\n".join([str(number), *names]).encode())
        files.seal(file)
        files.move(written, path)

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Remove files that are in no checkpoint."""
        self._files.abort(requests)


def _stays_on_the_driver(frame: Any, number: int) -> NoReturn:
    raise AssertionError("batches are passed on by the driver")


def _save(source: str, mode: str, options: dict[str, str], frame: Any, number: int) -> None:
    frame.write.format(source).mode(mode).options(**options).save()
