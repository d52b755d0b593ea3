"""YARN on loopback, for tests: a real ResourceManager and NodeManager, of one jar from Maven Central and those of PySpark."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pyspark

from funken.io.temporary import cache_folder
from funken.spark.java import ensure_java
from tests.support.java import BRIEF
from tests.support.kafka import free_port

VERSION = "3.5.0"
READY_S = 240
_ALL = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_JARS = {
    "org.apache.hadoop:hadoop-client-minicluster": VERSION,
    "org.bouncycastle:bcprov-jdk18on": "1.82",
    "org.bouncycastle:bcpkix-jdk18on": "1.82",
    "org.bouncycastle:bcutil-jdk18on": "1.82",
}
_OF_PYSPARK = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j", "log4j-")


def hadoop_jars():
    """The folder of the servers' jars, or why there is none."""
    folder = (cache_folder() or Path(tempfile.gettempdir(), "funken")) / "services" / f"hadoop-{VERSION}"
    if folder.is_dir():
        return folder, ""
    if shutil.which("mvn") is None:
        return (
            None,
            "Hadoop's jars are not there, and Maven to fetch them neither (Debian, Ubuntu: apt-get install maven)",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format(
            *name.split(":"), version, _ALL
        )
        for name, version in _JARS.items()
    )
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        Path(work, "pom.xml").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>funken</groupId>'
            "<artifactId>hadoop</artifactId><version>1</version><packaging>pom</packaging>"
            f"<dependencies>{wanted}</dependencies></project>"
        )
        run = ["mvn", "-q", "-B", "-C", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
        done = subprocess.run(run, cwd=work, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            return None, f"Maven cannot fetch Hadoop's jars: {(done.stdout + done.stderr).strip().splitlines()[:1]}"
        os.replace(Path(work, "libs"), folder)
    return folder, ""


def _xml(settings):
    lines = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items())
    return f"<configuration>{lines}</configuration>"


class YarnCluster:
    """One ResourceManager and one NodeManager; ``submit`` runs ``spark-submit`` there."""

    def __init__(self, folder, jars):
        self.folder, self.conf = Path(folder), Path(folder) / "conf"
        self.conf.mkdir()
        names = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        ports = {name: f"127.0.0.1:{free_port()}" for name in names}
        self._web = f"http://{ports['webapp.address']}/ws/v1/cluster"
        yarn = {f"yarn.resourcemanager.{name}": address for name, address in ports.items()} | {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.address": f"127.0.0.1:{free_port()}",
            "yarn.nodemanager.localizer.address": f"127.0.0.1:{free_port()}",
            "yarn.nodemanager.webapp.address": f"127.0.0.1:{free_port()}",
            "yarn.nodemanager.resource.memory-mb": 8192,
            "yarn.nodemanager.resource.cpu-vcores": 32,
            "yarn.scheduler.minimum-allocation-mb": 64,
            "yarn.scheduler.maximum-allocation-vcores": 32,
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.process-kill-wait.ms": 500,
            "yarn.nodemanager.local-dirs": self.folder / "local",
            "yarn.nodemanager.log-dirs": self.folder / "logs",
        }
        capacity = {
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": 100,
            "yarn.scheduler.capacity.maximum-am-resource-percent": 0.9,
        }
        (self.conf / "core-site.xml").write_text(_xml({"fs.defaultFS": "file:///"}))
        (self.conf / "yarn-site.xml").write_text(_xml(yarn))
        (self.conf / "capacity-scheduler.xml").write_text(_xml(capacity))
        self.home = Path(pyspark.__file__).parent
        own = [jar for jar in sorted((self.home / "jars").glob("*.jar")) if jar.name.startswith(_OF_PYSPARK)]
        self._path = os.pathsep.join(map(str, [self.conf, *sorted(Path(jars).glob("*.jar")), *own]))
        self.java_home = Path(ensure_java())
        self.environment = os.environ | {
            "JAVA_HOME": str(self.java_home), "HADOOP_CONF_DIR": str(self.conf), "YARN_CONF_DIR": str(self.conf),
            "SPARK_HOME": str(self.home), "SPARK_LOCAL_IP": "127.0.0.1", "HADOOP_USER_NAME": "root",
        }  # fmt: skip
        self._processes = []

    def start(self):
        """Start both, and wait until a node is there."""
        for main in ("resourcemanager.ResourceManager", "nodemanager.NodeManager"):
            command = [
                str(self.java_home / "bin" / "java"), "-Xmx384m", *BRIEF.split(),
                "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", self._path, f"org.apache.hadoop.yarn.server.{main}",
            ]  # fmt: skip
            with (self.folder / f"{main.split('.')[1]}.log").open("ab") as log:
                self._processes.append(
                    subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=self.environment)
                )
        end = time.monotonic() + READY_S
        while time.monotonic() < end and all(process.poll() is None for process in self._processes):
            if self._ask("metrics").get("clusterMetrics", {}).get("activeNodes"):
                return self
            time.sleep(0.3)
        logs = [path.read_text(errors="replace")[-2000:] for path in sorted(self.folder.glob("*.log"))]
        raise AssertionError("YARN has no node:\n" + "\n".join(logs))

    def _ask(self, path):
        try:
            with urllib.request.urlopen(f"{self._web}/{path}", timeout=2) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError):
            return {}

    def submit(self, mode, python, script, *arguments, more=(), timeout=540):
        """Run ``spark-submit``; return what it prints, and its exit code."""
        settings = {
            "spark.yarn.jars": f"local:{self.home}/jars/*",
            "spark.pyspark.python": python,
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
            "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executor.instances": 2,
            "spark.executor.cores": 2,
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": BRIEF,
            "spark.executor.extraJavaOptions": BRIEF,
            "spark.yarn.am.extraJavaOptions": BRIEF,
            "spark.yarn.submit.file.replication": "1",
            "spark.yarn.stagingDir": f"file://{self.folder}/staging",
        }
        command = [str(self.home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        own = {"PYSPARK_PYTHON": python, "SPARK_SUBMIT_OPTS": BRIEF}
        return subprocess.run(
            [*command, *more, str(script), *map(str, arguments)], env=self.environment | own,
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def logs(self):
        """What the containers have printed, the end of each file."""
        found = sorted((self.folder / "logs").rglob("std*"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in found)

    def stop(self):
        """End both: containers end in the first two seconds, and for ten more the node would wait for files to be deleted."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
