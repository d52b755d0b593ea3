"""Workers, the daemon that forks them and drivers that are stopped instead of killed: the job goes on, its output is exact."""

import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from funken import DataGeneratorSource, KeyedProcessFunction, ValueStateDescriptor, WatermarkStrategy
from funken.errors import TaskLost
from funken.spark.control import server as control_server
from tests.support.files import file_sink, written

pytestmark = [pytest.mark.spark, pytest.mark.ways("continuous"), pytest.mark.timeout(300)]

BOUND = 120
COUNT = 6_000
AIM_SECONDS = 5.0


class Count(KeyedProcessFunction):
    """Counts the records of a key in state."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        yield f"{ctx.get_current_key()} {self.count.value()}"


EXPECTED = Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))


def wait_until(condition, what):
    limit = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < limit, f"{what}: not within {BOUND} s"
        threading.Event().wait(0.01)


class Running:
    """A job that counts into files, some way into its input."""

    def __init__(self, environment, folder, watch, timeout):
        env = environment(
            {
                "execution.checkpointing.interval": "50 ms",
                "execution.checkpointing.dir": str(folder / "checkpoints"),
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": 9,
                "restart-strategy.fixed-delay.delay": "1 ms",
                "heartbeat.interval": "400 ms",
                "heartbeat.timeout": timeout,
            }
        )
        source = DataGeneratorSource(lambda i: i, COUNT, 1_000)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        numbers.key_by(lambda n: n % 10).process(Count()).sink_to(file_sink(folder))
        self.folder, self.watch = folder, watch
        self.client = env.execute_async()
        wait_until(lambda: written(folder), "the first output")
        self.first = dict(watch.pids)

    def goes_on(self):
        """Wait for new output of a new attempt."""
        before = written(self.folder).total()
        wait_until(lambda: self.watch.pids.keys() == self.first.keys() and self.restarted, "all tasks open again")
        wait_until(lambda: written(self.folder).total() > before, "new output")

    @property
    def restarted(self):
        return all(self.watch.pids[task] != pid for task, pid in self.first.items())

    def ends_exactly(self):
        self.client.get_job_execution_result().result(BOUND)
        assert written(self.folder) == EXPECTED


@pytest.fixture
def running(environment, tmp_path, watch):
    return lambda timeout="2 s": Running(environment, tmp_path, watch, timeout)


@pytest.fixture
def stop():
    """Stop processes; they run again at the end of the test, if they are still there."""
    stopped = []

    def stop(*pids):
        stopped.extend(pids)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

    yield stop
    for pid in stopped:
        wake(pid)


def wake(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


def daemon_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("which", ["one", "all", "all and the daemon"])
def test_workers_that_are_stopped_are_replaced(running, stop, alive, which, capsys):
    job = running()
    workers = [pid for task, pid in job.first.items() if which != "one" or task == (1, 0)]
    if which == "all and the daemon":
        stop(daemon_of(workers[0]))
    begin = time.monotonic()
    stop(*workers)

    job.goes_on()

    with capsys.disabled():
        sys.stdout.write(
            f"\n{which} stopped: new output after {time.monotonic() - begin:.1f} s, aim {AIM_SECONDS:g} s\n"
        )
    assert not [pid for pid in workers if alive(pid)]
    job.ends_exactly()


def test_a_worker_that_goes_on_within_the_timeout_is_not_missed(running, stop):
    job = running("60 s")
    stop(*job.first.values())
    threading.Event().wait(1.0)
    for pid in job.first.values():
        wake(pid)

    job.ends_exactly()

    assert job.watch.pids == job.first


def test_a_worker_that_wakes_on_another_machine_does_no_harm(running, stop, alive, monkeypatch):
    """The driver cannot kill it: it is replaced, and ends when it runs again."""
    monkeypatch.setattr(control_server._Worker, "local_pid", None)
    job = running()
    victim = next(pid for task, pid in job.first.items() if task == (1, 0))
    begin = time.monotonic()
    stop(victim)

    job.goes_on()

    assert time.monotonic() - begin < BOUND / 2
    wake(victim)
    wait_until(lambda: not alive(victim), "the worker ends")
    job.ends_exactly()


def test_without_a_restart_strategy_the_job_fails_and_names_who_is_silent(environment, watch, stop):
    env = environment({"heartbeat.interval": "400 ms", "heartbeat.timeout": "2 s"})
    source = DataGeneratorSource(lambda i: i, None, 100)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").rebalance().map(str).print()
    client = env.execute_async()
    watch.wait_for_tasks(4)
    pid = watch.pids[(1, 0)]
    stop(pid)

    with pytest.raises(
        TaskLost, match=rf"the worker of stage 1, task 0 \(process {pid} on .*\) has sent no heartbeat for 2"
    ):
        client.get_job_execution_result().result(BOUND)

    watch.nothing_is_left("continuous")


@pytest.mark.ways("batch")
def test_a_batch_job_whose_worker_is_stopped_fails_instead_of_hanging(environment, watch, stop, blocked):
    """On one machine Spark repeats nothing; on a cluster it would."""
    env = environment({"heartbeat.interval": "400 ms", "heartbeat.timeout": "2 s"})
    path = blocked.path

    def wait(value):
        path.write_text(str(os.getpid()))
        time.sleep(3600)

    env.from_collection([1]).map(wait)
    client = env.execute_async()
    blocked.wait()
    stop(int(path.read_text()))

    with pytest.raises(TaskLost, match=r"the worker of stage ., task . \(process .*\) has sent no heartbeat for 2"):
        client.get_job_execution_result().result(BOUND)

    watch.nothing_is_left("batch")
