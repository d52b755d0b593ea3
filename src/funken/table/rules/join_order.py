"""Order of inner joins in batch: a join takes next what leaves the fewest rows, and no cross product where there is another way.

What an OR over several relations implies for one of them filters it before the joins.

Estimates come from what tables know of themselves (``ScanTable.statistics``): the number of rows, and bounds of the number of
different values of columns. The columns of the result stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import Call, InputRef, Node, input_refs, shifted
from funken.table.connectors.factory import scan_of
from funken.table.logical import (
    JoinType,
    LogicalAggregate,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalProject,
    LogicalScan,
    LogicalValues,
    project,
)
from funken.table.rules.conditions import conjunction, conjuncts, factored, implied, is_deterministic, moved

_ROWS = 1e6
"""What a relation is taken to have of which nothing is known."""
_SHARES = {"=": 0.1, "<>": 0.9, "LIKE": 0.1, "IN": 0.3, "OR": 0.3, "IS NULL": 0.1, "NOT": 0.9}
_COMPARED = 0.4


@dataclass
class Size:
    """About how many rows a relation has, and of columns how many different values."""

    rows: float
    values: dict[int, float] = field(default_factory=dict)

    def different(self, column: int) -> float:
        """Return about how many values of a column there are before any is filtered out."""
        return max(1.0, self.values.get(column, self.rows))


class JoinOrder:
    """Orders the joins of plans whose filters have been pushed down."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._done: dict[str, LogicalNode] = {}
        self._sizes: dict[str, Size] = {}

    def of(self, node: LogicalNode) -> LogicalNode:
        """Return a plan with the joins in order."""
        found = self._done.get(node.fingerprint)
        if found is None:
            found = self._done[node.fingerprint] = self._ordered(node)
        return found

    def _ordered(self, node: LogicalNode) -> LogicalNode:
        relations: list[LogicalNode] = []
        parts: list[Node] = []
        if _is_plain(node) and _flatten(node, 0, relations, parts):
            inputs = _narrowed([self.of(each) for each in relations], parts)
            if len(relations) > 2:
                return self._joined(node, inputs, parts)
        else:
            inputs = [self.of(each) for each in node.inputs]
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        return node if same else node.with_inputs(inputs)

    def _joined(self, node: LogicalNode, relations: list[LogicalNode], parts: list[Node]) -> LogicalNode:
        begins = [0]
        for each in relations:
            begins.append(begins[-1] + len(each.row_type))
        owner = [place for place, each in enumerate(relations) for _ in each.row_type]
        sizes = [self.size(each) for each in relations]
        pairs = [pair for part in parts for each in factored(part) if (pair := _equal(each, owner)) is not None]
        order = _best([each.rows for each in sizes], pairs, lambda column: _different(column, sizes, owner, begins))
        places: dict[int, int] = {}
        made: LogicalNode | None = None
        left = list(parts)
        for number in order:
            width = 0 if made is None else len(made.row_type)
            relation = relations[number]
            places |= {begins[number] + at: width + at for at in range(len(relation.row_type))}
            if made is None:
                made = relation
                continue
            due = [part for part in left if input_refs(part) <= places.keys()]
            left = [part for part in left if part not in due]
            condition = conjunction([shifted(part, places) for part in due])
            made = LogicalJoin(made, relation, JoinType.INNER, condition, span=node.span)
        assert made is not None
        if order == sorted(order):
            return made
        row = node.row_type
        return project(made, [InputRef(places[at], type=row[at].type) for at in range(len(row))], row.names)

    # ---- sizes

    def size(self, node: LogicalNode) -> Size:
        """Return the estimate of a relation."""
        found = self._sizes.get(node.fingerprint)
        if found is None:
            found = self._sizes[node.fingerprint] = self._size(node)
        return found

    def _size(self, node: LogicalNode) -> Size:
        if isinstance(node, LogicalScan):
            return self._of_table(node)
        if isinstance(node, LogicalValues):
            return Size(float(len(node.rows)))
        below = [self.size(each) for each in node.inputs]
        if isinstance(node, LogicalFilter):
            return Size(below[0].rows * _share(node.condition), dict(below[0].values))
        if isinstance(node, LogicalProject):
            values = {
                place: below[0].different(each.index)
                for place, each in enumerate(node.expressions)
                if isinstance(each, InputRef)
            }
            return Size(below[0].rows, values)
        if isinstance(node, LogicalAggregate):
            if not node.keys:
                return Size(1.0)
            groups = 1.0
            for key in node.keys:
                groups = min(below[0].rows, groups * below[0].different(key))
            return Size(groups, {place: below[0].different(key) for place, key in enumerate(node.keys)})
        if isinstance(node, LogicalJoin) and not node.kind.keeps_right:
            return Size(below[0].rows * 0.5, dict(below[0].values))
        return Size(max((each.rows for each in below), default=_ROWS), dict(below[0].values) if below else {})

    def _of_table(self, node: LogicalScan) -> Size:
        names = node.row_type.names
        known = scan_of(node.table, list(names), self._config, node.options).statistics()
        if known is None:
            return Size(_ROWS)
        rows, values = known
        return Size(
            float(rows), {names.index(name): min(float(rows), count) for name, count in values.items() if name in names}
        )


