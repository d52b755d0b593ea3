"""Which operators a query becomes, and which changes they make: the cases are those of Flink 2.3."""

import json
import re

import pytest

from funken.table.catalog import InvalidTable
from tests.table.sql.tables import modes, physical, session


@pytest.fixture(scope="module")
def tables():
    return session()


INTO_ALL = "INSERT INTO anything "
RANKED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS rn FROM {})"
WINDOW = "TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND)"


@pytest.mark.filterwarnings("ignore:GROUP BY window_start without window_end")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, COUNT(*) FROM a GROUP BY k", ["GroupAggregate [I,UB,UA]", "TableSourceScan [I]"]),
        ("SELECT k, COUNT(*) FROM c GROUP BY k", ["GroupAggregate [I,UB,UA,D]", "TableSourceScan [I,UB,UA,D]"]),
        (
            "SELECT k, MAX(s) FROM (SELECT k, id, SUM(v) AS s FROM a GROUP BY k, id) GROUP BY k",
            ["GroupAggregate [I,UB,UA,D]", "GroupAggregate [I,UB,UA]", "TableSourceScan [I]"],
        ),
        ("SELECT a.k FROM a JOIN a2 ON a.k = a2.k", ["Join [I]", "TableSourceScan [I]", "TableSourceScan [I]"]),
        (
            "SELECT a.k FROM a LEFT JOIN a2 ON a.k = a2.k",
            ["Join [I,UB,UA,D]", "TableSourceScan [I]", "TableSourceScan [I]"],
        ),
        (
            "SELECT k FROM a WHERE k IN (SELECT k FROM a2)",
            ["Join [I]", "TableSourceScan [I]", "TableSourceScan [I]"],
        ),
        (f"SELECT k, v FROM {RANKED.format('v DESC', 'a')} WHERE rn <= 3", ["Rank [I,UB,UA,D]", "TableSourceScan [I]"]),
        (f"SELECT k, v FROM {RANKED.format('ts', 'a')} WHERE rn = 1", ["Deduplicate [I]", "TableSourceScan [I]"]),
        (f"SELECT k, v FROM {RANKED.format('p', 'a')} WHERE 1 = rn", ["Deduplicate [I]", "TableSourceScan [I]"]),
        (
            f"SELECT k, v FROM {RANKED.format('ts DESC', 'a')} WHERE rn < 2",
            ["Deduplicate [I,UB,UA,D]", "TableSourceScan [I]"],
        ),
        (
            "SELECT k FROM a UNION ALL SELECT k FROM c",
            ["Union [I,UB,UA,D]", "TableSourceScan [I]", "TableSourceScan [I,UB,UA,D]"],
        ),
        (
            "SELECT k FROM a UNION SELECT k FROM a2",
            ["GroupAggregate [I,UB,UA]", "Union [I]", "TableSourceScan [I]", "TableSourceScan [I]"],
        ),
        (
            "SELECT k FROM a INTERSECT SELECT k FROM a2",
            ["GroupAggregate [I,UB,UA]", "Join [I]", "TableSourceScan [I]", "TableSourceScan [I]"],
        ),
        (
            "SELECT k FROM a EXCEPT ALL SELECT k FROM a2",
            [
                "Correlate [I,UB,UA]",
                "GroupAggregate [I,UB,UA]",
                "Union [I]",
                "TableSourceScan [I]",
                "TableSourceScan [I]",
            ],
        ),
        (
            f"SELECT k, window_start, SUM(v) FROM {WINDOW} GROUP BY k, window_start, window_end",
            ["WindowAggregate [I]", "TableSourceScan [I]"],
        ),
        (
            f"SELECT window_start, SUM(v) FROM {WINDOW} GROUP BY window_start",
            ["GroupAggregate [I,UB,UA]", "WindowTableFunction [I]", "TableSourceScan [I]"],
        ),
        (
            f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v) AS rn FROM {WINDOW}) "
            "WHERE rn <= 2",
            ["WindowRank [I]", "WindowTableFunction [I]", "TableSourceScan [I]"],
        ),
        (
            f"SELECT x.v FROM {WINDOW} AS x JOIN {WINDOW} AS y ON x.k = y.k AND x.window_start = y.window_start "
            "AND x.window_end = y.window_end",
            ["WindowJoin [I]", *["WindowTableFunction [I]", "TableSourceScan [I]"] * 2],
        ),
        (
            "SELECT a.v FROM a JOIN a2 ON a.k = a2.k AND a.ts BETWEEN a2.ts - INTERVAL '5' SECOND AND a2.ts",
            ["IntervalJoin [I]", "TableSourceScan [I]", "TableSourceScan [I]"],
        ),
        (
            "SELECT a.v, r.rate FROM a JOIN r FOR SYSTEM_TIME AS OF a.ts ON a.k = r.k",
            ["TemporalJoin [I]", "TableSourceScan [I]", "TableSourceScan [I]"],
        ),
        (  # a row that the filter drops when it changes has to be taken back
            "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, k) AS rn FROM (SELECT k, COUNT(*) AS n FROM a "
            "GROUP BY k HAVING SUM(v) > 1)) WHERE rn <= 2",
            ["Rank [I,UB,UA,D]", "GroupAggregate [I,UB,UA]", "TableSourceScan [I]"],
        ),
        (  # the row before an update has the time of its version, which it would end from its beginning
            "SELECT a.v, ru.rate FROM a JOIN ru FOR SYSTEM_TIME AS OF a.ts ON a.k = ru.k",
            ["TemporalJoin [I]", "TableSourceScan [I]", "ChangelogNormalize [I,UA,D]", "TableSourceScan [I,UA,D]"],
        ),
        (
            "SELECT a.v, r.rate FROM a JOIN versions FOR SYSTEM_TIME AS OF a.ts AS r ON a.k = r.k",
            ["TemporalJoin [I]", "TableSourceScan [I]", "Deduplicate [I,UA,D]", "TableSourceScan [I]"],
        ),
        ("SELECT GROUPING(k), COUNT(*) FROM a GROUP BY k", ["GroupAggregate [I,UB,UA]", "TableSourceScan [I]"]),
        (
            "SELECT a.v, r.rate FROM a LEFT JOIN r FOR SYSTEM_TIME AS OF a.p ON a.k = r.k AND r.rate > 1",
            ["LookupJoin [I]", "TableSourceScan [I]"],
        ),
        ("SELECT k FROM a LIMIT 3", ["Limit [I,D]", "TableSourceScan [I]"]),
        ("SELECT k FROM a ORDER BY v LIMIT 3", ["SortLimit [I,UB,UA,D]", "TableSourceScan [I]"]),
        ("SELECT k FROM a ORDER BY ts, v", ["TemporalSort [I]", "TableSourceScan [I]"]),
        (
            "SELECT SUM(v) OVER (PARTITION BY k ORDER BY id) FROM c",
            ["OverAggregate [I,UB,UA,D]", "TableSourceScan [I,UB,UA,D]"],
        ),
        ("SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM a", ["OverAggregate [I]", "TableSourceScan [I]"]),
        ("SELECT k, v FROM u", ["ChangelogNormalize [I,UB,UA,D]", "TableSourceScan [I,UA,D]"]),
        (
            "SELECT k, v, GROUPING_ID(k, v) FROM a GROUP BY CUBE(k, v)",
            ["GroupAggregate [I,UB,UA]", "Expand [I]", "TableSourceScan [I]"],
        ),
    ],
)
def test_the_operators_of_a_query_and_their_changes(tables, query, expected):
    assert modes(tables, query) == expected


