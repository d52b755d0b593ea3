from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from funken import InvalidProgram, JobExecutionError, TimestampAssigner, WatermarkStrategy
from funken.testing import local
from funken.timing.instants import timestamp_ms, timestamps_ms

MONDAY = datetime(2026, 11, 23, 12, tzinfo=UTC)


def stamps(*events):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event)
    stamped = local(events).assign_timestamps_and_watermarks(strategy)
    return stamped.process(lambda event, ctx: [ctx.timestamp()]).execute_and_collect(limit=len(events))


def test_an_instant_is_the_same_in_every_zone():
    there = MONDAY.astimezone(timezone(timedelta(hours=-8)))

    assert timestamp_ms(there) == timestamp_ms(MONDAY) == int(MONDAY.timestamp()) * 1000


def test_a_timestamp_assigner_may_return_instants():
    assert stamps(MONDAY, MONDAY + timedelta(milliseconds=3)) == [1795435200000, 1795435200003]


def test_a_datetime_without_a_zone_is_refused_as_a_timestamp_with_the_reason():
    with pytest.raises(JobExecutionError, match=r"(?s)has no time zone, so which instant it is depends on the machine"):
        stamps(MONDAY.replace(tzinfo=None))


def test_what_a_timestamp_assigner_object_returns_is_checked_too():
    class At(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value

    strategy = WatermarkStrategy.for_bounded_out_of_orderness("5 s").with_timestamp_assigner(At())

    with pytest.raises(JobExecutionError, match="has no time zone"):
        local([MONDAY.replace(tzinfo=None)]).assign_timestamps_and_watermarks(strategy).execute_and_collect(limit=1)


class Indexed:
    def __index__(self):
        return 7


@pytest.mark.parametrize(
    ("at", "remedy"),
    [
        (1.5, "int(at * 1000)"),
        ("2026-01-01", "fromisoformat"),
        (None, "filter records"),
        (True, "milliseconds since the epoch as an int"),
        (date(2026, 1, 1), "which zone"),
    ],
)
def test_what_is_no_instant_is_refused_with_its_record(at, remedy):
    with pytest.raises(InvalidProgram) as refused:
        timestamps_ms([1, at], ["first", {"id": 7, "at": at}])
    assert remedy in str(refused.value)
    assert "was given to the record {'" in str(refused.value)


def test_ints_of_other_kinds_and_pandas_timestamps_are_taken():
    pandas = pytest.importorskip("pandas")
    aware = pandas.Timestamp("1970-01-01T00:00:02.000000001", tz="UTC")
    assert timestamps_ms([aware, Indexed(), 5], "abc") == [2000, 7, 5]
    with pytest.raises(InvalidProgram, match="no time zone"):
        timestamp_ms(pandas.Timestamp("2026-01-01"))
    with pytest.raises(InvalidProgram, match="NaT .*filter records"):
        timestamp_ms(pandas.NaT, "record")


def test_a_job_fails_at_the_first_record_whose_timestamp_is_none():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record["at"])
    stream = local([{"at": 1}, {"at": 2.5}]).assign_timestamps_and_watermarks(strategy)
    with pytest.raises(JobExecutionError, match=r"2\.5 \(float\) is no event timestamp.*record \{'at': 2\.5\}"):
        stream.execute_and_collect(limit=2)
