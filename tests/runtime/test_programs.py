"""Random programs in the local runner against plain lists: no parallelism, chaining or block size changes what comes out."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from funken import (
    Configuration,
    NumberSequenceSource,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)


@dataclass(frozen=True)
class Step:
    """One operator: its kind, a small number that it uses, and which earlier streams it reads."""

    kind: str
    number: int
    first: int
    second: int
    parallelism: int | None


STEPS = st.builds(
    Step,
    st.sampled_from(
        ["map", "filter", "flat_map", "union", "count", "sum", "rebalance", "rescale", "shuffle", "global"]
    ),
    st.integers(2, 7),
    st.integers(0, 100),
    st.integers(0, 100),
    st.none() | st.integers(1, 4),
)


def expected(step, first, second, batch):
    """What a step makes of lists."""
    n = step.number
    match step.kind:
        case "map":
            return [value * n + 1 for value in first]
        case "filter":
            return [value for value in first if value % n]
        case "flat_map":
            return [copy for value in first for copy in [value] * (value % n)]
        case "union":
            return first + second
        case "count" | "sum":
            groups = defaultdict(list)
            for value in first:
                groups[value % n].append(value % n + 1 if step.kind == "count" or not batch else value)
            if batch:
                return [sum(group) for group in groups.values()]
            return [sum(group[: end + 1]) for group in groups.values() for end in range(len(group))]
        case _:
            return first


def build(step, first, second, batch):
    """The same as a stream."""
    n = step.number
    match step.kind:
        case "map":
            made = first.map(lambda value: value * n + 1)
        case "filter":
            made = first.filter(lambda value: value % n)
        case "flat_map":
            made = first.flat_map(lambda value: [value] * (value % n))
        case "union":
            made = first.union(second).map(lambda value: value)
        case "count" | "sum":
            if step.kind == "count" or not batch:  # equal values of a key, so that running sums know no order
                first = first.map(lambda value: value % n + 1)
                made = first.key_by(lambda value: value).reduce(lambda a, b: a + b)
            else:
                made = first.key_by(lambda value: value % n).reduce(lambda a, b: a + b)
        case _:
            spread = {"global": "global_"}.get(step.kind, step.kind)
            made = getattr(first, spread)().map(lambda value: value)
    return made.set_parallelism(step.parallelism) if step.parallelism else made


@given(
    st.lists(STEPS, min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 60)), min_size=1, max_size=2),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([1, 2, 7, 100, 2000]),
    st.booleans(),
)
def test_a_random_program_gives_what_lists_give(steps, sources, parallelism, chaining, block, batch):
    options = {
        "execution.target": "local",
        "parallelism.default": parallelism,
        "pipeline.operator-chaining.enabled": chaining,
        "execution.block.records": block,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    lists, streams = [], []
    for first, count in sources:
        lists.append([*range(first, first + count + 1)])
        source = NumberSequenceSource(first, first + count)
        streams.append(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers"))
    for step in steps:
        first, second = step.first % len(streams), step.second % len(streams)
        made = expected(step, lists[first], lists[second], batch)
        if len(made) > 2_000:
            continue
        lists.append(made)
        streams.append(build(step, streams[first], streams[second], batch))
    everything = streams[0].map(lambda value: (0, value))
    for number, stream in enumerate(streams[1:], 1):
        everything = everything.union(stream.map(lambda value, number=number: (number, value)))

    with everything.execute_and_collect() as records:
        found = Counter(records)

    assert found == Counter((number, value) for number, values in enumerate(lists) for value in values)
