"""Sessions in BATCH: columns, in the order in which they come, give what records give that are sorted by key and time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    AggregateFunction,
    Configuration,
    DataGeneratorSource,
    EventTimeSessionWindows,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)


class Span(AggregateFunction):
    """How many, how much, and the least."""

    def create_accumulator(self):
        return (0, 0, 10**6)

    def add(self, value, so_far):
        return (so_far[0] + 1, so_far[1] + value[1], min(so_far[2], value[1]))

    def get_result(self, so_far):
        return so_far

    def merge(self, one, other):
        return (one[0] + other[0], one[1] + other[1], min(one[2], other[2]))


CONTENTS = {
    "reduce": lambda windows: windows.reduce(lambda a, b: (a[0], a[1] + b[1])),
    "aggregate": lambda windows: windows.aggregate(Span()),
    "with a window function": lambda windows: windows.aggregate(
        Span(), lambda key, window, spans: [(key, window.start, span[1], window.end) for span in spans]
    ),
}


def results(contents, numbers, gap, vectorized):
    """Run the program in BATCH; return its results, and whether its windows are on columns."""
    factor, keys, stride, span = numbers
    conf = Configuration({"execution.runtime-mode": "batch", "pipeline.vectorized": vectorized})
    env = StreamExecutionEnvironment.create_local_environment(2, conf)
    source = DataGeneratorSource(lambda i: (i * factor % keys, i * i % 11, i * stride % span), 200)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[2])
    records = env.from_source(source, by_time, "records").map(lambda record: (record[0], record[1]))
    keyed = records.key_by(lambda record: record[0])
    stream = contents(keyed.window(EventTimeSessionWindows.with_gap(gap)))
    plan = env.compile()
    path = next(plan.decided("columns", node.id) for node in plan.nodes if node.name.startswith("window"))
    with stream.execute_and_collect() as found:
        return sorted(found), path == "vectorized"


@pytest.mark.parametrize("name", list(CONTENTS))
@settings(max_examples=12, deadline=None)
@given(
    numbers=st.tuples(st.integers(1, 50), st.integers(1, 9), st.integers(1, 997), st.integers(1, 5000)),
    gap=st.integers(1, 60),
)
def test_columns_give_what_sorted_records_give(name, numbers, gap):
    columns, on_columns = results(CONTENTS[name], numbers, gap, True)
    records, in_rows = results(CONTENTS[name], numbers, gap, False)

    assert on_columns
    assert not in_rows
    assert columns == records != []


def test_what_shows_the_order_of_records_is_sorted_and_in_rows():
    for last in (
        lambda windows: windows.reduce(lambda a, b: b),
        lambda windows: windows.reduce(lambda a, b: (a[0], b[1])),
    ):
        found, on_columns = results(last, (7, 3, 13, 400), 5, True)
        assert not on_columns
        assert found == results(last, (7, 3, 13, 400), 5, False)[0]
