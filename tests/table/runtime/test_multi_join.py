"""Joins of several relations in one operator: combinations that come and go, and the result of any changelog."""

import random

import pytest

from funken.expr.ir import Call, InputRef
from funken.expr.sql.types import BigIntType, BooleanType, TimestampType, VarCharType
from funken.state import backend
from funken.table.connectors.values import register_rows, results_of
from funken.table.logical import JoinType
from funken.table.runtime import kept_rows, multi_join
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.multi_join import MultiJoin
from funken.table.runtime.process import tagged_schema
from funken.types.row import Row, RowKind
from tests.table.runtime.changelogs import Run, materialized, parse, schema
from tests.table.sql.tables import physical, session

KV = schema("k:s v:i")
INNER, LEFT = JoinType.INNER, JoinType.LEFT


class MultiJoinInFiles(MultiJoin):
    """A join whose state is not in columns."""

    in_files = property(lambda self: True, lambda self, value: None)


def join(kinds, pairs=None, conditions=None, unique=None, logic=MultiJoin, **arguments):
    count = len(kinds) + 1
    types = [VarCharType(100), BigIntType()] * count
    output = BlockSchema([f"c{place}" for place in range(len(types))], types)
    given = {
        "schemas": [KV] * count,
        "keys": [(0,)] * count,
        "kinds": kinds,
        "pairs": pairs or [()] * len(kinds),
        "conditions": conditions or [None] * len(kinds),
        "unique": unique or [None] * count,
        "ttls": [0] * count,
    }
    return Run(logic, [tagged_schema(KV, 0)], output, **(given | arguments))


def feed(run, index, text):
    block_schema = tagged_schema(KV, index)
    for kind, row in parse(text):
        run.harness.operator.process_block(block_schema.block([row], [kind]))
    return run


