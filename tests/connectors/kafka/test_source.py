"""``KafkaSource`` on the brokers that librdkafka has for tests, in this process; ``tests/services`` has a real one."""

import threading
from collections import Counter

import pytest

from funken import Configuration, DiscardingSink, StreamExecutionEnvironment, Types, WatermarkStrategy
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import Columns
from funken.connectors import Batch, ConnectorContext, JsonSchema, MalformedRecordPolicy, SimpleStringSchema, Wait
from funken.connectors.formats.avro_schema import AvroSchema
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaTopicPartition
from funken.connectors.kafka.enumerator import KafkaPartitionSplit
from funken.errors import InvalidConfiguration, SourceNotReadable
from funken.testing import check_source
from funken.timing.clock import SystemClock

LATEST = KafkaOffsetsInitializer.latest()
pytestmark = pytest.mark.usefixtures("taken")


def written(mock, topic, values):
    for index, value in enumerate(values):
        mock.producer.produce(topic, value, partition=index % 4)
    assert mock.producer.flush(30) == 0
    return KafkaSource.builder().set_bootstrap_servers(mock.servers).set_topics(topic).set_bounded(LATEST)


def run(source, parallelism=1):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=parallelism)
    with env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").execute_and_collect() as results:
        return list(results)


def test_a_bounded_source_keeps_its_contract(mock):
    values = [str(number) for number in range(40)]
    builder = written(mock, "contract", values).set_value_only_deserializer(SimpleStringSchema())

    check_source(builder.build(), values, seeds=3)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_all_partitions_are_read_in_order(mock, parallelism):
    topic = f"order-{parallelism}"
    found = run(
        written(mock, topic, map(str, range(200))).set_value_only_deserializer(JsonSchema()).build(), parallelism
    )

    assert sorted(found) == list(range(200))
    for partition in range(4):
        of_it = [number for number in found if number % 4 == partition]
        assert of_it == sorted(of_it)


def test_some_partitions_and_offsets(mock):
    builder = written(mock, "some", map(str, range(40))).set_value_only_deserializer(JsonSchema())
    one = KafkaTopicPartition("some", 1)
    begin = KafkaOffsetsInitializer.offsets({one: 7})

    assert run(builder.set_partitions({one}).set_starting_offsets(begin).build()) == [29, 33, 37]


def test_partitions_of_several_topics_are_read_in_order(mock):
    for topic in ("several-a", "several-b"):
        written(mock, topic, (f'["{topic}", {number}]' for number in range(80)))
    builder = KafkaSource.builder().set_bootstrap_servers(mock.servers).set_topics("several-a", "several-b")
    found = run(builder.set_bounded(LATEST).set_value_only_deserializer(JsonSchema()).build())

    for topic in ("several-a", "several-b"):
        for partition in range(4):
            of_it = [number for name, number in found if name == topic and number % 4 == partition]
            assert of_it == list(range(partition, 80, 4))


def test_a_partition_whose_queue_was_full_is_asked_for_again_at_once(mock, monkeypatch):
    """Each answer fills the client's queue, and by default it waits for a second after each, which is a minute here."""
    monkeypatch.setattr("funken.connectors.librdkafka.messages.FETCHED", 5)
    monkeypatch.setattr("funken.connectors.librdkafka.messages._QUEUED", 5)
    for _ in range(40):  # batches, of which a small answer has one or two
        source = written(mock, "full", [f'"{number:0500}"' for number in range(4 * 10)])
    small = source.set_properties({"queued.min.messages": "1", "fetch.message.max.bytes": "5000"})
    clock = SystemClock()
    begin = clock.monotonic()

    assert len(run(small.set_value_only_deserializer(JsonSchema()).build())) == 1600
    assert clock.monotonic() - begin < 20


def test_malformed_messages_keep_their_place(mock):
    builder = written(mock, "bad", ["1", "{", "3"]).set_value_only_deserializer(JsonSchema())

    assert sorted(run(builder.set_malformed_record_policy(MalformedRecordPolicy.SKIP).build())) == [1, 3]


def pairs_by_rows_and_columns(source):
    """Return what a program gives of rows, which has to be what it gives of columns."""
    found = []
    for vectorized in (False, True):
        options = Configuration({"pipeline.vectorized": vectorized, "execution.block.records": 7})
        env = StreamExecutionEnvironment.create_local_environment(1, options)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        pairs = stream.filter(lambda row: row["s"] != "k1").map(lambda row: (row["s"], row["n"]))
        pairs.sink_to(DiscardingSink())
        assert ("columns: orders: vectorized" in env.explain()) is vectorized
        found.append(Counter(pairs.execute_and_collect(limit=9999)))
    assert found[0] == found[1]
    return found[0]


