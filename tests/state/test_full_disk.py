"""RocksDB on a disk that is full, or nearly: an error that says so, in time, and never a write that waits for ever."""

import contextlib
import os
import stat
from concurrent.futures import Future

import pytest

from funken import Configuration
from funken.errors import DiskFull, StateError
from funken.state.backend import StateSettings
from funken.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from funken.state.keyed import KeyedStateStore
from funken.state.rocksdb import backend as tables
from funken.state.rocksdb import database as module
from funken.state.rocksdb import database as space
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.state.rocksdb.database import Budget, Database, DiskSpace, SharedMemory
from tests.support.disks import small_disk

pytest.importorskip("rocksdict")

MIB = 2**20


@pytest.fixture
def free(monkeypatch):
    """How much the disk has free, in a list of one."""
    left = [1000 * MIB]
    monkeypatch.setattr(space, "free_bytes", lambda folder: left[0])
    return left


@pytest.fixture
def backend(tmp_path, free):
    shared = TaskDatabases(64 * MIB, 0.5, str(tmp_path), min_free_space=100 * MIB)
    backend = RocksDBBackend(shared, 128, range(128), "operator 'count' (subtask 0)")
    yield backend
    backend.close()
    shared.close()


def stored(backend, key, value):
    store = KeyedStateStore(128, range(128), lambda: 0, backend)
    state = store.state(ValueStateDescriptor("n"))
    store.current_key = key
    state.update(value)
    return store


def test_nothing_is_written_to_a_disk_that_is_nearly_full(backend, free, tmp_path):
    store = stored(backend, "a", 1)
    backend.snapshot({}, 0).files()
    free[0] = 99 * MIB
    state = store.state(ListStateDescriptor("l"))
    state.add(2)

    with pytest.raises(DiskFull) as raised:
        backend.snapshot({}, 0)

    said = str(raised.value)
    assert said.startswith("operator 'count' (subtask 0): RocksDB cannot write to ")
    for part in (str(tmp_path), "99.0 MiB are free, 100.0 MiB must stay free", "state.backend.rocksdb.min-free-space",
                 "state.backend.rocksdb.localdir"):  # fmt: skip
        assert part in said


def test_a_database_is_not_opened_on_such_a_disk(backend, free):
    free[0] = MIB
    with pytest.raises(DiskFull, match=r"1\.0 MiB are free"):
        stored(backend, "a", 1)


def test_a_snapshot_that_does_not_fit_fails_and_the_next_one_has_it_all(backend, free):
    stored(backend, "a", 1)
    backend.snapshot({}, 0).files()
    stored(backend, "b", 2)
    for rows in backend._rows:
        rows.flush()
    free[0] = MIB
    with pytest.raises(DiskFull):
        backend.snapshot({}, 0).files()

    free[0] = 1000 * MIB
    names = backend.snapshot({}, 0).files()

    assert sum(name.endswith(".sst") for name in names) == 2


def test_the_folder_goes_although_the_error_of_a_failed_snapshot_is_kept(tmp_path, free):
    shared = TaskDatabases(64 * MIB, 0.5, str(tmp_path), min_free_space=100 * MIB)
    backend = RocksDBBackend(shared, 128, range(128))
    stored(backend, "a", 1)
    database = backend.database
    for rows in backend._rows:
        rows.flush()
    free[0] = MIB
    with pytest.raises(DiskFull) as kept:
        backend.snapshot({}, 0).files()

    free[0] = 1000 * MIB
    backend.close()
    shared.close()

    assert kept.value is not None
    assert not os.path.exists(database.path)
    assert os.listdir(tmp_path) == []


def test_the_folder_stays_while_a_snapshot_can_be_read(tmp_path, free):
    shared = TaskDatabases(64 * MIB, 0.5, str(tmp_path), min_free_space=100 * MIB)
    backend = RocksDBBackend(shared, 128, range(128))
    stored(backend, "a", 1)
    snapshot = backend.snapshot({}, 0)

    backend.close()
    shared.close()

    assert any(name.endswith(".sst") for name in snapshot.files())
    del snapshot
    assert os.listdir(tmp_path) == []


def test_files_are_not_taken_in_on_such_a_disk(backend, free):
    database = backend.database
    free[0] = MIB
    with pytest.raises(DiskFull):
        database.take_sorted([(b"a", b"1")])


def test_the_threshold_is_an_option():
    assert StateSettings.of(Configuration({})).min_free_space == 64 * MIB
    assert StateSettings.of(Configuration({"state.backend.rocksdb.min-free-space": "1g"})).min_free_space == 1024 * MIB


class Stalling:
    """A database that would make the first writes wait, and has failed to write files so many times."""

    def __init__(self, real, times, errors=0):
        self._real = real
        self.times = times
        self.errors = errors

    def write(self, batch, options):
        assert options.no_slowdown, "it would hold the interpreter's lock while it waits"
        self.times -= 1
        if self.times >= 0:
            raise Exception("Result incomplete: Write stall")
        self._real.write(batch, options)

    def property_int_value(self, name):
        return self.errors if name == "rocksdb.background-errors" else 0

    def __getattr__(self, name):
        return getattr(self._real, name)


