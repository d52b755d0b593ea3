"""Files as a source: folders are searched, large files are shared among the subtasks, new files may be awaited.

The enumerator lists the files and hands out splits one by one, on request: a slow subtask reads fewer. What a split is made
into is the affair of a format (``file_format.py``). A split of a plain file is a range of bytes, its
position an offset; what is compressed, or in a charset where a line feed is not one byte, is a split of its own that counts
lines. At parallelism 1 records come in the order of the sorted paths.

A file is one version of a path: if its time or size changes while a folder is monitored, it is a new file and read from
its beginning. So move finished files in, and do not write them in place.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import IO, Any

from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    ConnectorContext,
    NeedSplits,
    QueuedReader,
    Source,
    SplitEnumerator,
    Wait,
)
from funken.connectors.files.file_format import (
    FileFormat,
    FileSplit,
    PartitionFields,
    RecordReader,
    compression_of,
    decompressed,
    matches,
    partition_parser,
    split_file,
    split_pattern,
)
from funken.connectors.files.line_files import BadBytes, StreamFormat, first_lines
from funken.connectors.formats.texts import text_schema
from funken.dataclass import dataclass
from funken.errors import (
    FunkenError,
    InvalidConfiguration,
    InvalidProgram,
    SourceNotReadable,
)
from funken.expr.types import Type
from funken.ids import Millis
from funken.io.durations import DurationLike, duration_ms
from funken.io.filesystem import FileStatus, absolute, locate
from funken.types.callables import Generic, S, T_co, check_kind

_NOT_THE_FILE = (FunkenError, NotVectorizable)
"""Errors that name their cause themselves."""
SPLIT_BYTES = 16 << 20
LEAST_SPLIT_BYTES = 1 << 20


@dataclass(frozen=True)
class FileSource(Source[T_co], Generic[T_co]):
    r"""The records of files; made by ``for_format``, or by PyFlink's names for it.

    Paths are local, ``file:`` URIs, or URIs that ``pyarrow.fs`` or ``fsspec`` knows, and may have patterns in them
    (``/logs/dt=*/**/*.gz``). A folder is read with all folders below it, but for names that begin with ``.`` or ``_``;
    ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` files are decompressed.

    >>> import gzip, tempfile
    >>> from pathlib import Path
    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> lines = StreamFormat.text_line_format()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("to be\nor not\n")
    ...     _ = Path(folder, "b.txt.gz").write_bytes(gzip.compress(b"to be"))
    ...     source = FileSource.for_record_stream_format(lines, folder).build()
    ...     env.from_source(source).execute_and_collect(limit=9)
    ['to be', 'or not', 'to be']
    >>> source.boundedness.name
    'BOUNDED'

    The driver cuts large files into splits, and readers read them:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("to be\nor not\n")
    ...     source = FileSource.for_record_stream_format(lines, folder).set_split_bytes(3).build()
    ...     splits = source.enumerator(parallelism=2)
    ...     splits.start()
    ...     reader = source.reader(ConnectorContext("lines", subtask=0, parallelism=2))
    ...     reader.add_splits(splits.next_splits(subtask=0))
    ...     reader.poll(10, now=0).values
    ...     reader.close()
    ['to be']
    """

    paths: tuple[str, ...]
    format: FileFormat[Any] = field(default_factory=StreamFormat)
    discovery_interval: Millis | None = None
    split_bytes: int | None = None
    partition_fields: tuple[tuple[str, Any], ...] = ()
    path_pattern: str | None = None
    """A regular expression for the whole paths of the files that are read; ``None``: all are."""
    boundedness: Boundedness = field(init=False)

    def __post_init__(self) -> None:
        """Make the paths mean the same in every process."""
        if not self.paths:
            raise InvalidProgram("a file source has no path; pass at least one file or folder.")
        try:
            object.__setattr__(self, "paths", tuple(absolute(path) for path in self.paths))
        except ValueError as error:
            raise InvalidProgram(str(error)) from None
        for _, declared in self.partition_fields:
            partition_parser(declared)
        bounded = Boundedness.BOUNDED if self.discovery_interval is None else Boundedness.CONTINUOUS_UNBOUNDED
        object.__setattr__(self, "boundedness", bounded)

    @property
    def folders(self) -> tuple[str, ...]:
        """The paths, absolute.

        >>> from funken import StreamFormat
        >>> FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/logs/a.txt").build().folders
        ('/logs/a.txt',)
        """
        return self.paths

    @staticmethod
    def for_format(format: FileFormat[S], *paths: str | os.PathLike[str]) -> FileSourceBuilder[S]:
        """Start to describe a source of these files and folders, read by any format.

        >>> from funken.connectors.files.arrow_files import ParquetFormat
        >>> FileSource.for_format(ParquetFormat(fields=("item",)), "/data/dt=*").build().paths
        ('/data/dt=*',)
        """
        check_kind(format, FileFormat, "a FileSource", "Give StreamFormat.text_line_format(), say, before the paths.")
        for path in paths:
            if not isinstance(path, str | os.PathLike):
                raise InvalidProgram(
                    f"a FileSource reads paths, but got {path!r}. Give each as an argument of its own, of a list: *paths."
                )
        return FileSourceBuilder(FileSource(tuple(os.fspath(path) for path in paths), format))

    @staticmethod
    def for_bulk_file_format(bulk_format: FileFormat[S], *paths: str | os.PathLike[str]) -> FileSourceBuilder[S]:
        """Start to describe a source of files of columns (PyFlink's name for it).

        >>> from funken.connectors.files.arrow_files import OrcFormat
        >>> FileSource.for_bulk_file_format(OrcFormat(), "/data/in").build().format.suffix
        '.orc'
        """
        return FileSource.for_format(bulk_format, *paths)

    @staticmethod
    def for_record_stream_format(stream_format: FileFormat[S], *paths: str | os.PathLike[str]) -> FileSourceBuilder[S]:
        """Start to describe a source of files of records (PyFlink's name for it).

        >>> lines = StreamFormat.text_line_format()
        >>> builder = FileSource.for_record_stream_format(lines, "/data/in", "/data/more.gz")
        >>> builder.monitor_continuously(10_000).build().boundedness.name
        'CONTINUOUS_UNBOUNDED'
        """
        return FileSource.for_format(stream_format, *paths)

    def record_schema(self) -> Type:
        """Return the schema of the records, where the format makes columns; it may look into one file for it.

        >>> from typing import NamedTuple
        >>> from funken.connectors.files.arrow_files import ParquetFormat
        >>> class Sale(NamedTuple):
        ...     item: str
        ...     n: int
        >>> FileSource.for_format(ParquetFormat(Sale), "/data/in").build().record_schema()
        Sale(item: str, n: int)
        """
        if self.partition_fields:
            raise NotVectorizable("adds fields of folders to its records")
        with contextlib.ExitStack() as opened:
            try:
                schema = self.format.record_schema(lambda: self._open_first(opened))
            except _NOT_THE_FILE:
                raise
            except Exception as error:  # whoever reads the file says what is wrong with it, and where
                raise NotVectorizable(f"a file cannot be inspected ({type(error).__name__})") from error
        return text_schema("utf-8", self._first_lines) if type(self.format) is StreamFormat else schema

    def _first_lines(self) -> list[str]:
        with contextlib.ExitStack() as opened:
            try:
                return [line.decode(errors="replace") for line in first_lines(self._open_first(opened))]
            except (OSError, EOFError) as error:
                raise NotVectorizable(f"a file cannot be inspected ({type(error).__name__})") from error

    def first_path(self) -> str:
        """Return the first file that is not empty; raise ``SourceNotReadable`` if there is none.

        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.txt").touch(), Path(folder, "b.txt").write_text("to be")
        ...     FileSource.for_record_stream_format(StreamFormat(), folder).build().first_path().endswith("b.txt")
        True
        """
        for _, path in self._with_data():
            return path
        raise SourceNotReadable(
            f"there is no file with data in {', '.join(map(repr, self.paths))} whose columns could be determined. Declare the "
            "record type, or name other files."
        )

    def _with_data(self) -> Iterator[tuple[str, str]]:
        """Yield the files that are not empty, each behind the path that it was found below."""
        for root in self.paths:
            for found in FileEnumerator(self, 1).find(root):
                if found.size:
                    yield root, found.path

    def _open_first(self, opened: contextlib.ExitStack) -> IO[bytes]:
        try:
            for root, path in self._with_data():
                file: IO[bytes] = opened.enter_context(locate(split_pattern(root)[0])[0].open(path))
                ending = None if self.format.container else compression_of(path)
                return opened.enter_context(decompressed(file, ending)) if ending else file
        except (OSError, ImportError, ValueError, SourceNotReadable) as error:
            raise NotVectorizable(f"no file can be inspected ({type(error).__name__})") from error
        raise NotVectorizable("there is no file yet whose columns it could know; declare the record type")

    @property
    def makes_blocks(self) -> bool:
        """Return True if the format makes blocks.

        >>> from funken.connectors import JsonSchema
        >>> from funken.connectors.files.line_files import LineFormat
        >>> FileSource.for_format(LineFormat(JsonSchema()), "/in").build().makes_blocks  # only those of tables make some
        False
        """
        return self.format.makes_blocks

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator."""
        return FileEnumerator(self, parallelism)

    def reader(self, context: ConnectorContext) -> FileReader:
        """Make a reader."""
        return FileReader(self, context)


@dataclass(frozen=True)
class FileSourceBuilder(Generic[T_co]):
    """PyFlink's way to describe a file source; each call returns a new builder.

    >>> lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in")
    >>> lines.monitor_continuously(10_000).set_split_bytes(1 << 20).build().discovery_interval
    10000
    >>> lines.process_static_file_set().build().boundedness.name
    'BOUNDED'
    """

    source: FileSource[T_co]

    def process_static_file_set(self) -> FileSourceBuilder[T_co]:
        """Read the files that are there when the job starts, then end; the default."""
        return FileSourceBuilder(replace(self.source, discovery_interval=None))

    def monitor_continuously(self, discovery_interval: DurationLike) -> FileSourceBuilder[T_co]:
        """Look for new files this often, without end."""
        interval = duration_ms(discovery_interval)
        if interval <= 0:
            raise InvalidConfiguration(f"files cannot be looked for every {interval} ms; pass a positive interval.")
        return FileSourceBuilder(replace(self.source, discovery_interval=interval))

    def set_split_bytes(self, size: int) -> FileSourceBuilder[T_co]:
        """Cut files into ranges of this size; by default 1 to 16 MiB, so that every subtask gets some."""
        if size <= 0:
            raise InvalidConfiguration(f"a split cannot have {size} bytes; pass a positive size.")
        return FileSourceBuilder(replace(self.source, split_bytes=size))

    def set_partition_fields(self, fields: Mapping[str, Any]) -> FileSourceBuilder[T_co]:
        """Add fields that are in the names of folders (``dt=2026-11-22``) to records; the values are types, such as ``str``.

        Dicts and rows get the fields; dataclasses and named tuples have to have them, with a default.

        >>> builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in")
        >>> builder.set_partition_fields({"hour": int}).build().partition_fields
        (('hour', <class 'int'>),)
        """
        return FileSourceBuilder(replace(self.source, partition_fields=tuple(fields.items())))

    def build(self) -> FileSource[T_co]:
        """Return the source."""
        return self.source


Found = dict[FileStatus, str]
"""New files, each with the path of the source that it was found below."""


class FileEnumerator(SplitEnumerator):
    """Lists the files on the driver, and remembers which it has seen."""

    def __init__(self, source: FileSource, parallelism: int) -> None:
        self._source = source
        self._parallelism = parallelism
        self._splits: deque[FileSplit] = deque()
        self._seen: set[FileStatus] = set()
        self.discovery_interval = source.discovery_interval

    def start(self) -> None:
        """List the files; a missing path is an error, and so is an empty one that is not monitored."""
        self.add_discovered(self.discover(0))

    def discover(self, now: int) -> Found:
        """List the files and return the new ones; meanwhile nobody changes which were seen."""
        new: Found = {}
        for root in self._source.paths:
            for file in self.find(root):
                if file not in self._seen and file not in new:  # paths may overlap; a file is read once
                    new[file] = root
        return new

    def add_discovered(self, found: Found) -> bool:
        """Queue the splits of new files."""
        self._seen.update(found)
        share = sum(file.size for file in found) // self._parallelism
        size = self._source.split_bytes or max(LEAST_SPLIT_BYTES, min(SPLIT_BYTES, share))
        for file, root in found.items():
            self._splits.extend(split_file(root, file, size, self._source.format))
        return bool(found)

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return one split."""
        if self._splits:
            return [self._splits.popleft()]
        return None if self.discovery_interval is None else []

    def unassigned_splits(self) -> int:
        """Return the number of waiting splits."""
        return len(self._splits)

    def snapshot(self) -> Any:
        """Return the splits not handed out and, if there will be another look, the files seen."""
        return list(self._splits), [] if self.discovery_interval is None else sorted(self._seen)

    def restore(self, snapshot: Any) -> None:
        """Resume from a snapshot."""
        splits, seen = snapshot
        self._splits = deque(splits)
        self._seen = set(seen)

    def find(self, root: str) -> list[FileStatus]:
        """Return the files of a path; raise ``SourceNotReadable``."""
        try:
            base, pattern = split_pattern(root)
            files, path = locate(base)
            found = files.find(path)
            if pattern is not None:
                found = [file for file in found if matches(pattern, file.path[len(path) :])]
            if self._source.path_pattern is not None:
                return [file for file in found if re.fullmatch(self._source.path_pattern, file.path)]
        except FileNotFoundError:
            raise SourceNotReadable(
                f"{root!r} does not exist; create it, or correct the path of the file source."
            ) from None
        except (OSError, ImportError) as error:
            raise SourceNotReadable(
                f"{root!r} cannot be listed ({error}); allow reading it, or correct the path."
            ) from error
        if not found and self.discovery_interval is None:
            raise SourceNotReadable(
                f"{root!r} holds no files (names that begin with '.' or '_' do not count); "
                f"put some there, or await them with monitor_continuously(interval)."
            )
        return found


class FileReader(QueuedReader):
    """Reads splits one after the other; a snapshot reads the position of the open file."""

    def __init__(self, source: FileSource, context: ConnectorContext) -> None:
        super().__init__(context)
        self._source = source
        self._open = contextlib.ExitStack()
        self._reader: RecordReader | None = None
        self._records: Any = ()
        self._partition: PartitionFields | None = None
        self._taken = 0
        #: the open file, and up to where its bytes are counted; ``None``: the format reads it here and there
        self._file: IO[bytes] | None = None
        self._counted = 0
        #: the schema of columns, and the fields that are wanted; ``None``: records are
        self._columns: tuple[Type, Sequence[int] | None] | None = None

    def read_record_columns(self, schema: Type, wanted: Sequence[int] | None) -> None:
        """Return columns of the wanted fields, also of the rest of a split."""
        self._columns = schema, wanted
        if self._reader is not None:
            self.queue[0] = replace(self.queue[0], position=self._reader.position(self._taken))
            self.close()

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next records."""
        while self.queue:
            split: FileSplit = self.queue[0]
            try:
                records = self._take(split, limit)
            except BadBytes as error:
                raise self._failure(
                    f"{split.file.path}: {error}; name its charset, e.g. text_line_format('ISO-8859-1'), "
                    f"or let text_line_format(errors='replace') replace what is not text."
                ) from error
            except (OSError, EOFError) as error:
                raise self._failure(
                    f"{split.file.path} cannot be read{self._place(split)}: {error}; is the path there, readable and whole on "
                    "every worker?"
                ) from error
            except _NOT_THE_FILE:
                raise
            except Exception as error:
                what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                raise self._failure(
                    f"{split.file.path} cannot be read by {type(self._source.format).__name__}{self._place(split)}: {what}; is "
                    "it such a file, and does it have the declared fields?"
                ) from error
            if len(records):
                return Batch(records, split=split.id)
            if self._file is None:
                self.bytes_in.inc(split.end - split.start)
            self.close()
            self.end_split()
        return NEED_SPLITS

    def _take(self, split: FileSplit, limit: int) -> Any:
        if self._reader is None:
            self._reader = self._start(split)
        if self._taken == len(self._records):
            self._records = self._reader.next()
            self._taken = 0
            self._count_bytes(split)
        records = self._records[self._taken : self._taken + limit]
        self._taken += len(records)
        if isinstance(records, Block):
            return records
        if self._partition is not None:
            return self._partition.to(records)
        return records if type(records) is list else list(records)

    def _count_bytes(self, split: FileSplit) -> None:
        """Count the bytes of the split that the last chunk has read; bytes beyond its end are the next one's."""
        if self._file is not None:
            at = min(self._file.tell(), split.end)
            self.bytes_in.inc(max(0, at - self._counted))
            self._counted = max(at, self._counted)

    def _start(self, split: FileSplit) -> RecordReader:
        format, fields = self._source.format, self._source.partition_fields
        self._partition = PartitionFields(dict(fields), split.file.path) if fields else None
        files, _ = locate(split.root)
        file: IO[bytes] = self._open.enter_context(files.open(split.file.path))
        if not format.container:
            begin = split.start if split.whole or split.position is None else split.position
            self._file, self._counted = file, begin[0] if isinstance(begin, tuple) else begin
        ending = None if format.container else compression_of(split.file.path)
        if ending:
            file = self._open.enter_context(decompressed(file, ending))
        if self._columns is not None:
            return format.column_reader(file, split, self.context, *self._columns)
        return format.reader(file, split, self.context)

    def _place(self, split: FileSplit) -> str:
        """Return the reader's place in the file; nothing at its beginning."""
        position = split.position if self._reader is None else self._reader.position(len(self._records))
        done = position[0] if isinstance(position, tuple) else position
        if not done:
            return f" from byte {split.start} on" if split.start else ""
        unit = self._source.format.counts(split)
        return f" after {unit} {done}{f' of the part from byte {split.start} on' if split.start and unit != 'byte' else ''}"

    def _failure(self, message: str) -> SourceNotReadable:
        return SourceNotReadable(f"{self.context.operator}: {message}", self.context.operator, self.context.subtask)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the splits, the first with the position that the open file has."""
        splits = super().snapshot_state(checkpoint_id)
        if self._reader is not None:
            splits[0] = replace(splits[0], position=self._reader.position(self._taken))
        return splits

    def close(self) -> None:
        """Close the file."""
        self._open.close()
        self._reader, self._file, self._records, self._taken = None, None, (), 0
