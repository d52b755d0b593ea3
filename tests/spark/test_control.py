"""The control connection, without Spark: who may speak, what is lost (nothing), and who notices the end."""

import contextlib
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing import AuthenticationError

import pytest

from funken import NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.errors import JobExecutionError, TaskLost
from funken.operators.coordinators import AddSplits, RequestSplits, SplitsDiscovered
from funken.runtime.driver.master import JobMaster
from funken.runtime.messages import (
    CoordinatorEvent,
    MetricsReport,
    OperatorEvent,
    TaskEnded,
    TaskFailed,
    TaskId,
    TaskOpening,
    TaskStarted,
    WorkerHeartbeat,
)
from funken.runtime.settings import HeartbeatSettings
from funken.spark import task_shell
from funken.spark.control import server as control_server
from funken.spark.control.channel import ANSWER, ControlClient, ServerHandshake, connect
from funken.spark.control.server import Acceptor, ControlServer
from funken.spark.control.tls import Credentials
from funken.spark.submit import _not_started

BOUND = 20
TASK = TaskId(0, 0)


class Master:
    """Records what it is told; answers a request for splits with an order."""

    def __init__(self):
        self.reports = []
        self.told = threading.Condition()
        self.errors = []

    def handle(self, event):
        with self.told:
            self.reports.append(event)
            self.told.notify_all()
        if isinstance(event, CoordinatorEvent) and event.payload == RequestSplits():
            return [(event.task, OperatorEvent(event.operator, event.subtask, AddSplits(("a",))))]
        if isinstance(event, CoordinatorEvent):
            raise KeyError("in handle")
        return []

    def fail(self, error, secondary=False):
        with self.told:
            self.errors.append(error)
            self.told.notify_all()

    def wait_for(self, kind):
        with self.told:
            assert self.told.wait_for(lambda: [r for r in self.reports if isinstance(r, kind)], BOUND)
            return next(event for event in self.reports if isinstance(event, kind))


def test_small_messages_are_not_held_back_until_others_are_acknowledged():
    admitted = queue.SimpleQueue()
    credentials = Credentials(b"k" * 32)
    with contextlib.closing(Acceptor(("127.0.0.1", 0), credentials, admitted.put)) as acceptor:
        ends = connect(acceptor.address, credentials, "the driver"), admitted.get(timeout=BOUND)
        for connection in ends:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            connection.close()


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
    with contextlib.closing(ControlClient(server.address, server.credentials)) as client:
        yield client


@pytest.fixture
def client_of():
    with contextlib.ExitStack() as clients:
        yield lambda server: clients.enter_context(
            contextlib.closing(ControlClient(server.address, server.credentials))
        )


class Orders:
    """What a client was told, and when the driver hung up."""

    def __init__(self, client):
        self.taken = []
        self.came = threading.Condition()
        client.listen(self.take)

    def take(self, command):
        with self.came:
            self.taken.append(command)
            self.came.notify_all()

    def wait_for(self, count):
        with self.came:
            assert self.came.wait_for(lambda: len(self.taken) >= count, BOUND)


def test_reports_go_up_and_orders_come_down(server, master, client):
    commands = Orders(client)
    client.send(TaskOpening(TASK, pid=1, host="h"))
    client.send(TaskStarted(TASK))
    client.send(CoordinatorEvent(TASK, operator=3, subtask=0, payload=RequestSplits()))
    commands.wait_for(1)

    assert [type(event) for event in master.reports] == [TaskOpening, TaskStarted, CoordinatorEvent]
    assert commands.taken == [OperatorEvent(3, 0, AddSplits(("a",)))]
    server.send(TaskId(9, 9), OperatorEvent(1, 0, SplitsDiscovered()))  # a task that is not there


def test_a_peer_without_the_key_is_not_heard(server, master):
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        ControlClient(server.address, Credentials(b"x" * 32))
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
    commands = Orders(client)
    client.send(TaskStarted(TASK))

    server.close()

    commands.wait_for(1)
    assert commands.taken == [None]


def test_a_worker_that_ends_without_a_word_is_lost(server, master):
    client = ControlClient(server.address, server.credentials)
    client.send(TaskOpening(TASK))
    master.wait_for(TaskOpening)

    client.close()

    failure = master.wait_for(TaskFailed)
    assert isinstance(failure.error, TaskLost)
    assert failure.secondary
    assert "the worker of stage 0, task 0 ended without a word" in str(failure.error)


