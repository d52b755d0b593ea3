"""Changes of a table as Debezium tells them in JSON: an update is one message, and two records.

The envelope is an object with ``op``, ``before`` and ``after``; where the connector was set to write its schema along, it is
in ``payload``. Then decimals and, for rows of a declared type, dates and times are what that schema says: Debezium writes
decimals as bytes, and times as numbers. ``null``, which Debezium sends after a deletion so that Kafka can drop the key, is no
record.
"""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from funken.connectors.formats.json_schema import documents_by, json_text, parsed
from funken.connectors.formats.json_types import JsonLeaves, Moment, parsed_exactly
from funken.connectors.formats.record_types import as_document, from_documents, shape_of
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.types.row import Row, RowKind

_INSERTS = frozenset({"c", "r"})  # created; read in the snapshot


class ChangeRecord(NamedTuple):
    """A row of a table that came, went or was changed; ``kind`` is the change.

    >>> ChangeRecord(RowKind.DELETE, {"id": 7})
    ChangeRecord(kind=<RowKind.DELETE: 3>, value={'id': 7})
    """

    kind: RowKind
    value: Any


@dataclass(frozen=True)
class DebeziumJsonSchema(SerializationSchema[object], DeserializationSchema[ChangeRecord]):
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
    _document: Callable[[Any], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Reject a type that has no named fields, before the job runs."""
        shape = None
        if self.record_type is not None:
            shape = shape_of(self.record_type, "DebeziumJsonSchema", leaves=JsonLeaves())
        object.__setattr__(self, "_make", None if shape is None else from_documents(shape))
        object.__setattr__(self, "_document", as_document if shape is None else documents_by(shape))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.record_type,)

    def deserialize(self, message: bytes) -> Any:
        """Return the last record of a message: of an update, the row as it is now."""
        found = self.deserialize_all(message)
        return found[-1] if found else None

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the one or two records of a message."""
        event = None if not message else parsed(message) if self._make is None else parsed_exactly(message)
        if isinstance(event, dict) and "op" not in event and "payload" in event:
            event = _by_schema(event.get("schema"), event["payload"], self._make is not None)
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
        """Write a ``ChangeRecord``, or a ``Row`` by its row kind: an update as deletion and creation, as Flink does."""
        if isinstance(value, ChangeRecord):
            kind, row = value
        elif isinstance(value, Row):
            kind, row = value.get_row_kind(), value
        else:
            raise TypeError(f"{type(value).__name__} is no change; make ChangeRecord(kind, value) of it in a map first")
        document = self._document(row)
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            return json_text({"before": None, "after": document, "op": "c"}).encode()
        return json_text({"before": document, "after": None, "op": "d"}).encode()


# ---- values by the schema in the message


_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - Debezium's times have no zone
_KAFKA, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
_MICROS = {
    f"{_KAFKA}Timestamp": 1000, f"{_DEBEZIUM}Timestamp": 1000, f"{_DEBEZIUM}MicroTimestamp": 1,
    f"{_KAFKA}Time": 1000, f"{_DEBEZIUM}Time": 1000, f"{_DEBEZIUM}MicroTime": 1,
}  # fmt: skip
"""Types of numbers, and how many microseconds they count."""
_DAYS = (f"{_KAFKA}Date", f"{_DEBEZIUM}Date")
_VARIABLE = "io.debezium.data.VariableScaleDecimal"


def _by_schema(schema: Any, value: Any, times: bool) -> Any:
    """Return a value of a message as its schema says: decimals; ``times``: dates and times with their text.

    >>> amount = {"field": "n", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    >>> _by_schema({"type": "struct", "fields": [amount]}, {"n": "AJY="}, times=False)
    {'n': Decimal('1.50')}
    """
    if not isinstance(schema, dict) or value is None:
        return value
    kind, name = schema.get("type"), str(schema.get("name"))
    if kind == "bytes" and name == f"{_KAFKA}Decimal" and isinstance(value, str):
        return _unscaled(value, int((schema.get("parameters") or {}).get("scale", 0)))
    if name == _VARIABLE and isinstance(value, dict):
        return _unscaled(value["value"], int(value["scale"]))
    if kind == "struct" and isinstance(value, dict):
        of = {each.get("field"): each for each in schema.get("fields", ()) if isinstance(each, dict)}
        return {key: _by_schema(of.get(key), each, times) for key, each in value.items()}
    if kind == "array" and isinstance(value, list):
        return [_by_schema(schema.get("items"), each, times) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {key: _by_schema(schema.get("values"), each, times) for key, each in value.items()}
    return _time_of(name, value) if times and type(value) is int else value


def _unscaled(text: str, scale: int) -> decimal.Decimal:
    number = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    sign, digits, _ = decimal.Decimal(number).as_tuple()
    return decimal.Decimal((sign, digits, -scale))


def _time_of(name: str, value: int) -> Any:
    """Return a number that is a date or time with its text; any other as it is."""
    try:
        if name in _DAYS:
            return Moment(value, (_EPOCH + datetime.timedelta(days=value)).date().isoformat())
        if name == f"{_DEBEZIUM}NanoTimestamp":
            seconds, nanos = divmod(value, 10**9)
            return Moment(value, f"{(_EPOCH + datetime.timedelta(seconds=seconds)).isoformat()}.{nanos:09d}")
        if name not in _MICROS:
            return value
        at = _EPOCH + datetime.timedelta(microseconds=value * _MICROS[name])
    except OverflowError:
        raise ValueError(f"{value} as {name.rpartition('.')[2]} is beyond the years 1 to 9999") from None
    return Moment(value, at.isoformat() if name.endswith("Timestamp") else at.time().isoformat())
