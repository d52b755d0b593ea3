"""Formats, compressions and paths of files.

What a format of files does: makes records of (a part of) a file, and writes records into a file.

A source asks a ``FileFormat`` for one reader per split; it returns records a chunk at a time, and says where to go on when some
of the last chunk are taken, so that nothing is counted per record. A sink asks a ``BulkFormat`` for one writer per part file.
Neither opens, names or closes files.
"""

from __future__ import annotations

import bz2
import contextlib
import datetime
import decimal
import importlib
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from fnmatch import translate
from typing import IO, Any, Protocol
from urllib.parse import unquote

from funken import extras
from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import ConnectorContext
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, InvalidProgram
from funken.expr.types import Type
from funken.io.filesystem import FileStatus
from funken.types.callables import Generic, T_co
from funken.types.info import BasicType, BasicTypeInfo, SqlTimeTypeInfo, TimeType, TypeInformation
from funken.types.row import Row, make_row
from funken.types.text import date_of, decimal_number, real_number, single_number, whole_number

# ---- Which compression a file has, by its name, and streams that undo and do it.
#
# Python's own modules know gzip, bzip2 and xz; Zstandard is Arrow's. A file may hold several streams, one after the
# other. Between and behind those of xz there may be padding: zero bytes, a multiple of four. Zero bytes behind
# gzip's are skipped. All else behind a stream is damage: it raises, as a stream does that is cut off.
#
# Python's own streams of bz2 and xz end without an error at bytes that begin no stream, so these are read here.


_MODULES = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".xz": "lzma"}
_ARROW = {".zst": "zstd", ".zstd": "zstd"}
NAMES = {"gzip": ".gz", "bz2": ".bz2", "xz": ".xz", "zstd": ".zst"}
"""The compressions of sinks, with the ends of the names of such files."""
_CHUNK = 1 << 17
_XZ_MAGIC = b"\xfd7zXZ\0"
_PADDING = 4
"""Bytes that padding of xz has, or several times as many."""


def compression_of(path: str) -> str | None:
    """Return the ending of a path if it is that of a compression.

    >>> compression_of("a/b.json.GZ"), compression_of("a.zst"), compression_of("a.json")
    ('.gz', '.zst', None)
    """
    ending = os.path.splitext(path)[1].lower()
    return ending if ending in _MODULES or ending in _ARROW else None


def decompressed(file: IO[bytes], ending: str) -> IO[bytes]:
    r"""Return the content of a compressed file, as a stream; closing it leaves the file open.

    Reading raises ``OSError`` for damaged content, ``EOFError`` for truncated content.

    >>> two = bz2.compress(b"to be") + bz2.compress(b" or not")
    >>> decompressed(io.BytesIO(two), ".bz2").read()
    b'to be or not'
    >>> decompressed(io.BytesIO(two + b"to be"), ".bz2").read()
    Traceback (most recent call last):
    ...
    OSError: behind byte 89, where a stream of bz2 ends, are bytes that begin no other
    """
    if ending in _ARROW:
        stream: Any = extras.load("pyarrow").CompressedInputStream(_Unclosed(file), "zstd")
        return io.BufferedReader(_Checked(stream))
    if ending in (".gz", ".gzip"):
        return io.BufferedReader(_Checked(importlib.import_module("gzip").open(file)))
    return io.BufferedReader(_Streams(file, ending.removeprefix(".")))


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Raise ``OSError`` for the errors of compression that are none."""
    try:
        yield
    except (zlib.error, lzma.LZMAError) as error:
        raise OSError(str(error)) from error


class RawFile(io.RawIOBase):
    """Any file, as Python's buffers want it: those of Arrow and of decompressors know less."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; raise ``OSError`` or ``EOFError`` for damage."""
        with _damage():
            data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Checked(RawFile):
    """A stream that is closed with its buffer."""

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Streams(io.RawIOBase):
    """The streams of bz2 or xz that are in a file."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name
        self._waiting = b""  # bytes that were read, and belong to no stream yet
        self._at = 0  # where in the file these begin
        self._is_first = True
        self._stream: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._stream is None and not self._begin():
                return 0
            data = self._read(len(buffer))
            if self._stream.eof:
                self._waiting = self._stream.unused_data
                self._at -= len(self._waiting)
                self._stream = None
            if data:
                buffer[: len(data)] = data
                return len(data)

    def _read(self, most: int) -> bytes:
        compressed, self._waiting = self._waiting, b""
        if not compressed and self._stream.needs_input:
            compressed = self._file.read(_CHUNK)
            if not compressed:
                raise EOFError(f"the stream of {self._name} is cut off at byte {self._at}")
            self._at += len(compressed)
        elif compressed:
            self._at += len(compressed)
        with _damage():
            data: bytes = self._stream.decompress(compressed, most)
        return data

    def _begin(self) -> bool:
        """Begin with the next stream; false at the end of the file."""
        magic = _XZ_MAGIC if self._name == "xz" else b"BZh"
        self._fill(len(magic))
        if self._name == "xz" and not self._is_first:
            self._skip_padding()
        if not self._waiting and not self._is_first:
            return False
        if not self._is_first and not self._waiting.startswith(magic):
            raise OSError(f"behind byte {self._at}, where a stream of {self._name} ends, are bytes that begin no other")
        self._is_first = False
        self._stream = bz2.BZ2Decompressor() if self._name == "bz2" else lzma.LZMADecompressor()
        return True

    def _skip_padding(self) -> None:
        begin = self._at
        while self._waiting.startswith(b"\0"):
            there = self._waiting.lstrip(b"\0")
            self._at += len(self._waiting) - len(there)
            self._waiting = there
            self._fill(len(_XZ_MAGIC))
        if (self._at - begin) % _PADDING:
            raise OSError(
                f"the padding of {self._at - begin} zero bytes from byte {begin} on is not a multiple of four"
            )

    def _fill(self, count: int) -> None:
        """Read until so many bytes wait, if there are so many."""
        while len(self._waiting) < count and (more := self._file.read(_CHUNK)):
            self._waiting += more


def compressed(file: IO[bytes], name: str) -> IO[bytes]:
    """Return a stream that compresses into a file; closing it writes its end and leaves the file open."""
    if name not in NAMES:
        raise InvalidConfiguration(f"there is no compression {name!r}; choose one of {', '.join(NAMES)}.")
    if name == "zstd":
        arrow = extras.load("pyarrow")
        stream: IO[bytes] = arrow.CompressedOutputStream(_Unclosed(file), "zstd")
    else:
        stream = importlib.import_module(_MODULES[NAMES[name]]).open(file, "wb")
    return stream


class _Unclosed:
    """A file that Arrow does not close."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Leave it open."""


