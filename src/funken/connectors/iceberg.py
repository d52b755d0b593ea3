"""Iceberg tables: a sink with one commit per checkpoint, a snapshot as a bounded source, and how a catalog is reached.

How an Iceberg catalog is reached: the only module that imports ``pyiceberg``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from typing import Any

import pyarrow as pa
from pyarrow import compute, fs

from funken import extras
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import NOT_READ
from funken.connectors.base import (
    CommitterContext,
    ConnectorContext,
    Source,
    SourceReader,
)
from funken.connectors.formats.arrow_columns import schema_of_file
from funken.connectors.lake import DataFile, DataFileReader, ParquetFiles, TableCommitter, TableWriter, block_of_table
from funken.connectors.schemas import Document
from funken.connectors.sink import Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, JobExecutionError, SinkNotWritable, SourceNotReadable
from funken.expr.types import Type, outer_fields
from funken.types.convert import parquet_file, python_rows


def pyiceberg(module: str) -> Any:
    """Return a module of the library; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(f"pyiceberg.{module}", "iceberg", "the Iceberg connectors need pyiceberg")


@dataclass(frozen=True)
class IcebergCatalog:
    """A catalog by its name and ``pyiceberg``'s properties; without properties, those of ``~/.pyiceberg.yaml``.

    >>> IcebergCatalog("lake", {"type": "sql", "uri": "postgresql+psycopg://ada:secret@host/lake", "warehouse": "s3://lake"})
    IcebergCatalog(name='lake')
    """

    name: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be passwords in it

    def load(self) -> Any:
        """Connect."""
        return pyiceberg("catalog").load_catalog(self.name, **self.properties)

    def table(self, identifier: str, fail: type[JobExecutionError]) -> Any:
        """Return a table as it is now; raises ``fail`` if it or the catalog is not there."""
        errors = pyiceberg("exceptions")
        try:
            return self.load().load_table(identifier)
        except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
            raise fail(
                f"catalog {self.name!r} has no Iceberg table {identifier!r}; create it, or correct its name (with its namespace)."
            ) from None
        except EnvironmentNotReady:
            raise
        except Exception as error:
            # Its text may have the address of the catalog with a password in it, so only the kind of error is told.
            raise fail(
                f"Iceberg catalog {self.name!r} cannot be used ({type(error).__name__}); correct its properties, start it, or "
                "allow this user to read it."
            ) from error


# ---- A snapshot of an Iceberg table as a bounded source.
#
# A split is a data file; the tasks plan the same scan of the same snapshot again and read their files of it, with
# the table's own reader: so deletions, renamed columns and partitions are its business. The position in a file is
# the number of the next row.


@dataclass(frozen=True)
class IcebergSplit:
    """A data file of a snapshot, and the number of the next row, of those that ``row_filter`` lets through."""

    id: str
    snapshot: int
    row: int = 0
    row_filter: str = ""


