"""Avro's container files: they carry their schema, and a marker between blocks, so that several subtasks can share one.

A block belongs to the range of bytes that the marker before it begins in; ``fastavro`` reads from there.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import ConnectorContext
from funken.connectors.files.file_format import BulkFormat, BulkWriter, FileFormat, FileSplit, RecordReader
from funken.connectors.formats.avro_schema import (
    AvroColumns,
    avro_of,
    avro_record_schema,
    avro_shape,
    document_maker,
    fastavro,
    own_defaults,
    parsed,
    readable,
    writer_of,
)
from funken.connectors.formats.record_types import as_document, from_documents, shape_of
from funken.connectors.reading import Attempts
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.expr.types import Type
from funken.types.info import RowTypeInfo, TypeInformation

_SEARCHED = 1 << 16


@dataclass(frozen=True)
class AvroFormat(FileFormat, BulkFormat):
    """Avro files, for sources and sinks; records are dicts, or of ``record_type``.

    ``schema`` (JSON) is what records are read as, by Avro's rules for schemas that changed, and written with; without it, they
    are read as they were written, and written with a schema made of the record type. ``codec`` is for sinks: ``null``,
    ``deflate`` (default), ``bzip2``, ``xz``, or those that packages add to ``fastavro`` (``snappy``, ``zstandard``).

    >>> import tempfile
    >>> from typing import NamedTuple
    >>> from funken import BucketAssigner, FileSink, FileSource
    >>> from funken.testing import local
    >>> class Sale(NamedTuple):
    ...     item: str
    ...     n: int
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sales = local([Sale("tea", 3), Sale("jam", 1)])
    ...     sink = FileSink.for_bulk_format(folder, AvroFormat(record_type=Sale))
    ...     _ = sales.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    ...     env = sales.get_execution_environment()
    ...     _ = env.execute()
    ...     env.from_source(FileSource.for_format(AvroFormat(), folder).build()).execute_and_collect(limit=9)
    [{'item': 'tea', 'n': 3}, {'item': 'jam', 'n': 1}]
    """

    schema: str | None = None
    record_type: Any = None
    codec: str = "deflate"

    splittable = True
    container = True
    suffix = ".avro"

    def __post_init__(self) -> None:
        """Refuse objects that are no schema or record type, before the job runs."""
        fastavro()
        if self.schema is not None:
            parsed(self.schema)
        if self.record_type is not None:
            shape_of(self.record_type, "AvroFormat")

    def of_type(self, type_info: TypeInformation | None) -> AvroFormat:
        """Write the declared type, unless the format has one of its own."""
        if self.record_type is None and self.schema is None and isinstance(type_info, RowTypeInfo):
            return replace(self, record_type=type_info)
        return self

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read the blocks that begin in a range."""
        assert not isinstance(split.position, tuple)
        return AvroRecords(self, file, split, split.position or 0)

    def record_schema(self, first: Callable[[], IO[bytes]]) -> Type:
        """Return the schema of the records: that of ``schema``, or that of a file's writer."""
        if self.schema is not None:
            return avro_record_schema(parsed(self.schema), self.record_type, "AvroFormat")
        with first() as file:
            try:
                written = fastavro().reader(file).writer_schema
            except (EOFError, ValueError, KeyError) as error:
                raise NotVectorizable(f"a file is not of Avro ({type(error).__name__})") from error
        return avro_record_schema(written, self.record_type, "AvroFormat")

    def column_reader(
        self, file: IO[bytes], split: FileSplit, context: ConnectorContext, schema: Type,
        wanted: Sequence[int] | None,
    ) -> RecordReader:  # fmt: skip
        """Read the same as columns."""
        assert not isinstance(split.position, tuple)
        columns = AvroColumns(
            schema, wanted, None if self.record_type is None else shape_of(self.record_type, "AvroFormat")
        )
        return AvroRecords(self, file, split, split.position or 0, columns)

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Write a new file."""
        if self.schema is None and self.record_type is None:
            raise InvalidConfiguration("AvroFormat writes files with a schema; pass schema or record_type.")
        return AvroWriter(self, file)

    def merge(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        """Write the blocks of files one after the other."""
        read, write = importlib.import_module("fastavro"), importlib.import_module("fastavro.write")
        writer: Any = None
        for source in sources:
            blocks = read.block_reader(source)
            if writer is None:
                writer = write.Writer(target, blocks.writer_schema, self.codec)
            for block in blocks:
                writer.write_block(block)
        writer.flush()


class AvroRecords:
    """The records of one split; positions count them."""

    def __init__(
        self, format: AvroFormat, file: IO[bytes], split: FileSplit, done: int, columns: AvroColumns | None = None
    ) -> None:
        self._to_columns = None if columns is None else Attempts(columns.of_documents)
        self._make = (
            None if format.record_type is None else from_documents(avro_shape(format.record_type, "AvroFormat"))
        )
        schema = None if format.schema is None else readable(parsed(format.schema))
        self._own = None if schema is None else own_defaults(schema)
        self._blocks = _blocks(file, split, schema)
        self._row = 0
        self._size = 0
        self._done = done

    def next(self) -> Any:
        """Return the records of the next block, as columns if they are wanted and have that form."""
        self._row += self._size
        self._size = 0
        for block in self._blocks:
            if self._row + block.num_records <= self._done:  # it is skipped as it is, not decoded
                self._row += block.num_records
                continue
            records = list(block) if self._own is None else list(map(self._own, block))
            if self._done > self._row:
                records = records[self._done - self._row :]
                self._row = self._done
            self._size = len(records)
            if self._to_columns is not None and (made := self._to_columns(records)) is not None:
                return made
            return records if self._make is None else list(map(self._make, records))
        return ()

    def position(self, taken: int) -> int:
        """Return the number of finished records of the split."""
        return max(self._done, self._row + taken)


def _blocks(file: IO[bytes], split: FileSplit, schema: Any) -> Iterator[Any]:
    """Yield the blocks of a split; the error of a damaged one is ``ValueError``."""
    schemas = importlib.import_module("fastavro.schema")
    try:
        blocks = fastavro().block_reader(file, schema)
        marker = bytes(blocks._header["sync"])
        begin = file.tell() - len(marker)  # of the marker that ends the header
        if split.start > begin:
            begin = _find(file, marker, split.start, split.end)
            if begin < 0:
                return
            file.seek(begin + len(marker))
        for block in blocks:
            if block.offset - len(marker) >= split.end:
                return
            yield block
    except (EOFError, StopIteration, KeyError, TypeError, schemas.SchemaParseException) as error:
        raise ValueError(f"it is no whole file of Avro ({type(error).__name__}: {error})") from error


def _find(file: IO[bytes], marker: bytes, start: int, end: int) -> int:
    """Return the place of the first marker in a range; -1 if there is none."""
    file.seek(start)
    at, rest = start, b""
    while at < end and (more := file.read(_SEARCHED)):
        data = rest + more
        found = data.find(marker)
        if found >= 0:
            begin = at - len(rest) + found
            return begin if begin < end else -1
        at += len(more)
        rest = data[-(len(marker) - 1) :]
    return -1


class AvroWriter:
    """Writes records as they come; ``fastavro`` keeps those of a block."""

    def __init__(self, format: AvroFormat, file: IO[bytes]) -> None:
        text = format.schema or json.dumps(avro_of(format.record_type))
        self._file = file
        self._document: Callable[[Any], Any] = as_document
        if format.record_type is not None:
            self._document = document_maker(avro_shape(format.record_type, "AvroFormat"))
        self._convert = writer_of(parsed(text))
        write = importlib.import_module("fastavro.write")
        try:
            self._writer = write.Writer(file, parsed(text), format.codec)
        except (ValueError, ImportError) as error:
            raise InvalidConfiguration(
                f"AvroFormat: codec {format.codec!r}: {error}; choose deflate or null."
            ) from None

    def write(self, values: list[Any]) -> None:
        """Write a block of records."""
        write, document, convert = self._writer.write, self._document, self._convert
        try:
            for value in values:
                write(convert(document(value)))
        except (TypeError, AttributeError, KeyError, ValueError, OverflowError) as error:
            raise ValueError(
                f"a record does not fit the schema ({type(error).__name__}: {error}); correct either"
            ) from error

    def size(self) -> int:
        """Return the bytes that are in the file."""
        return int(self._file.tell())

    def flush(self) -> None:
        """Do nothing: blocks are written when they are full."""

    def finish(self) -> None:
        """Write the last block."""
        self._writer.flush()
