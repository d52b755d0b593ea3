"""SIGTERM of a job that is to be saved first: what is saved, what the next start resumes from, and that all of it is bounded."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

JOB = """\
from funken import DataGeneratorSource, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
numbers = env.from_source(DataGeneratorSource(lambda index: index, rate_per_second=100), None, "numbers").uid("numbers")
numbers.key_by(lambda number: 0).map(lambda number: number).uid("same").print()
"""
AT_ONCE = JOB + "env.execute()\nprint('never', flush=True)\n"
BESIDE = JOB + "import time\nenv.execute_async()\ntime.sleep(3600)\n"
BLOCKED = """\
import time
from funken import StreamExecutionEnvironment

def block(number):
    print("here", flush=True)
    time.sleep(3600)
    return number

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
env.from_collection([1]).map(block).print()
env.execute()
"""


@pytest.fixture
def start(tmp_path):
    """Start a script with ``funken run`` and options; each child is killed at the end, if it still runs."""
    children = []

    def start(script, mode="local", **options):
        path = tmp_path / "job.py"
        path.write_text(script)
        places = {"execution.checkpointing.dir": tmp_path / "checkpoints", "task.cancellation.timeout": "100 ms"}
        given = [f"-D{key}={value}" for key, value in (places | options).items()]
        child = subprocess.Popen(
            [sys.executable, "-m", "funken", "run", "--target", mode, "--no-progress", *given, path],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        children.append(child)
        return child

    yield start
    for child in children:
        if child.poll() is None:
            child.kill()
            child.communicate()


def options(timeout, job_id="numbers"):
    return {"execution.savepoint-on-sigterm.timeout": timeout, "execution.job-id": job_id}


def ended(child, *signals):
    for each in signals:
        child.send_signal(each)
    return child.communicate(timeout=120)


@pytest.mark.timeout(300)  # Spark starts twice
@pytest.mark.ways("local", "continuous")
def test_the_next_start_resumes_from_the_savepoint(mode, start, tmp_path):
    first = start(AT_ONCE, mode, **options("60 s"))
    assert first.stdout.readline() == "0\n"

    printed, said = ended(first, signal.SIGTERM)

    assert first.returncode == 143, said
    assert "SIGTERM: 'Flink Streaming Job' is saved before it ends (at most 1 min; a second" in said
    (saved,) = [line for line in said.splitlines() if " is saved in " in line]
    assert saved.endswith(": a start with execution.job-id 'numbers' resumes from it.")
    place = saved.partition(" is saved in ")[2].partition(": ")[0]
    assert (Path(place.removeprefix("file://")) / "_metadata").exists()
    assert "a start with execution.job-id 'numbers' resumes from checkpoint 1 (" in said
    assert "never" not in printed
    last = int(printed.split()[-1]) if printed else 0

    second = start(AT_ONCE, mode, **options("60 s"))

    assert second.stdout.readline() == f"{last + 1}\n"


def test_a_program_that_does_not_wait_for_its_job(start):
    child = start(BESIDE, **options("60 s", ""))
    assert child.stdout.readline() == "0\n"

    _, said = ended(child, signal.SIGTERM)

    assert child.returncode == 143
    assert ": funken run -s resumes from it.\n" in said


def test_a_job_that_cannot_be_saved_in_time_is_stopped(start):
    child = start(BLOCKED, **options("200 ms"))
    assert child.stdout.readline() == "here\n"

    _, said = ended(child, signal.SIGTERM)

    assert child.returncode == 143
    assert "'Flink Streaming Job' is stopped without a savepoint: there was none within 0.2 s." in said


def test_a_job_without_a_place_for_savepoints_is_stopped(start):
    child = start(AT_ONCE, **options("1 h", "") | {"execution.checkpointing.dir": ""})
    assert child.stdout.readline() == "0\n"

    _, said = ended(child, signal.SIGTERM)

    assert child.returncode == 143
    assert "stopped without a savepoint: it has no place for one. Set execution.checkpointing.dir or" in said


def test_a_second_signal_ends_it_at_once(start):
    child = start(BLOCKED, **options("1 h"))
    assert child.stdout.readline() == "here\n"
    child.send_signal(signal.SIGTERM)
    said = next(line for line in child.stderr if "SIGTERM" in line)  # behind a warning of the sleep
    assert said.startswith("SIGTERM: 'Flink Streaming Job' is saved before it ends (at most 1 h;")

    _, said = ended(child, signal.SIGINT)

    assert child.returncode == 130
    assert "Interrupted again: what still ran is left as it is." in said


def test_other_signals_stop_at_once(start):
    child = start(AT_ONCE, **options("1 h"))
    assert child.stdout.readline() == "0\n"

    _, said = ended(child, signal.SIGINT)

    assert child.returncode == 130
    assert "saved" not in said