@dataclass(frozen=True)
class IcebergSource(Source[Document]):
    """The rows of a table, as dicts: of its newest snapshot, or of ``snapshot_id``; ``columns`` are those that are read.

    Raises ``SourceNotReadable`` if the catalog, the table or the snapshot is not there.

    >>> import pyarrow as pa, tempfile
    >>> from funken import StreamExecutionEnvironment
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lake = IcebergCatalog("lake", {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}"})
    ...     lake.load().create_namespace("shop")
    ...     prices = pa.table({"item": ["tea", "jam"], "price": [3, 5]})
    ...     lake.load().create_table("shop.prices", prices.schema).append(prices)
    ...     env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    ...     env.from_source(IcebergSource(lake, "shop.prices", columns=("item",))).execute_and_collect(limit=9)
    [{'item': 'tea'}, {'item': 'jam'}]
    """

    catalog: IcebergCatalog
    table: str
    snapshot_id: int | None = None
    columns: tuple[str, ...] = ("*",)
    row_filter: str = ""
    """A filter of ``pyiceberg``: files whose statistics or partitions exclude it are not read."""

    def scan(self, snapshot: int | None, columns: tuple[str, ...] = ()) -> Any:
        """Return the table, and the scan of a snapshot, of some ``columns`` only."""
        table = self.catalog.table(self.table, SourceNotReadable)
        chosen = {"row_filter": self.row_filter} if self.row_filter else {}
        return table, table.scan(snapshot_id=snapshot, selected_fields=columns or self.columns, **chosen)

    def record_schema(self) -> Type:
        """Return the schema of the rows."""
        try:
            return schema_of_file(self.scan(self.snapshot_id)[1].projection().as_arrow())
        except (SourceNotReadable, ValueError):
            raise NotVectorizable("the table cannot be inspected") from None

    def list_splits(self) -> Sequence[IcebergSplit]:
        """Plan the scan."""
        table, scan = self.scan(self.snapshot_id)
        snapshot = self.snapshot_id or getattr(table.current_snapshot(), "snapshot_id", None)
        if snapshot is None:
            return ()  # nothing was ever written
        if table.snapshot_by_id(snapshot) is None:
            raise SourceNotReadable(
                f"Iceberg table {self.table!r} has no snapshot {snapshot}; was it expired? Read another one."
            )
        try:
            files = [task.file.file_path for task in scan.plan_files()]
        except ValueError as error:
            raise SourceNotReadable(
                f"Iceberg table {self.table!r} cannot be read: {error}; correct the columns."
            ) from error
        return [IcebergSplit(path, snapshot, row_filter=self.row_filter) for path in sorted(files)]

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make a reader of data files."""
        return IcebergReader(self, context)


class IcebergReader(DataFileReader):
    """Reads files, a batch of Arrow at a time."""

    def __init__(self, source: IcebergSource, context: ConnectorContext) -> None:
        super().__init__(context)
        self._source = source
        self._planned: dict[tuple[int, str], tuple[Any, dict[str, Any], Any]] = {}
        self._batches: Iterator[Any] | None = None
        self._rows: Any = []
        self._given = 0

    def read_record_columns(self, schema: Type, wanted: Sequence[int] | None) -> None:
        """Make blocks of columns; the scan is planned anew, for those that are not wanted are not read."""
        super().read_record_columns(schema, wanted)
        self._planned = {}

    def rows(self, split: IcebergSplit, limit: int) -> Any:
        """Read on in the file of a split."""
        if not self._filled(split):
            return ()
        taken = self._rows[self._given : self._given + max(1, limit)]
        self._given += len(taken)
        return taken

    def close(self) -> None:
        """Leave the file."""
        self._batches = None

    def _filled(self, split: IcebergSplit) -> bool:
        """Read on if no rows wait; false at the end of the file."""
        try:
            if self._batches is None:
                self._batches = self._open(split)
                self._skip(split.row)
            while self._given == len(self._rows):
                batch = next(self._batches, None)
                if batch is None:
                    return False
                self._rows, self._given = self._made(batch), 0
        except (OSError, pa.ArrowException, ValueError) as error:
            raise self.failure(
                f"data file {split.id!r} of Iceberg table {self._source.table!r} cannot be read after row {split.row} "
                f"({error}); was it removed or damaged? Restore it, or read another snapshot."
            ) from error
        return True

    def _skip(self, rows: int) -> None:
        self._rows, self._given = [], 0
        while rows and self._batches is not None:
            batch = next(self._batches, None)
            if batch is None:
                return
            if batch.num_rows > rows:
                self._rows = self._made(batch.slice(rows))
                return
            rows -= batch.num_rows

    def _made(self, batch: Any) -> Any:
        """Return the rows of a batch, as columns if those are read, and it has their form."""
        if self.schema is None:
            return python_rows(batch)
        names = self.schema.names
        block = block_of_table(self.schema, names, batch, self.wanted)
        if block is not None:
            return block
        return [{name: row.get(name, NOT_READ) for name in names} for row in python_rows(batch)]

    def _read(self) -> tuple[str, ...]:
        """Return the columns that are read; none: all."""
        if self.schema is None or self.wanted is None:
            return ()
        names = self.schema.names
        return tuple(names[number] for number in outer_fields(self.schema, self.wanted)) or names[:1]

    def _open(self, split: IcebergSplit) -> Iterator[Any]:
        which = split.snapshot, split.row_filter
        if which not in self._planned:
            table, scan = replace(self._source, row_filter=split.row_filter).scan(split.snapshot, self._read())
            arrow = pyiceberg("io.pyarrow").ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter)
            tasks = {task.file.file_path: task for task in scan.plan_files()}
            self._planned[which] = arrow, tasks, table.io
        arrow, tasks, io = self._planned[which]
        if split.id not in tasks:
            raise SourceNotReadable(
                f"data file {split.id!r} is not in snapshot {split.snapshot} of Iceberg table "
                f"{self._source.table!r}; start without "
                "the checkpoint."
            )
        self.bytes_in.inc(tasks[split.id].file.file_size_in_bytes)
        _refuse_far_times(io, split.id)
        batches: Iterator[Any] = iter(arrow.to_record_batches([tasks[split.id]]))
        return batches


_FIRST, _LAST = 1678, 2261
"""Years whose times all are nanoseconds of 64 bits."""


def _refuse_far_times(io: Any, path: str) -> None:
    """Raise ``ValueError`` for a file whose timestamps ``pyiceberg`` would read as others, which are of the type INT96.

    Iceberg does not write these, but tables take over files of Hive and Spark.
    """
    if not path.endswith(".parquet"):
        return
    with io.new_input(path).open() as opened, parquet_file(opened) as file:
        columns = [file.schema.column(number) for number in range(len(file.schema))]
        old = [each.path for each in columns if each.physical_type == "INT96"]
        if not old:
            return
        for batch in file.iter_batches(columns=old):
            for name, values in zip(batch.schema.names, batch.columns, strict=True):
                ends = compute.min_max(values) if pa.types.is_timestamp(values.type) else {}
                far = [
                    each.as_py() for each in ends.values() if each.is_valid and not _FIRST <= each.as_py().year <= _LAST
                ]
                if far:
                    raise ValueError(
                        f"its column {name!r} has a time of {far[0].year}, as INT96, which pyiceberg reads as another one; "
                        "write the file anew with timestamps of INT64"
                    )


# ---- An Iceberg table as a sink, exactly once: one commit per checkpoint.
#
# ``funken.connectors.lake`` explains how. The mark of a subtask is a property of the table. Iceberg repeats an
# append that was overtaken, so it does not keep two committers apart: a job must not run twice at the same time.


@dataclass(frozen=True)
class IcebergSink(Sink):
    """Writes records to an Iceberg table, which has to exist; readers see them when a checkpoint is complete.

    ``table`` is its name with the namespace, ``shop.orders``. Records have the table's columns, by name or by position.
    Properties of the table that begin with ``funken.`` are the sink's. The table may be partitioned by columns as they are, by
    years, months, days or hours of them, or by the first characters of text: a writer writes a file per partition and checkpoint.

    Raises ``SinkNotWritable`` if the table is not there, or is partitioned in another way (``bucket``), ``ValueDoesNotFit`` for a
    record that has not its columns.

    >>> import pyarrow as pa, tempfile
    >>> from funken.testing import local
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lake = IcebergCatalog("lake", {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}"})
    ...     lake.load().create_namespace("shop")
    ...     _ = lake.load().create_table("shop.prices", pa.schema([("item", pa.string()), ("price", pa.int64())]))
    ...     prices = local([("tea", 3), {"item": "jam", "price": 5}])
    ...     _ = prices.sink_to(IcebergSink(lake, "shop.prices"))
    ...     _ = prices.get_execution_environment().execute()
    ...     sorted(row["item"] for row in lake.load().load_table("shop.prices").scan().to_arrow().to_pylist())
    ['jam', 'tea']
    """

    catalog: IcebergCatalog
    table: str

    def open_table(self) -> Any:
        """Return the table as it is now."""
        return self.catalog.table(self.table, SinkNotWritable)

    def check(self) -> None:
        """Open the table, and look how it is partitioned."""
        self.partitions_of(self.open_table())

    def partitions_of(self, table: Any) -> dict[str, tuple[str, str]]:
        """Return the transform and the column of each field of the table's partitions; raise ``SinkNotWritable``."""
        found, schema = {}, table.schema()
        for part in table.spec().fields:
            column, transform = schema.find_field(part.source_id), str(part.transform)
            text = transform.startswith("truncate") and str(column.field_type) == "string"
            if transform not in KEYS and not text:
                raise SinkNotWritable(
                    f"Iceberg table {self.table!r} is partitioned by {transform} of {column.name!r} ({column.field_type}), which "
                    f"this sink does not write; partition by {', '.join(KEYS)}, or truncate of text."
                )
            found[part.name] = transform, schema.find_column_name(part.source_id)
        nested = next((column for _, column in found.values() if column not in schema.as_arrow().names), None)
        if nested is not None:
            raise SinkNotWritable(
                f"Iceberg table {self.table!r} is partitioned by {nested!r}, which is within another column; partition by a "
                "column of its own."
            )
        return found

    takes_columns = True

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return IcebergWriter(self, context)

    def committer(self, context: CommitterContext) -> Committer:
        """Make the committer."""
        return IcebergCommitter(self, context)


KEYS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda column: column,
    "year": compute.year,
    "month": lambda column: compute.strftime(column, "%Y-%m"),
    "day": lambda column: compute.floor_temporal(column, unit="day"),
    "hour": lambda column: compute.floor_temporal(column, unit="hour"),
}
"""Functions with one value per partition, by transform; the library makes the partition, of each file's bounds."""


