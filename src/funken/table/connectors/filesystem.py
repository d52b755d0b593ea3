"""``'connector' = 'filesystem'``: a folder of files as a table, with a folder ``key=value`` per partition.

Parquet and ORC are read as columns, and of those only the ones that a query needs; JSON becomes columns a piece of lines at a
time. Other formats are read row by row. All are written block by block.
"""

from __future__ import annotations

import datetime
import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.expressions import NotVectorizable
from funken.config.configuration import warn
from funken.connectors.base import ConnectorContext
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.compaction import FileCompactStrategy
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.file_format import BulkFormat, BulkWriter, FileFormat, FileSplit, RecordReader
from funken.connectors.files.line_files import LineFormat
from funken.connectors.files.part_files import OutputFileConfig, RollingPolicy
from funken.connectors.files.sink import FileSink
from funken.connectors.files.source import FileSource
from funken.connectors.formats.arrow import ArrowRecords
from funken.connectors.reading import MalformedRecordPolicy
from funken.connectors.sink import Sink
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.sql.texts import zone_of
from funken.io.filesystem import absolute, locate
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import (
    FieldComparison,
    ScanTable,
    SinkTable,
    SourceCondition,
    TableContext,
    fulfilled,
)
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.folders import (
    BatchWriter,
    BlockLines,
    Folders,
    FolderSink,
    PartitionTimes,
    TableDocuments,
    files_below,
    folder_of,
    folder_values,
    is_empty,
    partition_value,
)
from funken.table.connectors.formats import (
    Columns,
    CsvTableRows,
    RawRows,
    TableFormat,
    check_format,
    format_names,
    format_options,
    table_format,
)
from funken.table.connectors.json_values import JsonReader, JsonRules, avro_type
from funken.table.connectors.options import (
    ConnectorOption,
    OptionValues,
    at_least,
    boolean,
    duration,
    integer,
    memory_bytes,
    one_of,
    positive,
    refused,
    text,
)
from funken.table.types import LogicalType, arrow_type
from funken.types.row import Row


def _zone(value: str) -> str:
    zone_of(value)
    return value


def _regex(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(str(error)) from None
    return value


_JAVA = "a policy of one's own is a class of Java; use 'success-file', or watch the folder"
_OPTIONS = (
    ConnectorOption("path"),
    ConnectorOption("format"),
    ConnectorOption("source.monitor-interval", at_least(1, duration, "1 ms"), None),
    ConnectorOption("source.path.regex-pattern", _regex, None),
    ConnectorOption("source.report-statistics", one_of("all", "none"), "all"),
    ConnectorOption("partition.default-name", text, "__DEFAULT_PARTITION__"),
    ConnectorOption("sink.rolling-policy.file-size", at_least(1, memory_bytes, "1 b"), 128 << 20),
    ConnectorOption("sink.rolling-policy.rollover-interval", at_least(1, duration, "1 ms"), 30 * 60_000),
    ConnectorOption("sink.rolling-policy.inactivity-interval", at_least(1, duration, "1 ms"), 30 * 60_000),
    ConnectorOption(
        "sink.rolling-policy.check-interval", duration, 60_000, unused="files are looked at with each block of rows"
    ),
    ConnectorOption("sink.shuffle-by-partition.enable", boolean, False, unused="each subtask writes its rows"),
    ConnectorOption("sink.parallelism", positive, None),
    ConnectorOption("sink.partition-commit.policy.kind", text, None),
    ConnectorOption("sink.partition-commit.policy.class", refused(_JAVA), None),
    ConnectorOption("sink.partition-commit.policy.class.parameters", refused(_JAVA), None),
    ConnectorOption("sink.partition-commit.trigger", one_of("process-time", "partition-time"), "process-time"),
    ConnectorOption("sink.partition-commit.delay", duration, 0),
    ConnectorOption("sink.partition-commit.watermark-time-zone", _zone, "UTC"),
    ConnectorOption("partition.time-extractor.kind", one_of("default"), "default"),
    ConnectorOption("partition.time-extractor.class", text, None, unused="the kind of the extractor is 'default'"),
    ConnectorOption("partition.time-extractor.timestamp-pattern", text, None),
    ConnectorOption("partition.time-extractor.timestamp-formatter", text, None),
    ConnectorOption("sink.partition-commit.success-file.name", text, "_SUCCESS"),
    ConnectorOption("auto-compaction", boolean, False),
    ConnectorOption("compaction.file-size", memory_bytes, None),
    ConnectorOption("compaction.parallelism", integer, None, unused="a writer puts its own files together"),
)
_COLUMN_OPTIONS = {
    "parquet": (
        ConnectorOption("parquet.compression", text, None),
        ConnectorOption("parquet.utc-timezone", boolean, False, unused="times are written and read in UTC"),
        ConnectorOption("parquet.timestamp.time.unit", one_of("micros", "millis", "nanos"), "micros"),
        ConnectorOption("parquet.write.int64.timestamp", boolean, None),
        ConnectorOption("parquet.batch-size", integer, None, unused="row groups are read in blocks of the job"),
    ),
    "orc": (ConnectorOption("orc.compress", text, None),),
    "avro": (
        ConnectorOption("avro.codec", text, None),
        ConnectorOption("avro.timestamp_mapping.legacy", boolean, True),
    ),
}
"""The options of formats of whole files."""
_OF_FILES = {"csv": (ConnectorOption("csv.ignore-first-line", boolean, False),)}
"""The options that formats of messages have in files only."""
_SCIENTIFIC = "write-bigdecimal-in-scientific-notation"

_NO_NAMES = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "BINARY", "VARBINARY"})
"""Types that no key of partitions has."""
_METADATA = {
    "file.path": "STRING NOT NULL",
    "file.name": "STRING NOT NULL",
    "file.size": "BIGINT NOT NULL",
    "file.modification-time": "TIMESTAMP_LTZ(3) NOT NULL",
}

