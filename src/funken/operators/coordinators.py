"""The contract of an operator coordinator: one per operator and attempt, on the driver (Flink's ``OperatorCoordinator``).

A spec that has a method ``coordinator(context)`` gets one. Its subtasks send it events with ``context.send_event(payload)``;
it sends events to them with ``context.send_event(subtask, payload)``. Payloads are plain data, and arrive in the order in which
they were sent. With ``output=True`` an event is part of what the attempt of the task writes: where Spark may repeat a task, it
is handed on when the task has finished, and discarded if another attempt counts.

Its methods are called one at a time, with the lock of the job master: they have to be quick. What may take long, such as
listing files or committing, runs on the coordinator's worker thread: ``context.worker``. Only ``handle_output`` and
``discard_output`` are called without the lock, by several threads, and may wait.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Protocol, TypeVar

from funken import config
from funken.config import Configuration
from funken.connectors.base import CommitterContext, Source
from funken.connectors.dataframe import RowsEnumerator
from funken.connectors.sink import CommitOutcome, CommitRequest, Committer, PreparedCommittable, Sink
from funken.dataclass import dataclass
from funken.errors import CommitError, JobExecutionError, SuppressRestarts
from funken.ids import MAX_WATERMARK
from funken.io.standard import write_out
from funken.timing.clock import SystemClock, until

# ---- What the commits of a job have come to, for its metrics.


@dataclass
class CommitCounts:
    """Committables of a sink, or of all sinks of a job over all attempts, by Flink's names; written by threads that commit.

    >>> counts = CommitCounts()
    >>> counts.metrics()
    {}
    >>> counts.count([CommitRequest("part-0"), CommitRequest("part-1")], seconds=0.0123)
    >>> [(name, value) for name, value in counts.metrics().items() if value]
    [('numCommittablesSuccess', 2), ('lastCommitDuration', 12.3)]
    """

    success: int = 0
    already: int = 0
    retry: int = 0
    failure: int = 0
    #: how long (s) the last commit of a checkpoint took, with its retries
    last_duration: float | None = None

    def count(self, requests: Iterable[CommitRequest], seconds: float) -> None:
        """Count requests that a committer has handled, ``seconds`` after the first try."""
        outcomes = Counter(request.outcome for request in requests)
        self.success += outcomes[CommitOutcome.COMMITTED]
        self.already += outcomes[CommitOutcome.ALREADY_COMMITTED]
        self.retry += outcomes[CommitOutcome.RETRY_LATER]
        self.failure += outcomes[CommitOutcome.FAILED]
        self.last_duration = seconds

    def metrics(self) -> dict[str, int | float]:
        """Return them by name; nothing before the first commit."""
        if self.last_duration is None:
            return {}
        return {
            "numCommittablesSuccess": self.success,
            "numCommittablesAlreadyCommitted": self.already,
            "numCommittablesRetry": self.retry,
            "numCommittablesFailure": self.failure,
            "lastCommitDuration": round(self.last_duration * 1000, 3),
        }


T = TypeVar("T")


class Worker(Protocol):
    """The worker thread of one coordinator."""

    def call(self, work: Callable[[], T], seconds: float, what: str) -> T:
        """Run work on the worker thread, and wait for its result; raises ``CommitError`` if that takes too long."""

    def call_async(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run work on the worker thread; ``done`` gets its result under the master's lock. Exceptions fail the job."""

    def pause(self, seconds: float) -> bool:
        """Wait; returns false at once if the attempt has failed or the job is cancelled."""


