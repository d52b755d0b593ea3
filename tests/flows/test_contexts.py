"""What functions, readers and writers know of the job they run in, and where the metrics of functions are found."""

from dataclasses import dataclass

import pytest

from funken import MapFunction, NumberSequenceSource, Sink, SinkWriter, WatermarkStrategy


class Named(NumberSequenceSource):
    """Fails unless its reader is told of the job."""

    def reader(self, context):
        assert (context.job_id, context.attempt, context.operator) == ("nightly", 0, "numbers")
        return super().reader(context)


class Job(MapFunction):
    def open(self, runtime_context):
        self.job = runtime_context.get_job_id()

    def map(self, value):
        return self.job


class Nowhere(SinkWriter):
    def write(self, values, timestamps, now):
        pass


@dataclass(frozen=True)
class Told(Sink):
    """Writes down what its writers are told."""

    folder: str

    def writer(self, context):
        with open(f"{self.folder}/{context.subtask}", "w") as file:
            file.write(f"{context.job_id} {context.operator} {context.attempt} {context.parallelism}")
        return Nowhere()


def test_the_job_has_its_id_everywhere(env, tmp_path):
    env.get_configuration().set("execution.job-id", "nightly")
    numbers = env.from_source(Named(1, 3), WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    jobs = numbers.map(Job()).set_parallelism(1)
    jobs.sink_to(Told(str(tmp_path))).name("told").set_parallelism(1)

    assert jobs.execute_and_collect(limit=3) == ["nightly"] * 3
    assert (tmp_path / "0").read_text() == "nightly told 0 1"


@pytest.mark.ways("local")
def test_a_job_without_an_id_of_its_own_has_that_of_its_client(env):
    env.from_collection([1]).map(Job()).print().set_parallelism(1)
    with env.from_collection([1]).map(Job()).execute_and_collect() as found:
        [job] = list(found)
        assert job == found.get_job_client().get_job_id()


class Counted(MapFunction):
    def __init__(self, step):
        self.step = step

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.seen = group.counter("seen")
        self.rate = group.add_group("user").meter("rate")

    def map(self, value):
        self.seen.inc(self.step)
        self.rate.mark_event()
        return value


def test_operators_of_the_same_name_have_metrics_of_their_own(env):
    numbers = env.from_source(NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "numbers")
    first = numbers.map(Counted(1)).name("counted").uid("first")
    first.map(Counted(100)).name("counted").set_parallelism(2).print().set_parallelism(2)
    client = env.execute_async()
    client.get_job_execution_result().result(timeout=180)

    found = [
        (uid, user.operator, user.subtask, user.values)
        for task in client.metrics().values()
        for vertex in task.vertices.values()
        for uid, user in vertex.user.items()
    ]
    seen = {}
    for uid, operator, subtask, values in found:
        assert operator == "counted"
        assert set(values["user.rate"]) == {"count", "rate"}
        assert values["user.rate"]["rate"] >= 0
        seen.setdefault(uid, {})[subtask] = values["seen"]
    assert len(seen) == 2
    assert sum(seen.pop("first").values()) == 10
    [second] = seen.values()
    assert sum(second.values()) == 1000
    assert set(second) == {0, 1}
