import pytest

from funken.ids import MAX_WATERMARK
from funken.metrics.registry import bucket_of
from funken.runtime.job.snapshot import MetricsHistory, SubtaskMetrics
from funken.runtime.messages import MetricsReport, TaskId, VertexMetrics
from funken.testing import local

TASK = TaskId(1, 0)


def history():
    stream = local([1], parallelism=1).rebalance().map(lambda n: n)
    stream.for_each(lambda n: None)
    return MetricsHistory(stream.get_execution_environment().compile("numbers"))


def take(metrics, at, **numbers):
    metrics.take(MetricsReport(TASK, vertices={1: VertexMetrics(**numbers)}, at=at))
    return metrics.current()[1, 0]


def test_rates_are_about_the_last_five_seconds():
    metrics = history()
    take(metrics, 100.0, records_in=0)
    for second in range(1, 11):
        found = take(metrics, 100.0 + second, records_in=1000 + 10 * second, bytes_out=second)

    assert found.records_in_per_second == 10
    assert found.bytes_out_per_second == 1
    assert found.records_in == 1100


def test_busy_back_pressured_and_idle_time_add_up_to_a_second():
    metrics = history()
    take(metrics, 0.0)
    found = take(metrics, 2.0, busy=0.5, back_pressured=1.0)

    assert (found.busy_ms_per_second, found.back_pressured_ms_per_second, found.idle_ms_per_second) == (250, 500, 250)


def test_time_that_counts_twice_is_no_more_than_there_is():
    metrics = history()
    take(metrics, 0.0)
    found = take(metrics, 1.0, busy=0.9, back_pressured=0.8)

    assert (found.busy_ms_per_second, found.back_pressured_ms_per_second, found.idle_ms_per_second) == (900, 100, 0)


def test_the_latency_is_that_of_the_last_seconds():
    metrics = history()
    take(metrics, 0.0, latency={bucket_of(10_000): 100})
    found = take(metrics, 1.0, latency={bucket_of(10_000): 100, bucket_of(80_000): 3})

    assert found.latency_p50 == pytest.approx(80, rel=0.04)


def test_a_task_that_spark_starts_again_begins_anew():
    metrics = history()
    take(metrics, 100.0, records_in=1000)
    found = take(metrics, 1.0, records_in=5)

    assert (found.records_in, found.records_in_per_second) == (5, 0)


def test_the_lag_is_that_of_the_watermark_and_ends_with_it():
    assert SubtaskMetrics(input_watermark=700).lag(1000) == 300
    assert SubtaskMetrics(output_watermark=900).lag(1000) == 100
    assert SubtaskMetrics().lag(1000) is None
    assert SubtaskMetrics(input_watermark=MAX_WATERMARK).lag(1000) is None


def test_names_are_flinks_and_what_is_not_known_is_left_out():
    named = SubtaskMetrics(records_in=3, output_watermark=5).named(10)

    assert (named["numRecordsIn"], named["currentOutputWatermark"], named["watermarkLag"]) == (3, 5, 5)
    assert named["idleTimeMsPerSecond"] == 1000
    assert "currentInputWatermark" not in named


def test_another_attempt_begins_without_numbers():
    metrics = history()
    take(metrics, 0.0, records_in=5)
    metrics.clear()

    assert metrics.current() == {}
