"""The process that workers are forked from: what it may load, and that Spark starts it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from funken import Configuration, MapFunction, StreamExecutionEnvironment
from funken.spark.daemon import quiet_worker

LOADED = """
import json, os, sys
from funken.spark.daemon import preload
preload()
print(json.dumps([len(os.listdir("/proc/self/task")), sorted({"pyarrow", "numpy", "pandas"} & set(sys.modules))]))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
@pytest.mark.parametrize(("threads", "libraries"), [("1", ["numpy"]), ("4", []), (None, [])])
def test_what_is_loaded_before_a_fork_starts_no_thread(threads, libraries):
    env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if threads is not None:
        env["OMP_NUM_THREADS"] = threads
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, env=env)

    assert json.loads(done.stdout) == [1, libraries]


DRAWN = """
import os
from funken.spark.daemon import preload
preload()
import numpy
numpy.random.seed(7)
for _ in range(2):
    if os.fork() == 0:
        print(numpy.random.randint(1 << 60), flush=True)
        os._exit(0)
    os.wait()
"""


def test_workers_draw_different_random_numbers():
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", DRAWN], capture_output=True, text=True, check=True, env=env)

    assert len(set(done.stdout.split())) == 2


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_whose_executor_hung_up_says_nothing(error):
    def work(sock, authenticated):
        raise error

    assert quiet_worker(work)("socket", True) == 1


def test_other_ends_of_a_worker_are_passed_on():
    assert quiet_worker(lambda sock, authenticated: 7)("socket", True) == 7
    with pytest.raises(OSError, match="no space"):
        quiet_worker(broken)("socket", True)


def broken(sock, authenticated):
    raise OSError(28, "no space")


class Parent(MapFunction):
    def map(self, value):
        return Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")[1:3]


@pytest.mark.spark
def test_spark_forks_its_workers_from_it():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "batch"}))
    with env.from_collection([1]).map(Parent()).execute_and_collect() as found:
        assert list(found) == [[b"-m", b"funken.spark.daemon"]]
