"""Windows over columns in front of keyed state: their arrays are a cache of the tables that windows of any trigger have.

The state is that of ``operators/window/triggered.py``, in RocksDB for example: contents by key and window, and a timer for each.
Arrays have the windows and keys that records came for lately. Their changes go into the tables before a snapshot, before records
follow, and when there are too many of them: then the arrays are emptied, and keys that come again are looked up. So snapshots of
both paths are alike, and memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array, Column, Columns
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.keys import coded, column_of_keys, key_codes
from funken.operators.columnar.sessions import ArraySessions
from funken.operators.columnar.windows import ColumnPanes, FoldedCounts, KeyedWindowArrays, ListedCounts
from funken.operators.window.contents import Pane
from funken.operators.window.driver import AlignedWindows, WindowDriver
from funken.operators.window.triggered import CountEntries, PaneEntries, SessionEntries, TriggeredWindows
from funken.state.backend import entries_in_memory, is_full
from funken.windowing.windows import TimeWindow

_AT_ONCE = 16_384
"""So many entries that only the tables have are computed together."""


class StoredPanes(ColumnPanes):
    """Panes of aligned windows.

    ``_dropped`` are the ends of windows of which the tables may have entries that the arrays have not.
    """

    def share(self, driver: WindowDriver) -> None:
        """Have panes of its own, beside the driver's windows."""
        assert isinstance(driver.windows, TriggeredWindows)
        self.stored = driver.windows
        self.windows = AlignedWindows(driver)
        self.panes = self.windows.panes
        self._dropped: set[int] = set()
        self._in_rows = True
        self._most: int | None = None

    def open(self) -> None:
        """Go on with what is in the tables."""
        self.windows.open()
        self.table = PaneEntries(self.stored)
        self._most = entries_in_memory(self.driver.store.backend, self.fields)
        self.driver.context.before_snapshot.append(self.store)

    # ---- blocks

    def _file(self, block: Columns, side: int) -> None:
        """Add records to panes, whose entries are brought in if only the tables have them."""
        if is_full(self._most, self.size(), sum(map(len, self.panes.values()))):
            self._forget()
        if self._in_rows:
            self._dropped.update(self.stored.due_times)
            self._in_rows = False
        if self._dropped and block.length:
            self._bring(block, side)
        super()._file(block, side)

    def _empty(self) -> Any:
        pane = super()._empty()
        pane.touched = np.empty(0, np.bool_)
        return pane

    def size(self) -> int:
        """Return the number of keys and records in the arrays."""
        return sum(pane.size for pane in self.panes.values())

    def _bring(self, block: Columns, side: int) -> None:
        """Take over the contents of the block's keys, where these are not in arrays yet; raise ``FallBackToRows``."""
        key = coded(self.key(block, side), block.length)
        for start, mask in self.assign(block):
            window = self.windows.window_at(start)
            if window.max_timestamp() not in self._dropped:
                continue
            part = key if mask is None else key.keep(mask)
            _, keys = key_codes(part, block.length if mask is None else int(mask.sum()))
            pane: Any = self.pane(start)
            self._load(pane, window, (each for each in keys if each not in pane.slots))

    def _load(self, pane: Any, window: TimeWindow, keys: Iterator[Any]) -> None:
        get, may_have = self.stored.table.get, self.stored.may_have
        # Hot: to look for what is not in RocksDB takes 20 us, in the timers less than 1.
        found = {key: get((key, window)) for key in keys if may_have(key, window)}
        pane.load({key: stored for key, stored in found.items() if stored is not None})

    # ---- between arrays and tables

    def store(self) -> None:
        """Put what has changed into the tables, and wait there for the ends of its windows."""
        for start, pane in self.panes.items():
            for key, contents in pane.take_touched():
                self.table.put(key, start, contents)

    def _forget(self) -> None:
        self.store()
        self._dropped.update(self.windows.window_at(start).max_timestamp() for start in self.panes)
        self.panes.clear()

    def give_back(self) -> None:
        """Put everything into the tables, for records follow."""
        self._in_rows = True
        if self.panes:
            self.gate.leave(self.size())
            self._forget()

    # ---- time

    def close(self, watermark: int) -> None:
        """Fire the event-time windows that end at or before ``watermark``."""
        if self.windows.event_time:
            self._fire_stored(watermark)
            self.windows.close(watermark)

    def close_at(self, time: int) -> None:
        """Fire the processing-time windows that end at or before ``time``."""
        if not self.windows.event_time:
            self._fire_stored(time)
            self.windows.close_at(time)

    def next_time(self) -> int | None:
        """Return when the next processing-time window ends."""
        return self.windows.next_time()

    def _fire_stored(self, time: int) -> None:
        """Fire the windows that the tables have entries of, in their order; first those entries that arrays have not."""
        due: dict[TimeWindow, list[Any]] = {}
        self.stored.take_due(time, lambda timestamp, key, window: due.setdefault(window, []).append(key))
        for window, keys in due.items():
            self.windows.fire_until(window.max_timestamp() - 1)
            pane = self.panes.get(window.start)
            pending = iter(keys)
            while some := list(islice(pending, _AT_ONCE)):
                self._fire_some(window, some, pane)
            self._dropped.discard(window.max_timestamp())

    def _fire_some(self, window: TimeWindow, keys: list[Any], newer: Any) -> None:
        """Remove the entries of some keys from the tables, and fire those that are not in a pane, which has newer ones."""
        remove, emitter = self.stored.table.pop, self.driver.emitter
        contents: Pane = {}
        for key in keys:
            stored = remove((key, window), None)
            if stored is not None and (newer is None or key not in newer.slots):
                contents[key] = stored
        if self._results is not None and contents:
            pane = self._empty()
            with suppress(FallBackToRows):
                pane.load(contents)
                if self.emit_pane(pane, window):
                    return
        many = self.driver.spec.contents.many
        emitter.fire_pane(
            window, {key: list(each) for key, each in contents.items()} if many else contents, shared=True
        )
        emitter.flush()


