"""Drivers that do not answer: they are asked side by side, and each has seconds of its own."""

import json
import socket
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from funken.cli.jobs import all_jobs
from funken.errors import ServerNotReached
from funken.rest.client import RestClient


class Overview(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"jobs": [{"jid": "a1", "name": "sales", "start-time": 1, "state": "RUNNING"}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def servers():
    """Three drivers that accept and never answer, and one that does."""
    with ExitStack() as stack:
        frozen = []
        for _ in range(3):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            frozen.append(RestClient(f"http://127.0.0.1:{listening.getsockname()[1]}"))
        answering = HTTPServer(("127.0.0.1", 0), Overview)
        stack.callback(answering.server_close)
        thread = threading.Thread(target=answering.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(answering.shutdown)
        yield [*frozen, RestClient(f"http://127.0.0.1:{answering.server_port}")]


def test_frozen_drivers_cost_their_time_once(servers, capsys):
    began = time.monotonic()
    found = all_jobs(servers, tolerant=True, seconds=0.5)

    assert time.monotonic() - began < 1.4  # three times half a second, one after the other, would be more
    assert [job.id for job in found] == ["a1"]
    assert capsys.readouterr().err.count("Warning: no REST server answers at") == 3


def test_one_frozen_driver_costs_no_more_than_several(servers, capsys):
    began = time.monotonic()

    assert all_jobs(servers[:1], tolerant=True, seconds=0.3) == []
    assert time.monotonic() - began < 1.2
    assert "Warning: no REST server answers at" in capsys.readouterr().err


def test_at_an_address_the_error_is_raised(servers):
    with pytest.raises(ServerNotReached):
        all_jobs([servers[0].within(0.2)], tolerant=False)
