"""The results of user functions, separated into main and side outputs and emitted once per block.

A function returns ``None`` or an iterable. Of what it gives, a tuple whose first item is an ``OutputTag`` goes to the
side output of that name; everything else, also any other tuple, goes to the main output. Records that can be changed are
copied at once: the function may keep them, in state for example, and change them before the block goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any

from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Output
from funken.operators.context import OperatorContext
from funken.operators.tags import OutputTag
from funken.types.callables import check_several
from funken.types.copying import copied, copied_block


def shared(record: Any) -> Any:
    """Return the record itself: with object reuse nothing is copied."""
    return record


class Results:
    """The results of one block so far: values and their timestamps, ``MIN_TIMESTAMP`` for none.

    Hot loops append to ``values`` and ``stamps`` themselves what cannot be changed; ``emit`` replaces both lists by new
    ones. ``own`` and ``own_block`` return records that nobody else has.
    """

    __slots__ = ("_sides", "own", "own_block", "stamps", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.stamps: list[int] = []
        self.own: Callable[[Any], Any] = copied
        self.own_block: Callable[[list[Any]], list[Any]] = copied_block
        self._sides: dict[str, tuple[list[Any], list[int]]] = {}

    def configure(self, context: OperatorContext) -> None:
        """Share records with the function where the program says so."""
        if context.object_reuse:
            self.own = self.own_block = shared

    def take(self, made: Iterable[Any] | None, at: int) -> None:
        """Take what a function returned for a record or timer."""
        if made is None:
            return
        if type(made) is not list and type(made) is not GeneratorType:
            check_several(made)
        for result in made:
            self.add(result, at)

    def add(self, result: Any, at: int) -> None:
        """Take one result, for the main output or a side output."""
        if isinstance(result, tuple) and result and isinstance(result[0], OutputTag):
            self.side(result, at)
        else:
            self.values.append(self.own(result))
            self.stamps.append(at)

    def side(self, pair: tuple[Any, ...], at: int) -> None:
        """Take a pair of tag and value."""
        tag, value = pair
        side = self._sides.get(tag.tag_id)
        if side is None:
            side = self._sides[tag.tag_id] = ([], [])
        side[0].append(self.own(value))
        side[1].append(at)

    @property
    def stamped(self) -> bool:
        """Whether one of the results has a timestamp."""
        blocks = (self.stamps, *(side[1] for side in self._sides.values()))
        return any(
            stamps[0] != MIN_TIMESTAMP or stamps.count(MIN_TIMESTAMP) < len(stamps) for stamps in blocks if stamps
        )

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
