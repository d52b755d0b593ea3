"""Somebody removes or changes the checkpoints of a job: while it runs, just before a restart, before its next start.

A function of the program does the damage once a checkpoint is complete. Nothing is lost that is still in memory or storage: the
job goes on, and its next checkpoint is whole. Where the state is gone, every text says so, names no path that does not exist,
and no start begins at zero without a word.
"""

import json
import logging
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from funken import MapFunction
from funken.checkpoint.store.completed import CompletedCheckpointStore, Manifest
from funken.errors import CheckpointCorrupted, CheckpointError, FunkenError, JobExecutionError
from funken.io.storage import LocalStorage
from tests.recovery import test_broken_storage
from tests.recovery.test_broken_storage import EXPECTED, kept, program
from tests.support.files import written

pytestmark = pytest.mark.ways("local")


class Damages(MapFunction):
    """Does something to the job's folder once a checkpoint is complete; fails once, then or when a newer one is complete.

    It keeps what it has done in files, since each attempt has a function of its own.
    """

    def __init__(self, folder, damage, fails):
        self.folder, self.damage, self.fails = folder, damage, fails

    def map(self, value):
        if self.damage is not None and value % 20 == 0:
            self.look()
        return value

    def look(self):
        job, done, failed = (self.folder / name for name in ("checkpoints/job", "done", "failed"))
        complete = [int(path.parent.name[4:]) for path in job.glob("chk-*/_metadata")]
        if not done.exists() and complete:
            done.write_text(str(max(complete)))
            self.damage(job, max(complete))
            complete = []
        if not done.exists() or failed.exists() or self.fails is None:
            return
        newer = any(number > int(done.read_text()) for number in complete)
        if self.fails == "at once" or newer:
            failed.touch()
            raise RuntimeError("as planned")


@pytest.fixture
def run(mode, environment, folder, monkeypatch):
    """Run a job whose checkpoints are damaged; ``fails``: ``at once``, ``later`` (after another checkpoint), or not at all."""

    def run(damage=None, fails=None, attempts=1000, **options):
        monkeypatch.setattr(test_broken_storage, "Breaks", lambda *_: Damages(folder, damage, fails))
        restarts = {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": attempts,
            "restart-strategy.fixed-delay.delay": 0,
        }
        rate = 3_000 if damage else None
        return program(environment, folder, rate, **restarts | options).execute()

    return run


def remove(path):
    """Remove a folder at once, whatever is written into it meanwhile."""
    gone = Path(tempfile.mkdtemp())
    path.rename(gone / "gone")
    shutil.rmtree(gone, ignore_errors=True)


def other_job(job, number):
    path = job / f"chk-{number}" / "_metadata"
    path.write_bytes(replace(Manifest.from_bytes(path.read_bytes(), ""), job_id="other").to_bytes())


def dangling(job, number):
    remove(job / f"chk-{number}")
    (job / f"chk-{number}").symlink_to("nowhere")


def moved(job, number):
    """Put a checkpoint on another disk: a link to it stays."""
    shutil.copytree(job / f"chk-{number}", job.parent / "elsewhere")
    remove(job / f"chk-{number}")
    (job / f"chk-{number}").symlink_to(job.parent / "elsewhere")


HARMLESS = {
    "manifest removed": lambda job, number: (job / f"chk-{number}" / "_metadata").unlink(missing_ok=True),
    "manifest truncated": lambda job, number: (job / f"chk-{number}" / "_metadata").write_bytes(b"{"),
    "manifest of another job": other_job,
    "epochs removed": lambda job, number: remove(job / "_epoch"),
    "mark removed": lambda job, number: (job / "_completed").unlink(missing_ok=True),
    "checkpoint moved": moved,
}
HARMFUL = {
    "everything removed": lambda job, number: remove(job.parent),
    "folder of the job removed": lambda job, number: remove(job),
    "checkpoint removed": lambda job, number: remove(job / f"chk-{number}"),
    "checkpoint a link to nothing": dangling,
    "shared files removed": lambda job, number: remove(job / "shared"),
}
REPLACED_WORDS = "another driver"


@pytest.mark.parametrize("damage", HARMLESS | HARMFUL)
def test_a_job_whose_checkpoints_are_damaged_goes_on_and_restarts_from_the_next(run, folder, caplog, damage):
    run((HARMLESS | HARMFUL)[damage], "later")

    assert written(folder) == EXPECTED, "nothing is lost, and nothing comes twice"
    assert (folder / "failed").exists()
    assert REPLACED_WORDS not in caplog.text.replace("No other driver", "")
    if "removed" in damage and damage.startswith(("every", "folder", "epochs")):
        assert "was removed while the job runs. The folder is made again" in caplog.text


