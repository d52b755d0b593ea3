"""The reader of Redis streams: a thread waits for entries, so that a poll never does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from funken.connectors.base import Batch
from funken.connectors.context import ConnectorContext
from funken.connectors.reading.polled_reader import PolledReader, SplitRecords
from funken.connectors.redis.server import RedisServer
from funken.dataclass import dataclass

logger = logging.getLogger(__name__)

_ENTRIES = 1000
"""The most entries of a stream in one reply."""
_BLOCK_MS = 200
_BEGINNING = "0-0"

Entry = tuple[bytes, dict[bytes, bytes]]
RecordOf = Callable[["RedisStreamSplit", Entry], Any]


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


class RedisStreamReader(PolledReader):
    """Reads streams; ``record_of`` makes the record of an entry."""

    def __init__(self, server: RedisServer, context: ConnectorContext, record_of: RecordOf) -> None:
        super().__init__(context)
        self._server, self._record_of = server, record_of
        self._connection = server.connect(f"funken {context.operator}")
        self._count = context.metrics.counter("numRecordsFetched")
        #: by stream, up to which entry it was said that something is lost
        self._warned: dict[str, str] = {}

    def batch(self, split: RedisStreamSplit, records: Sequence[Entry]) -> Batch:
        """Make records of entries, with the times in their ids."""
        self._count.inc(len(records))
        values = [self._record_of(split, entry) for entry in records]
        return Batch(values, [in_order(entry[0].decode())[0] for entry in records], split.id)

    def advance(self, split: RedisStreamSplit, records: Sequence[Entry]) -> RedisStreamSplit:
        """Go on after the last entry."""
        return split.after(records[-1][0].decode(), len(records))

    def explain(self, error: Exception) -> Exception:
        """Say what the server's errors mean."""
        if not isinstance(error, self._server.errors):
            return error
        return self.failure(f"streams at {self._server.shown} cannot be read: {self._server.problem(error)}")

    def disconnect(self) -> None:
        """Close the connection."""
        self._connection.close()

    def fetch(self, splits: Sequence[RedisStreamSplit]) -> Sequence[SplitRecords]:
        """Read what is there; else wait for entries."""
        positions = {split.id: split for split in splits}
        found = self._there(positions)
        # A stream that is read to its end must not wait for others.
        if not found and all(split.until is None for split in splits):
            found = self._connection.xread(_after(positions), count=_ENTRIES, block=_BLOCK_MS)
        # The second version of the protocol gives pairs, the third a mapping with the entries one deeper.
        pairs = found.items() if isinstance(found, dict) else found
        entries = {_text(stream): _flat(entries) for stream, entries in pairs}
        return [block for split in positions.values() for block in self._blocks(split, entries.get(split.id, []))]

    def _blocks(self, split: RedisStreamSplit, entries: list[Entry]) -> list[SplitRecords]:
        following: RedisStreamSplit | None = split
        if split.until is not None:
            last = in_order(split.until)
            is_end = not entries or in_order(entries[-1][0].decode()) >= last
            entries = [entry for entry in entries if in_order(entry[0].decode()) <= last]
            following = None if is_end else split
        if entries and following is not None:
            following = self.advance(split, entries)
        if not entries and following == self._ahead.get(split.id):
            return []
        return [SplitRecords(split.id, entries, following, sum(map(_bytes_of, entries)))]

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
        warned = max(split.last, self._warned.get(split.id, _BEGINNING), key=in_order)
        if lost > 0 or (split.last != _BEGINNING and in_order(deleted) > in_order(warned)):
            self._warned[split.id] = deleted
            logger.warning(
                "operator %r: stream %r: %s after %s were trimmed or deleted before they were read: they are lost. Trim less "
                "(MAXLEN, MINID), or read faster.",
                self.context.operator, split.id, f"{lost} entries" if lost > 0 else "entries", split.last,
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
