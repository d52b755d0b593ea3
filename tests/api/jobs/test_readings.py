import pytest

from funken.api.jobs.notebook import JobMeter, JobReader, Reading
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.metrics.registry import bucket_of
from funken.runtime.messages import MetricsReport, TaskId, VertexMetrics
from funken.testing import local


def plan(parallelism=2):
    stream = local(["a"], parallelism=parallelism).map(str.upper)
    stream.print()
    return stream.get_execution_environment().compile("letters")


def metrics(read, latencies=(), watermarks=(0, 0)):
    """What the three tasks of the plan say: one that reads, two that print."""
    found = {TaskId(0, 0): MetricsReport(TaskId(0, 0), vertices={0: VertexMetrics(records_in=read)})}
    for index, watermark in enumerate(watermarks):
        latency = {bucket_of(ms * 1000): count for ms, count in (latencies if index == 0 else ())}
        last = VertexMetrics(records_in=read // 2, watermark=watermark, latency=latency)
        found[TaskId(1, index)] = MetricsReport(TaskId(1, index), vertices={1: last})
    return found


def test_rate_and_latency_are_those_of_the_last_seconds():
    meter = JobMeter(plan())
    meter.read(metrics(0), now=0)
    meter.read(metrics(1000, [(10, 100)]), now=1)
    for second in range(2, 8):
        reading = meter.read(metrics(1000 + 10 * second, [(10, 100), (50, second)]), now=second)

    assert reading.records == 1070
    assert reading.rate == pytest.approx(10)
    assert reading.p50 == pytest.approx(50, rel=0.04)


def test_the_total_is_about_the_whole_run():
    meter = JobMeter(plan())
    meter.read(metrics(100), now=10)

    total = meter.total(metrics(1100, [(10, 99), (80, 1)]), now=20)

    assert total.rate == 100
    assert total.p50 == pytest.approx(10, rel=0.04)


def test_a_job_that_was_too_short_has_no_rate():
    assert JobMeter(plan()).total(metrics(1000), now=3).rate is None


def test_the_watermark_is_that_of_the_slowest_and_unknown_until_all_have_spoken():
    meter = JobMeter(plan())

    assert meter.read(metrics(1, watermarks=(5000,)), now=0).watermark == MIN_TIMESTAMP
    assert meter.read(metrics(1, watermarks=(5000, 3000)), now=1).watermark == 3000


def test_a_reading_as_a_line():
    assert Reading(1234, 56.7, 75_000, 5.25, 1234.5).line() == (
        "1,234 records, 57 records/s, watermark 0:01:15, latency p50 5.2 ms, p99 1,234 ms"
    )
    assert Reading(7, None, MAX_WATERMARK, None, None).line() == "7 records"


def test_the_line_says_what_was_dropped():
    assert Reading(10, None, MIN_TIMESTAMP, None, None, late=1).line() == "10 records, 1 late record DROPPED"


class Job:
    """A job that is looked at, not run."""

    restarts = 0

    def __init__(self, parallelism):
        self.plan = plan(parallelism)
        self.reported = {}

    def metrics(self):
        return self.reported


def test_after_a_change_of_the_parallelism_the_watermark_is_that_of_the_new_tasks():
    job = Job(3)
    reader = JobReader(job)
    job.reported = metrics(10, watermarks=(1000, 2000, 3000))
    assert reader.read(now=1, wall=0).watermark == 1000

    job.plan, job.reported = plan(2), metrics(4, watermarks=(5000, 3000))

    reading = reader.read(now=2, wall=0)
    assert (reading.watermark, reading.records, reading.rate) == (3000, 4, None)
