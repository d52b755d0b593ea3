"""Programs whose functions change records in place: nobody sees what another function does to a record."""

import random

from funken import (
    AggregateFunction,
    AsyncDataStream,
    CoProcessFunction,
    CountTrigger,
    GlobalWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    cached,
)
from tests.flows.programs.catalogue import multiset, numbers, program
from tests.support.changing import build, expected, random_steps
from tests.support.functions import timed

LAST = 30
NUMBERS = range(1, LAST + 1)


def shown(records):
    """Every record as text, as often as it came."""
    return multiset(map(repr, records))


def a_list(number):
    return [number]


def marked(mark):
    """A function that adds a mark to a record."""

    def mark_it(record):
        record.append(mark)
        return record

    return mark_it


def first(record):
    return record[0]


def one(record):
    return "one key"


# ---- several consumers


@program([[n, mark] for n in NUMBERS for mark in "ab"] + [[n] for n in NUMBERS], shown)
def consumers_in_one_chain(env):
    records = numbers(env, 1, LAST).map(a_list)
    return records.map(marked("a")).union(records.map(marked("b")), records)


@program([[n, "a"] for n in NUMBERS] + [[n, "b"] for n in NUMBERS], shown)
def a_consumer_in_the_chain_and_one_behind_an_exchange(env):
    records = numbers(env, 1, LAST).map(a_list)
    return records.map(marked("a")).union(records.key_by(first).map(marked("b")))


@program([(n, [n, mark]) for n in NUMBERS for mark in "ab"], shown)
def a_list_in_a_tuple(env):
    records = numbers(env, 1, LAST).map(lambda n: (n, [n]))

    def mark_inner(mark):
        return lambda record: (record[0], marked(mark)(record[1]))

    return records.map(mark_inner("a")).union(records.map(mark_inner("b")))


@program([[n, mark] for n in NUMBERS for mark in "ab"], shown)
def consumers_that_are_not_chained(env):
    """They are in the same task, in chains of their own."""
    records = numbers(env, 1, LAST).map(a_list)
    return records.map(marked("a")).start_new_chain().union(records.map(marked("b")).start_new_chain())


class Spread(ProcessFunction):
    """Emits a record to the main output and to a side output, and changes it in between."""

    def process_element(self, value, ctx):
        yield value
        value.append("later")
        yield OutputTag("side"), value
        value.append("too late")
        ctx.output(OutputTag("side"), value)
        value.append("never seen")


@program([row for n in NUMBERS for row in ([n, "main"], [n, "later", "side"], [n, "later", "too late", "side"])], shown)
def a_record_emitted_again_after_a_change(env):
    spread = numbers(env, 1, LAST).map(a_list).process(Spread())
    return spread.map(marked("main")).union(spread.get_side_output(OutputTag("side")).map(marked("side")))


@program([[n, mark] for n in NUMBERS for mark in "ab"], shown)
def a_side_output_with_two_consumers(env):
    class Aside(ProcessFunction):
        def process_element(self, value, ctx):
            yield OutputTag("side"), [value]

    side = numbers(env, 1, LAST).process(Aside()).get_side_output(OutputTag("side"))
    return side.map(marked("a")).union(side.map(marked("b")))


@program([["same", "mark"]] * 5, shown)
def an_element_that_is_in_a_collection_several_times(env):
    return env.from_collection([["same"]] * 5).map(marked("mark"))


# ---- state


class Collected(KeyedProcessFunction):
    """Emits the list it keeps, and adds to it for the next record."""

    def open(self, runtime_context):
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value, ctx):
        kept = self.kept.value() or []
        kept.append(value)
        self.kept.update(kept)
        yield kept


PREFIXES = [list(range(1, n + 1)) for n in NUMBERS]


@program(PREFIXES, shown)
def state_that_is_emitted(env):
    return env.from_collection([*NUMBERS]).key_by(one).process(Collected())


@program([[*prefix, "mark"] for prefix in PREFIXES], shown)
def state_that_is_emitted_to_a_function_that_changes_it(env):
    return env.from_collection([*NUMBERS]).key_by(one).process(Collected()).map(marked("mark"))


class Remembered(KeyedProcessFunction):
    """Puts records into a list state, emits each, and all of them at the end."""

    def open(self, runtime_context):
        self.kept = runtime_context.get_list_state(ListStateDescriptor("kept"))

    def process_element(self, value, ctx):
        self.kept.add(value)
        ctx.timer_service().register_event_time_timer(10**9)
        yield value

    def on_timer(self, timestamp, ctx):
        yield list(self.kept.get())


