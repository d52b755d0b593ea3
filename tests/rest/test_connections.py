"""Peers that are slow, many, or both: each step of a request has a time limit, and clients that may ask are answered."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time

import pytest
from starlette.responses import Response

from funken.io.spill import Admission
from funken.rest.app import Guard
from funken.rest.connections import Limits, server
from funken.rest.settings import RestSettings

QUICK = Limits(handshake=0.2, headers=0.2, body=0.2, reading=0.2, closing=0.1)
TOKEN = "a" * 32
BOUND = 5.0
WHOLE = f"GET /x HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n".encode()
LARGE = b"x" * 30_000_000


async def app(scope, receive, send):
    body = b""
    while scope["path"] == "/body":
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        if not message["more_body"]:
            break
    await Response(LARGE if scope["path"] == "/large" else b"answer " + body)(scope, receive, send)


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:

        def begin(limits=QUICK, token=TOKEN, context=None):
            listener = socket.create_server(("127.0.0.1", 0))
            running = server(Guard(app, RestSettings(token=token), frozenset({"/large"})), context, limits)
            began = threading.Event()
            thread = threading.Thread(target=asyncio.run, args=(_serve(running, listener, began),), daemon=True)
            thread.start()
            assert began.wait(10)
            begin.running = running
            stack.callback(thread.join, 10)
            stack.callback(setattr, running, "should_exit", True)
            return listener.getsockname()

        yield begin


async def _serve(running, listener, began):
    startup = running.startup

    async def started(sockets=None):
        await startup(sockets)
        began.set()

    running.startup = started
    await running.serve(sockets=[listener])


def connected(address, *parts):
    peer = socket.create_connection(address, timeout=20)
    for part in parts:
        peer.sendall(part)
    return peer


def answer(peer):
    """Return what the server sends until it closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while data := peer.recv(1 << 20):
            found += data
    peer.close()
    return found


def ask(address, wrap=lambda peer: peer):
    """Return the answer to a whole request, and the seconds that it took."""
    began = time.monotonic()
    with wrap(connected(address)) as peer:
        peer.sendall(WHOLE + b"connection: close\r\n\r\n")
        found = answer(peer)
    return found, time.monotonic() - began


SLOW = {
    "nothing": [],
    "a part of the request line": [b"GET /x"],
    "a part of the headers": [WHOLE],
    "headers in pieces": [b"GET ", b"/x HTTP/1.1\r\nhost: ", b"localhost\r\nx-a: "],
    "a part of the body": [WHOLE.replace(b"GET /x", b"POST /body") + b"content-length: 10\r\n\r\n", b"12345"],
    "a part of a chunk": [WHOLE.replace(b"GET /x", b"POST /body") + b"transfer-encoding: chunked\r\n\r\nff\r\nabc"],
    "a body that waits for 100 Continue": [
        WHOLE.replace(b"GET /x", b"POST /body") + b"expect: 100-continue\r\ncontent-length: 10\r\n\r\n"
    ],
}


@pytest.mark.parametrize("how", SLOW)
def test_a_request_that_does_not_end_has_a_time_limit(serve, how, caplog):
    found = answer(connected(serve(), *SLOW[how]))

    assert found.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert not caplog.records


def test_a_byte_does_not_begin_the_time_anew(serve):
    peer = connected(serve(), WHOLE)
    peer.settimeout(0.02)
    for _ in range(1000):
        with contextlib.suppress(TimeoutError):
            assert peer.recv(12) == b"HTTP/1.1 408"
            break
        peer.sendall(b"x")
    else:
        pytest.fail("the time began anew")
    peer.close()


