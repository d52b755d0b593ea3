"""Statements with the effects, texts and refusals of Flink 2.3."""

import pytest
from pyarrow import parquet

from funken.errors import FunkenError
from funken.table import EnvironmentSettings, TableEnvironment


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    made.get_config().set("execution.target", "local")
    made.execute_sql("CREATE TABLE t (a INT, `my col` STRING) WITH ('connector' = 'blackhole')")
    return made


def rows(tables, text):
    return [tuple(row) for row in tables.execute_sql(text).collect()]


def shown(tables, kind, name):
    [(text,)] = rows(tables, f"SHOW CREATE {kind} {name}")
    return text


def definition(tables, name):
    return shown(tables, "VIEW", name).partition("\nAS ")[2].strip()


FULL = "`default_catalog`.`default_database`"


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT * FROM t", f"SELECT `t`.`a`, `t`.`my col`\nFROM {FULL}.`t` AS `t`"),
        ("SELECT x.*, 1 AS n FROM default_database.t AS x", f"SELECT `x`.`a`, `x`.`my col`, 1 AS `n`\nFROM {FULL}.`t` AS `x`"),
        ("WITH q AS (SELECT a FROM t) SELECT * FROM q",
         f"WITH `q` AS (SELECT `t`.`a`\nFROM {FULL}.`t` AS `t`) SELECT `q`.`a`\nFROM `q` AS `q`"),
        ("SELECT * FROM (VALUES (1, 'it''s')) AS v(n, s)", "SELECT `v`.`n`, `v`.`s`\nFROM (VALUES (1, 'it''s')) AS v(n, s)"),
        (
            "SELECT * FROM t JOIN t AS u USING (a)",
            f"SELECT `a`, `t`.`my col`, `u`.`my col`\nFROM {FULL}.`t` AS `t`\nINNER JOIN {FULL}.`t` AS `u` USING (a)",
        ),
        (
            "SELECT a\nFROM t -- from t\nWHERE a IN (SELECT a FROM w)",
            f"SELECT `t`.`a`\nFROM {FULL}.`t` AS `t`\nWHERE `t`.`a` IN (SELECT `w`.`a`\nFROM {FULL}.`w` AS `w`)",
        ),
    ],
)  # fmt: skip
def test_a_view_keeps_full_names_of_its_tables_and_columns(tables, query, kept):
    tables.execute_sql("CREATE VIEW w AS SELECT a FROM t")
    if "USING" in query:
        tables.execute_sql(f"CREATE VIEW v (a, b, c) AS {query}")
    else:
        tables.execute_sql(f"CREATE VIEW v AS {query}")
    assert definition(tables, "v") == kept
    assert definition(tables, "w") == f"SELECT `t`.`a`\nFROM {FULL}.`t` AS `t`"
    tables.execute_sql(f"ALTER VIEW w AS {query if 'FROM w' not in query else 'SELECT * FROM t'}")
    assert "*" not in definition(tables, "w")


