"""Files that functions need: they travel inside the plan, and are there before anything else of it."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

from funken.compat.pyflink import dependencies
from funken.compat.pyflink.dependencies import Dependencies
from funken.errors import InvalidProgram


@pytest.fixture(autouse=True)
def as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(dependencies.tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    path, here = list(sys.path), os.getcwd()
    yield
    sys.path[:] = path
    os.chdir(here)


def test_a_module_is_imported_by_the_functions_that_need_it(env, collect, tmp_path):
    (tmp_path / "funken_lib_one.py").write_text("def double(x):\n    return 2 * x")
    env.add_python_file(str(tmp_path / "funken_lib_one.py"))

    def use(value):
        from funken_lib_one import double

        return double(value)

    assert collect(env.from_collection([1, 2]).map(use)) == [2, 4]


def test_a_package_folder_travels_as_well(env, collect, tmp_path):
    (tmp_path / "funken_lib_two").mkdir()
    (tmp_path / "funken_lib_two" / "__init__.py").write_text("N = 3")
    env.add_python_file(str(tmp_path / "funken_lib_two"))

    assert collect(env.from_collection([1]).map(lambda x: __import__("funken_lib_two").N)) == [3]


def test_the_modules_of_a_folder_are_imported_as_in_pyflink(env, collect, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "funken_lib_in_folder.py").write_text("N = 4")
    env.add_python_file(str(tmp_path / "lib"))

    assert collect(env.from_collection([1]).map(lambda x: __import__("funken_lib_in_folder").N)) == [4]


def test_an_archive_is_found_by_a_relative_path_while_the_job_runs(env, collect, tmp_path):
    (tmp_path / "content").mkdir()
    (tmp_path / "content" / "data.txt").write_text("2")
    here = os.getcwd()
    for kind in ("zip", "gztar"):
        env.add_python_archive(
            shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path / "content"), f"data-{kind}"
        )

    def read(value):
        return [value + int(Path(f"data-{kind}/data.txt").read_text()) for kind in ("zip", "gztar")]

    assert collect(env.from_collection([1]).flat_map(read)) == [3, 3]
    assert os.getcwd() == here


def test_another_process_finds_the_files_before_it_unpickles_the_functions(env, tmp_path):
    (tmp_path / "funken_lib_three.py").write_text("class Double:\n    def map(self, x):\n        return 2 * x")
    env.add_python_file(str(tmp_path / "funken_lib_three.py"))
    sys.path.append(str(tmp_path))
    import funken_lib_three

    env.from_collection([1]).map(funken_lib_three.Double().map)
    (tmp_path / "plan").write_bytes(cloudpickle.dumps(env.compile()))
    script = (
        "import pickle, sys\n"
        "plan = pickle.load(open(sys.argv[1], 'rb'))\n"
        "import pyflink.datastream\n"
        "print(plan.vertices[0].nodes[-1].spec.function.bind()(21))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "plan"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p != str(tmp_path))},
    )

    assert done.stdout == "42\n", done.stderr


def test_what_is_not_there_is_refused_at_once(env, tmp_path):
    with pytest.raises(InvalidProgram, match="no file or folder"):
        env.add_python_file(str(tmp_path / "missing.py"))
    with pytest.raises(InvalidProgram, match="no archive"):
        env.add_python_archive(str(tmp_path / "missing.zip"))


def test_requirements_are_installed_here_and_travel(tmp_path, monkeypatch):
    def pip(command, **_):
        target = command[command.index("-t") + 1]
        with open(os.path.join(target, "funken_lib_four.py"), "w") as file:
            file.write("N = 4")
        assert command[-3:] == ["--no-index", "--find-links", "cache"]
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(dependencies.subprocess, "run", pip)
    needed = Dependencies()
    needed.add_requirements("requirements.txt", "cache")
    pickle.loads(pickle.dumps(needed.shipment()))

    assert __import__("funken_lib_four").N == 4


def test_requirements_that_cannot_be_installed_are_an_error(monkeypatch):
    monkeypatch.setattr(
        dependencies.subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(command, 1, stderr="no such thing"),
    )
    with pytest.raises(InvalidProgram, match="no such thing"):
        Dependencies().add_requirements("requirements.txt", None)


def test_a_shelf_of_somebody_else_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setattr(dependencies.os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belongs to somebody else"):
        dependencies.install({"a.py": b""}, {}, {})
