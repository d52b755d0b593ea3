"""The coordinator of a source: which subtask has which splits, new splits, and watermark alignment.

A subtask that begins again (Spark repeats tasks of a batch job) is assigned what it was assigned before, nothing else. The
enumerator is called by one thread at a time; only its ``discover``, which changes nothing, runs on the worker thread: it may
list folders or ask a service. What it found and nobody took over when a checkpoint begins is not part of the checkpoint, and is
found again by a job that starts from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from funken.connectors.base import Source
from funken.connectors.dataframe import RowsEnumerator
from funken.dataclass import dataclass
from funken.errors import JobExecutionError
from funken.ids import MAX_WATERMARK
from funken.operators.coordinators.base import OperatorCoordinator, OperatorCoordinatorContext

# ---- What source operators and their coordinators send each other: the payloads of their events.


@dataclass(frozen=True, slots=True)
class RequestSplits:
    """To the coordinator: the subtask requests more splits; ``all_read``: it has read those that it was given."""

    all_read: bool = True


@dataclass(frozen=True, slots=True)
class ReportWatermark:
    """To the coordinator: the subtask has reached ``watermark`` (``MAX_WATERMARK``: it is idle or has ended)."""

    watermark: int


@dataclass(frozen=True, slots=True)
class AddSplits:
    """To a subtask: it is assigned splits; ``no_more``: none will follow."""

    splits: tuple[Any, ...] = ()
    no_more: bool = False


@dataclass(frozen=True, slots=True)
class SplitsDiscovered:
    """To every subtask: there are new splits to request."""


@dataclass(frozen=True, slots=True)
class AlignWatermark:
    """To a subtask: pause while the watermark is above ``allowed``."""

    allowed: int


# ---- Watermark alignment: which source subtasks of a group are too far ahead (Flink's ``SourceCoordinator``).
#
# Every subtask reports its watermark; each may read on until it is more than its own drift ahead of the slowest. A
# subtask that is idle or has ended reports ``MAX_WATERMARK`` and holds no other back. A group may have the subtasks
# of several sources.


_Member = tuple[str, int]
_SHARED = "watermark alignment"


class WatermarkAlignment:
    """The groups of one attempt; ``send(subtask, payload)`` reaches the subtasks of one source.

    >>> alignment = WatermarkAlignment()
    >>> def send(subtask, payload):
    ...     print(subtask, payload)
    >>> alignment.reached("g", ("slow", 0), 100, drift=50, send=send)
    0 AlignWatermark(allowed=150)
    >>> alignment.reached("g", ("fast", 1), 900, drift=20, send=send)
    0 AlignWatermark(allowed=150)
    1 AlignWatermark(allowed=120)
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[_Member, tuple[int, int, Callable[[int, Any], None]]]] = {}

    @staticmethod
    def of(shared: dict[str, Any]) -> WatermarkAlignment:
        """Return the one that all coordinators of an attempt share."""
        alignment: WatermarkAlignment = shared.setdefault(_SHARED, WatermarkAlignment())
        return alignment

    def reached(
        self, group: str, member: _Member, watermark: int, drift: int, send: Callable[[int, Any], None]
    ) -> None:
        """Take the watermark of a member (uid of its source, subtask); tell every member how far it may go."""
        members = self._groups.setdefault(group, {})
        members[member] = (watermark, drift, send)
        slowest = min(watermark for watermark, _, _ in members.values())
        for (_, subtask), (_, allowance, reach) in members.items():
            reach(subtask, AlignWatermark(min(MAX_WATERMARK, slowest + allowance)))


logger = logging.getLogger(__name__)

SLOW_MILLIS = 60_000
"""A look for new splits that takes longer is warned of."""


