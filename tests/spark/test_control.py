"""The control connection, without Spark: who may speak, what is lost (nothing), and who notices the end."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from multiprocessing import AuthenticationError

import pytest

from funken import NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.errors import JobExecutionError, TaskLost
from funken.runtime.master import JobMaster
from funken.runtime.messages import (
    AddSplits,
    Failed,
    Finished,
    Measured,
    Opening,
    Printed,
    SplitsFound,
    SplitsWanted,
    Started,
    TaskId,
)
from funken.spark.control import ControlClient, ControlServer
from funken.spark.submit import _not_started

BOUND = 20
TASK = TaskId(0, 0)


class Master:
    """Records what it is told; answers a request for splits with an order."""

    def __init__(self):
        self.reports = []
        self.told = threading.Condition()
        self.errors = []

    def handle(self, report):
        with self.told:
            self.reports.append(report)
            self.told.notify_all()
        if isinstance(report, SplitsWanted):
            return [(report.task, AddSplits(report.operator, report.subtask, splits=("a",)))]
        if isinstance(report, Printed):
            raise KeyError("in handle")
        return []

    def fail(self, error, secondary=False):
        with self.told:
            self.errors.append(error)
            self.told.notify_all()

    def wait_for(self, kind):
        with self.told:
            assert self.told.wait_for(lambda: [r for r in self.reports if isinstance(r, kind)], BOUND)
            return next(report for report in self.reports if isinstance(report, kind))


@pytest.fixture
def master():
    return Master()


@pytest.fixture
def server(master):
    with contextlib.closing(ControlServer(master)) as server:
        yield server
    assert server.wait_gone(BOUND)


@pytest.fixture
def client(server):
    with contextlib.closing(ControlClient(server.address, server.authkey)) as client:
        yield client


class Orders:
    """What a client was told, and when the driver hung up."""

    def __init__(self, client):
        self.taken = []
        self.came = threading.Condition()
        client.listen(self.take)

    def take(self, order):
        with self.came:
            self.taken.append(order)
            self.came.notify_all()

    def wait_for(self, count):
        with self.came:
            assert self.came.wait_for(lambda: len(self.taken) >= count, BOUND)


def test_reports_go_up_and_orders_come_down(server, master, client):
    orders = Orders(client)
    client.send(Opening(TASK, pid=1, host="h"))
    client.send(Started(TASK))
    client.send(SplitsWanted(TASK, operator=3, subtask=0))
    orders.wait_for(1)

    assert [type(report) for report in master.reports] == [Opening, Started, SplitsWanted]
    assert orders.taken == [AddSplits(3, 0, splits=("a",))]
    server.tell(TaskId(9, 9), SplitsFound(1))  # a task that is not there


def test_a_peer_without_the_key_is_not_heard(server, master):
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        ControlClient(server.address, b"x" * 32)
    with socket.create_connection(server.address, BOUND) as peer:
        peer.sendall(b"\x00\x00\x00\x10garbage garbage!" * 4)
        peer.settimeout(BOUND)
        with contextlib.suppress(ConnectionError):
            while peer.recv(1000):
                pass

    assert master.reports == master.errors == []


def test_a_peer_that_says_nothing_does_not_hold_up_the_end(master):
    server = ControlServer(master)
    with socket.create_connection(server.address, BOUND):
        server.close()
        assert server.wait_gone(BOUND)


def test_the_driver_hanging_up_is_heard(server, client):
    orders = Orders(client)
    client.send(Started(TASK))

    server.close()

    orders.wait_for(1)
    assert orders.taken == [None]


def test_a_worker_that_ends_without_a_word_is_lost(server, master):
    client = ControlClient(server.address, server.authkey)
    client.send(Opening(TASK))
    master.wait_for(Opening)

    client.close()

    failure = master.wait_for(Failed)
    assert isinstance(failure.error, TaskLost)
    assert failure.secondary
    assert "the worker of level 0, task 0 ended without a word" in str(failure.error)


def test_of_two_attempts_of_a_task_only_the_newer_is_heard(server, master):
    with (
        contextlib.closing(ControlClient(server.address, server.authkey)) as old,
        contextlib.closing(ControlClient(server.address, server.authkey)) as new,
    ):
        orders = Orders(old)
        old.send(Opening(TASK, pid=1))
        master.wait_for(Opening)
        new.send(Opening(TASK, pid=2))
        orders.wait_for(1)
        with contextlib.suppress(OSError):
            old.send(Finished(TASK))
        new.send(Started(TASK, pid=2))
        master.wait_for(Started)

        assert orders.taken == [None], "the driver has hung up on the old one"
        assert [type(report) for report in master.reports] == [Opening, Opening, Started]
        new.send(Finished(TASK))
        master.wait_for(Finished)


@pytest.mark.parametrize("last", [Finished(TASK), Failed(TASK, error=JobExecutionError("boom"))])
def test_a_last_report_is_never_lost(server, master, last):
    """Orders that the worker has not read must not reset the connection under the report."""
    for _ in range(30):
        master.reports.clear()
        client = ControlClient(server.address, server.authkey)
        client.listen(lambda order: None)
        client.send(Started(TASK))
        for _ in range(20):
            client.send(SplitsWanted(TASK, operator=1))
        client.send(last)
        client.close()

        assert str(master.wait_for(type(last))) == str(last)
        assert not [r for r in master.reports if isinstance(r, Failed) and isinstance(r.error, TaskLost)]


def test_a_driver_that_cannot_handle_a_report_fails_the_job(server, master, client):
    orders = Orders(client)
    client.send(Printed(TASK, lines=("x",)))
    orders.wait_for(1)

    assert orders.taken == [None]
    (error,) = master.errors
    assert isinstance(error, JobExecutionError)
    assert "could not handle what level 0, task 0 reported: KeyError: 'in handle'" in str(error)


def test_a_report_that_does_not_unpickle_fails_the_job(server, master, client):
    client.send(Measured(TASK, vertices=Poison()))
    with master.told:
        assert master.told.wait_for(lambda: master.errors, BOUND)

    assert "could not handle what a task reported: ZeroDivisionError" in str(master.errors[0])


class Poison:
    def __reduce__(self):
        return divmod, (1, 0)


DEAF = """
import os, sys
from funken.runtime.messages import Opening, TaskId
from funken.spark.control import ControlClient
import socket, time
client = ControlClient(("127.0.0.1", int(sys.argv[1])), bytes.fromhex(sys.argv[2]))
client.send(Opening(TaskId(0, 0), pid=os.getpid(), host=socket.gethostname()))
time.sleep(3600)
"""


def test_a_worker_that_reads_no_orders_holds_nobody_up(master, monkeypatch):
    monkeypatch.setattr("funken.spark.control._SEND_SECONDS", 0.2)
    server = ControlServer(master)
    with (
        contextlib.closing(ControlClient(server.address, server.authkey)) as deaf,
        contextlib.closing(ControlClient(server.address, server.authkey)) as other,
    ):
        orders = Orders(other)
        deaf.send(Started(TASK))
        master.wait_for(Started)
        other.send(Started(TaskId(0, 1)))
        other.send(Measured(TaskId(0, 1)))
        master.wait_for(Measured)
        told = threading.Event()

        def tell():
            server.tell(TASK, AddSplits(1, 0, splits=(b"x" * 2**25,)))
            server.tell(TaskId(0, 1), SplitsFound(1))
            told.set()

        threading.Thread(target=tell, daemon=True).start()
        assert told.wait(BOUND / 4)

        orders.wait_for(1)
        assert orders.taken == [SplitsFound(1)]
        assert "level 0, task 0 has taken no order for 0.2 s" in str(master.wait_for(Failed).error)
        server.close()


def test_an_order_that_does_not_unpickle_is_told_and_the_next_is_heard(server, master, client):
    orders = Orders(client)
    client.send(Started(TASK))
    master.wait_for(Started)
    client.send(Opening(TASK))
    master.wait_for(Opening)

    server.tell(TASK, AddSplits(1, 0, splits=(Poison(),)))
    server.tell(TASK, SplitsFound(1))

    orders.wait_for(2)
    assert isinstance(orders.taken[0], ZeroDivisionError)
    assert orders.taken[1] == SplitsFound(1)


def test_a_worker_that_hears_nothing_is_killed(master):
    server = ControlServer(master)
    path = os.pathsep.join(filter(None, sys.path))
    arguments = [sys.executable, "-c", DEAF, str(server.address[1]), server.authkey.hex()]
    with subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": path}) as worker:
        assert master.wait_for(Opening).pid == worker.pid
        server.close()
        assert not server.wait_gone(0.1)

        server.kill_local()

        assert server.wait_gone(BOUND)
        assert worker.wait(BOUND) == -9


def test_tasks_that_do_not_start_are_named_with_the_likely_cause():
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "n").rebalance().map(str)
    master = JobMaster(env.compile())
    master.handle(Opening(TASK))

    text = str(_not_started(master, "here"))
    assert "2 of 2 tasks did not start in time (level 0, task 0; level 1, task 0)" in text
    assert "can its workers not reach the driver at here?" in text

    master.handle(Opening(TaskId(1, 0)))
    assert "the open() of an operator has not come back" in str(_not_started(master, "here"))
