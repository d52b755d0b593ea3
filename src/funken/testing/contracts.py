"""The contract test kit for sources and sinks: runs them through failures, and counts records.

Each run is drawn from a seed, so it can be repeated: parallelism, the size of blocks, checkpoints that complete, are aborted or
are lost, restores at another parallelism, commits that are cut off, repeated, or begin in another process. No job runs and
nothing sleeps, but for a reader that promised to wake its task.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from funken.connectors.base import (
    Batch,
    CommitterContext,
    ConnectorContext,
    NeedSplits,
    Source,
    SourceReader,
    SplitEnumerator,
    Wait,
)
from funken.connectors.sink import CommitRequest, Committer, PreparedCommittable, Sink, SinkWriter
from funken.operators.coordinators import CommitCoordinator, OperatorCoordinatorContext
from funken.timing.clock import came

STEPS = 20_000
_WAKE_SECONDS, _LATE_SECONDS = 30.0, 0.02


class ContractViolation(AssertionError):
    """A connector does not keep its contract; the message names the lost or doubled records, and the run.

    >>> from funken import NumberSequenceSource
    >>> try:
    ...     check_source(NumberSequenceSource(1, 3), [1, 2], seeds=1)
    ... except ContractViolation as violation:
    ...     print(str(violation).partition(";")[0])
    seed 0, at the end: lost none, too many 1 (3 x 1)
    """


@dataclass
class DrawnRun:
    """One run: its seed, and its events, for the message of a violation."""

    seed: int
    story: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def compare(self, found: Iterable[Any], expected: Iterable[Any], exactly_once: bool, when: str) -> None:
        """Raise if records are lost, or doubled, or not expected at all."""
        there, wanted = Counter(found), Counter(expected)
        lost, doubled = wanted - there, there - wanted
        if lost or (doubled and exactly_once) or there.keys() - wanted.keys():
            told = "\n  ".join(self.story[-20:])
            raise ContractViolation(
                f"seed {self.seed}, {when}: lost {_few(lost)}, too many {_few(doubled)}; before:\n  {told}"
            )


def _few(counts: Counter[Any]) -> str:
    if not counts:
        return "none"
    some = ", ".join(f"{value!r} x {count}" for value, count in counts.most_common(5))
    return f"{counts.total()} ({some}{', ...' if len(counts) > 5 else ''})"


# ---- sources


def check_source(
    source: Source, expected: Iterable[Any], *, seeds: int = 20, parallelism: int = 3, fails: Callable[[], None] | None = None
) -> None:  # fmt: skip
    """Read a source to its end, with failures, once per seed; raise ``ContractViolation`` unless each record came once.

    ``expected`` are its records (hashable, in any order). An unbounded source is read until they are there. ``fails`` is called
    before each poll and may raise, as I/O that fails does: the attempt ends, and the next starts from the last checkpoint.

    >>> from funken import CollectionSource
    >>> check_source(CollectionSource(["a", "b", "c"]), ["a", "b", "c"])
    >>> check_source(CollectionSource(["a", "b"]), ["a", "b", "c"], seeds=1)
    Traceback (most recent call last):
    ...
    funken.testing.contracts.ContractViolation: seed 0, at the end: lost 1 ('c' x 1), too many none; before:
    ...
    """
    wanted = list(expected)
    limit = min(parallelism, source.max_parallelism or parallelism)
    for seed in range(seeds):
        run = _SourceRun(source, DrawnRun(seed), limit, len(wanted), fails)
        try:
            run.drawn.compare(run.read_all(), wanted, True, "at the end")
        finally:
            run.close()


class _SourceRun:
    def __init__(
        self, source: Source, drawn: DrawnRun, limit: int, count: int, fails: Callable[[], None] | None
    ) -> None:
        self.drawn = drawn
        self._source, self._limit, self._count = source, limit, count
        self._fails = fails or (lambda: None)
        self._bounded = source.boundedness.value == "bounded"
        self._woken = threading.Event()
        self._now = self._attempt = self._checkpoint = self._idle = 0
        self._stored: tuple[int, bytes, list[Any]] | None = None
        self._found: list[Any] = []
        self._killed: list[SourceReader] = []
        self._begin()

    def _begin(self) -> None:
        """Begin an attempt: from the last complete checkpoint, if there is one."""
        drawn, stored = self.drawn, self._stored
        width = drawn.chance.randint(1, self._limit)
        self._enumerator: SplitEnumerator = self._source.enumerator(width)
        restored = None if stored is None else stored[0]
        drawn.story.append(f"attempt {self._attempt} from checkpoint {restored}, parallelism {width}")
        splits: list[Any] = []
        if stored is None:
            self._enumerator.start()
            self._found = []
        else:
            enumerator, of_readers = pickle.loads(stored[1])
            self._enumerator.restore(enumerator)
            splits = [split for one in of_readers for split in one]
            self._found = list(stored[2])
        self._readers: list[SourceReader] = []
        self._running = list(range(width))
        for subtask in range(width):
            reader = self._source.reader(
                ConnectorContext(
                    "source", subtask, width, "contract", "source", self._attempt, restored,
                    processing_time=lambda: self._now, wake=self._woken.set, checkpointing=True,
                )
            )  # fmt: skip
            self._readers.append(reader)
            reader.open()
            if splits[subtask::width]:
                reader.add_splits(splits[subtask::width])

    def read_all(self) -> list[Any]:
        """Read to the end."""
        chance = self.drawn.chance
        for _ in range(STEPS):
            if not self._running or (not self._bounded and len(self._found) >= self._count and self._idle > 20):
                return self._found
            try:
                if chance.random() < 0.1:
                    self._snapshot()
                elif chance.random() < 0.05 and self._attempt < 5:
                    self._fail("killed", close=chance.random() < 0.5)
                else:
                    self._fails()
                    self._poll(chance.choice(self._running))
            except ContractViolation:
                raise
            except Exception as error:
                if self._attempt >= 50:
                    raise ContractViolation(
                        f"seed {self.drawn.seed}: 50 attempts failed, the last by {error!r}"
                    ) from error
                self._fail(repr(error), close=True)
        raise ContractViolation(
            f"seed {self.drawn.seed}: {len(self._found)} records were read in {STEPS} steps, without an end"
        )

    def _poll(self, subtask: int) -> None:
        reader, chance = self._readers[subtask], self.drawn.chance
        limit = chance.randint(1, 7)
        got = reader.poll(limit, self._now)
        ended = reader.split_finished()
        self._idle += 1
        match got:
            case Batch():
                if got.split and got.split in ended:
                    raise ContractViolation(f"split {got.split!r} has finished with a batch of it under way")
                self._found += got.values
                self._idle = 0
            case Wait(millis=None) if not self._bounded and len(self._found) >= self._count:
                came(self._woken, _LATE_SECONDS)  # nothing is to come; what does is one too many
                self._woken.clear()
            case Wait(millis=None):
                alone = len(self._running) == 1  # else another one may have something, and have woken before
                if not came(self._woken, _WAKE_SECONDS if alone else _LATE_SECONDS) and alone:
                    raise ContractViolation(
                        f"the reader returned Wait(None), and woke nobody for {_WAKE_SECONDS:.0f} s"
                    )
                self._woken.clear()
            case Wait():
                self._now += max(1, got.millis or 0)
            case NeedSplits():
                self._look()
                self._enumerator.splits_read(subtask)
                splits = self._enumerator.next_splits(subtask)
                if splits is None:
                    self._running.remove(subtask)
                elif splits:
                    reader.add_splits(pickle.loads(pickle.dumps(splits)))

    def _look(self) -> None:
        if self._enumerator.discovery_interval is not None:
            self._now += self._enumerator.discovery_interval
            found = self._enumerator.discover(self._now)
            if found is not None:
                self._enumerator.add_discovered(found)

    def _snapshot(self) -> None:
        self._checkpoint += 1
        number, chance = self._checkpoint, self.drawn.chance
        state = pickle.dumps((self._enumerator.snapshot(), [one.snapshot_state(number) for one in self._readers]))
        completes = chance.random() < 0.8
        self.drawn.story.append(
            f"checkpoint {number} {'completes' if completes else 'is aborted'}, {len(self._found)} records"
        )
        if completes:
            self._stored = number, state, list(self._found)
        if chance.random() < 0.8:  # else the notification is lost
            for reader in self._readers:
                (reader.notify_checkpoint_complete if completes else reader.notify_checkpoint_aborted)(number)

    def _fail(self, why: str, close: bool) -> None:
        self.drawn.story.append(f"attempt {self._attempt} fails: {why}")
        if close:
            self.close()
        else:  # their processes are gone; here what they hold is closed in the end
            self._killed += self._readers
        self._attempt += 1
        self._begin()

    def close(self) -> None:
        """Close the readers."""
        for reader in (*self._readers, *self._killed):
            reader.close()
        self._readers, self._killed = [], []


# ---- The contract test kit for sinks: checkpoints that are aborted or lost, killed writers, commits cut off and
# repeated.


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
        """Writers whose processes are gone; their resources are released in the end."""
        self._begin()

    def _cut(self, requests: int) -> int | None:
        """Return the number of committed requests before the driver dies; ``None``: it lives."""
        if not self._cuts_left or self._drawn.chance.random() > 0.25:
            return None
        self._cuts_left -= 1
        kept = self._drawn.chance.randint(0, requests)
        self._drawn.story.append(f"the driver dies after {kept} of {requests} commits")
        return kept

    def _begin(self) -> None:
        """Begin an attempt: commit the output of the checkpoint, restore the writers, rewind the source."""
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
        """Compare visible records with committed ones."""
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
