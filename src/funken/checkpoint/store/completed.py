"""The checkpoints of one job in its folder: their list, the newest one, and the deletion of others.

Invariant: a blob that a complete checkpoint names is never deleted, nor one that a checkpoint under way may name. So a
shared blob goes only if it was written for a checkpoint that is not newer than the newest complete one, and no complete
one and none of the acknowledgements at hand names it (``checkpoint/incremental.py`` says why that is enough).
What cannot be deleted is tried again later. What tasks wrote for a checkpoint that failed, and never told of, goes when
the checkpoints kept are newer (files of its own), or between two attempts (shared ones). The manifest of a checkpoint
goes first, so that what is left of one is not taken for one.

A refused checkpoint lives as long as a usable one of its age would: it is deleted when the oldest checkpoint kept is newer,
or when the last usable one is deleted. While no usable one is there, and none has been deleted, nothing is.

With the first complete checkpoint a driver writes ``_completed``, which is deleted before the last one. So a folder that has it
and no manifest has lost its checkpoints, and no job begins at zero there.

Somebody may remove files while the job runs. A manifest is written only if all that it names is there (else ``CheckpointLost``);
between two attempts ``refresh`` drops the complete checkpoints that are not whole any more, and takes back those that are again.

A driver that starts claims the folder (``epochs.py``). One that lost it stores and deletes nothing any more; a manifest that
it wrote in that very moment is not its own to commit, and counts only if the other has found it.

Driver only, one thread at a time.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from funken import config
from funken.checkpoint.store.blobs import (
    SHARED,
    Blob,
    SubtaskHandle,
    check_handle,
    check_numbers,
    folder_of,
)
from funken.checkpoint.store.epochs import Epoch, EpochStatus, Found, Term
from funken.dataclass import dataclass
from funken.errors import (
    CheckpointCorrupted,
    CheckpointError,
    CheckpointIncompatible,
    CheckpointLost,
    CheckpointNotFound,
    LeadershipLost,
    StorageFailed,
)
from funken.ids import CheckpointId, Millis
from funken.io.storage import DANGLING, LocalStorage, Storage, open_storage

# ---- What a checkpoint consists of, as one JSON file: ``_metadata``, written last, and by its presence the
# checkpoint is.
#
# ::
#
#     <dir>/<job id>/chk-<n>/_metadata       the manifest of checkpoint n, and what belongs to it alone beside it
#     <dir>/<job id>/shared/                 what several checkpoints of the job may need
#     <dir>/savepoint-<short id>/_metadata   a savepoint; everything it needs is in its folder, which may be moved
#
# Names of blobs are relative to the job's folder, those of a savepoint to its own. The file says its format version
# and the SHA-256 of its body, which says the version again; one that is truncated, changed, or of a newer version
# is refused with the reason. ``CheckpointCorrupted`` lets a job start from the checkpoint before it,
# ``CheckpointIncompatible`` does not.


logger = logging.getLogger(__name__)


class SnapshotKind(enum.Enum):
    """The purpose of a snapshot: recovery (deleted when a newer one is complete), or the user's own."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"


VERSION = 2
"""The newest format that can be read; 2 has databases, and is written only where there is one."""

FORMAT = "funken-checkpoint"