# ---- What paths say: which files a pattern means, and the fields that are in the names of folders
# (``dt=2026-11-22``).
#
# A pattern has ``*`` (any part of a name), ``?`` (one character; in local paths only), ``[ab]`` (one of these) and
# ``**`` (any number of folders). Folders that are named like Hive's partitions give fields to the records of the
# files below them.


_NULL = "__HIVE_DEFAULT_PARTITION__"


def split_pattern(root: str) -> tuple[str, str | None]:
    """Return the folder to list, and the pattern of the paths below it; ``None`` if the root is a plain path.

    >>> split_pattern("/data/dt=*/part-[01]"), split_pattern("s3://logs/a/**/x.gz?region=eu"), split_pattern("/data/a")
    (('/data', 'dt=*/part-[01]'), ('s3://logs/a?region=eu', '**/x.gz'), ('/data/a', None))
    """
    is_uri = "://" in root
    path, mark, query = root.partition("?") if is_uri else (root, "", "")
    special = "*[" if is_uri else "*?["
    if not any(character in path for character in special) or (not is_uri and os.path.exists(root)):
        return root, None
    names = path.split("/")
    first = next(index for index, name in enumerate(names) if any(character in name for character in special))
    return "/".join(names[:first]) + mark + query, "/".join(names[first:])


def matches(pattern: str, path: str) -> bool:
    """Return True if a path below the folder matches; a folder that matches stands for all below it.

    >>> [matches("dt=*/part-?", path) for path in ("dt=1/part-0", "dt=1/x/part-0", "dt=1/part-0/x")]
    [True, False, True]
    >>> [matches("**/b", path) for path in ("b", "a/b", "a/a/b", "c")]
    [True, True, True, False]
    """
    return _matches(pattern.split("/"), path.replace(os.sep, "/").strip("/").split("/"))


def _matches(patterns: Sequence[str], names: Sequence[str]) -> bool:
    if not patterns:
        return True
    if patterns[0] == "**":
        return any(_matches(patterns[1:], names[skipped:]) for skipped in range(len(names)))
    return bool(names) and bool(re.match(translate(patterns[0]), names[0])) and _matches(patterns[1:], names[1:])


def partitions_of(path: str) -> dict[str, str | None]:
    """Return the fields in the names of a path's folders.

    >>> partitions_of("/data/dt=2026-11-22/country=__HIVE_DEFAULT_PARTITION__/part%20-0")
    {'dt': '2026-11-22', 'country': None}
    """
    pairs = [name.partition("=") for name in path.replace(os.sep, "/").split("/")[:-1] if "=" in name]
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}


