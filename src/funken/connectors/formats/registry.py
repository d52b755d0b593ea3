"""A client of Confluent's schema registry (its HTTP API), and messages that name their schema by its id.

Such a message is a zero byte, the schema's id in four bytes, and the payload. A schema never changes under its id, so what was
asked for once is kept. The client is part of a schema's description: it is pickled without connection or cache, and asks in
the tasks, once per id. A registry that does not answer is asked again, a bounded number of times.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import field
from typing import Any
from urllib.parse import quote, urlsplit

from funken.connectors.formats.avro_schema import AvroSchema, parsed
from funken.connectors.formats.json_schema import JsonSchema
from funken.connectors.formats.protobuf_schema import ProtobufSchema, place_of, without_place
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SchemaRegistryFailed
from funken.types.callables import DOC_co, Generic, T_co
from funken.types.info import TypeOf

_TYPE = "application/vnd.schemaregistry.v1+json"
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_REMEDIES = {
    401: "pass the right user and password",
    403: "allow this user to read, and to register where messages are written",
    404: "register the schema, or correct its subject and the address of the registry",
    409: "the new schema is incompatible with the registered one; change it, or the subject's compatibility",
    422: "correct the schema",
}


@dataclass(frozen=True)
class SchemaRegistryClient:
    """Reads and registers schemas at ``url``; several addresses may be separated by commas, they are tried in turn.

    ``user`` and ``password`` are sent as HTTP basic authentication, or ``token`` as a bearer's; they are never printed.
    ``ca_file`` trusts another authority for TLS, ``certificate_file`` and ``key_file`` identify this client. ``timeout`` is in
    seconds, for each of ``tries``. Raises ``InvalidConfiguration`` for an address that is not of HTTP,
    ``SchemaRegistryFailed`` for failed requests.

    >>> client = SchemaRegistryClient("https://registry:8081", user="ada", password="secret")
    >>> client
    SchemaRegistryClient(url='https://registry:8081', user='ada', ca_file=None)
    >>> SchemaRegistryClient("registry:8081")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: 'registry:8081' is no address of a schema registry; write http://host:port or
    https://host:port.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = field(default=None, repr=False)
    key_file: str | None = field(default=None, repr=False)
    timeout: float = field(default=10.0, repr=False)
    tries: int = field(default=3, repr=False)
    token: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    _schemas: dict[int, str] = field(init=False, repr=False, compare=False)
    _ids: dict[tuple[str, str], int] = field(init=False, repr=False, compare=False)
    _pause: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse addresses that cannot work, and passwords that everybody on the way could read in an address."""
        for address in self.url.split(","):
            parts = urlsplit(address.strip())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                shown = address.rpartition("@")[2]
                raise InvalidConfiguration(
                    f"{shown!r} is no address of a schema registry; write http://host:port or https://host:port."
                )
            if parts.username or parts.password:
                raise InvalidConfiguration(
                    "the address of a schema registry has a password in it; pass user and password."
                )
        object.__setattr__(self, "_schemas", {})
        object.__setattr__(self, "_ids", {})
        object.__setattr__(self, "_pause", threading.Event())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.url, self.user, self.password, self.ca_file, self.certificate_file, self.key_file, self.timeout, self.tries,
            self.token, self.key_password,
        )  # fmt: skip

    def schema(self, schema_id: int) -> str:
        """Return the schema of an id."""
        found = self._schemas.get(schema_id)
        if found is None:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}")
            found = self._schemas[schema_id] = str(answer["schema"])
        return found

    def register(self, subject: str, schema: str, schema_type: str = "AVRO") -> int:
        """Return the id of a schema under a subject, and register it if it is new."""
        found = self._ids.get((subject, schema))
        if found is None:
            document = {"schema": schema} if schema_type == "AVRO" else {"schema": schema, "schemaType": schema_type}
            answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", document)
            found = self._ids[subject, schema] = int(answer["id"])
        return found

    def latest(self, subject: str) -> tuple[int, str]:
        """Return the id and the text of a subject's newest schema; asked anew each time."""
        answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        return int(answer["id"]), str(answer["schema"])

    def _ask(self, method: str, path: str, document: Any = None) -> Any:
        addresses = [address.strip().rstrip("/") for address in self.url.split(",")]
        last: Exception | None = None
        for attempt in range(max(1, self.tries) * len(addresses)):
            if attempt and attempt % len(addresses) == 0:
                self._pause.wait(min(0.1 * 2 ** (attempt // len(addresses)), 2.0))
            address = addresses[attempt % len(addresses)]
            try:
                return self._request(method, address + path, document)
            except urllib.error.HTTPError as error:
                with error:  # it is the answer too, and has a connection
                    if error.code not in _TRANSIENT:
                        raise self._refused(method, address + path, error) from None
                last = error
            except (OSError, http.client.HTTPException, ValueError) as error:
                last = error
        raise SchemaRegistryFailed(
            f"the schema registry {self.url} does not answer {method} {path} ({last}); start it, or correct its address."
        ) from last

    def _request(self, method: str, url: str, document: Any) -> Any:
        headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        if self.user is not None:
            credentials = f"{self.user}:{self.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
        elif self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        handlers: list[Any] = [_NoRedirects()]  # an answer from elsewhere would get the password
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=self._tls()))
        with urllib.request.build_opener(*handlers).open(request, timeout=self.timeout) as answer:
            return json.load(answer)

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        return context

    def _refused(self, method: str, url: str, error: urllib.error.HTTPError) -> SchemaRegistryFailed:
        try:
            reason = json.load(error).get("message", "")
        except (ValueError, AttributeError, OSError):
            reason = ""
        remedy = _REMEDIES.get(error.code, "see the registry's log")
        failure = SchemaRegistryFailed(
            f"the schema registry refuses {method} {url}: {error.code} {reason or error.reason}; {remedy}."
        )
        failure.status = error.code
        return failure


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow none: the answer is an error then."""


def framed(schema_id: int, payload: bytes) -> bytes:
    r"""Put the id of a schema before a payload.

    >>> framed(7, b"tea")
    b'\x00\x00\x00\x00\x07tea'
    """
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def unframed(message: bytes) -> tuple[int, bytes]:
    r"""Return the id of a message's schema and its payload; raises ``ValueError`` for a message without.

    >>> unframed(b"\x00\x00\x00\x00\x07tea")
    (7, b'tea')
    """
    if len(message) < 5 or message[0] != 0:
        raise ValueError(
            "it does not begin with a zero byte and the id of a schema, as messages of a schema registry do"
        )
    return int.from_bytes(message[1:5], "big"), message[5:]


class _Named(SerializationSchema[object], DeserializationSchema[T_co], Generic[T_co]):
    """Messages that name the schema which they were written with."""

    registry: SchemaRegistryClient
    subject: str | None
    schema: str | None
    auto_register: bool
    _written: list[tuple[int, str]]

    def _written_with(self, schema_type: str) -> tuple[int, str]:
        """Return the id and the schema that messages are written with; the registry is asked once."""
        if not self._written:
            if self.subject is None or (self.schema is None and self.auto_register):
                raise InvalidConfiguration(f"{type(self).__name__} writes under a subject with a schema; pass both.")
            if self.auto_register:
                assert self.schema is not None
                self._written.append((self.registry.register(self.subject, self.schema, schema_type), self.schema))
            else:
                self._written.append(self.registry.latest(self.subject))
        return self._written[0]

    def serialize(self, value: Any) -> bytes:
        """Write a record."""
        return self.serialize_block((value,))[0]


@dataclass(frozen=True)
class ConfluentAvroSchema(_Named[DOC_co], Generic[DOC_co]):
    """Avro records whose schema is in a registry; each message names that which it was written with.

    ``schema`` is what records are read as (without it, as they were written) and written with, under ``subject``; for a topic
    that is by convention ``<topic>-value`` or ``<topic>-key``. ``record_type`` is as in ``AvroSchema``. With
    ``auto_register=False`` the schema has to be registered already: the newest of the subject is written with.

    >>> schema = ConfluentAvroSchema(SchemaRegistryClient("http://registry:8081"), subject="sales-value", schema='"string"')
    >>> schema.deserialize(b"tea")
    Traceback (most recent call last):
    ...
    ValueError: it does not begin with a zero byte and the id of a schema, as messages of a schema registry do
    """

    registry: SchemaRegistryClient
    subject: str | None = None
    schema: str | None = None
    record_type: TypeOf[DOC_co] | None = None
    auto_register: bool = True
    _readers: dict[int, AvroSchema[DOC_co]] = field(init=False, repr=False, compare=False)
    _writer: list[AvroSchema] = field(init=False, repr=False, compare=False)
    _written: list[tuple[int, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse objects that are no schema, before the job runs."""
        if self.schema is not None:
            parsed(self.schema)
        object.__setattr__(self, "_readers", {})
        object.__setattr__(self, "_writer", [])
        object.__setattr__(self, "_written", [])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.registry, self.subject, self.schema, self.record_type, self.auto_register)

    def deserialize(self, message: bytes) -> Any:
        """Read a record by the schema that it names."""
        schema_id, payload = unframed(message)
        reader = self._readers.get(schema_id)
        if reader is None:
            try:
                written = self.registry.schema(schema_id)
            except SchemaRegistryFailed as failure:
                if failure.status == 404:  # the message is malformed, for the registry works
                    raise ValueError(f"its schema {schema_id} is not in the registry") from None
                raise
            reader = AvroSchema(self.schema or written, self.record_type, written if self.schema else None)
            self._readers[schema_id] = reader
        return reader.deserialize(payload)

    def serialize_block(self, values: Sequence[Any]) -> list[bytes]:
        """Write records."""
        schema_id, schema = self._written_with("AVRO")
        if not self._writer:
            self._writer.append(AvroSchema(schema))
        return [framed(schema_id, payload) for payload in self._writer[0].serialize_block(values)]


