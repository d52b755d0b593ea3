"""INSERT OVERWRITE and complete partitions of file tables: what goes, what stays, what a failed job leaves."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from funken.connectors.base import ConnectorContext
from funken.errors import FunkenError
from funken.table import DataTypes, EnvironmentSettings, TableEnvironment, col
from funken.table.connectors.contract import TableContext
from funken.table.connectors.filesystem import FilesystemFactory
from funken.table.connectors.folders import FolderMark, PartitionTimes, partition_text, partition_value
from funken.table.runtime.block import TableBlock
from funken.table.types import parse_type
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
def test_a_partition_that_is_named_is_replaced_if_rows_are_written(tmp_path, query):
    tables = table(session(), tmp_path / "t")
    tables.execute_sql("INSERT INTO t VALUES (1, 'a b'), (2, 'b')").wait()

    tables.execute_sql(f"INSERT OVERWRITE t PARTITION (day = 'a b') {query}").wait()

    assert rows(tables) == ([(2, "b"), (9, "a b")] if "9)" in query else [(1, "a b"), (2, "b")])


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


DAY = 86_400_000


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_a_table_without_partitions_is_complete_at_the_end_of_a_batch(tmp_path, kind):
    options = {
        "sink.partition-commit.policy.kind": "success-file", "sink.partition-commit.trigger": "partition-time",
    }  # fmt: skip
    tables = table(session(kind), tmp_path / "t", partitioned=False, **options)

    tables.execute_sql("INSERT INTO t VALUES (1, 'a')").wait()

    assert (tmp_path / "t" / "_SUCCESS").exists() == (kind == "batch")
    assert rows(tables) == [(1, "a")]


@pytest.mark.parametrize(
    ("more", "folder", "begins"),
    [
        ({}, "1970-01-02", DAY),
        ({}, "1970-1-2", DAY),
        ({"pattern": "$day 03:00:00"}, "1970-01-02", DAY + 3 * 3_600_000),
        ({"formatter": "yyyyMMdd"}, "19700103", 2 * DAY),
        ({"pattern": "1970-01-$day"}, "4", 3 * DAY),
        ({"zone": "+01:00"}, "1970-01-02", DAY - 3_600_000),
        ({}, "1970-01-01 24:00:00.5", DAY + 500),
        ({}, "1969-13-02", DAY),
    ],
)
def test_partitions_are_complete_when_the_watermark_passes_their_time(tmp_path, more, folder, begins):
    keys = {
        "pattern": "partition.time-extractor.timestamp-pattern",
        "formatter": "partition.time-extractor.timestamp-formatter",
        "zone": "sink.partition-commit.watermark-time-zone",
    }
    columns = (("id", DataTypes.INT()), ("day", DataTypes.STRING()))
    options = {
        "path": str(tmp_path), "format": "csv", "sink.partition-commit.policy.kind": "success-file",
        "sink.partition-commit.trigger": "partition-time", "sink.partition-commit.delay": "1 min",
        **{keys[key]: value for key, value in more.items()},
    }  # fmt: skip
    context = TableContext("t", columns, partition_keys=("day",), options=options)
    writer = FilesystemFactory().sink(context).block_sink.writer(ConnectorContext("t"))
    writer.open()
    batch = pa.record_batch({"id": pa.array([1], pa.int32()), "day": [folder]})
    writer.write(TableBlock(batch), None, 0)

    def complete(checkpoint):
        return [one.folder for one in writer.prepare_commit(checkpoint, False) if isinstance(one, FolderMark)]

    assert complete(1) == []
    writer.reach(begins + 60_000)
    assert complete(2) == []
    writer.reach(begins + 60_001)
    assert complete(3) == [f"day={partition_text(folder)}"]
    assert complete(4) == []


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("STRING", "{x}~.-_", "%7Bx%7D~.-_"),
        ("STRING", "a^\x7f[b]", "a%5E%7F%5Bb%5D"),
        ("STRING", "é a,b;c!@$&()`<>|+", "é a,b;c!@$&()`<>|+"),
        ("DECIMAL(20, 10)", Decimal("1E-10"), "0.0000000001"),
        ("DOUBLE", 1e-5, "1.0E-5"),
        ("BOOLEAN", True, "true"),
        ("TIMESTAMP(3)", datetime.datetime(2024, 1, 2, 3, 4), "2024-01-02T03%3A04"),  # noqa: DTZ001
    ],
)
def test_values_in_the_names_of_folders(type_, value, text):
    assert partition_text(value, parse_type(type_)) == text
    assert partition_value(text, parse_type(type_)) == value


def test_a_time_with_a_zone_may_lack_it_in_the_name_of_a_folder():
    expected = datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.UTC)
    for text in ("2024-01-02T03%3A04", "2024-01-02T03%3A04Z", "2024-01-02 03:04:00"):
        assert partition_value(text, parse_type("TIMESTAMP_LTZ(3)")) == expected


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("DATE", "19724", datetime.date(2024, 1, 2)),
        ("DATE", "-1", datetime.date(1969, 12, 31)),
        ("DATE", "2024-01-02", datetime.date(2024, 1, 2)),
        ("TIME", "36672000", datetime.time(10, 11, 12)),
        ("TIME", "10%3A11%3A12", datetime.time(10, 11, 12)),
    ],
)
def test_days_and_times_that_flink_has_written_in_the_names_of_folders(type_, text, expected):
    assert partition_value(text, parse_type(type_)) == expected


@pytest.mark.parametrize("type_", ["ARRAY<INT>", "MAP<STRING, INT>", "ROW<x INT>", "BYTES"])
def test_keys_of_partitions_that_no_name_holds(tmp_path, type_):
    tables = session()
    tables.execute_sql(
        f"CREATE TABLE t (a INT, p {type_}) PARTITIONED BY (p) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
        "'format' = 'csv')"
    )
    with pytest.raises(FunkenError, match="no name of a folder has such a value"):
        tables.execute_sql("SELECT a FROM t")


def test_a_table_of_keys_only_is_not_written(tmp_path):
    tables = session()
    tables.execute_sql(
        "CREATE TABLE t (p INT) PARTITIONED BY (p) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    with pytest.raises(FunkenError, match="no column beside the keys of its partitions"):
        tables.execute_sql("INSERT INTO t VALUES (1)")


def test_a_partition_without_a_time(tmp_path):
    options = {
        "sink.partition-commit.policy.kind": "success-file", "sink.partition-commit.trigger": "partition-time",
    }  # fmt: skip
    with pytest.raises(ValueError, match="partition 'day=a' has the time 'a', which is not a time such as"):
        PartitionTimes(("day",), None, None, "UTC").of("day=a")
    tables = table(session(), tmp_path / "t", **options)
    tables.execute_sql("INSERT INTO t VALUES (1, 'a')").wait()  # at the end each partition is complete
    assert (tmp_path / "t" / "day=a" / "_SUCCESS").exists()


def test_files_are_chosen_by_a_pattern_for_their_paths(tmp_path):
    for name in ("keep1", "drop1", "keep/f", "sub/keep2"):
        file = tmp_path / "t" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"1,{name}\n")
    pattern = f"{tmp_path}/t/.*keep.*"
    tables = table(session(), tmp_path / "t", partitioned=False, **{"source.path.regex-pattern": pattern})
    assert [name for _, name in rows(tables)] == ["keep/f", "keep1", "sub/keep2"]
    tables = table(session(), tmp_path / "t", partitioned=False, **{"source.path.regex-pattern": "none"})
    assert rows(tables) == []


@pytest.mark.parametrize("name", ["f1", "other=1/f3"])
@pytest.mark.parametrize("condition", ["", " WHERE day >= 'b'"])
def test_a_file_outside_of_partitions_is_refused(tmp_path, name, condition):
    tables = table(session(), tmp_path / "t")
    with pytest.warns(UserWarning, match="holds no files, so the table is empty"):
        assert rows(tables) == []  # nothing has been written yet
    for each in (name, "day=a/f2"):
        file = tmp_path / "t" / each
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1\n")
    with pytest.raises(FunkenError, match="its path has no folder 'day=...'"):
        tables.execute_sql(f"SELECT * FROM t{condition}").wait()


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
        ({"sink.partition-commit.trigger": "time"}, True, "must be one of process-time, partition-time"),
        ({"sink.partition-commit.watermark-time-zone": "Mars"}, True, "watermark-time-zone"),
        ({"partition.time-extractor.kind": "custom"}, True, "must be one of default"),
        ({"source.path.regex-pattern": "("}, True, "source.path.regex-pattern"),
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
