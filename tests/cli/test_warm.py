"""``funken up``: runs that begin in a session which is there, as if they had started their own."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from funken.spark.warm import client as protocol

JOB = """\
import os, sys
sys.path.insert(0, "modules")
import helper
from funken import StreamExecutionEnvironment
from pyspark import SparkContext

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)

def seen(number):
    import helper
    return number, helper.VERSION, os.environ["WHOSE"], os.path.exists("here"), os.getpid()

env.from_collection([1]).rebalance().map(seen).print()
env.execute()
print("jvm", SparkContext._gateway.jvm.java.lang.ProcessHandle.current().pid(), flush=True)
if "hold" in sys.argv:
    sys.stdin.read()
"""


@pytest.fixture
def funken(tmp_path):
    """Run the command line in a folder of its own, as a user without any session."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "here").touch()
    short = tempfile.TemporaryDirectory()  # the path of a socket has at most 107 characters
    environment = os.environ | {"XDG_RUNTIME_DIR": short.name, "WHOSE": "nobody"}

    def start(*arguments, **variables):
        return subprocess.Popen(
            [sys.executable, "-m", "funken", *arguments], cwd=tmp_path, env=environment | variables, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(*arguments, **variables):
        child = start(*arguments, **variables)
        out, said = child.communicate(timeout=180)
        assert child.returncode == 0, said
        return out

    run.start, run.folder = start, Path(short.name)
    with short:
        yield run
        run("down")


def version(tmp_path, number):
    """Write a module that the job imports; its compiled form must not hide a change of the same second."""
    (tmp_path / "modules" / "helper.py").write_text(f"VERSION = {number}\n" + "#" * number)


def found(out):
    """What the function of the job saw, and the JVM."""
    seen, jvm = re.search(r"\((.*)\)\njvm (\d+)", out).groups()
    return [part.strip("' ") for part in seen.split(",")], jvm


@pytest.mark.spark
@pytest.mark.timeout(400)  # Spark starts twice, beside other programs
def test_runs_share_a_jvm_and_nothing_else(funken, tmp_path):
    assert "A warm session is up" in funken("up")
    assert list((funken.folder / "funken").glob("warm-*"))
    assert "is there already" in funken("up")

    version(tmp_path, 1)
    (_, first, whose, here, worker), jvm = found(funken("run", "--no-progress", "job.py", WHOSE="ada"))
    assert (first, whose, here) == ("1", "ada", "True")

    version(tmp_path, 2)
    (_, second, whose, _, other), same = found(funken("run", "--no-progress", "job.py", WHOSE="bob"))
    assert (second, whose, same) == ("2", "bob", jvm)
    assert other != worker

    holding = funken.start("run", "--no-progress", "job.py", "hold")
    while not (line := holding.stdout.readline()).startswith("jvm"):
        assert line
    assert line.split()[1] == jvm
    _, own = found(funken("run", "--no-progress", "job.py"))
    assert own != jvm, "two programs at once"
    holding.send_signal(signal.SIGKILL)
    holding.communicate()

    _, again = found(funken("run", "--no-progress", "job.py"))
    assert again == jvm, "the lease of a program that was killed has ended"

    assert "1 warm session ended" in funken("down")
    assert list((funken.folder / "funken").glob("warm-*")) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(jvm), 0)


def test_there_is_nothing_to_end(funken):
    assert "There is no warm session" in funken("down")


def test_where_nothing_is_private_there_is_no_session(tmp_path):
    (tmp_path / "funken").mkdir(mode=0o755)
    (tmp_path / "funken").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "funken", "up"], env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "there is no place for a warm session" in done.stderr
    assert protocol.names_in(tmp_path / "funken") == []
