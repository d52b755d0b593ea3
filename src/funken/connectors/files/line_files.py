"""Files with one message per line (JSON lines, CSV without line breaks in fields, ...), read by any schema.

Lines are bytes here; the schema decides what they mean, and a policy about those that it cannot read. A plain file is shared
among the subtasks. On the way out, ``LineEncoder`` writes a line per message, and ``CompressedRows`` compresses any rows.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO, Any

from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.connectors.context import ConnectorContext
from funken.connectors.files.compression import NAMES, compressed, decompressed
from funken.connectors.files.file_format import BulkFormat, BulkWriter, FileFormat, FileSplit, RecordReader
from funken.connectors.files.lines import (
    CHUNK,
    COLUMN_CHUNK,
    MARK,
    Charset,
    RangeLines,
    StreamLines,
    first_lines,
    is_utf_8,
    split_bytes,
)
from funken.connectors.files.part_files import Encoder
from funken.connectors.reading.decoding import Attempts, MalformedRecordPolicy, MessageDecoder
from funken.connectors.schemas import DeserializationSchema, SerializationSchema, check_schema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.expr.types import Type
from funken.types.info import TypeInformation

logger = logging.getLogger(__name__)

_BYTES = Charset("ISO-8859-1")  # each byte is a character, and back
_COLLECTION = "read the file with json.load() and pass the list to from_collection()"


@dataclass(frozen=True)
class LineFormat(FileFormat):
    r"""A message per line, read by a schema; empty lines are no records, and neither is a byte order mark of UTF-8.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from funken import FileSource, StreamExecutionEnvironment
    >>> from funken.connectors import JsonSchema
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "sales.json").write_text('{"n": 1}\n{"n":\n{"n": 3}\n')
    ...     lines = LineFormat(JsonSchema(), MalformedRecordPolicy.SKIP)
    ...     env.from_source(FileSource.for_format(lines, folder).build()).execute_and_collect(limit=9)
    [{'n': 1}, {'n': 3}]
    """

    schema: DeserializationSchema
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL
    splittable = True

    def __post_init__(self) -> None:
        """Check the schema."""
        check_schema(self.schema, DeserializationSchema, "LineFormat")

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read the lines of a range, or of a stream."""
        position, skip = split.position if isinstance(split.position, tuple) else (split.position, 0)
        return DecodedLines(self, _lines(file, split, position, CHUNK), split, context, skip)

    def counts(self, split: FileSplit) -> str:
        """Return what positions count: lines of a stream, bytes of a range."""
        return "line" if split.whole else "byte"

    def record_schema(self, first: Callable[[], IO[bytes]]) -> Type:
        """Return the schema of the records, by the first lines of a file if they are not declared."""
        if type(self.schema).lines_to_columns is DeserializationSchema.lines_to_columns:
            raise NotVectorizable(f"{type(self.schema).__name__} makes no columns")
        if not self.schema.needs_sample:
            return self.schema.record_schema()
        sample = first_lines(first())
        if sample and has_mark(self.schema):
            sample[0] = sample[0].removeprefix(MARK)
        return self.schema.schema_of_sample(sample)

    def column_reader(
        self,
        file: IO[bytes],
        split: FileSplit,
        context: ConnectorContext,
        schema: Type,
        wanted: Sequence[int] | None,
    ) -> RecordReader:
        """Read the same as columns."""
        assert not isinstance(split.position, tuple)  # a schema whose messages hold several records makes no columns
        lines = _lines(file, split, split.position, COLUMN_CHUNK)
        return ColumnLines(self, lines, split, context, self.schema.lines_to_columns(schema, wanted))


def has_mark(schema: DeserializationSchema) -> bool:
    """Return True if a byte order mark of UTF-8 before the messages of a schema is not data."""
    return schema.charset is not None and is_utf_8(schema.charset)


def _lines(file: IO[bytes], split: FileSplit, position: int | None, size: int) -> RangeLines | StreamLines:
    if split.whole:
        return StreamLines(file, position or 0, _BYTES, size)
    return RangeLines(file, split.start, split.end, position, _BYTES, size)


