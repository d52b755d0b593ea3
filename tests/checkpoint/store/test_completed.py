"""A job's folder: which checkpoint is the newest, and that nothing is deleted that anybody needs."""

import pytest

from funken.checkpoint.incremental import IncrementalSnapshots, SnapshotOptions
from funken.checkpoint.store.blobs import SubtaskState
from funken.checkpoint.store.completed import (
    COMPLETED,
    CompletedCheckpointStore,
    Manifest,
    OperatorEntry,
    SnapshotKind,
    copied,
    open_checkpoint,
)
from funken.checkpoint.store.epochs import Term
from funken.errors import (
    CheckpointCorrupted,
    CheckpointIncompatible,
    CheckpointLost,
    CheckpointNotFound,
    LeadershipLost,
    StorageFailed,
)
from funken.io.storage import DANGLING, LocalStorage
from funken.state.delta_tables import KeyedSnapshot, OperatorStates
from funken.testing.memory_storage import Fault, MemoryStorage, planned


class Job:
    """One subtask that counts, and its catalog."""

    def __init__(self, storage, incremental=True):
        self.storage = storage
        self.lineage = IncrementalSnapshots("count", 0, SnapshotOptions(incremental, inline_below=0))
        self.catalog = CompletedCheckpointStore(storage)
        self.handles = {}

    def snapshot(self, checkpoint, savepoint=None, **keys):
        rows = {ord(key) % 128: {"n": [(key, None, value)]} for key, value in keys.items()}
        keyed = KeyedSnapshot(128, rows, None if self.lineage.wants_complete else {})
        state = SubtaskState(keyed, operator_state=OperatorStates({"own": [checkpoint]}))
        self.handles[checkpoint] = self.lineage.write(self.lineage.snapshot(state, checkpoint), self.storage, savepoint)
        return self.handles[checkpoint]

    def manifest(self, checkpoint, kind=SnapshotKind.CHECKPOINT):
        operator = OperatorEntry("count", "count", 1, 128, True, (self.handles[checkpoint],))
        return Manifest("job", "Job", checkpoint, kind, 1000, (operator,))

    def complete(self, checkpoint, **keys):
        self.snapshot(checkpoint, **keys)
        self.catalog.store(self.manifest(checkpoint))

    def names(self):
        """For which checkpoints there is something, of their own and shared."""
        parts = [name.replace("/", "-").split("-")[:2] for name in self.storage.sizes() if not name.startswith("_")]
        return sorted({f"{kind} {number}" for kind, number in parts})


@pytest.fixture
def job():
    return Job(MemoryStorage())


def again(storage, **options):
    """What a driver finds that starts now."""
    store = CompletedCheckpointStore(storage)
    store.scan(**options)
    return store


def test_a_driver_that_starts_finds_the_newest(job):
    job.complete(1, a=1)
    job.complete(2, a=2)
    job.snapshot(3, a=3)  # never completed
    store = again(job.storage)
    assert store.latest() == job.manifest(2)
    assert [*store.complete] == [1, 2]
    assert store.next_id == 4


def test_in_an_empty_folder_there_is_none(tmp_path):
    assert again(LocalStorage(str(tmp_path / "nothing"))).latest() is None


@pytest.mark.parametrize("broken", ["manifest truncated", "manifest changed", "blob missing", "blob truncated"])
def test_a_broken_checkpoint_is_refused_and_the_one_before_it_used(job, broken):
    job.complete(1, a=1)
    job.complete(2, a=2)
    files = job.storage.files
    name = "chk-2/_metadata" if "manifest" in broken else next(n for n in files if n.startswith("shared/2-"))
    if "changed" in broken:
        files[name] = files[name].replace(b"Job", b"Jab")
    elif "missing" in broken:
        del files[name]
    else:
        files[name] = files[name][:-2]
    store = again(job.storage)
    assert store.latest() == job.manifest(1)
    assert name in store.rejected[2]
    assert store.next_id == 3


def test_a_changed_blob_is_found_if_one_looks_into_it(job):
    job.complete(1, a=1)
    (name,) = (name for name in job.storage.files if name.startswith("shared/"))
    job.storage.files[name] = job.storage.files[name][:-1] + b"!"
    assert again(job.storage).latest() is not None
    with pytest.raises(CheckpointCorrupted, match="none of the checkpoints .* checksum does not match"):
        again(job.storage, check_contents=True).latest()


