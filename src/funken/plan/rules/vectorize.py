"""The rules about columns: operators on columns, aggregates before an exchange, and the fields that a source reads.

An operator is vectorized only where the result is provably the same: its functions are traced (``columnar/tracing.py``), the
types of its input are known, and every operation has a kernel with Python's results. Columns begin at a source that makes
them, and end where an operator is not vectorized: it is given lists, as ever. They cross a keyed exchange before they end, if
the key can be traced. A source or filter alone gains nothing, so columns without a consumer are not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from math import gcd
from operator import getitem
from types import MappingProxyType
from typing import Any, cast

from funken import config
from funken.columnar.declared import FIRST, LAST, SUM, Aggregate, Fold
from funken.columnar.expressions import (
    Argument,
    Constant,
    Expression,
    Loop,
    Make,
    NotVectorizable,
    Rowwise,
    described,
    noted,
)
from funken.columnar.tracing import Traced
from funken.columnar.typed.inference import TracedFlatMap, paths_of
from funken.columnar.typed.operations import ITEMS
from funken.connectors.base import declares
from funken.connectors.formats.arrow_columns import is_held
from funken.dataclass import dataclass
from funken.expr.types import HIGHEST, INT, LOWEST, ListOf, Record, Type, atomic_fields, has_documents, name_of
from funken.extras import absent
from funken.ids import EdgeId, OperatorId
from funken.operators.base import OperatorSpec
from funken.operators.columnar.specs import (
    BatchResult,
    ColumnarKeyed,
    ColumnarMap,
    ColumnarProcess,
    ColumnarReduce,
    ColumnarSource,
    ColumnarTimestamps,
    ColumnarWindow,
    FunctionOnColumns,
    VectorizedCall,
)
from funken.operators.join import IntervalJoinSpec, WindowJoin
from funken.operators.process.one_input import KeyedProcess, Process, process_call
from funken.operators.process.two_inputs import CoFlatMap, CoMap, KeyedCoProcess
from funken.operators.rolling import RollingReduce
from funken.operators.sink import WriterSink
from funken.operators.source import SourceSpec, TimestampsAndWatermarks
from funken.operators.stateless import Filter, FlatMap, KeyedMap, Map
from funken.operators.user_functions import UserFunction, call_of
from funken.operators.window.contents import Aggregated
from funken.operators.window.spec import Strategy, WindowSpec
from funken.plan.columns import (
    OTHER_FIELDS,
    VECTORIZED,
    ProgramChanges,
    check_documents,
    columnar_filter,
    columnar_flat_map,
    columnar_interval_join,
    columnar_keyed_map,
    columnar_map,
    columnar_of_two,
    columnar_process,
    columnar_process_function,
    columnar_reduce,
    columnar_sink,
    columnar_window,
    columnar_window_join,
    declared_schema,
    drops_missing,
    gives_documents,
    is_of_key,
    stamped,
    traced_function,
    traced_key,
    type_given,
    with_fields,
)
from funken.plan.nodes import (
    COLUMNS,
    ColumnarHash,
    Forward,
    Global,
    Hash,
    Node,
    NodeInput,
    Partitioning,
    PreAggregation,
    Rebalance,
    Rescale,
)
from funken.plan.physical import Edge, PhysicalPlan, Rewritten, Rule, RuleContext, RuleNote, Vertex, with_nodes

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


def _vectorized(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
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


VECTORIZATION = Rule(_NAME, _vectorized)


# ---- Pre-aggregation: records of a window are aggregated by key and pane before the exchange.
#
# Only where that provably changes nothing: in event-time windows over columns that fire once, at their end (so a pane takes
# its records or is late for all of them), whose contents are folds that may be regrouped; and in a reduce of ``BATCH``, which
# gives one value per key, and is one pane. Ints may be added, and compared, in
# any grouping; the first record of a key stays the first, and the last one of a pane the last. Floats may not be added so. A
# partial is a record (``columnar/keyed/groups.py``), so a leaf of the record plays one role, and no two.


_EARLIER = "pre-aggregation"
_MOST_ADDED = 1 << 31
"""The limit of a summand per record, so that one for each record of a block does not overflow."""


def _pre_aggregated(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    if not context.pre_aggregate:
        return plan, [RuleNote(_EARLIER, f"off: {config.PRE_AGGREGATION.key} is false")]
    notes: list[RuleNote] = []
    hashes: dict[EdgeId, ColumnarHash] = {}
    for vertex in plan.vertices:
        node = vertex.nodes[0]
        spec = node.spec
        if not isinstance(spec, ColumnarWindow) and not (isinstance(spec, ColumnarReduce) and spec.any_order):
            continue
        hashed = {edge.id: edge.partitioning for edge in plan.edges if edge.target == vertex.id}
        if not all(isinstance(partitioning, ColumnarHash) for partitioning in hashed.values()):
            notes.append(RuleNote(_EARLIER, "not before the exchange: it is not one by key", node.id))
            continue
        try:
            folded = pre_aggregation(spec)
        except NotVectorizable as reason:
            notes.append(RuleNote(_EARLIER, f"not before the exchange: {reason}", node.id))
        else:
            hashes |= {
                edge: replace(each, pre_aggregation=folded)
                for edge, each in hashed.items()
                if isinstance(each, ColumnarHash)
            }
            notes.append(RuleNote(_EARLIER, "before the exchange", node.id))
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


PRE_AGGREGATION = Rule(_EARLIER, _pre_aggregated)


# ---- Projection: the fields that a source of columns has to read, as later functions use them.
#
# From the source on, a record is followed as long as it is the same: through filters, timestamps and exchanges to the functions
# that make something else of it. They have been traced, so the fields that they look at are known. Who takes a record whole, such
# as a sink, a running reduce, or an operator that works on single records, wants all fields.
#
# A function may change while a job runs, if a variable that it uses does. Then it might look at other fields. So those that run
# in the source's task are guards: the source asks before each block whether they still are what was traced, and if not, reads all
# fields from then on. Such a function behind an exchange wants all fields from the beginning.


Guard = tuple[UserFunction, Traced | TracedFlatMap]


@dataclass(frozen=True)
class FieldsRead:
    """The numbers of the fields that are read, in their order, and the functions that decide it in the source's task.

    Fields of records within records count: their numbers are those of the leaves of the schema. ``items`` has fields that are
    lists, with the numbers of the fields of their items that are read, if these are not all.
    """

    fields: tuple[int, ...]
    guards: tuple[Guard, ...] = ()
    items: tuple[tuple[int, tuple[int, ...]], ...] = ()


class _TakesAll(Exception):
    """Somebody takes records whole: the operator of that name."""


def makes_records(spec: Any) -> bool:
    """Return True if an operator makes records, and may leave out fields: a source, or ``map(json.loads)``."""
    if isinstance(spec, ColumnarMap):
        return spec.schema is not None and gives_documents(spec.traced)
    return isinstance(spec, ColumnarSource) and spec.of_records


def fields_read(plan: PhysicalPlan, source: Node) -> FieldsRead | None:
    """Return the fields that are read of a source of columns of records; ``None``: all of them."""
    try:
        return _Reached(plan, source).projection()
    except _TakesAll:
        return None


def taken_whole_by(plan: PhysicalPlan, source: Node) -> str | None:
    """Return the name of an operator that takes the records of a source of columns whole."""
    try:
        _Reached(plan, source).projection()
    except _TakesAll as operator:
        return str(operator)
    return None


class _Reached:
    """All that is done with the records of one source."""

    def __init__(self, plan: PhysicalPlan, source: Node) -> None:
        self._plan = plan
        self._source = source
        self._paths: set[tuple[int, ...]] = set()
        self._guards: list[Guard] = []

    def projection(self) -> FieldsRead:
        spec = self._source.spec
        assert isinstance(spec, ColumnarSource | ColumnarMap)
        assert spec.schema is not None
        if isinstance(spec, ColumnarSource) and spec.stamped is not None:
            self._function(self._source, call_of(spec.strategy.assigner, "extract_timestamp"), spec.stamped, near=True)
        self._follow(self._source.id, near=True)
        read, items = [], []
        for number, (leaf, kind) in enumerate(atomic_fields(spec.schema)):
            if any(leaf[: len(path)] == path for path in self._paths):
                read.append(number)
                continue
            within = [path[len(leaf) + 1 :] for path in self._paths if path[: len(leaf) + 1] == (*leaf, ITEMS)]
            if within:
                lists = kind.required
                assert isinstance(lists, ListOf)
                read.append(number)
                of_items = enumerate(atomic_fields(lists.element))
                found = [n for n, (inner, _) in of_items if any(inner[: len(path)] == path for path in within)]
                items.append((number, tuple(found)))
        return FieldsRead(tuple(read), tuple(self._guards), tuple(items))

    def _follow(self, upstream: OperatorId, near: bool) -> None:
        """Go to those that take the records of an operator; ``near``: it runs in the source's task."""
        for vertex in self._plan.vertices:
            for node in vertex.nodes:
                for given in node.inputs:
                    if given.upstream == upstream:
                        edge = self._edge(given, vertex.id) if node is vertex.nodes[0] else None
                        self._node(node, near, edge, given.side)

    def _edge(self, given: NodeInput, target: int) -> Edge:
        wanted = given.upstream, target, given.index
        return next(each for each in self._plan.edges if (each.source_node, each.target, each.index) == wanted)

    def _node(self, node: Node, near: bool, edge: Edge | None, side: str | None) -> None:
        several = isinstance(node.spec, ColumnarKeyed) and len(node.spec.on_columns.functions) > 1
        if side is not None or (len(node.inputs) != 1 and not several):
            raise _TakesAll(node.name)
        if edge is not None and not edge.local:
            if isinstance(edge.partitioning, ColumnarHash):
                self._function(node, edge.partitioning.key, edge.partitioning.traced, near)
            elif edge.partitioning.form is None:
                raise _TakesAll(node.name)
            near = False
        self._spec(node, near, 0 if edge is None else edge.index)

    def _spec(self, node: Node, near: bool, number: int) -> None:
        match node.spec:
            case ColumnarKeyed(of, on_columns):
                self._with_state(node, of.function, on_columns.functions[number], near)
            case ColumnarMap(of, traced, schema):
                if isinstance(traced, Traced):
                    self._function(node, of.function, traced, near)
                else:
                    self._reads(node, of.function, traced, near)
                if schema is None:
                    self._follow(node.id, near)
            case ColumnarProcess(of, traced):
                read = frozenset(path[1:] for path in traced.read if path[:1] == (0,))
                if any(path[:1] != (0,) and path[:1] != (1,) for path in traced.read):
                    raise _TakesAll(node.name)
                self._reads(node, process_call(of.function), replace(traced, read=read), near)
            case ColumnarTimestamps() as spec:
                if spec.stamped is not None:
                    call = call_of(spec.spec.strategy.assigner, "extract_timestamp")
                    self._function(node, call, spec.stamped, near)
                self._follow(node.id, near)
            case ColumnarWindow(aggregate=Aggregate() as aggregate, contents=Aggregated(function)) as spec if (
                not spec.late_tag
            ):
                target = function.target
                self._function(node, spec.key, spec.traced_key, near)
                if spec.gap is not None:
                    self._function(node, *spec.gap, near)
                self._function(node, UserFunction(target, "create_accumulator"), aggregate.created, near)
                self._function(node, UserFunction(target, "add"), spec.traced, near)
            case _:
                raise _TakesAll(node.name)

    def _function(self, node: Node, function: UserFunction, traced: Traced, near: bool) -> None:
        self._paths.update(_paths(traced.result))
        self._reads(node, function, traced, near)

    def _with_state(self, node: Node, function: UserFunction, of: FunctionOnColumns, near: bool) -> None:
        assert of.key is not None
        assert of.traced_key is not None
        self._function(node, of.key, of.traced_key, near)
        if any(
            each.kind == "attribute" for each in of.traced.given.dependencies
        ):  # an attribute of the object may change, and then other fields may be read
            raise _TakesAll(node.name)
        self._reads(node, UserFunction(function.target, of.method), replace(of.traced.given, read=of.typed.read), near)

    def _reads(self, node: Node, function: UserFunction, traced: Traced | TracedFlatMap, near: bool) -> None:
        self._paths.update(traced.read)
        if () in self._paths:
            raise _TakesAll(node.name)
        if any(each.may_change for each in traced.dependencies):
            if not near:
                raise _TakesAll(node.name)
            self._guards.append((function, traced))


