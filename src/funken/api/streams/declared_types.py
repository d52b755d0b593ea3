"""Declared types in a program: where they are put, and what type a stream is known to have.

A declaration belongs to the operator whose results it describes; a stream's type is found by looking at the operators
it comes from, through those that pass records on as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from funken.operators.converting import Converting
from funken.operators.process.keyed_map import KeyedMap, ResultKind
from funken.operators.rolling import RollingReduce
from funken.operators.source import SourceSpec
from funken.operators.stateless import Filter
from funken.operators.tags import OutputTag
from funken.operators.timestamps import TimestampsAndWatermarks
from funken.operators.window.contents import Reduced
from funken.operators.window.spec import WindowSpec
from funken.plan.graph import StreamGraph
from funken.plan.nodes import NodeInput
from funken.types.generics import R
from funken.types.info import TypeInformation, declared

if TYPE_CHECKING:
    from funken.api.streams.sinks import StreamEnds
    from funken.api.streams.stream import DataStream


def typed(stream: DataStream[R], output_type: TypeInformation | None) -> DataStream[R]:
    """Declare the type of an operator's results; ``None`` declares nothing.

    >>> from funken.testing import local
    >>> from funken.types import Types
    >>> numbers = local([40_000]).map(lambda x: x, output_type=Types.SHORT())
    >>> numbers.get_type(), numbers.execute_and_collect(limit=1)
    (Short, [-25536])
    """
    type_info = declared(output_type)
    if type_info is not None:
        graph, node = stream._environment.graph, stream._node("a declared type")
        wrapped = node.spec if isinstance(node.spec, Converting) else Converting(node.spec)
        graph.change(node.id, spec=replace(wrapped, type_info=type_info))
    return stream


def typed_side(stream: DataStream[Any], output_tag: OutputTag[Any]) -> None:
    """Declare the type of a side output of the stream's operator, if the tag has one."""
    type_info = declared(output_tag.type_info)
    if type_info is not None:
        graph, node = stream._environment.graph, stream._node("get_side_output()")
        wrapped = node.spec if isinstance(node.spec, Converting) else Converting(node.spec)
        graph.change(node.id, spec=wrapped.with_side(output_tag.tag_id, type_info))


def type_of(stream: StreamEnds[Any]) -> TypeInformation | None:
    """Return the declared type of a stream's records, if they have one."""
    return _common(stream._environment.graph, stream._inputs)


def _common(graph: StreamGraph, inputs: Iterable[NodeInput]) -> TypeInformation | None:
    types = [_of_input(graph, given) for given in inputs]
    return types[0] if types and all(one == types[0] for one in types) else None


def _of_input(graph: StreamGraph, given: NodeInput) -> TypeInformation | None:
    node = graph[given.upstream]
    spec: Any = node.spec
    if given.side is not None:
        return dict(spec.sides).get(given.side) if isinstance(spec, Converting) else None
    if isinstance(spec, Converting):
        if spec.type_info is not None:
            return spec.type_info
        spec = spec.spec
    if isinstance(spec, SourceSpec):
        return spec.type_info
    return _common(graph, node.inputs) if _passes_on(spec) else None


def _passes_on(spec: Any) -> bool:
    """Whether an operator's results are of the type of its input."""
    if isinstance(spec, WindowSpec):
        return spec.function is None and isinstance(spec.contents, Reduced)
    if isinstance(spec, KeyedMap):
        return spec.kind is ResultKind.FILTER
    return isinstance(spec, Filter | TimestampsAndWatermarks | RollingReduce) or getattr(spec, "passes_on", False)
