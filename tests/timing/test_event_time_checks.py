"""What is noticed about event time at its sources; each case went by in silence before."""

import logging

import pytest

from funken import (
    Configuration,
    FileSource,
    JobClient,
    StreamExecutionEnvironment,
    StreamFormat,
    TumblingEventTimeWindows,
    WatermarkGenerator,
    WatermarkStrategy,
)
from funken.ids import MIN_TIMESTAMP
from funken.runtime.driver.local_runner import LocalRunner
from funken.testing import local
from funken.timing.watermarks import SKEW_MILLIS, STALL_MILLIS, EventTimeChecks, WatermarkProgress

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


class EveryRecord(WatermarkGenerator):
    """Emits at once: so a test does not depend on how many records are read between two ticks."""

    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event_timestamp - 1)


class Checked:
    """Checks, and the progress of the splits that they look at."""

    def __init__(self, strategy=MONOTONOUS, batch=False):
        self.found = []
        self.checks = EventTimeChecks(strategy, lambda kind, text: self.found.append((kind, text)), batch)
        self.progress = WatermarkProgress(strategy)

    def records(self, split, *timestamps, now=0):
        self.progress.add(split, now)
        self.progress.on_block(split, list(timestamps), now)

    def tick(self, now):
        self.progress.periodic(now)
        self.checks.periodic(self.progress.live(), now)

    @property
    def kinds(self):
        return [kind for kind, _ in self.found]


def test_an_idle_split_that_holds_the_watermark_back():
    checked = Checked()
    checked.records("quiet", 5)
    for now in range(0, STALL_MILLIS + 1, 1000):
        checked.records("busy", 10 + now, now=now)
        checked.tick(now)
        assert checked.kinds == (["idle"] if now == STALL_MILLIS else [])
    checked.tick(2 * STALL_MILLIS)

    assert checked.kinds == ["idle"], "once"
    assert "split 'quiet' has had no records for 10 s" in checked.found[0][1]
    assert "with_idleness" in checked.found[0][1]


def test_a_split_that_may_be_idle_is_not_warned_of():
    checked = Checked(MONOTONOUS.with_idleness("1 min"))
    checked.records("quiet", 5)
    checked.records("busy", 1000, now=STALL_MILLIS)
    checked.tick(STALL_MILLIS)
    assert checked.kinds == []


def test_splits_that_are_far_apart_in_event_time():
    checked = Checked()
    checked.records("yesterday", 5)
    checked.records("today", 5 + SKEW_MILLIS)
    checked.tick(0)
    assert checked.kinds == []

    checked.records("today", 6 + SKEW_MILLIS)
    checked.tick(200)
    assert checked.kinds == ["skew"]
    assert "with_watermark_alignment" in checked.found[0][1]


def test_aligned_splits_may_be_far_apart():
    checked = Checked(MONOTONOUS.with_watermark_alignment("all", "2 d"))
    checked.records("yesterday", 5)
    checked.records("today", 24 * SKEW_MILLIS)
    checked.tick(0)
    assert checked.kinds == []


@pytest.mark.parametrize(
    ("timestamps", "kinds"),
    [
        ((1_700_000_000, 1_700_000_009), ["seconds"]),
        ((1_700_000_000_000,), []),
        ((0, 5000), []),
        ((0, 1_700_000_000), []),
    ],
    ids=["seconds", "milliseconds", "since the start", "mixed"],
)
def test_timestamps_that_look_like_seconds(timestamps, kinds):
    checked = Checked()
    checked.checks.begin_split("", min(timestamps), max(timestamps), MIN_TIMESTAMP)
    assert checked.kinds == kinds


def test_a_late_split_is_nothing_in_batch_mode():
    checked = Checked(batch=True)
    checked.checks.begin_split("b", 1, 2, 100)
    assert checked.kinds == []


# ---- whole jobs


@pytest.fixture
def two_days(tmp_path):
    """Two files that are read in the order of their names, which is not that of their time."""
    (tmp_path / "a-second.txt").write_text("\n".join(str(n) for n in range(1000, 1300)))
    (tmp_path / "b-first.txt").write_text("\n".join(str(n) for n in range(100)))
    return tmp_path


