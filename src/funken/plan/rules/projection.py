"""Projection: the fields that a source of columns has to read, as later functions use them.

From the source on, a record is followed as long as it is the same: through filters, timestamps and exchanges to the functions
that make something else of it. They have been traced, so the fields that they look at are known. Who takes a record whole, such
as a sink, a running reduce, or an operator that works on single records, wants all fields.

A function may change while a job runs, if a variable that it uses does. Then it might look at other fields. So those that run
in the source's task are guards: the source asks before each block whether they still are what was traced, and if not, reads all
fields from then on. Such a function behind an exchange wants all fields from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from operator import getitem
from types import MappingProxyType
from typing import Any, cast

from funken.columnar.declared import Aggregate
from funken.columnar.expressions import Argument, Expression, Loop, Rowwise
from funken.columnar.tracing import Traced
from funken.columnar.typed.inference import TracedFlatMap
from funken.columnar.typed.operations import ITEMS
from funken.dataclass import dataclass
from funken.expr.types import ListOf, Type, atomic_fields, has_documents, name_of
from funken.ids import OperatorId
from funken.operators.columnar.specs import (
    ColumnarKeyed,
    ColumnarMap,
    ColumnarProcess,
    ColumnarSource,
    ColumnarTimestamps,
    ColumnarWindow,
    FunctionOnColumns,
)
from funken.operators.process.one_input import process_call
from funken.operators.user_functions import UserFunction, call_of
from funken.operators.window.contents import Aggregated
from funken.plan.columnar_edges import ColumnarHash
from funken.plan.columns.functions import gives_documents, with_fields
from funken.plan.nodes import Node, NodeInput
from funken.plan.physical import Edge, PhysicalPlan, RuleNote
from funken.plan.rules.base import Rewritten, Rule, RuleContext, with_nodes

_NAME = "projection"

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


def _apply(plan: PhysicalPlan, context: RuleContext) -> Rewritten:
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
            notes.append(RuleNote(_NAME, "reads all fields", node.id))
            return node
        items = dict(found.items)
        names = [_name(spec.schema, leaves[number], items.get(number)) for number in found.fields]
        text = f"reads {len(names)} of {len(leaves)} fields" + (f": {', '.join(names)}" if names else "")
        notes.append(RuleNote(_NAME, text, node.id))
        if isinstance(spec, ColumnarMap):
            return replace(node, spec=replace(spec, traced=with_fields(spec.traced, found.fields), guards=found.guards))
        return replace(node, spec=replace(spec, wanted=found.fields, guards=found.guards, items=found.items))

    return with_nodes(plan, project), notes


RULE = Rule(_NAME, _apply)
