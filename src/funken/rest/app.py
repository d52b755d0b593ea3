"""The ASGI application: routes from the table of endpoints, the files of the dashboard, errors as JSON.

What a client sends never makes a response of 500: parameters and bodies are read here, by their declarations, and what does not
fit is rejected with the reason. A GET is answered on the event loop, from a snapshot; what changes a job is begun in a thread.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from funken.errors import RequestRejected
from funken.rest.endpoints import ENDPOINTS, REFUSED, VERSION, Endpoint, RestCall
from funken.rest.jobs import Jobs
from funken.rest.operations import CANCEL, Operations
from funken.rest.parameters import Parameter
from funken.rest.settings import LOOPBACK_NAMES, RestSettings, is_loopback
from funken.runtime.job.snapshot import plain

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


# ---- Responses: JSON, and errors as Flink's REST API has them. Imported with the framework, when a server starts.


_NO_STORE = {"cache-control": "no-store"}


def encoded(data: Any) -> bytes:
    """Return data as JSON; numbers that JSON does not have become ``null``."""
    try:
        return _dumped(data)
    except ValueError:
        return _dumped(plain(data))


def _dumped(data: Any) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":"), default=str).encode("ascii")


def json_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with encoded JSON."""
    return Response(body, status, _NO_STORE | dict(headers or {}), media_type="application/json")


