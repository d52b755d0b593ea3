"""BATCH: every operator on a keyed stream is given one key after the other, each in the order of time."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import (
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    Configuration,
    DataGeneratorSource,
    EventTimeSessionWindows,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.ids import MIN_TIMESTAMP
from funken.operators.process.one_input import KeyedProcess
from funken.operators.user_functions import UserFunction
from funken.operators.wrappers import SortedInput
from funken.testing import OperatorHarness
from tests.support.streams import collected

ASSIGNED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
TRIPLE = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])
RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 9)), max_size=20)


def environment(**options):
    given = {"execution.block.records": 3} | {key.replace("_", "."): value for key, value in options.items()}
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration(given))
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH)


def stamped(env, records):
    return env.from_collection(records).assign_timestamps_and_watermarks(ASSIGNED)


def keyed(records, env=None):
    return stamped(env or environment(), records).key_by(lambda record: record[0])


def key_by_key(*inputs):
    """The oracle: ``(input, record)`` by key, then time, then input, then arrival; keys as they first came."""
    arrived = [(index, record) for index, records in enumerate(inputs) for record in records]
    keys = list(dict.fromkeys(record[0] for _, record in arrived))
    return sorted(arrived, key=lambda each: (keys.index(each[1][0]), each[1][1], each[0]))


def by_key(records):
    """Records apart by key; which key comes first is nobody's promise if there are two inputs."""
    return {key: [each for each in records if each[-1][0] == key] for key in "abc"}


def take_turns(keys):
    """Whether no key comes back after another one."""
    groups = [key for key, _ in groupby(keys)]
    return len(groups) == len(set(groups))


class Seen(KeyedProcessFunction, MapFunction, FlatMapFunction):
    """Numbers the records of a run, without any state."""

    def open(self, runtime_context):
        self.count = 0

    def process_element(self, value, ctx):
        self.count += 1
        yield (*value[:2], 100 * self.count + value[2])

    def map(self, value):
        return next(iter(self.process_element(value, None)))

    def flat_map(self, value):
        return self.process_element(value, None)


def numbered(records):
    return [(*record[:2], 100 * at + record[2]) for at, (_, record) in enumerate(key_by_key(records), 1)]


@pytest.mark.parametrize(
    "applied",
    [
        lambda stream: stream.process(Seen()),
        lambda stream: stream.process(Seen(), TRIPLE),
        lambda stream: stream.map(Seen()),
        lambda stream: stream.map(Seen(), TRIPLE),
        lambda stream: stream.flat_map(Seen()),
        lambda stream: stream.flat_map(Seen(), TRIPLE),
    ],
    ids=["process", "typed process", "map", "typed map", "flat_map", "typed flat_map"],
)
@given(records=RECORDS)
def test_s82_one_input_is_in_the_order_of_key_and_time(applied, records):
    assert collected(applied(keyed(records))) == numbered(records)


class Sides(KeyedCoProcessFunction, CoMapFunction, CoFlatMapFunction):
    """Shows which record of which input comes after which."""

    def open(self, runtime_context):
        self.before = runtime_context.get_state(ValueStateDescriptor("before", default=()))

    def process_element1(self, value, ctx):
        yield self.map1(value)

    def process_element2(self, value, ctx):
        yield self.map2(value)

    def map1(self, value):
        return self._seen((0, value))

    def map2(self, value):
        return self._seen((1, value))

    def flat_map1(self, value):
        return [self.map1(value)]

    def flat_map2(self, value):
        return [self.map2(value)]

    def _seen(self, record):
        before = self.before.value()
        self.before.update(record)
        return before, record


def followed(*inputs):
    """Each record with the one of its key before it."""
    order = key_by_key(*inputs)
    return [
        (before if before and before[1][0] == record[1][0] else (), record)
        for before, record in zip([(), *order], order, strict=False)
    ]


@pytest.mark.parametrize("method", ["process", "map", "flat_map"])
@given(first=RECORDS, second=RECORDS)
def test_s82_two_inputs_are_in_the_order_of_key_and_time(method, first, second):
    env = environment()
    both = stamped(env, first).connect(stamped(env, second)).key_by(lambda r: r[0], lambda r: r[0])

    made = collected(getattr(both, method)(Sides()))

    assert take_turns(record[0] for _, (_, record) in made)
    assert by_key([(before, *record) for before, record in made]) == by_key(
        [(before, *record) for before, record in followed(first, second)]
    )


