"""The metrics of a job as reporters get them: each with its name and its scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from funken.metrics.reporter import MetricPoint
from funken.runtime.job.snapshot import JobSnapshot


def points_of(job: JobSnapshot) -> list[MetricPoint]:
    """Return every metric of a job that is a number: its own, those of its tasks, those of its functions."""
    scope = {"job_id": job.id, "job_name": job.name}
    found = [MetricPoint(name, value, scope) for name, value in job.metrics().items()]
    names = {operator.id: operator.name for vertex in job.graph.vertices for operator in vertex.operators}
    delays = job.start_delays()
    for info, vertex in zip(job.graph.vertices, job.vertices, strict=True):
        head = info.operators[0]
        for subtask in vertex.subtasks:
            task = scope | {"task_name": vertex.name, "subtask_index": str(subtask.subtask), "host": subtask.host}
            own = task | {"operator_id": head.id, "operator_name": head.name}
            found += [MetricPoint(name, value, own) for name, value in subtask.metrics.named(job.taken).items()]
            if (delay := delays.get((vertex.id, subtask.subtask))) is not None:
                found.append(MetricPoint("checkpointStartDelayNanos", delay, own))
            for operator, metrics in subtask.metrics.user.items():
                place = task | {"operator_id": operator, "operator_name": names.get(operator, operator), "kind": "user"}
                labels = subtask.metrics.labels.get(operator, {})
                for name, value in metrics.items():
                    short, keys = labels.get(name, (name, {}))
                    at = place | {key if key not in place else f"user_{key}": each for key, each in keys.items()}
                    found += [MetricPoint(part, number, at) for part, number in numbers({short: value})]
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
    """Yield what is a number: a meter has a count and a rate, a distribution five numbers; texts and errors are none.

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
