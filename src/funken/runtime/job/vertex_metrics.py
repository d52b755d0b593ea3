"""What the tasks of a job report of their vertices, with rates: about the last few seconds, computed once per report."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP, Millis
from funken.metrics.histogram import percentile
from funken.plan.physical import PhysicalPlan
from funken.runtime.job.pressure import HELD_BACK, Bottleneck, FlowGraph
from funken.runtime.messages import MetricsReport, RecordCounts, TaskId, VertexMetrics
from funken.runtime.process import ProcessStatus
from funken.timing.clock import Clock, SystemClock

_SPAN_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_MEASURABLE = 0.01
"""From which share of time on a subtask is busy enough for the rate at which it would be always busy."""


@dataclass(frozen=True, slots=True)
class OperatorRecords:
    """How many records one subtask of an operator has read and emitted, and how many per second of late.

    ``None``: nobody counts them, because they pass between two functions of one loop.
    """

    records_in: int | None = None
    records_out: int | None = None
    records_in_per_second: float | None = None
    records_out_per_second: float | None = None

    def named(self) -> dict[str, int | float]:
        """Return those that are known by Flink's names.

        >>> OperatorRecords(records_in=3, records_in_per_second=1.5).named()
        {'numRecordsIn': 3, 'numRecordsInPerSecond': 1.5}
        """
        found = {
            "numRecordsIn": self.records_in,
            "numRecordsInPerSecond": self.records_in_per_second,
            "numRecordsOut": self.records_out,
            "numRecordsOutPerSecond": self.records_out_per_second,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SubtaskMetrics:
    """The metrics of one subtask of a vertex; rates are about the last five seconds.

    ``user`` has the metrics of its operators' functions, by the operator's stable id, and ``labels`` those that are below a key
    and a value, as ``MetricGroup.labels`` returns them; watermarks are ``None`` before the first.
    Busy, back-pressured and idle time are ms per second, and their sum is 1000. A subtask is back-pressured while its output
    waits, and while the sources before it are held back because of a vertex behind it (``pressure.py``).
    """

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records_in_per_second: float = 0.0
    records_out_per_second: float = 0.0
    bytes_in_per_second: float = 0.0
    bytes_out_per_second: float = 0.0
    busy_ms_per_second: float = 0.0
    back_pressured_ms_per_second: float = 0.0
    idle_ms_per_second: float = 1000.0
    busy_ms: float = 0.0
    back_pressured_ms: float = 0.0
    input_watermark: int | None = None
    output_watermark: int | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    user: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, tuple[str, dict[str, str]]]] = field(default_factory=dict)
    markers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The ages (ms) of the newest latency markers, by where they come from."""
    queued: int = 0
    """How many blocks wait for it in its task."""
    process: ProcessStatus | None = None
    """What the process that the subtask is in uses of its machine."""
    operators: Mapping[str, OperatorRecords] = field(default_factory=dict)
    """What each of its operators has read and emitted, by the operator's stable id."""

    @property
    def true_processing_rate(self) -> float | None:
        """How many records per second it could take if it were always busy; ``None`` if it is too idle to tell."""
        busy = self.busy_ms_per_second / 1000
        return round(self.records_in_per_second / busy, 3) if busy >= _MEASURABLE else None

    def lag(self, now: int) -> int | None:
        """Return how far (ms) the watermark is behind ``now``; ``None`` before the first, and after the end of time."""
        mark = self.output_watermark if self.input_watermark is None else self.input_watermark
        return None if mark is None or mark >= MAX_WATERMARK else now - mark

    def named(self, now: int) -> dict[str, int | float]:
        """Return them by Flink's names.

        >>> SubtaskMetrics(records_in=3, input_watermark=400).named(1000)["numRecordsIn"]
        3
        """
        found: dict[str, int | float | None] = {
            name: getattr(self, attribute) for name, attribute in _NAMES.items()
        } | {
            "watermarkLag": self.lag(now),
            "trueProcessingRate": self.true_processing_rate,
            "isBackPressured": int(self.back_pressured_ms_per_second > 1000 * HELD_BACK),
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}


def _held_back(metrics: SubtaskMetrics, held: float) -> SubtaskMetrics:
    """Return the metrics of a subtask whose input is held back for so many ms per second because of a vertex behind it."""
    pressed = min(1000.0 - metrics.busy_ms_per_second, max(held, metrics.back_pressured_ms_per_second))
    idle = round(1000.0 - metrics.busy_ms_per_second - pressed, 3)
    return replace(metrics, back_pressured_ms_per_second=pressed, idle_ms_per_second=idle)


_NAMES = {
    "numRecordsIn": "records_in",
    "numRecordsInPerSecond": "records_in_per_second",
    "numRecordsOut": "records_out",
    "numRecordsOutPerSecond": "records_out_per_second",
    "numBytesIn": "bytes_in",
    "numBytesInPerSecond": "bytes_in_per_second",
    "numBytesOut": "bytes_out",
    "numBytesOutPerSecond": "bytes_out_per_second",
    "busyTimeMsPerSecond": "busy_ms_per_second",
    "backPressuredTimeMsPerSecond": "back_pressured_ms_per_second",
    "idleTimeMsPerSecond": "idle_ms_per_second",
    "accumulateBusyTimeMs": "busy_ms",
    "accumulateBackPressuredTimeMs": "back_pressured_ms",
    "currentInputWatermark": "input_watermark",
    "currentOutputWatermark": "output_watermark",
    "inputQueueLength": "queued",
    "latencyP50": "latency_p50",
    "latencyP99": "latency_p99",
}


