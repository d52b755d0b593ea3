"""A client of the REST API, for the command line: the standard library's, without proxies, and every wait has a bound."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from copy import copy
from http.client import HTTPException, responses
from typing import Any
from urllib.parse import quote, urlencode

from funken.errors import RequestRejected, ServerNotReached
from funken.rest.settings import ServerAddress, read_token

_SECONDS = 10.0


class RestClient:
    """Requests to one server; raises ``RequestRejected`` for an answer that is an error, ``ServerNotReached`` for none."""

    def __init__(self, url: str, token: str = "", certificate: str = "", seconds: float = _SECONDS) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._seconds = seconds
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.url.startswith("https://"):
            context = ssl.create_default_context(cafile=certificate or None)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        elif not self.url.startswith("http://"):
            raise ServerNotReached(f"{url!r} is no address of a REST server; write it as http://HOST:PORT.")
        self._opener = urllib.request.build_opener(*handlers)

    @classmethod
    def of(cls, address: ServerAddress, seconds: float = _SECONDS) -> RestClient:
        """Return a client of a server of this user."""
        token = read_token(address.token_file) if address.token_file else ""
        return cls(address.url, token, address.certificate, seconds)

    def within(self, seconds: float) -> RestClient:
        """Return a client of the same server that waits no longer than so many seconds."""
        made = copy(self)
        made._seconds = min(seconds, self._seconds)
        return made

    def get(self, *path: str, **query: str) -> Any:
        """Return the answer at a path, of which each part is quoted."""
        return self._request("GET", path, query, b"")

    def post(self, *path: str, body: dict[str, Any]) -> Any:
        """Send a body to a path, and return the answer."""
        return self._request("POST", path, {}, json.dumps(body).encode())

    def patch(self, *path: str, **query: str) -> Any:
        """Change the resource at a path."""
        return self._request("PATCH", path, query, b"")

    def forward(self, method: str, target: str, body: bytes, kind: str) -> tuple[int, str, bytes]:
        """Pass a request on as it is; return the status, the content type and the body of the answer, an error's too."""
        headers = {"accept": "application/json"} | ({"content-type": kind} if body else {})
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(f"{self.url}{target}", body or None, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._seconds) as response:
                return response.status, response.headers.get("content-type", ""), response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers.get("content-type", ""), error.read()
        except (OSError, ValueError, HTTPException) as error:
            raise self._not_reached(error) from error

    def _not_reached(self, error: Exception) -> ServerNotReached:
        return ServerNotReached(
            f"no REST server answers at {self.url}: {error}. A driver logs its address, and 'funken list' shows this user's."
        )

    def _request(self, method: str, path: tuple[str, ...], query: dict[str, str], body: bytes) -> Any:
        target = "".join(f"/{quote(part, safe='')}" for part in path) + (f"?{urlencode(query)}" if query else "")
        status, _, content = self.forward(method, target, body, "application/json")
        if not 200 <= status < 300:
            raise RequestRejected(_reason(status, content), status)
        try:
            return json.loads(content)
        except ValueError as error:
            raise self._not_reached(error) from error


def _reason(status: int, content: bytes) -> str:
    try:
        return "\n".join(json.loads(content)["errors"])
    except (ValueError, KeyError, TypeError):
        return f"{status} {responses.get(status, '')}"
