"""What the functions that are read, and call each other, share: how far they were followed, and what they may change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from funken.columnar.expressions import Expression, NotVectorizable, RecordSchema

_MOST_STEPS = 2000


class Steps:
    """How many instructions were followed, in a function and all it calls."""

    def __init__(self) -> None:
        self.taken = 0
        self.depth = 0
        self.loops = 0
        self.catches = False
        #: the records that the function alone has, so that it may change them
        self.own: list[Expression] = []
        #: that of the first argument, if it is known
        self.schema: RecordSchema | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Go into a loop, or a function: nothing that was made outside is changed there."""
        outer, self.own = self.own, []
        try:
            yield
        finally:
            self.own = outer

    def count(self) -> None:
        """Count one; raise ``NotVectorizable`` if there are too many."""
        self.taken += 1
        if self.taken > _MOST_STEPS:
            raise NotVectorizable("branches too often")


__all__ = ["Steps"]
