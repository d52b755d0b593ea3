"""What each declared type is in each format: values that a test writes and reads, and the page that follows from the table.

``python scripts/gen_reference.py`` writes the page.
"""

import datetime
import decimal
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from funken import Row, Types
from funken.connectors import AvroSchema, ConnectorContext, CsvSchema, DebeziumJsonSchema, JsonSchema
from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.file_format import FileSplit
from funken.connectors.formats.avro_schema import avro_of
from funken.connectors.formats.debezium import ChangeRecord
from funken.connectors.formats.record_types import shape_of
from funken.errors import InvalidProgram
from funken.io.filesystem import FileStatus
from funken.types import Instant
from funken.types.row import RowKind
from funken.types.text import single

D, T = decimal.Decimal, datetime.datetime.fromisoformat
INNER = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])


def ends(bits: int) -> list[int]:
    """The lowest, the highest and the numbers around zero."""
    return [-(1 << bits - 1), (1 << bits - 1) - 1, 0, -1, 1]


#: A name, the type, values that come back, and values that are refused; a format may refuse others, see ``REFUSED``.
TYPES: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("BOOLEAN", Types.BOOLEAN(), [True, False], ["yes"]),
    ("BYTE", Types.BYTE(), ends(8), [128, -129, 1.5]), ("SHORT", Types.SHORT(), ends(16), [2**15, -(2**15) - 1]),
    ("INT", Types.INT(), ends(32), [2**31, -(2**31) - 1, 0.5, "a"]), ("LONG", Types.LONG(), ends(64), [2**63, -(2**63) - 1]),
    ("FLOAT", Types.FLOAT(), [0.5, -0.0, single(0.1), float("inf"), float("nan"), single(3.4028234e38), 2.0**-149], [1e39,
        "a"]),
    ("DOUBLE", Types.DOUBLE(), [0.1, -0.0, float("-inf"), float("nan"), 1.7976931348623157e308, 5e-324, 1e22], ["a"]),
    ("STRING", Types.STRING(), ["tea", "", "né 😀\0", 'a "b", c\r\nd;', "x" * 100, "\u2028"], []),
    ("CHAR", Types.CHAR(), ["t"], []),
    ("BIG_INT", Types.BIG_INT(), [0, 2**64, -(10**37), 10**38 - 1], [0.5, "a"]),
    ("BIG_DEC", Types.BIG_DEC(), [D("1.50"), D("-0.000000000000000001"), D("99999999999999999999.999999999999999999"),
        D("0")], [D("NaN"), D("Infinity"), "a"]),
    ("SQL_DATE", Types.SQL_DATE(), [datetime.date.min, datetime.date.max, datetime.date(1969, 12, 31)],
        [T("2024-01-01T01:00:00"), "a"]),
    ("SQL_TIME", Types.SQL_TIME(), [datetime.time.min, datetime.time(23, 59, 59), datetime.time.max], [datetime.time(1,
        tzinfo=datetime.UTC), "a"]),
    ("SQL_TIMESTAMP", Types.SQL_TIMESTAMP(), [
        T("0001-01-01"), T("9999-12-31T23:59:59.999999"), T("1969-12-31T23:59:59.999999"), T("2024-03-10T02:30:00.5"),
    ], [T("2024-01-01T00:00:00+02:00"), "a"]),
    ("INSTANT", Types.INSTANT(), [Instant(0), Instant(-1, 999_999_000), Instant(253402300799, 999_999_000),
        Instant(-62135596800)], [Instant(2**60), "a"]),
    ("PRIMITIVE_ARRAY(BYTE)", Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"\0\xff", bytes(range(256)), b"a"], ["a", 5]),
    ("LIST(INT)", Types.LIST(Types.INT()), [[1, -1], [2**31 - 1], [1, None]], [[2**31], [0.5], "12"]),
    ("LIST(STRING)", Types.LIST(Types.STRING()), [["a", "b c"], ["né", "b,c"]], ["ab"]),
    ("LIST(SQL_TIMESTAMP)", Types.LIST(Types.SQL_TIMESTAMP()), [[T("2024-03-10T02:30:00"), None]],
        [[T("2024-01-01T00:00:00+02:00")]]),
    ("MAP(STRING, LONG)", Types.MAP(Types.STRING(), Types.LONG()), [{"a": 1, "": None}, {}], [{"a": 2**63}]),
    ("ROW", INNER, [Row(x=1, y="a"), Row(x=-(2**31), y="né")], [Row(x=2**31, y="a")]),
    ("TUPLE", Types.TUPLE([Types.INT(), Types.BIG_DEC()]), [(1, D("0.50"))], [(0.5, D(1))]),
    ("LIST(ROW)", Types.LIST(INNER), [[Row(x=1, y="a"), Row(x=None, y="")], []], [[Row(x=2**31, y="")]]),
    ("MAP(STRING, LIST(BIG_DEC))", Types.MAP(Types.STRING(), Types.LIST(Types.BIG_DEC())), [{"a": [D("0.50"), None]}],
        [{"a": [D("NaN")]}]),
]  # fmt: skip


@dataclass(frozen=True)
class Form:
    """A format: what it calls a type (``InvalidProgram``: it has none), and what writes and reads records of a row type."""

    name: str
    called: Callable[[Any], str]
    write: Callable[[Any, list[Any]], Any]
    read: Callable[[Any, Any], list[Any]]


def _arrow(declared: Any) -> str:
    return str(shape_of(Types.ROW_NAMED(["v"], [declared]), "a format").types().field(0).type)


