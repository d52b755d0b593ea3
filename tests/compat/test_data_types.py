"""Types of columns with the attributes of PyFlink's, and what ``DataTypes`` refuses."""

import datetime

import pytest
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table import types as names

from funken.errors import FunkenError

ROW = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.STRING(), "text")])


def test_a_row_has_fields_by_name_place_and_slice():
    assert (ROW.names, ROW.field_names(), len(ROW), [field.name for field in ROW]) == (
        ["a", "b"],
        ["a", "b"],
        2,
        ["a", "b"],
    )
    assert (ROW["b"].description, ROW[0].data_type, ROW[1:].names) == ("text", DataTypes.INT(), ["b"])
    with pytest.raises(KeyError, match="no field 'c', but a, b"):
        ROW["c"]
    with pytest.raises(IndexError, match="2 fields, but no field 2"):
        ROW[2]
    with pytest.raises(TypeError, match="a name, a place or a slice"):
        ROW[1.5]


def test_types_have_names_parts_and_nullability():
    assert [each.type_name() for each in (ROW, DataTypes.TIME(), DataTypes.TIMESTAMP_LTZ(3), DataTypes.STRING())] == [
        "ROW", "TIME", "LOCALZONEDTIMESTAMP", "VARCHAR",
    ]  # fmt: skip
    assert (DataTypes.INT()._nullable, DataTypes.INT(False)._nullable) == (True, False)
    assert DataTypes.ARRAY(DataTypes.INT()).element_type == DataTypes.MULTISET(DataTypes.INT()).element_type
    pairs = DataTypes.MAP(DataTypes.STRING(), DataTypes.DATE())
    assert (pairs.key_type, pairs.value_type) == (DataTypes.STRING(), DataTypes.DATE())
    assert (pairs.need_conversion(), DataTypes.INT().need_conversion()) == (True, False)
    assert pairs.to_sql_type({"a": datetime.date(1970, 1, 2)}) == {"a": 1}
    assert isinstance(DataTypes.TIME(), names.TimeType)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataTypes.ARRAY(5), "element_type is a data type .* got 5"),
        (lambda: DataTypes.MAP(DataTypes.INT(), "INT"), "value_type is a data type .* got 'INT'"),
        (lambda: DataTypes.MULTISET(None), "element_type is a data type .* got None"),
        (
            lambda: DataTypes.ROW([("a", DataTypes.INT())]),
            r"a list of DataTypes.FIELD\(name, type\), but got \[\('a', IntType\(true\)\)\]",
        ),
        (lambda: DataTypes.ROW(DataTypes.INT()), r"a list of DataTypes.FIELD\(name, type\), but got IntType\(true\)"),
        (lambda: DataTypes.FIELD(1, DataTypes.INT()), "the name of a field is a text, but got 1"),
        (lambda: DataTypes.FIELD("a", "INT"), "data_type is a data type"),
        (lambda: DataTypes.CHAR("x").logical_type, r"DataTypes.CHAR\(\) takes a length from 1"),
        (lambda: DataTypes.VARBINARY(0).logical_type, r"DataTypes.VARBINARY\(\) takes a length from 1"),
        (lambda: DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.YEAR()), "the larger one first"),
        (lambda: DataTypes.INTERVAL(DataTypes.INT()), "of units such as"),
    ],
)
def test_what_is_no_type_is_refused_by_name(make, message):
    with pytest.raises((TypeError, FunkenError), match=message):
        make()


_ROW = "DataTypes.ROW([DataTypes.FIELD('a', DataTypes.BIGINT()), DataTypes.FIELD('b', DataTypes.STRING())])"


@pytest.mark.parametrize(
    "schema",
    [_ROW, "[DataTypes.BIGINT(), DataTypes.STRING()]", "['a', 'b']", "None"],
    ids=["row", "types", "names", "none"],
)
def test_a_frame_of_pandas_takes_data_types(schema):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
    table = TableEnvironment.create(EnvironmentSettings.in_batch_mode()).from_pandas(frame, eval(schema))

    assert table.get_schema().get_field_names() == ["a", "b"]
    with table.execute().collect() as rows:
        assert [tuple(row) for row in rows] == [(1, "x"), (2, None)]
