"""Azure's storage emulator on loopback, for tests: a program of npm, fetched once into Funken's part of the user's cache."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from funken.io.temporary import cache_folder
from tests.support.kafka import free_port

VERSION = "3.37.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that every emulator has, and that is no secret."""
READY_S = 60


def azurite_program():
    """The emulator's program, or why there is none."""
    found = shutil.which("azurite-blob")
    if found:
        return [found], ""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None, "Azurite is not there, and npm to fetch it neither (Debian, Ubuntu: apt-get install npm)"
    folder = (cache_folder() or Path(tempfile.gettempdir(), "funken")) / "services" / f"azurite-{VERSION}"
    program = [node, str(folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js")]
    if folder.is_dir():
        return program, ""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--prefix", work]
        done = subprocess.run(
            [npm, "install", *quietly, f"azurite@{VERSION}"], capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            return None, f"npm cannot fetch Azurite: {(done.stdout + done.stderr).strip().splitlines()[:1]}"
        os.replace(work, folder)
        Path(work).mkdir()
    return program, ""


class AzuriteProcess:
    """One emulator on a free port, which keeps what it has in memory, and tells nobody how it is used."""

    def __init__(self, program):
        self.port = free_port()
        options = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--inMemoryPersistence", "--silent"]
        self._command = [*program, *options, "--skipApiVersionCheck", "--disableTelemetry"]
        self._process = None

    def start(self):
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + READY_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline, "Azurite does not start"
                time.sleep(0.05)

    def stop(self):
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(20)
