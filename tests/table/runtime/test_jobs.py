"""Plans as jobs: blocks of tables cross exchanges, at several parallelisms, and state is where its rows are."""

from dataclasses import replace

import pytest

from funken import Row, RowKind, StreamExecutionEnvironment
from funken.expr.sql.types import BigIntType, VarCharType
from funken.table import exec_nodes as nodes
from funken.table.changelog import ChangelogMode
from funken.table.config import TableConfig
from funken.table.environment import StreamTableEnvironment
from funken.table.logical import JoinType, OutputColumn, RelationType, SortKey
from funken.table.physical import to_row_stream
from funken.table.schema import Schema
from tests.table.runtime.changelogs import materialized

KV = RelationType((OutputColumn("k", VarCharType(9)), OutputColumn("v", BigIntType())))
BOTH = RelationType((*KV.columns, *(OutputColumn(f"{column.name}0", column.type) for column in KV)))
NUMBERED = RelationType((*KV.columns, OutputColumn("rn", BigIntType())))


def stream(env, rows):
    return nodes.ExecStream(env.from_collection(rows), row_type=KV)


def exchanged(node, keys=(0,)):
    return nodes.ExecExchange(node, keys, row_type=node.row_type, mode=node.mode)


def rows_of(env, node):
    root = nodes.ExecSink(node, None, row_type=node.row_type, mode=node.mode)
    found = to_row_stream(env, root, TableConfig()).execute_and_collect(limit=10_000)
    return [(row.get_row_kind().value, tuple(row)) for row in found]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_rank_of_each_key(parallelism):
    env = StreamExecutionEnvironment.create_local_environment(parallelism)
    rows = [(key, number) for number in range(40) for key in ("a", "b", "c", None)]
    rank = nodes.ExecRank(
        exchanged(stream(env, rows)), (0,), (SortKey(1, False, False),), 1, 2, number=True, row_type=NUMBERED,
        mode=ChangelogMode.all(),
    )  # fmt: skip
    changes = rows_of(env, rank)
    assert materialized(changes) == {
        (key, value, place): 1 for key in ("a", "b", "c", None) for value, place in ((39, 1), (38, 2))
    }
    assert env.get_parallelism() == parallelism


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_join_of_two_sides(parallelism):
    env = StreamExecutionEnvironment.create_local_environment(parallelism)
    left = exchanged(stream(env, [("a", 1), ("b", 2), (None, 3)]))
    right = exchanged(stream(env, [("a", 10), ("a", 11), ("c", 12)]))
    join = nodes.ExecJoin(
        left=left, right=right, kind=JoinType.FULL, left_keys=(0,), right_keys=(0,), row_type=BOTH,
        mode=ChangelogMode.all(),
    )  # fmt: skip
    assert materialized(rows_of(env, join)) == {
        ("a", 1, "a", 10): 1,
        ("a", 1, "a", 11): 1,
        ("b", 2, None, None): 1,
        (None, 3, None, None): 1,
        (None, None, "c", 12): 1,
    }


def test_a_sub_plan_that_is_used_twice_is_built_once():
    env = StreamExecutionEnvironment.create_local_environment(1)
    below = stream(env, [("a", 1), ("b", 2)])
    union = nodes.ExecUnion((below, below), row_type=KV)
    assert materialized(rows_of(env, union)) == {("a", 1): 2, ("b", 2): 2}


def test_operators_keep_their_uid_when_the_plan_changes_elsewhere():
    def uids(more):
        env = StreamExecutionEnvironment.create_local_environment(1)
        rows_stream(env, 2)
        if more:
            rows_stream(env, 3)
        return {node.uid for node in env.graph if node.name == "Rank"}

    def rows_stream(env, end):
        rank = nodes.ExecRank(
            exchanged(stream(env, [("a", 1)])), (0,), (SortKey(1),), 1, end, row_type=KV, mode=ChangelogMode.all()
        )
        return to_row_stream(env, nodes.ExecSink(rank, None, row_type=KV), TableConfig())

    assert uids(more=False) < uids(more=True)


@pytest.mark.parametrize(("change", "same"), [({"ttl": 5}, True), ({"end": 3}, False), ({"partition": (1,)}, False)])
def test_uids_say_what_an_operator_does(change, same):
    def uid(**changes):
        env = StreamExecutionEnvironment.create_local_environment(1)
        below = exchanged(stream(env, [("a", 1)]))
        rank = nodes.ExecRank(below, (0,), (SortKey(1),), 1, 2, row_type=KV, mode=ChangelogMode.all())
        to_row_stream(env, nodes.ExecSink(replace(rank, **changes), None, row_type=KV), TableConfig())
        return next(node.uid for node in env.graph if node.name == "Rank")

    assert (uid(**change) == uid()) is same


def test_changes_keep_their_order_on_their_way_into_a_table():
    env = StreamExecutionEnvironment.create_local_environment(3)
    tables = StreamTableEnvironment.create(env)
    changes = [Row.of_kind(RowKind.INSERT, 1, 0)]
    for number in range(1, 200):
        changes += [Row.of_kind(RowKind.UPDATE_AFTER, 1, number), Row.of_kind(RowKind.DELETE, 1, number)]
        changes.append(Row.of_kind(RowKind.INSERT, 1, number))
    schema = Schema.new_builder().column("k", "BIGINT NOT NULL").column("v", "BIGINT").primary_key("k").build()
    table = tables.from_changelog_stream(env.from_collection(changes), schema, ChangelogMode.upsert(False))
    query = tables.sql_query(f"SELECT k, v FROM {table}")
    rows = tables.to_changelog_stream(query).execute_and_collect(limit=10_000)
    found = [(row.get_row_kind().value, tuple(row)) for row in rows]
    assert materialized(found) == {(1, 199): 1}


def test_two_streams_of_one_schema_have_uids_of_their_own():
    env = StreamExecutionEnvironment.create_local_environment(1)
    tables = StreamTableEnvironment.create(env)
    for number in range(2):
        tables.create_temporary_view(f"t{number}", tables.from_data_stream(env.from_collection([(number,)])))
    rows = [tables.to_changelog_stream(tables.sql_query(f"SELECT * FROM t{number}")) for number in range(2)]
    found = rows[0].union(rows[1]).execute_and_collect(limit=10)
    assert sorted(tuple(row) for row in found) == [((0,),), ((1,),)]
