"""``Time`` and ``Duration``: lengths of time with PyFlink's names; everything that takes a duration takes them."""

from __future__ import annotations

from dataclasses import dataclass

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.types.row import Instant

MAX_LONG_VALUE = MAX_WATERMARK
MIN_LONG_VALUE = MIN_TIMESTAMP
DEFAULT_OUTPUT_TAG = ""
"""PyFlink's name of the main output of an operator."""


@dataclass(frozen=True, order=True, init=False)
class Time:
    """A length of time in milliseconds.

    >>> Time.seconds(2).to_milliseconds(), Time.minutes(1) == Time.milliseconds(60_000), Time.days(1) == Time.hours(24)
    (2000, True, True)
    >>> Time(milliseconds=5) == Time.milliseconds(5)
    True
    >>> from funken import TumblingEventTimeWindows
    >>> TumblingEventTimeWindows.of(Time.minutes(5))
    TumblingEventTimeWindows(size=300000, offset=0)
    """

    _milliseconds: int

    def __init__(self, milliseconds: int) -> None:
        object.__setattr__(self, "_milliseconds", milliseconds)

    def to_milliseconds(self) -> int:
        """Return the milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Make a length of milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Make a length of seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Make a length of minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Make a length of hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Make a length of days."""
        return Time(days * 86_400_000)


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time in nanoseconds.

    >>> Duration.of_nanos(1_500_000).to_millis(), Duration.of_minutes(1) == Duration.of_seconds(60)
    (1, True)
    >>> Duration.of_days(1) == Duration.of_hours(24), Duration.of_millis(20) < Duration.of_seconds(1)
    (True, True)
    >>> from funken import WatermarkStrategy
    >>> WatermarkStrategy.no_watermarks().with_idleness(Duration.of_seconds(20)).idleness
    20000
    """

    _nanos: int

    def __post_init__(self) -> None:
        """Raise ``TypeError`` for a length that was made of a text."""
        nanos: object = self._nanos
        if isinstance(nanos, str):
            raise TypeError("a Duration is made of a number, but got a text. Write Duration.of_seconds(5), say.")

    def to_millis(self) -> int:
        """Return the milliseconds; finer parts are cut off."""
        return self._nanos // 1_000_000

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Make a length of nanoseconds."""
        return Duration(nanos)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Make a length of milliseconds."""
        return Duration(millis * 1_000_000)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Make a length of seconds."""
        return Duration(seconds * 1_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Make a length of minutes."""
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Make a length of hours."""
        return Duration.of_seconds(hours * 3600)

    @staticmethod
    def of_days(days: int) -> Duration:
        """Make a length of days."""
        return Duration.of_seconds(days * 86_400)


__all__ = ["DEFAULT_OUTPUT_TAG", "MAX_LONG_VALUE", "MIN_LONG_VALUE", "Instant"]
