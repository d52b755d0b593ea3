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
LARGE = {"asyncio", "funken.expr.paths", "funken.expr.rules", "numpy", "pandas", "pyarrow", "pyspark"}


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
