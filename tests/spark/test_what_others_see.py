"""What others on the machine see of a job: where its processes listen, and that no secret is in what they can read."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from funken.spark.java import ensure_java
from tests.support.java import BRIEF

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PROGRAM = """
import contextlib
import os
import socket
import sys
import time
import urllib.request
from pathlib import Path
from pyspark import SparkContext
from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.spark.control import tls as credentials

folder = Path(sys.argv[1])
made = []
new = credentials.Credentials.new
credentials.Credentials.new = staticmethod(lambda encrypted=False: made.append(new(encrypted)) or made[-1])
(folder / "token").touch(mode=0o600)
(folder / "token").write_text("a-token-of-some-length")
env = StreamExecutionEnvironment.get_execution_environment(Configuration({
    "execution.target": "continuous", "parallelism.default": 2, "security.ssl.internal.enabled": sys.argv[2] == "encrypted",
    "execution.warm-session": False,
    "s3.secret-key": "open-sesame", "rest.authentication.token-file": folder / "token",
    "execution.checkpointing.interval": "200 ms", "execution.checkpointing.dir": folder / "checkpoints",
}))
source = DataGeneratorSource(lambda n: n, None, 1000)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
mark = f"marmalade-{os.getpid()}-"  # other tests may run on this machine
words = numbers.map(lambda n: (f"{mark}{n % 7}", 1)).key_by(lambda pair: pair[0])
words.reduce(lambda one, other: (one[0], one[1] + other[1])).print()
client = env.execute_async("seen")
while client.snapshot().checkpoints.completed < 2:
    assert not client.snapshot().state.is_terminal_state()
    time.sleep(0.1)


def say(*words):
    # at once, on a line of its own: the job prints records meanwhile
    sys.stdout.write("\\n" + " ".join(words) + "\\n")


def wire():
    # what crosses loopback in two seconds, headers included; nothing where one may not listen
    try:
        listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        listener.bind(("lo", 0))
    except (AttributeError, PermissionError):
        return b""
    with listener:
        listener.settimeout(0.2)
        found, end = bytearray(), time.monotonic() + 2
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                found += listener.recv(1 << 17)
        return bytes(found)


if heard := wire():
    say("records are", "readable" if mark.encode() in heard else "hidden" if len(heard) > 20_000 else "not sent")


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
            say("listens", parts[1].split(":")[0])
ui = SparkContext._active_spark_context.uiWebUrl
pages = ["environment/", "jobs/", "stages/", "executors/", "SQL/", "StreamingQuery/"]
shown = [urllib.request.urlopen(f"{ui}/{page}", timeout=20).read().decode() for page in pages if ui]
client.cancel().result(timeout=60)
SparkContext._active_spark_context.stop()
events = [path.read_text() for path in (folder / "events").rglob("*") if path.is_file()]
assert len(lines) > 3
if ui:
    assert sum(map(len, events)) > 10_000 and sum(map(len, shown)) > 10_000
credential = made[0]
secret = credential.certificate.decode().partition("-----BEGIN PRIVATE KEY-----")[2].strip()[:60] or "(none)"
hidden = {"key": credential.key.hex(), "certificate": secret, "token": "a-token-of-some-length", "option": "open-sesame"}
for name, value in hidden.items():
    for where, texts in {"ps": lines, "Spark's UI": shown, "event log": events}.items():
        if any(value in text for text in texts):
            say(f"{name} is in {where}")
say("seen")
"""


SUBMITTED = {
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false",
    "spark.authenticate": "true", "spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "true",
}  # fmt: skip
ANY, SUBTASKS = "listens 00000000000000000000000000000000", 2
LOOPBACK = {
    "listens 0100007F",
    "listens 0000000000000000FFFF00000100007F",
    "listens 00000000000000000000000001000000",  # ::1
}
SAID = ("listens", "records", "key", "certificate", "token", "option", "seen")


def may_listen():
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()
    except (AttributeError, PermissionError):
        return False
    return True


@pytest.mark.parametrize(("how", "encryption"), [("own", "off"), ("own", "encrypted"), ("submitted", "encrypted")])
def test_it_shows_no_secret_and_listens_on_loopback_but_for_sparks_shuffle(tmp_path, how, encryption):
    """In a session that Funken starts, and in one with Spark's UI and event log, whose UI has to be told its address."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "events").mkdir()
    command, environment = [sys.executable, "-W", "ignore"], {}
    if how == "submitted":
        settings = SUBMITTED | {"spark.eventLog.dir": (tmp_path / "events").as_uri()}
        command = [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[6]"]
        command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        environment = {"JAVA_HOME": str(ensure_java()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        environment["SPARK_SUBMIT_OPTS"] = BRIEF
    without = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run(
        [*command, program, tmp_path, encryption], capture_output=True, text=True, timeout=280, check=False,
        env=without | environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    said = [line for line in done.stdout.splitlines() if line.startswith(SAID)]
    listening = {line for line in said if line.startswith("listens")}
    # Spark has no option for the addresses of its streaming shuffle, a server per task: that is why what crosses it is sealed.
    assert listening and listening <= LOOPBACK | {ANY}
    assert sum(line == ANY for line in said) <= SUBTASKS
    records = ["records are " + ("hidden" if encryption == "encrypted" else "readable")] if may_listen() else []
    assert [line for line in said if line not in listening] == [*records, "seen"]
    assert "open-sesame" not in done.stderr and "a-token-of-some-length" not in done.stderr
