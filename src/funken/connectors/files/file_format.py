"""What a format of files does: makes records of (a part of) a file, and writes records into a file.

A source asks a ``FileFormat`` for one reader per split; it returns records a chunk at a time, and says where to go on when some
of the last chunk are taken, so that nothing is counted per record. A sink asks a ``BulkFormat`` for one writer per part file.
Neither opens, names or closes files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, Any, Protocol

from funken.columnar.expressions import NotVectorizable
from funken.connectors.context import ConnectorContext
from funken.connectors.files.compression import compression_of
from funken.connectors.files.paths import split_pattern
from funken.dataclass import dataclass
from funken.expr.types import Type
from funken.io.filesystem import FileStatus
from funken.types.info import TypeInformation


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
        """Return where to go on if ``taken`` of the last chunk's records are done."""
        ...


class FileFormat:
    r"""How files become records; subclass it and define ``reader``.

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
    """Whether several readers can share a file."""
    container = False
    """Whether compression is inside the format, and not around the file."""

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Return what reads a split; ``file`` is seekable unless the file is compressed."""
        raise NotImplementedError

    def counts(self, split: FileSplit) -> str:
        """Return what positions of a split count, for errors: records, unless the format says otherwise.

        >>> from funken.connectors.files.lines import StreamFormat
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
        raise NotVectorizable(f"{type(self).__name__} makes no columns")

    def column_reader(
        self,
        file: IO[bytes],
        split: FileSplit,
        context: ConnectorContext,
        schema: Type,
        wanted: Sequence[int] | None,
    ) -> RecordReader:
        """Return what reads a split as blocks of columns, or lists where a chunk has no such form; positions are ``reader``'s.

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
        """Return about how many bytes the file would have now, for the rolling policy."""
        ...

    def flush(self) -> None:
        """Hand what can be handed to the file."""
        ...

    def finish(self) -> None:
        """Write the rest; the file stays open."""
        ...


class BulkFormat:
    """How records become files that are more than one record after the other; subclass it and define ``create``."""

    suffix = ""
    """What names of files end with, unless the sink says otherwise."""
    takes_columns = False
    """Whether writers take blocks of columns (``funken.columnar.block.Block``) as well as lists."""

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Return what writes a new file."""
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


__all__ = ["BulkFormat", "BulkWriter", "CannotMerge", "FileFormat", "FileSplit", "RecordReader"]