def _avro(declared: Any) -> str:
    kind = avro_of(Types.ROW_NAMED(["v"], [declared]))["fields"][0]["type"][1]
    return _avro_name(kind)


def _avro_name(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        return _avro_name(kind[1])
    if kind.get("logicalType") == "decimal":
        return f"decimal({kind['precision']}, {kind['scale']})"
    inner = kind.get("items") or kind.get("values")
    return f"{kind['type']} of {_avro_name(inner)}" if inner else str(kind.get("logicalType", kind["type"]))


def _file_written(format: Any, rows: list[Any]) -> bytes:
    file = io.BytesIO()
    writer = format.create(file)
    writer.write(rows)
    writer.finish()
    return file.getvalue()


def _file_read(format: Any, data: bytes) -> list[Any]:
    split = FileSplit("/", FileStatus("/a", len(data), 0), 0, len(data))
    reader, found = format.reader(io.BytesIO(data), split, ConnectorContext("here")), []
    while records := reader.next():
        found += records
    return found


def _of_files(make: Callable[[Any], Any]) -> tuple[Callable[[Any, list[Any]], Any], Callable[[Any, Any], list[Any]]]:
    return lambda rows, values: _file_written(make(rows), values), lambda rows, data: _file_read(make(rows), data)


def _of_messages(make: Callable[[Any], Any]) -> tuple[Callable[[Any, list[Any]], Any], Callable[[Any, Any], list[Any]]]:
    return (
        lambda rows, values: [make(rows).serialize(value) for value in values],
        lambda rows, messages: [make(rows).deserialize(message) for message in messages],
    )


def _example(of: Callable[[Any], str]) -> Callable[[Any], str]:
    """Call a type what the first of its values that has some text is written as."""

    def called(declared: Any) -> str:
        values = next(values for _, kind, values, _ in TYPES if kind == declared and repr(kind) == repr(declared))
        return of(Types.ROW_NAMED(["v"], [declared]))(Row(v=values[0]))

    return called


def csv_schema(rows: Any) -> CsvSchema:
    """The schema of lines; in a row of one field, an empty text is written in quotes."""
    return CsvSchema(rows, null_literal="\\N")


def _changes(rows: Any) -> Any:
    schema = DebeziumJsonSchema(rows)

    class Changes:
        def serialize(self, value: Any) -> bytes:
            return schema.serialize(ChangeRecord(RowKind.INSERT, value))

        def deserialize(self, message: bytes) -> Any:
            return schema.deserialize_all(message)[0].value

    return Changes()


FORMS = [
    Form("Parquet", _arrow, *_of_files(ParquetFormat)), Form("ORC", _arrow, *_of_files(OrcFormat)),
    Form("Avro files", _avro, *_of_files(lambda rows: AvroFormat(record_type=rows))),
    Form("Avro", _avro, *_of_messages(AvroSchema.of)),
    Form("JSON", _example(lambda rows: lambda row: JsonSchema(rows).serialize(row).decode()[6:-1]), *_of_messages(JsonSchema)),
    Form("Debezium", lambda declared: "", *_of_messages(_changes)),
    Form("CSV", _example(lambda rows: lambda row: csv_schema(rows).serialize(row).decode()), *_of_messages(csv_schema)),
]  # fmt: skip

_FAR = "out of range for nanosecond"
#: What a format refuses of the values that others have, by the name of the type: a text that is in the error.
REFUSED: dict[tuple[str, str, str], str] = {
    **{("ORC", "SQL_TIMESTAMP", repr(T(text))): _FAR for text in ("0001-01-01", "9999-12-31T23:59:59.999999")},
    **{("ORC", "INSTANT", repr(Instant(*at))): _FAR for at in ((253402300799, 999_999_000), (-62135596800,))},
}  # fmt: skip

HEADER = """\
# Types in formats

What each type of `Types` is in each format. All values of a type come back as they were written, `None` included. A value that
a format has no place for fails the job with an error that names the field. A dash: the format has no such type, and says so when
the program is built. [Formats](../guide/formats.md) has the rules.

This page is written by `scripts/gen_reference.py`, from the table that a test writes and reads.

| `Types.` | Parquet, ORC | Avro | JSON | CSV |
|---|---|---|---|---|
"""
FOOTER = """
* `BIG_INT` and `BIG_DEC` have 38 digits in Parquet, ORC and Avro, `BIG_DEC` 18 of them after the point. In JSON and CSV they have
  any number.
* `INSTANT` has microseconds in Parquet, ORC and Avro, and nanoseconds in JSON and CSV.
* ORC has no `SQL_TIME`. Its files are read in nanoseconds: times before 1677 and after 2262 fail the job that reads them.
* `FLOAT` is rounded to 32 bits.
* CSV needs a `null_literal` for `None` in text and for empty lists: without one an empty field is text, or `None`.
* Delta and Iceberg tables have the types of the table; a value that fits none of them is refused.
"""


def _cell(form: Form, declared: Any) -> str:
    try:
        text = form.called(declared)
    except InvalidProgram:
        return "-"
    return f"`{text}`".replace("|", "\\|")


def page() -> str:
    """Return the page."""
    shown = [next(form for form in FORMS if form.name == name) for name in ("Parquet", "Avro", "JSON", "CSV")]
    lines = [
        f"| `{name}` | {' | '.join(_cell(form, declared) for form in shown)} |\n" for name, declared, _, _ in TYPES
    ]
    return HEADER + "".join(lines) + FOOTER
