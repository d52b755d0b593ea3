"""The keyed state of one operator subtask: one handle per declared state, all of them about the current key.

The operator sets ``current_key`` before it calls user code; handles look at it when they are used. Without a key every
access raises ``StateNotKeyed``. A snapshot is plain data grouped by key group, so that it can be taken apart and put
together again for another parallelism; a state restored but not declared (yet) is kept and goes into later snapshots.

``snapshot`` gives everything, ``snapshot_changes`` what changed since the last of either, or since the restore: the rows
of slots that were written, and in ``deleted`` the slots that hold nothing any more. Each call takes the changes away,
so the caller has to keep them until they are written (``checkpoint/incremental.py`` does).

Both may be materialized in steps: ``begin_snapshot`` fixes what belongs to the snapshot, and writes it while the state changes.

An operator that keeps state in dicts of its own, as windows do, has them saved and restored here too (``register``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, islice
from typing import Any, cast

from funken.errors import StateError, StateNotKeyed
from funken.state.backend import (
    ABSENT,
    ChangeTracking,
    FileSnapshotBackend,
    HashMapBackend,
    Slot,
    StateBackend,
    Table,
    slots_of,
)
from funken.state.delta_tables import CHUNK, KeyedSnapshot, OperatorTable, SnapshotWriter, StateRow, snapshot_at_once
from funken.state.descriptors import StateDescriptor, StateKind
from funken.state.handles import (
    SHARED,
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    Unset,
    ValueState,
    isolated,
    may_change,
    several,
)
from funken.state.keygroups import check_max_parallelism, owned_groups, rows_by_key, with_one_nan
from funken.state.ttl import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
    sweep,
    unwrap,
    wrap,
)
from funken.types.convert import Convert, converter

_SOME = 100
"""So many restored keys tell of which types keys are."""

# ---- State with a declared type: handles that convert what they are given, for each kind of state.
#
# A value is converted when it is stored, so what is read is of the declared type. Keys of maps, and accumulators,
# are kept as they are. Handles of states without a declared type are unchanged.


class _Typed:
    """The base of all typed handles: the converter, made of the descriptor's type."""

    __slots__ = ()

    convert: Convert

    def __init__(self, descriptor: Any, *rest: Any) -> None:
        super().__init__(descriptor, *rest)  # type: ignore[call-arg]
        self.convert = converter(descriptor.type_info)


class _Value(_Typed):
    __slots__ = ()

    def update(self, value: Any) -> None:
        """Set the value; ``None`` unsets it."""
        super().update(None if value is None else self.convert(value))  # type: ignore[misc]


class _List(_Typed):
    __slots__ = ()

    def add(self, value: Any) -> None:
        """Append an element."""
        super().add(self.convert(value))  # type: ignore[misc]

    def add_all(self, values: Iterable[Any]) -> None:
        """Append several elements."""
        super().add_all(map(self.convert, several(values)))  # type: ignore[misc]

    def update(self, values: Iterable[Any]) -> None:
        """Replace the elements."""
        super().update(map(self.convert, several(values)))  # type: ignore[misc]


