"""Where records belong while there are more keys than a cache can hold: computed for the keys of a block at once.

A key that ``KeyRouter`` has not cached costs 0.4 us. If it forgets what it has before each key came a few times, it is
left alone: an array of keys takes a fifth of that time. How many keys there are is counted on, so that their cache is
used again when there are few. NumPy is loaded only then.
"""

from __future__ import annotations

from typing import Any

_USES = 8
"""A cache pays if a key that is put into it is used so often."""
_FEWEST = 100
"""Blocks of fewer records are not dealt out: the calls take 20 us, as looking up 50 keys that are not there."""
_BITS = 1 << 20
"""Keys are counted by so many bits: enough to tell some hundred thousands from few."""


class ManyKeys:
    """Knows of the records of a writer whether their keys are many, and deals them out if so.

    >>> many = ManyKeys(max_parallelism=128, targets=2, limit=3)
    >>> many.note(records=4, cleared=1)  # a cache of three keys was full after four records
    >>> many.takes(1000), many.takes(10), many.deal([10, 11, 12, 13])
    (True, False, [[0, 1, 3], [2]])
    """

    def __init__(self, max_parallelism: int, targets: int, limit: int) -> None:
        self._found = False
        self._max_parallelism = max_parallelism
        self._targets = targets
        self._limit = limit
        self._records = 0
        self._owners: Any = None

    def takes(self, records: int) -> bool:
        """Whether to deal out a block of so many records."""
        return self._found and records >= _FEWEST

    def note(self, records: int, cleared: int) -> None:
        """Take note of a block whose keys were looked up in a cache, and how often that was cleared."""
        if self._found:
            return
        self._records += records
        if cleared:
            self._found = self._records < _USES * self._limit * cleared
            self._records = 0

    def deal(self, keys: list[Any]) -> list[list[int]]:
        """Return the positions of the records of each target; raises ``KeyNotHashable``."""
        if self._owners is None:
            from funken.columnar.keyed.owners import KeyOwners  # noqa: PLC0415 - NumPy, only where it pays

            self._owners = KeyOwners(self._max_parallelism, self._targets, _BITS)
        self._records += len(keys)
        dealt: list[list[int]] = self._owners.deal(keys)
        if self._records >= 2 * _USES * self._limit:
            self._found = self._owners.count() > self._limit // 2
            self._records = 0
        return dealt
