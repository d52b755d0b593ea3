"""Datetimes on columns give what Python's objects give, value by value."""

# ruff: noqa: DTZ001, DTZ006, DTZ007, PLW0108 - datetimes without a time zone are tested, too, and lambdas are what is traced

import time
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from funken.columnar.kernels.columns import Columns, FallBackToRows, columns_of, joined_columns
from funken.columnar.kernels.evaluation import computed
from funken.columnar.kernels.times import Times
from funken.columnar.keyed.codec import decode_block, encode_block
from funken.columnar.tracing import trace
from funken.expr.python.table import DATETIME
from funken.expr.types import FLOAT, INT, STR, Object, Tuple

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
OF_SECONDS = [
    lambda t: datetime.fromtimestamp(t, UTC).year, lambda t: datetime.fromtimestamp(t, UTC).month,
    lambda t: datetime.fromtimestamp(t, UTC).day, lambda t: datetime.fromtimestamp(t, UTC).hour,
    lambda t: datetime.fromtimestamp(t, tz=UTC).minute, lambda t: datetime.fromtimestamp(t, UTC).second,
    lambda t: datetime.fromtimestamp(t, UTC).microsecond, lambda t: datetime.fromtimestamp(t, UTC).weekday(),
    lambda t: datetime.fromtimestamp(t, UTC).isoweekday(), lambda t: datetime.fromtimestamp(t, UTC).toordinal(),
    lambda t: datetime.fromtimestamp(t, UTC).isoformat(), lambda t: str(datetime.fromtimestamp(t, UTC)),
    lambda t: datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S.%f"), lambda t: datetime.fromtimestamp(t, UTC),
    lambda t: f"{datetime.fromtimestamp(t, UTC):%d.%m.%Y %H%%}", lambda t: f"{datetime.fromtimestamp(t, UTC)}",
    lambda t: datetime.fromtimestamp(t, UTC).timestamp(), lambda t: datetime.fromtimestamp(t, UTC).date(),
    lambda t: str(datetime.fromtimestamp(t, UTC).date()), lambda t: datetime.fromtimestamp(t, UTC).date().isoformat(),
    lambda t: datetime.fromtimestamp(t, UTC).date().weekday(), lambda t: datetime.fromtimestamp(t, UTC) >= NEW_YEAR,
    lambda t: datetime.fromtimestamp(t, UTC) == datetime.fromtimestamp(t, UTC), lambda t: datetime.fromtimestamp(t).hour,
    lambda t: datetime.fromtimestamp(t, UTC).strftime("%j"), lambda t: f"{datetime.fromtimestamp(t, UTC).date():%Y/%m}",
    lambda t: datetime.fromtimestamp(t, UTC).replace(tzinfo=None).isoformat(),
]  # fmt: skip
OF_TEXTS = [
    lambda s: datetime.fromisoformat(s), lambda s: datetime.fromisoformat(s).hour, lambda s: date.fromisoformat(s),
    lambda s: datetime.fromisoformat(s).timestamp(), lambda s: datetime.fromisoformat(s).replace(tzinfo=UTC).timestamp(),
    lambda s: datetime.strptime(s, "%Y-%m-%d"), lambda s: datetime.strptime(s, "%Y-%m-%d %H:%M:%S").minute,
    lambda s: datetime.strptime(s, "%Y-%m-%dT%H:%M:%S.%f"), lambda s: datetime.strptime(s, "%d/%m/%Y"),
    lambda s: datetime.strptime(s, "%Y%m%d%H").replace(tzinfo=UTC).timestamp(), lambda s: datetime.strptime(s, "%H:%M"),
    lambda s: datetime.fromisoformat(s).date(), lambda s: datetime.fromisoformat(s).isoformat(),
]  # fmt: skip
SECONDS = st.one_of(
    st.integers(-62_135_596_800, 253_402_300_799),
    st.integers(0, 2**31),
    st.floats(-62_135_596_800, 253_402_300_799),
    st.floats(0, 2.0**31),
    st.integers(0, 2**41).map(lambda ms: ms / 1000),
    st.sampled_from([0.0, -0.5, -1e-7, 0.9999995, 0.9999996, 1e12, float("nan"), float("inf"), 951_782_399.9999999]),
)
MOMENTS = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31))
WAYS = [
    lambda t: t.isoformat(), lambda t: t.replace(microsecond=0).isoformat(), lambda t: t.isoformat() + "+00:00",
    lambda t: t.isoformat(" ", "milliseconds") + "Z", lambda t: t.isoformat(timespec="milliseconds"), lambda t: str(t.date()),
    lambda t: t.isoformat() + "+02:00", lambda t: t.strftime("%Y-%m-%d %H:%M:%S"), lambda t: t.strftime("%d/%m/%Y"),
    lambda t: t.strftime("%Y%m%d%H"), lambda t: t.strftime("%H:%M"), lambda t: t.isoformat(timespec="minutes"),
    lambda t: t.strftime("%Y-%m-%dT%H:%M:%S.%f"),
]  # fmt: skip