METADATA = "_metadata"


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """An operator: its state is found by ``id``; ``uid``: the program chose it."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    uid: bool
    subtasks: tuple[SubtaskHandle, ...]

    @property
    def stateful(self) -> bool:
        """True if any subtask has state."""
        return any(handle.stateful for handle in self.subtasks)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A complete checkpoint or savepoint; ``enumerators`` are the pickled snapshots of the sources, by operator id.

    ``epoch`` is that of the driver that wrote it, 0 if it had none.
    """

    job_id: str
    job_name: str
    checkpoint: CheckpointId
    kind: SnapshotKind
    time: Millis
    operators: tuple[OperatorEntry, ...]
    enumerators: Mapping[str, bytes] = field(default_factory=dict)
    epoch: int = field(default=0, compare=False)

    def blobs(self) -> Iterator[Blob]:
        """All blobs that are files."""
        for operator in self.operators:
            for handle in operator.subtasks:
                yield from (blob for blob in handle.blobs if blob.data is None)

    @property
    def files(self) -> frozenset[str]:
        """The names of all blobs that are files."""
        return frozenset(blob.name for blob in self.blobs())

    @property
    def size(self) -> int:
        """Number of bytes of state."""
        return sum(handle.size for operator in self.operators for handle in operator.subtasks)

    @property
    def in_flight(self) -> int:
        """Number of its bytes that are records overtaken by barriers."""
        return sum(handle.in_flight for operator in self.operators for handle in operator.subtasks)

    # ---- as bytes

    def to_bytes(self) -> bytes:
        """Return the content of the manifest's file."""
        files = any(handle.files for operator in self.operators for handle in operator.subtasks)
        return Manifest.seal(self.body() | {"version": 2 if files else 1})

    @staticmethod
    def seal(body: dict[str, Any]) -> bytes:
        """Return a manifest's file with any body: version and checksum are in front of it."""
        text = _text(body)
        head = _text({"format": FORMAT, "version": body.get("version", VERSION), "sha256": _digest(text)})
        return f'{head[:-1]},"body":{text}}}\n'.encode()

    def body(self) -> dict[str, Any]:
        """Return its fields, and the names of the files that other checkpoints may share."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.compare or self.epoch}
        return found | {"shared": sorted(name for name in self.files if name.startswith(f"{SHARED}/"))}

    @staticmethod
    def from_bytes(data: bytes, where: str) -> Manifest:
        """Read a manifest's file; ``where`` is for the error that says why it is rejected."""
        try:
            outer = dict(json.loads(data))
            kind, version, body = outer.get("format"), outer.get("version"), outer.get("body")
            whole = _digest(_text(body)) == outer.get("sha256")
        except (ValueError, TypeError, RecursionError) as error:
            raise CheckpointCorrupted(
                f"{where} is truncated or not the manifest of a checkpoint ({str(error)[:100]}). Use the checkpoint before it."
            ) from error
        if kind != FORMAT:
            raise CheckpointCorrupted(f"{where} is not the manifest of a Funken checkpoint. Give the path of one.")
        claimed = body.get("version", version) if isinstance(body, dict) else version
        if type(version) is not int or (whole and claimed != version):
            raise CheckpointCorrupted(f"{where} is damaged: its version was changed. Use the checkpoint before it.")
        if version > VERSION:
            raise CheckpointIncompatible(
                f"{where} was written by a newer version of Funken (format {version}, this one reads up to {VERSION}). "
                "Upgrade Funken, or use a checkpoint that an older version wrote."
            )
        if not whole:
            raise CheckpointCorrupted(f"{where} is damaged: its checksum does not match. Use the checkpoint before it.")
        try:
            return _manifest(body)
        except (ValueError, msgspec.ValidationError) as error:
            raise CheckpointCorrupted(f"{where} is malformed: {error}. Use the checkpoint before it.") from error


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_as_json)


def _as_json(value: Any) -> Any:
    """Return bytes, enums, the classes of a handle, and data classes, without fields that have their defaults."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, frozenset):
        return [[table, *shape] for table, shape in sorted(value)]
    plain = _defaults(value.__class__)
    return {each.name: kept for each in fields(value) if (kept := getattr(value, each.name)) != plain[each.name]}


@cache
def _defaults(cls: Any) -> dict[str, Any]:
    return {
        each.name: each.default if each.default_factory is MISSING else each.default_factory() for each in fields(cls)
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _manifest(body: Any) -> Manifest:
    """Make a manifest of JSON; raise ``ValueError``, or msgspec's error, for other content."""
    for operator in _items(body, "operators"):
        for handle in _items(operator, "subtasks"):
            if classes := _items(handle, "classes"):
                handle["classes"] = [[*each[:1], each[1:]] if isinstance(each, list) else each for each in classes]
    manifest = msgspec.convert(body, Manifest)
    check_numbers("the checkpoint", manifest.checkpoint, manifest.epoch, abs(manifest.time))
    ids = [operator.id for operator in manifest.operators]
    if len(set(ids)) < len(ids):
        raise ValueError("several operators have the same id")
    for each in manifest.operators:
        if len(each.subtasks) != each.parallelism:
            raise ValueError(
                f"operator {each.id[:60]!r} has {len(each.subtasks)} of {str(each.parallelism)[:30]} subtasks"
            )
        check_numbers(f"operator {each.id[:60]!r}", each.max_parallelism)
        for subtask in each.subtasks:
            check_handle(subtask, each.max_parallelism)
    return manifest


