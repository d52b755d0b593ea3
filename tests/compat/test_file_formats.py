"""Formats with PyFlink's names: its own documentation's programs, but for what needs the Table API's types."""

import pytest


def read(env, source):
    from pyflink.common import WatermarkStrategy

    return list(env.from_source(source, WatermarkStrategy.no_watermarks(), "in").execute_and_collect())


def write(env, records, folder, factory):
    from pyflink.datastream.connectors.file_system import BucketAssigner, FileSink

    builder = FileSink.for_bulk_format(str(folder), factory)
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    env.from_collection(records).sink_to(builder.build())
    env.execute()


def test_csv_files(env, tmp_path):
    from pyflink.common import Row
    from pyflink.datastream.connectors.file_system import FileSource
    from pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema

    schema = (
        CsvSchema.builder()
        .add_number_column("id")
        .add_array_column("tags", separator="#")
        .add_string_column("name")
        .set_column_separator("|")
        .set_use_header()
        .build()
    )
    rows = [Row(id=1, tags=["a", "b"], name="x|y"), Row(id=2, tags=["c"], name="z")]
    write(env, rows, tmp_path, CsvBulkWriters.for_schema(schema))

    builder = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path))
    builder.process_static_file_set()
    assert read(env, builder.build()) == rows


def test_the_first_row_of_csv_files_is_left_out(env, tmp_path):
    from pyflink.common import Row
    from pyflink.datastream.connectors.file_system import FileSource
    from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema

    (tmp_path / "a.csv").write_text("n\nunits\n1\n2\n")
    (tmp_path / "b.csv").write_text("n\nunits\n")
    schema = CsvSchema.builder().add_number_column("n").set_use_header().set_skip_first_data_row().build()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path)).build()

    assert read(env, source) == [Row(n=1), Row(n=2)]


def test_a_schema_of_avro_is_read_from_a_file(tmp_path):
    from pyflink.datastream.formats.avro import AvroSchema

    text = '{"type": "record", "name": "Sale", "fields": [{"name": "n", "type": "int"}]}'
    (tmp_path / "sale.avsc").write_text(text)

    assert AvroSchema.parse_file(str(tmp_path / "sale.avsc")) == AvroSchema.parse_string(text)


def test_parquet_and_orc_files(env, tmp_path):
    from pyflink.common import Row, Types
    from pyflink.datastream.connectors.file_system import FileSource
    from pyflink.datastream.formats.orc import OrcBulkWriters
    from pyflink.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat

    row_type = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    rows = [Row(id=1, name="x"), Row(id=2, name=None)]
    write(env, rows, tmp_path / "p", ParquetBulkWriters.for_row_type(row_type))
    write(env, rows, tmp_path / "o", OrcBulkWriters.for_row_type(row_type))

    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(row_type=row_type), str(tmp_path / "p"))
    assert read(env, source.build()) == rows
    assert len(list((tmp_path / "o").iterdir())) == 1


def test_avro_files_and_avro_in_parquet(env, tmp_path):
    from pyflink.datastream.connectors.file_system import FileSource
    from pyflink.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema
    from pyflink.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters

    schema = AvroSchema.parse_string(
        '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}'
    )
    records = [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]
    write(env, records, tmp_path / "a", AvroBulkWriters.for_generic_record(schema))
    write(env, records, tmp_path / "p", AvroParquetWriters.for_generic_record(schema))

    avro = FileSource.for_record_stream_format(AvroInputFormat(None, schema), str(tmp_path / "a"))
    parquet = FileSource.for_record_stream_format(AvroParquetReaders.for_generic_record(schema), str(tmp_path / "p"))
    assert read(env, avro.build()) == read(env, parquet.build()) == records


def test_rows_of_messages_and_back():
    from pyflink.common import Row, Types
    from pyflink.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
    from pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
    from pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

    types = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    row = Row(id=1, name="x;y")
    json_out = JsonRowSerializationSchema.builder().with_type_info(types).build()
    json_in = JsonRowDeserializationSchema.builder().type_info(types).fail_on_missing_field().build()
    csv_out = CsvRowSerializationSchema.Builder(types).set_field_delimiter(";").build()
    csv_in = CsvRowDeserializationSchema.Builder(types).set_field_delimiter(";").set_ignore_parse_errors().build()

    assert json_in.deserialize(json_out.serialize(row)) == row
    assert csv_out.serialize(row) == b'1;"x;y"\n'
    assert csv_in.deserialize(b'1;"x;y"') == row
    assert csv_in.deserialize(b"one;x") is None
    with pytest.raises(ValueError, match="field 'name' is missing"):
        json_in.deserialize(b'{"id": 1}')
    schema = """{"type": "record", "name": "R", "fields": [
        {"name": "id", "type": "int"},
        {"name": "in", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "string"}]}]}]}"""
    avro_out = AvroRowSerializationSchema(avro_schema_string=schema)
    avro_in = AvroRowDeserializationSchema(avro_schema_string=schema)
    rows = [
        Row(7, Row("a")),
        Row(**{"in": Row(x="a"), "id": 7}),
        (7, ("a",)),
        {"id": 7, "in": {"x": "a"}},
        Row(f0=7, f1=("a",)),
    ]
    for each in rows:
        assert avro_in.deserialize(avro_out.serialize(each)) == Row(**{"id": 7, "in": Row(x="a")}), each
    assert avro_in.deserialize(avro_out.serialize((7, None)))["in"] is None


