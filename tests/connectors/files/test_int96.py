"""Timestamps of the type INT96 of any year, by all that reads Parquet."""

import datetime

import pyarrow as pa
import pytest
from pyarrow import parquet

from funken import Configuration, FileSource, StreamExecutionEnvironment, Types
from funken.connectors.delta import DeltaSource
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.iceberg import IcebergCatalog, IcebergSource
from funken.dataset import ExecutionEnvironment
from funken.errors import SourceNotReadable

TEXTS = [
    "0001-01-01",
    "1000-01-01",
    "1677-09-21",
    "1969-12-31 23:59:59.999999",
    "2024-06-01 12:00:00.000001",
    "2262-04-12",
]
AT = [*map(datetime.datetime.fromisoformat, TEXTS), None, datetime.datetime.fromisoformat("9999-12-31 23:59:59.999999")]
ROW = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])


def written(path, values=AT):
    table = pa.table({"at": pa.array(values, pa.timestamp("us")), "n": range(len(values))})
    parquet.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False, row_group_size=3)
    return str(path)


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("format", [ParquetFormat(), ParquetFormat(ROW), ParquetFormat(fields=("at",))])
def test_a_source_of_files_reads_them(tmp_path, format, vectorized):
    written(tmp_path / "a.parquet")
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    stream = env.from_source(FileSource.for_format(format, str(tmp_path)).build())

    found = stream.map(lambda row: row["at"]).execute_and_collect(limit=99)
    assert [(value, type(value)) for value in found] == [(value, type(value)) for value in AT]


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
def test_a_data_set_reads_them(tmp_path, vectorized):
    path = written(tmp_path / "a.parquet")
    env = ExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))

    assert [row["at"] for row in env.read_parquet_file(path).collect()] == AT
    assert env.read_parquet_file(path, ["n", "at"]).collect() == list(enumerate(AT))


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
def test_a_delta_table_that_took_over_such_files_reads_them(tmp_path, vectorized):
    deltalake = pytest.importorskip("deltalake")
    written(tmp_path / "a.parquet")
    deltalake.convert_to_deltalake(str(tmp_path))
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))

    found = env.from_source(DeltaSource(str(tmp_path))).map(lambda row: row["at"]).execute_and_collect(limit=99)
    assert [value and value.replace(tzinfo=None) for value in found] == AT


def test_an_iceberg_table_refuses_what_its_library_would_read_as_other_years(tmp_path):
    pytest.importorskip("pyiceberg")
    lake = IcebergCatalog(
        "lake", {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"}
    )
    lake.load().create_namespace("n")
    schema = pa.schema([("at", pa.timestamp("us")), ("n", pa.int64())])
    near = [value for value in AT if value is None or 1678 < value.year < 2262]
    for name, values in (("near", near), ("far", AT)):
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(pa.table({"at": pa.array(values, pa.timestamp("us")), "n": range(len(values))}), path)
        lake.load().create_table(f"n.{name}", schema).add_files([str(path)])
        written(path, values)  # pyiceberg adds no files with INT96, as others do
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)

    assert [row["at"] for row in env.from_source(IcebergSource(lake, "n.near")).execute_and_collect(limit=99)] == near
    with pytest.raises(SourceNotReadable, match=r"far\.parquet.*its column 'at' has a time of 1, as INT96"):
        env.from_source(IcebergSource(lake, "n.far")).execute_and_collect(limit=99)
