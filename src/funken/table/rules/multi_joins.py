"""Chains of joins by one key as one operator (``table.optimizer.multi-join.enabled``): no rows between the joins are kept.

INNER and LEFT joins are put together from the left, as long as there is a key: a column of each relation, which its join makes
equal to that of a relation before it. What is left of a chain stays a join of two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import InputRef, Node, shifted
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode, UpsertKeys
from funken.table.logical import JoinType, RelationType
from funken.table.rules.building import calc, exchange


@dataclass
class _Chain:
    """Relations that are joined; columns count over all of them. ``shown`` are those of the join on top, in its order.

    ``classes`` are columns with equal values, the first of each the one of the first relation: a column per relation.
    """

    relations: list[ExecNode]
    starts: list[int]
    shown: list[int]
    unique: list[UpsertKeys]
    ttls: list[int]
    hinted: list[int | None]
    kinds: list[JoinType] = field(default_factory=list)
    pairs: list[list[tuple[int, int]]] = field(default_factory=list)
    conditions: list[Node | None] = field(default_factory=list)
    classes: list[list[int]] = field(default_factory=list)
    equal: list[set[int]] = field(default_factory=list)
    width: int = 0


def with_multi_joins(roots: Sequence[ExecNode]) -> list[ExecNode]:
    """Return plans in which chains of at least two joins by one key are one operator."""
    uses: Counter[int] = Counter()

    def count(node: Any) -> None:
        uses[id(node)] += 1
        if uses[id(node)] == 1:
            for each in node.inputs:
                count(each)

    for root in roots:
        count(root)
    done: dict[int, tuple[Any, Any]] = {}

    def visit(node: Any) -> Any:
        if id(node) not in done:
            chain = _chain(node, uses) if isinstance(node, nodes.ExecJoin) else None
            if chain is not None and len(chain.relations) > 2:
                made = _made(node, replace(chain, relations=[visit(each) for each in chain.relations]))
            else:
                inputs = tuple(visit(each) for each in node.inputs)
                same = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
                made = node if same else node.with_inputs(inputs)
            done[id(node)] = node, made
        return done[id(node)][1]

    return [visit(root) for root in roots]


def _mergeable(join: nodes.ExecJoin) -> bool:
    return join.kind in {JoinType.INNER, JoinType.LEFT} and bool(join.left_keys) and not any(join.null_safe)


def _chain(join: nodes.ExecJoin, uses: Counter[int]) -> _Chain | None:
    """The chain that ends with a join; ``None`` if it is none."""
    if not _mergeable(join):
        return None
    left, right = (side.input if isinstance(side, nodes.ExecExchange) else side for side in (join.left, join.right))
    below = _below(left, join.left, uses)
    chain = below if below is not None else _alone(left, join)
    extended = _extended(chain, join, right)
    if extended is None and below is not None:  # another key: the joins below stay by themselves
        extended = _extended(_alone(left, join), join, right)
    return extended


def _below(left: ExecNode, exchanged: ExecNode, uses: Counter[int]) -> _Chain | None:
    """Return the chain below a join, behind a projection that computes nothing; nodes with other readers stay."""
    inner = left
    if isinstance(left, nodes.ExecCalc):
        if left.condition is not None or not all(isinstance(each, InputRef) for each in left.expressions):
            return None
        inner = left.input
    if not isinstance(inner, nodes.ExecJoin) or any(uses[id(each)] > 1 for each in (exchanged, left, inner)):
        return None
    chain = _chain(inner, uses)
    if chain is not None and inner is not left:
        chain = replace(chain, shown=[chain.shown[each.index] for each in left.expressions])  # type: ignore[attr-defined]
    return chain


def _alone(node: ExecNode, join: nodes.ExecJoin) -> _Chain:
    width = len(node.row_type)
    return _Chain([node], [0], list(range(width)), [join.left_unique], [join.left_ttl], [join.hinted[0]], width=width)


def _extended(chain: _Chain, join: nodes.ExecJoin, right: ExecNode) -> _Chain | None:
    """A chain with a join more; ``None`` if the relation has no column that equals those of all before."""
    start = chain.width
    pairs = [(chain.shown[left], place) for left, place in zip(join.left_keys, join.right_keys, strict=True)]
    first = len(chain.relations) == 1
    classes = [[left] for left in dict.fromkeys(left for left, _ in pairs)] if first else chain.classes
    equal = [{left} for (left,) in classes] if first else chain.equal
    found, members = [], []
    for columns, same in zip(classes, equal, strict=True):
        partner = next((pair for pair in pairs if pair[0] in same), None)
        if partner is not None:
            found.append([*columns, start + partner[1]])
            members.append({*same, start + partner[1]})
    if not found:
        return None
    places = {place: column for place, column in enumerate(chain.shown)}
    places |= {len(chain.shown) + place: start + place for place in range(len(right.row_type))}
    shown = list(places.values()) if join.kind.keeps_right else chain.shown
    return _Chain(
        [*chain.relations, right],
        [*chain.starts, start],
        shown,
        [*chain.unique, join.right_unique],
        [*chain.ttls, join.right_ttl],
        [*chain.hinted, join.hinted[1]],
        [*chain.kinds, join.kind],
        [*chain.pairs, pairs],
        [*chain.conditions, None if join.condition is None else shifted(join.condition, places)],
        found,
        members,
        start + len(right.row_type),
    )


def _checked(chain: _Chain, place: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of a join that its rows have to be compared by: those of the key are equal in every row of a group.

    A column that a later join has no partner for is not in the key, so the key is known only of the whole chain.
    """
    start = chain.starts[place]

    def is_key(left: int, right: int) -> bool:
        return _always_there(chain, left) and any(
            left in columns[:place] and columns[place] == start + right for columns in chain.classes
        )

    return tuple(pair for pair in chain.pairs[place - 1] if not is_key(*pair))


def _always_there(chain: _Chain, column: int) -> bool:
    """Return True if a column is of a relation that is never padded: its value is that of the key."""
    place = max(at for at, start in enumerate(chain.starts) if start <= column)
    return place == 0 or chain.kinds[place - 1] is JoinType.INNER


def _made(join: nodes.ExecJoin, chain: _Chain) -> ExecNode:
    """The operator of a chain, with the columns of the join on top."""
    keys = []
    for place, start in enumerate(chain.starts):
        keys.append(tuple(columns[place] - start for columns in chain.classes))
    columns = []
    for place, relation in enumerate(chain.relations):
        padded = place > 0 and chain.kinds[place - 1] is JoinType.LEFT
        for column in relation.row_type:
            plain = column.ordinary()
            columns.append(replace(plain, type=plain.type.nullable()) if padded else plain)
    multi = nodes.ExecMultiJoin(
        tuple(exchange(relation, key) for relation, key in zip(chain.relations, keys, strict=True)),
        tuple(chain.kinds),
        tuple(keys),
        tuple(_checked(chain, place) for place in range(1, len(chain.relations))),
        tuple(chain.conditions),
        tuple(map(_smallest, chain.unique)),
        tuple(chain.ttls),
        tuple(chain.hinted),
        row_type=RelationType(tuple(columns)),
        mode=join.mode,
    )
    shown = [InputRef(column, type=columns[column].type) for column in chain.shown]
    found = calc(multi, shown, join.row_type.names)
    return replace(found, row_type=join.row_type, upsert_keys=join.upsert_keys)


def _smallest(keys: UpsertKeys) -> tuple[int, ...] | None:
    return min((tuple(sorted(key)) for key in keys), key=lambda key: (len(key), key), default=None)
