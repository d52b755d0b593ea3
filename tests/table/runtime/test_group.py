"""GROUP BY over changelogs: what each row changes, bundles, and the final rows of random changelogs."""

import random

import pytest

from funken.expr.sql.types import BigIntType, BooleanType, VarCharType
from funken.table.logical import AggregateCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.group import Bundle, GroupAggregate
from funken.table.runtime.sink import FinalRows
from tests.table.runtime.changelogs import Run, materialized, parse, schema

KV = schema("k:s v:i")
S8 = "+I(a,3) +I(a,5) +I(b,7) -U(a,5) +U(a,4) -D(a,3) -U(a,4) +U(b,4) -D(b,7) -D(b,4)"
COUNT = AggregateCall("COUNT", (), BigIntType(is_nullable=False))
COUNT_V = AggregateCall("COUNT", (1,), BigIntType(is_nullable=False))
SUM = AggregateCall("SUM", (1,), BigIntType())
MIN = AggregateCall("MIN", (1,), BigIntType())
MAX = AggregateCall("MAX", (1,), BigIntType())
DISTINCT = AggregateCall("COUNT", (1,), BigIntType(is_nullable=False), distinct=True)
SUM_DISTINCT = AggregateCall("SUM", (1,), BigIntType(), distinct=True)


def group(calls, keys=(0,), retracts=True, **arguments):
    types = [*(KV.types[key] for key in keys), *(call.type for call in calls)]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    given = {"update_before": True} | arguments
    return Run(GroupAggregate, [KV], output, keys=keys, calls=calls, retracts=retracts, **given)


def play(run, text):
    changes = text.split()
    half = len(changes) // 2
    return run.feed(" ".join(changes[:half])).again().feed(" ".join(changes[half:])).text()


