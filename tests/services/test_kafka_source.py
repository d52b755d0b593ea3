"""``KafkaSource`` against a real broker."""

import json

import pytest

from funken import Configuration, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import ConnectorContext, MalformedRecord, MalformedRecordPolicy, SimpleStringSchema, Wait
from funken.connectors.base import Batch
from funken.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaTopicPartition,
)
from funken.errors import MessageMalformed, SourceNotReadable
from funken.testing import check_source
from tests.support.kafka import free_port

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
Offsets = KafkaOffsetsInitializer


@pytest.fixture
def builder(kafka):
    return KafkaSource.builder().set_bootstrap_servers(kafka.servers).set_value_only_deserializer(SimpleStringSchema())


def run(source, parallelism=1):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=parallelism)
    with env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").execute_and_collect() as results:
        return list(results)


def test_a_source_keeps_its_contract(kafka, builder):
    topic = kafka.topic(partitions=3)
    values = [str(number) for number in range(60)]
    kafka.produce(topic, values)

    check_source(builder.set_topics(topic).set_bounded(Offsets.latest()).build(), values, seeds=6)


@pytest.mark.parametrize("vectorized", [True, False])
def test_text_is_columns_and_so_is_the_json_in_it(kafka, builder, vectorized):
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [json.dumps({"user": f"u{n % 3}", "n": n, "note": "né"}) for n in range(100)])
    source = builder.set_topics(topic).set_bounded(Offsets.latest()).build()
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    texts = env.from_source(source, WatermarkStrategy.no_watermarks(), "texts")
    numbers = texts.map(json.loads).filter(lambda each: each["n"] % 2 == 0).map(lambda each: (each["user"], each["n"]))

    assert ("projection: map: reads 2 of 3 fields: user, n" in env.explain()) == vectorized
    with numbers.execute_and_collect() as results:
        assert sorted(results) == sorted((f"u{n % 3}", n) for n in range(0, 100, 2))


def test_text_that_is_no_utf_8_is_replaced_on_columns_too(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [b"to be", b"caf\xe9", b"or not"])
    source = builder.set_topics(topic).set_bounded(Offsets.latest()).build()
    env = StreamExecutionEnvironment.create_local_environment(1)
    texts = env.from_source(source, WatermarkStrategy.no_watermarks(), "texts").map(lambda text: text.upper())
    with texts.execute_and_collect() as found:
        assert list(found) == ["TO BE", "CAF\ufffd", "OR NOT"]


def test_offsets_that_hold_no_record_do_not_keep_a_bounded_source_from_its_end(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["a", "b"], transactional=f"{topic}-1")
    kafka.produce(topic, ["x"], transactional=f"{topic}-2", commit=False)
    kafka.produce(topic, ["c"], transactional=f"{topic}-3")

    assert run(builder.set_topics(topic).set_bounded(Offsets.latest()).build()) == ["a", "b", "c"]


def test_what_comes_after_the_start_is_beyond_the_end_of_a_bounded_source(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["a", "b"])
    source = builder.set_topics(topic).set_bounded(Offsets.latest()).build()
    enumerator = source.enumerator(parallelism=1)
    enumerator.start()
    kafka.produce(topic, ["late"])
    [split] = enumerator.next_splits(0)

    assert (split.offset, split.stopping_offset, enumerator.next_splits(0)) == (0, 2, None)
    assert read(source, [split], 2) == ["a", "b"]


def read(source, splits, count, polls=20_000):
    """Poll a reader until it has read so many values, then until it needs splits or waits."""
    import threading

    woken = threading.Event()
    reader = source.reader(ConnectorContext("orders", wake=woken.set))
    reader.open()
    try:
        reader.add_splits(splits)
        found = []
        for _ in range(polls):
            woken.clear()
            got = reader.poll(100, now=1)
            if isinstance(got, Batch):
                found += got.values
            elif isinstance(got, Wait) and len(found) < count:
                assert woken.wait(60)
            elif len(found) >= count:
                return found
        raise AssertionError(f"{len(found)} of {count} were read")
    finally:
        reader.close()


