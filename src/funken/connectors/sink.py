"""The contract of a sink, second version: writers in the tasks, a committer on the driver, two phases between them.

A *sink* is a frozen spec. Its *writers* live in the tasks. At each checkpoint a writer closes its transaction and returns
*committables*: plain data with which **another process** can commit it. They are stored in the checkpoint. When it is complete,
the *committer* on the driver commits them; after a failure the committer of the next attempt commits them again, whether that
had happened before or not. So a commit has to be idempotent, and each request carries what that takes: job id, operator uid,
subtask, and the checkpoint for which the committable was prepared.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from funken.connectors.base import CommitterContext, ConnectorContext
from funken.dataclass import dataclass
from funken.errors import SinkNotWritable
from funken.types.callables import Generic, T, T_contra
from funken.types.info import TypeInformation

logger = logging.getLogger(__name__)


class SinkWriter:
    """Writes the records of one subtask.

    Life: ``restore_state`` (if there is any) -> ``open`` -> ``write``* -> at a checkpoint ``flush``, ``prepare_commit``,
    ``snapshot_state`` -> ... -> ``flush(end_of_input=True)`` -> ``close``.

    >>> class Staged(SinkWriter):  # a committable is the rows themselves
    ...     def open(self):
    ...         self.rows, self.count = [], getattr(self, "count", 0)
    ...     def restore_state(self, states):
    ...         self.count = sum(states)
    ...     def write(self, values, timestamps, now):
    ...         self.rows += values
    ...         self.count += len(values)
    ...     def flush(self, end_of_input):
    ...         pass  # nothing is buffered
    ...     def prepare_commit(self, checkpoint_id, end_of_input):
    ...         rows, self.rows = self.rows, []
    ...         return [rows] if rows else []
    ...     def snapshot_state(self, checkpoint_id):
    ...         return [self.count]
    ...     def notify_checkpoint_complete(self, checkpoint_id):
    ...         pass  # the rows of this checkpoint are committed
    ...     def notify_checkpoint_aborted(self, checkpoint_id):
    ...         pass  # they are committed with a later one
    ...     def close(self):
    ...         self.rows.clear()
    >>> writer = Staged()
    >>> writer.open()
    >>> writer.write(["a", "b"], timestamps=None, now=0)
    >>> writer.prepare_commit(1, end_of_input=False), writer.prepare_commit(2, end_of_input=True)
    ([['a', 'b']], [])

    The state of writers is a list, redistributed when the parallelism changes:

    >>> again = Staged()
    >>> again.restore_state([*writer.snapshot_state(2), 5])
    >>> again.count
    7
    """

    def __init__(self, context: ConnectorContext | None = None) -> None:
        self.context = context or ConnectorContext("sink")
        metrics = self.context.metrics
        self._records_sent, self._bytes_sent = metrics.counter("numRecordsSend"), metrics.counter("numBytesSend")

    def count_sent(self, records: int, size: int = 0) -> None:
        """Count records, and their bytes, that were handed to the service: ``numRecordsSend`` and ``numBytesSend``.

        >>> from funken.metrics.registry import MetricGroup
        >>> context = ConnectorContext("totals", metrics=MetricGroup())
        >>> SinkWriter(context).count_sent(2, 64)
        >>> context.metrics.snapshot()
        {'numRecordsSend': 2, 'numBytesSend': 64}
        """
        self._records_sent.inc(records)
        self._bytes_sent.inc(size)

    def count_errors(self, records: int) -> None:
        """Count records that the service did not take: ``numRecordsSendErrors``.

        >>> SinkWriter().count_errors(1)
        """
        self.context.metrics.counter("numRecordsSendErrors").inc(records)

    def failure(self, problem: str) -> SinkNotWritable:
        """Return the error to raise; it names the operator and the subtask.

        >>> SinkWriter(ConnectorContext("totals")).failure("the disk is full; free some space.")
        SinkNotWritable("operator 'totals': the disk is full; free some space.")
        """
        operator = self.context.operator
        return SinkNotWritable(f"operator {operator!r}: {problem}", operator, self.context.subtask)

    def restore_state(self, states: list[Any]) -> None:
        """Take the state that ``snapshot_state`` of former writers returned; called before ``open``, if there is any."""

    def open(self) -> None:
        """Connect; raise ``SinkNotWritable`` if that fails."""

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Write a block; ``timestamps`` (ms) are the records', ``now`` is processing time (ms)."""
        raise NotImplementedError

    def write_groups(self, groups: list[tuple[Any, Any]], now: int) -> None:
        """Write a block in parts: a result of ``Sink.grouped_by``, and the columns of its records.

        >>> class Counts(SinkWriter):
        ...     def __init__(self):
        ...         self.found = {}
        ...     def write_groups(self, groups, now):
        ...         for folder, records in groups:
        ...             self.found[folder] = self.found.get(folder, 0) + len(records)
        >>> counts = Counts()
        >>> counts.write_groups([("day=1", ["a", "b"]), ("day=2", ["c"])], now=0)
        >>> counts.found
        {'day=1': 2, 'day=2': 1}
        """
        raise NotImplementedError

    def flush(self, end_of_input: bool) -> None:
        """Send buffered records, before each checkpoint and at the end: at-least-once even without a committer."""

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Close the current transaction and return its committables, as plain data; nothing if it is empty.

        ``checkpoint_id`` is the checkpoint that begins, ``None`` at the end of a job without checkpoints. No two calls in a
        job have the same one for the same subtask, but calls of attempts that failed may have had it.
        """
        return []

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the writer's state as a list of plain data, after ``prepare_commit``."""
        return []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, and the output prepared for it and for earlier ones is committed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint is aborted; the output prepared for it is committed with a later one."""

    def close(self) -> None:
        """Release everything, keep prepared output; runs also after a failure."""


def parts(items: Iterable[T], most: int, room: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut items, in their order, into parts of at most ``most`` items, whose sizes sum to at most ``room`` if there are several.

    >>> list(parts(["tea", "jam", "marmalade", "oat"], most=2, room=8, size_of=len))
    [['tea', 'jam'], ['marmalade'], ['oat']]
    """
    part: list[T] = []
    used = 0
    for item in items:
        size = size_of(item)
        if part and (len(part) >= most or used + size > room):
            yield part
            part, used = [], 0
        part.append(item)
        used += size
    if part:
        yield part


