"""Metrics for Prometheus to scrape: an HTTP endpoint, on loopback unless another address is given.

Names are Flink's: ``flink_jobmanager_job_numRestarts``, ``flink_taskmanager_job_task_numRecordsIn``, and for metrics of
operators and functions ``flink_taskmanager_job_task_operator_<name>``, of processes ``flink_taskmanager_Status_JVM_<name>`` and
``flink_jobmanager_...``; the scope is in the labels. Requests have to name this machine in their
``Host``, or one of the names in ``allowed-hosts``. Needs the extra ``prometheus``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from funken.metrics.reporter import MetricPoint

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_]")


class PrometheusReporter:
    """Serves the metrics of this moment at ``http://<host>:<port>/metrics``; ``port`` 9249 is Flink's, 0 takes a free one.

    >>> PrometheusReporter.family(MetricPoint("orders.late", 1, {"subtask_index": "0", "operator_id": "a", "kind": "user"}))
    'flink_taskmanager_job_task_operator_orders_late'
    """

    def __init__(self) -> None:
        self._read: Callable[[], Sequence[MetricPoint]] = lambda: ()
        self._server: Any = None
        self.port = 0

    @staticmethod
    def family(metric: MetricPoint) -> str:
        """Return the name of a metric's family."""
        kind = metric.scope.get("kind")
        scope = {"worker": "taskmanager", "driver": "jobmanager"}.get(kind or "", "jobmanager_job")
        if "subtask_index" in metric.scope:
            scope = (
                "taskmanager_job"
                if kind == "latency"
                else "taskmanager_job_task" + ("_operator" if kind == "user" else "")
            )
        return _NOT_ALLOWED.sub("_", f"flink_{scope}_{metric.name}")

    def open(self, options: Mapping[str, Any]) -> None:
        """Begin to serve."""
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ImportError("it needs prometheus-client: pip install 'funken[prometheus]'") from error
        from funken.metrics.reporters.scraping import ScrapeServer  # noqa: PLC0415 - servers of the library, which few need

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        host, port = str(options.get("host", "127.0.0.1")), int(options.get("port", 9249))
        names = [name.strip() for name in str(options.get("allowed-hosts", "")).split(",")]
        self._server = ScrapeServer(host, port, make_wsgi_app(registry), names)
        self.port = self._server.server_port

    def pull(self, read: Callable[[], Sequence[MetricPoint]]) -> None:
        """Read the metrics when they are scraped."""
        self._read = read

    def report(self, metrics: Sequence[MetricPoint]) -> None:
        """Serve these from now on."""
        self._read = lambda: metrics

    def collect(self) -> Iterable[Metric]:
        """Return the metrics as they are now, as ``prometheus_client`` wants them."""
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - an extra

        families: dict[tuple[str, tuple[str, ...]], GaugeMetricFamily] = {}
        for metric in self._read():
            name, labels = self.family(metric), tuple(key for key in metric.scope if key != "kind")
            found = families.get((name, labels))
            if found is None:
                found = families[name, labels] = GaugeMetricFamily(
                    name, metric.name, labels=[_NOT_ALLOWED.sub("_", label) for label in labels]
                )
            found.add_metric([metric.scope[label] for label in labels], float(metric.value))
        return families.values()

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first report."""
        return ()

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.stop()
