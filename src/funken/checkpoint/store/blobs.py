"""The state of one subtask of an operator as bytes, and back: by key group, complete or as changes.

What goes in is plain data (``SubtaskState``), as the operators' own ``snapshot`` methods return it. Keyed things become
*tables* within their key group: ``state/<name>`` with rows ``(key, namespace, stored)``, ``timers/<domain>`` with rows
``(timestamp, key, namespace)``, and ``operator`` with whatever rows the operator has per group. Everything else becomes
an *item* with a rule how it is dealt out (``RedistributeMode``).

A segment is a sequence of pickled frames ``(table, whole, rows, gone)``: ``whole`` replaces what the table was, rows
replace those of the same slot, and the slots in ``gone`` are removed. So complete state and changes have one format, and
applying segments in order gives the state. A frame has few rows, so that pickling in the background never holds the
interpreter's lock for long.

Snapshots that are *changes* have ``deleted``, shaped as ``groups``, but with slots (``(key, namespace)``, or the timers) in
place of rows.
"""

from __future__ import annotations

import enum
import hashlib
import io
import itertools
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from funken.dataclass import dataclass
from funken.errors import CheckpointCorrupted, CheckpointIncompatible, CheckpointNotFound, StateError
from funken.ids import CheckpointId
from funken.io.shapes import (
    ClassChanged,
    Find,
    Shape,
    any_adapted,
    dumps_by_value,
    dumps_state,
    is_adapted,
    load_state,
    load_stream,
)
from funken.io.storage import Storage
from funken.state.delta_tables import GroupedSnapshot, KeyedSnapshot, OperatorStates, PendingSection
from funken.state.descriptors import StateKind
from funken.state.keygroups import PLAIN, key_group_of, one_nan
from funken.state.rocksdb.backend import DatabaseSnapshot

# ---- Where the state of one subtask is: what a task acknowledges a checkpoint with, and what it is given to start
# from.
#
# A *blob* is one file, or a few bytes in the manifest itself. It holds a segment per key group, or a segment per
# item (a list of an operator, say); each has an offset and a CRC, so that a restore reads only what it needs, and
# notices what is broken. Names are relative to the folder of the job, or of the savepoint.


SHARED = "shared"
"""The folder of blobs that several checkpoints of a job may need."""
INFLIGHT = "inflight"
"""The beginning of the names of items that hold records in flight."""


def folder_of(checkpoint: CheckpointId) -> str:
    """Return the folder of a checkpoint within its job's.

    >>> folder_of(CheckpointId(3))
    'chk-3'
    """
    return f"chk-{checkpoint}"


class RedistributeMode(enum.Enum):
    """The redistribution of an item that is not keyed when the number of subtasks changes.

    While their number is the same, every subtask gets its own item back, but for ``UNION``.
    """

    SPLIT = "split"  # a list: its elements go round robin
    UNION = "union"  # a list: every subtask gets the elements of all
    COPY = "copy"  # all subtasks have the same: each gets one
    KEYED = "keyed"  # a list: every subtask gets the elements of all, and drops those of keys that are not its own
    OWN = "own"  # of this subtask alone: cannot be dealt out


_KINDS = [kind.value for kind in StateKind]


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
        """True if the item is the engine's own, and not the program's."""
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
        """Return True if this content is the one written."""
        return len(content) == self.length and hashlib.sha256(content).hexdigest() == self.sha256


SavedClass: TypeAlias = tuple[str, Shape]
"""A table or item, and a class that it has objects of."""

NamedBlob: TypeAlias = tuple[str, Blob]
"""A file of a database, by the database's own name."""


@dataclass(frozen=True, slots=True)
class SubtaskHandle:
    """A handle of the stored state of one subtask of an operator.

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
        """True if there is anything that the program would miss; items named ``.../(...)`` are the engine's own."""
        items = () if self.own is None else self.own.items
        return bool(self.parts or self.files or self.committables) or any(not item.internal for item in items)

    @property
    def size(self) -> int:
        """Number of bytes of the state."""
        return sum(blob.length for blob in self.blobs) + len(self.committables)

    @property
    def in_flight(self) -> int:
        """Number of its bytes that are records overtaken by a barrier."""
        items = () if self.own is None else self.own.items
        return sum(item.length for item in items if item.name.startswith(INFLIGHT))


