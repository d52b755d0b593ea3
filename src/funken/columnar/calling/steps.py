"""What the functions that are read, and call each other, share: how far they were followed, and what they may change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

from funken.columnar.expressions import Expression, NotVectorizable
from funken.expr.types import Type

_MOST_STEPS = 2000
_MOST_PATHS = 128
"""A function of ``flat_map`` has so many ways through it: each is compared with all that came before it."""


class Steps:
    """How many instructions were followed, in a function and all it calls."""

    def __init__(self) -> None:
        self.taken = 0
        self.paths = 0
        #: the code of the functions that are being followed
        self.codes: list[CodeType] = []
        self.depth = 0
        self.loops = 0
        self.catches = False
        #: the records that the function alone has, so that it may change them
        self.own: list[Expression] = []
        #: arguments that are never ``None`` where they are read
        self.present: frozenset[Expression] = frozenset()
        #: that of the first argument, if it is known
        self.schema: Type | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Go into a loop, or a function: nothing that was made outside is changed there."""
        outer, self.own = self.own, []
        try:
            yield
        finally:
            self.own = outer

    def count(self, steps: int = 1) -> None:
        """Count steps; raise ``NotVectorizable`` if there are too many."""
        self.taken += steps
        if self.taken > _MOST_STEPS:
            raise NotVectorizable("branches too often")

    def end(self) -> None:
        """Count a way through the function; raise ``NotVectorizable`` if there are too many."""
        self.paths += 1
        if self.paths > _MOST_PATHS:
            raise NotVectorizable("branches too often")

    @contextmanager
    def within(self, code: CodeType, name: str) -> Iterator[None]:
        """Go into a function that is called; raise ``NotVectorizable`` if it is being followed: it may call itself for ever."""
        if code in self.codes:
            raise NotVectorizable(f"calls {name}(), which calls itself")
        self.codes.append(code)
        try:
            with self.inside():
                yield
        finally:
            self.codes.pop()


__all__ = ["Steps"]
