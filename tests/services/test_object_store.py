"""Files, checkpoints and savepoints on an S3 server (moto's), on HDFS, and on servers that take Azure's and Google's place."""

import socket
import subprocess
import sys
import threading
from collections import Counter

import pytest

from funken import (
    BucketAssigner,
    Configuration,
    DataGeneratorSource,
    Encoder,
    FileSink,
    FileSource,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    StreamFormat,
    ValueStateDescriptor,
)
from funken.connectors.files.arrow_files import ParquetFormat
from funken.errors import CheckpointNotFound, StorageFailed
from funken.io.filesystem import locate
from funken.io.storage import open_storage
from funken.testing import check_sink, check_source
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess, azurite_program
from tests.support.fake_gcs import FakeGcsProcess, fake_gcs_program
from tests.support.hdfs import HdfsCluster, jar

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

SERVER = """
import sys
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0)
server.start()
print("port", server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
PAUSE = threading.Event()


@pytest.fixture(scope="session")
def s3():
    pytest.importorskip("moto.server", reason="install it with: pip install 'moto[server,s3]'")
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = iter(server.stdout.readline, "")
        port = int(next(line for line in said if line.startswith("port")).split()[1])
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                PAUSE.wait(0.1)
        yield f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    finally:
        server.communicate()
        assert server.wait(30) is not None


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    pytest.importorskip("hdfs_native", reason="install it with: pip install 'funken[hdfs]'")
    servers, missing = jar()
    if servers is None:
        pytest.skip(missing)
    cluster = HdfsCluster(tmp_path_factory.mktemp("hdfs"), servers)
    try:
        yield cluster.start().uri
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def azurite():
    program, missing = azurite_program()
    if program is None:
        pytest.skip(missing)
    server = AzuriteProcess(program)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def gcs():
    program, missing = fake_gcs_program()
    if program is None:
        pytest.skip(missing)
    server = FakeGcsProcess(program)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(params=["s3", "hdfs", "azure", "gcs"])
def bucket(monkeypatch, request):
    """The URI of a folder of its own, without and with something appended: in a bucket, or in HDFS."""
    if request.param == "hdfs":
        root = request.getfixturevalue("hdfs")
        folder = f"{root}/{request.node.originalname}"  # the request must not travel to workers
        return lambda path="": folder + path
    name = f"b{abs(hash(request.node.name)) % 10**12}"
    if request.param == "azure":
        port = request.getfixturevalue("azurite").port
        monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
        files, _ = locate(f"abfs://{ACCOUNT}@127.0.0.1:{port}/{name}?enable_tls=false")
        files._fs.create_dir(name)
        return lambda path="": f"abfs://{ACCOUNT}@127.0.0.1:{port}/{name}{path}?enable_tls=false"
    if request.param == "gcs":
        gcs = request.getfixturevalue("gcs")
        gcs.make_bucket(name)
        address = gcs.uri(name + "{}")  # the server must not travel to workers
        return lambda path="": address.replace("{}", path)
    s3 = request.getfixturevalue("s3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")

    def uri(path=""):
        return f"s3://{name}{path}?{s3}"

    files, _ = locate(uri())
    files._fs.create_dir(name)
    return uri


def plain(builder):
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def test_sources_and_sinks_keep_their_contracts(bucket):
    def make(seed):
        folder = bucket(f"/out-{seed}")

        def read():
            files, base = locate(folder)
            try:
                found = files.find(base)
            except FileNotFoundError:
                return []
            return [line for each in found for line in files.open(each.path).read().decode().split()]

        return plain(FileSink.for_row_format(folder, Encoder.simple_string_encoder())), read

    # Some deletions take 7 s there: the client waits and sends again what the emulator has never seen.
    seeds = 1 if bucket().startswith("abfs:") else 4
    check_sink(make, seeds=seeds)
    files, base = locate(bucket("/in"))
    for name in "ab":
        with files.create(f"{base}/{name}.txt") as file:
            file.write("".join(f"{name}{n}\n" for n in range(30)).encode())
    source = FileSource.for_record_stream_format(StreamFormat(), bucket("/i*")).set_split_bytes(40).build()
    check_source(source, [f"{name}{n}" for name in "ab" for n in range(30)], seeds=3)


def test_parquet_goes_there_and_back(bucket):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.from_collection([{"n": n} for n in range(100)]).sink_to(
        plain(FileSink.for_bulk_format(bucket("/p"), ParquetFormat()))
    )
    env.execute()

    source = FileSource.for_format(ParquetFormat(), bucket("/p")).build()
    assert sorted(row["n"] for row in env.from_source(source).execute_and_collect(limit=101)) == list(range(100))


def test_a_storage_there_is_one(bucket):
    storage = open_storage(bucket("/store")).at("job")
    storage.write("chk-1/part", [b"a", b"bc"])
    with pytest.raises(StorageFailed, match="another job wrote it"):
        storage.write("chk-1/part", b"", new=True)

    again = open_storage(storage.uri)
    assert (again.sizes(), again.read("chk-1/part", 1, 1)) == ({"chk-1/part": 3}, b"b")
    again.delete("chk-1")
    assert again.sizes() == {}
    with pytest.raises(CheckpointNotFound):
        again.read("chk-1/part")


def test_a_file_of_a_checkpoint_is_not_there_before_it_is_whole(bucket):
    storage = open_storage(bucket("/store")).at("job")
    seen = []

    def chunks():
        yield b"a" * (1 << 20)
        seen.append(storage.sizes())
        yield b"b" * 2

    storage.write("chk-1/part", chunks())
    assert seen == [{}]
    assert storage.sizes() == {"chk-1/part": (1 << 20) + 2}

    def torn():
        yield b"c"
        raise OSError("the disk is gone")

    with pytest.raises(StorageFailed, match="the disk is gone"):
        storage.write("chk-2/part", torn())
    assert list(storage.sizes(unfinished=True)) == ["chk-1/part"]


class Counts(KeyedProcessFunction):
    """Counts the records of a key; fails once, after a checkpoint."""

    fail = None

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        if self.fail is not None and self.fail(value):
            raise RuntimeError("on purpose")
        yield f"{ctx.get_current_key()}-{self.count.value()}"


COUNT = 3_000
EXPECTED = Counter(f"{key}-{n}" for key in range(5) for n in range(1, COUNT // 5 + 1))


def counting(bucket, rate=None, counts=Counts, **options):
    chosen = {
        "parallelism.default": 2,
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": bucket("/checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = StreamExecutionEnvironment.create_local_environment(configuration=Configuration(chosen | options))
    numbers = env.from_source(DataGeneratorSource(lambda index: index, COUNT, rate), source_name="numbers").uid(
        "numbers"
    )
    sink = plain(FileSink.for_row_format(bucket("/out"), Encoder.simple_string_encoder()))
    numbers.key_by(lambda n: n % 5).process(counts()).uid("counts").sink_to(sink).uid("files")
    return env


def written(bucket):
    files, base = locate(bucket("/out"))
    try:
        found = files.find(base)
    except FileNotFoundError:
        return Counter()
    return Counter(line for each in found for line in files.open(each.path).read().decode().split())


def await_output(bucket, client):
    """Wait until a checkpoint is complete and its files are there."""
    for _ in range(1200):
        if written(bucket) or client.get_job_execution_result().done():
            return
        PAUSE.wait(0.05)
    pytest.fail("no checkpoint was complete within a minute")


def test_a_job_recovers_from_checkpoints_there_exactly_once(bucket, tmp_path):
    failed = tmp_path / "failed"

    class Failing(Counts):
        def fail(self, value):
            if value % 10 == 0 and not failed.exists() and written(bucket):  # to look takes a slow emulator 20 ms
                failed.touch()
                return True
            return False

    counting(bucket, rate=300, counts=Failing).execute()  # for ten seconds, in which a checkpoint has to be complete

    assert failed.exists()
    assert written(bucket) == EXPECTED


def test_a_job_goes_on_from_a_savepoint_there(bucket):
    client = counting(bucket, rate=100).execute_async()  # half a minute, for slow emulators: it is stopped long before
    await_output(bucket, client)
    path = client.stop_with_savepoint(False, bucket("/savepoints")).result(60)
    assert 0 < written(bucket).total() < COUNT

    counting(bucket, **{"execution.state-recovery.path": path}).execute()

    assert written(bucket) == EXPECTED
