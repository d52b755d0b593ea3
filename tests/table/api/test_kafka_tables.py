"""Topics as tables, with the brokers that librdkafka has for tests."""

import datetime
import json
from types import SimpleNamespace

import pytest

from funken.errors import InvalidProgram, JobExecutionError
from funken.table.connectors.contract import TableContext
from funken.table.connectors.factory import scan_table, sink_table
from funken.table.environment import EnvironmentSettings, TableEnvironment
from funken.table.types import parse_type
from funken.testing import local

COLUMNS = (("id", parse_type("BIGINT NOT NULL")), ("name", parse_type("STRING")))


@pytest.fixture
def broker():
    """A broker in this process, and what writes to it."""
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")
    producer = confluent_kafka.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    [found] = producer.list_topics(timeout=30).brokers.values()
    return SimpleNamespace(producer=producer, servers=f"{found.host}:{found.port}")


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return made


def rows(tables, query):
    with tables.execute_sql(query).collect() as found:
        return [(str(row.get_row_kind()), *row) for row in found]


def topic(broker, name, **more):
    options = {
        "connector": "kafka", "topic": name, "properties.bootstrap.servers": broker.servers, "format": "json",
        "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset", **more,
    }  # fmt: skip
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items() if value is not None)


def test_what_is_written_to_a_topic_is_read_from_it(broker, tables):
    tables.execute_sql(f"""
        CREATE TABLE orders (
          `id` BIGINT, `name` STRING, `at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', `headers` MAP<STRING, BYTES> METADATA,
          `topic` STRING METADATA VIRTUAL, `offset` BIGINT METADATA VIRTUAL
        ) WITH ({topic(broker, "orders", **{"key.format": "raw", "key.fields": "name"})})
    """)
    tables.execute_sql("""
        INSERT INTO orders VALUES
          (1, 'tea', TO_TIMESTAMP_LTZ(1234, 3), MAP['till', X'07']), (2, 'tea', TO_TIMESTAMP_LTZ(5, 3),
           CAST(NULL AS MAP<STRING, BYTES>))
    """).wait()

    found = rows(tables, "SELECT `offset`, `id`, `at`, `headers`, `topic` FROM orders")

    at = [
        datetime.datetime(1970, 1, 1, 0, 0, 1, 234000, datetime.UTC),
        datetime.datetime(1970, 1, 1, 0, 0, 0, 5000, datetime.UTC),
    ]
    assert sorted(found) == [("+I", 0, 1, at[0], {"till": b"\7"}, "orders"), ("+I", 1, 2, at[1], {}, "orders")]


def test_each_partition_has_a_watermark_of_its_own(broker, tables):
    for partition, seconds in ((0, range(0, 60, 10)), (1, range(6))):
        for second in seconds:
            value = json.dumps({"ts": f"2024-01-01 00:00:{second:02}"}).encode()
            broker.producer.produce("clicks", value, partition=partition)
    broker.producer.flush()
    tables.execute_sql(f"""
        CREATE TABLE clicks (ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ({topic(broker, "clicks", **{"scan.watermark.emit.strategy": "on-event"})})
    """)

    found = rows(
        tables,
        """
        SELECT EXTRACT(SECOND FROM window_start), COUNT(*)
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
    """,
    )

    assert sorted(row[1:] for row in found) == [(0, 7), (10, 1), (20, 1), (30, 1), (40, 1), (50, 1)]


def test_columns_that_no_one_reads_are_not_decoded(broker, tables):
    for text in ('{"id": 1, "n": "no number", "at": 5}', '{"id": 2, "n": 7, "at": 6}'):
        broker.producer.produce("wide", text, partition=0)
    broker.producer.flush()
    tables.execute_sql(f"""
        CREATE TABLE wide (
          `id` BIGINT, `n` INT, `at` BIGINT, `ts` AS TO_TIMESTAMP_LTZ(`at`, 3), WATERMARK FOR `ts` AS `ts`
        ) WITH ({topic(broker, "wide")})
    """)

    assert rows(tables, "SELECT `id` FROM wide") == [("+I", 1), ("+I", 2)]
    assert rows(tables, "SELECT `at`, `id` FROM wide WHERE `id` > 1") == [("+I", 6, 2)]
    with pytest.raises(JobExecutionError, match="no number"):
        rows(tables, "SELECT `n` FROM wide")


def test_an_upsert_topic_keeps_the_last_row_of_a_key(broker, tables):
    with_ = topic(
        broker, "counts",
        **{"connector": "upsert-kafka", "format": None, "scan.startup.mode": None, "key.format": "json", "value.format": "json"},
    )  # fmt: skip
    tables.execute_sql(f"CREATE TABLE counts (word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED) WITH ({with_})")
    tables.execute_sql("""
        INSERT INTO counts SELECT word, COUNT(*) FROM (VALUES ('to'), ('be'), ('to')) AS t(word) GROUP BY word
    """).wait()
    broker.producer.produce("counts", None, json.dumps({"word": "be"}).encode())
    broker.producer.flush()

    left = {}
    for kind, word, n in rows(tables, "SELECT word, n FROM counts"):
        if kind in ("+I", "+U"):
            left[word] = n
        elif kind == "-D":
            del left[word]

    assert left == {"to": 2}
    assert left["to"] == 2


