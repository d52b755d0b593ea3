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
from funken.errors import RequestRejected
from funken.rest import history
from funken.rest import parameters as p
from funken.rest.jobs import JobEntry, Jobs
from funken.rest.operations import Operations
from funken.rest.parameters import Parameter
from funken.rest.views import checkpoints, jobs, machines, metrics, vertices
from funken.rest.views import machines as logs
from funken.rest.views import vertices as stacks
from funken.runtime.job.snapshot import JobSnapshot
from funken.runtime.messages import StacksSampled, ThreadsDumped
from funken.runtime.process import process_status
from funken.runtime.task.stacks import thread_stacks

_REFRESH_MS = 1000
_EXCEPTIONS = 20
_DUMP_SECONDS = 3.0
_DRIVER_LOG, _TASK_LOG, _TASK_OUT = "driver.log", "taskmanager.log", "taskmanager.out"
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
    """True if the answer is of more than a snapshot, and is made anew each time."""
    waits: bool = False
    """True if others are asked for the answer, which takes a thread."""
    changes: bool = False
    """True if a GET changes something, so that its answer is never one from before."""
    fields: Parameter | None = None
    """The parameter for every field of the body whose name is the client's."""

    @property
    def in_path(self) -> list[Parameter]:
        """The parameters of the path."""
        return [p.PATH[part[1:-1]] for part in self.path.split("/") if part.startswith("{")]


