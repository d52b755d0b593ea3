"""Documents are what ``json.loads`` makes of them, to the type and the last digit, also where msgspec parses them."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from funken.connectors import JsonSchema

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NUMBERS = st.from_regex(rb"\A-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?\Z")
PIECES = st.lists(
    st.sampled_from(
        [*'{}[]",:01.eE+-\\u \t\r\n', "NaN", "Infinity", "null", "true", '"a"', "\x00", "\x7f", "é", "\ufeff"]
    ),
    max_size=8,
).map(lambda pieces: "".join(pieces).encode())


def outcome(parse, message):
    """Return what is parsed, in a form that tells types apart, or the error."""
    try:
        return repr(parse(message))
    except Exception as error:  # noqa: BLE001 - compared
        return type(error), str(error)


@settings(max_examples=300)
@given(DOCUMENTS.map(lambda document: json.dumps(document).encode()) | NUMBERS | PIECES | st.binary(max_size=6))
@example(b"18446744073709551616")
@example(b"-0")
@example(b'{"a": 1, "a": 2}')
@example(b'"\\ud800"')
@example(b"1e400")
@example(b"[" * 5000)
def test_a_document_is_what_json_makes_of_it(message):
    assert outcome(JsonSchema().deserialize, message) == outcome(lambda data: json.loads(data.decode()), message)


def test_one_document_that_only_json_takes_changes_nothing_about_its_neighbours():
    assert JsonSchema().deserialize_block([b"1", b"Infinity", b"null", b'{"a": 1.0}']) == [1, float("inf"), {"a": 1.0}]
