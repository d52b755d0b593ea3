"""Delta tables: a sink with one commit per checkpoint, and a source of a version or of versions as they come.

A Delta table: its log by ``deltalake``, which only this module imports, and its data files by ``pyarrow``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import compute, fs, types

from funken import extras
from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import (
    Boundedness,
    CommitterContext,
    ConnectorContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from funken.connectors.formats.arrow_columns import schema_of_file
from funken.connectors.lake import DataFile, DataFileReader, ParquetFiles, ParquetRows, TableCommitter, TableWriter
from funken.connectors.schemas import Document
from funken.connectors.sink import Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import (
    InvalidConfiguration,
    JobExecutionError,
    SinkNotWritable,
    SourceNotReadable,
)
from funken.expr.types import Type
from funken.io.durations import DurationLike, duration_ms
from funken.types.text import datetime_of, timestamp_of


def deltalake(module: str = "deltalake") -> Any:
    """Return a module of the library; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(module, "delta", "the Delta connectors need deltalake")


@dataclass(frozen=True)
class DeltaPlace:
    """The location of a table: path or URI, storage options of ``deltalake``, and a ``pyarrow`` file system for data.

    >>> DeltaPlace("s3://lake/orders", {"AWS_SECRET_ACCESS_KEY": "secret"})
    DeltaPlace(uri='s3://lake/orders')
    """

    uri: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)  # there may be keys in it
    filesystem: Any = field(default=None, repr=False)

    def open(self, fail: type[JobExecutionError], version: int | None = None) -> Any:
        """Return the table at a version; raises ``fail`` if it is not there."""
        library, errors = deltalake(), deltalake("deltalake.exceptions")
        options = dict(self.storage_options) if self.storage_options else None
        try:
            return library.DeltaTable(self.uri, version=version, storage_options=options)
        except errors.TableNotFoundError:
            raise fail(
                f"there is no Delta table at {self.uri!r}; create it (DeltaTable.create), or correct the path."
            ) from None
        except (errors.DeltaError, OSError) as error:
            raise fail(
                f"Delta table {self.uri!r} cannot be opened ({type(error).__name__}: {str(error)[:300]}); correct the path, the "
                "storage options, or the rights of this user."
            ) from error

    def files(self) -> tuple[Any, str]:
        """Return the file system of data files, and the table's path in it."""
        if self.filesystem is not None:
            return self.filesystem, self.uri.rpartition("://")[2].rstrip("/")
        if "://" in self.uri:
            found: tuple[Any, str] = fs.FileSystem.from_uri(self.uri)
            return found
        return fs.LocalFileSystem(), self.uri

    def actions(self, version: int) -> list[dict[str, Any]] | None:
        """Return the actions of the commit of a version; ``None`` if it is not in the log any more."""
        files, path = self.files()
        try:
            with files.open_input_stream(f"{path}/_delta_log/{version:020d}.json") as file:
                return [json.loads(line) for line in file.read().splitlines() if line.strip()]
        except FileNotFoundError:
            return None


def converter_of(kind: Any) -> Callable[[str], Any]:
    """Return a converter of the texts of a partition column's values."""
    if types.is_boolean(kind):
        return lambda text: text == "true"
    if types.is_integer(kind):
        return int
    if types.is_floating(kind):
        return float
    if types.is_date(kind):
        return date.fromisoformat
    if types.is_decimal(kind):
        return Decimal
    if types.is_timestamp(kind):
        return _instant if kind.tz is not None else timestamp_of
    return str


def _instant(text: str) -> datetime:
    value = datetime_of(text)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def text_of(value: Any) -> str | None:
    """Return the text of a partition column's value in the log.

    >>> text_of(True), text_of(7), text_of(None), text_of(datetime(2026, 1, 1, tzinfo=UTC))
    ('true', '7', None, '2026-01-01 00:00:00')
    """
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return str(value).lower() if isinstance(value, bool) else str(value)


def file_of(action: Mapping[str, Any]) -> str:
    """Return the path of an action's data file, below the table's."""
    return unquote(str(action["path"]))


# ---- A Delta table as a source: a version of it, or its versions as they come.
#
# A split is a data file with the number of the next row. Read continuously, a version adds the files of its commit
# that say that data has changed, so a compaction adds nothing; a commit that removes data fails the job, for a
# stream cannot take records back.


_KNOWN = {"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"}


