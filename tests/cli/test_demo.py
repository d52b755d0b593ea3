import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager

import click
import pytest
from click.testing import CliRunner

from funken.cli.main import main
from funken.demo import command as histogram
from funken.demo.command import Tally, standard_input

TEXT = ["to be or not to be", "that is the question"]


def demo(*arguments):
    return CliRunner().invoke(main, ["demo", *map(str, arguments)])


def rows(output):
    """The words of the table at the end, with their occurrences."""
    lines = output[output.index("\nword ") :].splitlines()[2:]
    return [(line.split()[0], int(line.split()[1].replace(",", ""))) for line in lines if line.strip()]


def test_the_manual(mode):
    done = demo("--target", mode, "--speed", 0, "-p", 2, "--top", 5)

    counts = Counter(word for line in histogram.manual() for word in histogram.words(line))
    assert done.exit_code == 0, done.output
    assert rows(done.stdout) == counts.most_common(5)
    assert f"{counts.total():,} words, {len(counts):,} of them different\n" in done.stdout
    assert "word histogram: finished after" in done.stderr


@pytest.mark.ways("batch")
def test_a_text_that_comes_slowly_moves_to_spark(mode, env):
    """There is a session, so that the job moves at once, in the middle of the text."""
    env.from_collection([1]).for_each(repr)
    env.execute()

    done = demo("--speed", 3000, "-p", 1, "--top", 5)

    counts = Counter(word for line in histogram.manual() for word in histogram.words(line))
    assert done.exit_code == 0, done.output
    assert "s: the job moves there, with its state." in done.stderr
    assert done.stderr.count("word histogram: finished after") == 2
    assert rows(done.stdout) == counts.most_common(5)


def test_a_file_at_a_speed(tmp_path):
    path = tmp_path / "text"
    path.write_text("\n".join(TEXT))

    begin = time.monotonic()
    done = demo("--target", "local", "--input", path, "--speed", 10, "--top", 2)

    assert rows(done.stdout) == [("be", 2), ("to", 2)]
    assert time.monotonic() - begin >= 0.1


def test_a_folder(tmp_path):
    for number, line in enumerate(TEXT):
        (tmp_path / f"{number}.txt").write_text(line)

    assert rows(demo("--target", "local", "--input", tmp_path, "--top", 1).stdout) == [("be", 2)]


@contextmanager
def server(*texts):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                for text in texts:
                    connection.sendall(text.encode())

        threading.Thread(target=serve, daemon=True).start()
        yield "socket://{}:{}".format(*listener.getsockname())


def test_a_socket():
    with server("to be or ", "not to be\nthat is") as address:
        done = demo("--target", "local", "--input", address, "--top", 3)

    assert rows(done.stdout) == [("be", 2), ("to", 2), ("is", 1)]


def test_standard_input():
    done = subprocess.run(
        [sys.executable, "-m", "funken", "demo", "--input", "-", "--target", "local", "--top", "2"],
        input="\n".join(TEXT),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert rows(done.stdout) == [("be", 2), ("to", 2)]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--input", "/nowhere/at/all"], 2, "'/nowhere/at/all' does not exist"),
        (["--input", "socket://nowhere"], 2, "'socket://nowhere' is not of the form socket://HOST:PORT"),
        (["--input", "-", "--speed", "5"], 2, "--speed needs a text that is there already"),
        (["--input", "socket://localhost:9", "--target", "batch"], 1, "cannot run unbounded sources"),
    ],
)
def test_what_cannot_be_read(arguments, exit_code, message):
    done = demo(*arguments)

    assert done.exit_code == exit_code
    assert message in done.stderr


def test_the_newest_window_shown_is_the_last_but_one():
    tally = Tally()
    for result in [(0, "a", 1), (1000, "a", 2), (1000, "b", 1), (2000, "a", 1), (1000, "c", 1), (0, "late", 1)]:
        tally.add(*result)

    assert tally.newest() == (1000, {"a": 2, "b": 1, "c": 1})


def test_without_a_standard_input_nothing_is_waited_for(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(click.UsageError, match="no standard input"), standard_input():
        pass