CASES = [
    ([INNER, INNER], ["0+I(a,1)", "1+I(a,2)", "2+I(a,3)", "2+I(a,4)", "1-D(a,2)"],
     "+I(a,1,a,2,a,3) +I(a,1,a,2,a,4) -D(a,1,a,2,a,3) -D(a,1,a,2,a,4)"),
    ([INNER, INNER], ["0+I(a,1)", "0+I(a,1)", "1+I(a,2)", "2+I(a,3)", "0-U(a,1)"],
     "+I(a,1,a,2,a,3) +I(a,1,a,2,a,3) -U(a,1,a,2,a,3)"),
    ([LEFT, LEFT], ["0+I(a,1)", "2+I(a,3)", "1+I(a,2)", "1-D(a,2)", "2-D(a,3)", "0-D(a,1)"],
     "+I(a,1,N,N,N,N) -D(a,1,N,N,N,N) +I(a,1,N,N,a,3) -D(a,1,N,N,a,3) +I(a,1,a,2,a,3) -D(a,1,a,2,a,3) +I(a,1,N,N,a,3) "
     "-D(a,1,N,N,a,3) +I(a,1,N,N,N,N) -D(a,1,N,N,N,N)"),
    ([LEFT, INNER], ["0+I(a,1)", "2+I(a,3)", "1+I(a,2)"], "+I(a,1,N,N,a,3) -D(a,1,N,N,a,3) +I(a,1,a,2,a,3)"),
    ([LEFT, LEFT], ["0+I(N,1)", "1+I(N,2)", "0+I(b,1)", "1-D(b,9)"], "+I(N,1,N,N,N,N) +I(b,1,N,N,N,N)"),
    ([INNER, LEFT], ["1+I(a,2)", "0+I(a,1)", "0+U(a,5)"], "+I(a,1,a,2,N,N) +U(a,5,a,2,N,N)"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_row_changes_the_combinations_that_it_is_part_of(case):
    kinds, changes, expected = CASES[case]
    run = join(kinds)
    for place, change in enumerate(changes):
        if place == len(changes) // 2:
            run.again()
        feed(run, int(change[0]), change[1:])
    assert run.text() == expected


def test_a_new_row_of_a_unique_key_takes_the_place_of_the_old_one():
    run = join([INNER, INNER], unique=[(0,), None, None])
    feed(feed(feed(run, 1, "+I(a,2)"), 2, "+I(a,3)"), 0, "+I(a,1) -U(a,1) +U(a,7)").again()
    assert feed(run, 0, "-D(a,7)").text() == "+I(a,1,a,2,a,3) -U(a,1,a,2,a,3) +U(a,7,a,2,a,3) -D(a,7,a,2,a,3)"


@pytest.mark.parametrize("logic", [MultiJoin, MultiJoinInFiles])
def test_rows_of_a_relation_expire(logic):
    run = feed(join([INNER, LEFT], ttls=[0, 1000, 1000], logic=logic), 1, "+I(a,2)")
    feed(feed(run.clock(500), 2, "+I(a,3)"), 0, "+I(a,1)").again()
    assert feed(run.clock(1000), 0, "+I(a,4)").text() == "+I(a,1,a,2,a,3)"
    assert feed(run, 1, "+I(a,5)").text() == "+I(a,1,a,5,a,3) +I(a,4,a,5,a,3)"
    assert feed(run.clock(1500), 0, "+I(a,6)").text() == "+I(a,6,a,5,N,N)"


def test_equal_columns_may_have_other_precisions():
    times = [BlockSchema(["k", "t"], [VarCharType(9), TimestampType(precision)]) for precision in (3, 6)]
    schemas = [times[0], times[1], times[1]]
    output = BlockSchema([f"c{place}" for place in range(6)], [each for one in schemas for each in one.types])
    run = Run(
        MultiJoin, [tagged_schema(KV, 0)], output, schemas=schemas, keys=[(0,)] * 3, kinds=[INNER] * 2,
        pairs=[((1, 1),), ((3, 1),)], conditions=[None] * 2, unique=[None] * 3, ttls=[0] * 3,
    )  # fmt: skip
    for index, nanos in ((0, [2_000_000, None]), (1, [2_000_000, 2_000_001_000, None]), (2, [2_000_000, None])):
        block = tagged_schema(schemas[index], index).block([("a", each) for each in nanos])
        run.harness.operator.process_block(block)
    assert [row for _, row in run.changes] == [("a", 2_000_000) * 3]


def expected(kinds, rows, fits):
    """All combinations, by nested loops."""
    found = [row for row in rows[0]]
    for place, kind in enumerate(kinds, 1):
        longer = []
        for prefix in found:
            partners = [row for row in rows[place] if fits(place, prefix, row)]
            longer += [(*prefix, *row) for row in partners]
            if not partners and kind is LEFT:
                longer.append((*prefix, None, None))
        found = longer
    left = {}
    for row in found:
        left[row] = left.get(row, 0) + 1
    return left


@pytest.mark.parametrize("logic", [MultiJoin, MultiJoinInFiles])
@pytest.mark.parametrize("most", [1, 12])
@pytest.mark.parametrize("seed", range(8))
def test_the_result_of_any_changelog(monkeypatch, seed, most, logic):
    monkeypatch.setattr(multi_join, "_PAIRS", 7)
    monkeypatch.setattr(backend, "_FEW_KEYS", 0)
    monkeypatch.setattr(kept_rows, "entries_in_memory", lambda backend, fields: 9)
    rng = random.Random(seed)
    kinds = [rng.choice([INNER, LEFT]) for _ in range(rng.choice([2, 3]))]
    less = rng.randrange(len(kinds)) if seed % 2 else -1  # in one join the value of the first relation is less
    conditions, pairs = [None] * len(kinds), [()] * len(kinds)
    if less >= 0:
        columns = InputRef(1, type=BigIntType()), InputRef(2 * less + 3, type=BigIntType())
        conditions[less] = Call("<", columns, type=BooleanType())
    if seed % 3 == 0:  # in the last one the key equals that of the relation before, which may be padded
        pairs[-1] = ((2 * len(kinds) - 2, 0),)

    def fits(place, prefix, row):
        equal = prefix[0] is not None and prefix[0] == row[0]
        if place - 1 == less:
            equal = equal and None not in (prefix[1], row[1]) and prefix[1] < row[1]
        for left, right in pairs[place - 1]:
            equal = equal and prefix[left] is not None and prefix[left] == row[right]
        return equal

    run = join(kinds, pairs, conditions, logic=logic)
    forms = [join(kinds, pairs, conditions, logic=each).spec for each in (MultiJoinInFiles, MultiJoin)]
    rows = [[] for _ in range(len(kinds) + 1)]
    for step in range(60):
        index, changes = rng.randrange(len(rows)), []
        for _ in range(rng.randint(1, most)):
            there = rows[index]
            if there and rng.random() < (0.4 if len(there) < 12 else 0.7):
                changes.append((3, there.pop(rng.randrange(len(there)))))
            elif rng.random() < 0.05:
                changes.append((3, ("a", 9)))  # that never came
            else:
                changes.append((0, (rng.choice(["a", "b", None]), rng.choice([1, 2, 3, None]))))
                there.append(changes[-1][1])
        block = tagged_schema(KV, index).block([row for _, row in changes], [kind for kind, _ in changes])
        run.harness.operator.process_block(block)
        if step % 20 == 19:  # on, in the other form
            forms.reverse()
            run.spec = forms[0]
            run.again()
    assert materialized(run.changes) == expected(kinds, rows, fits)


# ---- plans


def configured(**options):
    tables = session()
    for key, value in ({"table.optimizer.multi-join.enabled": "true", "execution.target": "local"} | options).items():
        tables.get_config().set(key, value)
    return tables


def operators(query, **options):
    return [line.split("(")[0] for line in physical(configured(**options), query) if "Join(" in line]


CHAIN = "SELECT a.k, a2.v, c.v FROM a {} JOIN a2 ON a.k = a2.k {} JOIN c ON {}"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (CHAIN.format("", "", "a.k = c.k"), ["MultiJoin"]),
        (CHAIN.format("LEFT", "LEFT", "a2.k = c.k"), ["MultiJoin"]),
        (CHAIN.format("LEFT", "", "a.k = c.k AND a2.v < c.v"), ["MultiJoin"]),
        (CHAIN.format("", "", "a.id = c.id"), ["Join", "Join"]),
        (CHAIN.format("", "FULL", "a.k = c.k"), ["Join", "Join"]),
        (CHAIN.format("", "", "a.k IS NOT DISTINCT FROM c.k"), ["Join", "Join"]),
        (f"{CHAIN.format('', '', 'a.k = c.k')} JOIN cp ON c.id = cp.id", ["Join", "MultiJoin"]),
        ("SELECT a.k FROM a JOIN a2 ON a.k = a2.k", ["Join"]),
    ],
)
def test_which_joins_are_one(query, found):
    assert operators(query) == found
    assert "MultiJoin" not in operators(query, **{"table.optimizer.multi-join.enabled": "false"})


