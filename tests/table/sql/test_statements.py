"""Texts to statements: every kind, the splitting of scripts, and where errors are."""

import pytest

from funken.table.catalog import TableDistribution
from funken.table.sql import statements as st
from funken.table.sql.parser import parse, parse_script, split


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("USE CATALOG c", st.Use("CATALOG", ("c",))),
        ("USE c.`my db`", st.Use("DATABASE", ("c", "my db"))),
        ("USE MODULES a, b", st.Use("MODULES", ("a", "b"))),
        ("SHOW TABLES", st.Show("TABLES")),
        ("SHOW TABLES FROM db NOT LIKE 'a%'", st.Show("TABLES", ("db",), "a%", True)),
        ("SHOW VIEWS", st.Show("VIEWS")),
        ("SHOW COLUMNS FROM c.d.t", st.Show("COLUMNS", ("c", "d", "t"))),
        ("SHOW CURRENT DATABASE", st.Show("CURRENT DATABASE")),
        ("SHOW CREATE TABLE t", st.Show("CREATE TABLE", ("t",))),
        ("SHOW USER FUNCTIONS", st.Show("USER FUNCTIONS")),
        ("SHOW FULL MODULES", st.Show("FULL MODULES")),
        ("SHOW PARTITIONS t", st.Show("PARTITIONS", ("t",))),
        ("DESCRIBE t", st.Describe("TABLE", ("t",))),
        ("DESC EXTENDED d.t", st.Describe("TABLE", ("d", "t"), True)),
        ("DESCRIBE CATALOG c", st.Describe("CATALOG", ("c",))),
        ("DESCRIBE catalog", st.Describe("TABLE", ("catalog",))),
        ("SET 'a.b' = 'it''s'", st.SetOption("a.b", "it's")),
        ("SET execution.runtime-mode = batch", st.SetOption("execution.runtime-mode", "batch")),
        ("SET", st.SetOption()),
        ("RESET 'a.b'", st.ResetOption("a.b")),
        ("RESET", st.ResetOption()),
        ("LOAD MODULE m WITH ('a' = 'b')", st.Module("LOAD", "m", (("a", "b"),))),
        ("UNLOAD MODULE m", st.Module("UNLOAD", "m")),
        ("ADD JAR '/x.jar'", st.Jar("ADD", "/x.jar")),
        ("REMOVE JAR '/x.jar'", st.Jar("REMOVE", "/x.jar")),
        ("EXECUTE PLAN '/p.json'", st.ExecutePlan("/p.json")),
        ("STOP JOB 'id' WITH SAVEPOINT WITH DRAIN", st.StopJob("id", True, True)),
        ("TRUNCATE TABLE d.t", st.TruncateTable(("d", "t"))),
        ("DROP TABLE IF EXISTS t", st.Drop("TABLE", ("t",), if_exists=True)),
        ("DROP TEMPORARY SYSTEM FUNCTION f", st.Drop("FUNCTION", ("f",), temporary=True, system=True)),
        ("DROP DATABASE d CASCADE", st.Drop("DATABASE", ("d",), cascade=True)),
        ("ALTER TABLE t RENAME TO d.u", st.Alter("TABLE", ("t",), "RENAME", new_path=("d", "u"))),
        ("ALTER TABLE t RENAME a TO b", st.Alter("TABLE", ("t",), "RENAME COLUMN", columns=("a", "b"))),
        ("ALTER TABLE t SET ('k' = 'v')", st.Alter("TABLE", ("t",), "SET", options=(("k", "v"),))),
        ("ALTER TABLE t RESET ('k')", st.Alter("TABLE", ("t",), "RESET", keys=("k",))),
        ("ALTER TABLE t DROP (a, b)", st.Alter("TABLE", ("t",), "DROP COLUMN", columns=("a", "b"))),
        ("ALTER TABLE t DROP PRIMARY KEY", st.Alter("TABLE", ("t",), "DROP PRIMARY KEY")),
        ("ALTER TABLE t DROP WATERMARK", st.Alter("TABLE", ("t",), "DROP WATERMARK")),
        ("CREATE DATABASE IF NOT EXISTS d COMMENT 'x'", st.CreateDatabase(("d",), True, "x")),
        (
            "CREATE CATALOG c WITH ('type' = 'generic_in_memory')",
            st.CreateCatalog("c", (("type", "generic_in_memory"),)),
        ),
        (
            "CREATE TEMPORARY SYSTEM FUNCTION f AS 'm.f' LANGUAGE PYTHON",
            st.CreateFunction(("f",), "m.f", "PYTHON", True, True),
        ),
        (
            "CREATE FUNCTION f AS 'c.F' USING JAR '/a', JAR '/b'",
            st.CreateFunction(("f",), "c.F", resources=("/a", "/b")),
        ),
        ("QUIT", st.ClientCommand("QUIT")),
        ("SOURCE 'x.sql'", st.ClientCommand("SOURCE", "x.sql")),
    ],
)
def test_a_statement_is_read(text, expected):
    assert parse(text) == expected
    assert parse(text + " ;") == expected


