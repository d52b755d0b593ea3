"""The budget of a subtask, and the equal shares that its operators have of it.

Invariant: a structure reserves before it keeps, and releases when it drops; ``used`` is the sum over all shares, and
``peak`` its highest value, in serialised bytes. A share refuses nothing: the structure that holds it decides what to spill.
The manager may be used by several threads; a share belongs to one structure, which serialises access to it.
"""

from __future__ import annotations

import threading

from funken.dataset.memory.spill import SpillFile, SpillSpace
from funken.errors import InvalidConfiguration

MIN_SHARE = 4 * 1024
"""With less an operator would spill every record by itself."""


class MemoryManager:
    """The managed memory of one subtask.

    >>> memory = MemoryManager(64 * 1024, consumers=2, space=SpillSpace())
    >>> share = memory.share("join")
    >>> share.reserve(1000)
    >>> share.limit, share.used, memory.used, memory.peak
    (32768, 1000, 1000, 1000)
    """

    def __init__(self, budget: int, consumers: int, space: SpillSpace) -> None:
        self.limit = budget // max(1, consumers)
        if self.limit < MIN_SHARE:
            raise InvalidConfiguration(
                f"execution.memory.managed is {budget:,} bytes, but the {consumers} operators of a subtask that sort, hash or "
                f"cache need {MIN_SHARE * consumers:,} at least. Raise it."
            )
        self.budget = budget
        self.space = space
        self.used = 0
        self.peak = 0
        self._lock = threading.Lock()

    def count(self, size: int) -> None:
        """Add to what is used; a negative size takes off."""
        with self._lock:
            self.used += size
            self.peak = max(self.peak, self.used)

    def share(self, operator: str) -> Share:
        """Return a share for one structure of an operator."""
        return Share(self, operator)


class Share:
    """What one structure may keep in memory: ``limit`` bytes, of which it keeps ``used``."""

    __slots__ = ("_file", "_manager", "limit", "operator", "used")

    def __init__(self, manager: MemoryManager, operator: str, limit: int = 0) -> None:
        self._manager = manager
        self._file: SpillFile | None = None
        self.operator = operator
        self.limit = limit or manager.limit
        self.used = 0

    def part(self, of: int) -> Share:
        """Return a share of its own with one ``of``-th of the limit; what it uses counts for the subtask, not here."""
        return Share(self._manager, self.operator, max(1, self.limit // of))

    @property
    def grain(self) -> int:
        """How heavy a block may be that is reserved, spilled or merged at once."""
        return max(512, self.limit // 16)

    @property
    def in_use(self) -> bool:
        """Whether it has memory or disk space to give back."""
        return self.used > 0 or self._file is not None

    def reserve(self, size: int) -> None:
        """Count what is kept from now on."""
        self.used += size
        self._manager.count(size)

    def release(self, size: int | None = None) -> None:
        """Count off what was dropped; everything, if no size is given."""
        size = self.used if size is None else min(size, self.used)
        self.used -= size
        self._manager.count(-size)

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
