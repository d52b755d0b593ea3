"""How the program itself ends: Ctrl-C, an exit with jobs still running, a driver or a JVM that is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BOUND = 120

PROGRAM = """
import os, pathlib, sys, time
from funken import *

folder = pathlib.Path(os.environ["PROGRAM_FOLDER"])

def environment(mode):
    conf = Configuration({"execution.target": mode, "parallelism.default": 2, "task.cancellation.timeout": "300 ms"})
    return StreamExecutionEnvironment.get_execution_environment(conf)

def job(mode, block=False):
    env = environment(mode)
    source = NumberSequenceSource(0, 10**12) if mode == "batch" else DataGeneratorSource(lambda index: index)
    def touch(value):
        place = folder / f"{'blocked' if block else mode}-{os.getpid()}"
        if not place.exists():
            place.touch()
        if block:
            time.sleep(3600)
        return value
    env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").map(touch).key_by(lambda n: n % 10).sum()
    return env
"""

INTERRUPTED = (
    PROGRAM
    + """
for mode in ("batch", "continuous"):
    try:
        job(mode).execute()
    except KeyboardInterrupt:
        print("stopped", mode, flush=True)
with environment("continuous").from_collection([3]).map(lambda n: n + 1).execute_and_collect() as records:
    print("usable", list(records), flush=True)
try:
    job("continuous", block=True).execute()
except KeyboardInterrupt:
    print("stopped again", flush=True)
clients = [job(mode).execute_async() for mode in ("batch", "continuous")]
while not all(client.metrics() for client in clients):
    time.sleep(0.02)
print("the end", flush=True)
"""
)

SEVERAL = (
    PROGRAM
    + """
clients = [job("continuous").execute_async(), job("batch").execute_async(), job("continuous", block=True).execute_async()]
while len({path.name.split("-")[0] for path in folder.iterdir()}) < 3:
    time.sleep(0.02)
print("running", flush=True)
time.sleep(3600)
"""
)

ABANDONED = (
    PROGRAM
    + """
job("continuous").execute()
"""
)

FROZEN = ABANDONED.replace(
    '"parallelism.default"', '"heartbeat.interval": 400, "heartbeat.timeout": 2000, "parallelism.default"'
)


class Program:
    """A script in a process of its own, with a folder for what it tells and one for what it should clean up."""

    def __init__(self, source, tmp_path, alive, **environment):
        self.alive = alive
        self.told, self.temporary = tmp_path / "told", tmp_path / "temporary"
        self.told.mkdir()
        self.temporary.mkdir()
        (tmp_path / "program.py").write_text(source)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", tmp_path / "program.py"],
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(self.temporary)}
            | {"PROGRAM_FOLDER": str(self.told)}
            | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that all of it can be ended if a test fails
        )

    def pids(self, mode):
        return [int(path.name.split("-")[1]) for path in self.told.glob(f"{mode}-*")]

    def wait_for_worker(self, mode):
        limit = time.monotonic() + BOUND
        while not self.pids(mode):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < limit, f"no {mode} worker within {BOUND} s"
            time.sleep(0.02)

    def end(self):
        out, err = self.process.communicate(timeout=BOUND)
        return out.splitlines(), err

    def leaves_nothing(self):
        self.workers_end()
        assert [path.name for path in self.temporary.iterdir() if path.name.startswith("funken")] == []

    def workers_end(self):
        limit = time.monotonic() + 20
        while left := [path.name for path in self.told.iterdir() if self.alive(int(path.name.split("-")[1]))]:
            assert time.monotonic() < limit, f"workers are left: {left}"
            time.sleep(0.05)


@pytest.fixture
def program(tmp_path, alive):
    started = []

    def start(source, **environment):
        started.append(Program(source, tmp_path, alive, **environment))
        return started[-1]

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.communicate()


def test_ctrl_c_stops_a_job_and_the_end_of_the_program_those_that_still_run(program):
    ran = program(INTERRUPTED)
    ran.wait_for_worker("batch")
    ran.process.send_signal(signal.SIGINT)
    ran.wait_for_worker("continuous")
    ran.process.send_signal(signal.SIGINT)
    ran.wait_for_worker("blocked")
    ran.process.send_signal(signal.SIGINT)

    out, err = ran.end()

    assert out == ["stopped batch", "stopped continuous", "usable [4]", "stopped again", "the end"], err
    assert ran.process.returncode == 0
    ran.leaves_nothing()


def test_ctrl_c_while_spark_starts(program):
    ran = program(ABANDONED)
    limit = time.monotonic() + BOUND
    while not any("java" in command(pid) for pid in descendants(ran.process.pid)):
        assert time.monotonic() < limit, "no JVM"
        time.sleep(0.02)
    ran.process.send_signal(signal.SIGINT)
    sent = time.monotonic()

    _, err = ran.end()

    assert time.monotonic() - sent < 10, "0.6 s on a busy machine; it was 21 s when the JVM was waited for"
    assert "KeyboardInterrupt" in err
    assert ran.process.returncode != 0
    ran.leaves_nothing()


def test_a_driver_that_is_killed_takes_its_workers_along(program):
    ran = program(SEVERAL)
    assert ran.process.stdout.readline() == "running\n"

    ran.process.kill()
    ran.process.communicate()

    ran.workers_end()


def test_a_driver_that_is_stopped_is_given_up_by_its_workers(program):
    ran = program(FROZEN)
    ran.wait_for_worker("continuous")

    ran.process.send_signal(signal.SIGSTOP)
    ran.workers_end()
    ran.process.send_signal(signal.SIGCONT)

    _, err = ran.end()
    assert "ended without a word" in err, err
    ran.leaves_nothing()


def test_a_jvm_that_is_killed(program):
    ran = program(ABANDONED)
    ran.wait_for_worker("continuous")
    java = next(pid for pid in descendants(ran.process.pid) if "java" in command(pid))

    os.kill(java, signal.SIGKILL)

    _, err = ran.end()
    assert "the Spark session ended under the job" in err or "ended without a word" in err, err
    ran.leaves_nothing()


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0].rsplit("/", 1)[-1]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descendants(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = int(path.parent.name), path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(rest[1]) == pid:
            found += [number, *descendants(number)]
    return found