def test_messages_become_columns_and_those_that_do_not_fit_become_records(mock):
    declared = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
    messages = [f'{{"n": {number}, "s": "k{number % 3}"}}' for number in range(400)]
    messages[17] = '{"n": 17,\n"s": "k2"}'
    messages[33] = '{"n": null, "s": "k0"}'
    messages[34] = "{"
    messages[35] = '{"n": 35, "s": "k2"}{"n": 1, "s": "a"}'
    builder = written(mock, "columns", messages).set_value_only_deserializer(JsonSchema(declared))
    source = builder.set_malformed_record_policy(MalformedRecordPolicy.SKIP).build()
    assert pairs_by_rows_and_columns(source).total() == 400 - 133 - 2 + (34 % 3 == 1)


def test_messages_without_a_declared_type_become_columns_by_those_that_are_there(mock):
    messages = [f'{{"n": {number}, "s": "k{number % 3}", "tags": ["a"]}}' for number in range(400)]
    messages[17] = '{"n": 17,\n"s": "k2"}'
    messages[34] = "{"
    messages[35] = None
    messages[36] = '{"s": "k0", "n": 36.5, "more": 1}'
    builder = written(mock, "undeclared", messages).set_value_only_deserializer(JsonSchema())
    source = builder.set_malformed_record_policy(MalformedRecordPolicy.SKIP).build()
    with pytest.raises(NotVectorizable, match="its newest messages have no fields in common"):
        source.record_schema()  # one of those is malformed
    messages += [f'{{"s": "k{number % 3}", "n": {number}}}' for number in range(400, 4800)]
    source = written(mock, "undeclared", messages[400:]).set_value_only_deserializer(JsonSchema())
    source = source.set_malformed_record_policy(MalformedRecordPolicy.SKIP).build()

    assert repr(source.record_schema()) == "{s: str, n: int, ...}"
    kept = [n for n in range(4800) if n % 3 != 1 and n not in (34, 35)]
    assert pairs_by_rows_and_columns(source).total() == len(kept)


def test_topics_without_messages_and_brokers_that_are_away_say_so(mock, monkeypatch):
    monkeypatch.setattr("funken.connectors.kafka.source._SAMPLE_S", 0.3)
    builder = written(mock, "empty", []).set_value_only_deserializer(JsonSchema())
    with pytest.raises(
        NotVectorizable, match="there is no message yet whose fields it could know; declare the record type"
    ):
        builder.build().record_schema()
    away = builder.set_bootstrap_servers("127.0.0.1:1").build()
    with pytest.raises(NotVectorizable, match="no message can be looked at; declare the record type"):
        away.record_schema()


def test_messages_of_avro_become_columns_too(mock):
    schema = AvroSchema.of(Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()]))
    messages = [schema.serialize({"n": number, "s": f"k{number % 3}"}) for number in range(200)]
    messages[17] = schema.serialize({"n": None, "s": "k2"})
    messages[34] = b"?"
    messages[35] = None  # deletes a key
    builder = written(mock, "avro", messages).set_value_only_deserializer(schema)
    source = builder.set_malformed_record_policy(MalformedRecordPolicy.SKIP).build()
    assert pairs_by_rows_and_columns(source).total() == sum(n % 3 != 1 and n not in (34, 35) for n in range(200))


