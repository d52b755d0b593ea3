"""Values that a program gives for declared types: what PyFlink takes is taken, and the rest has a clear error."""

import datetime

import pytest

from funken.errors import FunkenError, InvalidProgram
from funken.table import DataTypes, EnvironmentSettings, TableEnvironment
from funken.table.udf import udf
from funken.types.row import Row

PAIR = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.STRING())])


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    made.get_config().set("execution.target", "local")
    return made


def result(tables, type_, value):
    tables.create_temporary_function("f", udf(lambda x: value, result_type=type_))
    with tables.execute_sql("SELECT f(1)").collect() as rows:
        return next(rows)[0]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (DataTypes.TINYINT(), True, 1),
        (DataTypes.BIGINT(), False, 0),
        (DataTypes.ARRAY(DataTypes.INT()), [True, None, 2], [1, None, 2]),
        (PAIR, Row(b="x", a=1), Row(1, "x")),
        (PAIR, (1, "x"), Row(1, "x")),
    ],
)
def test_results_of_functions(tables, type_, value, expected):
    found = result(tables, type_, value)
    assert list(found) == list(expected) if isinstance(expected, Row | list) else found == expected


@pytest.mark.parametrize("value", [(1, "x", 3), (1,), Row(1, "x", 3)])
def test_rows_of_functions_with_other_fields_than_declared(tables, value):
    with pytest.raises(
        FunkenError, match=rf"a row has {len(value)} values, .* but its type .* has 2 fields. Give one value"
    ):
        result(tables, PAIR, value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (DataTypes.TINYINT(), 300),
        (DataTypes.BIGINT(), 1 << 63),
        (DataTypes.CHAR(3), "abcdef"),
        (DataTypes.VARCHAR(3), "abcdef"),
        (DataTypes.TIMESTAMP(3), datetime.date(2024, 1, 2)),
        (PAIR, (1, "x", 3)),
        (DataTypes.ARRAY(DataTypes.TINYINT()), [1, 300]),
    ],
)
def test_elements_that_do_not_fit_are_refused_before_the_job(tables, type_, value):
    with pytest.raises(InvalidProgram, match=r"column 'v' is .* which does not fit"):
        tables.from_elements([(value,)], DataTypes.ROW([DataTypes.FIELD("v", type_)]))


@pytest.mark.parametrize("verify", [True, False])
def test_a_row_of_elements_with_more_values_than_columns(tables, verify):
    with pytest.raises(InvalidProgram, match="a row has 3 values, but the table has 2 columns"):
        tables.from_elements([(1, "x", 3)], PAIR, verify)
