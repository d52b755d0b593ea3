"""Windows of any trigger seen as the fast logics have them: a pane's contents, sessions or a count per key.

A fast logic saves one keyed state of its own (``state/delta_tables.py``). Windows of any trigger (``triggered.py``) keep
contents, timers and the state of triggers. They take over the rows of a fast logic when they are restored. Arrays in front of
their tables (``operators/columnar/stored.py``) read and write them in the same form. ``windows`` are
``TriggeredWindows`` everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.window.spec import Strategy
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.state.descriptors import StateKind
from funken.windowing.assigners import TUMBLING_COUNT, CountTumblingWindowAssigner
from funken.windowing.evictors import TimestampedValue
from funken.windowing.triggers import COUNT
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow

Sessions = list[tuple[int, int, Any]]
"""The sessions of a key: start, end and contents."""


class SavedRows:
    """An ``OperatorTable`` that has nothing of its own, and keeps the rows it is restored with."""

    def __init__(self) -> None:
        self.found: list[StateRow] = []

    def begin_snapshot(self, complete: bool, touched: Callable[[StateRow], None]) -> TableSnapshot:
        """Return nothing."""
        return TableSnapshot(iter(()), iter(()))

    def load(self, rows: Iterable[StateRow]) -> None:
        """Keep rows."""
        self.found += rows

    def __len__(self) -> int:
        return 0


def register_former_states(windows: Any) -> SavedRows:
    """Have the rows kept that the fast logic of these windows may have saved; before anything is restored."""
    saved = SavedRows()
    strategy = windows.driver.spec.layout
    if strategy in _ENTRIES:
        kind = windows.contents.descriptor.kind if strategy is Strategy.ALIGNED else StateKind.VALUE
        windows.driver.store.register(strategy.state_name, kind, saved)
    return saved


def migrate(windows: Any, saved: SavedRows) -> None:
    """Put what a fast logic has saved where the general one finds it; its tables are open."""
    if saved.found:
        entries = _ENTRIES[windows.driver.spec.layout](windows)
        for row in saved.found:
            entries.put(*row)
        saved.found = []


class PaneEntries:
    """The contents of tumbling and sliding windows, by key and start."""

    def __init__(self, windows: Any) -> None:
        self._windows = windows
        assigner: Any = windows.driver.spec.assigner
        self._size: int = assigner.size

    def put(self, key: Any, start: int, contents: Any) -> None:
        """Store contents."""
        window = TimeWindow(start, min(start + self._size, MAX_WATERMARK))
        self._windows.table[key, window] = contents
        self._windows.expect_cleanup(key, window)


class SessionEntries:
    """The sessions of keys, as the tables have them: windows by name, contents by the name, and timers."""

    def __init__(self, windows: Any) -> None:
        self._windows = windows

    def get(self, key: Any) -> Sessions | None:
        """Return the sessions of a key, in the order of their starts."""
        mapping, table = self._windows.mappings.get(key), self._windows.table
        if not mapping:
            return None
        return [(*window, table.get((key, mapping[window]))) for window in sorted(mapping)]

    def put(self, key: Any, _: Any, sessions: Sessions) -> None:
        """Replace the sessions of a key; those that contain former ones keep the name of the first."""
        windows = self._windows
        former, mapping = dict(windows.mappings.get(key) or {}), {}
        for start, end, contents in sessions:
            window = TimeWindow(start, end)
            inside = [each for each in sorted(former) if start <= each.start and each.end <= end]
            names = [former[each] for each in inside] or [window]
            mapping[window] = names[0]
            for each in inside:
                if each == window or former[each] == names[0]:
                    del former[each]
                if each != window:
                    windows.forget_cleanup(key, each)
            windows.table[key, names[0]] = contents
            windows.expect_cleanup(key, window)
        for window, name in former.items():
            windows.table.pop((key, name), None)
            windows.forget_cleanup(key, window)
        if mapping:
            windows.mappings[key] = mapping
        else:
            windows.mappings.pop(key, None)


class CountEntries:
    """The counts and contents of keys."""

    def __init__(self, windows: Any) -> None:
        self._windows = windows
        spec = windows.driver.spec
        self._numbered = isinstance(spec.assigner, CountTumblingWindowAssigner)
        self._last: int | None = getattr(spec.evictor, "max_count", None)
        store = windows.driver.store
        self._totals = store.state(TUMBLING_COUNT).table if self._numbered else {}
        self._counts = store.namespaced(COUNT).table

    def is_empty(self) -> bool:
        """Return False: a look is needed."""
        return False

    def get(self, key: Any) -> list[Any] | None:
        """Return the count and the contents of a key."""
        total = self._totals.get(key)
        window = self._window(total)
        contents = self._windows.table.get((key, window))
        if contents is None and total is None:
            return None
        count = (self._counts.get((key, window)) or 0) if total is None else total
        if contents is not None and self._last is not None:
            contents = deque((each.value for each in contents), maxlen=self._last)
        return [count, contents]

    def take_out(self, key: Any) -> tuple[bool, bool]:
        """Return that the entry of a key has not changed, and is saved."""
        return False, True

    def put(self, key: Any, _: Any, entry: tuple[int, Any]) -> None:
        """Replace the count and the contents of a key."""
        total, contents = entry
        former, window = self._window(self._totals.get(key)), self._window(total)
        if former != window:
            self._set(key, former, 0, None)
        if self._numbered:
            self._totals[key] = total
        if contents is not None and self._last is not None:
            contents = [TimestampedValue(value, MIN_TIMESTAMP) for value in contents] or None
        self._set(key, window, total % self._windows.count, contents)

    def _window(self, total: int | None) -> Any:
        return CountWindow((total or 0) // self._windows.count) if self._numbered else GlobalWindow.get()

    def _set(self, key: Any, window: Any, count: int, contents: Any) -> None:
        for table, value in ((self._counts, count or None), (self._windows.table, contents)):
            if value is None:
                table.pop((key, window), None)
            else:
                table[key, window] = value


_ENTRIES: dict[Strategy, Callable[[Any], Any]] = {
    Strategy.ALIGNED: PaneEntries, Strategy.SESSIONS: SessionEntries, Strategy.COUNTS: CountEntries
}  # fmt: skip