def test_of_two_attempts_of_a_task_only_the_newer_is_heard(server, master):
    with (
        contextlib.closing(ControlClient(server.address, server.credentials)) as old,
        contextlib.closing(ControlClient(server.address, server.credentials)) as new,
    ):
        commands = Orders(old)
        old.send(TaskOpening(TASK, pid=1))
        master.wait_for(TaskOpening)
        new.send(TaskOpening(TASK, pid=2))
        commands.wait_for(1)
        with contextlib.suppress(OSError):
            old.send(TaskEnded(TASK))
        new.send(TaskStarted(TASK, pid=2))
        master.wait_for(TaskStarted)

        assert commands.taken == [None], "the driver has hung up on the old one"
        assert [type(event) for event in master.reports] == [TaskOpening, TaskOpening, TaskStarted]
        new.send(TaskEnded(TASK))
        master.wait_for(TaskEnded)


@pytest.mark.parametrize("last", [TaskEnded(TASK), TaskFailed(TASK, error=JobExecutionError("boom"))])
def test_a_last_report_is_never_lost(server, master, last):
    """Orders that the worker has not read must not reset the connection under the report."""
    for _ in range(30):
        master.reports.clear()
        client = ControlClient(server.address, server.credentials)
        client.listen(lambda command: None)
        client.send(TaskStarted(TASK))
        for _ in range(20):
            client.send(CoordinatorEvent(TASK, operator=1, payload=RequestSplits()))
        client.send(last)
        client.close()

        assert str(master.wait_for(type(last))) == str(last)
        assert not [r for r in master.reports if isinstance(r, TaskFailed) and isinstance(r.error, TaskLost)]


def test_a_driver_that_cannot_handle_a_report_fails_the_job(server, master, client):
    commands = Orders(client)
    client.send(CoordinatorEvent(TASK, payload=["x"], output=True))
    commands.wait_for(1)

    assert commands.taken == [None]
    (error,) = master.errors
    assert isinstance(error, JobExecutionError)
    assert "could not handle what stage 0, task 0 reported: KeyError: 'in handle'" in str(error)


def test_a_report_that_does_not_unpickle_fails_the_job(server, master, client):
    client.send(MetricsReport(TASK, vertices=Poison()))
    with master.told:
        assert master.told.wait_for(lambda: master.errors, BOUND)

    assert "could not handle what a task reported: ZeroDivisionError" in str(master.errors[0])


class Poison:
    def __reduce__(self):
        return divmod, (1, 0)


WORKER = """
import os, socket, sys, time
from funken.runtime.settings import HeartbeatSettings
from funken.runtime.messages import TaskOpening, TaskId
from funken.runtime.settings import TaskSettings
from funken.spark.control.channel import ControlClient
from funken.spark.control.tls import Credentials
from funken.spark.task_shell import Deployment, SharedWorker, TaskShell
port, key, interval, timeout = sys.argv[1:]
client = ControlClient(("127.0.0.1", int(port)), Credentials(bytes.fromhex(key)))
task = TaskId(0, 0)
client.send(TaskOpening(task, pid=os.getpid(), host=socket.gethostname()))
if int(timeout):
    settings = TaskSettings(heartbeat=HeartbeatSettings(int(interval), int(timeout)), cancel_grace=600_000)
    shell = TaskShell(Deployment(b"", settings, ("", 0), Credentials(b""), (), True), task, SharedWorker())
    client.start_heartbeats(task, settings.heartbeat, shell.stalled, shell.end_without_driver)
    shell._control = client
    client.listen(shell.take_order)
time.sleep(3600)
"""
"""A worker's process; with a timeout of 0 it neither listens nor sends heartbeats."""


@contextlib.contextmanager
def worker_process(address, credentials, interval=0, timeout=0):
    path = os.pathsep.join(filter(None, sys.path))
    arguments = [sys.executable, "-c", WORKER, str(address[1]), credentials.key.hex(), str(interval), str(timeout)]
    with subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_worker_that_reads_no_orders_holds_nobody_up(master, monkeypatch):
    monkeypatch.setattr("funken.spark.control.server._SEND_SECONDS", 0.2)
    server = ControlServer(master)
    with (
        contextlib.closing(ControlClient(server.address, server.credentials)) as deaf,
        contextlib.closing(ControlClient(server.address, server.credentials)) as other,
    ):
        commands = Orders(other)
        deaf.send(TaskStarted(TASK))
        master.wait_for(TaskStarted)
        other.send(TaskStarted(TaskId(0, 1)))
        other.send(MetricsReport(TaskId(0, 1)))
        master.wait_for(MetricsReport)
        told = threading.Event()

        def tell():
            server.send(TASK, OperatorEvent(1, 0, AddSplits((b"x" * 2**25,))))
            server.send(TaskId(0, 1), OperatorEvent(1, 0, SplitsDiscovered()))
            told.set()

        threading.Thread(target=tell, daemon=True).start()
        assert told.wait(BOUND / 4)

        commands.wait_for(1)
        assert commands.taken == [OperatorEvent(1, 0, SplitsDiscovered())]
        assert "stage 0, task 0 has taken no order for 0.2 s" in str(master.wait_for(TaskFailed).error)
        server.close()


