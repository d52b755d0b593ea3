"""Statements that define: what they leave in the catalogs, and what SHOW and DESCRIBE say of it."""

import pytest

from funken.errors import FunkenError, InvalidConfiguration, InvalidProgram
from funken.table.catalog import InvalidTable
from funken.table.environment import EnvironmentSettings, TableEnvironment
from funken.table.rendering import path_parts
from funken.table.result import ResultKind


@pytest.fixture
def env():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return tables


def run(env, text):
    with env.execute_sql(text).collect() as rows:
        return [tuple(row) for row in rows]


ORDERS = """
    CREATE TABLE orders (
      id BIGINT,
      item STRING COMMENT 'what',
      at TIMESTAMP(3),
      source STRING METADATA FROM 'origin' VIRTUAL,
      twice AS id * 2,
      seen AS PROCTIME(),
      WATERMARK FOR at AS at - INTERVAL '5' SECOND,
      PRIMARY KEY (id) NOT ENFORCED
    ) PARTITIONED BY (item) WITH ('connector' = 'values', 'readable-metadata' = 'origin:STRING')
"""


def test_describe_says_what_columns_are(env):
    env.execute_sql(ORDERS)

    assert run(env, "DESCRIBE orders") == [
        ("id", "BIGINT", False, "PRI(id)", None, None, None),
        ("item", "STRING", True, None, None, None, "what"),
        ("at", "TIMESTAMP(3) *ROWTIME*", True, None, None, "`at` - INTERVAL '5' SECOND", None),
        ("source", "STRING", True, None, "METADATA FROM 'origin' VIRTUAL", None, None),
        ("twice", "BIGINT", False, None, "AS `id` * 2", None, None),
        ("seen", "TIMESTAMP_LTZ(3) *PROCTIME*", False, None, "AS PROCTIME()", None, None),
    ]


def test_what_show_create_table_writes_creates_the_same_table(env):
    env.execute_sql(ORDERS)
    [(text,)] = run(env, "SHOW CREATE TABLE orders")
    env.execute_sql("DROP TABLE orders")
    env.execute_sql(text)

    assert run(env, "SHOW CREATE TABLE orders") == [(text,)]
    assert text.startswith("CREATE TABLE `default_catalog`.`default_database`.`orders` (\n  `id` BIGINT NOT NULL,")


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("a INT, a INT", "'connector' = 'print'", "A column named 'a' already exists"),
        ("a INT, PRIMARY KEY (b) NOT ENFORCED", "'connector' = 'print'", "Column 'b' does not exist"),
        ("a INT, b AS a, PRIMARY KEY (b) NOT ENFORCED", "'connector' = 'print'", "'b' is not a physical column"),
        ("a INT, WATERMARK FOR a AS a", "'connector' = 'print'", "must be of type TIMESTAMP"),
        ("a INT, WATERMARK FOR b AS b", "'connector' = 'print'", r"Available columns: \['a'\]"),
        ("a NONSENSE", "'connector' = 'print'", "NONSENSE"),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(env, columns, options, message):
    with pytest.raises(FunkenError, match=message):
        env.execute_sql(f"CREATE TABLE t ({columns}) WITH ({options})")
    assert env.list_tables() == []


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("a INT, m INT METADATA FROM 'k'", "'connector' = 'values'", "Invalid metadata key 'k' .*has these: none"),
        ("a INT, m INT METADATA", "'connector' = 'valuse'", "Did you mean 'values'"),
    ],
)
def test_the_connector_of_a_table_is_asked_when_the_table_is_used(env, columns, options, message):
    env.execute_sql(f"CREATE TABLE t ({columns}) WITH ({options})")
    for statement in ("SELECT a FROM t", "INSERT INTO t (a) VALUES (1)"):
        with pytest.raises(FunkenError, match=message):
            list(env.execute_sql(statement).collect())