class _Inline:
    """Runs everything in the calling thread: for tests."""

    def call(self, work: Callable[[], T], seconds: float, what: str) -> T:
        return work()

    def call_async(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        done(work())

    def pause(self, seconds: float) -> bool:
        return True


def _drop(subtask: int, payload: Any) -> None:
    """No task is connected."""


@dataclass(frozen=True, slots=True)
class OperatorCoordinatorContext:
    """The context of a coordinator: its job, and ways to reach the subtasks.

    ``operator`` is the operator's name, ``operator_uid`` its stable id, ``restored_checkpoint_id`` the checkpoint that the
    attempt starts from. ``send_event(subtask, payload)`` sends an event to a subtask. ``shared`` is one dict for all
    coordinators of the attempt, by any name (Flink's ``CoordinatorStore``). ``commits`` are the counts of all sinks of the job.
    """

    operator: str
    parallelism: int = 1
    job_name: str = "job"
    job_id: str = "local"
    operator_uid: str = ""
    attempt: int = 0
    restored_checkpoint_id: int | None = None
    send_event: Callable[[int, Any], None] = _drop
    worker: Worker = field(default_factory=_Inline)
    shared: dict[str, Any] = field(default_factory=dict)
    configuration: Configuration = field(default_factory=Configuration)
    commits: CommitCounts = field(default_factory=CommitCounts)


class OperatorCoordinator:
    """The driver's half of an operator. Life: ``reset_to_checkpoint`` (after a restore) -> ``start`` -> ... -> ``close``."""

    def __init__(self, context: OperatorCoordinatorContext) -> None:
        self.context = context

    def start(self) -> None:
        """Begin, before any task runs; an exception fails the attempt. May take long."""

    def handle_event(self, subtask: int, payload: Any) -> None:
        """Handle an event of a subtask."""

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Handle an event that is output; called without the lock, so that waiting here holds up the subtask only."""

    def discard_output(self, subtask: int, payload: Any) -> None:
        """Drop an event that is output of an attempt that does not count; called without the lock."""

    def abandon(self) -> None:
        """The attempt is abandoned: calls that wait in other threads have to return."""

    def checkpoint(self, checkpoint_id: int) -> Any:
        """Return the state at the beginning of a checkpoint as plain data; ``None``: there is none.

        Earlier messages to a subtask arrive there before the barrier, and later ones after it.
        """
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint is aborted."""

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: Any) -> None:
        """Restore the result of ``checkpoint``; called before ``start``."""

    def subtask_failed(self, subtask: int) -> None:
        """A subtask failed and begins again while the others run on: Spark repeats tasks of a batch job."""

    def tick(self, now: int) -> None:
        """Processing time (ms) has passed; called some times a second."""

    def metrics(self) -> dict[str, int | float]:
        """Return its metrics since the attempt began, by name."""
        return {}

    def close(self) -> None:
        """Release everything; the attempt has ended."""


# ---- Records on their way from the tasks to the program that iterates over them.


_COLLECT_BLOCKS, _BLOCK_RECORDS = 64, 2000