def test_a_field_that_is_added_removed_or_retyped_midway_is_left_out_none_or_converted(mock):
    declared = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
    forms = ['{"n": %d, "s": "a"}', '{"n": %d, "s": "a", "more": [1]}', '{"n": %d}', '{"n": "%d", "s": "a"}']
    messages = [forms[number // 50] % number for number in range(200)]
    builder = written(mock, "changing", messages).set_value_only_deserializer(JsonSchema(declared))
    for vectorized in (False, True):
        options = Configuration({"pipeline.vectorized": vectorized, "execution.block.records": 7})
        env = StreamExecutionEnvironment.create_local_environment(1, options)
        stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "orders")
        found = stream.map(lambda row: (row["n"], row["s"])).execute_and_collect(limit=999)

        assert sorted(found) == [(number, None if 100 <= number < 150 else "a") for number in range(200)]


def test_a_reader_of_columns_has_the_positions_of_records(mock):
    declared = Types.ROW_NAMED(["n"], [Types.LONG()])
    messages = [f'{{"n": {number}}}' for number in range(60)]
    source = written(mock, "column-positions", messages).set_value_only_deserializer(JsonSchema(declared)).build()
    wake = threading.Event()
    found, blocks = [], 0
    splits = source.enumerator(1)
    splits.start()
    given = splits.next_splits(0)
    while given:
        reader = source.reader(ConnectorContext("orders", wake=wake.set))
        reader.read_record_columns(source.record_schema(), None)
        reader.open()
        reader.add_splits(given)
        for _ in range(2):
            while isinstance(got := reader.poll(4, 0), Wait):
                wake.wait(1)
                wake.clear()
            if isinstance(got, Batch):
                blocks += isinstance(got.values, Columns)
                found += [row["n"] for row in got.values.to_list()]
        given = reader.snapshot_state(1) if isinstance(got, Batch) else []
        reader.close()
    assert sorted(found) == list(range(60))
    assert blocks >= 15


def test_a_topic_that_is_not_there_is_named(mock):
    written(mock, "orders", ["1"])
    builder = KafkaSource.builder().set_bootstrap_servers(mock.servers).set_topics("order")

    with pytest.raises(SourceNotReadable, match="topic 'order' does not exist .* Did you mean 'orders'"):
        run(builder.set_value_only_deserializer(JsonSchema()).build())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda builder: builder.set_bootstrap_servers(""), "set_bootstrap_servers"),
        (lambda builder: builder.set_topics(), "set_topics"),
        (lambda builder: builder.set_value_only_deserializer(None), "set_value_only_deserializer"),
        (lambda builder: builder.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()), "set_group_id"),
        (lambda builder: builder.set_property("enable.auto.commit", "true"), "committed with checkpoints"),
    ],
)
def test_what_is_missing_is_said_before_anything_runs(change, message):
    builder = (
        KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("t").set_value_only_deserializer(JsonSchema())
    )
    builder.build()

    with pytest.raises(InvalidConfiguration, match=message):
        change(builder).build()


@pytest.mark.parametrize("wrong", ["[", "(?P<"])
def test_a_pattern_that_is_none_is_rejected(wrong):
    with pytest.raises(InvalidConfiguration, match="no regular expression"):
        KafkaSource.builder().set_topic_pattern(wrong)


def test_an_unknown_property_is_rejected_and_no_secret_shown(mock):
    builder = KafkaSource.builder().set_bootstrap_servers(mock.servers).set_topics("t")
    builder = builder.set_value_only_deserializer(JsonSchema()).set_properties(
        {"colour": "red", "sasl.password": "hunter2"}
    )

    with pytest.raises(InvalidConfiguration, match="colour") as failure:
        run(builder.build())
    assert "hunter2" not in str(failure.value) + repr(builder.build())


def test_new_partitions_are_looked_for_as_often_as_the_property_says():
    builder = (
        KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("t").set_value_only_deserializer(JsonSchema())
    )

    def interval(text):
        return builder.set_property("partition.discovery.interval.ms", text).build().discovery_interval

    assert (builder.build().discovery_interval, interval("1000"), interval("0"), interval("-1")) == (
        300_000,
        1000,
        None,
        None,
    )
    assert builder.set_bounded(LATEST).build().discovery_interval is None


def test_a_reader_without_brokers_waits_for_five_minutes():
    builder = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:1").set_topics("t")
    reader = builder.set_value_only_deserializer(JsonSchema()).build().reader(ConnectorContext("orders"))
    states = '{"brokers": {"one": {"state": "%s"}}, "topics": {}}'
    reader.open()
    try:
        reader.add_splits([KafkaPartitionSplit("t", 0, 0)])
        reader.poll(1, now=0)  # asks for more splits
        reader._on_statistics(states % "UP")
        assert reader.poll(1, now=1) == Wait(None)
        for at in (2, 900):
            reader._on_statistics(states % "DOWN")
            assert reader.poll(1, now=at) == Wait(None)
        with pytest.raises(SourceNotReadable, match="operator 'orders': no broker has been connected for 300 s"):
            for _ in range(2):  # the first may ask for more splits
                reader._on_statistics(states % "DOWN")
                reader.poll(1, now=2 + 300_000)
    finally:
        reader.close()


def test_the_position_is_after_what_was_read_not_after_what_was_fetched(mock):
    source = written(mock, "position", map(str, range(40))).set_value_only_deserializer(JsonSchema()).build()
    enumerator = source.enumerator(parallelism=1)
    enumerator.start()
    woken = threading.Event()
    reader = source.reader(ConnectorContext("orders", wake=woken.set))
    reader.open()
    try:
        reader.add_splits(enumerator.next_splits(0))
        read = Counter()
        while read.total() < 20:
            got = reader.poll(1, now=0)
            if isinstance(got, Wait):
                assert woken.wait(30)
                woken.clear()
                continue
            read[got.split] += len(got.values)
            unfinished = {split.id: split.offset for split in reader.snapshot_state(1)}
            assert unfinished == {name: read[name] for name in unfinished}
    finally:
        reader.close()
