"""What the connector tests share: a context, and a job of nothing but a source, which can crash."""

import pickle
from collections import deque

import pytest

from funken.connectors.base import Batch, ConnectorContext, NeedSplits, Wait


class SourceJob:
    """All subtasks of a source in turn; ``crash`` replaces everything by what a checkpoint would bring back."""

    def __init__(self, source, parallelism=1, limit=3):
        self.source, self.limit, self.now = source, limit, 0
        self.read = []
        self.finished = []
        self._build(parallelism)
        self.enumerator.start()

    def _build(self, parallelism):
        self.enumerator = self.source.enumerator(parallelism)
        contexts = [ConnectorContext("source", subtask, parallelism) for subtask in range(parallelism)]
        self.readers = [self.source.reader(context) for context in contexts]
        for reader in self.readers:
            reader.open()
        self.running = deque(range(parallelism))

    @classmethod
    def run_with_crash(cls, source, schedule):
        """Read all, with a crash after so many steps and perhaps another parallelism after it."""
        parallelism, limit, steps, parallelism_after = schedule
        job = cls(source, parallelism, limit)
        for _ in range(steps):
            job.step()
        job.crash(parallelism_after)
        return job.run()

    def step(self):
        """Poll one subtask; false when no subtask runs any more."""
        if not self.running:
            return False
        subtask = self.running.popleft()
        reader = self.readers[subtask]
        got = reader.poll(self.limit, self.now)
        ended = reader.split_finished()
        self.finished += ended
        match got:
            case Batch():
                assert got.values
                assert len(got.values) <= self.limit
                assert got.split not in ended, "a split ended while a batch of it was on its way"
                self.read += got.values
            case Wait():
                assert got.millis >= 1
                self.now += got.millis
            case NeedSplits():
                self.enumerator.splits_read(subtask)
                if self.enumerator.discovery_interval is not None:
                    found = self.enumerator.discover(self.now)
                    if found is not None:
                        self.enumerator.add_discovered(found)
                splits = self.enumerator.next_splits(subtask)
                if splits is None:
                    return True
                reader.add_splits(pickle.loads(pickle.dumps(splits)))
        self.running.append(subtask)
        return True

    def crash(self, parallelism=None):
        """Restore from a checkpoint taken now, perhaps at another parallelism."""
        snapshot = pickle.loads(
            pickle.dumps((self.enumerator.snapshot(), [one.snapshot_state(1) for one in self.readers]))
        )
        self.close()
        parallelism = parallelism or len(self.readers)
        self._build(parallelism)
        self.enumerator.restore(snapshot[0])
        splits = [split for each in snapshot[1] for split in each]
        for subtask, reader in enumerate(self.readers):
            reader.add_splits(splits[subtask::parallelism])

    def run(self):
        """Read to the end."""
        try:
            while self.step():
                pass
        finally:
            self.close()
        return self.read

    def close(self):
        for reader in self.readers:
            reader.close()


@pytest.fixture(scope="session")
def context():
    return ConnectorContext("here", subtask=1, parallelism=2)


@pytest.fixture(scope="session")
def job():
    return SourceJob
