"""The OpenAPI document of the server, made from the table of endpoints."""

from __future__ import annotations

from typing import Any

from funken.rest.endpoints import ENDPOINTS, VERSION, Endpoint
from funken.rest.parameters import Parameter

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
