"""Watermark alignment: who of a group of source subtasks is too far ahead (Flink's ``SourceCoordinator``).

Every subtask tells how far it is; each may read on until it is more than its own drift ahead of the slowest. A subtask that
is idle or has ended says ``MAX_WATERMARK`` and holds nobody back.
"""

from __future__ import annotations

from funken.ids import MAX_WATERMARK
from funken.runtime.messages import Align, Order, Reached, TaskId

_Member = tuple[TaskId, int]


class Alignment:
    """The groups of one job.

    >>> alignment = Alignment()
    >>> slow, fast = TaskId(0, 0), TaskId(0, 1)
    >>> _ = alignment.reached(Reached(slow, operator=1, group="g", watermark=100, drift=50))
    >>> [order.allowed for _, order in alignment.reached(Reached(fast, operator=1, group="g", watermark=900, drift=50))]
    [150, 150]
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[_Member, tuple[int, int]]] = {}

    def reached(self, report: Reached) -> list[tuple[TaskId, Order]]:
        """Take a report; return how far every member of the group may go."""
        members = self._groups.setdefault(report.group, {})
        members[report.task, report.operator] = (report.watermark, report.drift)
        slowest = min(watermark for watermark, _ in members.values())
        return [
            (task, Align(operator, min(MAX_WATERMARK, slowest + drift)))
            for (task, operator), (_, drift) in members.items()
        ]
