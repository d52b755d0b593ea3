"""Logs: what tasks have logged, as JSON by record, or as lines of text."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from funken.errors import RequestRejected
from funken.rest.jobs import JobEntry, LogReader, digest
from funken.rest.views.jobs import Json, vertex_id
from funken.rest.views.vertices import find_vertex
from funken.runtime.job.snapshot import JobSnapshot
from funken.runtime.log_entries import LEVELS, log_line

_LINES = 5_000
_NUMBERS = ("after", "limit", "subtask")


def page(
    logs: LogReader,
    job: JobSnapshot,
    after: int | None,
    limit: int,
    level: str | None,
    vertex: str | None,
    subtask: int | None,
) -> Json:
    """Return ``/jobs/:jobid/logs``; raises ``RequestRejected`` for a vertex that the job has not."""
    operators = None if vertex is None else {each.id for each in find_vertex(job, vertex)[0].operators}
    least = LEVELS[(level or "DEBUG").lower()]
    found = logs.read(after, limit, lambda entry: _fits(entry, least, subtask, operators))
    return {
        "records": found.records,
        "next": found.next,
        "lost": found.lost,
        "vertices": {vertex_id(info): [each.id for each in info.operators] for info in job.graph.vertices},
    }


def page_of(archived: Json, query: dict[str, str]) -> Json:
    """Choose from an archived answer what a query asks for; what a query cannot ask for is ignored."""
    after, limit, subtask = (int(given) if (given := query.get(name, "")).isdecimal() else None for name in _NUMBERS)
    least = LEVELS.get(query.get("level", "debug").lower(), 0)
    operators = None if "vertex" not in query else set(archived["vertices"].get(query["vertex"], ()))
    records = [
        entry
        for entry in archived["records"]
        if (after is None or entry["number"] >= after) and _fits(entry, least, subtask, operators)
    ]
    most = _LINES if limit is None else limit
    shown = records[:most] if after is not None else records[-most:] if most else []
    following = (
        shown[-1]["number"] + 1 if shown and after is not None and len(shown) < len(records) else archived["next"]
    )
    return archived | {"records": shown, "next": following, "lost": 0}


def _fits(entry: Json, least: int, subtask: int | None, operators: Collection[str] | None) -> bool:
    return (
        LEVELS[entry["level"].lower()] >= least
        and (subtask is None or entry["subtask"] == subtask)
        and (operators is None or entry["operator-id"] in operators)
    )


def of_machine(jobs: Iterable[JobEntry], machine: str) -> str:
    """Return ``/taskmanagers/:taskmanagerid/log``; raises ``RequestRejected`` (404) for a machine that has logged nothing."""
    found = [
        entry
        for job in jobs
        for entry in job.logs.read(
            None, _LINES, lambda entry: bool(entry["host"]) and digest(entry["host"]) == machine
        ).records
    ]
    if not found:
        raise RequestRejected(
            f"No task on a machine {machine} has logged anything. GET /taskmanagers lists the machines.", 404
        )
    found.sort(key=lambda entry: int(entry["timestamp"]))
    return "".join(f"{log_line(entry)}\n" for entry in found)