@given(records=RECORDS)
@pytest.mark.parametrize("type_info", [None, TRIPLE])
def test_s51_a_reduce_joins_records_in_the_order_of_time(type_info, records):
    env = environment()
    source = env.from_collection(records, type_info).assign_timestamps_and_watermarks(ASSIGNED)
    reduced = source.key_by(lambda r: r[0]).reduce(lambda a, b: (a[0], b[1], a[2] * 3 + b[2]))

    expected = {}
    for _, (key, at, number) in key_by_key(records):
        expected[key] = (key, at, expected[key][2] * 3 + number if key in expected else number)
    assert collected(reduced) == list(expected.values())


def test_a_reduce_of_records_without_timestamps_keeps_none_of_them():
    env = environment()
    env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(lambda r: r[0]).sum(1).print()
    (vertex,) = (v for v in env.compile().vertices if v.stage == 1)

    spec = vertex.nodes[0].spec
    assert isinstance(spec, SortedInput)
    op = OperatorHarness(spec, keyed=True, batch=True)
    op.feed_block([("a", 1), ("b", 2), ("a", 3)])
    assert op.operator._kept == {}
    op.end_input()
    assert op.output == [("a", 4), ("b", 2)]


class Contents(ProcessWindowFunction):
    """Shows what is in a window."""

    def process(self, key, context, elements):
        yield key, tuple(context.window())[:1], list(elements)


def windows_of(records, size):
    found = {}
    for _, record in key_by_key(records):
        found.setdefault((record[0], (record[1] - record[1] % size,)), []).append(record)
    return [(*place, contents) for place, contents in found.items()]


@pytest.mark.parametrize("type_info", [None, Types.PICKLED_BYTE_ARRAY()])
@given(records=RECORDS)
def test_a_window_has_its_records_in_the_order_of_time_and_fires_with_its_key(type_info, records):
    windowed = keyed(records).window(TumblingEventTimeWindows.of(5))

    assert collected(windowed.process(Contents(), type_info)) == windows_of(records, 5)


@given(records=RECORDS)
def test_a_window_with_a_reduce_joins_records_in_the_order_of_time(records):
    reduced = keyed(records).window(TumblingEventTimeWindows.of(5)).reduce(lambda a, b: (a[0], a[1], a[2] * 3 + b[2]))

    expected = []
    for _, _, contents in windows_of(records, 5):
        number = 0
        for record in contents:
            number = number * 3 + record[2]
        expected.append((*contents[0][:2], number))
    assert collected(reduced) == expected


@given(records=RECORDS)
def test_count_windows_count_in_the_order_of_time(records):
    pairs = keyed(records).count_window(2).apply(lambda key, window, elements: [list(elements)])

    expected = []
    for key in dict.fromkeys(record[0] for record in records):
        mine = [record for _, record in key_by_key(records) if record[0] == key]
        expected += [mine[at : at + 2] for at in range(0, len(mine) - 1, 2)]
    assert collected(pairs) == expected


def test_sessions_are_those_of_a_key():
    records = [("a", 30, 0), ("b", 1, 1), ("a", 1, 2), ("a", 3, 3), ("b", 2, 4)]
    sessions = keyed(records).window(EventTimeSessionWindows.with_gap(5)).process(Contents())

    assert collected(sessions) == [
        ("a", (1,), [("a", 1, 2), ("a", 3, 3)]),
        ("a", (30,), [("a", 30, 0)]),
        ("b", (1,), [("b", 1, 1), ("b", 2, 4)]),
    ]


@given(first=RECORDS, second=RECORDS)
def test_a_co_group_has_both_sides_in_the_order_of_time(first, second):
    class Both(CoGroupFunction):
        def co_group(self, one, two):
            yield list(one), list(two)

    env = environment()
    grouped = stamped(env, first).co_group(stamped(env, second)).where(lambda r: r[0]).equal_to(lambda r: r[0])
    made = collected(grouped.window(TumblingEventTimeWindows.of(50)).apply(Both()))

    expected = {}
    for index, record in key_by_key(first, second):
        expected.setdefault(record[0], ([], []))[index].append(record)
    assert sorted(made) == sorted(expected.values())


@given(first=RECORDS, second=RECORDS)
def test_an_interval_join_makes_its_pairs_key_by_key_in_the_order_of_time(first, second):
    env = environment()
    left, right = (stamped(env, records).key_by(lambda r: r[0]) for records in (first, second))
    made = collected(left.interval_join(right).between(-3, 3).process(lambda one, two, ctx: [(one, two)]))

    assert sorted(made) == sorted((o, t) for o in first for t in second if o[0] == t[0] and abs(o[1] - t[1]) <= 3)
    for key in "abc":
        times = [max(one[1], two[1]) for one, two in made if one[0] == key]
        assert times == sorted(times)
    assert take_turns(one[0] for one, _ in made)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


