"""CSV as columns: what Arrow parses is what Python would, and everything else is read by Python."""

import gzip
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.dataset.columns.block import ColumnBlock
from funken.dataset.formats.inputs import CsvInput
from funken.errors import SourceNotReadable
from tests.dataset.programs import rows_made
from tests.dataset.test_columns import environment

TYPES = (int, str, float)

ints = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.sampled_from(["0x10", "0X1f", "+1", "-0", "007", "1_0", " 7", "7 ", "", "1.0", "٣", "\t1"]),
)
texts = st.one_of(
    st.text(st.sampled_from("ab\"',; \r\tü😀\x00\x0b\x85"), max_size=4),
    st.sampled_from(["NULL", "", "NaN", '"a,b"', '"a""b"']),
)
floats = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(
        ["nan", "NaN", "nan(ind)", "inf", "-Infinity", "1e400", "+1.5", ".5", "5.", "", "1_0.5", " 2.5 ", "0x1p3"]
    ),
)
rare = st.sampled_from(["", "1", "1,2", "1,a,2.0,4", "\ufeff1,a,2.0", "\r", "1,a\rb,2.0", "0,\x00,1.0", '1,"a', "  "])
good = st.builds("{},{},{}".format, st.integers(-99, 99), st.text("abc", max_size=3), st.floats(-9, 9))
odd = st.builds("{},{},{}".format, ints, texts, floats)


def read(path, vectorized, **options):
    """Return the records of all splits, or the error."""
    made = CsvInput(str(path), TYPES, vectorized=vectorized, **options)
    try:
        blocks = [block for split in made.create_splits(1) for block in made.blocks(split)]
        return [record for block in blocks for record in block], any(isinstance(block, ColumnBlock) for block in blocks)
    except (SourceNotReadable, UnicodeDecodeError, ValueError) as error:
        return f"{type(error).__name__}: {error}", False
    except Exception as error:  # noqa: BLE001 - csv.Error: whatever it is, it has to be the same
        return f"{type(error).__name__}: {error}", False


@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.one_of(good, good, odd, rare), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_columns_are_what_python_reads(tmp_path_factory, lines, end, ended, header):
    path = tmp_path_factory.getbasetemp() / "lines.csv"
    path.write_bytes((end.join(lines) + end * ended).encode("utf-8", "surrogatepass"))

    by_record, _ = read(path, False, skip_header=header)
    by_column, _ = read(path, True, skip_header=header)

    assert repr(by_column) == repr(by_record)


@settings(deadline=None, max_examples=50)
@given(st.lists(good, min_size=1, max_size=6))
def test_plain_lines_are_columns(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "plain.csv"
    path.write_text("\n".join(lines))

    assert read(path, True)[1]


def test_every_line_is_in_one_split_and_pieces_end_with_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("funken.dataset.formats.inputs._PIECE_BYTES", 1000)
    chance = random.Random(3)
    lines = [f"{n},{'x' * chance.randrange(30)},{chance.random()}" for n in range(5000)]
    lines[2000] = '2000,"quoted, text",0.5'
    path = tmp_path / "lines.csv"
    path.write_text("number,text,share\n" + "\n".join(lines))

    for parallelism in (1, 2, 7):
        found = environment(True, parallelism).read_csv_file(path, TYPES, skip_header=True).collect()
        assert [record[0] for record in found] == list(range(5000))
        assert found == environment(False, parallelism).read_csv_file(path, TYPES, skip_header=True).collect()


def test_the_error_names_the_line_behind_columns(tmp_path, monkeypatch):
    monkeypatch.setattr("funken.dataset.formats.inputs._PIECE_BYTES", 100)
    path = tmp_path / "lines.csv"
    path.write_text("".join(f"{n},a,0.5\n" for n in range(100)) + "x,a,0.5\n")

    for vectorized in (False, True):
        assert "line 101 of" in read(path, vectorized)[0]


def test_other_types_delimiters_and_packed_files(tmp_path):
    path, packed = tmp_path / "lines.csv", tmp_path / "lines.csv.gz"
    path.write_text("1;true\n0;\n")
    packed.write_bytes(gzip.compress(b"1,a,0.5\n"))

    env = environment(True)
    assert env.read_csv_file(path, [int, bool], delimiter=";").collect() == [(1, True), (0, False)]
    assert env.read_csv_file(path, [int, str], delimiter=";").collect() == [(1, "true"), (0, "")]
    assert env.read_csv_file(packed, TYPES).collect() == [(1, "a", 0.5)]


@pytest.mark.parametrize("text", ["1,a,0.5\n", ""])
def test_a_filter_of_csv_makes_no_records(tmp_path, text, monkeypatch):
    path = tmp_path / "lines.csv"
    path.write_text(text * 30_000)
    made = rows_made(monkeypatch)

    assert environment(True).read_csv_file(path, TYPES).filter(lambda r: r[0] > 0).count() == 30_000 * bool(text)
    assert not made
