"""Several subtasks in one worker, on Spark: fewer processes, the same results, whatever is lost or changed meanwhile."""

import logging
import os
from collections import Counter

import pytest

from funken import DataGeneratorSource, KeyedProcessFunction, ValueStateDescriptor, WatermarkStrategy
from funken.runtime.driver.master import JobMaster
from funken.runtime.messages import TaskStarted
from tests.support.crashes import kill_once
from tests.support.files import file_sink, written
from tests.support.streams import collected

pytestmark = [pytest.mark.ways("continuous"), pytest.mark.parametrize("parallelism", [5])]
WAIT, COUNT = 120, 6_000


@pytest.fixture
def started(monkeypatch):
    """The processes of the tasks that have started, by stage."""
    found = []
    handle = JobMaster.handle

    def recording(self, event):
        if isinstance(event, TaskStarted):
            found.append((event.task, event.pid))
        return handle(self, event)

    monkeypatch.setattr(JobMaster, "handle", recording)
    return found


def per_worker(environment, folder=None, **options):
    checkpoints = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    given = {"execution.subtasks-per-worker": 2} | (checkpoints if folder else {}) | options
    return environment(given)


def test_as_many_subtasks_as_the_option_says_share_a_worker(environment, started):
    env = per_worker(environment)
    numbers = env.from_source(DataGeneratorSource(int, COUNT), WatermarkStrategy.no_watermarks(), "numbers")
    sums = numbers.key_by(lambda n: n % 7).map(lambda n: (n % 7, os.getpid())).rebalance().map(lambda pair: pair)

    assert env.compile().slots == 3 * 3 and env.compile().widths == (5, 5, 5)
    found = collected(sums)

    assert Counter(key for key, _ in found) == Counter(n % 7 for n in range(COUNT))
    workers = {}
    for task, pid in started:
        workers.setdefault((task.stage, pid), set()).add(task.subtask)
    assert sorted((stage, *sorted(tasks)) for (stage, _), tasks in workers.items() if stage == 1) == [
        (1, 0, 3), (1, 1, 4), (1, 2),
    ]  # fmt: skip


class Count(KeyedProcessFunction):
    """Counts in state; the process of a subtask is killed once."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        if self.count.value() == 150:
            kill_once(self.folder)
        yield f"{ctx.get_current_key()} {self.count.value()}"


def test_each_result_comes_once_whatever_is_killed_and_rescaled(environment, tmp_path):
    env = per_worker(environment, tmp_path)
    (tmp_path / "kill-it").touch()
    numbers = env.from_source(DataGeneratorSource(int, COUNT, 2_000), WatermarkStrategy.no_watermarks(), "numbers")
    counts = numbers.uid("numbers").key_by(lambda n: n % 10).process(Count(str(tmp_path))).uid("count")
    counts.sink_to(file_sink(tmp_path)).uid("files")
    client = env.execute_async("counts")
    assert client.rescale(3).result(timeout=WAIT) == 3
    client.get_job_execution_result().result(timeout=WAIT)

    assert not list(tmp_path.glob("kill-*")), "a process was killed"
    assert written(tmp_path) == Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))


def test_a_loop_goes_round_between_subtasks_of_one_worker(environment):
    loop = per_worker(environment).from_collection(list(range(200))).rebalance().map(lambda n: (n, 20)).iterate()
    less = loop.key_by(lambda pair: pair[0] % 11).map(lambda pair: (pair[0], pair[1] - 1))
    loop.close_with(less.filter(lambda pair: pair[1] > 0).rebalance())

    assert Counter(collected(less.filter(lambda pair: pair[1] == 0))) == Counter((n, 0) for n in range(200))


def test_what_is_logged_comes_once_and_from_its_subtask(environment):
    def warn(n):
        logging.getLogger("shop").warning("saw %d", n)

    env = per_worker(environment)
    env.from_collection(list(range(20))).rebalance().for_each(warn)
    client = env.execute_async("logs")
    client.get_job_execution_result().result(timeout=WAIT)
    found = [each for each in client.logs().read(None, 1000).records if each["message"].startswith("saw")]

    assert sorted(each["message"] for each in found) == sorted(f"saw {n}" for n in range(20))
    assert {each["subtask"] for each in found} == set(range(5))