@dataclass(frozen=True)
class ConfluentJsonSchema(_Named[DOC_co], Generic[DOC_co]):
    r"""JSON documents whose JSON Schema is in a registry; ``record_type`` is as in ``JsonSchema``.

    ``schema``, ``subject`` and ``auto_register`` are as in ``ConfluentAvroSchema``, for writing. Documents are not validated: a
    schema tells people and other systems what they may expect, and reading asks no registry.

    >>> schema = ConfluentJsonSchema(SchemaRegistryClient("http://registry:8081"))
    >>> schema.deserialize(framed(7, b'{"item": "tea"}'))
    {'item': 'tea'}
    """

    registry: SchemaRegistryClient
    subject: str | None = None
    schema: str | None = None
    record_type: TypeOf[DOC_co] | None = None
    auto_register: bool = True
    _inner: JsonSchema = field(init=False, repr=False, compare=False)
    _written: list[tuple[int, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse text that is no JSON, before the job runs."""
        if self.schema is not None:
            try:
                json.loads(self.schema)
            except ValueError as error:
                raise InvalidConfiguration(
                    f"ConfluentJsonSchema: the schema is no JSON ({error}); correct it."
                ) from None
        object.__setattr__(self, "_inner", JsonSchema(self.record_type))
        object.__setattr__(self, "_written", [])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.registry, self.subject, self.schema, self.record_type, self.auto_register)

    def deserialize(self, message: bytes) -> Any:
        """Read a document."""
        return self._inner.deserialize(unframed(message)[1])

    def serialize_block(self, values: Sequence[Any]) -> list[bytes]:
        """Write documents."""
        schema_id, _ = self._written_with("JSON")
        return [framed(schema_id, payload) for payload in self._inner.serialize_block(values)]


@dataclass(frozen=True)
class ConfluentProtobufSchema(_Named[T_co], Generic[T_co]):
    r"""Protocol buffers whose ``.proto`` text is in a registry; ``message`` and ``record_type`` are as in ``ProtobufSchema``.

    ``schema`` (the text of the file that declares the message), ``subject`` and ``auto_register`` are as in
    ``ConfluentAvroSchema``, for writing. Messages are read by the class alone, which may be older or newer than their schema.
    Which message of the file it is stands before the payload, and is not compared.

    >>> from google.protobuf.source_context_pb2 import SourceContext  # stands for a class that protoc generated
    >>> schema = ConfluentProtobufSchema(SchemaRegistryClient("http://registry:8081"), SourceContext)
    >>> schema.deserialize(framed(7, b"\x00\n\x03tea")).file_name
    'tea'
    """

    registry: SchemaRegistryClient
    message: Any
    subject: str | None = None
    schema: str | None = None
    record_type: TypeOf[T_co] | None = None
    auto_register: bool = True
    _inner: ProtobufSchema = field(init=False, repr=False, compare=False)
    _written: list[tuple[int, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse classes that are no message, before the job runs."""
        object.__setattr__(self, "_inner", ProtobufSchema(self.message, self.record_type))
        object.__setattr__(self, "_written", [])

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_protobuf, (self._inner, self.registry, self.subject, self.schema, self.auto_register)

    def deserialize(self, message: bytes) -> Any:
        """Read a message."""
        return self._inner.deserialize(without_place(unframed(message)[1]))

    def serialize_block(self, values: Sequence[Any]) -> list[bytes]:
        """Write messages."""
        place = place_of(getattr(self.message, "DESCRIPTOR", self.message))
        schema_id, _ = self._written_with("PROTOBUF")
        return [framed(schema_id, place + payload) for payload in self._inner.serialize_block(values)]


def _with_protobuf(inner: ProtobufSchema, registry: Any, subject: Any, schema: Any, auto_register: bool) -> Any:
    return ConfluentProtobufSchema(registry, inner.message, subject, schema, inner.record_type, auto_register)
