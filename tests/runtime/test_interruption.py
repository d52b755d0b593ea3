"""User code is interrupted within its block only, and nothing of that is left behind."""

import subprocess
import sys
import threading

import pytest

from funken.runtime.process import Interrupted, Interruption


def test_a_block_is_interrupted_and_what_follows_is_not():
    interruption = Interruption()
    interruption.enter_thread()

    with pytest.raises(Interrupted), interruption:
        assert interruption.interrupt()
        threading.Event().wait(10)

    assert not interruption.interrupt()
    for _ in range(1000):
        pass


def test_an_interruption_that_comes_too_late_is_not_raised():
    interruption = Interruption()
    interruption.enter_thread()
    with interruption:
        interruption._pending = True  # it was interrupted just now

    for _ in range(1000):
        pass


def test_a_debugger_works_after_an_interruption_that_came_too_late():
    """In a process of its own: CPython 3.11 hung."""
    program = """
import sys
from funken.runtime.process import Interruption
interruption = Interruption()
interruption.enter_thread()
with interruption:
    interruption._pending = True
def called():
    return "called"
sys.settrace(lambda frame, event, argument: None)
print(called())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "called\n"
