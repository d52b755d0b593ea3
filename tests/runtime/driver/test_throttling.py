"""What the driver knows of how fast sources read."""

from __future__ import annotations

from funken import StreamExecutionEnvironment
from funken.runtime.driver.master import QueueDelayReports, SourceRates
from funken.runtime.messages import MetricsReport, QueueDelayReported, TaskId, VertexMetrics


def rates_of_a_job() -> tuple[SourceRates, int]:
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.from_collection([1, 2]).key_by(lambda n: n).sum().print()
    vertices = env.compile().vertices
    (source,) = (vertex.id for vertex in vertices if vertex.source is not None)
    return SourceRates(vertices), source


def report(task: int, vertex: int, records: int, at: float, stage: int = 0) -> MetricsReport:
    return MetricsReport(TaskId(stage, task), vertices={vertex: VertexMetrics(records_in=records)}, at=at)


def test_the_mean_is_over_tasks_with_sources() -> None:
    rates, source = rates_of_a_job()
    assert rates.mean == 0
    for at in (0.0, 1.0):
        rates.on_report(report(0, source, int(at * 1000), 100 + at))
        rates.on_report(report(1, source, int(at * 200), 7 + at))  # each by its own clock
        rates.on_report(report(0, source + 1, int(at * 9000), 50 + at, stage=1))
    assert rates.mean == 600


def test_a_task_that_begins_anew_and_reports_that_come_at_once() -> None:
    rates, source = rates_of_a_job()
    rates.on_report(report(0, source, 0, 1.0))
    rates.on_report(report(0, source, 500, 2.0))
    rates.on_report(report(0, source, 600, 2.01))  # too close to tell
    assert rates.mean == 500
    rates.on_report(report(0, source, 3, 0.5))  # restarted elsewhere: another clock, other counts
    assert rates.mean == 500
    rates.on_report(report(0, source, 103, 1.5))
    assert rates.mean == 100


def late(task: int, excess: float) -> QueueDelayReported:
    return QueueDelayReported(TaskId(1, task), ingested_at=1.0, excess=excess)


def test_reports_of_late_records_go_together() -> None:
    reports = QueueDelayReports(0.1)
    assert reports.add(late(0, 0.3), 5.0) == (late(0, 0.3),)  # nobody waits for company
    assert reports.add(late(1, 0.1), 5.01) == reports.add(late(0, 0.4), 5.02) == ()
    assert reports.add(late(1, 0.2), 5.15) == (late(0, 0.4), late(1, 0.2))  # the newest of each
    assert reports.add(late(2, 0.1), 5.16) == ()
    assert reports.add(late(3, 0.1), 7.0) == (late(3, 0.1),)  # what was late long ago no longer counts
    assert reports.add(late(2, 0.1), 7.2) == (late(2, 0.1),)


def test_one_message_per_interval_however_many_tasks_report() -> None:
    reports = QueueDelayReports(0.125)
    messages, told = 0, 0
    for turn in range(40):  # ten seconds, 16 tasks
        for task in range(16):
            found = reports.add(late(task, 1 + turn), turn * 0.25 + task * 0.015)
            messages, told = messages + bool(found), told + len(found)
    assert messages <= 81
    assert told > 600
