"""OTLP over HTTP: what a collector receives, decoded by OpenTelemetry's own protobuf classes."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from funken.metrics.registry import MetricPoint, reporter_of

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")


@pytest.fixture
def collector():
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            received.append((self.path, ExportMetricsServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/metrics", received
    server.shutdown()
    thread.join(30)
    server.server_close()


def test_a_collector_gets_every_metric_with_its_scope(collector):
    endpoint, received = collector
    reporter = reporter_of("opentelemetry", {})
    reporter.open({"exporter.endpoint": endpoint, "service.name": "orders"})
    for restarts in (0, 3):
        scope = {"job_name": "words", "subtask_index": "1"}
        reporter.report(
            [MetricPoint("numRestarts", restarts, {"job_name": "words"}), MetricPoint("2 idle", 0.5, scope)]
        )
    reporter.close()

    assert [path for path, _ in received[:2]] == ["/v1/metrics"] * 2
    (resource,) = received[1][1].resource_metrics
    names = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert names["service.name"] == "orders"
    (scope,) = [each for each in resource.scope_metrics if each.scope.name == "funken"]
    found = {metric.name: metric.gauge.data_points for metric in scope.metrics}
    assert found["numrestarts"][0].as_int == 3
    assert found["m_2_idle"][0].as_double == 0.5
    assert {each.key: each.value.string_value for each in found["m_2_idle"][0].attributes} == {
        "job_name": "words",
        "subtask_index": "1",
    }
