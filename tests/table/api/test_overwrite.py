"""INSERT OVERWRITE and complete partitions of file tables: what goes, what stays, what a failed job leaves."""

import pytest

from funken.errors import FunkenError
from funken.table import EnvironmentSettings, TableEnvironment, col
from funken.table.udf import udf


def session(mode="batch", parallelism=1):
    settings = EnvironmentSettings.in_batch_mode() if mode == "batch" else EnvironmentSettings.in_streaming_mode()
    tables = TableEnvironment.create(settings)
    tables.get_config().set("execution.target", "local").set("parallelism.default", parallelism)
    return tables


def table(tables, path, form="csv", partitioned=True, **options):
    by = "PARTITIONED BY (day)" if partitioned else ""
    more = "".join(f", '{key}' = '{value}'" for key, value in options.items())
    tables.execute_sql(
        f"CREATE TABLE t (id INT, day STRING) {by} WITH ('connector' = 'filesystem', 'path' = '{path}', "
        f"'format' = '{form}'{more})"
    )
    return tables


def rows(tables):
    with tables.execute_sql("SELECT id, day FROM t").collect() as found:
        return sorted(tuple(row) for row in found)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc"])
def test_partitions_that_are_written_are_replaced(tmp_path, form, parallelism):
    tables = table(session(parallelism=parallelism), tmp_path / "t", form)
    tables.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'b')").wait()

    tables.execute_sql("INSERT OVERWRITE t VALUES (4, 'b'), (5, 'c')").wait()

    assert rows(tables) == [(1, "a"), (4, "b"), (5, "c")]


@pytest.mark.parametrize("query", ["VALUES (9)", "SELECT id FROM t WHERE id > 99"], ids=["rows", "none"])
def test_a_partition_that_is_named_is_replaced(tmp_path, query):
    tables = table(session(), tmp_path / "t")
    tables.execute_sql("INSERT INTO t VALUES (1, 'a b'), (2, 'b')").wait()

    tables.execute_sql(f"INSERT OVERWRITE t PARTITION (day = 'a b') {query}").wait()

    assert rows(tables) == ([(2, "b"), (9, "a b")] if "9)" in query else [(2, "b")])


@pytest.mark.parametrize("query", ["VALUES (4, 'x')", "SELECT * FROM t WHERE id > 99"], ids=["rows", "none"])
def test_a_table_without_partitions_is_replaced(tmp_path, query):
    tables = table(session(), tmp_path / "t", partitioned=False)
    tables.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')").wait()

    tables.execute_sql(f"INSERT OVERWRITE t {query}").wait()

    assert rows(tables) == ([(4, "x")] if "VALUES" in query else [])


def test_a_table_may_be_read_while_it_is_replaced(tmp_path):
    tables = table(session(), tmp_path / "t")
    tables.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')").wait()

    tables.execute_sql("INSERT OVERWRITE t SELECT id * 10, day FROM t").wait()

    assert rows(tables) == [(10, "a"), (20, "b")]


def test_a_failed_job_leaves_what_was_there(tmp_path):
    tables = table(session(), tmp_path / "t")
    tables.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')").wait()

    @udf(result_type="INT")
    def fails(value):
        raise ValueError("no")

    with pytest.raises(FunkenError):
        tables.from_path("t").select(fails(col("id")).alias("id"), col("day")).execute_insert("t", True).wait()
    assert rows(tables) == [(1, "a"), (2, "b")]


def test_a_stream_cannot_overwrite(tmp_path):
    tables = table(session("streaming"), tmp_path / "t")

    with pytest.raises(FunkenError, match="a stream never knows"):
        tables.execute_sql("INSERT OVERWRITE t VALUES (1, 'a')")


def test_a_connector_that_only_appends_cannot_overwrite():
    tables = session()
    tables.execute_sql("CREATE TABLE p (n INT) WITH ('connector' = 'print')")

    with pytest.raises(FunkenError, match="'print' cannot replace"):
        tables.execute_sql("INSERT OVERWRITE p VALUES (1)")


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_complete_partitions_have_a_success_file(tmp_path, kind):
    options = {"sink.partition-commit.policy.kind": "success-file", "sink.partition-commit.delay": "1 h"}
    tables = table(session(kind, 2), tmp_path / "t", **options)

    tables.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'b')").wait()

    assert sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("_SUCCESS")) == [
        "t/day=a/_SUCCESS",
        "t/day=b/_SUCCESS",
    ]
    assert rows(tables) == [(1, "a"), (2, "b"), (3, "b")]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_small_files_are_put_together(tmp_path, form):
    options = {"auto-compaction": "true", "compaction.file-size": "1mb", "sink.rolling-policy.file-size": "1b"}
    tables = table(session("streaming"), tmp_path / "t", form, False, **options)
    values = ", ".join(f"({n}, 'a')" for n in range(50))

    tables.execute_sql(f"INSERT INTO t VALUES {values}").wait()

    assert len([file for file in (tmp_path / "t").iterdir() if not file.name.startswith(".")]) == 1
    assert len(rows(tables)) == 50


@pytest.mark.parametrize(
    ("options", "partitioned", "says"),
    [
        ({"sink.partition-commit.policy.kind": "metastore"}, True, "policy 'metastore'.*is not supported"),
        ({"sink.partition-commit.policy.kind": "success-file"}, False, "no partitions"),
        ({"sink.partition-commit.trigger": "partition-time"}, True, "must be one of process-time"),
        (
            {"sink.partition-commit.policy.kindd": "success-file"},
            True,
            "did you mean 'sink.partition-commit.policy.kind'",
        ),
    ],
)
def test_a_mistake_in_the_options(tmp_path, options, partitioned, says):
    tables = table(session(), tmp_path / "t", "csv", partitioned, **options)

    with pytest.raises(FunkenError, match=says):
        tables.execute_sql("INSERT INTO t VALUES (1, 'a')").wait()