def _items(value: Any, name: str) -> list[Any]:
    """Return a list of a JSON object; an empty one if there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def write_manifest(storage: Storage, manifest: Manifest) -> None:
    """Write a manifest into its folder; raises ``StorageFailed`` only if it is not there afterwards.

    A write may be reported as failed and be done nevertheless. Then it counts: what is there would be found by a driver
    that starts, so this one must see it too. What a driver has written there that was replaced does not count, and goes.
    """
    content = manifest.to_bytes()
    try:
        storage.write(METADATA, content, new=True)
    except StorageFailed as error:
        if isinstance(error.__cause__, FileExistsError):
            if _outdated(storage, manifest.epoch):
                storage.write(METADATA, content)
                return
            raise
        try:
            if storage.read(METADATA) == content:
                return
            storage.delete(METADATA)
        except CheckpointNotFound:
            pass
        except CheckpointError as again:
            logger.warning("%s/%s could not be looked at after a failed write: %s", storage.uri, METADATA, again)
        raise


def _outdated(storage: Storage, epoch: int) -> bool:
    """Return True if the manifest that is there is of an earlier epoch: this driver's scan has not found it."""
    try:
        return Manifest.from_bytes(storage.read(METADATA), storage.uri).epoch < epoch
    except CheckpointError:
        return False


COMPLETED = "_completed"
_MOST_NAMED = 10
_FOLDER = re.compile(r"chk-(\d+)(?:/|$)")


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """A checkpoint or savepoint that can be started from; names in the manifest are relative to ``root``."""

    manifest: Manifest
    root: Storage