TaskHandles: TypeAlias = Mapping[tuple[str, int], SubtaskHandle]
"""A task's acknowledgement: a handle per operator (stable id) and subtask that it hosts."""


class StopHandles(NamedTuple):
    """The acknowledgement of a task when the job is stopped with a savepoint, which is a checkpoint too."""

    checkpoint: TaskHandles
    savepoint: TaskHandles


def check_handle(handle: SubtaskHandle, max_parallelism: int) -> None:
    """Raise ``ValueError`` for a handle that was read and cannot be right: it would lead elsewhere, or beyond its blobs."""
    for name, about in handle.states.items():
        if about.get("kind") not in _KINDS or not isinstance(about.get("ttl"), int | None):
            raise ValueError(f"state {name!r} has no type, or no lifetime: {about!r:.80}")
    for name, _ in handle.files:
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError(f"{name[:60]!r} leads out of the folder of a database")
    for blob in handle.blobs:
        _check_blob(blob, max_parallelism)


def _check_blob(blob: Blob, max_parallelism: int) -> None:
    name = blob.name[:60]
    if blob.name.startswith("/") or ".." in blob.name.split("/") or "\0" in blob.name:
        raise ValueError(f"{name!r} leads out of the checkpoint's folder")
    check_numbers(f"blob {name!r}", blob.length, *itertools.chain(*blob.groups, *(item[2:] for item in blob.items)))
    if blob.data is None and not blob.name:
        raise ValueError("a blob has no name, and there is no content either")
    if blob.data is not None and len(blob.data) != blob.length:
        raise ValueError(f"the content of a blob has {len(blob.data)} bytes instead of {blob.length}")
    ends = [each.offset + each.length for each in blob.groups] + [each.offset + each.length for each in blob.items]
    if max(ends, default=0) > blob.length:
        raise ValueError(f"blob {name!r}: a segment ends at {max(ends)} of {blob.length} bytes")
    if any(segment.group >= max_parallelism for segment in blob.groups):
        raise ValueError(f"blob {name!r}: it has key groups beyond the maximum parallelism, {max_parallelism}")


def check_numbers(place: str, *numbers: int) -> None:
    """Raise ``ValueError`` unless numbers are from 0 to the largest of 64 bits."""
    if not all(0 <= number < 2**63 for number in numbers):
        raise ValueError(f"{place}: a number is below 0, or beyond 64 bits")


MAGIC = b"FNKS\x01"
_FRAME_ROWS = 1000
_WINDOW = 4 * 2**20
SECTIONS = _STATE, _TIMERS, _OPERATOR = "state/", "timers/", "operator"
"""The beginning of the names of tables."""

ALL = "*"
"""In front of such a beginning: every table with it; such a frame only ever empties them."""

_MODES = {"split": RedistributeMode.SPLIT, "union": RedistributeMode.UNION, "broadcast": RedistributeMode.COPY}
"""The parts of ``OperatorStates``: an item of one is called ``state/<part>/<name>``."""
_INFLIGHT = {"inflight": RedistributeMode.SPLIT, "inflight_keyed": RedistributeMode.KEYED}


@dataclass(slots=True)
class SubtaskState:
    """All that a subtask must not lose, as plain data.

    ``keyed`` and ``timers`` are what ``KeyedStateStore`` and ``InternalTimerService`` give and take; ``operator`` is what
    ``Operator.snapshot`` returns: of a keyed operator a dict of lists by key group, else a list that may be split anywhere,
    or something that cannot be rescaled. ``inflight`` are records that a barrier overtook; those that only the owner of
    their key may take are in ``inflight_keyed``.
    ``database`` has all keyed state if the backend keeps it in files; ``keyed`` says that nothing changed then. ``pending`` is
    what is not in ``keyed`` and ``timers`` yet, by section (``"state/"``, ``"timers/"``).
    """

    keyed: KeyedSnapshot | None = None
    timers: GroupedSnapshot | None = None
    operator: Any = None
    operator_state: OperatorStates = field(default_factory=OperatorStates)
    inflight: list[Any] = field(default_factory=list)
    inflight_keyed: list[Any] = field(default_factory=list)
    database: DatabaseSnapshot | None = None
    held: dict[str, PendingSection] = field(default_factory=dict)


