"""Tables of Elasticsearch: documents by key, indices by columns, and options that do not fit."""

import pytest

from funken.errors import InvalidProgram
from funken.table import StreamTableEnvironment
from funken.table.connectors.contract import TableContext
from funken.table.connectors.factory import sink_table
from funken.table.types import parse_type
from tests.connectors.elasticsearch.cluster import Cluster

pytest.importorskip("urllib3", reason="install it with: pip install 'funken[elasticsearch]'")
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


def written(cluster, columns, rows, key="", index="orders", **more):
    tables = StreamTableEnvironment.create()
    tables.get_config().set("parallelism.default", "1")
    options = {"connector": "elasticsearch-7", "hosts": cluster.url, "index": index, **more}
    with_ = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    tables.execute_sql(f"CREATE TABLE orders ({columns}{key}) WITH ({with_})")
    tables.execute_sql(f"INSERT INTO orders {rows}").wait()
    return cluster.indices


def test_rows_are_documents_with_the_values_of_json(cluster):
    columns = "id INT, item STRING, price DECIMAL(10, 2), d DATE, at TIMESTAMP(3), tags ARRAY<STRING>, none STRING"
    times = "DATE '2026-11-29', TIMESTAMP '2026-11-29 10:00:00.5'"
    row = f"VALUES (1, 'tea \"x\"', 1.5, {times}, ARRAY['a', 'b'], CAST(NULL AS STRING))"
    [document] = written(cluster, columns, row)["orders"].values()

    assert document == {
        "id": 1, "item": 'tea "x"', "price": 1.5, "d": "2026-11-29", "at": "2026-11-29 10:00:00.5", "tags": ["a", "b"],
        "none": None,
    }  # fmt: skip


def test_a_key_makes_upserts_and_deletions(cluster):
    rows = "SELECT item, shop, COUNT(*) FROM (VALUES ('tea', 1), ('tea', 1), ('jam', 2)) AS t(item, shop) GROUP BY item, shop"
    key = ", PRIMARY KEY (item, shop) NOT ENFORCED"
    found = written(cluster, "item STRING, shop INT, n BIGINT", rows, key, **{"document-id.key-delimiter": "$"})

    assert found["orders"] == {
        "tea$1": {"item": "tea", "shop": 1, "n": 2},
        "jam$2": {"item": "jam", "shop": 2, "n": 1},
    }


def test_columns_and_dates_name_the_index(cluster):
    rows = "VALUES ('north', TIMESTAMP '2026-11-29 10:00:00'), ('south', TIMESTAMP '2027-01-01 00:00:00')"
    found = written(cluster, "shop STRING, at TIMESTAMP(3)", rows, index="orders-{shop}-{at|yyyy.MM.dd}")

    assert set(found) == {"orders-north-2026.11.29", "orders-south-2027.01.01"}


def test_options_of_1_10_are_taken(cluster):
    tables = StreamTableEnvironment.create()
    with pytest.warns(DeprecationWarning, match=r"'document-id.key-delimiter' = '\$'"):
        tables.execute_sql(f"""
            CREATE TABLE orders (item STRING, shop INT, PRIMARY KEY (item, shop) NOT ENFORCED) WITH (
                'connector.type' = 'elasticsearch', 'connector.version' = '7', 'connector.hosts' = '{cluster.url}',
                'connector.index' = 'orders', 'connector.document-type' = 'order', 'update-mode' = 'upsert',
                'connector.key-delimiter' = '$', 'connector.key-null-literal' = 'n/a',
                'connector.bulk-flush.max-size' = '42mb', 'connector.bulk-flush.interval' = '1000', 'format.type' = 'json')
        """)
        rows = "SELECT item, shop FROM (VALUES ('tea', 1)) AS t(item, shop) GROUP BY item, shop"
        tables.execute_sql(f"INSERT INTO orders {rows}").wait()

    assert cluster.indices["orders"] == {"tea$1": {"item": "tea", "shop": 1}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": None}, "missing for table 't': index"),
        ({"index": "orders-{ship}"}, "'index' = 'orders-{ship}' names column 'ship'; it has: id, name"),
        ({"failure-handler": "com.example.Handler"}, "it must be one of fail, ignore, retry-rejected"),
        ({"format": "avro"}, "it must be one of json"),
    ],
)
def test_options_that_do_not_fit_are_named(options, message):
    columns = (("id", parse_type("BIGINT NOT NULL")), ("name", parse_type("STRING")))
    given = {"connector": "elasticsearch-7", "hosts": "http://es:9200", "index": "orders", **options}
    with pytest.raises(InvalidProgram, match=message):
        sink_table(
            TableContext("t", columns, options={key: value for key, value in given.items() if value is not None})
        )