def test_an_equality_that_all_choices_of_a_condition_have_is_the_key_of_a_join(tables):
    query = "SELECT a.id FROM a, a2 WHERE (a.k = a2.k AND a.v > 1 AND a2.v < 5) OR (a2.v > 7 AND a.k = a2.k)"
    lines = physical(tables, query)
    assert [line for line in lines if line.startswith("Exchange(distribution=[hash[k]]")] != []
    (join,) = [line for line in lines if line.startswith("Join(")]
    assert "where=[AND(=(k, k0), OR(" in join


def test_the_join_of_two_aggregates_by_their_keys_needs_no_rows_before_updates(tables):
    query = (
        "INSERT INTO keyed SELECT x.k, y.n FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) AS x "
        "JOIN (SELECT k, COUNT(*) AS n FROM a2 GROUP BY k) AS y ON x.k = y.k"
    )
    lines = physical(tables, query)
    (join,) = [line for line in lines if line.startswith("Join(")]
    assert "leftInputSpec=[JoinKeyContainsUniqueKey], rightInputSpec=[JoinKeyContainsUniqueKey]" in join
    assert join.endswith("changelogMode=[I,UA])")
    assert [line.endswith("changelogMode=[I,UA])") for line in lines if line.startswith("GroupAggregate(")] == [
        True,
        True,
    ]


