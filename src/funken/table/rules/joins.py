"""Joins: regular, of intervals of time, of windows, with versions of a table, and lookups in its connector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from funken.config.configuration import warn
from funken.dataclass import dataclass
from funken.expr.ir import Call, InputRef, Literal, Node, input_refs, shifted
from funken.expr.sql.functions import FUNCTIONS
from funken.table import exec_nodes as nodes
from funken.table.connectors.factory import has_lookup
from funken.table.exec_nodes import ExecNode
from funken.table.logical import (
    Hint,
    JoinType,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalProject,
    LogicalScan,
    LogicalTemporalJoin,
    LogicalWatermark,
    LookupSettings,
    RelationType,
    TimeAttribute,
    joined,
)
from funken.table.rules.building import (
    ALL,
    PlanConversion,
    calc,
    exchange,
    insert_only,
    merged,
    refs,
    refuse,
    with_time,
)
from funken.table.rules.conditions import conjunction, conjuncts, factored, is_deterministic, moved, substituted
from funken.table.rules.properties import join_keys, ordered_keys, windows_of
from funken.table.types import DayTimeIntervalType, LogicalType


@dataclass
class Sides:
    """The two inputs of a join, its pairs of equal keys, and its further conditions."""

    left: ExecNode
    right: ExecNode
    kind: JoinType
    left_keys: list[int] = field(default_factory=list)
    right_keys: list[int] = field(default_factory=list)
    null_safe: list[bool] = field(default_factory=list)
    rest: list[Node] = field(default_factory=list)
    pairs: list[Node] = field(default_factory=list)
    extra_left: int = 0
    extra_right: int = 0

    def condition(self) -> Node | None:
        """Return the further conditions."""
        return conjunction(self.rest)


def sides_of(left: ExecNode, right: ExecNode, kind: JoinType, condition: Node | None) -> Sides:
    """Find the equal keys in a condition; computed ones become columns of their side, behind its own."""
    width = len(left.row_type)
    total = width + len(right.row_type)
    keys: list[tuple[Node, Node, bool, Node]] = []
    rest: list[Node] = []
    parts = conjuncts(condition)
    if not any(_pair(part, width) for part in parts):
        parts = [each for part in parts for each in factored(part)]
    for part in parts:
        pair = _pair(part, width)
        if pair is None:
            rest.append(part)
        else:
            _check_key(pair[0], pair[1])
            keys.append((*pair, part))
    extra_left, extra_right = _computed(key[0] for key in keys), _computed(key[1] for key in keys)
    sides = Sides(left, right, kind, extra_left=len(extra_left), extra_right=len(extra_right))
    sides.left, sides.right = _with(left, extra_left), _with(right, extra_right)
    shift = len(extra_left)
    places = {index: index if index < width else index + shift for index in range(total)}
    sides.rest = [shifted(part, places) for part in rest]
    for one, other, safe, part in keys:
        sides.left_keys.append(_place(one, extra_left, width))
        sides.right_keys.append(_place(other, extra_right, len(right.row_type)))
        sides.null_safe.append(safe)
        sides.pairs.append(shifted(part, places))
    return sides


def _check_key(*key: Node) -> None:
    """Refuse a join of a text with a time or a truth value, whose hashes differ."""
    for node in key:
        if isinstance(node, Call) and node.function == "TRY_CAST" and node.option("implicit"):
            refuse(
                f"implicit type conversion between {node.type} and {node.args[0].type} is not supported on join's condition "
                f"now; write CAST(.. AS {node.type.nullable()})."
            )


def _pair(part: Node, width: int) -> tuple[Node, Node, bool] | None:
    """The two sides of an equality between the inputs."""
    part = _null_safe(part)
    if not isinstance(part, Call) or part.function not in {"=", "IS NOT DISTINCT FROM"}:
        return None
    one, other = part.args
    if not is_deterministic(part):
        return None
    refs_one, refs_other = input_refs(one), input_refs(other)
    if not refs_one or not refs_other:
        return None
    if min(refs_one) >= width and max(refs_other) < width:
        one, other, refs_one, refs_other = other, one, refs_other, refs_one
    if max(refs_one) >= width or min(refs_other) < width:
        return None
    if one.type.root in {"VARIANT", "BITMAP"}:
        return None
    return one, moved(other, -width), part.function != "="


def _null_safe(part: Node) -> Node:
    """``(a IS NULL AND b IS NULL) OR a = b`` as IS NOT DISTINCT FROM."""
    if not isinstance(part, Call) or part.function != "OR" or len(part.args) != 2:
        return part
    for one, other in (part.args, part.args[::-1]):
        if not (isinstance(one, Call) and one.function == "=" and isinstance(other, Call) and other.function == "AND"):
            continue
        nulls = {arg.args[0] for arg in other.args if isinstance(arg, Call) and arg.function == "IS NULL"}
        if len(other.args) == 2 and nulls == set(one.args):
            return FUNCTIONS.call("IS NOT DISTINCT FROM", one.args)
    return part


def _computed(expressions: Any) -> list[Node]:
    return list(dict.fromkeys(each for each in expressions if not isinstance(each, InputRef)))


def _with(node: ExecNode, extra: Sequence[Node]) -> ExecNode:
    if not extra:
        return node
    names = [f"$key{place}" for place in range(len(extra))]
    return calc(node, [*refs(node.row_type), *extra], [*node.row_type.names, *names])


def _place(key: Node, extra: Sequence[Node], width: int) -> int:
    return key.index if isinstance(key, InputRef) else width + list(extra).index(key)


def _output(sides: Sides, keep_time: bool) -> RelationType:
    row_type = joined(sides.left.row_type, sides.right.row_type, sides.kind)
    return row_type if keep_time else RelationType(tuple(column.ordinary() for column in row_type))


def _narrowed(node: ExecNode, sides: Sides, names: Sequence[str]) -> ExecNode:
    """Without the columns of computed keys."""
    width = len(sides.left.row_type)
    shown = list(range(width - sides.extra_left))
    if sides.kind.keeps_right:
        shown += range(width, width + len(sides.right.row_type) - sides.extra_right)
    row = node.row_type
    return calc(node, [InputRef(place, type=row[place].type) for place in shown], names)


def _common(sides: Sides, row_type: RelationType) -> dict[str, Any]:
    return {
        "left": exchange(sides.left, sides.left_keys),
        "right": exchange(sides.right, sides.right_keys),
        "kind": sides.kind,
        "left_keys": tuple(sides.left_keys),
        "right_keys": tuple(sides.right_keys),
        "null_safe": tuple(sides.null_safe),
        "condition": sides.condition(),
        "row_type": row_type,
    }


def join(converter: PlanConversion, node: LogicalJoin) -> ExecNode:
    """Convert a join."""
    left, right = converter.of(node.left), converter.of(node.right)
    sides = sides_of(left, right, node.kind, node.condition)
    found = _window_join(sides)
    if found is None:
        found = _interval_join(sides)
    if found is None:
        found = _regular(converter, sides, node)
    return _narrowed(found, sides, node.row_type.names)


def _regular(converter: PlanConversion, sides: Sides, node: LogicalJoin) -> ExecNode:
    ttls = [converter.ttl if ttl is None else ttl for ttl in node.ttl]
    row_type = _output(sides, keep_time=False)
    inner = sides.kind in {JoinType.INNER, JoinType.SEMI}
    inner = inner or (converter.batch and sides.left.mode.is_insert_only and sides.right.mode.is_insert_only)
    mode = merged([sides.left.mode, sides.right.mode]) if inner else ALL
    made = nodes.ExecJoin(
        **_common(sides, row_type),
        mode=replace(mode, key_only_deletes=False),
        left_unique=sides.left.upsert_keys,
        right_unique=sides.right.upsert_keys,
        left_retracts=not sides.left.mode.is_insert_only,
        right_retracts=not sides.right.mode.is_insert_only,
        left_ttl=ttls[0],
        right_ttl=ttls[1],
        hinted=node.ttl,
    )
    return replace(made, upsert_keys=join_keys(made))


# -- windows


def _window_join(sides: Sides) -> ExecNode | None:

    left, right = windows_of(sides.left), windows_of(sides.right)
    if left is None or right is None or left.shape != right.shape:
        return None
    pairs = list(zip(sides.left_keys, sides.right_keys, strict=True))
    starts = [pair for pair in pairs if pair[0] in left.starts and pair[1] in right.starts]
    ends = [pair for pair in pairs if pair[0] in left.ends and pair[1] in right.ends]
    if bool(starts) != bool(ends):
        given, missing = ("start", "end") if starts else ("end", "start")
        warn(
            f"a join that compares window_{given} without window_{missing} is one like any other, which keeps its rows for good. "
            f"Add a.window_{missing} = b.window_{missing} to join windows."
        )
    if not starts or not ends or sides.extra_left or sides.extra_right:
        return None
    insert_only(sides.left, "WindowJoin")
    insert_only(sides.right, "WindowJoin")
    kept = [place for place, pair in enumerate(pairs) if pair not in starts and pair not in ends]
    width = len(sides.left.row_type)
    timed, time = with_time(sides.left, left)
    extra = len(timed.row_type) - width
    sides.left, sides.extra_left = timed, extra
    sides.rest = [shifted(part, lambda index: index if index < width else index + extra) for part in sides.rest]
    for name in ("left_keys", "right_keys", "null_safe"):
        setattr(sides, name, [getattr(sides, name)[place] for place in kept])
    row_type = _output(sides, keep_time=True)
    return nodes.ExecWindowJoin(
        **_common(sides, row_type),
        left_window=(starts[0][0], ends[0][0]),
        right_window=(starts[0][1], ends[0][1]),
        window=replace(left.window, time=time, partition=()),
        rowtime=left.rowtime,
    )


# -- intervals


@dataclass
class _Bounds:
    left: int
    right: int
    lower: int | None = None
    upper: int | None = None


def _interval_join(sides: Sides) -> ExecNode | None:
    """A join whose condition bounds the difference of two time attributes."""
    if not sides.kind.keeps_right:
        return None
    width = len(sides.left.row_type)
    bounds: _Bounds | None = None
    rest: list[Node] = []
    for part in sides.rest:
        found = _bound(part, sides, width)
        if found is None or (bounds is not None and (bounds.left, bounds.right) != (found.left, found.right)):
            rest.append(part)
            continue
        if bounds is None:
            bounds = found
        else:
            if found.lower is not None:
                bounds.lower = found.lower if bounds.lower is None else max(bounds.lower, found.lower)
            if found.upper is not None:
                bounds.upper = found.upper if bounds.upper is None else min(bounds.upper, found.upper)
    bounds, rest = _equal_times(sides, bounds, rest)
    if bounds is None or bounds.lower is None or bounds.upper is None:
        return None
    if bounds.lower > bounds.upper:
        warn(
            "the interval join never finds a partner: its lower bound is behind its upper one. BETWEEN takes the earlier time "
            "first: a.ts BETWEEN b.ts - INTERVAL '5' MINUTE AND b.ts."
        )
    sides.rest = rest
    insert_only(sides.left, "IntervalJoin")
    insert_only(sides.right, "IntervalJoin")
    row_type = _output(sides, keep_time=True)
    return nodes.ExecIntervalJoin(
        **_common(sides, row_type),
        left_time=bounds.left,
        right_time=bounds.right,
        lower=bounds.lower,
        upper=bounds.upper,
        rowtime=sides.left.row_type[bounds.left].time is TimeAttribute.ROWTIME,
    )


def _equal_times(sides: Sides, bounds: _Bounds | None, rest: list[Node]) -> tuple[_Bounds | None, list[Node]]:
    """``l.ts = r.ts`` is an interval of length zero, and remains a key."""
    if bounds is not None:
        return bounds, rest
    for left, right in zip(sides.left_keys, sides.right_keys, strict=True):
        one, other = sides.left.row_type[left].time, sides.right.row_type[right].time
        if one is TimeAttribute.ROWTIME and other is one:
            return _Bounds(left, right, 0, 0), rest
    return None, rest


_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _bound(part: Node, sides: Sides, width: int) -> _Bounds | None:
    if not isinstance(part, Call) or part.function not in _FLIP:
        return None
    one, other = _linear(part.args[0]), _linear(part.args[1])
    if one is None or other is None:
        return None
    operator = part.function
    if one[0] >= width:
        one, other, operator = other, one, _FLIP[operator]
    if one[0] >= width or other[0] < width:
        return None
    left, right = one[0], other[0] - width
    times = (sides.left.row_type[left].time, sides.right.row_type[right].time)
    if times[0] is None or times[0] is not times[1]:
        return None
    difference = other[1] - one[1]
    lower = upper = None
    if operator in {">", ">=", "="}:
        lower = difference + (operator == ">")
    if operator in {"<", "<=", "="}:
        upper = difference - (operator == "<")
    return _Bounds(left, right, lower, upper)


def _linear(node: Node) -> tuple[int, int] | None:
    """A column plus milliseconds."""
    if isinstance(node, InputRef):
        return node.index, 0
    if isinstance(node, Call) and node.function == "CAST" and node.type.root == node.args[0].type.root:
        return _linear(node.args[0])
    if not isinstance(node, Call) or node.function not in {"+", "-"}:
        return None
    one, other = node.args
    if isinstance(one, Literal) and node.function == "+":
        one, other = other, one
    if not isinstance(other, Literal) or not isinstance(other.type, DayTimeIntervalType) or other.value is None:
        return None
    below = _linear(one)
    if below is None:
        return None
    return below[0], below[1] + (other.value if node.function == "+" else -other.value)


# -- versions and lookups


def temporal_join(converter: PlanConversion, node: LogicalTemporalJoin) -> ExecNode:
    """FOR SYSTEM_TIME AS OF: a lookup by processing time, versions by event time."""
    left = converter.of(node.left)
    if node.time is None or left.row_type[node.time].time is TimeAttribute.PROCTIME:
        return _lookup_join(converter, node, left)
    right = converter.of(node.right)
    sides = sides_of(left, right, node.kind, node.condition)
    times = right.row_type.time_columns(TimeAttribute.ROWTIME)
    if not times:
        refuse(
            "Event-Time Temporal Table Join requires both primary key and row time attribute in versioned "
            "table, but no row time attribute can be found."
        )
    if not sides.left_keys:
        refuse("Currently the join key in Temporal Table Join can not be empty.")
    if not right.upsert_keys:
        refuse(
            "Event-Time Temporal Table Join requires both primary key and row time attribute in versioned "
            "table, but no primary key can be found."
        )
    if not any(key <= set(sides.right_keys) for key in right.upsert_keys):
        names = [right.row_type[place].name for place in sorted(min(right.upsert_keys, key=lambda key: len(list(key))))]
        refuse(
            f"Temporal table's primary key [{', '.join(names)}] must be included in the equivalence condition of temporal join."
        )
    insert_only(left, "TemporalJoin") if converter.batch else None
    row_type = _output(sides, keep_time=True)
    shown = tuple(
        column if place < len(sides.left.row_type) else column.ordinary() for place, column in enumerate(row_type)
    )
    found = nodes.ExecTemporalJoin(
        **_common(sides, RelationType(shown)),
        mode=left.mode,
        upsert_keys=_versioned_keys(left, sides.left_keys, node.time),
        left_time=node.time,
        right_time=times[0],
    )
    return _narrowed(found, sides, node.row_type.names)


def _versioned_keys(left: ExecNode, keys: Sequence[int], time: int) -> nodes.UpsertKeys:
    """Upsert keys of a join with versions: it puts out rows in the order of their time, which an update may set back."""
    found = ordered_keys(left, keys)
    return found if left.mode.is_insert_only else frozenset(key for key in found if time in key)


@dataclass
class _Lookup:
    """A table that is looked up, and the expressions and filter over it."""

    scan: LogicalScan
    expressions: tuple[Node, ...]
    condition: list[Node]


def _looked_up(node: LogicalNode) -> _Lookup | None:
    if isinstance(node, LogicalScan):
        refs = tuple(InputRef(place, type=column.type) for place, column in enumerate(node.row_type))
        return _Lookup(node, refs, [])
    if isinstance(node, LogicalWatermark):
        return _looked_up(node.input)
    if isinstance(node, LogicalProject):
        below = _looked_up(node.input)
        if below is not None:
            below.expressions = tuple(substituted(each, below.expressions) for each in node.expressions)
        return below
    if isinstance(node, LogicalFilter):
        below = _looked_up(node.input)
        if below is not None:
            below.condition += [substituted(part, below.expressions) for part in conjuncts(node.condition)]
        return below
    return None


def _lookup_join(converter: PlanConversion, node: LogicalTemporalJoin, left: ExecNode) -> ExecNode:
    table = _looked_up(node.right)
    if table is None or not has_lookup(table.scan.table, converter.config):
        refuse(
            "Processing-time temporal join is not supported yet. The table behind FOR SYSTEM_TIME AS OF needs a connector that "
            "looks rows up, such as 'jdbc', 'redis' or 'http'."
        )
    width = len(left.row_type)
    keys: list[nodes.LookupKey] = []
    rest: list[Node] = []
    extra: list[Node] = []
    for part in conjuncts(node.condition):
        key = _lookup_key(part, width, table, extra)
        if key is not None and all(key.column != other.column for other in keys):
            keys.append(key)
        else:
            rest.append(part)
    for part in table.condition:
        constant = _constant_key(part)
        if constant is not None and all(constant.column != other.column for other in keys):
            keys.append(constant)
    if not keys:
        refuse(f"Temporal table join requires an equality condition on fields of table [{table.scan.table.path}].")
    shift = len(extra)
    source = _with(left, extra)
    keep = _kept_key(converter, source, table)
    if keep is not None and node.lookup is not None and node.lookup.retry is not None:
        refuse(
            "a LOOKUP hint with a retry cannot be used where 'table.optimizer.non-deterministic-update.strategy' is TRY_RESOLVE "
            "and rows of the left side change: leave the retry out, or look rows up before they are aggregated."
        )
    if keep is not None:
        source = exchange(source, keep)
    rest = [shifted(part, lambda index: index if index < width else index + shift) for part in rest]
    columns = {column.name: column for column in table.scan.table.table.columns}
    names = table.scan.row_type.names
    row_type = joined(source.row_type, node.right.row_type, node.kind)
    shown = tuple(column if place < width else column.ordinary() for place, column in enumerate(row_type))
    found = nodes.ExecLookupJoin(
        source,
        node.kind,
        table.scan.table,
        table.scan.row_type,
        tuple(columns[name].metadata_key or name for name in names if columns[name].is_metadata),
        tuple(keys),
        table.expressions,
        conjunction(table.condition),
        conjunction(rest),
        table.scan.options,
        _hint(node.hints),
        _settings(converter, node),
        keep,
        converter.ttl,
        row_type=RelationType(shown),
        mode=left.mode,
        upsert_keys=_lookup_upsert_keys(source, table, keys),
    )
    kept = [*range(width), *range(width + shift, len(shown))]
    row = found.row_type
    return calc(found, [InputRef(place, type=row[place].type) for place in kept], node.row_type.names)


def _kept_key(converter: PlanConversion, source: ExecNode, table: _Lookup) -> tuple[int, ...] | None:
    """Return the key of left rows that change, by which their lookup results are kept, if that is wanted."""
    strategy = str(converter.config.option("table.optimizer.non-deterministic-update.strategy")).upper()
    if strategy not in ("IGNORE", "TRY_RESOLVE"):
        refuse(
            f"option 'table.optimizer.non-deterministic-update.strategy' is {strategy!r}, but must be IGNORE or TRY_RESOLVE."
        )
    if strategy == "IGNORE" or converter.batch or source.mode.is_insert_only:
        return None
    if not source.upsert_keys:
        refuse(
            f"The lookup join with table [{table.scan.table.path}] can not satisfy the determinism requirement for correctly "
            "processing update message('UB'/'UA'/'D' in changelogMode, not 'I' only): its left side has no upsert key. Give the "
            "source a primary key, or set 'table.optimizer.non-deterministic-update.strategy' to IGNORE."
        )
    return min((tuple(sorted(key)) for key in source.upsert_keys), key=lambda key: (len(key), key))


def _lookup_upsert_keys(source: ExecNode, table: _Lookup, keys: Sequence[nodes.LookupKey]) -> nodes.UpsertKeys:
    primary = set(table.scan.table.table.primary_key)
    found = {table.scan.row_type[key.column].name for key in keys}
    return source.upsert_keys if primary and primary <= found else frozenset()


def _settings(converter: PlanConversion, node: LogicalTemporalJoin) -> LookupSettings | None:
    """Return the options of a LOOKUP hint; missing ones are the session's."""
    settings = node.lookup
    if settings is None or not settings.asynchronous:
        return settings
    option = converter.config.option
    unordered = option("table.exec.async-lookup.output-mode").upper() == "ALLOW_UNORDERED"
    return replace(
        settings,
        unordered=unordered if settings.unordered is None else settings.unordered,
        capacity=settings.capacity or option("table.exec.async-lookup.buffer-capacity"),
        timeout=settings.timeout or option("table.exec.async-lookup.timeout"),
    )