class StagedWriter(SinkWriter):
    """Keeps the output until the checkpoint, whose committable it is: rows, commands, the bodies of requests.

    ``items_of`` makes the output for some records, ``size_of`` returns its number of bytes.

    >>> writer = StagedWriter(items_of=lambda values: [value.encode() for value in values])
    >>> writer.write(["tea", "jam"], None, now=0)
    >>> writer.prepare_commit(1, end_of_input=False), writer.prepare_commit(2, end_of_input=True)
    ([[b'tea', b'jam']], [])
    """

    def __init__(
        self,
        context: ConnectorContext | None = None,
        items_of: Callable[[list[Any]], list[Any]] = list,
        size_of: Callable[[list[Any]], int] = lambda items: 0,
    ) -> None:
        super().__init__(context)
        self._items_of, self._size_of = items_of, size_of
        self.staged: list[Any] = []

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Keep the output for a block."""
        items = self._items_of(values)
        self.staged += items
        self.count_sent(len(values), self._size_of(items))

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return the staged items; nothing if there is none."""
        staged, self.staged = self.staged, []
        return [staged] if staged else []

    def close(self) -> None:
        """Forget staged items that are in no checkpoint."""
        self.staged = []


class DeliveryGuarantee(enum.Enum):
    """The guarantee of a sink that offers the choice (PyFlink's ``DeliveryGuarantee``)."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


class CommitOutcome(enum.Enum):
    """The outcome of a request."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RETRY_LATER = "retry later"
    FAILED = "failed"


class PreparedCommittable(NamedTuple):
    """A committable as checkpoints store it: with the job, the checkpoint and the subtask for which it was prepared."""

    job_id: str
    checkpoint_id: int | None
    subtask: int
    committable: Any


