"""Where the state of one subtask is: what a task acknowledges a checkpoint with, and what it is given to start from.

A *blob* is one file, or a few bytes in the manifest itself. It holds a segment per key group, or a segment per item (a
list of an operator, say); each has an offset and a CRC, so that a restore reads only what it needs, and notices what
is broken. Names are relative to the folder of the job, or of the savepoint.
"""

from __future__ import annotations

import base64
import enum
import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

from funken.checkpoint.store.fields import LARGEST, Fields, Malformed, as_list, as_number, as_text
from funken.dataclass import dataclass
from funken.io.shapes import Shape
from funken.state.descriptors import StateKind

INFLIGHT = "inflight"
"""How the names of items begin that hold records in flight."""


class RedistributeMode(enum.Enum):
    """How an item that is not keyed is redistributed when the number of subtasks changes.

    While their number is the same, every subtask gets its own item back, but for ``UNION``.
    """

    SPLIT = "split"  # a list: its elements go round robin
    UNION = "union"  # a list: every subtask gets the elements of all
    COPY = "copy"  # all subtasks have the same: each gets one
    KEYED = "keyed"  # a list: every subtask gets the elements of all, and drops those of keys that are not its own
    OWN = "own"  # of this subtask alone: cannot be dealt out


_SPREADS = {spread.value: spread for spread in RedistributeMode}
_KINDS = frozenset(kind.value for kind in StateKind)


class GroupSegment(NamedTuple):
    """The part of a blob that belongs to a key group."""

    group: int
    offset: int
    length: int
    crc: int


class StateItem(NamedTuple):
    """The part of a blob that belongs to no key; ``elements`` is the number of elements of a list."""

    name: str
    redistribute: RedistributeMode
    elements: int
    offset: int
    length: int
    crc: int

    @property
    def internal(self) -> bool:
        """Whether it is the engine's own, and not the program's."""
        return "/(" in self.name


@dataclass(frozen=True, slots=True)
class Blob:
    """A file, by name, or its content (``data``) if that is small."""

    name: str
    length: int
    sha256: str
    groups: tuple[GroupSegment, ...] = ()
    items: tuple[StateItem, ...] = ()
    data: bytes | None = None

    def fits(self, content: bytes) -> bool:
        """Return whether this is what was written."""
        return len(content) == self.length and hashlib.sha256(content).hexdigest() == self.sha256


SavedClass: TypeAlias = tuple[str, Shape]
"""A table or item, and a class that it has objects of."""

NamedBlob: TypeAlias = tuple[str, Blob]
"""A file of a database, by the database's own name."""


@dataclass(frozen=True, slots=True)
class SubtaskHandle:
    """Where the state of one subtask of an operator is.

    ``parts`` hold keyed state: the first is complete, each further one changes what those before it say. If keyed state was
    in a database, its ``files`` hold that, and parts what else belongs to keys. ``own`` holds what is not keyed.
    ``states`` are the names of keyed states, each with its kind and lifetime (ms). ``committables`` is what the sink prepared
    and the driver has not committed for certain, as a pickled list. ``finished``: the subtask has ended with its input, and
    is not to run again. ``classes`` are the classes that its state may have objects of, each with the table that has them.
    """

    parts: tuple[Blob, ...] = ()
    own: Blob | None = None
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    committables: bytes = b""
    finished: bool = False
    files: tuple[NamedBlob, ...] = ()
    classes: frozenset[SavedClass] = frozenset()

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """All blobs."""
        own = () if self.own is None else (self.own,)
        return (*self.parts, *own, *(blob for _, blob in self.files))

    @property
    def stateful(self) -> bool:
        """Whether there is anything that the program would miss; items named ``.../(...)`` are the engine's own."""
        items = () if self.own is None else self.own.items
        return bool(self.parts or self.files or self.committables) or any(not item.internal for item in items)

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return sum(blob.length for blob in self.blobs) + len(self.committables)

    @property
    def in_flight(self) -> int:
        """How many bytes of it are records that a barrier has overtaken."""
        items = () if self.own is None else self.own.items
        return sum(item.length for item in items if item.name.startswith(INFLIGHT))


TaskHandles: TypeAlias = Mapping[tuple[str, int], SubtaskHandle]
"""What a task acknowledges with: a handle per operator (stable id) and subtask that it hosts."""


class StopHandles(NamedTuple):
    """What a task acknowledges with when the job is stopped with a savepoint, which is a checkpoint too."""

    checkpoint: TaskHandles
    savepoint: TaskHandles


