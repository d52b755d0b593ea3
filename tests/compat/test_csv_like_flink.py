"""Delimited text as Flink writes and reads it: what its own tests of CSV expect, and Jackson's rule for quotes."""

from decimal import Decimal

import pytest

from funken.types.text import single

NUMBERS = "127,-32767,2147483647,-9223372036854775808,3e38,2e-308,1.5,true,string\n"


@pytest.fixture
def csv_job(env, tmp_path):
    """Read lines by a schema, and write the records by it; return both."""
    from pyflink.common import WatermarkStrategy
    from pyflink.datastream.connectors.file_system import FileSink, FileSource
    from pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat

    def run(schema, text):
        (tmp_path / "in.csv").write_text(text)
        env.set_parallelism(1)
        source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path / "in.csv"))
        records = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "csv-source")
        records.sink_to(FileSink.for_bulk_format(str(tmp_path / "out"), CsvBulkWriters.for_schema(schema)).build())
        with records.execute_and_collect() as results:
            found = list(results)
        [written] = (tmp_path / "out").rglob("part-*")
        return found, written.read_text()

    return run


def builder():
    from pyflink.datastream.formats.csv import CsvSchema

    return CsvSchema.builder()


def of_numbers():
    from pyflink.table import DataTypes

    return (
        builder()
        .add_number_column("tinyint", DataTypes.TINYINT())
        .add_number_column("smallint", DataTypes.SMALLINT())
        .add_number_column("int", DataTypes.INT())
        .add_number_column("bigint", DataTypes.BIGINT())
        .add_number_column("float", DataTypes.FLOAT())
        .add_number_column("double", DataTypes.DOUBLE())
        .add_number_column("decimal", DataTypes.DECIMAL(2, 0))
        .add_boolean_column("boolean")
        .add_string_column("string")
    )


@pytest.mark.parametrize("copied", [False, True])
def test_numbers_are_written_as_java_writes_them_and_decimals_have_their_scale(csv_job, copied):
    schema = of_numbers().build()
    [row], text = csv_job(builder().add_columns_from(schema).build() if copied else schema, NUMBERS)

    assert row.as_dict() == {
        "tinyint": 127,
        "smallint": -32767,
        "int": 2147483647,
        "bigint": -9223372036854775808,
        "float": single(3e38),
        "double": 2e-308,
        "decimal": 2,
        "boolean": True,
        "string": "string",
    }
    assert text == "127,-32767,2147483647,-9223372036854775808,3.0E38,2.0E-308,2,true,string\n"


@pytest.mark.parametrize(
    ("change", "text", "written"),
    [
        # Behind a separator as late in ASCII as "|", all letters are doubtful, and so quoted.
        (lambda of: of.set_column_separator("|"), '"string"|"string2"\n', '"string"|"string2"\n'),
        (lambda of: of.set_column_separator("|").set_quote_char("`"), "`string`|`string2`\n", "`string`|`string2`\n"),
        (lambda of: of.set_escape_char("\\"), 'string\\,,\\"string2\\"\n', '"string,","""string2"""\n'),
        (lambda of: of.set_escape_char("\\"), "a\\\\b,c\\nd\\te\n", '"a\\\\b","c\nd\te"\n'),
        (lambda of: of.set_escape_char("\\").disable_quote_char(), "a\\,b,c\\\\d\n", "a\\,b,c\\\\d\n"),
        (lambda of: of.disable_quote_char(), '"a",b"\n', '"a",b"\n'),
        (lambda of: of, 'a b,"x""y"\n', '"a b","x""y"\n'),
        (lambda of: of, f"{24 * 'x'},{25 * 'x'}\n", f'{24 * "x"},"{25 * "x"}"\n'),
        (lambda of: of, "a-b,2026-11-22\n", "a-b,2026-11-22\n"),
        (lambda of: of.set_allow_comments(), "#no\n  # no\na,#b\n", 'a,"#b"\n'),
    ],
)
def test_text_is_quoted_where_flink_quotes_it(csv_job, change, text, written):
    schema = builder().add_string_column("string").add_string_column("string2")

    assert csv_job(change(schema).build(), text)[1] == written


