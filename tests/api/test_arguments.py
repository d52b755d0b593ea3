"""What the API refuses at once, where the mistake is made, instead of in a worker."""

import pytest

from funken import (
    Configuration,
    InvalidProgram,
    MapFunction,
    NumberSequenceSource,
    ProcessFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.dataset import ExecutionEnvironment
from funken.errors import CheckpointNotFound


@pytest.fixture
def env():
    return StreamExecutionEnvironment.create_local_environment(parallelism=1)


@pytest.fixture
def stream(env):
    return env.from_collection([1])


@pytest.mark.parametrize(
    "method", ["map", "filter", "flat_map", "map_block", "key_by", "for_each", "process"], ids=lambda name: f"{name}()"
)
@pytest.mark.parametrize("wrong", [3, "text", None])
def test_a_function_must_be_callable(stream, method, wrong):
    with pytest.raises(TypeError, match=rf"{method}\(\) needs a function, or an object with a method"):
        getattr(stream, method)(wrong)


def test_a_class_is_not_an_instance(stream):
    class Double(MapFunction):
        def map(self, value):
            return value * 2

    with pytest.raises(TypeError, match=r"map\(\) got the class Double; give an instance: Double\(\)"):
        stream.map(Double)


def test_a_function_object_of_another_kind(stream):
    with pytest.raises(TypeError, match=r"needs an object with a method map\(\), but .* has none"):
        stream.map(ProcessFunction())


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_parallelism_is_a_whole_number_from_one_on(stream, wrong):
    mapped = stream.map(str)
    for setter in (mapped.set_parallelism, mapped.set_max_parallelism, mapped.print().set_parallelism):
        with pytest.raises(InvalidProgram, match="must be a whole number from 1 on"):
            setter(wrong)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2", "x", None])
def test_parallelism_of_the_environment(env, wrong):
    batch = ExecutionEnvironment.get_execution_environment()
    for setter in (
        env.set_parallelism,
        batch.set_parallelism,
        batch.from_elements(1).write_as_text("never").set_parallelism,
    ):
        with pytest.raises(InvalidProgram, match=f"parallelism must be a whole number from 1 on, but is {wrong!r}"):
            setter(wrong)
    if wrong is not None:
        with pytest.raises(InvalidProgram, match="parallelism must be a whole number from 1 on"):
            StreamExecutionEnvironment.create_local_environment(wrong)


@pytest.mark.parametrize("target", ["local", "continuous"])
def test_a_savepoint_that_is_none_is_refused_before_anything_is_started(tmp_path, target):
    (tmp_path / "chk-7").mkdir()
    (tmp_path / "chk-7" / "_metadata").touch()
    options = {"execution.target": target, "execution.state-recovery.path": str(tmp_path), "parallelism.default": 1}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    env.from_collection([1]).print()

    with pytest.raises(
        CheckpointNotFound, match=r"is no savepoint or checkpoint: .* It has these: chk-7\. Pass the folder"
    ):
        env.execute_async()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_more_than_nothing(stream, limit):
    with pytest.raises(ValueError, match="limit must be more than 0"):
        stream.execute_and_collect(limit=limit)


def test_sources_and_sinks_are_of_their_kind(env, stream):
    with pytest.raises(TypeError, match="needs a Source"):
        env.from_source([1, 2, 3])
    with pytest.raises(TypeError, match=r"needs a Sink.*for_each\(\)"):
        stream.sink_to(print)


def test_streams_of_two_environments_do_not_meet(stream):
    other = StreamExecutionEnvironment.create_local_environment(1).from_collection([2])

    for join in (stream.union, stream.connect):
        with pytest.raises(InvalidProgram, match="one environment"):
            join(other)


@pytest.mark.parametrize(
    "configure",
    [
        lambda stream: stream.name("x"),
        lambda stream: stream.set_parallelism(2),
        lambda stream: stream.uid("x"),
        lambda stream: stream.disable_chaining(),
    ],
)
def test_what_belongs_to_an_operator_needs_one(stream, configure):
    mapped = stream.map(str)
    for not_an_operator in (mapped.union(stream), mapped.rebalance()):
        with pytest.raises(InvalidProgram, match="belongs to an operator, but this stream is a union"):
            configure(not_an_operator)


@pytest.mark.parametrize("spread", ["rebalance", "rescale", "shuffle", "forward", "global_", "broadcast"])
def test_a_keyed_stream_is_not_spread_again(stream, spread):
    with pytest.raises(TypeError, match="has no meaning on a KeyedStream"):
        getattr(stream.key_by(str), spread)()


@pytest.mark.parametrize("wrong", [None, 1.5, True, ["f"]])
def test_a_field_is_a_number_or_a_name(stream, wrong):
    with pytest.raises(TypeError, match="must be int or str"):
        stream.key_by(str).sum(wrong)


def test_windows_check_their_functions(stream):
    windowed = stream.key_by(str).window(TumblingEventTimeWindows.of(10))

    with pytest.raises(TypeError, match="needs an AggregateFunction object"):
        windowed.aggregate(len)
    with pytest.raises(TypeError, match="needs a ProcessWindowFunction"):
        windowed.process(lambda key, context, elements: [])
    with pytest.raises(InvalidProgram, match="must not be negative"):
        windowed.allowed_lateness(-1)


def test_watermark_strategies_check_their_parts():
    with pytest.raises(TypeError, match="neither a TimestampAssigner nor a function"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(3)
    with pytest.raises(ValueError, match="idle timeout must be more than 0"):
        WatermarkStrategy.no_watermarks().with_idleness(0)


def test_an_empty_sequence(env):
    with pytest.raises(InvalidProgram, match="empty"):
        env.from_source(NumberSequenceSource(2, 1))


def test_names_can_be_read_back(stream):
    assert stream.map(str).name("texts").get_name() == "texts"


def test_connected_streams_are_both_keyed_or_neither(stream):
    class Both:
        def map1(self, value):
            return value

        def map2(self, value):
            return value

    with pytest.raises(InvalidProgram, match="either both connected streams are keyed, or neither"):
        stream.key_by(str).connect(stream).map(Both())
    with pytest.raises(TypeError, match=r"a CoMapFunction with the methods map1\(\) and map2\(\) is needed"):
        stream.connect(stream).map(str)
