"""What is in a savepoint or checkpoint, for people: its operators, their states, and the entries, without the job.

Listing reads the manifest alone. Reading entries unpickles them, which runs whatever code the file names: a savepoint is
to be trusted as a program is. Objects of classes that cannot be imported, or have changed, are shells (``shells.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from funken.checkpoint.store.blobs import BlobReader, fold
from funken.checkpoint.store.completed import RestorePoint
from funken.checkpoint.store.databases import opened, rows_of
from funken.checkpoint.store.handles import INFLIGHT, RedistributeMode, StateItem, SubtaskHandle
from funken.checkpoint.store.manifest import OperatorEntry
from funken.checkpoint.store.shells import leniently
from funken.dataclass import dataclass
from funken.errors import CheckpointNotFound, KeyNotHashable
from funken.state.keygroups import key_group_of

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
    """One thing that is saved; what is not keyed has no ``key``, and ``namespace`` is the window, if any."""

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
    """Return the names of an operator's states, each with its kind."""
    states: dict[str, str] = {}
    for handle in entry.subtasks:
        states |= {name: str(about["kind"]) for name, about in handle.states.items()}
        for item in handle.own.items if handle.own else ():
            states.setdefault(_shown(item.name), _kind(item))
    return states


def entries_of(found: RestorePoint, entry: OperatorEntry) -> Iterator[StateEntry]:
    """Read what an operator has saved: what is not keyed, then key group by key group."""
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
    """Find the key in a row that an operator keeps in its own way: what belongs to the row's key group, if it comes first."""
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
