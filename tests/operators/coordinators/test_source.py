"""The coordinator of a source: splits are assigned once, looks for new ones run beside everything else, one at a time."""

import logging
import threading
from dataclasses import dataclass

import pytest

from funken import NumberSequenceSource, Source, SplitEnumerator, StreamExecutionEnvironment, WatermarkStrategy
from funken.errors import JobExecutionError, SourceNotReadable
from funken.ids import MAX_WATERMARK
from funken.operators.coordinators import (
    AddSplits,
    AlignWatermark,
    OperatorCoordinatorContext,
    ReportWatermark,
    RequestSplits,
    SourceCoordinator,
    SplitsDiscovered,
)
from funken.runtime.driver.coordinators import CoordinatorWorker
from funken.runtime.driver.master import JobMaster
from funken.runtime.messages import CoordinatorEvent, OperatorEvent, TaskId, TaskStarted, TriggerCheckpoint

BOUND = 20
TASK = TaskId(0, 0)


class Looking(SplitEnumerator):
    """Finds one split per look, when it is let; notes how often it is called."""

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


class Sent(list):
    """What a coordinator sends; ``came`` waits for so much of it."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()

    def __call__(self, subtask, payload):
        with self._changed:
            self.append((subtask, payload))
            self._changed.notify_all()

    def came(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self) >= count, BOUND)


@pytest.fixture
def sent():
    return Sent()


@pytest.fixture
def failures():
    return []


@pytest.fixture
def threaded(sent, failures):
    """A coordinator with a worker thread, and its enumerator."""
    failed = threading.Semaphore(0)

    def fail(error):
        failures.append(error)
        failed.release()

    worker = CoordinatorWorker("looks", threading.Event(), threading.RLock(), fail)
    context = OperatorCoordinatorContext("folder", job_name="job", send_event=sent, worker=worker)
    coordinator = SourceCoordinator(context, LookingSource())
    coordinator.failed = failed
    yield coordinator, coordinator.enumerator
    worker.close()


def test_splits_are_assigned_once_and_again_to_a_subtask_that_begins_again(sent):
    coordinator = SourceCoordinator(OperatorCoordinatorContext("n", send_event=sent), NumberSequenceSource(1, 4))
    coordinator.start()
    for _ in range(2):
        coordinator.handle_event(0, RequestSplits())
    coordinator.subtask_failed(0)
    for _ in range(2):
        coordinator.handle_event(0, RequestSplits())

    (_, first), (_, end), (_, again), (_, last) = sent
    assert first.splits
    assert again.splits == first.splits
    assert end.no_more
    assert last.no_more


@pytest.mark.parametrize("state", [None, [], ["a split"]])
def test_whatever_the_snapshot_of_an_enumerator_is_it_is_restored_and_not_started(state):
    calls = []

    class Noting(SplitEnumerator):
        def start(self):
            calls.append("start")

        def snapshot(self):
            return state

        def restore(self, snapshot):
            calls.append(snapshot)

    class Noted(Source):
        def enumerator(self, parallelism):
            return Noting()

    def made():
        return SourceCoordinator(OperatorCoordinatorContext("n"), Noted())

    first = made()
    first.start()
    again = made()
    again.reset_to_checkpoint(1, first.checkpoint(1))
    again.start()

    assert calls == ["start", state]


def test_a_slow_look_delays_neither_requests_nor_checkpoints():
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_source(LookingSource(), WatermarkStrategy.no_watermarks(), "folder").print()
    plan = env.compile("test")
    operator = plan.vertices[0].nodes[0].id
    master = JobMaster(plan)
    (source,) = master.coordinators.sources()
    enumerator = source.enumerator
    sent = Sent()
    master.send = sent
    master.handle(TaskStarted(TASK))
    master.advance(0)
    master.advance(1000)
    assert enumerator.begun.acquire(timeout=BOUND)
    done = threading.Event()

    def others():
        master.handle(CoordinatorEvent(TASK, operator, 0, RequestSplits()))
        assert master.trigger([TASK], TriggerCheckpoint(1)) == {operator: ([],)}
        master.advance(5000)
        done.set()

    threading.Thread(target=others, daemon=True).start()

    assert done.wait(BOUND), "while the look goes on"
    assert sent == [(TASK, OperatorEvent(operator, 0, AddSplits())), (TASK, TriggerCheckpoint(1))]
    assert enumerator.looks == 1, "one at a time"
    enumerator.may_end.release()
    sent.came(3)
    assert sent[2] == (TASK, OperatorEvent(operator, 0, SplitsDiscovered()))
    master.handle(CoordinatorEvent(TASK, operator, 0, RequestSplits()))
    assert sent[-1] == (TASK, OperatorEvent(operator, 0, AddSplits(("split of 1000",))))
    master.close()


def test_without_a_thread_what_is_found_is_there_at_once(sent):
    coordinator = SourceCoordinator(OperatorCoordinatorContext("n", parallelism=2, send_event=sent), LookingSource())
    for _ in range(2):
        coordinator.enumerator.may_end.release()

    counts = []
    for now in (0, 999, 1000, 1500, 2000):
        coordinator.tick(now)
        counts.append(len(sent))

    assert counts == [0, 0, 2, 2, 4], "each subtask is told"
    assert coordinator.enumerator.splits == ["split of 1000", "split of 2000"]


def test_a_look_that_takes_longer_than_the_interval_is_followed_by_the_next(threaded, sent):
    coordinator, enumerator = threaded
    for now in (0, 1000, 9000):
        coordinator.tick(now)
    enumerator.may_end.release()
    sent.came(1)
    assert enumerator.looks == 1

    enumerator.may_end.release()
    coordinator.tick(9001)
    sent.came(2)
    assert enumerator.splits == ["split of 1000", "split of 9001"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SourceNotReadable("'/in' does not exist"), "'/in' does not exist"),
        (KeyError("in"), "source 'folder' failed when it looked for new splits: KeyError: 'in'"),
    ],
)
def test_a_look_that_fails_fails_the_job_with_the_source(threaded, failures, error, message):
    coordinator, enumerator = threaded
    enumerator.error = error
    enumerator.may_end.release()
    for now in (0, 1000):
        coordinator.tick(now)

    assert coordinator.failed.acquire(timeout=BOUND)
    assert isinstance(failures[0], JobExecutionError)
    assert message in str(failures[0])


def test_a_look_that_takes_very_long_is_warned_of_once(threaded, caplog):
    coordinator, enumerator = threaded
    with caplog.at_level(logging.WARNING):
        for now in (0, 1000, 60_999, 61_000, 70_000):
            coordinator.tick(now)
    enumerator.may_end.release()

    (record,) = caplog.records
    assert "job 'job': source 'folder' has been looking for new splits for 60 s" in record.getMessage()


def test_a_source_without_an_interval_is_never_looked_at(sent):
    coordinator = SourceCoordinator(OperatorCoordinatorContext("n", send_event=sent), LookingSource())
    coordinator.enumerator.discovery_interval = None
    for now in (0, 10**9):
        coordinator.tick(now)
    assert coordinator.enumerator.looks == 0


def test_sources_of_one_alignment_group_wait_for_the_slowest(sent):
    shared = {}

    def source(name, drift):
        def send(subtask, payload):
            sent(f"{name} {subtask}", payload)

        context = OperatorCoordinatorContext(name, operator_uid=name, send_event=send, shared=shared)
        return SourceCoordinator(context, NumberSequenceSource(1, 4), ("group", drift, 100))

    slow, fast = source("slow", 10), source("fast", 20)
    slow.handle_event(0, ReportWatermark(100))
    fast.handle_event(1, ReportWatermark(500))
    slow.handle_event(0, ReportWatermark(MAX_WATERMARK))

    assert sent == [
        ("slow 0", AlignWatermark(110)),
        *(("slow 0", AlignWatermark(110)), ("fast 1", AlignWatermark(120))),
        *(("slow 0", AlignWatermark(510)), ("fast 1", AlignWatermark(520))),
    ]
