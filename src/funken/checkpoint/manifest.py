"""What a checkpoint consists of, as one JSON file: ``_metadata``, written last, and by its presence the checkpoint is.

::

    <dir>/<job id>/chk-<n>/_metadata       the manifest of checkpoint n, and what belongs to it alone beside it
    <dir>/<job id>/shared/                 what several checkpoints of the job may need
    <dir>/savepoint-<short id>/_metadata   a savepoint; everything it needs is in its folder, which may be moved

Names of blobs are relative to the job's folder, those of a savepoint to its own. The file says its format version and
the SHA-256 of its body; one that is truncated, changed, or of a newer version is refused with the reason.

A *blob* is one file, or a few bytes in the manifest itself. It holds a segment per key group, or a segment per item (a
list of an operator, say); each has an offset and a CRC, so that a restore reads only what it needs, and notices what
is broken.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from funken.checkpoint.events import Kind
from funken.errors import CheckpointCorrupted, CheckpointIncompatible
from funken.ids import CheckpointId, Millis

VERSION = 1
FORMAT = "funken-checkpoint"
METADATA = "_metadata"
SHARED = "shared"


def folder_of(checkpoint: CheckpointId) -> str:
    """Return the folder of a checkpoint within its job's.

    >>> folder_of(CheckpointId(3))
    'chk-3'
    """
    return f"chk-{checkpoint}"


class Spread(enum.Enum):
    """How an item that is not keyed is dealt out when there are more or fewer subtasks than before.

    While their number is the same, every subtask gets its own item back, but for ``UNION``.
    """

    SPLIT = "split"  # a list: its elements go round robin
    UNION = "union"  # a list: everybody gets the elements of all
    COPY = "copy"  # all subtasks have the same: everybody gets one
    KEYED = "keyed"  # a list: everybody gets the elements of all, and drops those of keys that are not its own
    OWN = "own"  # of this subtask alone: cannot be dealt out


class GroupSegment(NamedTuple):
    """The part of a blob that belongs to a key group."""

    group: int
    offset: int
    length: int
    crc: int


class Item(NamedTuple):
    """The part of a blob that belongs to no key; ``count`` is the number of elements of a list."""

    name: str
    spread: Spread
    count: int
    offset: int
    length: int
    crc: int


@dataclass(frozen=True, slots=True)
class Blob:
    """A file, by name, or its content (``data``) if that is small."""

    name: str
    length: int
    sha256: str
    groups: tuple[GroupSegment, ...] = ()
    items: tuple[Item, ...] = ()
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class SubtaskHandle:
    """Where the state of one subtask of an operator is.

    ``parts`` hold keyed state: the first is complete, each further one changes what those before it say. ``own`` holds
    what is not keyed. ``states`` are the names of keyed states, each with its kind and lifetime (ms). ``committables``
    is what the sink prepared and the driver has not committed for certain, as a pickled list. ``finished``: the subtask
    has ended with its input, and is not to run again.
    """

    parts: tuple[Blob, ...] = ()
    own: Blob | None = None
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    committables: bytes = b""
    finished: bool = False

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """All blobs."""
        return self.parts if self.own is None else (*self.parts, self.own)

    @property
    def empty(self) -> bool:
        """Whether there is no state at all."""
        return not self.blobs and not self.committables

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return sum(blob.length for blob in self.blobs) + len(self.committables)


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
        return any(not handle.empty for handle in self.subtasks)


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

    # ---- as bytes

    def to_bytes(self) -> bytes:
        """Return the content of the manifest's file."""
        body = _text(self._to_json())
        head = _text({"format": FORMAT, "version": VERSION, "sha256": _digest(body)})
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
        "subtasks": [_handle_to_json(handle) for handle in operator.subtasks],
    }


def _handle_to_json(handle: SubtaskHandle) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if handle.parts:
        written["parts"] = [_blob_to_json(blob) for blob in handle.parts]
    if handle.own is not None:
        written["own"] = _blob_to_json(handle.own)
    if handle.states:
        written["states"] = handle.states
    if handle.committables:
        written["committables"] = _base64(handle.committables)
    if handle.finished:
        written["finished"] = True
    return written


def _blob_to_json(blob: Blob) -> dict[str, Any]:
    written: dict[str, Any] = {"name": blob.name, "length": blob.length, "sha256": blob.sha256}
    if blob.groups:
        written["groups"] = blob.groups
    if blob.items:
        written["items"] = [(*item[:1], item.spread.value, *item[2:]) for item in blob.items]
    if blob.data is not None:
        written["data"] = _base64(blob.data)
    return written


def _manifest(body: dict[str, Any]) -> Manifest:
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
        subtasks=tuple(_handle(handle) for handle in entry["subtasks"]),
    )
    if len(operator.subtasks) != operator.parallelism:
        raise ValueError(f"operator {operator.name!r} has {len(operator.subtasks)} of {operator.parallelism} subtasks")
    return operator


def _handle(entry: dict[str, Any]) -> SubtaskHandle:
    return SubtaskHandle(
        parts=tuple(_blob(blob) for blob in entry.get("parts", ())),
        own=_blob(entry["own"]) if "own" in entry else None,
        states=entry.get("states", {}),
        committables=base64.b64decode(entry.get("committables", "")),
        finished=bool(entry.get("finished", False)),
    )


def _blob(entry: dict[str, Any]) -> Blob:
    name = str(entry["name"])
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"the name {name!r} leads out of the checkpoint's folder")
    return Blob(
        name=name,
        length=int(entry["length"]),
        sha256=str(entry["sha256"]),
        groups=tuple(GroupSegment(*map(int, segment)) for segment in entry.get("groups", ())),
        items=tuple(
            Item(str(name), Spread(spread), *map(int, numbers)) for name, spread, *numbers in entry.get("items", ())
        ),
        data=base64.b64decode(entry["data"]) if "data" in entry else None,
    )
