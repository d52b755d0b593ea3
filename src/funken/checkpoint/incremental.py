"""Incremental snapshots of one operator subtask: a complete part, and parts with what changed since.

``snapshot`` pickles, in the task's own thread, between two records; state that supports it is left to a
``Materialization``, which is complete before the next snapshot. ``write_snapshot`` does the rest, in a background
thread, for one snapshot after the other, in order; an aborted snapshot need not be written. Together they keep these
invariants:

* the parts of the last snapshot, applied in order, are the state as it was at the last snapshot that was written;
* the changes of a snapshot are never lost: until they are written, every later write contains them;
* if parts turn out to be corrupted, ``wants_complete`` requires a complete snapshot, and incremental ones fail until then;
* there are never more than ``max_parts`` parts. When one too many comes, the newest are merged, older ones only while they
  are not much larger, so that what is written again in all grows with the logarithm of the state.

So the live state is never pickled in full, except for the very first snapshot and after such damage. Merging reads parts back
from the storage; a savepoint is a merge of all parts into one file of its own; and a subtask that was restored goes on
from the parts it was restored from, after merging what is its own of them into the job's folder where they are not its
own already.

What makes it safe to name blobs of earlier checkpoints, aborted ones included: the driver deletes a shared blob only once
a checkpoint that is not older than the blob is complete and does not name it. Nothing that this subtask writes after
that one names it either.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar
from uuid import uuid4

from funken.checkpoint.store.blobs import (
    ALL,
    SECTIONS,
    SHARED,
    Blob,
    BlobReader,
    Change,
    ItemData,
    NamedBlob,
    SavedClass,
    SubtaskHandle,
    SubtaskState,
    changes_of,
    encode_frames,
    fold,
    folder_of,
    items_of,
    state_pickler,
    write_blob,
)
from funken.checkpoint.store.databases import is_table, joined, segments_of, write_files
from funken.dataclass import dataclass
from funken.errors import CheckpointError, StorageFailed
from funken.ids import CheckpointId
from funken.io.storage import Storage
from funken.state.delta_tables import GroupedSnapshot, PendingSection, SnapshotWriter
from funken.state.rocksdb.backend import DatabaseSnapshot

# ---- Materialization: the state of a snapshot that is pickled step by step while the task processes records.
#
# All of it happens in the task's thread, between blocks of records. The frames of a step go to those of their key
# group; what is gone comes before all rows, since a slot may be in both (a window that fired and came again).
#
# Nothing here refers back to what refers to it: a cycle would keep the bytes of a snapshot until Python's cyclic
# collector passes, which in a job of few records is a hundred checkpoints later.


Segments = dict[int, list[bytes]]
"""The frames of each key group, in pieces."""


_AT_ONCE = 5000


class Materialization:
    """The state of a snapshot that is not pickled yet, by section in ``pending``; its frames go to ``segments``."""

    def __init__(self, pending: Mapping[str, PendingSection], segments: Segments, dumps: Dumps) -> None:
        self._writers = {section: part.writer for section, part in pending.items()}
        self._steps = chain.from_iterable(part.steps for part in pending.values())
        self._segments = segments
        self._frames = _Frames(dumps)
        self.open = True
        for section, writer in self._writers.items():
            writer.spill = partial(self._frames.add, section)

    def step(self, rows: int) -> None:
        """Pickle the rows that were preserved, and about so many more."""
        for _ in self._steps:
            if sum(writer.count for writer in self._writers.values()) >= rows:
                break
        else:
            self.open = False
        for section, writer in self._writers.items():
            self._frames.add(section, writer)
        if not self.open:
            self._frames.move_to(self._segments)

    def finish(self) -> None:
        """Complete the materialization."""
        while self.open:
            self.step(_AT_ONCE)


class _Frames:
    """The pickled state so far, by key group: deleted keys and rows apart."""

    def __init__(self, dumps: Dumps) -> None:
        self._dumps = dumps
        self._rows: Segments = {}
        self._gone: Segments = {}

    def add(self, section: str, writer: SnapshotWriter) -> None:
        """Pickle the changes of a writer."""
        rows, gone = writer.take()
        for group, tables in rows.items():
            pieces = self._rows.setdefault(group, [])
            pieces += [
                encode_frames(section + name, Change(False, found, ()), self._dumps) for name, found in tables.items()
            ]
        for group, tables in gone.items():
            pieces = self._gone.setdefault(group, [])
            pieces += [
                encode_frames(section + name, Change(False, (), found), self._dumps) for name, found in tables.items()
            ]

    def move_to(self, segments: Segments) -> None:
        """Append all frames, deletions first."""
        for group, pieces in chain(self._gone.items(), self._rows.items()):
            segments.setdefault(group, []).extend(pieces)
        self._gone, self._rows = {}, {}


T = TypeVar("T")
Dumps = Callable[[object, str], bytes]

_NEVER = -2


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """Options for writing state; ``unique`` returns names that are unique, also among attempts.

    ``materialize_rows`` is how many rows are pickled between two blocks of records, 0: as many as take a few ms.
    """

    incremental: bool = True
    inline_below: int = 20 * 1024
    max_parts: int = 8
    unique: Callable[[], str] = lambda: uuid4().hex
    materialize_rows: int = 0


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """A snapshot of an operator subtask, pickled but for its ``rest``, and not yet written; ``final``: the subtask has ended."""

    checkpoint: CheckpointId
    number: int
    generation: int
    groups: Segments
    items: list[ItemData]
    states: dict[str, dict[str, object]]
    committables: bytes = b""
    final: bool = False
    database: DatabaseSnapshot | None = None
    rest: Materialization | None = None

    @property
    def materialized(self) -> bool:
        """True if nothing is left to materialize."""
        return self.rest is None or not self.rest.open


class Origin(NamedTuple):
    """The snapshot from which a part of a subtask's key groups was restored."""

    storage: Storage
    parts: tuple[Blob, ...]
    groups: range


