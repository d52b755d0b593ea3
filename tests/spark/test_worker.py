"""The shell around a task in a worker, without Spark: nothing that goes wrong in one of its threads is lost."""

import sys
import threading
import time
from types import ModuleType

import cloudpickle
import pytest

from funken import StreamExecutionEnvironment
from funken.errors import JobExecutionError, TaskLost
from funken.plan import nodes as serialization
from funken.runtime.exchange.gate import BlockKind, decode_records, encode_records, pack_header, read_header
from funken.runtime.messages import TaskEnded, TaskFailed, TaskId
from funken.runtime.settings import CheckpointPlan, TaskSettings
from funken.runtime.task.state_manager import TaskStateSnapshot
from funken.runtime.task.task import Task as RealTask
from funken.spark import task_shell, worker
from funken.spark.task_shell import Deployment, InputEnded, SharedWorker, TaskShell
from funken.spark.worker import StageWorker
from funken.timing.clock import SystemClock

BOUND = 20
TASK = TaskId(1, 0)


def shell(*, continuous=False, **settings):
    return TaskShell(deployment(continuous=continuous, **settings), TASK, SharedWorker())


def deployment(*, continuous=False, **settings):
    settings = TaskSettings(cancel_grace=1, **settings)
    return Deployment(b"", settings, ("127.0.0.1", 0), b"", (), continuous)


class Control:
    """Takes what is reported."""

    def __init__(self):
        self.reports = []
        self.came = threading.Event()
        self.closed = False

    def send(self, event):
        self.reports.append(event)
        self.came.set()

    def close(self):
        self.closed = True


class Task:
    """A task that waits for its input."""

    has_sources = work = finished = False

    def __init__(self, closing=None):
        self.closing = closing

    def close(self):
        if self.closing is not None:
            raise self.closing


def real_task(control, *, timeout, **settings):
    """The second of three stages, which passes on what it is given, in a worker."""
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_collection([0]).rebalance().map(lambda n: n + 1).rebalance().map(lambda n: n)
    plan = env.compile()
    given = deployment(continuous=settings.get("together", False), buffer_timeout=timeout, **settings)
    task = RealTask(plan, TASK, given.settings, SystemClock(), control.send)
    task.open()
    one = StageWorker(given, [TASK], behind=1)
    one._shells[0].begin(task, control.send)
    (edge,) = (edge.id for edge in plan.edges if edge.target_stage == 1)

    def put(kind, values=()):
        content = encode_records(list(values), None, "test", 0) if kind == BlockKind.DATA else b""
        one._shells[0].put(pack_header(kind, edge, 0, 0, 0, 0, 0.0, content))

    return task, one, put


def sent(batches):
    """The blocks of some Arrow batches: records, kinds of other blocks, fillers as ``None``."""
    found = []
    for batch in batches:
        for block in batch.column(1).to_pylist():
            head = read_header(block) if block else None
            data = head is not None and head.kind == BlockKind.DATA
            found.append(
                None if head is None else decode_records(block).rows()[0] if data else BlockKind(head.kind).name
            )
    return found


def test_a_batch_task_works_off_its_mailbox_and_returns_when_it_has_finished():
    control = Control()
    task, one, put = real_task(control, timeout=10)
    put(BlockKind.DATA, [1, 2])
    put(BlockKind.DATA, [3])
    put(BlockKind.END)

    assert sent(one._loop()) == [[2, 3, 4], "WATERMARK", "END"]
    assert task.finished
    assert TaskEnded in map(type, control.reports)


def test_a_continuous_task_sends_what_it_has_when_it_is_idle_and_ends_with_its_input():
    control = Control()
    _, one, put = real_task(control, timeout=10_000, together=True)
    put(BlockKind.DATA, [1, 2])
    loop = one._loop()

    assert sent([next(loop)]) == [[2, 3], None], "with a filler behind it: Spark holds the newest row back"
    put(BlockKind.DATA, [3])
    assert sent([next(loop)]) == [[4], None]
    one._shells[0].put(InputEnded())
    assert list(loop) == []


