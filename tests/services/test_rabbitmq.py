"""RabbitMQ's source and sink against a real server: the contracts, lost connections, what is refused, what ``check`` says."""

import itertools
import socket
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass

import pytest

from funken import StreamExecutionEnvironment
from funken.connectors import ConnectorContext, JsonSchema, MalformedRecord, MalformedRecordPolicy, SimpleStringSchema
from funken.connectors.rabbitmq import (
    RMQConnectionConfig,
    RMQDeserializationSchema,
    RMQSink,
    RMQSinkPublishOptions,
    RMQSource,
)
from funken.connectors.rabbitmq.source import RMQSplit
from funken.errors import MessageMalformed, SinkNotWritable, SourceNotReadable
from funken.metrics.registry import MetricGroup
from funken.testing import check_sink, check_source, local
from tests.support.rabbitmq import PASSWORD, POWERLESS, WRITER, RabbitProcess

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture
def name():
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def server(rabbitmq_process):
    return RMQConnectionConfig(uri=rabbitmq_process.url())


@pytest.fixture
def channel(rabbitmq_process):
    with rabbitmq_process.client() as channel:
        yield channel


def fill(channel, queue, numbers, ids=True, **arguments):
    import pika

    channel.queue_declare(queue, durable=True, arguments=arguments)
    for number in numbers:
        bears = {"correlation_id": f"m{number}"} if ids else {}
        channel.basic_publish("", queue, str(number).encode(), pika.BasicProperties(delivery_mode=2, **bears))
    ready(channel, queue, len(numbers))


def ready(channel, queue, count):
    """Wait until so many messages are ready in a queue."""
    waited = threading.Event()
    for _ in range(2000):
        found = channel.queue_declare(queue, passive=True).method.message_count
        if found == count:
            return
        waited.wait(0.005)
    raise AssertionError(f"{found} messages are ready in {queue}, not {count}")


def drain(channel, queue):
    """Take what is there."""
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2].decode())
    return found


def cut(link):
    """Break the connection of a link, as soon as there is one that works; returns when that was noticed."""
    waited, broken = threading.Event(), None
    for _ in range(2000):
        connection = link._connection
        if broken is not None and connection is not broken:
            return
        if broken is None and connection is not None and connection.is_open and link.worked:
            connection._transport._sock.shutdown(socket.SHUT_RDWR)
            broken = connection
        waited.wait(0.005)
    raise AssertionError("there was no connection for 10 s, or nobody noticed that it broke")


def written_down():
    """A queue is in the server's buffers for two seconds, and gone if the server is killed before that."""
    threading.Event().wait(3)


class Reading:
    """A reader of a source, with what it has read."""

    def __init__(self, source, checkpointing=True, ids=None, **more):
        self.metrics = MetricGroup()
        self.reader = source.reader(
            ConnectorContext("rabbit", metrics=self.metrics, checkpointing=checkpointing, **more)
        )
        self.reader.open()
        self.reader.add_splits([RMQSplit("share", tuple(ids or ()))])
        self.values, self.now = [], 0

    def read(self, count, limit=None):
        """Poll until there are so many values in all; with a ``limit`` of a poll no more than these are read."""
        waited = threading.Event()
        for _ in range(4000):
            most = 1000 if limit is None else min(limit, count - len(self.values))
            found = self.reader.poll(most, self.now)
            self.values += getattr(found, "values", [])
            if len(self.values) >= count:
                return self.values
            waited.wait(0.005)
        raise AssertionError(f"{len(self.values)} of {count} values within 20 s")

    def quiet(self, polls=60):
        """Poll for a third of a second; returns all values."""
        waited = threading.Event()
        for _ in range(polls):
            self.values += getattr(self.reader.poll(1000, self.now), "values", [])
            waited.wait(0.005)
        return self.values

    def checkpoint(self, number, complete=True):
        """Take a checkpoint; returns the ids in it."""
        [split] = self.reader.snapshot_state(number)
        if complete:
            self.reader.notify_checkpoint_complete(number)
        return split.ids

    def metric(self, metric):
        return self.metrics.snapshot()[f"RabbitMQSourceReader.{metric}"]

    def drop(self):
        """Let the connection break."""
        cut(self.reader._consumer.link)


