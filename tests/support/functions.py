"""Functions that programs of several tests are made of."""

from __future__ import annotations

from functools import partial

from funken import AggregateFunction, WatermarkGenerator, WatermarkStrategy


class Sum(AggregateFunction):
    """The sum of the records."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Delayed(WatermarkGenerator):
    """A watermark behind each record, ``delay`` behind the highest timestamp."""

    def __init__(self, delay):
        self.delay = delay
        self.highest = -(2**63)

    def on_event(self, event, event_timestamp, output):
        self.highest = max(self.highest, event_timestamp)
        output.emit_watermark(self.highest - self.delay - 1)


def timed(env, records, delay=0):
    """Return a stream of records ``(key, timestamp, number)``."""
    strategy = WatermarkStrategy.for_generator(partial(Delayed, delay)).with_timestamp_assigner(lambda r, _: r[1])
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy)