CASES = [
    (
        (COUNT, SUM, MIN, MAX), {}, S8,
        "+I(a,1,3,3,3) -U(a,1,3,3,3) +U(a,2,8,3,5) +I(b,1,7,7,7) -U(a,2,8,3,5) +U(a,1,3,3,3) -U(a,1,3,3,3) +U(a,2,7,3,4) "
        "-U(a,2,7,3,4) +U(a,1,4,4,4) -D(a,1,4,4,4) -U(b,1,7,7,7) +U(b,2,11,4,7) -U(b,2,11,4,7) +U(b,1,4,4,4) -D(b,1,4,4,4)",
    ),
    (
        (COUNT, SUM, MAX), {"keys": ()}, S8,
        "+I(1,3,3) -U(1,3,3) +U(2,8,5) -U(2,8,5) +U(3,15,7) -U(3,15,7) +U(2,10,7) -U(2,10,7) +U(3,14,7) -U(3,14,7) "
        "+U(2,11,7) -U(2,11,7) +U(1,7,7) -U(1,7,7) +U(2,11,7) -U(2,11,7) +U(1,4,4) -D(1,4,4)",
    ),
    (
        (DISTINCT, SUM_DISTINCT), {}, S8,
        "+I(a,1,3) -U(a,1,3) +U(a,2,8) +I(b,1,7) -U(a,2,8) +U(a,1,3) -U(a,1,3) +U(a,2,7) -U(a,2,7) +U(a,1,4) -D(a,1,4) "
        "-U(b,1,7) +U(b,2,11) -U(b,2,11) +U(b,1,4) -D(b,1,4)",
    ),
    ((DISTINCT,), {}, "+I(a,1) +I(a,1) +I(a,2) -D(a,1) -D(a,1)", "+I(a,1) -U(a,1) +U(a,2) -U(a,2) +U(a,1)"),
    ((), {}, S8, "+I(a) +I(b) -D(a) -D(b)"),
    (
        (MAX,), {}, "+I(a,1) +I(a,1) +I(a,2) -U(a,2) +U(a,3)",
        "+I(a,1) -U(a,1) +U(a,2) -U(a,2) +U(a,1) -U(a,1) +U(a,3)",
    ),
    (
        (SUM, COUNT_V, MAX), {}, "+I(a,1) +I(a,N) -D(a,1) -D(a,N)",
        "+I(a,1,1,1) -U(a,1,1,1) +U(a,N,0,N) -D(a,N,0,N)",
    ),
    ((COUNT, SUM), {}, "-D(a,1) +I(a,1) +I(a,2)", "+I(a,1,1) -U(a,1,1) +U(a,2,3)"),
    (
        (COUNT, MAX), {"retracts": False}, "+I(a,1) +I(a,5) +I(b,2) +I(a,3) +I(a,4)",
        "+I(a,1,1) -U(a,1,1) +U(a,2,5) +I(b,1,2) -U(a,2,5) +U(a,3,5) -U(a,3,5) +U(a,4,5)",
    ),
    (
        (COUNT, SUM), {"update_before": False}, "+I(a,1) +I(a,2) -D(a,1)",
        "+I(a,1,1) +U(a,2,3) +U(a,1,2)",
    ),
    ((COUNT,), {}, "+I(N,1) +I(N,2) -D(N,1) -D(N,2)", "+I(N,1) -U(N,1) +U(N,2) -U(N,2) +U(N,1) -D(N,1)"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_each_row_changes_its_group(case):
    calls, arguments, changes, expected = CASES[case]
    assert play(group(calls, **arguments), changes) == expected


def test_only_rows_that_pass_the_filter_are_aggregated():
    source = BlockSchema(["k", "flag"], [VarCharType(9), BooleanType()])
    call = AggregateCall("COUNT", (), BigIntType(is_nullable=False), filter=1)
    run = Run(
        GroupAggregate, [source], BlockSchema(["k", "n"], [VarCharType(9), BigIntType()]), keys=(0,), calls=(call,),
        retracts=True, update_before=True,
    )  # fmt: skip
    rows = [("a", False), ("a", True), ("a", None), ("a", True), ("a", True)]
    run.harness.operator.process_block(source.block(rows, [0, 0, 0, 0, 3]))
    assert run.text() == "+I(a,0) -U(a,0) +U(a,1) -U(a,1) +U(a,2) -U(a,2) +U(a,1)"


def test_with_a_lifetime_equal_results_are_emitted_again():
    run = group((MAX,), retracts=False, ttl=10_000)
    assert run.feed("+I(a,1) +I(a,1) +I(a,0)").text() == "+I(a,1) -U(a,1) +U(a,1) -U(a,1) +U(a,1)"
    run.clock(10_000)
    assert run.feed("+I(a,0)").text() == "+I(a,0)"


@pytest.mark.parametrize(
    ("changes", "calls", "expected"),
    [
        (S8, (COUNT, SUM), ""),
        (" ".join(S8.split()[:5]), (COUNT, SUM), "+I(a,2,7) +I(b,1,7)"),
        ("+I(a,3) +I(a,5) +I(b,7)", (MAX,), "+I(a,5) +I(b,7)"),
    ],
)
def test_a_bundle_changes_each_group_once(changes, calls, expected):
    run = group(calls, bundle=Bundle(100, 1000)).feed(changes)
    assert run.text() == ""
    run.clock(1000)
    assert run.text() == expected


def test_a_bundle_ends_when_it_is_full_and_at_a_barrier():
    run = group((COUNT,), bundle=Bundle(2, 1000)).feed("+I(a,1) +I(a,2) +I(a,3)")
    assert run.text() == "+I(a,2)"
    run.again()
    assert run.text() == "-U(a,2) +U(a,3)"


def test_a_bundle_is_due_by_its_first_row():
    run = group((COUNT,), bundle=Bundle(100, 1000)).feed("+I(a,1)").clock(600).feed("+I(a,2)").clock(999)
    assert run.text() == ""
    assert run.clock(1000).text() == "+I(a,2)"
    assert run.feed("+I(a,3)").clock(1999).text() == ""
    assert run.clock(2000).text() == "-U(a,2) +U(a,3)"


def test_a_bounded_query_emits_results_once_and_that_of_nothing():
    run = group((COUNT, SUM), bundle=Bundle(0, 0)).feed(S8.replace("-D(b,4)", ""))
    assert run.text() == ""
    assert run.end().text() == "+I(b,1,4)"
    nothing = group((COUNT, SUM), keys=(), bundle=Bundle(0, 0), result_of_nothing=True)
    assert nothing.end().text() == "+I(0,N)"
    something = group((COUNT, SUM), keys=(), bundle=Bundle(0, 0), result_of_nothing=True).feed("+I(a,3)")
    assert something.end().text() == "+I(1,3)"


@pytest.mark.parametrize("seed", range(10))
def test_random_changes_leave_the_results_of_the_rows(seed):
    chance = random.Random(seed)
    run, rows = group((COUNT, SUM, MIN, MAX, DISTINCT)), []
    for step in range(80):
        if rows and chance.random() < 0.45:
            change = f"-D({rows.pop(chance.randrange(len(rows)))})"
        else:
            rows.append(f"{chance.choice('abN')},{chance.choice('12345N')}")
            change = f"+I({rows[-1]})"
        run.feed(change)
        if step == 40:
            run.again()
    expected = {}
    values = [parse(f"+I({row})")[0][1] for row in rows]
    for key in {row[0] for row in values}:
        found = [value for other, value in values if other == key and value is not None]
        count = sum(other == key for other, _ in values)
        row = (
            (key, count, sum(found), min(found), max(found), len(set(found)))
            if found
            else (key, count, None, None, None, 0)
        )
        expected[row] = 1
    assert materialized(run.changes) == expected


def test_final_rows_are_those_that_are_left():
    run = Run(FinalRows, [KV], KV, keys=()).feed("+I(a,1) +I(a,1) +I(b,2) -D(a,1) -U(b,2) +U(b,3)").again()
    assert run.end().text() == "+I(a,1) +I(b,3)"
    keyed = Run(FinalRows, [KV], KV, keys=(0,)).feed("+I(a,1) +U(a,2) +I(b,2) -D(b,N) -U(a,1) +I(c,1) -U(c,1)")
    assert keyed.end().text() == "+I(a,2)"