class Collector:
    """Records on their way to the program: a queue that is bounded in blocks and in records, so that a slow reader slows the job.

    No wait is unbounded: ``close`` wakes a writer that waits for room, and either end wakes the reader.
    """

    def __init__(self) -> None:
        self.limit: float = _COLLECT_BLOCKS
        """Number of blocks that may wait, or as many records as so many blocks of 2000 have."""
        self._blocks: deque[list[Any]] = deque()
        self._records = 0
        self._changed = threading.Condition()
        self._closed = False
        self._ended = False
        self.handed_on = False
        """True if there were records for the reader, who may have them."""

    def put(self, records: list[Any], given_up: Callable[[], bool] = bool) -> None:
        """Add a block; waits for room, unless the reader has closed or the attempt that it is from was abandoned."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or given_up() or self._has_room())
            if not self._closed and not given_up():
                self._blocks.append(records)
                self._records += len(records)
                self.handed_on = True
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._blocks) < self.limit and self._records < self.limit * _BLOCK_RECORDS

    def wake(self) -> None:
        """Wake all waiting threads to check their condition again."""
        with self._changed:
            self._changed.notify_all()

    def end(self) -> None:
        """Notify the reader that no more records follow."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """The reader left: drop present and later blocks."""
        with self._changed:
            self._closed = True
            self._blocks.clear()
            self._records = 0
            self._changed.notify_all()

    @property
    def pending(self) -> int:
        """Number of records that wait for the reader."""
        return self._records

    def waiting(self) -> bool:
        """Return True if ``get`` would return a block at once."""
        with self._changed:
            return bool(self._blocks)

    def get(self) -> list[Any] | None:
        """Wait for the next block; ``None`` at the end."""
        with self._changed:
            until(self._changed, lambda: bool(self._blocks) or self._ended or self._closed)
            if not self._blocks:
                return None
            block = self._blocks.popleft()
            self._records -= len(block)
            self._changed.notify_all()
            return block


_SHARED = "collectors"


class Collectors:
    """The collectors of a job, by the name of their sink, made when they are first asked for; they outlive attempts.

    >>> collectors = Collectors()
    >>> collectors["sums"].put([1, 2])
    >>> collectors.close_others(["sums"])  # nobody reads the rest
    >>> collectors["counts"].put([3])
    >>> collectors.end()
    >>> list(iter(collectors["sums"].get, None)), collectors["counts"].get()
    ([[1, 2]], None)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, Collector] = {}
        self._closed = self._ended = False

    @staticmethod
    def of(shared: dict[str, Any]) -> Collectors:
        """Return those of the job that ``shared`` of a coordinator's context belongs to."""
        collectors: Collectors = shared.setdefault(_SHARED, Collectors())
        return collectors

    def share(self, shared: dict[str, Any]) -> None:
        """Be those of the coordinators that share this."""
        shared[_SHARED] = self

    def __getitem__(self, name: str) -> Collector:
        with self._lock:
            if name not in self._made:
                self._made[name] = collector = Collector()
                if self._closed:
                    collector.close()
                elif self._ended:
                    collector.end()
            return self._made[name]

    def _all(self) -> list[Collector]:
        with self._lock:
            return list(self._made.values())

    @property
    def handed_on(self) -> bool:
        """True if some reader may have records, which another attempt from the beginning would return again."""
        return any(collector.handed_on for collector in self._all())

    def end(self) -> None:
        """Notify every reader that no more records follow."""
        self._ended = True
        for collector in self._all():
            collector.end()

    def close(self) -> None:
        """Nobody reads any more."""
        self.close_others(())

    def close_others(self, names: Iterable[str]) -> None:
        """Close all but these: nobody will read them."""
        kept = {name: self[name] for name in names}
        self._closed = True
        for collector in self._all():
            if collector not in kept.values():
                collector.close()


# ---- The coordinators of ``print()`` and of collected streams: output that appears where the program runs.


_LOCK = "print lock"


class PrintCoordinator(OperatorCoordinator):
    """Writes the lines of a print sink to standard output; those of a block stay together.

    >>> PrintCoordinator(OperatorCoordinatorContext("print")).handle_output(0, ["1> to be", "1> or not"])
    1> to be
    1> or not
    """

    def __init__(self, context: OperatorCoordinatorContext) -> None:
        super().__init__(context)
        self._lock: threading.Lock = context.shared.setdefault(_LOCK, threading.Lock())
        self._records = 0

    def metrics(self) -> dict[str, int | float]:
        """Return the number of written records."""
        return {"numRecordsIn": self._records}

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Write lines; raises ``SuppressRestarts`` if their reader has ended. Without standard output, they are dropped."""
        with self._lock:
            self._records += len(payload)
            try:
                write_out("".join(line + "\n" for line in payload))
            except BrokenPipeError as error:
                raise SuppressRestarts(
                    "standard output cannot be written to, because its reader has ended. Read all lines, or "
                    "take the first ones with execute_and_collect(limit=...)."
                ) from error


class CollectCoordinator(OperatorCoordinator):
    """Puts the records of a collecting sink, which come pickled, where the program reads them; waits for a slow reader."""

    def __init__(self, context: OperatorCoordinatorContext, name: str) -> None:
        super().__init__(context)
        self._collector = Collectors.of(context.shared)[name]
        self._abandoned = False
        self._lock = threading.Lock()
        self._records = 0

    def metrics(self) -> dict[str, int | float]:
        """Return the number of records, and of those that wait for the reader."""
        return {"numRecordsIn": self._records, "pendingRecords": self._collector.pending}

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Hand on records."""
        records = pickle.loads(payload)
        with self._lock:
            self._records += len(records)
        self._collector.put(records, lambda: self._abandoned)

    def abandon(self) -> None:
        """Let writers go that wait for a reader, which may read from another attempt."""
        self._abandoned = True
        self._collector.wake()