def test_a_sink_with_the_key_of_the_query_gets_no_rows_before_updates(tables):
    grouped = "SELECT k, COUNT(*) FROM a GROUP BY k"
    assert modes(tables, "INSERT INTO keyed " + grouped)[1] == "GroupAggregate [I,UA]"
    assert modes(tables, INTO_ALL + grouped)[1] == "GroupAggregate [I,UB,UA]"


@pytest.mark.parametrize(
    ("query", "strategy"),
    [
        (
            "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n {}) AS rn FROM ({}) AS q) WHERE rn <= 2",
            "Retract",
        ),
    ],
)
def test_the_strategy_of_a_rank_follows_from_its_input(tables, query, strategy):
    count = "SELECT k, COUNT(*) AS n FROM a GROUP BY k"
    total = "SELECT k, SUM(v) AS n FROM a GROUP BY k"

    def strategy_of(order, inner):
        (line,) = [line for line in physical(tables, query.format(order, inner)) if line.startswith("Rank(")]
        return line.split("strategy=[")[1].split("]")[0]

    assert strategy_of("DESC", count) == "UpdateFastStrategy[0"
    assert strategy_of("ASC", count) == f"{strategy}Strategy"
    assert strategy_of("DESC", total) == f"{strategy}Strategy"


def test_filters_move_to_where_the_rows_come_from(tables):
    lines = physical(
        tables, "SELECT a.k FROM a LEFT JOIN a2 ON a.k = a2.k AND a2.v > 1 WHERE a.v = 2 AND a2.id IS NOT NULL"
    )
    assert "joinType=[InnerJoin]" in next(line for line in lines if line.startswith("Join("))
    calcs = [line for line in lines if line.startswith("Calc(") and "where=" in line]
    assert any("=(v, 2)" in line for line in calcs)
    assert any(">(v, 1)" in line for line in calcs)


def test_a_filter_on_an_upsert_source_is_part_of_its_normalizer(tables):
    (normalizer,) = [
        line for line in physical(tables, "SELECT k FROM u WHERE v > 1") if line.startswith("ChangelogNorm")
    ]
    assert "condition=[>(v, 1)]" in normalizer
    lines = physical(tables, "SELECT k FROM u WHERE id > 1")
    assert "condition" not in next(line for line in lines if line.startswith("ChangelogNormalize("))
    assert any(line.startswith("Calc(") and "where=[>(id, 1)]" in line for line in lines)


def test_columns_that_nobody_reads_are_not_read(tables):
    assert physical(tables, "SELECT COUNT(v) FROM a2")[-1].split("fields=")[1].startswith("[v, ts]")


def test_constants_are_computed_once_and_failing_ones_stay(tables):
    assert "EXPR$0" in physical(tables, "SELECT 1 + 2 FROM a")[0]
    assert "3 AS EXPR$0" in physical(tables, "SELECT 1 + 2 FROM a")[0]
    assert "/(1, 0)" in physical(tables, "SELECT 1 / 0 FROM a")[0]