def test_like_takes_over_what_it_is_told_to(env):
    env.execute_sql(ORDERS)
    env.execute_sql("CREATE TABLE a (z INT) WITH ('bounded' = 'true') LIKE orders")
    env.execute_sql(
        "CREATE TABLE b WITH ('connector' = 'print') LIKE orders (EXCLUDING ALL INCLUDING CONSTRAINTS OVERWRITING OPTIONS)"
    )

    assert [row[0] for row in run(env, "DESCRIBE a")] == ["id", "item", "at", "source", "twice", "seen", "z"]
    assert [(row[0], row[3], row[5]) for row in run(env, "DESCRIBE b")] == [
        ("id", "PRI(id)", None), ("item", None, None), ("at", None, None),
    ]  # fmt: skip
    with pytest.raises(InvalidTable, match="EXCLUDING WATERMARKS or OVERWRITING WATERMARKS"):
        env.execute_sql("CREATE TABLE c (WATERMARK FOR at AS at) LIKE orders")
    with pytest.raises(InvalidTable, match="EXCLUDING OPTIONS or OVERWRITING OPTIONS"):
        env.execute_sql("CREATE TABLE c WITH ('connector' = 'print') LIKE orders (INCLUDING OPTIONS)")


def test_alter_changes_columns_options_and_names(env):
    env.execute_sql("CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'print')")
    env.execute_sql("ALTER TABLE t ADD (first DECIMAL(5, 2) FIRST, c INT AFTER a)")
    env.execute_sql("ALTER TABLE t RENAME b TO text")
    env.execute_sql("ALTER TABLE t MODIFY c BIGINT")
    env.execute_sql("ALTER TABLE t SET ('print-identifier' = 'x')")
    assert [row[:2] for row in run(env, "DESCRIBE t")] == [
        ("first", "DECIMAL(5, 2)"), ("a", "INT"), ("c", "BIGINT"), ("text", "STRING"),
    ]  # fmt: skip
    env.execute_sql("ALTER TABLE t DROP first")
    env.execute_sql("ALTER TABLE t RESET ('print-identifier')")
    env.execute_sql("ALTER TABLE t RENAME TO u")

    assert env.list_tables() == ["u"]
    assert "print-identifier" not in run(env, "SHOW CREATE TABLE u")[0][0]
    with pytest.raises(InvalidTable, match="already exists"):
        env.execute_sql("ALTER TABLE u ADD a INT")
    with pytest.raises(InvalidTable, match="Its columns: a, c, text"):
        env.execute_sql("ALTER TABLE u DROP nope")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ADD PRIMARY KEY (b) NOT ENFORCED", "already defined the primary key"),
        ("ADD WATERMARK FOR ts AS ts", "already defined the watermark strategy"),
        ("MODIFY DISTRIBUTION INTO 2 BUCKETS", "does not define any distribution"),
        ("DROP DISTRIBUTION", "does not define any distribution"),
        ("DROP CONSTRAINT other", "named 'other'. Available constraint name: .'pk'."),
        ("DROP a", "'a' is referenced by computed column 'c'"),
        ("RENAME a TO z", "'a' is referenced by computed column 'c'"),
        ("DROP ts", "'ts' is referenced by watermark expression"),
        ("DROP id", "'id' is used as the primary key"),
        ("DROP p", "'p' is used as the partition keys"),
        ("DROP (b, b)", "duplicate column 'b'"),
        ("RENAME b TO a", "'a' already existed"),
        ("RESET ()", "does not support empty key"),
    ],
)
def test_alter_refuses_what_others_need_and_what_is_not_there(env, statement, message):
    env.execute_sql(
        "CREATE TABLE t (id INT, a INT, b INT, c AS a + 1, p STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, "
        "CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (p) WITH ('connector' = 'print')"
    )
    before = run(env, "SHOW CREATE TABLE t")
    with pytest.raises(InvalidTable, match=message):
        env.execute_sql(f"ALTER TABLE t {statement}")

    assert run(env, "SHOW CREATE TABLE t") == before