def handle_to_json(handle: SubtaskHandle) -> dict[str, Any]:
    """Return a handle as JSON has it."""
    written: dict[str, Any] = {}
    if handle.parts:
        written["parts"] = [_blob_to_json(blob) for blob in handle.parts]
    if handle.own is not None:
        written["own"] = _blob_to_json(handle.own)
    if handle.states:
        written["states"] = handle.states
    if handle.committables:
        written["committables"] = base64.b64encode(handle.committables).decode()
    if handle.finished:
        written["finished"] = True
    if handle.files:
        written["files"] = [(name, _blob_to_json(blob)) for name, blob in handle.files]
    if handle.classes:
        written["classes"] = [[table, *shape] for table, shape in sorted(handle.classes)]
    return written


def _blob_to_json(blob: Blob) -> dict[str, Any]:
    written: dict[str, Any] = {"name": blob.name, "length": blob.length, "sha256": blob.sha256}
    if blob.groups:
        written["groups"] = blob.groups
    if blob.items:
        written["items"] = [(*item[:1], item.redistribute.value, *item[2:]) for item in blob.items]
    if blob.data is not None:
        written["data"] = base64.b64encode(blob.data).decode()
    return written


def handle_from_json(entry: Any, path: str = "", max_parallelism: int = LARGEST) -> SubtaskHandle:
    """Read a handle, which is at a path of its manifest; one that is not what it should be raises ``Malformed``."""
    fields = Fields(entry, path)
    return SubtaskHandle(
        parts=tuple(_blob(blob, at, max_parallelism) for at, blob in fields.items("parts", [])),
        own=_blob(fields.get("own"), fields.at("own"), max_parallelism) if "own" in fields else None,
        states={name: _state(about, at) for at, name, about in fields.entries("states", {})},
        committables=fields.content("committables", ""),
        finished=fields.flag("finished", False),
        files=tuple(_file(file, at, max_parallelism) for at, file in fields.items("files", [])),
        classes=frozenset(_class(each, at) for at, each in fields.items("classes", [])),
    )


def _class(each: Any, path: str) -> SavedClass:
    *texts, names = as_list(each, path, 5)
    if not isinstance(names, list):
        raise Malformed(f"{path}[4]: it is no list of fields")
    table, module, name, form = (as_text(text, path) for text in texts)
    return table, Shape(module, name, form, tuple(as_text(field, path) for field in names))


def _state(about: Any, path: str) -> dict[str, Any]:
    fields = Fields(about, path)
    kind, ttl = fields.text("kind"), fields.get("ttl")
    if kind not in _KINDS:
        raise Malformed(f"{fields.at('kind')}: {kind[:60]!r} is no kind of state")
    return {"kind": kind, "ttl": None if ttl is None else as_number(ttl, fields.at("ttl"))}


def _file(file: Any, path: str, max_parallelism: int) -> NamedBlob:
    name, blob = as_list(file, path, 2)
    name = as_text(name, f"{path}[0]")
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise Malformed(f"{path}[0]: {name[:60]!r} leads out of the folder of a database")
    return name, _blob(blob, f"{path}[1]", max_parallelism)


def _blob(entry: Any, path: str, max_parallelism: int) -> Blob:
    fields = Fields(entry, path)
    name, length = fields.text("name"), fields.number("length")
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise Malformed(f"{fields.at('name')}: {name[:60]!r} leads out of the checkpoint's folder")
    data = fields.content("data") if "data" in fields else None
    if data is not None and len(data) != length:
        raise Malformed(f"{fields.at('data')}: it has {len(data)} bytes instead of {length}")
    if data is None and not name:
        raise Malformed(f"{fields.at('name')}: it is empty, and there is no content either")
    groups = tuple(
        GroupSegment(*(as_number(number, at) for number in as_list(segment, at, 4)))
        for at, segment in fields.items("groups", [])
    )
    items = tuple(_item(item, at) for at, item in fields.items("items", []))
    ends = [segment.offset + segment.length for segment in groups] + [item.offset + item.length for item in items]
    if max(ends, default=0) > length:
        raise Malformed(f"{path}: a segment ends at {max(ends)} of {length} bytes")
    if any(segment.group >= max_parallelism for segment in groups):
        raise Malformed(f"{path}: it has key groups beyond the maximum parallelism, {max_parallelism}")
    return Blob(name, length, fields.text("sha256"), groups, items, data)


def _item(item: Any, path: str) -> StateItem:
    name, redistribute, *numbers = as_list(item, path, 6)
    if as_text(redistribute, f"{path}[1]") not in _SPREADS:
        raise Malformed(f"{path}[1]: it is none of {', '.join(_SPREADS)}")
    return StateItem(
        as_text(name, f"{path}[0]"), _SPREADS[redistribute], *(as_number(number, path) for number in numbers)
    )
