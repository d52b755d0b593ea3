"""Spark standalone over several hosts: the keyed job's throughput and latency beside one host, and the loss of a whole host.

``python benchmarks/cluster``; needs root on Linux: the hosts are network namespaces (``hosts.py``). A master and the driver are
on one host, workers on others. A host is killed (``--loss killed``), or cut off so that nobody is told (``cut``); printed is how
long it takes until new output is committed, and what was written is compared with what should be. Exit code 1 if records are
lost or doubled.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyspark
from hosts import SHARED, Network, unavailable
from job import KEYS

from funken.spark.java import ensure_java

JOB = Path(__file__).with_name("job.py")
BOUND = 300.0
RESTARTED = "is restarted in"
KEPT: list[Path] = []
"""Where logs are kept, if that is wanted."""
PORT = 7077
QUICK_LOSSES = {
    # what tells a host that is gone from one that is slow: Funken's heartbeats, and Spark's
    "heartbeat.interval": "1 s",
    "heartbeat.timeout": "6 s",
}
SPARK_LOSSES = "-Dspark.worker.timeout=6"
EXECUTORS = (
    "spark.executor.heartbeatInterval=1s spark.network.timeout=8s spark.network.timeoutInterval=2s "
    "spark.executor.memory=600m spark.cores.max=64"
)


class Standalone:
    """A master on the first host of a network, and a worker on each of the others."""

    def __init__(self, network: Network, workers: int, cores: int) -> None:
        self.network = network
        self.front = network.host()
        self.master = f"spark://{self.front.address}:{PORT}"
        home = str(Path(pyspark.__file__).parent)
        self.environment = {
            "SPARK_HOME": home,
            "JAVA_HOME": str(ensure_java()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_WORKER_DIR": "/tmp/work",
            "SPARK_LOCAL_DIRS": "/tmp",
            "SPARK_DAEMON_JAVA_OPTS": SPARK_LOSSES,
            "SPARK_NO_DAEMONIZE": "1",
        }
        self._class = f"{home}/bin/spark-class"
        deploy = "org.apache.spark.deploy"
        address = ["--host", self.front.address, "--port", str(PORT), "--webui-port", "18080"]
        self.front.start("master.log", self._class, f"{deploy}.master.Master", *address, **self.environment)
        self.wait("master.log", "I have been elected leader", 1)
        self.workers = [network.host() for _ in range(workers)]
        for host in self.workers:
            command = [f"{deploy}.worker.Worker", "--host", host.address, "--cores", str(cores), "--memory", "1g"]
            host.start(f"{host.name}.log", self._class, *command, self.master, **self.environment)
        self.wait("master.log", "Registering worker", workers)

    def wait(self, log: str, text: str, times: int) -> None:
        """Wait until a log has a text so often."""
        path = self.network.shared / log
        until(lambda: path.exists() and path.read_text(errors="replace").count(text) >= times, f"{text!r} in {path}")

    def driver(self, log: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a driver on the first host."""
        spark = ["--conf", f"spark.driver.host={self.front.address}"]
        for setting in EXECUTORS.split():
            spark += ["--conf", setting]
        command = [f"{self.environment['SPARK_HOME']}/bin/spark-submit", "--master", self.master, *spark, str(JOB)]
        return self.front.start(log, *command, *arguments, **self.environment)


