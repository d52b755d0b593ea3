"""Parquet and ORC: files of columns, read and written by Arrow.

Only the columns that records need are read. A file is shared by its row groups (stripes): one belongs to the range of bytes that
it begins in; ORC's are taken to be equally large, since Arrow does not say where they begin. Columns that a file does not have
are missing fields; a column of another type is converted if no value is lost by that, else reading fails.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from funken.connectors.context import ConnectorContext
from funken.connectors.files.file_format import BulkFormat, BulkWriter, FileFormat, FileSplit, RecordReader
from funken.connectors.formats.record_types import RecordShape, as_document, shape_of
from funken.errors import InvalidConfiguration
from funken.types.info import RowTypeInfo, TupleTypeInfo, TypeInformation

_BATCH_ROWS = 8192
_GROUP_BYTES = 32 << 20


@dataclass(frozen=True)
class _ColumnarFormat(FileFormat, BulkFormat):
    """What Parquet and ORC have in common."""

    record_type: Any = None
    fields: tuple[str, ...] | None = None
    compression: str | None = None

    splittable = True
    container = True
    _name = ""

    def __post_init__(self) -> None:
        """Refuse what is no record type, before the job runs."""
        if self.record_type is not None and self.fields is not None:
            raise InvalidConfiguration(f"{self._name} takes a record type or the names of fields, not both.")
        if self.record_type is not None:
            shape_of(self.record_type, self._name).types()

    def of_type(self, type_info: TypeInformation | None) -> _ColumnarFormat:
        """Write the declared type, unless the format has one of its own."""
        if self.record_type is None and isinstance(type_info, RowTypeInfo | TupleTypeInfo):
            return replace(self, record_type=type_info, fields=None)
        return self

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read the groups of rows that begin in a range."""
        assert not isinstance(split.position, tuple)
        shape = None if self.record_type is None else shape_of(self.record_type, self._name)
        return ArrowRecords(self._groups(file, split), shape, self.fields, split.position or 0)

    def _groups(self, file: IO[bytes], split: FileSplit) -> _Groups:
        raise NotImplementedError

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Write a new file."""
        shape = None if self.record_type is None else shape_of(self.record_type, self._name)
        return ArrowWriter(self, file, shape)

    def open_writer(self, file: IO[bytes], schema: Any) -> Any:
        """Make Arrow's writer."""
        raise NotImplementedError


class _Groups:
    """The groups of rows of one split: the names of the file's columns, and for each group its rows and what reads it."""

    def __init__(self, names: Sequence[str], groups: Sequence[tuple[int, Any]]) -> None:
        self.names = names
        self.groups = groups


@dataclass(frozen=True)
class ParquetFormat(_ColumnarFormat):
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

    def _groups(self, file: IO[bytes], split: FileSplit) -> _Groups:
        parquet = importlib.import_module("pyarrow.parquet")
        opened = parquet.ParquetFile(file)
        about = opened.metadata
        found = []
        for index in range(about.num_row_groups):
            group = about.row_group(index)
            first = group.column(0) if group.num_columns else None
            begin = 0 if first is None else first.dictionary_page_offset or first.data_page_offset
            if split.start <= begin < split.end:
                found.append((group.num_rows, _ParquetGroup(opened, index)))
        return _Groups(opened.schema_arrow.names, found)

    def open_writer(self, file: IO[bytes], schema: Any) -> Any:
        """Make Arrow's writer."""
        parquet = importlib.import_module("pyarrow.parquet")
        return parquet.ParquetWriter(file, schema, compression=self.compression or "snappy")


@dataclass(frozen=True)
class _ParquetGroup:
    file: Any
    index: int

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        yield from self.file.iter_batches(_BATCH_ROWS, row_groups=[self.index], columns=list(names))


@dataclass(frozen=True)
class OrcFormat(_ColumnarFormat):
    """ORC files, for sources and sinks; the arguments are those of ``ParquetFormat``.

    ``compression`` is for sinks: ``zstd``, ``zlib``, ``snappy``, ``lz4`` or ``uncompressed`` (default).

    >>> OrcFormat(fields=("item", "n")).suffix
    '.orc'
    """

    suffix = ".orc"
    _name = "OrcFormat"

    def _groups(self, file: IO[bytes], split: FileSplit) -> _Groups:
        opened = importlib.import_module("pyarrow.orc").ORCFile(file)
        count, size = opened.nstripes, max(1, split.file.size)
        mine = [index for index in range(count) if split.start <= size * index // count < split.end]
        found = [(0, _Stripe(opened, index)) for index in mine]
        return _Groups(opened.schema.names, found)

    def open_writer(self, file: IO[bytes], schema: Any) -> Any:
        """Make Arrow's writer."""
        return importlib.import_module("pyarrow.orc").ORCWriter(file, compression=self.compression or "uncompressed")


@dataclass(frozen=True)
class _Stripe:
    file: Any
    index: int

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        batch = self.file.read_stripe(self.index, columns=list(names))
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS)


