"""Operators of bounded queries: results come once, at the end, and are those of the operators of streams."""

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from funken.expr.ir import Call, InputRef
from funken.expr.sql.decimals import of_unscaled, unscaled
from funken.expr.sql.types import BigIntType, BooleanType, DecimalType, VarCharType
from funken.table.logical import AggregateCall, JoinType, SortKey
from funken.table.runtime.batch import BatchGroupAggregate, BatchJoin, BatchRank
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.group import GroupAggregate
from funken.table.runtime.joins import RegularJoin
from tests.table.runtime.changelogs import Run, materialized, schema

SIDE = schema("k:s v:i")
BOTH = BlockSchema(["k", "v", "k0", "v0"], [VarCharType(9), BigIntType(), VarCharType(9), BigIntType()])
LESS = Call("<", (InputRef(1, type=BigIntType()), InputRef(3, type=BigIntType())), type=BooleanType())


def rows_of(dice, count, keys=6):
    """Random insertions."""
    names = [*"abcdefgh"[:keys], "N"]
    return " ".join(f"+I({dice.choice(names)},{dice.choice([*range(9), 'N'])})" for _ in range(count))


def ended(run):
    return materialized(run.watermark((1 << 63) - 1).changes)


@pytest.mark.parametrize("kind", JoinType)
@pytest.mark.parametrize("condition", [None, LESS])
@pytest.mark.parametrize("seed", range(4))
def test_a_join_gives_what_that_of_streams_leaves(kind, condition, seed):
    dice = random.Random(seed)
    exists = kind in (JoinType.SEMI, JoinType.ANTI)
    arguments = {"kind": kind, "keys": ((0,), (0,)), "condition": condition, "null_safe": (seed % 2 == 1,)}
    output = SIDE if exists else BOTH
    batch, stream = (Run(logic, [SIDE, SIDE], output, **arguments) for logic in (BatchJoin, RegularJoin))
    for step in range(6):
        text, side = rows_of(dice, dice.choice([0, 3, 40])), dice.randrange(2)
        for run in (batch, stream):
            run.feed(text, side, one_by_one=False)
        if step == 3:
            batch.again()
    assert not batch.changes
    expected = materialized(stream.changes)

    assert ended(batch) == expected
    assert {kind for kind, _ in batch.changes} <= {0}


def test_a_join_without_keys_crosses_its_sides():
    run = Run(BatchJoin, [SIDE, SIDE], BOTH, kind=JoinType.INNER, keys=((), ()))
    run.feed("+I(a,1) +I(b,2)").feed("+I(c,3)", 1)

    assert ended(run) == {("a", 1, "c", 3): 1, ("b", 2, "c", 3): 1}


CALLS = (
    AggregateCall("COUNT", (), BigIntType(is_nullable=False)),
    AggregateCall("SUM", (1,), BigIntType()),
    AggregateCall("MIN", (1,), BigIntType()),
    AggregateCall("AVG", (1,), BigIntType()),
)
DISTINCT = (*CALLS, AggregateCall("COUNT", (1,), BigIntType(is_nullable=False), distinct=True))


@pytest.mark.parametrize("calls", [CALLS, DISTINCT, ()])
@pytest.mark.parametrize("keys", [(0,), ()])
def test_groups_are_those_of_streams(calls, keys):
    dice = random.Random(len(calls) + len(keys))
    output = BlockSchema(
        [f"c{place}" for place in range(len(keys) + len(calls))],
        [*(SIDE.types[place] for place in keys), *(call.type for call in calls)],
    )
    batch = Run(BatchGroupAggregate, [SIDE], output, keys=keys, calls=calls)
    stream = Run(GroupAggregate, [SIDE], output, keys=keys, calls=calls, retracts=False, update_before=True)
    for step in range(5):
        text = rows_of(dice, 50)
        for run in (batch, stream):
            run.feed(text, one_by_one=False)
        if step == 2:
            batch.again()
    assert not batch.changes

    assert ended(batch) == materialized(stream.changes)


def test_a_global_aggregate_of_no_rows_has_a_result():
    run = Run(BatchGroupAggregate, [SIDE], schema("n:i"), keys=(), calls=CALLS[:1], result_of_nothing=True)

    assert ended(run) == {(0,): 1}


