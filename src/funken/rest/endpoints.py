"""Every endpoint, once: method, path, parameters, and the function that answers.

The router and the OpenAPI document follow from this table. Paths and fields are Flink's. ``doc`` says what Flink
does not have. A function gets a ``RestCall`` whose parameters were read, and returns data for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from importlib import metadata
from typing import Any

from funken.dataclass import dataclass
from funken.rest import history
from funken.rest import parameters as p
from funken.rest.jobs import JobEntry, Jobs
from funken.rest.operations import Operations
from funken.rest.parameters import Parameter
from funken.rest.views import checkpoints, jobs, logs, metrics, vertices
from funken.runtime.job.snapshot import JobSnapshot

_REFRESH_MS = 1000
_EXCEPTIONS = 20
_LOG_RECORDS = 500

VERSION = metadata.version("funken")


@dataclass(frozen=True, slots=True)
class RestCall:
    """A request whose parameters were read; of those that were left out there is no entry."""

    jobs: Jobs
    operations: Operations
    path: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def entry(self) -> JobEntry:
        """The job that the path names; raises ``RequestRejected`` if there is none."""
        return self.jobs.get(self.path["jobid"])

    @property
    def job(self) -> JobSnapshot:
        """A snapshot of it."""
        return self.entry.snapshot

    def snapshots(self) -> list[JobSnapshot]:
        """Return a snapshot of every job, or of those that the query names."""
        wanted = self.query.get("jobs")
        entries = self.jobs.all() if wanted is None else [self.jobs.get(each) for each in wanted]
        return [entry.snapshot for entry in entries]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint; ``shape`` is the JSON type of the answer."""

    method: str
    path: str
    doc: str
    answer: Callable[[RestCall], Any]
    query: tuple[Parameter, ...] = ()
    body: tuple[Parameter, ...] | None = None
    status: int = 200
    shape: str = "object"
    fresh: bool = False
    """Whether the answer is of more than a snapshot, and is made anew each time."""

    @property
    def in_path(self) -> list[Parameter]:
        """The parameters of the path."""
        return [p.PATH[part[1:-1]] for part in self.path.split("/") if part.startswith("{")]


def dashboard_configuration(history: bool) -> dict[str, Any]:
    """Return what the dashboard needs to know of a server; ``history``: it has an archive."""
    return {
        "refresh-interval": _REFRESH_MS,
        "timezone-name": "UTC",
        "timezone-offset": 0,
        "flink-version": VERSION,
        "flink-revision": "",
        "features": {"web-submit": False, "web-cancel": True, "web-rescale": True, "web-history": history},
    }


def _job_list(call: RestCall) -> dict[str, Any]:
    return {"jobs": [{"id": entry.id, "status": entry.snapshot.state.name} for entry in call.jobs.all()]}


def _snapshot(call: RestCall) -> dict[str, Any]:
    """Return the whole picture with the ids that stand in addresses; the subtasks of checkpoints have paths of their own."""
    job = call.job
    newest = tuple(replace(each, subtasks=()) for each in job.checkpoints.history)
    brief = replace(job.checkpoints, history=newest, latest_completed=None, latest_savepoint=None, latest_failed=None)
    return replace(job, checkpoints=brief).to_dict() | {
        "id": call.entry.id,
        "vertex_ids": {str(info.id): jobs.vertex_id(info) for info in job.graph.vertices},
        "job_metrics": job.metrics(),
    }


def _logs(call: RestCall) -> dict[str, Any]:
    entry, query = call.entry, call.query
    return logs.page(
        entry.logs, entry.snapshot, query.get("after"), query.get("limit", _LOG_RECORDS), query.get("level"),
        query.get("vertex"), query.get("subtask"),
    )  # fmt: skip


def _history(call: RestCall) -> dict[str, Any]:
    query = call.query
    return history.answer(call.entry, query.get("vertex"), query.get("get"), query.get("since"), query.get("points"))


def _savepoint(call: RestCall) -> dict[str, Any]:
    body = call.body
    stop = body.get("cancel-job", False)
    trigger = call.operations.savepoint(call.entry, body.get("target-directory"), stop, body.get("triggerId"))
    return {"request-id": trigger}


def _stop(call: RestCall) -> dict[str, Any]:
    body = call.body
    drain = body.get("drain", False)
    return {"request-id": call.operations.stop(call.entry, body.get("targetDirectory"), drain, body.get("triggerId"))}


