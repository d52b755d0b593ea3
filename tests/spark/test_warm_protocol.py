"""How a warm session is found and lent, without Spark: who gets it, who does not, and what is left."""

import contextlib
import os
import socket
import stat
import threading

import pytest

from funken.spark.warm import client as protocol
from funken.spark.warm.client import Home

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return protocol.folder()


@pytest.fixture
def served(place):
    """Serve one client; returns what it asked for, if it might."""
    listener, token = protocol.listen(place, "session")
    requests = []

    def serve():
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # nobody came before the end of the test
        with connection:
            request = protocol.accepted(connection, token)
            requests.append(request)
            if request is not None:
                protocol.send_line(connection, {"pid": 7})

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield lambda: (thread.join(30), requests)[1]
    # close() alone does not wake an accept() on Linux, and the descriptor may get another use
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)
    listener.close()


def test_a_request_and_its_answer(place, served):
    connection, answer = protocol.ask(place, "session", "status")
    connection.close()

    assert answer == {"pid": 7}
    assert served()[0]["request"] == "status"


def test_nobody_else_can_look_into_the_folder(place, served):
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(protocol.token_of(place, "session").stat().st_mode) == 0o600


def test_who_does_not_know_the_token_gets_no_answer(place, served):
    protocol.token_of(place, "session").write_text("guessed")

    assert protocol.ask(place, "session", "lease") is None
    assert served() == [None]


def test_what_is_no_request_gets_no_answer(place, served):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(protocol.socket_of(place, "session")))
        connection.sendall(b"[1, 2]\n")
        assert connection.recv(1) == b""

    assert served() == [None]


def test_a_folder_that_others_can_enter_is_not_used(place):
    place.chmod(0o755)

    assert protocol.folder() is None


def test_without_a_session_there_is_none(place):
    assert protocol.ask(place, "session", "lease") is None


def test_a_session_whose_process_is_gone_is_forgotten(place):
    listener, _ = protocol.listen(place, "session")
    listener.close()
    assert protocol.names_in(place) == ["session"]

    assert protocol.ask(place, "session", "lease") is None
    assert protocol.names_in(place) == []


def test_other_settings_have_another_name():
    one = protocol.name_of({"spark.master": "local[4]"}, "-Xmx1g")

    assert protocol.name_of({"spark.master": "local[4]"}, "-Xmx1g") == one
    assert protocol.name_of({"spark.master": "local[8]"}, "-Xmx1g") != one
    assert protocol.name_of({"spark.master": "local[4]"}, "-Xmx2g") != one


def test_a_worker_has_the_folder_and_the_environment_of_the_program(tmp_path, monkeypatch):
    before = os.getcwd()
    (tmp_path / "program").mkdir()
    monkeypatch.chdir(tmp_path / "program")
    monkeypatch.setenv("TARGET", "of the program")
    monkeypatch.setenv("SPARK_OF_HERE", "1")
    home = Home.here()
    monkeypatch.chdir(before)
    monkeypatch.setenv("TARGET", "of the session")
    monkeypatch.setenv("OTHER", "of the session")
    monkeypatch.setenv("SPARK_OF_THERE", "1")

    home.enter()

    assert os.getcwd() == str(tmp_path / "program")
    assert os.environ["TARGET"] == "of the program"
    assert "OTHER" not in os.environ
    assert os.environ["SPARK_OF_THERE"] == "1"
    assert "TARGET" not in repr(home)


def test_a_session_with_another_state_of_the_package_is_not_found(tmp_path, monkeypatch):
    module = tmp_path / "package" / "module.py"
    module.parent.mkdir()
    module.write_text("")
    os.utime(module, ns=(1, 5))
    assert protocol.changed(tmp_path) == 5

    name = protocol.name_of({"spark.master": "local"}, "")
    assert protocol.name_of({"spark.master": "local"}, "") == name
    newest = protocol.changed
    monkeypatch.setattr(protocol, "changed", lambda package: newest(package) + 1)
    assert protocol.name_of({"spark.master": "local"}, "") != name