def test_the_plan_says_what_is_joined():
    query = (
        "SELECT /*+ STATE_TTL('x' = '1d', 'z' = '2d') */ x.v, y.v, z.v FROM a AS x JOIN cp AS y ON x.k = y.k "
        "LEFT JOIN c AS z ON x.k = z.k AND y.v > z.v"
    )
    (line,) = [line for line in physical(configured(), query) if line.startswith("MultiJoin(")]
    assert "commonJoinKey=[k], joinTypes=[INNER, LEFT], inputUniqueKeys=[noUniqueKey, (id), noUniqueKey]" in line
    assert "stateTtlHints=[[[STATE_TTL options:[1d, 0s, 2d]]]]" in line
    assert "joinConditions=[=(k, k0), AND(=(k, k1), >(v0, v1))]" in line
    assert line.endswith("changelogMode=[I,UB,UA,D])")
    assert "keeps the rows of relation 2; never expires" in configured().explain_sql(query)


FROMS = {
    "condition": "one LEFT JOIN two ON one.k = two.k AND one.v < two.v JOIN three ON one.k = three.k",
    "key of one join": "one JOIN two ON one.k = two.k AND one.w = two.w LEFT JOIN three ON one.k = three.k",
    "key of the last join": "one LEFT JOIN two ON one.k = two.k JOIN three ON one.k = three.k AND one.w = three.w",
    "padded key": "one LEFT JOIN two ON one.k = two.k AND one.w = two.w JOIN three ON one.k = three.k AND two.w = three.w",
}


