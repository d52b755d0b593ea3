"""Watermark alignment: which source subtasks of a group are too far ahead (Flink's ``SourceCoordinator``).

Every subtask reports its watermark; each may read on until it is more than its own drift ahead of the slowest. A subtask that
is idle or has ended reports ``MAX_WATERMARK`` and holds no other back. A group may have the subtasks of several sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funken.ids import MAX_WATERMARK
from funken.operators.coordinators.source_events import AlignWatermark

_Member = tuple[str, int]
_SHARED = "watermark alignment"


class WatermarkAlignment:
    """The groups of one attempt; ``send(subtask, payload)`` reaches the subtasks of one source.

    >>> alignment = WatermarkAlignment()
    >>> def send(subtask, payload):
    ...     print(subtask, payload)
    >>> alignment.reached("g", ("slow", 0), 100, drift=50, send=send)
    0 AlignWatermark(allowed=150)
    >>> alignment.reached("g", ("fast", 1), 900, drift=20, send=send)
    0 AlignWatermark(allowed=150)
    1 AlignWatermark(allowed=120)
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[_Member, tuple[int, int, Callable[[int, Any], None]]]] = {}

    @staticmethod
    def of(shared: dict[str, Any]) -> WatermarkAlignment:
        """Return the one that all coordinators of an attempt share."""
        alignment: WatermarkAlignment = shared.setdefault(_SHARED, WatermarkAlignment())
        return alignment

    def reached(
        self, group: str, member: _Member, watermark: int, drift: int, send: Callable[[int, Any], None]
    ) -> None:
        """Take the watermark of a member (uid of its source, subtask); tell every member how far it may go."""
        members = self._groups.setdefault(group, {})
        members[member] = (watermark, drift, send)
        slowest = min(watermark for watermark, _, _ in members.values())
        for (_, subtask), (_, allowance, reach) in members.items():
            reach(subtask, AlignWatermark(min(MAX_WATERMARK, slowest + allowance)))


__all__ = ["WatermarkAlignment"]
