"""A picture of a job: immutable, cheap to take, and JSON; what a REST server and a dashboard are made of.

Nothing is waited for, and no task is asked: it is what the driver knows. Metrics are those of the newest report of each task,
which comes twice a second.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from math import isfinite
from typing import Any

from funken import config
from funken.dataclass import dataclass
from funken.ids import Millis
from funken.io.durations import in_words
from funken.runtime.job.checkpoint_history import CheckpointsSnapshot
from funken.runtime.job.graph import JobGraph
from funken.runtime.job.history import Execution, FailureRecord, RestartRecord, headline
from funken.runtime.job.machine import JobMachine
from funken.runtime.job.pressure import Bottleneck
from funken.runtime.job.states import ExecutionState, JobStatus
from funken.runtime.job.vertex_metrics import SubtaskMetrics
from funken.runtime.messages import TaskId

_STUCK_MILLIS = 10_000
_NAMED = 4
"""How many subtasks of a vertex are named in a sentence."""


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
    >>> from funken.runtime.driver.local import LocalRunner
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
    """What was set, with secrets masked."""
    commits: Mapping[str, int | float] = field(default_factory=dict)
    """What became of the committables of its sinks, and how long (ms) the last commit took; empty before the first one."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """The vertices that hold sources back, the one that holds back most first."""

    @property
    def phase(self) -> str:
        """What a job does that has no figures yet: the step of its start that it is at, else its state, in words."""
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
        """When it was submitted; 0 before."""
        return self.timestamps.get(JobStatus.CREATED, Millis(0))

    @property
    def end_time(self) -> Millis | None:
        """When it ended, if it has."""
        return self.timestamps[self.state] if self.state.is_terminal_state() else None

    @property
    def duration(self) -> int:
        """How long (ms) it has been there."""
        return ((self.taken if self.end_time is None else self.end_time) - self.start_time) if self.start_time else 0

    @property
    def uptime(self) -> int:
        """How long (ms) it has been running since its last restart; 0 if it does not run."""
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
        """How often (ms) checkpoints are triggered; ``None``: they are not."""
        for name in (config.CHECKPOINT_INTERVAL.key, *config.CHECKPOINT_INTERVAL.older):
            if name in self.configuration:
                return config.CHECKPOINT_INTERVAL.parse(self.configuration[name])
        return None

    def _since_last_checkpoint(self) -> int | None:
        """How long ago (ms) the last checkpoint was completed, or, before the first, the job began to run."""
        if self.state.is_terminal_state() or self._checkpoint_interval() is None:
            return None
        last = self.checkpoints.latest_completed
        begun = self.timestamps.get(JobStatus.RUNNING)
        since = begun if last is None or last.ended is None else last.ended
        return None if since is None else max(0, self.taken - since)

    def start_delays(self) -> dict[tuple[int, int], int]:
        """Return, by vertex and subtask, how long (ns) after its trigger the barrier of the last checkpoint came."""
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
    """Return data classes, enums and tuples as what JSON has."""
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
    """Return the vertices; the caller holds what guards the machine."""
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
