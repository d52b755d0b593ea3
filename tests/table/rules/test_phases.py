"""Aggregates in two phases, over buckets of distinct values, and in mini-batches: plans, results, and options that are wrong."""

import pytest

from funken.errors import InvalidConfiguration
from funken.table.catalog import InvalidTable
from funken.table.connectors.values import register_rows, results_of
from funken.types.row import Row, RowKind
from tests.table.sql.tables import modes, physical, session

MINI = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.size": "4",
    "table.exec.mini-batch.allow-latency": "10 s",
}
SPLIT = {"table.optimizer.distinct-agg.split.enabled": "true"}
COUNTS = "SELECT k, COUNT(*) AS n FROM a GROUP BY k"
DISTINCT = "SELECT k, COUNT(DISTINCT v) AS n FROM a GROUP BY k"


def configured(*options, batch=False):
    tables = session(batch)
    for some in ({"execution.target": "local"}, *options):
        for key, value in some.items():
            tables.get_config().set(key, value)
    return tables


def operators(tables, query):
    return [line.split(" ")[0] for line in modes(tables, query)]


def test_an_aggregate_of_a_mini_batch_has_two_phases():
    tables = configured(MINI)
    lines = physical(tables, "SELECT k, COUNT(*) AS n, AVG(v) AS a, COUNT(DISTINCT id) AS d FROM a GROUP BY k")
    assert lines[0].startswith(
        "GlobalGroupAggregate(groupBy=[k], select=[k, COUNT(count1$0) AS n, AVG((sum$1, count$2)) AS a, "
        "COUNT(distinct$0 count$3) AS d], changelogMode=[I,UB,UA])"
    )
    assert lines[2] == (
        "LocalGroupAggregate(groupBy=[k], select=[k, COUNT(*) AS count1$0, AVG(v) AS (sum$1, count$2), "
        "COUNT(distinct$0 id) AS count$3, DISTINCT(id) AS distinct$0], changelogMode=[I])"
    )
    assert any(line.startswith("MiniBatchAssigner(interval=[10000ms], mode=[ProcTime]") for line in lines)


def test_rows_that_are_taken_back_are_counted_in_both_phases():
    lines = physical(configured(MINI), "SELECT k, MAX(v) AS m FROM c GROUP BY k")
    assert "MAX_RETRACT(max$0) AS m], indexOfCountStar=[1]" in lines[0]
    assert "MAX_RETRACT(v) AS max$0, COUNT_RETRACT(*) AS count1$1]" in lines[2]


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({}, COUNTS),
        ({**MINI, "table.optimizer.agg-phase-strategy": "ONE_PHASE"}, COUNTS),
        (MINI, "SELECT k, FIRST_VALUE(v) FROM a GROUP BY k"),  # depends on the order of the tasks
    ],
)
def test_where_an_aggregate_has_one_phase(options, query):
    found = operators(configured(options), query)
    assert "GroupAggregate" in found
    assert not any("Local" in each for each in found)


def test_groups_that_are_where_they_belong_have_one_phase_more():
    found = operators(configured(MINI), "SELECT k, MAX(n) FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) GROUP BY k")
    assert found[:2] == ["GroupAggregate", "GlobalGroupAggregate"]


def test_under_windows_mini_batches_end_by_event_time():
    query = (
        "SELECT k, COUNT(*) FROM (SELECT k, window_start FROM TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
        "GROUP BY k, window_start, window_end) GROUP BY k"
    )
    assert any(
        "MiniBatchAssigner(interval=[10000ms], mode=[RowTime]" in line for line in physical(configured(MINI), query)
    )


def test_a_batch_has_no_mini_batches():
    assert "GroupAggregate" in operators(configured(MINI, SPLIT, batch=True), DISTINCT)


def test_distinct_values_are_split_over_buckets():
    lines = physical(configured(SPLIT), DISTINCT)
    assert [line.split("(")[0] for line in lines][:5] == [
        "Calc",
        "GroupAggregate",
        "Exchange",
        "GroupAggregate",
        "Exchange",
    ]
    assert "groupBy=[k], partialFinalType=[FINAL], select=[k, $SUM0_RETRACT($f0_0) AS $f1]" in lines[1]
    assert "groupBy=[k, $f2], partialFinalType=[PARTIAL], select=[k, $f2, COUNT(DISTINCT v) AS $f0_0]" in lines[3]
    assert any("MOD(HASH_CODE(v), 1024) AS $f2" in line for line in lines)


def test_several_distinct_arguments_have_a_copy_of_the_row_each():
    lines = physical(configured(SPLIT), "SELECT k, COUNT(DISTINCT v), COUNT(DISTINCT id) FROM a GROUP BY k")
    (expand,) = [line for line in lines if line.startswith("Expand(")]
    assert expand.count("{") == 2
    assert any("FILTER $g_1" in line and "FILTER $g_2" in line for line in lines)


def test_between_buckets_and_groups_is_one_operator():
    assert operators(configured(MINI, SPLIT), DISTINCT)[:3] == [
        "GlobalGroupAggregate",
        "IncrementalGroupAggregate",
        "LocalGroupAggregate",
    ]
    apart = configured(MINI, SPLIT, {"table.optimizer.incremental-agg-enabled": "false"})
    assert operators(apart, DISTINCT)[:4] == ["GlobalGroupAggregate", "LocalGroupAggregate"] * 2


