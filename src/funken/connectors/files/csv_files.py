r"""Files of delimited text, with or without a header, and what their columns might be.

A quoted field may have line breaks in it, so where a record begins is only known from the beginning of a file: one subtask reads
a file. Where no field has any, ``LineFormat(CsvSchema(...))`` shares large files among the subtasks.

A byte order mark of UTF-8 at the beginning of a file is no data. What is not text in the charset, or no row (a quote within a
field), is a malformed message: the policy decides about it.
"""

from __future__ import annotations

import csv
import io
import itertools
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any

from funken.columnar.block import Block
from funken.connectors.base import ConnectorContext
from funken.connectors.files.file_format import (
    FileFormat,
    FileSplit,
    RawFile,
    RecordReader,
    compression_of,
    decompressed,
)
from funken.connectors.files.line_files import COLUMN_CHUNK, MARK, LineEncoder, is_utf_8
from funken.connectors.formats.csv_schema import CsvSchema, Delimiters, HeaderNames
from funken.connectors.reading import Attempts, MalformedRecordPolicy, MessageDecoder
from funken.connectors.schemas import DeserializationSchema
from funken.dataclass import dataclass
from funken.errors import SourceNotReadable
from funken.expr.types import Type
from funken.io.filesystem import absolute, locate
from funken.types.callables import Generic, S, T_co
from funken.types.info import Types

logger = logging.getLogger(__name__)

