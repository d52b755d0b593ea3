"""Top-N, LIMIT, deduplication and sorting by time: their changelogs."""

import random
from collections import Counter

import pytest

from funken.expr.ir import Call, InputRef, Literal
from funken.expr.sql.types import BigIntType, BooleanType
from funken.table.logical import SortKey
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.changes import (
    ChangelogNormalize,
    DeduplicateByArrival,
    DeduplicateByTime,
    SinkMaterializer,
)
from funken.table.runtime.rank import Rank, TemporalSort
from tests.table.runtime.changelogs import Run, materialized, parse, schema

KV = schema("k:s v:i")
AP = "+I(a,1) +I(a,5) +I(b,2) +I(a,3) +I(a,4)"
S8 = "+I(a,3) +I(a,5) +I(b,7) -U(a,5) +U(a,4) -D(a,3) -U(a,4) +U(b,4) -D(b,7) -D(b,4)"
DESC = (SortKey(1, False, False),)
ASC = (SortKey(1, True, True),)


def rank(order=DESC, partition=(0,), start=1, end=2, number=False, strategy="append", source=KV, **arguments):
    output = BlockSchema([*source.names, "rn"], [*source.types, BigIntType()]) if number else source
    return Run(
        Rank, [source], output, partition=partition, order=order, start=start, end=end, number=number,
        strategy=strategy, **({"update_before": True} | arguments),
    )  # fmt: skip


def play(run, text):
    changes = text.split()
    half = len(changes) // 2
    return run.feed(" ".join(changes[:half])).again().feed(" ".join(changes[half:])).text()


