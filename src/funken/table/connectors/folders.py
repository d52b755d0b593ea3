"""Folders of a file table as its sink leaves them, and the writers of its files: a block of rows at a time."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import IO, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.files.arrow_files import ArrowWriter
from funken.connectors.files.file_format import BulkFormat, BulkWriter
from funken.connectors.files.line_files import LineEncoder
from funken.connectors.files.sink import FileSink
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.expr.sql.formats import parse_time
from funken.expr.sql.texts import zone_of
from funken.ids import MIN_TIMESTAMP
from funken.io.filesystem import absolute, is_hidden, locate
from funken.table.connectors.formats import Columns, document_of
from funken.table.connectors.json_values import JsonRules, reader_of, text_reader
from funken.table.types import LogicalType, arrow_type
from funken.table.values import java_text, python_value, to_python

# ---- Folders of a file table as its sink leaves them: files of before replaced (INSERT OVERWRITE), partitions
# marked as complete.
#
# A writer hands *marks* to the commit beside its files. The committer makes the files visible first, then it does
# what marks say: so a reader sees old files, then both, then new ones, and a job that fails leaves the old ones.


@dataclass(frozen=True)
class FolderMark:
    """A change of a folder that is due when the files of this commit are visible."""

    folder: str
    is_replaced: bool
    is_complete: bool


_DATE_AND_TIME = re.compile(r"(\d+)-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d+)?))?", re.ASCII)


@dataclass(frozen=True)
class PartitionTimes:
    """Find the time of a partition in the names of its folders.

    ``pattern`` is a text with ``$key`` in the place of the key's value, by default the value of the first key; ``formatter`` is
    Java's pattern of the result.

    >>> PartitionTimes(("day", "hour"), "$day $hour:00:00", None, "UTC").of("day=2024-02-03/hour=4")
    1706932800000
    """

    keys: tuple[str, ...]
    pattern: str | None
    formatter: str | None
    zone: str

    def of(self, folder: str) -> int:
        """Return the time of a folder in ms; raise ``ValueError`` if its name has none."""
        values = {key: unquote(value) for key, value in folder_values(folder).items()}
        found = values[self.keys[0]] if self.pattern is None else self.pattern
        for key in self.keys:
            found = found.replace(f"${key}", values[key])
        zone = zone_of(self.zone)
        return round(self._time(folder, found).replace(tzinfo=zone).timestamp() * 1000)

    def _time(self, folder: str, text: str) -> datetime.datetime:
        try:
            if self.formatter is not None:
                parsed = parse_time(text, self.formatter)
                if parsed is not None:
                    return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=parsed[0] // 1000)  # noqa: DTZ001
            elif (match := _DATE_AND_TIME.fullmatch(text)) is not None:
                year, month, day, hours, minutes = (int(each or 0) for each in match.groups()[:-1])
                years, months = divmod(month - 1, 12)  # as by Java's lenient parser, month 13 is in the next year
                begin = datetime.datetime(year + years, months + 1, 1)  # noqa: DTZ001 - the zone is that of the option
                seconds = float(match[6] or 0)
                return begin + datetime.timedelta(days=day - 1, hours=hours, minutes=minutes, seconds=seconds)
        except ValueError:
            pass
        wanted = "a time such as '2024-02-03 04:00:00'" if self.formatter is None else f"a time by {self.formatter!r}"
        raise ValueError(
            f"partition {folder!r} has the time {text!r}, which is not {wanted}; correct "
            "'partition.time-extractor.timestamp-pattern' or '.timestamp-formatter'"
        )


@dataclass(frozen=True)
class FolderSink(Sink):
    """Writes blocks of a table by another sink, and marks folders.

    ``replaced`` are the files of before, relative to the base path; those in folders that are written go at the end, and those
    of a table without partitions in any case. ``success_file`` is written into a folder ``delay`` ms after its
    first row, or with ``times`` when the watermark is ``delay`` ms beyond the folder's time, and at the end.
    """

    inner: FileSink
    folders: Folders
    replaced: tuple[str, ...] | None = None
    success_file: str | None = None
    delay: int = 0
    times: PartitionTimes | None = None

    @property
    def marks(self) -> bool:
        """Return True if folders are marked."""
        return self.replaced is not None or self.success_file is not None

    def check(self) -> None:
        """Find out whether files can be created."""
        self.inner.check()

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return FolderWriter(self, self.inner.writer(context), context)

    def committer(self, context: CommitterContext) -> Committer:
        """Make the committer."""
        return FolderCommitter(self, self.inner.committer(context))


class FolderWriter(SinkWriter):
    """Writes by another writer, and notes the folders of what it writes, if they are to be marked."""

    def __init__(self, sink: FolderSink, inner: SinkWriter, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._inner = inner
        self._written: set[str] = set()
        self._incomplete: dict[str, int] = {}
        self._now = 0
        self._watermark = MIN_TIMESTAMP

    def reach(self, watermark: int) -> None:
        """Note the event time; the sinks of tables call it."""
        self._watermark = watermark

    def restore_state(self, states: list[Any]) -> None:
        """Go on with the folders of before."""
        if not self._sink.marks:
            self._inner.restore_state(states)
            return
        self._inner.restore_state([one for inner, _, _ in states for one in inner])
        for _, written, incomplete in states:
            self._written |= set(written)
            for folder, since in incomplete.items():
                self._incomplete[folder] = min(since, self._incomplete.get(folder, since))

    def open(self) -> None:
        """Prepare to write."""
        self._inner.open()

    def write(self, values: Any, timestamps: Any, now: int) -> None:
        """Write a block."""
        self._now = now
        parts = self._sink.folders.parts(values)
        for folder, _ in parts if self._sink.marks else ():
            self._written.add(folder)
            self._incomplete.setdefault(folder, now)
        self._inner.write_groups(parts, now)

    def flush(self, end_of_input: bool) -> None:
        """Hand written bytes to the system."""
        self._inner.flush(end_of_input)

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Close all files, and return them with marks."""
        sink = self._sink
        marks = []
        if sink.success_file is not None:
            due = [name for name, since in self._incomplete.items() if end_of_input or self._is_due(name, since)]
            marks += [FolderMark(name, False, True) for name in sorted(due)]
            for name in due:
                del self._incomplete[name]
        if sink.replaced is not None and end_of_input:
            written = self._written if sink.folders.keys else {""}
            marks += [FolderMark(name, True, False) for name in sorted(written)]
        return [*self._inner.prepare_commit(checkpoint_id, end_of_input), *marks]

    def _is_due(self, folder: str, since: int) -> bool:
        times, delay = self._sink.times, self._sink.delay
        return self._now - since >= delay if times is None else self._watermark > times.of(folder) + delay

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the state of the writer, and the folders so far."""
        if not self._sink.marks:
            return self._inner.snapshot_state(checkpoint_id)
        return [(self._inner.snapshot_state(checkpoint_id), sorted(self._written), dict(self._incomplete))]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the writer."""
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell the writer."""
        self._inner.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Remove unprepared files."""
        self._inner.close()


