"""Materialization: the state of a snapshot that is pickled step by step while the task processes records.

All of it happens in the task's thread, between blocks of records. The frames of a step go to those of their key group;
what is gone comes before all rows, since a slot may be in both (a window that fired and came again).

Nothing here refers back to what refers to it: a cycle would keep the bytes of a snapshot until Python's cyclic collector
passes, which in a job of few records is a hundred checkpoints later.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain

from funken.checkpoint.store.blobs import Change, encode_frames
from funken.state.snapshot_writer import Dumps, PendingSection, SnapshotWriter

Segments = dict[int, list[bytes]]
"""The frames of each key group, in pieces."""


_AT_ONCE = 5000


class Materialization:
    """The state of a snapshot that is not pickled yet, by section in ``pending``; its frames go to ``segments``."""

    def __init__(self, pending: Mapping[str, PendingSection], segments: Segments, dumps: Dumps) -> None:
        self._writers = {section: part.writer for section, part in pending.items()}
        self._steps = chain.from_iterable(part.steps for part in pending.values())
        self._segments = segments
        self._frames = _Frames(dumps)
        self.open = True
        for section, writer in self._writers.items():
            writer.spill = partial(self._frames.add, section)

    def step(self, rows: int) -> None:
        """Pickle the rows that were preserved, and about so many more."""
        for _ in self._steps:
            if sum(writer.count for writer in self._writers.values()) >= rows:
                break
        else:
            self.open = False
        for section, writer in self._writers.items():
            self._frames.add(section, writer)
        if not self.open:
            self._frames.move_to(self._segments)

    def finish(self) -> None:
        """Complete the materialization."""
        while self.open:
            self.step(_AT_ONCE)


class _Frames:
    """What is pickled so far, by key group: what is gone and rows apart."""

    def __init__(self, dumps: Dumps) -> None:
        self._dumps = dumps
        self._rows: Segments = {}
        self._gone: Segments = {}

    def add(self, section: str, writer: SnapshotWriter) -> None:
        """Pickle what a writer has."""
        rows, gone = writer.take()
        for group, tables in rows.items():
            pieces = self._rows.setdefault(group, [])
            pieces += [
                encode_frames(section + name, Change(False, found, ()), self._dumps) for name, found in tables.items()
            ]
        for group, tables in gone.items():
            pieces = self._gone.setdefault(group, [])
            pieces += [
                encode_frames(section + name, Change(False, (), found), self._dumps) for name, found in tables.items()
            ]

    def move_to(self, segments: Segments) -> None:
        """Append all of it, what is gone first."""
        for group, pieces in chain(self._gone.items(), self._rows.items()):
            segments.setdefault(group, []).extend(pieces)
        self._gone, self._rows = {}, {}
