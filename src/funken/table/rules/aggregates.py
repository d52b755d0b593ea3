"""Aggregates: of groups, of windows of a table function, of legacy windows; grouping sets by Expand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from funken.config.configuration import warn
from funken.expr.ir import InputRef, Literal, Node, input_refs
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.values import null
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode
from funken.table.logical import (
    AggregateCall,
    LogicalAggregate,
    OutputColumn,
    RelationType,
    TimeAttribute,
    WindowKind,
    WindowProperty,
    WindowShape,
)
from funken.table.rules.buckets import over_buckets
from funken.table.rules.building import (
    ALL,
    DELETES,
    INSERTS,
    UPDATES,
    PlanConversion,
    calc,
    check_orderable,
    exchange,
    insert_only,
    refs,
    refuse,
    with_time,
)
from funken.table.rules.properties import WindowColumns, gives_rows, limited, ordered_keys, windows_of
from funken.table.types import BigIntType, TimestampType

_BIGINT = BigIntType(is_nullable=False)
_BORDER = TimestampType(3, is_nullable=False)
GROUPING = {"GROUPING", "GROUPING_ID", "GROUP_ID"}


def aggregate(converter: PlanConversion, node: LogicalAggregate) -> ExecNode:
    """Convert an aggregate."""
    below = converter.of(node.input)
    for key in node.keys:
        if below.row_type[key].type.root in {"RAW", "MAP", "MULTISET"}:
            check_orderable(below.row_type[key].type)
    if node.sets is not None:
        return _expanded(converter, node, below)
    calls = tuple(call for call in node.calls if call.function not in GROUPING)
    found = grouped(converter, below, node.keys, calls, node.ttl, replace(node, calls=calls))
    shown: list[Node] = [InputRef(place, type=column.type) for place, column in enumerate(found.row_type)]
    for place, call in enumerate(node.calls, len(node.keys)):
        if call.function in GROUPING:  # of one set with all keys
            shown.insert(place, Literal(0, type=call.type))
    return calc(found, shown, node.row_type.names)


def grouped(
    converter: PlanConversion,
    below: ExecNode,
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    ttl: int | None,
    node: LogicalAggregate | None = None,
) -> ExecNode:
    """Groups by columns: by a window if the columns are those of one."""
    _check_retraction(below, calls)
    if node is not None and node.window is not None:
        return _legacy(converter, below, node)
    info = windows_of(below)
    if info is not None and set(keys) & info.starts and set(keys) & info.ends:
        found = _window(below, info, keys, calls)
        if found is not None:
            return found
    elif info is not None and not converter.batch and set(keys) & (info.starts | info.ends):
        _warn_of_half_a_window(below, info, keys)
    lifetime = converter.ttl if ttl is None else ttl
    split = over_buckets(
        converter, below, keys, calls, lambda rows, columns, made: _group(rows, columns, made, lifetime, False)
    )
    if split is not None:
        return split
    names = [
        name
        for hint in (node.hints if node is not None else ())
        if hint.name == "STATE_TTL"
        for name, _ in hint.options
    ]
    if converter.batch and below.mode.is_insert_only and _of_one_distinct(calls, below):
        return _distinct_first(below, keys, calls)
    found = _group(below, keys, calls, lifetime, converter.batch)
    return replace(found, hinted=None if ttl is None or not names else (names[0], ttl))


def _check_retraction(below: ExecNode, calls: Sequence[AggregateCall]) -> None:
    if below.mode.is_insert_only:
        return
    for call in calls:
        if call.definition is not None and not getattr(call.definition, "retracts", True):
            refuse(
                f"Aggregate function {call.function} gets rows that are taken back, but has no retract(). "
                "Add a method retract(accumulator, *args), or aggregate an insert-only table."
            )


def _call_columns(calls: Sequence[AggregateCall]) -> tuple[OutputColumn, ...]:
    return tuple(OutputColumn(call.name, call.type) for call in calls)


def _group(
    below: ExecNode, keys: tuple[int, ...], calls: tuple[AggregateCall, ...], ttl: int, batch: bool
) -> nodes.ExecGroupAggregate:
    columns = tuple(below.row_type[key].ordinary() for key in keys)
    retracts = not below.mode.is_insert_only
    once = batch and not retracts and not gives_rows(calls)  # each result comes once, at the end
    places = {key: place for place, key in enumerate(keys)}
    found = {frozenset(range(len(keys)))}
    found |= {frozenset(places[index] for index in key) for key in ordered_keys(below, keys) if key <= set(keys)}
    return nodes.ExecGroupAggregate(
        exchange(below, keys),
        keys,
        calls,
        retracts,
        ttl,
        row_type=RelationType(columns + _call_columns(calls)),
        mode=INSERTS if once else DELETES if gives_rows(calls) else ALL if retracts else UPDATES,
        upsert_keys=limited(found),
    )


# -- distinct values of batches


def _of_one_distinct(calls: Sequence[AggregateCall], below: ExecNode) -> bool:
    """Return True if all calls are of the distinct values of the same columns, which groups tell apart as the calls do."""
    first = calls[0] if calls else None
    if first is None or not first.args:
        return False
    types = {below.row_type[place].type.root for place in first.args}
    return not types & _NOT_BY_GROUPS and all(
        call.distinct and call.args == first.args and call.filter is None and not call.order and call.definition is None
        for call in calls
    )


_NOT_BY_GROUPS = frozenset({"FLOAT", "DOUBLE", "RAW", "MAP", "MULTISET", "VARIANT", "BITMAP"})


def _distinct_first(below: ExecNode, keys: tuple[int, ...], calls: tuple[AggregateCall, ...]) -> ExecNode:
    """Two groups in place of DISTINCT: of the keys with the values, then of the keys."""
    columns = tuple(dict.fromkeys((*keys, *calls[0].args)))
    places = {column: place for place, column in enumerate(columns)}
    values = _group(below, columns, (), 0, True)
    plain = tuple(replace(call.moved(places), distinct=False) for call in calls)
    return _group(values, tuple(places[key] for key in keys), plain, 0, True)


# -- windows of table functions


def _window(
    below: ExecNode, info: WindowColumns, keys: tuple[int, ...], calls: tuple[AggregateCall, ...]
) -> ExecNode | None:
    window = info.window
    if window.kind is WindowKind.HOP and window.size % window.slide:
        refuse(
            "HOP table function based aggregate requires size must be an integral multiple of slide, "
            f"but got size {window.size} ms and slide {window.slide} ms. The slide comes first: "
            "HOP(TABLE t, DESCRIPTOR(ts), slide, size)."
        )
    special = info.starts | info.ends | info.times
    plain = tuple(key for key in keys if key not in special)
    properties = [WindowProperty.START, WindowProperty.END]
    if set(keys) & info.times:
        properties.append(WindowProperty.ROWTIME if info.rowtime else WindowProperty.PROCTIME)
    table = _window_table(below)
    made: ExecNode | None = None
    if table is not None:
        made = _direct(below, table, info, plain, calls, properties)
        if made is None and window.kind is WindowKind.SESSION:
            return None  # the sessions are not those of the groups
    if made is None:
        made = _attached(below, info, plain, calls, properties)
    return _in_order(made, info, keys, plain, len(calls), properties)


def _window_table(below: ExecNode) -> nodes.ExecWindowTable | None:
    inner = below.input if isinstance(below, nodes.ExecCalc) else below
    return inner if isinstance(inner, nodes.ExecWindowTable) else None


def _property_columns(info: WindowColumns, properties: Sequence[WindowProperty]) -> tuple[OutputColumn, ...]:
    columns = {
        WindowProperty.START: OutputColumn("window_start", _BORDER),
        WindowProperty.END: OutputColumn("window_end", _BORDER),
        WindowProperty.ROWTIME: OutputColumn("window_time", info.time_type.type.not_null(), TimeAttribute.ROWTIME),
        WindowProperty.PROCTIME: OutputColumn("window_time", info.time_type.type.not_null(), TimeAttribute.PROCTIME),
    }
    return tuple(columns[each] for each in properties)


def _aggregate(
    source: ExecNode,
    info: WindowColumns,
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    window: WindowShape,
    properties: Sequence[WindowProperty],
    columns: tuple[int, int] | None,
) -> ExecNode:
    shown = tuple(source.row_type[key].ordinary() for key in keys) + _call_columns(calls)
    width = len(shown)
    return nodes.ExecWindowAggregate(
        exchange(source, keys),
        keys,
        calls,
        window,
        info.rowtime,
        tuple(properties),
        columns,
        not source.mode.is_insert_only,
        row_type=RelationType(shown + _property_columns(info, properties)),
        upsert_keys=frozenset([frozenset((*range(len(keys)), width, width + 1))]),
    )


def _direct(
    below: ExecNode,
    table: nodes.ExecWindowTable,
    info: WindowColumns,
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    properties: Sequence[WindowProperty],
) -> ExecNode | None:
    """The aggregate over the input of the table function: it assigns the windows itself."""
    source = table.input.input if isinstance(table.input, nodes.ExecExchange) else table.input
    width = len(source.row_type)
    expressions = list(below.expressions) if isinstance(below, nodes.ExecCalc) else refs(table.row_type)
    condition = below.condition if isinstance(below, nodes.ExecCalc) else None
    used = _used(keys, calls)
    needed = [expressions[index] for index in used] + ([condition] if condition is not None else [])
    if any(index >= width for each in needed for index in input_refs(each)):
        return None
    window = table.window
    if window.kind is WindowKind.SESSION:
        groups = [expressions[key] for key in keys]
        if {getattr(each, "index", None) for each in groups} != set(window.partition) or len(groups) != len(
            window.partition
        ):
            return None
    places = {index: place for place, index in enumerate(used)}
    time = source.row_type[window.time]
    shown: list[Node] = [expressions[index] for index in used]
    shown.append(InputRef(window.time, type=time.type))
    names = [below.row_type[index].name for index in used] + [time.name]
    narrowed = calc(source, shown, names, condition)
    moved_keys = tuple(places[key] for key in keys)
    moved_window = replace(window, time=len(used), partition=moved_keys if window.kind is WindowKind.SESSION else ())
    moved_calls = tuple(call.moved(places) for call in calls)
    return _aggregate(narrowed, info, moved_keys, moved_calls, moved_window, properties, None)


def _used(keys: Sequence[int], calls: Sequence[AggregateCall]) -> list[int]:
    found = dict.fromkeys(keys)
    for call in calls:
        found |= dict.fromkeys(call.args)
        if call.filter is not None:
            found[call.filter] = None
        found |= dict.fromkeys(key.index for key in call.order)
    return list(found)


def _warn_of_half_a_window(below: ExecNode, info: WindowColumns, keys: tuple[int, ...]) -> None:
    """Warn of a group by one border of a window: it is no window, so it gives updates and is never forgotten."""
    given = next(below.row_type[key].name for key in keys if key in info.starts | info.ends)
    missing = "window_end" if set(keys) & info.starts else "window_start"
    warn(
        f"GROUP BY {given} without {missing} is an aggregate like any other: it gives an update with each row, and keeps its "
        f"state for good. For one result per window, write GROUP BY {given}, {missing}."
    )


def _attached(
    below: ExecNode,
    info: WindowColumns,
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    properties: Sequence[WindowProperty],
) -> ExecNode:
    """The aggregate over rows that have their windows already."""
    source, time = with_time(below, info)
    columns = (min(info.starts), min(info.ends))
    window = replace(info.window, time=time, partition=())
    return _aggregate(source, info, keys, calls, window, properties, columns)


def _in_order(
    made: ExecNode,
    info: WindowColumns,
    keys: tuple[int, ...],
    plain: tuple[int, ...],
    calls: int,
    properties: Sequence[WindowProperty],
) -> ExecNode:
    """The columns in the order of the logical aggregate: keys, then calls."""
    first = len(plain) + calls
    places = []
    for key in keys:
        if key in info.starts:
            places.append(first)
        elif key in info.ends:
            places.append(first + 1)
        elif key in info.times:
            places.append(first + 2)
        else:
            places.append(plain.index(key))
    places += range(len(plain), len(plain) + calls)
    row = made.row_type
    return calc(
        made, [InputRef(place, type=row[place].type) for place in places], [row[place].name for place in places]
    )


# -- legacy windows


def _legacy(converter: PlanConversion, below: ExecNode, node: LogicalAggregate) -> ExecNode:
    window = node.window
    assert window is not None
    time = below.row_type[window.time].time or window.attribute or (TimeAttribute.ROWTIME if converter.batch else None)
    if time is None:
        refuse(
            f"Window can only be defined over a time attribute column, but '{below.row_type[window.time].name}' "
            f"is {below.row_type[window.time].type}."
        )
    if window.rows:
        if time is TimeAttribute.ROWTIME:
            refuse("Event-time grouping windows on row intervals are currently not supported: use a processing time.")
        insert_only(below, "GroupWindowAggregate")
    option = converter.config.option
    early = option("table.exec.emit.early-fire.delay") if option("table.exec.emit.early-fire.enabled") else None
    late = option("table.exec.emit.late-fire.delay") if option("table.exec.emit.late-fire.enabled") else None
    lateness = option("table.exec.emit.allow-lateness") if late is not None else 0
    columns = tuple(below.row_type[key].ordinary() for key in node.keys) + _call_columns(node.calls)
    shown = tuple(column for _, column in node.properties)
    width = len(columns)
    starts = [
        width + place
        for place, (kind, _) in enumerate(node.properties)
        if kind in {WindowProperty.START, WindowProperty.END}
    ]
    keys = frozenset([frozenset((*range(len(node.keys)), *starts[:1]))]) if starts else frozenset()
    return nodes.ExecGroupWindowAggregate(
        exchange(below, node.keys),
        node.keys,
        node.calls,
        window,
        time is TimeAttribute.ROWTIME,
        tuple(kind for kind, _ in node.properties),
        not below.mode.is_insert_only,
        early,
        late,
        max(lateness, 0),
        row_type=RelationType(columns + shown),
        mode=INSERTS if early is None and late is None else UPDATES,
        upsert_keys=keys,
    )


# -- grouping sets


def _expanded(converter: PlanConversion, node: LogicalAggregate, below: ExecNode) -> ExecNode:
    """One copy of each row per set, with the number of the set as a key."""
    assert node.sets is not None
    below, calls = _own_arguments(node, below)
    width = len(below.row_type)
    projections = []
    numbers = [_number(node, group) for group in node.sets]
    if len(set(numbers)) < len(numbers):  # each set gives rows of its own, also one that is there twice
        numbers = list(range(len(numbers)))
    for group, number in zip(node.sets, numbers, strict=True):
        kept = {node.keys[place] for place in group}
        row: list[Node] = []
        for place, column in enumerate(below.row_type):
            nulled = place in node.keys and place not in kept
            row.append(null(column.type.nullable()) if nulled else InputRef(place, type=column.type))
        projections.append((*row, Literal(number, type=_BIGINT)))
    always = set.intersection(*(set(group) for group in node.sets))
    columns = [
        replace(column, type=column.type.nullable(), time=None)
        if place in node.keys and node.keys.index(place) not in always
        else column
        for place, column in enumerate(below.row_type)
    ]
    expand = nodes.ExecExpand(
        below,
        tuple(projections),
        row_type=RelationType((*columns, OutputColumn("$e", _BIGINT))),
        mode=below.mode,
    )
    keys = (*node.keys, width)
    made = tuple(call for call in calls if call.function not in GROUPING)
    found = grouped(
        converter,
        expand,
        keys,
        made,
        node.ttl,
        replace(node, keys=keys, calls=made, sets=None) if node.window else None,
    )
    number_ref = InputRef(len(node.keys), type=_BIGINT)
    shown: list[Node] = [InputRef(place, type=found.row_type[place].type) for place in range(len(node.keys))]
    place = len(keys)
    for call in calls:
        if call.function in GROUPING:
            shown.append(_grouping(node, call, numbers, number_ref))
        else:
            shown.append(InputRef(place, type=found.row_type[place].type))
            place += 1
    shown += [InputRef(each, type=found.row_type[each].type) for each in range(place, len(found.row_type))]
    return calc(found, shown, node.row_type.names)


def _own_arguments(node: LogicalAggregate, below: ExecNode) -> tuple[ExecNode, list[AggregateCall]]:
    """Arguments that are keys get columns of their own, which no set makes NULL."""
    extra: dict[int, int] = {}
    for call in node.calls:
        if call.function not in GROUPING:
            for index in _used((), [call]):
                if index in node.keys:
                    extra.setdefault(index, len(below.row_type) + len(extra))
    if not extra:
        return below, list(node.calls)
    shown = [*refs(below.row_type), *(InputRef(index, type=below.row_type[index].type) for index in extra)]
    names = [*below.row_type.names, *(f"{below.row_type[index].name}$arg" for index in extra)]
    places = {index: extra.get(index, index) for index in range(len(below.row_type))}
    calls = [call if call.function in GROUPING else call.moved(places) for call in node.calls]
    return calc(below, shown, names), calls


def _number(node: LogicalAggregate, group: Sequence[int]) -> int:
    """The number of a set: a bit per key that it leaves out, the last key lowest."""
    width = len(node.keys)
    return sum(1 << (width - 1 - place) for place in range(width) if place not in group)


def _grouping(node: LogicalAggregate, call: AggregateCall, numbers: Sequence[int], number: InputRef) -> Node:
    assert node.sets is not None
    args: list[Node] = []
    for group, value in zip(node.sets, numbers, strict=True):
        bits = 0
        for place in call.args:
            bits = bits * 2 + (place not in group)
        result = Literal(bits, type=call.type.not_null())
        args += [FUNCTIONS.call("=", [number, Literal(value, type=_BIGINT)]), result]
    return FUNCTIONS.call("CASE", [*args[:-2], args[-1]]) if len(args) > 2 else args[1]