_CHUNK = 4096
_UNDECODED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class CsvReaderFormat(FileFormat[T_co], Generic[T_co]):
    r"""Files of delimited text; with a ``header`` columns are found by their names, and those not in the schema are dropped.

    ``names`` says so if the names in the header mean something else: ``HeaderNames.IGNORE`` or ``MATCH``.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from funken import FileSource, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> schema = CsvSchema(Types.ROW_NAMED(["n", "item"], [Types.INT(), Types.STRING()]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "sales.csv").write_text('id,item,n\r\n7,"black\ntea",3\r\n')
    ...     csv_format = CsvReaderFormat.for_schema(schema, header=True)
    ...     env.from_source(FileSource.for_format(csv_format, folder).build()).execute_and_collect(limit=9)
    [Row(n=3, item='black\ntea')]
    """

    schema: CsvSchema[T_co]
    header: bool = False
    malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL
    skip_first_row: bool = False
    """True if the first row of every file, after its header, is no record."""
    names: HeaderNames = HeaderNames.FIND

    @staticmethod
    def for_schema(
        schema: CsvSchema[S],
        header: bool = False,
        malformed: MalformedRecordPolicy = MalformedRecordPolicy.FAIL,
        skip_first_row: bool = False,
        names: HeaderNames = HeaderNames.FIND,
    ) -> CsvReaderFormat[S]:
        """Read files of this schema."""
        return CsvReaderFormat(schema, header, malformed, skip_first_row, names)

    def encoder(self) -> LineEncoder:
        r"""Return the encoder of such files, for ``FileSink.for_row_format``.

        >>> CsvReaderFormat(CsvSchema(Types.ROW_NAMED(["n"], [Types.INT()])), header=True).encoder().header()
        b'n\n'
        """
        names = CsvSchema(
            Types.TUPLE([Types.STRING()] * len(self.schema.names)), self.schema.delimiter, self.schema.quote
        )
        return LineEncoder(self.schema, names.serialize(self.schema.names) if self.header else b"")

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read a file."""
        return CsvRecords(self, file, split, context)

    def counts(self, split: FileSplit) -> str:
        """Return the name of positions."""
        return "row"

    def record_schema(self, first: Callable[[], IO[bytes]]) -> Type:
        """Return the schema of the records; no file is looked into."""
        return self.schema.record_schema()

    def column_reader(
        self,
        file: IO[bytes],
        split: FileSplit,
        context: ConnectorContext,
        schema: Type,
        wanted: Sequence[int] | None,
    ) -> RecordReader:
        """Read the same as columns."""
        return CsvColumnRecords(self, file, split, context, schema, wanted)


class CsvRecords:
    """The records of one file; positions count the rows."""

    def __init__(self, format: CsvReaderFormat, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> None:
        assert not isinstance(split.position, tuple)
        self._format = format
        self._path = split.file.path
        self._malformed = context.metrics.counter("malformedRecords")
        self._row = 0  # number of the chunk's first row
        self._size = 0
        self._of: Sequence[int] = ()
        self._begin(without_mark(file, format.schema.charset), split.position or 0)

    def _begin(self, file: IO[bytes] | Joined, done: int) -> None:
        """Start with the header, and go on after the rows that are done."""
        self._rows = self._rows_of(file)
        names = None
        if self._format.header:
            names = next((row for row in self._rows if row), None)
            if isinstance(names, NoRow):
                raise names.error
        self._decode_as(self._columns_of(names))
        if self._format.skip_first_row:
            next((row for row in self._rows if row), None)
        self._skip(done)

    def _rows_of(self, file: IO[bytes] | Joined) -> Iterator[list[str]]:
        charset = self._format.schema.charset
        text = io.TextIOWrapper(io.BufferedReader(RawFile(file)), charset, "surrogateescape", newline="")
        return rows_of_lines(self._format.schema, text)

    def _columns_of(self, header: list[str] | None) -> list[str] | None:
        """Return the columns of a file by its header (``None``: there is none); ``None``: those that were declared."""
        if header is None or self._format.names is HeaderNames.IGNORE:
            return None
        declared = self._format.schema.names
        if self._format.names is HeaderNames.MATCH:
            if tuple(header) != declared:
                raise ValueError(
                    f"its header is {', '.join(map(repr, header))}, and not {', '.join(map(repr, declared))}"
                )
            return None
        return header

    def _decode_as(self, names: list[str] | None) -> None:
        """Make records of rows with columns of these names (``None``: those that were declared)."""
        schema = self._format.schema
        record: Callable[[Sequence[str]], Any] = schema.record
        if names is not None:
            record = schema.of_columns(names)
        delimiter, charset = schema.delimiter, schema.charset
        self._decoder = MessageDecoder(
            CsvRow(record, charset), self._format.malformed, self._malformed,
            lambda row: delimiter.join(row).encode(charset, "surrogateescape"), lambda _: schema.malformed_remedy,
        )  # fmt: skip

    def _skip(self, rows: int) -> None:
        for _ in itertools.islice(self._rows, rows):
            pass
        self._row += rows

    def next(self) -> Sequence[Any]:
        """Return the records of the next rows."""
        while True:
            self._row += self._size
            rows = list(itertools.islice(self._rows, _CHUNK))
            self._size = len(rows)
            if not rows:
                return ()
            records = self._decode(rows)
            if records:
                return records

    def _decode(self, rows: list[list[str]]) -> list[Any]:
        there = [index for index, row in enumerate(rows) if row]
        records, taken = self._decoder.decode(
            rows if len(there) == len(rows) else [rows[index] for index in there],
            lambda index: f"{self._path} row {self._row + there[index] + 1}",
        )
        self._of = there if taken is None else [there[index] for index in taken]
        return records

    def position(self, taken: int) -> int:
        """Return the number of finished rows."""
        return self._row + (self._of[taken] if taken < len(self._of) else self._size)


class CsvColumnRecords(CsvRecords):
    """The same as blocks of columns, of pieces that end where a record does; from a doubtful quote on, rows."""

    def __init__(
        self, format: CsvReaderFormat, file: IO[bytes], split: FileSplit, context: ConnectorContext, schema: Type,
        wanted: Sequence[int] | None,
    ) -> None:  # fmt: skip
        self._columns = schema, wanted
        super().__init__(format, file, split, context)

    def _begin(self, file: IO[bytes] | Joined, done: int) -> None:
        self._file: IO[bytes] | Joined = file
        self._rest, self._left = b"", done  # ``_left``: rows that are done, and still in the file
        self._delimiters = Delimiters(self._format.schema.delimiter, self._format.schema.quote)
        self._by_rows = self._format.skip_first_row
        if self._by_rows:
            super()._begin(file, done)
            return
        names: list[str] | None = None
        if self._format.header:
            data, ends = self._piece()
            first = None if ends is None or not len(ends) else data[: ends[0] + 1]
            if first is None or not first.strip() or self._format.schema.comment:
                self._by_rows = True
                super()._begin(Joined(data + self._rest, file), done)
                return
            header = next(rows_of_lines(self._format.schema, text_of(first)))
            if isinstance(header, NoRow):
                raise header.error
            names = self._columns_of(header)
            self._rest = data[len(first) :] + self._rest
        self._decode_as(names)
        self._to_columns = self._format.schema.columns(*self._columns, names)
        self._attempts = Attempts(lambda piece: self._to_columns.of_records(*piece))

    def _piece(self) -> tuple[bytes, Any]:
        """Return the next records, and where they end; ``None`` instead where that is doubtful: then all that was read."""
        data, self._rest, size = self._rest, b"", COLUMN_CHUNK
        while more := self._file.read(size):
            data += more
            ends = self._delimiters.ends(data, complete=False)
            if ends is None or data.count(b"\r") != data.count(b"\r\n") + data.endswith(b"\r"):
                return data, None
            if len(ends):
                cut = int(ends[-1]) + 1
                self._rest = data[cut:]
                return data[:cut], ends
            size *= 2
        if data.count(b"\r") != data.count(b"\r\n"):
            return data, None
        return data, self._delimiters.ends(data) if data else ()

    def next(self) -> Any:
        """Return the records of the next piece that has any."""
        while not self._by_rows:
            self._row += self._size
            self._size = 0
            data, ends = self._piece()
            if ends is None or (self._format.schema.comment and self._format.schema.comment.encode() in data):
                self._go_on_by_rows(data)
                break
            if not data:
                return ()
            block = self._attempts((data, ends))
            found = self._of_rows(data) if block is None else self._of_block(block)
            if len(found):
                return found
        return super().next()

    def _of_block(self, block: Block) -> Any:
        if self._left:
            done = min(self._left, len(block))
            self._left -= done
            self._row += done
            block = block[done:]
        self._size = len(block)
        self._of = range(len(block))
        return block

    def _of_rows(self, data: bytes) -> list[Any]:
        rows = list(rows_of_lines(self._format.schema, text_of(data)))
        done = min(self._left, len(rows))
        self._left -= done
        self._row += done
        self._size = len(rows) - done
        return self._decode(rows[done:])

    def _go_on_by_rows(self, data: bytes) -> None:
        self._rows = self._rows_of(Joined(data + self._rest, self._file))
        self._by_rows = True
        self._skip(self._left)


# ---- rows out of bytes: in the place of what is no row, a ``NoRow``


class CsvRow(DeserializationSchema):
    """A schema that makes records of rows for the decoder; its name is in the errors."""

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
    """The text of a malformed row, and its error; lists of text are rows."""

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
    r"""Yield the rows of lines; malformed ones as ``NoRow``. Bytes that are no text are in the lines as surrogates.

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


