"""PyFlink's quirks, [Q] in the semantics: each is either reproduced, because ported jobs show it, or Java's way is taken."""

import pickle

import pytest
from pyflink.common import Duration, Encoder, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.state import MapStateDescriptor
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)

import funken
from funken.errors import InvalidProgram
from funken.operators.process.one_input import KeyedProcess
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import CallStyle, Elements, WindowCall, WindowSpec
from funken.testing import OperatorHarness
from funken.windowing.assigners import CountTumblingWindowAssigner


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Timestamps(ProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.timestamp()


def stamped(stream):
    return stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    )


def test_q9_the_timestamp_of_a_record_without_one_is_none_as_the_documentation_says(env, collect):
    assert collect(env.from_collection([1]).process(Timestamps())) == [None]


def test_q10_a_strategy_is_the_same_in_any_order_and_changed_in_place(env, collect):
    one = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(Second())
    other = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_idleness(Duration.of_seconds(5))
    other.with_timestamp_assigner(Second())

    assert one.with_idleness(Duration.of_seconds(5)).idleness == other.idleness == 5000
    for strategy in (one, other):
        stream = env.from_collection([("a", 7)]).assign_timestamps_and_watermarks(strategy)
        assert collect(stream.process(Timestamps())) == [7]


def test_q11_a_source_uses_the_assigner_of_its_strategy(env, collect):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number * 10)
    numbers = env.from_source(funken.NumberSequenceSource(1, 2), strategy, "numbers")

    assert collect(numbers.process(Timestamps())) == [10, 20]


class Later(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(100)

    def on_timer(self, timestamp, ctx):
        yield "timer"


def test_q13_results_of_processing_time_timers_have_no_timestamp():
    harness = OperatorHarness(KeyedProcess(UserFunction(Later(), rich=True), UserFunction(str)), keyed=True)
    harness.feed("a", 5)
    harness.processing_time(100)

    assert harness.output_with_timestamps == [("timer", None)]


class Starts(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, len(list(elements))


def test_q14_window_results_carry_the_last_timestamp_of_their_window(env, collect):
    words = stamped(env.from_collection([("a", 1), ("a", 12), ("a", 3)]))
    firsts = words.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))

    assert collect(firsts.process(Starts()).process(Timestamps())) == [9, 19]


def test_q15_lateness_does_not_depend_on_the_size_of_bundles(collect):
    class PerRecord(funken.WatermarkGenerator):
        def on_event(self, event, event_timestamp, output):
            output.emit_watermark(event_timestamp)

    for size in (1, 1000):
        env = StreamExecutionEnvironment.create_local_environment(1)
        with pytest.warns(UserWarning, match="no effect here because user functions run in the task itself"):
            env.get_configuration().set_integer("python.fn-execution.bundle.size", size)
        strategy = WatermarkStrategy.for_generator(PerRecord).with_timestamp_assigner(Second())
        stream = env.from_collection([("a", 0), ("a", 8), ("a", 4)]).assign_timestamps_and_watermarks(strategy)
        windows = stream.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
        assert collect(windows.process(Starts())) == [("a", 0, 1), ("a", 5, 1)]


def test_q26_on_timer_may_return_nothing(env, collect):
    class Quiet(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1])

        def on_timer(self, timestamp, ctx):
            return None

    assert collect(stamped(env.from_collection([("a", 1)])).key_by(lambda e: e[0]).process(Quiet())) == []


def test_q41_a_trigger_that_cannot_merge_is_refused_for_sessions_of_keyed_streams_too(env):
    class Once(Trigger):
        def on_element(self, element, timestamp, window, ctx):
            return TriggerResult.FIRE

    sessions = env.from_collection([1]).key_by(str).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    with pytest.raises(InvalidProgram, match="does not support merging"):
        sessions.trigger(Once()).process(Starts())


def test_q42_a_record_that_bridges_two_sessions_keeps_both(env, collect):
    sales = stamped(env.from_collection([(10, 0), (200, 8), (3, 4)]))
    sessions = sales.key_by(lambda e: 0).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))

    assert collect(sessions.reduce(lambda a, b: (a[0] + b[0], max(a[1], b[1])))) == [(213, 8)]


