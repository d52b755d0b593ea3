"""The windows of a time, in the wall time of a zone.

Times and borders are milliseconds of *local* time, as if it were UTC. For a TIMESTAMP column that is the value itself, for
TIMESTAMP_LTZ and processing time the wall time of the session's zone: a day begins at local midnight, and is 23 or 25 hours
long where the clocks change.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from funken.table.logical import WindowKind, WindowShape

_MILLI = datetime.timedelta(milliseconds=1)
_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH = _UTC_EPOCH.replace(tzinfo=None)
MAX_TIME = (1 << 63) - 1

Window = tuple[int, int]


class WallTime:
    """Between instants and the wall time of a zone; ``None``: they are the same.

    >>> paris = WallTime("Europe/Paris")
    >>> paris.local(0), paris.instant(3_600_000), WallTime(None).local(5)
    (3600000, 0, 5)
    """

    def __init__(self, zone: str | None) -> None:
        self.zone = None if zone in (None, "UTC") else _zone(str(zone))

    def local(self, instant: int) -> int:
        """Return the wall time at an instant."""
        if self.zone is None:
            return instant
        return instant + _offset(self.zone, instant // 1000)

    def locals(self, instants: Any) -> Any:
        """Return the wall times at an array of instants."""
        if self.zone is None:
            return instants
        return np.array([self.local(each) for each in instants.tolist()], np.int64)

    def instants(self, local: Any) -> Any:
        """Return the instants of an array of wall times, of which few are different."""
        if self.zone is None:
            return local
        different, places = np.unique(local, return_inverse=True)
        return np.array([self.instant(each) for each in different.tolist()], np.int64).take(places)

    def instant(self, local: int) -> int:
        """Return the instant of a wall time; one that the clocks leave out is as much later, of two the later one counts."""
        if self.zone is None:
            return local
        if local >= MAX_TIME:
            return local
        wall = _EPOCH + local * _MILLI
        first, second = (wall.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
        return max((first - _UTC_EPOCH) // _MILLI, (second - _UTC_EPOCH) // _MILLI)


def _zone(name: str) -> datetime.tzinfo:
    if name[:3] in ("GMT", "UTC") and len(name) > 3:
        name = name[3:]
    if name[0] in "+-":
        hours, _, minutes = name[1:].partition(":")
        shift = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0))
        return datetime.timezone(-shift if name[0] == "-" else shift)
    return ZoneInfo(name)


@lru_cache(1 << 14)
def _offset(zone: datetime.tzinfo, seconds: int) -> int:
    there = datetime.datetime.fromtimestamp(seconds, zone).utcoffset()
    assert there is not None
    return there // _MILLI


def windows_of(window: WindowShape, time: int) -> Iterator[Window]:
    """Yield the windows that a time is in, the latest first; of a session, the one that the time begins.

    >>> from funken.table.logical import WindowShape, WindowKind
    >>> list(windows_of(WindowShape(WindowKind.TUMBLE, 0, size=10, offset=3), 2))
    [(-7, 3)]
    >>> list(windows_of(WindowShape(WindowKind.HOP, 0, size=10, slide=5), 12))
    [(10, 20), (5, 15)]
    >>> list(windows_of(WindowShape(WindowKind.CUMULATE, 0, size=10, slide=5), 12))
    [(10, 15), (10, 20)]
    """
    match window.kind:
        case WindowKind.TUMBLE:
            start = time - (time - window.offset) % window.size
            yield start, start + window.size
        case WindowKind.HOP:
            start = time - (time - window.offset) % window.slide
            while start > time - window.size:
                yield start, start + window.size
                start -= window.slide
        case WindowKind.CUMULATE:
            start = time - (time - window.offset) % window.size
            end = start + ((time - start) // window.slide + 1) * window.slide
            while end <= start + window.size:
                yield start, end
                end += window.slide
        case WindowKind.SESSION:
            yield time, time + window.gap


def united(window: Window, others: Iterable[Window]) -> tuple[Window, list[Window]]:
    """Return what a session becomes with those that it touches, and these in order.

    >>> united((5, 9), [(20, 21), (9, 12), (0, 5)])
    ((0, 12), [(0, 5), (9, 12)])
    """
    touched = sorted(other for other in others if other[0] <= window[1] and window[0] <= other[1])
    start, end = min(other[0] for other in (window, *touched)), max(other[1] for other in (window, *touched))
    return (start, end), touched


def panes_of(window: WindowShape, times: Any) -> Any:
    """Return where the panes begin that an array of times is in: all times of a pane are in the same windows.

    >>> panes_of(WindowShape(WindowKind.HOP, 0, size=10, slide=4), np.array([11, 12, -1])).tolist()
    [10, 12, -2]
    """
    size = math.gcd(window.size, window.slide) if window.slide else window.size
    return times - (times - window.offset) % size


class WindowsOfTimes:
    """The windows of an array of times: ``rows`` has the place of a time, once for each of its windows, ``starts``, ``ends``.

    >>> found = WindowsOfTimes(WindowShape(WindowKind.HOP, 0, size=10, slide=5), np.array([12, 3]))
    >>> found.rows.tolist(), found.starts.tolist(), found.ends.tolist()
    ([0, 0, 1, 1], [10, 5, 0, -5], [20, 15, 10, 5])
    """

    def __init__(self, window: WindowShape, times: Any) -> None:
        panes, places = np.unique(panes_of(window, times), return_inverse=True)
        of_panes = [list(windows_of(window, pane)) for pane in panes.tolist()]
        counts = np.array([len(each) for each in of_panes], np.int64)
        first = np.cumsum(counts) - counts
        flat = np.array([each for windows in of_panes for each in windows], np.int64).reshape(-1, 2)
        of_rows = counts.take(places)
        self.rows: Any = np.repeat(np.arange(len(times)), of_rows)
        within = np.arange(len(self.rows)) - np.repeat(np.cumsum(of_rows) - of_rows, of_rows)
        chosen = flat.take(first.take(places).take(self.rows) + within, 0)
        self.starts, self.ends = chosen[:, 0], chosen[:, 1]