class _Map(_Typed):
    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key of the map."""
        super().put(key, None if value is None else self.convert(value))  # type: ignore[misc]


class _Reducing(_Typed):
    __slots__ = ()

    def __init__(self, descriptor: Any, *rest: Any) -> None:
        super().__init__(descriptor, *rest)
        reduce, convert = descriptor.reduce, self.convert
        self._reduce = lambda a, b: convert(reduce(a, b))  # type: ignore[misc]  # a slot of the other base

    def add(self, value: Any) -> None:
        """Reduce a value into the state."""
        super().add(self.convert(value))  # type: ignore[misc]


_MIXINS: dict[StateKind, type] = {
    StateKind.VALUE: _Value, StateKind.LIST: _List, StateKind.MAP: _Map, StateKind.REDUCING: _Reducing
}  # fmt: skip


@cache
def typed_handle(handle: type[State]) -> type[State]:
    """Return the typed variant of a class of handles; the class itself for a type that has none.

    >>> from funken.state.descriptors import ValueStateDescriptor
    >>> from funken.state.handles import ValueState
    >>> from funken.types import Types
    >>> state = typed_handle(ValueState)(ValueStateDescriptor("n", Types.SHORT()), {}, lambda: "key")
    >>> state.update(40_000)
    >>> state.value()
    -25536
    """
    mixin = _MIXINS.get(handle.kind)
    return handle if mixin is None else type(f"Typed{handle.__name__}", (mixin, handle), {"__slots__": ("convert",)})


NO_KEY = Unset(
    "NO_KEY",
    StateNotKeyed,
    "keyed state or a timer was used while no key was current. Use them only in methods that are called "
    "for a record or a timer of a keyed stream, not in open() or for broadcast elements.",
)
"""The value of ``current_key`` while there is no key; it costs the hot path no check."""

_HANDLES: dict[StateKind, Any] = {
    handle.kind: handle for handle in (ValueState, ListState, MapState, ReducingState, AggregatingState)
}
_TTL_HANDLES: dict[StateKind, Any] = {
    handle.kind: handle for handle in (TtlValueState, TtlListState, TtlMapState, TtlReducingState, TtlAggregatingState)
}


@dataclass(slots=True)
class _Declared:
    """One state: its tables and handles by whether their slots have a namespace, or the one table of an operator's own."""

    kind: StateKind
    ttl: int | None
    tables: dict[bool, Table] = field(default_factory=dict)
    handles: dict[bool, State] = field(default_factory=dict)
    own: OperatorTable | None = None
    #: whether what is stored may be changed by who reads it
    changeable: bool = False


