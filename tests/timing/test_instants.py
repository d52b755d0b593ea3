from datetime import UTC, datetime, timedelta, timezone

import pytest

from funken import JobExecutionError, TimestampAssigner, WatermarkStrategy
from funken.testing import local
from funken.timing.instants import timestamp_ms

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
