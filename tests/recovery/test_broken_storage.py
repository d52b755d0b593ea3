"""Disks that are full, folders that cannot be written, checkpoints that rot: a clear error, and a good checkpoint is left."""

import errno
import logging
import os
from collections import Counter
from pathlib import Path

import pytest

from funken import (
    DataGeneratorSource,
    KeyedProcessFunction,
    MapFunction,
    MapStateDescriptor,
    WatermarkStrategy,
)
from funken.checkpoint.catalog import Catalog
from funken.checkpoint.storage import LocalStorage
from funken.errors import CheckpointCorrupted, CheckpointError, JobExecutionError, StateError
from tests.recovery.test_recovery import Count
from tests.support.files import file_sink, written

COUNT = 6_000
EXPECTED = Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))


class Breaks(MapFunction):
    """Raises once a folder has two checkpoints, if one is named."""

    def __init__(self, folder):
        self.folder = folder

    def map(self, value):
        if self.folder and value % 100 == 0 and len([*Path(self.folder).glob("job/chk-*/_metadata")]) > 1:
            raise RuntimeError("as planned")
        return value


def program(environment, folder, rate=None, breaks=False, count=Count, **options):
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
        DataGeneratorSource(lambda i: i, COUNT, rate), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    counts = (
        numbers.map(Breaks(breaks and str(folder / "checkpoints")))
        .key_by(lambda n: n % 10)
        .process(count())
        .uid("count")
    )
    counts.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(file_sink(folder)).uid("files")
    return env


def kept(folder):
    """The complete checkpoints that a driver finds."""
    catalog = Catalog(LocalStorage(str(folder / "checkpoints" / "job")))
    catalog.scan(check_contents=True)
    return catalog.complete


@pytest.mark.ways("local")
@pytest.mark.parametrize(
    ("number", "says"), [(errno.ENOSPC, "the disk is full. Free some space"), (errno.EROFS, "Read-only file system")]
)
def test_a_disk_that_fills_up_fails_the_job_and_leaves_the_last_checkpoint(
    mode, environment, folder, monkeypatch, number, says
):
    real = os.fsync

    def fsync(handle):
        if "checkpoints/job/" in os.readlink(f"/proc/self/fd/{handle}") and kept(folder):
            raise OSError(number, os.strerror(number))
        real(handle)

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", fsync)
        with pytest.raises(JobExecutionError, match=says) as raised:
            program(environment, folder, 3_000).execute()
    assert str(folder / "checkpoints") in str(raised.value)
    assert kept(folder)

    program(environment, folder).execute()

    assert written(folder) == EXPECTED


@pytest.mark.ways("local")
@pytest.mark.parametrize("place", ["file/checkpoints", "/proc/checkpoints"])
def test_a_place_that_cannot_be_written_is_an_error_before_anything_runs(mode, environment, folder, place):
    (folder / "file").touch()
    where = str(folder / place)

    with pytest.raises(CheckpointError, match="cannot (write|list) .*set execution.checkpointing.dir"):
        program(environment, folder, **{"execution.checkpointing.dir": where}).execute()

    assert not written(folder)


# ---- a checkpoint that cannot be read


def rot(folder, checkpoint):
    """Change a byte in every file that only this checkpoint names; sizes stay."""
    others = set().union(*(manifest.files for number, manifest in kept(folder).items() if number != checkpoint))
    names = kept(folder)[checkpoint].files - others
    assert names
    for name in names:
        path = folder / "checkpoints" / "job" / name
        content = bytearray(path.read_bytes())
        content[-1] ^= 0xFF
        path.write_bytes(content)


def crashed(environment, folder):
    """Leave a job that has failed, with two checkpoints, or three if one more was complete just then."""
    with pytest.raises(JobExecutionError, match="as planned"):
        program(environment, folder, 3_000, breaks=True).execute()
    assert len(kept(folder)) in (2, 3)
    return sorted(kept(folder))


@pytest.mark.ways("local")
def test_a_rotten_checkpoint_is_refused_and_the_one_before_it_used(mode, environment, folder, caplog):
    newest = crashed(environment, folder)[-1]
    rot(folder, newest)

    with caplog.at_level(logging.WARNING):
        program(environment, folder).execute()

    assert f"checkpoint {newest} is refused, the one before it is used" in caplog.text
    assert "is not what was written" in caplog.text
    lines = written(folder)
    assert lines.keys() == EXPECTED.keys(), "nothing is lost"
    assert set(lines.values()) <= {1, 2}, "only what was committed between the two checkpoints comes twice"


@pytest.mark.ways("local")
def test_if_all_are_rotten_the_job_fails_and_they_stay(mode, environment, folder):
    for checkpoint in crashed(environment, folder):
        rot(folder, checkpoint)
    files = {path for path in (folder / "checkpoints").rglob("*") if path.is_file()}

    with pytest.raises(CheckpointCorrupted, match=r"none of the checkpoints .* can be used: .*begin anew, remove"):
        program(environment, folder).execute()

    assert {path for path in (folder / "checkpoints").rglob("*") if path.is_file()} >= files


@pytest.mark.ways("local")
def test_a_rotten_savepoint_fails_the_job_with_its_reason(mode, environment, folder):
    client = program(environment, folder, 3_000).execute_async()
    path = Path(client.trigger_savepoint(str(folder / "savepoints")).result(60))
    client.cancel().result(60)
    for file in path.iterdir():
        if file.name != "_metadata":
            content = bytearray(file.read_bytes())
            content[-1] ^= 0xFF
            file.write_bytes(content)

    with pytest.raises(JobExecutionError, match="cannot be restored: .*savepoint.* is not what was written"):
        program(
            environment, folder, **{"execution.job-id": "other", "execution.state-recovery.path": str(path)}
        ).execute()


class CountInMap(KeyedProcessFunction):
    """The same name of state as ``Count``, of another kind."""

    def open(self, runtime_context):
        self.count = runtime_context.get_map_state(MapStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.put("n", (self.count.get("n") or 0) + 1)
        yield ctx.get_current_key(), self.count.get("n")


@pytest.mark.ways("local")
def test_state_of_another_kind_is_refused_and_the_checkpoint_stays(mode, environment, folder):
    crashed(environment, folder)

    with pytest.raises((JobExecutionError, StateError), match="'count'.*(value|map)"):
        program(environment, folder, count=CountInMap).execute()

    assert kept(folder)
    program(environment, folder).execute()
    assert written(folder) == EXPECTED