class SourceCoordinator(OperatorCoordinator):
    """The driver's half of one source in one attempt; ``alignment`` is that of its watermark strategy.

    >>> from funken import NumberSequenceSource
    >>> sent = []
    >>> context = OperatorCoordinatorContext("numbers", send_event=lambda subtask, payload: sent.append(payload))
    >>> coordinator = SourceCoordinator(context, NumberSequenceSource(1, 4))
    >>> coordinator.start()
    >>> coordinator.handle_event(0, RequestSplits())
    >>> coordinator.handle_event(0, RequestSplits())
    >>> [(len(event.splits), event.no_more) for event in sent]
    [(1, False), (0, True)]
    """

    def __init__(
        self, context: OperatorCoordinatorContext, source: Source, alignment: tuple[str, int, int] | None = None
    ) -> None:
        super().__init__(context)
        self.enumerator = source.enumerator(context.parallelism)
        self._alignment = alignment
        self._restored: tuple[Any] | None = None
        self._assigned: dict[int, list[Any]] = {}
        self._reassigned: dict[int, list[Any]] = {}
        self._next_look: int | None = None
        self._look_began: int | None = None
        self._warned = False

    # ---- life

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: Any) -> None:
        """Let the enumerator resume from its snapshot."""
        self._restored = state

    def start(self) -> None:
        """Start the enumerator, or restore it; raises what it raises."""
        if self._restored is None:
            self.enumerator.start()
        else:
            self.enumerator.restore(self._restored[0])

    def checkpoint(self, checkpoint_id: int) -> tuple[Any]:
        """Return the snapshot of the enumerator, which may be ``None``."""
        return (self.enumerator.snapshot(),)

    def begin_micro_batch(self, number: int, own: bool) -> bool:
        """Set which rows are to be read; false if the checkpoint that the attempt starts from ends with that batch.

        ``own``: it is a checkpoint of this very job, else the first batch begins. Raises if batches are missing.
        """
        if not isinstance(self.enumerator, RowsEnumerator):
            return True
        self.enumerator.batch = number
        before = self._restored[0] if own and self._restored is not None else -1
        if before + 1 != number and before != number:
            raise JobExecutionError(
                f"job {self.context.job_name!r} is given micro-batch {number}, but its newest checkpoint is of batch "
                f"{before}: Spark's log of offsets and the checkpoints do not belong together. Put the missing "
                "checkpoint back, or start with another execution.job-id (from a checkpoint, with "
                "execution.state-recovery.path)."
            )
        return bool(before != number)

    # ---- splits

    def handle_event(self, subtask: int, payload: Any) -> None:
        """Assign splits to a subtask that requests some; align its watermark with the others of its group."""
        match payload:
            case RequestSplits(all_read):
                if all_read and subtask not in self._reassigned:
                    self.enumerator.splits_read(subtask)
                self._assign(subtask)
            case ReportWatermark(watermark) if self._alignment is not None:
                group, drift, _ = self._alignment
                alignment = WatermarkAlignment.of(self.context.shared)
                member = (self.context.operator_uid, subtask)
                alignment.reached(group, member, watermark, drift, self.context.send_event)

    def _assign(self, subtask: int) -> None:
        again = self._reassigned.pop(subtask, None)
        if again:
            self.context.send_event(subtask, AddSplits(tuple(again)))
            return
        splits = self.enumerator.next_splits(subtask)
        if splits:
            self._assigned.setdefault(subtask, []).extend(splits)
        self.context.send_event(subtask, AddSplits(tuple(splits or ()), no_more=splits is None))

    def subtask_failed(self, subtask: int) -> None:
        """A subtask begins again: it is assigned its former splits."""
        if subtask in self._assigned:
            self._reassigned[subtask] = self._assigned[subtask]

    def metrics(self) -> dict[str, int | float]:
        """Return how many splits subtasks were given, and how many wait."""
        waiting = self.enumerator.unassigned_splits()
        found: dict[str, int | float] = {"enumerator.assignedSplits": sum(map(len, self._assigned.values()))}
        return found if waiting is None else found | {"enumerator.unassignedSplits": waiting}

    # ---- discovery

    def tick(self, now: int) -> None:
        """Look for new splits when it is time to, one look at a time."""
        interval = self.enumerator.discovery_interval
        if interval is None:
            return
        if self._next_look is None:
            self._next_look = now + interval
        if self._look_began is not None:
            self._warn_if_slow(now)
        elif now >= self._next_look:
            self._next_look, self._look_began, self._warned = now + interval, now, False
            self.context.worker.call_async(lambda: self._look(now), self._found)

    def _look(self, now: int) -> Any:
        try:
            return self.enumerator.discover(now)
        except JobExecutionError:
            raise
        except Exception as error:
            name = self.context.operator
            raise JobExecutionError(
                f"source {name!r} failed when it looked for new splits: {type(error).__name__}: {error}", operator=name
            ) from error

    def _found(self, found: Any) -> None:
        self._look_began = None
        if found is not None and self.enumerator.add_discovered(found):
            for subtask in range(self.context.parallelism):
                self.context.send_event(subtask, SplitsDiscovered())

    def _warn_if_slow(self, now: int) -> None:
        assert self._look_began is not None
        if not self._warned and now - self._look_began >= SLOW_MILLIS:
            self._warned = True
            logger.warning(
                "job %r: source %r has been looking for new splits for %d s, and finds none meanwhile. Is what it lists slow, or "
                "not reachable?", self.context.job_name, self.context.operator, (now - self._look_began) // 1000,
            )  # fmt: skip


__all__ = [
    "AddSplits",
    "AlignWatermark",
    "ReportWatermark",
    "RequestSplits",
    "SourceCoordinator",
    "SplitsDiscovered",
    "WatermarkAlignment",
]
