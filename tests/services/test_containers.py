"""The manifests of deploy/ as they are, their pods as containers: drivers, executors, TLS, a token, a lost container."""

import json
import os
import socket
import ssl
import subprocess
import time
from collections import Counter
from copy import deepcopy
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import urlopen

import pyspark
import pytest

from funken.spark.java import ensure_java
from tests.support.files import written
from tests.support.kubelet import Kubelet, container_tool
from tests.test_deployments import DEPLOY, container, pods, rendered

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

IMAGE = "funken:0.1.0"
COUNT, RATE = 70_000, 1000
TOKEN = "a-token-of-some-length"
BOUND = 240
PROGRAM = f"""
from funken import *

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(int, {COUNT}, {RATE})
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
sink = FileSink.for_row_format("/storage/out", Encoder.simple_string_encoder())
sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
pairs = numbers.map(lambda n: (n % 10, 1)).uid("pairs").key_by(lambda pair: pair[0])
sums = pairs.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("sums")
sums.map(lambda pair: f"{{pair[0]}} {{pair[1]}}").uid("lines").sink_to(sink).uid("files")
env.execute("orders")
"""
NAMES = [f"orders-{number}.orders.funken.svc" for number in range(2)]


def until(condition, what, pods=()):
    """Wait for a condition; fail with the logs if it does not come."""
    end, last = time.monotonic() + BOUND, None
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except (OSError, ValueError, KeyError) as error:
            last = error
        time.sleep(0.2)
    pytest.fail(
        f"{what}: not within {BOUND} s ({last})\n" + "\n".join(f"{pod.name}:\n{pod.log()[-4000:]}" for pod in pods)
    )


@pytest.fixture
def volumes(tmp_path):
    """The volumes that job.yaml wants: a program, a token, a certificate, a storage."""
    found = {name: tmp_path / name for name in ("orders", "funken-rest", "funken-tls", "funken-storage")}
    for path in (tmp_path, *found.values()):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    (found["orders"] / "orders.py").write_text(PROGRAM)
    (found["funken-rest"] / "token").write_text(TOKEN)
    tls = found["funken-tls"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tls / "tls.key", "-out", tls / "tls.crt",
         "-days", "1", "-subj", "/CN=funken", "-addext", "subjectAltName=DNS:*.orders.funken.svc,DNS:funken-service.funken.svc"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return found


@pytest.fixture
def kubelet(tmp_path, volumes):
    tool, missing = container_tool(IMAGE)
    if tool is None:
        pytest.skip(missing)
    made = Kubelet(tool, tmp_path, volumes)
    try:
        yield made.start()
    finally:
        made.stop()


def smaller(words, kubelet):
    """The arguments of the driver, with the API of the test, and tasks for a small machine."""
    changes = {
        "k8s://https://kubernetes.default.svc": f"k8s://{kubelet.api}",
        "spark.executor.instances=2": "spark.executor.instances=1",
        "spark.executor.memory=2g": "spark.executor.memory=768m",
        "-Dparallelism.default=4": "-Dparallelism.default=2",
        "-Dexecution.checkpointing.interval=5s": "-Dexecution.checkpointing.interval=1s",
    }
    assert set(changes) <= set(words)
    place = words.index("/opt/funken/main.py")
    asks = ["spark.kubernetes.executor.enableApiWatcher=false", "spark.kubernetes.executor.apiPollingInterval=1s"]
    more = [word for ask in asks for word in ("--conf", ask)]
    return [changes.get(word, word) for word in [*words[:place], *more, *words[place:]]]


class Driver:
    """One pod of the stateful set."""

    def __init__(self, kubelet, manifest, number, addresses, certificate):
        template = manifest["spec"]["template"]
        container(manifest)["args"] = smaller(container(manifest)["args"], kubelet)
        description = {
            "apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
            "metadata": template["metadata"] | {"name": f"orders-{number}", "namespace": "funken", "uid": f"u{number}"},
        }  # fmt: skip
        self.name = NAMES[number]
        self._certificate = certificate
        self.pod = kubelet.run(description, addresses[number], dict(zip(NAMES, addresses, strict=True)))

    def get(self, path, token=TOKEN):
        """Ask its REST server by its name."""
        context = ssl.create_default_context(cafile=self._certificate)
        connection = HTTPConnection(self.name, 8081)
        with (
            socket.create_connection((self.pod.address, 8081), timeout=5) as raw,
            context.wrap_socket(raw, server_hostname=self.name) as stream,
        ):
            connection.sock = stream
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            with connection.getresponse() as answer:
                return answer.status, answer.read()

    def job(self):
        return json.loads(self.get("/jobs/overview")[1])["jobs"][0]

    def checkpoints(self):
        return json.loads(self.get(f"/jobs/{self.job()['jid']}/checkpoints")[1])["counts"]["completed"]

    def metrics(self):
        with urlopen(f"http://{self.pod.address}:9249/metrics", timeout=5) as answer:
            return answer.read().decode()


def test_a_standby_takes_over_when_the_drivers_container_is_killed(kubelet, volumes, tmp_path):
    found = rendered(DEPLOY / "kubernetes" / "overlays" / "tls")
    for each in found:
        if each["kind"] == "ConfigMap":
            kubelet.configure(each)
    addresses = [kubelet.address() for _ in NAMES]
    certificate = volumes["funken-tls"] / "tls.crt"
    drivers = [Driver(kubelet, deepcopy(pods(found)["orders"]), n, addresses, certificate) for n in (0, 1)]
    every = [driver.pod for driver in drivers]

    for driver in drivers:
        until(lambda one=driver: one.get("/", token=None)[0] == 200, f"the probe of {driver.name}", every)
    until(
        lambda: sorted(each.job()["state"] for each in drivers) == ["CREATED", "RUNNING"], "one leads, one waits", every
    )
    leader, standby = sorted(drivers, key=lambda each: each.job()["state"] != "RUNNING")
    assert leader.get("/jobs", token=None)[0] == 401
    until(lambda: leader.checkpoints() >= 2, "checkpoints", every)
    until(lambda: "warm up orders" in standby.pod.log(), "the standby is warm", every)
    scraped = leader.metrics()
    assert "flink_jobmanager_job_numberOfCompletedCheckpoints{" in scraped
    assert "flink_taskmanager_job_task_operator_numRecordsOut{" in scraped
    executors = [pod for pod in kubelet.pods.values() if pod.name not in ("orders-0", "orders-1")]
    assert len(executors) >= 2, "each driver has executors of its own"
    ran = json.loads(leader.get("/taskmanagers")[1])["taskmanagers"]
    assert len(ran) == 1, "all tasks of the leader run on its executor"

    begun = time.monotonic()
    leader.pod.kill()
    kubelet.collect(leader.pod.name)
    until(lambda: standby.job()["state"] == "RUNNING", "the standby leads", [standby.pod])
    led = time.monotonic() - begun
    until(lambda: standby.checkpoints() >= 1, "it completes a checkpoint", [standby.pod])
    resumed = time.monotonic() - begun

    until(lambda: standby.pod.exit_code() is not None, "the job ends", [standby.pod])
    assert standby.pod.exit_code() == 0, standby.pod.log()[-4000:]
    assert written(volumes["funken-storage"]) == Counter(
        f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1)
    )
    assert leader.pod.exit_code() == 137
    assert led <= resumed < BOUND, (led, resumed)
    assert os.stat(volumes["funken-storage"] / "out").st_uid == 185