def test_what_two_inserts_have_in_common_is_one_plan(tables):
    text = (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO anything SELECT k, COUNT(*) FROM a GROUP BY k; "
        "INSERT INTO keyed SELECT k, COUNT(*) FROM a2 GROUP BY k; INSERT INTO anything SELECT k, 1 FROM a; END"
    )
    explained = tables.explain_sql(text)
    execution = explained.split("== Optimized Execution Plan ==")[1]
    assert "reuse_id=[1]" in execution
    assert "Reused(reference_id=[1])" in execution


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "INSERT INTO plain SELECT k, COUNT(*) FROM a GROUP BY k",
            "Table sink 'default_catalog.default_database.plain' doesn't support consuming update changes which is produced "
            "by node GroupAggregate(groupBy=[k], select=[k, COUNT(*) AS EXPR$1])",
        ),
        ("SELECT k FROM a ORDER BY v", "Sort on a non-time-attribute field is not supported."),
        (
            "SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts DESC) FROM a",
            "The window can only be ordered in ASCENDING mode.",
        ),
        ("SELECT SUM(v) OVER (PARTITION BY k) FROM a", "The window can only be ordered by a single time column."),
        (
            "SELECT SUM(v) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM a",
            "OVER RANGE FOLLOWING windows are not supported yet.",
        ),
        (
            "SELECT SUM(v) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) FROM a",
            "OVER RANGE FOLLOWING windows are not supported yet.",
        ),
        ("SELECT LEAD(v) OVER (ORDER BY ts) FROM a", "LEAD Function is not supported in stream mode."),
        (
            "SELECT k FROM (SELECT k, RANK() OVER (PARTITION BY k ORDER BY v) AS rn FROM a) WHERE rn <= 2",
            "RANK() on streaming table is not supported currently",
        ),
        (
            "SELECT a.k FROM a JOIN a2 FOR SYSTEM_TIME AS OF a.p ON a.k = a2.k",
            "Processing-time temporal join is not supported yet.",
        ),
        ("SELECT a.k FROM a JOIN a2 FOR SYSTEM_TIME AS OF a.ts ON a.k = a2.k", "no primary key can be found"),
        (
            "SELECT * FROM c MATCH_RECOGNIZE (ORDER BY v MEASURES A.v AS x PATTERN (A) DEFINE A AS A.v > 1) AS m",
            "Match Recognize doesn't support consuming update changes",
        ),
        (
            "INSERT INTO keyed SELECT k, v FROM cp",
            "The query has an upsert key that differs from the primary key of the sink table "
            "'default_catalog.default_database.keyed'. Primary key: [k], upsert key: []",
        ),
        (
            "INSERT INTO plain SELECT k, v FROM a ON CONFLICT DO NOTHING",
            "is not an upsert sink because it only accepts INSERT (append-only) changes",
        ),
        (
            "INSERT INTO keyed SELECT k, v FROM c ON CONFLICT DO ERROR",
            "requires all source tables to define watermarks, but the following source(s) do not",
        ),
    ],
)
def test_a_plan_that_cannot_be_is_refused(tables, query, message):
    with pytest.raises(InvalidTable) as raised:
        tables.explain_sql(query)
    assert message in str(raised.value)