def _hint(hints: Sequence[Hint]) -> Hint | None:
    return next((hint for hint in hints if hint.name == "LOOKUP"), None)


def _lookup_key(part: Node, width: int, table: _Lookup, extra: list[Node]) -> nodes.LookupKey | None:
    if not isinstance(part, Call) or part.function != "=":
        return None
    one, other = part.args
    if isinstance(one, InputRef) and one.index >= width:
        one, other = other, one
    if not isinstance(other, InputRef) or other.index < width:
        return None
    column = table.expressions[other.index - width]
    if not isinstance(column, InputRef):
        return None
    if isinstance(one, Literal):
        return nodes.LookupKey(column.index, constant=one)
    refs = input_refs(one)
    if not refs or max(refs) >= width or not _have_equal_values(one.type, column.type):
        return None
    if isinstance(one, InputRef):
        return nodes.LookupKey(column.index, left=one.index)
    if one not in extra:
        extra.append(one)
    return nodes.LookupKey(column.index, left=width + extra.index(one))


def _constant_key(part: Node) -> nodes.LookupKey | None:
    if isinstance(part, Call) and part.function == "=":
        one, other = part.args
        if isinstance(other, InputRef):
            one, other = other, one
        if isinstance(one, InputRef) and isinstance(other, Literal) and _have_equal_values(one.type, other.type):
            return nodes.LookupKey(one.index, constant=other)
    return None


def _have_equal_values(one: LogicalType, other: LogicalType) -> bool:
    """Return True if equal values of two types are the same value: those of texts, and of bytes, of any length are."""
    return one.nullable() == other.nullable() or any({one.root, other.root} <= kinds for kinds in _OF_ANY_LENGTH)


_OF_ANY_LENGTH = ({"CHAR", "VARCHAR"}, {"BINARY", "VARBINARY"})
