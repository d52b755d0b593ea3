"""What mypy and pyright infer of programs, and that type arguments are nothing at run time."""

import ast
import inspect
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import funken
from funken.table import expression_methods
from funken.table.expression import Expression
from tests.typing import any_in_signatures, libraries, of_connectors, of_ports, of_streams, ported, programs, typical

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

PUBLIC_ANY = {
    "api": 88,
    "cep": 14,
    "dataframe": 14,
    "dataset": 50,
    "graph": 79,
    "ml": 128,
    "pyflink": 147,
    "state": 13,
    "table": 52,
}
"""How often the public signatures of a room say ``Any``; what is left has no type of its own. The numbers may only shrink."""
CHECKED = (
    "programs.py",
    "typical.py",
    "mistakes.py",
    "libraries.py",
    "mistakes_of_libraries.py",
    "ported.py",
    "mistakes_of_ports.py",
    "of_streams.py",
    "of_connectors.py",
    "of_ports.py",
    "mistakes_of_users.py",
)
MISTAKES = [name for name in CHECKED if name.startswith("mistakes")]
STRICT = ("typical.py", "libraries.py", "of_streams.py", "of_connectors.py", "of_ports.py")


def checked(*command, **variables):
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=200, check=False
    )


def test_mypy_infers_the_types_of_programs_and_finds_the_mistakes(stubs):
    cache = ROOT / ".mypy_cache" / "typing"
    files = [HERE / name for name in CHECKED]
    found = checked(sys.executable, "-m", "mypy", "--cache-dir", cache, *files, MYPYPATH=str(stubs))

    assert (found.stdout, found.stderr, found.returncode) == (
        f"Success: no issues found in {len(CHECKED)} source files\n",
        "",
        0,
    )


@pytest.mark.skipif(
    shutil.which("pyright", path=Path(sys.executable).parent) is None, reason="pyright is not installed"
)
def test_pyright_infers_the_types_of_programs_and_finds_the_mistakes(stubs):
    project = stubs.parent / "pyrightconfig.json"
    places = {name: os.path.relpath(HERE / name, project.parent) for name in CHECKED}  # it ignores absolute paths
    settings = {
        "include": list(places.values()),
        "strict": [places[name] for name in STRICT],
        "stubPath": str(stubs),
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "reportMissingModuleSource": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    project.write_text(json.dumps(settings))

    found = checked(Path(sys.executable).parent / "pyright", "--pythonpath", sys.executable, "-p", project)
    if "npm" in found.stderr and not found.stdout:
        pytest.skip("pyright cannot be loaded: it comes from npm when it runs first")

    assert found.stdout.splitlines()[-1:] == ["0 errors, 0 warnings, 0 informations"], found.stdout


PROGRAMS = (typical, libraries, ported, of_streams, of_connectors, of_ports)
TYPICAL = [each for module in PROGRAMS for each in module.PROGRAMS]
UNRUN = [*libraries.UNRUN, *of_connectors.UNRUN, *of_ports.UNRUN]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("program", [*programs.PROGRAMS, *TYPICAL], ids=lambda program: program.__name__)
def test_the_programs_run(program):
    program()


def test_there_are_a_hundred_and_seventy_typical_programs():
    assert len(TYPICAL) + len(UNRUN) >= 170


def test_every_mistake_has_a_line_of_its_own():
    lines = [line for name in MISTAKES for line in (HERE / name).read_text().splitlines()]

    assert sum("# type: ignore[" in line for line in lines) > 310
    assert not any(line.strip().startswith("# type: ignore") for line in lines)


@pytest.mark.parametrize(
    "generic",
    [funken.MapFunction, funken.DataStream, funken.KeyedStream, funken.ValueStateDescriptor, funken.OutputTag],
)
def test_type_arguments_are_nothing_at_run_time(generic):
    assert generic[int] is generic
    assert generic[int, "an unknown type"] is generic


def test_a_function_with_type_arguments_pickles_without_them():
    class Here:
        """A type that cannot be pickled by name."""

    described = funken.ValueStateDescriptor[Here]("here")

    assert pickle.loads(pickle.dumps(described)) == described
    assert vars(described) == vars(funken.ValueStateDescriptor("here"))


def test_a_generic_function_of_the_user_may_be_subscripted():
    from typing import Generic, TypeVar

    T = TypeVar("T")

    class Pair(funken.MapFunction[T, tuple[T, T]], Generic[T]):
        def map(self, value):
            return value, value

    class Pairs(Pair[int]):
        pass

    assert Pairs().map(1) == (1, 1)


@pytest.mark.parametrize("room", any_in_signatures.MODULES)
def test_any_becomes_rarer_in_public_signatures(room):
    counts = any_in_signatures.counted(*any_in_signatures.MODULES[room])

    assert sum(counts.values()) == PUBLIC_ANY[room], f"more: type the new ones; fewer: lower the number. {counts}"


def test_the_wheel_says_that_it_has_types():
    assert (ROOT / "src" / "funken" / "py.typed").exists()


def test_the_methods_of_expressions_have_their_types():
    declared = ast.parse(inspect.getsource(expression_methods.SqlMethods)).body[0]
    types = {node.name: node.args for node in ast.walk(declared) if isinstance(node, ast.FunctionDef)}

    assert types
    for name, arguments in types.items():
        signature = inspect.signature(getattr(Expression, name))
        plain = inspect.Signature([each.replace(annotation=each.empty) for each in signature.parameters.values()])
        for each in ast.walk(arguments):
            if isinstance(each, ast.arg):
                each.annotation = None
        assert ast.unparse(arguments) == str(plain)[1:-1]
    made = re.findall(r"(\w+)\(", expression_methods.METHODS + expression_methods.AGGREGATES)
    assert sorted(types) == sorted(made)
