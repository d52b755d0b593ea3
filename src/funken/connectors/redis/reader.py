"""The reader of Redis streams: a thread waits for entries, so that a poll never does."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from funken.connectors.base import NEED_SPLITS, Batch, NeedSplits, SourceReader, Wait
from funken.connectors.context import ConnectorContext
from funken.connectors.reading.background_fetcher import BackgroundFetcher
from funken.connectors.redis.server import RedisServer
from funken.dataclass import dataclass
from funken.errors import SourceNotReadable

logger = logging.getLogger(__name__)

_ENTRIES = 1000
"""The most entries of a stream in one reply."""
_BLOCK_MS = 200
_BEGINNING = "0-0"

Entry = tuple[bytes, dict[bytes, bytes]]
_Block = tuple[str, list[Entry], bool]
"""A stream, entries, and whether that was the end of it."""
Made = Callable[["RedisStreamSplit", Entry], Any]


@dataclass(frozen=True, slots=True)
class RedisStreamSplit:
    """A stream: ``last`` is the id of the last entry that was read, ``until`` of the last one to be read, if it is bounded.

    ``read`` is how many entries were added to the stream up to that one, if it is known: so what was deleted unread is noticed.
    """

    id: str
    last: str
    until: str | None = None
    read: int | None = None

    def after(self, last: str, count: int) -> RedisStreamSplit:
        """Return the split when some more entries were read."""
        return replace(self, last=last, read=None if self.read is None else self.read + count)


def in_order(entry_id: str) -> tuple[int, int]:
    """Return the parts of an id, which are in the order of entries; raises ``ValueError`` if it is none.

    >>> in_order("1700000000000-3"), in_order("5")
    ((1700000000000, 3), (5, 0))
    """
    millis, _, number = entry_id.partition("-")
    return int(millis), int(number or 0)


class RedisStreamReader(SourceReader):
    """Reads streams; ``made`` makes the record of an entry."""

    def __init__(self, server: RedisServer, context: ConnectorContext, made: Made) -> None:
        self._context, self._made = context, made
        self._splits: dict[str, RedisStreamSplit] = {}
        self._entries: deque[Entry] = deque()
        self._of = ""
        self._ended: list[str] = []
        self._streams = _Streams(server, context)
        self._count = context.metrics.counter("numRecordsFetched")
        self._bytes = context.metrics.counter("numBytesIn")

    def add_splits(self, splits: Sequence[RedisStreamSplit]) -> None:
        """Read these streams too."""
        for split in splits:
            self._splits[split.id] = split
        self._streams.add(splits)

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return entries of one stream, as many as have come."""
        while not self._entries:
            block = self._streams.take()
            if block is None:
                return Wait(None) if self._splits else NEED_SPLITS
            self._of, entries, ended = block
            self._entries.extend(entries)
            self._count.inc(len(entries))
            self._bytes.inc(sum(map(_bytes_of, entries)))
            if ended and not entries:
                self._end(self._of)
        split = self._splits[self._of]
        values: list[Any] = []
        timestamps: list[int] = []
        while self._entries and len(values) < limit:
            entry = self._entries.popleft()
            values.append(self._made(split, entry))
            last = entry[0].decode()
            timestamps.append(in_order(last)[0])
        self._splits[self._of] = split.after(last, len(values))
        return Batch(values, timestamps, split=self._of)

    def _end(self, stream: str) -> None:
        del self._splits[stream]
        self._ended.append(stream)

    def split_finished(self) -> list[str]:
        """Return the streams that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the streams with their positions."""
        return list(self._splits.values())

    def close(self) -> None:
        """End the thread."""
        self._streams.fetcher.stop()