NUMBERS = [Decimal("1.25"), Decimal("-7.50"), None, Decimal("9999999999.99"), Decimal("0.01")]


@pytest.mark.parametrize("precision", [12, 38])
@pytest.mark.parametrize("name", ["SUM", "SUM0", "AVG", "MIN", "MAX"])
def test_decimals_are_added_exactly(name, precision):
    kind = DecimalType(precision, 2)
    result = {"SUM": DecimalType(38, 2), "SUM0": DecimalType(38, 2), "AVG": DecimalType(38, 6)}.get(name, kind)
    calls = (AggregateCall(name, (1,), result),)
    table = BlockSchema(["k", "d"], [VarCharType(9), kind])
    output = BlockSchema(["k", "r"], [VarCharType(9), result])
    numbers = NUMBERS if precision == 12 else [*NUMBERS, Decimal("9" * 35 + ".99"), Decimal("9" * 36 + ".99")]
    dice = random.Random(name)
    batch = Run(BatchGroupAggregate, [table], output, keys=(0,), calls=calls)
    stream = Run(GroupAggregate, [table], output, keys=(0,), calls=calls, retracts=False, update_before=True)
    for step in range(4):
        rows = [(dice.choice("xyz"), dice.choice(numbers)) for _ in range(20)] + [("only null", None)]
        for run in (batch, stream):
            run.harness.operator.process_block(table.block(rows))
        if step == 1:
            batch.again()

    assert ended(batch) == materialized(stream.changes)


def test_unscaled_values_are_those_of_a_slice():
    column = pa.array([Decimal("1.5"), None, Decimal("-2"), Decimal(10) ** 30], pa.decimal128(38, 2))

    assert unscaled(column.slice(1, 2)).tolist() == [0, -200]
    assert unscaled(column).tolist() == [150, 0, -200, 10**32]
    assert of_unscaled(unscaled(column), pa.decimal256(76, 2)).to_pylist()[3] == Decimal(10) ** 30


@pytest.mark.parametrize("order", [(), (SortKey(1),), (SortKey(1, ascending=False, nulls_first=False), SortKey(0))])
@pytest.mark.parametrize(("start", "end"), [(1, None), (1, 3), (2, 5), (1, 0)])
@pytest.mark.parametrize("partition", [(), (0,)])
def test_ranks_are_positions_in_order(order, start, end, partition):
    dice = random.Random(repr((order, start, end)))
    number = bool(partition)
    output = schema("k:s v:i n:i") if number else SIDE
    run = Run(BatchRank, [SIDE], output, order=order, partition=partition, start=start, end=end, number=number)
    rows = []
    for step in range(4):
        some = [(dice.choice(["a", "b", None]), dice.choice([1, 2, 3, None])) for _ in range(30)]
        rows += some
        run.harness.operator.process_block(SIDE.block(some))
        if step == 1 and not partition and order == ():
            run.again()
    assert not run.changes
    run.watermark((1 << 63) - 1)
    found = [row for _, row in run.changes]

    def compared(row):
        keys = []
        for key in order:
            value = row[key.index]
            if value is None:
                keys.append((0 if key.nulls_first else 2, ""))
            else:
                keys.append((1, value if key.ascending else -value))
        return keys

    expected = []
    for part in dict.fromkeys(row[0] for row in rows) if partition else [None]:
        some = sorted((row for row in rows if not partition or row[0] == part), key=compared)
        chosen = some[start - 1 : end]
        expected += [(*row, start + at) for at, row in enumerate(chosen)] if number else chosen
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    if not partition:
        assert [compared(row) for row in found] == [compared(row) for row in expected]


@pytest.mark.parametrize("kind", JoinType)
@pytest.mark.parametrize("side", [0, 1])
def test_a_join_with_an_empty_side(kind, side):
    output = SIDE if kind in (JoinType.SEMI, JoinType.ANTI) else BOTH
    batch, stream = (
        Run(logic, [SIDE, SIDE], output, kind=kind, keys=((0,), (0,))) for logic in (BatchJoin, RegularJoin)
    )
    for run in (batch, stream):
        run.feed("+I(a,1) +I(N,2)", side)

    assert ended(batch) == materialized(stream.changes)
