"""The reader of partitions in a task: blocks of one partition at a time, positions per partition, offsets for the group.

A partition's position is the offset after the last record that ``poll`` has returned; what was fetched beyond it is
fetched again after a restore.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from funken.columnar.block import Block
from funken.connectors.base import NEED_SPLITS, Batch, ConnectorContext, NeedSplits, SourceReader, Wait
from funken.connectors.kafka.client import LastError, confluent, made, message_of
from funken.connectors.kafka.enumerator import KafkaPartitionSplit, KafkaTopicPartition
from funken.connectors.librdkafka.messages import Fetcher, Messages, Run, messages_of
from funken.connectors.reading import Attempts, MalformedRecordPolicy, MessageDecoder
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.expr.types import Type
from funken.types.callables import Generic, OUT_co, R, S, T

# ---- Between Kafka's records and those of the stream: schemas that see key, headers, timestamp and topic, not only
# the value.


Headers = Sequence[tuple[str, bytes | None]]


class ConsumerRecord(NamedTuple):
    """A record as it was read; ``timestamp`` is in ms, ``None`` if the topic has none.

    >>> ConsumerRecord("orders", 0, 7, 1000, b"tea", b"3", (("source", b"till"),)).key
    b'tea'
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaRecordDeserializationSchema(DeserializationSchema[OUT_co], Generic[OUT_co]):
    """A schema that makes the stream's records of Kafka's; subclass it, or use ``of``. ``None`` drops a record.

    >>> schema = KafkaRecordDeserializationSchema.of(lambda record: (record.key.decode(), len(record.value or b"")))
    >>> schema.deserialize(ConsumerRecord("orders", 0, 7, 1000, b"tea", b"three"))
    ('tea', 5)
    """

    def deserialize(self, record: ConsumerRecord) -> OUT_co:  # type: ignore[override]
        """Return the record of the stream."""
        raise NotImplementedError

    @staticmethod
    def of(function: Callable[[ConsumerRecord], R]) -> KafkaRecordDeserializationSchema[R]:
        """Make a schema of a function."""
        return _Function(function)


@dataclass(frozen=True)
class _Function(KafkaRecordDeserializationSchema[OUT_co], Generic[OUT_co]):
    function: Callable[[ConsumerRecord], OUT_co]

    def deserialize(self, record: ConsumerRecord) -> OUT_co:  # type: ignore[override]
        return self.function(record)


