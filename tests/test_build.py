"""What is compiled when the package is built: helpers in C, or nothing where there is no compiler."""

import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def build(tmp_path, monkeypatch):
    """The build's hook, in a project of its own."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.c").write_text("int funken_one(void) { return 1; }\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.delenv("FUNKEN_NATIVE", raising=False)
    return module


def test_helpers_are_compiled_beside_their_sources(build, tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: install gcc or clang")
    assert build.compiled() == [tmp_path / "src" / "one.clib"]


@pytest.mark.parametrize("compiler", ["there-is-no-such-compiler", "false"])
def test_without_a_compiler_the_package_is_made_without_helpers(build, monkeypatch, capsys, compiler):
    monkeypatch.setenv("CC", compiler)

    assert build.compiled() == []
    assert "one.c is not compiled, and Python does its work" in capsys.readouterr().err


def test_helpers_can_be_left_out(build, monkeypatch):
    monkeypatch.setenv("FUNKEN_NATIVE", "0")

    assert build.compiled() == []