class MetricsHistory:
    """The newest metrics of every subtask of the attempt that runs; ``take`` a report, ``current`` for all."""

    def __init__(self, plan: PhysicalPlan, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._names = {vertex.id: vertex.name for vertex in plan.vertices}
        self._sources = {vertex.id for vertex in plan.vertices if vertex.source is not None}
        self._flow = FlowGraph(
            self._names,
            [(edge.source, edge.target) for edge in plan.edges if not edge.feedback],
        )
        #: since when (wall clock, ms) each bottleneck holds sources back
        self._since: dict[int, Millis] = {}
        self._bottlenecks: list[Bottleneck] = []
        self._due = 0.0
        self._lock = threading.Lock()
        self._samples: dict[TaskId, deque[MetricsReport]] = {}
        self._current: dict[tuple[int, int], SubtaskMetrics] = {}

    def clear(self) -> None:
        """Another attempt begins."""
        with self._lock:
            self._samples.clear()
            self._current.clear()
            self._since.clear()
            self._due = 0.0
            self._bottlenecks = []

    def take(self, report: MetricsReport) -> None:
        """Take a report; with the second of a task there are rates."""
        with self._lock:
            samples = self._samples.setdefault(report.task, deque())
            if samples and report.at < samples[-1].at:  # Spark has started the task again
                samples.clear()
            samples.append(report)
            while len(samples) > 2 and samples[1].at <= report.at - _SPAN_SECONDS:
                samples.popleft()
            oldest = samples[0]
            for vertex, now in report.vertices.items():
                then = oldest.vertices.get(vertex, now)
                place = vertex, report.task.subtask
                self._current[place] = self._metrics(vertex, now, then, report.at - oldest.at, report.process)
            if report.vertices.keys() & self._sources:
                at = self._clock.monotonic()
                if at >= self._due:  # not with the report of every source's task: it looks at all subtasks
                    self._due = at + _LOOK_SECONDS
                    self._find_bottlenecks()

    def current(self) -> dict[tuple[int, int], SubtaskMetrics]:
        """Return the metrics of each subtask, by vertex and subtask."""
        with self._lock:
            found, held = dict(self._current), dict[int, float]()
            for each in self._bottlenecks:
                for vertex in each.between:
                    held[vertex] = max(held.get(vertex, 0.0), each.held_back)
        for (vertex, subtask), metrics in found.items():
            if vertex in held and vertex not in self._sources:
                found[vertex, subtask] = _held_back(metrics, held[vertex] * 1000)
        return found

    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """Return the vertices that the job waits for, the one that holds back most first."""
        with self._lock:
            return tuple(self._bottlenecks)

    def _find_bottlenecks(self) -> None:
        busy: dict[int, tuple[float, int]] = {}
        pressed: dict[int, float] = {}
        for (vertex, subtask), metrics in self._current.items():
            if vertex in self._sources:
                pressed[vertex] = max(pressed.get(vertex, 0.0), metrics.back_pressured_ms_per_second / 1000)
            busy[vertex] = max(busy.get(vertex, (0.0, 0)), (metrics.busy_ms_per_second / 1000, subtask))
        shares = {vertex: share for vertex, (share, _) in busy.items()}
        behind = {vertex: share for vertex, share in shares.items() if vertex not in self._sources}
        pressure = self._flow.pressure(pressed, behind)
        pressure |= {source: (0.0, ()) for source in self._flow.busy_sources(pressed, shares)}
        now = Millis(self._clock.now())
        self._since = {vertex: self._since.get(vertex, now) for vertex in pressure}
        self._bottlenecks = sorted(
            (
                Bottleneck(
                    vertex, self._names[vertex], busy[vertex][1], busy[vertex][0], held, self._since[vertex], between
                )
                for vertex, (held, between) in pressure.items()
            ),
            key=lambda each: -each.held_back,
        )

    def _metrics(
        self, vertex: int, now: VertexMetrics, then: VertexMetrics, seconds: float, process: ProcessStatus | None
    ) -> SubtaskMetrics:
        def rate(value: float) -> float:
            return round(value / seconds, 3) if seconds > 0 else 0.0

        busy = min(1000.0, rate((now.busy - then.busy) * 1000))
        pressed = min(1000.0 - busy, rate((now.back_pressured - then.back_pressured) * 1000))
        recent = {bucket: count - then.latency.get(bucket, 0) for bucket, count in now.latency.items()}
        latency = recent if any(recent.values()) else {}
        return SubtaskMetrics(
            now.records_in,
            now.records_out,
            now.bytes_in,
            now.bytes_out,
            rate(now.records_in - then.records_in),
            rate(now.records_out - then.records_out),
            rate(now.bytes_in - then.bytes_in),
            rate(now.bytes_out - then.bytes_out),
            busy,
            pressed,
            round(1000.0 - busy - pressed, 3),
            round(now.busy * 1000, 3),
            round(now.back_pressured * 1000, 3),
            None if vertex in self._sources or now.watermark <= MIN_TIMESTAMP else now.watermark,
            None if now.watermark_out <= MIN_TIMESTAMP else now.watermark_out,
            percentile(latency, 0.5),
            percentile(latency, 0.99),
            {operator: found.values for operator, found in now.user.items()},
            {operator: found.labels for operator, found in now.user.items() if found.labels},
            now.markers,
            now.queued,
            process,
            {
                operator: _records(counts, then.operators.get(operator, counts), rate)
                for operator, counts in now.operators.items()
            },
        )


def _records(now: RecordCounts, then: RecordCounts, rate: Callable[[float], float]) -> OperatorRecords:
    read, emitted = (
        None if value is None else rate(value - (before or 0)) for value, before in zip(now, then, strict=True)
    )
    return OperatorRecords(now.read, now.emitted, read, emitted)