def test_what_turns_out_to_be_broken_while_it_is_read_is_not_used_again(job):
    job.complete(1, a=1)
    job.complete(2, a=2)
    job.catalog.reject(2, "key group 4 is damaged")
    assert job.catalog.latest() == job.manifest(1)


def test_a_checkpoint_of_a_newer_version_is_not_passed_over(job):
    job.complete(1, a=1)
    name = "chk-1/_metadata"
    job.storage.files[name] = job.storage.files[name].replace(b'"version":1', b'"version":9')  # of both
    with pytest.raises(CheckpointIncompatible, match="format 9"):
        again(job.storage)


# ---- writing a manifest


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.TORN])
def test_a_manifest_that_could_not_be_written_is_not_there(fault):
    job = Job(MemoryStorage(faults=planned(("write", "_metadata", fault))))
    job.snapshot(1, a=1)
    with pytest.raises(StorageFailed, match="_metadata"):
        job.catalog.store(job.manifest(1))
    assert job.catalog.latest() is None and again(job.storage).latest() is None


def test_a_manifest_that_is_there_counts_whatever_was_said():
    job = Job(MemoryStorage(faults=planned(("write", "_metadata", Fault.UNSURE))))
    job.complete(1, a=1)
    assert again(job.storage).latest() == job.catalog.latest() == job.manifest(1)


def test_of_two_drivers_the_later_one_counts(job):
    job.catalog.claim()
    job.complete(1, a=1)
    again(job.storage).claim()
    with pytest.raises(StorageFailed, match="another driver has taken over"):
        job.complete(2, a=2)
    assert again(job.storage).latest() == job.manifest(1)


def test_a_driver_that_is_replaced_while_it_writes_a_manifest_does_not_count_it(job):
    """The other has claimed and looked before the manifest was there: it goes on from the one before."""
    job.complete(1, a=1)
    job.catalog.claim()
    other = again(job.storage)
    job.snapshot(2, a=2)

    def takes_over(operation, name):
        if operation == "write" and name == "chk-2/_metadata":
            job.storage.faults = lambda operation, name: None
            other.claim()
            other.scan()

    job.storage.faults = takes_over
    with pytest.raises(StorageFailed, match="another driver has taken over"):
        job.catalog.store(job.manifest(2))

    assert other.latest() == job.manifest(1)
    assert job.catalog.latest() == job.manifest(1)


def test_before_another_attempt_a_manifest_that_was_given_up_is_gone(job):
    """It was written, but the answer was lost, and then it could not be looked at."""
    job.snapshot(1, a=1)
    faults = planned(
        ("write", "_metadata", Fault.UNSURE), ("read", "_metadata", Fault.ERROR), ("delete", "", Fault.ERROR)
    )
    job.storage.faults = faults
    with pytest.raises(StorageFailed, match="unsure"):
        job.catalog.store(job.manifest(1))
    assert again(job.storage).latest() == job.manifest(1)

    assert not job.catalog.settle()
    assert job.catalog.settle()

    assert again(job.storage).latest() is None


def test_of_a_checkpoint_that_failed_the_manifest_goes_before_its_files(job):
    """It was written, but nobody could say whether the folder is still this driver's; then the driver dies."""
    job.catalog.claim()
    job.snapshot(1, a=1)
    written = planned(("read", "_epoch/1", Fault.ERROR), ("delete", "_metadata", Fault.ERROR))

    def refuses(operation, name):
        return written(operation, name) if "chk-1/_metadata" in job.storage.files else None

    job.storage.faults = refuses
    with pytest.raises(StorageFailed, match="refused, as planned"):
        job.catalog.store(job.manifest(1))

    job.catalog.discard([job.handles[1]])
    assert again(job.storage, check_contents=True).latest() == job.manifest(1), "all of it is there while it is"

    job.catalog.discard([job.handles[1]])
    assert again(job.storage).latest() is None
    assert not [name for name in job.storage.sizes() if name.startswith("chk-1")]


