"""Pre-aggregation: records of a window are aggregated by key and pane before the exchange.

Only where that provably changes nothing: in event-time windows over columns that fire once, at their end (so a pane takes
its records or is late for all of them), whose contents are folds that may be regrouped; and in a reduce of ``BATCH``, which
gives one value per key, and is one pane. Ints may be added, and compared, in
any grouping; the first record of a key stays the first, and the last one of a pane the last. Floats may not be added so. A
partial is a record (``columnar/keyed/groups.py``), so a leaf of the record plays one role, and no two.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

from funken import config
from funken.columnar.declared import FIRST, LAST, SUM, Fold
from funken.columnar.expressions import Argument, Constant, Expression, Make, NotVectorizable
from funken.columnar.tracing import Traced
from funken.columnar.typed.inference import paths_of
from funken.expr.types import INT, atomic_fields
from funken.ids import EdgeId
from funken.operators.columnar.specs import ColumnarReduce, ColumnarWindow
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import Strategy
from funken.plan.columnar_edges import ColumnarHash, PreAggregation
from funken.plan.columns.windows import is_of_key
from funken.plan.physical import PhysicalPlan, RuleNote
from funken.plan.rules.base import Rewritten, Rule, RuleContext

_NAME = "pre-aggregation"
_MOST_ADDED = 1 << 31
"""The limit of a summand per record, so that one for each record of a block does not overflow."""


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    if not context.pre_aggregate:
        return plan, [RuleNote(_NAME, f"off: {config.PRE_AGGREGATION.key} is false")]
    notes: list[RuleNote] = []
    hashes: dict[EdgeId, ColumnarHash] = {}
    for vertex in plan.vertices:
        node = vertex.nodes[0]
        spec = node.spec
        if not isinstance(spec, ColumnarWindow) and not (isinstance(spec, ColumnarReduce) and spec.any_order):
            continue
        hashed = {edge.id: edge.partitioning for edge in plan.edges if edge.target == vertex.id}
        if not all(isinstance(partitioning, ColumnarHash) for partitioning in hashed.values()):
            notes.append(RuleNote(_NAME, "not before the exchange: it is not one by key", node.id))
            continue
        try:
            folded = pre_aggregation(spec)
        except NotVectorizable as reason:
            notes.append(RuleNote(_NAME, f"not before the exchange: {reason}", node.id))
        else:
            hashes |= {
                edge: replace(each, pre_aggregation=folded)
                for edge, each in hashed.items()
                if isinstance(each, ColumnarHash)
            }
            notes.append(RuleNote(_NAME, "before the exchange", node.id))
    edges = (replace(edge, partitioning=hashes.get(edge.id, edge.partitioning)) for edge in plan.edges)
    return replace(plan, edges=tuple(edges)), notes


def pre_aggregation(spec: ColumnarWindow | ColumnarReduce) -> PreAggregation:
    """Return the pre-aggregation of records before an exchange; raise ``NotVectorizable`` where it is not allowed."""
    if isinstance(spec, ColumnarReduce):
        functions: tuple[tuple[UserFunction, Traced], ...] = ((spec.spec.function, spec.traced),)
        _check_variables(functions)
        return PreAggregation(_roles(spec), None, 0, functions)
    return _of_window(spec)


def _of_window(window: ColumnarWindow) -> PreAggregation:
    assigner: Any = window.assigner
    if window.aggregate is not None and window.aggregate.listed is not None:
        raise NotVectorizable("keeps lists of records")
    if window.layout is not Strategy.ALIGNED:
        raise NotVectorizable("which records are in one window is known only where they arrive")
    if not assigner.is_event_time():
        raise NotVectorizable("the window of a record is known only where it arrives")
    if window.late_tag is not None:
        raise NotVectorizable("late records are wanted one by one")
    size, slide = assigner.size, getattr(assigner, "slide", assigner.size)
    if slide > size:
        raise NotVectorizable("its windows have gaps between them")
    functions = _functions(window)
    _check_variables(functions)
    roles, pane = _roles(window), gcd(size, slide)
    if pane < size and _keeps_last(window, roles):
        raise NotVectorizable("keeps the last record of windows that overlap")
    return PreAggregation(roles, pane, assigner.offset, functions)


def _check_variables(functions: tuple[tuple[UserFunction, Traced], ...]) -> None:
    if any(each.may_change for _, traced in functions for each in traced.dependencies):
        raise NotVectorizable("its function uses variables, which may change")


def _keeps_last(window: ColumnarWindow, roles: tuple[str, ...]) -> bool:
    """Return True if a field shows which of two panes of a window had the last record; a key's fields do not."""
    key = window.traced_key
    paths = [path for path, _ in atomic_fields(window.schema)]
    return any(role == LAST and not is_of_key(Argument(0, path), key) for path, role in zip(paths, roles, strict=True))


def _functions(window: ColumnarWindow) -> tuple[tuple[UserFunction, Traced], ...]:
    function: UserFunction = window.contents.function  # type: ignore[attr-defined]
    if window.aggregate is None:
        return ((function, window.traced),)
    created = UserFunction(function.target, "create_accumulator"), window.aggregate.created
    return created, (UserFunction(function.target, "add"), window.traced)


def _roles(spec: ColumnarWindow | ColumnarReduce) -> tuple[str, ...]:
    leaves = dict(atomic_fields(spec.schema))
    roles: dict[tuple[int, ...], str] = {}
    for own, fold in _wanted(spec):
        if fold.how == SUM and fold.kind != INT:
            raise NotVectorizable("adds floats, whose sum depends on the order")
        if isinstance(fold.of, Constant) and own is None:
            if fold.how == SUM and (type(fold.of.value) is not int or abs(fold.of.value) > _MOST_ADDED):
                raise NotVectorizable("adds a constant that is no small int")
            continue
        path = fold.of.path if isinstance(fold.of, Argument) else None
        if path is None or (own is not None and path != own):
            raise NotVectorizable("computes with a record before it adds it")
        if fold.how not in (FIRST, LAST) and leaves[path] != INT:
            raise NotVectorizable(f"takes the {fold.how} of a {leaves[path]}")
        if roles.setdefault(path, fold.how) != fold.how:
            raise NotVectorizable("aggregates one field in two ways")
    _check_key(spec.traced_key.result, roles)
    return tuple(roles.get(path, FIRST) for path in leaves)


def _wanted(spec: ColumnarWindow | ColumnarReduce) -> list[tuple[tuple[int, ...] | None, Fold]]:
    """Return the aggregates that look at records, each with the first record's field it begins with, or ``None``."""
    if isinstance(spec, ColumnarWindow) and spec.aggregate is not None:
        return [(None, fold) for fold in spec.folds if fold.how != FIRST]
    return [(path, fold) for (path, _), fold in zip(atomic_fields(spec.schema), spec.folds, strict=True)]


def _check_key(key: Expression, roles: dict[tuple[int, ...], str]) -> None:
    """Refuse a key that is not the same for a partial as for its records."""
    found = {roles.get(path, FIRST) for path in paths_of([key], 0)}
    items = key.items if isinstance(key, Make) else (key,)
    # A field that is the key, or an item of it, is alike in all of them: so are its least, its greatest and its last.
    fields = all(isinstance(item, Argument) for item in items)
    kept = SUM not in found if fields else found <= {FIRST} or found <= {LAST}
    if not kept:
        raise NotVectorizable("changes a field of which the key is computed")


RULE = Rule(_NAME, _apply)
