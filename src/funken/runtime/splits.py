"""Who reads what: the enumerators of a job's sources, and what they have handed out to whom in one attempt.

A subtask that begins again (Spark repeats tasks of a batch job) is given again what it was given before, nothing else. An
enumerator is asked by one thread at a time: once tasks run, whoever calls holds the master's lock. Only ``discover``, which
changes nothing, runs beside that (``discovery.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from funken.connectors.base import SplitEnumerator
from funken.connectors.rows import RowsEnumerator
from funken.errors import JobExecutionError
from funken.ids import OperatorId
from funken.runtime.messages import AddSplits, SplitsWanted


class Splits:
    """The splits of every source of one attempt."""

    def __init__(self, job: str, enumerators: Mapping[OperatorId, SplitEnumerator]) -> None:
        self._job = job
        self._enumerators = enumerators
        self._restored: dict[OperatorId, Any] = {}
        self._given: dict[tuple[int, int], list[Any]] = {}
        self._again: dict[tuple[int, int], list[Any]] = {}

    # ---- before anything runs

    def restore(self, snapshots: Mapping[OperatorId, Any]) -> None:
        """Let enumerators go on from snapshots instead of from the start."""
        self._restored = {operator: value for operator, value in snapshots.items() if operator in self._enumerators}

    def start(self) -> None:
        """Look at every source; raise what they raise."""
        for operator, enumerator in self._enumerators.items():
            if operator in self._restored:
                enumerator.restore(self._restored[operator])
            else:
                enumerator.start()

    def begin_micro_batch(self, number: int, own: bool) -> bool:
        """Say which rows are to be read; false if the checkpoint that the attempt starts from ends just that batch.

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
        """Return what has not been handed out."""
        return {operator: enumerator.snapshot() for operator, enumerator in self._enumerators.items()}

    def give(self, wanted: SplitsWanted) -> AddSplits:
        """Hand out the next splits of a source to one of its subtasks."""
        place = (wanted.operator, wanted.subtask)
        again = self._again.pop(place, None)
        if again:
            return AddSplits(*place, splits=tuple(again))
        splits = self._enumerators[OperatorId(wanted.operator)].next_splits(wanted.subtask)
        if splits:
            self._given.setdefault(place, []).extend(splits)
        return AddSplits(*place, splits=tuple(splits or ()), no_more=splits is None)

    def give_again(self, subtask: int) -> None:
        """A subtask of the sources has begun again: what it read is read again."""
        for place, splits in self._given.items():
            if place[1] == subtask:
                self._again[place] = splits

    def found(self, operator: OperatorId, found: Any) -> bool:
        """Let a source take over what a look for new splits has found; return whether there are any to hand out."""
        return self._enumerators[operator].add_discovered(found)
