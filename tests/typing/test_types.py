"""What mypy and pyright infer of programs, and that type arguments are nothing at run time."""

import ast
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import funken
from tests.typing import programs, typical

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
API = ROOT / "src" / "funken" / "api"

# How often ``api/`` says ``Any``. What is left is the plan's (specs), runtime-only arguments, and records that have no
# type of their own, as those of ``project``. This number may only shrink.
ANY_IN_API = 94


CHECKED = ("programs.py", "typical.py", "mistakes.py")


def checked(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


def test_mypy_infers_the_types_of_programs_and_finds_the_mistakes():
    cache = ROOT / ".mypy_cache" / "typing"
    found = checked(sys.executable, "-m", "mypy", "--cache-dir", cache, *(HERE / name for name in CHECKED))

    assert (found.stdout, found.stderr, found.returncode) == (
        f"Success: no issues found in {len(CHECKED)} source files\n",
        "",
        0,
    )


@pytest.mark.skipif(
    shutil.which("pyright", path=Path(sys.executable).parent) is None, reason="pyright is not installed"
)
def test_pyright_infers_the_types_of_programs_and_finds_the_mistakes():
    found = checked(Path(sys.executable).parent / "pyright", "--pythonpath", sys.executable, "-p", HERE)
    if "npm" in found.stderr and not found.stdout:
        pytest.skip("pyright cannot be loaded: it comes from npm when it runs first")

    assert found.stdout.splitlines()[-1:] == ["0 errors, 0 warnings, 0 informations"], found.stdout


@pytest.mark.parametrize("program", [*programs.PROGRAMS, *typical.PROGRAMS], ids=lambda program: program.__name__)
def test_the_programs_run(program):
    program()


def test_there_are_forty_typical_programs():
    assert len(typical.PROGRAMS) >= 40


def test_every_mistake_has_a_line_of_its_own():
    lines = (HERE / "mistakes.py").read_text().splitlines()

    assert sum("# type: ignore[" in line for line in lines) > 40
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


def test_any_becomes_rarer_in_the_api():
    names = [
        node
        for path in API.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id == "Any"
    ]

    assert len(names) == ANY_IN_API, "more: give the new ones a type; fewer: lower the number"
