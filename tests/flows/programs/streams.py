"""Programs without time: records through operators, spread over subtasks, forked and joined again."""

from collections import Counter, namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path

from funken import (
    CoFlatMapFunction,
    CoMapFunction,
    Encoder,
    FileSink,
    FileSource,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    StreamFormat,
    WatermarkStrategy,
)
from tests.flows.programs.catalogue import in_order_per_key, multiset, numbers, program

TEXT = ["to be or not to be", "that is the question", "whether tis nobler in the mind"]
COUNT = 1200

# ---- one record at a time


@program([n for n in range(1, 10_001) if n % 2 == 0])
def every_record_of_a_source_arrives_once(env):
    return numbers(env, 1, 10_000).filter(lambda number: number % 2 == 0)


@program([None, None])
def a_map_that_returns_none_emits_none(env):
    return env.from_collection([1, 2]).map(lambda _: None)


@program([2, 2])
def a_flat_map_that_returns_none_emits_nothing(env):
    return env.from_collection([1, 2]).flat_map(lambda x: None if x == 1 else [x, x])


class Prefix(MapFunction):
    """Shows what its context told it; ``view`` compares the subtasks with the true number."""

    def open(self, runtime_context):
        self.prefix = runtime_context.get_job_parameter("prefix", "?")
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return f"{self.prefix}{value}", 0 <= self.subtask < self.subtasks


@program([(f"n{number}", True) for number in range(1, 21)])
def a_function_object_is_opened_with_its_context(env):
    return numbers(env, 1, 20).map(Prefix())


class Twice(FlatMapFunction):
    def flat_map(self, value):
        return [value, value]


def digits():
    totals = Counter(n % 10 for n in range(1, 201) for _ in range(2) if n % 10 > 3)
    return Counter(digit * (n + 1) for digit, count in totals.items() for n in range(count))


@program(digits)
def a_chain_that_ends_in_running_sums(env):
    stream = numbers(env, 1, 200).flat_map(Twice()).map(lambda number: number % 10).filter(lambda digit: digit > 3)
    return stream.key_by(lambda digit: digit).sum()


# ---- forks, unions, diamonds


@program([1, 2, 3, 3, 4, 10, 20, 30])
def a_union_of_streams_of_different_origin(env):
    one, two = env.from_collection([1, 2, 3]), env.from_collection([3, 4])
    return one.union(two, one.map(lambda number: number * 10))


@program([1, 1, 2, 2, 3, 3])
def a_union_with_itself_doubles(env):
    one = env.from_collection([1, 2, 3])
    return one.union(one)


@program([*range(1, 6), 10, *range(996, 1001)])
def a_union_of_sources_of_different_width(env):
    return numbers(env, 1, 5).union(env.from_collection([10]), numbers(env, 996, 1000))


@program(lambda: Counter({0: 500, **Counter(range(1, 501))}))
def a_diamond_with_legs_of_different_length(env):
    """The long leg crosses three exchanges, the short one skips them: each number meets its negative."""
    start = numbers(env, 1, 500)
    far = start
    for _ in range(3):
        far = far.rebalance().map(lambda number: number)
    near = start.map(lambda number: -number).set_parallelism(max(1, env.get_parallelism() - 1))
    return far.union(near).key_by(abs).reduce(lambda a, b: 0).map(abs)


@program([("even", n) for n in range(1, 51)] + [("sum", n) for n in range(1, 101)])
def a_diamond_with_a_keyed_leg(env):
    top = numbers(env, 1, 100).rebalance().map(lambda number: number)
    left = top.filter(lambda number: number % 2 == 0).map(lambda number: ("even", 1))
    right = top.key_by(lambda number: number % 7).reduce(lambda a, b: a + b).map(lambda total: ("sum", 1))
    return left.union(right).key_by(lambda pair: pair[0]).sum(1)


class Sort(ProcessFunction):
    """Even numbers go on, odd ones and large ones to the side."""

    odd, large = OutputTag("odd"), OutputTag("large")

    def process_element(self, value, ctx):
        if value % 2:
            yield self.odd, value
        else:
            yield value
        if value > 8:
            ctx.output(self.large, f"large {value}")