def compared(function, values, kind):
    """Compare a function on columns with Python; return what became of its columns."""
    traced, schema = trace(function, None, 1).typed(kind)
    try:
        expected = list(map(function, values))
    except (ValueError, OverflowError, OSError, TypeError):
        expected = None
    try:
        block = computed(traced.result, schema, columns_of(values, kind))
    except FallBackToRows:
        return None
    assert expected is not None
    assert [(type(each), repr(each)) for each in block.to_list()] == [(type(each), repr(each)) for each in expected]
    return block.leaves[0]


@pytest.mark.parametrize("number", range(len(OF_SECONDS)))
@settings(max_examples=60)
@given(st.lists(SECONDS, min_size=1, max_size=4))
def test_of_seconds(number, seconds):
    kind = INT if all(type(each) is int for each in seconds) else FLOAT
    compared(OF_SECONDS[number], seconds if kind == INT else list(map(float, seconds)), kind)


@pytest.mark.parametrize("number", range(len(OF_TEXTS)))
@settings(max_examples=60)
@given(st.lists(MOMENTS, min_size=1, max_size=3), st.sampled_from(range(len(WAYS))))
@example([datetime(2024, 2, 29), datetime(2023, 12, 31)], 5)
def test_of_texts(number, moments, way):
    compared(OF_TEXTS[number], list(map(WAYS[way], moments)), STR)


WRONG = [
    "2023-02-29",
    "2024-13-01",
    "2024-00-10",
    "2024-01-00",
    "0000-01-01",
    "2024-1-1",
    "2024-04-31",
    "2024-01-0é",
    "²024-01-01",
]
WRONG_CLOCKS = ["24:00:00", "12:60:00", "12:00:60", "12:00:61", "1a:00:00", "12-00-00", " 1:00:00"]


@pytest.mark.parametrize("text", [*WRONG, *[f"2024-01-01T{each}" for each in WRONG_CLOCKS]])
def test_texts_that_are_no_times_are_left_to_python(text):
    good = "2024-01-01" + text[10:11] + ("10:10:10" if len(text) > 10 else "")
    for function in (*OF_TEXTS, lambda s: datetime.strptime(s, "%Y-%m-%dT%H:%M:%S")):
        for texts in ([text], [good, text]):
            compared(function, texts, STR)


def test_they_stay_numbers_until_an_object_is_wanted():
    texts = ["2024-02-29T10:00:00.123Z", "2024-02-29T10:00:00Z"]
    found = compared(lambda s: datetime.fromisoformat(s), texts, STR)
    assert isinstance(found, Times)
    for function, kind, values in ((lambda t: datetime.fromtimestamp(t, UTC), FLOAT, [1.5, 2.25]),):
        assert isinstance(compared(function, values, kind), Times)
    zones = ["2024-02-29T10:00:00.123Z", "2024-02-29T10:00:00"]
    assert not isinstance(compared(lambda s: datetime.fromisoformat(s), zones, STR), Times)


def test_columns_of_them_are_taken_apart_and_put_together():
    kept = compared(lambda t: datetime.fromtimestamp(t, UTC), [1, 2, 3, 4], INT)
    parts = [kept.take([3, 0]), kept.cut(slice(1, 2)), kept.keep([True, False, False, True])]
    objects = [datetime.fromtimestamp(each, UTC) for each in (4, 1, 2, 1, 4)]
    both = joined_columns(parts, [2, 1, 2])
    assert isinstance(both, Times)
    assert both.to_list(5) == objects
    naive = Times(DATETIME, kept.micros, None)
    mixed = joined_columns([kept, naive], [4, 4]).to_list(8)
    assert [each.tzinfo for each in mixed] == [UTC] * 4 + [None] * 4


def test_they_are_sent_as_numbers():
    kept = compared(lambda t: datetime.fromtimestamp(t, UTC), [1, 2.5e9, -1.5], FLOAT)
    days = compared(lambda t: datetime.fromtimestamp(t, UTC).date(), [1, 10**9, 0], INT)
    naive = Times(DATETIME, kept.micros, None)
    block = Columns(Tuple((DATETIME, Object("date"), DATETIME)), [kept, days, naive], 3)
    sent = decode_block(encode_block(block))
    assert [(type(leaf), leaf.zone) for leaf in sent.leaves] == [(Times, UTC), (Times, None), (Times, None)]
    assert repr(sent.to_list()) == repr(block.to_list())


def test_far_times_are_exact():
    far = [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, 1, 2, 3, 999999, tzinfo=UTC)]
    micros = [(each - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for each in far]
    import numpy as np

    assert Times(DATETIME, np.array(micros), UTC).to_list(2) == far


def test_another_zone_is_left_to_python():
    east = timezone(timedelta(hours=2))
    assert not isinstance(compared(lambda t: datetime.fromtimestamp(t, east), [1.5], FLOAT), Times)
    assert compared(lambda t: datetime.fromtimestamp(t, east).hour, [1.5], FLOAT) is not None


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC"])
def test_without_a_zone_the_timestamp_is_that_of_the_machine(name, monkeypatch):
    monkeypatch.setenv("TZ", name)
    time.tzset()
    try:
        for text in ("2024-07-01T10:00:00", "2024-03-31T02:30:00"):
            assert compared(lambda s: datetime.fromisoformat(s).timestamp(), [text], STR) is not None
    finally:
        monkeypatch.undo()
        time.tzset()
