"""Whole jobs on disks that fill up: where state is, and where checkpoints go."""

import os
import threading
from collections import Counter

import pytest

from funken import DataGeneratorSource, KeyedProcessFunction, ValueStateDescriptor, WatermarkStrategy
from funken.checkpoint.store.completed import CompletedCheckpointStore
from funken.errors import DiskFull, JobExecutionError, StorageFailed
from funken.io.storage import LocalStorage
from funken.timing.clock import came
from tests.support.disks import fill, remount, small_disk
from tests.support.files import file_sink, written

COUNT = 20_000


class Keep(KeyedProcessFunction):
    """Counts the records of a key, and keeps 1000 bytes that nobody can make smaller."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        self.kept.update(os.urandom(1000))
        yield f"{ctx.get_current_key()} {self.count.value()}"


EXPECTED = Counter(f"{key} {n}" for key in range(COUNT // 2) for n in (1, 2))


def program(environment, folder, work, count=COUNT, **options):
    env = environment(
        {
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.data-inline-threshold": 0,
            "execution.job-id": "job",
            "restart-strategy.type": "none",
        }
        | options
    )
    numbers = env.from_source(
        DataGeneratorSource(lambda i: i, count, 20_000), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    numbers.key_by(lambda n: n % (COUNT // 2)).process(work()).name("keep").uid("keep").sink_to(file_sink(folder)).uid(
        "f"
    )
    return env


def kept(folder):
    """The complete checkpoints that a driver finds, all of whose files are what was written."""
    catalog = CompletedCheckpointStore(LocalStorage(str(folder / "checkpoints" / "job")))
    catalog.scan(check_contents=True)
    assert not catalog.rejected
    return sorted(catalog.complete)


def in_rocksdb(disk, **more):
    return {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(disk),
        "state.backend.rocksdb.memory.fixed-per-slot": "8m",
        "state.backend.rocksdb.min-free-space": "8m",
    } | more


@pytest.mark.ways("local")
def test_a_job_whose_state_fills_the_disk_fails_with_the_reason_and_goes_on_elsewhere(mode, environment, folder):
    pytest.importorskip("rocksdict")
    with small_disk(folder / "disk", "24m") as disk:
        with pytest.raises(JobExecutionError) as raised:
            program(environment, folder, Keep, **in_rocksdb(disk)).execute()
        assert [path for path in disk.rglob("*") if path.is_file()] == [], "its files are gone"
    assert isinstance(raised.value.__cause__, DiskFull)
    said = str(raised.value)
    assert "operator 'keep'" in said and f"RocksDB cannot write to {disk}" in said
    assert "MiB are free, 8.0 MiB must stay free (state.backend.rocksdb.min-free-space)" in said
    assert kept(folder), "the last checkpoint is there"

    program(environment, folder, Keep, **in_rocksdb(folder / "elsewhere")).execute()

    assert written(folder) == EXPECTED


class Watch:
    """Counts the checkpoints that are stored, and the writes that fail; ``wait`` until there are so many more."""

    def __init__(self, monkeypatch):
        self.stored, self.failed = 0, 0
        self._changed = threading.Condition()
        store, write = CompletedCheckpointStore.store, LocalStorage.write

        def stored(catalog, manifest):
            store(catalog, manifest)
            self._count(stored=1)

        def written(storage, *arguments, **more):
            try:
                return write(storage, *arguments, **more)
            except StorageFailed:
                self._count(failed=1)
                raise

        monkeypatch.setattr(CompletedCheckpointStore, "store", stored)
        monkeypatch.setattr(LocalStorage, "write", written)

    def _count(self, stored=0, failed=0):
        with self._changed:
            self.stored += stored
            self.failed += failed
            self._changed.notify_all()

    def wait_for_a_failure(self):
        """Wait for the first one, which there may be already: until the job is over it, there is no other."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.failed >= 1, 60)

    def wait(self, stored=0, failed=0):
        with self._changed:
            stored, failed = self.stored + stored, self.failed + failed
            assert self._changed.wait_for(lambda: self.stored >= stored and self.failed >= failed, 60)


