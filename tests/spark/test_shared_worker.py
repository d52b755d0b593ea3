"""Several tasks in one worker, without Spark: blocks go to the task that they name, and no task waits for one without work."""

import itertools
import time

import pytest

from funken import StreamExecutionEnvironment
from funken.errors import OperatorFailed
from funken.runtime.exchange.gate import BlockKind, decode_records, encode_records, pack_header, read_header
from funken.runtime.messages import OperatorWarning, TaskEnded, TaskId
from funken.runtime.settings import TaskSettings
from funken.runtime.task.task import Task
from funken.spark import worker
from funken.spark.task_shell import Deployment, InputEnded
from funken.spark.worker import StageWorker, ThreadWatch, to_batch
from funken.timing.clock import ManualClock, SystemClock, ThreadUsage


class Shared:
    """Tasks 0 and 2 of the second of three stages, four wide, in a worker; they add one and deal what comes of it."""

    def __init__(self, function=lambda n: n + 1, timeout=10_000):
        env = StreamExecutionEnvironment.create_local_environment(4)
        env.from_collection([0]).rebalance().map(function).rebalance().map(lambda n: n)
        self.plan = env.compile()
        settings = TaskSettings(buffer_timeout=timeout, cancel_grace=1, together=True)
        self.reports = []
        self.worker = StageWorker(
            Deployment(b"", settings, ("127.0.0.1", 0), b"", (), True), [TaskId(1, 0), TaskId(1, 2)], behind=2
        )
        self.tasks = []
        for shell in self.worker._shells:
            task = Task(self.plan, shell.id, settings, SystemClock(), self.reports.append)
            task.open()
            shell.begin(task, self.reports.append)
            shell.send = self.reports.append
            self.tasks.append(task)
        (self.edge,) = (edge.id for edge in self.plan.edges if edge.target_stage == 1)
        self.loop = self.worker._loop()

    def row(self, target, kind, values=()):
        content = encode_records(list(values), None, "test", 0) if kind == BlockKind.DATA else b""
        return target, pack_header(kind, self.edge, 0, target, 0, 0, 0.0, content)

    def read(self, *rows):
        """Read a batch as the reader does."""
        for shell, item in self.worker._items(to_batch(list(rows))):
            shell.admit(item)


def records(batches):
    """What some Arrow batches have: the records by target, and the targets that have fillers."""
    found, fillers = {}, set()
    for batch in batches:
        for target, block in zip(*batch.to_pydict().values(), strict=True):
            if not block:
                fillers.add(target)
            elif read_header(block).kind == BlockKind.DATA:
                found.setdefault(target, []).extend(decode_records(block).rows()[0])
    return found, fillers


def test_each_block_goes_to_the_task_that_it_names():
    shared = Shared()
    shared.read(shared.row(0, BlockKind.DATA, [1, 2, 3, 4]), (0, b""), shared.row(2, BlockKind.DATA, [10, 20, 30, 40]))
    found, fillers = records([next(shared.loop)])

    assert sorted(itertools.chain(*found.values())) == [2, 3, 4, 5, 11, 21, 31, 41]
    assert set(found) == {0, 1, 2, 3}
    assert fillers == {0, 1}, "one for each input of the stage behind, which two workers read"
    assert [task.measured().vertices[1].records_in for task in shared.tasks] == [4, 4]


def test_a_task_that_has_something_to_do_does_not_wait_for_one_that_has_not():
    shared = Shared()
    shared.read(shared.row(2, BlockKind.DATA, [1]))
    next(shared.loop)
    shared.read(shared.row(2, BlockKind.DATA, [2]))
    found, _ = records([next(shared.loop)])

    assert list(found.values()) == [[3]]


def test_the_worker_ends_with_its_input():
    shared = Shared()
    for shell in shared.worker._shells:
        shell.put(InputEnded())

    assert records(shared.loop) == ({}, set())


def test_tasks_that_have_finished_pass_on_all_they_have():
    shared = Shared()
    rows = [shared.row(target, *each) for target in (0, 2) for each in ((BlockKind.DATA, [target]), (BlockKind.END,))]
    shared.read(*rows)
    batches = [next(shared.loop)]
    while not all(task.finished for task in shared.tasks):
        batches.append(next(shared.loop))
    found, fillers = records(batches)

    assert sorted(itertools.chain(*found.values())) == [1, 3]
    assert fillers == {0, 1}
    assert {event.task for event in shared.reports if isinstance(event, TaskEnded)} == {TaskId(1, 0), TaskId(1, 2)}