@dataclass(slots=True)
class IncrementalSnapshots:
    """The snapshots of one subtask of one operator.

    >>> from funken.state.delta_tables import KeyedSnapshot
    >>> from funken.testing.memory_storage import MemoryStorage
    >>> lineage, storage = IncrementalSnapshots("count", 0), MemoryStorage()
    >>> states = {"n": {"kind": "value", "ttl": None}}
    >>> rows = {7: {"n": [("a", None, 1), ("b", None, 1)]}}
    >>> first = SubtaskState(keyed=KeyedSnapshot(128, rows, states=states))
    >>> handle = lineage.write(lineage.snapshot(first, CheckpointId(1)), storage)
    >>> changes = SubtaskState(keyed=KeyedSnapshot(128, {7: {"n": [("a", None, 2)]}}, deleted={}, states=states))
    >>> handle = lineage.write(lineage.snapshot(changes, CheckpointId(2)), storage)
    >>> [blob.length for blob in handle.parts]
    [54, 44]
    """

    operator: str
    subtask: int
    options: SnapshotOptions = field(default_factory=SnapshotOptions)
    #: the parts of the last snapshot written, oldest first
    parts: tuple[Blob, ...] = ()
    #: what those parts are to be made of, before anything else is written
    _origins: tuple[Origin, ...] = ()
    #: what was snapshotted and not written, by number, with its generation; both threads change it, an entry at a time
    _carried: dict[int, tuple[int, Segments]] = field(default_factory=dict)
    _snapshots: int = 0
    #: by section, the key groups of which parts may contain tables that ``_digests`` does not have
    _unknown: dict[str, set[int]] = field(default_factory=dict)
    #: by group, of each table that may be there: how it was pickled when it came whole; empty if changes came since
    _digests: dict[int, dict[str, bytes]] = field(default_factory=dict)
    #: increased when parts turn out to be corrupted; earlier snapshots cannot be written then
    _generation: int = 0
    #: the table files of the last snapshot of a database that are in the job's folder, by the database's own names
    _files: dict[str, Blob] = field(default_factory=dict)
    #: the generation that has a complete state to build on
    _begun: int = -1
    #: the generation that ``parts`` are of; of the background
    _of_parts: int = 0
    #: the classes that the state may have objects of
    classes: dict[SavedClass, None] = field(default_factory=dict)

    @property
    def dumps(self) -> Dumps:
        """A function that pickles a table or an item, and takes note of the classes."""
        return state_pickler(
            self.operator, self.subtask, lambda table, shape: self.classes.setdefault((table, shape), None)
        )

    def resume(self, origins: Sequence[Origin], exact: bool, files: Iterable[NamedBlob] = ()) -> None:
        """Continue from this subtask's restored snapshots, before the first snapshot.

        ``exact``: it is at most one origin, in the folder of this very job, with exactly this subtask's key groups. Then its
        database, if there is one, was opened from ``files``.
        """
        if not self.options.incremental:
            return
        self._begun = self._generation
        there = {s.group for o in origins for blob in o.parts for s in blob.groups if s.group in o.groups}
        self._unknown = {section: set(there) for section in SECTIONS}
        if exact:
            self.parts = tuple(blob for origin in origins for blob in origin.parts)
            self._files = {name: blob for name, blob in files if is_table(name)}
        else:
            self._origins = tuple(sorted(origins, key=lambda origin: origin.groups.start))

    # ---- in the task's thread

    def begin_anew(self) -> None:
        """Build on nothing that was written until now: it was removed. The next snapshot is complete."""
        self._generation += 1

    @property
    def wants_complete(self) -> bool:
        """True if the next snapshot must be complete; else it may have only the changes since the last one."""
        return not self.options.incremental or self._begun != self._generation

    def snapshot(
        self, state: SubtaskState, checkpoint: CheckpointId, committables: Sequence[object] = (), final: bool = False
    ) -> OperatorSnapshot:
        """Pickle a snapshot; of complete tables, only the difference from the last one.

        ``final`` is for a subtask that has ended; ``checkpoint`` is then greater than any that it has taken part in.
        """
        generation = self._generation  # read once: the background may raise it meanwhile
        dumps, changes, whole = self.dumps, changes_of(state), whole_sections(state)
        if not self.options.incremental or self._begun != generation:
            self._digests.clear()
            if is_complete(state, changes):
                self._begun = generation
            else:
                generation = _NEVER
        unknown = set[int]().union(*(self._unknown.get(section, ()) for section in whole))
        groups: Segments = {}
        for group in sorted(changes.keys() | self._digests.keys() | unknown):
            data = self._snapshot_group(group, changes.get(group, {}), whole, dumps)
            if data:
                groups[group] = [data]
        states = {} if state.keyed is None else state.keyed.states
        prepared = dumps(list(committables), "committables") if committables else b""
        self._snapshots += 1
        if self.options.incremental:
            self._carried[self._snapshots] = generation, groups
        items = items_of(state, dumps)
        rest = Materialization(state.held, groups, dumps) if state.held else None
        return OperatorSnapshot(
            checkpoint, self._snapshots, generation, groups, items, states, prepared, final, state.database, rest
        )

    def _snapshot_group(self, group: int, tables: dict[str, Change], whole: tuple[str, ...], dumps: Dumps) -> bytes:
        """Pickle the changes of a group's tables, and note their present state."""
        empty = Change(True, (), ())
        written: list[bytes] = []
        for section in whole:
            if group in self._unknown.get(section, ()):
                self._unknown[section].discard(group)
                written.append(encode_frames(ALL + section, empty, dumps))
        known = self._digests.setdefault(group, {})
        for table in [table for table in known if table not in tables and table.startswith(whole)]:
            del known[table]
            written.append(encode_frames(table, empty, dumps))
        for table in sorted(tables):
            data = encode_frames(table, tables[table], dumps)
            digest = hashlib.blake2b(data, digest_size=16).digest() if tables[table].whole else b""
            if not digest or known.get(table) != digest:
                written.append(data)
            known[table] = digest
        return b"".join(written)

    # ---- in the background

    def write(self, snapshot: OperatorSnapshot, storage: Storage, savepoint: Storage | None = None) -> SubtaskHandle:
        """Write a snapshot into the job's folder, or a savepoint into its own; return the handle to acknowledge with."""
        return self._written(snapshot, lambda: self._write(snapshot, storage, savepoint))

    def write_both(
        self, snapshot: OperatorSnapshot, storage: Storage, savepoint: Storage
    ) -> tuple[SubtaskHandle, SubtaskHandle]:
        """Write the snapshot that the job is stopped with, as a checkpoint and as a savepoint."""
        return self._written(
            snapshot, lambda: (self._write(snapshot, storage), self._write(snapshot, storage, savepoint))
        )

    def _written(self, snapshot: OperatorSnapshot, write: Callable[[], T]) -> T:
        assert snapshot.materialized, "the rest of a cut is pickled before it is handed over"
        if snapshot.generation != self._generation:
            raise StorageFailed(
                f"the state of operator {self.operator!r} (subtask {self.subtask}) is not saved: these are "
                "changes to a snapshot that cannot be read any more. The next snapshot is complete."
            )
        if self._of_parts != snapshot.generation:
            self._of_parts = snapshot.generation
            self.parts, self._origins, self._files = (), (), {}
        try:
            return write()
        except CheckpointError as error:
            if not isinstance(error, StorageFailed):
                self._generation += 1
            raise StorageFailed(
                f"the state of operator {self.operator!r} (subtask {self.subtask}) is not saved: {error}"
            ) from error

    def _write(self, snapshot: OperatorSnapshot, storage: Storage, savepoint: Storage | None = None) -> SubtaskHandle:
        parts = self._write_parts(snapshot, storage, savepoint)
        own = self._write_own(snapshot, storage, savepoint)
        files = self._write_files(snapshot, storage) if savepoint is None else ()
        classes = frozenset(self.classes.copy())
        return SubtaskHandle(parts, own, snapshot.states, snapshot.committables, files=files, classes=classes)

    def skip(self, snapshot: OperatorSnapshot) -> None:
        """Drop a snapshot; its changes are part of the next write, as those of a failed one are."""

    def _unwritten(self, snapshot: OperatorSnapshot) -> tuple[list[int], Segments]:
        """Return the unwritten changes up to a snapshot: the numbers of the snapshots, and their segments in order."""
        numbers = sorted(number for number in list(self._carried) if number <= snapshot.number)
        groups: Segments = {}
        for generation, of_cut in [self._carried[number] for number in numbers]:
            for group, pieces in of_cut.items() if generation == snapshot.generation else ():
                groups.setdefault(group, []).extend(pieces)
        return numbers, groups

    def _write_parts(self, snapshot: OperatorSnapshot, storage: Storage, savepoint: Storage | None) -> tuple[Blob, ...]:
        inline, unique = self.options.inline_below, self.options.unique
        in_rows = snapshot.database if savepoint else None
        if not self.options.incremental:
            if not snapshot.groups and in_rows is None:
                return ()
            name = unique() if savepoint else _prefix(snapshot) + unique()
            return _there(
                write_blob(savepoint or storage, name, self._with(in_rows, _joined(snapshot.groups)), (), inline)
            )
        shared = f"{SHARED}/{snapshot.checkpoint}-"
        dumps = self.dumps
        if self._origins:
            segments = (pair for o in self._origins for pair in merged(o.storage, o.parts, True, dumps, o.groups))
            self.parts = _there(write_blob(storage, shared + unique(), segments, (), inline))
            self._origins = ()
        numbers, groups = self._unwritten(snapshot)
        if groups:
            if len(self.parts) < self.options.max_parts:
                self.parts = (*self.parts, write_blob(storage, shared + unique(), _joined(groups), (), inline))
            else:  # merged before it is written: no checkpoint would ever name the parts
                parts = (*self.parts, write_blob(storage, "", _joined(groups), (), sys.maxsize))
                first = first_to_merge([blob.length for blob in parts])
                newest = merged(storage, parts[first:], first == 0, dumps)
                self.parts = (*parts[:first], *_there(write_blob(storage, shared + unique(), newest, (), inline)))
        for number in numbers:
            del self._carried[number]
        if savepoint is None or not (self.parts or in_rows):
            return self.parts
        whole = self._with(in_rows, merged(storage, self.parts, True, dumps))
        return _there(write_blob(savepoint, unique(), whole, (), inline))

    def _with(
        self, database: DatabaseSnapshot | None, segments: Iterable[tuple[int, bytes]]
    ) -> Iterable[tuple[int, bytes]]:
        """Return segments with the rows of a database."""
        return segments if database is None else joined(segments, segments_of(database, self.operator, self.subtask))

    def _write_files(self, snapshot: OperatorSnapshot, storage: Storage) -> tuple[NamedBlob, ...]:
        if snapshot.database is None:
            return ()
        own, unique = _prefix(snapshot), self.options.unique
        shared, known = (f"{SHARED}/{snapshot.checkpoint}-", self._files) if self.options.incremental else (own, {})
        files = write_files(
            snapshot.database, storage, known, shared + unique(), own + unique(), self.options.inline_below
        )  # fmt: skip
        self._files = {name: blob for name, blob in files.items() if is_table(name)}
        return tuple(files.items())

    def _write_own(self, snapshot: OperatorSnapshot, storage: Storage, savepoint: Storage | None) -> Blob | None:
        if not snapshot.items:
            return None
        name = self.options.unique() if savepoint else _prefix(snapshot) + self.options.unique()
        return write_blob(savepoint or storage, name, (), snapshot.items, self.options.inline_below)


