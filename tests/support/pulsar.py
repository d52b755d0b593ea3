"""A real Pulsar broker on loopback, for tests: its jars come from Maven Central, once, and its data is in a folder."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

from funken.io.temporary import cache_folder
from funken.spark.java import ensure_java
from tests.support.kafka import free_port

VERSION = "4.0.0"
READY_S = 240
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>funken</groupId><artifactId>pulsar</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.pulsar</groupId><artifactId>pulsar-broker</artifactId><version>{version}</version>
<exclusions><exclusion><groupId>org.apache.pulsar</groupId><artifactId>jetcd-core-shaded</artifactId></exclusion>
<exclusion><groupId>io.etcd</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>2.0.13</version></dependency>
</dependencies></project>"""


def pulsar_jars():
    """The folder of the broker's jars, or why there is none."""
    home = cache_folder() or Path(tempfile.gettempdir(), "funken")
    folder = home / "services" / f"pulsar-{VERSION}"
    if folder.is_dir():
        return folder, ""
    if shutil.which("mvn") is None:
        return (
            None,
            "Pulsar's jars are not there, and Maven to fetch them neither (Debian, Ubuntu: apt-get install maven)",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        Path(work, "pom.xml").write_text(POM.format(version=VERSION))
        run = [
            "mvn",
            "-q",
            "-B",
            "-C",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=libs",
        ]
        done = subprocess.run(run, cwd=work, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            return None, f"Maven cannot fetch Pulsar's jars: {(done.stdout + done.stderr).strip().splitlines()[:1]}"
        os.replace(Path(work, "libs"), folder)
    return folder, ""


OPENED = (
    "java.base/java.lang", "java.base/java.nio", "java.base/java.util.zip", "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform", "java.base/sun.net", "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)  # fmt: skip
NAMESPACES = ("plain", "deduplicated")


class PulsarBroker:
    """A broker with its storage in one process, on free ports; ``stop`` and ``kill`` end it by its process id."""

    def __init__(self, folder, libraries):
        self.folder, self.port, self.web = Path(folder), free_port(), free_port()
        self.url, self.admin_url = f"pulsar://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.web}"
        settings = {
            "brokerServicePort": self.port,
            "webServicePort": self.web,
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
            "clusterName": "standalone",
            "managedLedgerDefaultEnsembleSize": 1,
            "managedLedgerDefaultWriteQuorum": 1,
            "managedLedgerDefaultAckQuorum": 1,
            "loadBalancerEnabled": "false",
            "allowAutoTopicCreation": "false",
        }
        (self.folder / "standalone.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        java = Path(ensure_java(), "bin", "java")
        opened = [part for each in OPENED for part in ("--add-opens", f"{each}=ALL-UNNAMED")]
        self._command = [
            str(java), "-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            *opened, "-Dio.netty.tryReflectionSetAccessible=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", f"{libraries}/*", "org.apache.pulsar.PulsarStandaloneStarter", "-c", str(self.folder / "standalone.conf"),
            "-nfw", "-nss", "-a", "127.0.0.1", "--metadata-dir", str(self.folder / "metadata"),
            "--bookkeeper-dir", str(self.folder / "bookies"), "--bookkeeper-port", str(free_port()),
        ]  # fmt: skip
        self._process = None

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + READY_S
        while True:
            try:
                if "public/default" in self.ask("GET", "namespaces/public"):
                    break
            except (OSError, urllib.error.URLError):
                pass
            log = (self.folder / "log").read_text(errors="replace")
            assert self._process.poll() is None and time.monotonic() < deadline, log[-3000:]
            time.sleep(0.1)
        for namespace in NAMESPACES:
            if f"public/{namespace}" not in self.ask("GET", "namespaces/public"):
                self.ask("PUT", f"namespaces/public/{namespace}")
        self.ask("POST", "namespaces/public/deduplicated/deduplication", True)
        return self

    def ask(self, method, path, body=None):
        """Ask the REST API."""
        request = urllib.request.Request(
            f"{self.admin_url}/admin/v2/{path}", None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"}, method=method,
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def topic(self, partitions=0, namespace="plain", prefix="t"):
        """Make a topic with a name of its own; 0 partitions: one that is not partitioned."""
        place = f"public/{namespace}/{prefix}_{uuid.uuid4().hex[:8]}"
        if partitions:
            self.ask("PUT", f"persistent/{place}/partitions", partitions)
        else:
            self.ask("PUT", f"persistent/{place}")
        return f"persistent://{place}"

    def kill(self):
        """End it at once: it recovers at the next start."""
        self._process.kill()
        self._process.wait(60)

    def stop(self):
        """End it by its process id."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