@dataclass(frozen=True)
class DeltaSplit:
    """A data file, the values of its partition's columns, and the number of the next row."""

    id: str
    partition: tuple[tuple[str, Any], ...] = ()
    row: int = 0


@dataclass(frozen=True)
class DeltaSource(Source[Document]):
    """The rows of a Delta table, as dicts: of its newest version, or ``version``, or of all that come.

    ``monitor_continuously`` is how often later versions are looked for: then the source is unbounded. ``starting_version`` is
    the first whose additions are read continuously; by default the whole table comes first.

    Raises ``SourceNotReadable`` if the table is not there, or has deletion vectors or mapped columns.

    >>> import pyarrow as pa, tempfile
    >>> from deltalake import write_deltalake
    >>> from funken import StreamExecutionEnvironment
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_deltalake(folder, pa.table({"item": ["tea", "jam"], "price": [3, 5]}))
    ...     env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    ...     env.from_source(DeltaSource(folder)).execute_and_collect(limit=9)
    [{'item': 'tea', 'price': 3}, {'item': 'jam', 'price': 5}]
    """

    uri: str
    version: int | None = None
    monitor_continuously: DurationLike | None = None
    starting_version: int | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    filesystem: Any = field(default=None, repr=False)
    keeps: Callable[[Mapping[str, Any]], bool] | None = field(default=None, repr=False)
    """The partitions to read, by the values of their columns; ``None``: all of them."""
    boundedness: Boundedness = field(init=False)

    def __post_init__(self) -> None:
        """Check that the options fit each other."""
        continuously = self.monitor_continuously is not None
        if continuously and self.version is not None:
            raise InvalidConfiguration(
                "a DeltaSource of one version has no later ones; leave version or monitor_continuously out."
            )
        if self.starting_version is not None and not continuously:
            raise InvalidConfiguration("starting_version is for monitor_continuously; give a version, or an interval.")
        object.__setattr__(
            self, "boundedness", Boundedness.CONTINUOUS_UNBOUNDED if continuously else Boundedness.BOUNDED
        )

    @property
    def place(self) -> DeltaPlace:
        """The location of the table."""
        return DeltaPlace(str(self.uri), self.storage_options, self.filesystem)

    def record_schema(self) -> Type:
        """Return the schema of the rows: the columns of data files, and behind them those by which the table is partitioned."""
        try:
            table = self.place.open(SourceNotReadable, self.version)
            columns, partition = pa.schema(table.schema().to_arrow()), table.metadata().partition_columns
            counts = pa.table(table.get_add_actions(flatten=True))
        except SourceNotReadable:
            raise NotVectorizable("the table cannot be inspected") from None
        names = [name for name in columns.names if name not in partition]
        begin = "null_count."
        null = {
            name.removeprefix(begin)
            for name in counts.column_names
            if name.startswith(begin) and compute.sum(counts[name]).as_py()
        }
        return schema_of_file(pa.schema([columns.field(name) for name in [*names, *partition]]), null)

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator, which reads the table's log."""
        return DeltaEnumerator(self)

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make a reader of data files."""
        return DeltaReader(self.place, context)


class DeltaEnumerator(SplitEnumerator):
    """Hands out files, those of older versions first; continuously it follows the log."""

    def __init__(self, source: DeltaSource) -> None:
        self._source, self._place = source, source.place
        self._continuously = source.monitor_continuously is not None
        if source.monitor_continuously is not None:
            self.discovery_interval = max(1, duration_ms(source.monitor_continuously))
        self._files: list[DeltaSplit] = []
        self._next = 0
        """The version that is looked at next."""

    def start(self) -> None:
        """Read which files the version has."""
        table = self._place.open(SourceNotReadable, self._source.version)
        features = set(table.protocol().reader_features or ()) - _KNOWN
        if features or table.protocol().min_reader_version == 2:
            raise SourceNotReadable(
                f"Delta table {self._source.uri!r} has features that this source does not read "
                f"({', '.join(sorted(features)) or 'columnMapping'}); write it anew without them."
            )
        if self._source.starting_version is not None:
            self._next = self._source.starting_version
            return
        self._next = table.version() + 1
        for action in pa.table(table.get_add_actions(flatten=False)).to_pylist():
            partition = action.get("partition") or action.get("partition_values") or {}
            self._files.append(DeltaSplit(file_of(action), tuple(partition.items())))

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return a file; none are left means not now, or never."""
        keeps = self._source.keeps
        while self._files:
            split = self._files.pop(0)
            if keeps is None or keeps(dict(split.partition)):
                return [split]
        return [] if self._continuously else None

    def unassigned_splits(self) -> int:
        """Return the number of waiting files."""
        return len(self._files)

    def discover(self, now: int) -> Any:
        """Read the commits of versions that are new."""
        table = self._place.open(SourceNotReadable)
        newest, found = table.version(), []
        kinds = {column.name: column.type for column in pa.schema(table.schema().to_arrow())}
        for version in range(self._next, newest + 1):
            actions = self._place.actions(version)
            if actions is None:
                raise SourceNotReadable(
                    f"version {version} of Delta table {self._source.uri!r} is not in its log any more; start "
                    "without the checkpoint, "
                    "or keep the log longer (delta.logRetentionDuration)."
                )
            found += self._added(version, actions, kinds)
        return (newest + 1, found) if newest >= self._next else None

    def _added(self, version: int, actions: list[dict[str, Any]], kinds: Mapping[str, Any]) -> list[DeltaSplit]:
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            raise SourceNotReadable(
                f"version {version} of Delta table {self._source.uri!r} changes or removes rows, and a stream "
                "only gets rows that are "
                f"added; start without the checkpoint, or after it (starting_version={version + 1})."
            )
        splits = []
        for action in (each["add"] for each in actions if "add" in each):
            if action.get("dataChange", True):
                texts = (action.get("partitionValues") or {}).items()
                partition = tuple(
                    (name, None if text in (None, "") else converter_of(kinds[name])(text)) for name, text in texts
                )
                splits.append(DeltaSplit(file_of(action), partition))
        return splits

    def add_discovered(self, found: Any) -> bool:
        """Take over files, and up to which version."""
        self._next, splits = found
        self._files += splits
        return bool(splits)

    def snapshot(self) -> Any:
        """Return the files not handed out, and the next version."""
        return self._next, list(self._files)

    def restore(self, snapshot: Any) -> None:
        """Resume there."""
        self._next, self._files = snapshot[0], list(snapshot[1])