class ArrowRecords:
    """The records of groups of rows, a batch at a time; positions count the rows of the split."""

    def __init__(self, groups: _Groups, shape: RecordShape | None, fields: Sequence[str] | None, done: int) -> None:
        self._shape = shape
        wanted = groups.names if shape is None and fields is None else (shape.names if shape else fields or ())
        there = set(groups.names)
        missing = [name for name in wanted if name not in there and (shape is None or name in shape.required)]
        if missing:
            raise ValueError(f"it has no column {missing[0]!r}, but {', '.join(map(repr, groups.names))}")
        self._names = [name for name in wanted if name in there]
        self._types: Any = None if shape is None else shape.types()
        self._row = done
        self._size = 0
        skip = done
        left = list(groups.groups)
        while left and 0 < left[0][0] <= skip:  # whole groups that are done are not read again
            skip -= left.pop(0)[0]
        self._batches = (batch for _, group in left for batch in group.batches(self._names))
        self._skip = skip

    def next(self) -> Sequence[Any]:
        """Return the records of the next batch."""
        self._row += self._size
        self._size = 0
        for batch in self._batches:
            if self._skip >= batch.num_rows:
                self._skip -= batch.num_rows
                continue
            left, self._skip = batch.slice(self._skip), 0
            self._size = left.num_rows
            return self._records(left)
        return ()

    def _records(self, batch: Any) -> Sequence[Any]:
        shape = self._shape
        if shape is None:
            rows: list[Any] = batch.to_pylist()
            return rows
        columns: list[Sequence[Any]] = []
        for name, declared in zip(shape.names, self._types, strict=True):
            if name not in self._names:
                columns.append([shape.defaults(name)] * batch.num_rows)
                continue
            column = batch.column(self._names.index(name))
            columns.append(_converted(name, column, declared.type).to_pylist())
        return [shape.make(values) for values in zip(*columns, strict=True)]

    def position(self, taken: int) -> int:
        """Return how many rows of the split are done."""
        return self._row + taken


def _converted(name: str, column: Any, wanted: Any) -> Any:
    if column.type == wanted:
        return column
    arrow = importlib.import_module("pyarrow")
    try:
        return column.cast(wanted)
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
        raise ValueError(f"its column {name!r} is {column.type}, and was declared as {wanted} ({error})") from None


class ArrowWriter:
    """Writes records as columns: kept as records until there are enough for a batch, and then for a group of rows."""

    def __init__(self, format: _ColumnarFormat, file: IO[bytes], shape: RecordShape | None) -> None:
        self._format = format
        self._file = file
        self._shape = shape
        self._schema: Any = None if shape is None else shape.types()
        self._records: list[Any] = []
        self._batches: list[Any] = []
        self._bytes = 0
        self._writer: Any = None

    def write(self, values: list[Any]) -> None:
        """Take a block."""
        self._records += values
        if len(self._records) >= 10_000:
            self._convert()
            if self._bytes >= _GROUP_BYTES:
                self._write_group()

    def _convert(self) -> None:
        arrow = importlib.import_module("pyarrow")
        records, self._records = self._records, []
        try:
            if self._shape is not None:
                columns = zip(*map(self._shape.values, records), strict=True)
                arrays = [arrow.array(list(part), each.type) for part, each in zip(columns, self._schema, strict=True)]
                batch = arrow.RecordBatch.from_arrays(arrays, schema=self._schema)
            else:
                batch = arrow.RecordBatch.from_pylist([as_document(one) for one in records], schema=self._schema)
                self._schema = batch.schema
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"a record does not fit the columns of the file ({error}); declare the record type in "
                f"{type(self._format).__name__}, or make dicts or records with named fields in a map() before the sink"
            ) from error
        self._batches.append(batch)
        self._bytes += batch.nbytes

    def _write_group(self) -> None:
        arrow = importlib.import_module("pyarrow")
        if self._writer is None:
            self._writer = self._format.open_writer(self._file, self._schema)
        batches, self._batches, self._bytes = self._batches, [], 0
        table = arrow.Table.from_batches(batches)
        if hasattr(self._writer, "write_table"):
            self._writer.write_table(table)
        else:
            self._writer.write(table)

    def size(self) -> int:
        """Return the bytes in the file and of the columns that wait."""
        return int(self._file.tell()) + self._bytes

    def flush(self) -> None:
        """Do nothing: a group of rows is written when it is full."""

    def finish(self) -> None:
        """Write what waits, and the end of the file."""
        if self._records:
            self._convert()
        self._write_group()
        self._writer.close()


__all__ = ["OrcFormat", "ParquetFormat"]