@pytest.mark.parametrize("enabled", ["true", "false"])
@pytest.mark.parametrize("parallelism", ["1", "3"])
@pytest.mark.parametrize("case", FROMS)
def test_the_result_is_that_of_single_joins(enabled, parallelism, case):
    tables = configured(**{"table.optimizer.multi-join.enabled": enabled, "parallelism.default": parallelism})
    rng = random.Random(5)
    for name in ("one", "two", "three"):
        rows = []
        for number in range(30):
            row = (rng.randrange(6), number, rng.randrange(3))
            rows.append(Row.of_kind(RowKind.INSERT, *row))
            if number % 3 == 0:
                rows.append(Row.of_kind(RowKind.DELETE, *row))
        tables.execute_sql(
            f"CREATE TABLE {name} (k INT, v INT, w INT) WITH ('connector' = 'values', 'changelog-mode' = 'I,UB,UA,D', "
            f"'data-id' = '{register_rows(rows)}')"
        )
    result = f"multi-{enabled}-{parallelism}-{case}"
    tables.execute_sql(
        f"CREATE TABLE joined (a INT, b INT, c INT) WITH ('connector' = 'values', 'result-id' = '{result}')"
    )
    tables.execute_sql(f"INSERT INTO joined SELECT one.v, two.v, three.v FROM {FROMS[case]}").wait()
    found = sorted((tuple(row) for row in results_of(result).rows()), key=repr)
    assert found == KNOWN.setdefault(case, found)
    assert len(found) > 20


KNOWN: dict = {}


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_keyed_sink_loses_rows_whose_condition_holds_no_more(enabled):
    tables = configured(**{"table.optimizer.multi-join.enabled": enabled, "parallelism.default": "1"})
    changes = [
        Row.of_kind(RowKind.INSERT, 1, 5),
        Row.of_kind(RowKind.UPDATE_BEFORE, 1, 5),
        Row.of_kind(RowKind.UPDATE_AFTER, 1, 0),
    ]
    for name, rows in (("first", changes), ("second", [(1, 3)]), ("third", [(1, 4)])):
        delay = 200 if name == "first" else 0
        tables.execute_sql(
            f"CREATE TABLE {name} (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('connector' = 'values', "
            f"'changelog-mode' = 'I,UB,UA,D', 'start-delay' = '{delay} ms', 'data-id' = '{register_rows(rows)}')"
        )
    result = f"stale-{enabled}"
    tables.execute_sql(
        "CREATE TABLE keyed_sink (k INT PRIMARY KEY NOT ENFORCED, a INT, b INT) WITH ('connector' = 'values', "
        f"'sink-changelog-mode-enforced' = 'I,UA,D', 'result-id' = '{result}')"
    )
    tables.execute_sql(
        "INSERT INTO keyed_sink SELECT first.k, first.v, third.v FROM first JOIN second ON first.k = second.k "
        "AND first.v > second.v JOIN third ON first.k = third.k"
    ).wait()
    assert results_of(result).changes
    assert results_of(result).rows() == []
