"""Files as tables: every format, partitions, metadata, and what is refused."""

import datetime
import json
from decimal import Decimal

import pytest

from funken.errors import FunkenError, InvalidProgram
from funken.table.connectors.contract import TableContext
from funken.table.connectors.factory import scan_table
from funken.table.connectors.json_values import JsonRules, reader_of, text_reader
from funken.table.environment import EnvironmentSettings, TableEnvironment
from funken.table.types import parse_type

COLUMNS = """
    id BIGINT NOT NULL, name STRING, price DECIMAL(10, 2), share DOUBLE, at TIMESTAMP(3), seen TIMESTAMP_LTZ(3), day DATE,
    flag BOOLEAN, tags ARRAY<STRING>
"""
INSERT = """
    INSERT INTO t VALUES
      (1, 'tea, black', 1.50, 0.5, TIMESTAMP '2024-02-03 04:05:06.123', TO_TIMESTAMP_LTZ(7, 3), DATE '2024-02-03', TRUE,
       ARRAY['a', 'b']),
      (2, CAST(NULL AS STRING), CAST(NULL AS DECIMAL(10, 2)), CAST(NULL AS DOUBLE), CAST(NULL AS TIMESTAMP(3)),
       CAST(NULL AS TIMESTAMP_LTZ(3)), CAST(NULL AS DATE), CAST(NULL AS BOOLEAN), CAST(NULL AS ARRAY<STRING>))
"""


def tables(batch=True):
    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    made = TableEnvironment.create(settings)
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return made


def rows(made, query):
    with made.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


@pytest.mark.parametrize("name", ["json", "csv", "parquet", "avro", "debezium-json", "orc"])
def test_rows_come_back_as_they_were_written(name, tmp_path):
    made = tables()
    options = ", 'csv.null-literal' = 'null'" if name == "csv" else ""
    made.execute_sql(
        f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = '{name}'{options})"
    )
    made.execute_sql(INSERT).wait()

    first, second = sorted(rows(made, "SELECT * FROM t"))

    assert first == (
        1, "tea, black", Decimal("1.50"), 0.5, datetime.datetime(2024, 2, 3, 4, 5, 6, 123000),  # noqa: DTZ001
        datetime.datetime(1970, 1, 1, 0, 0, 0, 7000, datetime.UTC), datetime.date(2024, 2, 3), True, ["a", "b"],
    )  # fmt: skip
    assert second == (2, *[None] * 8)
    assert rows(made, "SELECT flag, id FROM t WHERE id = 1") == [(True, 1)]


@pytest.mark.parametrize("name", ["json", "parquet"])
def test_partitions_are_folders(name, tmp_path):
    made = tables()
    made.execute_sql(f"""
        CREATE TABLE t (item STRING, dt DATE, n INT, h INT) PARTITIONED BY (dt, h)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = '{name}')
    """)
    made.execute_sql("""
        INSERT INTO t VALUES ('tea', DATE '2024-02-03', 1, 7), ('jam', DATE '2024-02-03', 2, CAST(NULL AS INT))
    """).wait()

    folders = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("part-*")}
    assert folders == {"dt=2024-02-03/h=7", "dt=2024-02-03/h=__DEFAULT_PARTITION__"}
    assert sorted(rows(made, "SELECT h, n, item, dt FROM t"), key=lambda row: row[1]) == [
        (7, 1, "tea", datetime.date(2024, 2, 3)),
        (None, 2, "jam", datetime.date(2024, 2, 3)),
    ]


def test_metadata_of_files_are_columns(tmp_path):
    (tmp_path / "a.json").write_text('{"n": 1}\n')
    made = tables()
    made.execute_sql(f"""
        CREATE TABLE t (n INT, name STRING METADATA FROM 'file.name', size BIGINT METADATA FROM 'file.size')
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')
    """)

    assert rows(made, "SELECT size, name, n FROM t") == [(9, "a.json", 1)]