@pytest.mark.ways("local")
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_while_the_disk_of_the_checkpoints_is_full_they_fail_and_the_job_goes_on(
    mode, environment, folder, monkeypatch, backend
):
    options = {
        "execution.checkpointing.tolerable-failed-checkpoints": 10_000,
        "execution.checkpointing.externalized-checkpoint-retention": "NO_EXTERNALIZED_CHECKPOINTS",
    }
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
        options |= in_rocksdb(folder / "state")
    with small_disk(folder / "checkpoints", "200m") as disk:
        watch = Watch(monkeypatch)
        client = program(environment, folder, Keep, count=None, **options).execute_async()
        watch.wait(stored=2)
        filler = fill(disk)
        watch.wait(failed=10)
        at_most = watch.stored + 1  # one may have been under way
        watch.wait(failed=10)
        assert watch.stored <= at_most
        filler.unlink()
        watch.wait(stored=4)
        assert client.get_job_status().result(10).name == "RUNNING"
        assert len(list(disk.glob("job/chk-*"))) < 10, "failed ones leave no folder"
        client.cancel().result(60)
        # All is gone, unless a commit was under way: then the newest checkpoint stays.
        job = disk / "job"
        catalog = CompletedCheckpointStore(LocalStorage(str(job)))
        catalog.scan(check_contents=True)
        named = {job / name for manifest in catalog.complete.values() for name in manifest.files}
        named |= {*job.glob("_epoch/*"), job / "_completed", *job.glob("chk-*/_metadata")}
        assert not catalog.rejected
        assert {path for path in job.rglob("*") if path.is_file()} <= named, "nothing half-written stays"
        assert {path for path in job.iterdir() if path.is_dir()} == {path.parent for path in named} - {job}
    assert set(written(folder).values()) == {1}
    last = Counter()
    for key, n in (map(int, line.split()) for line in written(folder)):
        last[key] = max(last[key], n)
    assert sum(last.values()) == len(written(folder)), "of each key all counts up to the last, each once"


@pytest.mark.ways("local")
def test_too_many_failed_checkpoints_fail_the_job_and_leave_the_last_one(mode, environment, folder, monkeypatch):
    with small_disk(folder / "checkpoints", "100m") as disk:
        watch = Watch(monkeypatch)
        options = {"execution.checkpointing.tolerable-failed-checkpoints": 3}
        client = program(environment, folder, Keep, count=None, **options).execute_async()
        watch.wait(stored=2)
        filler = fill(disk)
        with pytest.raises(
            JobExecutionError, match=r"checkpoint \d+ failed, 4 in a row: .*the disk is full\. Free some"
        ):
            client.get_job_execution_result().result(60)
        filler.unlink()
        assert not list(disk.rglob(".writing-*"))
        assert kept(folder)
    assert set(written(folder).values()) == {1}


@pytest.mark.ways("local")
def test_a_job_goes_on_when_the_disk_of_the_checkpoints_was_read_only_for_a_while(
    mode, environment, folder, monkeypatch
):
    with small_disk(folder / "checkpoints", "200m") as disk:
        watch = Watch(monkeypatch)
        options = {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "0 ms",
            "restart-strategy.fixed-delay.attempts": 10_000,
            "execution.checkpointing.data-inline-threshold": 2**30,  # so that the manifest is all that is written
        }
        client = program(environment, folder, Keep, count=None, **options).execute_async()
        watch.wait(stored=2)
        remount(disk, "ro")
        watch.wait_for_a_failure()
        assert client.get_job_status().result(10).name == "RUNNING"
        came(threading.Event(), 1.5)  # longer than any number of tries at once takes
        remount(disk, "rw")
        watch.wait(stored=4)
        assert client.get_job_status().result(10).name == "RUNNING"
        client.cancel().result(60)
    assert set(written(folder).values()) == {1}