def test_what_a_function_raises_is_the_failure_of_its_task():
    shared = Shared(function=lambda n: 1 // n)
    shared.read(shared.row(2, BlockKind.DATA, [0]))

    with pytest.raises(OperatorFailed, match=r"subtask 2\) failed at the record 0"):
        next(shared.loop)
    assert shared.worker._current.id == TaskId(1, 2)


def test_tasks_that_take_turns_are_as_busy_as_if_each_had_a_thread():
    shared = Shared()
    blocks = {
        shell.id.subtask: shared.row(shell.id.subtask, BlockKind.DATA, range(2000))[1]
        for shell in shared.worker._shells
    }
    begin = time.monotonic()
    for _ in range(20):
        for shell in shared.worker._shells:
            shell._inbox.extend([blocks[shell.id.subtask]] * 2)
        next(shared.loop)
    elapsed = time.monotonic() - begin  # with the time between turns: this process may not run, or collect garbage
    turned = shared.worker.busy
    busy = [task.measured().vertices[1].busy for task in shared.tasks]

    assert sum(shell._busy for shell in shared.worker._shells) == pytest.approx(turned)
    assert max(busy) <= elapsed
    assert turned < sum(busy)
    assert all(shell.kept() > 0 for shell in shared.worker._shells)


def test_a_worker_of_one_task_is_never_kept_from_it():
    shared = Shared()
    shared.read(shared.row(2, BlockKind.DATA, [1]))
    del shared.worker._shells[0]
    next(shared.loop)
    (shell,) = shared.worker._shells

    assert shell.kept() == 0.0


class WaitingClock(ManualClock):
    """A thread that has had a core for some of the time, and could have run for some more."""

    ran = kept = 0.0

    def thread_usage(self):
        return ThreadUsage(self.ran, 0)

    def run_delay(self):
        return self.kept


@pytest.mark.parametrize(("ran", "kept", "share"), [(0, 0, 0.4), (2, 0, 0.2), (1, 2, 0.1), (4, 1, 0.0)])
def test_what_waits_neither_runs_nor_is_kept_from_a_core(ran, kept, share):
    clock = WaitingClock()
    waits = ThreadWatch(clock)
    assert waits.turned(0.5) == (0.0, 0.0)
    clock.advance(9_999)
    assert waits.turned(3.0) == (0.0, 0.0)
    clock.advance(1)
    clock.ran, clock.kept = ran, kept

    assert waits.turned(1.0) == pytest.approx((share, kept / 10))


def test_functions_that_make_others_wait_are_warned_of(monkeypatch):
    monkeypatch.setattr(worker, "_WATCH_SECONDS", 0.05)
    shared = Shared(function=lambda n: time.sleep(0.002))
    for _ in range(3):
        shared.read(shared.row(2, BlockKind.DATA, range(20)))
        next(shared.loop)
    (warning,) = [event for event in shared.reports if isinstance(event, OperatorWarning) and event.kind != "blocking"]

    assert (warning.task, warning.kind) == (TaskId(1, 2), "waits")
    assert warning.operator == shared.plan.at(1)[0].nodes[0].id
    assert "% of the time" in warning.text
    assert "Set execution.subtasks-per-worker to 1" in warning.text


@pytest.mark.parametrize(("task", "workers", "kept", "driver", "told"), [
    (TaskId(0, 0), 16, 0.8, "127.0.0.1", True), (TaskId(0, 0), 16, 0.3, "127.0.0.1", False),
    (TaskId(0, 0), 2, 0.8, "127.0.0.1", False), (TaskId(0, 1), 16, 0.8, "127.0.0.1", False),
    (TaskId(1, 0), 16, 0.8, "127.0.0.1", False), (TaskId(0, 0), 16, 0.8, "10.0.0.1", False),
])  # fmt: skip
def test_a_user_whose_workers_wait_for_cores_learns_that_subtasks_may_share_them(
    monkeypatch, task, workers, kept, driver, told
):
    monkeypatch.setattr(worker, "usable_cores", lambda: 3)
    texts = []
    monkeypatch.setattr("funken.spark.task_shell.TaskShell.warn", lambda self, kind, text: texts.append(text))
    one = StageWorker(Deployment(b"", TaskSettings(), (driver, 0), b"", (), True), [task], 1, workers)
    for _ in range(2):
        if one._watch is not None:
            one._advise(0.0, kept)

    assert [text.partition(". ")[0] for text in texts] == (
        ["the 16 workers of its stage wait for one of 3 cores 80% of the time"] if told else []
    )
    assert all("let 6 subtasks share a worker" in text and "execution.subtasks-per-worker" in text for text in texts)
