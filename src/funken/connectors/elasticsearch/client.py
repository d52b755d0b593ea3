"""Requests to a cluster of Elasticsearch or OpenSearch; the only module of the connector that imports ``urllib3``.

The bulk API is the same in Elasticsearch 7 to 9 and OpenSearch, and no client of theirs talks to all of them. A request goes to
the next host if one cannot be reached, and is repeated where that may help: answers 429, 502, 503 and 504, connections that fail.
Passwords and keys are never shown.
"""

from __future__ import annotations

import importlib
import json
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration

_AGAIN = frozenset({429, 502, 503, 504})
_SHOWN = 300
_LONGEST_PAUSE_S = 30.0
_REMEDIES = {
    400: "correct the request",
    401: "correct user and password, or the API key",
    403: "let this user write the index",
    404: "correct the address or the path prefix",
    413: "send fewer bytes in a request (max_bytes)",
}


class RequestRefused(Exception):
    """The cluster did not answer, or answered with an error; the message says which, and what to do."""


@dataclass(frozen=True)
class ElasticsearchServer:
    """A cluster, by the addresses of its hosts, and who connects to it.

    ``retries`` and ``delay`` (seconds, doubled for each retry if ``exponential``) say how often a request is repeated, also for
    single actions that the cluster rejects for want of room. ``ca_certs`` is a file of certificates to trust.

    >>> server = ElasticsearchServer(["https://a.example:9200", "b.example:9200"], username="ada", password="secret")
    >>> server
    ElasticsearchServer(https://a.example:9200, http://b.example:9200)
    >>> ElasticsearchServer([])
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: ElasticsearchServer: no host is given; pass addresses such as 'http://localhost:9200'.
    """

    hosts: Sequence[str]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    path_prefix: str = ""
    ca_certs: str | None = None
    verify: bool = True
    connect_timeout: float = 10.0
    timeout: float = 60.0
    retries: int = 5
    delay: float = 0.2
    exponential: bool = True

    def __post_init__(self) -> None:
        """Check the addresses."""
        hosts = tuple(host if "://" in host else f"http://{host}" for host in self.hosts)
        if not hosts:
            raise InvalidConfiguration(
                "ElasticsearchServer: no host is given; pass addresses such as 'http://localhost:9200'."
            )
        for host in hosts:
            parts = urlsplit(host)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
                raise InvalidConfiguration(
                    f"ElasticsearchServer: the host {_shown(host)!r} is no address; write 'https://host:9200', and pass user "
                    "and password as username= and password=."
                )
        object.__setattr__(self, "hosts", hosts)

    def __repr__(self) -> str:
        return f"ElasticsearchServer({', '.join(map(_shown, self.hosts))})"

    def headers(self) -> dict[str, str]:
        """Return the headers that say who asks."""
        if self.api_key is not None:
            return {"Authorization": f"ApiKey {self.api_key}"}
        if self.username is None:
            return {}
        given = b64encode(f"{self.username}:{self.password or ''}".encode()).decode()
        return {"Authorization": f"Basic {given}"}


class BulkClient:
    """Sends requests, to one host for as long as it answers."""

    def __init__(self, server: ElasticsearchServer) -> None:
        self._server = server
        client = _urllib3()
        tls: dict[str, Any] = {} if server.ca_certs is None else {"ca_certs": server.ca_certs}
        if not server.verify:
            tls["cert_reqs"] = "CERT_NONE"
        timeout = client.Timeout(connect=server.connect_timeout, read=server.timeout)
        self._pool = client.PoolManager(maxsize=1, retries=False, timeout=timeout, headers=server.headers(), **tls)
        self._errors = client.exceptions.HTTPError
        self._host = 0

    def request(self, method: str, path: str, body: bytes | None = None) -> Mapping[str, Any]:
        """Return the answer, a JSON object; raises ``RequestRefused``."""
        unreached = 0
        for attempt in range(self._server.retries + 1):
            last = attempt == self._server.retries
            try:
                answer = self._send(method, path, body)
            except self._errors as error:
                unreached += 1
                if last:
                    raise RequestRefused(
                        f"{self._server} did not answer ({type(error).__name__}); start it, or correct the addresses."
                    ) from None  # the client's error has the whole address
                self._host += 1
                if unreached % len(self._server.hosts) == 0:
                    self.pause(attempt)
                continue
            if answer.status in _AGAIN and not last:
                self.pause(attempt, answer.headers.get("Retry-After"))
                continue
            return self._read(method, path, answer)
        raise AssertionError("the last attempt returns or raises")

    def pause(self, attempt: int, asked: str | None = None) -> None:
        """Wait before the next attempt: as long as the cluster asks, else by the options of the server."""
        delay = self._server.delay * (2**attempt if self._server.exponential else 1)
        if asked is not None and asked.isdigit():
            delay = float(asked)
        time.sleep(min(delay, _LONGEST_PAUSE_S))

    def _send(self, method: str, path: str, body: bytes | None) -> Any:
        server = self._server
        host = server.hosts[self._host % len(server.hosts)].rstrip("/")
        prefix = f"/{server.path_prefix.strip('/')}" if server.path_prefix.strip("/") else ""
        headers = {**server.headers(), "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/x-ndjson"
        return self._pool.request(method, f"{host}{prefix}{path}", body=body, headers=headers)

    def _read(self, method: str, path: str, answer: Any) -> Mapping[str, Any]:
        text = answer.data.decode("utf-8", "replace")
        if 200 <= answer.status < 300:
            try:
                found = json.loads(text)
            except ValueError:
                found = None
            if isinstance(found, dict):
                return found
            raise RequestRefused(f"{self._server} answered {method} {path} with no JSON object; correct the address.")
        remedy = _REMEDIES.get(answer.status, "see its log")
        said = _reason(text)
        raise RequestRefused(f"{self._server} answered {method} {path} with {answer.status} {said!r}; {remedy}.")

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _reason(text: str) -> str:
    """Return the type and reason of an error, or the beginning of a text that is none.

    >>> _reason('{"error": {"type": "security_exception", "reason": "missing authentication"}, "status": 401}')
    'security_exception: missing authentication'
    """
    try:
        error = json.loads(text)["error"]
        return f"{error['type']}: {error['reason']}"[:_SHOWN]
    except (ValueError, KeyError, TypeError):
        return text[:_SHOWN].strip()


def _shown(host: str) -> str:
    parts = urlsplit(host)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"


def _urllib3() -> Any:
    try:
        return importlib.import_module("urllib3")
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the Elasticsearch sink needs urllib3 ({error}); install it with: pip install 'funken[elasticsearch]'."
        ) from error


__all__ = ["BulkClient", "ElasticsearchServer", "RequestRefused"]
