"""Costs: network, disk and CPU, compared in this order. What depends on an unknown size counts as if that were 1 GB."""

from __future__ import annotations

from dataclasses import dataclass

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
