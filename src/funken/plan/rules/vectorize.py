"""The choice of operators on columns.

An operator is vectorized only where the result is provably the same: its functions are traced (``columnar/tracing.py``), the
types of its input are known, and every operation has a kernel with Python's results. Columns begin at a source that makes
them, and end where an operator is not vectorized: it is given lists, as ever. They cross a keyed exchange before they end, if
the key can be traced. A source or filter alone gains nothing, so columns without a consumer are not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from funken import config
from funken.columnar.expressions import NotVectorizable, described, noted
from funken.connectors.base import declares
from funken.connectors.formats.arrow_columns import is_held
from funken.dataclass import dataclass
from funken.expr.types import HIGHEST, INT, LOWEST, Record, Type, atomic_fields, has_documents, name_of
from funken.extras import absent
from funken.ids import OperatorId
from funken.operators.base import OperatorSpec
from funken.operators.columnar.specs import BatchResult, ColumnarSource, ColumnarTimestamps, VectorizedCall
from funken.operators.join import IntervalJoinSpec, WindowJoin
from funken.operators.process.one_input import KeyedProcess, Process
from funken.operators.process.two_inputs import CoFlatMap, CoMap, KeyedCoProcess
from funken.operators.rolling import RollingReduce
from funken.operators.sink import WriterSink
from funken.operators.source import SourceSpec, TimestampsAndWatermarks
from funken.operators.stateless import Filter, FlatMap, KeyedMap, Map
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import WindowSpec
from funken.plan.columnar_edges import COLUMNS, ColumnarHash
from funken.plan.columns.declared import declared_schema, type_given
from funken.plan.columns.functions import (
    OTHER_FIELDS,
    ProgramChanges,
    check_documents,
    columnar_filter,
    columnar_flat_map,
    columnar_keyed_map,
    columnar_map,
    columnar_of_two,
    columnar_process,
    columnar_process_function,
    columnar_reduce,
    drops_missing,
    stamped,
    traced_function,
)
from funken.plan.columns.windows import (
    VECTORIZED,
    columnar_interval_join,
    columnar_sink,
    columnar_window,
    columnar_window_join,
    traced_key,
)
from funken.plan.nodes import Forward, Global, Hash, Node, NodeInput, Partitioning, Rebalance, Rescale
from funken.plan.physical import Edge, PhysicalPlan, RuleNote, Vertex
from funken.plan.rules.base import Rewritten, Rule, RuleContext, with_nodes
from funken.plan.rules.projection import fields_read, makes_records, taken_whole_by

_NAME = "columns"
_PER_RECORD, _USELESS = "per record: ", "nothing after it is vectorized"

_JOINS = {IntervalJoinSpec: columnar_interval_join, WindowJoin: columnar_window_join}
_OF_TWO = (KeyedCoProcess, CoMap, CoFlatMap, *_JOINS)
_BLIND = (Forward, Global, Rebalance, Rescale)
"""Partitionings that look at no record."""


@dataclass(frozen=True)
class _Found:
    """The replacement of an operator, and the shape of its results (``None``: nothing)."""

    spec: OperatorSpec
    shape: Type | None = None
    computes: bool = True
    """True if anything is gained by it, even if nothing after it is vectorized."""
    path: str = VECTORIZED
    """The text of ``explain()``."""


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    if not context.vectorized:
        return plan, [RuleNote(_NAME, f"off: {config.VECTORIZED.key} is false")]
    missing = absent("columns")
    if missing:
        return plan, [RuleNote(_NAME, f"off: needs {' and '.join(missing)} (pip install 'funken[columns]')")]
    refused: dict[OperatorId, str] = {}
    while True:
        rewritten = _Vectorizer(plan, context, refused).run()
        unheld = _unheld(rewritten[0])
        if not unheld:
            return rewritten
        refused = _reasons(rewritten[1]) | refused | unheld


def _reasons(notes: Iterable[RuleNote]) -> dict[OperatorId, str]:
    """Return the reasons for work per record; without the source's columns, each would be only that."""
    found = {note.operator: note.text.removeprefix(_PER_RECORD) for note in notes if note.text.startswith(_PER_RECORD)}
    return {operator: reason for operator, reason in found.items() if operator is not None and reason != _USELESS}


