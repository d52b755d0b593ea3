"""The control port under attack: peers that do not know the key cost nothing that matters, and workers get in."""

import contextlib
import errno
import hmac
import logging
import socket
import struct
import threading
from multiprocessing import AuthenticationError

import pytest

from funken.errors import MessageTooLarge, TaskLost
from funken.runtime.messages import TaskId, TaskOpening
from funken.spark.control import channel as control_client
from funken.spark.control import server as acceptor
from funken.spark.control.channel import (
    ANSWER,
    DENIED,
    GREETING,
    PROTOCOL,
    ControlClient,
    ServerHandshake,
    answer_to,
    authenticate,
)
from funken.spark.control.server import ControlServer
from funken.spark.control.tls import Credentials

BOUND = 20
TASK = TaskId(0, 0)
KEY = b"k" * 32


class Master:
    """Notes who opens."""

    def __init__(self):
        self.opened = []
        self.changed = threading.Condition()

    def handle(self, event):
        with self.changed:
            if isinstance(event, TaskOpening):
                self.opened.append(event.task)
            self.changed.notify_all()
        return []

    def fail(self, error, secondary=False):
        raise AssertionError(error)

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.opened) >= count, BOUND)


@pytest.fixture
def master():
    return Master()


@pytest.fixture
def server(master):
    with contextlib.closing(ControlServer(master)) as server:
        yield server
    assert server.wait_gone(BOUND)


def connected(server):
    return socket.create_connection(server.address, BOUND)


def gets_in(server, master, count=1):
    before = len(master.opened)
    for number in range(count):
        with contextlib.closing(ControlClient(server.address, server.credentials)) as client:
            client.send(TaskOpening(TaskId(0, number), pid=1))
            master.wait_for(before + number + 1)


def is_hung_up_on(peer):
    peer.settimeout(BOUND)
    with contextlib.suppress(ConnectionError):
        while peer.recv(1000):
            pass


# ---- the port


def test_idle_connections_cost_no_threads_and_workers_get_in(server, master):
    threads = threading.active_count()
    with contextlib.ExitStack() as idle:
        for _ in range(1500):
            idle.enter_context(connected(server))

        gets_in(server, master, 10)

        assert threading.active_count() <= threads + 10


@pytest.mark.parametrize("garbage", [b"", b"\xff" * 16, b"GET / HTTP/1.1\r\n\r\n" * 1000])
def test_workers_get_in_while_the_port_is_hammered(server, master, garbage):
    over = threading.Event()
    attempts = []

    def attack():
        idle = []
        while not over.is_set():
            with contextlib.suppress(OSError):
                peer = connected(server)
                peer.sendall(garbage)
                idle.append(peer)
                attempts.append(1)
            if len(idle) >= 700:
                for peer in idle:
                    peer.close()
                idle.clear()
        for peer in idle:
            peer.close()

    attackers = [threading.Thread(target=attack, daemon=True) for _ in range(2)]
    for attacker in attackers:
        attacker.start()
    try:
        gets_in(server, master, 10)
        while len(attempts) < 1000:
            gets_in(server, master)
    finally:
        over.set()
        for attacker in attackers:
            attacker.join(BOUND)


def test_of_more_peers_than_may_be_in_handshake_the_oldest_is_dropped(server, master, monkeypatch):
    monkeypatch.setattr(acceptor, "MOST", 2)
    with connected(server) as first, connected(server) as second:
        assert first.recv(GREETING, socket.MSG_WAITALL)
        assert second.recv(GREETING, socket.MSG_WAITALL)
        with connected(server) as third:
            assert third.recv(GREETING, socket.MSG_WAITALL)

            is_hung_up_on(first)
            second.settimeout(0)
            with pytest.raises(BlockingIOError):
                second.recv(1)


def test_a_handshake_that_trickles_is_ended_in_all(master, monkeypatch):
    monkeypatch.setattr(acceptor, "HANDSHAKE_SECONDS", 0.3)
    server = ControlServer(master)
    over = threading.Event()
    with connected(server) as peer:

        def trickle():
            with contextlib.suppress(OSError):
                while not over.wait(0.02):
                    peer.send(b"x")

        sender = threading.Thread(target=trickle, daemon=True)
        sender.start()

        is_hung_up_on(peer)

        over.set()
        sender.join(BOUND)
    server.close()
    assert server.wait_gone(BOUND)


