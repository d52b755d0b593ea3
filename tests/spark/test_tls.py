"""Connections between the processes of a job under TLS: who gets in, what is on the wire, two threads at one end."""

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading

import pytest

from funken.runtime.messages import TaskId, TaskOpening, TaskStarted
from funken.spark.control.channel import Channel, ControlClient, HungUp, connect
from funken.spark.control.server import ControlServer
from funken.spark.control.tls import Credentials, TlsConnection

BOUND = 20


@pytest.fixture(scope="module")
def credentials():
    return Credentials.new(encrypted=True)


@contextlib.contextmanager
def pair(near_credentials, far_credentials, seconds=BOUND):
    """Both ends after their TLS handshakes, or what was raised at each."""
    near, far = socket.socketpair()
    found = {}

    def serve():
        try:
            found["far"] = far_credentials.secure(far, server=True, seconds=seconds)
        except OSError as error:
            found["far"] = error

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        found["near"] = near_credentials.secure(near, server=False, seconds=seconds)
        if isinstance(found["near"], TlsConnection):
            with contextlib.suppress(OSError, HungUp):
                thread.join(BOUND)
    except OSError as error:
        found["near"] = error
    thread.join(BOUND)
    try:
        yield found["near"], found["far"]
    finally:
        near.close()
        far.close()


def test_messages_of_all_sizes_go_both_ways_at_once(credentials):
    with pair(credentials, credentials) as (near, far):
        one, other = Channel(near), Channel(far)
        sizes = [0, 1, 16_000, 70_000, 300_000, 5_000_000]
        arrived = {}

        def exchange(name, channel):
            sender = threading.Thread(target=lambda: [channel.send(os.urandom(1) * size) for size in sizes])
            sender.start()
            arrived[name] = [len(channel.receive()) for _ in sizes]
            sender.join(BOUND)

        threads = [
            threading.Thread(target=exchange, args=each, daemon=True) for each in (("one", one), ("other", other))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)
        assert arrived == {"one": sizes, "other": sizes}
        one.close()
        with pytest.raises(HungUp):
            other.receive()


def test_a_peer_with_another_certificate_is_refused_on_both_sides(credentials):
    stranger = Credentials(credentials.key, Credentials.new(encrypted=True).certificate)
    with pair(stranger, credentials) as (near, far):
        assert isinstance(near, ssl.SSLError)
        assert isinstance(far, OSError)


def test_a_peer_without_a_certificate_is_refused_by_the_driver(credentials):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    near, far = socket.socketpair()
    with near, far:
        thread = threading.Thread(target=_talk, args=(near, context))
        thread.start()
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
            credentials.secure(far, server=True, seconds=BOUND)
        thread.join(BOUND)


def _talk(connection, context):
    with contextlib.suppress(OSError):
        TlsConnection(connection, context, server=False, seconds=BOUND).sendall(b"let me in")


def test_a_peer_that_says_nothing_is_given_up(credentials):
    near, far = socket.socketpair()
    with near, pytest.raises(TimeoutError):
        credentials.secure(far, server=True, seconds=0.05)
    assert far.fileno() == -1


def test_what_travels_cannot_be_read(credentials):
    """A relay between two ends sees nothing of the message."""
    client, relay_client = socket.socketpair()
    relay_server, server = socket.socketpair()
    seen = bytearray()

    def carry(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                seen.extend(data)
                target.sendall(data)

    for ends in ((relay_client, relay_server), (relay_server, relay_client)):
        threading.Thread(target=carry, args=ends, daemon=True).start()
    found = []
    thread = threading.Thread(target=lambda: found.append(credentials.secure(server, server=True)), daemon=True)
    thread.start()
    near = credentials.secure(client, server=False)
    thread.join(BOUND)
    Channel(near).send("a secret of 23 letters.")
    assert Channel(found[0]).receive() == "a secret of 23 letters."
    assert len(seen) > 500
    assert b"a secret of" not in seen
    for end in (client, relay_client, relay_server, server):
        end.close()


class Master:
    def __init__(self):
        self.events = []
        self.came = threading.Event()

    def handle(self, event):
        self.events.append(event)
        if isinstance(event, TaskStarted):
            self.came.set()
        return []

    def fail(self, error):
        self.events.append(error)


def test_a_worker_of_the_job_is_heard():
    master = Master()
    with contextlib.closing(ControlServer(master, encrypted=True)) as server:
        with contextlib.closing(ControlClient(server.address, server.credentials)) as client:
            client.send(TaskOpening(TaskId(0, 0)))
            client.send(TaskStarted(TaskId(0, 0)))
            assert master.came.wait(BOUND)
        assert server.wait_gone(BOUND)


def test_who_knows_the_key_but_not_the_certificate_can_send_nothing():
    master = Master()
    with contextlib.closing(ControlServer(master, encrypted=True)) as server:
        plain = Channel(connect(server.address, Credentials(server.credentials.key), "the driver"))
        plain.send(TaskOpening(TaskId(0, 0)))
        with pytest.raises(HungUp):
            plain.receive()
        plain.close()
        assert master.events == []


def test_keys_are_in_no_text(credentials):
    assert repr(credentials) == "Credentials(...)"


def test_without_the_package_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from funken.spark.control.tls import Credentials\n"
        "Credentials.new(encrypted=True)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "EncryptionNotAvailable" in done.stderr
    assert "pip install 'funken[tls]'" in done.stderr
