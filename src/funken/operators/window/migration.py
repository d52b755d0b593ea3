"""What the fast window logics have saved, as the general one keeps it: contents, timers, and the state of triggers.

A fast logic saves one keyed state of its own (``state/delta_tables.py``). The general one takes its rows as they are
restored, and files them away when its tables are open. ``windows`` are those of any trigger (``TriggeredWindows``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.window.spec import Strategy
from funken.state.delta_tables import StateRow, TableSnapshot
from funken.state.descriptors import StateKind
from funken.windowing.assigners import TUMBLING_COUNT, CountTumblingWindowAssigner
from funken.windowing.evictors import TimestampedValue
from funken.windowing.triggers import COUNT
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow

Rows = Iterable[tuple[Any, Any, Any]]


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
    strategy = replace(windows.driver.spec, general=False).strategy
    if strategy in _ADOPT:
        kind = windows.contents.descriptor.kind if strategy is Strategy.ALIGNED else StateKind.VALUE
        windows.driver.store.register(strategy.state_name, kind, saved)
    return saved


def migrate(windows: Any, saved: SavedRows) -> None:
    """Put what a fast logic has saved where the general one finds it; its tables are open."""
    if saved.found:
        strategy = replace(windows.driver.spec, general=False).strategy
        _ADOPT[strategy](windows, saved.found)
        saved.found = []


def _aligned(windows: Any, rows: Rows) -> None:
    size = _assigner(windows).size
    for key, start, stored in rows:
        _keep(windows, key, TimeWindow(start, min(start + size, MAX_WATERMARK)), stored)


def _sessions(windows: Any, rows: Rows) -> None:
    for key, _, sessions in rows:
        for start, end, stored in sessions:
            window = TimeWindow(start, end)
            windows.mappings[key] = {**(windows.mappings.get(key) or {}), window: window}
            _keep(windows, key, window, stored)


def _counts(windows: Any, rows: Rows) -> None:
    assigner, counts = _assigner(windows), windows.driver.store.namespaced(COUNT).table
    size = windows.count
    for key, _, (count, stored) in rows:
        window: Any = GlobalWindow.get()
        if isinstance(assigner, CountTumblingWindowAssigner):
            windows.driver.store.state(TUMBLING_COUNT).table[key] = count
            window = CountWindow(count // size)
        if windows.driver.spec.evictor is not None:
            stored = [TimestampedValue(value, MIN_TIMESTAMP) for value in stored]  # noqa: PLW2901
        if count % size:
            counts[key, window] = count % size
        _keep(windows, key, window, stored or None)


def _keep(windows: Any, key: Any, window: Any, stored: Any) -> None:
    if stored is not None:
        windows.table[key, window] = stored
    windows.expect_cleanup(key, window)


def _assigner(windows: Any) -> Any:
    return windows.driver.spec.assigner


_ADOPT: dict[Strategy, Callable[[Any, Rows], None]] = {
    Strategy.ALIGNED: _aligned, Strategy.SESSIONS: _sessions, Strategy.COUNTS: _counts
}  # fmt: skip
