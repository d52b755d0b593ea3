"""The messages between the workers of a batch job and the driver; what belongs to users is in them as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from funken.dataset.cluster.checkpoints import IterationCheckpoint
from funken.dataset.optimizer.physical import PhysicalNode
from funken.dataset.runtime.progress import Counts
from funken.runtime.messages import TaskCommand, TaskEvent


@dataclass(frozen=True)
class BatchProgram:
    """What every worker runs."""

    sinks: Sequence[PhysicalNode]
    width: int
    budget: int
    directories: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    checkpoints: str = ""
    """The folder for the checkpoints of this attempt."""
    restored: Mapping[int, IterationCheckpoint] = field(default_factory=dict)
    """Where iterations go on, by number."""


@dataclass(frozen=True, slots=True)
class PeerListening(TaskEvent):
    """The worker takes connections of its peers at this address."""

    address: tuple[str, int] = ("", 0)


@dataclass(frozen=True, slots=True)
class StartWorker(TaskCommand):
    """All workers listen, at these addresses by index: connect to them, and run."""

    addresses: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SinkBlock(TaskEvent):
    """A block for a sink whose format keeps everything in the driver; ``sink`` is its place in the program."""

    sink: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class SuperstepEnded(TaskEvent):
    """The worker has ended a superstep of an iteration; ``report`` is a serialised ``Report``."""

    iteration: int = 0
    report: bytes = b""


@dataclass(frozen=True, slots=True)
class SuperstepDecided(TaskCommand):
    """All workers have ended the superstep; ``decision`` is a serialised ``Next`` or ``StopSupersteps``."""

    iteration: int = 0
    decision: bytes = b""


@dataclass(frozen=True, slots=True)
class WorkerProgress(TaskEvent):
    """What the worker has done so far: the counts of its operators by their places in the plan, bytes spilled by operator."""

    counts: tuple[Counts, ...] = ()
    spilled: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerFinished(TaskEvent):
    """The worker has finished; ``accumulators`` is a serialised dict."""

    accumulators: bytes = b""
    spilled: int = 0
    spill_files: int = 0
    peak: int = 0