def until(condition, what: str, bound: float = BOUND) -> float:
    """Wait for a condition; return how long it took (s)."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > bound:
            raise SystemExit(f"{what}: not within {bound:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - begin


def measured(workers: int, cores: int, rate: float, seconds: float) -> dict[str, object]:
    """Run the keyed job on so many hosts, at a rate and as fast as it goes."""
    found: dict[str, object] = {}
    with cluster(workers, cores) as made:
        for name, each in (("full", 0.0), ("paced", rate)):
            log = made.network.shared / f"{name}.log"
            driver = made.driver(
                log.name, "measure", str(each), str(seconds), "parallelism.default=2", "rest.enabled=false"
            )
            until(lambda one=driver: one.poll() is not None, f"the measurement ({log})")
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith('{"records')]
            if not lines:
                raise SystemExit(f"no result:\n{log.read_text(errors='replace')[-4000:]}")
            found[name] = json.loads(lines[-1])
    return found


def lost(workers: int, cores: int, rate: float, how: str) -> dict[str, object]:
    """Run the keyed job, lose a host that works for it, and compare what was written; return the figures."""
    count = int(rate * 90) // KEYS * KEYS
    with cluster(workers, cores) as made:
        out, log = made.network.shared / "out", made.network.shared / "job.log"
        options = {
            "parallelism.default": "2",
            "rest.enabled": "false",
            "execution.checkpointing.interval": "500 ms",
            "execution.checkpointing.dir": f"{SHARED}/checkpoints",
            "execution.job-id": "counts",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "20",
            "restart-strategy.fixed-delay.delay": "100 ms",
        } | QUICK_LOSSES
        pairs = [f"{key}={value}" for key, value in options.items()]
        driver = made.driver(log.name, "write", str(SHARED), str(count), str(rate), *pairs)

        def files() -> set[Path]:
            return {path for path in out.rglob("part-*") if path.is_file()}

        until(lambda: len(files()) >= 6 or driver.poll() is not None, "output")
        time.sleep(2)
        if driver.poll() is not None:
            raise SystemExit(f"the job has ended before a host was lost:\n{log.read_text(errors='replace')[-4000:]}")
        host = next(host for host in made.workers if any(busy(pid) for pid in host.pids()))
        before = files()
        begin = time.monotonic()
        host.kill() if how == "killed" else host.cut()
        until(lambda: restarted(log) or driver.poll() is not None, "the job notices")
        noticed = time.monotonic() - begin
        before |= files()  # what the attempt had completed
        until(lambda: files() - before or driver.poll() is not None, "new output")
        took = time.monotonic() - begin
        until(lambda: driver.poll() is not None, "the end of the job")
        found = Counter(line for path in files() for line in path.read_text().splitlines())
        expected = Counter(f"{key} {n}" for key in range(KEYS) for n in range(1, count // KEYS + 1))
        missing, more = sum((expected - found).values()), sum((found - expected).values())
        result = {
            "hosts": workers, "loss": how, "noticed_s": round(noticed, 1), "new_output_s": round(took, 1), "records": count,
            "lost": missing, "doubled": more, "exit": driver.returncode,
            "restarts": log.read_text(errors="replace").count(RESTARTED),
        }  # fmt: skip
        if missing or more or driver.returncode:
            print(log.read_text(errors="replace")[-6000:], file=sys.stderr)
    return result


def restarted(log: Path) -> bool:
    """Whether the job has said that it is restarted."""
    return RESTARTED in log.read_text(errors="replace")


def busy(pid: int) -> bool:
    """Whether a process is a Python worker."""
    with contextlib.suppress(OSError):
        return b"daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@contextlib.contextmanager
def cluster(workers: int, cores: int):
    """Start a cluster, and remove it."""
    with tempfile.TemporaryDirectory(prefix="funken-cluster-", ignore_cleanup_errors=True) as folder:
        network = Network(Path(folder))
        try:
            yield Standalone(network, workers, cores)
        except BaseException:
            for log in sorted(network.shared.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
            raise
        finally:
            network.close()
            if KEPT:
                shutil.copytree(
                    network.shared, KEPT[0], ignore=shutil.ignore_patterns("out", "checkpoints"), dirs_exist_ok=True
                )


def main() -> None:
    """Measure, lose hosts, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=3, help="with workers; the driver's comes on top")
    parser.add_argument("--seconds", type=float, default=15.0, help="of a measurement; 0: none")
    parser.add_argument("--rate", type=float, default=2_000.0, help="records per second")
    parser.add_argument("--loss", default="killed,cut", help="how hosts are lost, with commas between")
    parser.add_argument("--json", default="")
    parser.add_argument("--logs", type=Path, help="a folder in which the logs of the last cluster are kept")
    args = parser.parse_args()
    KEPT.extend(filter(None, [args.logs]))
    if why := unavailable():
        raise SystemExit(f"no network namespaces can be made here: {why}. This needs root on Linux.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts are removed then, too
    os.environ.pop("PYTHONPATH", None)
    results: list[dict[str, object]] = []
    if args.seconds:
        for hosts, cores in ((1, 2 * args.hosts), (args.hosts, 2)):
            found = {"hosts": hosts} | measured(hosts, cores, args.rate, args.seconds)
            print(json.dumps(found), flush=True)
            results.append(found)
    losses = [lost(args.hosts, 2, args.rate, how) for how in filter(None, args.loss.split(","))]
    for each in losses:
        print(json.dumps(each), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(results + losses, indent=2) + "\n")
    sys.exit(any(each["lost"] or each["doubled"] or each["exit"] for each in losses))


if __name__ == "__main__":
    main()
