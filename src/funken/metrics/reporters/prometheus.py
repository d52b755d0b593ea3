"""Metrics for Prometheus to scrape: an HTTP endpoint, on loopback unless another address is given.

Names are Flink's: ``flink_jobmanager_job_numRestarts``, ``flink_taskmanager_job_task_numRecordsIn``, and for metrics of
operators and functions ``flink_taskmanager_job_task_operator_<name>``, of their coordinators
``flink_jobmanager_job_operator_coordinator_<name>``, of processes ``flink_taskmanager_Status_JVM_<name>`` and
``flink_jobmanager_...``; the scope is in the labels. Requests have to name this machine in their
``Host``, or one of the names in ``allowed-hosts``. Needs the extra ``prometheus``.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from funken.io.spill import Admission
from funken.metrics.registry import MetricPoint

if TYPE_CHECKING:
    from prometheus_client.core import Metric


_SCOPES = {"worker": "taskmanager", "driver": "jobmanager", "coordinator": "jobmanager_job_operator"}
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
        scope = _SCOPES.get(kind or "", "jobmanager_job")
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


# ---- The HTTP server of the Prometheus reporter: a thread per scrape, each with a time limit, and few of them at
# once.
#
# A scrape may take 10 to 15 s from its connection to its last byte. Where connections are many, the oldest is
# closed (``Admission``): a scraper sends its request at once. The ``Host`` of a request has to name this machine,
# or be an address: a page of another site whose name was made to point here (DNS rebinding) has its own name there.


_SECONDS = 10.0
_POLL_SECONDS = 0.5
_JOIN_SECONDS = 5.0

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class _Handler(WSGIRequestHandler):
    """A scrape; the log does not hear of it, nor of peers that are gone."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def handle(self) -> None:
        """Answer a request."""
        with contextlib.suppress(OSError, ValueError):  # the peer is gone, or was dropped
            super().handle()


class ScrapeServer(ThreadingMixIn, WSGIServer):
    """Serves an application at ``host`` and ``port`` until ``stop``; raises ``OSError`` if it cannot listen there."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, app: Application, names: Iterable[str] = (), seconds: float = _SECONDS
    ) -> None:
        self._seconds = seconds
        self._names = {"localhost", host.lower(), socket.gethostname().lower(), *(name.lower() for name in names)} - {
            ""
        }
        self._app = app
        self._lock = threading.Lock()
        self._admission = Admission[socket.socket](capacity=64, per_peer=64)
        self._periods = 0
        self._begun_in: dict[socket.socket, int] = {}
        self._ending = threading.Event()
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        super().__init__((host, port), _Handler)
        self.set_app(self._checked)
        self._serving = [
            threading.Thread(target=self.serve_forever, args=(_POLL_SECONDS,), name="prometheus", daemon=True),
            threading.Thread(target=self._watch, name="prometheus-limit", daemon=True),
        ]
        for thread in self._serving:
            thread.start()

    def server_bind(self) -> None:
        """Bind without a look-up of this machine's name, which may take seconds."""
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def stop(self) -> None:
        """Stop serving."""
        self._ending.set()
        self.shutdown()
        self.server_close()
        for thread in self._serving:
            thread.join(_JOIN_SECONDS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a scrape, and close the oldest one if there are too many."""
        with self._lock:
            dropped = self._admission.opened(request, str(client_address[0]), now=0.0)
            self._begun_in[request] = self._periods
            if dropped is not None:
                _hang_up(dropped)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a scrape."""
        with self._lock:
            self._admission.closed(request)
            self._begun_in.pop(request, None)
        super().shutdown_request(request)

    def _watch(self) -> None:
        """Hang up on peers that have taken too long: those that were there in two whole periods of half the time."""
        while not self._ending.wait(self._seconds / 2):
            with self._lock:
                self._periods += 1
                for request, begun_in in self._begun_in.items():
                    if self._periods - begun_in > 2:
                        _hang_up(request)

    def _checked(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if self._is_own(environ.get("HTTP_HOST", "")):
            return self._app(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [
            b"The Host header does not name this server. Use an address or the name of the machine, or list the name in "
            b"metrics.reporter.<name>.allowed-hosts.\n"
        ]

    def _is_own(self, header: str) -> bool:
        try:
            host = (urlsplit(f"//{header}").hostname or "").lower().rstrip(".")
        except ValueError:
            return False
        if host in self._names:
            return True
        with contextlib.suppress(ValueError):
            return bool(ipaddress.ip_address(host))
        return False


def _hang_up(request: socket.socket) -> None:
    """End a wait for a peer, in whichever thread it is; that thread closes the socket."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
