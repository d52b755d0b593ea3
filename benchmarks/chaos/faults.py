"""The faults, each a function of the world and a source of chance.

It harms the job, waits for recovery, and returns when the fault happened and when new output came. Of a fault that lasts (a
full disk, a worker that is stopped for a second) the time from its end counts. ``None``: the job had ended before.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from job import HEARTBEAT_SECONDS
from world import World

_PAUSE_SECONDS = 2.0


@dataclass
class Recovery:
    """What came of a fault: when it happened (or ended), when there was new output; both in s since the epoch."""

    at: float
    output: float
    #: files of output that a rejected checkpoint had committed; what they hold comes twice
    repeated: set[Path] = field(default_factory=set)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.output - self.at


Inject = Callable[[World, random.Random], Recovery | None]


@dataclass(frozen=True)
class Fault:
    """A fault by name; ``aim``: how long recovery may take (s); ``disk``: whether it needs a small disk."""

    name: str
    inject: Inject
    aim: float
    disk: bool = False


# ---- processes


def worker_killed(world: World, chance: random.Random) -> Recovery | None:
    """SIGKILL to a worker."""
    before, victim = world.beats(), _worker(world, chance)
    os.kill(victim, signal.SIGKILL)
    return _new_attempt(world, before, time.time())


def worker_stopped(world: World, chance: random.Random) -> Recovery | None:
    """SIGSTOP to a worker, for good: it is declared lost when the heartbeat timeout has passed."""
    before, victim = world.beats(), _worker(world, chance)
    os.kill(victim, signal.SIGSTOP)
    return _new_attempt(world, before, time.time())


def worker_paused(world: World, chance: random.Random) -> Recovery | None:
    """SIGSTOP to a worker, and SIGCONT before the heartbeat timeout: no restart."""
    before, victim = world.beats(), _worker(world, chance)
    os.kill(victim, signal.SIGSTOP)
    time.sleep(HEARTBEAT_SECONDS / 2)
    os.kill(victim, signal.SIGCONT)
    at = time.time()
    if not world.wait_for_output(at):
        return None
    if world.beats() != before:
        raise SystemExit(f"a worker that was stopped for {HEARTBEAT_SECONDS / 2} s cost a restart; see {world.folder}")
    return Recovery(at, world.output_after(at)[0])


def jvm_killed(world: World, chance: random.Random) -> Recovery | None:
    """SIGKILL to Spark's JVM: the driver starts another session."""
    before = world.beats()
    os.kill(world.jvm(), signal.SIGKILL)
    return _new_attempt(world, before, time.time())


def driver_killed(world: World, chance: random.Random) -> Recovery | None:
    """SIGKILL to the driver; another is started at once."""
    return _driver_ended(world, signal.SIGKILL)


def driver_terminated(world: World, chance: random.Random) -> Recovery | None:
    """SIGTERM to the driver; another is started when it has ended."""
    return _driver_ended(world, signal.SIGTERM)


def _driver_ended(world: World, how: signal.Signals) -> Recovery | None:
    before, at = world.beats(), time.time()
    world.end_driver(how)
    if not world.complete():
        raise SystemExit(f"the driver ended by {how.name} and has left no checkpoint; see {world.log}")
    world.start_driver()
    return _new_attempt(world, before, at)


def _worker(world: World, chance: random.Random) -> int:
    return chance.choice(world.workers())


def _new_attempt(world: World, before: set[str], at: float) -> Recovery | None:
    came = world.wait_for_attempt(before)
    return None if came is None else Recovery(at, came)


# ---- disks


def storage_full(world: World, chance: random.Random) -> Recovery | None:
    """The disk with the checkpoints is full for a while."""
    return _full(world, world.folder / "storage")


def rocksdb_full(world: World, chance: random.Random) -> Recovery | None:
    """The disk with the local state is full for a while."""
    return _full(world, world.folder / "rocksdb")


def _full(world: World, disk: Path) -> Recovery | None:
    filler = disk / "filler"
    try:
        with filler.open("wb") as file:
            file.truncate(0)
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free)
    except OSError:
        pass  # the job has taken some of it meanwhile
    time.sleep(_PAUSE_SECONDS)
    filler.unlink()
    return _flowing(world)


def storage_read_only(world: World, chance: random.Random) -> Recovery | None:
    """The disk with the checkpoints is read-only for a while."""
    world.remount("storage", "ro")
    time.sleep(_PAUSE_SECONDS)
    world.remount("storage", "rw")
    return _flowing(world)


def _flowing(world: World) -> Recovery | None:
    """Wait for a checkpoint and for output after now: the job must be able to do both again."""
    at = time.time()
    newest = max((int(path.name[4:]) for path in world.complete()), default=-1)
    if not (world.wait_for_checkpoint(newest) and world.wait_for_output(at)):
        return None
    return Recovery(at, world.output_after(at)[0])


# ---- checkpoints


def truncated(world: World, chance: random.Random) -> Recovery | None:
    """The newest checkpoint's manifest is cut off while no driver runs."""
    return _damaged(world, lambda manifest: os.truncate(manifest, manifest.stat().st_size // 2))


def bit_flipped(world: World, chance: random.Random) -> Recovery | None:
    """A bit of the newest checkpoint's manifest is flipped."""

    def flip(manifest: Path) -> None:
        data = bytearray(manifest.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        manifest.write_bytes(data)

    return _damaged(world, flip)


def part_deleted(world: World, chance: random.Random) -> Recovery | None:
    """A file that only the newest checkpoint names is gone."""

    def delete(manifest: Path) -> None:
        own = sorted(path for path in manifest.parent.iterdir() if path != manifest)
        chance.choice(own or [manifest]).unlink()

    return _damaged(world, delete)


def _damaged(world: World, damage: Callable[[Path], None]) -> Recovery | None:
    """Kill the driver, damage the newest checkpoint, start another driver: it falls back to the one before."""
    newest = max((int(path.name[4:]) for path in world.complete()), default=-1)
    if not world.wait_for_checkpoint(newest):  # so that there are two that this driver has made
        return None
    before, at = world.beats(), time.time()
    world.end_driver(signal.SIGKILL)
    *_, older, newest_folder = world.complete()
    fallback = (older / "_metadata").stat().st_mtime
    repeated = {path for path in (world.folder / "out").glob("part-*") if path.stat().st_mtime > fallback}
    damage(newest_folder / "_metadata")
    world.start_driver()
    found = _new_attempt(world, before, at)
    if found is not None:
        found.repeated = repeated
    return found


FAULTS = (
    Fault("worker killed", worker_killed, 3),
    Fault("worker stopped for good", worker_stopped, HEARTBEAT_SECONDS + 3),
    Fault("worker stopped for a second", worker_paused, 1),
    Fault("JVM killed", jvm_killed, 10),
    Fault("driver killed", driver_killed, 10),
    Fault("driver terminated", driver_terminated, 10),
    Fault("checkpoint storage full", storage_full, 10, disk=True),
    Fault("checkpoint storage read-only", storage_read_only, 10, disk=True),
    Fault("RocksDB's disk full", rocksdb_full, 10, disk=True),
    Fault("newest checkpoint truncated", truncated, 10),
    Fault("newest checkpoint bit-flipped", bit_flipped, 10),
    Fault("newest checkpoint: a part deleted", part_deleted, 10),
)
