from datetime import timedelta

import pytest

from funken.errors import InvalidProgram
from funken.timing.durations import millis


class Time:
    """PyFlink's, as far as it matters."""

    def to_milliseconds(self):
        return 5000


class Duration:
    def to_millis(self):
        return 7


@pytest.mark.parametrize(
    ("duration", "expected"),
    [(timedelta(minutes=1), 60_000), (timedelta(microseconds=1999), 1), (12, 12), (Time(), 5000), (Duration(), 7)],
)
def test_every_kind_of_duration_becomes_milliseconds(duration, expected):
    assert millis(duration) == expected


@pytest.mark.parametrize("wrong", ["5 s", 1.5, None, True])
def test_what_is_no_duration_is_refused(wrong):
    with pytest.raises(InvalidProgram, match="is no duration: pass a timedelta"):
        millis(wrong)
