"""What ``import funken`` loads: few modules, and none of the large libraries."""

import subprocess
import sys
from importlib import import_module

import pytest

import funken
from funken.lazy import declared_names

PROGRAM = (
    "funken.StreamExecutionEnvironment.create_local_environment(1).from_collection([1]).map(str).key_by(str).sum()"
)
LARGE = {"asyncio", "funken.columnar.stack", "funken.expr.rules", "numpy", "pandas", "pyarrow", "pyspark"}


def loaded(program: str) -> set[str]:
    code = f"import sys\n{program}\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    ("program", "most"),
    [
        ("import funken", 5),
        ("import funken.table", 6),
        ("import funken.dataframe", 6),
        ("from funken import StreamExecutionEnvironment, Types, WatermarkStrategy", 150),
        (f"import funken\n{PROGRAM}", 165),
    ],
)
def test_a_program_loads_what_it_names(program, most):
    modules = loaded(program)

    assert not modules & LARGE
    assert len([name for name in modules if name.split(".")[0] == "funken"]) <= most


@pytest.mark.parametrize("package", ["funken", "funken.connectors", "funken.dataframe", "funken.table"])
def test_every_public_name_can_be_loaded(package):
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not sys.modules.get(f"{package}.{name}")  # a module would hide it
    assert set(module.__all__) <= set(dir(module))


def test_a_name_that_does_not_exist_is_an_attribute_error():
    assert not hasattr(funken, "DataStreams")
    assert funken.errors.InvalidProgram is funken.InvalidProgram


def test_a_stub_is_read_as_python_reads_it():
    stub = "from a import (\n    b,\n    c as d,\n)\nfrom a.e import f\n"

    assert declared_names(stub) == {"b": ("a", "b"), "d": ("a", "c"), "f": ("a.e", "f")}


@pytest.mark.parametrize("package", ["funken", "funken.cep", "funken.rest.server", "funken.api.jobs.client"])
def test_what_only_extras_have_is_loaded_where_it_is_used(package):
    assert not loaded(f"import {package}") & {"h11", "uvicorn", "starlette", "sqlglot", "pyspark", "scipy"}


QUERY = """
CREATE TABLE orders (id BIGINT, region STRING, amount DOUBLE)
WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv');
SELECT region, COUNT(*), SUM(amount) FROM orders WHERE amount > 10 GROUP BY region;
"""
CLIENT = """
from funken.cli.main import main
main(["sql", "--target", "local", "-f", {script!r}], standalone_mode=False)
"""


def test_a_query_over_a_file_loads_what_it_needs(tmp_path):
    table, script = tmp_path / "orders.csv", tmp_path / "orders.sql"
    table.write_text("1,north,20\n2,south,5\n3,north,30\n")
    script.write_text(QUERY.replace("{path}", str(table)))
    modules = loaded(CLIENT.format(script=str(script)))

    assert {"north", "pyarrow", "funken.table.runtime.group"} <= modules
    assert not modules & {"asyncio", "pandas", "prompt_toolkit", "rich", "pyspark", "ssl", "funken.rest.server"}
    assert len([name for name in modules if name.split(".")[0] == "funken"]) <= 355


def test_the_help_loads_no_command():
    modules = loaded('from funken.cli.main import main\nmain(["--help"], standalone_mode=False)')

    assert not modules & (LARGE | {"rich", "starlette", "msgspec"})
    assert len([name for name in modules if name.split(".")[0] == "funken"]) <= 8


def test_pandas_is_known_to_arrow_once_a_program_imports_it():
    pytest.importorskip("pandas")
    program = """
import pyarrow as pa
from funken.extras import defer_pandas
defer_pandas()
before = pa.array([1.0]).to_pylist(), "pandas" in sys.modules
import pandas
assert before == ([1.0], False)
assert pa.array(pandas.Series([1.0, float("nan")])).null_count == 1
assert pa.table({"a": [1]}).to_pandas().shape == (1, 1)
"""

    assert "pandas" in loaded(program)
