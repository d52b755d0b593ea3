"""From rewritten logical plans to optimized ones: which operator does what, and which changes it makes.

Every relation is converted after its inputs, so that the kinds of change and upsert keys of these are known. What -U nobody
needs is left to ``changes.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funken.expr.ir import Call, Node, walk
from funken.expr.sql.values import literal
from funken.table import exec_nodes as nodes
from funken.table.changelog import ChangelogMode
from funken.table.connectors.factory import scan_of, watermark_settings
from funken.table.exec_nodes import ExecNode, ExecSink
from funken.table.logical import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalFilter,
    LogicalJoin,
    LogicalMatch,
    LogicalNode,
    LogicalOver,
    LogicalProject,
    LogicalScan,
    LogicalSetOperation,
    LogicalSink,
    LogicalSort,
    LogicalStream,
    LogicalTableFunction,
    LogicalTemporalJoin,
    LogicalValues,
    LogicalWatermark,
    LogicalWindowTable,
    OutputColumn,
    RelationType,
    SortKey,
    TimeAttribute,
    WindowKind,
)
from funken.table.rules.aggregates import aggregate
from funken.table.rules.building import (
    ALL,
    BIGINT,
    DELETES,
    calc,
    completed,
    deletes,
    exchange,
    insert_only,
    merged,
    rank_keys,
    refs,
    refuse,
)
from funken.table.rules.changes import Settler
from funken.table.rules.conditions import is_deterministic, substituted
from funken.table.rules.doubts import warn_of_products
from funken.table.rules.functions import table_function
from funken.table.rules.join_order import JoinOrder
from funken.table.rules.joins import join, temporal_join
from funken.table.rules.multi_joins import with_multi_joins
from funken.table.rules.phases import in_mini_batches
from funken.table.rules.properties import NO_KEYS, monotonic
from funken.table.rules.pruning import pruned
from funken.table.rules.pushdown import with_filters, with_limits
from funken.table.rules.ranks import over, ranked, refuse_ranks
from funken.table.rules.rewrites import Rewriter
from funken.table.rules.sinks import sink
from funken.table.types import LocalZonedTimestampType, TimestampType

_ALL_ROWS = 1 << 62


class Converter:
    """Converts logical nodes; equal ones become one object."""

    def __init__(self, config: Any, batch: bool) -> None:
        self.config = config
        self.batch = batch
        self.ttl: int = config.option("table.exec.state.ttl")
        self._done: dict[str, ExecNode] = {}

    def of(self, node: LogicalNode) -> ExecNode:
        """Return the optimized form of a relation."""
        found = self._done.get(node.fingerprint)
        if found is None:
            rule = _RULES.get(type(node))
            if rule is None:
                refuse(f"{type(node).__name__.removeprefix('Logical')} has no operator")
            found = rule(self, node)
            self._done[node.fingerprint] = found
        return found

    # -- sources

    def scan(self, node: LogicalScan) -> ExecNode:
        """Read a table; its changes are completed."""
        return self.normalized(self.raw_scan(node))

    def raw_scan(self, node: LogicalScan) -> nodes.ExecScan:
        """Read a table in its connector's form."""
        names = node.row_type.names
        scan = scan_of(node.table, list(names), self.config, node.options)
        columns = {column.name: column for column in node.table.table.columns}
        metadata = tuple(columns[name].metadata_key or name for name in names if columns[name].is_metadata)
        key = tuple(names.index(name) for name in node.table.table.primary_key if name in names)
        mode = scan.changelog_mode
        if getattr(scan, "deletes_by_key", False) and not mode.key_only_deletes:
            mode = ChangelogMode(mode.kinds, True)
        return nodes.ExecScan(
            node.table,
            names,
            metadata,
            node.options,
            key,
            row_type=node.row_type,
            mode=mode,
            upsert_keys=frozenset([frozenset(key)]) if key else NO_KEYS,
        )

    def stream(self, node: LogicalStream) -> ExecNode:
        """Read the API's source; its changes are completed."""
        return self.normalized(self.raw_stream(node), node.key)

    def raw_stream(self, node: LogicalStream) -> nodes.ExecStream:
        """Read the API's source."""
        return nodes.ExecStream(
            node.source,
            row_type=node.row_type,
            mode=ChangelogMode.parse(node.kinds),
            upsert_keys=frozenset([frozenset(node.key)]) if node.key else NO_KEYS,
        )

    def normalized(self, node: ExecNode, key: tuple[int, ...] | None = None) -> ExecNode:
        """A source whose changes are complete: an upsert stream, or one with duplicates, gets a normalizer."""
        mode = node.mode
        source = _source_of(node)
        if key is None:
            key = _source_key(node, source)
        duplicates = self.config.option("table.exec.source.cdc-events-duplicate") and not mode.is_insert_only
        upserts = mode.is_upsert or (deletes(mode) and mode.key_only_deletes)
        if mode.is_insert_only or not (upserts or duplicates):
            return node
        if not key:
            what = f"'{source.table.path}'" if isinstance(source, nodes.ExecScan) else "the stream"
            if upserts:
                refuse(
                    f"Table {what} produces a changelog stream contains UPDATE_AFTER but no UPDATE_BEFORE, this "
                    "requires to define primary key on the table."
                )
            refuse(
                "Configuration 'table.exec.source.cdc-events-duplicate' is enabled which requires the changelog "
                "sources to define a PRIMARY KEY. "
                f"However, table {what} doesn't have a primary key."
            )
        return completed(node, key, self.ttl)

    def values(self, node: LogicalValues) -> ExecNode:
        """Read constant rows."""
        return nodes.ExecValues(node.rows, row_type=node.row_type)

    def watermark(self, node: LogicalWatermark) -> ExecNode:
        """A watermark is that of the source: it comes before the normalizer, as do the columns that it needs."""
        below, key = node.input, None
        project = below if isinstance(below, LogicalProject) else None
        scan = project.input if project is not None else below
        settings = nodes.WatermarkSettings(idle=self.config.option("table.exec.source.idle-timeout"))
        source: ExecNode
        if isinstance(scan, LogicalScan):
            settings = watermark_settings(scan.table, self.config, scan.options)
            source = self._pushed(scan, node.expression, project, settings)
        elif isinstance(scan, LogicalStream):
            source = self.raw_stream(scan)
            names = node.row_type.names
            key = tuple(names.index(scan.row_type[place].name) for place in scan.key)
        else:
            return _watermarked(self.of(below), node, settings)
        pushed = isinstance(source, nodes.ExecScan) and source.watermark is not None
        if project is not None:
            source = calc(source, project.expressions, project.row_type.names)
            clocked = any(column.time is TimeAttribute.PROCTIME for column in source.row_type)
            if clocked and not source.mode.is_insert_only:
                return _watermarked(self.of(below), node, settings)
        return self.normalized(_watermarked(source, node, settings, pushed), key)

    def _pushed(
        self, scan: LogicalScan, expression: Node, project: LogicalProject | None, settings: nodes.WatermarkSettings
    ) -> nodes.ExecScan:
        """Return a scan, with the watermark if its source can assign it."""
        source = self.raw_scan(scan)
        takes = scan_of(scan.table, list(scan.row_type.names), self.config, scan.options)
        if self.batch or not takes.takes_watermarks:
            return source
        if project is not None:
            expression = substituted(expression, project.expressions)
        # A function of the program is opened by an operator; a time of the query's is that of one place.
        if not is_deterministic(expression) or any(isinstance(each, Call) and each.handle for each in walk(expression)):
            return source
        return replace(source, watermark=expression, settings=settings)

    # -- rows

    def project(self, node: LogicalProject) -> ExecNode:
        """Compute columns."""
        return calc(self.of(node.input), node.expressions, node.row_type.names)

    def filter(self, node: LogicalFilter) -> ExecNode:
        """Keep rows; those of some positions are a rank."""
        if isinstance(node.input, LogicalOver):
            found = ranked(self, node, node.input)
            if found is not None:
                return found
        below = self.of(node.input)
        return calc(below, refs(below.row_type), below.row_type.names, node.condition)

    def correlate(self, node: LogicalCorrelate) -> ExecNode:
        """Call a table function."""
        below = self.of(node.input)
        columns = RelationType(below.row_type.columns + node.row_type.columns[len(below.row_type) :])
        return nodes.ExecCorrelate(below, node.call, node.kind, node.condition, row_type=columns, mode=below.mode)

    def union(self, node: LogicalSetOperation) -> ExecNode:
        """Put relations together."""
        relations = tuple(self.of(each) for each in node.relations)
        columns = []
        for place, column in enumerate(node.row_type):
            times = {relation.row_type[place].time for relation in relations}
            columns.append(replace(column, time=times.pop() if len(times) == 1 else None))
        mode = merged(relation.mode for relation in relations)
        return nodes.ExecUnion(relations, row_type=RelationType(tuple(columns)), mode=mode)

    def sort(self, node: LogicalSort) -> ExecNode:
        """Sort and cut."""
        below = self.of(node.input)
        if node.fetch is None and not node.offset:
            return self.sorted(node, below)
        if node.fetch is None and self.batch:
            node = replace(node, fetch=_ALL_ROWS)
        if node.fetch is None:
            refuse("OFFSET without FETCH keeps every row for ever: add FETCH or LIMIT.")
        if node.fetch == 0:
            return calc(below, refs(below.row_type), below.row_type.names, literal(False))
        name = "SortLimit" if node.order else "Limit"
        end = node.offset + node.fetch
        return self.rank(below, (), node.order, node.offset + 1, end, None, False, name)

    def sorted(self, node: LogicalSort, below: ExecNode) -> ExecNode:
        """Sort all rows, or by time."""
        first = node.order[0]
        time = below.row_type[first.index].time
        if self.batch or (time is None and self.config.get("__table.exec.sort.non-temporal.enabled__") == "true"):
            return nodes.ExecSort(
                exchange(below, ()), node.order, row_type=below.row_type, mode=below.mode, upsert_keys=below.upsert_keys
            )
        if time is None:
            refuse(
                "Sort on a non-time-attribute field is not supported. Order by event time first, add LIMIT, or use batch mode."
            )
        if not first.ascending:
            refuse("Primary sort order of a streaming table must be ascending on time.")
        insert_only(below, "TemporalSort")
        return nodes.ExecTemporalSort(
            exchange(below, ()),
            node.order,
            time is TimeAttribute.ROWTIME,
            row_type=below.row_type,
            upsert_keys=below.upsert_keys,
        )

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
        """The rows of some positions of each partition."""
        strategy = "append"
        unique: tuple[int, ...] = ()
        if not below.mode.is_insert_only:
            strategy = "retract"
            for key in sorted(below.upsert_keys, key=lambda key: (len(key), sorted(key))):
                grows = monotonic(below)
                moving = [each for each in order if each.index not in key]
                if (
                    set(partition) <= key
                    and moving
                    and not deletes(below.mode)
                    and all(grows.get(each.index) is (not each.ascending) for each in moving)
                ):
                    strategy, unique = "update", tuple(sorted(key))
                    break
        mode = DELETES if not order and below.mode.is_insert_only else ALL
        if self.batch and end_column is None and below.mode.is_insert_only:
            mode = below.mode
        columns = below.row_type.columns
        place = len(columns)
        if number:
            columns = (*columns, number_column or OutputColumn("rank", BIGINT))
        return nodes.ExecRank(
            exchange(below, partition),
            partition,
            order,
            start,
            end,
            end_column,
            number,
            strategy,
            unique,
            self.ttl,
            name,
            row_type=RelationType(columns),
            mode=mode,
            upsert_keys=rank_keys(below, partition, start, end, place if number else None),
        )

    def window_table(self, node: LogicalWindowTable) -> ExecNode:
        """Assign windows."""
        below = self.of(node.input)
        column = below.row_type[node.window.time]
        times = self.batch and isinstance(column.type, TimestampType | LocalZonedTimestampType)
        if column.time is None and not times:  # a batch has all rows before the first window ends
            refuse(
                f"The window function requires the timecol is a time attribute type, but is {column.type} "
                f"of column '{column.name}'. Declare it: WATERMARK FOR {column.name} AS {column.name} - INTERVAL '5' SECOND."
            )
        columns = list(node.row_type.columns)
        columns[: len(below.row_type)] = below.row_type.columns
        columns[-1] = replace(columns[-1], time=TimeAttribute.ROWTIME if times else column.time)
        if node.window.kind is WindowKind.SESSION:
            below = exchange(below, node.window.partition)
        return nodes.ExecWindowTable(below, node.window, row_type=RelationType(tuple(columns)), mode=below.mode)

    def match(self, node: LogicalMatch) -> ExecNode:
        """Find patterns."""
        below = self.of(node.input)
        insert_only(below, "Match Recognize")
        time = below.row_type[node.order[0].index].time
        if time is None or not node.order[0].ascending:
            refuse("You must specify either rowtime or proctime for order by as the first one, in ascending order.")
        return nodes.ExecMatch(
            exchange(below, node.partition),
            node.partition,
            node.order,
            node.clause,
            time is TimeAttribute.ROWTIME,
            node.functions,
            row_type=node.row_type,
        )


