"""A Delta table as a sink, exactly once: one commit per checkpoint.

``funken.connectors.lake`` explains how. The mark of a subtask is an *application transaction*: two committers of one checkpoint
cannot both succeed, for Delta rejects the second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import field
from typing import Any

import pyarrow as pa

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.delta.table import DeltaPlace, deltalake, file_of, text_of
from funken.connectors.lake import DataFile, ParquetFiles, TableCommitter, TableWriter
from funken.connectors.sink import Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import SinkNotWritable

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
        """Where the table is."""
        return DeltaPlace(str(self.uri), self.storage_options, self.filesystem)

    def check(self) -> None:
        """Open the table, and look for what this sink cannot keep."""
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
        """Write one version."""
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
            commit_properties=library.CommitProperties(app_transactions=transactions),
        )  # fmt: skip

    def remover(self) -> Callable[[str], Any]:
        """Delete below the table; what is left over, ``vacuum`` removes."""
        files, folder = self._place.files()
        return lambda path: files.delete_file(f"{folder}/{path}")


__all__ = ["DeltaSink"]
