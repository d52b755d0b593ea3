"""Functions of the program and built-in ones of the same name: resolved as by Flink 2.3."""

import pytest

from funken.errors import FunkenError
from funken.table import DataTypes, EnvironmentSettings, TableEnvironment
from funken.table.catalog import InvalidTable
from funken.table.udf import udf


@udf(result_type=DataTypes.DECIMAL(7, 3))
def mine(x):
    """A function whose type tells it apart."""
    return x


@pytest.fixture
def tables():
    return TableEnvironment.create(EnvironmentSettings.in_batch_mode())


def chosen(tables, call):
    """Return ``mine``, ``built-in``, or ``none``."""
    try:
        return "mine" if "DECIMAL(7, 3)" in str(tables.sql_query(f"SELECT {call}").get_schema()) else "built-in"
    except FunkenError:
        return "none"


LISTED = ["upper", "UPPER", "coalesce", "concat", "typeof", "greatest", "md5", "ltrim"]
OF_SQL_ALONE = ["char_length", "to_date", "IF", "year", "nullif", "item"]
"""Names that are built in, but in no module."""
NAMES = [*LISTED, *OF_SQL_ALONE[:2]]


@pytest.mark.parametrize("name", NAMES)
def test_a_system_function_hides_a_built_in_one(tables, name):
    tables.create_temporary_system_function(name, mine)
    assert chosen(tables, f"{name}('a')") == "mine"
    assert chosen(tables, f"`{name}`('a')") == "mine"
    assert chosen(tables, f"default_catalog.default_database.{name}('a')") == "none"
    assert tables.drop_temporary_system_function(name.swapcase())
    assert chosen(tables, f"{name}('a')") == "built-in"


@pytest.mark.parametrize("name", OF_SQL_ALONE)
def test_a_function_of_a_catalog_hides_one_that_no_module_lists(tables, name):
    tables.create_temporary_function(name, mine)
    assert chosen(tables, f"{name}('a')") == "mine"
    assert chosen(tables, f"`{name}`('a')") == "mine"


@pytest.mark.parametrize("name", LISTED)
def test_a_built_in_function_hides_one_of_a_catalog(tables, name):
    tables.create_temporary_function(name, mine)
    assert chosen(tables, f"{name}('a')") == "built-in"
    assert chosen(tables, f"`{name}`('a')") == "built-in"
    assert chosen(tables, f"default_database.{name}('a')") == "mine"
    assert chosen(tables, f"default_catalog.default_database.{name.swapcase()}('a')") == "mine"
    assert tables.drop_temporary_function(name.swapcase())
    assert chosen(tables, f"default_database.{name}('a')") == "none"


def test_a_system_function_hides_one_of_a_catalog(tables):
    tables.create_temporary_function("f", mine)
    tables.create_temporary_system_function("F", udf(lambda x: x, result_type=DataTypes.STRING()))
    assert chosen(tables, "f('a')") == "built-in"  # the other one
    assert chosen(tables, "default_database.f('a')") == "mine"
    tables.drop_temporary_system_function("f")
    assert chosen(tables, "F('a')") == "mine"


def test_names_are_taken_whatever_their_case(tables):
    tables.create_temporary_function("f", mine)
    with pytest.raises(InvalidTable, match=r"Temporary function default_catalog\.default_database\.f already exists"):
        tables.create_temporary_function("F", mine)
    tables.create_temporary_system_function("f", mine)
    with pytest.raises(InvalidTable, match="Temporary system function F already exists"):
        tables.create_temporary_system_function("F", mine)
    assert tables.list_user_defined_functions() == ["f"]
