"""Watermark alignment: which source subtasks of a group are too far ahead (Flink's ``SourceCoordinator``).

Every subtask reports its watermark; each may read on until it is more than its own drift ahead of the slowest. A subtask that
is idle or has ended reports ``MAX_WATERMARK`` and holds no other back.
"""

from __future__ import annotations

from funken.ids import MAX_WATERMARK
from funken.runtime.messages import AlignWatermark, TaskCommand, TaskId, WatermarkReport

_Member = tuple[TaskId, int]


class WatermarkAlignment:
    """The groups of one job.

    >>> alignment = WatermarkAlignment()
    >>> slow, fast = TaskId(0, 0), TaskId(0, 1)
    >>> _ = alignment.reached(WatermarkReport(slow, operator=1, group="g", watermark=100, drift=50))
    >>> [order.allowed for _, order in alignment.reached(WatermarkReport(fast, operator=1, group="g", watermark=900, drift=50))]
    [150, 150]
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[_Member, tuple[int, int]]] = {}

    def reached(self, event: WatermarkReport) -> list[tuple[TaskId, TaskCommand]]:
        """Take a report; return how far every member of the group may go."""
        members = self._groups.setdefault(event.group, {})
        members[event.task, event.operator] = (event.watermark, event.drift)
        slowest = min(watermark for watermark, _ in members.values())
        return [
            (task, AlignWatermark(operator, min(MAX_WATERMARK, slowest + drift)))
            for (task, operator), (_, drift) in members.items()
        ]