# ---- The coordinator of a sink: commits on the driver what the writers prepared, and retries what cannot be
# committed yet.
#
# The committer runs on the coordinator's worker thread only. Whoever wants a commit waits for it, with a bound, and
# never holds the lock of the job master. Between retries there is a pause, which doubles; it ends early if the
# attempt fails, for the next attempt commits the same again.


_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(frozen=True)
class CommitSettings:
    """The limits of commits: the number of retries, and the time of one call of a committer (s)."""

    retries: int = 10
    timeout: float = 600.0

    @staticmethod
    def of(configuration: Configuration) -> CommitSettings:
        """Read the settings out of a configuration."""
        get = configuration.get
        return CommitSettings(get(config.COMMITTER_RETRIES), get(config.COMMITTER_TIMEOUT) / 1000)


class CommitCoordinator(OperatorCoordinator):
    """The commits of one sink in one attempt.

    >>> class Slow(Committer):
    ...     def commit(self, requests):
    ...         for request in requests:
    ...             print("commit", request.committable)
    ...             if request.retries < 1:
    ...                 request.retry_later("not yet")
    >>> class Out(Sink):
    ...     def committer(self, context):
    ...         return Slow()
    >>> coordinator = CommitCoordinator(OperatorCoordinatorContext("out"), Out())
    >>> coordinator.start()
    >>> coordinator.commit([PreparedCommittable("job", 1, 0, "part-0")])
    commit part-0
    commit part-0
    """

    def __init__(self, context: OperatorCoordinatorContext, sink: Sink, settings: CommitSettings | None = None) -> None:
        super().__init__(context)
        self._sink = sink
        self._settings = settings or CommitSettings.of(context.configuration)
        self._committer: Committer | None = None
        self._recovered = False
        self._opened = False
        self._counts = CommitCounts()
        #: what finished subtasks prepared in a job without checkpoints
        self._prepared: list[PreparedCommittable] = []

    def metrics(self) -> dict[str, int | float]:
        """Return counts of the outcomes of this sink's committables."""
        return {f"committer.{name}": value for name, value in self._counts.metrics().items()}

    # ---- life

    def start(self) -> None:
        """Check the sink; recover, unless a checkpoint was recovered from."""
        self._sink.check()
        if not self._recovered:
            self.recover(())

    def recover(self, prepared: Sequence[PreparedCommittable]) -> None:
        """Commit the output of the checkpoint that the attempt starts from; once, before any task runs."""
        self._recovered = True
        committer = self._open(prepared)
        if committer is not None:
            self._until_done(committer, prepared, committer.recover)

    def close(self) -> None:
        """Close the committer."""
        committer, self._committer, self._opened = self._committer, None, False
        if committer is not None:
            self._call(committer.close, "close")

    def _open(self, prepared: Sequence[PreparedCommittable]) -> Committer | None:
        if not self._opened:
            of = self.context
            interval = of.configuration.get(config.CHECKPOINT_INTERVAL)
            self._committer = self._sink.committer(
                CommitterContext(
                    of.operator, of.parallelism, of.job_id, of.operator_uid, of.attempt, of.restored_checkpoint_id,
                    interval if interval > 0 else None,
                )
            )  # fmt: skip
            self._opened = True
            if self._committer is not None:
                self._call(self._committer.open, "open")
        if self._committer is None and prepared:
            raise CommitError(
                f"{of_operator(self.context)}: its writers prepared {len(prepared)} committables, but "
                f"{type(self._sink).__name__} has no committer; define committer(), or return nothing from prepare_commit().",
                self.context.operator,
            )
        return self._committer

    # ---- commits

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Keep a subtask's prepared output until the job has succeeded."""
        self._prepared.extend(payload)  # at once, for any thread

    def discard_output(self, subtask: int, payload: Any) -> None:
        """Let the committer drop an attempt's prepared output that does not count."""
        self.abort(payload)

    def succeeded(self) -> None:
        """The job has succeeded: commit the output that its subtasks prepared."""
        prepared, self._prepared = self._prepared, []
        self.commit(prepared)

    def commit(self, prepared: Sequence[PreparedCommittable]) -> None:
        """Commit, and repeat retried requests; raises if something cannot be committed. May take long."""
        committer = self._open(prepared) if prepared else None
        if committer is not None:
            self._until_done(committer, prepared, committer.commit)

    def abort(self, prepared: Sequence[PreparedCommittable] = ()) -> None:
        """Let the committer drop output that was prepared in vain; without arguments all that is not committed."""
        if not prepared:
            prepared, self._prepared = self._prepared, []
        committer = self._open(prepared) if prepared else None
        if committer is not None:
            requests = self._requests(prepared)
            self._call(lambda: committer.abort(requests), "abort")

    def _until_done(
        self,
        committer: Committer,
        prepared: Iterable[PreparedCommittable],
        commit: Callable[[Sequence[CommitRequest]], None],
    ) -> None:
        requests, pause, retries = self._requests(prepared), _FIRST_PAUSE, 0
        clock = SystemClock()
        began = clock.monotonic()
        while True:
            given = tuple(requests)
            self._call(partial(commit, given), "commit")
            for counts in (self._counts, self.context.commits) if given else ():
                counts.count(given, clock.monotonic() - began)
            for request in requests:
                if request.outcome is CommitOutcome.FAILED:
                    raise self._failed(request, request.reason) from request.error
            requests = [request for request in requests if request.outcome is CommitOutcome.RETRY_LATER]
            if not requests:
                return
            if retries == self._settings.retries:
                raise self._failed(requests[0], f"{requests[0].reason or 'it was to be retried'} ({retries} retries)")
            if not self.context.worker.pause(pause):
                raise self._failed(
                    requests[0], f"{requests[0].reason or 'it was to be retried'}; the attempt has ended"
                )
            retries, pause = retries + 1, min(2 * pause, _LONGEST_PAUSE)
            for request in requests:
                request.retries, request.outcome = retries, CommitOutcome.COMMITTED
            commit = committer.commit

    def _requests(self, prepared: Iterable[PreparedCommittable]) -> list[CommitRequest]:
        return [
            CommitRequest(
                of.committable,
                job_id=of.job_id,
                operator_uid=self.context.operator_uid,
                subtask=of.subtask,
                checkpoint_id=of.checkpoint_id,
            )
            for of in prepared
        ]

    def _call(self, work: Callable[[], None], what: str) -> None:
        self.context.worker.call(
            work, self._settings.timeout, f"{of_operator(self.context)}: {what}() of its committer"
        )

    def _failed(self, request: CommitRequest, why: str) -> CommitError:
        at = "" if request.checkpoint_id is None else f" for checkpoint {request.checkpoint_id}"
        return CommitError(
            f"{of_operator(self.context)}: what subtask {request.subtask} prepared{at} is not committed: {why}",
            self.context.operator,
            request.subtask,
        )