def shapes(plan: PhysicalPlan, context: RuleContext) -> Mapping[OperatorId, Type]:
    """Return the shapes of operators' results, where they could be traced: also where columns are of no use."""
    if not context.vectorized or absent("columns"):
        return {}
    return _Vectorizer(plan, context, {}).shapes()


def _unheld(plan: PhysicalPlan) -> dict[OperatorId, str]:
    """Return the operators that would have to make a field without columns, with the reason."""
    found = {}
    for node in plan.nodes:
        spec: Any = node.spec
        if makes_records(spec):
            leaves = dict(enumerate(atomic_fields(spec.schema)))
            projection = fields_read(plan, node)
            if projection is None and has_documents(spec.schema):
                reader = taken_whole_by(plan, node)
                found[node.id] = f"{reader!r} is given whole records, {OTHER_FIELDS}"
                continue
            for path, kind in map(leaves.__getitem__, leaves if projection is None else projection.fields):
                if not is_held(kind):
                    name = name_of(spec.schema, path)
                    field = repr(name) if isinstance(spec.schema, Record) else name
                    found[node.id] = f"its field {field} is used, and no column holds a {kind}"
                    break
    return found


class _Vectorizer:
    """Walks the plan in topological order, then back to drop useless columns.

    In ``BATCH`` a keyed operator gets its records in the order of time, which columns are not brought into. ``refused`` are
    operators that are not vectorized, with the reason.
    """

    def __init__(self, plan: PhysicalPlan, context: RuleContext, refused: Mapping[OperatorId, str]) -> None:
        self._plan = plan
        self._batch = context.batch
        self._refused = refused
        self._found: dict[OperatorId, _Found] = {}
        self._carriers: dict[int, Partitioning] = {}
        self._paths: dict[OperatorId, str] = {}
        self._nodes = {node.id: node for node in plan.nodes}
        self._changes = ProgramChanges(plan)

    def run(self) -> Rewritten:
        """Decide for every operator."""
        for vertex in self._plan.vertices:
            for node in vertex.nodes:
                self._decide(vertex, node)
        for edge in self._plan.edges:
            self._carry(edge)
        for node in reversed(list(self._nodes.values())):
            self._drop_if_useless(node)
        edges = tuple(
            replace(edge, partitioning=self._carriers[edge.id]) if edge.id in self._carriers else edge
            for edge in self._plan.edges
        )
        notes = [RuleNote(_NAME, text, operator) for operator, text in self._paths.items()]
        return replace(with_nodes(self._plan, self._rewritten), edges=edges), notes

    def shapes(self) -> Mapping[OperatorId, Type]:
        """Return the shapes of operators' results that could be vectorized."""
        for vertex in self._plan.vertices:
            for node in vertex.nodes:
                self._decide(vertex, node)
        return {operator: found.shape for operator, found in self._found.items() if found.shape is not None}

    def _decide(self, vertex: Vertex, node: Node) -> None:
        try:
            if node.id in self._refused:
                raise NotVectorizable(self._refused[node.id])
            found = self._source(node) if isinstance(node.spec, SourceSpec) else self._operator(vertex, node)
            found = replace(found, shape=declared_schema(node, found.shape))
            self._changes.check(found.spec)
        except NotVectorizable as reason:
            self._paths[node.id] = f"{_PER_RECORD}{reason}"
            return
        except Exception as error:  # noqa: BLE001 - a fault of Funken's must not fail a program
            noted(error, f"The function of {node.name!r} could not be read: ")
            self._paths[node.id] = f"{_PER_RECORD}could not be read (internal: {described(error)})"
            return
        self._found[node.id] = found
        self._paths[node.id] = found.path

    def _carry(self, edge: Edge) -> None:
        """Send columns to an operator that takes lists, too: they are made where they arrive, not before and behind."""
        found = self._found.get(edge.source_node)
        if found is None or found.shape is None or edge.side is not None:
            return
        target = next(vertex for vertex in self._plan.vertices if vertex.id == edge.target).nodes[0]
        if target.id in self._found:
            return
        with suppress(NotVectorizable):
            self._exchange(edge, self._nodes[edge.source_node], found.shape, to_records=True)

    def _rewritten(self, node: Node) -> Node:
        found = self._found.get(node.id)
        return node if found is None else replace(node, spec=found.spec)

    def _drop_if_useless(self, node: Node) -> None:
        """Undo an operator that only passes columns on to operators that take lists."""
        found = self._found.get(node.id)
        if found is None or found.computes or found.shape is None:
            return
        readers = [other for other in self._nodes.values() if any(i.upstream == node.id for i in other.inputs)]
        columns_leave = any(edge.source_node == node.id and edge.id in self._carriers for edge in self._plan.edges)
        if not columns_leave and not any(reader.id in self._found for reader in readers):
            del self._found[node.id]
            self._paths[node.id] = f"{_PER_RECORD}{_USELESS}"

    # ---- sources

    def _source(self, node: Node) -> _Found:
        spec: Any = node.spec
        source: Any = spec.source
        schema: Type = INT
        generated = None
        declared = source.index_columns if declares(source, "index_columns", "reader") else None
        if declared is None:
            return self._records(spec)
        if declared.function is not None:
            generated, schema = traced_function(declared.function, "map", 1).typed(INT)
        elif not LOWEST <= declared.least <= declared.greatest <= HIGHEST:
            raise NotVectorizable("makes numbers that no column can hold")
        traced = stamped(spec.strategy, schema)
        fields = {"source": source, "strategy": spec.strategy, "type_info": spec.type_info}
        made = ColumnarSource(**fields, schema=schema, generated=generated, stamped=traced)
        return _Found(made, schema, computes=generated is not None or traced is not None)

    def _records(self, spec: Any) -> _Found:
        """Return a source whose readers make columns of records."""
        source: Any = spec.source
        if not declares(source, "record_schema", "reader"):
            raise NotVectorizable(f"{type(source).__name__} produces no columns")
        schema: Type = source.record_schema()
        traced = stamped(spec.strategy, schema)
        made = ColumnarSource(source, spec.strategy, spec.type_info, schema, None, traced, of_records=True)
        return _Found(made, schema, computes=traced is not None)

    # ---- operators

    def _operator(self, vertex: Vertex, node: Node) -> _Found:
        if isinstance(node.spec, VectorizedCall):
            return self._called_with_blocks(vertex, node, node.spec)
        spec: Any = node.spec
        if type(spec) in _OF_TWO:
            return self._of_two(vertex, node, spec)
        schema = self._input(vertex, node)
        match spec:
            case Map():
                return _Found(*columnar_map(spec, schema, partial(self._is_filtered, node), node.output_type))
            case Filter():
                return _Found(columnar_filter(spec, schema), schema)
            case FlatMap():
                return _Found(*columnar_flat_map(spec, schema, node.output_type))
            case Process():
                return _Found(*columnar_process_function(spec, schema, node.output_type))
            case TimestampsAndWatermarks():
                traced = stamped(spec.strategy, schema)
                return _Found(ColumnarTimestamps(spec, traced), schema, computes=traced is not None)
            case RollingReduce():
                given = type_given(node, self._nodes)
                return _Found(columnar_reduce(spec, schema, self._batch, given), schema)
            case WindowSpec() if type(spec) is WindowSpec:
                return self._window(node, spec, schema)
            case WriterSink(sink) if sink.takes_columns and declares(sink, "takes_columns", "writer"):
                return _Found(columnar_sink(spec, schema))
            case KeyedMap(key=UserFunction()):
                return self._with_state(*columnar_keyed_map(spec, self._in_order(schema), node.output_type))
            case KeyedProcess():
                return self._with_state(*columnar_process(spec, self._in_order(schema), node.output_type))
        raise NotVectorizable(f"{node.kind} has no vectorized form")

    def _is_filtered(self, node: Node) -> bool:
        """Return True if all consumers of an operator are filters that drop ``None``."""
        readers = [(other, each) for other in self._nodes.values() for each in other.inputs if each.upstream == node.id]
        return bool(readers) and all(each.side is None and drops_missing(other.spec) for other, each in readers)

    def _of_two(self, vertex: Vertex, node: Node, spec: Any) -> _Found:
        schemas = [self._in_order(self._united(vertex, node, index)) for index in range(2)]
        made: Any = _JOINS.get(type(spec), columnar_of_two)
        return self._with_state(*made(spec, schemas, node.output_type))

    def _in_order(self, schema: Type) -> Type:
        if self._batch:
            raise NotVectorizable("sees its records one by one, which BATCH sorts by time")
        return schema

    @staticmethod
    def _with_state(made: OperatorSpec, results: Type | None) -> _Found:
        if results is not None:
            check_documents(results)
        return _Found(made, results)

    def _called_with_blocks(self, vertex: Vertex, node: Node, spec: VectorizedCall) -> _Found:
        """Return a function over whole blocks, which takes records as well: columns may begin at it."""
        given, takes = None, "of columns"
        try:
            given = self._input(vertex, node)
        except NotVectorizable as reason:
            takes = f"of records: {reason}"
        shape = given if spec.result is BatchResult.FILTER else spec.schema
        lacks = "declares no type that has columns"
        try:
            declared_schema(node, shape)
        except NotVectorizable as reason:
            shape, lacks = None, str(reason)
        if shape is None and spec.result is not BatchResult.FILTER:
            takes += f"; gives records: {lacks}"
        path = f"{VECTORIZED} function, {spec.batch_format.value} {takes}"
        return _Found(replace(spec, gives_columns=shape is not None), shape, path=path)

    def _input(self, vertex: Vertex, node: Node) -> Type:
        """Return the shape of a node's input columns."""
        if len({each.index for each in node.inputs}) != 1:
            raise NotVectorizable("has several inputs")
        return self._united(vertex, node, node.inputs[0].index)

    def _united(self, vertex: Vertex, node: Node, index: int) -> Type:
        """Return the shape of the columns of one of a node's inputs, which may be a union."""
        schema, *others = (self._given(vertex, node, each) for each in node.inputs if each.index == index)
        for other in others:
            if other != schema:
                raise NotVectorizable(f"is given {schema} and {other}")
        return schema

    def _given(self, vertex: Vertex, node: Node, of: NodeInput) -> Type:
        """Return the shape of the columns of an input of a node."""
        if of.side is not None:
            raise NotVectorizable("reads a side output")
        upstream = self._nodes[of.upstream]
        found = self._found.get(upstream.id)
        if found is None or found.shape is None:
            raise NotVectorizable(f"{upstream.name!r} gives it single records")
        if node is vertex.nodes[0]:
            edges = (edge for edge in self._plan.edges if edge.target == vertex.id)
            edge = next(edge for edge in edges if (edge.source_node, edge.index) == (of.upstream, of.index))
            self._exchange(edge, upstream, found.shape)
        return found.shape

    def _exchange(self, edge: Edge, upstream: Node, schema: Type, to_records: bool = False) -> None:
        if edge.local:
            return
        form = replace(COLUMNS, to_records=to_records)
        if isinstance(edge.partitioning, _BLIND) and edge.partitioning.form is None and not edge.feedback:
            self._carriers[edge.id] = replace(edge.partitioning, form=form)
            return
        if type(edge.partitioning) is not Hash:
            raise NotVectorizable(f"{upstream.name!r} sends it single records, by {edge.partitioning.label}")
        traced = traced_key(edge.partitioning.key, schema)
        self._carriers[edge.id] = ColumnarHash(edge.partitioning.key, traced, form=form)

    def _window(self, node: Node, spec: WindowSpec, schema: Type) -> _Found:
        types = type_given(node, self._nodes), node.output_type
        made, results, path = columnar_window(spec, schema, self._batch, *types)
        return _Found(made, results, path=path)


RULE = Rule(_NAME, _apply)
