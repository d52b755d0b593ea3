"""Declared types in a program: where they are put, and what type a stream is known to have.

A declaration is a field of the node of the operator whose results it describes; ``plan/rules/declared_types.py`` acts on it.
A stream's type is found by looking at the operators it comes from, through those that pass records on as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from funken.operators.tags import OutputTag
from funken.operators.traits import traits_of
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
        stream._environment.graph.change(stream._node("a declared type").id, output_type=type_info)
    return stream


def typed_side(stream: DataStream[Any], output_tag: OutputTag[Any]) -> None:
    """Declare the type of a side output of the stream's operator, if the tag has one."""
    type_info = None if isinstance(output_tag.type_info, type) else declared(output_tag.type_info)
    if type_info is not None:
        graph, node = stream._environment.graph, stream._node("get_side_output()")
        sides = dict(node.side_types) | {output_tag.tag_id: type_info}
        graph.change(node.id, side_types=tuple(sides.items()))


def type_of(stream: StreamEnds[Any]) -> TypeInformation | None:
    """Return the declared type of a stream's records, if they have one."""
    return _common(stream._environment.graph, stream._inputs)


def _common(graph: StreamGraph, inputs: Iterable[NodeInput]) -> TypeInformation | None:
    types = [_of_input(graph, given) for given in inputs]
    return types[0] if types and all(one == types[0] for one in types) else None


def _of_input(graph: StreamGraph, given: NodeInput) -> TypeInformation | None:
    node = graph[given.upstream]
    if given.side is not None:
        return dict(node.side_types).get(given.side)
    if node.output_type is not None:
        return node.output_type
    traits = traits_of(node.spec)
    return _common(graph, node.inputs) if traits.keeps_type else traits.output_type
