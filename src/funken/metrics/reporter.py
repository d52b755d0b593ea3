"""The interface of a reporter of metrics, and the search for its class.

A reporter runs on the driver, in a thread of its own. It is given all metrics of a job at an interval; whatever it raises is a
warning, and never fails the job.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration


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