def _watermarked(
    source: ExecNode, node: LogicalWatermark, settings: nodes.WatermarkSettings, pushed: bool = False
) -> ExecNode:
    columns = list(source.row_type)
    columns[node.time] = replace(node.row_type[node.time], name=columns[node.time].name)
    return nodes.ExecWatermark(
        source,
        node.time,
        node.expression,
        settings,
        pushed,
        row_type=RelationType(tuple(columns)),
        mode=source.mode,
        upsert_keys=source.upsert_keys,
    )


def _source_of(node: ExecNode) -> ExecNode:
    while isinstance(node, nodes.ExecCalc | nodes.ExecWatermark):
        node = node.input
    return node


def _source_key(node: ExecNode, source: ExecNode) -> tuple[int, ...]:
    """The primary key of a source, at its places behind the computed columns."""
    if not isinstance(source, nodes.ExecScan) or not source.key:
        return ()
    names = [source.row_type[place].name for place in source.key]
    return tuple(node.row_type.index(name) for name in names if name in node.row_type.names)


_RULES: dict[type, Any] = {
    LogicalScan: Converter.scan,
    LogicalStream: Converter.stream,
    LogicalValues: Converter.values,
    LogicalWatermark: Converter.watermark,
    LogicalProject: Converter.project,
    LogicalFilter: Converter.filter,
    LogicalCorrelate: Converter.correlate,
    LogicalSetOperation: Converter.union,
    LogicalSort: Converter.sort,
    LogicalWindowTable: Converter.window_table,
    LogicalOver: over,
    LogicalAggregate: aggregate,
    LogicalJoin: join,
    LogicalTemporalJoin: temporal_join,
    LogicalMatch: Converter.match,
    LogicalTableFunction: table_function,
}


# ---- The whole way from logical sinks to optimized ones.


def optimize(sinks: Sequence[LogicalSink], config: Any, batch: bool = False) -> list[ExecSink]:
    """Return the optimized plans of sinks; common parts are one object in all of them."""
    rewriter, converter, settler = Rewriter(config.get_local_timezone()), Converter(config, batch), Settler()
    if not batch:
        for root in sinks:
            refuse_ranks(root.input)
    relations = [rewriter.push(root.input) for root in sinks]
    for each in relations:
        warn_of_products(each)
    if batch:
        ordered = JoinOrder(config)
        relations = [ordered.of(each) for each in relations]
    relations = pruned(relations)
    plans = [converter.of(relation) for relation in relations]
    if config.option("table.optimizer.multi-join.enabled") and not batch:
        plans = with_multi_joins(plans)
    roots = [sink(root, plan, settler, config, batch) for root, plan in zip(sinks, plans, strict=True)]
    roots = with_filters(with_limits(roots, config), config)
    return roots if batch else in_mini_batches(roots, config)
