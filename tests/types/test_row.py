"""Rows: statement 91 of the semantics, and what goes beyond it."""

import copy
import pickle

import pytest

from funken.state.keygroups import stable_hash
from funken.types import Row, RowKind


def test_s91_named_values_keep_the_order_of_the_arguments():
    assert list(Row(b=1, a=2)) == [1, 2]
    assert repr(Row(b=1, a=2)) == "Row(b=1, a=2)"
    assert repr(Row("a", 1)) == "<Row('a', 1)>"


def test_s91_named_rows_are_equal_by_name_and_never_to_one_without_names():
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(1, 2) == Row(1, 2)
    assert Row(1, 2) != (1, 2)


def test_equal_rows_have_equal_hashes_here_and_in_every_process():
    one, other = Row(a=1, b="x"), Row(b="x", a=1.0)

    assert one == other
    assert hash(one) == hash(other)
    assert stable_hash(one) == stable_hash(other)


def test_the_kind_of_a_row_counts():
    deleted = Row.of_kind(RowKind.DELETE, a=1)

    assert deleted.get_row_kind() is RowKind.DELETE
    assert deleted != Row(a=1)
    deleted.set_row_kind(RowKind.INSERT)
    assert deleted == Row(a=1)
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_fields_are_read_and_written_by_position_name_and_attribute():
    row = Row(name="a", n=1)

    row[1], row["name"] = 2, "b"
    row.n += 1

    assert (row.name, row["n"], row[0], row[0:2]) == ("b", 3, "b", ["b", 3])
    with pytest.raises(KeyError, match="no field 'x': the row has the fields name, n"):
        row["x"]
    with pytest.raises(AttributeError, match="no field 'x'"):
        row.x  # noqa: B018
    with pytest.raises(AttributeError, match="no field 'x'"):
        row.x = 1
    with pytest.raises(KeyError, match="no field names"):
        Row(1)["x"]


def test_a_row_is_a_container():
    assert len(Row(1, 2)) == 2
    assert "a" in Row(a=1)
    assert 1 not in Row(a=1)
    assert 1 in Row(1)


def test_a_row_of_names_makes_rows():
    person = Row("name", "age")

    assert person("Ada", 36) == Row(name="Ada", age=36)
    with pytest.raises(ValueError, match="names 2 fields"):
        person(1, 2, 3)
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)


def test_a_row_becomes_a_dict():
    row = Row(a=Row(b=1), c=[Row(d=2)])

    assert row.as_dict() == {"a": Row(b=1), "c": [Row(d=2)]}
    assert row.as_dict(recursive=True) == {"a": {"b": 1}, "c": [{"d": 2}]}
    with pytest.raises(TypeError, match="no field names"):
        Row(1).as_dict()


def test_names_can_be_given_later():
    row = Row(1, 2)
    row.set_field_names(["a", "b"])

    assert row == Row(a=1, b=2)
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    with pytest.raises(KeyError, match=r"\['c'\] do not exist"):
        row.get_fields_by_names(["a", "c"])


@pytest.mark.parametrize("row", [Row(1, "a"), Row(a=1), Row.of_kind(RowKind.DELETE, 1), Row()])
def test_a_row_travels(row):
    assert pickle.loads(pickle.dumps(row)) == row
    assert copy.deepcopy(row) == row
    again = copy.copy(row)
    assert again == row
    assert again._values is not row._values