def test_a_driver_that_was_replaced_deletes_nothing(job):
    job.complete(1, a=1)
    job.catalog.claim()
    aborted = job.snapshot(2, a=2)
    again(job.storage).claim()
    names = job.names()

    job.catalog.sweep()
    job.catalog.prune(1)
    job.catalog.discard([aborted])

    assert job.names() == names
    assert again(job.storage, check_contents=True).latest() == job.manifest(1)


def test_a_folder_that_could_not_be_deleted_stays_once_its_checkpoint_is_complete(job):
    job.storage = job.catalog.storage = MemoryStorage(faults=planned(("delete", "chk-1/_metadata", Fault.ERROR)))
    job.storage.write("chk-1/00000014", b"of a driver that was replaced, which used the same number")
    job.catalog.sweep()
    assert "chk-1/00000014" in job.storage.sizes(), "that was refused"

    job.complete(1, a=1)
    job.complete(2, b=2)

    assert again(job.storage, check_contents=True).latest() == job.manifest(2)
    assert [*again(job.storage).complete] == [1, 2]
    job.catalog.prune(1)
    assert "chk-1/00000014" not in job.storage.sizes()


def test_a_refused_checkpoint_is_not_used_and_its_files_stay(job):
    job.complete(1, a=1)
    job.complete(2, b=2)
    names = job.names()

    job.catalog.reject(2, "chk-2 is damaged")
    job.catalog.sweep()

    assert job.catalog.latest() == job.manifest(1)
    assert job.names() == names
    job.catalog.reject(1, "nor is this")
    with pytest.raises(CheckpointCorrupted, match="chk-2 is damaged nor is this"):
        job.catalog.latest()


def test_a_refused_checkpoint_goes_when_all_that_are_kept_are_newer(job):
    job.complete(1, a=1)
    job.complete(2, b=2)
    job.storage.files["chk-2/_metadata"] = b"{}"
    job.catalog = again(job.storage)
    job.complete(3, c=3)
    assert 2 in again(job.storage).rejected

    job.catalog.prune(1)

    assert "chk 2" not in job.names()
    assert again(job.storage, check_contents=True).rejected == {}
    assert again(job.storage).latest() == job.manifest(3)


@pytest.mark.parametrize("found", ["when the driver starts", "while it is read"])
def test_with_the_last_usable_checkpoint_the_refused_ones_go_and_the_next_job_begins_anew(job, found):
    job.complete(1, a=1)
    job.complete(2, b=2)
    if found == "when the driver starts":
        job.storage.files["chk-2/_metadata"] = b""
        job.catalog = again(job.storage)
    else:
        job.catalog.reject(2, "key group 4 is damaged")

    job.catalog.prune(1)
    job.catalog.sweep()

    assert job.names() == []
    assert again(job.storage).latest() is None


def test_where_all_manifests_are_gone_no_job_begins_at_zero(job):
    job.complete(1, a=1)
    job.complete(2, b=2)
    for name in ("chk-1/_metadata", "chk-2/_metadata"):
        del job.storage.files[name]
    names = job.names()

    store = again(job.storage)
    with pytest.raises(CheckpointCorrupted, match=r"no manifest .* is left\. .* set execution.allow-fresh-start"):
        store.latest()
    store.sweep()

    assert job.names() == names


def test_a_folder_says_that_it_has_had_a_complete_checkpoint_until_the_last_is_deleted(job):
    job.snapshot(1, a=1)
    assert COMPLETED not in job.storage.sizes()
    job.complete(1, a=1)
    job.complete(2, b=2)
    job.catalog.prune(1)
    assert COMPLETED in job.storage.sizes()
    job.catalog.prune(2)
    assert COMPLETED not in job.storage.sizes()
    assert again(job.storage).latest() is None


def test_if_that_cannot_be_written_the_checkpoint_counts_nevertheless(job):
    job.storage.faults = planned(("write", COMPLETED, Fault.ERROR))
    job.complete(1, a=1)
    assert again(job.storage).latest() == job.manifest(1)
    job.complete(2, b=2)
    assert COMPLETED in job.storage.sizes()


def test_a_manifest_is_never_replaced(job):
    job.complete(1, a=1)
    job.snapshot(1, a=2)
    with pytest.raises(StorageFailed, match="another job wrote it"):
        CompletedCheckpointStore(job.storage).store(job.manifest(1))
    assert again(job.storage).latest() is not None


# ---- deleting


