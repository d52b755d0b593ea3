"""Tables of a lake, Delta's and Iceberg's: their Parquet files, and the writer and the committer of their sinks.

A writer writes Parquet files, which no reader of the table sees. When the checkpoint is complete, the committer adds all of them
in one commit, which also sets a mark per subtask: the checkpoint up to which its records are in. A repeated commit finds it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import compute, parquet

from funken.columnar.block import Block
from funken.connectors.base import NEED_SPLITS, Batch, ConnectorContext, NeedSplits, QueuedReader, Wait
from funken.connectors.formats.arrow import array_of, batch_of_columns
from funken.connectors.formats.arrow_columns import columns_of_batch, whole_array
from funken.connectors.schemas import RowMaker
from funken.connectors.sink import CommitRequest, MarkingCommitter, SinkWriter
from funken.errors import ValueDoesNotFit
from funken.expr.types import Atomic, Type, atomic_fields, outer_fields
from funken.types.convert import parquet_file, python_rows
from funken.types.info import TupleTypeInfo

ROWS_PER_FILE = 500_000
_IN_ORDER = TupleTypeInfo(())
"""Stands for records whose fields have no names: the table's columns are in their order."""


class DataFile(NamedTuple):
    """A data file that no table has yet: plain data, for a committable."""

    path: str
    size: int
    rows: int
    partition: dict[str, Any]


