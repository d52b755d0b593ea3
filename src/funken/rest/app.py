"""The ASGI application: routes from the table of endpoints, the files of the dashboard, errors as JSON.

What a client sends never makes a response of 500: parameters and bodies are read here, by their declarations, and what does not
fit is rejected with the reason. A GET is answered on the event loop, from a snapshot; what changes a job is begun in a thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from funken.errors import RequestRejected
from funken.rest.endpoints import ENDPOINTS, REFUSED, Endpoint, RestCall
from funken.rest.jobs import Jobs
from funken.rest.openapi import document
from funken.rest.operations import CANCEL, Operations
from funken.rest.parameters import Parameter
from funken.rest.responses import encoded, error_response, json_response
from funken.rest.security import Guard
from funken.rest.settings import RestSettings

logger = logging.getLogger(__name__)

_MAX_BODY = 64 * 1024
_PREFIXES = ("", "/v1")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

Handler = Callable[[Request], Awaitable[Response]]


def application(jobs: Jobs, settings: RestSettings) -> ASGIApp:
    """Return the application over the jobs of a server."""
    operations = Operations(jobs.unread)
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = []
    for prefix in _PREFIXES:
        routes.append(Route(f"{prefix}/openapi.json", _document, methods=["GET"]))
        for path, methods in by_path.items():
            answer = partial(_answer, methods, jobs, operations)
            routes.append(Route(prefix + path, answer, methods=list(methods)))
        for method, path, reason in REFUSED:
            routes.append(Route(prefix + path, partial(_refuse, reason), methods=[method]))
    files = dashboard_files()
    routes += [Route(path, partial(_file, path), methods=["GET"]) for path in files]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error, Exception: _internal_error})
    app.router.redirect_slashes = False
    return Guard(app, settings, frozenset(files))


async def _refuse(reason: str, request: Request) -> Response:
    return error_response(reason, 501)


async def _answer(methods: Mapping[str, Endpoint], jobs: Jobs, operations: Operations, request: Request) -> Response:
    """Answer a request for one of the endpoints of a path."""
    method = "GET" if request.method == "HEAD" else request.method
    endpoint = methods[method]
    try:
        path = _read(endpoint.in_path, request.path_params, "path parameter")
        query = _read(endpoint.query, _last(request), "query parameter")
        if method != "GET" or endpoint.changes:
            body = _body(endpoint, await _content(request))
            call = RestCall(jobs, operations, path, query, body)
            return json_response(encoded(await run_in_threadpool(endpoint.answer, call)), endpoint.status)
        call = RestCall(jobs, operations, path, query)
        if endpoint.waits:
            return json_response(encoded(await run_in_threadpool(endpoint.answer, call)), endpoint.status)
        if endpoint.shape == "string":
            return PlainTextResponse(endpoint.answer(call))
        return json_response(_cached(endpoint, call))
    except RequestRejected as error:
        return error_response(str(error), error.status)


def _cached(endpoint: Endpoint, call: RestCall) -> bytes:
    """Return the encoded answer; of what follows from a snapshot, the one that was made before."""
    if "jobid" not in call.path or "triggerid" in call.path or endpoint.fresh:
        return encoded(endpoint.answer(call))
    entry = call.entry
    if entry.job is None:  # who asks learns that it is over
        call.jobs.unread.read(entry.id, CANCEL)
    picture = entry.picture()
    key = f"{endpoint.path} {call.path} {call.query}"
    found = picture.bodies.get(key)
    if found is None:
        found = encoded(endpoint.answer(call))
        picture.keep(key, found)
    return found


def _last(request: Request) -> dict[str, str]:
    return dict(request.query_params.items())


def _read(declared: list[Parameter] | tuple[Parameter, ...], given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Read parameters by their declarations; raises ``RequestRejected`` (400) for the first that does not fit."""
    found = {}
    for each in declared:
        if each.name in given:
            try:
                found[each.name] = each.read(given[each.name])
            except (ValueError, TypeError) as error:
                raise RequestRejected(f"{what} {each.name!r}: {error}.") from error
        elif each.required:
            raise RequestRejected(f"{what} {each.name!r} is missing: {each.doc}")
    return found


async def _content(request: Request) -> bytes:
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > _MAX_BODY:
            raise RequestRejected(f"The body has more than {_MAX_BODY} bytes.", 413)
    if found:
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestRejected(f"The body has to be application/json, not {kind!r}.", 415)
    return bytes(found)


def _body(endpoint: Endpoint, content: bytes) -> dict[str, Any]:
    """Read the fields of a body; raises ``RequestRejected`` (400)."""
    if endpoint.body is None and endpoint.fields is None:
        return {}
    if not content:
        return _read(endpoint.body or (), {}, "field")
    try:
        given = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestRejected(f"The body is no JSON: {error}.") from error
    if not isinstance(given, dict):
        raise RequestRejected("The body has to be a JSON object.")
    if endpoint.fields is not None:
        return _read([replace(endpoint.fields, name=name) for name in given], given, "field")
    assert endpoint.body is not None
    names = [each.name for each in endpoint.body]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise RequestRejected(f"The body has an unknown field {unknown[0]!r}; known are {', '.join(names)}.")
    return _read(endpoint.body, given, "field")


@cache
def _encoded_document() -> bytes:
    return encoded(document())


async def _document(request: Request) -> Response:
    return json_response(_encoded_document())


@cache
def dashboard_files() -> dict[str, tuple[bytes, str]]:
    """Return the files of the dashboard by path, with their types; ``/`` is the page."""
    found = {}
    for file in resources.files("funken.rest").joinpath("dashboard").iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in _TYPES:
            found[f"/{file.name}"] = file.read_bytes(), _TYPES[suffix]
    if "/index.html" in found:
        found["/"] = found["/index.html"]
    return found


async def _file(path: str, request: Request) -> Response:
    body, kind = dashboard_files()[path]
    return Response(body, 200, {"cache-control": "no-cache"}, media_type=kind)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return error_response(f"There is no {request.url.path}. GET /openapi.json describes what there is.", 404)
    return error_response(str(error.detail), error.status_code, error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    logger.error(
        "REST: %s %s has failed; this is a defect of Funken.", request.method, request.url.path, exc_info=error
    )
    return error_response(f"Internal server error: {type(error).__name__}. The driver's log has the traceback.", 500)
