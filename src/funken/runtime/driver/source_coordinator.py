"""The splits of a job's sources: their enumerators, and which subtask was assigned which splits in one attempt.

A subtask that begins again (Spark retries tasks of a batch job) is assigned what it was assigned before, nothing else. An
enumerator is called by one thread at a time: once tasks run, the caller holds the master's lock. Only ``discover``, which
changes nothing, runs beside that (``discovery.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from funken.connectors.base import SplitEnumerator
from funken.connectors.dataframe import RowsEnumerator
from funken.errors import JobExecutionError
from funken.ids import OperatorId
from funken.runtime.messages import AddSplits, SplitsRequested


class SourceCoordinator:
    """The splits of every source of one attempt."""

    def __init__(self, job: str, enumerators: Mapping[OperatorId, SplitEnumerator]) -> None:
        self._job = job
        self._enumerators = enumerators
        self._restored: dict[OperatorId, Any] = {}
        self._assigned: dict[tuple[int, int], list[Any]] = {}
        self._reassigned: dict[tuple[int, int], list[Any]] = {}

    # ---- before anything runs

    def restore(self, snapshots: Mapping[OperatorId, Any]) -> None:
        """Restore the enumerators from snapshots."""
        self._restored = {operator: value for operator, value in snapshots.items() if operator in self._enumerators}

    def start(self) -> None:
        """Start every enumerator; raises what they raise."""
        for operator, enumerator in self._enumerators.items():
            if operator in self._restored:
                enumerator.restore(self._restored[operator])
            else:
                enumerator.start()

    def begin_micro_batch(self, number: int, own: bool) -> bool:
        """Set which rows are to be read; false if the checkpoint that the attempt starts from ends with that batch.

        ``own``: it is a checkpoint of this very job, else the first batch begins. Raises if batches are missing.
        """
        for operator, enumerator in self._enumerators.items():
            if isinstance(enumerator, RowsEnumerator):
                enumerator.batch = number
                before = self._restored.get(operator, -1) if own else -1
                if before + 1 != number and before != number:
                    raise JobExecutionError(
                        f"job {self._job!r} is given micro-batch {number}, but its newest checkpoint is of batch "
                        f"{before}: Spark's log of offsets and the checkpoints do not belong together. Put the missing "
                        "checkpoint back, or start with another execution.job-id (from a checkpoint, with "
                        "execution.state-recovery.path)."
                    )
                return bool(before != number)
        return True

    # ---- while the tasks run

    def snapshot(self) -> dict[OperatorId, Any]:
        """Return the snapshots of the enumerators."""
        return {operator: enumerator.snapshot() for operator, enumerator in self._enumerators.items()}

    def assign(self, wanted: SplitsRequested) -> AddSplits:
        """Assign the next splits of a source to one of its subtasks."""
        place = (wanted.operator, wanted.subtask)
        again = self._reassigned.pop(place, None)
        if again:
            return AddSplits(*place, splits=tuple(again))
        splits = self._enumerators[OperatorId(wanted.operator)].next_splits(wanted.subtask)
        if splits:
            self._assigned.setdefault(place, []).extend(splits)
        return AddSplits(*place, splits=tuple(splits or ()), no_more=splits is None)

    def assign_again(self, subtask: int) -> None:
        """A source subtask has begun again: it is assigned its former splits."""
        for place, splits in self._assigned.items():
            if place[1] == subtask:
                self._reassigned[place] = splits

    def found(self, operator: OperatorId, found: Any) -> bool:
        """Let a source take over what a look for new splits has found; return whether there are any to hand out."""
        return self._enumerators[operator].add_discovered(found)