def test_files_with_changes_are_a_changelog(tmp_path):
    events = [
        {"op": "c", "before": None, "after": {"id": 1, "v": 1}},
        {"op": "u", "before": {"id": 1, "v": 1}, "after": {"id": 1, "v": 2}},
        {"op": "c", "before": None, "after": {"id": 2, "v": 5}},
        {"op": "d", "before": {"id": 2, "v": 5}, "after": None},
    ]
    (tmp_path / "a").write_text("\n".join(map(json.dumps, events)))
    made = tables(batch=False)
    made.execute_sql(f"""
        CREATE TABLE t (id INT, v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'debezium-json')
    """)

    with made.execute_sql("SELECT id, v FROM t").collect() as found:
        assert [(str(row.get_row_kind()), *row) for row in found] == [
            ("+I", 1, 1), ("-U", 1, 1), ("+U", 1, 2), ("+I", 2, 5), ("-D", 2, 5),
        ]  # fmt: skip


def test_lines_that_cannot_be_read_fail_the_job_or_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("1,tea\nx,jam\n3\n")
    made = tables()
    with_ = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv'"
    made.execute_sql(f"CREATE TABLE strict (n INT, item STRING) WITH ({with_})")
    made.execute_sql(f"CREATE TABLE lenient (n INT, item STRING) WITH ({with_}, 'csv.ignore-parse-errors' = 'true')")

    with pytest.raises(Exception, match="it has 1 field"):
        rows(made, "SELECT * FROM strict")
    assert rows(made, "SELECT * FROM lenient") == [(1, "tea"), (None, "jam"), (3, None)]


def test_columns_of_parquet_that_no_query_needs_are_not_read(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"n": [1, 2, 3], "text": ["a", "b", "c"]}), tmp_path / "a.parquet")
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "parquet"}
    scan = scan_table(
        TableContext("t", (("n", parse_type("INT")), ("text", parse_type("STRING"))), options=options)
    ).selected(["n"])

    made = tables()
    made.execute_sql(
        f"CREATE TABLE t (n INT, text STRING, more INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
        "'format' = 'parquet')"
    )
    assert scan._files().inner.fields == ("n",)
    assert rows(made, "SELECT SUM(n) AS s FROM t") == [(6,)]
    assert rows(made, "SELECT more, n FROM t WHERE n > 2") == [(None, 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "json"}, "missing for table 't': path"),
        ({"path": "/in"}, "missing for table 't': format"),
        ({"path": "/in", "format": "jason"}, "has format 'jason', which is unknown here. Did you mean 'json'?"),
        ({"path": "/in", "format": "json", "json.ignore-errors": "true"}, r"'json.ignore-errors' \(did you mean"),
        (
            {"path": "/in", "format": "json", "json.ignore-parse-errors": "true", "json.fail-on-missing-field": "true"},
            "shouldn't both be true",
        ),
    ],
)
def test_options_that_do_not_fit_are_named(options, message):
    from funken.testing import local

    context = TableContext("t", (("n", parse_type("INT")),), options={"connector": "filesystem", **options})
    with pytest.raises(InvalidProgram, match=message):
        scan_table(context).stream(local([]).get_execution_environment())


def test_rows_of_a_stopped_job_go_on_where_they_were(tmp_path):
    """Positions of batches count rows, so that a restored reader skips those that it has given."""
    import pickle

    import pyarrow as pa
    from pyarrow import parquet

    from funken.connectors.base import ConnectorContext

    parquet.write_table(pa.table({"n": list(range(40_000))}), tmp_path / "a.parquet")
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "parquet"}
    scan = scan_table(TableContext("t", (("n", parse_type("INT")),), options=options))
    from funken.connectors.files.source import FileSource

    source = FileSource.for_format(scan._files(), str(tmp_path)).build()
    splits = source.enumerator(1)
    splits.start()
    reader = source.reader(ConnectorContext("in", 0, 1))
    reader.add_splits(splits.next_splits(0))
    first = reader.poll(1, 0).values[0]
    [state] = pickle.loads(pickle.dumps(reader.snapshot_state(1)))
    again = source.reader(ConnectorContext("in", 0, 1))
    again.add_splits([state])
    rest = again.poll(1, 0).values[0]
    reader.close()
    again.close()

    assert first.column(0).to_pylist() + rest.column(0).to_pylist() == list(range(32_768))