class Change(NamedTuple):
    """The changes of one table in a segment."""

    whole: bool
    rows: Sequence[Any]
    gone: Sequence[Any]


class ItemData(NamedTuple):
    """An item, pickled."""

    name: str
    redistribute: RedistributeMode
    elements: int
    data: bytes


# ---- from state to bytes


def changes_of(state: SubtaskState) -> dict[int, dict[str, Change]]:
    """Return the keyed state, by group and table."""
    groups: dict[int, dict[str, Change]] = {}
    sections: tuple[tuple[str, GroupedSnapshot | None], ...] = ((_STATE, state.keyed), (_TIMERS, state.timers))
    for prefix, snapshot in sections:
        if snapshot is None:
            continue
        deleted = snapshot.deleted or {}
        for group in sorted(snapshot.groups.keys() | deleted.keys()):
            put, gone = snapshot.groups.get(group, {}), deleted.get(group, {})
            for name in put.keys() | gone.keys():
                change = Change(snapshot.complete, put.get(name, ()), gone.get(name, ()))
                groups.setdefault(group, {})[prefix + name] = change
    if state.keyed is not None and is_grouped(state.operator):
        for group, rows in state.operator.items():
            groups.setdefault(group, {})[_OPERATOR] = Change(True, rows, ())
    return groups


def is_grouped(value: Any) -> bool:
    """Return True if an operator's snapshot is by key group."""
    return isinstance(value, dict) and all(
        isinstance(group, int) and isinstance(rows, list) for group, rows in value.items()
    )


def items_of(state: SubtaskState, dumps: Callable[[Any, str], bytes]) -> list[ItemData]:
    """Return the state that is not keyed; empty items are left out."""
    items: list[tuple[str, RedistributeMode, Any]] = []
    if state.operator is not None and not (state.keyed is not None and is_grouped(state.operator)):
        redistribute = RedistributeMode.SPLIT if isinstance(state.operator, list) else RedistributeMode.OWN
        items.append((_OPERATOR, redistribute, state.operator))
    for part, redistribute in _MODES.items():
        states = getattr(state.operator_state, part).items()
        items += [(f"{_STATE}{part}/{name}", redistribute, value) for name, value in states]
    items += [(name, redistribute, getattr(state, name)) for name, redistribute in _INFLIGHT.items()]
    return [
        ItemData(name, redistribute, len(value) if hasattr(value, "__len__") else 1, dumps(value, name))
        for name, redistribute, value in items
        if redistribute is RedistributeMode.OWN or value
    ]


def encode_frames(table: str, change: Change, dumps: Callable[[Any, str], bytes]) -> bytes:
    """Return a table's frames."""
    if len(change.rows) + len(change.gone) <= _FRAME_ROWS:
        return dumps((table, change.whole, change.rows, change.gone), table)
    rows = change.rows
    chunks = (rows[start : start + _FRAME_ROWS] for start in range(0, len(rows), _FRAME_ROWS))
    first = dumps((table, change.whole, (), change.gone), table)
    return b"".join([first, *(dumps((table, False, chunk, ()), table) for chunk in chunks)])


def state_pickler(
    operator: str, subtask: int, met: Callable[[str, Shape], None] = lambda table, shape: None
) -> Callable[[Any, str], bytes]:
    """Return a function that pickles a table or an item; ``met`` is called with the shapes of its classes."""

    def pickled(value: Any, table: str) -> bytes:
        try:
            return dumps_state(value, partial(met, table))
        except Exception:  # noqa: BLE001 - whatever a user's __reduce__ raises; the retry reports it
            return dumps_by_value(value, _not_saved, table, operator, subtask)

    return pickled