def test_an_order_that_does_not_unpickle_is_told_and_the_next_is_heard(server, master, client):
    commands = Orders(client)
    client.send(TaskStarted(TASK))
    master.wait_for(TaskStarted)
    client.send(TaskOpening(TASK))
    master.wait_for(TaskOpening)

    server.send(TASK, OperatorEvent(1, 0, AddSplits((Poison(),))))
    server.send(TASK, OperatorEvent(1, 0, SplitsDiscovered()))

    commands.wait_for(2)
    assert isinstance(commands.taken[0], ZeroDivisionError)
    assert commands.taken[1] == OperatorEvent(1, 0, SplitsDiscovered())


def test_orders_to_one_worker_do_not_wait_for_another(server, master, client):
    with contextlib.closing(ControlClient(server.address, server.credentials)) as deaf:
        commands = Orders(client)
        client.send(TaskStarted(TaskId(0, 1)))
        deaf.send(TaskStarted(TASK))
        with master.told:
            assert master.told.wait_for(lambda: len(master.reports) == 2, BOUND)
        splits = (b"x" * 2**25,)
        stuck = threading.Thread(target=server.send, args=(TASK, OperatorEvent(1, 0, AddSplits(splits))), daemon=True)
        stuck.start()
        while not server._started[TASK].channel._sending.locked():  # it is at it
            assert stuck.is_alive()

        server.send(TaskId(0, 1), OperatorEvent(1, 0, SplitsDiscovered()))

        commands.wait_for(1)
        assert stuck.is_alive()
        Orders(deaf).wait_for(1)
        stuck.join(BOUND)


def test_a_worker_that_hears_nothing_is_killed(master):
    server = ControlServer(master)
    with worker_process(server.address, server.credentials) as process:
        assert master.wait_for(TaskOpening).pid == process.pid
        server.close()
        assert not server.wait_gone(0.1)

        server.kill_local()

        assert server.wait_gone(BOUND)
        assert process.wait(BOUND) == -9


# ---- heartbeats


@pytest.fixture
def beating(master):
    """A server with short heartbeats; a worker that runs is lost only on a machine that stands still for seconds."""
    with contextlib.closing(ControlServer(master, heartbeat=HeartbeatSettings(50, 1000))) as server:
        yield server
    assert server.wait_gone(BOUND)


def test_a_worker_that_is_stopped_is_lost_and_killed(beating, master):
    with worker_process(beating.address, beating.credentials, 50, 600_000) as process:
        master.wait_for(TaskOpening)
        process.send_signal(signal.SIGSTOP)

        failure = master.wait_for(TaskFailed)

        assert process.wait(BOUND) == -9
        assert isinstance(failure.error, TaskLost)
        assert not failure.secondary
        text = str(failure.error)
        assert f"the worker of stage 0, task 0 (process {process.pid} on {socket.gethostname()})" in text
        assert "has sent no heartbeat for 1." in text
        assert "It was killed." in text
        assert "raise heartbeat.timeout (1000 ms)" in text
        assert beating.wait_gone(BOUND)
        assert [type(event) for event in master.reports].count(TaskFailed) == 1


def test_while_the_master_is_busy_the_other_workers_get_heartbeats(beating, master, client_of, monkeypatch):
    client = client_of(beating)
    Orders(client)
    client.send(TaskOpening(TaskId(0, 1)))
    client.start_heartbeats(TaskId(0, 1), HeartbeatSettings(50, 600_000), lambda: 0.0, print)
    handle, busy, may_end = master.handle, threading.Event(), threading.Event()

    def handling(event):
        if isinstance(event, TaskFailed):
            busy.set()
            assert may_end.wait(BOUND)
        return handle(event)

    monkeypatch.setattr(master, "handle", handling)
    with worker_process(beating.address, beating.credentials, 50, 600_000) as process:
        with master.told:
            assert master.told.wait_for(lambda: len(master.reports) == 2, BOUND)
        process.send_signal(signal.SIGSTOP)
        assert busy.wait(BOUND)
        heard = threading.Semaphore(0)
        client._channel.progress = heard.release

        for _ in range(3):
            assert heard.acquire(timeout=BOUND)

        may_end.set()
        client.send(TaskEnded(TaskId(0, 1)))
        master.wait_for(TaskEnded)


