"""Databases in checkpoints: files that are uploaded as they are and shared by checkpoints, and rows for other backends.

A snapshot of a database (``state/rocksdb``) is a set of files that never change. A checkpoint has all of them; those that an
earlier one has written already are named again and not written. A restored subtask with the same key groups opens them as
they are; one with others takes the rows of its own key groups out of each. A savepoint has no such files: its rows are in
the same form as those of any other backend, and a backend that keeps no files reads rows out of files too.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from funken.checkpoint.store.blobs import (
    INFLIGHT,
    Blob,
    BlobReader,
    Change,
    NamedBlob,
    RedistributeMode,
    StateItem,
    SubtaskHandle,
    encode_frames,
    fold,
    state_pickler,
)
from funken.checkpoint.store.completed import OperatorEntry, RestorePoint
from funken.dataclass import dataclass
from funken.errors import (
    CheckpointCorrupted,
    CheckpointError,
    CheckpointNotFound,
    KeyNotHashable,
    StateError,
    StorageFailed,
)
from funken.io.shapes import Find, Shape, load_state, record_repr
from funken.io.storage import LocalStorage, Storage
from funken.state.descriptors import StateKind
from funken.state.keygroups import key_group_of
from funken.state.rocksdb.backend import DatabaseSnapshot, RocksDBBackend
from funken.state.rocksdb.database import Database
from funken.state.rocksdb.layout import decode_key, row_parts, unpack_row
from funken.state.ttl import sweep

# ---- Reading state without all of its classes: what stands for the objects of those that cannot be imported, or do
# not fit.
#
# A *shell* has the name of the class and what the object was saved with. It runs nothing, and says in its text why
# it is there.


T = TypeVar("T")

_OWN = (
    "builtins",
    "collections",
    "copyreg",
    "datetime",
    "decimal",
    "fractions",
    "funken",
    "uuid",
    "_codecs",
    "zoneinfo",
)
"""Modules whose classes are made even if those of others are not."""


class _ShellType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls(f".{name}")


class Shell(metaclass=_ShellType):
    """Stands for an object of a class that there is not.

    >>> thing = shell_of("shop", "Order", "cannot be imported")(7)
    >>> thing.__setstate__({"price": 3})
    >>> thing
    <shop.Order, which cannot be imported: 7, price=3>
    """

    label = why = ""
    names: tuple[str, ...] = ()
    parts: list[tuple[str, Any]]

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """Note the arguments."""
        self = super().__new__(cls)
        self.__dict__["parts"] = (
            [*zip(cls.names, arguments, strict=False)] if cls.names else [("", one) for one in arguments]
        )
        self.parts += named.items()
        return self

    def __setstate__(self, state: Any) -> None:
        """Note the state."""
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = {**(state[0] or {}), **state[1]}
        if isinstance(state, list) and len(state) == len(self.names):
            state = dict(zip(self.names, state, strict=True))
        self.parts += state.items() if isinstance(state, dict) else [("", state)]

    def append(self, value: Any) -> None:
        """Note an element."""
        self.parts.append(("", value))

    def extend(self, values: Any) -> None:
        """Note elements."""
        self.parts += [("", value) for value in values]

    add = append

    def __setitem__(self, key: Any, value: Any) -> None:
        self.parts.append((repr(key), value))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Stand for the result of a method."""
        return type(self)(*arguments, **named)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={record_repr(part)}" if name else record_repr(part) for name, part in self.parts)
        return f"<{self.label}, which {self.why}{f': {shown}' if shown else ''}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shell) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


@cache
def shell_of(module: str, name: str, why: str, names: tuple[str, ...] = ()) -> Any:
    """Return the class of shells for a class; ``names`` are those of its fields."""
    return _ShellType(name, (Shell,), {"label": f"{module}.{name}", "why": why, "names": names, "__module__": __name__})


