"""What tasks and the driver tell each other; plain data, pickled over an authenticated connection.

A task is known by ``TaskId``: its level and its number in it. ``Report``s go up, ``Order``s come down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from funken.checkpoint.events import Stop
from funken.checkpoint.handles import StopHandles, TaskHandles


class TaskId(NamedTuple):
    """A task of the job: level and number."""

    level: int
    subtask: int

    def __str__(self) -> str:
        return f"level {self.level}, task {self.subtask}"


class Savepoint(NamedTuple):
    """What makes a checkpoint a savepoint: the folder it goes to; ``stop``: the job is to end with it. Barriers carry it."""

    target: str
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Something that happened in a task; ``operator`` (an ``OperatorId``) where one is concerned."""

    task: TaskId
    operator: int = -1
    subtask: int = 0


@dataclass(frozen=True, slots=True)
class Opening(Report):
    """The task's process is there and opens its operators: user code runs from here on."""

    pid: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True)
class Started(Report):
    """The task is open and ready."""

    pid: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat(Report):
    """The worker runs; ``stalled`` is how long its loop has been at the same step (s)."""

    stalled: float = 0.0


@dataclass(frozen=True, slots=True)
class SplitsWanted(Report):
    """A source subtask has read all it had."""


@dataclass(frozen=True, slots=True)
class Printed(Report):
    """Lines of a print sink."""

    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Collected(Report):
    """Records for ``execute_and_collect``, as pickled bytes."""

    sink: str = ""
    records: bytes = b""


@dataclass(frozen=True, slots=True)
class Prepared(Report):
    """A sink's subtask prepared data; commit it when the job is done."""

    committables: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured(Report):
    """Metrics of a task since it started: per vertex counts, watermark, latency."""

    vertices: dict[int, VertexMetrics] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """What the functions of one subtask of an operator measure, by dotted name; ``operator`` is the operator's name."""

    operator: str
    subtask: int
    values: dict[str, Any]


@dataclass(slots=True)
class VertexMetrics:
    """Counts of one subtask of a vertex; ``latency`` maps a bucket (see ``metrics.latency``) to a count of blocks.

    ``records_in`` of a source is what it read. ``user`` has the metrics of functions by the operator's stable id: its uid,
    or one made of its place in the program.
    """

    records_in: int = 0
    records_out: int = 0
    watermark: int = -(2**63)
    busy: float = 0.0
    latency: dict[int, int] = field(default_factory=dict)
    user: dict[str, OperatorMetrics] = field(default_factory=dict)

    def copy(self) -> VertexMetrics:
        """Return the same numbers, in dicts of their own."""
        return replace(self, latency=dict(self.latency), user=dict(self.user))


@dataclass(frozen=True, slots=True)
class Queued(Report):
    """Records queue longer than they should before the task sees them: born at ``born`` (s), ``excess`` s too long."""

    born: float = 0.0
    excess: float = 0.0


@dataclass(frozen=True, slots=True)
class Reached(Report):
    """A source subtask of a watermark alignment group has reached ``watermark``; ``drift`` (ms) is what it allows."""

    group: str = ""
    watermark: int = 0
    drift: int = 0


@dataclass(frozen=True, slots=True)
class Snapshotted(Report):
    """The task has written its part of a checkpoint; ``handles`` say where."""

    attempt: int = 0
    checkpoint: int = 0
    handles: TaskHandles | StopHandles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotSnapshotted(Report):
    """The task cannot take part in a checkpoint."""

    attempt: int = 0
    checkpoint: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finished(Report):
    """Every vertex of the task ended; with checkpoints, ``handles`` say where its final state is."""

    attempt: int = 0
    handles: TaskHandles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed(Report):
    """The task failed; ``error`` can be raised as it is."""

    error: BaseException | None = None
    secondary: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """Something a task is to do."""


@dataclass(frozen=True, slots=True)
class DriverHeartbeat(Order):
    """The driver runs."""


@dataclass(frozen=True, slots=True)
class AddSplits(Order):
    """Read these splits with the source ``operator``; ``no_more``: none will follow."""

    operator: int
    subtask: int
    splits: tuple[Any, ...] = ()
    no_more: bool = False


@dataclass(frozen=True, slots=True)
class SplitsFound(Order):
    """New splits exist; ask again."""

    operator: int


@dataclass(frozen=True, slots=True)
class Throttle(Order):
    """Sources are to see to shorter queues: before ``task``, records born at ``born`` (s) queued ``excess`` s too long."""

    task: TaskId
    born: float
    excess: float


@dataclass(frozen=True, slots=True)
class Align(Order):
    """The source subtask is to stop reading while its watermark is above ``allowed``."""

    operator: int
    allowed: int


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint(Order):
    """Sources begin a checkpoint: they cut their positions and send its barrier."""

    checkpoint: int
    savepoint: Savepoint | None = None


@dataclass(frozen=True, slots=True)
class CheckpointComplete(Order):
    """A checkpoint is complete, and what sinks prepared for it and those before is committed."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class CheckpointAborted(Order):
    """A checkpoint is not to be completed: forget it."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Begin(Order):
    """Every task of the job is open: sources may read."""
