"""What all readers share whose service is asked in a thread."""

import threading
from collections import deque
from dataclasses import dataclass, replace

import pytest

from funken.connectors import ConnectorContext
from funken.connectors.base import NEED_SPLITS, Wait
from funken.connectors.reading import FeedReader, PeerClosed, PolledReader, SplitRecords
from funken.errors import SourceNotReadable
from funken.metrics.registry import MetricGroup


@dataclass(frozen=True)
class Shelf:
    id: str
    position: int = 0


class Shelves(PolledReader):
    """Reads the numbers 0, 1, ... of each shelf, three in a block, up to its end."""

    def __init__(self, context, ends):
        super().__init__(context)
        self.ends, self.asked, self.failure_of_service = ends, [], None

    def fetch(self, splits):
        if self.failure_of_service:
            raise self.failure_of_service
        self.asked.append([split.id for split in splits])
        blocks = []
        for split in splits:
            end = min(split.position + 3, self.ends[split.id])
            records = range(split.position, end)
            following = None if end == self.ends[split.id] else replace(split, position=end)
            blocks.append(SplitRecords(split.id, records, following, 10 * len(records)))
        return blocks

    def advance(self, split, records):
        return replace(split, position=split.position + len(records))


def start(reader_class, *more, splits=()):
    woken = threading.Semaphore(0)
    metrics = MetricGroup()
    reader = reader_class(ConnectorContext("shelves", 1, 2, wake=woken.release, metrics=metrics), *more)
    reader.woken, reader.metrics = woken, metrics
    reader.add_splits(splits)
    return reader


def next_batch(reader, limit=9):
    while isinstance(got := reader.poll(limit, 0), Wait):
        assert got == Wait(None)
        assert reader.woken.acquire(timeout=10)
    return got


def read_all(reader, limit=9):
    found = {}
    while (got := next_batch(reader, limit)) is not NEED_SPLITS:
        assert len(got.values) <= limit
        found.setdefault(got.split, []).extend(got.values)
    return found


def test_splits_are_read_to_their_ends_and_their_bytes_counted():
    reader = start(Shelves, {"a": 7, "b": 4}, splits=[Shelf("a"), Shelf("b", 2)])
    assert read_all(reader, limit=2) == {"a": [*range(7)], "b": [2, 3]}
    assert sorted(reader.split_finished()) == ["a", "b"]
    assert reader.snapshot_state(1) == []
    assert reader.metrics.snapshot() == {"numBytesIn": 90}
    reader.close()


@pytest.mark.parametrize("polls", range(8))
def test_a_snapshot_at_any_poll_has_what_was_not_emitted(polls):
    reader = start(Shelves, {"a": 7, "b": 4}, splits=[Shelf("a"), Shelf("b")])
    found = {"a": [], "b": []}
    for _ in range(polls):
        if (got := next_batch(reader, 2)) is not NEED_SPLITS:
            found[got.split] += got.values
    again = start(Shelves, {"a": 7, "b": 4}, splits=reader.snapshot_state(1))
    for split, records in read_all(again, 2).items():
        found[split] += records
    assert found == {"a": [*range(7)], "b": [*range(4)]}
    reader.close()
    again.close()


def test_a_paused_split_is_neither_asked_for_nor_emitted_and_loses_nothing():
    reader = start(Shelves, {"a": 100, "b": 50}, splits=[Shelf("a"), Shelf("b")])
    found = {"a": [], "b": []}
    first = next_batch(reader, 2)
    found[first.split] += first.values
    reader.pause_or_resume_splits(["a"], [])
    paused = list(found["a"])
    while len(found["b"]) < 50:
        got = next_batch(reader, 2)
        assert got.split == "b"
        found["b"] += got.values
    assert isinstance(reader.poll(2, 0), Wait)
    assert found["a"] == paused
    position = next(split.position for split in reader.snapshot_state(1) if split.id == "a")
    assert position == len(paused)
    assert len([ids for ids in reader.asked if "a" in ids]) < 30, "no more was asked for"
    reader.pause_or_resume_splits([], ["a"])
    found["a"] += read_all(reader, 5)["a"]
    assert found == {"a": [*range(100)], "b": [*range(50)]}
    reader.close()


def test_an_error_of_the_service_names_the_operator_and_comes_after_the_records_before_it():
    reader = start(Shelves, {"a": 6})
    reader.failure_of_service = OSError("cut")
    reader.add_splits([Shelf("a")])
    with pytest.raises(SourceNotReadable, match=r"operator 'shelves': OSError: cut") as failed:
        read_all(reader)
    assert isinstance(failed.value.__cause__, OSError)
    assert failed.value.subtask == 1
    reader.close()


def test_without_splits_it_needs_some():
    reader = start(Shelves, {})
    assert reader.poll(9, 0) is NEED_SPLITS
    reader.close()


# ---- feeds


class Feed(FeedReader):
    """Plays a script: connections, each a list of blocks and then an error."""

    first_pause_s = longest_pause_s = 0.001

    def __init__(self, context, script, max_retries):
        super().__init__(context, max_retries)
        self.script, self.closed = deque(script), 0

    def connect(self):
        if not self.script:
            raise ConnectionRefusedError("nobody")
        self.connection = deque(self.script.popleft())

    def receive(self):
        got = self.connection.popleft()
        if isinstance(got, Exception):
            raise got
        return got, len(got)

    def disconnect(self):
        self.closed += 1

    def explain(self, error):
        return self.failure(str(error))


FEED = [Shelf("feed")]


def test_a_feed_ends_when_the_peer_closes_and_nobody_answers():
    reader = start(Feed, [[["a"], ["b"], PeerClosed()], [["c"], PeerClosed()]], 2, splits=FEED)
    assert read_all(reader) == {"feed": ["a", "b", "c"]}
    assert reader.split_finished() == ["feed"]
    reader.close()
    assert reader.closed > 2


def test_a_feed_that_breaks_fails_after_so_many_retries():
    reader = start(Feed, [[["a"], OSError("cut")], [OSError("cut again")]], 1, splits=FEED)
    assert next_batch(reader).values == ["a"]
    with pytest.raises(SourceNotReadable, match="operator 'shelves': cut again"):
        read_all(reader)
    reader.close()


def test_what_arrives_sets_the_count_of_retries_back():
    reader = start(Feed, [[["a"], OSError("cut")]] * 5 + [[["b"], PeerClosed()]], 1, splits=FEED)
    assert read_all(reader) == {"feed": ["a"] * 5 + ["b"]}
    reader.close()