def _not_saved(error: Exception, table: str, operator: str, subtask: int) -> StateError:
    return StateError(
        f"operator {operator!r} (subtask {subtask}): {table.removeprefix(_STATE)!r} cannot be saved in a checkpoint: "
        f"{type(error).__name__}: {error}. Keep plain data in state, and open files, locks and connections in open()."
    )


def write_blob(
    storage: Storage,
    name: str,
    groups: Iterable[tuple[int, bytes]] = (),
    items: Iterable[ItemData] = (),
    inline_below: int = 0,
) -> Blob:
    """Write segments as a file, piece by piece; if they are few bytes they stay in the blob itself."""
    of_groups: list[GroupSegment] = []
    of_items: list[StateItem] = []
    digest, size = hashlib.sha256(MAGIC), len(MAGIC)

    def chunks() -> Iterator[bytes]:
        nonlocal size
        yield MAGIC
        for group, data in groups:
            of_groups.append(GroupSegment(group, size, len(data), zlib.crc32(data)))
            digest.update(data)
            size += len(data)
            yield data
        for item in items:
            of_items.append(
                StateItem(item.name, item.redistribute, item.elements, size, len(item.data), zlib.crc32(item.data))
            )
            digest.update(item.data)
            size += len(item.data)
            yield item.data

    stream, pending = chunks(), []
    for chunk in stream:
        pending.append(chunk)
        if size > inline_below:
            storage.write(name, itertools.chain(pending, stream))
            return Blob(name, size, digest.hexdigest(), tuple(of_groups), tuple(of_items))
    return Blob("", size, digest.hexdigest(), tuple(of_groups), tuple(of_items), b"".join(pending))


# ---- from bytes to state


class BlobReader:
    """Reads segments of one blob, several at a time if they are neighbours, and checks each."""

    def __init__(self, storage: Storage, blob: Blob) -> None:
        self._storage = storage
        self._blob = blob
        self._start = 0
        self._window = blob.data or b""
        self._groups = {segment.group: segment for segment in blob.groups}

    def group(self, group: int) -> bytes:
        """Return the segment of a key group; nothing if the blob has none."""
        segment = self._groups.get(group)
        return b"" if segment is None else self._read(segment, f"key group {group}")

    def item(self, item: StateItem, find: Find | None = None) -> Any:
        """Return an item; ``find`` finds classes in place of Python."""
        data, where = self._read(item, item.name), f"{self._storage.uri}/{self._blob.name}"
        try:
            return load_state(data, find)
        except Exception as error:
            raise _not_made(error, where) from error

    def _read(self, segment: GroupSegment | StateItem, what: str) -> bytes:
        begin = segment.offset - self._start
        if self._blob.data is None and not 0 <= begin <= begin + segment.length <= len(self._window):
            length = min(max(segment.length, _WINDOW), self._blob.length - segment.offset)
            try:
                self._window = self._storage.read(self._blob.name, segment.offset, length)
            except CheckpointNotFound as error:
                raise CheckpointCorrupted(f"a checkpoint is not whole: {error}") from error
            self._start, begin = segment.offset, 0
        data = self._window[begin : begin + segment.length]
        if len(data) != segment.length or zlib.crc32(data) != segment.crc:
            fact = "is truncated" if len(data) < segment.length else "is damaged"
            raise CheckpointCorrupted(
                f"{self._storage.uri}/{self._blob.name or '(in the manifest)'}: {what} {fact}. Start from the checkpoint "
                "before it."
            )
        return data


def _not_made(error: Exception, where: str) -> CheckpointIncompatible:
    if isinstance(error, ClassChanged):
        return CheckpointIncompatible(f"{where}: {error}")
    return CheckpointIncompatible(
        f"{where}: state was saved as an object that cannot be made again: {type(error).__name__}: {error}. Start with "
        "the code, and the packages, that define its class."
    )


