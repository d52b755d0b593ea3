"""A signal that another thread receives is handled by a main thread that waits for something that never comes."""

import signal
import subprocess
import sys
import threading

from funken.cli.signals import waits_interrupted

DEAF = """\
import signal, threading
from funken.cli.signals import Signals

threading.Thread(target=threading.Event().wait, daemon=True).start()  # receives what the main thread does not
with Signals().handled():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    print("here", flush=True)
    threading.Event().wait()
"""


def test_a_main_thread_that_waits_for_ever_handles_a_signal_that_another_thread_has_received():
    with subprocess.Popen(
        [sys.executable, "-c", DEAF], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "here\n"
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=30)
        finally:
            child.kill()

    assert "Told" in said


def test_nothing_is_left_behind():
    threads, handler = threading.active_count(), signal.getsignal(signal.SIGURG)

    with waits_interrupted():
        assert signal.getsignal(signal.SIGURG) is not handler

    assert (threading.active_count(), signal.getsignal(signal.SIGURG)) == (threads, handler)
    assert signal.set_wakeup_fd(-1) == -1


def test_a_handler_of_the_program_stays():
    def mine(number, frame):
        pass

    before = signal.signal(signal.SIGURG, mine)
    try:
        with waits_interrupted():
            assert signal.getsignal(signal.SIGURG) is mine
    finally:
        signal.signal(signal.SIGURG, before)
