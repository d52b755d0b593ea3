"""Runs of messages: those of arrays are those of the client's objects, whatever is in the messages."""

import threading
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import SimpleStringSchema
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordDeserializationSchema, KafkaSource
from funken.connectors.kafka.client import confluent
from funken.connectors.kafka.enumerator import KafkaTopicPartition
from funken.connectors.librdkafka import messages as native
from funken.connectors.librdkafka.messages import Fetcher

NUMBERS = count()
VALUES = st.one_of(
    st.none(), st.just(b""), st.binary(max_size=9), st.sampled_from([b"a\nb", b"\n", b'{"n": 1}', b"x" * 5000])
)
MESSAGES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), VALUES, st.integers(1, 1 << 40)), min_size=1, max_size=60
)


def facts(run, limit):
    """Everything that a reader asks of a run, piece by piece."""
    found = []
    while len(run) > limit:
        found += facts(run.take(limit), limit)
    offsets = [run.offset(index) for index in range(len(run))]
    for end in range(1, 30, 3) if offsets else ():
        piece, reached = run.until(end)
        assert [piece.offset(index) for index in range(len(piece))] == [offset for offset in offsets if offset < end]
        assert len(piece.values()) == len(piece)
        assert reached or offsets[-1] + 1 < end
    every_second = range(0, len(run), 2)
    return [*found, (run.key, run.values(), run.timestamps(None), run.timestamps(list(every_second)), offsets)]


def joined(found):
    """Put the pieces of each partition together: where blocks end depends on when messages came."""
    of_key = {}
    for key, values, timestamps, every_second, offsets in found:
        assert every_second == timestamps[::2]
        of_key.setdefault(key, []).extend(zip(values, timestamps, offsets, strict=True))
    return of_key


def read(servers, topics, total, limit, values_only):
    kafka = confluent()
    properties = {"bootstrap.servers": servers, "group.id": "g", "enable.partition.eof": True}
    consumer, messages = native.messages_of(kafka, properties, values_only)
    woken = threading.Event()
    fetcher = Fetcher(messages, woken.set)
    fetcher.start()
    keys = [KafkaTopicPartition(topic, part) for topic in topics for part in range(4)]
    fetcher.call(lambda: messages.assign([kafka.TopicPartition(*key, 0) for key in keys]))
    found, texts, got = [], [], 0
    try:
        while got < total:
            block = fetcher.take()
            if block is None:
                assert woken.wait(30)
                woken.clear()
                continue
            for run in block.runs(keys, True, pytest.fail):
                kept, _ = run.until(1 << 50)
                got += len(kept)
                if len(kept):
                    texts.append((kept.text(), kept.values()))
                    found += facts(kept, limit)
    finally:
        assert fetcher.stop()
        messages.close()
        consumer.close()
    return joined(found), texts


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MESSAGES, st.integers(1, 20))
def test_arrays_have_what_objects_have(mock, messages, limit):
    if native.load() is None:
        pytest.skip("no compiled helper: install a C compiler, and Funken again")
    topics = [f"same-{next(NUMBERS)}-{which}" for which in "ab"]
    for topic in topics:
        for partition in range(4):
            mock.producer.produce(topic, b"first", partition=partition, timestamp=1)
    for which, partition, value, at in messages:
        mock.producer.produce(topics[which], value, b"key", partition, timestamp=at)
    assert mock.producer.flush(30) == 0

    of_arrays, texts = read(mock.servers, topics, len(messages) + 8, limit, values_only=True)
    of_objects, others = read(mock.servers, topics, len(messages) + 8, limit, values_only=False)

    assert of_arrays == of_objects
    for text, values in (*texts, *others):
        plain = None not in values and not any(b"\n" in value for value in values)
        assert text == (b"\n".join(values) if plain else None) or (text is None and (text, values) in texts)


def bounded(mock, topic, schema):
    builder = KafkaSource.builder().set_bootstrap_servers(mock.servers).set_topics(topic)
    return builder.set_bounded(KafkaOffsetsInitializer.latest()).set_value_only_deserializer(schema).build()


def results(source):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").execute_and_collect(limit=99)


def test_records_have_their_keys_and_headers_with_the_helper_too(mock):
    mock.producer.produce("keyed", b"3", b"tea", headers=[("till", b"7")])
    assert mock.producer.flush(30) == 0
    builder = KafkaSource.builder().set_bootstrap_servers(mock.servers).set_topics("keyed")
    schema = KafkaRecordDeserializationSchema.of(lambda record: (record.key, record.value, record.headers))
    source = builder.set_bounded(KafkaOffsetsInitializer.latest()).set_deserializer(schema).build()

    assert results(source) == [(b"tea", b"3", (("till", b"7"),))]


def test_without_the_helper_messages_are_taken_one_by_one(mock, monkeypatch):
    monkeypatch.setattr(native, "LIBRARY", native.LIBRARY.with_name("there-is-none.so"))
    native._loaded.cache_clear()
    try:
        assert native.load() is None
        mock.producer.produce("plain", b"1", partition=0)
        assert mock.producer.flush(30) == 0
        assert results(bounded(mock, "plain", SimpleStringSchema())) == ["1"]
    finally:
        native._loaded.cache_clear()


@pytest.mark.parametrize(
    ("end", "before", "reached"),
    [(5, 0, True), (6, 1, True), (8, 3, True), (9, 3, True), (10, 4, True), (11, 4, False)],
)
def test_a_run_of_arrays_ends_before_the_stopping_offset(end, before, reached):
    block = SimpleNamespace(offsets=np.array([5, 6, 7, 9]))
    piece, ended = native.NativeRun(block, (0, 0), 0, 4).until(end)
    assert (len(piece), ended) == (before, reached)
    _, ended = native.NativeRun(block, (0, 0), 0, 4, end_of_partition=12).until(11)
    assert ended
