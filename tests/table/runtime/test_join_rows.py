"""Regular joins: in memory and in files, a block at once and row by row, they emit and save the same."""

import random
from collections import Counter

import numpy as np
import pytest

from funken.expr.ir import Call, InputRef
from funken.expr.sql.types import BigIntType, BooleanType, DoubleType, TimestampType, VarCharType
from funken.state import backend
from funken.table.logical import JoinType
from funken.table.runtime import join_rows, joins, kept_rows
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.join_rows import JoinRows
from funken.table.runtime.joins import RegularJoin
from funken.table.runtime.keyed_blocks import KeyedRows, KeyNumbers
from tests.table.runtime.changelogs import Run

SIDE = BlockSchema(
    ["k", "m", "n", "d", "t", "id"],
    [VarCharType(9), BigIntType(), BigIntType(), DoubleType(), TimestampType(3), BigIntType()],
)
HOUR = 3_600_000
BOTH = BlockSchema([f"c{place}" for place in range(12)], [*SIDE.types, *SIDE.types])


class JoinInFiles(RegularJoin):
    """A join whose state is not in columns."""

    in_files = property(lambda self: True, lambda self, value: None)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let batches be put together, pairs be cut, and rows that are gone be left out, often."""
    monkeypatch.setattr(join_rows, "_FEW_GONE", 5)
    monkeypatch.setattr(join_rows, "_DEEP", 3)
    monkeypatch.setattr(join_rows, "_AT_ONCE", 7)
    monkeypatch.setattr(joins, "_PAIRS", 11)
    monkeypatch.setattr(backend, "_FEW_KEYS", 0)
    monkeypatch.setattr(kept_rows, "entries_in_memory", lambda backend, fields: 9)


def condition_of(name):
    one, other = InputRef(2, type=BigIntType()), InputRef(8, type=BigIntType())
    if name == "<":
        return Call("<", (one, other), type=BooleanType())
    if name == "+":  # nothing that Python computes for a pair
        return Call(
            "<", (Call("+", (one, other), type=BigIntType()), InputRef(11, type=BigIntType())), type=BooleanType()
        )
    return None


def row(chance, number):
    def maybe(value):
        return None if chance.random() < 0.15 else value

    return (
        maybe(chance.choice("abcd")), maybe(chance.randrange(3)), maybe(chance.randrange(5)),
        maybe(chance.choice((0.5, -0.0, 0.0, float("nan")))), maybe(chance.randrange(9) * 10**9), number,
    )  # fmt: skip


def plan_of(chance, retracts, distinct=True):
    """Blocks of both sides, of some sizes; some rows that are taken back never came."""
    there, found, number = ([], []), [], 0
    for _ in range(26):
        side, block = chance.randrange(2), []
        for _ in range(chance.choice((0, 1, 2, 9, 30))):
            rows = there[side]
            if retracts and rows and chance.random() < 0.4:
                block.append((chance.choice((1, 3)), rows.pop(chance.randrange(len(rows)))))
            elif retracts and chance.random() < 0.04:
                block.append((3, row(chance, -1)))
            else:
                number += 1
                new = row(chance, number if distinct else chance.randrange(3))
                rows.append(new)
                block.append((chance.choice((0, 2)) if retracts else 0, new))
        found.append((side, block))
    return found


def plain(value):
    """Return a value whose text is that of all that SQL holds for equal to it."""
    return value + 0.0 if type(value) is float else value


def play(run, plan, restores=lambda place: place % 9 == 4, ordered=True, at_once=True, hours=lambda place: 0):
    """Return what each block lets a join emit, and how often it was asked to take back what it does not know."""
    found, unknown = [], 0
    for place, (side, rows) in enumerate(plan):
        run.clock(hours(place) * HOUR)
        block = SIDE.block([each for _, each in rows], [kind for kind, _ in rows])
        operator = run.harness.operator
        give = operator.process_second_block if side else operator.process_block
        for at in (slice(None),) if at_once else (slice(each, each + 1) for each in range(len(block))):
            give(block[at])
        changes, run.changes = [(kind, repr(tuple(map(plain, each)))) for kind, each in run.changes], []
        found.append(changes if ordered else Counter(changes))
        if restores(place):
            unknown += run.harness.context.metrics.counter("numRetractionsOfUnknownRows").count
            run.again()
    return found, unknown + run.harness.context.metrics.counter("numRetractionsOfUnknownRows").count


def join(kind, keys, logic=RegularJoin, **arguments):
    output = SIDE if kind in (JoinType.SEMI, JoinType.ANTI) else BOTH
    return Run(logic, [SIDE, SIDE], output, kind=kind, keys=(keys, keys), **arguments)


@pytest.mark.parametrize("kind", JoinType)
@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("condition", [None, "<", "+"])
@pytest.mark.parametrize(("keys", "null_safe"), [((0,), (False,)), ((0, 1), (True, False)), ((3,), (True,)), ((), ())])
def test_a_block_is_joined_as_its_rows_one_by_one(kind, retracts, condition, keys, null_safe):
    plan = plan_of(random.Random(f"{kind}{retracts}{condition}{keys}"), retracts)
    given = {"null_safe": null_safe, "condition": condition_of(condition), "parameters": {}}
    columns = play(join(kind, keys, **given), plan)
    if condition != "+":
        assert columns == play(join(kind, keys, **given), plan, at_once=False)
    assert columns == play(join(kind, keys, JoinInFiles, **given), plan)
    assert any(columns[0]) or kind is JoinType.ANTI
    assert retracts or not columns[1]


@pytest.mark.parametrize("kind", JoinType)
@pytest.mark.parametrize("unique", [(None, None), ((1, 2), None), ((1, 2), (5,))])
@pytest.mark.parametrize("retracts", [False, True])
def test_equal_rows_and_rows_of_a_unique_key_are_told_apart(kind, unique, retracts):
    plan = plan_of(random.Random(f"{kind}{unique}"), retracts, distinct=False)
    given = {"unique": unique, "condition": condition_of("<"), "parameters": {}}
    columns = play(join(kind, (0,), **given), plan, ordered=False)
    assert columns == play(join(kind, (0,), **given), plan, ordered=False, at_once=False)
    assert columns == play(join(kind, (0,), JoinInFiles, **given), plan, ordered=False)
    assert any(columns[0]) or kind is JoinType.ANTI


@pytest.mark.parametrize("kind", JoinType)
@pytest.mark.parametrize("unique", [(None, None), ((1, 2), (5,))])
@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("ttl", [(2 * HOUR, 0), (3 * HOUR, 5 * HOUR)])
def test_rows_in_columns_expire_as_state_does(kind, unique, retracts, ttl):
    """Of a row of which there are several, all live as long as the last; a partner that comes or goes renews a padded row."""
    plan = plan_of(random.Random(f"{kind}{unique}{ttl}"), retracts, distinct=unique[0] is not None)
    given = {"unique": unique, "ttl": ttl}
    columns = play(join(kind, (0,), **given), plan, ordered=False, hours=lambda place: place)
    assert columns == play(join(kind, (0,), JoinInFiles, **given), plan, ordered=False, hours=lambda place: place)
    if kind not in (JoinType.SEMI, JoinType.ANTI):
        assert columns != play(join(kind, (0,), unique=unique), plan, ordered=False)


@pytest.mark.parametrize("kind", JoinType)
@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("ttl", [(0, 0), (1 << 50, 1 << 50)])
def test_a_snapshot_of_columns_restores_into_files_and_back(kind, begins, ttl):
    """With a lifetime that nothing outlives, and where one is given to state that had none, and taken away."""
    plan = plan_of(random.Random(f"{kind}{begins}"), True)
    expected, _ = play(join(kind, (0,)), plan, lambda place: False)
    forms = [join(kind, (0,), ttl=ttl).spec, join(kind, (0,), JoinInFiles, ttl=ttl[::-1]).spec]
    forms += [join(kind, (0,)).spec, join(kind, (0,), JoinInFiles).spec]
    run = join(kind, (0,))
    run.spec = forms[begins]

    def restores(place):
        if place % 3 == 1:
            forms.append(forms.pop(0))
            run.spec = forms[begins]
            return True
        return False

    found, _ = play(run, plan, restores)
    assert found == expected


def test_snapshots_have_the_keys_that_changed():
    run = join(JoinType.LEFT, (0,))
    operator, store = run.harness.operator, run.harness.operator.store

    def give(side, *changes):
        rows = [(key, 0, 0, 0.0, 0, number) for _, key, number in changes]
        block = SIDE.block(rows, [kind for kind, _, _ in changes])
        (operator.process_second_block if side else operator.process_block)(block)

    def saved(name):
        snapshot = store.snapshot_changes()
        rows = [each for group in snapshot.groups.values() for each in group.get(name, ())]
        gone = [each for group in (snapshot.deleted or {}).values() for each in group.get(name, ())]
        entries = {key[0]: sorted((entry[0][5], *entry[1:]) for entry in stored.values()) for key, _, stored in rows}
        return entries, sorted(key[0] for key, _ in gone)

    give(0, (0, "a", 1), (0, "b", 2), (0, "a", 1))
    assert saved("left") == ({"a": [(1, 2, 0)], "b": [(2, 1, 0)]}, [])
    assert saved("left") == ({}, [])
    give(1, (0, "b", 1), (0, "b", 2), (0, "c", 3))  # who has how many partners is saved with the left side
    assert saved("left") == ({"b": [(2, 1, 2)]}, [])
    give(0, (3, "b", 2), (0, "d", 9), (3, "d", 9), (3, "a", 1))
    assert saved("left") == ({"a": [(1, 1, 0)]}, ["b"])
    give(0, *[(0, "e", number) for number in range(9)], *[(3, "e", number) for number in range(9)])
    assert saved("left") == ({}, [])
    whole = {key[0] for group in store.snapshot().groups.values() for key, _, _ in group.get("left", ())}
    assert whole == {"a"}


def test_a_snapshot_is_of_the_moment_in_which_it_began():
    rows = JoinRows(SIDE, (0,), None, True)

    def change(kinds, *numbers):
        batch = SIDE.batch([("a", 0, 0, 0.0, 0, number) for number in numbers])
        adds = join_rows.np.array([kind == "+" for kind in kinds])
        rows.change(join_rows.KeyedRows(batch, (0,)), batch, adds, adds.astype("int64"))

    change("+" * 20, *range(20))
    written, _ = rows.begin_snapshot(True, lambda row: None)
    change("-" * 15, *range(15))
    rows.count_partners(join_rows.np.array([0]), join_rows.np.array([5]))
    [(key, _, entries)] = list(written)
    assert key == ("a",)
    assert sorted((entry[0][5], *entry[1:]) for entry in entries.values()) == [(number, 1, 1) for number in range(20)]
    assert len(rows) == 5


def test_rows_that_are_gone_leave_with_their_keys():
    rows = JoinRows(SIDE, (5,), None, False)
    for number in range(0, 400, 4):
        batch = SIDE.batch([("a", 0, 0, 0.0, 0, each) for each in range(number, number + 4)])
        keyed = join_rows.KeyedRows(batch, (5,))
        rows.change(keyed, batch, None, None)
        rows.change(keyed, batch, join_rows.np.zeros(4, bool), None)
    assert len(rows) == 0
    assert len(rows._keys) < 20
    asked = SIDE.batch([("a", 0, 0, 0.0, 0, each) for each in (399, 1)])
    assert len(rows.find(join_rows.KeyedRows(asked, (5,)))[1]) == 0


@pytest.mark.parametrize("spread", [1, 100, 1 << 40])
def test_keys_keep_their_numbers_however_they_come(spread):
    chance, known, width = random.Random(spread), KeyNumbers(1), BlockSchema(["k"], [BigIntType()])
    model = {}
    for size in (3, 40, 200, 1, 500, 60) * 3:
        values = [chance.randrange(-300, 300) * spread for _ in range(size)]
        if known._table is None and size == 60:
            values[0] = None  # as a null-safe join has it
        keyed = KeyedRows(width.batch([(each,) for each in values]), (0,))
        assert known.find(keyed).tolist() == [model.get(key, -1) for key in keyed.keys]
        numbers = known.numbers(keyed).tolist()
        for key, number in zip(keyed.keys, numbers, strict=True):
            assert model.setdefault(key, number) == number
            assert known[number] == key
    assert sorted(model.values()) == list(range(len(known)))
    assert (known._table is None) is (spread > 100)
    left = np.array(sorted(model.values())[::3])
    some = known.some(left)
    assert [some[number] for number in range(len(some))] == [known[number] for number in left.tolist()]