def test_where_reading_begins(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["0", "1", "2", "3"])
    second = kafka.read(topic)[2].timestamp()[1]
    zero = KafkaTopicPartition(topic, 0)
    begins = {
        Offsets.earliest(): 0,
        Offsets.latest(): 4,
        Offsets.timestamp(0): 0,
        Offsets.timestamp(second + 3_600_000): 4,
        Offsets.offsets({zero: 3}): 3,
        Offsets.offsets({}): 0,
        Offsets.offsets({}, KafkaOffsetResetStrategy.LATEST): 4,
        Offsets.committed_offsets(KafkaOffsetResetStrategy.EARLIEST): 0,
    }
    for initializer, offset in begins.items():
        source = builder.set_topics(topic).set_group_id(f"g-{topic}").set_starting_offsets(initializer).build()
        enumerator = source.enumerator(parallelism=1)
        enumerator.start()
        assert [split.offset for split in enumerator.next_splits(0)] == [offset], initializer


def test_a_group_that_has_committed_nothing_is_an_error(kafka, builder):
    source = builder.set_topics(kafka.topic()).set_group_id("nobody").set_starting_offsets(Offsets.committed_offsets())

    with pytest.raises(SourceNotReadable, match="group 'nobody' has committed nothing .*EARLIEST or LATEST"):
        source.build().enumerator(1).start()


def test_offsets_are_committed_to_the_group_when_a_checkpoint_is_complete(kafka, builder):
    import threading

    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["0", "1", "2"])
    source = builder.set_topics(topic).set_group_id(f"g-{topic}").build()
    enumerator = source.enumerator(parallelism=1)
    enumerator.start()
    woken = threading.Event()
    context = ConnectorContext("orders", wake=woken.set)
    reader = source.reader(context)
    reader.open()
    try:
        reader.add_splits(enumerator.next_splits(0))
        while not isinstance(reader.poll(2, now=1), Batch):
            assert woken.wait(60)
            woken.clear()
        assert [split.offset for split in reader.snapshot_state(1)] == [2]
        reader.notify_checkpoint_complete(1)
        for _ in range(300):
            metrics = context.metrics.snapshot()
            known = metrics[f"KafkaSourceReader.topic.{topic}.partition.0.recordsLag"] >= 0
            if known and metrics["KafkaSourceReader.commitsSucceeded"]:
                break
            woken.wait(0.1)
    finally:
        reader.close()

    assert metrics[f"KafkaSourceReader.topic.{topic}.partition.0.committedOffset"] == 2
    assert metrics[f"KafkaSourceReader.topic.{topic}.partition.0.recordsLag"] == 1
    again = (
        builder.set_topics(topic).set_group_id(f"g-{topic}").set_starting_offsets(Offsets.committed_offsets()).build()
    )
    enumerator = again.enumerator(parallelism=1)
    enumerator.start()
    assert [split.offset for split in enumerator.next_splits(0)] == [2]


def test_new_partitions_are_found_and_read_from_their_beginning(kafka, builder):
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = kafka.topic(partitions=1)
    source = builder.set_topics(topic).set_starting_offsets(Offsets.latest()).build()
    enumerator = source.enumerator(parallelism=2)
    enumerator.start()
    first = enumerator.next_splits(0) + enumerator.next_splits(1)
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
    kafka.produce(topic, ["new"], partition=1)

    assert enumerator.add_discovered(enumerator.discover(0))
    later = enumerator.next_splits(0) + enumerator.next_splits(1)
    assert [(split.partition, split.offset) for split in first + later] == [(0, 0), (1, 0)]
    assert not enumerator.add_discovered(enumerator.discover(1))
    assert read(source, later, 1) == ["new"]


def test_a_pattern_matches_whole_names(kafka, builder):
    name = kafka.topic(partitions=1)
    kafka.topic(partitions=1, name=f"{name}-more")
    kafka.produce(name, ["a"])

    assert run(builder.set_topic_pattern(name).set_bounded(Offsets.latest()).build()) == ["a"]


def test_key_headers_timestamp_and_place_are_there(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["v"], keys=["k"])
    schema = KafkaRecordDeserializationSchema.of(lambda record: record)

    [record] = run(builder.set_deserializer(schema).set_topics(topic).set_bounded(Offsets.latest()).build())

    assert (record.topic, record.partition, record.offset, record.key, record.value) == (topic, 0, 0, b"k", b"v")
    assert record.timestamp > 1_700_000_000_000


def test_the_timestamp_of_a_record_is_that_of_the_topic(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["a"])
    [message] = kafka.read(topic)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    source = builder.set_topics(topic).set_bounded(Offsets.latest()).build()
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "orders")

    assert stream.process(lambda value, ctx: [ctx.timestamp()]).execute_and_collect(limit=1) == [message.timestamp()[1]]


def test_a_record_without_a_value_is_dropped(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["a", None, "b"])

    assert run(builder.set_topics(topic).set_bounded(Offsets.latest()).build()) == ["a", "b"]