def test_a_view_stays_as_it_was_when_the_database_and_its_table_change(tables):
    tables.execute_sql("CREATE TABLE n (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    tables.execute_sql("CREATE VIEW v AS SELECT * FROM n")
    tables.execute_sql("ALTER TABLE n ADD b INT")
    tables.execute_sql("CREATE DATABASE other")
    tables.execute_sql("USE other")

    [row] = rows(tables, f"SELECT * FROM {FULL}.v")
    assert len(row) == 1


BASE = (
    "CREATE TABLE base (a INT NOT NULL, ts TIMESTAMP(3), g AS a + 1, m STRING METADATA VIRTUAL, WATERMARK FOR ts AS ts, "
    "PRIMARY KEY (a) NOT ENFORCED) COMMENT 'mine' DISTRIBUTED BY (a) INTO 2 BUCKETS PARTITIONED BY (a) "
    "WITH ('connector' = 'blackhole')"
)


@pytest.mark.parametrize(
    ("choices", "present", "absent"),
    [
        ("", ("BUCKETS", "PARTITIONED", "PRIMARY KEY", "WATERMARK", "`g` AS", "METADATA"), ("COMMENT",)),
        ("EXCLUDING ALL", ("BUCKETS", "PARTITIONED"), ("COMMENT", "PRIMARY KEY", "WATERMARK", "`g`", "METADATA")),
        ("EXCLUDING PARTITIONS EXCLUDING DISTRIBUTION", ("BUCKETS", "PARTITIONED"), ("COMMENT",)),
    ],
)
def test_parts_that_like_takes_over(tables, choices, present, absent):
    tables.execute_sql(BASE)
    tables.execute_sql(
        f"CREATE TABLE made WITH ('connector' = 'blackhole') LIKE base {f'({choices})' if choices else ''}"
    )
    text = shown(tables, "TABLE", "made")
    assert [part for part in present if part not in text] == []
    assert [part for part in absent if part in text] == []


@pytest.mark.parametrize(
    ("columns", "query", "expected"),
    [
        ("(b, a)", "SELECT 1 AS a, 'x' AS b", ["b", "a"]),
        ("(x BIGINT, b STRING)", "SELECT 1 AS a, 'x' AS b", ["x", "a", "b"]),
        ("(a BIGINT)", "SELECT 1 AS a, 'x' AS b", ["a", "b"]),
        ("(c AS a + 1)", "SELECT 1 AS a, 'x' AS b", ["c", "a", "b"]),
        ("", "SELECT 1 AS a, 'x' AS b", ["a", "b"]),
    ],
)
def test_a_table_made_of_a_query_is_filled_by_name(tables, tmp_path, columns, query, expected):
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json'"
    tables.execute_sql(f"EXPLAIN CREATE TABLE made {columns} WITH ({options}) AS {query}")
    assert tables.list_tables() == ["t"]
    tables.execute_sql(f"CREATE TABLE made {columns} WITH ({options}) AS {query}").wait()
    assert [row[0] for row in rows(tables, "DESCRIBE made")] == expected
    assert rows(tables, "SELECT a, b FROM made") == [(1, "x")]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER VIEW t RENAME TO u", "ALTER VIEW for a table is not allowed"),
        ("ALTER TABLE v RENAME TO u", "ALTER TABLE for a view is not allowed"),
        ("ALTER TABLE temporary_t ADD b INT", "is a temporary table"),
        ("ALTER TABLE temporary_t RENAME TO u", "is a temporary table"),
        ("ALTER VIEW v SET ('a' = 'b')", "Expected RENAME TO or AS"),
        ("ALTER CATALOG c RESET ('type')", "does not support changing 'type'"),
        ("ALTER CATALOG c RESET ()", "does not support empty key"),
        ("ALTER DATABASE default_database RESET ('a')", "Encountered \"RESET\""),
        ("CREATE TEMPORARY TABLE x WITH ('connector' = 'blackhole') AS SELECT 1 AS a", "does not support to create temporary"),
        ("CREATE TABLE x (a TIMESTAMP(3), WATERMARK FOR a AS 'x') WITH ('connector' = 'print')", "expression type is CHAR"),
        ("CREATE TABLE x (a INT) DISTRIBUTED BY (b) INTO 2 BUCKETS WITH ('connector' = 'print')", "Invalid bucket key 'b'"),
        ("CREATE TABLE x (a INT) DISTRIBUTED INTO 0 BUCKETS WITH ('connector' = 'print')", "Invalid bucket count '0'"),
        ("CREATE TABLE x LIKE t (OVERWRITING CONSTRAINTS)", "Illegal merging strategy 'OVERWRITING' for 'CONSTRAINTS'"),
        ("CREATE TABLE x LIKE t (INCLUDING OPTIONS EXCLUDING OPTIONS)", "can be declared only once"),
        ("CREATE OR ALTER MATERIALIZED TABLE m AS SELECT 1 AS a", "MATERIALIZED TABLE is not supported"),
        ("DROP MATERIALIZED TABLE m", "MATERIALIZED TABLE is not supported"),
        ("REPLACE TABLE x WITH ('connector' = 'print') AS SELECT 1 AS a", "to be replaced doesn't exist"),
        ("SELECT NULL", "Illegal use of 'NULL'"),
        ("SELECT 1 AS a UNION ALL SELECT NULL", "Illegal use of 'NULL'"),
        ("INSERT INTO t VALUES (1, NULL)", "Illegal use of 'NULL'"),
        ("SELECT DATE '2020-01-01' = TIMESTAMP '2020-01-01 00:00:00'", "Cannot apply '='"),
        ("SELECT DATE '2020-01-01' UNION ALL SELECT TIMESTAMP '2020-01-01 00:00:00'", "Type mismatch in column 1"),
        ("SELECT a FROM t /*+ NOPE('x') */", "Hint: NOPE should be registered"),
        ("SELECT /*+ NOPE(t) */ a FROM t", "Hint: NOPE should be registered"),
        ("SELECT /*+ BROADCAST(nope) */ t.a FROM t JOIN v ON t.a = v.a", "`nope` in `BROADCAST`"),
        ("SELECT /*+ BROADCAST() */ t.a FROM t JOIN v ON t.a = v.a", "expecting at least one table"),
        ("SELECT /*+ LOOKUP('table' = 'v', 'async' = 'maybe') */ t.a FROM t JOIN v ON t.a = v.a", "'async' is 'maybe'"),
        ("SELECT a FROM v /*+ OPTIONS('a' = 'b') */", "cannot be enriched with new options"),
    ],
)  # fmt: skip
def test_statements_that_flink_refuses(tables, statement, message):
    tables.execute_sql("CREATE VIEW v AS SELECT a FROM t")
    tables.execute_sql("CREATE TEMPORARY TABLE temporary_t (a INT) WITH ('connector' = 'blackhole')")
    tables.execute_sql("CREATE CATALOG c WITH ('type' = 'generic_in_memory')")
    with pytest.raises(FunkenError, match=message):
        tables.execute_sql(statement)