# ---- Sessions and count windows: one entry per key, put together from the rows that the tables have of it
# (``operators/window/triggered.py``).


class StoredEntries(KeyedWindowArrays):
    """Entries by key.

    ``touched`` says by slot whether one has changed since it was put into the tables, ``saved`` whether the tables have one.
    """

    entries: Callable[[TriggeredWindows], Any]

    def share(self, driver: WindowDriver) -> None:
        """Be in front of the tables that the driver's windows have."""
        assert isinstance(driver.windows, TriggeredWindows)
        self.stored = driver.windows
        self.windows = driver.spec.windows(driver, driver.spec.layout)
        self._most: int | None = None

    def open(self) -> None:
        """Have changes put into the tables before a snapshot."""
        self.table = self.entries(self.stored)
        self._most = entries_in_memory(self.driver.store.backend, self.fields)
        self.driver.context.before_snapshot.append(self.keep)

    def size(self) -> int:
        """Return the number of keys and records in the arrays."""
        raise NotImplementedError

    def _add(self, block: Columns) -> Any:
        self._check_size()
        return super()._add(block)

    def _check_size(self) -> None:
        """Empty the arrays if they have too much."""
        if is_full(self._most, self.size(), len(self.slots)):
            self.store()

    def forget(self, slots: Array) -> None:
        """Remember that some keys have no entry any more: they are removed from the tables."""
        self.touched[slots] = self.saved[slots]

    def keep(self) -> None:
        """Put what has changed into the tables."""
        slots = np.flatnonzero(self.touched[: len(self.slots)])
        for key, entry in self.saved_entries(slots):
            self.table.put(key, None, entry)
        self.touched[:] = False
        self.saved[slots] = True

    def store(self) -> None:
        """Put what has changed into the tables, and empty the arrays."""
        self.keep()
        self.clear()


class StoredSessions(StoredEntries, ArraySessions):
    """Sessions."""

    entries = SessionEntries

    def clear(self) -> None:
        """Forget all that is in the arrays."""
        super().clear()
        #: slots below this were looked for in the tables
        self._looked = 0

    def size(self) -> int:
        """Return the number of keys and records in the arrays."""
        return len(self.slots) + self._contents.records()

    def _found(self, key: Column, length: int) -> Array:
        """Return the slot of each record, whose sessions are in the arrays."""
        numbers = self._slots_of(key, length)
        self._bring()
        return numbers

    def _bring(self) -> None:
        """Take over the sessions of new slots, if there are some in the tables; raise ``FallBackToRows``."""
        keys, get, opened = self.slots.keys, self.table.get, self.windows.opened
        found = [(slot, each) for slot in range(self._looked, len(keys)) for each in get(keys[slot]) or ()]
        contents = [contents for _, (_, _, contents) in found]
        self._contents.check(contents)
        self._looked = len(keys)
        if not found:
            return
        slots = np.array([slot for slot, _ in found], np.int64)
        self._put(slots, [(*each[:2], opened + n) for n, (_, each) in enumerate(found, 1)], contents)
        self.saved[slots] = True
        self.windows.opened += len(found)

    def close(self, watermark: int) -> None:
        """Fire the sessions that end at or before the watermark, in the order of their ends."""
        due: list[tuple[int, Any, Any]] = []
        self.stored.take_due(watermark, lambda *timer: due.append(timer))
        for begin in range(0, len(due), _AT_ONCE):
            some = due[begin : begin + _AT_ONCE]
            keys = list(dict.fromkeys(key for _, key, _ in some if key not in self.slots))
            try:
                if keys:
                    self._found(column_of_keys(keys), len(keys))
            except FallBackToRows:
                self.store()
                for _, key, window in due[begin:]:
                    self.stored.expect_cleanup(key, window)  # it fires the windows themselves
                return
            super().close(some[-1][0])
            self._check_size()
        super().close(watermark)


class _StoredCounts(StoredEntries):
    """Count windows."""

    contents: Any
    entries = CountEntries


class StoredFoldedCounts(_StoredCounts, FoldedCounts):
    """Tumbling windows whose contents are one value per field."""

    def size(self) -> int:
        """Return the number of keys in the arrays."""
        return len(self.slots)


class StoredListedCounts(_StoredCounts, ListedCounts):
    """Windows of records."""

    def size(self) -> int:
        """Return the number of keys and records in the arrays."""
        return len(self.slots) + len(self.contents.log)
