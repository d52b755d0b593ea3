"""A part of the log of a job, as whoever reads it gets it."""

from __future__ import annotations

from typing import Any

from funken.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some entries in their order; ``next`` is the number to resume at, ``lost`` how many before them are not kept any more."""

    records: list[dict[str, Any]]
    next: int
    lost: int