class Folded:
    """A table while segments are applied to it, one after the other."""

    __slots__ = ("gone", "rows", "whole")

    def __init__(self) -> None:
        self.whole = False
        self.rows: dict[Any, Any] = {}
        self.gone: dict[Any, None] = {}

    def apply(self, table: str, change: Change) -> None:
        """Apply a frame."""
        if change.whole:
            self.whole = True
            self.rows.clear()
            self.gone.clear()
        timers = table.startswith(_TIMERS)
        for slot in _with_one_nan(change.gone, timers):
            self.rows.pop(slot, None)
            self.gone[slot] = None
        if table == _OPERATOR:
            self.rows.update(enumerate(change.rows, len(self.rows)))
        elif timers:
            self.rows.update(dict.fromkeys(_with_one_nan(change.rows, timers)))
        else:
            self.rows.update({row[:2]: row for row in _with_one_nan(change.rows, timers)})

    def change(self, table: str, complete: bool) -> Change:
        """Return it as one change; ``complete``: nothing is before it."""
        rows = list(self.rows) if table.startswith(_TIMERS) else list(self.rows.values())
        gone = [] if complete or self.whole else [slot for slot in self.gone if slot not in self.rows]
        return Change(self.whole or complete, rows, gone)


def _with_one_nan(rows: Collection[tuple[Any, ...]], timers: bool) -> Collection[tuple[Any, ...]]:
    """Return rows, or slots, that were unpickled with keys that are equal to those of other frames."""
    if PLAIN.issuperset(map(type, map(itemgetter(timers), rows))):
        return rows
    if timers:
        return [(at, one_nan(key), *rest) for at, key, *rest in rows]
    return [(one_nan(key), *rest) for key, *rest in rows]


def fold(segments: Iterable[bytes], where: str = "", find: Find | None = None) -> dict[str, Folded]:
    """Apply the segments of one key group, oldest first; ``find`` finds classes in place of Python."""
    tables: dict[str, Folded] = {}
    for segment in segments:
        stream = io.BytesIO(segment)
        while stream.tell() < len(segment):
            try:
                table, whole, rows, gone = load_stream(stream, find)
            except Exception as error:
                raise _not_made(error, where) from error
            change = Change(whole, rows, gone)
            if table.startswith(ALL):
                for name in [name for name in tables if name.startswith(table.removeprefix(ALL))]:
                    tables[name].apply(name, change)
            tables.setdefault(table, Folded()).apply(table, change)
    return tables


def keyed_part(group: int, tables: dict[str, Folded], max_parallelism: int, states: Any) -> SubtaskState:
    """Return the state of one key group, in the form that the stores and operators take."""
    rows = {name: table.change(name, complete=True).rows for name, table in tables.items()}
    for name, found in rows.items() if any_adapted() else ():
        if name != _OPERATOR:
            _check_keys(name, [row[name.startswith(_TIMERS)] for row in found], group, max_parallelism)

    def those(prefix: str) -> dict[int, dict[str, Any]]:
        named = {name[len(prefix) :]: found for name, found in rows.items() if name.startswith(prefix) and found}
        return {group: named} if named else {}

    return SubtaskState(
        keyed=KeyedSnapshot(max_parallelism, those(_STATE), states=dict(states)),
        timers=GroupedSnapshot(max_parallelism, those(_TIMERS)),
        operator={group: rows[_OPERATOR]} if rows.get(_OPERATOR) else None,
    )


def _check_keys(table: str, keys: Iterable[Any], group: int, max_parallelism: int) -> None:
    """Raise if a key is another one now, because its class has changed."""
    for key in keys:
        if is_adapted(key) and key_group_of(key, max_parallelism) != group:
            raise CheckpointIncompatible(
                f"{table.removeprefix(_STATE)!r}: a key is of a class that has changed, so it is another key now: {key!r:.200}. "
                "Start with the class as it was: no field of a key may change."
            )


def own_part(items: Iterable[tuple[str, Any]]) -> SubtaskState:
    """Return the state that is not keyed, from the items' names and values."""
    part = SubtaskState()
    for name, value in items:
        if name.startswith(_STATE):
            mode, _, state = name.removeprefix(_STATE).partition("/")
            if mode not in _MODES:
                raise CheckpointIncompatible(f"the operator state {name!r} has a type that this version does not know.")
            getattr(part.operator_state, mode)[state] = value
        else:
            setattr(part, name, value)
    return part
