"""Changes of a table as Debezium tells them in JSON: an update is one message, and two records.

The envelope is an object with ``op``, ``before`` and ``after``; where the connector was set to write its schema along, it is
in ``payload``. ``null``, which Debezium sends after a deletion so that Kafka can drop the key, is no record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from funken.connectors.formats.record_types import as_document, from_documents, shape_of
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.types.row import Row, RowKind

_INSERTS = frozenset({"c", "r"})  # created; read in the snapshot


class ChangeRecord(NamedTuple):
    """A row of a table that came, went or was changed; ``kind`` is what happened to it.

    >>> ChangeRecord(RowKind.DELETE, {"id": 7})
    ChangeRecord(kind=<RowKind.DELETE: 3>, value={'id': 7})
    """

    kind: RowKind
    value: Any


@dataclass(frozen=True)
class DebeziumJsonSchema(SerializationSchema, DeserializationSchema):
    """Debezium's change events in JSON as ``ChangeRecord``; rows of the table are dicts, or of ``record_type``.

    A ``Row`` also has the kind itself (``get_row_kind``). A change of PostgreSQL has ``before`` only if the table's replica
    identity is FULL; an update or deletion without it is malformed.

    >>> schema = DebeziumJsonSchema()
    >>> for change in schema.deserialize_all(b'{"op": "u", "before": {"n": 1}, "after": {"n": 2}}'):
    ...     print(change.kind, change.value)
    -U {'n': 1}
    +U {'n': 2}
    >>> schema.serialize(ChangeRecord(RowKind.DELETE, {"n": 2}))
    b'{"before": {"n": 2}, "after": null, "op": "d"}'
    >>> schema.deserialize_all(b'{"op": "d", "before": null}')
    Traceback (most recent call last):
    ...
    ValueError: a change 'd' has no row 'before'; for PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL
    """

    record_type: Any = None
    _make: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is no record type, before the job runs."""
        make = None if self.record_type is None else from_documents(shape_of(self.record_type, "DebeziumJsonSchema"))
        object.__setattr__(self, "_make", make)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.record_type,)

    def deserialize(self, message: bytes) -> Any:
        """Return the last record of a message: of an update, the row as it is now."""
        found = self.deserialize_all(message)
        return found[-1] if found else None

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the one or two records of a message."""
        event = json.loads(message) if message else None
        if isinstance(event, dict) and "op" not in event and "payload" in event:
            event = event["payload"]
        if event is None:
            return []
        if not isinstance(event, dict):
            raise ValueError(f"it is no object, but {type(event).__name__}")
        kind = event.get("op")
        if kind in _INSERTS:
            return [self._change(RowKind.INSERT, event, "after")]
        if kind == "d":
            return [self._change(RowKind.DELETE, event, "before")]
        if kind == "u":
            before = self._change(RowKind.UPDATE_BEFORE, event, "before")
            return [before, self._change(RowKind.UPDATE_AFTER, event, "after")]
        raise ValueError(f"its operation is {kind!r}, not one of 'c', 'r', 'u', 'd'")

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the records of messages."""
        return [record for message in messages for record in self.deserialize_all(message)]

    def _change(self, kind: RowKind, event: dict[str, Any], side: str) -> ChangeRecord:
        row = event.get(side)
        if row is None:
            hint = "; for PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL" if side == "before" else ""
            raise ValueError(f"a change {event['op']!r} has no row {side!r}{hint}")
        value = row if self._make is None else self._make(row)
        if isinstance(value, Row):
            value.set_row_kind(kind)
        return ChangeRecord(kind, value)

    def serialize(self, value: Any) -> bytes:
        """Write a ``ChangeRecord``, or a ``Row`` by its kind: an update as deletion and creation, as Flink does."""
        if isinstance(value, ChangeRecord):
            kind, row = value
        elif isinstance(value, Row):
            kind, row = value.get_row_kind(), value
        else:
            raise TypeError(f"{type(value).__name__} is no change; make ChangeRecord(kind, value) of it in a map first")
        document = as_document(row)
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            return json.dumps({"before": None, "after": document, "op": "c"}).encode()
        return json.dumps({"before": document, "after": None, "op": "d"}).encode()


__all__ = ["ChangeRecord", "DebeziumJsonSchema"]
