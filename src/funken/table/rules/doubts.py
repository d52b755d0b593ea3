"""Plans that are valid and hardly meant: conditions that no row fulfils, or that every row does, and joins of all rows with all.

Each is warned of while a query is planned; the query runs as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from funken.config.configuration import warn
from funken.expr.ir import Call, Literal, Node, input_refs
from funken.expr.ir import walk as walk_nodes
from funken.table.logical import (
    JoinType,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalProject,
    LogicalScan,
    LogicalStream,
    LogicalWatermark,
    LogicalWindowTable,
    walk,
)
from funken.table.rules.conditions import conjuncts, is_deterministic, moved
from funken.table.rules.printing import Notation
from funken.table.types import IntegralType, NumericType

# ---- conditions

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "<>": "=", "IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL"}
_SHOWN, _NAMED, _PERCENT = 60, 3, 100


def warn_of_conditions(own: Sequence[Node], above: Sequence[Node], names: Sequence[str]) -> None:
    """Warn if conjuncts together are never TRUE; those of filters ``above`` alone were looked at before."""
    pair = contradiction([*own, *above])
    if pair is not None and contradiction(above) is None:
        warn(
            f"no row fulfils both {_shown(pair[0], names)} and {_shown(pair[1], names)}, so the filter keeps none. Correct one "
            "of them, or join them with OR; BETWEEN takes the smaller bound first."
        )
    for each in own:
        if contradiction(_denied(each)) is not None:
            warn(
                f"{_shown(each, names)} is TRUE for every value that is not NULL. Correct it, or join its parts "
                "with AND."
            )


class _Plain(Notation):
    """Writes conditions as a query has them."""

    def call(self, node: Call, args: list[str]) -> str:
        if node.function == "IN":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        if node.function == "BETWEEN":
            return f"({args[0]} BETWEEN {args[1]} AND {args[2]})"
        return super().call(node, args)

    def constant(self, node: Literal) -> str:
        return str(node.value) if isinstance(node.type, NumericType) else super().constant(node)


def _shown(node: Node, names: Sequence[str]) -> str:
    text = _Plain(infix=True).text(node, names)
    text = text[1:-1] if text[0] == "(" and text[-1] == ")" else text
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _denied(node: Node) -> list[Node]:
    """Return the conjuncts of the opposite of OR and NOT, as far as they are comparisons."""
    if isinstance(node, Call) and node.function == "NOT":
        return conjuncts(node.args[0])
    if not isinstance(node, Call) or node.function != "OR":
        return []
    calls = [arg for arg in node.args if isinstance(arg, Call) and arg.function in _OPPOSITE]
    return [Call(_OPPOSITE[each.function], each.args, type=each.type) for each in calls]


def contradiction(parts: Sequence[Node]) -> tuple[Node, Node] | None:
    """Return two conjuncts that are never TRUE together: bounds of one value that leave no value between them.

    >>> from funken.expr.ir import InputRef
    >>> from funken.expr.sql.functions import FUNCTIONS
    >>> from funken.expr.sql.values import literal
    >>> from funken.table.types import IntType
    >>> n = lambda name, value: FUNCTIONS.call(name, [InputRef(0, type=IntType()), literal(value)])
    >>> contradiction([n(">", 5), n("<", 3)]) is None, contradiction([n(">=", 3), n("<=", 3)]) is None
    (False, True)
    """
    lows: dict[Node, tuple[Any, bool, Node]] = {}
    highs: dict[Node, tuple[Any, bool, Node]] = {}
    nulls: dict[Node, Node] = {}
    others: dict[Node, Node] = {}
    for part in parts:
        if not isinstance(part, Call):
            continue
        if part.function == "IS NULL":
            nulls.setdefault(part.args[0], part)
        elif part.function == "IS NOT NULL":
            others.setdefault(part.args[0], part)
        for value, operator, bound in _bounds(part):
            others.setdefault(value, part)
            low, high = lows.get(value), highs.get(value)
            known = low or high
            if known is not None and not _comparable(known[0], bound):
                continue
            strict = operator in {"<", ">"}
            if operator not in {"<", "<="} and (low is None or (bound, strict) > low[:2]):
                lows[value] = (bound, strict, part)
            if operator not in {">", ">="} and (high is None or (bound, not strict) < (high[0], not high[1])):
                highs[value] = (bound, strict, part)
    for value, part in nulls.items():
        if value in others and is_deterministic(value):
            return part, others[value]
    for value, (low_bound, low_strict, part) in lows.items():
        high_bound, high_strict, other = highs.get(value, (low_bound, False, part))
        empty = low_bound > high_bound or (low_bound == high_bound and (low_strict or high_strict))
        if part is not other and empty and is_deterministic(value):
            return part, other
    return None


def _bounds(part: Call) -> list[tuple[Node, str, Any]]:
    """Return the bounds that a comparison with constants gives a value."""
    if part.function == "IN":
        value, *given = part.args
        constants = [each.value for each in given if isinstance(each, Literal)]
        if (
            len(constants) == len(given)
            and None not in constants
            and all(_comparable(constants[0], c) for c in constants)
        ):
            return [(value, ">=", min(constants)), (value, "<=", max(constants))]
        return []
    if part.function not in _FLIPPED or len(part.args) != 2:
        return []
    left, right = part.args
    operator = part.function
    if isinstance(left, Literal):
        left, right, operator = right, left, _FLIPPED[operator]
    if isinstance(right, Literal) and not isinstance(left, Literal) and _comparable(right.value, right.value):
        return [(left, operator, right.value)]
    return []


def _comparable(one: Any, other: Any) -> bool:
    numbers = (int, float, Decimal)
    return (isinstance(one, numbers) and isinstance(other, numbers)) or (
        isinstance(one, str) and isinstance(other, str)
    )


# ---- divisions


def warn_of_divisions(expressions: Sequence[Node], names: Sequence[str]) -> None:
    """Warn of divisions of whole numbers whose fraction is cut off before it counts: as a DOUBLE, or times 100."""
    for each in (found for expression in expressions for found in walk_nodes(expression) if isinstance(found, Call)):
        division = None
        if each.function == "CAST" and not isinstance(each.type, IntegralType) and isinstance(each.type, NumericType):
            division = _division(each.args[0])
        elif each.function == "*":
            factor = next((arg for arg in each.args if isinstance(arg, Literal) and arg.value == _PERCENT), None)
            division = None if factor is None else next(filter(None, map(_division, each.args)), None)
        if division is not None:
            text = _shown(division, names)
            warn(
                f"{text} divides whole numbers, so its fraction is cut off before it counts. Write CAST(.. AS DOUBLE) around its "
                "first operand."
            )


def _division(node: Node) -> Call | None:
    """Return a division of whole numbers by a value that is no constant."""
    if not isinstance(node, Call) or node.function != "/" or not isinstance(node.type, IntegralType):
        return None
    return None if isinstance(node.args[1], Literal) else node


# ---- joins


def warn_of_products(root: LogicalNode) -> None:
    """Warn of tables that a query joins without a condition, and not by CROSS JOIN: each row meets each."""
    joins = [node for node in walk(root) if isinstance(node, LogicalJoin)]
    inside = {id(side) for node in joins if _is_inner(node) for side in node.inputs if _is_inner(side)}
    for node in joins:
        if _is_inner(node):
            if id(node) not in inside:
                _warn_of_products(node)
        elif node.kind not in {JoinType.SEMI, JoinType.ANTI}:
            groups = [range(len(node.left.row_type)), range(len(node.left.row_type), len(node.row_type))]
            _warn_unless_joined(node, _joined(groups, conjuncts(node.condition)))


def _is_inner(node: LogicalNode) -> bool:
    return isinstance(node, LogicalJoin) and node.kind is JoinType.INNER


def _warn_of_products(root: Any) -> None:
    """Look at a tree of inner joins as a whole: the condition of two relations may stand in a join around."""
    leaves: list[range] = []
    conditions: list[Node] = []
    joins: list[tuple[Any, int]] = []

    def visit(node: Any, start: int) -> None:
        if not _is_inner(node):
            leaves.append(range(start, start + len(node.row_type)))
            return
        joins.append((node, start))
        conditions.extend(moved(each, start) for each in conjuncts(node.condition))
        visit(node.left, start)
        visit(node.right, start + len(node.left.row_type))

    visit(root, 0)
    groups = _joined(leaves, conditions)
    for node, start in joins:
        _warn_unless_joined(node, groups, start)


def _joined(leaves: Sequence[range], conditions: Sequence[Node]) -> list[set[int]]:
    """Return the columns of relations, those that conditions compare in one set."""
    groups = [set(leaf) for leaf in leaves]
    for condition in conditions:
        refs = input_refs(condition)
        touched = [group for group in groups if group & refs]
        groups = [*(group for group in groups if not group & refs), *([set().union(*touched)] if touched else [])]
    return groups


def _warn_unless_joined(node: LogicalJoin, groups: Sequence[set[int]], start: int = 0) -> None:
    left, right = _table(node.left), _table(node.right)
    middle = start + len(node.left.row_type)
    lefts, rights = range(start, middle), range(middle, start + len(node.row_type))
    if node.span is None or left is None or right is None:
        return
    if not any(not group.isdisjoint(lefts) and not group.isdisjoint(rights) for group in groups):
        warn(
            f"SQL query, {node.span}: no condition compares {left} with {right}, so each row of the one meets each row of the "
            "other. Compare columns of both, or write CROSS JOIN if that is meant; a Table is joined on lit(True) then."
        )


def _table(node: Any) -> str | None:
    """Return the name of a table that a join reads, or its columns; ``None`` if it may have few rows."""
    while True:
        if isinstance(node, LogicalFilter):
            if any(
                isinstance(each, Call) and each.function == "=" and _bounds(each) for each in conjuncts(node.condition)
            ):
                return None  # chosen by its key
        elif isinstance(node, LogicalJoin):
            left = _table(node.left)
            return left if left is not None else _table(node.right)
        elif isinstance(node, LogicalScan):
            return f"table {node.table.path.name!r}"
        elif isinstance(node, LogicalStream):
            return f"the table of {', '.join(node.row_type.names[:_NAMED])}"
        elif not isinstance(node, LogicalProject | LogicalWatermark | LogicalWindowTable):
            return None
        node = node.input
