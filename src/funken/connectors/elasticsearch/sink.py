"""Elasticsearch as a sink: each record becomes one action of the bulk API or several.

At least once: the actions of a block are sent before ``write`` returns, so a checkpoint covers only what the cluster has. After
a failure they are sent again. An action with an id does no harm then: it writes the same document once more. Without an id the
cluster makes one, and the document is there twice. The bulk API has no transactions, so there is no exactly-once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from funken.connectors.context import ConnectorContext
from funken.connectors.elasticsearch.client import BulkClient, ElasticsearchServer, RequestRefused
from funken.connectors.formats.record_types import as_document
from funken.connectors.sink import DeliveryGuarantee, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable

_FULL = frozenset({429, 503})
_NOT_FOUND, _OK = 404, range(200, 300)
_CONFLICTS = 3
_json = msgspec.json.Encoder()


class ActionKind(enum.Enum):
    """What an action does with a document."""

    INDEX = "index"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class BulkAction:
    r"""One action: what is done with which document of which index.

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


Emit = Callable[[Any], "BulkAction | Iterable[BulkAction]"]


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
        document = as_document(record)
        if not isinstance(document, Mapping):
            raise TypeError(f"a {type(record).__name__} has no named fields; make a dict of it in a map() before")
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
class ElasticsearchSink(Sink):
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
    emit: Emit
    max_actions: int = 1000
    max_bytes: int = 5 * 2**20
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
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

    def __init__(self, sink: ElasticsearchSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._client = BulkClient(sink.server)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Send a block."""
        for actions in self._requests(values):
            self._send(actions)
        self.count_sent(len(values))

    def _requests(self, values: Sequence[Any]) -> Iterator[list[tuple[BulkAction, bytes]]]:
        waiting: list[tuple[BulkAction, bytes]] = []
        size = 0
        for value in values:
            for action in self._actions(value):
                lines = self._lines(action, value)
                if waiting and (len(waiting) >= self._sink.max_actions or size + len(lines) > self._sink.max_bytes):
                    yield waiting
                    waiting, size = [], 0
                waiting.append((action, lines))
                size += len(lines)
        if waiting:
            yield waiting

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
    """Return True if an action has nothing left to do: what it deletes is not there, or what it creates is."""
    conflict = 409
    return (action.operation is ActionKind.DELETE and status == _NOT_FOUND) or (
        action.operation is ActionKind.CREATE and action.id is not None and status == conflict
    )


__all__ = ["ActionKind", "BulkAction", "ElasticsearchEmitter", "ElasticsearchSink"]
