"""Topics as a sink: PyFlink's ``KafkaSink`` and its builder, with three guarantees.

``NONE`` writes and waits for nothing. ``AT_LEAST_ONCE`` waits at each checkpoint until the brokers have acknowledged
everything. ``EXACTLY_ONCE`` writes each checkpoint's records in one transaction per subtask, which is prepared at the
barrier and committed when the checkpoint is complete (``TransactionalKafkaWriter``, ``KafkaCommitter``).
"""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import field, replace
from itertools import chain
from typing import Any

from funken.columnar.block import Block
from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.kafka.client import (
    REQUEST_TIMEOUT_S,
    LastError,
    checked_servers,
    client_properties,
    cluster_of,
    confluent,
    made,
    message_of,
)
from funken.connectors.kafka.connection import (
    CONCURRENT_TRANSACTIONS,
    NOT_ALLOWED,
    RETRIABLE,
    BrokerTransactionAdmin,
    OpenTransaction,
    PreparedTransaction,
    Security,
    error_name,
)
from funken.connectors.kafka.reader import KafkaRecordSerializationSchema, ProducerRecord
from funken.connectors.schemas import check_schema, of_funken
from funken.connectors.sink import CommitOutcome, CommitRequest, Committer, DeliveryGuarantee, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.io.threads import in_daemon
from funken.timing.clock import SystemClock
from funken.types.callables import Generic, S, T_contra

# ---- What a Kafka sink is made of, and what it reaches the brokers through: below its writers and its committer,
# which use both.


TRANSACTION_TIMEOUT_MS = 3_600_000
"""As in Flink: the brokers' maximum (15 min by default) has to be raised, or this lowered."""


@dataclass(frozen=True)
class Transport:
    """The connection of writers and committers to the brokers; the tests have one without brokers."""

    def producer(self, properties: Mapping[str, Any], who: str) -> Any:
        """Make a producer."""
        return made(confluent().Producer, properties, who)

    def transactions(self, servers: str, properties: Mapping[str, Any]) -> BrokerTransactionAdmin:
        """Return the committer of transactions of other processes."""
        return BrokerTransactionAdmin(servers, properties)

    def leaders(self, settings: SinkSettings, topic: str) -> dict[tuple[str, int], list[int]]:
        """Return the leaders of the partitions of a topic; an ``OSError`` if they are not known."""
        kafka = confluent()
        properties = _connecting(settings.client_properties()) | {"bootstrap.servers": settings.servers}
        admin = made(confluent("confluent_kafka.admin").AdminClient, properties, "Kafka sink")
        try:
            cluster = admin.list_topics(topic, timeout=REQUEST_TIMEOUT_S)
        except kafka.KafkaException as error:
            raise ConnectionError(message_of(error)) from error
        found: dict[tuple[str, int], list[int]] = {}
        for number, partition in cluster.topics[topic].partitions.items():
            if partition.leader not in cluster.brokers:
                raise ConnectionError(f"partition {number} of topic {topic!r} has no leader")
            leader = cluster.brokers[partition.leader]
            found.setdefault((leader.host, leader.port), []).append(number)
        return found

    def check(self, settings: SinkSettings) -> None:
        """Raise if the brokers cannot be reached, or lack an ability that the sink needs."""
        _BrokerCheck(settings).run()

    def pause(self, seconds: float) -> None:
        """Wait before a request is repeated."""
        time.sleep(seconds)


@dataclass(frozen=True)
class SinkSettings:
    """The fields of a Kafka sink."""

    servers: str = ""
    serializer: Any = None
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    transactional_id_prefix: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be passwords in it
    transport: Transport = field(default=Transport(), repr=False, compare=False)

    @property
    def transaction_timeout(self) -> int:
        """Return the time limit of a transaction (ms), from its first record to its commit."""
        return int(self.properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))

    def ids_of(self, operator: str) -> str:
        """Return the beginning of the transactional ids of an operator (its uid, else its name)."""
        return f"{self.transactional_id_prefix}/{operator}/"

    def client_properties(self) -> dict[str, Any]:
        """Return the properties of a producer."""
        own = {"linger.ms": "5", **self.properties, "bootstrap.servers": self.servers}
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return own | {"transaction.timeout.ms": str(self.transaction_timeout)}
        own.pop("transaction.timeout.ms", None)
        if self.guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            return {"enable.idempotence": "true", **own}
        return own


