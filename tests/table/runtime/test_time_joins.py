"""Joins of intervals, versions and windows, over watermarks."""

import random
from collections import Counter
from typing import ClassVar

import pytest

from funken.expr.ir import Call, InputRef, Literal
from funken.expr.sql.types import BigIntType, BooleanType, TimestampType, VarCharType
from funken.ids import MAX_WATERMARK
from funken.state import backend
from funken.table.connectors.contract import LookupTable
from funken.table.exec_nodes import LookupKey
from funken.table.logical import JoinType
from funken.table.runtime import join_rows, joins, kept_rows, time_joins
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.lookups import LookupJoin
from funken.table.runtime.time_joins import TableIntervalJoin, TableWindowJoin, TemporalJoin
from tests.table.runtime.changelogs import SECOND, Run, materialized, schema

SIDE = schema("id:i k:s t:t")
BOTH = BlockSchema(
    ["id", "k", "t", "id0", "k0", "t0"],
    [BigIntType(), VarCharType(9), TimestampType(3), BigIntType(), VarCharType(9), TimestampType(3)],
)
LEFT = ["1,a,@1", "2,a,@5", "3,b,@6", "4,a,@20"]
RIGHT = ["11,a,@2", "12,a,@10", "13,c,@6", "14,a,@40"]


def side_by_side(run, left=LEFT, right=RIGHT):
    """Feed both sides in turns, with the watermark 2 s behind the slower one; restored in the middle."""
    reached = [0, 0]
    for place, rows in enumerate(zip(left, right, strict=True)):
        if place == len(left) // 2:
            run.again()
        for index, row in enumerate(rows):
            run.feed(f"+I({row})", index)
            reached[index] = max(reached[index], int(row.rpartition("@")[2]) * 1000 - 2000)
        run.watermark(min(reached))
    run.end()
    return run


def ids(run):
    return sorted((row[0], row[3]) for _, row in run.changes if len(row) > 3)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinType.INNER, [(1, 11), (2, 12)]),
        (JoinType.LEFT, [(1, 11), (2, 12), (3, None), (4, None)]),
        (JoinType.FULL, [(1, 11), (2, 12), (None, 13), (3, None), (4, None), (None, 14)]),
    ],
)
def test_rows_of_an_interval_meet(kind, expected):
    run = Run(
        TableIntervalJoin,
        [SIDE, SIDE],
        BOTH,
        kind=kind,
        keys=((1,), (1,)),
        times=(2, 2),
        bounds=(-5000, 0),
        rowtime=True,
    )
    side_by_side(run)
    found = [(row[0], row[3]) for _, row in run.changes]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {kind for kind, _ in run.changes} == {0}


def test_an_interval_join_forgets_what_cannot_meet_any_more():
    run = Run(
        TableIntervalJoin, [SIDE, SIDE], BOTH, kind=JoinType.INNER, keys=((1,), (1,)), times=(2, 2), bounds=(-5000, 5000),
        rowtime=True,
    )  # fmt: skip
    run.feed("+I(1,a,@10)").watermark(15_000).feed("+I(11,a,@15)", 1)
    assert run.text() == "+I(1,a,@10,11,a,@15)"
    run.watermark(15_001).feed("+I(12,a,@15)", 1)
    assert run.text() == ""
    run.watermark(30_000)
    assert run.harness.operator.store.own_entries == 0


@pytest.mark.parametrize(
    ("bounds", "rowtime", "behind"),
    [((-5000, 3000), True, 5000), ((1000, 4000), True, 4000), ((-4000, -3000), True, 4000), ((-5000, 0), False, 0)],
)
def test_the_watermark_stays_behind_the_rows_that_are_emitted_later(bounds, rowtime, behind):
    run = Run(
        TableIntervalJoin, [SIDE, SIDE], BOTH, kind=JoinType.FULL, keys=((1,), (1,)), times=(2, 2), bounds=bounds,
        rowtime=rowtime,
    )  # fmt: skip
    run.watermark(10_000).end()
    assert run.harness.watermarks == [10_000 - behind, MAX_WATERMARK]


