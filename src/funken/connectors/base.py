"""The two seams to the world: sources in splits, sinks in two phases.

A *source* is a frozen spec. Its *enumerator* lives on the driver, knows the splits and hands them out; its *readers*
live in the tasks and read splits. A split is plain data that carries its position, so that a snapshot of a reader is
the list of its splits. A *sink* is a frozen spec whose writers live in the tasks; what they prepare becomes visible
only when the driver's committer commits it: at a completed checkpoint, or when the job has succeeded.

Nothing here reads a clock: ``now`` (ms, processing time) arrives as an argument.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from funken.types.info import TypeInformation


class Boundedness(enum.Enum):
    """Whether a source ends by itself."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """Where a reader or writer runs: the operator's name, the subtask, and how many there are of them."""

    operator: str
    subtask: int
    parallelism: int
    job_id: str = "local"
    attempt: int = 0


@dataclass(slots=True)
class Batch:
    """Records of one split, in order; ``timestamps`` (ms) only if the source itself knows them."""

    values: list[Any]
    timestamps: list[int] | None = None
    split: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to read now; poll again in ``millis`` (a hint), or after new splits came."""

    millis: int = 5


class NeedSplits:
    """All splits of this reader are read: it wants more, or ends if there are no more."""


NEED_SPLITS = NeedSplits()


class SourceReader:
    """Reads splits inside a task. One instance per subtask; never blocks longer than a few ms."""

    def open(self) -> None:
        """Connect to whatever is read; raise ``SourceNotReadable`` if that fails."""

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these too, from the position they carry."""
        raise NotImplementedError

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return up to about ``limit`` records of one split, or say why there are none."""
        raise NotImplementedError

    def split_finished(self) -> list[str]:
        """Return the ids of splits that ended since the last call (their watermark stops counting)."""
        return []

    def snapshot(self) -> list[Any]:
        """Return the unfinished splits with their positions."""
        raise NotImplementedError

    def close(self) -> None:
        """Release everything; runs also after a failure."""


class SplitEnumerator:
    """Knows the splits of a source; lives on the driver."""

    discovery_interval: int | None = None
    """Call ``discover`` this often (ms); ``None``: never."""

    def start(self) -> None:
        """Look at what is to be read; raise ``SourceNotReadable`` now rather than in a task."""

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return splits for a subtask that has none left: ``[]`` means not now, ``None`` means never again."""
        raise NotImplementedError

    def discover(self, now: int) -> bool:
        """Look for new splits; true if there are any to hand out."""
        return False

    def snapshot(self) -> Any:
        """Return the splits not yet handed out, and what else discovery needs."""
        return None

    def restore(self, snapshot: Any) -> None:
        """Take back what ``snapshot`` returned, instead of ``start``."""


class StaticSplits(SplitEnumerator):
    """Splits known beforehand: subtask ``i`` gets ``splits[i::parallelism]`` at its first request, and then no more.

    The snapshot is what was not handed out, so that it can be restored at another parallelism.
    """

    def __init__(self, splits: Sequence[Any], parallelism: int) -> None:
        self._shares = [list(splits[subtask::parallelism]) for subtask in range(parallelism)]

    def next_splits(self, subtask: int) -> list[Any] | None:
        """Return the subtask's share once."""
        share, self._shares[subtask] = self._shares[subtask], []
        return share or None

    def snapshot(self) -> Any:
        """Return the splits not handed out, each with the subtask it is meant for."""
        return [(subtask, split) for subtask, share in enumerate(self._shares) for split in share]

    def restore(self, snapshot: Any) -> None:
        """Hand out only these; the readers have the others."""
        self._shares = [[] for _ in self._shares]
        for subtask, split in snapshot:
            self._shares[subtask % len(self._shares)].append(split)


class Source:
    """A declared source; subclasses are frozen dataclasses."""

    boundedness: Boundedness = Boundedness.BOUNDED
    max_parallelism: int | None = None
    """The most subtasks that can read it (1 for a collection); ``None``: any number."""

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator, on the driver."""
        raise NotImplementedError

    def reader(self, context: ReaderContext) -> SourceReader:
        """Make a reader, in a task."""
        raise NotImplementedError


class SinkWriter:
    """Writes the records of one subtask."""

    def open(self) -> None:
        """Connect; raise ``SinkNotWritable`` if that fails."""

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Write a block."""
        raise NotImplementedError

    def flush(self) -> None:
        """Make what was written safe from a crash of this process, as far as the system can."""

    def prepare_commit(self, end_of_input: bool) -> list[Any]:
        """Close the current transaction and return what is to be committed, as plain data."""
        return []

    def close(self) -> None:
        """Release everything, keep what is prepared; runs also after a failure."""


class Sink:
    """A declared sink; subclasses are frozen dataclasses."""

    def of_type(self, type_info: TypeInformation | None) -> Sink:
        """Return the sink for records of a declared type (``None``: any); it matters to those that write text."""
        return self

    def check(self) -> None:
        """Look, on the driver and before anything runs, whether the sink can work; raise ``SinkNotWritable``."""

    def writer(self, context: ReaderContext) -> SinkWriter:
        """Make a writer, in a task."""
        raise NotImplementedError

    def commit(self, committables: Sequence[Any]) -> None:
        """Make prepared data visible, on the driver; committing twice must be harmless."""

    def abort(self, committables: Sequence[Any]) -> None:
        """Drop prepared data of an attempt that failed."""
