"""The process that workers are forked from: what it may load, and that Spark starts it."""

import importlib
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from funken import Configuration, MapFunction, StreamExecutionEnvironment
from funken.spark.daemon import forget_archives, quiet_worker, read_once
from funken.spark.warm.imports import LateImport

LOADED = """
import json, os, sys
from funken.spark.daemon import preload
preload()
print(json.dumps([len(os.listdir("/proc/self/task")), sorted({"pyarrow", "numpy", "pandas"} & set(sys.modules))]))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
@pytest.mark.parametrize(("threads", "libraries"), [("1", ["numpy", "pyarrow"]), ("4", []), (None, [])])
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


ARROW = """
import os, sys
from funken.spark.daemon import preload
preload()
import pyarrow as pa, pyarrow.compute as pc
if os.fork() == 0:
    threads = len(os.listdir("/proc/self/task"))
    many = pa.chunked_array([list(range(10_000))] * 8)
    print(pa.default_memory_pool().backend_name, pc.sum(many).as_py(), threads, "JE_ARROW_MALLOC_CONF" in os.environ, flush=True)
    pa.table({"n": many}).sort_by([("n", "descending")])
    sys.stdout.flush()
    os._exit(0)
_, status = os.wait()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
@pytest.mark.parametrize("pool", ["mimalloc", "system", "jemalloc"])
def test_arrow_computes_after_a_fork_whatever_its_pool(pool):
    if pool not in pa.supported_memory_backends():
        pytest.skip(f"this pyarrow has no {pool}")
    env = os.environ | {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": pool}
    done = subprocess.run(
        [sys.executable, "-c", ARROW], capture_output=True, text=True, check=True, env=env, timeout=60
    )

    assert done.stdout.split() == [pool, str(8 * 49_995_000), "1", "False"]


PANDAS = """
import os, sys
from funken.spark.daemon import preload
from funken.spark.warm.imports import PANDAS
preload()
for needs in False, False, True, False:
    if os.fork() == 0:
        print("pandas" in sys.modules, flush=True)
        if needs:
            __import__("pandas")
        PANDAS.needed()
        os._exit(0)
    os.wait()
"""


def test_pandas_is_loaded_before_a_fork_once_a_worker_has_needed_it():
    pytest.importorskip("pandas")
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PANDAS], capture_output=True, text=True, check=True, env=env)

    assert done.stdout.split() == ["False", "False", "False", "True"]


def test_a_library_that_does_not_load_is_not_tried_before_every_fork(monkeypatch):
    late = LateImport("a_library_that_is_not_there")
    assert not late.load()
    late.watch()
    assert not late.load()
    monkeypatch.setitem(sys.modules, "a_library_that_is_not_there", os)
    late.needed()
    monkeypatch.delitem(sys.modules, "a_library_that_is_not_there")
    assert late.load()
    assert late.load()


def test_archives_that_were_read_are_not_read_again_in_every_worker(tmp_path, monkeypatch):
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in "one", "two", "package/__init__", "package/three":
            file.writestr(f"{name}.py", f"name = {name!r}")
    monkeypatch.syspath_prepend(str(archive))
    for name in "one", "package.three":
        importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)
    nested = [path for path in sys.path_importer_cache if path.startswith(str(archive))]
    assert len(nested) == 2

    forget_archives()

    assert not set(nested) & set(sys.path_importer_cache)
    importlib.invalidate_caches()
    for name in "one", "two", "package.three":  # they are found as before
        assert importlib.import_module(name).name == name.replace(".", "/")
        monkeypatch.delitem(sys.modules, name)


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


class Stream(io.BytesIO):
    flushes = 0

    def flush(self):
        self.flushes += 1


@pytest.mark.parametrize(("pipelined", "flushes"), [("1", 3), ("0", 0), (None, 0)])
def test_workers_read_themselves_and_write_every_batch_at_once_where_spark_overlaps_both(pipelined, flushes):
    worker, stream = SimpleNamespace(ArrowStreamSerializer=ArrowStreamSerializer), Stream()
    environment = {"SPARK_BUFFER_SIZE": "64"} | ({} if pipelined is None else {"SPARK_PIPELINED_UDF": pipelined})

    read_once(worker, environment)
    batches = [pa.record_batch({"n": [n]}) for n in range(3)]
    worker.ArrowStreamSerializer(write_start_stream=True).dump_stream(iter(batches), stream)

    assert stream.flushes == flushes
    assert environment.get("SPARK_PIPELINED_UDF") != "1"  # PySpark's own reader thread
    assert environment["SPARK_BUFFER_SIZE"] == ("65536" if flushes else "64")


class Parent(MapFunction):
    def map(self, value):
        return Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")[1:3]


@pytest.mark.spark
def test_spark_forks_its_workers_from_it():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "batch"}))
    with env.from_collection([1]).map(Parent()).execute_and_collect() as found:
        assert list(found) == [[b"-m", b"funken.spark.daemon"]]


class Threads(MapFunction):
    def map(self, value):
        return sorted(thread.name for thread in threading.enumerate())


@pytest.mark.spark
@pytest.mark.parametrize("target", ["batch", "continuous"])
def test_one_thread_of_a_worker_reads_its_input(target):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": target}))
    stream = env.from_collection([1]).key_by(lambda n: n).map(Threads())
    with stream.execute_and_collect() as found:
        (names,) = found
    assert "pyspark-pipelined-reader" not in names
    assert "MainThread" in names


@pytest.mark.spark
def test_functions_of_other_queries_in_the_session_work():
    from pyspark.sql.functions import pandas_udf, udf

    from funken.spark.frames import session as session_of_spark

    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "batch"}))
    with env.from_collection([1]).execute_and_collect() as found:
        assert list(found) == [1]
    spark = session_of_spark()
    assert spark.conf.get("spark.python.daemon.module") == "funken.spark.daemon"
    frame = spark.range(1000).repartition(2)
    twice = udf(lambda n: 2 * n, "long")
    assert frame.select(twice("id").alias("n")).agg({"n": "sum"}).first()[0] == 999_000
    pandas_twice = pandas_udf(lambda n: 2 * n, "long")
    assert frame.select(pandas_twice("id").alias("n")).agg({"n": "sum"}).first()[0] == 999_000
    mapped = frame.mapInArrow(lambda batches: (batch for batch in batches), "id long")
    assert mapped.agg({"id": "sum"}).first()[0] == 499_500
