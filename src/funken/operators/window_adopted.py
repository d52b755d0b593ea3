"""What the fast window logics have saved, as the general one keeps it: contents, timers, and the state of triggers.

Each fast logic saves rows that begin with the key; what follows is told in its ``snapshot``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.windowing.assigners import TUMBLING_COUNT, CountTumblingWindowAssigner
from funken.windowing.evictors import TimestampedValue
from funken.windowing.triggers import COUNT
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow

if TYPE_CHECKING:
    from funken.operators.window_general import GeneralWindows

Rows = Iterable[tuple[Any, ...]]


def adopt(windows: GeneralWindows, rows: Rows) -> None:
    """Put what a fast logic has saved where the general one finds it; its tables are open."""
    strategy = replace(windows.spec, general=False).strategy.value
    _ADOPT[strategy](windows, rows)


def _aligned(windows: GeneralWindows, rows: Rows) -> None:
    size = _assigner(windows).size
    for key, start, stored in rows:
        _keep(windows, key, TimeWindow(start, min(start + size, MAX_WATERMARK)), stored)


def _slices(windows: GeneralWindows, rows: Rows) -> None:
    """Put every window together of the slices that have come; ``first`` is the first window that is not over."""
    assigner, merge, table = _assigner(windows), windows.contents.merge, windows.table
    size, slide, offset = assigner.size, assigner.slide, assigner.offset
    for key, at, stored, first in sorted(rows, key=lambda row: row[1]):
        for start in range(first, at - (at - offset) % slide + 1, slide):
            window = TimeWindow(start, min(start + size, MAX_WATERMARK))
            before = table.get((key, window))
            own = copy.deepcopy(stored)  # a record that is added later may change it in place
            _keep(windows, key, window, own if before is None else merge(before, own))


def _sessions(windows: GeneralWindows, rows: Rows) -> None:
    for key, start, end, stored in rows:
        window = TimeWindow(start, end)
        windows.mappings[key] = {**(windows.mappings.get(key) or {}), window: window}
        _keep(windows, key, window, stored)


def _counts(windows: GeneralWindows, rows: Rows) -> None:
    assigner, counts = _assigner(windows), windows.store.namespaced(COUNT).table
    size = windows.count
    for key, count, stored in rows:
        window: Any = GlobalWindow.get()
        if isinstance(assigner, CountTumblingWindowAssigner):
            windows.store.state(TUMBLING_COUNT).table[key] = count
            window = CountWindow(count // size)
        if windows.spec.evictor is not None:
            stored = [TimestampedValue(value, MIN_TIMESTAMP) for value in stored]  # noqa: PLW2901
        if count % size:
            counts[key, window] = count % size
        _keep(windows, key, window, stored or None)


def _keep(windows: GeneralWindows, key: Any, window: Any, stored: Any) -> None:
    if stored is not None:
        windows.table[key, window] = stored
    windows.expect_cleanup(key, window)


def _assigner(windows: GeneralWindows) -> Any:
    return windows.spec.assigner


_ADOPT: dict[str, Callable[[GeneralWindows, Rows], None]] = {
    "aligned": _aligned, "slices": _slices, "sessions": _sessions, "counts": _counts
}  # fmt: skip
