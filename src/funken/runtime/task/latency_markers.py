"""Latency markers, as in Flink: sources emit them at an interval, they queue with the records, and who gets one notes its age.

A marker passes by the functions of operators, so that it measures exchanges, queues and the work of others before it, not the
function at hand. At an exchange it goes to one subtask, at random. Of each source the newest ages are kept, per vertex; off by
default, and then nothing of this runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from funken.ids import OperatorId
from funken.plan.physical import Vertex
from funken.runtime.chain.chain import EdgeOutput
from funken.runtime.settings import LatencySettings
from funken.timing.clock import Clock

_SUBTASKS = 1 << 16


class MarkedSubtask(Protocol):
    """What markers pass through; ``marker_ages`` has the newest ages (ms), by where they come from."""

    vertex: Vertex
    outputs: list[EdgeOutput]
    marker_ages: dict[str, deque[float]]


class LatencyMarkers:
    """The markers of one task. ``names`` are the stable ids of operators by number; times are s of the wall clock."""

    __slots__ = ("_clock", "_due", "_names", "_settings", "_subtask")

    def __init__(self, settings: LatencySettings, subtask: int, names: Mapping[OperatorId, str], clock: Clock) -> None:
        self._clock = clock
        self._settings = settings
        self._subtask = subtask
        self._names = names
        self._due: int | None = None

    def advance(self, now: int, sources: Iterable[MarkedSubtask], due: int | None) -> int | None:
        """Emit the markers that are due (ms); return when the next thing is due, ``due`` being the next of all else."""
        if not self._settings.interval:
            return due
        if self._due is None or now >= self._due:
            self._due, wall = now + self._settings.interval, self._clock.wall()
            for subtask in sources:
                self._emit(subtask, subtask.vertex.nodes[0].id * _SUBTASKS + self._subtask, wall)
        return self._due if due is None else min(due, self._due)

    def take(self, subtask: MarkedSubtask, source: int, marked: float) -> None:
        """A marker arrived: note its age, and pass it on."""
        operator, number = divmod(source, _SUBTASKS)
        name = ""
        if self._settings.granularity != "single":
            name = f"source_id.{self._names[OperatorId(operator)]}."
            if self._settings.granularity == "subtask":
                name += f"source_subtask_index.{number}."
        ages = subtask.marker_ages.get(name)
        if ages is None:
            ages = subtask.marker_ages[name] = deque(maxlen=self._settings.history)
        ages.append(max(0.0, (self._clock.wall() - marked) * 1000))
        self._emit(subtask, source, marked)

    @staticmethod
    def _emit(subtask: MarkedSubtask, source: int, marked: float) -> None:
        for output in subtask.outputs:
            output.latency(source, marked)


def latency_statistics(ages: Iterable[float]) -> dict[str, float]:
    """Return what Flink shows of a histogram (ms).

    >>> latency_statistics([4.0, 1.0, 2.0, 3.0])["p99"], latency_statistics([1.0, 2.0, 3.0])["median"]
    (4.0, 2.0)
    """
    known = sorted(ages)
    count = len(known)
    if not count:
        return {}
    mean = sum(known) / count
    found = {
        "count": float(count),
        "min": known[0],
        "max": known[-1],
        "mean": mean,
        "stddev": (sum((age - mean) ** 2 for age in known) / count) ** 0.5,
    }
    for name, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
        found[name] = known[min(count - 1, int(share * count))]
    return {name: round(value, 3) for name, value in found.items()}
