"""A job that is rescaled while it runs: every record counts once, and what cannot be done leaves it as it was."""

import pytest

from funken import DataGeneratorSource, WatermarkStrategy
from funken.errors import InvalidProgram, JobExecutionError, TooFewTaskSlots
from funken.runtime.driver.local import LocalRunner
from tests.recovery.test_broken_storage import COUNT, EXPECTED
from tests.recovery.test_recovery import Count
from tests.support.files import file_sink, written

WAIT = 120


def started(environment, folder, count=COUNT):
    env = environment(
        {
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "parallelism.default": 1,
        }
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