MOST = "(SELECT k, MAX(v) AS m FROM c GROUP BY k)"


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (f"SELECT k, m FROM {MOST} WHERE k IN (SELECT k FROM a2)", "[[k]]"),
        # an update of m takes a row from one task to another: its changes overtake each other in the next exchange
        (f"SELECT k, m FROM {MOST} WHERE m IN (SELECT v FROM a2)", ""),
        (f"SELECT s.k, m, id FROM {MOST} AS s JOIN cp ON s.k = cp.k", "[[k, id]]"),
        (f"SELECT s.k, m, id FROM {MOST} AS s JOIN cp ON m = cp.id", "[[k, id]]"),
        (f"SELECT s.k, m, id FROM {MOST} AS s JOIN cp ON m = cp.v", ""),
        (f"SELECT k, m FROM {RANKED.format('m', MOST)} WHERE rn < 3", "[[k]]"),
        (f"SELECT k, m FROM {RANKED.format('k', MOST).replace('BY k', 'BY m', 1)} WHERE rn < 3", ""),
        # a row that moves is at its new position before it has left the old one
        (f"SELECT k, m, rn FROM {RANKED.format('m', MOST).replace('PARTITION BY k', '')} WHERE rn < 3", "[[rn]]"),
        (f"SELECT k, m, rn FROM {RANKED.format('m', MOST)} WHERE rn < 3", "[[k, rn]]"),
        # the first row takes the place of another one, which nothing deletes
        (
            f"SELECT k, rate FROM {RANKED.format('k', 'r').replace('BY k', 'BY rate', 1)} WHERE rn = 1",
            "[[rate]]",
        ),
        # versions are joined in the order of their time
        ("SELECT ru.k, v.rate FROM ru JOIN r FOR SYSTEM_TIME AS OF ru.ts AS v ON ru.k = v.k", ""),
        ("SELECT ru.k, ru.ts, v.rate FROM ru JOIN r FOR SYSTEM_TIME AS OF ru.ts AS v ON ru.k = v.k", ""),
    ],
)
def test_a_key_whose_changes_go_through_several_tasks_is_no_upsert_key(tables, query, keys):
    plan = tables.explain_sql(query, "PLAN_ADVICE").split("== Optimized Physical Plan With Advice ==\n")[1]
    assert "".join(re.findall(r"upsertKeys=(\[\[.*\]\])", plan.splitlines()[0])) == keys


def test_on_conflict_keeps_the_rows_per_primary_key(tables):
    (sink, *_) = physical(tables, "INSERT INTO keyed SELECT k, v FROM cp ON CONFLICT DO DEDUPLICATE")
    assert "upsertMaterialize=[true], conflictStrategy=[DEDUPLICATE]" in sink


def test_a_bounded_query_sorts_all_rows():
    assert modes(session(batch=True), "SELECT k FROM a2 ORDER BY v") == ["Sort [I]", "TableSourceScan [I]"]


@pytest.mark.parametrize("call", ["AVG(v)", "SUM(v)", "AVG(CAST(v AS DECIMAL(9, 2)))"])
def test_sums_over_values_are_made_of_counts_and_sums(tables, call):
    query = f"SELECT k, {call} OVER (PARTITION BY k ORDER BY id) AS s FROM c"
    (line,) = (line for line in physical(tables, query) if line.startswith("OverAggregate"))
    assert "COUNT(" in line and "$SUM0" in line and "AVG" not in line
    assert "$SUM0" not in "".join(physical(tables, f"SELECT {call} OVER (PARTITION BY k ORDER BY ts) FROM a"))


def test_lookups_read_what_is_needed_and_filter_themselves(tables):
    lines = physical(
        tables,
        "SELECT a.v, r.rate FROM a JOIN r FOR SYSTEM_TIME AS OF a.p ON a.k = r.k AND r.rate > 3 WHERE a.v < 9 AND r.rate < 8",
    )
    (lookup,) = (line for line in lines if line.startswith("LookupJoin"))
    assert (
        "where=[AND(>(rate, 3), <(rate, 8))]" in lookup
        and "joinCondition" not in lookup
        and "PROCTIME" not in "".join(lines)
    )
    (scan,) = (line for line in lines if line.startswith("TableSourceScan"))
    assert "fields=[k, v, ts]" in scan


def test_a_projection_over_what_is_computed_once_is_one_with_it(tables):
    lines = physical(
        tables, "INSERT INTO anything SELECT k, r FROM (SELECT k, CAST(RAND() * 9 AS BIGINT) AS r, v FROM c)"
    )
    assert [line.split("(")[0] for line in lines] == ["Sink", "Calc", "TableSourceScan"]
    lines = physical(
        tables, "INSERT INTO anything SELECT k, r + r FROM (SELECT k, CAST(RAND() * 9 AS BIGINT) AS r FROM c)"
    )
    assert [line.split("(")[0] for line in lines].count("Calc") == 2


