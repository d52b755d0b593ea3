"""Latency markers: they go where records go, behind them, and leave nothing where they are off."""

from types import SimpleNamespace

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    JobClient,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.metrics.reporters.prometheus import PrometheusReporter
from funken.rest.views.metrics import of_job
from funken.runtime.driver.local_runner import LocalRunner
from funken.runtime.job.points import points_of
from funken.runtime.settings import LatencySettings
from funken.runtime.task.subtasks import LatencyMarkers
from funken.timing.clock import ManualClock


def snapshot_of(options, parallelism=1):
    """Run a job whose clock moves when it waits."""
    clock = ManualClock(1_000_000)
    options = {"metrics.latency.interval": "10 ms"} | options
    env = StreamExecutionEnvironment.create_local_environment(parallelism).configure(Configuration(options))
    numbers = env.from_source(DataGeneratorSource(int, 200, 1000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.uid("numbers").rebalance().map(lambda number: number + 1).uid("mapped").key_by(lambda n: n % 7).sum().uid(
        "sums"
    ).for_each(lambda _: None)
    client = JobClient(env.job("marked"), LocalRunner(clock, lambda seconds: clock.advance(int(seconds * 1000) + 1)))
    client.run()
    return client.snapshot()


def test_every_vertex_behind_a_source_has_the_ages_of_markers():
    job = snapshot_of({})

    found = {operator: (source, ages) for source, operator, _, ages in job.latencies()}

    assert set(found) == {"mapped", "sums"}
    assert {source for source, _ in found.values()} == {"source_id.numbers."}
    for name in ("mapped", "sums"):
        ages = found[name][1]
        assert ages["count"] >= 3 and 0 <= ages["min"] <= ages["median"] <= ages["p99"] <= ages["max"]


def test_the_age_of_a_marker_is_that_since_its_source_made_it():
    clock, sent = ManualClock(1_000_000), []
    output = SimpleNamespace(latency=lambda source, marked: sent.append((source, marked)))
    source = SimpleNamespace(vertex=SimpleNamespace(nodes=[SimpleNamespace(id=7)]), outputs=[output], marker_ages={})
    sink = SimpleNamespace(vertex=None, outputs=[], marker_ages={})
    settings = LatencySettings(interval=100, history=2)
    markers = LatencyMarkers(settings, 3, {7: "numbers"}, clock)

    for pause in (0, 50, 50, 100):  # of which one is too early
        clock.advance(pause)
        due = markers.advance(clock.now(), [source], None)
    assert (len(sent), due) == (3, clock.now() + 100)
    clock.advance(40)
    for number, marked in sent:
        markers.take(sink, number, marked)

    assert [round(age) for age in sink.marker_ages["source_id.numbers."]] == [140, 40]  # the newest two
    assert LatencyMarkers(LatencySettings(), 0, {}, clock).advance(clock.now(), [source], 5) == 5


def test_they_have_flinks_names():
    job = snapshot_of({})
    name = "latency.source_id.numbers.operator_id.sums.operator_subtask_index.0.latency_p99"

    (found,) = of_job(job, [name])
    points = [point for point in points_of(job) if point.scope.get("kind") == "latency"]

    assert float(found["value"]) >= 0
    assert {"id": name} in of_job(job, None)
    assert {(point.scope["source_id"], point.scope["operator_id"]) for point in points} == {
        ("numbers", "mapped"),
        ("numbers", "sums"),
    }
    assert PrometheusReporter.family(points[0]).startswith("flink_taskmanager_job_latency_")


@pytest.mark.parametrize(
    ("granularity", "sources"),
    [
        ("single", {""}),
        ("operator", {"source_id.numbers."}),
        ("subtask", {"source_id.numbers.source_subtask_index.0."}),
    ],
)
def test_what_they_are_told_apart_by_is_set(granularity, sources):
    job = snapshot_of({"metrics.latency.granularity": granularity})

    assert {source for source, *_ in job.latencies()} == sources
    assert [point for point in points_of(job) if point.name == "latency_max"]


@pytest.mark.parametrize("options", [{"metrics.latency.interval": 0}, {"execution.runtime-mode": "batch"}])
def test_there_are_none_where_they_are_off_and_in_batch(options):
    assert list(snapshot_of(options).latencies()) == []


def test_they_are_not_part_of_a_checkpoint_that_overtakes_them(tmp_path):
    options = {
        "execution.checkpointing.interval": "5 ms",
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.dir": tmp_path,
        "metrics.latency.interval": "1 ms",
    }

    job = snapshot_of(options, 2)

    assert job.checkpoints.completed > 0
    # one may be overtaken by the next, on a busy machine
    assert [
        each.failure for each in job.checkpoints.history if each.failure and "is complete" not in each.failure
    ] == []
    assert job.state.name == "FINISHED"
