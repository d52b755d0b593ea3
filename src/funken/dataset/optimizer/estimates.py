"""Estimates of records and bytes behind every operator, from what sources, hints and samples say. None is unknown."""

from __future__ import annotations

from funken.dataset.plan import nodes
from funken.dataset.plan.nodes import Kind, Node, Statistics

FILTER_KEEPS = 0.5
FLAT_MAP_EMITS = 5.0
KEYS_PER_RECORD = 0.1


class Estimates:
    """The estimates of a program's nodes, each computed once."""

    def __init__(self) -> None:
        self._known: dict[int, Statistics] = {}

    def of(self, node: Node) -> Statistics:
        """Return the estimate for a node; what the program declared goes before what is derived."""
        if id(node) not in self._known:
            derived = self._derive(node)
            own = node.statistics
            records = derived.records if own.records is None else own.records
            size = own.size
            if size is None:
                size = derived.size
                if own.records is not None and derived.records and size is not None:
                    size = size / derived.records * own.records
            self._known[id(node)] = Statistics(records, size)
        return self._known[id(node)]

    def set(self, node: Node, statistics: Statistics) -> None:
        """Set what a placeholder of an iteration stands for."""
        self._known[id(node)] = statistics

    def _derive(self, node: Node) -> Statistics:
        inputs = [self.of(parent) for parent in node.inputs]
        match node:
            case nodes.SourceNode():
                found: Statistics = node.format.statistics()
                return found
            case nodes.Apply(kind=Kind.FILTER):
                return _scaled(inputs[0], FILTER_KEEPS)
            case nodes.Apply(kind=Kind.FLAT_MAP):
                return _scaled(inputs[0], FLAT_MAP_EMITS)
            case nodes.Reduce(key=None) | nodes.GroupReduce(key=None):
                width = _width(inputs[0])
                return Statistics(1, width)
            case nodes.Reduce() | nodes.GroupReduce():
                return _scaled(inputs[0], KEYS_PER_RECORD)
            case nodes.Union():
                return Statistics(_sum([each.records for each in inputs]), _sum([each.size for each in inputs]))
            case nodes.Cross():
                records = _product(inputs[0].records, inputs[1].records)
                return Statistics(records, _product(records, _sum([_width(each) for each in inputs])))
            case nodes.Join() | nodes.CoGroupNode():
                known = [each.records for each in inputs if each.records is not None]
                most = max(known) if len(known) == 2 else None
                return Statistics(most, _product(most, _sum([_width(each) for each in inputs])))
            case _:
                return inputs[0] if inputs else Statistics()


def _scaled(given: Statistics, factor: float) -> Statistics:
    return Statistics(_product(given.records, factor), _product(given.size, factor))


def _width(given: Statistics) -> float | None:
    return given.size / given.records if given.size is not None and given.records else None


def _sum(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other