class _Streams:
    """The streams of a reader, and how far each is fetched; ``fetch`` runs in a thread."""

    def __init__(self, server: RedisServer, context: ConnectorContext) -> None:
        self._server, self._context = server, context
        self._connection = server.connect(f"funken {context.operator}")
        self._lock = threading.Lock()
        self._positions: dict[str, RedisStreamSplit] = {}
        #: by stream, up to which entry it was said that something is lost
        self._told: dict[str, str] = {}
        self.fetcher = BackgroundFetcher[_Block]("redis", self._fetch, context.wake, self._connection.close)

    def add(self, splits: Sequence[RedisStreamSplit]) -> None:
        """Fetch from these, too."""
        with self._lock:
            self._positions.update({split.id: split for split in splits})
        self.fetcher.start()

    def take(self) -> _Block | None:
        """Return the next block, ``None`` if there is none."""
        try:
            return self.fetcher.take()
        except self._server.errors as error:
            raise SourceNotReadable(
                f"operator {self._context.operator!r}: streams at {self._server.shown} cannot be read: "
                f"{self._server.problem(error)}",
                self._context.operator,
                self._context.subtask,
            ) from error

    def _fetch(self) -> list[_Block]:
        with self._lock:
            positions = dict(self._positions)
        if not positions:
            self.fetcher.pause(_BLOCK_MS / 1000)
            return []
        found = self._there(positions)
        # A stream that is read to its end must not wait for others.
        if not found and all(split.until is None for split in positions.values()):
            found = self._connection.xread(_after(positions), count=_ENTRIES, block=_BLOCK_MS)
        # The second version of the protocol gives pairs, the third a mapping with the entries one deeper.
        pairs = found.items() if isinstance(found, dict) else found
        return self._blocks({_text(stream): _flat(entries) for stream, entries in pairs}, positions)

    def _there(self, positions: dict[str, RedisStreamSplit]) -> Any:
        """Read what is there, and in the same moment look for what was deleted before it was read."""
        with self._connection.pipeline(transaction=True) as pipeline:
            for stream in positions:
                pipeline.xinfo_stream(stream)
            pipeline.xread(_after(positions), count=_ENTRIES)
            *infos, found = pipeline.execute(raise_on_error=False)
        if isinstance(found, Exception):
            raise found
        caught_up = positions.keys() - {_text(stream) for stream in dict(found)}
        for stream, info in zip(list(positions), infos, strict=True):
            if isinstance(info, dict):  # else the stream is not there
                positions[stream] = self._looked_at(positions[stream], info, stream in caught_up)
        return found

    def _blocks(self, found: dict[str, list[Entry]], positions: dict[str, RedisStreamSplit]) -> list[_Block]:
        blocks: list[_Block] = []
        with self._lock:
            for stream, split in positions.items():
                entries = found.get(stream, [])
                more = bool(entries)
                if split.until is not None:
                    upto = in_order(split.until)
                    more = more and in_order(entries[-1][0].decode()) < upto
                    entries = [entry for entry in entries if in_order(entry[0].decode()) <= upto]
                if entries:
                    split = split.after(entries[-1][0].decode(), len(entries))  # noqa: PLW2901 - the one after it
                    blocks.append((stream, entries, False))
                self._positions[stream] = split
                if split.until is not None and not more:
                    del self._positions[stream]
                    blocks.append((stream, [], True))
        return blocks

    def _looked_at(self, split: RedisStreamSplit, info: dict[str, Any], caught_up: bool) -> RedisStreamSplit:
        """Warn of entries that are gone and were not read; return the split with what is known of its place."""
        added = info.get("entries-added")  # Redis before 7 has none of this
        if added is None:
            return split
        first, lost = info["first-entry"], 0
        behind = first is None or in_order(first[0].decode()) > in_order(split.last)
        if (
            split.read is not None and behind
        ):  # all that is there was not read, so what is not there and not read is gone
            lost = added - split.read - info["length"]
        deleted = info.get("max-deleted-entry-id", b"0-0").decode()
        told = max(split.last, self._told.get(split.id, _BEGINNING), key=in_order)
        if lost > 0 or (split.last != _BEGINNING and in_order(deleted) > in_order(told)):
            self._told[split.id] = deleted
            logger.warning(
                "operator %r: stream %r: %s after %s were trimmed or deleted before they were read: they are lost. Trim less "
                "(MAXLEN, MINID), or read faster.",
                self._context.operator, split.id, f"{lost} entries" if lost > 0 else "entries", split.last,
            )  # fmt: skip
        if caught_up:
            return replace(split, read=added)
        return split if not lost or split.read is None else replace(split, read=split.read + lost)


def _after(positions: dict[str, RedisStreamSplit]) -> dict[str, str]:
    return {stream: split.last for stream, split in positions.items()}


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _bytes_of(entry: Entry) -> int:
    """Return how long the id, the names and the values of an entry are."""
    entry_id, fields = entry
    return len(entry_id) + sum(map(len, fields)) + sum(map(len, fields.values()))


def _flat(entries: Any) -> list[Entry]:
    """Return the entries that have fields: one that was deleted since has none."""
    flat = entries[0] if entries and isinstance(entries[0], list) else entries
    return [(entry_id, fields) for entry_id, fields in flat if fields is not None]


__all__ = ["RedisStreamReader", "RedisStreamSplit", "in_order"]