ROWS = [
    (RowKind.INSERT, "a", 1),
    (RowKind.INSERT, "a", 1),
    (RowKind.INSERT, "a", None),
    (RowKind.INSERT, "b", 7),
    (RowKind.UPDATE_BEFORE, "a", 1),
    (RowKind.UPDATE_AFTER, "b", 2),
    (RowKind.INSERT, "b", 9),
    (RowKind.DELETE, "b", 7),
    (RowKind.INSERT, "c", 3),
    (RowKind.DELETE, "c", 3),
]
EVERY = (
    "SELECT k, COUNT(*), COUNT(DISTINCT v), SUM(DISTINCT v), AVG(DISTINCT v), MIN(v), MAX(v), SUM(v), AVG(v), "
    "COUNT(DISTINCT v) FILTER (WHERE v > 1) FROM changing GROUP BY k"
)
LEFT = [("a", 2, 1, 1, 1, 1, 1, 1, 1, 0), ("b", 2, 2, 11, 5, 2, 9, 11, 5, 2)]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("options", [(), (MINI,), (SPLIT,), (MINI, SPLIT)])
def test_every_way_has_the_same_result(options, parallelism):
    name = f"phases-{parallelism}-{len(options)}-{SPLIT in options}"
    tables = configured({"parallelism.default": str(parallelism)}, *options)
    rows = register_rows([Row.of_kind(kind, *values) for kind, *values in ROWS])
    tables.execute_sql(
        "CREATE TABLE changing (k STRING, v INT) WITH ('connector' = 'values', 'changelog-mode' = 'I,UB,UA,D', "
        f"'data-id' = '{rows}')"
    )
    names = ", ".join(f"c{place} BIGINT" for place in range(9))
    tables.execute_sql(
        f"CREATE TABLE counted (k STRING, {names}, PRIMARY KEY (k) NOT ENFORCED) "
        f"WITH ('connector' = 'values', 'result-id' = '{name}')"
    )
    tables.execute_sql(f"INSERT INTO counted {EVERY}").wait()
    assert sorted(tuple(row) for row in results_of(name).rows()) == LEFT


def test_the_changes_of_split_values_are_those_of_each_copy():
    tables = configured(SPLIT, {"parallelism.default": "1"})
    rows = register_rows([(1, 1, "Hi"), (2, 2, "Hello"), (2, 3, "Hello world")])
    tables.execute_sql(
        f"CREATE TABLE few (a INT, b BIGINT, c STRING) WITH ('connector' = 'values', 'data-id' = '{rows}')"
    )
    found = tables.execute_sql("SELECT a, COUNT(DISTINCT b), FIRST_VALUE(c) FROM few GROUP BY a")
    with found.collect() as changes:
        told = [f"{row.get_row_kind()}{tuple(row)}" for row in changes]
    assert told == [
        "+I(1, 1, None)",
        "-U(1, 1, None)",
        "+U(1, 1, 'Hi')",
        "+I(2, 1, None)",
        "-U(2, 1, None)",
        "+U(2, 1, 'Hello')",
        "-U(2, 1, 'Hello')",
        "+U(2, 2, 'Hello')",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table.exec.mini-batch.enabled": "true"}, "'table.exec.mini-batch.size' must be greater than 0"),
        ({**MINI, "table.exec.mini-batch.allow-latency": "0 s"}, "allow-latency' must be greater than 0"),
        ({"table.optimizer.agg-phase-strategy": "THREE"}, "'THREE' is none of AUTO, ONE_PHASE, TWO_PHASE"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InvalidConfiguration, match=message):
        configured(options).explain_sql(COUNTS)


def test_there_is_at_least_one_bucket():
    tables = configured(SPLIT, {"table.optimizer.distinct-agg.split.bucket-num": "0"})
    with pytest.raises(InvalidTable, match="bucket-num' must be greater than 0"):
        tables.explain_sql(DISTINCT)


def uids(*options, query=COUNTS):
    tables = configured(*options)
    plan = tables.compile_plan_sql(f"INSERT INTO anything {query}")
    return [(each.operator, each.uid) for each in plan.operators]


def test_uids_are_those_of_one_phase():
    one = uids(MINI, {"table.optimizer.agg-phase-strategy": "ONE_PHASE"})
    assert uids(MINI) == one
    assert ("GroupAggregate" in dict(one)) is True
    apart = {"table.optimizer.incremental-agg-enabled": "false"}
    assert uids(MINI, SPLIT, query=DISTINCT) == uids(MINI, SPLIT, apart, query=DISTINCT) == uids(SPLIT, query=DISTINCT)


def test_distinct_values_of_a_key_are_not_split():
    """Each bucket of a group would count the value of its key."""
    query = "SELECT k, COUNT(DISTINCT k) AS n, COUNT(DISTINCT v) AS m FROM a GROUP BY k"
    assert "Expand" not in operators(configured(MINI, SPLIT), query)
    assert "Expand" in operators(configured(MINI, SPLIT), query.replace("DISTINCT k", "DISTINCT id"))


def test_results_that_are_not_null_are_not_made_of_copies():
    """The copies of a row come one by one: between two of them a result would be NULL."""
    query = "SELECT k, COUNT(DISTINCT v) AS n, COUNT(DISTINCT id) AS m, MAX({}) AS most FROM a GROUP BY k"
    assert "Expand" in operators(configured(MINI, SPLIT), query.format("v"))
    assert "Expand" not in operators(configured(MINI, SPLIT), query.format("COALESCE(v, 1)"))
    assert "Expand" in operators(configured(MINI, SPLIT), query.format("COALESCE(v, 1)").replace("MAX", "COUNT"))