def test_statements_that_flink_takes(tables):
    tables.execute_sql("CREATE DATABASE d")
    tables.execute_sql("CREATE TABLE d.x (a INT) WITH ('connector' = 'print', 'connector' = 'blackhole')")
    tables.execute_sql("ALTER TABLE d.x RENAME TO y")
    assert rows(tables, "SHOW TABLES FROM d") == [("y",)]
    assert "'connector' = 'blackhole'" in shown(tables, "TABLE", "d.y")
    assert rows(tables, "SHOW FULL MODULES // all of them") == [("core", True)]
    assert rows(tables, "SELECT x FROM (VALUES (1), (2)) AS t(x) LIMIT ALL") == [(1,), (2,)]
    assert rows(tables, "SELECT x FROM (VALUES (1), (2)) AS t(x) WHERE NULL") == []
    tables.execute_sql("REPLACE TABLE t WITH ('connector' = 'blackhole') AS SELECT 1 AS z").wait()
    assert [row[0] for row in rows(tables, "DESCRIBE t")] == ["z"]


def test_a_batch_has_no_event_time():
    for settings, expected in (
        (EnvironmentSettings.in_batch_mode(), "TIMESTAMP(3)"),
        (EnvironmentSettings.in_streaming_mode(), "TIMESTAMP(3) *ROWTIME*"),
    ):
        tables = TableEnvironment.create(settings)
        tables.execute_sql("CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'blackhole')")
        assert [row[1] for row in rows(tables, "DESCRIBE t")] == [expected]


