"""The vertices of a job and their subtasks as Flink's REST API shows them; pure functions of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from funken.errors import RequestRejected
from funken.rest.jobs import digest
from funken.rest.views.jobs import Json, io_metrics, times_of, vertex_id, vertices
from funken.runtime.job.snapshot import JobSnapshot, SubtaskSnapshot, VertexInfo, VertexSnapshot, aggregated
from funken.runtime.job.states import Bottleneck, ExecutionState
from funken.runtime.messages import CallStack, StacksSampled, TaskId

_LOW, _HIGH = 0.1, 0.5
"""Above which share of time a subtask counts as back-pressured a little, or a lot; Flink's bounds."""


def find_vertex(job: JobSnapshot, vertex: str) -> tuple[VertexInfo, VertexSnapshot]:
    """Return a vertex by its id; raises ``RequestRejected`` (404) if there is none."""
    for info, state in vertices(job):
        if vertex_id(info) == vertex:
            return info, state
    raise RequestRejected(f"Job vertex {vertex} not found. GET /jobs/:jobid lists the vertices of a job.", 404)


def find_subtask(job: JobSnapshot, vertex: str, subtask: int) -> SubtaskSnapshot:
    """Return a subtask; raises ``RequestRejected`` (404) if there is none."""
    info, state = find_vertex(job, vertex)
    if not 0 <= subtask < len(state.subtasks):
        raise RequestRejected(f"Invalid subtask index {subtask} of vertex {vertex}, which has {info.parallelism}.", 404)
    return state.subtasks[subtask]


def details(job: JobSnapshot, vertex: str) -> Json:
    """Return ``/jobs/:jobid/vertices/:vertexid``."""
    info, state = find_vertex(job, vertex)
    subtasks = [_subtask(job, each) for each in state.subtasks]
    return {
        "id": vertex,
        "name": info.name,
        "parallelism": info.parallelism,
        "maxParallelism": info.max_parallelism,
        "now": job.taken,
        "subtasks": subtasks,
        "aggregated": _aggregated(subtasks),
    }


def _aggregated(subtasks: list[Json]) -> Json:
    """Return figures over the subtasks of a vertex: of input and output, and of the time in each state."""

    def over(field: str, names: Iterable[str]) -> Json:
        return {name: _figures([each[field].get(name, 0) for each in subtasks]) for name in names}

    counted = [name for name in subtasks[0]["metrics"] if not name.endswith("-complete")] if subtasks else []
    return {
        "metrics": over("metrics", counted),
        "status-duration": over("status-duration", [state.name for state in ExecutionState]),
    }


def _figures(values: list[float]) -> Json:
    """Return minimum, maximum, average, sum and percentiles, as whole numbers.

    >>> _figures([4, 1, 7])
    {'min': 1, 'max': 7, 'avg': 4, 'sum': 12, 'median': 4, 'p25': 1, 'p75': 7, 'p95': 7}
    """
    ordered = sorted(values) or [0]
    total = sum(ordered)
    found = {"min": ordered[0], "max": ordered[-1], "avg": total / len(ordered), "sum": total}
    for name, share in (("median", 0.5), ("p25", 0.25), ("p75", 0.75), ("p95", 0.95)):
        found[name] = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return {name: round(value) for name, value in found.items()}


def _subtask(job: JobSnapshot, subtask: SubtaskSnapshot) -> Json:
    start, end, duration = times_of(job, [subtask])
    return {
        "subtask": subtask.subtask,
        "status": subtask.state.name,
        "attempt": subtask.attempt,
        "endpoint": subtask.host,
        "host": subtask.host,
        "start-time": start,
        "start_time": start,
        "end-time": end,
        "duration": duration,
        "metrics": io_metrics(job, [subtask]),
        "taskmanager-id": digest(subtask.host) if subtask.host else "(unassigned)",
        "status-duration": {state.name: since for state, since in _durations(job, subtask).items()},
        "other-concurrent-attempts": None,
        "pid": subtask.pid,
        "failure": subtask.failure,
    }


