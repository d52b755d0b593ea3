"""Processes that run one job: the leader is killed, or stopped and woken; every record counts once."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.files import written

COUNT = 12_000
EXPECTED = Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))
BOUND = 240

pytestmark = pytest.mark.timeout(300)


class Drivers:
    """The processes, and what each of them says."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.options = options
        self.started = 0
        self.all = []

    def start(self, *options):
        self.started += 1
        log = (self.folder / f"driver-{self.started}.log").open("w")
        command = [sys.executable, "-m", "tests.leaderelection.program", str(self.folder), str(COUNT), "1500"]
        made = subprocess.Popen([*command, *self.options, *options], stdout=log, stderr=subprocess.STDOUT,
                                cwd=Path(__file__).parents[2])  # fmt: skip
        log.close()
        made.log = self.folder / f"driver-{self.started}.log"
        self.all.append(made)
        return made

    def leader(self, among):
        """Wait until one of them leads, and has completed a checkpoint in its term."""
        return until(lambda: next((each for each in among if "leads in term" in each.log.read_text()), None), self)

    def close(self):
        for each in self.all:
            if each.poll() is None:
                os.kill(each.pid, signal.SIGCONT)
                each.kill()
            each.wait(BOUND)

    def logs(self):
        return "\n".join(f"--- {each.log.name}, exit {each.poll()}\n{each.log.read_text()}" for each in self.all)


def until(found, drivers):
    end = time.monotonic() + BOUND
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {BOUND} s\n{drivers.logs()}")


@pytest.fixture
def drivers(tmp_path):
    made = Drivers(tmp_path)
    yield made
    made.close()


def checkpoints(folder):
    return {int(path.parent.name[4:]) for path in folder.glob("checkpoints/counts/chk-*/_metadata")}


def test_a_standby_goes_on_where_the_killed_leader_was(drivers):
    leader = drivers.start()
    drivers.leader([leader])
    standby = drivers.start()
    until(lambda: checkpoints(drivers.folder), drivers)
    leader.kill()
    assert standby.wait(BOUND) == 0, drivers.logs()
    assert written(drivers.folder) == EXPECTED, drivers.logs()

    late = drivers.start()
    assert late.wait(BOUND) == 0, drivers.logs()
    assert "has been finished by another driver" in late.log.read_text()
    assert written(drivers.folder) == EXPECTED


def test_a_leader_that_was_stopped_does_no_harm_when_it_wakes_up(drivers):
    leader = drivers.start()
    drivers.leader([leader])
    standby = drivers.start()
    until(lambda: checkpoints(drivers.folder), drivers)
    os.kill(leader.pid, signal.SIGSTOP)
    drivers.leader([standby])
    os.kill(leader.pid, signal.SIGCONT)
    assert leader.wait(BOUND) != 0, drivers.logs()
    assert "is not run by this driver any more" in leader.log.read_text(), drivers.logs()
    assert standby.wait(BOUND) == 0, drivers.logs()
    assert written(drivers.folder) == EXPECTED, drivers.logs()
