"""What values of documents become by declared types, by every reader of JSON; and values that Python's encoder cannot write."""

import base64
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import NamedTuple

import pytest

from funken import Configuration, FileSource, Row, RowKind, StreamExecutionEnvironment, Types
from funken.columnar.kernels.columns import columns_of
from funken.compat.pyflink.formats import JsonRowDeserializationSchema, JsonRowSerializationSchema
from funken.connectors import ChangeRecord, DebeziumJsonSchema, JsonSchema
from funken.connectors.files.line_files import LineFormat
from funken.connectors.reading import MalformedRecord, MalformedRecordPolicy
from funken.dataset import ExecutionEnvironment
from funken.expr.types import DICT, INT, Optional, Record
from funken.types import Instant
from funken.types.text import single

REFUSED = object()
ROW = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.BIG_DEC()])
TABLE = [
    (Types.INT(), {"5": 5, '"5"': 5, '" -5 "': -5, "5.0": 5, "5e0": 5, "2147483647": 2147483647, "2147483648": REFUSED,
                   "5.7": REFUSED, "true": REFUSED, '"5_0"': REFUSED, "[5]": REFUSED, "NaN": REFUSED, "1e999999999": REFUSED}),
    (Types.BYTE(), {"127": 127, "128": REFUSED, '"-128"': -128, '"-129"': REFUSED}),
    (Types.SHORT(), {"32767": 32767, "32768": REFUSED}),
    (Types.LONG(), {"9223372036854775807": 2**63 - 1, "9223372036854775808": REFUSED, '"7"': 7}),
    (Types.BIG_INT(), {"9223372036854775808": 2**63, '"123456789012345678901234567890"': 123456789012345678901234567890}),
    (Types.DOUBLE(), {"1": 1.0, "0.5": 0.5, '"0.5"': 0.5, '"NaN"': float("nan"), "Infinity": float("inf"), "1e400": REFUSED,
                      '"1e400"': REFUSED, "true": REFUSED, '"nan"': REFUSED, "{}": REFUSED}),
    (Types.FLOAT(), {"0.1": single(0.1), "1": 1.0, "1e39": REFUSED, '"0.5"': 0.5}),
    (Types.BIG_DEC(), {"1234567890123456789.123456789": Decimal("1234567890123456789.123456789"), "1.50": Decimal("1.50"),
                       '"1.50"': Decimal("1.50"), "7": Decimal(7), "NaN": REFUSED, '"AJY="': REFUSED, '"1_0"': REFUSED}),
    (Types.STRING(), {'"a"': "a", "5": "5", "1.5": "1.5", "true": "true", '{"a": [1, 0.5]}': '{"a": [1, 0.5]}'}),
    (Types.BOOLEAN(), {"true": True, '"true"': True, '"FALSE"': False, "1": REFUSED, '"yes"': REFUSED}),
    (Types.SQL_DATE(), {'"2024-02-29"': date(2024, 2, 29), '"2024-02-30"': REFUSED, "19000": REFUSED}),
    (Types.SQL_TIME(), {'"10:30:00Z"': time(10, 30), '"10:30:00.5"': time(10, 30, 0, 500_000), '"10:30:00+01:00"': REFUSED}),
    (Types.SQL_TIMESTAMP(), {
        '"2024-03-10T02:30:00Z"': datetime.fromisoformat("2024-03-10T02:30:00"),
        '"2024-03-10 02:30:00.123456"': datetime.fromisoformat("2024-03-10T02:30:00.123456"),
        '"9999-12-31T23:59:59.999999Z"': datetime.fromisoformat("9999-12-31T23:59:59.999999"),
        '"2024-03-10T02:30:00+01:00"': REFUSED, '"2024-03-10T02:30:00.1234567Z"': REFUSED, "1710037800": REFUSED,
    }),
    (Types.INSTANT(), {'"1970-01-01T01:00:01.000000002+01:00"': Instant(1, 2), '"1970-01-01T00:00:01"': REFUSED}),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), {'"AP8="': b"\x00\xff", '"AP8"': REFUSED, '"*"': REFUSED, "[1]": REFUSED}),
    (Types.LIST(Types.INT()), {'[1, "2", null]': [1, 2, None], "[]": [], '["a"]': REFUSED, "{}": REFUSED, '"12"': REFUSED}),
    (Types.MAP(Types.STRING(), Types.BIG_DEC()), {'{"a": 0.10, "b": null}': {"a": Decimal("0.10"), "b": None}, "[]": REFUSED}),
    (Types.MAP(Types.INT(), Types.STRING()), {'{"1": "a"}': {1: "a"}, '{"a": "a"}': REFUSED}),
    (ROW, {'{"x": "1", "y": 0.10, "z": 1}': Row(x=1, y=Decimal("0.10")), "{}": Row(x=None, y=None), '{"x": []}': REFUSED,
           "[1]": REFUSED}),
    (Types.LIST(ROW), {'[{"x": 1}, null]': [Row(x=1, y=None), None], '{"x": 1}': REFUSED}),
    (Types.TUPLE([Types.INT(), Types.STRING()]), {'{"f0": "1", "f1": 2}': (1, "2")}),
    (Types.LIST(Types.LIST(Types.DOUBLE())), {"[[1, 0.5], []]": [[1.0, 0.5], []], "[1]": REFUSED}),
    (Types.PICKLED_BYTE_ARRAY(), {"[1, 0.5]": [1, 0.5], '{"a": 1.5}': {"a": 1.5}}),
]  # fmt: skip
CASES = [(declared, text, value) for declared, table in TABLE for text, value in [*table.items(), ("null", None)]]
NAMES = [f"{declared!r} {text}" for declared, text, _ in CASES]


