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
from funken.operators.base import OperatorContext, Output, OutputTag
from funken.operators.user_functions import Several
from funken.timing.clock import Clock
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

    __slots__ = ("_sides", "check", "own", "own_block", "stamps", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.stamps: list[int] = []
        self.own: Callable[[Any], Any] = copied
        self.own_block: Callable[[list[Any]], list[Any]] = copied_block
        self.check: Callable[[Any], None] = check_several
        self._sides: dict[str, tuple[list[Any], list[int]]] = {}

    def configure(self, context: OperatorContext) -> None:
        """Share records with the function where the program says so."""
        self.check = Several(context.warn)
        if context.object_reuse:
            self.own = self.own_block = shared

    def take(self, made: Iterable[Any] | None, at: int) -> None:
        """Take a function's results for a record or timer."""
        if made is None:
            return
        if type(made) is not list and type(made) is not GeneratorType:
            self.check(made)
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
        try:
            side = self._sides.get(tag.tag_id)
        except AttributeError:
            raise TypeError(
                f"ctx.output() needs an OutputTag, but got {tag!r:.60}. Give OutputTag({tag!r:.60})."
            ) from None
        if side is None:
            side = self._sides[tag.tag_id] = ([], [])
        side[0].append(self.own(value))
        side[1].append(at)

    @property
    def stamped(self) -> bool:
        """True if one of the results has a timestamp."""
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


# ---- How many records an operator processes before it reads the clock again.
#
# A stride takes about 1 ms at the pace of the one before it, or doubles; a first one is a single record. So between
# two looks at the clock there is 1 ms or one record, whatever is longer, as long as the pace does not change.


FEW = 64
"""The longest stride while a timer is registered: it may fire so many records late, when slow ones follow fast ones."""

MANY = 1 << 20
"""The longest stride while no timer is registered."""

_MILLIS = 1


class Stride:
    """The length of the next stride.

    >>> stride = Stride()
    >>> lengths = []
    >>> for _ in range(6):
    ...     lengths.append(stride.records)
    ...     stride.took(stride.records, 0, FEW)
    >>> lengths, stride.took(16, 4, FEW), stride.records, stride.took(4, 40_000, FEW), stride.records
    ([1, 2, 4, 8, 16, 32], None, 4, None, 1)
    """

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = 1

    def took(self, records: int, millis: int, most: int) -> None:
        """Follow a stride of so many records that took so many ms."""
        if millis > _MILLIS:
            self.records = max(1, records * _MILLIS // millis)
        elif records == self.records:
            self.records *= 2
        self.records = min(self.records, most)


class TaskTime:
    """The processing time of a task: ``latest`` is the last result of ``read``, for frequent uses within a stride."""

    __slots__ = ("_now", "latest")

    def __init__(self, clock: Clock) -> None:
        self._now: Callable[[], int] = clock.now
        self.latest = self._now()

    def read(self) -> int:
        """Read the clock (ms since the epoch)."""
        self.latest = now = self._now()
        return now