_PARSERS: dict[BasicType, Callable[[str], Any]] = {
    BasicType.STRING: str, BasicType.BYTE: whole_number(8), BasicType.SHORT: whole_number(16), BasicType.INT: whole_number(32),
    BasicType.LONG: whole_number(64), BasicType.BIG_INT: whole_number(None), BasicType.FLOAT: single_number,
    BasicType.DOUBLE: real_number, BasicType.BIG_DEC: decimal_number,
}  # fmt: skip
_OF_PYTHON: dict[Any, Callable[[str], Any]] = {
    str: str, int: whole_number(None), float: real_number, decimal.Decimal: decimal_number, datetime.date: date_of,
}  # fmt: skip


def partition_parser(declared: Any) -> Callable[[str], Any]:
    """Return a converter of a path's text to a value; raises ``InvalidProgram`` for a type that has none.

    >>> partition_parser(int)("07"), partition_parser(str)("07")
    (7, '07')
    """
    if isinstance(declared, BasicTypeInfo):
        parse = _PARSERS.get(declared.basic_type)
    elif isinstance(declared, SqlTimeTypeInfo):
        parse = date_of if declared.time_type is TimeType.DATE else None
    else:
        parse = _OF_PYTHON.get(declared)
    if parse is not None:
        return parse
    raise InvalidProgram(f"a field in a path cannot be {declared!r}; declare str, int, float, Decimal or date.")


class PartitionFields:
    """Adds the fields of one file's path to its records: dicts, rows with names, dataclasses and named tuples with such fields.

    >>> add = PartitionFields({"dt": str, "hour": int}, "/data/dt=2026-11-22/hour=07/part-0")
    >>> add.to([{"n": 1}, Row(n=2)])
    [{'n': 1, 'dt': '2026-11-22', 'hour': 7}, Row(n=2, dt='2026-11-22', hour=7)]
    >>> PartitionFields({"dt": str}, "/data/part-0")
    Traceback (most recent call last):
    ...
    ValueError: its path has no folder dt=..., but that field was declared
    """

    def __init__(self, declared: Mapping[str, Any], path: str) -> None:
        there = partitions_of(path)
        self._fields: dict[str, Any] = {}
        for name, kind in declared.items():
            if name not in there:
                raise ValueError(f"its path has no folder {name}=..., but that field was declared")
            text = there[name]
            try:
                self._fields[name] = None if text is None else partition_parser(kind)(text)
            except (ValueError, decimal.InvalidOperation) as error:
                raise ValueError(f"the folder {name}={text} has no value of {kind}: {error}") from None
        self._names: tuple[list[str] | None, list[str], list[str]] = (None, [], [])

    def to(self, records: Sequence[Any]) -> list[Any]:
        """Return the records with the fields."""
        return [self._added(record) for record in records]

    def _added(self, record: Any) -> Any:
        fields = self._fields
        if isinstance(record, dict):
            return {**record, **fields}
        if isinstance(record, Row) and record._fields is not None:
            if self._names[0] is not record._fields:
                new = [name for name in fields if name not in record._fields]
                self._names = (record._fields, record._fields + new, new)
            _, names, new = self._names
            row = make_row(names, record._values + [fields[name] for name in new], record._kind)
            for name in fields:
                if name not in new:
                    row[name] = fields[name]
            return row
        if is_dataclass(record) and not isinstance(record, type):
            return replace(record, **fields)
        if isinstance(record, tuple) and hasattr(record, "_replace"):
            return record._replace(**fields)
        raise ValueError(
            f"a {type(record).__name__} has no place for the fields of a path; read dicts, rows or dataclasses"
        )


@dataclass(frozen=True, slots=True)
class FileSplit:
    """The records that start in ``[start, end)`` of a file, or all of it; ``position``: where to go on, as its reader counts."""

    root: str
    file: FileStatus
    start: int
    end: int
    whole: bool = False
    position: int | tuple[int, int] | None = None

    @property
    def id(self) -> str:
        """Return a name that no other split has."""
        return f"{self.file.path}@{self.file.modified}:{self.start}"


class RecordReader(Protocol):
    """Reads one split."""

    def next(self) -> Sequence[Any]:
        """Return the records of the next chunk; none at the end."""
        ...

    def position(self, taken: int) -> int | tuple[int, int]:
        """Return the position to resume at if ``taken`` of the last chunk's records are done."""
        ...