def dashboard_configuration(history: bool) -> dict[str, Any]:
    """Return the dashboard's settings of a server; ``history``: it has an archive."""
    return {
        "refresh-interval": _REFRESH_MS,
        "timezone-name": "UTC",
        "timezone-offset": 0,
        "flink-version": VERSION,
        "flink-revision": "",
        "features": {"web-submit": False, "web-cancel": True, "web-rescale": False, "web-history": history},
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
    trigger = call.operations.rescale(call.entry, call.query["parallelism"])
    return {"request-id": trigger, "triggerid": trigger}  # the second is what flink-rest-client reads


def _cancel(call: RestCall) -> dict[str, Any]:
    call.operations.cancel(call.entry)
    return {}


def _checkpoint(call: RestCall) -> dict[str, Any]:
    return {"request-id": call.operations.checkpoint(call.entry, call.body.get("triggerId"))}


def _shut_down(call: RestCall) -> dict[str, Any]:
    call.operations.suspend_all(call.jobs.all())
    return {}


def _require(call: RestCall) -> dict[str, Any]:
    """Rescale a job whose vertices are all to have the same parallelism; others than the program fixed have one."""
    known = {jobs.vertex_id(info): info for info in call.job.graph.vertices}
    for vertex in call.body:
        vertices.find_vertex(call.job, vertex)
    changed = {each for vertex, each in call.body.items() if each != known[vertex].parallelism}
    if len(changed) > 1:
        raise RequestRejected(
            f"The vertices are to have {', '.join(map(str, sorted(changed)))} subtasks; a job changes the parallelism of all "
            "operators together, but for those that the program fixes. Send one upper bound for all vertices.",
            409,
        )
    if changed:
        call.operations.rescale(call.entry, changed.pop())
    return {}


def _requirements(call: RestCall) -> dict[str, Any]:
    return {
        jobs.vertex_id(info): {"parallelism": {"lowerBound": 1, "upperBound": info.parallelism}}
        for info in call.job.graph.vertices
    }


def _flame_graph(call: RestCall) -> dict[str, Any]:
    info, _ = vertices.find_vertex(call.job, call.path["vertexid"])
    subtask, job = call.query.get("subtaskindex"), call.entry.job
    if subtask is not None:
        vertices.find_subtask(call.job, call.path["vertexid"], subtask)
    samples: list[StacksSampled] = []
    if job is not None:
        tasks = stacks.tasks_of(info, subtask)
        job.stacks().request(tasks)
        samples = job.stacks().newest(tasks)
    return stacks.flame_graph(info, samples, call.query.get("type", "FULL"), subtask, job is None)


def _thread_dump(call: RestCall) -> dict[str, Any]:
    machine = call.path["taskmanagerid"]
    machines.find_machine(call.snapshots(), machine)
    found: list[ThreadsDumped] = []
    for entry in call.jobs.all():
        if (job := entry.job) is not None and (tasks := machines.tasks_on(entry.snapshot, machine)):
            found += job.stacks().threads(tasks, _DUMP_SECONDS)
    return machines.thread_dumps(found)


def _machine_log(call: RestCall, printed: bool = False) -> str:
    machine = call.path["taskmanagerid"]
    text = logs.of_machine(call.jobs.all(), machine, printed)
    if not text:
        machines.find_machine(call.snapshots(), machine)
    return text


def _machine_logs(call: RestCall) -> dict[str, Any]:
    texts = {_TASK_LOG: _machine_log(call), _TASK_OUT: _machine_log(call, printed=True)}
    return logs.listed(texts, _newest(call))


def _named_machine_log(call: RestCall) -> str:
    name = call.path["logname"]
    if name not in (_TASK_LOG, _TASK_OUT):
        raise RequestRejected(f"There is no log {name!r}; there are {_TASK_LOG} and {_TASK_OUT}.", 404)
    return _machine_log(call, printed=name == _TASK_OUT)


def _driver_logs(call: RestCall) -> dict[str, Any]:
    texts = {f"{entry.id}.log": logs.of_job(entry) for entry in call.jobs.all()}
    return logs.listed({_DRIVER_LOG: logs.of_driver(call.jobs.all())} | texts, _newest(call))


def _named_driver_log(call: RestCall) -> str:
    name = call.path["logname"]
    if name == _DRIVER_LOG:
        return logs.of_driver(call.jobs.all())
    return logs.of_job(call.jobs.get(name.removesuffix(".log")))


def _newest(call: RestCall) -> int:
    return max((job.taken for job in call.snapshots()), default=0)


def _log_url(call: RestCall) -> dict[str, Any]:
    call.entry  # noqa: B018 - an unknown job is rejected
    machine = call.path.get("taskmanagerid")
    return {"url": f"/jobmanager/logs/{call.entry.id}.log" if machine is None else f"/taskmanagers/{machine}/log"}


def _environment_of_job(call: RestCall) -> dict[str, Any]:
    call.entry  # noqa: B018 - an unknown job is rejected
    return machines.environment()


def _cancel_application(call: RestCall) -> dict[str, Any]:
    _jobs_of_application(call)
    for entry in call.jobs.all():
        if entry.job is not None:
            call.operations.cancel(entry)
    return {}


def _jobs_of_application(call: RestCall) -> list[JobSnapshot]:
    if call.path["applicationid"] != jobs.APPLICATION:
        raise RequestRejected(f"Application {call.path['applicationid']} not found; there is {jobs.APPLICATION}.", 404)
    return call.snapshots()


def _user_accumulators(call: RestCall) -> dict[str, Any]:
    call.entry  # noqa: B018 - an unknown job is rejected
    return {"job-accumulators": [], "user-task-accumulators": [], "serialized-user-task-accumulators": {}}


_JOB = "/jobs/{jobid}"
_VERTEX = _JOB + "/vertices/{vertexid}"
_MACHINE = "/taskmanagers/{taskmanagerid}"
_SUBTASK = _VERTEX + "/subtasks/{subtaskindex}"


def _get(path: str, doc: str, answer: Callable[[RestCall], Any], *query: Parameter, shape: str = "object") -> Endpoint:
    return Endpoint("GET", path, doc, answer, query, shape=shape)


ENDPOINTS = (
    _get("/overview", "Counts of machines, tasks and jobs.", lambda c: jobs.overview(c.snapshots(), VERSION)),
    _get("/config", "What the dashboard needs to know of the server.", lambda c: dashboard_configuration(history=False)),
    Endpoint("DELETE", "/cluster", "Stop the jobs of this driver; what they need to resume is kept.", _shut_down),
    _get(
        "/jobmanager/config", "The options that all jobs of this driver have in common, with secrets masked.",
        lambda c: machines.configurations(c.snapshots()), shape="array",
    ),
    _get("/jobmanager/environment", "The interpreter of the driver.", lambda c: machines.environment()),
    _get("/jobmanager/log", "What became of the jobs, as lines of text.", lambda c: logs.of_driver(c.jobs.all()), shape="string"),
    _get(
        "/jobmanager/stdout", "What the jobs have printed, with taskmanager.system-out.mode: log.",
        lambda c: logs.of_driver(c.jobs.all(), printed=True), shape="string",
    ),
    _get("/jobmanager/logs", "The logs of the driver and of its jobs.", _driver_logs),
    _get("/jobmanager/logs/{logname}", "One of them, as lines of text: its newest records.", _named_driver_log, shape="string"),
    _get(
        "/jobmanager/metrics", "Metrics of the driver's process.",
        lambda c: machines.driver_metrics(c.snapshots(), process_status(), c.query.get("get")), p.GET, shape="array",
    ),
    _get(
        "/jobmanager/thread-dump", "What the threads of the driver do.", lambda c: machines.thread_dump(thread_stacks())
    ),
    _get("/jobmanager/profiler", "Empty: there are flame graphs instead.", lambda c: [], shape="array"),
    _get("/taskmanagers", "The machines on which tasks run.", lambda c: machines.task_managers(c.snapshots())),
    _get(
        "/taskmanagers/metrics", "Metrics of machines, aggregated over machines.",
        lambda c: machines.metrics_of_all(c.snapshots(), c.query.get("get"), c.query.get("agg"), c.query.get("taskmanagers")),
        p.GET, p.AGG, p.TASK_MANAGERS, shape="array",
    ),
    _get(_MACHINE, "A machine.", lambda c: machines.task_manager(c.snapshots(), c.path["taskmanagerid"])),
    _get(
        _MACHINE + "/metrics", "The metrics of a machine.",
        lambda c: machines.metrics_of(c.snapshots(), c.path["taskmanagerid"], c.query.get("get")), p.GET, shape="array",
    ),
    _get(_MACHINE + "/logs", "The logs of a machine.", _machine_logs),
    _get(_MACHINE + "/logs/{logname}", "One of them, as lines of text.", _named_machine_log, shape="string"),
    _get(_MACHINE + "/log", "What the tasks on a machine have logged, as lines of text.", _machine_log, shape="string"),
    _get(
        _MACHINE + "/stdout", "What they have printed, with taskmanager.system-out.mode: log.",
        lambda c: _machine_log(c, printed=True), shape="string",
    ),
    Endpoint("GET", _MACHINE + "/thread-dump", "What the threads of its processes do.", _thread_dump, waits=True),
    _get(
        _MACHINE + "/profiler", "Empty: there are flame graphs instead.",
        lambda c: machines.find_machine(c.snapshots(), c.path["taskmanagerid"])[1][:0], shape="array",
    ),
    _get("/datasets", "Empty: data sets are not kept after their job.", lambda c: {"dataSets": []}),
    _get("/jars", "Empty: programs are not jars.", lambda c: {"address": "", "files": []}),
    _get("/applications/overview", "The program of this driver.", lambda c: jobs.applications(c.snapshots())),
    _get("/applications/{applicationid}", "The program and its jobs.", lambda c: jobs.application(_jobs_of_application(c))),
    _get(
        "/applications/{applicationid}/exceptions", "The newest failures of its jobs.",
        lambda c: jobs.application_exceptions(_jobs_of_application(c), _EXCEPTIONS),
    ),
    _get(
        "/applications/{applicationid}/jobmanager/config", "The options that all of its jobs have in common.",
        lambda c: machines.configurations(_jobs_of_application(c)), shape="array",
    ),
    Endpoint(
        "POST", "/applications/{applicationid}/cancel", "Cancel its jobs.", _cancel_application, body=(), status=202
    ),
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
    _get(_JOB + "/status", "The state of a job.", lambda c: jobs.status(c.job)),
    _get(
        _JOB + "/jobmanager/config", "The options of a job, with secrets masked.", lambda c: machines.configuration(c.job),
        shape="array",
    ),
    _get(_JOB + "/jobmanager/environment", "The interpreter of the driver.", _environment_of_job),
    _get(_JOB + "/jobmanager/log-url", "Where the log of a job is.", _log_url),
    _get(_JOB + "/taskmanagers/{taskmanagerid}/log-url", "Where the log of a machine is.", _log_url),
    _get(_JOB + "/resource-requirements", "The parallelism of each vertex.", _requirements),
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
    Endpoint(
        "GET", _VERTEX + "/flamegraph", "What its functions were doing in two seconds; asked again, that is sampled anew.",
        _flame_graph, (p.GRAPH_TYPE, p.GRAPH_SUBTASK), fresh=True,
    ),
    _get(
        _VERTEX + "/jm-operator-metrics", "The metrics of the coordinators of its operators, on the driver.",
        lambda c: metrics.of_coordinators(c.job, c.path["vertexid"], c.query.get("get")), p.GET, shape="array",
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
        "PATCH", _JOB + "/rescaling", "Begin to resume with another parallelism.", _rescale, query=(p.PARALLELISM,)
    ),
    _get(
        _JOB + "/rescaling/{triggerid}", "How a rescaling is going.",
        lambda c: c.operations.status(c.path["jobid"], c.path["triggerid"]),
    ),
    Endpoint("PATCH", _JOB, "Cancel a job.", _cancel, query=(p.MODE,), status=202),
    Endpoint("GET", _JOB + "/yarn-cancel", "The same, where only GET gets through.", _cancel, status=202, changes=True),
    Endpoint("GET", _JOB + "/yarn-stop", "The same.", _cancel, status=202, changes=True),
    Endpoint(
        "POST", _JOB + "/checkpoints", "Begin a checkpoint.", _checkpoint, body=(p.CHECKPOINT_TYPE, p.TRIGGER), status=202
    ),
    _get(
        _JOB + "/checkpoints/{triggerid}", "How a checkpoint is going.",
        lambda c: c.operations.status(c.path["jobid"], c.path["triggerid"]),
    ),
    Endpoint(
        "PUT", _JOB + "/resource-requirements", "Begin to resume with another parallelism, one for all vertices.", _require,
        fields=p.REQUIREMENT,
    ),
    Endpoint(
        "POST", "/savepoint-disposal", "Begin to delete a savepoint.",
        lambda c: {"request-id": c.operations.dispose(c.body["savepoint-path"])}, body=(p.SAVEPOINT_PATH,), status=200,
    ),
    _get(
        "/savepoint-disposal/{triggerid}", "How the deletion of a savepoint is going.",
        lambda c: c.operations.disposal(c.path["triggerid"]),
    ),
)  # fmt: skip

_NO_JARS = "Funken runs Python programs, not jars: start one where its driver is to run, with 'funken run job.py'."
_NO_PROFILER = (
    "There is no profiler of the JVM; GET /jobs/:jobid/vertices/:vertexid/flamegraph shows where functions spend time."
)
_NO_RESCALES = (
    "Rescales have no record of their own: the snapshot of a job (GET /jobs/:jobid/snapshot) has its restarts."
)

REFUSED = (
    *(
        (method, path, _NO_JARS)
        for method, path in (
            ("POST", "/jobs"), ("POST", "/jars/upload"), ("DELETE", "/jars/{jarid}"), ("GET", "/jars/{jarid}/plan"),
            ("POST", "/jars/{jarid}/plan"), ("POST", "/jars/{jarid}/run"), ("POST", "/jars/{jarid}/run-application"),
        )
    ),
    ("POST", "/jobmanager/profiler", _NO_PROFILER),
    ("GET", "/jobmanager/profiler/{logname}", _NO_PROFILER),
    ("POST", _MACHINE + "/profiler", _NO_PROFILER),
    ("GET", _MACHINE + "/profiler/{logname}", _NO_PROFILER),
    *(
        ("GET", f"{_JOB}/rescales/{part}", _NO_RESCALES)
        for part in ("config", "details/{rescaleuuid}", "history", "overview", "summary")
    ),
    ("DELETE", "/datasets/{datasetid}", "Data sets are not kept after their job, so there is none to delete."),
    ("GET", "/datasets/delete/{triggerid}", "Data sets are not kept after their job, so there is none to delete."),
    (
        "PATCH", _JOB + "/clientHeartbeat",
        "A job lives as long as its driver, and no client keeps it alive: nothing waits for heartbeats.",
    ),
    (
        "POST", _JOB + "/coordinators/{operatoruid}",
        "Coordinators take no requests of clients: results are collected by the program itself.",
    ),
)  # fmt: skip
"""Endpoints of Flink's API that this server answers with a reason only (501): method, path, reason."""