@dataclass(frozen=True)
class ShellFinder:
    """Finds classes, and shells for those that cannot be imported; with ``only_own`` for all but Python's and Funken's."""

    only_own: bool = False

    def __call__(self, module: str, name: str, /) -> Any:
        """Return a class or function, or its stand-in."""
        if (module, name) in _READING:
            return partial(load_state, find=self)
        if (module, name) == ("funken.io.shapes", "member"):
            return _member
        if self.only_own and module.partition(".")[0] not in _OWN:
            return shell_of(module, name, "cannot be made again")
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except Exception as error:  # noqa: BLE001 - whatever an import raises
            return shell_of(module, name, f"cannot be imported ({type(error).__name__}: {error})")
        return found

    def of_shape(self, cls: Any, shape: Shape) -> Any:
        """Return the class of shells that know the names of their fields."""
        return shell_of(shape.module, shape.name, cls.why, shape.fields) if isinstance(cls, _ShellType) else None

    def changed(self, shape: Shape) -> Any:
        """Return the class of shells for a class whose objects cannot be made any more."""
        return shell_of(shape.module, shape.name, "has changed since", shape.fields)


_READING = {("pickle", "loads"), ("_pickle", "loads"), ("funken.io.shapes", "load_state")}
"""Functions that read, within state."""


def _member(cls: Any, name: str, value: Any) -> Any:
    if isinstance(cls, _ShellType):
        return shell_of(cls.label, name, cls.why)(value)
    found = cls.__members__.get(name)
    return shell_of(cls.__qualname__, name, "is no member any more")(value) if found is None else found


def leniently(load: Callable[[Find], T]) -> T:
    """Return ``load``'s result with shells for classes that cannot be imported; if that fails, for all classes."""
    try:
        return load(ShellFinder())
    except Exception:  # noqa: BLE001 - whatever making an object raises
        return load(ShellFinder(only_own=True))


_CHUNK = 4 * 2**20
_FRAME_ROWS = 1000
_TABLE = ".sst"

States = Mapping[str, Mapping[str, Any]]
GroupRow = tuple[Any, Any, Any]


class DatabaseFiles(Protocol):
    """Key groups to be read from the files of one former subtask; ``whole``: these are all that it had."""

    @property
    def files(self) -> tuple[NamedBlob, ...]:
        """The files, by the database's own names."""
        ...

    @property
    def groups(self) -> range:
        """The key groups."""
        ...

    @property
    def whole(self) -> bool:
        """True if the files contain no other key groups."""
        ...


def is_table(name: str) -> bool:
    """Return True if a file has rows and never changes; the others of a database are written for each checkpoint.

    >>> is_table("000007.sst"), is_table("CURRENT")
    (True, False)
    """
    return name.endswith(_TABLE)


# ---- up


def write_files(
    snapshot: DatabaseSnapshot,
    storage: Storage,
    known: Mapping[str, Blob],
    table_name: str,
    own_name: str,
    inline_below: int,
) -> dict[str, Blob]:
    """Write the files of a snapshot that are not ``known``; return all of them, by the database's own names.

    ``table_name`` and ``own_name`` are the beginnings of the names of new files: those that later checkpoints share, and those
    that belong to this one alone.
    """
    written: dict[str, Blob] = {}
    try:
        files = snapshot.files()
    except StateError as error:
        raise StorageFailed(str(error)) from error
    try:
        for name, path in files.items():
            blob = known.get(name)
            if blob is None:
                prefix = table_name if is_table(name) else own_name
                blob = _write_file(path, storage, f"{prefix}-{name}", inline_below)
            written[name] = blob
    except BaseException:  # the disk may be full: nobody will name what was written
        for name in written.keys() - known.keys():
            with contextlib.suppress(CheckpointError):
                if written[name].data is None:
                    storage.delete(written[name].name)
        raise
    return written