def test_a_worker_on_another_machine_ends_itself_when_it_wakes(beating, master, monkeypatch):
    monkeypatch.setattr(control_server._Worker, "local_pid", None)
    with worker_process(beating.address, beating.credentials, 50, 1000) as process:
        master.wait_for(TaskOpening)
        process.send_signal(signal.SIGSTOP)
        assert "It ends itself as soon as it runs again." in str(master.wait_for(TaskFailed).error)
        assert process.poll() is None

        process.send_signal(signal.SIGCONT)

        assert process.wait(BOUND) == task_shell._GIVEN_UP, (
            "at once, long before the time that it has for an orderly end"
        )


def test_a_task_that_is_not_started_again_elsewhere_fails_the_job(beating, master, monkeypatch):
    """In a batch job Spark repeats what fails, but it does not see that a process is stopped."""
    monkeypatch.setattr(control_server._Worker, "local_pid", None)
    monkeypatch.setattr(control_server, "_REPEAT_SECONDS", 0.0)
    with worker_process(beating.address, beating.credentials, 50, 600_000) as process:
        master.wait_for(TaskOpening)
        process.send_signal(signal.SIGSTOP)
        with master.told:
            assert master.told.wait_for(lambda: master.errors, BOUND)
        assert master.errors == [master.wait_for(TaskFailed).error]


def test_a_worker_whose_driver_is_silent_ends_itself(monkeypatch):
    """A driver that is stopped: it has accepted the worker, and then neither reads nor sends."""
    key = Credentials(b"k" * 32)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        worker_process(listener.getsockname(), key, 50, 500) as process,
    ):
        connection, _ = listener.accept()
        with connection:
            handshake = ServerHandshake(key.key)
            connection.sendall(handshake.greeting)
            connection.sendall(handshake.take(connection.recv(ANSWER, socket.MSG_WAITALL)))

            _, err = process.communicate(timeout=BOUND)

    assert process.returncode == task_shell._GIVEN_UP
    assert b"the driver has sent no heartbeat to stage 0, task 0 for 0." in err
    assert b"(heartbeat.timeout)" in err


def test_heartbeats_are_no_orders_and_no_reports(beating, master):
    with contextlib.closing(ControlClient(beating.address, beating.credentials)) as client:
        commands = Orders(client)
        client.send(TaskOpening(TASK))
        beats = []
        client.start_heartbeats(TASK, HeartbeatSettings(10, 600_000), lambda: beats.append(1) or 0.0, print)
        heard = threading.Event()
        progress = client._channel.progress
        client._channel.progress = lambda: (progress(), heard.set())
        assert heard.wait(BOUND)
        while len(beats) < 3:
            assert not commands.taken
        client.send(TaskEnded(TASK))
        master.wait_for(TaskEnded)

    assert [type(event) for event in master.reports] == [TaskOpening, TaskEnded]
    commands.wait_for(1)
    assert commands.taken == [None]


def test_while_the_driver_handles_a_report_its_worker_is_not_silent(server, master, client, monkeypatch):
    """A reader of collected records that takes its time must not cost a worker its life."""
    silences = queue.SimpleQueue()

    def handle(event):
        (worker,) = server._workers
        silences.put(worker.peer.silence(control_server._now() + 1000))
        return []

    monkeypatch.setattr(master, "handle", handle)
    client.send(TaskOpening(TASK))
    client.send(MetricsReport(TASK))
    client.send(TaskEnded(TASK))

    assert [silences.get(timeout=BOUND) for _ in range(3)] == [0, 0, 0]


def test_a_task_at_the_same_step_for_long_is_told_of_once_and_not_lost(server, master, client, caplog):
    with caplog.at_level(logging.WARNING):
        client.send(TaskOpening(TASK))
        for stalled in (49.0, 50.0, 51.0, 0.0, 60.0):
            client.send(WorkerHeartbeat(TASK, stalled=stalled))
        client.send(TaskEnded(TASK))
        master.wait_for(TaskEnded)

    told = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[0] for text in told] == [
        "stage 0, task 0 is alive, but has been at the same step for 50 s",
        "stage 0, task 0 is alive, but has been at the same step for 60 s",
    ]
    assert [type(event) for event in master.reports] == [TaskOpening, TaskEnded]


def test_tasks_that_do_not_start_are_named_with_the_likely_cause():
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "n").rebalance().map(str)
    master = JobMaster(env.compile())
    master.handle(TaskOpening(TASK))

    text = str(_not_started(master, "here"))
    assert "2 of 2 tasks did not start in time (stage 0, task 0; stage 1, task 0)" in text
    assert "can its workers not reach the driver at here?" in text

    master.handle(TaskOpening(TaskId(1, 0)))
    assert "the open() of an operator has not come back" in str(_not_started(master, "here"))