@given(records=RECORDS)
def test_s63_s82_the_keyed_side_of_a_broadcast_is_in_the_order_of_key_and_time(records):
    class Rules(KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            self.count = getattr(self, "count", 0) + 1
            yield (*value[:2], ctx.get_broadcast_state(RULES).get("hundred") * self.count + value[2])

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(RULES).put("hundred", value)

    env = environment()
    rules = env.from_collection([100]).broadcast(RULES)

    assert collected(keyed(records, env).connect(rules).process(Rules())) == numbered(records)


def test_a_side_output_is_kept_apart():

    late = OutputTag("odd")

    class Split(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield (late, value) if value[2] % 2 else value

    records = [("a", 3, 1), ("b", 2, 2), ("a", 1, 3), ("b", 1, 4)]
    split = keyed(records).process(Split())

    assert collected(split) == [("b", 1, 4), ("b", 2, 2)]
    split = keyed(records).process(Split())
    assert collected(split.get_side_output(late)) == [("a", 1, 3), ("a", 3, 1)]


class Timers(KeyedProcessFunction):
    """Fires at the end of a key, with what was seen of it."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value, ctx):
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 100)
        ctx.timer_service().register_processing_time_timer(1)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, list(self.seen.get())


@pytest.mark.parametrize("type_info", [None, Types.PICKLED_BYTE_ARRAY()])
def test_s22_timers_fire_at_the_end_of_their_key(type_info):
    made = collected(keyed([("b", 2, 0), ("a", 9, 0), ("b", 1, 0)]).process(Timers(), type_info))

    assert made == [
        ("b", 101, [1, 2]),
        ("b", 102, [1, 2]),
        ("b", 1, [1, 2]),
        ("a", 109, [9]),
        ("a", 1, [9]),
    ]


def test_a_key_is_done_with_its_state_dropped():
    """A key that comes in two spellings of equality is one key; what it had is gone when the next begins."""
    sizes = []

    class Counting(Timers):
        def process_element(self, value, ctx):
            sizes.append(len(self.seen.table))
            self.seen.add(value[1])

    key = UserFunction(lambda value: value[0])
    spec = SortedInput(KeyedProcess(UserFunction(Counting(), rich=True), key))
    op = OperatorHarness(spec, keyed=True, batch=True)
    op.feed_block([("a", 1), ("b", 2), ("a", 3), ("c", 4)], [1, 2, 3, 4])
    op.end_input()

    assert sizes == [0, 1, 0, 0]


def test_records_without_timestamps_keep_their_order_and_come_first():

    key = UserFunction(lambda value: 0)
    spec = SortedInput(KeyedProcess(UserFunction(lambda v, ctx: [v]), key))
    op = OperatorHarness(spec, keyed=True, batch=True)
    op.feed_block(["late"], [9])
    op.feed_block(["one", "two"])
    op.feed_block(["early", "none"], [3, MIN_TIMESTAMP])
    op.end_input()

    assert op.output_with_timestamps == [("one", None), ("two", None), ("none", None), ("early", 3), ("late", 9)]


def generated(fold, vectorized, mode):
    """Windows over columns: ints by key 0 to 2, whose timestamps go down within a window."""
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    env.set_runtime_mode(mode)
    source = DataGeneratorSource(lambda n: (n % 3, 99 - n, n * 7 % 11), 100)
    stream = env.from_source(source, ASSIGNED.with_timestamp_assigner(lambda r, _: r[1]), "numbers")
    return env, stream.key_by(lambda r: r[0]).window(TumblingEventTimeWindows.of(20)).reduce(fold)


@pytest.mark.parametrize(
    ("fold", "columns"),
    [
        (lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[2]), True),
        (lambda a, b: (a[0], a[1], a[2] + b[2]), False),
        (lambda a, b: (a[0], b[1], a[2] + b[2]), False),
        (lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[1]), False),
    ],
    ids=["any order", "first", "last", "begins with another field"],
)
def test_a_window_over_columns_runs_where_the_order_of_records_does_not_show(fold, columns):
    env, stream = generated(fold, True, RuntimeExecutionMode.BATCH)
    stream.print()
    shown = next(line for line in env.explain().splitlines() if "columns: window reduce: " in line)
    assert ("vectorized" in shown) is columns, shown
    assert columns or "shows the order of its records, which BATCH sorts by time" in shown

    by_columns, by_record = (collected(generated(fold, on, RuntimeExecutionMode.BATCH)[1]) for on in (True, False))
    assert sorted(by_columns) == sorted(by_record)
    expected = {}
    for key, at, number in sorted(((n % 3, 99 - n, n * 7 % 11) for n in range(100)), key=lambda r: r[1]):
        place = key, at // 20
        record = (key, at, number)
        expected[place] = fold(expected[place], record) if place in expected else record
    assert sorted(by_record) == sorted(expected.values())
