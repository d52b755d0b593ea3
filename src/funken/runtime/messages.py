"""The messages between tasks and the driver: plain data, pickled over an authenticated connection.

A task is known by ``TaskId``: its stage and its number in it. ``TaskEvent``s go up, ``TaskCommand``s come down.
"""

from __future__ import annotations

import pickle
import struct
import zlib
from dataclasses import field, replace
from typing import Any, NamedTuple

from funken.checkpoint.machine import Stop
from funken.checkpoint.store.blobs import StopHandles, TaskHandles
from funken.dataclass import dataclass
from funken.errors import TransferCorrupted
from funken.ids import Millis
from funken.runtime.log_entries import LogEntry
from funken.runtime.process import ProcessStatus


class TaskId(NamedTuple):
    """A task of the job: stage and number."""

    stage: int
    subtask: int

    def __str__(self) -> str:
        return f"stage {self.stage}, task {self.subtask}"


class Savepoint(NamedTuple):
    """The mark of a savepoint: the folder it goes to; ``stop``: the job is to end with it. Barriers carry it."""

    target: str
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """An event of a task; ``operator`` (an ``OperatorId``) where one is concerned."""

    task: TaskId
    operator: int = -1
    subtask: int = 0


@dataclass(frozen=True, slots=True)
class TaskOpening(TaskEvent):
    """The task's process has started and opens its operators: user code runs from here on."""

    pid: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True)
class TaskStarted(TaskEvent):
    """The task is open and ready."""

    pid: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat(TaskEvent):
    """The worker runs; ``stalled`` is the time that its loop has been at the same step (s)."""

    stalled: float = 0.0


@dataclass(frozen=True, slots=True)
class CoordinatorEvent(TaskEvent):
    """An event for the coordinator of the operator; ``output``: it is part of the output of the task's attempt."""

    payload: Any = None
    output: bool = False


@dataclass(frozen=True, slots=True)
class MetricsReport(TaskEvent):
    """Metrics of a task since it started: per vertex counts, watermark, latency."""

    vertices: dict[int, VertexMetrics] = field(default_factory=dict)
    at: float = 0.0
    """The time of its making, by a clock of the task's that never steps back (s)."""
    process: ProcessStatus | None = None
    """The resources that its process used of the machine."""


@dataclass(frozen=True, slots=True)
class OperatorWarning(TaskEvent):
    """Something that a user ought to know of, found by an operator; each ``kind`` comes once per operator."""

    kind: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class TaskLogged(TaskEvent):
    """The log of user code in the task's process, in its order."""

    entries: tuple[LogEntry, ...] = ()
    host: str = ""
    pid: int = 0


class CallStack(NamedTuple):
    """A stack of the thread that runs a task, outermost function first; ``operator`` is a stable id, or empty."""

    operator: str
    subtask: int
    on_cpu: bool
    functions: tuple[str, ...]


class ThreadStack(NamedTuple):
    """The stack of a thread at one moment: its name, and its stack as text, newest call first."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class StacksSampled(TaskEvent):
    """The samples of the task's thread per stack; ``ended``: the time of the last one (wall clock)."""

    stacks: dict[CallStack, int] = field(default_factory=dict)
    ended: Millis = Millis(0)


@dataclass(frozen=True, slots=True)
class ThreadsDumped(TaskEvent):
    """The stacks of all threads of the task's process, by the number of the request."""

    request: int = 0
    threads: tuple[ThreadStack, ...] = ()
    pid: int = 0


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """The metrics of the functions of one subtask of an operator, by dotted name; ``operator`` is the operator's name.

    ``labels`` has the names without the values of groups that are a key and a value, and these by key.
    """

    operator: str
    subtask: int
    values: dict[str, Any]
    labels: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)


class RecordCounts(NamedTuple):
    """The records that an operator has read and emitted; ``None``: nobody counts them."""

    read: int | None
    emitted: int | None


@dataclass(slots=True)
class VertexMetrics:
    """Counts of one subtask of a vertex; ``latency`` maps a bucket (see ``metrics.registry``) to a count of blocks.

    ``records_in`` of a source is what it read, ``watermark`` what it emitted. ``busy`` and ``back_pressured`` are
    seconds. ``user`` has the metrics of functions by the operator's stable id: its uid, or one made of its place in the program.
    """

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    watermark: int = -(2**63)
    watermark_out: int = -(2**63)
    busy: float = 0.0
    back_pressured: float = 0.0
    latency: dict[int, int] = field(default_factory=dict)
    user: dict[str, OperatorMetrics] = field(default_factory=dict)
    markers: dict[str, dict[str, float]] = field(default_factory=dict)
    """The ages (ms) of latency markers by where they come from, as ``latency_statistics`` has them; replaced, never changed."""
    queued: int = 0
    """Number of blocks that have arrived and wait."""
    operators: dict[str, RecordCounts] = field(default_factory=dict)
    """The records that each operator has read and emitted, by its stable id; replaced, never changed."""

    def copy(self) -> VertexMetrics:
        """Return the same numbers, in dicts of their own."""
        return replace(self, latency=dict(self.latency), user=dict(self.user))


