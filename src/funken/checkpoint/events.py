"""What happens to checkpoints (events) and what is to be done about it (commands); plain data.

``machine.CheckpointMachine`` takes the former and returns the latter. A task is any hashable thing; *handles* are what
a task's acknowledgement says about where its state lies, and nobody here looks into them.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from funken.ids import CheckpointId, Millis

Task: TypeAlias = Hashable
Handles: TypeAlias = object
Request: TypeAlias = Hashable
"""How whoever asked for a checkpoint or savepoint recognises the answer."""


class Kind(enum.Enum):
    """Whether a snapshot is for recovery, and goes when a newer one comes, or belongs to the user."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"


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
    """Something happened."""


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Nothing happened, but time has passed."""


@dataclass(frozen=True, slots=True)
class Started(Event):
    """All tasks of an attempt run; ``sources`` are those that have no upstream task."""

    attempt: int
    tasks: tuple[Task, ...]
    sources: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class TriggerRequested(Event):
    """Someone asks for a snapshot now; a savepoint goes to ``target``, and with ``stop`` it is the job's end."""

    request: Request
    kind: Kind = Kind.SAVEPOINT
    stop: Stop | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class Acked(Event):
    """A task has written its part of a checkpoint."""

    attempt: int
    task: Task
    checkpoint: CheckpointId
    handles: Handles


@dataclass(frozen=True, slots=True)
class Declined(Event):
    """A task cannot take part in a checkpoint."""

    attempt: int
    task: Task
    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class TaskFinished(Event):
    """A task has ended with its input; ``handles`` are its final state, part of every later checkpoint."""

    attempt: int
    task: Task
    handles: Handles


@dataclass(frozen=True, slots=True)
class Stored(Event):
    """The manifest of a checkpoint is written: whatever happens now, the checkpoint is complete."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class StoreFailed(Event):
    """The manifest could not be written, and is not there."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """What the sinks prepared for a complete checkpoint is visible."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """It is not, or not all of it; whoever starts from the checkpoint will try again."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """An attempt has failed: none of its tasks runs on."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """A complete checkpoint turned out to be broken when an attempt was to start from it."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class Stopped(Event):
    """The job has ended for good."""

    outcome: Outcome


# ---- commands


@dataclass(frozen=True, slots=True)
class Command:
    """Something is to be done."""


@dataclass(frozen=True, slots=True)
class Trigger(Command):
    """Snapshot the enumerators, then ask ``tasks`` (the live sources) to begin a checkpoint.

    Nothing may be told to a source between the two. ``tasks`` may be empty: everybody has finished.
    """

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[Task, ...]
    kind: Kind
    stop: Stop | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class Store(Command):
    """Write the manifest and answer with ``Stored`` or ``StoreFailed``; with ``stop`` that of a checkpoint too.

    ``handles`` holds every task's; ``finished`` names the tasks that have ended and are not to run again, ``final`` those whose
    handles are of their final state, which they have written for checkpoints only.
    """

    checkpoint: CheckpointId
    kind: Kind
    attempt: int
    started: Millis
    handles: Mapping[Task, Handles] = field(hash=False)
    finished: frozenset[Task]
    stop: Stop | None = None
    target: str = ""
    final: frozenset[Task] = frozenset()


@dataclass(frozen=True, slots=True)
class Commit(Command):
    """Commit what the sinks prepared for this checkpoint and those before; answer ``Committed`` or ``CommitFailed``."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifyComplete(Command):
    """Tell the tasks that a checkpoint is complete, and what they prepared for it and those before is committed."""

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class NotifyAborted(Command):
    """Tell the tasks to forget a checkpoint."""

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[Task, ...]
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
    """Tell whoever asked: ``checkpoint`` is complete, or (``None``) why there is none."""

    request: Request
    checkpoint: CheckpointId | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FailJob(Command):
    """Fail this attempt; ``Failed`` is expected in return, and the restart strategy says whether there is another."""

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


@dataclass(frozen=True, slots=True)
class Wake(Command):
    """Send a ``Tick`` at this time, unless another event comes first."""

    at: Millis
