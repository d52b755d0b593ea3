"""Rows at the borders of time: at the watermark a row is late, a millisecond before it is not, and what is over is forgotten."""

import datetime

import pytest

from funken.expr.sql.types import BigIntType, TimestampType
from funken.table.logical import (
    AggregateCall,
    BoundKind,
    FrameBound,
    JoinType,
    OverGroup,
    SortKey,
    WindowKind,
    WindowProperty,
    WindowShape,
)
from funken.table.runtime.aggregates import PartialCalls
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.changes import DeduplicateByTime
from funken.table.runtime.over import OverByTime
from funken.table.runtime.rank import TemporalSort
from funken.table.runtime.time_joins import TableWindowJoin, TemporalJoin
from funken.table.runtime.window_aggregate import WindowAggregate
from funken.table.runtime.window_rows import SessionWindowTable, WindowDeduplicate, WindowRank
from funken.table.runtime.windows import WallTime
from tests.table.runtime.changelogs import Run, schema

ROWS = schema("id:i k:s v:i t:t")
IN_WINDOW = schema("id:i k:s s:t e:t")
TIME = TimestampType(3)
COUNT = AggregateCall("COUNT", (), BigIntType(is_nullable=False))
SUM = AggregateCall("SUM", (2,), BigIntType())
KINDS = AggregateCall("COUNT", (1,), BigIntType(is_nullable=False), distinct=True)
TUMBLE = WindowShape(WindowKind.TUMBLE, 3, size=10_000)
SESSION = WindowShape(WindowKind.SESSION, 3, gap=5000, partition=(1,))
TIMED = {"rowtime": True, "local": False, "zone": "UTC"}


def wider(source, *types):
    return BlockSchema([*source.names, *(f"c{place}" for place in range(len(types)))], [*source.types, *types])


def windows(window=TUMBLE, keys=(1,), calls=(COUNT,), **arguments):
    types = [*(ROWS.types[key] for key in keys), *(each.type for each in calls), TIME]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    return Run(
        WindowAggregate, [ROWS], output, keys=keys, calls=calls, window=window, properties=(WindowProperty.START,), **TIMED,
        **arguments,
    )  # fmt: skip


def over(lower, rows=False):
    group = OverGroup((1,), (SortKey(3),), rows, lower, FrameBound(BoundKind.CURRENT_ROW), (SUM,))
    return Run(OverByTime, [ROWS], wider(ROWS, BigIntType()), groups=(group,), update_before=True)


class JoinInFiles(TableWindowJoin):
    """A join whose state is not in columns."""

    in_files = property(lambda self: True, lambda self, value: None)


def window_join(logic):
    return Run(
        logic, [IN_WINDOW, IN_WINDOW], wider(IN_WINDOW, *IN_WINDOW.types), kind=JoinType.FULL, keys=((1,), (1,)),
        windows=((2, 3), (2, 3)), **TIMED,
    )  # fmt: skip


def rows_of_windows(logic, **arguments):
    return Run(logic, [IN_WINDOW], IN_WINDOW, window_columns=(2, 3), **TIMED, **arguments)


def deduplicate():
    return Run(DeduplicateByTime, [ROWS], ROWS, keys=(0,), time=3, last=False, insert_only=True, update_before=False)


UNBOUNDED = FrameBound(BoundKind.UNBOUNDED_PRECEDING)
ROW, IN = "+I({},a,1,@5)", "+I({},a,@0,@10)"
LATE = {  # the operator, rows of one time or window, and the watermark at which they are late
    "window": (windows, ROW, 9999),
    "window with a lateness": (lambda: windows(lateness=500), ROW, 10_499),
    "session": (lambda: windows(SESSION), ROW, 9999),
    "window join": (lambda: window_join(TableWindowJoin), IN, 9999),
    "window join in files": (lambda: window_join(JoinInFiles), IN, 9999),
    "first rows of windows": (
        lambda: rows_of_windows(WindowRank, partition=(1,), order=(SortKey(0),), start=1, end=9, number=False), IN, 9999,
    ),
    "last rows of windows": (lambda: rows_of_windows(WindowDeduplicate, keys=(0,), time=3, last=True), IN, 9999),
    "sessions as a table": (
        lambda: Run(SessionWindowTable, [ROWS], wider(ROWS, TIME, TIME, TIME), window=SESSION, **TIMED), ROW, 9999,
    ),
    "OVER": (lambda: over(UNBOUNDED), ROW, 5000),
    "OVER with a frame": (lambda: over(FrameBound(BoundKind.PRECEDING, 1000)), ROW, 5000),
    "first rows of keys": (deduplicate, ROW, 5000),
    "sort": (lambda: Run(TemporalSort, [ROWS], ROWS, order=(SortKey(3),), rowtime=True), ROW, 5000),
}  # fmt: skip


@pytest.mark.parametrize("arrays", [True, False])
@pytest.mark.parametrize("name", LATE)
def test_a_row_is_late_from_the_watermark_on(monkeypatch, name, arrays):
    if not arrays:
        monkeypatch.setattr(PartialCalls, "serve", staticmethod(lambda *_: False))
    make, row, watermark = LATE[name]
    run = make().feed(row.format(1)).watermark(watermark - 1).feed(row.format(2))
    late = run.harness.context.metrics.counter("numLateRecordsDropped")
    assert late.count == 0
    emitted = run.watermark(watermark).text()
    assert emitted
    assert run.feed(row.format(3)).text() == ""
    assert late.count == 1
    assert run.end().text() == ""


def rows_kept(run):
    """The rows of keyed state that a snapshot has now."""
    groups = run.harness.operator.store.snapshot().groups.values()
    return [row for states in groups for rows in states.values() for row in rows]