def test_q43_continuous_triggers_work_where_sessions_merge(env, collect):
    sales = stamped(env.from_collection([(10, 0), (200, 8), (3, 4)]))
    sessions = sales.key_by(lambda e: 0).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    every = sessions.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(100)))

    # once at the earliest of the merged fire times, and once at the end of the window, as in Java
    assert collect(every.reduce(lambda a, b: (a[0] + b[0], max(a[1], b[1])))) == [(213, 8), (213, 8)]


def test_q46_sliding_count_windows_are_pyflinks_here_and_javas_in_funken_itself(env, collect):
    ours = funken.StreamExecutionEnvironment.create_local_environment(1).from_collection([1, 2, 3, 4, 5])
    theirs = env.from_collection([1, 2, 3, 4, 5])

    def sums(stream):
        return collect(stream.key_by(lambda _: 0).count_window(3, 2).reduce(lambda a, b: a + b))

    assert sums(theirs) == [6, 12]
    assert sums(ours) == [3, 9]


def test_q47_the_records_of_a_full_count_window_are_freed():
    function = WindowCall(UserFunction(lambda key, window, elements: [window.id]), CallStyle.APPLY)
    window = WindowSpec(UserFunction(str), CountTumblingWindowAssigner(2), Elements(), function)
    harness = OperatorHarness(window, keyed=True)
    for _ in range(2000):
        harness.feed("a" * 100)

    assert len(pickle.dumps(harness.snapshot())) < 5000


def test_q56_keys_are_equal_if_python_says_so(env, collect):
    counts = env.from_collection([1, 1.0, True, ("a", "b"), ("a", "".join(["b"]))]).key_by(lambda value: value)

    assert collect(counts.map(lambda value: value).key_by(lambda v: v).count_window(2).reduce(lambda a, b: a)) == [
        1,
        ("a", "b"),
    ]


def test_q56_a_list_is_a_key_as_good_as_a_tuple(env, collect):
    keyed = env.from_collection([[1, [2]], [1, [2]]]).key_by(lambda value: value)

    assert [row.f0 for row in collect(keyed)] == [(1, (2,)), (1, (2,))]
    assert collect(keyed.reduce(lambda a, b: a + b))[-1] == [1, [2], 1, [2]]


def test_q58_a_keyed_stream_is_collected_and_sunk_as_pairs_and_printed_as_values(env, collect, capsys, tmp_path):
    types = Types.TUPLE([Types.STRING(), Types.INT()])
    keyed = env.from_collection([("a", 1)], types).key_by(lambda pair: pair[0], Types.STRING())

    assert collect(keyed) == [Row(f0="a", f1=("a", 1))]
    keyed.sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build())
    keyed.print()
    env.execute()
    assert [path.read_text() for path in tmp_path.rglob("part-*")] == ["+I[a, (a,1)]\n"]
    assert capsys.readouterr().out == "(a,1)\n"


def test_q59_a_keyed_stream_prints_with_its_identifier(env, capsys):
    env.from_collection(["a"]).key_by(str).print("id")
    env.execute()

    assert capsys.readouterr().out == "id> a\n"


def test_q61_a_side_output_that_nobody_reads_is_dropped(env, collect):
    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield value
            yield OutputTag("side"), value

    assert collect(env.from_collection([1]).process(Split())) == [1]


def test_q78_map_state_takes_pairs_or_a_dict_and_contains_a_stored_none(env, collect):
    class Fill(KeyedProcessFunction):
        def open(self, runtime_context):
            self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.INT()))

        def process_element(self, value, ctx):
            self.map.put_all({"a": 1})
            self.map.put_all([("b", None)])
            yield self.map.contains("b"), sorted(self.map.keys())

    assert collect(env.from_collection([1]).key_by(str).process(Fill())) == [(True, ["a", "b"])]


def test_windowed_streams_are_changed_in_place(env, collect):
    windows = (
        stamped(env.from_collection([("a", 1)]))
        .key_by(lambda e: e[0])
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    )
    windows.allowed_lateness(7)
    windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(1)))

    assert windows._lateness == 7
    assert len(collect(windows.process(Starts()))) > 1


def test_streams_keep_their_pyflink_class_through_every_method(env):
    stream = env.from_collection([("a", 1)])

    for made in (stream.map(str), stream.filter(bool).rebalance(), stream.union(stream), stream.key_by(str).map(str)):
        assert isinstance(made, DataStream)
        assert type(made).__module__ == "funken.compat.pyflink.streams"
