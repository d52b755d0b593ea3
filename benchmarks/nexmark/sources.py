"""Where both systems read the events from: Parquet files, or the topics of a broker that is started for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import broker
import environments
from events import Nexmark
from files import write_events
from topics import KINDS, messages, topic_of

STEMS = {"parquet": "beside", "kafka": "beside-kafka"}
"""What a source's results, its picture and its place in the guide are called."""


@dataclass(frozen=True)
class Events:
    """Events of a number and a rate, ``parts`` files or partitions of a kind."""

    seed: int
    rate: float
    count: int
    parts: int

    @property
    def name(self) -> str:
        """Return what they are called."""
        return f"{self.seed}-{self.rate:g}-{self.count}-{self.parts}"


@dataclass(frozen=True)
class Place:
    """What a process of a system has to know: where ``events`` are, by what they are for, and the broker, if there is one."""

    events: dict[str, str]
    servers: str = ""
    process: int | None = None

    @property
    def jars(self) -> list[Path]:
        """Return what Flink needs to read them."""
        return environments.kafka_jars("flink") if self.servers else environments.parquet_jars()


@contextmanager
def provided(source: str, wanted: dict[str, Events], folder: Path) -> Iterator[Place]:
    """Provide events while a block runs; files that are in the folder are not written again."""
    if source == "kafka":
        with _in_topics(wanted) as place:
            yield place
    else:
        yield Place({use: str(_in_files(events, folder)) for use, events in wanted.items()})


def _in_files(events: Events, folder: Path) -> Path:
    place = folder / events.name
    if not place.exists():
        part = place.with_suffix(".part")
        write_events(Nexmark(events.seed, events.rate), events.count, part, events.parts)
        part.rename(place)
    return place


@contextmanager
def _in_topics(wanted: dict[str, Events]) -> Iterator[Place]:
    made = broker.started(print)
    if made is None:
        sys.exit(1)
    try:
        for events in wanted.values():
            print(f"filling topics with {events.count:,} events", flush=True)
            for kind in KINDS:
                made.topic(events.parts, topic_of(events.name, kind))
            nexmark = Nexmark(events.seed, events.rate)
            broker.fill(made.servers, messages(nexmark, events.count, events.name, events.parts))
        yield Place({use: events.name for use, events in wanted.items()}, made.servers, made.pid)
    finally:
        broker.stop()
