"""Which operators work on columns.

An operator is vectorized only where the result is provably the same: its functions are traced (``columnar/tracing.py``), the
types of its input are known, and every operation has a kernel with Python's results. Columns begin at a source that makes
them, and end where an operator is not vectorized: it is given lists, as ever. A source or filter alone gains nothing, so
columns without a consumer are not made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

from funken import config
from funken.columnar.expressions import (
    HIGHEST,
    INT,
    LOWEST,
    STR,
    Argument,
    Constant,
    NotVectorizable,
    RecordSchema,
    leaves_of,
)
from funken.columnar.folds import EXTREME, FIRST, LAST, Aggregate, Fold, aggregate_folds, reduce_folds
from funken.columnar.inference import schema_of
from funken.columnar.tracing import Traced, trace
from funken.ids import OperatorId
from funken.operators.base import OperatorSpec
from funken.operators.columnar.specs import (
    ColumnarFilter,
    ColumnarMap,
    ColumnarReduce,
    ColumnarSink,
    ColumnarSource,
    ColumnarTimestamps,
    ColumnarWindow,
)
from funken.operators.process.keyed_map import KeyedMap
from funken.operators.rolling import RollingReduce
from funken.operators.sink import WriterSink
from funken.operators.source import SourceSpec
from funken.operators.stateless import Filter, Map
from funken.operators.timestamps import TimestampsAndWatermarks
from funken.operators.user_functions import UserFunction
from funken.operators.window.contents import Aggregated, Reduced
from funken.operators.window.spec import Strategy, WindowSpec
from funken.plan.columnar_hash import ColumnarHash
from funken.plan.nodes import Hash, Node
from funken.plan.physical import Edge, PhysicalPlan, RuleNote, Vertex
from funken.plan.rules.base import Rewritten, Rule, RuleContext, with_nodes
from funken.timing.watermarks import BoundedOutOfOrdernessSpec, WatermarkStrategy

VECTORIZED = "vectorized"
_NAME = "columns"


_WITH_FORM = (Map, Filter, TimestampsAndWatermarks, RollingReduce, WindowSpec)


@dataclass(frozen=True)
class _Found:
    """What an operator becomes, and the shape of what it emits (``None``: nothing)."""

    spec: OperatorSpec
    shape: RecordSchema | None = None
    computes: bool = True
    """Whether anything is gained by it, even if nothing after it is vectorized."""


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
    if not context.vectorized:
        return plan, [RuleNote(_NAME, f"off: {config.VECTORIZED.key} is false")]
    if context.state_in_files:  # the arrays that columns are folded into are in memory
        return plan, [RuleNote(_NAME, "off: state is in files")]
    return _Vectorizer(plan, context.batch).run()


class _Vectorizer:
    """Walks the plan in topological order, then back to drop what is of no use.

    ``batch``: a keyed operator gets its records in the order of time, which columns are not brought into.
    """

    def __init__(self, plan: PhysicalPlan, batch: bool) -> None:
        self._plan = plan
        self._batch = batch
        self._found: dict[OperatorId, _Found] = {}
        self._hashes: dict[int, ColumnarHash] = {}
        self._paths: dict[OperatorId, str] = {}
        self._nodes = {node.id: node for node in plan.nodes}

    def run(self) -> Rewritten:
        """Decide for every operator."""
        for vertex in self._plan.vertices:
            for node in vertex.nodes:
                self._decide(vertex, node)
        for node in reversed(list(self._nodes.values())):
            self._drop_if_useless(node)
        edges = tuple(
            replace(edge, partitioning=self._hashes[edge.id]) if edge.id in self._hashes else edge
            for edge in self._plan.edges
        )
        notes = [RuleNote(_NAME, text, operator) for operator, text in self._paths.items()]
        return replace(with_nodes(self._plan, self._rewritten), edges=edges), notes

    def _decide(self, vertex: Vertex, node: Node) -> None:
        try:
            found = self._source(node) if isinstance(node.spec, SourceSpec) else self._operator(vertex, node)
        except NotVectorizable as reason:
            self._paths[node.id] = f"per record: {reason}"
            return
        self._found[node.id] = found
        self._paths[node.id] = VECTORIZED

    def _rewritten(self, node: Node) -> Node:
        found = self._found.get(node.id)
        return node if found is None else replace(node, spec=found.spec)

    def _drop_if_useless(self, node: Node) -> None:
        """Undo an operator that only passes columns on to operators that take lists."""
        found = self._found.get(node.id)
        if found is None or found.computes or found.shape is None:
            return
        readers = [other for other in self._nodes.values() if any(i.upstream == node.id for i in other.inputs)]
        columns_leave = any(edge.source_node == node.id and edge.id in self._hashes for edge in self._plan.edges)
        if not columns_leave and not any(reader.id in self._found for reader in readers):
            del self._found[node.id]
            self._paths[node.id] = "per record: nothing after it is vectorized"

    # ---- sources

    def _source(self, node: Node) -> _Found:
        spec: Any = node.spec
        source: Any = spec.source
        schema: RecordSchema = INT
        generated = None
        if spec.type_info is not None or node.declares_types:
            raise NotVectorizable("declares a type")
        declared = source.index_columns if _declares(source, "index_columns", "reader") else None
        if declared is None:
            raise NotVectorizable(f"{type(source).__name__} makes no columns")
        if declared.function is not None:
            generated = _traced(declared.function, "map", 1)
            schema = schema_of(generated.result, INT)
        elif not LOWEST <= declared.least <= declared.greatest <= HIGHEST:
            raise NotVectorizable("makes numbers that no column can hold")
        stamped = _stamped(spec.strategy, schema)
        fields = {"source": source, "strategy": spec.strategy, "type_info": None}
        made = ColumnarSource(**fields, schema=schema, generated=generated, stamped=stamped)
        return _Found(made, schema, computes=generated is not None or stamped is not None)

    # ---- operators

    def _operator(self, vertex: Vertex, node: Node) -> _Found:
        schema = self._input(vertex, node)
        spec: Any = node.spec
        if type(spec) in _WITH_FORM and node.declares_types:
            raise NotVectorizable("declares a type")
        match spec:
            case Map() if type(spec) is Map:
                traced = _of_call(spec.function, 1)
                result = schema_of(traced.result, schema)
                return _Found(ColumnarMap(spec.function, traced, result), result)
            case Filter() if type(spec) is Filter:
                traced = _of_call(spec.function, 1)
                if not isinstance(schema_of(traced.result, schema), str):
                    raise NotVectorizable("asks whether a tuple is true")
                return _Found(ColumnarFilter(spec.function, traced), schema)
            case TimestampsAndWatermarks() if type(spec) is TimestampsAndWatermarks:
                stamped = _stamped(spec.strategy, schema)
                return _Found(ColumnarTimestamps(spec.strategy, stamped), schema, computes=stamped is not None)
            case RollingReduce() if type(spec) is RollingReduce:
                return self._reduce(spec, schema)
            case WindowSpec() if type(spec) is WindowSpec:
                return self._window(spec, schema)
            case WriterSink(sink) if sink.takes_columns and _declares(sink, "takes_columns", "writer"):
                return _Found(ColumnarSink(sink))
            case KeyedMap():
                raise NotVectorizable("calls a function with open(), which may have state")
        raise NotVectorizable(f"{node.kind} has no vectorized form")

    def _input(self, vertex: Vertex, node: Node) -> RecordSchema:
        """Return the shape of the columns that a node is given."""
        if len(node.inputs) != 1 or node.inputs[0].side is not None:
            raise NotVectorizable("reads a side output" if len(node.inputs) == 1 else "has several inputs")
        upstream = self._nodes[node.inputs[0].upstream]
        found = self._found.get(upstream.id)
        if found is None or found.shape is None:
            raise NotVectorizable(f"{upstream.name!r} gives it single records")
        if node is vertex.nodes[0]:
            edge = next(edge for edge in self._plan.edges if edge.target == vertex.id)
            self._exchange(edge, upstream, found.shape)
        return found.shape

    def _exchange(self, edge: Edge, upstream: Node, schema: RecordSchema) -> None:
        if edge.local:
            return
        if type(edge.partitioning) is not Hash:
            raise NotVectorizable(f"{upstream.name!r} sends it single records, by {edge.partitioning.label}")
        traced = _key(edge.partitioning.key, schema)
        self._hashes[edge.id] = ColumnarHash(edge.partitioning.key, traced)

    def _reduce(self, spec: RollingReduce, schema: RecordSchema) -> _Found:
        key = _key(spec.key, schema)
        traced, folds = reduce_folds(spec.function.target, spec.function.method, schema)
        for fold, (path, kind) in zip(folds, leaves_of(schema), strict=True):
            is_key = fold.of == Argument(0, path) == key.result and fold.how in (FIRST, LAST)
            if kind == STR and not is_key and fold.how == LAST and fold.of != Argument(0, path):
                raise NotVectorizable("makes text of the result so far")
        return _Found(ColumnarReduce(spec.key, spec.function, key, traced, folds, schema), schema)

    def _window(self, spec: WindowSpec, schema: RecordSchema) -> _Found:
        if spec.strategy is not Strategy.ALIGNED:
            raise NotVectorizable(f"windows that are {spec.strategy.value} have no vectorized form")
        key = _key(spec.key, schema)
        contents, aggregate = spec.contents, None
        if isinstance(contents, Reduced):
            traced, folds = reduce_folds(contents.function.target, contents.function.method, schema)
        elif isinstance(contents, Aggregated):
            aggregate = aggregate_folds(contents.function.target, schema)
            traced, folds = aggregate.added, aggregate.folds
        else:
            raise NotVectorizable("keeps every record of a window")
        for fold in folds:
            if fold.how in EXTREME:
                raise NotVectorizable(f"keeps whole records of a window by {fold.how}")
            if fold.kind == STR and not (fold.how in (FIRST, LAST) and isinstance(fold.of, Argument)):
                raise NotVectorizable("makes text of the records of a window")
        if self._batch and any(_shows_order(fold, own, key) for fold, own in _with_own(folds, schema, aggregate)):
            raise NotVectorizable("shows the order of its records, which BATCH sorts by time")
        # The contents become Python objects when the window fires: what follows is given lists.
        fields = {name: getattr(spec, name) for name in WindowSpec.__dataclass_fields__}
        made = ColumnarWindow(
            **fields, traced_key=key, traced=traced, folds=folds, schema=schema, aggregate=aggregate
        )  # fmt: skip
        return _Found(made)


def _with_own(
    folds: tuple[Fold, ...], schema: RecordSchema, aggregate: Aggregate | None
) -> list[tuple[Fold, tuple[int, ...] | None]]:
    """Return each fold with the leaf of the first record that it begins with; ``None``: with a constant."""
    if aggregate is not None:
        return [(fold, None) for fold in folds]
    return [(fold, path) for fold, (path, _) in zip(folds, leaves_of(schema), strict=True)]


def _shows_order(fold: Fold, own: tuple[int, ...] | None, key: Traced) -> bool:
    """Whether a fold may give something else if the records of a key came in another order."""
    if fold.how == FIRST:
        return own is not None and key.result != Argument(0, own)
    if fold.how == LAST:
        return not isinstance(fold.of, Constant) and key.result != fold.of
    return fold.kind != INT or (own is not None and fold.of != Argument(0, own))


def _declares(connector: object, capability: str, method: str) -> bool:
    """Whether a capability was declared together with the method it is about, or for it: not before it was overridden."""
    found = next(vars(kind) for kind in type(connector).__mro__ if capability in vars(kind) or method in vars(kind))
    return capability in found


def _of_call(call: UserFunction, arguments: int) -> Traced:
    return trace(call.target, call.method, arguments)


def _key(call: UserFunction, schema: RecordSchema) -> Traced:
    traced = _of_call(call, 1)
    kind = schema_of(traced.result, schema)
    if kind not in (INT, STR):
        raise NotVectorizable(f"the key is no int or str, but {kind}")
    return traced


def _traced(function: Any, method: str, arguments: int) -> Traced:
    if isinstance(function, MethodType):
        owner, name = function.__self__, function.__name__
        if getattr(type(owner), name, None) is not function.__func__:
            raise NotVectorizable(f"{name} is no plain method")
        return trace(owner, name, arguments)
    return trace(function, None, arguments) if callable(function) else trace(function, method, arguments)


def _stamped(strategy: WatermarkStrategy, schema: RecordSchema) -> Traced | None:
    if strategy.generator is not None and not isinstance(strategy.generator, BoundedOutOfOrdernessSpec):
        raise NotVectorizable("its watermark generator sees every record")
    if strategy.assigner is None:
        return None
    traced = _traced(strategy.assigner, "extract_timestamp", 2)
    if schema_of(traced.result, schema, INT) != INT:
        raise NotVectorizable("its timestamps are no ints")
    return traced


RULE = Rule(_NAME, _apply)

__all__ = ["RULE", "VECTORIZED"]
