"""Batches write, and give to streams, the rows that are left at the end: sinks need not take changes."""

import json

import pytest

from funken import StreamExecutionEnvironment
from funken.api.options import RuntimeExecutionMode
from funken.table import StreamTableEnvironment, TableDescriptor
from funken.table.catalog import InvalidTable

ROWS = "(VALUES ('a', 1), ('a', 2), ('b', 3)) AS t(w, n)"


def environment(mode):
    env = StreamExecutionEnvironment.create_local_environment(2).set_runtime_mode(mode)
    return StreamTableEnvironment.create(env)


def lines(folder):
    return sorted(
        (json.loads(line) for path in folder.rglob("*") if path.is_file() for line in path.read_text().splitlines()),
        key=str,
    )


QUERIES = {
    "groups": (f"SELECT w, CAST(SUM(n) AS BIGINT) AS n FROM {ROWS} GROUP BY w", [("a", 3), ("b", 3)]),
    "top-n": (
        "SELECT w, CAST(n AS BIGINT) AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY w ORDER BY n DESC) AS r "
        f"FROM {ROWS}) WHERE r = 1",
        [("a", 2), ("b", 3)],
    ),
    "outer join": (
        f"SELECT x.w, CAST(y.n AS BIGINT) AS n FROM (SELECT DISTINCT w FROM {ROWS}) x "
        f"LEFT JOIN (SELECT * FROM {ROWS} WHERE n = 3) y ON x.w = y.w",
        [("a", None), ("b", 3)],
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_files_of_a_batch_have_the_final_rows(tmp_path, name):
    query, expected = QUERIES[name]
    t_env = environment(RuntimeExecutionMode.BATCH)
    t_env.execute_sql(
        f"CREATE TABLE out (w STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    t_env.execute_sql(f"INSERT INTO out {query}").wait()
    assert lines(tmp_path) == [{"w": word, "n": n} for word, n in expected]
    with t_env.to_data_stream(t_env.sql_query(query)).execute_and_collect() as rows:
        assert sorted(map(tuple, rows)) == expected


def test_a_stream_still_refuses_a_sink_without_changes(tmp_path):
    t_env = environment(RuntimeExecutionMode.STREAMING)
    t_env.execute_sql(
        f"CREATE TABLE out (w STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    with pytest.raises(InvalidTable, match="doesn't support consuming update changes"):
        t_env.execute_sql(f"INSERT INTO out {QUERIES['groups'][0]}")


def test_a_sink_without_columns_has_those_of_the_table(tmp_path):
    t_env = environment(RuntimeExecutionMode.STREAMING)
    numbers = t_env.from_elements([(1, "a"), (2, "b")], ["n", "w"])
    files = TableDescriptor.for_connector("filesystem").option("path", str(tmp_path)).format("json").build()
    numbers.execute_insert(files).wait()
    assert lines(tmp_path) == [{"n": 1, "w": "a"}, {"n": 2, "w": "b"}]


def test_windows_of_a_batch_need_no_time_attribute():
    t_env = environment(RuntimeExecutionMode.BATCH)
    t_env.execute_sql(
        "CREATE TEMPORARY VIEW v AS SELECT * FROM (VALUES (TIMESTAMP '2020-01-01 00:00:12', 1), "
        "(TIMESTAMP '2020-01-01 00:00:01', 2), (TIMESTAMP '2020-01-01 00:00:05', 4)) AS t(ts, n)"
    )
    sums = "SELECT {kind}_START(ts, {sizes}), SUM(n) FROM v GROUP BY {kind}(ts, {sizes})"
    for kind, sizes, expected in (
        ("TUMBLE", "INTERVAL '10' SECOND", [(0, 6), (10, 1)]),
        ("HOP", "INTERVAL '5' SECOND, INTERVAL '10' SECOND", [(0, 6), (5, 5), (10, 1), (55, 2)]),
        ("SESSION", "INTERVAL '5' SECOND", [(1, 6), (12, 1)]),
    ):
        with t_env.execute_sql(sums.format(kind=kind, sizes=sizes)).collect() as rows:
            assert sorted((start.second, total) for start, total in rows) == expected
    table = "TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    largest = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS r FROM {table}"
    for query, expected in (
        (f"SELECT window_start, SUM(n) FROM {table} GROUP BY window_start, window_end", [(0, 6), (10, 1)]),
        (f"SELECT window_start, n FROM ({largest}) WHERE r = 1", [(0, 4), (10, 1)]),
    ):
        with t_env.execute_sql(query).collect() as rows:
            assert sorted((start.second, n) for start, n in rows) == expected
    with pytest.raises(Exception, match="time attribute column, but INTEGER|time attribute column, but INT"):
        t_env.execute_sql("SELECT SUM(n) FROM v GROUP BY TUMBLE(n, INTERVAL '1' SECOND)")
    stream = environment(RuntimeExecutionMode.STREAMING)
    times = "(VALUES (TIMESTAMP '2020-01-01 00:00:12')) AS t(ts)"
    with pytest.raises(Exception, match="time attribute column, but TIMESTAMP"):
        stream.execute_sql(f"SELECT COUNT(*) FROM {times} GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)")


def test_a_batch_leaves_out_the_first_rows():
    t_env = environment(RuntimeExecutionMode.BATCH)
    table = t_env.sql_query("SELECT * FROM (VALUES (3), (1), (2)) AS t(n) ORDER BY n")
    with table.offset(1).execute().collect() as rows:
        assert [tuple(row) for row in rows] == [(2,), (3,)]