def _remedy(message: bytes) -> str:
    """Say what to do about a line that is an array of objects, or begins a document of several lines."""
    text = message.strip()
    if text not in (b"{", b"[") and not text.startswith(b"[{"):
        return ""
    return f"a line holds one document: write each into a line of its own, or, if the file is one array, {_COLLECTION}"


class DecodedLines:
    """Lines, decoded; positions are those of the lines, so a chunk's records know which line they came of."""

    def __init__(
        self, format: LineFormat, lines: RangeLines | StreamLines, split: FileSplit, context: ConnectorContext, skip: int = 0
    ) -> None:  # fmt: skip
        self._lines = lines
        self._skip = skip  # records of the first line that are done
        self._path = split.file.path
        self._counts_lines = split.whole
        malformed = context.metrics.counter("malformedRecords")
        self._decoder = MessageDecoder(format.schema, format.malformed, malformed, remedy=_remedy)
        self._operator, self._is_first = context.operator, True
        done = split.position[0] if isinstance(split.position, tuple) else split.position
        self._may_begin = split.start == 0 and not done and has_mark(format.schema)
        self._of: list[int] | None = None  # by record, the line
        self._total = 0
        self._dropped = 0  # of the first line in this chunk

    def _next_bytes(self) -> bytes:
        """Return the next lines; at the beginning of the file without its byte order mark, which positions count."""
        data = self._lines.next_bytes()
        if self._may_begin:
            self._may_begin = False
            if data == MARK:
                return b"\n"  # there is nothing else: an empty line
            return data.removeprefix(MARK)
        return data

    def next(self) -> Sequence[Any]:
        """Return the records of the next chunk that has any."""
        while data := self._next_bytes():
            records = self._decode(split_bytes(data))
            if records:
                return records
        return ()

    def _decode(self, lines: list[bytes]) -> list[Any]:
        there: Sequence[int] = range(len(lines))
        if b"" in lines:
            there = [index for index, line in enumerate(lines) if line]
        messages = lines if len(there) == len(lines) else [line for line in lines if line]
        records, taken = self._decoder.decode(messages, lambda index: self._where(there[index]))
        if self._is_first:
            self._is_first = False
            self._warn_of_array(records, there)
        self._total = len(lines)
        if len(there) == len(lines):
            self._of = taken
        else:
            self._of = list(there) if taken is None else [there[index] for index in taken]
        if self._skip:
            skip, self._skip = self._skip, 0
            records = records[skip:]
            self._of = (self._of or list(range(self._total)))[skip:]
            self._dropped = skip
        else:
            self._dropped = 0
        return records

    def _warn_of_array(self, records: list[Any], lines: Sequence[int]) -> None:
        """Warn if the first lines are one, with an array of objects: one record, where many were meant."""
        if len(records) == 1 and isinstance(records[0], list) and records[0] and isinstance(records[0][0], dict):
            logger.warning(
                "operator %r: %s is a line with an array of %d objects, which is one record, a list. If each object is to be a "
                "record, write each into a line of its own, or %s.",
                self._operator, self._where(lines[0]), len(records[0]), _COLLECTION,
            )  # fmt: skip

    def _where(self, line: int) -> str:
        at = self._lines.position(line)
        return f"{self._path} line {at + 1}" if self._counts_lines else f"{self._path} at byte {at}"

    def position(self, taken: int) -> int | tuple[int, int]:
        """Return the position of the line that the next record came of; with how many of it are taken, if it has several."""
        if self._of is None:
            return self._lines.position(taken)
        if taken >= len(self._of):
            return self._lines.position(self._total)
        line = self._of[taken]
        done = taken - self._of.index(line) + (self._dropped if line == self._of[0] else 0)
        return (self._lines.position(line), done) if done else self._lines.position(line)


