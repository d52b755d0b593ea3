"""A reduce in BATCH: columns, in the order in which they come, give what records give that are sorted by time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy

REDUCES = {
    "sum": lambda a, b: (a[0], a[1] + b[1], a[2]),
    "least": lambda a, b: (a[0], min(a[1], b[1]), a[2]),
    "greatest and sum": lambda a, b: (a[0], max(a[1], b[1]), a[2]),
    "the key of the later record": lambda a, b: (b[0], a[1] + b[1], b[2]),
}
SHOW_ORDER = {
    "keeps the first": lambda a, b: a,
    "keeps the last": lambda a, b: (a[0], b[1], a[2]),
    "takes the record of the greatest": lambda a, b: b if b[1] > a[1] else a,
    "begins with something else": lambda a, b: (a[0], a[1] + 1, a[2]),
}
BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[3])


def results(reduce, numbers, vectorized=True, stamped=True, fold=True, text=False, parallelism=2):
    """Run the program in BATCH; return (result, timestamp), what was decided about the reduce, and about its exchange."""
    factor, keys, stride, span, size = numbers
    conf = Configuration({"execution.runtime-mode": "batch", "pipeline.vectorized": vectorized})
    conf.set("pipeline.pre-aggregation", fold)
    env = StreamExecutionEnvironment.create_local_environment(parallelism, conf)
    if text:
        source = DataGeneratorSource(lambda i: (f"k{i * factor % keys}", i * i % 11 - 5, 7, i * stride % span), size)
    else:
        source = DataGeneratorSource(lambda i: (i * factor % keys, i * i % 11 - 5, 7, i * stride % span), size)
    records = env.from_source(source, BY_TIME if stamped else WatermarkStrategy.no_watermarks(), "records")
    triples = records.map(lambda record: (record[0], record[1], record[0]))
    stream = triples.key_by(lambda triple: (triple[0], triple[2])).reduce(reduce).name("reduce")
    stream = stream.process(lambda value, ctx: [(value, ctx.timestamp())])
    plan = env.compile()
    [node] = [node for node in plan.nodes if node.name == "reduce"]
    decided = plan.decided("columns", node.id), plan.decided("pre-aggregation", node.id)
    with stream.execute_and_collect() as found:
        return sorted(found, key=repr), *decided


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", list(REDUCES))
@settings(max_examples=5, deadline=None)
@given(
    numbers=st.tuples(
        st.integers(1, 50), st.integers(1, 40), st.integers(1, 997), st.integers(1, 5000), st.integers(1, 3000)
    ),
    stamped=st.booleans(),
)
def test_columns_give_what_sorted_records_give(name, text, numbers, stamped):
    columns, on_columns, folded = results(REDUCES[name], numbers, stamped=stamped, text=text)
    apart, _, not_folded = results(REDUCES[name], numbers, stamped=stamped, text=text, fold=False)
    records, in_rows, _ = results(REDUCES[name], numbers, vectorized=False, stamped=stamped, text=text)

    assert on_columns == "vectorized" != in_rows
    assert folded == "before the exchange" != not_folded
    assert columns == apart == records != []


@pytest.mark.parametrize("name", list(SHOW_ORDER))
def test_what_shows_the_order_of_records_is_sorted(name):
    numbers = (7, 13, 391, 4000, 2000)
    found, _, folded = results(SHOW_ORDER[name], numbers)

    assert found == results(SHOW_ORDER[name], numbers, vectorized=False)[0]
    assert folded != "before the exchange"


@pytest.mark.parametrize("fold", [True, False])
def test_sums_that_leave_64_bits_are_pythons(fold):
    conf = Configuration({"execution.runtime-mode": "batch", "pipeline.pre-aggregation": fold})
    env = StreamExecutionEnvironment.create_local_environment(2, conf)
    source = DataGeneratorSource(lambda i: (i % 3, i * 10**14), 20_000)
    pairs = env.from_source(source, WatermarkStrategy.no_watermarks(), "pairs")
    stream = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    with stream.execute_and_collect() as found:
        assert sorted(found) == [(key, sum(range(key, 20_000, 3)) * 10**14) for key in range(3)]


@pytest.mark.parametrize("vectorized", [True, False])
def test_a_reduce_of_the_results_of_a_reduce(vectorized):
    conf = Configuration({"execution.runtime-mode": "batch", "pipeline.vectorized": vectorized})
    env = StreamExecutionEnvironment.create_local_environment(2, conf)
    source = DataGeneratorSource(lambda i: (i % 30, i, i % 700), 5000)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[2])
    pairs = env.from_source(source, by_time, "records").map(lambda record: (record[0], record[1]))
    sums = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    again = sums.map(lambda pair: (pair[0] % 4, pair[1])).key_by(lambda pair: pair[0])
    with again.reduce(lambda a, b: (a[0], a[1] + b[1])).execute_and_collect() as found:
        assert sorted(found) == [(part, sum(i for i in range(5000) if i % 30 % 4 == part)) for part in range(4)]
