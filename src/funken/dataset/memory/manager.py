"""The budget of a subtask: equal shares of one half for its operators, and the other half for those that need more.

A structure that would be slow on disk asks whether something ``fits`` before it reserves: then its share borrows what is
missing from the pool, and gives it back when it has dropped so much. Who comes first has it; nobody is asked to return
anything, so nobody waits, and nobody has less than its share.

Invariant: a structure reserves before it keeps, and releases when it drops; ``used`` is the sum over all shares, and
``peak`` its highest value, in serialised bytes. A share refuses nothing: the structure that holds it decides what to spill.
The limits of all shares together are the budget at most. The manager may be used by several threads; a share belongs to one
structure, which serialises access to it.
"""

from __future__ import annotations

import threading

from funken.dataset.memory.spill import SpillFile, SpillSpace
from funken.errors import InvalidConfiguration

MIN_SHARE = 4 * 1024
"""With less an operator would spill every record by itself."""

_LENT = 4
"""So many grains are borrowed at least."""


class MemoryManager:
    """The managed memory of one subtask.

    >>> memory = MemoryManager(64 * 1024, consumers=2, space=SpillSpace())
    >>> share = memory.share("join")
    >>> share.reserve(1000)
    >>> share.limit, share.used, memory.used, memory.peak, memory.pool
    (16384, 1000, 1000, 1000, 32768)
    """

    def __init__(self, budget: int, consumers: int, space: SpillSpace) -> None:
        equal = budget // max(1, consumers)
        if equal < MIN_SHARE:
            raise InvalidConfiguration(
                f"execution.memory.managed is {budget:,} bytes, but the {consumers} operators of a subtask that sort, hash or "
                f"cache need {MIN_SHARE * consumers:,} at least. Raise it."
            )
        self.budget = budget
        self.limit = max(MIN_SHARE, equal // 2) if consumers > 1 else equal
        self.pool = budget - self.limit * max(1, consumers)
        self.space = space
        self.used = 0
        self.peak = 0
        self._lock = threading.Lock()

    def count(self, size: int) -> None:
        """Add to what is used; a negative size takes off."""
        with self._lock:
            self.used += size
            self.peak = max(self.peak, self.used)

    def lend(self, size: int, rather: int) -> int:
        """Take ``rather`` so much off the pool, ``size`` at least, or nothing; return how much."""
        with self._lock:
            lent = min(max(size, rather), self.pool) if size <= self.pool else 0
            self.pool -= lent
            return lent

    def take_back(self, size: int) -> None:
        """Put what was lent back into the pool."""
        with self._lock:
            self.pool += size

    def share(self, operator: str) -> Share:
        """Return a share for one structure of an operator."""
        return Share(self, operator)


class Share:
    """What one structure may keep in memory: ``limit`` bytes, of which it keeps ``used``; what is not borrowed is its ``own``.

    >>> memory = MemoryManager(64 * 1024, consumers=2, space=SpillSpace())
    >>> share = memory.share("join")
    >>> share.fits(40_000), share.limit, memory.pool
    (True, 40000, 9152)
    >>> share.reserve(40_000)
    >>> memory.share("sort").fits(30_000), memory.pool
    (False, 9152)
    >>> share.release(30_000)
    >>> share.limit, memory.pool
    (16384, 32768)
    """

    __slots__ = ("_file", "_manager", "_strict", "limit", "operator", "own", "used")

    def __init__(self, manager: MemoryManager, operator: str, limit: int = 0) -> None:
        self._manager = manager
        self._file: SpillFile | None = None
        self.operator = operator
        self.own = self.limit = limit or manager.limit
        self._strict = limit > 0
        self.used = 0

    def part(self, of: int) -> Share:
        """Return a share with one ``of``-th of this one, which never borrows; what it uses counts for the subtask, not here."""
        return Share(self._manager, self.operator, max(1, self.own // of))

    @property
    def grain(self) -> int:
        """How heavy a block may be that is reserved, spilled or merged at once; the same whatever is borrowed."""
        return max(512, self.own // 16)

    @property
    def in_use(self) -> bool:
        """Whether it has memory or disk space to give back."""
        return self.used > 0 or self._file is not None

    def fits(self, size: int) -> bool:
        """Whether ``size`` bytes more may be kept; borrow what is missing, if there is so much."""
        missing = self.used + size - self.limit
        if missing > 0 and not self._strict:
            lent = self._manager.lend(missing, _LENT * self.grain)
            self.limit += lent
            missing -= lent
        return missing <= 0

    def reserve(self, size: int) -> None:
        """Count what is kept from now on."""
        self.used += size
        self._manager.count(size)

    def release(self, size: int | None = None) -> None:
        """Count off what was dropped; everything, if no size is given."""
        size = self.used if size is None else min(size, self.used)
        self.used -= size
        self._manager.count(-size)
        if self.limit > self.own and self.used <= self.own:
            self._manager.take_back(self.limit - self.own)
            self.limit = self.own

    def measure(self, size: int) -> None:
        """Count what is kept as ``size`` bytes: what was reserved was an estimate."""
        self.reserve(size - self.used) if size >= self.used else self.release(self.used - size)

    def file(self) -> SpillFile:
        """Return the spill file of this share, made when it is first needed."""
        if self._file is None:
            self._file = self._manager.space.file(self.operator)
        return self._file

    def close(self) -> None:
        """Release the memory and the disk space."""
        self.release()
        if self._file is not None:
            self._file.close()
            self._file = None
