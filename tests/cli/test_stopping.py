"""A signal in the middle of a job: the exit code, and that nothing of the job is left."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ENDLESS = """\
from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, rate_per_second=100)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.key_by(lambda number: number % 3).sum().print()
env.execute()
"""

LONG = """\
import sys
from pathlib import Path
from funken import NumberSequenceSource, StreamExecutionEnvironment

begun = sys.argv[1]

def touch(number):
    if number == 1000:
        Path(begun).touch()
    return number % 3

env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(NumberSequenceSource(0, 10**12), None, "numbers").map(touch).key_by(lambda number: number).sum().print()
env.execute()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def processes_with(variable):
    """The processes with a variable in their environment: the first one, and all that came of it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def is_gone(variable, seconds=20):
    limit = time.monotonic() + seconds
    while processes_with(variable):
        if time.monotonic() > limit:
            return False
        threading.Event().wait(0.05)
    return True


def on_spark(*values):
    """A case that starts a JVM: one signal of each kind of job, for what differs by signal comes before it."""
    return pytest.param(*values, marks=pytest.mark.spark)


@pytest.mark.parametrize(
    ("target", "sent", "exit_code"),
    [("local", signal.SIGINT, 130), ("local", signal.SIGTERM, 143), on_spark("continuous", signal.SIGINT, 130)],
)
def test_a_signal_stops_the_job_and_leaves_nothing(target, sent, exit_code, tmp_path):
    script, temporary = tmp_path / "job.py", tmp_path / "temporary"
    script.write_text(ENDLESS)
    temporary.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "funken", "run", "--target", target, "-p", "2", script],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline()[1:3] == "> "  # the job runs

    child.send_signal(sent)
    _, said = child.communicate(timeout=60)

    assert child.returncode == exit_code
    assert said.endswith("Interrupted.\n") == (sent == signal.SIGINT)
    assert is_gone(f"TMPDIR={temporary}")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "sent", "exit_code"),
    [("local", signal.SIGINT, 130), ("local", signal.SIGTERM, 143), on_spark("batch", signal.SIGTERM, 143)],
)
def test_a_signal_stops_a_batch_job_in_the_midst_of_its_first_stage(target, sent, exit_code, tmp_path):
    script, temporary, begun = tmp_path / "job.py", tmp_path / "temporary", tmp_path / "begun"
    script.write_text(LONG)
    temporary.mkdir()
    given = ["--target", target, "-p", "2", "-D", "execution.runtime-mode=BATCH", "--no-progress", script, begun]
    child = subprocess.Popen(
        [sys.executable, "-m", "funken", "run", *given],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = time.monotonic() + 60
    while not begun.exists():
        assert child.poll() is None and time.monotonic() < limit, child.communicate(timeout=1)
        threading.Event().wait(0.05)

    child.send_signal(sent)
    printed, said = child.communicate(timeout=60)

    assert child.returncode == exit_code, said
    assert printed == ""
    assert said.endswith("Interrupted.\n") == (sent == signal.SIGINT)
    assert is_gone(f"TMPDIR={temporary}")
    assert list(temporary.iterdir()) == []


BLOCKED = """\
import sys, time
from pathlib import Path
from funken import NumberSequenceSource, StreamExecutionEnvironment

begun = sys.argv[1]

def block(number):
    while True:
        try:
            Path(begun).touch()  # within: a signal may come right after it
            time.sleep(3600)
        except BaseException:  # what would end it is swallowed
            pass

env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(NumberSequenceSource(0, 10), None, "numbers").map(block).key_by(lambda number: number).sum().print()
env.execute()
"""


@pytest.mark.parametrize(
    ("target", "sent", "exit_code"),
    [
        ("local", signal.SIGINT, 130),
        ("local", signal.SIGTERM, 143),
        on_spark("batch", signal.SIGINT, 130),
        on_spark("continuous", signal.SIGTERM, 143),
    ],
)
def test_a_second_signal_ends_it_at_once(target, sent, exit_code, tmp_path):
    """Also where a function does not let itself be stopped: the first signal waits for it, the second does not."""
    script, temporary, begun = tmp_path / "job.py", tmp_path / "temporary", tmp_path / "begun"
    script.write_text(BLOCKED)
    temporary.mkdir()
    given = ["--target", target, "-p", "2", "-D", "task.cancellation.timeout=1 h", "--no-progress", script, begun]
    child = subprocess.Popen(
        [sys.executable, "-m", "funken", "run", *given],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        limit = time.monotonic() + 60
        while not begun.exists():
            assert child.poll() is None and time.monotonic() < limit, child.communicate(timeout=1)
            threading.Event().wait(0.05)

        child.send_signal(sent)
        threading.Event().wait(1)
        assert child.poll() is None, "the first signal waits for the function"
        child.send_signal(sent)
        child.wait(timeout=5)

        assert is_gone(f"TMPDIR={temporary}", 40), processes_with(f"TMPDIR={temporary}")
        _, said = child.communicate(timeout=1)
        assert child.returncode == exit_code, said
        assert "Interrupted again: what still ran is left as it is." in said
    finally:
        child.kill()
        child.communicate()
