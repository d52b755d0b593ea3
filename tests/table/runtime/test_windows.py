"""Windows: which rows are in them, when they fire, what is late; and OVER."""

import pytest

from funken.expr.sql.types import BigIntType, TimestampType
from funken.table.logical import (
    AggregateCall,
    BoundKind,
    FrameBound,
    OverGroup,
    SortKey,
    WindowKind,
    WindowProperty,
    WindowShape,
)
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.over import OverByArrival, OverByTime, OverByValue
from funken.table.runtime.stateless import WindowTable
from funken.table.runtime.window_aggregate import WindowAggregate
from funken.table.runtime.window_rows import WindowDeduplicate, WindowRank
from funken.table.runtime.windows import WallTime
from tests.table.runtime.changelogs import Run, materialized, schema

ROWS = schema("id:i k:s v:i t:t")
INPUT = [
    (1, "a", 1, 1), (2, "b", 2, 5), (3, "a", 3, 9), (4, "a", 4, 11), (5, "a", 5, 8), (6, "b", 6, 13), (7, "a", 7, 7),
    (8, "a", 8, 27), (9, "a", 9, 19),
]  # fmt: skip
SUM = AggregateCall("SUM", (2,), BigIntType())
COUNT = AggregateCall("COUNT", (), BigIntType(is_nullable=False))
TIMES = [TimestampType(3), TimestampType(3)]


def feed(run, rows=INPUT, behind=2):
    reached = 0
    for place, (number, key, value, time) in enumerate(rows):
        if place == len(rows) // 2:
            run.again()
        run.feed(f"+I({number},{key},{value},@{time})")
        reached = max(reached, (time - behind) * 1000)
        run.watermark(reached)
    return run.end()


def aggregate(window, keys=(), calls=(SUM,), properties=(WindowProperty.START, WindowProperty.END), **arguments):
    types = [ROWS.types[key] for key in keys] + [call.type for call in calls] + [TimestampType(3) for _ in properties]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    return Run(
        WindowAggregate, [ROWS], output, keys=keys, calls=calls, window=window, rowtime=True, properties=properties,
        local=False, zone="UTC", **arguments,
    )  # fmt: skip


