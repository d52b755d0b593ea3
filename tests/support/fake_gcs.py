"""A server of Google's storage protocol on loopback, for tests: fake-gcs-server, as ``go install`` builds it."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.kafka import free_port

MODULE = "github.com/fsouza/fake-gcs-server@v1.56.1"
READY_S = 30


def fake_gcs_program():
    """The server's program, on the path or where Go puts it, or why there is none."""
    found = shutil.which("fake-gcs-server", path=str(Path.home() / "go" / "bin")) or shutil.which("fake-gcs-server")
    return found, "" if found else f"fake-gcs-server is not there (go install {MODULE})"


class FakeGcsProcess:
    """One server on a free port, which keeps what it has in memory."""

    def __init__(self, program):
        self.port = free_port()
        host = f"127.0.0.1:{self.port}"
        self._address = f"http://{host}/storage/v1/b?project=funken"
        self._command = [
            program,
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            str(self.port),
            "-backend",
            "memory",
        ]
        self._command += ["-public-host", host, "-external-url", f"http://{host}", "-log-level", "error"]
        self._process = None

    def start(self):
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + READY_S
        while True:
            try:
                urllib.request.urlopen(self._address, timeout=5).close()
                return self
            except (OSError, urllib.error.URLError):
                assert self._process.poll() is None and time.monotonic() < deadline, "fake-gcs-server does not start"
                time.sleep(0.05)

    def make_bucket(self, name):
        body = json.dumps({"name": name}).encode()
        request = urllib.request.Request(self._address, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=10).close()

    def uri(self, path):
        return f"gs://anonymous@{path}?scheme=http&endpoint_override=127.0.0.1:{self.port}"

    def stop(self):
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(20)
