"""A real ZooKeeper server on loopback, for tests: from the jars of PySpark, so nothing has to be downloaded."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pyspark

from funken.spark.java import ensure_java
from tests.support.kafka import free_port

READY_S = 240
_JARS = (
    "zookeeper", "slf4j-api", "log4j", "metrics-core", "snappy-java", "netty", "commons-io", "commons-lang3",
)  # fmt: skip


class ZooKeeperServer:
    """One server on a free port, with its data in a folder; ``stop`` ends it, ``pause`` and ``resume`` cut it off."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.address = f"127.0.0.1:{free_port()}"
        host, port = self.address.split(":")
        self._conf = self.folder / "zoo.cfg"
        self._conf.write_text(
            f"tickTime=500\ndataDir={self.folder / 'data'}\nclientPort={port}\nclientPortAddress={host}\n"
            "admin.enableServer=false\nmaxSessionTimeout=20000\n"
        )
        jars = Path(pyspark.__file__).parent / "jars"
        found = [str(jar) for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(_JARS)]
        self._command = [
            str(Path(ensure_java(), "bin", "java")), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(found),
            "org.apache.zookeeper.server.ZooKeeperServerMain", str(self._conf),
        ]  # fmt: skip
        self._process = None

    def start(self):
        """Start it, and wait until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        host, port = self.address.split(":")
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            try:
                with socket.create_connection((host, int(port)), 1) as made:
                    made.sendall(b"srvr")
                    if made.recv(64):
                        return self
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"ZooKeeper does not answer:\n{(self.folder / 'server.log').read_text()[-3000:]}")

    def pause(self):
        """Let it answer nobody."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self):
        """Let it answer again."""
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self):
        """End it."""
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self._process.terminate()
            self._process.wait(READY_S)
