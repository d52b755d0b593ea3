"""Errors of programs: whatever the way, they name the operator, the fact and the remedy, and show the user's traceback."""

import socket
import threading

import pytest

from funken import (
    Encoder,
    FileSink,
    FileSource,
    FunkenError,
    InvalidProgram,
    JobExecutionError,
    SocketSource,
    StreamFormat,
    WatermarkStrategy,
)
from funken.errors import RecordNotPicklable, SinkNotWritable, SourceNotReadable


def fails(env, error, *parts):
    with pytest.raises(error) as caught:
        env.execute()
    for part in parts:
        assert part in str(caught.value)
    return caught.value


def test_a_function_that_raises(env):
    def explode(number):
        raise KeyError(f"user boom at {number}")

    env.from_collection([41]).rebalance().map(lambda number: number + 1).map(explode).name("exploding").print()

    error = fails(
        env,
        JobExecutionError,
        "operator 'exploding' (subtask ",
        "failed at the record 42: KeyError: 'user boom at 42'",
        'raise KeyError(f"user boom at {number}")',
        "in explode",
    )
    assert error.operator == "exploding"


def test_a_record_that_cannot_be_pickled(env):
    env.from_collection([1]).map(lambda number: threading.Lock()).name("locks").rebalance().map(id).print()

    error = fails(
        env,
        RecordNotPicklable,
        "operator 'locks' (subtask 0) emitted a record of type 'lock' that cannot be sent to another task",
        "<unlocked _thread.lock object",
        "Emit plain data",
    )
    assert error.operator == "locks"


def test_a_record_that_cannot_be_collected(env, collect):
    locks = env.from_collection([1]).map(lambda number: threading.Lock())

    with pytest.raises(RecordNotPicklable, match="emitted a record of type 'lock' that cannot be sent"):
        collect(locks)


def test_a_function_that_cannot_be_pickled(env):
    lock = threading.Lock()
    env.from_collection([1]).map(lambda number: lock).print()

    fails(
        env, InvalidProgram, "the program cannot be sent to the workers: operator 'map':", "lock", "create it in open()"
    )


class Opaque:
    __hash__ = object.__hash__


def test_a_key_without_a_stable_hash(env):
    env.from_collection([1]).map(lambda number: number).name("source").key_by(lambda number: Opaque()).sum().print()

    fails(env, JobExecutionError, "'source'", "key of type 'Opaque'", "no hash that is equal in every process")


def test_an_unhashable_key(env):
    env.from_collection([[1]]).map(lambda record: record).name("lists").key_by(lambda record: record).sum().print()

    fails(
        env, JobExecutionError, "key_by after operator 'lists'", "unhashable type: 'list'", "a tuple instead of a list"
    )


@pytest.mark.ways("local", "batch")
def test_a_partitioner_that_misses(env):
    env.from_collection([7]).name("numbers").partition_custom(lambda key, width: key, lambda number: number).map(id)

    fails(env, JobExecutionError, "the partitioner after operator 'numbers' returned 7 for 7", "from 0 to 1")


def test_a_path_that_cannot_be_read(env, tmp_path):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "nowhere")).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "files").print()

    fails(env, SourceNotReadable, "nowhere")


def test_a_path_that_cannot_be_written(env, tmp_path):
    (tmp_path / "file").touch()
    sink = FileSink.for_row_format(str(tmp_path / "file" / "out"), Encoder.simple_string_encoder()).build()
    env.from_collection([1]).sink_to(sink)

    fails(env, SinkNotWritable, "file")


@pytest.mark.ways("local", "continuous")
def test_a_socket_that_refuses(env):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    env.from_source(SocketSource("127.0.0.1", port), WatermarkStrategy.no_watermarks(), "lines").print()

    fails(env, SourceNotReadable, str(port))


@pytest.mark.ways("local")
def test_errors_of_funken_are_one_tree(env):
    env.from_collection([1]).map(lambda number: 1 / 0)

    fails(env, FunkenError, "ZeroDivisionError")
