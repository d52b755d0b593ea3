"""The ASGI application of the service: what is about one job goes to its driver, or comes from the archive.

The service never runs anybody's code, and has no state of its own: it may end and begin at any time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from funken.errors import RequestRejected, ServerNotReached
from funken.rest.app import dashboard_files
from funken.rest.archive import Archive
from funken.rest.endpoints import VERSION, dashboard_configuration
from funken.rest.responses import encoded, error_response, json_response
from funken.rest.security import Guard
from funken.rest.service.drivers import Drivers
from funken.rest.settings import RestSettings
from funken.rest.views.logs import page_of

_MAX_BODY = 64 * 1024
_METHODS = ["GET", "POST", "PATCH", "PUT"]
_PREFIXES = ("", "/v1")


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
    for prefix in _PREFIXES:
        for path, answer in overviews.items():
            routes.append(Route(prefix + path, partial(_answer, answer), methods=["GET"]))
        of_job = partial(_of_job, drivers, archive, prefix)
        routes += [
            Route(prefix + path, of_job, methods=_METHODS) for path in ("/jobs/{jobid}", "/jobs/{jobid}/{rest:path}")
        ]
        of_machine = partial(_of_machine, drivers)
        machine = "/taskmanagers/{taskmanagerid}"
        routes += [Route(prefix + path, of_machine, methods=["GET"]) for path in (machine, machine + "/{rest:path}")]
    files = dashboard_files()
    routes += [Route(path, partial(_file, path), methods=["GET"]) for path in files]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
    app.router.redirect_slashes = False
    return Guard(app, settings, frozenset(files))


async def _answer(answer: Callable[[], Any], request: Request) -> Response:
    return json_response(encoded(await run_in_threadpool(answer)))


async def _file(path: str, request: Request) -> Response:
    body, kind = dashboard_files()[path]
    return Response(body, 200, {"cache-control": "no-cache"}, media_type=kind)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"There is no {request.url.path}." if error.status_code == 404 else str(error.detail)
    return error_response(text, error.status_code, error.headers)


async def _of_job(drivers: Drivers, archive: Archive, prefix: str, request: Request) -> Response:
    """Answer what is about one job."""
    job_id = request.path_params["jobid"]
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            return error_response(f"The body has more than {_MAX_BODY} bytes.", 413)
    try:
        found = (await run_in_threadpool(drivers.jobs)).get(job_id)
        if found is None:
            return await run_in_threadpool(_archived, archive, job_id, prefix, request)
        # As it came, still quoted: what is in a path must not become another one.
        target = request.scope["raw_path"].decode("latin-1")
        query = request.scope["query_string"].decode("latin-1")
        kind = request.headers.get("content-type", "application/json")
        forward = partial(found[0].forward, request.method, f"{target}?{query}" if query else target, bytes(body), kind)
        status, kind, content = await run_in_threadpool(forward)
        return Response(content, status, {"cache-control": "no-store"}, media_type=kind or None)
    except RequestRejected as error:
        return error_response(str(error), error.status)
    except ServerNotReached as error:
        return error_response(f"The driver of job {job_id} does not answer: {error}", 502)


async def _of_machine(drivers: Drivers, request: Request) -> Response:
    """Answer what is about a machine: the first driver with tasks there does."""
    target = request.scope["raw_path"].decode("latin-1")
    query = request.scope["query_string"].decode("latin-1")
    found = await run_in_threadpool(drivers.first, f"{target}?{query}" if query else target)
    if found is None:
        machine = request.path_params["taskmanagerid"]
        return error_response(f"No task runs on a machine {machine}. GET /taskmanagers lists the machines.", 404)
    status, kind, content = found
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
