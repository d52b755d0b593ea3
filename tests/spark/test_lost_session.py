"""A session that ends under its job, or between two: what Funken started it starts again, and nothing is lost or doubled."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.recovery.programs import EXPECTED, JOB
from tests.spark.conftest import alive, wait_until
from tests.support.files import written

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BOUND = 240

PROGRAM = (
    JOB
    + """
import os, signal, threading, time
from pyspark import SparkContext
from pyspark.sql import SparkSession
from funken.errors import SessionStopped

class Told(MapFunction):
    def open(self, runtime_context):
        (folder / "pids").mkdir(exist_ok=True)
        (folder / "pids" / f"{runtime_context.get_attempt_number()}-{os.getpid()}").touch()

    def map(self, value):
        return value

def environment(**options):
    return StreamExecutionEnvironment.get_execution_environment(Configuration({
        "execution.target": "continuous",
        "parallelism.default": 2,
        "execution.job-id": "orders",
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "restart-strategy.exponential-delay.initial-backoff": "100 ms",
        "task.cancellation.timeout": "1 s",
    } | options))

def java():
    return SparkContext._gateway.proc

def kill_java():
    process = java()
    process.kill()
    process.wait()

def stop_session():
    SparkSession.builder.getOrCreate().stop()

def when_there_is_output(disaster):
    def run():
        while not any(path for path in (folder / "out").rglob("part-*") if not path.name.startswith(".")):
            time.sleep(0.02)
        disaster()
    threading.Thread(target=run, daemon=True).start()

def run(env, disaster=None):
    if disaster is not None:
        when_there_is_output(disaster)
    env.from_collection([1, 2]).uid("told").map(Told()).for_each(lambda value: None)
    client = program(env).execute_async()
    client.get_job_execution_result().result()
    print("restarts", client.restarts, flush=True)

def usable():
    with environment(**{"execution.job-id": "other"}).from_collection([3]).map(lambda n: n + 1).execute_and_collect() as records:
        print("usable", list(records), flush=True)
"""
)

KILLED = """
usable()
kill_java()
usable()
run(environment(), kill_java)
"""

STOPPED = """
usable()
before = SparkSession.builder.getOrCreate()
run(environment(), stop_session)
before.stop()  # once more: PySpark forgets the session that has taken its place
usable()
"""

GIVEN = """
from funken.spark.session import STATIC

def session():
    builder = SparkSession.builder.master("local[8]").config("spark.ui.enabled", "false")
    for key, value in STATIC.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()

def given(spark):
    return StreamExecutionEnvironment.get_execution_environment(environment().get_configuration(), spark)

for disaster in (kill_java, stop_session):
    spark = session()
    try:
        run(given(spark), disaster)
    except SessionStopped as error:
        print("stopped:", str(error).split(":")[0], flush=True)
    try:
        run(given(spark))
    except SessionStopped as error:
        print("still stopped:", str(error).split(":")[0], flush=True)
run(given(session()))
"""


@pytest.fixture
def temporary():
    """A folder with a short path, as sockets need one."""
    folder = Path(tempfile.mkdtemp(prefix="lost-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def ran(tmp_path, temporary):
    """Run a program to its end; return the lines that it printed."""
    processes = []

    def run(source):
        (tmp_path / "program.py").write_text(PROGRAM + source)
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", tmp_path / "program.py", tmp_path],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        try:
            out, err = process.communicate(timeout=BOUND)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"it has not ended: {process.communicate()}")
        assert process.returncode == 0, err
        return out.splitlines(), err

    yield run
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def nothing_is_left(folder, temporary):
    pids = [int(path.name.split("-")[1]) for path in (folder / "pids").iterdir()]
    wait_until(lambda: not any(map(alive, pids)), "workers of all attempts end", 20)
    wait_until(lambda: not list(temporary.iterdir()), "temporary folders are deleted", 20)
    assert not list((folder / "checkpoints").rglob("orders/chk-*"))


def test_a_jvm_that_is_killed_between_two_jobs_and_under_one_is_replaced(ran, tmp_path, temporary):
    out, err = ran(KILLED)

    assert out == ["usable [4]", "usable [4]", "restarts 1"], err
    assert "the Spark session ended under the job" in err
    assert written(tmp_path) == EXPECTED
    # Two records are soon read: an operator that a checkpoint has as finished is not opened again.
    assert {"0"} <= {path.name.split("-")[0] for path in (tmp_path / "pids").iterdir()} <= {"0", "1"}
    nothing_is_left(tmp_path, temporary)


def test_a_session_of_funkens_that_user_code_stops_is_replaced(ran, tmp_path, temporary):
    out, err = ran(STOPPED)

    assert out == ["usable [4]", "restarts 1", "usable [4]"], err
    assert written(tmp_path) == EXPECTED
    nothing_is_left(tmp_path, temporary)


def test_a_session_of_the_user_is_not_replaced_and_the_checkpoints_stay(ran, tmp_path, temporary):
    out, err = ran(GIVEN)

    assert [line.split(":")[0] for line in out] == ["stopped", "still stopped"] * 2 + ["restarts 0"], err
    assert "a start with execution.job-id 'orders' resumes from checkpoint" in err
    assert written(tmp_path) == EXPECTED
    nothing_is_left(tmp_path, temporary)
