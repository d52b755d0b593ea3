"""A pool of threads that do not keep the process alive."""

import subprocess
import sys
import threading

import pytest

from funken.io.threads import DaemonThreadPool

BOUND = 30

STUCK = """\
import threading
from funken.io.threads import DaemonThreadPool

begun = threading.Event()
pool = DaemonThreadPool(1, "stuck")
pool.submit(lambda: begun.set() or threading.Event().wait())
begun.wait()
pool.shutdown(wait=False)
"""


def test_the_process_ends_while_a_call_does_not_return():
    assert subprocess.run([sys.executable, "-c", STUCK], timeout=BOUND, check=False).returncode == 0


def test_calls_run_side_by_side_up_to_the_limit():
    pool, meeting = DaemonThreadPool(3, "side by side"), threading.Barrier(3)

    futures = [pool.submit(meeting.wait, BOUND) for _ in range(6)]

    assert sorted(future.result(BOUND) for future in futures) == [0, 0, 1, 1, 2, 2]
    pool.shutdown()


def test_one_thread_calls_in_order():
    pool, seen = DaemonThreadPool(1, "one"), []

    for number in range(100):
        pool.submit(seen.append, number)
    pool.shutdown()

    assert seen == list(range(100))


def test_calls_that_wait_are_cancelled_on_request():
    pool, gate = DaemonThreadPool(1, "cancelled"), threading.Event()
    running = pool.submit(gate.wait, BOUND)
    waiting = pool.submit(pytest.fail, "it was cancelled")

    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()

    assert waiting.cancelled()
    assert running.result(BOUND)


def test_a_failure_is_raised_where_the_result_is_asked_for():
    pool = DaemonThreadPool(1, "failing")

    assert isinstance(pool.submit(int, "x").exception(BOUND), ValueError)
    assert pool.submit(int, "7").result(BOUND) == 7
    pool.shutdown()


def test_a_closed_pool_takes_no_calls():
    pool = DaemonThreadPool(1, "closed")
    pool.shutdown()

    with pytest.raises(RuntimeError, match="'closed' take no calls after shutdown"):
        pool.submit(int)
