"""What a picture of a job has, what it costs, and that it does not change."""

import json
import time
from dataclasses import replace

import pytest

from funken import Configuration, DataGeneratorSource, MapFunction, StreamExecutionEnvironment, WatermarkStrategy
from funken.api.jobs.client import JobClient
from funken.runtime.driver.job import Job
from funken.runtime.driver.local_runner import LocalRunner
from funken.runtime.job.masking import masked
from funken.runtime.job.snapshot import aggregated
from funken.runtime.job.states import ExecutionState, JobScheduled, JobStatus, JobSubmitted
from funken.runtime.messages import MetricsReport, TaskOpening, TaskStarted, VertexMetrics
from funken.testing import local

BOUND = 30


def finished(stream, name="job"):
    client = JobClient(stream.get_execution_environment().job(name), LocalRunner())
    client.run()
    return client


def test_it_has_the_graph_with_chains_and_ship_strategies():
    stream = local([1, 2, 3], parallelism=2).map(lambda n: n).uid("same").key_by(lambda n: n).sum().name("sums")
    stream.for_each(lambda n: None)

    graph = finished(stream).snapshot().graph

    assert [(v.id, v.name, v.parallelism, v.stage) for v in graph.vertices] == [
        (0, "collection", 1, 0), (1, "map", 2, 1), (2, "sums -> for_each", 2, 2),
    ]  # fmt: skip
    assert [(e.source, e.target, e.ship_strategy, e.local) for e in graph.edges] == [
        (0, 1, "REBALANCE", False), (1, 2, "HASH", False),
    ]  # fmt: skip
    assert [(op.id, op.uid) for op in graph.vertices[1].operators] == [("same", "same")]


def test_it_counts_records_and_bytes_on_both_sides_of_an_edge():
    stream = local(list(range(100)), parallelism=1).map(lambda n: n).rebalance().filter(lambda n: n % 2)
    stream.for_each(lambda n: None)

    first, second = (vertex.subtasks[0].metrics for vertex in finished(stream).snapshot().vertices)

    assert (first.records_in, first.records_out, first.bytes_in) == (100, 100, 0)
    assert (second.records_in, second.records_out, second.bytes_out) == (100, 0, 0)
    assert first.bytes_out == second.bytes_in > 100


def test_records_over_an_edge_within_the_task_are_counted_too():
    stream = local(list(range(10)), parallelism=1).map(lambda n: n).start_new_chain()
    stream.for_each(lambda n: None)

    first, second = (vertex.subtasks[0].metrics for vertex in finished(stream).snapshot().vertices)

    assert (first.records_out, second.records_in) == (10, 10)


def test_it_has_the_place_and_the_times_of_every_subtask():
    stream = local([1], parallelism=2).map(lambda n: n)
    stream.for_each(lambda n: None)

    job = finished(stream).snapshot()

    (subtask, _) = job.vertices[1].subtasks
    assert subtask.host and subtask.pid and subtask.state is ExecutionState.FINISHED
    assert [state.name for state in subtask.timestamps] == [
        "CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED",
    ]  # fmt: skip
    assert job.start_time <= job.end_time <= job.taken and job.uptime == 0


def test_a_failure_is_in_it_with_the_traceback_of_the_user():
    def invert(n):
        return 1 // n

    stream = local([0], parallelism=1).map(invert).name("invert")
    stream.for_each(lambda n: None)
    client = JobClient(stream.get_execution_environment().job("fractions"), LocalRunner())
    with pytest.raises(Exception, match="invert"):
        client.run()

    job = client.snapshot()

    assert job.state.name == "FAILED" and job.failure_count == 1
    (failure,) = job.failures
    assert (failure.operator, failure.subtask, failure.error) == ("invert", 0, "OperatorFailed")
    assert failure.traceback.rstrip().endswith("ZeroDivisionError: integer division or modulo by zero")


class Broken(MapFunction):
    """Fails at a record of the first attempt, once a checkpoint is complete."""

    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        if self.attempt == 0 and value == 100:
            raise RuntimeError("as planned")
        return value


