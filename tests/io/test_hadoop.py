"""HDFS without a JVM: how roots are opened, and that a rename replaces or raises."""

import sys

import pytest

from funken.io.filesystem import absolute
from funken.io.hadoop import _native, _web, open_hadoop


class Answer:
    def __init__(self, content):
        self.content = content

    def json(self):
        return {"boolean": b"true" in self.content}


class Web:
    said = b""

    def __init__(self, *args, **settings):
        self.args, self.settings, self.asked = args, settings, []

    def _strip_protocol(self, path):
        return path

    def _call(self, operation, **arguments):
        self.asked.append((operation, arguments["destination"], arguments["renameoptions"]))
        return Answer(self.said)


def test_a_rename_over_http_replaces_and_is_believed_only_if_it_is_said():
    files = _web(Web)("host")
    files.mv("/a", "/b")
    assert files.asked == [("RENAME", "/b", "OVERWRITE")]

    files.said = b'{"boolean": false}'
    with pytest.raises(OSError, match="did not rename it to /b"):
        files.mv("/a", "/b")


def test_a_rename_by_the_protocol_replaces():
    class Native:
        class client:
            @staticmethod
            def rename(*arguments):
                renamed.append(arguments)

        def _strip_protocol(self, path):
            return path

    renamed = []
    _native(Native)().mv("/a", "/b")

    assert renamed == [("/a", "/b", True)]


def test_without_the_package_somebody_else_opens_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native.fsspec", None)

    assert open_hadoop("hdfs://host:8020/a") is None


def test_roots_with_passwords_are_refused_without_showing_them():
    for root in ("s3://key:hidden@bucket/a", "sftp://ada:hidden@host/a"):
        with pytest.raises(ValueError, match="has a password in it") as refused:
            absolute(root)
        assert "hidden" not in str(refused.value)
