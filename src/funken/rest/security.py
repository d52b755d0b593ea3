"""Who may ask: the checks of every request before anything else looks at it, and the headers of every response.

* With a token, every request but those for the files of the dashboard has to carry it.
* Without one, the server is on loopback, and the ``Host`` of a request has to be a name of it: a page of another site whose name
  was made to point here (DNS rebinding) has its own name there.
* A request that changes something must not come from a page of another site: browsers send ``Origin`` and ``Sec-Fetch-Site``.

No response allows other sites to read it. Users of this machine are told apart by a token only.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from funken.rest.settings import LOOPBACK_NAMES, RestSettings, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

KNOW = "funken.know"
"""What the scope of a request may have: a function to be called when the peer may ask; its connection is kept then."""
_CHANGING = ("/yarn-cancel", "/yarn-stop")
"""How the paths end with which a GET changes a job: Flink's dashboard cancels so."""
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
        from funken.rest.responses import error_response  # noqa: PLC0415 - with the framework

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
