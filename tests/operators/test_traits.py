"""The traits of operators: what their specs declare, and that wrappers declare the same."""

from dataclasses import dataclass, replace

import pytest

from funken import (
    CoMapFunction,
    DataGeneratorSource,
    DiscardingSink,
    EventTimeSessionWindows,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapFunction,
    MapStateDescriptor,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from funken.operators.base import Operator
from funken.operators.coordinators import OperatorCoordinator
from funken.operators.process.keyed_operator import KeyedTransform
from funken.operators.sink import CollectSink
from funken.operators.stateless import FilterLogic, FlatMapLogic, MapLogic
from funken.operators.user_functions import BatchInput, OperatorTraits, SpecWrapper, UserFunction, traits_of
from funken.operators.wrappers import Converting, SortedInput

UNTIMED = WatermarkStrategy.no_watermarks()
RULES = MapStateDescriptor("rules")


class Both(CoMapFunction, KeyedCoProcessFunction, KeyedBroadcastProcessFunction, MapFunction):
    """All kinds of functions in one."""

    def map(self, value):
        return value

    map1 = map2 = map

    def process_element(self, value, ctx):
        yield value

    process_element1 = process_element2 = process_broadcast_element = process_element


class Rich(MapFunction):
    def open(self, runtime_context):
        pass

    def map(self, value):
        return value


@dataclass(frozen=True)
class Own:
    """A spec as a library declares it: without traits, with a coordinator."""

    def build(self):
        return Operator()

    def coordinator(self, context):
        return OperatorCoordinator(context)


def program(columns):
    """A program of all kinds of operators; ``columns``: many of them vectorized."""
    env = StreamExecutionEnvironment.create_local_environment(1)
    source = DataGeneratorSource(lambda i: (i, i), 10) if columns else DataGeneratorSource(lambda i: {0: i, 1: i}, 10)
    numbers = env.from_source(source, UNTIMED.with_timestamp_assigner(lambda pair, at: pair[1]))
    mapped = numbers.map(lambda pair: (pair[0], 1)).filter(lambda pair: pair[0] > 1)
    mapped.flat_map(lambda pair: [pair]).map_block(lambda block: block).for_each(print)
    mapped.assign_timestamps_and_watermarks(UNTIMED.with_timestamp_assigner(lambda pair, at: pair[1])).print()
    keyed = mapped.key_by(lambda pair: pair[0])
    keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).sink_to(DiscardingSink())
    keyed.map(Rich()).print()
    keyed.process(lambda pair, ctx: [pair]).print()
    keyed.transform("own", Own()).print()
    keyed.window(TumblingEventTimeWindows.of(5)).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
    keyed.window(EventTimeSessionWindows.with_gap(5)).reduce(lambda a, b: a).print()
    keyed.connect(keyed).map(Both()).print()
    keyed.connect(keyed).process(Both()).print()
    keyed.connect(numbers.broadcast(RULES)).process(Both()).print()
    keyed.interval_join(keyed).between(0, 1).process(lambda a, b, ctx: [a]).print()
    joined = mapped.join(mapped).where(lambda pair: pair[0]).equal_to(lambda pair: pair[0])
    joined.window(TumblingEventTimeWindows.of(5)).apply(lambda a, b: a).print()
    mapped.process(lambda pair, ctx: [pair]).transform("own", Own())._apply("collect", CollectSink("collected"))
    return env.compile()


NODES = {
    f"{node.name} {node.id}, columns {columns}": node for columns in (False, True) for node in program(columns).nodes
}


@pytest.mark.parametrize("name", NODES)
def test_a_wrapper_has_the_traits_of_what_it_wraps(name):
    spec = NODES[name].spec

    for wrapped in (Converting(spec, Types.INT()), SortedInput(spec), SpecWrapper(spec), SortedInput(Converting(spec))):
        assert traits_of(wrapped) == traits_of(spec)


@pytest.mark.parametrize("name", NODES)
def test_the_traits_are_true_of_the_operator(name):
    node = NODES[name]
    traits, operator = traits_of(node.spec), node.spec.build()

    assert traits.fusable == (type(operator) in (MapLogic, FilterLogic, FlatMapLogic))
    assert traits.columnar == operator.columnar
    assert bool(traits.keys) == node.keyed
    assert (traits.source is not None) == (not node.inputs)
    assert traits.sink == (node.name in ("print", "sink", "for_each", "collect"))


def test_many_kinds_were_seen():
    assert {type(node.spec).__name__ for node in NODES.values()} >= {
        "ColumnarMap", "ColumnarReduce", "ColumnarSink", "ColumnarSource", "ColumnarTimestamps",
        "ColumnarWindow", "CoMap", "Filter", "FlatMap", "IntervalJoinSpec", "BroadcastProcess", "KeyedCoProcess",
        "KeyedMap", "KeyedProcess", "KeyedTransform", "Map", "RollingReduce", "SourceSpec", "WindowJoin", "WindowSpec",
    }  # fmt: skip


def test_a_spec_without_traits_has_the_defaults_and_its_coordinator():
    own = Own()

    assert traits_of(own) == OperatorTraits(coordinator=own.coordinator)
    assert traits_of(Operator) == OperatorTraits()


def test_a_keyed_transform_adds_its_keys():
    own, key = Own(), UserFunction(str)

    assert traits_of(KeyedTransform(own, key)) == OperatorTraits(coordinator=own.coordinator, keys=(key,))
    assert traits_of(KeyedTransform(own, key, key)).keys == (key, key)


def test_a_spec_may_declare_traits_of_its_own():
    class Unsorted(Own):
        traits = OperatorTraits(batch_input=BatchInput.ANY_ORDER)

    found = traits_of(KeyedTransform(Unsorted(), UserFunction(str)))

    assert found.batch_input is BatchInput.ANY_ORDER
    assert found.coordinator is not None


def test_windows_have_a_form_in_keyed_state():
    windows = [node.spec for name, node in NODES.items() if "window" in name or "join" in name.split(",")[0]]
    forms = [made for spec in windows if (made := traits_of(spec).in_keyed_state) is not None]

    assert {traits_of(make()).logic for make in forms} == {"general windows"}
    assert {traits_of(spec).logic for spec in windows} >= {"aligned windows", "sessions windows"}


def test_an_unbounded_source_is_not_bounded():
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_source(DataGeneratorSource(lambda i: i), UNTIMED).print()
    env.from_source(NumberSequenceSource(1, 2), UNTIMED).print()
    first, _, second, _ = env.compile().nodes

    assert (traits_of(first.spec).bounded, traits_of(second.spec).bounded) == (False, True)
    assert not env.compile().bounded
    assert replace(traits_of(first.spec), source=None).bounded
