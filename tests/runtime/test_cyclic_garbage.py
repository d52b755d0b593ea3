"""Blocks and checkpoints are freed at once, not by Python's cyclic collector.

It may pass a hundred checkpoints later, and until then all that is in a cycle, or held by one, stays: the memory of a
worker went up and down by 30 MiB with it.
"""

import gc
from collections import Counter

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    DiscardingSink,
    KeyedProcessFunction,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)

PER_BLOCK = ("Column", "SnapshotWriter", "Materialization", "function", "cell", "generator", "list_iterator", "chain")
ALLOWED = 20


class Tally(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.parts = runtime_context.get_map_state(MapStateDescriptor("parts"))

    def process_element(self, value, ctx):
        self.count.update([value, (self.count.value() or [0, 0])[1] + 1])
        self.parts.put(value % 5, value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        yield value

    def on_timer(self, timestamp, ctx):
        self.parts.clear()


def run(records, backend):
    conf = Configuration({
        "execution.target": "local",
        "execution.checkpointing.interval": "10 ms",
        "state.backend.type": backend,
        "execution.block.records": 200,
    })  # fmt: skip
    env = StreamExecutionEnvironment.get_execution_environment(conf).set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    numbers = env.from_source(DataGeneratorSource(lambda i: (i % 50, i), records), strategy, "numbers")
    columns = numbers.map(lambda pair: (pair[0], pair[1] * 2)).filter(lambda pair: pair[1] % 3 != 0)
    tallied = columns.map(lambda pair: pair[1]).key_by(lambda value: value % 100).process(Tally())
    tallied.key_by(lambda value: value % 7).window(TumblingEventTimeWindows.of("100 ms")).reduce(
        lambda a, b: a + b
    ).sink_to(DiscardingSink())
    env.execute()


def left_in_cycles(records, backend):
    """Return how many objects of each type a job leaves for the cyclic collector."""
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        run(records, backend)
        gc.collect()
        return Counter(type(each).__name__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_records_blocks_and_checkpoints_leave_nothing_for_the_cyclic_collector(backend):
    gc.disable()
    try:
        run(2_000, backend)
        few, many = left_in_cycles(5_000, backend), left_in_cycles(25_000, backend)
    finally:
        gc.enable()
    # A task that has ended is a cycle, with its history: that is so much once. The rest must not grow with the records.
    more = {name: (few[name], many[name]) for name in PER_BLOCK if many[name] > few[name] + ALLOWED}
    assert not more, f"in cycles after 5,000 and 25,000 records: {more}"