# ---- reading


class BatchRecords(ArrowRecords):
    """The rows of a split as batches of columns; a batch counts as one record, positions count rows."""

    _rows = 16_384

    def next(self) -> Sequence[Any]:
        """Return the next batch; the end is behind those that are not read."""
        found = super().next()
        while not found and self._size:
            found = super().next()
        return found

    def _made(self, batch: Any) -> list[Any]:
        return [] if isinstance(batch, SkippedRows) else [batch]

    def position(self, taken: int) -> int:
        """Return the number of finished rows of the split."""
        return self._row + (self._size if taken else 0)


_UNITS = {"millis": "ms", "micros": "us", "nanos": None}


def _batches(groups: Any, names: Sequence[str], split: FileSplit) -> BatchRecords:
    there = set(groups.names)
    return BatchRecords(groups, None, [name for name in names if name in there], split.position or 0)  # type: ignore[arg-type]


class SkippedRows:
    """A group of rows, and a batch of them, that is not read; its rows count for positions."""

    def __init__(self, rows: int) -> None:
        self.num_rows = rows

    def batches(self, names: Sequence[str], rows: int) -> Iterator[SkippedRows]:
        """Yield all of the rows at once."""
        yield self

    def slice(self, begin: int) -> SkippedRows:
        """Return the rows from one on."""
        return SkippedRows(self.num_rows - begin)


@dataclass(frozen=True)
class ParquetBatches(ParquetFormat):
    """Parquet files as batches of some columns; groups of rows whose statistics exclude a comparison are not read."""

    comparisons: tuple[FieldComparison, ...] = ()
    int64: bool | None = None
    """Whether timestamps are written as INT64 and not as INT96; ``None``: unless one is within another value."""
    unit: str = "micros"
    """The unit of timestamps that are written as INT64."""

    def open_writer(self, file: IO[bytes], schema: Any) -> Any:
        """Make Arrow's writer. Flink reads timestamps within other values as INT96 only."""
        is_nested = any(pa.types.is_nested(each.type) and "timestamp" in str(each.type) for each in schema)
        int64 = not is_nested if self.int64 is None else self.int64
        times = {"coerce_timestamps": _UNITS[self.unit], "allow_truncated_timestamps": True}
        return self._arrow_writer(file, schema, **(times if int64 else {"use_deprecated_int96_timestamps": True}))

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read the groups of rows that begin in a range."""
        groups = self._groups(file, split)
        if self.comparisons:
            groups.groups = [
                (rows, group if self._may_hold(group) else SkippedRows(rows)) for rows, group in groups.groups
            ]
        return _batches(groups, self.fields or (), split)

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Write a new file."""
        return BatchWriter(self, file, None)

    def _may_hold(self, group: Any) -> bool:
        """Return True if a row of a group may fulfil all comparisons."""
        about = group.file.metadata.row_group(group.index)
        columns = {about.column(place).path_in_schema: about.column(place) for place in range(about.num_columns)}
        schema = group.file.schema_arrow
        for one in self.comparisons:
            place = schema.get_field_index(one.column)
            statistics = columns[one.column].statistics if place >= 0 and one.column in columns else None
            if statistics is None or schema.field(place).type != arrow_type(one.type):
                continue
            if one.operator == "IS NULL":
                if statistics.has_null_count and not statistics.null_count:
                    return False
            elif not statistics.has_min_max:
                if statistics.has_null_count and not statistics.num_values:
                    return False
            elif not one.may_hold(*_bounds(statistics, schema.field(place).type)):
                return False
        return True


