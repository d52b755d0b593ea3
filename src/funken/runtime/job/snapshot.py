"""A picture of a job: immutable, cheap to take, and JSON; the basis of the REST server and the dashboard.

Nothing is waited for, and no task is asked: it is what the driver knows. Metrics are those of the newest report of each task,
which comes twice a second.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass, replace
from math import isfinite
from typing import Any

from funken import config
from funken.checkpoint.machine import (
    Acknowledged,
    AttemptFailed,
    AttemptStarted,
    CheckpointMachine,
    Command,
    Event,
    JobStopped,
    NotifyAborted,
    Prune,
    Stored,
    TaskFinished,
    TaskKey,
    Tick,
    TriggerSources,
)
from funken.checkpoint.store.blobs import StopHandles, SubtaskHandle
from funken.checkpoint.store.completed import Manifest
from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP, Millis
from funken.io.durations import in_words
from funken.metrics.registry import percentile
from funken.plan.physical import PhysicalPlan
from funken.runtime.job.machine import JobMachine
from funken.runtime.job.states import (
    HELD_BACK,
    Bottleneck,
    Execution,
    ExecutionState,
    FailureRecord,
    FlowGraph,
    JobStatus,
    RestartRecord,
    headline,
)
from funken.runtime.messages import MetricsReport, RecordCounts, SubtaskCheckpoint, TaskId, VertexMetrics
from funken.runtime.process import ProcessStatus
from funken.timing.clock import Clock, SystemClock

# ---- What the tasks of a job report of their vertices, with rates: about the last few seconds, computed once per
# report.


_SPAN_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_MEASURABLE = 0.01
"""From which share of time on a subtask is busy enough for the rate at which it would be always busy."""


@dataclass(frozen=True, slots=True)
class OperatorRecords:
    """The records that one subtask of an operator has read and emitted, in total and lately per second.

    ``None``: nobody counts them, because they pass between two functions of one loop.
    """

    records_in: int | None = None
    records_out: int | None = None
    records_in_per_second: float | None = None
    records_out_per_second: float | None = None

    def named(self) -> dict[str, int | float]:
        """Return those that are known by Flink's names.

        >>> OperatorRecords(records_in=3, records_in_per_second=1.5).named()
        {'numRecordsIn': 3, 'numRecordsInPerSecond': 1.5}
        """
        found = {
            "numRecordsIn": self.records_in,
            "numRecordsInPerSecond": self.records_in_per_second,
            "numRecordsOut": self.records_out,
            "numRecordsOutPerSecond": self.records_out_per_second,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SubtaskMetrics:
    """The metrics of one subtask of a vertex; rates are about the last five seconds.

    ``user`` has the metrics of its operators' functions, by the operator's stable id, and ``labels`` those that are below a key
    and a value, as ``MetricGroup.labels`` returns them; watermarks are ``None`` before the first.
    Busy, back-pressured and idle time are ms per second, and their sum is 1000. A subtask is back-pressured while its output
    waits, and while the sources before it are held back because of a vertex behind it.
    """

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records_in_per_second: float = 0.0
    records_out_per_second: float = 0.0
    bytes_in_per_second: float = 0.0
    bytes_out_per_second: float = 0.0
    busy_ms_per_second: float = 0.0
    back_pressured_ms_per_second: float = 0.0
    idle_ms_per_second: float = 1000.0
    busy_ms: float = 0.0
    back_pressured_ms: float = 0.0
    input_watermark: int | None = None
    output_watermark: int | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    user: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, tuple[str, dict[str, str]]]] = field(default_factory=dict)
    markers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The ages (ms) of the newest latency markers, by where they come from."""
    queued: int = 0
    """Number of blocks that wait for it in its task."""
    process: ProcessStatus | None = None
    """The resources that the subtask's process uses of its machine."""
    operators: Mapping[str, OperatorRecords] = field(default_factory=dict)
    """The records that each of its operators has read and emitted, by the operator's stable id."""

    @property
    def true_processing_rate(self) -> float | None:
        """The records per second of a subtask that is always busy; ``None`` if it is too idle to tell."""
        busy = self.busy_ms_per_second / 1000
        return round(self.records_in_per_second / busy, 3) if busy >= _MEASURABLE else None

    def lag(self, now: int) -> int | None:
        """Return the lag (ms) of the watermark behind ``now``; ``None`` before the first, and after the end of time."""
        mark = self.output_watermark if self.input_watermark is None else self.input_watermark
        return None if mark is None or mark >= MAX_WATERMARK else now - mark

    def named(self, now: int) -> dict[str, int | float]:
        """Return them by Flink's names.

        >>> SubtaskMetrics(records_in=3, input_watermark=400).named(1000)["numRecordsIn"]
        3
        """
        found: dict[str, int | float | None] = {
            name: getattr(self, attribute) for name, attribute in _NAMES.items()
        } | {
            "watermarkLag": self.lag(now),
            "trueProcessingRate": self.true_processing_rate,
            "isBackPressured": int(self.back_pressured_ms_per_second > 1000 * HELD_BACK),
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}


