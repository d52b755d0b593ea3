"""Records on their way from the tasks to the program that iterates over them."""

from __future__ import annotations

import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from funken.operators.coordinators.base import OperatorCoordinator, OperatorCoordinatorContext
from funken.timing.clock import until

_COLLECT_BLOCKS, _BLOCK_RECORDS = 64, 2000


class Collector:
    """Records on their way to the program: a queue that is bounded in blocks and in records, so that a slow reader slows the job.

    No wait is unbounded: ``close`` wakes a writer that waits for room, and either end wakes the reader.
    """

    def __init__(self) -> None:
        self.limit: float = _COLLECT_BLOCKS
        """How many blocks may wait, or as many records as so many blocks of 2000 have."""
        self._blocks: deque[list[Any]] = deque()
        self._records = 0
        self._changed = threading.Condition()
        self._closed = False
        self._ended = False
        self.handed_on = False
        """Whether there were records for the reader, who may have them."""

    def put(self, records: list[Any], given_up: Callable[[], bool] = bool) -> None:
        """Add a block; waits for room, unless the reader has closed or the attempt that it is from was abandoned."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or given_up() or self._has_room())
            if not self._closed and not given_up():
                self._blocks.append(records)
                self._records += len(records)
                self.handed_on = True
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._blocks) < self.limit and self._records < self.limit * _BLOCK_RECORDS

    def wake(self) -> None:
        """Wake all waiting threads to check their condition again."""
        with self._changed:
            self._changed.notify_all()

    def end(self) -> None:
        """Notify the reader that no more records follow."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """The reader left: drop what is there and what comes."""
        with self._changed:
            self._closed = True
            self._blocks.clear()
            self._records = 0
            self._changed.notify_all()

    @property
    def pending(self) -> int:
        """How many records wait for the reader."""
        return self._records

    def waiting(self) -> bool:
        """Whether ``get`` would return a block at once."""
        with self._changed:
            return bool(self._blocks)

    def get(self) -> list[Any] | None:
        """Wait for the next block; ``None`` at the end."""
        with self._changed:
            until(self._changed, lambda: bool(self._blocks) or self._ended or self._closed)
            if not self._blocks:
                return None
            block = self._blocks.popleft()
            self._records -= len(block)
            self._changed.notify_all()
            return block


_SHARED = "collectors"


class Collectors:
    """The collectors of a job, by the name of their sink, made when they are first asked for; they outlive attempts.

    >>> collectors = Collectors()
    >>> collectors["sums"].put([1, 2])
    >>> collectors.close_others(["sums"])  # nobody reads the rest
    >>> collectors["counts"].put([3])
    >>> collectors.end()
    >>> list(iter(collectors["sums"].get, None)), collectors["counts"].get()
    ([[1, 2]], None)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, Collector] = {}
        self._closed = self._ended = False

    @staticmethod
    def of(shared: dict[str, Any]) -> Collectors:
        """Return those of the job that ``shared`` of a coordinator's context belongs to."""
        collectors: Collectors = shared.setdefault(_SHARED, Collectors())
        return collectors

    def share(self, shared: dict[str, Any]) -> None:
        """Be those of the coordinators that share this."""
        shared[_SHARED] = self

    def __getitem__(self, name: str) -> Collector:
        with self._lock:
            if name not in self._made:
                self._made[name] = collector = Collector()
                if self._closed:
                    collector.close()
                elif self._ended:
                    collector.end()
            return self._made[name]

    def _all(self) -> list[Collector]:
        with self._lock:
            return list(self._made.values())

    @property
    def handed_on(self) -> bool:
        """Whether some reader may have records, which another attempt from the beginning would give it again."""
        return any(collector.handed_on for collector in self._all())

    def end(self) -> None:
        """Notify every reader that no more records follow."""
        self._ended = True
        for collector in self._all():
            collector.end()

    def close(self) -> None:
        """Nobody reads any more."""
        self.close_others(())

    def close_others(self, names: Iterable[str]) -> None:
        """Close all but these: nobody will read them."""
        kept = {name: self[name] for name in names}
        self._closed = True
        for collector in self._all():
            if collector not in kept.values():
                collector.close()


# ---- The coordinators of ``print()`` and of collected streams: output that appears where the program runs.


_LOCK = "print lock"


class PrintCoordinator(OperatorCoordinator):
    """Writes the lines of a print sink to standard output; those of a block stay together.

    >>> PrintCoordinator(OperatorCoordinatorContext("print")).handle_output(0, ["1> to be", "1> or not"])
    1> to be
    1> or not
    """

    def __init__(self, context: OperatorCoordinatorContext) -> None:
        super().__init__(context)
        self._lock: threading.Lock = context.shared.setdefault(_LOCK, threading.Lock())
        self._records = 0

    def metrics(self) -> dict[str, int | float]:
        """Return how many records were written."""
        return {"numRecordsIn": self._records}

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Write lines."""
        with self._lock:
            self._records += len(payload)
            sys.stdout.write("".join(line + "\n" for line in payload))
            sys.stdout.flush()


class CollectCoordinator(OperatorCoordinator):
    """Puts the records of a collecting sink, which come pickled, where the program reads them; waits for a slow reader."""

    def __init__(self, context: OperatorCoordinatorContext, name: str) -> None:
        super().__init__(context)
        self._collector = Collectors.of(context.shared)[name]
        self._abandoned = False
        self._lock = threading.Lock()
        self._records = 0

    def metrics(self) -> dict[str, int | float]:
        """Return how many records came, and how many of them wait for the reader."""
        return {"numRecordsIn": self._records, "pendingRecords": self._collector.pending}

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Hand on records."""
        records = pickle.loads(payload)
        with self._lock:
            self._records += len(records)
        self._collector.put(records, lambda: self._abandoned)

    def abandon(self) -> None:
        """Let writers go that wait for a reader, which may read from another attempt."""
        self._abandoned = True
        self._collector.wake()


__all__ = ["CollectCoordinator", "Collector", "Collectors", "PrintCoordinator"]