@dataclass(slots=True)
class CompletedCheckpointStore:
    """The completed checkpoints of one job's folder; ``pinned`` returns the handles in pending acknowledgements."""

    storage: Storage
    pinned: Callable[[], Iterable[SubtaskHandle]] = lambda: ()
    #: complete checkpoints, oldest first
    complete: dict[CheckpointId, Manifest] = field(default_factory=dict)
    #: checkpoints that were found and refused, with the reason
    rejected: dict[CheckpointId, str] = field(default_factory=dict)
    #: complete checkpoints that somebody has removed since, in part or whole, with the reason
    lost: dict[CheckpointId, tuple[Manifest, str]] = field(default_factory=dict)
    #: the job whose checkpoints these are, if that is known
    job_id: str = ""
    #: whether tasks are to write their state as a whole: what they build on was removed
    rewrite: bool = False
    #: greater than every id that has left a trace
    next_id: CheckpointId = field(default_factory=lambda: CheckpointId(1))
    _left_over: set[str] = field(default_factory=set)
    #: folders of checkpoints whose manifest failed to be written, but may exist
    _unsure: set[str] = field(default_factory=set)
    #: why the storage did not let something be settled, if the last try was in vain
    refusal: str = ""
    #: files of checkpoints that were refused
    _kept: dict[CheckpointId, frozenset[str]] = field(default_factory=dict)
    _epoch: Epoch | None = None
    _replaced: bool = False
    _warned: set[str] = field(default_factory=set)
    #: whether ``_completed`` is there
    _marked: bool = False
    #: up to which checkpoint the folders of those that failed are deleted
    _cleared: CheckpointId = field(default_factory=lambda: CheckpointId(0))

    # ---- what is there

    def scan(self, check_contents: bool = False) -> None:
        """Read an earlier driver's folder: the complete checkpoints that are whole, and the faults of others.

        Blobs are compared by size, with ``check_contents`` byte by byte. A manifest of a newer version of Funken raises
        ``CheckpointIncompatible``: to resume from an older one would silently undo later work.
        """
        sizes, noted = Found.scan(self.storage)
        self.complete, self.rejected = {}, {}
        self._marked = COMPLETED in sizes
        traces = {label for name in sizes if (label := _label(name)) is not None}
        self.next_id = CheckpointId(max(traces, default=0) + 1)
        self._cleared = CheckpointId(self.next_id - 1)
        for checkpoint in sorted(traces):
            name = f"{folder_of(checkpoint)}/{METADATA}"
            if name not in sizes:
                continue
            try:
                manifest = Manifest.from_bytes(self.storage.read(name), f"{self.storage.uri}/{name}")
                self._check_identity(manifest, checkpoint)
                if not noted.counts(checkpoint, manifest.epoch):
                    logger.warning(
                        "%s/%s does not count: a driver wrote it that had been replaced", self.storage.uri, name
                    )
                    continue
                verify(manifest, self.storage, sizes, check_contents)
            except CheckpointNotFound:  # a link to nothing, or the driver before this one deletes it now
                continue
            except CheckpointCorrupted as error:
                self.rejected[checkpoint] = str(error)
                logger.warning("checkpoint %d is refused: %s", checkpoint, error)
            else:
                self.complete[checkpoint] = manifest
        self._warn_of_what_has_no_manifest(sizes)

    def _check_identity(self, manifest: Manifest, checkpoint: CheckpointId) -> None:
        """Raise ``CheckpointCorrupted`` if a manifest is not the one that was written into this folder."""
        own = manifest.checkpoint == checkpoint and manifest.kind is SnapshotKind.CHECKPOINT
        if not own or (self.job_id and manifest.job_id != self.job_id):
            raise CheckpointCorrupted(
                f"{self.storage.uri}/{folder_of(checkpoint)}/{METADATA} is not the file written there: it is of "
                f"{manifest.kind.value} {manifest.checkpoint} of job {manifest.job_id!r}. To start from it, name its folder (-s)."
            )

    def _warn_of_what_has_no_manifest(self, sizes: Iterable[str]) -> None:
        newest = max(self.complete, default=CheckpointId(0))
        folders = {CheckpointId(int(found[1])) for name in sizes if (found := _FOLDER.match(name)) is not None}
        for checkpoint in sorted(folders - self.complete.keys() - self.rejected.keys()):
            if checkpoint > newest:
                used = f"checkpoint {newest} is used" if newest else "no checkpoint before it is complete"
                self._warn(
                    f"{self.storage.uri}/{folder_of(checkpoint)} is there, but no manifest ({METADATA}) that can be read: the "
                    f"checkpoint was not complete when its driver ended, or somebody has removed the manifest; {used}"
                )

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)

    def latest(self, allow_fresh: bool = False) -> Manifest | None:
        """Return the newest complete checkpoint; raises ``CheckpointCorrupted`` if there were some, but none to use.

        With ``allow_fresh`` it returns ``None`` then: somebody has decided to begin anew.
        """
        if self.complete:
            return self.complete[max(self.complete)]
        reason = self.unusable
        if not reason:
            return None
        if allow_fresh:
            self._warn(f"the job begins without its state, as {config.ALLOW_FRESH_START.key} allows: {reason}")
            return None
        raise CheckpointCorrupted(
            f"{reason} Put the missing files back, start from a savepoint with another job id, or, to begin anew without the "
            f"state, set {config.ALLOW_FRESH_START.key} (--allow-fresh-start)."
        )

    @property
    def unusable(self) -> str:
        """Why a job that had complete checkpoints has none to start from; empty if it has one, or never had."""
        if self.complete:
            return ""
        reasons = [*self.rejected.values(), *(reason for _, reason in self.lost.values())]
        if reasons:
            return f"none of the checkpoints in {self.storage.uri} can be used: {' '.join(reasons)}"
        if self._marked:
            return f"there were complete checkpoints in {self.storage.uri}, but no manifest (chk-<number>/{METADATA}) is left."
        return ""

    def refresh(self) -> list[CheckpointId]:
        """Find out which complete checkpoints are still whole, between two attempts; return those that are not any more."""
        self.check_owner()
        known = {number: manifest for number, (manifest, _) in self.lost.items()} | self.complete
        gone = []
        for checkpoint, manifest in sorted(known.items()):
            missing = self._missing(manifest)
            if missing is None:
                self._rewrite_manifest(manifest)
                self.lost.pop(checkpoint, None)
                self.complete[checkpoint] = manifest
                continue
            self.complete.pop(checkpoint, None)
            if checkpoint not in self.lost:
                reason = (
                    f"{self.storage.uri}/{missing}, a part of checkpoint {checkpoint}, was removed while the job ran."
                )
                self.lost[checkpoint] = manifest, reason
                gone.append(checkpoint)
                logger.warning("%s", reason)
        self.complete = dict(sorted(self.complete.items()))
        if known:
            self._mark(max(known))
        return gone

    def _missing(self, manifest: Manifest) -> str | None:
        """Return a file that a manifest names and that is not there; ``None`` if all are."""
        there = {name for folder in {_folder(name) for name in manifest.files} for name in self.storage.sizes(folder)}
        for name in sorted(manifest.files - there):
            try:
                self.storage.read(name, 0, 1)  # a listing may be older than the file
            except CheckpointNotFound:
                return name
        return None

    def _rewrite_manifest(self, manifest: Manifest) -> None:
        """Write a manifest again if somebody has removed or changed it: another driver needs it, this one has it."""
        name = f"{folder_of(manifest.checkpoint)}/{METADATA}"
        try:
            if Manifest.from_bytes(self.storage.read(name), name) == manifest:
                return
        except StorageFailed:
            raise
        except CheckpointError:  # it is not there, or not what was written
            pass
        try:
            self.storage.write(name, manifest.to_bytes())
        except StorageFailed as error:
            logger.warning("%s/%s is damaged, and cannot be written again: %s", self.storage.uri, name, error)
        else:
            logger.warning(
                "%s/%s was removed or changed while the job ran; it is written again", self.storage.uri, name
            )

    def claim(self, term: Term = Term()) -> None:  # noqa: B008 - it is frozen
        """Make this the driver that may store checkpoints here, and find out which there are.

        Raises ``LeadershipLost`` if a driver of a later term of the same election has the folder, or takes it meanwhile.
        """
        self._epoch = Epoch.claim(self.storage, term)
        self._replaced = False
        self.scan()
        rejected = dict.fromkeys(self.rejected, self._epoch.number)  # whoever puts back what is missing may use them
        self._epoch.note(self.storage, rejected | {number: each.epoch for number, each in self.complete.items()})
        self.check_owner()
        try:
            self._epoch.tidy(self.storage)
        except StorageFailed as error:
            logger.warning("files of earlier epochs stay for now: %s", error)

    def check_owner(self) -> None:
        """Raise ``LeadershipLost`` if another driver has claimed the folder."""
        if self._epoch is None:
            return
        held = self._epoch.status(self.storage)
        if held is EpochStatus.REMOVED:
            self._renew(self._epoch)
            held = self._epoch.status(self.storage)
        if held is not EpochStatus.HELD:
            self._replaced = True
            raise LeadershipLost(
                f"another driver has taken over the checkpoints in {self.storage.uri}. Stop one of the two, or give each job "
                "an id of its own."
            )

    def _renew(self, epoch: Epoch) -> None:
        """Make the folder this driver's again, and note a fact for later starts: there were complete checkpoints."""
        logger.warning(
            "%s, or a file in it, was removed while the job runs. The folder is made again; its "
            "checkpoints are lost until their files are put back. No other driver has taken over.", self.storage.uri,
        )  # fmt: skip
        epoch.renew(self.storage)
        epoch.note(self.storage, {number: each.epoch for number, each in self.complete.items()})
        if self._marked or self.complete or self.lost:
            self._marked = False
            self._mark(max(self.complete, default=CheckpointId(0)))

    @property
    def replaced(self) -> bool:
        """True if another driver has taken over."""
        return self._replaced

    def _may_delete(self) -> bool:
        try:
            self.check_owner()
        except CheckpointError as error:
            logger.warning("nothing is deleted: %s", error)
            self.refusal = str(error)
            return False
        return True

    def reject(self, checkpoint: CheckpointId, reason: str) -> None:
        """Something in a checkpoint turned out to be broken while it was read: do not start from it again.

        Its files stay until it would have been deleted anyway, for inspection.
        """
        self.rejected[checkpoint] = reason
        manifest = self.complete.pop(checkpoint, None)
        if manifest is not None:
            self._kept[checkpoint] = manifest.files

    # ---- storing and deleting

    def store(self, manifest: Manifest) -> None:
        """Write a manifest; raises ``StorageFailed`` only if it is not there, ``LeadershipLost`` if it does not count."""
        self.check_owner()
        missing = self._missing(manifest)
        if missing is not None:
            self.rewrite = True
            raise CheckpointLost(
                f"{self.storage.uri}/{missing}, which checkpoint {manifest.checkpoint} names, was removed while the job runs. "
                "The next checkpoint is written as a whole. Find the program that removes files there, and stop it."
            )
        folder = folder_of(manifest.checkpoint)
        if self._epoch is not None:
            manifest = replace(manifest, epoch=self._epoch.number)
        try:
            write_manifest(self.storage.at(folder), manifest)
            self.check_owner()  # a driver that claimed the folder before this was written may not have seen it
        except StorageFailed as error:
            if not self._replaced and not isinstance(error.__cause__, FileExistsError):
                self._left_over.add(folder)  # there may be a part of it, or all
                self._unsure.add(folder)
            raise
        self.complete[manifest.checkpoint] = manifest
        self.lost.clear()  # nothing starts from what is older
        self.rewrite = False
        self._unsure.discard(folder)
        self._mark(manifest.checkpoint)
        self._clear_left_over()

    def _mark(self, checkpoint: CheckpointId) -> None:
        if self._marked:
            return
        try:
            self.storage.write(COMPLETED, str(checkpoint).encode())
        except StorageFailed as error:
            logger.warning("it is not noted that checkpoint %d is complete: %s", checkpoint, error)
        else:
            self._marked = True

    def _unmark(self) -> None:
        try:
            self.storage.delete(COMPLETED)
        except StorageFailed as error:
            logger.warning("%s/%s stays, and has to be removed before a job can begin anew there: %s",
                           self.storage.uri, COMPLETED, error)  # fmt: skip
        else:
            self._marked = False

    def prune(self, checkpoint: CheckpointId) -> None:
        """Delete a complete checkpoint, except for files that others name, and refused ones not newer than the rest."""
        if not self._may_delete():
            return
        manifest = self.complete.pop(checkpoint, None)
        files = frozenset[str]() if manifest is None else manifest.files
        outlived = [refused for refused in self.rejected if not self.complete or refused < min(self.complete)]
        for refused in outlived:
            del self.rejected[refused]
            files |= self._kept.pop(refused, frozenset())
        self._left_over |= {name for name in files if name.startswith(f"{SHARED}/")}
        if not self.complete:
            self._unmark()
        for doomed in sorted({*outlived, checkpoint, *self._failed()}):
            self._delete(folder_of(doomed))
        self._clear_left_over()

    def _failed(self) -> Iterator[CheckpointId]:
        """Yield the checkpoints before the oldest complete one, since the last call, that never were."""
        oldest, needed = min(self.complete, default=CheckpointId(0)), {_label(name) for name in self._named()}
        for checkpoint in range(self._cleared + 1, oldest):
            if checkpoint not in needed:
                yield CheckpointId(checkpoint)
        self._cleared = CheckpointId(max(self._cleared, oldest - 1))

    def discard(self, handles: Iterable[SubtaskHandle]) -> None:
        """Delete the files of an aborted checkpoint; a base of later ones stays until one of these is complete."""
        if not self._may_delete():
            return
        self.settle()
        kept = self._named()
        for name in sorted({blob.name for handle in handles for blob in handle.blobs if blob.data is None} - kept):
            if name.startswith(f"{SHARED}/") or name.partition("/")[0] in self._unsure:  # there may be a manifest of it
                self._left_over.add(name)
            else:
                self._delete(name)

    def settle(self) -> bool:
        """Make sure that no failed manifest exists; false if that cannot be determined now.

        An attempt that starts aborts earlier output of sinks, so no later one may start from such a checkpoint.
        """
        self.refusal = ""
        if self._unsure and self._may_delete():
            self._unsure -= {folder for folder in sorted(self._unsure) if self._delete(folder)}
        return self._replaced or not self._unsure

    def sweep(self) -> None:
        """Delete files that no manifest names: between two attempts, when no checkpoint is under way.

        Where there are checkpoints and none can be used, someone has to look, and nothing is deleted.
        """
        if (self.rejected or self.lost or self._marked) and not self.complete:
            return
        oldest, kept, doomed = min(self.complete, default=None), self._named(), set[str]()
        try:
            names = list(self.storage.sizes(unfinished=True))
        except StorageFailed as error:
            logger.warning("obsolete files stay for now: %s", error)
            return
        if not self._may_delete():  # checked last: a driver that takes over from now on uses only what is named
            return
        for name in names:
            label = _label(name)
            if name.startswith(f"{SHARED}/"):
                doomed |= {name} - kept
            elif label is not None and (oldest is None or label < oldest):
                doomed.add(folder_of(label))
        for name in sorted(doomed):
            self._delete(name)

    def _named(self) -> set[str]:
        named = {name for manifest in self.complete.values() for name in manifest.files}
        named |= set(map(folder_of, self.complete))  # what was to be deleted before has become one that is complete
        oldest = min(self.complete, default=CheckpointId(0))
        named |= {name for checkpoint, files in self._kept.items() if checkpoint > oldest for name in files}
        return named | {blob.name for handle in self.pinned() for blob in handle.blobs if blob.data is None}

    def _clear_left_over(self) -> None:
        if not self._left_over:
            return
        newest, kept = max(self.complete, default=CheckpointId(0)), self._named()
        for name in sorted(self._left_over - kept):
            if (_label(name) or newest) <= newest and self._delete(name):
                self._left_over.discard(name)
        self._left_over -= kept

    def _delete(self, name: str) -> bool:
        try:
            if "/" not in name:
                self.storage.delete(f"{name}/{METADATA}")
            self.storage.delete(name)
        except StorageFailed as error:
            logger.warning("%s stays for now: %s", name, error)
            self.refusal = str(error)
            self._left_over.add(name)
            return False
        return True


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _label(name: str) -> CheckpointId | None:
    """Return the checkpoint that a file was written for, by its name."""
    found = re.match(rf"chk-(\d+)(?:/|$)|{SHARED}/(\d+)-", name)
    return CheckpointId(int(found[1] or found[2])) if found else None


