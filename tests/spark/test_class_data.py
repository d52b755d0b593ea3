"""Which archive of classes a JVM is started with, or told to write."""

import os
import re

import pytest

from funken.spark import java as class_data

WRITE = re.compile(r'"-XX:ArchiveClassesAtExit=(.+\.part)" -Xlog:cds\*=off')
USE = re.compile(r'"-XX:SharedArchiveFile=(.+\.jsa)" -Xlog:cds\*=off')


@pytest.fixture
def java(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "java"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    return home


@pytest.fixture
def jars(tmp_path):
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "spark.jar").write_bytes(b"classes")
    return folder


def written(options, seconds_ago=60, content=b"archive"):
    """Write the archive that a JVM with these options would write."""
    part = WRITE.fullmatch(options)[1]
    with open(part, "wb") as file:
        file.write(content)
    then = os.stat(part).st_mtime - seconds_ago
    os.utime(part, (then, then))


def test_the_first_jvm_writes_an_archive_and_the_next_ones_use_it(java, jars):
    written(class_data.options(java, jars))

    first, second = class_data.options(java, jars), class_data.options(java, jars)

    assert first == second
    with open(USE.fullmatch(first)[1], "rb") as file:
        assert file.read() == b"archive"


@pytest.mark.parametrize(("seconds_ago", "content"), [(1, b"half of it"), (60, b"")])
def test_what_is_being_written_or_empty_is_not_used(java, jars, seconds_ago, content):
    written(class_data.options(java, jars), seconds_ago, content)

    assert WRITE.fullmatch(class_data.options(java, jars))


def test_other_jars_or_another_java_get_an_archive_of_their_own(java, jars):
    written(class_data.options(java, jars))
    assert USE.fullmatch(class_data.options(java, jars))

    (jars / "spark.jar").write_bytes(b"other classes")
    assert WRITE.fullmatch(class_data.options(java, jars))

    (jars / "spark.jar").unlink()
    (java / "release").write_text('JAVA_VERSION="21"')
    assert WRITE.fullmatch(class_data.options(java, jars))


def test_the_two_used_last_stay(java, jars, tmp_path):
    for version in ("17", "21", "25"):
        (java / "release").write_text(version)
        written(class_data.options(java, jars))
        used = USE.fullmatch(class_data.options(java, jars))[1]
        then = os.stat(used).st_mtime - (100 - int(version))
        os.utime(used, (then, then))
    class_data.options(java, jars)

    assert len(list(tmp_path.glob("cache/funken/classes/*.jsa"))) == 2
    (java / "release").write_text("17")
    assert WRITE.fullmatch(class_data.options(java, jars)), "the oldest is gone"


def test_a_java_without_an_archive_of_its_own_classes_gets_none(java, jars):
    (java / "lib" / "server" / "classes.jsa").unlink()

    assert class_data.options(java, jars) == ""


@pytest.mark.parametrize("cache", ["", "relative", "/dev/null", "/with space", '/with"quote'])
def test_without_a_usable_cache_there_is_none(java, jars, monkeypatch, cache):
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", cache)

    assert class_data.options(java, jars) == ""


def test_a_folder_that_others_can_write_is_not_trusted(java, jars, tmp_path):
    assert class_data.options(java, jars)
    (tmp_path / "cache" / "funken" / "classes").chmod(0o777)

    assert class_data.options(java, jars) == ""