class FolderCommitter(Committer):
    """Makes files visible, then executes the marks; both may be repeated."""

    def __init__(self, sink: FolderSink, inner: Committer) -> None:
        super().__init__()
        self._sink = sink
        self._inner = inner

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit files, then marks."""
        marks = [one.committable for one in requests if isinstance(one.committable, FolderMark)]
        self._inner.commit([one for one in requests if not isinstance(one.committable, FolderMark)])
        files, base = locate(self._sink.inner.base_path)
        for mark in marks:
            if mark.is_replaced:
                for old in self._sink.replaced or ():
                    if not mark.folder or folder_of(old) == mark.folder or old.startswith(f"{mark.folder}/"):
                        files.remove(f"{base}/{old}")
            if mark.is_complete:
                _create_empty(files, f"{base}/{mark.folder}/{self._sink.success_file}".replace("//", "/"))

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Remove pending files."""
        self._inner.abort([one for one in requests if not isinstance(one.committable, FolderMark)])


def _create_empty(files: Any, path: str) -> None:
    if files.exists(path):
        return
    file = files.create(path)
    files.seal(file)


def folder_of(path: str) -> str:
    """Return the folder of a relative path; empty for a file right in the base.

    >>> folder_of("day=1/part-0"), folder_of("part-0")
    ('day=1', '')
    """
    return path.rpartition("/")[0]


