"""Fencing epochs: which driver may complete checkpoints in a job's folder, decided by the storage and by no clock.

::

    <dir>/<job id>/_epoch/<n>        created, never replaced, by the driver that took the folder over as the n-th
    <dir>/<job id>/_epoch/<n>-found  what that driver found complete when it looked

A driver creates the file of the next epoch, looks which checkpoints are complete, notes them, and makes sure that its
epoch is still the newest. Only then it begins. Of every manifest that an earlier driver writes, one of two is true:

* it was there before the new epoch was: the new driver has found and noted it; or
* it was written after that: the driver that wrote it looks at the epochs again, and finds that it has been replaced.

A folder without any epoch was removed, by hand or with its disk, and is not another driver's: the driver that works in it writes
its epoch again (``renew``). If a driver has begun there meanwhile, it finds that epoch newer than its own, and ends.

So a driver that was stopped between its check and its write, for however long, does no harm: what it writes names its own
epoch, is not among what its successor has found, and is never started from, by that one or any later one.

``term`` and ``election`` are of the leader election, if there is one: in one election a lower term never takes over from a
higher one. A storage whose ``new=True`` is not atomic lets the later of two simultaneous writers win, and the other finds a
token that is not its own.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import islice
from typing import Any
from uuid import uuid4

from funken.dataclass import dataclass
from funken.errors import CheckpointCorrupted, CheckpointNotFound, LeadershipLost, StorageFailed
from funken.ids import CheckpointId
from funken.io.storage import LocalStorage, Storage

EPOCHS = "_epoch"
_FILE = re.compile(rf"{EPOCHS}/(\d+)(-found)?")
_TRIES = 100
_ABANDONED_SECONDS, _LOOKED_AT = 24 * 3600.0, 1000


@dataclass(frozen=True, slots=True)
class Term:
    """Leadership as an election grants it; of one election, later ones have greater numbers."""

    election: str = ""
    number: int = 0


class EpochStatus(enum.Enum):
    """The status of an epoch."""

    HELD = "held"
    REMOVED = "removed"
    """The folder has no epoch any more."""
    REPLACED = "replaced"
    """Another driver has claimed the folder."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """A claim of a job's folder; it is held until another driver claims it. ``content`` is that of its file."""

    number: int
    token: str
    content: bytes = b""

    @staticmethod
    def claim(storage: Storage, term: Term) -> Epoch:
        """Claim the next epoch; raises ``LeadershipLost`` if a driver of a later term has claimed the folder."""
        token = uuid4().hex
        content = json.dumps({"token": token, "election": term.election, "term": term.number}).encode()
        for _ in range(_TRIES):
            newest = max(_numbers(storage), default=0)
            try:
                held = _content(storage, newest) if newest else {}
            except CheckpointNotFound:
                continue  # a later driver has begun meanwhile
            if term.number and held.get("election") == term.election and held.get("term", 0) > term.number:
                raise LeadershipLost(
                    f"{storage.uri} belongs to the leader of term {held['term']}, and this driver leads in term "
                    f"{term.number} only. It does not start the job; start it again, to be a standby."
                )
            try:
                storage.write(f"{EPOCHS}/{newest + 1}", content, new=True)
            except StorageFailed as error:
                if not isinstance(error.__cause__, FileExistsError):
                    raise
            else:
                return Epoch(newest + 1, token, content)
        raise StorageFailed(
            f"other drivers claim {storage.uri} without end ({_TRIES} times in a row). Stop all but one of them, or give each "
            "job an id of its own."
        )

    def status(self, storage: Storage) -> EpochStatus:
        """Return True if another driver has claimed the folder since, or somebody has removed it."""
        for _ in range(_TRIES):
            numbers = _numbers(storage)
            if not numbers:
                return EpochStatus.REMOVED
            if max(numbers) != self.number:
                return EpochStatus.REPLACED
            with contextlib.suppress(CheckpointNotFound):  # removed just now: by a later driver, or by hand
                return (
                    EpochStatus.HELD
                    if _content(storage, self.number).get("token") == self.token
                    else EpochStatus.REPLACED
                )
        return EpochStatus.REPLACED

    def held(self, storage: Storage) -> bool:
        """Return True if the folder is this driver's."""
        return self.status(storage) is EpochStatus.HELD

    def renew(self, storage: Storage) -> None:
        """Write the epoch again: somebody has removed it."""
        try:
            storage.write(f"{EPOCHS}/{self.number}", self.content, new=True)
        except StorageFailed as error:
            if not isinstance(
                error.__cause__, FileExistsError
            ):  # else another driver has it, which the next look shows
                raise

    def note(self, storage: Storage, found: Mapping[CheckpointId, int]) -> None:
        """Note which checkpoints were found, each with its epoch."""
        known = json.dumps(sorted(found.items())).encode()
        storage.write(f"{EPOCHS}/{self.number}-found", known)

    def tidy(self, storage: Storage) -> None:
        """Delete the files of earlier epochs; this one has noted all that counts of them."""
        for name in sorted(storage.sizes(EPOCHS)):
            found = _FILE.fullmatch(name)
            if found is not None and int(found[1]) < self.number:
                storage.delete(name)


