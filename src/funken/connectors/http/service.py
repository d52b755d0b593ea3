"""Requests to an HTTP service, and what its answers mean: the only module that imports ``urllib3``.

A request is repeated, with a pause that doubles or that the service asks for (``Retry-After``, of which a minute at most is
waited), where that may help: connections that fail, and answers 429, 500, 502, 503 and 504. A redirect to another host gets none
of the headers that may hold credentials. An address is shown without user, password and query, for there may be a token
in them; headers are never shown.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from funken.errors import EnvironmentNotReady, InvalidConfiguration

TRIES = 5
TIMEOUT_S = 30.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 60.0
_HARMLESS = frozenset({"accept", "content-type", "user-agent"})
"""Headers that another host may see; any other one may be a token."""
_AGAIN = frozenset({429, 500, 502, 503, 504})
_SHOWN_BODY = 300
_REMEDIES = {
    400: "correct what is sent",
    401: "correct the credentials in the headers",
    403: "correct the credentials in the headers, or let them do this",
    404: "correct the address",
    405: "correct the method",
    413: "send fewer records in a request (batch_size)",
    415: "correct the header Content-Type",
    422: "correct what is sent",
    429: "send less, or raise the limit of the service",
}


class RequestFailed(Exception):
    """A request was answered with an error, or not at all; the message says which, and what to do."""


class HttpService:
    """Sends requests; one connection is kept open for each thread that does."""

    def __init__(self, headers: Mapping[str, str], tries: int = TRIES) -> None:
        client = urllib3()
        secret = {name.lower() for name in headers} - _HARMLESS
        retry = _patient_retry(client)(
            total=tries - 1, backoff_factor=_PAUSE_S, backoff_max=10.0, status_forcelist=_AGAIN, allowed_methods=None,
            raise_on_status=False, redirect=5,
            remove_headers_on_redirect=client.Retry.DEFAULT_REMOVE_HEADERS_ON_REDIRECT | secret,
        )  # fmt: skip
        timeout = client.Timeout(TIMEOUT_S)
        self._pool = client.PoolManager(maxsize=2, headers=dict(headers), retries=retry, timeout=timeout)
        self._errors = client.exceptions.HTTPError

    def request(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the body of the answer; raises ``RequestFailed`` unless its status is 2xx."""
        answer = self._send(method, url, body, headers)
        if 200 <= answer.status < 300:
            data: bytes = answer.data
            return data
        said = answer.data[:_SHOWN_BODY].decode("utf-8", "replace").strip()
        remedy = _REMEDIES.get(answer.status, "see what the service says")
        raise RequestFailed(f"{method} {shown(url)} was answered with {answer.status} {said!r}; {remedy}.")

    def reach(self, url: str) -> None:
        """Raise ``RequestFailed`` if the service cannot be reached; whatever it answers is good."""
        self._send("OPTIONS", url, None, None)

    def _send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str] | None) -> Any:
        given = None if headers is None else {**self._pool.headers, **headers}
        try:
            return self._pool.request(method, url, body=body, headers=given)
        except self._errors as error:
            why = getattr(error, "reason", None) or error
            raise RequestFailed(
                f"{method} {shown(url)} was not answered ({type(why).__name__}); start the service, or correct the address."
            ) from None  # the client's error has the whole address

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _patient_retry(client: Any) -> Any:
    """Return the client's class of retries, with a bound to what a service may ask a task to wait."""

    class PatientRetry(client.Retry):  # type: ignore[misc]
        def get_retry_after(self, response: Any) -> float | None:
            try:
                asked: float | None = super().get_retry_after(response)
            except client.exceptions.InvalidHeader:
                return None
            return None if asked is None else min(asked, _LONGEST_PAUSE_S)

    return PatientRetry


def urllib3() -> Any:
    """Return the client; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module("urllib3")
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the HTTP connectors need urllib3 ({error}); install it with: pip install 'funken[http]'."
        ) from error


def shown(url: str) -> str:
    """Return an address without what may be secret.

    >>> shown("https://ada:secret@api.example:8443/v1/orders?token=secret")
    'https://api.example:8443/v1/orders'
    """
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def checked(url: str, schemes: tuple[str, ...] = ("http", "https")) -> str:
    """Return an address; raises ``InvalidConfiguration`` if it is none."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in schemes and bool(parts.hostname) and (parts.port or True)
    except ValueError:
        right = False
    if not right:
        raise InvalidConfiguration(
            f"an address begins with {' or '.join(f'{each}://' for each in schemes)} and has a host."
        )
    return url


__all__ = ["HttpService", "RequestFailed", "checked", "shown"]
