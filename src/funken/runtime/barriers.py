"""A task's part in a checkpoint, from the trigger or the first barrier until all its vertices are cut, or it is given up.

Each vertex is cut when its barrier passes (``cut``); what has been cut is handed to ``deliver`` once every vertex has been,
or has ended, and all of it is pickled (``slice``). A barrier that overtakes records has its vertex cut at once, but the cut
counts only when all of these records are written down (``take``, ``hand_in``). The barriers of a savepoint say where it goes,
and a vertex that is cut for one that stops the job stands *still* from then on, unless it is given up. Without checkpoints no
barrier comes, and nothing happens.

It has no guard of its own: the task calls it where an exception is blamed on the operator that raised it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable
from functools import partial

from funken.checkpoint.events import Stop
from funken.ids import MAX_WATERMARK, CheckpointId
from funken.operators.base import Timestamps, Values
from funken.plan.physical import PhysicalPlan
from funken.runtime.hosting import Hosted, Hosting, give_back
from funken.runtime.inflight import OVERTAKES, Channel, Recorder
from funken.runtime.messages import Savepoint
from funken.runtime.slicing import Slicing
from funken.runtime.snapshots import CheckpointPlan, Cuts, Snapshots
from funken.runtime.wire import Header

Work = tuple[Hosted, Header, Values, Timestamps]
"""A block, or a piece of one, that waits for its vertex."""


class Barriers:
    """The barriers of one task; ``work`` is what waits in it, ``over`` says whether a vertex has ended."""

    def __init__(
        self, plan: PhysicalPlan, checkpoints: CheckpointPlan | None, subtask: int, hosting: Hosting, work: Iterable[Work],
        over: Callable[[Hosted], bool], now: Callable[[], int], monotonic: Callable[[], float],
        deliver: Callable[[Cuts], None] | None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._hosted = hosting.hosted
        self._names = hosting.names
        self._savepoints = hosting.savepoints
        self._work = work
        self._over = over
        self.slicing = Slicing()
        """What was cut and is not pickled to its end, and what waits for that to be handed over."""
        self._snapshots: Snapshots | None = None
        if checkpoints is not None:
            self.slicing = Slicing(deliver, monotonic, checkpoints.options.slice_rows)
            self._snapshots = Snapshots(checkpoints, plan.stable_ids, subtask, self.slicing)
        self.overtake_after = None if checkpoints is None else checkpoints.overtake_after
        """After how many ms of alignment barriers overtake records (0: at once), ``None``: never."""
        self.cut_by: dict[int, set[int]] = {}
        """The vertices that have been cut, by the checkpoints that others are yet to be cut for."""
        self.recording: list[Hosted] = []
        """Vertices where something is written down that a barrier overtakes."""
        self.still: dict[int, int] = {}
        """Vertices that do nothing any more, since they were cut for the savepoint that the job is stopped with."""
        for hosted in self._hosted.values():
            if self._snapshots is not None:
                hosted.chain.snapshot = partial(self._cut, self._snapshots, hosted)
            if self.overtake_after is not None and hosted.gate is not None:
                firm, overtake = hosting.firm(hosted.vertex), partial(self._overtake, hosted)
                hosted.gate.let_overtake(firm, overtake, now, self.overtake_after)

    # ---- at the start

    def restore(self) -> None:
        """Give every operator what it starts from; before they are opened."""
        for hosted in self._hosted.values():
            if self._snapshots is not None:
                watermark = self._snapshots.restore(hosted.chain)
                if watermark is not None and hosted.gate is not None:
                    hosted.gate.combined = watermark

    def give_back(self, take: Callable[[Hosted, Header, Values, Timestamps], None]) -> None:
        """Put what was in flight on its way again; once all operators are open."""
        if self._snapshots is not None:
            for hosted in self._hosted.values():
                give_back(hosted, self._plan, self._names, self._snapshots.in_flight(hosted.chain), take)

    # ---- barriers

    @property
    def awaited(self) -> bool:
        """Whether some barriers of an unaligned checkpoint have come, and others have not."""
        return bool(self.recording) or (
            self.overtake_after is not None
            and any(hosted.gate is not None and hosted.gate.aligning for hosted in self._hosted.values())
        )

    def trigger(self, checkpoint: int, savepoint: Savepoint | None, sources: Iterable[Hosted]) -> None:
        """Begin at the sources: each is cut, and a barrier follows its records."""
        if savepoint is not None:
            self._savepoints[checkpoint] = savepoint
        for hosted in sources:
            if savepoint is not None and savepoint.stop is Stop.DRAIN:
                hosted.chain.watermark(MAX_WATERMARK)
            if savepoint is None and self.overtake_after == 0:
                self._overtake(hosted, checkpoint, ())
            hosted.chain.barrier(checkpoint)
        self.hand_in()

    def read(self, checkpoint: int, details: bytes) -> bool:
        """Note what the block of a barrier says besides its number; return whether it overtakes."""
        if details == OVERTAKES:
            return True
        if details:
            self._savepoints[checkpoint] = pickle.loads(details)
        return False

    def announce(self, hosted: Hosted, head: Header, overtakes: bool) -> None:
        """A barrier was received, perhaps behind records that are yet to be handled."""
        if self.overtake_after is not None and head.number not in self._savepoints:
            assert hosted.gate is not None
            hosted.gate.announce((head.edge, head.upstream), head.number, overtakes)
            self.hand_in()

    def take(self, hosted: Hosted, head: Header, values: Values, timestamps: Timestamps) -> None:
        """Something was received while there is ``recording``: write it down if a barrier has overtaken it."""
        if hosted.recorder is not None:
            hosted.recorder.take(head, values, timestamps)
            self.hand_in()

    def hand_in(self) -> None:
        """Complete the cuts of vertices where everything is written down that the barrier has overtaken."""
        for hosted in [each for each in self.recording if each.recorder and not each.recorder.waiting]:
            self.recording.remove(hosted)
            recorder = hosted.recorder
            assert recorder is not None and self._snapshots is not None
            if not recorder.void and self._snapshots.add_in_flight(
                hosted.chain, CheckpointId(recorder.checkpoint), recorder.by_operator(self._plan.edges, self._names)
            ):
                self.cut_by.setdefault(recorder.checkpoint, set()).add(hosted.vertex.id)
                self.deliver_if_all_cut()

    def _overtake(self, hosted: Hosted, checkpoint: int, waiting: Collection[Channel]) -> None:
        """A vertex is about to be cut before the barriers of these channels were handled, or even received."""
        recorder = hosted.recorder = Recorder(checkpoint, waiting)
        for other, head, values, timestamps in self._work if waiting else ():
            if other is hosted:
                recorder.take(head, values, timestamps)
        if hosted not in self.recording:
            self.recording.append(hosted)

    # ---- cuts

    def _cut(self, snapshots: Snapshots, hosted: Hosted, checkpoint: int) -> None:
        savepoint = self._savepoints.get(checkpoint)
        if savepoint is not None and savepoint.stop is not None:
            if savepoint.stop is Stop.DRAIN:
                hosted.chain.drain(hosted.gate.inputs if hosted.gate else 0)
            self.still[hosted.vertex.id] = checkpoint
        snapshots.cut(hosted.chain, CheckpointId(checkpoint))
        if hosted.recorder is None or hosted.recorder.checkpoint != checkpoint:  # else what is in flight is missing yet
            self.cut_by.setdefault(checkpoint, set()).add(hosted.vertex.id)
            self.deliver_if_all_cut()

    def deliver_if_all_cut(self) -> None:
        """Hand over the checkpoints that every vertex has cut; one that has ended is cut as it is."""
        for checkpoint, done in sorted(self.cut_by.items()):
            missing = [hosted for number, hosted in self._hosted.items() if number not in done]
            if all(self._over(hosted) for hosted in missing):
                assert self._snapshots is not None
                for hosted in missing:
                    self._snapshots.cut(hosted.chain, CheckpointId(checkpoint), ended=True)
                for older in [number for number in self.cut_by if number <= checkpoint]:
                    del self.cut_by[older]
                savepoint = self._savepoints.get(checkpoint)
                for older in [number for number in self._savepoints if number < checkpoint]:
                    del self._savepoints[older]  # this one is still needed: its barrier is yet to be passed on
                self.slicing.deliver(self._snapshots.take(CheckpointId(checkpoint), savepoint))

    def slice(self, worked: bool) -> None:
        """Pickle a little of what was cut and is not pickled yet; ``worked``: after records."""
        if self.slicing.open:
            self.slicing.worked |= worked
            self.slicing.turn()

    def complete(self, checkpoint: int) -> None:
        """A checkpoint is complete: what sinks prepared for it is committed."""
        if self._snapshots is not None:
            self._snapshots.complete(CheckpointId(checkpoint))

    def give_up(self, checkpoint: int) -> None:
        """A checkpoint will not be completed: wait for nothing more of it, and let the vertices go on."""
        self._savepoints.pop(checkpoint, None)
        self.still = {vertex: by for vertex, by in self.still.items() if by != checkpoint}
        self.recording = [each for each in self.recording if each.recorder and each.recorder.checkpoint != checkpoint]
        if self._snapshots is not None:
            self.cut_by.pop(checkpoint, None)
            self._snapshots.give_up(CheckpointId(checkpoint))
        for hosted in self._hosted.values():
            if hosted.gate is not None:
                hosted.gate.give_up(checkpoint)

    def last(self) -> Cuts | None:
        """Cut every vertex for the last time, now that all have ended; ``None`` without checkpoints."""
        if self._snapshots is None:
            return None
        self.hand_in()  # the end of a channel may have been all that a cut waited for
        checkpoint = self._snapshots.last
        for hosted in self._hosted.values():
            self._snapshots.cut(hosted.chain, checkpoint, final=True)
        self.slicing.finish()  # there is nothing else to do any more
        return self._snapshots.take(checkpoint, final=True)
