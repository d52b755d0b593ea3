"""Metrics: named numbers that operators and user functions keep, and one snapshot of them all.

Recording is an attribute update and reads no clock. The root group may have a clock: then meters have rates. It is read
when a meter is made, when its rate is asked for, and once per snapshot.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeAlias, TypeVar

from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, InvalidProgram

Number: TypeAlias = int | float
M = TypeVar("M", bound="Counter | Gauge | Meter | Distribution")


class Counter:
    """A number that goes up and down.

    >>> late = MetricGroup().counter("late")
    >>> late.inc(3)
    >>> late.dec()
    >>> late.get_count()
    2
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        """Add to the count."""
        self.count += n

    def dec(self, n: int = 1) -> None:
        """Subtract from the count."""
        self.count -= n

    def get_count(self) -> int:
        """Return the count."""
        return self.count

    def snapshot(self, now: float | None) -> Number | dict[str, Any]:
        """Return the count."""
        return self.count


class Gauge:
    """A number asked for when a snapshot is taken; an error of the function is shown in its place.

    >>> Gauge(lambda: 7).snapshot(None), Gauge(lambda: 1 / 0).snapshot(None)
    (7, {'error': 'ZeroDivisionError: division by zero'})
    """

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def snapshot(self, now: float | None) -> Number | dict[str, Any]:
        """Return the function's result."""
        try:
            value: Number | dict[str, Any] = self._read()
        except Exception as error:  # noqa: BLE001 - user code; a metric must not fail the job
            return {"error": f"{type(error).__name__}: {error}"}
        return value


class Meter:
    """Counts events, and their rate over about the last ``time_span_in_seconds``.

    >>> from funken.timing.clock import ManualClock
    >>> clock = ManualClock()
    >>> orders = MetricGroup(clock.monotonic)
    >>> meter = orders.meter("orders")
    >>> meter.mark_event(20)
    >>> clock.advance(10_000)
    >>> meter.get_count(), meter.get_rate()
    (20, 2.0)
    >>> orders.snapshot()
    {'orders': {'count': 20, 'rate': 2.0}}
    """

    __slots__ = ("_clock", "_samples", "_span", "count")

    def __init__(self, time_span_in_seconds: int = 60, clock: Callable[[], float] | None = None) -> None:
        self.count = 0
        self._span = time_span_in_seconds
        self._clock = clock
        #: counts at earlier times: when it was made, and at each snapshot
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)] if clock else ())

    def mark_event(self, value: int = 1) -> None:
        """Count an event, or several."""
        self.count += value

    def get_count(self) -> int:
        """Return the number of events."""
        return self.count

    def get_rate(self) -> float:
        """Return the number of events per second: over about the time span, or since the meter was made.

        In a job there is a clock; without one it is 0.
        """
        return 0.0 if self._clock is None else self._rate(self._clock())

    def _rate(self, now: float) -> float:
        samples = self._samples
        while len(samples) > 1 and samples[1][0] <= now - self._span:
            samples.popleft()
        if not samples or now <= samples[0][0]:
            return 0.0
        return (self.count - samples[0][1]) / (now - samples[0][0])

    def snapshot(self, now: float | None) -> Number | dict[str, Any]:
        """Return the count and the rate."""
        if now is None:
            return {"count": self.count}
        rate = self._rate(now)
        self._samples.append((now, self.count))
        return {"count": self.count, "rate": rate}


