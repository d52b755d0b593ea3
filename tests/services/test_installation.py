"""The wheel in an empty environment: small, soon there, and enough for the program of the README. Needs a package index."""

import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[2]
MOST_MEGABYTES = 200
MOST_SECONDS = 20  # of processors, since neighbours are no fault of the wheel
UV = shutil.which("uv", path=Path(sys.executable).parent) or shutil.which("uv")
PYTHONS = [found for found in map(shutil.which, ("python3.11", "python3.12", "python3.13")) if found]


def run(*command, cwd=None, timeout=200):
    return subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)


def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of an sdist, and of a wheel made from it."""
    if UV is None:
        pytest.skip("there is no uv: pip install uv")
    folder = tmp_path_factory.mktemp("dist")
    done = run(UV, "build", "-q", "--system-certs", "--python", sys.executable, "-o", folder, ROOT)
    if "Failed to fetch" in done.stderr or "error sending request" in done.stderr:
        pytest.skip("no package index can be reached, and the wheel needs hatchling")
    assert done.returncode == 0, done.stderr
    return folder


def installed(built, folder, python, extras=""):
    """Make an environment with the wheel, and return its folder of programs."""
    wheel = next(built.glob("*.whl"))
    made = run(UV, "venv", "-q", "--python", python, folder)
    assert made.returncode == 0, made.stderr
    done = run(UV, "pip", "install", "-q", "--system-certs", "--python", folder / "bin" / "python", f"{wheel}{extras}")
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def readme():
    text = (ROOT / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    return program, re.search(r"```text\n(.*?)```", text, re.DOTALL)[1]


@pytest.fixture(scope="module")
def light(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    installed(built, folder / "first", sys.executable)  # fills the cache
    return installed(built, folder / "second", sys.executable)


def test_the_program_of_the_readme_runs_soon_in_an_empty_environment(built, tmp_path, light):
    program, printed = readme()
    (tmp_path / "job.py").write_text(program)
    before = used()
    programs = installed(built, tmp_path / "env", sys.executable)
    done = run(programs / "python", tmp_path / "job.py", cwd=tmp_path)

    assert done.stdout == printed
    assert "PySpark is not installed" in done.stderr
    assert used() - before < MOST_SECONDS
    size = sum(path.lstat().st_size for path in (tmp_path / "env").rglob("*")) / 2**20
    assert size < MOST_MEGABYTES
    assert not list((tmp_path / "env").rglob("pyspark"))


def test_the_command_line_runs_programs_and_says_what_is_there(tmp_path, light):
    program, printed = readme()
    (tmp_path / "job.py").write_text(program)

    assert run(light / "funken", "run", tmp_path / "job.py", cwd=tmp_path).stdout == printed
    doctor = run(light / "funken", "doctor", cwd=tmp_path)
    assert doctor.returncode == 0, doctor.stdout
    assert "ok       Local run" in doctor.stdout
    assert "For Spark run: pip install 'funken[spark]'" in doctor.stdout


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("env.from_collection([1]).to_arrow()", "columns"),
        ("env.from_collection([1]).to_spark()", "spark"),
        ("env.from_collection([1]).map_batches(list)", "columns"),
        ("env.read_csv('words.csv')", "columns"),
        ("env.read_parquet('words.parquet')", "columns"),
        ("env.configure({'execution.target': 'batch'}).from_collection([1]).print(); env.execute()", "spark"),
        ("from funken.table import TableEnvironment; TableEnvironment.create()", "sql"),
        ("import funken.ml", "ml"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(tmp_path, light, code, extra):
    (tmp_path / "words.csv").write_text("a,b\n1,2\n")
    begin = (
        "from funken import StreamExecutionEnvironment\nenv = StreamExecutionEnvironment.get_execution_environment()\n"
    )
    done = run(light / "python", "-W", "ignore", "-c", begin + code, cwd=tmp_path)

    assert done.returncode == 1
    assert f"pip install 'funken[{extra}]'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: Path(path).name)
def test_one_wheel_serves_every_version_of_python(built, tmp_path, python):
    if run(python, "-c", "import venv").returncode:
        pytest.skip(f"{python} does not run")
    program, printed = readme()
    (tmp_path / "job.py").write_text(program)
    programs = installed(built, tmp_path / "env", python)

    assert run(programs / "python", tmp_path / "job.py", cwd=tmp_path).stdout == printed
