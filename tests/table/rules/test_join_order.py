"""Order of inner joins in batch: by what Parquet files say of themselves, with the same rows in the same columns."""

from itertools import pairwise

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from funken.table import EnvironmentSettings, TableEnvironment
from funken.table.connectors.filesystem import parquet_statistics
from funken.table.rules.join_order import _best

TABLES = {
    "parts": ("p BIGINT, kind STRING", {"p": range(200), "kind": [f"kind {at % 20}" for at in range(200)]}),
    "suppliers": ("s BIGINT, town BIGINT", {"s": range(100), "town": [at % 5 for at in range(100)]}),
    "offers": (
        "op BIGINT, os BIGINT, price BIGINT",
        {"op": [at % 200 for at in range(800)], "os": [at * 7 % 100 for at in range(800)], "price": range(800)},
    ),
    "towns": ("t BIGINT, name STRING", {"t": range(5), "name": list("abcde")}),
}
QUERY = (
    "SELECT name, p, price, s FROM parts, suppliers, offers, towns "
    "WHERE p = op AND s = os AND town = t AND kind = 'kind 3' AND price > s"
)


def tables_in(folder, options=""):
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("execution.target", "local").set("parallelism.default", "2")
    for name, (columns, values) in TABLES.items():
        (folder / name).mkdir(exist_ok=True)
        pq.write_table(pa.table({key: list(each) for key, each in values.items()}), folder / name / "part-0.parquet")
        tables.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder / name}', "
            f"'format' = 'parquet'{options})"
        )
    return tables


def expected():
    town = dict(zip(TABLES["suppliers"][1]["s"], TABLES["suppliers"][1]["town"], strict=True))
    offers = TABLES["offers"][1]
    return sorted(
        ("abcde"[town[s]], p, price, s)
        for p, s, price in zip(offers["op"], offers["os"], offers["price"], strict=True)
        if p % 20 == 3 and price > s
    )


def joins(plan):
    physical = plan.split("== Optimized Physical Plan ==")[1].split("== Optimized Execution Plan ==")[0]
    return [line for line in physical.splitlines() if "Join(" in line]


@pytest.mark.parametrize("options", ["", ", 'source.report-statistics' = 'none'"])
def test_tables_that_have_no_common_column_are_not_crossed(tmp_path, options):
    tables = tables_in(tmp_path, options)
    plan = tables.explain_sql(QUERY)

    assert len(joins(plan)) == 3
    assert all("where=[true]" not in line for line in joins(plan))
    assert sorted(map(tuple, tables.execute_sql(QUERY).collect())) == expected()


def test_a_stream_keeps_the_order_of_the_query(tmp_path):
    tables = tables_in(tmp_path)
    streaming = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    streaming.catalogs = tables.catalogs

    assert "where=[true]" in "".join(joins(streaming.explain_sql(QUERY)))


def test_statistics_are_those_of_the_files(tmp_path):
    tables_in(tmp_path)
    rows, values = parquet_statistics(str(tmp_path / "offers"))

    assert rows == 800
    assert values["op"] == 200 and values["os"] == 100
    (tmp_path / "offers" / "part-1.parquet").write_text("not Parquet")
    assert parquet_statistics(str(tmp_path / "offers")) is None


def test_a_join_with_few_rows_comes_first():
    rows = [1000.0, 10.0, 5.0]
    different = {0: 1000.0, 1: 10.0, 2: 5.0, 3: 10.0}
    pairs = [(0, 1, 0, 1), (1, 2, 3, 2)]

    assert _best(rows, pairs, different.__getitem__)[-1] == 0


@pytest.mark.parametrize(
    ("choices", "implied"),
    [
        ("(kind = 'kind 1' AND price > 100) OR (kind = 'kind 3' AND price < 50)", {"parts", "offers"}),
        ("(kind IN ('kind 1', 'kind 2') AND price > 700) OR (kind LIKE 'kind 1%' AND p > 150)", {"parts"}),
        ("(kind = 'kind 1' AND price > p) OR (kind = 'kind 3')", {"parts"}),
        ("(p < 20 AND 1000 / (price + 1) > 9) OR (p > 190 AND 10 / (price + 1) = 0)", {"parts"}),  # could fail
        ("kind = 'kind 1' OR price > 790", set()),
        ("(kind IS NULL AND price > 3) OR (kind IS NOT NULL AND price BETWEEN 3 AND 6)", {"parts", "offers"}),
    ],
)
def test_what_an_or_implies_for_one_table_filters_it_before_the_join(tmp_path, choices, implied):
    tables = tables_in(tmp_path)
    query = f"SELECT p, kind, price FROM parts, offers WHERE p = op AND ({choices})"
    lines = (
        tables.explain_sql(query).split("== Optimized Physical Plan ==")[1].split("== Optimized Exec")[0].splitlines()
    )

    scans = [(above, line) for above, line in pairwise(lines) if "TableSourceScan" in line]
    filtered = {
        name for name in ("parts", "offers") for above, scan in scans if f"{name}]" in scan and "where=" in above
    }
    assert filtered == implied
    database = duckdb.connect()
    for name in ("parts", "offers"):
        database.execute(f"CREATE VIEW {name} AS FROM '{tmp_path / name}/*.parquet'")
    right = database.execute(query.replace("1000 / (", "1000 // (").replace("10 / (", "10 // (")).fetchall()
    assert right
    assert sorted(map(tuple, tables.execute_sql(query).collect())) == sorted(right)
