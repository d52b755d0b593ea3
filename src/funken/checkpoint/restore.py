"""Restore: which subtask reads what when a job starts from a checkpoint or savepoint, with the same program or another.

``plan_restore`` compares a manifest with the operators of the new plan and says for each subtask which segments of which
blobs are its own; ``read_state`` reads them, in the task. An operator is found by its stable id: its ``uid``, or else its
place in the program, which any change of the program may move.

* Keyed state goes to the subtask that owns the key group now; the number of key groups (max parallelism) cannot change.
* Lists are dealt out round robin; with the same number of subtasks each keeps its own (``RedistributeMode``).
* State without an operator is refused unless that is allowed; an operator without state starts empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from operator import itemgetter
from typing import Any

from funken.checkpoint.incremental import Origin
from funken.checkpoint.store.blobs import (
    Blob,
    BlobReader,
    NamedBlob,
    RedistributeMode,
    SavedClass,
    StateItem,
    SubtaskHandle,
    SubtaskState,
    fold,
    keyed_part,
    own_part,
)
from funken.checkpoint.store.completed import Manifest, OperatorEntry
from funken.checkpoint.store.databases import opened, rows_of
from funken.dataclass import dataclass
from funken.errors import CheckpointIncompatible
from funken.io.shapes import ClassChanged, is_changed
from funken.io.storage import Storage
from funken.state.delta_tables import KeyedSnapshot
from funken.state.keygroups import key_groups_of


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """An operator of the plan that is to be started, with its line in the program; ``uid`` is whether the program set one.

    ``inputs`` are the operators before it, each with whether a subtask reads from the subtask of its own number only.
    """

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    uid: bool = True
    inputs: tuple[tuple[str, bool], ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True)
class GroupSource:
    """Key groups to be read from the parts of one former subtask, and from its database; ``whole``: all that it had."""

    parts: tuple[Blob, ...]
    groups: range
    files: tuple[NamedBlob, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ItemSource:
    """An item of one former subtask; of a list, its elements ``first``, ``first + step``, and so on."""

    blob: Blob
    item: StateItem
    first: int = 0
    step: int = 1


@dataclass(frozen=True, slots=True)
class SubtaskRestore:
    """The state from which a subtask starts; plain data, that travels to its task.

    ``uri`` is the folder that names are relative to. ``exact``: it is this job's own folder, and the keyed state is that of
    one former subtask with the very same key groups. ``finished``: the subtask had ended, and is only to say so again.
    """

    uri: str
    max_parallelism: int
    keyed: tuple[GroupSource, ...] = ()
    items: tuple[ItemSource, ...] = ()
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exact: bool = False
    finished: bool = False
    classes: frozenset[SavedClass] = frozenset()


@dataclass(frozen=True, slots=True)
class Restoration:
    """The state from which a job starts: per operator id and subtask, per source, per sink; and user warnings."""

    subtasks: Mapping[tuple[str, int], SubtaskRestore]
    enumerators: Mapping[str, bytes]
    committables: Mapping[str, tuple[bytes, ...]]
    warnings: tuple[str, ...] = ()


def uid_warnings(operators: Iterable[tuple[str, bool, bool]]) -> list[str]:
    """Return a warning for each operator, given as ``(name, uid, stateful)``, whose state hangs on its place.

    >>> uid_warnings([("count", False, True), ("map", False, False), ("sum", True, True)])  # doctest: +ELLIPSIS
    ["operator 'count' has state but no uid: ..."]
    """
    return [
        f"operator {name!r} has state but no uid: it is found by its place in the program, so a program in which that "
        f"place changed cannot start from this state. Call .uid(...) on it."
        for name, uid, stateful in operators
        if stateful and not uid
    ]


def plan_restore(
    manifest: Manifest, uri: str, targets: Sequence[RestoreTarget], allow_non_restored: bool = False, own: bool = False
) -> Restoration:
    """Plan the start of each subtask; raises ``CheckpointIncompatible`` if something does not fit.

    ``uri`` is the folder that the manifest's names are relative to; ``own``: it is the folder of this very job. ``targets``
    are in topological order.
    """
    known = {target.id: target for target in targets}
    finished = _finished(manifest, targets)
    warnings: list[str] = []
    subtasks: dict[tuple[str, int], SubtaskRestore] = {}
    for entry in manifest.operators:
        target = known.get(entry.id)
        if target is None:
            if entry.stateful:
                new = known.keys() - {each.id for each in manifest.operators}
                warnings.append(_unclaimed(entry, [known[name] for name in known if name in new], allow_non_restored))
            continue
        _check(entry, target)
        _check_classes(entry, target)
        for subtask in range(target.parallelism):
            ended = (target.id, subtask) in finished
            subtasks[target.id, subtask] = _subtask(entry, target, subtask, uri, own, ended)
    warnings += uid_warnings((entry.name, entry.uid, entry.stateful) for entry in manifest.operators)
    committables = {
        entry.id: tuple(handle.committables for handle in entry.subtasks if handle.committables)
        for entry in manifest.operators
        if entry.id in known
    }
    return Restoration(
        subtasks,
        {name: data for name, data in manifest.enumerators.items() if name in known},
        {name: found for name, found in committables.items() if found},
        tuple(warnings),
    )


def _finished(manifest: Manifest, targets: Sequence[RestoreTarget]) -> set[tuple[str, int]]:
    """Return the subtasks that had finished and stay so: all that they read from has finished, too.

    A subtask behind a source without splits has finished early. With another parallelism of the source, or another way
    between the two, the subtask of its number reads from others, which have not.
    """
    entries = {entry.id: entry for entry in manifest.operators}
    width = {target.id: target.parallelism for target in targets}
    found: set[tuple[str, int]] = set()
    for target in targets:
        entry = entries.get(target.id)
        if entry is None:
            continue
        ended = [handle.finished for handle in entry.subtasks]
        for subtask in range(target.parallelism):
            before = {
                (name, other) for name, local in target.inputs for other in ([subtask] if local else range(width[name]))
            }
            itself = ended[subtask] if entry.parallelism == target.parallelism else all(ended)
            if itself and before <= found:
                found.add((target.id, subtask))
    return found


_SHOWN = 5
"""So many operators are named in a message."""


def _unclaimed(entry: OperatorEntry, new: Sequence[RestoreTarget], allowed: bool) -> str:
    fact = f"the program has no operator for the state of {entry.name!r} (id {entry.id!r})"
    if allowed:
        return f"{fact}; it is left out, as allowed."
    shown = [f"{each.name!r} (id {each.id!r}{', ' * bool(each.place)}{each.place})" for each in new]
    same = [text for text, each in zip(shown, new, strict=True) if each.name == entry.name] or shown[:_SHOWN]
    hint = f" New in the program: {', '.join(same)}." if same else ""
    remedy = f"Call .uid({entry.id!r}) on the operator that goes on with it" if same else "Bring the operator back"
    raise CheckpointIncompatible(
        f"{fact}.{hint} {remedy}, or discard the state with --allow-non-restored-state "
        "(execution.state-recovery.ignore-unclaimed-state)."
    )


def _check(entry: OperatorEntry, target: RestoreTarget) -> None:
    keyed = any(
        handle.parts
        or handle.files
        or any(item.redistribute is RedistributeMode.KEYED for item in (handle.own.items if handle.own else ()))
        for handle in entry.subtasks
    )
    if keyed and entry.max_parallelism != target.max_parallelism:
        raise CheckpointIncompatible(
            f"operator {target.name!r} has a maximum parallelism of {target.max_parallelism}, but its state was saved with "
            f"{entry.max_parallelism}, which cannot be changed. Call .set_max_parallelism({entry.max_parallelism}), and keep "
            "the parallelism at or below it."
        )
    if entry.parallelism == target.parallelism:
        return
    for handle in entry.subtasks:
        for item in handle.own.items if handle.own else ():
            if item.redistribute is RedistributeMode.OWN:
                raise CheckpointIncompatible(
                    f"operator {target.name!r}: its state {item.name!r} cannot be dealt out to {target.parallelism} "
                    f"subtasks, there were {entry.parallelism}. Call .set_parallelism({entry.parallelism})."
                )


def _check_classes(entry: OperatorEntry, target: RestoreTarget) -> None:
    for table, shape in sorted(frozenset[SavedClass]().union(*(handle.classes for handle in entry.subtasks))):
        try:
            is_changed(shape)
        except ClassChanged as error:
            raise CheckpointIncompatible(
                f"operator {target.name!r}: its state {table.removeprefix('state/')!r} cannot be restored: {error}"
            ) from error


def _subtask(
    entry: OperatorEntry, target: RestoreTarget, subtask: int, uri: str, own: bool, finished: bool
) -> SubtaskRestore:
    same = entry.parallelism == target.parallelism
    has = key_groups_of(subtask, target.max_parallelism, target.parallelism)
    keyed: list[GroupSource] = []
    for former, handle in enumerate(entry.subtasks):
        had = key_groups_of(former, entry.max_parallelism, entry.parallelism)
        groups = range(max(has.start, had.start), min(has.stop, had.stop))
        if groups and (handle.parts or handle.files):
            keyed.append(GroupSource(handle.parts, groups, handle.files, whole=groups == had))
    states: dict[str, Mapping[str, Any]] = {}
    for handle in entry.subtasks:
        states |= handle.states
    return SubtaskRestore(
        uri=uri,
        max_parallelism=target.max_parallelism,
        keyed=tuple(keyed),
        items=tuple(_items(entry.subtasks, subtask, target.parallelism, same, finished)),
        states=states,
        exact=own and same and len(keyed) <= 1,
        finished=finished,
        classes=frozenset().union(*(handle.classes for handle in entry.subtasks)),
    )


def _items(
    handles: Sequence[SubtaskHandle], subtask: int, parallelism: int, same: bool, finished: bool
) -> Iterator[ItemSource]:
    """Choose a subtask's share of the items of all former subtasks.

    One that has ended only keeps its state for later checkpoints: of a union list it keeps its own elements, or every
    restore would multiply them. So does one that stays what it was with a union list of the engine's own (its watermark):
    where barriers overtake records, others may be further.
    """
    dealt: dict[str, int] = {}
    for former, handle in enumerate(handles):
        for item in handle.own.items if handle.own else ():
            assert handle.own is not None
            if item.redistribute is RedistributeMode.UNION and (finished or (same and item.internal)):
                if former % parallelism == subtask:
                    yield ItemSource(handle.own, item)
            elif item.redistribute is RedistributeMode.UNION or (
                item.redistribute is RedistributeMode.KEYED and not same
            ):
                yield ItemSource(handle.own, item)
            elif item.redistribute is RedistributeMode.SPLIT and not same:
                # Element i of this list is element (before + i) of all lists, and goes to that number modulo parallelism.
                before = dealt.get(item.name, 0)
                dealt[item.name] = before + item.elements
                yield ItemSource(handle.own, item, (subtask - before) % parallelism, parallelism)
            elif former == (subtask if same else subtask % len(handles)):
                yield ItemSource(handle.own, item)


# ---- in the task


def read_state(storage: Storage, restore: SubtaskRestore, databases: bool = True) -> Iterator[SubtaskState]:
    """Read a subtask's initial state, piece by piece: state that is not keyed, then one key group after the other.

    Each piece is given to ``KeyedStateStore.restore``, ``InternalTimerService.restore`` and ``Operator.restore`` as it
    is; together they are the state. ``storage`` is the folder at ``restore.uri``. Without ``databases`` what is in
    databases is left out, but for the names of the states: the backend has read them itself (``databases.load``).
    """
    items: dict[str, Any] = {}
    for source in restore.items:
        value = BlobReader(storage, source.blob).item(source.item)
        if source.item.redistribute in (RedistributeMode.SPLIT, RedistributeMode.UNION, RedistributeMode.KEYED):
            value = items.get(source.item.name, []) + value[source.first :: source.step]
        items[source.item.name] = value
    yield own_part(items.items())
    if any(origin.files for origin in restore.keyed):
        yield keyed_part(0, {}, restore.max_parallelism, restore.states)
    for origin in restore.keyed:
        if databases and origin.files:
            yield from _read_database(storage, restore, origin)
        readers = [BlobReader(storage, blob) for blob in origin.parts]
        there = {segment.group for blob in origin.parts for segment in blob.groups}
        for group in sorted(there.intersection(origin.groups)):
            tables = fold((reader.group(group) for reader in readers), storage.uri)
            yield keyed_part(group, tables, restore.max_parallelism, restore.states)


def _read_database(storage: Storage, restore: SubtaskRestore, origin: GroupSource) -> Iterator[SubtaskState]:
    with opened(storage, origin.files) as database:
        rows = rows_of(database, restore.states, origin.groups)
        for group, of_group in groupby(rows, key=itemgetter(0)):
            tables: dict[str, list[Any]] = {}
            for _, state, row in of_group:
                tables.setdefault(state, []).append(row)
            states = {name: dict(about) for name, about in restore.states.items()}
            yield SubtaskState(keyed=KeyedSnapshot(restore.max_parallelism, {group: tables}, states=states))


def origins(storage: Storage, restore: SubtaskRestore) -> list[Origin]:
    """Return the origins for ``IncrementalSnapshots.resume``."""
    return [Origin(storage, source.parts, source.groups) for source in restore.keyed]
