"""``make tpch-sql``: the 22 queries of TPC-H over updating streams; after each batch of changes DuckDB has the same rows.

usage: tpch_sql.py [--query q3,q5] [--scale F] [--batches N] [--folder FOLDER] [--width N] [--mini-batch]
       tpch_sql.py --batch [--query q3,q5] [--scale F] [--runs N] [--only funken,spark] [--target local|batch]

Orders come in batches with their line items, and from the second batch on some of those that are there are deleted again, with
theirs, in one stream of changes per table; the other tables are there from the beginning. A query runs over the changes of the
first batch, of the first two, and so on: what its changelog leaves is compared with what DuckDB finds in the tables as they then
are, row by row, decimals to six digits. Tables and queries are those of DuckDB's ``dbgen``, with clauses that only sort left out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import tpch_batch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent / "compare"))

TABLES = {
    "region": "r_regionkey INT, r_name STRING, r_comment STRING, PRIMARY KEY (r_regionkey) NOT ENFORCED",
    "nation": "n_nationkey INT, n_name STRING, n_regionkey INT, n_comment STRING, PRIMARY KEY (n_nationkey) NOT ENFORCED",
    "supplier": "s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey INT, s_phone STRING, s_acctbal DECIMAL(15, 2), "
    "s_comment STRING, PRIMARY KEY (s_suppkey) NOT ENFORCED",
    "customer": "c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey INT, c_phone STRING, "
    "c_acctbal DECIMAL(15, 2), c_mktsegment STRING, c_comment STRING, PRIMARY KEY (c_custkey) NOT ENFORCED",
    "part": "p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING, "
    "p_retailprice DECIMAL(15, 2), p_comment STRING, PRIMARY KEY (p_partkey) NOT ENFORCED",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty BIGINT, ps_supplycost DECIMAL(15, 2), ps_comment STRING, "
    "PRIMARY KEY (ps_partkey, ps_suppkey) NOT ENFORCED",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15, 2), o_orderdate DATE, "
    "o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING, PRIMARY KEY (o_orderkey) NOT ENFORCED",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber BIGINT, l_quantity DECIMAL(15, 2), "
    "l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2), l_returnflag STRING, "
    "l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, "
    "l_comment STRING, PRIMARY KEY (l_orderkey, l_linenumber) NOT ENFORCED",
}
CHANGING = ("orders", "lineitem")
EDITS = {
    "q2": [(r"p_size = 15", "p_size BETWEEN 5 AND 45"), (r"'EUROPE'", "'{region}'")],
    "q5": [(r"'ASIA'", "'{region}'")],
    "q7": [(r"'FRANCE'", "'{nation}'"), (r"n2\.n_name = '(GERMANY|{nation})'", "n2.n_name <> '{nation}'")],
    "q8": [(r"= 'ECONOMY ANODIZED STEEL'", "LIKE 'ECONOMY%'"), (r"'BRAZIL'", "'{nation}'")],
    "q11": [(r"'GERMANY'", "'{nation}'")],
    "q15": [(r"GROUP BY\s+supplier_no", "GROUP BY l_suppkey")],  # SQL's own GROUP BY knows no alias
    "q17": [
        (r"p_brand = 'Brand#23'", "p_brand LIKE 'Brand#2%'"),
        (r"= 'MED BOX'", "LIKE 'MED%'"),
        (r"0\.2 \*", "0.6 *"),
    ],
    "q18": [(r"> 300\b", "> 200")],
    "q19": [(r"p_brand = 'Brand#(\d)\d'", r"p_brand LIKE 'Brand#\1%'"), (r"BETWEEN 1 AND \d+", "BETWEEN 1 AND 40")],
    "q20": [(r"'forest%'", "'%e%'"), (r"'CANADA'", "'{nation}'")],
    "q21": [(r"'SAUDI ARABIA'", "'{nation}'")],
}
"""Wider parameters: with those of the benchmark so few orders leave no row. The nation has the most suppliers."""
MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}


# ---- DuckDB's side


def write_tables(folder: Path, scale: float, batches: int) -> None:
    """Write the changes of each batch and DuckDB's answers behind it; run by an interpreter that has DuckDB and its dbgen."""
    import duckdb  # noqa: PLC0415 - in an environment of its own
    from duckdb_extensions import import_extension  # noqa: PLC0415

    import_extension("tpch")
    database = duckdb.connect()
    database.execute("LOAD tpch")
    database.execute(f"CALL dbgen(sf = {scale})")
    [(nation, region)] = database.execute(
        "SELECT n_name, r_name FROM supplier JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey "
        "GROUP BY ALL ORDER BY count(*) DESC, n_name LIMIT 1"
    ).fetchall()
    texts = database.execute("FROM tpch_queries()").fetchall()
    queries = {f"q{number}": edited(f"q{number}", text, nation, region) for number, text in texts}
    # With few suppliers dbgen gives a part the same one twice, though together they are the key.
    pairs = "SELECT min(rowid) FROM partsupp GROUP BY ps_partkey, ps_suppkey"
    database.execute(f"DELETE FROM partsupp WHERE rowid NOT IN ({pairs})")
    changes: list[dict[str, list[tuple[int, Any]]]] = []
    for table in CHANGING:
        database.execute(f"ALTER TABLE {table} RENAME TO all_{table}")
        database.execute(f"CREATE TABLE {table} AS FROM all_{table} LIMIT 0")
    answers = []
    for batch in range(batches):
        of_batch: dict[str, list[tuple[int, Any]]] = {}
        for table in TABLES:
            if table not in CHANGING:
                rows = database.execute(f"FROM {table}").fetchall() if batch == 0 else []
                of_batch[table] = [(1, row) for row in rows]
                continue
            key = table[0] + "_orderkey"
            gone = f"FROM {table} WHERE hash({key}, {batch}) % 5 = 0"
            come = f"FROM all_{table} WHERE hash({key}) % {batches} = {batch} ORDER BY ALL"
            lost, new = database.execute(gone).fetchall(), database.execute(come).fetchall()
            of_batch[table] = [*((-1, row) for row in lost), *((1, row) for row in new)]
            database.execute(f"DELETE {gone}")
            database.execute(f"INSERT INTO {table} {come}")
        changes.append(of_batch)
        answers.append({name: database.execute(text).fetchall() for name, text in queries.items()})
    (folder / "tables.pickle").write_bytes(pickle.dumps((queries, changes, answers)))