def _write_file(path: str, storage: Storage, name: str, inline_below: int) -> Blob:
    digest, size = hashlib.sha256(), os.path.getsize(path)
    if size <= inline_below:
        with open(path, "rb") as file:
            content = file.read()
        return Blob("", size, hashlib.sha256(content).hexdigest(), data=content)

    def chunks() -> Iterator[bytes]:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                yield chunk

    if isinstance(storage, LocalStorage) and is_table(path) and storage.link(path, name):
        for _ in chunks():
            pass
    else:
        storage.write(name, chunks())
    return Blob(name, size, digest.hexdigest())


# ---- down


def read_files(storage: Storage, files: Iterable[NamedBlob], folder: str) -> None:
    """Put files into a folder of this machine; raises ``CheckpointCorrupted`` if one has other content than written."""
    os.makedirs(folder, exist_ok=True)
    for name, blob in files:
        if os.path.basename(name) != name:
            raise CheckpointCorrupted(f"{storage.uri}: the file {name!r} of a database leads out of its folder.")
        target = os.path.join(folder, name)
        digest, size = hashlib.sha256(), 0
        linked = blob.data is None and is_table(name) and _linked(storage, blob.name, target)
        chunks = _chunks(os.path.dirname(target), name) if linked else _content(storage, blob)
        with contextlib.nullcontext() if linked else open(target, "wb") as file:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                if file is not None:
                    file.write(chunk)
        if size != blob.length or digest.hexdigest() != blob.sha256:
            raise CheckpointCorrupted(
                f"{storage.uri}/{blob.name or name} is damaged: "
                f"{f'it has {size} bytes instead of {blob.length}' if size != blob.length else 'its checksum does not match'}. "
                "Start from the checkpoint before it."
            )


def _linked(storage: Storage, name: str, target: str) -> bool:
    if not isinstance(storage, LocalStorage):
        return False
    try:
        os.link(os.path.join(storage.uri, name), target)
    except OSError:  # another disk, or missing: reading it raises the error
        return False
    return True