def job_over(folder, strategy, columns="auto"):
    configuration = Configuration({"pipeline.vectorized": columns == "auto", "pipeline.auto-watermark-interval": "1 h"})
    env = StreamExecutionEnvironment.create_local_environment(1, configuration)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
    strategy = strategy.with_timestamp_assigner(lambda line, _: int(line))
    counts = []
    lines = env.from_source(source, strategy, "days").map(lambda line: 1)
    windows = lines.window_all(TumblingEventTimeWindows.of(10)).reduce(lambda a, b: a + b).name("counts")
    with windows.execute_and_collect() as found:
        counts = list(found)
        client = found.get_job_client()
    return sum(counts), client


def late(client):
    return client._job.diagnosis.late_records


def test_files_in_the_wrong_order_are_warned_of(two_days, caplog):
    with caplog.at_level(logging.WARNING):
        total, client = job_over(two_days, WatermarkStrategy.for_generator(EveryRecord))

    assert total + late(client) == 400
    assert late(client) == 100, "a quarter of the input"
    assert "b-first.txt@" in caplog.text
    assert "begins at 0:00:00, but the splits read before it" in caplog.text
    assert "with_wait_for_all_splits" in caplog.text
    assert (
        "operator 'counts': 100 late records dropped in all, 25% of the 400 that it was given. Nothing" in caplog.text
    )


@pytest.mark.parametrize("columns", ["auto", "off"])
def test_files_in_the_wrong_order_are_warned_of_also_if_no_watermark_came_between_them(two_days, columns):
    """With few records no watermark is due before the second file begins: nothing is lost, this time."""
    total, client = job_over(two_days, MONOTONOUS, columns)

    assert (total, late(client)) == (400, 0)
    (text,) = client.warnings
    assert text.startswith("operator 'days': split '")
    assert "b-first.txt@" in text
    assert "begins at 0:00:00, but the splits read before it end with a watermark of 0:00:01: its" in text
    assert "with_wait_for_all_splits" in text


@pytest.mark.parametrize(
    "strategy", [MONOTONOUS.with_wait_for_all_splits(), WatermarkStrategy.for_bounded_out_of_orderness("2 s")]
)
def test_files_whose_order_does_not_matter_are_not(two_days, strategy):
    total, client = job_over(two_days, strategy)
    assert (total, late(client), client.warnings) == (400, 0, ())


def test_files_in_the_order_of_their_time_are_not(two_days):
    (two_days / "a-second.txt").rename(two_days / "c-second.txt")
    total, client = job_over(two_days, MONOTONOUS)
    assert (total, late(client), client.warnings) == (400, 0, ())


def test_a_watermark_that_waits_for_all_splits_loses_nothing(two_days):
    total, client = job_over(two_days, WatermarkStrategy.for_generator(EveryRecord).with_wait_for_all_splits())

    assert (total, late(client), client.warnings) == (400, 0, ())


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_the_order_per_key_is_kept_from_a_collection_through_timestamps(parallelism):
    """The assigner has the parallelism of the collection: records of a key are not dealt out to several subtasks."""
    stamped = MONOTONOUS.with_timestamp_assigner(lambda pair, _: pair[1])
    pairs = local([(n % 5, n) for n in range(3000)], parallelism).assign_timestamps_and_watermarks(stamped)
    with pairs.key_by(lambda pair: pair[0]).map(lambda pair: pair).execute_and_collect() as found:
        by_key = {}
        for key, n in found:
            by_key.setdefault(key, []).append(n)
    assert by_key == {key: list(range(key, 3000, 5)) for key in range(5)}


def test_seconds_are_warned_of_in_a_job(caplog):
    stream = local([1_700_000_000, 1_700_000_005])
    strategy = MONOTONOUS.with_timestamp_assigner(lambda n, _: n)
    stream.assign_timestamps_and_watermarks(strategy).name("stamped").for_each(lambda n: None)
    client = JobClient(stream.get_execution_environment().job("seconds"), LocalRunner())
    client.run()

    assert [text.partition(",")[0] for text in client.warnings] == [
        "operator 'stamped': the first timestamps look like seconds (1700000000)"
    ]
