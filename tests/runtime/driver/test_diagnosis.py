"""What a user is told while a job runs: late records, sources that hold others back, keys that have nearly all records."""

import logging

import pytest

from funken import (
    DataGeneratorSource,
    JobClient,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkGenerator,
    WatermarkStrategy,
)
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.runtime.driver.diagnosis import (
    LATE_RECORDS,
    SKEW_RECORDS,
    STALL_SECONDS,
    STILL_RECORDS,
    STILL_SECONDS,
    JobDiagnosis,
)
from funken.runtime.driver.local_runner import LocalRunner
from funken.runtime.messages import MetricsReport, OperatorMetrics, TaskId, VertexMetrics
from funken.testing import local


class EveryRecord(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event_timestamp)


STAMPED = WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(lambda n, _: n)


def windowed(records, parallelism=1, strategy=STAMPED):
    stream = local(records, parallelism).assign_timestamps_and_watermarks(strategy)
    summed = stream.key_by(lambda n: n % 4).window(TumblingEventTimeWindows.of(10)).reduce(lambda a, b: a + b)
    summed.name("sums").for_each(lambda n: None)
    return stream.get_execution_environment()


class Watched:
    """The diagnosis of a job, with what it says."""

    def __init__(self, plan):
        self.said = []
        self.diagnosis = JobDiagnosis(plan, self.said.append)

    def report(self, vertex, subtask, at=0.0, late=0, **numbers):
        user = {"uid": OperatorMetrics("sums", subtask, {LATE_RECORDS: late})} if late else {}
        task = TaskId(vertex, subtask)
        vertices = {vertex: VertexMetrics(user=user, **numbers)}
        self.diagnosis.take(MetricsReport(task, vertices=vertices, at=at))

    @property
    def kinds(self):
        return [warning.kind for warning in self.said]


@pytest.fixture
def watched():
    return Watched(windowed([1], parallelism=2).compile())


def test_late_records_are_warned_of_while_the_job_runs_and_summed_up_at_its_end(caplog):
    job = windowed([5, 50, 3, 4]).job("late")
    client = JobClient(job, LocalRunner())
    with caplog.at_level(logging.WARNING):
        client.run()

    assert client._job.diagnosis.late_records == 2
    assert "job 'late': operator 'sums': drops late records (" in caplog.text
    assert "side_output_late_data" in caplog.text, "the remedy"
    assert client.warnings[-1].startswith(
        "operator 'sums': 2 late records dropped in all, 50% of the 4 that it was given. Nothing is late with "
    )
    for remedy in (
        "runtime-mode BATCH",
        "with_wait_for_all_splits(), given to from_source(), where each split has a watermark of its own",
        "with_watermark_alignment()",
        "allowed_lateness()",
        "side_output_late_data()",
    ):
        assert remedy in client.warnings[-1]


def test_a_job_without_late_records_is_warned_of_nothing():
    client = JobClient(windowed([5, 6, 50]).job("in time"), LocalRunner())
    client.run()

    assert (client._job.diagnosis.late_records, client.warnings) == (0, ())


def test_each_operator_is_warned_of_once(watched):
    watched.report(1, 0, late=3)
    watched.report(1, 1, late=4)
    watched.report(1, 0, late=9)

    assert watched.kinds == ["late"]
    assert watched.diagnosis.late_records == 13


def test_what_attempts_dropped_adds_up(watched):
    watched.report(1, 0, late=3, records_in=100)
    watched.report(1, 1, records_in=300)
    watched.diagnosis.begin_attempt()
    watched.report(1, 0, late=2, records_in=100)

    assert watched.diagnosis.late_records == 5
    watched.diagnosis.finish()
    assert watched.said[-1].text.startswith(
        "operator 'sums': 5 late records dropped in all, 1% of the 500 that it was given. "
    )


@pytest.mark.parametrize(
    ("given", "share"), [(400, "less than 1% of the 400"), (3, "all, 100% of the 3"), (2, "in all. N")]
)
def test_the_share_of_what_was_dropped(watched, given, share):
    """What a chain is given may be less than what its window gets, behind a flat_map; then there is no share to tell."""
    watched.report(1, 0, late=3, records_in=given)
    watched.diagnosis.finish()
    assert share in watched.said[-1].text


def test_a_job_without_end_is_not_advised_to_use_batch(watched):
    stream = StreamExecutionEnvironment.create_local_environment(parallelism=1).from_source(
        DataGeneratorSource(int), STAMPED
    )
    stream.window_all(TumblingEventTimeWindows.of(10)).reduce(max).name("sums").for_each(lambda n: None)
    endless = Watched(stream.get_execution_environment().compile())
    endless.report(0, 0, late=3, records_in=100)
    endless.diagnosis.finish()
    assert "BATCH" not in endless.said[-1].text
    assert "with_watermark_alignment" in endless.said[-1].text


