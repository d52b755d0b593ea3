"""Process table functions: state and named timers of a partition; changelogs as data."""

import pytest

from funken.errors import InvalidProgram
from funken.expr.sql.types import BigIntType, TimestampType, VarCharType
from funken.table.changelog import ChangelogMode
from funken.table.logical import SortKey, TableArgument
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.process import FromChangelog, ProcessTable, ToChangelog, op_mapping
from tests.table.runtime.changelogs import Run, schema

TIMED = schema("k:s v:i t:t")
OUT = BlockSchema(["k", "out", "n", "rowtime"], [VarCharType(9), VarCharType(9), BigIntType(), TimestampType(3)])


class Timeouts:
    """Counts the rows of a partition; a timer fires 2 s after the last of them."""

    def eval(self, ctx, r, by):
        count = ctx.value_state("count", 0)
        count.update(count.value() + by)
        ctx.register_on_time("idle", ctx.time + 2000)
        yield "row", count.value()

    def on_timer(self, ctx):
        yield ctx.timer, ctx.value_state("count", 0).value()
        ctx.clear_all_state()


ROWS = TableArgument("r", (0,))


def process(function, mode=None, table=ROWS):
    return Run(
        ProcessTable, [TIMED], OUT, function=function, tables=(table,), schemas=[TIMED],
        scalars=(("by", 1),), on_time=(2,), modes=[ChangelogMode.insert_only()], passes=[False],
        mode=mode or ChangelogMode.insert_only(), timed=True, width=4,
    )  # fmt: skip


def test_a_timer_of_one_name_is_replaced():
    run = process(Timeouts()).feed("+I(a,1,@1) +I(a,1,@2) +I(b,1,@2)").watermark(3500).again().watermark(4000)
    assert run.text() == "+I(a,row,1,@1) +I(a,row,2,@2) +I(b,row,1,@2) +I(a,idle,2,@4) +I(b,idle,1,@4)"
    assert run.feed("+I(a,1,@9)").text() == "+I(a,row,1,@9)"


class Deletes:
    def eval(self, ctx, r, by):
        from funken import Row, RowKind

        yield Row.of_kind(RowKind.DELETE, "row", 1)


def test_changes_that_are_not_declared_are_refused():
    with pytest.raises(InvalidProgram, match="Invalid row kind received: DELETE"):
        process(Deletes()).feed("+I(a,1,@1)")
    assert process(Deletes(), ChangelogMode.all()).feed("+I(a,1,@1)").text() == "-D(a,row,1,@1)"


class Watermarks:
    """Says the watermark that each row sees, and the timer of a partition."""

    def eval(self, ctx, r, by):
        ctx.register_on_time("timer", 5000)
        yield str(ctx.current_watermark), r["t"].second

    def on_timer(self, ctx):
        yield str(ctx.current_watermark), 0


def test_rows_in_order_see_the_watermark_before_their_release():
    table = TableArgument("r", (0,), order=(SortKey(2, True, True), SortKey(1, False, False)))
    run = process(Watermarks(), table=table).feed("+I(a,1,@2) +I(a,2,@1)").watermark(500).feed("+I(a,1,@3)")
    assert run.text() == ""
    assert run.watermark(3000).text() == "+I(a,500,1,@1) +I(a,500,2,@2) +I(a,500,3,@3)"
    assert run.watermark(6000).text() == "+I(a,6000,0,@5)"


def test_there_is_no_watermark_before_the_first_of_a_run():
    run = process(Watermarks()).feed("+I(a,1,@1)").watermark(1000).feed("+I(a,1,@2)")
    assert run.text() == "+I(a,None,1,@1) +I(a,1000,2,@2)"
    run._reached = None
    assert run.again().feed("+I(a,1,@3)").text() == "+I(a,None,3,@3)"


KV = schema("k:s v:i")
OP = schema("op:s k:s v:i")


def test_changes_become_data_and_data_become_changes():
    names = op_mapping({"INSERT, UPDATE_AFTER": "u", "DELETE": "d"}, False)
    out = Run(ToChangelog, [KV], OP, names=names, keys=(), rest=(0, 1), kept=None)
    assert out.feed("+I(a,1) -U(a,1) +U(a,2) -D(a,2)").text() == "+I(u,a,1) +I(u,a,2) +I(d,a,2)"
    kinds = op_mapping({"u": "UPDATE_AFTER", "d": "DELETE"}, True)
    back = Run(FromChangelog, [OP], KV, column=0, kinds=kinds, shown=(1, 2), skips=False)
    assert back.feed("+I(u,a,1) +I(d,a,1)").text() == "+U(a,1) -D(a,1)"
    with pytest.raises(InvalidProgram, match="invalid op code 'x'"):
        back.feed("+I(x,a,1)")
    with pytest.raises(InvalidProgram, match="Unknown change operation: 'NO'"):
        op_mapping({"NO": "x"}, False)
