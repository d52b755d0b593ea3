"""A signal whose exception does not end the program by itself: a function takes it, or Python cannot raise it."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from funken.cli.signals import Signals, Told

FUNKEN = """\
import sys
from funken.api.jobs import client
from funken.cli import signals
from funken.cli.main import main

client._INTERRUPT_SECONDS = 0.1
signals._AFTER_SECONDS = (0.05, 0.1)
signals._SAID_AFTER_SECONDS = 0.1
main(prog_name="funken")
"""

JOB = """\
import time
from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy

def run(function):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    numbers = env.from_source(DataGeneratorSource(lambda index: index), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(function).name("greedy").for_each(id)
    env.execute()

def greedy(number):
    try:
        print("here", flush=True)
        time.sleep(0.3)
    except:
        print("taken", flush=True)
"""

ENDED_BY_THE_JOB = JOB + "run(greedy)\n"
NEVER_ENDED = JOB + "run(lambda number: [greedy(number) for _ in iter(int, 1)])\n"
NO_JOB = JOB + "while True:\n    greedy(1)\n"

IN_A_POOL = (
    JOB
    + """\
import sys
from datetime import timedelta
from funken import AsyncDataStream, blocking

def ask(number):
    sys.stdout.write("here\\n")  # at once: there are two threads
    time.sleep(3600)
    return [number]

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
numbers = env.from_source(DataGeneratorSource(lambda index: index), WatermarkStrategy.no_watermarks(), "numbers")
AsyncDataStream.unordered_wait(numbers, blocking(ask), timedelta(hours=1), 2).print()
env.execute()
"""
)
BESIDE_A_THREAD = (
    """\
import threading
threading.Thread(target=threading.Event().wait, name="mine").start()
"""
    + JOB
    + "run(lambda number: print('here', flush=True))\n"
)


@pytest.fixture
def start(tmp_path):
    """Start a script with ``funken run`` and wait until its function is at work."""
    children = []

    def start(script, *, plain=False, **options):
        path = tmp_path / "job.py"
        path.write_text(script)
        given = {"task.cancellation.timeout": "100 ms"} | options
        pairs = [f"-D{key}={value}" for key, value in given.items()]
        command = [path] if plain else ["-c", FUNKEN, "run", "--target", "local", *pairs, path]
        child = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        children.append(child)
        assert child.stdout.readline() == "here\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_function_that_catches_everything_does_not_keep_the_job_alive(start, sent):
    child = start(ENDED_BY_THE_JOB)
    child.send_signal(sent)

    printed, said = child.communicate(timeout=60)

    assert child.returncode == 128 + sent, said
    assert "taken" in printed


def test_nor_does_it_in_a_program_that_is_run_by_python_itself(start):
    here = "create_local_environment(parallelism=1)"
    child = start(ENDED_BY_THE_JOB.replace("get_execution_environment().set_parallelism(1)", here), plain=True)
    child.send_signal(signal.SIGINT)

    printed, said = child.communicate(timeout=60)

    assert child.returncode == -signal.SIGINT, said
    assert "taken" in printed
    assert "KeyboardInterrupt" in said


def test_nor_does_it_when_the_job_could_not_be_saved(start, tmp_path):
    options = {
        "execution.savepoint-on-sigterm.timeout": "10 ms",
        "execution.checkpointing.dir": tmp_path / "checkpoints",
    }
    child = start(ENDED_BY_THE_JOB, **options)
    child.send_signal(signal.SIGTERM)

    _, said = child.communicate(timeout=60)

    assert child.returncode == 143, said
    assert "is stopped without a savepoint" in said


def test_a_function_that_never_returns_is_left_behind_with_the_process(start):
    child = start(NEVER_ENDED)
    child.send_signal(signal.SIGTERM)

    _, said = child.communicate(timeout=60)

    assert child.returncode == 143
    assert "was cancelled, but its thread is still blocked in" in said


def test_a_call_that_never_returns_does_not_keep_the_process_alive(start):
    child = start(IN_A_POOL)
    child.send_signal(signal.SIGTERM)

    _, said = child.communicate(timeout=60)

    assert child.returncode == 143, said
    assert "are left" not in said


def test_a_thread_of_the_program_is_left_with_a_message(start):
    child = start(BESIDE_A_THREAD)
    child.send_signal(signal.SIGTERM)

    _, said = child.communicate(timeout=60)

    assert child.returncode == 143
    assert said.splitlines()[-1] == "Threads of the program have not ended within 0.1 s, and are left: mine."


def test_a_program_that_goes_on_is_told_of_the_second_signal(start):
    child = start(NO_JOB)
    child.send_signal(signal.SIGINT)
    assert child.stderr.readline() == "SIGINT came, and the program still runs. A second signal ends it at once.\n"
    child.send_signal(signal.SIGINT)

    _, said = child.communicate(timeout=60)

    assert child.returncode == 130
    assert said == "Interrupted again: what still ran is left as it is.\n"


class Deaf:
    """Python cannot raise an exception of ``__del__``, as of a callback of a weak reference: it reports it, and goes on."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


def test_an_exception_that_python_cannot_raise_is_raised_again(capfd):
    with Signals().handled(), pytest.raises(Told) as raised:
        Deaf()
        threading.Event().wait(30)

    assert raised.value.exit_code == 143
    assert capfd.readouterr() == ("", "")


def test_other_exceptions_that_python_cannot_raise_are_reported(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)

    class Broken:
        def __del__(self):
            raise ValueError("broken")

    with Signals().handled():
        Broken()

    assert [type(each.exc_value) for each in seen] == [ValueError]
    assert sys.unraisablehook == seen.append