def test_what_newer_checkpoints_share_is_kept(job):
    job.complete(1, a=1)
    job.complete(2, b=2)
    job.catalog.prune(1)
    assert job.names() == ["chk 2", "shared 1", "shared 2"]
    assert again(job.storage, check_contents=True).latest() == job.manifest(2)


def test_what_is_merged_away_goes_with_the_last_that_names_it():
    job = Job(MemoryStorage())
    for checkpoint in range(1, 12):
        job.complete(checkpoint, a=checkpoint)
        if checkpoint > 2:
            job.catalog.prune(checkpoint - 2)
        assert again(job.storage, check_contents=True).rejected == {}
        named = set.union(*(set(job.manifest(number).files) for number in job.catalog.complete))
        assert {name for name in job.storage.sizes() if not name.endswith("_metadata")} == named | {COMPLETED}


def test_an_aborted_checkpoint_leaves_only_what_its_successor_may_name(job):
    job.complete(1, a=1)
    aborted = job.snapshot(2, b=2)
    job.catalog.discard([aborted])
    assert job.names() == ["chk 1", "shared 1", "shared 2"]
    job.complete(3, c=3)  # builds on the changes that were written for 2
    assert any(name.startswith("shared/2-") for name in job.manifest(3).files)
    assert again(job.storage, check_contents=True).latest() == job.manifest(3)


def test_what_a_failed_attempt_left_is_deleted_when_something_newer_is_complete(job):
    job.complete(1, a=1)
    job.catalog.discard([job.snapshot(2, b=2)])
    job.lineage = IncrementalSnapshots("count", 0, job.lineage.options)  # a new attempt, that was restored from 1
    job.lineage.parts, job.lineage._begun = job.handles[1].parts, 0
    job.complete(3, c=3)
    assert job.names() == ["chk 1", "chk 3", "shared 1", "shared 3"]


def test_a_late_ack_of_a_complete_checkpoint_takes_nothing_away(job):
    job.complete(1, a=1)
    job.catalog.discard([job.handles[1]])
    assert again(job.storage, check_contents=True).latest() == job.manifest(1)


def test_what_acknowledgements_at_hand_name_is_kept(job):
    job.complete(1, a=1)
    acked = job.snapshot(2, b=2)
    job.catalog.pinned = lambda: [acked]
    job.catalog.discard([acked])
    job.catalog.prune(1)
    job.catalog.store(job.manifest(2))
    assert again(job.storage, check_contents=True).latest() == job.manifest(2)


def test_between_attempts_everything_goes_that_nobody_names(job):
    job.complete(3, a=1)
    for name in ("chk-1/left", "shared/2-left", "shared/9-left", "chk-5/under-way", "strange"):
        job.storage.write(name, b"x")
    job.catalog.sweep()
    assert {name for name in job.storage.sizes() if name not in job.manifest(3).files} == {
        COMPLETED,
        "chk-3/_metadata",
        "chk-5/under-way",
        "strange",
    }


def test_what_a_failed_checkpoint_left_goes_with_those_that_are_older_than_the_kept(job):
    job.complete(1, a=1)
    for number in (2, 3, 5):  # written, and never acknowledged
        job.storage.write(f"chk-{number}/left", b"x")
    job.complete(4, b=2)
    assert job.storage.sizes().keys() >= {"chk-2/left", "chk-3/left"}

    job.catalog.prune(1)

    assert [name for name in job.storage.sizes() if name.endswith("left")] == ["chk-5/left"]
    assert again(job.storage, check_contents=True).latest() == job.manifest(4)


def test_at_the_end_of_a_job_nothing_stays(job):
    job.complete(1, a=1)
    for name in ("chk-2/left", "chk-7/left", "shared/7-left"):
        job.storage.write(name, b"x")
    job.catalog.prune(1)
    job.catalog.sweep()
    assert not job.storage.sizes()


def test_between_attempts_what_killed_processes_were_writing_is_deleted(tmp_path):
    job = Job(LocalStorage(str(tmp_path)))
    job.complete(1, a=1)
    left = tmp_path / "shared" / ".writing-0815"
    left.touch()
    job.catalog.sweep()
    assert not left.exists()
    assert again(job.storage, check_contents=True).latest() == job.manifest(1)


