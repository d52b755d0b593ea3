"""A real Prometheus on loopback, for tests: the programs of Debian's package, or those on the path."""

import contextlib
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from tests.support.kafka import free_port

READY_S = 60


def prometheus_program():
    """The server's program, or why there is none."""
    found = shutil.which("prometheus")
    return found, "" if found else "Prometheus is not there (Debian, Ubuntu: apt-get install prometheus)"


class PrometheusProcess:
    """A server that scrapes one address five times a second, and evaluates the alert rules given."""

    def __init__(self, program, folder, target, rules):
        self._program, self._folder, self._process = program, folder, None
        self._address = f"127.0.0.1:{free_port()}"
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\n"
            f"rule_files: ['{rules}']\n"
            f"scrape_configs: [{{job_name: funken, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )

    def start(self):
        """Start it, and wait until it answers."""
        command = [
            self._program, f"--config.file={self._folder}/prometheus.yml", f"--storage.tsdb.path={self._folder}/data",
            f"--web.listen-address={self._address}",
        ]  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                self.ask("query", query="1")
                return self
            assert self._process.poll() is None and time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.05)

    def ask(self, path, **parameters):
        """Return the data of an answer of its HTTP API."""
        address = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def query(self, expression):
        """Return the series of an expression: labels and newest value."""
        return [(each["metric"], float(each["value"][1])) for each in self.ask("query", query=expression)["result"]]

    def stop(self):
        """End it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(20)