def test_an_order_that_cannot_be_read_fails_the_task():
    tasks = shell()
    tasks.take_order(AttributeError("no class Split"))

    with pytest.raises(JobExecutionError, match=r"an order to stage 1, task 0 .* AttributeError: no class Split"):
        tasks._handle(Task(), tasks._inbox.popleft())


def test_cuts_that_cannot_be_written_fail_the_task(tmp_path, monkeypatch):
    def explode(*_):
        raise MemoryError("all of it")

    monkeypatch.setattr(task_shell, "acknowledgement_of", explode)
    control, tasks = Control(), shell(checkpoints=CheckpointPlan(str(tmp_path)))

    tasks.deliver_to(control.send)(TaskStateSnapshot(1, {}))

    assert control.came.wait(BOUND)
    (event,) = control.reports
    assert isinstance(event, TaskFailed)
    assert "MemoryError: all of it" in str(event.error)
    tasks.finish_writing()


def test_why_the_input_ended_is_told():
    def batches():
        raise ValueError("no batch")
        yield

    one = StageWorker(deployment(), [TASK], behind=1)
    one._read(batches())
    (tasks,) = one._shells

    with pytest.raises(TaskLost, match=r"ended before its data did.*\(ValueError: no batch\)"):
        tasks._handle(Task(), tasks._inbox.popleft())


@pytest.mark.parametrize(
    "closing", [None, ValueError("in close"), SystemExit("in close"), KeyboardInterrupt("in close")]
)
def test_a_worker_leaves_nothing_whatever_its_end_raises(monkeypatch, closing):
    class Broken:
        def flush(self):
            raise BrokenPipeError

    ended = []
    monkeypatch.setattr(worker, "remove_all", lambda: ended.append("removed"))
    monkeypatch.setattr(worker.os, "_exit", ended.append)
    monkeypatch.setattr(sys, "stdout", Broken())
    control, one = Control(), StageWorker(deployment(continuous=True), [TASK], behind=1)
    (tasks,) = one._shells
    tasks._task, tasks._control, tasks.send = Task(closing), control, control.send

    one._close()

    assert (ended, control.closed) == (["removed", 0], True)
    assert [isinstance(event, TaskFailed) for event in control.reports] == [True] * (closing is not None)


def test_an_input_that_does_not_end_is_told(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(worker, "_READ_SECONDS", 0.01)
    reader = threading.Thread(target=ended.wait, args=(5,), daemon=True)
    reader.start()
    try:
        with pytest.raises(TaskLost, match="the input of stage 1, task 0 did not end within"):
            StageWorker(deployment(), [TASK], behind=1)._read_on(reader)
    finally:
        ended.set()


def test_a_task_is_back_pressured_until_spark_asks_for_more(monkeypatch):
    control = Control()
    task, one, put = real_task(control, timeout=10_000, together=True)
    put(BlockKind.DATA, [1, 2])
    loop = one._loop()
    next(loop)
    time.sleep(0.05)
    put(BlockKind.DATA, [3])
    next(loop)

    assert one.blocked >= 0.05
    assert task.meter.blocked >= 0.05


def test_a_program_may_define_names_while_a_job_of_it_is_pickled(monkeypatch):
    main = ModuleType("__main__")
    main.First, main.Second = (type(name, (), {"__module__": "__main__"}) for name in ("First", "Second"))
    monkeypatch.setitem(sys.modules, "__main__", main)
    check = serialization.first_unpicklable

    def while_the_program_goes_on(values):
        main.later = "defined meanwhile"
        return check(values)

    monkeypatch.setattr(serialization, "first_unpicklable", while_the_program_goes_on)

    _, classes = cloudpickle.loads(serialization.program_bytes("a plan"))

    assert sorted(classes) == ["First", "Second"]
