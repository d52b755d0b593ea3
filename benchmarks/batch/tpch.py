"""TPC-H Q3 and Q10 as DataSet programs, and in PySpark: RDDs of tuples (``-rdd``), DataFrames with Python functions (``-udf``).

The tables are DuckDB's ``dbgen``, with days as text and money as floats; DuckDB has the right answer. It runs in an
environment of its own, with its extension as a wheel: nothing is downloaded when it runs.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType

from funken.dataset import DataSet, ExecutionEnvironment

COLUMNS = {
    "customer": "c_custkey c_name c_acctbal c_nationkey c_address c_phone c_comment c_mktsegment",
    "orders": "o_orderkey o_custkey o_orderdate o_shippriority",
    "lineitem": "l_orderkey l_extendedprice l_discount l_shipdate l_returnflag",
    "nation": "n_nationkey n_name",
}
PROGRAMS = ("q3", "q3-rdd", "q3-udf", "q10", "q10-rdd", "q10-udf")


def read(env: ExecutionEnvironment, folder: Path, table: str) -> DataSet:
    """Return a table as tuples of its columns."""
    return env.read_parquet_file(folder / f"{table}.parquet", COLUMNS[table].split())


def best(count: int, order: Callable[[Any], Any]) -> Callable[[Iterable[Any]], list[Any]]:
    """Return what keeps the first records of an order."""
    return lambda records: heapq.nsmallest(count, records, key=order)


def q3(env: ExecutionEnvironment, folder: Path) -> DataSet:
    """Return the ten unshipped orders of most revenue: (order, revenue, day, priority)."""
    customers = read(env, folder, "customer").filter(lambda c: c[7] == "BUILDING").project(0)
    orders = read(env, folder, "orders").filter(lambda o: o[2] < "1995-03-15")
    items = read(env, folder, "lineitem").filter(lambda item: item[3] > "1995-03-15")
    wanted = orders.join(customers).where(1).equal_to(0).using(lambda order, _: (order[0], order[2], order[3]))
    sold = items.join(wanted).where(0).equal_to(0)
    revenue = sold.using(lambda item, order: (item[0], item[1] * (1 - item[2]), order[1], order[2]))
    top = best(10, lambda found: (-found[1], found[2]))
    return revenue.group_by(0, 2, 3).sum(1).reduce_group(top, top)


def q10(env: ExecutionEnvironment, folder: Path) -> DataSet:
    """Return the twenty customers that sent back most: (key, name, revenue, balance, nation, address, phone, comment)."""
    orders = read(env, folder, "orders").filter(lambda o: o[2] >= "1993-10-01" and o[2] < "1994-01-01")
    items = read(env, folder, "lineitem").filter(lambda item: item[4] == "R")
    sold = items.join(orders).where(0).equal_to(0).using(lambda item, order: (order[1], item[1] * (1 - item[2])))
    lost = sold.group_by(0).sum(1)
    named = lost.join(read(env, folder, "customer")).where(0).equal_to(0)
    flat = named.using(lambda found, c: (c[0], c[1], found[1], c[2], c[3], c[4], c[5], c[6]))
    top = best(20, lambda found: -found[2])
    whole = flat.join(read(env, folder, "nation")).where(4).equal_to(0)
    placed = whole.using(lambda c, nation: (c[0], c[1], c[2], c[3], nation[1], c[5], c[6], c[7]))
    return placed.reduce_group(top, top)


def _rdd(spark: SparkSession, folder: Path, table: str) -> Any:
    return spark.read.parquet(str(folder / f"{table}.parquet")).select(*COLUMNS[table].split()).rdd.map(tuple)


def q3_rdd(spark: SparkSession, folder: Path) -> list[Any]:
    """The same with RDDs."""
    customers = _rdd(spark, folder, "customer").filter(lambda c: c[7] == "BUILDING").map(lambda c: (c[0], None))
    orders = (
        _rdd(spark, folder, "orders").filter(lambda o: o[2] < "1995-03-15").map(lambda o: (o[1], (o[0], o[2], o[3])))
    )
    items = _rdd(spark, folder, "lineitem").filter(lambda item: item[3] > "1995-03-15")
    wanted = orders.join(customers).map(lambda pair: (pair[1][0][0], pair[1][0][1:]))
    sold = items.map(lambda item: (item[0], item[1] * (1 - item[2]))).join(wanted)
    summed = sold.map(lambda pair: ((pair[0], *pair[1][1]), pair[1][0])).reduceByKey(lambda a, b: a + b)
    return summed.map(lambda f: (f[0][0], f[1], f[0][1], f[0][2])).takeOrdered(10, lambda f: (-f[1], f[2]))


def q10_rdd(spark: SparkSession, folder: Path) -> list[Any]:
    """The same with RDDs."""
    orders = _rdd(spark, folder, "orders").filter(lambda o: "1993-10-01" <= o[2] < "1994-01-01")
    items = _rdd(spark, folder, "lineitem").filter(lambda item: item[4] == "R")
    sold = items.map(lambda item: (item[0], item[1] * (1 - item[2]))).join(orders.map(lambda o: (o[0], o[1])))
    lost = sold.map(lambda pair: (pair[1][1], pair[1][0])).reduceByKey(lambda a, b: a + b)
    named = lost.join(_rdd(spark, folder, "customer").map(lambda c: (c[0], c)))
    by_nation = named.map(lambda pair: (pair[1][1][3], (pair[1][0], pair[1][1])))
    whole = by_nation.join(_rdd(spark, folder, "nation"))
    found = whole.map(lambda f: (*f[1][0][1][:2], f[1][0][0], f[1][0][1][2], f[1][1], *f[1][0][1][4:7]))
    return found.takeOrdered(20, lambda record: -record[2])


def _frames(spark: SparkSession, folder: Path) -> list[DataFrame]:
    return [spark.read.parquet(str(folder / f"{table}.parquet")) for table in COLUMNS]


def q3_udf(spark: SparkSession, folder: Path) -> list[Any]:
    """The same with DataFrames whose functions are Python's."""
    customers, orders, items, _ = _frames(spark, folder)
    building = F.udf(lambda segment: segment == "BUILDING", BooleanType())
    before = F.udf(lambda day: day < "1995-03-15", BooleanType())
    after = F.udf(lambda day: day > "1995-03-15", BooleanType())
    worth = F.udf(lambda price, discount: price * (1 - discount), DoubleType())
    wanted = orders.filter(before("o_orderdate")).join(
        customers.filter(building("c_mktsegment")), F.col("o_custkey") == F.col("c_custkey")
    )
    sold = items.filter(after("l_shipdate")).join(wanted, F.col("l_orderkey") == F.col("o_orderkey"))
    summed = sold.groupBy("l_orderkey", "o_orderdate", "o_shippriority").agg(
        F.sum(worth("l_extendedprice", "l_discount")).alias("revenue")
    )
    top = summed.orderBy(F.desc("revenue"), "o_orderdate").limit(10)
    return [tuple(row) for row in top.select("l_orderkey", "revenue", "o_orderdate", "o_shippriority").collect()]


