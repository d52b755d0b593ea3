"""Metrics as Flink's REST API shows them: a list of names, or the values of those that are asked for, as texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import isfinite

from funken.errors import RequestRejected
from funken.rest.views.jobs import Json
from funken.rest.views.vertices import find_subtask, find_vertex
from funken.runtime.job.points import numbers, operator_records
from funken.runtime.job.snapshot import JobSnapshot, SubtaskSnapshot, VertexInfo

_USUAL = ("min", "max", "avg", "sum")
AGGREGATIONS = (*_USUAL, "skew")

Numbers = Mapping[str, int | float]


def of_subtask(
    job: JobSnapshot, info: VertexInfo, subtask: SubtaskSnapshot, delays: Mapping[tuple[int, int], int] | None = None
) -> dict[str, int | float]:
    """Return all metrics of a subtask; those of functions are ``<operator>.<metric>``. Names have no commas.

    ``delays`` are the job's ``start_delays()``, if there is more than one subtask to look them up for.
    """
    names = {operator.id: operator.name for operator in info.operators}
    found: dict[str, int | float] = dict(subtask.metrics.named(job.taken))
    if (delay := (job.start_delays() if delays is None else delays).get((info.id, subtask.subtask))) is not None:
        found["checkpointStartDelayNanos"] = delay
    for operator, records in operator_records(subtask.metrics).items():
        found |= {_name(f"{names[operator]}.{name}"): value for name, value in records.items()}
    for operator, metrics in subtask.metrics.user.items():
        for name, value in numbers(metrics):
            found[_name(f"{names.get(operator, operator)}.{name}")] = value
    return found


def _name(text: str) -> str:
    return text.replace(",", "_").replace("[", "_").replace("]", "_")


def shown(metrics: Numbers, wanted: Collection[str] | None) -> list[Json]:
    """Return the names of metrics, or of those in ``wanted`` that there are, the values.

    >>> shown({"a": 1, "b": 2.5}, None), shown({"a": 1, "b": 2.5}, ["b", "c"])
    ([{'id': 'a'}, {'id': 'b'}], [{'id': 'b', 'value': '2.5'}])
    """
    if wanted is None:
        return [{"id": name} for name in sorted(metrics)]
    return [{"id": name, "value": str(metrics[name])} for name in dict.fromkeys(wanted) if name in metrics]


def aggregated(metrics: Iterable[Numbers], wanted: Collection[str] | None, how: Collection[str] | None) -> list[Json]:
    """Return the names of metrics that there are anywhere, or aggregates of those in ``wanted``.

    >>> aggregated([{"a": 1}, {"a": 3, "b": 2}], ["a"], ["min", "sum"])
    [{'id': 'a', 'min': 1.0, 'sum': 4.0}]
    """
    known = list(metrics)
    if wanted is None:
        return [{"id": name} for name in sorted({name for each in known for name in each})]
    found = []
    for name in dict.fromkeys(wanted):
        values = [float(each[name]) for each in known if name in each and isfinite(each[name])]
        if values:
            total = sum(values)
            all_of_them = {"min": min(values), "max": max(values), "avg": total / len(values), "sum": total}
            all_of_them["skew"] = _skew(values)
            found.append({"id": name} | {kind: all_of_them[kind] for kind in AGGREGATIONS if kind in (how or _USUAL)})
    return found


def _skew(values: list[float]) -> float:
    """Return the mean deviation of values from their mean, as a percentage of it, at most 100.

    >>> _skew([5.0, 5.0]), _skew([2.0, 4.0]), _skew([0.0, 0.0, 9.0])
    (0.0, 33.33, 100.0)
    """
    mean = sum(values) / len(values)
    if not mean:
        return 0.0
    return round(min(100.0, 100 * sum(abs(each - mean) for each in values) / len(values) / abs(mean)), 2)


def of_job(job: JobSnapshot, wanted: Collection[str] | None) -> list[Json]:
    """Return ``/jobs/:jobid/metrics``; with latency markers, their ages by Flink's names."""
    return shown(job.metrics() | _latencies(job), wanted)


def _latencies(job: JobSnapshot) -> dict[str, int | float]:
    return {
        _name(f"latency.{source}operator_id.{operator}.operator_subtask_index.{subtask}.latency_{kind}"): value
        for source, operator, subtask, ages in job.latencies()
        for kind, value in ages.items()
    }


def of_jobs(jobs: Iterable[JobSnapshot], wanted: Collection[str] | None, how: Collection[str] | None) -> list[Json]:
    """Return ``/jobs/metrics``: over several jobs."""
    return aggregated((job.metrics() for job in jobs), wanted, how)


def of_vertex(job: JobSnapshot, vertex: str, wanted: Collection[str] | None) -> list[Json]:
    """Return ``/jobs/:jobid/vertices/:vertexid/metrics``: ``<subtask>.<metric>``."""
    info, state = find_vertex(job, vertex)
    delays = job.start_delays()
    return shown(
        {
            f"{subtask.subtask}.{name}": value
            for subtask in state.subtasks
            for name, value in of_subtask(job, info, subtask, delays).items()
        },
        wanted,
    )


def of_coordinators(job: JobSnapshot, vertex: str, wanted: Collection[str] | None) -> list[Json]:
    """Return ``.../jm-operator-metrics``: ``<operator>.coordinator.<metric>``."""
    info, _ = find_vertex(job, vertex)
    return shown(
        {
            _name(f"{operator.name}.coordinator.{name}"): value
            for operator in info.operators
            for name, value in numbers(job.coordinators.get(operator.id, {}))
        },
        wanted,
    )


def of_one_subtask(job: JobSnapshot, vertex: str, subtask: int, wanted: Collection[str] | None) -> list[Json]:
    """Return ``.../subtasks/:subtaskindex/metrics``."""
    found = find_subtask(job, vertex, subtask)
    return shown(of_subtask(job, find_vertex(job, vertex)[0], found), wanted)


def of_subtasks(
    job: JobSnapshot,
    vertex: str,
    wanted: Collection[str] | None,
    how: Collection[str] | None,
    subtasks: Collection[int] | None,
) -> list[Json]:
    """Return ``.../subtasks/metrics``: over several subtasks of a vertex; raises ``RequestRejected`` for one it has not."""
    info, state = find_vertex(job, vertex)
    missing = sorted(set(subtasks or ()) - {each.subtask for each in state.subtasks})
    if missing:
        raise RequestRejected(
            f"Vertex {vertex} has {info.parallelism} subtasks; there is no subtask {missing[0]}.", 404
        )
    chosen = [each for each in state.subtasks if subtasks is None or each.subtask in subtasks]
    delays = job.start_delays()
    return aggregated((of_subtask(job, info, each, delays) for each in chosen), wanted, how)
