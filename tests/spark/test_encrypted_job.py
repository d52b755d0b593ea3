"""A job all of whose connections are encrypted, in a session that Funken starts."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PROGRAM = """
from pyspark import SparkContext
from funken import Configuration, StreamExecutionEnvironment
from funken.dataset import ExecutionEnvironment
from funken.spark.control import tls as credentials

made = []
new = credentials._certificate
credentials._certificate = lambda: made.append(new()) or made[-1]
settings = {"security.ssl.internal.enabled": True, "execution.warm-session": False}

stream = {"execution.target": "continuous", "execution.subtasks-per-worker": 2}  # one worker has two, one has one
env = StreamExecutionEnvironment.get_execution_environment(Configuration(settings | stream))
env.set_parallelism(3)
counts = env.from_collection(list(range(1000))).key_by(lambda n: n % 3).map(lambda n: n * 2)
print("stream", sum(counts.execute_and_collect()))

batch = ExecutionEnvironment.get_execution_environment(Configuration(settings | {"execution.target": "batch"}))
batch.set_parallelism(2)
pairs = batch.from_collection([(n % 5, n) for n in range(1000)]).group_by(0).sum(1)
print("batch", sum(n for _, n in pairs.collect()))

conf = SparkContext._active_spark_context.getConf()
print(conf.get("spark.authenticate"), conf.get("spark.network.crypto.enabled"), conf.get("spark.io.encryption.enabled"))
print("certificates", len(set(made)))
"""


def test_streams_and_batch_run_over_tls(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program],
        capture_output=True, text=True, timeout=280, check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["stream 999000", "batch 499500", "true true true", "certificates 2"]
    assert "PRIVATE KEY" not in done.stderr