def test_what_could_not_be_deleted_is_tried_again():
    job = Job(
        MemoryStorage(faults=planned(("delete", "chk-1/_metadata", Fault.ERROR), ("delete", "shared/1", Fault.ERROR)))
    )
    job.complete(1, a=1)
    job.lineage = IncrementalSnapshots("count", 0, job.lineage.options)
    job.complete(2, a=2)
    job.catalog.prune(1)
    assert job.names() == ["chk 2", "shared 1", "shared 2"]  # the folder went at the second try
    job.complete(3, a=3)
    assert job.names() == ["chk 2", "chk 3", "shared 2", "shared 3"]


# ---- by path


def test_a_savepoint_can_be_moved(tmp_path):
    job = Job(LocalStorage(str(tmp_path / "job")))
    job.snapshot(1, LocalStorage(str(tmp_path / "savepoint-1")), a=1)
    LocalStorage(str(tmp_path / "savepoint-1")).write("_metadata", job.manifest(1, SnapshotKind.SAVEPOINT).to_bytes())
    (tmp_path / "savepoint-1").rename(tmp_path / "elsewhere")
    for path in ("elsewhere", "elsewhere/", "elsewhere/_metadata"):
        found = open_checkpoint(f"{tmp_path}/{path}", check_contents=True)
        assert found.manifest == job.manifest(1, SnapshotKind.SAVEPOINT)
        assert found.root.uri == f"{tmp_path}/elsewhere"


def test_a_checkpoint_is_opened_with_the_folder_of_its_job(tmp_path):
    job = Job(LocalStorage(str(tmp_path / "job")))
    job.complete(1, a=1)
    found = open_checkpoint(f"file://{tmp_path}/job/chk-1", check_contents=True)
    assert (found.manifest, found.root.uri) == (job.manifest(1), f"{tmp_path}/job")


def test_a_wrong_path_says_what_is_there(tmp_path):
    job = Job(LocalStorage(str(tmp_path / "job")))
    job.complete(1, a=1)
    with pytest.raises(CheckpointNotFound, match=r"job is no savepoint or checkpoint: .* It has these: chk-1\. Pass"):
        open_checkpoint(str(tmp_path / "job"))
    with pytest.raises(CheckpointNotFound, match="no savepoint or checkpoint"):
        open_checkpoint(str(tmp_path / "nowhere"))


def test_a_savepoint_that_lacks_a_file_is_refused(tmp_path):
    job = Job(LocalStorage(str(tmp_path / "job")))
    job.complete(1, a=1)
    next((tmp_path / "job" / "shared").iterdir()).unlink()
    with pytest.raises(CheckpointCorrupted, match="is missing"):
        open_checkpoint(str(tmp_path / "job" / "chk-1"))


def test_what_is_copied_into_a_savepoint_is_what_was_written(job):
    handle, savepoint = job.snapshot(1, a=1), MemoryStorage("savepoint")
    copy = copied(handle, job.storage, savepoint)
    assert {blob.name for blob in copy.blobs} == set(savepoint.files)

    name = handle.parts[0].name
    job.storage.files[name] = bytes([job.storage.files[name][0] ^ 1]) + job.storage.files[name][1:]
    with pytest.raises(CheckpointCorrupted, match="its checksum does not match"):
        copied(handle, job.storage, savepoint)


# ---- files that somebody removes while the job runs


def remove(job, prefix=""):
    """Remove files of the folder, as somebody would by hand; return them."""
    gone = {name: job.storage.files[name] for name in list(job.storage.files) if name.startswith(prefix)}
    for name in gone:
        del job.storage.files[name]
    return gone


def owner(job):
    job.catalog.claim(Term())
    return job


def test_a_folder_that_is_removed_is_made_again_and_nobody_has_taken_over(job, caplog):
    owner(job).complete(1, a=1)
    remove(job)

    job.catalog.check_owner()
    assert "was removed while the job runs. The folder is made again" in caplog.text
    assert {"_epoch/1", "_epoch/1-found", COMPLETED} <= job.storage.files.keys()
    with pytest.raises(CheckpointCorrupted, match="there were complete checkpoints"):
        again(job.storage).latest()


