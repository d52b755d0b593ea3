"""How far a source reads ahead of what is wanted: partitions that are paused, watermark alignment, throttled sources."""

import threading
from dataclasses import dataclass

import pytest

from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import Batch, ConnectorContext, JsonSchema, RateLimitedSource, SimpleStringSchema
from funken.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from funken.connectors.kafka import reader as kafka_reader
from funken.timing.clock import SystemClock

confluent_kafka = pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")
pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
monotonic = SystemClock().monotonic


@dataclass
class Reading:
    """A reader of all partitions of a source, and what it has read."""

    source: KafkaSource

    def __enter__(self):
        enumerator = self.source.enumerator(1)
        enumerator.start()
        self.woken, self.found = threading.Event(), []
        self.context = ConnectorContext("orders", wake=self.woken.set)
        self.reader = self.source.reader(self.context)
        self.reader.open()
        self.splits = enumerator.next_splits(0)
        self.reader.add_splits(self.splits)
        return self

    def __exit__(self, *error):
        self.reader.close()

    def poll(self, limit=100, now=1):
        got = self.reader.poll(limit, now)
        if isinstance(got, Batch):
            self.found += [(got.split, value) for value in got.values]
        else:  # there is nothing yet, or it asks for partitions that were discovered
            self.woken.wait(0.05)
            self.woken.clear()

    def until(self, condition, seconds=60, **more):
        end = monotonic() + seconds
        while not condition() and monotonic() < end:
            self.poll(**more)
        assert condition(), self.found[-3:]

    def of(self, split):
        return [int(value) for of, value in self.found if of == split.id]


def source(kafka, topic, schema=None, **properties):
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.servers).set_topics(topic).set_group_id(f"g-{topic}")
    builder = builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    for name, value in properties.items():
        builder = builder.set_property(name.replace("_", "."), value)
    return builder.set_value_only_deserializer(schema or SimpleStringSchema())


def test_a_partition_that_is_paused_is_not_read_until_it_is_resumed(kafka):
    topic = kafka.topic(partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, [str(number) for number in range(3000)], partition=partition)
    with Reading(source(kafka, topic).build()) as reading:
        first, second = sorted(reading.splits, key=lambda split: split.partition)
        reading.until(lambda: len(reading.of(first)) >= 100)
        before = len(reading.of(first))
        reading.reader.pause_or_resume_splits([first.id], [])
        reading.until(lambda: len(reading.of(second)) == 3000)
        kafka.produce(topic, [str(number) for number in range(3000, 3500)], partition=0)
        kafka.produce(topic, [str(number) for number in range(3000, 3500)], partition=1)
        reading.until(lambda: len(reading.of(second)) == 3500)
        assert len(reading.of(first)) == before
        [paused] = [split for split in reading.reader.snapshot_state(1) if split.partition == 0]
        assert paused.offset == before

        reading.reader.pause_or_resume_splits([second.id], [first.id])
        reading.until(lambda: len(reading.of(first)) == 3500)
        assert reading.of(first) == reading.of(second) == list(range(3500))


@pytest.mark.parametrize("aligned", [True, False])
def test_partitions_of_one_reader_are_aligned(kafka, aligned):
    """In one partition 50 ms pass from record to record, in the other one 10: unaligned, it is 120 s ahead in the end."""
    topic, count = kafka.topic(partitions=2), 3000
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.servers, "linger.ms": 0})
    for start in range(0, count, 20):  # in small batches, which the client gets in turns
        for partition, step in ((0, 50), (1, 10)):
            for n in range(start, start + 20):
                producer.produce(topic, f"[{partition}, {n * step}]", partition=partition)
            assert producer.flush(60) == 0
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    if aligned:
        strategy = strategy.with_watermark_alignment("orders", "2 s", "50 ms")
    orders = source(kafka, topic, JsonSchema(), max_partition_fetch_bytes=1000)
    orders = RateLimitedSource(orders.set_bounded(KafkaOffsetsInitializer.latest()).build(), 1000)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    env.get_config().set_auto_watermark_interval(50)
    with env.from_source(orders, strategy, "orders").execute_and_collect() as results:
        found = [tuple(pair) for pair in results]

    assert sorted(found) == [(0, n * 50) for n in range(count)] + [(1, n * 10) for n in range(count)]
    lead, slow = 0, 0
    for partition, at in found:
        if partition == 1:
            slow = at
        elif slow < (count - 1) * 10:
            lead = max(lead, at - slow)
    # Between two looks 100 records are due, 5 s of event time; and of a stall up to a second is made up for, 50 s.
    assert lead < 60_000 if aligned else lead > 90_000


def test_a_throttled_source_fetches_no_more_than_there_is_room_for(kafka, monkeypatch):
    monkeypatch.setattr(kafka_reader, "_STATISTICS_MS", 100)
    topic, count, size = kafka.topic(partitions=1), 50_000, 2000
    kafka.produce(topic, [f"{number:0{size}}" for number in range(count)])
    made = source(kafka, topic, queued_max_messages_kbytes=2048).build()
    with Reading(made) as reading:

        def received():
            return reading.context.metrics.snapshot()["numBytesIn"]

        reading.until(lambda: received() > 2 << 20, limit=10)
        seen = [received()]
        while len(seen) < 600 and (len(seen) <= 20 or seen[-1] - seen[-21] > 2 << 20):
            reading.poll(10)  # 400 KB a second of the 100 MB
            threading.Event().wait(0.05)
            seen.append(received())
        assert len(seen) < 600, "it fetches on and on"
        # Room is for 2 MB in the client, 10,000 records in the thread that fetches, and the block that is being read.
        assert seen[-1] - len(reading.found) * size < count * size / 2
        assert seen[-1] < count * size, "it ends for want of room, and not of records"

        reading.until(lambda: len(reading.found) == count, limit=5000)
        assert reading.of(reading.splits[0]) == list(range(count))