@dataclass(frozen=True, slots=True)
class Found:
    """The checkpoints found by the newest driver at its start; manifests of earlier epochs count only if among them."""

    epoch: int = 0
    checkpoints: Mapping[CheckpointId, int] = field(default_factory=dict)

    @staticmethod
    def scan(storage: Storage) -> tuple[dict[str, int], Found]:
        """Return the files of a folder, and the checkpoints that the newest driver found in it."""
        for _ in range(_TRIES):
            sizes = storage.sizes()
            with contextlib.suppress(CheckpointNotFound):  # another driver begins now, and removes what is older
                return sizes, Found.newest(storage, sizes)
        raise StorageFailed(
            f"{storage.uri}/{EPOCHS} has files that cannot be read. See whether the storage is in order."
        )

    @staticmethod
    def newest(storage: Storage, names: Iterable[str]) -> Found:
        """Read the newest one among the names of a folder's files; raises ``CheckpointNotFound`` if a driver begins now.

        The driver of one that is torn has not begun: it would have removed the files of earlier epochs.
        """
        files = [found for name in names if (found := _FILE.fullmatch(name)) is not None]
        oldest = min((int(file[1]) for file in files), default=0)
        for number in sorted((int(file[1]) for file in files if file[2]), reverse=True):
            name = f"{EPOCHS}/{number}-found"
            try:
                pairs = json.loads(storage.read(name))
                return Found(number, {CheckpointId(int(checkpoint)): int(epoch) for checkpoint, epoch in pairs})
            except (ValueError, TypeError) as error:
                if number == oldest > 1:
                    raise CheckpointCorrupted(
                        f"{storage.uri}/{name} is damaged: {error}. Without it the valid checkpoints are unknown; "
                        "start from the newest one that you trust (-s) with another job id."
                    ) from error
        return Found()

    def counts(self, checkpoint: CheckpointId, epoch: int) -> bool:
        """Return True if a manifest counts: one by a driver that had been replaced does not."""
        return epoch >= self.epoch or self.checkpoints.get(checkpoint) == epoch


def remove_abandoned(storage: Storage) -> list[str]:
    """Remove the folders of other jobs beside this one that have nothing but epochs, a day old at least; return their paths.

    A driver that is killed before its first checkpoint leaves one. It may be that such a driver runs, and has completed no
    checkpoint in a day: then it writes its epoch again. Only folders of a file system are looked at, so many and no more.
    """
    removed: list[str] = []
    if not isinstance(storage, LocalStorage):
        return removed
    own = os.path.normpath(storage.uri)
    with contextlib.suppress(OSError):
        now = os.stat(os.path.join(own, EPOCHS)).st_mtime  # by the clock that the other folders' times are of
        with os.scandir(os.path.dirname(own)) as entries:
            others = [
                each.path
                for each in islice(entries, _LOOKED_AT)
                if each.path != own and each.is_dir(follow_symlinks=False)
            ]
        removed = [path for path in others if _was_abandoned(path, now)]
    return removed


def _was_abandoned(folder: str, now: float) -> bool:
    """Remove a folder if it is one; false if it is none, or somebody removes it now."""
    epochs = os.path.join(folder, EPOCHS)
    try:
        if os.listdir(folder) != [EPOCHS] or os.path.islink(epochs):
            return False
        files = [(name, os.stat(os.path.join(epochs, name)).st_mtime) for name in os.listdir(epochs)]
        if not all(_FILE.fullmatch(f"{EPOCHS}/{name}") and now - at > _ABANDONED_SECONDS for name, at in files):
            return False
        if now - os.stat(epochs).st_mtime <= _ABANDONED_SECONDS:
            return False
        for name, _ in files:
            os.remove(os.path.join(epochs, name))
        os.rmdir(epochs)
        os.rmdir(folder)
    except OSError:
        return False
    return True


def _numbers(storage: Storage) -> list[int]:
    found = (_FILE.fullmatch(name) for name in storage.sizes(EPOCHS))
    return [int(each[1]) for each in found if each is not None and not each[2]]


def _content(storage: Storage, number: int) -> dict[str, Any]:
    try:
        found = json.loads(storage.read(f"{EPOCHS}/{number}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