def is_complete(state: SubtaskState, changes: dict[int, dict[str, Change]]) -> bool:
    """Return True if a state is complete, and not only changes."""
    parts: tuple[GroupedSnapshot | None, ...] = (state.keyed, state.timers)
    pending = (part for section, part in zip(SECTIONS, parts, strict=False) if section in state.held)
    return all(change.whole for tables in changes.values() for change in tables.values()) and not any(
        part is not None and not part.complete for part in pending
    )


def whole_sections(state: SubtaskState) -> tuple[str, ...]:
    """Return the sections of tables that a state has completely, so that entries not in it do not exist."""
    given = (
        state.keyed is not None and state.keyed.complete,
        state.timers is not None and state.timers.complete,
        state.keyed is not None,
    )
    return tuple(section for section, whole in zip(SECTIONS, given, strict=True) if whole)


def _joined(segments: Segments) -> Iterator[tuple[int, bytes]]:
    """Yield the segments in one piece each: all at once they would be there twice."""
    return ((group, b"".join(segments[group])) for group in sorted(segments))


def _there(blob: Blob) -> tuple[Blob, ...]:
    return (blob,) if blob.groups else ()


def _prefix(snapshot: OperatorSnapshot) -> str:
    return f"{SHARED}/{snapshot.checkpoint}-" if snapshot.final else f"{folder_of(snapshot.checkpoint)}/"


def first_to_merge(sizes: Sequence[int]) -> int:
    """Return from which part on to merge: the last two, and each before them at most twice as large as all after it.

    >>> first_to_merge([1000, 100, 1, 1, 1]), first_to_merge([3, 2, 1])
    (2, 0)
    """
    first = len(sizes) - 2
    total = sizes[first] + sizes[first + 1]
    while first > 0 and sizes[first - 1] <= 2 * total:
        first -= 1
        total += sizes[first]
    return first


def merged(
    storage: Storage, parts: Iterable[Blob], complete: bool, dumps: Dumps, groups: range | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield the merged segments of several parts, group by group; ``complete``: nothing precedes them."""
    parts = tuple(parts)
    readers = [BlobReader(storage, blob) for blob in parts]
    there = {segment.group for blob in parts for segment in blob.groups}
    for group in sorted(there if groups is None else there.intersection(groups)):
        tables = fold((reader.group(group) for reader in readers), storage.uri)
        changes = {name: table.change(name, complete) for name, table in tables.items()}
        said = sorted(name for name, change in changes.items() if change.rows or not complete)
        if said:
            yield group, b"".join(encode_frames(name, changes[name], dumps) for name in said)
