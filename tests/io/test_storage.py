"""Folders that hold checkpoints: in memory, local, and by Arrow; all keep the same promises."""

import contextlib
import errno
import os
import random
import resource

import pytest

from funken.errors import CheckpointNotFound, StorageFailed
from funken.io.storage import ArrowStorage, LocalStorage, open_storage
from funken.testing.memory_storage import Fault, MemoryStorage, planned, random_faults


@pytest.fixture(params=["memory", "local", "arrow"])
def storage(request, tmp_path):
    if request.param == "memory":
        return MemoryStorage()
    if request.param == "local":
        return LocalStorage(str(tmp_path / "root"))
    arrow = pytest.importorskip("pyarrow.fs")
    return ArrowStorage(arrow.LocalFileSystem(), str(tmp_path / "root"), "arrow://root")


def test_what_was_written_is_read(storage):
    assert storage.write("chk-1/data", b"0123456789") == 10
    assert storage.read("chk-1/data") == b"0123456789"
    assert storage.read("chk-1/data", 2, 3) == b"234"
    assert storage.read("chk-1/data", 8, 5) == b"89"
    assert storage.read("chk-1/data", 20, 5) == b""


def test_a_file_may_be_written_piece_by_piece(storage):
    assert storage.write("data", (bytes([i]) * 3 for i in range(4))) == 12
    assert len(storage.read("data")) == 12


def test_a_file_is_replaced_unless_it_must_be_new(storage):
    storage.write("data", b"old", new=True)
    storage.write("data", b"new")
    with pytest.raises(StorageFailed, match="another job wrote it"):
        storage.write("data", b"newer", new=True)
    assert storage.read("data") == b"new"
    assert storage.sizes() == {"data": 3}  # nothing temporary is left


def test_files_are_listed_with_their_sizes(storage):
    storage.write("chk-1/a", b"1")
    storage.write("chk-1/b/c", b"22")
    storage.write("chk-10/a", b"333")
    assert storage.sizes() == {"chk-1/a": 1, "chk-1/b/c": 2, "chk-10/a": 3}
    assert storage.sizes("chk-1") == {"chk-1/a": 1, "chk-1/b/c": 2}
    assert storage.at("chk-1").sizes() == {"a": 1, "b/c": 2}
    assert storage.sizes("chk-2") == {}


def test_files_and_folders_are_deleted_and_that_again_is_harmless(storage):
    for name in ("chk-1/a", "chk-1/b", "chk-10/a"):
        storage.write(name, b"x")
    for _ in range(2):
        storage.delete("chk-1/a")
        assert storage.sizes() == {"chk-1/b": 1, "chk-10/a": 1}
    for _ in range(2):
        storage.delete("chk-1")
        assert storage.sizes() == {"chk-10/a": 1}
    storage.at("chk-10").delete("")
    assert storage.sizes() == {}


def test_what_is_not_there_is_named(storage):
    with pytest.raises(CheckpointNotFound, match="chk-1/data"):
        storage.at("chk-1").read("data")


def test_a_write_that_fails_leaves_nothing(storage):
    def pieces():
        yield b"first"
        raise OSError(errno.ENOSPC, "no space left on device")

    with pytest.raises((StorageFailed, OSError)):
        storage.write("data", pieces())
    assert storage.sizes() == {}


@pytest.mark.parametrize("make", [lambda path: path, lambda path: f"file://{path}"])
def test_paths_and_file_uris_are_local(tmp_path, make):
    storage = open_storage(make(f"{tmp_path}/with space"))
    storage.write("data", b"x")
    assert isinstance(storage, LocalStorage)
    assert storage.uri == f"{tmp_path}/with space"
    assert (tmp_path / "with space" / "data").read_bytes() == b"x"


def test_other_uris_are_arrows(monkeypatch):
    pytest.importorskip("pyarrow.fs")
    storage = open_storage("mock:///checkpoints")
    storage.write("a/b", b"x")
    assert (storage.uri, storage.at("a").uri) == ("mock:///checkpoints", "mock:///checkpoints/a")
    assert storage.sizes() == {"a/b": 1}


def test_an_unknown_scheme_says_what_to_install():
    pytest.importorskip("pyarrow.fs")
    with pytest.raises(StorageFailed, match="Install fsspec"):
        open_storage("nowhere://bucket/checkpoints")


def test_a_file_on_another_host_is_refused():
    with pytest.raises(StorageFailed, match="another host"):
        open_storage("file://elsewhere/checkpoints")


# ---- what goes wrong on a machine


def refuse(number):
    def fsync(handle):
        raise OSError(number, os.strerror(number))

    return fsync


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "the disk is full. Free some space, or set execution.checkpointing.dir"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EROFS, "Read-only file system. Let the user of this process write there"),
        (errno.EIO, "See whether the storage can be reached"),
    ],
)
def test_an_error_says_what_to_do(tmp_path, monkeypatch, number, says):
    storage = LocalStorage(str(tmp_path))
    monkeypatch.setattr("os.fsync", refuse(number))
    with pytest.raises(StorageFailed, match=f"cannot write {tmp_path}/chk-1/data: .*{says}"):
        storage.write("chk-1/data", b"x")
    assert storage.sizes() == {} and os.listdir(tmp_path) == []


