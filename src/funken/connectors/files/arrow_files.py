"""Parquet and ORC: files of columns, read and written by Arrow.

Only the columns that records need are read. A file is shared by its row groups (stripes): one belongs to the range of bytes that
it begins in; ORC's are taken to be equally large, since Arrow does not say where they begin. Columns that a file does not have
are missing fields; a column of another type is converted if no value is lost by that, else reading fails.

Where the program works on columns, batches become blocks of columns and blocks of columns batches, without records in between
(``formats/arrow_columns.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

from funken import extras
from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import ConnectorContext
from funken.connectors.files.file_format import BulkFormat, BulkWriter, CannotMerge, FileFormat, FileSplit, RecordReader
from funken.connectors.formats.arrow import (
    ArrowColumns,
    ArrowRecords,
    RowGroups,
    array_of,
    batch_of_columns,
    check_values,
)
from funken.connectors.formats.arrow_columns import schema_of_file, schema_of_type
from funken.connectors.formats.record_types import RecordShape, StoredLeaves, as_document, schema_of_records, shape_of
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, InvalidProgram
from funken.expr.types import Type
from funken.types.callables import DOC_co, Generic
from funken.types.convert import parquet_file
from funken.types.info import RowTypeInfo, TupleTypeInfo, TypeInformation, TypeOf

_GROUP_BYTES = 32 << 20


@dataclass(frozen=True)
class _ColumnarFormat(FileFormat[DOC_co], BulkFormat, Generic[DOC_co]):
    """The base of Parquet and ORC."""

    record_type: TypeOf[DOC_co] | None = None
    fields: tuple[str, ...] | None = None
    compression: str | None = None

    splittable = True
    container = True
    takes_columns = True
    _name = ""

    def __post_init__(self) -> None:
        """Refuse other objects than record types before the job runs; raises ``EnvironmentNotReady`` without PyArrow."""
        extras.need("columns", self._name)
        if self.record_type is not None and self.fields is not None:
            raise InvalidConfiguration(f"{self._name} takes a record type or the names of fields, not both.")
        if self.record_type is not None:
            self._check_types(shape_of(self.record_type, self._name).types())

    def _check_types(self, schema: Any) -> None:
        """Raise ``InvalidProgram`` for a type that the files do not have."""

    def of_type(self, type_info: TypeInformation | None) -> _ColumnarFormat[Any]:
        """Write the declared type, unless the format has one of its own."""
        if self.record_type is None and isinstance(type_info, RowTypeInfo | TupleTypeInfo):
            given: _ColumnarFormat[Any] = self
            return replace(given, record_type=type_info, fields=None)
        return self

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read the groups of rows that begin in a range."""
        assert not isinstance(split.position, tuple)
        return ArrowRecords(self._groups(file, split), self._shape(), self.fields, split.position or 0)

    def record_schema(self, first: Callable[[], IO[bytes]]) -> Type:
        """Return the schema of the record type; without one, of a file's content."""
        shape = self._shape()
        if shape is not None:
            # Records within those of other types than Arrow's are made of their own types.
            dicts = not isinstance(self.record_type, type | RowTypeInfo | TupleTypeInfo)
            return schema_of_records(self.record_type, shape, schema_of_type if dicts else None)
        with first() as file:
            schema, nullable = self._schema_of(file)
        if self.fields is not None:
            missing = [name for name in self.fields if name not in schema.names]
            if missing:
                raise NotVectorizable(f"a file has no column {missing[0]!r}")
            schema = extras.load("pyarrow").schema([schema.field(name) for name in self.fields])
        return schema_of_file(schema, nullable)

    def column_reader(
        self,
        file: IO[bytes],
        split: FileSplit,
        context: ConnectorContext,
        schema: Type,
        wanted: Sequence[int] | None,
    ) -> RecordReader:
        """Read the same as columns."""
        assert not isinstance(split.position, tuple)
        groups = self._groups(file, split)
        return ArrowColumns(groups, self._shape(), self.fields, split.position or 0, schema, wanted)

    def _shape(self) -> RecordShape | None:
        return None if self.record_type is None else shape_of(self.record_type, self._name, leaves=StoredLeaves())

    def _schema_of(self, file: IO[bytes]) -> tuple[Any, set[str]]:
        """Return the schema of a file, and which of its columns are known to have nulls."""
        raise NotImplementedError

    def _groups(self, file: IO[bytes], split: FileSplit) -> RowGroups:
        raise NotImplementedError

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Write a new file."""
        return ArrowWriter(self, file, self._shape())

    def open_writer(self, file: IO[bytes], schema: Any) -> Any:
        """Make Arrow's writer."""
        raise NotImplementedError

    def merge(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        """Write the columns of files of one schema one after the other, a group of rows of each file at a time."""
        if len({str(self._schema_of(source)[0]) for source in sources}) > 1:
            raise CannotMerge
        writer, waits, size = self.open_writer(target, self._schema_of(sources[0])[0]), [], 0
        for source in sources:
            for table in self._tables(source):
                waits.append(table)
                size += table.nbytes
                if size >= _GROUP_BYTES:
                    _write_tables(writer, waits)
                    waits, size = [], 0
        if waits:
            _write_tables(writer, waits)
        writer.close()

    def _tables(self, file: IO[bytes]) -> Iterator[Any]:
        """Yield a table per group of rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class ParquetFormat(_ColumnarFormat[DOC_co], Generic[DOC_co]):
    """Parquet files, for sources and sinks; records are dicts (of ``fields`` only), or of ``record_type``.

    ``compression`` is for sinks: ``snappy`` (default), ``gzip``, ``zstd``, ``lz4``, ``brotli`` or ``none``. Without a
    record type, a sink finds the columns of each file in its first 10,000 records.

    >>> import tempfile
    >>> from dataclasses import dataclass
    >>> from funken import BucketAssigner, FileSink, FileSource
    >>> from funken.testing import local
    >>> @dataclass
    ... class Sale:
    ...     item: str
    ...     n: int
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sales = local([Sale("tea", 3), Sale("jam", 1)])
    ...     sink = FileSink.for_bulk_format(folder, ParquetFormat(Sale))
    ...     _ = sales.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    ...     env = sales.get_execution_environment()
    ...     _ = env.execute()
    ...     source = FileSource.for_format(ParquetFormat(fields=("n",)), folder).build()
    ...     env.from_source(source).execute_and_collect(limit=9)
    [{'n': 3}, {'n': 1}]
    """

    suffix = ".parquet"
    _name = "ParquetFormat"

    def _groups(self, file: IO[bytes], split: FileSplit) -> RowGroups:
        opened = parquet_file(file)
        about = opened.metadata
        found = []
        for index in range(about.num_row_groups):
            group = about.row_group(index)
            first = group.column(0) if group.num_columns else None
            begin = 0 if first is None else first.dictionary_page_offset or first.data_page_offset
            if split.start <= begin < split.end:
                found.append((group.num_rows, _ParquetGroup(opened, index)))
        schema, columns = opened.schema_arrow, opened.schema
        paths = tuple(columns.column(number).path for number in range(len(columns)))
        return RowGroups(schema.names, found, {field.name: field.type for field in schema}, paths)

    def _schema_of(self, file: IO[bytes]) -> tuple[Any, set[str]]:
        opened = parquet_file(file)
        about, nullable = opened.metadata, set()
        for group in range(about.num_row_groups):
            for number in range(about.num_columns):
                column = about.row_group(group).column(number)
                if column.statistics is not None and column.statistics.null_count:
                    nullable.add(column.path_in_schema)
        return opened.schema_arrow, nullable

    def _tables(self, file: IO[bytes]) -> Iterator[Any]:
        opened = parquet_file(file)
        return (opened.read_row_group(index) for index in range(opened.metadata.num_row_groups))

    def open_writer(self, file: IO[bytes], schema: Any) -> Any:
        """Make Arrow's writer."""
        return self._arrow_writer(file, schema)

    def _arrow_writer(self, file: IO[bytes], schema: Any, **settings: Any) -> Any:
        """Make Arrow's writer with settings of its own."""
        parquet = extras.load("pyarrow.parquet")
        # Flink 2.3 cannot read decimals in a dictionary.
        plain = [each.name for each in schema if not str(each.type).startswith("decimal")]
        dictionary = plain if len(plain) < len(schema) else True
        return parquet.ParquetWriter(
            file, schema, compression=self.compression or "snappy", use_dictionary=dictionary, **settings
        )


@dataclass(frozen=True)
class _ParquetGroup:
    file: Any
    index: int

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        yield from self.file.iter_batches(rows, row_groups=[self.index], columns=list(names))


@dataclass(frozen=True)
class OrcFormat(_ColumnarFormat[DOC_co], Generic[DOC_co]):
    """ORC files, for sources and sinks; the arguments are those of ``ParquetFormat``.

    ``compression`` is for sinks: ``zstd``, ``zlib``, ``snappy``, ``lz4`` or ``uncompressed`` (default).

    >>> OrcFormat(fields=("item", "n")).suffix
    '.orc'
    """

    suffix = ".orc"
    _name = "OrcFormat"

    def _check_types(self, schema: Any) -> None:
        for field in schema:
            if "time64" in str(field.type) or "time32" in str(field.type):
                raise InvalidProgram(
                    f"OrcFormat: field {field.name!r}: ORC has no times of day; declare Types.SQL_TIMESTAMP() or text."
                )

    def _groups(self, file: IO[bytes], split: FileSplit) -> RowGroups:
        opened = extras.load("pyarrow.orc").ORCFile(file)
        count, size = opened.nstripes, max(1, split.file.size)
        mine = [index for index in range(count) if split.start <= size * index // count < split.end]
        found = [(0, _Stripe(opened, index)) for index in mine]
        return RowGroups(opened.schema.names, found)

    def _schema_of(self, file: IO[bytes]) -> tuple[Any, set[str]]:
        return extras.load("pyarrow.orc").ORCFile(file).schema, set()

    def _tables(self, file: IO[bytes]) -> Iterator[Any]:
        opened, arrow = extras.load("pyarrow.orc").ORCFile(file), extras.load("pyarrow")
        return (arrow.Table.from_batches([opened.read_stripe(index)]) for index in range(opened.nstripes))

    def open_writer(self, file: IO[bytes], schema: Any) -> Any:
        """Make Arrow's writer."""
        return extras.load("pyarrow.orc").ORCWriter(file, compression=self.compression or "uncompressed")


@dataclass(frozen=True)
class _Stripe:
    file: Any
    index: int

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        # Without any column a stripe seems to have no rows.
        batch = self.file.read_stripe(self.index, columns=list(names) or self.file.schema.names[:1])
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _write_tables(writer: Any, tables: list[Any]) -> None:
    """Write tables as one group of rows."""
    table = extras.load("pyarrow").concat_tables(tables).combine_chunks()
    if hasattr(writer, "write_table"):
        writer.write_table(table)
    else:
        writer.write(table)


def _array(field: Any, values: Sequence[Any]) -> Any:
    try:
        return array_of(list(values), field.type)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"field {field.name!r}: {error}") from error


def _refuse_mixed_zones(field: Any, documents: Sequence[Any]) -> None:
    """Raise ``ValueError`` for times with and without a zone in one column, whose type Arrow found out."""
    if extras.load("pyarrow").types.is_timestamp(field.type):
        there = [value for document in documents if (value := document.get(field.name)) is not None]
        if len({getattr(value, "tzinfo", None) is None for value in there}) > 1:
            raise ValueError(f"field {field.name!r} has times with a zone, and without")


class ArrowWriter:
    """Writes records as columns: kept as records until there are enough for a batch, and then for a group of rows."""

    def __init__(self, format: _ColumnarFormat[Any], file: IO[bytes], shape: RecordShape | None) -> None:
        self._format = format
        self._file = file
        self._shape = shape
        self._schema: Any = None if shape is None else shape.types()
        self._records: list[Any] = []
        self._batches: list[Any] = []
        self._bytes = 0
        self._writer: Any = None

    def write(self, values: list[Any] | Block) -> None:
        """Take a block, of records or of columns."""
        if isinstance(values, Block):
            if self._write_columns(values):
                return
            values = values.rows()[0]
        self._records += values
        if len(self._records) >= 10_000:
            self._convert()
            self._write_if_full()

    def _write_columns(self, block: Any) -> bool:
        """Take a block of columns as it is; false if its records have to be made.

        Without a schema, records that wait are not converted for one whose records have to be made, too: types are found in many.
        """
        batch = self._batch_of(block)
        if batch is not None and self._records:
            self._convert()
            batch = self._batch_of(block)
        if batch is None:
            return False
        self._schema = batch.schema
        self._append(batch)
        self._write_if_full()
        return True

    def _batch_of(self, block: Any) -> Any:
        arrow = extras.load("pyarrow")
        try:
            return batch_of_columns(block, self._format.record_type, self._schema)
        except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self._misfit(error) from error

    def _append(self, batch: Any) -> None:
        self._batches.append(batch)
        self._bytes += batch.nbytes

    def _write_if_full(self) -> None:
        if self._bytes >= _GROUP_BYTES:
            self._write_group()

    def _convert(self) -> None:
        arrow = extras.load("pyarrow")
        records, self._records = self._records, []
        try:
            if self._shape is not None:
                columns = zip(*map(self._shape.values, records), strict=True)
                arrays = [_array(each, part) for part, each in zip(columns, self._schema, strict=True)]
                batch = arrow.RecordBatch.from_arrays(arrays, schema=self._schema)
            else:
                documents = [as_document(one) for one in records]
                for each in self._schema or ():
                    check_values([document.get(each.name) for document in documents], each.type)
                batch = self._batch_of_documents(documents)
                for each in batch.schema:
                    _refuse_mixed_zones(each, documents)
                self._schema = batch.schema
        except (arrow.ArrowException, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise self._misfit(error) from error
        self._append(batch)

    def _batch_of_documents(self, documents: list[Any]) -> Any:
        """Return records as a batch, whose types are those before, else those of the values."""
        return extras.load("pyarrow").RecordBatch.from_pylist(documents, schema=self._schema)

    def _misfit(self, error: Exception) -> ValueError:
        return ValueError(
            f"a record does not fit the columns of the file ({error}); declare the record type in "
            f"{type(self._format).__name__}, or make dicts or records with named fields in a map() before the sink"
        )

    def _write_group(self) -> None:
        arrow = extras.load("pyarrow")
        if self._writer is None:
            self._writer = self._format.open_writer(self._file, self._schema)
        batches, self._batches, self._bytes = self._batches, [], 0
        try:
            _write_tables(self._writer, [arrow.Table.from_batches(batches)])
        except (arrow.ArrowNotImplementedError, arrow.ArrowInvalid) as error:
            raise self._misfit(error) from error

    def size(self) -> int:
        """Return the bytes in the file and of the columns that wait."""
        return int(self._file.tell()) + self._bytes

    def flush(self) -> None:
        """Do nothing: a group of rows is written when it is full."""

    def finish(self) -> None:
        """Write waiting records, and the end of the file."""
        if self._records:
            self._convert()
        self._write_group()
        self._writer.close()
