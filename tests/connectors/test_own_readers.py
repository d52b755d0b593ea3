"""Readers of programs that define ``__init__`` as they like: no class of Funken's needs what theirs would have set."""

from dataclasses import dataclass

import pytest

from funken import HybridSource, NumberSequenceSource, StreamExecutionEnvironment
from funken.connectors import RateLimitedSource, Source, SplitEnumerator
from funken.connectors.base import NEED_SPLITS, Batch, Boundedness, SourceReader


class BareReader(SourceReader):
    def __init__(self, records):
        self.left, self.records = [], records

    def add_splits(self, splits):
        self.left += splits

    def poll(self, limit, now):
        if not self.left:
            return NEED_SPLITS
        return Batch([self.records[self.left.pop()]])

    def snapshot_state(self, checkpoint_id):
        return list(self.left)


class Once(SplitEnumerator):
    def __init__(self, splits):
        self.splits = splits

    def next_splits(self, subtask):
        splits, self.splits = self.splits, []
        return splits or None

    def snapshot_state(self, checkpoint_id):
        return self.splits


@dataclass(frozen=True)
class Bare(Source):
    records: tuple
    boundedness = Boundedness.BOUNDED

    def enumerator(self, parallelism):
        return Once(list(range(len(self.records))))

    def reader(self, context):
        return BareReader(self.records)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Bare(("a", "b")), ["a", "b"]),
        (RateLimitedSource(Bare(("a", "b")), 10_000), ["a", "b"]),
        (HybridSource.builder(Bare(("a", "b"))).add_source(NumberSequenceSource(1, 2)).build(), [1, 2, "a", "b"]),
        (RateLimitedSource(RateLimitedSource(Bare(("c",)), 10_000), 10_000), ["c"]),
    ],
)
def test_a_reader_needs_no_init_of_its_base(source, expected):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    assert sorted(env.from_source(source).execute_and_collect(limit=10), key=str) == expected