def test_maps_and_rows_are_in_json(tmp_path):
    (tmp_path / "a.json").write_text('{"m": {"a": 1}, "r": {"x": "2", "y": null}, "s": {"q": [1, 2.50]}}\n')
    made = tables()
    made.execute_sql(f"""
        CREATE TABLE t (m MAP<STRING, INT>, r ROW<x INT, y STRING>, s STRING)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')
    """)

    [(found, row, text)] = rows(made, "SELECT * FROM t")
    assert (found, tuple(row), text) == ({"a": 1}, (2, None), '{"q":[1,2.5]}')


@pytest.mark.parametrize("wrong", ["1_000", "\u0661_0", "nan", "inf", "0x1", "1 000"])
@pytest.mark.parametrize("type_", ["BIGINT", "DOUBLE", "DECIMAL(10, 2)"])
def test_numbers_are_read_as_java_reads_them(type_, wrong):
    for read in (text_reader(parse_type(type_)), reader_of(parse_type(type_), JsonRules())):
        assert float(read("+5")) == 5
        with pytest.raises(ValueError, match="is no"):
            read(wrong)


@pytest.mark.parametrize(("delimiter", "between"), [("§", "§"), ("→", "→"), ("\\u0001", "\x01"), ("\\t", "\t")])
def test_any_character_delimits_fields(tmp_path, delimiter, between):
    (tmp_path / "f.csv").write_text(f"1{between}a\n", encoding="utf-8")
    made = tables()
    made.execute_sql(
        f"CREATE TABLE d (i INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv', "
        f"'csv.field-delimiter' = '{delimiter}')"
    )

    assert rows(made, "SELECT * FROM d") == [(1, "a")]


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({}, "1,a,\n2,b\n", [(1, "a"), (2, "b")]),
        ({"allow-trailing-comma": "false"}, "1,a,\n", None),
        ({}, "1,a,x\n", None),
        ({"ignore-trailing-unmappable": "true"}, "1,a,x,y\n", [(1, "a")]),
        ({}, "1,\n", [(1, "")]),
        ({"empty-string-as-null": "true"}, "1,\n,b\n", [(1, None), (None, "b")]),
        ({"trim-spaces": "true"}, ' 1 ,\t"a, b " \r\n2, c d \n', [(1, "a, b "), (2, "c d")]),
        ({"ignore-parse-errors": "true"}, "1\n2,b\n", [(1, None), (2, "b")]),
        ({"ignore-parse-errors": "true", "fail-on-missing-columns": "true"}, "1\n2,b\n", [(2, "b")]),
    ],
)
def test_what_csv_allows_around_fields(tmp_path, options, text, expected):
    (tmp_path / "f.csv").write_text(text)
    given = "".join(f", 'csv.{key}' = '{value}'" for key, value in options.items())
    made = tables()
    made.execute_sql(
        f"CREATE TABLE d (i INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv'{given})"
    )

    if expected is None:
        with pytest.raises(FunkenError, match=r"it has 3 field\(s\) and not 2: i, s"):
            rows(made, "SELECT * FROM d")
    else:
        assert rows(made, "SELECT * FROM d") == expected