# ---- what the columns might be


def infer_csv(
    path: str, records: int = 1000, header: bool = True, delimiter: str = ",", quote: str | None = '"',
    null_literal: str | None = None, charset: str = "UTF-8",
) -> CsvReaderFormat:  # fmt: skip
    r"""Return the format of a file by its first rows: whole numbers, numbers, booleans, dates, times, or text; all may be null.

    Rows are of ``Types.ROW_NAMED``, by the header or as ``f0``, ``f1``, ... Later rows that do not fit are malformed. Raises
    ``SourceNotReadable`` for a file that cannot be read, or has no row.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "sales.csv").write_text("item,n,at\ntea,3,2026-11-22\njam,,2026-11-23\n")
    ...     infer_csv(folder + "/sales.csv").schema.record_type
    RowTypeInfo(item: String, n: Long, at: DateTypeInfo)
    """
    text_only = CsvSchema(Types.TUPLE([]), delimiter, quote, None, null_literal, None, ";", charset)
    try:
        with ExitStack() as opened:
            files, within = locate(absolute(path))
            file = opened.enter_context(files.open(within))
            ending = compression_of(within)
            if ending:
                file = opened.enter_context(decompressed(file, ending))
            data = without_mark(file, charset)
            text = io.TextIOWrapper(io.BufferedReader(RawFile(data)), encoding=charset, newline="")
            rows = list(itertools.islice((row for row in text_only.rows(text) if row), records + header))
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise SourceNotReadable(f"the columns of {os.fspath(path)!r} cannot be determined: {error}.") from error
    if not rows:
        raise SourceNotReadable(
            f"the columns of {os.fspath(path)!r} cannot be determined: it has no rows; declare them."
        )
    other = [each for each in ";\t|" if all(len(row) == 1 and each in row[0] for row in rows)]
    if other:
        logger.warning(
            "%s: each line is one field with a %r in it. If that is the delimiter, give delimiter=%r.",
            os.fspath(path), other[0], other[0],
        )  # fmt: skip
    if header and len(rows) > 1 and all(map(_NUMBER.fullmatch, rows[0])):
        logger.warning(
            "%s: its first line %s is taken for the names of the columns, but has numbers. If it is a row, give header=False.",
            os.fspath(path), ",".join(rows[0]),
        )  # fmt: skip
    names = list(rows[0]) if header else [f"f{i}" for i in range(len(rows[0]))]
    whole = [row for row in rows[header:] if len(row) == len(names)]  # others are malformed
    columns = [[row[index] for row in whole] for index in range(len(names))]
    null = null_literal or ""
    kinds = [_kind([text for text in column if text != null]) for column in columns]
    for name, kind, column in zip(names, kinds, columns, strict=True):
        numbers = [text for text in column if _NUMBER.fullmatch(text)]
        if kind == Types.STRING() and 2 * len(numbers) >= len(column) and not any(map(_PADDED.fullmatch, numbers)):
            odd = next(text for text in column if text != null and not _NUMBER.fullmatch(text))
            logger.warning(
                "%s: column %r is read as text: %d of %d values are numbers, but %r is none. Declare the types, as in "
                "read_csv(path, record_type), to fail at such a line.", os.fspath(path), name, len(numbers), len(column), odd,
            )  # fmt: skip
    return CsvReaderFormat(
        CsvSchema(Types.ROW_NAMED(names, kinds), delimiter, quote, None, null_literal, None, ";", charset), header
    )


_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")
_PADDED = re.compile(r"[+-]?0\d+")  # 007 is a name
_CANDIDATES = (Types.LONG, Types.BIG_INT, Types.DOUBLE, Types.BOOLEAN, Types.SQL_DATE, Types.SQL_TIMESTAMP)


def _kind(texts: list[str]) -> Any:
    """Return the first type that all texts fit."""
    for candidate in _CANDIDATES if texts else ():
        schema = CsvSchema(Types.TUPLE([candidate()]), quote=None, delimiter="\x1f")
        if candidate in (Types.LONG, Types.BIG_INT, Types.DOUBLE) and any(map(_PADDED.fullmatch, texts)):
            continue
        try:
            for text in texts:
                schema.record([text])
        except ValueError:
            continue
        return candidate()
    return Types.STRING()