CASES = [
    (rank, {}, AP, "+I(a,1) +I(a,5) +I(b,2) -D(a,1) +I(a,3) -D(a,3) +I(a,4)"),
    (
        rank, {"number": True}, AP,
        "+I(a,1,1) -U(a,1,1) +U(a,5,1) +I(a,1,2) +I(b,2,1) -U(a,1,2) +U(a,3,2) -U(a,3,2) +U(a,4,2)",
    ),
    (rank, {"end": 1}, AP, "+I(a,1) -U(a,1) +U(a,5) +I(b,2)"),
    (rank, {"start": 2, "number": True}, AP, "+I(a,1,2) -U(a,1,2) +U(a,3,2) -U(a,3,2) +U(a,4,2)"),
    (rank, {"number": True}, "+I(a,1) +I(a,1) +I(a,1)", "+I(a,1,1) +I(a,1,2)"),
    (
        rank, {"number": True, "strategy": "retract"}, "+I(a,1) +I(a,1) +I(a,2) -D(a,1) -D(a,2)",
        "+I(a,1,1) +I(a,1,2) -U(a,1,1) +U(a,2,1) -U(a,2,1) +U(a,1,1) -D(a,1,2)",
    ),
    (rank, {"number": True, "order": ASC}, "+I(a,N) +I(a,1) +I(a,2)", "+I(a,N,1) +I(a,1,2)"),
    (
        rank, {"number": True, "strategy": "retract"}, S8,
        "+I(a,3,1) -U(a,3,1) +U(a,5,1) +I(a,3,2) +I(b,7,1) -U(a,5,1) +U(a,3,1) -D(a,3,2) -U(a,3,1) +U(a,4,1) +I(a,3,2) "
        "-D(a,3,2) -D(a,4,1) +I(b,4,2) -U(b,7,1) +U(b,4,1) -D(b,4,2) -D(b,4,1)",
    ),
    (
        rank, {"end": 1, "strategy": "retract"}, S8,
        "+I(a,3) -D(a,3) +I(a,5) +I(b,7) -D(a,5) +I(a,3) -D(a,3) +I(a,4) -D(a,4) -D(b,7) +I(b,4) -D(b,4)",
    ),
    (rank, {"partition": ()}, AP, "+I(a,1) +I(a,5) -D(a,1) +I(b,2) -D(b,2) +I(a,3) -D(a,3) +I(a,4)"),
    (rank, {"partition": (), "order": ()}, AP, "+I(a,1) +I(a,5)"),
    (
        rank, {"partition": (), "order": ASC, "start": 2, "end": 3}, AP,
        "+I(a,5) -U(a,5) +U(b,2) +I(a,5) -U(a,5) +U(a,3)",
    ),
    (
        rank, {"partition": (), "number": True, "strategy": "update", "unique_key": (0,)},
        "+I(a,1) +U(a,2) +I(b,1) +U(a,3) +U(a,4)",
        "+I(a,1,1) -U(a,1,1) +U(a,2,1) +I(b,1,2) -U(a,2,1) +U(a,3,1) -U(a,3,1) +U(a,4,1)",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_rank_emits(case):
    make, arguments, changes, expected = CASES[case]
    assert play(make(**arguments), changes) == expected


@pytest.mark.parametrize("seed", range(10))
def test_random_changes_leave_the_first_rows(seed):
    chance = random.Random(seed)
    end, number = chance.randrange(1, 4), chance.random() < 0.5
    run, rows = rank(end=end, number=number, strategy="retract"), []
    for step in range(80):
        if rows and chance.random() < 0.4:
            change = f"-D({rows.pop(chance.randrange(len(rows)))})"
        else:
            rows.append(f"{chance.choice('ab')},{chance.randrange(1000)}")
            change = f"+I({rows[-1]})"
        run.feed(change)
        if step == 40:
            run.again()
    values = [parse(f"+I({row})")[0][1] for row in rows]
    expected = {}
    for key in "ab":
        best = sorted((row for row in values if row[0] == key), key=lambda row: -row[1])[:end]
        for place, row in enumerate(best):
            name = (*row, place + 1) if number else row
            expected[name] = expected.get(name, 0) + 1
    assert materialized(run.changes) == expected


def test_changelog_normalize_completes_deletes_and_drops_what_changes_nothing():
    run = Run(ChangelogNormalize, [KV], KV, keys=(0,), update_before=True)
    assert play(run, "+I(a,1) +U(a,2) +U(b,3) -D(a,N) +U(b,3) -D(zz,N)") == "+I(a,1) -U(a,1) +U(a,2) +I(b,3) -D(a,2)"


def test_a_row_that_no_longer_fulfils_the_condition_is_deleted():
    over_one = Call(">", (InputRef(1, type=BigIntType()), Literal(1, type=BigIntType())), type=BooleanType())
    run = Run(ChangelogNormalize, [KV], KV, keys=(0,), update_before=True, condition=over_one)
    assert play(run, "+I(a,1) +U(a,2) +U(a,1) +U(a,N) +U(a,3) -D(a,N)") == "+I(a,2) -D(a,2) +I(a,3) -D(a,3)"


def test_of_equal_rows_the_materializer_takes_the_last_back():
    run = Run(SinkMaterializer, [schema("id:i v:s")], schema("id:i v:s"), keys=(0,))
    changes = "+I(1,a) +I(1,b) +I(1,a) -D(1,a) -D(1,b)"
    assert play(run, changes) == "+I(1,a) +U(1,b) +U(1,a) +U(1,b) +U(1,a)"


def test_the_materializer_has_the_last_row_of_a_primary_key():
    run = Run(SinkMaterializer, [schema("id:i v:s")], schema("id:i v:s"), keys=(0,))
    changes = "+I(1,a) +I(1,b) -D(1,a) +I(1,c) -D(1,c) -D(1,b) -D(1,zz) +I(2,x) -U(2,x) +U(3,x)"
    assert play(run, changes) == "+I(1,a) +U(1,b) +U(1,c) +U(1,b) -D(1,b) +I(2,x) -D(2,x) +I(3,x)"


TIMED = schema("id:i k:s t:t")
ROWS = [(1, "a", 10), (2, "a", 8), (3, "a", 12), (4, "b", 11), (5, "a", 12), (6, "a", 3), (7, "a", 30), (8, "a", 20)]


def timed(run):
    """Feed the rows, each followed by the watermark of 5 s before it."""
    reached = 0
    for place, (number, key, time) in enumerate(ROWS):
        if place == len(ROWS) // 2:
            run.again()
        run.feed(f"+I({number},{key},@{time})")
        reached = max(reached, (time - 5) * 1000)
        run.watermark(reached)
    return run.end().text()


def test_the_first_row_by_time_is_emitted_once():
    run = Run(DeduplicateByTime, [TIMED], TIMED, keys=(1,), time=2, last=False, insert_only=True, update_before=False)
    assert timed(run) == "+I(2,a,@8) +I(4,b,@11)"
    once = Run(DeduplicateByTime, [TIMED], TIMED, keys=(1,), time=2, last=False, insert_only=True, update_before=False)
    assert once.feed("+I(1,a,@1)").watermark(2000).text() == "+I(1,a,@1)"
    assert once.again().feed("+I(2,a,@5)").end().text() == ""


def test_the_last_row_by_time_replaces_those_before():
    run = Run(DeduplicateByTime, [TIMED], TIMED, keys=(1,), time=2, last=True, insert_only=False, update_before=True)
    assert timed(run) == (
        "+I(1,a,@10) -U(1,a,@10) +U(3,a,@12) +I(4,b,@11) -U(3,a,@12) +U(5,a,@12) -U(5,a,@12) +U(7,a,@30)"
    )


@pytest.mark.parametrize(
    ("last", "expected"),
    [(False, "+I(a,1) +I(b,2)"), (True, "+I(a,1) -U(a,1) +U(a,5) +I(b,2) -U(a,5) +U(a,3) -U(a,3) +U(a,4)")],
)
def test_rows_are_deduplicated_by_arrival(last, expected):
    run = Run(DeduplicateByArrival, [KV], KV, keys=(0,), last=last, insert_only=not last, update_before=True)
    assert play(run, AP) == expected


def test_rows_are_sorted_by_time_and_further_keys():
    by_time = Run(TemporalSort, [TIMED], TIMED, order=(SortKey(2),), rowtime=True)
    assert timed(by_time) == (
        "+I(6,a,@3) +I(2,a,@8) +I(1,a,@10) +I(4,b,@11) +I(3,a,@12) +I(5,a,@12) +I(8,a,@20) +I(7,a,@30)"
    )
    by_both = Run(TemporalSort, [TIMED], TIMED, order=(SortKey(2), SortKey(0, False, False)), rowtime=True)
    assert "+I(5,a,@12) +I(3,a,@12)" in timed(by_both)


def test_rows_in_the_order_of_arrival_are_emitted_at_the_end_of_the_input():
    by_arrival = Run(TemporalSort, [TIMED], TIMED, now=5, order=(SortKey(2),), rowtime=False)
    by_arrival.feed("+I(1,a,@9)").again().feed("+I(2,a,@8)")
    assert by_arrival.text() == ""
    assert by_arrival.end().text() == "+I(1,a,@9) +I(2,a,@8)"


@pytest.mark.parametrize("before", [True, False])
def test_no_row_is_at_two_positions_that_are_not_shown(before):
    dice = random.Random(3)
    arguments = {"partition": (), "order": ASC, "start": 2, "end": 3, "strategy": "retract", "update_before": before}
    there, changes = [], []
    for number in range(60):
        if there and dice.random() < 0.4:
            changes.append(f"-D({there.pop(dice.randrange(len(there)))})")
        else:
            there.append(f"k{number},{dice.randrange(5)}")
            changes.append(f"+I({there[-1]})")
    seen = Counter()
    for text in play(rank(**arguments), " ".join(changes)).split():
        seen[text[2:]] += 1 if text[0] == "+" else -1
        assert set(seen.values()) <= {0, 1}
    assert seen.total() == min(2, max(0, len(there) - 1))