class DeltaReader(DataFileReader):
    """Reads files, a row group at a time."""

    def __init__(self, place: DeltaPlace, context: ConnectorContext) -> None:
        super().__init__(context)
        self._place = place
        self._rows: ParquetRows | None = None

    def rows(self, split: DeltaSplit, limit: int) -> Any:
        """Read on in the file of a split."""
        try:
            file = self._rows or self._open(split)
            before = file.size
            rows = file.take(limit)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise self.failure(
                f"data file {split.id!r} of Delta table {self._place.uri!r} cannot be read "
                f"after row {split.row} ({error}); was it removed (vacuum) or damaged meanwhile? Start without the checkpoint, "
                "or restore the file."
            ) from error
        self.bytes_in.inc(file.size - before)
        return rows

    def _open(self, split: DeltaSplit) -> ParquetRows:
        files, folder = self._place.files()
        path = split.id if "://" in split.id else f"{folder}/{split.id}"
        self._rows = ParquetRows(files, path, split.row, dict(split.partition), self.schema, self.wanted)
        return self._rows

    def close(self) -> None:
        """Close the file."""
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()


# ---- A Delta table as a sink, exactly once: one commit per checkpoint.
#
# ``funken.connectors.lake`` explains how. The mark of a subtask is an *application transaction*: two committers of
# one checkpoint cannot both succeed, for Delta rejects the second.


_LEAST_SUBTASKS = 128


