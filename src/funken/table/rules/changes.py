"""Updates with or without the row before (-U): from the sinks up, each operator learns the needs of its consumer.

An operator first tries to do without -U, if its consumer can; what it cannot it refuses, and gets asked for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from funken.expr.ir import input_refs
from funken.table import exec_nodes as nodes
from funken.table.changelog import ChangelogMode
from funken.table.exec_nodes import ExecNode
from funken.table.logical import JoinType
from funken.table.rules.functions import produced, traits_of
from funken.types.row import RowKind


class Need(Enum):
    """The rows that a consumer needs of updates: before and after, or after only."""

    BOTH = "both"
    AFTER = "after"


def _before(mode: ChangelogMode) -> bool:
    return mode.contains(RowKind.UPDATE_BEFORE)


def _updates(mode: ChangelogMode) -> bool:
    return mode.contains(RowKind.UPDATE_AFTER)


def without_before(mode: ChangelogMode) -> ChangelogMode:
    """Return a mode without the rows before an update."""
    return ChangelogMode(mode.kinds - {RowKind.UPDATE_BEFORE}, mode.key_only_deletes)


_FORWARD = (
    nodes.ExecCalc,
    nodes.ExecExchange,
    nodes.ExecWatermark,
    nodes.ExecCorrelate,
    nodes.ExecExpand,
    nodes.ExecWindowTable,
    nodes.ExecLookupJoin,
)
_OWN = (
    nodes.ExecGroupAggregate,
    nodes.ExecRank,
    nodes.ExecDeduplicate,
    nodes.ExecOver,
    nodes.ExecGroupWindowAggregate,
)


class Settler:
    """Settles the changes of every operator; equal requests share one object."""

    def __init__(self) -> None:
        self._done: dict[tuple[int, Need, bool], ExecNode | None] = {}
        self._kept: list[ExecNode] = []

    def of(self, node: ExecNode, need: Need, partial: bool = False) -> ExecNode | None:
        """Return a node with the needed changes; ``None`` if it cannot. ``partial``: deletes may have only keys."""
        key = (id(node), need, partial)
        if key not in self._done:
            self._kept.append(node)
            self._done[key] = self._settled(node, need, partial)
        return self._done[key]

    def must(self, node: ExecNode, need: Need, partial: bool = False) -> ExecNode:
        """Return a node with the needed changes, which it can have."""
        found = self.of(node, need, partial)
        assert found is not None, f"{type(node).__name__} cannot give {need}"
        return found

    def _settled(self, node: ExecNode, need: Need, partial: bool) -> ExecNode | None:
        if isinstance(node, nodes.ExecScan | nodes.ExecStream | nodes.ExecValues):
            return self._source(node, need)
        if isinstance(node, _FORWARD) and getattr(node, "keep", None) is None:
            return self._forwarded(node, need, partial)
        if isinstance(node, nodes.ExecChangelogNormalize):
            return self._normalized(node, need, partial)
        if isinstance(node, _OWN):
            return self._own(node, need)
        if isinstance(node, nodes.ExecUnion):
            relations = [self.of(each, need, partial) for each in node.relations]
            if any(each is None for each in relations):
                return None
            kinds = frozenset(kind for each in relations if each is not None for kind in each.mode.kinds)
            return replace(node, relations=tuple(relations), mode=replace(node.mode, kinds=kinds))  # type: ignore[arg-type]
        if isinstance(node, nodes.ExecJoin):
            return self._join(node, need, partial)
        if isinstance(node, nodes.ExecProcessTableFunction) and hasattr(node.definition, "changelog_mode"):
            return self._process(node, need, partial)
        return self._fixed(node, need)

    def _process(self, node: nodes.ExecProcessTableFunction, need: Need, partial: bool) -> ExecNode | None:
        """Settle a process table function: its tables say their needs, and the function its changes for the need."""
        relations = []
        for table in node.tables:
            below = node.relations[table.relation]
            traits = traits_of(node.definition, table.name)
            keyed = any(key == set(table.partition or ()) for key in below.upsert_keys)
            found = None
            if keyed and "update_before" not in traits:
                found = self.of(below, Need.AFTER, "full_deletes" not in traits)
            relations.append(self.must(below, Need.BOTH) if found is None else found)
        requested = ChangelogMode.all() if need is Need.BOTH else ChangelogMode.upsert(partial)
        mode = produced(node.definition, node.tables, relations, requested)
        found = replace(node, relations=tuple(relations), mode=mode)
        if _updates(mode) and need is Need.AFTER and _before(mode):
            return nodes.ExecDropUpdateBefore(
                found, row_type=found.row_type, mode=without_before(mode), upsert_keys=found.upsert_keys
            )
        return None if _updates(mode) and need is Need.BOTH and not _before(mode) else found

    def _source(self, node: ExecNode, need: Need) -> ExecNode | None:
        if not _updates(node.mode):
            return node
        if need is Need.AFTER and _before(node.mode):
            return nodes.ExecDropUpdateBefore(
                node, row_type=node.row_type, mode=without_before(node.mode), upsert_keys=node.upsert_keys
            )
        return None if need is Need.BOTH and not _before(node.mode) else node

    def _forwarded(self, node: Any, need: Need, partial: bool) -> ExecNode | None:
        if (
            isinstance(node, nodes.ExecCalc)
            and node.condition is not None
            and need is Need.AFTER
            and _updates(node.mode)
            and not any(input_refs(node.condition) <= key for key in node.input.upsert_keys)
        ):
            return None
        if partial and isinstance(node, nodes.ExecCalc):
            partial = bool(node.upsert_keys) and node.condition is None
        if isinstance(node, nodes.ExecLookupJoin) and need is Need.AFTER and _updates(node.mode):
            return self._looked_up(node, partial)
        below = self.of(node.input, need, partial and isinstance(node, nodes.ExecCalc | nodes.ExecExchange))
        return None if below is None else replace(node, input=below, mode=below.mode)

    def _looked_up(self, node: nodes.ExecLookupJoin, partial: bool) -> ExecNode | None:
        """A lookup join without rows before updates: where an inner one finds nothing any more, it deletes the key."""
        if not node.upsert_keys or (node.kind is JoinType.INNER and not partial):
            return None
        below = self.of(node.input, Need.AFTER)
        if below is None:
            return None
        mode = below.mode
        if node.kind is JoinType.INNER:
            mode = ChangelogMode(mode.kinds | {RowKind.DELETE}, True)
        return replace(node, input=below, mode=mode)

    def _normalized(self, node: nodes.ExecChangelogNormalize, need: Need, partial: bool) -> ExecNode | None:
        below = self.must(node.input, Need.AFTER, True)
        whole = partial or not below.mode.key_only_deletes
        upserts = not _before(_bottom(node.input).mode)
        if need is Need.AFTER and node.condition is None and whole and upserts:
            return below.input if isinstance(below, nodes.ExecExchange) else below
        mode = node.mode if need is Need.BOTH else without_before(node.mode)
        return replace(node, input=below, mode=mode)

    def _own(self, node: Any, need: Need) -> ExecNode:
        below = None
        if isinstance(node, nodes.ExecRank) and node.strategy == "update":
            below = self.of(node.input, Need.AFTER)
            if below is None:  # a filter below drops rows when they change, so that they have to be taken back
                node = replace(node, strategy="retract", unique_key=())
        below = self.must(node.input, Need.BOTH) if below is None else below
        found: ExecNode = replace(node, input=below, mode=node.mode if need is Need.BOTH else without_before(node.mode))
        return found

    def _join(self, node: nodes.ExecJoin, need: Need, partial: bool) -> ExecNode | None:
        sides = []
        for side, keys in ((node.left, node.left_keys), (node.right, node.right_keys)):
            if need is Need.AFTER:
                if _updates(side.mode) and not any(set(keys) <= key for key in side.upsert_keys):
                    return None
                found = self.of(side, Need.AFTER, partial and any(key == set(keys) for key in side.upsert_keys))
            else:
                found = self.of(side, Need.BOTH)
            if found is None:
                return None
            sides.append(found)
        mode = node.mode if need is Need.BOTH else without_before(node.mode)
        return replace(node, left=sides[0], right=sides[1], mode=mode)

    def _versions(self, node: ExecNode) -> ExecNode:
        """The right side of a temporal join: a row before an update would end the version at the version's own time."""
        if isinstance(node, nodes.ExecExchange | nodes.ExecCalc) and getattr(node, "condition", None) is None:
            below = self._versions(node.input)
            return replace(node, input=below, mode=below.mode)
        if isinstance(node, _OWN):
            return self._own(node, Need.AFTER)
        found = self.must(node, Need.BOTH)
        if isinstance(found, nodes.ExecChangelogNormalize):
            mode = without_before(found.mode) if found.condition is None else found.mode
            return replace(found, mode=mode, versions=True)
        return found

    def _fixed(self, node: ExecNode, need: Need) -> ExecNode | None:
        """Settle operators that take complete changes, and emit changes of their own."""
        inputs = [self.must(each, Need.BOTH) for each in node.inputs]  # type: ignore[arg-type]
        if isinstance(node, nodes.ExecTemporalJoin):
            inputs[1] = self._versions(node.right)
        found = node.with_inputs(inputs)
        if isinstance(node, nodes.ExecSort | nodes.ExecTemporalJoin | nodes.ExecLookupJoin):
            found = replace(found, mode=inputs[0].mode)
        if _updates(found.mode) and need is Need.AFTER and _before(found.mode):
            if isinstance(node, nodes.ExecMultiJoin | nodes.ExecLookupJoin | nodes.ExecTemporalJoin):
                return None  # a row that is taken back may have none that takes its place
            return nodes.ExecDropUpdateBefore(
                found, row_type=found.row_type, mode=without_before(found.mode), upsert_keys=found.upsert_keys
            )
        return None if _updates(found.mode) and need is Need.BOTH and not _before(found.mode) else found


def _bottom(node: ExecNode) -> ExecNode:
    while isinstance(node, nodes.ExecExchange | nodes.ExecCalc | nodes.ExecWatermark | nodes.ExecDropUpdateBefore):
        node = node.input
    return node


def settled(roots: Sequence[tuple[ExecNode, Sequence[Need], bool]], settler: Settler) -> list[ExecNode]:
    """Return the inputs of sinks, each asked for its needs in order of preference."""
    found = []
    for node, needs, partial in roots:
        choices = (settler.of(node, need, partial) for need in needs)
        made = next((choice for choice in choices if choice is not None), None)
        assert made is not None
        found.append(made)
    return found
