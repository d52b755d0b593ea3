"""The history of metrics on the driver: charts of the last hour for a page that opens now.

A thread takes a sample of each job every five seconds, from the snapshot that requests are answered from. Of a vertex the sum of
its subtasks is kept, and where there are several the least and the greatest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from math import isfinite

from funken.rest.jobs import HISTORY_INTERVAL, JobEntry, Jobs, SeriesKey
from funken.rest.views.jobs import Json, vertex_id
from funken.rest.views.metrics import of_subtask
from funken.rest.views.vertices import find_vertex
from funken.runtime.job.snapshot import JobSnapshot

logger = logging.getLogger(__name__)

_SHOWN = {
    "numRecordsInPerSecond": "sum", "busyTimeMsPerSecond": "max", "backPressuredTimeMsPerSecond": "max", "latencyP50": "max",
    "latencyP99": "max",
}  # fmt: skip
"""The metrics of vertices that are answered if none are named, each by the aggregate that is drawn."""
_POINTS = 180


def sample_of(job: JobSnapshot) -> dict[SeriesKey, float]:
    """Return every metric of a job and its vertices that is a finite number, by vertex, name and aggregate.

    The metrics of the job as a whole have no vertex; the aggregates are ``sum``, ``min`` and ``max``.
    """
    found: dict[SeriesKey, float] = {("", name, "sum"): value for name, value in job.metrics().items()}
    delays = job.start_delays()
    for info, state in zip(job.graph.vertices, job.vertices, strict=True):
        vertex = vertex_id(info)
        values: dict[str, list[float]] = {}
        for subtask in state.subtasks:
            for name, value in of_subtask(job, info, subtask, delays).items():
                if isfinite(value):
                    values.setdefault(name, []).append(value)
        for name, each in values.items():
            found[vertex, name, "sum"] = sum(each)
            if len(state.subtasks) > 1:
                found[vertex, name, "min"] = min(each)
                found[vertex, name, "max"] = max(each)
    return found


def record(entry: JobEntry) -> None:
    """Add a sample of a job to its history, if the job runs."""
    if entry.job is None:
        return
    job = entry.snapshot
    if not job.state.is_terminal_state():
        entry.keep_sample(job.taken, sample_of(job))


def answer(
    entry: JobEntry, vertex: str | None, names: Collection[str] | None, since: int | None, points: int | None = None
) -> Json:
    """Return ``/jobs/:jobid/history``; raises ``RequestRejected`` for a vertex that the job has not.

    Without ``names``, the metrics of vertices are those that every page of the dashboard shows.
    """
    if vertex is not None:
        find_vertex(entry.snapshot, vertex)

    alone = {vertex_id(info) for info in entry.snapshot.graph.vertices if info.parallelism == 1}

    def is_wanted(key: SeriesKey) -> bool:
        whose, name, aggregate = key
        if vertex is not None and whose not in ("", vertex):
            return False
        if names is not None:
            return name in names
        return not whose or (name in _SHOWN and aggregate == ("sum" if whose in alone else _SHOWN[name]))

    times, series, interval, left_out = entry.history(is_wanted, since)
    step = -(-len(times) // (points or _POINTS)) or 1
    job: dict[str, list[float | None]] = {}
    vertices: dict[str, dict[str, dict[str, list[float | None]]]] = {}
    for (whose, name, aggregate), values in series.items():
        found = thinned(values, step, aggregate)
        if whose:
            vertices.setdefault(whose, {}).setdefault(name, {})[aggregate] = found
        else:
            job[name] = found
    for metrics in vertices.values():
        for name, kinds in metrics.items():
            for kind in ("min", "max") if names is not None else (_SHOWN[name],):
                if "sum" in kinds:  # of one subtask, they are one series
                    kinds.setdefault(kind, kinds["sum"])
    times = [times[place] for place in _ends(len(times), step)]
    return {"interval": interval * step, "leftOut": left_out, "times": times, "job": job, "vertices": vertices}


def _ends(count: int, step: int) -> range:
    """Return the place of the last of each group of ``step`` places, the newest group full.

    >>> list(_ends(7, 3))
    [0, 3, 6]
    """
    return range((count - 1) % step, count, step) if count else range(0)


def thinned(values: list[float | None], step: int, aggregate: str) -> list[float | None]:
    """Return one value for each group of ``step`` values: the least of ``min``, the greatest of ``max``, else the newest.

    >>> thinned([1, 5, None, 4, None, 2, 3], 3, "max"), thinned([1, 5, None, 4, None, 2, 3], 3, "sum")
    ([1, 5, 3], [1, 4, 3])
    """
    choose = {"min": min, "max": max}.get(aggregate, lambda known: known[-1])
    found: list[float | None] = []
    for end in _ends(len(values), step):
        known = [each for each in values[max(0, end - step + 1) : end + 1] if each is not None]
        found.append(round(choose(known), 3) if known else None)
    return found


class Sampler:
    """The thread that takes samples while a server is there; ``close`` ends it."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rest-history", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(HISTORY_INTERVAL / 1000):
            for entry in self._jobs.all():
                try:
                    record(entry)
                except Exception:
                    logger.exception(
                        "job %r: a sample of its metrics is lost; the job and its other samples continue.", entry.name
                    )

    def close(self) -> None:
        """End it; does not wait."""
        self._ended.set()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, at most so long."""
        self._thread.join(seconds)
