"""Costs, estimates, properties of data, strategies and requirements of operators.

Costs: network, disk and CPU, compared in this order. What depends on an unknown size counts as if that were 1 GB.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from funken.dataset.plan import nodes
from funken.dataset.plan.keys import Key, Ordering, SortField
from funken.dataset.plan.nodes import Forwarded, Kind, Node, Statistics, backward_key, forward, walk

HEURISTIC_SIZE = 1e9


@dataclass(frozen=True)
class Costs:
    """Bytes over the network, bytes to and from disk, and units of CPU; ``certain`` if no size in them was guessed.

    >>> Costs(network=1) < Costs(disk=5), Costs(disk=1, cpu=9) < Costs(disk=2)
    (False, True)
    """

    network: float = 0.0
    disk: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Costs) -> Costs:
        return Costs(self.network + other.network, self.disk + other.disk, self.cpu + other.cpu)

    def __mul__(self, weight: float) -> Costs:
        return Costs(self.network * weight, self.disk * weight, self.cpu * weight)

    def __lt__(self, other: Costs) -> bool:
        return (self.network, self.disk, self.cpu) < (other.network, other.disk, other.cpu)

    def __str__(self) -> str:
        return f"network {self.network:,.0f}, disk {self.disk:,.0f}, cpu {self.cpu:,.0f}"


FREE = Costs()


def _size(size: float | None) -> float:
    return HEURISTIC_SIZE if size is None else size


def partition(size: float | None) -> Costs:
    """Return the costs of a hash, custom or random partitioning."""
    return Costs(network=_size(size))


def range_partition(size: float | None) -> Costs:
    """Return the costs of a range partitioning: a tenth is sampled, all of it is written and read again."""
    return Costs(network=1.1 * _size(size), disk=0.2 * _size(size))


def broadcast(size: float | None, parallelism: int) -> Costs:
    """Return the costs of a copy for every task; an unknown input counts ten times, so that it is never broadcast."""
    return Costs(network=parallelism * size if size is not None else 10 * parallelism * HEURISTIC_SIZE)


def sort(size: float | None) -> Costs:
    """Return the costs of sorting."""
    return Costs(disk=2 * _size(size), cpu=9 * _size(size))


def hash_aggregation(size: float | None) -> Costs:
    """Return the costs of a table of aggregates: less than a sort, as only aggregates are kept."""
    return Costs(disk=_size(size), cpu=4 * _size(size))


def cached_hash(build: float | None, probe: float | None, weight: float) -> Costs:
    """Return the costs of a hash join in a loop whose build side stays, divided by the weight of the loop."""
    work = 2 * _size(build) / weight + _size(probe)
    return Costs(disk=work, cpu=4 * work)


def nested_loops(outer_blocks: float, inner: float | None) -> Costs:
    """Return the costs of reading one side once per block of the other."""
    return Costs(disk=outer_blocks * _size(inner), cpu=outer_blocks * _size(inner))


# ---- Estimates of records and bytes behind every operator, from what sources, hints and samples say. None is
# unknown.


FILTER_KEEPS = 0.5
FLAT_MAP_EMITS = 5.0
KEYS_PER_RECORD = 0.1


class Estimates:
    """The estimates of a program's nodes, each computed once."""

    def __init__(self) -> None:
        self._known: dict[int, Statistics] = {}

    def of(self, node: Node) -> Statistics:
        """Return the estimate for a node; the program's declaration goes before derived figures."""
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
        """Set the statistics of a placeholder of an iteration."""
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


# ---- What is known of how the records of a plan lie: over tasks (global), and within one (local).
#
# A property is only claimed if it holds for certain: a function forgets those whose fields it may change.


class Spread(enum.Enum):
    """The distribution of records over tasks."""

    RANDOM = "RANDOM"
    HASH = "HASH"
    RANGE = "RANGE"
    CUSTOM = "CUSTOM"
    REPLICATED = "FULL_REPLICATION"
    SINGLE = "SINGLE"


