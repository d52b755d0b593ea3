"""Files with one message per line (JSON lines, CSV without line breaks in fields, ...), read by any schema.

Lines are bytes here; the schema decides what they mean, and a policy about those that it cannot read. A plain file is shared
among the subtasks. On the way out, ``LineEncoder`` writes a line per message, and ``CompressedRows`` compresses any rows.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import IO, Any

from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import ConnectorContext
from funken.connectors.files.file_format import (
    NAMES,
    BulkFormat,
    BulkWriter,
    FileFormat,
    FileSplit,
    RecordReader,
    compressed,
    decompressed,
)
from funken.connectors.files.part_files import Encoder
from funken.connectors.formats.texts import lines_of_text
from funken.connectors.reading import Attempts, MalformedRecordPolicy, MessageDecoder
from funken.connectors.schemas import DeserializationSchema, SerializationSchema, check_schema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.expr.types import STR, Type
from funken.types.info import TypeInformation

# ---- Lines out of byte streams, with positions from which reading can go on.
#
# A line ends at ``\n`` and nothing else; a ``\r`` before it belongs to the end of the line. The last line of a
# stream needs no ``\n``. Two readers agree on every line:
#
# * ``RangeLines`` counts bytes and reads the lines that *start* in a range of a file, so that neighbouring ranges share a
#   file without losing or doubling a line. It needs a charset in which the byte 10 is always a line feed.
# * ``StreamLines`` counts lines and reads a stream from its beginning: for compressed files and all other charsets.
#
# Both return a chunk's lines at a time and are given how many were taken only when a position is requested: nothing
# is done per line but to split. ``StreamFormat`` is the format of files that has lines as its records.


CHUNK = 1 << 18
"""Bytes per read: few calls per line, and yet within the processor's cache (4 MiB cost 40 %)."""
COLUMN_CHUNK = 1 << 20
"""Bytes per read of text for columns: calling Arrow costs as much as 500 lines of CSV (benchmarks/text_columns.py)."""
_SAMPLE_BYTES, _SAMPLE_LINES = 1 << 18, 1000


MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which a file may have before its data."""


def is_utf_8(charset: str) -> bool:
    """Return True if a charset is UTF-8, by any of its names.

    >>> is_utf_8("utf8"), is_utf_8("utf-8-sig")
    (True, False)
    """
    return codecs.lookup(charset).name == "utf-8"


class BadBytes(ValueError):
    """Bytes that are not text in the expected charset."""

    def __init__(self, offset: int, error: UnicodeDecodeError) -> None:
        bad = error.object[error.start : error.end][:8].hex(" ")
        super().__init__(f"the bytes {bad} at offset {offset} are not {error.encoding} ({error.reason})")
        self.offset = offset


@dataclass(frozen=True)
class Charset:
    """A charset: a codec, and Python's name for the treatment of bytes that do not fit."""

    name: str = "UTF-8"
    errors: str = "strict"


@lru_cache
def newline_is_a_byte(charset: str) -> bool:
    """Return True if in ``charset`` the byte 10 always means line feed.

    >>> [newline_is_a_byte(name) for name in ("UTF-8", "ISO-8859-1", "windows-1252", "UTF-16", "gb18030", "cp037")]
    [True, True, True, False, False, False]
    """
    if is_utf_8(charset):
        return True
    if "\u4e00".encode(charset, "ignore"):  # a charset of more than 256 characters, perhaps with states
        return False
    characters = bytes(range(256)).decode(charset, "replace")
    return len(characters) == 256 and characters.find("\n") == characters.rfind("\n") == 10


