"""A whole job under virtual time."""

from datetime import timedelta

from funken import (
    DataGeneratorSource,
    KeyedProcessFunction,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.testing import SimulatedJob, local


def environment(parallelism=2):
    return StreamExecutionEnvironment.create_local_environment(parallelism)


class Timeout(KeyedProcessFunction):
    """Emits a key's count one minute of processing time after its first record."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        if self.count.value() == 0:
            now = ctx.timer_service().current_processing_time()
            ctx.timer_service().register_processing_time_timer(now + 60_000)
        self.count.update(self.count.value() + 1)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value(), timestamp
        self.count.clear()


def test_a_processing_time_timer_fires_when_the_clock_is_turned():
    source = DataGeneratorSource(lambda i: i % 2, None, 1)
    stream = environment(1).from_source(source).key_by(lambda n: n).process(Timeout())

    with SimulatedJob(stream) as job:
        assert job.advance(timedelta(seconds=59)) == []
        assert job.advance(timedelta(seconds=2)) == [(0, 30, 60_000), (1, 30, 61_000)]


def test_s21_a_window_that_processing_time_has_not_closed_is_dropped_at_the_end():
    hours = TumblingProcessingTimeWindows.of(timedelta(hours=1))

    assert SimulatedJob(local([1, 2]).key_by(lambda n: 0).window(hours).reduce(lambda a, b: a + b)).run() == []


def test_a_minute_of_a_paced_source_takes_no_time():
    numbers = environment().from_source(DataGeneratorSource(lambda i: i, 60, 1))

    job = SimulatedJob(numbers)

    assert sorted(job.run()) == list(range(60))
    assert 58_000 <= job.now <= 62_000


def test_many_blocks_are_collected_without_a_reader():
    stream = environment().from_source(NumberSequenceSource(1, 500_000), WatermarkStrategy.no_watermarks())

    assert len(SimulatedJob(stream.rebalance().map(lambda n: n)).run()) == 500_000


def test_two_runs_are_equal():
    def program():
        numbers = environment(3).from_source(NumberSequenceSource(1, 1000), WatermarkStrategy.no_watermarks())
        return numbers.key_by(lambda n: n % 7).sum()

    assert SimulatedJob(program()).run() == SimulatedJob(program()).run()
