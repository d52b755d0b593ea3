"""Elasticsearch and OpenSearch: records as actions of the bulk API, and the requests to a cluster.

Elasticsearch as a sink: each record becomes one action of the bulk API or several.

At least once: the actions of a block are sent before ``write`` returns, so a checkpoint covers only what the cluster has. After
a failure they are sent again. An action with an id does no harm then: it writes the same document once more. Without an id the
cluster makes one, and the document is there twice. The bulk API has no transactions, so there is no exactly-once.
"""

from __future__ import annotations

import enum
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from funken import extras
from funken.connectors.base import ConnectorContext
from funken.connectors.formats.record_types import as_document, named_document
from funken.connectors.sink import DeliveryGuarantee, Sink, SinkWriter, parts
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.types.callables import Generic, T_contra

# ---- Requests to a cluster of Elasticsearch or OpenSearch; the only module of the connector that imports
# ``urllib3``.
#
# The bulk API is the same in Elasticsearch 7 to 9 and OpenSearch, and no client of theirs talks to all of them. A
# request goes to the next host if one cannot be reached, and is repeated where that may help: answers 429, 502, 503
# and 504, connections that fail. Passwords and keys are never shown.


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
    """The cluster did not answer, or answered with an error; the message names the error and the remedy."""


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
    return extras.required("urllib3", "elasticsearch", "the Elasticsearch sink needs urllib3")


_FULL = frozenset({429, 503})
_NOT_FOUND, _OK = 404, range(200, 300)
_CONFLICTS = 3
_json = msgspec.json.Encoder()


class ActionKind(enum.Enum):
    """The effect of an action on a document."""

    INDEX = "index"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class BulkAction:
    r"""One action: an operation on a document of an index.

    >>> BulkAction.index("orders", {"item": "tea"}, id="7").lines()
    b'{"index":{"_index":"orders","_id":"7"}}\n{"item":"tea"}\n'
    >>> BulkAction.delete("orders", id="7").lines()
    b'{"delete":{"_index":"orders","_id":"7"}}\n'
    """

    operation: ActionKind
    target: str
    document: Any = None
    id: str | None = None

    @staticmethod
    def index(index: str, document: Any, id: str | None = None) -> BulkAction:
        """Write a document, in place of the one with its id; without an id the cluster makes one."""
        return BulkAction(ActionKind.INDEX, index, document, id)

    @staticmethod
    def create(index: str, document: Any, id: str | None = None) -> BulkAction:
        """Add a document, as data streams want it; one that is there with this id is left as it is."""
        return BulkAction(ActionKind.CREATE, index, document, id)

    @staticmethod
    def upsert(index: str, document: Any, id: str) -> BulkAction:
        """Change the fields of a document that is there, or write it."""
        return BulkAction(ActionKind.UPDATE, index, document, id)

    @staticmethod
    def delete(index: str, id: str) -> BulkAction:
        """Remove a document; one that is not there is no error."""
        return BulkAction(ActionKind.DELETE, index, None, id)

    def lines(self) -> bytes:
        """Return the lines of the bulk API; raises ``TypeError`` for a document that JSON cannot hold."""
        head: dict[str, Any] = {"_index": self.target}
        if self.id is not None:
            head["_id"] = self.id
        if self.operation is ActionKind.UPDATE:
            head["retry_on_conflict"] = _CONFLICTS
        first = _json.encode({self.operation.value: head}) + b"\n"
        if self.operation is ActionKind.DELETE:
            return first
        document = as_document(self.document)
        if not isinstance(document, Mapping):
            raise TypeError(f"a {type(self.document).__name__} is no document; make a dict of it")
        if self.operation is ActionKind.UPDATE:
            document = {"doc": document, "doc_as_upsert": True}
        return first + _json.encode(document) + b"\n"