def test_explain_as_json_has_operators_and_the_ways_between_them(tables):
    query = "SELECT a.k, COUNT(*) FROM a JOIN cp ON a.id = cp.id GROUP BY a.k"
    text = tables.explain_sql(query, "JSON_EXECUTION_PLAN").split("== Physical Execution Plan ==\n")[1]
    found = json.loads(text)["nodes"]
    names = [node["type"].partition("[")[0] for node in found]
    assert names == ["TableSourceScan", "WatermarkAssigner", "TableSourceScan", "Join", "Calc", "GroupAggregate"]
    join, aggregate = found[3], found[5]
    assert join["predecessors"] == [
        {"id": 2, "ship_strategy": "HASH", "side": "first"},
        {"id": 3, "ship_strategy": "HASH", "side": "second"},
    ]
    assert aggregate["predecessors"] == [{"id": 5, "ship_strategy": "HASH"}] and aggregate["contents"].startswith(
        "[6]:"
    )


def test_explain_estimates_costs(tables):
    explained = tables.explain_sql("SELECT k, COUNT(*) FROM c WHERE v = 1 GROUP BY k", "ESTIMATED_COST")
    lines = explained.split("== Optimized Physical Plan ==\n")[1].split("\n\n")[0].splitlines()
    assert lines[0].endswith("): rowcount = 1.5E+06, cumulative cost = {1.32E+08 rows, 1.5E+07 network, 1.5E+06 state}")
    assert lines[-1].endswith("rowcount = 1E+08, cumulative cost = {1E+08 rows, 0 network, 0 state}")


def test_a_bounded_query_may_have_another_key_than_its_sink(tables):
    query = "INSERT INTO keyed SELECT k, CAST(v AS BIGINT) FROM a"
    with pytest.raises(InvalidTable, match="upsert key that differs"):
        tables.explain_sql(query)
    assert not any("upsertMaterialize" in line for line in physical(session(batch=True), query))


def advice(tables, query):
    explained = tables.explain_sql(query, "PLAN_ADVICE")
    plan, _, rest = explained.split("== Optimized Physical Plan With Advice ==\n")[1].partition("\n\n")
    return plan.splitlines(), rest.split("\n\n")[0].splitlines()


def test_advice_says_how_aggregates_get_two_phases(tables):
    plan, found = advice(tables, "SELECT k, COUNT(*) FROM a GROUP BY k")
    assert plan[0].startswith("GroupAggregate(advice=[1], groupBy=[k]")
    assert found == [
        "advice[1]: [ADVICE] You might want to enable local-global two-phase optimization by configuring "
        "('table.exec.mini-batch.enabled' to 'true', 'table.exec.mini-batch.allow-latency' to a positive long value, "
        "'table.exec.mini-batch.size' to a positive long value)."
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT id, NOW() AS at_ FROM cp",
            "[WARNING] The column(s): at_(generated by non-deterministic function: NOW )",
        ),
        (
            "SELECT l.id, r.rate FROM (SELECT *, PROCTIME() AS p FROM cp) AS l JOIN r FOR SYSTEM_TIME AS OF l.p ON l.k = r.k",
            "[WARNING] The lookup join with default_catalog.default_database.r takes rows back as the table is then",
        ),
    ],
)
def test_advice_warns_of_results_that_cannot_be_taken_back(tables, query, expected):
    (found,) = advice(tables, query)[1]
    assert found.startswith(f"advice[1]: {expected}")


@pytest.mark.parametrize("query", ["SELECT id, NOW() FROM a", "SELECT k FROM cp", "SELECT id, PROCTIME() AS p FROM cp"])
def test_there_may_be_no_advice(tables, query):
    assert advice(tables, query)[1] == ["No available advice..."]
