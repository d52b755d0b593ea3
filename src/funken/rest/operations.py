"""Operations by request: savepoint, stop, rescale, cancel. Each begins at once; its result is found by a trigger id.

Results are kept for the newest few; a request that is repeated with the same trigger id begins nothing new.
"""

from __future__ import annotations

import threading
import traceback
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from funken.checkpoint.store.completed import dispose_savepoint
from funken.dataclass import dataclass
from funken.errors import FunkenError, JobExecutionError, RequestRejected
from funken.io.threads import in_daemon
from funken.rest.jobs import JobEntry, ServedJob, Unread
from funken.rest.throwable import serialized_throwable
from funken.rest.views.jobs import Json
from funken.runtime.job.states import JobStatus

_KEPT = 256
_DISPOSAL = "savepoint-disposal"
CANCEL = "cancel"
"""The name of a cancellation among operations: its end is the state of the job."""


@dataclass(frozen=True, slots=True)
class TriggeredOperation:
    """A savepoint or a rescaling under way, or done."""

    id: str
    job: str
    future: Any
    shown: Callable[[Any], Json]
    """The API's form of the result."""

    def status(self) -> Json:
        """Return it as ``.../savepoints/:triggerid``."""
        if not self.future.done():
            return {"status": {"id": "IN_PROGRESS"}}
        error = FunkenError("it was given up") if self.future.cancelled() else self.future.exception(0)
        if error is None:
            done = self.shown(self.future.result(0))
            return {"status": {"id": "COMPLETED"}, "operation": done}
        return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause_of(error)}}


def cause_of(error: BaseException) -> Json:
    """Return an error as Flink's REST API shows one.

    >>> cause = cause_of(FunkenError("no disk"))
    >>> cause["class"], cause["stack-trace"], cause["serialized-throwable"][:6]
    ('FunkenError', 'FunkenError: no disk', 'rO0ABX')
    """
    name = type(error).__name__
    known = isinstance(error, FunkenError | JobExecutionError)
    text = f"{name}: {error}" if known else "".join(traceback.format_exception(error)).rstrip()
    return {
        "class": name,
        "stack-trace": text,
        "serialized-throwable": serialized_throwable(name, str(error), text),
    }


def _located(path: str) -> Json:
    return {"location": path}


def _rescaled(parallelism: int) -> Json:
    return {"parallelism": parallelism}


def _numbered(path: str) -> Json:
    """Return the number that the folder of a checkpoint ends with.

    >>> _numbered("/checkpoints/orders/chk-12")
    {'checkpointId': 12}
    """
    return {"checkpointId": int(path.rstrip("/").rpartition("-")[2])}


class Operations:
    """The operations of a server, from any thread."""

    def __init__(self, unread: Unread) -> None:
        self._unread = unread
        self._lock = threading.Lock()  # of the event loop too: never held while a job is asked
        self._beginning = threading.Lock()
        self._known: dict[tuple[str, str], TriggeredOperation] = {}

    def savepoint(self, entry: JobEntry, directory: str | None, stop: bool, trigger: str | None) -> str:
        """Begin a savepoint, with ``stop`` one that the job ends with; return the trigger id."""
        if stop:
            return self.stop(entry, directory, drain=False, trigger=trigger)
        return self._begin(entry, "a savepoint", trigger, lambda job: job.trigger_savepoint(directory), _located)

    def stop(self, entry: JobEntry, directory: str | None, drain: bool, trigger: str | None) -> str:
        """Begin a savepoint that the job ends with; return the trigger id."""
        return self._begin(entry, "a stop", trigger, lambda job: job.stop_with_savepoint(drain, directory), _located)

    def checkpoint(self, entry: JobEntry, trigger: str | None) -> str:
        """Begin a checkpoint; return the trigger id."""
        return self._begin(entry, "a checkpoint", trigger, lambda job: job.trigger_checkpoint(), _numbered)

    def dispose(self, path: str) -> str:
        """Begin to delete a savepoint; return the trigger id."""
        number = uuid.uuid4().hex
        future = in_daemon("funken-disposal", lambda: dispose_savepoint(path))
        with self._lock:
            self._keep(TriggeredOperation(number, _DISPOSAL, future, lambda _: {}))
        return number

    def disposal(self, trigger: str) -> Json:
        """Return the progress of the deletion of a savepoint; raises ``RequestRejected`` (404) if it is not known."""
        found = self._find(_DISPOSAL, trigger)
        if found is None:
            raise RequestRejected(f"There is no disposal {trigger}. The newest {_KEPT} operations are kept.", 404)
        return found.status()

    def suspend_all(self, entries: Iterable[JobEntry]) -> None:
        """Begin to stop every job that runs; their data for a resumption are kept."""
        for entry in entries:
            if (job := entry.job) is not None:
                job.suspend()
                entry.refresh()

    def rescale(self, entry: JobEntry, parallelism: int) -> str:
        """Begin to change the parallelism; return the trigger id."""
        return self._begin(entry, "a rescaling", None, lambda job: job.rescale(parallelism), _rescaled)

    def cancel(self, entry: JobEntry) -> None:
        """Begin to stop the job; raises ``RequestRejected`` (409) for one that is over in another way."""
        job = entry.job
        state = entry.refresh().state
        if job is not None and not state.is_terminal_state():
            self._unread.begun(entry.id, CANCEL)
            job.cancel()
            entry.refresh()
        elif state is not JobStatus.CANCELED:
            raise RequestRejected(f"Job {entry.id} is {state.name}; it cannot be cancelled any more.", 409)

    def status(self, job_id: str, trigger: str) -> Json:
        """Return the progress of an operation of a job; raises ``RequestRejected`` (404) if it is not known."""
        found = self._find(job_id, trigger)
        if found is None:
            raise RequestRejected(
                f"There is no operation {trigger} of job {job_id}. The newest {_KEPT} are kept; those of a driver that "
                "ended are gone.",
                404,
            )
        status = found.status()
        if "operation" in status:
            self._unread.read(job_id, trigger)
        return status

    def _begin(
        self, entry: JobEntry, what: str, trigger: str | None, begin: Callable[[ServedJob], Any],
        shown: Callable[[Any], Json],
    ) -> str:  # fmt: skip
        number = trigger or uuid.uuid4().hex
        with self._beginning:
            if self._find(entry.id, number) is not None:
                return number
            job = entry.job
            state = entry.refresh().state
            if job is None or state.is_terminal_state():
                raise RequestRejected(f"Job {entry.id} is {state.name}; {what} needs a job that runs.", 409)
            try:
                future = begin(job)
            except FunkenError as error:
                raise RequestRejected(str(error), 409) from error
            with self._lock:
                self._unread.begun(entry.id, number)
                self._keep(TriggeredOperation(number, entry.id, future, shown))
        return number

    def _keep(self, operation: TriggeredOperation) -> None:
        self._known[operation.job, operation.id] = operation
        for old in list(self._known)[:-_KEPT]:
            del self._known[old]

    def _find(self, job_id: str, trigger: str) -> TriggeredOperation | None:
        with self._lock:
            return self._known.get((job_id, trigger))
