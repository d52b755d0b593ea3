"""What Linux counts of threads is that of the thread which asks."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from funken.timing import clock
from funken.timing.clock import SystemClock

pytestmark = pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="only Linux counts it")

FORKS = """
import os
from funken.timing import clock

def counted():
    assert clock.SystemClock().run_delay() is not None
    return os.readlink(f"/proc/self/fd/{clock._thread.counted.file}")

files = len(os.listdir("/proc/self/fd"))
assert str(os.getpid()) in counted()
child = os.fork()
assert str(os.getpid()) in counted(), "of the process that was forked from"
assert len(os.listdir("/proc/self/fd")) == files + 1
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def of_thread():
    assert SystemClock().run_delay() is not None
    return os.readlink(f"/proc/self/fd/{clock._thread.counted.file}")


def test_each_thread_has_a_count_of_its_own():
    with ThreadPoolExecutor(1) as other:
        assert f"/task/{threading.get_native_id()}/" in of_thread()
        assert f"/task/{other.submit(threading.get_native_id).result()}/" in other.submit(of_thread).result()
        assert f"/task/{threading.get_native_id()}/" in of_thread()


def test_a_process_that_is_forked_reads_its_own(script):
    done = script(FORKS)

    assert (done.returncode, done.stderr) == (0, "")
