"""Which texts are numbers, by Java's rules, and which numbers a type has a place for: of CSV by every reader."""

import math
from datetime import date, datetime, time
from decimal import Decimal

import pytest

from funken import Configuration, FileSource, Row, StreamExecutionEnvironment, Types
from funken.connectors import CsvSchema
from funken.connectors.files.csv_files import CsvReaderFormat, infer_csv
from funken.connectors.files.line_files import LineFormat
from funken.connectors.reading import MalformedRecord, MalformedRecordPolicy
from funken.dataset import ExecutionEnvironment
from funken.errors import SourceNotReadable
from funken.types.text import single

REFUSED = object()
WHOLE = {
    "7": 7, "-7": -7, "+5": 5, " 12": 12, "12\t ": 12, "007": 7, "-0": 0, "\uff11\uff12": 12,
    "12_34": REFUSED, "1.0": REFUSED, "1e3": REFUSED, "0x10": REFUSED, "NaN": REFUSED, "\u00a012": REFUSED, "--1": REFUSED,
    "1 2": REFUSED, "tea": REFUSED, "true": REFUSED, "\u00bd": REFUSED, "\u4e09": REFUSED, "+": REFUSED,
}  # fmt: skip
REAL = {
    "0.5": 0.5, "-1.25": -1.25, "+5": 5.0, " 12 ": 12.0, "1.": 1.0, ".5": 0.5, "1e3": 1000.0, "1E-3": 0.001, "-0.0": -0.0,
    "NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "1e-400": 0.0,
    "12_34": REFUSED, "1_0.5": REFUSED, "nan": REFUSED, "inf": REFUSED, "-inf": REFUSED, "infinity": REFUSED, "INF": REFUSED,
    "nAn": REFUSED, "nan(1)": REFUSED, "\uff11\uff12": REFUSED, "0x1p3": REFUSED, "1e400": REFUSED, "-1e999": REFUSED,
    "\u00a012": REFUSED, "1,5": REFUSED, "tea": REFUSED, ".": REFUSED, "e5": REFUSED,
}  # fmt: skip
DIGITS = {
    "0.50": Decimal("0.50"), "1E+3": Decimal("1E+3"), " 7 ": Decimal(7), "9" * 60: Decimal("9" * 60), "-0": Decimal("-0"),
    "1_0": REFUSED, "NaN": REFUSED, "sNaN": REFUSED, "Infinity": REFUSED, "tea": REFUSED, "0x10": REFUSED, "1e": REFUSED,
}  # fmt: skip


def ends(bits):
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return {str(low): low, str(high): high, str(low - 1): REFUSED, str(high + 1): REFUSED, "9" * 40: REFUSED}


LARGEST = float(single(3.4028234663852886e38))
KINDS = {
    "BYTE": (Types.BYTE(), WHOLE | ends(8)), "SHORT": (Types.SHORT(), WHOLE | ends(16)), "INT": (Types.INT(), WHOLE | ends(32)),
    "LONG": (Types.LONG(), WHOLE | ends(64)), "BIG_INT": (Types.BIG_INT(), WHOLE | {"9" * 40: int("9" * 40)}),
    "DOUBLE": (Types.DOUBLE(), REAL | {"1.7976931348623157e308": 1.7976931348623157e308, "0.1": 0.1}),
    "FLOAT": (Types.FLOAT(), REAL | {
        "0.1": single(0.1), "1E-3": single(0.001), "3.4028235e38": LARGEST, "3.5e38": REFUSED, "1e39": REFUSED, "-1e300": REFUSED,
    }),
    "BIG_DEC": (Types.BIG_DEC(), DIGITS),
}  # fmt: skip
CASES = [(kind, text) for kind, (_, table) in KINDS.items() for text in table if "," not in text]
NAMES = [f"{kind} {text}" for kind, text in CASES]


def same(found, expected):
    return type(found) is type(expected) and repr(found) == repr(expected)


