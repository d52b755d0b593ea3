import os
import sys
from types import ModuleType

import pytest
from pyarrow import fs

from funken.connectors import CommitRequest, CommitterContext, ConnectorContext
from funken.connectors.files.line_files import StreamFormat
from funken.connectors.files.part_files import Encoder
from funken.connectors.files.sink import BucketAssigner, FileSink
from funken.connectors.files.source import FileSource
from funken.errors import SinkNotWritable, SourceNotReadable
from funken.io.filesystem import ArrowFiles, Files, locate
from funken.io.storage import ArrowStorage, open_storage


@pytest.fixture(params=[Files, lambda: ArrowFiles(fs.LocalFileSystem())], ids=["os", "arrow"])
def files(request):
    return request.param()


def put(files, path, data):
    file = files.create(str(path))
    file.write(data)
    files.seal(file)


def test_a_created_file_is_found_read_and_moved(files, tmp_path):
    put(files, tmp_path / "a/b/one", b"12345")
    put(files, tmp_path / "a/.two", b"")

    (found,) = files.find(str(tmp_path))

    assert (found.path, found.size) == (str(tmp_path / "a/b/one"), 5)
    assert found.modified == os.stat(found.path).st_mtime_ns
    assert files.find(found.path) == [found]
    with files.open(found.path) as file:
        file.seek(3)
        assert file.read(9) == b"45"
    files.move(found.path, str(tmp_path / "three"))
    assert [os.path.basename(one.path) for one in files.find(str(tmp_path))] == ["three"]


def test_moving_twice_is_harmless_but_moving_nothing_is_not(files, tmp_path):
    put(files, tmp_path / "one", b"")
    for _ in range(2):
        files.move(str(tmp_path / "one"), str(tmp_path / "two"))

    with pytest.raises(FileNotFoundError):
        files.move(str(tmp_path / "one"), str(tmp_path / "three"))


def test_what_was_moved_survives_a_crash_of_the_machine(tmp_path, monkeypatch):
    """The file is on disk before it has its name, and the name is when ``move`` returns; so are new folders."""
    files, synced = Files(), []
    real = os.fsync

    def fsync(handle):
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr("os.fsync", fsync)
    put(files, tmp_path / "a/b/.one", b"1")
    files.move(str(tmp_path / "a/b/.one"), str(tmp_path / "a/b/one"))

    assert sorted(synced[:2]) == [str(tmp_path), str(tmp_path / "a")]
    assert synced[2:] == [str(tmp_path / "a/b/.one"), str(tmp_path / "a/b")]


def test_removing_twice_is_harmless(files, tmp_path):
    put(files, tmp_path / "one", b"")
    for _ in range(2):
        files.remove(str(tmp_path / "one"))

    assert list(tmp_path.iterdir()) == []


def test_what_does_not_exist_is_not_found(files, tmp_path):
    with pytest.raises(FileNotFoundError):
        files.find(str(tmp_path / "gone"))


def test_checking_a_folder_leaves_nothing(files, tmp_path):
    files.check_writable(str(tmp_path / "new/folder"))

    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_a_folder_is_noticed(files, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError):
        files.check_writable(str(tmp_path / "file"))


def test_a_uri_reaches_the_file_system_of_its_scheme(tmp_path, job, monkeypatch):
    memory = fs.FileSystem.from_uri("mock:///")[0]
    root = "mock:///out"
    for module in ("sink", "compaction"):
        monkeypatch.setattr(f"funken.connectors.files.{module}.locate", lambda _: (ArrowFiles(memory), "out"))
    monkeypatch.setattr("funken.connectors.files.source.locate", lambda _: (ArrowFiles(memory), "out"))
    sink = (
        FileSink.for_row_format(root, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    writer = sink.writer(ConnectorContext("sink", 0, 1))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), root).build()

    sink.check()
    writer.write(["a", "b"], None, 0)
    writer.flush(end_of_input=True)
    pending = writer.prepare_commit(1, end_of_input=True)
    with pytest.raises(SourceNotReadable, match="holds no files"):
        job(source)
    for _ in range(2):
        sink.committer(CommitterContext("sink")).commit([CommitRequest(each) for each in pending])

    assert job(source).run() == ["a", "b"]


def test_a_scheme_that_arrow_does_not_know_is_named():
    sink = FileSink.for_row_format("nosuch://host/out", Encoder.simple_string_encoder()).build()

    with pytest.raises(SinkNotWritable, match=r"cannot write nosuch://host/out \(.*nosuch"):
        sink.check()


def test_arrow_is_asked_for_other_schemes():
    files, path = locate("mock:///some/folder/")

    assert isinstance(files, ArrowFiles)
    assert path == "some/folder"


def test_connectors_and_checkpoints_open_what_fsspec_knows(monkeypatch):
    pytest.importorskip("pyarrow.fs")
    opened = []

    def url_to_fs(root):
        opened.append(root)
        return object(), "bucket/folder/"

    fsspec = ModuleType("fsspec.core")
    monkeypatch.setattr(fsspec, "url_to_fs", url_to_fs, raising=False)
    monkeypatch.setitem(sys.modules, "fsspec.core", fsspec)
    root = "elsewhere://bucket/folder/"

    files, path = locate(root)
    storage = open_storage(root)

    assert (type(files), path, type(storage), storage.uri) == (
        ArrowFiles,
        "bucket/folder",
        ArrowStorage,
        root.rstrip("/"),
    )
    assert opened == [root]  # a file system is opened once per process
