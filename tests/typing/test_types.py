"""What mypy and pyright infer of programs, and that type arguments are nothing at run time."""

import ast
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import funken
from funken.cli.main import main
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


PORTED = """
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import Time, TumblingEventTimeWindows
from pyflink.table import StreamTableEnvironment
from pyflink.table.expressions import col

class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        reveal_type(self.count)

env = StreamExecutionEnvironment.get_execution_environment()
words = env.from_collection([("a", 1)], type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
reveal_type(words.key_by(lambda word: word[0]).window(TumblingEventTimeWindows.of(Time.seconds(5))))
reveal_type(StreamTableEnvironment.create(env).from_elements([(1, "a")], ["x", "y"]).select(col("x")))
words.mapp(len)
env.set_parallelism("2")
"""


def test_mypy_finds_types_and_mistakes_of_pyflink_programs_by_the_stubs(tmp_path):
    typings, program = tmp_path / "typings", tmp_path / "ported.py"
    program.write_text(PORTED)
    assert CliRunner().invoke(main, ["stubs", str(typings)]).exit_code == 0
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        f"[mypy]\nstrict = true\nmypy_path = {typings}:{ROOT / 'src'}\n[mypy-funken.*]\nignore_errors = true\n"
    )

    cache = ROOT / ".mypy_cache" / "stubs"
    found = checked(sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", cache, program)

    revealed = re.findall(r'Revealed type is "(.*)"', found.stdout)
    assert [re.sub(r"[a-z_]+\.(?=[a-zA-Z])", "", each).partition(", tuple[int, int")[0] for each in revealed] == [
        "ValueState[int]",
        "WindowedStream[tuple[str, int], str",
        "Table",
    ]
    errors = [line.partition("error: ")[2] for line in found.stdout.splitlines() if "error:" in line]
    assert len(errors) == 2 and '"mapp"' in errors[0] and '"set_parallelism"' in errors[1], found.stdout


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
