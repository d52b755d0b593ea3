"""Frames of OVER by keywords: ``col("v").sum.over(order_by="ts", partition_by="k", rows=(preceding(2), CURRENT_ROW))``."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.io.durations import duration_ms


@dataclass(frozen=True)
class FrameEnd:
    """One end of a frame: some rows or some time before or behind the current row; ``None`` is without bound."""

    direction: str
    distance: Any = None

    def __repr__(self) -> str:
        return self.direction if self.distance is None else f"{self.direction.lower()}({self.distance!r})"


CURRENT_ROW = FrameEnd("CURRENT ROW")
UNBOUNDED = FrameEnd("UNBOUNDED")


def preceding(distance: Any) -> FrameEnd:
    """Return the end of a frame before the current row: a number of rows, or a duration.

    >>> preceding(2), preceding("1 hour")
    (preceding(2), preceding('1 hour'))
    """
    return distance if isinstance(distance, FrameEnd) else FrameEnd("PRECEDING", distance)


def following(distance: Any) -> FrameEnd:
    """Return the end of a frame behind the current row: a number of rows, or a duration."""
    return distance if isinstance(distance, FrameEnd) else FrameEnd("FOLLOWING", distance)


@dataclass(frozen=True)
class OverFrame:
    """The rows of a partition that an aggregate is over, in a unit: ROW or RANGE."""

    unit: str
    lower: FrameEnd
    upper: FrameEnd

    def sql(self, literal: Callable[[Any], str]) -> str:
        """Return the frame as SQL; ``literal`` writes distances."""
        ends = f"{_sql(self.lower, 'PRECEDING', literal)} AND {_sql(self.upper, 'FOLLOWING', literal)}"
        return f"{'ROWS' if self.unit == 'ROW' else self.unit} BETWEEN {ends}"

    def shown(self) -> list[str]:
        """Return both ends as the text of an expression has them."""
        return [_shown(self.lower, self.unit), _shown(self.upper, self.unit)]


def frame_of(rows: Any, range_: Any) -> OverFrame:
    """Return a frame of a distance back to the current row, or of a pair of ends; without both, all rows up to the peers.

    Raises ``TypeError`` or ``ValueError`` for arguments that make no frame.
    """
    if rows is not None and range_ is not None:
        raise ValueError("rows and range are mutually exclusive; a frame counts rows, or it measures time.")
    unit = "ROW" if rows is not None else "RANGE"
    return OverFrame(unit, *_ends(rows if rows is not None else UNBOUNDED if range_ is None else range_, unit.lower()))


def _ends(given: Any, what: str) -> tuple[FrameEnd, FrameEnd]:
    if not isinstance(given, tuple):
        return _checked(given if isinstance(given, FrameEnd) else preceding(given), what), CURRENT_ROW
    if len(given) != 2:
        raise TypeError(f"{what} must be a distance, or a two-element tuple of ends, but got {given!r}.")
    for end in given:
        if hasattr(end, "sql"):
            raise TypeError(
                f"{what} got {end}, which is of the Table API. Use pyflink.dataframe.CURRENT_ROW and its kin."
            )
        if not isinstance(end, FrameEnd):
            raise TypeError(
                f"an end of {what} is preceding(n), following(n), CURRENT_ROW or UNBOUNDED, but got {end!r}."
            )
        counts = isinstance(end.distance, int) and not isinstance(end.distance, bool)
        if end.distance is not None and counts != (what == "row"):
            raise ValueError(
                f"{'rows' if what == 'row' else 'range'} bounds must use the same frame kind, but got {end!r}. rows counts rows, "
                "range measures time."
            )
    lower, upper = (_checked(end, what) for end in given)
    if lower.direction == "FOLLOWING" or upper.direction == "PRECEDING":
        raise ValueError(
            f"the lower bound of {what} is the current row or before it, and the upper bound the current row or behind it, but "
            f"got {given!r}."
        )
    return lower, upper


def _checked(end: FrameEnd, what: str) -> FrameEnd:
    """Return an end whose distance is a number of rows, or a duration; raises ``TypeError`` or ``ValueError`` otherwise."""
    distance = end.distance
    if distance is None:
        return end
    if what == "row":
        if isinstance(distance, bool) or not isinstance(distance, int):
            raise TypeError(f"rows are counted by an int, but got a {type(distance).__name__}: {distance!r}.")
        if distance < 1:
            raise ValueError(f"a number of rows must be larger than 0, but got {distance}. Use CURRENT_ROW for none.")
        return end
    if isinstance(distance, str | datetime.timedelta):
        try:
            milliseconds = duration_ms(distance)
        except InvalidProgram:
            raise ValueError(f"{distance!r} is no duration string; write '1 hour', say, or pass a timedelta.") from None
        return FrameEnd(end.direction, datetime.timedelta(milliseconds=milliseconds))
    if hasattr(distance, "sql"):  # an interval of the Table API
        return end
    raise TypeError(f"range is a duration string, a timedelta or an interval, but got {distance!r}.")


def _sql(end: FrameEnd, unbounded: str, literal: Callable[[Any], str]) -> str:
    if end is UNBOUNDED:
        return f"UNBOUNDED {unbounded}"
    return end.direction if end.distance is None else f"{literal(end.distance)} {end.direction}"


def _shown(end: FrameEnd, unit: str) -> str:
    if end.distance is not None:
        return str(end.distance)
    return f"{'UNBOUNDED' if end is UNBOUNDED else 'CURRENT'}_{unit}"
