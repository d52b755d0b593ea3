"""Runs: messages of one partition, in order, however they came out of the client.

``MessageRun`` has the client's own objects. ``native.py`` has another, of arrays, for who needs no more than values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

from funken.connectors.schemas import count_of

Place = tuple[str, int]
"""A partition: topic and number."""
Report = Callable[[Any], None]


class Run(Protocol):
    """Messages of one partition."""

    @property
    def key(self) -> Place:
        """The partition."""

    def __len__(self) -> int: ...

    def take(self, limit: int) -> Run:
        """Cut the first ones off."""

    def until(self, end: int) -> tuple[Run, bool]:
        """Return those before an offset, and whether the partition was read up to it.

        The last offsets may be of no message (a transaction's end, or compacted): then the end of the partition is reported.
        """

    def offset(self, index: int) -> int:
        """Return the offset of a message."""

    def values(self) -> list[bytes | None]:
        """Return their values; ``None`` deletes a key."""

    def text(self) -> bytes | None:
        """Return the values as the lines of a text; ``None`` if one has a line feed in it, or is ``None``."""

    def timestamps(self, positions: Sequence[int] | None) -> list[int] | None:
        """Return the timestamps (ms) of these, or of all; ``None`` if one has none."""

    @property
    def messages(self) -> list[Any]:
        """The client's objects, where they are kept."""


class Fetched(Protocol):
    """What one call of the client gives."""

    def __len__(self) -> int: ...

    def runs(self, keys: Collection[Place], several: bool, report: Report) -> Iterator[Run]:
        """Give the runs of these partitions, which may be of ``several`` topics; ``report`` takes errors, and may raise."""


class MessageRun:
    """A run of the client's objects; ``ends``: some only say that the partition ends there."""

    def __init__(self, key: Place, messages: list[Any], ends: bool, kafka: Any) -> None:
        self.key = key
        self.messages = messages
        self._ends = ends
        self._kafka = kafka

    def __len__(self) -> int:
        return len(self.messages)

    def take(self, limit: int) -> MessageRun:
        """Cut the first ones off."""
        taken = self.messages[:limit]
        del self.messages[:limit]
        return MessageRun(self.key, taken, self._ends, self._kafka)

    def until(self, end: int) -> tuple[MessageRun, bool]:
        """Return those before an offset, and whether the partition was read up to it."""
        if not self._ends and self.messages[-1].offset() + 1 < end:
            return self, False
        kept = [each for each in self.messages if each.error() is None and each.offset() < end]
        reached = any(each.offset() >= end - (each.error() is None) for each in self.messages)
        return MessageRun(self.key, kept, False, self._kafka), reached

    def offset(self, index: int) -> int:
        """Return the offset of a message."""
        found: int = self.messages[index].offset()
        return found

    def values(self) -> list[bytes | None]:
        """Return their values."""
        return list(map(self._kafka.Message.value, self.messages))

    def text(self) -> bytes | None:
        """Return the values as the lines of a text, if they are."""
        values = self.values()
        if None in values:
            return None
        text = b"\n".join(values)  # type: ignore[arg-type]
        return text if count_of(text, b"\n") == len(values) - 1 else None

    def timestamps(self, positions: Sequence[int] | None) -> list[int] | None:
        """Return the timestamps of these, or of all."""
        messages = self.messages if positions is None else [self.messages[position] for position in positions]
        found = [message.timestamp()[1] for message in messages]
        return None if -1 in found else found


class MessageBlock:
    """The client's objects."""

    def __init__(self, messages: list[Any], kafka: Any) -> None:
        self._messages = messages
        self._kafka = kafka

    def __len__(self) -> int:
        return len(self._messages)

    def runs(self, keys: Collection[Place], several: bool, report: Report) -> Iterator[MessageRun]:
        """Cut the block without a loop over its messages (benchmarks/kafka.py, "bytes")."""
        kafka, block = self._kafka, self._messages
        message, end_of_partition = kafka.Message, kafka.KafkaError._PARTITION_EOF
        ends = any(map(message.error, block))  # an error is true; comparing one with None breaks (confluent-kafka 2.16)
        if ends:
            errors = [each.error() for each in block]
            for error in errors:
                if error is not None and error.code() != end_of_partition:
                    report(error)
            block = [
                each for each, error in zip(block, errors, strict=True)
                if error is None or error.code() == end_of_partition
            ]  # fmt: skip
        places: Iterable[Any] = map(message.partition, block)
        if several:
            places = zip(map(message.topic, block), places, strict=True)
        known: dict[Any, Place] = {(key if several else key[1]): key for key in keys}
        begin = 0
        for where, run in groupby(places):
            end = begin + len(list(run))
            if where in known:  # else it has ended
                yield MessageRun(known[where], block[begin:end], ends, kafka)
            begin = end


__all__ = ["Fetched", "MessageBlock", "MessageRun", "Place", "Report", "Run"]