class CommitRequest:
    """One committable to be committed; the committer answers it. Without an answer it counts as committed.

    ``job_id`` is the job that prepared it: a job that starts from another one's savepoint commits what that one prepared.
    ``checkpoint_id`` is ``None`` for a job without checkpoints, which commits once, at its end. That is never repeated, but
    an earlier run may have had the same job id.

    >>> request = CommitRequest("transaction 7", job_id="nightly", operator_uid="out", subtask=1, checkpoint_id=7)
    >>> request.retry_later("the broker elects a leader")
    >>> request.outcome, request.reason
    (<CommitOutcome.RETRY_LATER: 'retry later'>, 'the broker elects a leader')
    """

    __slots__ = (
        "checkpoint_id",
        "committable",
        "error",
        "job_id",
        "operator_uid",
        "outcome",
        "reason",
        "retries",
        "subtask",
    )

    def __init__(
        self, committable: Any, *, job_id: str = "local", operator_uid: str = "", subtask: int = 0,
        checkpoint_id: int | None = None,
    ) -> None:  # fmt: skip
        self.committable = committable
        self.job_id = job_id
        self.operator_uid = operator_uid
        self.subtask = subtask
        self.checkpoint_id = checkpoint_id
        self.retries = 0
        """Number of answers that asked for a later retry."""
        self.outcome = CommitOutcome.COMMITTED
        self.reason = ""
        self.error: BaseException | None = None

    def already_committed(self) -> None:
        """It was committed before, by this or another process."""
        self.outcome = CommitOutcome.ALREADY_COMMITTED

    def retry_later(self, reason: str = "", committable: Any = None) -> None:
        """It cannot be committed now but perhaps later; with ``committable``, that takes the place of the former one.

        Retries have a growing pause between them. After ``sink.committer.retries`` of them the job fails.
        """
        self.outcome, self.reason = CommitOutcome.RETRY_LATER, reason
        if committable is not None:
            self.committable = committable

    def failed(self, error: BaseException | str) -> None:
        """It can never be committed, its records are lost: the job fails with this error."""
        self.outcome, self.reason = CommitOutcome.FAILED, str(error)
        self.error = error if isinstance(error, BaseException) else None

    def __repr__(self) -> str:
        return f"<CommitRequest {self.committable!r} checkpoint {self.checkpoint_id} subtask {self.subtask}>"


class Committer:
    """Commits on the driver the output that writers prepared. All methods run in one thread, not the job's.

    Life, once per attempt of the job: ``open`` -> ``recover`` -> ``commit``* -> ``close``; ``abort`` where an attempt fails.

    >>> class Table(Committer):
    ...     rows = {}  # stands for a database
    ...     def commit(self, requests):
    ...         for request in requests:
    ...             key = request.job_id, request.operator_uid, request.subtask, request.checkpoint_id
    ...             if key in self.rows:
    ...                 request.already_committed()
    ...             self.rows[key] = request.committable
    >>> requests = [CommitRequest(["a", "b"], checkpoint_id=1)]
    >>> Table().recover(requests)
    >>> requests[0].outcome.name
    'COMMITTED'
    >>> Table().commit(requests)
    >>> requests[0].outcome.name
    'ALREADY_COMMITTED'
    """

    def __init__(self, context: CommitterContext | None = None) -> None:
        self.context = context or CommitterContext("sink")
        self.operator = self.context.operator_uid or self.context.operator
        """The stable name of the operator, for transactions and marks."""

    def failure(self, problem: str) -> SinkNotWritable:
        """Return the error to raise; it names the operator."""
        return SinkNotWritable(f"operator {self.context.operator!r}: {problem}", self.context.operator)

    def open(self) -> None:
        """Connect."""

    def recover(self, requests: Sequence[CommitRequest]) -> None:
        """An attempt begins: commit the output of the checkpoint that it starts from (perhaps nothing).

        Override it to fence the writers of former attempts, and to abort their transactions that are not in ``requests``;
        no writer of this attempt runs yet.
        """
        if requests:
            self.commit(requests)

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Make prepared data visible, and answer each request. An exception fails the attempt; the next repeats it."""
        raise NotImplementedError

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Drop prepared data that is in no checkpoint, because its task or the job failed."""

    def close(self) -> None:
        """Release everything."""


class MarkingCommitter(Committer):
    """Commits records together with a mark per subtask: the checkpoint up to which its records are in.

    Define ``commit``, which skips requests whose mark is there, and ``forget_marks``; ``place`` names the target in warnings.

    >>> class Table(MarkingCommitter):
    ...     place, marks = "table 'words'", {0: 7}
    ...     def forget_marks(self, since):
    ...         later = [subtask for subtask, mark in self.marks.items() if mark > (since or 0)]
    ...         return bool([self.marks.pop(subtask) for subtask in later])
    >>> table = Table(CommitterContext("words", restored_checkpoint_id=5))
    >>> table.recover([])
    >>> table.marks
    {}
    """

    place = ""

    def forget_marks(self, since: int | None) -> bool:
        """Drop the marks of checkpoints after ``since``, from which the job starts; return True if there were some."""
        raise NotImplementedError

    def recover(self, requests: Sequence[CommitRequest]) -> None:
        """Forget later marks, as records after the checkpoint are written again; then commit its output."""
        since = self.context.restored_checkpoint_id
        if self.forget_marks(since):
            logger.warning(
                "operator %r: %s has results of checkpoints after %s, from which the job starts; they will be in twice",
                self.context.operator, self.place, since,
            )  # fmt: skip
        if requests:
            self.commit(requests)


