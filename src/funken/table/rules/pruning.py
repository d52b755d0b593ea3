"""Unused columns are not read, computed and kept: state and exchanges have the needed columns only.

A relation that is used several times is narrowed to what its users need together, and so remains one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from funken.expr.ir import InputRef, Node, input_refs, shifted
from funken.expr.sql.values import literal
from funken.table import logical as nodes
from funken.table.logical import LogicalNode, RelationType, project

Places = dict[int, int]
"""Old positions of columns to new ones."""


def pruned(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Return the relations with all their columns, over inputs with those that are needed."""
    order: list[LogicalNode] = []
    seen: set[str] = set()

    def visit(node: LogicalNode) -> None:
        if node.fingerprint not in seen:
            seen.add(node.fingerprint)
            for each in node.inputs:
                visit(each)
            order.append(node)

    for root in roots:
        visit(root)
    needed: dict[str, set[int]] = {node.fingerprint: set() for node in order}
    for root in roots:
        needed[root.fingerprint] |= set(range(len(root.row_type)))
    for node in reversed(order):
        for below, columns in zip(node.inputs, _demands(node, needed[node.fingerprint]), strict=True):
            needed[below.fingerprint] |= columns
    made: dict[str, tuple[LogicalNode, Places]] = {}
    for node in order:
        inputs = [made[each.fingerprint] for each in node.inputs]
        rule = _REBUILD.get(type(node), _whole)
        made[node.fingerprint] = rule(node, needed[node.fingerprint], inputs)
    return [made[root.fingerprint][0] for root in roots]


def _refs(expressions: Iterable[Node | None]) -> set[int]:
    return {index for each in expressions if each is not None for index in input_refs(each)}


def _demands(node: LogicalNode, needed: set[int]) -> list[set[int]]:
    """The columns of each input that a node needs for some of its own."""
    rule = _DEMANDS.get(type(node))
    if rule is None:
        return [set(range(len(each.row_type))) for each in node.inputs]
    return rule(node, needed)


def _project_demands(node: nodes.LogicalProject, needed: set[int]) -> list[set[int]]:
    return [_refs(node.expressions[place] for place in needed)]


def _filter_demands(node: nodes.LogicalFilter, needed: set[int]) -> list[set[int]]:
    return [needed | input_refs(node.condition)]


def _watermark_demands(node: nodes.LogicalWatermark, needed: set[int]) -> list[set[int]]:
    return [needed | {node.time} | input_refs(node.expression)]


def _sort_demands(node: nodes.LogicalSort, needed: set[int]) -> list[set[int]]:
    return [needed | {key.index for key in node.order}]


def _join_demands(node: nodes.LogicalJoin, needed: set[int]) -> list[set[int]]:
    width = len(node.left.row_type)
    used = needed | _refs([node.condition])
    return [{place for place in used if place < width}, {place - width for place in used if place >= width}]


def _temporal_demands(node: nodes.LogicalTemporalJoin, needed: set[int]) -> list[set[int]]:
    width = len(node.left.row_type)
    used = needed | _refs([node.condition])
    rights = {place - width for place in used if place >= width}
    if not _is_lookup(node):
        assert node.time is not None  # only a proctime is dropped, and such a join is a lookup
        used |= {node.time}
        rights = set(range(len(node.right.row_type)))
    return [{place for place in used if place < width}, rights]


def _is_lookup(node: nodes.LogicalTemporalJoin) -> bool:
    """Return True if a join is by processing time, whose column has no value that is read."""
    return node.time is None or node.left.row_type[node.time].time is nodes.TimeAttribute.PROCTIME


def _correlate_demands(node: nodes.LogicalCorrelate, needed: set[int]) -> list[set[int]]:
    used = needed | _refs([*node.call.args, node.condition])
    return [{place for place in used if place < len(node.input.row_type)}]


def _call_columns(call: nodes.AggregateCall) -> set[int]:
    filters = [] if call.filter is None else [call.filter]
    return {*call.args, *filters, *(key.index for key in call.order)}


def _kept_calls(node: nodes.LogicalAggregate, needed: set[int]) -> list[int]:
    """The calls that are needed; a global aggregate keeps one."""
    if node.sets is not None:
        return list(range(len(node.calls)))
    width = len(node.keys)
    kept = [place for place in range(len(node.calls)) if width + place in needed]
    return kept or ([0] if node.calls and not node.keys else [])


