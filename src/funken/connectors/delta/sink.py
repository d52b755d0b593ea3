"""A Delta table as a sink, exactly once: one commit per checkpoint.

Writers write Parquet files, which no reader sees. When the checkpoint is complete, the committer adds all of them to the
table in one commit, which also sets an *application transaction* per subtask: the checkpoint up to which its records are in.
A commit that is repeated finds it there. Two committers of one checkpoint cannot both succeed: Delta rejects the second.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

import pyarrow as pa

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.delta.parquet import DataFile, ParquetFiles
from funken.connectors.delta.table import DeltaPlace, deltalake, text_of
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import SinkNotWritable

logger = logging.getLogger(__name__)

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


class DeltaWriter(SinkWriter):
    """Writes the records of a checkpoint to files."""

    def __init__(self, sink: DeltaSink, context: ConnectorContext) -> None:
        self._place, self._context = sink.place, context
        self._count = context.metrics.counter("numRecordsSend")
        self._bytes = context.metrics.counter("numBytesSend")
        self._collected: ParquetFiles

    def open(self) -> None:
        """Read the table's schema."""
        table = self._place.open(SinkNotWritable)
        files, folder = self._place.files()
        schema = pa.schema(table.schema().to_arrow())
        partition_by = table.metadata().partition_columns
        self._collected = ParquetFiles(files, folder, schema, partition_by, f"operator {self._context.operator!r}")

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
                f"operator {self._context.operator!r}: no files can be written to {self._place.uri!r} ({error}); "
                "allow this user to.",
                self._context.operator,
                self._context.subtask,
            ) from error
        return [[tuple(file) for file in files]] if files else []


class DeltaCommitter(Committer):
    """Adds files to the table."""

    def __init__(self, sink: DeltaSink, context: CommitterContext) -> None:
        self._place, self._context = sink.place, context
        self._operator = context.operator_uid or context.operator

    def recover(self, requests: Sequence[CommitRequest]) -> None:
        """Set marks of checkpoints back that are after the one that the job starts from: what followed it is written again."""
        table = self._place.open(SinkNotWritable)
        since = self._context.restored_checkpoint_id or 0
        marks = {}
        for subtask in range(max(_LEAST_SUBTASKS, self._context.parallelism)):
            mark = self._mark(self._context.job_id, subtask)
            if (table.transaction_version(mark) or 0) > since:
                marks[mark] = since
        if marks:
            logger.warning(
                "operator %r: Delta table %r has results of checkpoints after %s, from which the job starts; "
                "they will be in twice",
                self._context.operator, self._place.uri, since,
            )  # fmt: skip
            self._write(table, marks, [])
        if requests:
            self.commit(requests)

    def _mark(self, job_id: str, subtask: int) -> str:
        return f"funken/{job_id}/{self._operator}/{subtask}"

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Add the files of all requests that are not in, in one commit."""
        library, errors = deltalake("deltalake.transaction"), deltalake("deltalake.exceptions")
        table = self._place.open(SinkNotWritable)
        marks: dict[str, int] = {}
        added: list[Any] = []
        todo = []
        for request in requests:
            if request.checkpoint_id is not None:
                mark = self._mark(request.job_id, request.subtask)
                if (table.transaction_version(mark) or 0) >= request.checkpoint_id:
                    request.already_committed()
                    continue
                marks[mark] = max(marks.get(mark, 0), request.checkpoint_id)
            elif request.retries and _is_in(table, request):
                request.already_committed()
                continue
            todo.append(request)
            for file in (DataFile(*each) for each in request.committable):
                partition = {name: text_of(value) for name, value in file.partition.items()}
                stats = json.dumps({"numRecords": file.rows})
                added.append(library.AddAction(file.path, file.size, partition, 0, True, stats))
        if not todo:
            return
        try:
            self._write(table, marks, added)
        except errors.CommitFailedError as error:
            for request in todo:  # perhaps another committer has done it; else there were too many other writers
                request.retry_later(str(error)[:300])
        except (errors.DeltaError, OSError) as error:
            for request in todo:
                request.retry_later(f"{type(error).__name__}: {str(error)[:300]}")

    def _write(self, table: Any, marks: Mapping[str, int], added: list[Any]) -> None:
        library = deltalake()
        transactions = [library.Transaction(name, number) for name, number in marks.items()]
        table.create_write_transaction(
            added, "append", table.schema(), table.metadata().partition_columns,
            commit_properties=library.CommitProperties(app_transactions=transactions),
        )  # fmt: skip

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Delete files that are in no checkpoint; what is left over, ``vacuum`` removes."""
        files, folder = self._place.files()
        for request in requests:
            for file in (DataFile(*each) for each in request.committable):
                with suppress(OSError):
                    files.delete_file(f"{folder}/{file.path}")


def _is_in(table: Any, request: CommitRequest) -> bool:
    """Whether the table has the files of a request without a checkpoint: a try whose answer was lost may have added them."""
    names = {uri.rpartition("/")[2] for uri in table.file_uris()}
    return any(DataFile(*each).path.rpartition("/")[2] in names for each in request.committable)


__all__ = ["DeltaSink"]