def _chunks(folder: str, name: str) -> Iterator[bytes]:
    with open(os.path.join(folder, name), "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _content(storage: Storage, blob: Blob) -> Iterator[bytes]:
    if blob.data is not None:
        yield blob.data
        return
    for offset in range(0, blob.length, _CHUNK):
        try:
            yield storage.read(blob.name, offset, min(_CHUNK, blob.length - offset))
        except CheckpointNotFound as error:
            raise CheckpointCorrupted(f"a checkpoint is not whole: {error}") from error


def load(backend: RocksDBBackend, storage: Storage, sources: Sequence[DatabaseFiles]) -> None:
    """Restore the initial state of a new backend; it must not have been used yet."""
    sources = [source for source in sources if source.files]
    assert not (sources and backend.opened), "an operator has used its state before it was restored: not in open()"
    if len(sources) == 1 and sources[0].whole:
        read_files(storage, sources[0].files, backend.place())
        backend.rename(backend.database)
        return
    for source in sorted(sources, key=lambda source: source.groups.start):
        with opened(storage, source.files, os.path.dirname(backend.place())) as database:
            backend.take(database, source.groups)


@contextlib.contextmanager
def opened(storage: Storage, files: Iterable[NamedBlob], parent: str | None = None) -> Iterator[Database]:
    """Open files as a database that is only read, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="funken-read-", dir=parent, ignore_cleanup_errors=True) as folder:
        read_files(storage, files, folder)
        try:
            database = Database(folder, read_only=True)
        except StateError as error:
            raise CheckpointCorrupted(f"{storage.uri}: {error}") from error
        try:
            yield database
        finally:
            database.close()


# ---- as rows


def rows_of(
    database: Database, states: States, groups: Iterable[int], now: int = 0, lenient: bool = False
) -> Iterator[tuple[int, str, GroupRow]]:
    """Yield the rows of some key groups, each with its group and state, in order, without those expired by ``now``.

    ``lenient``: shells stand for objects that cannot be made again.
    """
    for group in groups:
        last: tuple[str, Any, dict[Any, Any]] | None = None  # a map whose entries continue
        of_last: set[Any] = set()  # a set: keys whose hashes differ are not compared, which some cannot be
        for state, namespaced, parts, stored in _entries(database, group, lenient):
            about = states[state]
            if about["kind"] != StateKind.MAP.value:
                slot = parts
            elif last is not None and (state, parts[:-1]) in of_last:
                last[2][parts[-1]] = stored
                continue
            else:
                slot = parts[:-1]
            if last is not None:
                yield from _row(group, *last, states, now)
                last = None
            if slot is parts:
                yield from _row(group, state, slot, stored, states, now)
            else:
                last, of_last = (state, slot, {parts[-1]: stored}), {(state, slot)}
            assert len(slot) == 1 + namespaced
        if last is not None:
            yield from _row(group, *last, states, now)


def _entries(database: Database, group: int, lenient: bool) -> Iterator[tuple[str, bool, tuple[Any, ...], Any]]:
    for row, value in database.scan(group.to_bytes(2, "big"), (group + 1).to_bytes(2, "big")):
        state, at = decode_key(row, 2)
        if lenient:
            parts = leniently(partial(row_parts, row, value, at + 1))
            yield state, bool(row[at]), parts, leniently(partial(unpack_row, value, state))
        else:
            yield state, bool(row[at]), row_parts(row, value, at + 1), unpack_row(value, state)


def _row(
    group: int, state: str, slot: tuple[Any, ...], stored: Any, states: States, now: int
) -> Iterator[tuple[int, str, GroupRow]]:
    about = states[state]
    if about["ttl"] is not None:
        stored = sweep(StateKind(about["kind"]), stored, now - about["ttl"])
    if stored is not None:
        yield group, state, (slot[0], slot[1] if len(slot) > 1 else None, stored)


def segments_of(snapshot: DatabaseSnapshot, operator: str, subtask: int) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a snapshot as the segments of a blob."""
    dumps = state_pickler(operator, subtask)
    try:
        database = Database(snapshot.path, read_only=True)
        try:
            for group in snapshot.groups:
                frames, rows, begun, current = list[bytes](), list[GroupRow](), set[str](), ""

                def frame(state: str, rows: list[GroupRow], begun: set[str] = begun) -> bytes:
                    whole = state not in begun
                    begun.add(state)
                    return encode_frames(f"state/{state}", Change(whole, rows, ()), dumps)

                for _, state, row in rows_of(database, snapshot.states, (group,), snapshot.now):
                    if rows and (state != current or len(rows) >= _FRAME_ROWS):
                        frames.append(frame(current, rows))
                        rows = []
                    current = state
                    rows.append(row)
                if rows:
                    frames.append(frame(current, rows))
                if frames:
                    yield group, b"".join(frames)
        finally:
            database.close()
    except StateError as error:
        raise StorageFailed(str(error)) from error


def joined(first: Iterable[tuple[int, bytes]], second: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield two sequences of segments as one, in the order of key groups; segments of one group are joined.

    >>> list(joined([(1, b"a"), (3, b"b")], [(3, b"c")]))
    [(1, b'a'), (3, b'bc')]
    """
    by_group = groupby(merge(first, second, key=itemgetter(0)), key=itemgetter(0))
    return ((group, b"".join(data for _, data in segments)) for group, segments in by_group)


# ---- What is in a savepoint or checkpoint, for people: its operators, their states, and the entries, without the
# job.
#
# Listing reads the manifest alone. Reading entries unpickles them, which runs whatever code the file names: a
# savepoint is to be trusted as a program is. Objects of classes that cannot be imported, or have changed, are
# shells (``io/shapes.py``).


_PREFIXES = ("state/", "broadcast/", "union/", "split/")
_TIMERS = "timers/"
_KINDS = {
    RedistributeMode.SPLIT: "list",
    RedistributeMode.UNION: "union list",
    RedistributeMode.COPY: "broadcast",
    RedistributeMode.KEYED: "list",
}


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One saved value; a value that is not keyed has no ``key``, and ``namespace`` is the window, if any."""

    operator: str
    subtask: int
    state: str
    kind: str
    key: Any
    namespace: Any
    value: Any


def operator_of(found: RestorePoint, wanted: str) -> OperatorEntry:
    """Return an operator by its id, or by its name if only one has it."""
    operators = found.manifest.operators
    for attribute in ("id", "name"):
        fitting = [entry for entry in operators if getattr(entry, attribute) == wanted]
        if len(fitting) == 1:
            return fitting[0]
    known = ", ".join(f"{entry.id} ({entry.name})" for entry in operators if entry.stateful)
    raise CheckpointNotFound(
        f"there is no operator {wanted!r} with state in {found.root.uri}. There are: {known or 'none'}."
    )


def states_of(entry: OperatorEntry) -> dict[str, str]:
    """Return the names of an operator's states, each with its type."""
    states: dict[str, str] = {}
    for handle in entry.subtasks:
        states |= {name: str(about["kind"]) for name, about in handle.states.items()}
        for item in handle.own.items if handle.own else ():
            states.setdefault(_shown(item.name), _kind(item))
    return states


def entries_of(found: RestorePoint, entry: OperatorEntry) -> Iterator[StateEntry]:
    """Read the saved state of an operator: state that is not keyed, then key group by key group."""
    for subtask, handle in enumerate(entry.subtasks):
        for state, kind, value in _items(found, handle):
            yield StateEntry(entry.id, subtask, state, kind, None, None, value)
        for group, name, row in _rows(found, handle, entry.max_parallelism):
            if name.startswith(_TIMERS):
                at, key, namespace = row
                yield StateEntry(entry.id, subtask, name.removeprefix(_TIMERS), "timer", key, namespace, at)
            elif name.startswith("state/"):
                key, namespace, value = row
                state = _shown(name)
                kind = str(handle.states.get(state, {}).get("kind", "state"))
                yield StateEntry(entry.id, subtask, state, kind, key, namespace, value)
            else:
                key, value = _split(row, group, entry.max_parallelism)
                yield StateEntry(entry.id, subtask, f"({name})", "operator", key, None, value)


def _split(row: Any, group: int, groups: int) -> tuple[Any, Any]:
    """Find the key in a row that an operator keeps in its own way: the first part that is of the row's key group."""
    if isinstance(row, tuple) and len(row) > 1:
        with suppress(KeyNotHashable):
            if key_group_of(row[0], groups) == group:
                return row[0], row[1] if len(row) == 2 else row[1:]
    return None, row


def _items(found: RestorePoint, handle: SubtaskHandle) -> Iterator[tuple[str, str, Any]]:
    if handle.own is None:
        return
    reader = BlobReader(found.root, handle.own)
    for item in handle.own.items:
        value = leniently(partial(reader.item, item))
        kind = _kind(item)
        for element in value if kind.endswith("list") else (value,):
            yield _shown(item.name), kind, element


def _rows(found: RestorePoint, handle: SubtaskHandle, groups: int) -> Iterator[tuple[int, str, Any]]:
    if handle.files:
        with opened(found.root, handle.files) as database:
            for group, state, row in rows_of(database, handle.states, range(groups), lenient=True):
                yield group, f"state/{state}", row
    readers = [BlobReader(found.root, blob) for blob in handle.parts]
    for group in sorted({segment.group for blob in handle.parts for segment in blob.groups}):
        segments = [reader.group(group) for reader in readers]
        tables = leniently(partial(fold, segments, found.root.uri))
        for name, table in sorted(tables.items()):
            for row in table.change(name, complete=True).rows:
                yield group, name, row


def _kind(item: StateItem) -> str:
    if item.name.startswith(INFLIGHT):
        return "in flight"
    return _KINDS.get(item.redistribute, "own")


def _shown(name: str) -> str:
    if "/" not in name:
        return f"({name})"  # what the operator itself keeps, as the positions of a source
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name