class IntervalInFiles(TableIntervalJoin):
    """A join whose state is not in columns."""

    in_files = property(lambda self: True, lambda self, value: None)


def steps_of(chance):
    """Blocks of both sides, some rows of which are late, and watermarks, or the time of day."""
    found, reached = [], 0
    for number in range(30):
        reached += chance.choice((0, 0, 1, 4))
        found.append(reached * 1000)
        rows = [
            (number * 100 + each, chance.choice(["a", "b", "c", None]), (reached + chance.randrange(-3, 9)) * SECOND)
            for each in range(chance.choice((1, 3, 40)))
        ]
        found.append((chance.randrange(2), rows))
    return found


def rows_of_interval(kind, steps, bounds, condition, rowtime):
    """Return what each step emits, one row after the other."""
    reach = ((-bounds[1], -bounds[0]), bounds)
    outer = (kind.pads_right, kind.pads_left)
    kept, found, reached = ([], []), [], -(1 << 63)

    def both(side, row, other):
        return (*row, *other) if side == 0 else (*other, *row)

    for step in steps:
        emitted = Counter()
        found.append(emitted)
        if isinstance(step, int):
            reached = step
            for side, rows in enumerate(kept):
                for entry in [each for each in rows if each[1] + reach[side][1] + 1 <= reached]:
                    rows.remove(entry)
                    if outer[side] and not entry[2]:
                        emitted[both(side, entry[0], (None,) * 3)] += 1
            continue
        side, rows = step
        for row in rows:
            time = row[2] // 1_000_000 if rowtime else reached
            low, high = (time + each for each in reach[side])
            met = False
            for entry in kept[1 - side]:
                pair = both(side, row, entry[0])
                if row[1] == entry[0][1] and low <= entry[1] <= high and (not condition or pair[0] % 7 < pair[3] % 9):
                    emitted[pair] += 1
                    met = entry[2] = True
            if row[1] is not None and reached < high and low <= high:
                kept[side].append([row, time, met])
            elif outer[side] and not met:
                emitted[both(side, row, (None,) * 3)] += 1
    return found


@pytest.mark.parametrize("logic", [TableIntervalJoin, IntervalInFiles])
@pytest.mark.parametrize("kind", [JoinType.INNER, JoinType.LEFT, JoinType.RIGHT, JoinType.FULL])
@pytest.mark.parametrize("bounds", [(-5000, 0), (-2000, 3000), (1000, 4000), (-4000, -3000), (0, 0)])
@pytest.mark.parametrize("condition", [False, True])
@pytest.mark.parametrize("rowtime", [True, False])
def test_blocks_meet_within_their_interval_as_rows_one_by_one(monkeypatch, logic, kind, bounds, condition, rowtime):
    monkeypatch.setattr(joins, "_PAIRS", 7)
    monkeypatch.setattr(backend, "_FEW_KEYS", 0)
    monkeypatch.setattr(kept_rows, "entries_in_memory", lambda backend, fields: 9)
    monkeypatch.setattr(join_rows, "_FEW_GONE", 5)
    steps = steps_of(random.Random(f"{kind}{bounds}{condition}{rowtime}"))
    more = {}
    if condition:
        ids = [InputRef(place, type=BigIntType()) for place in (0, 3)]
        rests = [
            Call("MOD", (each, Literal(by, type=BigIntType())), type=BigIntType())
            for each, by in zip(ids, (7, 9), strict=True)
        ]
        more["condition"] = Call("<", tuple(rests), type=BooleanType())
    arguments = {"kind": kind, "keys": ((1,), (1,)), "times": (2, 2), "bounds": bounds, "rowtime": rowtime, **more}
    run = Run(logic, [SIDE, SIDE], BOTH, **arguments)
    forms = [Run(each, [SIDE, SIDE], BOTH, **arguments).spec for each in (IntervalInFiles, TableIntervalJoin)]
    found = []
    for place, step in enumerate(steps):
        if isinstance(step, int):
            (run.watermark if rowtime else run.clock)(step)
        else:
            operator = run.harness.operator
            (operator.process_second_block if step[0] else operator.process_block)(SIDE.block(step[1]))
        found.append(Counter(row for _, row in run.changes))
        run.changes = []
        if place % 8 == 5:  # on, in the other form
            forms.reverse()
            run.spec = forms[0]
            run.again()
    expected = rows_of_interval(kind, steps, bounds, condition, rowtime)
    assert found == expected
    assert not rowtime or sum(map(len, expected)) > 20


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinType.INNER, {(2, 11), (4, 12)}),
        (JoinType.LEFT, {(1, None), (2, 11), (3, None), (4, 12)}),
    ],
)
def test_a_row_meets_the_version_of_its_time(kind, expected):
    run = Run(TemporalJoin, [SIDE, SIDE], BOTH, kind=kind, keys=((1,), (1,)), times=(2, 2))
    side_by_side(run)
    assert {(row[0], row[3]) for _, row in run.changes} == expected