def q10_udf(spark: SparkSession, folder: Path) -> list[Any]:
    """The same with DataFrames whose functions are Python's."""
    customers, orders, items, nations = _frames(spark, folder)
    quarter = F.udf(lambda day: "1993-10-01" <= day < "1994-01-01", BooleanType())
    returned = F.udf(lambda flag: flag == "R", BooleanType())
    worth = F.udf(lambda price, discount: price * (1 - discount), DoubleType())
    sold = items.filter(returned("l_returnflag")).join(
        orders.filter(quarter("o_orderdate")), F.col("l_orderkey") == F.col("o_orderkey")
    )
    lost = sold.groupBy("o_custkey").agg(F.sum(worth("l_extendedprice", "l_discount")).alias("revenue"))
    named = lost.join(customers, F.col("o_custkey") == F.col("c_custkey"))
    whole = named.join(nations, F.col("c_nationkey") == F.col("n_nationkey"))
    names = ["c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"]
    return [tuple(row) for row in whole.select(*names).orderBy(F.desc("revenue")).limit(20).collect()]


def same(found: list[tuple[Any, ...]], right: list[Any]) -> bool:
    """Compare two answers; floats may differ in their last digits."""

    def alike(one: Any, other: Any) -> bool:
        return math.isclose(one, other, rel_tol=1e-9) if isinstance(one, float) else bool(one == other)

    return len(found) == len(right) and all(
        len(one) == len(other) and all(map(alike, one, other)) for one, other in zip(found, right, strict=True)
    )


def _tables(folder: Path, scale: float) -> dict[str, Any]:
    """Make the tables, once, and return DuckDB's answers."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "compare"))
    import environments  # noqa: PLC0415 - a folder of scripts beside this one

    answers = folder / "answers.json"
    if not answers.exists():
        environments.build("tpch", sys.stderr.write)
        folder.mkdir(exist_ok=True)
        script = Path(__file__).parent / "dbgen.py"
        subprocess.run(
            [str(environments.python("tpch")), str(script), str(folder), str(scale)], check=True, timeout=1800
        )
    found: dict[str, Any] = json.loads(answers.read_text())
    return found


def run(name: str, arguments: argparse.Namespace, environment: Callable[..., Any], show: Any, folder: str) -> None:
    """Measure a query, and compare its answer."""
    place = Path(folder, "tpch")
    right = _tables(place, arguments.scale)
    query, _, kind = name.partition("-")
    began = time.perf_counter()
    if kind:
        program = {"q3-rdd": q3_rdd, "q10-rdd": q10_rdd, "q3-udf": q3_udf, "q10-udf": q10_udf}[name]
        found = program(SparkSession.builder.getOrCreate(), place)
    else:
        found = {"q3": q3, "q10": q10}[query](environment(arguments), place).collect()
    seconds = time.perf_counter() - began
    assert same(found, right[query]), f"{name} is wrong: {found[:3]} instead of {right[query][:3]}"
    show(name, scale=arguments.scale, parallelism=arguments.parallelism, seconds=round(seconds, 2))
