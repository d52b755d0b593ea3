import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from funken.connectors.base import NEED_SPLITS, Boundedness, ConnectorContext, Wait
from funken.connectors.sockets import SocketReader, SocketSource, SocketSplit
from funken.errors import InvalidProgram, SourceNotReadable

CONTEXT = ConnectorContext("words", 0, 1)


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr(SocketReader, "first_pause_s", 0.001)
    monkeypatch.setattr(SocketReader, "longest_pause_s", 0.001)


@contextmanager
def serving(*scripts):
    """Serve one connection per script, which is a function of the connection; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            for number, script in enumerate(scripts, 1):
                connection, _ = server.accept()
                if number == len(scripts):
                    server.close()  # else whoever connects again is reset when the test is over
                with connection:
                    script(connection)

        port = server.getsockname()[1]
        thread = threading.Thread(target=serve)
        thread.start()
        yield port
        thread.join(10)
        assert not thread.is_alive()


def sending(*pieces):
    def script(connection):
        for piece in pieces:
            connection.sendall(piece)

    return script


def start(port, host="127.0.0.1", **options):
    woken = threading.Semaphore(0)
    source = SocketSource(host, port, **options)
    reader = source.reader(replace(CONTEXT, wake=woken.release))
    reader.woken = woken
    reader.open()
    reader.add_splits(source.enumerator(1).next_splits(0))
    return reader


def next_batch(reader, limit=100):
    """Poll when the reader wakes the task, until there is something."""
    while isinstance(got := reader.poll(limit, 0), Wait):
        assert got == Wait(None)
        assert reader.woken.acquire(timeout=10)
    return got


def drain(reader, limit=100):
    found = []
    while (got := next_batch(reader, limit)) is not NEED_SPLITS:
        assert len(got.values) <= limit
        assert reader.split_finished() == []
        found += got.values
    assert reader.split_finished() == ["socket"]
    reader.close()
    return found


def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_lines_come_until_the_peer_closes():
    with serving(sending(b"to be\r\nor not\n\n", b"to ", b"be\nthat")) as port:
        assert drain(start(port)) == ["to be", "or not", "", "to be", "that"]


def test_a_character_may_arrive_in_pieces():
    data = "ä€😀\n".encode()
    with serving(sending(*(data[at : at + 1] for at in range(len(data))), b"\xff\n")) as port:
        assert drain(start(port)) == ["ä€😀", "\ufffd"]


def test_a_delimiter_may_have_several_characters():
    with serving(sending(b"a--b-", b"-c-d\n--")) as port:
        assert drain(start(port, delimiter="--")) == ["a", "b", "c-d\n"]


def test_a_block_has_at_most_the_limit():
    with serving(sending(b"".join(b"%d\n" % number for number in range(1000)))) as port:
        assert drain(start(port), limit=7) == [str(number) for number in range(1000)]


def test_without_data_it_waits_without_blocking():
    done = threading.Event()
    with serving(lambda connection: done.wait(10)) as port:
        reader = start(port)
        assert {reader.poll(9, 0) for _ in range(200)} == {Wait(None)}
        assert reader.snapshot_state(1) == [SocketSplit()]
        done.set()
        assert drain(reader) == []


def test_a_refused_connection_names_the_address_and_the_remedy():
    port = unused_port()

    with pytest.raises(
        SourceNotReadable, match=rf"^words: cannot read from 127.0.0.1:{port} \(.*start .* nc -lk {port}"
    ):
        drain(start(port))


def test_an_unknown_host_is_named():
    with pytest.raises(SourceNotReadable, match=r"no\.such\.host\.invalid:80"):
        drain(start(80, "no.such.host.invalid"))


def test_refused_connections_are_tried_again_so_many_times(monkeypatch):
    tried = []

    def refuse(*given):
        tried.append(given)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(SourceNotReadable, match="refused"):
        drain(start(unused_port(), max_retries=2))
    assert len(tried) == 3


def test_it_connects_again_after_the_peer_closed_and_ends_when_nobody_answers():
    with serving(sending(b"a\nb"), sending(b"c\n")) as port:
        reader = start(port, max_retries=1)
        found = []
        while len(found) < 3:
            found += next_batch(reader, 9).values
    assert found == ["a", "b", "c"]
    assert drain(reader) == []


def test_a_connection_that_breaks_is_an_error():
    def reset(connection):
        connection.sendall(b"a\nhalf")
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with serving(reset) as port:
        reader = start(port)
        assert next_batch(reader, 9).values == ["a"]
        reader._socket.send(b"!")
        with pytest.raises(SourceNotReadable, match="reset"):
            drain(reader)


def test_a_reader_that_is_closed_leaves_no_connection():
    closed = []
    with serving(lambda connection: closed.append(connection.recv(1))) as port:
        reader = start(port)
        while reader._socket is None:
            reader.poll(9, 0)
        reader.close()
    assert closed == [b""]


def test_a_reader_that_is_closed_while_it_connects_does_not_wait_and_leaves_no_connection(monkeypatch):
    connect, connecting, go_on = socket.create_connection, threading.Event(), threading.Event()

    def slow(*given):
        connecting.set()
        go_on.wait(10)
        return connect(*given)

    monkeypatch.setattr(socket, "create_connection", slow)
    monkeypatch.setattr(SocketReader, "close_s", 0.01)
    closed = []
    with serving(lambda connection: closed.append(connection.recv(1))) as port:
        reader = start(port)
        assert connecting.wait(10)
        reader.close()
        go_on.set()
    assert closed == [b""]


def test_after_the_end_a_restart_connects_to_nobody():
    reader = SocketSource("127.0.0.1", unused_port()).reader(CONTEXT)

    assert reader.poll(9, 0) is NEED_SPLITS


def test_what_can_never_work_is_refused():
    with pytest.raises(InvalidProgram, match="0 is no port"):
        SocketSource("localhost", 0)
    with pytest.raises(InvalidProgram, match="empty delimiter"):
        SocketSource("localhost", 1, "")


def test_it_is_unbounded_and_read_by_one_subtask():
    assert SocketSource.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert SocketSource.max_parallelism == 1
