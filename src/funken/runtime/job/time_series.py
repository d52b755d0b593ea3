"""Many series over one time axis, in bounded memory: the newest span, coarser where there are many series.

A value has a slot by its time, so a series needs no times of its own, and a pause costs nothing. If one more series would
exceed the bound, the interval doubles, and of two values the newer stays. Times are wall-clock ms.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from math import isnan, nan
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_NEVER = -1


class TimeSeries(Generic[K]):
    """The series; ``max_values`` bounds the values of all of them (8 bytes each), not the time that they span.

    >>> series = TimeSeries(span=40, interval=10, max_values=8)
    >>> for at in range(0, 60, 10):
    ...     series.add(at, {"records": at / 10})
    >>> series.read()
    ([20, 30, 40, 50], {'records': [2.0, 3.0, 4.0, 5.0]})
    >>> series.add(60, {"records": 6, "busy": 0.5, "late": 1})  # a third series of four values would be too much
    >>> series.interval, series.read()
    (20, ([50, 60], {'records': [5.0, 6.0], 'busy': [None, 0.5], 'late': [None, 1.0]}))
    """

    def __init__(self, span: int, interval: int, max_values: int) -> None:
        self.interval = interval
        self.left_out = 0
        """Number of series that were not kept, because even two values of each would be too many."""
        self._span = span
        self._max_values = max_values
        self._times = array("q", [_NEVER]) * self._slots
        self._values: dict[K, array[float]] = {}

    @property
    def _slots(self) -> int:
        return max(1, self._span // self.interval)

    def __len__(self) -> int:
        """Return the number of values that there is memory for."""
        return self._slots * len(self._values)

    def add(self, at: int, values: Mapping[K, float]) -> None:
        """Add the measurements of a time; a second sample within an interval replaces the first."""
        new = [key for key in values if key not in self._values]
        while new and (len(self._values) + len(new)) * self._slots > self._max_values and self._slots >= 4:
            self._coarsen()
        room = max(0, self._max_values // self._slots - len(self._values))
        self.left_out = max(0, len(new) - room)
        for key in new[:room]:
            self._values[key] = array("d", [nan]) * self._slots
        self._put(at, values)

    def _put(self, at: int, values: Mapping[K, float]) -> None:
        slot = at // self.interval % self._slots
        self._times[slot] = at
        for key, series in self._values.items():
            series[slot] = values.get(key, nan)

    def _coarsen(self) -> None:
        """Double the interval."""
        samples = [(at, self._sample(slot)) for slot, at in self._order()]
        self.interval *= 2
        self._times = array("q", [_NEVER]) * self._slots
        self._values = {key: array("d", [nan]) * self._slots for key in self._values}
        for at, values in samples:
            self._put(at, values)

    def thin(self, interval: int) -> None:
        """Make the interval at least so long, for who reads it later."""
        while self.interval < interval and self._slots >= 4:
            self._coarsen()

    def _sample(self, slot: int) -> dict[K, float]:
        return {key: series[slot] for key, series in self._values.items()}

    def _order(self) -> list[tuple[int, int]]:
        """Return the slots that are in use with their times, oldest first."""
        newest = max(self._times)
        found = [(slot, at) for slot, at in enumerate(self._times) if at != _NEVER and at > newest - self._span]
        return sorted(found, key=lambda each: each[1])

    def keys(self) -> Iterable[K]:
        """Return the names of all series."""
        return list(self._values)

    def read(
        self, wanted: Callable[[K], bool] = lambda key: True, since: int | None = None
    ) -> tuple[list[int], dict[K, list[float | None]]]:
        """Return times after ``since``, and of each series that is wanted the values; ``None`` where it has none."""
        order = [(slot, at) for slot, at in self._order() if since is None or at > since]
        found = {
            key: [None if isnan(series[slot]) else series[slot] for slot, _ in order]
            for key, series in self._values.items()
            if wanted(key)
        }
        return [at for _, at in order], found
