"""Pulsar as a source and a sink, against a real broker: positions, cursors, acknowledgements, exactly once, kills."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest

from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import Batch, CommitRequest, CommitterContext, ConnectorContext, JsonSchema, NeedSplits, Wait
from funken.connectors.pulsar import (
    MalformedRecordPolicy,
    PulsarConnection,
    PulsarSink,
    PulsarSource,
    StartCursor,
    StopCursor,
    TopicRoutingMode,
)
from funken.connectors.sink import CommitOutcome, DeliveryGuarantee
from funken.errors import InvalidConfiguration, MessageMalformed, SinkNotWritable, SourceNotReadable
from funken.metrics.registry import MetricGroup
from funken.testing import check_sink, check_source, local

pulsar = pytest.importorskip("pulsar", reason="install it with: pip install 'funken[pulsar]'")
pytestmark = [
    pytest.mark.services,
    pytest.mark.timeout(900),
]  # the first test waits for the server to be built or fetched
EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE


@pytest.fixture(scope="module")
def connection(pulsar_broker):
    return PulsarConnection(pulsar_broker.url, pulsar_broker.admin_url)


@pytest.fixture(scope="module")
def client(connection):
    client = connection.connect()
    yield client
    client.close()


@pytest.fixture
def topic(pulsar_broker):
    return pulsar_broker.topic(3)


def put(client, topic, values, batched=True, **more):
    """Publish values round robin, and return their message ids."""
    ids = {}
    partitions = client.get_topic_partitions(topic)
    for place, partition in enumerate(partitions):
        producer = client.create_producer(partition, batching_enabled=batched, block_if_queue_full=True)
        for value in list(values)[place :: len(partitions)]:

            def answered(result, message_id, value=value):
                assert result == pulsar.Result.Ok
                ids[value] = message_id

            producer.send_async(str(value).encode(), answered, **more)
        producer.flush()
        producer.close()
    return ids


def messages_of(client, topic):
    """Return the messages of each partition, in their order."""
    found = []
    for partition in client.get_topic_partitions(topic):
        reader = client.create_reader(partition, pulsar.MessageId.earliest)
        found.append([])
        while reader.has_message_available():
            found[-1].append(reader.read_next(timeout_millis=10_000))
        reader.close()
    return found


def values_of(client, topic):
    return [message.data().decode() for messages in messages_of(client, topic) for message in messages]


NAMES = iter(range(10_000))


def source_of(connection, topic, **more):
    return PulsarSource(connection, topic, f"s{next(NAMES)}", **({"deserialization_schema": JsonSchema()} | more))


class Reading:
    """One reader of all partitions."""

    def __init__(self, source, splits=None, checkpointing=True):
        if splits is None:
            self.enumerator = source.enumerator(1)
            self.enumerator.start()
            splits = self.enumerator.next_splits(0)
        self.source, self.splits, self.woken, self.times = source, splits, threading.Event(), []
        self.metrics = MetricGroup()
        context = ConnectorContext("orders", wake=self.woken.set, checkpointing=checkpointing, metrics=self.metrics)
        self.reader = source.reader(context)
        self.reader.open()
        self.reader.add_splits(splits or [])

    def read(self, count=None, limit=100):
        """Read so many records, or to the end."""
        found = []
        while count is None or len(found) < count:
            got = self.reader.poll(limit if count is None else min(limit, count - len(found)), 0)
            if isinstance(got, NeedSplits):
                assert count is None, found
                return found
            if isinstance(got, Batch):
                found += got.values
                self.times += got.timestamps
            else:
                assert isinstance(got, Wait)
                assert self.woken.wait(30), f"only {len(found)}"
                self.woken.clear()
        return found

    def again(self):
        splits = self.reader.snapshot_state(1)
        self.reader.close()
        return Reading(self.source, splits)


@pytest.fixture
def reading(connection):
    made = []

    def make(topic, **more):
        made.append(Reading(source_of(connection, topic, **more)))
        return made[-1]

    yield make
    for each in made:
        each.reader.close()


# ---- the source


@pytest.mark.parametrize("batched", [True, False])
def test_the_source_keeps_its_contract(connection, client, topic, batched):
    put(client, topic, range(60), batched)

    check_source(source_of(connection, topic, stop=StopCursor.latest()), range(60), seeds=3)


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_job_reads_all_partitions(connection, client, topic, parallelism):
    put(client, topic, range(500))
    env = StreamExecutionEnvironment.create_local_environment(parallelism=parallelism)
    read = env.from_source(
        source_of(connection, topic, stop=StopCursor.latest()), WatermarkStrategy.no_watermarks(), "orders"
    )

    assert sorted(read.execute_and_collect()) == list(range(500))


def test_a_reader_goes_on_within_a_batch(client, pulsar_broker, reading):
    topic = pulsar_broker.topic()
    put(client, topic, range(50))
    job = reading(topic)
    found = job.read(7, limit=7)
    for count in (1, 13, 20):
        job = job.again()
        found += job.read(count, limit=5)
    job = job.again()
    found += job.read(9)
    job.reader.close()

    assert found == list(range(50))


def test_the_topic_may_be_empty_or_bounded_by_what_is_there(connection, client, topic, reading):
    assert reading(topic, stop=StopCursor.latest()).read() == []
    put(client, topic, range(10))
    job = reading(topic, stop=StopCursor.latest())
    put(client, topic, range(10, 20))
    assert sorted(job.read()) == list(range(10))
    assert reading(topic, start=StartCursor.latest(), stop=StopCursor.latest()).read() == []


def test_cursors_begin_and_end_where_they_say(client, pulsar_broker, reading):
    topic = pulsar_broker.topic()
    ids = put(client, topic, range(10), event_timestamp=1000)
    threading.Event().wait(0.05)
    later = put(client, topic, range(10, 20), event_timestamp=2000)
    [messages] = messages_of(client, topic)
    published = messages[10].publish_timestamp()
    for start, stop, wanted in (
        (StartCursor.from_message_id(ids[3]), StopCursor.at_message_id(ids[8]), range(3, 8)),
        (StartCursor.from_message_id(ids[3], inclusive=False), StopCursor.after_message_id(ids[8]), range(4, 9)),
        (StartCursor.from_message_id(later[12].serialize()), StopCursor.latest(), range(12, 20)),
        (StartCursor.from_publish_time(published), StopCursor.latest(), range(10, 20)),
        (StartCursor.earliest(), StopCursor.at_publish_time(published), range(10)),
        (StartCursor.earliest(), StopCursor.at_event_time(2000), range(10)),
        (StartCursor.earliest(), StopCursor.after_event_time(1000), range(10)),
    ):
        assert reading(topic, start=start, stop=stop).read() == list(wanted), (start, stop)


def test_latest_leaves_out_what_was_there_and_survives_a_restart_before_the_first_message(client, topic, reading):
    put(client, topic, range(10))
    job = reading(topic, start=StartCursor.latest())
    put(client, topic, range(10, 20))
    job = job.again()
    assert sorted(job.read(10)) == list(range(10, 20))
    job.reader.close()


def test_a_new_job_goes_on_where_the_subscription_is(connection, client, pulsar_broker):
    topic = pulsar_broker.topic()
    put(client, topic, range(10), batched=False)
    source = PulsarSource(connection, topic, "mine", JsonSchema())
    job = Reading(source)
    assert job.read(4) == [0, 1, 2, 3]
    job.reader.snapshot_state(1)
    assert job.read(2) == [4, 5]
    job.reader.snapshot_state(2)
    job.reader.notify_checkpoint_aborted(2)
    job.reader.notify_checkpoint_complete(1)
    job.reader.close()
    job = Reading(source)
    assert job.read(6) == [4, 5, 6, 7, 8, 9]
    job.reader.close()
    job = Reading(PulsarSource(connection, topic, "mine", JsonSchema(), reset_subscription=True))
    assert job.read(10) == list(range(10))
    job.reader.close()


def test_a_batch_that_was_read_in_part_is_not_acknowledged(connection, client, pulsar_broker):
    topic = pulsar_broker.topic()
    put(client, topic, range(10))
    source = PulsarSource(connection, topic, "mine", JsonSchema())
    job = Reading(source)
    job.read(4)
    job.reader.snapshot_state(1)
    job.reader.notify_checkpoint_complete(1)
    job.reader.close()
    job = Reading(source)
    assert job.read(10) == list(range(10))
    job.reader.snapshot_state(1)
    job.reader.notify_checkpoint_complete(1)
    job.reader.close()
    put(client, topic, [10])
    job = Reading(source)
    assert job.read(1) == [10]
    job.reader.close()


def test_a_job_without_checkpoints_acknowledges_from_time_to_time(connection, client, pulsar_broker):
    topic = pulsar_broker.topic()
    put(client, topic, range(4))
    job = Reading(PulsarSource(connection, topic, "mine", JsonSchema()), checkpointing=False)
    assert job.read(4) == [0, 1, 2, 3]
    job.reader.poll(9, 10_000)
    job.reader.close()
    put(client, topic, [4])
    job = Reading(PulsarSource(connection, topic, "mine", JsonSchema()), checkpointing=False)
    assert job.read(1) == [4]
    job.reader.close()


def test_records_have_the_time_of_the_producer_or_of_the_broker(client, pulsar_broker, reading):
    topic = pulsar_broker.topic()
    put(client, topic, [1], event_timestamp=1234)
    put(client, topic, [2])
    job = reading(topic)
    assert job.read(2) == [1, 2]
    [messages] = messages_of(client, topic)
    assert job.times == [1234, messages[1].publish_timestamp()]
    assert job.metrics.snapshot()["numBytesIn"] == 2


def test_topics_of_a_pattern_and_new_partitions_are_found(connection, client, pulsar_broker):
    first = pulsar_broker.topic(prefix="orders")
    pulsar_broker.topic(prefix="other")
    pattern = "persistent://public/plain/orders_.*"
    source = PulsarSource(connection, (), "mine", JsonSchema(), topic_pattern=pattern)
    enumerator = source.enumerator(1)
    enumerator.start()
    assert first in [split.id for split in enumerator.next_splits(0)]
    assert enumerator.discover(0) is None
    second = pulsar_broker.topic(2, prefix="orders")
    again = source.enumerator(1)
    again.restore(enumerator.snapshot())
    assert again.add_discovered(again.discover(0))
    new = again.next_splits(0)
    assert [split.id for split in new] == [f"{second}-partition-0", f"{second}-partition-1"]
    put(client, second, range(10))
    job = Reading(source, new)
    assert sorted(job.read(10)) == list(range(10))
    job.reader.close()
    with pytest.raises(SourceNotReadable, match="no topic that matches 'nothing.*'; correct it"):
        PulsarSource(connection, (), "mine", topic_pattern="nothing.*").enumerator(1).start()
    bare = PulsarConnection(connection.service_url)
    with pytest.raises(SourceNotReadable, match="pass admin_url"):
        PulsarSource(bare, (), "mine", topic_pattern=pattern).enumerator(1).start()


def test_a_malformed_message_is_named_with_its_place(connection, client, pulsar_broker, reading):
    topic = pulsar_broker.topic()
    put(client, topic, ["{", 5])
    with pytest.raises(MessageMalformed, match=rf"operator 'orders': {topic} message \(\d+, 0, 0\): JsonSchema"):
        reading(topic).read(1)
    skipping = reading(topic, malformed=MalformedRecordPolicy.SKIP, stop=StopCursor.latest())
    assert skipping.read() == [5]


def test_a_second_consumer_of_the_subscription_is_told(connection, client, topic, reading):
    job = reading(topic)
    put(client, topic, range(3))
    job.read(3)
    with pytest.raises(
        SourceNotReadable, match="answers ConsumerBusy; another consumer has this subscription; give each job"
    ):
        job.source.enumerator(1).start()


def test_what_is_not_there_is_told_before_the_job_runs(connection):
    with pytest.raises(
        SourceNotReadable, match=r"'?persistent://public/plain/none cannot be read: .* answers TopicNotFound; create"
    ):
        source_of(connection, "persistent://public/plain/none").enumerator(1).start()
    with pytest.raises(
        SinkNotWritable, match="public/plain/none cannot be written: .* answers TopicNotFound; create the topic"
    ):
        PulsarSink(connection, "persistent://public/plain/none").check()
    with pytest.raises(SinkNotWritable, match="start a broker, or correct the service URL"):
        PulsarSink(PulsarConnection("pulsar://127.0.0.1:1"), "orders").check()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda c: PulsarSource(c, (), "s"), "one or more different topics"),
        (lambda c: PulsarSource(c, ["a", "a"], "s"), "one or more different topics"),
        (lambda c: PulsarSource(c, "a", "s", topic_pattern="b.*"), "one or more different topics"),
        (lambda c: PulsarSource(c, "a", "s", bounded=True), "needs a stop cursor"),
        (lambda c: PulsarSource(c, "a", "s", "UTF-8"), "is no DeserializationSchema"),
        (lambda c: PulsarSink(c, ""), "the name of a topic"),
        (lambda c: PulsarSink(c, "a", "UTF-8"), "is no SerializationSchema"),
        (lambda c: PulsarSink(c, "a", routing=TopicRoutingMode.MESSAGE_KEY_HASH), "needs key"),
        (lambda c: PulsarConnection("pulsar://h", authentication="kerberos"), "no authentication 'kerberos'"),
        (
            lambda c: PulsarConnection("pulsar://h", authentication="tls", parameters="x").connect(),
            "not shown.* cannot be read",
        ),
    ],
)
def test_what_cannot_work_is_refused(connection, make, said):
    with pytest.raises(InvalidConfiguration, match=said):
        make(connection)


def test_secrets_are_not_shown():
    connection = PulsarConnection("pulsar://h", authentication="token", parameters="secret")
    assert "secret" not in repr(connection) + repr(PulsarSink(connection, "a"))
    connection.connect().close()


# ---- the sink


def test_the_sink_loses_nothing_whatever_fails(connection, client, pulsar_broker):
    def make(seed):
        topic = pulsar_broker.topic(2)
        return PulsarSink(connection, topic), lambda: values_of(client, topic)

    check_sink(make, seeds=2, count=30, exactly_once=False)


def test_the_sink_writes_exactly_once_whatever_fails(connection, client, pulsar_broker):
    def make(seed):
        topic = pulsar_broker.topic(2, "deduplicated")
        return PulsarSink(connection, topic, guarantee=EXACTLY_ONCE), lambda: values_of(client, topic)

    check_sink(make, seeds=4, count=30)


def by_item(order):
    return order["item"]


def test_messages_of_a_key_are_in_one_partition_in_their_order(connection, client, topic):
    orders = local([{"item": f"i{n % 5}", "n": n} for n in range(50)])
    by_key = TopicRoutingMode.MESSAGE_KEY_HASH
    orders.sink_to(PulsarSink(connection, topic, JsonSchema(), key=by_item, routing=by_key))
    orders.get_execution_environment().execute()
    found = [[json.loads(message.data()) for message in messages] for messages in messages_of(client, topic)]
    for item in {f"i{n}" for n in range(5)}:
        places = [place for place, orders in enumerate(found) if any(order["item"] == item for order in orders)]
        assert len(places) == 1
        assert [order["n"] for order in found[places[0]] if order["item"] == item] == list(range(int(item[1:]), 50, 5))
    keys = {message.partition_key() for messages in messages_of(client, topic) for message in messages}
    assert keys == {f"i{n}" for n in range(5)}


def last(value, partitions):
    return partitions[-1]


def test_messages_go_round_or_where_a_router_says_and_have_their_times(connection, client, topic):
    for routing, router, wanted in (
        (TopicRoutingMode.ROUND_ROBIN, None, [3, 3, 3]),
        (TopicRoutingMode.CUSTOM, last, [3, 3, 12]),
    ):
        writer = PulsarSink(connection, topic, routing=routing, router=router).writer(ConnectorContext("out"))
        writer.open()
        writer.write([f"v{n}" for n in range(9)], list(range(1000, 1009)), 0)
        writer.flush(end_of_input=False)
        writer.close()
        found = messages_of(client, topic)
        assert [len(messages) for messages in found] == wanted
    assert {message.event_timestamp() for message in found[0]} == {1000, 1003, 1006}


def test_a_message_that_is_too_large_fails_the_job_or_is_counted(connection, pulsar_broker):
    topic = pulsar_broker.topic()
    writer = PulsarSink(connection, topic).writer(ConnectorContext("out"))
    writer.open()
    with pytest.raises(SinkNotWritable, match="operator 'out': .* answers MessageTooBig; make the record smaller"):
        writer.write(["x" * 6_000_000], None, 0)
        writer.flush(end_of_input=False)
    writer.close()
    metrics = MetricGroup()
    writer = PulsarSink(connection, topic, guarantee=DeliveryGuarantee.NONE).writer(
        ConnectorContext("out", metrics=metrics)
    )
    writer.open()
    writer.write(["x" * 6_000_000], None, 0)
    writer.flush(end_of_input=True)
    writer.close()
    assert metrics.snapshot()["numRecordsSendErrors"] == 1


def test_exactly_once_without_deduplication_is_refused_at_the_first_commit(connection, topic):
    sink = PulsarSink(connection, topic, guarantee=EXACTLY_ONCE)
    writer = sink.writer(ConnectorContext("out"))
    writer.write(["a"], None, 0)
    committer = sink.committer(CommitterContext("out"))
    committer.open()
    with pytest.raises(SinkNotWritable, match="has no deduplication, and exactly once needs it; enable it"):
        committer.commit([CommitRequest(each) for each in writer.prepare_commit(1, False)])
    committer.close()
    writer.close()


def test_a_commit_that_was_cut_off_goes_on_where_it_was(connection, client, pulsar_broker):
    topic = pulsar_broker.topic(2, "deduplicated")
    sink = PulsarSink(connection, topic, guarantee=EXACTLY_ONCE)
    writer = sink.writer(ConnectorContext("out"))
    prepared = []
    for checkpoint in (1, 2):
        writer.write([f"{checkpoint}-{n}" for n in range(20)], None, 0)
        prepared += writer.prepare_commit(checkpoint, False)
    half = prepared[0]._replace(messages=prepared[0].messages[:7])
    outcomes = []
    for committables in ([half], prepared[::-1], prepared):
        committer = sink.committer(CommitterContext("out"))
        committer.open()
        requests = [CommitRequest(each) for each in committables]
        committer.recover(requests)
        outcomes.append([request.outcome for request in requests])
        committer.close()
    writer.close()
    assert Counter(values_of(client, topic)) == Counter(f"{c}-{n}" for c in (1, 2) for n in range(20))
    assert outcomes[2] == [CommitOutcome.ALREADY_COMMITTED] * 2


# ---- kills

COUNT, KEYS = 1500, 7
DRIVER = """
import sys
from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import DeliveryGuarantee, JsonSchema, RateLimitedSource
from funken.connectors.pulsar import PulsarConnection, PulsarSink, PulsarSource, StopCursor
url, topic, out = sys.argv[1:]
broker = PulsarConnection(url)
env = StreamExecutionEnvironment.get_execution_environment()
source = RateLimitedSource(PulsarSource(broker, topic, out.rsplit("/", 1)[1], JsonSchema(), stop=StopCursor.latest()), 700)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counts = numbers.map(lambda number: (number % 7, 1)).key_by(lambda pair: pair[0])
counts = counts.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("counts")
sink = PulsarSink(broker, out, guarantee=DeliveryGuarantee.EXACTLY_ONCE)
counts.map(lambda pair: f"{pair[0]}:{pair[1]}").sink_to(sink).uid("results")
env.execute()
"""


def test_each_result_is_there_once_although_the_driver_is_killed(client, pulsar_broker, topic, tmp_path):
    put(client, topic, range(COUNT))
    out = pulsar_broker.topic(2, "deduplicated")
    (tmp_path / "job.py").write_text(DRIVER)
    given = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.job-id": f"job-{out.rsplit('/', 1)[1]}",
    }
    options = [f"-D{key}={value}" for key, value in given.items()]
    command = [sys.executable, "-m", "funken", "run", "--target", "local", "-p", "2", *options, tmp_path / "job.py"]
    kills = 0
    for count in (200, 800, None):
        job = subprocess.Popen(
            [*command, pulsar_broker.url, topic, out],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while count is not None and job.poll() is None and len(values_of(client, out)) < count:
                threading.Event().wait(0.05)
            if count is not None:
                job.kill()
            told = job.communicate(timeout=120)
            assert job.returncode in ((0, -signal.SIGKILL) if count else (0,)), told
            kills += job.returncode != 0
        finally:
            job.kill()
    assert kills == 2
    wanted = Counter(f"{key}:{n}" for key in range(KEYS) for n in range(1, len(range(key, COUNT, KEYS)) + 1))
    assert Counter(values_of(client, out)) == wanted


# ---- PyFlink's names


def test_programs_of_pyflink_read_and_write(pulsar_broker, client, topic):
    from funken.compat.pyflink import pulsar as layer
    from funken.compat.pyflink.adoption import NotInFunken
    from funken.compat.pyflink.environment import StreamExecutionEnvironment as PyFlinkEnvironment
    from funken.compat.pyflink.formats import SimpleStringSchema
    from funken.compat.pyflink.times import Duration

    put(client, topic, ["to", "be"])
    out = pulsar_broker.topic()
    source = (
        layer.PulsarSource.builder()
        .set_service_url(pulsar_broker.url)
        .set_admin_url(pulsar_broker.admin_url)
        .set_topics([topic])
        .set_subscription_name("pyflink")
        .set_consumer_name("consumer-%s")
        .set_start_cursor(layer.StartCursor.earliest())
        .set_bounded_stop_cursor(layer.StopCursor.latest())
        .set_range_generator(layer.RangeGenerator.full())
        .set_deserialization_schema(SimpleStringSchema())
        .set_config("pulsar.source.enableAutoAcknowledgeMessage", True)
        .set_properties({"pulsar.source.autoCommitCursorInterval": "1000"})
        .build()
    )
    sink = (
        layer.PulsarSink.builder()
        .set_service_url(pulsar_broker.url)
        .set_admin_url(pulsar_broker.admin_url)
        .set_producer_name("producer-%s")
        .set_topics(out)
        .set_serialization_schema(SimpleStringSchema())
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_topic_routing_mode(layer.TopicRoutingMode.ROUND_ROBIN)
        .delay_sending_message(layer.MessageDelayer.fixed(Duration.of_seconds(12)))
        .set_config("pulsar.producer.chunkingEnabled", True)
        .build()
    )
    env = PyFlinkEnvironment.create_local_environment(1)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "pulsar").map(str.upper).sink_to(sink)
    env.execute()

    assert sorted(values_of(client, out)) == ["BE", "TO"]
    assert (sink.delay, sink.producer_name, source.consumer_name) == (12_000, "producer", "consumer")
    for wrong in (
        lambda: layer.RangeGenerator.fixed_key(keys=["a"]),
        lambda: layer.PulsarSink.builder().set_topic_router("a.B"),
    ):
        with pytest.raises(NotInFunken):
            wrong()
    with pytest.raises(InvalidConfiguration, match="no option 'pulsar.sourse.x'"):
        layer.PulsarSource.builder().set_config("pulsar.sourse.x", "1")