class KeyedStateStore:
    """The keyed state of one operator subtask. Without ``copies`` it shares with its users objects that can be changed.

    >>> from funken.state.descriptors import ValueStateDescriptor
    >>> store = KeyedStateStore(128, range(128), clock=lambda: 0)
    >>> count = store.state(ValueStateDescriptor("count", default=0))
    >>> store.current_key = "a"
    >>> count.update(count.value() + 1)
    >>> store.current_key = "b"
    >>> count.value()
    0
    """

    __slots__ = (
        "_backend",
        "_clock",
        "_copies",
        "_own_keys",
        "_owned_group",
        "_restored",
        "_states",
        "current_key",
        "key_groups",
        "max_parallelism",
    )

    def __init__(
        self,
        max_parallelism: int,
        key_groups: range,
        clock: Callable[[], int],
        backend: StateBackend | None = None,
        copies: bool = True,
    ) -> None:
        self.max_parallelism = max_parallelism
        self.key_groups = key_groups
        self.current_key: Any = NO_KEY
        self._clock = clock
        self._copies = copies
        self._backend: StateBackend = backend or HashMapBackend()
        self._states: dict[str, _Declared] = {}
        self._restored: set[str] = set()
        #: some keys of an operator's own tables, as they were restored
        self._own_keys: list[Any] = []
        self._owned_group = owned_groups(max_parallelism, key_groups)

    def state(self, descriptor: StateDescriptor) -> Any:
        """Return the handle of a state of the current key; the same one each time."""
        return self._handle(descriptor, namespaced=False)

    def namespaced(self, descriptor: StateDescriptor) -> Any:
        """Return the handle of a state of the current key and ``handle.namespace``, which the caller sets.

        A namespace is hashable and not ``None``. All callers share the handle of a name: set its namespace before use.
        """
        return self._handle(descriptor, namespaced=True)

    def merge_namespaces(self, descriptor: StateDescriptor, target: Any, sources: Iterable[Any]) -> None:
        """Merge list, reducing or aggregating state of the current key from ``sources`` into ``target``."""
        key = self.current_key
        handle = self._handle(descriptor, namespaced=True)
        handle.merge((key, target), [(key, source) for source in sources])

    def clear(self, descriptor: StateDescriptor, namespace: Any = None) -> None:
        """Remove a state of the current key, in a namespace or (``None``) outside of any."""
        handle = self._handle(descriptor, namespaced=namespace is not None)
        handle.table.pop(self.current_key if namespace is None else (self.current_key, namespace), None)

    @property
    def expires(self) -> bool:
        """True if some state has a lifetime: then somebody has to see to it that time goes on."""
        return any(declared.ttl is not None for declared in self._states.values())

    def some_keys(self) -> list[Any]:
        """Return keys of the state that was restored, a few; none of a fresh store.

        >>> KeyedStateStore(128, range(128), clock=lambda: 0).some_keys()
        []
        """
        slots = ((slot, namespaced) for _, _, namespaced, table in self._tables() for slot in table)
        found = [cast(Any, slot)[0] if namespaced else slot for slot, namespaced in islice(slots, _SOME)]
        return found or self._own_keys

    def renamed(self) -> tuple[list[str], list[str]]:
        """Return the names of restored states that no function has asked for, and of those that are new."""
        kept = {name: declared for name, declared in self._states.items() if declared.own is None}
        unused = [name for name, declared in kept.items() if name in self._restored and not declared.handles]
        new = [name for name, declared in kept.items() if name not in self._restored and declared.handles]
        return unused, new

    def drop(self) -> None:
        """Remove the state of every key, but for that in operators' own tables."""
        for declared in self._states.values():
            for table in declared.tables.values():
                table.clear()

    def register(self, name: str, kind: StateKind, table: OperatorTable, ttl: int | None = None) -> None:
        """Register a table that the operator keeps itself, to be saved and restored; before anything is restored.

        With a lifetime (ms) its rows have the times of the last access, as those of a backend's table.
        """
        self._states[name] = _Declared(kind, ttl, own=table)

    def _handle(self, descriptor: StateDescriptor, *, namespaced: bool) -> Any:
        declared = self._states.get(descriptor.name)
        if declared is not None and declared.kind is not descriptor.kind:
            raise StateError(
                f"state {descriptor.name!r} is {declared.kind.value} state and was requested as "
                f"{descriptor.kind.value} state: give each state of an operator a name of its own."
            )
        if declared is None or not declared.handles:
            declared = self._declare(descriptor)
        handle = declared.handles.get(namespaced)
        if handle is None:
            handle = declared.handles[namespaced] = self._new_handle(descriptor, declared, namespaced)
        return handle

    def _declare(self, descriptor: StateDescriptor) -> _Declared:
        ttl = descriptor.ttl.ttl_millis if descriptor.ttl else None
        declared = self._states.setdefault(descriptor.name, _Declared(descriptor.kind, ttl))
        if (declared.ttl is None) != (ttl is None):  # restored from before a lifetime was given, or taken away
            now = self._clock()
            self._find_tables(descriptor.name, declared)
            for table in declared.tables.values():
                for slot in slots_of(table):
                    stored = table[slot]
                    table[slot] = unwrap(declared.kind, stored) if ttl is None else wrap(declared.kind, stored, now)
        declared.ttl = ttl
        return declared

    def _new_handle(self, descriptor: StateDescriptor, declared: _Declared, namespaced: bool) -> State:
        table = self._table(descriptor.name, declared, namespaced)
        kinds, arguments = (_HANDLES, ()) if declared.ttl is None else (_TTL_HANDLES, (self._clock,))
        make = kinds[descriptor.kind]
        if descriptor.type_info is not None:
            make = typed_handle(make)
            _check_saved(descriptor, declared, table)
        if self._copies and (declared.changeable or isinstance(self._backend, FileSnapshotBackend)):
            make = isolated(make)
        handle: State
        if namespaced:
            handle = make(descriptor, table, lambda: (self.current_key, handle.namespace), *arguments)
        else:
            handle = make(descriptor, table, lambda: self.current_key, *arguments)
        if not self._copies:
            handle.plain = SHARED
        return handle

    def _table(self, name: str, declared: _Declared, namespaced: bool) -> Table:
        table = declared.tables.get(namespaced)
        if table is None:
            table = declared.tables[namespaced] = self._backend.table(name, declared.kind, namespaced)
        return table

    def _find_tables(self, name: str, declared: _Declared) -> None:
        """Open the tables that a state may have in files, before they are used."""
        if isinstance(self._backend, FileSnapshotBackend):
            for namespaced in (False, True):
                self._table(name, declared, namespaced)

    def snapshot(self) -> KeyedSnapshot:
        """Return all state as plain data: a header, and rows ``(key, namespace, stored)`` by key group and state.

        Lists and maps are copied, the user's objects in them are not: pickle the snapshot before the next record.
        """
        for name, declared in self._states.items():
            self._find_tables(name, declared)
        return replace(
            self.empty_snapshot(complete=True), groups=snapshot_at_once(self.begin_snapshot, complete=True).groups
        )

    def snapshot_changes(self) -> KeyedSnapshot:
        """Return the changes as ``snapshot`` would, with the slots that are gone in ``deleted``.

        If a table of the backend does not track changes, that is a complete snapshot.
        """
        if not self.tracked:
            return self.snapshot()
        changes = snapshot_at_once(self.begin_snapshot, complete=False)
        return replace(self.empty_snapshot(complete=False), groups=changes.groups, deleted=changes.deleted)

    @property
    def tracked(self) -> bool:
        """True if changes are tracked."""
        return all(isinstance(table, ChangeTracking) for _, _, _, table in self._tables())

    def begin_snapshot(self, writer: SnapshotWriter, complete: bool, chunk: int = CHUNK) -> Iterator[None]:
        """Begin a snapshot of the changes since the last one, or of all; an untracked table is written at once.

        Each step of the result adds about ``chunk`` rows to the writer; rows that are about to change are added before.
        """
        steps: list[Iterator[None]] = []
        for name, declared, namespaced, table in self._tables():
            taking = _TableWriter(self._owned_group, writer, name, declared, namespaced, complete, self._clock())
            if isinstance(table, ChangeTracking):
                steps.append(taking.steps(table.begin_snapshot(complete, taking.before_write), chunk))
            else:
                for _ in taking.steps(iter(table.items()), chunk):
                    pass
        for name, own in self._own_tables():
            rows, gone = own.begin_snapshot(complete, partial(self._before_write, writer, name))
            steps.append(self._snapshot_own(writer, name, rows, gone, chunk))
        return chain.from_iterable(steps)

    def _before_write(self, writer: SnapshotWriter, name: str, row: StateRow) -> None:
        writer.before_write(self._owned_group(row[0]), name, row)

    def _snapshot_own(
        self, writer: SnapshotWriter, name: str, rows: Iterator[StateRow], gone: Iterator[tuple[Any, Any]], chunk: int
    ) -> Iterator[None]:  # fmt: skip
        owned_group = self._owned_group
        while slots := list(islice(gone, chunk)):
            writer.add(owned_group, name, (), slots)
            yield
        while some := list(islice(rows, chunk)):
            writer.add(owned_group, name, some, ())
            yield

    def snapshot_files(self) -> tuple[KeyedSnapshot, Any] | None:
        """Return a snapshot of no changes, and all state as files of the backend; ``None`` if it has no files.

        That is fast whatever there is, and always complete.
        """
        if not isinstance(self._backend, FileSnapshotBackend):
            return None
        nothing = self.empty_snapshot(complete=False)
        return nothing, self._backend.snapshot(nothing.states, self._clock())

    @property
    def tables(self) -> Iterator[Table]:
        """All tables."""
        return (table for _, _, _, table in self._tables())

    @property
    def backend(self) -> StateBackend:
        """The backend that stores the state."""
        return self._backend

    def empty_snapshot(self, complete: bool) -> KeyedSnapshot:
        """Return a snapshot without rows, complete or of no changes."""
        states = {name: {"kind": s.kind.value, "ttl": s.ttl} for name, s in self._states.items()}
        return KeyedSnapshot(self.max_parallelism, {}, None if complete else {}, states)

    @property
    def own_entries(self) -> int:
        """Return the approximate number of entries of the operator's own tables."""
        return sum(len(own) for _, own in self._own_tables())

    def _tables(self) -> Iterator[tuple[str, _Declared, bool, Table]]:
        for name, declared in self._states.items():
            for namespaced, table in declared.tables.items():
                yield name, declared, namespaced, table

    def _own_tables(self) -> Iterator[tuple[str, OperatorTable]]:
        return ((name, declared.own) for name, declared in self._states.items() if declared.own is not None)

    def _forget_changes(self) -> None:
        for _, _, _, table in self._tables():
            if isinstance(table, ChangeTracking):
                table.take_changed()

    def restore(self, snapshots: Iterable[KeyedSnapshot]) -> None:
        """Take the state of this subtask's key groups from snapshots, of any parallelism."""
        for snapshot in snapshots:
            check_max_parallelism(snapshot.max_parallelism, self.max_parallelism)
            self._restored.update(snapshot.states)
            for name, header in snapshot.states.items():
                declared = self._states.setdefault(name, _Declared(StateKind(header["kind"]), header["ttl"]))
                if declared.kind.value != header["kind"]:
                    raise StateError(
                        f"state {name!r} is {declared.kind.value} state, but {header['kind']} state in the snapshot."
                    )
            for group in self.key_groups:
                for name, rows in snapshot.groups.get(group, {}).items():
                    self._load(name, rows_by_key(rows, group, self.max_parallelism))
        self._forget_changes()

    def _load(self, name: str, rows: Iterable[StateRow]) -> None:
        declared, now = self._states[name], self._clock()
        if declared.own is not None:
            rows = iter(rows)
            first = list(islice(rows, max(0, _SOME - len(self._own_keys))))
            self._own_keys += [row[0] for row in first]
            declared.own.load(chain(first, rows))
            return
        rows = list(rows)
        if self._copies and not declared.changeable and may_change(declared.kind, (row[2] for row in rows)):
            declared.changeable = True
            for handle in declared.handles.values():
                handle.__class__ = isolated(type(handle))
        for key, namespace, stored in rows:
            kept = _copy(declared, stored, now)
            if kept is not ABSENT:
                table = self._table(name, declared, namespace is not None)
                slot = key if namespace is None else (key, namespace)
                table[slot] = with_one_nan(kept) if declared.kind is StateKind.MAP else kept


