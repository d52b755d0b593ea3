"""Operators without state: Calc, watermarks, table functions."""

import pytest

from funken.errors import InvalidProgram
from funken.expr.ir import InputRef, Literal
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.types import ArrayType, BigIntType, TimestampType
from funken.ids import MAX_WATERMARK
from funken.table.logical import JoinType, OutputColumn, RelationType, TableCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.stateless import Calc, Correlate, DropUpdateBefore, Expand, WatermarkAssigner
from tests.table.runtime.changelogs import Run, schema

KV = schema("k:s v:i")
K, V = (InputRef(place, type=kind) for place, kind in enumerate(KV.types))


def number(value):
    return Literal(value, type=BigIntType())


def test_calc_keeps_kinds():
    doubled = FUNCTIONS.call("*", [V, number(2)])
    run = Run(Calc, [KV], KV, expressions=(K, doubled), condition=FUNCTIONS.call(">", [V, number(1)]))
    run.feed("+I(a,1) +I(a,2) -U(a,2) +U(a,3) -D(N,N) -D(a,5)", one_by_one=False)
    assert run.text() == "+I(a,4) -U(a,4) +U(a,6) -D(a,10)"


def test_expand_makes_a_row_per_projection_row_by_row():
    none = Literal(None, type=KV.types[0])
    run = Run(Expand, [KV], KV, projections=((K, V), (none, V)))
    run.feed("+I(a,1) -D(b,2)", one_by_one=False)
    assert run.text() == "+I(a,1) +I(N,1) -D(b,2) -D(N,2)"


def test_update_before_is_dropped():
    run = Run(DropUpdateBefore, [KV], KV).feed("+I(a,1) -U(a,1) +U(a,2) -D(a,2)", one_by_one=False)
    assert run.text() == "+I(a,1) +U(a,2) -D(a,2)"


TIMED = BlockSchema(["id", "t"], [BigIntType(), TimestampType(3)])


def assigner(per_record, interval=10_000, idle=25_000):
    return Run(
        WatermarkAssigner, [TIMED], TIMED, time=1, expression=InputRef(1, type=TIMED.types[1]), per_record=per_record,
        interval=interval, idle=idle, parameters={},
    )  # fmt: skip


def test_watermarks_follow_each_record():
    run = assigner(per_record=True).feed("+I(1,@1) +I(2,@5) +I(3,@3)", one_by_one=False)
    assert run.harness.watermarks == [1000, 5000]
    run.watermark(4)  # of another assigner, upstream
    run.end()
    assert run.harness.watermarks == [1000, 5000, MAX_WATERMARK]


def test_watermarks_are_emitted_by_the_clock():
    run = assigner(per_record=False).feed("+I(1,@1) +I(2,@5)", one_by_one=False)
    assert run.harness.watermarks == []
    run.clock(10_000)
    assert run.harness.watermarks == [5000]
    run.clock(20_000)
    assert run.harness.watermarks == [5000]
    run.clock(30_000)
    assert run.harness.is_idle
    run.feed("+I(3,@6)")
    assert not run.harness.is_idle


def test_watermarks_that_rise_by_more_than_the_interval_do_not_wait_for_the_clock():
    run = assigner(per_record=False, interval=2000).feed("+I(1,@1) +I(2,@5) +I(3,@6)", one_by_one=False)
    run.feed("+I(4,@7)", one_by_one=False).feed("+I(5,@9)", one_by_one=False)
    assert run.harness.watermarks == [6000, 9000]


def test_a_row_without_a_time_is_refused():
    with pytest.raises(InvalidProgram, match="RowTime field should not be null"):
        assigner(per_record=True).feed("+I(1,N)")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(JoinType.INNER, [(1, 5), (1, 6)]), (JoinType.LEFT, [(1, 5), (1, 6), (2, None), (3, None)])],
)
def test_arrays_are_unnested(kind, expected):
    lists = BlockSchema(["id", "items"], [BigIntType(), ArrayType(BigIntType())])
    output = BlockSchema(["id", "items", "item"], [*lists.types, BigIntType()])
    call = TableCall("UNNEST", (InputRef(1, type=lists.types[1]),), RelationType((OutputColumn("item", BigIntType()),)))
    run = Run(Correlate, [lists], output, call=call, kind=kind)
    run.harness.operator.process_block(lists.block([(1, [5, 6]), (2, []), (3, None)]))
    assert [(row[0], row[2]) for _, row in run.changes] == expected