@dataclass(frozen=True)
class GlobalProperties:
    """The spread, and the key that decides it; of a custom one also the partitioner."""

    spread: Spread = Spread.RANDOM
    key: Key | None = None
    by: Any = None

    def keeps_together(self, key: Key) -> bool:
        """Return True if records with equal keys are in one task."""
        if self.spread is Spread.SINGLE:
            return True
        if self.spread not in {Spread.HASH, Spread.RANGE, Spread.CUSTOM} or self.key is None:
            return False
        if not (self.key.transparent and key.transparent):
            return self.key == key
        return set(self.key.paths) <= set(key.paths)

    def after(self, forwarded: Forwarded, side: int = 0) -> GlobalProperties:
        """Return the rest of it behind a function."""
        if self.key is None:
            return self
        if not self.key.transparent:
            return self if (side, (), ()) in forwarded else GlobalProperties()
        paths = [forward(path, forwarded, side) for path in self.key.paths]
        if None in paths:
            return GlobalProperties()
        return GlobalProperties(self.spread, Key(tuple(path for path in paths if path is not None)), self.by)

    def __str__(self) -> str:
        return f"{self.spread.value}({self.key})" if self.key else self.spread.value


ANYWHERE = GlobalProperties()


@dataclass(frozen=True)
class LocalOrder:
    """The order within a task: by fields, or by the key of a selector; empty if there is none."""

    fields: Ordering = ()
    grouped: Key | None = None

    def groups(self, key: Key) -> bool:
        """Return True if records with equal keys follow one another."""
        if self.grouped is not None and self.grouped == key:
            return True
        if not key.transparent:
            return False
        first = self.fields[: len(key.paths)]
        return len(first) == len(key.paths) and {field.path for field in first} == set(key.paths)

    def sorted_by(self, key: Key, ordering: Ordering) -> bool:
        """Return True if records are sorted ascending by exactly this key, and then by this order."""
        if not key.transparent or any(field.selector for field in ordering):
            return False
        wanted = (*(SortField(path) for path in key.paths), *ordering)
        return self.fields[: len(wanted)] == wanted

    def after(self, forwarded: Forwarded, side: int = 0) -> LocalOrder:
        """Return the rest of it behind a function: the fields up to the first that is lost."""
        kept: list[SortField] = []
        for field in self.fields:
            path = None if field.selector else forward(field.path, forwarded, side)
            if path is None:
                break
            kept.append(SortField(path, field.descending))
        return LocalOrder(tuple(kept))

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields)) or (f"grouped by {self.grouped}" if self.grouped else "none")


UNORDERED = LocalOrder()


def ascending(key: Key) -> Ordering:
    """Return the order by the fields of a key.

    >>> ", ".join(map(str, ascending(Key(((0,), (1,))))))
    '0 ASC, 1 ASC'
    """
    return tuple(SortField(path) for path in key.paths)


# ---- What the optimizer chooses among: how records travel, how an input is prepared, how an operator works.


class Ship(enum.Enum):
    """The way of records from the tasks of one operator to those of the next."""

    FORWARD = "FORWARD"
    PARTITION_HASH = "PARTITION_HASH"
    PARTITION_RANGE = "PARTITION_RANGE"
    PARTITION_CUSTOM = "PARTITION_CUSTOM"
    PARTITION_RANDOM = "PARTITION_RANDOM"
    PARTITION_FORCED_REBALANCE = "PARTITION_FORCED_REBALANCE"
    BROADCAST = "BROADCAST"


class Local(enum.Enum):
    """The local preparation of an input before the driver sees it."""

    NONE = "NONE"
    SORT = "SORT"
    COMBININGSORT = "COMBININGSORT"


class Temp(enum.Enum):
    """The storage of an input: none, or a cache."""

    NONE = "NONE"
    CACHED = "CACHED"


