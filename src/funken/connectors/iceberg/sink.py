"""An Iceberg table as a sink, exactly once: one commit per checkpoint.

Writers write Parquet files, which no reader sees. When the checkpoint is complete, the committer adds all of them in one
commit, which also sets a property of the table per subtask: the checkpoint up to which its records are in. A commit that is
repeated finds it there. Iceberg repeats an append that was overtaken, so it does not keep two committers apart: a job must
not run twice at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import compute, fs

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.delta.parquet import DataFile, ParquetFiles
from funken.connectors.iceberg.catalog import IcebergCatalog, pyiceberg
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import SinkNotWritable

logger = logging.getLogger(__name__)


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


class IcebergWriter(SinkWriter):
    """Writes the records of a checkpoint to files."""

    def __init__(self, sink: IcebergSink, context: ConnectorContext) -> None:
        self._sink, self._context = sink, context
        self._count = context.metrics.counter("numRecordsSend")
        self._bytes = context.metrics.counter("numBytesSend")
        self._collected: ParquetFiles
        self._folder = ""

    def open(self) -> None:
        """Read the table's schema."""
        table = self._sink.open_table()
        schema = table.schema().as_arrow()
        plain = schema.remove_metadata()
        for number, column in enumerate(plain):  # files with field ids of their own are not added
            plain = plain.set(number, column.remove_metadata())
        self._folder = f"{table.location().rstrip('/')}/data"
        who = f"operator {self._context.operator!r}"
        keys = _keys_of(self._sink.partitions_of(table))
        self._collected = ParquetFiles(IcebergFiles(table.io), self._folder, plain, (), who, keys=keys)

    def write(self, values: Any, timestamps: list[int] | None, now: int) -> None:
        """Collect a block, of records or of columns."""
        self._bytes.inc(self._collected.add(values))
        self._count.inc(len(values))

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return the files."""
        try:
            files = self._collected.take()
        except OSError as error:
            raise SinkNotWritable(
                f"operator {self._context.operator!r}: no files can be written to {self._folder!r} ({error}); "
                "allow this user to.",
                self._context.operator,
                self._context.subtask,
            ) from error
        return [[tuple(file._replace(path=f"{self._folder}/{file.path}")) for file in files]] if files else []


class IcebergCommitter(Committer):
    """Adds files to the table."""

    def __init__(self, sink: IcebergSink, context: CommitterContext) -> None:
        self._sink, self._context = sink, context
        self._operator = context.operator_uid or context.operator

    def recover(self, requests: Sequence[CommitRequest]) -> None:
        """Drop marks of checkpoints after the one that the job starts from: what followed it is written again."""
        table, since = self._sink.open_table(), self._context.restored_checkpoint_id or 0
        family = self._family(self._context.job_id)
        later = [name for name, mark in table.properties.items() if name.startswith(family) and int(mark) > since]
        if later:
            logger.warning(
                "operator %r: table %r has results of checkpoints after %s, where the job starts; they will be in twice",
                self._context.operator, self._sink.table, since,
            )  # fmt: skip
            with table.transaction() as transaction:
                transaction.set_properties(dict.fromkeys(later, str(since)))
        if requests:
            self.commit(requests)

    def _family(self, job_id: str) -> str:
        return f"funken.{job_id}.{self._operator}."

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Add the files of all requests that are not in, in one commit."""
        errors = pyiceberg("exceptions")
        table = self._sink.open_table()
        marks: dict[str, int] = {}
        added: list[str] = []
        todo = []
        for request in requests:
            if request.checkpoint_id is not None:
                mark = f"{self._family(request.job_id)}{request.subtask}"
                if int(table.properties.get(mark, 0)) >= request.checkpoint_id:
                    request.already_committed()
                    continue
                marks[mark] = max(marks.get(mark, 0), request.checkpoint_id)
            elif request.retries and _is_in(table, request):
                request.already_committed()
                continue
            todo.append(request)
            added += [DataFile(*each).path for each in request.committable]
        if not todo:
            return
        try:
            self._add(table, added, marks)
        except (errors.CommitFailedException, errors.CommitStateUnknownException, OSError) as error:
            for request in todo:  # what is in, is found there by the next try
                request.retry_later(f"{type(error).__name__}: {str(error)[:300]}")

    def _add(self, table: Any, added: list[str], marks: Mapping[str, int]) -> None:
        newest = max(marks.values(), default=None)
        told = {} if newest is None else {"funken.checkpoint": str(newest), "funken.job": self._context.job_id}
        with table.transaction() as transaction:
            transaction.add_files(added, snapshot_properties=told, check_duplicate_files=False)
            if marks:
                transaction.set_properties({name: str(mark) for name, mark in marks.items()})

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Delete files that are in no checkpoint."""
        io = self._sink.open_table().io
        for request in requests:
            for file in (DataFile(*each) for each in request.committable):
                with suppress(OSError):
                    io.delete(file.path)


def _is_in(table: Any, request: CommitRequest) -> bool:
    """Whether the table has the files of a request without a checkpoint: a try whose answer was lost may have added them."""
    known = set(table.inspect.files()["file_path"].to_pylist())
    return any(DataFile(*each).path in known for each in request.committable)


__all__ = ["IcebergSink"]