@pytest.fixture
def reading():
    opened = []

    def start(*args, **more):
        opened.append(Reading(*args, **more))
        return opened[-1]

    yield start
    for each in opened:
        each.reader.close()


# ---- the source


@dataclass(frozen=True)
class RefilledSource(RMQSource):
    """Fills its queue when a run of the contract kit begins, and lets the readers of a former attempt die."""

    messages: int = 0
    process: object = None
    readers: list = None

    def enumerator(self, parallelism):
        for reader in self.readers:
            reader.close()
        self.readers.clear()
        enumerator = super().enumerator(parallelism)
        look = enumerator.start

        def start():
            with self.process.client() as channel:
                channel.queue_declare(self.queue_name, durable=True)
                ready_count = channel.queue_declare(self.queue_name, passive=True).method.message_count
                for _ in range(1000):  # what dying readers had comes back within some ms
                    if ready_count == 0 or ready_count >= self.messages:
                        break
                    ready_count = channel.queue_declare(self.queue_name, passive=True).method.message_count
                channel.queue_purge(self.queue_name)
                fill(channel, self.queue_name, range(self.messages))
            look()

        enumerator.start = start
        return enumerator

    def reader(self, context):
        self.readers.append(super().reader(context))
        return self.readers[-1]


def test_a_source_with_ids_keeps_the_contract(rabbitmq_process, server, name):
    source = RefilledSource(server, name, True, messages=120, process=rabbitmq_process, readers=[])
    check_source(source, [str(number) for number in range(120)], seeds=12)


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_messages_are_acknowledged_when_a_checkpoint_covers_them(server, channel, name, reading, queue_type):
    fill(channel, name, range(10), **{"x-queue-type": queue_type})
    first = reading(RMQSource(server, name, True))
    assert first.read(10) == [str(n) for n in range(10)]
    ids = first.checkpoint(1, complete=False)
    assert ids == tuple(f"m{n}" for n in range(10))
    assert first.metric("unacknowledgedMessages") == 10
    first.reader.close()
    ready(channel, name, 10)  # none was acknowledged
    second = reading(RMQSource(server, name, True), ids=ids)
    fill_more(channel, name, range(10, 12))
    assert second.read(2) == ["10", "11"]
    assert second.metric("duplicates") == 10
    second.checkpoint(2)
    second.quiet(20)
    assert second.metric("unacknowledgedMessages") == 0
    second.reader.close()
    assert drain(channel, name) == []


def fill_more(channel, queue, numbers):
    import pika

    for number in numbers:
        channel.basic_publish("", queue, str(number).encode(), pika.BasicProperties(correlation_id=f"m{number}"))


def test_without_ids_what_no_checkpoint_covers_comes_again(server, channel, name, reading):
    fill(channel, name, range(6), ids=False)
    first = reading(RMQSource(server, name))
    first.read(6)
    assert first.checkpoint(1, complete=False) == ()
    first.reader.close()
    second = reading(RMQSource(server, name))
    assert second.read(6) == [str(n) for n in range(6)]
    second.checkpoint(2)
    second.reader.close()
    assert drain(channel, name) == []


def test_without_checkpoints_messages_are_acknowledged_as_they_are_read(server, channel, name, reading):
    fill(channel, name, range(50))
    first = reading(RMQSource(server, name, True), checkpointing=False)
    first.read(20, limit=20)
    first.reader.close()
    ready(channel, name, 30)
    assert drain(channel, name) == [str(n) for n in range(20, 50)]