def test_a_key_with_nearly_all_records_is_warned_of(watched):
    watched.report(1, 0, records_in=SKEW_RECORDS)
    assert watched.kinds == [], "the other subtask has not reported"
    watched.report(1, 1, records_in=100)

    assert watched.kinds == ["key skew"]
    assert "subtask 0 of 2 is given 100% of the records (50,100 so far)" in watched.said[0].text


def test_a_report_from_before_the_records_came_shows_no_skew(watched):
    watched.report(1, 0, records_in=0)
    watched.report(1, 1, records_in=SKEW_RECORDS)
    watched.report(1, 1, records_in=2 * SKEW_RECORDS)
    assert watched.kinds == []
    watched.report(1, 0, records_in=SKEW_RECORDS)
    watched.report(1, 1, records_in=40 * SKEW_RECORDS)
    assert watched.kinds == [], "the other subtask has to report once more"
    watched.report(1, 0, records_in=SKEW_RECORDS)
    assert watched.kinds == ["key skew"]


def test_an_even_share_is_not(watched):
    watched.report(1, 0, records_in=SKEW_RECORDS)
    watched.report(1, 1, records_in=SKEW_RECORDS)
    assert watched.kinds == []


def two_sources(**options):
    one = local([1]).assign_timestamps_and_watermarks(STAMPED).name("busy")
    env = one.get_execution_environment()
    strategy = STAMPED.with_idleness("1 s") if options else STAMPED
    other = env.from_collection([2]).assign_timestamps_and_watermarks(strategy).name("silent")
    one.union(other).window_all(TumblingEventTimeWindows.of(10)).reduce(max).for_each(lambda n: None)
    plan = env.compile()
    vertices = {node.name: vertex.id for vertex in plan.vertices for node in vertex.nodes}
    return Watched(plan), vertices


def test_a_source_without_records_that_holds_others_back_is_warned_of():
    watched, vertex = two_sources()
    for second in range(20):
        watched.report(vertex["busy"], 0, at=second, records_in=second, watermark_out=1000 * second)
        watched.report(vertex["silent"], 0, at=500 + second, records_in=1, watermark_out=7)
        if second < STALL_SECONDS:
            assert watched.kinds == []

    assert watched.kinds == ["idle"]
    assert "with_idleness" in watched.said[0].text
    assert "it has had no records for 10 s" in watched.said[0].text


def endless(windows=True):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    stream = env.from_source(DataGeneratorSource(lambda n: n), STAMPED, "numbers")
    stream = stream.window_all(TumblingEventTimeWindows.of(10)).reduce(max) if windows else stream
    stream.for_each(lambda n: None)
    return Watched(env.compile())


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (7, "operator 'numbers': its watermark stands still at "),
        (MIN_TIMESTAMP, "its watermark has not come yet, while "),
    ],
)
def test_a_watermark_that_stands_still_while_records_come_is_warned_of(mark, said):
    watched = endless()
    for second in range(0, 60, 5):
        watched.report(0, 0, at=100 + second, records_in=second * STILL_RECORDS, watermark_out=mark)
        if second < STILL_SECONDS:
            assert watched.kinds == []

    assert watched.kinds == ["still"]
    assert said in watched.said[0].text
    for remedy in ("30,000 records came in 30 s", "in milliseconds, from the timestamp assigner", "with_idleness()"):
        assert remedy in watched.said[0].text


def test_a_watermark_that_rises_or_that_nothing_waits_for_is_not():
    rising, few, unwindowed = endless(), endless(), endless(windows=False)
    bounded = Watched(windowed([1]).compile())
    for second in range(0, 120, 5):
        come = second * STILL_RECORDS
        rising.report(0, 0, at=second, records_in=come, watermark_out=second // 20)
        few.report(0, 0, at=second, records_in=second, watermark_out=7)
        unwindowed.report(0, 0, at=second, records_in=come, watermark_out=7)
        bounded.report(0, 0, at=second, records_in=come, watermark_out=7)

    assert [*rising.kinds, *few.kinds, *unwindowed.kinds, *bounded.kinds] == []


def test_a_source_that_may_be_idle_or_has_ended_is_not():
    watched, vertex = two_sources(idleness=True)
    ended, places = two_sources()
    for second in range(20):
        watched.report(vertex["busy"], 0, at=second, records_in=second, watermark_out=1000 * second)
        watched.report(vertex["silent"], 0, at=second, records_in=1, watermark_out=7)
        ended.report(places["busy"], 0, at=second, records_in=second, watermark_out=1000 * second)
        ended.report(places["silent"], 0, at=second, records_in=1, watermark_out=MAX_WATERMARK)

    assert watched.kinds == ended.kinds == []
