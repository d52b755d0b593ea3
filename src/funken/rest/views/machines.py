"""Machines as task managers and job manager of Flink's REST API; pure functions of snapshots and reports of processes.

A machine is what Flink calls a task manager: its processes, one per worker, together. The driver is the job manager. Where a
field is about a JVM, the figure is the Python processes'; what they have no counterpart for is 0.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from funken.errors import RequestRejected
from funken.rest.jobs import JobEntry, LogReader, digest
from funken.rest.views.jobs import Json, hosts, vertex_id
from funken.rest.views.metrics import aggregated, shown
from funken.rest.views.vertices import find_vertex
from funken.runtime.job.snapshot import JobSnapshot, SubtaskSnapshot
from funken.runtime.log_entries import LEVELS, log_line
from funken.runtime.messages import TaskId, ThreadsDumped, ThreadStack
from funken.runtime.process import ProcessStatus

_MEGABYTE = 1024 * 1024
_SUMMED = (
    "Status.JVM.CPU.Load", "Status.JVM.CPU.Time", "Status.JVM.Memory.Heap.Used", "Status.JVM.Memory.Heap.Committed",
    "Status.JVM.Threads.Count", "Status.JVM.FileDescriptor.Open", "Status.JVM.GarbageCollector.All.Count",
    "Status.JVM.GarbageCollector.All.Time",
)  # fmt: skip


def _processes(subtasks: Iterable[SubtaskSnapshot]) -> list[ProcessStatus]:
    """Return the processes in which subtasks run, each once."""
    found = {each.metrics.process.pid: each.metrics.process for each in subtasks if each.metrics.process is not None}
    return list(found.values())


def _metrics(processes: Collection[ProcessStatus]) -> dict[str, int | float]:
    """Return the metrics of a machine: the sums over its processes."""
    if not processes:
        return {}
    parts = [each.named() for each in processes]
    return parts[0] | {name: round(sum(part[name] for part in parts), 4) for name in _SUMMED}


def find_machine(jobs: Iterable[JobSnapshot], machine: str) -> tuple[str, list[SubtaskSnapshot]]:
    """Return the name of a machine and the subtasks on it; raises ``RequestRejected`` (404) for one without any."""
    for host, subtasks in hosts(jobs).items():
        if digest(host) == machine:
            return host, subtasks
    raise RequestRejected(f"No task runs on a machine {machine}. GET /taskmanagers lists the machines.", 404)


def tasks_on(job: JobSnapshot, machine: str) -> list[TaskId]:
    """Return the tasks of a job that run on a machine: of each process one is enough to ask."""
    found: dict[int, TaskId] = {}
    for info, vertex in zip(job.graph.vertices, job.vertices, strict=True):
        for subtask in vertex.subtasks:
            if subtask.host and digest(subtask.host) == machine:
                found.setdefault(subtask.pid, TaskId(info.stage, subtask.subtask))
    return list(found.values())


def task_managers(jobs: Iterable[JobSnapshot]) -> Json:
    """Return ``/taskmanagers``: the machines on which tasks run."""
    known = list(jobs)
    return {"taskmanagers": [_overview(known, host, subtasks) for host, subtasks in hosts(known).items()]}


def _overview(jobs: Iterable[JobSnapshot], host: str, subtasks: list[SubtaskSnapshot]) -> Json:
    processes = _processes(subtasks)
    cores = max((each.cores for each in processes), default=0)
    physical = max((each.physical_memory for each in processes), default=0)
    free = min((each.free_memory for each in processes), default=0)
    used = sum(each.resident for each in processes)
    latest = max((job.taken for job in jobs), default=0)
    return {
        "id": digest(host),
        "path": host,
        "dataPort": 0,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": latest,
        "slotsNumber": len(subtasks),
        "freeSlots": 0,
        "assignedTasks": len(subtasks),
        "totalResource": _resource(cores, physical),
        "freeResource": _resource(0, 0),
        "hardware": {"cpuCores": cores, "physicalMemory": physical, "freeMemory": free, "managedMemory": 0},
        "memoryConfiguration": {
            "frameworkHeap": 0,
            "taskHeap": used,
            "frameworkOffHeap": 0,
            "taskOffHeap": 0,
            "networkMemory": 0,
            "managedMemory": 0,
            "jvmMetaspace": 0,
            "jvmOverhead": 0,
            "totalFlinkMemory": used,
            "totalProcessMemory": used,
        },
        "blocked": False,
    }


def _resource(cores: int, memory: int) -> Json:
    return {
        "cpuCores": float(cores),
        "taskHeapMemory": memory // _MEGABYTE,
        "taskOffHeapMemory": 0,
        "managedMemory": 0,
        "networkMemory": 0,
        "extendedResources": {},
    }


def task_manager(jobs: Iterable[JobSnapshot], machine: str) -> Json:
    """Return ``/taskmanagers/:taskmanagerid``."""
    known = list(jobs)
    host, subtasks = find_machine(known, machine)
    metrics = _metrics(_processes(subtasks))

    def of(name: str) -> int:
        return int(metrics.get(f"Status.JVM.{name}", 0))

    collected = {"count": of("GarbageCollector.All.Count"), "time": of("GarbageCollector.All.Time")}
    return _overview(known, host, subtasks) | {
        "allocatedSlots": [
            {"jobId": job.id, "resource": _resource(0, 0), "assignedTasks": len(mine)}
            for job in known
            if (mine := hosts([job]).get(host))
        ],
        "metrics": {
            "heapUsed": of("Memory.Heap.Used"),
            "heapCommitted": of("Memory.Heap.Committed"),
            "heapMax": of("Memory.Heap.Max"),
            "nonHeapMax": -1,
            "garbageCollectors": [{"name": "All"} | collected],
        }
        | dict.fromkeys(_NOTHING, 0),
    }


_NOTHING = (
    "nonHeapUsed", "nonHeapCommitted", "directCount", "directUsed", "directMax", "mappedCount", "mappedUsed", "mappedMax",
    "memorySegmentsAvailable", "memorySegmentsTotal", "nettyShuffleMemorySegmentsAvailable",
    "nettyShuffleMemorySegmentsUsed", "nettyShuffleMemorySegmentsTotal", "nettyShuffleMemoryAvailable",
    "nettyShuffleMemoryUsed", "nettyShuffleMemoryTotal",
)  # fmt: skip


def metrics_of(jobs: Iterable[JobSnapshot], machine: str, wanted: Collection[str] | None) -> list[Json]:
    """Return ``/taskmanagers/:taskmanagerid/metrics``."""
    return shown(_metrics(_processes(find_machine(jobs, machine)[1])), wanted)


def metrics_of_all(
    jobs: Iterable[JobSnapshot],
    wanted: Collection[str] | None,
    how: Collection[str] | None,
    machines: Collection[str] | None,
) -> list[Json]:
    """Return ``/taskmanagers/metrics``: aggregated over machines."""
    known = list(jobs)
    for each in machines or ():
        find_machine(known, each)
    chosen = [
        _metrics(_processes(subtasks))
        for host, subtasks in hosts(known).items()
        if machines is None or digest(host) in machines
    ]
    return aggregated(chosen, wanted, how)


# ---- the driver


def driver_metrics(jobs: Iterable[JobSnapshot], status: ProcessStatus, wanted: Collection[str] | None) -> list[Json]:
    """Return ``/jobmanager/metrics``: of the process, and the numbers of jobs and machines."""
    known = list(jobs)
    running = hosts(known)
    counts = {
        "numRegisteredTaskManagers": len(running),
        "numRunningJobs": sum(not job.state.is_globally_terminal_state() for job in known),
        "taskSlotsTotal": sum(map(len, running.values())),
        "taskSlotsAvailable": 0,
    }
    return shown(status.named() | counts, wanted)


def environment() -> Json:
    """Return ``/jobmanager/environment``: the interpreter, and where it looks for modules."""
    return {
        "jvm": {
            "version": f"{platform.python_implementation()} {platform.python_version()}",
            "arch": platform.machine(),
            "options": [f"-W{each}" for each in sys.warnoptions] + [f"-X{each}" for each in sys._xoptions],
        },
        "classpath": [each for each in sys.path if each],
    }


def configuration(job: JobSnapshot) -> list[Json]:
    """Return ``/jobs/:jobid/jobmanager/config``: every option that was set, with secrets masked."""
    return [{"key": key, "value": str(value)} for key, value in sorted(job.configuration.items())]


def configurations(jobs: Iterable[JobSnapshot]) -> list[Json]:
    """Return ``/jobmanager/config``: the options that have one value in all jobs of the driver; others belong to jobs."""
    known: list[Mapping[str, Any]] = [job.configuration for job in jobs]
    if not known:
        return []
    first = known[0]
    common = {key for key in first if all(each.get(key, None) == first[key] for each in known)}
    return [{"key": key, "value": str(first[key])} for key in sorted(common)]


def thread_dump(threads: Iterable[ThreadStack], process: str = "") -> Json:
    """Return the threads of a process as Flink has them."""
    return {
        "threadInfos": [
            {"threadName": f"{process}{each.name}", "stringifiedThreadInfo": f"{process}{each.text}"}
            for each in threads
        ]
    }


def thread_dumps(dumps: Iterable[ThreadsDumped]) -> Json:
    """Return the threads of the processes of a machine."""
    found: list[Json] = []
    for each in sorted(dumps, key=lambda dump: dump.pid):
        found += thread_dump(each.threads, f"process {each.pid}: ")["threadInfos"]
    return {"threadInfos": found}


# ---- Logs: what tasks have logged, as JSON by record, or as lines of text.


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
    """Choose a query's part of an archived answer; unknown parameters are ignored."""
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
    """Return ``/jobmanager/log``: the fate of the jobs; with ``printed`` ``/jobmanager/stdout``."""
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