@dataclass(frozen=True)
class ElasticsearchEmitter:
    """Makes an action of a record with named fields, as PyFlink's: by the name of the index, or of the field that names it.

    With a ``key_field`` documents are written by its value (an upsert), so a repeated record changes nothing.

    >>> emit = ElasticsearchEmitter.static_index("orders", "number")
    >>> emit({"number": 7, "item": "tea"}).lines().decode().splitlines()[1]
    '{"doc":{"number":7,"item":"tea"},"doc_as_upsert":true}'
    >>> ElasticsearchEmitter.dynamic_index("shop")({"shop": "north", "item": "jam"}).target
    'north'
    """

    name: str
    is_field: bool = False
    key_field: str | None = None

    @staticmethod
    def static_index(index: str, key_field: str | None = None, doc_type: str | None = None) -> ElasticsearchEmitter:
        """Write to one index; ``doc_type`` is PyFlink's, and no server of today has it."""
        return ElasticsearchEmitter(index, False, key_field)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Write to the index that a field of the record names."""
        return ElasticsearchEmitter(index_field, True, key_field)

    def __call__(self, record: Any) -> BulkAction:
        """Return the action of a record."""
        document = named_document(record)
        index = str(self._field(document, self.name)) if self.is_field else self.name
        if self.key_field is None:
            return BulkAction.index(index, document)
        return BulkAction.upsert(index, document, str(self._field(document, self.key_field)))

    @staticmethod
    def _field(document: Mapping[Any, Any], name: str) -> Any:
        value = document.get(name)
        if value is None:
            raise ValueError(
                f"its field {name!r} is {'None' if name in document else 'missing'}, and an action needs it"
            )
        return value


@dataclass(frozen=True)
class ElasticsearchSink(Sink[T_contra], Generic[T_contra]):
    """Writes documents: ``emit(record)`` returns a ``BulkAction`` or several.

    A request has up to ``max_actions`` actions and ``max_bytes`` bytes. Actions for which the cluster has no room are sent again.
    Any other that it refuses fails the job with ``SinkNotWritable``, which names the document and the reason. With
    ``DeliveryGuarantee.NONE`` it is counted instead (``numRecordsSendErrors``) and left out.

    >>> server = ElasticsearchServer(["http://localhost:9200"])
    >>> sink = ElasticsearchSink(server, lambda order: BulkAction.index("orders", order, id=str(order["number"])))
    >>> sink.guarantee
    <DeliveryGuarantee.AT_LEAST_ONCE: 'at-least-once'>
    >>> ElasticsearchSink(server, ElasticsearchEmitter.static_index("orders"), guarantee=DeliveryGuarantee.EXACTLY_ONCE)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: ElasticsearchSink: there is no exactly-once, since the bulk API has no transactions. ...
    """

    server: ElasticsearchServer
    emit: Callable[[T_contra], BulkAction | Iterable[BulkAction]]
    max_actions: int = 1000
    max_bytes: int = 5 * 2**20
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise InvalidConfiguration(
                "ElasticsearchSink: there is no exactly-once, since the bulk API has no transactions. Use AT_LEAST_ONCE and give "
                "documents an id (key_field=): a repeated action then writes the same document."
            )
        for name in ("max_actions", "max_bytes"):
            if getattr(self, name) < 1:
                raise InvalidConfiguration(
                    f"ElasticsearchSink: {name} is {getattr(self, name)}; pass a positive number."
                )

    def check(self) -> None:
        """Reach the cluster, and let it say who it is."""
        client = BulkClient(self.server)
        try:
            client.request("GET", "/")
        except RequestRefused as error:
            raise SinkNotWritable(str(error)) from error
        finally:
            client.close()

    def actions(self, record: Any, operator: str) -> list[BulkAction]:
        """Return the actions of a record; raises ``SinkNotWritable`` if the function returns something else."""
        made = self.emit(record)
        found = [made] if isinstance(made, BulkAction) else list(made) if isinstance(made, Iterable) else [made]
        for each in found:
            if not isinstance(each, BulkAction):
                raise SinkNotWritable(
                    f"operator {operator!r}: the function of the sink returned {each!r} for a record; return BulkAction.index(), "
                    "upsert() or delete(), or a list of them.",
                    operator,
                )
        return found

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return ElasticsearchWriter(self, context)


class ElasticsearchWriter(SinkWriter):
    """Sends the actions of a block, in their order, in requests of bounded size."""

    def __init__(self, sink: ElasticsearchSink[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._client = BulkClient(sink.server)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send a block."""
        most, room = self._sink.max_actions, self._sink.max_bytes
        for actions in parts(self._encoded(values), most, room, lambda action: len(action[1])):
            self._send(actions)
        self.count_sent(len(values))

    def _encoded(self, values: Sequence[Any]) -> Iterator[tuple[BulkAction, bytes]]:
        for value in values:
            for action in self._actions(value):
                yield action, self._lines(action, value)

    def _actions(self, value: Any) -> list[BulkAction]:
        try:
            return self._sink.actions(value, self.context.operator)
        except (TypeError, ValueError) as error:
            if isinstance(self._sink.emit, ElasticsearchEmitter):
                raise self.failure(f"the record {value!r} cannot be written: {error}.") from error
            raise

    def _lines(self, action: BulkAction, value: Any) -> bytes:
        try:
            return action.lines()
        except (TypeError, ValueError, OverflowError) as error:
            raise self.failure(
                f"the record {value!r} cannot be a document of {action.target!r}: {error}; convert it in a map() before."
            ) from error

    def _send(self, actions: list[tuple[BulkAction, bytes]]) -> None:
        """Send actions; those that the cluster had no room for are sent again, in their order."""
        for attempt in range(self._sink.server.retries + 1):
            body = b"".join([lines for _, lines in actions])
            try:
                answer = self._client.request("POST", "/_bulk", body)
            except RequestRefused as error:
                raise self.failure(str(error)) from error
            self.count_sent(0, len(body))
            if not answer.get("errors"):
                return
            actions = self._rejected(actions, answer.get("items") or [])
            if not actions:
                return
            if attempt < self._sink.server.retries:
                self._client.pause(attempt)
        raise self.failure(
            f"{self._sink.server} has no room for {len(actions)} action(s), the first of index {actions[0][0].target!r}, after "
            f"{self._sink.server.retries} retries; send less at a time (max_actions), or give it more."
        )

    def _rejected(
        self, actions: list[tuple[BulkAction, bytes]], items: Sequence[Mapping[str, Any]]
    ) -> list[tuple[BulkAction, bytes]]:
        """Return the actions to be sent again; raise ``SinkNotWritable`` for one that is refused for good."""
        again = []
        for action, item in zip(actions, items, strict=True):
            result = item[action[0].operation.value]
            status, error = int(result["status"]), result.get("error") or {}
            if status in _OK or _is_done(action[0], status):
                continue
            if status in _FULL:
                again.append(action)
            elif self._sink.guarantee is DeliveryGuarantee.NONE:
                self.count_errors(1)
            else:
                name = f"document {action[0].id!r}" if action[0].id is not None else "a document"
                raise self.failure(
                    f"index {action[0].target!r} refuses {name}: {status} {error.get('type')}: {error.get('reason')}. Correct "
                    "the record in a map() before, or the mapping of the index."
                )
        return again

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _is_done(action: BulkAction, status: int) -> bool:
    """Return True if an action has nothing left to do: the document to delete is not there, or the one to create is."""
    conflict = 409
    return (action.operation is ActionKind.DELETE and status == _NOT_FOUND) or (
        action.operation is ActionKind.CREATE and action.id is not None and status == conflict
    )


__all__ = [
    "ActionKind",
    "BulkAction",
    "BulkClient",
    "DeliveryGuarantee",
    "ElasticsearchEmitter",
    "ElasticsearchServer",
    "ElasticsearchSink",
    "RequestRefused",
]
