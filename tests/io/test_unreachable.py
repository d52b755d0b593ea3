"""Stores that cannot be reached: every kind fails in bounded time, and says which host did not answer."""

import os
import re
import socket
import threading
import time

import pytest

from funken import Configuration, FileSource, StreamExecutionEnvironment, StreamFormat
from funken.errors import SourceNotReadable, StorageFailed
from funken.io import filesystem
from funken.io.storage import open_storage

BOUND = 1.0

STORES = {
    "hdfs": ("hdfs_native", "hdfs://{}/chk"),
    "webhdfs": ("requests", "webhdfs://{}/chk"),
    "s3": ("pyarrow", "s3://bucket/chk?scheme=http&endpoint_override={}&region=us-east-1"),
    "gs": ("pyarrow", "gs://anonymous@bucket/chk?scheme=http&endpoint_override={}"),
    "abfs": ("pyarrow", "abfs://account@{}/container/chk?enable_tls=false"),
    "of fsspec": ("aiohttp", "http://{}/chk"),
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    monkeypatch.setattr(filesystem, "_ANSWER_SECONDS", BOUND)
    monkeypatch.setattr(filesystem, "_CONNECT_SECONDS", BOUND)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AZURE_STORAGE_KEY": "a2V5", "HADOOP_USER_NAME": "ann",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)


@pytest.fixture
def silent():
    """The address of a server that takes connections and never answers."""
    held = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hold():
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        holding = threading.Thread(target=hold, daemon=True)
        holding.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        holding.join()
    for each in held:
        each.close()


@pytest.fixture
def dropping():
    """The address of a server that takes no more connections, as behind a firewall that drops packets."""
    waiting = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(server.getsockname())
            waiting.append(client)
        yield f"127.0.0.1:{server.getsockname()[1]}"
    for each in waiting:
        each.close()


def uri(store, host):
    package, form = STORES[store]
    pytest.importorskip(package)
    return form.format(host)


@pytest.mark.parametrize("server", ["silent", "dropping"])
@pytest.mark.parametrize("store", sorted(STORES))
def test_a_store_that_does_not_answer_is_an_error_in_bounded_time(store, server, request):
    host, fact = request.getfixturevalue(server), {"silent": "it takes connections", "dropping": "timed out"}[server]
    folder, begun = uri(store, host), time.monotonic()
    with pytest.raises(StorageFailed) as failed:
        open_storage(folder)
    assert time.monotonic() - begun < 10 * BOUND
    assert str(failed.value) == (
        f"checkpoint storage: cannot open {folder}: {host} has not answered within 1 s ({fact}). See that its address is right, "
        "and that this machine reaches it (name, port, firewall), or set execution.checkpointing.dir (or the savepoint's target) "
        "to another place."
    )
    with pytest.raises(StorageFailed, match="has not answered"):  # it is asked again: it may answer now
        open_storage(folder)


@pytest.mark.parametrize("store", sorted(STORES))
def test_a_store_that_refuses_connections_is_an_error_in_bounded_time(store):
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
    begun = time.monotonic()
    with pytest.raises(StorageFailed, match=re.escape(uri(store, host))):
        open_storage(uri(store, host)).sizes()
    assert time.monotonic() - begun < 20 * BOUND


def test_an_error_of_a_store_is_an_answer_and_the_store_opens(tmp_path):
    folder = f"file:{tmp_path}"  # what is not there, or not allowed, is told by what is done with it
    assert open_storage(folder).sizes() == {}
    with pytest.raises(StorageFailed, match="cannot open nowhere://a/b: "):
        open_storage("nowhere://a/b")


def job(conf, source=None):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"} | conf))
    numbers = env.from_collection(range(3)) if source is None else env.from_source(source, None, "lines")
    numbers.print()
    return env


def test_a_job_whose_checkpoint_folder_does_not_answer_fails_before_it_runs(silent):
    conf = {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": uri("hdfs", silent)}
    begun = time.monotonic()
    with pytest.raises(StorageFailed, match=f"cannot open hdfs://{silent}/chk.*: {silent} has not answered within 1 s"):
        job(conf).execute("orders")
    assert time.monotonic() - begun < 20 * BOUND


def test_a_source_whose_store_does_not_answer_fails_with_its_name(silent):
    path = uri("hdfs", silent)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
    with pytest.raises(SourceNotReadable, match=f"{silent} has not answered within 1 s") as failed:
        job({}, source).execute("orders")
    assert path in str(failed.value) and os.strerror(110) not in str(failed.value)
