"""The port of the Prometheus reporter under peers that are slow or many, and under names that are not its own."""

import contextlib
import socket
import time

import pytest

pytest.importorskip("prometheus_client")

from funken.metrics.registry import MetricPoint
from funken.metrics.reporters.prometheus import PrometheusReporter, ScrapeServer

POINT = MetricPoint("numRestarts", 2, {"job_name": "words"})


@pytest.fixture
def port():
    reporter = PrometheusReporter()
    reporter.open({"port": 0, "allowed-hosts": "metrics.example.org, other.example.org"})
    reporter.report([POINT])
    yield reporter.port
    reporter.close()


def connected(port, data=b""):
    peer = socket.create_connection(("127.0.0.1", port), timeout=20)
    peer.sendall(data)
    return peer


def answer(peer):
    found = b""
    with peer, contextlib.suppress(ConnectionResetError):
        while data := peer.recv(1 << 20):
            found += data
    return found


def scraped(port, host="localhost"):
    return answer(connected(port, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()))


@pytest.mark.parametrize(
    "host",
    [
        "localhost:9249",
        "LOCALHOST",
        "127.0.0.1:9249",
        "[::1]:9249",
        "10.1.2.3",
        "other.example.org",
        socket.gethostname(),
    ],
)
def test_a_name_of_its_own_is_answered(port, host):
    assert b"flink_jobmanager_job_numRestarts" in scraped(port, host)


@pytest.mark.parametrize(
    "host", ["evil.example:9249", "localhost.evil.example", "", "127.0.0.1.evil.example", "[", "evil@x"]
)
def test_another_name_is_not(port, host):
    found = scraped(port, host)

    assert b" 403 Forbidden\r\n" in found
    assert b"flink" not in found
    assert b"allowed-hosts" in found


def test_a_request_without_a_host_is_not_answered(port):
    assert b" 403 " in answer(connected(port, b"GET /metrics HTTP/1.0\r\n\r\n"))


@pytest.mark.parametrize("part", [b"", b"GET /me", b"GET /metrics HTTP/1.1\r\nHost: local"])
def test_a_scrape_has_a_time_limit(part, capfd):
    server = ScrapeServer("127.0.0.1", 0, lambda environ, start: [], seconds=0.1)
    try:
        assert answer(connected(server.server_port, part)) == b""
    finally:
        server.stop()
    assert capfd.readouterr().err == ""


def test_a_peer_that_does_not_read_has_a_time_limit(capfd):
    def large(environ, start_response):
        start_response("200 OK", [])
        return [b"x" * 30_000_000]

    server = ScrapeServer("127.0.0.1", 0, large, seconds=0.2)
    try:
        with connected(server.server_port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as peer:
            assert peer.recv(5) == b"HTTP/"
            while server._begun_in:
                server._ending.wait(0.01)
    finally:
        server.stop()
    assert capfd.readouterr().err == ""


def test_a_scraper_is_answered_among_hundreds_of_slow_peers(port):
    slow, times = [], []
    for number in range(500):
        slow.append(connected(port, b"GET /metrics HTTP/1.1\r\nHo"))
        if number % 50 == 49:
            began = time.monotonic()
            assert b"flink_jobmanager_job_numRestarts" in scraped(port)
            times.append(time.monotonic() - began)
    for peer in slow:
        peer.close()

    assert max(times) < 5.0  # on a machine that does ten things at once