def test_a_version_that_was_deleted_does_not_hold():
    run = Run(TemporalJoin, [SIDE, SIDE], BOTH, kind=JoinType.LEFT, keys=((1,), (1,)), times=(2, 2))
    run.feed("+I(11,a,@2) -D(11,a,@4)", 1).feed("+I(1,a,@3) +I(2,a,@5)").watermark(10_000)
    assert run.text() == "+I(1,a,@3,11,a,@2) +I(2,a,@5,N,N,N)"


WINDOWED = schema("id:i k:s s:t e:t")
WINDOWS = BlockSchema([f"c{i}" for i in range(8)], WINDOWED.types * 2)


def windowed(rows):
    return [
        f"{row.rpartition('@')[0]}@{int(row.rpartition('@')[2]) // 10 * 10},@{int(row.rpartition('@')[2]) // 10 * 10 + 10}"
        for row in rows
    ]


def test_rows_of_equal_windows_meet():
    run = Run(
        TableWindowJoin, [WINDOWED, WINDOWED], WINDOWS, kind=JoinType.FULL, keys=((1,), (1,)), windows=((2, 3), (2, 3)),
        rowtime=True, zone="UTC", local=False,
    )  # fmt: skip
    for place, (left, right) in enumerate(zip(windowed(LEFT), windowed(RIGHT), strict=True)):
        if place == 2:
            run.again()
        run.feed(f"+I({left})").feed(f"+I({right})", 1)
    run.end()
    found = {(row[0], row[4], (row[2] if row[2] is not None else row[6]) // 10**9) for _, row in run.changes}
    assert found == {(1, 11, 0), (2, 11, 0), (None, 13, 0), (3, None, 0), (None, 12, 10), (4, None, 20), (None, 14, 40)}
    assert materialized(run.changes)


@pytest.mark.parametrize("null_safe", [False, True])
def test_null_keys_of_a_window_meet_only_if_the_comparison_is_null_safe(null_safe):
    run = Run(
        TableWindowJoin, [WINDOWED, WINDOWED], WINDOWS, kind=JoinType.FULL, keys=((1,), (1,)), windows=((2, 3), (2, 3)),
        rowtime=True, zone="UTC", local=False, null_safe=(null_safe,),
    )  # fmt: skip
    run.feed("+I(1,N,@0,@10) +I(2,a,@0,@10)").feed("+I(11,N,@0,@10) +I(12,a,@0,@10)", 1).end()
    found = {(row[0], row[4]) for _, row in run.changes}
    assert found == {(2, 12), *([(1, 11)] if null_safe else [(1, None), (None, 11)])}


@pytest.mark.parametrize(("kind", "expected"), [(JoinType.SEMI, {1, 2}), (JoinType.ANTI, {3, 4})])
def test_rows_are_kept_if_there_are_partners_in_the_window(kind, expected):
    run = Run(
        TableWindowJoin, [WINDOWED, WINDOWED], WINDOWED, kind=kind, keys=((1,), (1,)), windows=((2, 3), (2, 3)),
        rowtime=True, zone="UTC", local=False,
    )  # fmt: skip
    for left, right in zip(windowed(LEFT), windowed(RIGHT), strict=True):
        run.feed(f"+I({left})").feed(f"+I({right})", 1)
    run.end()
    assert {row[0] for _, row in run.changes} == expected


# ---- lookups


class Prices(LookupTable):
    """Rows ``(k, n, price)`` by ``k``; remembers what it was asked for."""

    asked: ClassVar[list] = []
    rows: ClassVar[list] = [("a", 1, 10), ("a", 2, 20), ("b", 3, None), ("c", 4, 5), ("a", 5, 30)]

    def lookup(self, keys):
        self.asked.append(keys)
        return [[row for row in self.rows if row[0] == key] for (key,) in keys]


PRICES = schema("k:s n:i price:i")
ORDERS = schema("id:i k:s least:i")


@pytest.mark.parametrize("kind", [JoinType.INNER, JoinType.LEFT])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize(
    ("condition", "columns"), [(False, (1, 2)), (False, (2,)), (False, ()), (True, (1, 2)), (True, (2,))]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_block_is_looked_up_as_its_rows_one_by_one(monkeypatch, kind, filtered, condition, columns, seed):
    monkeypatch.setattr(time_joins, "_PAIRS", 7)
    rng = random.Random(seed)
    rows = [(n, rng.choice(["a", "b", "c", "d", None]), rng.randrange(25)) for n in range(40)]
    kinds = [rng.randrange(4) for _ in rows]
    refs = [InputRef(place, type=PRICES.types[place]) for place in columns]
    types = [*ORDERS.types, *(PRICES.types[place] for place in columns)]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    price = InputRef(2, type=BigIntType())
    more = {}
    if condition:
        last = InputRef(len(types) - 1, type=BigIntType())
        more["condition"] = Call("<=", (price, last), type=BooleanType())
    if filtered:
        more["calc_condition"] = Call(">", (price, Literal(5, type=BigIntType())), type=BooleanType())
    run = Run(
        LookupJoin, [ORDERS], output, kind=kind, table=Prices(), table_schema=PRICES, keys=(LookupKey(0, left=1),), calc=refs,
        **more,
    )  # fmt: skip
    monkeypatch.setattr(Prices, "asked", [])
    run.harness.operator.process_block(ORDERS.block(rows, kinds))
    expected = []
    for change, row in zip(kinds, rows, strict=True):
        found = [other for other in Prices.rows if other[0] == row[1]]
        if filtered:
            found = [other for other in found if (other[2] or 0) > 5]
        if condition:
            found = [other for other in found if other[2] is not None and row[2] <= other[2]]
        expected += [(change, (*row, *(other[place] for place in columns))) for other in found]
        if not found and kind is JoinType.LEFT:
            expected.append((change, (*row, *[None] * len(columns))))
    assert run.changes == expected
    assert sorted(map(str, *Prices.asked)) == ["('a',)", "('b',)", "('c',)", "('d',)"]


def test_nothing_is_looked_up_for_no_key():
    output = BlockSchema(["id", "k", "least", "price"], [*ORDERS.types, BigIntType()])
    run = Run(
        LookupJoin, [ORDERS], output, kind=JoinType.LEFT, table=Prices(), table_schema=PRICES, keys=(LookupKey(0, left=1),),
        calc=[InputRef(2, type=BigIntType())],
    )  # fmt: skip
    before = len(Prices.asked)
    run.feed("+I(1,N,2) -D(2,N,3)", one_by_one=False)
    assert run.text() == "+I(1,N,2,N) -D(2,N,3,N)"
    assert len(Prices.asked) == before
