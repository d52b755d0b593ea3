"""A handler of the program for a signal that ends the program: no function has failed, and the job does not restart."""

import functools
import signal
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.api.jobs.results import watch_jobs
from funken.errors import OperatorFailed
from funken.runtime.driver import local_runner


class End(Exception):
    pass


def leave(number, frame):
    sys.exit(7)


def fail(number, frame, *, text="at once"):
    raise End(text)


class Handler:
    def __call__(self, number, frame):
        raise End("by an object")

    def method(self, number, frame):
        raise End("by a method")


def plain(number):
    signal.raise_signal(signal.SIGUSR1)
    return number


def converting(number):
    try:
        signal.raise_signal(signal.SIGUSR1)
    except BaseException as error:
        raise ValueError("not a number") from error


def cleaning(number):
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        [][number]


@pytest.fixture
def handled():
    """Set a handler of SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


def run(function, target="local"):
    """Run an endless job that is restarted for ever."""
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": target, "parallelism.default": 1, "restart-strategy.type": "fixed-delay",
                       "restart-strategy.fixed-delay.attempts": 20, "restart-strategy.fixed-delay.delay": "0 ms"})
    )  # fmt: skip
    env.enable_checkpointing(100)
    numbers = env.from_source(DataGeneratorSource(lambda index: index), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(function).for_each(id)
    client = env._submit("signalled")
    try:
        client.run()
    finally:
        assert client.get_job_status().result().name == "SUSPENDED"
        assert client._job.machine.attempt == 0


@pytest.mark.parametrize("function", [plain, converting, cleaning])
@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (leave, SystemExit),
        (fail, End),
        (functools.partial(fail, text="later"), End),
        (Handler(), End),
        (Handler().method, End),
        (signal.default_int_handler, KeyboardInterrupt),
    ],
)
def test_the_exception_of_a_handler_ends_the_job(handled, handler, error, function):
    handled(handler)

    with pytest.raises({plain: error, converting: ValueError, cleaning: IndexError}[function]):
        run(function)


@pytest.mark.parametrize(("handler", "error"), [(leave, SystemExit), (fail, End)])
def test_the_exception_of_a_handler_ends_the_wait_before_a_restart(handled, handler, error, monkeypatch):
    handled(handler)
    monkeypatch.setattr(local_runner, "came", lambda event, seconds: signal.raise_signal(signal.SIGUSR1))

    with pytest.raises(error):
        run(lambda number: 1 // 0)


class Closing:
    """Python cannot raise an exception of ``__del__``, as of a callback within an import."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_that_python_ignored_ends_the_job():
    with pytest.raises(KeyboardInterrupt):
        run(lambda number: Closing() if number == 3 else number)


@contextmanager
def signalled(client):
    """Send the signal when all tasks of a job run."""

    def send():
        until = time.monotonic() + 100
        while time.monotonic() < until:
            if all(each.state.name == "RUNNING" for vertex in client.snapshot().vertices for each in vertex.subtasks):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
                return
            threading.Event().wait(0.05)

    threading.Thread(target=send, daemon=True).start()
    yield


@pytest.mark.spark
@pytest.mark.parametrize(("handler", "error"), [(leave, SystemExit), (fail, End)])
def test_the_exception_of_a_handler_ends_a_job_on_spark(handled, handler, error):
    handled(handler)

    with watch_jobs(signalled), pytest.raises(error):
        run(str, "continuous")

    assert [each.name for each in threading.enumerate() if each.name == "funken-spark"] == []


def test_an_exit_of_a_function_is_its_failure(handled):
    handled(leave)

    def stop(number):
        sys.exit(3)

    with pytest.raises(OperatorFailed, match="SystemExit: 3"):
        env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        env.from_collection([1]).map(stop).print()
        env.execute()
