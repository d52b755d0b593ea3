"""Loops that fail, stop and go on: what goes round is part of every snapshot, and counts once."""

import logging
import time
from collections import Counter

import pytest

from funken import DataGeneratorSource, JobStatus, StreamExecutionEnvironment, WatermarkStrategy
from funken.errors import CheckpointError
from funken.runtime.exchange.wire import BlockKind
from funken.runtime.job import loops
from funken.runtime.task.checkpoints import TaskCheckpoints
from funken.testing.simulation.loops import LOOPS
from funken.testing.simulation.run import Simulation
from tests.support.files import file_sink, written
from tests.support.streams import collected

WAIT = 60
CALM = {"storage_faults": 0.0, "lost_acks": 0.0, "commit_faults": 0.0, "timeout": 600_000, "tolerable": 1}
CALM |= {"driver_crashes": 0, "second_drivers": 0, "stops": 0, "exactly_once": True, "interval": 20, "records": 60}
CALM |= {"damages": 0, "strikes": (), "files": False, "aligned_timeout": None, "backend": "hashmap"}


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("program", sorted(LOOPS))
def test_every_loop_survives_crashes_of_tasks_and_drivers(program):
    conditions = CALM | {"task_crashes": 4, "driver_crashes": 2, "calm_after": 3000, "rescales": True, "stops": 1}
    run = Simulation(7, program=program, **conditions).run()

    assert run.violation == ""
    assert run.attempts > 1
    assert run.checkpoints > 1
    assert run.in_flight > 0, "something was logged"


@pytest.mark.simulation
@pytest.mark.parametrize("program", sorted(LOOPS))
def test_whatever_fails_in_a_loop_every_result_comes_once(program):
    violations = {seed: Simulation(seed, program=program, exactly_once=True).run().violation for seed in range(20, 32)}

    assert {seed: found for seed, found in violations.items() if found} == {}


@pytest.mark.simulation
@pytest.mark.parametrize("program", sorted(LOOPS))
@pytest.mark.parametrize("timeout", [0, 5])
def test_barriers_may_overtake_what_goes_round(program, timeout):
    conditions = CALM | {"aligned_timeout": timeout, "task_crashes": 4, "rescales": True, "calm_after": 4000}
    runs = [Simulation(seed, program=program, **conditions).run() for seed in range(3, 6)]

    assert {run.violation for run in runs} == {""}


@pytest.mark.simulation
@pytest.mark.parametrize("program", sorted(LOOPS))
def test_a_loop_that_is_stopped_goes_on_with_another_parallelism(program):
    conditions = CALM | {"stops": 3, "savepoints": 1, "rescales": True, "calm_after": 6000}
    runs = [Simulation(seed, program=program, **conditions).run() for seed in range(40, 44)]

    assert {run.violation for run in runs} == {""}
    assert max(run.drivers for run in runs) > 1


# ---- the tests above see it when one of the rules is broken


CRASHES = CALM | {"task_crashes": 5, "interval": 10, "calm_after": 5000, "rescales": False}


def test_what_is_not_logged_is_missed(monkeypatch):
    real = TaskCheckpoints.record

    def record(self, subtask, head, block):
        if head.kind != BlockKind.DATA or not self._plan.edges[head.edge].feedback:
            real(self, subtask, head, block)

    monkeypatch.setattr(TaskCheckpoints, "record", record)
    violations = [Simulation(seed, program="doubles", **CRASHES).run().violation for seed in range(6)]
    assert any("lost" in found for found in violations)


def test_a_loop_that_ends_whatever_comes_back_loses_what_goes_round(monkeypatch):
    monkeypatch.setattr(loops._Loop, "records", property(lambda self: 0, lambda self, value: None))
    env = StreamExecutionEnvironment.create_local_environment(2)
    loop = env.from_collection([40] * 10).iterate()
    less = loop.map(lambda n: n - 1)
    loop.close_with(less.filter(lambda n: n > 0))
    assert len(collected(less.filter(lambda n: n == 0))) < 10


# ---- whole jobs


def counting_down(env, folder, count, longest, rate=None):
    """Each number goes round once more than the one before, and is written once; also to a file that knows of no checkpoint."""
    source = DataGeneratorSource(lambda i: i, count, rate)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    loop = numbers.map(lambda n: (n, 1 + n * longest // count)).iterate().uid("loop")
    less = loop.key_by(lambda pair: pair[0] % 10).map(lambda pair: (pair[0], pair[1] - 1))
    loop.close_with(less.filter(lambda pair: pair[1] > 0).rebalance())
    out = less.filter(lambda pair: pair[1] <= 0).map(lambda pair: str(pair[0]))
    out.sink_to(file_sink(folder)).uid("files")

    def see(number):
        with open(folder / "seen", "a") as seen:
            seen.write(f"{number}\n")

    out.for_each(see).uid("see")
    return env


def configured(parallelism, folder, **options):
    env = StreamExecutionEnvironment.create_local_environment(parallelism)
    given = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
    }
    for key, value in (given | options).items():
        env.get_configuration().set(key, value)
    return env


@pytest.mark.simulation
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (1, 4), (4, 1), (3, 2)])
def test_what_goes_round_is_in_the_savepoint_and_goes_on_with_any_parallelism(folder, before, after):
    """What a stopped head got back is in the savepoint only: it gives nothing to operators that would show it now."""
    client = counting_down(configured(before, folder), folder, 2000, longest=600).execute_async("counting")
    _until_it_reads(client)
    savepoint = client.stop_with_savepoint(False, str(folder / "savepoints")).result(timeout=WAIT)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert 0 < written(folder).total() < 2000

    env = configured(after, folder, **{"execution.state-recovery.path": savepoint})
    counting_down(env, folder, 2000, longest=600).execute("counting")
    assert written(folder) == Counter(str(n) for n in range(2000))
    assert Counter((folder / "seen").read_text().split()) == written(folder)


def _until_it_reads(client):
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        vertices = client.snapshot().vertices
        if sum(subtask.metrics.records_in for vertex in vertices for subtask in vertex.subtasks) > 20_000:
            return
        time.sleep(0.02)
    raise AssertionError("it does not read")


def test_a_loop_cannot_be_drained(folder):
    client = counting_down(configured(1, folder), folder, 3000, longest=10, rate=200).execute_async("counting")
    with pytest.raises(CheckpointError, match=r"cannot be drained: operator 'iterate' begins a loop.*without drain"):
        client.stop_with_savepoint(True, str(folder / "savepoints")).result(timeout=WAIT)
    client.cancel().result(timeout=WAIT)


@pytest.mark.simulation
def test_checkpoints_are_made_while_only_the_loop_goes_on(folder):
    """All input is read at once; the loop takes longer, and its checkpoints begin at its head."""
    env = configured(2, folder, **{"execution.checkpointing.interval": "20 ms"})
    client = counting_down(env, folder, 100, longest=1500).execute_async("counting")
    client.get_job_execution_result().result(timeout=WAIT)
    assert client.snapshot().checkpoints.completed > 3
    assert written(folder) == Counter(str(n) for n in range(100))