@program([[n, "mark"] for n in NUMBERS] + [[*([n] for n in NUMBERS), "mark"]], shown)
def a_record_in_state_is_not_the_one_that_was_emitted(env):
    return env.from_collection([[n] for n in NUMBERS]).key_by(one).process(Remembered()).map(marked("mark"))


class OnBothInputs(CoProcessFunction):
    def __init__(self):
        self.kept = []

    def process_element1(self, value, ctx):
        self.kept.append(value)
        yield self.kept

    def process_element2(self, value, ctx):
        yield from self.process_element1(value, ctx)


@program([["x"] * n for n in range(1, 2 * LAST + 1)], shown)
def a_co_process_function_emits_what_it_keeps(env):
    ones = env.from_collection(["x"] * LAST)
    return ones.connect(ones).process(OnBothInputs()).set_parallelism(1)


def add_up(total, record):
    total["n"] += record["n"]
    return total


@program([{"n": n * (n + 1) // 2} for n in NUMBERS], shown)
def a_reduce_function_that_changes_its_first_argument(env):
    return env.from_collection([{"n": n} for n in NUMBERS]).key_by(one).reduce(add_up)


@program([("key", prefix) for prefix in PREFIXES], shown)
def a_reduce_function_that_changes_a_list_in_a_tuple(env):
    records = env.from_collection([("key", [n]) for n in NUMBERS])
    return records.key_by(one).reduce(lambda a, b: a[1].extend(b[1]) or a)


@program([{"n": n * (n + 1) // 2, "seen": True} for n in NUMBERS], shown)
def a_reduce_function_that_makes_new_records_for_one_that_changes_them(env):
    def see(record):
        assert "seen" not in record
        record["seen"] = True
        return record

    sums = env.from_collection([{"n": n} for n in NUMBERS]).key_by(one).reduce(lambda a, b: {**a, "n": a["n"] + b["n"]})
    return sums.map(see)


# ---- windows, joins, requests


class Gathered(AggregateFunction):
    """Its result is its accumulator."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@program([[*prefix, "mark"] for prefix in PREFIXES], shown)
def accumulators_that_are_emitted_before_they_are_complete(env):
    windowed = env.from_collection([*NUMBERS]).key_by(one).window(GlobalWindows.create()).trigger(CountTrigger.of(1))
    return windowed.aggregate(Gathered()).map(marked("mark"))


class Elements(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield from elements


@program([[m, "mark"] for n in NUMBERS for m in range(1, n + 1)], shown)
def elements_that_are_emitted_each_time_a_window_fires(env):
    records = env.from_collection([[n] for n in NUMBERS]).key_by(one)
    windowed = records.window(GlobalWindows.create()).trigger(CountTrigger.of(1))
    return windowed.process(Elements()).map(marked("mark"))


@program([(a, b, mark) for a in (1, 2) for b in (3, 4) for mark in "x"], shown)
def records_of_a_join(env):
    """Each record is in several pairs; the pairs are changed by the next function."""
    left = timed(env, [("k", 1, [1]), ("k", 1, [2])])
    right = timed(env, [("k", 2, [3]), ("k", 2, [4])])
    joined = left.join(right).where(first).equal_to(first).window(TumblingEventTimeWindows.of(10))

    def mark_both(pair):
        a, b = pair
        a.append("x")
        b.append("x")
        assert len(a) == len(b) == 2
        return a[0], b[0], "x"

    return joined.apply(lambda a, b: (a[2], b[2])).map(mark_both)


@program([[0, "mark"]] * LAST, shown)
def results_of_a_cache(env):
    async def ask(value):
        return [[0]]

    asked = env.from_collection(["x"] * LAST)
    return AsyncDataStream.ordered_wait(asked, cached(ask, "1 h"), "20 s", 1).map(marked("mark"))


# ---- broadcast


@program([[n, subtask] for n in NUMBERS for subtask in range(3)], shown)
def a_broadcast_record_is_changed_by_each_subtask(env):
    class Mark(ProcessFunction):
        def open(self, runtime_context):
            self.subtask = runtime_context.get_index_of_this_subtask()

        def process_element(self, value, ctx):
            value.append(self.subtask)
            yield value

    records = env.from_collection([[n] for n in NUMBERS])
    return records.broadcast().process(Mark()).set_parallelism(3)


# ---- any graph


GRAPHS = [random_steps(random.Random(seed)) for seed in range(8)]


@program([row for steps in GRAPHS for row in expected(steps)], shown)
def random_graphs_of_functions_that_change_records(env):
    streams = [build(env, steps) for steps in GRAPHS]
    return streams[0].union(*streams[1:])
