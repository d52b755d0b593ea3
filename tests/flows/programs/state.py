"""Programs with state: process functions with timers, two inputs, broadcast and operator state."""

from collections import Counter

from funken import (
    AggregatingStateDescriptor,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoProcessFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.flows.programs.catalogue import clock, in_order, in_order_per_key, numbers, program
from tests.flows.programs.windows import add
from tests.support.functions import Sum

END = 10**9
"""A time after every record: its timer fires when all inputs have ended."""


class Remind(KeyedProcessFunction):
    """Counts the records of a key and tells the count at the end of each ten."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        timers = ctx.timer_service()
        timers.register_event_time_timer(ctx.timestamp() // 10 * 10 + 9)
        timers.register_event_time_timer(ctx.timestamp() // 10 * 10 + 5)
        timers.delete_event_time_timer(ctx.timestamp() // 10 * 10 + 5)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.count.value()
        self.count.clear()


@program([(n // 10 % 3, n, 2) for n in range(9, 300, 10)], in_order_per_key)
def timers_of_event_time_fire_in_order(env):
    records = [n for n in range(300) if n % 10 in (2, 7)]
    return in_order(env, records).key_by(lambda number: number // 10 % 3).process(Remind())


class Totals(KeyedProcessFunction):
    """Keeps every kind of keyed state, and shows it at the end."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all"))
        self.digits = runtime_context.get_map_state(MapStateDescriptor("digits"))
        self.largest = runtime_context.get_reducing_state(ReducingStateDescriptor("largest", max))
        self.sum = runtime_context.get_aggregating_state(AggregatingStateDescriptor("sum", Sum()))

    def process_element(self, value, ctx):
        self.last.update(max(value, self.last.value() or 0))
        self.all.add(value)
        self.digits.put(value % 10, (self.digits.get(value % 10) or 0) + 1)
        self.largest.add(value)
        self.sum.add(value)
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp, ctx):
        everything = tuple(sorted(self.all.get())), tuple(sorted(self.digits.items()))
        yield ctx.get_current_key(), self.last.value(), *everything, self.largest.get(), self.sum.get()


def totals():
    expected = []
    for key in range(7):
        mine = range(key, 500, 7)
        digits = tuple(sorted(Counter(n % 10 for n in mine).items()))
        expected.append((key, max(mine), tuple(mine), digits, max(mine), sum(mine)))
    return Counter(expected)


@program(totals)
def every_kind_of_keyed_state(env):
    return clock(env, 499).key_by(lambda number: number % 7).process(Totals())


class Pair(KeyedCoProcessFunction):
    """Waits in state for what comes from the other side."""

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


@program([((n, n * n), (n, f"n{n}")) for n in range(1, 51)])
def two_keyed_streams_share_state(env):
    squares = numbers(env, 1, 50).map(lambda number: (number, number * number))
    names = numbers(env, 1, 50).map(lambda number: (number, f"n{number}"))
    return squares.connect(names).key_by(lambda pair: pair[0], lambda pair: pair[0]).process(Pair())


class Enrich(KeyedCoProcessFunction):
    """Joins records with what the other side last said of their key, once both sides are over."""

    def open(self, runtime_context):
        self.records = runtime_context.get_list_state(ListStateDescriptor("records"))
        self.name = runtime_context.get_state(ValueStateDescriptor("name"))

    def process_element1(self, value, ctx):
        self.records.add(value)
        ctx.timer_service().register_event_time_timer(END)

    def process_element2(self, value, ctx):
        self.name.update(value)

    def on_timer(self, timestamp, ctx):
        for record in sorted(self.records.get()):
            yield ctx.get_current_key(), record, self.name.value()


@program([(n % 4, n, ("zero", "one", "two", None)[n % 4]) for n in range(100)], in_order_per_key)
def a_stream_is_enriched_by_another(env):
    names = env.from_collection([(0, "none"), (1, "one"), (2, "two"), (0, "zero")])
    both = clock(env, 99).key_by(lambda n: n % 4).connect(names.key_by(lambda pair: pair[0]))
    return both.process(Enrich()).map(lambda r: (r[0], r[1], r[2] and r[2][1]))


class Sides(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "first", value

    def process_element2(self, value, ctx):
        yield "second", value


@program([*(("first", n) for n in range(1, 21)), ("second", "a"), ("second", "b")])
def two_streams_without_keys_are_processed_apart(env):
    return numbers(env, 1, 20).connect(env.from_collection(["a", "b"])).process(Sides())


RULES = MapStateDescriptor("rules")


class Announce(BroadcastProcessFunction):
    """Says in each subtask which rules came; those of all subtasks are the same."""

    def open(self, runtime_context):
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value, True)
        yield value, self.subtask, self.subtasks


def one_of_each_rule_per_subtask(records):
    rules = [record for record in records if isinstance(record, tuple)]
    width = rules[0][2]
    expected = Counter((rule, subtask, width) for rule in "ab" for subtask in range(width))
    return Counter(rules) == expected, sorted(record for record in records if not isinstance(record, tuple))


@program(lambda: (True, [1, 2, 3]), one_of_each_rule_per_subtask)
def a_broadcast_stream_reaches_every_subtask(env):
    rules = env.from_collection(["a", "b"]).broadcast(RULES)
    return numbers(env, 1, 3).connect(rules).process(Announce())


class Judge(KeyedBroadcastProcessFunction):
    """At the end tells for each key its sum and the rules."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", add))

    def process_element(self, value, ctx):
        self.sum.add(value)
        ctx.timer_service().register_event_time_timer(END)

    def process_broadcast_element(self, value, ctx):
        name, weight = value
        rules = ctx.get_broadcast_state(RULES)
        rules.put(name, (rules.get(name) or 0) + weight)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.sum.get(), tuple(sorted(ctx.get_broadcast_state(RULES).items()))


@program([(key, sum(range(key, 200, 6)), (("r", 4), ("s", 2))) for key in range(6)])
def rules_for_every_key(env):
    rules = env.from_collection([("r", 1), ("s", 2), ("r", 3)]).broadcast(RULES)
    return clock(env, 199).key_by(lambda number: number % 6).connect(rules).process(Judge())


class Counted(FlatMapFunction, CheckpointedFunction):
    """Numbers the records of its subtask in operator state."""

    def initialize_state(self, context):
        self.seen = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen"))

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def snapshot_state(self, context):
        pass

    def flat_map(self, value):
        self.seen.add(value)
        yield self.subtask, len(self.seen.get()), value


def numbered_without_a_gap(records):
    each = in_order_per_key(records).values()
    return all([n for _, n, _ in mine] == [*range(1, len(mine) + 1)] for mine in each), sorted(r[2] for r in records)


@program(lambda: (True, [*range(1, 301)]), numbered_without_a_gap)
def operator_state_belongs_to_a_subtask(env):
    return numbers(env, 1, 300).rebalance().flat_map(Counted())