def _aggregate_demands(node: nodes.LogicalAggregate, needed: set[int]) -> list[set[int]]:
    used = set(node.keys)
    for place in _kept_calls(node, needed):
        if node.calls[place].function not in {"GROUPING", "GROUPING_ID", "GROUP_ID"}:
            used |= _call_columns(node.calls[place])
    return [used | ({node.window.time} if node.window is not None else set())]


def _window_demands(node: nodes.LogicalWindowTable, needed: set[int]) -> list[set[int]]:
    width = len(node.input.row_type)
    return [{place for place in needed if place < width} | {node.window.time, *node.window.partition}]


def _over_demands(node: nodes.LogicalOver, needed: set[int]) -> list[set[int]]:
    used = {place for place in needed if place < len(node.input.row_type)}
    for group in node.groups:
        used |= {*group.partition, *(key.index for key in group.order)}
        for call in group.calls:
            used |= _call_columns(call)
    return [used]


def _union_demands(node: nodes.LogicalSetOperation, needed: set[int]) -> list[set[int]]:
    return [needed or {0} for _ in node.relations]


# -- the narrower nodes


def _identity(width: int) -> Places:
    return {place: place for place in range(width)}


def _moved(node: Node | None, places: Places) -> Any:
    return None if node is None else shifted(node, places)