class Sink(Generic[T_contra]):
    """A declared sink; subclasses are frozen dataclasses.

    What its writers prepare is committed when the job has succeeded and, with checkpoints, at each of them. A commit may
    be repeated after a failure, so this one remembers what it has committed, in the same transaction:

    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from dataclasses import dataclass
    >>> class Rows(SinkWriter):
    ...     def open(self):
    ...         self.rows = []
    ...     def write(self, values, timestamps, now):
    ...         self.rows += [(value,) for value in values]
    ...     def prepare_commit(self, checkpoint_id, end_of_input):
    ...         rows, self.rows = self.rows, []
    ...         return [rows]
    >>> class Inserts(Committer):
    ...     def __init__(self, path):
    ...         self.path = path
    ...     def open(self):
    ...         self.db = sqlite3.connect(self.path)
    ...         self.db.execute("CREATE TABLE IF NOT EXISTS words (word)")
    ...         self.db.execute("CREATE TABLE IF NOT EXISTS done (id PRIMARY KEY)")
    ...     def commit(self, requests):
    ...         for request in requests:
    ...             with self.db:
    ...                 done = f"{request.job_id}/{request.subtask}/{request.checkpoint_id}"
    ...                 if self.db.execute("INSERT OR IGNORE INTO done VALUES (?)", (done,)).rowcount:
    ...                     self.db.executemany("INSERT INTO words VALUES (?)", request.committable)
    ...                 else:
    ...                     request.already_committed()
    ...     def abort(self, requests):
    ...         pass  # nothing was written before
    ...     def close(self):
    ...         self.db.close()
    >>> @dataclass(frozen=True)
    ... class Words(Sink):
    ...     path: str
    ...     def check(self):
    ...         sqlite3.connect(self.path).close()
    ...     def writer(self, context):
    ...         return Rows()
    ...     def committer(self, context):
    ...         return Inserts(self.path)
    >>> from funken.testing import local
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     words = local(["to", "be"])
    ...     _ = words.sink_to(Words(folder + "/words.db"))
    ...     _ = words.get_execution_environment().execute()
    ...     with closing(sqlite3.connect(folder + "/words.db")) as db:
    ...         db.execute("SELECT word FROM words").fetchall()
    [('to',), ('be',)]
    """

    written_folder: ClassVar[Any] = None
    """The folder of a sink of files, else ``None``."""
    takes_columns = False
    """True if ``write`` takes blocks of columns as they are; else it is given lists."""
    grouped_by: Callable[[Any, Any], str] | None = None
    """Of a sink that takes columns: a method of a record and a context, of which it asks ``timestamp()`` only. If it can be
    computed of columns, ``write_groups`` is given them by its results; ``None``: ``write`` is given them as they are."""
    reads_only: bool = False
    """True if ``write`` neither changes records nor needs them when it has returned: then nothing is copied for it."""
    never_waits: bool = False
    """True if no method of the writer waits, for a disk or a service: then other subtasks may share a worker and its
    thread."""

    def of_type(self, type_info: TypeInformation | None) -> Sink:
        """Return the sink for records of a declared type (``None``: any); it matters to those that write text.

        >>> from dataclasses import dataclass, replace
        >>> from funken import Types
        >>> @dataclass(frozen=True)
        ... class Csv(Sink):
        ...     columns: tuple[str, ...] = ()
        ...     def of_type(self, type_info):
        ...         return replace(self, columns=tuple(type_info.get_field_names()))
        >>> Csv().of_type(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()]))
        Csv(columns=('word', 'n'))
        """
        return self

    def check(self) -> None:
        """Look, on the driver and before anything runs, whether the sink can work; raise ``SinkNotWritable``."""

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer, in a task."""
        raise NotImplementedError

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of one attempt, on the driver; ``None``: the writers prepare nothing."""
        return None


# ---- A sink that drops its records.


@dataclass(frozen=True)
class DiscardingSink(Sink):
    """Drops every record, without looking at it (Flink's ``DiscardingSink``): for benchmarks, and streams that end nowhere.

    >>> from funken.testing import local
    >>> numbers = local([1, 2, 3])
    >>> _ = numbers.sink_to(DiscardingSink())  # a job needs a sink
    >>> numbers.map(str).execute_and_collect(limit=3)
    ['1', '2', '3']
    >>> DiscardingSink().writer(ConnectorContext("nowhere", 0, 1)).write([1, 2, 3], None, now=0)
    """

    takes_columns = True
    reads_only = True
    never_waits = True

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return _Discarding()


class _Discarding(SinkWriter):
    """Writes nothing."""

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Drop a block."""
