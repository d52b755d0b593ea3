"""Redis streams as a source: each stream is a split, and its position the id of the last entry that was read.

Streams are logs: entries stay until they are trimmed. So positions in checkpoints are all that exactly-once reading takes, and
consumer groups are not used. A bounded source reads up to the entry that was the last one when the job began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from funken.connectors.base import Boundedness, ListedSplits, Source, SplitEnumerator
from funken.connectors.context import ConnectorContext
from funken.connectors.redis.reader import RedisStreamReader, RedisStreamSplit, in_order
from funken.connectors.redis.server import RedisServer
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable

_BEGINNING = "0-0"


class RedisMessage(NamedTuple):
    """An entry of a stream; keys and values of ``fields`` are text, or bytes if the source has no ``encoding``.

    >>> RedisMessage("orders", "1700000000000-0", {"item": "tea"}).fields["item"]
    'tea'
    """

    stream: str
    id: str
    fields: dict[Any, Any]


@dataclass(frozen=True)
class RedisStreamSource(Source[RedisMessage]):
    """The entries of streams, as ``RedisMessage``; the event time is the time in an entry's id (ms), unless one is assigned.

    ``start`` is ``"earliest"``, ``"latest"`` (what is added after the job began) or an id, after which reading begins. With
    ``bounded`` the source ends with what was there when the job began. A stream that is not there is an error, unless it
    ``may_be_missing``. ``encoding`` decodes fields and values; ``None`` leaves them as bytes.

    Raises ``SourceNotReadable``, before anything runs, if the server or a stream is not there or cannot be read.

    >>> RedisStreamSource(RedisServer("redis://localhost:6379"), ["orders"], bounded=True).streams
    ('orders',)
    >>> RedisStreamSource(RedisServer("redis://localhost:6379"), ["orders"], start="now")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: 'now' is no place to start from in a Redis stream; pass 'earliest', 'latest' or an id such
    as '1700000000000-0'.
    """

    server: RedisServer
    streams: Sequence[str]
    start: str = "earliest"
    bounded: bool = False
    may_be_missing: bool = False
    encoding: str | None = "utf-8"

    def __post_init__(self) -> None:
        """Check what can be checked without the server."""
        names = (self.streams,) if isinstance(self.streams, str) else tuple(self.streams)
        object.__setattr__(self, "streams", names)
        if not names or len(set(names)) < len(names):
            raise InvalidConfiguration(f"a RedisStreamSource reads one or more different streams, not {list(names)}.")
        if self.start not in ("earliest", "latest"):
            try:
                in_order(self.start)
            except ValueError:
                raise InvalidConfiguration(
                    f"{self.start!r} is no place to start from in a Redis stream; pass 'earliest', 'latest' or an id such as "
                    "'1700000000000-0'."
                ) from None

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """Whether it ends."""
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator; it looks at the streams when it starts."""
        return RedisEnumerator(self, parallelism)

    def reader(self, context: ConnectorContext) -> RedisStreamReader:
        """Make a reader."""

        def record_of(split: RedisStreamSplit, entry: tuple[bytes, dict[bytes, bytes]]) -> RedisMessage:
            try:
                return message_of(split.id, entry, self.encoding)
            except SourceNotReadable as error:
                raise SourceNotReadable(
                    f"operator {context.operator!r}: {error}", context.operator, context.subtask
                ) from error.__cause__

        return RedisStreamReader(self.server, context, record_of)


def message_of(stream: str, entry: tuple[bytes, dict[bytes, bytes]], encoding: str | None) -> RedisMessage:
    """Return the record of an entry.

    >>> message_of("orders", (b"1-0", {b"item": b"tea"}), "utf-8").fields
    {'item': 'tea'}
    """
    number, fields = entry[0].decode(), entry[1]
    if encoding is None:
        return RedisMessage(stream, number, dict(fields))
    found: dict[Any, Any] = {}
    for name, value in fields.items():
        try:
            found[name.decode(encoding)] = value.decode(encoding)
        except UnicodeDecodeError as error:
            raise SourceNotReadable(
                f"the entry {number} of the stream {stream!r} has a field {name!r} that is no {encoding} ({error}). "
                "Read bytes with encoding=None, and decode them in a function."
            ) from error
    return RedisMessage(stream, number, found)


class RedisEnumerator(ListedSplits):
    """Splits with the ids that the streams have at the start of the job."""

    def __init__(self, source: RedisStreamSource, parallelism: int) -> None:
        super().__init__(parallelism)
        self._source = source

    def list_splits(self) -> Sequence[RedisStreamSplit]:
        """Look at each stream."""
        source = self._source
        connection = source.server.connect("funken check")
        try:
            return [self._found(connection, stream) for stream in source.streams]
        finally:
            connection.close()

    def _found(self, connection: Any, stream: str) -> RedisStreamSplit:
        source = self._source
        try:
            last = _BEGINNING
            read: int | None = 0
            added: int | None = 0
            if connection.exists(stream):
                info = connection.xinfo_stream(stream)
                last, added = info["last-generated-id"].decode(), info.get("entries-added")
                read = None if added is None else added - info["length"]
            elif not source.may_be_missing:
                raise SourceNotReadable(
                    f"the stream {stream!r} is not there at {source.server.shown}; correct its name, add an entry, or pass "
                    "may_be_missing=True."
                )
        except source.server.errors as error:
            raise SourceNotReadable(
                f"the stream {stream!r} at {source.server.shown} cannot be read: {source.server.problem(error)}"
            ) from error
        begins = {"earliest": (_BEGINNING, read), "latest": (last, added)}
        begin, before = begins.get(source.start, (source.start, None))
        split = RedisStreamSplit(stream, begin, read=before)
        return replace(split, until=last) if source.bounded else split


__all__ = ["RedisMessage", "RedisStreamSource"]
