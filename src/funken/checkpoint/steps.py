"""What the coordinator's state is made of: where the job is, where each checkpoint is, and what happened to it.

``PHASES`` and ``STEPS`` are the allowed transitions; ``machine.py`` makes them.
"""

from __future__ import annotations

import enum
from dataclasses import field

from funken.checkpoint.events import Handles, Outcome, RequestId, Stop, TaskKey
from funken.checkpoint.store.manifest import SnapshotKind
from funken.dataclass import dataclass
from funken.ids import CheckpointId, Millis

_NO_PAUSE, _TEN_MINUTES = Millis(0), Millis(600_000)
_STORIES = 200


class Phase(enum.Enum):
    """Where the job is, as far as checkpoints are concerned."""

    IDLE = "idle"  # no attempt runs
    RUNNING = "running"
    STOPPING = "stopping"  # with a savepoint
    FAILING = "failing"  # FailJob was commanded
    ENDING = "ending"  # the last checkpoint is complete and being committed
    OVER = "over"


class CheckpointStep(enum.Enum):
    """Where one checkpoint is."""

    PENDING = "pending"
    READY = "ready"
    STORING = "storing"
    COMPLETE = "complete"
    ABORTED = "aborted"


PHASES: dict[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.RUNNING, Phase.ENDING, Phase.OVER}),
    Phase.RUNNING: frozenset({Phase.STOPPING, Phase.FAILING, Phase.IDLE, Phase.ENDING, Phase.OVER}),
    Phase.STOPPING: frozenset({Phase.RUNNING, Phase.FAILING, Phase.IDLE, Phase.ENDING, Phase.OVER}),
    Phase.FAILING: frozenset({Phase.IDLE, Phase.ENDING, Phase.OVER}),
    Phase.ENDING: frozenset({Phase.OVER}),
    Phase.OVER: frozenset(),
}

STEPS: dict[CheckpointStep, frozenset[CheckpointStep]] = {
    CheckpointStep.PENDING: frozenset({CheckpointStep.READY, CheckpointStep.ABORTED}),
    CheckpointStep.READY: frozenset({CheckpointStep.STORING, CheckpointStep.ABORTED}),
    CheckpointStep.STORING: frozenset({CheckpointStep.COMPLETE, CheckpointStep.ABORTED}),
    CheckpointStep.COMPLETE: frozenset(),
    CheckpointStep.ABORTED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """When checkpoints begin, how long they may take, how many are kept; ``interval`` ``None``: on request only."""

    interval: Millis | None = None
    min_pause: Millis = _NO_PAUSE
    timeout: Millis = _TEN_MINUTES
    tolerable_failures: int = 0
    max_concurrent: int = 1
    retained: int = 1
    kept_after: frozenset[Outcome] = frozenset()
    exclusive: bool = False
    """Whether a savepoint, too, waits for what is under way: the barriers of unaligned checkpoints would overtake its own."""

    @property
    def concurrent(self) -> int:
        """How many may be under way: a minimum pause allows one only."""
        return 1 if self.min_pause > 0 or self.exclusive else self.max_concurrent


@dataclass(slots=True)
class Pending:
    """A checkpoint that is not complete."""

    id: CheckpointId
    kind: SnapshotKind
    started: Millis
    #: tasks that have not answered; the others are in ``acks`` or ``final``, never in both
    missing: set[TaskKey]
    #: tasks that had finished before they could answer, with their final state
    final: dict[TaskKey, Handles]
    #: those of them that are not to run again; all but the ones that a drain ended
    finished: set[TaskKey]
    stop: Stop | None = None
    target: str = ""
    requests: list[RequestId] = field(default_factory=list)
    acks: dict[TaskKey, Handles] = field(default_factory=dict)
    step: CheckpointStep = CheckpointStep.PENDING

    def move(self, step: CheckpointStep) -> None:
        """Go on to another step."""
        assert step in STEPS[self.step], f"checkpoint {self.id}: {self.step} -> {step}"
        self.step = step


class History:
    """What happened to the last few hundred checkpoints, a line per event."""

    def __init__(self) -> None:
        self._lines: dict[CheckpointId, list[tuple[Millis, str]]] = {}

    def note(self, checkpoint: CheckpointId, now: Millis, text: str) -> None:
        """Add a line; the oldest checkpoint is forgotten if there are too many."""
        if checkpoint not in self._lines and len(self._lines) >= _STORIES:
            del self._lines[next(iter(self._lines))]
        self._lines.setdefault(checkpoint, []).append((now, text))

    def of(self, checkpoint: CheckpointId) -> str:
        """Return the lines of one checkpoint."""
        lines = [f"{at:12} ms  {text}" for at, text in self._lines.get(checkpoint, [])]
        return "\n".join([f"checkpoint {checkpoint}", *(lines or ["    nothing is known of it"])])