class ColumnLines(DecodedLines):
    """The same as blocks of columns; records of the chunks that have no such form."""

    def __init__(
        self, format: LineFormat, lines: RangeLines | StreamLines, split: FileSplit, context: ConnectorContext,
        to_columns: Callable[[bytes], Block | None],
    ) -> None:  # fmt: skip
        super().__init__(format, lines, split, context)
        self._to_columns = Attempts(to_columns)

    def next(self) -> Any:
        """Return the records of the next chunk that has any."""
        while data := self._next_bytes():
            block = self._to_columns(data)
            if block is not None:
                self._of = None  # each line is a record
                return block
            records = self._decode(split_bytes(data))
            if records:
                return records
        return ()


@dataclass(frozen=True)
class LineEncoder(Encoder):
    r"""A line per record, written by a schema: JSON lines, CSV.

    >>> from funken.connectors import JsonSchema
    >>> LineEncoder(JsonSchema()).encode([{"n": 1}, {"n": 2}])
    b'{"n": 1}\n{"n": 2}\n'
    """

    schema: SerializationSchema
    first_line: bytes = b""

    def __post_init__(self) -> None:
        """Check the schema."""
        check_schema(self.schema, SerializationSchema, "LineEncoder")

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """Whether the schema takes them."""
        return type(self) is LineEncoder and self.schema.takes_columns

    def encode(self, values: list[Any] | Block) -> bytes:
        """Write lines."""
        found = self.schema.messages_of(values) if isinstance(values, Block) else self.schema.serialize_block(values)
        return b"\n".join(found) + b"\n"

    def header(self) -> bytes:
        """Return the first line, if there is one."""
        return self.first_line and self.first_line + b"\n"


@dataclass(frozen=True)
class CompressedRows(BulkFormat):
    """Files of rows, compressed: ``gzip``, ``bz2``, ``xz`` or ``zstd``; their names end as the compression's do.

    >>> CompressedRows(Encoder.simple_string_encoder(), "zstd").suffix
    '.zst'
    >>> CompressedRows(Encoder.simple_string_encoder(), "zip")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: there is no compression 'zip'; choose one of gzip, bz2, xz, zstd.
    """

    encoder: Encoder
    compression: str

    def __post_init__(self) -> None:
        """Refuse a compression that there is not."""
        if self.compression not in NAMES:
            raise InvalidConfiguration(
                f"there is no compression {self.compression!r}; choose one of {', '.join(NAMES)}."
            )

    @property
    def suffix(self) -> str:  # type: ignore[override]
        """What names end with."""
        return NAMES[self.compression]

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """Whether the encoder takes them."""
        return self.encoder.takes_columns

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Write a new file."""
        return RowWriter(self.encoder, file, compressed(file, self.compression))

    def merge(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        """Put the rows together, and compress them anew."""
        stream = compressed(target, self.compression)
        with contextlib.ExitStack() as opened:
            self.encoder.merge([opened.enter_context(decompressed(each, self.suffix)) for each in sources], stream)
        stream.close()

    def of_type(self, type_info: TypeInformation | None) -> CompressedRows:
        """Let the encoder know the type."""
        return replace(self, encoder=self.encoder.of_type(type_info))


class RowWriter:
    """Writes one record after the other, perhaps into a stream that compresses."""

    def __init__(self, encoder: Encoder, file: IO[bytes], stream: IO[bytes] | None = None) -> None:
        self._encoder = encoder
        self._file = file
        self._stream = stream
        self._header = encoder.header()
        self._size = 0

    def write(self, values: Any) -> None:
        """Write a block at once, of records, or of columns if the encoder takes them."""
        data = self._header + self._encoder.encode(values)
        self._header = b""
        (self._stream or self._file).write(data)
        self._size += len(data)

    def size(self) -> int:
        """Return the bytes that were written; before compression, since what it holds back is not known."""
        return self._size

    def flush(self) -> None:
        """Hand the bytes to the system; a compressed stream ends where it ends."""
        self._file.flush()

    def finish(self) -> None:
        """End the stream."""
        if self._stream is not None:
            self._stream.close()


__all__ = ["CompressedRows", "LineEncoder", "LineFormat", "RowWriter"]
