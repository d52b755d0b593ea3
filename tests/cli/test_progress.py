import io
import re
import time
from contextlib import contextmanager

import pytest
from rich.console import Console

from funken.api.jobs.watching import watch_jobs
from funken.cli import progress
from funken.cli.progress import JobMeter, Progress, Reading
from funken.errors import FunkenError
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.metrics.histogram import bucket_of
from funken.runtime.messages import MetricsReport, OperatorMetrics, TaskId, VertexMetrics
from funken.testing import local


def plan():
    stream = local(["a"], parallelism=2).map(str.upper)
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


def console(**options):
    return Console(file=io.StringIO(), width=80, soft_wrap=True, **options)


def test_the_end_of_a_job_is_told_in_a_line():
    out = console()

    with watch_jobs(Progress(out).watch):
        local([1, 2, 3]).execute_and_collect("numbers", limit=3)

    assert out.file.getvalue().startswith("numbers: ")
    assert out.file.getvalue().count("\n") == 1


@contextmanager
def refused(client):
    raise FunkenError("not today")
    yield


def test_a_job_that_fails_is_said_to_have_failed():
    out = console()

    with watch_jobs(Progress(out).watch), pytest.raises(FunkenError, match="by zero"):
        local([0]).map(lambda x: 1 // x).execute_and_collect("division", limit=1)
    with watch_jobs(refused), watch_jobs(Progress(out).watch), pytest.raises(FunkenError):
        local([0]).execute_and_collect("nothing", limit=1)

    assert out.file.getvalue().startswith("division: failed after ")
    assert out.file.getvalue().count("\n") == 1


class Client:
    """A job that is looked at, not run."""

    restarts = 0

    def __init__(self, reported):
        self.plan = plan()
        self.reported = reported

    def metrics(self):
        return self.reported


def plain_of(out):
    """What a terminal was sent, without what moves the cursor and colours."""
    return re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", out.file.getvalue())


@pytest.fixture
def by_hand(monkeypatch):
    """Show progress only when the test says so."""
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", 3600)


def test_restarts_are_counted_and_the_numbers_begin_anew(by_hand):
    out, client, begin = console(), Client(metrics(1000)), time.monotonic()
    shown = Progress(out, every=1.0)

    with shown.watch(client):
        shown.show(begin + 2)
        client.restarts, client.reported = 1, metrics(10)
        shown.show(begin + 4)
        client.reported = metrics(30)
        shown.show(begin + 6)
        client.restarts = 2

    first, again, later, end = out.file.getvalue().splitlines()
    assert first.startswith("letters: 2 s, 1,000 records")
    assert again.startswith("letters (1 restart): 4 s, 10 records")
    assert later.startswith("letters (1 restart): 6 s, 30 records, 10 records/s")
    assert end.startswith("letters (2 restarts): finished after ")


def test_a_terminal_shows_a_table(by_hand):
    out, client, begin = console(force_terminal=True), Client({}), time.monotonic()
    shown = Progress(out, below=lambda: "something more")

    with shown.watch(client):
        shown.show(begin + 2)
        assert out.file.getvalue() == "letters: starting\n"
        client.reported = metrics(10, [(10, 1)], (5000, 5000))
        shown.show(begin + 3)
        table = [line.split() for line in plain_of(out).splitlines()[1:]]

    assert table[0] == ["job", "time", "records/s", "records", "late", "watermark", "lag", "latency", "p50/p99"]
    assert table[1][-6:] == ["0:00:05", "-", "10.0", "/", "10.0", "ms"]
    assert table[2] == ["something", "more"]
    assert re.search(r"letters: finished after [\d.]+ s: 10 records, watermark 0:00:05", plain_of(out))


def test_elsewhere_there_is_a_line_now_and_then(by_hand):
    out, client, begin = console(), Client(metrics(10)), time.monotonic()
    shown = Progress(out, every=5)

    with shown.watch(client):
        for second in (1, 6, 7, 12):
            shown.show(begin + second)

    *said, ended = out.file.getvalue().splitlines()
    assert said == [
        "letters: 6 s, 10 records, 0 records/s, watermark 0:00:00",
        "letters: 12 s, 10 records, 0 records/s, watermark 0:00:00",
    ]
    assert ended.startswith("letters: finished after ")


def test_late_records_and_lag_are_columns_of_the_table(monkeypatch):
    now = 1_700_000_000_000
    monkeypatch.setattr(progress.time, "time", lambda: now / 1000)
    client = Client(metrics(10, watermarks=(now - 90_000, now)))
    user = OperatorMetrics("windows", 0, {"numLateRecordsDropped": 1234})
    client.reported[TaskId(1, 0)].vertices[1].user["uid"] = user
    shown = Progress(console(force_terminal=True))
    with shown.watch(client):
        shown.show(time.monotonic())
        out = console(force_terminal=True)
        out.print(shown.render(time.monotonic()))

    assert re.search(r"records +late +watermark +lag ", plain_of(out))
    assert re.search(r" 10 +1,234 +22:11:50 +1\.5 min ", plain_of(out))


def test_the_line_at_the_end_says_what_was_dropped():
    assert Reading(10, None, MIN_TIMESTAMP, None, None, late=1).line() == "10 records, 1 late record DROPPED"