def test_alter_changes_key_watermark_and_distribution_by_name(env):
    env.execute_sql("CREATE TABLE t (id INT, a INT, ts TIMESTAMP(3)) WITH ('connector' = 'print')")
    env.execute_sql("ALTER TABLE t ADD (CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts)")
    env.execute_sql("ALTER TABLE t ADD DISTRIBUTION BY HASH (id) INTO 2 BUCKETS")
    env.execute_sql("ALTER TABLE t RENAME id TO k")

    text = run(env, "SHOW CREATE TABLE t")[0][0]
    assert all(
        part in text for part in ("CONSTRAINT `pk` PRIMARY KEY (`k`)", "WATERMARK FOR", "HASH(`k`) INTO 2 BUCKETS")
    )
    for part in ("CONSTRAINT pk", "WATERMARK", "DISTRIBUTION"):
        env.execute_sql(f"ALTER TABLE t DROP {part}")
    text = run(env, "SHOW CREATE TABLE t")[0][0]
    assert not any(word in text for word in ("PRIMARY KEY", "WATERMARK", "BUCKETS"))


def test_views_are_named_queries(env):
    env.execute_sql("CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    env.execute_sql("CREATE VIEW v (x) AS SELECT a + 1 FROM t")
    env.execute_sql("CREATE TEMPORARY VIEW w AS SELECT x FROM v")

    assert (env.list_tables(), env.list_views(), env.list_temporary_views()) == (["t", "v", "w"], ["v", "w"], ["w"])
    assert [row[:2] for row in run(env, "DESCRIBE w")] == [("x", "INT")]
    assert (
        "\nAS SELECT `t`.`a` + 1\nFROM `default_catalog`.`default_database`.`t` AS `t`\n"
        in run(env, "SHOW CREATE VIEW v")[0][0]
    )
    with pytest.raises(InvalidTable, match="names 2 columns, but its query has 1"):
        env.execute_sql("CREATE VIEW u (x, y) AS SELECT a FROM t")
    with pytest.raises(InvalidTable, match="is a view. Use SHOW CREATE VIEW"):
        env.execute_sql("SHOW CREATE TABLE v")
    env.execute_sql("DROP VIEW v")
    with pytest.raises(FunkenError, match="not found"):
        run(env, "SELECT * FROM w")


def test_constants_of_partition_are_of_its_keys(env):
    env.execute_sql("CREATE TABLE t (a INT, p STRING) PARTITIONED BY (p) WITH ('connector' = 'blackhole')")
    with pytest.raises(InvalidTable, match="'a' of PARTITION is no key of the partitions .* which has: p"):
        env.execute_sql("INSERT INTO t PARTITION (a = '1') SELECT 'x'")


def test_views_keep_comments_and_have_no_column_twice(env):
    env.execute_sql("CREATE VIEW v (x COMMENT 'first', y) COMMENT 'both' AS SELECT 1, 'a'")
    env.execute_sql("ALTER VIEW v AS SELECT 2 AS x, 'b' AS z")

    assert run(env, "SHOW CREATE VIEW v")[0][0].splitlines()[1:] == [
        "  `x`,", "  `z`", ")", "COMMENT 'both'", "AS SELECT 2 AS `x`, 'b' AS `z`",
    ]  # fmt: skip
    env.execute_sql("CREATE VIEW w (x COMMENT 'first', y) AS SELECT 1, 'a'")
    assert [row[6] for row in run(env, "DESCRIBE w")] == ["first", None]
    assert "  `x` COMMENT 'first',\n" in run(env, "SHOW CREATE VIEW w")[0][0]
    with pytest.raises(InvalidTable, match="would have two columns 'a'"):
        env.execute_sql("CREATE VIEW u AS SELECT 1 AS a, 2 AS a")


def test_like_keeps_names_of_keys_and_refuses_a_second_one(env):
    env.execute_sql(
        "CREATE TABLE b (id INT, k STRING, CONSTRAINT p PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (k) "
        "WITH ('connector' = 'print')"
    )
    env.execute_sql("CREATE TABLE c LIKE b")
    env.execute_sql("CREATE TABLE d (PRIMARY KEY (k) NOT ENFORCED) LIKE b (EXCLUDING CONSTRAINTS)")

    assert "CONSTRAINT `p` PRIMARY KEY (`id`)" in run(env, "SHOW CREATE TABLE c")[0][0]
    assert "PRIMARY KEY (`k`)" in run(env, "SHOW CREATE TABLE d")[0][0]
    for clause, feature in (("(PRIMARY KEY (k) NOT ENFORCED)", "CONSTRAINTS"), ("PARTITIONED BY (id)", "PARTITIONS")):
        with pytest.raises(InvalidTable, match=f"specify EXCLUDING {feature}"):
            env.execute_sql(f"CREATE TABLE e {clause} LIKE b")


def test_keys_are_not_enforced_and_tables_have_columns(env):
    for columns in ("(a INT, PRIMARY KEY (a))", "(a INT PRIMARY KEY)", "(a INT PRIMARY KEY ENFORCED)"):
        with pytest.raises(InvalidTable, match="NOT ENFORCED"):
            env.execute_sql(f"CREATE TABLE t {columns} WITH ('connector' = 'print')")
    with pytest.raises(InvalidTable, match="Expected a column"):
        env.execute_sql("CREATE TABLE t () WITH ('connector' = 'print')")


def test_catalogs_have_comments(env):
    env.execute_sql("CREATE CATALOG c COMMENT 'mine' WITH ('type' = 'generic_in_memory', 'default-database' = 'd')")
    assert run(env, "SHOW CREATE CATALOG c")[0][0] == (
        "CREATE CATALOG `c`\nCOMMENT 'mine'\nWITH (\n  'default-database' = 'd',\n  'type' = 'generic_in_memory'\n)\n"
    )
    env.execute_sql("ALTER CATALOG c COMMENT 'it''s new'")
    assert ("comment", "it's new") in run(env, "DESCRIBE CATALOG c")
    assert "COMMENT 'it''s new'" in run(env, "SHOW CREATE CATALOG c")[0][0]
    with pytest.raises(InvalidTable, match="does not exist"):
        env.execute_sql("ALTER CATALOG nope COMMENT 'x'")


def test_functions_of_catalogs_change_and_are_described(env):
    env.execute_sql("CREATE FUNCTION f AS 'math.sqrt' LANGUAGE PYTHON")
    env.execute_sql("ALTER FUNCTION f AS 'math.floor' LANGUAGE PYTHON")

    assert run(env, "DESCRIBE FUNCTION f") == [
        ("is system function", "false"), ("is temporary", "false"), ("class name", "math.floor"),
        ("function language", "PYTHON"), ("resource uris", "[]"),
    ]  # fmt: skip
    assert run(env, "DESCRIBE FUNCTION abs") == [("is system function", "true"), ("is temporary", "false")]
    env.execute_sql("ALTER FUNCTION IF EXISTS g AS 'math.floor' LANGUAGE PYTHON")
    for statement in ("ALTER FUNCTION g AS 'math.floor' LANGUAGE PYTHON", "DESCRIBE FUNCTION nope"):
        with pytest.raises(InvalidTable, match="does not exist"):
            env.execute_sql(statement)


def test_catalogs_and_databases_have_a_current_one(env):
    env.execute_sql("CREATE CATALOG mine WITH ('type' = 'generic_in_memory')")
    env.execute_sql("USE CATALOG mine")
    env.execute_sql("CREATE DATABASE db")
    env.use_database("db")
    env.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'print')")

    assert (env.get_current_catalog(), env.get_current_database()) == ("mine", "db")
    assert run(env, "SHOW TABLES FROM mine.db") == [("t",)]
    assert run(env, "SHOW CURRENT DATABASE") == [("db",)]
    env.execute_sql("USE default_catalog.default_database")
    with pytest.raises(InvalidTable, match="not empty. Use CASCADE"):
        env.execute_sql("DROP DATABASE mine.db")
    env.execute_sql("DROP DATABASE mine.db CASCADE")
    assert run(env, "SHOW DATABASES IN mine") == [("default",)]
    with pytest.raises(InvalidTable, match="currently in use"):
        env.execute_sql("DROP CATALOG default_catalog")
    with pytest.raises(InvalidTable, match="'hive', which is unknown. Available: file, generic_in_memory"):
        env.execute_sql("CREATE CATALOG other WITH ('type' = 'hive')")


