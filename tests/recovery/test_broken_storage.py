"""Disks that are full, folders that cannot be written, checkpoints that rot: a clear error, and a good checkpoint is left."""

import errno
import logging
import os
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from funken import (
    DataGeneratorSource,
    KeyedProcessFunction,
    MapFunction,
    MapStateDescriptor,
    WatermarkStrategy,
)
from funken.checkpoint.store.completed import CompletedCheckpointStore, Manifest
from funken.errors import CheckpointCorrupted, CheckpointError, JobExecutionError, StateError
from funken.io.storage import LocalStorage
from tests.recovery.test_recovery import Count
from tests.support.files import file_sink, written

COUNT = 6_000
EXPECTED = Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))


class Breaks(MapFunction):
    """Raises once a folder has two checkpoints above a number, if a folder is named."""

    def __init__(self, folder, above):
        self.folder = folder
        self.above = above

    def map(self, value):
        if self.folder and value % 50 == 0:
            complete = [int(path.parent.name[4:]) for path in Path(self.folder).glob("job/chk-*/_metadata")]
            if sum(number > self.above for number in complete) > 1:
                raise RuntimeError("as planned")
        return value


def program(environment, folder, rate=None, breaks=False, count=Count, above=0, **options):
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
        numbers.map(Breaks(breaks and str(folder / "checkpoints"), above))
        .key_by(lambda n: n % 10)
        .process(count())
        .uid("count")
    )
    counts.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(file_sink(folder)).uid("files")
    return env


def kept(folder):
    """The complete checkpoints that a driver finds."""
    catalog = CompletedCheckpointStore(LocalStorage(str(folder / "checkpoints" / "job")))
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


def crashed(environment, folder, above=0, **options):
    """Leave a job that has failed, with two checkpoints, or three if one more was complete just then."""
    with pytest.raises(JobExecutionError, match="as planned"):
        program(environment, folder, 1_500, breaks=True, above=above, **options).execute()
    complete = sorted(number for number in kept(folder) if number > above)
    assert len(complete) in (2, 3)
    return complete


@pytest.mark.ways("local")
def test_a_rotten_checkpoint_is_refused_and_the_one_before_it_used(mode, environment, folder, caplog):
    newest = crashed(environment, folder)[-1]
    rot(folder, newest)

    with caplog.at_level(logging.WARNING):
        program(environment, folder).execute()

    assert re.search(rf"checkpoint {newest} is refused, checkpoint \d+, before it, is used", caplog.text)
    assert "is damaged" in caplog.text
    lines = written(folder)
    assert lines.keys() == EXPECTED.keys(), "nothing is lost"
    assert set(lines.values()) <= {1, 2}, "only what was committed between the two checkpoints comes twice"


@pytest.mark.ways("local")
def test_if_all_are_rotten_the_job_fails_and_they_stay(mode, environment, folder):
    for checkpoint in crashed(environment, folder):
        rot(folder, checkpoint)
    files = {path for path in (folder / "checkpoints").rglob("*") if path.is_file() and path.parent.name != "_epoch"}

    with pytest.raises(
        CheckpointCorrupted, match=r"none of the checkpoints .* can be used: .*begin anew without the state"
    ):
        program(environment, folder).execute()

    assert {path for path in (folder / "checkpoints").rglob("*") if path.is_file()} >= files


def truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def flip_version(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"version":1', b'"version":9', 1))
    assert path.read_bytes() != content


def flip_key_of_version(path):
    path.write_bytes(path.read_bytes().replace(b'"version":', b'"verskon":'))


def link_to_nothing(path):
    path.unlink()
    path.symlink_to("nowhere")


def folder_to_nothing(path):
    shutil.rmtree(path.parent)
    path.parent.symlink_to("nowhere")


def change(path, **changes):
    manifest = Manifest.from_bytes(path.read_bytes(), str(path))
    path.write_bytes(replace(manifest, **changes).to_bytes())


DAMAGES = {
    "manifest a link to nothing": ("_metadata", link_to_nothing),
    "folder a link to nothing": ("_metadata", folder_to_nothing),
    "folder deleted": ("_metadata", lambda path: shutil.rmtree(path.parent)),
    "manifest of another job": ("_metadata", lambda path: change(path, job_id="other")),
    "manifest of another checkpoint": ("_metadata", lambda path: change(path, checkpoint=1_000)),
    "manifest truncated": ("_metadata", truncate),
    "manifest empty": ("_metadata", lambda path: path.write_bytes(b"")),
    "manifest deleted": ("_metadata", Path.unlink),
    "manifest flipped": ("_metadata", lambda path: path.write_bytes(path.read_bytes().replace(b"numbers", b"numbess"))),
    "version flipped": ("_metadata", flip_version),
    "version unreadable": ("_metadata", flip_key_of_version),
    "part deleted": ("", Path.unlink),
    "part truncated": ("", truncate),
    "part flipped": ("", lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!")),
}


def damage(folder, checkpoint, kind):
    """Break a checkpoint: its manifest, or a file that no other checkpoint names."""
    manifests = kept(folder)
    name, change = DAMAGES[kind]
    if name:
        paths = [f"chk-{checkpoint}/{name}"]
    else:
        others = set().union(*(manifest.files for number, manifest in manifests.items() if number != checkpoint))
        paths = sorted(manifests[checkpoint].files - others)
    assert paths
    for path in paths:
        change(folder / "checkpoints" / "job" / path)


def left(folder):
    """Names in the job's folder, but for the claim of its driver."""
    base = folder / "checkpoints" / "job"
    return sorted(
        str(path.relative_to(base)) for path in base.rglob("*") if path.is_file() and path.parent.name != "_epoch"
    )


@pytest.mark.ways("local")
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_job_id_can_be_used_again_after_a_job_that_began_from_an_older_checkpoint_has_ended(
    mode, environment, folder, kind
):
    newest = crashed(environment, folder)[-1]
    damage(folder, newest, kind)

    program(environment, folder).execute()

    assert written(folder).keys() == EXPECTED.keys()
    assert left(folder) == []
    program(environment, folder).execute()


@pytest.mark.ways("local")
@pytest.mark.parametrize("kind", DAMAGES)
def test_what_a_job_completes_after_it_began_from_an_older_checkpoint_is_found(mode, environment, folder, kind):
    newest = crashed(environment, folder)[-1]
    damage(folder, newest, kind)
    later = crashed(environment, folder, above=newest)
    assert newest not in kept(folder)

    found = CompletedCheckpointStore(LocalStorage(str(folder / "checkpoints" / "job")))
    found.scan()
    assert found.latest().checkpoint == later[-1]
    program(environment, folder).execute()

    lines = written(folder)
    assert lines.keys() == EXPECTED.keys() and set(lines.values()) <= {1, 2}
    assert left(folder) == []


@pytest.mark.ways("local")
@pytest.mark.parametrize("kind", DAMAGES)
def test_if_all_checkpoints_are_damaged_no_job_begins_at_zero(mode, environment, folder, kind):
    complete = crashed(environment, folder)
    for checkpoint in complete:
        damage(folder, checkpoint, kind)
    files = left(folder)

    with pytest.raises((CheckpointError, JobExecutionError), match="begin anew without the state") as raised:
        program(environment, folder).execute()

    assert str(folder / "checkpoints" / "job") in str(raised.value)
    assert set(left(folder)) >= set(files)
    assert set(written(folder).values()) <= {1}, "only what the checkpoints had prepared was committed"


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

    with pytest.raises(JobExecutionError, match="cannot be restored: .*savepoint.* is damaged"):
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