class ProducerRecord(NamedTuple):
    """A record to be written; without ``partition`` the key decides, without ``timestamp`` it is that of the record.

    >>> ProducerRecord("orders", b"3", key=b"tea")
    ProducerRecord(topic='orders', value=b'3', key=b'tea', partition=None, timestamp=None, headers=None)
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers | None = None


class KafkaTopicSelector:
    """A selector of the topic of a record; a callable will do as well."""

    def apply(self, data: Any) -> str:
        """Return the topic of a record."""
        raise NotImplementedError


@dataclass(frozen=True)
class KafkaRecordSerializationSchema(Generic[T]):
    """A schema that makes Kafka's records of the stream's; made by ``builder()``, or by a subclass with ``serialize``.

    >>> from funken.connectors import SimpleStringSchema
    >>> builder = KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(SimpleStringSchema())
    >>> builder.build().serialize("to")
    ProducerRecord(topic='words', value=b'to', key=None, partition=None, timestamp=None, headers=None)

    >>> class Sharded(KafkaRecordSerializationSchema):
    ...     def serialize(self, value):
    ...         return ProducerRecord("words", value.encode(), partition=len(value) % 4)
    >>> Sharded().serialize("to").partition
    2
    """

    topic: str | Callable[[T], str] = ""
    value_schema: SerializationSchema[T] | None = None
    key_schema: SerializationSchema[T] | None = None
    headers: Callable[[T], Headers] | None = None
    partitioner: Callable[[T], int] | None = None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder[Any]:
        """Start to describe one."""
        return KafkaRecordSerializationSchemaBuilder(KafkaRecordSerializationSchema())

    def serialize(self, value: T) -> ProducerRecord | None:
        """Return the message of a record; ``None``: nothing is written."""
        assert self.value_schema is not None
        return ProducerRecord(
            self.topic if isinstance(self.topic, str) else self.topic(value),
            self.value_schema.serialize(value),
            None if self.key_schema is None else self.key_schema.serialize(value),
            None if self.partitioner is None else self.partitioner(value),
            None,
            None if self.headers is None else self.headers(value),
        )

    @property
    def plain(self) -> bool:
        """True if nothing but values is written, to one topic: then blocks are serialized at once."""
        return self._of_schemas and self.key_schema is None

    @property
    def takes_columns(self) -> bool:
        """True if the output comes of schemas that take columns, and goes to one topic."""
        schemas = (self.value_schema,) if self.key_schema is None else (self.key_schema, self.value_schema)
        return self._of_schemas and all(schema is not None and schema.takes_columns for schema in schemas)

    @property
    def _of_schemas(self) -> bool:
        return (
            type(self) is KafkaRecordSerializationSchema
            and isinstance(self.topic, str)
            and self.headers is None
            and self.partitioner is None
        )


@dataclass(frozen=True)
class KafkaRecordSerializationSchemaBuilder(Generic[T]):
    """PyFlink's way to describe the records of a sink; each call returns a new builder.

    >>> from funken.connectors import JsonSchema
    >>> builder = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda order: "large" if order[1] > 9 else "small")
    >>> schema = builder.set_key_serialization_schema(JsonSchema()).set_value_serialization_schema(JsonSchema()).build()
    >>> schema.serialize(["tea", 3]).topic
    'small'
    >>> KafkaRecordSerializationSchema.builder().set_topic("words").build()
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: a Kafka record serializer has no value schema; call set_value_serialization_schema().
    """

    schema: KafkaRecordSerializationSchema[T]

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder[T]:
        """Write to this topic."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, topic=topic))

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[T], str]
    ) -> KafkaRecordSerializationSchemaBuilder[T]:
        """Let a ``KafkaTopicSelector`` or a function choose the topic of each record."""
        select = topic_selector if callable(topic_selector) else topic_selector.apply
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, topic=select))

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema[T]
    ) -> KafkaRecordSerializationSchemaBuilder[T]:
        """Make keys of the records by a schema."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, key_schema=key_serialization_schema))

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema[S]
    ) -> KafkaRecordSerializationSchemaBuilder[S]:
        """Make values of the records by a schema."""
        schema: KafkaRecordSerializationSchema[Any] = self.schema
        return KafkaRecordSerializationSchemaBuilder(replace(schema, value_schema=value_serialization_schema))

    def set_header_provider(self, headers: Callable[[T], Headers]) -> KafkaRecordSerializationSchemaBuilder[T]:
        """Make headers of the records: pairs of a name and bytes."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, headers=headers))

    def set_partitioner(self, partitioner: Callable[[T], int]) -> KafkaRecordSerializationSchemaBuilder[T]:
        """Choose the partition of each record; without it Kafka does, by the key if there is one."""
        return KafkaRecordSerializationSchemaBuilder(replace(self.schema, partitioner=partitioner))

    def build(self) -> KafkaRecordSerializationSchema[T]:
        """Return the schema."""
        if not self.schema.topic:
            raise InvalidConfiguration(
                "a Kafka record serializer has no topic; call set_topic() or set_topic_selector()."
            )
        if self.schema.value_schema is None:
            raise InvalidConfiguration(
                "a Kafka record serializer has no value schema; call set_value_serialization_schema()."
            )
        return self.schema


logger = logging.getLogger(__name__)

BROKERS_AWAY_MS = 300_000
"""A reader that has had no connection to any broker for so long fails."""
_ASK_MS = 1000
"""The interval (ms) of an unbounded reader's requests for partitions that were discovered."""
_STATISTICS_MS = 2000