def error_response(reason: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error: ``{"errors": [...]}``."""
    return json_response(encoded({"errors": [reason]}), status, headers)


# ---- The OpenAPI document of the server, made from the table of endpoints.


_ERROR = {
    "type": "object",
    "required": ["errors"],
    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
}
_REASONS = {
    "400": "A parameter or the body is malformed.",
    "401": "The server needs a token.",
    "403": "The request comes from a page of another site, or does not name this server as its host.",
    "404": "What the path names is unknown.",
}
_BODY_REASONS = {
    "409": "The job is in no state for it, or runs without checkpoints.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
}


def document() -> dict[str, Any]:
    """Return the document.

    >>> document()["paths"]["/jobs/{jobid}/savepoints"]["post"]["responses"]["202"]["description"]
    'Begun.'
    """
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Funken REST API",
            "version": VERSION,
            "description": "Flink's REST API (v1) of the jobs of one driver. Every path is also there below /v1.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Errors": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": endpoint.doc,
        "operationId": _name(endpoint),
        "parameters": [
            *(_parameter(each, "path") for each in endpoint.in_path),
            *(_parameter(each, "query") for each in endpoint.query),
        ],
        "responses": _responses(endpoint),
    }
    if endpoint.fields is not None:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": endpoint.fields.schema}
        found["requestBody"] = {"required": False, "content": {"application/json": {"schema": schema}}}
    elif endpoint.body is not None:
        schema = {
            "type": "object",
            "properties": {each.name: each.schema | {"description": each.doc} for each in endpoint.body},
            "required": [each.name for each in endpoint.body if each.required],
            "additionalProperties": False,
        }
        found["requestBody"] = {"required": False, "content": {"application/json": {"schema": schema}}}
    return found


def _name(endpoint: Endpoint) -> str:
    words = [word.strip("{}") for word in endpoint.path.split("/") if word]
    return "-".join([endpoint.method.lower(), *words])


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": place,
        "required": place == "path" or parameter.required,
        "description": parameter.doc,
        "schema": parameter.schema,
    }


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": endpoint.shape}
    if endpoint.shape == "array":
        schema["items"] = {"type": "object"}
    text = "Begun." if endpoint.status == 202 else "As described."
    kind = "text/plain" if endpoint.shape == "string" else "application/json"
    found = {str(endpoint.status): {"description": text, "content": {kind: {"schema": schema}}}}
    reasons = _REASONS | (_BODY_REASONS if endpoint.method != "GET" or endpoint.changes else {})
    for status, reason in reasons.items():
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}
        found[status] = {"description": reason, "content": content}
    return found


# ---- Who may ask: the checks of every request before anything else looks at it, and the headers of every response.
#
# * With a token, every request but those for the files of the dashboard has to carry it.
# * Without one, the server is on loopback, and the ``Host`` of a request has to be a name of it: a page of another site whose
#   name was made to point here (DNS rebinding) has its own name there.
# * A request that changes something must not come from a page of another site: browsers send ``Origin`` and ``Sec-Fetch-Site``.
#
# No response allows other sites to read it. Users of this machine are told apart by a token only.


KNOW = "funken.know"
"""The key in a request's scope of a function to be called when the peer may ask; its connection is kept then."""
_CHANGING = ("/yarn-cancel", "/yarn-stop")
"""The ends of paths with which a GET changes a job: Flink's dashboard cancels so."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


def rejection(
    settings: RestSettings, method: str, path: str, headers: Mapping[str, str], public: bool = False
) -> tuple[int, str] | None:
    """Return the status and the reason for which a request is rejected; ``None`` if it is not. Header names are lower case.

    >>> rejection(RestSettings(), "GET", "/jobs", {"host": "localhost:8081"}) is None
    True
    >>> rejection(RestSettings(), "GET", "/jobs", {"host": "evil.example:8081"})[0]
    403
    """
    if settings.token:
        sent = headers.get("authorization", "")
        if not public and not _has_token(settings.token, sent):
            if sent:
                return (
                    401,
                    "The token is wrong: it is not the one in the file that rest.authentication.token-file names.",
                )
            return 401, "A token is needed: send it as 'Authorization: Bearer TOKEN' (rest.authentication.token-file)."
    elif not _is_own_host(settings, headers.get("host", "")):
        return 403, "The Host header does not name this server. Use the address that the driver logged, or localhost."
    if method not in SAFE_METHODS or path.endswith(_CHANGING):
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and not _is_same_origin(settings, origin, headers.get("host", "")):
            return 403, "Requests that change a job are rejected from pages of other sites (Origin)."
        if site is not None and site not in ("same-origin", "none"):
            return 403, "Requests that change a job are rejected from pages of other sites (Sec-Fetch-Site)."
    return None


def _has_token(token: str, header: str) -> bool:
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def _host_of(netloc: str) -> str:
    try:
        return (urlsplit(f"//{netloc}").hostname or "").lower()
    except ValueError:
        return ""


def _is_own_host(settings: RestSettings, netloc: str) -> bool:
    host = _host_of(netloc)
    return bool(host) and (
        host in LOOPBACK_NAMES or host in (settings.address.lower(), settings.bind_address.lower()) or is_loopback(host)
    )


def _is_same_origin(settings: RestSettings, origin: str, netloc: str) -> bool:
    return origin.lower() == f"{settings.scheme}://{netloc}".lower()


class Guard:
    """The ASGI layer that applies ``rejection`` and adds the headers; ``is_public`` names the paths that need no token."""

    def __init__(self, app: ASGIApp, settings: RestSettings, public: frozenset[str]) -> None:
        self._app = app
        self._settings = settings
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["path"]
        found = rejection(self._settings, scope["method"], path, headers, path in self._public)
        if found is None:
            if path not in self._public and KNOW in scope:
                scope[KNOW]()
            await self._app(scope, receive, send_with_headers)
            return
        status, reason = found
        extra = {"www-authenticate": "Bearer"} if status == 401 else None
        await error_response(reason, status, extra)(scope, receive, send_with_headers)


logger = logging.getLogger(__name__)

_MAX_BODY = 64 * 1024
PREFIXES = ("", "/v1")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

Handler = Callable[[Request], Awaitable[Response]]


def application(jobs: Jobs, settings: RestSettings) -> ASGIApp:
    """Return the application over the jobs of a server."""
    operations = Operations(jobs.unread)
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = []
    for prefix in PREFIXES:
        routes.append(Route(f"{prefix}/openapi.json", _document, methods=["GET"]))
        for path, methods in by_path.items():
            answer = partial(_answer, methods, jobs, operations)
            routes.append(Route(prefix + path, answer, methods=list(methods)))
        for method, path, reason in REFUSED:
            routes.append(Route(prefix + path, partial(_refuse, reason), methods=[method]))
    return guarded(routes, settings, {Exception: _internal_error}, " GET /openapi.json lists all paths.")


def guarded(
    routes: Sequence[Route], settings: RestSettings, handlers: Mapping[Any, Any] = MappingProxyType({}), hint: str = ""
) -> ASGIApp:
    """Return an application of routes and the dashboard's files; ``hint`` ends the answer for a path that there is not."""

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            return error_response(f"There is no {request.url.path}.{hint}", 404)
        detail = str(error.detail)
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "")
            detail = f"Method Not Allowed: {request.method} {request.url.path}. Allowed are: {allowed}."
        return error_response(detail, error.status_code, error.headers)

    files = dashboard_files()
    shown = [Route(path, partial(_file, path), methods=["GET"]) for path in files]
    app = Starlette(routes=[*routes, *shown], exception_handlers={HTTPException: http_error, **handlers})
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
    """Return the encoded answer; for answers that follow from a snapshot, the cached one."""
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


async def body_of(request: Request) -> bytes:
    """Return the body of a request; raises ``RequestRejected`` (413) for a large one."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > _MAX_BODY:
            raise RequestRejected(f"The body has more than {_MAX_BODY} bytes.", 413)
    return bytes(found)


async def _content(request: Request) -> bytes:
    found = await body_of(request)
    if found:
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestRejected(f"The body has to be application/json, not {kind!r}.", 415)
    return found


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


async def _internal_error(request: Request, error: Exception) -> Response:
    logger.error(
        "REST: %s %s has failed; this is a defect of Funken.", request.method, request.url.path, exc_info=error
    )
    return error_response(f"Internal server error: {type(error).__name__}. The driver's log has the traceback.", 500)
