"""The common part of the conversions: projections that merge, exchanges, kinds of change, and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Protocol

from funken.expr.ir import Call, InputRef, Literal, Node, input_refs
from funken.table import exec_nodes as nodes
from funken.table.catalog import InvalidTable
from funken.table.changelog import ChangelogMode
from funken.table.exec_nodes import ExecNode, UpsertKeys
from funken.table.logical import LogicalNode, OutputColumn, RelationType, SortKey, TimeAttribute
from funken.table.rules.conditions import conjunction, conjuncts, is_deterministic, refs_of, substituted
from funken.table.rules.printing import line
from funken.table.rules.properties import WindowColumns, ordered_keys, renamed_keys, windows_of
from funken.table.types import BigIntType
from funken.types.row import RowKind


class PlanConversion(Protocol):
    """A conversion of a plan: the options, and the relations below a node."""

    config: Any
    batch: bool
    ttl: int

    def of(self, node: LogicalNode) -> ExecNode:
        """Return the optimized form of a relation."""

    def rank(
        self,
        below: ExecNode,
        partition: tuple[int, ...],
        order: tuple[SortKey, ...],
        start: int,
        end: int | None,
        end_column: int | None,
        number: bool,
        name: str = "Rank",
        number_column: OutputColumn | None = None,
    ) -> ExecNode:
        """Return the rows of some positions of each partition."""


INSERTS = ChangelogMode.insert_only()
ALL = ChangelogMode.all()
UPDATES = ChangelogMode.of(RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)
DELETES = ChangelogMode.of(RowKind.INSERT, RowKind.DELETE)
BIGINT = BigIntType(is_nullable=False)


def refuse(message: str) -> NoReturn:
    """Raise the error of a plan that cannot be."""
    raise InvalidTable(message)


def merged(modes: Iterable[ChangelogMode]) -> ChangelogMode:
    """Return all row kinds of several modes."""
    found = list(modes)
    kinds = frozenset(kind for mode in found for kind in mode.kinds)
    return ChangelogMode(kinds, any(mode.key_only_deletes for mode in found))


def updates(mode: ChangelogMode) -> bool:
    """Return True if a mode has updates."""
    return mode.contains(RowKind.UPDATE_AFTER)


def deletes(mode: ChangelogMode) -> bool:
    """Return True if a mode has deletes."""
    return mode.contains(RowKind.DELETE)


def refs(row_type: RelationType) -> list[Node]:
    """Return a reference to each column."""
    return [InputRef(place, type=column.type) for place, column in enumerate(row_type)]


def insert_only(node: ExecNode, operator: str) -> None:
    """Refuse inputs with updates, for an operator that cannot take rows back."""
    if updates(node.mode):
        refuse(f"{operator} doesn't support consuming update changes which is produced by node {line(node)}")
    if deletes(node.mode):
        refuse(f"{operator} doesn't support consuming delete changes which is produced by node {line(node)}")


def exchange(node: ExecNode, keys: Sequence[int]) -> ExecNode:
    """The rows of a relation, those of equal keys at one task; no keys: all at one."""
    return nodes.ExecExchange(node, tuple(keys), row_type=node.row_type, mode=node.mode, upsert_keys=node.upsert_keys)


def completed(node: ExecNode, key: tuple[int, ...], ttl: int) -> ExecNode:
    """The changes of a relation with its rows before updates, which are kept by ``key``."""
    produced = node.mode.kinds | ({RowKind.UPDATE_BEFORE} if updates(node.mode) else set())
    return nodes.ExecChangelogNormalize(
        exchange(node, key),
        key,
        row_type=node.row_type,
        mode=ChangelogMode(frozenset(produced)),
        upsert_keys=frozenset([frozenset(key)]),
        ttl=ttl,
    )


def calc(node: ExecNode, expressions: Sequence[Node], names: Sequence[str], condition: Node | None = None) -> ExecNode:
    """A projection and a filter, merged into one below."""
    expressions = tuple(expressions)
    if condition is None and list(expressions) == refs(node.row_type) and tuple(names) == node.row_type.names:
        return node
    if isinstance(node, nodes.ExecCalc) and _mergeable(node, expressions, condition):
        below = node.expressions
        parts = conjuncts(node.condition) + [substituted(part, below) for part in conjuncts(condition)]
        return calc(node.input, [substituted(each, below) for each in expressions], names, conjunction(parts))
    if isinstance(node, nodes.ExecChangelogNormalize) and condition is not None and node.condition is None:
        movable = [part for part in conjuncts(condition) if is_deterministic(part) or "WATERMARK" in str(part)]
        stay = [part for part in conjuncts(condition) if part not in movable]
        keyed = [part for part in movable if input_refs(part) and input_refs(part) <= set(node.keys)]
        node = _filtered_normalize(node, keyed, [part for part in movable if part not in keyed])
        return calc(node, expressions, names, conjunction(stay))
    if isinstance(node, nodes.ExecRank) and node.number:
        rank = len(node.row_type) - 1
        if rank not in refs_of([*expressions, *([condition] if condition is not None else [])]):
            node = without_number(node)
    columns = []
    for expression, name in zip(expressions, names, strict=True):
        time = node.row_type[expression.index].time if isinstance(expression, InputRef) else None
        if isinstance(expression, Call) and expression.function == "PROCTIME":
            time = TimeAttribute.PROCTIME
        columns.append(OutputColumn(name, expression.type, time))
    return nodes.ExecCalc(
        node,
        expressions,
        condition,
        row_type=RelationType(tuple(columns)),
        mode=node.mode,
        upsert_keys=renamed_keys(node.upsert_keys, expressions),
    )


def _mergeable(node: nodes.ExecCalc, expressions: Sequence[Node], condition: Node | None) -> bool:
    """Return True if the calc below may be computed in place: expressions that vary or are dear are computed once."""
    uses: dict[int, int] = {}
    handed = (
        {expression.index for expression in expressions if isinstance(expression, InputRef)}
        if condition is None
        else ()
    )
    for expression in [*expressions, *([condition] if condition is not None else [])]:
        for index in _all_refs(expression):
            uses[index] = uses.get(index, 0) + 1
    for index, expression in enumerate(node.expressions):
        if isinstance(expression, InputRef | Literal):
            continue
        proctime = isinstance(expression, Call) and expression.function == "PROCTIME"
        once = uses.get(index, 0) == 1 and index in handed
        if not is_deterministic(expression) and not proctime and uses.get(index, 0) > 0 and not once:
            return False
        if uses.get(index, 0) > 1 and _has_user_function(expression):
            return False
    return True


def _all_refs(node: Node) -> list[int]:
    if isinstance(node, InputRef):
        return [node.index]
    return [index for child in node.children for index in _all_refs(child)]


def _has_user_function(node: Node) -> bool:
    return getattr(node, "handle", None) is not None or any(map(_has_user_function, node.children))


def _filtered_normalize(node: nodes.ExecChangelogNormalize, keyed: list[Node], rest: list[Node]) -> ExecNode:
    """Filters on the key move below the normalizer, others into it."""
    below = node.input
    if keyed:
        source = below.input if isinstance(below, nodes.ExecExchange) else below
        source = calc(source, refs(source.row_type), source.row_type.names, conjunction(keyed))
        below = exchange(source, node.keys)
    return replace(node, input=below, condition=conjunction(rest))


def without_number(node: nodes.ExecRank) -> ExecNode:
    """Return a rank without the number of the row."""
    columns = node.row_type.columns[:-1]
    keys = rank_keys(node.input, node.partition, node.start, node.end, None)
    return replace(node, number=False, row_type=RelationType(columns), upsert_keys=keys)


def rank_keys(below: ExecNode, partition: Sequence[int], start: int, end: int | None, number: int | None) -> UpsertKeys:
    """Return the upsert keys of a rank.

    Those of its input are none where a row takes the place of another: the first of a partition, or one with its position. A row
    that moves comes to its new position before it is taken back from the old one.
    """
    if (start, end) == (1, 1):
        return frozenset([frozenset(partition)])
    if number is not None:
        return frozenset([frozenset((*partition, number))])
    return ordered_keys(below, partition)


def with_time(node: ExecNode, info: WindowColumns) -> tuple[ExecNode, int]:
    """A relation of windows with a column that says their time: its place, and the relation with it if it had none."""
    if info.times:
        return node, min(info.times)
    if isinstance(node, nodes.ExecCalc):
        below = windows_of(node.input)
        if below is not None:
            inner, place = with_time(node.input, below)
            column = inner.row_type[place]
            shown = [*node.expressions, InputRef(place, type=column.type)]
            found = calc(inner, shown, [*node.row_type.names, "window_time"], node.condition)
            return found, len(node.expressions)
    start = min(info.starts or info.ends)
    found = calc(node, [*refs(node.row_type)], node.row_type.names)
    return found, start


def check_orderable(type_: Any) -> None:
    """Refuse a type that has no order."""
    if type_.root in {"BITMAP", "VARIANT", "RAW", "MAP", "MULTISET"}:
        refuse(
            f"Type({type_}) is not an orderable data type, it is not supported as a ORDER_BY/GROUP_BY/JOIN_EQUAL field."
        )