def test_a_header_of_other_names_is_left_out(csv_job):
    schema = builder().add_string_column("string").add_number_column("number").set_use_header()
    rows, text = csv_job(schema.build(), "h1,h2\nstring,123\n")

    assert [row.as_dict() for row in rows] == [{"string": "string", "number": 123}]
    assert text == "string,number\nstring,123\n"


@pytest.mark.parametrize("header", ["string,numbr", "number,string", "string", "string,number,more"])
def test_a_strict_header_has_the_names_in_order(csv_job, header):
    schema = builder().add_string_column("string").add_number_column("number").set_use_header().set_strict_headers()

    assert csv_job(schema.build(), "\ufeffstring,number\nstring,123\n")[0][0].as_dict() == {
        "string": "string",
        "number": 123,
    }
    with pytest.raises(Exception, match=f"its header is '{header.split(',')[0]}'.*, and not 'string', 'number'"):
        csv_job(schema.build(), f"{header}\nstring,123\n")


def test_each_list_has_its_separator_and_may_be_empty(csv_job):
    from pyflink.table import DataTypes

    schema = (
        builder()
        .add_array_column("number_array", separator=";", element_type=DataTypes.INT())
        .add_array_column("boolean_array", separator=":", element_type=DataTypes.BOOLEAN())
        .add_array_column("string_array", separator=",", element_type=DataTypes.STRING())
        .set_column_separator("|")
        .disable_quote_char()
    )
    schema.set_null_value("-")
    rows, text = csv_job(schema.build(), "1;2;3|true:false|a,b,c\n|-|\n")

    assert [list(row) for row in rows] == [[[1, 2, 3], [True, False], ["a", "b", "c"]], [[], None, []]]
    assert text == "1;2;3|true:false|a,b,c\n|-|\n"


def nothing(settings):
    return settings


def special(settings):
    settings.set_escape_character("*").set_quote_character("'").set_array_element_delimiter(":")
    return settings.set_field_delimiter(";")


@pytest.mark.parametrize(
    ("kind", "value", "text", "change"),
    [
        ("STRING", "123'4*", "'123''4**'", special),
        ("STRING", "a;b'c", "'a;b''c'", special),
        ("INT", 12, "12", special),
        ("ROW", ("1", "hello"), "'1:hello'", special),
        ("ROW", ("1", "hello world"), "'1:hello world'", special),
        ("STRING", "null", "null", special),
        ("ROW", ("a", "b"), "a;b", nothing),
        ("ROW", None, "", nothing),
        ("ROW", None, "n", lambda of: of.set_null_literal("n")),
        ("STRING", "", "", nothing),
        ("DOUBLE", 1e7, "1.0E7", nothing),
        ("DOUBLE", -0.001, "-0.001", nothing),
        ("DOUBLE", 0.00099, "9.9E-4", nothing),
        ("FLOAT", 0.10000000149011612, "0.1", nothing),
        ("BIG_DEC", Decimal("1.50"), "1.50", nothing),
        ("BOOLEAN", False, "false", nothing),
    ],
)
def test_a_field_of_a_row_there_and_back(kind, value, text, change):
    from pyflink.common import Row, Types
    from pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema

    field = Types.ROW([Types.STRING(), Types.STRING()]) if kind == "ROW" else getattr(Types, kind)()
    types = Types.ROW([Types.STRING(), field, Types.STRING()])
    row = Row("BEGIN", Row(*value) if isinstance(value, tuple) else value, "END")
    between = ";" if change is special else ","
    line = between.join(["BEGIN", text, "END"]).encode() + b"\n"
    read = change(CsvRowDeserializationSchema.Builder(types)).build().deserialize(line.rstrip(b"\n"))

    assert change(CsvRowSerializationSchema.Builder(types)).build().serialize(row) == line
    assert read == row if kind != "FLOAT" else abs(read[1] - value) < 1e-7