class RangeLines:
    """The lines that start in ``[start, end)`` of a seekable file; from ``position`` on, if it was read before."""

    def __init__(
        self, file: IO[bytes], start: int, end: int, position: int | None, charset: Charset, size: int = CHUNK
    ) -> None:
        self._file = file
        self._end = end
        self._charset = charset
        self._read_size = size
        self._chunk = b""
        self._count: int | None = 0  # lines of the chunk, if they are counted
        self._rest = b""
        self._at = start if position is None else position  # of the chunk in the file
        if position is None and start > 0:
            self._skip_begun_line()
        else:
            file.seek(self._at)

    def _skip_begun_line(self) -> None:
        """Leave the line that began before ``start`` to the range before; a line may begin at ``start`` itself."""
        self._at -= 1
        self._file.seek(self._at)
        while self._at < self._end and (more := self._file.read(self._read_size)):
            line_end = more.find(b"\n") + 1
            if line_end:
                self._at += line_end
                self._rest = more[line_end:]
                return
            self._at += len(more)
        self._at = self._end

    def next(self) -> list[str]:
        """Return the lines of the next chunk; none at the end."""
        chunk = self.next_bytes()
        return self.decoded(chunk) if chunk else []

    def decoded(self, chunk: bytes) -> list[str]:
        """Return the lines of the chunk that was read last; raise ``BadBytes`` if it is no text."""
        try:
            return _split(chunk.decode(self._charset.name, self._charset.errors))
        except UnicodeDecodeError as error:
            raise BadBytes(self._at + error.start, error) from error

    def next_bytes(self) -> bytes:
        """Return the next chunk as it is in the file: whole lines; no byte at the end."""
        self._at += len(self._chunk)
        self._chunk = b"" if self._at >= self._end else self._whole_lines()
        self._count = None
        return self._chunk

    def _whole_lines(self) -> bytes:
        chunk, self._rest = self._rest, b""
        size = min(self._read_size, max(CHUNK, self._end - self._at))  # little of what is beyond the end
        while more := self._file.read(size):
            cut = more.rfind(b"\n") + 1
            if cut:
                chunk = b"".join((chunk, memoryview(more)[:cut]))
                self._rest = more[cut:]
                break
            chunk += more
            size *= 2  # a line longer than a chunk is not copied again and again
        if self._at + len(chunk) > self._end:
            cut = chunk.find(b"\n", self._end - 1 - self._at) + 1
            return chunk[:cut] if cut else chunk
        return chunk

    def position(self, taken: int) -> int:
        """Return the offset of the line after ``taken`` lines of the chunk."""
        if self._count is None:
            self._count = count_lines(self._chunk)
        ahead = len(self._chunk.split(b"\n", taken)[-1]) if taken < self._count else 0
        return self._at + len(self._chunk) - ahead


class StreamLines:
    """The lines of a stream, but for the first ``position`` of them."""

    def __init__(self, file: IO[bytes], position: int, charset: Charset, size: int = CHUNK) -> None:
        self._file = file
        self._read_size = size
        self._charset = charset
        self._decoder = codecs.getincrementaldecoder(charset.name)(charset.errors)
        self._bytes = 0  # decoded, or held back by the decoder
        self._rest = ""
        self._skip = position
        self._at = 0  # number of the chunk's first line
        self._size = 0  # lines of the chunk

    def next(self) -> list[str]:
        """Return the lines of the next chunk; none at the end."""
        return _split(self._next_text())

    def next_bytes(self) -> bytes:
        """Return the next chunk as bytes of the charset: whole lines; no byte at the end."""
        return self._next_text().encode(self._charset.name)

    def decoded(self, chunk: bytes) -> list[str]:
        """Return the lines of a chunk."""
        return _split(chunk.decode(self._charset.name))

    def _next_text(self) -> str:
        while True:
            self._at += self._size
            text = self._whole_lines()
            self._size = count_lines(text)
            if not text or self._at + self._size > self._skip:
                break
        dropped = max(0, min(self._skip - self._at, self._size))
        self._at += dropped
        self._size -= dropped
        return text.split("\n", dropped)[-1] if dropped else text

    def _whole_lines(self) -> str:
        text, self._rest = self._rest, ""
        size = self._read_size
        while more := self._file.read(size):
            decoded = self._decode(more)
            cut = decoded.rfind("\n") + 1
            if cut:
                self._rest = decoded[cut:]
                return text + decoded[:cut]
            text += decoded
            size *= 2
        return text + self._decode(b"")

    def _decode(self, more: bytes) -> str:
        held = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(more, final=not more)
        except UnicodeDecodeError as error:
            raise BadBytes(self._bytes - held + error.start, error) from error
        self._bytes += len(more)
        return text

    def position(self, taken: int) -> int:
        """Return the number of lines read and taken."""
        return max(self._skip, self._at + taken)