def _connecting(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that are about connections."""
    return {
        key: value for key, value in properties.items() if key.startswith(("security.", "ssl.", "sasl.", "enable.ssl"))
    }


class _BrokerCheck:
    """Asks the brokers, before anything runs."""

    def __init__(self, sink: SinkSettings) -> None:
        self._sink = sink
        self._last_error = LastError("Kafka sink")

    def run(self) -> None:
        sink, kafka = self._sink, confluent()
        admin_module = confluent("confluent_kafka.admin")
        # A producer knows all properties of the sink; one without a transactional id connects to nothing but brokers.
        own = {key: value for key, value in sink.client_properties().items() if key != "transaction.timeout.ms"}
        made(kafka.Producer, own, "Kafka sink")
        connect = {**_connecting(own), "bootstrap.servers": sink.servers, "error_cb": self._last_error}
        admin = made(admin_module.AdminClient, connect, "Kafka sink")
        try:
            cluster = cluster_of(admin, REQUEST_TIMEOUT_S, sink.servers, self._last_error, "Kafka sink")
        except kafka.KafkaException as error:
            raise SinkNotWritable(
                f"Kafka sink: no broker of {sink.servers!r} answers: {message_of(error)}{self._last_error.because}; start one, "
                "or correct set_bootstrap_servers(), the credentials or the security.protocol."
            ) from error
        settings = self._settings(admin, admin_module, kafka, str(next(iter(cluster.brokers), "")))
        self._check_topic(cluster.topics, settings.get("auto.create.topics.enable") != "false")
        limit = settings.get("transaction.max.timeout.ms")
        if sink.guarantee is DeliveryGuarantee.EXACTLY_ONCE and limit and sink.transaction_timeout > int(limit):
            raise SinkNotWritable(
                f"Kafka sink: transaction.timeout.ms is {sink.transaction_timeout}, but the brokers allow {limit} "
                "(transaction.max.timeout.ms); raise theirs, or set_property('transaction.timeout.ms', ...) to less. It has to "
                "exceed the time between checkpoints and the longest time that the job may be down."
            )

    @staticmethod
    def _settings(admin: Any, module: Any, kafka: Any, broker: str) -> dict[str, str]:
        """Return the settings of a broker; nothing if this user may not see them."""
        resource = module.ConfigResource(module.ResourceType.BROKER, broker)
        try:
            [found] = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
            return {name: entry.value for name, entry in found.result(REQUEST_TIMEOUT_S).items()}
        except (kafka.KafkaException, TimeoutError):
            return {}

    def _check_topic(self, topics: Mapping[str, Any], created: bool) -> None:
        name = self._sink.serializer.topic
        if not isinstance(name, str) or not name or created or name in topics:
            return
        near = difflib.get_close_matches(name, topics, 3)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise SinkNotWritable(
            f"Kafka sink: topic {name!r} does not exist at {self._sink.servers!r}, and the brokers make none by themselves; "
            f"create it, or correct the name.{hint}"
        )


# ---- The writers of a Kafka sink.
#
# An exactly-once writer has one open transaction, begun with the first record after a barrier; each has a
# transactional id of its own, so that a committable never names anything else. Preparing it is to wait until its
# records are acknowledged: then any process can commit it. Transactional producers are made ahead in a thread,
# because making one takes several requests.


logger = logging.getLogger(__name__)

FLUSH_S = 300.0
"""A writer's longest wait (s) for acknowledgements."""
OPEN_S = 60.0
_ABORT_S = 5.0
_STATISTICS_MS = 25
_RETENTION_MS = 7 * 24 * 3_600_000
"""The brokers' default retention of records (ms), by the records' own timestamps."""


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
        """Leave the brokers; unacknowledged messages are dropped."""
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
        return self._failure(f"the brokers reject the written records: {message_of(cause)}")

    def _failure(self, message: str) -> SinkNotWritable:
        return self.failure(f"{message}; is {self._sink.servers!r} reachable, and may this user write?")


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
        try:
            self.producer.list_topics(timeout=OPEN_S)  # without a connection, init_transactions waits for a timer
            self.producer.init_transactions(OPEN_S)
            for _ in range(int(OPEN_S / 0.05)):
                if self._identity:
                    return self
                self.producer.poll(0.05)
            raise SinkNotWritable(f"transactional id {self.id!r} has got no producer id within {OPEN_S:.0f} s")
        except BaseException:
            _drop(self)
            raise

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
        self._next = in_daemon("funken-kafka-producer", lambda: _Transaction(self, transactional_id).initialize())

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
            raise self.failure(
                f"the transaction of checkpoint {checkpoint_id} was open for {now - self._since} ms, and the "
                f"brokers abort it after {self._sink.transaction_timeout} (transaction.timeout.ms), so it is written again from "
                "the checkpoint before; if this repeats, set a longer timeout, or find the cause of late checkpoints"
            )
        self._transaction = self._producer = None
        in_daemon("funken-kafka-producer", lambda: _drop(done))
        return [tuple(done.prepared)]

    def close(self) -> None:
        """Abort the open transaction; prepared ones stay as they are."""
        open_one, self._transaction, self._producer = self._transaction, None, None
        if open_one is not None:  # also where a block was written in part, which ``_sent`` does not count
            with contextlib.suppress(confluent().KafkaException, SystemError):  # a later attempt has fenced it, or will
                open_one.producer.abort_transaction(_ABORT_S)
            _drop(open_one)
        unused, self._next = self._next, None
        if unused is not None:
            in_daemon("funken-kafka-producer", lambda: _drop(unused.result()))


def _drop(transaction: _Transaction) -> None:
    """Close a producer, which its callbacks would keep: neither commits nor aborts."""
    transaction.producer = None


def _times(timestamps: list[int] | None, count: int) -> list[int]:
    """Return timestamps for the client, to which 0 means now."""
    return [0] * count if timestamps is None else [at if at > 0 else 0 for at in timestamps]


def _ignored(error: Any) -> None:
    """The client reports an error: the ones that matter are raised by its methods."""


# ---- The committer of an exactly-once Kafka sink, on the driver.
#
# At a recovery it commits what the checkpoint names, and then aborts and fences what else bears the sink's prefix:
# transactions of writers whose checkpoint was never completed. Until that is done no writer runs.


_TRIES, _PAUSE_S, _RECOVERY_S = 100, 0.3, 60.0
_SETTLES, _SETTLE_S = 100, 0.02
_COMMITTED = ("CompleteCommit", "PrepareCommit")


class KafkaCommitter(Committer):
    """Ends transactions that writers, perhaps of processes that are gone, have prepared."""

    def __init__(self, sink: SinkSettings, context: CommitterContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._who = f"operator {context.operator!r}"
        self._admin: BrokerTransactionAdmin
        self._opened = False
        self._prefix = sink.ids_of(context.operator_uid or context.operator)
        self._mine = re.compile(re.escape(self._prefix) + r"\d+/[0-9a-f]{8}/\d+").fullmatch

    def open(self) -> None:
        """Compare the timeout of transactions with the time between checkpoints."""
        interval, timeout = self.context.checkpoint_interval, self._sink.transaction_timeout
        if interval is not None and timeout <= interval:
            raise InvalidConfiguration(
                f"{self._who}: transactions of the Kafka sink expire after {timeout} ms (transaction.timeout.ms), but "
                f"checkpoints are {interval} ms apart, so none would be committed in time; set a longer timeout or a shorter "
                "interval."
            )
        self._admin = self._sink.transport.transactions(self._sink.servers, self._sink.client_properties())
        self._opened = True

    def close(self) -> None:
        """Close the connections; also if ``open`` has raised."""
        if self._opened:
            self._admin.close()

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit transactions; one that is committed already is committed again without effect."""
        for request in requests:
            self._commit(request, PreparedTransaction(*request.committable))
        done = [each for each in requests if each.outcome not in (CommitOutcome.RETRY_LATER, CommitOutcome.FAILED)]
        for request in done:
            self._settle(request, PreparedTransaction(*request.committable).transactional_id)
        if any(request.retries for request in done):  # brokers were away, and may have forgotten something
            reason = self._without_markers()
            for request in done if reason else ():
                request.retry_later(reason)

    def _settle(self, request: CommitRequest, name: str) -> None:
        """Wait a little until the markers are written: who is asked until then has not been killed before."""
        try:
            for _ in range(_SETTLES):
                if self._admin.describe(name).state != "PrepareCommit":
                    return
                self._sink.transport.pause(_SETTLE_S)
        except OSError as error:
            request.retry_later(f"the coordinator of {name!r} has not answered that all is written: {error}")

    def _commit(self, request: CommitRequest, transaction: PreparedTransaction) -> None:
        try:
            code = self._admin.end(transaction, commit=True)
            if code in RETRIABLE and code != CONCURRENT_TRANSACTIONS:
                request.retry_later(f"the coordinator of {transaction.transactional_id!r} says {error_name(code)}")
            elif code:
                self._rejected(request, transaction, code)
        except OSError as error:
            request.retry_later(f"the coordinator of {transaction.transactional_id!r} does not answer: {error}")

    def _rejected(self, request: CommitRequest, transaction: PreparedTransaction, code: int) -> None:
        """The coordinator rejects the commit: it was committed before, is lost, or can be tried again.

        One that was committed and is still being written into its partitions is rejected as concurrent, and nothing can undo it.
        """
        now = self._admin.describe(transaction.transactional_id)
        if now.state in _COMMITTED and (now.producer_id, now.epoch) == transaction[1:]:
            request.already_committed()
            return
        if now.state == "Ongoing" and (now.producer_id, now.epoch) == transaction[1:]:  # as it was: nothing is lost
            request.retry_later(f"the coordinator of {transaction.transactional_id!r} says {error_name(code)}")
            return
        request.failed(
            f"transaction {transaction.transactional_id!r} (producer {transaction.producer_id}, epoch {transaction.epoch}) "
            f"cannot be committed ({error_name(code)}; it is {now.state or 'unknown'}, producer {now.producer_id}, epoch "
            f"{now.epoch}), so its records are lost. Did it expire (transaction.timeout.ms), did another job with this "
            "transactional id prefix abort it, or is the checkpoint older than what the brokers remember "
            "(transactional.id.expiration.ms)? Set a timeout that exceeds the longest outage, and start from an earlier "
            "checkpoint or savepoint, if its sources still have the records"
        )

    def recover(self, requests: Sequence[CommitRequest]) -> None:
        """Commit the transactions of the checkpoint, then abort and fence all other transactions of the sink."""
        self.commit(requests)
        named = {PreparedTransaction(*request.committable).transactional_id for request in requests}
        clock = SystemClock()
        # Bounded well below sink.committer.timeout: a recovery that outlives its attempt would fence the writers of the next.
        end = clock.monotonic() + _RECOVERY_S
        reason, fenced = "", False
        for _ in range(_TRIES):
            if not fenced:
                left, reason = self._lingering(named, lambda: clock.monotonic() >= end)
                fenced = not left and not reason
            if fenced:
                reason = self._without_markers()
                if not reason:
                    return
            if clock.monotonic() >= end:
                break
            self._sink.transport.pause(_PAUSE_S)
        raise self.failure(
            f"transactions of an earlier attempt cannot be aborted ({reason}); is {self._sink.servers!r} "
            "well, and may this user describe and write transactional ids with the prefix?"
        )

    def _lingering(self, named: set[str], late: Callable[[], bool] = lambda: False) -> tuple[int, str]:
        """Fence transactions of the sink that are not named; return the number of failures, and the reason.

        Open transactions are found again until they are aborted; ids that were only initialized are fenced once.
        """
        left, reason = 0, ""
        try:
            for transactional_id, state in self._admin.in_states(["Ongoing", "Empty"], self._prefix).items():
                if transactional_id in named or not self._mine(transactional_id):
                    continue
                if late():
                    return left + 1, reason or "the brokers answer too slowly"
                code = self._admin.fence(transactional_id)
                if code:
                    left, reason = left + 1, f"{transactional_id!r}: {error_name(code)}"
                elif state == "Ongoing":
                    logger.info("%s: aborted transaction %r of an earlier attempt", self._who, transactional_id)
        except OSError as error:
            return left + 1, str(error)
        return left, reason

    def _without_markers(self) -> str:
        """Write the markers of transactions that their coordinator has forgotten; return the remaining work.

        A broker that is killed between a commit and its markers, and started again, may take the partitions for deleted (Kafka
        4.3): then the transaction is complete, and in the partitions it stays open, with all that comes behind it.
        """
        topic = self._sink.serializer.topic
        if not isinstance(topic, str) or not topic:
            return ""
        reason = ""
        try:
            for leader, partitions in self._sink.transport.leaders(self._sink, topic).items():
                found = self._admin.open_in(leader, topic, partitions)
                names = self._admin.names_of(each.producer_id for each in found) if found else {}
                for each in found:
                    name = names.get(each.producer_id, "")
                    if self._mine(name):
                        reason = self._mark(name, leader, topic, each) or reason
        except PermissionError:
            return ""  # who may not read the topic cannot look
        except OSError as error:
            return str(error)
        return reason

    def _mark(self, name: str, leader: tuple[str, int], topic: str, found: OpenTransaction) -> str:
        now = self._admin.describe(name)
        if now.state in ("PrepareCommit", "PrepareAbort"):
            return f"the coordinator of {name!r} is still writing markers"
        commit = now.state == "CompleteCommit" and now[1:] == (found.producer_id, found.epoch)
        if not commit and now.state not in ("CompleteAbort", "Empty"):
            return ""  # a writer is at it
        code = self._admin.mark(leader, topic, found, commit)
        if code == NOT_ALLOWED:
            raise self.failure(
                f"transaction {name!r} is {now.state}, but partition {found.partition} of topic {topic!r} has no "
                "marker of it, because a broker was killed before it wrote one: readers wait for it. This user may not "
                "write one; allow it the operation ClusterAction on the cluster, and start the job again."
            )
        if code:
            return f"no marker of {name!r} can be written: {error_name(code)}"
        logger.warning(
            "%s: wrote the missing marker (%s) of transaction %r into partition %d of topic %r",
            self._who, "commit" if commit else "abort", name, found.partition, topic,
        )  # fmt: skip
        return ""

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Abort transactions that are in no checkpoint, so that readers need not wait for their timeout."""
        for request in requests:
            transaction = PreparedTransaction(*request.committable)
            try:
                code = self._admin.end(transaction, commit=False)
            except OSError as error:
                logger.warning("%s: %r is not aborted: %s", self._who, transaction.transactional_id, error)
                continue
            if code:
                logger.warning("%s: %r is not aborted: %s", self._who, transaction.transactional_id, error_name(code))


@dataclass(frozen=True)
class KafkaSink(SinkSettings, Sink[T_contra], Generic[T_contra]):
    """Writes records to topics; made by ``builder()``.

    >>> from funken.connectors import JsonSchema
    >>> totals = KafkaRecordSerializationSchema.builder().set_topic("totals").set_value_serialization_schema(JsonSchema())
    >>> builder = KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(totals.build())
    >>> builder.build().guarantee
    <DeliveryGuarantee.AT_LEAST_ONCE: 'at-least-once'>
    """

    @staticmethod
    def builder() -> KafkaSinkBuilder[Any]:
        """Start to describe a sink."""
        return KafkaSinkBuilder(KafkaSink())

    @property
    def reads_only(self) -> bool:  # type: ignore[override]
        """True if a schema of Funken makes the messages: those of users may change records."""
        return self.serializer.plain and of_funken(self.serializer.value_schema)

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """True if the messages are made of columns: by ``JsonSchema``, to one topic, with no headers or partitioner."""
        return bool(self.serializer.takes_columns)

    def check(self) -> None:
        """Reach the brokers, and compare the sink's needs with their limits."""
        self.transport.check(self)

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        kind = TransactionalKafkaWriter if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else KafkaWriter
        return kind(self, context)

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of an exactly-once sink."""
        return KafkaCommitter(self, context) if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


@dataclass(frozen=True)
class KafkaSinkBuilder(Generic[T_contra]):
    """PyFlink's way to describe a Kafka sink; each call returns a new builder.

    >>> from funken.connectors import SimpleStringSchema
    >>> words = KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(SimpleStringSchema())
    >>> builder = (
    ...     KafkaSink.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_record_serializer(words.build())
    ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    ...     .set_property("transaction.timeout.ms", "900000")
    ... )
    >>> builder.set_transactional_id_prefix("word-count").build().transaction_timeout
    900000
    >>> builder.build()
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: an exactly-once Kafka sink has no transactional id prefix; call
    set_transactional_id_prefix() with a name that no other job uses on these brokers.
    """

    sink: KafkaSink[T_contra]

    def _with(self, **changes: Any) -> KafkaSinkBuilder[Any]:
        return KafkaSinkBuilder(replace(self.sink, **changes))

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder[T_contra]:
        """Set the brokers to begin with, ``host:port,...``."""
        return self._with(servers=bootstrap_servers)

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema[S]) -> KafkaSinkBuilder[S]:
        """Set how records become Kafka's."""
        return self._with(serializer=record_serializer)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder[T_contra]:
        """Set the delivery guarantee; at least once by default."""
        return self._with(guarantee=delivery_guarantee)

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder[T_contra]:
        """Set the beginning of transactional ids; no other job may use the same. An exactly-once sink needs it."""
        return self._with(transactional_id_prefix=transactional_id_prefix)

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder[T_contra]:
        """Set a property of the client (librdkafka's)."""
        return self._with(properties={**self.sink.properties, key: value})

    def set_properties(self, props: Mapping[str, str]) -> KafkaSinkBuilder[T_contra]:
        """Set several properties."""
        return self._with(properties={**self.sink.properties, **props})

    def build(self) -> KafkaSink[T_contra]:
        """Return the sink; raises ``InvalidConfiguration`` if something is missing."""
        sink = self.sink
        servers = checked_servers(
            sink.servers or sink.properties.get("bootstrap.servers", ""), "a Kafka sink", sink.properties
        )
        if sink.serializer is None:
            raise InvalidConfiguration("a Kafka sink has no serializer; call set_record_serializer().")
        check_schema(sink.serializer, KafkaRecordSerializationSchema, "Kafka sink")
        sink = replace(sink, properties=client_properties(sink.properties, "Kafka sink"))
        if sink.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            if not sink.transactional_id_prefix:
                raise InvalidConfiguration(
                    "an exactly-once Kafka sink has no transactional id prefix; call set_transactional_id_prefix() with a name "
                    "that no other job uses on these brokers."
                )
            if "transactional.id" in sink.properties:
                raise InvalidConfiguration(
                    "property 'transactional.id' is made by the Kafka sink; call set_transactional_id_prefix()."
                )
            Security.of(sink.properties)
        return replace(sink, servers=servers)