def test_no_more_is_unacknowledged_than_the_prefetch_count_allows(rabbitmq_process, channel, name, reading, caplog):
    fill(channel, name, range(50))
    config = RMQConnectionConfig(uri=rabbitmq_process.url(), prefetch_count=20)
    few = reading(RMQSource(config, name, True))
    few.read(20)
    assert len(few.quiet()) == 20
    assert few.metric("unacknowledgedMessages") == 20
    assert "20 messages of the queue" in caplog.text
    few.checkpoint(1)
    few.read(40)
    few.checkpoint(2)
    assert few.read(50) == [str(n) for n in range(50)]


def test_a_connection_that_breaks_loses_and_doubles_nothing(server, channel, name, reading):
    fill(channel, name, range(30))
    one = reading(RMQSource(server, name, True))
    one.read(10, limit=10)
    one.checkpoint(1, complete=False)
    one.read(20, limit=10)
    one.drop()
    one.read(30)
    assert one.quiet() == [str(n) for n in range(30)]
    assert one.metric("connectionsLost") == 1
    one.reader.notify_checkpoint_complete(1)
    one.drop()  # perhaps before the server has seen the acknowledgements
    one.quiet()
    one.checkpoint(2)
    one.quiet()
    assert one.values == [str(n) for n in range(30)]
    one.reader.close()
    assert drain(channel, name) == []


def test_ids_are_forgotten_when_the_server_has_seen_the_acknowledgement(server, channel, name, reading):
    fill(channel, name, range(30))
    one = reading(RMQSource(server, name, True, remember=5))
    one.read(30)
    one.checkpoint(1)
    one.quiet()
    assert one.checkpoint(2) == tuple(f"m{n}" for n in range(25, 30))


def test_ids_that_were_restored_are_forgotten_when_nothing_comes_again(server, channel, name, reading):
    fill(channel, name, range(3))
    one = reading(RMQSource(server, name, True, remember=2), ids=["old1", "old2", "old3"])
    one.read(3)
    assert one.checkpoint(1) == ("old1", "old2", "old3", "m0", "m1", "m2")
    one.quiet()
    one.now = 3 * 60_000  # by now the server has given up whoever read before
    fill_more(channel, name, [3])
    one.read(4)
    assert one.checkpoint(2) == ("old2", "old3", "m3") or len(one.checkpoint(3)) <= 4


def test_a_source_with_ids_is_the_only_reader_of_its_queue(server, channel, name, reading, monkeypatch):
    monkeypatch.setattr("funken.connectors.rabbitmq.link.AWAY_S", 0.5)
    fill(channel, name, [], **{"x-queue-type": "quorum"})
    classic = f"{name}-classic"
    fill(channel, classic, [])
    for queue in (name, classic):
        first = reading(RMQSource(server, queue, True))
        first.quiet(20)
        second = reading(RMQSource(server, queue, True))
        with pytest.raises(
            SourceNotReadable, match="with use_correlation_id a job needs it for itself|needs it for itself"
        ):
            second.quiet(2000)
        first.reader.close()


def test_a_message_without_an_id_is_an_error(server, channel, name, reading):
    fill(channel, name, [1], ids=False)
    with pytest.raises(SourceNotReadable, match=f"queue '{name}' has no correlation id.*use_correlation_id=False"):
        reading(RMQSource(server, name, True)).read(1)


def test_schemas_see_the_whole_message_or_its_body(server, channel, name):
    import pika

    channel.queue_declare(name, durable=True)
    bears = pika.BasicProperties(headers={"item": "tea"}, timestamp=1_700_000_000, message_id="7")
    channel.basic_publish("", name, b"3", bears)
    whole = RMQDeserializationSchema.of(
        lambda message: (message.routing_key, message.headers["item"], message.properties["message_id"], message.body)
    )
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    source = RMQSource(server, name, deserialization_schema=whole)
    assert env.from_source(source).execute_and_collect(limit=1) == [(name, "tea", "7", b"3")]
    channel.basic_publish("", name, b'{"n": 3}', bears)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    source = RMQSource(server, name, deserialization_schema=JsonSchema())
    assert env.from_source(source).execute_and_collect(limit=1) == [{"n": 3}]


