"""Lengths of time that are a few milliseconds: a number was given where seconds were meant.

Nothing fails: windows hold one record each, joins find nothing. An operator declares its lengths of event time as a trait;
they are warned of if the first timestamps are of today, and not small numbers of an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from funken.columnar.block import Block
from funken.io.durations import FEW_MS, OF_TODAY, in_ms
from funken.operators.base import OperatorContext


def watch_units(context: OperatorContext, lengths: Iterable[tuple[str, int]]) -> Callable[[Block], bool] | None:
    """Return a function that looks at blocks until one has a timestamp, and then returns True; ``None`` if all is well."""
    few = [(fact, length) for fact, length in lengths if 0 < length <= FEW_MS]

    def look(block: Block) -> bool:
        if block.timestamps is None or not len(block):
            return False
        for fact, length in few if block.timestamps[0] > OF_TODAY else ():
            context.warn(f"units: {fact}", in_ms(fact, length))
        return True

    return look if few else None