EXECUTOR_OF_ALL = """
apiVersion: v1
kind: Pod
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 185, fsGroup: 185}
  containers: [{name: one}]
"""


def test_spark_submit_runs_a_driver_and_its_executors_as_pods_in_cluster_mode(kubelet, volumes, tmp_path):
    (tmp_path / "pod.yaml").write_text(EXECUTOR_OF_ALL)
    storage = volumes["funken-storage"]
    (storage / "orders.py").write_text(PROGRAM.replace(str(COUNT), "5000"))
    confs = {
        "spark.kubernetes.namespace": "funken", "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.driver.master": kubelet.api, "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.executor.enableApiWatcher": "false", "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.executor.instances": "1", "spark.executor.cores": "4", "spark.executor.memory": "768m",
        "spark.pyspark.python": "python",
    }  # fmt: skip
    for role in ("driver", "executor"):
        claim = f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.storage"
        confs |= {
            f"{claim}.options.claimName": "funken-storage", f"{claim}.mount.path": "/storage",
            f"spark.kubernetes.{role}.podTemplateFile": str(tmp_path / "pod.yaml"),
        }  # fmt: skip
    options = {
        "parallelism.default": 2, "execution.checkpointing.interval": "500ms",
        "execution.checkpointing.dir": "/storage/checkpoints",
    }  # fmt: skip
    submit = [
        Path(pyspark.__file__).parent / "bin" / "spark-submit",
        "--master",
        f"k8s://{kubelet.local}",
        "--deploy-mode",
        "cluster",
    ]
    submit += [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
    submit += ["local:///opt/funken/main.py", "run", *(f"-D{name}={value}" for name, value in options.items())]
    environment = os.environ | {"JAVA_HOME": str(ensure_java()), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [*submit, "/storage/orders.py"], env=environment, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]

    (driver,) = [
        pod for pod in kubelet.pods.values() if pod.description["metadata"]["labels"]["spark-role"] == "driver"
    ]
    until(lambda: driver.started.is_set() or driver.error, "the driver starts")
    assert not driver.error
    until(lambda: driver.exit_code() is not None, "the job ends", kubelet.pods.values())
    assert driver.exit_code() == 0, driver.log()[-6000:]
    assert written(storage) == Counter(f"{key} {n}" for key in range(10) for n in range(1, 501))
    assert sum(request == "POST /api/v1/namespaces/funken/pods" for request in kubelet.requests) == 2