def _is_plain(node: LogicalNode) -> bool:
    return isinstance(node, LogicalJoin) and node.kind is JoinType.INNER and not node.hints and node.ttl == (None, None)


def _flatten(node: LogicalNode, begin: int, relations: list[LogicalNode], parts: list[Node]) -> bool:
    """Collect the relations of nested inner joins, and their conditions over all columns; return False if one has to stay."""
    if not _is_plain(node):
        relations.append(node)
        return True
    assert isinstance(node, LogicalJoin)
    fits = _flatten(node.left, begin, relations, parts)
    fits = fits and _flatten(node.right, begin + len(node.left.row_type), relations, parts)
    found = conjuncts(node.condition)
    parts += [shifted(part, lambda index: index + begin) for part in found]
    return fits and all(map(is_deterministic, found))


def _narrowed(relations: list[LogicalNode], parts: Sequence[Node]) -> list[LogicalNode]:
    """Filter each relation by what the conditions of the join, which stay, imply for it alone."""
    found, begin = [], 0
    for relation in relations:
        columns = range(begin, begin + len(relation.row_type))
        known = [moved(each, -begin) for part in parts if (each := implied(part, columns)) is not None]
        begin, below = columns.stop, relation
        if known and isinstance(relation, LogicalFilter):
            known, below = [*conjuncts(relation.condition), *known], relation.input
        condition = conjunction(known)
        found.append(relation if condition is None else LogicalFilter(below, condition))
    return found


def _equal(part: Node, owner: Sequence[int]) -> tuple[int, int, int, int] | None:
    """Return the relations, and columns, that a condition compares; of an expression the first of its columns stands for it."""
    if not isinstance(part, Call) or part.function not in ("=", "IS NOT DISTINCT FROM"):
        return None
    sides = [input_refs(each) for each in part.args]
    owners = [{owner[index] for index in side} for side in sides]
    if any(len(each) != 1 for each in owners) or owners[0] == owners[1]:
        return None
    return min(owners[0]), min(owners[1]), min(sides[0]), min(sides[1])


def _different(column: int, sizes: Sequence[Size], owner: Sequence[int], begins: Sequence[int]) -> float:
    number = owner[column]
    return sizes[number].different(column - begins[number])


def _best(
    rows: Sequence[float], pairs: Sequence[tuple[int, int, int, int]], different: Callable[[int], float]
) -> list[int]:
    """Return of the orders that take next what leaves the fewest rows, one from each relation, that with the fewest in all."""
    best: tuple[float, list[int]] | None = None
    for first in range(len(rows)):
        order, now, total = [first], rows[first], 0.0
        rest = [each for each in range(len(rows)) if each != first]
        while rest:
            choices = [(*_after(now, each, order, rows, pairs, different), each) for each in rest]
            _, now, chosen = min(choices)
            total += now
            order.append(chosen)
            rest.remove(chosen)
        if best is None or total < best[0]:
            best = total, order
    assert best is not None
    return best[1]


def _after(
    now: float,
    number: int,
    order: Sequence[int],
    rows: Sequence[float],
    pairs: Sequence[tuple[int, int, int, int]],
    different: Callable[[int], float],
) -> tuple[bool, float]:
    """Return whether a relation would be crossed with those before, and how many rows they have together."""
    share = 1.0
    met = False
    for one, other, left, right in pairs:
        if (one == number and other in order) or (other == number and one in order):
            met = True
            share *= max(different(left), different(right))
    return not met, max(1.0, now * rows[number] / min(share, max(1.0, now, rows[number]) if met else 1.0))


def _share(condition: Node | None) -> float:
    """Return about which share of rows fulfil a condition."""
    share = 1.0
    for part in conjuncts(condition):
        name = part.function if isinstance(part, Call) else ""
        share *= _SHARES.get(name, _COMPARED)
    return share