class KafkaReader(SourceReader):
    """Reads partitions by a consumer that is assigned them; the group plays no part in that."""

    pauses_splits = True

    def __init__(
        self, properties: dict[str, Any], deserializer: Any, policy: MalformedRecordPolicy, commits: bool, ends: bool,
        context: ConnectorContext,
    ) -> None:  # fmt: skip
        self._properties, self._commits, self._ends = properties, commits, ends
        super().__init__(context)
        self._who = f"operator {context.operator!r}"
        self._deserializer = deserializer
        self._of_records = isinstance(deserializer, KafkaRecordDeserializationSchema)
        #: what makes columns of values, of a line each or as they are; ``None``: records are wanted
        self._to_columns: Callable[[Any], Block | None] | None = None
        if deserializer.makes_blocks:
            self._to_columns = Attempts(deserializer.lines_to_blocks())
        self._by_lines = True
        self._metrics = context.metrics.add_group("KafkaSourceReader")
        payload = _value if self._of_records else bytes
        self._decoder = MessageDecoder(deserializer, policy, self._metrics.counter("malformedRecords"), payload)
        self._splits: dict[KafkaTopicPartition, KafkaPartitionSplit] = {}
        self._positions: dict[KafkaTopicPartition, int] = {}
        #: where partitions end, as far as that is known; written by the fetcher's thread
        self._known_ends: dict[KafkaTopicPartition, int] = {}
        self._committed: dict[KafkaTopicPartition, int] = {}
        self._of_checkpoints: dict[int, dict[KafkaTopicPartition, int]] = {}
        #: what was fetched
        self._runs: deque[Run] = deque()
        #: partitions that are not to be read for a while, and what was fetched of them
        self._paused: set[KafkaTopicPartition | None] = set()
        self._held: deque[Run] = deque()
        #: the topics of all partitions that there were
        self._topics: set[str] = set()
        self._ending: list[KafkaTopicPartition] = []
        self._ask_at = 0
        self._away_since: int | None = None
        self._connected = True
        self._consumer: Any = None
        self._messages: Messages | None = None
        self._fetcher: Fetcher | None = None

    def read_record_columns(self, schema: Type, wanted: Sequence[int] | None) -> None:
        """Return columns of the wanted fields, where the values have that form."""
        of_messages = self._deserializer.messages_to_columns(schema, wanted)
        self._by_lines = of_messages is None
        self._to_columns = Attempts(of_messages or self._deserializer.lines_to_columns(schema, wanted))

    # ---- life

    def open(self) -> None:
        """Make the consumer; it connects on its own."""
        self._kafka = confluent()
        self._last_error = LastError(self._who)
        callbacks = {
            "error_cb": self._last_error,
            "stats_cb": self._on_statistics,
            "on_commit": self._on_commit,
            "statistics.interval.ms": _STATISTICS_MS,
        }
        make = partial(messages_of, self._kafka, values_only=not self._of_records)
        self._consumer, self._messages = made(make, {**self._properties, **callbacks}, self._who)
        self._succeeded = self._metrics.counter("commitsSucceeded")
        self._failed = self._metrics.counter("commitsFailed")
        self._fetcher = Fetcher(self._messages, self.context.wake)
        self._fetcher.start()

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these partitions too."""
        for split in splits:
            key = KafkaTopicPartition(split.topic, split.partition)
            self._splits[key], self._positions[key] = split, split.offset
            self._topics.add(key.topic)
            group = self._metrics.add_group("topic", key.topic).add_group("partition", str(key.partition))
            group.gauge("currentOffset", partial(self._current, key))
            group.gauge("committedOffset", partial(self._committed.get, key, -1))
            group.gauge("recordsLag", partial(self._lag, key))
        assigned = [self._kafka.TopicPartition(split.topic, split.partition, split.offset) for split in splits]
        messages = self._messages
        assert messages is not None and self._fetcher is not None
        self._fetcher.call(lambda: messages.assign(assigned))

    def close(self) -> None:
        """Leave the brokers."""
        fetcher, consumer, messages = self._fetcher, self._consumer, self._messages
        self._fetcher = self._consumer = self._messages = None
        if fetcher is not None and fetcher.stop():
            assert messages is not None
            messages.close()
            consumer.close()

    # ---- reading

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next records of a partition."""
        for key in self._ending:
            self._end(key)
        self._ending.clear()
        if not self._splits and self._ends:
            return NEED_SPLITS
        if now >= self._ask_at and not self._ends:
            self._ask_at = now + _ASK_MS
            return NEED_SPLITS
        assert self._fetcher is not None
        while True:
            while self._has_run():
                batch = self._next(limit)
                if batch is not None:
                    return batch
                if self._ending:
                    return self.poll(limit, now)
            block = self._fetcher.take()
            if block is None:
                self._check_connection(now)
                return Wait(None)
            self._runs.extend(block.runs(self._splits, len(self._topics) > 1, self._on_error))

    def _next(self, limit: int) -> Batch | None:
        """Take records off the first run; ``None`` if none of them is for the stream."""
        run = self._runs[0]
        key = KafkaTopicPartition(*run.key)
        split = self._splits.get(key)
        if split is None:
            self._runs.popleft()
            return None
        if len(run) <= limit:
            self._runs.popleft()
        else:
            run = run.take(limit)
        if self._ends:
            assert split.stopping_offset is not None
            run, reached = run.until(split.stopping_offset)
            if reached and key not in self._ending:
                self._ending.append(key)
        if not len(run):
            return None
        values, timestamps = self._decoded(key, run)
        self._positions[key] = run.offset(-1) + 1
        return Batch(values, timestamps, split.id) if len(values) else None

    def _decoded(self, key: KafkaTopicPartition, run: Run) -> tuple[Any, list[int] | None]:
        if self._to_columns is not None and (block := self._as_columns(run)) is not None:
            return block, run.timestamps(None)
        positions: list[int] | None = None
        messages: list[Any]
        if self._of_records:
            messages = [_record(key, message) for message in run.messages]
        else:
            messages = run.values()
            if None in messages:  # it deletes a key: a record without a value
                positions = [index for index, value in enumerate(messages) if value is not None]
                messages = [messages[position] for position in positions]
        there = positions
        values, positions = self._decoder.decode(
            messages,
            lambda index: f"{self._who}: {key} offset {run.offset(index if there is None else there[index])}",
        )
        if positions is None or there is None:
            positions = there if positions is None else positions
        else:
            positions = [there[position] for position in positions]
        return values, run.timestamps(positions)

    def _as_columns(self, run: Run) -> Block | None:
        """Parse the messages, as the lines of a text if that is possible."""
        assert self._to_columns is not None
        given = run.text() if self._by_lines else run.values()
        block = None if given is None or (not self._by_lines and None in given) else self._to_columns(given)
        return block if block is not None and len(block) == len(run) else None

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Let the client fetch no more of some partitions, and keep back their fetched records."""
        keys = {split.id: key for key, split in self._splits.items()}
        wanted = [self._kafka.TopicPartition(*keys[split]) for split in pause if split in keys]
        again = [self._kafka.TopicPartition(*keys[split]) for split in resume if split in keys]
        self._paused = (self._paused | {keys[split] for split in pause if split in keys}) - {
            keys.get(each) for each in resume
        }
        self._runs.extendleft(reversed(self._held))  # in their order, before what came later
        self._held.clear()
        if wanted:
            self._call(lambda consumer: consumer.pause(wanted))
        if again:
            self._call(lambda consumer: consumer.resume(again))

    def _has_run(self) -> bool:
        """Return True if there is something to read; runs of paused partitions are put aside."""
        while self._paused and self._runs and self._runs[0].key in self._paused:
            self._held.append(self._runs.popleft())
        return bool(self._runs)

    def _end(self, key: KafkaTopicPartition) -> None:
        split = self._splits.pop(key)
        self.finished.append(split.id)
        unassigned = [self._kafka.TopicPartition(*key)]
        self._call(lambda consumer: consumer.incremental_unassign(unassigned))

    def _call(self, work: Callable[[Any], Any]) -> None:
        assert self._fetcher is not None
        consumer = self._consumer
        self._fetcher.call(lambda: work(consumer))

    # ---- checkpoints

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the partitions with their positions."""
        if self._commits:
            self._of_checkpoints[checkpoint_id] = dict(self._positions)
        ended = set(self._ending)
        return [replace(split, offset=self._positions[key]) for key, split in self._splits.items() if key not in ended]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the offsets of the checkpoint to the group; a failure is counted, and repaired by the next one."""
        offsets = self._of_checkpoints.pop(checkpoint_id, None)
        self._of_checkpoints = {number: at for number, at in self._of_checkpoints.items() if number > checkpoint_id}
        changed = {key: at for key, at in (offsets or {}).items() if self._committed.get(key) != at}
        if changed:
            committed = [self._kafka.TopicPartition(*key, at) for key, at in changed.items()]
            self._call(lambda consumer: self._commit(consumer, committed))

    def _commit(self, consumer: Any, committed: list[Any]) -> None:
        try:
            consumer.commit(offsets=committed, asynchronous=True)
        except self._kafka.KafkaException as error:
            self._commit_failed(message_of(error))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the offsets of the checkpoint."""
        self._of_checkpoints.pop(checkpoint_id, None)

    def _on_commit(self, error: Any, partitions: Sequence[Any]) -> None:
        failed = error or next((each.error for each in partitions if each.error is not None), None)
        if failed is not None:
            self._commit_failed(message_of(failed))
            return
        self._succeeded.inc()
        self._committed.update({KafkaTopicPartition(each.topic, each.partition): each.offset for each in partitions})

    def _commit_failed(self, reason: str) -> None:
        self._failed.inc()
        logger.warning(
            "%s: offsets were not committed to the group, which the next checkpoint does: %s", self._who, reason
        )

    # ---- what goes wrong

    def _current(self, key: KafkaTopicPartition) -> int:
        return self._positions[key] - 1

    def _lag(self, key: KafkaTopicPartition) -> int:
        """Return the number of offsets between the position and the end of the partition; -1 if it is not known."""
        end = self._known_ends.get(key, -1)
        return max(0, end - self._positions[key]) if end >= 0 else -1

    def _on_statistics(self, text: str) -> None:
        """Take figures from the client's statistics for which the consumer cannot be asked while it polls."""
        statistics = json.loads(text)
        self.bytes_in.count = statistics.get("rxmsg_bytes", 0)
        self._connected = any(broker["state"] == "UP" for broker in statistics["brokers"].values())
        for topic, of_topic in statistics["topics"].items():
            for number, of_partition in of_topic["partitions"].items():
                self._known_ends[KafkaTopicPartition(topic, int(number))] = of_partition["ls_offset"]

    def _check_connection(self, now: int) -> None:
        if self._connected:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = now
            logger.warning(
                "%s: no broker is connected%s; reading goes on when one is", self._who, self._last_error.because
            )
        elif now - self._away_since >= BROKERS_AWAY_MS:
            raise self.failure(
                f"no broker has been connected for {BROKERS_AWAY_MS // 1000} s{self._last_error.because}; "
                "start one, or correct the addresses that the brokers advertise."
            )

    def _on_error(self, error: Any) -> None:
        codes = self._kafka.KafkaError
        code, text = error.code(), message_of(error)
        if code == codes._AUTO_OFFSET_RESET:
            raise self.failure(
                f"an offset to read from is not in its partition any more ({text}); were records deleted? Start without the "
                "checkpoint, or allow it to skip them with a KafkaOffsetResetStrategy (auto.offset.reset)."
            )
        if code == codes.UNKNOWN_TOPIC_OR_PART:
            raise self.failure(f"a topic is gone ({text}); create it again, or remove it from the source.")
        if code in (codes.TOPIC_AUTHORIZATION_FAILED, codes.GROUP_AUTHORIZATION_FAILED):
            raise self.failure(f"reading is not allowed ({text}); allow it to this user.")
        if error.fatal():
            raise self.failure(f"the client cannot continue ({text}).")
        logger.info("%s: %s", self._who, text)


def _value(record: ConsumerRecord) -> bytes:
    return record.value or b""


def _record(key: KafkaTopicPartition, message: Any) -> ConsumerRecord:
    _, at = message.timestamp()
    headers = message.headers()
    return ConsumerRecord(
        key.topic, key.partition, message.offset(), None if at < 0 else at, message.key(), message.value(),
        tuple(headers) if headers else (),
    )  # fmt: skip