def files_below(path: str) -> tuple[str, ...]:
    """Return the files of a table as they are now, relative to its path."""
    root = absolute(path)
    files, base = locate(root)
    try:
        found = files.find(base)
    except FileNotFoundError:
        return ()
    start = base.rstrip("/") + "/"
    return tuple(one.path.removeprefix(start) for one in found if not is_hidden(one.path.removeprefix(start)))


def is_empty(path: str) -> bool:
    """Return True if a folder is there and holds no files, as INSERT OVERWRITE by nothing leaves it."""
    files, base = locate(absolute(path))
    return files.exists(base) and not files_below(path)


_ESCAPED = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{}\[\]^]")
"""Characters of values that names of folders do not keep, as in Hive."""

# ---- partitions: values in the names of folders


def partition_text(value: Any, type_: LogicalType | None = None) -> str:
    """Return the text of a value in the name of a folder: Java's, and what separates names is escaped.

    >>> import datetime
    >>> partition_text(True), partition_text(datetime.datetime(2024, 2, 3, 4, 5)), partition_text("é/%")
    ('true', '2024-02-03T04%3A05', 'é%2F%25')
    """
    return escaped(format(value, "f") if isinstance(value, Decimal) else java_text(value, type_))


def escaped(text: str) -> str:
    """Return the name of a key, or the text of a value, as the name of a folder has it."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def folder_values(folder: str) -> dict[str, str]:
    """Return the texts of the values in the names of folders, by keys.

    >>> folder_values("day=mon/p%3Dq=a%2Fb/part-0")
    {'day': 'mon', 'p=q': 'a%2Fb'}
    """
    pairs = (part.partition("=") for part in folder.split("/") if "=" in part)
    return {unquote(key): value for key, _, value in pairs}


_WHOLE = re.compile(r"-?\d{1,8}", re.ASCII)


def partition_value(text_: str, type_: LogicalType) -> Any:
    """Return the value of a text in the name of a folder.

    >>> from funken.table.types import DataTypes
    >>> partition_value("2024-02-03T04%3A05", DataTypes.TIMESTAMP(3))
    datetime.datetime(2024, 2, 3, 4, 5)
    """
    plain = unquote(text_)
    if type_.root.startswith("TIMESTAMP"):  # Java leaves out seconds that are zero, as ISO allows, and Flink the zone
        zone = "Z" if type_.root == "TIMESTAMP_LTZ" and not plain.endswith("Z") else ""
        return reader_of(type_, JsonRules(iso=True))(plain.replace(" ", "T") + zone)
    if type_.root in ("DATE", "TIME") and _WHOLE.fullmatch(plain):  # as Flink writes them: days and milliseconds
        return python_value(int(plain), type_)
    return text_reader(type_)(plain)


# ---- writing


@dataclass(frozen=True)
class Folders:
    """Cuts blocks of a table by the folders of their partitions: files have the other columns.

    >>> from funken.table.types import DataTypes
    >>> from funken.table.runtime.block import TableBlock
    >>> folders = Folders((("n", 0, DataTypes.BIGINT()), ("day", 1, DataTypes.STRING())), ("day",), "none")
    >>> block = TableBlock(pa.record_batch({"n": [1, 2, 3], "day": ["mon", None, "mon"]}))
    >>> [(folder, part.batch.to_pydict()) for folder, part in folders.parts(block)]
    [('day=mon', {'n': [1, 3]}), ('day=none', {'n': [2]})]
    """

    columns: tuple[tuple[str, int, LogicalType], ...]
    """Name, place and type of the columns of the table."""
    keys: tuple[str, ...]
    default_name: str

    def parts(self, block: Any) -> list[tuple[str, Any]]:
        """Return the folders of a block, and of each the rows as files have them."""
        data = [each for each in self.columns if each[0] not in self.keys]
        schema = pa.schema([(name, arrow_type(type_)) for name, _, type_ in data])
        arrays = [block.batch.column(place) for _, place, _ in data]
        cast = [each if each.type == of.type else each.cast(of.type) for each, of in zip(arrays, schema, strict=True)]
        of_files = block.with_columns(cast, schema)
        if not self.keys:
            return [("", of_files)]
        known = {name: (block.batch.column(place), type_) for name, place, type_ in self.columns}
        numbers = pc.subtract(pc.cumulative_sum(pa.repeat(1, len(block))), 1)
        table = pa.table([*(known[key][0] for key in self.keys), numbers], [*self.keys, ""])
        groups = table.group_by(list(self.keys), use_threads=False).aggregate([("", "list")]).combine_chunks()
        rows, texts = groups.column("_list").chunk(0), []
        for key in self.keys:
            values = to_python(groups.column(key).chunk(0), known[key][1])
            texts.append([f"{escaped(key)}={self._folder(value, known[key][1])}" for value in values])
        names = map("/".join, zip(*texts, strict=True))
        if len(rows) == 1:
            return [(next(names), of_files)]
        return [(name, of_files.take(found.values.to_numpy())) for name, found in zip(names, rows, strict=True)]

    def _folder(self, value: Any, type_: LogicalType) -> str:
        return self.default_name if value is None or value == "" else partition_text(value, type_)


@dataclass(frozen=True)
class BlockLines(LineEncoder):
    """Writes a line per row of a block."""

    columns: Columns = ()

    def encode(self, block: Any) -> bytes:
        """Write lines."""
        if self.schema.takes_columns:
            return super().encode(block)
        return super().encode(schema_of(self.columns).rows(block))


@dataclass(frozen=True)
class TableDocuments(BulkFormat):
    """Writes the rows of blocks as dicts."""

    inner: BulkFormat
    columns: Columns

    @property
    def suffix(self) -> str:  # type: ignore[override]
        """The end of the names of files."""
        return self.inner.suffix

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Write a file."""
        return DocumentsWriter(self.inner.create(file), self.columns)

    def check(self) -> None:
        """Refuse values that cannot be written."""
        self.inner.check()

    def merge(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        """Put files together."""
        self.inner.merge(sources, target)


class DocumentsWriter:
    """Writes the rows of blocks into one file."""

    def __init__(self, inner: BulkWriter, columns: Columns) -> None:
        self._inner, self._columns, self._schema = inner, columns, schema_of(columns)
        self.size, self.flush, self.finish = inner.size, inner.flush, inner.finish

    def write(self, block: Any) -> None:
        """Write a block."""
        self._inner.write([document_of(row, self._columns) for row in self._schema.rows(block)])


class BatchWriter(ArrowWriter):
    """Writes the columns of blocks as they are."""

    def write(self, block: Any) -> None:
        """Take a block."""
        self._schema = block.schema
        self._append(block.batch)
        self._write_if_full()


def schema_of(columns: Columns) -> Any:
    """Return columns as blocks have them."""
    from funken.table.runtime.block import BlockSchema  # noqa: PLC0415 - loads NumPy

    return BlockSchema([name for name, _ in columns], [type_ for _, type_ in columns])
