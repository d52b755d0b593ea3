"""Points in time that users give, as milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from funken.errors import InvalidProgram
from funken.ids import Millis

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def timestamp_ms(at: datetime | int) -> Millis:
    """Return a point in time in ms since the epoch; raise ``InvalidProgram`` for a ``datetime`` without a time zone.

    >>> timestamp_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), timestamp_ms(5)
    (1000, 5)
    >>> timestamp_ms(datetime(2026, 1, 1))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: datetime.datetime(2026, 1, 1, 0, 0) has no time zone, so which instant it is depends on ...
    """
    if not isinstance(at, datetime):
        return Millis(at)
    if at.utcoffset() is None:
        raise InvalidProgram(
            f"{at!r} has no time zone, so which instant it is depends on the machine that asks. Give it one "
            "(at.replace(tzinfo=UTC)), or return milliseconds since the epoch."
        )
    return Millis((at - _EPOCH) // _MILLISECOND)
