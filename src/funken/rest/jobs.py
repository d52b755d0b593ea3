"""The jobs that a server shows: those of this process that run, and the newest ones that are over.

A request never makes a job do anything that costs it time: it is answered from a snapshot, which is taken anew when it is
older than a bound, and from bytes that were already made of the same snapshot. Of a job that is over only the last snapshot is
kept.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Protocol

from funken.errors import RequestRejected
from funken.runtime.job.snapshot import JobSnapshot, LogPage
from funken.runtime.job.time_series import TimeSeries
from funken.runtime.messages import StacksSampled, TaskId, ThreadsDumped
from funken.timing.clock import Clock, SystemClock

_MAX_BODIES = 256
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_RESERVED = frozenset({"overview", "metrics"})

HISTORY_INTERVAL = 5_000
_HISTORY_SPAN = 3_600_000
_HISTORY_VALUES = 2_000_000  # 16 MB
_HISTORY_INTERVAL_AFTERWARDS = 40_000

SeriesKey = tuple[str, str, str]
"""A vertex (empty: the job), a metric, and ``sum``, ``min`` or ``max`` of the subtasks."""


class LogReader(Protocol):
    """A reader of a job's logs; ``JobLogs`` is one."""

    def read(
        self, after: int | None, limit: int, fits: Callable[[dict[str, Any]], bool] = lambda entry: True
    ) -> LogPage:
        """Return some entries."""
        ...


class StackReader(Protocol):
    """A reader of the stacks of a job's tasks; ``JobStacks`` is one."""

    def request(self, tasks: Iterable[TaskId]) -> None:
        """Have tasks sampled, if they were not just now."""
        ...

    def newest(self, tasks: Iterable[TaskId]) -> list[StacksSampled]:
        """Return the newest samples."""
        ...

    def threads(self, tasks: Iterable[TaskId], seconds: float) -> list[ThreadsDumped]:
        """Return the stacks of the threads of tasks; waits so long at most."""
        ...


class ServedJob(Protocol):
    """A server's view of a job; ``JobClient`` is one."""

    def snapshot(self) -> JobSnapshot:
        """Return a picture of the job."""
        ...

    def logs(self) -> LogReader:
        """Return the logs of the job's tasks; they are kept when the job is over."""
        ...

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> Any:
        """Begin a savepoint; the future has its path."""
        ...

    def stop_with_savepoint(self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None) -> Any:
        """Begin a savepoint and end the job with it; the future has its path."""
        ...

    def trigger_checkpoint(self) -> Any:
        """Begin a checkpoint; the future has its path."""
        ...

    def stacks(self) -> StackReader:
        """Return the sampler of the threads of its tasks."""
        ...

    def suspend(self) -> Any:
        """Begin to stop the job because its driver ends: its data for a resumption are kept."""
        ...

    def rescale(self, parallelism: int) -> Any:
        """Begin to change the parallelism; the future is done when all tasks run with it."""
        ...

    def cancel(self) -> Any:
        """Begin to stop the job."""
        ...


def public_id(job_id: str) -> str:
    """Return the id of a job as it stands in addresses: its own, or 32 hexadecimal digits if that does not fit there.

    >>> public_id("orders-eu"), public_id("orders/eu") == public_id("orders/eu"), len(public_id("overview"))
    ('orders-eu', True, 32)
    """
    if _SAFE_ID.fullmatch(job_id) and job_id not in _RESERVED:
        return job_id
    return digest(job_id)