@pytest.mark.parametrize(("look", "gone"), [("check_owner", ""), ("refresh", ""), ("refresh", "chk-")])
def test_a_folder_that_is_removed_while_a_checkpoint_is_noted_is_known_to_have_had_one(job, look, gone):
    owner(job).snapshot(1, a=1)
    job.storage.faults = planned(("write", COMPLETED, Fault.ERROR))
    job.catalog.store(job.manifest(1))
    remove(job, gone)

    getattr(job.catalog, look)()

    assert COMPLETED in job.storage.files
    with pytest.raises(CheckpointCorrupted, match="there were complete checkpoints"):
        again(job.storage).latest()


def test_a_folder_that_another_driver_has_begun_in_after_it_was_removed_is_that_drivers(job):
    owner(owner(job)).complete(1, a=1)
    remove(job)
    other = Job(job.storage)
    other.catalog.claim(Term())

    with pytest.raises(LeadershipLost):
        job.catalog.check_owner()
    other.catalog.check_owner()


def test_a_driver_that_makes_its_folder_again_ends_the_one_that_begins_there_now(job):
    owner(owner(job)).complete(1, a=1)
    remove(job)
    other = CompletedCheckpointStore(job.storage)
    real = job.storage.write

    def write(name, data, new=False):
        job.storage.write = real
        job.catalog.check_owner()  # just before the other one writes
        return real(name, data, new)

    job.storage.write = write
    with pytest.raises(LeadershipLost):
        other.claim(Term())
    job.catalog.check_owner()


def test_a_checkpoint_that_names_what_is_gone_does_not_complete_and_the_next_is_whole(job):
    owner(job).complete(1, a=1, b=1)
    remove(job, "shared/1-")
    job.snapshot(2, a=2)
    with pytest.raises(CheckpointLost, match="shared/1-.* which checkpoint 2 names, was removed"):
        job.catalog.store(job.manifest(2))
    assert job.catalog.rewrite

    job.lineage.begin_anew()
    assert job.lineage.wants_complete
    job.complete(3, a=2, b=1)
    assert not job.catalog.rewrite
    assert again(job.storage, check_contents=True).latest().checkpoint == 3


def test_between_two_attempts_what_is_not_whole_is_dropped_and_taken_back_when_it_is(job):
    owner(job).complete(1, a=1)
    job.complete(2, a=2)
    gone = remove(job, "chk-2/")
    assert job.catalog.refresh() == [2]
    assert job.catalog.latest().checkpoint == 1
    assert job.catalog.refresh() == []

    gone |= remove(job)
    assert job.catalog.refresh() == [1]
    with pytest.raises(CheckpointCorrupted, match="was removed while the job ran.* execution.allow-fresh-start"):
        job.catalog.latest()
    assert job.catalog.latest(allow_fresh=True) is None
    job.catalog.sweep()

    job.storage.files.update(gone)
    assert job.catalog.refresh() == []
    assert job.catalog.latest().checkpoint == 2


@pytest.mark.parametrize("content", [None, b"", b"{", b"other"])
def test_a_manifest_that_is_changed_while_the_job_runs_is_written_again(job, content):
    owner(job).complete(1, a=1)
    name = "chk-1/_metadata"
    was = job.storage.files.pop(name)
    if content is not None:
        job.storage.files[name] = content

    assert job.catalog.refresh() == []
    assert job.storage.files[name] == was


def test_a_manifest_of_another_job_is_refused(job):
    job.complete(1, a=1)
    store = CompletedCheckpointStore(job.storage, job_id="mine")
    store.scan()

    assert "it is of checkpoint 1 of job 'job'" in store.rejected[1]
    store = CompletedCheckpointStore(job.storage, job_id="job")
    store.scan()
    assert store.latest().checkpoint == 1


def test_a_local_folder_shows_links_to_nothing_and_empty_folders(tmp_path):
    storage = LocalStorage(str(tmp_path))
    storage.write("chk-1/_metadata", b"x")
    (tmp_path / "chk-2").mkdir()
    (tmp_path / "chk-3").symlink_to("nowhere")
    (tmp_path / "chk-1").rename(tmp_path / "moved")
    (tmp_path / "chk-4").symlink_to("moved")

    assert storage.sizes() == {"moved/_metadata": 1, "chk-4/_metadata": 1, "chk-2/": 0, "chk-3": DANGLING}
    storage.delete("chk-4")
    assert storage.sizes("moved") == {"moved/_metadata": 1}
