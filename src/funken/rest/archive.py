"""The archive of ended jobs: a file per job with the last answers of the REST API, in Flink's format.

A file is written beside its place and moved there, so that nobody reads half of one. Nothing but the archive knows how files
are called; an archive that cannot be written costs a warning, not the job.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from funken import config
from funken.config import Configuration
from funken.errors import RequestRejected
from funken.io.temporary import cache_folder
from funken.rest.endpoints import ENDPOINTS, Endpoint, RestCall
from funken.rest.jobs import JobEntry, Jobs
from funken.rest.operations import Operations
from funken.rest.views.jobs import vertex_id

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OVERVIEW = "/jobs/overview"
_SUBTASKS = 200
"""Of how many subtasks of a vertex there are answers of their own."""
_LARGEST = 64 * 1024 * 1024


def archive_folder(configuration: Configuration, by_default: bool = True) -> Path | None:
    """Return the folder that is configured, else with ``by_default`` the user's own; ``None`` if there is none."""
    folder = configuration.get(config.ARCHIVE_DIR)
    if folder:
        return Path(folder)
    cache = cache_folder() if by_default else None
    return None if cache is None else cache / "archive"


def answers_of(entry: JobEntry) -> dict[str, Any]:
    """Return the answers about a job, by path."""
    jobs = Jobs(0)
    jobs.show(entry)
    found: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        if endpoint.method == "GET" and not endpoint.changes and _is_of_job(endpoint.path):
            for path in _filled(endpoint, entry):
                try:
                    found[_address(endpoint.path, path)] = endpoint.answer(
                        RestCall(jobs, Operations(jobs.unread), path)
                    )
                except RequestRejected:
                    continue  # such as the subtasks of a checkpoint that never began
    overview = next(each for each in ENDPOINTS if each.path == _OVERVIEW)
    return found | {_OVERVIEW: overview.answer(RestCall(jobs, Operations(jobs.unread)))}


def _is_of_job(path: str) -> bool:
    """Return True if a path is about a job alone: not about an operation, or a machine that may be gone."""
    return "{jobid}" in path and "{triggerid}" not in path and "{taskmanagerid}" not in path


def _filled(endpoint: Endpoint, entry: JobEntry) -> Iterator[dict[str, Any]]:
    """Yield the parameters of all paths of an endpoint."""
    job = entry.snapshot
    names = {parameter.name for parameter in endpoint.in_path}
    checkpoints = [each.id for each in job.checkpoints.history] if "checkpointid" in names else [None]
    vertices = job.graph.vertices if "vertexid" in names else [None]
    for checkpoint in checkpoints:
        for number, vertex in enumerate(vertices):
            found: dict[str, Any] = {"jobid": entry.id}
            if checkpoint is not None:
                found["checkpointid"] = checkpoint
            if vertex is None:
                yield found
                continue
            found["vertexid"] = vertex_id(vertex)
            if "subtaskindex" not in names:
                yield found
                continue
            for subtask in job.vertices[number].subtasks[:_SUBTASKS]:
                found = found | {"subtaskindex": subtask.subtask}
                yield found | {"attempt": subtask.attempt} if "attempt" in names else found


def _address(path: str, values: Mapping[str, Any]) -> str:
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", str(value))
    return path


def write_archive(configuration: Configuration, entry: JobEntry, by_default: bool) -> Path | None:
    """Archive a job that is over; return the file, ``None`` if there is no archive or it cannot be written."""
    folder = archive_folder(configuration, by_default)
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = {
            "archive": [
                {"path": path, "json": json.dumps(data, default=str)} for path, data in answers_of(entry).items()
            ]
        }
        temporary = folder / f".{entry.id}.{os.getpid()}"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(temporary, folder / entry.id)
        Archive(folder).prune(configuration.get(config.ARCHIVE_RETAINED))
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not change how the job has ended
        logger.warning("job %r is not archived in %s: %s: %s.", entry.name, folder, type(error).__name__, error)
        return None
    return folder / entry.id


class Archive:
    """The jobs of a folder. Files are read anew when they change."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, dict[str, Any]]] = {}

    def _files(self) -> dict[str, Path]:
        if self._folder is None:
            return {}
        try:
            return {path.name: path for path in self._folder.iterdir() if _NAME.fullmatch(path.name)}
        except OSError:
            return {}

    def overview(self) -> list[dict[str, Any]]:
        """Return the entries of ``/jobs/overview``, newest first; a file that is no archive is left out."""
        with self._lock:
            return self._overview()

    def _overview(self) -> list[dict[str, Any]]:
        files = self._files()
        self._known = {name: known for name, known in self._known.items() if name in files}
        for name, path in files.items():
            try:
                changed = path.stat().st_mtime_ns
                if name not in self._known or self._known[name][0] != changed:
                    self._known[name] = changed, self._entry(name)
            except (OSError, RequestRejected, KeyError, TypeError, IndexError):
                continue
        found = [entry for _, entry in self._known.values()]
        return sorted(found, key=lambda entry: int(entry["start-time"]), reverse=True)

    def _entry(self, job_id: str) -> dict[str, Any]:
        entry: dict[str, Any] = self.answers(job_id)[_OVERVIEW]["jobs"][0]
        int(entry["start-time"])
        return entry | {"jid": job_id}

    def answers(self, job_id: str) -> dict[str, Any]:
        """Return the archived answers about a job, by path; raises ``RequestRejected`` (404) if it is not there."""
        path = self._files().get(job_id)
        try:
            if path is None or path.stat().st_size > _LARGEST:
                raise RequestRejected(f"Job {job_id} not found: it neither runs here nor is it archived.", 404)
            parts = json.loads(path.read_text(encoding="utf-8"))["archive"]
            return {str(part["path"]): json.loads(part["json"]) for part in parts}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RequestRejected(f"The archive of job {job_id} cannot be read: {error}.", 404) from error

    def prune(self, most: int) -> None:
        """Remove the oldest files; -1: none."""
        if most < 0:
            return
        files = sorted(self._files().values(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in files[most:]:
            path.unlink(missing_ok=True)
