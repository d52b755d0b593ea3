"""The picture of a job that runs on Spark: where its tasks are, in which state, and what they measure."""

import os
import time

import pytest

from funken import DataGeneratorSource, NumberSequenceSource, WatermarkStrategy
from funken.runtime.job.states import ExecutionState

pytestmark = [pytest.mark.spark, pytest.mark.ways("batch", "continuous")]

BOUND = 60


@pytest.fixture
def parallelism():
    return 2


def wait_for(client, condition):
    limit = time.monotonic() + BOUND
    while not condition(job := client.snapshot()):
        assert time.monotonic() < limit, job
        assert not job.state.is_terminal_state(), job.failures
        time.sleep(0.01)
    return job


def test_every_subtask_has_a_place_a_state_and_metrics(mode, env):
    endless = DataGeneratorSource(lambda index: index)
    source = NumberSequenceSource(1, 200_000) if mode == "batch" else endless
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.map(lambda index: (index % 10, index)).key_by(lambda pair: pair[0]).sum(1).uid("sums").for_each(len)
    client = env.execute_async("sums")
    if mode == "batch":
        client.get_job_execution_result().result(BOUND)
        job = client.snapshot()
    else:
        try:
            job = wait_for(
                client, lambda job: all(s.metrics.records_in_per_second for v in job.vertices for s in v.subtasks)
            )
        finally:
            client.cancel().result(BOUND)

    assert [vertex.state.name for vertex in job.vertices] == ["FINISHED" if mode == "batch" else "RUNNING"] * 2
    first, second = job.vertices
    for subtask in (*first.subtasks, *second.subtasks):
        assert subtask.host and subtask.pid != os.getpid()
        assert list(subtask.timestamps)[:5] == list(ExecutionState)[:5]
        metrics = subtask.metrics
        times = metrics.busy_ms_per_second, metrics.back_pressured_ms_per_second, metrics.idle_ms_per_second
        assert sum(times) == pytest.approx(1000, abs=0.01) and metrics.busy_ms > 0
    assert sum(subtask.metrics.bytes_out for subtask in first.subtasks) > 0
    if mode == "batch":
        read = sum(subtask.metrics.records_in for subtask in first.subtasks)
        assert read == sum(subtask.metrics.records_in for subtask in second.subtasks) == 200_000
    after = client.snapshot()
    assert all(
        s.state in (ExecutionState.CANCELED, ExecutionState.FINISHED) for v in after.vertices for s in v.subtasks
    )
