"""What a checkpoint consists of, as one JSON file: ``_metadata``, written last, and by its presence the checkpoint is.

::

    <dir>/<job id>/chk-<n>/_metadata       the manifest of checkpoint n, and what belongs to it alone beside it
    <dir>/<job id>/shared/                 what several checkpoints of the job may need
    <dir>/savepoint-<short id>/_metadata   a savepoint; everything it needs is in its folder, which may be moved

Names of blobs are relative to the job's folder, those of a savepoint to its own. The file says its format version and
the SHA-256 of its body, which says the version again; one that is truncated, changed, or of a newer version is refused with
the reason. ``CheckpointCorrupted`` lets a job start from the checkpoint before it, ``CheckpointIncompatible`` does not.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from funken.checkpoint.store.fields import LARGEST, Fields, Malformed, as_bytes, parse
from funken.checkpoint.store.handles import Blob, SubtaskHandle, handle_from_json, handle_to_json
from funken.dataclass import dataclass
from funken.errors import (
    CheckpointCorrupted,
    CheckpointError,
    CheckpointIncompatible,
    CheckpointNotFound,
    StorageFailed,
)
from funken.ids import CheckpointId, Millis
from funken.io.storage import Storage

logger = logging.getLogger(__name__)


class SnapshotKind(enum.Enum):
    """Whether a snapshot is for recovery, and is deleted when a newer one is complete, or belongs to the user."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"


VERSION = 2
"""The newest format that can be read; 2 has databases, and is written only where there is one."""

FORMAT = "funken-checkpoint"
_KINDS = {kind.value: kind for kind in SnapshotKind}

METADATA = "_metadata"
SHARED = "shared"


def folder_of(checkpoint: CheckpointId) -> str:
    """Return the folder of a checkpoint within its job's.

    >>> folder_of(CheckpointId(3))
    'chk-3'
    """
    return f"chk-{checkpoint}"


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """An operator: ``id`` is what its state is found by, ``uid`` is whether the program chose it."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    uid: bool
    subtasks: tuple[SubtaskHandle, ...]

    @property
    def stateful(self) -> bool:
        """Whether any subtask has state."""
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
        """How many bytes of state there are."""
        return sum(handle.size for operator in self.operators for handle in operator.subtasks)

    @property
    def in_flight(self) -> int:
        """How many of them are records that barriers have overtaken."""
        return sum(handle.in_flight for operator in self.operators for handle in operator.subtasks)

    # ---- as bytes

    def to_bytes(self) -> bytes:
        """Return the content of the manifest's file."""
        files = any(handle.files for operator in self.operators for handle in operator.subtasks)
        return Manifest.seal(self._to_json() | {"version": 2 if files else 1})

    @staticmethod
    def seal(body: dict[str, Any]) -> bytes:
        """Return a manifest's file with this body, whatever it says: version and checksum are in front of it."""
        text = _text(body)
        head = _text({"format": FORMAT, "version": body.get("version", VERSION), "sha256": _digest(text)})
        return f'{head[:-1]},"body":{text}}}\n'.encode()

    def _to_json(self) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "job_name": self.job_name,
            "checkpoint": self.checkpoint,
            "kind": self.kind.value,
            "time": self.time,
            "operators": [_operator_to_json(operator) for operator in self.operators],
            "enumerators": {name: _base64(data) for name, data in self.enumerators.items()},
            "shared": sorted(name for name in self.files if name.startswith(f"{SHARED}/")),
        } | ({"epoch": self.epoch} if self.epoch else {})

    @staticmethod
    def from_bytes(data: bytes, where: str) -> Manifest:
        """Read a manifest's file; ``where`` is for the error that says why it is rejected."""
        try:
            outer = Fields(parse(data))
            kind, version = outer.get("format", ""), outer.get("version", None)
            body = outer.get("body", None)
            whole = _digest(_text(body)) == outer.get("sha256", "")
        except (Malformed, RecursionError) as error:
            raise CheckpointCorrupted(
                f"{where} is truncated or not the manifest of a checkpoint ({error}). Use the checkpoint before it."
            ) from error
        if kind != FORMAT:
            raise CheckpointCorrupted(f"{where} is not the manifest of a Funken checkpoint. Give the path of one.")
        claimed = body.get("version", version) if isinstance(body, dict) else version
        if type(version) is not int or (whole and claimed != version):
            raise CheckpointCorrupted(
                f"{where} is not what was written: its version is changed. Use the checkpoint before it."
            )
        if version > VERSION:
            raise CheckpointIncompatible(
                f"{where} was written by a newer version of Funken (format {version}, this one reads up to {VERSION}). "
                "Upgrade Funken, or use a checkpoint that an older version wrote."
            )
        if not whole:
            raise CheckpointCorrupted(
                f"{where} is not what was written: its checksum does not fit. Use the checkpoint before it."
            )
        try:
            return _manifest(Fields(body, "body"))
        except Malformed as error:
            raise CheckpointCorrupted(f"{where} is malformed: field {error}. Use the checkpoint before it.") from error


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _operator_to_json(operator: OperatorEntry) -> dict[str, Any]:
    return {
        "id": operator.id,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "uid": operator.uid,
        "subtasks": [handle_to_json(handle) for handle in operator.subtasks],
    }


def _manifest(body: Fields) -> Manifest:
    operators = tuple(_operator(entry, at) for at, entry in body.items("operators"))
    ids = [operator.id for operator in operators]
    if len(set(ids)) < len(ids):
        raise Malformed(f"{body.at('operators')}: several have the same id")
    kind = body.text("kind")
    if kind not in _KINDS:
        raise Malformed(f"{body.at('kind')}: {kind[:60]!r} is none of {', '.join(_KINDS)}")
    return Manifest(
        job_id=body.text("job_id"),
        job_name=body.text("job_name"),
        checkpoint=CheckpointId(body.number("checkpoint")),
        kind=_KINDS[kind],
        time=Millis(body.number("time", least=-LARGEST)),
        operators=operators,
        enumerators={name: as_bytes(data, at) for at, name, data in body.entries("enumerators")},
        epoch=body.number("epoch") if "epoch" in body else 0,
    )


def _operator(entry: Any, path: str) -> OperatorEntry:
    fields = Fields(entry, path)
    parallelism, max_parallelism = fields.number("parallelism"), fields.number("max_parallelism")
    subtasks = tuple(handle_from_json(handle, at, max_parallelism) for at, handle in fields.items("subtasks"))
    if len(subtasks) != parallelism:
        raise Malformed(f"{fields.at('subtasks')}: it has {len(subtasks)} of {parallelism} subtasks")
    return OperatorEntry(
        fields.text("id"), fields.text("name"), parallelism, max_parallelism, fields.flag("uid"), subtasks
    )


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
    """Return whether the manifest that is there is of an earlier epoch: this driver's scan has not found it."""
    try:
        return Manifest.from_bytes(storage.read(METADATA), storage.uri).epoch < epoch
    except CheckpointError:
        return False
