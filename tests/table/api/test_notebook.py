"""Cells of SQL in notebooks."""

import pytest

from funken.errors import InvalidProgram
from funken.table.environment import EnvironmentSettings, TableEnvironment
from funken.table.notebook import load_ipython_extension


class Shell:
    """What the magic needs of IPython."""

    def __init__(self, **names):
        self.user_ns = names
        self.magics = {}

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function


@pytest.fixture
def sql():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    shell = Shell(tables=tables, other=7)
    load_ipython_extension(shell)
    return shell.magics["line_cell", "sql"]


def test_a_cell_shows_the_rows_of_its_last_statement(sql):
    assert sql("tables", "CREATE TEMPORARY VIEW v AS SELECT * FROM (VALUES (1, '<a>'), (2, 'b')) AS t(n, s)") == "OK"

    shown = sql("tables", "SELECT 1; SELECT n, s FROM v WHERE n < 2;")

    assert "<td>+I</td><td>1</td><td>&lt;a&gt;</td>" in shown._repr_html_()
    assert repr(shown) == "+I, 1, <a>"


def test_an_endless_query_ends_at_its_limit(sql):
    sql("tables", "CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'random')")

    shown = sql("tables --limit 3", "SELECT n FROM g")

    assert len(repr(shown).splitlines()) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("other", "'other' is no TableEnvironment of the notebook"),
        ("tables --limit many", "--limit needs a number of rows, but has 'many'"),
        ("tables --live", "does not know '--live'"),
    ],
)
def test_a_line_that_means_nothing_is_refused(sql, line, message):
    with pytest.raises(InvalidProgram, match=message):
        sql(line, "SELECT 1")


def test_a_cell_shows_instants_in_the_zone_of_the_session(sql):
    sql("tables", "SET 'table.local-time-zone' = 'Asia/Shanghai'")
    shown = sql("tables", "SELECT TO_TIMESTAMP_LTZ(0, 3) AS t")

    assert "<td>1970-01-01 08:00:00.000</td>" in shown._repr_html_()
