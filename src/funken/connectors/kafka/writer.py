"""The writers of a Kafka sink.

An exactly-once writer has one open transaction, begun with the first record after a barrier; each has a transactional
id of its own, so that a committable never names anything else. Preparing it is to wait until its records are
acknowledged: then any process can commit it. Transactional producers are made ahead in a thread, because making one
takes several requests.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from itertools import chain
from typing import Any, TypeVar

from funken.columnar.block import Block
from funken.connectors.context import ConnectorContext
from funken.connectors.kafka.client import confluent, message_of
from funken.connectors.kafka.records import ProducerRecord
from funken.connectors.kafka.transactions import PreparedTransaction
from funken.connectors.kafka.transport import SinkSettings
from funken.connectors.sink import DeliveryGuarantee, SinkWriter
from funken.errors import SinkNotWritable

T = TypeVar("T")

logger = logging.getLogger(__name__)

FLUSH_S = 300.0
"""How long a writer waits for acknowledgements."""
OPEN_S = 60.0
_ABORT_S = 5.0
_STATISTICS_MS = 25
_RETENTION_MS = 7 * 24 * 3_600_000
"""How long brokers keep records by default, by the records' own timestamps."""


class KafkaWriter(SinkWriter):
    """Writes records with one producer; waits for acknowledgements at checkpoints, if the guarantee wants it."""

    def __init__(self, sink: SinkSettings, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._who = f"operator {context.operator!r}"
        self._serializer = sink.serializer
        self._plain = sink.serializer.plain
        self._producer: Any = None
        self._sent = 0
        self._delivery_error: Any = None
        self._dated = False

    def open(self) -> None:
        """Make the producer; it connects on its own."""
        self._producer = self._sink.transport.producer(self._properties(), self._who)

    def _properties(self) -> dict[str, Any]:
        callbacks = {"on_delivery": self._on_delivery, "delivery.report.only.error": True, "error_cb": _ignored}
        return {**self._sink.client_properties(), **callbacks}

    def write(self, values: list[Any] | Block, timestamps: Any, now: int) -> None:
        """Hand a block to the client, of records or of columns; waits while its queue is full."""
        if isinstance(values, Block) and timestamps is not None:
            timestamps = timestamps.tolist()
        if not self._dated:
            self._warn_of_old(timestamps)
        try:
            at_once = self._plain or isinstance(values, Block)
            sent = (self._write_block if at_once else self._write_records)(values, timestamps)
            self._producer.poll(0)
        except (confluent().KafkaException, SystemError) as error:
            raise self._rejected(error) from error
        self._sent += sent
        self.count_sent(sent)
        self._raise_delivery_error()

    def _warn_of_old(self, timestamps: list[int] | None) -> None:
        """Say so, once, if the first records are so old that brokers delete them at once."""
        self._dated = True
        oldest = min((at for at in timestamps or () if at > 0), default=None)
        days = 0 if oldest is None else (self.context.processing_time() - oldest) // 86_400_000
        if oldest is not None and days * 86_400_000 >= _RETENTION_MS:
            logger.warning(
                "%s: records are written with their event times, and the first ones are %d days old. Brokers delete what is "
                "older than the topic's retention.ms (by default 7 days) within minutes: set it to -1 or more than that, or "
                "the topic's message.timestamp.type to LogAppendTime.",
                self._who,
                days,
            )

    def _write_block(self, values: Any, timestamps: list[int] | None) -> int:
        produce, serializer = self._producer.produce, self._serializer
        topic, of_values, of_keys = serializer.topic, serializer.value_schema, serializer.key_schema
        columns = isinstance(values, Block)
        messages = of_values.messages_of(values) if columns else of_values.serialize_block(values)
        keys = [None] * len(messages) if of_keys is None else of_keys.messages_of(values)
        for key, message, at in zip(keys, messages, _times(timestamps, len(messages)), strict=True):
            try:
                produce(topic, message, key, timestamp=at)
            except BufferError:
                self._until_room(topic, message, key=key, timestamp=at)
        self.count_sent(0, sum(map(len, filter(None, chain(keys, messages)))))
        return len(messages)

    def _write_records(self, values: Any, timestamps: list[int] | None) -> int:
        produce, serialize, sent, size = self._producer.produce, self._serializer.serialize, 0, 0
        for value, at in zip(values, _times(timestamps, len(values)), strict=True):
            record: ProducerRecord | None = serialize(value)
            if record is None:
                continue
            arguments: dict[str, Any] = {"timestamp": at if record.timestamp is None else record.timestamp}
            if record.key is not None:
                arguments["key"] = record.key
                size += len(record.key)
            if record.partition is not None:
                arguments["partition"] = record.partition
            if record.headers is not None:
                arguments["headers"] = list(record.headers)
            if record.value is not None:
                size += len(record.value)
            sent += 1
            try:
                produce(record.topic, record.value, **arguments)
            except BufferError:
                self._until_room(record.topic, record.value, **arguments)
        self.count_sent(0, size)
        return sent

    def _until_room(self, topic: str, message: bytes | None, **arguments: Any) -> None:
        for _ in range(int(FLUSH_S / 0.1)):
            self._producer.poll(0.1)
            self._raise_delivery_error()
            try:
                self._producer.produce(topic, message, **arguments)
                return
            except BufferError:
                pass
        raise self._failure(f"the brokers have accepted nothing for {FLUSH_S:.0f} s")

    def flush(self, end_of_input: bool) -> None:
        """Wait until everything is acknowledged; with ``NONE`` at the end only."""
        if end_of_input or self._sink.guarantee is not DeliveryGuarantee.NONE:
            self._acknowledged()

    def _acknowledged(self) -> None:
        if self._producer is None:
            return
        try:
            left = self._producer.flush(FLUSH_S)
        except (confluent().KafkaException, SystemError) as error:
            raise self._rejected(error) from error
        self._raise_delivery_error()
        if left:
            raise self._failure(f"the brokers have not acknowledged {left} records within {FLUSH_S:.0f} s")

    def close(self) -> None:
        """Leave the brokers; what is not acknowledged is dropped."""
        self._producer = None

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None and self._delivery_error is None:
            self._delivery_error = error

    def _raise_delivery_error(self) -> None:
        if self._delivery_error is not None:
            raise self._failure(f"a record was not written: {message_of(self._delivery_error)}")

    def _rejected(self, error: BaseException) -> SinkNotWritable:
        """Return the error to raise; a ``SystemError`` is one that the client raised while a callback ran."""
        cause = error.__cause__ if isinstance(error, SystemError) and error.__cause__ is not None else error
        return self._failure(f"the brokers reject what was written: {message_of(cause)}")

    def _failure(self, message: str) -> SinkNotWritable:
        return SinkNotWritable(
            f"{self._who}: {message}; is {self._sink.servers!r} reachable, and may this user write?",
            self.context.operator,
            self.context.subtask,
        )


class _Transaction:
    """A producer with a transactional id, for one transaction."""

    def __init__(self, writer: TransactionalKafkaWriter, transactional_id: str) -> None:
        self.id = transactional_id
        self._identity: dict[str, int] = {}
        properties = {
            **writer.properties,
            "transactional.id": transactional_id,
            # The client tells producer id and epoch in its statistics only.
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": self._on_statistics,
        }
        self.producer = writer.make_producer(properties)

    def initialize(self) -> _Transaction:
        """Get a producer id and an epoch; takes some requests."""
        self.producer.list_topics(timeout=OPEN_S)  # without a connection, init_transactions waits for a timer
        self.producer.init_transactions(OPEN_S)
        for _ in range(int(OPEN_S / 0.05)):
            if self._identity:
                return self
            self.producer.poll(0.05)
        raise SinkNotWritable(f"transactional id {self.id!r} has got no producer id within {OPEN_S:.0f} s")

    def _on_statistics(self, text: str) -> None:
        if not self._identity:
            eos = json.loads(text).get("eos", {})
            if eos.get("producer_id", -1) >= 0:
                self._identity = {"id": eos["producer_id"], "epoch": eos["producer_epoch"]}

    @property
    def prepared(self) -> PreparedTransaction:
        """Return the committable."""
        return PreparedTransaction(self.id, self._identity["id"], self._identity["epoch"])


class TransactionalKafkaWriter(KafkaWriter):
    """Writes in transactions: one per checkpoint in which there were records."""

    def __init__(self, sink: SinkSettings, context: ConnectorContext) -> None:
        super().__init__(sink, context)
        self._transaction: _Transaction | None = None
        self._next: Future[_Transaction] | None = None
        self._number = 0
        self._since = 0
        self._ids = f"{sink.ids_of(context.operator_uid or context.operator)}{context.subtask}/{secrets.token_hex(4)}/"

    @property
    def properties(self) -> dict[str, Any]:
        """Return the properties of its producers."""
        return self._properties()

    def make_producer(self, properties: dict[str, Any]) -> Any:
        """Make a producer."""
        return self._sink.transport.producer(properties, self._who)

    def open(self) -> None:
        """Begin to make the first producer."""
        self._make_next()

    def _make_next(self) -> None:
        self._number += 1
        transactional_id = f"{self._ids}{self._number}"
        self._next = _in_background(lambda: _Transaction(self, transactional_id).initialize())

    def write(self, values: list[Any] | Block, timestamps: Any, now: int) -> None:
        """Hand a block to the open transaction; begin one if there is none."""
        if self._transaction is None:
            self._begin()
        super().write(values, timestamps, now)

    def _begin(self) -> None:
        assert self._next is not None
        try:
            self._transaction = self._next.result(2 * OPEN_S)
            self._transaction.producer.begin_transaction()
        except NotInTime:
            raise self._failure(f"no transaction could be begun within {2 * OPEN_S:.0f} s") from None
        except confluent().KafkaException as error:
            raise self._failure(f"no transaction can be begun: {message_of(error)}") from error
        self._producer, self._sent = self._transaction.producer, 0
        self._since = self.context.processing_time()
        self._make_next()

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Return the transaction, whose records are acknowledged by ``flush``; nothing if it has none.

        A transaction without records is not known to the coordinator: it stays open for the records to come. One that has
        expired fails the attempt here: were it in a complete checkpoint, its records would be lost.
        """
        done, now = self._transaction, self.context.processing_time()
        if done is None or not self._sent:
            self._since = now
            return []
        if now - self._since >= self._sink.transaction_timeout:
            raise SinkNotWritable(
                f"{self._who}: the transaction of checkpoint {checkpoint_id} was open for {now - self._since} ms, and the "
                f"brokers abort it after {self._sink.transaction_timeout} (transaction.timeout.ms), so it is written again from "
                "the checkpoint before; if this repeats, set a longer timeout, or find what delays the checkpoints",
                self.context.operator,
                self.context.subtask,
            )
        self._transaction = self._producer = None
        _in_background(lambda: _drop(done))
        return [tuple(done.prepared)]

    def close(self) -> None:
        """Abort the open transaction; what is prepared stays as it is."""
        open_one, self._transaction, self._producer = self._transaction, None, None
        if open_one is not None:  # also where a block was written in part, which ``_sent`` does not count
            try:
                open_one.producer.abort_transaction(_ABORT_S)
            except (confluent().KafkaException, SystemError):
                pass  # a later attempt has fenced it, or will


def _in_background(work: Callable[[], T]) -> Future[T]:
    """Run work in a thread that does not keep the process from ending: without brokers it takes a minute."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            result.set_exception(error)

    threading.Thread(target=run, name="funken-kafka-producer", daemon=True).start()
    return result


def _drop(transaction: _Transaction) -> None:
    """Close a producer: neither commits nor aborts."""
    transaction.producer = None


def _times(timestamps: list[int] | None, count: int) -> list[int]:
    """Return timestamps for the client, to which 0 means now."""
    return [0] * count if timestamps is None else [at if at > 0 else 0 for at in timestamps]


def _ignored(error: Any) -> None:
    """The client reports an error: what matters is raised by its methods."""


__all__ = ["KafkaWriter", "TransactionalKafkaWriter"]