@dataclass(frozen=True)
class DeltaSink(Sink):
    """Writes records to a Delta table, which has to exist; readers see them when a checkpoint is complete.

    ``uri`` is a path or URI, ``storage_options`` are those of ``deltalake``, ``filesystem`` is a ``pyarrow`` file system for data
    files, if the URI does not suffice. Records have the table's columns, by name or by position.

    Raises ``SinkNotWritable`` if the table is not there, ``ValueDoesNotFit`` for a record that has not its columns.

    >>> import pyarrow as pa, tempfile
    >>> from deltalake import DeltaTable
    >>> from funken.testing import local
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = DeltaTable.create(folder, schema=pa.schema([("item", pa.string()), ("price", pa.int64())]))
    ...     prices = local([("tea", 3), {"item": "jam", "price": 5}])
    ...     _ = prices.sink_to(DeltaSink(folder))
    ...     _ = prices.get_execution_environment().execute()
    ...     sorted(row["item"] for row in DeltaTable(folder).to_pyarrow_table().to_pylist())
    ['jam', 'tea']
    """

    uri: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    filesystem: Any = field(default=None, repr=False)

    @property
    def place(self) -> DeltaPlace:
        """The location of the table."""
        return DeltaPlace(str(self.uri), self.storage_options, self.filesystem)

    def check(self) -> None:
        """Open the table, and look for columns that this sink cannot keep."""
        table = self.place.open(SinkNotWritable)
        features = set(table.protocol().writer_features or ()) - _FEATURES
        if features:
            raise SinkNotWritable(
                f"Delta table {self.uri!r} has features that this sink does not keep ({', '.join(sorted(features))}); write to a "
                "table without them."
            )

    takes_columns = True

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return DeltaWriter(self, context)

    def committer(self, context: CommitterContext) -> Committer:
        """Make the committer."""
        return DeltaCommitter(self, context)


_FEATURES = {
    "appendOnly",
    "invariants",
    "timestampNtz",
    "vacuumProtocolCheck",
    "v2Checkpoint",
    "deletionVectors",
    "domainMetadata",
}


class DeltaWriter(TableWriter):
    """Writes the records of a checkpoint to files below the table."""

    def __init__(self, sink: DeltaSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._place = sink.place

    def parquet_files(self) -> ParquetFiles:
        """Read the table's schema and partitions."""
        table = self._place.open(SinkNotWritable)
        files, folder = self._place.files()
        schema = pa.schema(table.schema().to_arrow())
        partition_by = table.metadata().partition_columns
        return ParquetFiles(files, folder, schema, partition_by, f"operator {self.context.operator!r}")


class DeltaCommitter(TableCommitter):
    """Marks are application transactions: Delta rejects a second commit with one of them."""

    def __init__(self, sink: DeltaSink, context: CommitterContext) -> None:
        super().__init__(context)
        self._place = sink.place
        self.place = f"Delta table {self._place.uri!r}"
        self.transient = (deltalake("deltalake.exceptions").DeltaError, OSError)

    def table(self) -> Any:
        """Return the newest version."""
        return self._place.open(SinkNotWritable)

    def mark(self, job_id: str, subtask: int) -> str:
        """Return the id of an application."""
        return f"funken/{job_id}/{self.operator}/{subtask}"

    def marked(self, table: Any, mark: str) -> int:
        """Return the version of an application."""
        return table.transaction_version(mark) or 0

    def marks_after(self, table: Any, since: int) -> Sequence[str]:
        """Ask for each subtask that may have been: Delta does not list applications."""
        subtasks = range(max(_LEAST_SUBTASKS, self.context.parallelism))
        marks = [self.mark(self.context.job_id, subtask) for subtask in subtasks]
        return [mark for mark in marks if self.marked(table, mark) > since]

    def files_of(self, table: Any) -> Set[str]:
        """Return the paths of the newest version."""
        return {file_of({"path": uri.rpartition("/")[2]}) for uri in table.file_uris()}

    def add(self, table: Any, files: Sequence[DataFile], marks: Mapping[str, int]) -> None:
        """Write one version: a blind append, so that no concurrent UPDATE, DELETE or MERGE of Spark conflicts with it."""
        library, actions = deltalake(), deltalake("deltalake.transaction")
        added = [
            actions.AddAction(
                file.path, file.size, {name: text_of(value) for name, value in file.partition.items()}, 0, True,
                json.dumps({"numRecords": file.rows}),
            )
            for file in files
        ]  # fmt: skip
        transactions = [library.Transaction(name, number) for name, number in marks.items()]
        table.create_write_transaction(
            added, "append", table.schema(), table.metadata().partition_columns,
            commit_properties=library.CommitProperties(
                custom_metadata={"isBlindAppend": True}, app_transactions=transactions
            ),
        )  # fmt: skip

    def remover(self) -> Callable[[str], Any]:
        """Delete below the table; ``vacuum`` removes the rest."""
        files, folder = self._place.files()
        return lambda path: files.delete_file(f"{folder}/{path}")


__all__ = ["DeltaPlace", "DeltaSink", "DeltaSource", "converter_of", "deltalake", "file_of", "text_of"]
