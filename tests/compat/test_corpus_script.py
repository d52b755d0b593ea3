"""``scripts/pyflink_corpus.py``: what becomes of the programs of a folder."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "pyflink_corpus.py"
TOPIC = """
from pyflink.table import EnvironmentSettings, TableEnvironment

t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
t_env.execute_sql(
    "CREATE TABLE orders (item STRING, n INT) WITH ('connector' = '{connector}', 'topic' = 'orders', 'format' = 'json', "
    "'properties.bootstrap.servers' = 'nowhere:9092', 'scan.startup.mode' = 'earliest-offset')"
)
with t_env.execute_sql("SELECT * FROM orders").collect() as rows:
    found = list(rows)
assert len(found) == 24 and all(row[0].startswith("item") for row in found), found
"""
LINES = """
import os
from deep_module import WHERE
from pyflink.common import SimpleStringSchema, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaSource

env = StreamExecutionEnvironment.get_execution_environment()
source = KafkaSource.builder().set_bootstrap_servers(os.environ["MY_BROKERS"]).set_topics(WHERE)
source = source.set_value_only_deserializer(SimpleStringSchema()).build()
lines = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "lines")
fifth = lines.process(lambda line, ctx: [(int(line.split(";")[5]), ctx.timestamp())])
with fifth.execute_and_collect() as rows:
    assert all(timestamp > 1_700_000_000_000 for _, timestamp in rows)
"""
PROGRAMS = {
    "lines.py": LINES,
    "src/lib/deep_module.py": "WHERE = 'orders'\n",
    "utils/model.py": "SIZE = 2\n",
    "other/utils.py": "",
    "beside.py": "from utils.model import SIZE\nfrom pyflink.common import Types\nprint(SIZE, Types.INT())\n",
    "never.py": "from pyflink.common import Types\n\nTypes.to_nothing()\nprint()\n",
    "topic.py": TOPIC.format(connector="kafka"),
    "unknown.py": TOPIC.format(connector="cassandra"),
    "module.py": "import no_such_module\nfrom pyflink.table import TableEnvironment\nTableEnvironment.create()\n",
    "helper.py": "from pyflink.table import DataTypes\n\n\ndef f():\n    return DataTypes.INT()\n",
}


def test_programs_are_run_over_stubs_and_told_apart(tmp_path):
    folder = tmp_path / "corpus" / "repository"
    folder.mkdir(parents=True)
    for name, text in PROGRAMS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    report = tmp_path / "report.jsonl"
    command = [sys.executable, SCRIPT, tmp_path / "corpus", "--limit", "60", "--report", report]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    words = {each["name"]: each["word"] for each in map(json.loads, report.read_text().splitlines())}
    assert words == {
        "repository/topic.py": "ran",
        "repository/lines.py": "ran",
        "repository/beside.py": "ran",
        "repository/never.py": "broken by itself",
        "repository/unknown.py": "stopped with a message",
        "repository/module.py": "broken by itself",
    }
    assert "6 programs: 3 ran, 1 stopped with a message, 2 broken by itself, 0 failed, 0 hung" in done.stdout