TUMBLE = WindowShape(WindowKind.TUMBLE, 3, size=10_000)
CASES = {
    "tumble": (
        TUMBLE, (1,), (SUM, COUNT),
        {"+I(a,9,3,@0,@10)", "+I(b,2,1,@0,@10)", "+I(a,4,1,@10,@20)", "+I(b,6,1,@10,@20)", "+I(a,8,1,@20,@30)"},
    ),
    "offset": (
        WindowShape(WindowKind.TUMBLE, 3, size=10_000, offset=3000), (), (SUM,),
        {"+I(1,@-7,@3)", "+I(21,@3,@13)", "+I(6,@13,@23)", "+I(8,@23,@33)"},
    ),
    "hop": (
        WindowShape(WindowKind.HOP, 3, size=10_000, slide=5000), (), (SUM,),
        {"+I(1,@-5,@5)", "+I(11,@0,@10)", "+I(27,@5,@15)", "+I(10,@10,@20)", "+I(8,@20,@30)", "+I(8,@25,@35)"},
    ),
    "cumulate": (
        WindowShape(WindowKind.CUMULATE, 3, size=10_000, slide=5000), (), (SUM,),
        {"+I(1,@0,@5)", "+I(11,@0,@10)", "+I(10,@10,@15)", "+I(10,@10,@20)", "+I(8,@20,@30)"},
    ),
    "session": (
        WindowShape(WindowKind.SESSION, 3, gap=5000, partition=(1,)), (1,), (SUM,),
        {"+I(a,1,@1,@6)", "+I(b,2,@5,@10)", "+I(a,19,@7,@16)", "+I(b,6,@13,@18)", "+I(a,8,@27,@32)"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_windows_are_aggregated(name):
    window, keys, calls, expected = CASES[name]
    assert set(feed(aggregate(window, keys, calls)).text().split()) == expected


def test_distinct_values_of_a_window_are_counted():
    call = AggregateCall("COUNT", (1,), BigIntType(), distinct=True)
    run = feed(aggregate(TUMBLE, (), (call,), (WindowProperty.START,)))
    assert run.text() == "+I(2,@0) +I(2,@10) +I(1,@20)"


def test_legacy_windows_fire_early():
    run = aggregate(TUMBLE, (1,), (SUM,), (WindowProperty.START,), early=0)
    assert feed(run).text() == (
        "+I(a,1,@0) +I(b,2,@0) -U(a,1,@0) +U(a,4,@0) +I(a,4,@10) -U(a,4,@0) +U(a,9,@0) +I(b,6,@10) +I(a,8,@20)"
    )


def test_legacy_windows_fire_late():
    run = aggregate(TUMBLE, (1,), (SUM,), (WindowProperty.START,), late=0, lateness=60_000)
    assert materialized(feed(run).changes) == {
        ("a", 16, 0): 1,
        ("b", 2, 0): 1,
        ("a", 13, 10 * 10**9): 1,
        ("b", 6, 10 * 10**9): 1,
        ("a", 8, 20 * 10**9): 1,
    }


def test_rows_behind_the_watermark_are_late():
    rows = [(1, "a", 1, 1), (2, "a", 2, 5), (3, "a", 3, 12), (4, "a", 4, 3), (9, "a", 9, 9), (5, "a", 5, 25)]
    assert feed(aggregate(TUMBLE, (), (SUM, COUNT)), rows, behind=0).text() == (
        "+I(3,2,@0,@10) +I(3,1,@10,@20) +I(5,1,@20,@30)"
    )


def test_days_are_as_long_as_the_clocks_say():
    new_york = WallTime("America/New_York")
    midnight = new_york.instant(new_york.local(1_710_046_800_000))
    assert midnight == 1_710_046_800_000  # 2024-03-10 00:00 EST
    hours = [new_york.local(midnight + hour * 3_600_000) // 3_600_000 % 24 for hour in range(6)]
    assert hours == [0, 1, 3, 4, 5, 6]


WITH_WINDOW = BlockSchema([*ROWS.names, "s", "e", "w"], [*ROWS.types, *TIMES, TimestampType(3)])


def test_a_window_function_copies_rows_into_their_windows():
    run = Run(
        WindowTable, [ROWS], WITH_WINDOW, window=WindowShape(WindowKind.HOP, 3, size=10_000, slide=5000), rowtime=True,
        local=False, zone="UTC",
    )  # fmt: skip
    run.feed("+I(1,a,1,@1) +I(2,b,2,@5)")
    assert run.text() == (
        "+I(1,a,1,@1,@0,@10,@9.999) +I(1,a,1,@1,@-5,@5,@4.999) +I(2,b,2,@5,@5,@15,@14.999) +I(2,b,2,@5,@0,@10,@9.999)"
    )


def windowed(rows=INPUT):
    return [(*row, row[3] // 10 * 10, row[3] // 10 * 10 + 10) for row in rows]


IN_WINDOW = BlockSchema([*ROWS.names, "s", "e"], [*ROWS.types, *TIMES])


def feed_windowed(run):
    reached = 0
    for place, row in enumerate(windowed()):
        if place == 4:
            run.again()
        run.feed("+I({},{},{},@{},@{},@{})".format(*row))
        reached = max(reached, (row[3] - 2) * 1000)
        run.watermark(reached)
    return run.end()


def test_the_first_rows_of_a_window():
    output = BlockSchema([*IN_WINDOW.names, "rn"], [*IN_WINDOW.types, BigIntType()])
    run = Run(
        WindowRank, [IN_WINDOW], output, window_columns=(4, 5), partition=(), order=(SortKey(2, False, False),), start=1,
        end=2, number=True, rowtime=True, zone="UTC", local=False,
    )  # fmt: skip
    found = [(row[1], row[2], row[4] // 10**9, row[6]) for _, row in feed_windowed(run).changes]
    assert found == [("a", 5, 0, 1), ("a", 3, 0, 2), ("b", 6, 10, 1), ("a", 4, 10, 2), ("a", 8, 20, 1)]


def test_the_last_row_of_a_window_and_key():
    run = Run(
        WindowDeduplicate, [IN_WINDOW], IN_WINDOW, window_columns=(4, 5), keys=(1,), time=3, last=True, rowtime=True,
        zone="UTC", local=False,
    )  # fmt: skip
    found = {(row[1], row[2], row[4] // 10**9) for _, row in feed_windowed(run).changes}
    assert found == {("a", 3, 0), ("b", 2, 0), ("a", 4, 10), ("b", 6, 10), ("a", 8, 20)}


OVER = [(1, "a", 1, 1), (2, "a", 2, 3), (3, "b", 9, 4), (4, "a", 4, 3), (5, "a", 5, 8), (6, "a", 6, 2), (7, "a", 7, 20)]
UNBOUNDED = FrameBound(BoundKind.UNBOUNDED_PRECEDING)
CURRENT = FrameBound(BoundKind.CURRENT_ROW)


BY_TIME = (SortKey(3),)


def over(logic, rows, lower, order=BY_TIME, calls=(SUM,)):
    group = OverGroup((1,), order, rows, lower, CURRENT, calls)
    types = [*ROWS.types, *(call.type for call in calls)]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    return Run(logic, [ROWS], output, groups=(group,), update_before=True)


def results(run):
    return [(row[0], *row[4:]) for _, row in run.changes]


OVER_CASES = [
    (OverByTime, False, UNBOUNDED, [(1, 1), (2, 7), (4, 7), (3, 9), (5, 12), (7, 19)]),
    (OverByTime, True, UNBOUNDED, [(1, 1), (2, 3), (4, 7), (3, 9), (5, 12), (7, 19)]),
    (OverByTime, True, FrameBound(BoundKind.PRECEDING, 1), [(1, 1), (2, 3), (4, 6), (3, 9), (5, 9), (7, 12)]),
    (OverByTime, False, FrameBound(BoundKind.PRECEDING, 2000), [(1, 1), (2, 7), (4, 7), (3, 9), (5, 5), (7, 7)]),
    (
        OverByArrival, True, FrameBound(BoundKind.PRECEDING, 1),
        [(1, 1), (2, 3), (3, 9), (4, 6), (5, 9), (6, 11), (7, 13)],
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(OVER_CASES)))
def test_over_a_time(case):
    logic, rows, lower, expected = OVER_CASES[case]
    assert results(feed(over(logic, rows, lower), OVER)) == expected


ORDERED_CASES = {
    "LAG": ((2,), [(1, None), (2, 2), (4, 2), (3, None), (5, 4), (7, 5)]),
    "RANK": ((), [(1, 1), (2, 2), (4, 2), (3, 1), (5, 4), (7, 5)]),
    "DENSE_RANK": ((), [(1, 1), (2, 2), (4, 2), (3, 1), (5, 3), (7, 4)]),
}
"""Rows of one time are equal."""


@pytest.mark.parametrize("name", ORDERED_CASES)
def test_functions_of_the_order_over_a_time(name):
    args, expected = ORDERED_CASES[name]
    run = over(OverByTime, False, UNBOUNDED, calls=(AggregateCall(name, args, BigIntType()), SUM))
    assert [row[:2] for row in results(feed(run, OVER))] == expected
    assert [row[-1] for row in results(run)] == [1, 7, 7, 9, 12, 19]


@pytest.mark.parametrize("rows", [False, True])
def test_over_other_columns_is_updated(rows):
    run = over(OverByValue, rows, UNBOUNDED, order=(SortKey(2),))
    run.feed("+I(1,a,1,@1) +I(2,a,3,@1)").again().feed("+I(3,a,2,@1) -D(1,a,1,@1)")
    assert run.text() == (
        "+I(1,a,1,@1,1) +I(2,a,3,@1,4) +I(3,a,2,@1,3) -U(2,a,3,@1,4) +U(2,a,3,@1,6) -D(1,a,1,@1,1) -U(3,a,2,@1,3) "
        "+U(3,a,2,@1,2) -U(2,a,3,@1,6) +U(2,a,3,@1,5)"
    )


def test_ranks_change_when_a_row_comes_before_them():
    run = over(OverByValue, False, UNBOUNDED, order=(SortKey(2),), calls=(AggregateCall("RANK", (), BigIntType()),))
    run.feed("+I(1,a,1,@1) +I(2,a,5,@1) +I(3,b,2,@1) +I(4,a,3,@1) +I(5,a,4,@1)")
    assert [(("+I", "-U", "+U", "-D")[kind], row[1], row[2], row[4]) for kind, row in run.changes] == [
        ("+I", "a", 1, 1), ("+I", "a", 5, 2), ("+I", "b", 2, 1), ("+I", "a", 3, 2), ("-U", "a", 5, 2), ("+U", "a", 5, 3),
        ("+I", "a", 4, 3), ("-U", "a", 5, 3), ("+U", "a", 5, 4),
    ]  # fmt: skip