def count_lines(chunk: bytes | str) -> int:
    r"""Return the number of lines of a chunk; the last one needs no line feed.

    >>> count_lines(b"to be\n\nor"), count_lines("to be\n"), count_lines("")
    (3, 1, 0)
    """
    if isinstance(chunk, str):
        return chunk.count("\n") + (not chunk.endswith("\n") if chunk else 0)
    return chunk.count(b"\n") + (not chunk.endswith(b"\n") if chunk else 0)


def first_lines(file: IO[bytes]) -> list[bytes]:
    """Return the first lines of a file, as far as they are whole."""
    data = file.read(_SAMPLE_BYTES)
    lines = split_bytes(data if len(data) < _SAMPLE_BYTES else data[: data.rfind(b"\n") + 1]) if data else []
    return [line for line in lines if line][:_SAMPLE_LINES]


def split_bytes(data: bytes) -> list[bytes]:
    """Return the lines of bytes that are whole lines."""
    lines = (data.replace(b"\r\n", b"\n") if b"\r" in data else data).split(b"\n")
    if not lines[-1]:
        lines.pop()  # the data ended with a line feed
    return lines


def _split(text: str) -> list[str]:
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()  # the text ended with a line feed
    return lines


@dataclass(frozen=True)
class StreamFormat(Charset, FileFormat):
    """A format that reads the lines of a file as ``str``, without their ends.

    Raises ``InvalidConfiguration`` for a charset or a way with errors that Python does not know.

    >>> StreamFormat.text_line_format(errors="replace")
    StreamFormat(name='UTF-8', errors='replace')
    >>> StreamFormat.text_line_format().splittable, StreamFormat.text_line_format("utf-16").splittable
    (True, False)
    >>> StreamFormat.text_line_format("utf-9")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: unknown encoding: utf-9; give a text charset of Python, e.g. 'UTF-8',
    'ISO-8859-1'.
    """

    def __post_init__(self) -> None:
        """Refuse names that Python does not know, before the job runs."""
        try:
            newline_is_a_byte(self.name)
            codecs.lookup_error(self.errors)
        except LookupError as error:
            raise InvalidConfiguration(f"{error}; give a text charset of Python, e.g. 'UTF-8', 'ISO-8859-1'.") from None

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8", errors: str = "strict") -> StreamFormat:
        """Read lines; bytes that are not text fail the job unless ``errors`` is ``"replace"``, ``"ignore"``...

        A byte order mark is part of the first line, as in Flink; ``"utf-8-sig"`` removes it.

        >>> StreamFormat.text_line_format("ISO-8859-1")
        StreamFormat(name='ISO-8859-1', errors='strict')
        """
        return StreamFormat(charset_name, errors)

    @property
    def splittable(self) -> bool:  # type: ignore[override]
        """True if a line feed is a byte, so that ranges of bytes can be read."""
        return newline_is_a_byte(self.name)

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        r"""Read lines.

        >>> import io
        >>> from funken.io.filesystem import FileStatus
        >>> split = FileSplit("/in", FileStatus("/in/a.txt", 14, 0), 0, 14, whole=True)
        >>> list(StreamFormat().reader(io.BytesIO(b"to be\nor not\n"), split, ConnectorContext("lines", 0, 1)).next())
        ['to be', 'or not']
        """
        assert not isinstance(split.position, tuple)
        return _reading(file, split, self, CHUNK)

    def counts(self, split: FileSplit) -> str:
        """Return the name of positions: lines of a stream, bytes of a range.

        >>> from funken.io.filesystem import FileStatus
        >>> StreamFormat().counts(FileSplit("/in", FileStatus("/in/a.txt", 14, 0), 0, 14))
        'byte'
        """
        return "line" if split.whole else "byte"

    def record_schema(self, first: Callable[[], IO[bytes]]) -> Type:
        """Return the type of texts; raise ``NotVectorizable`` for charsets other than UTF-8, or other error handling.

        >>> StreamFormat.text_line_format().record_schema(first=lambda: open("never opened", "rb"))
        str
        """
        if type(self) is not StreamFormat or not is_utf_8(self.name) or self.errors != "strict":
            raise NotVectorizable(f"reads text by {self!r}")
        return STR

    def column_reader(
        self, file: IO[bytes], split: FileSplit, context: ConnectorContext, schema: Type, wanted: Sequence[int] | None
    ) -> RecordReader:  # fmt: skip
        r"""Read the same as columns of texts.

        >>> import io
        >>> from funken.io.filesystem import FileStatus
        >>> split = FileSplit("/in", FileStatus("/in/a.txt", 14, 0), 0, 14)
        >>> file, context = io.BytesIO(b"to be\nor not\n"), ConnectorContext("lines", 0, 1)
        >>> StreamFormat().column_reader(file, split, context, STR, None).next().to_list()
        ['to be', 'or not']
        """
        assert not isinstance(split.position, tuple)
        return TextLines(_reading(file, split, self, COLUMN_CHUNK))


