"""Another parallelism for a job that runs: a checkpoint, then another attempt that starts from it.

The new plan is made before anything stops, so that a parallelism that is not possible is refused while the job runs. If there
are too few slots for the attempt, or its state cannot be distributed so, the job goes back to the parallelism that it had.
Operators whose parallelism the program sets keep it. While a job is being rescaled it cannot be rescaled again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from funken.errors import (
    CheckpointIncompatible,
    EnvironmentNotReady,
    InvalidProgram,
    JobExecutionError,
    RescaleDue,
)
from funken.plan.rules.stage import RewriteStage

Recompile = Callable[[int], RewriteStage]


@dataclass(slots=True)
class RescaleRequest:
    """One change of the parallelism; ``begun``: the attempt with it has been made."""

    parallelism: int
    stage: RewriteStage
    former: RewriteStage
    future: Future[int]
    begun: bool = False


class Rescaling:
    """The changes of the parallelism of one job, one at a time; thread-safe."""

    def __init__(self, name: str, recompile: Recompile | None) -> None:
        self._name = name
        self._recompile = recompile
        self._lock = threading.Lock()
        self._current: RescaleRequest | None = None

    def prepare(self, parallelism: int, former: RewriteStage) -> RescaleRequest:
        """Plan a change; raises ``InvalidProgram`` if it is not possible, or another is under way."""
        if self._recompile is None:
            raise InvalidProgram(
                f"job {self._name!r} cannot be rescaled while it runs: it has no checkpoints, or a runner that makes its own "
                "attempts. Stop it, and start it with another parallelism."
            )
        stage = self._recompile(parallelism)
        self._check(stage, former)
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._current is not None:
                raise InvalidProgram(
                    f"job {self._name!r} is being rescaled to {self._current.parallelism} already; wait until that is done."
                )
            self._current = RescaleRequest(parallelism, stage, former, future)
            return self._current

    def _check(self, stage: RewriteStage, former: RewriteStage) -> None:
        """Refuse what the job's checkpoints cannot be distributed to."""
        limits = {node.id: node.max_parallelism for node in former.compiled.nodes}
        for node in stage.compiled.nodes:
            if node.max_parallelism != limits[node.id]:
                raise InvalidProgram(
                    f"job {self._name!r}: operator {node.name!r} has {limits[node.id]} key groups, so its parallelism cannot be "
                    f"{node.parallelism}. A job keeps the maximum parallelism that it began with."
                )

    def saved(self, rescale: RescaleRequest, made: Future[str], fail: Callable[[JobExecutionError], None]) -> None:
        """The checkpoint is complete, or has failed: let the attempt end, or give the change up."""
        error = made.exception()
        if error is not None:
            self.give_up(JobExecutionError(f"job {self._name!r} is not rescaled: {error}"))
        else:
            fail(RescaleDue(f"the job goes on with parallelism {rescale.parallelism}"))

    def begin(self) -> RewriteStage | None:
        """Return what the next attempt is planned with, if that changes."""
        with self._lock:
            if self._current is None or self._current.begun or self._current.future.done():
                return None
            self._current.begun = True
            return self._current.stage

    def started(self) -> None:
        """All tasks of an attempt run."""
        with self._lock:
            current = self._current
            if current is None or not current.begun:
                return
            self._current = None
        current.future.set_result(current.parallelism)

    def revert(self, error: BaseException) -> RewriteStage | None:
        """Return the stage to go back to, if an attempt with another parallelism could not begin: slots or state forbid it."""
        with self._lock:
            current = self._current
            if (
                current is None
                or not current.begun
                or not isinstance(error, EnvironmentNotReady | CheckpointIncompatible)
            ):
                return None
        self.give_up(error)
        return current.former

    def give_up(self, error: BaseException) -> None:
        """The change under way is not made."""
        with self._lock:
            current, self._current = self._current, None
        if current is not None:
            current.future.set_exception(error)
