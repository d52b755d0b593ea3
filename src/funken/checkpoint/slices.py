"""The rest of a cut: state that belongs to it, and is pickled slice by slice while the task goes on.

All of it happens in the task's thread, between blocks of records. The frames of a slice go to those of their key group;
what is gone comes before all rows, since a slot may be in both (a window that fired and came again).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from funken.checkpoint.blobs import Change, encode
from funken.state.saving import Dumps, Held

Segments = dict[int, list[bytes]]
"""The frames of each key group, in pieces."""


_AT_ONCE = 5000


class OpenCut:
    """What is left to pickle of a cut whose segments are ``segments``; ``held`` has it by the section that it belongs to."""

    def __init__(self, held: Mapping[str, Held], segments: Segments, dumps: Dumps) -> None:
        self._savings = {section: part.saving for section, part in held.items()}
        self._steps = chain.from_iterable(part.steps for part in held.values())
        self._segments = segments
        self._dumps = dumps
        self._rows: Segments = {}
        self._gone: Segments = {}
        self.open = True
        for saving in self._savings.values():
            saving.spill = self._encode

    def step(self, rows: int) -> None:
        """Pickle what was touched, and about so many more rows."""
        for _ in self._steps:
            if sum(saving.count for saving in self._savings.values()) >= rows:
                break
        else:
            self.open = False
        self._encode()
        if not self.open:
            for group, pieces in chain(self._gone.items(), self._rows.items()):
                self._segments.setdefault(group, []).extend(pieces)

    def finish(self) -> None:
        """Pickle all that is left."""
        while self.open:
            self.step(_AT_ONCE)

    def _encode(self) -> None:
        for section, saving in self._savings.items():
            rows, gone = saving.take()
            for group, tables in rows.items():
                pieces = self._rows.setdefault(group, [])
                pieces += [
                    encode(section + name, Change(False, found, ()), self._dumps) for name, found in tables.items()
                ]
            for group, tables in gone.items():
                pieces = self._gone.setdefault(group, [])
                pieces += [
                    encode(section + name, Change(False, (), found), self._dumps) for name, found in tables.items()
                ]