def _bounds(statistics: Any, kind: Any) -> tuple[Any, Any]:
    """Return the least and the greatest value of a column of numbers, times or texts, as SQL handles them."""
    if not hasattr(kind, "unit"):
        return (statistics.min, statistics.max) if str(kind) == "string" else (statistics.min_raw, statistics.max_raw)
    factor = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[kind.unit]
    return statistics.min_raw * factor, statistics.max_raw * factor


_MOST_FILES = 64
"""The ends of so many files are read to plan a query; the others are taken to be like these."""


def parquet_statistics(path: str) -> tuple[int, dict[str, int]] | None:
    """Return the rows of Parquet files, and of columns of whole numbers the width of their range; ``None``: unreadable."""
    parquet = importlib.import_module("pyarrow.parquet")
    files, base = locate(absolute(path))
    names = files_below(path) or ("",)
    rows, bounds = 0, dict[str, tuple[int, int]]()
    try:
        for name in names[:_MOST_FILES]:
            with files.open(f"{base.rstrip('/')}/{name}".rstrip("/")) as file:
                about = parquet.ParquetFile(file).metadata
                rows += about.num_rows
                for group in map(about.row_group, range(about.num_row_groups)):
                    for column in map(group.column, range(group.num_columns)):
                        found = column.statistics
                        if found is not None and found.has_min_max and isinstance(found.min_raw, int):
                            low, high = bounds.get(column.path_in_schema, (found.min_raw, found.max_raw))
                            bounds[column.path_in_schema] = min(low, found.min_raw), max(high, found.max_raw)
    except (OSError, ValueError):  # reading the table says what is wrong
        return None
    known = {name: high - low + 1 for name, (low, high) in bounds.items()}
    return rows * len(names) // min(len(names), _MOST_FILES), known


