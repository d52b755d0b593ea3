"""Lake tables, Redis and web services as tables."""

import http.server
import json
import threading
from typing import ClassVar

import pytest

from funken import Row, RowKind
from funken.connectors.redis import RedisMessage
from funken.errors import InvalidProgram
from funken.table.connectors.contract import TableContext
from funken.table.connectors.factory import factory_of
from funken.table.connectors.services import EntryToRow, RowToCommand
from funken.table.environment import EnvironmentSettings, TableEnvironment
from funken.table.types import parse_type

COLUMNS = (("id", parse_type("BIGINT")), ("name", parse_type("STRING")))


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return made


def rows(tables, query):
    with tables.execute_sql(query).collect() as found:
        return sorted(tuple(row) for row in found)


def test_a_delta_table_is_appended_to_and_read(tables, tmp_path):
    deltalake = pytest.importorskip("deltalake", reason="install it with: pip install 'funken[delta]'")
    import pyarrow as pa

    deltalake.DeltaTable.create(str(tmp_path), schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
    tables.execute_sql(
        f"CREATE TABLE t (id BIGINT, name STRING) WITH ('connector' = 'delta', 'table-path' = '{tmp_path}')"
    )
    tables.execute_sql("INSERT INTO t VALUES (1, 'tea'), (2, CAST(NULL AS STRING))").wait()

    assert rows(tables, "SELECT id, name FROM t") == [(1, "tea"), (2, None)]
    assert rows(tables, "SELECT COUNT(*) FROM t /*+ OPTIONS('versionAsOf' = '0') */") == [(0,)]


def test_an_iceberg_table_is_appended_to_and_read(tables, tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog", reason="install it with: pip install 'funken[iceberg]'")
    import pyarrow as pa

    uri = f"sqlite:///{tmp_path}/lake.db"
    lake = catalogs.load_catalog("iceberg", type="sql", uri=uri, warehouse=f"file://{tmp_path}")
    lake.create_namespace("shop")
    lake.create_table("shop.items", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    tables.execute_sql(f"""
        CREATE TABLE items (id BIGINT, name STRING) WITH ('connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = '{uri}',
          'warehouse' = 'file://{tmp_path}', 'catalog-database' = 'shop')
    """)
    tables.execute_sql("INSERT INTO items VALUES (1, 'tea'), (2, 'jam')").wait()

    assert rows(tables, "SELECT name FROM items") == [("jam",), ("tea",)]


class Shop(http.server.BaseHTTPRequestHandler):
    """Gives two rows, and keeps what it is sent."""

    received: ClassVar[list] = []

    def do_GET(self):
        body = b'[{"id": 1, "name": "tea"}, {"id": 2}]'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


def test_a_web_service_is_read_and_told(tables):
    pytest.importorskip("urllib3", reason="install it with: pip install 'funken[http]'")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        tables.execute_sql(f"""
            CREATE TABLE items (id BIGINT, name STRING)
            WITH ('connector' = 'http', 'url' = 'http://127.0.0.1:{server.server_port}/items', 'format' = 'json')
        """)

        assert rows(tables, "SELECT id, name FROM items WHERE id > 1") == [(2, None)]
        tables.execute_sql("INSERT INTO items VALUES (7, 'oat')").wait()
        assert Shop.received == [[{"id": 7, "name": "oat"}]]
    finally:
        server.shutdown()
        server.server_close()


def test_changes_are_commands_of_redis():
    hashes = RowToCommand(COLUMNS, (0,), "item:", "")

    assert hashes(Row(1, "tea")) == [("DEL", "item:1"), ("HSET", "item:1", "id", "1", "name", "tea")]
    assert hashes(Row.of_kind(RowKind.DELETE, 1, "tea")) == ("DEL", "item:1")
    assert RowToCommand(COLUMNS, (), "", "items")(Row(1, None)) == ("XADD", "items", "*", "id", "1")
    assert tuple(EntryToRow(COLUMNS)(RedisMessage("items", "1-0", {"id": "1"}))) == (1, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"connector": "delta"}, "missing for table 't': table-path"),
        ({"connector": "iceberg", "catalog-type": "hive"}, "catalogs of type 'hive' need Java"),
        ({"connector": "http", "url": "http://x", "format": "jso"}, "Did you mean 'json'"),
        ({"connector": "redis", "url": "redis://x", "streem": "x"}, r"'streem' \(did you mean 'stream'\?\)"),
        ({"connector": "icebreg"}, "has connector 'icebreg', which is unknown. Did you mean 'iceberg'?"),
    ],
)
def test_options_that_do_not_fit_are_named(options, message):
    context = TableContext("t", COLUMNS, options=options)

    with pytest.raises(InvalidProgram, match=message):
        factory_of(context).scan(context)
