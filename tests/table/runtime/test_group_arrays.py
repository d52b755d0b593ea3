"""Groups in arrays: what they emit, and what of it is saved, is what groups in objects have."""

import random

import pytest

from funken.expr.sql.types import BigIntType, BooleanType, DateType, DoubleType, IntType, TimestampType, VarCharType
from funken.table.logical import AggregateCall
from funken.table.runtime import group, group_arrays, operator
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.group import GroupAggregate
from tests.table.runtime.changelogs import Run

SOURCE = BlockSchema(
    ["k", "n", "i", "d", "s", "t", "f", "day", "g"],
    [
        VarCharType(9), BigIntType(), IntType(), DoubleType(), VarCharType(9), TimestampType(3), BooleanType(), DateType(),
        BooleanType(),
    ],
)  # fmt: skip


def call(function, *args, **more):
    type_ = BigIntType(is_nullable=False) if function == "COUNT" else SOURCE.types[args[0]]
    return AggregateCall(function, args, type_, **more)


ADDED = (
    call("COUNT"), call("COUNT", 4), call("COUNT", filter=6), call("SUM", 1), call("SUM", 2), call("SUM0", 2),
    call("SUM", 1, filter=6), call("AVG", 1), call("AVG", 2),
)  # fmt: skip
GROWING = (
    *ADDED, call("SUM", 3), call("AVG", 3), call("MIN", 1), call("MAX", 1), call("MAX", 4), call("MIN", 4, filter=6),
    call("MAX", 5), call("MIN", 7), call("COUNT", 1, distinct=True), call("COUNT", 1, distinct=True, filter=6),
    call("COUNT", 1, distinct=True, filter=8), call("SUM", 1, distinct=True, filter=6), call("MAX", 1, distinct=True),
    call("COUNT", 4, distinct=True, filter=6), call("COUNT", 1, 4, distinct=True), call("AVG", 2, distinct=True, filter=8),
)  # fmt: skip


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Let blocks of three rows be handled at once, and snapshots have steps."""
    monkeypatch.setattr(group, "_FEW", 3)
    monkeypatch.setattr(group_arrays, "_AT_ONCE", 2)


def row(chance):
    def maybe(value):
        return None if chance.random() < 0.15 else value

    return (
        maybe(chance.choice("abcdefgh")), maybe(chance.randrange(-5, 5)), maybe(chance.choice((1, 2**31 - 1, -7))),
        maybe(chance.choice((0.5, 0.25, 1024.0))), maybe(chance.choice(("x", "yy", "z"))),
        maybe(chance.randrange(9) * 10**9), maybe(chance.random() < 0.5), maybe(chance.randrange(4)),
        maybe(chance.random() < 0.5),
    )  # fmt: skip


def plan_of(chance, retracts):
    """Blocks of some sizes; some rows that are taken back never came, and some groups lose all of their rows."""
    found, there = [], []
    for _ in range(24):
        block = []
        for _ in range(chance.choice((1, 2, 5, 12, 40))):
            if retracts and there and chance.random() < 0.48:
                block.append((chance.choice((1, 3)), there.pop(chance.randrange(len(there)))))
            elif retracts and chance.random() < 0.02:
                block.append((3, row(chance)))
            else:
                there.append(row(chance))
                block.append((chance.choice((0, 2)) if retracts else 0, there[-1]))
        found.append(block)
    return found


def play(run, plan, restores=lambda place: place % 7 == 3):
    """Return what each block changes."""
    found = []
    for place, rows in enumerate(plan):
        run.harness.operator.process_block(SOURCE.block([each for _, each in rows], [kind for kind, _ in rows]))
        changes, run.changes = run.changes, []
        found.append(changes)
        if restores(place):
            run.again()
    return found


def groups(calls, keys=(0,), **given):
    types = [*(SOURCE.types[key] for key in keys), *(each.type for each in calls)]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    return Run(GroupAggregate, [SOURCE], output, keys=keys, calls=calls, **given)


def in_objects(patch):
    patch.setattr(operator, "FileSnapshotBackend", object)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_groups_in_arrays_change_as_those_in_objects(monkeypatch, seed, retracts, before):
    chance = random.Random(f"{seed}{retracts}")
    given = {"keys": ((0,), (0, 4), (), (7, 0))[seed % 4], "retracts": retracts, "update_before": before}
    given["calls"] = ADDED if retracts else GROWING
    plan = plan_of(chance, retracts)
    run = groups(**given)
    assert run.harness.operator._groups is not None
    arrays = play(run, plan)
    with monkeypatch.context() as patch:
        in_objects(patch)
        run = groups(**given)
        assert run.harness.operator._groups is None
        assert arrays == play(run, plan)
    assert sum(map(len, arrays)) > 50


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("arrays", [False, True])
def test_a_snapshot_of_one_form_restores_in_the_other(monkeypatch, retracts, arrays):
    plan = plan_of(random.Random(5), retracts)
    given = {"calls": ADDED if retracts else GROWING, "retracts": retracts, "update_before": True}
    expected = play(groups(**given), plan, lambda place: False)
    form, backend = [arrays], operator.FileSnapshotBackend

    def choose():
        monkeypatch.setattr(operator, "FileSnapshotBackend", backend if form[0] else object)

    def restores(place):
        if place % 5 == 4:
            form[0] = not form[0]
            choose()
            return True
        return False

    choose()
    assert play(groups(**given), plan, restores) == expected


def rows_of(found):
    return {key: (count, accumulators) for key, _, (count, accumulators) in found}


@pytest.mark.parametrize("retracts", [False, True])
def test_a_snapshot_is_of_the_moment_in_which_it_began(retracts):
    plan = plan_of(random.Random(9), retracts)
    run = groups(ADDED if retracts else GROWING, retracts=retracts, update_before=True)
    play(run, plan[:12], lambda place: False)
    table = run.harness.operator._groups
    expected = rows_of(table.begin_snapshot(True, print).rows)
    first = []
    written = table.begin_snapshot(True, first.append).rows
    found = [next(written)]
    play(run, plan[12:], lambda place: False)
    found += [*written, *first]
    assert len(found) == len(expected)
    assert rows_of(found) == expected
    assert rows_of(table.begin_snapshot(True, print).rows) != expected


def test_snapshots_have_the_groups_that_changed():
    run = groups((call("COUNT"),), retracts=True, update_before=True)

    def give(*changes):
        rows = [(key, *[None] * 8) for _, key in changes]
        run.harness.operator.process_block(SOURCE.block(rows, [kind for kind, _ in changes]))

    def saved():
        snapshot = run.harness.operator.store.snapshot_changes()
        rows = [each for part in snapshot.groups.values() for each in part.get("acc", ())]
        gone = [each for part in (snapshot.deleted or {}).values() for each in part.get("acc", ())]
        return sorted((key[0], stored[0]) for key, _, stored in rows), sorted(key[0] for key, _ in gone)

    give((0, "a"), (0, "b"), (0, "a"), (0, "c"), (3, "c"))
    assert saved() == ([("a", 2), ("b", 1)], [])
    assert saved() == ([], [])
    give((3, "b"))
    give((0, "d"), (0, "d"), (0, "d"), (3, "d"))
    assert saved() == ([("d", 2)], ["b"])
    give((3, "a"), (3, "a"), (0, "e"))
    give((0, "a"))
    give((3, "a"))
    assert saved() == ([("e", 1)], ["a"])
    give((3, "e"))
    give((0, "e"), (3, "d"))
    assert saved() == ([("d", 1), ("e", 1)], [])


@pytest.mark.parametrize("numbers", [
    (-(1 << 63), -(1 << 63) + 1), ((1 << 63) - 1, (1 << 63) - 2), (-(1 << 63), (1 << 63) - 1, 0), (5, None, -5), (None, None),
])  # fmt: skip
def test_the_least_and_the_greatest_of_any_numbers_are_found(numbers):
    run = groups((call("MIN", 1), call("MAX", 1)), keys=(), retracts=False, update_before=False)
    rows = [(None, number, *[None] * 7) for number in (*numbers, *numbers)]
    run.harness.operator.process_block(SOURCE.block(rows))
    there = [number for number in numbers if number is not None]
    assert run.changes[-1][1] == ((min(there), max(there)) if there else (None, None))
    assert run.harness.operator._groups.load_group(())[0] == len(rows)
