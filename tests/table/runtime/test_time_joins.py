"""Joins of intervals, versions and windows, over watermarks."""

import pytest

from funken.expr.sql.types import BigIntType, TimestampType, VarCharType
from funken.table.logical import JoinType
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.time_joins import TableIntervalJoin, TableWindowJoin, TemporalJoin
from tests.table.runtime.changelogs import Run, materialized, schema

SIDE = schema("id:i k:s t:t")
BOTH = BlockSchema(
    ["id", "k", "t", "id0", "k0", "t0"],
    [BigIntType(), VarCharType(9), TimestampType(3), BigIntType(), VarCharType(9), TimestampType(3)],
)
LEFT = ["1,a,@1", "2,a,@5", "3,b,@6", "4,a,@20"]
RIGHT = ["11,a,@2", "12,a,@10", "13,c,@6", "14,a,@40"]


def side_by_side(run, left=LEFT, right=RIGHT):
    """Feed both sides in turns, with the watermark 2 s behind the slower one; restored in the middle."""
    reached = [0, 0]
    for place, rows in enumerate(zip(left, right, strict=True)):
        if place == len(left) // 2:
            run.again()
        for index, row in enumerate(rows):
            run.feed(f"+I({row})", index)
            reached[index] = max(reached[index], int(row.rpartition("@")[2]) * 1000 - 2000)
        run.watermark(min(reached))
    run.end()
    return run


def ids(run):
    return sorted((row[0], row[3]) for _, row in run.changes if len(row) > 3)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinType.INNER, [(1, 11), (2, 12)]),
        (JoinType.LEFT, [(1, 11), (2, 12), (3, None), (4, None)]),
        (JoinType.FULL, [(1, 11), (2, 12), (None, 13), (3, None), (4, None), (None, 14)]),
    ],
)
def test_rows_of_an_interval_meet(kind, expected):
    run = Run(
        TableIntervalJoin,
        [SIDE, SIDE],
        BOTH,
        kind=kind,
        keys=((1,), (1,)),
        times=(2, 2),
        bounds=(-5000, 0),
        rowtime=True,
    )
    side_by_side(run)
    found = [(row[0], row[3]) for _, row in run.changes]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {kind for kind, _ in run.changes} == {0}


def test_an_interval_join_forgets_what_cannot_meet_any_more():
    run = Run(
        TableIntervalJoin, [SIDE, SIDE], BOTH, kind=JoinType.INNER, keys=((1,), (1,)), times=(2, 2), bounds=(-5000, 5000),
        rowtime=True,
    )  # fmt: skip
    run.feed("+I(1,a,@10)").watermark(15_000).feed("+I(11,a,@15)", 1)
    assert run.text() == "+I(1,a,@10,11,a,@15)"
    run.watermark(15_001).feed("+I(12,a,@15)", 1)
    assert run.text() == ""
    assert run.harness.operator.store.own_entries == 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinType.INNER, {(2, 11), (4, 12)}),
        (JoinType.LEFT, {(1, None), (2, 11), (3, None), (4, 12)}),
    ],
)
def test_a_row_meets_the_version_of_its_time(kind, expected):
    run = Run(TemporalJoin, [SIDE, SIDE], BOTH, kind=kind, keys=((1,), (1,)), times=(2, 2))
    side_by_side(run)
    assert {(row[0], row[3]) for _, row in run.changes} == expected


def test_a_version_that_was_deleted_does_not_hold():
    run = Run(TemporalJoin, [SIDE, SIDE], BOTH, kind=JoinType.LEFT, keys=((1,), (1,)), times=(2, 2))
    run.feed("+I(11,a,@2) -D(11,a,@4)", 1).feed("+I(1,a,@3) +I(2,a,@5)").watermark(10_000)
    assert run.text() == "+I(1,a,@3,11,a,@2) +I(2,a,@5,N,N,N)"


WINDOWED = schema("id:i k:s s:t e:t")
WINDOWS = BlockSchema([f"c{i}" for i in range(8)], WINDOWED.types * 2)


def windowed(rows):
    return [
        f"{row.rpartition('@')[0]}@{int(row.rpartition('@')[2]) // 10 * 10},@{int(row.rpartition('@')[2]) // 10 * 10 + 10}"
        for row in rows
    ]


def test_rows_of_equal_windows_meet():
    run = Run(
        TableWindowJoin, [WINDOWED, WINDOWED], WINDOWS, kind=JoinType.FULL, keys=((1,), (1,)), windows=((2, 3), (2, 3)),
        rowtime=True, zone="UTC", local=False,
    )  # fmt: skip
    for place, (left, right) in enumerate(zip(windowed(LEFT), windowed(RIGHT), strict=True)):
        if place == 2:
            run.again()
        run.feed(f"+I({left})").feed(f"+I({right})", 1)
    run.end()
    found = {(row[0], row[4], (row[2] if row[2] is not None else row[6]) // 10**9) for _, row in run.changes}
    assert found == {(1, 11, 0), (2, 11, 0), (None, 13, 0), (3, None, 0), (None, 12, 10), (4, None, 20), (None, 14, 40)}
    assert materialized(run.changes)


@pytest.mark.parametrize(("kind", "expected"), [(JoinType.SEMI, {1, 2}), (JoinType.ANTI, {3, 4})])
def test_rows_are_kept_if_there_are_partners_in_the_window(kind, expected):
    run = Run(
        TableWindowJoin, [WINDOWED, WINDOWED], WINDOWED, kind=kind, keys=((1,), (1,)), windows=((2, 3), (2, 3)),
        rowtime=True, zone="UTC", local=False,
    )  # fmt: skip
    for left, right in zip(windowed(LEFT), windowed(RIGHT), strict=True):
        run.feed(f"+I({left})").feed(f"+I({right})", 1)
    run.end()
    assert {row[0] for _, row in run.changes} == expected
