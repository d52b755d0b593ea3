"""How a job of several drivers has ended, for those that would take it over: one file, written by the leader."""

from __future__ import annotations

import json

from funken.dataclass import dataclass
from funken.errors import CheckpointNotFound
from funken.io.storage import Storage

_FILE = "result"


@dataclass(frozen=True, slots=True)
class JobResultEntry:
    """How a job has ended, and why, if it has failed."""

    status: str
    failure: str = ""


def result_of_job(storage: Storage) -> JobResultEntry | None:
    """Return how the job has ended; ``None`` if it has not.

    >>> from funken.testing.memory_storage import MemoryStorage
    >>> storage = MemoryStorage()
    >>> result_of_job(storage)
    >>> keep_result(storage, JobResultEntry("FINISHED"))
    >>> result_of_job(storage)
    JobResultEntry(status='FINISHED', failure='')
    """
    try:
        found = json.loads(storage.read(_FILE))
        return JobResultEntry(str(found["status"]), str(found.get("failure", "")))
    except CheckpointNotFound:
        return None


def keep_result(storage: Storage, entry: JobResultEntry) -> None:
    """Note how the job has ended."""
    storage.write(_FILE, json.dumps({"status": entry.status, "failure": entry.failure}).encode())
