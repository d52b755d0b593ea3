"""The plan as Flink's JSON: operators before chaining, with the names that PyFlink's own have."""

from __future__ import annotations

import json
from typing import Any

from funken.operators.user_functions import traits_of
from funken.plan.nodes import Hash, Node, NodeInput, StreamGraph
from funken.plan.physical import resolve

_NAMES = {"project": "Projection"}


def flink_json(graph: StreamGraph, parallelism: int, max_parallelism: int) -> str:
    """Return ``{"nodes": [...]}``; ``key_by`` has nodes of its own there."""
    plan = _Plan()
    for node in resolve(graph, parallelism, max_parallelism):
        plan.add(node)
    return json.dumps({"nodes": plan.nodes}, indent=2)


class _Plan:
    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self._ids: dict[int, int] = {}
        self._width: dict[int, int] = {}

    def add(self, node: Node) -> None:
        traits = traits_of(node.spec)
        sink = traits.sink
        width = node.parallelism or 1
        before = [self._predecessor(given, width, sink) for given in node.inputs]
        name = _NAMES.get(node.name, node.name)
        if traits.source is not None:
            kind, name = "Data Source", f"Source: {name}"
        else:
            kind, name = ("Data Sink", f"Sink: {name}") if sink else ("Operator", name)
        self._ids[node.id] = self._append(name, kind, node.description or name, width, before)
        self._width[node.id] = width

    def _predecessor(self, given: NodeInput, width: int, sink: bool) -> dict[str, Any]:
        upstream, strategy = self._ids[given.upstream], given.partitioning.label if given.partitioning else "FORWARD"
        if isinstance(given.partitioning, Hash):
            keys = [_edge(upstream, "FORWARD", 0)]
            upstream = self._operator("_stream_key_by_map_operator", self._width[given.upstream], keys)
            if sink:
                upstream = self._operator("_keyed_stream_values_operator", width, [_edge(upstream, "HASH", 0)])
                strategy = "FORWARD"
        return _edge(upstream, strategy, given.index)

    def _operator(self, name: str, width: int, before: list[dict[str, Any]]) -> int:
        return self._append(name, "Operator", name, width, before)

    def _append(self, name: str, kind: str, contents: str, width: int, before: list[dict[str, Any]]) -> int:
        node: dict[str, Any] = {"id": len(self.nodes) + 1, "type": name, "pact": kind, "contents": contents}
        node["parallelism"] = width
        if before:
            node["predecessors"] = before
        self.nodes.append(node)
        return len(self.nodes)


def _edge(upstream: int, strategy: str, index: int) -> dict[str, Any]:
    return {"id": upstream, "ship_strategy": strategy, "side": "first" if index else "second"}
