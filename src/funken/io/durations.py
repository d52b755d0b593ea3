"""Durations: whatever a user calls a length of time, as whole milliseconds. The only parser of them.

Windows, lifetimes of state, watermark strategies, connectors and options all take the same spellings. Time in Funken
counts milliseconds, as in Flink; what is finer is cut off.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from math import inf
from typing import Any, Protocol, TypeAlias

from funken.errors import InvalidProgram
from funken.ids import Millis

_MILLISECOND = timedelta(milliseconds=1)
_TEXT = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_UNITS = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


class _Time(Protocol):
    """PyFlink's ``Time``."""

    def to_milliseconds(self) -> int: ...


class _Duration(Protocol):
    """PyFlink's ``Duration``."""

    def to_millis(self) -> int: ...


FEW_MS = 60
"""A length that is no greater looks as if seconds or minutes were meant."""
OF_TODAY = 100_000_000_000
"""Greater timestamps are milliseconds since the epoch, not small numbers of an example."""

DurationLike: TypeAlias = timedelta | str | int | float | _Time | _Duration
"""The type of every parameter that takes a duration; a number is in milliseconds."""


def duration_ms(duration: DurationLike) -> Millis:
    """Return a duration in ms: of a ``timedelta``, ``"5 s"``, PyFlink's ``Time`` or ``Duration``, or a number of ms.

    Raises ``InvalidProgram`` for anything else.

    >>> duration_ms(timedelta(minutes=1)), duration_ms("1.5 s"), duration_ms("-1"), duration_ms(20)
    (60000, 1500, -1, 20)
    >>> duration_ms("5 parsecs")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: '5 parsecs' is no duration; write e.g. '10 ms', '5 s', timedelta(seconds=5), or ...
    """
    given: Any = duration
    if isinstance(given, timedelta):
        return Millis(given // _MILLISECOND)
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < inf:
        return Millis(int(given))
    if isinstance(given, str):
        found = _TEXT.fullmatch(given.lower())
        if found and found[2] in _UNITS:
            return Millis(int(float(found[1]) * _UNITS[found[2]]))
    for method in ("to_milliseconds", "to_millis"):
        if hasattr(given, method):
            return Millis(int(getattr(given, method)()))
    reason = "; it is a point in time" if isinstance(given, datetime) else ""
    raise InvalidProgram(
        f"{given!r} is no duration{reason}; write e.g. '10 ms', '5 s', timedelta(seconds=5), or a number of ms"
    )


def written_ms(millis: int) -> str:
    """Return a duration (ms) as the text of an option: a whole number of the largest unit.

    >>> written_ms(7_200_000), written_ms(90_000), written_ms(1500), written_ms(0)
    ('2 h', '90 s', '1500 ms', '0 ms')
    """
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if millis and millis % size == 0:
            return f"{millis // size} {unit}"
    return f"{millis} ms"


def in_words(millis: int) -> str:
    """Return a length of time (ms) as a short text.

    >>> in_words(1500), in_words(90_000), in_words(7_200_000), in_words(200_000_000)
    ('1.5 s', '1.5 min', '2 h', '2.3 d')
    """
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if millis >= size:
            return f"{round(millis / size, 1):g} {unit}"
    return f"{round(millis / 1000, 1):g} s"


def is_bare(duration: Any) -> bool:
    """Return True for a duration without a unit that looks as if another one was meant.

    >>> is_bare(10), is_bare("10"), is_bare("10 ms"), is_bare(1000)
    (True, True, False, False)
    """
    text = duration.strip() if isinstance(duration, str) else str(duration)
    return isinstance(duration, str | int | float) and text.isdecimal() and 0 < int(text) <= FEW_MS


def in_ms(fact: str, length: int) -> str:
    """Return the warning for a length of a few milliseconds; ``fact`` begins the sentence.

    >>> in_ms("its windows last", 5)
    "its windows last 5 ms: a number is milliseconds. Write a text for another unit, such as '5 s'."
    """
    return f"{fact} {length} ms: a number is milliseconds. Write a text for another unit, such as '{length} s'."
