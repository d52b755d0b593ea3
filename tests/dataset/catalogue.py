"""Programs whose result must not depend on where they run: each is a function from an environment to a data set."""

from funken import MapFunction
from funken.dataset import Aggregations, CombineHint, JoinHint, LongSumAggregator
from tests.dataset.programs import pairs

LEFT, RIGHT = pairs(3000, 400, seed=1, width=20), pairs(700, 500, seed=2, width=20)
EDGES = [(n, (n * 7 + 3) % 60) for n in range(60)] + [(n, n + 1) for n in range(59) if n % 10 != 9]


class AddTotal(MapFunction):
    """Adds the sum of a broadcast set, and counts."""

    def open(self, runtime_context):
        self.total = sum(runtime_context.get_broadcast_variable("numbers"))
        self.seen = runtime_context.get_int_counter("seen")

    def map(self, value):
        self.seen.add(1)
        return value[0], self.total


class CountSteps(MapFunction):
    """Adds one per superstep, and to the aggregator."""

    def open(self, context):
        self.sum = context.get_iteration_aggregator("sum")
        self.before = context.get_previous_iteration_aggregate("sum")

    def map(self, value):
        self.sum.aggregate(1)
        return value[0], value[1] + 1, self.before


def records(env):
    data = env.from_collection(LEFT).map(lambda r: (r[0], r[1] * 2, r[2])).filter(lambda r: r[1] % 3)
    return data.flat_map(lambda r: [r] * (r[0] % 3)).rebalance().project(1, 0)


def reduced(hint):
    return lambda env: (
        env.from_collection(LEFT).group_by(0).reduce(lambda a, b: (a[0], a[1] + b[1], max(a[2], b[2])), hint)
    )


def aggregated(env):
    return env.from_collection(LEFT).project(0, 1).group_by(0).aggregate(Aggregations.SUM, 1)


def whole(env):
    return env.from_collection(LEFT).project(1).sum(0)


def sorted_groups(env):
    return env.from_collection(LEFT).group_by(0).sort_group(1, descending=True).first(2)


def joined(hint):
    return lambda env: env.from_collection(LEFT).join(env.from_collection(RIGHT), hint).where(0).equal_to(0)


def outer(env):
    sides = env.from_collection(LEFT).full_outer_join(env.from_collection(RIGHT)).where(0).equal_to(0)
    return sides.using(lambda one, other: (one and one[1], other and other[1]))


def grouped_together(env):
    sides = env.from_collection(LEFT).co_group(env.from_collection(RIGHT)).where(0).equal_to(0)
    return sides.using(lambda ones, others: [(sum(1 for _ in ones), sum(1 for _ in others))])


def crossed(env):
    return env.from_collection(range(40)).cross(env.from_collection(range(30)))


def united(env):
    numbers = env.from_collection([record[0] for record in LEFT])
    return numbers.union(numbers.map(lambda n: -n)).distinct()


def diamond(env):
    numbers = env.from_collection(LEFT).partition_by_hash(0)
    best = numbers.group_by(0).max_by(1)
    return numbers.join(best).where(0).equal_to(0).using(lambda one, other: (one[1], other[1]))


def broadcast(env):
    numbers = env.from_collection(range(100)).rebalance()
    return env.from_collection(LEFT).rebalance().map(AddTotal()).with_broadcast_set(numbers, "numbers")


def in_order(env):
    return env.from_collection(LEFT).map(lambda r: (r[1] % 97, r[1])).partition_by_range(0).sort_partition(0).project(0)


def numbered(env):
    return env.from_collection(LEFT).zip_with_index().map(lambda pair: (pair[0], pair[1][1]))


def counted(env):
    start = env.from_collection([(n, 0, None) for n in range(20)]).iterate(7)
    start.register_aggregator("sum", LongSumAggregator())
    return start.close_with(start.partition_by_hash(0).map(CountSteps()))


def terminated(env):
    start = env.from_collection(range(1, 6)).iterate(50)
    following = start.rebalance().map(lambda n: n + 1)
    return start.close_with(following, following.filter(lambda n: n < 12))


def lower(offer, label):
    if offer[1] < label[1]:
        yield offer


def components(env, change=lambda changes: changes):
    both = env.from_collection(EDGES).flat_map(lambda edge: [edge, edge[::-1]])
    labels = env.from_collection([(vertex, vertex) for vertex in range(60)])
    iteration = labels.iterate_delta(labels, 100, 0)
    offers = iteration.get_workset().join(both).where(0).equal_to(0).using(lambda label, edge: (edge[1], label[1]))
    best = offers.group_by(0).min(1)
    changes = change(best.join(iteration.get_solution_set()).where(0).equal_to(0).using(lower))
    return iteration.close_with(changes, changes)


CATALOGUE = {
    "records": records,
    "reduced by sorting": reduced(CombineHint.SORT),
    "reduced by hashing": reduced(CombineHint.HASH),
    "aggregated": aggregated,
    "whole": whole,
    "sorted groups": sorted_groups,
    "join, broadcast": joined(JoinHint.BROADCAST_HASH_SECOND),
    "join, hash": joined(JoinHint.REPARTITION_HASH_FIRST),
    "join, merge": joined(JoinHint.REPARTITION_SORT_MERGE),
    "outer": outer,
    "co-group": grouped_together,
    "cross": crossed,
    "union": united,
    "diamond": diamond,
    "broadcast set": broadcast,
    "range": in_order,
    "index": numbered,
    "bulk iteration": counted,
    "termination": terminated,
    "delta iteration": components,
}

ORDERED = {"range", "index"}
"""Programs whose result has an order."""