class FileFormat(Generic[T_co]):
    r"""A format that reads records of files; subclass it and define ``reader``.

    A splittable format takes ranges of bytes: a record belongs to the range that its first byte is in. ``container``: the file
    says itself how it is compressed, whatever its name ends with. What ``reader`` or its methods raise is reported with the
    path, and with the position that was reached.

    >>> class Chunks:
    ...     def __init__(self, file, done):
    ...         self.file, self.done, self.size = file, done, 0
    ...         file.seek(4 * done)
    ...     def next(self):
    ...         self.done += self.size
    ...         data = self.file.read(4000)
    ...         self.size = len(data) // 4
    ...         return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
    ...     def position(self, taken):
    ...         return self.done + taken
    >>> class Numbers(FileFormat):
    ...     container = True
    ...     def reader(self, file, split, context):
    ...         return Chunks(file, split.position or 0)
    >>> import tempfile
    >>> from pathlib import Path
    >>> from funken import FileSource, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "numbers").write_bytes(b"\0\0\0\7\0\0\1\0")
    ...     env.from_source(FileSource.for_format(Numbers(), folder).build()).execute_and_collect(limit=9)
    [7, 256]
    """

    splittable = False
    """True if several readers can share a file."""
    container = False
    """Whether compression is inside the format, and not around the file."""
    makes_blocks = False
    """Whether readers give blocks of a form of their own, for any program."""

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Return the reader of a split; ``file`` is seekable unless the file is compressed."""
        raise NotImplementedError

    def counts(self, split: FileSplit) -> str:
        """Return the name of a split's positions, for errors: records, unless the format overrides it.

        >>> from funken.connectors.files.line_files import StreamFormat
        >>> split = FileSplit("/in", FileStatus("/in/a.gz", 9, 0), 0, 9, whole=True)
        >>> StreamFormat().counts(split), FileFormat().counts(split)
        ('line', 'record')
        """
        return "record"

    def record_schema(self, first: Callable[[], IO[bytes]]) -> Type:
        """Return the schema of the records, if ``column_reader`` makes columns of them; raise ``NotVectorizable`` if not.

        ``first`` opens a file of the source, for a format that has to look into one; it raises ``NotVectorizable`` without any.

        >>> from funken import Types
        >>> from funken.connectors.files.arrow_files import ParquetFormat
        >>> ParquetFormat(Types.TUPLE([Types.INT(), Types.STRING()])).record_schema(first=lambda: open("never opened", "rb"))
        (int, str)
        """
        raise NotVectorizable(f"{type(self).__name__} produces no columns")

    def column_reader(
        self,
        file: IO[bytes],
        split: FileSplit,
        context: ConnectorContext,
        schema: Type,
        wanted: Sequence[int] | None,
    ) -> RecordReader:
        """Return the reader of a split as blocks of columns, or lists in other forms; positions as ``reader``'s.

        ``wanted`` are the numbers of the leaves of the schema (its fields, if it is flat) that are read (``None``: all); in the
        place of others there is ``NOT_READ``.

        >>> import io
        >>> import pyarrow as pa
        >>> from pyarrow import parquet
        >>> from funken.connectors.files.arrow_files import ParquetFormat
        >>> file, format = io.BytesIO(), ParquetFormat()
        >>> parquet.write_table(pa.table({"item": ["tea", "jam"], "n": [3, 1]}), file)
        >>> split = FileSplit("/in", FileStatus("/in/a.parquet", len(file.getvalue()), 0), 0, len(file.getvalue()))
        >>> schema = format.record_schema(lambda: io.BytesIO(file.getvalue()))
        >>> format.column_reader(file, split, ConnectorContext("in"), schema, wanted=[1]).next().to_list()
        [{'item': <not read>, 'n': 3}, {'item': <not read>, 'n': 1}]
        """
        raise NotImplementedError


def split_file(root: str, file: FileStatus, size: int, format: FileFormat) -> list[FileSplit]:
    """Return the parts of a file that readers may share; the whole of one that they cannot."""
    root = split_pattern(root)[0]
    compressed = not format.container and compression_of(file.path) is not None
    if file.size and (compressed or not format.splittable):
        return [FileSplit(root, file, 0, file.size, whole=True)]
    return [FileSplit(root, file, start, min(start + size, file.size)) for start in range(0, file.size, size)]


class BulkWriter(Protocol):
    """Writes one part file."""

    def write(self, values: list[Any]) -> None:
        """Write a block of records; they may be kept until the next one, or ``finish``."""
        ...

    def size(self) -> int:
        """Return the approximate size of the present file (bytes), for the rolling policy."""
        ...

    def flush(self) -> None:
        """Hand finished bytes to the file."""
        ...

    def finish(self) -> None:
        """Write the rest; the file stays open."""
        ...


class BulkFormat:
    """A format of files that are more than one record after the other; subclass it and define ``create``."""

    suffix = ""
    """The end of the names of files, unless the sink says otherwise."""
    takes_columns = False
    """True if writers take blocks of columns (``funken.columnar.block.Block``) as well as lists."""

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Return the writer of a new file."""
        raise NotImplementedError

    def of_type(self, type_info: TypeInformation | None) -> BulkFormat:
        """Return the format for records of a declared type (``None``: any)."""
        return self

    def merge(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        """Write one file of several, for compaction; raise ``CannotMerge`` if they do not become one."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise, before the job runs, if a package is missing."""


class CannotMerge(ValueError):
    """These files do not become one; each is committed by itself."""