def _keys_of(partitions: Mapping[str, tuple[str, str]]) -> Callable[[Any], Any]:
    def keys(table: Any) -> Any:
        columns = {}
        for name, (transform, column) in partitions.items():
            if transform in KEYS:
                columns[name] = KEYS[transform](table[column])
            else:
                columns[name] = compute.utf8_slice_codeunits(table[column], 0, int(transform[9:-1]))
        return pa.table(columns)

    return keys


class IcebergFiles:
    """The part of a ``pyarrow`` file system that writers use, by the table's own ``FileIO``: it has the credentials."""

    def __init__(self, io: Any) -> None:
        self._io = io

    def open_output_stream(self, path: str) -> Any:
        """Create a file."""
        return self._io.new_output(path).create()

    def get_file_info(self, path: str) -> fs.FileInfo:
        """Return a file's size."""
        return fs.FileInfo(path, type=fs.FileType.File, size=len(self._io.new_input(path)))


class IcebergWriter(TableWriter):
    """Writes the records of a checkpoint to files below the table's location."""

    def __init__(self, sink: IcebergSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink

    def parquet_files(self) -> ParquetFiles:
        """Read the table's schema and partitions."""
        table = self._sink.open_table()
        schema = table.schema().as_arrow()
        plain = schema.remove_metadata()
        for number, column in enumerate(plain):  # files with field ids of their own are not added
            plain = plain.set(number, column.remove_metadata())
        folder = f"{table.location().rstrip('/')}/data"
        self.location = f"{folder}/"
        keys = _keys_of(self._sink.partitions_of(table))
        return ParquetFiles(IcebergFiles(table.io), folder, plain, (), f"operator {self.context.operator!r}", keys=keys)


class IcebergCommitter(TableCommitter):
    """Marks are properties of the table."""

    def __init__(self, sink: IcebergSink, context: CommitterContext) -> None:
        super().__init__(context)
        self._sink = sink
        self.place = f"table {sink.table!r}"
        errors = pyiceberg("exceptions")
        self.transient = (errors.CommitFailedException, errors.CommitStateUnknownException, OSError)

    def table(self) -> Any:
        """Return the table."""
        return self._sink.open_table()

    def mark(self, job_id: str, subtask: int | str) -> str:
        """Return the name of a property."""
        return f"funken.{job_id}.{self.operator}.{subtask}"

    def marked(self, table: Any, mark: str) -> int:
        """Return the checkpoint in a property."""
        return int(table.properties.get(mark, 0))

    def marks_after(self, table: Any, since: int) -> Sequence[str]:
        """Return the properties."""
        family = self.mark(self.context.job_id, "")
        return [name for name, mark in table.properties.items() if name.startswith(family) and int(mark) > since]

    def files_of(self, table: Any) -> Set[str]:
        """Return the paths of the current snapshot."""
        return set(table.inspect.files()["file_path"].to_pylist())

    def add(self, table: Any, files: Sequence[DataFile], marks: Mapping[str, int]) -> None:
        """Write one snapshot."""
        newest = max(marks.values(), default=None)
        summary = {} if newest is None else {"funken.checkpoint": str(newest), "funken.job": self.context.job_id}
        with table.transaction() as transaction:
            if files:
                paths = [file.path for file in files]
                transaction.add_files(paths, snapshot_properties=summary, check_duplicate_files=False)
            if marks:
                transaction.set_properties({name: str(mark) for name, mark in marks.items()})

    def remover(self) -> Callable[[str], Any]:
        """Delete by the table's own ``FileIO``."""
        delete: Callable[[str], Any] = self._sink.open_table().io.delete
        return delete


__all__ = ["IcebergCatalog", "IcebergSink", "IcebergSource", "pyiceberg"]