@program(
    [("even", n) for n in (2, 4, 6, 8, 10)]
    + [("odd", n) for n in (1, 3, 5, 7, 9)]
    + [("large", f"large {n}") for n in (9, 10)]
)
def side_outputs(env):
    main = numbers(env, 1, 10).process(Sort())
    return main.map(lambda even: ("even", even)).union(
        main.get_side_output(Sort.odd).map(lambda odd: ("odd", odd)),
        main.get_side_output(Sort.large).rebalance().map(lambda text: ("large", text)),
    )


class Both(CoMapFunction):
    def map1(self, value):
        return f"number {value}" if value < 3 else None

    def map2(self, value):
        return f"word {value}"


@program(["number 1", "number 2", "word a", "word b"])
def connected_streams_are_mapped_apart(env):
    return numbers(env, 1, 3).connect(env.from_collection(["a", "b"])).map(Both())


class Expand(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * value

    def flat_map2(self, value):
        yield from value


@program([1, 2, 2, "a", "b"])
def connected_streams_are_expanded_apart(env):
    return env.from_collection([1, 2]).connect(env.from_collection(["ab"])).flat_map(Expand())


# ---- spread over subtasks


class Where(MapFunction):
    """Pairs each record with the subtask that handles it, and the number of subtasks."""

    def open(self, runtime_context):
        self.here = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return *self.here, value


def once_and_dealt_out_evenly(records):
    """Whether each number came once, and each subtask saw as many as the others."""
    width = records[0][1]
    shares = Counter(subtask for subtask, _, _ in records)
    return Counter(n for _, _, n in records) == Counter(range(COUNT)), shares == dict.fromkeys(
        range(width), COUNT // width
    )


@program(lambda: (True, True), once_and_dealt_out_evenly)
def rebalance(env):
    return numbers(env, 0, COUNT - 1).set_parallelism(1).rebalance().map(Where())


@program(lambda: (True, True), once_and_dealt_out_evenly)
def rescale(env):
    return numbers(env, 0, COUNT - 1).set_parallelism(max(1, env.get_parallelism() // 2)).rescale().map(Where())


@program(lambda: (True, True), once_and_dealt_out_evenly)
def forward(env):
    return numbers(env, 0, COUNT - 1).forward().map(Where())


def once_and_everybody_has_some(records):
    width = records[0][1]
    shares = Counter(subtask for subtask, _, _ in records)
    numbers_seen = Counter(n for _, _, n in records)
    return numbers_seen == Counter(range(COUNT)), min(shares[n] for n in range(width)) > COUNT // width // 2


@program(lambda: (True, True), once_and_everybody_has_some)
def shuffle(env):
    return numbers(env, 0, COUNT - 1).shuffle().map(Where())


@program([(0, n) for n in range(COUNT)])
def global_(env):
    return numbers(env, 0, COUNT - 1).global_().map(Where()).map(lambda seen: (seen[0], seen[2]))


def each_subtask_has_all(records):
    width = records[0][1]
    return Counter((subtask, n) for subtask, _, n in records) == Counter(
        (subtask, n) for subtask in range(width) for n in range(COUNT)
    )


@program(lambda: True, each_subtask_has_all)
def broadcast(env):
    return numbers(env, 0, COUNT - 1).broadcast().map(Where())


class Modulo(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


@program([(n, True) for n in range(COUNT)])
def a_partitioner_of_the_users(env):
    spread = numbers(env, 0, COUNT - 1).partition_custom(Modulo(), lambda number: number + 1)
    return spread.map(Where()).map(lambda seen: (seen[2], (seen[2] + 1) % seen[1] == seen[0]))


def order_and_number_of_places(records):
    """The records of each key in order, and in how many subtasks each was seen."""
    places = {}
    for key, _, subtask in records:
        places.setdefault(key, set()).add(subtask)
    return in_order_per_key((key, n) for key, n, _ in records), {key: len(seen) for key, seen in places.items()}


@program(
    lambda: ({d: [(d, n) for n in range(d, COUNT, 10)] for d in range(10)}, dict.fromkeys(range(10), 1)),
    order_and_number_of_places,
)
def equal_keys_meet_and_stay_in_order(env):
    keyed = numbers(env, 0, COUNT - 1).set_parallelism(1).key_by(lambda number: number % 10)
    return keyed.map(Where()).map(lambda seen: (seen[2] % 10, seen[2], seen[0]))


# ---- rolling aggregates

RECORDS = [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "z"), ("b", 5, "u"), ("a", 3, "w"), ("b", 7, "v")]
ROLLING = {
    "sum": [("a", 3, "x"), ("a", 4, "x"), ("a", 5, "x"), ("a", 8, "x"), ("b", 5, "u"), ("b", 12, "u")],
    "min": [("a", 3, "x"), ("a", 1, "x"), ("a", 1, "x"), ("a", 1, "x"), ("b", 5, "u"), ("b", 5, "u")],
    "max": [("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x"), ("b", 5, "u"), ("b", 7, "u")],
    "min_by": [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "y"), ("a", 1, "y"), ("b", 5, "u"), ("b", 5, "u")],
    "max_by": [("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x"), ("a", 3, "x"), ("b", 5, "u"), ("b", 7, "v")],
}


@program([((name, r[0]), r) for name, records in ROLLING.items() for r in records], in_order_per_key)
def rolling_aggregates_keep_the_first_record_on_ties(env):
    keyed = env.from_collection(RECORDS).key_by(lambda record: record[0])
    tagged = [getattr(keyed, name)(1).map(lambda r, name=name: ((name, r[0]), r)) for name in ROLLING]
    return tagged[0].union(*tagged[1:])


def steps_of(words):
    seen = Counter()
    for word in words:
        seen[word] += 1
        yield word, seen[word]


@program([*steps_of(" ".join(TEXT).split())], in_order_per_key)
def a_word_count(env):
    words = env.from_collection(TEXT).flat_map(str.split).set_parallelism(1)
    return words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)


@program([1, 2, 2])
def key_by_on_a_keyed_stream_keys_the_original_records(env):
    pairs = env.from_collection([("a", 1), ("b", 1), ("a", 2)])
    return pairs.key_by(lambda pair: pair[0]).key_by(lambda pair: pair[1]).sum(1).map(lambda pair: pair[1])


@program([1, 2, 3, 4])
def numbers_that_are_equal_are_one_key(env):
    ones = env.from_collection([1, 1.0, True, Decimal(1)]).map(lambda one: (one, 1))
    return ones.key_by(lambda pair: pair[0]).sum(1).map(lambda pair: pair[1])


# ---- records of the program's own classes

Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Order:
    customer: str
    amount: float


class Colour(Enum):
    RED = 1
    BLUE = 2


ORDERS = [Order("ann", 1.0), Order("bob", 2.0), Order("ann", 3.0)]


@program(
    [
        *((order, n) for order in ORDERS for n in (1, 2)),
        *((Order(*who), 0) for who in [("ann", 1.0), ("bob", 2.0), ("ann", 4.0)]),
    ]
)
def a_dataclass_as_record_and_as_key(env):
    totals = env.from_collection(ORDERS).key_by(lambda order: order.customer).sum("amount")
    counts = env.from_collection([*ORDERS, *ORDERS]).map(lambda o: (o, 1)).key_by(lambda pair: pair[0]).sum(1)
    return totals.map(lambda order: (order, 0)).union(counts)


def with_types(records):
    return multiset((type(record), record) for record in records)


MANY_TYPES = [
    Point(1, 2), Order("ann", 2.5), Colour.RED, frozenset({1, 2}), b"\x00", 1 << 80, Decimal("0.1"), 0.1, None, True,
    datetime(2024, 2, 29, tzinfo=UTC), "\ud800", ("nested", (Point(3, 4),)), Ellipsis,
]  # fmt: skip


@program(MANY_TYPES, with_types)
def records_of_many_types(env):
    return env.from_collection(MANY_TYPES).rebalance().map(lambda record: record)


@program([Point(1, 2), Point(1, 7), Colour.RED], with_types)
def named_tuples_and_enums_keep_their_types(env):
    points = env.from_collection([Point(1, 2), Point(1, 5)]).key_by(lambda point: point.x).sum("y")
    return points.union(env.from_collection([Colour.RED]).rebalance().map(lambda colour: colour))


# ---- files

LINES = [f"line {number} äöü" for number in range(500)]


@program(LINES, writes=True)
def lines_into_files(env, folder):
    sink = FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build()
    env.from_collection(LINES).rebalance().map(lambda line: line).sink_to(sink)


@program([str(number) for number in range(1, 6)], writes=True)
def a_function_called_for_its_effect(env, folder):
    def write(number):
        Path(folder, f"part-{number}").write_text(f"{number}\n")

    numbers(env, 1, 5).for_each(write)


THIS = Path(__file__)


@program(lambda: Counter(THIS.read_text().splitlines()))
def lines_out_of_a_file(env):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(THIS)).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").rebalance().map(str)
