"""What workers import travels as a packed environment: ``--archives`` of spark-submit, with its own Python."""

import os
import site
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pyspark
import pytest

from funken.spark.java import ensure_java
from tests.support.java import BRIEF

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PROGRAM = """
import importlib.util
import sys
from funken import Configuration, StreamExecutionEnvironment

assert importlib.util.find_spec("packed_words") is None


def worded(n):
    import packed_words  # in the archive, and nowhere else

    return packed_words.word(n), "environment" in sys.executable


for target in sys.argv[1:]:
    settings = {"execution.target": target, "parallelism.default": 2, "rest.enabled": False}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(settings))
    words = env.from_collection([1, 2, 3, 4]).rebalance().map(worded)
    print(sorted(words.execute_and_collect()))
"""


def pack(folder):
    """What venv-pack makes, small: an interpreter, what this one has installed, and a module of its own."""
    made = folder / "environment"
    venv.create(made, symlinks=True)
    (packages,) = (made / "lib").glob("python*/site-packages")
    (packages / "packed_words.py").write_text("def word(n):\n    return 'word' * n\n")
    installed = [path for path in sys.path if Path(path).is_dir() and path != sys.prefix and "site-packages" in path]
    (packages / "installed.pth").write_text("\n".join({*installed, *site.getsitepackages(), str(Path.cwd() / "src")}))
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as archive:
        archive.add(made, ".")
    return folder / "environment.tar.gz"


def test_workers_run_the_python_of_the_archive_with_its_modules(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [
        Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local-cluster[2,3,512]",
        "--archives", f"{pack(tmp_path)}#environment",
        "--conf", "spark.pyspark.python=./environment/bin/python", "--conf", f"spark.pyspark.driver.python={sys.executable}",
        "--conf", "spark.executor.memory=512m", "--conf", f"spark.executor.extraJavaOptions={BRIEF}",
        program, "batch", "continuous",
    ]  # fmt: skip
    without = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": BRIEF, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path,
        env=without | own | {"JAVA_HOME": str(ensure_java())},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-2:] == [str([("word" * n, True) for n in range(1, 5)])] * 2
