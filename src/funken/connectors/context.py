"""What a connector knows of the job it runs in: one context for readers and writers, one for committers.

The contexts are plain values and callables. A connector reads time from ``processing_time`` and from the arguments of its
methods, never from a clock of its own, so that it can be tested under a manual clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from funken.dataclass import dataclass
from funken.metrics.registry import MetricGroup


def _zero() -> int:
    return 0


def _nothing() -> None:
    """Do nothing: no task waits for the reader."""


@dataclass(frozen=True, slots=True)
class ConnectorContext:
    """Where a reader or writer runs.

    ``operator`` is the operator's name, ``operator_uid`` its stable id: its ``uid``, or one made of its place in the program.
    ``attempt`` counts the attempts of the job before this one. ``restored_checkpoint_id`` is the checkpoint that the attempt
    starts from, ``None`` if it starts from nothing. ``processing_time`` returns ms since the epoch. ``wake`` makes the task
    poll the reader at once; it may be called from any thread. ``checkpointing`` says whether the job takes checkpoints.

    >>> ConnectorContext("orders", subtask=1, parallelism=4, job_id="nightly", operator_uid="orders-v1")
    ConnectorContext(operator='orders', subtask=1, parallelism=4, job_id='nightly', operator_uid='orders-v1', attempt=0,
    restored_checkpoint_id=None)
    """

    operator: str
    subtask: int = 0
    parallelism: int = 1
    job_id: str = "local"
    operator_uid: str = ""
    attempt: int = 0
    restored_checkpoint_id: int | None = None
    metrics: MetricGroup = field(default_factory=MetricGroup, repr=False, compare=False)
    processing_time: Callable[[], int] = field(default=_zero, repr=False, compare=False)
    wake: Callable[[], None] = field(default=_nothing, repr=False, compare=False)
    checkpointing: bool = field(default=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """Where a committer runs: on the driver, one for each attempt of the job.

    ``checkpoint_interval`` is the time between checkpoints (ms), ``None`` if there are none.

    >>> CommitterContext("orders", job_id="nightly", operator_uid="orders-v1", attempt=2, restored_checkpoint_id=17)
    CommitterContext(operator='orders', parallelism=1, job_id='nightly', operator_uid='orders-v1', attempt=2,
    restored_checkpoint_id=17, checkpoint_interval=None)
    """

    operator: str
    parallelism: int = 1
    job_id: str = "local"
    operator_uid: str = ""
    attempt: int = 0
    restored_checkpoint_id: int | None = None
    checkpoint_interval: int | None = None


def declares(connector: object, capability: str, method: str) -> bool:
    """Whether a capability was declared together with the method it is about, or for it: not before it was overridden."""
    found = next(vars(kind) for kind in type(connector).__mro__ if capability in vars(kind) or method in vars(kind))
    return capability in found


__all__ = ["CommitterContext", "ConnectorContext", "declares"]