def test_short_dates_and_rows_without_a_field_in_csv(tmp_path):
    (tmp_path / "f.csv").write_text("2024-1-2,5;a\n2024-11-12,\n")
    made = tables()
    made.execute_sql(
        "CREATE TABLE d (at DATE, r ROW<x INT, y STRING>) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )

    first, second = datetime.date(2024, 1, 2), datetime.date(2024, 11, 12)
    assert rows(made, "SELECT at, r.x FROM d") == [(first, 5), (second, None)]


def test_names_of_partitions_are_texts_of_java(tmp_path):
    made = tables()
    made.execute_sql(
        "CREATE TABLE d (i INT, b BOOLEAN, at TIMESTAMP(3), seen TIMESTAMP_LTZ(3), s STRING) PARTITIONED BY (b, at, seen, s) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    made.execute_sql(
        "INSERT INTO d VALUES (1, TRUE, TIMESTAMP '2024-02-03 04:05:00', TO_TIMESTAMP_LTZ(1500, 3), 'é a/b:c=%'), "
        "(2, FALSE, TIMESTAMP '2024-02-03 04:05:06.7', TO_TIMESTAMP_LTZ(0, 3), 'x')"
    ).wait()

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*/*/*")) == [
        "b=false/at=2024-02-03T04%3A05%3A06.700/seen=1970-01-01T00%3A00%3A00Z/s=x",
        "b=true/at=2024-02-03T04%3A05/seen=1970-01-01T00%3A00%3A01.500Z/s=é a%2Fb%3Ac%3D%25",
    ]
    at = datetime.datetime.fromisoformat("2024-02-03T04:05:00")
    seen = datetime.datetime.fromtimestamp(1.5, datetime.UTC)
    assert rows(made, "SELECT * FROM d WHERE b") == [(1, True, at, seen, "é a/b:c=%")]


# ---- blocks of lines, and lines of blocks

TYPES = [
    ("n", "BIGINT"), ("small", "TINYINT"), ("text", "STRING"), ("x", "DOUBLE"), ("f", "FLOAT"), ("flag", "BOOLEAN"),
    ("price", "DECIMAL(10, 2)"), ("at", "TIMESTAMP(3)"), ("seen", "TIMESTAMP_LTZ(3)"), ("day", "DATE"), ("time", "TIME"),
    ("tags", "ARRAY<STRING>"), ("map", "MAP<STRING, INT>"), ("row", "ROW<a INT, b STRING>"), ("bytes", "BYTES"),
]  # fmt: skip
FORMED = tuple((name, parse_type(text)) for name, text in TYPES)
VALUES = [
    b'"n": 7', b'"n": "7"', b'"n": 1.5', b'"n": 2.0', b'"n": 9223372036854775808', b'"n": true', b'"n": null', b'"small": 127',
    b'"small": 128', b'"text": "a\\u00e4\\n"', b'"text": "\xc3\xa4"', b'"text": 1.50', b'"text": {"a": [1.50]}', b'"x": 1',
    b'"x": 1e400', b'"x": "2.5"', b'"f": 0.1', b'"flag": true', b'"flag": "TRUE"', b'"price": 1.005', b'"price": "7"',
    b'"at": "2024-02-03 04:05:06.123"', b'"at": "2024-02-03T04:05:06"', b'"seen": "2024-02-03 04:05:06Z"',
    b'"day": "2024-02-03"', b'"time": "04:05:06"', b'"tags": ["a", null]', b'"tags": "a"', b'"map": {"a": 1}',
    b'"row": {"a": 1, "c": 2}', b'"bytes": "AAE="', b'"other": {"n": 1}', b'"n": 1, "n": 2', b'"text": "\xff"',
]  # fmt: skip


@pytest.mark.parametrize("rules", [{}, {"ignores_errors": True}, {"fails_on_missing": True}])
def test_a_block_of_documents_has_the_rows_that_they_have_one_by_one(rules):
    import random

    from funken.table.connectors.formats import JsonRows
    from funken.table.connectors.json_values import JsonRules

    chance, read, blocks = random.Random(1), 0, 0
    for _ in range(400):
        columns = tuple(chance.sample(FORMED, chance.randint(1, 4)))
        wanted = [value for value in VALUES if value.split(b'"')[1].decode() in (*dict(columns), "other")]
        lines = [
            b"{" + b", ".join(chance.sample(wanted, min(len(wanted), chance.randint(0, 3)))) + b"}"
            for _ in range(chance.randint(1, 2))
        ] + chance.choice([[], [], [], [b"null"], [b"[1]"], [b"{"]])
        rows = JsonRows(columns, JsonRules(**rules))
        try:
            expected = [tuple(row) for line in lines for row in rows.deserialize_all(line)]
        except ValueError:
            expected = None
        block = rows.lines_to_blocks()(b"\n".join(lines))
        if block is not None:
            from funken.table.connectors.folders import schema_of

            schema = schema_of(columns)
            assert list(map(tuple, schema.rows(block))) == list(map(tuple, schema.rows(schema.of_rows(expected))))
            blocks += 1
        read += expected is not None
    assert blocks > 15
    assert read > blocks


@pytest.mark.parametrize("name", ["json", "csv"])
def test_lines_of_a_block_are_those_of_its_rows(name):
    from funken.table.connectors.folders import schema_of
    from funken.table.connectors.formats import CsvTableRows, JsonRows
    from funken.table.connectors.json_values import JsonRules

    instant = datetime.datetime(2024, 2, 3, 4, 5, 6, 120_000, datetime.UTC)
    row = (
        7, -1, 'a,"b"\nä', 1e7, 0.1, True, Decimal("1.50"), instant.replace(tzinfo=None), instant, instant.date(),
        datetime.time(4, 5, 6), ["a", "b"],
    )  # fmt: skip
    plain = FORMED[: len(row)]
    for columns, given in [
        (plain, [row, (None,) * len(row), row]),
        (plain[:3], [(1, 2, "tea"), (3, 4, "x" * 30), (None, None, None), (5, 6, "")]),
        (plain[2:3], [("",), ("tea",), (None,)]),
        ((("100%", plain[0][1]),), [(1,)]),
    ]:
        written = JsonRows(columns, JsonRules()) if name == "json" else CsvTableRows(columns, (), False)
        schema = schema_of(columns)
        block = schema.of_rows(given)
        assert written.messages_of(block) == [written.serialize(each) for each in schema.rows(block)]
        assert written.messages_of(block[1:]) == written.messages_of(block)[1:]


@pytest.mark.parametrize("name", ["csv", "json", "parquet", "avro"])
@pytest.mark.parametrize("more", ["", ", 'auto-compaction' = 'true', 'sink.parallelism' = '2'"])
def test_rows_of_a_block_go_to_their_folders_in_order(name, more, tmp_path):
    made = tables()
    made.execute_sql(f"""
        CREATE TABLE t (dt STRING, n BIGINT, item STRING, h INT) PARTITIONED BY (dt, h)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = '{name}'{more})
    """)
    given = [(["mon", None, "a/b", ""][n % 4], n, f"item, {n}", n % 3) for n in range(5000)]
    made.create_temporary_view("given", made.from_elements(given, ["dt", "n", "item", "h"]))
    made.execute_sql("INSERT INTO t SELECT dt, n, item, CAST(h AS INT) FROM given").wait()

    folders = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("part-*")}
    assert folders == {f"dt={dt}/h={h}" for dt in ("mon", "__DEFAULT_PARTITION__", "a%2Fb") for h in range(3)}
    assert sorted(rows(made, "SELECT dt, n, item, h FROM t"), key=lambda row: row[1]) == [
        (dt or None, *rest) for dt, *rest in given
    ]
    if name == "csv" and not more:
        [path] = (tmp_path / "dt=mon" / "h=0").glob("part-*")
        numbers = [int(line.split(",")[0]) for line in path.read_text().splitlines()]
        assert numbers == sorted(numbers)


def test_documents_of_a_stopped_job_go_on_where_they_were(tmp_path, monkeypatch):
    from funken.connectors.base import NEED_SPLITS, ConnectorContext
    from funken.connectors.files.source import FileSource
    from funken.table.connectors.formats import JsonRows

    (tmp_path / "dt=mon").mkdir()
    lines = [f'{{"n": {n}}}' for n in range(5000)]
    (tmp_path / "dt=mon" / "a").write_text("\n".join(lines))
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "json"}
    columns = (("dt", parse_type("STRING")), ("n", parse_type("INT")))
    scan = scan_table(TableContext("t", columns, partition_keys=("dt",), options=options))
    monkeypatch.setattr(JsonRows, "deserialize_all", None)  # not one by one
    source = FileSource.for_format(scan._files(), str(tmp_path)).build()
    splits = source.enumerator(1)
    splits.start()
    given = splits.next_splits(0)
    found = []
    for limit in (1000, 10_000):
        reader = source.reader(ConnectorContext("in", 0, 1))
        reader.add_splits(given)
        while (batch := reader.poll(limit, 0)) is not NEED_SPLITS:
            found += zip(*batch.values.batch.to_pydict().values(), strict=True)
            if limit == 1000:
                break
        given = reader.snapshot_state(1)
        reader.close()

    assert source.makes_blocks
    assert found == [("mon", n) for n in range(5000)]


def test_partitions_that_a_statement_declares(tmp_path):
    made = tables()
    made.execute_sql(f"""
        CREATE TABLE t (a INT, p INT, q STRING) PARTITIONED BY (p, q)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')
    """)
    made.execute_sql("INSERT INTO t VALUES (1, 1, 'x')").wait()
    assert rows(made, "SHOW PARTITIONS t") == []  # as Flink, of those in folders it lists none

    made.execute_sql("ALTER TABLE t ADD PARTITION (p = 9, q = 'z')")
    made.execute_sql(
        "ALTER TABLE t ADD IF NOT EXISTS PARTITION (p = 9, q = 'z') PARTITION (q = 'y', p = 2) WITH ('k' = 'v')"
    )
    assert rows(made, "SHOW PARTITIONS t") == [("p=9/q=z",), ("q=y/p=2",)]
    assert rows(made, "SHOW PARTITIONS t PARTITION (p = 2)") == [("q=y/p=2",)]

    made.execute_sql("ALTER TABLE t DROP PARTITION (p = 2, q = 'y'), PARTITION (p = 9, q = 'z')")
    made.execute_sql("ALTER TABLE t DROP IF EXISTS PARTITION (p = 2, q = 'y')")
    assert rows(made, "SHOW PARTITIONS t") == []
    assert rows(made, "SELECT * FROM t") == [(1, 1, "x")]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ALTER TABLE t ADD PARTITION (p = 1)", "Partition p=1 already exists. Use ADD IF NOT EXISTS"),
        ("ALTER TABLE t ADD PARTITION (a = 1)", "does not match the keys of the partitions: p"),
        ("ALTER TABLE t DROP PARTITION (p = 7)", "Partition p=7 does not exist. Use DROP IF EXISTS"),
        ("ALTER TABLE plain ADD PARTITION (a = 1)", "plain is not partitioned"),
        ("SHOW PARTITIONS plain", "plain is not partitioned"),
        ("SHOW PARTITIONS nope", "Object 'nope' not found"),
        ("SHOW PARTITIONS passing", "is temporary, so no catalog keeps its partitions"),
    ],
)
def test_partitions_that_cannot_be_declared(statement, says, tmp_path):
    made = tables()
    options = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    made.execute_sql(f"CREATE TABLE t (a INT, p INT) PARTITIONED BY (p) {options}")
    made.execute_sql(f"CREATE TABLE plain (a INT) {options}")
    made.execute_sql(f"CREATE TEMPORARY TABLE passing (a INT, p INT) PARTITIONED BY (p) {options}")
    made.execute_sql("ALTER TABLE t ADD PARTITION (p = 1)")
    with pytest.raises(FunkenError, match=says):
        made.execute_sql(statement)


def test_names_of_keys_are_escaped_in_folders(tmp_path):
    made = tables()
    made.execute_sql(f"""
        CREATE TABLE t (a INT, `p=q` STRING) PARTITIONED BY (`p=q`)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')
    """)
    made.execute_sql("INSERT INTO t VALUES (1, 'a=b')").wait()

    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["p%3Dq=a%3Db"]
    assert rows(made, "SELECT * FROM t WHERE `p=q` = 'a=b'") == [(1, "a=b")]


def test_two_columns_of_one_key_of_metadata(tmp_path):
    with pytest.raises(FunkenError, match="`n` and `m` in the table are both from the same metadata key 'file.size'"):
        tables().execute_sql(f"""
            CREATE TABLE t (a INT, n BIGINT METADATA FROM 'file.size', m STRING METADATA FROM 'file.size')
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')
        """)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("sink.rolling-policy.file-size", "0", "it must be at least 1 b"),
        ("sink.rolling-policy.rollover-interval", "0 s", "it must be at least 1 ms"),
        ("sink.rolling-policy.inactivity-interval", "0 s", "it must be at least 1 ms"),
        ("sink.rolling-policy.check-interval", "-1 s", "a duration is not negative"),
        ("sink.partition-commit.delay", "-1 s", "a duration is not negative"),
        ("source.monitor-interval", "0 s", "it must be at least 1 ms"),
        ("sink.parallelism", "0", "it must be at least 1"),
        ("sink.partition-commit.policy.class", "x.Y", "a policy of one's own is a class of Java"),
    ],
)
def test_values_that_options_do_not_have(option, value, says, tmp_path):
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "csv", option: value}
    with pytest.raises(InvalidProgram, match=f"Invalid value for option '{option}'.*{says}"):
        scan_table(TableContext("t", (("a", parse_type("INT")),), options=options))


def test_a_key_of_a_partition_is_given_once(tmp_path):
    with pytest.raises(FunkenError, match="column 'p' is assigned more than once"):
        tables().execute_sql("INSERT INTO t PARTITION (p = 1, p = 2) SELECT 1")