@dataclass(frozen=True)
class OrcBatches(OrcFormat):
    """ORC files as batches of some columns."""

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read the stripes that begin in a range."""
        return _batches(self._groups(file, split), self.fields or (), split)

    def create(self, file: IO[bytes]) -> BulkWriter:
        """Write a new file."""
        return BatchWriter(self, file, None)


@dataclass(frozen=True)
class TableFiles(FileFormat):
    """Files as rows of a table: the columns of a format, of the folders of partitions, and about the file.

    ``names`` are the columns of a row in order: physical ones, and keys of metadata behind ``data``.
    """

    inner: FileFormat
    kind: str
    data: Columns
    """The columns that are in files."""
    partitions: Columns
    names: tuple[str, ...]
    metadata: tuple[str, ...]
    default_name: str
    csv: CsvTableRows | None = None
    limit: int | None = None
    """Number of rows of each split that are read; ``None``: all."""
    conditions: tuple[SourceCondition, ...] = ()
    """The conditions that partitions have to fulfil to be read."""

    @property
    def splittable(self) -> bool:  # type: ignore[override]
        """True if several readers can share a file."""
        return self.inner.splittable

    @property
    def container(self) -> bool:  # type: ignore[override]
        """True if compression is inside of the format."""
        return self.inner.container

    @property
    def makes_blocks(self) -> bool:  # type: ignore[override]
        """Return True if the format makes blocks."""
        return self.inner.makes_blocks

    def counts(self, split: FileSplit) -> str:
        """Return the name of positions."""
        return self.inner.counts(split)

    def record_schema(self, first: Any) -> Any:
        """Refuse columns of Python's types: batches have SQL's."""
        raise NotVectorizable("reads a table")

    def reader(self, file: IO[bytes], split: FileSplit, context: ConnectorContext) -> RecordReader:
        """Read a split."""
        constants = {**self._of_folders(split), **_of_file(split)}
        inner = self.inner.reader(file, split, context)
        if self.limit is not None:
            inner = FirstRows(inner, self.limit)
        if self.conditions:
            values = tuple(constants[name] for name, _ in self.partitions)
            if not fulfilled(self.conditions, self.partitions, [values])[0]:
                inner = FirstRows(inner, 0)
        if self.kind in ("parquet", "orc"):
            return TableBatches(inner, self, constants)
        return TableRows(inner, self, constants)

    def _of_folders(self, split: FileSplit) -> dict[str, Any]:
        found: dict[str, Any] = {}
        folders = folder_values(folder_of(split.file.path))
        for name, type_ in self.partitions:
            if name not in folders:
                raise ValueError(f"its path has no folder '{name}=...', but {name!r} is a key of partitions")
            value = folders[name]
            found[name] = None if value == self.default_name else partition_value(value, type_)
        return found

    def types(self) -> list[LogicalType]:
        """Return the types of a row, without those of metadata."""
        known = dict((*self.data, *self.partitions))
        return [known[name] for name in self.names]


def _of_file(split: FileSplit) -> dict[str, Any]:
    file = split.file
    return {
        "$file.path": file.path,
        "$file.name": file.path.rsplit("/", 1)[-1],
        "$file.size": file.size,
        "$file.modification-time": datetime.datetime.fromtimestamp(getattr(file, "modified", 0) / 1e9, datetime.UTC),
    }


class TableRows:
    """The rows of a split."""

    def __init__(self, inner: RecordReader, format_: TableFiles, constants: dict[str, Any]) -> None:
        self._inner = inner
        names = [name for name, _ in format_.data]
        self._parts = [
            (names.index(name), None) if name in names else (-1, constants[name]) for name in format_.names
        ] + [(-1, constants[f"${key}"]) for key in format_.metadata]
        self._same = self._parts == [(index, None) for index in range(len(names))]
        self._csv, self._batches = format_.csv, TableBatches(inner, format_, constants)
        self._documents = JsonReader(format_.data, JsonRules(of_avro=True)) if format_.kind == "avro" else None

    def next(self) -> Any:
        """Return the next rows, or a block of them."""
        records: Any = self._inner.next()
        if hasattr(records, "batch"):
            if self._same:
                return records
            made = self._batches.completed(records.batch)
            return records.with_columns(made.columns, made.schema)
        if self._csv is not None:
            records = [self._csv.row_of(tuple(record))[0] for record in records]
        elif self._documents is not None:
            records = [Row(*self._documents.read_values(record)) for record in records]
        if self._same:
            return records
        return [
            Row.of_kind(row.get_row_kind(), *(row[index] if index >= 0 else value for index, value in self._parts))
            for row in records
        ]

    def position(self, taken: int) -> Any:
        """Return the position behind some rows."""
        return self._inner.position(taken)


class TableBatches:
    """The rows of a split as batches of Arrow."""

    def __init__(self, inner: RecordReader, format_: TableFiles, constants: dict[str, Any]) -> None:
        self._inner = inner
        self._parts = [
            (name, arrow_type(type_), constants.get(name))
            for name, type_ in zip(format_.names, format_.types(), strict=True)
        ]
        self._parts += [(f"${key}", None, constants[f"${key}"]) for key in format_.metadata]
        # ORC fills a CHAR with spaces.
        is_orc = format_.kind == "orc"
        self._padded = {name for name, type_ in format_.data if is_orc and type_.root == "CHAR"}

    def next(self) -> Sequence[Any]:
        """Return the next batch, or none at the end."""
        return [self.completed(batch) for batch in self._inner.next()]

    def completed(self, batch: Any) -> Any:
        """Put the columns of a batch into order, and add those of folders and about the file."""
        there, rows = set(batch.schema.names), batch.num_rows
        arrays = []
        for name, kind, constant in self._parts:
            if name in there:
                column = batch.column(name)
                if name in self._padded:
                    column = pc.utf8_rtrim(column, " ")
                arrays.append(column if kind is None or column.type == kind else column.cast(kind, safe=False))
            else:
                arrays.append(pa.repeat(pa.scalar(constant, kind), rows))
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _, _ in self._parts])

    def position(self, taken: int) -> Any:
        """Return the position behind some batches."""
        return self._inner.position(taken)


class FirstRows:
    """Some rows of a split; the rest is not read."""

    def __init__(self, inner: RecordReader, count: int) -> None:
        self._inner, self._left = inner, count

    def next(self) -> Any:
        """Return the next rows or batches, or none at the end."""
        if self._left <= 0:
            return []
        records = self._inner.next()
        if isinstance(records, list) and records and hasattr(records[0], "num_rows"):
            batches: list[Any] = []
            for batch in records:
                if self._left > 0:
                    batches.append(batch.slice(0, self._left))
                    self._left -= batches[-1].num_rows
            return batches
        found: Any = records[: self._left]
        self._left -= len(found)
        return found

    def position(self, taken: int) -> Any:
        """Return the position behind some rows or batches."""
        return self._inner.position(taken)


class FilesScan(ScanTable):
    """Reads the files of a folder, once or as they come."""

    def __init__(
        self, context: TableContext, options: OptionValues, format_: TableFormat | None, names: Sequence[str]
    ) -> None:
        self._context = context
        self._options = options
        self._format = format_
        self._names = tuple(names)
        self.changelog_mode = ChangelogMode.insert_only() if format_ is None else format_.changelog_mode
        self.bounded = options["source.monitor-interval"] is None
        self._conditions: tuple[SourceCondition, ...] = ()
        self._comparisons: tuple[FieldComparison, ...] = ()
        self._limit: int | None = None

    def _like(self, names: Sequence[str]) -> FilesScan:
        found = FilesScan(self._context, self._options, self._format, names)
        found._conditions, found._comparisons, found._limit = self._conditions, self._comparisons, self._limit
        found.doubt, found.delimiters = self.doubt, self.delimiters
        return found

    def limited(self, count: int) -> ScanTable | None:
        """Return a scan of the first rows of each split: that many are enough, whichever come first."""
        found = self._like(self._names)
        found._limit = count
        return found

    def filtered(self, conditions: Sequence[SourceCondition]) -> tuple[ScanTable, tuple[int, ...]]:
        """Return a scan of the partitions, and groups of rows of Parquet, that may fulfil conditions."""
        keys = set(self._context.partition_keys)
        of_keys = [
            place for place, one in enumerate(conditions) if one.columns and one.columns <= keys and not one.zoned
        ]
        compared = {}
        for place, one in enumerate(conditions if self._options["format"] == "parquet" else ()):
            comparison = one.comparison()
            if comparison is not None and comparison.has_bounds and comparison.column not in keys:
                compared[place] = comparison
        found = self._like(self._names)
        found._conditions = tuple(conditions[place] for place in of_keys)
        found._comparisons = tuple(compared.values())
        return found, tuple(sorted([*of_keys, *compared]))

    def _partitions(self) -> list[str]:
        """Return the folders of partitions that fulfil the conditions, relative to the path."""
        columns = [(name, type_) for name, type_ in self._context.columns if name in self._context.partition_keys]
        default = self._options["partition.default-name"]
        folders, rows = [], []
        for folder in sorted({folder_of(file) for file in files_below(self._options["path"])}):
            values = folder_values(folder)
            folders.append(folder)
            if any(name not in values for name, _ in columns):
                return [""]  # the source says what is wrong
            rows.append(
                tuple(
                    None if values[name] == default else partition_value(values[name], type_) for name, type_ in columns
                )
            )
        return [
            folder
            for folder, is_read in zip(folders, fulfilled(self._conditions, columns, rows), strict=True)
            if is_read
        ]

    def selected(self, names: Sequence[str]) -> ScanTable | None:
        """Return a scan of some columns of Parquet, ORC or JSON, where they are found by their names."""
        if self._options["format"] not in ("parquet", "orc", "json") or not set(names) <= set(self._context.names):
            return None
        return self._like(names)

    def statistics(self) -> tuple[int, dict[str, int]] | None:
        """Return what the ends of Parquet files say, unless the table is to keep that to itself."""
        if (
            self._options["format"] != "parquet"
            or self._options["source.report-statistics"] == "none"
            or not self.bounded
        ):
            return None
        return parquet_statistics(self._options["path"])

    def _files(self) -> TableFiles:
        context, options = self._context, self._options
        kind = options["format"]
        data = tuple((name, type_) for name, type_ in context.columns if name not in context.partition_keys)
        if kind == "json":
            data = tuple(each for each in data if each[0] in self._names)
        partitions = tuple((name, type_) for name, type_ in context.columns if name in context.partition_keys)
        read = tuple(name for name, _ in data if name in self._names)
        csv = None
        inner: FileFormat
        if kind == "parquet":
            inner = ParquetBatches(fields=read, comparisons=self._comparisons)
        elif kind == "orc":
            inner = OrcBatches(fields=read)
        elif self._format is None:
            inner = AvroFormat()
        else:
            decoder = self._format.decoder(data)
            if isinstance(decoder, CsvTableRows):
                policy = MalformedRecordPolicy.SKIP if decoder.ignores_errors else MalformedRecordPolicy.FAIL
                inner = CsvReaderFormat(decoder.texts, malformed=policy, skip_first_row=decoder.skips_first_line)
                csv = decoder
            else:
                inner = LineFormat(decoder, MalformedRecordPolicy.FAIL, keeps_empty_lines=isinstance(decoder, RawRows))
        metadata = tuple(key for key, _ in context.metadata)
        return TableFiles(
            inner, kind, data, partitions, self._names, metadata, options["partition.default-name"], csv, self._limit,
            self._conditions,
        )  # fmt: skip

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        path = self._options["path"]
        if self.bounded and (is_empty(path) or (self._context.partition_keys and not files_below(path))):
            if absolute(path) not in _written:
                warn(
                    f"table {self._context.path!r}: {path!r} holds no files, so the table is empty. Names that begin with '.' or "
                    "'_' do not count; correct 'path', or read the files to come with 'source.monitor-interval'."
                )
            return env.from_collection([]).name(self._context.path)
        paths = [path]
        if self._conditions and self._context.batch and self.bounded:  # a stream lists what it always listed
            paths = [f"{path.rstrip('/')}/{folder}" for folder in self._partitions()]
            if not paths:
                return env.from_collection([]).name(self._context.path)
        builder = FileSource.for_format(self._files(), *paths)
        if not self.bounded:
            builder = builder.monitor_continuously(self._options["source.monitor-interval"])
        source = replace(builder.build(), path_pattern=self._options["source.path.regex-pattern"])
        return env.from_source(source, None, self._context.path)


_written: set[str] = set()
"""The paths of tables that this process writes: an empty one is no mistake."""


class FilesSink(SinkTable):
    """Writes files, which become visible with checkpoints."""

    def __init__(self, context: TableContext, options: OptionValues, format_: TableFormat | None) -> None:
        self._context = context
        self._options = options
        self._format = format_
        self._replaced: tuple[str, ...] | None = None
        _written.add(absolute(options["path"]))
        self.changelog_mode = ChangelogMode.insert_only() if format_ is None else format_.changelog_mode

    supports_overwrite = True
    block_place = 1

    def overwriting(self, partition: Mapping[str, str]) -> SinkTable:
        """Return a sink that replaces the files of each partition that it writes, or those of a table without partitions."""
        found = FilesSink(self._context, self._options, self._format)
        found._replaced = files_below(self._options["path"])
        return found

    def _folders(self, sink: FileSink) -> Sink:
        """Return a sink that also marks folders, if the table wants that."""
        options = self._options
        kinds = [one.strip() for one in (options["sink.partition-commit.policy.kind"] or "").split(",") if one.strip()]
        for kind in kinds:
            if kind != "success-file":
                raise InvalidProgram(
                    f"Table {self._context.path!r}: the policy {kind!r} of 'sink.partition-commit.policy.kind' is not supported. "
                    "Use 'success-file', or watch the folder."
                )
        keys = tuple(self._context.partition_keys)
        # The folder of a table without partitions is complete at the end of a batch.
        name = options["sink.partition-commit.success-file.name"] if kinds and (keys or self._context.batch) else None
        columns = tuple((name, place, type_) for place, (name, type_) in enumerate(self._context.columns))
        folders = Folders(columns, keys, options["partition.default-name"])
        times = None
        if keys and options["sink.partition-commit.trigger"] == "partition-time":
            pattern = options["partition.time-extractor.timestamp-pattern"]
            formatter = options["partition.time-extractor.timestamp-formatter"]
            zone = options["sink.partition-commit.watermark-time-zone"]
            times = PartitionTimes(keys, pattern, formatter, zone)
        delay = options["sink.partition-commit.delay"]
        return FolderSink(sink, folders, self._replaced, name, delay, times)

    @property
    def block_parallelism(self) -> int | None:  # type: ignore[override]
        """Return the number of subtasks that write."""
        parallelism: int | None = self._options["sink.parallelism"]
        return parallelism

    @property
    def block_sink(self) -> Sink:
        """Return the sink of the files."""
        context, options = self._context, self._options
        data = tuple((name, type_) for name, type_ in context.columns if name not in context.partition_keys)
        rolling = RollingPolicy(
            options["sink.rolling-policy.file-size"],
            options["sink.rolling-policy.rollover-interval"],
            options["sink.rolling-policy.inactivity-interval"],
        )
        if self._format is None:
            builder = FileSink.for_bulk_format(options["path"], self._bulk_format(data))
        else:
            encoder = BlockLines(self._format.encoder(data), columns=data)
            builder = FileSink.for_row_format(options["path"], encoder)
            builder = builder.with_output_file_config(
                OutputFileConfig(part_suffix=_SUFFIXES.get(options["format"], ""))
            )
        builder = builder.with_rolling_policy(rolling)
        if options["auto-compaction"]:
            size = options["compaction.file-size"] or options["sink.rolling-policy.file-size"]
            compaction = FileCompactStrategy.builder().set_size_threshold(size).enable_compaction_on_checkpoint(1)
            builder = builder.enable_compact(compaction.build())
        return self._folders(builder.build())

    def _bulk_format(self, data: Columns) -> BulkFormat:
        kind, options = self._options["format"], self._options
        if kind == "avro":
            import json  # noqa: PLC0415 - only for Avro

            schema = json.dumps(avro_type(data, options["avro.timestamp_mapping.legacy"]))
            return TableDocuments(AvroFormat(schema, codec=options["avro.codec"] or "null"), data)
        compression = options["parquet.compression" if kind == "parquet" else "orc.compress"]
        codec = compression.lower() if compression else None
        if kind == "orc":
            return OrcBatches(compression=codec)
        int64, unit = options["parquet.write.int64.timestamp"], options["parquet.timestamp.time.unit"]
        return ParquetBatches(compression=codec, int64=int64, unit=unit)


_SUFFIXES = {"csv": ".csv", "json": ".json"}


class FilesystemFactory(TableFactory):
    """Makes tables of folders.

    >>> FilesystemFactory().scan(TableContext("t", options={"connector": "filesystem", "path": "/in", "format": "jsn"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: Table 't' has format 'jsn', which is unknown here. Did you mean 'json'? Available: ...
    """

    metadata = _METADATA

    def _parts(self, context: TableContext) -> tuple[OptionValues, TableFormat | None]:
        name = context.options.get("format")
        known = sorted({*format_names(), *_COLUMN_OPTIONS} - {"avro-confluent", "debezium-avro-confluent", "protobuf"})
        if name is None:
            return OptionValues(context.path, context.options, _OPTIONS), None
        check_format(context.path, name, known)
        own = _COLUMN_OPTIONS.get(name)
        declared = (*_OPTIONS, *(format_options(context.path, name) if own is None else own), *_OF_FILES.get(name, ()))
        options = OptionValues(context.path, context.options, declared)
        missing = [key for key in context.partition_keys if key not in context.names]
        if missing:
            raise InvalidProgram(
                f"Table {context.path!r} is partitioned by {missing[0]!r}, which is none of its columns."
            )
        types = dict(context.columns)
        for key in context.partition_keys:
            if types[key].root in _NO_NAMES:
                raise InvalidProgram(
                    f"Table {context.path!r}: the key {key!r} of the partitions has type {types[key]}, and no name of a folder "
                    "has such a value. Partition by text, numbers or times."
                )
        more = {}
        if name == "csv":
            more["ignore-first-line"] = options["csv.ignore-first-line"]
            # Of files Flink writes decimals in scientific notation, unless told otherwise; of messages, all their digits.
            more[_SCIENTIFIC] = options[f"csv.{_SCIENTIFIC}"] is not False
        return options, None if own is not None else table_format(context.path, name, options, **more)

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the files."""
        options, format_ = self._parts(context)
        return FilesScan(context, options, format_, context.names)

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink to files."""
        if context.names and set(context.names) <= set(context.partition_keys):
            raise InvalidProgram(
                f"Table {context.path!r} has no column beside the keys of its partitions, so its files would have no data. "
                "Declare one."
            )
        return FilesSink(context, *self._parts(context))