def edited(name: str, text: str, nation: str, region: str) -> str:
    """Return a query as both sides run it."""
    for old, new in EDITS.get(name, ()):
        names = {"{nation}": nation, "{region}": region}
        for mark, value in names.items():
            old, new = old.replace(mark, value), new.replace(mark, value)  # noqa: PLW2901
        text = re.sub(old, new, text)
    text = text.strip().rstrip(";")
    head, _, tail = text.rpartition("ORDER BY")
    return text if "LIMIT" in tail or not head else head


# ---- Funken's side


def changelog(changes: list[dict[str, list[tuple[int, Any]]]], table: str) -> list[Any]:
    """Return the changes of a table in several batches as rows with kinds."""
    from funken import Row, RowKind  # noqa: PLC0415 - DuckDB's side has no Funken

    kinds = {1: RowKind.INSERT, -1: RowKind.DELETE}
    return [Row.of_kind(kinds[sign], *row) for batch in changes for sign, row in batch[table]]


def found(query: str, changes: list[dict[str, list[tuple[int, Any]]]], args: argparse.Namespace) -> list[Any]:
    """Return what the changelog of a query leaves."""
    from funken import Configuration, StreamExecutionEnvironment  # noqa: PLC0415
    from funken.table.environment import StreamTableEnvironment  # noqa: PLC0415
    from funken.table.schema import Schema  # noqa: PLC0415

    options = {"execution.target": "local", "parallelism.default": args.width}
    options |= MINI_BATCHES if args.mini_batch else {}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    tables = StreamTableEnvironment.create(env)
    for name, text in TABLES.items():
        schema, columns = Schema.new_builder(), text.partition(", PRIMARY KEY (")
        key = columns[2].partition(")")[0].split(", ")
        for column in columns[0].replace("(15, 2)", "(15; 2)").split(", "):
            label, _, kind = column.replace(";", ",").partition(" ")
            schema = schema.column(label, f"{kind} NOT NULL" if label in key else kind)
        stream = env.from_collection(changelog(changes, name))
        built = schema.primary_key(*key).build()
        tables.create_temporary_view(name, tables.from_changelog_stream(stream, built))
    rows: Counter[Any] = Counter()
    for change in (
        tables.sql_query(query.replace("AS value", "AS `value`").replace(" value DESC", " `value` DESC"))
        .execute()
        .collect()
    ):
        rows[tuple(change)] += -1 if str(change.get_row_kind()) in ("-U", "-D") else 1
    assert all(count >= 0 for count in rows.values()), "the changelog takes back what it never said"
    return list(rows.elements())