def copied(handle: SubtaskHandle, source: Storage, target: Storage) -> SubtaskHandle:
    """Copy the files of a handle, byte for byte, to the top of another folder; return the handle of the copies."""

    def copy(blob: Blob) -> Blob:
        if blob.data is not None:
            return blob
        content = source.read(blob.name)
        if not blob.fits(content):
            raise CheckpointCorrupted(f"{source.uri}/{blob.name} is damaged: its checksum does not match.")
        name = blob.name.rpartition("/")[2]
        target.write(name, content)
        return replace(blob, name=name)

    return replace(
        handle,
        parts=tuple(map(copy, handle.parts)),
        own=None if handle.own is None else copy(handle.own),
        files=tuple((name, copy(blob)) for name, blob in handle.files),
    )


def verify(manifest: Manifest, root: Storage, sizes: dict[str, int], check_contents: bool = False) -> None:
    """Raise ``CheckpointCorrupted`` if a blob is missing, too short, or (``check_contents``) has other content."""
    for blob in manifest.blobs():
        found = sizes.get(blob.name)
        if found != blob.length:
            fact = "is missing" if found in (None, DANGLING) else f"has {found} bytes instead of {blob.length}"
            raise CheckpointCorrupted(f"{root.uri}/{blob.name}, a part of checkpoint {manifest.checkpoint}, {fact}.")
        if check_contents:
            _verify_content(root, blob)


