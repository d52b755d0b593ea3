"""What others on the machine see of a job: where its processes listen, and that no secret is in what they can read."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from funken.spark.java.runtime import ensure_java

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PROGRAM = """
import os
import sys
import urllib.request
from pathlib import Path
from pyspark import SparkContext
from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.spark.control import credentials

folder = Path(sys.argv[1])
made = []
new = credentials.Credentials.new
credentials.Credentials.new = staticmethod(lambda encrypted=False: made.append(new(encrypted)) or made[-1])
(folder / "token").touch(mode=0o600)
(folder / "token").write_text("a-token-of-some-length")
env = StreamExecutionEnvironment.get_execution_environment(Configuration({
    "execution.target": "continuous", "parallelism.default": 2, "security.ssl.internal.enabled": True,
    "s3.secret-key": "open-sesame", "rest.authentication.token-file": folder / "token",
    "execution.checkpointing.interval": "200 ms", "execution.checkpointing.dir": folder / "checkpoints",
}))
source = DataGeneratorSource(lambda n: n, None, 1000)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.key_by(lambda n: n % 7).sum().print()
client = env.execute_async("seen")
while client.snapshot().checkpoints.completed < 2:
    assert not client.snapshot().state.is_over


def family():
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    found = {os.getpid(), os.getppid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


sockets, lines = set(), []
for pid in family():
    try:
        lines.append(Path(f"/proc/{pid}/cmdline").read_text())
        sockets |= {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
    except OSError:
        pass
for table in ("tcp", "tcp6"):
    for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        parts = row.split()
        if parts[3] == "0A" and f"socket:[{parts[9]}]" in sockets:
            print("listens", parts[1].split(":")[0])
ui = SparkContext._active_spark_context.uiWebUrl
pages = ["environment/", "jobs/", "stages/", "executors/", "SQL/", "StreamingQuery/"]
shown = [urllib.request.urlopen(f"{ui}/{page}", timeout=20).read().decode() for page in pages]
client.cancel().result(timeout=60)
SparkContext._active_spark_context.stop()
events = [path.read_text() for path in (folder / "events").rglob("*") if path.is_file()]
assert sum(map(len, events)) > 10_000 and sum(map(len, shown)) > 10_000 and len(lines) > 3
credential = made[0]
secret = credential.certificate.decode().split("-----BEGIN PRIVATE KEY-----")[1].strip().splitlines()[0]
hidden = {"key": credential.key.hex(), "certificate": secret, "token": "a-token-of-some-length", "option": "open-sesame"}
for name, value in hidden.items():
    for where, texts in {"ps": lines, "Spark's UI": shown, "event log": events}.items():
        if any(value in text for text in texts):
            print(f"{name} is in {where}")
print("seen")
"""


def test_it_listens_on_loopback_and_shows_no_secret(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "events").mkdir()
    settings = {
        "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (tmp_path / "events").as_uri(), "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "true",
    }  # fmt: skip
    given = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    without = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run(
        [submit, "--master", "local[6]", *given, program, tmp_path],
        capture_output=True, text=True, timeout=280, check=False,
        env=without
        | {"JAVA_HOME": str(ensure_java()), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4000:]
    said = [
        line
        for line in done.stdout.splitlines()
        if line.startswith(("listens", "key", "certificate", "token", "option", "seen"))
    ]
    assert {line for line in said if line.startswith("listens")} <= {
        "listens 0100007F",
        "listens 0000000000000000FFFF00000100007F",
    }
    assert [line for line in said if not line.startswith("listens")] == ["seen"]
    assert "open-sesame" not in done.stderr and "a-token-of-some-length" not in done.stderr
