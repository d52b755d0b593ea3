"""TPC-H Q3 and Q10, as the benchmark has them, over small tables of that shape; the right answer is a plain loop's."""

import datetime
import random
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from funken import Configuration
from funken.dataset import ExecutionEnvironment

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "batch"
SEGMENTS = ["BUILDING", "MACHINERY", "FURNITURE"]


@pytest.fixture(scope="module")
def tpch():
    sys.path.insert(0, str(BENCHMARK))
    try:
        import tpch

        yield tpch
    finally:
        sys.path.remove(str(BENCHMARK))


@pytest.fixture(scope="module")
def tables(tmp_path_factory, tpch):
    chance = random.Random(11)
    folder = tmp_path_factory.mktemp("tpch")

    def day():
        return str(datetime.date(1993, 6, 1) + datetime.timedelta(days=chance.randrange(900)))

    made = {
        "nation": [(number, f"nation {number}") for number in range(25)],
        "customer": [
            (n, f"name {n}", n / 4, chance.randrange(25), f"address {n}", f"phone {n}", "", chance.choice(SEGMENTS))
            for n in range(1, 151)
        ],
        "orders": [(n, chance.randrange(1, 151), day(), n % 3) for n in range(1, 1201)],
        "lineitem": [
            (
                chance.randrange(1, 1201),
                chance.randrange(100, 100_000) / 4,
                chance.randrange(8) / 16,
                day(),
                chance.choice("RAN"),
            )
            for _ in range(5000)
        ],
    }
    for table, rows in made.items():
        columns = dict(zip(tpch.COLUMNS[table].split(), zip(*rows, strict=True), strict=True))
        parquet.write_table(
            pa.table({name: list(values) for name, values in columns.items()}), folder / f"{table}.parquet"
        )
    return folder, made


def sold(made):
    orders = {order[0]: order for order in made["orders"]}
    return [(item, orders[item[0]], item[1] * (1 - item[2])) for item in made["lineitem"]]


def q3(made):
    building = {customer[0] for customer in made["customer"] if customer[7] == "BUILDING"}
    revenue = {}
    for item, order, worth in sold(made):
        if order[1] in building and order[2] < "1995-03-15" < item[3]:
            key = order[0], order[2], order[3]
            revenue[key] = revenue.get(key, 0) + worth
    found = [(key[0], worth, key[1], key[2]) for key, worth in revenue.items()]
    return sorted(found, key=lambda record: (-record[1], record[2]))[:10]


def q10(made):
    names, customers = dict(made["nation"]), {customer[0]: customer for customer in made["customer"]}
    revenue = {}
    for item, order, worth in sold(made):
        if item[4] == "R" and "1993-10-01" <= order[2] < "1994-01-01":
            revenue[order[1]] = revenue.get(order[1], 0) + worth
    top = sorted(revenue.items(), key=lambda pair: -pair[1])[:20]
    return [
        (key, customers[key][1], worth, customers[key][2], names[customers[key][3]], *customers[key][4:7])
        for key, worth in top
    ]


@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("query", ["q3", "q10"])
def test_the_answer_is_that_of_a_plain_loop(tpch, tables, query, vectorized):
    folder, made = tables
    options = {"parallelism.default": 2, "pipeline.vectorized": vectorized}
    env = ExecutionEnvironment.create_local_environment(configuration=Configuration(options))

    found = getattr(tpch, query)(env, folder).collect()

    right = {"q3": q3, "q10": q10}[query](made)
    assert len(right) > 5
    assert tpch.same(found, right)
