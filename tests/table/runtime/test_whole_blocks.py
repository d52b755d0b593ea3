"""Operators that handle whole blocks at once: the same changes in the same order as row by row, across a restore too."""

import random

import pytest

from funken.expr.sql.types import (
    BigIntType,
    BooleanType,
    DateType,
    DoubleType,
    IntType,
    TimestampType,
    VarCharType,
)
from funken.table.logical import AggregateCall
from funken.table.runtime import group
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.running import RunningCalls
from tests.table.runtime.changelogs import KINDS, Run

SOURCE = BlockSchema(
    ["k", "n", "i", "d", "s", "t", "f", "day"],
    [
        VarCharType(9), BigIntType(), IntType(), DoubleType(), VarCharType(9), TimestampType(3), BooleanType(), DateType(),
    ],
)  # fmt: skip


def call(function, *args, **more):
    types = {"COUNT": BigIntType(nullable=False), "SUM0": SOURCE.types[args[0]] if args else None}
    return AggregateCall(function, args, types.get(function) or SOURCE.types[args[0]], **more)


ADDED = (
    call("COUNT"), call("COUNT", 4), call("COUNT", filter=6), call("SUM", 1), call("SUM", 2), call("SUM0", 2),
    call("SUM", 1, filter=6), call("AVG", 1), call("AVG", 2),
)  # fmt: skip
ONLY_GROWING = (
    call("SUM", 3), call("AVG", 3), call("MIN", 1), call("MAX", 1), call("MAX", 4), call("MIN", 4, filter=6), call("MAX", 5),
    call("MIN", 7), call("COUNT", 1, distinct=True), call("COUNT", 4, distinct=True, filter=6),
    call("SUM", 2, distinct=True), call("MAX", 1, distinct=True), call("COUNT", 1, 4, distinct=True),
)  # fmt: skip


def row(chance):
    def maybe(value):
        return None if chance.random() < 0.1 else value

    return (
        maybe(chance.choice("abcdef")), maybe(chance.randrange(-5, 5)), maybe(chance.choice((1, 2**31 - 1, -7))),
        maybe(chance.choice((0.1, 0.25, 1e9))), maybe(chance.choice(("x", "yy", "z"))),
        maybe(chance.randrange(9) * 10**9), maybe(chance.random() < 0.5), maybe(chance.randrange(4)),
    )  # fmt: skip


def changelog(chance, length, retracts):
    found, there = [], []
    while len(found) < length:
        if retracts and there and chance.random() < 0.45:
            old = there.pop(chance.randrange(len(there)))
            found.append((chance.choice((1, 3)), old))
        else:
            new = row(chance)
            there.append(new)
            found.append((chance.choice((0, 2)) if retracts else 0, new))
    return found


def changes_of(run, changes, size):
    half = len(changes) // 2
    for part in (changes[:half], changes[half:]):
        for at in range(0, len(part), size):
            some = part[at : at + size]
            block = SOURCE.block([each for _, each in some], [kind for kind, _ in some])
            run.harness.operator.process_block(block)
        run.again()
    return [(KINDS[kind], each) for kind, each in run.changes]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_groups_change_as_row_by_row(monkeypatch, seed, retracts, before):
    monkeypatch.setattr(group, "_FEW", 2)
    chance = random.Random(seed)
    calls = ADDED if retracts else ADDED + ONLY_GROWING
    assert RunningCalls.serve(calls, SOURCE, retracts)
    keys = chance.choice(((0,), (0, 4), (), (7, 0)))
    types = [*(SOURCE.types[key] for key in keys), *(each.type for each in calls)]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    given = {"keys": keys, "calls": calls, "retracts": retracts, "update_before": before}
    changes = changelog(chance, 120, retracts)
    whole, single = (Run(group.GroupAggregate, [SOURCE], output, **given) for _ in range(2))
    assert changes_of(whole, changes, 25) == changes_of(single, changes, 1)


def test_what_no_group_has_is_ignored_in_a_block_too(monkeypatch):
    monkeypatch.setattr(group, "_FEW", 2)
    chance, calls = random.Random(1), (call("COUNT"), call("SUM", 1))
    output = BlockSchema(["k", "n", "sum"], [SOURCE.types[0], *(each.type for each in calls)])
    changes = [(3, row(chance)) for _ in range(5)] + [(0, row(chance)) for _ in range(9)]
    given = {"keys": (0,), "calls": calls, "retracts": True, "update_before": True}
    whole, single = (Run(group.GroupAggregate, [SOURCE], output, **given) for _ in range(2))
    assert changes_of(whole, changes, 7) == changes_of(single, changes, 1)