def rows_of_parquet():
    """The types of a table's columns, as PyFlink's programs declare them for its file formats."""
    from pyflink.table import DataTypes

    return DataTypes.ROW(
        [
            DataTypes.FIELD("id", DataTypes.BIGINT()),
            DataTypes.FIELD("price", DataTypes.DOUBLE()),
            DataTypes.FIELD("item", DataTypes.VARCHAR(20)),
            DataTypes.FIELD("paid", DataTypes.BOOLEAN()),
            DataTypes.FIELD("at", DataTypes.TIMESTAMP(3)),
            DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
            DataTypes.FIELD("counts", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
        ]
    )


def test_parquet_with_the_types_of_a_table(env, tmp_path):
    from datetime import datetime

    from pyflink.common import Configuration, Row, WatermarkStrategy
    from pyflink.datastream.connectors.file_system import FileSink, FileSource
    from pyflink.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat

    row_type = rows_of_parquet()
    rows = [
        Row(
            id=n,
            price=n / 2,
            item=f"tea {n}",
            paid=n % 2 == 0,
            at=datetime.fromisoformat(f"2026-01-01T0{n}:00"),
            tags=["a"],
            counts={"b": n},
        )
        for n in range(5)
    ]
    ds = env.from_collection(rows)
    sink = FileSink.for_bulk_format(
        str(tmp_path), ParquetBulkWriters.for_row_type(row_type, hadoop_config=Configuration(), utc_timestamp=True)
    ).build()
    ds.sink_to(sink)
    env.execute()

    source = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(
            row_type=row_type,
            hadoop_config=Configuration(),
            batch_size=500,
            is_utc_timestamp=False,
            is_case_sensitive=True,
        ),
        str(tmp_path),
    ).build()
    found = env.from_source(source, WatermarkStrategy.no_watermarks(), "parquet").execute_and_collect()
    assert sorted(found, key=lambda row: row["id"]) == rows


def test_each_list_of_csv_may_have_a_separator_of_its_own(env, tmp_path):
    from pyflink.common import Row
    from pyflink.datastream.connectors.file_system import FileSource
    from pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
    from pyflink.table import DataTypes

    first = CsvSchema.builder().add_array_column("n", separator=";", element_type=DataTypes.INT()).build()
    schema = (
        CsvSchema.builder()
        .add_columns_from(first)
        .add_array_column("yes", separator=":", element_type=DataTypes.BOOLEAN())
        .add_array_column("word", separator=",")
        .set_column_separator("|")
        .disable_quote_char()
        .build()
    )
    rows = [Row(n=[1, 2], yes=[True, False], word=["a", "b"])]
    write(env, rows, tmp_path, CsvBulkWriters.for_schema(schema))

    assert next(tmp_path.iterdir()).read_text() == "1;2|true:false|a,b\n"
    assert (
        read(env, FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path)).build())
        == rows
    )


def test_csv_with_the_types_of_a_table(env, tmp_path):
    from pyflink.common import Types, WatermarkStrategy
    from pyflink.datastream import MapFunction
    from pyflink.datastream.connectors.file_system import FileSink, FileSource
    from pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
    from pyflink.datastream.tests.test_util import DataStreamTestSinkFunction
    from pyflink.table import DataTypes

    class Same(MapFunction):
        def map(self, value):
            return value

    (tmp_path / "in.csv").write_text("7,1#2#3,0.5,true,tea\n8,,,false,\n")
    schema = (
        CsvSchema.builder()
        .add_number_column("id", number_type=DataTypes.BIGINT())
        .add_array_column("array", separator="#", element_type=DataTypes.INT())
        .add_number_column("price", DataTypes.DOUBLE())
        .add_boolean_column("paid")
        .add_string_column("item")
        .set_column_separator(",")
        .build()
    )
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path / "in.csv")).build()
    ds = env.from_source(source, WatermarkStrategy.no_watermarks(), "csv-source")
    results = DataStreamTestSinkFunction()
    ds.map(Same(), output_type=Types.PICKLED_BYTE_ARRAY()).add_sink(results)
    ds.sink_to(FileSink.for_bulk_format(str(tmp_path / "out"), CsvBulkWriters.for_schema(schema)).build())
    env.execute()

    first, second = results.get_results(True, False)
    assert (first["id"], list(first["array"]), first["price"], first["paid"], first["item"]) == (
        7,
        [1, 2, 3],
        0.5,
        True,
        "tea",
    )
    assert (second["id"], second["price"], second["paid"]) == (8, None, False)
    [written] = (tmp_path / "out").rglob("part-*")
    assert written.read_text().splitlines()[0] == '7,"1#2#3",0.5,true,tea'


def test_avro_files_are_an_input_format(env, tmp_path):
    from pyflink.datastream.connectors.file_system import FileSink
    from pyflink.datastream.formats.avro import (
        AvroBulkWriters,
        AvroInputFormat,
        AvroSchema,
        GenericRecordAvroTypeInfo,
    )

    schema = AvroSchema.parse_string(
        '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "item", "type": "string"}]}'
    )
    ds = env.from_collection([{"id": n, "item": f"tea {n}"} for n in range(3)])
    sink = FileSink.for_bulk_format(str(tmp_path), AvroBulkWriters.for_generic_record(schema)).build()
    ds.map(lambda record: record, output_type=GenericRecordAvroTypeInfo(schema)).sink_to(sink)
    env.execute()

    read_back = env.create_input(AvroInputFormat(str(tmp_path), schema)).map(lambda record: record["id"])
    assert sorted(read_back.execute_and_collect()) == [0, 1, 2]
