"""The enumerator of partitions on the driver: their first and last offsets, and the subtask of each.

The offsets of a partition are asked for once: those that are there at the start by the program's initializers, those of
partitions that appear later are the earliest. So a split always has numbers, and a restart never asks again.
"""

from __future__ import annotations

import difflib
import enum
import logging
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from funken.connectors.base import DiscoveredSplits
from funken.connectors.kafka.client import REQUEST_TIMEOUT_S, LastError, cluster_of, confluent, made, message_of
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable
from funken.timing.clock import SystemClock

# ---- Where reading of a partition begins and ends: PyFlink's ``KafkaOffsetsInitializer``.
#
# An initializer is data. ``enumerator.py`` asks the brokers for the offsets that it means, once, on the driver.


class KafkaTopicPartition(NamedTuple):
    """A partition of a topic.

    >>> str(KafkaTopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class KafkaOffsetResetStrategy(enum.Enum):
    """The rule for an offset that is not, or no longer, in the partition."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "error"


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """The offsets at which partitions begin or end; made by its static methods.

    >>> KafkaOffsetsInitializer.earliest().kind, KafkaOffsetsInitializer.timestamp(1000).millis
    ('earliest', 1000)
    >>> KafkaOffsetsInitializer.latest().reset
    <KafkaOffsetResetStrategy.LATEST: 'latest'>
    """

    kind: str
    reset: KafkaOffsetResetStrategy
    millis: int = 0
    specific: tuple[tuple[KafkaTopicPartition, int], ...] = ()

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Begin with the oldest record that is there."""
        return KafkaOffsetsInitializer("earliest", KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Begin after the newest record that is there when the job starts; or end there."""
        return KafkaOffsetsInitializer("latest", KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Begin with the committed offsets of the consumer group; by default a partition without one is an error."""
        return KafkaOffsetsInitializer("committed", offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Begin with the first record of this timestamp (ms) or a later one."""
        if timestamp < 0:
            raise InvalidConfiguration(f"{timestamp} is no timestamp in ms; pass 0 or more.")
        return KafkaOffsetsInitializer("timestamp", KafkaOffsetResetStrategy.LATEST, millis=timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Begin with these; partitions that are not named begin as the strategy says.

        >>> KafkaOffsetsInitializer.offsets({KafkaTopicPartition("orders", 0): 23}).specific
        ((KafkaTopicPartition(topic='orders', partition=0), 23),)
        """
        negative = [f"{where}: {offset}" for where, offset in offsets.items() if offset < 0]
        if negative:
            raise InvalidConfiguration(f"offsets are 0 or more, but {negative[0]}.")
        pairs = tuple((KafkaTopicPartition(*where), offset) for where, offset in offsets.items())
        return KafkaOffsetsInitializer("offsets", offset_reset_strategy, specific=pairs)


logger = logging.getLogger(__name__)

_now = SystemClock().monotonic
_EARLIEST, _LATEST = -2, -1  # as timestamps in the brokers' protocol
_PASSING = frozenset({5, 6, 14, 15, 16, 74, 75, 78})
"""Codes of the protocol that brokers answer with while a partition or a group gets a leader, as one that was just created:
``LEADER_NOT_AVAILABLE``, ``NOT_LEADER_FOR_PARTITION``, ``COORDINATOR_LOAD_IN_PROGRESS``, ``COORDINATOR_NOT_AVAILABLE``,
``NOT_COORDINATOR``, ``FENCED_LEADER_EPOCH``, ``UNKNOWN_LEADER_EPOCH``, ``OFFSET_NOT_AVAILABLE``."""
_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""The pauses (s) before they are asked again."""


@dataclass(frozen=True)
class Subscription:
    """The subscription of a source: topics, topics by a pattern, or partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()

    def __post_init__(self) -> None:
        """Check the names."""
        for topic in self.topics:
            if not isinstance(topic, str) or not topic or "," in topic:
                several = (
                    " Several topics are arguments: set_topics('a', 'b')."
                    if isinstance(topic, str | list) and topic
                    else ""
                )
                raise InvalidConfiguration(f"{topic!r} is no name of a topic; give a text such as 'orders'.{several}")

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics that match {self.pattern!r}"
        return ", ".join(self.topics) if self.topics else ", ".join(map(str, self.partitions))


@dataclass(frozen=True, slots=True)
class KafkaPartitionSplit:
    """A partition: ``offset`` is the next record's, ``stopping_offset`` that of the first one that is not read."""

    topic: str
    partition: int
    offset: int
    stopping_offset: int | None = None

    @property
    def id(self) -> str:
        """Return a name that no other split has."""
        return f"{self.topic}-{self.partition}"


class KafkaEnumerator(DiscoveredSplits):
    """Finds partitions and assigns each to a subtask, the same in every run: partitions of a topic are spread evenly."""

    def __init__(
        self, subscription: Subscription, starting: KafkaOffsetsInitializer, stopping: KafkaOffsetsInitializer | None,
        discovery_interval: int | None, client_properties: Callable[[str], dict[str, Any]], parallelism: int,
    ) -> None:  # fmt: skip
        super().__init__(parallelism, discovery_interval)
        self._subscription = subscription
        self._starting, self._stopping = starting, stopping
        self._client_properties = client_properties

    def start(self) -> None:
        """Find the partitions; raises ``SourceNotReadable`` if brokers, topics or offsets are not there."""
        with Cluster(self._client_properties("enumerator")) as cluster:
            there = cluster.partitions(self._subscription, strict=True)
            if not there and self.discovery_interval is None:
                raise SourceNotReadable(
                    f"Kafka source: there are no {self._subscription}; create one, or correct set_topic_pattern()."
                )
            self.add_discovered((there, self._splits(cluster, there, self._starting)))

    def discover(self, now: int) -> Any:
        """Look for partitions that are new; brokers that do not answer are asked again the next time."""
        try:
            with Cluster(self._client_properties("enumerator")) as cluster:
                there = cluster.partitions(self._subscription, strict=False)
                new = [each for each in there if each not in self.known]
                splits = self._splits(cluster, new, KafkaOffsetsInitializer.earliest()) if new else []
                return new, splits
        except SourceNotReadable as error:
            logger.warning("new partitions were not looked for, that is tried again: %s", error)
            return None

    def owner(self, split: KafkaPartitionSplit) -> int:
        """Return the place of the partition's subtask."""
        return zlib.crc32(split.topic.encode()) + split.partition

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the subtask's partitions; a bounded reader gets no more."""
        return super().next_splits(subtask) or ([] if self._stopping is None else None)

    def _splits(
        self, cluster: Cluster, partitions: Sequence[KafkaTopicPartition], starting: KafkaOffsetsInitializer
    ) -> list[KafkaPartitionSplit]:
        begins = cluster.offsets(partitions, starting)
        if self._stopping is None:
            return [KafkaPartitionSplit(*each, begins[each]) for each in partitions]
        ends = cluster.offsets(partitions, self._stopping)
        return [
            KafkaPartitionSplit(*each, begins[each], ends[each]) for each in partitions if begins[each] < ends[each]
        ]


class Cluster:
    """Questions to the brokers, each with a bound (``timeout``, seconds); a context manager."""

    def __init__(self, properties: dict[str, Any], timeout: float = REQUEST_TIMEOUT_S) -> None:
        self._timeout = timeout
        self._until = _now() + timeout
        self._servers = properties["bootstrap.servers"]
        self._group = properties["group.id"]
        self._last_error = LastError("Kafka source")
        kafka = confluent()
        self._kafka = kafka
        asking = {key: value for key, value in properties.items() if key != "enable.partition.eof"}
        self._consumer = made(kafka.Consumer, {**asking, "error_cb": self._last_error}, "Kafka source")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self._consumer.close()

    def partitions(self, subscription: Subscription, strict: bool) -> list[KafkaTopicPartition]:
        """Return the partitions of a subscription; ``strict``: raise if a topic or partition is missing."""
        try:
            topics = cluster_of(self._consumer, self._timeout, self._servers, self._last_error, "Kafka source").topics
        except self._kafka.KafkaException as error:
            raise SourceNotReadable(
                f"Kafka source: no broker of {self._servers!r} answers: {message_of(error)}{self._last_error.because}; "
                "start one, or correct set_bootstrap_servers(), the credentials or the security.protocol."
            ) from error
        found = {name: topic.partitions for name, topic in topics.items() if topic.error is None}
        if subscription.pattern is not None:
            matches = re.compile(subscription.pattern).fullmatch
            return [
                KafkaTopicPartition(name, p) for name in sorted(found) if matches(name) for p in sorted(found[name])
            ]
        wanted = subscription.topics or sorted({each.topic for each in subscription.partitions})
        missing = [name for name in wanted if name not in found]
        if missing and strict:
            near = difflib.get_close_matches(missing[0], found, 3)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            refused = topics[missing[0]].error if missing[0] in topics else None
            raise SourceNotReadable(
                f"Kafka source: topic {missing[0]!r} {f'is not readable ({refused})' if refused else 'does not exist'} at "
                f"{self._servers!r}; create it, or correct the name.{hint}"
            )
        if subscription.topics:
            return [KafkaTopicPartition(name, p) for name in wanted if name in found for p in sorted(found[name])]
        absent = [each for each in subscription.partitions if each.partition not in found.get(each.topic, ())]
        if absent and strict:
            raise SourceNotReadable(
                f"Kafka source: there is no partition {absent[0]} at {self._servers!r}: the topic has "
                f"{len(found[absent[0].topic])}; correct set_partitions()."
            )
        return [each for each in subscription.partitions if each not in absent]

    def newest(self, partitions: Sequence[KafkaTopicPartition], count: int) -> list[bytes]:
        """Return values of the newest messages of partitions, as far as they come before the timeout since the first question.

        Raises ``SourceNotReadable``.
        """
        until, asked = self._until, []
        wanted = 0
        try:
            for topic, number in partitions:
                partition = self._kafka.TopicPartition(topic, number)
                left = max(0.01, until - _now())
                low, high = self._consumer.get_watermark_offsets(partition, timeout=left)
                partition.offset = max(low, high - count)
                if partition.offset < high:
                    asked.append(partition)
                    wanted += high - partition.offset
            if not asked:
                return []
            self._consumer.assign(asked)
            values: list[bytes] = []
            while wanted > 0 and (left := until - _now()) > 0:
                messages = self._consumer.consume(min(wanted, count), timeout=min(left, _PAUSES_S[1]))
                values += [value for each in messages if each.error() is None and (value := each.value()) is not None]
                if values and not messages:
                    break  # those of a transaction that was given up have offsets, and do not come
                wanted -= len(messages)
        except self._kafka.KafkaException as error:
            raise SourceNotReadable(
                f"Kafka source: {self._servers!r} returns no messages: {message_of(error)}{self._last_error.because}"
            ) from error
        return values

    def offsets(
        self, partitions: Sequence[KafkaTopicPartition], initializer: KafkaOffsetsInitializer
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offset that an initializer means, for each partition."""
        if not partitions:
            return {}
        match initializer.kind:
            case "earliest":
                return self._at(partitions, _EARLIEST)
            case "latest":
                return self._at(partitions, _LATEST)
            case "timestamp":
                found = self._at(partitions, initializer.millis)
            case "committed":
                found = self._committed(partitions)
            case _:
                specific = dict(initializer.specific)
                found = {each: specific.get(each, -1) for each in partitions}
        unknown = [each for each in partitions if found[each] < 0]
        return found | (self._reset(unknown, initializer) if unknown else {})

    def _reset(
        self, partitions: Sequence[KafkaTopicPartition], initializer: KafkaOffsetsInitializer
    ) -> dict[KafkaTopicPartition, int]:
        match initializer.reset:
            case KafkaOffsetResetStrategy.EARLIEST:
                return self._at(partitions, _EARLIEST)
            case KafkaOffsetResetStrategy.LATEST:
                return self._at(partitions, _LATEST)
        why = (
            f"group {self._group!r} has committed nothing" if initializer.kind == "committed" else "there is no offset"
        )
        raise SourceNotReadable(
            f"Kafka source: {why} for {', '.join(map(str, partitions[:5]))}; pass KafkaOffsetResetStrategy.EARLIEST or LATEST."
        )

    def _at(self, partitions: Sequence[KafkaTopicPartition], millis: int) -> dict[KafkaTopicPartition, int]:
        asked = [self._kafka.TopicPartition(topic, partition, millis) for topic, partition in partitions]
        return self._ask(lambda: self._consumer.offsets_for_times(asked, timeout=self._timeout), "offsets")

    def _committed(self, partitions: Sequence[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        asked = [self._kafka.TopicPartition(topic, partition) for topic, partition in partitions]
        return self._ask(
            lambda: self._consumer.committed(asked, timeout=self._timeout), f"offsets of group {self._group!r}"
        )

    def _ask(self, ask: Callable[[], Any], what: str) -> dict[KafkaTopicPartition, int]:
        for pause in _PAUSES_S:
            try:
                return self._answer(ask, what)
            except SourceNotReadable as error:
                why = error.__cause__
                if not isinstance(why, self._kafka.KafkaException) or why.args[0].code() not in _PASSING:
                    raise
            time.sleep(pause)
        return self._answer(ask, what)

    def _answer(self, ask: Callable[[], Any], what: str) -> dict[KafkaTopicPartition, int]:
        try:
            answer = ask()
        except self._kafka.KafkaException as error:
            raise SourceNotReadable(
                f"Kafka source: {self._servers!r} does not tell the {what}: {message_of(error)}{self._last_error.because}; "
                "is the broker well, and may this user describe the topic and the group?"
            ) from error
        for each in answer:
            if each.error is not None:
                raise SourceNotReadable(
                    f"Kafka source: {self._servers!r} does not tell the {what} of {each.topic}-{each.partition}: "
                    f"{message_of(each.error)}; allow this user to read it."
                ) from self._kafka.KafkaException(each.error)
        return {KafkaTopicPartition(each.topic, each.partition): each.offset for each in answer}