def _reading(file: IO[bytes], split: FileSplit, charset: Charset, size: int) -> RangeLines | StreamLines:
    assert not isinstance(split.position, tuple)
    if split.whole:
        return StreamLines(file, split.position or 0, charset, size)
    return RangeLines(file, split.start, split.end, split.position, charset, size)


class TextLines:
    """Lines as blocks of columns; the lines themselves show bytes that are no text."""

    def __init__(self, lines: RangeLines | StreamLines) -> None:
        self._lines = lines
        self.position = lines.position

    def next(self) -> Any:
        """Return the lines of the next chunk; none at the end."""
        data = self._lines.next_bytes()
        if not data:
            return ()
        found = lines_of_text(data)
        return self._lines.decoded(data) if found is None else found


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
    keeps_empty_lines: bool = False
    """True if empty lines are messages."""
    splittable = True

    def __post_init__(self) -> None:
        """Check the schema."""
        check_schema(self.schema, DeserializationSchema, "LineFormat")

    @property
    def makes_blocks(self) -> bool:  # type: ignore[override]
        """Return True if the schema makes blocks."""
        return self.schema.makes_blocks

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read the lines of a range, or of a stream."""
        position, skip = split.position if isinstance(split.position, tuple) else (split.position, 0)
        if self.makes_blocks and not skip:
            lines = _lines(file, split, position, COLUMN_CHUNK)
            return ColumnLines(self, lines, split, context, self.schema.lines_to_blocks())
        return DecodedLines(self, _lines(file, split, position, CHUNK), split, context, skip)

    def counts(self, split: FileSplit) -> str:
        """Return the name of positions: lines of a stream, bytes of a range."""
        return "line" if split.whole else "byte"

    def record_schema(self, first: Callable[[], IO[bytes]]) -> Type:
        """Return the schema of the records, by the first lines of a file if they are not declared."""
        if type(self.schema).lines_to_columns is DeserializationSchema.lines_to_columns:
            raise NotVectorizable(f"{type(self.schema).__name__} produces no columns")
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
        assert not isinstance(split.position, tuple)  # a schema whose messages hold several records produces no columns
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
    """Return the remedy for a line that is an array of objects, or begins a document of several lines."""
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
        self._keeps_empty_lines = format.keeps_empty_lines
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
        if b"" in lines and not self._keeps_empty_lines:
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
        """Return the position of the next record's line; with the records taken of it, if it has several."""
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
        """True if the schema takes columns."""
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
        """The end of the names of files."""
        return NAMES[self.compression]

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """True if the encoder takes columns."""
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
        """Return the number of written bytes; before compression, since the bytes it holds back are not known."""
        return self._size

    def flush(self) -> None:
        """Hand the bytes to the system; a compressed stream ends where it ends."""
        self._file.flush()

    def finish(self) -> None:
        """End the stream."""
        if self._stream is not None:
            self._stream.close()