def test_names_are_filtered_by_patterns(env):
    for name in ("orders", "Orders2", "users"):
        env.execute_sql(f"CREATE TABLE {name} (a INT) WITH ('connector' = 'print')")

    assert run(env, "SHOW TABLES LIKE 'o%'") == [("orders",)]
    assert run(env, "SHOW TABLES NOT LIKE '%s'") == [("Orders2",)]
    assert run(env, "SHOW TABLES LIKE '_rders%'") == [("Orders2",), ("orders",)]


def test_options_are_set_shown_and_reset(env):
    env.execute_sql("SET 'table.exec.state.ttl' = '1 h'")
    assert ("table.exec.state.ttl", "1 h") in run(env, "SET")
    assert env.get_config().option("table.exec.state.ttl") == 3_600_000
    env.execute_sql("RESET 'table.exec.state.ttl'")
    assert env.get_config().option("table.exec.state.ttl") == 0
    with pytest.raises(InvalidConfiguration, match=r"Did you mean 'table.exec.state.ttl'\?"):
        env.execute_sql("SET 'table.exec.state.tll' = '1 h'")
    with pytest.raises(InvalidConfiguration, match="is no time zone"):
        env.execute_sql("SET 'table.local-time-zone' = 'Mars'")


def test_functions_are_imported_by_name(env):
    env.execute_sql("CREATE TEMPORARY SYSTEM FUNCTION quoted AS 'reprlib.repr' LANGUAGE PYTHON")
    assert "quoted" in env.list_user_defined_functions()
    with pytest.raises(InvalidTable, match="Funken runs Python only"):
        env.execute_sql("CREATE FUNCTION f AS 'org.example.F'")
    with pytest.raises(InvalidTable, match="cannot be imported"):
        env.execute_sql("CREATE FUNCTION f AS 'no.such' LANGUAGE PYTHON")
    env.execute_sql("DROP TEMPORARY SYSTEM FUNCTION quoted")
    assert env.list_user_defined_functions() == []


