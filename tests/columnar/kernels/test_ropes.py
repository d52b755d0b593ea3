"""Text that is not made: what its parts tell is what Python tells of the text, and made late it is the same text."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from funken.columnar.kernels import numbers as decimals
from funken.columnar.kernels.columns import Column, Columns, FallBackToRows, column_of, joined
from funken.columnar.kernels.evaluation import computed, mask_of
from funken.columnar.kernels.text import CONSTANT, Rope, alternatives, concatenated
from funken.columnar.keyed.codec import decode_block, encode_block
from funken.columnar.keyed.keys import key_codes
from funken.columnar.tracing import trace
from funken.expr.types import INT, STR, Tuple

EDGES = sorted({sign * (10**power + off) for power in range(19) for off in (-1, 0, 1) for sign in (1, -1)})
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1200, 1200),
    st.sampled_from([0, -(2**63), 2**63 - 1, 2**32, 65_536, *EDGES]),
)
COLUMNS = st.one_of(
    st.lists(NUMBERS, min_size=1, max_size=8),
    st.tuples(NUMBERS.filter(lambda n: n < 2**63 - 1000), st.integers(1, 40), st.integers(1, 25)).map(
        lambda t: list(range(t[0], t[0] + t[1] * t[2], t[1]))
    ),
)
TEXTS = st.text("01-a \u00e9\U0001f600\x00", max_size=4)


@st.composite
def numbers_with_text(draw: Any) -> tuple[Column, list[int], str]:
    """Return numbers, as a column whose bounds may be wide, and a text that has to do with one of them."""
    numbers = draw(COLUMNS)
    text = str(draw(st.sampled_from(numbers)))
    begin = draw(st.integers(0, len(text) - 1))
    part = text[begin : draw(st.integers(begin + 1, len(text)))]
    part = draw(
        st.sampled_from([part, part, "0" + part, "-" + part, part + "0", part + " ", "\u0661", text, "0", "00"])
    )
    further = draw(st.just((0, 0)) | st.tuples(NUMBERS, NUMBERS))
    low, high = max(-(2**63), min(numbers) - abs(further[0])), min(2**63 - 1, max(numbers) + abs(further[1]))
    return Column(INT, np.array(numbers, np.int64), False, low, high), numbers, part


def as_list(mask: Any, length: int) -> list[bool]:
    """Return a mask that may be one bool for all."""
    return [mask] * length if isinstance(mask, bool) else mask.tolist()


@settings(max_examples=60, deadline=None)
@given(numbers_with_text())
def test_numbers_tell_what_their_decimals_would(given_: tuple[Column, list[int], str]) -> None:
    column, numbers, text = given_
    texts, count = [str(number) for number in numbers], len(numbers)
    assert as_list(decimals.has(column, text), count) == [text in each for each in texts]
    assert as_list(decimals.starts(column, text), count) == [each.startswith(text) for each in texts]
    assert as_list(decimals.ends(column, text), count) == [each.endswith(text) for each in texts]
    assert as_list(decimals.equals(column, text), count) == [each == text for each in texts]
    found = decimals.lengths(column)
    assert ([found] * count if isinstance(found, int) else found.tolist()) == [len(each) for each in texts]


@st.composite
def ropes(draw: Any) -> tuple[Column, list[str]]:
    """Return a concatenation of constants, numbers and texts, and the texts it stands for."""
    length = draw(st.integers(1, 6))
    columns, texts = [], [""] * length
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([CONSTANT, INT, STR]))
        if kind == CONSTANT:
            values: list[Any] = [draw(TEXTS)] * length
            columns.append(Column(STR, values[0], True))
        else:
            values = draw(st.lists(TEXTS if kind == STR else NUMBERS, min_size=length, max_size=length))
            columns.append(column_of(values, kind))
        texts = [f"{text}{value}" for text, value in zip(texts, values, strict=True)]
    return concatenated(columns, length), texts


@st.composite
def ropes_with_text(draw: Any) -> tuple[Column, list[str], str]:
    """Return a concatenation and a text, mostly one that is in it."""
    rope, texts = draw(ropes())
    text = draw(st.sampled_from(texts))
    begin = draw(st.integers(0, len(text)))
    part = text[begin : draw(st.integers(begin, len(text)))]
    return rope, texts, draw(st.sampled_from([part, part, text[begin:], text[:begin], text, part + "0", draw(TEXTS)]))


@settings(max_examples=60, deadline=None)
@given(ropes_with_text())
def test_parts_tell_what_their_concatenation_would(given_: tuple[Column, list[str], str]) -> None:
    rope, texts, text = given_
    assume(isinstance(rope, Rope))
    assert isinstance(rope, Rope)  # for mypy
    expected = {
        "in": [text in each for each in texts],
        "starts": [each.startswith(text) for each in texts],
        "ends": [each.endswith(text) for each in texts],
        "is": [each == text for each in texts],
    }
    for how, wanted in expected.items():
        mask = rope.find(how, text)
        assert mask is None or as_list(mask, len(texts)) == wanted
    found = rope.lengths()
    assert ([found] * len(texts) if isinstance(found, int) else found.tolist()) == [len(each) for each in texts]
    assert not rope.made


@settings(max_examples=40, deadline=None)
@given(ropes(), st.data())
def test_a_text_made_late_is_the_same_text(given_: tuple[Column, list[str]], data: st.DataObject) -> None:
    rope, texts = given_
    length = len(texts)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=length, max_size=length)))
    positions = np.array(data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=6)))
    begin = data.draw(st.integers(0, length - 1))
    block = Columns(STR, [rope], length)
    for _ in range(2):
        assert block.keep(mask).to_list() == [text for text, kept in zip(texts, mask.tolist(), strict=True) if kept]
        assert block.take(positions).to_list() == [texts[position] for position in positions.tolist()]
        assert block[begin:].to_list() == texts[begin:]
        assert block.to_list() == texts  # from here on it is made


@settings(max_examples=40, deadline=None)
@given(ropes(), ropes(), st.integers(0, 3))
def test_texts_travel_and_are_joined_as_parts(
    one: tuple[Column, list[str]], other: tuple[Column, list[str]], cut: int
) -> None:
    blocks = [Columns(STR, [rope], len(texts)) for rope, texts in (one, other)]
    again = [decode_block(encode_block(block)) for block in blocks]
    assert [block.to_list() for block in again] == [one[1], other[1]]
    assert joined([again[0][cut:], *blocks, again[0]]).to_list() == one[1][cut:] + one[1] + other[1] + one[1]
    both = joined([blocks[0], again[0]])
    codes, keys = key_codes(both.leaves[0], len(both))
    assert [keys[code] for code in codes.tolist()] == one[1] * 2
    assert keys == list(dict.fromkeys(one[1]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, TEXTS), min_size=1, max_size=5), TEXTS, st.integers(-1000, 1000))
def test_functions_over_text_that_is_not_made(records: list[Any], text: str, number: int) -> None:
    part = str(number)
    functions = [
        lambda r: text in f"{r[0]}:{r[2]}" + str(r[1]),
        lambda r: f"a{r[0]}".startswith(text) or ("-" + str(r[1])).endswith(part),
        lambda r: f"{r[0]}{r[1]}" == part or f"{r[2]}{number}" != f"{text}{number}",
        lambda r: (f"{r[0]}" + text) in ("1", "-1a", "0"),
        lambda r: len(f"{r[0]}{text}{r[2]}") > 4 and bool(f"{r[2]}"),
        lambda r: f"{r[0]}" + r[2] < f"{r[1]}{text}" or str(r[0]) == str(r[1]),
    ]
    schema = Tuple((INT, INT, STR))
    block = Columns(schema, [column_of([r[at] for r in records], kind) for at, kind in enumerate(schema)], len(records))
    for function in functions:
        mask = mask_of(trace(function, None, 1).condition(block.schema).result, block)
        assert as_list(mask, len(records)) == [bool(function(record)) for record in records]


@pytest.mark.parametrize("step", [1, 4, 1000], ids=["few", "digits", "lengths"])
def test_text_is_made_by_number_by_digits_or_by_arrow(step: int) -> None:
    for first in (0, 1000, 95, -30, 2**32 - 3, 2**63 - 6_000_000):
        numbers = [first + step * (number * 7 % 50) for number in range(120)]
        rope = concatenated([Column(STR, "n", True), column_of(numbers, INT), Column(STR, "\u00e9", True)], 120)
        assert rope.to_list(120) == [f"n{number}\u00e9" for number in numbers]


def test_text_that_may_be_too_long_is_not_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    ropes = [concatenated([Column(STR, "n", True), column_of([1, 2], INT)], 2) for _ in range(3)]
    monkeypatch.setattr("funken.columnar.kernels.text._MOST_BYTES", 100)  # of 3 * 2 * 21
    both = joined([Columns(STR, [rope], 2) for rope in ropes])
    assert not isinstance(both.leaves[0], Rope)
    assert both.to_list() == ["n1", "n2"] * 3
    with pytest.raises(FallBackToRows):
        concatenated([Column(STR, "n" * 50, True), ropes[0]], 2)


def test_what_is_not_asked_for_is_not_made() -> None:
    block = Columns(INT, [Column(INT, np.arange(5000))], 5000)
    lines = computed(
        trace(lambda i: "line " + str(i) + " of the text", None, 1).typed(block.schema)[0].result, STR, block
    )
    mask = mask_of(trace(lambda line: "999 " in line, None, 1).condition(STR).result, lines)
    (line,) = lines.leaves
    (kept,) = lines.keep(mask).leaves
    assert isinstance(line, Rope)
    assert isinstance(kept, Rope)
    assert not line.made
    assert kept.to_list(5) == [f"line {number}999 of the text" for number in ("", 1, 2, 3, 4)]
    assert kept.made


@pytest.mark.parametrize(
    ("how", "pieces", "text", "expected"),
    [
        ("in", [(INT, ""), (CONSTANT, ":"), (INT, "")], "9:1", [{(0, "ends", "9"), (2, "starts", "1")}]),
        ("in", [(INT, ""), (INT, "")], "1-2", [{(0, "ends", "1"), (1, "starts", "-2")}]),
        ("in", [(INT, ""), (STR, ""), (INT, "")], "a", [{(1, "in", "a")}]),
        ("starts", [(CONSTANT, "n"), (INT, "")], "n0", [{(1, "starts", "0")}]),
        ("starts", [(CONSTANT, "n"), (INT, "")], "n01", []),
        ("is", [(STR, ""), (CONSTANT, "x")], "axx", [{(0, "is", "ax")}]),
        ("ends", [(INT, ""), (CONSTANT, " of")], "7 of", [{(0, "ends", "7")}]),
    ],
    ids=["through a constant", "border", "one part", "zero", "no number", "equal", "end"],
)
def test_a_pattern_is_asked_of_the_parts(how: str, pieces: Any, text: str, expected: list[Any]) -> None:
    assert alternatives(how, tuple(pieces), text) == tuple(frozenset(tests) for tests in expected)


def test_a_pattern_with_too_many_alternatives_is_looked_for_in_the_text() -> None:
    assert alternatives("in", ((STR, ""),) * 3, "abcdefgh") is None
    assert alternatives("in", ((STR, ""), (INT, "")), "a" * 1000) is None
    columns = [column_of([value], STR) for value in ("xab", "cde", "fghx")]
    block = Columns(Tuple((STR, STR, STR)), columns, 1)
    mask = mask_of(trace(lambda r: "abcdefgh" in r[0] + r[1] + r[2], None, 1).condition(block.schema).result, block)
    assert as_list(mask, 1) == [True]
