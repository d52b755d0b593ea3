"""A job that is rescaled while it runs: every record counts once, and what cannot be done leaves it as it was."""

import time
from collections import Counter

import pytest

from funken import DataGeneratorSource, WatermarkStrategy
from funken.errors import InvalidProgram, JobExecutionError, TooFewTaskSlots
from funken.runtime.driver.local_runner import LocalRunner
from funken.timing.clock import SystemClock
from tests.recovery.test_broken_storage import COUNT, EXPECTED
from tests.recovery.test_recovery import Count
from tests.support.files import file_sink, written

WAIT = 120


def started(environment, folder, count=COUNT, **options):
    env = environment(
        {
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "parallelism.default": 1,
        }
        | options
    )
    numbers = env.from_source(DataGeneratorSource(int, count, 1_000), WatermarkStrategy.no_watermarks(), "numbers")
    counts = numbers.uid("numbers").key_by(lambda n: n % 10).process(Count()).uid("count")
    counts.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(file_sink(folder)).uid("files")
    return env.execute_async("sized")


@pytest.mark.ways("local")
def test_up_and_down_nothing_is_lost_or_doubled(mode, environment, folder):
    client = started(environment, folder)
    for parallelism in (3, 2):
        assert client.rescale(parallelism).result(timeout=WAIT) == parallelism
        assert {vertex.parallelism for vertex in client.plan.vertices} == {parallelism}
    snapshot = client.snapshot()
    assert {len(vertex.subtasks) for vertex in snapshot.vertices} == {2}
    client.get_job_execution_result().result(timeout=WAIT)
    assert written(folder) == EXPECTED
    assert client.restarts == 0 and not client.snapshot().failures


@pytest.mark.ways("local")
def test_with_too_few_slots_the_job_goes_back(mode, environment, folder, monkeypatch):
    client = started(environment, folder)
    real = LocalRunner.run

    def run(self, job):
        if job.plan.vertices[0].parallelism == 4:
            raise TooFewTaskSlots("there are 2 slots")
        real(self, job)

    monkeypatch.setattr(LocalRunner, "run", run)
    with pytest.raises(TooFewTaskSlots, match="there are 2 slots"):
        client.rescale(4).result(timeout=WAIT)
    client.get_job_execution_result().result(timeout=WAIT)
    assert {vertex.parallelism for vertex in client.plan.vertices} == {1}
    assert written(folder) == EXPECTED


@pytest.mark.ways("local")
def test_what_is_not_possible_is_refused_before_anything_stops(mode, environment, folder):
    client = started(environment, folder, count=None)
    with pytest.raises(InvalidProgram, match="parallelism"):
        client.rescale(30_000)
    assert client.snapshot().attempt == 0
    waiting = client.rescale(2)
    client.cancel().result(timeout=WAIT)
    error = waiting.exception(timeout=WAIT)
    assert error is None or isinstance(error, Exception)
    with pytest.raises(JobExecutionError, match="ended|is not rescaled"):
        raise client.rescale(2).exception(timeout=WAIT)


ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "100 ms",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "100 ms",
    "parallelism.default": 4,
}


class Slots:
    """Lets jobs of this process have so many slots, as a cluster would."""

    def __init__(self, monkeypatch, slots):
        self.slots, self.widths = slots, []
        real = LocalRunner.run

        def run(runner, job):
            if job.plan.slots > self.slots:
                raise TooFewTaskSlots.of(f"there are {self.slots} slots", self.slots)
            job.slots = lambda: self.slots
            self.widths.append(max(vertex.parallelism for vertex in job.plan.vertices))
            real(runner, job)

        monkeypatch.setattr(LocalRunner, "run", run)


