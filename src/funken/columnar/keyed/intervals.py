"""Records by key and time: their places, in sorted runs, of which the later ones are smaller.

A record's *code* is the number of its key, and behind it, in the lower bits, its time from a base on. New records are a run of
their own, which is put together with the run before it until that is four times as long: so there are few runs, and a record
is moved a few times only. Who is not kept any more leaves when its run is put together with another one, or as a whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from funken.columnar.kernels.columns import Array
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import each_once

_BITS = 38
"""Of the time in a code: nine years of ms."""
_SPAN = 1 << _BITS
_MOST_KEYS = 1 << 24
_EARLIEST = -(1 << 62)
_TIMES_LARGER = 4


class _Run(NamedTuple):
    """Codes in order, of each the place of its record, and the latest time; alike codes are in the order of arrival."""

    codes: Array
    places: Array
    latest: int


class FoundPairs(NamedTuple):
    """Pairs: which of those that look for partners it is, and the places and times of the partners."""

    probed: Array
    places: Array
    stamps: Array


class KeyedTimes:
    """The records of one side of a join.

    ``keep``: so long after its time a record is kept. Places are given in the order of arrival.

    >>> times = KeyedTimes(keep=10)
    >>> times.add(times.sorted(np.array([0, 1, 0]), np.array([30, 20, 10])), begin=0)
    >>> [found] = times.find(np.array([1, 0]), np.array([0, 0]), np.array([40, 30]), most=10)
    >>> found.probed.tolist(), found.places.tolist(), found.stamps.tolist()
    ([0, 1, 1], [1, 2, 0], [20, 10, 30])
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._runs: list[_Run] = []
        self._base: int | None = None
        #: the watermark, and the place of the first record that came after it
        self._watermark: int | None = None
        self._settled = 0

    def __len__(self) -> int:
        return sum(len(run.codes) for run in self._runs)

    # ---- what comes, and what goes

    def sorted(self, numbers: Array, stamps: Array) -> tuple[Array, Array]:
        """Return the codes of new records in order, and their positions; raise ``FallBackToRows`` if there are none.

        What is kept does not change by it.
        """
        least, most = int(stamps.min()), int(stamps.max())
        if self._base is None or least < self._base or most >= self._base + _SPAN:
            self._rebase(least, most)
        if int(numbers.max()) >= _MOST_KEYS:
            raise FallBackToRows("too many keys")
        codes = (numbers << _BITS) + (stamps - self._base)
        order = np.argsort(codes, kind="stable")
        return codes.take(order), order

    def _rebase(self, least: int, most: int) -> None:
        """Let times count from before the first one that is needed on."""
        runs = [run for run in map(self._living, self._runs) if len(run.codes)]
        if runs:
            least = min([least, *(int(self._stamps(run.codes).min()) for run in runs)])
            most = max([most, *(run.latest for run in runs)])
        if most - least >= _SPAN:
            raise FallBackToRows("times too far apart")
        base = least - min((_SPAN - (most - least)) // 4, _SPAN >> 3)
        if self._base is not None:
            self._runs = [run._replace(codes=run.codes + (self._base - base)) for run in runs]
        self._base = base

    def add(self, added: tuple[Array, Array], begin: int) -> None:
        """Add what ``sorted`` has returned; the place of the first record is ``begin``."""
        codes, order = added
        latest = int(self._stamps(codes).max())
        self._runs.append(_Run(codes, order + begin, latest))
        while len(self._runs) > 1 and len(self._runs[-2].codes) < _TIMES_LARGER * len(self._runs[-1].codes):
            later, earlier = self._runs.pop(), self._living(self._runs.pop())
            later = self._living(later)
            codes = np.concatenate((earlier.codes, later.codes))
            by_code = np.argsort(codes, kind="stable")  # two runs that are in order: they are merged
            places = np.concatenate((earlier.places, later.places)).take(by_code)
            self._runs.append(_Run(codes.take(by_code), places, max(earlier.latest, later.latest)))

    def settle(self, watermark: int, end: int) -> None:
        """Drop whom no partner can come for any more; who comes from the place ``end`` on, comes after this watermark."""
        self._watermark, self._settled = max(watermark, _EARLIEST), end
        self._runs = [run for run in self._runs if run.latest + self._keep > watermark]

    def _living(self, run: _Run) -> _Run:
        """Return a run without those that are dropped."""
        mask = self._lives(run.places, self._stamps(run.codes))
        return run if mask is None or mask.all() else _Run(run.codes[mask], run.places[mask], run.latest)

    def _lives(self, places: Array, stamps: Array) -> Array | None:
        if self._watermark is None:
            return None
        lives = stamps > self._watermark - self._keep
        return lives if self._keep else lives | (places >= self._settled)

    def _stamps(self, codes: Array) -> Array:
        assert self._base is not None
        return (codes & (_SPAN - 1)) + self._base

    # ---- partners

    def find(self, numbers: Array, low: Array, high: Array, most: int) -> Iterator[FoundPairs]:
        """Return those of each key from ``low`` to ``high``, in the order of time, and of arrival; about ``most`` at a time."""
        if self._base is None or not self._runs:
            return
        base = self._base
        if self._watermark is not None:
            low = np.maximum(low, self._watermark - self._keep + (self._keep > 0))
        # One that ends before it begins, finds nothing.
        above = (numbers << _BITS) + np.clip(high - base, -1, _SPAN - 1)
        below = (numbers << _BITS) + np.clip(low - base, 0, _SPAN)
        order = np.argsort(below, kind="stable")
        below, above = below.take(order), above.take(order)
        parts = []
        for run in self._runs:
            firsts, counts = np.empty((2, len(numbers)), np.int64)
            begins = np.searchsorted(run.codes, below, "left")
            firsts[order] = begins
            counts[order] = np.maximum(np.searchsorted(run.codes, above, "right") - begins, 0)
            if counts.any():
                parts.append((run, firsts, counts))
        if parts:
            yield from self._pairs(parts, most)

    def _pairs(self, parts: list[tuple[_Run, Array, Array]], most: int) -> Iterator[FoundPairs]:
        ends: Any = np.cumsum(np.sum([counts for _, _, counts in parts], axis=0))
        begin, done = 0, 0
        while done < ends[-1]:
            end = max(begin + 1, int(np.searchsorted(ends, done + most, "right")))
            found = self._pairs_of(parts, slice(begin, end))
            for start in range(0, len(found.probed), most):
                yield FoundPairs(*(each[start : start + most] for each in found))
            begin, done = end, int(ends[end - 1])

    def _pairs_of(self, parts: list[tuple[_Run, Array, Array]], part: slice) -> FoundPairs:
        """Return all pairs of some of those that look for partners."""
        probed, places, codes = [], [], []
        for run, firsts, counts in parts:
            count = counts[part]
            ends = np.cumsum(count)
            at = np.arange(ends[-1]) + np.repeat(firsts[part] - (ends - count), count)
            probed.append(np.repeat(np.arange(part.start, part.stop), count))
            places.append(run.places.take(at))
            codes.append(run.codes.take(at))
        found = FoundPairs(*map(np.concatenate, (probed, places, codes)))
        if len(parts) > 1:  # of each key only the times differ, and earlier runs came before
            in_order = np.argsort(((found.probed - part.start) << _BITS) + (found.stamps & (_SPAN - 1)), kind="stable")
            found = FoundPairs(*(each.take(in_order) for each in found))
        found = found._replace(stamps=self._stamps(found.stamps))
        if not self._keep and (lives := self._lives(found.places, found.stamps)) is not None and not lives.all():
            found = FoundPairs(*(each[lives] for each in found))
        return found

    # ---- all of them

    def since(self, place: int) -> tuple[Array, Array, Array]:
        """Return the numbers, times and places of those kept that came at ``place`` or behind it, in the order of arrival."""
        runs = [run for run in map(self._living, self._runs) if len(run.codes)]
        if not runs:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        codes, places = (np.concatenate([run[number] for run in runs]) for number in (0, 1))
        new = places >= place
        codes, places = codes[new], places[new]
        order = np.argsort(places)
        codes = codes.take(order)
        return codes >> _BITS, self._stamps(codes), places.take(order)

    def places(self) -> Array:
        """Return the places of all, in order."""
        return np.sort(np.concatenate([run.places for run in self._runs])) if self._runs else np.empty(0, np.int64)

    def numbers(self) -> Array:
        """Return the numbers of the keys of all, each once, in order."""
        parts = [run.codes >> _BITS for run in self._runs]
        return each_once(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def moved(self, places: Array) -> None:
        """Go on with new places: of each one its number among these, which are in order."""
        self._runs = [run._replace(places=np.searchsorted(places, run.places)) for run in self._runs]
        self._settled = int(np.searchsorted(places, self._settled))

    def renumbered(self, numbers: Array) -> None:
        """Go on with new numbers of keys: of each one its number among these, which are in order."""
        for at, run in enumerate(self._runs):
            fresh = np.searchsorted(numbers, run.codes >> _BITS)
            self._runs[at] = run._replace(codes=(fresh << _BITS) + (run.codes & (_SPAN - 1)))


__all__ = ["FoundPairs", "KeyedTimes"]