def _check_saved(descriptor: StateDescriptor, declared: _Declared, table: Table) -> None:
    """Raise ``StateError`` if the first value of a restored table does not fit the declared type."""
    slot = next(iter(slots_of(table)), ABSENT)
    if slot is ABSENT or declared.kind not in _MIXINS or descriptor.type_info is None:
        return
    stored = table[slot]
    content: Any = stored if declared.ttl is None else unwrap(declared.kind, stored)
    if declared.kind in (StateKind.LIST, StateKind.MAP):
        content = next(iter(content.values() if declared.kind is StateKind.MAP else content), None)
    if content is None:
        return
    try:
        converter(descriptor.type_info)(content)
    except (TypeError, ValueError) as error:
        raise StateError(
            f"state {descriptor.name!r} was saved with values such as {content!r:.100} ({type(content).__name__}), which do not "
            f"fit its declared type {descriptor.type_info}. Declare the type that it was saved with, or give the state of the "
            "new type another name, and fill it from the old one."
        ) from error


def _copy(declared: _Declared, stored: Any, now: int) -> Any:
    """Return a copy that later changes of the state do not reach, without expired values; maybe ``ABSENT``."""
    if declared.ttl is not None:
        stored = sweep(declared.kind, stored, now - declared.ttl)
        if stored is None:
            return ABSENT
    if declared.kind in (StateKind.LIST, StateKind.MAP):
        return stored.copy()
    return stored


