"""What programs are made of: records through operators, forks and joins of streams, state and timers."""

from collections import Counter

import pytest

from funken import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    MapStateDescriptor,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    ValueStateDescriptor,
    WatermarkStrategy,
)

TEXT = ["to be or not to be", "that is the question", "whether tis nobler in the mind"]


def numbers(env, last, first=1):
    return env.from_source(NumberSequenceSource(first, last), WatermarkStrategy.no_watermarks(), "numbers")


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_word_count(env, collect):
    counts = (
        env.from_collection(TEXT).flat_map(str.split).map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
    )

    final = {}
    for word, count in collect(counts):
        assert count == final.get(word, 0) + 1  # every step of a key arrives, in order
        final[word] = count
    assert final == Counter(" ".join(TEXT).split())


@pytest.mark.ways("local", "batch")
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_every_record_of_a_source_arrives_once(env, collect):
    evens = numbers(env, 10_000).filter(lambda number: number % 2 == 0)

    assert Counter(collect(evens)) == Counter(range(2, 10_001, 2))


@pytest.mark.ways("local", "batch")
def test_a_map_that_returns_none_emits_none_and_a_flat_map_nothing(env, collect):
    ones = env.from_collection([1, 2])

    assert collect(ones.map(lambda _: None)) == [None, None]
    assert collect(env.from_collection([1, 2]).flat_map(lambda x: None if x == 1 else [x, x])) == [2, 2]


class Prefix(MapFunction):
    def open(self, runtime_context):
        self.prefix = runtime_context.get_job_parameter("prefix", "?")
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return f"{self.prefix}{value}/{self.subtasks}"


def test_a_function_object_is_opened_with_its_context(environment, collect):
    env = environment({"pipeline.global-job-parameters": {"prefix": "n"}})

    assert sorted(collect(numbers(env, 3).map(Prefix()))) == ["n1/2", "n2/2", "n3/2"]


def test_a_diamond(env, collect):
    top = numbers(env, 100).rebalance().map(lambda number: number)
    left = top.filter(lambda number: number % 2 == 0).map(lambda number: ("even", number))
    right = top.key_by(lambda number: number % 7).reduce(lambda a, b: a + b).map(lambda total: ("sum", total))
    joined = left.union(right).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + 1))

    assert Counter(kind for kind, _ in collect(joined)) == {"even": 50, "sum": 100}


def test_a_union_keeps_duplicates(env, collect):
    one, two = env.from_collection([1, 2, 3]), env.from_collection([3, 4])

    assert Counter(collect(one.union(two, one.map(lambda number: number * 10)))) == Counter([1, 2, 3, 3, 4, 10, 20, 30])


@pytest.mark.ways("local", "batch")
def test_a_union_with_itself_doubles(env, collect):
    one = env.from_collection([1, 2, 3])

    assert Counter(collect(one.union(one))) == Counter([1, 1, 2, 2, 3, 3])


def test_a_fork_into_several_sinks(env, capsys):
    stream = numbers(env, 4).rebalance().map(lambda number: number).set_parallelism(1)
    stream.print("all").set_parallelism(1)
    stream.filter(lambda number: number > 2).print("large").set_parallelism(1)
    stream.key_by(lambda number: number % 2).sum().set_parallelism(1).print("sums").set_parallelism(1)

    env.execute()

    by_sink = {}
    for line in capsys.readouterr().out.splitlines():
        name, number = line.split("> ")
        by_sink.setdefault(name, []).append(int(number))
    assert sorted(by_sink["all"]) == [1, 2, 3, 4]
    assert sorted(by_sink["large"]) == [3, 4]
    assert max(by_sink["sums"]) == 6
    assert len(by_sink["sums"]) == 4


LATE, ODD = OutputTag("late"), OutputTag("odd")


