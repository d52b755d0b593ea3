"""Ctrl-C ends the waits of the main thread, also if the system hands the signal to another thread."""

import signal
import threading
from concurrent.futures import Future

import pytest

from funken.operators.coordinators import Collector
from funken.timing.clock import came, result_of


def interrupted_elsewhere(done):
    """Have another thread take a SIGINT while the main thread waits; end the wait if that did not."""

    def take():
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        too_late.wait(5)
        done()

    too_late = threading.Event()
    thread = threading.Timer(0.02, take)
    thread.start()
    return too_late, thread


@pytest.mark.parametrize("waits", ["a result", "collected records", "an event"])
def test_ctrl_c_that_another_thread_takes(waits):
    future, collector, event = Future(), Collector(), threading.Event()
    way = {
        "a result": lambda: result_of(future),
        "collected records": collector.get,
        "an event": lambda: came(event, 9),
    }
    too_late, thread = interrupted_elsewhere(lambda: (future.set_result(None), collector.end(), event.set()))
    try:
        with pytest.raises(KeyboardInterrupt):
            way[waits]()
        assert not future.done(), "it heard of Ctrl-C when the wait was over"
    finally:
        too_late.set()
        thread.join()


def test_a_result_and_an_error_pass_through():
    good, bad = Future(), Future()
    threading.Timer(0.01, lambda: good.set_result(5)).start()
    bad.set_exception(ValueError("wrong"))

    assert result_of(good) == 5
    with pytest.raises(ValueError, match="wrong"):
        result_of(bad)


def test_an_event_is_waited_for_so_long():
    event = threading.Event()
    assert not came(event, 0.01)
    event.set()
    assert came(event, 0)
