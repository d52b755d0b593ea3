"""Programs whose records are columns give what the same programs give record by record."""

import math
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from funken import Configuration
from funken.columnar.kernels.columns import columns_of
from funken.dataset import Aggregations, CombineHint, ExecutionEnvironment, JoinHint
from funken.dataset.columns.block import ColumnBlock, block_of
from funken.dataset.columns.joins import ColumnTable, RowTable
from funken.dataset.memory.manager import MemoryManager, weight
from funken.dataset.plan.keys import Key
from funken.errors import OperatorFailed
from funken.expr.types import INT, STR, Tuple
from funken.io.spill import SpillSpace, dump, load
from tests.dataset.programs import TINY

WIDE = 2**62


def environment(vectorized, parallelism=2, budget=None):
    options = {"parallelism.default": parallelism, "pipeline.vectorized": vectorized}
    if budget is not None:
        options["execution.memory.managed"] = budget
    return ExecutionEnvironment.create_local_environment(configuration=Configuration(options))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    chance = random.Random(5)

    def write(name, rows, **columns):
        parquet.write_table(pa.table(columns), folder / name, row_group_size=max(1, rows // 5))

    rows = 4000
    write(
        "left",
        rows,
        key=[chance.randrange(-300, 300) for _ in range(rows)],
        text=[f"t{chance.randrange(40)}" for _ in range(rows)],
        number=[chance.randrange(1000) for _ in range(rows)],
        share=[float(chance.randrange(-50, 50)) for _ in range(rows)],
    )
    write(
        "right",
        600,
        key=[chance.randrange(-400, 400) for _ in range(600)],
        value=[chance.choice([1, WIDE, -WIDE]) for _ in range(600)],
        odd=[chance.choice([math.nan, 1.0, -2.0]) for _ in range(600)],
    )
    write("hollow", 10, key=[*range(9), None], value=list(range(10)))
    return folder


def left(env, files):
    return env.read_parquet_file(files / "left", ["key", "text", "number", "share"])


def right(env, files):
    return env.read_parquet_file(files / "right", ["key", "value", "odd"])


PROGRAMS = {
    "map": lambda env, f: left(env, f).map(lambda r: (r[2] * 2, r[1], r[3] / 4, r[0] > 0)),
    "opaque map": lambda env, f: left(env, f).map(lambda r: (str(r).count("1"), r[0])),
    "filter": lambda env, f: left(env, f).filter(lambda r: r[1] == "t7" or r[2] < 100),
    "filter by truth": lambda env, f: left(env, f).filter(lambda r: r[0]),
    "filter none": lambda env, f: left(env, f).filter(lambda r: r[2] < 0),
    "flat map": lambda env, f: left(env, f).flat_map(lambda r: [r[0]] * (r[2] % 3)),
    "project": lambda env, f: left(env, f).project(1, 0, 1),
    "sum": lambda env, f: left(env, f).project(0, 2).group_by(0).sum(1),
    "sum of floats": lambda env, f: left(env, f).project(1, 3).group_by(0).sum(1),
    "several": lambda env, f: (
        left(env, f)
        .project(1, 2, 3, 0)
        .group_by(0)
        .aggregate(Aggregations.SUM, 1)
        .and_(Aggregations.MIN, 2)
        .and_(Aggregations.MAX, 3)
    ),
    "two keys": lambda env, f: left(env, f).project(0, 1, 2).group_by(1, 0).max(2),
    "by a function": lambda env, f: left(env, f).project(0, 2).group_by(lambda r: r[0] % 7).reduce(max),
    "sums that overflow": lambda env, f: right(env, f).project(0, 1).group_by(0).sum(1),
    "no order": lambda env, f: right(env, f).filter(lambda r: r[2] == r[2]).group_by(0).max(2).project(0, 2),
    "distinct": lambda env, f: left(env, f).project(0, 1).distinct(),
    "distinct texts": lambda env, f: left(env, f).project(1).distinct(0),
    "sorted reduce": lambda env, f: (
        left(env, f).project(0, 2).group_by(0).reduce(lambda a, b: (a[0], a[1] + b[1]), CombineHint.SORT)
    ),
    "sorted": lambda env, f: left(env, f).partition_by_range(0).sort_partition(0).project(0),
    "rebalanced": lambda env, f: left(env, f).rebalance().project(0, 2).group_by(0).sum(1),
    "pairs": lambda env, f: left(env, f).join(right(env, f)).where(0).equal_to(0),
    "pairs by text": lambda env, f: (
        left(env, f).filter(lambda r: r[0] == 5).join(left(env, f).filter(lambda r: r[0] == 9)).where(1).equal_to(1)
    ),
    "join": lambda env, f: (
        left(env, f)
        .join(right(env, f))
        .where(0)
        .equal_to(0)
        .using(lambda one, other: (one[1], one[2] + 1, other[0] * 2))
    ),
    "join with overflow": lambda env, f: (
        left(env, f).join(right(env, f)).where(0).equal_to(0).using(lambda one, other: (one[2], other[1] * 4))
    ),
    "opaque join": lambda env, f: (
        left(env, f).join(right(env, f)).where(0).equal_to(0).using(lambda one, other: [one[0], other[0]])
    ),
    "projected join": lambda env, f: (
        left(env, f)
        .join(right(env, f), JoinHint.REPARTITION_HASH_SECOND)
        .where(0)
        .equal_to(0)
        .project_first(1)
        .project_second(0, 1)
    ),
    "join of columns and records": lambda env, f: (
        left(env, f).join(env.from_collection([(n, "x") for n in range(50)])).where(0).equal_to(0)
    ),
    "join of records and columns": lambda env, f: (
        env.from_collection([(n, "x") for n in range(50)])
        .join(left(env, f), JoinHint.BROADCAST_HASH_SECOND)
        .where(0)
        .equal_to(0)
    ),
    "outer join": lambda env, f: (
        left(env, f).left_outer_join(right(env, f)).where(0).equal_to(0).using(lambda a, b: (a[2], b and b[1]))
    ),
    "merge join": lambda env, f: (
        left(env, f).join(right(env, f), JoinHint.REPARTITION_SORT_MERGE).where(0).equal_to(0).project_first(1)
    ),
    "union with records": lambda env, f: (
        left(env, f).project(0, 2).union(env.from_collection([(n % 30, n) for n in range(900)])).group_by(0).sum(1)
    ),
    "nulls": lambda env, f: env.read_parquet_file(f / "hollow", ["value", "key"]).map(lambda r: (r[0], r[1])),
    "sequence": lambda env, f: env.generate_sequence(-40, 90_000).map(lambda n: (n % 11, n)).group_by(0).sum(1),
    "long numbers": lambda env, f: env.generate_sequence(2**63 - 3, 2**63 + 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("budget", [None, TINY])
def test_the_result_is_that_of_records(name, budget, files):
    by_record = PROGRAMS[name](environment(False), files).collect()

    for parallelism in (1, 3):
        found = PROGRAMS[name](environment(True, parallelism, budget), files).collect()
        found_order = found if name == "sorted" else sorted(found, key=repr)
        assert repr(found_order) == repr(sorted(by_record) if name == "sorted" else sorted(by_record, key=repr))
        assert all(map(_same_types, found[:50]))


def _same_types(record):
    fields = record if isinstance(record, tuple) else (record,)
    return all(type(field).__module__ == "builtins" for field in fields)  # nothing of NumPy or Arrow comes out


def test_joins_and_aggregates_of_columns_touch_no_record(files, monkeypatch):
    def refuse(*_):
        raise AssertionError("a block became records")

    env = environment(True)
    numbers = left(env, files).filter(lambda r: r[2] > 10).map(lambda r: (r[0], r[2]))
    joined = numbers.join(right(env, files)).where(0).equal_to(0).using(lambda one, other: (other[0], one[1]))
    data = joined.group_by(0).sum(1).map_partition(lambda records: [sum(1 for _ in records)])
    monkeypatch.setattr(RowTable, "append", refuse)
    seen = []
    rows = ColumnBlock.rows
    monkeypatch.setattr(ColumnBlock, "rows", lambda block: seen.append(len(block)) or rows(block))

    groups = sum(data.collect())

    assert sum(seen) == groups > 100  # only the last operator wants records


def test_an_error_names_the_record(files):
    env = environment(True)

    with pytest.raises(OperatorFailed, match=r"at the record \(.*'t\d+'.*ZeroDivisionError"):
        left(env, files).map(lambda r: r[0] // (r[2] - r[2])).collect()


def test_a_function_that_changed_is_called(files):
    env, found = environment(True, 1), []
    limit = 10
    data = left(env, files).filter(lambda r: r[2] < limit)
    found.append(data.count())
    limit = 500
    found.append(data.count())
    assert found == [
        left(environment(False), files).filter(lambda r, limit=limit: r[2] < limit).count() for limit in (10, 500)
    ]


def test_a_block_of_columns_is_serialised_as_columns():
    block = block_of(columns_of([(number, f"text {number}") for number in range(1000)], Tuple((INT, STR))))

    again = load(dump(block))

    assert isinstance(again, ColumnBlock)
    assert list(again) == list(block)
    assert weight(block) > 1000 * (8 + 6)


def test_a_key_with_many_partners_is_joined_in_pieces():
    memory = MemoryManager(2**24, 1, SpillSpace())
    table = ColumnTable(memory.share("join"), Key(((0,),)), Key(((0,),)))
    table.append(block_of(columns_of([(1, number) for number in range(1000)], Tuple((INT, INT)))))
    probe = block_of(columns_of([(1, number) for number in range(100)], Tuple((INT, INT))))

    pieces = [(one.to_list(), other.to_list()) for one, other in table.pairs(probe)]

    assert len(pieces) == 4
    assert max(len(one) for one, _ in pieces) == 2**15
    pairs = [(a[1], b[1]) for one, other in pieces for a, b in zip(one, other, strict=True)]
    assert sorted(pairs) == sorted((a, b) for a in range(1000) for b in range(100))


numbers = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))


@settings(deadline=None, max_examples=60)
@given(st.lists(numbers, max_size=60), st.lists(numbers, max_size=60))
def test_positions_of_equal_keys(built, probed):
    memory = MemoryManager(2**24, 1, SpillSpace())
    table = ColumnTable(memory.share("join"), Key(((0,),)), Key(((0,),)))
    if built:
        table.append(block_of(columns_of([(key, at) for at, key in enumerate(built)], Tuple((INT, INT)))))
    found = []
    if built and probed:
        block = block_of(columns_of([(key, at) for at, key in enumerate(probed)], Tuple((INT, INT))))
        for one, other in table.pairs(block):
            found += zip(one.to_list(), other.to_list(), strict=True)

    expected = [((key, at), (key, of)) for of, key in enumerate(probed) for at, own in enumerate(built) if own == key]
    assert found == expected  # in the order of the probe side, then of the build side
