"""Looking for new splits: beside everything else, one look at a time, and nothing is lost in between."""

import logging
import threading
from dataclasses import dataclass

import pytest

from funken import Source, SplitEnumerator, StreamExecutionEnvironment, WatermarkStrategy
from funken.errors import JobExecutionError, SourceNotReadable
from funken.ids import OperatorId
from funken.runtime.driver.discovery import Discovery, at_once, beside
from funken.runtime.driver.master import JobMaster
from funken.runtime.messages import AddSplits, SplitsDiscovered, SplitsRequested, TaskId, TaskStarted, TriggerCheckpoint

BOUND = 20
TASK = TaskId(0, 0)
SOURCE = OperatorId(7)


class Looking(SplitEnumerator):
    """Finds one split per look, when it is let; notes who calls what at the same time."""

    discovery_interval = 1000

    def __init__(self):
        self.splits = []
        self.looks = 0
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.error = None

    def discover(self, now):
        self.looks += 1
        self.begun.release()
        assert self.may_end.acquire(timeout=BOUND)
        if self.error is not None:
            raise self.error
        return [f"split of {now}"]

    def add_discovered(self, found):
        self.splits += found
        return True

    def next_splits(self, subtask):
        splits, self.splits = self.splits, []
        return splits

    def snapshot(self):
        return list(self.splits)


@dataclass(frozen=True)
class LookingSource(Source):
    def enumerator(self, parallelism):
        return Looking()


@pytest.fixture
def enumerator():
    return Looking()


@pytest.fixture
def discovery(enumerator):
    return Discovery("job", {SOURCE: enumerator}, {SOURCE: "folder"})


def found(poll, now):
    """Poll until there is something."""
    limit = threading.Event()
    for _ in range(BOUND * 100):
        if result := poll(now):
            return result
        limit.wait(0.01)
    raise AssertionError("nothing was found")


def test_a_slow_look_delays_neither_requests_nor_checkpoints():
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_source(LookingSource(), WatermarkStrategy.no_watermarks(), "folder").print()
    master = JobMaster(env.compile("test"))
    master.discovery.run = beside
    (operator,) = master._sources._enumerators
    enumerator = master._sources._enumerators[operator]
    sent = []
    master.send = lambda task, command: sent.append(command)
    master.handle(TaskStarted(TASK))
    assert master.discover(0) == []
    assert master.discover(1000) == []
    assert enumerator.begun.acquire(timeout=BOUND)
    done = threading.Event()

    def others():
        master.handle(SplitsRequested(TASK, operator=operator))
        assert master.trigger([TASK], TriggerCheckpoint(1)) == {operator: []}
        assert master.discover(5000) == []
        done.set()

    threading.Thread(target=others, daemon=True).start()

    assert done.wait(BOUND), "while the look goes on"
    assert sent == [AddSplits(operator, 0), TriggerCheckpoint(1)]
    assert enumerator.looks == 1, "one at a time"
    enumerator.may_end.release()
    assert found(master.discover, 1500) == [(TASK, SplitsDiscovered(operator))]
    master.handle(SplitsRequested(TASK, operator=operator))
    assert sent[-1] == AddSplits(operator, 0, splits=("split of 1000",))


def test_at_once_what_is_found_is_there_at_once(discovery, enumerator):
    assert discovery.run is at_once
    for _ in range(2):
        enumerator.may_end.release()

    assert [discovery.poll(now) for now in (0, 999, 1000, 1500, 2000)] == [
        [], [], [(SOURCE, ["split of 1000"])], [], [(SOURCE, ["split of 2000"])]
    ]  # fmt: skip


def test_a_look_that_takes_longer_than_the_interval_is_followed_by_the_next(discovery, enumerator):
    discovery.run = beside
    discovery.poll(0)
    discovery.poll(1000)
    assert discovery.poll(9000) == []
    enumerator.may_end.release()
    assert found(discovery.poll, 9000) == [(SOURCE, ["split of 1000"])]
    assert enumerator.looks == 1

    enumerator.may_end.release()
    assert found(discovery.poll, 9001) == [(SOURCE, ["split of 9001"])]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SourceNotReadable("'/in' does not exist"), "'/in' does not exist"),
        (KeyError("in"), r"source 'folder' failed when it looked for new splits: KeyError: 'in'"),
    ],
)
def test_a_look_that_fails_is_raised_with_the_source(discovery, enumerator, error, message):
    discovery.run = beside
    discovery.poll(0)
    enumerator.error = error
    enumerator.may_end.release()

    with pytest.raises(JobExecutionError, match=message):
        found(discovery.poll, 1000)


def test_a_look_that_takes_very_long_is_told_of_once(discovery, enumerator, caplog):
    discovery.run = beside
    discovery.poll(0)
    with caplog.at_level(logging.WARNING):
        for now in (1000, 60_999, 61_000, 70_000):
            discovery.poll(now)
    enumerator.may_end.release()

    (record,) = caplog.records
    assert "source 'folder' has been looking for new splits for 60 s" in record.getMessage()


def test_a_source_without_an_interval_is_never_looked_at(discovery, enumerator):
    enumerator.discovery_interval = None
    assert [discovery.poll(now) for now in (0, 10**9)] == [[], []]
    assert enumerator.looks == 0
