"""Kinesis as a source and a sink, against moto's server: shards, resharding, positions, throttling, PyFlink's names."""

import json
import socket
import subprocess
import sys
import threading
import uuid

import pytest

from funken import Encoder, FileSink, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import Batch, ConnectorContext, JsonSchema, Wait
from funken.connectors import kinesis as kinesis_sink
from funken.connectors.kinesis import FirehoseSink, KinesisConnection, KinesisSink, KinesisSource, MalformedRecordPolicy
from funken.errors import InvalidConfiguration, MessageMalformed, SinkNotWritable, SourceNotReadable
from funken.table import EnvironmentSettings, TableEnvironment
from funken.testing import check_sink, check_source, local

boto3 = pytest.importorskip("boto3", reason="install it with: pip install 'funken[kinesis]'")
pytest.importorskip("moto.server", reason="install it with: pip install 'moto[server]'")
pytestmark = [pytest.mark.services, pytest.mark.timeout(200)]

SERVER = """
import sys
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0)
server.start()
print("port", server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
PAUSE = threading.Event()


@pytest.fixture(scope="module")
def connection():
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        port = int(next(line for line in iter(server.stdout.readline, "") if line.startswith("port")).split()[1])
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                PAUSE.wait(0.1)
        yield KinesisConnection("eu-central-1", f"http://127.0.0.1:{port}", access_key="test", secret_key="test")
    finally:
        server.communicate()


@pytest.fixture
def client(connection):
    return connection.connect()


@pytest.fixture
def stream(client):
    return new_stream(client)


def new_stream(client, shards=3):
    name = f"orders-{uuid.uuid4().hex}"
    client.create_stream(StreamName=name, ShardCount=shards)
    return name


def put(client, stream, values):
    for start in range(0, len(values), 400):
        entries = [
            {"Data": str(value).encode(), "PartitionKey": f"key {value}"} for value in values[start : start + 400]
        ]
        client.put_records(StreamName=stream, Records=entries)


def records_of(client, stream):
    found = []
    for shard in client.list_shards(StreamName=stream)["Shards"]:
        iterator = client.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        found += client.get_records(ShardIterator=iterator["ShardIterator"], Limit=10000)["Records"]
    return [record["Data"].decode() for record in found]


# ---- the source


def numbers(connection, stream, **more):
    return KinesisSource(connection, stream, JsonSchema(), "TRIM_HORIZON", **more)


def test_the_source_keeps_its_contract(connection, client, stream):
    put(client, stream, range(60))

    check_source(numbers(connection, stream, bounded=True), range(60), seeds=4)


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_job_reads_all_shards(connection, client, stream, parallelism):
    put(client, stream, range(500))
    env = StreamExecutionEnvironment.create_local_environment(parallelism=parallelism)
    read = env.from_source(numbers(connection, stream, bounded=True), WatermarkStrategy.no_watermarks(), "orders")

    assert sorted(read.execute_and_collect()) == list(range(500))


def test_a_job_that_fails_and_is_restored_reads_each_record_once(connection, client, stream, tmp_path):
    put(client, stream, range(3000))
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.enable_checkpointing("5 ms")
    env.configure({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"})
    env.configure({"execution.checkpointing.dir": str(tmp_path / "checkpoints")})
    failed = tmp_path / "failed"

    def once(number):
        if number == 2500 and not failed.exists():
            failed.touch()
            raise RuntimeError("killed")
        return number

    read = env.from_source(numbers(connection, stream, bounded=True), WatermarkStrategy.no_watermarks(), "orders")
    read.map(once).sink_to(FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build())
    env.execute("orders")

    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sorted(int(line) for path in files for line in path.read_text().split()) == list(range(3000))
    assert failed.exists()


def test_records_arrive_with_their_times(connection, client, stream):
    put(client, stream, [1])
    now = client.get_records(
        ShardIterator=_iterator(client, stream, records_with=1)
    )["Records"][0]["ApproximateArrivalTimestamp"]  # fmt: skip
    batch = _first_batch(connection, numbers(connection, stream, bounded=True))

    assert list(batch.values) == [1]
    assert abs(batch.timestamps[0] - now.timestamp() * 1000) < 1000


def _iterator(client, stream, records_with):
    for shard in client.list_shards(StreamName=stream)["Shards"]:
        place = {"StreamName": stream, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        if client.get_records(ShardIterator=client.get_shard_iterator(**place)["ShardIterator"])["Records"]:
            return client.get_shard_iterator(**place)["ShardIterator"]
    raise AssertionError("no shard has a record")


def _first_batch(connection, source):
    enumerator = source.enumerator(1)
    enumerator.start()
    woken = threading.Semaphore(0)
    reader = source.reader(ConnectorContext("orders", wake=woken.release))
    reader.add_splits(enumerator.next_splits(0))
    try:
        for _ in range(20):
            got = reader.poll(10, 0)
            if isinstance(got, Batch):
                return got
            assert isinstance(got, Wait)
            woken.acquire(timeout=5)
    finally:
        reader.close()
    raise AssertionError("nothing came")


def test_shards_of_a_resharding_are_read_from_their_beginning(connection, client):
    stream = new_stream(client, shards=1)
    put(client, stream, range(20))
    source = numbers(connection, stream)
    enumerator = source.enumerator(2)
    enumerator.start()
    before = [shard for subtask in (0, 1) for shard in enumerator.next_splits(subtask)]
    shard = client.list_shards(StreamName=stream)["Shards"][0]
    middle = (int(shard["HashKeyRange"]["StartingHashKey"]) + int(shard["HashKeyRange"]["EndingHashKey"])) // 2
    client.split_shard(StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(middle))
    put(client, stream, range(20, 40))

    again = source.enumerator(2)
    again.restore(enumerator.snapshot())
    assert again.add_discovered(again.discover(0))
    after = [shard for subtask in (0, 1) for shard in again.next_splits(subtask)]

    assert (len(before), len(after)) == (1, 2)
    assert again.discover(0) is None
    found = []
    woken = threading.Semaphore(0)
    reader = source.reader(ConnectorContext("orders", wake=woken.release))
    reader.add_splits([*before, *after])
    while len(found) < 40:
        got = reader.poll(100, 0)
        if isinstance(got, Batch):
            found += got.values
        else:
            woken.acquire(timeout=5)
    reader.close()
    assert sorted(found) == list(range(40))


def test_latest_leaves_out_what_was_there_and_survives_a_restart_before_the_first_record(connection, client, stream):
    put(client, stream, range(10))
    PAUSE.wait(1.1)  # the service compares whole seconds here
    source = KinesisSource(connection, stream, JsonSchema(), "LATEST")
    enumerator = source.enumerator(1)
    enumerator.start()
    splits = enumerator.next_splits(0)  # a checkpoint has these, and no number of a record
    put(client, stream, range(10, 20))
    found, woken = [], threading.Semaphore(0)
    reader = source.reader(ConnectorContext("orders", wake=woken.release))
    reader.add_splits(splits)
    while len(found) < 10:
        got = reader.poll(100, 0)
        if isinstance(got, Batch):
            found += got.values
        else:
            woken.acquire(timeout=5)
    reader.close()

    assert sorted(found) == list(range(10, 20))


def test_a_malformed_record_is_named_with_its_place(connection, client, stream):
    put(client, stream, ["{"])
    with pytest.raises(
        MessageMalformed, match=rf"operator 'orders': shard {stream}/shardId-\d+ number \d+: JsonSchema"
    ):
        _first_batch(connection, numbers(connection, stream))
    put(client, stream, [5])
    skipping = numbers(connection, stream, bounded=True, malformed=MalformedRecordPolicy.SKIP)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    read = env.from_source(skipping, WatermarkStrategy.no_watermarks(), "orders")

    assert list(read.execute_and_collect()) == [5]


def test_a_stream_that_is_not_there_is_told_before_the_job_runs(connection):
    with pytest.raises(
        SourceNotReadable, match="'none' of .* cannot be read: ResourceNotFoundException: .*; correct the name"
    ):
        numbers(connection, "none").enumerator(1).start()
    with pytest.raises(SinkNotWritable, match="'none' of .* cannot be written: ResourceNotFoundException"):
        KinesisSink(connection, "none").check()
    assert "secret_key" not in repr(connection) and "'test'" not in repr(connection)


# ---- the sinks


def test_the_sink_loses_nothing_whatever_fails(connection, client):
    def make(seed):
        stream = new_stream(client, shards=2)
        return KinesisSink(connection, stream), lambda: records_of(client, stream)

    check_sink(make, seeds=3, count=30, exactly_once=False)


def test_a_job_writes_records_by_their_keys(connection, client, stream):
    orders = local([{"item": "tea", "n": number} for number in range(30)])
    orders.sink_to(KinesisSink(connection, stream, JsonSchema(), lambda order: order["item"], max_records=7))
    orders.get_execution_environment().execute()

    found = [json.loads(record) for record in records_of(client, stream)]
    assert [order["n"] for order in found] == list(range(30))  # of one key: in one shard, in their order


class Throttled:
    """A client that throttles some records, and keeps the others."""

    def __init__(self, results):
        self.results, self.requests = results, []

    def put_records(self, StreamName, Records):
        self.requests.append([entry["Data"] for entry in Records])
        return {"Records": self.results.pop(0) if self.results else [{"SequenceNumber": "1"}] * len(Records)}

    def close(self):
        pass


def throttled_writer(connection, monkeypatch, results):
    monkeypatch.setattr(kinesis_sink, "_FIRST_PAUSE_S", 0.001)
    writer = KinesisSink(connection, "orders").writer(ConnectorContext("out"))
    writer._client = Throttled(results)
    return writer


def test_only_throttled_records_are_sent_again(connection, monkeypatch):
    busy = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "Rate exceeded"}
    writer = throttled_writer(
        connection, monkeypatch, [[{"SequenceNumber": "1"}, busy, busy], [busy, {"SequenceNumber": "2"}]]
    )
    writer.write(["a", "b", "c"], None, 0)

    assert writer._client.requests == [[b"a", b"b", b"c"], [b"b", b"c"], [b"b"]]


def test_throttling_without_end_fails_with_the_remedy(connection, monkeypatch):
    monkeypatch.setattr(kinesis_sink, "_LONGEST_PAUSE_S", 0.001)
    busy = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "Rate exceeded"}
    writer = throttled_writer(connection, monkeypatch, [[busy]] * 20)
    with pytest.raises(
        SinkNotWritable, match=r"operator 'out': .* has throttled 1 record\(s\) 10 times; give it more shards"
    ):
        writer.write(["a"], None, 0)


def test_a_refused_record_and_one_that_is_too_large_fail_the_job(connection, monkeypatch):
    refused = {"ErrorCode": "InvalidArgumentException", "ErrorMessage": "no"}
    writer = throttled_writer(connection, monkeypatch, [[refused]])
    with pytest.raises(SinkNotWritable, match=r"refuses 1 record\(s\): InvalidArgumentException: no; correct them"):
        writer.write(["a"], None, 0)
    with pytest.raises(SinkNotWritable, match="a record of 2000032 bytes is larger than 1048576"):
        writer.write(["x" * 2_000_000], None, 0)


def delivery(connection, bucket):
    """Make a bucket, and a delivery stream into it; return a function that reads its files."""
    s3 = connection.connect("s3")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    connection.connect("firehose").create_delivery_stream(
        DeliveryStreamName=f"to-{bucket}",
        ExtendedS3DestinationConfiguration={"RoleARN": "arn:aws:iam::1:role/x", "BucketARN": f"arn:aws:s3:::{bucket}"},
    )

    def delivered():
        files = s3.list_objects_v2(Bucket=bucket)["Contents"]
        return b"".join(s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read() for each in files)

    return delivered


def test_firehose_carries_records_to_files(connection):
    delivered = delivery(connection, "texts")
    orders = local(["tea\n", "jam\n"])
    orders.sink_to(FirehoseSink(connection, "to-texts"))
    orders.get_execution_environment().execute()

    assert sorted(delivered().split()) == [b"jam", b"tea"]


def test_firehose_carries_rows_to_files(connection):
    delivered = delivery(connection, "lake")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    made.execute_sql(f"""
        CREATE TABLE orders (id BIGINT, item STRING) WITH (
            'connector' = 'firehose', 'delivery-stream' = 'to-lake', 'format' = 'json', 'aws.region' = 'eu-central-1',
            'aws.endpoint' = '{connection.endpoint_url}', 'aws.credentials.basic.accesskeyid' = 'test',
            'aws.credentials.basic.secretkey' = 'test')
    """)
    made.execute_sql("INSERT INTO orders VALUES (1, 'tea'), (2, 'jam')").wait()

    assert delivered() == b'{"id":1,"item":"tea"}{"id":2,"item":"jam"}'


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda c: KinesisSource(c, ()), "one or more different streams"),
        (lambda c: KinesisSource(c, "orders", start="now"), "no place to start from"),
        (lambda c: KinesisSink(c, ""), "the name of a stream"),
        (lambda c: KinesisSink(c, "orders", serialization_schema="UTF-8"), "is no SerializationSchema"),
        (lambda c: KinesisConnection(""), "there is no region"),
    ],
)
def test_what_cannot_work_is_refused(connection, make, said):
    with pytest.raises(InvalidConfiguration, match=said):
        make(connection)


# ---- PyFlink's names


def test_programs_of_pyflink_read_and_write(connection, client, stream):
    from funken.compat.pyflink import kinesis
    from funken.compat.pyflink.environment import StreamExecutionEnvironment as PyFlinkEnvironment
    from funken.compat.pyflink.formats import SimpleStringSchema

    properties = {
        "aws.region": connection.region, "aws.endpoint": connection.endpoint_url,
        "aws.credentials.provider.basic.accesskeyid": "test", "aws.credentials.provider.basic.secretkey": "test",
        "flink.stream.initpos": "TRIM_HORIZON",
    }  # fmt: skip
    sink = (
        kinesis.KinesisStreamsSink.builder()
        .set_kinesis_client_properties(properties)
        .set_serialization_schema(SimpleStringSchema())
        .set_partition_key_generator(kinesis.PartitionKeyGenerator.fixed())
        .set_stream_name(stream)
        .set_fail_on_error(False)
        .set_max_batch_size(500)
        .set_max_in_flight_requests(50)
        .set_max_buffered_requests(10000)
        .set_max_batch_size_in_bytes(5 * 1024 * 1024)
        .set_max_time_in_buffer_ms(5000)
        .set_max_record_size_in_bytes(1 * 1024 * 1024)
        .build()
    )
    words = local(["to", "be"])
    words.sink_to(sink)
    words.get_execution_environment().execute()
    consumer = kinesis.FlinkKinesisConsumer(stream, SimpleStringSchema(), properties)
    env = PyFlinkEnvironment.create_local_environment(1)
    with env.add_source(consumer).execute_and_collect() as found:
        assert sorted([next(found), next(found)]) == ["be", "to"]
    firehose = kinesis.KinesisFirehoseSink.builder().set_delivery_stream_name("to-s3")
    firehose = (
        firehose.set_firehose_client_properties(properties).set_serialization_schema(SimpleStringSchema()).build()
    )
    assert (firehose.stream, firehose.connection) == ("to-s3", sink.connection)
    assert kinesis.PartitionKeyGenerator.random()("a") != kinesis.PartitionKeyGenerator.random()("a")


# ---- tables


def test_rows_of_a_table_are_written_and_read(connection, client):
    stream = new_stream(client)
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    given = f"""
        'connector' = 'kinesis', 'stream' = '{stream}', 'format' = 'json', 'aws.region' = 'eu-central-1',
        'aws.endpoint' = '{connection.endpoint_url}', 'aws.credentials.basic.accesskeyid' = 'test',
        'aws.credentials.basic.secretkey' = 'test', 'source.init.position' = 'TRIM_HORIZON', 'scan.bounded' = 'true'
    """
    made.execute_sql(f"""
        CREATE TABLE orders (
            id BIGINT, item STRING, arrived TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
            shard VARCHAR(128) NOT NULL METADATA FROM 'shard-id' VIRTUAL,
            number VARCHAR(128) NOT NULL METADATA FROM 'sequence-number' VIRTUAL
        ) PARTITIONED BY (item) WITH ({given})
    """)
    made.execute_sql("INSERT INTO orders VALUES (1, 'tea'), (2, 'jam'), (3, 'tea')").wait()

    with made.execute_sql("SELECT id, item, shard, number <> '', arrived IS NOT NULL FROM orders").collect() as rows:
        found = sorted(tuple(row) for row in rows)

    assert [row[:2] + row[3:] for row in found] == [
        (1, "tea", True, True),
        (2, "jam", True, True),
        (3, "tea", True, True),
    ]
    assert found[0][2] == found[2][2]  # one key, one shard
    assert sorted(records_of(client, stream)) == [
        '{"id":1,"item":"tea"}', '{"id":2,"item":"jam"}', '{"id":3,"item":"tea"}',
    ]  # fmt: skip