def _verify_content(root: Storage, blob: Blob) -> None:
    if not blob.fits(root.read(blob.name)):
        raise CheckpointCorrupted(f"{root.uri}/{blob.name} is damaged: its checksum does not match.")


def _checkpoints_in(folder: Storage) -> list[str]:
    """Return the folders right in a folder that have a manifest; a local one is not searched any deeper."""
    if isinstance(folder, LocalStorage):
        return sorted(path.parent.name for path in Path(folder.uri).glob(f"*/{METADATA}"))
    return sorted({name.partition("/")[0] for name in folder.sizes() if name.endswith(f"/{METADATA}")})


def open_checkpoint(uri: str, check_contents: bool = False) -> RestorePoint:
    """Open a savepoint or checkpoint by its folder, or by its manifest in it.

    Raises ``CheckpointNotFound`` where there is none, ``CheckpointCorrupted`` or ``CheckpointIncompatible`` if it cannot be
    used.
    """
    place = uri.rstrip("/").removesuffix(f"/{METADATA}")
    folder = open_storage(place)
    try:
        content = folder.read(METADATA)
    except CheckpointNotFound as error:
        there = _checkpoints_in(folder)
        hint = (
            f" It has these: {', '.join(there[:_MOST_NAMED])}{', ...' if there[_MOST_NAMED:] else ''}." if there else ""
        )
        raise CheckpointNotFound(
            f"{uri} is no savepoint or checkpoint: there is no {METADATA} in it.{hint} Pass the folder "
            "of a savepoint or checkpoint."
        ) from error
    manifest = Manifest.from_bytes(content, f"{folder.uri}/{METADATA}")
    root = folder if manifest.kind is SnapshotKind.SAVEPOINT else open_storage(folder.uri.rpartition("/")[0])
    folders = {blob.name.rpartition("/")[0] for blob in manifest.blobs()}
    sizes = {name: size for each in folders for name, size in root.sizes(each).items()}
    verify(manifest, root, sizes, check_contents)
    return RestorePoint(manifest, root)


def dispose_savepoint(uri: str) -> None:
    """Delete a savepoint, its manifest first, so that the rest of one that cannot be deleted is not taken for one.

    Only files that its manifest names are deleted. Raises ``CheckpointError`` for a checkpoint: those belong to their job.
    """
    found = open_checkpoint(uri)
    if found.manifest.kind is not SnapshotKind.SAVEPOINT:
        raise CheckpointError(
            f"{uri} is checkpoint {found.manifest.checkpoint} of job {found.manifest.job_id!r}, no savepoint: its job deletes "
            "it when it is no longer needed. Name a savepoint."
        )
    found.root.delete(METADATA)
    for name in {blob.name for blob in found.manifest.blobs() if blob.data is None}:
        found.root.delete(name)
    if isinstance(found.root, LocalStorage):
        with contextlib.suppress(OSError):  # other files are in it
            Path(found.root.uri).rmdir()