def test_a_stream_has_one_window_per_query():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql("CREATE TABLE t (a INT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    with pytest.raises(FunkenError, match="must be computed on the same window"):
        list(
            tables.execute_sql(
                "SELECT SUM(a) OVER (ORDER BY p), COUNT(*) OVER (PARTITION BY a ORDER BY p) FROM t"
            ).collect()
        )


def test_flink_reads_decimals_of_parquet_files(tables, tmp_path):
    """Flink 2.3 fails at decimals in a dictionary."""
    tables.execute_sql(
        f"CREATE TABLE prices (d DECIMAL(10, 3), w DECIMAL(30, 3), s STRING) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}', 'format' = 'parquet')"
    )
    tables.execute_sql("INSERT INTO prices VALUES (1.125, 2.5, 'x'), (1.125, 2.5, 'x')").wait()
    [file] = tmp_path.glob("*.parquet")
    columns = parquet.ParquetFile(file).metadata.row_group(0)
    dictionaries = ["RLE_DICTIONARY" in columns.column(place).encodings for place in range(3)]
    assert dictionaries == [False, False, True]


def test_partitions_are_shown_of_a_partitioned_table_only():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    options = "WITH ('connector' = 'filesystem', 'path' = '/tmp/p', 'format' = 'csv')"
    tables.execute_sql(f"CREATE TABLE p (a INT, b STRING) PARTITIONED BY (b) {options}")
    tables.execute_sql(f"CREATE TABLE plain (a INT) {options}")
    tables.execute_sql("CREATE VIEW v AS SELECT a FROM p")
    assert list(tables.execute_sql("SHOW PARTITIONS p").collect()) == []
    for name in ("plain", "v"):
        with pytest.raises(FunkenError, match=f"{name}`? is not partitioned"):
            tables.execute_sql(f"SHOW PARTITIONS {name}")
    with pytest.raises(FunkenError, match="Object 'plane' not found; did you mean 'plain'"):
        tables.execute_sql("SHOW PARTITIONS plane")


@pytest.fixture
def events(tmp_path):
    (tmp_path / "ev.csv").write_text(
        "".join(f"{k},{v},2020-01-01 00:00:{second:02d}\n" for k, v, second in
                [("a", 10, 1), ("b", 20, 3), ("a", 30, 7), ("a", 5, 12), ("b", 50, 13), ("a", 60, 25)])
    )  # fmt: skip
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("execution.target", "local").set("parallelism.default", "1")
    made.execute_sql(
        "CREATE TABLE ev (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    made.execute_sql("CREATE VIEW later AS SELECT k, v, ts + INTERVAL '1' SECOND AS t2 FROM ev WHERE v < 100")
    return made


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT SUM(v) FROM ev GROUP BY TUMBLE(ts + INTERVAL '1' SECOND, INTERVAL '10' SECOND)", [(55,), (60,), (60,)]),
        ("SELECT SUM(v) FROM ev GROUP BY TUMBLE(ts + INTERVAL '1' MONTH, INTERVAL '10' SECOND)", [(55,), (60,), (60,)]),
        ("SELECT SUM(v) FROM ev GROUP BY TUMBLE(FLOOR(ts TO MINUTE), INTERVAL '10' SECOND)", [(65,)]),
        ("SELECT SUM(v) FROM later GROUP BY TUMBLE(t2, INTERVAL '10' SECOND)", [(55,), (60,), (60,)]),
        (
            "SELECT CAST(TUMBLE_END(ts + INTERVAL '1' SECOND, INTERVAL '10' SECOND) AS STRING), SUM(v) FROM ev "
            "GROUP BY TUMBLE(ts + INTERVAL '1' SECOND, INTERVAL '10' SECOND)",
            [("2020-01-01 00:00:10.000", 60), ("2020-01-01 00:00:20.000", 55), ("2020-01-01 00:00:30.000", 60)],
        ),
        (
            "SELECT SUM(v) FROM ev GROUP BY HOP(ts - INTERVAL '1' SECOND, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
            [(30,), (55,), (60,), (60,), (60,), (85,)],
        ),
        (
            "SELECT k, SUM(v) FROM ev GROUP BY k, SESSION(ts - INTERVAL '1' SECOND, INTERVAL '6' SECOND)",
            [("a", 45), ("a", 60), ("b", 20), ("b", 50)],
        ),
    ],
)  # fmt: skip
def test_windows_of_groups_take_an_expression_over_a_time_attribute(events, query, expected):
    assert sorted(rows(events, query)) == expected


