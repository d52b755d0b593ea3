"""The sinks of simulated programs, and what tells whether each result came exactly once.

Either a sink keeps its transactions in a ``Ledger``, which stands for a database and survives every crash; or it is the real
``FileSink`` on files in memory, and a ``FileLedger`` reads what has become visible.
"""

from __future__ import annotations

import ast
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from funken import Encoder, FileSink
from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.files.compaction import FileCommitter, FileCompactStrategy
from funken.connectors.files.sink import BucketAssigner
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass
class Ledger:
    """Transactions by id: prepared ones, and committed ones, which are for ever."""

    prepared: dict[str, list[Any]] = field(default_factory=dict)
    committed: dict[str, list[Any]] = field(default_factory=dict)
    #: asked before each transaction is committed; it may raise
    fault: Callable[[], None] = lambda: None
    _transactions: int = 0

    def prepare(self, values: list[Any]) -> str:
        """Keep values of a transaction; return its id."""
        self._transactions += 1
        name = f"transaction {self._transactions}"
        self.prepared[name] = values
        return name

    def commit(self, transactions: Sequence[str]) -> None:
        """Commit; harmless if it was done before."""
        for name in transactions:
            if name not in self.committed:
                self.fault()
                if name not in self.prepared:
                    raise Violation(f"{name} is to be committed, but it was given up")
                self.committed[name] = self.prepared.pop(name)

    def give_up(self) -> None:
        """Drop everything that is not committed, as a database does with the transactions of who is gone."""
        self.prepared.clear()

    def results(self) -> Counter[Any]:
        """Count the results that are visible."""
        return Counter(value for values in self.committed.values() for value in values)

    def sink(self, name: str, tag: int) -> Sink:
        """Make a sink that writes here; ``name`` is the one that ``LEDGERS`` knows the ledger by."""
        return LedgerSink(name, tag)


LEDGERS: dict[str, Ledger] = {}
"""By name: a sink travels to its tasks by pickling, a ledger does not."""


@dataclass(frozen=True)
class LedgerSink(Sink):
    """Two-phase commit into a ledger; ``tag`` tells the sinks of a program apart."""

    ledger: str
    tag: int = 0

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return LedgerWriter(LEDGERS[self.ledger], self.tag)

    def committer(self, context: CommitterContext) -> Committer:
        """Make the committer."""
        return LedgerCommitter(LEDGERS[self.ledger])


class LedgerCommitter(Committer):
    """Commits into a ledger, which knows whether a transaction was committed before."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit transactions."""
        self._ledger.commit([request.committable for request in requests])

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Drop transactions."""
        for request in requests:
            self._ledger.prepared.pop(request.committable, None)


class LedgerWriter(SinkWriter):
    """Writes into the open transaction of one subtask."""

    def __init__(self, ledger: Ledger, tag: int) -> None:
        self._ledger = ledger
        self._tag = tag
        self._open: list[Any] = []

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Add to the transaction."""
        self._open += [(self._tag, value) for value in values]

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Close the transaction."""
        if not self._open:
            return []
        values, self._open = self._open, []
        return [self._ledger.prepare(values)]


# ---- files

_COMPACT = (None, FileCompactStrategy(num_checkpoints=2), FileCompactStrategy(size_threshold=200))


class FileLedger(Ledger):
    """The visible files below a folder, each of which is read once; ``seed`` decides whether small ones are put together."""

    def __init__(self, folder: str, fault: Callable[[], None] = lambda: None, seed: int = 0) -> None:
        super().__init__(fault=fault)
        self._folder = folder
        self._compact = _COMPACT[seed % len(_COMPACT)]

    def results(self) -> Counter[Any]:
        """Count the results that are visible; raises ``Violation`` if a file that was visible is not any more."""
        there: set[str] = set()
        for folder, _, names in os.walk(self._folder):
            there |= {os.path.join(folder, name) for name in names if not name.startswith(".")}
        if self.committed.keys() - there:
            raise Violation(f"these files were visible and are gone: {sorted(self.committed.keys() - there)}")
        for path in there - self.committed.keys():
            tag = int(os.path.basename(os.path.dirname(path)))
            with open(path, encoding="utf-8") as file:
                self.committed[path] = [(tag, ast.literal_eval(line)) for line in file]
        return super().results()

    def sink(self, name: str, tag: int) -> Sink:
        """Make a file sink."""
        base = os.path.join(self._folder, str(tag))
        return WatchedFiles(
            base, Lines(), BucketAssigner.base_path_bucket_assigner(), compact_strategy=self._compact, ledger=name
        )


class Lines(Encoder):
    """A record per line, as Python writes it."""

    def encode(self, values: list[Any]) -> bytes:
        """Return the lines of a block."""
        return "".join(f"{value!r}\n" for value in values).encode()


@dataclass(frozen=True)
class WatchedFiles(FileSink):
    """A file sink whose commits may fail."""

    ledger: str = ""

    def committer(self, context: CommitterContext) -> FileCommitter:
        """Make the committer."""
        return WatchedFileCommitter(self)


class WatchedFileCommitter(FileCommitter):
    """Commits one file after the other, and may fail before each."""

    def __init__(self, sink: WatchedFiles) -> None:
        super().__init__(sink.base_path)
        self._ledger = sink.ledger

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Give pending files their names."""
        for request in requests:
            LEDGERS[self._ledger].fault()
            super().commit([request])


def memory_folder() -> str:
    """Return a folder for files that nobody wants to wait for a disk for."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