def test_malformed_messages_go_by_the_policy(server, channel, name, reading):
    def filled(policy):
        fill(channel, f"{name}-{policy.value}", ["1", "{", "3"])
        return RMQSource(server, f"{name}-{policy.value}", True, JsonSchema(), malformed=policy)

    with pytest.raises(MessageMalformed, match=f"queue '{name}-fail' message 'm{{'.*cannot read the message b'{{'"):
        reading(filled(MalformedRecordPolicy.FAIL)).read(3)
    skipping = reading(filled(MalformedRecordPolicy.SKIP))
    assert skipping.read(2) == [1, 3]
    assert skipping.metric("malformedRecords") == 1
    skipping.checkpoint(1)
    skipping.reader.close()
    assert drain(channel, f"{name}-skip") == []
    emitted = reading(filled(MalformedRecordPolicy.EMIT)).read(3)
    assert isinstance(emitted[1], MalformedRecord)


def test_a_reader_survives_a_server_that_is_killed_and_comes_back(own_rabbitmq, name, reading):
    config = RMQConnectionConfig(uri=own_rabbitmq.url(), network_recovery_interval=500)
    with own_rabbitmq.client() as channel:
        fill(channel, name, range(100))
    written_down()
    one = reading(RMQSource(config, name, True))
    one.read(40, limit=40)
    one.checkpoint(1)
    one.read(60, limit=20)
    own_rabbitmq.kill()
    own_rabbitmq.start()
    with own_rabbitmq.client() as channel:
        fill_more(channel, name, range(100, 110))
    one.read(110)
    one.checkpoint(2)
    assert sorted(map(int, one.quiet())) == [*range(110)]


def test_a_consumer_that_the_server_times_out_begins_again(impatient_rabbitmq, name, reading, caplog):
    with impatient_rabbitmq.client() as channel:
        fill(channel, name, range(10))
    one = reading(RMQSource(RMQConnectionConfig(uri=impatient_rabbitmq.url()), name, True))
    one.read(10)
    waited = threading.Event()
    for _ in range(3000):
        if one.metric("connectionsLost"):
            break
        one.quiet(1)
        waited.wait(0.005)
    assert "take checkpoints more often" in caplog.text
    one.quiet()
    one.checkpoint(1)
    assert one.quiet() == [str(n) for n in range(10)]
    one.reader.close()
    with impatient_rabbitmq.client() as channel:
        assert drain(channel, name) == []


def test_a_job_that_is_busy_keeps_its_connection(rabbitmq_process, channel, name, reading):
    fill(channel, name, range(3))
    config = RMQConnectionConfig(uri=rabbitmq_process.url(), requested_heartbeat=1)
    one = reading(RMQSource(config, name, True))
    one.read(3)
    threading.Event().wait(4)  # the server gives up a client that is silent for two seconds
    one.checkpoint(1)
    one.quiet()
    assert one.metric("connectionsLost") == 0
    one.reader.close()
    assert drain(channel, name) == []


def test_without_recovery_a_connection_that_breaks_fails_the_job(rabbitmq_process, channel, name, reading):
    fill(channel, name, range(3))
    config = RMQConnectionConfig(uri=rabbitmq_process.url(), automatic_recovery=False)
    one = reading(RMQSource(config, name, True))
    one.read(3)
    one.drop()
    with pytest.raises(SourceNotReadable, match=f"the queue '{name}' at amqp://127.0.0.1:.* cannot be read"):
        one.quiet(2000)


def test_subtasks_share_a_queue(server, channel, name):
    fill(channel, name, range(100), ids=False)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    found = env.from_source(RMQSource(server, name)).execute_and_collect(limit=100)
    assert sorted(map(int, found)) == [*range(100)]


# ---- what cannot be read