class Sort(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, value
        else:
            yield value
        if value > 8:
            ctx.output(LATE, f"late {value}")


def test_side_outputs(env, collect):
    main = numbers(env, 10).process(Sort())
    together = main.map(lambda even: ("even", even)).union(
        main.get_side_output(ODD).map(lambda odd: ("odd", odd)),
        main.get_side_output(LATE).rebalance().map(lambda text: ("late", text)),
    )

    found = {}
    for kind, value in collect(together):
        found.setdefault(kind, set()).add(value)
    assert found == {"even": {2, 4, 6, 8, 10}, "odd": {1, 3, 5, 7, 9}, "late": {"late 9", "late 10"}}


def test_an_edge_that_skips_levels_is_relayed(env, collect):
    start = numbers(env, 1000)
    far = start
    for _ in range(3):  # three exchanges above the source
        far = far.rebalance().map(lambda number: number)
    near = start.map(lambda number: -number).set_parallelism(3)  # relayed over levels of another width
    both = far.union(near).key_by(abs).reduce(lambda a, b: 0)

    assert Counter(collect(both))[0] == 1000  # each number met its negative


class Both(CoMapFunction):
    def map1(self, value):
        return f"number {value}" if value < 3 else None

    def map2(self, value):
        return f"word {value}"


def test_connected_streams_are_mapped_apart(env, collect):
    connected = numbers(env, 3).connect(env.from_collection(["a", "b"]))

    assert sorted(collect(connected.map(Both()))) == ["number 1", "number 2", "word a", "word b"]


class Expand(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * value

    def flat_map2(self, value):
        yield from value


@pytest.mark.ways("local", "batch")
def test_connected_streams_are_expanded_apart(env, collect):
    connected = env.from_collection([1, 2]).connect(env.from_collection(["ab"]))

    assert Counter(collect(connected.flat_map(Expand()))) == Counter([1, 2, 2, "a", "b"])


class Join(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left"))
        self.right = runtime_context.get_state(ValueStateDescriptor("right"))

    def process_element1(self, value, ctx):
        self.left.update(value)
        return self.joined()

    def process_element2(self, value, ctx):
        self.right.update(value)
        return self.joined()

    def joined(self):
        if self.left.value() is not None and self.right.value() is not None:
            yield self.left.value(), self.right.value()


@pytest.mark.ways("local", "batch")
@pytest.mark.parametrize("parallelism", [1, 3])
def test_two_keyed_streams_share_state(env, collect):
    squares = numbers(env, 50).map(lambda number: (number, number * number))
    names = numbers(env, 50).map(lambda number: (number, f"n{number}"))
    joined = squares.connect(names).key_by(lambda pair: pair[0], lambda pair: pair[0]).process(Join())

    assert Counter(collect(joined)) == Counter(((n, n * n), (n, f"n{n}")) for n in range(1, 51))


class Rules(BroadcastProcessFunction):
    descriptor = MapStateDescriptor("rules")

    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.descriptor).put(value, True)
        yield f"rule {value}"


def test_a_broadcast_stream_reaches_every_subtask(env, collect):
    rules = env.from_collection(["a", "b"]).broadcast(Rules.descriptor)

    found = Counter(collect(numbers(env, 3).connect(rules).process(Rules())))

    assert found == Counter([1, 2, 3, *2 * ["rule a", "rule b"]])


class Remind(KeyedProcessFunction):
    """Counts the records of a key and tells the count at the end of each ten."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 10 * 10 + 9)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.count.value()
        self.count.clear()


def test_state_and_event_time_timers(env, collect):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)
    stream = env.from_source(NumberSequenceSource(0, 99), strategy, "numbers")

    found = collect(stream.key_by(lambda number: number % 2).process(Remind()))

    # Watermarks are periodic, so what a key counted may come late to one timer and early to the next: only sums hold.
    assert {(key, at) for key, at, _ in found} == {(key, at) for key in (0, 1) for at in range(9, 100, 10)}
    assert sum(count or 0 for _, _, count in found) == 100


RECORDS = [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "z"), ("b", 5, "u"), ("a", 3, "w"), ("b", 7, "v")]
ROLLING = {
    "sum": [("a", 3, "x"), ("a", 4, "x"), ("a", 5, "x"), ("a", 8, "x"), ("b", 5, "u"), ("b", 12, "u")],
    "min": [("a", 3, "x"), ("a", 1, "x"), ("a", 1, "x"), ("a", 1, "x"), ("b", 5, "u"), ("b", 5, "u")],
    "max": [("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x"), ("b", 5, "u"), ("b", 7, "u")],
    "min_by": [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "y"), ("a", 1, "y"), ("b", 5, "u"), ("b", 5, "u")],
    "max_by": [("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x"), ("b", 5, "u"), ("b", 7, "v")],
}


@pytest.mark.ways("local")
@pytest.mark.parametrize("name", ROLLING)
def test_rolling_aggregates_keep_the_first_record_on_ties(env, collect, name):
    keyed = env.from_collection(RECORDS).key_by(lambda record: record[0])

    found = sorted(collect(getattr(keyed, name)(1)), key=lambda record: record[0])  # stable: keeps each key's order

    assert found == ROLLING[name]


@pytest.mark.ways("batch", "continuous")
def test_rolling_aggregates_on_spark(env, collect):
    keyed = env.from_collection(RECORDS).key_by(lambda record: record[0])
    tagged = [getattr(keyed, name)(1).map(lambda record, name=name: (name, record)) for name in ROLLING]

    found = {}
    for name, record in collect(tagged[0].union(*tagged[1:])):
        found.setdefault(name, []).append(record)
    assert {name: sorted(records, key=lambda record: record[0]) for name, records in found.items()} == ROLLING


@pytest.mark.ways("local")
def test_key_by_on_a_keyed_stream_keys_the_original_records(env, collect):
    keyed = (
        env.from_collection([("a", 1), ("b", 1), ("a", 2)]).key_by(lambda pair: pair[0]).key_by(lambda pair: pair[1])
    )

    assert Counter(collect(keyed.sum(1).map(lambda pair: pair[1]))) == Counter([1, 2, 2])


@pytest.mark.ways("local", "batch")
def test_bounded_sources_at_different_parallelism(environment, collect):
    for parallelism in (1, 2, 4):
        env = environment({"parallelism.default": parallelism})
        joined = numbers(env, 5).union(env.from_collection([10]), numbers(env, 1000, first=996))

        assert Counter(collect(joined)) == Counter([*range(1, 6), 10, *range(996, 1001)])


class Twice(FlatMapFunction):
    def flat_map(self, value):
        return [value, value]


@pytest.mark.ways("local", "batch")
def test_chaining_does_not_change_results(environment, collect):
    results = []
    for chained in (True, False):
        env = environment({"pipeline.operator-chaining.enabled": chained})
        stream = numbers(env, 200).flat_map(Twice()).map(lambda number: number % 10).filter(lambda digit: digit > 3)
        results.append(Counter(collect(stream.key_by(lambda digit: digit).sum().map(lambda total: total + 1))))

    assert results[0] == results[1]
    assert results[0].total() == 240
