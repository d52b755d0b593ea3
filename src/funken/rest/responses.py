"""Responses: JSON, and errors as Flink's REST API has them. Imported with the framework, when a server starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from funken.runtime.job.snapshot import plain

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
