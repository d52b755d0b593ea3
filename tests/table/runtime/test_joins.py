"""Regular joins: the changelogs of each kind, and the final rows of random ones."""

import random

import pytest

from funken.expr.ir import Call, InputRef
from funken.expr.sql.types import BigIntType, BooleanType, VarCharType
from funken.table.logical import JoinType
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.joins import RegularJoin
from tests.table.runtime.changelogs import Run, materialized, parse, schema
from tests.table.runtime.test_join_rows import JoinInFiles

SIDE = schema("k:s v:i")
BOTH = BlockSchema(["k", "v", "k0", "v0"], [VarCharType(9), BigIntType(), VarCharType(9), BigIntType()])


def join(kind, **arguments):
    exists = kind in (JoinType.SEMI, JoinType.ANTI)
    return Run(RegularJoin, [SIDE, SIDE], SIDE if exists else BOTH, kind=kind, keys=((0,), (0,)), **arguments)


def play(run, text):
    """``L+I(a,1) R+I(a,10)``: changes of both sides, restored in the middle."""
    steps = text.split()
    for place, step in enumerate(steps):
        if place == len(steps) // 2:
            run.again()
        run.feed(step[1:], "LR".index(step[0]))
    return run.text()


CASES = {
    "inner": (
        JoinType.INNER,
        "L+I(a,1) R+I(a,10) R+I(a,11) L-D(a,1) L+I(a,1) R-D(a,10)",
        "+I(a,1,a,10) +I(a,1,a,11) -D(a,1,a,10) -D(a,1,a,11) +I(a,1,a,10) +I(a,1,a,11) -D(a,1,a,10)",
    ),
    "inner, equal rows": (
        JoinType.INNER,
        "L+I(a,1) L+I(a,1) R+I(a,10) L-D(a,1)",
        "+I(a,1,a,10) +I(a,1,a,10) -D(a,1,a,10)",
    ),
    "left": (
        JoinType.LEFT,
        "L+I(a,1) R+I(a,10) R+I(a,11) R-D(a,10) R-D(a,11) L-U(a,1) L+U(a,2) L-D(a,2)",
        "+I(a,1,N,N) -D(a,1,N,N) +I(a,1,a,10) +I(a,1,a,11) -D(a,1,a,10) -D(a,1,a,11) +I(a,1,N,N) -D(a,1,N,N) "
        "+I(a,2,N,N) -D(a,2,N,N)",
    ),
    "full": (
        JoinType.FULL,
        "L+I(a,1) R+I(a,10) L-D(a,1) R-D(a,10) R+I(N,5) L+I(N,6)",
        "+I(a,1,N,N) -D(a,1,N,N) +I(a,1,a,10) -D(a,1,a,10) +I(N,N,a,10) -D(N,N,a,10) +I(N,N,N,5) +I(N,6,N,N)",
    ),
    "semi": (
        JoinType.SEMI,
        "L+I(a,1) R+I(a,10) R+I(a,11) R-D(a,10) R-D(a,11) R+I(a,9)",
        "+I(a,1) -D(a,1) +I(a,1)",
    ),
    "anti": (
        JoinType.ANTI,
        "L+I(a,1) R+I(a,10) R+I(a,11) R-D(a,10) R-D(a,11)",
        "+I(a,1) -D(a,1) +I(a,1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_join_emits(name):
    kind, changes, expected = CASES[name]
    assert play(join(kind), changes) == expected


def test_null_keys_meet_only_if_the_comparison_is_null_safe():
    assert play(join(JoinType.INNER), "L+I(N,1) R+I(N,2)") == ""
    assert play(join(JoinType.INNER, null_safe=(True,)), "L+I(N,1) R+I(N,2)") == "+I(N,1,N,2)"


def test_a_row_of_a_unique_key_takes_the_place_of_the_one_before():
    run = join(JoinType.LEFT, unique=(None, (0,)), upserts=(False, True))
    assert play(run, "L+I(a,1) R+I(a,10) R+U(a,11) R+U(a,11) R-D(a,11)") == (
        "+I(a,1,N,N) -D(a,1,N,N) +I(a,1,a,10) +U(a,1,a,11) +U(a,1,a,11) -D(a,1,a,11) +I(a,1,N,N)"
    )


@pytest.mark.parametrize("logic", [RegularJoin, JoinInFiles])
def test_a_side_of_one_row_is_replaced_by_its_next(logic):
    one, two = schema("v:i"), BlockSchema(["v", "w"], [BigIntType(), BigIntType()])
    run = Run(
        logic, [one, one], two, kind=JoinType.FULL, keys=((), ()), unique=(None, ()), upserts=(False, True)
    ).feed("+I(1)")  # fmt: skip
    run.feed("+I(10) +U(11)", 1, one_by_one=False)
    assert run.text() == "+I(1,N) -D(1,N) +I(1,10) +U(1,11)"
    assert run.again().feed("-D(0)", 1).text() == "-D(1,11) +I(1,N)"


def test_state_that_has_expired_is_not_joined():
    run = join(JoinType.INNER, ttl=(1000, 0)).feed("+I(a,1)").clock(1000)
    assert run.feed("+I(a,2)", 1).text() == ""
    assert run.feed("+I(a,3)").text() == "+I(a,3,a,2)"


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("logic", [RegularJoin, JoinInFiles])
def test_equal_rows_live_as_long_as_the_last_of_them(logic, again):
    run = Run(logic, [SIDE, SIDE], BOTH, kind=JoinType.INNER, keys=((0,), (0,)), ttl=(1000, 0)).feed("+I(a,1)")
    run.clock(600).feed("+I(a,1)").clock(1100)
    if again:
        run.again()
    assert run.feed("+I(a,2)", 1).text() == "+I(a,1,a,2) +I(a,1,a,2)"
    run.clock(1600)
    assert run.feed("+I(a,3)", 1).text() == ""


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("logic", [RegularJoin, JoinInFiles])
def test_a_row_lives_on_when_a_partner_comes_or_goes(logic, again):
    """Its number of partners is stored with it."""
    run = Run(logic, [SIDE, SIDE], BOTH, kind=JoinType.LEFT, keys=((0,), (0,)), ttl=(1000, 0)).feed("+I(a,1)")
    run.clock(600).feed("+I(a,2)", 1).clock(1100)
    if again:
        run.again()
    run.feed("-D(a,2)", 1)
    assert run.text() == "+I(a,1,N,N) -D(a,1,N,N) +I(a,1,a,2) -D(a,1,a,2) +I(a,1,N,N)"
    run.clock(2100)
    assert run.feed("+I(a,3)", 1).text() == ""


def _expected(kind, sides):
    left, right = ([row for row, count in side.items() for _ in range(count)] for side in sides)
    found = []
    for one in left:
        partners = [other for other in right if one[0] is not None and one[0] == other[0]]
        if kind is JoinType.SEMI or kind is JoinType.ANTI:
            found += [one] if bool(partners) is (kind is JoinType.SEMI) else []
            continue
        found += [(*one, *other) for other in partners]
        if not partners and kind.pads_right:
            found.append((*one, None, None))
    if kind.pads_left:
        keys = {one[0] for one in left if one[0] is not None}
        found += [(None, None, *other) for other in right if other[0] not in keys]
    counts = {}
    for row in found:
        counts[row] = counts.get(row, 0) + 1
    return counts


@pytest.mark.parametrize("kind", JoinType)
@pytest.mark.parametrize("seed", range(5))
def test_random_changes_leave_the_rows_of_the_join(kind, seed):
    chance = random.Random(f"{kind}{seed}")
    run, there = join(kind), ([], [])
    for step in range(60):
        side = chance.randrange(2)
        rows = there[side]
        if rows and chance.random() < 0.4:
            change = f"-D({rows.pop(chance.randrange(len(rows)))})"
        else:
            rows.append(f"{chance.choice('abN')},{chance.randrange(3)}")
            change = f"+I({rows[-1]})"
        run.feed(change, side)
        if step == 30:
            run.again()
    sides = [materialized([(0, parse(f"+I({row})")[0][1]) for row in rows]) for rows in there]
    assert materialized(run.changes) == _expected(kind, sides)


KEYED = schema("k:s id:i v:i")
PAIRS = BlockSchema([f"c{place}" for place in range(6)], [*KEYED.types, *KEYED.types])
LESS = Call("<", (InputRef(2, type=BigIntType()), InputRef(5, type=BigIntType())), type=BooleanType())


def _rows_of_upserts(kind, left, right, condition):
    pairs = [
        (one, other)
        for one in left
        for other in right
        if one[0] == other[0] and (condition is None or one[2] < other[2])
    ]
    met, meets = {one for one, _ in pairs}, {other for _, other in pairs}
    if kind in (JoinType.SEMI, JoinType.ANTI):
        return {one for one in left if (one in met) is (kind is JoinType.SEMI)}
    found = {(*one, *other) for one, other in pairs}
    if kind.pads_right:
        found |= {(*one, None, None, None) for one in left if one not in met}
    if kind.pads_left:
        found |= {(None, None, None, *other) for other in right if other not in meets}
    return found


@pytest.mark.parametrize("logic", [RegularJoin, JoinInFiles])
@pytest.mark.parametrize("at_once", [1, 7])
@pytest.mark.parametrize("condition", [None, LESS])
@pytest.mark.parametrize("kind", JoinType)
@pytest.mark.parametrize("seed", range(3))
def test_upserts_leave_the_rows_of_the_join_by_its_key(kind, seed, condition, at_once, logic):
    """Updates come without the row before, deletions with nothing but the key; what comes out is read by its key, too."""
    chance = random.Random(f"{kind}{seed}{condition}")
    exists = kind in (JoinType.SEMI, JoinType.ANTI)
    run = Run(
        logic, [KEYED, KEYED], KEYED if exists else PAIRS, kind=kind, keys=((0,), (0,)), condition=condition,
        unique=((0, 1), (0, 1)), upserts=(True, True),
    )  # fmt: skip
    there = ({}, {})
    for step in range(0, 81, at_once):
        side, changes = chance.randrange(2), []
        for _ in range(at_once):
            key = chance.choice("ab"), chance.randrange(3)
            if key in there[side] and chance.random() < 0.3:
                del there[side][key]
                changes.append(f"-D({key[0]},{key[1]},N)")
            else:
                change = "+U" if key in there[side] else "+I"
                there[side][key] = (*key, chance.randrange(4))
                changes.append(f"{change}({key[0]},{key[1]},{there[side][key][2]})")
        run.feed(" ".join(changes), side, one_by_one=False)
        if step % 40 == 35:
            run.again()
    left = {}
    for change, row in run.changes:
        name = row[:2] if exists else (*row[:2], *row[3:5])
        if change in (0, 2):
            assert (name in left) is (change == 2)
            left[name] = row
        else:
            del left[name]
        assert change != 1  # no row before an update
    assert set(left.values()) == _rows_of_upserts(kind, *(list(rows.values()) for rows in there), condition)