def test_execute_sql_takes_one_statement_and_sql_query_a_query(env):
    with pytest.raises(InvalidProgram, match="has 2"):
        env.execute_sql("SHOW TABLES; SHOW VIEWS")
    with pytest.raises(InvalidProgram, match="takes a query only"):
        env.sql_query("SHOW TABLES")
    with pytest.raises(InvalidProgram, match="only INSERT statements"):
        env.create_statement_set().add_insert_sql("SELECT 1")
    with pytest.raises(InvalidProgram, match="statement set is empty"):
        env.create_statement_set().execute()


def test_create_table_as_writes_the_query(env, capsys):
    env.execute_sql("CREATE TABLE c WITH ('connector' = 'print') AS SELECT 1 AS a, 'x' AS b").wait()

    assert capsys.readouterr().out == "+I[1, x]\n"
    assert [row[:2] for row in run(env, "DESCRIBE c")] == [("a", "INT"), ("b", "CHAR(1)")]


def test_what_a_statement_returns(env, capsys):
    created = env.execute_sql("CREATE TABLE p (a INT) WITH ('connector' = 'print')")
    inserted = env.execute_sql("INSERT INTO p VALUES (1)")
    inserted.wait()

    assert created.get_result_kind() is ResultKind.SUCCESS
    assert [tuple(row) for row in inserted.collect()] == [(-1,)]
    assert inserted.get_resolved_schema().get_column_names() == ["default_catalog.default_database.p"]
    assert inserted.get_job_client().get_job_status().result().name == "FINISHED"


def test_paths_may_be_quoted():
    assert path_parts("c.`a.b`.`x``y`") == ["c", "a.b", "x`y"]
    with pytest.raises(InvalidProgram, match="no path"):
        path_parts("a..b")


def test_columns_are_filtered_and_keep_the_column_of_comments(env):
    env.execute_sql(ORDERS)
    result = env.execute_sql("SHOW COLUMNS FROM orders LIKE 'id'")
    assert result.get_resolved_schema().get_column_names()[-1] == "comment"
    assert [row[0] for row in result.collect()] == ["id"]


def test_functions_are_listed_in_capitals_and_without_operators(env):
    names = env.list_functions()
    assert {"UPPER", "COUNT", "JSON_VALUE"} <= set(names)
    assert all(name.isidentifier() for name in names)
    assert run(env, "SHOW FUNCTIONS LIKE 'UPP%'") == [("UPPER",)]
    assert ("is system function", "true") in run(env, "DESCRIBE FUNCTION upper")
