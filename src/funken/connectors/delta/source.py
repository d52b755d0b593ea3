"""A Delta table as a source: a version of it, or its versions as they come.

A split is a data file with the number of the next row. Read continuously, a version adds the files of its commit that say
that data has changed, so a compaction adds nothing; a commit that removes data fails the job, for a stream cannot take
records back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import pyarrow as pa
from pyarrow import compute

from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    NeedSplits,
    QueuedReader,
    Source,
    SourceReader,
    SplitEnumerator,
    Wait,
)
from funken.connectors.context import ConnectorContext
from funken.connectors.delta.table import DeltaPlace, converter_of, file_of
from funken.connectors.formats.arrow_columns import schema_of_file
from funken.connectors.lake import ParquetRows
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable
from funken.expr.types import Type
from funken.io.durations import DurationLike, duration_ms

_KNOWN = {"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"}


@dataclass(frozen=True)
class DeltaSplit:
    """A data file, the values of its partition's columns, and the number of the next row."""

    id: str
    partition: tuple[tuple[str, Any], ...] = ()
    row: int = 0


@dataclass(frozen=True)
class DeltaSource(Source):
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
        """Where the table is."""
        return DeltaPlace(str(self.uri), self.storage_options, self.filesystem)

    def record_schema(self) -> Type:
        """Return the schema of the rows: the columns of data files, and behind them those by which the table is partitioned."""
        try:
            table = self.place.open(SourceNotReadable, self.version)
            columns, partition = pa.schema(table.schema().to_arrow()), table.metadata().partition_columns
            counts = pa.table(table.get_add_actions(flatten=True))
        except SourceNotReadable:
            raise NotVectorizable("the table cannot be looked into") from None
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
        if self._files:
            return [self._files.pop(0)]
        return [] if self._continuously else None

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


class DeltaReader(QueuedReader):
    """Reads files, a row group at a time."""

    def __init__(self, place: DeltaPlace, context: ConnectorContext) -> None:
        super().__init__(context)
        self._place = place
        self._rows: ParquetRows | None = None
        #: of the columns that are read, if they are: the schema, and which of its leaves
        self._columns: tuple[Type | None, Sequence[int] | None] = None, None
        self._count = context.metrics.counter("numRecordsRead")

    def read_record_columns(self, schema: Type, wanted: Sequence[int] | None) -> None:
        """Make blocks of columns."""
        self._columns = schema, wanted
        self.close()  # what it has read may lack fields; it goes on at the next row

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next rows of the file at the front."""
        while self.queue:
            split = self.queue[0]
            try:
                file = self._rows or self._open(split)
                before = file.size
                rows = file.take(limit)
            except (OSError, pa.ArrowException, ValueError) as error:
                raise self._failure(split, error) from error
            self.bytes_in.inc(file.size - before)
            if len(rows):
                self.queue[0] = replace(split, row=split.row + len(rows))
                self._count.inc(len(rows))
                return Batch(rows, split=split.id)
            self.close()
            self.end_split()
        return NEED_SPLITS

    def _open(self, split: DeltaSplit) -> ParquetRows:
        files, folder = self._place.files()
        path = split.id if "://" in split.id else f"{folder}/{split.id}"
        self._rows = ParquetRows(files, path, split.row, dict(split.partition), *self._columns)
        return self._rows

    def _failure(self, split: DeltaSplit, error: Exception) -> SourceNotReadable:
        return self.failure(
            f"data file {split.id!r} of Delta table {self._place.uri!r} cannot be read "
            f"after row {split.row} ({error}); was it removed (vacuum) or damaged meanwhile? Start without the checkpoint, or "
            "restore the file."
        )

    def close(self) -> None:
        """Close the file."""
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()


__all__ = ["DeltaSource"]