def exact(value):
    return repr(value), type(value)


@pytest.mark.parametrize(("declared", "text", "expected"), CASES, ids=NAMES)
def test_a_value_becomes_one_of_its_type_or_the_document_is_malformed(declared, text, expected):
    rows = Types.ROW_NAMED(["v"], [declared])
    message = f'{{"v": {text}, "more": 1.5}}'.encode()
    event = b'{"op": "c", "before": null, "after": ' + message + b"}"
    flink = JsonRowDeserializationSchema.builder().type_info(rows)
    readers = [
        lambda: JsonSchema(rows).deserialize(message), lambda: JsonSchema(rows).deserialize_block([message])[0],
        lambda: DebeziumJsonSchema(rows).deserialize_all(event)[0].value, lambda: flink.build().deserialize(message),
    ]  # fmt: skip

    for read in readers:
        if expected is REFUSED:
            with pytest.raises(ValueError, match="field 'v': "):
                read()
        else:
            assert exact(read().v) == exact(expected)
    if expected is REFUSED:
        assert flink.ignore_parse_errors().build().deserialize(message) is None


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("read", ["all", "other"])
@pytest.mark.parametrize(("declared", "table"), TABLE, ids=[repr(declared) for declared, _ in TABLE])
def test_files_have_the_same_values_whatever_is_read_of_them(tmp_path, declared, table, read, vectorized):
    if declared == Types.PICKLED_BYTE_ARRAY():
        return  # no format of files declares anything
    rows = Types.ROW_NAMED(["n", "v"], [Types.INT(), declared])
    for number, (text, expected) in enumerate([*table.items(), ("null", None)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.json").write_text(f'{{"n": 1, "v": {text}}}\n{{"n": 2}}\n')
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        source = FileSource.for_format(LineFormat(JsonSchema(rows), MalformedRecordPolicy.EMIT), str(folder)).build()
        stream = env.from_source(source)
        if read == "other" and expected is not REFUSED:
            assert stream.map(lambda row: row["n"]).execute_and_collect(limit=9) == [1, 2], text
            continue
        first, second = stream.execute_and_collect(limit=9)
        assert second == Row(n=2, v=None)
        if expected is REFUSED:
            assert type(first) is MalformedRecord, text
        else:
            assert exact(first.v) == exact(expected), text


class Sale(NamedTuple):
    price: Decimal
    at: datetime | None = None
    n: int = 7


@dataclass
class Basket:
    sales: list[Sale]
    day: date = date(2026, 1, 1)
    total: Decimal = Decimal("0.00")


def test_annotations_declare_types_and_defaults_are_of_them():
    read = JsonSchema(Basket).deserialize(b'{"sales": [{"price": 0.10, "at": "2026-01-01T00:00:00+01:00"}]}')

    assert read.sales[0].price == Decimal("0.10")
    assert read.sales[0].at.isoformat() == "2026-01-01T00:00:00+01:00"
    assert (read.sales[0].n, read.day, str(read.total)) == (7, date(2026, 1, 1), "0.00")
    assert JsonSchema(Basket).deserialize(JsonSchema(Basket).serialize(read)) == read


def test_debezium_says_itself_what_its_numbers_are():
    def typed(kind, name, parameters=None, field="v"):
        return {"field": field, "type": kind, "name": name, "parameters": parameters or {}}

    def read(kind, schema, value):
        after = {"field": "after", "type": "struct", "fields": [schema]}
        message = {
            "schema": {"type": "struct", "fields": [after]},
            "payload": {"op": "c", "before": None, "after": {"v": value}},
        }
        row = None if kind is None else Types.ROW_NAMED(["v"], [kind])
        return DebeziumJsonSchema(row).deserialize_all(json.dumps(message).encode())[0].value["v"]

    cents = typed("bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "2"})
    for number in (150, 0, -1, 127, 128, -128, -129, 10**40):
        text = base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()
        assert str(read(Types.BIG_DEC(), cents, text)) == str(Decimal(f"{number}E-2"))
        assert read(None, cents, text) == Decimal(f"{number}E-2")
    varying = typed("struct", "io.debezium.data.VariableScaleDecimal")
    assert read(Types.BIG_DEC(), varying, {"scale": 3, "value": "AJY="}) == Decimal("0.150")
    at = datetime.fromisoformat("2024-03-10T02:30:00")
    micros = int(at.replace(tzinfo=UTC).timestamp()) * 10**6
    assert read(Types.SQL_TIMESTAMP(), typed("int64", "io.debezium.time.MicroTimestamp"), micros) == at
    assert read(Types.SQL_TIMESTAMP(), typed("int64", "io.debezium.time.Timestamp"), micros // 1000) == at
    assert read(Types.SQL_TIMESTAMP(), typed("int64", "io.debezium.time.NanoTimestamp"), micros * 1000) == at
    assert read(Types.SQL_DATE(), typed("int32", "io.debezium.time.Date"), 19792) == date(2024, 3, 10)
    assert read(Types.SQL_TIME(), typed("int64", "io.debezium.time.MicroTime"), 9_000_000_000) == time(2, 30)
    assert read(Types.LONG(), typed("int64", "io.debezium.time.MicroTimestamp"), 5) == 5
    assert read(None, typed("int64", "io.debezium.time.MicroTimestamp"), micros) == micros


VALUES = {
    "price": Decimal("1234567890123456789.10"), "at": datetime.fromisoformat("2026-01-01T00:00:00.5"), "day": date(2026, 1, 1),
    "zoned": datetime(2026, 1, 1, tzinfo=UTC), "time": time(1, 2, 3), "raw": b"\0\xff", "instant": Instant(1, 5),
    "é": [None, "é"],
}  # fmt: skip
WRITTEN = (
    '{"price": 1234567890123456789.10, "at": "2026-01-01T00:00:00.500000", "day": "2026-01-01", '
    '"zoned": "2026-01-01T00:00:00+00:00", "time": "01:02:03", "raw": "AP8=", "instant": "1970-01-01T00:00:01.000000005Z", '
    '"\\u00e9": [null, "\\u00e9"]}'
)


def test_what_pythons_encoder_cannot_write_is_written(tmp_path):
    assert JsonSchema().serialize(VALUES).decode() == WRITTEN
    assert JsonSchema().serialize([Decimal("1E+3"), {1: Decimal("-0.0"), None: (Row(a=Decimal(1)),)}]) == (
        b'[1E+3, {"1": -0.0, "null": [{"a": 1}]}]'
    )
    env = ExecutionEnvironment.create_local_environment(parallelism=1)
    env.from_collection([VALUES]).write_as_json(str(tmp_path / "out"))
    env.execute()
    assert (tmp_path / "out").read_text() == WRITTEN + "\n"
    event = DebeziumJsonSchema().serialize(ChangeRecord(RowKind.INSERT, {"n": Decimal("0.10")}))
    assert event == b'{"before": null, "after": {"n": 0.10}, "op": "c"}'
    for value in (Decimal("NaN"), {1, 2}, object()):
        with pytest.raises((TypeError, ValueError)):
            JsonSchema().serialize({"a": value})


def test_rows_are_written_as_by_flink():
    types = [
        Types.SQL_TIMESTAMP(),
        Types.SQL_TIME(),
        Types.FLOAT(),
        Types.DOUBLE(),
        Types.BIG_DEC(),
        Types.MAP(Types.INT(), Types.INT()),
    ]
    schema = JsonRowSerializationSchema.builder().with_type_info(Types.ROW(types)).build()
    values = (
        datetime.fromisoformat("2024-03-10T02:30:00.5"),
        time(1, 2, 3),
        single(0.1),
        float("nan"),
        Decimal("1.50"),
        {1: 2},
    )

    assert schema.serialize(values) == (
        b'{"f0": "2024-03-10T02:30:00.5Z", "f1": "01:02:03Z", "f2": 0.1, "f3": "NaN", "f4": 1.50, "f5": {"1": 2}}'
    )


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Types.INT(), 2**31), (Types.INT(), 1.5), (Types.INT(), True), (Types.STRING(), 5), (Types.DOUBLE(), "1"),
        (Types.SQL_TIMESTAMP(), datetime(2026, 1, 1, tzinfo=UTC)), (Types.SQL_DATE(), datetime.fromisoformat("2026-01-01")),
        (Types.SQL_TIME(), time(1, tzinfo=UTC)), (Types.BIG_DEC(), Decimal("Infinity")), (Types.BIG_DEC(), 0.1),
        (Types.LIST(Types.INT()), [2**31]), (ROW, Row(x=1, y=0.5)), (Types.BOOLEAN(), 1), (Types.FLOAT(), 1e39),
    ],
)  # fmt: skip
def test_a_value_that_would_come_back_as_another_is_not_written(declared, value):
    for schema in (
        JsonSchema(Types.ROW_NAMED(["v"], [declared])),
        DebeziumJsonSchema(Types.ROW_NAMED(["v"], [declared])),
    ):
        row = Row(v=value)
        with pytest.raises(ValueError, match="field 'v': "):
            schema.serialize(row)


@pytest.mark.parametrize("values", [[1, 2**31], [1, 2], [None, 1]])
def test_columns_are_written_as_their_records(values):
    schema = JsonSchema(Types.ROW_NAMED(["v"], [Types.INT()]))
    block = columns_of(
        [{"v": value} for value in values], Record((Optional(INT) if None in values else INT,), DICT, ("v",))
    )

    if 2**31 in values:
        with pytest.raises(ValueError, match="2147483648 is no whole number of 32 bits"):
            schema.messages_of(block)
    else:
        assert schema.messages_of(block) == [schema.serialize({"v": value}) for value in values]
