"""Event-time timers of operators on columns: many are set at once, and those that are due become blocks of times and keys.

The timers themselves are where they always are (``timing/timers.py``): a snapshot knows nothing of columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array, Column, Columns, columns_of, joined
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.records import fits
from funken.expr.types import INT, Type
from funken.timing.timers import InternalTimerService

AT_ONCE = 1 << 14
"""How many timers fire in a block at most."""
_MOST_WAVES = 16
"""So many timers of a key may be due at once if timers set others: each is a block of its own."""
MOST_BLOCKS = 64
"""So many blocks are held back at one watermark if timers set others."""


class DueTimers:
    """The timers that are due at a watermark, in the order in which they fire."""

    def __init__(self, timers: InternalTimerService, watermark: int) -> None:
        self._timers, self._watermark = timers, watermark
        self._times: list[int] = []
        self._keys: list[Any] = []

    def take(self) -> bool:
        """Remove them from the service; return whether there are any."""
        times, keys = self._times, self._keys = [], []

        def fire(timestamp: int, key: Any, namespace: Any) -> None:
            times.append(timestamp)
            keys.append(key)

        self._timers.advance_watermark(self._watermark, fire)
        return bool(times)

    def take_firsts(self) -> bool:
        """Remove the first one of each key from the service; raise ``FallBackToRows`` if there are many of a key."""
        if not self.take():
            return False
        counts = Counter(self._keys)
        if max(counts.values()) > _MOST_WAVES:
            raise FallBackToRows("many timers of a key")
        if len(counts) < len(self._keys):
            seen: set[Any] = set()
            is_first = [not (key in seen or seen.add(key)) for key in self._keys]  # type: ignore[func-returns-value]
            firsts, others = (
                [(at, key) for at, key, first in zip(self._times, self._keys, is_first, strict=True) if first == wanted]
                for wanted in (True, False)
            )
            self._times, self._keys = [at for at, _ in others], [key for _, key in others]
            self.put_back()
            self._times, self._keys = [at for at, _ in firsts], [key for _, key in firsts]
        return True

    def put_back(self) -> None:
        """Give those to the service again that were not fired."""
        set_timers(self._timers, zip(self._times, self._keys, repeat(False)))

    def __len__(self) -> int:
        return len(self._times)

    def block(self, kind: Type) -> tuple[Columns, list[Column]]:
        """Return the times of the next ones as a block, and the leaves of their keys.

        Raises ``FallBackToRows`` if they are no columns.
        """
        keys, some = self._keys[:AT_ONCE], self._times[:AT_ONCE]
        if not all(fits(at, INT) for at in some) or not all(fits(key, kind) for key in keys):
            raise FallBackToRows("times or keys of another type")
        times = np.array(some, np.int64)
        return Columns(INT, [Column(INT, times)], len(times), times), columns_of(keys, kind).leaves

    def fired(self, count: int) -> None:
        """Forget the next ones."""
        del self._times[:count], self._keys[:count]


def set_timers(timers: InternalTimerService, changes: Iterable[tuple[int, Any, bool]]) -> None:
    """Register timers (a time, a key), or delete them where the third is true, one after the other."""
    register, delete = timers.register_event_time_timer, timers.delete_event_time_timer
    for at, key, deletes in changes:
        (delete if deletes else register)(key, None, at)


def check_later(block: Columns, records: Array, times: list[int], deletes: list[bool]) -> None:
    """Raise ``FallBackToRows`` if timers set others that are not later: these fire behind them, though their time is before."""
    if times and any(
        at <= now and not is_deleted
        for at, is_deleted, now in zip(times, deletes, block.leaves[0].data.take(records).tolist(), strict=True)
    ):
        raise FallBackToRows("a timer in the past")


def in_order_of_time(blocks: list[Columns]) -> Columns:
    """Return results of timers in the order of their times; of one time, in that of the blocks."""
    whole = joined([each for each in blocks if each.length])
    assert whole.timestamps is not None
    return whole.take(np.argsort(whole.timestamps, kind="stable"))


__all__ = ["MOST_BLOCKS", "DueTimers", "check_later", "in_order_of_time", "set_timers"]