def digest(text: str) -> str:
    """Return 32 hexadecimal digits that stand for a text: Flink's form of the id of a vertex or a machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Picture:
    """A snapshot, and the responses that were made of it."""

    __slots__ = ("bodies", "snapshot", "taken")

    def __init__(self, snapshot: JobSnapshot, taken: float) -> None:
        self.snapshot = snapshot
        self.taken = taken
        self.bodies: dict[str, bytes] = {}

    def keep(self, key: str, body: bytes) -> None:
        """Keep a response for who asks the same."""
        if len(self.bodies) < _MAX_BODIES:
            self.bodies[key] = body


class JobEntry:
    """One job; ``job`` is ``None`` when it is over."""

    def __init__(self, job: ServedJob, keep_seconds: float, clock: Clock) -> None:
        self.job: ServedJob | None = job
        self.logs = job.logs()
        self._keep = keep_seconds
        self._clock = clock
        self._taking = threading.Lock()  # a snapshot that began before the job ended must not replace the last one
        self._series: TimeSeries[SeriesKey] = TimeSeries(_HISTORY_SPAN, HISTORY_INTERVAL, _HISTORY_VALUES)
        self._keeping = threading.Lock()
        self._picture = Picture(job.snapshot(), -inf)  # the job is about to change: the first request gets a new one
        self.id = public_id(self._picture.snapshot.id)
        self.name = self._picture.snapshot.name

    def picture(self) -> Picture:
        """Return the newest picture; it is taken anew if it is too old."""
        with self._taking:
            if self._clock.monotonic() - self._picture.taken >= self._keep:
                self._take()
            return self._picture

    def _take(self) -> None:
        if self.job is not None:
            self._picture = Picture(self.job.snapshot(), self._clock.monotonic())

    @property
    def snapshot(self) -> JobSnapshot:
        """The newest snapshot."""
        return self.picture().snapshot

    def refresh(self) -> JobSnapshot:
        """Take a snapshot now: an operation has changed the job, or depends on its state."""
        with self._taking:
            self._take()
            return self._picture.snapshot

    def keep_sample(self, at: int, values: Mapping[SeriesKey, float]) -> None:
        """Add the metrics of a moment to the history of the job."""
        with self._keeping:
            self._series.add(at, values)

    def history(
        self, wanted: Callable[[SeriesKey], bool], since: int | None
    ) -> tuple[list[int], dict[SeriesKey, list[float | None]], int, int]:
        """Return times, the wanted series, their interval (ms), and the number of series without room."""
        with self._keeping:
            times, series = self._series.read(wanted, since)
            return times, series, self._series.interval, self._series.left_out

    def close(self) -> None:
        """Keep the last snapshot and a coarse history, and nothing else of the job."""
        with self._taking:
            self._take()
            self.job = None
        with self._keeping:
            self._series.thin(_HISTORY_INTERVAL_AFTERWARDS)


class Unread:
    """The operations that a server has begun for clients that do not know their end yet, from any thread.

    Before it closes, it waits a moment for their question: else ``funken stop`` of a driver that ends with its job would find no
    server to ask for the savepoint's path.

    >>> unread = Unread()
    >>> unread.begun("job", "stop")
    >>> unread.wait(0)
    False
    >>> unread.read("job", "stop")
    >>> unread.wait(0)
    True
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._names: set[tuple[str, str]] = set()

    def begun(self, job: str, name: str) -> None:
        """An operation of a job was begun for a client that will ask for its end."""
        with self._changed:
            self._names.add((job, name))

    def read(self, job: str, name: str) -> None:
        """A client has read its end."""
        if (job, name) in self._names:  # without the lock: most requests have begun nothing
            with self._changed:
                self._names.discard((job, name))
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until clients have read all ends; return whether they did."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._names, seconds)


class Jobs:
    """All jobs of a server, from any thread; those that are over are bounded."""

    def __init__(self, keep_seconds: float = 0.5, capacity: int = 20, clock: Clock | None = None) -> None:
        self._keep = keep_seconds
        self._capacity = capacity
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self.unread = Unread()
        self._entries: dict[str, JobEntry] = {}

    def add(self, job: ServedJob) -> JobEntry:
        """Show a job; an older one of the same id is replaced."""
        entry = JobEntry(job, self._keep, self._clock)
        self.show(entry)
        return entry

    def show(self, entry: JobEntry) -> None:
        """Show a job that is also elsewhere."""
        with self._lock:
            self._entries.pop(entry.id, None)
            self._entries[entry.id] = entry

    def close(self, entry: JobEntry) -> None:
        """A job is over: show how it ended."""
        entry.close()
        with self._lock:
            over = [each for each in self._entries.values() if each.job is None]
            for each in over[: max(0, len(over) - self._capacity)]:
                del self._entries[each.id]

    def all(self) -> list[JobEntry]:
        """Return all jobs, oldest first."""
        with self._lock:
            return list(self._entries.values())

    def get(self, job_id: str) -> JobEntry:
        """Return a job; raises ``RequestRejected`` (404) if there is none of this id."""
        with self._lock:
            entry = self._entries.get(job_id)
        if entry is None:
            raise RequestRejected(f"Job {job_id} not found. GET /jobs lists the jobs of this driver.", 404)
        return entry