def _durations(job: JobSnapshot, subtask: SubtaskSnapshot) -> dict[Any, int]:
    """Return the time (ms) that the subtask was in each of its states."""
    steps = list(subtask.timestamps.items())
    ends = [time for _, time in steps[1:]] + [steps[-1][1] if subtask.state.is_terminal else job.taken] if steps else []
    return {state: end - begin for (state, begin), end in zip(steps, ends, strict=True)}


def subtask_details(job: JobSnapshot, vertex: str, subtask: int, attempt: int | None = None) -> Json:
    """Return ``.../subtasks/:subtaskindex``; raises ``RequestRejected`` (404) for an attempt that is not the newest."""
    found = find_subtask(job, vertex, subtask)
    if attempt is not None and attempt != found.attempt:
        raise RequestRejected(
            f"Attempt {attempt} of subtask {subtask} is not known; the newest is {found.attempt}.", 404
        )
    return _subtask(job, found)


def subtask_times(job: JobSnapshot, vertex: str) -> Json:
    """Return ``/jobs/:jobid/vertices/:vertexid/subtasktimes``."""
    info, state = find_vertex(job, vertex)
    return {
        "id": vertex,
        "name": info.name,
        "now": job.taken,
        "subtasks": [
            {
                "subtask": each.subtask,
                "host": each.host,
                "endpoint": each.host,
                "duration": times_of(job, [each])[2],
                "timestamps": {name.name: time for name, time in each.timestamps.items()},
            }
            for each in state.subtasks
        ],
    }


def task_managers(job: JobSnapshot, vertex: str) -> Json:
    """Return ``/jobs/:jobid/vertices/:vertexid/taskmanagers``: its subtasks by machine."""
    info, state = find_vertex(job, vertex)
    machines: dict[str, list[SubtaskSnapshot]] = {}
    for subtask in state.subtasks:
        machines.setdefault(subtask.host, []).append(subtask)
    shown = []
    for host, subtasks in machines.items():
        start, end, duration = times_of(job, subtasks)
        states = [each.state.name for each in subtasks]
        shown.append(
            {
                "endpoint": host,
                "host": host,
                "taskmanager-id": digest(host) if host else "(unassigned)",
                "status": aggregated([each.state for each in subtasks]).name,
                "start-time": start,
                "end-time": end,
                "duration": duration,
                "metrics": io_metrics(job, subtasks),
                "status-counts": {name: states.count(name) for name in sorted(set(states))},
            }
        )
    return {"id": vertex, "name": info.name, "now": job.taken, "taskmanagers": shown}


def level(ratio: float) -> str:
    """Return Flink's word for how back-pressured a subtask is.

    >>> level(0.1), level(0.5), level(0.51)
    ('ok', 'low', 'high')
    """
    return "high" if ratio > _HIGH else "low" if ratio > _LOW else "ok"


def back_pressure(job: JobSnapshot, vertex: str) -> Json:
    """Return ``/jobs/:jobid/vertices/:vertexid/backpressure``."""
    _, state = find_vertex(job, vertex)
    subtasks: list[Json] = []
    for each in state.subtasks:
        ratio = round(each.metrics.back_pressured_ms_per_second / 1000, 3)
        subtasks.append(
            {
                "subtask": each.subtask,
                "attempt-number": each.attempt,
                "backpressureLevel": level(ratio),
                "backpressure-level": level(ratio),
                "ratio": ratio,
                "idleRatio": round(each.metrics.idle_ms_per_second / 1000, 3),
                "busyRatio": round(each.metrics.busy_ms_per_second / 1000, 3),
            }
        )
    most = level(max((each["ratio"] for each in subtasks), default=0.0))
    return {
        "status": "ok",
        "bottlenecks": [_bottleneck(job, each) for each in job.bottlenecks],
        "backpressureLevel": most,
        "backpressure-level": most,
        "end-timestamp": job.taken,
        "subtasks": subtasks,
    }


def _bottleneck(job: JobSnapshot, found: Bottleneck) -> Json:
    """Return a vertex that the job waits for, and those that it holds back; Flink has no such field."""
    ids = {info.id: vertex_id(info) for info in job.graph.vertices}
    return {
        "vertex": ids[found.vertex],
        "name": found.name,
        "subtask": found.subtask,
        "busyRatio": round(found.busy, 3),
        "heldBackRatio": round(found.held_back, 3),
        "since": found.since,
        "holdsBack": [ids[each] for each in found.between],
    }