def _widened(inputs: Sequence[tuple[LogicalNode, Places]], originals: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Inputs that have all their columns, for nodes that need them all."""
    for (_, places), original in zip(inputs, originals, strict=True):
        assert len(places) == len(original.row_type)
    return [node for node, _ in inputs]


def _whole(node: LogicalNode, needed: set[int], inputs: list[tuple[LogicalNode, Places]]) -> tuple[LogicalNode, Places]:
    made = _widened(inputs, node.inputs)
    same = all(new is old for new, old in zip(made, node.inputs, strict=True))
    return (node if same else node.with_inputs(made)), _identity(len(node.row_type))


def _scan(node: nodes.LogicalScan, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    names = node.row_type.names
    key = {names.index(name) for name in node.table.table.primary_key if name in names}
    kept = sorted(needed | key) or [0]
    if len(kept) == len(names):
        return node, _identity(len(names))
    row_type = RelationType(tuple(node.row_type[place] for place in kept))
    return replace(node, row_type=row_type), {old: new for new, old in enumerate(kept)}


def _project(node: nodes.LogicalProject, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    ((below, places),) = inputs
    kept = sorted(needed) or [0]
    if not needed:  # a row must have a column, and this one needs none of the input's
        kept = [place for place, each in enumerate(node.expressions) if not input_refs(each)][:1]
    if not kept:
        return project(below, [literal(0)], [node.row_type.names[0]], node.hints), {}
    expressions = [shifted(node.expressions[place], places) for place in kept]
    names = [node.row_type.names[place] for place in kept]
    return project(below, expressions, names, node.hints), {old: new for new, old in enumerate(kept)}


def _filter(node: nodes.LogicalFilter, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    ((below, places),) = inputs
    return replace(node, input=below, condition=shifted(node.condition, places)), places


def _watermark(node: nodes.LogicalWatermark, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    ((below, places),) = inputs
    expression = shifted(node.expression, places)
    return replace(node, input=below, time=places[node.time], expression=expression), places


def _sort(node: nodes.LogicalSort, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    ((below, places),) = inputs
    order = tuple(replace(key, index=places[key.index]) for key in node.order)
    return replace(node, input=below, order=order), places


def _join(node: Any, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    (left, lefts), (right, rights) = inputs
    width, new = len(node.left.row_type), len(left.row_type)
    places = {**lefts, **{width + old: new + place for old, place in rights.items()}}
    changes: dict[str, Any] = {"left": left, "right": right, "condition": _moved(node.condition, places)}
    if isinstance(node, nodes.LogicalTemporalJoin):
        changes["time"] = None if node.time is None or _is_lookup(node) else places[node.time]
    shown = places if node.kind.keeps_right else dict(lefts)
    return replace(node, **changes), shown


def _correlate(node: nodes.LogicalCorrelate, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    ((below, places),) = inputs
    width, new = len(node.input.row_type), len(below.row_type)
    both = {**places, **{width + place: new + place for place in range(len(node.call.row_type))}}
    call = replace(node.call, args=tuple(shifted(each, places) for each in node.call.args))
    return replace(node, input=below, call=call, condition=_moved(node.condition, both)), both


def _aggregate(node: nodes.LogicalAggregate, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    ((below, places),) = inputs
    kept = _kept_calls(node, needed)
    width = len(node.keys)
    grouping = {"GROUPING", "GROUPING_ID", "GROUP_ID"}
    calls = tuple(
        node.calls[place] if node.calls[place].function in grouping else node.calls[place].moved(places)
        for place in kept
    )
    window = None if node.window is None else replace(node.window, time=places[node.window.time])
    found = _identity(width) | {width + old: width + new for new, old in enumerate(kept)}
    for place in range(len(node.properties)):
        found[width + len(node.calls) + place] = width + len(kept) + place
    keys = tuple(places[key] for key in node.keys)
    return replace(node, input=below, keys=keys, calls=calls, window=window), found


def _window(node: nodes.LogicalWindowTable, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    ((below, places),) = inputs
    width, new = len(node.input.row_type), len(below.row_type)
    window = replace(
        node.window, time=places[node.window.time], partition=tuple(places[each] for each in node.window.partition)
    )
    row_type = RelationType(below.row_type.columns + node.row_type.columns[width:])
    found = {**places, **{width + place: new + place for place in range(3)}}
    return replace(node, input=below, window=window, row_type=row_type), found


def _over(node: nodes.LogicalOver, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    ((below, places),) = inputs
    width, new = len(node.input.row_type), len(below.row_type)
    groups = tuple(
        replace(
            group,
            partition=tuple(places[each] for each in group.partition),
            order=tuple(replace(key, index=places[key.index]) for key in group.order),
            calls=tuple(call.moved(places) for call in group.calls),
        )
        for group in node.groups
    )
    count = sum(len(group.calls) for group in groups)
    found = {**places, **{width + place: new + place for place in range(count)}}
    return replace(node, input=below, groups=groups), found


def _union(node: nodes.LogicalSetOperation, needed: set[int], inputs: Any) -> tuple[LogicalNode, Places]:
    kept = sorted(needed) or [0]
    relations = []
    for below, places in inputs:
        refs = [InputRef(places[place], type=below.row_type[places[place]].type) for place in kept]
        names = [below.row_type.names[places[place]] for place in kept]
        whole = [ref.index for ref in refs] == list(range(len(below.row_type)))
        relations.append(below if whole else project(below, refs, names))
    row_type = RelationType(tuple(node.row_type[place] for place in kept))
    return replace(node, relations=tuple(relations), row_type=row_type), {old: new for new, old in enumerate(kept)}


Rebuild = Callable[[Any, set[int], Any], tuple[LogicalNode, Places]]
_REBUILD: dict[type, Rebuild] = {
    nodes.LogicalScan: _scan,
    nodes.LogicalProject: _project,
    nodes.LogicalFilter: _filter,
    nodes.LogicalWatermark: _watermark,
    nodes.LogicalSort: _sort,
    nodes.LogicalJoin: _join,
    nodes.LogicalTemporalJoin: _join,
    nodes.LogicalCorrelate: _correlate,
    nodes.LogicalAggregate: _aggregate,
    nodes.LogicalWindowTable: _window,
    nodes.LogicalOver: _over,
    nodes.LogicalSetOperation: _union,
}
_DEMANDS: dict[type, Callable[[Any, set[int]], list[set[int]]]] = {
    nodes.LogicalProject: _project_demands,
    nodes.LogicalFilter: _filter_demands,
    nodes.LogicalWatermark: _watermark_demands,
    nodes.LogicalSort: _sort_demands,
    nodes.LogicalJoin: _join_demands,
    nodes.LogicalTemporalJoin: _temporal_demands,
    nodes.LogicalCorrelate: _correlate_demands,
    nodes.LogicalAggregate: _aggregate_demands,
    nodes.LogicalWindowTable: _window_demands,
    nodes.LogicalOver: _over_demands,
    nodes.LogicalSetOperation: _union_demands,
}
