"""A real HDFS on loopback, for tests: a name node and a data node; one jar from Maven Central, the others are PySpark's."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
from pathlib import Path

import pyspark

from funken.io.temporary import cache_folder
from funken.spark.java import ensure_java
from funken.timing.clock import SystemClock
from tests.support.kafka import free_port

READY_S = 240
_JARS = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j", "log4j")
_MAINS = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
_PAUSE = threading.Event()


def jar():
    """The jar of the servers, of the version of PySpark's Hadoop, or why there is none."""
    client = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"), None)
    if client is None:
        return None, "this PySpark has no Hadoop client"
    version = client.stem.removeprefix("hadoop-client-api-")
    folder = (cache_folder() or Path(tempfile.gettempdir(), "funken")) / "services" / f"hdfs-{version}"
    found = folder / f"hadoop-client-minicluster-{version}.jar"
    if found.exists():
        return found, ""
    if shutil.which("mvn") is None:
        return None, "HDFS's jar is not there, and Maven to fetch it neither (Debian, Ubuntu: apt-get install maven)"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        artifact = f"org.apache.hadoop:hadoop-client-minicluster:{version}"
        run = ["mvn", "-q", "-B", "-C", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={work}/libs"]
        done = subprocess.run(run, cwd=work, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            return None, f"Maven cannot fetch HDFS's jar: {(done.stdout + done.stderr).strip().splitlines()[:1]}"
        os.replace(Path(work, "libs"), folder)
    return found, ""


class HdfsCluster:
    """A name node and a data node on free ports, with their data in a folder; ``stop`` ends them by their process ids."""

    def __init__(self, folder, servers):
        self.folder, self.port, self._web = Path(folder), free_port(), free_port()
        self.uri = f"hdfs://127.0.0.1:{self.port}"
        self._conf("core-site.xml", {"fs.defaultFS": self.uri, "hadoop.tmp.dir": self.folder / "data"})
        self._conf(
            "hdfs-site.xml",
            {
                "dfs.replication": 1,
                "dfs.permissions.enabled": "false",
                "dfs.namenode.rpc-address": f"127.0.0.1:{self.port}",
                "dfs.namenode.http-address": f"127.0.0.1:{self._web}",
                "dfs.datanode.address": f"127.0.0.1:{free_port()}",
                "dfs.datanode.http.address": f"127.0.0.1:{free_port()}",
                "dfs.datanode.ipc.address": f"127.0.0.1:{free_port()}",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.namenode.safemode.extension": 0,
            },
        )
        jars = Path(pyspark.__file__).parent / "jars"
        path = [str(self.folder / "conf"), str(servers)]
        path += [str(each) for each in sorted(jars.glob("*.jar")) if each.name.startswith(_JARS)]
        self._command = [
            str(Path(ensure_java(), "bin", "java")), "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Dhadoop.log.dir={self.folder / 'logs'}", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", ":".join(path),
        ]  # fmt: skip
        self._processes = {}

    def _conf(self, name, properties):
        (self.folder / "conf").mkdir(exist_ok=True)
        text = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>" for key, value in properties.items()
        )
        (self.folder / "conf" / name).write_text(f"<configuration>{text}</configuration>")

    def start(self):
        """Format the file system, start both, and wait until the name node knows the data node."""
        format_ = [*self._command, _MAINS["namenode"], "-format", "-nonInteractive"]
        subprocess.run(format_, check=True, capture_output=True, timeout=READY_S)
        for name, main in _MAINS.items():
            with (self.folder / f"{name}.log").open("ab") as log:
                self._processes[name] = subprocess.Popen([*self._command, main], stdout=log, stderr=subprocess.STDOUT)
        clock = SystemClock()
        end = clock.monotonic() + READY_S
        while clock.monotonic() < end and all(each.poll() is None for each in self._processes.values()):
            if self._data_nodes() == 1:
                return self
            _PAUSE.wait(0.2)
        logs = "".join((self.folder / f"{name}.log").read_text(errors="replace")[-1500:] for name in _MAINS)
        raise RuntimeError(f"HDFS is not ready: {logs}")

    def _data_nodes(self):
        query = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web}/{query}", timeout=5) as answer:
                beans = json.load(answer)["beans"]
        except (OSError, ValueError):
            return 0
        return beans[0].get("NumLiveDataNodes", 0) if beans else 0

    def stop(self):
        """End both."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)
