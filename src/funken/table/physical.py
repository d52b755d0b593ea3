"""From the optimized plan to Funken's stream graph: a node per operator, with its schemas, partitioning and uid.

A job that comes out of it is one like any other: chained, checkpointed, restored, rescaled. An operator has the parallelism of
its input until an exchange; what has no key runs in one task. Its uid is a hash of what it does and of the uids of its inputs, so
that a plan which is changed elsewhere finds its state again.
"""

from __future__ import annotations

import datetime
import enum
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

from funken.api.environment import StreamExecutionEnvironment
from funken.api.streams.sinks import DataStreamSink
from funken.api.streams.stream import DataStream
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.ir import InputRef, input_refs, shifted
from funken.ids import OperatorId
from funken.lazy import LoadedLater
from funken.plan.nodes import Node, NodeInput, Partitioning
from funken.table import exec_nodes as nodes
from funken.table.changelog import ChangelogMode
from funken.table.config import TableConfig
from funken.table.connectors.factory import lookup_of, refuse_endless, scan_of, sink_of
from funken.table.exec_nodes import ExecNode, ExecSink
from funken.table.logical import (
    AggregateCall,
    JoinType,
    LogicalNode,
    LookupSettings,
    RelationType,
    TimeAttribute,
    WindowKind,
    walk,
)
from funken.table.rules.conditions import conjunction, conjuncts
from funken.table.rules.extremes import extreme_of
from funken.table.rules.phases import checked_bundle
from funken.table.rules.printing import Notation, Printer
from funken.table.rules.properties import gives_rows, hashed_by, sees_watermarks
from funken.table.runtime import stateless
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.exchange import TABLE_FORWARD, TABLE_GLOBAL, TABLE_REBALANCE, table_hash
from funken.table.runtime.operator import TableOperator, TableSpec
from funken.table.runtime.sink import ConstraintRules, Enforce, FinalRows, Sort, TableSink
from funken.table.runtime.stateless import has_async
from funken.table.types import BigIntType, LogicalType
from funken.timing.watermarks import WatermarkStrategy
from funken.types.row import RowKind

if TYPE_CHECKING:
    from funken.table.runtime import (
        async_calls,
        batch,
        changes,
        group,
        joins,
        lookups,
        match,
        multi_join,
        over,
        process,
        rank,
        table_aggregate,
        time_joins,
        two_phases,
        watermarks,
        window_aggregate,
        window_rows,
    )
else:  # a plan needs few of them
    (
        async_calls, batch, changes, group, joins, lookups, match, multi_join, over, process, rank, table_aggregate, time_joins,
        two_phases, watermarks, window_aggregate, window_rows,
    ) = (
        LoadedLater(f"funken.table.runtime.{name}")
        for name in (
            "async_calls", "batch", "changes", "group", "joins", "lookups", "match", "multi_join", "over", "process", "rank",
            "table_aggregate", "time_joins", "two_phases", "watermarks", "window_aggregate", "window_rows",
        )
    )  # fmt: skip

SINGLE = 1


@dataclass(frozen=True)
class Built:
    """A node that stands in the graph, or an exchange behind one."""

    inputs: tuple[NodeInput, ...]
    parallelism: int | None
    """``None``: that of the job."""
    uid: str
    schema: BlockSchema


def schema_of(row_type: RelationType) -> BlockSchema:
    """Return the schema of a relation's blocks."""
    return BlockSchema(row_type.names, row_type.types)


_NOT_DESCRIBED = {
    *("upsert_keys", "span", "options", "mode", "row_type", "ttl", "left_ttl", "right_ttl"),
    *("watermark", "settings", "pushed", "versions", "phase", "keep", "hinted", "ttls", "functions"),
}


