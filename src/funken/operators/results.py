"""What user functions produce, told apart into the main and the side outputs and sent on once per block.

A function returns ``None`` or an iterable. Of what it gives, a tuple whose first item is an ``OutputTag`` goes to the
side output of that name; everything else, also any other tuple, goes to the main output.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from funken.operators.base import Output
from funken.operators.tags import OutputTag


class Results:
    """The results of one block so far: values and their timestamps, ``MIN_TIMESTAMP`` for none.

    Hot loops append to ``values`` and ``stamps`` themselves; ``emit`` replaces both lists by new ones.
    """

    __slots__ = ("_sides", "stamps", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.stamps: list[int] = []
        self._sides: dict[str, tuple[list[Any], list[int]]] = {}

    def take(self, made: Iterable[Any] | None, at: int) -> None:
        """Take what a function returned for a record or timer."""
        if made is None:
            return
        for result in made:
            if isinstance(result, tuple) and result and isinstance(result[0], OutputTag):
                self.side(result, at)
            else:
                self.values.append(result)
                self.stamps.append(at)

    def side(self, pair: tuple[Any, ...], at: int) -> None:
        """Take a pair of tag and value."""
        tag, value = pair
        side = self._sides.get(tag.tag_id)
        if side is None:
            side = self._sides[tag.tag_id] = ([], [])
        side[0].append(value)
        side[1].append(at)

    def emit(self, output: Output, *, stamped: bool) -> None:
        """Send everything on, without timestamps if none of the results has one (``stamped`` is false)."""
        if self.values:
            values, stamps = self.values, self.stamps
            self.values, self.stamps = [], []
            output.emit(values, stamps if stamped else None)
        if self._sides:
            sides, self._sides = self._sides, {}
            for tag_id, (values, stamps) in sides.items():
                output.emit_side(tag_id, values, stamps if stamped else None)
