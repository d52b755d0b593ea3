"""A connector is its folder: a new one needs no change elsewhere, and those that come with Funken have none there either."""

import ast
import json
import re
from pathlib import Path

import pytest

import funken
from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import NEED_SPLITS, ConnectorContext
from funken.metrics.registry import MetricGroup
from funken.testing import check_sink, check_source
from tests import test_architecture
from tests.connectors.toy import ShopSink, ShopSource, Till, entries_of

SOURCE = Path(funken.__file__).parent
CONNECTORS = (
    "delta",
    "elasticsearch",
    "hadoop",
    "http",
    "iceberg",
    "kafka",
    "kinesis",
    "mongodb",
    "postgresql",
    "pulsar",
    "rabbitmq",
    "redis",
    "sql",
)
LINES = [{"item": f"tea-{number}", "n": number} for number in range(40)]


@pytest.fixture
def shop(tmp_path):
    for till in range(4):
        (tmp_path / f"{till}.till").write_text("".join(json.dumps(each) + "\n" for each in LINES[till::4]))
    return str(tmp_path)


def test_a_source_of_one_file_keeps_the_contract(tmp_path):
    for till in range(3):
        (tmp_path / f"{till}.till").write_text("".join(f"{number}\n" for number in range(till, 30, 3)))

    check_source(ShopSource(str(tmp_path)), range(30), seeds=10)


def test_a_sink_of_one_file_keeps_the_contract(tmp_path):
    def make(seed):
        folder = tmp_path / str(seed)
        folder.mkdir()
        return ShopSink(str(folder)), lambda: entries_of(folder)

    check_sink(make, seeds=10)


def test_bytes_and_records_are_counted_by_the_bases(shop):
    metrics = MetricGroup()
    reader = ShopSource(shop).reader(ConnectorContext("tills", metrics=metrics))
    reader.add_splits([Till("0.till")])
    while reader.poll(9, now=0) is not NEED_SPLITS:
        pass
    reader.close()
    writer = ShopSink(shop).writer(ConnectorContext("books", metrics=metrics))
    writer.write(LINES, None, now=0)

    assert metrics.snapshot() == {
        "numBytesIn": sum(len(json.dumps(each)) for each in LINES[::4]),
        "numRecordsSend": 40,
        "numBytesSend": 0,
    }


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_reads_and_writes_with_it(shop, parallelism):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=parallelism)
    env.enable_checkpointing("20 ms")
    sales = env.from_source(ShopSource(shop), WatermarkStrategy.no_watermarks(), "tills")
    sales.map(lambda sale: {**sale, "n": sale["n"] * 2}).sink_to(ShopSink(shop)).name("books")

    env.execute("shop")

    assert sorted(sale["n"] for sale in entries_of(shop)) == [2 * number for number in range(40)]


ROOM = re.compile(rf"funken[./]connectors[./]({'|'.join(CONNECTORS)})\b")


def importers():
    """Which connectors the modules outside their folders import, also by name."""
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        text = path.read_text()
        if parts[0] == "compat" or parts[:2] == ("table", "connectors") or ROOM.search(text) is None:
            continue
        for node in ast.walk(ast.parse(text)):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{each.name}" for each in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                names = [node.value]
            for name in filter(ROOM.match, names):
                connector = name.split(".")[2]
                if parts[:2] != ("connectors", connector):
                    yield connector, parts[:2]


def test_nothing_else_knows_a_connector():
    assert set(importers()) == {
        ("sql", ("connectors", "postgresql")),  # it is built on that of SQL
        ("sql", ("connectors", "mysql")),
        ("kafka", ("api", "reading.py")),  # env.read_kafka()
        ("iceberg", ("table", "stored_catalogs.py")),  # CREATE CATALOG WITH ('type' = 'iceberg')
    }


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_connector_has_one_line_elsewhere(connector):
    layers = [layer for layer in test_architecture.LAYERS if f"connectors.{connector}" in layer]

    assert len(layers) <= 1