def _paths(expression: Any, over: Mapping[int, tuple[int, ...]] = MappingProxyType({})) -> Iterator[tuple[int, ...]]:
    """Yield the paths of the fields of a function's first argument that an expression looks at.

    Not those of lists that a loop goes over, or that are counted, but those of the fields of their items: ``over`` has the paths
    of the lists by the number of the argument that the item is.
    """
    match expression:
        case Argument(0, path):
            yield path
        case Argument(number, path) if number in over:
            yield (*over[number], ITEMS, *path)
        case Loop(Argument(0, path), number, conditions, result):
            yield from _paths((*conditions, result), {**over, number: path})
        case Rowwise("len" | "truth", (Argument(0),)):
            return
        case Expression():
            for value in vars(expression).values():
                yield from _paths(value, over)
        case tuple():
            for each in expression:
                yield from _paths(each, over)


def _name(schema: Type, path: tuple[int, ...], items: tuple[int, ...] | None) -> str:
    """Return the name of a field, with those of the fields of items that are read, if these are not all."""
    kind: Any = reduce(getitem, path, cast("Any", schema)).required
    of_items = [] if items is None else atomic_fields(kind.element)
    if items is None or len(items) == len(of_items):
        return name_of(schema, path)
    return f"{name_of(schema, path)} ({', '.join(name_of(kind.element, of_items[number][0]) for number in items)})"


def _projected(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    notes: list[RuleNote] = []

    def project(node: Node) -> Node:
        spec = node.spec
        if not makes_records(spec):
            return node
        assert isinstance(spec, ColumnarSource | ColumnarMap)
        assert spec.schema is not None
        found = fields_read(plan, node)
        leaves = [path for path, _ in atomic_fields(spec.schema)]
        if found is None or (len(found.fields) == len(leaves) and not found.items and not has_documents(spec.schema)):
            notes.append(RuleNote("projection", "reads all fields", node.id))
            return node
        items = dict(found.items)
        names = [_name(spec.schema, leaves[number], items.get(number)) for number in found.fields]
        text = f"reads {len(names)} of {len(leaves)} fields" + (f": {', '.join(names)}" if names else "")
        notes.append(RuleNote("projection", text, node.id))
        if isinstance(spec, ColumnarMap):
            return replace(node, spec=replace(spec, traced=with_fields(spec.traced, found.fields), guards=found.guards))
        return replace(node, spec=replace(spec, wanted=found.fields, guards=found.guards, items=found.items))

    return with_nodes(plan, project), notes


PROJECTION = Rule("projection", _projected)
