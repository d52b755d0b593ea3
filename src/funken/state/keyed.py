"""The keyed state of one operator subtask: one handle per declared state, all of them about the current key.

The operator sets ``current_key`` before it calls user code; handles look at it when they are used. Without a key every
access raises ``StateNotKeyed``. A snapshot is plain data grouped by key group, so that it can be taken apart and put
together again for another parallelism; a state restored but not declared (yet) is kept and goes into later snapshots.

``snapshot`` gives everything, ``snapshot_changes`` what changed since the last of either, or since the restore: the rows
of slots that were written, and in ``"deleted"`` the slots that hold nothing any more. Each call takes the changes away,
so whoever gets them has to keep them until they are written (``checkpoint/lineage.py`` does).

An operator that keeps state in dicts of its own, as windows do, has them saved and restored here too (``adopt``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from funken.errors import StateError, StateNotKeyed
from funken.state.backend import HashMapBackend, KeptInFiles, StateBackend, Table, Tracked, slots_of
from funken.state.descriptors import StateDescriptor, StateKind
from funken.state.handles import AggregatingState, ListState, ReducingState, State, ValueState
from funken.state.keygroups import check_max_parallelism, owned_groups
from funken.state.layers import OwnTable, Row
from funken.state.maps import MapState
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
from funken.state.typed import typed_handle


class _NoKey:
    """Stands for the key when there is none; hashing it, as every access to state does, raises."""

    def __hash__(self) -> int:
        raise StateNotKeyed(
            "keyed state or a timer was used while no key was current. Use them only in methods that are called "
            "for a record or a timer of a keyed stream, not in open() or for broadcast elements."
        )

    def __repr__(self) -> str:
        return "NO_KEY"


NO_KEY = _NoKey()
"""What ``current_key`` is while there is no key; it costs the hot path no check."""

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
    own: OwnTable | None = None


class KeyedStateStore:
    """The keyed state of one operator subtask.

    >>> from funken.state.descriptors import ValueStateDescriptor
    >>> store = KeyedStateStore(128, range(128), clock=lambda: 0)
    >>> count = store.state(ValueStateDescriptor("count", default=0))
    >>> store.current_key = "a"
    >>> count.update(count.value() + 1)
    >>> store.current_key = "b"
    >>> count.value()
    0
    """

    __slots__ = ("_backend", "_clock", "_owned_group", "_states", "current_key", "key_groups", "max_parallelism")

    def __init__(
        self,
        max_parallelism: int,
        key_groups: range,
        clock: Callable[[], int],
        backend: StateBackend | None = None,
    ) -> None:
        self.max_parallelism = max_parallelism
        self.key_groups = key_groups
        self.current_key: Any = NO_KEY
        self._clock = clock
        self._backend: StateBackend = backend or HashMapBackend()
        self._states: dict[str, _Declared] = {}
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

    def adopt(self, name: str, kind: StateKind, table: OwnTable) -> None:
        """Save and restore a table that the operator keeps itself; it is adopted before anything is restored."""
        self._states[name] = _Declared(kind, None, own=table)

    def _handle(self, descriptor: StateDescriptor, *, namespaced: bool) -> Any:
        declared = self._states.get(descriptor.name)
        if declared is not None and declared.kind is not descriptor.kind:
            raise StateError(
                f"state {descriptor.name!r} is {declared.kind.value} state and was asked for as "
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
        handle: State
        if namespaced:
            handle = make(descriptor, table, lambda: (self.current_key, handle.namespace), *arguments)
        else:
            handle = make(descriptor, table, lambda: self.current_key, *arguments)
        return handle

    def _table(self, name: str, declared: _Declared, namespaced: bool) -> Table:
        table = declared.tables.get(namespaced)
        if table is None:
            table = declared.tables[namespaced] = self._backend.table(name, declared.kind, namespaced)
        return table

    def _find_tables(self, name: str, declared: _Declared) -> None:
        """Open the tables that a state may have in files, although nobody has asked for them yet."""
        if isinstance(self._backend, KeptInFiles):
            for namespaced in (False, True):
                self._table(name, declared, namespaced)

    def snapshot(self) -> dict[str, Any]:
        """Return all state as plain data: a header, and rows ``(key, namespace, stored)`` by key group and state.

        Lists and maps are copied, what the user stored in them is not: pickle the snapshot before the next record.
        """
        now = self._clock()
        groups: dict[int, dict[str, list[tuple[Any, Any, Any]]]] = {}
        self._forget_changes()
        for name, declared in self._states.items():
            self._find_tables(name, declared)
        for name, declared, namespaced, table in self._tables():
            for slot, stored in table.items():
                key, namespace = cast(tuple[Any, Any], slot) if namespaced else (slot, None)
                kept = _copy(declared, stored, now)
                if kept is not _NOTHING:
                    rows = groups.setdefault(self._owned_group(key), {}).setdefault(name, [])
                    rows.append((key, namespace, kept))
        for name, own in self._own_tables():
            self._sort(name, own.rows(), groups)
        return self._header() | {"groups": groups}

    def snapshot_changes(self) -> dict[str, Any]:
        """Return what changed as ``snapshot`` would, with the slots that are gone in ``"deleted"``.

        If a table of the backend cannot tell, that is everything, without ``"deleted"``.
        """
        if not all(isinstance(table, Tracked) for _, _, _, table in self._tables()):
            return self.snapshot()
        now = self._clock()
        groups: dict[int, dict[str, list[tuple[Any, Any, Any]]]] = {}
        deleted: dict[int, dict[str, list[tuple[Any, Any]]]] = {}
        owned_group = self._owned_group
        for name, declared, namespaced, table in self._tables():
            plain = declared.ttl is None and declared.kind not in (StateKind.LIST, StateKind.MAP)
            for slot in cast(Tracked, table).take_changed():
                key, namespace = cast(tuple[Any, Any], slot) if namespaced else (slot, None)
                kept = table.get(slot, _NOTHING)
                if kept is not _NOTHING and not plain:
                    kept = _copy(declared, kept, now)
                if kept is _NOTHING:
                    deleted.setdefault(owned_group(key), {}).setdefault(name, []).append((key, namespace))
                else:
                    groups.setdefault(owned_group(key), {}).setdefault(name, []).append((key, namespace, kept))
        for name, own in self._own_tables():
            changes = own.take_changes()
            self._sort(name, changes.rows, groups)
            self._sort(name, changes.gone, deleted)
        return self._header() | {"groups": groups, "deleted": deleted}

    def snapshot_files(self) -> tuple[dict[str, Any], Any] | None:
        """Return a snapshot of no changes, and all state as files of the backend; ``None`` if it has no files.

        That is fast whatever there is, and always complete.
        """
        if not isinstance(self._backend, KeptInFiles):
            return None
        header = self._header()
        return header | {"groups": {}, "deleted": {}}, self._backend.cut(header["states"], self._clock())

    @property
    def tables(self) -> Iterator[Table]:
        """All tables."""
        return (table for _, _, _, table in self._tables())

    @property
    def backend(self) -> StateBackend:
        """Where the state is."""
        return self._backend

    def _sort(
        self, name: str, rows: Iterable[tuple[Any, ...]], groups: dict[int, dict[str, list[Any]]]
    ) -> None:  # fmt: skip
        """Add rows or slots of a state to those of their key groups."""
        owned_group, by_group = self._owned_group, defaultdict[int, list[Any]](list)
        for row in rows:
            by_group[owned_group(row[0])].append(row)
        for group, found in by_group.items():
            groups.setdefault(group, {})[name] = found

    def _header(self) -> dict[str, Any]:
        states = {name: {"kind": s.kind.value, "ttl": s.ttl} for name, s in self._states.items()}
        return {"max_parallelism": self.max_parallelism, "states": states}

    def _tables(self) -> Iterator[tuple[str, _Declared, bool, Table]]:
        for name, declared in self._states.items():
            for namespaced, table in declared.tables.items():
                yield name, declared, namespaced, table

    def _own_tables(self) -> Iterator[tuple[str, OwnTable]]:
        return ((name, declared.own) for name, declared in self._states.items() if declared.own is not None)

    def _forget_changes(self) -> None:
        for _, _, _, table in self._tables():
            if isinstance(table, Tracked):
                table.take_changed()
        for _, own in self._own_tables():
            own.take_changes()

    def restore(self, snapshots: Iterable[dict[str, Any]]) -> None:
        """Take from snapshots, of any parallelism, what belongs to this subtask's key groups."""
        for snapshot in snapshots:
            check_max_parallelism(snapshot["max_parallelism"], self.max_parallelism)
            for name, header in snapshot["states"].items():
                declared = self._states.setdefault(name, _Declared(StateKind(header["kind"]), header["ttl"]))
                if declared.kind.value != header["kind"]:
                    raise StateError(
                        f"state {name!r} is {declared.kind.value} state, but {header['kind']} state in the snapshot."
                    )
            for group in self.key_groups:
                for name, rows in snapshot["groups"].get(group, {}).items():
                    self._load(name, rows)
        self._forget_changes()

    def _load(self, name: str, rows: Iterable[Row]) -> None:
        declared, now = self._states[name], self._clock()
        if declared.own is not None:
            declared.own.load(rows)
            return
        for key, namespace, stored in rows:
            kept = _copy(declared, stored, now)
            if kept is _NOTHING:
                continue
            if namespace is None:
                self._table(name, declared, False)[key] = kept
            else:
                self._table(name, declared, True)[key, namespace] = kept


_NOTHING = object()


def _copy(declared: _Declared, stored: Any, now: int) -> Any:
    """Return a copy that later changes of the state do not reach, without what is expired; maybe ``_NOTHING``."""
    if declared.ttl is not None:
        stored = sweep(declared.kind, stored, now - declared.ttl)
        if stored is None:
            return _NOTHING
    if declared.kind in (StateKind.LIST, StateKind.MAP):
        return stored.copy()
    return stored