def test_the_current_watermark_is_that_before_the_row(events):
    found = rows(events, "SELECT v, CAST(CURRENT_WATERMARK(ts) AS STRING) FROM ev")
    seconds = [None, 0, 2, 6, 11, 12]
    assert [at and int(at[-6:-4]) for _, at in found] == seconds


CHANGES = """
CREATE VIEW s AS
    SELECT * FROM (VALUES (1, 'I', 'Al'), (2, 'I', 'Bo'), (1, 'x', 'Al'), (1, 'U', 'Cy'), (2, 'D', 'Bo')) AS t(id, op, name);
CREATE VIEW changing AS
    SELECT name, id, COUNT(*) AS n FROM (VALUES ('Al', 1), ('Al', 1), ('Bo', 2)) AS t(name, id) GROUP BY name, id;
CREATE VIEW deleted AS SELECT a.name, a.id FROM FROM_CHANGELOG(input => TABLE s PARTITION BY id, error_handling => 'SKIP',
    op_mapping => MAP['I', 'INSERT', 'U', 'UPDATE_AFTER', 'D', 'DELETE']) AS a
"""
CODES = "op_mapping => MAP['I', 'INSERT', 'U', 'UPDATE_AFTER', 'D', 'DELETE']"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            f"SELECT * FROM FROM_CHANGELOG(input => TABLE s PARTITION BY name, error_handling => 'SKIP', {CODES})",
            [("+I", "Al", 1), ("+I", "Bo", 2), ("+I", "Cy", 1), ("-D", "Bo", 2)],
        ),
        (
            "SELECT * FROM TO_CHANGELOG(input => TABLE changing PARTITION BY id, "
            "op_mapping => MAP['INSERT, UPDATE_AFTER', 'u'])",
            [("+I", 1, "u", "Al", 1), ("+I", 1, "u", "Al", 2), ("+I", 2, "u", "Bo", 1)],
        ),
        (
            "SELECT * FROM TO_CHANGELOG(input => TABLE deleted PARTITION BY id, produces_full_deletes => FALSE, "
            "op_mapping => MAP['DELETE', 'd'])",
            [("+I", 2, "d", None)],
        ),
    ],
)  # fmt: skip
def test_changelogs_as_data_have_the_partition_first(query, expected):
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("execution.target", "local").set("parallelism.default", "1")
    for statement in CHANGES.strip().split(";"):
        made.execute_sql(statement)
    with made.execute_sql(query).collect() as found:
        assert sorted([(str(row.get_row_kind()), *row) for row in found], key=str) == expected


def test_partial_deletes_need_a_key():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql("CREATE VIEW s AS SELECT * FROM (VALUES ('INSERT', 1)) AS t(op, id)")
    with pytest.raises(FunkenError, match="the table has no upsert key"):
        made.execute_sql(
            "SELECT * FROM TO_CHANGELOG(input => TABLE s, op => DESCRIPTOR(o), produces_full_deletes => FALSE)"
        )


