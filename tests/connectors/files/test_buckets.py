import time

import pytest

from funken.connectors.files.sink import BucketAssigner, BucketContext, DateTimeBucketAssigner
from funken.errors import InvalidConfiguration
from funken.ids import MIN_TIMESTAMP

AT = 1_709_255_109_007  # 2024-03-01 01:05:09.007 UTC, a Friday


def bucket(pattern, zone="UTC", at=AT):
    return DateTimeBucketAssigner(pattern, zone).bucket_of_block(BucketContext(at))


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("yyyy-MM-dd--HH", "2024-03-01--01"),
        ("yyyy/M/d/H", "2024/3/1/1"),
        ("uuuuMMddHHmmssSSS", "20240301010509007"),
        ("yy-DDD", "24-061"),
        ("EEE, d MMM yyyy hh:mm a", "Fri, 1 Mar 2024 01:05 AM"),
        ("EEEE MMMM", "Friday March"),
        ("'dt='yyyy-MM-dd'/hour='HH", "dt=2024-03-01/hour=01"),
        ("yyyy'T'HH 'o''clock' ''", "2024T01 o'clock '"),
        ("'{x}'-yyyy_Q", "{x}-2024_1"),
    ],
)
def test_patterns_of_java_are_understood(pattern, name):
    assert bucket(pattern) == name


@pytest.mark.parametrize(
    ("zone", "hour"),
    [
        ("UTC", 1),
        ("Z", 1),
        ("America/New_York", 20),
        ("Asia/Tokyo", 10),
        ("GMT-08:00", 17),
        ("+02", 3),
        ("UTC+0530", 6),
    ],
)
def test_zones_are_names_or_offsets(zone, hour):
    assert bucket("H", zone) == str(hour)


def test_without_a_zone_the_machine_decides(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert bucket("HH", None) == "10"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_daylight_saving_follows_the_date():
    assert bucket("HH", "Europe/Berlin", AT) == "02"
    assert bucket("HH", "Europe/Berlin", AT + 150 * 86_400_000) == "03"


@pytest.mark.parametrize("pattern", ["yyyy-ww", "YYYY", "yyyyy", "VV", "yyyy'", "[yyyy]", "yyyy#"])
def test_patterns_that_are_not_understood_are_refused(pattern):
    with pytest.raises(InvalidConfiguration, match="date pattern"):
        BucketAssigner.date_time_bucket_assigner(pattern)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "PSTT"])
def test_unknown_zones_are_refused(zone):
    with pytest.raises(InvalidConfiguration, match="time zone"):
        BucketAssigner.date_time_bucket_assigner(timezone_id=zone)


def test_the_base_path_needs_no_record():
    assert BucketAssigner.base_path_bucket_assigner().bucket_of_block(BucketContext(0)) == ""


def test_the_context_follows_the_record():
    context = BucketContext(now=7)

    seen = [(value, context.timestamp()) for value in context.each(["a", "b"], [5, MIN_TIMESTAMP])]

    assert seen == [("a", 5), ("b", None)]
    assert [context.timestamp() for _ in context.each(["a"], None)] == [None]
    assert context.current_processing_time() == 7
