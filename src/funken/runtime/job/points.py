"""The metrics of a job as reporters get them: each with its name and its scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from funken.metrics.registry import MetricPoint
from funken.runtime.job.snapshot import JobSnapshot, SubtaskMetrics, VertexInfo
from funken.runtime.process import ProcessStatus


def operator_records(metrics: SubtaskMetrics) -> dict[str, dict[str, int | float]]:
    """Return operators' records read and emitted, by stable id; an own metric of that name goes before."""
    return {
        operator: {name: value for name, value in records.named().items() if name not in metrics.user.get(operator, {})}
        for operator, records in metrics.operators.items()
    }


def _processes(job: JobSnapshot) -> Iterator[tuple[str, ProcessStatus]]:
    """Yield each process in which tasks run, with its machine."""
    known = set()
    for vertex in job.vertices:
        for subtask in vertex.subtasks:
            status = subtask.metrics.process
            if status is not None and (subtask.host, status.pid) not in known:
                known.add((subtask.host, status.pid))
                yield subtask.host, status


def _of_coordinators(job: JobSnapshot, scope: Mapping[str, str], info: VertexInfo) -> Iterator[MetricPoint]:
    for each in info.operators:
        at = {**scope, "operator_id": each.id, "operator_name": each.name}
        for name, value in numbers(job.coordinators.get(each.id, {})):
            yield MetricPoint(f"coordinator.{name}", value, at)


def points_of(job: JobSnapshot, driver: ProcessStatus | None = None) -> list[MetricPoint]:
    """Return every metric of a job that is a number: its own, of its tasks, operators and functions, and of processes."""
    scope = {"job_id": job.id, "job_name": job.name}
    found = [MetricPoint(name, value, scope) for name, value in job.metrics().items()]
    names = {operator.id: operator.name for vertex in job.graph.vertices for operator in vertex.operators}
    delays = job.start_delays()
    for info, vertex in zip(job.graph.vertices, job.vertices, strict=True):
        head = info.operators[0]
        found += _of_coordinators(job, scope | {"task_name": vertex.name, "kind": "coordinator"}, info)
        for subtask in vertex.subtasks:
            task = scope | {"task_name": vertex.name, "subtask_index": str(subtask.subtask), "host": subtask.host}
            own = task | {"operator_id": head.id, "operator_name": head.name}
            found += [MetricPoint(name, value, own) for name, value in subtask.metrics.named(job.taken).items()]
            if (delay := delays.get((vertex.id, subtask.subtask))) is not None:
                found.append(MetricPoint("checkpointStartDelayNanos", delay, own))
            for operator, records in operator_records(subtask.metrics).items():
                place = task | {"operator_id": operator, "operator_name": names[operator], "kind": "user"}
                found += [MetricPoint(name, value, place) for name, value in records.items()]
            for operator, metrics in subtask.metrics.user.items():
                place = task | {"operator_id": operator, "operator_name": names.get(operator, operator), "kind": "user"}
                labels = subtask.metrics.labels.get(operator, {})
                for name, value in metrics.items():
                    short, keys = labels.get(name, (name, {}))
                    at = place | {key if key not in place else f"user_{key}": each for key, each in keys.items()}
                    found += [MetricPoint(part, number, at) for part, number in numbers({short: value})]
    for host, status in _processes(job):
        at = scope | {"host": host, "process": f"{host}:{status.pid}", "kind": "worker"}
        found += [MetricPoint(name, value, at) for name, value in status.named().items()]
    if driver is not None:
        at = scope | {"process": f"driver:{driver.pid}", "kind": "driver"}
        found += [MetricPoint(name, value, at) for name, value in driver.named().items()]
    for source, operator, number, ages in job.latencies():
        # Flink has these of the operator in the scope of the job, and what is in the name there is a label here.
        parts = source.split(".")
        place = (
            {}
            if not source
            else {"source_id": source.removeprefix("source_id.").partition(".source_subtask")[0].rstrip(".")}
        )
        if "source_subtask_index" in parts:
            place["source_subtask_index"] = parts[-2]
        at = scope | place | {"operator_id": operator, "subtask_index": str(number), "kind": "latency"}
        found += [MetricPoint(f"latency_{kind}", value, at) for kind, value in ages.items()]
    return found


def numbers(metrics: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """Yield the numbers: a meter has a count and a rate, a distribution five numbers; texts and errors are none.

    >>> list(numbers({"late": 2, "orders": {"count": 20, "rate": 2.0}, "state": "open"}))
    [('late', 2), ('orders.count', 20), ('orders.rate', 2.0)]
    """
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{part}", each) for part, each in value.items() if _is_number(each))
        elif _is_number(value):
            yield name, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
