"""The contract test kit for sources (``sink_contracts.py`` has that for sinks): reads them through failures, and counts.

Each run is drawn from a seed, so it can be repeated: parallelism, the size of blocks, checkpoints that complete, are aborted or
are lost, restores at another parallelism, commits that are cut off, repeated, or begin in another process. No job runs and
nothing sleeps, but for a reader that promised to wake its task.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from funken.connectors.base import Batch, NeedSplits, Source, SourceReader, SplitEnumerator, Wait
from funken.connectors.context import ConnectorContext
from funken.timing.waiting import came

STEPS = 20_000
_WAKE_SECONDS, _LATE_SECONDS = 30.0, 0.02


class ContractViolation(AssertionError):
    """A connector does not keep its contract; the message says what is lost or doubled, and in which run.

    >>> from funken import NumberSequenceSource
    >>> try:
    ...     check_source(NumberSequenceSource(1, 3), [1, 2], seeds=1)
    ... except ContractViolation as violation:
    ...     print(str(violation).partition(";")[0])
    seed 0, at the end: lost none, too many 1 (3 x 1)
    """


@dataclass
class DrawnRun:
    """One run: its seed, and what has happened, for the message of a violation."""

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


__all__ = ["STEPS", "ContractViolation", "DrawnRun", "check_source"]
