"""What a sink demands of its rows: NULLs and lengths, nested ones on request."""

import pytest

from funken.errors import InvalidProgram
from funken.expr.sql.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    CharType,
    MapType,
    RowField,
    RowType,
    VarCharType,
)
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.sink import ConstraintRules, Enforce
from tests.table.runtime.changelogs import Run

NUMBER = BigIntType(is_nullable=False)
TWO = CharType(2, is_nullable=False)


def run(types, rows, nested="IGNORE", drops=False, lengths="IGNORE", partial=False, kinds=None):
    """Return the rows that an enforcer lets pass."""
    schema = BlockSchema([f"c{place}" for place in range(len(types))], list(types))
    loose = BlockSchema(schema.names, [_loose(type_) for type_ in types])
    rules = ConstraintRules(nested, drops, lengths)
    rules.check(types)
    made = Run(Enforce, [loose], loose, columns=types, rules=rules, partial=partial, table="t")
    made.harness.operator.process_block(loose.block(list(rows), kinds or [0] * len(rows)))
    return [row for _, row in made.changes]


def _loose(type_):
    return type_.nullable()


def row(*fields, nullable=False):
    return RowType(tuple(RowField(name, type_) for name, type_ in fields), is_nullable=nullable)


def test_null_in_a_column_that_is_not_null():
    with pytest.raises(InvalidProgram, match="Column 'c1' is NOT NULL, however, a null value is being written into it"):
        run([VarCharType(9), NUMBER], [("a", None)])
    assert run([VarCharType(9), NUMBER], [("a", None), (None, 1)], drops=True) == [(None, 1)]


def test_a_deletion_with_its_key_alone_may_have_nulls():
    assert run([NUMBER, NUMBER], [(1, None), (2, 2)], partial=True, kinds=[3, 0]) == [(1, None), (2, 2)]
    with pytest.raises(InvalidProgram, match="c1"):
        run([NUMBER, NUMBER], [(1, None)], kinds=[3])


@pytest.mark.parametrize(
    ("type_", "value", "cut"),
    [
        (CharType(2), "a", "a "),
        (CharType(2), "abc", "ab"),
        (VarCharType(2), "a", "a"),
        (VarCharType(2), "abc", "ab"),
        (BinaryType(2), b"a", b"a\0"),
        (CharType(2), None, None),
    ],
)
def test_texts_are_cut_and_filled(type_, value, cut):
    assert run([type_], [(value,)], lengths="TRIM_PAD") == [(cut,)]


@pytest.mark.parametrize(
    ("type_", "value", "length"), [(CharType(2), "a", 1), (VarCharType(2), "abc", 3), (BinaryType(2), b"abc", 3)]
)
def test_texts_of_another_length_are_refused(type_, value, length):
    with pytest.raises(InvalidProgram, match=f"Column 'c0' is .*2.*, however, a string of length {length}"):
        run([type_], [(value,)], lengths="ERROR")
    assert run([type_], [(value,)]) == [(value,)]


INNER = row(("x", NUMBER), ("y", BigIntType()))
OUTER = row(("id", NUMBER), ("inner", INNER))


def test_nulls_inside_of_rows():
    rows = [((1, (None, 1)),), ((2, None),), ((3, (1, None)),)]
    assert run([OUTER], rows) == rows
    assert run([OUTER], rows, nested="ROWS", drops=True) == [((3, (1, None)),)]
    with pytest.raises(InvalidProgram, match=r"Column 'c0.inner.x' is NOT NULL"):
        run([OUTER], rows, nested="ROWS")
    with pytest.raises(InvalidProgram, match=r"Column 'c0.inner' is NOT NULL"):
        run([OUTER], rows[1:], nested="ROWS")


def test_nulls_inside_of_collections():
    type_ = row(("list", ArrayType(ArrayType(NUMBER, is_nullable=False))), ("map", MapType(NUMBER, NUMBER)))
    rows = [(([[1, None]], None),), ((None, [(1, None)]),), (([[1]], [(1, 2)]),)]
    assert run([type_], rows, nested="ROWS") == rows
    assert run([type_], rows, nested="ROWS_AND_COLLECTIONS", drops=True) == rows[2:]
    with pytest.raises(InvalidProgram, match=r"Column 'c0.list\[0\]\[1\]' is NOT NULL"):
        run([type_], rows, nested="ROWS_AND_COLLECTIONS")
    with pytest.raises(InvalidProgram, match=r"Column 'c0.map\[value\]' is NOT NULL"):
        run([type_], rows[1:], nested="ROWS_AND_COLLECTIONS")


def test_lengths_inside():
    type_ = row(("a", TWO), ("b", row(("c", VarCharType(2)))))
    assert run([type_], [(("x", ("abc",)),)], nested="ROWS", lengths="TRIM_PAD") == [(("x ", ("ab",)),)]
    with pytest.raises(InvalidProgram, match=r"Column 'c0.b.c' is VARCHAR\(2\), however, a string of length 3"):
        run([type_], [(("xx", ("abc",)),)], nested="ROWS", lengths="ERROR")
    listed = ArrayType(row(("c", TWO)))
    with pytest.raises(InvalidProgram, match=r"Column 'c0\[1\].c' is CHAR\(2\), however, a string of length 1"):
        run([listed], [([("ab",), ("a",)],)], nested="ROWS_AND_COLLECTIONS", lengths="ERROR")
    with pytest.raises(InvalidProgram, match="Trimming and/or padding is not supported"):
        run([listed], [], nested="ROWS_AND_COLLECTIONS", lengths="TRIM_PAD")
