"""Statements on keyed streams, partitioning, execution and modes, each pinned by a test that names it."""

from collections import Counter

import pytest

from funken import (
    MAX_WATERMARK,
    MIN_TIMESTAMP,
    BroadcastProcessFunction,
    CoMapFunction,
    DataGeneratorSource,
    Encoder,
    FileSink,
    InvalidProgram,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    NumberSequenceSource,
    OutputFileConfig,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.plan.nodes import Forward, Rebalance
from funken.state.keygroups import KeyRouter, key_group_of, key_groups_of, subtask_of
from funken.testing import local
from tests.support.streams import collected


def environment(parallelism=2, mode=RuntimeExecutionMode.STREAMING):
    return StreamExecutionEnvironment.create_local_environment(parallelism).set_runtime_mode(mode)


PAIRS = [("a", 1), ("b", 10), ("a", 2)]


def test_s36_allowed_lateness_takes_ms():
    windowed = local([1]).key_by(lambda n: n).window(TumblingEventTimeWindows.of(10)).allowed_lateness(5)
    node = windowed.reduce(max).get_execution_environment().compile().vertices[-1].nodes[-1]

    assert node.spec.allowed_lateness_ms == 5


@pytest.mark.parametrize(
    ("runtime_mode", "expected"),
    [
        (RuntimeExecutionMode.STREAMING, [("a", 1), ("a", 3), ("b", 10)]),
        (RuntimeExecutionMode.BATCH, [("a", 3), ("b", 10)]),
    ],
)
def test_s51_reduce_emits_per_record_in_streaming_and_once_per_key_in_batch(runtime_mode, expected):
    stream = environment(1, runtime_mode).from_collection(PAIRS).key_by(lambda pair: pair[0])

    assert sorted(collected(stream.reduce(lambda a, b: (a[0], a[1] + b[1])))) == expected


def test_s52_min_and_max_keep_the_other_fields_of_the_first_record_and_by_the_whole_record():
    records = [("k", 3, "x"), ("k", 1, "y"), ("k", 1, "z")]

    def last(name):
        return collected(getattr(local(records).key_by(lambda r: r[0]), name)(1))[-1]

    assert (last("min"), last("min_by"), last("max")) == (("k", 1, "x"), ("k", 1, "y"), ("k", 3, "x"))


def test_s53_the_position_is_an_int_or_a_name_and_0_on_plain_values():
    with pytest.raises(TypeError, match="must be int or str"):
        local([1]).key_by(lambda n: 0).sum(1.5)
    with pytest.raises(Exception, match="must be 0 on a basic type"):
        collected(local([1, 2]).key_by(lambda n: 0).sum(1))


def test_s54_the_records_of_a_key_keep_the_order_of_each_upstream_subtask():
    numbers = environment(3).from_source(NumberSequenceSource(0, 2999), WatermarkStrategy.no_watermarks(), "numbers")
    found = collected(numbers.map(lambda n: (n // 1000, n)).key_by(lambda pair: pair[1] % 2).map(lambda pair: pair))

    for source in range(3):
        for parity in range(2):
            mine = [n for s, n in found if s == source and n % 2 == parity]
            assert mine == sorted(mine)


def test_s55_keys_belong_to_key_groups_and_key_groups_to_subtasks():
    for key in ["a", 1, ("x", 2)]:
        group = key_group_of(key, 128)
        for parallelism in (1, 3, 128):
            owner = subtask_of(group, 128, parallelism)
            assert owner == group * parallelism // 128
            assert group in key_groups_of(owner, 128, parallelism)
            assert KeyRouter(128, parallelism, lambda subtask: subtask)[key] == owner


def test_s56_keys_are_compared_as_python_compares_them():
    """PyFlink compares pickled bytes: there 1, 1.0 and True are three keys."""
    counts = local([1, 1.0, True]).key_by(lambda n: n).map(lambda n: 1).key_by(lambda _: 0).sum()
    assert collected(counts)[-1] == 3
    assert len({key_group_of(key, 1 << 15) for key in (1, 1.0, True)}) == 1


def test_s58_what_is_collected_from_a_keyed_stream_is_the_record():
    """PyFlink hands out Row(key, value) here."""
    assert collected(local([("a", 1)]).key_by(lambda pair: pair[0])) == [("a", 1)]


def test_s59_the_identifier_of_a_keyed_print_is_kept(capsys):
    """PyFlink drops it."""
    stream = local(["x"])
    stream.key_by(lambda word: word).print("words")
    stream.get_execution_environment().execute()

    assert capsys.readouterr().out == "words> x\n"


def test_s60_map_emits_none_and_a_connected_map_drops_it():
    class Nothing(CoMapFunction):
        def map1(self, value):
            return None

        def map2(self, value):
            return value

    stream = local([1])
    other = stream.get_execution_environment().from_collection([2])

    assert collected(local([1]).map(lambda _: None)) == [None]
    assert collected(stream.connect(other).map(Nothing())) == [2]


def test_s61_a_side_output_that_nobody_reads_is_dropped():
    """In PyFlink the pair lands in the main output."""

    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield OutputTag("odd"), value
            yield value

    assert collected(local([1]).process(Split())) == [1]


def test_s64_state_of_all_keys_is_not_reachable_from_the_broadcast_side():
    class Apply(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield hasattr(ctx, "apply_to_keyed_state")

        def process_broadcast_element(self, value, ctx):
            yield hasattr(ctx, "apply_to_keyed_state")

    stream = local([1])
    rules = stream.get_execution_environment().from_collection([2]).broadcast(MapStateDescriptor("rules"))

    assert collected(stream.connect(rules).process(Apply())) == [False, False]


def test_s66_a_collection_is_read_by_one_subtask_and_rebalanced():
    env = environment(4)
    stream = env.from_collection(range(8)).map(lambda n: n)
    plan = env.compile()

    assert plan.vertices[0].parallelism == 1
    assert [type(edge.partitioning) for edge in plan.edges] == [Rebalance]
    assert sorted(collected(stream)) == list(range(8))


def test_s67_a_union_keeps_duplicates_and_takes_the_least_watermark():
    stream = local([1, 2])
    union = stream.union(stream.map(lambda n: n), stream.get_execution_environment().from_collection([2]))

    assert Counter(collected(union)) == Counter([1, 1, 2, 2, 2])
    plan = stream.get_execution_environment()
    stream.union(stream).map(lambda n: n)
    assert {type(edge.partitioning) for edge in plan.compile().edges} <= {Forward, Rebalance}


def test_s73_files_appear_under_an_hourly_folder_when_the_input_ends(tmp_path):
    names = OutputFileConfig.builder().with_part_prefix("words").with_part_suffix(".txt").build()
    stream = local(["a", "b"])
    stream.sink_to(
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).with_output_file_config(names).build()
    )
    stream.get_execution_environment().execute()

    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file.read_text() == "a\nb\n"
    assert file.name.startswith("words-")
    assert file.suffix == ".txt"
    assert file.parent.name[4] == "-"
    assert file.parent.name[10:12] == "--"


def test_s74_a_number_sequence_includes_both_ends():
    for parallelism in (1, 3):
        numbers = environment(parallelism).from_source(NumberSequenceSource(3, 8), WatermarkStrategy.no_watermarks())
        assert sorted(collected(numbers)) == [3, 4, 5, 6, 7, 8]


class Trace(KeyedProcessFunction):
    """Emits what it sees, and sets a timer."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(50)
        yield value[0], value[1], ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        ctx.timer_service().register_event_time_timer(60)
        yield ctx.get_current_key(), "timer", ctx.timer_service().current_watermark()


def test_s82_batch_goes_key_by_key_in_order_of_time_and_knows_no_watermark_but_the_last():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    records = [("a", 30), ("b", 10), ("a", 5), ("b", 20)]
    stream = environment(1, RuntimeExecutionMode.BATCH).from_collection(records)
    traced = stream.assign_timestamps_and_watermarks(strategy).key_by(lambda pair: pair[0]).process(Trace())

    assert collected(traced) == [
        ("a", 5, MIN_TIMESTAMP),
        ("a", 30, MIN_TIMESTAMP),
        ("a", "timer", MAX_WATERMARK),
        ("b", 10, MIN_TIMESTAMP),
        ("b", 20, MIN_TIMESTAMP),
        ("b", "timer", MAX_WATERMARK),
    ]


def test_s82_batch_gives_both_inputs_of_a_key_together():
    class Both(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            yield "first", value

        def process_element2(self, value, ctx):
            yield "second", value

    env = environment(1, RuntimeExecutionMode.BATCH)
    first, second = env.from_collection([1, 2, 1]), env.from_collection([2, 1])
    both = first.connect(second).key_by(lambda n: n, lambda n: n).process(Both())

    assert sorted([collected(both)[:3]]) == [[("first", 1), ("first", 1), ("second", 1)]]


def test_s83_batch_refuses_an_unbounded_source_and_automatic_decides_by_the_sources():
    def program(mode, count):
        env = environment(1, mode)
        stream = env.from_source(DataGeneratorSource(lambda n: 1, count), WatermarkStrategy.no_watermarks(), "ones")
        return env, stream.key_by(lambda n: n).sum()

    env, _ = program(RuntimeExecutionMode.BATCH, None)
    with pytest.raises(InvalidProgram, match="BATCH cannot run unbounded sources, but 'ones' never ends"):
        env.execute()

    assert collected(program(RuntimeExecutionMode.AUTOMATIC, 3)[1]) == [3]
    assert collected(program(RuntimeExecutionMode.STREAMING, 3)[1]) == [1, 2, 3]
