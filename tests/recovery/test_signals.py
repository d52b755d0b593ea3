"""A ``funken run`` that a signal ends in the middle of a job with an id: the next start resumes, and the output is exact."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.recovery.programs import COUNT, EXPECTED, PROGRAM
from tests.support.files import written

BOUND = 100  # seconds


def start(folder, mode, *options):
    (folder / "job.py").write_text(PROGRAM)
    given = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": folder / "checkpoints",
        "task.cancellation.timeout": "1 s",
    }
    pairs = [f"-D{key}={value}" for key, value in given.items()] + [f"-D{option}" for option in options]
    return subprocess.Popen(
        [sys.executable, "-m", "funken", "run", "--target", mode, "-p", "2", *pairs, folder / "job.py", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def run(folder):
    """Start the job; whatever of it still runs at the end of the test is ended."""
    started = []

    def run(*arguments):
        started.append(start(folder, *arguments))
        return started[-1]

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for_output(process, folder):
    limit = time.monotonic() + BOUND
    while not written(folder):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        threading.Event().wait(0.02)


def kept(folder):
    return [path for path in (folder / "checkpoints").rglob("_metadata") if ".spark" not in str(path)]


@pytest.mark.parametrize(
    ("target", "sent", "exit_code"),
    [
        ("local", signal.SIGINT, 130),
        ("local", signal.SIGTERM, 143),
        ("local", signal.SIGHUP, 129),
        pytest.param("continuous", signal.SIGTERM, 143, marks=pytest.mark.spark),
    ],
)
def test_a_job_with_an_id_that_a_signal_ends_is_resumed_by_the_next_start(target, run, folder, sent, exit_code):
    first = run(target, "execution.job-id=orders")
    wait_for_output(first, folder)

    first.send_signal(sent)
    _, said = first.communicate(timeout=BOUND)

    assert first.returncode == exit_code, said
    told = re.search(r"a start with execution.job-id 'orders' resumes from checkpoint (\d+) \((.*)\)\.", said)
    assert told, said
    newest = max((path.parent for path in kept(folder)), key=lambda path: int(path.name.removeprefix("chk-")))
    assert newest == Path(told[2].removeprefix("file://"))
    before = written(folder).total()
    assert 0 < before < COUNT

    second = run(target, "execution.job-id=orders")
    _, said = second.communicate(timeout=BOUND)

    assert second.returncode == 0, said
    assert written(folder) == EXPECTED
    assert kept(folder) == [], "a job that has finished keeps none"


@pytest.mark.ways("local")
def test_a_job_without_an_id_keeps_nothing(mode, run, folder):
    process = run(mode)
    wait_for_output(process, folder)

    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=BOUND)

    assert process.returncode == 143
    assert "resumes from" not in said
    assert kept(folder) == []


@pytest.mark.ways("local")
def test_a_job_in_a_thread_of_a_program_that_a_signal_ends_is_resumed(mode, run, folder):
    (folder / "asynchronous").touch()
    first = run(mode, "execution.job-id=orders")
    wait_for_output(first, folder)

    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=BOUND)
    assert "a start with execution.job-id 'orders' resumes from checkpoint" in said

    second = run(mode, "execution.job-id=orders")
    _, said = second.communicate(timeout=BOUND)
    assert second.returncode == 0, said
    assert written(folder) == EXPECTED