def difference(one: list[Any], other: list[Any]) -> str:
    """Return how two results differ; numbers may differ in their seventh digit.

    A sum over no rows at all is NULL in DuckDB; as a stream it has no result yet.
    """
    one, other = ([row for row in rows if any(each is not None for each in row)] for rows in (one, other))

    def order(row: Any) -> Any:
        numbers = [float(each) for each in row if isinstance(each, Decimal | float | int)]
        return [str(each) for each in row if not isinstance(each, Decimal | float | int)], numbers

    if len(one) != len(other):
        return f"{len(one)} rows instead of {len(other)}: {sorted(map(str, one))[:2]}, {sorted(map(str, other))[:2]}"
    for has, should in zip(sorted(one, key=order), sorted(other, key=order), strict=True):
        if not (len(has) == len(should) and all(map(alike, has, should))):
            return f"{has} instead of {should}"
    return ""


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same."""
    if isinstance(one, Decimal | float | int) and isinstance(other, Decimal | float | int):
        return math.isclose(float(one), float(other), rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(other, datetime.datetime):
        other = other.date()
    return bool(one == other)


def run(name: str, number: int, data: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Compare the result of a query behind so many batches."""
    queries, changes, answers = data
    began = time.perf_counter()
    try:
        rows = found(queries[name], changes[:number], args)
        problem = difference(rows, answers[number - 1][name])
    except Exception as error:
        if args.verbose:
            raise
        return {"failed": f"{type(error).__name__}: {error}"[:500]}
    if not problem and not rows:
        problem = "no rows to compare: give it wider parameters, or a larger --scale"
    return {"failed": problem} if problem else {"rows": len(rows), "seconds": round(time.perf_counter() - began, 2)}


def run_batch(folder: Path, queries: dict[str, str], answers: dict[str, list[Any]], args: argparse.Namespace) -> int:
    """Compare the systems in batch mode; return how many queries of Funken are not right."""
    columns = {name: text.partition(", PRIMARY KEY (")[0] for name, text in TABLES.items()}
    made = {"funken": tpch_batch.funken, "spark": tpch_batch.spark}
    systems = {name: made[name](folder, columns, args) for name in args.only.split(",")}
    results = tpch_batch.compare(queries, answers, systems, args.runs, difference)
    print(tpch_batch.mean(results))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    return sum(isinstance(figures.get("funken"), str) for figures in results.values())


def main() -> None:
    """Make the tables, run the queries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="", help="some of q1 to q22; all by default")
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--behind", default="", help="compare only behind these batches, as 1,3")
    parser.add_argument("--width", type=int, default=2, help="the parallelism")
    parser.add_argument("--folder", type=Path, help="where tables are kept")
    parser.add_argument("--mini-batch", action="store_true", help="with mini-batches")
    parser.add_argument("--json", type=Path, help="where results are written")
    parser.add_argument("--verbose", action="store_true", help="let errors through")
    parser.add_argument("--batch", action="store_true", help="files in batch mode, beside Spark SQL")
    parser.add_argument("--runs", type=int, default=3, help="of --batch: the median of how many counts")
    parser.add_argument("--only", default="funken,spark", help="of --batch: which systems")
    parser.add_argument("--target", default="local", help="of --batch: where Funken runs")
    parser.add_argument("--tables", action="store_true", help="write the tables; run by DuckDB's interpreter")
    args = parser.parse_args()
    if args.tables:
        if args.batch:
            made = tpch_batch.write_files(args.folder, args.scale)
            (args.folder / "tables.pickle").write_bytes(pickle.dumps(made))
        else:
            write_tables(args.folder, args.scale, args.batches)
        return
    import environments  # noqa: PLC0415 - DuckDB's side needs none

    with tempfile.TemporaryDirectory() as own:
        folder = args.folder or Path(own)
        place = folder / f"tpch-{args.scale}-{'files' if args.batch else args.batches}"
        if not (place / "tables.pickle").exists():
            environments.build("tpch", print)
            place.mkdir(parents=True, exist_ok=True)
            command = [str(environments.python("tpch")), __file__, "--tables", "--folder", str(place)]
            command += ["--scale", str(args.scale), "--batches", str(args.batches), *["--batch"] * args.batch]
            subprocess.run(command, check=True, timeout=600)
        data = pickle.loads((place / "tables.pickle").read_bytes())
        wanted = args.query.replace(",", " ").split() or list(data[0])
        if args.batch:
            sys.exit(run_batch(place, {name: data[0][name] for name in wanted}, data[1], args))
        numbers = [int(each) for each in args.behind.split(",") if each] or range(1, args.batches + 1)
        results: dict[str, Any] = {}
        for name in wanted:
            results[name] = [run(name, number, data, args) for number in numbers]
            told = ", ".join(
                each.get("failed") or f"{each['rows']} rows in {each['seconds']} s" for each in results[name]
            )
            print(f"{name:4} {told}", flush=True)
    right = sum(all("rows" in each for each in of) for of in results.values())
    print(f"{right} of {len(results)} queries are right behind every batch")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(right < len(results))


if __name__ == "__main__":
    main()