def of_operator(context: OperatorCoordinatorContext) -> str:
    """Return the operator's name in messages."""
    return f"operator {context.operator!r}"


# ---- The coordinator of a source: which subtask has which splits, new splits, and watermark alignment.
#
# A subtask that begins again (Spark repeats tasks of a batch job) is assigned what it was assigned before, nothing
# else. The enumerator is called by one thread at a time; only its ``discover``, which changes nothing, runs on the
# worker thread: it may list folders or ask a service. What it found and nobody took over when a checkpoint begins
# is not part of the checkpoint, and is found again by a job that starts from there.


# ---- What source operators and their coordinators send each other: the payloads of their events.


@dataclass(frozen=True, slots=True)
class RequestSplits:
    """To the coordinator: the subtask requests more splits; ``all_read``: it has read its own."""

    all_read: bool = True


@dataclass(frozen=True, slots=True)
class ReportWatermark:
    """To the coordinator: the subtask has reached ``watermark`` (``MAX_WATERMARK``: it is idle or has ended)."""

    watermark: int


@dataclass(frozen=True, slots=True)
class AddSplits:
    """To a subtask: it is assigned splits; ``no_more``: none will follow."""

    splits: tuple[Any, ...] = ()
    no_more: bool = False


@dataclass(frozen=True, slots=True)
class SplitsDiscovered:
    """To every subtask: there are new splits to request."""


