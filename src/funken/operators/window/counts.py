"""Count windows: a key's records in groups of so many, in the order of arrival. No time, hence no timers.

What a key has is a count and its contents; a full group fires within the block that filled it. An incomplete last group
never fires. Sliding windows keep the last ``size`` records and fire after every ``slide`` of them. Snapshots have
``(count, contents)`` of each key as keyed state.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from funken.operators.base import Timestamps, Values
from funken.operators.window.driver import WindowDriver, Windows
from funken.operators.window.spec import Strategy
from funken.state.delta_tables import KeyedDeltaTable
from funken.state.descriptors import StateKind
from funken.windowing.assigners import CountTumblingWindowAssigner
from funken.windowing.windows import CountWindow, GlobalWindow


class CountWindows(Windows):
    """Entries ``[count, contents]`` by key, changed in place.

    Tumbling windows (``slide`` ``None``) fold their records, and are purged when they are full; their count goes on if they are
    numbered, else starts anew. Of sliding ones the contents are a deque of the last records.
    """

    def __init__(self, driver: WindowDriver, size: int, slide: int | None = None) -> None:
        super().__init__(driver)
        self.size, self.slide = size, slide
        self.every = size if slide is None else slide
        self.numbered = isinstance(driver.spec.assigner, CountTumblingWindowAssigner)
        self.table = KeyedDeltaTable(self.save, self.revive)

    def setup(self) -> None:
        """Register the table."""
        self.driver.store.register(Strategy.COUNTS.state_name, StateKind.VALUE, self.table)

    @staticmethod
    def save(entry: list[Any]) -> tuple[int, Any]:
        """Return an entry as it is in snapshots."""
        return entry[0], entry[1]

    def revive(self, key: Any, saved: tuple[int, Any]) -> list[Any]:
        """Return an entry as it was."""
        return [saved[0], self.contents_of(saved[1])]

    def contents_of(self, saved: Any) -> Any:
        """Return contents as they were."""
        return saved if self.slide is None else deque(saved, maxlen=self.size)

    def add(self, values: Values, timestamps: Timestamps) -> None:
        """Count off a block."""
        new, old, every, sliding = self.table.delta, self.table.base.get, self.every, self.slide is not None
        size = self.size
        start, fold, compute = self.contents.start, self.contents.fold, self.contents.compute
        fire, store, numbered, remove = self.driver.emitter.fire, self.driver.store, self.numbered, self.table.remove
        window: Any = GlobalWindow.get()
        # Hot: a lookup, the user's function or an append.
        for key, value in zip(self.driver.keys(values), values, strict=True):
            entry = new.get(key)
            if entry is None:
                entry = new[key] = old(key) or [0, deque(maxlen=size) if sliding else None]
            entry[0] = count = entry[0] + 1
            if sliding:
                entry[1].append(value)
            else:
                stored = entry[1]
                entry[1] = start(value) if stored is None else fold(stored, value)
            if count != every if sliding else count % every:  # beyond a slide are counts of another program only
                continue
            stored = compute(list(entry[1])) if sliding else entry[1]
            if sliding:
                entry[0] = 0
            elif numbered:
                entry[1], window = None, CountWindow(count // every - 1)
            else:
                remove(key)
            if stored is not None:
                store.current_key = key
                fire(key, window, stored)
        self.driver.flush()