def test_a_folder_goes_with_its_last_file_but_not_that_of_the_storage(tmp_path):
    storage = LocalStorage(str(tmp_path / "job"))
    storage.write("chk-1/a", b"x")
    storage.write("chk-1/b", b"x")
    storage.delete("chk-1/a")
    assert os.listdir(tmp_path / "job") == ["chk-1"]
    storage.delete("chk-1/b")
    assert os.listdir(tmp_path / "job") == []


def test_folders_of_checkpoints_are_for_this_user_alone(tmp_path):
    os.umask(os.umask(0o022))
    LocalStorage(str(tmp_path / "checkpoints/job")).write("chk-1/a", b"x")
    for folder in ("checkpoints", "checkpoints/job", "checkpoints/job/chk-1"):
        assert os.stat(tmp_path / folder).st_mode & 0o777 == 0o700


def test_a_folder_that_exists_keeps_its_mode(tmp_path):
    (tmp_path / "checkpoints").mkdir(mode=0o750)
    LocalStorage(str(tmp_path / "checkpoints")).write("chk-1/a", b"x")
    assert os.stat(tmp_path / "checkpoints").st_mode & 0o777 == 0o750


def test_new_folders_survive_a_crash_of_the_machine(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(handle):
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr("os.fsync", fsync)
    LocalStorage(str(tmp_path / "job")).write("chk-1/a", b"x")
    assert synced[:2] == [str(tmp_path), str(tmp_path / "job")]
    assert ".writing-" in synced[2] and synced[3] == str(tmp_path / "job" / "chk-1")


def test_a_folder_that_goes_while_a_file_is_written_to_it_is_made_again(tmp_path, monkeypatch):
    storage = LocalStorage(str(tmp_path))
    real, times = os.mkdir, iter(range(3))

    def mkdir(path, *arguments, **more):
        real(path, *arguments, **more)
        if next(times, None) is not None:
            os.rmdir(path)

    monkeypatch.setattr("os.mkdir", mkdir)
    storage.write("chk-1/a", b"x")
    assert storage.sizes() == {"chk-1/a": 1}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_noticed(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageFailed, match="Permission denied"):
        LocalStorage(str(tmp_path)).write("data", b"x")


def test_a_limit_on_the_size_of_files_is_noticed_and_leaves_nothing(tmp_path):
    storage = LocalStorage(str(tmp_path))
    storage.write("chk-1/data", b"x" * 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(StorageFailed, match=f"cannot write {tmp_path}/chk-2/data: no file may be that large"):
            storage.write("chk-2/data", [b"x" * 3000] * 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert storage.sizes() == {"chk-1/data": 100}


def test_a_file_in_place_of_a_folder_is_noticed(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="a part of the path is a file"):
        LocalStorage(str(tmp_path / "file" / "checkpoints")).write("data", b"x")


def test_without_links_a_new_file_is_still_new(tmp_path, monkeypatch):
    def link(source, target):
        raise OSError(errno.EPERM, "links are not supported")

    monkeypatch.setattr("os.link", link)
    storage = LocalStorage(str(tmp_path))
    storage.write("data", b"x", new=True)
    with pytest.raises(StorageFailed, match="another job"):
        storage.write("data", b"y", new=True)
    assert storage.sizes() == {"data": 1}


# ---- what goes wrong in memory


@pytest.mark.parametrize(
    ("fault", "left"), [(Fault.ERROR, None), (Fault.TORN, b"01"), (Fault.LOST, b"01"), (Fault.UNSURE, b"0123")]
)
def test_a_planned_fault_happens_once(fault, left):
    storage = MemoryStorage(faults=planned(("write", "data", fault)))
    storage.write("other", b"x")
    if fault is Fault.LOST:
        storage.write("data", b"0123")
    else:
        with pytest.raises(StorageFailed, match=fault.value):
            storage.write("data", b"0123")
    assert storage.files.get("data") == left
    storage.write("data", b"0123")
    assert storage.read("data") == b"0123"


@pytest.mark.parametrize("operation", ["read", "delete", "list"])
def test_other_operations_are_refused_too(operation):
    storage = MemoryStorage(faults=planned((operation, "", Fault.ERROR)))
    storage.write("data", b"x")
    with pytest.raises(StorageFailed, match=operation):
        {"read": storage.read, "delete": storage.delete, "list": storage.sizes}[operation]("data")
    assert storage.read("data") == b"x"


def test_random_faults_follow_their_seed():
    def outcomes(seed):
        storage = MemoryStorage(faults=random_faults(random.Random(seed), 0.3))
        for number in range(50):
            with contextlib.suppress(StorageFailed):
                storage.write(str(number), b"0123")
        return storage.files

    assert outcomes(1) == outcomes(1) != outcomes(2)


def test_delays_are_told_and_folders_share_their_files():
    waited = []
    storage = MemoryStorage(delay=lambda operation: {"write": 7}.get(operation, 0), wait=waited.append)
    storage.at("a").write("b", b"x")
    assert storage.read("a/b") == b"x"
    assert waited == [7, 0]
