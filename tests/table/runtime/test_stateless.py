"""Operators without state: Calc, watermarks, table functions."""

import pytest

from funken.expr.ir import Call, InputRef, Literal
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.types import ArrayType, BigIntType, TimestampType
from funken.table.logical import JoinType, OutputColumn, RelationType, TableCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.stateless import Calc, Correlate, DropUpdateBefore, Expand
from funken.table.udf import udf
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


@pytest.mark.parametrize(("deterministic", "seen"), [(True, [1, 2, 3, 5]), (False, [1, 2, 3, 5, 2, 3, 5])])
def test_a_function_of_the_program_in_condition_and_columns_is_called_once_per_row(deterministic, seen):
    called = []
    doubled = udf(lambda n: called.append(n) or n * 2, result_type="BIGINT", deterministic=deterministic)
    node = Call("doubled", (V,), type=BigIntType(), handle=doubled)
    run = Run(Calc, [KV], KV, expressions=(K, node), condition=FUNCTIONS.call(">", [node, number(3)]))
    run.feed("+I(a,1) -U(a,2) +U(a,3) -D(a,5)", one_by_one=False)
    assert run.text() == "-U(a,4) +U(a,6) -D(a,10)"
    assert called == seen


def test_expand_makes_a_row_per_projection_row_by_row():
    none = Literal(None, type=KV.types[0])
    run = Run(Expand, [KV], KV, projections=((K, V), (none, V)))
    run.feed("+I(a,1) -D(b,2)", one_by_one=False)
    assert run.text() == "+I(a,1) +I(N,1) -D(b,2) -D(N,2)"


def test_update_before_is_dropped():
    run = Run(DropUpdateBefore, [KV], KV).feed("+I(a,1) -U(a,1) +U(a,2) -D(a,2)", one_by_one=False)
    assert run.text() == "+I(a,1) +U(a,2) -D(a,2)"


TIMED = BlockSchema(["id", "t"], [BigIntType(), TimestampType(3)])


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