def test_when_descriptors_run_out_accepting_pauses_and_goes_on(server, master, monkeypatch, caplog):
    calls = []
    out = threading.Event()
    out.set()
    accept = socket.socket.accept

    def accepting(self):
        calls.append(1)
        if out.is_set():
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", accepting)
    with caplog.at_level(logging.WARNING), connected(server) as early:
        threading.Event().wait(0.5)  # long enough for a loop that does not pause to go round thousands of times
        assert 0 < len(calls) < 20

        out.clear()
        assert early.recv(GREETING, socket.MSG_WAITALL).startswith(PROTOCOL)
        gets_in(server, master)

    (warning,) = [record.getMessage() for record in caplog.records if "control port" in record.getMessage()]
    assert "cannot accept connections: [Errno 24] Too many open files" in warning
    assert "ulimit -n" in warning


def test_a_worker_that_is_dropped_in_the_handshake_connects_again(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as admitted:

        def drop_and_admit():
            listener.accept()[0].close()
            handshake = ServerHandshake(KEY)
            connection = admitted.enter_context(listener.accept()[0])
            connection.sendall(handshake.greeting)
            connection.sendall(handshake.take(connection.recv(ANSWER, socket.MSG_WAITALL)))

        thread = threading.Thread(target=drop_and_admit, daemon=True)
        thread.start()

        control_client.connect(listener.getsockname(), Credentials(KEY), "the driver").close()

        thread.join(BOUND)
        assert not thread.is_alive()


def test_a_driver_that_does_not_listen_any_more_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

    with pytest.raises(TaskLost, match=rf"cannot be reached at 127\.0\.0\.1:{address[1]}: .*[Rr]efused"):
        ControlClient(address, Credentials(KEY))


# ---- the handshake


def test_each_side_proves_that_it_knows_the_key():
    handshake = ServerHandshake(KEY)
    answer, proof = answer_to(handshake.greeting, KEY)

    assert [handshake.take(answer[at : at + 1]) for at in range(ANSWER - 1)] == [None] * (ANSWER - 1)
    assert handshake.take(answer[-1:]) == proof
    assert handshake.accepted


@pytest.mark.parametrize("broken", [0, 31, 32, 63])
def test_a_changed_answer_is_denied(broken):
    handshake = ServerHandshake(KEY)
    answer = bytearray(answer_to(handshake.greeting, KEY)[0])
    answer[broken] ^= 1

    assert handshake.take(bytes(answer)) == DENIED
    assert not handshake.accepted


def test_what_the_driver_signs_is_no_answer():
    """Neither of another handshake, nor with the roles exchanged."""
    first, second = ServerHandshake(KEY), ServerHandshake(KEY)
    answer, proof = answer_to(first.greeting, KEY)

    assert second.take(answer) == DENIED
    assert ServerHandshake(KEY).take(answer[:32] + proof) == DENIED


def test_a_worker_with_another_key_is_denied_at_once(server):
    with pytest.raises(AuthenticationError, match="key of another job"):
        ControlClient(server.address, Credentials(KEY))


def test_a_driver_that_does_not_know_the_key_is_not_believed():
    near, far = socket.socketpair()
    with near, far:
        far.sendall(ServerHandshake(b"other").greeting + hmac.digest(b"other", b"", "sha256"))
        with pytest.raises(AuthenticationError, match="does not know the job's key"):
            authenticate(near, KEY, lambda: BOUND)


def test_a_driver_of_another_version_is_named():
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"funken-control 2" + bytes(32))
        with pytest.raises(AuthenticationError, match="the same version of Funken"):
            authenticate(near, KEY, lambda: BOUND)


# ---- messages


def test_a_length_that_lies_is_refused_and_named(monkeypatch):
    errors = []
    told = threading.Event()

    class Failing(Master):
        def fail(self, error, secondary=False):
            errors.append(error)
            told.set()

    server = ControlServer(Failing())
    connection = control_client.connect(server.address, server.credentials, "the driver")
    with connection:
        connection.sendall(struct.pack("!I", 0xFFFFFFFF) + b"x" * 100)
        assert told.wait(BOUND)
        is_hung_up_on(connection)
    assert "a message of 4294967295 bytes was announced" in str(errors[0])
    server.close()
    assert server.wait_gone(BOUND)


def test_a_report_that_is_too_large_is_refused_where_it_is_sent(server, monkeypatch):
    monkeypatch.setattr("funken.spark.control.channel.LARGEST", 1000)
    with contextlib.closing(ControlClient(server.address, server.credentials)) as client:
        with pytest.raises(MessageTooLarge, match="Opening has .* bytes, and the control connection carries up to"):
            client.send(TaskOpening(TASK, host="x" * 1000))
        client.send(TaskOpening(TASK))
