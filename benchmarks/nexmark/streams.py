"""The streams that the queries read, and what a query is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from events import Auction, Bid, Event, Person
from files import folder_of
from topics import topic_of

from funken import DataStream, Sink, Source, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.source import FileSource

# A split is in the order of event time, so nothing is late, however the splits are mixed.
IN_ORDER: WatermarkStrategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
    lambda event, _: event.date_time
)


class Streams(Protocol):
    """People, auctions and bids; ``folder`` is where a query finds or puts files."""

    folder: str

    @property
    def people(self) -> DataStream:
        """The people."""
        ...

    @property
    def auctions(self) -> DataStream:
        """The auctions."""
        ...

    @property
    def bids(self) -> DataStream:
        """The bids."""
        ...


class GeneratedStreams:
    """All of one source, which makes the events."""

    def __init__(self, environment: StreamExecutionEnvironment, source: Source, folder: str) -> None:
        self.folder = folder
        self._events = environment.from_source(source, IN_ORDER, "events")

    @property
    def people(self) -> DataStream:
        """The people."""
        return self._events.filter(lambda event: type(event) is Person).name("people")

    @property
    def auctions(self) -> DataStream:
        """The auctions."""
        return self._events.filter(lambda event: type(event) is Auction).name("auctions")

    @property
    def bids(self) -> DataStream:
        """The bids."""
        return self._events.filter(lambda event: type(event) is Bid).name("bids")


WHOLE = 1 << 40
"""More bytes than a file has."""


class _SeparateStreams:
    """A source for each kind of event."""

    folder: str

    @property
    def people(self) -> DataStream:
        """The people."""
        return self._source(Person, "people")

    @property
    def auctions(self) -> DataStream:
        """The auctions."""
        return self._source(Auction, "auctions")

    @property
    def bids(self) -> DataStream:
        """The bids."""
        return self._source(Bid, "bids")

    def _source(self, kind: type[Event], name: str) -> DataStream:
        raise NotImplementedError


class ParquetStreams(_SeparateStreams):
    """A source each, of the Parquet files that ``files.py`` has written below ``events``.

    With ``whole``, a file has one reader: files that take turns in time have to be read side by side.
    """

    def __init__(self, environment: StreamExecutionEnvironment, events: Path, folder: str, whole: bool = False) -> None:
        self.folder = folder
        self._environment = environment
        self._events = events
        self._whole = whole

    def _source(self, kind: type[Event], name: str) -> DataStream:
        files = FileSource.for_bulk_file_format(ParquetFormat(kind), str(folder_of(self._events, kind)))
        source = (files.set_split_bytes(WHOLE) if self._whole else files).build()
        return self._environment.from_source(source, IN_ORDER, name)


class KafkaStreams(_SeparateStreams):
    """A source each, of what the topics that ``topics.py`` tells of have when the job starts."""

    def __init__(self, environment: StreamExecutionEnvironment, servers: str, events: str, folder: str) -> None:
        self.folder = folder
        self._environment = environment
        self._servers = servers
        self._events = events

    def _source(self, kind: type[Event], name: str) -> DataStream:
        from funken.connectors import JsonSchema  # noqa: PLC0415 - the client's library is needed by nobody else
        from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaSource  # noqa: PLC0415

        builder = KafkaSource.builder().set_bootstrap_servers(self._servers).set_topics(topic_of(self._events, kind))
        builder = builder.set_value_only_deserializer(JsonSchema(kind)).set_bounded(KafkaOffsetsInitializer.latest())
        return self._environment.from_source(builder.build(), IN_ORDER, name)


@dataclass(frozen=True)
class Query:
    """A program, and how its result is to be read.

    ``key`` is the number of leading fields that say which row of the result a record replaces; 0: every record is a row.
    ``sink`` makes the sink of a query that is about one, and ``written`` reads what it wrote, both given the folder.
    ``rates`` are how many events there are in a second of event time when the result is checked: few, so that there are many
    windows, and as many as are measured, so that many happen in the same millisecond. ``note`` says where the program is not
    what the specification asks for.
    """

    name: str
    title: str
    program: Callable[[Streams], DataStream]
    key: int = 0
    rates: tuple[float, ...] = (200, 10_000)
    by_the_clock: bool = False
    sink: Callable[[str], Sink] | None = None
    written: Callable[[str], list[Any]] | None = None
    note: str = ""
