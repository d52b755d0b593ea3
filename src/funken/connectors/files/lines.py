r"""Lines out of byte streams, with positions from which reading can go on.

A line ends at ``\n`` and nothing else; a ``\r`` before it belongs to the end of the line. The last line of a stream
needs no ``\n``. Two readers agree on every line:

* ``RangeLines`` counts bytes and reads the lines that *start* in a range of a file, so that neighbouring ranges share a
  file without losing or doubling a line. It needs a charset in which the byte 10 is always a line feed.
* ``StreamLines`` counts lines and reads a stream from its beginning: for compressed files and all other charsets.

Both return a chunk's lines at a time and are given how many were taken only when a position is requested: nothing is
done per line but to split. ``StreamFormat`` is the format of files that has lines as its records.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import IO, Any

from funken.columnar.expressions import NotVectorizable
from funken.connectors.context import ConnectorContext
from funken.connectors.files.file_format import FileFormat, FileSplit, RecordReader
from funken.connectors.formats.texts import lines_of_text
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.expr.types import STR, Type

CHUNK = 1 << 18
"""Bytes per read: few calls per line, and yet within the processor's cache (4 MiB cost 40 %)."""
COLUMN_CHUNK = 1 << 20
"""Bytes per read of what becomes columns: calling Arrow costs as much as 500 lines of CSV (benchmarks/text_columns.py)."""
_SAMPLE_BYTES, _SAMPLE_LINES = 1 << 18, 1000


MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which a file may have before its data."""


def is_utf_8(charset: str) -> bool:
    """Whether a charset is UTF-8, by any of its names.

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
    """How bytes are text: a codec, and Python's name for what to do with bytes that do not fit."""

    name: str = "UTF-8"
    errors: str = "strict"


@lru_cache
def newline_is_a_byte(charset: str) -> bool:
    """Return whether in ``charset`` the byte 10 always means line feed.

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
    r"""Return how many lines a chunk has; the last one needs no line feed.

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
    """How a file becomes records: its lines as ``str``, without their ends.

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
        """Whether a line feed is a byte, so that ranges of bytes can be read."""
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
        """Return what positions count: lines of a stream, bytes of a range.

        >>> from funken.io.filesystem import FileStatus
        >>> StreamFormat().counts(FileSplit("/in", FileStatus("/in/a.txt", 14, 0), 0, 14))
        'byte'
        """
        return "line" if split.whole else "byte"

    def record_schema(self, first: Callable[[], IO[bytes]]) -> Type:
        """Return the kind of texts; raise ``NotVectorizable`` for other charsets than UTF-8, and other ways with errors.

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
    """Lines as blocks of columns; what is not text is found by the lines themselves."""

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
