import io
import re
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from rich.console import Console

from funken.api.jobs.results import watch_jobs
from funken.cli import progress
from funken.cli.progress import Progress
from funken.errors import FunkenError
from funken.metrics.registry import bucket_of
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

    phase = "waiting for Spark"

    def metrics(self):
        return self.reported

    def snapshot(self):
        return SimpleNamespace(phase=self.phase)


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
        client.phase = "opening operators (1 of 3 subtasks)"
        shown.show(begin + 2.2)
        client.phase = "opening operators (2 of 3 subtasks)"
        shown.show(begin + 2.4)
        assert out.file.getvalue() == "letters: waiting for Spark\nletters: opening operators (1 of 3 subtasks)\n"
        client.reported = metrics(10, [(10, 1)], (5000, 5000))
        shown.show(begin + 3)
        table = [line.split() for line in plain_of(out).splitlines()[2:]]

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
