"""Another parallelism for a job that runs: a checkpoint, then another attempt that starts from it.

The new plan is made before anything stops, so that a parallelism that is not possible is refused while the job runs. If there
are too few slots for the attempt, or its state cannot be distributed so, the job goes back to the parallelism that it had.
Operators whose parallelism the program sets keep it. While a job is being rescaled it cannot be rescaled again.

What may want that is whoever operates the job, or ``Elasticity``: it observes slots and load, and does what its machine
(``runtime/job/scaling.py``) decides.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import (
    CheckpointIncompatible,
    EnvironmentNotReady,
    InvalidProgram,
    JobExecutionError,
    RescaleDue,
    TooFewTaskSlots,
)
from funken.ids import Millis
from funken.plan.physical import PhysicalPlan
from funken.plan.rules.stage import RewriteStage
from funken.runtime.job.scaling import Begun, ChangeScale, LoadObserved, Refused, ScalingMachine, ScalingSettings
from funken.runtime.job.vertex_metrics import SubtaskMetrics

logger = logging.getLogger(__name__)

_LOOK_MS = 1_000
_UNBOUNDED = 1 << 30
_NEVER = 1 << 31

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


class Elasticity:
    """The parallelism of one job as slots and load have it; ``rescale`` begins a change, ``recompile`` plans one.

    Called by the thread that runs the job, and by callbacks of the changes that it began.
    """

    def __init__(
        self, name: str, configuration: Configuration, stage: RewriteStage, recompile: Recompile,
        rescale: Callable[[int], Future[int]], now: Callable[[], Millis],
    ) -> None:  # fmt: skip
        self._name = name
        self._recompile = recompile
        self._now = now
        self._limits = {node.id: node.max_parallelism for node in stage.compiled.nodes}
        one, other = (recompile(each).compiled.nodes for each in (1, 2))
        #: the ids of the nodes whose parallelism is not the program's choice
        self._scalable = frozenset(a.id for a, b in zip(one, other, strict=True) if a.parallelism != b.parallelism)
        settings = ScalingSettings.of(configuration, self._parallelism(stage.compiled))
        assert settings is not None
        self._settings = settings
        self._rescale = rescale
        self._machine = ScalingMachine(settings)
        self._lock = threading.Lock()
        self._next = 0
        self._slots: dict[int, int] = {}

    def begun(self, plan: PhysicalPlan) -> None:
        """All tasks of an attempt run."""
        self._tell(Begun(self._parallelism(plan)))

    def _parallelism(self, plan: PhysicalPlan) -> int:
        return max((node.parallelism or 1 for node in plan.nodes if node.id in self._scalable), default=1)

    def look(self, plan: PhysicalPlan, metrics: Mapping[tuple[int, int], SubtaskMetrics], slots: int | None) -> None:
        """Look at the job, which runs, and begin a change if that is due.

        ``slots``: how many its session has; ``None``: as many as are wanted.
        """
        busy, pressed = load_of(plan, metrics, self._scalable)
        possible = self.possible(slots)
        command = self._tell(LoadObserved(possible, busy, pressed))
        if command is None:
            return
        logger.warning("job %r: goes on with parallelism %d: %s", self._name, command.parallelism, command.reason)
        try:
            begun = self._rescale(command.parallelism)
        except InvalidProgram as error:  # another change is under way, or there are too few key groups
            self._refused(error)
        else:
            begun.add_done_callback(self._done)

    def _done(self, future: Future[int]) -> None:
        error = future.exception()
        if error is not None:
            self._refused(error)

    def _refused(self, error: BaseException) -> None:
        logger.warning("job %r keeps its parallelism: %s", self._name, error)
        self._tell(Refused())

    def _tell(self, event: LoadObserved | Begun | Refused) -> ChangeScale | None:
        with self._lock:
            return self._machine.handle(event, self._now())

    def due(self) -> bool:
        """Return whether it is time to look again."""
        now = self._now()
        if now < self._next:
            return False
        self._next = now + _LOOK_MS
        return True

    def possible(self, slots: int | None) -> int:
        """Return the highest parallelism within the bounds for which so many slots suffice; 0 if not even the lowest does."""
        low, high = self._settings.lowest - 1, self._settings.highest
        while low < high:  # the number of slots rises with the parallelism
            middle = (low + high + 1) // 2
            if self._needed(middle) <= (_UNBOUNDED if slots is None else slots):
                low = middle
            else:
                high = middle - 1
        return low if low >= self._settings.lowest else 0

    def fitting(self, former: RewriteStage, error: BaseException) -> RewriteStage | None:
        """Return the stage for fewer slots, if an attempt could not begin for lack of them; ``None`` if that is not possible."""
        if not isinstance(error, TooFewTaskSlots) or not error.available:
            return None
        parallelism = self.possible(error.available)
        if not parallelism or self._needed(parallelism) >= former.plan().slots:
            return None
        stage = self._recompile(parallelism)
        logger.warning(
            "job %r: begins with parallelism %d, there are %d slots", self._name, parallelism, error.available
        )
        return stage

    def _needed(self, parallelism: int) -> int:
        """Return how many slots a parallelism takes; ``_NEVER`` for one that the job's key groups do not allow."""
        if parallelism not in self._slots:
            try:
                stage = self._recompile(parallelism)
            except InvalidProgram:
                self._slots[parallelism] = _NEVER
            else:
                kept = all(self._limits[node.id] == node.max_parallelism for node in stage.compiled.nodes)
                self._slots[parallelism] = stage.plan().slots if kept else _NEVER
        return self._slots[parallelism]


def load_of(
    plan: PhysicalPlan, metrics: Mapping[tuple[int, int], SubtaskMetrics], scalable: Collection[int]
) -> tuple[float, float]:
    """Return how busy the busiest vertex of scalable nodes is, and how far the sources are held back.

    Both are shares, and means of the subtasks of a vertex.
    """
    busy = pressed = 0.0
    for vertex in plan.vertices:
        found = [metrics[vertex.id, each] for each in range(vertex.parallelism) if (vertex.id, each) in metrics]
        if not found:
            continue
        if any(node.id in scalable for node in vertex.nodes):
            busy = max(busy, sum(each.busy_ms_per_second for each in found) / len(found) / 1000)
        if vertex.stage == 0:
            pressed = max(pressed, sum(each.back_pressured_ms_per_second for each in found) / len(found) / 1000)
    return busy, pressed
