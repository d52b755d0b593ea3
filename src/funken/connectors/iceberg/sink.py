"""An Iceberg table as a sink, exactly once: one commit per checkpoint.

``funken.connectors.lake`` explains how. The mark of a subtask is a property of the table. Iceberg repeats an append that was
overtaken, so it does not keep two committers apart: a job must not run twice at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa
from pyarrow import compute, fs

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.iceberg.catalog import IcebergCatalog, pyiceberg
from funken.connectors.lake import DataFile, ParquetFiles, TableCommitter, TableWriter
from funken.connectors.sink import Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import SinkNotWritable


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
"""What has one value per partition, by transform; the partition itself is made by the library, of each file's bounds."""


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


__all__ = ["IcebergSink"]