@dataclass(frozen=True, slots=True)
class AlignWatermark:
    """To a subtask: pause while the watermark is above ``allowed``."""

    allowed: int


# ---- Watermark alignment: which source subtasks of a group are too far ahead (Flink's ``SourceCoordinator``).
#
# Every subtask reports its watermark; each may read on until it is more than its own drift ahead of the slowest. A
# subtask that is idle or has ended reports ``MAX_WATERMARK`` and holds no other back. A group may have the subtasks
# of several sources.


_Member = tuple[str, int]
_ALIGNMENT = "watermark alignment"


class WatermarkAlignment:
    """The groups of one attempt; ``send(subtask, payload)`` reaches the subtasks of one source.

    >>> alignment = WatermarkAlignment()
    >>> def send(subtask, payload):
    ...     print(subtask, payload)
    >>> alignment.reached("g", ("slow", 0), 100, drift=50, send=send)
    0 AlignWatermark(allowed=150)
    >>> alignment.reached("g", ("fast", 1), 900, drift=20, send=send)
    0 AlignWatermark(allowed=150)
    1 AlignWatermark(allowed=120)
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[_Member, tuple[int, int, Callable[[int, Any], None]]]] = {}

    @staticmethod
    def of(shared: dict[str, Any]) -> WatermarkAlignment:
        """Return the one that all coordinators of an attempt share."""
        alignment: WatermarkAlignment = shared.setdefault(_ALIGNMENT, WatermarkAlignment())
        return alignment

    def reached(
        self, group: str, member: _Member, watermark: int, drift: int, send: Callable[[int, Any], None]
    ) -> None:
        """Take the watermark of a member (uid of its source, subtask); tell every member its limit."""
        members = self._groups.setdefault(group, {})
        members[member] = (watermark, drift, send)
        slowest = min(watermark for watermark, _, _ in members.values())
        for (_, subtask), (_, allowance, reach) in members.items():
            reach(subtask, AlignWatermark(min(MAX_WATERMARK, slowest + allowance)))


logger = logging.getLogger(__name__)

SLOW_MILLIS = 60_000
"""A look for new splits that takes longer is warned of."""


class SourceCoordinator(OperatorCoordinator):
    """The driver's half of one source in one attempt; ``alignment`` is that of its watermark strategy.

    >>> from funken import NumberSequenceSource
    >>> sent = []
    >>> context = OperatorCoordinatorContext("numbers", send_event=lambda subtask, payload: sent.append(payload))
    >>> coordinator = SourceCoordinator(context, NumberSequenceSource(1, 4))
    >>> coordinator.start()
    >>> coordinator.handle_event(0, RequestSplits())
    >>> coordinator.handle_event(0, RequestSplits())
    >>> [(len(event.splits), event.no_more) for event in sent]
    [(1, False), (0, True)]
    """

    def __init__(
        self, context: OperatorCoordinatorContext, source: Source, alignment: tuple[str, int, int] | None = None
    ) -> None:
        super().__init__(context)
        self.enumerator = source.enumerator(context.parallelism)
        self._alignment = alignment
        self._restored: tuple[Any] | None = None
        self._assigned: dict[int, list[Any]] = {}
        self._reassigned: dict[int, list[Any]] = {}
        self._next_look: int | None = None
        self._look_began: int | None = None
        self._warned = False

    # ---- life

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: Any) -> None:
        """Let the enumerator resume from its snapshot."""
        self._restored = state

    def start(self) -> None:
        """Start the enumerator, or restore it; raises its exception."""
        if self._restored is None:
            self.enumerator.start()
        else:
            self.enumerator.restore(self._restored[0])

    def checkpoint(self, checkpoint_id: int) -> tuple[Any]:
        """Return the snapshot of the enumerator, which may be ``None``."""
        return (self.enumerator.snapshot(),)

    def begin_micro_batch(self, number: int, own: bool) -> bool:
        """Set which rows are to be read; false if the checkpoint that the attempt starts from ends with that batch.

        ``own``: it is a checkpoint of this very job, else the first batch begins. Raises if batches are missing.
        """
        if not isinstance(self.enumerator, RowsEnumerator):
            return True
        self.enumerator.batch = number
        before = self._restored[0] if own and self._restored is not None else -1
        if before + 1 != number and before != number:
            raise JobExecutionError(
                f"job {self.context.job_name!r} is given micro-batch {number}, but its newest checkpoint is of batch "
                f"{before}: Spark's log of offsets and the checkpoints do not belong together. Put the missing "
                "checkpoint back, or start with another execution.job-id (from a checkpoint, with "
                "execution.state-recovery.path)."
            )
        return bool(before != number)

    # ---- splits

    def handle_event(self, subtask: int, payload: Any) -> None:
        """Assign splits to a subtask that requests some; align its watermark with the others of its group."""
        match payload:
            case RequestSplits(all_read):
                if all_read and subtask not in self._reassigned:
                    self.enumerator.splits_read(subtask)
                self._assign(subtask)
            case ReportWatermark(watermark) if self._alignment is not None:
                group, drift, _ = self._alignment
                alignment = WatermarkAlignment.of(self.context.shared)
                member = (self.context.operator_uid, subtask)
                alignment.reached(group, member, watermark, drift, self.context.send_event)

    def _assign(self, subtask: int) -> None:
        again = self._reassigned.pop(subtask, None)
        if again:
            self.context.send_event(subtask, AddSplits(tuple(again)))
            return
        splits = self.enumerator.next_splits(subtask)
        if splits:
            self._assigned.setdefault(subtask, []).extend(splits)
        self.context.send_event(subtask, AddSplits(tuple(splits or ()), no_more=splits is None))

    def subtask_failed(self, subtask: int) -> None:
        """A subtask begins again: it is assigned its former splits."""
        if subtask in self._assigned:
            self._reassigned[subtask] = self._assigned[subtask]

    def metrics(self) -> dict[str, int | float]:
        """Return the numbers of assigned and of waiting splits."""
        waiting = self.enumerator.unassigned_splits()
        found: dict[str, int | float] = {"enumerator.assignedSplits": sum(map(len, self._assigned.values()))}
        return found if waiting is None else found | {"enumerator.unassignedSplits": waiting}

    # ---- discovery

    def tick(self, now: int) -> None:
        """Look for new splits when it is time to, one look at a time."""
        interval = self.enumerator.discovery_interval
        if interval is None:
            return
        if self._next_look is None:
            self._next_look = now + interval
        if self._look_began is not None:
            self._warn_if_slow(now)
        elif now >= self._next_look:
            self._next_look, self._look_began, self._warned = now + interval, now, False
            self.context.worker.call_async(lambda: self._look(now), self._found)

    def _look(self, now: int) -> Any:
        try:
            return self.enumerator.discover(now)
        except JobExecutionError:
            raise
        except Exception as error:
            name = self.context.operator
            raise JobExecutionError(
                f"source {name!r} failed when it looked for new splits: {type(error).__name__}: {error}", operator=name
            ) from error

    def _found(self, found: Any) -> None:
        self._look_began = None
        if found is not None and self.enumerator.add_discovered(found):
            for subtask in range(self.context.parallelism):
                self.context.send_event(subtask, SplitsDiscovered())

    def _warn_if_slow(self, now: int) -> None:
        assert self._look_began is not None
        if not self._warned and now - self._look_began >= SLOW_MILLIS:
            self._warned = True
            logger.warning(
                "job %r: source %r has been looking for new splits for %d s. Is the listed storage slow, "
                "or not reachable?", self.context.job_name, self.context.operator, (now - self._look_began) // 1000,
            )  # fmt: skip