def _rescale(call: RestCall) -> dict[str, Any]:
    return {"request-id": call.operations.rescale(call.entry, call.query["parallelism"])}


def _cancel(call: RestCall) -> dict[str, Any]:
    call.operations.cancel(call.entry)
    return {}


def _user_accumulators(call: RestCall) -> dict[str, Any]:
    call.entry  # noqa: B018 - an unknown job is rejected
    return {"job-accumulators": [], "user-task-accumulators": [], "serialized-user-task-accumulators": {}}


_JOB = "/jobs/{jobid}"
_VERTEX = _JOB + "/vertices/{vertexid}"
_SUBTASK = _VERTEX + "/subtasks/{subtaskindex}"


def _get(path: str, doc: str, answer: Callable[[RestCall], Any], *query: Parameter, shape: str = "object") -> Endpoint:
    return Endpoint("GET", path, doc, answer, query, shape=shape)


ENDPOINTS = (
    _get("/overview", "Counts of machines, tasks and jobs.", lambda c: jobs.overview(c.snapshots(), VERSION)),
    _get("/config", "What the dashboard needs to know of the server.", lambda c: dashboard_configuration(history=False)),
    _get("/jobmanager/config", "Empty: options belong to jobs.", lambda c: [], shape="array"),
    _get("/taskmanagers", "The machines on which tasks run.", lambda c: jobs.task_managers(c.snapshots())),
    _get("/jobs", "The jobs of this driver and their states.", _job_list),
    _get(
        "/jobs/overview", "The jobs of this driver, with their times and tasks.",
        lambda c: {"jobs": [jobs.overview_entry(job) for job in c.snapshots()]},
    ),
    _get(
        "/jobs/metrics", "Metrics of jobs, aggregated over jobs.",
        lambda c: metrics.of_jobs(c.snapshots(), c.query.get("get"), c.query.get("agg")), p.GET, p.AGG, p.JOBS, shape="array",
    ),
    _get(_JOB, "A job, with its vertices and its plan.", lambda c: jobs.details(c.job)),
    _get(_JOB + "/plan", "The graph of a job.", lambda c: jobs.plan(c.job)),
    _get(_JOB + "/config", "The options of a job, with secrets masked.", lambda c: jobs.configuration(c.job)),
    _get(
        _JOB + "/exceptions", "The newest failures of a job, with the user's tracebacks.",
        lambda c: jobs.exceptions(c.job, c.query.get("maxExceptions", _EXCEPTIONS)), p.MAX_EXCEPTIONS,
    ),
    _get(_JOB + "/execution-result", "How a job ended.", lambda c: jobs.execution_result(c.job)),
    _get(_JOB + "/accumulators", "Empty: functions have metrics, no accumulators.", _user_accumulators),
    _get(
        _JOB + "/metrics", "The metrics of a job as a whole.",
        lambda c: metrics.of_job(c.job, c.query.get("get")), p.GET, shape="array",
    ),
    _get(_JOB + "/snapshot", "Not Flink's: all that the driver knows of a job, at one moment.", _snapshot),
    Endpoint(
        "GET", _JOB + "/history", "Not Flink's: the metrics of the last hour, as the driver has kept them.",
        _history, (p.VERTEX_OF_METRICS, p.GET_HISTORY, p.SINCE, p.POINTS), fresh=True,
    ),
    Endpoint(
        "GET", _JOB + "/logs", "Not Flink's: what the tasks of a job have logged, and what became of the job, in its order.",
        _logs, (p.AFTER, p.LIMIT, p.LEVEL, p.VERTEX, p.SUBTASK), fresh=True,
    ),
    Endpoint(
        "GET", "/taskmanagers/{taskmanagerid}/log", "What the tasks on a machine have logged, as lines of text.",
        lambda c: logs.of_machine(c.jobs.all(), c.path["taskmanagerid"]), shape="string", fresh=True,
    ),
    _get(_JOB + "/checkpoints", "Counts, summary and history of checkpoints.", lambda c: checkpoints.statistics(c.job)),
    _get(_JOB + "/checkpoints/config", "The options of checkpoints.", lambda c: checkpoints.configuration(c.job)),
    _get(
        _JOB + "/checkpoints/details/{checkpointid}", "A checkpoint, by vertex.",
        lambda c: checkpoints.details(c.job, c.path["checkpointid"]),
    ),
    _get(
        _JOB + "/checkpoints/details/{checkpointid}/subtasks/{vertexid}", "A checkpoint, by subtask of a vertex.",
        lambda c: checkpoints.subtasks(c.job, c.path["checkpointid"], c.path["vertexid"]),
    ),
    _get(_VERTEX, "A vertex and its subtasks.", lambda c: vertices.details(c.job, c.path["vertexid"])),
    _get(_VERTEX + "/accumulators", "Empty.", lambda c: vertices.accumulators(c.job, c.path["vertexid"])),
    _get(
        _VERTEX + "/backpressure", "How busy and back-pressured it is.",
        lambda c: vertices.back_pressure(c.job, c.path["vertexid"]),
    ),
    _get(
        _VERTEX + "/watermarks", "The watermark of each subtask.",
        lambda c: vertices.watermarks(c.job, c.path["vertexid"]), shape="array",
    ),
    _get(
        _VERTEX + "/metrics", "Metrics of all subtasks: <subtask>.<metric>.",
        lambda c: metrics.of_vertex(c.job, c.path["vertexid"], c.query.get("get")), p.GET, shape="array",
    ),
    _get(
        _VERTEX + "/subtasktimes", "When subtasks came to their states.",
        lambda c: vertices.subtask_times(c.job, c.path["vertexid"]),
    ),
    _get(_VERTEX + "/taskmanagers", "Its subtasks by machine.", lambda c: vertices.task_managers(c.job, c.path["vertexid"])),
    _get(
        _VERTEX + "/subtasks/accumulators", "Its subtasks, without accumulators.",
        lambda c: vertices.subtask_accumulators(c.job, c.path["vertexid"]),
    ),
    _get(
        _VERTEX + "/subtasks/metrics", "Metrics aggregated over subtasks.",
        lambda c: metrics.of_subtasks(
            c.job, c.path["vertexid"], c.query.get("get"), c.query.get("agg"), c.query.get("subtasks")
        ),
        p.GET, p.AGG, p.SUBTASKS, shape="array",
    ),
    _get(_SUBTASK, "A subtask.", lambda c: vertices.subtask_details(c.job, c.path["vertexid"], c.path["subtaskindex"])),
    _get(
        _SUBTASK + "/metrics", "The metrics of a subtask.",
        lambda c: metrics.of_one_subtask(c.job, c.path["vertexid"], c.path["subtaskindex"], c.query.get("get")),
        p.GET, shape="array",
    ),
    _get(
        _SUBTASK + "/attempts/{attempt}", "An attempt of a subtask; only the newest is known.",
        lambda c: vertices.subtask_details(c.job, c.path["vertexid"], c.path["subtaskindex"], c.path["attempt"]),
    ),
    _get(
        _SUBTASK + "/attempts/{attempt}/accumulators", "Empty.",
        lambda c: vertices.attempt_accumulators(c.job, c.path["vertexid"], c.path["subtaskindex"], c.path["attempt"]),
    ),
    Endpoint(
        "POST", _JOB + "/savepoints", "Begin a savepoint; with cancel-job, one that the job ends with.",
        _savepoint, body=(p.TARGET, p.CANCEL_JOB, p.FORMAT, p.TRIGGER), status=202,
    ),
    Endpoint(
        "POST", _JOB + "/stop", "Begin a savepoint that the job ends with.",
        _stop, body=(p.STOP_TARGET, p.DRAIN, p.FORMAT, p.TRIGGER), status=202,
    ),
    _get(
        _JOB + "/savepoints/{triggerid}", "How a savepoint or a stop is going.",
        lambda c: c.operations.status(c.path["jobid"], c.path["triggerid"]),
    ),
    Endpoint(
        "PATCH", _JOB + "/rescaling", "Begin to resume with another parallelism.", _rescale, query=(p.PARALLELISM,), status=202
    ),
    _get(
        _JOB + "/rescaling/{triggerid}", "How a rescaling is going.",
        lambda c: c.operations.status(c.path["jobid"], c.path["triggerid"]),
    ),
    Endpoint("PATCH", _JOB, "Cancel a job.", _cancel, query=(p.MODE,), status=202),
)  # fmt: skip