class DriverStrategy(enum.Enum):
    """The algorithm of an operator. Flink's names; ``HASHED_REDUCE`` is the final half of ``HASHED_PARTIAL_REDUCE``."""

    SOURCE = "SOURCE"
    MAP = "MAP"
    FLAT_MAP = "FLAT_MAP"
    FILTER = "FILTER"
    MAP_PARTITION = "MAP_PARTITION"
    NO_OP = "NO_OP"
    ALL_REDUCE = "ALL_REDUCE"
    ALL_GROUP_REDUCE = "ALL_GROUP_REDUCE"
    ALL_GROUP_COMBINE = "ALL_GROUP_COMBINE"
    SORTED_REDUCE = "SORTED_REDUCE"
    HASHED_REDUCE = "HASHED_REDUCE"
    HASHED_PARTIAL_REDUCE = "HASHED_PARTIAL_REDUCE"
    SORTED_PARTIAL_REDUCE = "SORTED_PARTIAL_REDUCE"
    SORTED_GROUP_REDUCE = "SORTED_GROUP_REDUCE"
    SORTED_GROUP_COMBINE = "SORTED_GROUP_COMBINE"
    MERGE = "MERGE"
    HYBRIDHASH_BUILD_FIRST = "HYBRIDHASH_BUILD_FIRST"
    HYBRIDHASH_BUILD_SECOND = "HYBRIDHASH_BUILD_SECOND"
    HYBRIDHASH_BUILD_FIRST_CACHED = "HYBRIDHASH_BUILD_FIRST_CACHED"
    HYBRIDHASH_BUILD_SECOND_CACHED = "HYBRIDHASH_BUILD_SECOND_CACHED"
    CO_GROUP = "CO_GROUP"
    NESTEDLOOP_BLOCKED_OUTER_FIRST = "NESTEDLOOP_BLOCKED_OUTER_FIRST"
    NESTEDLOOP_BLOCKED_OUTER_SECOND = "NESTEDLOOP_BLOCKED_OUTER_SECOND"
    UNION = "UNION"
    SINK = "SINK"
    PLACEHOLDER = "PLACEHOLDER"
    BULK_ITERATION = "BULK_ITERATION"
    DELTA_ITERATION = "DELTA_ITERATION"
    SOLUTION_SET_LOOKUP_FIRST = "SOLUTION_SET_LOOKUP_FIRST"
    SOLUTION_SET_LOOKUP_SECOND = "SOLUTION_SET_LOOKUP_SECOND"
    SOLUTION_SET_CO_GROUP_FIRST = "SOLUTION_SET_CO_GROUP_FIRST"
    SOLUTION_SET_CO_GROUP_SECOND = "SOLUTION_SET_CO_GROUP_SECOND"


HASH_JOINS = {
    DriverStrategy.HYBRIDHASH_BUILD_FIRST,
    DriverStrategy.HYBRIDHASH_BUILD_SECOND,
    DriverStrategy.HYBRIDHASH_BUILD_FIRST_CACHED,
    DriverStrategy.HYBRIDHASH_BUILD_SECOND_CACHED,
}
NEEDS_MEMORY = HASH_JOINS | {
    DriverStrategy.HASHED_REDUCE,
    DriverStrategy.HASHED_PARTIAL_REDUCE,
    DriverStrategy.MERGE,
    DriverStrategy.NESTEDLOOP_BLOCKED_OUTER_FIRST,
    DriverStrategy.NESTEDLOOP_BLOCKED_OUTER_SECOND,
}
"""Drivers that keep records; they have a share of the managed memory each."""


# ---- Interesting properties: by which keys the consumers of a node would like its records to be partitioned.


MOST = 4
"""More wishes than these for one node are not followed: each multiplies the plans."""


class Interests:
    """The wishes, by node.

    A wish passes up through a function that forwards the fields of its key, renamed as they were before it.
    """

    def __init__(self, roots: Iterable[Node], given: dict[int, list[Key]] | None = None) -> None:
        self._wishes: dict[int, list[Key]] = dict(given or {})
        for node in reversed(list(walk(roots))):
            for side, parent in enumerate(node.inputs):
                for key in self._wanted(node, side):
                    wishes = self._wishes.setdefault(id(parent), [])
                    if key not in wishes and len(wishes) < MOST:
                        wishes.append(key)

    def of(self, node: Node) -> list[Key]:
        """Return the keys by which the records of a node would be of use to its consumers."""
        return self._wishes.get(id(node), [])

    def _wanted(self, node: Node, side: int) -> list[Key]:
        match node:
            case nodes.Reduce(key=Key() as key) | nodes.GroupReduce(key=Key() as key):
                return [key]
            case nodes.Join() | nodes.CoGroupNode():
                return [node.keys[side]]
            case nodes.Partition():
                return []
        passed = (backward_key(key, node.forwarded, side) for key in self.of(node))
        return [key for key in passed if key is not None]