def test_a_write_that_would_wait_is_tried_again(backend, monkeypatch):
    pauses = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    database = backend.database
    database._db = Stalling(database._db, times=9)

    database.write([(b"a", b"1"), (b"b", None)])

    assert database.get(b"a") == b"1"
    assert len(pauses) == 8 and pauses == sorted(pauses) and max(pauses) <= 0.05


@pytest.mark.parametrize("what", ["space", "errors", "time"])
def test_a_write_that_never_succeeds_ends_with_the_reason(backend, monkeypatch, free, what):
    database = backend.database
    database._db = Stalling(database._db, 10**9, errors=what == "errors")
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if what == "space":
            free[0] = 5 * MIB

    monkeypatch.setattr(module.time, "sleep", sleep)
    monkeypatch.setattr(module, "_monotonic", lambda: 100.0 * len(slept))
    says = {"space": r"5\.0 MiB are free", "errors": "failed to compact files", "time": "has taken no write for 300 s"}

    with pytest.raises(StateError, match=says[what]):
        database.write([(b"a", b"1")])

    assert len(slept) < 10


def test_what_fails_when_a_database_is_thrown_away_does_not_hide_why(backend, caplog):
    class Broken:
        def close(self):
            raise Exception("IO error: No space left on device")

    database = backend.database
    database._db, real = Broken(), database._db
    backend.close()
    real.close()
    assert "no space is left on the device" in caplog.text


def test_folders_are_for_this_user_alone(backend, tmp_path):
    stored(backend, "a", 1)
    backend.snapshot({}, 0).files()
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


# ---- on a disk that is really full

TWO_DATABASES = """
import random, sys
from pathlib import Path
from funken.errors import DiskFull
from funken.state.rocksdb.database import Budget, Database, SharedMemory
from tests.support.disks import fill

folder, chance = Path(sys.argv[1]), random.Random(1)
memory = SharedMemory(Budget.of(8 * 2**20))
databases = [Database(str(folder / name), memory) for name in "ab"]
value, refused = chance.randbytes(4000), 0
for number in range(2000):
    if number == 100:
        fill(folder)
    rows = [(b"%06d" % chance.randrange(20000), value[chance.randrange(3000):][:1000]) for _ in range(100)]
    try:
        databases[number % 2].write(rows)
    except DiskFull:
        refused += 1
print("refused", refused)
"""


def test_writes_to_a_full_disk_are_refused_and_do_not_hang(tmp_path, script):
    """Of two databases one waits for files that cannot be written; nothing says so but that it waits."""
    with small_disk(tmp_path / "disk", "60m") as disk:
        done = script(TWO_DATABASES, str(disk), timeout=60, PYTHONPATH=os.getcwd())
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > 1500


def test_a_database_says_that_its_disk_is_full(tmp_path):
    with small_disk(tmp_path / "disk", "20m") as disk:
        database = Database(
            str(disk / "a"), SharedMemory(Budget.of(8 * MIB)), space=DiskSpace(str(disk), 2 * MIB, "me")
        )
        with pytest.raises(DiskFull, match=r"me: RocksDB cannot write to .*disk: .* MiB are free"):
            for number in range(1000):
                database.write([(b"%d" % number, os.urandom(100_000))])
        assert 0 < number < 300
        with contextlib.suppress(DiskFull):
            database.close()


def test_a_folder_that_is_gone_fails_the_snapshot_that_waits_for_it(tmp_path, monkeypatch):
    """Not only an error of RocksDB settles it: whoever waits for the files would wait for ever."""

    def gone(folder):
        raise FileNotFoundError(folder)

    shared = TaskDatabases(64 * MIB, 0.5, str(tmp_path), min_free_space=100 * MIB)
    backend = RocksDBBackend(shared, 128, range(128), "operator 'count' (subtask 0)")
    stored(backend, "a", 1)
    made = backend._database.checkpoint
    monkeypatch.setattr(space, "free_bytes", gone)

    with pytest.raises(StateError, match="cannot be saved: .*Is the disk of"):
        made(str(tmp_path / "copy")).result(timeout=30)

    monkeypatch.undo()
    backend.close()
    shared.close()


def test_files_that_are_not_written_in_time_are_given_up(backend, monkeypatch):
    stored(backend, "a", 1)
    backend.snapshot({}, 0).files()
    monkeypatch.setattr(module.Database, "checkpoint", lambda self, path: Future())
    monkeypatch.setattr(tables, "PATIENCE_SECONDS", 0.01)

    with pytest.raises(StateError, match="is still being saved after"):
        tables.LinkedFiles(backend._database, "copy", backend._database).path  # noqa: B018 - waits