def test_create_table_keeps_everything_it_says():
    statement = parse(
        """CREATE TEMPORARY TABLE IF NOT EXISTS c.d.t (
            `a b` ROW<x INT NOT NULL, y ARRAY<STRING>> NOT NULL COMMENT 'it''s',
            k BIGINT CONSTRAINT pk PRIMARY KEY NOT ENFORCED,
            twice AS k * (2 + 1) COMMENT 'two, times',
            p AS PROCTIME(),
            at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
            ts TIMESTAMP(3) METADATA,
            WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) COMMENT 'all' DISTRIBUTED BY HASH(k) INTO 4 BUCKETS PARTITIONED BY (k) WITH ('connector' = 'x', 'a,b' = ')')"""
    )
    assert isinstance(statement, st.CreateTable)
    table = statement.definition
    assert statement.path == ("c", "d", "t")
    assert (statement.temporary, statement.if_not_exists, statement.replace) == (True, True, False)
    assert [(column.name, column.type_text, column.expression) for column in table.columns] == [
        ("a b", "ROW<x INT NOT NULL, y ARRAY<STRING>> NOT NULL", None),
        ("k", "BIGINT", None),
        ("twice", None, "k * (2 + 1)"),
        ("p", None, "PROCTIME()"),
        ("at", "TIMESTAMP_LTZ(3)", None),
        ("ts", "TIMESTAMP(3)", None),
    ]
    assert [(column.metadata, column.metadata_key, column.virtual) for column in table.columns[4:]] == [
        (True, "timestamp", True),
        (True, None, False),
    ]
    assert [column.comment for column in table.columns[:3]] == ["it's", None, "two, times"]
    assert (table.primary_key, table.key_name) == (("k",), "pk")
    assert table.watermark == ("ts", "ts - INTERVAL '5' SECOND")
    assert table.distribution == TableDistribution("HASH", ("k",), 4)
    assert table.partition_keys == ("k",)
    assert table.options == (("connector", "x"), ("a,b", ")"))


def test_create_table_like_and_as():
    like = parse(
        "CREATE TABLE t (WATERMARK FOR ts AS ts) LIKE o (EXCLUDING ALL INCLUDING GENERATED OVERWRITING OPTIONS)"
    )
    assert like.like == st.LikeClause(
        ("o",), (("ALL", "EXCLUDING"), ("GENERATED", "INCLUDING"), ("OPTIONS", "OVERWRITING"))
    )
    made = parse("CREATE OR REPLACE TABLE t (b, a) WITH ('connector' = 'x') AS SELECT 1 AS a, 2 AS b")
    assert made.replace
    assert [column.name for column in made.definition.columns] == ["b", "a"]
    assert made.query.sql() == "SELECT 1 AS a, 2 AS b"


def test_insert_keeps_columns_partition_and_conflict():
    statement = parse(
        "INSERT OVERWRITE TABLE d.t /*+ OPTIONS('a' = 'b') */ PARTITION (dt = '1') (x, y) SELECT 1, 2 ON CONFLICT DO NOTHING"
    )
    assert statement.target == ("d", "t")
    assert (statement.overwrite, statement.partition, statement.columns) == (True, (("dt", "1"),), ("x", "y"))
    assert (statement.conflict, statement.options) == ("NOTHING", (("a", "b"),))
    assert statement.query.sql() == "SELECT 1, 2"


def test_a_query_in_parentheses_is_no_column_list():
    assert parse("INSERT INTO t (SELECT 1)").columns is None


@pytest.mark.parametrize("form", ["EXECUTE STATEMENT SET BEGIN {} END", "BEGIN STATEMENT SET; {} END;"])
def test_a_statement_set_holds_its_inserts(form):
    text = form.format("INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t; INSERT INTO b SELECT 2;")
    statement = parse(text)
    assert isinstance(statement, st.StatementSetBlock)
    assert [insert.target for insert in statement.inserts] == [("a",), ("b",)]


def test_explain_and_compile_wrap_a_statement():
    explain = parse("EXPLAIN ESTIMATED_COST, CHANGELOG_MODE INSERT INTO t SELECT 1")
    assert explain.details == ("ESTIMATED_COST", "CHANGELOG_MODE")
    assert isinstance(explain.statement, st.Insert)
    assert isinstance(parse("EXPLAIN PLAN FOR SELECT 1").statement, st.Query)
    compiled = parse("COMPILE AND EXECUTE PLAN '/p' IF NOT EXISTS FOR INSERT INTO t SELECT 1")
    assert (compiled.file, compiled.if_not_exists, compiled.execute) == ("/p", True, True)


def test_a_script_is_split_outside_of_quotes_comments_and_sets():
    script = """-- first; not here
    SET 'a' = ';'; /* ; */ INSERT INTO `x;y` SELECT ';';
    EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;
    ;
    SELECT 1 -- done;
    """
    assert [part.split()[0] for part in map(str.strip, (part.split("*/")[-1] for part in split(script)[1:]))] == [
        "INSERT",
        "EXECUTE",
        "SELECT",
    ]
    kinds = [type(statement).__name__ for statement in parse_script(script)]
    assert kinds == ["SetOption", "Insert", "StatementSetBlock", "Query"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SHOW NOTHING", 'Encountered "NOTHING" at line 1, column 6. Expected what to show'),
        ("FLY ME", 'Encountered "FLY" at line 1, column 1. Expected one of SELECT'),
        ("CREATE TABLE t (a INT", 'Encountered "<EOF>" at line 1. Expected '),
        ("CREATE TABLE t (a INT)\nWITH ('a' 'b')", 'Encountered "b" at line 2, column 11. Expected ='),
        ("DROP TABLE t extra", 'Encountered "extra" at line 1, column 14. Expected the end of the statement'),
        ("SELECT 1; SELECT 2", "Expected one statement, found 2"),
        ("", "Expected one statement, found 0"),
        ("CREATE MATERIALIZED TABLE t AS SELECT 1", "MATERIALIZED TABLE is not supported"),
        ("DELETE FROM t", "DELETE is not supported"),
        ("CREATE TABLE t (a INT UNIQUE)", "UNIQUE constraint is not supported yet"),
        ('SELECT "a" FROM t', 'Encountered "'),
        ("SELECT\n  FROM WHERE", "at line 2, column"),
    ],
)
def test_an_error_says_where_and_what_was_expected(text, message):
    with pytest.raises(st.InvalidStatement) as raised:
        parse(text)
    assert message in str(raised.value)