def test_changes_of_a_database_are_a_changelog(broker, tables):
    events = [
        {"type": "INSERT", "data": [{"id": "1", "name": "tea"}], "old": None},
        {"type": "UPDATE", "data": [{"id": "1", "name": "jam"}], "old": [{"name": "tea"}]},
        {"type": "DELETE", "data": [{"id": "1", "name": "jam"}], "old": None},
    ]
    for event in events:
        broker.producer.produce("changes", json.dumps(event).encode(), partition=0)
    broker.producer.flush()
    tables.execute_sql(
        f"CREATE TABLE t (id BIGINT, name STRING) WITH ({topic(broker, 'changes', format='canal-json')})"
    )

    assert rows(tables, "SELECT id, name FROM t") == [
        ("+I", 1, "tea"), ("-U", 1, "tea"), ("+U", 1, "jam"), ("-D", 1, "jam"),
    ]  # fmt: skip


def test_reading_begins_at_given_offsets(broker, tables):
    for number in range(4):
        broker.producer.produce("numbers", b'{"id": %d}' % number, partition=0)
    broker.producer.flush()
    more = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:2"}
    tables.execute_sql(f"CREATE TABLE t (id BIGINT) WITH ({topic(broker, 'numbers', **more)})")

    assert rows(tables, "SELECT id FROM t") == [("+I", 2), ("+I", 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"properties.bootstrap.servers": None}, "'properties.bootstrap.servers' is missing"),
        ({"format": None}, "a format is missing; set 'format' or 'value.format'"),
        ({"topic": None}, "set one of 'topic' and 'topic-pattern'"),
        ({"key.fields": "id"}, "'key.format' and 'key.fields' belong together"),
        ({"key.format": "json", "key.fields": "no"}, "'key.fields' has 'no', which is no column; there are: id, name"),
        ({"scan.startup.mode": "timestamp"}, "mode 'timestamp' needs option 'scan.startup.timestamp-millis'"),
        ({}, "needs 'properties.group.id'"),
        ({"scan.startup.mod": "x"}, r"'scan.startup.mod' \(did you mean 'scan.startup.mode'\?\)"),
        ({"connector": "upsert-kafka"}, "Unsupported options found for table 't': 'format'"),
    ],
)
def test_options_that_do_not_fit_are_named(options, message):
    all_options = {
        "connector": "kafka", "topic": "t", "properties.bootstrap.servers": "localhost:1", "format": "json", **options,
    }  # fmt: skip
    given = {key: value for key, value in all_options.items() if value is not None}

    with pytest.raises(InvalidProgram, match=message):
        scan_table(TableContext("t", COLUMNS, options=given)).stream(local([]).get_execution_environment())


def test_read_only_metadata_is_refused_where_it_is_written():
    options = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "localhost:1", "format": "json"}
    context = TableContext("t", COLUMNS, (("offset", parse_type("BIGINT")),), options=options)

    with pytest.raises(InvalidProgram, match="metadata 'offset' cannot be written; declare its column VIRTUAL"):
        sink_table(context).sink(local([]))


def test_messages_that_make_no_block_are_read_one_by_one(broker, tables):
    texts = ['{"id": 1, "at": 1000}', '{"id": "2", "at": 2000}', '{"at": 12000}', '{"id": 4,\n"at": 13000}', ""]
    for text in [*texts, *(f'{{"id": {n}, "at": {n * 1000}, "more": []}}' for n in range(14, 40))]:
        broker.producer.produce("mixed", text, partition=0)
        broker.producer.flush()
    broker.producer.produce("mixed", None, b"key", partition=0)
    broker.producer.flush()
    tables.execute_sql(f"""
        CREATE TABLE mixed (
          `id` BIGINT, `at` BIGINT, `ts` AS TO_TIMESTAMP_LTZ(`at`, 3), WATERMARK FOR `ts` AS `ts`
        ) WITH ({topic(broker, "mixed", **{"scan.watermark.emit.strategy": "on-event"})})
    """)

    expected = [(1, 1000), (2, 2000), (None, 12000), (4, 13000), *((n, n * 1000) for n in range(14, 40))]
    assert [row[1:] for row in rows(tables, "SELECT `id`, `at` FROM mixed")] == expected
    found = rows(
        tables,
        """
        SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE mixed, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end
    """,
    )
    assert [count for _, count in found] == [2, 8, 10, 10]


def test_null_in_raw_is_a_record_without_a_value(broker, tables):
    tables.execute_sql(
        "CREATE TABLE texts (`word` STRING) "
        f"WITH ({topic(broker, 'texts', **{'format': 'raw', 'properties.group.id': 'g'})})"
    )
    tables.execute_sql("INSERT INTO texts VALUES ('to'), (CAST(NULL AS STRING)), ('')").wait()

    found = [row[1:] for row in rows(tables, "SELECT * FROM texts")]
    assert sorted(found, key=str) == [("",), ("to",), (None,)]  # a topic has several partitions


def test_lines_that_are_no_csv_are_left_out_where_errors_are(broker, tables):
    for text in ("1,tea", '2,"jam', '"3"x,rye', "4,oats"):
        broker.producer.produce("lines", text, partition=0)
    broker.producer.flush()
    options = topic(broker, "lines", **{"format": "csv", "csv.ignore-parse-errors": "true"})
    tables.execute_sql(f"CREATE TABLE lines (`id` INT, `item` STRING) WITH ({options})")

    assert [row[1:] for row in rows(tables, "SELECT * FROM lines")] == [(1, "tea"), (4, "oats")]


def test_messages_become_a_block_without_rows(broker, tables, monkeypatch):
    from funken.table.connectors.formats import JsonRows

    for number in range(100):
        broker.producer.produce("blocks", f'{{"id": {number}, "name": "n{number}"}}', partition=0)
    broker.producer.flush()
    monkeypatch.setattr(JsonRows, "deserialize_all", None)
    tables.execute_sql(f"CREATE TABLE t (id BIGINT, name STRING) WITH ({topic(broker, 'blocks')})")

    assert rows(tables, "SELECT name, id FROM t WHERE id > 97") == [("+I", "n98", 98), ("+I", "n99", 99)]
