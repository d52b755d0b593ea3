"""Edges: what the consumers of an edge read, and the seam to whatever connects them with its producers.

``LocalExchanges`` (``local.py``) connects tasks of this process, those of several processes are connected by
``dataset/cluster/exchange.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from funken.dataset.columns.block import put_together
from funken.dataset.exchange.routers import Router
from funken.dataset.memory.blocks import Block, Blocks
from funken.dataset.memory.buffers import BlockQueue
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Column, Order

FULL = 512
"""Small blocks are put together until they have so many records."""


@dataclass(frozen=True)
class EdgeUse:
    """One use of an edge of a plan: ``number`` names it in every process of the job, ``operator`` is the one that reads it."""

    number: int
    superstep: int
    operator: str
    producers: int
    consumers: int


@dataclass(frozen=True)
class Routed:
    """Each producer deals its blocks out by a router of its own."""

    router: Callable[[int], Router]


@dataclass(frozen=True)
class Ranged:
    """Each consumer gets a range of keys, whose bounds are sampled; ``check`` raises if the key of a record cannot be used."""

    order: Order
    check: Column


@dataclass(frozen=True)
class Everything:
    """One consumer in each process gets the blocks of all producers, in their order."""


Partitioning = Routed | Ranged | Everything
"""What the consumers of an edge get."""


def full_block(queue: BlockQueue) -> Block:
    """Take a block of a queue, and as many more as make a full one."""
    blocks = [queue.get()]
    records = len(blocks[0])
    while records < FULL and len(queue):
        blocks.append(queue.get())
        records += len(blocks[-1])
    return put_together(blocks)


class EdgeReceiver(Protocol):
    """The consumers' side of a connected edge."""

    def receive(self, consumer: int) -> Blocks:
        """Return the blocks for a consumer of this process."""

    def close(self) -> None:
        """Drop what was not read."""


class Exchanges(Protocol):
    """Connects the producers of an edge with its consumers; only those of this process are given."""

    def connect(
        self,
        edge: EdgeUse,
        producers: Mapping[int, Blocks],
        partitioning: Partitioning,
        share: Callable[[int], Share],
    ) -> EdgeReceiver:
        """Connect; ``share`` makes memory for a subtask."""

    def spawn(self, name: str, run: Callable[[], None]) -> None:
        """Run beside everything else what nobody in this process reads."""

    def settle(self, receivers: Sequence[Any]) -> None:
        """Wait until the producers of connected edges have emitted everything; whatever else is among them is left alone."""
