"""The ASGI application of the service: requests about a job go to its driver, or are answered from the archive.

The service never runs anybody's code, and has no state of its own: it may end and begin at any time.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from funken import config
from funken.config import Configuration
from funken.errors import CheckpointError, FunkenError, InvalidConfiguration, RequestRejected, ServerNotReached
from funken.leaderelection.election import LeaderAddress, published
from funken.rest.app import PREFIXES, body_of, encoded, error_response, guarded, json_response
from funken.rest.archive import Archive
from funken.rest.client import RestClient
from funken.rest.endpoints import VERSION, dashboard_configuration
from funken.rest.settings import RestSettings, ServerAddress, is_loopback, registered
from funken.rest.views.machines import page_of
from funken.timing.clock import Clock, SystemClock

# ---- The leaders of jobs that several drivers may run, on any machine, as their storage names them.
#
# The token that requests to them carry is the service's own: whoever can write in that storage can have it sent to
# any address, and could also replace the checkpoints from which a job starts.


logger = logging.getLogger(__name__)

_KEEP_SECONDS = 5.0
_LOOK_SECONDS = 2.0


class Leaders:
    """The addresses below one storage folder, from any thread; a storage that cannot be read costs a warning, not the service."""

    def __init__(
        self, directory: str, token_file: str = "", certificate: str = "", clock: Clock | None = None, host: str = ""
    ) -> None:
        self._directory = directory
        self._token_file = token_file
        self._certificate = certificate
        self._clock = clock or SystemClock()
        self._host = host or socket.gethostname()
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._found: list[ServerAddress] = []
        self._refusal = ""

    @classmethod
    def of(cls, configuration: Configuration) -> Leaders | None:
        """Return those that the options of a service name; ``None`` if these name no storage.

        Raises ``InvalidConfiguration`` if there is an election, and no place to look.
        """
        get = configuration.get
        directory = get(config.HA_STORAGE) or get(config.CHECKPOINT_DIR)
        if not directory:
            if get(config.HA_TYPE) != "none":
                raise InvalidConfiguration(
                    f"option {config.HA_TYPE.key!r} is {get(config.HA_TYPE)!r}, but neither {config.HA_STORAGE.key} nor "
                    f"{config.CHECKPOINT_DIR.key} says where leaders can be found. Set what the drivers have."
                )
            return None
        return cls(directory, get(config.REST_TOKEN_FILE), get(config.REST_CERTIFICATE))

    def addresses(self) -> list[ServerAddress]:
        """Return the servers of leaders that can be reached from here: loopback of another machine cannot."""
        if not self._lock.acquire(timeout=_LOOK_SECONDS):  # another thread waits for the storage
            return self._found
        try:
            if self._looked is None or self._clock.monotonic() - self._looked >= _KEEP_SECONDS:
                self._found = self._look()
                self._looked = self._clock.monotonic()
            return self._found
        finally:
            self._lock.release()

    def _look(self) -> list[ServerAddress]:
        try:
            found = published(self._directory)
        except CheckpointError as error:
            if str(error) != self._refusal:
                self._refusal = str(error)
                logger.warning("leaders of jobs cannot be looked for: %s", error)
            return self._found
        self._refusal = ""
        token, certificate = self._token_file, self._certificate
        return [ServerAddress(0, each.url, token, certificate) for each in found if self._is_reachable(each)]

    def _is_reachable(self, leader: LeaderAddress) -> bool:
        return leader.host == self._host or not is_loopback(urlsplit(leader.url).hostname or "")


# ---- The drivers of this user and their jobs, found in the registry folder, and others where jobs' leaders are
# noted.
#
# They are asked by their REST API.
#
# What they answer is kept for a second. All are asked at the same time and for a bounded time: one that is frozen
# delays the others by no more than that.


_ASK_SECONDS = 2.0
_KEEP_DRIVERS_SECONDS = 1.0
_AT_A_TIME = 8


class Drivers:
    """The drivers and their jobs, from any thread."""

    def __init__(
        self, found: Callable[[], list[ServerAddress]] = registered, clock: Clock | None = None,
        also: Callable[[], list[ServerAddress]] = list,
    ) -> None:  # fmt: skip
        self._registered = found
        self._also = also
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._jobs: dict[str, tuple[RestClient, dict[str, Any]]] = {}

    def jobs(self) -> dict[str, tuple[RestClient, dict[str, Any]]]:
        """Return the jobs by id: the driver, and the entry in its ``/jobs/overview``."""
        with self._lock:
            now = self._clock.monotonic()
            if self._asked is None or now - self._asked >= _KEEP_DRIVERS_SECONDS:
                self._jobs = self._ask()
                self._asked = self._clock.monotonic()
            return self._jobs

    def _ask(self) -> dict[str, tuple[RestClient, dict[str, Any]]]:
        own = [address for address in self._registered() if address.kind == "driver"]
        urls = {address.url for address in own}  # of these it is known which token they want
        addresses = own + [address for address in self._also() if address.url not in urls]
        if not addresses:
            return {}
        found: dict[str, tuple[RestClient, dict[str, Any]]] = {}
        with ThreadPoolExecutor(min(_AT_A_TIME, len(addresses)), "funken-service") as pool:
            for client, entries in pool.map(_entries_of, addresses):
                for entry in entries:
                    known = found.get(entry["jid"])
                    if known is None or _rank(entry) > _rank(known[1]):  # of leader and standby, the leader
                        found[entry["jid"]] = client, entry
        return found

    def all(self, *path: str) -> list[Any]:
        """Return the answer of each driver that has a job at a path; drivers that do not answer are left out."""
        clients = {client.url: client for client, _ in self.jobs().values()}
        found = []
        for client in clients.values():
            try:
                found.append(client.get(*path))
            except FunkenError:
                continue
        return found

    def first(self, target: str) -> tuple[int, str, bytes] | None:
        """Return the first answer to a GET of a driver that knows its object: status, type, body."""
        for client in {client.url: client for client, _ in self.jobs().values()}.values():
            try:
                found = client.forward("GET", target, b"", "")
            except FunkenError:
                continue
            if found[0] != 404:
                return found
        return None


def _entries_of(address: ServerAddress) -> tuple[RestClient, list[dict[str, Any]]]:
    client = RestClient(address.url)
    try:
        client = RestClient.of(address, _ASK_SECONDS)
        return RestClient.of(address), list(client.get("jobs", "overview")["jobs"])
    except (FunkenError, KeyError, TypeError, OSError):
        return client, []


def _rank(entry: dict[str, Any]) -> tuple[bool, int]:
    return entry["state"] == "RUNNING", int(entry["start-time"])


_METHODS = ["GET", "POST", "PATCH", "PUT"]


def service_application(drivers: Drivers, archive: Archive, settings: RestSettings) -> ASGIApp:
    """Return the application."""
    overviews: dict[str, Callable[[], Any]] = {
        "/overview": lambda: _overview(_all_jobs(drivers, archive), drivers),
        "/config": lambda: dashboard_configuration(history=True),
        "/jobs": lambda: {
            "jobs": [{"id": each["jid"], "status": each["state"]} for each in _all_jobs(drivers, archive)]
        },
        "/jobs/overview": lambda: {"jobs": _all_jobs(drivers, archive)},
        "/taskmanagers": lambda: _task_managers(drivers),
        "/jobmanager/config": lambda: [],
    }
    routes = []
    for prefix in PREFIXES:
        for path, answer in overviews.items():
            routes.append(Route(prefix + path, partial(_answer, answer), methods=["GET"]))
        of_job = partial(_of_job, drivers, archive, prefix)
        routes += [
            Route(prefix + path, of_job, methods=_METHODS) for path in ("/jobs/{jobid}", "/jobs/{jobid}/{rest:path}")
        ]
        of_machine = partial(_of_machine, drivers)
        machine = "/taskmanagers/{taskmanagerid}"
        routes += [Route(prefix + path, of_machine, methods=["GET"]) for path in (machine, machine + "/{rest:path}")]
    return guarded(routes, settings)


async def _answer(answer: Callable[[], Any], request: Request) -> Response:
    return json_response(encoded(await run_in_threadpool(answer)))


async def _of_job(drivers: Drivers, archive: Archive, prefix: str, request: Request) -> Response:
    """Answer a request about one job."""
    job_id = request.path_params["jobid"]
    try:
        body = await body_of(request)
        found = (await run_in_threadpool(drivers.jobs)).get(job_id)
        if found is None:
            return await run_in_threadpool(_archived, archive, job_id, prefix, request)
        kind = request.headers.get("content-type", "application/json")
        return _passed_on(*await run_in_threadpool(found[0].forward, request.method, _target(request), body, kind))
    except RequestRejected as error:
        return error_response(str(error), error.status)
    except ServerNotReached as error:
        return error_response(f"The driver of job {job_id} does not answer: {error}", 502)


async def _of_machine(drivers: Drivers, request: Request) -> Response:
    """Answer a request about a machine: the first driver with tasks there does."""
    found = await run_in_threadpool(drivers.first, _target(request))
    if found is None:
        machine = request.path_params["taskmanagerid"]
        return error_response(f"No task runs on a machine {machine}. GET /taskmanagers lists the machines.", 404)
    return _passed_on(*found)


def _target(request: Request) -> str:
    """Return path and query as they came, still quoted: what is in a path must not become another one."""
    path, query = (request.scope[name].decode("latin-1") for name in ("raw_path", "query_string"))
    return f"{path}?{query}" if query else path


def _passed_on(status: int, kind: str, content: bytes) -> Response:
    return Response(content, status, {"cache-control": "no-store"}, media_type=kind or None)


def _archived(archive: Archive, job_id: str, prefix: str, request: Request) -> Response:
    answers = archive.answers(job_id)
    if request.method != "GET":
        raise RequestRejected(f"Job {job_id} is over and archived; it cannot be changed.", 409)
    path = request.url.path.removeprefix(prefix)
    if path not in answers:
        raise RequestRejected(f"The archive of job {job_id} has no {path}.", 404)
    found = answers[path]
    if path.endswith("/logs"):
        found = page_of(found, dict(request.query_params))
    return json_response(json.dumps(found).encode())


def _all_jobs(drivers: Drivers, archive: Archive) -> list[dict[str, Any]]:
    """Return the entries of all jobs, newest first; a job that runs again counts, not its archive."""
    live = drivers.jobs()
    entries = [entry for _, entry in live.values()]
    entries += [entry for entry in archive.overview() if entry["jid"] not in live]
    return sorted(entries, key=lambda entry: int(entry["start-time"]), reverse=True)


def _overview(entries: list[dict[str, Any]], drivers: Drivers) -> dict[str, Any]:
    states = [entry["state"] for entry in entries]
    found = {"FINISHED": "jobs-finished", "CANCELED": "jobs-cancelled", "FAILED": "jobs-failed"}
    counts = {name: states.count(state) for state, name in found.items()}
    machines = {each["id"] for each in _task_managers(drivers)["taskmanagers"]}
    slots = sum(entry["tasks"].get("running", 0) for entry in entries if entry["state"] not in found)
    return counts | {
        "taskmanagers": len(machines),
        "slots-total": slots,
        "slots-available": 0,
        "jobs-running": sum(state not in found for state in states),
        "flink-version": VERSION,
        "flink-commit": "",
        "funken-version": VERSION,
    }


def _task_managers(drivers: Drivers) -> dict[str, Any]:
    """Return the machines of all drivers; the slots of one that several use are added."""
    found: dict[str, dict[str, Any]] = {}
    for answer in drivers.all("taskmanagers"):
        for each in answer["taskmanagers"]:
            known = found.get(each["id"])
            found[each["id"]] = (
                each if known is None else known | {"slotsNumber": known["slotsNumber"] + each["slotsNumber"]}
            )
    return {"taskmanagers": list(found.values())}
