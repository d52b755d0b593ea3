"""Loops that fail, stop and go on: what goes round is part of every snapshot, and counts once."""

import logging
import time
from collections import Counter

import pytest

from funken import (
    DataGeneratorSource,
    JobStatus,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.errors import CheckpointError
from funken.runtime.exchange.gate import BlockKind
from funken.runtime.job import loops
from funken.runtime.task.subtasks import TaskCheckpoints
from tests.support.crashes import kill_once
from tests.support.files import file_sink, written
from tests.support.simulation.loops import LOOPS
from tests.support.simulation.run import Simulation
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
    violations = {seed: Simulation(seed, program=program, exactly_once=True).run().violation for seed in range(20, 28)}

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


def test_what_was_sent_behind_a_barrier_waits_until_the_head_has_its_own():
    """Barriers that overtake came back to a subtask of the head before its own; it took in, and logged, what followed them."""
    assert Simulation(111, program="sums", exactly_once=True).run().violation == ""


# ---- the tests above see it when one of the rules is broken


CRASHES = CALM | {"task_crashes": 5, "interval": 10, "calm_after": 5000, "rescales": False}


def test_what_is_not_logged_is_missed(monkeypatch):
    real = TaskCheckpoints.record

    def record(self, subtask, head, block):
        if head.kind != BlockKind.DATA or not self._plan.edges[head.edge].feedback:
            real(self, subtask, head, block)

    monkeypatch.setattr(TaskCheckpoints, "record", record)
    violations = (Simulation(seed, program="doubles", **CRASHES).run().violation for seed in range(40))
    assert any("lost" in found for found in violations)  # one in five finds it


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
    client = counting_down(configured(before, folder), folder, 2000, longest=600, rate=800).execute_async("counting")
    _until_it_reads(client)
    savepoint = client.stop_with_savepoint(False, str(folder / "savepoints")).result(timeout=WAIT)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert 0 < written(folder).total() < 2000

    env = configured(after, folder, **{"execution.state-recovery.path": savepoint})
    counting_down(env, folder, 2000, longest=600).execute("counting")
    assert written(folder) == Counter(str(n) for n in range(2000))
    assert Counter((folder / "seen").read_text().split()) == written(folder)


def _until_it_reads(client, records=20_000):
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        vertices = client.snapshot().vertices
        if sum(subtask.metrics.records_in for vertex in vertices for subtask in vertex.subtasks) > records:
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


# ---- on Spark as well


class Visits(KeyedProcessFunction):
    """Numbers the visits of a key in the loop, and lets a number go round once less; some process of its is killed."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        if self.count.value() % 700 == 0:
            kill_once(self.folder)
        yield "visit", ctx.get_current_key(), self.count.value()
        yield "pair", value[0], value[1] - 1


def visiting(env, folder, count, rounds, rate):
    """Visits by key, and what comes out; the feedback is keyed, or dealt out by the subtask that read it last."""
    source = DataGeneratorSource(lambda i: i, count, rate)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    loop = numbers.map(lambda n: (n, rounds)).iterate().uid("loop")
    made = loop.key_by(lambda pair: pair[0] % 5).process(Visits(str(folder))).uid("visits")
    pairs = made.filter(lambda each: each[0] == "pair").map(lambda each: each[1:])
    loop.close_with(pairs.filter(lambda pair: pair[1] > 0).rebalance())
    out = pairs.filter(lambda pair: pair[1] <= 0).map(lambda pair: f"out {pair[0]}")
    visits = made.filter(lambda each: each[0] == "visit").map(lambda each: f"visit {each[1]} {each[2]}")
    visits.union(out).sink_to(file_sink(folder)).uid("files")
    return env


def visited(count, rounds):
    visits = [f"visit {key} {n}" for key in range(5) for n in range(1, count // 5 * rounds + 1)]
    return Counter(visits + [f"out {n}" for n in range(count)])


@pytest.mark.ways("local", "continuous")
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_loop_in_a_loop_gives_the_same_wherever_it_runs(env, collect):
    outer = env.from_collection([(n, n % 3, 0) for n in range(60)]).rebalance().iterate()
    begun = outer.map(lambda each: (each[0], each[1], each[0] % 4))
    inner = begun.key_by(lambda each: each[0] % 7).iterate()
    less = inner.map(lambda each: (each[0], each[1], each[2] - 1))
    inner.close_with(less.filter(lambda each: each[2] > 0).key_by(lambda each: each[0] % 3))
    done = less.filter(lambda each: each[2] <= 0).map(lambda each: (each[0], each[1] - 1))
    outer.close_with(done.filter(lambda each: each[1] > 0).map(lambda each: (*each, 0)))
    assert sorted(collect(done.filter(lambda each: each[1] <= 0))) == [(n, 0 if n % 3 else -1) for n in range(60)]


@pytest.mark.ways("continuous")
@pytest.mark.parametrize("parallelism", [2])
def test_a_worker_that_is_killed_loses_nothing_that_goes_round(environment, folder):
    env = environment(
        {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    (folder / "kill-0").touch()
    (folder / "kill-1").touch()
    client = visiting(env, folder, count=1000, rounds=10, rate=500).execute_async("visits")
    client.get_job_execution_result().result(timeout=120)
    assert client.restarts >= 1 and not list(folder.glob("kill-*"))
    assert written(folder) == visited(1000, 10)


@pytest.mark.ways("continuous")
@pytest.mark.parametrize("parallelism", [1])
def test_a_loop_on_spark_is_stopped_and_goes_on_with_another_parallelism(environment, folder):
    options = {"execution.checkpointing.interval": "1 h", "execution.checkpointing.dir": str(folder / "checkpoints")}
    client = visiting(environment(options), folder, count=1000, rounds=30, rate=400).execute_async("visits")
    _until_it_reads(client, 500)
    savepoint = client.stop_with_savepoint(False, str(folder / "savepoints")).result(timeout=WAIT)
    assert 0 < written(folder).total() < visited(1000, 30).total()

    options |= {"execution.state-recovery.path": savepoint, "parallelism.default": 2}
    visiting(environment(options), folder, count=1000, rounds=30, rate=None).execute("visits")
    assert written(folder) == visited(1000, 30)