@pytest.mark.ways("local")
def test_an_adaptive_job_begins_with_the_slots_there_are_and_grows_when_more_come(
    mode, environment, folder, monkeypatch
):
    cluster = Slots(monkeypatch, 5)
    client = started(environment, folder, **ADAPTIVE)
    end = SystemClock().monotonic() + WAIT
    while (
        not written(folder) and SystemClock().monotonic() < end
    ):  # it runs, and has come to its first checkpoint or its end
        if client.snapshot().attempt and cluster.widths:
            cluster.slots = 100
        time.sleep(0.01)
    client.get_job_execution_result().result(timeout=WAIT)
    assert cluster.widths == [2, 4]
    assert written(folder) == EXPECTED
    assert client.restarts == 0 and not client.snapshot().failures


@pytest.mark.ways("local")
def test_an_adaptive_job_without_slots_for_one_says_so(mode, environment, folder, monkeypatch):
    Slots(monkeypatch, 1)
    client = started(environment, folder, **ADAPTIVE)
    with pytest.raises(TooFewTaskSlots, match="there are 1 slots"):
        client.get_job_execution_result().result(timeout=WAIT)


@pytest.mark.ways("local")
def test_a_job_that_follows_its_load_gives_up_subtasks_that_have_nothing_to_do(mode, environment, folder):
    options = {
        "job.autoscaler.enabled": True,
        "job.autoscaler.vertex.max-parallelism": 3,
        "job.autoscaler.metrics.window": "1 s",
        "job.autoscaler.stabilization.interval": 0,
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "100 ms",
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": 0,
        "parallelism.default": 3,
    }
    client = started(environment, folder, count=None, **options)  # 1,000 records per second: nearly nothing to do
    end = SystemClock().monotonic() + WAIT
    while max(vertex.parallelism for vertex in client.plan.vertices) > 1 and SystemClock().monotonic() < end:
        time.sleep(0.05)
    client.cancel().result(timeout=WAIT)
    assert max(vertex.parallelism for vertex in client.plan.vertices) == 1


@pytest.mark.ways("local")
def test_without_checkpoints_an_adaptive_job_keeps_its_parallelism_and_says_so(mode, environment, folder, caplog):
    env = environment(ADAPTIVE)
    env.from_collection([1, 2]).key_by(lambda n: n).sum().for_each(repr)
    env.execute("plain")
    assert "keeps its parallelism: without checkpoints" in caplog.text


@pytest.mark.ways("local")
def test_an_adaptive_job_does_not_choose_what_its_key_groups_forbid(mode, environment, folder, monkeypatch):
    cluster = Slots(monkeypatch, 4)
    options = ADAPTIVE | {"pipeline.max-parallelism": 2, "parallelism.default": 2, "job.autoscaler.enabled": True}
    client = started(environment, folder, **options)
    client.get_job_execution_result().result(timeout=WAIT)
    assert cluster.widths == [2] and client._job._elasticity.possible(None) == 2


@pytest.mark.ways("continuous")
def test_on_spark_an_adaptive_job_takes_the_slots_there_are_and_then_more(mode, environment, folder, monkeypatch):
    there = {"slots": 5}
    for module in ("session", "submit"):
        monkeypatch.setattr(f"funken.spark.{module}.slots_of", lambda spark: there["slots"])
    client = started(environment, folder, count=20_000, **ADAPTIVE, **{"execution.subtasks-per-worker": 1})
    widths, end = [], SystemClock().monotonic() + WAIT
    while not client.get_job_execution_result().done() and SystemClock().monotonic() < end:
        width = max(vertex.parallelism for vertex in client.plan.vertices)
        if all(each.state.name == "RUNNING" for each in client.snapshot().vertices) and widths[-1:] != [width]:
            widths.append(width)
            there["slots"] = 8
        time.sleep(0.02)
    client.get_job_execution_result().result(timeout=WAIT)
    assert widths == [2, 4]
    assert written(folder) == Counter(f"{key} {n}" for key in range(10) for n in range(1, 2_001))
    assert client.restarts == 0 and not client.snapshot().failures
