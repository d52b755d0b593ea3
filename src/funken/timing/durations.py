"""Durations: whatever a user calls a length of time, as whole milliseconds.

Event time in Funken counts milliseconds, as Flink's does; nothing finer survives the conversion.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol, TypeAlias

from funken.errors import InvalidProgram
from funken.ids import Millis

_MILLISECOND = timedelta(milliseconds=1)


class _Time(Protocol):
    """PyFlink's ``Time``."""

    def to_milliseconds(self) -> int: ...


class _Duration(Protocol):
    """PyFlink's ``Duration``."""

    def to_millis(self) -> int: ...


DurationLike: TypeAlias = timedelta | int | _Time | _Duration
"""What every parameter that takes a duration accepts; an ``int`` is in milliseconds."""


def millis(duration: DurationLike) -> Millis:
    """Return a duration in milliseconds; what is finer is cut off.

    >>> millis(timedelta(seconds=1.5)), millis(250)
    (1500, 250)
    >>> millis("5 s")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: '5 s' is no duration: pass a timedelta, a Time or Duration, or milliseconds as an int.
    """
    if isinstance(duration, timedelta):
        return Millis(duration // _MILLISECOND)
    if isinstance(duration, int) and not isinstance(duration, bool):
        return Millis(duration)
    convert: Any = getattr(duration, "to_milliseconds", None) or getattr(duration, "to_millis", None)
    if convert is None:
        raise InvalidProgram(
            f"{duration!r} is no duration: pass a timedelta, a Time or Duration, or milliseconds as an int."
        )
    return Millis(int(convert()))