def described(value: Any, node: bool = False) -> str:
    """Return a description of a part of a plan, the same in every process: for uids; of a ``node`` without its inputs.

    Its inputs, the names of columns, places of text, traits, and how long state is kept do not count.
    """
    if isinstance(value, LogicalNode) and not node:
        return ""
    if isinstance(value, ChangelogMode):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        path = getattr(value, "path", None)
        if path is not None:
            return str(path)
        value, named = (value.described(), True) if isinstance(value, AggregateCall) else (value, False)
        parts = [
            f"{entry.name}={described(getattr(value, entry.name))}"
            for entry in fields(value)
            if entry.compare and entry.name not in _NOT_DESCRIBED and not (named and entry.name == "name")
        ]
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple | list):
        return f"[{','.join(map(described, value))}]"
    if isinstance(value, frozenset | set):
        return f"{{{','.join(sorted(map(described, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{described(k)}:{described(v)}' for k, v in value.items())}}}"
    if value is None or isinstance(value, str | int | float | bytes | bool):
        return repr(value)
    if isinstance(value, LogicalType | Decimal | datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    name = getattr(value, "name", "")
    return f"{type(value).__qualname__} {name if isinstance(name, str) else ''}"


def line_of(node: ExecNode) -> str:
    """Return an operator's line in EXPLAIN's execution plan, with the row kinds that it emits."""
    return Printer(Notation(infix=True), {"CHANGELOG_MODE"}).line(node)


class Translation:
    """Builds the nodes of a plan in a graph; a node that is used twice is built once."""

    def __init__(self, env: StreamExecutionEnvironment, config: TableConfig, batch: bool, uids: Any = None) -> None:
        self.env, self.config, self.batch, self._pins = env, config, batch, uids
        self.zone = config.get_local_timezone()
        self._built: dict[int, Built] = {}
        self._uids: set[str] = {node.uid for node in env.graph if node.uid is not None}
        self._kept: list[ExecNode] = []
        #: whether it matters that a row right behind a watermark comes after it: to sessions, and to programs
        self.touches = True
        self.cuts = False  # whether each row has to come after the watermark before it
        self.parameters: dict[str, Any] = {
            "time_zone": self.zone,
            "legacy_cast": config.option("table.exec.legacy-cast-behaviour").upper() == "ENABLED",
        }
        default = config.option("table.exec.resource.default-parallelism")
        self.parallelism: int | None = default if default > 0 else None

    # ---- building

    def of(self, node: Any) -> Built:
        """Return a node of the plan as it stands in the graph."""
        found = self._built.get(id(node))
        if found is None:
            build = _BUILDERS.get(type(node))
            if build is None:
                raise InvalidProgram(f"{type(node).__name__.removeprefix('Exec')} is not supported by the runtime yet.")
            found = self._built[id(node)] = build(self, node)
            self._kept.append(node)  # ids of objects are used again once they are gone
        return found

    def uid_of(self, node: Any, inputs: Iterable[Built], part: str = "") -> str:
        """Return a uid that nothing else in the graph has."""
        text = "|".join([type(node).__name__, part, described(node, True), *(built.uid for built in inputs)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:24]
        if self._pins is None:
            return self._unique(digest)
        uid: str = self._pins.uid(node, part, lambda: self._unique(digest))
        self._uids.add(uid)
        return uid

    def unpinned(self, node: Any, below: Built) -> str:
        """Return a uid of an operator without state, which compiled plans of one phase do not have."""
        text = "|".join([type(node).__name__, described(node, True), below.uid])
        return self._unique(hashlib.sha256(text.encode()).hexdigest()[:24])

    def _unique(self, wanted: str) -> str:
        uid, twin = wanted, 1
        while uid in self._uids:
            twin += 1
            uid = f"{wanted}-{twin}"
        self._uids.add(uid)
        return uid

    def add(
        self, node: Any, logic: type[TableOperator], output: BlockSchema, *inputs: Built, keyed: bool = False, part: str = "",
        uid: str | None = None, **arguments: Any,
    ) -> Built:  # fmt: skip
        """Add an operator behind others."""
        if uid is None:
            uid = self.uid_of(node, inputs, part or logic.__name__)
        parallelism = self._joint(inputs)
        spread: list[NodeInput] = []
        for index, built in enumerate(inputs):
            for given in built.inputs:
                how = given.partitioning or (TABLE_FORWARD if built.parallelism == parallelism else TABLE_GLOBAL)
                spread.append(NodeInput(given.upstream, how, index if len(inputs) > 1 else 0, given.side))
        spec = TableSpec(logic, tuple(built.schema for built in inputs), output, arguments)
        name = part or type(node).__name__.removeprefix("Exec")
        added = self.env.graph.add(
            name=name,
            kind=f"table {name}",
            spec=spec,
            inputs=tuple(spread),
            keyed=keyed,
            uid=uid,
            parallelism=parallelism,
            description=line_of(node),
        )
        return Built((NodeInput(added.id),), parallelism, uid, output)

    @staticmethod
    def _joint(inputs: Sequence[Built]) -> int | None:
        """Return the parallelism of an operator with these inputs: the largest of them."""
        widths = {built.parallelism for built in inputs}
        if len(widths) == 1:
            return widths.pop()
        return None if None in widths else max(width for width in widths if width is not None)

    def one(self, node: Any, logic: type[TableOperator], keyed: bool = False, **arguments: Any) -> Built:
        """Add the operator of a node with one input."""
        return self.add(node, logic, schema_of(node.row_type), self.of(node.input), keyed=keyed, **arguments)

    def adopt(self, uid: str, before: set[OperatorId]) -> None:
        """Set uids of nodes that a connector added, and the parallelism of the node above where changes pass in order."""
        graph = self.env.graph
        for place, node in enumerate([node for node in graph if node.id not in before]):
            if node.uid is None:
                graph.change(node.id, uid=self._unique(f"{uid}-{place}"))
            if node.parallelism is None and len(node.inputs) == 1 and node.inputs[0].partitioning is None:
                width = self._width(graph[node.inputs[0].upstream])
                if width is not None:
                    graph.change(node.id, parallelism=width)

    def _width(self, node: Node) -> int | None:
        """Return the parallelism of a node as far as the program says it."""
        return node.parallelism or (SINGLE if node.parallelism_limit == 1 else self.parallelism)

    def width_of(self, stream: DataStream[Any]) -> int | None:
        """Return the parallelism of a stream as far as the program says it."""
        widths = {self._width(self.env.graph[given.upstream]) for given in stream._inputs}
        return widths.pop() if len(widths) == 1 else None

    # ---- options

    def bundle(self) -> group.Bundle | None:
        """Return how operators gather rows, if they do."""
        if self.batch:
            return group.Bundle(0, 0)
        if not self.config.option("table.exec.mini-batch.enabled"):
            return None
        return group.Bundle(*checked_bundle(self.config))


def _updates_before(node: ExecNode) -> bool:
    return node.mode.contains(RowKind.UPDATE_BEFORE)


def is_local(row_type: RelationType, column: int) -> bool:
    """Return True if a time column is an instant, whose windows are in the wall time of the session's zone."""
    return row_type[column].type.root == "TIMESTAMP_LTZ" or row_type[column].time is TimeAttribute.PROCTIME


# ---- sources


def _from_stream(self: Translation, node: ExecNode, stream: DataStream[Any], uid: str, **more: Any) -> Built:
    schema = schema_of(node.row_type)
    source = Built(tuple(stream._inputs), self.width_of(stream), uid, schema)
    return self.add(node, stateless.RowsToTable, schema, source, part="rows to table", **more)


def _scan(self: Translation, node: nodes.ExecScan) -> Built:
    uid = self.uid_of(node, (), "scan")
    before = {each.id for each in self.env.graph}
    scan = scan_of(node.table, list(node.row_type.names), self.config, node.options)
    if self.batch:
        refuse_endless(scan, node.table)
    scan = scan.filtered(node.filters)[0] if node.filters else scan
    scan = (scan.limited(node.limit) or scan) if node.limit is not None else scan
    if node.watermark is not None:
        scan.assign_watermarks(_strategy(self, node))
    stream = scan.stream(self.env)
    self.adopt(uid, before)
    return _from_stream(self, node, stream, uid, doubt=scan.doubt, delimiters=scan.delimiters)


def _stream(self: Translation, node: nodes.ExecStream) -> Built:
    uid = self.uid_of(node, (), "stream")
    before = {each.id for each in self.env.graph}
    source = node.source
    stream = source if isinstance(source, DataStream) else source.stream(self.env)
    self.adopt(uid, before)
    return _from_stream(self, node, stream, uid)


def _values(self: Translation, node: nodes.ExecValues) -> Built:
    from funken.table.runtime.constant import constant_rows  # noqa: PLC0415

    uid = self.uid_of(node, (), "values")
    before = {each.id for each in self.env.graph}
    rows = constant_rows(node, self.parameters)
    stream: DataStream[Any] = self.env.from_collection(rows)
    self.adopt(uid, before)
    return _from_stream(self, node, stream, uid)


def _strategy(self: Translation, node: nodes.ExecScan) -> WatermarkStrategy[Any]:
    assert node.watermark is not None
    settings = node.settings or nodes.WatermarkSettings()
    places = sorted(input_refs(node.watermark))
    schema = BlockSchema(
        [node.row_type[place].name for place in places], [node.row_type[place].type for place in places]
    )
    expression = shifted(node.watermark, places.index)
    spec = watermarks.RowtimeWatermarksSpec(schema, tuple(places), expression, settings.per_record, self.parameters)
    return WatermarkStrategy(spec, idleness=settings.idle or None, alignment=settings.alignment)


def _watermark(self: Translation, node: nodes.ExecWatermark) -> Built:
    if node.pushed or self.batch:  # all rows of a batch are there before its end: none is late
        return self.one(node, watermarks.SourceWatermarks, part="WatermarkAssigner", time=node.time)
    return self.one(
        node,
        watermarks.WatermarkAssigner,
        time=node.time,
        expression=node.expression,
        per_record=node.settings.per_record,
        interval=200 if self.config.get("pipeline.auto-watermark-interval") is None else _interval(self.config),
        idle=node.settings.idle,
        parameters=self.parameters,
        touches=self.touches and not self.cuts,
        cuts=self.cuts,
    )


def _interval(config: TableConfig) -> int:
    from funken.io.durations import duration_ms  # noqa: PLC0415

    return duration_ms(config.get("pipeline.auto-watermark-interval") or 0)


# ---- rows


def _calc(self: Translation, node: nodes.ExecCalc) -> Built:
    below = self.of(node.input)
    uid = self.uid_of(node, (below,), stateless.Calc.__name__)
    expressions, condition = node.expressions, node.condition
    stage = 0
    while any(map(has_async, (*expressions, condition))):
        parts = conjuncts(condition)
        first = conjunction([part for part in parts if not has_async(part)])  # before the calls are made
        rest = [part for part in parts if has_async(part)]
        calls = async_calls.AsyncStage.of([*expressions, *rest])
        below = _called(self, node, below, calls, first, f"{uid}-async{stage or ''}")
        expressions, condition = tuple(map(calls.behind, expressions)), conjunction(list(map(calls.behind, rest)))
        stage += 1
    return self.add(
        node, stateless.Calc, schema_of(node.row_type), below, uid=uid, expressions=expressions, condition=condition,
        parameters=self.parameters,
    )  # fmt: skip


def _called(
    self: Translation, node: nodes.ExecCalc, below: Built, calls: async_calls.AsyncStage, condition: Any, uid: str
) -> Built:
    """Return the columns that are needed, and the results of asynchronous calls."""
    types = below.schema.types
    shown = [*(InputRef(place, type=types[place]) for place in calls.columns), *calls.arguments]
    result = calls.result(below.schema.names, types)
    return _waited(self, node, below, shown, condition, calls.wait(), result, uid)


def _waited(
    self: Translation, node: Any, below: Built, shown: list[Any], condition: Any, wait: Any, result: BlockSchema, uid: str
) -> Built:  # fmt: skip
    """Return the rows that an asynchronous operator makes of computed columns."""
    given = BlockSchema([f"c{place}" for place in range(len(shown))], [each.type for each in shown])
    arguments = self.add(
        node, stateless.Calc, given, below, uid=self._unique(f"{uid}-arguments"), part="Arguments", expressions=shown,
        condition=condition, parameters=self.parameters,
    )  # fmt: skip
    rows = self.add(node, stateless.TableToRows, given, arguments, uid=self._unique(f"{uid}-rows"), part="rows")
    name = f"Async{type(node).__name__.removeprefix('Exec')}"
    added = self.env.graph.add(
        name=name, kind=f"table {name}", spec=wait,
        inputs=tuple(replace(each, partitioning=each.partitioning or TABLE_FORWARD) for each in rows.inputs),
        uid=self._unique(uid), parallelism=rows.parallelism, description=line_of(node),
    )  # fmt: skip
    called = Built((NodeInput(added.id),), rows.parallelism, uid, result)
    return self.add(node, stateless.RowsToTable, result, called, uid=self._unique(f"{uid}-results"), part="results")


def _exchange(self: Translation, node: nodes.ExecExchange) -> Built:
    return _sent(self, node, self.of(node.input))


def _sent(self: Translation, node: nodes.ExecExchange, below: Built) -> Built:
    if not node.keys:
        return _spread(below, TABLE_GLOBAL, SINGLE)
    if below.parallelism == SINGLE and self.parallelism == SINGLE:
        return below
    if below.parallelism == self.parallelism and node.keys in hashed_by(node.input):
        return below  # each row is where it would be sent
    return _spread(below, table_hash(node.keys, below.schema.arrow), self.parallelism)


def _spread(built: Built, how: Partitioning, parallelism: int | None) -> Built:
    inputs = tuple(NodeInput(each.upstream, how, each.index, each.side) for each in built.inputs)
    return Built(inputs, parallelism, built.uid, built.schema)


def _union(self: Translation, node: nodes.ExecUnion) -> Built:
    built = [self.of(each) for each in node.relations]
    schema = schema_of(node.row_type)
    renamed = [
        each
        if each.schema.arrow.equals(schema.arrow)
        else self.add(node, stateless.Rename, schema, each, part="rename")
        for each in built
    ]
    parallelism = self._joint(renamed)
    inputs: list[NodeInput] = []
    for each in renamed:
        for given in each.inputs:
            how = given.partitioning or (TABLE_FORWARD if each.parallelism == parallelism else TABLE_GLOBAL)
            inputs.append(NodeInput(given.upstream, how, 0, given.side))
    uid = self.uid_of(node, renamed)
    spec = TableSpec(stateless.Rename, (schema,), schema, {})
    added = self.env.graph.add(
        name="Union", kind="table Union", spec=spec, inputs=tuple(inputs), uid=uid, parallelism=parallelism,
        description=line_of(node),
    )  # fmt: skip
    return Built((NodeInput(added.id),), parallelism, uid, schema)


def _expand(self: Translation, node: nodes.ExecExpand) -> Built:
    return self.one(node, stateless.Expand, projections=node.projections, parameters=self.parameters)


def _correlate(self: Translation, node: nodes.ExecCorrelate) -> Built:
    waits = getattr(node.call.definition, "waits", False)
    if waits and (node.condition is None or node.kind is JoinType.INNER):
        return _async_correlate(self, node)
    return self.one(
        node, stateless.Correlate, call=node.call, kind=node.kind, condition=node.condition, parameters=self.parameters
    )


def _async_correlate(self: Translation, node: nodes.ExecCorrelate) -> Built:
    below = self.of(node.input)
    uid = self.uid_of(node, (below,), stateless.Correlate.__name__)
    shown = [*(InputRef(place, type=each) for place, each in enumerate(below.schema.types)), *node.call.args]
    schema = schema_of(node.row_type)
    calls = async_calls.AsyncTableCalls(node.call, len(below.schema), node.kind is JoinType.LEFT)
    found = _waited(self, node, below, shown, None, calls.wait(), schema, f"{uid}-async")
    if node.condition is None:
        return replace(found, uid=uid)
    expressions = [InputRef(place, type=each) for place, each in enumerate(schema.types)]
    return self.add(
        node, stateless.Calc, schema, found, uid=uid, expressions=expressions, condition=node.condition,
        parameters=self.parameters,
    )  # fmt: skip


def _drop(self: Translation, node: nodes.ExecDropUpdateBefore) -> Built:
    return self.one(node, stateless.DropUpdateBefore)


def _normalize(self: Translation, node: nodes.ExecChangelogNormalize) -> Built:
    bundle = None if self.batch or node.versions else self.bundle()
    return self.one(
        node, changes.ChangelogNormalize, keyed=True, keys=node.keys, update_before=_updates_before(node),
        condition=node.condition, ttl=node.ttl, bundle=bundle, parameters=self.parameters,
    )  # fmt: skip


# ---- aggregates


def _group(self: Translation, node: nodes.ExecGroupAggregate) -> Built:
    if self.batch and node.mode.is_insert_only:
        return self.one(
            node, batch.BatchGroupAggregate, keyed=True, part=group.GroupAggregate.__name__, keys=node.keys,
            calls=node.calls, result_of_nothing=not node.keys,
        )  # fmt: skip
    logic = table_aggregate.GroupTableAggregate if gives_rows(node.calls) else group.GroupAggregate
    return self.one(
        node, logic, keyed=True, part=group.GroupAggregate.__name__, keys=node.keys, calls=node.calls, retracts=node.retracts,
        update_before=_updates_before(node), ttl=node.ttl, bundle=self.bundle(),
        result_of_nothing=self.batch and not node.keys,
    )  # fmt: skip


def _assigner(self: Translation, node: nodes.ExecMiniBatchAssigner) -> Built:
    below = self.of(node.input)
    if not node.rowtime:  # operators look at the clock themselves
        return below
    added = self.add(
        node, two_phases.RowtimeMarks, below.schema, below, uid=self.unpinned(node, below), interval=node.interval
    )
    return replace(added, uid=below.uid)


def _local(self: Translation, node: nodes.ExecLocalGroupAggregate) -> Built:
    return _local_behind(self, node, self.of(node.input), self.bundle())


def _local_behind(
    self: Translation, node: nodes.ExecLocalGroupAggregate, below: Built, bundle: group.Bundle | None
) -> Built:
    added = self.add(
        node, two_phases.LocalGroupAggregate, schema_of(node.row_type), below, uid=self.unpinned(node, below),
        keys=node.keys, calls=node.calls, retracts=node.retracts, bundle=bundle,
    )  # fmt: skip
    return replace(added, uid=below.uid)  # as if the phase were not there


def _global(self: Translation, node: nodes.ExecGlobalGroupAggregate) -> Built:
    below = self.of(node.input)
    return self.add(
        node, two_phases.GlobalGroupAggregate, schema_of(node.row_type), below, keyed=True,
        uid=self.uid_of(node.in_one_phase(), (below,), group.GroupAggregate.__name__),
        source=schema_of(node.source), keys=tuple(range(len(node.keys))), calls=node.calls, retracts=node.retracts,
        update_before=_updates_before(node), ttl=node.ttl, bundle=self.bundle(),
    )  # fmt: skip


def _incremental(self: Translation, node: nodes.ExecIncrementalGroupAggregate) -> Built:
    partial = nodes.ExecGlobalGroupAggregate(
        node.input, node.keys, node.calls, node.source, node.retracts, node.ttl, "PARTIAL", row_type=node.partial,
        mode=ChangelogMode.all(),
    )  # fmt: skip
    final = nodes.ExecLocalGroupAggregate(
        partial, node.final_keys, node.final_calls, True, "FINAL", row_type=node.row_type
    )
    return _local_behind(self, final, self.of(partial), None)


def _window_table(self: Translation, node: nodes.ExecWindowTable) -> Built:
    row_type = node.input.row_type
    time = row_type[node.window.time].time
    return self.one(
        node, window_rows.session_or_table(node.window), keyed=_is_session(node), window=node.window,
        rowtime=time is not TimeAttribute.PROCTIME, local=is_local(row_type, node.window.time), zone=self.zone,
    )  # fmt: skip


def _is_session(node: nodes.ExecWindowTable) -> bool:
    return _has_sessions(node)


def _window_aggregate(self: Translation, node: nodes.ExecWindowAggregate) -> Built:
    return self.one(
        node, window_aggregate.WindowAggregate, keyed=True, keys=node.keys, calls=node.calls, window=node.window,
        rowtime=node.rowtime, properties=node.properties, window_columns=node.window_columns, retracts=node.retracts,
        local=is_local(node.input.row_type, node.window.time), zone=self.zone, bounded=self.batch,
    )  # fmt: skip


def _group_window(self: Translation, node: nodes.ExecGroupWindowAggregate) -> Built:
    logic = window_aggregate.CountWindowAggregate if node.window.rows else window_aggregate.WindowAggregate
    return self.one(
        node, logic, keyed=True, keys=node.keys, calls=node.calls, window=node.window,
        rowtime=node.rowtime, properties=node.properties, retracts=node.retracts, early=node.early_fire,
        late=node.late_fire, lateness=node.allow_lateness, update_before=_updates_before(node),
        local=is_local(node.input.row_type, node.window.time), zone=self.zone, bounded=self.batch,
    )  # fmt: skip


def _over(self: Translation, node: nodes.ExecOver) -> Built:
    return self.one(
        node, over.logic_of(node.order_time, self.batch), keyed=True, groups=node.groups,
        update_before=_updates_before(node), ttl=self.config.option("table.exec.state.ttl"),
    )  # fmt: skip


# ---- ranks


def _rank(self: Translation, node: nodes.ExecRank) -> Built:
    if self.batch and node.mode.is_insert_only:
        return self.one(
            node, batch.BatchRank, keyed=True, partition=node.partition, order=node.order, start=node.start, end=node.end,
            number=node.number,
        )  # fmt: skip
    return self.one(
        node, rank.Rank, keyed=True, partition=node.partition, order=node.order, start=node.start, end=node.end,
        end_column=node.end_column, number=node.number, strategy=node.strategy, unique_key=node.unique_key,
        update_before=_updates_before(node), ttl=node.ttl,
    )  # fmt: skip


def _deduplicate(self: Translation, node: nodes.ExecDeduplicate) -> Built:
    common: dict[str, Any] = {
        "keys": node.keys,
        "last": node.last,
        "insert_only": node.mode.is_insert_only,
        "update_before": _updates_before(node),
        "ttl": node.ttl,
    }
    if node.rowtime:
        return self.one(node, changes.DeduplicateByTime, keyed=True, time=node.time, **common)
    bundle = None if self.batch else self.bundle()
    return self.one(node, changes.DeduplicateByArrival, keyed=True, bundle=bundle, **common)


def _window_rank(self: Translation, node: nodes.ExecWindowRank) -> Built:
    return self.one(
        node, window_rows.WindowRank, keyed=True, window_columns=node.window_columns, partition=node.partition,
        order=node.order, start=node.start, end=node.end, number=node.number, rowtime=node.rowtime,
        zone=self.zone, local=is_local(node.input.row_type, node.window.time),
    )  # fmt: skip


def _window_deduplicate(self: Translation, node: nodes.ExecWindowDeduplicate) -> Built:
    return self.one(
        node, window_rows.WindowDeduplicate, keyed=True, window_columns=node.window_columns, keys=node.keys,
        time=node.time, last=node.last, rowtime=node.rowtime, zone=self.zone,
        local=is_local(node.input.row_type, node.window.time),
    )  # fmt: skip


def _temporal_sort(self: Translation, node: nodes.ExecTemporalSort) -> Built:
    return self.one(node, rank.TemporalSort, keyed=True, order=node.order, rowtime=node.rowtime)


def _sort(self: Translation, node: nodes.ExecSort) -> Built:
    return self.one(node, batch.BatchRank if node.mode.is_insert_only else Sort, keyed=True, order=node.order)


# ---- joins


def _two(
    self: Translation, node: Any, logic: type[TableOperator], sides: Sequence[Built] | None = None, **arguments: Any
) -> Built:
    safe = node.null_safe or (False,) * len(node.left_keys)
    sides = sides or (self.of(node.left), self.of(node.right))
    return self.add(
        node, logic, schema_of(node.row_type), *sides, keyed=True, kind=node.kind,
        keys=(node.left_keys, node.right_keys), null_safe=safe, condition=node.condition, parameters=self.parameters,
        **arguments,
    )  # fmt: skip


def _join(self: Translation, node: nodes.ExecJoin) -> Built:
    if self.batch and all(side.mode.is_insert_only for side in (node.left, node.right)):
        return _two(self, node, batch.BatchJoin)
    return _two(
        self, node, joins.RegularJoin, ttl=(node.left_ttl, node.right_ttl),
        unique=(_smallest(node.left_unique), _smallest(node.right_unique)),
        upserts=(_lacks_before(node.left), _lacks_before(node.right)),
    )  # fmt: skip


def _smallest(keys: Iterable[frozenset[int]]) -> tuple[int, ...] | None:
    found = sorted((tuple(sorted(key)) for key in keys), key=lambda key: (len(key), key))
    return found[0] if found else None


def _lacks_before(node: ExecNode) -> bool:
    """Return True if rows may be replaced or deleted without their former values."""
    return node.mode.is_upsert or node.mode.key_only_deletes


def _interval_join(self: Translation, node: nodes.ExecIntervalJoin) -> Built:
    return _two(
        self, node, time_joins.TableIntervalJoin, times=(node.left_time, node.right_time), bounds=(node.lower, node.upper),
        rowtime=node.rowtime,
    )  # fmt: skip


def _temporal_join(self: Translation, node: nodes.ExecTemporalJoin) -> Built:
    return _two(self, node, time_joins.TemporalJoin, times=(node.left_time, node.right_time))


def _window_join(self: Translation, node: nodes.ExecWindowJoin) -> Built:
    sides = _only_extremes(self, node, 0), _only_extremes(self, node, 1)
    return _two(
        self, node, time_joins.TableWindowJoin, sides, windows=(node.left_window, node.right_window), rowtime=node.rowtime,
        zone=self.zone, local=is_local(node.left.row_type, node.window.time),
    )  # fmt: skip


def _only_extremes(self: Translation, node: nodes.ExecWindowJoin, index: int) -> Built:
    """Return a side of a join, without rows that have no partner where the other side is the extreme of their window."""
    side, windows = ((node.left, node.left_window), (node.right, node.right_window))[index]
    extreme = extreme_of(node, index)
    if extreme is None or not isinstance(side, nodes.ExecExchange):
        return self.of(side)
    below = self.of(side.input)
    added = self.add(
        side, window_rows.WindowExtremes, below.schema, below, uid=self.unpinned(side, below), part="extremes",
        column=extreme.column, greatest=extreme.greatest, window_columns=windows, zone=self.zone,
        local=is_local(node.left.row_type, node.window.time),
    )  # fmt: skip
    return _sent(self, side, replace(added, uid=below.uid))


def _lookup(self: Translation, node: nodes.ExecLookupJoin) -> Built:
    names = list(node.table_type.names)
    keys = sorted(node.keys, key=lambda key: key.column)
    table = lookup_of(node.table, names, [names[key.column] for key in keys], self.config, node.options)
    settings = node.settings or LookupSettings()
    arguments: dict[str, Any] = {
        "kind": node.kind,
        "table": table,
        "table_schema": schema_of(node.table_type),
        "keys": tuple(keys),
        "calc": node.calc,
        "calc_condition": node.calc_condition,
        "condition": node.condition,
        "parameters": self.parameters,
        "deletes": node.kind is JoinType.INNER and node.mode.key_only_deletes,
    }
    if node.keep is not None:
        return self.one(node, lookups.KeptLookupJoin, keyed=True, left=node.keep, ttl=node.ttl, **arguments)
    unordered = bool(settings.unordered) and node.mode.is_insert_only
    return self.one(node, lookups.LookupJoin, retry=settings.retry, unordered=unordered, **arguments)


# ---- functions over tables


def _match(self: Translation, node: nodes.ExecMatch) -> Built:
    match_recognize = import_module("funken.cep.match_recognize").match_recognize  # a room above; needs sqlglot
    below = node.input.input if isinstance(node.input, nodes.ExecExchange) else node.input
    time = node.order[0].index if node.rowtime and node.order else None
    rows = self.add(node, stateless.TableToRows, schema_of(below.row_type), self.of(below), part="rows", time=time)
    uid = self.uid_of(node, (rows,), "match")
    before = {each.id for each in self.env.graph}
    stream: DataStream[Any] = DataStream(self.env, rows.inputs)
    functions = {
        name: match.RowExpression(expression, types, self.parameters) for name, expression, types in node.functions
    }
    found = match_recognize(match.clause_of(node.clause), stream, processing_time=not node.rowtime, functions=functions)
    width = self.parallelism if node.partition else SINGLE
    if width is not None:
        found.set_parallelism(width)
    self.adopt(uid, before)
    schema = schema_of(node.row_type)
    matched = Built(tuple(found._inputs), width, uid, schema)
    return self.add(node, match.MatchesToTable, schema, matched, part="matches")


def _multi_join(self: Translation, node: nodes.ExecMultiJoin) -> Built:
    schemas = [schema_of(each.row_type) for each in node.relations]
    return self.add(
        node, multi_join.MultiJoin, schema_of(node.row_type), _together(self, node, node.relations), keyed=True, schemas=schemas,
        keys=node.keys, kinds=node.kinds, pairs=node.pairs, conditions=node.conditions, unique=node.unique, ttls=node.ttls,
        parameters=self.parameters,
    )  # fmt: skip


def _together(self: Translation, node: Any, relations: Sequence[ExecNode]) -> Built:
    """Return several relations as one input; the blocks of each are marked with its number."""
    built = []
    for place, relation in enumerate(relations):
        source = relation.input if isinstance(relation, nodes.ExecExchange) else relation
        below = self.of(source)
        tagged = process.tagged_schema(below.schema, place)
        marked = self.add(node, process.Tagged, tagged, below, part=f"input {place}", index=place)
        if isinstance(relation, nodes.ExecExchange) and not (
            below.parallelism == SINGLE and self.parallelism == SINGLE
        ):
            marked = _spread(marked, table_hash(relation.keys, tagged.arrow), self.parallelism)
        built.append(marked)
    uid = "|".join(each.uid for each in built)
    return Built(tuple(given for each in built for given in each.inputs), self._joint(built), uid, built[0].schema)


def _process(self: Translation, node: nodes.ExecProcessTableFunction) -> Built:
    name, scalars = node.function.upper(), dict(node.scalars)
    if name in {"TO_CHANGELOG", "FROM_CHANGELOG"}:
        below = node.relations[0]
        made, options = process.changelog_function(
            name, scalars, below.row_type.names, tuple(node.tables[0].partition or ()), below.upsert_keys
        )
        return self.add(node, made, schema_of(node.row_type), self.of(below), **options)
    return _process_of_program(self, node)


def _process_of_program(self: Translation, node: nodes.ExecProcessTableFunction) -> Built:
    several = len(node.tables) > 1
    schemas = [schema_of(node.relations[table.relation].row_type) for table in node.tables]
    built: list[Built] = []
    for place, table in enumerate(node.tables):
        below = self.of(node.relations[table.relation])
        if several:
            tagged = process.tagged_schema(below.schema, place)
            below = self.add(node, process.Tagged, tagged, below, part=f"table {table.name}", index=place)
        built.append(below)
    if not built:
        once = BlockSchema(["row"], [BigIntType()])
        stream: DataStream[Any] = self.env.from_collection([(0,)])
        built = [
            self.add(node, stateless.RowsToTable, once, Built(tuple(stream._inputs), SINGLE, "once", once), part="once")
        ]
    definition = node.definition
    passes = [bool(getattr(definition, "passes_columns", lambda name: False)(table.name)) for table in node.tables]
    timed = any(column is not None for column in node.on_time)
    joined = Built(
        tuple(given for each in built for given in each.inputs), self._joint(built), built[0].uid, built[0].schema
    )
    return self.add(
        node, process.ProcessTable if node.tables else process.ProcessOnce, schema_of(node.row_type), joined, keyed=True,
        function=definition, tables=node.tables, schemas=schemas, scalars=node.scalars, on_time=node.on_time,
        modes=[node.relations[table.relation].mode for table in node.tables],
        passes=passes, mode=node.mode, timed=timed, width=len(node.row_type),
    )  # fmt: skip


# ---- sinks


def _finished(self: Translation, node: ExecSink) -> Built:
    """Return the input of a sink: materialized, checked, of a bounded query the final rows."""
    built = self.of(node.input)
    schema = schema_of(node.input.row_type)
    if self.batch and not node.input.mode.is_insert_only:
        key = tuple(node.key)
        built = self.add(
            node, FinalRows, schema, _spread(built, TABLE_GLOBAL, SINGLE), keyed=True, part="final rows", keys=key
        )
    elif node.materialize:
        if built.parallelism != SINGLE:
            built = _spread(built, table_hash(node.key, built.schema.arrow), self.parallelism)
        if node.conflict in ("NOTHING", "ERROR"):
            built = self.add(
                node, changes.WatermarkMaterializer, schema, built, keyed=True, part="materializer", keys=node.key,
                input_key=node.input_key, nothing=node.conflict == "NOTHING", table=str(getattr(node.table, "path", "")),
            )  # fmt: skip
        else:
            built = self.add(
                node, changes.SinkMaterializer, schema, built, keyed=True, part="materializer", keys=node.key,
                input_key=node.input_key, ttl=node.ttl,
            )  # fmt: skip
    return _enforced(self, node, built, schema)


def _enforced(self: Translation, node: ExecSink, built: Built, schema: BlockSchema) -> Built:
    if node.table is None:
        return built
    option = self.config.option
    rules = ConstraintRules(
        option("table.exec.sink.nested-constraint-enforcer"),
        option("table.exec.sink.not-null-enforcer") == "DROP",
        option("table.exec.sink.type-length-enforcer"),
    )
    columns = [column.type for column in node.table.persisted]
    rules.check(columns)
    if not any(map(rules.demands, columns)):
        return built
    return self.add(
        node, Enforce, schema, built, part="constraints", columns=columns, rules=rules, table=str(node.table.path),
        partial=node.mode.key_only_deletes,
    )  # fmt: skip


def _to_rows(self: Translation, node: Any, built: Built, row_type: RelationType) -> DataStream[Any]:
    times, before = row_type.time_columns(TimeAttribute.ROWTIME), RowKind.UPDATE_BEFORE
    rows = self.add(
        node, stateless.TableToRows, schema_of(row_type), built, part="rows", time=times[0] if len(times) == 1 else None,
        deletes=node.input.mode.contains(before) and not node.mode.contains(before),
        required=() if node.table else tuple(place for place, each in enumerate(row_type) if not each.type.is_nullable),
        drops=self.config.option("table.exec.sink.not-null-enforcer") == "DROP",
    )  # fmt: skip
    return DataStream(self.env, rows.inputs)


def translate(
    env: StreamExecutionEnvironment,
    roots: Sequence[ExecSink],
    config: TableConfig,
    batch: bool = False,
    uids: Any = None,
) -> list[Any]:
    """Add the operators of sinks and of all below them to the program of an environment; ``uids`` pins or notes their uids.

    Returns the result of each sink: a ``DataStreamSink`` of a table, the stream of ``Row``s with row kinds of a sink of the API.
    """
    translation = Translation(env, config, batch, uids)
    translation.cuts = any(sees_watermarks(node) for root in roots for node in walk(root))
    translation.touches = any(root.table is None or any(map(_has_sessions, walk(root))) for root in roots)
    return [_sink(translation, root) for root in roots]


def _has_sessions(node: Any) -> bool:
    return getattr(getattr(node, "window", None), "kind", None) is WindowKind.SESSION


def _sink(self: Translation, node: ExecSink) -> Any:
    built = _finished(self, node)
    if node.table is None:
        return _to_rows(self, node, built, node.input.row_type)
    sink = sink_of(node.table, self.config, node.options)
    if node.overwrite:
        sink = sink.overwriting(dict(node.partition))
    if (writes := sink.block_sink) is not None:
        return _block_sink(self, node, built, writes, sink)
    stream = _to_rows(self, node, built, node.input.row_type)
    uid = self.uid_of(node, (built,), "sink")
    before = {each.id for each in self.env.graph}
    added = sink.sink(stream)
    self.adopt(uid, before)
    for each in [each for each in self.env.graph if each.id not in before and each.description is None]:
        self.env.graph.change(each.id, description=line_of(node))
    return added


def _block_sink(self: Translation, node: ExecSink, built: Built, writes: Any, table: Any) -> DataStreamSink:
    assert node.table is not None
    parallelism = table.block_parallelism or built.parallelism
    how = (
        TABLE_FORWARD if parallelism in (built.parallelism, built.parallelism or self.parallelism) else TABLE_REBALANCE
    )
    uid = self.uid_of(node, (built,), "sink")
    added = self.env.graph.add(
        name=str(node.table.path), kind="table Sink", spec=TableSink(writes, schema_of(node.input.row_type)),
        inputs=tuple(replace(each, partitioning=each.partitioning or how) for each in built.inputs),
        uid=f"{uid}-{table.block_place}" if table.block_place else uid, parallelism=parallelism, description=line_of(node),
    )  # fmt: skip
    return DataStreamSink(self.env, added)


def to_row_stream(env: StreamExecutionEnvironment, root: ExecSink, config: TableConfig, batch: bool = False) -> Any:
    """Return the rows of a query, with row kinds, as a stream."""
    return translate(env, [root], config, batch)[0]


_BUILDERS: dict[type, Callable[[Translation, Any], Built]] = {
    nodes.ExecScan: _scan,
    nodes.ExecStream: _stream,
    nodes.ExecValues: _values,
    nodes.ExecWatermark: _watermark,
    nodes.ExecCalc: _calc,
    nodes.ExecExchange: _exchange,
    nodes.ExecUnion: _union,
    nodes.ExecExpand: _expand,
    nodes.ExecCorrelate: _correlate,
    nodes.ExecDropUpdateBefore: _drop,
    nodes.ExecChangelogNormalize: _normalize,
    nodes.ExecGroupAggregate: _group,
    nodes.ExecMiniBatchAssigner: _assigner,
    nodes.ExecLocalGroupAggregate: _local,
    nodes.ExecGlobalGroupAggregate: _global,
    nodes.ExecIncrementalGroupAggregate: _incremental,
    nodes.ExecWindowTable: _window_table,
    nodes.ExecWindowAggregate: _window_aggregate,
    nodes.ExecGroupWindowAggregate: _group_window,
    nodes.ExecOver: _over,
    nodes.ExecRank: _rank,
    nodes.ExecDeduplicate: _deduplicate,
    nodes.ExecWindowRank: _window_rank,
    nodes.ExecWindowDeduplicate: _window_deduplicate,
    nodes.ExecTemporalSort: _temporal_sort,
    nodes.ExecSort: _sort,
    nodes.ExecJoin: _join,
    nodes.ExecMultiJoin: _multi_join,
    nodes.ExecIntervalJoin: _interval_join,
    nodes.ExecTemporalJoin: _temporal_join,
    nodes.ExecWindowJoin: _window_join,
    nodes.ExecLookupJoin: _lookup,
    nodes.ExecMatch: _match,
    nodes.ExecProcessTableFunction: _process,
}
