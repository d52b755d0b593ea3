"""Metrics for an OpenTelemetry collector: OTLP over HTTP, pushed at the reporter's interval.

Every metric is a gauge with its name in lower case, as OpenTelemetry has names, and its scope as attributes; the resource has
``service.name``. Nothing is counted here: each report sends the numbers of the newest snapshot. Needs that extra.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from funken.metrics.registry import MetricPoint

_ENDPOINT = "http://127.0.0.1:4318/v1/metrics"
_NEVER_MS = 2.0**31
_NOT_ALLOWED = re.compile(r"[^a-z0-9_.\-/]")
_TIMEOUT_MS = 10_000


class OpenTelemetryReporter:
    """Sends metrics to ``exporter.endpoint``, the address of a collector's OTLP receiver; ``service.name`` is ``funken``.

    ``exporter`` is for tests: any ``MetricExporter``.

    >>> OpenTelemetryReporter.attributes(MetricPoint("numRestarts", 0, {"job_name": "words", "kind": ""}))
    {'job_name': 'words'}
    """

    def __init__(self, exporter: Any = None) -> None:
        self._exporter = exporter
        self._points: dict[str, list[MetricPoint]] = {}
        self._known: set[str] = set()
        self._provider: Any = None
        self._meter: Any = None
        self._observation: Any = None

    @staticmethod
    def attributes(metric: MetricPoint) -> dict[str, str]:
        """Return the attributes of a metric: its scope."""
        return {name: value for name, value in metric.scope.items() if value}

    @staticmethod
    def instrument(name: str) -> str:
        """Return the name of a metric as OpenTelemetry allows it.

        >>> OpenTelemetryReporter.instrument("numRecordsIn"), OpenTelemetryReporter.instrument("2 late")
        ('numrecordsin', 'm_2_late')
        """
        found = _NOT_ALLOWED.sub("_", name.lower())[:250]
        return found if found[:1].isalpha() else f"m_{found}"

    def open(self, options: Mapping[str, Any]) -> None:
        """Make the exporter; nothing is sent yet."""
        try:
            metrics = importlib.import_module("opentelemetry.metrics")
            sdk = importlib.import_module("opentelemetry.sdk.metrics")
            export = importlib.import_module("opentelemetry.sdk.metrics.export")
            resources = importlib.import_module("opentelemetry.sdk.resources")
            otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
        except ImportError as error:
            raise ImportError("it needs OpenTelemetry: pip install 'funken[opentelemetry]'") from error
        endpoint = str(options.get("exporter.endpoint") or _ENDPOINT)
        exporter = self._exporter or otlp.OTLPMetricExporter(endpoint=endpoint, timeout=_TIMEOUT_MS / 1000)
        # The reporter's own interval decides when: every report flushes the reader.
        reader = export.PeriodicExportingMetricReader(exporter, _NEVER_MS, _TIMEOUT_MS)
        resource = resources.Resource.create({"service.name": str(options.get("service.name") or "funken")})
        self._provider = sdk.MeterProvider([reader], resource, shutdown_on_exit=False)
        self._meter = self._provider.get_meter("funken")
        self._observation = metrics.Observation

    def report(self, metrics: Sequence[MetricPoint]) -> None:
        """Send these; raises if the collector does not take them."""
        points: dict[str, list[MetricPoint]] = {}
        for each in metrics:
            points.setdefault(self.instrument(each.name), []).append(each)
        self._points = points
        for name in points.keys() - self._known:
            self._meter.create_observable_gauge(name, callbacks=[self._observer(name)])
            self._known.add(name)
        if not self._provider.force_flush(_TIMEOUT_MS):
            raise OSError("the collector did not take the metrics; is exporter.endpoint its OTLP receiver over HTTP?")

    def _observer(self, name: str) -> Callable[[Any], Iterable[Any]]:
        def observe(_: Any) -> Iterable[Any]:
            return [self._observation(each.value, self.attributes(each)) for each in self._points.get(name, ())]

        return observe

    def close(self) -> None:
        """Send nothing any more."""
        self._points = {}
        if self._provider is not None:
            self._provider.shutdown(_TIMEOUT_MS)