def started(config, queue, **more):
    RMQSource(config, queue, **more).enumerator(1).start()


def test_what_cannot_be_read_is_said_before_anything_runs(rabbitmq_process, server, channel, name):
    def refused(why, queue=name, **more):
        with pytest.raises(SourceNotReadable, match=why) as told:
            started(RMQConnectionConfig(uri=rabbitmq_process.url(**more)), queue)
        assert "guess" not in str(told.value)
        assert PASSWORD not in str(told.value)

    refused(f"no queue '{name}' in vhost '/'; correct the name, or declare it .*declare_queue=True")
    started(server, name, declare_queue=True)
    started(server, name)
    channel.basic_publish("", name, b"1")
    started(server, name)
    assert channel.basic_get(name)[0].redelivered is False  # looking took nothing
    refused("refuses the user 'ada' with this password; correct them", password="guess")
    refused(f"access to queue '{name}' in vhost '/' refused for user '{POWERLESS}'; grant it", user=POWERLESS)
    refused("the virtual host 'absent' is not there; correct its name", vhost="absent")
    refused("the virtual host 'closed' is refused to the user 'ada'", vhost="closed")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    with pytest.raises(SourceNotReadable, match=f"refused.*start the server, or correct amqp://127.0.0.1:{port}/"):
        started(RMQConnectionConfig("127.0.0.1", port), name)


def test_a_queue_that_is_deleted_ends_the_reader(server, channel, name, reading):
    fill(channel, name, range(3))
    one = reading(RMQSource(server, name, True))
    one.read(3)
    channel.queue_delete(name)
    with pytest.raises(SourceNotReadable, match=f"no queue '{name}' in vhost '/'; correct the name, or declare it"):
        one.quiet(2000)


# ---- the sink


def test_a_sink_keeps_the_contract(rabbitmq_process, server, channel, name):
    def make(seed):
        queue = f"{name}-{seed}"
        channel.queue_declare(queue, durable=True)
        seen = []

        def visible():
            seen.extend(drain(channel, queue))
            return list(seen)

        return RMQSink(server, queue), visible

    check_sink(make, seeds=10, exactly_once=False)


def test_a_sink_publishes_by_functions_of_the_record(server, channel, name):
    channel.exchange_declare(name, "topic")
    for queue, key in ((f"{name}-tea", "item.tea"), (f"{name}-all", "item.#")):
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, name, key)
    options = RMQSinkPublishOptions(
        name, lambda pair: f"item.{pair[0]}", lambda pair: {"correlation_id": pair[0], "headers": {"n": pair[1]}}
    )
    pairs = local([("tea", 3), ("jam", 4)])
    pairs.sink_to(RMQSink(server, serialization_schema=JsonSchema(), publish_options=options))
    pairs.get_execution_environment().execute()
    method, properties, body = channel.basic_get(f"{name}-tea", auto_ack=True)
    assert (method.routing_key, properties.correlation_id, properties.headers, body) == (
        "item.tea",
        "tea",
        {"n": 3},
        b'["tea", 3]',
    )
    assert properties.delivery_mode == 2
    assert drain(channel, f"{name}-all") == ['["tea", 3]', '["jam", 4]']


def test_a_message_that_reaches_no_queue_fails_the_job(server, channel, name):
    channel.exchange_declare(name, "topic")
    options = RMQSinkPublishOptions(name, "nobody")
    words = local(["to"])
    words.sink_to(RMQSink(server, publish_options=options))
    with pytest.raises(SinkNotWritable, match=f"exchange '{name}' with routing key 'nobody' came back: NO_ROUTE"):
        words.get_execution_environment().execute()
    words = local(["to"])
    words.sink_to(RMQSink(server, publish_options=RMQSinkPublishOptions(name, "nobody", mandatory=False)))
    words.get_execution_environment().execute()


def writer_of(sink):
    metrics = MetricGroup()
    writer = sink.writer(ConnectorContext("out", metrics=metrics))
    writer.open()
    return writer, metrics


