"""What a checkpoint consists of, as one JSON file: ``_metadata``, written last, and by its presence the checkpoint is.

::

    <dir>/<job id>/chk-<n>/_metadata       the manifest of checkpoint n, and what belongs to it alone beside it
    <dir>/<job id>/shared/                 what several checkpoints of the job may need
    <dir>/savepoint-<short id>/_metadata   a savepoint; everything it needs is in its folder, which may be moved

Names of blobs are relative to the job's folder, those of a savepoint to its own. The file says its format version and
the SHA-256 of its body; one that is truncated, changed, or of a newer version is refused with the reason.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from funken.checkpoint.events import Kind
from funken.checkpoint.handles import Blob, SubtaskHandle, handle_from_json, handle_to_json
from funken.errors import CheckpointCorrupted, CheckpointIncompatible
from funken.ids import CheckpointId, Millis

VERSION = 2
"""The newest format that can be read; 2 has databases, and is written only where there is one."""

FORMAT = "funken-checkpoint"
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
    """An operator: ``id`` is what its state is found by, ``uid`` tells whether the program chose it."""

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
    """A complete checkpoint or savepoint; ``enumerators`` are the pickled snapshots of the sources, by operator id."""

    job_id: str
    job_name: str
    checkpoint: CheckpointId
    kind: Kind
    time: Millis
    operators: tuple[OperatorEntry, ...]
    enumerators: Mapping[str, bytes] = field(default_factory=dict)

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
        body = _text(self._to_json())
        files = any(handle.files for operator in self.operators for handle in operator.subtasks)
        head = _text({"format": FORMAT, "version": 2 if files else 1, "sha256": _digest(body)})
        return f'{head[:-1]},"body":{body}}}\n'.encode()

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
        }

    @staticmethod
    def from_bytes(data: bytes, where: str) -> Manifest:
        """Read a manifest's file; ``where`` is for the error that says why it is refused."""
        try:
            outer = json.loads(data)
        except ValueError as error:
            raise CheckpointCorrupted(
                f"{where} is truncated or not the manifest of a checkpoint ({error}). Use the checkpoint before it."
            ) from error
        if not isinstance(outer, dict) or outer.get("format") != FORMAT:
            raise CheckpointCorrupted(f"{where} is not the manifest of a Funken checkpoint. Give the path of one.")
        version = outer.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise CheckpointIncompatible(
                f"{where} was written by a newer version of Funken (format {version}, this one reads up to {VERSION}). "
                "Upgrade Funken, or use a checkpoint that an older version wrote."
            )
        body = outer.get("body")
        if _digest(_text(body)) != outer.get("sha256"):
            raise CheckpointCorrupted(
                f"{where} is not what was written: its checksum does not fit. Use the checkpoint before it."
            )
        try:
            return _manifest(body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointCorrupted(
                f"{where} lacks something that a manifest has ({type(error).__name__}: {error})."
            ) from error


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


def _manifest(body: Any) -> Manifest:
    return Manifest(
        job_id=str(body["job_id"]),
        job_name=str(body["job_name"]),
        checkpoint=CheckpointId(int(body["checkpoint"])),
        kind=Kind(body["kind"]),
        time=Millis(int(body["time"])),
        operators=tuple(_operator(entry) for entry in body["operators"]),
        enumerators={name: base64.b64decode(data) for name, data in body["enumerators"].items()},
    )


def _operator(entry: dict[str, Any]) -> OperatorEntry:
    operator = OperatorEntry(
        id=str(entry["id"]),
        name=str(entry["name"]),
        parallelism=int(entry["parallelism"]),
        max_parallelism=int(entry["max_parallelism"]),
        uid=bool(entry["uid"]),
        subtasks=tuple(handle_from_json(handle) for handle in entry["subtasks"]),
    )
    if len(operator.subtasks) != operator.parallelism:
        raise ValueError(f"operator {operator.name!r} has {len(operator.subtasks)} of {operator.parallelism} subtasks")
    return operator
