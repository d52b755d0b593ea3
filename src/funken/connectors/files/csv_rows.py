"""Rows of delimited text out of bytes: without a byte order mark, and with a ``NoRow`` in the place of what is no row.

That is a record with a quote within a field, or with bytes that are no text in the charset: a malformed message.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

from funken.connectors.files.lines import MARK, is_utf_8
from funken.connectors.formats.csv_schema import CsvSchema
from funken.connectors.schemas import DeserializationSchema

_UNDECODED = re.compile("[\udc80-\udcff]")


class CsvRow(DeserializationSchema):
    """What makes records of rows, as the decoder wants it; its name is in the errors."""

    def __init__(self, record: Callable[[Sequence[str]], Any], charset: str) -> None:
        self._record, self._charset = record, charset

    def deserialize(self, message: Any) -> Any:
        """Make a record of the fields of a row; raises ``ValueError`` for a ``NoRow``."""
        if type(message) is NoRow:
            raise message.error
        return self._record(message)

    def deserialize_block(self, messages: Sequence[Any]) -> list[Any]:
        """Make records of rows."""
        if NoRow in map(type, messages):
            raise ValueError("one of them is no row")
        return list(map(self._record, messages))


class NoRow(list[str]):
    """The text of what is no row, and the error that says why; lists of text are rows."""

    def __init__(self, text: str, error: ValueError) -> None:
        super().__init__([text])
        self.error = error


class _Kept:
    """Lines, of which those of the current row are kept."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.row: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.row.append(line)
        return line


def rows_of_lines(schema: CsvSchema, lines: Iterable[str]) -> Iterator[list[str]]:
    r"""Yield the rows of lines; what is none as ``NoRow``. Bytes that are no text are in the lines as surrogates.

    >>> from funken import Types
    >>> schema = CsvSchema(Types.TUPLE([Types.STRING()]))
    >>> list(rows_of_lines(schema, ["tea\n", '"jam"s\n', "rye\n"]))
    [['tea'], ['"jam"s\n'], ['rye']]
    """
    kept = _Kept(lines)
    rows = schema.rows(kept)
    while True:
        kept.row.clear()
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            text = "".join(kept.row)
            why = ValueError(f"it is no CSV ({error}); correct delimiter, quote and escape of the schema")
            row = NoRow(text, _undecoded(text, schema.charset) or why)
        else:
            # Hot: most lines are ASCII, and that takes 30 ns to see.
            if not all(map(str.isascii, kept.row)):
                text = "".join(kept.row)
                wrong = _undecoded(text, schema.charset)
                row = row if wrong is None else NoRow(text, wrong)
        yield row


def _undecoded(text: str, charset: str) -> ValueError | None:
    """Return the error of bytes that are no text; ``None`` if all are."""
    found = _UNDECODED.search(text)
    if found is None:
        return None
    return ValueError(f"the byte {ord(found[0]) - 0xDC00:02x} in it is not {charset}; name the charset of the file")


def text_of(data: bytes) -> io.StringIO:
    """Return bytes of UTF-8 as lines; those that are no text as surrogates."""
    return io.StringIO(data.decode(errors="surrogateescape"), newline="")


def without_mark(file: IO[bytes] | Joined, charset: str) -> IO[bytes] | Joined:
    """Return a file without the byte order mark that it may begin with."""
    if not is_utf_8(charset):
        return file
    begin = b""
    while len(begin) < len(MARK) and (more := file.read(len(MARK) - len(begin))):
        begin += more
    return file if begin == MARK else Joined(begin, file)


class Joined:
    """Bytes that were read already, and then the rest of a file."""

    def __init__(self, begin: bytes, file: IO[bytes] | Joined) -> None:
        self._begin = begin
        self._file = file

    def read(self, size: int) -> bytes:
        """Return the next bytes, so many at most."""
        if not self._begin:
            return self._file.read(size)
        data, self._begin = self._begin[:size], self._begin[size:]
        return data


class Raw(io.RawIOBase):
    """Any file, as Python's buffers want it: those of Arrow and of decompressors know less."""

    def __init__(self, file: IO[bytes] | Joined) -> None:
        self._file = file

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


__all__ = ["CsvRow", "Joined", "NoRow", "Raw", "rows_of_lines", "text_of", "without_mark"]