def test_a_poisoned_message_fails_the_job_or_is_skipped_or_emitted(kafka, builder):
    from funken.connectors import JsonSchema

    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["1", "{", "3"])
    poisoned = builder.set_value_only_deserializer(JsonSchema()).set_topics(topic).set_bounded(Offsets.latest())

    with pytest.raises(MessageMalformed, match=f"operator 'orders': {topic}-0 offset 1: JsonSchema cannot read"):
        run(poisoned.build())
    assert run(poisoned.set_malformed_record_policy(MalformedRecordPolicy.SKIP).build()) == [1, 3]
    one, bad, three = run(poisoned.set_malformed_record_policy(MalformedRecordPolicy.EMIT).build())
    assert (one, three, bad.message) == (1, 3, b"{")
    assert isinstance(bad, MalformedRecord)


def test_a_missing_topic_is_named_with_its_neighbours(kafka, builder):
    topic = kafka.topic()

    with pytest.raises(SourceNotReadable, match=f"topic '{topic}s' does not exist .* Did you mean '{topic}'"):
        run(builder.set_topics(topic + "s").build())


def test_a_missing_partition_is_named(kafka, builder):
    topic = kafka.topic(partitions=1)

    with pytest.raises(SourceNotReadable, match=f"no partition {topic}-7 .* the topic has 1"):
        run(builder.set_partitions({KafkaTopicPartition(topic, 7)}).build())


def test_a_broker_that_is_not_there_is_named(kafka, builder, monkeypatch):
    monkeypatch.setattr("funken.connectors.kafka.enumerator.REQUEST_TIMEOUT_S", 2)
    nowhere = f"127.0.0.1:{free_port()}"

    with pytest.raises(SourceNotReadable, match=f"no broker of '{nowhere}' answers: _TRANSPORT"):
        run(builder.set_bootstrap_servers(nowhere).set_topics("orders").build())


def test_an_offset_that_is_out_of_range_is_an_error_without_a_strategy(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["a"])
    zero = KafkaTopicPartition(topic, 0)
    begin = Offsets.offsets({zero: 100}, KafkaOffsetResetStrategy.NONE)
    source = builder.set_topics(topic).set_starting_offsets(begin).build()
    enumerator = source.enumerator(parallelism=1)
    enumerator.start()

    with pytest.raises(SourceNotReadable, match="operator 'orders': an offset to read from is not in its partition"):
        read(source, enumerator.next_splits(0), 1)


def test_an_offset_that_is_out_of_range_is_reset_by_the_strategy(kafka, builder):
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, ["a"])
    begin = Offsets.offsets({KafkaTopicPartition(topic, 0): 100}, KafkaOffsetResetStrategy.EARLIEST)
    source = builder.set_topics(topic).set_starting_offsets(begin).build()
    enumerator = source.enumerator(parallelism=1)
    enumerator.start()

    assert read(source, enumerator.next_splits(0), 1) == ["a"]


def test_subtasks_share_partitions(kafka, builder):
    topic = kafka.topic(partitions=4)
    values = [str(number) for number in range(100)]
    kafka.produce(topic, values)

    assert sorted(run(builder.set_topics(topic).set_bounded(Offsets.latest()).build(), parallelism=3)) == sorted(values)


def test_reading_goes_on_after_the_broker_was_away(own_kafka, builder):
    """The broker is killed in the middle and comes back; a reader neither fails, nor loses, nor doubles."""
    import threading

    topic = own_kafka.topic(partitions=1)
    own_kafka.produce(topic, [str(number) for number in range(50)])
    source = builder.set_bootstrap_servers(own_kafka.servers).set_topics(topic).build()
    enumerator = source.enumerator(parallelism=1)
    enumerator.start()
    woken = threading.Event()
    reader = source.reader(ConnectorContext("orders", wake=woken.set))
    reader.open()
    found = []

    def until(count):
        while len(found) < count:
            got = reader.poll(10, now=1)
            if isinstance(got, Batch):
                found.extend(got.values)
            else:
                woken.wait(1)
                woken.clear()

    try:
        reader.add_splits(enumerator.next_splits(0))
        until(50)
        own_kafka.kill()
        for _ in range(20):
            assert not isinstance(reader.poll(10, now=1), Batch)
            woken.wait(0.2)
        own_kafka.start()
        own_kafka.produce(topic, [str(number) for number in range(50, 100)])
        until(100)
    finally:
        reader.close()
    assert found == [str(number) for number in range(100)]