FORGOTTEN = {  # the operator, rows, and the watermark behind which nothing is left of them
    "window": (windows, 9999),
    "window with a lateness": (lambda: windows(lateness=500), 10_499),
    "session": (lambda: windows(SESSION), 9999),
    "frame of OVER": (lambda: over(FrameBound(BoundKind.PRECEDING, 1000)), 6501),
}


@pytest.mark.parametrize("arrays", [True, False])
@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_is_over_is_forgotten(monkeypatch, name, arrays):
    if not arrays:
        monkeypatch.setattr(PartialCalls, "serve", staticmethod(lambda *_: False))
    make, watermark = FORGOTTEN[name]
    run = make().feed(ROW.format(1))
    assert rows_kept(run.watermark(watermark - 1).again())
    assert rows_kept(run.watermark(watermark)) == []


def test_a_frame_of_time_reaches_rows_exactly_as_old_as_it_is_long():
    run = over(FrameBound(BoundKind.PRECEDING, 2000)).feed("+I(1,a,1,@10)").watermark(11_900)
    run.feed("+I(2,a,2,@12) +I(3,a,4,@15)").watermark(15_000)
    assert run.text() == "+I(1,a,1,@10,1) +I(2,a,2,@12,3) +I(3,a,4,@15,4)"


def versions():
    side = schema("id:i k:s t:t")
    return Run(
        TemporalJoin, [side, side], wider(side, *side.types), kind=JoinType.LEFT, keys=((1,), (1,)), times=(2, 2)
    )


def test_a_version_holds_from_its_own_time_on():
    run = versions().feed("+I(11,a,@2) +U(12,a,@4)", 1).feed("+I(1,a,@1) +I(2,a,@2) +I(3,a,@4)").watermark(9000)
    assert run.text() == "+I(1,a,@1,N,N,N) +I(2,a,@2,11,a,@2) +I(3,a,@4,12,a,@4)"


def test_only_the_version_that_holds_is_kept():
    run = versions().feed("+I(11,a,@1) +U(12,a,@2) +U(13,a,@8)", 1).watermark(5000)
    run.harness.operator.store.current_key = ("a",)
    assert sorted(run.harness.operator._right.keys()) == [2000, 8000]
    assert run.again().feed("+I(1,a,@6)").watermark(7000).text() == "+I(1,a,@6,12,a,@2)"


# ---- sessions that become one, and results before and behind the end of a window


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("calls", [(COUNT, COUNT), (COUNT, KINDS)])
def test_a_row_at_the_border_of_a_session_belongs_to_it(calls, at_once):
    run = windows(SESSION, calls=calls).feed("+I(1,a,1,@0) +I(2,a,1,@5) +I(3,a,1,@11)", one_by_one=not at_once)
    assert [row[1] for _, row in run.end().changes] == [2, 1]


@pytest.mark.parametrize("at_once", [True, False])
def test_merged_sessions_have_the_rows_of_all(at_once):
    rows = "+I(1,a,1,@0) +I(2,a,2,@9) +I(3,a,4,@18) +I(4,a,8,@5) +I(5,a,16,@14)"
    run = windows(SESSION, calls=(COUNT, SUM, KINDS)).feed(rows, one_by_one=not at_once)
    assert run.end().text() == "+I(a,5,31,1,@0)"


def test_rows_may_be_taken_back_from_merged_sessions():
    run = windows(SESSION, calls=(COUNT, KINDS), retracts=True).feed("+I(1,a,1,@0) +I(2,a,2,@9) +I(3,a,4,@5)")
    run.again().feed("-D(1,a,1,@0) -D(2,a,2,@9)")
    assert run.end().text() == "+I(a,1,1,@0)"
    run = windows(SESSION, calls=(COUNT, KINDS), retracts=True).feed(
        "+I(1,a,1,@0) +I(2,a,2,@5) -D(1,a,1,@0) -D(2,a,2,@5)"
    )
    assert run.end().text() == ""


def test_what_was_to_fire_early_waits_when_the_window_is_over():
    run = windows(calls=(SUM,), early=1000, late=5000, lateness=60_000).feed("+I(1,a,1,@5)").watermark(9999)
    assert run.text() == "+I(a,1,@0)"
    run.feed("+I(2,a,2,@5)").clock(1000)
    assert run.text() == ""
    assert run.clock(5000).text() == "-U(a,1,@0) +U(a,3,@0)"


def test_of_the_last_rows_of_a_window_the_latest_stays():
    run = rows_of_windows(WindowDeduplicate, keys=(1,), time=2, last=True).feed(IN.format(1)).feed(IN.format(2))
    assert run.end().text() == IN.format(2)
    run = rows_of_windows(WindowDeduplicate, keys=(1,), time=2, last=False).feed(IN.format(1)).feed(IN.format(2))
    assert run.end().text() == IN.format(1)


def test_of_two_equal_wall_times_the_later_counts_and_one_that_is_left_out_is_as_much_later():
    berlin = WallTime("Europe/Berlin")

    def local(*given):
        return int(datetime.datetime(*given, tzinfo=datetime.UTC).timestamp() * 1000)

    assert berlin.instant(local(2024, 10, 27, 2, 30)) == local(2024, 10, 27, 1, 30)
    assert berlin.instant(local(2024, 3, 31, 2, 30)) == local(2024, 3, 31, 1, 30)
    assert [berlin.local(berlin.instant(local(2024, 10, 27, hour))) for hour in (1, 4)] == [
        local(2024, 10, 27, hour) for hour in (1, 4)
    ]