class Distribution:
    """The count, sum, minimum and maximum of numbers.

    >>> sizes = MetricGroup().distribution("sizes")
    >>> for size in (2, 4):
    ...     sizes.update(size)
    >>> sizes.snapshot(None)
    {'count': 2, 'sum': 6, 'min': 2, 'max': 4, 'mean': 3.0}
    """

    __slots__ = ("count", "max", "min", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum: Number = 0
        self.min: Number | None = None
        self.max: Number | None = None

    def update(self, value: Number) -> None:
        """Take in a number."""
        self.count += 1
        self.sum += value
        if self.min is None or value < self.min:
            self.min = value
        if self.max is None or value > self.max:
            self.max = value

    def snapshot(self, now: float | None) -> Number | dict[str, Any]:
        """Return count, sum, min, max and mean; the last three are ``None`` while there is no number."""
        mean = self.sum / self.count if self.count else None
        return {"count": self.count, "sum": self.sum, "min": self.min, "max": self.max, "mean": mean}


class MetricGroup:
    """A named set of metrics and of groups below it (PyFlink's ``MetricGroup``).

    Asking for a name again gives the same metric. ``clock`` returns seconds; without one there are no rates.

    >>> root = MetricGroup()
    >>> root.add_group("orders").counter("late").inc(2)
    >>> root.gauge("size", lambda: 7)
    >>> root.snapshot()
    {'size': 7, 'orders.late': 2}
    """

    __slots__ = ("_clock", "_groups", "_keyed", "_metrics")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._groups: dict[str, MetricGroup] = {}
        self._keyed: set[str] = set()
        """The names of groups below that are values of this one's name."""
        self._metrics: dict[str, Counter | Gauge | Meter | Distribution] = {}

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group of a name; with ``extra``, a key and a value, the group of the value below the key's."""
        group = self._groups.setdefault(name, MetricGroup(self._clock))
        if extra is None:
            return group
        group._keyed.add(extra)
        return group.add_group(extra)

    def labels(self) -> dict[str, tuple[str, dict[str, str]]]:
        """Return, for each metric below a key and a value, its name without the values, and these by key.

        >>> root = MetricGroup()
        >>> root.add_group("topic", "orders").counter("read").inc()
        >>> root.labels()
        {'topic.orders.read': ('topic.read', {'topic': 'orders'})}
        """
        return {name: (short, labels) for name, short, labels in self._labelled("", "", {}) if labels}

    def _labelled(self, own: str, full: str, labels: dict[str, str]) -> list[tuple[str, str, dict[str, str]]]:
        key = own.rstrip(".").rpartition(".")[2]
        found = [(full + name, own + name, labels) for name in self._metrics]
        for name, group in self._groups.items():
            if name in self._keyed:
                found += group._labelled(own, f"{full}{name}.", labels | {key: name})
            else:
                found += group._labelled(f"{own}{name}.", f"{full}{name}.", labels)
        return found

    def counter(self, name: str) -> Counter:
        """Return the counter of a name."""
        return self._metric(name, Counter())

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Ask ``obj()`` for a number at every snapshot; replaces an earlier gauge of the name."""
        self._metric(name, Gauge(obj))
        self._metrics[name] = Gauge(obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter of a name."""
        return self._metric(name, Meter(time_span_in_seconds, self._clock))

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of a name."""
        return self._metric(name, Distribution())

    def _metric(self, name: str, new: M) -> M:
        metric = self._metrics.setdefault(name, new)
        if not isinstance(metric, type(new)):
            raise InvalidProgram(
                f"metric {name!r} is a {type(metric).__name__} and was requested as a {type(new).__name__}: give each "
                "metric of a group a name of its own."
            )
        return metric

    def snapshot(self) -> dict[str, Number | dict[str, Any]]:
        """Return all metrics of this group and those below, by dotted name."""
        return dict(self._collect("", self._clock() if self._clock else None))

    def _collect(self, prefix: str, now: float | None) -> list[tuple[str, Number | dict[str, Any]]]:
        found = [(prefix + name, metric.snapshot(now)) for name, metric in self._metrics.items()]
        for name, group in self._groups.items():
            found += group._collect(f"{prefix}{name}.", now)
        return found


# ---- A latency histogram that is a dict of counts: two significant digits, merges by addition, travels as plain
# data.
#
# Buckets are log-linear as in HdrHistogram: the power of two and the next five bits, so an error of at most 3 %.


def bucket_of(micros: int) -> int:
    """Return the bucket of a latency (us).

    >>> value_of(bucket_of(1000)), value_of(bucket_of(20))
    (992, 20)
    """
    if micros < 64:
        return max(0, micros)
    shift = micros.bit_length() - 6
    return ((shift + 1) << 5) + (micros >> shift)


def value_of(bucket: int) -> int:
    """Return the lowest latency (us) of a bucket."""
    if bucket < 64:
        return bucket
    shift = (bucket >> 5) - 2
    return ((bucket & 31) + 32) << shift


def merge(into: dict[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """Add the counts of one histogram to another, and return it."""
    for bucket, count in other.items():
        into[bucket] = into.get(bucket, 0) + count
    return into


def percentile(histogram: Mapping[int, int], q: float) -> float | None:
    """Return the latency (ms) at quantile ``q`` from 0 to 1; ``None`` without any.

    >>> percentile({bucket_of(5000): 99, bucket_of(80_000): 1}, 0.5)
    4.992
    """
    total = sum(histogram.values())
    if not total:
        return None
    left = q * total
    for bucket in sorted(histogram):
        left -= histogram[bucket]
        if left <= 0:
            return value_of(bucket) / 1000
    return value_of(max(histogram)) / 1000


# ---- The interface of a reporter of metrics, and the search for its class.
#
# A reporter runs on the driver, in a thread of its own. It is given all metrics of a job at an interval; whatever it raises is a
# warning, and never fails the job.


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One metric at one moment: its name, where it was measured, and a number.

    ``scope`` has ``job_id`` and ``job_name``; for metrics of a task also ``task_name``, ``operator_id`` (of the head of its
    chain), ``operator_name``, ``subtask_index`` and ``host``; those of functions have the id and name of their operator, and the
    ``kind`` ``user``. Metrics of a process have ``process``, and the kind ``worker`` or ``driver``.

    >>> MetricPoint("numRecordsIn", 7, {"job_name": "words", "operator_name": "count", "subtask_index": "0"}).identifier
    'words.count.0.numRecordsIn'
    """

    name: str
    value: int | float
    scope: Mapping[str, str] = field(default_factory=dict)

    @property
    def identifier(self) -> str:
        """Scope and name as one text, with dots between them."""
        parts = [self.scope.get(part, "") for part in ("job_name", "process", "operator_name", "subtask_index")]
        return ".".join([*filter(None, parts), self.name])


class MetricReporter(Protocol):
    """Brings the metrics of a job to where they are looked at; all of its methods are called in one thread.

    One that is asked for metrics itself may have a method ``pull(read)``, which is called once after ``open``: ``read()`` returns
    the metrics as they are at that moment, from any thread. Then ``report`` is called at the end only.

    >>> class Newest:
    ...     def open(self, options):
    ...         self.names = []
    ...     def report(self, metrics):
    ...         self.names = [metric.identifier for metric in metrics]
    ...     def close(self):
    ...         pass
    >>> reporter = Newest()
    >>> reporter.open({})
    >>> reporter.report([MetricPoint("numRestarts", 0, {"job_name": "words"})])
    >>> reporter.names
    ['words.numRestarts']
    """

    def open(self, options: Mapping[str, Any]) -> None:
        """Begin; ``options`` are those of ``metrics.reporter.<name>.``, without that."""

    def report(self, metrics: Sequence[MetricPoint]) -> None:
        """Take the metrics as they are now; called at the interval, and once more at the end."""

    def close(self) -> None:
        """End; called if ``open`` returned."""


_OPEN_TELEMETRY = "funken.metrics.reporters.opentelemetry:OpenTelemetryReporter"
_BUILT_IN = {
    "log": "funken.metrics.reporters.lines:LogReporter",
    "json": "funken.metrics.reporters.lines:JsonLinesReporter",
    "opentelemetry": _OPEN_TELEMETRY,
    "prometheus": "funken.metrics.reporters.prometheus:PrometheusReporter",
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": "funken.metrics.reporters.lines:LogReporter",
    "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory": _OPEN_TELEMETRY,
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": "funken.metrics.reporters.prometheus:PrometheusReporter",
}


def reporter_of(name: str, options: Mapping[str, Any]) -> MetricReporter:
    """Make the reporter that its options name; raises ``InvalidConfiguration`` if there is no such class.

    >>> type(reporter_of("log", {})).__name__, type(reporter_of("mine", {"class": "json"})).__name__
    ('LogReporter', 'JsonLinesReporter')
    """
    wanted = str(options.get("class") or options.get("factory.class") or name)
    module, _, attribute = _BUILT_IN.get(wanted, wanted).partition(":")
    try:
        made: MetricReporter = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidConfiguration(
            f"metric reporter {name!r} cannot be made: there is no {wanted!r} ({type(error).__name__}: {error}). Set "
            f"metrics.reporter.{name}.class to log, json, prometheus, opentelemetry, or to a class as 'module:Class'."
        ) from error
    return made
