"""Laws of aggregate functions: rows come and are taken back in any order, and in parts that are merged."""

import random
from decimal import Decimal

import pytest

from funken.expr.ir import InputRef, Literal
from funken.expr.rules import AggregateRule
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.types import BigIntType, DecimalType, DoubleType, VarCharType

VALUES = {
    BigIntType(): [1, 2, 3, None],
    DecimalType(9, 2): [Decimal("1.25"), Decimal("-2.50"), Decimal(0), None],
    VarCharType(9): ["a", "b", "cc", None],
}
HALF = Literal(0.5, type=DoubleType())
FUNCTIONS_OF = {  # the types of the values, and what follows these in a call
    "COUNT": (tuple(VALUES), ()),
    "SUM": (tuple(VALUES)[:2], ()),
    "SUM0": (tuple(VALUES)[:2], ()),
    "AVG": (tuple(VALUES)[:2], ()),
    "MIN": (tuple(VALUES), ()),
    "MAX": (tuple(VALUES), ()),
    "VAR_POP": (tuple(VALUES)[:2], ()),
    "STDDEV_SAMP": (tuple(VALUES)[:2], ()),
    "COLLECT": (tuple(VALUES), ()),
    "ARRAY_AGG": (tuple(VALUES), ()),
    "LISTAGG": (tuple(VALUES)[2:], ()),
    "APPROX_COUNT_DISTINCT": (tuple(VALUES), ()),
    "PERCENTILE": (tuple(VALUES)[:2], (HALF,)),
}
CASES = [(name, type_, rest) for name, (types, rest) in FUNCTIONS_OF.items() for type_ in types]


def in_any_order(found):
    if isinstance(found, str):
        return sorted(found.split(","))
    return sorted(found, key=repr) if isinstance(found, list) else found


@pytest.mark.parametrize(("name", "type_", "rest"), CASES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_parts_of_changes_come_to_the_rows_that_are_left(name, type_, rest, seed):
    """A part may take back what another one has; where all is taken back, the result is that of no rows."""
    rule = FUNCTIONS.get(name)
    assert isinstance(rule, AggregateRule)
    args, result = rule.infer([InputRef(0, type=type_), *rest], {})
    function = rule.make([each.type for each in args], {"retracting": True}, result)
    chance = random.Random(seed)
    given = [each.value for each in rest]
    changes, left = [], []
    for _ in range(0 if seed == 0 else 24):
        value = chance.choice(VALUES[type_])
        changes.append((True, value))
        if seed == 1 or chance.random() < 0.5:
            changes.append((False, value))
        else:
            left.append(value)
    chance.shuffle(changes)
    parts = [function.create() for _ in range(3)]
    for adds, value in changes:
        at = chance.randrange(3)
        parts[at] = (function.accumulate if adds else function.retract)(parts[at], value, *given)
    merged = function.merge(function.merge(parts[0], parts[1]), parts[2])
    expected = function.create()
    for value in left:
        expected = function.accumulate(expected, value, *given)
    assert in_any_order(function.value(merged)) == in_any_order(function.value(expected))