class _TableWriter:
    """Writes one table to a snapshot: its slots become rows, or removed slots."""

    def __init__(
        self, owned_group: Callable[[Any], int], writer: SnapshotWriter, name: str, declared: _Declared, namespaced: bool,
        complete: bool, now: int,
    ) -> None:  # fmt: skip
        self._owned_group = owned_group
        self._writer = writer
        self._name = name
        self._declared = declared
        self._namespaced = namespaced
        self._complete = complete
        self._now = now
        self._plain = declared.ttl is None and declared.kind not in (StateKind.LIST, StateKind.MAP)

    def before_write(self, slot: Slot, stored: Any) -> None:
        """Write a slot that may change as soon as this returns."""
        key, namespace = cast(tuple[Any, Any], slot) if self._namespaced else (slot, None)
        if stored is not ABSENT and not self._plain:
            stored = _copy(self._declared, stored, self._now)
        if stored is not ABSENT:
            self._writer.before_write(self._owned_group(key), self._name, (key, namespace, stored))
        elif not self._complete:
            self._writer.removed(self._owned_group(key), self._name, (key, namespace))

    def steps(self, entries: Iterator[tuple[Slot, Any]], chunk: int) -> Iterator[None]:
        """Write entries, ``chunk`` at a time."""
        declared, now, namespaced, plain = self._declared, self._now, self._namespaced, self._plain
        while some := list(islice(entries, chunk)):
            rows: list[StateRow] = []
            gone: list[tuple[Any, Any]] = []
            for slot, stored in some:
                key, namespace = cast(tuple[Any, Any], slot) if namespaced else (slot, None)
                kept = stored if plain or stored is ABSENT else _copy(declared, stored, now)
                if kept is not ABSENT:
                    rows.append((key, namespace, kept))
                elif not self._complete:
                    gone.append((key, namespace))
            self._writer.add(self._owned_group, self._name, rows, gone)
            yield