def watermarks(job: JobSnapshot, vertex: str) -> list[Json]:
    """Return ``/jobs/:jobid/vertices/:vertexid/watermarks``: of the input, of a source of the output."""
    _, state = find_vertex(job, vertex)
    found = []
    for each in state.subtasks:
        mark = each.metrics.input_watermark
        if mark is None:
            mark = each.metrics.output_watermark
        if mark is not None:
            found.append({"id": f"{each.subtask}.currentInputWatermark", "value": str(mark)})
    return found


def accumulators(job: JobSnapshot, vertex: str) -> Json:
    """Return ``/jobs/:jobid/vertices/:vertexid/accumulators``; functions have metrics, no accumulators."""
    find_vertex(job, vertex)
    return {"id": vertex, "user-accumulators": []}


def subtask_accumulators(job: JobSnapshot, vertex: str) -> Json:
    """Return ``.../subtasks/accumulators``: the subtasks, without accumulators."""
    info, state = find_vertex(job, vertex)
    return {
        "id": vertex,
        "parallelism": info.parallelism,
        "subtasks": [
            {"subtask": each.subtask, "attempt": each.attempt, "host": each.host, "user-accumulators": []}
            for each in state.subtasks
        ],
    }


def attempt_accumulators(job: JobSnapshot, vertex: str, subtask: int, attempt: int) -> Json:
    """Return ``.../attempts/:attempt/accumulators``: none."""
    subtask_details(job, vertex, subtask, attempt)
    return {"subtask": subtask, "attempt": attempt, "id": f"{vertex}_{subtask}_{attempt}", "user-accumulators": []}


# ---- Flame graphs as Flink's REST API shows them; pure functions of samples.


KINDS = ("FULL", "ON_CPU", "OFF_CPU")
_OVER, _WAITING = -1, -3
"""Flink's values in place of a time: the job is over, or nothing was sampled yet."""


def tasks_of(info: VertexInfo, subtask: int | None = None) -> list[TaskId]:
    """Return the tasks that a vertex has subtasks in."""
    return [TaskId(info.stage, number) for number in range(info.parallelism) if subtask in (None, number)]


def flame_graph(
    info: VertexInfo, samples: Iterable[StacksSampled], kind: str, subtask: int | None, is_over: bool
) -> Json:
    """Return ``/jobs/:jobid/vertices/:vertexid/flamegraph``: the number of samples of each stack of the vertex.

    Its stacks are those with one of its operators innermost, and of those without any operator, which wait for input, all.
    """
    known = list(samples)
    if not known:
        return {"endTimestamp": _OVER if is_over else _WAITING, "data": None}
    operators = {each.id for each in info.operators}
    root = _Node("root")
    for sample in known:
        for stack, count in sample.stacks.items():
            if _fits(stack, operators, kind, subtask):
                root.add(stack.functions, count)
    return {"endTimestamp": max(each.ended for each in known), "data": root.plain()}


def _fits(stack: CallStack, operators: set[str], kind: str, subtask: int | None) -> bool:
    if stack.operator and (stack.operator not in operators or subtask not in (None, stack.subtask)):
        return False
    return kind == "FULL" or stack.on_cpu == (kind == "ON_CPU")


class _Node:
    """A function in a flame graph, with those that it called."""

    __slots__ = ("_called", "_name", "_value")

    def __init__(self, name: str) -> None:
        self._name = name
        self._value = 0
        self._called: dict[str, _Node] = {}

    def add(self, functions: Iterable[str], count: int) -> None:
        """Add a stack below this function."""
        node = self
        node._value += count
        for name in functions:
            node = node._called.setdefault(name, _Node(name))
            node._value += count

    def plain(self) -> Mapping[str, object]:
        """Return it as JSON has it."""
        return {
            "name": self._name,
            "value": self._value,
            "children": [each.plain() for each in self._called.values()],
        }
