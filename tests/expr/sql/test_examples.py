"""Every row of the table of functions is documented, and its examples say what is so."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from funken.expr.evaluate import EvaluationContext, evaluate
from funken.expr.rules import AggregateRule, Determinism, FunctionRule
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.types import STRING, IntType, parse_type
from funken.expr.sql.values import from_internal
from funken.table.catalog import CatalogManager
from funken.table.sql.binder import Binder

BATCH = pa.RecordBatch.from_arrays([pa.array([1, 1, 1], pa.int32())], ["one"])
SCALARS = [rule for rule in FUNCTIONS if isinstance(rule, FunctionRule)]
AGGREGATES = [rule for rule in FUNCTIONS if isinstance(rule, AggregateRule) and not rule.over_only]
EXAMPLES = [(rule.name, sql, text) for rule in SCALARS for sql, text in rule.examples]


def shown(sql):
    """Return the texts of an expression's values over three rows."""
    node = Binder(CatalogManager()).expression(sql, [("one", IntType())])
    context = EvaluationContext(FUNCTIONS, "UTC", lambda: 0)
    (found,) = evaluate([FUNCTIONS.call("CAST", [node], type=STRING)], BATCH, context)
    return ["NULL" if each is None else each for each in found.to_pylist()]


@pytest.mark.parametrize(("name", "sql", "text"), EXAMPLES, ids=[name for name, _, _ in EXAMPLES])
def test_an_example_is_true(name, sql, text):
    found = shown(sql)

    assert found[0] == text
    assert found == [text] * 3 or FUNCTIONS.get(name).determinism is not Determinism.DETERMINISTIC


@pytest.mark.parametrize("rule", list(FUNCTIONS), ids=lambda rule: rule.name)
def test_a_row_is_documented(rule):
    assert rule.signatures
    assert rule.group
    assert re.fullmatch(r"[A-Z0-9`<].*[.`]|-1, 0 or 1\.|e to the .*", rule.description), rule.description
    never_same = isinstance(rule, FunctionRule) and rule.determinism is not Determinism.DETERMINISTIC
    assert rule.examples or never_same or getattr(rule, "over_only", False)


@pytest.mark.parametrize("rule", AGGREGATES, ids=lambda rule: rule.name)
def test_an_aggregate_takes_back_what_it_was_given(rule):
    types, arguments, others = {
        "LISTAGG": (["STRING"], ("a",), ("b",)),
        "JSON_OBJECTAGG": (["STRING", "INT"], ("a", 1), ("b", 2)),
        "PERCENTILE": (["INT", "DOUBLE"], (1, 0.5), (3, 0.5)),
    }.get(
        rule.name,
        (["BITMAP"], (((1, 4),),), (((3, 9),),))
        if "bitmap" in rule.signatures[0].lower() and "BUILD" not in rule.name
        else (["INT"], (1,), (2,)),
    )
    nodes = [FUNCTIONS.call("CAST", [_literal()], type=parse_type(each)) for each in types]
    rule, cast, result = FUNCTIONS.aggregate(rule.name, nodes)
    work = rule.make([node.type for node in cast], {}, result)
    alone = work.value(work.accumulate(work.create(), *arguments))
    both = work.accumulate(work.accumulate(work.create(), *arguments), *others) if rule.name != "SINGLE_VALUE" else None

    assert from_internal([alone if both is None else work.value(both)], result).null_count == 0
    if rule.retracts and both is not None:
        assert work.value(work.retract(both, *others)) == alone
    if rule.merges and rule.name != "SINGLE_VALUE":
        one, other = work.accumulate(work.create(), *arguments), work.accumulate(work.create(), *others)
        added = work.accumulate(work.accumulate(work.create(), *arguments), *others)
        assert work.value(work.merge(one, other)) == work.value(added)


def _literal():
    from funken.expr.sql.values import null

    return null()