def test_a_queue_that_takes_no_more_fails_the_job(server, channel, name):
    channel.queue_declare(name, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    writer, metrics = writer_of(RMQSink(server, name))
    writer.write(["a", "b", "c"], None, 0)
    with pytest.raises(SinkNotWritable, match=r"did not accept \d messages .*reject-publish"):
        writer.flush(False)
    assert metrics.snapshot()["numRecordsSendErrors"] >= 1
    writer.close()


def test_what_was_not_confirmed_is_sent_again_after_a_connection_breaks(server, channel, name):
    channel.queue_declare(name, durable=True)
    writer, metrics = writer_of(RMQSink(server, name))
    for start in range(0, 5000, 100):
        writer.write([str(n) for n in range(start, start + 100)], None, 0)
        if start in (1000, 3000):
            cut(writer._publisher.link)
    writer.flush(False)
    assert metrics.snapshot()["connectionsLost"] == 2
    assert metrics.snapshot()["unconfirmedMessages"] == 0
    writer.close()
    found = [int(body) for body in drain(channel, name)]
    assert set(found) == set(range(5000))
    assert len(found) < 5000 + 2 * 4000


def test_a_writer_survives_a_server_that_is_killed_and_comes_back(own_rabbitmq, name):
    config = RMQConnectionConfig(uri=own_rabbitmq.url(), network_recovery_interval=500)
    with own_rabbitmq.client() as channel:
        channel.queue_declare(name, durable=True)
    written_down()
    writer, _ = writer_of(RMQSink(config, name))
    writer.write([str(n) for n in range(1000)], None, 0)
    writer.flush(False)
    own_rabbitmq.kill()
    writer.write([str(n) for n in range(1000, 2000)], None, 0)
    own_rabbitmq.start()
    writer.flush(True)
    writer.close()
    with own_rabbitmq.client() as channel:
        assert {int(body) for body in drain(channel, name)} == set(range(2000))


def test_a_sink_says_what_is_wrong_before_anything_runs(rabbitmq_process, server, channel, name):
    with pytest.raises(SinkNotWritable, match=f"no queue '{name}'.*declare_queue=True"):
        RMQSink(server, name).check()
    RMQSink(server, name, declare_queue=True).check()
    with pytest.raises(SinkNotWritable, match=f"no exchange '{name}' in vhost"):
        RMQSink(server, publish_options=RMQSinkPublishOptions(name, "any")).check()
    scribe = RMQConnectionConfig(uri=rabbitmq_process.url(user=WRITER))
    RMQSink(scribe, name).check()
    with pytest.raises(SourceNotReadable, match=f"access to queue '{name}'.*refused for user 'scribe'"):
        started(scribe, name)
    nemo = RMQConnectionConfig(uri=rabbitmq_process.url(user=POWERLESS))
    with pytest.raises(SinkNotWritable, match=f"access to exchange .* refused for user '{POWERLESS}'; grant it"):
        RMQSink(nemo, name).check()
    with pytest.raises(SinkNotWritable, match="refuses the user 'ada'"):
        RMQSink(RMQConnectionConfig(uri=rabbitmq_process.url(password="guess")), name).check()
    assert drain(channel, name) == []


def test_a_server_that_is_away_for_too_long_fails_the_writer(own_rabbitmq, name, monkeypatch):
    monkeypatch.setattr("funken.connectors.rabbitmq.link.AWAY_S", 0.5)
    with own_rabbitmq.client() as channel:
        channel.queue_declare(name, durable=True)
    writer, _ = writer_of(RMQSink(RMQConnectionConfig(uri=own_rabbitmq.url()), name))
    own_rabbitmq.kill()
    writer.write(["a"], None, 0)
    with pytest.raises(SinkNotWritable, match="start the server, or correct amqp://127.0.0.1"):
        writer.flush(True)
    writer.close()


def test_a_server_that_takes_no_messages_is_told(rabbitmq_server_programs, tmp_path, name, monkeypatch):
    monkeypatch.setattr("funken.connectors.rabbitmq.sink._CONFIRM_S", 2.0)
    monkeypatch.setattr("funken.connectors.rabbitmq.server._BLOCKED_S", 1.0)
    monkeypatch.setattr("funken.connectors.rabbitmq.link._CLOSE_S", 1.0)
    full = RabbitProcess(rabbitmq_server_programs, tmp_path, disk_free_limit=10**15)
    try:
        full.start()
        sink = RMQSink(RMQConnectionConfig(uri=full.url()), name, declare_queue=True)
        with pytest.raises(SinkNotWritable, match="accepts no messages: it is short of memory or disk space"):
            sink.check()
        writer, _ = writer_of(sink)
        writer.write(["a"], None, 0)
        with pytest.raises(
            SinkNotWritable, match="was confirmed for 2 s, and 1 are not; the server takes none: low on disk"
        ):
            writer.flush(True)
        writer.close()
    finally:
        full.stop()


# ---- TLS


def test_messages_go_over_tls(rabbitmq_process, name):
    if not rabbitmq_process.tls_port:
        pytest.skip("there is no openssl to make a certificate with")
    address = f"amqps://ada:{PASSWORD}@127.0.0.1:{rabbitmq_process.tls_port}/%2F"
    trusted = RMQConnectionConfig(uri=f"{address}?cacertfile={rabbitmq_process.ca}")
    words = local(["to", "be"])
    words.sink_to(RMQSink(trusted, name, declare_queue=True))
    words.get_execution_environment().execute()
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    assert env.from_source(RMQSource(trusted, name)).execute_and_collect(limit=2) == ["to", "be"]
    with pytest.raises(SourceNotReadable, match="CERTIFICATE_VERIFY_FAILED.*name the certificate to trust"):
        started(RMQConnectionConfig(uri=address), name)
    started(RMQConnectionConfig(uri=f"{address}?verify=verify_none"), name)
    plain = RMQConnectionConfig(uri=address.replace(str(rabbitmq_process.tls_port), str(rabbitmq_process.port)))
    with pytest.raises(SourceNotReadable, match="no connection over TLS.*amqp or amqps"):
        started(plain, name)


def test_a_program_reads_and_writes(server, channel, name):
    fill(channel, name, range(20))
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    numbers = env.from_source(RMQSource(server, name, True, SimpleStringSchema()))
    found = numbers.map(int).map(lambda n: n * 2).execute_and_collect(limit=20)
    assert found == list(itertools.islice(itertools.count(0, 2), 20))


PYFLINK = """
import sys

from pyflink.common import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource

port, come = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
env.add_jars("file:///path/to/flink-sql-connector-rabbitmq.jar")
connection_config = (
    RMQConnectionConfig.Builder()
    .set_host("127.0.0.1")
    .set_port(int(port))
    .set_virtual_host("/")
    .set_user_name("ada")
    .set_password("open-sesame")
    .build()
)
env.from_collection(["to", "be", "or"]).add_sink(RMQSink(connection_config, come, SimpleStringSchema()))
env.execute("write")
env.enable_checkpointing(200)
stream = env.add_source(RMQSource(connection_config, come, False, SimpleStringSchema())).set_parallelism(1)
with stream.map(str.upper).execute_and_collect() as words:
    print(next(words), next(words), next(words), flush=True)
"""


def test_a_program_for_pyflink_runs(rabbitmq_process, name, tmp_path):
    (tmp_path / "job.py").write_text(PYFLINK)
    command = [
        sys.executable,
        "-m",
        "funken",
        "run",
        "--pyflink",
        "--target",
        "local",
        "job.py",
        str(rabbitmq_process.port),
        name,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert sorted(set(done.stdout.split()) & {"BE", "OR", "TO"}) == ["BE", "OR", "TO"], done.stderr