@pytest.mark.parametrize("second", [b"G", WHOLE])
def test_the_second_request_of_a_connection_has_a_limit_too(serve, second):
    found = answer(connected(serve(), WHOLE + b"\r\n" + second))

    assert found.startswith(b"HTTP/1.1 200 OK")
    assert found.endswith(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")


def test_a_body_of_a_request_that_was_answered_already_has_a_limit_too(serve):
    refused = b"POST /x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n123"

    assert answer(connected(serve(), refused)).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("end", [b"\r\n", b"connection: close\r\n\r\n"])
def test_a_peer_that_does_not_read_is_dropped(serve, end):
    address = serve()
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(20)
        peer.connect(address)
        peer.sendall(WHOLE.replace(b"/x", b"/large") + end)
        assert peer.recv(10) == b"HTTP/1.1 2"
        until(lambda: not serve.running.server_state.connections)

        assert len(answer(peer)) < len(LARGE)


def until(holds):
    for _ in range(1000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it does not come")


def test_a_peer_that_reads_slowly_has_its_answer(serve):
    with connected(serve(), WHOLE.replace(b"/x", b"/large") + b"connection: close\r\n\r\n") as peer:
        found = 0
        while data := peer.recv(100_000):
            found += len(data)

    assert found > len(LARGE)


@pytest.fixture
def secured(serve, tmp_path, certificate_in):
    """Begin a server with TLS; return its address, and what does the client's side of the handshake."""
    certificate, key = certificate_in(tmp_path, "server", 30)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(certificate, key)
    theirs = ssl.create_default_context(cafile=str(certificate))
    return lambda limits=QUICK: (
        serve(limits, context=ours),
        lambda peer: theirs.wrap_socket(peer, server_hostname="localhost"),
    )


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET /x HTTP/1.1\r\n\r\n"])
def test_a_handshake_that_does_not_end_has_a_time_limit(secured, sent, caplog):
    address, _ = secured()

    assert b"HTTP" not in answer(connected(address, sent))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_requests_over_tls_have_time_limits_too(secured):
    address, wrap = secured()
    with wrap(connected(address)) as peer:
        peer.sendall(WHOLE + b"\r\n" + WHOLE)
        found = answer(peer)

    assert found.startswith(b"HTTP/1.1 200 OK")
    assert b"HTTP/1.1 408" in found


def test_a_client_is_answered_among_peers_that_do_no_handshake(secured):
    address, wrap = secured(Limits())
    slow = [connected(address, b"\x16\x03\x01") for _ in range(600)]

    found, seconds = ask(address, wrap)

    assert found.startswith(b"HTTP/1.1 200 OK")
    assert seconds < BOUND
    for peer in slow:
        peer.close()


def test_a_client_that_may_ask_is_answered_at_once_among_hundreds_of_slow_ones(serve):
    """No time limit of a request comes to its help; the bound is for a machine that does ten things at once."""
    address = serve(Limits(headers=600, body=600))
    slow = [connected(address, WHOLE[:40]) for _ in range(500)]
    answers = []
    for _ in range(20):
        slow += [connected(address, WHOLE[:40]) for _ in range(10)]
        answers.append(ask(address))
    for peer in slow:
        peer.close()

    assert all(found.startswith(b"HTTP/1.1 200 OK") for found, _ in answers)
    assert max(seconds for _, seconds in answers) < BOUND


def read_one(peer):
    found = b""
    while not found.endswith(b"\r\n\r\nanswer "):
        data = peer.recv(1000)
        assert data, "the connection was closed"
        found += data


def test_a_known_connection_stays_while_strangers_come_and_go(serve):
    address = serve(Limits(headers=30))
    with connected(address, WHOLE + b"\r\n") as known:
        read_one(known)
        strangers = [connected(address, b"GET") for _ in range(600)]
        known.sendall(WHOLE + b"\r\n")
        read_one(known)
    for peer in strangers:
        peer.close()


# ---- which connection is dropped


def opened(admission, *connections):
    return [admission.opened(name, peer, now) for name, peer, now in connections]


def test_the_oldest_stranger_of_the_peer_with_most_is_dropped():
    admission = Admission(capacity=4, per_peer=10)
    opened(admission, ("one", "b", 0), ("a1", "a", 1), ("a2", "a", 2), ("a3", "a", 3))

    assert opened(admission, ("a4", "a", 10), ("b2", "b", 10), ("c", "c", 10)) == ["a1", "a2", "one"]


def test_a_peer_has_a_limit_of_its_own():
    admission = Admission(capacity=100, per_peer=2)

    assert opened(admission, *((n, "a", n) for n in range(4)), ("other", "b", 5)) == [None, None, 0, 1, None]


def test_young_strangers_stay_until_there_are_twice_as_many():
    admission = Admission(capacity=2, per_peer=10)

    assert opened(admission, *((n, "a", 0.1) for n in range(6))) == [None, None, None, None, 0, 1]


def test_known_connections_go_last_and_the_one_that_is_used_least_first():
    admission = Admission(capacity=2, per_peer=10)
    opened(admission, ("x", "a", 0), ("y", "a", 0))
    for name in ("x", "y", "x"):
        admission.know(name)

    assert opened(admission, ("stranger", "b", 9)) == ["y"]
    assert opened(admission, ("next", "b", 10)) == ["stranger"]
    admission.know("y")  # which is gone
    assert len(admission) == 2
    for name in ("x", "next", "stranger"):
        admission.closed(name)
    assert len(admission) == 0