@pytest.mark.parametrize("damage", HARMLESS)
def test_damage_that_the_driver_can_mend_costs_nothing_at_a_restart(run, folder, damage):
    run(HARMLESS[damage], "at once")

    assert written(folder) == EXPECTED


@pytest.mark.parametrize("damage", HARMFUL)
def test_a_restart_without_checkpoints_says_so_and_so_does_the_next_start(run, folder, caplog, damage):
    with pytest.raises((JobExecutionError, CheckpointError)) as raised, caplog.at_level(logging.WARNING):
        run(HARMFUL[damage], "at once", attempts=3)

    text = str(raised.value)
    assert "was removed while the job ran" in text
    assert "execution.allow-fresh-start" in text
    assert REPLACED_WORDS not in text
    assert caplog.text.count("failed and is restarted") == 3
    named = re.findall(r"resumes from checkpoint|begins anew", caplog.text)
    assert not named, "no path that is gone"
    assert "a start with execution.job-id 'job' is refused" in caplog.text

    with pytest.raises(CheckpointCorrupted, match="execution.allow-fresh-start"):
        run()

    before = written(folder)
    run(**{"execution.allow-fresh-start": True})
    assert "the job begins without its state, as execution.allow-fresh-start allows" in caplog.text
    assert written(folder) - before == EXPECTED
    run()  # whose job has ended, and needs no word


def test_checkpoints_that_come_back_are_used(run, folder):
    """A disk that was not mounted for a while."""

    def unmount(job, number):
        for _ in range(100):
            try:
                shutil.copytree(job, folder / "kept")
                break
            except shutil.Error:  # the next checkpoint is written meanwhile: a file is gone before it is copied
                shutil.rmtree(folder / "kept")
        remove(job)

    with pytest.raises(FunkenError, match="was removed while the job ran"):
        run(unmount, "at once", attempts=1)
    remove(folder / "checkpoints" / "job")
    shutil.copytree(folder / "kept", folder / "checkpoints" / "job")
    run()

    assert written(folder) == EXPECTED


def test_a_higher_epoch_is_another_driver_and_ends_the_job(run, folder, caplog):
    def taken_over(job, number):
        (job / "_epoch" / "7").write_text(json.dumps({"token": "other", "election": "", "term": 0}))

    with pytest.raises(FunkenError, match="another driver has taken over"):
        run(taken_over, "at once")

    assert caplog.text.count("failed and is restarted") == 1  # "as planned"
    assert "resumes from" not in caplog.text


def test_the_only_checkpoint_is_corrupt_and_every_text_says_the_same(run, folder, caplog):
    def rotten(job, number):
        """Keep one checkpoint, and change a byte in all of its files."""
        for path in [*job.glob(f"chk-{number}/*"), *job.glob("shared/*")]:
            if path.name != "_metadata":
                path.write_bytes(path.read_bytes()[:-1] + b"!")

    with pytest.raises(FunkenError) as raised, caplog.at_level(logging.WARNING):
        run(rotten, "at once", attempts=3)

    assert "is damaged" in str(raised.value)
    assert "is refused, there is none before it" in caplog.text
    assert "is used" not in caplog.text
    assert "begins anew" not in caplog.text
    assert "a start with execution.job-id 'job' is refused" in caplog.text


def test_what_has_no_manifest_is_named_when_an_older_checkpoint_is_used(run, folder, caplog):
    with pytest.raises(JobExecutionError):
        run(lambda job, number: None, "later", attempts=0, **{"execution.checkpointing.num-retained": 3})
    newest = max(kept(folder))
    (folder / "checkpoints" / "job" / f"chk-{newest}" / "_metadata").unlink()
    with caplog.at_level(logging.WARNING):
        CompletedCheckpointStore(LocalStorage(str(folder / "checkpoints" / "job"))).scan()

    assert f"chk-{newest} is there, but no manifest (_metadata) that can be read" in caplog.text
    assert f"checkpoint {max(kept(folder))} is used" in caplog.text


def test_a_checkpoint_that_is_being_written_is_repeated_as_a_whole_and_does_not_count(run, folder, caplog):
    """With no failed checkpoint tolerated, a removed folder does not even cost an attempt."""
    run(HARMFUL["everything removed"], **{"execution.checkpointing.tolerable-failed-checkpoints": 0})

    assert written(folder) == EXPECTED
    assert "failed and is restarted" not in caplog.text
    assert Path(folder, "done").exists()
