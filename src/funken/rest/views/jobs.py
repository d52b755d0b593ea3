"""A job as Flink's REST API shows it: overview, details, plan, configuration, exceptions, result. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from funken import config
from funken.config.options import Option
from funken.rest.jobs import digest, public_id
from funken.rest.throwable import serialized_throwable
from funken.runtime.job.snapshot import JobGraph, JobSnapshot, SubtaskSnapshot, VertexInfo, VertexSnapshot
from funken.runtime.job.states import ExecutionState, FailureRecord, JobStatus

T = TypeVar("T")
Json = dict[str, Any]

_NO_RESULT = -1


def vertex_id(info: VertexInfo) -> str:
    """Return 32 hexadecimal digits for a vertex, made of the stable id of its first operator."""
    return digest(info.operators[0].id)


def vertices(job: JobSnapshot) -> Iterator[tuple[VertexInfo, VertexSnapshot]]:
    """Yield each vertex of the graph with its state."""
    return zip(job.graph.vertices, job.vertices, strict=True)


def setting(job: JobSnapshot, option: Option[T]) -> T:
    """Return the value of an option of the job: the set one, or the default."""
    for name in (option.key, *option.older):
        if name in job.configuration:
            return option.parse(job.configuration[name])
    return option.default


def ended(job: JobSnapshot) -> int:
    """Return the end of the job; -1 if it has not ended."""
    return _NO_RESULT if job.end_time is None else job.end_time


def _states(states: Iterable[ExecutionState]) -> dict[str, int]:
    found = Counter(states)
    return {state.name: found.get(state, 0) for state in ExecutionState} | {"RECONCILING": 0}


def overview_entry(job: JobSnapshot) -> Json:
    """Return the entry of a job in ``/jobs/overview``."""
    tasks = _states(subtask.state for vertex in job.vertices for subtask in vertex.subtasks)
    return {
        "jid": public_id(job.id),
        "name": job.name,
        "start-time": job.start_time,
        "end-time": ended(job),
        "duration": job.duration,
        "state": job.state.name,
        "last-modification": max(job.timestamps.values(), default=0),
        "tasks": {"total": sum(tasks.values())} | {name.lower(): count for name, count in tasks.items()},
        "pending-operators": 0,
    }


def overview(jobs: Iterable[JobSnapshot], version: str) -> Json:
    """Return ``/overview``: as Flink counts, with the machines of tasks as task managers."""
    known = list(jobs)
    states = Counter(job.state for job in known)
    over = sum(count for state, count in states.items() if state.is_globally_terminal_state())
    slots = sum(
        subtask.state in (ExecutionState.RUNNING, ExecutionState.INITIALIZING)
        for job in known for vertex in job.vertices for subtask in vertex.subtasks
    )  # fmt: skip
    return {
        "taskmanagers": len(hosts(known)),
        "slots-total": slots,
        "slots-available": 0,
        "taskmanagers-blocked": 0,
        "slots-free-and-blocked": 0,
        "jobs-running": len(known) - over,
        "jobs-finished": states[JobStatus.FINISHED],
        "jobs-cancelled": states[JobStatus.CANCELED],
        "jobs-failed": states[JobStatus.FAILED],
        "flink-version": version,
        "flink-commit": "",
        "funken-version": version,
    }


def hosts(jobs: Iterable[JobSnapshot]) -> dict[str, list[SubtaskSnapshot]]:
    """Return the subtasks that run, by machine."""
    found: dict[str, list[SubtaskSnapshot]] = {}
    for job in jobs:
        for vertex in job.vertices:
            for subtask in vertex.subtasks:
                if subtask.host and subtask.state is ExecutionState.RUNNING:
                    found.setdefault(subtask.host, []).append(subtask)
    return found


def details(job: JobSnapshot) -> Json:
    """Return ``/jobs/:jobid``."""
    times = {status.name: int(job.timestamps.get(status, 0)) for status in JobStatus}
    return {
        "jid": public_id(job.id),
        "name": job.name,
        "isStoppable": False,
        "state": job.state.name,
        "job-type": setting(job, config.RUNTIME_MODE).upper(),
        "start-time": job.start_time,
        "end-time": ended(job),
        "duration": job.duration,
        "maxParallelism": setting(job, config.MAX_PARALLELISM),
        "now": job.taken,
        "timestamps": times,
        "vertices": [_vertex(job, info, vertex) for info, vertex in vertices(job)],
        "status-counts": _states(vertex.state for vertex in job.vertices),
        "plan": plan(job)["plan"],
        "stream-graph": None,
        "pending-operators": 0,
    }


def status(job: JobSnapshot) -> Json:
    """Return ``/jobs/:jobid/status``."""
    return {"status": job.state.name}


def _vertex(job: JobSnapshot, info: VertexInfo, vertex: VertexSnapshot) -> Json:
    start, end, duration = times_of(job, vertex.subtasks)
    return {
        "id": vertex_id(info),
        "slotSharingGroupId": digest("default"),
        "name": info.name,
        "maxParallelism": info.max_parallelism,
        "parallelism": info.parallelism,
        "status": vertex.state.name,
        "start-time": start,
        "end-time": end,
        "duration": duration,
        "tasks": _states(subtask.state for subtask in vertex.subtasks),
        "metrics": io_metrics(job, vertex.subtasks),
    }


def times_of(job: JobSnapshot, subtasks: Iterable[SubtaskSnapshot]) -> tuple[int, int, int]:
    """Return the start of subtasks, the end of all of them, and the time between (ms); -1 if unknown."""
    known = list(subtasks)
    starts = [subtask.timestamps[ExecutionState.CREATED] for subtask in known if subtask.timestamps]
    if not starts:
        return _NO_RESULT, _NO_RESULT, _NO_RESULT
    start = min(starts)
    over = all(subtask.state.is_terminal for subtask in known)
    end = max(subtask.timestamps.get(subtask.state, 0) for subtask in known) if over else _NO_RESULT
    return start, end, (end if over else job.taken) - start


def io_metrics(job: JobSnapshot, subtasks: Iterable[SubtaskSnapshot]) -> Json:
    """Return input and output, and the use of time (ms)."""
    them = list(subtasks)
    known = [subtask.metrics for subtask in them]
    found: Json = {}
    for name, values in (
        ("read-bytes", [each.bytes_in for each in known]),
        ("write-bytes", [each.bytes_out for each in known]),
        ("read-records", [each.records_in for each in known]),
        ("write-records", [each.records_out for each in known]),
    ):
        found |= {name: sum(values), f"{name}-complete": True}
    return found | {
        "accumulated-backpressured-time": int(sum(each.back_pressured_ms for each in known)),
        "accumulated-idle-time": sum(_idle(job, each) for each in them),
        "accumulated-busy-time": round(sum(each.busy_ms for each in known), 3),
    }


def _idle(job: JobSnapshot, subtask: SubtaskSnapshot) -> int:
    """Return the time (ms) that a subtask has run without being busy or back-pressured."""
    begun = subtask.timestamps.get(ExecutionState.RUNNING)
    if begun is None:
        return 0
    end = subtask.timestamps.get(subtask.state, job.taken) if subtask.state.is_terminal else job.taken
    return max(0, round(end - begun - subtask.metrics.busy_ms - subtask.metrics.back_pressured_ms))


def plan(job: JobSnapshot) -> Json:
    """Return ``/jobs/:jobid/plan``: vertices, and of each the edges that come in."""
    graph: JobGraph = job.graph
    ids = {info.id: vertex_id(info) for info in graph.vertices}
    nodes = [
        {
            "id": ids[info.id],
            "parallelism": info.parallelism,
            "operator": "",
            "operator_strategy": "",
            "description": info.name,
            "stage": info.stage,
            "inputs": [
                {
                    "num": number,
                    "id": ids[edge.source],
                    "ship_strategy": edge.ship_strategy,
                    "exchange": "pipelined_bounded",
                }
                for number, edge in enumerate(each for each in graph.edges if each.target == info.id)
            ],
            "optimizer_properties": {},
        }
        for info in graph.vertices
    ]
    kind = setting(job, config.RUNTIME_MODE).upper()
    return {"plan": {"jid": public_id(job.id), "name": job.name, "type": kind, "nodes": nodes}}


def configuration(job: JobSnapshot) -> Json:
    """Return ``/jobs/:jobid/config``; ``configuration`` has everything that was set, with secrets masked."""
    parameters = setting(job, config.JOB_PARAMETERS)
    return {
        "jid": public_id(job.id),
        "name": job.name,
        "execution-config": {
            "execution-mode": "PIPELINED",
            "restart-strategy": setting(job, config.RESTART_STRATEGY) or "default",
            "job-parallelism": setting(job, config.PARALLELISM),
            "object-reuse-mode": setting(job, config.OBJECT_REUSE),
            "user-config": parameters,
        },
        "configuration": {key: str(value) for key, value in sorted(job.configuration.items())},
    }


def exceptions(job: JobSnapshot, limit: int) -> Json:
    """Return ``/jobs/:jobid/exceptions``: the newest failures first."""
    shown = job.failures[:limit]
    cut = job.failure_count > len(shown)
    newest = job.failures[0] if job.failures else None
    return {
        "root-exception": None if newest is None else _stack(newest),
        "timestamp": None if newest is None else newest.time,
        "all-exceptions": [],
        "truncated": cut,
        "exceptionHistory": {"entries": [_failure(each) for each in shown], "truncated": cut},
    }


def _failure(failure: FailureRecord) -> Json:
    task = failure.operator
    if task is not None and failure.subtask is not None:
        task = f"{task} ({failure.subtask})"
    return {
        "exceptionName": failure.error,
        "stacktrace": _stack(failure),
        "timestamp": failure.time,
        "failureLabels": {},
        "taskName": task or failure.task,
        "endpoint": failure.host,
        "location": failure.host,
        "taskManagerId": digest(failure.host) if failure.host else None,
        "attempt": failure.attempt,
        "message": failure.message,
        "concurrentExceptions": [],
    }


def _stack(failure: FailureRecord) -> str:
    return f"{failure.message}\n\n{failure.traceback}".rstrip()


_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


def execution_result(job: JobSnapshot) -> Json:
    """Return ``/jobs/:jobid/execution-result``."""
    if not job.state.is_terminal_state():
        return {"status": {"id": "IN_PROGRESS"}}
    result: Json = {
        "id": public_id(job.id),
        "application-status": _APPLICATION_STATUS.get(job.state, "UNKNOWN"),
        "accumulator-results": {},
        "net-runtime": job.duration,
    }
    if job.state is JobStatus.FAILED and job.failures:
        failure = job.failures[0]
        result["failure-cause"] = {
            "class": failure.error,
            "stack-trace": _stack(failure),
            "serialized-throwable": serialized_throwable(failure.error, failure.message, _stack(failure)),
        }
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


# ---- what Flink calls an application: the program of a driver

APPLICATION = digest("application")


def applications(jobs: Iterable[JobSnapshot]) -> Json:
    """Return ``/applications/overview``: the program of this driver, if it has had a job."""
    known = list(jobs)
    if not known:
        return {"applications": []}
    found = application(known)
    states = Counter(job.state for job in known)
    return {
        "applications": [
            {name: found[name] for name in ("id", "name", "start-time", "end-time", "duration", "status")}
            | {"jobs": {state.name: states.get(state, 0) for state in JobStatus}}
        ]
    }


def application(jobs: Iterable[JobSnapshot]) -> Json:
    """Return ``/applications/:applicationid``: it runs as long as one of its jobs does, else it is as the last one."""
    known = sorted(jobs, key=lambda job: job.start_time)
    running = [job for job in known if not job.state.is_globally_terminal_state()]
    state = JobStatus.RUNNING if running else known[-1].state if known else JobStatus.CREATED
    start = known[0].start_time if known else 0
    end = _NO_RESULT if running or not known else max(ended(job) for job in known)
    now = max((job.taken for job in known), default=0)
    return {
        "id": APPLICATION,
        "name": known[0].name if known else "",
        "status": state.name,
        "start-time": start,
        "end-time": end,
        "duration": (now if end == _NO_RESULT else end) - start,
        "timestamps": {status.name: 0 for status in JobStatus} | {"CREATED": start, "RUNNING": start},
        "jobs": [overview_entry(job) for job in known],
    }


def application_exceptions(jobs: Iterable[JobSnapshot], limit: int) -> Json:
    """Return ``/applications/:applicationid/exceptions``: the failures of its jobs, the newest first."""
    failures = [(failure, job) for job in jobs for failure in job.failures]
    failures.sort(key=lambda each: each[0].time, reverse=True)
    return {
        "exceptionHistory": {
            "entries": [_failure(failure) | {"jobId": public_id(job.id)} for failure, job in failures[:limit]],
            "truncated": len(failures) > limit,
        }
    }