def _held_back(metrics: SubtaskMetrics, held: float) -> SubtaskMetrics:
    """Return the metrics of a subtask whose input is held back for so many ms per second because of a vertex behind it."""
    pressed = min(1000.0 - metrics.busy_ms_per_second, max(held, metrics.back_pressured_ms_per_second))
    idle = round(1000.0 - metrics.busy_ms_per_second - pressed, 3)
    return replace(metrics, back_pressured_ms_per_second=pressed, idle_ms_per_second=idle)


_NAMES = {
    "numRecordsIn": "records_in",
    "numRecordsInPerSecond": "records_in_per_second",
    "numRecordsOut": "records_out",
    "numRecordsOutPerSecond": "records_out_per_second",
    "numBytesIn": "bytes_in",
    "numBytesInPerSecond": "bytes_in_per_second",
    "numBytesOut": "bytes_out",
    "numBytesOutPerSecond": "bytes_out_per_second",
    "busyTimeMsPerSecond": "busy_ms_per_second",
    "backPressuredTimeMsPerSecond": "back_pressured_ms_per_second",
    "idleTimeMsPerSecond": "idle_ms_per_second",
    "accumulateBusyTimeMs": "busy_ms",
    "accumulateBackPressuredTimeMs": "back_pressured_ms",
    "currentInputWatermark": "input_watermark",
    "currentOutputWatermark": "output_watermark",
    "inputQueueLength": "queued",
    "latencyP50": "latency_p50",
    "latencyP99": "latency_p99",
}