def running(tmp_path, interval="10 ms", function=None):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({
        "execution.target": "local", "parallelism.default": 1, "execution.checkpointing.interval": interval,
        "execution.checkpointing.dir": str(tmp_path), "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }))  # fmt: skip
    numbers = env.from_source(
        DataGeneratorSource(lambda i: i, None, 1000), WatermarkStrategy.no_watermarks(), "numbers"
    )
    numbers.map(function or abs).key_by(lambda n: n % 2).sum().for_each(lambda n: None)
    return env.execute_async("numbers")


def wait_for(client, condition):
    limit = time.monotonic() + BOUND
    while not condition(job := client.snapshot()):
        assert time.monotonic() < limit, job
        assert not job.state.is_terminal_state(), job.failures
    return job


def test_checkpoints_restarts_and_what_was_restored_are_in_it(tmp_path):
    client = running(tmp_path, function=Broken())
    try:
        job = wait_for(
            client, lambda job: job.attempt and job.checkpoints.completed > 2 and job.checkpoints.latest_completed
        )
    finally:
        client.cancel().result(BOUND)

    assert [(restart.attempt, restart.delay) for restart in job.restart_history] == [(0, 1)]
    assert job.attempt == 1 and "as planned" in job.failures[0].message
    newest = job.checkpoints.latest_completed
    assert newest.status == "COMPLETED" and newest.path.startswith(str(tmp_path)) and newest.duration >= 0
    assert (newest.tasks, newest.acknowledged) == (2, 2)
    assert [(part.vertex, part.subtask) for part in newest.subtasks] == [(0, 0), (1, 0)]
    assert newest.size == sum(part.size for part in newest.subtasks) > 0
    assert all(part.sync_duration > 0 and part.async_duration > 0 for part in newest.subtasks)
    assert newest.subtasks[0].alignment == 0 < newest.subtasks[1].alignment
    named = job.metrics()
    assert named["numRestarts"] == 1 and named["lastCheckpointSize"] == newest.size
    assert named["numberOfCompletedCheckpoints"] == job.checkpoints.completed


def test_it_is_json_and_does_not_change_when_the_job_goes_on(tmp_path):
    client = running(tmp_path)
    try:
        job = wait_for(
            client, lambda job: job.checkpoints.completed and job.vertices[0].state is ExecutionState.RUNNING
        )
        before = job.to_json()
        wait_for(client, lambda later: later.checkpoints.completed > job.checkpoints.completed)
    finally:
        client.cancel().result(BOUND)

    assert job.to_json() == before
    found = json.loads(before)
    assert found["state"] == "RUNNING" and found["vertices"][0]["subtasks"][0]["state"] == "RUNNING"
    assert client.snapshot().state.name == "CANCELED"


def test_a_savepoint_is_not_the_newest_checkpoint(tmp_path):
    client = running(tmp_path, interval="10 min")
    try:
        path = client.trigger_savepoint(str(tmp_path / "mine")).result(BOUND)
        job = client.snapshot()
    finally:
        client.cancel().result(BOUND)

    assert job.checkpoints.latest_completed is None
    assert job.checkpoints.latest_savepoint.path == path


def test_secrets_are_masked():
    values = {
        "pipeline.name": "words",
        "fs.s3a.secret.key": "abc",
        "my.Password": "abc",
        "kafka.sasl.jaas.config": "abc",
        "pipeline.global-job-parameters": {"api-key": "abc", "greeting": "hello"},
        "source": "postgresql://me:abc@db:5432/orders",
    }

    found = masked(values)

    assert "abc" not in repr(found)
    assert found["pipeline.name"] == "words"
    assert found["pipeline.global-job-parameters"]["greeting"] == "hello"
    assert found["source"] == "postgresql://******@db:5432/orders"


def test_a_vertex_is_as_far_as_its_last_subtask():
    state = ExecutionState
    assert aggregated([state.FINISHED, state.RUNNING]) is state.RUNNING
    assert aggregated([state.RUNNING, state.INITIALIZING]) is state.INITIALIZING
    assert aggregated([state.RUNNING, state.FAILED, state.CANCELING]) is state.FAILED


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        ("CREATED CREATED", "checking sources and sinks"),
        ("SCHEDULED SCHEDULED", "waiting for Spark"),
        ("DEPLOYING DEPLOYING", "starting workers"),
        ("INITIALIZING DEPLOYING", "opening operators (1 of 2 subtasks)"),
        ("RUNNING INITIALIZING", "running (1 of 2 subtasks)"),
        ("FINISHED SCHEDULED", "running (1 of 2 subtasks)"),
        ("", "running"),
    ],
)
def test_the_step_of_its_start_in_words(states, phase):
    stream = local([1])
    stream.for_each(repr)
    job = stream.get_execution_environment().execute_async("begins").snapshot()
    one = job.vertices[0].subtasks[0]
    subtasks = tuple(replace(one, state=ExecutionState[state]) for state in states.split())
    begun = replace(job, state=JobStatus.RUNNING, vertices=(replace(job.vertices[0], subtasks=subtasks),))

    assert begun.phase == phase
    assert replace(begun, state=JobStatus.RESTARTING).phase == "restarting"


def test_of_100_subtasks_it_takes_less_than_a_millisecond():
    stream = local(list(range(10)), parallelism=50).map(lambda n: n).key_by(lambda n: n).sum()
    stream.for_each(lambda n: None)
    job: Job = stream.get_execution_environment().job("wide")
    job.handle(JobSubmitted())
    job.handle(JobScheduled())
    job.begin_attempt(0)
    for task in job.master.tasks:
        job.master.handle(TaskOpening(task, pid=1, host="h"))
        job.master.handle(TaskStarted(task, pid=1, host="h"))
        for at in (1.0, 2.0):
            latency = {bucket: int(at * bucket) for bucket in range(200)}
            report = {v.id: VertexMetrics(int(at * 100), latency=latency) for v in job.plan.at(task.stage)}
            job.master.handle(MetricsReport(task, vertices=report, at=at))

    def cost():
        begin = time.perf_counter()
        found = job.snapshot()
        return time.perf_counter() - begin, found

    times, found = zip(*(cost() for _ in range(50)), strict=True)

    assert sum(len(vertex.subtasks) for vertex in found[0].vertices) == 101
    assert found[0].vertices[1].subtasks[49].metrics.records_in_per_second == 100
    assert min(times) < 0.001  # the best of 50: what else runs on the machine is not measured


def test_the_loop_of_the_local_runner_and_the_master_are_not_needed_for_a_picture():
    stream = local([1])
    stream.for_each(lambda n: None)
    job = stream.get_execution_environment().job("not begun")

    snapshot = job.snapshot()

    assert snapshot.state.name == "INITIALIZING" and snapshot.start_time == 0 and snapshot.duration == 0
    assert [vertex.state.name for vertex in snapshot.vertices] == ["CREATED"]
