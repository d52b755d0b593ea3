"""How CSV is written: quotes by Jackson's rule against an oracle, and what is written is read again."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import Types
from funken.connectors import CsvSchema
from funken.connectors.formats.csv_schema import HeaderNames
from funken.errors import InvalidProgram

CHARACTERS = "aZ09 ,;|\t\"'`\\*#-~.\n\r€\0"
TEXTS = st.text(CHARACTERS, max_size=30)
DELIMITERS = st.sampled_from(",;|\t")
QUOTES = st.sampled_from("\"'`")
ESCAPES = st.sampled_from([None, "\\", "*"])


def as_jackson(text, delimiter, quote, escape):
    """What Jackson writes of a text with its default features."""
    least_safe = max(ord(delimiter), ord(quote), ord("\n")) + 1
    if len(text) <= 24 and not any(ord(char) < least_safe or char == (escape or "\\") for char in text):
        return text
    return quote + "".join(2 * char if char in (quote, escape) else char for char in text) + quote


@given(DELIMITERS, QUOTES, ESCAPES, TEXTS, TEXTS)
def test_text_is_quoted_by_jacksons_rule_and_comes_back(delimiter, quote, escape, first, second):
    schema = CsvSchema(Types.TUPLE([Types.STRING(), Types.STRING()]), delimiter, quote, escape)
    line = schema.serialize((first, second))

    assert line.decode() == delimiter.join(as_jackson(text, delimiter, quote, escape) for text in (first, second))
    assert schema.deserialize(line) == (first, second)


@given(DELIMITERS, TEXTS, TEXTS)
def test_without_a_quote_the_escape_keeps_fields_apart(delimiter, first, second):
    schema = CsvSchema(Types.TUPLE([Types.STRING(), Types.STRING()]), delimiter, None, "\\")

    line = schema.serialize((first, second))

    assert b"\n" not in line
    assert schema.deserialize(line) == (first, second)


@given(
    st.floats(allow_nan=False),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.integers(-5, 5), min_size=1),
    st.booleans(),
)
def test_numbers_come_back(real, whole, many, flag):
    kinds = [Types.DOUBLE(), Types.LONG(), Types.LIST(Types.INT()), Types.BOOLEAN()]
    schema = CsvSchema(Types.TUPLE(kinds))

    assert schema.deserialize(schema.serialize((real, whole, many, flag))) == (real, whole, many, flag)


@pytest.mark.parametrize(
    ("value", "text"),
    [("1.5", "2"), ("2.5", "3"), ("-2.5", "-3"), ("0.49", "0"), ("1E+3", "1000"), (3, "3"), ("99.5", "100")],
)
def test_decimals_are_rounded_half_up_to_the_scale_of_their_type(value, text):
    schema = CsvSchema(pa.schema([("d", pa.decimal128(5, 0))]))

    assert schema.serialize({"d": Decimal(value)}) == text.encode()
    assert schema.deserialize(str(value).encode()) == {"d": Decimal(text)}


def test_a_decimal_without_a_declared_scale_keeps_its_digits():
    schema = CsvSchema(Types.TUPLE([Types.BIG_DEC()]))

    assert schema.serialize((Decimal("1.50"),)) == b"1.50"
    assert str(schema.deserialize(b"1.50")[0]) == "1.50"


def test_a_row_of_one_empty_field_is_no_empty_line():
    schema = CsvSchema(Types.TUPLE([Types.STRING()]))

    assert schema.serialize_block([("",), ("a",), (None,)]) == [b'""', b"a", b'""']
    assert schema.deserialize_block([b'""', b"a"]) == [("",), ("a",)]


def test_text_without_quotes_is_written_as_it_is():
    schema = CsvSchema(Types.TUPLE([Types.STRING(), Types.INT()]), quote=None)

    assert schema.serialize(("a,b", 1)) == b"a,b,1"
    assert schema.serialize_block([("a\nb", 1), ("c", 2)]) == [b"a\nb,1", b"c,2"]
    with pytest.raises(ValueError, match=r"a record has 1 field\(s\) and not 2: f0, f1"):
        schema.serialize(("a",))


def test_a_row_within_a_field_has_all_its_parts():
    inner = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.INT()])
    schema = CsvSchema(Types.ROW_NAMED(["sale", "more"], [inner, Types.LIST(Types.DOUBLE())]))

    assert schema.deserialize(b"tea;3,1.0E10;2").as_dict(True) == {"sale": {"item": "tea", "n": 3}, "more": [1e10, 2.0]}
    assert schema.serialize(schema.deserialize(b"tea;3,1E10;2")) == b"tea;3,1.0E10;2.0"
    with pytest.raises(ValueError, match=r"field 'sale': it has 1 part\(s\) and not 2: item, n"):
        schema.deserialize(b"tea,1")
    with pytest.raises(InvalidProgram, match="a field of text cannot be map"):
        CsvSchema(Types.ROW_NAMED(["m"], [Types.MAP(Types.STRING(), Types.INT())]))


def test_what_a_header_is_for_is_told_by_a_name():
    assert [HeaderNames(name) for name in ("find", "match", "ignore")] == list(HeaderNames)
