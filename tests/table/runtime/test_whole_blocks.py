"""Operators that handle whole blocks at once: the same changes in the same order as row by row, across a restore too."""

import random
from decimal import Decimal

import numpy as np
import pytest

from funken.columnar.keyed.groups import Groups
from funken.expr.sql.types import (
    BigIntType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntType,
    TimestampType,
    VarCharType,
)
from funken.expr.sql.values import EXACT
from funken.table.logical import AggregateCall, SortKey, WindowKind, WindowProperty, WindowShape
from funken.table.runtime import changes as changing
from funken.table.runtime import group, rank, window_aggregate
from funken.table.runtime.aggregates import AggregateCalls, PartialCalls
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
    types = {"COUNT": BigIntType(is_nullable=False), "SUM0": SOURCE.types[args[0]] if args else None}
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
        maybe(chance.choice((0.5, 0.25, 1e9))), maybe(chance.choice(("x", "yy", "z"))),
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


def changes_of(run, changes, size, watermarks=(None, None), sides=None):
    half = len(changes) // 2
    for part, watermark in zip((changes[:half], changes[half:]), watermarks, strict=True):
        for at in range(0, len(part), size):
            some = part[at : at + size]
            block = SOURCE.block([each for _, each in some], [kind for kind, _ in some])
            operator = run.harness.operator
            side = 0 if sides is None else sides[(at // 25) % len(sides)]
            (operator.process_second_block if side else operator.process_block)(block)
        run.again()
        if watermark is not None:
            run.watermark(watermark)
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


@pytest.mark.parametrize("calls", [(each,) for each in ADDED + ONLY_GROWING], ids=lambda calls: str(calls[0].function))
@pytest.mark.parametrize("before", [False, True])
def test_a_result_alone_changes_as_row_by_row(monkeypatch, calls, before):
    """Beside other results one that is missed goes unnoticed: theirs bring the row."""
    monkeypatch.setattr(group, "_FEW", 2)
    output = BlockSchema(["k", "found"], [SOURCE.types[0], calls[0].type])
    given = {"keys": (0,), "calls": calls, "retracts": calls[0] in ADDED, "update_before": before}
    nothing = [(0, (key, *[None] * 7)) for key in "abcdefabcdef"]
    changes = [*nothing, *changelog(random.Random(len(calls[0].function)), 60, given["retracts"])]
    whole, single = (Run(group.GroupAggregate, [SOURCE], output, **given) for _ in range(2))
    assert changes_of(whole, changes, 9) == changes_of(single, changes, 1)


DECIMALS = {"narrow": (9, 2, 10**4), "whole": (18, 0, 10**6), "wide": (38, 10, 10**30), "no room": (38, 30, 10**37)}


@pytest.mark.parametrize("name", DECIMALS)
def test_partial_aggregates_of_decimals_are_those_of_rows(name):
    precision, scale, most = DECIMALS[name]
    chance = random.Random(name)
    schema = BlockSchema(["d", "f"], [DecimalType(precision, scale), BooleanType()])
    total, average = DecimalType(38, scale), DecimalType(38, max(6, scale))
    types = {"SUM": total, "SUM0": total, "AVG": average, "MIN": schema.types[0], "MAX": schema.types[0]}
    calls = [AggregateCall(each, (0,), type_, filter=at) for each, type_ in types.items() for at in (None, 1)]
    numbers = [None if chance.random() < 0.2 else chance.randrange(-most, most) for _ in range(60)]
    rows = [
        (None if each is None else Decimal(each).scaleb(-scale, EXACT), chance.choice((True, False, None)))
        for each in [*numbers, None]
    ]
    groups = np.array([chance.randrange(7) for _ in numbers] + [7])
    partials, aggregates = PartialCalls(calls, schema), AggregateCalls(calls, schema, None, retracts=False)
    parts = Groups(groups * 2 + np.arange(len(rows)) % 2, 16)
    columns = partials.of_rows(schema.block(rows, [0] * len(rows)).batch, parts, None)
    found = partials.results(partials.together(columns, Groups(parts.slots // 2, 8)))
    expected = []
    for number in range(8):
        accumulators = aggregates.create()
        for each, at in zip(rows, groups.tolist(), strict=True):
            if at == number:
                aggregates.accumulate(accumulators, each)
        expected.append(aggregates.values(accumulators))
    assert list(zip(*(each.to_pylist() for each in found), strict=True)) == expected


@pytest.mark.parametrize("size", [1, 4])
def test_only_a_sum_of_nothing_but_negative_zeros_is_one(monkeypatch, size):
    monkeypatch.setattr(group, "_FEW", 2)
    calls = (call("SUM", 3), call("AVG", 3), call("SUM0", 3))
    output = BlockSchema(["k", "sum", "avg", "sum0"], [SOURCE.types[0], *[DoubleType()] * 3])
    values = [("a", -0.0), ("b", -0.0), ("a", None), ("b", 1.5)]
    changes = [(0, (key, None, None, value, None, None, None, None)) for key, value in values]
    given = {"keys": (0,), "calls": calls, "retracts": False, "update_before": False}
    found = changes_of(Run(group.GroupAggregate, [SOURCE], output, **given), changes * 2, size)
    assert [repr(each) for _, (key, *each) in found if key == "a"] == ["[-0.0, 0.0, 0.0]"]
    assert [each[0] for _, (key, *each) in found if key == "b"] == [-0.0, 1.5, 1.5, 3.0]


def test_partial_sums_of_negative_zeros_are_those_of_rows():
    calls = (call("SUM", 3), call("AVG", 3), call("SUM0", 3))
    rows = [("a", None, None, value, None, None, None, None) for value in (-0.0, None, -0.0)]
    batch = SOURCE.block(rows, [0] * 3).batch
    partials, groups = PartialCalls(calls, SOURCE), Groups(np.zeros(3, np.int64), 1)
    columns = partials.together(partials.of_rows(batch, groups, None), Groups(np.zeros(1, np.int64), 1))
    assert [repr(each.to_pylist()) for each in partials.results(columns)] == ["[-0.0]", "[0.0]", "[0.0]"]


def test_what_no_group_has_is_ignored_in_a_block_too(monkeypatch):
    monkeypatch.setattr(group, "_FEW", 2)
    chance, calls = random.Random(1), (call("COUNT"), call("SUM", 1))
    output = BlockSchema(["k", "n", "sum"], [SOURCE.types[0], *(each.type for each in calls)])
    changes = [(3, row(chance)) for _ in range(5)] + [(0, row(chance)) for _ in range(9)]
    given = {"keys": (0,), "calls": calls, "retracts": True, "update_before": True}
    whole, single = (Run(group.GroupAggregate, [SOURCE], output, **given) for _ in range(2))
    assert changes_of(whole, changes, 7) == changes_of(single, changes, 1)


SHAPES = [
    WindowShape(WindowKind.TUMBLE, 5, size=3000),
    WindowShape(WindowKind.HOP, 5, size=5000, slide=2000, offset=500),
    WindowShape(WindowKind.CUMULATE, 5, size=6000, slide=2000),
    WindowShape(WindowKind.SESSION, 5, gap=1000),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("retracts", [False, True])
def test_windows_have_the_rows_of_blocks(monkeypatch, shape, zone, retracts):
    chance = random.Random(shape.size)
    calls = ADDED if retracts else ADDED + ONLY_GROWING
    types = [SOURCE.types[0], *(each.type for each in calls), TimestampType(3), TimestampType(3)]
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    given = {
        "keys": (0,), "calls": calls, "window": shape, "rowtime": True, "local": True, "zone": zone,
        "properties": (WindowProperty.START, WindowProperty.END), "retracts": retracts,
    }  # fmt: skip
    changes = [(kind, (*each[:5], each[5] or 0, *each[6:])) for kind, each in changelog(chance, 100, False)]
    if retracts:  # what is taken back was there in the same block
        changes = [
            one
            for change in changes
            for one in ([change] if chance.random() < 0.5 else [change, (3, change[1]), change])
        ]
    found = []
    monkeypatch.setattr(PartialCalls, "serve", staticmethod(lambda *_: False))
    for few, size in ((2, 25), (1000, 1)):
        monkeypatch.setattr(window_aggregate, "_FEW", few)
        run = Run(window_aggregate.WindowAggregate, [SOURCE], output, **given)
        found.append(sorted(changes_of(run, changes, size, (4000, 99_000)), key=repr))
    assert found[0] == found[1]
    assert len(found[0]) > 5


def test_windows_may_come_as_columns(monkeypatch):
    chance, shape = random.Random(3), WindowShape(WindowKind.TUMBLE, 5, size=3000)
    source = BlockSchema(["k", "v", "start", "end"], [VarCharType(9), BigIntType(), TimestampType(3), TimestampType(3)])
    output = BlockSchema(["k", "n", "start"], [VarCharType(9), BigIntType(is_nullable=False), TimestampType(3)])
    rows = [
        (chance.choice("abc"), 1, at * 3 * 10**9, (at + 1) * 3 * 10**9)
        for at in [chance.randrange(3) for _ in range(60)]
    ]
    found = []
    serve = PartialCalls.serve
    for few in (2, 1000, 0):  # objects at once, one by one, arrays
        monkeypatch.setattr(window_aggregate, "_FEW", few)
        monkeypatch.setattr(PartialCalls, "serve", staticmethod(lambda *given, few=few: not few and serve(*given)))
        run = Run(
            window_aggregate.WindowAggregate, [source], output, keys=(0,), calls=(call("COUNT"),), window=shape, rowtime=True,
            local=False, zone="UTC", properties=(WindowProperty.START,), window_columns=(2, 3),
        )  # fmt: skip
        run.harness.operator.process_block(source.block(rows))
        found.append(sorted(run.watermark(99_000).text().split()))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 9


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("before", [False, True])
def test_the_latest_rows_of_keys_are_those_of_blocks(monkeypatch, seed, before):
    monkeypatch.setattr(changing, "_FEW", 2)
    chance = random.Random(seed)
    changes = [(kind, (*each[:5], each[5] or 0, *each[6:])) for kind, each in changelog(chance, 200, False)]
    given = {
        "keys": (0, 4) if seed % 2 else (0,),
        "time": 5,
        "last": True,
        "insert_only": False,
        "update_before": before,
    }
    whole, single = (Run(changing.DeduplicateByTime, [SOURCE], SOURCE, **given) for _ in range(2))
    assert changes_of(whole, changes, 25) == changes_of(single, changes, 1)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_the_first_rows_of_partitions_are_those_of_blocks(monkeypatch, seed, ascending, nulls_first):
    chance = random.Random(seed)
    limits = (-(1 << 63), (1 << 63) - 1)
    changes = [
        (kind, (each[0], limits[chance.randrange(2)] if chance.random() < 0.05 else each[1], *each[2:]))
        for kind, each in changelog(chance, 300, False)
    ]
    number = seed % 2 == 1
    output = BlockSchema([*SOURCE.names, "place"], [*SOURCE.types, BigIntType()]) if number else SOURCE
    given = {
        "partition": (0,) if seed % 3 else (0, 4), "order": (SortKey(1, ascending, nulls_first), SortKey(5, True, True)),
        "start": 1 + seed % 2, "end": 1 + seed % 3 + seed % 2, "number": number, "strategy": "append", "update_before": True,
    }  # fmt: skip
    found = []
    for few, size in ((2, 40), (1000, 1)):
        monkeypatch.setattr(rank, "_FEW", few)
        found.append(changes_of(Run(rank.Rank, [SOURCE], output, **given), changes, size))
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("number", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_the_best_rows_of_partitions_are_those_of_blocks(monkeypatch, seed, number, before):
    chance = random.Random(seed)
    order = [
        SortKey(place, chance.random() < 0.5, chance.random() < 0.5)
        for place in chance.sample((1, 2, 4, 5, 7), chance.choice((1, 2, 3)))
    ]
    output = BlockSchema([*SOURCE.names, "place"], [*SOURCE.types, BigIntType()]) if number else SOURCE
    given = {
        "partition": ((0,), (0, 4), ())[seed % 3], "order": tuple(order), "start": 1, "end": 1, "number": number,
        "strategy": "append", "update_before": before,
    }  # fmt: skip
    changes, found = changelog(chance, 300, False), []
    for few, size in ((2, 40), (1000, 1)):
        monkeypatch.setattr(rank, "_FEW", few)
        run = Run(rank.Rank, [SOURCE], output, **given)
        assert run.harness.operator._bests
        found.append(changes_of(run, changes, size))
    assert found[0] == found[1]
    assert len(found[0]) > 1


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("before", [False, True])
def test_rows_that_move_through_positions_do_as_those_that_replace_others(seed, before):
    chance = random.Random(seed)
    changes = [(0, (*each[:3], float(at), *each[4:])) for at, (_, each) in enumerate(changelog(chance, 300, False))]
    output = BlockSchema([*SOURCE.names, "place"], [*SOURCE.types, BigIntType()])
    given = {
        "partition": ((0,), ())[seed % 2], "order": (SortKey(1, False, True), SortKey(5, True, False)), "start": 1 + seed % 3,
        "end": 4 + seed % 3, "number": True, "update_before": before,
    }  # fmt: skip
    moved = changes_of(Run(rank.Rank, [SOURCE], output, strategy="append", **given), changes, 40)
    replaced = changes_of(Run(rank.Rank, [SOURCE], output, strategy="update", unique_key=(3,), **given), changes, 1)
    assert moved == replaced
    assert len(moved) > 50