class MetricsHistory:
    """The newest metrics of every subtask of the attempt that runs; ``take`` a report, ``current`` for all."""

    def __init__(self, plan: PhysicalPlan, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._names = {vertex.id: vertex.name for vertex in plan.vertices}
        self._sources = {vertex.id for vertex in plan.vertices if vertex.source is not None}
        self._flow = FlowGraph(
            self._names,
            [(edge.source, edge.target) for edge in plan.edges if not edge.feedback],
        )
        #: since when (wall clock, ms) each bottleneck holds sources back
        self._since: dict[int, Millis] = {}
        self._bottlenecks: list[Bottleneck] = []
        self._due = 0.0
        self._lock = threading.Lock()
        self._samples: dict[TaskId, deque[MetricsReport]] = {}
        self._current: dict[tuple[int, int], SubtaskMetrics] = {}

    def clear(self) -> None:
        """Another attempt begins."""
        with self._lock:
            self._samples.clear()
            self._current.clear()
            self._since.clear()
            self._due = 0.0
            self._bottlenecks = []

    def take(self, report: MetricsReport) -> None:
        """Take a report; with the second of a task there are rates."""
        with self._lock:
            samples = self._samples.setdefault(report.task, deque())
            if samples and report.at < samples[-1].at:  # Spark has started the task again
                samples.clear()
            samples.append(report)
            while len(samples) > 2 and samples[1].at <= report.at - _SPAN_SECONDS:
                samples.popleft()
            oldest = samples[0]
            for vertex, now in report.vertices.items():
                then = oldest.vertices.get(vertex, now)
                place = vertex, report.task.subtask
                self._current[place] = self._metrics(vertex, now, then, report.at - oldest.at, report.process)
            if report.vertices.keys() & self._sources:
                at = self._clock.monotonic()
                if at >= self._due:  # not with the report of every source's task: it looks at all subtasks
                    self._due = at + _LOOK_SECONDS
                    self._find_bottlenecks()

    def current(self) -> dict[tuple[int, int], SubtaskMetrics]:
        """Return the metrics of each subtask, by vertex and subtask."""
        with self._lock:
            found, held = dict(self._current), dict[int, float]()
            for each in self._bottlenecks:
                for vertex in each.between:
                    held[vertex] = max(held.get(vertex, 0.0), each.held_back)
        for (vertex, subtask), metrics in found.items():
            if vertex in held and vertex not in self._sources:
                found[vertex, subtask] = _held_back(metrics, held[vertex] * 1000)
        return found

    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """Return the vertices that the job waits for, the one that holds back most first."""
        with self._lock:
            return tuple(self._bottlenecks)

    def _find_bottlenecks(self) -> None:
        busy: dict[int, tuple[float, int]] = {}
        pressed: dict[int, float] = {}
        for (vertex, subtask), metrics in self._current.items():
            if vertex in self._sources:
                pressed[vertex] = max(pressed.get(vertex, 0.0), metrics.back_pressured_ms_per_second / 1000)
            busy[vertex] = max(busy.get(vertex, (0.0, 0)), (metrics.busy_ms_per_second / 1000, subtask))
        shares = {vertex: share for vertex, (share, _) in busy.items()}
        behind = {vertex: share for vertex, share in shares.items() if vertex not in self._sources}
        pressure = self._flow.pressure(pressed, behind)
        pressure |= {source: (0.0, ()) for source in self._flow.busy_sources(pressed, shares)}
        now = Millis(self._clock.now())
        self._since = {vertex: self._since.get(vertex, now) for vertex in pressure}
        self._bottlenecks = sorted(
            (
                Bottleneck(
                    vertex, self._names[vertex], busy[vertex][1], busy[vertex][0], held, self._since[vertex], between
                )
                for vertex, (held, between) in pressure.items()
            ),
            key=lambda each: -each.held_back,
        )

    def _metrics(
        self, vertex: int, now: VertexMetrics, then: VertexMetrics, seconds: float, process: ProcessStatus | None
    ) -> SubtaskMetrics:
        def rate(value: float) -> float:
            return round(value / seconds, 3) if seconds > 0 else 0.0

        busy = min(1000.0, rate((now.busy - then.busy) * 1000))
        pressed = min(1000.0 - busy, rate((now.back_pressured - then.back_pressured) * 1000))
        recent = {bucket: count - then.latency.get(bucket, 0) for bucket, count in now.latency.items()}
        latency = recent if any(recent.values()) else {}
        return SubtaskMetrics(
            now.records_in,
            now.records_out,
            now.bytes_in,
            now.bytes_out,
            rate(now.records_in - then.records_in),
            rate(now.records_out - then.records_out),
            rate(now.bytes_in - then.bytes_in),
            rate(now.bytes_out - then.bytes_out),
            busy,
            pressed,
            round(1000.0 - busy - pressed, 3),
            round(now.busy * 1000, 3),
            round(now.back_pressured * 1000, 3),
            None if vertex in self._sources or now.watermark <= MIN_TIMESTAMP else now.watermark,
            None if now.watermark_out <= MIN_TIMESTAMP else now.watermark_out,
            percentile(latency, 0.5),
            percentile(latency, 0.99),
            {operator: found.values for operator, found in now.user.items()},
            {operator: found.labels for operator, found in now.user.items() if found.labels},
            now.markers,
            now.queued,
            process,
            {
                operator: _records(counts, then.operators.get(operator, counts), rate)
                for operator, counts in now.operators.items()
            },
        )


def _records(now: RecordCounts, then: RecordCounts, rate: Callable[[float], float]) -> OperatorRecords:
    read, emitted = (
        None if value is None else rate(value - (before or 0)) for value, before in zip(now, then, strict=True)
    )
    return OperatorRecords(now.read, now.emitted, read, emitted)


# ---- The checkpoints of a job as a history: which there were, how they ended, and how each subtask took its part.
#
# Fed with the events and commands of the coordinator; it decides nothing. Bounded: the newest few, and the newest
# of each kind.


_KEPT = 50


@dataclass(frozen=True, slots=True)
class SubtaskCheckpointStats:
    """The part of one subtask of a vertex; durations in ms.

    ``start_delay`` is from the trigger to its first barrier, ``alignment`` until the last, ``sync_duration`` until its snapshot
    was taken, ``async_duration`` until that was written. A subtask that had finished has a size only.
    """

    vertex: int
    subtask: int
    acknowledged: Millis
    size: int
    start_delay: float = 0.0
    alignment: float = 0.0
    sync_duration: float = 0.0
    async_duration: float = 0.0
    unaligned: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointStats:
    """One checkpoint or savepoint; ``status`` is ``IN_PROGRESS``, ``COMPLETED`` or ``FAILED``. Times are wall-clock ms."""

    id: int
    kind: str
    status: str
    triggered: Millis
    tasks: int
    acknowledged: int = 0
    latest_ack: Millis | None = None
    ended: Millis | None = None
    size: int = 0
    path: str = ""
    failure: str = ""
    subtasks: tuple[SubtaskCheckpointStats, ...] = ()
    discarded: bool = False
    """True if its files are deleted, or about to be: nothing can start from it. A savepoint is the user's and stays."""
    held_up_by: tuple[tuple[int, int], ...] = ()
    """The vertices and subtasks that have not acknowledged it although everything before them has; of a failed one, then."""

    @property
    def duration(self) -> int | None:
        """The duration (ms), if it has ended."""
        return None if self.ended is None else self.ended - self.triggered


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """The checkpoint or savepoint from which an attempt started."""

    id: int
    kind: str
    path: str
    restored: Millis


@dataclass(frozen=True, slots=True)
class CheckpointsSnapshot:
    """The checkpoints of a job: their numbers, the newest of each type, and the newest few, newest first."""

    completed: int = 0
    failed: int = 0
    in_progress: int = 0
    restores: int = 0
    latest_completed: CheckpointStats | None = None
    latest_savepoint: CheckpointStats | None = None
    latest_failed: CheckpointStats | None = None
    restored: RestoredCheckpoint | None = None
    history: tuple[CheckpointStats, ...] = ()


@dataclass(slots=True)
class _Open:
    """A checkpoint that has not ended."""

    id: int
    kind: str
    triggered: Millis
    missing: set[TaskKey]
    tasks: int
    path: str
    latest_ack: Millis | None = None
    subtasks: list[SubtaskCheckpointStats] = field(default_factory=list)

    def stats(
        self, status: str, ended: Millis | None = None, failure: str = "", held_up_by: tuple[tuple[int, int], ...] = ()
    ) -> CheckpointStats:
        done = self.tasks - len(self.missing)
        size = sum(subtask.size for subtask in self.subtasks)
        parts = tuple(self.subtasks)
        return CheckpointStats(
            self.id, self.kind, status, self.triggered, self.tasks, done, self.latest_ack, ended, size, self.path,
            failure, parts, status == "FAILED", held_up_by,
        )  # fmt: skip


class CheckpointHistory:
    """Keeps the history; ``observe`` is called with each event of the coordinator and the commands that followed."""

    def __init__(self, plan: PhysicalPlan, root: str, wall: Callable[[], int], kept: int = _KEPT) -> None:
        self._root = root
        self._wall = wall
        self._kept = kept
        self._lock = threading.Lock()
        self.replan(plan)
        self._open: dict[int, _Open] = {}
        self._final: dict[TaskKey, list[SubtaskCheckpointStats]] = {}
        self._ended: list[CheckpointStats] = []
        self._times: dict[tuple[TaskKey, int], Mapping[int, SubtaskCheckpoint]] = {}
        self._counts = {"COMPLETED": 0, "FAILED": 0}
        self._latest: dict[str, CheckpointStats] = {}
        self._restored: RestoredCheckpoint | None = None
        self._restores = 0

    # ---- what happens

    def replan(self, plan: PhysicalPlan) -> None:
        """The job has another plan from now on."""
        self._plan = plan
        self._vertex_of = {
            plan.stable_ids[node.id]: vertex.id for vertex in plan.vertices for node in vertex.nodes
            if node.id in plan.stable_ids
        }  # fmt: skip

    def restored(self, manifest: Manifest, path: str) -> None:
        """An attempt starts from a checkpoint or savepoint."""
        with self._lock:
            self._restores += 1
            now = Millis(self._wall())
            self._restored = RestoredCheckpoint(manifest.checkpoint, manifest.kind.value, path, now)

    def timed(self, task: TaskId, checkpoint: int, times: Mapping[int, SubtaskCheckpoint]) -> None:
        """A task has reported its times; its acknowledgement follows."""
        with self._lock:
            if checkpoint in self._open:
                self._times[task, checkpoint] = times

    def observe(self, machine: CheckpointMachine, event: Event, commands: Iterable[Command]) -> None:
        """Follow the coordinator: an event, its commands, and its machine after that."""
        if isinstance(event, Tick) and not commands:
            return
        with self._lock:
            self._observe(event, commands, machine.tasks, machine.pending.keys(), Millis(self._wall()))

    def _observe(
        self, event: Event, commands: Iterable[Command], tasks: Iterable[TaskKey], pending: Collection[int], wall: Millis
    ) -> None:  # fmt: skip
        match event:
            case Acknowledged(task=task, checkpoint=checkpoint, handles=handles) if checkpoint in self._open:
                found = self._open[checkpoint]
                found.subtasks += self._parts(found, task, handles, wall)
                found.missing.discard(task)
                found.latest_ack = wall
            case TaskFinished(task=task, handles=handles):
                for found in self._open.values():
                    if task in found.missing:
                        found.missing.discard(task)
                        found.subtasks += self._parts(found, task, handles, wall)
                self._final[task] = self._parts(None, task, handles, wall)
            case Stored(checkpoint=checkpoint) if checkpoint in self._open:
                self._end(checkpoint, "COMPLETED", wall)
            case AttemptFailed() | AttemptStarted():
                self._final.clear()
        reasons: dict[int, str] = {}
        for command in commands:
            match command:
                case TriggerSources(checkpoint=checkpoint, kind=kind, target=target):
                    names, missing = set(tasks), set(tasks) - self._final.keys()
                    path = target or f"{self._root}/chk-{checkpoint}"
                    begun = _Open(checkpoint, kind.value, wall, missing, len(names), path)
                    begun.subtasks += [part for parts in self._final.values() for part in parts]
                    self._open[checkpoint] = begun
                case NotifyAborted(checkpoint=checkpoint, reason=reason):
                    reasons[checkpoint] = reason
                case Prune(checkpoint=checkpoint):
                    self._discard(checkpoint)
        for gone in [number for number in self._open if number not in pending]:
            self._end(gone, "FAILED", wall, reasons.get(gone) or _reason(event))

    def _parts(self, found: _Open | None, task: TaskKey, handles: Any, wall: Millis) -> list[SubtaskCheckpointStats]:
        if isinstance(handles, StopHandles):
            handles = handles.checkpoint
        times = {} if found is None else self._times.pop((task, found.id), {})
        sizes: dict[tuple[int, int], int] = {}
        if isinstance(handles, Mapping):
            for (operator, subtask), handle in handles.items():
                place = self._vertex_of.get(operator, -1), subtask
                sizes[place] = sizes.get(place, 0) + (handle.size if isinstance(handle, SubtaskHandle) else 0)
        parts = []
        for (vertex, subtask), size in sizes.items():
            at = times.get(vertex)
            if at is None or found is None:
                parts.append(SubtaskCheckpointStats(vertex, subtask, wall, size))
                continue
            delay = max(0, at.begin - found.triggered)
            parts.append(
                SubtaskCheckpointStats(
                    vertex, subtask, wall, size, delay, at.alignment, at.sync, at.written, at.unaligned
                )
            )
        return parts

    def _end(self, checkpoint: int, status: str, wall: Millis, failure: str = "") -> None:
        found = self._open.pop(checkpoint, None)
        if found is None:
            return
        stats = found.stats(status, wall, failure, self._holding_up(found))
        self._counts[status] += 1
        self._latest[status if status == "FAILED" else found.kind] = stats
        self._ended.append(stats)
        del self._ended[: -self._kept]
        self._times = {key: times for key, times in self._times.items() if key[1] in self._open}

    def _holding_up(self, found: _Open) -> tuple[tuple[int, int], ...]:
        missing = {
            vertex.id: [place for place in range(vertex.parallelism) if TaskId(vertex.stage, place) in found.missing]
            for vertex in self._plan.vertices
        }
        waiting = {edge.target for edge in self._plan.edges if missing[edge.source] and not edge.feedback}
        return tuple((vertex, place) for vertex, places in missing.items() if vertex not in waiting for place in places)

    def folder_removed(self) -> None:
        """The folder of the job's checkpoints is removed, with all that are in it."""
        with self._lock:
            self._discard(None)

    def _discard(self, checkpoint: int | None) -> None:
        def changed(each: CheckpointStats) -> CheckpointStats:
            concerned = each.kind == "checkpoint" and checkpoint in (None, each.id)
            return replace(each, discarded=True) if concerned else each

        self._ended = [changed(each) for each in self._ended]
        self._latest = {name: changed(each) for name, each in self._latest.items()}

    # ---- what is seen of it

    def snapshot(self) -> CheckpointsSnapshot:
        """Return the history as it is."""
        with self._lock:
            return self._snapshot()

    def _snapshot(self) -> CheckpointsSnapshot:
        under_way = [found.stats("IN_PROGRESS", held_up_by=self._holding_up(found)) for found in self._open.values()]
        return CheckpointsSnapshot(
            self._counts["COMPLETED"],
            self._counts["FAILED"],
            len(under_way),
            self._restores,
            self._latest.get("checkpoint"),
            self._latest.get("savepoint"),
            self._latest.get("FAILED"),
            self._restored,
            tuple(reversed(self._ended + under_way)),
        )


def _reason(event: Event) -> str:
    """Return the reason for which an event ends a checkpoint of which no task is notified any more."""
    if isinstance(event, JobStopped):
        return f"the job has ended ({event.outcome.value})"
    return str(getattr(event, "reason", "")) or "aborted"


# ---- The graph of a job as plain data: what a picture of it is drawn from.


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator of a chain: ``id`` is its stable id, by which its state and its metrics are found.

    ``inputs`` are the ids of the operators that it reads from; ``description`` is what it does, of SQL its line in the plan.
    """

    id: str
    name: str
    kind: str
    uid: str | None
    description: str = ""
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VertexInfo:
    """A vertex: its chained operators, and where it runs."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    stage: int
    operators: tuple[OperatorInfo, ...]


@dataclass(frozen=True, slots=True)
class EdgeInfo:
    """An edge: from vertex to vertex, and how its records are spread; ``local``: within the task."""

    source: int
    target: int
    input: int
    ship_strategy: str
    side_output: str | None
    local: bool


@dataclass(frozen=True, slots=True)
class JobGraph:
    """The vertices, in topological order, and the edges."""

    vertices: tuple[VertexInfo, ...]
    edges: tuple[EdgeInfo, ...]


def job_graph(plan: PhysicalPlan) -> JobGraph:
    """Return the graph of a plan."""
    ids = {node.id: plan.stable_ids.get(node.id, str(node.id)) for vertex in plan.vertices for node in vertex.nodes}
    return JobGraph(
        tuple(
            VertexInfo(
                vertex.id,
                vertex.name,
                vertex.parallelism,
                vertex.max_parallelism,
                vertex.stage,
                tuple(
                    OperatorInfo(
                        ids[node.id],
                        node.name,
                        node.kind,
                        node.uid,
                        node.description or "",
                        tuple(ids[given.upstream] for given in (*node.inputs, *node.feedback) if given.upstream in ids),
                    )
                    for node in vertex.nodes
                ),
            )
            for vertex in plan.vertices
        ),
        tuple(EdgeInfo(edge.source, edge.target, edge.index, edge.label, edge.side, edge.local) for edge in plan.edges),
    )


_STUCK_MILLIS = 10_000
_NAMED = 4
"""Number of subtasks of a vertex that a sentence names."""


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """One subtask of a vertex: the execution of the task that hosts it, and its metrics."""

    subtask: int
    state: ExecutionState
    attempt: int
    timestamps: Mapping[ExecutionState, Millis]
    host: str = ""
    pid: int = 0
    failure: str | None = None
    metrics: SubtaskMetrics = field(default_factory=SubtaskMetrics)


@dataclass(frozen=True, slots=True)
class VertexSnapshot:
    """A vertex: one state for all of its subtasks (as Flink aggregates them), and each of them."""

    id: int
    name: str
    state: ExecutionState
    subtasks: tuple[SubtaskSnapshot, ...]


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job at one moment, as ``JobClient.snapshot()`` returns it; times are wall-clock ms.

    >>> import json
    >>> from funken.runtime.driver.local_runner import LocalRunner
    >>> from funken import JobClient, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> _ = env.from_collection(["to", "be"]).map(str.upper).rebalance().print()
    >>> client = JobClient(env.job("letters"), LocalRunner())
    >>> _ = client.run()
    TO
    BE
    >>> job = client.snapshot()
    >>> job.state.name, [(vertex.name, vertex.state.name) for vertex in job.vertices]
    ('FINISHED', [('collection -> map', 'FINISHED'), ('print', 'FINISHED')])
    >>> [(edge.source, edge.target, edge.ship_strategy) for edge in job.graph.edges]
    [(0, 1, 'REBALANCE')]
    >>> job.vertices[1].subtasks[0].metrics.records_in, job.phase
    (2, 'finished')
    >>> json.loads(job.to_json())["state"], job.to_dict()["graph"]["edges"][0]["target"]
    ('FINISHED', 1)
    >>> job.duration == job.end_time - job.start_time, job.uptime, job.metrics()["numRestarts"]
    (True, 0, 0)
    >>> list(job.latencies()), job.start_delays()  # metrics.latency.interval is 0, and there was no checkpoint
    ([], {})
    >>> job.stuck_checkpoints()
    []
    """

    id: str
    name: str
    state: JobStatus
    taken: Millis
    timestamps: Mapping[JobStatus, Millis]
    attempt: int
    restarts: int
    graph: JobGraph
    vertices: tuple[VertexSnapshot, ...]
    checkpoints: CheckpointsSnapshot
    failure_count: int
    failures: tuple[FailureRecord, ...]
    """The newest failures, newest first."""
    restart_history: tuple[RestartRecord, ...]
    """The newest restarts, newest first."""
    configuration: Mapping[str, Any]
    """The options that were set, with secrets masked."""
    commits: Mapping[str, int | float] = field(default_factory=dict)
    """The outcomes of its sinks' committables, and the time (ms) of the last commit; empty before the first one."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """The vertices that hold sources back, the one that holds back most first."""
    coordinators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The metrics of the coordinators on the driver in this attempt, by the stable id of the operator."""

    @property
    def phase(self) -> str:
        """The activity of a job without figures yet: the current step of its start, else its state, in words."""
        states = [subtask.state for vertex in self.vertices for subtask in vertex.subtasks]
        if self.state is not JobStatus.RUNNING or not states:
            return self.state.name.lower()
        there = sum(state not in _NOT_THERE for state in states)
        opened = there - states.count(ExecutionState.INITIALIZING)
        if opened:
            return f"running ({opened} of {len(states)} subtasks)"
        if there:
            return f"opening operators ({there} of {len(states)} subtasks)"
        furthest = max(states, key=_NOT_THERE.index)
        return _BEFORE[furthest]

    @property
    def start_time(self) -> Millis:
        """The time of submission; 0 before."""
        return self.timestamps.get(JobStatus.CREATED, Millis(0))

    @property
    def end_time(self) -> Millis | None:
        """The time of its end, if it has ended."""
        return self.timestamps[self.state] if self.state.is_terminal_state() else None

    @property
    def duration(self) -> int:
        """The time (ms) since submission, or from it to the end."""
        return ((self.taken if self.end_time is None else self.end_time) - self.start_time) if self.start_time else 0

    @property
    def uptime(self) -> int:
        """The time (ms) that it has been running since its last restart; 0 if it does not run."""
        return self.taken - self.timestamps[self.state] if self.state is JobStatus.RUNNING else 0

    def metrics(self) -> dict[str, int | float]:
        """Return the metrics of the job as a whole, by Flink's names."""
        last = self.checkpoints.latest_completed
        found: dict[str, int | float | None] = {
            "numRestarts": self.restarts,
            "uptime": self.uptime,
            "runningTime": self.uptime,
            "restartingTime": self._for(JobStatus.RESTARTING),
            "cancellingTime": self._for(JobStatus.CANCELLING),
            "failingTime": self._for(JobStatus.FAILING),
            "numberOfCompletedCheckpoints": self.checkpoints.completed,
            "numberOfFailedCheckpoints": self.checkpoints.failed,
            "numberOfInProgressCheckpoints": self.checkpoints.in_progress,
            "totalNumberOfCheckpoints": (
                self.checkpoints.completed + self.checkpoints.failed + self.checkpoints.in_progress
            ),
            "lastCheckpointDuration": None if last is None else last.duration,
            "lastCheckpointSize": None if last is None else last.size,
            "lastCheckpointFullSize": None if last is None else last.size,
            "lastCompletedCheckpointId": None if last is None else last.id,
            "timeSinceLastCheckpoint": self._since_last_checkpoint(),
            "checkpointInterval": self._checkpoint_interval(),
            "lastCheckpointRestoreTimestamp": (
                None if self.checkpoints.restored is None else self.checkpoints.restored.restored
            ),
        }
        return {name: value for name, value in found.items() if value is not None} | dict(self.commits)

    def _checkpoint_interval(self) -> int | None:
        """Return the interval (ms) of checkpoints; ``None``: they are not triggered."""
        for name in (config.CHECKPOINT_INTERVAL.key, *config.CHECKPOINT_INTERVAL.older):
            if name in self.configuration:
                return config.CHECKPOINT_INTERVAL.parse(self.configuration[name])
        return None

    def _since_last_checkpoint(self) -> int | None:
        """Return the time (ms) since the last completed checkpoint, or, before the first, since the job runs."""
        if self.state.is_terminal_state() or self._checkpoint_interval() is None:
            return None
        last = self.checkpoints.latest_completed
        begun = self.timestamps.get(JobStatus.RUNNING)
        since = begun if last is None or last.ended is None else last.ended
        return None if since is None else max(0, self.taken - since)

    def start_delays(self) -> dict[tuple[int, int], int]:
        """Return, by vertex and subtask, the delay (ns) of the last checkpoint's barrier after its trigger."""
        last = self.checkpoints.latest_completed
        parts = () if last is None else last.subtasks
        return {(each.vertex, each.subtask): round(each.start_delay * 1e6) for each in parts}

    def stuck_checkpoints(self) -> list[str]:
        """Say in words which checkpoints take much longer than the last one, and for which subtasks they wait."""
        last = self.checkpoints.latest_completed
        bound = max(_STUCK_MILLIS, 2 * ((last and last.duration) or 0))
        names = {info.id: info.name for info in self.graph.vertices}
        found = []
        for each in self.checkpoints.history:
            age = self.taken - each.triggered
            if each.status == "IN_PROGRESS" and age > bound and each.held_up_by:
                subtasks: dict[str, list[int]] = {}
                for vertex, subtask in each.held_up_by:
                    subtasks.setdefault(names.get(vertex, str(vertex)), []).append(subtask)
                places = " and ".join(f"{name} ({_subtasks(numbers)})" for name, numbers in subtasks.items())
                found.append(f"{each.kind} {each.id} has waited {in_words(age // 1000 * 1000)} for {places}")
        return found

    def latencies(self) -> Iterator[tuple[str, str, int, Mapping[str, float]]]:
        """Yield of each subtask that latency markers have reached: where from, the operator, its number, ages (ms)."""
        for info, vertex in zip(self.graph.vertices, self.vertices, strict=True):
            for subtask in vertex.subtasks:
                for source, ages in subtask.metrics.markers.items():
                    yield source, info.operators[0].id, subtask.subtask, ages

    def _for(self, state: JobStatus) -> int:
        return self.taken - self.timestamps[state] if self.state is state else 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, texts and numbers."""
        found = plain(self)
        assert isinstance(found, dict)
        return found | {
            "start_time": self.start_time,
            "end_time": self.end_time,
            "duration": self.duration,
            "phase": self.phase,
            "stuck_checkpoints": self.stuck_checkpoints(),
        }

    def to_json(self) -> str:
        """Return it as JSON."""
        import json  # noqa: PLC0415 - most snapshots are never encoded

        return json.dumps(self.to_dict(), default=str)


def _subtasks(numbers: list[int]) -> str:
    """Name subtasks, the first few of many.

    >>> _subtasks([1]), _subtasks([0, 1]), _subtasks(list(range(9)))
    ('subtask 1', 'subtasks 0 and 1', 'subtasks 0, 1, 2 and 6 more')
    """
    if len(numbers) == 1:
        return f"subtask {numbers[0]}"
    shown = numbers if len(numbers) <= _NAMED else numbers[: _NAMED - 1]
    last = f"{len(numbers) - len(shown)} more" if len(numbers) > len(shown) else str(shown[-1])
    first = shown if len(numbers) > len(shown) else shown[:-1]
    return f"subtasks {', '.join(map(str, first))} and {last}"


def plain(value: Any) -> Any:
    """Return data classes, enums and tuples as values of JSON."""
    if isinstance(value, enum.Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {plain(key) if isinstance(key, enum.Enum) else str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):  # JSON has no such numbers
        return None
    return value


_BEFORE = {
    ExecutionState.CREATED: "checking sources and sinks",
    ExecutionState.SCHEDULED: "waiting for Spark",
    ExecutionState.DEPLOYING: "starting workers",
}
"""The steps of a start before the processes of its tasks are there, in this order."""
_NOT_THERE = tuple(_BEFORE)
_ORDER = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.INITIALIZING,
    ExecutionState.DEPLOYING,
    ExecutionState.SCHEDULED,
    ExecutionState.CREATED,
    ExecutionState.RUNNING,
    ExecutionState.FINISHED,
)


def aggregated(states: list[ExecutionState]) -> ExecutionState:
    """Return one state for the subtasks of a vertex: that of the first in trouble, else of the one that is least far.

    >>> aggregated([ExecutionState.RUNNING, ExecutionState.INITIALIZING, ExecutionState.FINISHED]).name
    'INITIALIZING'
    """
    return min(states, key=_ORDER.index, default=ExecutionState.CREATED)


def vertices_of(
    graph: JobGraph, machine: JobMachine, metrics: Mapping[tuple[int, int], SubtaskMetrics]
) -> tuple[VertexSnapshot, ...]:
    """Return the vertices; the caller holds the machine's lock."""
    found = []
    none = SubtaskMetrics()
    for vertex in graph.vertices:
        subtasks = []
        for number in range(vertex.parallelism):
            execution = machine.executions.get(TaskId(vertex.stage, number))
            subtasks.append(_subtask(number, execution, metrics.get((vertex.id, number), none)))
        state = aggregated([subtask.state for subtask in subtasks])
        found.append(VertexSnapshot(vertex.id, vertex.name, state, tuple(subtasks)))
    return tuple(found)


def _subtask(number: int, execution: Execution | None, metrics: SubtaskMetrics) -> SubtaskSnapshot:
    if execution is None:
        return SubtaskSnapshot(number, ExecutionState.CREATED, 0, {}, metrics=metrics)
    return SubtaskSnapshot(
        number,
        execution.state,
        execution.attempt + execution.number,
        dict(execution.timestamps),
        execution.host,
        execution.pid,
        None if execution.error is None else headline(execution.error),
        metrics,
    )


# ---- A part of the log of a job, as whoever reads it gets it.


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some entries in order; ``next`` is the number to resume at, ``lost`` the number of dropped ones before."""

    records: list[dict[str, Any]]
    next: int
    lost: int
