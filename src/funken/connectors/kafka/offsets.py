"""Where reading of a partition begins and ends: PyFlink's ``KafkaOffsetsInitializer``.

An initializer is data. ``enumerator.py`` asks the brokers for the offsets that it means, once, on the driver.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration


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
    """What happens where an offset is not, or no longer, in the partition."""

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
        """Begin with what the consumer group has committed; by default a partition without that is an error."""
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


__all__ = ["KafkaOffsetResetStrategy", "KafkaOffsetsInitializer", "KafkaTopicPartition"]
