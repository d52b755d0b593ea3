"""A sink into Spark: the records of each checkpoint, as a DataFrame, for a function or for any format that Spark writes.

Writers write Parquet files, which are hidden. When the checkpoint is complete the committer, on the driver, reads those of all
subtasks as one DataFrame and passes it on, with the number of the checkpoint as that of the batch; it notes that in the folder
of the files, and then removes them. A batch that was passed on and not noted, since the driver died in between, is passed on
again: the same rows with the same number, as Spark's own ``foreachBatch`` does it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, NoReturn
from uuid import uuid4

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.dataframes.staging import StagedRowsWriter, StagingSink, schema_of, temporary_folder
from funken.connectors.files.compaction import FileCommitter
from funken.connectors.files.sink import FileSink
from funken.connectors.formats.record_types import shape_of
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.io.filesystem import Files, locate
from funken.types.info import RowTypeInfo, TupleTypeInfo, TypeInformation

Batch = Callable[[Any, int], object]
"""What takes the DataFrame of a batch, and its number."""


@dataclass(frozen=True)
class SparkSink(Sink):
    """Hands records to Spark, batch by batch: what one checkpoint covers; all of them at the end, if there are no checkpoints.

    Records have columns by the names of their fields (tuples: ``f0``, ``f1``, ...; else ``value``). ``schema`` fixes them: one
    of Spark (``StructType``, or text such as ``"word string, n long"``) or Arrow, or a record type; by default it is the declared
    type of the stream, else every batch has the columns of its records. ``staging`` is the folder, or URI, through which rows
    change sides; by default a temporary one of this machine. Name one that all machines reach on a cluster, and for a job that is
    to be resumed when its driver has died.

    Made by ``for_each_batch`` and ``for_format``. The session is the one of the job, else Funken's own.
    """

    batch: Batch
    schema: Any = None
    staging: str = ""
    temporary: bool = field(default=False)

    def __post_init__(self) -> None:
        """Describe the columns, and have a folder."""
        object.__setattr__(self, "schema", schema_of(self.schema, "SparkSink"))
        if not self.staging:
            object.__setattr__(self, "staging", temporary_folder())
            object.__setattr__(self, "temporary", True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the function out: it is called on the driver, and may have things that cannot travel, such as a session."""
        return SparkSink, (_stays_on_the_driver, self.schema, self.staging, self.temporary)

    @staticmethod
    def for_each_batch(func: Batch, schema: Any = None, staging: str = "") -> SparkSink:
        """Call ``func(frame, batch)`` on the driver for each batch that has records; numbers of batches rise.

        After a failure of the driver a batch may come again, with its number and rows: a function that writes where
        transactions are should keep the number with them.

        >>> SparkSink.for_each_batch(lambda frame, batch: frame.show(), schema="word string, n long")  # doctest: +SKIP
        """
        return SparkSink(func, schema, staging)

    @staticmethod
    def for_format(
        source: str, mode: str = "append", schema: Any = None, staging: str = "", **options: str
    ) -> SparkSink:
        """Write each batch in a format that Spark writes; ``options`` are those of ``DataFrameWriter``, ``path`` among them.

        >>> from funken import Types
        >>> row = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])
        >>> sink = SparkSink.for_format("jdbc", schema=row, url="jdbc:postgresql://db/shop", dbtable="words")
        >>> sink.schema.names
        ['word', 'n']
        """
        return SparkSink(functools.partial(_save, source, mode, dict(options)), schema, staging)

    def of_type(self, type_info: TypeInformation | None) -> Sink:
        """Take the declared type for the schema, unless there is one."""
        if self.schema is None and isinstance(type_info, RowTypeInfo | TupleTypeInfo):
            return replace(self, schema=shape_of(type_info, "SparkSink").types())
        return self

    @property
    def files(self) -> FileSink:
        """The sink of the files through which rows change sides."""
        return StagingSink(self.staging, self.schema).files

    def check(self) -> None:
        """Find out whether files can be written to the folder."""
        self.files.check()

    takes_columns = True

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return StagedRowsWriter(self.files, self.schema, context)

    def committer(self, context: CommitterContext) -> Committer:
        """Make the committer."""
        return SparkCommitter(self, context)


class SparkCommitter(Committer):
    """Passes on the files of checkpoints as DataFrames."""

    def __init__(self, sink: SparkSink, context: CommitterContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._files = FileCommitter(sink.files.base_path)

    def open(self) -> None:
        """Find out whether Spark's workers reach the folder."""
        if self._sink.temporary and not self._frames().is_local():
            raise self.failure("on a cluster SparkSink needs a folder that all machines reach; name it (staging=).")

    def _frames(self) -> Any:
        return importlib.import_module("funken.spark.frames.files")

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Pass on what was not passed on before, a batch per checkpoint."""
        batches: dict[tuple[str, int], list[CommitRequest]] = {}
        for request in requests:
            batches.setdefault((request.job_id, request.checkpoint_id or 0), []).append(request)
        for (_, number), batch in sorted(batches.items(), key=lambda each: each[0][1]):
            self._pass_on(number, batch)

    def _pass_on(self, number: int, requests: list[CommitRequest]) -> None:
        files, _ = locate(self._sink.files.base_path)
        missing = [request for request in requests if not any(files.exists(path) for path in request.committable)]
        noted = self._note_of(requests[0].job_id)
        names = [request.committable.final.rpartition("/")[2] for request in requests]
        newest, passed = self._read(files, noted) if files.exists(noted) else (-1, [])
        is_noted = newest == number and passed == sorted(names)
        if is_noted or (missing and newest > number):
            for request in requests:
                request.already_committed()
        elif not missing:
            self._files.commit(requests)
            folder = self._sink.files.base_path.rstrip("/")
            frame = self._frames().frame_of_files([f"{folder}/{name}" for name in names], self._sink.schema)
            self._sink.batch(frame, number)
            self._write(files, noted, number, sorted(names))
        else:
            for request in missing:
                request.failed(
                    f"the rows of batch {number}, {request.committable.final}, are gone, and there is no note that Spark got "
                    "them. Keep the folder of a job that is to be resumed (staging=)."
                )
            return
        for request in requests:
            for path in request.committable:
                files.remove(path)

    def _note_of(self, job_id: str) -> str:
        name = hashlib.sha256(f"{job_id}/{self.operator}".encode()).hexdigest()[:16]
        return f"{locate(self._sink.files.base_path)[1].rstrip('/')}/.passed-{name}"

    @staticmethod
    def _read(files: Files, path: str) -> tuple[int, list[str]]:
        """Return the newest batch that was passed on, and its files: a later run with this job id has other ones."""
        with files.open(path) as file:
            number, *names = file.read().decode().split("\n")
        return int(number), names

    @staticmethod
    def _write(files: Files, path: str, number: int, names: Sequence[str]) -> None:
        written = f"{path}.{uuid4().hex}"
        file = files.create(written)
        file.write("\n".join([str(number), *names]).encode())
        files.seal(file)
        files.move(written, path)

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Remove what is in no checkpoint."""
        self._files.abort(requests)


def _stays_on_the_driver(frame: Any, number: int) -> NoReturn:
    raise AssertionError("batches are passed on by the driver")


def _save(source: str, mode: str, options: dict[str, str], frame: Any, number: int) -> None:
    frame.write.format(source).mode(mode).options(**options).save()


__all__ = ["SparkSink"]
