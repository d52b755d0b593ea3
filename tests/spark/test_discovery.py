"""A source that takes long to list what is new holds nobody up: checkpoints complete, records flow."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from funken import NumberSequenceSource, Source, SplitEnumerator, WatermarkStrategy
from funken.connectors.base import ConnectorContext
from tests.support.files import file_sink, written

pytestmark = [pytest.mark.spark, pytest.mark.ways("continuous"), pytest.mark.timeout(300)]

BOUND = 120


def wait_until(condition, what):
    limit = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < limit, f"{what}: not within {BOUND} s"
        threading.Event().wait(0.01)


class SlowFolder(SplitEnumerator):
    """Knows one split, and finds another when a file says so."""

    discovery_interval = 100

    def __init__(self, folder):
        self.folder = folder
        self.inner = NumberSequenceSource(1, 2).enumerator(2)
        self.new = self.inner.next_splits(0)

    def discover(self, now):
        Path(self.folder, "looking").touch()
        for _ in range(BOUND * 100):
            if os.path.exists(f"{self.folder}/found"):
                return True
            threading.Event().wait(0.01)
        raise TimeoutError

    def add_discovered(self, found):
        more = self.inner.next_splits(1)
        self.new += more or []
        return bool(more)

    def next_splits(self, subtask):
        new, self.new = self.new, []
        return new

    def snapshot(self):
        return list(self.new)


@dataclass(frozen=True)
class SlowSource(Source):
    folder: str
    max_parallelism = 1

    def enumerator(self, parallelism):
        return SlowFolder(self.folder)

    def reader(self, context: ConnectorContext):
        return NumberSequenceSource(1, 2).reader(context)


def test_checkpoints_complete_while_a_source_looks_for_new_splits(environment, tmp_path):
    env = environment(
        {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.job-id": "one",
        }
    )
    stream = env.from_source(SlowSource(str(tmp_path)), WatermarkStrategy.no_watermarks(), "slow")
    stream.map(str).sink_to(file_sink(tmp_path))
    client = env.execute_async()
    wait_until((tmp_path / "looking").exists, "a look begins")

    wait_until(lambda: written(tmp_path) == {"1": 1}, "what is read is committed by a checkpoint meanwhile")

    (tmp_path / "found").touch()
    wait_until(lambda: written(tmp_path) == {"1": 1, "2": 1}, "what was found is read")
    client.cancel().result(BOUND)
