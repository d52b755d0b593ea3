"""What source operators and their coordinators send each other: the payloads of their events."""

from __future__ import annotations

from typing import Any

from funken.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RequestSplits:
    """To the coordinator: the subtask requests more splits; ``all_read``: it has read those that it was given."""

    all_read: bool = True


@dataclass(frozen=True, slots=True)
class ReportWatermark:
    """To the coordinator: the subtask has reached ``watermark`` (``MAX_WATERMARK``: it is idle or has ended)."""

    watermark: int


@dataclass(frozen=True, slots=True)
class AddSplits:
    """To a subtask: it is assigned splits; ``no_more``: none will follow."""

    splits: tuple[Any, ...] = ()
    no_more: bool = False


@dataclass(frozen=True, slots=True)
class SplitsDiscovered:
    """To every subtask: there are new splits to request."""


@dataclass(frozen=True, slots=True)
class AlignWatermark:
    """To a subtask: pause while the watermark is above ``allowed``."""

    allowed: int


__all__ = ["AddSplits", "AlignWatermark", "ReportWatermark", "RequestSplits", "SplitsDiscovered"]
