"""Logs: what tasks have logged, as JSON by record, or as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

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


def of_machine(jobs: Iterable[JobEntry], machine: str, printed: bool = False) -> str:
    """Return ``/taskmanagers/:taskmanagerid/log``, or with ``printed`` ``.../stdout``."""
    return _lines(
        jobs,
        lambda entry: bool(entry["host"]) and digest(entry["host"]) == machine and (not printed or _is_printed(entry)),
    )


def of_driver(jobs: Iterable[JobEntry], printed: bool = False) -> str:
    """Return ``/jobmanager/log``: what became of the jobs; with ``printed`` ``/jobmanager/stdout``."""
    return _lines(jobs, lambda entry: _is_printed(entry) if printed else entry["subtask"] < 0)


def of_job(entry: JobEntry) -> str:
    """Return the newest log records of a job as lines of text."""
    return _lines([entry], lambda entry: True)


def _is_printed(entry: Json) -> bool:
    return entry["logger"] in ("stdout", "stderr")


def _lines(jobs: Iterable[JobEntry], fits: Callable[[Json], bool]) -> str:
    found = [entry for job in jobs for entry in job.logs.read(None, _LINES, fits).records]
    found.sort(key=lambda entry: int(entry["timestamp"]))
    return "".join(f"{log_line(entry)}\n" for entry in found)


def listed(names: Mapping[str, str], now: int) -> Json:
    """Return a list of log files: their names, sizes and texts' age, as Flink has it."""
    return {
        "logs": [
            {"name": name, "size": len(text.encode("utf-8", "surrogatepass")), "mtime": now}
            for name, text in names.items()
        ]
    }
