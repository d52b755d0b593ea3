"""What happens to checkpoints (events) and what is to be done about it (commands); plain data.

``machine.CheckpointMachine`` takes the former and returns the latter. A task is any hashable thing; *handles* are what
a task's acknowledgement contains of where its state is; they are not looked into here.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import TypeAlias

from funken.checkpoint.store.manifest import SnapshotKind
from funken.dataclass import dataclass
from funken.ids import CheckpointId, Millis

TaskKey: TypeAlias = Hashable
Handles: TypeAlias = object
RequestId: TypeAlias = Hashable
"""Identifies a request for a checkpoint or savepoint in its answer."""


class Stop(enum.Enum):
    """How a job ends with a savepoint: as if paused for ever, or as if its input had ended (windows fire)."""

    SUSPEND = "suspend"
    DRAIN = "drain"


class Outcome(enum.Enum):
    """How a job ended for good."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    """By its client."""
    FAILED = "failed"
    """Its program failed, and the restart strategy allows no more attempts."""
    LOST = "lost"
    """What it runs on failed: Spark, a worker process, the network, a storage."""
    SUSPENDED = "suspended"
    """The program that runs it was told to end: SIGTERM, SIGHUP, Ctrl-C, the end of its main thread."""


# ---- events


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the job."""


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class AttemptStarted(Event):
    """All tasks of an attempt run; ``sources`` are those that have no upstream task."""

    attempt: int
    tasks: tuple[TaskKey, ...]
    sources: tuple[TaskKey, ...]


@dataclass(frozen=True, slots=True)
class TriggerRequested(Event):
    """A snapshot is requested; a savepoint goes to ``target``, and with ``stop`` the job ends with it."""

    request: RequestId
    kind: SnapshotKind = SnapshotKind.SAVEPOINT
    stop: Stop | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged(Event):
    """A task has written its part of a checkpoint."""

    attempt: int
    task: TaskKey
    checkpoint: CheckpointId
    handles: Handles


@dataclass(frozen=True, slots=True)
class Declined(Event):
    """A task declines a checkpoint."""

    attempt: int
    task: TaskKey
    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class TaskFinished(Event):
    """A task has ended with its input; ``handles`` are its final state, part of every later checkpoint."""

    attempt: int
    task: TaskKey
    handles: Handles


@dataclass(frozen=True, slots=True)
class Stored(Event):
    """The manifest of a checkpoint is written: whatever happens now, the checkpoint is complete."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class StoreFailed(Event):
    """The manifest could not be written, and is not there.

    ``counts``: it is a failure of the checkpoint, not of one before it whose files somebody has removed.
    """

    checkpoint: CheckpointId
    reason: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """What the sinks prepared for a complete checkpoint is visible."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """It is not, or not all of it; an attempt that starts from the checkpoint will try again."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptFailed(Event):
    """An attempt has failed: none of its tasks runs on."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rejected(Event):
    """A complete checkpoint turned out to be broken when an attempt was to start from it."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class JobStopped(Event):
    """The job has ended for good."""

    outcome: Outcome


# ---- commands


@dataclass(frozen=True, slots=True)
class Command:
    """A command to the coordinator's shell."""


@dataclass(frozen=True, slots=True)
class TriggerSources(Command):
    """Snapshot the enumerators, then trigger the checkpoint at ``tasks`` (the live sources).

    No command may reach a source between the two. ``tasks`` may be empty: all have finished.
    """

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[TaskKey, ...]
    kind: SnapshotKind
    stop: Stop | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class StoreManifest(Command):
    """Write the manifest and answer with ``Stored`` or ``StoreFailed``; with ``stop`` that of a checkpoint too.

    ``handles`` holds every task's; ``finished`` names the tasks that have ended and are not to run again, ``final`` those whose
    handles are of their final state, which they have written for checkpoints only.
    """

    checkpoint: CheckpointId
    kind: SnapshotKind
    attempt: int
    started: Millis
    handles: Mapping[TaskKey, Handles] = field(hash=False)
    finished: frozenset[TaskKey]
    stop: Stop | None = None
    target: str = ""
    final: frozenset[TaskKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Commit(Command):
    """Commit what the sinks prepared for this checkpoint and those before; answer ``Committed`` or ``CommitFailed``."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifyComplete(Command):
    """Notify the tasks that a checkpoint is complete, and what they prepared for it and earlier ones is committed."""

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[TaskKey, ...]


@dataclass(frozen=True, slots=True)
class NotifyAborted(Command):
    """Notify the tasks that a checkpoint is aborted."""

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[TaskKey, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Discard(Command):
    """Delete what these handles name and no complete checkpoint does; of a savepoint that failed, all there is.

    ``checkpoint`` is ``None`` for final states.
    """

    checkpoint: CheckpointId | None
    handles: tuple[Handles, ...]


@dataclass(frozen=True, slots=True)
class Prune(Command):
    """Delete a complete checkpoint, except for what newer ones share with it."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Answer(Command):
    """Answer a request: ``checkpoint`` is complete, or (``None``) why there is none."""

    request: RequestId
    checkpoint: CheckpointId | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FailJob(Command):
    """Fail this attempt; ``AttemptFailed`` is expected in return, and the restart strategy says whether there is another."""

    reason: str


@dataclass(frozen=True, slots=True)
class MayRestart(Command):
    """After a failure: nothing is being written or committed any more, so it is settled what the newest checkpoint is."""

    checkpoint: CheckpointId | None


@dataclass(frozen=True, slots=True)
class JobOver(Command):
    """The job has come to its end, and everything it did is safe; ``savepoint`` if it was stopped with one.

    With a ``failure`` its last checkpoint is complete, but could not be committed: that happens when it is started again.
    """

    savepoint: CheckpointId | None = None
    failure: str = ""
