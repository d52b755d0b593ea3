"""A running reduce that keeps the greatest or least record by several values: columns give and keep what records do."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import Configuration, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.columnar.declared import reduce_folds
from funken.columnar.kernels.columns import columns_of
from funken.connectors.files.arrow_files import ParquetFormat
from funken.expr.types import INT, STR, Tuple
from funken.testing.harness import OperatorHarness


class Bid(NamedTuple):
    auction: int
    price: int
    channel: str


def latest(bid):
    return bid.price, bid.channel


FUNCTIONS = {
    "a function": lambda a, b: max(a, b, key=latest),
    "least": lambda a, b: min(a, b, key=latest),
    "a lambda": lambda a, b: max(a, b, key=lambda bid: (-bid.price, bid.channel)),
    "one text": lambda a, b: min(a, b, key=lambda bid: bid.channel),
    "one int": lambda a, b: max(a, b, key=lambda bid: bid.price),
    "turned": lambda a, b: max(b, a, key=lambda bid: (bid.channel, bid.price)),
    "compared": lambda a, b: b if (b.channel, b.price) > (a.channel, a.price) else a,
    "the whole record": lambda a, b: max(a, b, key=lambda bid: (bid.auction, bid.price, bid.channel)),
}
TEXTS = st.sampled_from(["", "a", "A", "é", "z", "zz", "𝄞", "\ufb01", "\uffff"])  # by code point, not by UTF-16
BIDS = st.builds(Bid, st.integers(0, 2), st.integers(-2, 2) | st.sampled_from([2**63 - 1, -(2**63)]), TEXTS)


def planned(function, vectorized):
    """Return the operator of a running reduce over a file of bids, with what explain() says of it."""
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    source = FileSource.for_bulk_file_format(ParquetFormat(Bid), "/never/opened").build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "bids").key_by(lambda bid: bid.auction)
    stream.reduce(function).map(tuple).print()
    plan = env.compile()
    nodes = {node.name: node for node in plan.nodes}
    return nodes["reduce"].spec, [plan.decided("columns", nodes[name].id) for name in ("reduce", "map")]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "turned"])
@settings(max_examples=60, deadline=None)
@given(
    blocks=st.lists(
        st.tuples(st.lists(BIDS, min_size=1, max_size=12), st.sampled_from(["columns"] * 4 + ["rows", "restore"]))
    )
)
def test_columns_give_and_keep_what_records_do(name, blocks):
    spec, decided = planned(FUNCTIONS[name], True)
    assert decided == ["vectorized", "vectorized"]
    shape = spec.schema
    results = []
    for path, each in (("columns", spec), ("rows", planned(FUNCTIONS[name], False)[0])):
        harness, given_out = OperatorHarness(each, keyed=True), []
        for bids, how in blocks:
            if path == "columns" and how != "rows":
                harness.operator.process_block(columns_of(bids, shape, [0] * len(bids)))
            else:
                harness.feed_block(bids, [0] * len(bids))
            if how == "restore":
                given_out += harness.output
                harness = OperatorHarness(each.build(), keyed=True, snapshots=[harness.snapshot()])
        kept = harness.snapshot()["keyed"]
        rows = [] if kept is None else sorted(repr(states) for states in kept.groups.values())
        results.append((list(map(repr, given_out + harness.output)), rows))

    assert results[0] == results[1]


SHAPE = Tuple((INT, INT, STR))


@pytest.mark.parametrize(
    ("function", "fold"),
    [
        (lambda a, b: max(a, b, key=lambda r: r[1]), "max_by"),
        (lambda a, b: min(a, b, key=lambda r: (r[1], r[2])), "min_of"),
        (lambda a, b: a if (a[1], a[2]) >= (b[1], b[2]) else b, "max_of"),
    ],
)
def test_it_is_one_fold_of_whole_records(function, fold):
    assert {each.how for each in reduce_folds(function, None, SHAPE)[1]} == {fold}


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: max(b, a, key=lambda r: (r[1], r[2])),  # of equal ones the last
        lambda a, b: a if (a[1], a[2]) > (b[1], b[2]) else b,
        lambda a, b: max(a, b, key=lambda r: (r[1], r[1] // r[0])),
        lambda a, b: b if (b[1], b[2]) > (a[2:] and (a[0], a[2])) else a,
        lambda a, b: max(a, b, key=len),
        lambda a, b: max(a, b, key=lambda r, n=1: (r[n], r[2])),
    ],
)
def test_what_keeps_another_one_of_equal_records_or_may_raise_is_left_to_python(function):
    with pytest.raises(Exception, match=r"chooses between|takes |calls |inner function|compares|gives sometimes"):
        reduce_folds(function, None, SHAPE)