class ParquetFiles:
    """Collects records as Arrow batches, and writes them to new files below a folder.

    A file holds records of one partition: of equal values of ``partition_by``, whose columns it does not have; or, with ``keys``,
    of equal rows of the table which that function returns for a table of records. Then it has all columns.
    """

    def __init__(
        self, files: Any, folder: str, schema: Any, partition_by: Sequence[str], who: str, below: str = "",
        keys: Callable[[Any], Any] | None = None,
    ) -> None:  # fmt: skip
        self._keys = keys
        self._files, self.folder, self._below = files, folder, below
        self._schema, self._partition_by, self._who = schema, list(partition_by), who
        self._maker = RowMaker(schema.names, who)
        self._batches: list[Any] = []
        self._rows = 0
        self._written: list[DataFile] = []

    def add(self, values: Sequence[Any] | Block) -> int:
        """Take records, or a block of columns; return their size as columns (bytes)."""
        if isinstance(values, Block):
            batch = self._batch_of(values)
            if batch is not None:
                return self._collect(batch)
            values = values.rows()[0]
        rows = self._maker.rows(values)
        if not rows:
            return 0
        arrays = []
        for column, cells in zip(self._schema, zip(*rows, strict=True), strict=True):
            try:
                arrays.append(array_of(cells, column.type))
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                raise ValueDoesNotFit(
                    f"{self._who}: column {column.name!r} of the table is {column.type}, which a record does not fit ({error}); "
                    "convert it."
                ) from error
            if not column.nullable and arrays[-1].null_count:
                raise ValueDoesNotFit(
                    f"{self._who}: column {column.name!r} of the table is never null, but is in a record."
                )
        return self._collect(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _batch_of(self, block: Any) -> Any:
        """Return a block of columns as a batch; ``None``: records have to be made, or name a value that does not fit."""
        names = getattr(block.schema, "names", None)
        if isinstance(block.schema, Atomic):
            return None
        try:
            batch = batch_of_columns(block, _IN_ORDER if names is None else None, self._schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
            return None
        if batch is None or any(
            column.null_count and not each.nullable for column, each in zip(batch.columns, self._schema, strict=True)
        ):
            return None
        return batch

    def _collect(self, batch: Any) -> int:
        self._batches.append(batch)
        self._rows += len(batch)
        if self._rows >= ROWS_PER_FILE:
            self._write()
        return int(batch.nbytes)

    def take(self) -> list[DataFile]:
        """Write the collected records; return the files since the last call."""
        self._write()
        written, self._written = self._written, []
        return written

    def _write(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        self._batches, self._rows = [], 0
        keys = table.select(self._partition_by) if self._keys is None else self._keys(table)
        if not keys.num_columns:
            self._write_file(table, {})
            return
        for combination in keys.group_by(keys.column_names).aggregate([]).to_pylist():
            mask = None
            for name, value in combination.items():
                column = keys[name]
                same = column.is_null() if value is None else compute.fill_null(compute.equal(column, value), False)
                mask = same if mask is None else compute.and_(mask, same)
            part = table.filter(mask)
            if self._keys is None:
                self._write_file(part.drop_columns(self._partition_by), combination)
            else:
                self._write_file(part, {})

    def _write_file(self, table: Any, partition: dict[str, Any]) -> None:
        name = f"{self._below}part-{uuid.uuid4().hex}.parquet"
        path = f"{self.folder}/{name}"
        with self._files.open_output_stream(path) as out:
            parquet.write_table(table, out)
        self._written.append(DataFile(name, self._files.get_file_info(path).size, len(table), partition))


def block_of_table(
    schema: Any,
    names: Sequence[str],
    table: Any,
    wanted: Sequence[int] | None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Return the rows of a table, or of its read columns, as a block of columns; ``None``: records have to be made.

    ``names`` are the columns that a row has, before those of one value in all rows (``more``); both are the schema's fields.

    >>> from funken.expr.types import INT, STR
    >>> from funken.columnar.records import DICT, Record
    >>> rows = Record((INT, STR), DICT, ("n", "day"))
    >>> block_of_table(rows, ["n"], pa.table({"n": [1, 2]}), None, {"day": "Monday"}).to_list()
    [{'n': 1, 'day': 'Monday'}, {'n': 2, 'day': 'Monday'}]
    """
    there = set(table.schema.names)
    arrays: list[Any] = [table.column(name) if name in there else None for name in names]
    arrays = [whole_array(each) if isinstance(each, pa.ChunkedArray) else each for each in arrays]
    arrays += [pa.repeat(pa.scalar(value), table.num_rows) for value in more.values()]
    return columns_of_batch(
        schema, arrays, table.num_rows, range(len(atomic_fields(schema))) if wanted is None else wanted
    )


class ParquetRows:
    """One file's records, from a row on, a row group at a time; ``more``: fields of each record besides columns.

    With a ``schema``, a group is a block of columns, of which the leaves that are ``wanted`` are read, where it has that form.
    """

    def __init__(
        self, files: Any, path: str, start: int, more: Mapping[str, Any] = MappingProxyType({}), schema: Any = None,
        wanted: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self._source = files.open_input_file(path)
        self._file = parquet_file(self._source)
        self._group, self._skipped = 0, start
        self._more, self._schema, self._wanted = more, schema, wanted
        self._names = self._file.schema_arrow.names
        if schema is not None and schema.names != (*self._names, *more):
            self._schema = None  # the file has other columns than the table
        self._rows: Any = []
        self._given = 0
        #: bytes of the groups that were read
        self.size = 0

    def take(self, limit: int) -> Any:
        """Return the next records; none at the end of the file."""
        while self._given == len(self._rows):
            if self._group == self._file.num_row_groups:
                return []
            group = self._file.metadata.row_group(self._group)
            size = group.num_rows
            if self._skipped >= size:
                self._skipped -= size
            else:
                self._rows = self._read(self._group, self._skipped)
                self._given = self._skipped = 0
                self.size += sum(group.column(number).total_compressed_size for number in range(group.num_columns))
            self._group += 1
        taken = self._rows[self._given : self._given + max(1, limit)]
        self._given += len(taken)
        return taken

    def _read(self, group: int, skipped: int) -> Any:
        if self._schema is not None:
            names = None
            if self._wanted is not None:
                read = {self._schema.names[number] for number in outer_fields(self._schema, self._wanted)}
                names = [name for name in self._names if name in read] or self._names[:1]
            table = self._file.read_row_group(group, columns=names).slice(skipped)
            block = block_of_table(self._schema, self._names, table, self._wanted, self._more)
            if block is not None:
                return block
        rows, more = python_rows(self._file.read_row_group(group).slice(skipped)), self._more
        return [{**row, **more} for row in rows] if more else rows

    def close(self) -> None:
        """Close the file."""
        self._source.close()


class DataFileReader(QueuedReader):
    """Reads the data files of a table; a split has the number of the next ``row``. Define ``rows`` and ``close``."""

    def __init__(self, context: ConnectorContext) -> None:
        super().__init__(context)
        #: of the columns that are read, if they are: the schema, and which of its leaves
        self.schema: Any = None
        self.wanted: Sequence[int] | None = None
        self._count = context.metrics.counter("numRecordsRead")

    def rows(self, split: Any, limit: int) -> Any:
        """Return the next rows of a file, none at its end."""
        raise NotImplementedError

    def read_record_columns(self, schema: Type, wanted: Sequence[int] | None) -> None:
        """Make blocks of columns; those that are not wanted are not read."""
        self.schema, self.wanted = schema, wanted
        self.close()  # what it has read may lack fields; it goes on at the next row

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next rows of the file at the front."""
        while self.queue:
            split = self.queue[0]
            rows = self.rows(split, limit)
            if len(rows):
                self.queue[0] = replace(split, row=split.row + len(rows))
                self._count.inc(len(rows))
                return Batch(rows, split=split.id)
            self.close()
            self.end_split()
        return NEED_SPLITS


class TableWriter(SinkWriter):
    """Writes the records of a checkpoint to files; define ``parquet_files``, and ``location`` if paths are absolute."""

    location = ""
    """The prefix of a table's paths of its data files."""

    def parquet_files(self) -> ParquetFiles:
        """Read the table's schema, and return the collector of records."""
        raise NotImplementedError

    def open(self) -> None:
        """Open the table."""
        self._collected = self.parquet_files()

    def write(self, values: Any, timestamps: list[int] | None, now: int) -> None:
        """Collect a block, of records or of columns."""
        self.count_sent(len(values), self._collected.add(values))

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return the files."""
        try:
            files = self._collected.take()
        except OSError as error:
            raise self.failure(
                f"no files can be written to {self._collected.folder!r} ({error}); allow this user to."
            ) from error
        return [[tuple(file._replace(path=self.location + file.path)) for file in files]] if files else []


class TableCommitter(MarkingCommitter):
    """Adds the files of a checkpoint to a table, in one commit, with the marks of their subtasks."""

    transient: tuple[type[Exception], ...] = (OSError,)
    """Errors after which the commit is tried again: it finds out which files are in."""

    def table(self) -> Any:
        """Return the table as it is now."""
        raise NotImplementedError

    def mark(self, job_id: str, subtask: int) -> str:
        """Return the name of a mark."""
        raise NotImplementedError

    def marked(self, table: Any, mark: str) -> int:
        """Return the checkpoint of a mark; 0 if there is none."""
        raise NotImplementedError

    def marks_after(self, table: Any, since: int) -> Sequence[str]:
        """Return the marks of this job and operator that name a later checkpoint."""
        raise NotImplementedError

    def files_of(self, table: Any) -> Set[str]:
        """Return the paths of the table's files."""
        raise NotImplementedError

    def add(self, table: Any, files: Sequence[DataFile], marks: Mapping[str, int]) -> None:
        """Add files and set marks, in one commit."""
        raise NotImplementedError

    def remover(self) -> Callable[[str], Any]:
        """Return a function that deletes a data file by its path."""
        raise NotImplementedError

    def forget_marks(self, since: int | None) -> bool:
        """Set later marks back."""
        table, begin = self.table(), since or 0
        later = self.marks_after(table, begin)
        if later:
            self.add(table, (), dict.fromkeys(later, begin))
        return bool(later)

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Add the files of all requests that are not in, in one commit."""
        table = self.table()
        marks: dict[str, int] = {}
        files: list[DataFile] = []
        open_requests = []
        for request in requests:
            added = [DataFile(*file) for file in request.committable]
            if request.checkpoint_id is None:  # a try whose answer was lost may have added them
                is_in = bool(request.retries) and not self.files_of(table).isdisjoint(file.path for file in added)
            else:
                mark = self.mark(request.job_id, request.subtask)
                is_in = self.marked(table, mark) >= request.checkpoint_id
                if not is_in:
                    marks[mark] = max(marks.get(mark, 0), request.checkpoint_id)
            if is_in:
                request.already_committed()
            else:
                open_requests.append(request)
                files += added
        if not open_requests:
            return
        try:
            self.add(table, files, marks)
        except self.transient as error:
            for request in open_requests:
                request.retry_later(f"{type(error).__name__}: {str(error)[:300]}")

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Delete files that are in no checkpoint; the table's own cleaning removes the rest."""
        remove = self.remover()
        for request in requests:
            for file in request.committable:
                with suppress(OSError):
                    remove(DataFile(*file).path)
