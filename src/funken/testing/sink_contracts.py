"""The contract test kit for sinks: checkpoints that are aborted or lost, killed writers, commits cut off and repeated."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.sink import CommitRequest, Committer, PreparedCommittable, Sink, SinkWriter
from funken.operators.coordinators.base import OperatorCoordinatorContext
from funken.operators.coordinators.committing import CommitCoordinator
from funken.testing.contracts import STEPS, DrawnRun


class _Cut(Exception):
    """The driver died during a commit."""


class _CuttingCommitter(Committer):
    """Commits only a part of the requests where that is drawn, and then the driver dies: before or after it has a reply."""

    def __init__(self, inner: Committer, cuts: Callable[[int], int | None]) -> None:
        self._inner, self._cuts = inner, cuts
        self.open, self.close, self.abort = inner.open, inner.close, inner.abort  # type: ignore[method-assign]

    def recover(self, requests: Sequence[CommitRequest]) -> None:
        self._cut(self._inner.recover, requests)

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        self._cut(self._inner.commit, requests)

    def _cut(self, work: Callable[[Sequence[CommitRequest]], None], requests: Sequence[CommitRequest]) -> None:
        kept = self._cuts(len(requests))
        if kept is None or kept == len(requests):
            work(requests)
        else:  # also in a recovery: who is given fewer requests there would fence the others
            self._inner.commit(requests[:kept])
        if kept is not None:
            raise _Cut


class _CutSink(Sink):
    def __init__(self, sink: Sink, cuts: Callable[[int], int | None]) -> None:
        self._sink, self._cuts = sink, cuts
        self.check = sink.check  # type: ignore[method-assign]

    def committer(self, context: CommitterContext) -> Committer | None:
        inner = self._sink.committer(context)
        return None if inner is None else _CuttingCommitter(inner, self._cuts)


@dataclass
class _Stored:
    """A complete checkpoint."""

    number: int
    prepared: list[PreparedCommittable]
    states: list[Any]
    written: int


def check_sink(
    make: Callable[[int], tuple[Sink, Callable[[], Iterable[Any]]]], *, record: Callable[[int], Any] = str, count: int = 60,
    seeds: int = 20, parallelism: int = 3, exactly_once: bool = True, keeps_back: bool = False,
) -> None:  # fmt: skip
    """Write ``count`` records with failures, once per seed; raise ``ContractViolation`` unless each is visible once.

    ``make(seed)`` returns a sink with an empty target, and what returns the records that readers of the target can see;
    ``record(n)`` is record ``n`` (hashable). With ``exactly_once`` nothing may be visible that is not committed, after any step;
    without it, records may be there several times. ``keeps_back``: what a checkpoint holds may become visible with a later one,
    or at the end.

    >>> from funken.connectors import Committer, Sink, SinkWriter
    >>> class Writer(SinkWriter):
    ...     def open(self):
    ...         self.rows = []
    ...     def write(self, values, timestamps, now):
    ...         self.rows += values
    ...     def prepare_commit(self, checkpoint_id, end_of_input):
    ...         rows, self.rows = self.rows, []
    ...         return [rows]
    >>> class Table(Sink, Committer):
    ...     def __init__(self):
    ...         self.committed = {}
    ...     def writer(self, context):
    ...         return Writer()
    ...     def committer(self, context):
    ...         return self
    ...     def commit(self, requests):
    ...         for request in requests:
    ...             self.committed[request.subtask, request.checkpoint_id] = request.committable
    ...     def rows(self):
    ...         return [row for rows in self.committed.values() for row in rows]
    >>> def make(seed):
    ...     table = Table()
    ...     return table, table.rows
    >>> check_sink(make)
    """
    for seed in range(seeds):
        sink, read = make(seed)
        _SinkRun(pickle.loads(pickle.dumps(sink)) if _travels(sink) else sink, read, DrawnRun(seed), record, count, parallelism,
                 exactly_once, keeps_back).run()  # fmt: skip


def _travels(sink: Sink) -> bool:
    return hasattr(type(sink), "__dataclass_fields__")


class _SinkRun:
    def __init__(
        self, sink: Sink, read: Callable[[], Iterable[Any]], drawn: DrawnRun, record: Callable[[int], Any], count: int,
        limit: int, exactly_once: bool, keeps_back: bool,
    ) -> None:  # fmt: skip
        self._sink, self._read, self._drawn = sink, read, drawn
        self._records = [record(number) for number in range(count)]
        self._limit, self._exactly_once, self._keeps_back = limit, exactly_once, keeps_back
        self._attempt = self._checkpoint = self._written = 0
        self._stored: _Stored | None = None
        self._pending: list[PreparedCommittable] = []
        self._cuts_left = 4
        self._killed: list[SinkWriter] = []
        """Writers whose processes are gone; what they hold is closed in the end."""
        self._begin()

    def _cut(self, requests: int) -> int | None:
        """Return how many requests are committed before the driver dies; ``None``: it lives."""
        if not self._cuts_left or self._drawn.chance.random() > 0.25:
            return None
        self._cuts_left -= 1
        kept = self._drawn.chance.randint(0, requests)
        self._drawn.story.append(f"the driver dies after {kept} of {requests} commits")
        return kept

    def _begin(self) -> None:
        """Begin an attempt: commit what the checkpoint holds, restore the writers, rewind the source."""
        stored, chance = self._stored, self._drawn.chance
        width = chance.randint(1, self._limit)
        restored = None if stored is None else stored.number
        self._drawn.story.append(f"attempt {self._attempt} from checkpoint {restored}, parallelism {width}")
        while True:
            context = OperatorCoordinatorContext("sink", width, "contract", "contract", "sink", self._attempt, restored)
            self._commits = CommitCoordinator(context, _CutSink(self._sink, self._cut))
            try:
                self._commits.recover(self._travelled(stored.prepared if stored else []))
                self._commits.start()
                break
            except _Cut:
                self._commits.close()  # a driver that died has no connections
                self._attempt += 1
        self._pending = []
        self._written = stored.written if stored else 0
        self._look("after the recovery")
        self._writers: list[SinkWriter] = []
        for subtask in range(width):
            writer = self._sink.writer(
                ConnectorContext("sink", subtask, width, "contract", "sink", self._attempt, restored)
            )
            states = (stored.states if stored else [])[subtask::width]
            if states:
                writer.restore_state(self._travelled(states))
            writer.open()
            self._writers.append(writer)

    @staticmethod
    def _travelled(data: list[Any]) -> list[Any]:
        copy: list[Any] = pickle.loads(pickle.dumps(data))
        return copy

    def run(self) -> None:
        """Write everything."""
        chance = self._drawn.chance
        while True:
            for _ in range(STEPS):
                if self._written == len(self._records):
                    break
                try:
                    if chance.random() < 0.3:
                        self._snapshot()
                    elif chance.random() < 0.08 and self._attempt < 8:
                        self._fail("killed")
                    else:
                        self._write()
                except _Cut:
                    self._fail("the driver died")
            try:
                self._finish()
                return
            except _Cut:
                self._fail("the driver died")

    def _write(self) -> None:
        chance = self._drawn.chance
        end = min(len(self._records), self._written + chance.randint(1, 6))
        chance.choice(self._writers).write(self._records[self._written : end], None, self._written)
        self._written = end
        self._look("before a commit")

    def _prepare(self, end_of_input: bool) -> list[Any]:
        self._checkpoint += 1
        states: list[Any] = []
        for subtask, writer in enumerate(self._writers):
            writer.flush(end_of_input)
            for committable in writer.prepare_commit(self._checkpoint, end_of_input):
                self._pending.append(PreparedCommittable("contract", self._checkpoint, subtask, committable))
            states += writer.snapshot_state(self._checkpoint)
        self._look("before a commit")
        return states

    def _snapshot(self) -> None:
        """A checkpoint: it completes, is aborted, or is lost with the attempt, before or after it was stored."""
        chance = self._drawn.chance
        states = self._prepare(end_of_input=False)
        fate = chance.choice(["complete", "complete", "complete", "aborted", "killed before", "killed after"])
        self._drawn.story.append(f"checkpoint {self._checkpoint}: {fate}, {self._written} records")
        if fate == "aborted":
            for writer in self._writers:
                writer.notify_checkpoint_aborted(self._checkpoint)
        elif fate == "killed before":
            self._fail("killed")
        else:
            self._stored = _Stored(
                self._checkpoint, self._travelled(self._pending), self._travelled(states), self._written
            )
            if fate == "killed after":
                self._fail("killed between prepare and commit")
                return
            self._commit()
            for writer in self._writers:
                writer.notify_checkpoint_complete(self._checkpoint)

    def _commit(self) -> None:
        assert self._stored is not None
        for _ in range(self._drawn.chance.choice([1, 1, 2])):
            self._commits.commit(self._travelled(self._stored.prepared))
        self._pending = []
        self._look("after a commit")

    def _finish(self) -> None:
        states = self._prepare(end_of_input=True)
        self._stored = _Stored(self._checkpoint, self._travelled(self._pending), self._travelled(states), self._written)
        for writer in self._writers:
            writer.close()
        self._commit()
        self._commits.close()
        self._look("at the end")
        for writer in self._killed:
            writer.close()
        self._look("when zombies have ended")

    def _look(self, when: str) -> None:
        """Compare what is visible with what was committed."""
        count = self._stored.written if self._stored else 0
        if self._exactly_once:
            there, wanted = Counter(self._read()), Counter(self._records[:count])
            if self._keeps_back and when not in ("at the end", "when zombies have ended"):
                wanted &= there
            self._drawn.compare(there.elements(), wanted.elements(), True, when)
        elif when in ("after a commit", "at the end"):
            lost = Counter(self._records[:count]) - Counter(self._read())
            if lost:
                self._drawn.compare(self._read(), self._records[:count], False, when)

    def _fail(self, why: str) -> None:
        self._drawn.story.append(f"attempt {self._attempt} fails: {why}")
        if self._drawn.chance.random() < 0.5:
            for writer in self._writers:
                writer.close()
        else:
            self._killed += self._writers
        self._commits.close()
        self._attempt += 1
        self._begin()


__all__ = ["check_sink"]
