"""Times that a program gives: a value that is none is an error of the call, with the program's line, wherever a time is taken."""

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from funken import (
    KeyedProcessFunction,
    NumberSequenceSource,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    WatermarkGenerator,
    WatermarkStrategy,
)
from funken.errors import OperatorFailed
from funken.testing import local

NONE = {
    "None": (None, "None (NoneType) is no {}"),
    "text": ("2026-01-01", "'2026-01-01' (str) is no {}"),
    "float": (1.5, "1.5 (float) is no {}"),
    "whole float": (2.0, "2.0 (float) is no {}"),
    "nan": (float("nan"), "nan (float) is no {}"),
    "bool": (True, "True (bool) is no {}"),
    "NumPy's float": (np.float64(7), "(float64) is no {}"),
    "NumPy's bool": (np.True_, "(bool"),
    "datetime64": (np.datetime64("2026-01-01"), "(datetime64) is no {}"),
    "NaT": (pd.NaT, "NaT (NaTType) is no {}"),
    "date": (date(2026, 1, 1), "(date) is no {}"),
    "datetime without a zone": (datetime(2026, 1, 1), "has no time zone"),  # noqa: DTZ001
    "tuple": ((1,), "(1,) (tuple) is no {}"),
    "too large": (2**63, "9223372036854775808 (int) is no {}: it is not in 64 bits"),
    "very large": (10**30, "(int) is no {}: it is not in 64 bits"),
}
TOO_SMALL = {"too small": (-(2**63) - 1, "-9223372036854775809 (int) is no {}: it is not in 64 bits")}
GOOD = {
    "int": (5, 5),
    "NumPy's int": (np.int64(5), 5),
    "NumPy's small int": (np.uint8(5), 5),
    "datetime": (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
    "Timestamp": (pd.Timestamp(1, unit="s", tz="UTC"), 1000),
    "smallest": (-(2**63), -(2**63)),
    "largest": (2**63 - 1, 2**63 - 1),
}
METHODS = [f"{action}_{domain}_time_timer" for action in ("register", "delete") for domain in ("event", "processing")]


class Timers(KeyedProcessFunction):
    def __init__(self, method, at):
        self.method, self.at = method, at

    def process_element(self, value, ctx):
        getattr(ctx.timer_service(), self.method)(self.at)

    def on_timer(self, timestamp, ctx):
        yield timestamp


class Windows(Trigger):
    def __init__(self, method, at):
        self.method, self.at = method, at

    def on_element(self, element, timestamp, window, ctx):
        getattr(ctx, self.method)(self.at)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def clear(self, window, ctx):
        pass


def stamped(values=(1,), assigner=lambda value, _: 1):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    return local(list(values)).assign_timestamps_and_watermarks(strategy)


def failure(stream):
    with pytest.raises(OperatorFailed) as raised:
        stream.execute_and_collect(limit=9)
    return str(raised.value)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", NONE | TOO_SMALL)
def test_the_time_of_a_timer(method, kind):
    at, says = (NONE | TOO_SMALL)[kind]
    text = failure(stamped().key_by(lambda value: value).process(Timers(method, at)))

    assert says.format("time of a timer") in text
    assert "at the record 1" in text
    assert "getattr(ctx.timer_service(), self.method)(self.at)" in text, "the line of the program"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["None", "float", "too large"])
def test_the_time_of_a_timer_of_a_trigger(method, kind):
    at, says = NONE[kind]
    windows = stamped().key_by(lambda value: value).window(TumblingEventTimeWindows.of(10)).trigger(Windows(method, at))
    text = failure(windows.reduce(lambda a, b: a))

    assert says.format("time of a timer") in text
    assert "getattr(ctx, self.method)(self.at)" in text


@pytest.mark.parametrize("kind", GOOD)
def test_times_that_are_some_become_ms(kind):
    at, ms = GOOD[kind]
    fired = stamped().key_by(lambda value: value).process(Timers("register_event_time_timer", at))

    found = fired.execute_and_collect(limit=9)
    assert found == [ms]
    assert type(found[0]) is int


@pytest.mark.parametrize("kind", NONE)
def test_the_timestamp_of_a_record(kind):
    at, says = NONE[kind]
    text = failure(stamped(assigner=lambda value, _: at).key_by(lambda value: value).map(lambda value: value))

    assert says.partition(":")[0].format("event timestamp") in text
    assert "operator 'timestamps'" in text


@pytest.mark.parametrize("at", [2**63, -(2**63) - 1])
def test_a_timestamp_that_is_not_in_64_bits_names_its_record(at):
    stream = stamped(["first", "second"], lambda value, _: at if value == "second" else 1)
    text = failure(stream.key_by(lambda value: value).map(lambda value: value))

    assert "is no event timestamp, and was given to the record 'second': it is not in 64 bits" in text


class Emits(WatermarkGenerator):
    def __init__(self, at, periodic):
        self.at, self.periodic = at, periodic

    def on_event(self, event, event_timestamp, output):
        if not self.periodic:
            output.emit_watermark(self.at)

    def on_periodic_emit(self, output):
        if self.periodic:
            output.emit_watermark(self.at)


@pytest.mark.parametrize("kind", NONE)
def test_a_watermark(kind):
    at, says = NONE[kind]
    strategy = WatermarkStrategy.for_generator(lambda: Emits(at, False)).with_timestamp_assigner(lambda value, _: value)
    text = failure(local([1]).assign_timestamps_and_watermarks(strategy))

    assert says.format("watermark") in text
    assert "output.emit_watermark(self.at)" in text


class Halves(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] / 2)
        yield value


class Far(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] * 10**18 * 10)
        yield value


@pytest.mark.parametrize(
    ("function", "says"), [(Halves, "1.5 (float) is no time of a timer"), (Far, "is not in 64 bits")]
)
def test_functions_that_could_run_on_columns_refuse_them_as_well(function, says):
    env = local([1]).get_execution_environment()
    numbers = env.from_source(NumberSequenceSource(3, 5), WatermarkStrategy.no_watermarks(), "numbers")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    pairs = numbers.map(lambda n: (n % 2, n)).assign_timestamps_and_watermarks(strategy)

    assert says in failure(pairs.key_by(lambda pair: pair[0]).process(function()))
