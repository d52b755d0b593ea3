"""Windows in arrays: what they emit, and what of it is saved, is what windows in objects have."""

import random
from collections import Counter

import pytest

from funken.expr.ir import Call, InputRef
from funken.expr.sql.types import BigIntType, BooleanType, DateType, DoubleType, IntType, TimestampType, VarCharType
from funken.table.logical import AggregateCall, JoinType, WindowKind, WindowProperty, WindowShape
from funken.table.runtime import aggregate_arrays
from funken.table.runtime import aggregates as partials
from funken.table.runtime.aggregates import PartialCalls
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.operator import KeyedTableOperator
from funken.table.runtime.time_joins import TableWindowJoin
from funken.table.runtime.window_aggregate import WindowAggregate
from tests.table.runtime.changelogs import Run

SOURCE = BlockSchema(
    ["k", "n", "i", "d", "s", "t", "f", "day", "x"],
    [
        VarCharType(9), BigIntType(), IntType(), DoubleType(), VarCharType(9), TimestampType(3), BooleanType(), DateType(),
        DoubleType(),
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
    call("MAX", 5), call("MIN", 7), call("MAX", 2, filter=6),
)  # fmt: skip
PROPERTIES = (WindowProperty.START, WindowProperty.END, WindowProperty.ROWTIME)
SHAPES = {
    "tumble": WindowShape(WindowKind.TUMBLE, 5, size=3000, offset=1000),
    "hop": WindowShape(WindowKind.HOP, 5, size=5000, slide=2000, offset=500),
    "gaps": WindowShape(WindowKind.HOP, 5, size=2000, slide=3000),
    "cumulate": WindowShape(WindowKind.CUMULATE, 5, size=6000, slide=2000),
    "session": WindowShape(WindowKind.SESSION, 5, gap=1500),
}


def row(chance, time):
    def maybe(value):
        return None if chance.random() < 0.15 else value

    return (
        maybe(chance.choice("abcdef")), maybe(chance.randrange(-5, 5)), maybe(chance.choice((1, 2**31 - 1, -7))),
        maybe(chance.choice((0.5, 0.25, 1024.0))), maybe(chance.choice(("x", "yy", "z"))),
        time * 10**6, maybe(chance.random() < 0.5), maybe(chance.randrange(4)),
        maybe(chance.choice((0.0, 1.5, float("nan")))),
    )  # fmt: skip


def steps(chance, retracts):
    """Blocks of some sizes, watermarks between them, rows that are late, and restores."""
    found, at, there = [], 0, []
    for _ in range(14):
        block = []
        for _ in range(chance.choice((1, 2, 7, 40))):
            if retracts and there and chance.random() < 0.3:
                block.append((chance.choice((1, 3)), there.pop(chance.randrange(len(there)))))
                continue
            new = row(chance, at + (-30_000 if chance.random() < 0.1 else chance.randrange(-4000, 3000)))
            there.append(new)
            block.append((chance.choice((0, 2)) if retracts else 0, new))
        found.append(block)
        at += chance.randrange(2500)
        if retracts:
            there = [each for each in there if each[5] // 10**6 > at]
        found.append(at - 500 if chance.random() < 0.7 else None)
    return found


def dropped(run):
    return run.harness.context.metrics.counter("numLateRecordsDropped").count


def work(run, plan, restores=lambda place: place % 7 == 3):
    late = 0
    for place, step in enumerate(plan):
        if isinstance(step, list):
            block = SOURCE.block([each for _, each in step], [kind for kind, _ in step])
            run.harness.operator.process_block(block)
        elif step is not None:
            run.watermark(step)
        if restores(place):
            late += dropped(run)
            run.again()
    late += dropped(run)
    return Counter((kind, repr(each)) for kind, each in run.end().changes), late


def in_objects(monkeypatch):
    monkeypatch.setattr(PartialCalls, "serve", staticmethod(lambda *_: False))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("retracts", [False, True])
def test_windows_in_arrays_are_those_in_objects(monkeypatch, name, seed, retracts):
    monkeypatch.setattr(aggregate_arrays, "_MANY", 30)
    monkeypatch.setattr(partials, "_FEWEST", 10)
    chance = random.Random(seed * 7 + len(name))
    calls = ADDED if retracts else GROWING
    keys = ((0,), (0, 4), (), (8, 7))[seed]
    types = [*(SOURCE.types[key] for key in keys), *(each.type for each in calls), *[TimestampType(3)] * 3]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    given = {
        "keys": keys, "calls": calls, "window": SHAPES[name], "rowtime": True, "local": seed == 1, "zone": "Asia/Kolkata",
        "properties": PROPERTIES, "retracts": retracts,
    }  # fmt: skip
    plan = steps(chance, retracts)
    arrays = work(Run(WindowAggregate, [SOURCE], output, **given), plan)
    with monkeypatch.context() as patch:
        in_objects(patch)
        objects = work(Run(WindowAggregate, [SOURCE], output, **given), plan)
    assert arrays == objects
    assert len(arrays[0]) > 2
    assert arrays[1] > 0 or retracts


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("first", ["arrays", "objects"])
def test_a_snapshot_of_one_form_restores_in_the_other(monkeypatch, name, first):
    plan = steps(random.Random(5), False)
    calls = GROWING
    types = [SOURCE.types[0], *(each.type for each in calls), *[TimestampType(3)] * 3]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    given = {
        "keys": (0,), "calls": calls, "window": SHAPES[name], "rowtime": True, "local": False, "zone": "UTC",
        "properties": PROPERTIES,
    }  # fmt: skip
    expected, _ = work(Run(WindowAggregate, [SOURCE], output, **given), plan)
    serve, form = PartialCalls.serve, [first]
    monkeypatch.setattr(PartialCalls, "serve", staticmethod(lambda *each: form[0] == "arrays" and serve(*each)))

    def restores(place):
        if place % 6 == 4:
            form[0] = "objects" if form[0] == "arrays" else "arrays"
            return True
        return False

    found, _ = work(Run(WindowAggregate, [SOURCE], output, **given), plan, restores)
    assert found == expected


def test_snapshots_have_the_keys_that_changed():
    output = BlockSchema(["k", "n", "s"], [SOURCE.types[0], BigIntType(), TimestampType(3)])
    given = {
        "keys": (0,), "calls": (call("COUNT"),), "window": SHAPES["tumble"], "rowtime": True, "local": False, "zone": "UTC",
        "properties": (WindowProperty.START,),
    }  # fmt: skip
    run = Run(WindowAggregate, [SOURCE], output, **given)
    operator, store = run.harness.operator, run.harness.operator.store

    def give(*rows):
        full = [(key, 1, 1, 0.0, "", time * 10**9, True, 0, 0.0) for key, time in rows]
        operator.process_block(SOURCE.block(full))

    def saved():
        snapshot = store.snapshot_changes()
        rows = [row for group in snapshot.groups.values() for row in group.get("windows", ())]
        gone = [row for group in (snapshot.deleted or {}).values() for row in group.get("windows", ())]
        return sorted((key[0], len(windows)) for key, _, windows in rows), sorted(key[0] for key, _ in gone)

    give(("a", 2), ("b", 2), ("a", 5))
    assert saved() == ([("a", 2), ("b", 1)], [])
    assert saved() == ([], [])
    give(("c", 5))
    assert saved() == ([("c", 1)], [])
    run.watermark(4000)
    assert saved() == ([("a", 1)], ["b"])
    give(("d", 5))
    run.watermark(9000)
    assert saved() == ([], ["a", "c"])


def test_windows_of_processing_time_end_by_the_clock():
    output = BlockSchema(["k", "n", "s"], [SOURCE.types[0], BigIntType(), TimestampType(3)])
    run = Run(
        WindowAggregate, [SOURCE], output, keys=(0,), calls=(call("COUNT"),),
        window=WindowShape(WindowKind.TUMBLE, 5, size=1000), rowtime=False, local=True, zone="UTC",
        properties=(WindowProperty.START,),
    )  # fmt: skip
    give = [("a", 1, 1, 0.0, "", 0, True, 0, 0.0)]
    run.harness.operator.process_block(SOURCE.block(give * 2))
    run.clock(600)
    run.harness.operator.process_block(SOURCE.block(give))
    run.again()
    assert run.text() == ""
    run.clock(1000)
    assert run.text() == "+I(a,3,@0)"
    run.harness.operator.process_block(SOURCE.block(give))
    run.clock(5000)
    assert run.text() == "+I(a,1,@1)"


# ---- joins

SIDE = BlockSchema(["k", "v", "s", "e"], [VarCharType(9), BigIntType(), TimestampType(3), TimestampType(3)])
LONGER = BlockSchema([f"c{place}" for place in range(8)], [*SIDE.types, *SIDE.types])


def sides(chance):
    """Blocks of two sides, watermarks, rows that are late."""
    found, at = [], 0
    for _ in range(20):
        rows = []
        for _ in range(chance.choice((1, 3, 20))):
            start = max(0, at // 3000 + chance.randrange(-1, 3)) * 3 * 10**9
            key = None if chance.random() < 0.15 else chance.choice("abc")
            value = None if chance.random() < 0.15 else chance.randrange(6)
            kind = 1 if chance.random() < 0.05 else chance.choice((0, 2))
            rows.append((kind, (key, value, start, start + 3 * 10**9)))
        found.append((chance.randrange(2), rows))
        at += chance.randrange(1500)
        found.append(at if chance.random() < 0.6 else None)
    return found


def joined(run, plan, restored):
    late = 0
    for place, step in enumerate(plan):
        if isinstance(step, tuple):
            index, rows = step
            block = SIDE.block([each for _, each in rows], [kind for kind, _ in rows])
            operator = run.harness.operator
            (operator.process_second_block if index else operator.process_block)(block)
        elif step is not None:
            run.watermark(step)
        if place % 9 == 5:
            late += dropped(run)
            restored(run)
    late += dropped(run)
    return Counter(run.end().changes), late


@pytest.mark.parametrize("kind", list(JoinType))
@pytest.mark.parametrize(("keys", "null_safe"), [(((0,), (0,)), (False,)), (((0,), (0,)), (True,)), (((), ()), ())])
@pytest.mark.parametrize("condition", [False, True])
def test_windows_are_joined_in_arrays_as_in_objects(monkeypatch, kind, keys, null_safe, condition):
    chance = random.Random(len(kind.name) + condition)
    more = Call(">", (InputRef(1, type=BigIntType()), InputRef(5, type=BigIntType())), type=BooleanType())
    given = {
        "kind": kind, "keys": keys, "windows": ((2, 3), (2, 3)), "rowtime": True, "zone": "UTC", "local": False,
        "null_safe": null_safe, "condition": more if condition else None, "parameters": {},
    }  # fmt: skip
    output = SIDE if kind in (JoinType.SEMI, JoinType.ANTI) else LONGER
    plan = sides(chance)
    arrays, late = joined(Run(TableWindowJoin, [SIDE, SIDE], output, **given), plan, Run.again)
    setup = KeyedTableOperator.setup

    def in_files(operator, *surroundings):
        setup(operator, *surroundings)
        operator.in_files = files[0]

    files = [True]
    monkeypatch.setattr(KeyedTableOperator, "setup", in_files)
    objects = joined(Run(TableWindowJoin, [SIDE, SIDE], output, **given), plan, Run.again)
    assert (arrays, late) == objects
    assert late
    assert arrays

    def changing(run):
        files[0] = not files[0]
        run.again()

    turned, _ = joined(Run(TableWindowJoin, [SIDE, SIDE], output, **given), plan, changing)
    assert turned == arrays