def test_models_are_described_and_shown(tables):
    tables.execute_sql(
        "CREATE MODEL m INPUT (a INT COMMENT 'in', b STRING NOT NULL) OUTPUT (c DOUBLE) COMMENT 'of me' "
        "WITH ('provider' = 'python', 'endpoint' = 'x')"
    )
    described = [("a", "INT", True, True, "in"), ("b", "STRING", False, True, None), ("c", "DOUBLE", True, False, None)]
    for statement in ("DESCRIBE MODEL m", f"DESC MODEL EXTENDED {FULL}.m"):
        assert rows(tables, statement) == described
    assert shown(tables, "MODEL", "m") == (
        f"CREATE MODEL {FULL}.`m`\nINPUT (`a` INT COMMENT 'in', `b` VARCHAR(2147483647) NOT NULL)\nOUTPUT (`c` DOUBLE)\n"
        "COMMENT 'of me'\nWITH (\n  'endpoint' = 'x',\n  'provider' = 'python'\n)\n"
    )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DESCRIBE MODEL nope", "Model with the identifier 'default_catalog.default_database.nope' doesn't exist"),
        ("SHOW CREATE MODEL t", "Model with the identifier 'default_catalog.default_database.t' doesn't exist"),
        ("CREATE MODEL m INPUT (a INT) WITH ('provider' = 'x')", "columns of one side only. Name those of OUTPUT"),
        ("SHOW DATABASES IN default_catalog.d", "takes the name of a catalog, but has 'default_catalog.d'"),
        ("EXECUTE STATEMENT SET BEGIN END", "has no INSERT between BEGIN and END"),
        ("SHOW JOBS", "SHOW JOBS is a statement of 'funken sql'"),
        ("DESCRIBE JOB 'x'", "DESCRIBE JOB is a statement of 'funken sql'"),
        ("STOP JOB 'x'", "STOP JOB is a statement of 'funken sql'"),
    ],
)
def test_models_and_jobs_that_a_program_does_not_have(tables, statement, message):
    with pytest.raises(FunkenError, match=message):
        tables.execute_sql(statement)


@pytest.mark.parametrize(
    ("written", "shown_as"),
    [
        ("ts - interval '5' seconds", "`ts` - INTERVAL '5' SECOND"),
        ("ts + interval '1-2' year to month", "`ts` + INTERVAL '1-2' YEAR TO MONTH"),
        ("upper('x') || 'interval ''1'' seconds'", "UPPER('x') || 'interval ''1'' seconds'"),
        ("case when a is not null then cast(a as string) else `my c` end", (
            "CASE WHEN `a` IS NOT NULL THEN CAST(`a` AS STRING) ELSE `my c` END"
        )),
        ("timestampadd(day, 1, ts)", "TIMESTAMPADD(DAY, 1, `ts`)"),
        ("current_timestamp", "CURRENT_TIMESTAMP"),
    ],
)  # fmt: skip
def test_computed_columns_are_shown_with_the_words_of_sql_in_capitals(tables, written, shown_as):
    tables.execute_sql(
        f"CREATE TABLE o (a INT, ts TIMESTAMP(3), `my c` STRING, x AS {written}) WITH ('connector' = 'blackhole')"
    )
    assert rows(tables, "DESCRIBE o")[-1][4] == f"AS {shown_as}"
    assert f"`x` AS {shown_as}\n" in shown(tables, "TABLE", "o")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT CAST(a AS STRING), a, CAST(a AS BIGINT) FROM t", ["EXPR$0", "a", "EXPR$2"]),
        ("SELECT COUNT(*), COUNT(*) AS n, COUNT(a) FROM t", ["EXPR$0", "n", "EXPR$2"]),
        ("SELECT 1, 1, 'x', UPPER('x'), UPPER('x')", ["EXPR$0", "EXPR$1", "EXPR$2", "EXPR$3", "EXPR$4"]),
    ],
)
def test_columns_of_a_view_without_names_are_numbered(tables, query, names):
    tables.execute_sql(f"CREATE VIEW v AS {query}")
    assert [row[0] for row in rows(tables, "DESCRIBE v")] == names


def test_columns_of_a_view_with_one_name_are_refused(tables):
    for query in ("SELECT a, a FROM t", "SELECT a AS x, `my col` AS x FROM t", "SELECT 1 AS a, a FROM t"):
        with pytest.raises(FunkenError, match="would have two columns"):
            tables.execute_sql(f"CREATE VIEW v AS {query}")