@dataclass(frozen=True, slots=True)
class QueueDelayReported(TaskEvent):
    """Records ingested at ``ingested_at`` (s) queued ``excess`` s too long before the task.

    ``excess`` 0: all that were ingested by then have come in time, which a task says only when a job begins. ``waited``: for what
    part of its blocks the task had to wait.
    """

    ingested_at: float = 0.0
    excess: float = 0.0
    waited: float = 0.0


class SubtaskCheckpoint(NamedTuple):
    """The part of one subtask of a vertex in a checkpoint: its barrier came at ``begin`` (wall clock, ms).

    Then, in ms: until all barriers had come, until its snapshot was taken, and until that was written.
    """

    begin: int
    alignment: float
    sync: float
    written: float = 0.0
    unaligned: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointAcknowledged(TaskEvent):
    """The task has written its part of a checkpoint, to ``handles``; ``subtasks`` has the times of each, by vertex."""

    attempt: int = 0
    checkpoint: int = 0
    handles: TaskHandles | StopHandles = field(default_factory=dict)
    subtasks: dict[int, SubtaskCheckpoint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointDeclined(TaskEvent):
    """The task declines a checkpoint."""

    attempt: int = 0
    checkpoint: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LoopReported(TaskEvent):
    """A round of a loop has come back to the head in the vertex: ``records`` have since the one before.

    ``busy``: results of some operator are still to come by themselves. Round 0: the inputs of the head have ended.
    """

    vertex: int = -1
    round: int = 0
    records: int = 0
    busy: bool = False


@dataclass(frozen=True, slots=True)
class FeedbackAddress(TaskEvent):
    """The address at which a task with heads of loops takes feedback: host and port."""

    address: tuple[str, int] = ("", 0)


@dataclass(frozen=True, slots=True)
class TaskEnded(TaskEvent):
    """Every subtask of the task has ended; with checkpoints, its final state is at ``handles``."""

    attempt: int = 0
    handles: TaskHandles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskFailed(TaskEvent):
    """The task failed with ``error``, which can be raised as it is."""

    error: BaseException | None = None
    secondary: bool = False


@dataclass(frozen=True, slots=True)
class TaskCommand:
    """A command to a task."""


@dataclass(frozen=True, slots=True)
class DriverHeartbeat(TaskCommand):
    """The driver runs."""


@dataclass(frozen=True, slots=True)
class OperatorEvent(TaskCommand):
    """An event of the operator's coordinator for one of its subtasks."""

    operator: int
    subtask: int
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Throttle(TaskCommand):
    """Throttle sources, or let them read more: the reports of tasks on records that queued before them.

    ``mean_rate``: how many records per second a task with sources reads on average, 0 if nobody knows.
    """

    reports: tuple[QueueDelayReported, ...]
    mean_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint(TaskCommand):
    """Sources begin a checkpoint: they snapshot their positions and emit its barrier."""

    checkpoint: int
    savepoint: Savepoint | None = None


@dataclass(frozen=True, slots=True)
class CheckpointComplete(TaskCommand):
    """A checkpoint is complete; the output that sinks prepared for it and earlier ones is committed."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class CheckpointAborted(TaskCommand):
    """A checkpoint is aborted."""

    checkpoint: int
    rewrite: bool = False
    """True if snapshots are to be complete: what they build on was removed."""


@dataclass(frozen=True, slots=True)
class FeedbackAddresses(TaskCommand):
    """The addresses at which all tasks with heads of loops take feedback."""

    addresses: dict[TaskId, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class LoopRound(TaskCommand):
    """The head in a vertex begins a round of its loop; ``ends_time``: event time ends in the loop first."""

    vertex: int
    round: int
    ends_time: bool = False


@dataclass(frozen=True, slots=True)
class LoopEnd(TaskCommand):
    """The loop of the head in a vertex is empty: it ends."""

    vertex: int


@dataclass(frozen=True, slots=True)
class StartReading(TaskCommand):
    """Every task of the job is open: sources start reading, and the tasks behind them report their throughput."""


@dataclass(frozen=True, slots=True)
class SampleStacks(TaskCommand):
    """Sample the stacks of the thread that runs the task for so long (s)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class DumpThreads(TaskCommand):
    """Report the stacks of all threads of the task's process."""

    request: int


# ---- Messages as bytes with a checksum in front: what is not what was sent is refused before anything of it is
# unpickled.


_CHECKSUM = struct.Struct("<I")


def dumps(message: Any) -> bytes:
    """Write a message.

    >>> loads(dumps(("any", "thing")))
    ('any', 'thing')
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _CHECKSUM.pack(zlib.crc32(data)) + data


def loads(data: bytes | bytearray) -> Any:
    """Read a message; raises ``TransferCorrupted``, and exceptions of unpickling an object of the user's."""
    content = memoryview(data)[_CHECKSUM.size :]
    if len(data) < _CHECKSUM.size or zlib.crc32(content) != _CHECKSUM.unpack_from(data)[0]:
        raise TransferCorrupted(
            f"a message of {len(data)} bytes between the driver and a worker was changed on its way: "
            "its checksum does not match. "
            "Check the network and the memory of the machines."
        )
    return pickle.loads(content)