@pytest.mark.parametrize(("kind", "text"), CASES, ids=NAMES)
def test_a_text_is_a_number_of_a_type_or_malformed(kind, text):
    declared, table = KINDS[kind]
    schema = CsvSchema(Types.ROW_NAMED(["n"], [declared]))

    if table[text] is REFUSED:
        with pytest.raises(ValueError, match="field 'n': "):
            schema.deserialize(text.encode())
    else:
        assert same(schema.deserialize(text.encode()).n, table[text])


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("format", [CsvReaderFormat, LineFormat])
@pytest.mark.parametrize("kind", KINDS)
def test_files_have_the_same_numbers(tmp_path, kind, format, vectorized):
    declared, table = KINDS[kind]
    schema = CsvSchema(Types.ROW_NAMED(["n", "t"], [declared, Types.STRING()]))
    for number, (text, expected) in enumerate((text, table[text]) for each, text in CASES if each == kind):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"1,a\n{text},b\n2,banana nan\n", encoding="utf-8")
        source = FileSource.for_format(format(schema, malformed=MalformedRecordPolicy.EMIT), str(path)).build()
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        found = env.from_source(source).execute_and_collect(limit=9)

        assert [row.t for row in (found[0], found[2])] == ["a", "banana nan"]
        if expected is REFUSED:
            assert type(found[1]) is MalformedRecord, text
        else:
            assert same(found[1].n, expected), text


@pytest.mark.parametrize("vectorized", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize(("kind", "table"), [(int, WHOLE), (float, REAL), (Decimal, DIGITS)])
def test_data_sets_have_the_same_numbers(tmp_path, kind, table, vectorized):
    for number, (text, expected) in enumerate(table.items()):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"1;a\n{text};b\n", encoding="utf-8")
        env = ExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        read = env.read_csv_file(str(path), (kind, str), delimiter=";")
        if expected is REFUSED:
            with pytest.raises(SourceNotReadable, match=r"line 2 of '.*\.csv'"):
                read.collect()
        else:
            assert same(read.collect()[1][0], expected), text


def test_data_sets_read_what_they_write(tmp_path):
    numbers = [(math.nan, 1), (math.inf, 2), (-math.inf, 3), (-0.0, 4), (5e-324, 5), (1.7976931348623157e308, 2**70)]
    env = ExecutionEnvironment.create_local_environment(parallelism=1)
    env.from_collection(numbers).write_as_csv(str(tmp_path / "out"))
    env.execute()

    assert repr(env.read_csv_file(str(tmp_path / "out"), (float, int)).collect()) == repr(numbers)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Types.INT(), 2**31), (Types.INT(), 1.5), (Types.INT(), True), (Types.INT(), "1"), (Types.BYTE(), -129),
        (Types.LONG(), 2**63), (Types.DOUBLE(), "1"), (Types.DOUBLE(), True), (Types.FLOAT(), 1e39),
        (Types.BIG_DEC(), Decimal("NaN")), (Types.BIG_DEC(), 0.1), (Types.BOOLEAN(), 1), (Types.BIG_INT(), 0.5),
    ],
)  # fmt: skip
def test_a_number_that_would_come_back_as_another_is_not_written(declared, value):
    with pytest.raises(ValueError, match=r"is no |is beyond "):
        CsvSchema(Types.TUPLE([declared])).serialize((value,))


def test_large_whole_numbers_are_found_out_as_such(tmp_path):
    (tmp_path / "a.csv").write_text("n,m\n12345678901234567890,1\n3,2\n")

    found = infer_csv(str(tmp_path / "a.csv")).schema
    assert str(found.record_type) == "RowTypeInfo(n: BigInteger, m: Long)"
    assert found.deserialize(b"12345678901234567890,1") == Row(n=12345678901234567890, m=1)


def test_data_sets_read_dates_and_times(tmp_path):
    (tmp_path / "a.csv").write_text("2024-02-29,10:30:00,2024-03-10T02:30:00+01:00,false\n")
    env = ExecutionEnvironment.create_local_environment(parallelism=1)
    [row] = env.read_csv_file(str(tmp_path / "a.csv"), (date, time, datetime, bool)).collect()

    assert (row[0], row[1], row[2].isoformat(), row[3]) == (
        date(2024, 2, 29),
        time(10, 30),
        "2024-03-10T02:30:00+01:00",
        False,
    )
    (tmp_path / "a.csv").write_text("2024-02-30\n")
    with pytest.raises(SourceNotReadable, match=r"line 1 of '.*a\.csv'"):
        env.read_csv_file(str(tmp_path / "a.csv"), (date,)).collect()
